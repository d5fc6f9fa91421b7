# SPDX-License-Identifier: Apache-2.0
"""A key in C memory is wiped, whatever ends the call that drew it."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import DiscreteLaplace, Exponential, Key, Laplace, RandomizedResponse, _native, exact

HOME = str(Path(dpfast.__file__).parent)
COUNTS, VALUES = np.zeros(5000, np.int64), np.zeros(8)
INTEGERS, REALS = DiscreteLaplace(1, 10**6), Laplace(1, 1)
CALLS: dict[str, Callable[[], object]] = {
    "integers": lambda: INTEGERS.release(COUNTS),
    "under a key": lambda: INTEGERS.release(COUNTS, key=Key.from_bytes(bytes(32)).derive("x"), start=0),
    "sample": lambda: INTEGERS.sample(10),
    "reals": lambda: REALS.release(VALUES),
    "reals in bulk": lambda: REALS.release(COUNTS.astype(float)),
    "selection": lambda: Exponential(1, 1).select([1.0, 2.0, 2.0]),
    "responses": lambda: RandomizedResponse(1).release([0, 1, 1]),
    "bytes": lambda: dpfast.random_bytes(5000),
}


class Interrupted:
    """Ctrl-C before the line that is `after` lines of dpfast further on; None: nowhere, and the lines are counted."""

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


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_at_any_line_leaves_no_key(name, monkeypatch):
    """Interrupted before each of its lines in turn, a call leaves zeros where its key was, traceback held or not.

    One line is apart: the wiping itself. It is a call into C, before which Python runs no signal's handler, but the
    tracer of this test comes between; then the key goes with the last reference to it. So it is with the end of a `with`
    of flint's lock, which stays held where the tracer comes between: it is given back here.
    """
    call = CALLS[name]
    call()
    keys: list[Any] = []
    new = _native._new_key

    def recorded() -> object:
        keys.append(new())
        return keys[-1]

    monkeypatch.setattr(_native, "_new_key", recorded)
    counter = Interrupted(None)
    with traced(counter):
        call()
    drawn = len(keys)
    assert drawn >= 1
    assert counter.lines > 10
    apart = 0
    for after in range(counter.lines):
        keys.clear()
        try:
            with traced(Interrupted(after)):
                call()
        except KeyboardInterrupt as error:
            line = where(error)
            left = [line for key in keys if any(key)]
            if line.endswith(".wipe()"):
                apart += 1
            else:
                assert not left, f"Ctrl-C before {line!r} leaves a key"
        while exact.alone._is_owned():
            exact.alone.release()
        assert not any(any(key) for key in keys), f"line {after} leaves a key for good"
    assert apart == drawn


def test_a_key_goes_with_its_owner():
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


def test_no_key_is_no_stream():
    """Before it has a key, nothing can be drawn from a StreamKey: not from 32 zeros either."""
    stream = _native.StreamKey()
    for use in (lambda: stream.address, lambda: stream.block(0, 0), lambda: _native.key_stream(stream, bytearray(8))):
        with pytest.raises(AttributeError):
            use()
