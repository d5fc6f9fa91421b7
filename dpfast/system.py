# SPDX-License-Identifier: Apache-2.0
"""The system: files, the disk, locks, owners and forks, where systems differ. Nobody else asks it.

A system is known by what it has, never by its name. Linux has all that is asked for here. macOS has
no file without a name, and its fsync leaves bytes in the drive's own memory. Windows has neither
owners, modes, `flock` nor forks. It opens files as text unless told otherwise. It opens no folder,
and renames or removes no file that is open.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dpfast.errors import UnsupportedError

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:
    fcntl = None

OWNERS = hasattr(os, "geteuid") and fcntl is not None  # files have owners, modes and locks
UNFLUSHED = errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY  # a file system without F_FULLFSYNC

_BYTES = getattr(os, "O_BINARY", 0)  # else Windows reads to the first 1A, and writes 0D before each 0A
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def must_have_owners(asked: str, instead: str) -> None:
    """Refuse what rests on owners, modes and locks of files, where there are none.

    asked: what the caller wrote. instead: what to write. Raises: UnsupportedError.
    """
    if not OWNERS:
        raise UnsupportedError(
            f"{asked} must be left out on this system, whose files have no owners, modes and locks: {instead}"
        )


def at_fork(**hooks: Callable[[], object]) -> None:
    """Call `before`, `after_in_parent` and `after_in_child` around forks, where there are any."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


# ------------------------------------------------------------------ files


def open_private(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = True
) -> int:
    """A descriptor of a file, byte for byte; no pipe is waited for, and no child inherits it.

    mode: of a file that is made, by default its owner's alone. follow: whether a link at its name
    is followed. Raises: OSError.
    """
    return os.open(path, flags | _BYTES | _NO_WAIT | (0 if follow else _NO_LINK), mode)


def to_disk(handle: int) -> None:
    """Wait until what was written to a file is on the disk itself. Raises: OSError.

    The file is open for writing: Windows flushes no other.
    """
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: also what the drive keeps in its own memory
        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in UNFLUSHED:
                raise
        else:
            return
    os.fsync(handle)


def flush_file(path: Path) -> None:
    """Wait until a file that others wrote is on the disk. Raises: OSError."""
    _flush(path, os.O_RDWR)


def flush_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises: OSError.

    Where no folder can be opened, its file system alone keeps their order.
    """
    if hasattr(os, "O_DIRECTORY"):
        _flush(path, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    handle = open_private(path, flags)
    try:
        to_disk(handle)
    finally:
        os.close(handle)


# ------------------------------------------------------------------ files that have no name yet


@contextmanager
def temporary(folder: Path) -> Iterator[IO[bytes]]:
    """Yield a file for its owner alone, without a name if it can be, so that no kill leaves it.

    Raises: OSError.
    """
    if (handle := _nameless(folder, 0o600)) is not None:
        with os.fdopen(handle, "w+b") as file:
            yield file
        return
    path = _unused(folder)
    try:
        with open(str(path), "x+b", opener=open_private) as file:
            yield file
    finally:
        path.unlink(missing_ok=True)


def finish(file: IO[bytes], folder: Path, *, private: bool = False) -> None:
    """Flush a temporary file to the disk, with the permissions of a new file, or its owner's alone.

    Raises: OSError.
    """
    file.flush()
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), 0o600 if private else _permissions(folder))
    to_disk(file.fileno())


def link(file: IO[bytes], path: Path) -> None:
    """Give a temporary file a name. Unlike a rename, this replaces nothing. Raises: OSError."""
    if isinstance(file.name, int):  # it has no name; with src_dir_fd Python follows the link in /proc
        os.link(f"/proc/self/fd/{file.name}", path, src_dir_fd=file.name)
    else:
        path.hardlink_to(file.name)


def replace(file: IO[bytes], path: Path) -> None:
    """Put a temporary file in the place of `path`, in one step. It is whole by now.

    It has another name for a moment, and it may be closed: Windows renames no file that is open.
    Raises: OSError.
    """
    if isinstance(file.name, int):
        named = _unused(path.parent)
        link(file, named)
    else:
        named = Path(file.name)
        file.close()
    try:
        named.replace(path)
    except BaseException:
        named.unlink(missing_ok=True)
        raise


def _nameless(folder: Path, mode: int) -> int | None:
    with suppress(AttributeError, OSError):  # not every system and file system has such files
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, mode)
        if os.path.exists(f"/proc/self/fd/{handle}"):  # noqa: PTH110  this path gives it a name later
            return handle
        os.close(handle)
    return None


def _unused(folder: Path) -> Path:
    return folder / f".dpfast-{os.urandom(8).hex()}.tmp"


def _permissions(folder: Path) -> int:
    """Those of a new file. One is made: to read the umask is to set it, for all threads."""
    path = None
    if (handle := _nameless(folder, 0o666)) is None:
        path = _unused(folder)
        handle = open_private(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(handle)
        if path is not None:
            path.unlink()


# ------------------------------------------------------------------ locks


def lock(file: IO[bytes] | int, *, wait: bool) -> None:
    """Lock an open file for its holder alone, of all processes; it goes when the file is closed.

    Raises: BlockingIOError (it does not wait, and another holds it), OSError.
    """
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def unlock(file: IO[bytes] | int) -> None:
    """Give a lock back, also where a child has a copy of the open file. Raises: OSError."""
    fcntl.flock(file, fcntl.LOCK_UN)
