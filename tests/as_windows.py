# SPDX-License-Identifier: Apache-2.0
"""Makes a Python on Linux behave as on Windows, as far as dpfast asks the system: import it first.

It takes away what Windows lacks, and changes what differs there. Each difference was measured in C,
by mingw and wine; `face/test_systems.py` states it. Python's own temporary files keep the system as
it was: on Windows they are removed by being closed. Child processes are as ever.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import multiprocessing.context
import os
import shutil
import signal
import stat
import sys
import tempfile
from types import ModuleType
from typing import Any

import numpy as np

assert "dpfast" not in sys.modules, "import as_windows before dpfast"

O_BINARY = 0x8000
IN_USE, EXISTS = 32, 183  # Windows' own numbers of errors
GONE = {
    os: """O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC O_TMPFILE chown fchmod fchown fdatasync fork forkpty getegid
        geteuid getgid getloadavg getuid getxattr lchown mkfifo mknod pread pwrite register_at_fork sched_getaffinity
        sched_setaffinity setxattr statvfs sync sysconf""",
    signal: """ITIMER_REAL SIGALRM SIGHUP SIGKILL SIGUSR1 SIGUSR2 alarm getitimer pthread_kill pthread_sigmask setitimer
        sigwait""",
    mmap: "MADV_DONTNEED MADV_SEQUENTIAL MADV_WILLNEED",
}
MODULES = "fcntl", "grp", "pwd", "resource", "syslog", "termios"

real = ModuleType("os")
real.__dict__.update(os.__dict__)
controls = fcntl.fcntl
_texts: dict[int, tuple[int, int]] = {}  # descriptors that were opened as text, by the file that they lead to


def _file(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _refused(number: int, path: Any, windows: int | None = None) -> OSError:
    error = OSError(number, os.strerror(number), os.fspath(path))
    error.winerror = windows
    return error


def _must_be_closed(path: Any) -> None:
    """Raises: PermissionError (this process has the file open, by whatever name)."""
    try:
        wanted = _file(real.lstat(path))
    except OSError:
        return
    for each in real.listdir("/proc/self/fd"):
        try:
            if _file(real.fstat(int(each))) == wanted:
                raise _refused(errno.EACCES, path, IN_USE)
        except OSError as error:
            if error.errno != errno.EBADF:  # the list's own descriptor
                raise


# ------------------------------------------------------------------ files


def _open(path: Any, flags: int, mode: int = 0o777) -> int:
    if real.path.isdir(path):
        raise _refused(errno.EACCES, path)
    handle: int = real.open(path, flags & ~O_BINARY, mode)
    _texts.pop(handle, None)
    if not flags & O_BINARY:
        _texts[handle] = _file(real.fstat(handle))
    return handle


def _is_text(handle: int) -> bool:
    return handle in _texts and _texts[handle] == _file(real.fstat(handle))


def _write(handle: int, content: Any) -> int:
    if not _is_text(handle):
        return int(real.write(handle, content))
    left = bytes(content).replace(b"\n", b"\r\n")
    while left:
        left = left[real.write(handle, left) :]
    return len(content)


def _read(handle: int, most: int) -> bytes:
    found: bytes = real.read(handle, most)
    if _is_text(handle):
        if found.endswith(b"\r"):
            found += real.read(handle, 1)
        found = found.partition(b"\x1a")[0].replace(b"\r\n", b"\n")
    return found


def _fsync(handle: int) -> None:
    if controls(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise _refused(errno.EACCES, "")
    real.fsync(handle)


def _unlink(path: Any) -> None:
    _must_be_closed(path)
    real.unlink(path)


def _rename(source: Any, target: Any) -> None:
    if real.path.lexists(target):
        raise _refused(errno.EEXIST, target, EXISTS)
    _replace(source, target)


def _replace(source: Any, target: Any) -> None:
    for each in (source, target):
        _must_be_closed(each)
    real.replace(source, target)


def _link(source: Any, target: Any) -> None:
    real.link(source, target)


# ------------------------------------------------------------------ modes


def _looked(about: os.stat_result) -> os.stat_result:
    """What Windows says of a file: no owner, no mode but whether it may be written."""
    _, (fields, more) = about.__reduce__()
    writable = 0o222 if about.st_mode & stat.S_IWUSR else 0
    mode = 0o777 if stat.S_ISDIR(about.st_mode) else 0o444 | writable
    fields = (stat.S_IFMT(about.st_mode) | mode, *fields[1:4], 0, 0, *fields[6:])
    return os.stat_result(fields, more)


def _stat(path: Any, *, dir_fd: None = None, follow_symlinks: bool = True) -> os.stat_result:
    return _looked(real.stat(path, follow_symlinks=follow_symlinks))


def _lstat(path: Any) -> os.stat_result:
    return _looked(real.lstat(path))


def _fstat(handle: int) -> os.stat_result:
    return _looked(real.fstat(handle))


def _chmod(path: Any, mode: int, *, follow_symlinks: bool = True) -> None:
    real.chmod(path, 0o666 if mode & stat.S_IWUSR else 0o444)


# ------------------------------------------------------------------ all of it


def letters() -> None:
    """Name the integers of 64 bits as Windows does: "q" and "Q", for its long has 32."""
    np.int64, np.uint64, np.intp, np.uintp = np.longlong, np.ulonglong, np.longlong, np.ulonglong  # type: ignore[misc]


def _begin() -> None:
    for module, names in GONE.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.modules.update(dict.fromkeys(MODULES))  # type: ignore[arg-type]
    tempfile._os = real  # type: ignore[attr-defined]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    here = globals()
    for name in [
        "open",
        "read",
        "write",
        "fsync",
        "unlink",
        "rename",
        "replace",
        "link",
        "stat",
        "lstat",
        "fstat",
        "chmod",
    ]:
        setattr(os, name, here[f"_{name}"])
    os.remove = _unlink
    os.O_BINARY, os.O_NOINHERIT = O_BINARY, 0  # type: ignore[attr-defined]
    contexts = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]
    for name in {*contexts} - {"spawn"}:
        del contexts[name]
    multiprocessing.set_start_method("spawn", force=True)
    multiprocessing.get_all_start_methods = lambda: ["spawn"]
    np.long, np.ulong = np.intc, np.uintc  # type: ignore[misc]


_begin()
