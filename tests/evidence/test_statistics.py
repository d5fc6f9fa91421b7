# SPDX-License-Identifier: Apache-2.0
"""P-values and confidence bounds against scipy and rationals; fit tests reject planted defects."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import gof
import numpy as np
import pytest
from flint import arb
from scipy import stats

from dpfast.evidence import statistics
from dpfast.evidence.statistics import Distribution, GoodnessOfFit, binomial_p
from dpfast.privacy.exact import binomial
from dpfast.privacy.exact.binomial import lower_bound, upper_bound


@pytest.mark.parametrize(
    ("statistic", "degrees"),
    [(0.5, 1), (129.0, 128), (300.0, 128), (2000.0, 128), (3.0, 7), (3.0, 1), (130.0, 128), (400.0, 128), (2000.0, 12)],
)
def test_chi_squared_p(statistic: float, degrees: int) -> None:
    right = stats.chi2.sf(statistic, degrees)
    assert statistics.chi_squared_p(statistic, degrees) == pytest.approx(right, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    ("hits", "n", "p"),
    [
        (0, 10, 0.1), (10, 10, 0.9), (2**23 + 9000, 2**24, 0.5), (170, 2**24, 100 / 2**24), (40, 2**24, 100 / 2**24),
        (5, 100, 0.1), (0, 50, 0.01), (50, 50, 0.99), (499_000, 10**6, 0.5),
    ],
)  # fmt: skip
def test_binomial_p(hits: int, n: int, p: float) -> None:
    assert binomial_p(hits, n, p) == pytest.approx(gof.binomial_p(hits, n, p), rel=1e-6)


def test_certain_events() -> None:
    """A probability of 0 or 1 leaves no doubt; what no interval can tell is no pass."""
    assert binomial_p(0, 10, 0.0) == binomial_p(10, 10, 1.0) == 1
    assert binomial_p(1, 10, 0.0) == binomial_p(9, 10, 1.0) == 0
    assert math.isnan(binomial.probability(lambda: arb("nan")))
    assert statistics.normal_p(1e6) < 1e-300


@pytest.mark.parametrize("unknown", ["at_least", "at_most"])
def test_a_tail_that_is_not_known_is_no_pass(monkeypatch, unknown: str) -> None:
    """Python's min would pass it as 1, or as the other tail."""
    monkeypatch.setattr(statistics, unknown, lambda *_: math.nan)
    assert math.isnan(binomial_p(3, 10, 0.5))


# ------------------------------------------------------------------ confidence bounds


@pytest.mark.parametrize(("hits", "n"), [(0, 9), (3, 10), (170, 2**20), (10, 10), (499_000, 10**6)])
def test_an_upper_bound_is_rounded_up(hits: int, n: int) -> None:
    """It is 1 less the lower bound of the misses, exactly or a little more."""
    exact = 1 - Fraction(binomial.lower_bound(n - hits, n, 1e-8))
    assert exact <= Fraction(binomial.upper_bound(hits, n, 1e-8)) or exact >= 1


@pytest.mark.parametrize("alpha", [0.025, 1e-8])
@pytest.mark.parametrize(
    ("hits", "n"),
    [(0, 100), (1, 100), (50, 100), (99, 100), (100, 100), (731_000, 10**6), (3, 10**6), (10**6, 10**6), (1, 1)],
)
def test_clopper_and_pearsons_bounds_against_scipy(hits: int, n: int, alpha: float) -> None:
    """Between scipy's for alpha and those for alpha (1 - 2 WINDOW): on the safe side."""

    def theirs(alpha: float) -> tuple[float, float]:
        low = stats.beta.ppf(alpha, hits, n - hits + 1) if hits else 0.0
        return low, stats.beta.isf(alpha, hits + 1, n - hits) if hits < n else 1.0

    strict, wide = theirs(alpha), theirs(alpha * (1 - 2 * binomial.WINDOW))
    assert wide[0] * (1 - 1e-12) <= lower_bound(hits, n, alpha) <= strict[0] * (1 + 1e-12)
    assert strict[1] * (1 - 1e-12) <= upper_bound(hits, n, alpha) <= wide[1] * (1 + 1e-12)


def safe(lower: Callable[[int, int, float], float]) -> bool:
    """Whether so many hits or more are no likelier than alpha at the bound, exactly, up to 30."""
    for n in (1, 2, 7, 30):
        for hits in range(1, n + 1):
            for alpha in (0.4, 0.025, 1e-7):
                p = Fraction(lower(hits, n, alpha))
                tail = sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(hits, n + 1))
                if not Fraction(alpha) * (1 - Fraction(1, 10**7)) <= tail <= Fraction(alpha):
                    return False
    return True


def test_a_bound_is_never_on_the_wrong_side() -> None:
    """And one that is, by a part in a thousand, or by the arcsine alone, is found out."""
    assert safe(lower_bound)
    assert not safe(lambda hits, n, alpha: lower_bound(hits, n, alpha) * 1.001)
    assert not safe(lambda hits, n, alpha: binomial.near_bound(hits, n, binomial.normal_quantile(alpha)))


# ------------------------------------------------------------------ goodness of fit


def geometric(scale: float) -> Distribution:
    """The discrete Laplace distribution by scipy."""
    law = stats.dlaplace(1 / scale)
    return Distribution(lambda k: np.asarray(law.cdf(k)), 0, law.var(), float(law.moment(4)))


@pytest.mark.parametrize("scale", [0.5, 10, 1e6])
def test_quantiles_are_the_least_that_reach_p(scale: float) -> None:
    expected = geometric(scale)
    p = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
    k = expected.quantiles(p)
    assert (expected.cdf(k) >= p).all()
    assert (expected.cdf(k - 1) < p).all()


N, LEVEL = 400_000, 1e-7
DEFECTS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "shape": lambda x, _: np.where(np.abs(x) == 7, np.sign(x) * 8, x),
    "mean": lambda x, rng: x + (rng.random(N) < 0.3),
    "variance": lambda x, rng: x + rng.integers(-4, 5, N),
    "sign": lambda x, rng: np.where(rng.random(N) < 0.02, -np.abs(x), x),
    "zero": lambda x, rng: np.where((np.abs(x) == 1) & (rng.random(N) < 0.2), 0, x),
    "tails": lambda x, _: np.clip(x, -70, 70),
}


def fitted(draws: np.ndarray) -> dict[str, float]:
    fit = GoodnessOfFit(geometric(10), N, 1000)
    for chunk in np.split(draws.astype(np.float64), 4):
        fit.add(chunk)
    return fit.p_values()


@pytest.mark.parametrize("test", DEFECTS)
def test_each_test_rejects_the_defect_that_it_is_for(test: str) -> None:
    """Draws by NumPy, fixed seed: sound ones pass all six at 1e-7, a defect fails its own."""
    rng = np.random.default_rng(20261122)
    draws = rng.geometric(-math.expm1(-0.1), N) - rng.geometric(-math.expm1(-0.1), N)
    assert min(fitted(draws).values()) > LEVEL
    assert fitted(DEFECTS[test](draws, rng))[test] < LEVEL
    assert set(fitted(draws)) == set(DEFECTS)


def test_noise_that_is_not_a_number_passes_no_moment() -> None:
    """Infinite draws leave neither a mean nor a variance."""
    found = fitted(np.where(np.arange(N) == 5, np.inf, 0.0))
    assert not found["mean"] >= LEVEL
    assert not found["variance"] >= LEVEL
