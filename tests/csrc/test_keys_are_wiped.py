# SPDX-License-Identifier: Apache-2.0
"""A key in C memory is wiped, whatever ends the call that drew it."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

import numpy as np
import pytest
import tiers
from doors import Call, surface

import dpfast
from dpfast import Key, _native
from dpfast.noise.release import secret
from dpfast.privacy import exact

HOME = str(Path(dpfast.__file__).parent)
COUNTS = np.zeros(5000, np.int64)
DRAWS = """AboveThreshold.run DiscreteGaussian.release DiscreteGaussian.sample DiscreteLaplace.release DiscreteLaplace.sample
    Exponential.select Gaussian.release Laplace.release
    NoiseSource.release NoisyMax.select OneSidedGeometric.sample PermuteAndFlip.select RandomizedResponse.release
    Snapping.release thresholded"""
# Each door that draws a key from Python, and calls that draw one there for what they are given.
CALLS: dict[str, dict[str, Any]] = {
    **{name: {} for name in DRAWS.split()},
    "DiscreteLaplace.release of many": {"values": COUNTS},
    "DiscreteLaplace.release under a key": {
        "values": COUNTS,
        "key": Key.from_bytes(bytes(range(32))).derive("x"),
        "resume": True,
    },
    "Laplace.release of many": {"values": COUNTS / 1},
    # Scores far apart: two that noise leaves within 2^-18 take further lines, once in 10^5 calls.
    "Exponential.select": {"scores": [0, 10**6]},
    "PermuteAndFlip.select": {"scores": [0, 10**6]},
    "fill_bytes of many": {"buffer": bytearray(5000)},
    "random_bytes of many": {"n": 5000},
}
LOCKS = exact.alone, secret.lock
# These draw as their mechanism does, after many lines of their own.
ELSEWHERE = {
    *(f"BoundedHistogram.{name}" for name in ("mean", "release", "select", "thresholded", "tree")),
    "Ledger.release",
    "quantiles",
    "running_totals",
    "tree",
}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return {door.name: door for door in surface(tmp_path_factory.mktemp("ledgers"))}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Those that are drawn from here on."""
    made: list[Any] = []
    new = _native._new_key
    tiers.no_small_calls(monkeypatch)

    def recorded() -> object:
        made.append(new())
        return made[-1]

    monkeypatch.setattr(_native, "_new_key", recorded)
    return made


class Interrupted:
    """Ctrl-C before line `after` of dpfast; None: never, and the lines are counted."""

    def __init__(self, after: int | None) -> None:
        self.after, self.lines = after, 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            self.lines += 1
            if self.lines - 1 == self.after:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@contextmanager
def traced(by: Interrupted) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(by)
    try:
        yield
    finally:
        sys.settrace(before)


def where(error: BaseException) -> str:
    """The line before which the call was interrupted."""
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    return linecache.getline(*[(file, line) for file, line in places if file.startswith(HOME)][-1]).strip()


def test_every_door_that_draws_a_key_is_here(doors: dict[str, Call], keys: list[Any]) -> None:
    """A new one has to be added to CALLS."""
    for name, door in doors.items():
        keys.clear()
        with suppress(dpfast.errors.DpfastError, ImportError):  # its library is missing
            door(door.arguments())
        assert not keys or name in CALLS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_at_any_line_leaves_no_key(name: str, doors: dict[str, Call], keys: list[Any]) -> None:
    """Interrupted before each line in turn, a call leaves zeros for its key, traceback held or not.

    One line is apart: the wiping itself, a call into C. Python runs no signal handler before it,
    but this test's tracer comes between; then the key goes with its last reference. So it is with
    the end of a lock's `with`: the lock stays held, and is given back here.
    """
    door = doors[name.partition(" ")[0]]
    arguments = door.arguments(**CALLS[name])
    door(arguments)
    keys.clear()
    counter = Interrupted(None)
    with traced(counter):
        door(arguments)
    drawn = len(keys)
    assert drawn >= 1
    assert counter.lines > 10
    apart = 0
    for after in range(counter.lines):
        keys.clear()
        try:
            with traced(Interrupted(after)):
                door(arguments)
        except KeyboardInterrupt as error:
            line = where(error)
            left = [line for key in keys if any(key)]
            if line.endswith(".wipe()"):
                apart += 1
            else:
                assert not left, f"Ctrl-C before {line!r} leaves a key"
        for lock in LOCKS:
            while lock._is_owned():
                lock.release()
        assert not any(any(key) for key in keys), f"line {after} leaves a key for good"
    assert apart == drawn


def test_a_key_goes_with_its_owner() -> None:
    """Dropped without a word, a StreamKey wipes its memory; and wiping twice is wiping once."""
    stream = _native.StreamKey(bytes(range(1, 33)))
    memory = stream._bytes
    assert all(memory)
    del stream
    assert not any(memory)
    stream = _native.StreamKey(bytes(range(1, 33)))
    stream.wipe()
    assert not any(stream._bytes)
    stream.wipe()


def test_no_key_is_no_stream() -> None:
    """Before it has a key, nothing can be drawn from a StreamKey: not from 32 zeros either."""
    stream = _native.StreamKey()
    for use in (lambda: stream.memory, lambda: stream.block(0, 0), lambda: _native.key_stream(stream, bytearray(8))):
        with pytest.raises(AttributeError):
            use()
