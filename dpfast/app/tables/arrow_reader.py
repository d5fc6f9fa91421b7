# SPDX-License-Identifier: Apache-2.0
"""Arrow IPC files as batches that nobody else can write: read into memory, or from a private copy.

Whoever may write a mapped file can do so between the check of its offsets and their use, and no
time of the file tells it. So offsets are checked and followed in memory of this process, or in a
copy without a name.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpfast.app.tables.held import in_parts
from dpfast.errors import FileError

LARGEST = 1 << 26  # bytes of a batch that is read whole; of a file with a larger one there is a copy
UNPACKED = 1 << 30  # bytes of a packed batch, which is unpacked whole
CHUNK = 1 << 20  # bytes that are copied at once
MARK = b"\xff\xff\xff\xff"  # before a message, since 2019
BLOCK = np.dtype(  # where a dictionary or a batch lies
    {"names": ["at", "header", "body"], "formats": ["<i8", "<i4", "<i8"], "offsets": [0, 8, 16], "itemsize": 24}
)
BUFFER = np.dtype([("at", "<i8"), ("size", "<i8")])


class ArrowFile:
    """An Arrow IPC file, which Feather is, too. One batch may be as large as the file.

    copy: of the file, when it is read from one. All later passes read it, too.
    """

    codec = "snappy"

    def __init__(self, path: Path, *, kept: bool = True) -> None:
        """kept: whether a copy stays for the next pass."""
        self.paths, self._kept = [path], kept
        self.copy: mmap.mmap | None = None
        with pa.OSFile(str(path)) as file:
            self.schema = pa.ipc.open_file(file).schema

    def batches(self, rows: int, columns: list[str] | None = None) -> Iterator[tuple[pa.RecordBatch, float]]:
        wanted = [i for i, name in enumerate(self.schema.names) if columns is None or name in columns]
        with self._opened(wanted) as (file, forget):
            if not file.schema.equals(pa.schema([self.schema.field(i) for i in wanted])):
                raise FileError(f"{self.paths[0]} has changed while it was read; OUT was not written")
            for i in range(file.num_record_batches):
                batch = file.get_batch(i)
                _validate(batch, rows, forget)
                for part in in_parts(batch, rows):
                    yield part, part.num_rows / batch.num_rows / file.num_record_batches
                    forget()
                del batch  # before the next one is read

    @contextmanager
    def _opened(self, wanted: list[int]) -> Iterator[tuple[Any, Callable[[], object]]]:
        """The file, and what drops the pages of a copy that were read: they are on the disk."""
        path, copy = self.paths[0], self.copy
        if copy is None and has_large_batches(path):
            copy = _copied(path)
            self.copy = copy if self._kept else None
        if copy is None:
            with pa.OSFile(str(path)) as source:
                yield pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted)), lambda: None
        else:
            read = getattr(mmap, "MADV_DONTNEED", None)  # not every system is told
            yield _Mapped(copy, wanted), (lambda: None) if read is None else partial(copy.madvise, read)


class _Mapped:
    """A copy whose batches stay where they are: with `included_fields` pyarrow would copy them."""

    def __init__(self, copy: mmap.mmap, wanted: list[int]) -> None:
        self._file, self._wanted = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(copy))), wanted
        self.num_record_batches = self._file.num_record_batches
        self.schema = pa.schema([self._file.schema.field(i) for i in wanted])

    def get_batch(self, i: int) -> pa.RecordBatch:
        return self._file.get_batch(i).select(self._wanted)


def _validate(batch: pa.RecordBatch, rows: int, forget: Callable[[], object]) -> None:
    """Later code follows offsets and codes. Raises: pa.ArrowInvalid.

    A nested column's children are whole in each of its slices, so it is checked at once.
    """
    batch.validate()
    for column in batch.columns:
        kind = getattr(column.type, "storage_type", column.type)
        step = max(len(column), 1) if kind.num_fields or pa.types.is_dictionary(kind) else rows
        for at in range(0, len(column), step):
            column.slice(at, step).validate(full=True)
            forget()


def _copied(path: Path) -> mmap.mmap:
    """A copy that has no name, and that its owner alone could open before it lost it.

    Raises: FileError (no room for it).
    """
    try:
        with path.open("rb") as file, tempfile.TemporaryFile() as made:
            left = os.fstat(file.fileno()).st_size
            while left > 0 and (chunk := file.read(min(left, CHUNK))):
                made.write(chunk)
                left -= len(chunk)
            made.flush()
            return mmap.mmap(made.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        most, why = f"{LARGEST >> 20} MiB", os.strerror(error.errno) if error.errno else "it failed"
        raise FileError(
            f"{path} contains a batch of more than {most}, and is copied among the temporary files to be read: {why}. "
            "TMPDIR names another folder for them; smaller batches need no copy"
        ) from None


# ------------------------------------------------------------------ sizes


def has_large_batches(path: Path) -> bool:
    """Whether a batch, or all dictionaries together, are too large to be read whole.

    Raises: FileError (a packed batch that takes too much memory); ValueError (a damaged file).
    """
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        tail = _read(file, end - 10, 10)  # the length of the footer, and ARROW1
        size = _number(tail, 0)
        footer = _read(file, end - 10 - size, size)
        table = _number(footer, 0)
        dictionaries, batches = (_vector(footer, _field(footer, table, field), BLOCK) for field in (2, 3))
        for block in (*dictionaries, *batches):
            if _unpacked(file, block) > UNPACKED:
                raise FileError(
                    f"{path} contains a packed batch that takes more than {UNPACKED >> 20:,} MiB of memory: write smaller "
                    "batches, or do not pack them"
                )
    return bool(max(sum(dictionaries["body"].tolist()), *batches["body"].tolist(), 0) > LARGEST)


def _unpacked(file: IO[bytes], block: Any) -> int:
    """The bytes of a packed batch once it is unpacked; 0 of one that is not packed."""
    at, size, _ = block.tolist()
    header, body = _read(file, at, min(size, LARGEST)), at + size
    message = header[8:] if header.startswith(MARK) else header[4:]
    table = _number(message, 0)
    batch = _at(message, _field(message, table, 2))
    if _number(message, _field(message, table, 1), 1) == 2:  # a dictionary, whose values are a batch
        batch = _at(message, _field(message, batch, 1))
    if not _field(message, batch, 3):
        return 0
    found = 0
    for at, size in _vector(message, _field(message, batch, 2), BUFFER).tolist():
        if size >= 8:
            before = int.from_bytes(_read(file, body + at, 8), "little", signed=True)
            found += size if before < 0 else before  # -1: this buffer is not packed
    return found


def _read(file: IO[bytes], at: int, size: int) -> bytes:
    """What is there of so many bytes."""
    file.seek(min(max(at, 0), os.fstat(file.fileno()).st_size))
    return file.read(max(size, 0))


# A flatbuffer's tables name the places of their fields, and its vectors their lengths. What is
# damaged gives other numbers, or a ValueError; pyarrow's own reader refuses it afterwards.


def _number(data: bytes, at: int, size: int = 4, *, signed: bool = False) -> int:
    return int.from_bytes(data[at : at + size], "little", signed=signed)


def _at(data: bytes, at: int) -> int:
    """The place to which another one leads."""
    return at + _number(data, at)


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a table's field; 0 if it is left out."""
    names = table - _number(data, table, signed=True)
    there = _number(data, names + 4 + 2 * number, 2) if 4 + 2 * number < _number(data, names, 2) else 0
    return table + there if there else 0


def _vector(data: bytes, at: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    begin = _at(data, at)
    many = _number(data, begin) if at else 0
    return np.frombuffer(data, kind, many, begin + 4) if many else np.zeros(0, kind)
