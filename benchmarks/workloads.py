# SPDX-License-Identifier: Apache-2.0
"""Releases of the sizes that people make, each beside NumPy's unsafe noise doing the same.

What is timed is all of a release, from counts that exist to results that do: in chunks where a whole would not fit, so that
memory stays bounded. DPFAST_BENCH_SHARE, a number such as 0.01, makes all of them smaller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import dpfast

Array: TypeAlias = np.ndarray[Any, Any]
Noise: TypeAlias = Callable[[Array, Array], Array]  # of counts, into an array
_rng = np.random.default_rng()


@dataclass(frozen=True)
class Workload:
    name: str
    cells: int
    run: Callable[[], object]
    reference: Callable[[], object]


def share(size: int, unit: int = 1) -> int:
    """So much of a size, in whole units."""
    return max(1, round(float(os.environ.get("DPFAST_BENCH_SHARE", "1")) * size / unit)) * unit


def dpfast_noise(law: Any) -> Noise:
    return lambda counts, out: law.release(counts, out=out)


def unsafe_noise(law: str, scale: float, piece: int = 16_384) -> Noise:
    """The fastest that NumPy does it, as in rows.py."""
    draw = getattr(_rng, law)

    def noise(counts: Array, out: Array) -> Array:
        for begin in range(0, counts.size, piece):
            part = counts[begin : begin + piece]
            out[begin : begin + piece] = part + np.rint(draw(0, scale, part.size)).astype(np.int64)
        return out

    return noise


# -------------------------------------------------------------------- Wikimedia: a day of page views

DAY = 125_000_000  # cells: a page, a project and a country each
DAY_SCALE, KEPT_ABOVE = 30, 450
DAY_CHUNK = 1 << 20


def day_of_views() -> Workload:
    """Nearly all cells are empty; only noisy counts above a threshold are published, with the cells they stand for."""
    cells = share(DAY)
    views = np.zeros(min(cells, DAY_CHUNK), np.int64)  # of one chunk, which stands for all of them
    views[::100] = np.random.default_rng(1).geometric(0.01, views[::100].size)
    out = np.ones_like(views)

    def publish(noise: Noise) -> tuple[Array, Array]:
        kept: list[tuple[Array, Array]] = []
        for begin in range(0, cells, DAY_CHUNK):
            n = min(DAY_CHUNK, cells - begin)
            noisy = noise(views[:n], out[:n])
            at = np.flatnonzero(noisy > KEPT_ABOVE)
            kept.append((at + begin, noisy[at]))
        where, what = zip(*kept, strict=True)
        return np.concatenate(where), np.concatenate(what)

    ours, unsafe = dpfast_noise(dpfast.DiscreteLaplace(1, DAY_SCALE)), unsafe_noise("laplace", DAY_SCALE)
    return Workload("Wikimedia, a day of page views", cells, lambda: publish(ours), lambda: publish(unsafe))


# -------------------------------------------------------------------- a census: every cell of every block

BLOCKS, BLOCK_CELLS, BLOCKS_AT_ONCE = 100_000, 2_603, 1_000  # blocks of a large state
RHO = Fraction(1, 50)  # of the whole block level


def census_blocks() -> Workload:
    """A person is in one cell: moving one changes two. Chunk after chunk, through the same two arrays."""
    blocks = share(BLOCKS, min(BLOCKS_AT_ONCE, share(BLOCKS)))
    rows = min(BLOCKS_AT_ONCE, blocks)
    tabulation = np.random.default_rng(1).poisson(0.02, (rows, BLOCK_CELLS)).astype(np.int64)
    out = np.ones_like(tabulation)
    law = dpfast.DiscreteGaussian.from_zcdp(RHO, dpfast.Sensitivity(1, 1, adjacency="substitution", unit="person"))

    def tabulate(noise: Noise) -> int:
        total = 0
        for _ in range(0, blocks, rows):
            total += int(noise(tabulation.reshape(-1), out.reshape(-1))[0])
        return total

    ours, unsafe = dpfast_noise(law), unsafe_noise("normal", law.stddev)
    return Workload("census, blocks", blocks * BLOCK_CELLS, lambda: tabulate(ours), lambda: tabulate(unsafe))


# -------------------------------------------------------------------- an ads report

KEYS, ADS_SCALE = 1_000_000, 65_536


def ads_report() -> Workload:
    """A budget of 65,536 in L1 over all keys, epsilon 1: the scale of browsers' attribution reports."""
    values = np.random.default_rng(1).integers(0, 1 << 20, share(KEYS))
    out = np.ones_like(values)
    ours, unsafe = dpfast_noise(dpfast.DiscreteLaplace(1, ADS_SCALE)), unsafe_noise("laplace", ADS_SCALE)
    return Workload("ads report", values.size, lambda: ours(values, out), lambda: unsafe(values, out))


# -------------------------------------------------------------------- the sizes of Tumult Core's benchmark

TUMULT = (100, 400, 10_000, 40_000, 160_000, 640_000)  # its benchmark/noise_mechanism.py: zeros, scale 1, sigma 1


def tumult_sizes() -> Iterator[Workload]:
    for size in dict.fromkeys(share(size) for size in TUMULT):
        counts = np.zeros(size, np.int64)
        laws: tuple[tuple[str, Any, Noise], ...] = (
            ("DiscreteLaplace", dpfast.DiscreteLaplace(1, 1), unsafe_noise("laplace", 1)),
            ("DiscreteGaussian", dpfast.DiscreteGaussian(1), unsafe_noise("normal", 1)),
        )
        for law_name, law, unsafe in laws:
            name = f"Tumult's size {size:,}, {law_name}"
            yield Workload(name, size, partial(law.release, counts), partial(into_a_new_array, unsafe, counts))


def into_a_new_array(noise: Noise, counts: Array) -> Array:
    return noise(counts, np.empty_like(counts))


def workloads() -> Iterator[Workload]:
    yield day_of_views()
    yield census_blocks()
    yield ads_report()
    yield from tumult_sizes()
