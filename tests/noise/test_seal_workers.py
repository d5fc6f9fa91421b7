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
from dpfast import KeyFile, Ledger
from dpfast.errors import DTypeError, FileError, KeyReuseError, ParameterError

# Each task with the version that this process has: a module, its name and its value.
WORKER = """
import pickle, sys
for line in sys.argv[1:]:
    task, module, name, version = line.split()
    has = __import__(module, fromlist=[name])
    before, changed = getattr(has, name), int(version)
    setattr(has, name, changed or before)
    try:
        sealed = pickle.loads(bytes.fromhex(task))
        print(sealed.release(0, [1, 2, 3]).tolist())
    except Exception as error:
        print(type(error).__name__, error)
    setattr(has, name, before)
"""
STREAM, MANIFEST = f"{tiers.NATIVE} STREAM_VERSION", "dpfast.noise.release.seal VERSION"
WORKERS = {  # what is spoilt, the version that the worker has, and what it says
    "right": ("", f"{STREAM} 0", r"\[-?\d+, -?\d+, -?\d+\]$"),
    "another key": ("replaced", f"{STREAM} 0", "FileError the key file .* holds another key than the one that 'visits' was sealed with$"),
    "truncated": ("truncated", f"{STREAM} 0", "FileError the key file .* must contain 32 bytes"),
    "readable": ("readable", f"{STREAM} 0", "FileError others may read or write"),
    "absent": ("absent", f"{STREAM} 0", "FileError the key file .* does not exist"),
    "another stream": ("", f"{STREAM} 3", "ParameterError .* of stream version 2 .* the dpfast that began it; this one has 3 and 1"),
    "another manifest": ("", f"{MANIFEST} 2", "ParameterError .* this one has 2 and 2"),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What one process says of each task, and what the driver drew."""
    tasks, right = list[str](), list[str]()
    for spoil, version, _ in WORKERS.values():
        file = KeyFile.create(tmp_path_factory.mktemp("key") / "visits.key")
        tiers.forget_labels()
        sealed = sealed_of(file.derive("visits"), [1, 2, 3])
        task, secret = pickle.dumps(sealed), file.path.read_bytes()
        right.append(str(sealed.release(0, [1, 2, 3]).tolist()))
        for held in (secret, *tiers.drawing(sealed), tiers.secret_of(file.derive("visits"))):
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
        tasks.append(f"{task.hex()} {version}")
    lines = python(WORKER, *tasks).splitlines()
    return dict(zip(WORKERS, zip(lines, right, strict=True), strict=True))


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_with_another_key_or_version(said: dict[str, tuple[str, str]], worker: str) -> None:
    """By name, before anything is read. The task holds no secret, and nothing derived from it."""
    told, right = said[worker]
    assert re.match(WORKERS[worker][-1], told)
    assert worker != "right" or told == right


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
