# SPDX-License-Identifier: Apache-2.0
"""Load what a signal handler must not interrupt: in a thread of its own."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import logging  # noqa: F401  before our hook below, which must be the later: numba logs while it loads
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from dpfast import _native
from dpfast.system import at_fork

# Held by the thread that imports or compiles. A fork waits for it, or the child would find both
# locks held for ever. The hooks have no line of Python where a signal handler could raise.
_loading = _native.new_lock()
_hold, _release = partial(_native.shut, _loading, 1), partial(_native.unlock, _loading)
at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
START = 5.0  # seconds in which a thread has begun, if it ever does


def apart(load: Callable[[], Any]) -> Any:
    """Call it in a thread of its own, and return what it returns, or raise what it raises.

    numba and flint fail for good in a process where their import was interrupted. Signal handlers
    raise in the main thread, such as KeyboardInterrupt, and interrupt the caller alone. The thread
    goes on, and the next caller waits for it.
    """
    return _Load(load).result()


class _Load:
    """What is on its way."""

    thread: ClassVar[int | None] = None  # which holds `_loading`
    ending: ClassVar[bool] = False  # the process ends

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load, self.process, self.over = load, os.getpid(), False
        self.taken, self.bell = _thread.allocate_lock(), _thread.allocate_lock()
        self.bell.acquire()
        self.found: Any = None
        self.failure: BaseException | None = None

    def result(self) -> Any:
        if not _Load.ending:
            try:
                _thread.start_new_thread(self.run, (True,))
            except (RuntimeError, MemoryError):
                pass  # no more threads
            else:
                self.bell.acquire(timeout=START)
        self.run()  # unless the thread has begun
        while not self.over:
            if os.getpid() != self.process:  # forked by a signal handler just before the thread held `_loading`
                return _Load(self.load).result()
            self.bell.acquire(timeout=0.05)
        if self.failure is not None:
            raise self.failure
        return self.found

    def run(self, helping: bool = False) -> None:
        if not self.taken.acquire(blocking=False):
            return
        try:
            _hold()
            try:
                _Load.thread = _thread.get_ident()
                if not (helping and _Load.ending):
                    self.found = self.load()
            finally:
                _Load.thread = None
                _release()
        except BaseException as failure:
            self.failure = failure
        finally:
            self.over = True
            self.bell.release()


def _end() -> None:
    """Stop the thread that runs LLVM before C++ exit handlers take LLVM apart; let none begin."""
    _Load.ending = True
    while not _native.shut(_loading, 0):
        if (thread := _Load.thread) is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
        time.sleep(0.01)
    _release()


atexit.register(_end)
