# SPDX-License-Identifier: Apache-2.0
"""What a job asks of an engine; and one process that does it all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from dpfast.engines.jobs.keys import sort, uniform
from dpfast.engines.jobs.rows import schema_of, tables
from dpfast.engines.jobs.tasks import Bound, Freeze, Task, quiet, scatter
from dpfast.privacy.parameters import whole

T = TypeVar("T")


class Engine(Protocol):
    """What moves batches and runs tasks. It may run any of them anywhere, and more than once."""

    def schema(self, rows: Any) -> pa.Schema:
        """The columns of the rows, in whatever form this engine takes them."""

    def everywhere(self, check: Callable[[], T]) -> list[T]:
        """What `check` gives on each worker that there is."""

    def freeze(self, rows: Any, bound: Bound, freeze: Freeze) -> Iterable[tuple[int, str]]:
        """All rows of a unit to one call of `bound`; all that it gives of a block to `freeze`.

        What `freeze` gives, for each block that has partial counts at least.
        """

    def run(self, task: Task, blocks: Iterable[int]) -> list[Any]:
        """What the task gives for each block. `task.only(j)` is enough for block j."""


class OneProcess:
    """The engine of reference: this process, with its rows in memory.

    shards: in how many parts units are counted; it changes no result.
    """

    def __init__(self, shards: int = 1) -> None:
        self._shards = whole("shards", shards, 1)

    def schema(self, rows: Any) -> pa.Schema:
        return schema_of(rows)

    def everywhere(self, check: Callable[[], T]) -> list[T]:
        return [check()]

    def freeze(self, rows: Any, bound: Bound, freeze: Freeze) -> Iterable[tuple[int, str]]:
        unit = bound.plan.unit
        shards: list[list[pa.Table]] = [[] for _ in range(self._shards)]
        for table in map(bound.uniform, tables(rows, bound.plan.columns)):
            cuts = [table] if self._shards == 1 else scatter(table, unit, self._shards, bound.chooser)
            for shard, part in zip(shards, cuts, strict=True):
                shard.append(part)
        partial = pa.concat_tables([bound(shard) for shard in shards])
        return freeze.all(range(bound.plan.blocks), partial)

    def run(self, task: Task, blocks: Iterable[int]) -> list[Any]:
        return [task(block) for block in blocks]

    def ordered(self, rows: Any, columns: list[str], keys: int) -> Iterable[pa.Table]:
        """These columns of the rows, sorted by the first `keys` of them.

        Numbers by value, texts by UTF-8.
        """
        with quiet():
            schema = schema_of(rows)
            wanted = pa.schema([schema.field(name) for name in columns])
            none = uniform(wanted.empty_table(), wanted)
            yield sort(pa.concat_tables([none, *(uniform(each, wanted) for each in tables(rows, columns))]), keys)
