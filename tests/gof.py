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


def tally(draws: Draws, edges: list[int]) -> npt.NDArray[np.float64]:
    """How many draws are in each cell (-inf, k_1], (k_1, k_2], ..., (k_m, inf) of these edges.

    By steps of a power of two, 2^16 of them at most; one by one in steps that an edge divides.
    """
    ends = np.array(edges)
    size = max(int(ends[-1] - ends[0]).bit_length() - 16, 0)
    first, last = int(ends[0] >> size) - 1, int(ends[-1] >> size) + 1
    steps = draws >> size
    np.clip(steps, first, last, out=steps)
    steps -= first
    divided = np.zeros(last - first + 1, bool)
    divided[(ends >> size) - first] = size > 0
    whole = np.where(divided, 0, np.bincount(steps, minlength=divided.size))
    cells = np.searchsorted(ends >> size, np.arange(first, last + 1))
    found = np.bincount(cells, whole, minlength=ends.size + 1)
    if not size:
        return found
    return found + np.bincount(np.searchsorted(ends, draws[divided[steps]]), minlength=ends.size + 1)


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
    if edges:
        expected = np.array(mass) * n
        test("chi-squared", chi2_p(float(((tally(draws, edges) - expected) ** 2 / expected).sum()), len(mass) - 1))
    real = draws.astype(np.float64)
    test("mean", normal_p(real.mean() / math.sqrt(variance / n)))
    np.square(real, out=real)
    test("variance", normal_p((float(real.mean()) - variance) / math.sqrt((fourth_moment - variance**2) / n)))
    positive, other = np.count_nonzero(draws > 0), np.count_nonzero(draws)
    test("sign", binomial_p(positive, other, 0.5) if other else 1.0)
    test("zero", binomial_p(n - other, n, cdf(0) - cdf(-1)))
    far = quantile(1 - 100 / n)
    test("tail", binomial_p(np.count_nonzero(draws > far) + np.count_nonzero(draws < -far), n, 2 * (1 - cdf(far))))
    return found
