# SPDX-License-Identifier: Apache-2.0
"""Trees: time and memory of a release with its estimates; errors of ranges beside leaf noise's.

Each has one thread; times are the process's own processor time. Memory is what a run adds to the
peak, beside what a copy of the leaves adds. Errors are of 4,000 random ranges of zeros, all with
one total budget, against the mean error that noise on the leaves alone has: (8/15) sqrt(2 n v/pi)
for n leaves with noise of variance v.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Reference, Row, Run, growth, timed

SIZE, ROUNDS = 10**8, 3
RANGES, LEAVES = 4000, 2**20
ONE = dpfast.Sensitivity(1, 1)
LAWS: dict[str, Any] = {
    "discrete Laplace": (dpfast.DiscreteLaplace(1, ONE), {"epsilon": 1}),
    "discrete Gaussian": (dpfast.DiscreteGaussian.from_zcdp(0.5, ONE), {"rho": 0.5}),
}
ABOUT = "leaves; one thread"


def released(counts: Any, branching: int, **budget: Any) -> dpfast.NoisyTree:
    return dpfast.tree(counts, branching=branching, sensitivity=ONE, threads=1, **budget)


def estimated(*given: Any, **budget: Any) -> Any:
    return released(*given, **budget).estimates[0]


def whole(*given: Any, **budget: Any) -> Any:
    return released(*given, **budget).integers()[0]


def copied(counts: Any) -> Any:
    return counts.copy()


def mean_error(run: Callable[[], Any]) -> tuple[float, object]:
    """A clock of the error of random ranges; of a reference the number that it returns."""
    out = run()
    if not isinstance(out, dpfast.NoisyTree):
        return out, out
    leaves = out.estimates[0]
    begin, end = np.sort(np.random.default_rng().integers(0, leaves.size + 1, (2, RANGES)), axis=0)
    return float(np.abs(out.range_sum(begin, end).value).mean()), leaves


def rows(size: int) -> Iterator[Row]:
    counts = np.random.default_rng(1).poisson(3, size)
    clock = partial(timed, clock=time.process_time)
    for law, (_, budget) in LAWS.items():
        for branching in (16, 8):
            each: Run = partial(estimated, counts, branching, **budget)
            name = f"{law}, branching {branching}"
            against = Reference("a copy", partial(copied, counts), size)
            yield Row(f"{name}: all", each, size, against, unit="leaf", clock=clock, chart=True)
            yield Row(f"{name}: memory", each, size, against, unit="leaf", clock=growth, measures="B", chart=True)
    integers: Run = partial(whole, counts, 16, epsilon=1)
    yield Row("all, and integers", integers, size, unit="leaf", clock=clock, chart=True)
    zeros = np.zeros(LEAVES, np.int64)
    for law, (alone, budget) in LAWS.items():
        flat = 8 / 15 * math.sqrt(2 * zeros.size * alone.variance / math.pi)
        against = Reference("leaf noise", partial(float, flat), 1)
        for branching in (2, 4, 8, 16, 32):
            run: Run = partial(released, zeros, branching, **budget)
            name = f"{law}, branching {branching}: mean error"
            main = branching == 8  # the default
            yield Row(name, run, 1, against, unit="range", clock=mean_error, measures="", chart=main)
