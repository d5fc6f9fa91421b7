# SPDX-License-Identifier: Apache-2.0
"""What workers of a sealed release get: a path and no secret, a version, one thing to do."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import tiers
from fresh import python
from seals import MECH, cut, fresh, seal_of, sealed_of
from tiers import SEALED_ROWS

import dpfast
from dpfast import DTypeError, FileError, KeyFile, KeyReuseError, Ledger, ParameterError

WORKER = """
import pickle, sys
from dpfast import _native
exec(sys.argv[2])
try:
    sealed = pickle.loads(bytes.fromhex(sys.argv[1]))
    print(sealed.release(0, [1, 2, 3]).tolist())
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("spoil", "before", "message"),
    [
        ("", "", r"\[-?\d+, -?\d+, -?\d+\]$"),
        ("replaced", "", "FileError the key file .* holds another key than the one that 'visits' was sealed with$"),
        ("truncated", "", "FileError the key file .* must hold 32 bytes"),
        ("readable", "", "FileError others may read or write"),
        ("absent", "", "FileError the key file .* does not exist"),
        ("", "_native.STREAM_VERSION = 3", "ParameterError .* of stream version 2 .* the dpfast that began it; this one has 3 and 1"),
        ("", "from dpfast.release import seal; seal.VERSION = 2", "ParameterError .* this one has 2 and 2"),
    ],
    ids=["right", "another key", "truncated", "readable", "absent", "another stream", "another manifest"],
)  # fmt: skip
def test_a_worker_with_another_key_or_version(tmp_path: Path, spoil: str, before: str, message: str) -> None:
    """By name, before anything is read. The task holds no secret, and nothing derived from it."""
    file = KeyFile.create(tmp_path / "visits.key")
    sealed = sealed_of(file.derive("visits"), [1, 2, 3])
    task, right = pickle.dumps(sealed), sealed.release(0, [1, 2, 3]).tolist()
    secret = file.path.read_bytes()
    for held in (secret, *sealed._secrets, tiers.secret_of(file.derive("visits"))):
        assert held not in task
    if spoil == "readable":
        file.path.chmod(0o644)
    elif spoil:
        file.path.unlink()
    if spoil == "replaced":
        KeyFile.create(file.path)
    elif spoil == "truncated":
        file.path.touch(0o600)
        file.path.write_bytes(secret[:31])
    said = python(WORKER, task.hex(), before)
    assert re.match(message, said)
    assert spoil or before or said == f"{right}\n"


def test_a_key_file_that_was_replaced_is_noticed_by_the_driver(tmp_path: Path) -> None:
    """A ledger says that it is another key; nothing is charged again."""
    file = KeyFile.create(tmp_path / "visits.key")
    ledger = Ledger(tmp_path / "b.db", 1000, create=True)
    ledger.release(MECH, [1], key=file.derive("visits"))
    file.path.unlink()
    again = KeyFile.create(file.path)
    with pytest.raises(KeyReuseError, match="under another key"):
        ledger.release(MECH, [1], key=again.derive("visits"), resume=True)
    assert ledger.spent.epsilon == 1


def test_what_travels_of_a_key_file_is_its_path(tmp_path) -> None:
    """A plan or a log that holds what travels holds no secret; of a key in memory it does."""
    file = KeyFile.create(tmp_path / "visits.key")
    for key, told in ((file.derive("visits"), False), (fresh(), True)):
        sealed = sealed_of(key, np.arange(3))
        parts = {
            key.chooser(): lambda part: part.functions(),
            key.bucketer(7): lambda part: part([b"a", b"b"]),
            key.digester(MECH, clamp=(0, 9)): lambda part: part(0, [5, 12]),
            sealed: lambda part: part.release(0, np.arange(3)).tolist(),
        }
        for part, use in parts.items():
            travels = pickle.dumps(part)
            secrets = tiers.drawing(part) if part is sealed else [tiers.choosing(part)]
            assert any(secret in travels for secret in secrets) is told
            assert use(pickle.loads(travels)) == use(pickle.loads(pickle.dumps(pickle.loads(travels)))) == use(part)
    travels = pickle.dumps(file.derive("visits").chooser())
    file.path.unlink()
    KeyFile.create(file.path)
    with pytest.raises(FileError, match="holds another key"):
        pickle.loads(travels)


def test_what_travels_can_do_one_thing() -> None:
    """A digester and a sealed key pickle. A task has its own digests, and draws its own blocks."""
    key, values = fresh(), np.arange(3 * SEALED_ROWS)
    digester = pickle.loads(pickle.dumps(key.digester(MECH, missing=None, clamp=(0, 9))))
    assert digester(1, [5, 12]) == key.digester(MECH, clamp=(0, 9))(1, [5, 9])
    sealed = sealed_of(key, values)
    one = pickle.loads(pickle.dumps(sealed.only(1)))
    assert pickle.loads(pickle.dumps(key.bucketer(7)))([b"a"]) == key.bucketer(7)([b"a"])
    assert len(pickle.dumps(sealed.only(1))) < len(pickle.dumps(sealed))
    assert (one.release(1, cut(values)[1]) == sealed.release(1, cut(values)[1])).all()
    for attempt in (lambda: one.release(0, cut(values)[0]), lambda: one.only(2), lambda: sealed.release(3, values[:0])):
        with pytest.raises(ParameterError, match="^block must be one that this sealed key draws"):
            attempt()
    for options in ({"key": key}, {"resume": True}):
        with pytest.raises(ParameterError, match="^key and resume must be left out"):
            sealed.release(0, cut(values)[0], **options)
    for bad in ({"mechanism": 7}, {"mechanism": MECH, "column": 7}, {"mechanism": dpfast.OneSidedGeometric(1, 1)}):
        with pytest.raises(DTypeError, match="^(mechanism|column) must be"):
            key.digester(**bad)
    assert not {"derive", "chooser", "digester", "seal"} & {*dir(one), *dir(digester)}
    assert not hasattr(seal_of(fresh(), values), "reserved")  # only a reservation, or who says it aloud, draws
