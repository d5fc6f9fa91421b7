# SPDX-License-Identifier: Apache-2.0
"""Releases beside familiar operations."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from typing import Any
from unittest import mock

import bounded_histogram
import numpy as np

import dpfast
from dpfast import _native
from dpfast.evidence.bench.measure import Reference, Row, Run, growth, timed
from dpfast.evidence.bench.rows import (
    COUNTS,
    NARROW,
    REALS,
    SINGLES,
    SPREAD,
    Array,
    Arrays,
    added,
    copied,
    released,
    small_calls,
    unsafe,
)
from dpfast.noise.release.blocks import BLOCK

SIZE, ROUNDS = 50_000_000, 7
LAW_SIZE = 20_000_000  # most values in a row of another law
BLOCKS = 50  # blocks that a row of blocks times together
CHARGES = 100_000
CACHED = 4_000_000  # values that the last cache holds, or nearly
ABOUT = (
    f"int64 counts (rows that name a distribution: at most {LAW_SIZE:,} values, scale 1), times a count, scale 10 and one thread "
    "where nothing else is said"
)
AS_WRITTEN, CHUNKED = "NumPy's unsafe noise, as written", "NumPy's unsafe noise, chunked"
ISAS = [(isa, name) for isa, name in sorted(_native.ISA_NAMES.items(), reverse=True) if isa < _native.best_isa()]

# Each prints one number. The clock starts after the interpreter; for a release, after the import.
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
FIRST = """
import sys, time, numpy as np, dpfast
values = np.arange({})
t = time.process_time()
dpfast.{}(epsilon=1, sensitivity=10).release(values)
print(time.process_time() - t)
assert not {{"numba", "llvmlite"}} & {{*sys.modules}}
"""
FIRSTS = (  # the values, and how many of which kind
    ("10 float64", "10.0", "Laplace"),
    ("1,000 counts", "1_000", "DiscreteLaplace"),
    ("1,000,000 counts", "1_000_000", "DiscreteLaplace"),
)


def row(a: Arrays, name: str, run: Run, beside: str, reference: Run, **options: Any) -> Row:
    """A row beside its reference on as many values."""
    return Row(name, run, a.size, Reference(beside, reference, a.size), **options)


def laplace(scale: float) -> dpfast.DiscreteLaplace:
    return dpfast.DiscreteLaplace(1, int(scale))


def forced(isa: int, run: Run) -> Run:
    """A run on a narrower instruction set, which must reproduce its known answers first."""

    def narrower() -> object:
        with mock.patch.object(_native, "best_isa", partial(_native.checked, isa)):
            return run()

    return narrower


def counts(a: Arrays) -> Iterator[Row]:
    """Scale 10, one thread and int64, if a row's name says nothing else."""
    ten, labels, master = laplace(10), itertools.count(), dpfast.Key.generate()

    def keyed(threads: int | None, out: Array | None = None) -> object:
        key = master.derive(f"benchmark {next(labels)}")
        return ten.release(a["counts"], out=out, threads=threads, key=key)

    into, copy, chunked = released(a, ten), ("np.copyto", copied(a)), (CHUNKED, unsafe(a, "laplace", *COUNTS))
    written, add = (AS_WRITTEN, unsafe(a, "laplace", "counts", None)), ("np.add(counts, 1, out=counts)", added(a))
    in_place, two = released(a, ten, "own", "own"), released(a, ten, threads=2)
    yield row(a, "into another array", into, *copy, chart=True)
    yield row(a, "in place", in_place, *add, prepare=a.refresh)
    yield row(a, "into another array", into, *chunked, chart=True)
    yield row(a, "into another array", into, *written)
    yield row(a, "two threads", two, "np.copyto, one thread", copied(a))
    for name, scale in (
        ("1", 1), ("100", 100), ("1e3", 1e3), ("1e6", 1e6), ("1e9", 1e9), ("1e12", 1e12), ("1e15", 1e15), ("2^60", 2**60),
    ):  # fmt: skip
        yield row(a, f"scale {name}", released(a, laplace(scale)), *copy)
    for name, threads in (("under a release key, all threads", None), ("under a release key", 1)):
        yield row(a, name, partial(keyed, threads, a["other"]), *copy)
        yield row(a, f"{name}, into a new array", partial(keyed, threads), *copy, prepare=a.fresh(1))

    for isa, name in ISAS:
        yield row(a, f"{name} forced", forced(isa, into), *chunked)
        for at, scale in (("1e3", 1e3), ("1e6", 1e6), ("1e12", 1e12), ("2^60", 2**60)):
            yield row(a, f"{name} forced, scale {at}", forced(isa, released(a, laplace(scale))), *copy)
    for name in ("1", "1e3", "1e6", "1e12"):
        mechanism = laplace(float(name))
        constant, bulk = released(a, mechanism, constant_time=True), released(a, mechanism)
        yield row(a, f"constant time, scale {name}", constant, "the bulk call", bulk)
    for kind in ("uint64", *NARROW):
        yield row(a, f"{kind} to {kind}", released(a, ten, kind, f"other {kind}"), "int64 to int64", into)
    for kind in SPREAD:
        yield row(a, f"{kind} counts", released(a, ten, kind, f"other {kind}"), "int64 to int64", into)


def small(a: Arrays) -> Iterator[Row]:
    """Calls of few values, each into a new array."""

    def copy(values: Array) -> Run:
        return partial(np.copyto, np.empty_like(values), values)

    def made(counts: Array) -> Run:
        return lambda: laplace(10).release(counts)

    of = partial(small_calls, a, beside="np.copyto", call=copy)
    yield of(1)
    yield of(1_000)
    real, name = partial(partial, dpfast.Laplace(1, 10).release), "a call of one real value"
    yield of(1, ours=real, given="reals", name=name)
    yield of(1, ours=made, name="a mechanism made, and a call of one count")


def sealed(a: Arrays) -> Iterator[Row]:
    """The parts of a sealed release, as they are called from Python."""
    ten, labels, master = laplace(10), itertools.count(), dpfast.Key.generate()
    block = a["counts"][:BLOCK]

    def derived() -> dpfast.ReleaseKey:
        return master.derive(f"benchmark {next(labels)}")

    def keyed(few: Array) -> Run:
        return lambda: ten.release(few, key=derived())

    def sealed_by(key: dpfast.ReleaseKey, values: Array) -> dpfast.Seal:
        return key.seal(ten, [key.digester(ten)(0, values)], shape=values.shape)

    def several(run: Run) -> Run:
        """Each result is let go before the next, so that a block's pages are used again."""

        def runs() -> int:
            for _ in range(BLOCKS):
                run()
            return BLOCKS

        return runs

    yield small_calls(
        a, 100, beside="np.copyto", call=lambda few: partial(np.copyto, np.empty_like(few), few), ours=keyed,
        name="a call of 100 counts under a release key",
    )  # fmt: skip
    key = derived()
    out = np.ones_like(block)
    copy = Reference("np.copyto", several(partial(np.copyto, out, block)), BLOCKS)
    drawing, digester = sealed_by(key, block).without_ledger(), key.digester(ten)
    for name, run in (
        ("a block of 65,536 counts of a sealed release, drawn", partial(drawing.release, 0, block, out=out)),
        ("a block of 65,536 counts of a sealed release, drawn into a new array", partial(drawing.release, 0, block)),
        ("a block of 65,536 counts of a sealed release, its digest", partial(digester, 0, block)),
    ):
        yield Row(name, several(run), BLOCKS, copy, unit="block")

    @cache
    def folder() -> str:
        made = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, made)
        return made

    @cache
    def ledger() -> dpfast.Ledger:
        made = dpfast.Ledger(f"{folder()}/budget.db", 10**9, create=True)
        for _ in range(CHARGES // 1000):
            made.spend(*[ten] * 1000)
        return made

    @cache
    def plain() -> sqlite3.Connection:
        made = sqlite3.connect(f"{folder()}/plain.db", isolation_level=None)
        made.executescript("PRAGMA synchronous=EXTRA; CREATE TABLE rows (number INTEGER PRIMARY KEY, row BLOB)")
        return made

    def row_flushed() -> object:
        return plain().execute("INSERT INTO rows (row) VALUES (zeroblob(500))")

    def reserve() -> object:
        return ledger().reserve(sealed_by(derived(), block[:1]))

    def less(run: Run) -> tuple[float, object]:
        """A reservation without the transaction in it, which is timed right before."""
        apart = timed(row_flushed)[0] if run is reserve else 0
        seconds, out = timed(run)
        return seconds - apart, out

    name = f"a reservation, in a ledger of {CHARGES:,} charges, less a transaction"
    yield Row(name, reserve, 1, Reference("a row of SQLite, flushed", row_flushed, 1), unit="call", clock=less)


def laws(a: Arrays, cached: Arrays) -> Iterator[Row]:
    """The other laws, beside the unsafe noise that they replace.

    Unless a name says more: another array, one thread, scale or sigma 1, the default granularity.
    """
    table = [
        ("Laplace, float64", dpfast.Laplace(1, 1), "laplace", 1, REALS),
        ("Laplace, float32", dpfast.Laplace(1, 1), "laplace", 1, SINGLES),
        ("Gaussian", dpfast.Gaussian(1), "normal", 1, REALS),
    ]
    table += [
        (f"DiscreteGaussian, sigma {sigma:g}", dpfast.DiscreteGaussian(sigma), "normal", sigma, COUNTS)
        for sigma in (0.5, 10, 1e3, 1e6)
    ]
    for name, mech, law, scale, (given, out) in table:
        run, chunked = released(a, mech, given, out), unsafe(a, law, given, out, scale)
        yield row(a, name, run, CHUNKED, chunked, chart=name in {"Laplace, float64", "Gaussian"})
        yield row(a, name, run, AS_WRITTEN, unsafe(a, law, given, None, scale))
    for sigma in (0.5, 10):
        run, chunked = released(cached, dpfast.DiscreteGaussian(sigma)), unsafe(cached, "normal", *COUNTS, sigma)
        name = f"DiscreteGaussian, sigma {sigma:g}, {CACHED:,} values"
        yield row(cached, name, run, CHUNKED, chunked)
    for name, mech, _, _, arrays in table:
        constant, bulk = released(a, mech, *arrays, constant_time=True), released(a, mech, *arrays)
        yield row(a, f"{name}, constant time", constant, "the bulk call", bulk)
    for exponent in (-30, -45):
        for mech, law in (
            (dpfast.Laplace(1, 1, granularity=2.0**exponent), "laplace"),
            (dpfast.Gaussian(1, granularity=2.0**exponent), "normal"),
        ):
            name = f"{type(mech).__name__}, granularity 2^{exponent}"
            yield row(a, name, released(a, mech, *REALS), CHUNKED, unsafe(a, law, *REALS, 1))
    for isa, short in ISAS:
        for name, mech, law, scale, arrays in table:
            run = forced(isa, released(a, mech, *arrays))
            yield row(a, f"{short} forced, {name}", run, CHUNKED, unsafe(a, law, *arrays, scale))

    def fixed_point() -> object:
        return dpfast.fixed_point_sum(a["reals"], lower=0, upper=500, granularity=2**-20, adjacency="add-remove")

    def clipped() -> object:
        return np.clip(a["reals"], 0, 500).sum()

    yield row(a, "fixed_point_sum", fixed_point, "np.clip(values, 0, 500).sum()", clipped)


def child(code: str, **caches: str) -> float:
    """The output of a fresh process, which may keep bytecode like any installed package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | caches
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def cold(code: str) -> float:
    """The same, with bytecode and numba's cache in a new folder: nothing was compiled before."""
    with tempfile.TemporaryDirectory() as empty:
        return child(code, PYTHONPYCACHEPREFIX=empty, NUMBA_CACHE_DIR=empty)


def processes() -> Iterator[Row]:
    """Fresh processes with their own clocks; the untimed round has kept the bytecode."""

    def printed(run: Run) -> tuple[float, object]:
        return run(), None

    numpy = Reference("import numpy", partial(child, IMPORT.format("numpy")), 1)
    yield Row("import dpfast", partial(child, IMPORT.format("dpfast")), 1, numpy, clock=printed)
    for run, state in ((child, ""), (cold, ", nothing compiled before")):
        for what, values, law in FIRSTS:
            name, chart = f"first release of a process, {what}{state}", what == FIRSTS[-1][0] and run is child
            code = FIRST.format(values, law)
            yield Row(name, partial(run, code), 1, chart=chart, clock=printed)


def memory(a: Arrays, fewer: Arrays) -> Iterator[Row]:
    """What another call into an existing array adds to the process's peak."""
    for name, on, mechanism, arrays in (
        ("", a, laplace(10), COUNTS),
        (", DiscreteGaussian(128) on int64", a, dpfast.DiscreteGaussian(128), COUNTS),
        (", DiscreteGaussian(1e6) on int64", a, dpfast.DiscreteGaussian(1e6), COUNTS),
        (", Laplace(epsilon=1, sensitivity=10) on float64", fewer, dpfast.Laplace(1, 10), REALS),
        (", Laplace(epsilon=1, sensitivity=1) on float32", fewer, dpfast.Laplace(1, 1), SINGLES),
        (", Gaussian(10) on float64", fewer, dpfast.Gaussian(10), REALS),
    ):
        run, options = (
            released(on, mechanism, *arrays, threads=None),
            {"clock": growth, "measures": "B"},
        )
        yield Row(f"growth of peak memory in a second call{name}", run, 1, **options)


def rows(size: int) -> Iterator[Row]:
    """All rows in the order of the table."""
    a, fewer, cached = Arrays(size), Arrays(min(size, LAW_SIZE)), Arrays(min(size, CACHED))
    records = bounded_histogram.integers(min(size, bounded_histogram.SIZE))
    yield from (*counts(a), *small(a), *sealed(a), *processes(), *memory(a, fewer), *laws(fewer, cached))
    yield bounded_histogram.to_a_release("rows to bounded counts to a release, integer keys", *records)
