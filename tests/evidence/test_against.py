# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks against COMMIT`: what it concludes from planted times; never how fast."""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiers
from places import ROOT

import dpfast

STEADY = [100.0] * 41


@pytest.fixture
def against(monkeypatch) -> Iterator:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module("against")
    for name in ("against", "against_rows", "bounded_histogram"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("now", "again", "must", "verdict"),
    [
        (1.0, 1.0, 1.03, "kept"),
        (1.03, 1.0, 1.03, "kept"),
        (1.04, 1.0, 1.03, "missed"),
        (0.80, 1.0, 0.82, "kept"),
        (1.0, 1.0, 0.82, "missed"),
        (0.80, 0.97, 0.82, "kept"),
        (0.80, 1.03, 0.82, "kept"),
        (0.80, 0.969, 0.82, "not decided here"),
        (0.80, 1.031, 0.82, "not decided here"),
        (1.5, 1.031, 0.82, "not decided here"),
    ],
)
def test_a_verdict_needs_a_control_that_holds(against, now, again, must, verdict) -> None:
    times = {"now": now, "before": 1.0, "again": again}
    it = against.found("a row", must, {side: np.multiply(STEADY, of) for side, of in times.items()})
    assert (it.ratio, it.control) == (pytest.approx(now), pytest.approx(again))
    assert it.verdict == verdict


def test_what_disturbs_some_rounds_changes_no_ratio(against) -> None:
    """The 10 % quantile: 36 of 41 rounds may be slow, and two lucky ones may be fast."""
    disturbed = [50.0] * 2 + [100.0] * 3 + [900.0] * 36
    it = against.found("a row", 1.03, {"now": disturbed, "before": STEADY, "again": STEADY})
    assert (it.ratio, it.verdict) == (1, "kept")


def planted(against, took: dict[str, float], seen: list[tuple[str, str]], **more: object) -> Any:
    """A row whose clock says what each tree took."""

    def clock(run, data) -> float:
        run(*data)
        return took[run.args[0]]

    def make(tree, what: str = "make") -> partial[None]:
        return partial(lambda name: seen.append((name, what)), tree.name)

    if more:
        more = {"beside": partial(make, what="beside")}
    row = against.Row("a row", (1.03,), make, clock=clock, **more)
    trees = {name: SimpleNamespace(name=name, use=partial(seen.append, (name, "use"))) for name in took}
    return against.measured(row, 1.03, trees, 41)


def test_a_slower_tree_is_noticed_and_all_take_turns(against) -> None:
    """Each call has its tree in use, and a warming call of the same tree before it."""
    seen: list[tuple[str, str]] = []
    it = planted(against, {"now": 1.05, "before": 1.0, "again": 1.0}, seen)
    assert (it.ratio, it.verdict) == (1.05, "missed")
    turns = seen[3:]
    assert Counter(turns) == {(name, what): 42 * (1 + (what == "make")) for name, what in {*turns}}
    for at in range(0, len(turns), 3):
        name = turns[at][0]
        assert turns[at : at + 3] == [(name, "use"), (name, "make"), (name, "make")]
    rounds = [tuple(turns[at + side][0] for side in (0, 3, 6)) for at in range(0, len(turns), 9)]
    assert all(len({*order}) == 3 for order in rounds)
    assert len({*rounds}) > 1  # by lot: all 42 alike have a chance of 6^-41


def test_another_layout_is_beside_a_plain_array_of_the_same_tree(against) -> None:
    seen: list[tuple[str, str]] = []
    planted(against, {"now": 1.0, "before": 1.0, "again": 1.0}, seen, beside=True)
    assert {name for name, _ in seen} == {"now"}
    assert Counter(what for _, what in seen)["beside"] == 2 * Counter(what for _, what in seen)["make"]


def test_musts_are_those_of_the_instruction_set(against) -> None:
    assert all(0 < row.must(isa) <= 1.3 for row in against.rows() for isa in ("avx512", "avx2", "portable"))
    row = next(row for row in against.rows() if row.name == "scale 1e6")
    assert [row.must(isa) for isa in ("avx512", "avx2", "portable")] == [0.82, 0.92, 1.03]
    row = next(row for row in against.rows() if row.name == "int32, scale 10")
    assert [row.must(isa) for isa in ("avx512", "avx2")] == [0.6, 0.6]


def test_without_the_commit_it_says_so(against, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(against, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="no commit 8ab3011 here.*whole history"):
        against.trees("8ab3011")


def test_too_few_rounds_are_refused(against, capsys) -> None:
    with pytest.raises(SystemExit):
        against.main(["--rounds", "40"])
    assert "fewer than 41 rounds decide nothing" in capsys.readouterr().err


def test_packages_of_one_name_are_kept_apart(against) -> None:
    own = against.packaged()
    assert own["dpfast"] is dpfast
    try:
        against.put({})
        assert not against.packaged()
    finally:
        against.put(own)
    assert sys.modules["dpfast"] is dpfast


@pytest.mark.slow
def test_every_row_runs(against, monkeypatch) -> None:
    """On today's tree, in tiny sizes; each writes noise into what it is given."""
    rows = sys.modules["against_rows"]
    for name, value in {"SLICE": 1 << 16, "SLICES": 2, "CALLS": 2, "ROWS": 1_000, "CIPHERED": 4096}.items():
        monkeypatch.setattr(rows, name, value)
    tree = SimpleNamespace(package=dpfast, native=importlib.import_module(tiers.NATIVE), folder=ROOT, use=lambda: None)
    floor, names = rows.floors(tree), []
    for row in rows.rows():
        names.append(row.name)
        if row.most is not None:
            continue  # it empties the caches of its tree
        data = row.data()
        before = data[1].copy() if row.data.__module__ == rows.__name__ and len(data) == 2 else None
        for make in filter(None, (row.make, row.beside)):
            assert row.clock(make(tree), data) > 0
        if before is not None and "new array" not in row.name:
            assert not np.array_equal(before, data[1])
        assert row.least(floor) >= 0
    assert len({*names}) == len(names)


def test_the_page_holds_the_rows_of_today(against) -> None:
    page = ROOT / "benchmarks" / "figures.md"
    before, after = against.around_marks(page, "against")
    text = page.read_text()[len(before) : -len(after)]
    held = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)[1:]  # without the rule below the heads
    first = "the README's first command"  # only where its data are installed
    assert [name for name in held if name != first] == [row.name for row in against.rows() if row.name != first]
