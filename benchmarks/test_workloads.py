# SPDX-License-Identifier: Apache-2.0
"""benchmarks/workloads.py under pytest-benchmark: `pytest benchmarks/test_workloads.py`. All usable threads.

Each workload is a group of two, its reference first. DPFAST_BENCH_SHARE and DPFAST_BENCH_ROUNDS make it shorter.
"""

from __future__ import annotations

import os

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from workloads import Workload, workloads

ROUNDS = int(os.environ.get("DPFAST_BENCH_ROUNDS", "5"))
ALL = list(workloads())
LONG = 10_000_000  # cells from which one call is a round


@pytest.mark.parametrize("side", ["reference", "dpfast"])
@pytest.mark.parametrize("workload", ALL, ids=[workload.name for workload in ALL])
def test_workload(benchmark: BenchmarkFixture, workload: Workload, side: str) -> None:
    """A release of real size, from counts to results."""
    benchmark.group = f"{workload.name}: {workload.cells:,} cells"
    benchmark.extra_info["cells"] = workload.cells
    run = workload.run if side == "dpfast" else workload.reference
    calls = max(1, min(1_000, LONG // workload.cells))
    benchmark.pedantic(run, rounds=ROUNDS, iterations=calls, warmup_rounds=1)  # type: ignore[no-untyped-call]
