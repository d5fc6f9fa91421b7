# SPDX-License-Identifier: Apache-2.0
"""Page views on a dask cluster: counted, sealed, charged, published; and again for nothing."""

import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dask.distributed import Client

import dpfast
from dpfast.engines import dask as dp


def main() -> None:
    home = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    views = pa.table({"user": rng.integers(0, 5000, 60_000), "page": rng.zipf(1.4, 60_000) % 100_000})
    (home / "views").mkdir()
    for i in range(4):
        pq.write_table(views.slice(15_000 * i, 15_000), home / "views" / f"{i}.parquet")

    dpfast.KeyFile.create(home / "views.key")  # on the command line: dpfast key create views.key
    ledger = dpfast.Ledger(home / "budget.db", epsilon=3, delta=0, create=True)
    # Errors of tasks come back as exceptions. What workers log while the cluster closes is no use.
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL):
        warnings.simplefilter("ignore", dpfast.errors.KeptStageWarning)  # the second try takes the stage of the first
        for _ in range(2):  # the second time as after a crash: the same bytes, and no charge
            key = dpfast.KeyFile(home / "views.key").derive("views 2026-11")
            counts = dp.bounded_counts(str(home / "views"), unit="user", by="page", domain=range(100_000), max_partitions=10,
                                       max_per_partition=1, key=key, stage=home / "stage")  # fmt: skip
            mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=counts.sensitivity)
            dp.release(counts, mechanism, key=key, ledger=ledger, to=home / "out", resume=True)
        dp.verify(home / "out", counts, mechanism, key=key)

    noisy = pq.read_table(home / "out" / "part-00000000.parquet")
    print(noisy.slice(1, 5).to_pydict())
    print(f"95 %: each within ±{mechanism.interval()}; spent {ledger.spent}")


if __name__ == "__main__":  # the workers import this file
    main()
