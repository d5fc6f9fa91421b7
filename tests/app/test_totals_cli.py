# SPDX-License-Identifier: Apache-2.0
"""`dpfast totals`: steps of rows, for one charge, whatever stops a step; and what it refuses."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import subprocess
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import one_error
from places import ROOT

import dpfast
from dpfast.app.cli import main, running
from dpfast.app.cli.totals import BESIDE_A_STATE
from dpfast.counts.running.state import OTHERS

LABEL = "sign-ups 2026"
CITIES = ["Oslo", "Lima", "Pune"]
DAYS = [
    [("Oslo", "p1"), ("Lima", "p2"), ("Lima", "p3")],
    [("Oslo", "p1"), ("Pune", "p4"), ("Rome", "p5")],
    [("Oslo", "p6")],
]
CLEAR = Fraction(10**9)  # a rho whose noise is far below 1: what is counted is seen


def written(path: Path, rows: list[tuple[str, str]], sign: str = ",") -> Path:
    path.write_text("".join(f"{sign.join(row)}\n" for row in [("city", "person"), *rows]))
    return path


class Totals:
    """A folder with a key, a ledger and a state, and the commands on them."""

    def __init__(self, folder: Path, *words: object, rho: object = "0.5", adjacency: str = "add-remove") -> None:
        self.folder, self.state, self.ledger = folder, folder / "sign-ups.state", folder / "budget.db"
        if not (folder / "visits.key").exists():
            dpfast.KeyFile.create(folder / "visits.key")
            dpfast.Ledger(self.ledger, rho=10**12, adjacency=adjacency, create=True)
        self.keyed = ["--ledger", self.ledger, "--key-file", folder / "visits.key", "--label", LABEL]
        common = ["--by", "city", "--domain", ",".join(CITIES), "--unit", "person", "--max-partitions", 1]
        self.words = [*common, "--steps", 8, "--rho", rho, "--state", self.state, *words]

    def new(self, *words: object) -> int:
        return main([*map(str, ["totals", "new", *self.words, *self.keyed, "--quiet", *words])])

    def command(self, t: int, *words: object, rows: object = None) -> list[str]:
        source = written(self.folder / f"day {t}.csv", DAYS[t - 1]) if rows is None else rows
        given = ["totals", "step", t, source, self.out(t), *self.words, *self.keyed, "--quiet", *words]
        return [*map(str, given)]

    def step(self, t: int, *words: object, rows: object = None) -> int:
        return main(self.command(t, *words, rows=rows))

    def out(self, t: int) -> Path:
        return self.folder / f"totals {t}.csv"

    def table(self, t: int) -> list[dict[str, str]]:
        with self.out(t).open(newline="") as file:
            return list(csv.DictReader(file))

    def counts(self, t: int) -> dict[str, int]:
        return {row["city"]: round(float(row["total"])) for row in self.table(t)}

    def bytes(self, t: int) -> bytes:
        return self.out(t).read_bytes() + Path(f"{self.out(t)}.json").read_bytes()

    def clear(self, t: int) -> None:
        self.out(t).unlink(missing_ok=True)
        Path(f"{self.out(t)}.json").unlink(missing_ok=True)

    @property
    def charges(self) -> int:
        ledger = dpfast.Ledger(self.ledger)
        ledger.verify()
        return sum(not entry.refused for entry in ledger.history())


# ------------------------------------------------------------------ what is counted


@pytest.mark.filterwarnings("ignore::dpfast.errors.WeakGuaranteeWarning")
def test_totals_are_of_all_rows_so_far_and_of_each_person_once(tmp_path) -> None:
    """Who comes again on another day is not counted again, and no row of another city is."""
    totals = Totals(tmp_path, rho=CLEAR)
    assert totals.new() == 0
    assert [totals.step(t) for t in (1, 2, 3)] == [0, 0, 0]
    found = [totals.counts(t) for t in (1, 2, 3)]
    assert found == [
        {"Oslo": 1, "Lima": 2, "Pune": 0},
        {"Oslo": 1, "Lima": 2, "Pune": 1},
        {"Oslo": 2, "Lima": 2, "Pune": 1},
    ]
    assert totals.charges == 1


def counted(days: list[list[tuple[str, str]]], times: int, apart: int) -> list[dict[str, int]]:
    """What the rule says, written apart: each of a few people, in order of the days."""
    last, often, found = dict[str, int](), dict[str, int](), []
    so_far = dict.fromkeys(CITIES, 0)
    for t, day in enumerate(days, 1):
        rows = {(city, person) for city, person in day if city in CITIES and person}
        may = {p for _, p in rows if often.get(p, 0) < times and t - last.get(p, -apart) >= apart}
        for city, person in rows:
            so_far[city] += person in may
        for person in may:
            last[person], often[person] = t, often.get(person, 0) + 1
        found.append(dict(so_far))
    return found


READ: dict[str, tuple[list[object], dict[str, str], int, int]] = {  # options, how a file writes what is plain, m, apart
    "none": ([], {}, 2, 2),
    "strip": (["--strip"], {"p1": " p1 ", "Oslo": "Oslo "}, 1, 1),
    "null": (["--null", "p0"], {}, 2, 1),
    "delimiter": (["--delimiter", ";"], {}, 3, 2),
    "substitution": (["--adjacency", "substitution"], {}, 2, 3),
}


@pytest.mark.filterwarnings("ignore::dpfast.errors.WeakGuaranteeWarning")
@pytest.mark.parametrize("option", READ)
def test_a_unit_counts_in_its_first_steps_however_rows_are_read(tmp_path, option) -> None:
    r, (words, spelt, times, apart) = random.Random(option), READ[option]
    people = ["p1", "p2", "p3", "" if option != "null" else "p0"]
    days = [[(r.choice([*CITIES, "Rome"]), r.choice(people)) for _ in range(6)] for _ in range(6)]
    several = ["--max-partitions", 3, "--per-unit-steps", times, "--apart", apart]
    about = {"adjacency": "substitution"} if option == "substitution" else {}
    totals = Totals(tmp_path, *several, *words, rho=CLEAR, **about)
    assert totals.new() == 0
    for t, day in enumerate(days, 1):
        rows = [(spelt.get(city, city), r.choice([person, spelt.get(person, person)])) for city, person in day]
        source = written(tmp_path / f"{t}.csv", rows, ";" if option == "delimiter" else ",")
        assert totals.step(t, rows=source) == 0
    known = [[(city, "" if person == "p0" else person) for city, person in day] for day in days]
    assert [totals.counts(t) for t in range(1, 7)] == counted(known, times, apart)


def test_out_has_the_keys_the_totals_and_their_intervals(tmp_path, capsys) -> None:
    """And a record beside it, which `show` repeats; a joint interval is the wider one."""
    totals = Totals(tmp_path)
    assert (totals.new(), totals.step(1, "--intervals")) == (0, 0)
    [row, *rows] = totals.table(1)
    assert (list(row), [each["city"] for each in (row, *rows)]) == (["city", "total", "low", "high"], CITIES)
    record = json.loads(Path(f"{totals.out(1)}.json").read_text())
    made = dpfast.RunningTotals(8, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
    half = Fraction(record["intervals"]["half_width"])
    assert made.interval(1) <= half <= made.interval(1) + 0.0016
    assert float(row["high"]) == max(round(float(row["total"]) + float(half), 3), 0)
    assert (record["rho_total"], record["releases"][0]["after_step"], record["manifest"]["label"]) == ("1/2", 1, LABEL)
    assert main(["show", str(totals.out(1)), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"] == {"rho": "1/2"}
    totals.clear(1)
    assert totals.step(1, "--intervals", "--jointly", "--resume", "--lower", 0) == 0
    record = json.loads(Path(f"{totals.out(1)}.json").read_text())
    assert Fraction(record["intervals"]["half_width"]) > half
    assert all(float(each["total"]) >= 0 for each in totals.table(1))


@pytest.mark.filterwarnings("ignore::dpfast.errors.WeakGuaranteeWarning")
@pytest.mark.parametrize("rho", ["1e-9", "0.02", "0.5", CLEAR])
def test_totals_are_rounded_below_their_noise_and_intervals_allow_for_it(tmp_path, monkeypatch, rho) -> None:
    """What is written is near what was drawn; its interval holds what that of the draw does."""
    totals, drawn, columns = Totals(tmp_path, rho=rho), list[list[float]](), running.Totals.columns

    def seen(self: running.Totals, noisy: Any) -> Any:
        drawn.append(noisy.tolist())
        return columns(self, noisy)

    monkeypatch.setattr(running.Totals, "columns", seen)
    assert (totals.new(), totals.step(1), totals.step(2, "--intervals")) == (0, 0, 0)
    whole = json.loads(Path(f"{totals.out(2)}.json").read_text())
    [record] = whole["releases"]
    made = dpfast.RunningTotals(8, sensitivity=dpfast.Sensitivity(1, 1), rho=rho)
    grid, half = Fraction(record["rounded_to"]), Fraction(made.interval(2))
    assert made.stddev(2) / 10**4 < grid <= made.stddev(2) / 1000
    assert half + grid / 2 <= Fraction(whole["intervals"]["half_width"]) < half + 3 * grid / 2
    for row, noisy in zip(totals.table(2), map(Fraction, drawn[1]), strict=True):
        total, low, high = (Fraction(row[name]) for name in ("total", "low", "high"))
        assert total == round(noisy / grid) * grid
        assert low == 0 or noisy - half - 2 * grid < low <= noisy - half
        assert high == 0 or noisy + half <= high < noisy + half + 2 * grid
    made_so = totals.bytes(2)
    totals.clear(2)
    assert (totals.step(2, "--intervals", "--resume"), totals.bytes(2)) == (0, made_so)


def test_new_says_an_epsilon_and_a_step_that_it_is_paid(tmp_path, capsys) -> None:
    totals = Totals(tmp_path, rho="0.02")
    further = "8 steps expected; you may go on to step 512 at no further charge, with somewhat more noise"
    assert main([*map(str, ["totals", "new", *totals.words, *totals.keyed])]) == 0
    said = capsys.readouterr().err
    assert "cost: rho 0.02 (so epsilon 0.9 at delta 1e-6) per person, add-remove\n" in said
    assert further in said
    words = totals.command(1)
    words.remove("--quiet")
    assert main(words) == 0
    said = capsys.readouterr().err
    assert ("paid by charge 1; this step costs nothing\n" in said, "cost:" in said, further in said) == (
        True,
        False,
        True,
    )


def test_show_says_how_wide_the_noise_of_a_step_is(tmp_path, capsys) -> None:
    """By its manifest; and draws the page. Figures that are not those of its terms are refused."""
    totals = Totals(tmp_path)
    assert (totals.new(), totals.step(1), totals.step(2, "--intervals")) == (0, 0, 0)
    made = dpfast.RunningTotals(8, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
    for t in (1, 2):
        assert main(["show", str(totals.out(t)), "--json", "--report", str(tmp_path / f"{t}.html")]) == 0
        [column] = json.loads(capsys.readouterr().out)["columns"]
        assert (column["column"], column["stddev"]) == ("total", made.stddev(t))
        assert made.interval(t) < Fraction(column["half_width_95"]) < made.interval(t) + 0.002
        page = (tmp_path / f"{t}.html").read_text("utf-8")
        assert all(f">{city}<" in page for city in CITIES)
    assert main(["show", str(totals.out(2))]) == 0
    said = capsys.readouterr().out
    assert ("not said" in said, "all 3 cells within" in said) == (False, True)
    record = json.loads(Path(f"{totals.out(2)}.json").read_text())
    for name, value in (("after_step", 1), ("after_step", 513), ("after_step", True), ("stddev", 0.1), ("stddev", "1")):
        [release] = record["releases"]
        (tmp_path / "odd.json").write_text(json.dumps({**record, "releases": [{**release, name: value}]}))
        assert main(["show", str(tmp_path / "odd.json")]) == 1, name
        one_error(capsys.readouterr().err, "the record in .* is not one of dpfast, or damaged")


def test_what_is_explained_needs_nothing_and_makes_nothing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    words = "--unit person --steps 365 --per-unit-steps 4 --apart 7 --epsilon 1 --delta 1e-6 --explain"
    assert main(["totals", "new", *words.split()]) == 0
    said = capsys.readouterr().out
    assert "one person counts in at most 4 steps, 7 apart, first come, first served" in said
    assert "nothing was charged" in said
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ again


def test_a_step_that_is_taken_again_gives_the_same_bytes(tmp_path) -> None:
    """With the same rows in another order; with --resume also after the rows were corrected."""
    totals = Totals(tmp_path)
    assert (totals.new(), totals.step(1), totals.step(2)) == (0, 0, 0)
    made = totals.bytes(2)
    totals.clear(2)
    assert totals.step(2, rows=written(tmp_path / "turned.csv", DAYS[1][::-1])) == 0
    assert totals.bytes(2) == made
    assert totals.step(2, "--resume", rows=written(tmp_path / "more.csv", [*DAYS[1], ("Lima", "p9")])) == 0
    totals.clear(2)
    assert totals.step(2, "--resume", rows=tmp_path / "more.csv") == 0
    assert (totals.bytes(2), totals.charges) == (made, 1)


def test_a_state_that_was_lost_comes_back_from_the_rows(tmp_path, capsys) -> None:
    totals = Totals(tmp_path)
    assert [totals.new(), *(totals.step(t) for t in (1, 2))] == [0, 0, 0]
    made = totals.bytes(1), totals.bytes(2)
    for path in tmp_path.glob("sign-ups.state*"):
        path.unlink()
    assert totals.step(3) == 2
    one_error(
        capsys.readouterr().err, "^Error: T must be 1, .* the ledger at 2, so give each again with the same rows$"
    )
    for t in (1, 2):
        totals.clear(t)
        assert totals.step(t, "--resume") == 0
    assert ((totals.bytes(1), totals.bytes(2)), totals.step(3), totals.charges) == (made, 0, 1)


KILLED = """
import os, sys
from dpfast.counts.running import state
from dpfast.ledger import store

def ends(*_, **__):
    os._exit(9)

def after(of, name):
    works = getattr(of, name)
    setattr(of, name, lambda *given, **named: (works(*given, **named), ends()))

def before(of, name):
    setattr(of, name, ends)

{}
from dpfast.app.cli import main
sys.exit(main(sys.argv[1:]))
"""
POINTS = {  # where a step ends, and whether its rows were written ahead then
    "before": ("before(state.StateFile, 'write_ahead')", False),
    "written ahead": ("after(state.StateFile, 'write_ahead')", True),
    "reserved": ("after(store.Store, 'step')", True),
    "between two names": ("import pathlib; at = pathlib.Path.replace; pathlib.Path.replace = lambda a, b: (at(a, b), b.suffix == '.before' and ends())[0]", True),
    "kept": ("after(state.StateFile, 'replace')", True),
    "drawn": ("import pyarrow.csv; pyarrow.csv.write_csv = ends", True),
    "its record named": ("after(os, 'link')", True),
}  # fmt: skip


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Totals:
    """Totals that took three steps, and in a folder `begun` what there was after the first."""
    totals = Totals(tmp_path_factory.mktemp("expected"))
    assert (totals.new(), totals.step(1)) == (0, 0)
    shutil.copytree(totals.folder, totals.folder / "begun")
    assert (totals.step(2), totals.step(3)) == (0, 0)
    return totals


@pytest.mark.parametrize("point", POINTS)
def test_a_step_that_was_killed_is_begun_again(tmp_path, warm, expected, point) -> None:
    """Its bytes are those of a step that ran: what was written ahead counts, not later rows."""
    shutil.copytree(expected.folder / "begun", tmp_path, dirs_exist_ok=True)
    here, (planted, ahead) = Totals(tmp_path), POINTS[point]
    result = warm.run(KILLED.format(planted), *here.command(2), folder=tmp_path)
    assert (result.returncode, here.out(2).exists()) == (9, False), result.stderr
    later = written(tmp_path / "later.csv", [*DAYS[1], ("Oslo", "p8")]) if ahead else None
    assert here.step(2, "--resume", rows=later) == 0
    assert here.bytes(2) == expected.bytes(2)
    assert (here.step(3), here.charges) == (0, 1)
    assert here.bytes(3) == expected.bytes(3)


NEW = {  # where it ends, and what is charged then
    "before the charge": ("before(store.Store, 'reserve')", 0),
    "charged": ("after(store.Store, 'reserve')", 1),
    "made": ("after(state.StateFile, 'claim')", 1),
}


@pytest.mark.parametrize("point", NEW)
def test_totals_whose_making_was_killed_are_charged_once(tmp_path, warm, point) -> None:
    planted, charges = NEW[point]
    totals = Totals(tmp_path)
    words = map(str, ["totals", "new", *totals.words, *totals.keyed])
    assert warm.run(KILLED.format(planted), *words, folder=tmp_path).returncode == 9
    assert totals.charges == charges
    assert (totals.new("--resume"), totals.new("--resume"), totals.step(1), totals.charges) == (0, 0, 0, 1)


def test_what_fails_after_the_charge_says_that_it_stays(tmp_path, monkeypatch, capsys) -> None:
    """And what a step fails with is no charge: the totals are paid for."""
    totals, of = Totals(tmp_path), "dpfast.counts.running.state.StateFile"

    def full(*_: object) -> None:
        raise dpfast.errors.FileError("cannot write: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(f"{of}.claim", full)
        assert totals.new() == 4
    one_error(capsys.readouterr().err, "the charge in .*budget.db stays: --resume goes on without a new charge")
    assert totals.new() == 1  # it is there
    one_error(capsys.readouterr().err, "is reserved .*: --resume continues it")
    assert totals.new("--resume") == 0
    with monkeypatch.context() as patched:
        patched.setattr(f"{of}.replace", full)
        assert totals.step(1) == 1
    one_error(capsys.readouterr().err, "No space left on device$")
    assert (totals.out(1).exists(), totals.step(1, "--resume"), totals.charges) == (False, 0, 1)


# ------------------------------------------------------------------ what is refused


def integers(folder: Path, city: Any = CITIES[:2]) -> Path:
    pq.write_table(pa.table({"city": city, "person": [1, 2]}), path := folder / f"{city[0]}.parquet")
    return path


REFUSED: dict[str, tuple[list[object], int, str]] = {  # words of step 2, its code and what it says
    "another m": (["--per-unit-steps", 2], 1, "is reserved with another --per-unit-steps, 1, not 2: "),
    "another apart": (["--apart", 2], 1, "is reserved with another --apart, 1, not 2: "),
    "m above the ceiling": (["--per-unit-steps", 513], 2, "^Error: --per-unit-steps must be at most 512, the ceiling of 8 steps"),
    "apart above the ceiling": (["--apart", 513], 2, "^Error: --apart must be at most 512, "),
    "too many steps": (["--steps", 2**20 + 1], 2, r"^Error: --steps must be at most 2\*\*20"),
    "another rho": (["--rho", "0.25"], 1, "is reserved with another --rho, "),
    "another cap": (["--max-per-partition", 2], 1, "is reserved with another --max-per-partition, "),
    "a cap beyond all noise": (["--max-per-partition", 10**30], 2, "^Error: --max-partitions, --max-per-partition and"),
    "other cells": (["--domain", "Oslo,Lima,Rome"], 2, "came twice"),
    "another reading": (["--strip"], 1, "is reserved with another --strip, "),
    "an epsilon alone": (["--epsilon", 1], 2, "Too many options: give either '--rho', or '--epsilon' with '--delta'"),
    "no such option": (["--unit-is-row"], 2, "No such option"),
    "a state that is away": (["--state", "no/where"], 1, "^Error: --state must lie in a folder that is there"),
    "a state that is none": (["--state", "rows"], 1, "is no file of running totals"),
    "what is no chance": (["--intervals", 2], 2, "^Error: --intervals must be above 0 and below 1"),
    "a unit that is not the ledger's": (["--unit", "tailnum"], 2, "^Error: --unit must be that of the ledger, 'person', got 'tailnum'; dpfast ledger create --unit makes"),
    "another unit": (["--unit", "city"], 2, "^Error: --by must not name the column of --unit"),
    "no such ledger": (["--ledger", "no.db"], 1, "no.db"),
    "a lone label": (["--label", ""], 2, "label must be a non-empty string"),
}  # fmt: skip


def test_what_is_no_step_of_these_totals_is_refused_in_one_line(tmp_path, monkeypatch, capsys) -> None:
    """Before anything is read, written or reserved: the step itself goes on after all of them."""
    monkeypatch.chdir(tmp_path)
    Path("rows").write_text("city,person\n")
    totals = Totals(tmp_path)
    assert (totals.new(), totals.step(1)) == (0, 0)
    before = totals.state.read_bytes()
    for what, (words, code, said) in REFUSED.items():
        capsys.readouterr()
        assert totals.step(2, *words) == code, what
        one_error(capsys.readouterr().err, said)
        assert (totals.state.read_bytes(), totals.out(2).exists(), totals.charges) == (before, False, 1), what
        assert main(["totals", "show", str(totals.ledger), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["totals"][0]["taken"] == 1, what
    assert totals.step(2) == 0


def test_a_step_out_of_order_beyond_the_ceiling_or_of_other_rows_is_refused(tmp_path, capsys) -> None:
    totals = Totals(tmp_path)
    rows, other = written(tmp_path / "rows.csv", DAYS[0]), written(tmp_path / "other.csv", [*DAYS[0], ("Oslo", "p9")])
    assert totals.step(1) == 2
    one_error(
        capsys.readouterr().err, f"^Error: --label must be that of totals, and .*budget.db has none of {LABEL!r}: "
    )
    assert totals.new() == 0
    for t in (1, 2, 3):
        assert totals.step(t) == 0
    for t, code, source, said in (
        (5, 2, rows, "^Error: T must be 4, the step after the last one, got 5$"),
        (1, 2, rows, "^Error: T must be 3 or 4, got 1: totals of earlier steps are released"),
        (
            513,
            2,
            rows,
            "^Error: T must be at most 512, up to which these totals are private, got 513: go on with new totals",
        ),
        (5, 2, "no.csv", "^Error: T must be 4"),
        (10**30, 2, rows, "^Error: T must be at most 512, "),
        (0, 2, rows, "0 is not in the range"),
        (3, 1, other, "the input is not the one with which step 3 was reserved, .*: --resume goes on"),
        (4, 1, "no.csv", "no such file"),
        (4, 2, integers(tmp_path), "^Error: --unit must contain strings, as in the steps before"),
        (4, 2, integers(tmp_path, [1.5, 2.5]), "--by 'city' must be a column of"),
    ):
        assert totals.step(t, "--force", rows=source) == code, (t, source)
        one_error(capsys.readouterr().err, said)
    assert totals.charges == 1


def test_missing_options_and_files_that_meet_are_refused(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    totals = Totals(tmp_path)
    by, rows = ["--by", "city", "--domain", "Oslo,Lima", "--max-partitions", "1"], written(tmp_path / "r.csv", DAYS[0])
    for words, said in (
        ([*by, "--steps", "8", "--rho", "1"], "Missing option '--unit': over time units are bounded"),
        (["--by", "city", "--unit", "person", "--max-partitions", "1", "--steps", "8", "--rho", "1"], "Missing option '--domain', or '--bins'"),
        ([*by, "--unit", "person", "--rho", "1"], "Missing option '--steps'"),
        ([*by, "--unit", "person", "--steps", "8"], "Missing option '--rho', or '--epsilon' with '--delta'"),
        ([*by, "--unit", "person", "--steps", "8", "--epsilon", "1"], "^Error: --epsilon must come with a delta, got 1 alone: Laplace noise"),
        ([*by, "--unit", "person", "--steps", "8", "--rho", "1"], "Missing option '--ledger': totals need"),
        ([*by, "--unit", "person", "--steps", "8", "--rho", "1", *map(str, totals.keyed)], "Missing option '--state': totals need"),
        ([*by, "--unit", "person", "--steps", "8", "--rho", "1", *map(str, totals.keyed[:2]), "--state", "s"], "Missing option '--key-file': totals need '--ledger', '--key-file', '--state', '--label'"),
        ([*by[:2], "--domain", "Oslo,Oslo", *by[4:], "--unit", "person", "--steps", "8", "--rho", "1"], "name each key once"),
    ):  # fmt: skip
        assert main(["totals", "new", *words]) == 2
        one_error(capsys.readouterr().err, said)
    for state in (totals.ledger, f"{totals.ledger}-journal", "visits.key", "visits.key.head"):
        assert totals.new("--state", state) == 2
        one_error(capsys.readouterr().err, "^Error: --state must not be ")
    assert totals.new() == 0
    for out in (totals.state, f"{totals.state}.before", f"{totals.state}.ahead", totals.ledger, "visits.key", "r.csv"):
        given = ["totals", "step", 1, rows, out, *totals.words, *totals.keyed, "--force"]
        assert main([*map(str, given)]) == 2, out
        one_error(capsys.readouterr().err, "OUT must not be ")
    assert (totals.charges, totals.step(1)) == (1, 0)


# ------------------------------------------------------------------ what there is


def test_show_says_what_is_public_and_reads_no_state(tmp_path, capsys) -> None:
    totals = Totals(tmp_path, "--per-unit-steps", 4, "--apart", 2)
    assert main(["totals", "show", str(totals.ledger)]) == 0
    assert capsys.readouterr().out == "budget: no running totals\n"
    assert (totals.new(), totals.step(1), totals.step(2)) == (0, 0, 0)
    for path in chain(tmp_path.glob("sign-ups.state*"), [tmp_path / "visits.key"]):
        path.unlink()
    assert main(["totals", "show", str(totals.ledger)]) == 0
    said = capsys.readouterr().out
    about = {"sensitivity": dpfast.Sensitivity(1, 1), "per_unit_steps": 4, "apart": 2}
    made = dpfast.RunningTotals(8, rho="0.5", **about)
    assert re.match(
        rf"{LABEL}\n  steps +2 taken of 8 expected; you may go on to step 512 at no further charge, with somewhat more noise\n",
        said,
    )
    assert "rho 0.5 (so epsilon 5.23 at delta 1e-6) per person, add-remove; charge 1, " in said
    assert "one person counts in at most 4 steps, 2 apart\n" in said
    assert main(["totals", "show", str(totals.ledger), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["totals"]
    assert (found["stddev"], found["taken"], found["cells"], found["cost"]) == (made.stddev(2), 2, 3, {"rho": "1/2"})


def test_show_knows_totals_of_counts_from_python(tmp_path, capsys) -> None:
    ledger = dpfast.Ledger(tmp_path / "budget.db", rho=1, create=True)
    key = dpfast.Key.generate().derive("sign-ups")
    totals = dpfast.RunningTotals(8, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
    ledger.running(totals, key=key, names=["Lima", "Oslo"])
    ledger.spend(dpfast.Guarantee(rho="0.1"))
    assert main(["totals", "show", str(tmp_path / "budget.db")]) == 0
    assert "in at most 1 step, as whoever counted says\n" in capsys.readouterr().out


def test_the_page_shows_lines_that_run(tmp_path, monkeypatch, capsys) -> None:
    """A shell says what the words are, and this process runs them."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "running.md").read_text("utf-8")
    [script] = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    dpfast.KeyFile.create("visits.key")
    dpfast.Ledger("budget.db", rho=1, create=True)
    written(tmp_path / "monday.csv", DAYS[0])
    says = "dpfast() { printf '%s\\n' \"$@\" ''; }\n"
    said = subprocess.run(["bash", "-ec", says + script], capture_output=True, text=True, check=True).stdout
    for words in said.strip().split("\n\n"):
        assert main(words.splitlines()) == 0
    assert capsys.readouterr().out.startswith(f"{LABEL}\n  steps      1 taken of 365 expected")
    assert (tmp_path / "totals-1.csv").read_text().startswith("city,total,low,high\nLima,")


def test_files_of_a_state_are_neither_rows_nor_out_whatever_names_them(tmp_path, capsys) -> None:
    """A link to the state, too: what lies beside it lies beside its file."""
    assert BESIDE_A_STATE == OTHERS
    totals = Totals(tmp_path)
    assert totals.new() == 0
    assert totals.step(1) == 0
    link = totals.folder / "link"
    link.symlink_to(totals.state)
    kept = {path: path.read_bytes() for path in totals.folder.glob("sign-ups.state*")}
    beside = Path(f"{totals.state}.new")
    written(beside, DAYS[1])
    given = totals.command(2, "--resume")
    given[given.index(str(totals.out(2)))] = f"{totals.state}.before"
    given[given.index("--state") + 1] = str(link)
    for words in ([*given, "--force"], totals.command(2, rows=beside)):
        assert main(words) == 2
        assert "--state" in capsys.readouterr().err
    assert beside.exists()
    assert {path: path.read_bytes() for path in kept} == kept
