# SPDX-License-Identifier: Apache-2.0
"""Paths: what one names, who else may change it, and files that appear whole or not at all.

Whoever may write to a folder may put another file in the place of any file in it, whatever the mode
of that file, and may rename a folder that lies in it. A sticky folder, such as /tmp, lets only the
owner of an entry rename it. It lets everybody add entries.

What is written here is a file without a name first; then fsync, then a name. It never replaces a
file by accident.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Literal, TypeAlias

from dpfast import system
from dpfast.errors import DpfastError, DTypeError, FileError, ParameterError

MOST_LINKS = 40  # on one path, as Linux has it
ACCESS_LIST = "system.posix_acl_access"  # the attribute that Linux keeps it in
CHUNK = 1 << 20  # bytes that are compared at a time
PART = "standard output has a part of OUT, or all of it"


Found: TypeAlias = Literal["refuse", "replace", "keep", "compare"]
Same: TypeAlias = "Callable[[IO[bytes], IO[bytes]], bool]"


def absolute(path: str | os.PathLike[str], called: str = "path") -> Path:
    """The file that an argument names, whatever a chdir changes. called: the argument's name.

    Raises: DTypeError, ParameterError.
    """
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise DTypeError(f"{called} must name a file, not be {type(path).__name__}") from None
    if "\0" in name:
        raise ParameterError(f"{called} must be without null characters")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ParameterError(f"{called} must be text that can be written as a file's name") from None
    return Path(os.path.abspath(name))  # noqa: PTH100  it resolves no links


# ------------------------------------------------------------------ who else may change them


def open_to_others(path: Path, trusted: Container[int], group: int | None = None) -> str | None:
    """Who else may add a file to a folder, or put another in its place, in words; None: nobody.

    path: a folder, or a file in it. trusted: ids of users. group: of a group that may, too.
    The folders above it, and links that lead to it, are looked at from the root of the file system
    on. So what was found of a step holds while nobody else may change the steps before it.
    Not looked at: the file itself, access lists other than POSIX's, privileges of processes.
    Raises: OSError (it is not there, or cannot be looked at).
    """
    real = os.path.realpath(path)
    folder = real if os.path.isdir(real) else os.path.dirname(real)  # noqa: PTH112, PTH120
    for name, about in _steps(path):
        kind = about.st_mode
        settled = stat.S_ISLNK(kind) or (kind & stat.S_ISVTX and name != folder)  # by its owner alone
        if stat.S_ISREG(kind) or (settled and about.st_uid in trusted):
            continue
        if found := written_by_others(name, about, trusted, group):
            return found
    return None


def written_by_others(
    name: str | Path, about: os.stat_result, trusted: Container[int], group: int | None = None
) -> str | None:
    """Who else may write to a file or a folder, in words, by its owner, mode and access list."""
    if about.st_uid not in trusted:
        return f"{name} belongs to another user ({about.st_uid})"
    if about.st_mode & stat.S_IWOTH:
        sticky = about.st_mode & stat.S_ISVTX
        return f"everybody may write to {name}" + (", though it is sticky" if sticky else f" (chmod o-w {name})")
    if about.st_mode & stat.S_IWGRP:
        if _has_access_list(name):  # its mask stands where the group's bits do
            return f"an access list lets others write to {name} (setfacl -b {name})"
        if about.st_gid != group and only_member(about.st_gid) not in trusted:
            return f"the group {about.st_gid} may write to {name} (chmod g-w {name})"
    return None


def only_member(group: int) -> int | None:
    """The user who is alone in a group of the same name, as many systems give each user one.

    Other groups are none of these: lists of members need not be complete.
    """
    import grp
    import pwd

    try:
        found = grp.getgrgid(group)
        owner = pwd.getpwnam(found.gr_name)
    except KeyError:
        return None
    alone = owner.pw_gid == group and {owner.pw_name} >= set(found.gr_mem)
    others = (each for each in pwd.getpwall() if each.pw_gid == group and each.pw_uid != owner.pw_uid)
    return owner.pw_uid if alone and next(others, None) is None else None


def _steps(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """All folders and links on the way to a path, from the root on, and what it leads to."""
    at, links = "/", 0
    yield at, os.lstat(at)
    todo = os.path.abspath(path).split("/")[::-1]  # noqa: PTH100  it resolves no links
    while todo:
        name = todo.pop()
        if name == "..":
            at = os.path.dirname(at)  # noqa: PTH120  which holds no link
        if name in ("", ".", ".."):
            continue
        step = os.path.join(at, name)  # noqa: PTH118
        about = os.lstat(step)
        yield step, about
        if not stat.S_ISLNK(about.st_mode):
            at = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = os.readlink(step)  # noqa: PTH115
        at = "/" if target.startswith("/") else at
        todo += target.split("/")[::-1]


def _has_access_list(name: str | Path) -> bool:
    try:
        return bool(os.getxattr(name, ACCESS_LIST))
    except (OSError, AttributeError):  # none, or a system without
        return False


# ------------------------------------------------------------------ whole or not at all


@contextmanager
def atomic_write(
    path: Path, record: str | None = None, *, found: Found, same: Same | None = None, private: bool = False
) -> Iterator[IO[bytes]]:
    """Yield a private file that becomes `path` if the block ends without an exception.

    record: this text becomes `path`.json just before.
    found: what becomes of a `path` that is there: "refuse" it, "replace" it, "keep" it if it is
        equal, or "compare" them, and write nothing.
    same: tells whether files are equal that are not equal byte for byte.
    private: whether `path` stays for its owner alone.
    Raises: FileError (a file that is there already and may not or cannot be replaced, or is
        another; a full disk).
    """
    beside = path.with_name(f"{path.name}.json")
    try:
        check(path, record is not None, found=found)
        folder = path.parent
        if found == "compare" and not os.access(folder, os.W_OK):  # what writes nothing may be where nobody can
            folder = Path(tempfile.gettempdir())
        with system.temporary(folder) as file:
            yield file
            if found == "compare" or (found == "keep" and path.exists()):
                _compare(file, path, record, beside, same)
                return
            system.finish(file, path.parent, private=private)
            if record is None:
                _place(file, path, found=found, same=same)
            else:
                _place_both(file, path, record.encode(), beside, found=found)
            system.flush_folder(path.parent)
    except DpfastError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {os.strerror(error.errno) if error.errno else 'write failed'}") from None


@contextmanager
def standard_output(metadata: Path | None, record: str, *, found: Found) -> Iterator[IO[bytes]]:
    """Yield a private file that is copied to standard output if the block ends well.

    So a reader of the pipe never gets a part of a release that failed. metadata: becomes a file of
    `record` just before.
    Raises: FileError (as atomic_write does; a reader that has gone; none that ever was).
    """
    if sys.stdout is None:
        raise FileError("cannot write standard output: it is closed")
    try:
        with tempfile.TemporaryFile() as file:
            with nullcontext() if metadata is None else atomic_write(metadata, found=found) as beside:
                yield file
                if beside is not None:
                    beside.write(record.encode())
            file.seek(0)
            with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out, _copying():
                shutil.copyfileobj(file, out, CHUNK)
    except DpfastError:
        raise
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "write failed"
        raise FileError(f"cannot write standard output: {why}") from None


@contextmanager
def _copying() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(PART) from None


def check(path: Path, recorded: bool, *, found: Found) -> None:
    """Refuse a `path` that could not be written. recorded: whether it comes with a record."""
    may_be = found != "refuse"
    _refuse_existing(path, force=may_be)
    if recorded:
        # A record alone is refused too. A run that was killed between the two renames leaves one,
        # but more often the user moved `path` away. Then this record may be the only account of an
        # epsilon that was spent.
        why = f" without {path.name}: a release was moved away, or its run killed just before the end"
        _refuse_existing(path.with_name(f"{path.name}.json"), why, force=may_be)


def _compare(file: IO[bytes], path: Path, record: str | None, beside: Path, same: Same | None) -> None:
    """Raises: FileError (`path` is not what the release gives)."""
    _must_be(file, path, same)
    if record is not None:
        _must_exist(beside)
        if beside.read_bytes() != record.encode():
            raise _another(beside)


def _must_exist(path: Path) -> None:
    if not path.exists():
        raise FileError(f"{path} does not exist, and the release has this file")


def _must_be(file: IO[bytes], path: Path, same: Same | None) -> None:
    _must_exist(path)
    file.flush()
    with os.fdopen(os.dup(file.fileno()), "rb") as made, path.open("rb") as there:
        made.seek(0)
        if not _same(made, there) and (same is None or not same(made, there)):
            raise _another(path)


def _another(path: Path) -> FileError:
    return FileError(f"{path} is not what this release gives: another file, damaged, or by other options or versions")


def _same(one: IO[bytes], other: IO[bytes]) -> bool:
    while chunk := one.read(CHUNK):
        if other.read(len(chunk)) != chunk:
            return False
    return not other.read(1)


def _place_both(file: IO[bytes], path: Path, record: bytes, beside: Path, *, found: Found) -> None:
    """Place the record, then the file: the file is never there without its own record."""
    with system.temporary(path.parent) as extra:
        extra.write(record)
        system.finish(extra, path.parent)
        if found == "replace":
            path.unlink(missing_ok=True)  # otherwise a kill here would leave the old file beside the new record
        placed = _place(extra, beside, found=found)
    try:  # once the record is closed: Windows removes no file that is open
        _place(file, path, found=found)
    except BaseException as error:
        if placed and (isinstance(error, Exception) or not path.exists()):  # a signal may come once it is there
            beside.unlink()
        raise


def _place(file: IO[bytes], path: Path, *, found: Found, same: Same | None = None) -> bool:
    """Give a file the name `path`. False: an equal file has it, and keeps it."""
    try:
        system.link(file, path)  # unlike a rename, a link never replaces a file that came meanwhile
    except OSError as error:
        exists = isinstance(error, FileExistsError)
        if not exists and isinstance(file.name, int):
            raise
        if found == "keep" and path.is_file():
            _must_be(file, path, same)
            return False
        _refuse_existing(path, force=found == "replace")
        if exists and found != "replace":  # the file has gone again
            raise
        system.replace(file, path)  # also on a file system without links
    return True


def _refuse_existing(path: Path, why: str = "", *, force: bool) -> None:
    try:
        path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:  # a name that is too long; no folder before it
        raise FileError(f"cannot write {path}: {error.strerror}") from None
    # A link such as /dev/stdout may lead to a file, and would be replaced by another.
    if not os.path.isfile(path) or path.absolute().parent == Path("/dev"):  # noqa: PTH113  it never raises
        raise FileError(f"{path} exists and is not a file")
    if not force:
        raise FileError(f"{path} exists{why}; --force would replace it")


def make(path: Path, *pieces: bytes | memoryview) -> None:
    """Make a file for its owner alone, over nothing; it is on the disk then. Raises: OSError."""
    handle = system.open_private(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, follow=False)
    try:
        for piece in pieces:
            content = memoryview(piece)  # no buffer: a secret is not copied
            while content:
                content = content[os.write(handle, content) :]
        system.to_disk(handle)
    finally:
        os.close(handle)
