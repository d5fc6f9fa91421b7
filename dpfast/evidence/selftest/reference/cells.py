# SPDX-License-Identifier: Apache-2.0
"""What the laws share: the outcome of a cell of U, or None if a threshold may be inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.privacy.exact.balls import Ball, alone, ball, flint_at


def floor_ends(value: Ball) -> tuple[int, int]:
    """The floors of the ends of a ball."""
    low, high = value.lower().floor().unique_fmpz(), value.upper().floor().unique_fmpz()
    if low is None or high is None:
        raise DpfastError("a ball without ends")
    return int(low), int(high)


def table_of(bits: int, thresholds: Iterable[tuple[int, int]]) -> list[int | None]:
    """On each cell [a, a + 1) / 2^bits of U the number of thresholds T_1 > T_2 > ... above it.

    None where one may be inside. thresholds: first and last cell of each; only cell 0 is left.
    """
    cells: list[int | None] = [0] * 2**bits
    above = 2**bits  # cells from here on are done
    known = 0
    for first, last in thresholds:
        if last + 1 < above:
            cells[last + 1 : above] = [known] * (above - last - 1)
        above = min(above, first)
        cells[above : last + 1] = [None] * (last + 1 - above)
        known += 1
    cells[1:above] = [known] * (max(above, 1) - 1)
    cells[0] = None  # infinitely many are inside
    return cells


def nearest_step(
    precision: int, offset: Fraction, negative: bool, low: Callable[[], Ball] | None, high: Callable[[], Ball]
) -> int | None:
    """floor(offset + X + 1/2) if it is the same for all M between low() and high(), else None.

    X is M, or -M if negative. offset + 1/2 + X is no integer at either end. If low is None, M > 0
    comes as near to 0 as you like.
    """
    whole = math.floor(offset)
    rest = offset - whole + Fraction(1, 2)
    given = [high] if low is None else [low, high]
    while True:
        with alone, flint_at(precision):
            begin = ball(rest)
            found = [(begin - each() if negative else begin + each()).floor().unique_fmpz() for each in given]
        ends = [int(end) for end in found if end is not None]
        if len(ends) == len(given):
            break
        precision *= 2
    near = ends[0] if low is not None else math.ceil(rest) - 1 if negative else math.floor(rest)
    return whole + near if near == ends[-1] else None
