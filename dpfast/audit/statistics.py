# SPDX-License-Identifier: Apache-2.0
"""Binomial bounds, tails, and the epsilon that two probabilities certify."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

from dpfast import exact

POWER = 0.9  # with which an audit finds what it says it could have found


def lower(hits: int, n: int, alpha: float) -> float:
    """Clopper-Pearson: the p at which so many hits of n or more have probability alpha, 0.97 alpha or a little more."""
    if not hits:
        return 0.0
    if hits == n:
        return math.nextafter(alpha ** (1 / n), 0)
    low, high, z = 0.0, hits / n, quantile(0.985 * alpha)
    p = near(hits, n, z)
    while high - low > 1e-14 * high:
        if not low < p < high:
            p = (low + high) / 2
        tail = at_least(hits, n, p)
        low, high = (p, high) if tail <= alpha else (low, p)
        if 0.97 * alpha <= tail <= alpha:
            break
        angle = math.asin(math.sqrt(p)) + (quantile(min(max(tail, 1e-300), 0.999)) - z) / (2 * math.sqrt(n))
        p = math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2
    return low


def upper(hits: int, n: int, alpha: float) -> float:
    """The same from above, rounded up."""
    return 1 - lower(n - hits, n, alpha)


def near(hits: float, n: int, z: float) -> float:
    """Nearly the bound of so many hits: lower for z > 0, upper for z < 0."""
    rate = min(1.0, max(0.0, hits + (z < 0)) / n)
    angle = math.asin(math.sqrt(rate)) - z / (2 * math.sqrt(n))
    return math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2


def binomial_p(hits: int, n: int, p: float) -> float:
    """Two-sided: twice the smaller tail."""
    return min(1.0, 2 * min(at_least(hits, n, p), at_least(n - hits, n, 1 - p)))


def chi2_p(statistic: float, degrees: int) -> float:
    """P(chi-squared > statistic)."""
    from flint import arb

    return _certain(lambda: arb(statistic / 2).gamma_upper(arb(degrees) / 2, 1))


def at_least(hits: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= hits): a regularised incomplete beta function."""
    from flint import arb

    if hits <= 0 or p >= 1:
        return 1.0
    return _certain(lambda: arb(p).beta_lower(hits, n - hits + 1, 1)) if p > 0 else 0.0


def _certain(value: Callable[[], Any]) -> float:
    """A function of flint to some nine digits, not below the truth."""
    precision = 53
    while True:
        with exact.alone, exact.flint_at(precision):
            found = value()
            if found.rel_accuracy_bits() >= 30 or (precision >= 4096 and found.is_finite()):
                return min(1.0, float(found.upper()))
        if precision >= 4096:
            return 1.0
        precision *= 2


def quantile(alpha: float) -> float:
    return -NormalDist().inv_cdf(alpha)


def least_epsilon(p: float, other: float, steps: int, delta: float) -> float:
    """The least epsilon with p <= e^(steps epsilon) other + the delta of so many steps; rounded down."""

    def allowed(epsilon: float) -> float:
        deltas = steps if epsilon == 0 else math.expm1(steps * epsilon) / math.expm1(epsilon)
        return math.exp(steps * epsilon) * other + deltas * delta

    low, high = 0.0, 700 / steps
    if p <= allowed(low):
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p > allowed(middle) else (low, middle)
    return low
