# SPDX-License-Identifier: Apache-2.0
"""An exception of a signal's handler at each line of the ledger: nothing stays held for it.

Each is kept, as a terminal keeps the last one, so that the frames of its traceback live on.
"""

from __future__ import annotations

import contextlib
import fcntl
import linecache
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpfast
from dpfast.counts.running import totals
from dpfast.ledger import lock

LEDGER = str(Path(lock.__file__).parent)
# Python looks for signals behind calls and as functions and loops begin: not before a `try`, and
# not as a `with` is left.
NEVER = "try:", "with "


pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # it is closed as it goes


class Interrupt(BaseException):
    """What the handler of a signal raises."""


def interrupted(call: Callable[[], Any], at: int) -> Interrupt | None:
    """What came of a call that ends before its line of this number; None if it has none."""
    left = at

    def line(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        code = frame.f_code.co_filename
        if event == "line" and not linecache.getline(code, frame.f_lineno).strip().startswith(NEVER):
            left -= 1
            if left == 0:
                raise Interrupt  # which ends the trace, too
        return line

    def trace(frame: Any, _: str, __: Any) -> Any:
        code = frame.f_code.co_filename
        return line if code.startswith(LEDGER) or code == contextlib.__file__ else None

    found: list[Interrupt] = []

    def traced() -> None:
        sys.settrace(trace)
        try:
            call()
        except Interrupt as error:
            found.append(error)
        finally:
            sys.settrace(None)

    # A thread of its own: after an exception before the `return` of an `except`, where no signal
    # is looked for, CPython 3.11 takes the handled one as being handled for as long as its thread.
    thread = threading.Thread(target=traced)
    thread.start()
    thread.join()
    return found[0] if found else None


def held(path: Path) -> list[str]:
    """What of a ledger another thread or process would wait for."""
    taken: list[bool] = []
    thread = threading.Thread(
        target=lambda: taken.append(lock.using.acquire(blocking=False) and not lock.using.release())
    )
    thread.start()
    thread.join()
    found = [] if taken == [True] else ["the turn of this process"]
    with Path(f"{path}.lock").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append("the lock")
    return found


def must_leave_nothing_held(path: Path, call: Callable[[], Any], each: int = 1) -> int:
    """How many interrupts a call was ended by, until it went through. each: of so many lines."""
    kept: list[Interrupt] = []
    while (found := interrupted(call, 1 + each * len(kept))) is not None:
        kept.append(found)
        assert not held(path), f"held after interrupt {len(kept)}"
    return len(kept)


@pytest.fixture
def ledger(tmp_path) -> dpfast.Ledger:
    return dpfast.Ledger(tmp_path / "budget.db", 10**6, delta="0.5", create=True)


def test_whatever_line_ends_a_charge_nothing_stays_held(ledger) -> None:
    tries = must_leave_nothing_held(ledger.path, lambda: ledger.spend(dpfast.Guarantee(epsilon=1)), each=2)
    assert tries > 150
    assert 1 <= ledger.verify() <= tries + 1
    assert ledger.spent.epsilon == ledger.verify()


def test_whatever_line_ends_a_look_nothing_stays_held(ledger) -> None:
    assert must_leave_nothing_held(ledger.path, lambda: ledger.spent, each=3) > 100
    assert must_leave_nothing_held(ledger.path, ledger.history, each=3) > 100


def test_whatever_line_ends_a_step_nothing_stays_held(ledger, tmp_path) -> None:
    """And the step has one value; its state is replaced under the lock."""
    key, cells = dpfast.Key.generate().derive("sign-ups"), {"names": ["Lima", "Oslo"], "state": tmp_path / "state"}
    once = totals.RunningTotals(4, sensitivity=dpfast.Sensitivity(1, 1), epsilon=1, delta="1e-6")
    running, found = ledger.running(once, key=key, **cells), []
    assert must_leave_nothing_held(ledger.path, lambda: found.append(running.step(1, [1, 2])), each=5) > 100
    assert (found[0].values == running.step(1, resume=True).values).all()
    assert len(ledger.history()) == 1


def test_exceptions_that_are_each_other_s_context_end() -> None:
    """As a caller may have made them, whose code the ledger runs under its lock."""
    one, other = ValueError("one"), ValueError("other")

    def fails() -> None:
        one.__context__, other.__context__ = other, one
        raise one

    with pytest.raises(ValueError, match="one"):
        lock.leaving_nothing_held(fails)()


def test_frames_of_whoever_calls_keep_what_they_have(ledger) -> None:
    """Also of an exception that is being handled while the ledger is asked, and refuses."""

    def fails() -> None:
        mine = ["theirs"]  # noqa: F841  looked for below
        raise ValueError("theirs")

    with pytest.raises(ValueError, match="theirs") as theirs:
        fails()
    try:
        raise theirs.value
    except ValueError:
        with pytest.raises(dpfast.errors.BudgetExhausted) as refused:
            ledger.spend(dpfast.Guarantee(epsilon=10**7))
    assert refused.value.__context__ is theirs.value
    frames = [frame for frame, _ in traceback.walk_tb(theirs.value.__traceback__) if frame.f_code is fails.__code__]
    assert [frame.f_locals for frame in frames] == [{"mine": ["theirs"]}]
