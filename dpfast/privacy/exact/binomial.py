# SPDX-License-Identifier: Apache-2.0
"""Binomial tails, and confidence bounds for a probability from counts; both proved.

Randomized response estimates by these bounds, and audits certify by them. Source: Clopper, Pearson
1934.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpfast.privacy.exact.balls import Ball, ball, rounded_up

WINDOW = 1e-8  # largest relative distance of a bound's tail from alpha


def probability(value: Callable[[], Ball]) -> float:
    """A probability to nine digits, not below the truth; nan if no interval tells it."""
    found = rounded_up(value, precision=64, accuracy=32)
    return min(1.0, found) if math.isfinite(found) else math.nan


def at_least(hits: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= hits): a regularised incomplete beta function."""
    if hits <= 0 or p >= 1:
        return 1.0
    return probability(lambda: ball(p).beta_lower(hits, n - hits + 1, 1)) if p > 0 else 0.0


def at_most(hits: int, n: int, p: float) -> float:
    """P(Binomial(n, p) <= hits)."""
    if hits >= n or p <= 0:
        return 1.0
    return probability(lambda: (1 - ball(p)).beta_lower(n - hits, hits + 1, 1)) if p < 1 else 0.0


def normal_quantile(alpha: float) -> float:
    """The z that a normal variable exceeds with probability alpha."""
    from statistics import NormalDist

    return -NormalDist().inv_cdf(alpha)


def near_bound(hits: Any, n: int, z: float) -> Any:
    """Nearly the Clopper-Pearson bound by the arcsine: lower if z > 0, else upper. Takes arrays."""
    rate = _between(hits + (z < 0), 0, n) / n
    return np.sin(_between(np.arcsin(np.sqrt(rate)) - z / (2 * math.sqrt(n)), 0, math.pi / 2)) ** 2


def _between(x: Any, least: float, most: float) -> Any:
    """As np.clip, which takes longer than all else for the small arrays of an audit."""
    return np.minimum(np.maximum(x, least), most)


def _log_tail(hits: int, n: int, p: float) -> float:
    """The logarithm of at_least for p <= hits / n in doubles, from the ratios of its terms."""
    further = np.arange(min(n - hits, 100 + 10 * math.isqrt(n)))
    terms = np.cumprod((n - hits - further) / (hits + 1 + further) * (p / (1 - p)))
    ways = math.lgamma(n + 1) - math.lgamma(hits + 1) - math.lgamma(n - hits + 1)
    return ways + hits * math.log(p) + (n - hits) * math.log1p(-p) + math.log1p(float(terms.sum()))


@lru_cache(maxsize=1024)
def lower_bound(hits: int, n: int, alpha: float) -> float:
    """Clopper, Pearson: a p at which n draws have so many hits or more with probability alpha.

    The probability may be less, by at most WINDOW alpha. Newton's method: the density in ln p,
    p^hits (1 - p)^(n - hits), is log-concave, so the log-probability is concave in ln p: after one
    step each p is below the bound, the safe side, but for rounding. The first steps are in doubles,
    for a proved tail takes a millisecond: mostly one is left, which finds that they ended well.
    """
    if not hits:
        return 0.0
    scale = math.lgamma(hits) + math.lgamma(n - hits + 1) - math.lgamma(n + 1)

    def nearer(p: float, log_tail: float) -> float:
        slope = math.exp(hits * math.log(p) + (n - hits) * math.log1p(-p) - scale - log_tail)
        return min(p * math.exp(min(700.0, (math.log(alpha) - WINDOW / 2 - log_tail) / slope)), math.nextafter(1, 0))

    p = float(near_bound(hits, n, normal_quantile(alpha))) or alpha / n
    for _ in range(3):
        p = nearer(p, _log_tail(hits, n, p)) if 0 < p < hits / n else p
    low, high = 0.0, 1.0
    while low < (p := min(p, math.nextafter(high, 0))):
        tail = at_least(hits, n, p)
        low, high = (p, high) if tail <= alpha else (low, p)
        if alpha * (1 - WINDOW) <= tail <= alpha:
            break
        p = nearer(p, math.log(tail))
    return low


def upper_bound(hits: int, n: int, alpha: float) -> float:
    """The Clopper-Pearson bound from above."""
    return min(1.0, math.nextafter(1 - lower_bound(n - hits, n, alpha), 2))
