# SPDX-License-Identifier: Apache-2.0
"""Certified p-values, and tests of draws against a distribution.

`audit` and `selftest` test by these. tests/gof.py is a second opinion by scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast.privacy.exact import ball
from dpfast.privacy.exact.binomial import at_least, at_most, probability

CELLS = 129  # chi-squared cells, equally likely if a discrete distribution allows it
FAR = 50  # expected draws beyond each end in the test of the tails

# ------------------------------------------------------------------ p-values


def chi_squared_p(statistic: float, degrees: int) -> float:
    """P(chi-squared > statistic)."""
    return probability(lambda: (ball(statistic) / 2).gamma_upper(ball(degrees) / 2, 1))


def normal_p(z: float) -> float:
    """P(|normal| > |z|)."""
    return probability(lambda: (abs(ball(z)) / ball(2).sqrt()).erfc())  # noqa: PLW0108  at the working precision


def binomial_p(hits: int, n: int, p: float) -> float:
    """Two-sided: twice the smaller tail; nan if one is unknown, which np.minimum passes on."""
    return float(np.minimum(1.0, 2 * np.minimum(at_least(hits, n, p), at_most(hits, n, p))))


# ------------------------------------------------------------------ independence


def rank_correlation(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Spearman's rho; equal values share a rank, and rho is 0 if all of one side are equal.

    If chance alone orders one side, rho times the square root of n - 1 has variance 1 and is nearly
    normal.
    """
    a, b = ranked(x), ranked(y)
    spread = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / spread if spread else 0.0


def ranked(x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Ranks about their mean."""
    _, at, times = np.unique(np.asarray(x), return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(times) - times / 2 - at.size / 2)[at]
    return ranks


# ------------------------------------------------------------------ goodness of fit


@dataclass(frozen=True)
class Distribution:
    """A distribution on the whole numbers, and its moments about its mean.

    cdf: P(X <= k) of an int64 array. skewness: (X - mean)^2's; it corrects variances of few draws.
    """

    cdf: Callable[[Any], npt.NDArray[np.float64]]
    mean: float
    variance: float
    fourth: float
    skewness: float = 0.0

    def quantiles(self, wanted: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The least k with P(X <= k) >= p for each p, at most 60 standard deviations away."""
        p = np.asarray(wanted, np.float64)
        reach = 60 * math.ceil(math.sqrt(self.variance) + 1)
        low, high = (np.full(p.shape, math.floor(self.mean) + end, np.int64) for end in (-reach, reach))
        while (high - low > 1).any():
            middle = (low + high) // 2
            short = self.cdf(middle) < p
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return high


class GoodnessOfFit:
    """Draws, chunk by chunk, against a distribution: six tests.

    n: all draws. least: how many each chi-squared cell expects. whole: False if draws, such as
    floating-point noise, need not be whole; 0 may then be rarer than the distribution says.
    """

    def __init__(self, expected: Distribution, n: int, least: int, *, whole: bool = True) -> None:
        self.expected, self.whole = expected, whole
        wanted = [FAR / n, *((i + 0.5) / CELLS for i in range(CELLS)), 1 - FAR / n]
        ends = expected.quantiles(wanted)
        self.low, self.high = int(ends[0]) - 1, int(ends[-1])
        edges, mass, last, values = [], [], 0.0, np.unique(ends)
        for edge, upto in zip(values, expected.cdf(values), strict=True):
            if min(upto - last, 1 - upto) * n >= 0.99 * least:  # as FAR / n may be, rounded
                edges.append(edge)
                mass.append(upto - last)
                last = upto
        self.edges, self.mass = np.array(edges, np.float64), np.array([*mass, 1 - last])
        self.seen = np.zeros(self.mass.size, np.int64)
        self.n = self.positive = self.zero = self.far = 0
        self.first = self.second = 0.0  # moments, in standard deviations

    def add(self, draws: npt.NDArray[np.float64]) -> None:
        """Cells are (-inf, edges[0]], (edges[0], edges[1]], ..."""
        self.n += draws.size
        self.seen += np.bincount(np.searchsorted(self.edges, draws, side="left"), minlength=self.seen.size)
        self.positive += int((draws > 0).sum())
        self.zero += int((draws == 0).sum())
        self.far += int((draws <= self.low).sum() + (draws > self.high).sum())
        with np.errstate(over="ignore", invalid="ignore"):
            standard = (draws - self.expected.mean) / math.sqrt(self.expected.variance)
            self.first += float(standard.sum())
            self.second += float((standard * standard).sum())

    @property
    def chi_squared(self) -> float:
        due = self.mass * self.n
        return float(((self.seen - due) ** 2 / due).sum())

    @property
    def chances(self) -> tuple[float, float, float]:
        """The probabilities of a draw above 0, of 0, and of one in the tails."""
        below, upto, low, high = self.expected.cdf(np.array([-1, 0, self.low, self.high])).tolist()
        return 1 - upto, upto - below, low + 1 - high

    def p_values(self) -> dict[str, float]:
        """The p-values: chi-squared, mean and variance need many draws; the others are exact."""
        n, (positive, zero, far) = self.n, self.chances
        kurtosis = self.expected.fourth / self.expected.variance**2
        z = (self.second - n) / math.sqrt(max(n * (kurtosis - 1), 1e-300))
        # The first term of large deviations: the normal tail understates a mean of squares.
        more = self.expected.skewness * min(abs(z), 1e50) ** 3 / (6 * math.sqrt(n))
        nonzero = n - self.zero
        return {
            "shape": chi_squared_p(self.chi_squared, self.edges.size) if self.edges.size else 1.0,
            "mean": normal_p(self.first / math.sqrt(n)),
            "variance": float(np.minimum(1.0, normal_p(z) * math.exp(min(700.0, more)))),
            "sign": binomial_p(self.positive, nonzero, positive / (1 - zero)) if nonzero else 1.0,
            "zero": binomial_p(self.zero, n, zero) if self.whole else at_least(self.zero, n, zero),
            "tails": binomial_p(self.far, n, far),
        }
