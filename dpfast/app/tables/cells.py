# SPDX-License-Identifier: Apache-2.0
"""A table of released cells, as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dpfast.app.tables import streams
from dpfast.app.tables.domain import as_texts, is_moment, is_text
from dpfast.app.tables.files import JsonWriter, check_place, place
from dpfast.app.tables.rows import BATCH
from dpfast.app.tables.streams import Form
from dpfast.app.tables.text_format import DELIMITERS
from dpfast.errors import ParameterError
from dpfast.paths import Found

SPECIAL = '[",\\t\\r\\n]'  # what a text that holds it is quoted for
NO_TABLES = {"npy", "npz"}


def checked(path: Path, *, found: Found, form: str | None = None, metadata: Path | None = None) -> Form:
    """The form of `path`, if it can be written. form: that of a file whose name says none.

    Raises: FileError, ParameterError.
    """
    made = streams.form(path, form)
    if made.format in NO_TABLES or made.codec == "zip":
        raise ParameterError(f"{path} must be a table with columns, such as .csv, .tsv.gz, .jsonl, .parquet or .arrow")
    check_place(path, made, found=found, metadata=metadata)
    return made


@contextmanager
def written(
    path: Path, about: dict[str, Any], *, found: Found, form: str | None = None, metadata: Path | None = None
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield the function that writes the table to `path`, or to standard output.

    about: goes into its schema, or into a file beside it, or into `metadata`. found: as of
    atomic_write. form: as of checked.
    """
    made = checked(path, found=found, form=form, metadata=metadata)
    text = json.dumps(about, indent=2) + "\n"
    with place(path, made, text, found=found, metadata=metadata) as file:
        yield lambda table: _write(file, path, made.format, table.replace_schema_metadata({"dpfast": text}))


def _write(file: IO[bytes], path: Path, kind: str, table: pa.Table) -> None:
    if kind == "Parquet":
        pq.write_table(table, file)
    elif kind in DELIMITERS:
        _write_text(file, DELIMITERS[kind], table)
    elif kind == "JSON lines":
        writer = JsonWriter(file)
        for batch in pa.table(list(map(_plain, table.columns)), table.column_names).to_batches(BATCH):
            writer.write_batch(batch)
    else:
        compression = "lz4" if path.suffix.lower() == ".feather" else None
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as arrow:
            arrow.write_table(table)


def _write_text(file: IO[bytes], delimiter: str, table: pa.Table) -> None:
    header = io.StringIO()  # pyarrow would quote every name
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    file.write(header.getvalue().encode())
    columns = list(map(_plain, table.columns))
    quoted = any(pa.types.is_string(each.type) and _any(each, SPECIAL) for each in columns)
    how = {"include_header": False, "delimiter": delimiter, "quoting_style": "needed" if quoted else "none"}
    pacsv.write_csv(pa.table(columns, table.column_names), file, pacsv.WriteOptions(**how))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as ISO 8601 writes them, and texts of one type."""
    return as_texts(column) if is_moment(column.type) or is_text(column.type) else column


def _any(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
