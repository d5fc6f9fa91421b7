# SPDX-License-Identifier: Apache-2.0
"""The scale of a picture: equal steps, for equal noise looks equal, and a few cells beyond it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from dpfast.app.report.facts import Cell

TICKS = 5  # about so many
HUGE = 4e307  # the end of a scale, whose length is a double, too
FEW = 8  # one cell of so many may lie beyond the scale, and one of half as many
FAR = 4.0  # times the range of the others, from which a cell flattens them


class Scale(NamedTuple):
    """least, most: its ends. marks: round numbers within. beyond: the places of cells outside."""

    least: float
    most: float
    marks: list[float]
    beyond: frozenset[int]

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1; what is outside is at an end."""
        return min(1.0, max(0.0, (float(value) - self.least) / (self.most - self.least)))

    @classmethod
    def of(cls, cells: Sequence[Cell], low: Sequence[Cell], high: Sequence[Cell]) -> Scale:
        """That of cells with the ends of their intervals."""
        beyond = _flatten(cells, low, high)
        within = [at for at in range(len(cells)) if at not in beyond]
        least, most = _ends(within, low, high)
        if 0 < least < most - least:
            least = 0.0
        if least == most:
            room = max(1.0, abs(least) / 1e9)  # that a double tells apart
            least, most = least - room, most + room
        return cls(least, most, ticks(least, most), frozenset(beyond))


def _ends(within: Sequence[int], low: Sequence[Cell], high: Sequence[Cell]) -> tuple[float, float]:
    least, most = (end(float(ends[at]) for at in within) for end, ends in ((min, low), (max, high)))
    return min(max(least, -HUGE), HUGE), max(min(most, HUGE), -HUGE)


def _flatten(cells: Sequence[Cell], low: Sequence[Cell], high: Sequence[Cell]) -> set[int]:
    """The few cells without which the others can be told apart: the farthest from the median."""
    middle = float(median(map(float, cells)))
    far = sorted(range(len(cells)), key=lambda at: -abs(float(cells[at]) - middle))
    found, wide = 0, _width(far, low, high)
    for n in range(1, max(len(cells) // FEW, int(len(cells) >= FEW // 2)) + 1):
        left = _width(far[n:], low, high)
        if left * FAR < wide:
            found, wide = n, left
    return set(far[:found])


def _width(within: Sequence[int], low: Sequence[Cell], high: Sequence[Cell]) -> float:
    least, most = _ends(within, low, high)
    return most - least


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within an interval, some TICKS of them."""
    raw = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = {step * k for k in range(first, last + 1)}  # fewer, where doubles do not tell them apart
    return sorted(mark for mark in found if low - step / 1e6 <= mark <= high + step / 1e6)
