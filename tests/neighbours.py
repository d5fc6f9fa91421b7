# SPDX-License-Identifier: Apache-2.0
"""What outputs of neighbouring inputs may not tell: the order and the layout of what is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import visits

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs import tasks, verbs


def layout(out: Path) -> Any:
    """All of an output that is no noisy number."""
    listed = json.loads((out / verbs.MANIFEST).read_text())
    parts = [pq.ParquetFile(out / each["name"]) for each in listed["files"]]
    groups = [(part.metadata.num_rows, part.metadata.num_row_groups, part.schema_arrow) for part in parts]
    return listed, groups, [part.read().select(listed["keys"]).to_pydict() for part in parts]


def neighbours(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """A unit more, first in the rows, with a hidden or a shown key; one less; one row moved."""
    for name, page in (("hidden", 70_000), ("shown", 41)):
        one = {"user": [visits.SECRET - 1], "page": [page], "country": ["se"], "minutes": [1.0], "extra": [""]}
        yield f"one more, {name}", pa.concat_tables([pa.table(one), rows])
    yield "one less", rows.filter(pa.compute.not_equal(rows["user"], rows["user"][0]))
    yield "moved", pa.concat_tables([rows.slice(rows.num_rows - 1), rows.slice(0, rows.num_rows - 1)])


def released(kind: str, rows: Any, home: Path, name: str, engine: Any) -> Any:
    """The layout of a release of these rows under a key of its own."""
    key = dpfast.Key.generate().derive(kind)
    how = {"key": key, "engine": engine}
    counts = jobs.bounded_counts(rows, unit="user", stage=home / f"{name}.stage", **visits.KINDS[kind], **how)
    jobs.release(counts, visits.mechanism(kind, counts), ledger=None, to=home / f"{name}.out", **how)
    return layout(home / f"{name}.out")


def tells(one: Any, other: Any) -> str | None:
    """What two layouts tell beside the noisy numbers. Unknown keys: by noise other keys are shown.

    Then each must be sorted, and cut by the rank among those shown, as its rows alone say.
    """
    if {**one[0], "files": None} != {**other[0], "files": None}:
        return "what is said of it"
    if one[0]["release"]["domain"]:
        return None if one == other else "files, row groups or keys"
    for listed, groups, keys in (one, other):
        shown = [list(zip(*each.values(), strict=True)) for each in keys]
        rows = [row for each in shown for row in each]
        if rows != sorted(rows):
            return "the order of keys"
        sizes = [min(verbs.BLOCK, len(rows) - at) for at in range(0, len(rows), verbs.BLOCK)]
        if [each[:2] for each in groups] != [(size, 1) for size in sizes]:
            return "the sizes of files"
        if [each["name"] for each in listed["files"]] != [f"part-{j:08}.parquet" for j in range(len(sizes))]:
            return "the names of files"
    return None


def list_of(rows: pa.Table) -> list[pa.Table]:
    return [rows]


def leaks(
    kind: str, rows: pa.Table, home: Path, engine: Any, given: Callable[[pa.Table], Any] = list_of
) -> Iterator[str]:
    """The neighbours whose output has another order or layout, one by one, and what differs.

    given: the form in which the engine takes rows.
    """
    before = released(kind, given(rows), home, "before", engine)
    for i, (name, other) in enumerate(neighbours(rows)):
        if what := tells(before, released(kind, given(other), home, f"{i}", engine)):
            yield f"{name}: {what}"


# ------------------------------------------------------------------ planted leaks


def by_appearance(rows: pa.Table) -> Any:
    """`ranked`, but in the order in which keys first come in the rows."""
    ranked = verbs.ranked

    def leaking(tables: list[pa.Table], terms: Any) -> list[tuple[int, pa.Table]]:
        table = pa.concat_tables([each for _, each in ranked(tables, terms)])
        there, keys = (list(zip(*(each[name].to_pylist() for name in terms.by), strict=True)) for each in (rows, table))
        return [(0, table.take(sorted(range(len(keys)), key=lambda i: there.index(keys[i]))))]

    return leaking


def by_bucket() -> Any:
    """`ranked`, but with a file for each bucket."""
    ranked = verbs.ranked
    return lambda tables, terms: [(j, ranked([each], terms)[0][1]) for j, each in enumerate(tables) if each.num_rows]


def by_count() -> Any:
    """`put`, but with the largest counts first."""
    put = tasks.put
    return lambda to, block, table: put(to, block, table.sort_by([("count", "descending")]))
