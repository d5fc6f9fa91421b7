# SPDX-License-Identifier: Apache-2.0
"""Draws under fresh keys, against closed forms of each law, at a stated false-alarm rate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, Snapping
from dpfast.evidence.selftest.check import Outcome, Run
from dpfast.evidence.statistics import Distribution, GoodnessOfFit, binomial_p, chi_squared_p, normal_p
from dpfast.privacy.exact.binomial import normal_quantile

Steps = npt.NDArray[np.float64]  # draws: whole numbers; for a real law in steps of the grid

# ------------------------------------------------------------------ p-values


def p_values(run: Run) -> Outcome:
    """P-values against closed forms: sums of rationals, Poisson terms, and printed quantiles."""
    n, wrong = 0, partial(run.expect, otherwise="a p-value is not what it should be")

    def compare(found: float, right: float) -> None:
        nonlocal n
        n += 1
        wrong(math.isclose(run.under_test("p-value", found), right, rel_tol=1e-9))

    for hits, of, p in (
        (30, 60, Fraction(1, 2)),
        (47, 60, Fraction(1, 2)),
        (3, 1000, Fraction(1, 64)),
        (9, 20, Fraction(1, 8)),
    ):
        yes, whole = p.as_integer_ratio()
        terms = [math.comb(of, k) * yes**k * (whole - yes) ** (of - k) for k in range(of + 1)]  # over whole^of
        least = Fraction(min(sum(terms[hits:]), sum(terms[: hits + 1])), whole**of)
        compare(binomial_p(hits, of, float(p)), min(1.0, float(2 * least)))
    for x, half in ((10.0, 3), (250.0, 64), (400.0, 64), (128.0, 64)):  # 2 half degrees: a Poisson sum
        tail = math.exp(-x / 2) * math.fsum((x / 2) ** i / math.factorial(i) for i in range(half))
        compare(chi_squared_p(x, 2 * half), tail)
    for z, tail in ((1.959963984540054, 0.05), (3.2905267314919255, 1e-3), (6.109410204869, 1e-9)):
        compare(normal_p(z), tail)
        compare(chi_squared_p(z * z, 1), tail)
    return run.outcome(f"{n} p-values of chi-squared, normal and binomial distributions, with closed forms")


# ------------------------------------------------------------------ closed forms


def distribution(cdf: Callable[[int], float], mean: float, variance: float, fourth: float) -> Distribution:
    return Distribution(np.vectorize(cdf, otypes=[float]), mean, variance, fourth)


def two_sided(t: float) -> Distribution:
    q, gap = math.exp(-1 / t), -math.expm1(-1 / t)

    def cdf(k: int) -> float:
        tail = math.exp(-(-k if k < 0 else k + 1) / t) / (1 + q)
        return tail if k < 0 else 1 - tail

    return distribution(cdf, 0, 2 * q / gap**2, 2 * q * (1 + 10 * q + q * q) / gap**4)


def one_sided(t: float) -> Distribution:
    q, gap = math.exp(-1 / t), -math.expm1(-1 / t)
    variance = q / gap**2
    return distribution(
        lambda k: -math.expm1(-(k + 1) / t) if k >= 0 else 0.0, q / gap, variance, variance * (9 * variance + 1)
    )


def discrete_gaussian(sigma: float) -> Distribution:
    """Its sums, for a sigma of thousands at most."""
    reach = math.ceil(20 * sigma) + 20
    f = np.exp(-(np.arange(reach + 1.0) ** 2) / (2 * sigma * sigma))
    tails = np.cumsum(f[::-1])[::-1] / (2 * f[::-1].sum() - 1)  # P(X >= k), small terms first

    def cdf(k: int) -> float:
        if k < 0:
            return float(tails[-k]) if -k <= reach else 0.0
        return 1 - float(tails[k + 1]) if k < reach else 1.0

    variance, fourth = (
        2 * float((np.arange(reach + 1.0) ** order * f).sum()) / (2 * f[::-1].sum() - 1) for order in (2, 4)
    )
    return distribution(cdf, 0, variance, fourth)


def rounded(cdf: Callable[[float], float], offset: float, ratio: float, moments: tuple[float, float]) -> Distribution:
    """Offset + ratio X, rounded. moments: X's; on a fine grid Sheppard's correction holds."""
    fine = ratio > 1000

    def upto(k: int) -> float:
        return cdf((k + 0.5 - offset) / ratio)

    if fine:
        variance, fourth = (m * ratio**order for order, m in zip((2, 4), moments, strict=True))
        return distribution(upto, offset, variance + 1 / 12, fourth + variance / 2)
    cells = [(k, upto(k) - upto(k - 1)) for k in range(math.ceil(-60 * ratio), math.ceil(60 * ratio))]
    mean = math.fsum(k * p for k, p in cells)
    variance, fourth = (math.fsum((k - mean) ** order * p for k, p in cells) for order in (2, 4))
    return distribution(upto, mean, variance, fourth)


def laplace(offset: float, ratio: float) -> Distribution:
    return rounded(lambda x: math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2, offset, ratio, (2, 24))


def gaussian(offset: float, ratio: float) -> Distribution:
    return rounded(lambda x: math.erfc(-x / math.sqrt(2)) / 2, offset, ratio, (1, 3))


# ------------------------------------------------------------------ draws


@dataclass(frozen=True)
class Point:
    """A mechanism, the law that its noise must have, and its arguments."""

    mechanism: Any
    form: Distribution
    value: float = 0.0  # the value before noise; for a real law in steps of the grid
    small: bool = False  # calls of 4,000, which take the constant-work path

    def drawn(self, n: int) -> Steps:
        """The noise of releases, each under its own key from the system."""
        size = 4000 if self.small else n
        return np.concatenate([self._noise(size) for _ in range(max(1, n // size))])

    def _noise(self, n: int) -> Steps:
        if isinstance(self.mechanism, OneSidedGeometric):
            return self.mechanism.sample(n).astype(np.float64)
        if isinstance(self.mechanism, (DiscreteLaplace, DiscreteGaussian)):
            counts: Steps = self.mechanism.release(np.full(n, int(self.value))) - int(self.value)
            return counts.astype(np.float64)
        grid = self.mechanism.granularity
        return self.mechanism.release(np.full(n, self.value * grid)) / grid  # type: ignore[no-any-return]


POINTS: dict[str, Callable[[], list[Point]]] = {
    "discrete_laplace": lambda: [
        *(Point(DiscreteLaplace(1, t), two_sided(t), value=7) for t in (1, 10, 1000, 10**6, 2**50)),
        *(Point(DiscreteLaplace(1, t), two_sided(t), small=True) for t in (1, 10**6)),
    ],
    "one_sided_geometric": lambda: [Point(OneSidedGeometric(1, t), one_sided(t)) for t in (2, 1000)],
    "discrete_gaussian": lambda: [
        *(Point(DiscreteGaussian(sigma), discrete_gaussian(sigma), value=7) for sigma in (1, 10, 100, 1000)),
        *(Point(DiscreteGaussian(sigma), discrete_gaussian(sigma), small=True) for sigma in (1, 1000)),
    ],
    "laplace": lambda: [
        *(Point(Laplace(1, 1, granularity=Fraction(1, 2**n)), laplace(0.375, 2.0**n), 0.375) for n in (20, 45)),
        Point(Laplace(1, 1), laplace(0.375, 2.0**20), 0.375, small=True),
    ],
    "snapping": lambda: [Point(Snapping(1, r, bound=2**20), laplace(0.25, r), 0.25) for r in (1.0, 0.75)],
    "gaussian": lambda: [
        *(Point(Gaussian(1, granularity=Fraction(1, 2**n)), gaussian(0.375, 2.0**n), 0.375) for n in (20, 45)),
        Point(Gaussian(1), gaussian(0.375, 2.0**20), 0.375, small=True),
    ],
}  # fmt: skip
HOW_MANY = {name: len(points()) for name, points in POINTS.items()}
TESTS = 6  # tests at each point
SHARE = 9e-7  # false-alarm rate of all laws together
# Shape, mean and variance nearly follow their limit laws: half of SHARE is spent, half is margin.
LEVEL = SHARE / 2 / (TESTS * sum(HOW_MANY.values()))
CHUNK = 2**20  # draws at a time
CHUNKS = 16
LEAST = 1000  # draws expected in a cell: fewer would not follow chi-squared so far out


def least_found(n: int, kurtosis: float = 6, power: float = 0.99) -> float:
    """The relative error of a scale that the variance of n draws shows with probability `power`.

    kurtosis: 6 for a Laplace law, the largest; 3 for a Gaussian law.
    """
    return (normal_quantile(1 - power) + normal_quantile(LEVEL / 2)) * math.sqrt((kurtosis - 1) / n) / 2


def seconds(name: str) -> float:
    """The processor time that one chunk at each point of a law takes here, from a 16th of it."""
    took = 0.0
    for point in POINTS[name]():
        fit, n = GoodnessOfFit(point.form, CHUNK, LEAST), CHUNK // 16
        fit.add(point.drawn(n))  # tables, and memory that the system clears
        began = time.process_time()
        fit.add(point.drawn(n))
        took += 16 * (time.process_time() - began)
    return took


def law(name: str, run: Run) -> Outcome:
    """Test all points of one law."""
    points, chunks = POINTS[name](), run.scaled(CHUNKS)
    for at, point in enumerate(points):
        fit = GoodnessOfFit(point.form, chunks * CHUNK, LEAST)
        for chunk in range(chunks):
            run.step((at + chunk / chunks) / len(points))
            fit.add(run.under_test("draws", point.drawn(CHUNK)))
        for test, p in fit.p_values().items():
            run.expect(p >= LEVEL, f"{point.mechanism!r}: {test} (p = {p:.2g})")
    small = f", {small} of them in calls of 4,000" if (small := sum(point.small for point in points)) else ""
    return run.outcome(f"{chunks * CHUNK:,} draws at each of {len(points)} parameters{small}, {TESTS} tests")
