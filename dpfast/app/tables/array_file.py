# SPDX-License-Identifier: Apache-2.0
"""NumPy's files as sources: one array, alone (.npy) or of an archive (.npz)."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from dpfast.app.tables import numbers
from dpfast.app.tables.source import Column, Passing, PassingText, Piece, Wanted, reading, reals, usable
from dpfast.app.tables.streams import ZIP_ERRORS, Form, size_of, states
from dpfast.errors import FileError, ParameterError
from dpfast.noise.release.arrays import INT64, RealArray

ELEMENTS = 1 << 17  # an array is read in so many: a megabyte, which stays in a cache
EPOCH = (1980, 1, 1, 0, 0, 0)  # the date of an archive's member: equal arrays make equal files


class NpySource:
    """An array of any shape, in the order of the file."""

    passed: Sequence[str] = ()
    notes: Sequence[str] = ()
    needed: Sequence[str] = ()
    earlier = None

    def __init__(self, path: Path, wanted: Wanted, form: Form) -> None:
        self.path, self.form, self.wanted, self.size = path, form, wanted, size_of(path)
        self._state, self.schema = states([path]), pa.schema([("array", pa.int64())])
        if wanted.sort_by:
            raise ParameterError(f"{path}: an {form.format} file has no columns, so --sort-by must be left out")
        self.member = self._member() if form.format == "npz" else None
        if wanted.columns and self.member is None:
            raise ParameterError(f"{path}: an npy file has no columns, so --column must be left out")
        self.places, self.chosen = [0], [self.member.filename.removesuffix(".npy") if self.member else "array"]
        with self._opened() as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            try:
                self.shape, self.fortran, self.dtype = read(file)
            except Exception:  # NumPy parses it as Python, so any exception of the parser is possible
                raise ValueError from None
            if min(self.shape, default=0) < 0:
                raise ValueError
            self.start = file.tell()
        is_real = self.dtype.kind == "f" and self.dtype.itemsize in {4, 8}
        usable(str(path), self.dtype.kind in "iu" or is_real, is_real, wanted.real, self.dtype)
        self.dtypes = [wanted.dtype or (np.dtype(f"<f{self.dtype.itemsize}") if wanted.real else INT64)]
        self.cells = math.prod(self.shape)
        held = self.member.file_size if self.member else cast("int", self.size)
        if held != self.start + self.cells * self.dtype.itemsize:
            raise FileError(f"{path} is not a whole {form.format} file: its size is not what its header says")

    def pieces(self) -> Iterator[Piece]:
        # The file is read, not mapped: if it shrinks meanwhile, this raises an error instead of a
        # SIGBUS.
        with reading(self.path, self.form, [self.path], self._state), self._opened() as file:
            file.read(self.start)  # to seek within an archive would end the check of its sum, since Python 3.12
            for left in range(self.cells, 0, -ELEMENTS):
                cells = np.empty(min(left, ELEMENTS), self.dtype)
                _fill(file, cells)
                yield Piece(cells.nbytes, [self._usable(cells)])

    def passing(self) -> Passing:
        return PassingText()

    def rest(self) -> bytes:
        return repr((self.shape, self.fortran)).encode()

    def _usable(self, cells: Column) -> Column:
        if cells.dtype.kind != "f":
            return cells
        what, values = str(self.path), cast("RealArray", cells)
        if self.wanted.real:
            return reals(what, values, self.wanted, rounded=False)
        return numbers.whole(values, what, self.wanted.missing)

    def _member(self) -> zipfile.ZipInfo:
        """The one array of an archive, or the one that is named."""
        with _unpacking(), zipfile.ZipFile(self.path) as archive:
            there = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        names = [each.filename.removesuffix(".npy") for each in there]
        if len(names) != len(set(names)):
            raise FileError(f"{self.path} must have one array of each name")
        if len(self.wanted.columns) > 1:
            raise ParameterError(f"{self.path}: --column must name one array of an npz file")
        name = next(iter(self.wanted.columns), names[0] if len(names) == 1 else None)
        if name is None or name not in names:
            what = "--column must name one of its arrays" if name is None else f"no array is named {name!r}"
            raise ParameterError(f"{self.path}: {what}; there are {', '.join(map(repr, names)) or 'none'}")
        return there[names.index(name)]

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self.member is None:
            with self.path.open("rb") as file:
                yield file
            return
        with _unpacking(), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as inner:
            yield inner


@contextmanager
def _unpacking() -> Iterator[None]:
    """Raises: ValueError (the archive is damaged)."""
    try:
        yield
    except (*ZIP_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise ValueError from None


def _fill(file: IO[bytes], cells: Column) -> None:
    """Read cells. Raises: ValueError (there are fewer)."""
    space, at = cells.view(np.uint8).data, 0
    while at < cells.nbytes:
        got = cast("Any", file).readinto(space[at:])  # a `read` costs more than all the noise
        if not got:
            raise ValueError
        at += got


def _inside(name: str) -> str:
    """The name of a member that leads to no other folder, wherever the archive is unpacked."""
    path = PureWindowsPath(name)
    return path.name if path.anchor or ".." in path.parts else name


@contextmanager
def array_written(file: IO[bytes], source: NpySource, form: Form) -> Iterator[IO[bytes]]:
    """A stream for the noisy cells of an array, behind its header."""
    about = {"descr": source.dtypes[0].newbyteorder("<").str, "fortran_order": source.fortran, "shape": source.shape}
    if form.format == "npy":
        np.lib.format.write_array_header_1_0(file, about)
        yield file
        return
    member = zipfile.ZipInfo(_inside(f"{source.chosen[0]}.npy"), EPOCH)
    if source.member is not None:
        member.compress_type = source.member.compress_type
    with zipfile.ZipFile(file, "w") as archive, archive.open(member, "w", force_zip64=True) as inner:
        np.lib.format.write_array_header_1_0(inner, about)
        yield inner
