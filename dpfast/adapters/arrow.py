# SPDX-License-Identifier: Apache-2.0
"""pyarrow: a release of an Array is an Array, of a ChunkedArray a ChunkedArray of one chunk.

    table.set_column(1, "visits", DiscreteLaplace(epsilon=1, sensitivity=1).release(table["visits"]))

The input is read where it lies. The result is the memory that NumPy wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast import DTypeError
from dpfast.adapters import filler, library

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
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        raise DTypeError(
            f"of pyarrow a release takes an Array or a ChunkedArray, a column, not {type(values).__name__}"
        )
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DTypeError(f"a pyarrow column must hold integers or floats, not {kind}")
    if pa.types.is_integer(kind) and values.null_count:
        values = values.fill_null(pa.scalar(filler(options["missing"], np.dtype(kind.to_pandas_dtype())), kind))
    if isinstance(values, pa.Array):
        return pa.array(released(values.to_numpy(zero_copy_only=False), **options))  # NaN for nulls
    return pa.chunked_array([pa.array(released(values.to_numpy(), **options))])
