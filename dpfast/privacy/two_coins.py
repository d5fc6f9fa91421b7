# SPDX-License-Identifier: Apache-2.0
"""What the survey with two coins costs, and the coin for a given cost.

Let p be the probability of heads. A true yes says yes with probability p + p(1 - p) = p(2 - p), a
true no with p(1 - p). The loss is that of the answer that tells more. A yes has the loss ln((2 -
p)/(1 - p)), and a no has the loss ln((1 - p + p^2)/(1 - p)^2). Because (1 - p + p^2) - (2 - p)(1 -
p) = 2p - 1, the yes tells more up to p = 1/2. There both are ln 3, and beyond it the no tells more.
Course notes often stop at the yes.

Both losses grow with p, from ln 2 and from 0. Solved for p, with E = exp(epsilon): p = (E - 2)/(E -
1) for ln 2 < epsilon <= ln 3. Beyond ln 3, (E - 1) p^2 - (2E - 1) p + (E - 1) = 0 gives p = (2E - 1
- sqrt(4E - 3))/(2(E - 1)).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpfast.errors import ParameterError
from dpfast.privacy.exact import Ball, ball, nearest_double, rounded_up
from dpfast.privacy.parameters import shown

STEPS = 2**53  # p is a multiple of 1/STEPS, which a double holds


def epsilon(p: Fraction) -> Fraction:
    """The larger of the two losses: a double, rounded up."""
    ratio = max((2 - p) / (1 - p), (1 - p + p * p) / (1 - p) ** 2)
    return Fraction(rounded_up(lambda: ball(ratio).log()))


def probability(most: Fraction) -> Fraction:
    """A p just below the largest one whose epsilon is at most `most`."""

    def root() -> Ball:
        e = ball(most).exp()
        upto_half = (e - 2) / (e - 1)
        return upto_half if upto_half < 0.5 else (2 * e - 1 - (4 * e - 3).sqrt()) / (2 * (e - 1))

    if epsilon(Fraction(1, STEPS)) > most:
        raise ParameterError(f"epsilon must be above ln 2 for two coins, by 2**-52 at least, got {shown(most)}")
    near = nearest_double(512 + 4 * math.ceil(most), root)
    steps = max(1, min(math.floor(Fraction(near) * STEPS), STEPS - 1))
    while epsilon(Fraction(steps, STEPS)) > most:
        steps -= 1
    return Fraction(steps, STEPS)
