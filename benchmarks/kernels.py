# SPDX-License-Identifier: Apache-2.0
"""Noise in functions that numba compiles, beside `release`; times are of one thread's processor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numba
import numpy as np

import dpfast
import dpfast.numba
from dpfast.evidence.bench.measure import Reference, Row, timed

SIZE, ROUNDS = 8_000_000, 15
CALLS = 10_000  # with one count each
ABOUT = "counts below 1000 with DiscreteLaplace(1, 10), one thread, processor time"


@numba.njit(nogil=True)
def in_blocks(noise: Any, values: Any, out: Any, block: int) -> Any:
    for at in range(0, values.size, block):
        dpfast.numba.add(noise, values[at : at + block], out[at : at + block])
    return out


@numba.njit(nogil=True)
def one_by_one(noise: Any, values: Any, out: Any) -> Any:
    for i in range(values.size):
        out[i] = dpfast.numba.draw(noise, values[i])
    return out


def rows(size: int) -> Iterator[Row]:
    counts, out, own = np.arange(size) % 1000, np.ones(size, np.int64), np.ones(size, np.int64)
    few, noisy, one = counts[:CALLS].copy(), np.ones(min(size, CALLS), np.int64), np.ones(1, np.int64)
    mechanism = dpfast.DiscreteLaplace(1, 10)
    noise, clock = dpfast.numba.Noise(mechanism), partial(timed, clock=time.thread_time)
    numba.set_num_threads(1)

    def one_after_another() -> object:
        for _ in range(few.size):
            mechanism.release(one)
        return one

    def clipped() -> object:
        np.clip(counts, 0, 500, out=own)
        return mechanism.release(own, out=out, threads=1)

    wide = dpfast.DiscreteGaussian(1000)
    apart = dpfast.numba.Noise(wide)
    release = Reference("release", lambda: mechanism.release(counts, out=out, threads=1), size)
    bounded = Reference("np.clip and release", clipped, size)
    gaussian = Reference("its release", lambda: wide.release(counts, out=out, threads=1), size)
    single = Reference("release of an array of one", one_after_another, few.size)
    for name, run, against in (
        ("add, the whole array", lambda: in_blocks(noise, counts, out, size), release),
        ("add, DiscreteGaussian(1000)", lambda: in_blocks(apart, counts, out, size), gaussian),
        ("add, blocks of 65,536", lambda: in_blocks(noise, counts, out, 65_536), release),
        ("bound_and_add", lambda: dpfast.numba.bound_and_add(noise, counts, 0, 500, out), bounded),
        ("draw, a count at a time", lambda: one_by_one(noise, few, noisy), single),
    ):
        yield Row(name, run, against.counts, against, chart=True, clock=clock)
