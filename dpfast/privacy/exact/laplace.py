# SPDX-License-Identifier: Apache-2.0
"""The real Laplace law, rounded to a grid, in intervals."""

from __future__ import annotations

from fractions import Fraction

from dpfast.privacy.exact.balls import Ball, ball, lost, miss, unique_floor


class Laplace:
    """K = floor(x + S ratio E + 1/2): E = -ln U, S a fair sign, ratio = scale/granularity.

    Source: DMNS06 for the law; design.md, section 3.2 for the grid.
    """

    def __init__(self, ratio: Fraction) -> None:
        self.ratio = ratio
        self.lost = lost(ratio)

    def reach(self, confidence: Fraction, cells: int) -> Ball:
        """The h with P(|ratio E| <= h - 1/2)^cells = confidence: rounding adds 1/2 at most."""
        return ball(Fraction(1, 2)) - ball(self.ratio) * miss(confidence, cells).log()

    def half_width(self, confidence: Fraction, cells: int) -> int:
        """The least h with P(|K| <= h)^cells >= confidence, for independent cells and offset 0."""
        # P(|K| > h) = exp(-(h + 1/2) / ratio), transcendental; what a cell may miss is algebraic
        return unique_floor(self.lost + 192 + cells.bit_length(), lambda: self.reach(confidence, cells))
