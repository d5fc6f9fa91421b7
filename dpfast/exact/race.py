# SPDX-License-Identifier: Apache-2.0
"""Which of several handicapped runners is first: each runs with its own U, read as far as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpfast.errors import DpfastError
from dpfast.exact.balls import MAX_LEVELS, Read, alone, ball, dyadic, flint_at, split

if TYPE_CHECKING:
    from flint import arb


def first(read: Read, runners: Sequence[tuple[int, Fraction]], *, gumbel: bool) -> int:
    """The number i of the runner (i, a) with the largest a + E, or a - ln E if gumbel, for E = -ln U, U the word i.

    U is what follows the first digit of the word, as in the laws on integers. Two of them are equal with probability 0.
    """
    longest = max(abs(handicap) for _, handicap in runners)
    left, spare = list(runners), 64 + (longest.numerator // longest.denominator).bit_length()
    for level in range(1, MAX_LEVELS):
        words = [split(read(i, level))[1] for i, _ in left]
        with alone, flint_at(spare + words[0].bits):
            ends = [
                _ends(ball(a), word.prefix, word.bits, gumbel=gumbel) for (_, a), word in zip(left, words, strict=True)
            ]
            lead = max((low for low, _ in ends if low is not None), key=lambda low: low.lower(), default=None)
            still = [lead is None or high is None or not (high < lead) for _, high in ends]
        left = [runner for runner, stays in zip(left, still, strict=True) if stays]
        if len(left) == 1:
            return left[0][0]
    raise DpfastError("the stream has no more digits for a race")


def _ends(handicap: arb, prefix: int, bits: int, *, gumbel: bool) -> tuple[arb | None, arb | None]:
    """Where the runner is, at least and at most; None for an end at infinity."""
    soon = -dyadic(prefix + 1, bits).log() if prefix + 1 < 2**bits else None  # E: at least this, or 0
    late = -dyadic(prefix, bits).log() if prefix else None
    if not gumbel:
        return handicap if soon is None else handicap + soon, None if late is None else handicap + late
    return None if late is None else handicap - late.log(), None if soon is None else handicap - soon.log()
