# SPDX-License-Identifier: Apache-2.0
"""What is measured without any peer: every law, the key stream, NumPy's unsafe noise, and the floors of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import dpfast
from dpfast.bench.measure import Reference, Row, Run
from dpfast.release.engine import usable_threads

Array: TypeAlias = np.ndarray[Any, Any]
Noise: TypeAlias = Callable[..., Array]

PIECE = 16_384  # counts that NumPy's noise takes at a time where it is "chunked": 128 KiB, which a cache holds
REFERENCE = 1 << 20  # counts of the reference at most: what it takes a count does not depend on that
NUMPY_SCALE = 10  # nor on this
SCALES = (1, 10, 1_000, 1_000_000)
DRAWN = {
    "DiscreteLaplace": (1, 10, 1_000_000),
    "DiscreteGaussian": (10,),
    "Laplace": (10,),
    "Gaussian": (10,),
}  # one thread
ARRAYS_AS_WRITTEN = 3  # that exist at once in NumPy's expression
CALLS = 1_000  # calls that a row of small calls times together


class Arrays:
    """What the rows read and write, every page touched before it is timed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.counts: Array = np.arange(size, dtype=np.int64) % 1_000
        self.other: Array = np.ones(size, np.int64)
        self.own: Array = self.counts.copy()
        self.reals: Array = self.counts + np.random.default_rng(1).random(size)
        self.noisy: Array = np.ones(size)
        self.unsafe = Unsafe()
        self.against_counts = self.reference(self.counts, self.other)
        self.against_reals = self.reference(self.reals, self.noisy)

    def reference(self, given: Array, out: Array) -> Reference:
        run = partial(self.unsafe.chunked, "laplace", given[:REFERENCE], out[:REFERENCE])
        kind = "int64" if given.dtype.kind == "i" else "float64"
        return Reference(f"NumPy's unsafe Laplace, {kind}, chunked", run, min(self.size, REFERENCE))


class Unsafe:
    """NumPy's noise: real noise, rounded where counts are noised. With any generator, and never private."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self.generator = generator or np.random.default_rng()

    def chunked(self, law: str, given: Array, out: Array) -> Array:
        """The fastest that NumPy does it: in pieces that stay in the cache, each stored into an array that exists."""
        for begin in range(0, given.size, PIECE):
            out[begin : begin + PIECE] = self.as_written(law, given[begin : begin + PIECE])
        return out

    def as_written(self, law: str, given: Array) -> Array:
        noise: Array = getattr(self.generator, law)(0, NUMPY_SCALE, given.size)
        noisy: Array = given + (np.rint(noise).astype(np.int64) if given.dtype.kind == "i" else noise)
        return noisy


def written(law: str, dtype: str) -> str:
    """The expression that Unsafe stands for."""
    noise = f"rng.{law}(0, {NUMPY_SCALE}, n)"
    return f"counts + np.rint({noise}).astype(np.int64)" if dtype == "int64" else f"values + {noise}"


def laws(scale: int) -> Iterator[tuple[str, Any]]:
    """Every mechanism at a scale, or sigma."""
    yield f"DiscreteLaplace(1, {scale})", dpfast.DiscreteLaplace(1, scale)
    yield f"DiscreteGaussian({scale})", dpfast.DiscreteGaussian(scale)
    yield f"Laplace(1, {scale})", dpfast.Laplace(1, scale)
    yield f"Gaussian({scale})", dpfast.Gaussian(scale)
    bound = 1 << scale.bit_length() + 10  # a multiple of its granularity, as it must be
    yield f"Snapping(1, {scale}, {bound})", dpfast.Snapping(1, scale, bound=bound)
    yield f"OneSidedGeometric(1, {scale})", dpfast.OneSidedGeometric(1, scale)


def ours(a: Arrays, threads: int, scales: tuple[int, ...] = SCALES) -> Iterator[Row]:
    """Every law into an array that exists; the one-sided geometric law, which is no mechanism, into a new one."""
    for law_at in zip(*(laws(scale) for scale in scales), strict=True):
        for scale, (made, law) in zip(scales, law_at, strict=True):
            name = type(law).__name__
            real = isinstance(law, (dpfast.Laplace, dpfast.Gaussian, dpfast.Snapping))
            parameter = "sigma" if isinstance(law, (dpfast.Gaussian, dpfast.DiscreteGaussian)) else "scale"
            run: Run
            if isinstance(law, dpfast.OneSidedGeometric):
                run, called = partial(law.sample, a.size, threads=threads), f"{made}.sample({a.size}, {threads=})"
            else:
                given, out = (a.reals, a.noisy) if real else (a.counts, a.other)
                run = partial(law.release, given, out=out, threads=threads)
                called = f"{made}.release({'values' if real else 'counts'}, out=other, {threads=})"
            yield Row(
                f"{name}, {parameter} {short(scale)}" + (f", {threads} threads" if threads > 1 else ""),
                "safe",
                "dpfast",
                a.size,
                run,
                called,
                a.against_reals if real else a.against_counts,
                threads,
                chart=scale in DRAWN.get(name, ()) if threads == 1 else (name, scale) == ("DiscreteLaplace", 10),
                fresh=int(isinstance(law, dpfast.OneSidedGeometric)),
            )


def key_stream(a: Arrays) -> Row:
    """The cipher alone, into an array that exists."""

    def run() -> object:
        dpfast.fill_bytes(a.other)
        return a.other

    name = "key stream (ChaCha20), 8 bytes"
    called = "dpfast.fill_bytes(other); a count is 8 bytes"
    return Row(name, "floor", "dpfast's cipher", a.size, run, called, a.against_counts, chart=True)


def floors(a: Arrays) -> Iterator[Row]:
    """What no release into another array, or in place, can go below."""

    def copyto() -> object:
        np.copyto(a.other, a.counts)
        return a.other

    def add_one() -> object:
        return np.add(a.own, 1, out=a.own)

    against = a.against_counts
    yield Row("np.copyto", "floor", "NumPy", a.size, copyto, "np.copyto(other, counts)", against, chart=True)
    yield Row("in-place add", "floor", "NumPy", a.size, add_one, "np.add(counts, 1, out=counts)", against, chart=True)


def numpy_unsafe(a: Arrays) -> Iterator[Row]:
    for law in ("laplace", "normal"):
        for dtype, given, out, against in (
            ("int64", a.counts, a.other, a.against_counts),
            ("float64", a.reals, a.noisy, a.against_reals),
        ):
            for how in ("chunked", "as written"):
                run = partial(a.unsafe.chunked, law, given, out)
                if how == "as written":
                    run = partial(a.unsafe.as_written, law, given)
                called = f"{written(law, dtype)}, {f'{PIECE} at a time' if how == 'chunked' else 'all at once'}"
                name = f"NumPy {law}, {dtype}, {how}"
                fresh = 0 if how == "chunked" else ARRAYS_AS_WRITTEN
                yield Row(name, "unsafe", "NumPy", a.size, run, called, against, chart=how == "chunked", fresh=fresh)


def of_this_machine(a: Arrays) -> Iterator[Row]:
    """All rows that need no peer, in the order of the table."""
    yield from ours(a, 1)
    if usable_threads() > 1:
        yield from ours(a, usable_threads())
    yield key_stream(a)
    yield from floors(a)
    yield from numpy_unsafe(a)


def small_calls(a: Arrays, size: int) -> Row:
    """Many calls of few counts, beside as many of NumPy's expression."""
    law, counts, unsafe = dpfast.DiscreteLaplace(1, 10), a.counts[:size], a.unsafe

    def run() -> object:
        for _ in range(CALLS - 1):
            law.release(counts)
        return law.release(counts)

    def reference() -> object:
        for _ in range(CALLS - 1):
            unsafe.as_written("laplace", counts)
        return unsafe.as_written("laplace", counts)

    total = counts.size * CALLS
    against = Reference("NumPy's unsafe Laplace, int64, as many calls", reference, total)
    name = "a call of one count" if size == 1 else f"a call of {size:,} counts"
    return Row(name, "safe", "dpfast", total, run, "DiscreteLaplace(1, 10).release(counts)", against)


def short(scale: float) -> str:
    """1, 10, 1e3, 1e6."""
    return f"{scale:g}" if scale < 1_000 else f"{scale:.0e}".replace("e+0", "e")
