# SPDX-License-Identifier: Apache-2.0
"""From rows to counts of cells of their values, by key: the leaves of trees.

The caps choose a unit's keys, its rows of a key and its rows in all, as they do for counts. Each
row that is left lies in one cell of its key. Let a unit keep at most P keys with at most R rows
each, and at most m <= P R rows in all. In leaves, which are pairs (key, cell), it adds integers >=
0 that come to at most m in all, and to at most R in all cells of a key. So no leaf gets more than
R, at most m leaves get any, and the squares add up to at most q R^2 + r^2, where m = q R + r, r <
R. That is `Sensitivity(m, R, l1=m)`, and each figure is reached: rows of a key may lie in one cell,
or each in another. l0 = P, as of counts by key, would be false: R rows of a key may reach R leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from dpfast.counts.records.amounts import integers, numbers, reals_of
from dpfast.counts.records.bounded_histogram import EACH_ROW, Bounds, Caps, Read, Rows, Terms, chooser_of
from dpfast.counts.records.places import Known, domain_keys
from dpfast.errors import ParameterError
from dpfast.noise.release.arrays import INT64_ENDS
from dpfast.noise.release.counts import BoundedCounts, bounded
from dpfast.noise.release.key import ReleaseKey
from dpfast.privacy.formatting import exact, rounded
from dpfast.privacy.parameters import Real, exact_positive, exact_real, shown
from dpfast.privacy.sensitivity import Cells, Sensitivity

MOST_CELLS = 2**20  # a key
MOST_LEAVES = 2**24  # all keys together
MOST_WHOLE = 2**53  # up to which doubles hold every integer
LONGEST = 120  # letters of an advice


class Edges(NamedTuple):
    """The lower edges of cells of values: lower, lower + step and so on up to upper.

    A value lies in the cell of the last edge that is not above it; below all edges, in the first.
    """

    lower: Fraction
    upper: Fraction
    step: Fraction

    @classmethod
    def of(cls, lower: Real, upper: Real, step: Real, names: Sequence[str] = ("lower", "upper", "step")) -> Edges:
        """names: what the caller calls them.

        Raises: DTypeError, ParameterError (too many cells, or a step that does not divide).
        """
        least, most, wide = names
        low, high = exact_real(least, lower, decimal=True), exact_real(most, upper, decimal=True)
        width = exact_positive(wide, step, decimal=True)
        if low >= high:
            raise ParameterError(f"{least} must be below {most}, got {shown(lower)} and {shown(upper)}")
        span = high - low
        cells = span / width + 1
        if cells > MOST_CELLS:
            rule = f"{wide} must make at most 2**20 cells from {least} to {most}, got {shown(step)}"
            raise ParameterError(rule + _advice(low, span, _fine(span, width, MOST_CELLS), most))
        if cells.denominator > 1:
            rule = f"{wide} must divide {most} - {least}, {shown(span)}, got {shown(step)}"
            raise ParameterError(rule + _advice(low, span, width, most))
        found = cls(low, high, width)
        found.doubles(np.float64)
        return found

    @property
    def cells(self) -> int:
        return int((self.upper - self.lower) / self.step) + 1

    @property
    def whole(self) -> bool:
        """Whether all edges are whole numbers within int64."""
        within = INT64_ENDS[0] <= self.lower and self.upper <= INT64_ENDS[1]
        return within and self.lower.denominator == self.step.denominator == 1

    def coarser(self, cells: int) -> Fraction:
        """A step that makes at most so many cells, 2 at least."""
        span = self.upper - self.lower
        return _nearest(span, _fine(span, self.step, cells), cells)

    def edge(self, cell: int) -> Fraction:
        return self.lower + cell * self.step

    def doubles(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """All edges, each rounded once. Raises: ParameterError (two are one there, or infinite)."""
        shared = self.lower.denominator * self.step.denominator
        first, step = int(self.lower * shared), int(self.step * shared)
        if max(abs(first), abs(first + (self.cells - 1) * step), shared) <= MOST_WHOLE:
            found = (first + np.arange(self.cells) * step) / float(shared)
        else:
            try:
                found = np.array([float(self.edge(cell)) for cell in range(self.cells)])
            except OverflowError:
                found = np.zeros(2)
        with np.errstate(over="ignore"):
            found = found.astype(dtype)
        if not np.isfinite(found[[0, -1]]).all() or (found[1:] <= found[:-1]).any():
            raise ParameterError(
                f"step must make edges that differ where values are of {found.dtype}, got {shown(self.step)}"
            )
        return found


def _nearest(span: Fraction, step: Fraction, cells: int = MOST_CELLS) -> Fraction:
    """The part of the span that is nearest to a step; a whole number if both are."""
    most = cells - 1
    if span.denominator == step.denominator == 1:
        whole, tried = int(span), range(1, min(int(span), most, math.isqrt(int(span))) + 1)
        small = [n for n in tried if whole % n == 0]
        parts = [n for n in (*small, *(whole // n for n in reversed(small))) if n <= most]
        return min((span / n for n in parts), key=lambda part: abs(part - step))
    return span / min(max(round(span / step), 1), most)


def _fine(span: Fraction, step: Fraction, cells: int) -> Fraction:
    """A step in one digit, or a whole number, that makes no more cells."""
    least = span / (cells - 1)
    whole_ones = span.denominator == step.denominator == 1
    return Fraction(math.ceil(least)) if whole_ones else Fraction(rounded(least, up=True, digits=1, group=""))


def _advice(low: Fraction, span: Fraction, step: Fraction, most: str) -> str:
    """What may be written instead: a step near this one, or the upper end for it."""
    near, other = _nearest(span, step), exact(low + math.ceil(span / step) * step)
    said = [f"the nearest that does is {exact(near)}"]
    if not near / 2 < step < near * 2 or "/" in said[0]:
        said.append(f"{exact(step)} does with {most} {other}")
    return ": " + ", and ".join(said) if max(map(len, said)) < LONGEST else ""


class InCells:
    """A column of values, read in parts as the places of their cells."""

    def __init__(self, values: Any, lower: Real, upper: Real, step: Real | None) -> None:
        """step: None: 1, for integers alone. Raises: DTypeError, ParameterError."""
        self.edges = Edges.of(lower, upper, 1 if step is None else step)
        self._array = numbers(values, whole=self.edges.whole)
        kind = self._array.dtype
        if kind.kind == "f":
            if step is None:
                raise ParameterError(f"step must be given where values are of {kind}: how wide a cell is")
            self._doubles = self.edges.doubles(kind.newbyteorder("="))
        elif not self.edges.whole:
            raise ParameterError(f"lower, upper and step must be whole numbers within int64 where values are of {kind}")

    def __len__(self) -> int:
        return self._array.size

    @property
    def whole(self) -> bool:
        """Whether the values are integers."""
        return self._array.dtype.kind != "f"

    def __call__(self, part: slice) -> npt.NDArray[np.int64]:
        """Raises: UnusableValuesError (NaN)."""
        if not self.whole:
            reals = reals_of(self._array[part], self._doubles.dtype)
            return np.maximum(np.searchsorted(self._doubles, reals, "right") - 1, 0)
        low, high = int(self.edges.lower), int(self.edges.upper)
        above = np.clip(integers(self._array[part]), low, high).view(np.uint64) - np.uint64(low % 2**64)
        return (above // np.uint64(self.edges.step)).view(np.int64)


class Leaves(Rows):
    """What counts of leaves know of themselves. keys: none of rows without keys."""

    def __init__(self, keys: npt.NDArray[Any], sensitivity: Sensitivity, terms: Terms, edges: Edges) -> None:
        super().__init__(keys, sensitivity, terms)
        self.edges = edges

    def named(self, key: ReleaseKey) -> dict[str, str]:
        found = super().named(key) | {name: str(end) for name, end in self.edges._asdict().items()}
        return found if self.keys.size else {name: term for name, term in found.items() if name != "domain"}


def leaf_sensitivity(bounds: Bounds, caps: Caps, keys: int, cells: int) -> Sensitivity:
    """That of the leaves. Raises: ParameterError (too many)."""
    of_keys = bounds.sensitivity(caps, None, keys)
    leaves, rows, most = keys * cells, cast("Fraction", of_keys.contributed), cast("Cells", of_keys.contributes).linf
    if leaves > MOST_LEAVES:
        raise ParameterError(
            f"cells of all keys together must be at most 2**24, got {leaves:,}: a wider step makes fewer"
        )
    about: Any = {"adjacency": of_keys.adjacency, "unit": of_keys.unit}
    return Sensitivity(min(int(rows), leaves), most, l1=rows, cells=leaves, **about)


def leaf_counts(
    values: InCells,
    unit_ids: Any,
    by: Any,
    known: Known | None,
    key: ReleaseKey | None,
    caps: Caps,
    change: Sensitivity,
) -> BoundedCounts:
    """The counts of all leaves, key by key. known: the keys; None: of rows without keys.

    Raises: DTypeError, ParameterError; UnusableValuesError (NaN).
    """
    chooser, cells = chooser_of(key), values.edges.cells
    name, keys, among = "by", by, known
    if among is None:
        name, keys, among = "values", np.zeros(len(values), np.int64), domain_keys([0], [0])
    held = Read.of(keys, unit_ids, values, among, name).held(values, chooser, refuse=False)
    rows, places = held.chosen(caps)
    at = (rows & np.uint64((1 << held.bits) - 1)).view(np.int64)
    counts = np.bincount(at * cells + places, minlength=held.size * cells)
    terms = Terms(caps, None, None if key is None else chooser.id, unit_ids is EACH_ROW)
    names = known.names() if known else np.zeros(0, object)
    return bounded(counts, Leaves(names, change, terms, values.edges))
