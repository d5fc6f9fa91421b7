# SPDX-License-Identifier: Apache-2.0
"""Whole batches by 32-bit words are summed at once: a release is what it is if none is."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Sensitivity

BATCH = 512
INTEGERS = "int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8"
ONE = Sensitivity(1, 1)
# By floats and by doubles: the scales at which both begin and end, and one between.
COUNTS = [
    *(DiscreteLaplace(1, scale) for scale in (129, 2**12, 2**12 + 1, 10**6, 2**20)),
    *(DiscreteGaussian(sigma=sigma, sensitivity=ONE) for sigma in (129, 1000, 2**12 + 1, 10**6)),
]
STEP = 2.0**-20  # the granularity of a scale of 1
REALS = [Laplace(1, 1), Gaussian(sigma=1, sensitivity=ONE)]
SIZES = 4096, 8 * BATCH + 1, 40 * BATCH - 1
MANY = 1 << 18


def both(mechanism: Any, values: np.ndarray, **options: Any) -> tuple[np.ndarray, ...]:
    """The bulk release by each instruction set, and that of equal work, which reads both levels."""
    found = []
    with tiers.fixed_stream(), pytest.MonkeyPatch.context() as patch:
        for isa in tiers.ISAS:
            tiers.only_isa(patch, isa)
            found.append(mechanism.release(values, threads=1, **options))
        slow = mechanism.release(values, threads=1, constant_time=True, **options)
    return *found, slow


def assert_equal(found: tuple[np.ndarray, ...]) -> None:
    *fast, slow = found
    for each in fast:
        assert each.dtype == slow.dtype
        assert each.tobytes() == slow.tobytes()


def bounds(dtype: np.dtype) -> list[dict[str, int]]:
    ends = np.iinfo(dtype)
    return [{}, {"lower": 3}, {"upper": 100}, {"lower": int(ends.max) - 5}, {"lower": 5, "upper": 6}]


@pytest.mark.parametrize("mechanism", COUNTS, ids=repr)
@pytest.mark.parametrize("kind", INTEGERS)
def test_counts(mechanism: Any, kind: str) -> None:
    """At and beside both ends of the type, and between."""
    ends, rng = np.iinfo(kind), np.random.default_rng(1)
    for n, limits in zip((*SIZES, BATCH * 9, 5000), bounds(np.dtype(kind)), strict=True):
        values = rng.integers(ends.min, ends.max, n, kind, endpoint=True)
        near = rng.integers(0, 60, n).astype(kind)
        chosen = rng.random(n)
        values[chosen < 0.3] = ends.min + near[chosen < 0.3]
        values[chosen > 0.7] = ends.max - near[chosen > 0.7]
        assert_equal(both(mechanism, values, dtype=kind, **limits))


def steps(rng: np.random.Generator, n: int, below: float) -> np.ndarray:
    """Values in steps, half of them beyond half of `below`, with all digits after the point."""
    return rng.uniform(-below, below, n)


@pytest.mark.parametrize("mechanism", REALS, ids=repr)
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("bits", [20, 40, 41, 53, 70])
def test_reals(mechanism: Any, kind: str, bits: int) -> None:
    """Small; with as many digits before the point as may be; with more, in some batches or all."""
    rng, below = np.random.default_rng(2), 2.0**bits
    for n, options in ((MANY, {}), (SIZES[1], {"lower": -1.0, "upper": 2.5}), (SIZES[0], {"lower": -(2.0**60)})):
        values = (steps(rng, n, below) * STEP).astype(kind)
        values[n // 2 :: 3 * BATCH] *= 2.0**9
        assert_equal(both(mechanism, values, **options))


@pytest.mark.parametrize(("granularity", "seed", "at"), [(2.0**-21, 9, 41_814), (2.0**-20, 32, 60_546)])
def test_a_sum_that_rounding_turns(granularity: float, seed: int, at: int) -> None:
    """One draw in ten million is decided wrongly if y + noise is taken as exact: these two."""
    values = np.random.default_rng(seed).uniform(2.0**39.9, 2.0**40 - 2**27, 1 << 20)[: at + BATCH] * granularity
    with tiers.fixed_stream(bytes([seed]) * 32):
        fast, slow = (
            Laplace(1, 1, granularity=granularity).release(values, threads=1, constant_time=constant_time)
            for constant_time in (False, True)
        )
    assert fast[at] == slow[at]


@pytest.mark.parametrize("law", [Laplace, Gaussian])
@pytest.mark.parametrize("exponent", [-1074, -1030, -149, 80, 85, 88, 900])
def test_grids(law: Any, exponent: int) -> None:
    """Any granularity: sums end where doubles end, or floats."""
    granularity = Fraction(2) ** exponent
    scale = granularity * 2**15
    mechanism = law(1, scale, granularity=granularity) if law is Laplace else law(scale, granularity=granularity)
    for kind, most in (("float64", 1023), ("float32", 127)):
        if kind == "float32" and not -149 <= exponent <= 127:
            continue
        values = np.random.default_rng(3).uniform(-1, 1, SIZES[1])
        assert_equal(both(mechanism, np.ldexp(values, min(exponent + 39, most)).astype(kind)))
