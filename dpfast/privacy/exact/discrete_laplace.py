# SPDX-License-Identifier: Apache-2.0
"""The discrete Laplace (two-sided geometric) law in intervals."""

from __future__ import annotations

from fractions import Fraction

from dpfast.privacy.exact.balls import Ball, ball, unique_floor
from dpfast.privacy.exact.one_sided_geometric import OneSidedGeometric


class DiscreteLaplace(OneSidedGeometric):
    """The law P(X = k) = (1-q)/(1+q) q^|k|, q = exp(-rate), rate = epsilon/sensitivity rational.

    Its magnitude is one-sided geometric, 0 apart: P(|X| >= k) = 2/(1+q) q^k for k >= 1.
    Source: GRS09; csrc/discrete_laplace.md, section 1.
    """

    def _weight(self) -> Ball:
        return 2 / (1 + self._q())

    def quantile(self, p: Fraction) -> int:
        """The least k with P(X <= k) >= p."""
        # k < 0: q^-k / (1+q) >= p. k >= 0: q^(k+1) / (1+q) <= 1-p, so k + 1 >= t (-ln((1-p)(1+q))).
        lower = p < Fraction(1, 2)
        side = p if lower else 1 - p
        found = unique_floor(self.lost + 192, lambda: -ball(self.scale) * (ball(side) * (1 + self._q())).log())
        return -found if lower else found
