# SPDX-License-Identifier: Apache-2.0
"""Goodness of fit with a stated false-alarm rate. Itself tested in test_gof.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

# All tests of one call of `rejections` together (a union bound); twice of it where chi-squared has
# cells of ten draws. A hundred calls in a run of the suite draw from the system's entropy.
ALPHA = 1e-9

Draws = npt.NDArray[np.int64]


def chi2_p(statistic: float, degrees: int) -> float:
    return float(stats.chi2.sf(statistic, degrees))


def normal_p(z: float) -> float:
    """Two-sided."""
    return math.erfc(abs(z) / math.sqrt(2))


def binomial_p(hits: int, n: int, p: float) -> float:
    """Two-sided: twice the smaller tail, exactly."""
    return float(min(1.0, 2 * min(stats.binom.cdf(hits, n, p), stats.binom.sf(hits - 1, n, p))))


def bins(quantile: Callable[[float], int], cdf: Callable[[int], float], n: int) -> tuple[list[int], list[float]]:
    """Edges k_1 < k_2 < ...: cells (-inf, k_1], ..., (k_m, inf), each expecting >= 10 draws."""
    wanted = sorted({quantile((i + 0.5) / 129) for i in range(129)} | {quantile(20 / n), quantile(1 - 20 / n)})
    edges, mass, last = [], [], 0.0
    for k in wanted:
        upto = cdf(k)
        if (upto - last) * n >= 10 and (1 - upto) * n >= 10:
            edges.append(k)
            mass.append(upto - last)
            last = upto
    return edges, [*mass, 1 - last]


def rejections(
    draws: Draws, cdf: Callable[[int], float], quantile: Callable[[float], int], variance: float, fourth_moment: float
) -> list[str]:
    """What is wrong with draws of a law symmetric about 0; each test at ALPHA / 6."""
    n = draws.size
    level = ALPHA / 6
    found = []

    def test(name: str, p: float) -> None:
        if not p >= level:
            found.append(f"{name}: p = {p:.3g}")

    edges, mass = bins(quantile, cdf, n)
    seen = np.bincount(np.searchsorted(np.array(edges), draws, side="left"), minlength=len(mass))
    if edges:
        expected = np.array(mass) * n
        test("chi-squared", chi2_p(float(((seen - expected) ** 2 / expected).sum()), len(mass) - 1))
    real = draws.astype(np.float64)
    test("mean", normal_p(real.mean() / math.sqrt(variance / n)))
    test("variance", normal_p((np.mean(real**2) - variance) / math.sqrt((fourth_moment - variance**2) / n)))
    positive, other = int((draws > 0).sum()), int((draws != 0).sum())
    test("sign", binomial_p(positive, other, 0.5) if other else 1.0)
    test("zero", binomial_p(n - other, n, cdf(0) - cdf(-1)))
    far = quantile(1 - 100 / n)
    test("tail", binomial_p(int((np.abs(real) > far).sum()), n, 2 * (1 - cdf(far))))
    return found
