# SPDX-License-Identifier: Apache-2.0
"""What noise has by the names of scipy.stats means what it means there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, Snapping

SCALE = 2.5
DISCRETE = {
    "discrete_laplace": (DiscreteLaplace("0.4", 1), stats.dlaplace(1 / SCALE)),
    "one_sided_geometric": (OneSidedGeometric("0.4", 1), stats.geom(-math.expm1(-1 / SCALE), loc=-1)),
}
REAL = {
    "laplace": (Laplace("0.4", 1), stats.laplace(scale=SCALE)),
    "gaussian": (Gaussian(SCALE), stats.norm(scale=SCALE)),
    "a coarse grid": (Gaussian(SCALE, granularity=2), stats.norm(scale=SCALE)),
    "snapping": (Snapping("0.4", 1, bound=2**20), stats.laplace(scale=SCALE)),
}
LEVELS = [0.0, 1e-12, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 2**-40, 1.0]


@pytest.mark.parametrize("name", DISCRETE)
def test_a_law_of_integers_has_the_probabilities_of_scipy(name: str) -> None:
    ours, theirs = DISCRETE[name]
    k = np.array([-40, -3, -1, 0, 1, 2, 7, 40, 80])
    for method in ("pmf", "cdf"):
        assert getattr(ours, method)(k) == pytest.approx(getattr(theirs, method)(k), rel=1e-11), method
    # SciPy's own sf of the discrete Laplace is one less its cdf
    assert ours.sf(k) == pytest.approx(theirs.sf(k), rel=1e-11, abs=1e-15)
    assert ours.ppf(LEVELS).tolist() == theirs.ppf(LEVELS).tolist()
    assert (ours.median(), ours.mean(), ours.var(), ours.std()) == pytest.approx(
        (theirs.median(), theirs.mean(), theirs.var(), theirs.std()), rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("name", REAL)
def test_a_law_on_a_grid_has_the_probabilities_of_scipy_between_its_points(name: str) -> None:
    """A result is at most x if the noise is below x and half a step."""
    ours, theirs = REAL[name]
    step = ours.granularity
    at = np.array([-20, -4, -1, 0, 1, 3, 7, 20]) * step * max(1, round(1 / step))
    assert ours.cdf(at) == pytest.approx(theirs.cdf(at + step / 2), rel=1e-11)
    assert ours.sf(at) == pytest.approx(theirs.sf(at + step / 2), rel=1e-11)
    share = theirs.sf(np.abs(at) - step / 2) - theirs.sf(np.abs(at) + step / 2)
    assert ours.pmf(at) == pytest.approx(share, rel=1e-11 if step > 1 else 1e-6)
    if step < 1:
        assert ours.pmf(at) / step == pytest.approx(theirs.pdf(at), rel=1e-5)
    assert np.abs(ours.ppf(LEVELS[1:-1]) - theirs.ppf(LEVELS[1:-1])).max() <= step / 2 * (1 + 1e-3)
    assert ours.median() == theirs.median() == 0
    assert ours.var() == pytest.approx(theirs.var() + step**2 / 12, rel=0.03 if step > 1 else 1e-9)


def test_the_median_is_the_least_with_half_of_the_weight() -> None:
    for scale in (0.01, 1.4, 1.5, 30, 10**9):
        noise: Any = OneSidedGeometric(1, scale)
        k = int(noise.median())
        assert noise.cdf(k) >= 0.5
        assert k == 0 or noise.cdf(k - 1) < 0.5
    for law, _ in (*DISCRETE.values(), *REAL.values(), (DiscreteGaussian(3), None)):
        assert isinstance(law.median(), float)
        assert law.median() == law.ppf(0.5)


def test_nothing_here_has_a_density() -> None:
    """Results lie on a grid. Python's message names pmf."""
    for law, _ in (*DISCRETE.values(), *REAL.values()):
        assert not hasattr(law, "pdf")
