# SPDX-License-Identifier: Apache-2.0
"""The goodness-of-fit tests are tested: known p-values, bins, the rate of false alarms."""

from __future__ import annotations

import math
from collections.abc import Callable

import gof
import numpy as np
import pytest
import reference


def test_p_values_are_the_known_ones() -> None:
    """Table values of the chi-squared, normal and binomial laws."""
    assert gof.chi2_p(18.307, 10) == pytest.approx(0.05, abs=1e-5)
    assert gof.normal_p(1.959963985) == pytest.approx(0.05, abs=1e-9)
    assert gof.binomial_p(2, 10, 0.5) == pytest.approx(2 * 56 / 1024)
    assert gof.binomial_p(10, 10, 0.5) == pytest.approx(2 / 1024)


def test_bins_cover_the_line_and_expect_ten() -> None:
    """The masses sum to 1 and none expects fewer than 10 draws."""
    law = reference.DiscreteLaplace(gof_rate := reference.Fraction(1, 10))
    quantile = _quantile(float(gof_rate))
    edges, mass = gof.bins(quantile, law.cdf, 100_000)
    assert len(edges) > 50
    assert sum(mass) == pytest.approx(1, abs=1e-12)
    assert min(mass) * 100_000 >= 10


@pytest.mark.parametrize("width", [1, 100, 2**15, 2**16, 2**17, 2**40, 2**61])
def test_a_tally_is_of_every_draw(width: int) -> None:
    """Edges next to each other and far apart, draws on them, beside them and beyond."""
    rng = np.random.default_rng(width)
    edges = np.unique(rng.integers(-width, width, 100))
    edges = np.unique(np.concatenate([edges, edges[:3] + 1]))
    draws = np.concatenate([rng.integers(-2 * width, 2 * width, 5000), *(edges + near for near in (-1, 0, 1))])
    cells = np.searchsorted(edges, draws, side="left")
    assert gof.tally(draws, edges.tolist()).tolist() == np.bincount(cells, minlength=edges.size + 1).tolist()


@pytest.mark.slow
def test_a_right_sampler_passes_and_p_values_are_level() -> None:
    """None of NumPy's 300 samples of the right law is rejected (false-alarm rate 3e-7 in all)."""
    rng = np.random.default_rng(1)
    rate = 0.3
    law = reference.DiscreteLaplace(reference.Fraction(3, 10))
    for _ in range(300):
        p = 1 - math.exp(-rate)
        draws = rng.geometric(p, 20_000) - rng.geometric(p, 20_000)
        assert gof.rejections(draws, law.cdf, _quantile(rate), law.variance(), law.fourth_moment()) == []


def _quantile(rate: float) -> Callable[[float], int]:
    def quantile(p: float) -> int:
        q = math.exp(-rate)
        side = min(p, 1 - p)
        k = math.floor(-math.log(side * (1 + q)) / rate)
        return k if p >= 0.5 else -k

    return quantile
