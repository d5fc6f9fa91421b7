# SPDX-License-Identifier: Apache-2.0
"""Dask: sealed releases of records that a cluster holds, with the verbs of dpfast.engines.jobs.

    from dpfast.engines import dask as dp
    counts = dp.bounded_counts("s3://visits/2026-11", unit="user", by="page", domain=pages,
                               max_partitions=10, max_per_partition=1, key=key, stage="s3://private/visits")
    dp.release(counts, mechanism, key=key, ledger=ledger, to="s3://public/visits", resume=True)

A task that runs twice, on a worker that was lost or beside it, writes the same bytes:
docs/engines.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pyarrow as pa

from dpfast.adapters import library
from dpfast.engines import jobs
from dpfast.engines.jobs import rows as reading
from dpfast.engines.jobs.tasks import quiet
from dpfast.errors import DpfastError, DTypeError, ParameterError

__all__ = ["bounded_counts", "release", "verify"]

distributed = library("distributed", "dask", ">=2025.1")

T = TypeVar("T")


def __dir__() -> list[str]:
    return __all__


def bounded_counts(rows: Any, *, client: Any = None, shards: int | None = None, **terms: Any) -> jobs.Counts:
    """`dpfast.engines.jobs.bounded_counts` on a cluster.

    rows: Parquet files, by their path or URI, which the workers read; a dask DataFrame, or a bag or
        delayed objects or futures of Arrow tables; a list of Arrow tables.
    client: of dask.distributed; by default the current one. shards: in how many parts units are
        counted, by default twice as many as there are threads; it changes no result.
    """
    return jobs.bounded_counts(rows, engine=Cluster(client, shards), **terms)


def release(counts: jobs.Counts, mechanism: Any, *, client: Any = None, **how: Any) -> dict[str, Any]:
    """`dpfast.engines.jobs.release` on a cluster. client: as of bounded_counts."""
    return jobs.release(counts, mechanism, engine=Cluster(client), **how)


def verify(to: str | os.PathLike[str], counts: jobs.Counts, mechanism: Any, *, client: Any = None, **how: Any) -> None:
    """`dpfast.engines.jobs.verify` on a cluster. client: as of bounded_counts."""
    jobs.verify(to, counts, mechanism, engine=Cluster(client), **how)


class Held:
    """A value that no log shows: dask writes the arguments of a failed task into its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<Held>"


class Cluster:
    """The engine: `dpfast.engines.jobs.Engine` on the workers of a client."""

    def __init__(self, client: Any = None, shards: int | None = None) -> None:
        """Raises: ParameterError (no client)."""
        try:
            self._client = client or distributed.get_client()
        except ValueError:
            raise ParameterError("client must be given, or one must be open: dask.distributed.Client(…)") from None
        self._shards = shards or 2 * max(sum(self._client.nthreads().values()), 1)

    def schema(self, rows: Any) -> pa.Schema:
        if isinstance(rows, (str, os.PathLike)):
            return reading.schema_of(rows)
        if not (first := self._parts(rows, 1)):
            raise ParameterError("rows must have at least one part, for the names of their columns")
        with quiet(_told):
            return self._client.submit(_schema, first[0], pure=False).result()

    def everywhere(self, check: Callable[[], T]) -> list[T]:
        try:
            found: list[T] = list(self._client.run(check).values())
        except DpfastError:
            raise
        except Exception as error:  # dask hands on the text of what cannot be unpickled, and not its kind
            if "No module named" in str(error):
                raise ParameterError(f"every worker must have dpfast, and one does not: {error!s:.100}") from None
            raise
        return found

    def freeze(self, rows: Any, bound: jobs.Bound, freeze: jobs.Freeze) -> Iterable[tuple[int, str]]:
        shards, many = self._shards, min(bound.plan.blocks, self._shards)
        task, wanted = self._client.submit, [range(i, bound.plan.blocks, many) for i in range(many)]
        cuts = [task(_scatter, part, Held(bound), shards, pure=False) for part in self._parts(rows)]
        partial = [task(_bound, Held(bound), self._each(cuts, i), many, pure=False) for i in range(shards)]
        frozen = [task(_freeze, Held(freeze), of, self._each(partial, i), pure=False) for i, of in enumerate(wanted)]
        with quiet(_told):
            return [each for some in self._client.gather(frozen) for each in some]

    def run(self, task: jobs.Task, blocks: Iterable[int]) -> list[Any]:
        sent = [self._client.submit(_run, Held(task.only(block)), block, pure=False) for block in blocks]
        with quiet(_told):
            return [held.value for held in self._client.gather(sent)]

    def _each(self, cuts: list[Any], place: int) -> list[Any]:
        return [self._client.submit(_at, cut, place, pure=False) for cut in cuts]

    def _parts(self, rows: Any, most: int | None = None) -> list[Any]:
        """A task's argument for each part of the rows, or for the first ones."""
        if isinstance(rows, (str, os.PathLike)):
            return [Held(fragment) for fragment in reading.dataset(rows).get_fragments()]
        if hasattr(rows, "to_delayed"):  # a DataFrame or a bag
            return list(self._client.compute(list(_as_they_are(rows).to_delayed())[:most]))
        if isinstance(rows, (pa.Table, pa.RecordBatch)):
            return [Held(rows)]
        if not isinstance(rows, (list, tuple)):
            raise DTypeError(
                f"rows must be a dask collection, Arrow tables or Parquet files, not {type(rows).__name__}"
            )
        if any(hasattr(each, "dask") for each in rows):  # delayed objects
            return list(self._client.compute(list(rows[:most])))
        return [each if isinstance(each, distributed.Future) else Held(each) for each in rows[:most]]


def _told(error: Exception) -> Exception:
    """A user's own error may hold values: its kind is told, and what the cluster says as it is."""
    if type(error).__module__.partition(".")[0] == "distributed":
        return error
    return DTypeError(f"rows cannot be read: {type(error).__name__} of a task of Dask")


def _as_they_are(rows: Any) -> Any:
    """A DataFrame whose objects are not made texts (dataframe.convert-string), 1 and 1.0 apart."""
    if not hasattr(rows, "expr"):
        return rows
    from dask.dataframe.dask_expr import new_collection  # type: ignore[attr-defined]

    return new_collection(_unconverted(rows.expr))


def _unconverted(expr: Any) -> Any:
    kind = type(expr).__name__
    if kind == "ArrowStringConversion":
        return _unconverted(expr.frame)
    if kind == "FromPandas":
        return expr.substitute_parameters({"pyarrow_strings_enabled": False})
    for each in expr.dependencies():
        expr = expr.substitute(each, _unconverted(each))
    return expr


# ------------------------------------------------------------------ on workers


def _open(part: Any) -> Any:
    return part.value if isinstance(part, Held) else part


def _schema(part: Any) -> pa.Schema:
    return reading.schema_of(_open(part))


def _scatter(part: Any, bound: Held, shards: int) -> Held:
    task: jobs.Bound = bound.value
    tables = map(task.uniform, reading.tables(_open(part), task.plan.columns))
    return Held([jobs.scatter(table, task.plan.unit, shards, task.chooser) for table in tables])


def _at(cut: Held, place: int) -> Held:
    return Held([tables[place] for tables in cut.value])


def _bound(bound: Held, parts: list[Held], many: int) -> Held:
    partial = bound.value([table for part in parts for table in part.value])
    return Held([jobs.cut(partial, partial["block"].to_numpy() % many, range(many))])


def _freeze(freeze: Held, blocks: range, parts: list[Held]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = freeze.value.all(
        blocks, pa.concat_tables([each for part in parts for each in part.value])
    )
    return found


def _run(task: Held, block: int) -> Held:
    return Held(task.value(block))
