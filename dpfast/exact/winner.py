# SPDX-License-Identifier: Apache-2.0
"""The candidate with the largest noisy score: each reads the digits of its own U that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.exact.balls import MAX_LEVELS, Ball, Read, alone, ball, dyadic, flint_at, split


def winner(read: Read, candidates: Sequence[tuple[int, Fraction]], *, gumbel: bool) -> int:
    """The number i of the candidate (i, a) with the largest a + E, or a - ln E if gumbel.

    a is its score, E = -ln U. U is word i without its first digit, as in the laws on integers.
    Two sums are equal with probability 0.
    """
    longest = max(abs(score) for _, score in candidates)
    left, spare = list(candidates), 64 + (longest.numerator // longest.denominator).bit_length()
    for level in range(1, MAX_LEVELS):
        words = [split(read(i, level))[1] for i, _ in left]
        with alone, flint_at(spare + words[0].bits):
            ends = [
                _ends(ball(a), word.prefix, word.bits, gumbel=gumbel) for (_, a), word in zip(left, words, strict=True)
            ]
            lead = max((low for low, _ in ends if low is not None), key=lambda low: low.lower(), default=None)
            still = [lead is None or high is None or not (high < lead) for _, high in ends]
        left = [candidate for candidate, stays in zip(left, still, strict=True) if stays]
        if len(left) == 1:
            return left[0][0]
    raise DpfastError("the stream has no more digits for a selection")


def _ends(score: Ball, prefix: int, bits: int, *, gumbel: bool) -> tuple[Ball | None, Ball | None]:
    """The ends of an interval that encloses the noisy score; None for an end at infinity."""
    least = -dyadic(prefix + 1, bits).log() if prefix + 1 < 2**bits else None  # E is at least this, or 0
    most = -dyadic(prefix, bits).log() if prefix else None
    if not gumbel:
        return score if least is None else score + least, None if most is None else score + most
    return None if most is None else score - most.log(), None if least is None else score - least.log()
