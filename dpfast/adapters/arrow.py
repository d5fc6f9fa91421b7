# SPDX-License-Identifier: Apache-2.0
"""pyarrow: an Array gives an Array, a ChunkedArray one of one chunk, a Table a Table.

    table.set_column(1, "visits", DiscreteLaplace(epsilon=1, sensitivity=1).release(table["visits"]))

All cells of a Table or a RecordBatch are released as one vector: the sensitivity is that of all of
them together. One of several columns needs `columns=`, those that get noise and are returned. The
input of a column is read where it lies. The result is the memory that NumPy wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpfast import DTypeError
from dpfast.adapters import chosen, filler, jointly, library

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
    if isinstance(values, (pa.Table, pa.RecordBatch)):
        table = values.select(chosen(values.column_names, options["columns"]))
        noisy = jointly(released, table.columns, read, options, partial(_labels, table))
        return type(values).from_arrays([pa.array(cells) for cells in noisy], names=table.column_names)
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        raise DTypeError(f"of pyarrow a release takes a column, a Table or a RecordBatch, not {type(values).__name__}")
    noisy = pa.array(released(read(values, options["missing"]), **options))
    return noisy if isinstance(values, pa.Array) else pa.chunked_array([noisy])


def _labels(table: Any) -> tuple[range, list[str]]:
    return range(table.num_rows), table.column_names


def read(values: Any, missing: object) -> Any:
    """The cells of a column as NumPy's, NaN for nulls. Raises: DTypeError, ParameterError."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        hint = ": column.cast('int64') takes what fits" if pa.types.is_decimal(kind) else ""
        raise DTypeError(f"a pyarrow column must hold integers or floats, not {kind}{hint}")
    if pa.types.is_integer(kind) and values.null_count:
        values = values.fill_null(pa.scalar(filler(missing, np.dtype(kind.to_pandas_dtype())), kind))
    return values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
