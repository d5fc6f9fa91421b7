# SPDX-License-Identifier: Apache-2.0
"""Keys: fresh, hidden, wiped, one for each label, and none in a forked child."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("no key from the system is taken for a key", "dpfast/_native.py", "if _entropy(self._bytes, 32) != 0:",
           "if _entropy(self._bytes, 32) > 0:", "test_failure.py -k getrandom"),
    Mutant("a release key is pickled", "dpfast/noise/release/secret.py", "def __reduce__(self) -> str:", "def reduced(self) -> str:",
           "test_key.py -k no_key_pickles"),
    Mutant("what a key file's worker holds travels with its secret", "dpfast/noise/release/secret.py", "(protocol) if self._how is None else", "(protocol) if self else",
           "test_seal_workers.py -k path"),
    Mutant("a worker takes any key", "dpfast/noise/release/secret.py", "if found.id != key_id:", "if False:", "test_seal_workers.py -k another_key_or_version"),
    Mutant("a forked child has the keys", "dpfast/noise/release/secret.py", "            secret._blank()  # noqa: SLF001", "            pass",
           "test_processes.py -k has_no_key"),
    Mutant("of two equal keys a forked child has one", "dpfast/noise/release/secret.py", "    __eq__, __hash__ = object.__eq__, object.__hash__\n", "",
           "test_processes.py -k has_no_key"),
    Mutant("a fork resizes a key that is in use", "dpfast/noise/release/secret.py", "self._held[:] = bytes(len(self._held))", 'self._held[:] = b""',
           "test_processes.py -k has_no_key"),
    Mutant("a key file may be read by others", "dpfast/noise/release/secret.py", "if about.st_mode & 0o077:", "if False:", "test_key.py -k relied_on"),
    Mutant("a cache that others may write is read", "dpfast/noise/kernels/jit.py", "if open_to_others(folder, users) or not", "if not",
           "test_failure.py -k 'others_may_write or one_of_others'"),
    Mutant("kernels that others may write are read", "dpfast/noise/kernels/jit.py", "return not any(written_by_others(each, each.lstat(), users) for each in kept)", "return True",
           "test_failure.py -k others_may_write"),
    Mutant("zeros are a key", "dpfast/noise/release/secret.py", "    if not secret.strip(secret[:1]):", "    if False:", "test_key.py -k nobody_drew"),
    Mutant("a password is a key", "dpfast/noise/release/secret.py", "if not secret.strip(TEXT) else None", "if False else None", "test_key.py -k nobody_drew"),
    Mutant("a key file may hold zeros", "dpfast/noise/release/secret.py", "    if known := guessable(secret):\n        raise FileError(", "    if known := None:\n        raise FileError(",
           "test_key.py -k nobody_drew"),
    Mutant("every label has one key", "dpfast/noise/release/secret.py", '"release key", encoded)', '"release key")', "test_key.py -k compare_and_hash"),
    Mutant("a key file of another user is taken", "dpfast/noise/release/secret.py", "if about.st_uid not in (os.geteuid(), 0):", "if False:",
           "test_key.py -k another_user"),
    Mutant("rows in each key and rows in all are chosen by one function", "dpfast/noise/release/key.py", 'both = self._secret + keyed(self._secret, "choice of rows")', "both = self._secret * 2",
           "test_bounded_rows.py -k chooser_chooses"),
    Mutant("the choice of rows and the digests have one key", "dpfast/noise/release/key.py", 'Chooser(self._keyed("choice of bins")', 'Chooser(self._keyed("block digest")',
           "test_bounded_histogram.py -k key"),
    Mutant("a child draws under an empty key", "dpfast/noise/release/secret.py", "        if not self._held:\n            raise", "        if False:\n            raise",
           "test_processes.py -k has_no_key"),
    Mutant("a ledger pays under a fixed key", "dpfast/ledger/ledger.py", "        if not seal.secure:\n            raise", "        if False:\n            raise",
           "test_ledger_keys.py -k table_is_reserved_whole"),
    Mutant("an unknown type is a key file", "dpfast/noise/release/secret.py", "if not stat.S_ISREG(about.st_mode):", "if False:",
           "test_key.py -k relied_on"),
    Mutant("a key file may be longer", "dpfast/noise/release/secret.py", "secret = os.read(handle, LENGTH + 1)", "secret = os.read(handle, LENGTH)",
           "test_key.py -k relied_on"),
    Mutant("the key of digests stands among a traceback's locals", "dpfast/noise/release/seal.py", 'digest = block_digest(_by(self._key._keyed("block digest")), ', 'secret = self._key._keyed("block digest")\n            digest = block_digest(_by(secret), ',
           "test_nothing_private_is_shown.py -k locals"),
]  # fmt: skip
