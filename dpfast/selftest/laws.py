# SPDX-License-Identifier: Apache-2.0
"""Draws under fresh keys from the system, against closed forms of each law, at a stated false-alarm rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, Snapping
from dpfast.exact import alone, flint_at
from dpfast.selftest.trial import Outcome, Trial

if TYPE_CHECKING:
    from flint import arb

Steps = npt.NDArray[np.float64]  # draws: whole numbers, of a real law in steps of the grid

# ------------------------------------------------------------------ p-values


def probability(value: Callable[[], arb]) -> float:
    """The upper end of a ball narrow enough; nan where none is."""
    for precision in (128, 512, 2048):
        with alone, flint_at(precision):
            found = value()
            if found.is_finite() and (found.rel_accuracy_bits() > 20 or found < 1e-300):
                return min(1.0, float(found.upper()))
    return math.nan


def chi_squared_p(statistic: float, degrees: int) -> float:
    from flint import arb

    return probability(lambda: (arb(statistic) / 2).gamma_upper(arb(degrees) / 2, 1))


def normal_p(z: float) -> float:
    """Two-sided."""
    from flint import arb

    return probability(lambda: (abs(arb(z)) / arb(2).sqrt()).erfc())  # noqa: PLW0108  at the working precision


def binomial_p(hits: int, n: int, p: float) -> float:
    """Two-sided, exactly: twice the smaller tail."""
    from flint import arb

    if not 0 < p < 1:
        return float(hits == n * p)
    above = 1.0 if hits == 0 else probability(lambda: arb(p).beta_lower(hits, n - hits + 1, 1))
    below = 1.0 if hits == n else probability(lambda: (1 - arb(p)).beta_lower(n - hits, hits + 1, 1))
    return min(1.0, 2 * min(above, below))


def judge(trial: Trial) -> Outcome:
    """Against closed forms: sums of rationals, of Poisson terms, and printed quantiles."""
    n, wrong = 0, partial(trial.expect, otherwise="a p-value is not what it should be")

    def compare(found: float, right: float) -> None:
        nonlocal n
        n += 1
        wrong(math.isclose(trial.under_test("p-value", found), right, rel_tol=1e-9))

    for hits, of, p in (
        (30, 60, Fraction(1, 2)),
        (47, 60, Fraction(1, 2)),
        (3, 1000, Fraction(1, 64)),
        (9, 20, Fraction(1, 8)),
    ):
        terms = [math.comb(of, k) * p**k * (1 - p) ** (of - k) for k in range(of + 1)]
        compare(binomial_p(hits, of, float(p)), min(1.0, float(2 * min(sum(terms[hits:]), sum(terms[: hits + 1])))))
    for x, half in ((10.0, 3), (250.0, 64), (400.0, 64), (128.0, 64)):  # of 2 half degrees: a Poisson sum
        tail = math.exp(-x / 2) * math.fsum((x / 2) ** i / math.factorial(i) for i in range(half))
        compare(chi_squared_p(x, 2 * half), tail)
    for z, tail in ((1.959963984540054, 0.05), (3.2905267314919255, 1e-3), (6.109410204869, 1e-9)):
        compare(normal_p(z), tail)
        compare(chi_squared_p(z * z, 1), tail)
    return trial.outcome(f"{n} p-values of chi-squared, normal and binomial laws, with closed forms")


# ------------------------------------------------------------------ closed forms


@dataclass(frozen=True)
class Form:
    """A law on the whole numbers in doubles, its moments about its mean."""

    cdf: Callable[[int], float]
    mean: float
    variance: float
    fourth: float

    def quantile(self, p: float) -> int:
        """The least k with P(X <= k) >= p."""
        low, high, step = -1, 0, 1
        while self.cdf(low) >= p:
            low, high, step = low - step, low, 2 * step
        while self.cdf(high) < p:
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.cdf(middle) >= p else (middle, high)
        return high


def two_sided(t: float) -> Form:
    q, gap = math.exp(-1 / t), -math.expm1(-1 / t)

    def cdf(k: int) -> float:
        tail = math.exp(-(-k if k < 0 else k + 1) / t) / (1 + q)
        return tail if k < 0 else 1 - tail

    return Form(cdf, 0, 2 * q / gap**2, 2 * q * (1 + 10 * q + q * q) / gap**4)


def one_sided(t: float) -> Form:
    q, gap = math.exp(-1 / t), -math.expm1(-1 / t)
    variance = q / gap**2
    return Form(
        lambda k: -math.expm1(-(k + 1) / t) if k >= 0 else 0.0, q / gap, variance, variance * (9 * variance + 1)
    )


def discrete_gaussian(sigma: float) -> Form:
    """By its sums, for a sigma of thousands at most."""
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
    return Form(cdf, 0, variance, fourth)


def rounded(cdf: Callable[[float], float], offset: float, ratio: float, moments: tuple[float, float]) -> Form:
    """The nearest whole number to offset + ratio X, X of that law and those moments: on a fine grid Sheppard's hold."""
    fine = ratio > 1000

    def upto(k: int) -> float:
        return cdf((k + 0.5 - offset) / ratio)

    if fine:
        variance, fourth = (m * ratio**order for order, m in zip((2, 4), moments, strict=True))
        return Form(upto, offset, variance + 1 / 12, fourth + variance / 2)
    cells = [(k, upto(k) - upto(k - 1)) for k in range(math.ceil(-60 * ratio), math.ceil(60 * ratio))]
    mean = math.fsum(k * p for k, p in cells)
    variance, fourth = (math.fsum((k - mean) ** order * p for k, p in cells) for order in (2, 4))
    return Form(upto, mean, variance, fourth)


def laplace(offset: float, ratio: float) -> Form:
    return rounded(lambda x: math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2, offset, ratio, (2, 24))


def gaussian(offset: float, ratio: float) -> Form:
    return rounded(lambda x: math.erfc(-x / math.sqrt(2)) / 2, offset, ratio, (1, 3))


# ------------------------------------------------------------------ draws


@dataclass(frozen=True)
class Point:
    """A mechanism, the law that its noise must have, and how it is called."""

    mechanism: Any
    form: Form
    value: float = 0.0  # that the noise is added to, of a real law in steps of the grid
    small: bool = False  # in calls of 4,000, which take the path of equal work

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
HOW_MANY = {
    "discrete_laplace": 7,
    "one_sided_geometric": 2,
    "discrete_gaussian": 6,
    "laplace": 3,
    "snapping": 2,
    "gaussian": 3,
}
TESTS = 6  # of one point: chi-squared, mean, variance, sign, zero, tail
SHARE = 9e-7  # of a false alarm, all laws together
# Chi-squared, mean and variance follow their limit laws nearly: half the share is spent, which leaves a factor of two.
LEVEL = SHARE / 2 / (TESTS * sum(HOW_MANY.values()))
CHUNK = 2**20  # draws at a time
CHUNKS = 16
CELLS = 129
LEAST = 1000  # draws expected in a cell: fewer would not follow chi-squared so far out


def least_found(n: int, kurtosis: float = 6, power: float = 0.99) -> float:
    """The share by which a scale must be off for n draws to show it with this probability, by their variance alone.

    kurtosis: 6 of a Laplace law, 3 of a Gaussian one, for which it is less.
    """
    normal = NormalDist()
    return (normal.inv_cdf(power) - normal.inv_cdf(LEVEL / 2)) * math.sqrt((kurtosis - 1) / n) / 2


class Judge:
    """Counts and sums of draws, chunk by chunk, and what is suspicious about them."""

    def __init__(self, form: Form, n: int) -> None:
        self.form, self.wanted = form, n
        self.low, self.high = form.quantile(50 / n) - 1, form.quantile(1 - 50 / n)
        self.edges = self._edges()
        self.cells = np.zeros(len(self.edges) + 1, np.int64)
        self.n = self.positive = self.zero = self.far = 0
        self.first = self.second = 0.0  # moments, in standard deviations

    def _edges(self) -> list[int]:
        """Cells (.., k_1], (k_1, k_2], ... that expect LEAST draws or more."""
        least, last, found = LEAST / self.wanted, 0.0, []
        for k in sorted({self.form.quantile((i + 0.5) / CELLS) for i in range(CELLS)}):
            upto = self.form.cdf(k)
            if upto - last >= least and 1 - upto >= least:
                found.append(k)
                last = upto
        return found

    def add(self, draws: Steps) -> None:
        self.n += draws.size
        at = np.searchsorted(np.array(self.edges, np.float64), draws, side="left")
        self.cells += np.bincount(at, minlength=self.cells.size)
        self.positive += int((draws > 0).sum())
        self.zero += int((draws == 0).sum())
        self.far += int((draws <= self.low).sum() + (draws > self.high).sum())
        standard = (draws - self.form.mean) / math.sqrt(self.form.variance)
        self.first += float(standard.sum())
        self.second += float((standard * standard).sum())

    def suspicions(self) -> list[str]:
        form, n = self.form, self.n
        upto = np.array([0, *map(form.cdf, self.edges), 1])
        expected = np.diff(upto) * n
        statistic = float(((self.cells - expected) ** 2 / expected).sum())
        kurtosis = form.fourth / form.variance**2
        found = {
            "chi-squared": chi_squared_p(statistic, len(self.edges)) if self.edges else 1.0,
            "mean": normal_p(self.first / math.sqrt(n)),
            "variance": normal_p((self.second - n) / math.sqrt(n * (kurtosis - 1))),
            "sign": binomial_p(self.positive, n, 1 - form.cdf(0)),
            "zero": binomial_p(self.zero, n, form.cdf(0) - form.cdf(-1)),
            "tail": binomial_p(self.far, n, form.cdf(self.low) + 1 - form.cdf(self.high)),
        }
        return [f"{name} (p = {p:.2g})" for name, p in found.items() if not p >= LEVEL]


def law(name: str, trial: Trial) -> Outcome:
    """All points of one law."""
    points, chunks = POINTS[name](), trial.scaled(CHUNKS)
    for at, point in enumerate(points):
        found = Judge(point.form, chunks * CHUNK)
        for chunk in range(chunks):
            trial.step((at + chunk / chunks) / len(points))
            found.add(trial.under_test("draws", point.drawn(CHUNK)))
        for suspicion in found.suspicions():
            trial.expect(False, f"{point.mechanism!r}: {suspicion}")
    small = f", {small} of them in calls of 4,000" if (small := sum(point.small for point in points)) else ""
    return trial.outcome(f"{chunks * CHUNK:,} draws at each of {len(points)} parameters{small}, {TESTS} tests")
