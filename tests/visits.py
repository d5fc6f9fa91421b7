# SPDX-License-Identifier: Apache-2.0
"""Jobs that every engine must do alike: made-up visits, their releases, and drivers that die."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs import tasks, verbs
from dpfast.engines.jobs.folder import Folder

PAGES = 140_000  # three blocks; nobody visits the second
SECRET = 918_273_645_000  # what the ids of people begin with, and nothing else
# Times in milliseconds and nanoseconds are longer. The digits come first: megabytes are searched.
AN_ID = re.compile(rb"918273645(?:(?<!\d918273645)|(?<=\\x[0-9a-f]{2}918273645))\d{3}(?!\d)")
CAPS: dict[str, Any] = {"max_partitions": 4, "max_per_partition": 2}
# Each kind of release: what is counted, and the mechanism for it.
KINDS: dict[str, dict[str, Any]] = {
    "known": {"by": "page", "domain": range(PAGES), **CAPS},
    "unknown": {"by": ["country", "page"], "buckets": 8, **CAPS},
    "sums": {"by": "country", "domain": ["no", "se", "dk", "is"], "values": "minutes", "lower": 0, "upper": 60, "granularity": 0.25,
             "max_contributions": 6},
}  # fmt: skip
PHASES = ("freeze", "seal", "reserve", "draw", "publish")  # where a driver dies


def visits(people: int = 600) -> pa.Table:
    """Some 6,000 rows; half of them are of one page, and none between 60,000 and 139,000."""
    rng = np.random.default_rng(7)
    n = 10 * people
    page = np.where(rng.random(n) < 0.5, 41, rng.zipf(1.5, n) % 60_000)
    page[:20] = PAGES - 1 - np.arange(20)
    return pa.table({
        "user": SECRET + rng.integers(0, people, n), "page": page, "country": rng.choice(["no", "se", "dk"], n),
        "minutes": rng.random(n) * 90, "extra": ["unread"] * n,
    })  # fmt: skip


def parquet(folder: Path, rows: pa.Table) -> Path:
    """The rows in four files, of which one is empty."""
    folder.mkdir()
    step = -(-rows.num_rows // 3)
    for i in range(4):
        pq.write_table(rows.slice(step * i, step), folder / f"{i}.parquet")
    return folder


def mechanism(kind: str, counts: jobs.Counts) -> Any:
    if kind == "unknown":
        return jobs.Withholding(1, 1e-6, counts.sensitivity)
    return dpfast.DiscreteLaplace(1, counts.sensitivity)


def options(kind: str, home: Path) -> dict[str, Any]:
    """Those of `bounded_counts`. The sums are of the rows that counts under another key keep."""
    key = dpfast.KeyFile(home / "visits.key")
    chooser = {"chooser": key.derive("counts").chooser()} if kind == "sums" else {}
    return {"unit": "user", "key": key.derive(kind), **KINDS[kind], **chooser}


def released(
    dp: Any, kind: str, rows: Any, home: Path, name: str, *, resume: bool = False, ledger: Any = "own", **engine: Any
) -> dict[str, Any]:
    """Freeze and release, in folders of home; its ledger pays. What verify takes."""
    given = options(kind, home)
    paying = dpfast.Ledger(home / f"{name}.db") if ledger == "own" else ledger
    shards = {} if "shards" not in engine else {"shards": engine.pop("shards")}
    counts = dp.bounded_counts(rows, stage=home / f"{name}.stage", **given, **engine, **shards)
    how, key = mechanism(kind, counts), given["key"]
    dp.release(counts, how, key=key, ledger=paying, to=home / f"{name}.out", resume=resume, **engine)
    return {"to": home / f"{name}.out", "counts": counts, "mechanism": how, "key": key, **engine}


def job(dp: Any, kind: str, rows: Any, home: Path, name: str, **how: Any) -> None:
    """`released`, and verified."""
    dp.verify(**released(dp, kind, rows, home, name, **how))


def at_home(home: Path, *names: str) -> Path:
    """A folder with a key and a ledger for each name."""
    dpfast.KeyFile.create(home / "visits.key")
    for name in names:
        dpfast.Ledger(home / f"{name}.db", 10, delta=1e-3, create=True)
    return home


def charges(home: Path, name: str) -> int:
    """Refused attempts, which cost nothing, are no charges."""
    return sum(not each.refused for each in dpfast.Ledger(home / f"{name}.db").history())


def files(folder: Path) -> dict[str, str]:
    """The files of a folder, but for temporary ones that a killed process has left."""
    return {
        path.name: blake3(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if not path.name.startswith(".dpfast-")
    }


def same(home: Path, one: str, other: str) -> None:
    """Stage and output are equal, byte for byte."""
    for part in ("stage", "out"):
        assert files(home / f"{one}.{part}") == files(home / f"{other}.{part}"), part


# ------------------------------------------------------------------ people of two types


PEOPLE: dict[str, pa.Array] = {
    "int": pa.array([1, 2, 3]), "int32": pa.array([1, 2, 3], pa.int32()), "text": pa.array(["1", "2", "3"]),
    "large": pa.array(["1", "2", "3"], pa.large_string()), "coded": pa.array(["1", "2", "3"]).dictionary_encode(),
    "view": pa.array(["1", "2", "3"], pa.string_view()), "uint64": pa.array([1, 2, 3], pa.uint64()),
    "float": pa.array([1.0, 2.0, 3.0]), "decimal": pa.array([1, 2, 3], pa.decimal128(5, 1)), "date": pa.array([1, 2, 3], pa.date32()),
    "zoned": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Paris")), "bool": pa.array([True, False, True]), "bytes": pa.array([b"1", b"2", b"3"]),
}  # fmt: skip
TWO = [
    ("int", "text"), ("text", "int"), ("int", "float"), ("text", "float"), ("text", "decimal"), ("int", "decimal"), ("text", "date"),
    ("text", "zoned"), ("int", "bool"), ("text", "bytes"), ("uint64", "int"),
]  # fmt: skip
ONE = [("int32", "int"), ("int", "int32"), ("text", "large"), ("text", "coded"), ("coded", "text"), ("view", "text")]
ONCE: dict[str, Any] = {"unit": "user", "by": "page", "domain": range(2), "max_partitions": 1, "max_per_partition": 1}
MIXED = "must be of one type in all rows, and is .* in some and .* in others"


def two_types(folder: Path, *types: str) -> tuple[Path, list[pa.Table]]:
    """Three people in two files and two tables, whose ids are of two types."""
    folder.mkdir()
    tables = [pa.table({"user": PEOPLE[each], "page": [0, 0, 0]}) for each in types]
    for i, each in enumerate(tables):
        plain = each if types[i] != "view" else each.set_column(0, "user", PEOPLE["large"])
        pq.write_table(plain, folder / f"{i}.parquet")
    return folder, tables


# ------------------------------------------------------------------ what goes wrong


@contextmanager
def dying(phase: str, die: Callable[[], object]) -> Iterator[None]:
    """The driver dies within a phase, when some of its work is done."""
    patched = pytest.MonkeyPatch()

    def before(owner: Any, name: str, when: Callable[..., bool] = lambda *_: True) -> None:
        works = getattr(owner, name)

        def dies(*given: Any, **named: Any) -> Any:
            if when(*given):
                die()
            return works(*given, **named)

        patched.setattr(owner, name, dies)

    if phase == "freeze":
        before(Folder, "write", lambda _, name, __: name in ("00000002.arrow", verbs.FROZEN))
    elif phase == "seal":
        before(dpfast.ReleaseKey, "seal")
    elif phase == "reserve":
        before(verbs, "Draw")  # it is on the disk, and nothing is drawn
    elif phase == "draw":
        before(tasks, "put", lambda _, block, __: block == 1)
        before(verbs, "ranked")
    else:
        before(Folder, "write", lambda _, name, __: name == verbs.MANIFEST)
    try:
        yield
    finally:
        patched.undo()


def ordered(plan: Any, block: int, partial: pa.Table | None) -> pa.Table:
    """A merge with a planted fault: of rows with equal places the last one wins."""
    size = min(tasks.BLOCK, plan.size - block * tasks.BLOCK)
    counts = np.zeros(size, np.int64)
    if partial is not None:
        counts[np.asarray(partial["row"])] += np.asarray(partial["n"])
    return pa.table({"n": counts})


def driver(rows: Any, engine: Any, home: Path, name: str, phase: str) -> None:
    """A driver of its own, with workers elsewhere, dies within a phase."""
    works = engine.run

    def run(task: Any, blocks: Any) -> Any:
        if phase == "draw" and isinstance(task, tasks.Publish):  # one block is written, and the others are not
            works(task, [1])
            os._exit(9)
        return works(task, blocks)

    engine.run = run
    with dying(phase, lambda: os._exit(9)):
        job(jobs, "known", rows, home, name, resume=True, engine=engine)


if __name__ == "__main__":  # a driver of its own: a scheduler's address, home, the name of the job, where it dies
    from dask.distributed import Client

    from dpfast.engines import dask

    address, there, called, at = sys.argv[1:]
    with Client(address) as client:
        driver(f"{there}/rows", dask.Cluster(client, 4), Path(there), called, at)
