# SPDX-License-Identifier: Apache-2.0
"""The lock of a ledger, on a file of its own: one holder at a time, of all processes and threads.

SQLite's locks are POSIX's, and belong to a process. All of them go when any part of it closes any
descriptor of the ledger, such as a backup's. This lock belongs to an open file, and its holder
alone gives it back. It is flock, not F_OFD_SETLK, which belongs to an open file, too. flock can be
held through a file that is open for reading only. It has no byte layout that differs between
systems, and a script can hold it by flock(1).
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from io import FileIO
from pathlib import Path
from traceback import clear_frames
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from dpfast import system
from dpfast.errors import LedgerError

MARK = b"dplg"  # the application's number in the header of a ledger
PAUSE = 0.002  # seconds between two tries

# SQLite's connections survive no fork: one thread at a time in a process, and a fork waits for it.
# Only a fork by that very thread, as in a signal's handler, finds a lock held. The child's copy of
# the lock would outlive its holder.
using = threading.RLock()
_files: WeakSet[FileIO] = WeakSet()


def _in_child() -> None:
    for file in tuple(_files):
        file.close()  # which gives no lock back: the parent has the file open
    using.release()


system.at_fork(before=using.acquire, after_in_parent=using.release, after_in_child=_in_child)

Given = ParamSpec("Given")
Found = TypeVar("Found")


def leaving_nothing_held(call: Callable[Given, Found]) -> Callable[Given, Found]:
    """The call; after it nothing stays held, wherever an exception of a signal has ended it.

    Such an exception may come before the first line of an __exit__: what was to be given back then
    lies in a frame of the traceback, for as long as that is kept. Here these frames let go of it.
    """

    @wraps(call)
    def called(*given: Given.args, **named: Given.kwargs) -> Found:
        handled = sys.exc_info()[1]  # by who calls, whose frames are not ours
        try:
            return call(*given, **named)
        except BaseException as error:
            each: BaseException | None = error
            seen = {id(handled)}
            while each is not None and id(each) not in seen:  # a caller's own may be each other's context
                clear_frames(each.__traceback__)
                seen.add(id(each))
                each = each.__context__
            raise

    return called


@contextmanager
def held(ledger: Path, patience: float, like: Path | None = None) -> Iterator[None]:
    """Hold the lock of a ledger, whose path is without links, once others have given it back.

    like: the file that tells whose the lock is, if one must be made; by default the ledger.
    Raises: LedgerError (it cannot be locked, or not in so many seconds).
    """
    end = time.monotonic() + patience
    while True:
        with using:
            file = _taken(ledger, like or ledger)
            if file is not None:
                try:
                    yield
                finally:
                    if not file.closed:  # as it is in a child
                        system.unlock(file)  # closing would not, where a child has a copy
                        file.close()
                return
        if time.monotonic() > end:
            raise LedgerError(f"{ledger} is locked by another process or thread; nothing was released")
        time.sleep(PAUSE)


def _taken(ledger: Path, like: Path) -> FileIO | None:
    """The locked file; None while others hold it, or where it was replaced meanwhile."""
    name, mine = f"{ledger}.lock", False
    try:
        file = FileIO(name, opener=partial(_opened, ledger, like))  # which is closed where Ctrl-C loses it
        _files.add(file)
        try:
            system.lock(file, wait=False)
            mine = os.path.samestat(os.fstat(file.fileno()), os.lstat(name))
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if not mine:
                file.close()
    except FileExistsError:  # another was faster to make it
        return None
    except OSError as error:
        raise LedgerError(f"cannot lock {ledger}: {name}: {error.strerror}; nothing was released") from None
    return file if mine else None


def _is_ledger(file: Path) -> bool:
    """By its first bytes: SQLite's mark, and at 68 the number of the application.

    Closing it drops SQLite's locks of this process: no other thread uses a ledger here.
    """
    with file.open("rb") as opened:
        begins = opened.read(72)
    return begins.startswith(b"SQLite format 3\0") and begins[68:] == MARK


def _opened(ledger: Path, like: Path, name: str, _: int) -> int:
    """A descriptor of the file, which is made if it is not there, for those who may charge."""
    try:
        return system.open_private(name, follow=False)
    except FileNotFoundError:
        if ledger.exists() and not _is_ledger(ledger):  # no lock is left beside a file that is named by mistake
            raise LedgerError(f"{ledger} is not a ledger of dpfast") from None
        about, user = like.stat() if like.exists() else None, os.geteuid()
        if about is not None and user not in (about.st_uid, 0):  # whose lock others would refuse
            raise LedgerError(
                f"{ledger} has no lock: its owner makes one by `dpfast ledger verify {ledger}`; nothing was released"
            ) from None
        descriptor = system.open_private(name, os.O_RDONLY | os.O_CREAT | os.O_EXCL, follow=False)
    if about is not None:
        if user == 0:  # else root, who only looks, would lock the owner out
            os.fchown(descriptor, about.st_uid, about.st_gid)
        if about.st_mode & stat.S_IWGRP:
            os.fchown(descriptor, -1, about.st_gid)
            os.fchmod(descriptor, 0o660)
    return descriptor
