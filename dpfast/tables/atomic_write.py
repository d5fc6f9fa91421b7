# SPDX-License-Identifier: Apache-2.0
"""Output that appears whole or not at all, and over nothing that is there: a file without a name, fsync, a name."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dpfast.errors import DpfastError, FileError


@contextmanager
def atomic_write(path: Path, record: str | None = None, *, force: bool) -> Iterator[IO[bytes]]:
    """Yield a private file that becomes `path` if the block ends well; `record` becomes `path`.json just before.

    Raises: FileError (what is there already and may not be replaced, or cannot be; a full disk).
    """
    beside = path.with_name(f"{path.name}.json")
    try:
        _refuse_existing(path, force=force)
        if record is not None:
            # A record alone is refused too, though a run killed between the two renames leaves one: more often
            # the user moved `path` away, and then this may be the only account of an epsilon that was spent.
            why = f" without {path.name}: a release was moved away, or its run killed just before the end"
            _refuse_existing(beside, why, force=force)
        with _temporary(path.parent) as file:
            yield file
            _finish(file)
            if record is None:
                _place(file, path, force=force)
            else:
                _place_both(file, path, record.encode(), beside, force=force)
            _sync_directory(path.parent)
    except DpfastError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {os.strerror(error.errno) if error.errno else 'write failed'}") from None


@contextmanager
def _temporary(directory: Path) -> Iterator[IO[bytes]]:
    """A file that only its owner may open; without a name where the system has such files, so no kill leaves it."""
    if (handle := _nameless(directory)) is not None:
        with os.fdopen(handle, "wb") as file:
            yield file
        return
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".dpfast-", suffix=".tmp", delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def _nameless(directory: Path) -> int | None:
    with suppress(AttributeError, OSError):  # neither every system nor every file system has such files
        handle = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
        if os.path.exists(f"/proc/self/fd/{handle}"):  # noqa: PTH110  the way to give it a name
            return handle
        os.close(handle)
    return None


def _finish(file: IO[bytes]) -> None:
    """Bring a file to the disk, with the permissions that a new file has."""
    file.flush()
    mask = os.umask(0o077)
    os.umask(mask)
    os.fchmod(file.fileno(), 0o666 & ~mask)
    os.fsync(file.fileno())


def _place_both(file: IO[bytes], path: Path, record: bytes, beside: Path, *, force: bool) -> None:
    """Place the record, then the file: at no moment does a file lie there without its own record."""
    with _temporary(path.parent) as extra:
        extra.write(record)
        _finish(extra)
        if force:
            path.unlink(missing_ok=True)  # or a kill right here would leave the old file beside the new record
        _place(extra, beside, force=force)
        try:
            _place(file, path, force=force)
        except BaseException:
            beside.unlink()
            raise


def _place(file: IO[bytes], path: Path, *, force: bool) -> None:
    """Give a file the name `path`."""
    try:
        _link(file, path)  # which, unlike a rename, never replaces what came in the meantime
    except FileExistsError:
        _refuse_existing(path, force=force)
        if not force:  # it has gone again
            raise
        _replace(file, path)
    except OSError:
        if isinstance(file.name, int):
            raise
        _refuse_existing(path, force=force)  # a file system without links
        _replace(file, path)


def _link(file: IO[bytes], path: Path) -> None:
    if isinstance(file.name, int):  # it has no name; src_dir_fd has Python follow the link that stands for it
        os.link(f"/proc/self/fd/{file.name}", path, src_dir_fd=file.name)
    else:
        path.hardlink_to(file.name)


def _replace(file: IO[bytes], path: Path) -> None:
    """Replace `path` in one step, through a name that the file, whole by now, has for this moment."""
    named = Path(file.name) if isinstance(file.name, str) else path.with_name(f".dpfast-{secrets.token_hex(8)}.tmp")
    if isinstance(file.name, int):
        _link(file, named)
    try:
        named.replace(path)
    except BaseException:
        named.unlink(missing_ok=True)
        raise


def _refuse_existing(path: Path, why: str = "", *, force: bool) -> None:
    if path.is_file():
        if not force:
            raise FileError(f"{path} exists{why}; --force would replace it")
    elif path.exists() or path.is_symlink():
        raise FileError(f"{path} exists and is not a file")


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
