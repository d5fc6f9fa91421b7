# SPDX-License-Identifier: Apache-2.0
"""Keys and their files: what they show, derive and refuse; the encoding of what they hash."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import stat
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import tiers
from fresh import python
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast
from dpfast import DiscreteLaplace, Key, KeyFile, ReleaseKey
from dpfast.errors import DTypeError, EntropyError, FileError, InsecureKeyWarning, ParameterError
from dpfast.noise.release.secret import encode
from dpfast.testing import FixedKey, FixedReleaseKey, fixed_key

SECRET = bytes(range(100, 132))
MECH = DiscreteLaplace(1, 10**6)  # two independent draws are equal once in four million


def master() -> Key:
    return Key.from_bytes(SECRET)


# ------------------------------------------------------------------ keys


def test_generated_keys_are_new() -> None:
    keys = [Key.generate() for _ in range(50)]
    assert len({bytes(key) for key in keys}) == 50
    assert all(type(key) is Key and len(bytes(key)) == 32 for key in keys)


def test_a_key_goes_through_bytes() -> None:
    assert bytes(master()) == SECRET
    again = Key.from_bytes(bytes(master()))
    assert again == master()
    assert again.derive("x") == master().derive("x")


@pytest.mark.parametrize("length", [0, 1, 16, 31, 33, 64])
def test_keys_of_another_length_are_refused(length) -> None:
    with pytest.raises(ParameterError, match=f"32 bytes, got {length}$") as caught:
        Key.from_bytes(b"q" * length)
    assert "qq" not in str(caught.value)


GUESSED = {
    "zeros": bytes(32), "ones": b"\xff" * 32, "letters": b"q" * 32, "a pass phrase": b"correct horse battery staple 123",
    "hexadecimal": b"0123456789abcdef" * 2, "a line": b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY="[:31] + b"\n",
}  # fmt: skip


@pytest.mark.parametrize("secret", GUESSED.values(), ids=GUESSED)
def test_bytes_that_nobody_drew_are_no_key(secret, tmp_path) -> None:
    """A crash leaves zeros, and a password is text: anybody could take the noise off."""
    known = "32 equal bytes" if len(set(secret)) == 1 else "all text, such as a password"
    file = tmp_path / "visits.key"
    file.write_bytes(secret)
    file.chmod(0o600)
    for make, error in (
        (lambda: Key.from_bytes(secret), ParameterError),
        (lambda: KeyFile(file), FileError),
        (lambda: ReleaseKey(secret, "visits"), ParameterError),
        (lambda: FixedKey(secret), ParameterError),
    ):
        with pytest.raises(error, match=f"drawn at random, (and it is|but contains) {known}") as caught:
            make()
        assert secret.decode("latin-1")[:4] not in str(caught.value)


@pytest.mark.parametrize("byte", [0, 255, 127, 31, 128])
def test_one_byte_that_is_no_text_makes_no_password(byte) -> None:
    assert Key.from_bytes(b"q" * 31 + bytes([byte])) != master()


@pytest.mark.parametrize(
    "bad", [bytearray(32), memoryview(bytes(32)), "q" * 32, 7, None, [0] * 32, np.zeros(32, np.uint8)], ids=type
)
def test_keys_of_another_type_are_refused(bad) -> None:
    with pytest.raises(DTypeError, match=f"bytes, not {type(bad).__name__}$"):
        Key.from_bytes(bad)


def test_no_text_of_a_key_shows_its_secret(tmp_path) -> None:
    """repr, str and format show the label and some of the id, not four bytes of a secret."""
    key = master()
    derived = key.derive("2026 visits/count")
    fixed, file = fixed_key(7), KeyFile.create(tmp_path / "a.key")
    seal = derived.seal(MECH, [derived.digester(MECH)(0, [1, 2])], shape=(2,))
    shown = key, derived, fixed, fixed.derive("x"), file, seal, seal.without_ledger(), derived.digester(MECH)
    texts = [f"{x!r} {x!s} {x}" for x in shown]
    assert "2026 visits/count" in texts[1]
    assert key.id[:8] in texts[0]
    assert derived.id[:8] in texts[1]
    assert all("INSECURE" in text for text in texts[2:4])
    for holder, text in itertools.product((key, derived, fixed, fixed.derive("x"), file), texts):
        secret = tiers.secret_of(holder)
        assert not any(secret[i : i + 4].hex() in text.lower() for i in range(29))
        assert repr(secret)[2:10] not in text
    with pytest.raises(TypeError):
        bytes(derived)  # only a master key in memory is kept as bytes
    with pytest.raises(TypeError):
        bytes(file)


def test_the_id_is_no_part_of_the_secret() -> None:
    """128 bits of a keyed hash: they tell keys apart and nothing else."""
    ids = {Key.generate().id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(bytes.fromhex(each)) == 16 for each in ids)
    assert master().id == master().id
    assert master().derive("x").id != master().id


def test_keys_compare_and_hash() -> None:
    """By kind and secret; a fixed key is never equal to a real one of the same bytes."""
    assert master() == master()
    assert hash(master()) == hash(master())
    assert master() != Key.from_bytes(SECRET[::-1])
    assert master().derive("a") == master().derive("a")
    assert master().derive("a") != master().derive("b")
    assert master() != FixedKey(SECRET)
    assert FixedKey(SECRET).derive("a") != master().derive("a")
    assert master() != SECRET
    assert len({master(), master(), master().derive("a"), master().derive("a"), FixedKey(SECRET)}) == 3


def test_no_key_pickles(tmp_path) -> None:
    """Nor does it copy, nor a seal, which holds one: the message tells what to do instead."""
    made = Key.generate()
    key = made.derive("x")
    seal = key.seal(MECH, [key.digester(MECH)(0, [1])], shape=(1,))
    for held in (made, fixed_key(1), KeyFile.create(tmp_path / "a.key"), key, fixed_key(1).derive("x"), seal):
        tries: list[Callable[[], object]] = [
            *(
                lambda protocol=protocol: pickle.dumps(held, protocol)
                for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
            ),
            lambda: copy.copy(held),
            lambda: copy.deepcopy(held),
        ]
        for attempt in tries:
            with pytest.raises(TypeError, match="is not pickled.*: send"):
                attempt()


@pytest.mark.parametrize("bad", ["", None, 7, b"x", ["x"], "\ud800"], ids=repr)
def test_labels_are_text(bad) -> None:
    for key in (master(), fixed_key(1)):
        with pytest.raises(ParameterError, match="^label must be"):
            key.derive(bad)


def test_each_label_is_another_key() -> None:
    """Near labels too; nothing is trimmed, folded or normalised."""
    labels = ["a", "b", "A", "a ", " a", "aa", "a\0", "é", "e\u0301", "a" * 10**5, "visits/count", "visits", "\N{SNOWMAN}"]  # fmt: skip
    keys = [master().derive(label) for label in labels]
    assert len(set(keys)) == len({tiers.secret_of(key) for key in keys}) == len(labels)
    assert [key.label for key in keys] == labels
    assert all(type(key) is ReleaseKey for key in keys)
    assert tiers.secret_of(master().derive("a")) != SECRET


def test_fixed_keys_are_loud_types_of_their_own() -> None:
    """Reproducible by number, insecure by name, never what Key gives."""
    assert fixed_key(7) == fixed_key(7)
    assert fixed_key(7) != fixed_key(8)
    assert type(fixed_key(7)) is FixedKey
    assert type(fixed_key(7).derive("x")) is FixedReleaseKey
    assert not fixed_key(7).derive("x").secure
    assert master().derive("x").secure
    assert fixed_key(-(10**30)) != fixed_key(10**30)
    for bad in ("7", 7.0, None, True):
        with pytest.raises(DTypeError, match="^number must be an int"):
            fixed_key(bad)
    assert bytes(fixed_key(7)).hex() == "e05f6663bb6309d50c8339776e4a58e9a1c8b132dbb8b42c987b43eacc00b62f"


def test_a_key_without_entropy_is_an_error(monkeypatch) -> None:

    def refuse(n: int) -> bytes:
        raise OSError("no entropy")

    monkeypatch.setattr("secrets.token_bytes", refuse)
    with pytest.raises(EntropyError, match="gave no random key") as caught:
        Key.generate()
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize(
    "bad", [SECRET, "x", 7, Key.from_bytes(SECRET), fixed_key(1), ReleaseKey], ids=lambda bad: type(bad).__name__
)
def test_only_release_keys_key_a_release(bad) -> None:
    """A master key, bytes or text are refused, with a hint and without being shown."""
    with pytest.raises(DTypeError, match=r"^key must be a release key, such as Key\.generate\(\)\.derive") as caught:
        MECH.release([1], key=bad)
    assert SECRET.hex()[:8] not in str(caught.value)


# ------------------------------------------------------------------ files


def test_a_key_file_is_32_bytes_for_its_owner(tmp_path) -> None:
    """Whatever the umask; opening it gives the same key, by any path to it."""
    for umask in (0, 0o022, 0o077):
        before = os.umask(umask)
        try:
            made = KeyFile.create(tmp_path / f"{umask}.key")
        finally:
            os.umask(before)
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
        assert made.path.stat().st_size == 32
        assert (
            made == KeyFile(os.fsencode(made.path)) == KeyFile(made.path.parent / ".." / tmp_path.name / made.path.name)
        )
        assert made.derive("x") == Key.from_bytes(made.path.read_bytes()).derive("x")
        assert made != Key.from_bytes(made.path.read_bytes())  # another kind
    assert len({KeyFile(path).id for path in tmp_path.iterdir()}) == 3


def test_a_key_file_is_made_over_nothing(tmp_path) -> None:
    """Not over a file, a link to nowhere, a folder; and opening never makes one."""
    path = tmp_path / "visits.key"
    KeyFile.create(path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = path.read_bytes()
    for taken in (path, tmp_path / "link", tmp_path):
        with pytest.raises(FileError, match="exists; a key is never replaced"):
            KeyFile.create(taken)
    assert path.read_bytes() == before
    for missing in (tmp_path / "typo.key", tmp_path / "link"):
        with pytest.raises(FileError, match="does not exist: `dpfast key create"):
            KeyFile(missing)
    with pytest.raises(FileError):
        KeyFile.create("/")
    with pytest.raises(FileError, match="cannot make the key file"):
        KeyFile.create(tmp_path / "gone" / "a.key")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "visits.key"]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:31])


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/urandom")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncated, "must contain 32 bytes, but contains 31"),
        (longer, "must contain 32 bytes, but contains 33"),
        (lambda path: path.write_bytes(b""), "must contain 32 bytes, but contains 0"),
        (lambda path: path.chmod(0o640), "others may read or write .*chmod 600"),
        (lambda path: path.chmod(0o604), "others may read or write"),
        (lambda path: path.chmod(0o620), "others may read or write"),
        (lambda path: path.chmod(0o602), "others may read or write"),
        (folder, "is not a regular file"),
        (pipe, "is not a regular file"),
        (device, "is not a regular file"),
        (Path.unlink, "does not exist"),
    ],
)
def test_a_key_file_that_cannot_be_relied_on_is_refused(tmp_path, spoil, message) -> None:
    """At once: a pipe is not waited for. No message shows the secret."""
    path = KeyFile.create(tmp_path / "visits.key").path
    secret = path.read_bytes()
    spoil(path)
    with pytest.raises(FileError, match=message) as caught:
        KeyFile(path)
    assert secret.hex()[:8] not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_a_key_file_of_another_user_is_refused(tmp_path) -> None:
    """Who owns it may read it; a file of root's is right for everybody."""
    path = KeyFile.create(tmp_path / "visits.key").path
    os.chown(path, 12345, -1)
    with pytest.raises(FileError, match="belongs to another user"):
        KeyFile(path)


@pytest.mark.parametrize(("bad", "error"), [(7, DTypeError), (None, DTypeError), ("a\0b", ParameterError)], ids=repr)
def test_paths_of_key_files(bad, error) -> None:
    for attempt in (KeyFile, KeyFile.create):
        with pytest.raises(error, match="^path must"):
            attempt(bad)


def test_a_key_file_is_on_the_disk_when_it_is_made(tmp_path, monkeypatch) -> None:
    """The file is flushed, then its folder; a failure on the way leaves no half of a key."""
    flushed, fsync = [], os.fsync

    def watched(handle: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    KeyFile.create(tmp_path / "visits.key")
    made, where = flushed
    assert Path(made).name.startswith(".dpfast-")  # it is then given its name
    assert where == str(tmp_path)

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileError, match="No space left"):
        KeyFile.create(tmp_path / "other.key")
    assert [each.name for each in tmp_path.iterdir()] == ["visits.key"]


def test_many_make_one_key_file(tmp_path) -> None:
    """One of the processes that do so at once succeeds, and all then read the same key."""
    output = python(
        """
        import multiprocessing, sys
        import dpfast

        def work(_):
            try:
                dpfast.KeyFile.create(sys.argv[1])
                made = "made"
            except dpfast.errors.FileError:
                made = "refused"
            return made, dpfast.KeyFile(sys.argv[1]).id

        with multiprocessing.get_context("fork").Pool(8) as pool:
            found = pool.map(work, range(8), chunksize=1)
        print([made for made, _ in found].count("made"), len({each for _, each in found}))
        """,
        tmp_path / "visits.key",
    )
    assert output.split() == ["1", "1"]


# --------------------------------------------------------------- warnings and records of insecurity


def test_every_release_under_a_fixed_key_warns() -> None:
    """Each of them, at the caller's own line, small or large, and again; no other release does."""
    key = fixed_key(7).derive("x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (1, 3, 5000, 70_000):
            counts, mine = np.zeros(n, np.int64), Key.generate().derive("x")
            MECH.release(counts, key=key)
            MECH.release(counts, key=key)
            dpfast.Laplace(1, 1).release(np.zeros(n), key=fixed_key(7).derive("y"))
            MECH.release(counts, key=mine)
            MECH.release(counts)
    told = [(w.category, w.filename) for w in caught if w.category is not ResourceWarning]  # an earlier test's
    assert told == [(InsecureKeyWarning, __file__)] * 12
    assert issubclass(InsecureKeyWarning, UserWarning)


def test_where_the_warning_is_an_error_nothing_is_released() -> None:
    out = np.full(3, 77)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InsecureKeyWarning):
            MECH.release([1, 2, 3], key=fixed_key(7).derive("x"), out=out)
    assert out.tolist() == [77, 77, 77]


# ------------------------------------------------------------------ the encoding

fields = st.lists(st.binary(max_size=6) | st.text(max_size=6) | st.integers(), max_size=6)
alike = ["", "1", "11", b"1", b"", 1, 11, "\0" * 8, b"\1" + b"\0" * 7, encode("1")]


def canonical(values: Sequence[bytes | str | int]) -> tuple[bytes, ...]:
    return tuple(value if isinstance(value, bytes) else str(value).encode() for value in values)


def test_the_encoding_is_injective() -> None:
    """Lists of up to four such fields meet only if they are the same text, field for field."""
    met: dict[bytes, set[tuple[bytes, ...]]] = {}
    for length in range(5):
        for values in itertools.product(alike, repeat=length):
            met.setdefault(encode(*values), set()).add(canonical(values))
    assert {len(texts) for texts in met.values()} == {1}
    assert len({texts.pop() for texts in met.values()}) == len(met) > 1500


@given(fields)
@settings(max_examples=100, deadline=None)
def test_the_encoding_can_be_read_back(values) -> None:
    """Length, eight bytes little-endian, then the field: nothing depends on what is in it."""
    data, found = encode(*values), []
    while data:
        size = int.from_bytes(data[:8], "little")
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    assert tuple(found) == canonical(values)
