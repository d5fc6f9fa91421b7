# SPDX-License-Identifier: Apache-2.0
"""What a report is made from: all of it is released, or a public parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from dpfast.privacy.guarantee import Guarantee

Cell: TypeAlias = int | float
DRAWN = 60  # rows of a picture of rows, at most
ROWS = 500  # rows of the page's table, and keys of a line, at most
LABELS = 4  # columns without noise in it


@dataclass(frozen=True)
class Noisy:
    """A column with noise, its first rows.

    name: the column's, as OUT has it. what: "counts", "sums" or "values". cells: the noisy numbers
    of the rows shown; low, high: the ends of their intervals. jointly: whether the intervals hold
    for all rows at once, or each for its own. confidence: the probability of that.
    widths: other half-widths by what they hold for, such as {"all 20 cells at once": "±6"}.
    stddev: the standard deviation of one cell's noise; None if it is not added to the number.
    least, most: the range of all noisy cells.
    parameters: the entry of this column in the record that travels with OUT: what the mechanism's
    metadata has, and lower, upper, clamp and missing; threshold, if rows are shown only where the
    noisy number reaches it. holds: what intervals are for.
    """

    name: str
    what: str
    cells: Sequence[Cell]
    low: Sequence[Cell]
    high: Sequence[Cell]
    stddev: float | None
    parameters: Mapping[str, object]
    confidence: Fraction = Fraction(95, 100)
    jointly: bool = False
    widths: Mapping[str, str] = field(default_factory=dict)
    least: Cell | None = None
    most: Cell | None = None
    holds: str = "the true value"


@dataclass(frozen=True)
class Balance:
    """A ledger as it was just after the charge of this release; amounts by their names.

    number, time: of the charge, as the ledger has them. label: a key's, or nothing.
    """

    dataset: str
    number: int
    time: str
    charged: Mapping[str, Fraction]
    spent: Mapping[str, Fraction]
    left: Mapping[str, Fraction]
    budget: Mapping[str, Fraction]
    label: str = ""


@dataclass(frozen=True)
class Facts:
    """A release, as its report shows it.

    file: the name of OUT, without its folder. rows: how many OUT has. labels: names and first rows
    of columns without noise; they name the rows. index: names of the first rows where there
    are no such columns. rows_are: why the rows that
    there are may be known, a sentence. guarantee: of all columns together. record: what travels
    with OUT. noisy: the columns with noise. unshown: other columns of OUT without noise.
    each_row: whether each row was taken for another unit, which nothing checks. balance: of the
    ledger, if one was charged. belief: an epsilon, and the share of releases whose privacy
    loss may exceed it; by default what the guarantee implies, if it implies one. notes: more
    sentences on how to use the numbers.
    """

    file: str
    rows: int
    noisy: Sequence[Noisy]
    guarantee: Guarantee
    record: Mapping[str, object]
    labels: Sequence[tuple[str, Sequence[object]]] = ()
    index: Sequence[str] = ()
    rows_are: str = ""
    unshown: Sequence[str] = ()
    title: str = ""
    each_row: bool = False
    balance: Balance | None = None
    belief: tuple[Fraction, Fraction] | None = None
    notes: Sequence[str] = ()
