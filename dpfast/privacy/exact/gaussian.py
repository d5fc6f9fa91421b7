# SPDX-License-Identifier: Apache-2.0
"""The real Gaussian law, rounded to a grid, in intervals."""

from __future__ import annotations

from fractions import Fraction

from dpfast.privacy.exact.balls import MAX_BITS, Ball, ball, lost, miss, unique_floor


class Gaussian:
    """K = floor(x + ratio N + 1/2), N standard normal; ratio = sigma/granularity."""

    def __init__(self, ratio_squared: Fraction) -> None:
        self.ratio_squared = ratio_squared
        self.lost = lost(ratio_squared)

    def reach(self, confidence: Fraction, cells: int) -> Ball:
        """The h with P(|ratio N| <= h - 1/2)^cells = confidence: rounding adds 1/2 at most."""
        return (2 * ball(self.ratio_squared)).sqrt() * miss(confidence, cells).erfcinv() + ball(Fraction(1, 2))

    def half_width(self, confidence: Fraction, cells: int) -> int:
        """The least h with P(|K| <= h)^cells >= confidence, for independent cells and offset 0."""
        # P(|K| > h) = erfc((h + 1/2) / (ratio sqrt 2))
        precision = self.lost + 192 + cells.bit_length()
        return unique_floor(precision, lambda: self.reach(confidence, cells), MAX_BITS + self.lost)
