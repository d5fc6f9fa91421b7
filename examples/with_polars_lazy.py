# SPDX-License-Identifier: Apache-2.0
"""Page views in a lazy Polars query, out of core: bounded, counted, sealed and charged once."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import dpfast
from dpfast.engines import polars as dp

home = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
pl.DataFrame({"person": rng.integers(0, 5000, 60_000), "page": rng.zipf(1.4, 60_000) % 100_000}).write_parquet(
    home / "views.parquet"
)
views = pl.scan_parquet(home / "views.parquet").filter(pl.col("page") > 0)

dpfast.KeyFile.create(home / "views.key")  # on the command line: dpfast key create views.key
ledger = dpfast.Ledger(home / "budget.db", epsilon=3, delta=1e-6, create=True)
key = dpfast.KeyFile(home / "views.key").derive("views 2026-11")
counts = dp.bounded_counts(views, unit="person", by="page", max_partitions=10, max_per_partition=1, key=key,
                           stage=home / "stage")  # fmt: skip
mechanism = dpfast.engines.jobs.Withholding(1, 1e-6, counts.sensitivity)  # pages that few people saw stay hidden
dp.release(counts, mechanism, key=key, ledger=ledger, to=home / "out", resume=True)
dp.verify(home / "out", counts, mechanism, key=key)

noisy = pl.scan_parquet(home / "out" / "part-00000000.parquet")
print(noisy.sort("count", descending=True).head(5).collect())
print(f"95 %: each within ±{mechanism.interval()}; spent {ledger.spent}")
