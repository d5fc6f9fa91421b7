# SPDX-License-Identifier: Apache-2.0
"""The rounded Laplace law on a cell of U, and its draws."""

from __future__ import annotations

from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.evidence.selftest.reference.cells import nearest_step
from dpfast.privacy.exact import laplace
from dpfast.privacy.exact.balls import MAX_LEVELS, Ball, Read, ball, dyadic, split


class Laplace(laplace.Laplace):
    """K = floor(x + S ratio E + 1/2), E = -ln U, where all but E is rational.

    ln u is transcendental for rational u other than 0 and 1 [Lindemann 1882]. So x + 1/2 + S ratio
    E is no integer at any other end of a cell, and every loop ends.
    """

    def rounded(self, negative: bool, prefix: int, bits: int, offset: Fraction) -> int | None:
        """The draw on the cell [prefix, prefix + 1) / 2^bits of U < 1; None if it varies."""
        if prefix == 0:
            return None

        def noise(end: int) -> Ball:
            return -ball(self.ratio) * dyadic(end, bits).log()

        # At U = 1 E is 0, which no U reaches; elsewhere x + 1/2 + S ratio E is no integer.
        low = None if prefix + 1 == 2**bits else lambda: noise(prefix + 1)
        return nearest_step(self.lost + bits + 64, offset, negative, low, lambda: noise(prefix))

    def draw(self, read: Read, i: int, offset: Fraction) -> int:
        """Draw i, rounded to the grid with the offset; the first raw digit is the sign, 1 minus."""
        for level in range(1, MAX_LEVELS):
            negative, known = split(read(i, level))
            found = self.rounded(negative, *known, offset)
            if found is not None:
                return found
        raise DpfastError("the stream has no more digits for a draw")
