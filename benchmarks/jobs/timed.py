# SPDX-License-Identifier: Apache-2.0
"""Tasks that note the processor's time of each of their calls, wherever they run."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs import verbs
from dpfast.engines.jobs.tasks import Publish

FIRST = "digest.pickle", "publish.pickle"  # what a cold worker begins with


def noting(step: str, notes: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls are noted.

    The clock is that of the whole process. What its other threads do meanwhile counts, too.
    """

    def noted(*given: Any, **named: Any) -> Any:
        begin = time.process_time()
        out = run(*given, **named)
        seconds = time.process_time() - begin
        with Path(notes, f"{os.getpid()}-{threading.get_ident()}.txt").open("a") as file:
            file.write(f"{step} {seconds!r}\n")
        return out

    return noted


class Timed:
    """A task that is noted."""

    def __init__(self, task: Any, step: str, notes: str) -> None:
        self.task, self.step, self.notes = task, step, notes

    def only(self, *blocks: int) -> Timed:
        return Timed(self.task.only(*blocks), self.step, self.notes)

    def __call__(self, *given: Any) -> Any:
        return noting(self.step, self.notes, self.task)(*given)

    def all(self, *given: Any) -> Any:
        return noting(self.step, self.notes, self.task.all)(*given)

    def __getattr__(self, name: str) -> Any:
        if name == "task" or name.startswith("__"):  # it is being unpickled
            raise AttributeError(name)
        return getattr(self.task, name)


class Noting:
    """An engine whose tasks are noted."""

    def __init__(self, engine: jobs.Engine, notes: str) -> None:
        self.engine, self.notes = engine, notes

    def schema(self, rows: Any) -> Any:
        return self.engine.schema(rows)

    def everywhere(self, check: Any) -> Any:
        return self.engine.everywhere(check)

    def freeze(self, rows: Any, bound: Any, freeze: Any) -> Any:
        return self.engine.freeze(rows, Timed(bound, "bound", self.notes), Timed(freeze, "merge", self.notes))

    def run(self, task: Any, blocks: Any) -> list[Any]:
        step = {"Freeze": "merge"}.get(type(task).__name__, type(task).__name__.lower())
        if f"{step}.pickle" in FIRST:
            Path(self.notes, f"{step}.pickle").write_bytes(pickle.dumps(task.only(0)))
        if isinstance(task, Publish):
            task = Publish(Timed(task._draw, "draw", self.notes), task._to)
        return self.engine.run(Timed(task, step, self.notes), blocks)


@contextmanager
def noted(notes: Path) -> Iterator[None]:
    """The verbs of every adapter, and what the driver itself does for a seal, are noted."""
    notes.mkdir()

    def verb(run: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, engine: jobs.Engine | None = None, **named: Any) -> Any:
            return run(*given, engine=Noting(engine or jobs.OneProcess(), str(notes)), **named)

        return called

    with ExitStack() as stack:
        for owner, name in product((jobs, verbs), ("bounded_counts", "release")):  # where adapters find them
            stack.enter_context(mock.patch.object(owner, name, verb(getattr(owner, name))))
        for owner, name in ((dpfast.ReleaseKey, "seal"), (dpfast.Ledger, "reserve")):
            stack.enter_context(mock.patch.object(owner, name, noting("seal", str(notes), getattr(owner, name))))
        yield


def steps(notes: Path) -> dict[str, float]:
    """Processor seconds of each step, summed over all workers. A publication has a draw in it."""
    found: dict[str, float] = defaultdict(float)
    for file in notes.glob("*.txt"):
        for line in file.read_text().splitlines():
            step, seconds = line.split()
            found[step] += float(seconds)
    parquet = found.pop("publish") - found["draw"]
    return {**found, "parquet": parquet}
