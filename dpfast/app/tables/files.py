# SPDX-License-Identifier: Apache-2.0
"""Tables and arrays on disk, read and written in pieces.

The name gives the format. A source yields pieces, each with the counts or real values of the chosen
columns. A sink takes a piece back with its noisy values.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpfast.app.tables import passed, streams
from dpfast.app.tables.array_file import NpySource, array_written
from dpfast.app.tables.arrow_file import ArrowSource
from dpfast.app.tables.arrow_reader import ArrowFile
from dpfast.app.tables.csv_file import CsvSource
from dpfast.app.tables.csv_text import Records
from dpfast.app.tables.groups import BYTES, Groups, same_table
from dpfast.app.tables.readers import JsonLines, Parquet, ParquetFolder, Reader
from dpfast.app.tables.source import Column, Piece, Source, Wanted, reading
from dpfast.app.tables.streams import PIPE, Form, packed
from dpfast.app.tables.text_format import DELIMITERS, TextFormat
from dpfast.errors import FileError, ParameterError
from dpfast.paths import Found, atomic_write, check, standard_output

Write: TypeAlias = "Callable[[Piece, Sequence[Column]], object]"

STYLE = TextFormat()
ARRAYS = {"npy", "npz"}
HOLD_METADATA = {"Parquet", "Arrow"}
PAGED = 64  # rows after which a page of Parquet may end: of the usual 1024, long texts make it large


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
    dtype: np.dtype[Any] | None = None,
    within: bool = False,
) -> Source:
    """Open an input file and check its columns; their cells are checked as they are read.

    path: a file, or `-` for standard input, which is read once. real: whether the columns must hold
    real values instead of counts. missing: for counts the number that stands for nulls, NaN and
    empty cells; for real values whether these and infinities are allowed; all of them become NaN.
    sort_by: other columns, which give the order of the rows; the table is then held in memory.
    keep_metadata: whether all metadata passes, and not only what types need. style: how a text is
    read. form: the format of a file whose name says none. dtype: of the noisy cells, if not their
    own. within: whether a clamp lies within 2**53.
    """
    found = streams.form(path, form) if not path.is_dir() else Form("Parquet")
    wanted = Wanted(columns, real, missing, sort_by, dtype, within)
    if path != PIPE and not (path.is_file() or path.is_dir()):  # opening a pipe waits until somebody writes to it
        raise ParameterError(f"{path} is not a regular file: pipe it into -, or write it to a file first")
    if path == PIPE and found.format not in streams.TEXTS:
        raise ParameterError(f"IN must be a file: {found.format} cannot be read once from beginning to end, as - is")
    if style != STYLE and found.format == "npy":
        raise ParameterError(
            f"{path} is not a text: --delimiter, --encoding, --decimal and --thousands must be left out"
        )
    with reading(path, found):
        if found.format in {"CSV", "TSV"}:
            return CsvSource(path, wanted, style.named(found.format), found)
        if found.format in {"npy", "npz"}:
            return NpySource(path, wanted, found)
        return ArrowSource(path, wanted, keep_metadata, found, _reader(path, found, style, wanted), style.named("CSV"))


def _reader(path: Path, form: Form, style: TextFormat, wanted: Wanted) -> Reader:
    if path.is_dir():
        return ParquetFolder(path)
    if form.format == "JSON lines":
        return JsonLines(path, form, style, dict.fromkeys(wanted.columns, pa.float64() if wanted.real else pa.int64()))
    return Parquet(path) if form.format == "Parquet" else ArrowFile(path)


def checked_target(
    path: Path, source: Source, *, found: Found, form: str | None = None, metadata: Path | None = None
) -> Form:
    """The form of `path`, if it can be written. Raises: FileError, ParameterError."""
    made = streams.form(path, form)
    if isinstance(source, NpySource) != (made.format in ARRAYS):
        raise ParameterError(f"{path}: an npy or npz file can only become an npy or npz file, and a table a table")
    check_place(path, made, found=found, metadata=metadata)
    if made.format == "JSON lines":
        JsonWriter.check(path, _noisy_schema(source, ""))
    return made


def check_place(path: Path, form: Form, *, found: Found, metadata: Path | None = None) -> None:
    """Refuse a `path`, or a place for its record, that could not be written.

    Raises: FileError, ParameterError.
    """
    beside = form.format not in HOLD_METADATA
    if path == PIPE and beside and metadata is None:
        raise ParameterError(
            f"--metadata must name a file for the record of the release: - as {form.format} has no place for it"
        )
    if metadata is not None and (path != PIPE or not beside):
        where = f"in {path}.json" if beside else "in OUT itself"
        raise ParameterError(f"--metadata must be left out: the record of the release is {where}")
    if path != PIPE:
        check(path, beside, found=found)
    elif metadata is not None:
        check(metadata, False, found=found)


@contextmanager
def place(path: Path, form: Form, record: str, *, found: Found, metadata: Path | None = None) -> Iterator[IO[bytes]]:
    """Yield a file whose bytes, packed as `form` says, become `path` or go to standard output.

    record: becomes a file too, if the format has no place for it.
    """
    if path == PIPE:
        whole = standard_output(metadata, record, found=found)
    elif form.format in HOLD_METADATA:
        whole = atomic_write(path, found=found, same=same_table(form.format))
    else:
        whole = atomic_write(path, record, found=found)
    with whole as raw, packed(raw, form.codec) as file:
        yield file


@contextmanager
def destination(
    path: Path,
    source: Source,
    about: dict[str, object],
    *,
    found: Found,
    form: str | None = None,
    metadata: Path | None = None,
) -> Iterator[Write]:
    """Yield the function that writes pieces to the file that becomes `path`, or to standard output.

    about: goes into its schema, or into a file beside it, or into `metadata`. found: as of
    atomic_write. form: the format of a file whose name says none.
    """
    made = checked_target(path, source, found=found, form=form, metadata=metadata)
    if (kept := (source.schema.metadata or {}).get(b"dpfast")) is not None:
        about = {**about, "earlier": passed.earlier(kept)}
    text = json.dumps(about, indent=2) + "\n"
    with place(path, made, text, found=found, metadata=metadata) as file:
        if isinstance(source, NpySource):
            with array_written(file, source, made) as array:
                yield lambda _, noisy: array.write(noisy[0].data)
        elif isinstance(source, CsvSource) and made.format == source.form.format:
            lines = source.text
            file.write(lines.mark + lines.encoded(lines.header))
            yield lambda piece, noisy: file.write(
                lines.encoded(cast("Records", piece.rows).spliced(source.places, noisy))
            )
        else:
            with _table(file, path, made, source, _noisy_schema(source, text)) as write:
                yield write


def trial(path: Path, source: Source, form: Form) -> Callable[[Sequence[Piece]], None]:
    """What tries to write pieces, but for their chosen columns, in the form of `path` to nowhere.

    So a cell that has no place in OUT is found out before the charge.
    Raises: FileError.
    """

    def tried(pieces: Sequence[Piece]) -> None:
        if isinstance(source, NpySource) or form.format == source.form.format:
            return  # arrays have no other columns, and what a format held it can hold
        with _table(io.BytesIO(), path, form, source, _noisy_schema(source, "")) as write:
            for piece in pieces:
                write(piece, [np.zeros(len(piece.counts[0]), kind) for kind in source.dtypes])

    return tried


@contextmanager
def _table(file: IO[bytes], path: Path, form: Form, source: Source, schema: pa.Schema) -> Iterator[Write]:
    """Yield the function that writes pieces as a pyarrow table, in groups of its own."""

    def write(piece: Piece, noisy: Sequence[Column]) -> None:
        columns = list(cast("pa.RecordBatch", piece.rows).columns)
        for place, values in zip(source.places, noisy, strict=True):
            columns[place] = pa.array(values)
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        for group in groups.add(batch) if form.format in HOLD_METADATA else [batch]:  # a text shows none
            writer.write_batch(group)

    groups = Groups(schema, source.places, most=BYTES // 2 if _lz4(path) else BYTES)  # lz4 packs a group in memory
    try:
        with _writer(file, form, path, source, schema) as writer:
            yield write
            for group in groups.rest():
                writer.write_batch(group)
    except pa.ArrowException:
        raise FileError(f"cannot write {path}: this format cannot hold one of the other columns") from None


def _writer(file: IO[bytes], form: Form, path: Path, source: Source, schema: pa.Schema) -> Any:
    if form.format == "Parquet":
        return pq.ParquetWriter(file, schema, compression=getattr(source, "codec", "snappy"), write_batch_size=PAGED)
    if form.format in {"CSV", "TSV"}:
        nulls = pa.Table.from_arrays([pa.nulls(1, kind) for kind in schema.types], schema=schema)
        pacsv.write_csv(nulls, io.BytesIO())  # a zone that nobody knows is found out by a row, before the charge
        return pacsv.CSVWriter(file, schema, write_options=pacsv.WriteOptions(delimiter=DELIMITERS[form.format]))
    if form.format == "JSON lines":
        return JsonWriter(file)
    return pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4" if _lz4(path) else None))


def _lz4(path: Path) -> bool:
    """Whether an Arrow file is packed, as pyarrow.feather does."""
    return path.suffix.lower() == ".feather"


class JsonWriter:
    """Rows as JSON objects, one a line. What is no number or infinite becomes null."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @staticmethod
    def check(path: Path, schema: pa.Schema) -> None:
        """Raises: ParameterError (a type that JSON cannot write, or two columns of one name)."""
        for field in schema:
            if not _is_json(field.type):
                what = f"column {field.name!r} contains {field.type}"
                raise ParameterError(f"{path}: {what}, which JSON has no way to write: write .parquet or .csv")
            if schema.names.count(field.name) > 1:
                raise ParameterError(
                    f"{path}: an object has one key of each name, and {field.name!r} is the name of two"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [
            pc.if_else(pc.is_finite(column), column, None) if pa.types.is_floating(column.type) else column
            for column in batch.columns
        ]
        try:
            rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
            texts = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
        except ValueError:
            raise pa.ArrowInvalid from None  # an infinity within a list, or bytes that are no UTF-8
        self._file.write("".join(f"{text}\n" for text in texts).encode())


def _is_json(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_json(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return is_number or kind in {pa.null(), pa.bool_(), pa.string(), pa.large_string()}


def _noisy_schema(source: Source, about: str) -> pa.Schema:
    kept = {**(source.schema.metadata or {}), b"dpfast": about.encode()}
    # Otherwise pandas would read a column back with its old type.
    with suppress(KeyError, TypeError, ValueError, AttributeError, RecursionError):
        pandas = json.loads(kept[b"pandas"])
        for column in pandas["columns"]:
            if column["field_name"] in source.chosen:
                dtype = str(source.dtypes[source.chosen.index(column["field_name"])])
                column.update(pandas_type=dtype, numpy_type=dtype, metadata=None)
        kept[b"pandas"] = json.dumps(pandas).encode()
    noisy = {i: pa.from_numpy_dtype(dtype) for i, dtype in zip(source.places, source.dtypes, strict=True)}
    return pa.schema([f.with_type(noisy.get(i, f.type)) for i, f in enumerate(source.schema)], kept)
