# SPDX-License-Identifier: Apache-2.0
"""One process whose rows need not fit its memory: they are cut into files that have no name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa

from dpfast.engines.jobs.engine import OneProcess
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.rows import tables
from dpfast.engines.jobs.tasks import Bound, Freeze, cut, scatter
from dpfast.errors import FileError


class OutOfCore(OneProcess):
    """The engine of one process, a shard in memory at a time; rows are read once, in batches.

    shards: in how many parts units are counted: one must fit the memory, some 60 bytes a row. It
        changes no result.
    """

    def __init__(self, shards: int = 64) -> None:
        super().__init__(shards)

    def batches(self, rows: Any, columns: list[str]) -> Iterable[pa.Table]:
        """These columns of the rows, in any order."""
        return tables(rows, columns)

    def freeze(self, rows: Any, bound: Bound, freeze: Freeze) -> Iterable[tuple[int, str]]:
        plan, found = bound.plan, []
        many = min(plan.blocks, self._shards)
        with Spill(self._shards, freeze.stage) as of_units, Spill(many, freeze.stage) as of_blocks:
            for table in map(bound.uniform, self.batches(rows, plan.columns)):  # so no file has a dictionary
                of_units.add(scatter(table, plan.unit, self._shards, bound.chooser))
            for i in range(self._shards):
                partial = bound(of_units.take(i))
                of_blocks.add(cut(partial, partial["block"].to_numpy() % many, range(many)))
            for i in range(many):
                partial = pa.concat_tables([bound.schema.empty_table(), *of_blocks.take(i)])
                found += freeze.all(range(i, plan.blocks, many), partial)
        return found


class Spill:
    """Tables in some files beside a stage, which go when the process does, however it ends."""

    def __init__(self, many: int, stage: Folder) -> None:
        """Raises: FileError."""
        self._stage = stage
        where = stage.path if stage.local else None  # None: where the system has temporary files
        self._files: list[IO[bytes]] = []
        with _on_disk(stage), ExitStack() as opened:
            for _ in range(many):
                self._files.append(opened.enter_context(tempfile.TemporaryFile(dir=where)))
            self._open = opened.pop_all()
        self._writers: list[Any] = [None] * many

    def add(self, cuts: list[pa.Table]) -> None:
        """A table for each file. Raises: FileError."""
        with _on_disk(self._stage):
            for i, table in enumerate(cuts):
                if not table.num_rows:
                    continue
                if self._writers[i] is None:
                    self._writers[i] = pa.ipc.new_stream(self._files[i], table.schema)
                self._writers[i].write_table(table)

    def take(self, place: int) -> list[pa.Table]:
        """What a file holds, once: its space is free then. Raises: FileError."""
        if self._writers[place] is None:
            return []
        with _on_disk(self._stage), self._files[place] as file:
            self._writers[place].close()
            file.seek(0)
            return [pa.ipc.open_stream(file).read_all()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()


@contextmanager
def _on_disk(stage: Folder) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise FileError(f"rows cannot be kept beside {stage.place}: {why}") from None
