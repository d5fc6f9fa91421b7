# SPDX-License-Identifier: Apache-2.0
"""One engine, in a process of its own: a cold job, then warm ones of other rows.

    python -m jobs.engines ENGINE SCRATCH KEYS ROUNDS COLD WARM

COLD and WARM are folders of Parquet files. The last line that is printed says what each job took.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pyarrow.parquet as pq

import dpfast
from dpfast.engines import jobs
from dpfast.noise.release.engine import usable_threads
from jobs import timed, tree

CAPS = {"max_partitions": 4, "max_per_partition": 2}
SHARD = 2_500_000  # rows that are bounded together


class Open(NamedTuple):
    """An engine that is ready: its verbs, and what they get."""

    verbs: Any
    rows: Callable[[Path], Any]  # those of a folder
    counting: Callable[[int], dict[str, Any]]  # what bounded_counts gets of so many rows beside them
    releasing: dict[str, Any]  # what release gets beside the counts
    load: Callable[[Path], object] = lambda _: None  # before the clock starts, for a server that holds its rows


COLD = """
import pathlib, pickle, sys, time
import dpfast.engines.jobs
tasks = [pickle.loads(pathlib.Path(path).read_bytes()) for path in sys.argv[1:]]
begin = time.process_time()
for task in tasks:
    task(0)
print(time.process_time() - begin)
"""


def shards(rows: int) -> int:
    return max(2 * usable_threads(), -(-rows // SHARD))


def by_shards(rows: int) -> dict[str, Any]:
    return {"shards": shards(rows)}


@contextmanager
def one_process(_: Path) -> Iterator[Open]:
    def files(folder: Path) -> list[Any]:
        return list(ds.dataset(folder, format="parquet").get_fragments())  # one at a time in memory

    yield Open(jobs, files, lambda rows: {"engine": jobs.OneProcess(-(-rows // SHARD))}, {})


@contextmanager
def dask(_: Path) -> Iterator[Open]:
    dp = import_module("dpfast.engines.dask")
    from dask import distributed

    with (
        distributed.LocalCluster(n_workers=usable_threads(), threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield Open(dp, str, lambda rows: {"client": client, "shards": shards(rows)}, {"client": client})


@contextmanager
def spark(scratch: Path) -> Iterator[Open]:
    dp = import_module("dpfast.engines.spark")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{usable_threads()}]").appName("dpfast")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "4g",
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield Open(dp, lambda folder: session.read.parquet(str(folder)), by_shards, {"session": session})
    finally:
        session.stop()


@contextmanager
def duckdb(_: Path) -> Iterator[Open]:
    dp = import_module("dpfast.engines.duckdb")
    library = import_module("duckdb")
    yield Open(dp, lambda folder: library.read_parquet(f"{folder}/*.parquet"), by_shards, {})


@contextmanager
def polars(_: Path) -> Iterator[Open]:
    dp = import_module("dpfast.engines.polars")
    library = import_module("polars")
    yield Open(dp, lambda folder: library.scan_parquet(f"{folder}/*.parquet"), by_shards, {})


def servers() -> Any:
    """How tests start a server of PostgreSQL."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    return import_module("on_postgres")


@contextmanager
def postgres(_: Path) -> Iterator[Open]:
    """A server of its own below this process, whose time and memory count."""
    dp, on_postgres, tables = import_module("dpfast.engines.postgres"), servers(), dict[Path, str]()
    with on_postgres.server(on_postgres.programs()) as server, server.connect() as connection:

        def load(folder: Path) -> None:
            if folder not in tables:
                tables[folder], *more = (
                    server.table(connection, pq.read_table(f)) for f in sorted(folder.glob("*.parquet"))
                )
                for each in more:
                    connection.execute(f"INSERT INTO {tables[folder]} TABLE {each}")
                    connection.execute(f"DROP TABLE {each}")
                connection.execute(f"VACUUM ANALYZE {tables[folder]}")

        yield Open(dp, lambda folder: dp.Rows(connection, f"TABLE {tables[folder]}"), by_shards, {}, load)


class Engine(NamedTuple):
    open: Callable[[Path], AbstractContextManager[Open]]
    verbs: str  # the module that has them
    distribution: str
    needs: Callable[[], str] = str  # what else is not there, in words

    def missing(self) -> str:
        """Why it cannot run here, or nothing."""
        try:
            verbs = import_module(self.verbs)
        except ImportError as error:
            return str(error)
        return self.needs() if hasattr(verbs, "bounded_counts") else f"{self.verbs} has no bounded_counts"


ENGINES = {
    "one process": Engine(one_process, "dpfast.engines.jobs", "pyarrow"),
    "DuckDB": Engine(duckdb, "dpfast.engines.duckdb", "duckdb"),
    "Polars": Engine(polars, "dpfast.engines.polars", "polars"),
    "Dask": Engine(dask, "dpfast.engines.dask", "distributed"),
    "Spark": Engine(spark, "dpfast.engines.spark", "pyspark"),
    "PostgreSQL": Engine(
        postgres, "dpfast.engines.postgres", "psycopg", lambda: "" if servers().programs() else "there is no server"
    ),
}


def counted(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def job(opened: Open, folder: Path, home: Path, name: str, keys: int) -> dict[str, Any]:
    """Rows to noisy Parquet files, charged and sealed; what that took."""
    dp, rows, notes, stage = opened.verbs, counted(folder), home / f"{name} notes", home / f"{name} stage"
    key, ledger = dpfast.KeyFile(home / "a.key").derive(name), dpfast.Ledger(home / "budget.db")

    def run() -> None:
        counts = dp.bounded_counts(
            opened.rows(folder),
            unit="user",
            by="key",
            domain=range(keys),
            key=key,
            stage=stage,
            **CAPS,
            **opened.counting(rows),
        )
        mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=counts.sensitivity)
        dp.release(counts, mechanism, key=key, ledger=ledger, to=home / f"{name} out", **opened.releasing)

    loading = tree.spent(lambda: opened.load(folder))["cpu"]
    with timed.noted(notes):
        took = tree.spent(run)
    return {
        **took,
        "loading": loading,
        "rows": rows,
        "steps": timed.steps(notes),
        "stage": sum(f.stat().st_size for f in stage.iterdir()),
    }


def cold_block(notes: Path) -> float:
    """Processor seconds of a new process for its first block: digest, noise, Parquet."""
    command = [sys.executable, "-c", COLD, *(str(notes / name) for name in timed.FIRST)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(name: str, scratch: Path, keys: int, rounds: int, cold: Path, warm: Path) -> dict[str, Any]:
    engine = ENGINES[name]
    home = scratch / "home"
    home.mkdir(parents=True)
    dpfast.KeyFile.create(home / "a.key")
    dpfast.Ledger(home / "budget.db", epsilon=10**6, create=True)
    found: dict[str, Any] = {
        "engine": name,
        "version": f"{engine.distribution} {version(engine.distribution)}",
        "keys": keys,
        "warm": [],
    }
    try:
        with engine.open(scratch) as opened:
            took = job(opened, cold, home, "cold", keys)
            found["cold"] = {**took, "cpu": tree.cpu() - took["loading"]}  # with all that began
            for i in range(rounds):
                found["warm"].append(job(opened, warm, home, f"warm {i}", keys))
                if i + 1 < rounds:
                    shutil.rmtree(home / f"warm {i} stage")
            found["cold block"] = [cold_block(home / f"warm {rounds - 1} notes") for _ in range(3)]
    finally:
        shutil.rmtree(scratch)
    return found


if __name__ == "__main__":
    said, scratch_, keys_, rounds_, *folders = sys.argv[1:]
    print(json.dumps(main(said, Path(scratch_), int(keys_), int(rounds_), *map(Path, folders))))
