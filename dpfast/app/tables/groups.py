# SPDX-License-Identifier: Apache-2.0
"""The rows of OUT in groups that its own cells decide, whatever the pieces in which they come.

A Parquet or Arrow file shows where its groups end. Pieces end where a mebibyte of the input does:
groups that ended there would count the digits of private cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpfast.app.tables import passed

ROWS = 1 << 16  # rows of a group; with many columns there are fewer
CELLS = 1 << 20  # cells of a group
BYTES = 1 << 26  # bytes of a group's cells that pass


class Groups:
    """A group ends after ROWS rows or CELLS cells, or before its passing cells exceed `most`."""

    def __init__(self, schema: pa.Schema, noisy: Sequence[int] = (), most: int = BYTES) -> None:
        """noisy: the places of the columns that do not pass. most: bytes."""
        self._schema, self._passed = schema, sorted(set(range(len(schema))) - set(noisy))
        self._most_rows, self._most = max(min(ROWS, CELLS // max(len(schema), 1)), 1), most
        self._columns = [_column(kind) for kind in schema.types]
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows in, and yield the groups that end before the last of them."""
        ends = np.zeros(len(batch), np.int64)
        for place in self._passed:
            ends += passed.sizes(batch.column(place))
        ends, at = ends.cumsum(), 0
        while at < len(batch):
            before = int(ends[at - 1]) if at else 0
            fit = int(np.searchsorted(ends, before + self._most - self._bytes, "right")) - at
            fit = min(fit, self._most_rows - self._rows)
            if fit < 1 and self._rows:
                yield from self.rest()
                continue
            fit = max(fit, 1)  # one row may be larger than a group
            for column, cells in zip(self._columns, batch.columns, strict=True):
                column.add(cells.slice(at, fit))
            at, self._rows = at + fit, self._rows + fit
            self._bytes += int(ends[at - 1]) - before

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows since the last group, if there are any."""
        if self._rows:
            columns, self._columns = self._columns, [_column(kind) for kind in self._schema.types]
            self._rows = self._bytes = 0
            yield pa.RecordBatch.from_arrays([column.whole() for column in columns], schema=self._schema)


class _Column:
    """Cells of a group. They are copied, for a slice would keep, and show, the cells beside it."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind, self._parts = kind, list[pa.Array]()

    def add(self, cells: pa.Array) -> None:
        self._parts.append(pa.concat_arrays([cells]))

    def whole(self) -> pa.Array:
        return passed.joined(self._parts, self._kind)


class _Texts:
    """Texts of a group, in a buffer that grows: to join parts takes their memory twice."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind, self._letters, self._used = kind, pa.allocate_buffer(0, resizable=True), 0
        self._width = np.int64 if kind in {pa.large_string(), pa.large_binary()} else np.int32
        self._lengths, self._valid = [np.zeros(1, self._width)], [np.zeros(0, bool)]

    def add(self, cells: pa.Array) -> None:
        _, ends, letters = cells.buffers()
        bounds = np.frombuffer(ends, self._width)[cells.offset : cells.offset + len(cells) + 1]
        begin, self._used = self._used, self._used + int(bounds[-1] - bounds[0])
        if self._used > begin:
            if self._used > self._letters.size:
                self._letters.resize(max(self._used, 2 * begin))
            space = np.frombuffer(self._letters, np.uint8)
            space[begin : self._used] = np.frombuffer(letters, np.uint8)[bounds[0] : bounds[-1]]
        self._lengths.append(np.diff(bounds))
        self._valid.append(np.asarray(cells.is_valid()))

    def whole(self) -> pa.Array:
        ends, valid = np.concatenate(self._lengths).cumsum(dtype=self._width), np.concatenate(self._valid)
        bits = None if valid.all() else pa.array(valid).buffers()[1]
        letters = self._letters.slice(0, self._used)
        return pa.Array.from_buffers(self._kind, len(valid), [bits, pa.py_buffer(ends), letters])


def _column(kind: pa.DataType) -> _Column | _Texts:
    return _Texts(kind) if kind in passed.TEXTS else _Column(kind)


def same_table(kind: str) -> Callable[[IO[bytes], IO[bytes]], bool]:
    """What tells whether two Parquet files, or Arrow files, have equal schemas and cells.

    Other versions end groups and pages elsewhere. Each bit of a cell counts, and the record of a
    release is in the schema.
    """

    def same(one: IO[bytes], other: IO[bytes]) -> bool:
        try:
            return all(a == b for a, b in zip_longest(_plain(one, kind), _plain(other, kind)))
        except (pa.ArrowException, OSError, ValueError, NotImplementedError):  # damaged, or no such file
            return False

    return same


def _plain(file: IO[bytes], kind: str) -> Iterator[bytes]:
    """The schema and the cells of a file, in one form for all layouts."""
    file.seek(0)
    if kind == "Parquet":
        table = pq.ParquetFile(file, pre_buffer=False)
        schema, batches = table.schema_arrow, table.iter_batches(batch_size=ROWS)
    else:
        arrow = pa.ipc.open_file(file)
        schema, batches = arrow.schema, map(arrow.get_batch, range(arrow.num_record_batches))
    yield schema.serialize().to_pybytes()
    kinds = [passed.plain(field.type, keep=True) for field in schema]
    plain = pa.schema([field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)])
    groups = Groups(plain)
    for batch in batches:
        batch.validate(full=True)  # another's file may hold anything
        columns = [passed.rebuilt(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)]
        for group in groups.add(pa.RecordBatch.from_arrays(columns, schema=plain)):
            yield group.serialize().to_pybytes()
    for group in groups.rest():
        yield group.serialize().to_pybytes()
