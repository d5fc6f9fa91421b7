# SPDX-License-Identifier: Apache-2.0
"""Columns of names, integers or texts, of any library: names are equal if their values are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.arrays import INT64, UINT64, plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

Integers: TypeAlias = "npt.NDArray[np.integer[Any]]"

CHUNK = 1 << 15  # rows at a time that are Python objects or 64-bit temporaries
WIDE = "Int128", "UInt128"  # types that Polars has and NumPy lacks
MISSING = "Null"  # and its type of a column without values
RULE = "integers or strings, all of one kind and none missing"


# What makes names of others, by the name of their type; {0} is the column.
_CASTS = {
    "[int(key) for key in {0}]": ("bool", "bool_", "float", "float16", "float32", "float64", "Decimal", *WIDE),
    "[str(key) for key in {0}]": ("time", "Period", "Interval", "UUID", "timedelta", "timedelta64", "Timedelta"),
    "[str(key)[:10] for key in {0}]": (
        "date",
        "datetime",
        "datetime64",
        "Timestamp",
    ),  # in any unit it begins with the day
    "[key.hex() for key in {0}]": ("bytes", "bytes_"),
    "fill those with a name of their own, such as 'unknown', or leave out such rows": (
        "NoneType",
        "NAType",
        "NaTType",
        MISSING,
    ),
}
_READERS = {  # what gives the rows of an object that has none yet, by a method that it has
    "collect": ".collect() it first", "to_arrow_table": "give .to_arrow_table(), or a column of it",
    "read_all": "give .read_all(), or a column of it", "__next__": "give list(…) of it",
}  # fmt: skip


_NONE = {  # what there is in place of a column that is None, by the name of the parameter
    "unit_ids": "dpfast.EACH_ROW says that each row is another unit",
    "keys": "for a total all rows have one key, such as [0] * len(rows) with domain=[0]",
}


def refuse_unread(name: str, values: Any) -> None:
    """Raises: DTypeError (what gives rows once it is asked, and has none yet; None)."""
    if values is None:
        how = f": {_NONE[name]}" if name in _NONE else ""
        raise DTypeError(f"{name} must be a column of {RULE}, not None{how}")
    for method, how in _READERS.items():
        if hasattr(type(values), method):
            raise DTypeError(f"{name} must be a column of {RULE}, not {type(values).__name__}: {how}")


def _cast(name: str, values: Any, kinds: Iterable[str]) -> str:
    """The cast that helps, as the end of a message about types of these names; or nothing."""
    rows = f"{name}.to_pylist()" if hasattr(values, "to_pylist") else name
    if "arrow.uuid" in f"{getattr(values, 'type', '')} {getattr(values, 'dtype', '')}":
        kinds = ["UUID"]  # where NumPy sees bytes
    found = [cast.format(rows) for cast, known in _CASTS.items() if any(kind in known for kind in kinds)]
    makes = {"[i": " makes names of whole numbers", "[s": " makes names of them", "[k": " makes names of them"}
    return f": {found[-1]}{makes.get(found[-1][:2], '')}" if found else ""


def _no_names(name: str, values: Any, dtype: Any) -> DTypeError:
    """The error for a column that holds no names. dtype: NumPy's for the empty column."""
    own = getattr(values, "dtype", dtype)
    dtype = own if hasattr(own, "pyarrow_dtype") else dtype  # Arrow in pandas: an empty one may be floats
    cast = _cast(name, values, [dtype.type.__name__]) or ": convert others to one of these first"
    return DTypeError(f"{name} must contain {RULE}, not {dtype}{cast}")


class Column(NamedTuple):
    """Integers as they are; or for each row the place of its text among the distinct `texts`."""

    codes: Integers
    texts: list[str] | None

    def utf8(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The texts in UTF-8, joined, and where each ends."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in self.texts or ()]
        return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=np.int64)


def columns_of(values: Any) -> list[Any] | None:
    """The columns of a frame of any library, or the levels of a MultiIndex; else None."""
    if hasattr(values, "levels") and hasattr(values, "get_level_values"):
        return [values.get_level_values(place) for place in range(values.nlevels)]
    if hasattr(values, "iloc") and values.ndim == 2:
        return [values.iloc[:, place] for place in range(values.shape[1])]
    if hasattr(values, "get_columns"):
        return list(values.get_columns())
    if hasattr(values, "column_names") and hasattr(values, "num_columns"):
        return list(values.columns)
    return None


def column(name: str, values: Any) -> Column:
    """Read a column once: a list, a NumPy array, a column of pandas, Polars or Arrow.

    A column may be categorical.

    Raises: DTypeError (floats, dates, missing values, a mixture), ParameterError (more than one
        dimension).
    """
    if isinstance(values, range) and values and max(map(abs, (values[0], values[-1]))) < 2**63:
        return Column(np.fromiter(values, INT64, len(values)), None)
    if isinstance(values, (list, tuple, range)):
        values = np.fromiter(values, object, len(values))  # asarray would make strings of [1, "1"]
    refuse_unread(name, values)
    wrong = DTypeError(f"{name} must be a column of {RULE}, not {type(values).__name__}")
    if isinstance(values, (str, bytes)):  # such as a column's name
        raise wrong
    if (held := str(getattr(values, "dtype", ""))) in (*WIDE, MISSING):
        raise DTypeError(f"{name} must contain {RULE}, not {held}{_cast(name, values, [held])}")
    try:
        values = getattr(values, "array", values)  # in pandas a slice of the Series itself can go by labels
        none = values[:0]
    except (TypeError, IndexError, KeyError, ValueError):  # the last: a MultiIndex has no one array
        raise wrong from None
    kind = plain_array(name, none, RULE)
    if kind.ndim != 1:
        raise ParameterError(f"{name} must have one dimension, got {kind.ndim}")
    if kind.dtype.kind in "iu":
        array = np.asarray(values)
        if array.dtype.kind not in "iu":  # nulls have changed the dtype
            raise DTypeError(f"{name} must contain {RULE}{_cast(name, values, [MISSING])}")
        return Column(array.astype(array.dtype.newbyteorder("="), copy=False), None)
    if kind.dtype.kind not in "OUT":
        raise _no_names(name, values, kind.dtype)
    return _coded(name, values) or _objects(name, values)


def _coded(name: str, values: Any) -> Column | None:
    """The codes that a library finds itself, many times faster; None if it finds none.

    Its distinct values may be too many, or repeated.
    """
    try:
        if hasattr(values, "factorize") and values.dtype != object:  # pandas
            codes, distinct = values.factorize()
            missing = (codes < 0).any()
        elif hasattr(values, "dictionary_encode"):  # Arrow
            encoded = values.dictionary_encode()
            if hasattr(encoded, "unify_dictionaries"):
                encoded = encoded.unify_dictionaries().combine_chunks()
            codes, distinct, missing = np.asarray(encoded.indices), encoded.dictionary, encoded.null_count
        else:
            return None
    except (TypeError, NotImplementedError):  # such as lists, and decimals of 32 bits in Arrow
        return None
    if missing:
        raise DTypeError(f"{name} must contain {RULE}{_cast(name, values, [MISSING])}")
    places, texts = _objects(name, distinct)
    return Column(places[codes], texts)


def _objects(name: str, values: Sequence[Any]) -> Column:
    places: defaultdict[Any, int] = defaultdict(count().__next__)
    codes: Integers = np.empty(len(values), np.int32 if len(values) < 2**31 else np.int64)
    kinds: set[type] = set()
    for begin in range(0, len(values), CHUNK):
        chunk = np.asarray(values[begin : begin + CHUNK], dtype=object).tolist()
        kinds.update(map(type, chunk))
        if not (kinds <= {str, np.str_} or all(issubclass(k, (int, np.integer)) and k is not bool for k in kinds)):
            there = sorted(k.__name__ for k in kinds)
            raise DTypeError(f"{name} must contain {RULE}; there are {', '.join(there)}{_cast(name, values, there)}")
        codes[begin : begin + len(chunk)] = np.fromiter(map(places.__getitem__, chunk), codes.dtype, len(chunk))
    if kinds <= {str, np.str_}:
        return Column(codes, list(places))
    least, most = min(places), max(places)
    dtype = INT64 if least >= -(2**63) and most < 2**63 else UINT64
    if dtype == UINT64 and not 0 <= least <= most < 2**64:
        raise DTypeError(f"{name} must fit int64, or uint64")
    return Column(np.array(list(places), dtype)[codes], None)
