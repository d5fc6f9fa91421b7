# SPDX-License-Identifier: Apache-2.0
"""The magnitude of the two geometric laws on a cell of U, and their draws."""

from __future__ import annotations

from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.evidence.selftest.reference.cells import floor_ends, table_of
from dpfast.privacy.exact import discrete_laplace, one_sided_geometric
from dpfast.privacy.exact.balls import MAX_LEVELS, Ball, Read, alone, ball, dyadic, flint_at, split, unique_floor


class OneSidedGeometric(one_sided_geometric.OneSidedGeometric):
    """The magnitude is the number of k >= 1 with U <= w q^k, which is floor(T (C - ln U))."""

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


class DiscreteLaplace(OneSidedGeometric, discrete_laplace.DiscreteLaplace):
    """The same with another weight, and a sign."""

    def draw(self, read: Read, i: int) -> int:
        """Draw i; the first raw digit is the sign (1: negative)."""
        negative, found = self._draw(read, i)
        return -found if negative else found
