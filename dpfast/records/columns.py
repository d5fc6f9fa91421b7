# SPDX-License-Identifier: Apache-2.0
"""Columns of names, of whatever library: integers, or texts. What two libraries call equal is equal here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.release.arrays import INT64, UINT64, plain_array

Integers: TypeAlias = npt.NDArray[np.integer[Any]]

CHUNK = 1 << 16  # rows that are Python objects, or 64-bit temporaries, at a time
RULE = "integers or strings, all of one kind and none missing"


class Column(NamedTuple):
    """Integers as they are; or for each row the place of its text among `texts`, of which no two are equal."""

    codes: Integers
    texts: list[str] | None

    def utf8(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The texts in UTF-8, one behind the other, and where each ends."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in self.texts or ()]
        return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=np.int64)


def column(name: str, values: Any) -> Column:
    """A column read once: a list, a NumPy array, a column of pandas, Polars or Arrow, categorical or not.

    Raises: DTypeError (floats, dates, missing values, a mixture), ParameterError (more than one dimension).
    """
    if isinstance(values, (list, tuple, range)):
        values = np.fromiter(values, object, len(values))  # asarray would make strings of [1, "1"]
    try:
        values = getattr(values, "array", values)  # of pandas, where a slice of the Series itself can go by labels
        none = values[:0]
    except (TypeError, IndexError, KeyError, ValueError):  # the last: a MultiIndex has no one array
        raise DTypeError(f"{name} must be a column of {RULE}, not {type(values).__name__}") from None
    kind = plain_array(name, none, RULE)
    if kind.ndim != 1:
        raise ParameterError(f"{name} must have one dimension, got {kind.ndim}")
    if kind.dtype.kind in "iu":
        array = np.asarray(values)
        if array.dtype.kind not in "iu":  # the nulls among them made it another
            raise DTypeError(f"{name} must hold {RULE}")
        return Column(array.astype(array.dtype.newbyteorder("="), copy=False), None)
    if kind.dtype.kind not in "OUT":
        raise DTypeError(f"{name} must hold {RULE}, not {kind.dtype}: write others as one of these first")
    return _coded(name, values) or _objects(name, values)


def _coded(name: str, values: Any) -> Column | None:
    """What a library numbers itself, many times faster. Its distinct values may be too many, or twice there."""
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
    if missing:
        raise DTypeError(f"{name} must hold {RULE}")
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
            raise DTypeError(f"{name} must hold {RULE}; there are {', '.join(sorted(k.__name__ for k in kinds))}")
        codes[begin : begin + len(chunk)] = np.fromiter(map(places.__getitem__, chunk), codes.dtype, len(chunk))
    if kinds <= {str, np.str_}:
        return Column(codes, list(places))
    least, most = min(places), max(places)
    dtype = INT64 if least >= -(2**63) and most < 2**63 else UINT64
    if dtype == UINT64 and not 0 <= least <= most < 2**64:
        raise DTypeError(f"{name} must fit int64, or uint64")
    return Column(np.array(list(places), dtype)[codes], None)
