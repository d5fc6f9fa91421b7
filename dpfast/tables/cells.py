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

from dpfast.errors import ParameterError
from dpfast.tables.atomic_write import Found, atomic_write, check
from dpfast.tables.domain import is_moment, is_text
from dpfast.tables.streams import form

SPECIAL = '[",\\r\\n]'  # what a text that holds it is quoted for


def checked(path: Path, *, found: Found) -> str:
    """The format of `path`, if it can be written. Raises: FileError, ParameterError."""
    kind, codec = form(path)
    if kind not in {"CSV", "Parquet", "Arrow"} or codec:
        raise ParameterError(f"{path} must be a table with columns: .csv, .parquet, .arrow or .feather")
    check(path, kind == "CSV", found=found)
    return kind


@contextmanager
def written(path: Path, about: dict[str, Any], *, found: Found) -> Iterator[Callable[[pa.Table], None]]:
    """Yield the function that writes the table to the file that becomes `path`.

    about: goes into its schema, or into a file beside it. found: as of atomic_write.
    """
    kind, text = checked(path, found=found), json.dumps(about, indent=2) + "\n"
    with atomic_write(path, text if kind == "CSV" else None, found=found) as file:
        yield lambda table: _write(file, path, kind, table.replace_schema_metadata({"dpfast": text}))


def _write(file: IO[bytes], path: Path, kind: str, table: pa.Table) -> None:
    if kind == "Parquet":
        pq.write_table(table, file)
    elif kind == "CSV":
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(table.column_names)  # pyarrow would quote every name
        file.write(header.getvalue().encode())
        columns = [_plain(column) for column in table.columns]
        quoted = any(pa.types.is_string(each.type) and _any(each, SPECIAL) for each in columns)
        how = pacsv.WriteOptions(include_header=False, quoting_style="needed" if quoted else "none")
        pacsv.write_csv(pa.table(columns, table.column_names), file, how)
    else:
        compression = "lz4" if path.suffix.lower() == ".feather" else None
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as ISO 8601 writes them, and texts of one type."""
    if is_moment(column.type):
        return pc.replace_substring(column.cast(pa.string()), " ", "T")
    return column.cast(pa.string()) if is_text(column.type) else column


def _any(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
