# SPDX-License-Identifier: Apache-2.0
"""What is done to the workers of any engine while a job runs, and what their blocks were then."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tiers
import visits
from places import TESTS

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs import tasks
from dpfast.engines.jobs.keys import ipc
from dpfast.errors import OtherInputError


class Within:
    """A task in a worker to which something is done."""

    def __init__(self, task: Any, what: Any) -> None:
        self.task, self.what = task, what

    def __getattr__(self, name: str) -> Any:
        if name in {"task", "what"} or name.startswith("__"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.task, name)

    def only(self, *blocks: int) -> Within:
        return Within(self.task.only(*blocks), self.what)

    def all(self, *given: Any) -> Any:
        return self._under(self.task.all, given)

    def __call__(self, *given: Any) -> Any:
        return self._under(self.task, given)

    def _under(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        with pytest.MonkeyPatch.context() as patched:
            self.what(patched)
            return work(*given)


class Planted:
    """An engine in whose workers something is done."""

    def __init__(self, engine: Any, what: Any) -> None:
        self.engine, self.what = engine, what

    def schema(self, rows: Any) -> pa.Schema:
        return self.engine.schema(rows)

    def everywhere(self, check: Any) -> list[Any]:
        return self.engine.everywhere(Within(check, self.what))

    def freeze(self, rows: Any, bound: jobs.Bound, freeze: Any) -> Any:
        return self.engine.freeze(rows, Within(bound, self.what), Within(freeze, self.what))

    def run(self, task: Any, blocks: Any) -> list[Any]:
        return self.engine.run(Within(task, self.what), blocks)


class Fault:
    """What happens the first time that a worker has made a thing; each copy of it is kept.

    fault: "shuffle": the worker that has a shard's partial counts is killed; "stage": the one that
        has written a block of the stage is; "before", "after": it is killed before or after it has
        written a block of the output; "straggler": it writes after another has written the same;
        "numpy": as "after", with fresh noise of NumPy; "none": nothing happens.
    """

    def __init__(self, seen: Path, fault: str) -> None:
        self.seen, self.fault = seen, fault

    def __call__(self, patched: pytest.MonkeyPatch) -> None:
        bound, freeze, put = tasks.Bound.__call__, tasks.Freeze.__call__, tasks.put

        def bounds(task: jobs.Bound, batches: Any) -> pa.Table:
            rows = list(batches)
            people = [np.asarray(each["user"]).min() for each in rows if each.num_rows]
            counts = bound(task, rows)
            return self._made(min(people) - visits.SECRET, ipc(counts), lambda: counts) if people else counts

        def freezes(task: jobs.Freeze, block: int, counts: Any = None) -> Any:
            data = ipc(tasks.merged(task.plan, block, counts))
            return self._made(block, data, lambda: freeze(task, block, counts))

        def puts(to: Any, block: int, table: pa.Table) -> Any:
            if self.fault != "numpy":
                return self._made(block, ipc(table), partial(put, to, block, table))
            noise = np.random.default_rng().laplace(0, 8, table.num_rows).round().astype(np.int64)
            table = table.set_column(1, "count", pa.array(np.asarray(table["count"]) + noise))
            return self._made(block, ipc(table), lambda: (tasks.file_of(block), table.num_rows))

        if self.fault == "shuffle":
            patched.setattr(tasks.Bound, "__call__", bounds)
        elif self.fault == "stage":
            patched.setattr(tasks.Freeze, "__call__", freezes)
        else:
            patched.setattr(tasks, "put", puts)

    def _made(self, number: int, data: bytes, write: Callable[[], Any]) -> Any:
        (self.seen / f"{number}-{secrets.token_hex(4)}").write_bytes(data)
        first = self._mark("begun", number)
        if first and self.fault == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if first and self.fault == "straggler":
            until((self.seen / f"written-{number}").exists)
        found = write()
        self._mark("written", number)
        if first and self.fault not in {"straggler", "none"}:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def _mark(self, what: str, number: int) -> bool:
        """Whether nobody was here before."""
        try:
            (self.seen / f"{what}-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def until(there: Callable[[], bool], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def copies(seen: Path) -> dict[str, int]:
    """How many things were made more than once, and how many of these not with equal bytes."""
    made = [(path.name.partition("-")[0], path.read_bytes()) for path in seen.glob("[0-9]*-*")]
    times, kinds = (Counter(number for number, _ in each) for each in (made, set(made)))
    return {"seen twice": sum(n > 1 for n in times.values()), "different": sum(n > 1 for n in kinds.values())}


def hits(told: bytes, *found: bytes) -> int:
    """In how many forms these bytes were told: raw, hex, base64, as Python shows them."""
    forms = []
    for each in found:
        shown = (each.hex(), base64.b64encode(each).decode(), repr(each)[2:-1], repr(bytearray(each)), repr(list(each)))
        forms += [each, *(form.encode() for form in shown)]
    return sum(form in told for form in forms)


def key_bytes(*keys: dpfast.ReleaseKey) -> list[bytes]:
    """The bytes of release keys, and of what their workers get to choose rows."""
    return [part for key in keys for part in (tiers.secret_of(key), tiers.choosing(key.chooser()))]


@contextmanager
def disk(place: Path, size: int) -> Iterator[Callable[[int], object]]:
    """A disk in memory, of so many KiB; what is yielded changes its size. It wants root."""
    place.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=700", "tmpfs", place], check=True)
    try:
        yield lambda size: subprocess.run(["mount", "-o", f"remount,size={size}k", place], check=True)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


# ------------------------------------------------------------------ releases of visits, "known"


def at_home(home: Path, *names: str) -> Path:
    """A folder with rows, their release by one process, and what each of these releases needs."""
    visits.at_home(home, "one", *names)
    rows = visits.visits()
    visits.parquet(home / "rows", rows)
    visits.job(jobs, "known", rows, home, "one")
    for name in names:
        (home / f"{name}.seen").mkdir()
    return home


def under(engine: Any, rows: Any, home: Path, fault: str) -> dict[str, int]:
    """What a release was in which this happened."""
    seen = home / f"{fault}.seen"
    planted = Planted(engine, Fault(seen, fault))
    if fault == "numpy":  # no seal would take it, and no file of it is written
        key = dpfast.KeyFile(home / "visits.key").derive("known")
        how: dict[str, Any] = {"key": key, "engine": planted}
        counts = jobs.bounded_counts(rows, unit="user", stage=home / "numpy.stage", **visits.KINDS["known"], **how)
        jobs.release(counts, visits.mechanism("known", counts), ledger=None, to=home / "numpy.out", resume=True, **how)
        return copies(seen)
    visits.job(jobs, "known", rows, home, fault, resume=True, engine=planted)
    visits.same(home, "one", fault)
    return {"charges": visits.charges(home, fault), **copies(seen)}


def finished(engine: Any, rows: Any, home: Path, name: str) -> dict[str, int]:
    """What another driver makes of a release that was begun, and of the same into a new folder."""
    planted = Planted(engine, Fault(home / f"{name}.seen", "none"))
    visits.job(jobs, "known", rows, home, name, resume=True, engine=planted)
    visits.same(home, "one", name)
    key, ledger = dpfast.KeyFile(home / "visits.key").derive("known"), dpfast.Ledger(home / f"{name}.db")
    how: dict[str, Any] = {"key": key, "engine": planted}
    counts = jobs.bounded_counts(rows, unit="user", stage=home / f"{name}.stage", **visits.KINDS["known"], **how)
    jobs.release(
        counts, visits.mechanism("known", counts), ledger=ledger, to=home / f"{name}.again", resume=True, **how
    )
    assert visits.files(home / f"{name}.again") == visits.files(home / "one.out")
    return {"charges": visits.charges(home, name), **copies(home / f"{name}.seen")}


def order_dependent(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(tasks, "merged", visits.ordered)


def refused(engines: tuple[Any, Any], rows: Any, home: Path, name: str) -> dict[str, int]:
    """A merge that depends on the order of rows, on two engines that cut them otherwise.

    The first driver dies before the stage is complete; or its release is published, and the stage
    lost. Either ends in OtherInputError: no output, or none but the first.
    """
    first, second = (Planted(engine, order_dependent) for engine in engines)
    out, refusals = home / f"{name}.out", 0
    with visits.dying("freeze", stop), pytest.raises(KeyboardInterrupt):
        visits.job(jobs, "known", rows, home, name, resume=True, engine=first)
    with pytest.raises(OtherInputError, match="with different counts"):
        visits.job(jobs, "known", rows, home, name, resume=True, engine=second)
    assert not out.exists()
    assert visits.charges(home, name) == 0
    refusals += 1
    (home / f"{name}.stage").rename(home / f"{name}.first")
    tiers.forget_labels()  # other releases in this process had the same one
    visits.job(jobs, "known", rows, home, name, resume=True, engine=first)
    there = visits.files(out)
    (home / f"{name}.stage").rename(home / f"{name}.second")
    with pytest.raises(OtherInputError):
        visits.job(jobs, "known", rows, home, name, resume=True, engine=second)
    assert visits.files(out) == there
    return {"charges": visits.charges(home, name), "refused": refusals + 1}


def stop() -> None:
    raise KeyboardInterrupt


def alone(module: str, *arguments: str | Path) -> dict[str, dict[str, int]]:
    """What a module of tests/deep prints as a program: an engine of its own, and its warnings."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "examples"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, dict[str, int]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def judged(found: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The figures, if they are what they must be."""
    for name, figures in found.items():
        assert figures.get("charges", 1) == 1, (name, found)
        assert figures.get("seen twice", 3) >= 3, (name, found)
        assert (figures.get("different", 0) > 0) is (name == "numpy"), (name, found)
    return found
