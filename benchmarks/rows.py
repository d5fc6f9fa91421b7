# SPDX-License-Identifier: Apache-2.0
"""What is measured: every row, and the reference that it is timed beside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Literal, TypeAlias
from unittest import mock

import numpy as np

import dpfast
from dpfast import _native

PIECE = 16_384  # counts that NumPy's noise takes at a time where it is "chunked": 128 KiB, which a cache holds
HEAD = 1_000  # results that are compared between two timed calls
CALLS = 1_000  # calls that a row of small calls times together
SCALES = {name: int(float(name)) for name in ("1", "100", "1e3", "1e6", "1e9", "1e12", "1e15")} | {"2^60": 2**60}

Array: TypeAlias = np.ndarray[Any, Any]


class Arrays:
    """What the rows read and write, every page touched before it is timed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.counts = np.arange(size, dtype=np.int64) % 1_000
        self.other = np.ones(size, np.int64)

    @cached_property
    def own(self) -> Array:
        return self.counts.copy()

    @cached_property
    def strided(self) -> Array:
        pairs: Array = np.repeat(self.counts, 2)
        return pairs[::2]

    @cached_property
    def int32(self) -> Array:
        return self.counts.astype(np.int32)

    @cached_property
    def reals(self) -> Array:
        return self.counts + np.random.default_rng(1).random(self.size)

    @cached_property
    def noisy(self) -> Array:
        return np.ones(self.size)

    @cached_property
    def singles(self) -> Array:
        return self.reals.astype(np.float32)

    @cached_property
    def noisy_singles(self) -> Array:
        return np.ones(self.size, np.float32)

    @property
    def uint64(self) -> Array:
        return self.counts.view(np.uint64)

    def refresh(self) -> None:
        """Where a row works in place: the same counts before every timed call, so that results can be compared."""
        self.own[:HEAD] = self.counts[:HEAD]


Run: TypeAlias = Callable[[Arrays], Array]
Kind = Literal["x", "x faster", "ns", "us", "s", "MiB"]


@dataclass(frozen=True)
class Bound:
    """x, x faster: of the ratio to the reference. ns a count, us a call, s, MiB: of the figure itself."""

    kind: Kind
    must: float | None = None
    aim: float | None = None

    def verdict(self, value: float) -> str:
        """Which of the two limits a figure keeps."""

        def kept(limit: float) -> bool:
            return value >= limit if self.kind == "x faster" else value <= limit

        if self.must is None:
            return ""
        if not kept(self.must):
            return "MISSED"
        return "aim" if self.aim is not None and kept(self.aim) else "must"

    def show(self, limit: float | None) -> str:
        return "" if limit is None else f"{limit:g} {self.kind}"


@dataclass(frozen=True)
class Row:
    """One thing that dpfast does, and what it is measured against."""

    name: str
    run: Run
    reference: str
    against: Run
    bound: Bound = Bound("x")
    readme: bool = False
    call: int | None = None  # counts a call, in a row of CALLS small calls
    repeats: bool = False  # no noise in it, so results may be equal


# -------------------------------------------------------------------- references


def copyto(a: Arrays) -> Array:
    np.copyto(a.other, a.counts)
    return a.other


def copyto_from(source: str) -> Run:
    def run(a: Arrays) -> Array:
        np.copyto(a.other, getattr(a, source), casting="unsafe")  # as uint64 to int64 needs
        return a.other

    return run


def add_one(a: Arrays) -> Array:
    np.add(a.own, 1, out=a.own)
    return a.own


_rng = np.random.default_rng()


def numpy_as_written(a: Arrays) -> Array:
    counts, rng, n = a.counts, _rng, a.size
    return counts + np.rint(rng.laplace(0, 10, n)).astype(np.int64)


def numpy_chunked(a: Arrays) -> Array:
    rng = _rng
    for begin in range(0, a.size, PIECE):
        counts = a.counts[begin : begin + PIECE]
        a.other[begin : begin + PIECE] = counts + np.rint(rng.laplace(0, 10, counts.size)).astype(np.int64)
    return a.other


def unsafe(law: str, scale: float, source: str, target: str, *, piece: int | None = PIECE) -> Run:
    """NumPy's noise of a real law added to real values, or rounded and added to counts; piece by piece, or all at once."""

    def run(a: Arrays) -> Array:
        given, made, draw = getattr(a, source), getattr(a, target), getattr(_rng, law)
        for begin in range(0, a.size, piece or a.size):
            x = given[begin : begin + (piece or a.size)]
            noise = draw(0, scale, x.size)
            noisy = x + (np.rint(noise).astype(np.int64) if x.dtype.kind == "i" else noise.astype(x.dtype, copy=False))
            if piece is None:
                return noisy
            made[begin : begin + piece] = noisy
        return made

    return run


def clipped_sum(a: Arrays) -> Array:
    return np.clip(a.reals, 0, 500).sum(keepdims=True)


def copyto_calls(size: int) -> Run:
    def run(a: Arrays) -> Array:
        counts, other = a.counts[:size], a.other[:size]
        for _ in range(CALLS):
            np.copyto(other, counts)
        return other

    return run


# -------------------------------------------------------------------- dpfast


@cache
def mechanism(scale: int) -> dpfast.DiscreteLaplace:
    return dpfast.DiscreteLaplace(epsilon=1, sensitivity=scale)


def into(scale: int = 10, source: str = "counts", **options: Any) -> Run:
    """release(counts, out=other), on one thread unless told otherwise."""
    mech, options = mechanism(scale), {"threads": 1, **options}

    def run(a: Arrays) -> Array:
        return mech.release(getattr(a, source), out=a.other, **options)

    return run


def in_place(a: Arrays) -> Array:
    return mechanism(10).release(a.own, out=a.own, threads=1)


_labels = itertools.count()
_master = dpfast.Key.generate()


def keyed(a: Arrays) -> Array:
    key = _master.derive(f"benchmark {next(_labels)}")
    return mechanism(10).release(a.counts, out=a.other, threads=1, key=key, start=0)


def calls(size: int) -> Run:
    mech = mechanism(10)

    def run(a: Arrays) -> Array:
        counts = a.counts[:size]
        for _ in range(CALLS - 1):
            mech.release(counts)
        return mech.release(counts)

    return run


def others() -> list[int]:
    """The instruction sets of this machine but the preferred one."""
    return [isa for isa in reversed(_native.ISAS) if isa != _native.best_isa()]


def forced(isa: int, run: Run) -> Run:
    """On an instruction set that the machine does not prefer, which must reproduce its known answers first."""

    def narrower(a: Arrays) -> Array:
        with mock.patch.object(_native, "best_isa", partial(_native.checked, isa)):
            return run(a)

    return narrower


def released(mech: Any, source: str, target: str, **options: Any) -> Run:
    options = {"threads": 1, **options}

    def run(a: Arrays) -> Array:
        return mech.release(getattr(a, source), out=getattr(a, target), **options)

    return run


def fixed_point(a: Arrays) -> Array:
    return np.array([dpfast.fixed_point_sum(a.reals, 0, 500, 2**-20, adjacency="add-remove")[0]])


def laws() -> Iterator[Row]:
    """The other laws, beside the unsafe noise that they replace. Into another array, one thread, scale or sigma 1 and the
    granularity that comes of itself, where a row's name says nothing else."""
    chunked, written = "NumPy's unsafe noise, chunked", "NumPy's unsafe noise, as written"
    real, single, count = ("reals", "noisy"), ("singles", "noisy_singles"), ("counts", "other")
    table = [
        ("Laplace, float64", dpfast.Laplace(1, 1), "laplace", 1, real, Bound("x faster", 4.5, 8)),
        ("Laplace, float32", dpfast.Laplace(1, 1), "laplace", 1, single, Bound("x faster", 4, 6)),
        ("Gaussian", dpfast.Gaussian(1), "normal", 1, real, Bound("x faster", 2.5, 4.5)),
    ]
    for sigma, must, aim in ((0.5, 5, 8), (10, 5, 8), (1e3, 2.5, 4.5), (1e6, 2.5, 4.5)):
        law = dpfast.DiscreteGaussian(sigma)
        table.append((f"DiscreteGaussian, sigma {sigma:g}", law, "normal", sigma, count, Bound("x faster", must, aim)))
    for name, mech, law, scale, arrays, bound in table:
        ours = released(mech, *arrays)
        yield Row(name, ours, chunked, unsafe(law, scale, *arrays), bound, readme=True)
        yield Row(name, ours, written, unsafe(law, scale, *arrays, piece=None), Bound("x faster"))
    for name, mech, _, _, arrays, _ in table:
        if name != "Laplace, float32":
            ours = released(mech, *arrays, constant_time=True)
            yield Row(f"{name}, constant time", ours, "the bulk call", released(mech, *arrays))
    for exponent in (-30, -45):
        fine = dpfast.Laplace(1, 1, 2.0**exponent), dpfast.Gaussian(1, 2.0**exponent)
        for mech, law in zip(fine, ("laplace", "normal"), strict=True):
            name = f"{type(mech).__name__}, granularity 2^{exponent}"
            yield Row(name, released(mech, *real), chunked, unsafe(law, 1, *real), Bound("x faster"))
    for isa in others():
        for name, mech, law, scale, arrays, _ in table:
            ours = forced(isa, released(mech, *arrays))
            yield Row(
                f"{_native.ISA_NAMES[isa]} forced, {name}",
                ours,
                chunked,
                unsafe(law, scale, *arrays),
                Bound("x faster"),
            )
    bound = Bound("x faster", 0.5)
    yield Row(
        "fixed_point_sum", fixed_point, "np.clip(values, 0, 500).sum()", clipped_sum, bound, readme=True, repeats=True
    )


def rows() -> Iterator[Row]:
    """In the order of the table. Scale 10, one thread and int64, where a row's name says nothing else."""
    copied = ("np.copyto", copyto)
    chunked = ("NumPy's unsafe noise, chunked", numpy_chunked)
    yield Row("into another array", into(), *copied, Bound("x", 3.0, 2.0), readme=True)
    yield Row("in place", in_place, "np.add(counts, 1, out=counts)", add_one, Bound("x", 3.5, 2.2), readme=True)
    yield Row("into another array", into(), *chunked, Bound("x faster", 9, 14), readme=True)
    yield Row("into another array", into(), "NumPy's unsafe noise, as written", numpy_as_written, Bound("x faster"))
    yield Row("two threads", into(threads=2), "np.copyto, one thread", copyto, Bound("x", 2.0, 1.2), readme=True)
    for name, must, aim in (("1", 3, 1.9), ("100", 5, 2.8), ("1e3", 6.5, 4), ("1e6", 6.5, 4)):
        yield Row(f"scale {name}", into(SCALES[name]), *copied, Bound("x", must, aim), readme=name != "1e3")
    for name, must, aim in (("1e9", 8, 4), ("1e12", 12, 5), ("1e15", 15, 7), ("2^60", 20, 8)):
        yield Row(f"scale {name}", into(SCALES[name]), *copied, Bound("ns", must, aim), readme=name in ("1e12", "2^60"))
    yield Row("under a release key", keyed, *copied, Bound("ns", 15, 4), readme=True)
    for size, must, aim in ((1, 6, 2.5), (1_000, 15, 5)):
        name = "one count" if size == 1 else f"{size:,} counts"
        bound = Bound("us", must, aim)
        yield Row(f"a call of {name}", calls(size), "np.copyto", copyto_calls(size), bound, readme=True, call=size)

    for isa in others():
        name = _native.ISA_NAMES[isa]
        least = Bound("x faster", 3) if name == "avx2" else Bound("x faster")
        yield Row(f"{name} forced", forced(isa, into()), *chunked, least, readme=True)
        for scale in ("1e3", "1e6", "1e12", "2^60"):
            yield Row(f"{name} forced, scale {scale}", forced(isa, into(SCALES[scale])), *copied)
    for name in ("1", "1e3", "1e6", "1e12"):
        bulk, constant = into(SCALES[name]), into(SCALES[name], constant_time=True)
        yield Row(f"constant time, scale {name}", constant, "the bulk call", bulk)
    for source in ("int32", "uint64", "strided"):
        yield Row(f"{source} counts", into(source=source), "np.copyto from them", copyto_from(source))
