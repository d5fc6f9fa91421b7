# SPDX-License-Identifier: Apache-2.0
"""Tables of pyarrow as sources: chosen columns are read as numbers, the others are rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from dpfast.app.tables import numbers, passed
from dpfast.app.tables.held import check_width, in_parts
from dpfast.app.tables.passing_values import PassingValues
from dpfast.app.tables.readers import Reader
from dpfast.app.tables.source import (
    Column,
    Passing,
    Piece,
    Wanted,
    cells_decide,
    divided,
    places,
    reading,
    reals,
    sorting,
    usable,
)
from dpfast.app.tables.streams import Form, size_of, states
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import FileError
from dpfast.noise.release.arrays import FLOAT64, INT64, CountArray

ROWS = 1 << 20  # rows held at once
CELLS = 1 << 22  # cells held at once: with many columns there are fewer rows
HASHED = 1 << 20  # bytes of a file that are hashed at once
TEXTS = {pa.string(), pa.large_string()}


class ArrowSource:
    """A table, read in batches of about CELLS cells."""

    notes: Sequence[str]
    needed: Sequence[str]

    def __init__(
        self, path: Path, wanted: Wanted, keep_metadata: bool, form: Form, reader: Reader, style: TextFormat
    ) -> None:
        self.path, self.form, self.wanted, self.reader, self.style = path, form, wanted, reader, style
        self.codec, self.schema, self._state = reader.codec, reader.schema, states(reader.paths)
        check_width(path, len(self.schema))
        sizes = [size_of(each) for each in reader.paths]
        self.size = None if None in sizes else sum(cast("list[int]", sizes))
        there = f"there are {', '.join(map(repr, self.schema.names)) or 'none'}"
        with cells_decide(form.format):
            self.places = places(self.schema.names, wanted.columns, there)
            for field in map(self.schema.field, self.places):
                usable(f"column {field.name!r}", *_kinds(field.type), wanted.real, field.type)
        self.chosen, self.passed = divided(self.schema.names, self.places)
        self.sort_by = sorting(self.schema.names, self.chosen, wanted.sort_by, there)
        self.notes, self.needed = passed.notes(self.schema), passed.needed(self.schema)
        kinds = [_plain(self.schema.field(place).type) for place in self.places]
        self.dtypes = [wanted.dtype or (_real_dtype(kind) if wanted.real else INT64) for kind in kinds]
        self.raw = self.schema  # the file's own
        try:
            self.schema = passed.cleaned(self.raw, self.places, keep=keep_metadata)
        except NotImplementedError as error:
            (field,) = error.args
            what = f"column {field.name!r} of {path} contains {field.type}"
            raise FileError(f"{what}, which cannot be passed through: leave it out of the input") from None

    def pieces(self) -> Iterator[Piece]:
        rows = min(max(CELLS // len(self.schema), 1024), ROWS)
        with reading(self.path, self.form, self.reader.paths, self._state):
            categories = self._categories(rows)
            for batch, share in self._sorted(rows) if self.sort_by else self.reader.batches(rows):
                chosen = [batch.column(place) for place in self.places]
                cells = [self._cells(name, column) for name, column in zip(self.chosen, chosen, strict=True)]
                columns = batch.columns
                for place in set(range(len(columns))) - set(self.places):
                    coded, kind = categories.get(place), self.schema.field(place).type
                    columns[place] = coded.coded(columns[place]) if coded else passed.rebuilt(columns[place], kind)
                yield Piece((self.size or 0) * share, cells, pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def passing(self) -> Passing:
        places = [place for place in range(len(self.schema)) if place not in set(self.places)]
        return PassingValues(self.schema, places)

    def rest(self) -> bytes:
        """How texts are read, where it is not as usual."""
        return self.style.sealed()

    def earlier(self) -> bytes:
        """A digest of the file as it is now. For a folder the names of its files are in it."""
        found = blake3(self.style.sealed())
        with reading(self.path, self.form):
            for path in self.reader.paths:
                if path != self.path:
                    found.update(b"%s\0%d\0" % (str(path.relative_to(self.path)).encode(), path.stat().st_size))
                with self._bytes_of(path) as file:
                    while chunk := file.read(HASHED):
                        found.update(chunk)
        return blake3(blake3().digest() + found.digest()).digest()

    def _bytes_of(self, path: Path) -> AbstractContextManager[Any]:
        copy = self.reader.copy
        if copy is None:
            return path.open("rb")
        copy.seek(0)
        return nullcontext(copy)

    def _categories(self, rows: int) -> dict[int, passed.Categories]:
        """The categories that rows have, for each column with categories: it is read twice."""
        kinds = {i: f.type for i, f in enumerate(self.raw) if pa.types.is_dictionary(f.type) and i not in self.places}
        found = {place: passed.Categories(kind) for place, kind in kinds.items()}
        if found:
            for batch, _ in self.reader.batches(rows, [self.raw.names[place] for place in found]):
                coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
                for categories, column in zip(found.values(), coded, strict=True):
                    categories.look(column)
        return found

    def _sorted(self, rows: int) -> Iterator[tuple[pa.RecordBatch, float]]:
        held, size = [], 0
        for batch, _ in self.reader.batches(rows):
            size += batch.nbytes
            passed.check_sortable(size)
            held.append(batch)
        table = pa.Table.from_batches(held, self.raw).unify_dictionaries()
        order = passed.in_order([table.column(place) for place in self.sort_by])
        for batch in table.take(pa.array(order)).combine_chunks().to_batches():
            for part in in_parts(batch, rows):
                yield part, part.num_rows / table.num_rows

    def _cells(self, name: str, column: pa.Array) -> Column:
        what, missing = f"column {name!r} of {self.path}", self.wanted.missing
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if self.wanted.real:
            if kind in TEXTS:
                return reals(what, numbers.reals(pc.fill_null(column, ""), what, self.style), self.wanted)
            rounded = pa.types.is_decimal(kind) or self.form.format == "JSON lines"
            if pa.types.is_decimal(kind):
                column = column.cast(pa.float64())
            return reals(what, column.to_numpy(zero_copy_only=False), self.wanted, rounded=rounded)  # NaN for nulls
        if kind in TEXTS:
            return numbers.counts(pc.fill_null(column, ""), what, self.style, missing)
        if pa.types.is_floating(kind):
            return numbers.whole(column.to_numpy(zero_copy_only=False), what, missing)
        if pa.types.is_decimal(kind):
            column = numbers.of_decimals(column, what)
        if column.null_count:
            column = numbers.filled(column, what, missing)
        return cast("CountArray", column.to_numpy())


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _kinds(kind: pa.DataType) -> tuple[bool, bool]:
    """Whether cells of a type may be counts, and whether they may be real values."""
    kind = _plain(kind)
    real = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    either = kind in TEXTS or pa.types.is_decimal(kind)
    return pa.types.is_integer(kind) or real or either, real or either


def _real_dtype(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(np.float32) if pa.types.is_float32(kind) else FLOAT64
