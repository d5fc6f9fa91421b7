# SPDX-License-Identifier: Apache-2.0
"""How much of a table is in memory at once: bounds for files that say much in few bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpfast.app.tables.passed import TEXTS, VIEWS
from dpfast.errors import FileError

MOST_COLUMNS = 100_000
MOST = 1 << 26  # bytes of the cells of a batch, each on its own
NO_MEMORY = "there is too little memory for its rows"
SHORT = 1 << 16  # bytes of a text, as it is guessed where texts are told by how they differ
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def check_width(what: object, columns: int) -> None:
    """Raises: FileError (more columns than a table may have)."""
    if columns > MOST_COLUMNS:
        raise FileError(f"{what} must have at most {MOST_COLUMNS:,} columns, and has {columns:,}")


def in_parts(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, in parts of at most so many, and of at most MOST bytes or one row."""
    for at in range(0, batch.num_rows, rows):
        yield from _halved(batch.slice(at, rows))


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    half = batch.num_rows // 2
    if not half or sum(map(_size, batch.columns)) <= MOST:
        yield batch
        return
    yield from _halved(batch.slice(0, half))
    yield from _halved(batch.slice(half))


def _size(array: pa.Array) -> int:
    """Bytes of the cells, each on its own: of one category as often as a cell has it."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _size(array.storage)
    if pa.types.is_dictionary(kind):
        return _size_of_coded(array)
    if str(kind) in VIEWS and array.buffers()[1] is not None:
        lengths = np.frombuffer(array.buffers()[1], np.int32)[::4]
        return int(lengths[array.offset : array.offset + len(array)].sum(dtype=np.int64))
    if kind.num_fields and not pa.types.is_run_end_encoded(kind):
        return sum(map(_size, _children(array)))
    return int(array.nbytes)


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    if not pa.types.is_map(array.type):
        return [array.flatten()]
    ends = np.asarray(array.offsets)
    return [array.values[ends[0] : ends[-1]] if len(array) else array.values[:0]]


def _size_of_coded(array: pa.DictionaryArray) -> int:
    categories = array.dictionary
    if categories.type in TEXTS:
        lengths = pc.binary_length(categories).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    return int(_size(categories) // max(len(categories), 1) + 1) * len(array)


def rows_held(file: pq.ParquetFile, coded: pq.ParquetFile, rows: int, columns: list[str] | None) -> int:
    """How many rows of a Parquet file, at most `rows`, take at most MOST bytes.

    coded: the same file, whose texts are read as codes of a dictionary.
    """
    widest = 1.0
    for group in range(file.num_row_groups):
        about, width = file.metadata.row_group(group), 0.0
        for i in range(about.num_columns):
            chunk = about.column(i)
            if columns is None or chunk.path_in_schema.partition(".")[0] in columns:
                each = max(chunk.num_values, 1) / max(about.num_rows, 1)
                width += each * _bytes_of_a_value(file, coded, group, i, chunk)
        widest = max(widest, width)
    return max(min(rows, int(MOST / widest)), 1)


def _bytes_of_a_value(file: pq.ParquetFile, coded: pq.ParquetFile, group: int, i: int, chunk: Any) -> float:
    """The longest text of its dictionary, or what a value takes in the file if that is more."""
    column = file.schema.column(i)
    if column.physical_type != "BYTE_ARRAY":
        return float(WIDTHS.get(column.physical_type, max(column.length or 0, 16)))
    if "DELTA_BYTE_ARRAY" in chunk.encodings:
        return SHORT
    mean = float(chunk.total_uncompressed_size / max(chunk.num_values, 1))
    array = next((batch.column(0) for batch in coded.iter_batches(1, [group], [chunk.path_in_schema])), None)
    while array is not None and not pa.types.is_dictionary(array.type):
        if not array.type.num_fields:
            return mean
        array = array.field(0) if pa.types.is_struct(array.type) else array.values
    lengths = None if array is None else pc.binary_length(array.dictionary)
    return max(mean, float((pc.max(lengths).as_py() if lengths is not None else 0) or 0))


def texts_of(file: pq.ParquetFile) -> list[str]:
    """The paths of the columns of texts."""
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    return [each.path for each in columns if each.physical_type == "BYTE_ARRAY" and each.logical_type.type != "DECIMAL"]
