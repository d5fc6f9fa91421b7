# SPDX-License-Identifier: Apache-2.0
"""The rounded Gaussian law on a cell of a pair's two words, and its draws."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.evidence.selftest.reference.cells import nearest_step
from dpfast.privacy.exact import gaussian
from dpfast.privacy.exact.balls import MAX_BITS, MAX_LEVELS, Ball, Digits, Read, ball, dyadic

PAIR = 64  # the bit of a draw's number that tells the two draws of a pair: clear is the cosine, set the sine


class Gaussian(gaussian.Gaussian):
    """Two draws of a pair are floor(x + ratio N + 1/2), each with its own x.

    Two draws are R cos and R sin of an angle, R = sqrt(-2 ln U) [Box, Muller 1958]. The angle has a
    sign for each draw, a bit that swaps the two, and (pi/4) V, U and V in (0, 1). So both factors
    are monotone, with extremes at the corners of a cell. At a corner (ratio N)^2 is ln u, u
    rational, times an algebraic number: 0 or transcendental [Lindemann 1882]. So no corner lies on
    a boundary, and its floor is found. The boundaries are monotone curves in (U, V). With B of them
    in reach, n digits of each word decide all but a share below 2^-n (9 B + 1). So every draw is
    decided with probability 1, but not surely.
    """

    def rounded(self, radius: Digits, angle: Digits, sine: bool, offset: Fraction) -> int | None:
        """The draw on a cell of raw digits: U; both signs, the swap and V. None if it varies."""
        v_bits = angle.bits - 3
        signs, v = angle.prefix >> v_bits, angle.prefix & (1 << v_bits) - 1
        negative, falling = bool(signs >> (1 if sine else 2) & 1), sine == bool(signs & 1)
        u, u_bits = radius
        if u == 0:
            return None

        def magnitude(u: int, v: int) -> Ball:
            turns = dyadic(v, v_bits + 2)
            return (-2 * ball(self.ratio_squared) * dyadic(u, u_bits).log()).sqrt() * (
                turns.cos_pi() if falling else turns.sin_pi()
            )

        small, large = (v + 1, v) if falling else (v, v + 1)
        zero = u + 1 == 2**u_bits or (small == 0 and not falling)
        low: Callable[[], Ball] | None = None if zero else lambda: magnitude(u + 1, small)
        precision = self.lost + max(u_bits, v_bits) + 64
        return nearest_step(precision, offset, negative, low, lambda: magnitude(u, large))

    def draw(self, read: Read, i: int, offset: Fraction) -> int:
        """Draw i, rounded to the grid with the offset. Raises: DpfastError after 4,096 digits."""
        for level in range(1, MAX_LEVELS):
            radius, angle = read(i & ~PAIR, level), read(i | PAIR, level)
            found = self.rounded(radius, angle, bool(i & PAIR), offset)
            if found is not None:
                return found
            if min(radius.bits, angle.bits) >= MAX_BITS:
                break
        raise DpfastError("the digits of a draw leave it open")
