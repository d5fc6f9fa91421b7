# SPDX-License-Identifier: Apache-2.0
"""The candidates with the largest noisy scores: each reads the digits of its U that it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from dpfast.errors import DpfastError
from dpfast.privacy.exact.balls import MAX_LEVELS, Ball, Read, alone, ball, dyadic, flint_at, split

Candidate: TypeAlias = tuple[int, Fraction]


def winners(read: Read, candidates: Sequence[Candidate], k: int = 1, *, gumbel: bool) -> list[int]:
    """The numbers i of the k candidates (i, a) with the largest a + E, or a - ln E if gumbel.

    They come in their order. a is the score of word i, E = -ln U. U is the word without its first
    digit, as in the laws on integers. Two sums are equal with probability 0.
    """
    longest = max(abs(score) for _, score in candidates)
    spare = 64 + (longest.numerator // longest.denominator).bit_length()
    found: list[int] = []
    waiting = [(1, list(candidates))]  # in their order; whoever is in two of them is surely told apart
    while len(found) < k:
        level, left = waiting.pop()
        if len(left) == 1:
            found.append(left[0][0])
        elif level == MAX_LEVELS:
            raise DpfastError("the stream has no more digits for a selection")
        else:
            waiting += [(level + 1, each) for each in reversed(_apart(read, left, level, spare, gumbel=gumbel))]
    return found


def _apart(
    read: Read, candidates: Sequence[Candidate], level: int, spare: int, *, gumbel: bool
) -> list[list[Candidate]]:
    """The candidates in groups, the best first: all of a group are ahead of all that come after."""
    words = [split(read(i, level))[1] for i, _ in candidates]
    with alone, flint_at(spare + words[0].bits):
        ends = [
            _ends(ball(a), word.prefix, word.bits, gumbel=gumbel)
            for (_, a), word in zip(candidates, words, strict=True)
        ]
        # A loop of flint's own comparisons: each end is one number.
        lows, highs = zip(*((low.lower(), high.upper()) for low, high in ends), strict=True)
        groups: list[list[Candidate]] = []
        floor = None
        for i in sorted(range(len(ends)), key=highs.__getitem__, reverse=True):
            if floor is None or highs[i] < floor:
                groups.append([])
                floor = lows[i]
            groups[-1].append(candidates[i])
            floor = min(floor, lows[i])
    return groups


def _ends(score: Ball, prefix: int, bits: int, *, gumbel: bool) -> tuple[Ball, Ball]:
    """The ends of an interval that encloses the noisy score."""
    least = -dyadic(prefix + 1, bits).log()  # E is at least this: U is below 1
    most = -dyadic(prefix, bits).log() if prefix else ball(math.inf)
    if not gumbel:
        return score + least, score + most
    low = score - most.log() if prefix else ball(-math.inf)
    return low, score - least.log() if prefix + 1 < 2**bits else ball(math.inf)
