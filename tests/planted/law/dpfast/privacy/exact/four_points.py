# SPDX-License-Identifier: Apache-2.0
"""Four points, exactly: the first two digits of a word decide."""

from __future__ import annotations

import math
from fractions import Fraction

from dpfast.privacy.exact.balls import Read, split


class FourPoints:
    """P(X = k) = 1/4 for k = -2t, -t, t, 2t."""

    def __init__(self, t: int) -> None:
        self.t = t

    def draw(self, read: Read, i: int) -> int:
        negative, rest = split(read(i, 1))
        magnitude = self.t << (rest.prefix >> (rest.bits - 1))
        return -magnitude if negative else magnitude

    def half_width(self, confidence: Fraction, cells: int) -> int:
        return self.t if Fraction(1, 2) ** cells >= confidence else 2 * self.t

    def quantile(self, p: Fraction) -> int:
        return (-2, -1, 1, 2)[math.ceil(4 * p) - 1] * self.t
