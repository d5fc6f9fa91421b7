# SPDX-License-Identifier: Apache-2.0
"""The places of rows' keys among the keys that are counted, of one column or of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.arrays import UINT64
from dpfast.noise.release.columns import CHUNK, Column, Integers, column, columns_of, refuse_unread

Words: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.int64]
Find: TypeAlias = Callable[[Integers], Places]

KEYS = "keys"  # what they are called where the caller calls them so
BUCKET = 8  # integers of a bucket at least, on average: the index has a byte for each
NAMES = (str, int, np.integer)  # what a tuple holds that is a column; any other holds columns
TUPLES = (
    "domain must be columns, one for each of {}, for all their combinations, or a list of tuples of one key of each, "
    "a MultiIndex or a frame"
)


class Known(NamedTuple):
    """The keys that are counted: the distinct names of each column; and of each key their places.

    single: whether keys are names of one column, and not tuples.
    """

    columns: list[Column]
    places: list[Places]
    single: bool

    @property
    def size(self) -> int:
        return self.places[0].size

    def names(self) -> npt.NDArray[Any]:
        """Integers, or texts or tuples in an array of objects."""
        if self.single and self.columns[0].texts is None:
            return self.columns[0].codes[self.places[0]]
        lists = [names.codes.tolist() if names.texts is None else names.texts for names in self.columns]
        found = [[names[i] for i in places.tolist()] for names, places in zip(lists, self.places, strict=True)]
        return np.fromiter(found[0] if self.single else zip(*found, strict=True), object, self.size)

    def words(self, sip: tuple[int, int]) -> Words:
        """The word of each key in its tag: of a tuple the keyed hash of the words of its names."""
        each = [words_of(names, sip)[at] for names, at in zip(self.columns, self.places, strict=True)]
        if self.single:
            return each[0]
        data = np.stack(each, axis=1).astype("<u8").view(np.uint8).reshape(-1)
        ends = np.arange(1, self.size + 1) * (8 * len(each))
        return _native.hash_texts(sip, data, ends)


def words_of(names: Column, sip: tuple[int, int]) -> Words:
    """The word of each name in a tag: an integer itself, modulo 2^64, or a keyed hash of a text.

    So it depends on no other name. Two names with equal words share their tags, which changes no
    bound.
    """
    if names.texts is None:
        return names.codes.astype(np.uint64)
    return hashes_of(names, sip)[0]


def hashes_of(names: Column, *sips: tuple[int, int]) -> list[Words]:
    """Keyed hashes of the texts of a column."""
    texts = names.utf8()
    return [_native.hash_texts(sip, *texts) for sip in sips]


def key_columns(keys: Any, name: str = KEYS) -> tuple[list[Column], bool]:
    """The columns of keys, and whether keys is one column: a tuple of columns is several.

    name: what the caller calls the keys.
    """
    keys = in_columns(name, keys)
    if not isinstance(keys, tuple):
        return [column(name, keys)], True
    found = [column(f"{name}[{i}]", each) for i, each in enumerate(keys)]
    if any(each.codes.size != found[0].codes.size for each in found):
        raise ParameterError(f"{name} must be columns of equal length")
    return found, False


def in_columns(name: str, keys: Any) -> Any:
    """The tuple of columns, if there are several: of a frame, a tuple or a list of them."""
    refuse_unread(name, keys)
    of_frame = columns_of(keys)
    if of_frame is not None:
        if not of_frame:
            raise DTypeError(f"{name} must have a column at least")
        return tuple(of_frame)
    if isinstance(keys, tuple) and (not keys or isinstance(keys[0], NAMES)):
        return list(keys)  # one column
    first = keys[0] if isinstance(keys, list) and keys else None
    return tuple(keys) if hasattr(first, "__len__") and not isinstance(first, (*NAMES, tuple, bytes)) else keys


# ------------------------------------------------------------------ the keys that are counted


def domain_keys(domain: Any, keys: Any, name: str = KEYS) -> Known:
    """The keys of a domain, in its order. keys: those of the rows, of as many columns."""
    rows = columns_of(domain)
    domain = (
        in_columns("domain", domain)
        if rows is None
        else list(zip(*(np.asarray(each, object) for each in rows), strict=True))
    )
    keys = in_columns(name, keys)
    if not isinstance(keys, tuple):
        if isinstance(domain, tuple) or (isinstance(domain, list) and domain and isinstance(domain[0], tuple)):
            raise DTypeError(f"{name} and domain must be both of one column, or both of several")
        names = _distinct_names("domain", column("domain", domain))
        return Known([names], [np.arange(_count(names))], single=True)
    if isinstance(domain, tuple) and len(domain) == len(keys):
        columns = [_distinct_names(f"domain[{i}]", column(f"domain[{i}]", each)) for i, each in enumerate(domain)]
        product = np.indices([_count(names) for names in columns]).reshape(len(columns), -1)
        return Known(columns, list(product), single=False)
    if not isinstance(domain, list) or not all(isinstance(each, tuple) and len(each) == len(keys) for each in domain):
        raise DTypeError(TUPLES.format(name))
    if not domain:
        raise ParameterError("domain must contain at least one key")
    given = [column("domain", list(each)) for each in zip(*domain, strict=True)]
    if len(set(domain)) < len(domain):
        raise ParameterError("domain must list each key once")
    columns = [occurring(each) for each in given]
    return Known(columns, [finder(a, b)(a.codes) for a, b in zip(given, columns, strict=True)], single=False)


def _distinct_names(name: str, names: Column) -> Column:
    if not names.codes.size:
        raise ParameterError(f"{name} must contain at least one key")
    if distinct(names.codes).size < names.codes.size:
        raise ParameterError(f"{name} must list each key once")
    return names if names.texts is None else _in_order([names.texts[code] for code in names.codes])


def _count(names: Column) -> int:
    return names.codes.size


def occurring(keys: Column) -> Column:
    """The distinct names of a column, sorted."""
    if keys.texts is None:
        return Column(distinct(keys.codes), None)
    there = np.zeros(len(keys.texts), bool)
    there[keys.codes] = True
    return _in_order(sorted(keys.texts[i] for i in np.flatnonzero(there)))


def _in_order(texts: list[str]) -> Column:
    return Column(np.arange(len(texts)), texts)


def distinct(values: Integers) -> Integers:
    """The distinct values, sorted. np.unique hashes, which takes five times as long."""
    if (values[1:] > values[:-1]).all():  # as a domain that was sorted before is
        return values.copy()
    ordered = np.sort(values)
    new = np.empty(ordered.size, bool)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


# ------------------------------------------------------------------ finding them


class Finder:
    """Finds the places of rows' keys among those that are counted, or -1.

    The keys of several columns are found from left to right: the place of the first so many names,
    and that of the next one, are a pair, whose place is searched among the pairs that there are.
    """

    def __init__(self, rows: list[Column], known: Known) -> None:
        self._rows, self._known = rows, known
        self._find = [finder(a, b) for a, b in zip(rows, known.columns, strict=True)]
        self._pairs: list[Find] = []
        at = known.places[0]
        for names, places in zip(known.columns[1:], known.places[1:], strict=True):
            at = at * _count(names) + places
            self._add(distinct(at))
            at = self._pairs[-1](at)
        self._order = np.empty(known.size, np.int64)
        self._order[at] = np.arange(known.size)
        self._in_order = bool((self._order == np.arange(known.size)).all())

    def _add(self, pairs: Integers) -> None:
        self._pairs.append(_finder_of_integers(pairs, np.arange(pairs.size)) if pairs.size else _nowhere)

    def __call__(self, part: slice) -> Places:
        """Find the keys of the rows in `part`, which are copied first: a thread may write them."""
        at = self._find[0](self._rows[0].codes[part].copy())
        rest = zip(self._rows[1:], self._find[1:], self._known.columns[1:], self._pairs, strict=True)
        for rows, find, names, pairs in rest:
            at = pairs(_paired(at, find(rows.codes[part].copy()), _count(names)))
        return at if self._in_order else np.where(at >= 0, self._order[at], -1)


def occurring_keys(rows: list[Column], *, single: bool) -> Known:
    """The keys that occur, sorted."""
    columns = [occurring(each) for each in rows]
    if single:
        return Known(columns, [np.arange(_count(columns[0]))], single=True)
    at = finder(rows[0], columns[0])(rows[0].codes.copy())
    levels = []
    for each, names in zip(rows[1:], columns[1:], strict=True):
        pairs = _paired(at, finder(each, names)(each.codes.copy()), _count(names))
        levels.append(distinct(pairs[pairs >= 0]))
        at = _finder_of_integers(levels[-1], np.arange(levels[-1].size))(pairs) if levels[-1].size else _nowhere(pairs)
    found: npt.NDArray[Any] = np.arange(levels[-1].size if levels else _count(columns[0]))
    places: list[Places] = []
    for level, names in zip(reversed(levels), reversed(columns), strict=False):
        found, place = np.divmod(level[found], _count(names))
        places.append(place)
    return Known(columns, [found, *reversed(places)], single=False)


def _paired(first: Places, second: Places, many: int) -> Places:
    return np.where((first >= 0) & (second >= 0), first * many + second, -1)


def _nowhere(rows: Integers) -> Places:
    return np.full(rows.size, -1)


def finder(keys: Column, known: Column) -> Find:
    """A function that finds the places of rows of keys among known ones, or -1."""
    if keys.texts is not None and known.texts is not None:
        place = {text: i for i, text in enumerate(known.texts)}
        table = np.array([place.get(text, -1) for text in keys.texts], np.int64)
        return lambda rows: table[rows]
    if not known.codes.size or known.texts is not None:  # no rows
        return _nowhere
    order = np.argsort(known.codes)
    ordered = known.codes[order]
    ordered = ordered.astype(np.uint64 if ordered.dtype == UINT64 else np.int64)
    find = _finder_of_integers(ordered, order)
    if (keys.codes.dtype == UINT64) == (ordered.dtype == UINT64):
        return find
    # One of the two reaches 2^63 and the other goes below 0. Values that both hold are between.
    return lambda rows: np.where(rows.astype(np.int64) >= 0, find(rows), -1)


def as_words(values: Integers) -> Words:
    """Integers modulo 2^64; without a copy if they have 64 bits."""
    return values.view(np.uint64) if values.dtype.itemsize == 8 else values.astype(np.uint64)


def _finder_of_integers(known: Integers, order: Places) -> Find:
    """A function that finds integers among the sorted `known`, modulo 2^64.

    If they lie close together it uses a table.
    """
    low, last = int(known[0]), int(known[-1]) - int(known[0])
    if last < 4 * known.size + CHUNK:
        base = low % 2**64
        table = np.full(last + 2, -1)
        table[as_words(known) - np.uint64(base)] = order
        return lambda rows: _native.look_up(as_words(rows), base, table)
    search = search_of(known)

    def find(rows: Integers) -> Places:
        at = search(rows)
        return np.where(at >= 0, order[at], -1)

    return find


def search_of(known: Integers) -> Find:
    """A function that finds integers, modulo 2^64, among sorted ones of 64 bits: places, or -1."""
    words, span = known.view(np.uint64), int(known[-1]) - int(known[0])
    leading = max(known.size // BUCKET, 1).bit_length() - 1
    shift = min(max(span.bit_length() - leading, 0), 63)
    edges = words[0] + (np.arange((span >> shift) + 1, dtype=np.uint64) << np.uint64(shift))
    begins = np.append(np.searchsorted(known, edges.view(known.dtype)), known.size)

    return lambda rows: _native.search(as_words(rows), words, shift, begins)
