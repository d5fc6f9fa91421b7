# SPDX-License-Identifier: Apache-2.0
"""What a new output array costs: the page faults of its first use, beside an array that exists.

NumPy asks for huge pages (2 MiB) for a large new array. Where the system gives none, each page of
4 KiB is a fault of its own.
"""

from __future__ import annotations

import mmap
import resource
from collections.abc import Iterator
from functools import partial

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Reference, Row, Run
from dpfast.evidence.bench.report import Columns
from dpfast.evidence.bench.rows import Array, Arrays, copied, released
from dpfast.privacy.formatting import compared, quantity

SIZE, ROUNDS = 50_000_000, 7
ABOUT = "int64 counts, times a count, scale 10, one thread"
COLUMNS: Columns = (
    ("", lambda r: r.row.name),
    ("against", lambda r: r.row.against.name if r.row.against else ""),
    ("time, or number", lambda r: quantity(r.figure, "s") if r.row.measures else f"{r.figure:,.0f}"),
    ("ratio", lambda r: compared(r.ratio, r.row.measures)),
)


def faults(run: Run) -> tuple[float, object]:
    """A clock of page faults."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    out = run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, out


def small_pages(size: int) -> Array:
    """An array that was never touched, on pages of 4 KiB."""
    memory = mmap.mmap(-1, 8 * size)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.int64)


def rows(size: int) -> Iterator[Row]:
    a, law = Arrays(size), dpfast.DiscreteLaplace(1, 10)
    existing = released(a, law)
    new = partial(law.release, a["counts"], threads=1)

    def new_small() -> Array:
        return law.release(a["counts"], out=small_pages(size), threads=1)

    def copy() -> Array:
        return np.array(a["counts"])

    row = partial(Row, counts=size, prepare=a.fresh(1), chart=True)
    yield row("a release into an existing array", existing, against=Reference("np.copyto", copied(a), size))
    beside = Reference("a release into an existing array", existing, size)
    yield row("a release into a new array", new, against=beside)
    yield row("a release into a new array, pages of 4 KiB", new_small, against=beside)
    yield row("a copy into a new array", copy, against=Reference("np.copyto", copied(a), size), who="NumPy")
    for name, run in (("an existing array", existing), ("a new array", new), ("pages of 4 KiB", new_small)):
        counted = f"page faults of a release, {name}"
        yield Row(counted, run, 1, clock=faults, measures="", prepare=a.fresh(1), chart=True)
