# SPDX-License-Identifier: Apache-2.0
"""The rows of benchmarks/ratios.py under pytest-benchmark: `pytest benchmarks`, never a part of `pytest`.

Each row is a group of two, its reference first. DPFAST_BENCH_SIZE (counts) and DPFAST_BENCH_ROUNDS make it shorter.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from ratios import FIRST, GROWN, GROWTH, IMPORT, ROUNDS, SIZE, child
from rows import CALLS, HEAD, Array, Arrays, Row, laws, rows

TABLE = [*rows(), *laws()]
REPEATS = int(os.environ.get("DPFAST_BENCH_ROUNDS", ROUNDS))


@pytest.fixture(scope="session")
def arrays() -> Arrays:
    return Arrays(int(os.environ.get("DPFAST_BENCH_SIZE", SIZE)))


def timed(benchmark: BenchmarkFixture, run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The last result of `run`, after one untimed round and REPEATS timed ones unless told otherwise."""
    options = {"rounds": REPEATS, "warmup_rounds": 1, **options}
    return benchmark.pedantic(run, args=args, **options)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("side", ["reference", "dpfast"])
@pytest.mark.parametrize("row", TABLE, ids=[f"{row.name} | {row.reference}" for row in TABLE])
def test_row(benchmark: BenchmarkFixture, arrays: Arrays, row: Row, side: str) -> None:
    """A row, or its reference; and no two calls of a row give equal results."""
    benchmark.group = f"{row.name} | {row.reference}"
    benchmark.extra_info["counts"] = row.call * CALLS if row.call else arrays.size
    run = row.run if side == "dpfast" else row.against
    last: list[Array] = []
    heads: list[bytes] = []

    def keep() -> None:  # between two rounds, untimed
        heads.extend(out[:HEAD].tobytes() for out in last)
        last.clear()
        arrays.refresh()

    timed(benchmark, lambda: last.append(run(arrays)), setup=keep)
    keep()
    if side == "dpfast" and not row.repeats:
        assert len(set(heads)) >= (2 if row.call == 1 else len(heads))  # one cell at scale 10 repeats by chance


@pytest.mark.parametrize("package", ["numpy", "dpfast"])
def test_import(benchmark: BenchmarkFixture, package: str) -> None:
    """A process that imports a package; extra_info has the import alone."""
    benchmark.group = "import, with the process around it"
    benchmark.extra_info["seconds"] = timed(benchmark, child, IMPORT.format(package))


@pytest.mark.parametrize("counts", [1_000, 1_000_000])
def test_first_release(benchmark: BenchmarkFixture, counts: int) -> None:
    """A process that makes one release, numba's cache being warm; extra_info has the release alone."""
    benchmark.group = "first release, with the process around it"
    benchmark.extra_info["seconds"] = timed(benchmark, child, FIRST.format(counts))


@pytest.mark.parametrize("mech", GROWN)
def test_growth_of_peak_memory(benchmark: BenchmarkFixture, arrays: Arrays, mech: str) -> None:
    """A process that makes two releases; extra_info has how many MiB the second one added to its peak."""
    growth = timed(benchmark, child, GROWTH.format(arrays.size, mech, GROWN[mech]), rounds=1, warmup_rounds=0)
    benchmark.extra_info["MiB"] = growth
