# SPDX-License-Identifier: Apache-2.0
"""Four points: figures."""

from __future__ import annotations

import math
from fractions import Fraction


class FourPoints:
    """P(X = k) = 1/4 for k = -2t, -t, t, 2t."""

    def __init__(self, t: int) -> None:
        self.t = t

    def half_width(self, confidence: Fraction, cells: int) -> int:
        return self.t if Fraction(1, 2) ** cells >= confidence else 2 * self.t

    def quantile(self, p: Fraction) -> int:
        return (-2, -1, 1, 2)[math.ceil(4 * p) - 1] * self.t
