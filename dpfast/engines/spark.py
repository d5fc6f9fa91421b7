# SPDX-License-Identifier: Apache-2.0
"""Spark: sealed releases of a DataFrame of records, with the verbs of dpfast.engines.jobs.

    from dpfast.engines import spark as dp
    counts = dp.bounded_counts(df, unit="user", by="page", domain=pages, max_partitions=10,
                               max_per_partition=1, key=key, stage="hdfs://private/visits")
    dp.release(counts, mechanism, key=key, ledger=ledger, to="hdfs://public/visits", resume=True)

A task that runs twice, retried or speculated, writes the same bytes: docs/engines.md.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from dpfast import ReleaseKey, errors
from dpfast.adapters import library
from dpfast.engines import jobs
from dpfast.engines.jobs.keys import mixed
from dpfast.engines.jobs.tasks import quiet
from dpfast.errors import DTypeError, ParameterError

__all__ = ["bounded_counts", "release", "verify"]

pyspark = library("pyspark", "spark", ">=4.0")

T = TypeVar("T")
A_JOB = 4096  # blocks at most: Spark writes closures beyond a megabyte to disks, and keys with them


def __dir__() -> list[str]:
    return __all__


def bounded_counts(rows: Any, *, key: ReleaseKey, shards: int | None = None, **terms: Any) -> jobs.Counts:
    """`dpfast.engines.jobs.bounded_counts` on Spark.

    rows: a DataFrame. shards: in how many parts units are counted, by default
        spark.sql.shuffle.partitions; it changes no result.
    """
    if not hasattr(rows, "sparkSession"):
        raise DTypeError(f"rows must be a DataFrame of Spark, not {type(rows).__name__}")
    return jobs.bounded_counts(rows, key=key, engine=_cluster(rows.sparkSession, key, shards), **terms)


def release(counts: jobs.Counts, mechanism: Any, *, key: ReleaseKey, session: Any = None, **how: Any) -> dict[str, Any]:
    """`dpfast.engines.jobs.release` on Spark. session: by default the active one."""
    return jobs.release(counts, mechanism, key=key, engine=_cluster(session, key), **how)


def verify(
    to: str | os.PathLike[str], counts: jobs.Counts, mechanism: Any, *, key: ReleaseKey, session: Any = None
) -> None:
    """`dpfast.engines.jobs.verify` on Spark. session: as of release."""
    jobs.verify(to, counts, mechanism, key=key, engine=_cluster(session, key))


def _cluster(session: Any, key: ReleaseKey, shards: int | None = None) -> Cluster:
    """Raises: ParameterError (no session; a key in memory, where closures are kept in the plan)."""
    found = Cluster(session, shards)
    if found.connected and isinstance(key, ReleaseKey) and key.place is None:
        raise ParameterError("key must be of a KeyFile under Spark Connect, whose plans carry what tasks hold")
    return found


class Cluster:
    """The engine: `dpfast.engines.jobs.Engine` on the executors of a session."""

    def __init__(self, session: Any = None, shards: int | None = None) -> None:
        """Raises: ParameterError (no session)."""
        from pyspark.sql import SparkSession

        active: Callable[[], Any] = SparkSession.getActiveSession
        self._session = session or active()
        if self._session is None:
            raise ParameterError("session must be given, or one must be active: SparkSession.builder.getOrCreate()")
        self.connected = ".connect." in type(self._session).__module__
        partitions = int(self._session.conf.get("spark.sql.shuffle.partitions"))
        large = self._session.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
        self._text, self._runs = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
        self._shards = shards or partitions
        self._slots = partitions if self.connected else self._session.sparkContext.defaultParallelism

    def schema(self, rows: Any) -> pa.Schema:
        with quiet(_told):
            return rows.limit(0).toArrow().schema

    def everywhere(self, check: Callable[[], T]) -> list[T]:
        """A task for each core: an idle cluster spreads as many over all of its executors."""
        return self._each(lambda _: check(), range(self._slots), self._slots)

    def freeze(self, rows: Any, bound: jobs.Bound, freeze: jobs.Freeze) -> Iterable[tuple[int, str]]:
        names, schema, text = bound.plan.columns, bound.schema, self._text
        wide = pa.schema([(each.name, text if each.type == pa.string() else each.type) for each in schema])

        def bounding(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            partial = bound(batch.rename_columns(names) for batch in batches)
            yield from partial.cast(wide).to_batches(max_chunksize=jobs.BLOCK)

        def freezing(key: tuple[pa.Scalar, ...], partial: pa.Table) -> pa.Table:
            block, digest = freeze(key[0].as_py(), partial.select(schema.names).cast(schema))
            return pa.table({"block": [block], "hash": pa.array([digest], text)})

        columns = rows.select(*(f"`{name.replace('`', '``')}`" for name in names))
        shards = columns.toDF(*(f"c{i}" for i in range(len(names)))).repartition(self._shards, "c0")  # the unit
        partial = shards.mapInArrow(bounding, ", ".join(f"{each.name} {SQL[each.type]}" for each in schema))
        with quiet(_told):
            found = partial.groupBy("block").applyInArrow(freezing, "block long, hash string").toArrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def run(self, task: jobs.Task, blocks: Iterable[int]) -> list[Any]:
        listed, found = list(blocks), []
        for i in range(0, len(listed), A_JOB):
            some = listed[i : i + A_JOB]
            found += self._each(task.only(*some), some, min(len(some), 4 * self._slots))
        return found

    def _each(self, work: Callable[[int], T], numbers: Iterable[int], tasks: int) -> list[T]:
        """What `work` gives for each number, in order. Only its closure holds anything."""
        listed, runs = list(numbers), self._runs

        def working(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for i in batch["id"].to_pylist():
                    found = pa.array([pickle.dumps(work(listed[i]))], runs)
                    yield pa.RecordBatch.from_pydict({"id": [i], "found": found})

        with quiet(_told):
            rows = self._session.range(0, len(listed), 1, tasks).mapInArrow(working, "id long, found binary").toArrow()
        found = dict(zip(rows["id"].to_pylist(), rows["found"].to_pylist(), strict=True))
        return [pickle.loads(found[i]) for i in range(len(listed))]  # noqa: S301  workers run what the driver pickles, too


SQL = {pa.int64(): "long", pa.string(): "string"}  # Spark has no unsigned integers


def _told(error: Exception) -> Exception:
    """An error of dpfast in a worker, from its text, which names no value.

    Another one by its kinds, or by the two types that a file has: its text may hold values.
    """
    text = str(error)
    if "No module named 'dpfast" in text:
        return ParameterError(
            "every executor must have dpfast, and one does not: PYSPARK_PYTHON names the Python that it starts"
        )
    for name, message in re.findall(r"^dpfast\.errors\.(\w+): (.+)$", text, re.MULTILINE)[-1:]:
        made: Exception = getattr(errors, name)(message)
        return made
    kinds = [type(error).__name__]
    cause = getattr(error, "java_exception", None)  # classic Spark has one
    while cause is not None:
        kinds.append(cause.getClass().getSimpleName())
        if kinds[-1] == "SchemaColumnConvertNotSupportedException":
            return mixed(cause.getColumn().strip("[]"), cause.getLogicalType(), cause.getPhysicalType())
        cause = cause.getCause()
    return DTypeError(f"rows cannot be read: {', '.join(dict.fromkeys(kinds))} of Spark, whose own log says more")
