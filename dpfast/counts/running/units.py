# SPDX-License-Identifier: Apache-2.0
"""Who has counted in which steps: the private table of running totals that bound their rows.

A unit is two words: an integer is its value modulo 2^64, and whether it is negative; a text is a
keyed hash of 127 bits and a bit that no integer has. So equal ids have equal words, in whatever
type and process, and 1 is never "1". The table has three words a unit, sorted by the first two:
these, and in how many steps it was counted (the upper half) with the last of them (the lower).

A unit is counted in step t if it was in fewer than `most` steps before and in none of the `apart` -
1 last ones. That is first come, first served, for each unit by itself: by induction over t, its
entry after step t is a function of the steps in which it has rows, and of nobody else's. For step
t decides on the unit's own entry alone, and changes it alone. So whoever removes a unit removes
its entries, and leaves all others and what they decide as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpfast.counts.records.places import hashes_of
from dpfast.errors import DTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.counts.records.bounded_histogram import Held
    from dpfast.counts.records.places import Words
    from dpfast.noise.release.columns import Column

TEXT = np.uint64(1 << 63)  # the bit of the second word that a text has
KINDS = {False: "integers", True: "strings"}
HALF = np.uint64(32)


def nobody() -> Words:
    """The table before step 1."""
    return np.empty((3, 0), np.uint64)


def units_of(held: Held, numbers: Words, ids: Column, sips: tuple[tuple[int, int], ...]) -> Words:
    """The words of units, by their numbers there. sips: keys of two functions, for texts."""
    if ids.texts is not None:
        first, second = (words[numbers] for words in hashes_of(ids, *sips))
        return np.stack([first, second | TEXT])
    first = held.units.words[numbers] if held.units.words.size else np.uint64(held.units.base) + numbers
    negative = (first.view(np.int64) < 0) & (ids.codes.dtype.kind == "i")
    return np.stack([first, negative.astype(np.uint64)])


def in_order(units: Words) -> npt.NDArray[np.intp]:
    return np.lexsort((units[1], units[0]))


def must_be_alike(table: Words, ids: Column) -> None:
    """Raises: DTypeError (ids of another type than in the steps before)."""
    texts = ids.texts is not None
    if ids.codes.size and table.size and bool(table[1, 0] & TEXT) is not texts:
        raise DTypeError(
            f"unit_ids must contain {KINDS[not texts]}, as in the steps before, not {KINDS[texts]}: an id of another type is "
            "another unit"
        )


def may_count(table: Words, units: Words, t: int, most: int, apart: int) -> npt.NDArray[np.bool_]:
    """Which of the units are counted in step t."""
    at, there = _places(table, units)
    spent = table[2, at[there]]
    found = ~there
    found[there] = (spent >> HALF < most) & (t - (spent & np.uint64(2**32 - 1)).astype(np.int64) >= apart)
    return found


def after(table: Words, units: Words, t: int) -> Words:
    """The table once these units are counted in step t."""
    at, there = _places(table, units)
    known, made = at[there], table.copy()
    step = np.uint64(t)
    made[2, known] = ((table[2, known] >> HALF) + np.uint64(1)) << HALF | step
    fresh = units[:, ~there]
    entries = np.concatenate([fresh, np.full((1, fresh.shape[1]), np.uint64(1) << HALF | step)])
    return np.insert(made, at[~there], entries, axis=1)


def _places(table: Words, units: Words) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Where sorted units are in a table, or belong; and which are there."""
    known, many = table[:2], table.shape[1]
    at = np.searchsorted(known[0], units[0])
    if not many:
        return at, np.zeros(at.size, bool)
    while True:
        there = known[:, np.minimum(at, many - 1)]
        same = (at < many) & (there[0] == units[0])
        on = same & (there[1] < units[1])  # their first words are equal, as of n and n - 2^64
        if not on.any():
            return at, same & (there[1] == units[1])
        at = at + on
