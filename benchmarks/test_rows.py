# SPDX-License-Identifier: Apache-2.0
"""The rows of the tables under pytest-benchmark: `pytest benchmarks`, never a part of `pytest`.

Each row is a group with its reference. DPFAST_BENCH_SIZE (values in the largest array) and
DPFAST_BENCH_ROUNDS make it shorter; DPFAST_BENCH_TABLES names other tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tables import table

from dpfast.evidence.bench.measure import Row, refuse_a_repeat, timed


def cases() -> Iterator[object]:
    for name in os.environ.get("DPFAST_BENCH_TABLES", "ratios workloads").split():
        given = table(name)
        rounds = int(os.environ.get("DPFAST_BENCH_ROUNDS", given.rounds))
        for row in given.rows(int(os.environ.get("DPFAST_BENCH_SIZE", given.size))):
            beside = f"{row.name} | {row.against.name}" if row.against else row.name
            for side in ("reference", "dpfast") if row.against else ("dpfast",):
                yield pytest.param(row, side, rounds, id=f"{name}: {beside}-{side}")


@pytest.mark.parametrize(("row", "side", "rounds"), [*cases()])
def test_row(benchmark: BenchmarkFixture, row: Row, side: str, rounds: int) -> None:
    """A row, or its reference, after an untimed round; no two calls of a row give equal noise."""
    benchmark.group = row.name if row.against is None else f"{row.name} | {row.against.name}"
    run, counts = (row.run, row.counts) if side == "dpfast" else (row.against.run, row.against.counts)
    benchmark.extra_info["counts"] = counts
    last: list[object] = []
    seen: set[bytes] = set()

    def keep() -> None:  # between two rounds, untimed
        if side == "dpfast" and last:
            refuse_a_repeat(row, last.pop(), seen)
        last.clear()
        row.prepare()

    benchmark.pedantic(lambda: last.append(run()), setup=keep, rounds=rounds, warmup_rounds=1)
    keep()
    if row.clock is not timed:
        benchmark.extra_info[f"by its own clock, {row.measures}"] = row.clock(run)[0]
