# SPDX-License-Identifier: Apache-2.0
"""Randomized response in intervals: which of the other answers U picks, if any."""

from __future__ import annotations

import math
from fractions import Fraction

from dpfast.privacy.exact.balls import ball, unique_floor


class Response:
    """V = (k - 1)(U - keep)/(1 - keep): the truth if V < 0, else the answer floor(V) + 1 on."""

    def step(self, prefix: int, bits: int) -> int | None:
        """Places on from the truth, for U in [prefix, prefix + 1)/2^bits; None if it varies."""
        low, below = self.floor(Fraction(prefix, 2**bits)), self.below(Fraction(prefix + 1, 2**bits))
        return max(low + 1, 0) if max(low, -1) == max(below, -1) else None

    def floor(self, u: Fraction) -> int:
        """The floor of V at U = u."""
        raise NotImplementedError

    def below(self, u: Fraction) -> int:
        """The floor of V at the numbers next below U = u."""
        raise NotImplementedError


class Categories(Response):
    """keep = E/(E + k - 1), E = exp(epsilon), so that V = U (E + k - 1) - E.

    At U = 1, V is k - 1. At other rational U, (U - 1) E + U (k - 1) is transcendental, no integer.
    """

    def __init__(self, epsilon: Fraction, categories: int) -> None:
        self.epsilon, self.others = epsilon, categories - 1
        self.precision = 128 + math.ceil(2 * epsilon) + categories.bit_length()

    def floor(self, u: Fraction) -> int:
        e = self.epsilon
        precision = self.precision + u.denominator.bit_length()
        return unique_floor(precision, lambda: ball(u - 1) * ball(e).exp() + ball(u * self.others))

    def below(self, u: Fraction) -> int:
        return self.others - 1 if u == 1 else self.floor(u)


class Coin(Response):
    """Two answers, and a rational keep."""

    def __init__(self, keep: Fraction) -> None:
        self.keep = keep

    def floor(self, u: Fraction) -> int:
        return 0 if u >= self.keep else -1

    def below(self, u: Fraction) -> int:
        return 0 if u > self.keep else -1
