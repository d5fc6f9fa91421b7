# SPDX-License-Identifier: Apache-2.0
"""pyarrow: an Array gives an Array, a ChunkedArray one of one chunk, a Table a Table.

    table.set_column(1, "visits", DiscreteLaplace(epsilon=1, sensitivity=1).release(table["visits"]))

A RecordBatchReader, which is read once, gives a Table. Decimals of scale 0, such as DuckDB's sums
of integers, are counts if they fit int64.

All cells of a Table or a RecordBatch are released as one vector: the sensitivity is that of all of
them together. One of several columns needs `columns=`, those that get noise and are returned. The
input of a column is read where it lies. The result is the memory that NumPy wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpfast.adapters import chosen, filler, jointly, library, small_enough
from dpfast.errors import DTypeError

pa = library("pyarrow", "arrow", ">=20")


def release(released: Callable[..., Any], values: Any, options: dict[str, Any]) -> Any:
    """What `released(values, **options)`, a mechanism's release, gives for pyarrow.

    The type is the one that NumPy would have: integers become int64, or `dtype`; a real type stays.
    The input is not validated: the caller must refuse bytes that are no valid Arrow array
    (values.validate()). It is copied only if it holds nulls or lies in several chunks. The result
    is NumPy's own memory.
    Raises: DTypeError (no column of numbers); ParameterError (nulls without `missing`); what
        release raises.
    """
    if isinstance(values, pa.RecordBatchReader):
        chosen(values.schema.names, options["columns"])  # what is refused leaves it unread
        values = _read_all(values)
    if isinstance(values, (pa.Table, pa.RecordBatch)):
        table = values.select(chosen(values.column_names, options["columns"]))
        noisy = jointly(released, table.columns, read, options, partial(_labels, table))
        return type(values).from_arrays([pa.array(cells) for cells in noisy], names=table.column_names)
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        hint = ": give it as .to_table()" if hasattr(values, "to_table") else ""
        raise DTypeError(
            "from pyarrow a release takes a column, a Table, a RecordBatch or a reader of these, not "
            f"{type(values).__name__}{hint}"
        )
    noisy = pa.array(released(read(values, options["missing"]), **options))
    return noisy if isinstance(values, pa.Array) else pa.chunked_array([noisy])


def _read_all(reader: Any) -> Any:
    """Its rows, which are read once. Its own error is dropped, for it could quote values."""
    try:
        return reader.read_all()
    except pa.ArrowInvalid as failure:
        raise DTypeError(f"the reader failed with {type(failure).__name__}: read_all() says why") from None


def _labels(table: Any) -> tuple[range, list[str]]:
    return range(table.num_rows), table.column_names


def _whole(values: Any) -> Any:
    """A column of whole decimals as int64. Raises: UnusableValuesError (one does not fit)."""
    try:
        if values.type.bit_width < 128:  # whose cast compares with the ends of their own width
            values = values.cast(pa.decimal128(38, 0))
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        return small_enough(False)


def is_of_numbers(kind: Any) -> bool:
    """Whether `read` takes a column of this type: of integers, floats or whole decimals."""
    whole = pa.types.is_decimal(kind) and kind.scale == 0  # such as the sums of DuckDB
    return bool(whole or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def read(values: Any, missing: object) -> Any:
    """The cells of a column as NumPy's, NaN for nulls. Raises: DTypeError, ParameterError."""
    if not is_of_numbers(values.type):
        hint = ": column.cast('int64') takes what fits" if pa.types.is_boolean(values.type) else ""
        if pa.types.is_decimal(values.type):  # and then it may be released
            hint = ": column.cast(pyarrow.decimal128(38, 0)) takes whole numbers"
        raise DTypeError(f"a pyarrow column must contain integers or floats, not {values.type}{hint}")
    if pa.types.is_decimal(values.type):
        values = _whole(values)
    kind = values.type
    if pa.types.is_integer(kind) and values.null_count:
        values = values.fill_null(pa.scalar(filler(missing, np.dtype(kind.to_pandas_dtype())), kind))
    return values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
