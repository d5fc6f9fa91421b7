# SPDX-License-Identifier: Apache-2.0
"""What rows tell of listed keys alone: which match nothing, and roughly how much lies outside.

It is private. No key that is not listed, no count and nothing of any unit can come out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.app.tables.domain import as_texts, is_text
from dpfast.app.tables.keys import Key, missing
from dpfast.app.tables.rows import Rows

STRIP, CASE = "--strip", "another case"
NONE, FEW, MORE = "none", "below 1 %", "more"


class Unmatched(NamedTuple):
    """A listed key that no row has. after: what would make it match a row, all of it together."""

    key: str
    after: tuple[str, ...]


class Found(NamedTuple):
    """What is told of a column. outside: NONE, FEW or MORE of the rows have no key of the list."""

    name: str
    unmatched: list[Unmatched]
    outside: str


class Column:
    """The listed keys of a column, and which of them its rows have, as they are or nearly so."""

    def __init__(self, key: Key, listed: pa.Array, null: Sequence[str], *, stripped: bool) -> None:
        """null: texts of cells that are missing. stripped: whether spaces are left out already."""
        self._name, self._listed = key.name, listed
        self._null = missing(null, listed.type)
        ways: list[tuple[str, ...]] = []
        if key.made is None and is_text(listed.type):
            ways = [(CASE,)] if stripped else [(STRIP,), (CASE,), (STRIP, CASE)]
        self._matched = {way: np.zeros(len(listed), bool) for way in [(), *ways]}
        self._rows = self._outside = 0

    def add(self, cells: pa.Array) -> None:
        self._rows += len(cells)
        self._outside += len(cells) - (pc.sum(pc.is_in(cells, value_set=self._listed)).as_py() or 0)
        known = pc.unique(cells).drop_null()
        for way in self._matched:
            self._matched[way] |= _there(self._listed, known, way, self._null)

    def found(self) -> Found:
        matched = self._matched[()]
        texts = as_texts(self._listed).to_pylist()
        unmatched = [Unmatched(texts[at], self._after(at)) for at in np.flatnonzero(~matched).tolist()]
        few = FEW if 100 * self._outside < self._rows else MORE
        return Found(self._name, unmatched, few if self._outside else NONE)

    def _after(self, at: int) -> tuple[str, ...]:
        return next((way for way, matched in self._matched.items() if way and matched[at]), ())


def look(rows: Rows, listed: Iterable[pa.Array]) -> list[Found]:
    """Read all rows. listed: the keys of each column, as these rows have them.

    Raises: FileError, UnusableValuesError.
    """
    by, stripped = rows.columns.by, rows.columns.strip
    columns = [Column(key, keys, rows.columns.null, stripped=stripped) for key, keys in zip(by, listed, strict=True)]
    for batch in rows.batches_of_keys():
        for column, cells in zip(columns, batch, strict=True):
            column.add(cells)
    rows.must_be_the_same()
    return [column.found() for column in columns]


def _there(listed: pa.Array, cells: pa.Array, way: tuple[str, ...], null: pa.Array) -> Any:
    """Which listed keys some cell is, if both are read another way. null: missing cells."""
    if STRIP in way:
        cells = pc.utf8_trim_whitespace(cells)
        cells = cells.filter(pc.invert(pc.is_in(cells, value_set=null)))
    if CASE in way:
        listed, cells = pc.utf8_lower(listed), pc.utf8_lower(cells)
    return np.asarray(pc.is_in(listed, value_set=cells))
