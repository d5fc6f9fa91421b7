# SPDX-License-Identifier: Apache-2.0
"""Releases of realistic sizes, each beside NumPy's unsafe noise doing the same; all usable threads.

The time is a whole release's, from existing counts to existing results: in chunks if the whole
would not fit, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Reference, Row
from dpfast.evidence.bench.rows import Array, Unsafe

SIZE, ROUNDS = 125_000_000, 5  # cells of a day of page views: a page, a project and a country each
ABOUT = "cells in the largest workload, the others in proportion, on all threads"
Noise: TypeAlias = Callable[[Array, Array], Array]  # from counts to an array

DAY_SCALE, KEPT_ABOVE = 30, 450
DAY_CHUNK = 1 << 20
BLOCKS, BLOCK_CELLS, BLOCKS_AT_ONCE = 100_000, 2_603, 1_000  # blocks of a large state, and cells of each
RHO = Fraction(1, 50)  # for the whole block level
KEYS, ADS_SCALE = 1_000_000, 65_536
TUMULT = (100, 400, 10_000, 40_000, 160_000, 640_000)  # its benchmark/noise_mechanism.py: zeros, scale 1, sigma 1
LONG = 10_000_000  # cells from which one call is a run


def beside(name: str, cells: int, release: Callable[[Noise], object], law: Any, unsafe: str, scale: float) -> Row:
    """A workload with the noise of a law, and with NumPy's."""
    numpy, calls = Unsafe(), max(1, min(1_000, LONG // cells))

    def repeated(noise: Noise) -> object:
        for _ in range(calls - 1):
            release(noise)
        return release(noise)

    ours = partial(repeated, lambda counts, out: law.release(counts, out=out))
    theirs = partial(repeated, lambda counts, out: numpy.chunked(unsafe, counts, out, scale))
    reference = Reference("NumPy's unsafe noise, chunked", theirs, calls * cells)
    return Row(f"{name}: {cells:,} cells", ours, calls * cells, reference, chart=True)


def day_of_views(cells: int) -> Row:
    """Nearly all Wikimedia cells are empty; publish those with noisy counts above a threshold."""
    views = np.zeros(min(cells, DAY_CHUNK), np.int64)  # one chunk, which stands for all
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

    law = dpfast.DiscreteLaplace(1, DAY_SCALE)
    return beside("Wikimedia, a day of page views", cells, publish, law, "laplace", DAY_SCALE)


def census_blocks(blocks: int) -> Row:
    """A person is in one cell: moving one changes two. All chunks go through two arrays."""
    rows = min(BLOCKS_AT_ONCE, blocks)
    blocks = blocks // rows * rows
    tabulation = np.random.default_rng(1).poisson(0.02, (rows, BLOCK_CELLS)).astype(np.int64)
    out = np.ones_like(tabulation)
    law = dpfast.DiscreteGaussian.from_zcdp(RHO, dpfast.Sensitivity(1, 1, adjacency="substitution", unit="person"))

    def tabulate(noise: Noise) -> int:
        return sum(int(noise(tabulation.reshape(-1), out.reshape(-1))[0]) for _ in range(0, blocks, rows))

    return beside("census, blocks", blocks * BLOCK_CELLS, tabulate, law, "normal", law.stddev)


def ads_report(keys: int) -> Row:
    """L1 budget 65,536 over all keys, epsilon 1: the scale of browsers' attribution reports."""
    values = np.random.default_rng(1).integers(0, 1 << 20, keys)
    out = np.ones_like(values)
    law = dpfast.DiscreteLaplace(1, ADS_SCALE)
    return beside("ads report", keys, lambda noise: noise(values, out), law, "laplace", ADS_SCALE)


def tumult(size: int) -> Iterator[Row]:
    """The sizes of Tumult Core's own benchmark, into new arrays."""
    counts = np.zeros(size, np.int64)
    for law, unsafe in ((dpfast.DiscreteLaplace(1, 1), "laplace"), (dpfast.DiscreteGaussian(1), "normal")):
        name = f"Tumult's size, {type(law).__name__}"
        yield beside(name, size, lambda noise: noise(counts, np.empty_like(counts)), law, unsafe, 1)


def rows(size: int) -> Iterator[Row]:
    def share(cells: int) -> int:
        return max(1, round(cells * size / SIZE))

    yield day_of_views(size)
    yield census_blocks(share(BLOCKS))
    yield ads_report(share(KEYS))
    for cells in dict.fromkeys(map(share, TUMULT)):
        yield from tumult(cells)
