# SPDX-License-Identifier: Apache-2.0
"""Rows that need no peer: every law, the key stream, NumPy's unsafe noise, the floors of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import HEAD, Reference, Row, Run
from dpfast.noise.release.engine import usable_threads
from dpfast.privacy.formatting import short

Array: TypeAlias = np.ndarray[Any, Any]

PIECE = 16_384  # counts that chunked NumPy noise takes at a time: 128 KiB, which a cache holds
REFERENCE = 1 << 20  # counts of the reference at most; its time a count does not depend on their number
NUMPY_SCALE = 10  # its time a count does not depend on the scale either
SCALES = (1, 10, 1_000, 1_000_000)
DRAWN = {"DiscreteLaplace": (1, 10, 1_000_000), "DiscreteGaussian": (10,), "Laplace": (10,), "Gaussian": (10,)}
ARRAYS_AS_WRITTEN = 3  # so many exist at once in NumPy's expression
CALLS = 1_000  # calls that a row of small calls times together
KEPT = 100  # results kept for comparison

COUNTS, REALS, SINGLES = ("counts", "other"), ("reals", "noisy"), ("singles", "noisy_singles")  # read, written
MADE: dict[str, Callable[[Arrays], Array]] = {
    "counts": lambda a: np.arange(a.size, dtype=np.int64) % 1_000,
    "other": lambda a: np.ones(a.size, np.int64),
    "own": lambda a: a["counts"].copy(),
    "reals": lambda a: a["counts"] + np.random.default_rng(1).random(a.size),
    "noisy": lambda a: np.ones(a.size),
    "singles": lambda a: a["reals"].astype(np.float32),
    "noisy_singles": lambda a: np.ones(a.size, np.float32),
    "int32": lambda a: a["counts"].astype(np.int32),
    "uint8": lambda a: a["counts"].astype(np.uint8),
    "uint64": lambda a: a["counts"].view(np.uint64),
    "strided": lambda a: np.repeat(a["counts"], 2)[::2],
    "reversed": lambda a: a["counts"][::-1],
    "transposed": lambda a: _turned(a["counts"]),
    "other int32": lambda a: np.ones(a.size, np.int32),
    "other uint8": lambda a: np.ones(a.size, np.uint8),
    "other uint64": lambda a: a["other"].view(np.uint64),
    "other strided": lambda a: np.ones(2 * a.size, np.int64)[::2],
    "other reversed": lambda a: a["other"][::-1],
    "other transposed": lambda a: _turned(a["other"]),
}
NARROW, SPREAD = ("int32", "uint8"), ("strided", "reversed", "transposed")  # each with its "other"


def _turned(array: Array) -> Array:
    return array.reshape(-1, math.gcd(array.size, 5_000)).T


class Arrays(dict[str, Array]):
    """The arrays of the rows. The first use, which is in the untimed round, makes an array."""

    def __init__(self, size: int) -> None:
        self.size: int = size
        self.unsafe = Unsafe()

    def __missing__(self, name: str) -> Array:
        return self.setdefault(name, MADE[name](self))

    def refresh(self) -> None:
        """Restore equal counts before each run in place, so that results can be compared."""
        self["own"][:HEAD] = self["counts"][:HEAD]

    def fresh(self, arrays: int) -> Run:
        """Touch the pages of so many arrays and free them, before a row that makes new arrays.

        A page that was long unused, perhaps taken away by a virtual machine's host, can cost far
        more than one just freed: that is no property of the row.
        """
        return partial(np.ones, arrays * self.size)

    def against(self, given: str, out: str) -> Reference:
        """The reference of `dpfast bench`."""
        size, kind = min(self.size, REFERENCE), "int64" if given == "counts" else "float64"
        name = f"NumPy's unsafe Laplace, {kind}, chunked"
        return Reference(name, lambda: self.unsafe.chunked("laplace", self[given][:size], self[out][:size]), size)


class Unsafe:
    """NumPy's noise: real, rounded for counts. It is never private, whatever the generator."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self.generator = generator or np.random.default_rng()

    def chunked(self, law: str, given: Array, out: Array, scale: float = NUMPY_SCALE) -> Array:
        """NumPy's fastest: pieces that stay in the cache, each stored into an existing array."""
        for begin in range(0, given.size, PIECE):
            out[begin : begin + PIECE] = self.as_written(law, given[begin : begin + PIECE], scale)
        return out

    def as_written(self, law: str, given: Array, scale: float = NUMPY_SCALE) -> Array:
        noise: Array = getattr(self.generator, law)(0, scale, given.size)
        noisy: Array = given + (
            np.rint(noise).astype(np.int64) if given.dtype.kind == "i" else noise.astype(given.dtype, copy=False)
        )
        return noisy


def written(law: str, given: str) -> str:
    """The expression that Unsafe measures."""
    noise = f"rng.{law}(0, {NUMPY_SCALE}, n)"
    return f"counts + np.rint({noise}).astype(np.int64)" if given == "counts" else f"values + {noise}"


def unsafe(a: Arrays, law: str, given: str, out: str | None, scale: float = NUMPY_SCALE) -> Run:
    """NumPy's noise chunked into an array that exists, or as written."""
    if out is None:
        return lambda: a.unsafe.as_written(law, a[given], scale)
    return lambda: a.unsafe.chunked(law, a[given], a[out], scale)


def released(a: Arrays, mechanism: Any, given: str = "counts", out: str = "other", **options: Any) -> Run:
    """A release into an existing array, on one thread by default."""
    options = {"threads": 1, **options}
    return lambda: mechanism.release(a[given], out=a[out], **options)


def copied(a: Arrays, given: str = "counts", out: str = "other") -> Run:
    def run() -> object:
        np.copyto(a[out], a[given])
        return a[out]

    return run


def added(a: Arrays) -> Run:
    return lambda: np.add(a["own"], 1, out=a["own"])


def laws(scale: int) -> Iterator[tuple[str, Any]]:
    """Every mechanism at a scale, or sigma."""
    bound = 1 << scale.bit_length() + 10  # a multiple of Snapping's granularity, as required
    yield f"DiscreteLaplace(1, {scale})", dpfast.DiscreteLaplace(1, scale)
    yield f"DiscreteGaussian({scale})", dpfast.DiscreteGaussian(scale)
    yield f"Laplace(1, {scale})", dpfast.Laplace(1, scale)
    yield f"Gaussian({scale})", dpfast.Gaussian(scale)
    yield f"Snapping(1, {scale}, {bound})", dpfast.Snapping(1, scale, bound=bound)
    yield f"OneSidedGeometric(1, {scale})", dpfast.OneSidedGeometric(1, scale)


def ours(a: Arrays, threads: int, scales: tuple[int, ...] = SCALES) -> Iterator[Row]:
    """Every law into an existing array; the one-sided geometric, no mechanism, into a new one."""
    on = f", {threads} threads" if threads > 1 else ""
    for law_at in zip(*map(laws, scales), strict=True):
        for scale, (made, law) in zip(scales, law_at, strict=True):
            name, new = type(law).__name__, isinstance(law, dpfast.OneSidedGeometric)
            arrays = REALS if isinstance(law, (dpfast.Laplace, dpfast.Gaussian, dpfast.Snapping)) else COUNTS
            parameter = "sigma" if isinstance(law, (dpfast.Gaussian, dpfast.DiscreteGaussian)) else "scale"
            run = partial(law.sample, a.size, threads=threads) if new else released(a, law, *arrays, threads=threads)
            given = "values" if arrays is REALS else "counts"
            called = f".sample({a.size}, {threads=})" if new else f".release({given}, out=other, {threads=})"
            drawn = scale in DRAWN.get(name, ()) if threads == 1 else (name, scale) == ("DiscreteLaplace", 10)
            yield Row(
                f"{name}, {parameter} {short(scale)}{on}", run, a.size, a.against(*arrays), called=made + called,
                threads=threads, chart=drawn, prepare=a.fresh(int(new)),
            )  # fmt: skip


def key_stream(a: Arrays) -> Row:
    """The cipher alone, into an array that exists."""

    def run() -> object:
        dpfast.fill_bytes(a["other"])
        return a["other"]

    name, called = "key stream (ChaCha20), 8 bytes", "dpfast.fill_bytes(other); a count is 8 bytes"
    against = a.against(*COUNTS)
    return Row(name, run, a.size, against, kind="floor", who="dpfast's cipher", called=called, chart=True)


def floors(a: Arrays) -> Iterator[Row]:
    """Lower bounds on the time of a release into another array, or in place."""
    for name, run, called in (
        ("np.copyto", copied(a), "np.copyto(other, counts)"),
        ("in-place add", added(a), "np.add(counts, 1, out=counts)"),
    ):
        yield Row(name, run, a.size, a.against(*COUNTS), kind="floor", who="NumPy", called=called, chart=True)


def numpy_unsafe(a: Arrays) -> Iterator[Row]:
    for law in ("laplace", "normal"):
        for dtype, (given, out) in (("int64", COUNTS), ("float64", REALS)):
            for how, into, counts in (("chunked", out, f"{PIECE} at a time"), ("as written", None, "all at once")):
                name, called = f"NumPy {law}, {dtype}, {how}", f"{written(law, given)}, {counts}"
                run, prepare = unsafe(a, law, given, into), a.fresh(0 if into else ARRAYS_AS_WRITTEN)
                yield Row(
                    name, run, a.size, a.against(given, out), kind="unsafe", who="NumPy", called=called,
                    chart=into is not None, prepare=prepare,
                )  # fmt: skip


def of_this_machine(a: Arrays) -> Iterator[Row]:
    """All rows that need no peer, in the order of the table."""
    yield from ours(a, 1)
    if usable_threads() > 1:
        yield from ours(a, usable_threads())
    yield key_stream(a)
    yield from floors(a)
    yield from numpy_unsafe(a)


def many(bound: Callable[[], Run]) -> Run:
    """Many calls of a function bound to its arrays once; the last results, for comparison."""

    def run() -> object:
        call = bound()
        for _ in range(CALLS - KEPT):
            call()
        return [call() for _ in range(min(KEPT, CALLS))]

    return run


def small_calls(
    a: Arrays, size: int, beside: str, call: Callable[[Array], Run], ours: Callable[[Array], Run] | None = None,
    name: str = "", given: str = "counts", **options: Any,
) -> Row:  # fmt: skip
    """Many calls of few values, beside as many others. ours: by default one mechanism's."""
    release = ours or partial(partial, dpfast.DiscreteLaplace(1, 10).release)
    run, reference = (many(partial(bound, a, given, size, to)) for to in (release, call))
    name = name or ("a call of one count" if size == 1 else f"a call of {size:,} counts")
    return Row(name, run, CALLS, Reference(beside, reference, CALLS), unit="call", **options)


def bound(a: Arrays, given: str, size: int, call: Callable[[Array], Run]) -> Run:
    return call(a[given][:size])
