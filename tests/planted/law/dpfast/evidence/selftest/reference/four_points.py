# SPDX-License-Identifier: Apache-2.0
"""Four points, exactly: the first two digits of a word decide."""

from __future__ import annotations

from dpfast.privacy.exact import four_points
from dpfast.privacy.exact.balls import Read, split


class FourPoints(four_points.FourPoints):
    """The second digit tells whether it is t or 2t."""

    def draw(self, read: Read, i: int) -> int:
        negative, rest = split(read(i, 1))
        magnitude = self.t << (rest.prefix >> (rest.bits - 1))
        return -magnitude if negative else magnitude
