# SPDX-License-Identifier: Apache-2.0
"""Folders on any file system that Arrow knows, where each file is written whole and never again."""

from __future__ import annotations

import json
import os
import posixpath
import secrets
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from dpfast.errors import DTypeError, FileError, ParameterError
from dpfast.paths import atomic_write
from dpfast.system import must_have_owners

WHOLE_AT_CLOSE = {"s3", "gcs", "abfs"}  # object stores: no rename, and no half an object either


class Folder:
    """A folder: a path, or a URI such as s3://bucket/folder or hdfs://host/folder. It pickles.

    Credentials are those that a process finds in its environment, and never a part of the URI.
    private: whether it is for its owner alone, and so is each file in it, where there are modes.
    """

    def __init__(self, place: str | os.PathLike[str], private: bool = False) -> None:
        """Raises: DTypeError, ParameterError, FileError (no such kind of place)."""
        try:
            name = os.fsdecode(place)
        except TypeError:
            raise DTypeError(f"a folder must be a path or a URI, not {type(place).__name__}") from None
        if not name or "\0" in name:
            raise ParameterError("a folder must be named, without null characters")
        self.place = name if "://" in name else os.path.abspath(name)  # noqa: PTH100  it resolves no links
        try:
            found = fs.FileSystem.from_uri(name) if "://" in name else (fs.LocalFileSystem(), self.place)
        except (pa.ArrowException, OSError, ImportError) as error:
            raise FileError(f"{name:.200} cannot be reached: {type(error).__name__}") from None
        self.private = private
        self.files: Any = found[0]
        self.local = isinstance(self.files, fs.LocalFileSystem)
        self.path: str = os.path.abspath(found[1]) if self.local else found[1]  # noqa: PTH100

    def meets(self, other: Folder) -> bool:
        """Whether one of two folders is the other or lies in it, whatever names and links say."""
        mine, theirs = self._within(), other._within()
        return mine[0] in theirs or theirs[0] in mine

    def _within(self) -> list[object]:
        """What this folder is, and each that it lies in: on a disk by number, if it is there."""
        if self.local:
            path = Path(os.path.realpath(self.path))
            return [_numbered(each) for each in (path, *path.parents)]
        host, of = urlsplit(self.place).hostname, PurePosixPath(posixpath.normpath(self.path))
        return [(self.files.type_name, host, each) for each in (of, *of.parents)]

    def make(self) -> bool:
        """Make the folder; whether it was not there.

        Raises: FileError (it cannot be made; a private one is a link, another's, or others may
            enter it), UnsupportedError (a private one on Windows).
        """
        if not self.local:
            there = self._info("").type != fs.FileType.NotFound
            self._do("make", lambda: self.files.create_dir(self.path, recursive=True))
            return not there
        made = True
        if self.private:
            must_have_owners("stage", "a folder on an object store, by its URI, such as s3://bucket/stage")
        try:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            os.mkdir(self.path, 0o700 if self.private else 0o777)  # noqa: PTH102
        except FileExistsError:
            made = False
            if not Path(self.path).is_dir():
                raise FileError(f"cannot make {self.place}: there is a file") from None
        except OSError as error:
            raise self._failed("make", error) from None
        if self.private:
            self._must_be_closed()
        return made

    def _must_be_closed(self) -> None:
        """Raises: FileError."""
        try:
            about = os.lstat(self.path)
        except OSError as error:
            raise self._failed("read", error) from None
        if stat.S_ISLNK(about.st_mode):
            raise FileError(f"{self.place} is a link, but must be a folder, because it holds private values")
        if about.st_uid != os.geteuid():
            raise FileError(
                f"{self.place} belongs to user {about.st_uid}, who may read private values in it, and this is user "
                f"{os.geteuid()}: run as its owner, or make a folder of your own"
            )
        if about.st_mode & 0o077:
            raise FileError(f"others may enter {self.place}, which holds private values: chmod 700 it")

    def names(self) -> list[str]:
        """The files there, but for temporary ones."""
        found = self._do("read", lambda: self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True)))
        return sorted(each.base_name for each in found if not each.base_name.startswith(".dpfast-"))

    def open(self, name: str) -> Any:
        """A file to read at any place. Raises: FileError."""
        return self._do("read", lambda: self.files.open_input_file(self._at(name)))

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        if self._info(name).type == fs.FileType.NotFound:
            return None
        with self.open(name) as file:
            return bytes(self._do("read", file.read))

    def facts(self, name: str, kind: type = dict) -> Any:
        """The object or list in a file; None if there is none. Raises: FileError (damaged)."""
        if (written := self.read(name)) is None:
            return None
        with suppress(ValueError):
            if isinstance(found := json.loads(written), kind):
                return found
        raise FileError(f"{name} in {self.place} is damaged")

    def written(self, name: str) -> str | None:
        """When a file was written, in UTC; None if there is none."""
        if (about := self._info(name)).type == fs.FileType.NotFound:
            return None
        when: datetime | None = about.mtime  # some kind of place may not know
        return "unknown" if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M UTC}"

    def write(self, name: str, data: bytes) -> bool:
        """Write a file that is not there; whether the file that is there now holds this.

        What is there is never replaced (an object store cannot tell two who write at once).
        """
        if self.local:
            return self._write_local(name, data)
        if (there := self.read(name)) is not None:
            return there == data
        whole = self.files.type_name in WHOLE_AT_CLOSE
        begun = self._at(name) if whole else self._at(f".dpfast-{secrets.token_hex(8)}.tmp")

        def write() -> None:
            with self.files.open_output_stream(begun) as file:
                file.write(data)
            if not whole:
                self.files.move(begun, self._at(name))

        self._do("write", write)
        return True

    def _write_local(self, name: str, data: bytes) -> bool:
        try:
            with atomic_write(Path(self._at(name)), found="refuse", private=self.private) as file:
                file.write(data)
        except FileError:
            if (there := self.read(name)) is None:
                raise
            return there == data
        return True

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    def _info(self, name: str) -> Any:
        return self._do("read", lambda: self.files.get_file_info(self._at(name)))

    def _do(self, what: str, work: Any) -> Any:
        try:
            return work()
        except (OSError, pa.ArrowException) as error:
            raise self._failed(what, error) from None

    def _failed(self, what: str, error: Exception) -> FileError:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        return FileError(f"cannot {what} {self.place}: {why}")

    def __repr__(self) -> str:
        return f"<Folder {self.place!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Folder, (self.place, self.private)


def _numbered(path: Path) -> object:
    """A folder by its number, which no link, mount or case of letters changes; or by name."""
    try:
        about = path.stat()
    except OSError:
        return path
    return about.st_dev, about.st_ino
