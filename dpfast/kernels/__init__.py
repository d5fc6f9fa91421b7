# SPDX-License-Identifier: Apache-2.0
"""The only room that imports numba: at the first release, because numba takes a while to load."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import gc
import importlib
import logging  # noqa: F401  before our hook below, which must be the later: numba logs while it loads
import os
import sys
import time
from functools import cache, partial
from typing import Any, ClassVar

from dpfast import _native

FEW = 32  # bins of a unit whose tags are compared all with all, or hashed at once

KERNELS = "fixed_point", "fixed_point_bits", "nominate", "bounded_histogram", "search", "siphash", "respond"

# Held by the thread that imports numba or compiles. A fork waits for it, or the child would find
# both locks held for ever. The hooks have no line of Python where a signal handler could raise.
_loading = _native.new_lock()
_hold, _release = partial(_native.shut, _loading, 1), partial(_native.unlock, _loading)
os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
START = 5.0  # seconds in which a thread has begun, if it ever does


@cache
def kernel(name: str) -> Any:
    """One of KERNELS; each is compiled, or read from numba's cache, when first asked for.

    In a thread of its own: numba fails for good in a process where its import or compilation was
    interrupted. Signal handlers raise in the main thread, such as KeyboardInterrupt, and interrupt
    the caller alone. The thread goes on, and the next caller waits for it.
    """
    return _Load(name).result()


class _Load:
    """A kernel on its way."""

    thread: ClassVar[int | None] = None  # which holds `_loading`
    ending: ClassVar[bool] = False  # the process ends

    def __init__(self, name: str) -> None:
        self.name, self.process, self.over = name, os.getpid(), False
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
                return _Load(self.name).result()
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
                    self.found = _loaded(self.name)
            finally:
                _Load.thread = None
                _release()
        except BaseException as failure:
            self.failure = failure
        finally:
            self.over = True
            self.bell.release()


def _loaded(name: str) -> Any:
    before = set(sys.modules)
    collecting = gc.isenabled()
    gc.disable()  # numba makes a million objects that stay; looking for garbage among them takes a fifth of the time
    try:
        importlib.import_module("dpfast.kernels.jit")
    except BaseException:
        # Out of memory, perhaps. Python keeps the modules of the failed package that did load, and
        # the package's next import does not bind them: begin anew.
        for module in set(sys.modules) - before:
            if module.partition(".")[0] in ("numba", "llvmlite"):
                del sys.modules[module]
        raise
    else:
        return getattr(importlib.import_module(f"dpfast.kernels.{name}"), name)
    finally:
        if collecting:
            gc.enable()


def _end() -> None:
    """Stop the thread that runs LLVM before C++ exit handlers take LLVM apart; let none begin."""
    _Load.ending = True
    while not _native.shut(_loading, 0):
        if (thread := _Load.thread) is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
        time.sleep(0.01)
    _release()


atexit.register(_end)


def cache_state() -> dict[str, object]:
    """Where numba keeps the compiled kernels, and how many this process loaded or compiled."""
    stats = [kernel(name).stats for name in KERNELS]
    return {
        "path": stats[0].cache_path,
        "loaded": sum(sum(s.cache_hits.values()) for s in stats),
        "compiled": sum(sum(s.cache_misses.values()) for s in stats),
    }
