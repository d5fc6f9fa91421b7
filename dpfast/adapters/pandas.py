# SPDX-License-Identifier: Apache-2.0
"""pandas: a release of a Series is a Series with index and name, of a DataFrame a DataFrame.

    visits_of_city = visits.groupby("city").size().reindex(cities, fill_value=0)
    DiscreteLaplace(epsilon=1, sensitivity=1).release(visits_of_city)

cities is a public list: which labels there are, and their order, get no noise, and without
`reindex` both come from the data. Columns of NumPy's, pandas's nullable and Arrow's numbers; the
noisy one is of the same family. These may hold data without noise, so they
are not carried over: attributes (`attrs`), subclasses, and labels that an index keeps although no
row has them (levels of a MultiIndex, categories).

All cells of a DataFrame, such as pd.crosstab gives, are released as one vector: the sensitivity is
that of all of them together. Rows of a crosstab have labels, an index that has a name or is not of
integers. Any other frame of several columns needs `columns=`, for a column may be the rows' key:

    DiscreteLaplace(epsilon=1, sensitivity=1).release(by_shop, columns=["people"])

Under a key an index other than 0, 1, 2, ... is sealed as the rows' names unasked, if they are
integers or strings. If the labels are of another kind, give names= in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast.adapters import chosen, filler, jointly, library
from dpfast.errors import DTypeError

pd = library("pandas", "pandas", ">=2.2")

HINT = {"Index": ": labels are kept as they are, never noised"}


def release(released: Callable[..., Any], values: Any, options: dict[str, Any]) -> Any:
    """What `released(values, **options)`, a mechanism's release, gives for pandas.

    The dtype is that of NumPy (int64, or `dtype`; a real one its own) in the family of values:
    Int64, int64[pyarrow]. Copies the input only where it holds nulls, or lies in several Arrow
    chunks, or in several columns.
    Raises: DTypeError (no Series or DataFrame of numbers); ParameterError (nulls without
        `missing`); what release raises.
    """
    if isinstance(values, pd.DataFrame):
        beside = "; frame.assign(**noisy) keeps the others"
        places = chosen(values.columns, options["columns"], labelled=_labelled(values.index), beside=beside)
        columns, names = [values.iloc[:, place] for place in places], values.columns.take(places)
        noisy = jointly(released, columns, _read, options, lambda: (values.index.tolist(), names.tolist()))
        made = {place: _made(cells, like) for place, (cells, like) in enumerate(zip(noisy, columns, strict=True))}
        frame = pd.DataFrame(made, index=_labels_in_use(values.index), copy=False)
        frame.columns = _labels_in_use(names)
        return frame
    if not isinstance(values, pd.Series):
        hint = next((HINT[kind.__name__] for kind in type(values).__mro__ if kind.__name__ in HINT), "")
        raise DTypeError(f"from pandas a release takes a Series or a DataFrame, not {type(values).__name__}{hint}")
    cells, key = _read(values, options["missing"]), options.get("key")
    if key is not None and options.get("names") is None and not _by_place(values.index, key):
        options["names"] = values.index
    noisy = _made(released(cells, **options), values)
    return pd.Series(noisy, index=_labels_in_use(values.index), name=values.name, copy=False)


def _labelled(index: Any) -> bool:
    """Whether somebody gave the rows labels; a filter or a sort leaves unnamed integers."""
    return any(name is not None for name in index.names) or not pd.api.types.is_integer_dtype(index.dtype)


def _by_place(index: Any, key: Any) -> bool:
    """Whether the labels are the rows' places, within all of them or within a block."""
    return isinstance(index, pd.RangeIndex) and index.step == 1 and index.start in (0, getattr(key, "first_row", 0))


def _labels_in_use(index: Any) -> Any:
    """The index without what it keeps of rows that were filtered out."""
    if isinstance(index, pd.CategoricalIndex):
        return index.remove_unused_categories()
    if isinstance(index, pd.MultiIndex):
        index = index.remove_unused_levels()
        return index.set_levels([_labels_in_use(level) for level in index.levels], verify_integrity=False)
    return index


def _read(values: Any, missing: object) -> Any:
    """The cells as NumPy's. Raises: DTypeError, ParameterError."""
    cells, dtype = values.array, values.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        return values.to_numpy()
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow as pa

        from dpfast.adapters import arrow

        if arrow.is_of_numbers(dtype.pyarrow_dtype):
            return arrow.read(pa.array(cells), missing)
    if not isinstance(cells, (pd.arrays.IntegerArray, pd.arrays.FloatingArray)):
        hint = ": pandas.to_numeric makes numbers of texts" if pd.api.types.is_string_dtype(dtype) else ""
        hint = ": astype('int64') makes 0 and 1 of it" if pd.api.types.is_bool_dtype(dtype) else hint
        if str(dtype).startswith("decimal"):  # the cast refuses a fraction
            hint = ": astype(pandas.ArrowDtype(pyarrow.decimal128(38, 0))) makes counts of them, where all are whole"
        raise DTypeError(f"a Series must contain integers or floats, dense, not {dtype}{hint}")
    numbers = dtype.numpy_dtype
    null = filler(missing, numbers) if numbers.kind in "iu" and values.hasnans else np.nan
    return cells.to_numpy(dtype=numbers, na_value=null)


def _made(noisy: Any, like: Any) -> Any:
    """Noisy cells in the family of a Series."""
    if isinstance(like.dtype, np.dtype):
        return noisy
    if isinstance(like.dtype, pd.ArrowDtype):
        import pyarrow as pa

        return pd.arrays.ArrowExtensionArray(pa.array(noisy))
    return pd.array(noisy, copy=False)
