# SPDX-License-Identifier: Apache-2.0
"""The one-sided geometric law in intervals; with another weight, the two-sided one."""

from __future__ import annotations

from fractions import Fraction

from dpfast.privacy.exact.balls import Ball, ball, lost, miss, unique_floor


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
