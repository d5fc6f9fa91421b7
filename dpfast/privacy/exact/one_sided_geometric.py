# SPDX-License-Identifier: Apache-2.0
"""The one-sided geometric law in intervals; with another weight, the two-sided one."""

from __future__ import annotations

from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.privacy.exact.balls import (
    MAX_LEVELS,
    Ball,
    Read,
    alone,
    ball,
    dyadic,
    flint_at,
    floor_ends,
    lost,
    miss,
    split,
    table_of,
    unique_floor,
)


class OneSidedGeometric:
    """The law P(X >= k) = w q^k for k >= 1, q = exp(-rate), w = e^C = 1, for a rational rate.

    e^r is transcendental for every rational r other than 0 [Lindemann 1882], so no threshold and no
    value of the distribution function is rational: every loop below ends.
    Source: Devroye 1986, III.2 (inversion); csrc/discrete_laplace.md, section 1.
    """

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self.scale = 1 / rate
        self.lost = lost(rate)

    def _q(self) -> Ball:
        return (-ball(self.rate)).exp()

    def _weight(self) -> Ball:
        """P(magnitude >= k) / q^k for every k >= 1."""
        return ball(Fraction(1))

    def offset(self) -> Ball:
        """C, the logarithm of the weight."""
        return self._weight().log()

    def _height(self, u: Fraction) -> Ball:
        """T (C - ln u), whose floor is the magnitude at U = u."""
        return ball(self.scale) * (self.offset() - ball(u).log())

    def table(self, bits: int) -> list[int | None]:
        """The magnitude on each cell [a, a + 1) / 2^bits of U, None where a threshold is inside."""
        return table_of(bits, self._cells(bits))

    def _cells(self, bits: int) -> list[tuple[int, int]]:
        """The first and the last cell that may hold each threshold, down to cell 0."""
        found = []
        with alone, flint_at(bits + 192):
            q = self._q()
            height = dyadic(1, -bits) * self._weight() * q
            while (ends := floor_ends(height))[1] > 0:
                found.append(ends)
                height *= q
        return found

    def magnitude(self, prefix: int, bits: int) -> int | None:
        """The magnitude on [prefix, prefix + 1) / 2^bits of U; None if a threshold is inside."""
        if prefix == 0:
            return None
        low, high = Fraction(prefix, 2**bits), Fraction(prefix + 1, 2**bits)
        precision = self.lost + bits + 64
        least = unique_floor(precision, lambda: self._height(high))
        most = unique_floor(precision, lambda: self._height(low))
        return least if least == most else None

    def draw(self, read: Read, i: int) -> int:
        """Draw i."""
        return self._draw(read, i)[1]

    def _draw(self, read: Read, i: int) -> tuple[bool, int]:
        """The first raw digit of word i, and the magnitude, of which U is the others."""
        for level in range(1, MAX_LEVELS):
            first, known = split(read(i, level))
            found = self.magnitude(*known)
            if found is not None:
                return first, found
        raise DpfastError("the stream has no more digits for a draw")

    def half_width(self, confidence: Fraction, cells: int) -> int:
        """The least h with P(|X| <= h)^cells >= confidence, for independent cells."""
        # P(|X| > h) = w q^(h+1) <= 1 - confidence^(1/cells)
        return unique_floor(
            self.lost + 192 + cells.bit_length(),
            lambda: ball(self.scale) * (self.offset() - miss(confidence, cells).log()),
        )

    def quantile(self, p: Fraction) -> int:
        """The least k with P(X <= k) >= p."""
        # q^(k+1) <= 1 - p, so k + 1 >= t (-ln(1-p))
        return unique_floor(self.lost + 192, lambda: -ball(self.scale) * ball(1 - p).log())
