# SPDX-License-Identifier: Apache-2.0
"""Sealed releases of records that an engine holds: pure functions of a block (docs/engines.md).

    from dpfast.engines import jobs  # or dpfast.engines.dask, .spark, .duckdb, .polars, .postgres: alike
    counts = jobs.bounded_counts("visits/", unit="user", by="page", domain=pages, max_partitions=10,
                                 max_per_partition=1, key=key, stage="private/visits-2026-11")
    jobs.release(counts, DiscreteLaplace(1, counts.sensitivity), key=key, ledger=ledger, to="out")

An engine is four methods: `Engine`. `OneProcess` has them in 20 lines.
"""

from dpfast.counts.records.partitions import GaussianWithholding, Withholding
from dpfast.engines.jobs.engine import Engine, OneProcess
from dpfast.engines.jobs.out_of_core import OutOfCore
from dpfast.engines.jobs.table import Tables, counted, release_table
from dpfast.engines.jobs.tasks import Bound, Digest, Draw, Freeze, Task, cut, scatter
from dpfast.engines.jobs.verbs import Counts, bounded_counts, release, verify
from dpfast.noise.release.blocks import BLOCK

__all__ = [
    "BLOCK",
    "Bound",
    "Counts",
    "Digest",
    "Draw",
    "Engine",
    "Freeze",
    "GaussianWithholding",
    "OneProcess",
    "OutOfCore",
    "Tables",
    "Task",
    "Withholding",
    "bounded_counts",
    "counted",
    "cut",
    "release",
    "release_table",
    "scatter",
    "verify",
]


def __dir__() -> list[str]:
    return __all__
