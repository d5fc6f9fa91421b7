# SPDX-License-Identifier: Apache-2.0
"""The 100 best of many candidates in one shot, beside a single pick; times are the processor's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Reference, Row, timed

SIZE, ROUNDS = 10_000_000, 7
K = 100
ABOUT = "candidates, scores below 1000, epsilon 1 a pick; processor seconds"


def rows(size: int) -> Iterator[Row]:
    scores: Any = np.random.default_rng(1).integers(0, 1000, size)
    for kind in (dpfast.Exponential, dpfast.PermuteAndFlip, dpfast.NoisyMax):
        for name, values in (("integers", scores), ("doubles", scores.astype(np.float64))):
            mechanism = kind(1, 1)
            yield Row(
                f"{kind.__name__}, the {K} best of {name}",
                partial(mechanism.select, values, k=min(K, size)),
                size,
                against=Reference("one pick", partial(mechanism.select, values), size),
                chart=True,
                clock=partial(timed, clock=time.process_time),
            )
