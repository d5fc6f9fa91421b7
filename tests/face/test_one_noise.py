# SPDX-License-Identifier: Apache-2.0
"""One charge, one noise: a later try with a change is refused, or each cell keeps its noise.

Every door that takes a release key is found by its signature, and each of its parameters has a row
here: what it is changed to, and whether a later try under the same label may have it. The values
are those that would hide a mistake, two hundred cells of one number: so names, orders, shapes and
terms can trade places without a change of any count. The noise itself decides: its scale is 1e15,
so no two cells have the same by chance (1e-9 in a comparison, 1e-7 in a run).
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from places import ROOT
from running import PlainTotals
from table_files import read
from tiers import forget_labels, totals_in_full, trees_made

import dpfast
from dpfast.app.cli import commands, main
from dpfast.engines import jobs
from dpfast.errors import DataDependentError, DpfastError
from dpfast.noise.release import seal

PACKAGE = Path(dpfast.__file__).parent
N = 200
EPSILON = Fraction(1, 10**15)
LAW = dpfast.DiscreteLaplace(EPSILON, 1)
OTHER = dpfast.DiscreteLaplace(EPSILON / 2, 1)
REFUSED, PRIVATE, SAME = "refused", "refused for its values", "the same noise"
# Parameters that say who pays, where things lie or how fast; and what an earlier step of the same
# door made. They decide no noise.
NO_NOISE = {
    "key",
    "ledger",
    "label",
    "resume",
    "out",
    "threads",
    "to",
    "stage",
    "counts",
    "block",
    "digests",
    "options",
    "unknown",
}
_labels = count()


class World:
    """A key, a ledger, and the label of one release."""

    def __init__(self, folder: Path, *, pays: bool) -> None:
        self.folder = folder / f"world {next(_labels)}"
        self.folder.mkdir()
        self.label = "visits 2026-11"
        self.master = dpfast.KeyFile.create(self.folder / "visits.key")
        self.ledger = dpfast.Ledger(self.folder / "budget.db", 10**6, delta=Fraction(1, 2), create=True)
        self.pays = pays

    @property
    def key(self) -> dpfast.ReleaseKey:
        return self.master.derive(self.label)

    def release(self, mechanism: Any, values: Any, **options: Any) -> Any:
        if self.pays:
            return self.ledger.release(mechanism, values, key=self.key, resume=True, **options)
        return mechanism.release(values, key=self.key, resume=True, **options)

    def who_pays(self) -> dict[str, Any]:
        return {"key": self.key, "resume": True, **({"ledger": self.ledger} if self.pays else {})}

    def forget(self) -> None:
        """What another process knows: nothing."""
        forget_labels()


Noise = dict[Any, int]  # what each published cell got, by what its reader knows of the cell


class Row(NamedTuple):
    """What a parameter is changed to, and what becomes of the later try."""

    verdict: str
    changes: tuple[dict[str, Any], ...]


def sealed(*changes: dict[str, Any]) -> Row:
    """It is public: the refusal says so, whatever the values are."""
    return Row(REFUSED, changes)


def private(*changes: dict[str, Any]) -> Row:
    return Row(PRIVATE, changes)


def free(*changes: dict[str, Any]) -> Row:
    """It may change: every cell keeps its noise."""
    return Row(SAME, changes)


class Door(NamedTuple):
    """A way to noise, and a row for each parameter. publish: releases, and takes the values off."""

    name: str
    publish: Callable[..., Noise]
    rows: dict[str, Row]
    takes: tuple[Callable[..., Any], ...] = ()  # the public callables


def traded(values: Any) -> Any:
    """The first two trade places."""
    found = list(values)
    return [found[1], found[0], *found[2:]]


NAMES = [f"shop {i:03}" for i in range(N)]
FIVES = [5] * N


# ------------------------------------------------------------------ arrays


def array(world: World, *, mechanism: Any = LAW, values: Any = FIVES, names: Any = NAMES, **options: Any) -> Noise:
    noisy = world.release(mechanism, values, names=names, **options)
    labels = names if names is not None else [str(at) for at in np.ndindex(np.shape(values))]
    return dict(zip(labels, _plus(noisy, values), strict=True))


def _plus(noisy: Any, values: Any) -> list[int]:
    return [int(a) - int(b) for a, b in zip(np.ravel(noisy), np.ravel(values), strict=True)]


ARRAY = {
    "values": private({"values": [6, *FIVES[1:]]}),
    "names": private({"names": traded(NAMES)}, {"names": [*NAMES[:-1], "shop x"]}, {"names": None}),
    "columns": private(),  # frames have rows for it
    "dtype": free({"dtype": "int64"}),
    "lower": free({"lower": -(2**62)}),
    "upper": free({"upper": 2**62}),
    "clamp": sealed({"clamp": (0, 9)}),
    "missing": sealed({"missing": 0}),
    "constant_time": free({"constant_time": True}),
    "mechanism": sealed({"mechanism": OTHER}, {"mechanism": dpfast.DiscreteGaussian(10**9, sensitivity=dpfast.Sensitivity(1, 1))}),
}  # fmt: skip


def grid(world: World, *, values: Any = None, **options: Any) -> Noise:
    """An array without names, whose cells are known by their places."""
    return array(world, values=np.full((10, N // 10), 5) if values is None else values, names=None, **options)


def table(world: World, *, frame: Any = None, **options: Any) -> Noise:
    """A frame of pandas with an index: rows and columns have names."""
    found = _frame() if frame is None else frame
    noisy = world.release(LAW, found, **options)
    return {(row, name): int(noisy.loc[row, name]) - 5 for row in noisy.index for name in noisy.columns}


def chosen(world: World, *, columns: Any = ("east", "west"), **options: Any) -> Noise:
    """Two columns of a frame of four."""
    return table(world, frame=_frame(columns=("east", "west", "north", "year")), columns=list(columns), **options)


def _frame(columns: Any = ("east", "west"), index: Any = tuple(NAMES[: N // 2])) -> Any:
    import pandas as pd

    return pd.DataFrame(np.full((len(index), len(columns)), 5), index=list(index), columns=list(columns))


# ------------------------------------------------------------------ running totals


def stepped(
    world: World,
    *,
    totals: Any = None,
    names: Any = NAMES,
    days: Any = (FIVES, FIVES),
    state: Any = "state",
    replay: Any = (),
) -> Noise:
    """Two steps; the noise of the second, which a later try may draw again. The ledger pays."""
    options = {"key": world.key, "names": names, "state": state and world.folder / state, "replay": replay}
    totals = PlainTotals(epsilon=1) if totals is None else totals
    running = world.ledger.running(totals, **options, resume=bool(world.ledger.history()))
    for t, day in enumerate(days, 1):
        with suppress(dpfast.errors.ParameterError):  # the first one is released, and the state has gone on
            noisy = running.step(t, day)
    return dict(zip(names, _plus(noisy.values, np.sum(days, axis=0)), strict=True))


RUNNING = {
    "totals": sealed({"totals": PlainTotals(epsilon=1, ceiling=999)}, {"totals": PlainTotals(epsilon=1, bound=9)}, {"totals": PlainTotals(epsilon=2)}),
    "names": sealed({"names": [*NAMES[:-1], "shop x"]}),
    "order": free({"names": traded(NAMES)}),
    "counts of a step": private({"days": (FIVES, [6, *FIVES[1:]])}),
    "counts of an earlier step": private({"state": None, "replay": [[6, *FIVES[1:]]]}, {"state": "other", "days": ([6, *FIVES[1:]], [4, *FIVES[1:]])}),
    "state": free({"state": "another"}, {"state": None}),
    "replay": free({"state": None, "replay": [FIVES]}, {"replay": iter([FIVES])}),
}  # fmt: skip


def counted_steps(
    world: World,
    *,
    totals: Any = None,
    names: Any = NAMES,
    days: Any = None,
    state: Any = "state",
    replay: Any = (),
    **caps: int,
) -> Noise:
    """Two steps of rows, a person a shop and step, who may count twice."""
    options = {"key": world.key, "names": names, "state": state and world.folder / state, "replay": replay}
    plain = PlainTotals(epsilon=1, per_unit_steps=2) if totals is None else totals
    rows = plain.bounded(**(caps or {"max_partitions": 1, "max_per_partition": 1}))
    running = world.ledger.running(rows, **options, resume=bool(world.ledger.history()))
    for t, day in enumerate(ROW_DAYS if days is None else days, 1):
        with suppress(dpfast.errors.ParameterError):  # the first one is released, and the state has gone on
            noisy = running.step(t, *day)
    return dict(zip(names, _plus(noisy.values, [2] * N), strict=True))


def at_once(world: World, *, totals: Any = None, names: Any = NAMES, days: Any = (FIVES, FIVES)) -> Noise:
    """Two steps in one call, for which a ledger may have been charged; the noise of the second."""
    if world.pays and not world.ledger.history():
        running = world.ledger.running(GROWING, key=world.key, names=NAMES)
        for t in (1, 2):
            running.step(t, FIVES)
    totals = GROWING if totals is None else totals
    noisy = dpfast.running_totals(totals, days, key=world.key, names=names, resume=True).values  # noqa: PD011  no frame
    return dict(zip(names, (noisy[1] - np.sum(days[:2], axis=0)).tolist(), strict=True))


def growing(**changed: Any) -> dpfast.RunningTotals:
    about = {"sensitivity": dpfast.Sensitivity(1, 1), "epsilon": "1e-7", "delta": "1e-8", **changed}
    return dpfast.RunningTotals(12, **about)


GROWING = growing()
AT_ONCE = {
    "totals": sealed({"totals": growing(bound=9)}, {"totals": growing(epsilon="2e-7")}, {"totals": growing(per_unit_steps=2)}, {"totals": growing(sensitivity=dpfast.Sensitivity(1, 1, unit="family"))}),
    "names": sealed({"names": [*NAMES[:-1], "shop x"]}),
    "order": free({"names": traded(NAMES)}),
    "counts of a step": private({"days": (FIVES, [6, *FIVES[1:]])}),
    "counts of an earlier step": private({"days": ([6, *FIVES[1:]], [4, *FIVES[1:]])}),
    "counts": free({"days": (FIVES, FIVES, FIVES)}),
}  # fmt: skip


# ------------------------------------------------------------------ counts of rows


PEOPLE = [f"p{i}" for i in range(N)]


def counted(world: World, *, mechanism: Any = None, as_array: bool = False, **changed: Any) -> Noise:
    """One row a person, and one person a shop. as_array: whether a door gets the counts alone."""
    given = {"keys": NAMES, "unit_ids": PEOPLE, "domain": NAMES, "max_partitions": 1, "max_per_partition": 1, **changed}
    found = dpfast.bounded_histogram(given.pop("keys"), given.pop("unit_ids"), key=world.key, **given)
    law = dpfast.DiscreteLaplace(EPSILON, WIDE) if mechanism is None else mechanism
    noisy = world.release(law, found.counts) if as_array else found.release(law, **world.who_pays())
    return dict(zip(given["domain"], _plus(noisy, found.counts), strict=True))


ROW_DAYS = (NAMES, PEOPLE), (NAMES, PEOPLE)
OTHER_KEYS, OTHER_PEOPLE = [NAMES[1], *NAMES[1:]], ["another", *PEOPLE[1:]]
RUNNING_ROWS = {
    "totals": sealed(
        {"totals": PlainTotals(epsilon=1, per_unit_steps=1)},
        {"totals": PlainTotals(epsilon=1, per_unit_steps=2, apart=2)},
        {"totals": PlainTotals(epsilon=2, per_unit_steps=2)},
    ),
    "names": sealed({"names": [*NAMES[:-1], "shop x"]}),
    "order": free({"names": traded(NAMES)}, {"days": (ROW_DAYS[0], (NAMES[::-1], PEOPLE[::-1]))}),
    "keys": private({"days": (ROW_DAYS[0], (OTHER_KEYS, PEOPLE))}),
    "unit_ids": private({"days": (ROW_DAYS[0], (NAMES, OTHER_PEOPLE))}),
    "rows of an earlier step": private(
        {"state": None, "replay": [(NAMES, OTHER_PEOPLE)]},
        {"state": "other", "days": ((OTHER_KEYS, PEOPLE), ROW_DAYS[1])},
    ),
    "max_partitions": sealed({"max_partitions": 1, "max_contributions": 1}),
    "max_per_partition": sealed({"max_partitions": 1, "max_per_partition": 2}),
    "max_contributions": sealed(
        {"max_contributions": 1}, {"max_contributions": 1, "max_partitions": 1, "max_per_partition": 1}
    ),
    "state": free({"state": "another"}, {"state": None}),
    "replay": free({"state": None, "replay": [ROW_DAYS[0]]}, {"replay": iter([ROW_DAYS[0]])}),
}


WIDE = dpfast.Sensitivity(4, 64)
SUBSTITUTED = dpfast.DiscreteLaplace(EPSILON, dpfast.Sensitivity(4, 64, adjacency="substitution"))
OF_FAMILIES = dpfast.DiscreteLaplace(EPSILON, dpfast.Sensitivity(4, 64, unit="family"))
ONES = {"values": [1] * N, "lower": 0, "upper": 1}  # sums of ones are counts
HISTOGRAM = {
    "mechanism": sealed({"mechanism": dpfast.DiscreteLaplace(EPSILON / 2, WIDE)}),
    "keys": private({"keys": [NAMES[1], *NAMES[1:]]}),
    "unit_ids": private({"unit_ids": ["p1", "p1", *PEOPLE[2:]]}),
    "values": sealed({**ONES, "max_per_partition": None}),
    "lower": sealed({**ONES, "lower": -1, "max_per_partition": None}),
    "upper": sealed({**ONES, "upper": 2, "max_per_partition": None}),
    "granularity": sealed({**ONES, "granularity": 1, "max_per_partition": None}),
    "domain": sealed({"domain": traded(NAMES)}),
    "max_partitions": sealed({"max_partitions": 2}),
    "max_per_partition": sealed({"max_per_partition": 2}),
    "max_contributions": sealed({"max_contributions": 1}),
    "outside": free({"outside": "refuse"}),
    "adjacency": sealed({"adjacency": "substitution", "mechanism": SUBSTITUTED}),
    "unit": sealed({"unit": "family", "mechanism": OF_FAMILIES}),
}


def unknown(world: World, **changed: Any) -> Noise:
    """Keys that are found, each of so many rows that it is shown."""
    given = {
        "keys": NAMES, "counts": [2**60] * N, "epsilon": EPSILON, "delta": Fraction(1, 10**6), "buckets": 4,
        "sensitivity": dpfast.Sensitivity(1, 1, keys="private"), **changed,
    }  # fmt: skip
    found = dpfast.thresholded(given.pop("keys"), given.pop("counts"), **given, **world.who_pays())
    assert len(found.keys) >= N - 1, "the scale of the noise hides keys"
    return {str(key): int(noisy) - 2**60 for key, noisy in zip(found.keys, found.counts, strict=True)}


MEAN_KEPT = {"values": [5] * N, "lower": 0, "upper": 7, "max_partitions": 1, "max_per_partition": 1}


def meant(world: World, *, values: Any = None, caps: Any = None, **changed: Any) -> Noise:
    """Means, one row a person: the sums and the counts."""
    kept = {**MEAN_KEPT, **({} if values is None else {"values": values}), **(caps or {})}
    counted = dpfast.bounded_histogram(NAMES, PEOPLE, domain=NAMES, key=world.key, **kept)
    found = counted.mean(**{"epsilon": 2 * EPSILON, **changed}, **world.who_pays())
    true = [int(2 * each - 7) for each in kept["values"]]
    noise = {(name, "sum"): s for name, s in zip(NAMES, _plus(found.sums, true), strict=True)}
    return noise | {(name, "count"): n for name, n in zip(NAMES, _plus(found.counts, [1] * N), strict=True)}


MEAN = {
    "values": private({"values": [6, *FIVES[1:]]}),
    "caps": sealed(
        {"caps": {"max_per_partition": 2}},
        {"caps": {"lower": 1}},
        {"caps": {"upper": 8}},
        {"caps": {"max_contributions": 1}},
    ),
    "epsilon": sealed({"epsilon": EPSILON}),
    "delta": sealed({"epsilon": 1, "delta": Fraction(1, 10**6)}),
    "rho": sealed({"rho": Fraction(1, 10**16), "epsilon": None}),
}


UNKNOWN = {
    "keys": private({"keys": [*NAMES[:-1], "shop x"]}),
    "counts": private({"counts": [2**60 + 1, *[2**60] * (N - 1)]}),
    "epsilon": sealed({"epsilon": EPSILON / 2}),
    "delta": sealed({"delta": Fraction(1, 10**7)}),
    "sensitivity": sealed({"sensitivity": dpfast.Sensitivity(1, 2, keys="private")}),
    "noise": sealed({"noise": "gaussian"}),
    "pre_threshold": sealed({"pre_threshold": 2}),
    "buckets": sealed({"buckets": 5}),
}


def grown(world: World, *, counts: Any = FIVES, levels: Any = None, **changed: Any) -> Noise:
    """A tree of two hundred leaves in named areas."""
    areas = [f"area {i // 10:02}" for i in range(N)] if levels is None else levels[0]
    given = {"sensitivity": dpfast.Sensitivity(1, 1), "epsilon": EPSILON, **changed}
    shape = {} if "branching" in given else {"levels": [areas]}
    found = dpfast.tree(counts, **shape, **given, **world.who_pays())
    names = [areas[i] for i in range(0, N, 10)] if shape else range(len(found.noisy[1]))
    noise = {("leaf", i): int(found.noisy[0][i]) - counts[i] for i in range(N)}
    return noise | {("area", name): int(noisy) - 50 for name, noisy in zip(names, found.noisy[1], strict=False)}


SWAPPED = [f"area {(i // 10) ^ 1:02}" for i in range(N)]
TREE = {
    "counts": private({"counts": [6, *FIVES[1:]]}),
    "levels": sealed({"levels": [SWAPPED]}),
    "branching": sealed({"branching": 10}),
    "sensitivity": sealed({"sensitivity": dpfast.Sensitivity(1, 2)}),
    "epsilon": sealed({"epsilon": EPSILON / 2}),
    "delta": sealed({"delta": Fraction(1, 10**6)}),
    "rho": sealed({"rho": Fraction(1, 10**16), "epsilon": None}),
    "weights": sealed({"weights": [1, 2, 0]}),
    "workload": sealed({"workload": [[0, 10], [5, 180]]}),
    "root": sealed({"root": True, "levels": [["all"] * N]}),
}


def medians(world: World, *, values: Any = None, unit_ids: Any = PEOPLE, q: Any = (0.5,), **changed: Any) -> Noise:
    """A tree of two hundred cells for each of six keys, and the noise of each leaf."""
    given = {
        "lower": 0, "upper": 199, "step": 1, "by": KEYED, "domain": [*"abcdef"], "max_partitions": 1, "max_per_partition": 1,
        "epsilon": EPSILON, **changed,
    }  # fmt: skip
    column = np.arange(N) % 200 if values is None else np.array(values)
    with trees_made() as made:
        dpfast.quantiles(column, unit_ids, q, **given, **world.who_pays())
    at = (np.clip(column, given["lower"], given["upper"]) - given["lower"]) // given["step"]
    true = Counter(zip(given["by"] or [""] * N, at.tolist(), strict=True))
    noisy = zip(given["domain"] or [""], [tree.noisy[0].tolist() for tree in made], strict=True)
    return {(key, cell): count - true[key, cell] for key, leaves in noisy for cell, count in enumerate(leaves)}


KEYED = ([*"abcdef"] * N)[:N]
QUANTILES = {
    "values": private({"values": [1, *range(1, N)]}),
    "unit_ids": private({"unit_ids": ["p1", "p1", *PEOPLE[2:]]}),
    "q": free({"q": (0.5, 0.25)}),
    "lower": sealed({"lower": 1}),
    "upper": sealed({"upper": 198}),
    "step": sealed({"step": 199}, {"upper": 198, "step": 2}),
    "by": private({"by": traded(KEYED)}),
    "domain": sealed({"domain": [*"abcdfe"]}, {"domain": None, "by": None, "max_partitions": None}),
    "max_partitions": sealed({"max_partitions": 2}),
    "max_per_partition": sealed({"max_per_partition": 2}),
    "max_contributions": sealed({"max_contributions": 1}),
    "adjacency": sealed({"adjacency": "substitution"}),
    "unit": sealed({"unit": "family"}),
    "epsilon": sealed({"epsilon": EPSILON / 2}),
    "delta": sealed({"delta": Fraction(1, 10**6)}),
    "rho": sealed({"rho": Fraction(1, 10**16), "epsilon": None}),
    "confidence": free({"confidence": 0.5}),
}


# ------------------------------------------------------------------ blocks on many machines


def blocks(
    world: World, *, values: Any = FIVES, names: Any = NAMES, column: str = "", mechanism: Any = LAW, clamp: Any = None,
    missing: Any = None, shape: Any = (N,), domain: Any = None, buckets: int | None = None, terms: Any = None,
    source: bytes = b"",
) -> Noise:  # fmt: skip
    """The digests, the seal, the reservation and the drawing of one block."""
    columns = {column: mechanism} if column else mechanism
    found = world.key.digester(mechanism, column=column, clamp=clamp, missing=missing)(0, values, names=names)
    size = {"domain": domain} if domain is not None else {"buckets": buckets} if buckets else {"shape": shape}
    made = world.key.seal(columns, [found], **size, terms=terms, source=source)
    drawing = world.ledger.reserve(made, resume=True) if world.pays else made.without_ledger(resume=True)
    noisy = drawing.release(0, values, names=names, clamp=clamp, missing=missing)
    return dict(zip(NAMES if names is None else names, _plus(noisy, values), strict=True))


BLOCKS = {
    "values": private({"values": [6, *FIVES[1:]]}),
    "names": private({"names": traded(NAMES)}, {"names": None}),
    "column": sealed({"column": "n"}),
    "mechanism": sealed({"mechanism": OTHER}),
    "clamp": sealed({"clamp": (0, 9)}),
    "missing": sealed({"missing": 0}),
    "shape": sealed({"shape": (10, N // 10)}),
    "domain": sealed({"domain": NAMES}),
    "buckets": sealed({"buckets": 1}),
    "terms": sealed({"terms": {"order": "by city"}}),
    "source": private({"source": b"another file"}),
}


# ------------------------------------------------------------------ engines


def job(world: World, *, shards: int = 1, true: int = 1, **changed: Any) -> Noise:
    """Rows of people to counts of shops, on a stage of its own."""
    number = next(_labels)
    rows = changed.pop(
        "rows", pa.table({"person": PEOPLE, "again": PEOPLE, "shop": NAMES, "other": traded(NAMES), "one": [1] * N})
    )
    law = changed.pop("mechanism", dpfast.DiscreteLaplace(EPSILON, WIDE))
    given = {"unit": "person", "by": "shop", "domain": NAMES, "max_partitions": 1, "max_per_partition": 1, **changed}
    counts = jobs.bounded_counts(
        rows, key=world.key, stage=world.folder / f"{number}.stage", engine=jobs.OneProcess(shards), **given
    )
    paid = {"ledger": None, **world.who_pays()}
    out = world.folder / f"{number}.out"
    facts = jobs.release(counts, law, to=out, **paid)
    found = pa.concat_tables(pq.read_table(out / each["name"]) for each in facts["files"]).to_pydict()
    label, *_, number = found
    return {str(key): noisy - true for key, noisy in zip(found[label], found[number], strict=True)}


def unknown_job(world: World, **changed: Any) -> Noise:
    """Sums of keys that are found, each of so many people that it is shown."""
    return job(world, true=PEOPLE_EACH * MOST, **{**UNKNOWN_KEYS, **changed})


MOST, PEOPLE_EACH = 2**50, 24
SUMMED = dpfast.Sensitivity(1, MOST, keys="private")
MANY = pa.table({
    "person": [f"p{i}" for i in range(N * PEOPLE_EACH)],
    "again": [f"p{i}" for i in range(N * PEOPLE_EACH)],
    "shop": NAMES * PEOPLE_EACH,
    "other": traded(NAMES) * PEOPLE_EACH,
    "most": [MOST] * (N * PEOPLE_EACH),
})  # fmt: skip
UNKNOWN_KEYS: dict[str, Any] = {
    "rows": MANY, "domain": None, "buckets": 4, "values": "most", "lower": 0, "upper": MOST, "max_per_partition": None,
    "mechanism": jobs.Withholding(1, Fraction(1, 10**6), SUMMED),
}  # fmt: skip
SUMS = {"values": "one", "lower": 0, "upper": 1, "max_per_partition": None}
JOB = {
    "rows": private({"rows": pa.table({"person": PEOPLE, "shop": [NAMES[1], *NAMES[1:]]})}),
    "unit": sealed({"unit": "again"}),
    "by": sealed({"by": "other"}),
    "domain": sealed({"domain": [*NAMES[:-1], "shop x"]}),
    "buckets": free({"buckets": 7}),  # a job whose keys are known has none
    "values": sealed(SUMS),
    "max_partitions": sealed({"max_partitions": 2}),
    "max_per_partition": sealed({"max_per_partition": 2}),
    "max_contributions": sealed({"max_contributions": 1}),
    "lower": sealed({**SUMS, "lower": -1}),
    "upper": sealed({**SUMS, "upper": 2}),
    "granularity": sealed({**SUMS, "granularity": 1}),
    "adjacency": sealed({"adjacency": "substitution", "mechanism": SUBSTITUTED}),
    "privacy_unit": sealed({"privacy_unit": "family", "mechanism": OF_FAMILIES}),
    "chooser": sealed({"chooser": dpfast.Key.generate().derive("another").chooser()}),
    "mechanism": sealed({"mechanism": dpfast.DiscreteLaplace(EPSILON / 2, WIDE)}),
    "engine": free({"shards": 3}),
}


def lake(
    world: World, engine: str, *, rows: Any = None, by: Any = "shop", column: str = "n", mechanism: Any = LAW
) -> Noise:
    """A table of counts that an engine holds."""
    number = next(_labels)
    found = pa.table({"shop": NAMES, "other": traded(NAMES), "n": FIVES, "m": FIVES}) if rows is None else rows
    where = {"stage": world.folder / f"{number}.stage", "to": world.folder / f"{number}.out"}
    paid = {"ledger": None, **world.who_pays()}
    if engine == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        from dpfast.engines import duckdb as dp

        with duckdb.connect() as connection:
            connection.register("rows", found)
            noisy = dp.release(connection.table("rows"), mechanism, by=by, column=column, **where, **paid).fetchall()
    else:
        polars = pytest.importorskip("polars")
        from dpfast.engines import polars as dp

        noisy = (
            dp.release(polars.from_arrow(found).lazy(), mechanism, by=by, column=column, **where, **paid)
            .collect()
            .rows()
        )
    return {row[0]: row[-1] - 5 for row in noisy}


LAKE = {
    "rows": private({"rows": pa.table({"shop": NAMES, "n": [6, *FIVES[1:]]})}),
    "by": sealed({"by": "other"}, {"by": ["shop", "other"]}),
    "column": sealed({"column": "m"}),
    "mechanism": sealed({"mechanism": OTHER}),
}


# ------------------------------------------------------------------ the command line

LEFT, RIGHT = [f"a{i:03}" for i in range(N)], [f"b{N - i:04}" for i in range(N)]
FORMATS = "csv", "csv.gz", "jsonl", "parquet", "arrow"


class Refused(Exception):  # noqa: N818  an exit code
    pass


def _run(world: World, command: str, source: Path, out: Path, options: dict[str, Any]) -> None:
    """Raises: Refused."""
    _keyed(world, [command, str(source), str(out), "--force", "--resume"], options)


def _keyed(world: World, words: list[str], options: dict[str, Any]) -> None:
    """Raises: Refused."""
    words = [*words, "--quiet", "--ledger", str(world.ledger.path)]
    words += ["--key-file", str(world.master.path), "--label", world.label]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            words += (
                []
                if each is None
                else [name]
                if each is True
                else [name, *map(str, each if isinstance(each, tuple) else [each])]
            )
    if code := main(words):
        raise Refused(code)


def _columns(path: Path) -> dict[str, list[Any]]:
    if path.name.endswith((".parquet", ".arrow")):
        return read(path).to_pydict()
    import pandas as pd

    if ".jsonl" in path.name:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return {name: [line[name] for line in lines] for name in lines[0]}
    return {name: list(cells) for name, cells in pd.read_csv(path, dtype=object).items()}


def written(path: Path, columns: dict[str, Any]) -> Path:
    """A file of columns."""
    import pandas as pd

    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, pa.table(columns).schema) as out:
            out.write_table(pa.table(columns))
    elif path.suffix == ".jsonl":
        rows = zip(*columns.values(), strict=True)
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        pd.DataFrame(columns).to_csv(path, index=False)
    return path


def filed(world: World, end: str, *, columns: Any = None, out: str = "", **options: Any) -> Noise:
    """`privatize`. The reader knows a cell by its row's labels and its column."""
    cells = {"a": LEFT, "b": RIGHT, "n": FIVES, "m": FIVES} if columns is None else columns
    number = next(_labels)
    source = written(world.folder / f"{number} in.{end}", cells)
    given = {"--column": "n", "--epsilon": "1/1000000000000000", "--sensitivity": 1, "--sort-by": None, **options}
    target = world.folder / f"{number} out.{out or end}"
    _run(world, "privatize", source, target, given)
    found = _columns(target)
    chosen = given["--column"] if isinstance(given["--column"], list) else [given["--column"]]
    labels = list(zip(found["a"], found["b"], strict=True))
    return {
        (labels[i], name): round(float(found[name][i])) - 5 if "." in str(found[name][i]) else int(found[name][i]) - 5
        for name in chosen
        for i in range(N)
    }


TEXT = {
    "--encoding": sealed({"--encoding": "latin-1"}),
    "--decimal": sealed({"--decimal": ","}),
    "--thousands": sealed({"--thousands": "'"}),
    "--format": free(),  # names that say none alone take it: test_everyday_files.py
}
GAUSSIAN = {"--mechanism": "discrete-gaussian", "--epsilon": None, "--sensitivity": None, "--l0": 1, "--linf": 1}
WIDTH = {"--sensitivity": None, "--l0": 1, "--linf": 1}
REAL = {"--mechanism": "laplace", **WIDTH}
PRIVATIZE = {
    "source": private({"columns": {"a": LEFT, "b": RIGHT, "n": [6, *FIVES[1:]], "m": FIVES}}, {"columns": {"a": traded(LEFT), "b": RIGHT, "n": FIVES, "m": FIVES}}),
    "target": free(*[{"out": end} for end in FORMATS]),
    "--column": sealed({"--column": "m"}, {"--column": ["n", "m"], "--epsilon-is": "per-column"}),
    "--mechanism": sealed({**GAUSSIAN, "--sigma": 10**9}),
    "--epsilon": sealed({"--epsilon": "1/2000000000000000"}),
    "--delta": sealed({**GAUSSIAN, "--epsilon": "1/1000000000000000", "--delta": "1e-6"}),
    "--rho": sealed({**GAUSSIAN, "--rho": "1e-18"}),
    "--sigma": sealed({**GAUSSIAN, "--sigma": 10**9}),
    "--sensitivity": sealed({"--sensitivity": 2}),
    "--l0": sealed({**WIDTH, "--l0": 2}),
    "--linf": sealed({**WIDTH, "--linf": 2}),
    "--signed": sealed({**WIDTH, "--signed": True, "--linf": 2}),
    "--l2-squared": sealed({**GAUSSIAN, "--sigma": 10**9, "--l0": None, "--linf": None, "--l2-squared": 1}),
    "--granularity": sealed({**REAL, "--granularity": 1}),
    "--bound": sealed({**REAL, "--mechanism": "snapping", "--bound": 2**50}),
    "--adjacency": sealed({"--adjacency": "substitution"}),
    "--unit": sealed({"--unit": "family"}),
    "--epsilon-is": free(),  # several columns alone take it
    "--lower": free({"--lower": -(2**62)}),
    "--upper": free({"--upper": 2**62}),
    "--clamp": sealed({"--clamp": (0, 9)}),
    "--missing": sealed({"--missing": 0}),
    "--sort-by": sealed({"--sort-by": "a"}, {"--sort-by": "b"}),
    "--keep-metadata": free({"--keep-metadata": True}),
    "--constant-time": free({"--constant-time": True}),
    "--delimiter": free(),  # another finds no such columns here: test_everyday_files.py has one that does
    **TEXT,
    "--dtype": free({"--dtype": "int64"}),
}  # fmt: skip


def folder(world: World, *, order: Any = (0, 1), **options: Any) -> Noise:
    """A folder of two files of Parquet, whose names are their order."""
    number = next(_labels)
    source = world.folder / f"{number} in"
    source.mkdir()
    half = N // 2
    for i, part in enumerate(order):
        at = slice(part * half, part * half + half)
        written(source / f"{i}.parquet", {"a": LEFT[at], "b": RIGHT[at], "n": FIVES[at]})
    given = {"--column": "n", "--epsilon": "1/1000000000000000", "--sensitivity": 1, **options}
    _run(world, "privatize", source, target := world.folder / f"{number} out.parquet", given)
    found = _columns(target)
    return {label: noisy - 5 for label, noisy in zip(found["a"], found["n"], strict=True)}


FOLDER = {"source": private({"order": (1, 0)}), "--sort-by": sealed({"--sort-by": "a"}, {"--sort-by": "b"})}


def npy(world: World, *, values: Any = FIVES, **options: Any) -> Noise:
    number = next(_labels)
    np.save(world.folder / f"{number} in.npy", np.array(values))
    source, target = world.folder / f"{number} in.npy", world.folder / f"{number} out.npy"
    _run(world, "privatize", source, target, {"--epsilon": "1/1000000000000000", "--sensitivity": 1, **options})
    return dict(enumerate(_plus(np.load(target), values)))


FILE = {name: PRIVATIZE[name] for name in ("source", "--column", "--sort-by")}


def sorted_file(world: World, end: str, **options: Any) -> Noise:
    return filed(world, end, **{"--sort-by": "a", **options})


SORTED = {
    "--sort-by": sealed({"--sort-by": "b"}, {"--sort-by": ["a", "b"]}, {"--sort-by": None}),
    "source": private({"columns": {"a": traded(LEFT), "b": RIGHT, "n": FIVES, "m": FIVES}}),
}


def tabled(world: World, *, columns: Any = None, **options: Any) -> Noise:
    """`histogram`, one row a person."""
    number = next(_labels)
    cells = (
        {"person": PEOPLE, "again": PEOPLE, "shop": NAMES, "other": traded(NAMES), "one": [1] * N}
        if columns is None
        else columns
    )
    source, target = written(world.folder / f"{number}.csv", cells), world.folder / f"{number} out.csv"
    given = {
        "--by": "shop", "--unit": "person", "--max-partitions": 1, "--max-per-partition": 1, "--domain": "shop=" + ",".join(NAMES),
        "--epsilon": "1/1000000000000000", **options,
    }  # fmt: skip
    _run(world, "histogram", source, target, given)
    found = _columns(target)
    label, number = next(iter(found)), next(name for name in found if name in ("count", "sum", "one"))
    return {key: int(noisy) - 1 for key, noisy in zip(found[label], found[number], strict=True)}


def totalled(world: World, *, columns: Any = None, **options: Any) -> Noise:
    """`totals step`, one row a person: the noise of the second step, of rows given again."""
    number = next(_labels)
    cells = {"person": PEOPLE, "again": PEOPLE, "shop": NAMES, "other": traded(NAMES), "one": [1] * N}
    source = written(world.folder / f"{number}.csv", cells if columns is None else columns)
    given = {
        "--by": "shop", "--unit": "person", "--max-partitions": 1, "--max-per-partition": 1, "--domain": "shop=" + ",".join(NAMES),
        "--steps": 8, "--per-unit-steps": 3, "--epsilon": "1e-5", "--delta": "1e-9", "--state": world.folder / "state", **options,
    }  # fmt: skip
    target = world.folder / f"{number} out.csv"
    if not (world.folder / "state").exists():
        _keyed(world, ["totals", "new"], given)
        _keyed(world, ["totals", "step", "1", str(source), str(target), "--force"], given)
    with totals_in_full():
        _keyed(world, ["totals", "step", "2", str(source), str(target), "--force"], given)
    found = _columns(target)
    label = next(iter(found))
    return {key: float(noisy) - 2 for key, noisy in zip(found[label], found["total"], strict=True)}


def tabled_medians(world: World, *, columns: Any = None, **options: Any) -> Noise:
    """`histogram --quantile`, one row a person: a tree of 200 cells for each of six keys."""
    number = next(_labels)
    ages = [i % 200 for i in range(N)]
    cells = {"person": PEOPLE, "again": PEOPLE, "shop": KEYED, "other": traded(KEYED), "age": ages, "same": ages}
    source = written(world.folder / f"{number}.csv", cells if columns is None else columns)
    given = {
        "--by": "shop", "--unit": "person", "--max-partitions": 1, "--max-per-partition": 1, "--domain": "shop=a,b,c,d,e,f",
        "--quantile": "age=0.5", "--clamp": (0, 199), "--epsilon": "1/1000000000000000", **options,
    }  # fmt: skip
    with trees_made() as made:
        _run(world, "histogram", source, world.folder / f"{number} out.csv", given)
    true = Counter(zip(KEYED, ages, strict=True))
    noisy = zip("abcdef", [tree.noisy[0].tolist() for tree in made], strict=False)
    return {(key, age): count - true[key, age] for key, leaves in noisy for age, count in enumerate(leaves)}


OF_TREES = {
    "source": private({"columns": {"person": PEOPLE, "shop": traded(KEYED), "age": [i % 200 for i in range(N)]}}),
    "--by": sealed({"--by": "other", "--domain": "other=a,b,c,d,e,f"}),
    "--domain": sealed({"--domain": "shop=a,b,c,d,f,e"}),
    "--unit": sealed({"--unit": "again"}),
    "--max-partitions": sealed({"--max-partitions": 2}),
    "--max-per-partition": sealed({"--max-per-partition": 2}),
    "--quantile": free({"--quantile": ["age=0.25", "age=0.5"]}),
    "--quantile NAME": sealed({"--quantile": "same=0.5"}),
    "--clamp": sealed({"--clamp": (1, 199)}, {"--clamp": (1, 200)}),
    "--step": sealed({"--clamp": (0, 198), "--step": 2}),
    "--epsilon": sealed({"--epsilon": "1/2000000000000000"}),
    "--delta": sealed({"--mechanism": "discrete-gaussian", "--delta": "1e-6"}),
    "--rho": sealed({"--mechanism": "discrete-gaussian", "--epsilon": None, "--rho": "1e-17"}),
    "--adjacency": sealed({"--adjacency": "substitution"}),
    "--null": sealed({"--null": "?"}),
    "--intervals": free({"--intervals": True}),
    "--jointly": free({"--intervals": True, "--jointly": True}),
}
MEDIAN = {"--quantile": "one=0.5", "--clamp": (0, 1)}


def averaged(world: World, *, columns: Any = None, **options: Any) -> Noise:
    """`histogram --mean`: the sums."""
    number = next(_labels)
    cells = {"person": PEOPLE, "shop": NAMES, "one": [1] * N, "too": [1] * N} if columns is None else columns
    source, target = written(world.folder / f"{number}.csv", cells), world.folder / f"{number} out.csv"
    given = {
        "--by": "shop", "--unit": "person", "--max-partitions": 1, "--max-per-partition": 1, "--domain": "shop=" + ",".join(NAMES),
        "--mean": "one", "--clamp": (0, 2), "--granularity": 1, "--epsilon": "1/1000000000000000", **options,
    }  # fmt: skip
    _run(world, "histogram", source, target, given)
    found = _columns(target)
    return {key: int(2 * float(noisy)) for key, noisy in zip(found["shop"], found["sum"], strict=True)}


MEAN_COMMAND = {
    "source": private({"columns": {"person": PEOPLE, "shop": NAMES, "one": [2] * N, "too": [1] * N}}),
    "--mean": sealed({"--mean": "too"}),
    "--clamp": sealed({"--clamp": (-1, 3)}),
    "--granularity": sealed({"--granularity": 0.5}),
    "--sum": sealed({"--sum": "one", "--mean": None}),
    "--epsilon": sealed({"--epsilon": "1/2000000000000000"}),
    "--rho": sealed({"--epsilon": None, "--rho": "1e-17", "--mechanism": "discrete-gaussian"}),
    "--intervals": free({"--intervals": True}),
    "--jointly": free({"--intervals": True, "--jointly": True}),
}
SUM = {"--sum": "one", "--clamp": (0, 1), "--max-per-partition": None, "--granularity": 1}
COMMAND = {
    "source": private({"columns": {"person": PEOPLE, "shop": [NAMES[1], *NAMES[1:]]}}),
    "target": free(),
    "--by": sealed({"--by": "other", "--domain": "other=" + ",".join(NAMES)}, {"--by": None, "--domain": None, "--max-partitions": None}),
    "--unit": sealed({"--unit": "again"}),
    "--unit-is-row": sealed({"--unit-is-row": True, "--unit": None}),
    "--unit-name": free({"--unit-name": "customer"}),
    "--bins": sealed({"--by": "one", "--domain": None, "--bins": "one=0,1,2"}),
    "--strip": sealed({"--strip": True}),
    "--null": sealed({"--null": "?"}),
    "--unknown": sealed({"--unknown": True}),
    "--max-partitions": sealed({"--max-partitions": 2}),
    "--max-per-partition": sealed({"--max-per-partition": 2}),
    "--max-contributions": sealed({"--max-contributions": 1, "--max-partitions": None, "--max-per-partition": None}),
    "--domain": sealed({"--domain": "shop=" + ",".join(traded(NAMES))}),
    "--threshold": sealed({"--threshold": True, "--domain": None, "--delta": "1e-6"}),
    "--sum": sealed(SUM),
    "--mean": sealed({**SUM, "--sum": None, "--mean": "one", "--max-per-partition": 1}),
    "--clamp": sealed({**SUM, "--clamp": (-1, 1)}),
    "--granularity": sealed({**SUM, "--granularity": 2, "--clamp": (0, 2)}),
    "--quantile": sealed(MEDIAN),
    "--step": sealed({**MEDIAN, "--step": "0.5"}),
    "--mechanism": sealed({"--mechanism": "discrete-gaussian", "--epsilon": None, "--sigma": 10**9}),
    "--epsilon": sealed({"--epsilon": "1/2000000000000000"}),
    "--delta": sealed({"--mechanism": "discrete-gaussian", "--delta": "1e-6"}),
    "--rho": sealed({"--mechanism": "discrete-gaussian", "--epsilon": None, "--rho": "1e-18"}),
    "--sigma": sealed({"--mechanism": "discrete-gaussian", "--epsilon": None, "--sigma": 10**9}),
    "--adjacency": sealed({"--adjacency": "substitution"}),
    "--delimiter": sealed({"--delimiter": ";"}),
    **TEXT,
    "--lower": free({"--lower": -(2**62)}),
    "--upper": free({"--upper": 2**62}),
    "--intervals": free({"--intervals": True}),
    "--jointly": free({"--intervals": True, "--jointly": True}),
}  # fmt: skip
OF_STEPS = {
    **{name: row for name, row in COMMAND.items() if name not in {
        "--unit-is-row", "--unit-name", "--threshold", "--sum", "--mean", "--clamp", "--granularity", "--quantile", "--step", "--mechanism", "--sigma"}},
    "t": free(),  # another one is another step: tests/app/test_totals_cli.py
    "--epsilon": sealed({"--epsilon": "2e-5"}),
    "--delta": sealed({"--delta": "1e-8"}),
    "--rho": sealed({"--epsilon": None, "--delta": None, "--rho": "1e-12"}),
    "--steps": sealed({"--steps": 9}),
    "--per-unit-steps": sealed({"--per-unit-steps": 2}),
    "--apart": sealed({"--apart": 2}),
    "--state": sealed({"--state": "elsewhere"}),
}  # fmt: skip
# What reads or shows, and takes no noise to a cell.
SHOWS = {"--shared-with", "--resume", "--verify", "--explain", "--force", "--quiet", "--threads", "--metadata", "--report", "--report-title",
         "--ledger", "--key-file", "--label"}  # fmt: skip

DOORS = [
    Door("array", array, ARRAY, (dpfast.DiscreteLaplace.release,)),
    Door("array without names", grid, {
        "values": private({"values": np.where(np.arange(N).reshape(10, N // 10), 5, 6)}),
        "shape": sealed({"values": np.full((N // 10, 10), 5)}, {"values": np.full(N, 5)}),
    }),
    Door("frame of pandas", table, {
        "columns": private({"frame": _frame(columns=("west", "east"))}),
        "index": private({"frame": _frame(index=traded(NAMES[: N // 2]))}),
        "shape": sealed({"frame": _frame(index=NAMES[: N // 2 - 1])}),
    }),
    Door("columns of a frame", chosen, {"columns": private({"columns": ["west", "east"]}, {"columns": ["east", "north"]})}),
    Door("bounded_histogram", counted, HISTOGRAM, (dpfast.bounded_histogram, dpfast.BoundedHistogram.release)),
    Door("array of counts", lambda world, **changed: counted(world, as_array=True, **changed), HISTOGRAM),
    Door("mean", meant, MEAN, (dpfast.BoundedHistogram.mean,)),
    Door("thresholded", unknown, UNKNOWN, (dpfast.thresholded,)),
    Door("tree", grown, TREE, (dpfast.tree,)),
    Door("quantiles", medians, QUANTILES, (dpfast.quantiles,)),
    Door("running totals", stepped, RUNNING, (dpfast.Ledger.running,)),
    Door("running totals of rows", counted_steps, RUNNING_ROWS, (dpfast.Ledger.running, dpfast.RunningTotals.bounded)),
    Door("running totals at once", at_once, AT_ONCE, (dpfast.running_totals,)),
    Door("blocks: digester", blocks, BLOCKS, (dpfast.ReleaseKey.digester, dpfast.ReleaseKey.seal, seal.Sealed.release)),
    Door("jobs.bounded_counts", job, JOB, (jobs.bounded_counts, jobs.release)),
    Door("duckdb.release", lambda world, **changed: lake(world, "duckdb", **changed), LAKE),
    Door("polars_lazy.release", lambda world, **changed: lake(world, "polars", **changed), LAKE),
    *(Door(f"privatize {end}", lambda world, end=end, **changed: filed(world, end, **changed), PRIVATIZE if end == "csv" else FILE) for end in FORMATS),
    *(Door(f"privatize {end} --sort-by", lambda world, end=end, **changed: sorted_file(world, end, **changed), SORTED) for end in FORMATS),
    Door("privatize folder", folder, FOLDER),
    Door("privatize npy", npy, {"source": private({"values": [6, *FIVES[1:]]})}),
    Door("histogram", tabled, COMMAND),
    Door("totals step", totalled, OF_STEPS),
    Door("histogram --quantile", tabled_medians, OF_TREES),
    Door("histogram --mean", averaged, MEAN_COMMAND),
    Door("unknown keys of a job", unknown_job, {
        "by": sealed({"by": "other"}),
        "unit": sealed({"unit": "again"}),
        "buckets": sealed({"buckets": 7}),
        "upper": sealed({"upper": MOST - 1}),
        "mechanism": sealed({"mechanism": jobs.Withholding(1, Fraction(1, 10**7), SUMMED)}),
        "engine": free({"shards": 3}),
    }),
]  # fmt: skip


def _unlike(first: Noise, second: Noise, verdict: str) -> str:
    """How a later try that was accepted breaks the promise, if it does."""
    if verdict == SAME:
        return "" if first == second else "it is accepted, and a cell has another noise"
    if set(first.values()) & set(second.values()):
        return "it is accepted, and noise is met again"
    return ""


def _try(door: Door, world: World, change: dict[str, Any]) -> Noise | Exception:
    try:
        return door.publish(world, **change)
    except (DpfastError, Refused) as refused:
        return refused


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_no_later_try_meets_the_noise_elsewhere(door, tmp_path, capsys) -> None:
    """With a ledger each change is refused and free of charge, or a cell keeps its noise."""
    world = World(tmp_path, pays=True)
    first = door.publish(world)
    assert len(set(first.values())) == len(first) >= N - 2
    assert door.publish(world) == first
    spent, problems = world.ledger.spent, []
    for parameter, row in door.rows.items():
        for change in row.changes:
            capsys.readouterr()
            second = _try(door, world, change)
            said = f"{second} {capsys.readouterr().err}"
            if isinstance(second, dict):
                if row.verdict != SAME or _unlike(first, second, SAME):
                    problems.append(f"{parameter}: accepted for the one charge: {_unlike(first, second, row.verdict)}")
            elif row.verdict == SAME or not ("reserved" in said or "ledger" in said):
                problems.append(f"{parameter}: {said}")
            elif (isinstance(second, DataDependentError) or "the input is not the one" in said) != (
                row.verdict == PRIVATE
            ):
                problems.append(f"{parameter}: {row.verdict}, and it says: {said}")
            if world.ledger.spent != spent:
                problems.append(f"{parameter}: charged")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("door", [door for door in DOORS if door.takes], ids=lambda door: door.name)
def test_without_a_ledger_another_process_draws_other_noise(door, tmp_path) -> None:
    """Nobody there knows of the first try: what is changed has noise of its own."""
    world, problems = World(tmp_path, pays=False), []
    first = door.publish(world)
    for parameter, row in door.rows.items():
        for change in row.changes:
            world.forget()
            second = _try(door, world, change)
            if isinstance(second, dict):
                if fault := _unlike(first, second, row.verdict):
                    problems.append(f"{parameter}: {fault}")
            elif row.verdict == SAME:
                problems.append(f"{parameter}: {second}")
    assert not problems, "\n".join(problems)


def _doors_in_the_source() -> set[str]:
    """Every public function that takes a release key or resumes, by file and name."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        for owner in ast.walk(ast.parse(text)) if re.search("(?i:resume)|ReleaseKey|Labelled", text) else ():
            for each in ast.iter_child_nodes(owner):
                if not isinstance(each, ast.FunctionDef) or each.name.startswith("_"):
                    continue
                given = {
                    one.arg: ast.unparse(one.annotation or ast.Name(""))
                    for one in (*each.args.args, *each.args.kwonlyargs)
                }
                command = "RESUME" in map(ast.unparse, each.decorator_list)  # which takes its options as they come
                if command or "resume" in given or re.search("ReleaseKey|Labelled", given.get("key", "")):
                    found.add(f"{path.relative_to(PACKAGE)} {each.name}")
    return found


# Where each of them has its rows here, or why it needs none.
WALKED = {
    "engines/spark.py bounded_counts": "jobs.bounded_counts on an engine (tests/on_spark.py)",
    "engines/spark.py release": "jobs.bounded_counts on an engine (tests/on_spark.py)",
    "engines/spark.py verify": "compares, and gives no noise",
    "app/cli/histogram.py histogram": "histogram",
    "app/cli/privatize.py privatize": "privatize csv",
    "app/cli/totals.py step": "totals step",
    "engines/jobs/plan.py plan": "jobs.bounded_counts",
    "engines/jobs/table.py counted": "duckdb.release",
    "engines/jobs/table.py release": "polars_lazy.release",
    "engines/jobs/table.py release_table": "duckdb.release",
    "engines/jobs/table.py verify": "compares, and gives no noise",
    "engines/jobs/verbs.py bounded_counts": "jobs.bounded_counts",
    "engines/jobs/verbs.py release": "jobs.bounded_counts",
    "engines/jobs/verbs.py verify": "compares, and gives no noise",
    "engines/jobs/verbs.py seal_of": "jobs.bounded_counts",
    "engines/jobs/verbs.py probe": "jobs.bounded_counts",
    "ledger/ledger.py release": "array",
    "ledger/ledger.py expect": "looks, and gives no noise",
    "ledger/ledger.py reserve": "blocks: digester",
    "ledger/ledger.py running": "running totals",
    "counts/running/steps.py opened": "running totals",
    "counts/running/steps.py step": "running totals",
    "counts/running/rows.py step": "running totals of rows",
    "counts/running/steps.py without_ledger": "running totals at once",
    "counts/running/noisy_totals.py running_totals": "running totals at once",
    "noise/release/steps.py of": "says what is sealed, and gives no noise",
    "noise/mechanisms/mechanism.py metadata": "shows parameters, and gives no noise",
    "noise/mechanisms/mechanism.py release": "array",
    "counts/records/bounded_histogram.py bounded_histogram": "bounded_histogram",
    "counts/records/bounded_histogram.py chooser_of": "says who chooses rows, and gives no noise",
    "counts/records/bounded_histogram.py mean": "mean",
    "counts/records/bounded_histogram.py named": "names terms, and gives no noise",
    "counts/records/partitions.py thresholded": "thresholded",
    "counts/records/payment.py of": "says who pays, and gives no noise",
    "counts/records/payment.py expect": "looks, and gives no noise",
    "counts/records/payment.py noise": "tree",
    "ledger/head.py seen": "looks, and gives no noise",
    "noise/release/seal.py without_ledger": "blocks: digester",
    "noise/release/seal.py reserve_here": "blocks: digester",
    "noise/release/seal.py must_continue": "blocks: digester",
    "noise/release/key.py task_of": "array",
    "counts/trees/release.py tree": "tree",
    "counts/trees/quantiles.py quantiles": "quantiles",
    "counts/trees/quantiles.py counts": "quantiles",
    "counts/records/leaves.py leaf_counts": "quantiles",
    "counts/records/leaves.py named": "names terms, and gives no noise",
}


def test_every_door_has_its_rows() -> None:
    assert _doors_in_the_source() == WALKED.keys()
    names = {door.name for door in DOORS}
    assert {where for where in WALKED.values() if "noise" not in where and "(" not in where} <= names


@pytest.mark.parametrize("door", [door for door in DOORS if door.takes], ids=lambda door: door.name)
def test_every_parameter_of_a_door_has_a_row(door) -> None:
    taken = set().union(*[inspect.signature(each).parameters for each in door.takes])
    assert taken - {"self", *NO_NOISE} <= door.rows.keys()


def _takes(command: str) -> set[str]:
    """The options and arguments of a command."""
    found: Any = commands
    for word in command.split():
        found = found.commands[word]
    return {option.opts[0] for option in found.params}


@pytest.mark.parametrize(
    ("command", "rows"), [("privatize", PRIVATIZE), ("histogram", COMMAND), ("totals step", OF_STEPS)]
)
def test_every_option_of_a_command_with_a_key_has_a_row(command, rows) -> None:
    assert _takes(command) - SHOWS == rows.keys()


def test_totals_are_made_with_options_of_a_step() -> None:
    assert _takes("totals new") - SHOWS <= OF_STEPS.keys()


def test_no_other_command_takes_a_label() -> None:
    """`verify` has the options of `privatize`, `totals new` those of a step: neither draws."""
    names = [
        f"{name} {inner}".strip()
        for name, each in commands.commands.items()
        for inner in getattr(each, "commands", [""])
    ]
    keyed = {name for name in names if "--label" in _takes(name)}
    assert keyed == {"privatize", "histogram", "verify", "totals new", "totals step"}


def test_what_may_change_is_what_the_page_about_seals_says() -> None:
    """And nothing else: who makes a parameter free must say so there."""
    page = " ".join((ROOT / "docs" / "sealed.md").read_text(encoding="utf-8").split())
    said = page.partition("A later try may change ")[2].partition(" Each cell keeps its noise.")[0]
    names = {name.lstrip("-").replace("-", "_") for name in re.findall(r"`([\w-]+)`", said)}
    rows = [(name, row) for door in DOORS for name, row in door.rows.items() if row.verdict == SAME and row.changes]
    assert {name.lstrip("-").replace("-", "_") for name, _ in rows} - {"target"} == names - {"threads"}
    assert "the format of OUT" in said  # target
