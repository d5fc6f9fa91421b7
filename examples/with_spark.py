# SPDX-License-Identifier: Apache-2.0
"""Page views on Spark: counted, sealed, charged, published; and again for nothing."""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import dpfast
from dpfast.engines import spark as dp

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors start this Python, which has dpfast

home = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
views = pa.table({"user": rng.integers(0, 5000, 60_000), "page": rng.zipf(1.4, 60_000) % 100_000})
pq.write_table(views, home / "views.parquet")

dpfast.KeyFile.create(home / "views.key")  # on the command line: dpfast key create views.key
ledger = dpfast.Ledger(home / "budget.db", epsilon=3, delta=0, create=True)
config = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "4"}
session = SparkSession.builder.master("local[2]").config(map=config).getOrCreate()
warnings.simplefilter("ignore", dpfast.errors.KeptStageWarning)  # the second try takes the stage of the first
for _ in range(2):  # the second time as after a crash: the same bytes, and no charge
    key = dpfast.KeyFile(home / "views.key").derive("views 2026-11")
    frame = session.read.parquet(str(home / "views.parquet"))
    counts = dp.bounded_counts(frame, unit="user", by="page", domain=range(100_000), max_partitions=10,
                               max_per_partition=1, key=key, stage=home / "stage")  # fmt: skip
    mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=counts.sensitivity)
    dp.release(counts, mechanism, key=key, ledger=ledger, to=home / "out", resume=True)
dp.verify(home / "out", counts, mechanism, key=key)
session.stop()

noisy = pq.read_table(home / "out" / "part-00000000.parquet")
print(noisy.slice(1, 5).to_pydict())
print(f"95 %: each within ±{mechanism.interval()}; spent {ledger.spent}")
