# SPDX-License-Identifier: Apache-2.0
"""Tables and arrays on disk, read and written in pieces.

The extension gives the format. A source yields pieces, each with the counts or real values of the
chosen columns. A sink takes a piece back with its noisy values. Messages name the file, the column,
a type or a rule, never the content or the place of a cell. So they never repeat pyarrow's messages,
which quote cells.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from blake3 import blake3

from dpfast.errors import DpfastError, FileError, ParameterError
from dpfast.release.arrays import FLOAT64, INT64, CountArray, RealArray
from dpfast.tables import passed, streams
from dpfast.tables.atomic_write import Found, atomic_write, check
from dpfast.tables.csv_text import CsvText, Records
from dpfast.tables.streams import PIPE, Form, State, state
from dpfast.tables.text_format import TextFormat

Column: TypeAlias = CountArray | RealArray
Write: TypeAlias = "Callable[[Piece, Sequence[Column]], object]"

STYLE = TextFormat()
ROWS = 1 << 20  # rows held at once (CSV: csv_text.BLOCK bytes)
CELLS = 1 << 22  # cells held at once: with many columns there are fewer rows
ELEMENTS = 1 << 17  # an array is read in so many: a megabyte, which stays in a cache
HASHED = 1 << 20  # bytes of a file that are hashed at once
OTHER_LAWS = {  # the mechanisms for a kind of number that the chosen one refuses
    "integer": ": for counts there are discrete-laplace and discrete-gaussian",
    "floating": ": for real values there are laplace and gaussian",
}


@dataclass(frozen=True)
class Piece:
    """Some rows of a table, or elements of an array.

    weight: their share of the file in bytes. counts: the chosen cells. rows: all cells. text: the
    bytes of the file that hold the cells that pass, where a format has them apart.
    """

    weight: float
    counts: list[Column]
    rows: pa.RecordBatch | Records | None = None
    text: bytes = b""


class Source(Protocol):
    """An input file that is open, with checked columns.

    chosen: the names of the chosen columns, in the file's order. dtypes: those of their noisy
        cells: int64, or the real type of each column. passed: the names of the other columns.
    notes: the names of the metadata that no type needs.
    """

    path: Path
    schema: pa.Schema
    places: list[int]
    chosen: list[str]
    dtypes: list[np.dtype[Any]]
    passed: Sequence[str]
    notes: Sequence[str]

    def pieces(self) -> Iterator[Piece]: ...

    def rest(self) -> bytes:
        """What OUT depends on beside the pieces' chosen cells and texts, or a digest of it."""


class Wanted(NamedTuple):
    """What a release takes from a file, as `open_source` is told."""

    columns: Sequence[str]
    real: bool = False
    missing: int | bool | None = None
    sort_by: Sequence[str] = ()


def open_source(
    path: Path,
    columns: Sequence[str],
    *,
    real: bool = False,
    missing: int | bool | None = None,
    sort_by: Sequence[str] = (),
    keep_metadata: bool = False,
    style: TextFormat = STYLE,
    form: str | None = None,
) -> Source:
    """Open an input file and check its columns; their cells are checked as they are read.

    path: a file, or `-` for standard input, which is read once. real: whether the columns must hold
    real values instead of counts. missing: for counts the number that stands for nulls, NaN and
    empty cells; for real values whether these and infinities are allowed; all of them become NaN.
    sort_by: other columns, which give the order of the rows; the table is then held in memory.
    keep_metadata: whether all metadata passes, and not only what types need. style: how a text is
    read. form: the format of a file whose name says none.
    """
    found = streams.form(path, form)
    wanted = Wanted(columns, real, missing, sort_by)
    if path != PIPE and not path.is_file():  # opening a pipe waits until somebody writes to it
        raise ParameterError(f"{path} is no regular file: give - and what a pipe gives, or write it to a file first")
    if path == PIPE and found.format not in streams.TEXTS:
        raise ParameterError(f"IN must be a file: {found.format} is read at its end first, and - only once")
    if style != STYLE and found.format not in streams.TEXTS:
        raise ParameterError(
            f"{path} is {found.format}: --delimiter, --encoding, --decimal and --thousands are for texts"
        )
    with _reading(path):
        if found.format in {"CSV", "TSV"}:
            return CsvSource(path, wanted, style.named(found.format), found)
        if found.format == "npy":
            return NpySource(path, wanted)
        return ArrowSource(path, wanted, keep_metadata, found)


@contextmanager
def _reading(path: Path, before: State = None) -> Iterator[None]:
    """Turn what can go wrong into messages. before: the state of the file that must be unchanged."""
    try:
        yield
        error: Exception | None = None
    except (DpfastError, pa.ArrowException, OSError, ValueError) as caught:
        error = caught
    what = "standard input" if path == PIPE else str(path)
    if before is not None and _now(path) != before:
        raise FileError(f"{what} has changed while it was read; OUT was not written") from None
    if isinstance(error, DpfastError):
        raise error
    if isinstance(error, OSError) and error.errno:
        raise FileError(f"cannot read {what}: {os.strerror(error.errno)}") from None
    if error is not None:
        kind = "packed" if path == PIPE else streams.form(path).format
        raise FileError(f"{what} is not a whole {kind} file: damaged, cut short or misnamed") from None


def _now(path: Path) -> State:
    with suppress(OSError):
        return state(path)
    return None


def _places(names: Sequence[str], columns: Sequence[str], there: str, option: str = "--column") -> list[int]:
    """Return the places of columns, in the file's order. there: what a message says there is."""
    unknown = [column for column in columns if column not in names]
    if unknown or not columns:
        what = f"no column is named {unknown[0]!r}" if unknown else f"{option} must be given for a table"
        raise ParameterError(f"{what}; {there}")
    for column in columns:
        if names.count(column) > 1:
            raise ParameterError(f"{option} must name one column, and {names.count(column)} are named {column!r}")
    return sorted(map(names.index, columns))


def _divided(names: Sequence[str], places: Sequence[int]) -> tuple[list[str], Sequence[str]]:
    """Return the names of the chosen columns, and of the others."""
    return [names[place] for place in places], [name for i, name in enumerate(names) if i not in set(places)]


def _sorting(names: Sequence[str], chosen: Sequence[str], sort_by: Sequence[str], there: str) -> list[int]:
    """Return the places of the columns that give the order of rows."""
    if len(set(sort_by)) < len(sort_by):
        raise ParameterError("--sort-by must name each column once")
    if set(sort_by) & set(chosen):
        raise ParameterError("--sort-by must name columns that pass through: the order of one to be noised is private")
    return [place for name in sort_by for place in _places(names, [name], there, "--sort-by")]


def _usable(what: str, is_integer: bool, is_real: bool, real: bool, held: object) -> None:
    """Refuse a type that the mechanism cannot use, and name the mechanisms that can."""
    if is_real if real else is_integer:
        return
    wanted = "float32 or float64" if real else "integers"
    hint = OTHER_LAWS["integer"] if real and is_integer else OTHER_LAWS["floating"] if is_real else ""
    raise ParameterError(f"{what} must hold {wanted}, and holds {held}{hint}")


def _finite(what: str, values: RealArray, missing: object) -> RealArray:
    if not missing and not np.isfinite(values).all():
        raise FileError(
            f"{what} holds NaN, an infinity, a null or an empty cell: --missing would put a public number in their place"
        )
    return values


class ArrowSource:
    """A Parquet or Arrow IPC file, read in batches of about CELLS cells."""

    notes: Sequence[str]

    def __init__(self, path: Path, wanted: Wanted, keep_metadata: bool, form: Form) -> None:
        columns, real, missing, sort_by = wanted
        self.path, self.codec, self.real, self.missing = path, "snappy", real, missing
        if form.format == "Parquet":
            self.file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
            self.schema, self.batches = self.file.schema_arrow, self._parquet
            if self.file.num_row_groups and self.file.metadata.num_columns:
                # A query for damaged metadata of a column ends the process. A read of the column
                # refuses them.
                first = self.file.metadata.schema.column(0).path
                next(self.file.iter_batches(1, row_groups=[0], columns=[first]), None)
                codec = self.file.metadata.row_group(0).column(0).compression.lower()
                self.codec = {"uncompressed": "none", "lz4_raw": "lz4", "lzo": "snappy"}.get(codec, codec)
        else:
            # One batch may be as large as the file. It is mapped, so only the current rows are in
            # memory.
            self.file = pa.ipc.open_file(pa.memory_map(str(path)))
            self.schema, self.batches = self.file.schema, self._arrow
        there = f"there are {', '.join(map(repr, self.schema.names)) or 'none'}"
        self.places = _places(self.schema.names, columns, there)
        self.chosen, self.passed = _divided(self.schema.names, self.places)
        self.sort_by, self.notes = _sorting(self.schema.names, self.chosen, sort_by, there), passed.notes(self.schema)
        for field in map(self.schema.field, self.places):
            is_real = pa.types.is_float32(field.type) or pa.types.is_float64(field.type)
            _usable(f"column {field.name!r}", pa.types.is_integer(field.type), is_real, real, field.type)
        kinds = [self.schema.field(place).type for place in self.places]
        self.dtypes = [np.dtype(kind.to_pandas_dtype()) if real else INT64 for kind in kinds]
        self.raw = self.schema  # the file's own
        try:
            self.schema = passed.cleaned(self.raw, self.places, keep=keep_metadata)
        except NotImplementedError as error:
            (field,) = error.args
            what = f"column {field.name!r} of {path} holds {field.type}"
            raise FileError(f"{what}, which cannot be passed through: leave it out of the input") from None

    def pieces(self) -> Iterator[Piece]:
        size, rows = self.path.stat().st_size, min(max(CELLS // len(self.schema), 1024), ROWS)
        with _reading(self.path):
            categories = self._categories(rows)
            for batch, share in self._sorted(rows) if self.sort_by else self.batches(rows):
                chosen = [batch.column(place) for place in self.places]
                cells = [self._cells(name, column) for name, column in zip(self.chosen, chosen, strict=True)]
                columns = batch.columns
                for place in set(range(len(columns))) - set(self.places):
                    coded, kind = categories.get(place), self.schema.field(place).type
                    columns[place] = coded.coded(columns[place]) if coded else passed.rebuilt(columns[place], kind)
                yield Piece(size * share, cells, pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def rest(self) -> bytes:
        """The digest of the file as it is now: its cells lie compressed, and in no order."""
        found = blake3()
        with _reading(self.path), self.path.open("rb") as file:
            while chunk := file.read(HASHED):
                found.update(chunk)
        return found.digest()

    def _categories(self, rows: int) -> dict[int, passed.Categories]:
        """The categories that rows have, for each column with categories: it is read twice."""
        kinds = {i: f.type for i, f in enumerate(self.raw) if pa.types.is_dictionary(f.type)}
        found = {place: passed.Categories(kind) for place, kind in kinds.items()}
        if found:
            for batch, _ in self.batches(rows, [self.raw.names[place] for place in found]):
                coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
                for categories, column in zip(found.values(), coded, strict=True):
                    categories.look(column)
        return found

    def _sorted(self, rows: int) -> Iterator[tuple[pa.RecordBatch, float]]:
        held, size = [], 0
        for batch, _ in self.batches(rows):
            size += batch.nbytes
            passed.check_sortable(size)
            held.append(batch)
        table = pa.Table.from_batches(held, self.raw).unify_dictionaries()
        order = passed.in_order([table.column(place) for place in self.sort_by])
        for batch in table.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=rows):
            yield batch, batch.num_rows / table.num_rows

    def _cells(self, name: str, column: pa.Array) -> Column:
        what = f"column {name!r} of {self.path}"
        if self.real:
            return _finite(what, column.to_numpy(zero_copy_only=False), self.missing)  # with NaN for nulls
        if column.null_count:
            raise FileError(f"{what} holds nulls, where every count is needed")
        return cast("CountArray", column.to_numpy())

    def _parquet(self, rows: int, columns: list[str] | None = None) -> Iterator[tuple[pa.RecordBatch, float]]:
        for batch in self.file.iter_batches(batch_size=rows, columns=columns):
            yield batch, batch.num_rows / self.file.metadata.num_rows

    def _arrow(
        self,
        rows: int,
        columns: list[str] | None = None,  # noqa: ARG002  a mapped file costs only what is read
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        for i in range(self.file.num_record_batches):
            batch = self.file.get_batch(i)
            batch.validate(full=True)  # later code follows its offsets and codes
            for at in range(0, batch.num_rows, rows):
                part = batch.slice(at, rows)
                yield part, part.num_rows / batch.num_rows / self.file.num_record_batches


class NpySource:
    """An array of any shape, in the order of the file."""

    passed: Sequence[str] = ()
    notes: Sequence[str] = ()

    def __init__(self, path: Path, wanted: Wanted) -> None:
        columns, real, missing, sort_by = wanted
        if columns or sort_by:
            raise ParameterError(f"{path}: an npy file has no columns, so --column and --sort-by must be left out")
        self.path, self.schema, self.missing = path, pa.schema([("array", pa.int64())]), missing
        self.places, self.chosen = [0], ["array"]
        with path.open("rb") as file:
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
        _usable(str(path), self.dtype.kind in "iu", is_real, real, self.dtype)
        self.dtypes = [np.dtype(f"<f{self.dtype.itemsize}") if real else INT64]
        self.size = math.prod(self.shape)
        if path.stat().st_size != self.start + self.size * self.dtype.itemsize:
            raise FileError(f"{path} is not a whole npy file: its size is not what its header says")

    def pieces(self) -> Iterator[Piece]:
        # The file is read, not mapped: if it shrinks meanwhile, this raises an error instead of a
        # SIGBUS.
        with _reading(self.path), self.path.open("rb") as file:
            file.seek(self.start)
            for left in range(self.size, 0, -ELEMENTS):
                cells = np.empty(min(left, ELEMENTS), self.dtype)
                if file.readinto(cells.view(np.uint8).data) < cells.nbytes:  # a `read` costs more than all the noise
                    raise ValueError
                if self.dtype.kind == "f":
                    _finite(str(self.path), cells, self.missing)
                yield Piece(cells.nbytes, [cells])

    def rest(self) -> bytes:
        return repr((self.shape, self.fortran)).encode()


class CsvSource:
    """A CSV file with a header line. In a table of another format its columns are strings."""

    notes: Sequence[str] = ()

    def __init__(self, path: Path, wanted: Wanted, style: TextFormat, form: Form) -> None:
        if path == PIPE and wanted.sort_by:
            raise ParameterError("IN must be a file for --sort-by, and no pipe, which is read once")
        self.path, self.form, self.wanted, self._state = path, form, wanted, state(path)
        self.text = CsvText(path, style, form.codec)
        self.schema = pa.schema([(name, pa.string()) for name in self.text.names])
        # The message does not quote the line, because without a header it is a record.
        there = (
            f"a column's name stands in the first line of {self.text.what}, the header, which has "
            f"{len(self.text.names)} field{'s' * (len(self.text.names) > 1)}{style.hint(self.text.header.decode('utf-8', 'replace'))}"
        )
        self.places = _places(self.text.names, wanted.columns, there)
        self.chosen, self.passed = _divided(self.text.names, self.places)
        self.sort_by = _sorting(self.text.names, self.chosen, wanted.sort_by, there)
        self.dtypes = [FLOAT64 if wanted.real else INT64 for _ in self.places]

    def pieces(self) -> Iterator[Piece]:
        done = 0
        with _reading(self.path, self._state):
            if self.sort_by:
                passed.check_sortable(self.path.stat().st_size)
                self.text.sort(self.sort_by)
            for records in self.text.records():
                cells = [self._cells(records, place) for place in self.places]
                yield Piece(self.text.done - done, cells, records, records.block)
                done = self.text.done

    def rest(self) -> bytes:
        """The header; of another style than a plain CSV's the style, too: it decides what is a field."""
        sealed = self.text.style.sealed()
        head = self.text.mark + self.text.header
        return blake3(sealed + self.text.codec.encode()).digest() + head if sealed else head

    def _cells(self, records: Records, place: int) -> Column:
        missing = self.wanted.missing
        if not self.wanted.real:
            return records.counts(place, missing)
        return _finite(f"column {self.text.names[place]!r} of {self.text.what}", records.reals(place), missing)


def checked_target(path: Path, source: Source, *, found: Found) -> str:
    """The format of `path`, if it can be written. Raises: FileError, ParameterError."""
    kind = streams.form(path).format
    if isinstance(source, NpySource) != (kind == "npy"):
        raise ParameterError(f"{path}: an npy file can only become an npy file, and a table a table")
    check(path, kind in {"CSV", "npy"}, found=found)
    return kind


@contextmanager
def destination(path: Path, source: Source, about: dict[str, object], *, found: Found) -> Iterator[Write]:
    """Yield the function that writes pieces to the file that becomes `path`.

    about: goes into its schema, or into a file beside it. found: as of atomic_write.
    """
    kind = checked_target(path, source, found=found)
    with suppress(KeyError, TypeError, ValueError):  # the input is no output of dpfast
        about = {**about, "earlier": json.loads(source.schema.metadata[b"dpfast"])}
    text = json.dumps(about, indent=2) + "\n"
    with atomic_write(path, text if kind in {"CSV", "npy"} else None, found=found) as file:
        if isinstance(source, NpySource):
            form = {"descr": source.dtypes[0].str, "fortran_order": source.fortran, "shape": source.shape}
            np.lib.format.write_array_header_1_0(file, form)
            yield lambda _, noisy: file.write(noisy[0].data)
        elif isinstance(source, CsvSource) and kind == "CSV":
            lines = source.text
            file.write(lines.mark + lines.encoded(lines.header))
            yield lambda piece, noisy: file.write(
                lines.encoded(cast("Records", piece.rows).spliced(source.places, noisy))
            )
        else:
            with _table(file, path, source, _noisy_schema(source, text)) as write:
                yield write


@contextmanager
def _table(file: IO[bytes], path: Path, source: Source, schema: pa.Schema) -> Iterator[Write]:
    """Yield the function that writes pieces as a pyarrow table."""

    def write(piece: Piece, noisy: Sequence[Column]) -> None:
        columns = list(cast("pa.RecordBatch", piece.rows).columns)
        for place, values in zip(source.places, noisy, strict=True):
            columns[place] = pa.array(values)
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))

    try:
        with _writer(file, path, source, schema) as writer:
            yield write
    except pa.ArrowException:
        raise FileError(f"cannot write {path}: this format cannot hold one of the other columns") from None


def _writer(file: IO[bytes], path: Path, source: Source, schema: pa.Schema) -> pq.ParquetWriter | pacsv.CSVWriter:
    kind = path.suffix.lower()
    if kind == ".parquet":
        return pq.ParquetWriter(file, schema, compression=getattr(source, "codec", "snappy"))
    if kind == ".csv":
        return pacsv.CSVWriter(file, schema)
    compression = "lz4" if kind == ".feather" else None  # as pyarrow.feather does
    return pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression=compression))


def _noisy_schema(source: Source, about: str) -> pa.Schema:
    kept = {**(source.schema.metadata or {}), b"dpfast": about.encode()}
    # Otherwise pandas would read a column back with its old type.
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        pandas = json.loads(kept[b"pandas"])
        for column in pandas["columns"]:
            if column["field_name"] in source.chosen:
                dtype = str(source.dtypes[source.chosen.index(column["field_name"])])
                column.update(pandas_type=dtype, numpy_type=dtype, metadata=None)
        kept[b"pandas"] = json.dumps(pandas).encode()
    noisy = {i: pa.from_numpy_dtype(dtype) for i, dtype in zip(source.places, source.dtypes, strict=True)}
    return pa.schema([f.with_type(noisy.get(i, f.type)) for i, f in enumerate(source.schema)], kept)
