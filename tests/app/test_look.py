# SPDX-License-Identifier: Apache-2.0
"""`dpfast look`: which listed keys match nothing, for who holds the rows, and nothing else."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import one_error
from table_files import store

import dpfast
from dpfast.app.cli import main

ADULT = "name,gender,age\n" + "a, Male,39\nb, Male,50\nc, Female,28\n" * 40
WORDS = ["look", "rows.csv", "--by", "gender"]
HIDDEN = ["Zoltan", "zzz", "918273645"]  # what occurs, and is not listed


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(ADULT)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a look tells, as JSON, by columns."""
    assert main([*words, "--private", "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    found = json.loads(out)
    assert found["private"] is True
    return {
        each["by"]: ({n["key"]: n["would_match_with"] for n in each["match_nothing"]}, each["rows_outside"])
        for each in found["columns"]
    }


def test_a_domain_written_without_a_look_matches_nothing(capsys, monkeypatch) -> None:
    """In a terminal: said before a budget is spent, with what would match, without a count."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([*WORDS, "--domain", "male,female"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("private:")
    assert "male    would match with --strip and in another case" in out
    assert "rows with another key or without one: 1 % or more" in out
    assert "epsilon does not" in out
    assert "Male" not in out
    assert not any(count in out for count in ("120", "80", "40"))
    assert main([*WORDS, "--domain", "Male,Female", "--strip"]) == 0
    assert "gender: each listed key matches a row\ngender: rows with another key or without one: none" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("more", [[], ["--json"], ["--ledger", "l.db"]])
def test_a_pipe_needs_to_be_called_private(capsys, monkeypatch, more: list[str]) -> None:
    """Before a file is opened, and before a ledger notes it."""
    ledger = dpfast.Ledger("l.db", 1, create=True)
    monkeypatch.setattr("dpfast.app.tables.rows.Rows", lambda *_: pytest.fail("it was opened"))
    assert main([*WORDS, "--domain", "a,b", *more]) == 2
    one_error(capsys.readouterr().err, "Missing option '--private'")
    assert not ledger.history()


def near(key: str, cells: list[str | None], ways: tuple[str, ...]) -> bool:
    """The reference: whether a cell is the key when both are read so."""
    strip = [cell.strip() if "--strip" in ways else cell for cell in cells if cell is not None]
    lower = "another case" in ways
    return (key.lower() if lower else key) in [cell.lower() if lower else cell for cell in strip]


def wanted(listed: list[str], cells: list[str | None], *, stripped: bool) -> tuple[dict[str, list[str]], str]:
    ways = [("another case",)] if stripped else [("--strip",), ("another case",), ("--strip", "another case")]
    lacking = {
        key: [*next((way for way in ways if near(key, cells, way)), ())] for key in listed if not near(key, cells, ())
    }
    outside = sum(cell not in listed for cell in cells)
    return lacking, "none" if not outside else "below 1 %" if 100 * outside < len(cells) else "more"


@pytest.mark.parametrize("end", [".csv", ".parquet"])
@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("null", [False, True])
def test_it_tells_what_a_reference_tells(capsys, monkeypatch, end: str, strip: bool, null: bool) -> None:
    """In small worlds, in batches of any size: cells missing, spaced, of another case, none."""
    r = random.Random(f"{end}{strip}{null}")
    for _ in range(12):
        monkeypatch.setattr("dpfast.app.tables.rows.BATCH", r.randrange(1, 9))
        n = r.choice([0, 1, 5, 250])
        cells = [r.choice(["oslo", "oslo", " oslo", "Oslo", " OSLO ", "lima", "?", "", *HIDDEN]) for _ in range(n)]
        if r.random() < 0.5 and n:
            cells = ["oslo"] * (n - 1) + [r.choice(cells)]
        cells += ["oslo"] * (not cells and end == ".csv")
        path = Path(f"in{end}")
        if end == ".csv":
            path.write_text("city,n\n" + "".join(f"{cell},1\n" for cell in cells))
        else:
            store(pa.table({"city": pa.array(cells, pa.string())}), path)
        listed = r.sample(["oslo", "OSLO", "Lima", "lima", "pune", "?"], r.randrange(2, 5))
        read = [cell.strip() if strip else cell for cell in cells]
        kept = [None if not cell or (null and cell == "?") else cell for cell in read]
        words = [*(["--strip"] if strip else []), *(["--null", "?"] if null else [])]
        found = told(capsys, "look", str(path), "--by", "city", "--domain", ",".join(listed), *words)
        assert found == {"city": wanted(listed, kept, stripped=strip)}, (cells, listed)


def tables() -> Iterator[str]:
    """Worlds that differ in units, numbers of rows and names that are not listed alone."""
    yield "gender,who\n" + "x,1\n" * 30 + "Zoltan,2\n" * 10
    yield "gender,who\n" + "x,1\n" + "zzz,2\n" * 900
    yield "gender,who\n" + "".join(f"x,{i}\n918273645,{i}\n,\n" for i in range(9))


def test_what_is_not_told_changes_no_letter(capsys) -> None:
    said = set()
    for text in tables():
        Path("rows.csv").write_text(text)
        for more in ([], ["--json"]):
            assert main([*WORDS, "--domain", "x,y,X", "--private", *more]) == 0
            said.add((bool(more), *capsys.readouterr()))
    assert len(said) == 2
    assert not any(name in str(said) for name in HIDDEN)


@pytest.mark.parametrize(("others", "outside"), [(0, "none"), (1, "below 1 %"), (9, "below 1 %"), (10, "more")])
def test_one_per_cent_is_more(capsys, others: int, outside: str) -> None:
    Path("rows.csv").write_text("gender,n\n" + "a,1\n" * (1000 - others) + "b,1\n" * others)
    assert told(capsys, *WORDS, "--domain", "a,c")["gender"][1] == outside


def test_bins_weeks_numbers_and_missing_keys(capsys) -> None:
    store(
        pa.table({"age": [3, 40, None], "day": ["2026-11-30", "2026-12-07", ""], "n": [1, 2, 3], "b": [True] * 3}),
        Path("in.parquet"),
    )
    look = ["look", "in.parquet"]
    assert told(capsys, *look, "--by", "age", "--bins", "age=0,18,30") == {"age": ({"[18, 30)": []}, "more")}
    week = ["--by", "week(day)", "--domain", "2026-W48..2026-W50"]
    assert told(capsys, *look, *week) == {"week(day)": ({"2026-W48": []}, "more")}
    assert told(capsys, *look, "--by", "age", "--domain", "3,40", "--unknown") == {"age": ({}, "none")}
    several = ["--by", "n", "--domain", "n=1..4", "--by", "b", "--domain", "b=true,false"]
    assert told(capsys, *look, *several) == {"n": ({"4": []}, "none"), "b": ({"false": []}, "none")}


@pytest.mark.parametrize(
    "budget",
    [{"epsilon": 1}, {"rho": 1}, {"epsilon": 1, "delta": "1e-6", "by": "gdp"}, {"epsilon": 1, "delta": "1e-6", "by": "zcdp"}],
    ids=str,
)  # fmt: skip
def test_a_ledger_notes_it_and_charges_nothing(capsys, budget: dict[str, Any]) -> None:
    ledger = dpfast.Ledger("l.db", **budget, unit="visit", adjacency="substitution", create=True)
    told(capsys, *WORDS, "--domain", "male,female", "--ledger", "l.db")
    (entry,) = ledger.history()
    assert (entry.mechanism, entry.label, entry.refused) == ("look", "rows.csv: keys of gender: male,female", False)
    spent = ledger.cost(ledger.remaining), ledger.cost(ledger.budget)
    assert spent[0] == spent[1]
    assert ledger.verify() == 1


def test_a_ledger_tells_looks_apart_by_what_they_asked(capsys) -> None:
    """Edges that close in on the largest value are seen in the history, whatever the look told."""
    ledger = dpfast.Ledger("l.db", 1, unit="row", create=True)
    for last in (64, 48, 40):
        told(capsys, "look", "rows.csv", "--by", "age", "--bins", f"age=0,{last}", "--ledger", "l.db")
    many = ",".join(f"k{i}" for i in range(300))
    for listed in (f"{many},a", f"{many},b"):
        told(
            capsys, "look", "rows.csv", "--by", "name", "--domain", listed, "--strip", "--null", "?", "--ledger", "l.db"
        )
    bins, lists = [entry.parameters for entry in ledger.history()[:3]], [e.parameters for e in ledger.history()[3:]]
    assert [each["keys"]["age"]["first"] for each in bins] == [["[0, 64)"], ["[0, 48)"], ["[0, 40)"]]
    assert {(each["strip"], *each["null"], each["keys"]["name"]["number"]) for each in lists} == {(True, "?", 301)}
    assert lists[0]["keys"]["name"]["first"] == lists[1]["keys"]["name"]["first"]
    assert lists[0]["keys"]["name"]["blake2b"] != lists[1]["keys"]["name"]["blake2b"]
    assert main(["ledger", "show", "l.db"]) == 0
    out = capsys.readouterr().out
    assert "keys of age: [0, 40)" in out
    assert "match" not in out + str(bins)
    assert ledger.verify() == 5


def test_a_cell_that_is_no_date_or_number_fails_and_is_not_quoted(capsys) -> None:
    """With 1, as the pages say: the message has the column, the rule and what helps."""
    Path("rows.csv").write_text("day,n\n2026-11-30,1\n?,918273645x\n")
    week = ["look", "rows.csv", "--by", "week(day)", "--domain", "2026-W49..2026-W50", "--private"]
    number = ["look", "rows.csv", "--by", "n", "--bins", "n=0,10", "--private"]
    for words, said in (
        (week, "column 'day' of rows.csv must contain dates or times such as"),
        (number, "column 'n' of rows.csv must contain decimal numbers"),
    ):
        assert main(words) == 1
        out, err = capsys.readouterr()
        assert out == ""
        one_error(err, f"{said}.*--null says which texts are missing$")
        assert "918273645" not in err
    assert main([*week, "--null", "?"]) == 0


def test_what_is_refused_before_a_cell_is_read_is_not_noted(capsys) -> None:
    ledger = dpfast.Ledger("l.db", 1, create=True)
    for words, said in (
        ([*WORDS[:3], "nobody", "--domain", "a,b"], "no column is named 'nobody'"),
        (WORDS[:2], "Missing option '--by'"),
        (WORDS, "--domain must be given for each column"),
        ([*WORDS, *WORDS[2:], "--domain", "gender=a,b"], "--by must name each column once"),
        ([*WORDS, "--domain", "a,a"], "name each key once"),
    ):
        assert main([*words, "--private", "--ledger", "l.db"]) == 2
        one_error(capsys.readouterr().err, said)
    assert main([*WORDS, "--domain", "a,b", "--private", "--shared-with", "0"]) == 2
    one_error(capsys.readouterr().err, "--shared-with must come with --ledger")
    assert main([*WORDS, "--domain", "a,b", "--private", "--ledger", "no.db"]) == 1
    one_error(capsys.readouterr().err, "no.db does not exist")
    assert not ledger.history()


def test_a_long_list_is_cut_in_a_terminal_alone(capsys) -> None:
    listed = ",".join(f"k{i}" for i in range(250))
    assert main([*WORDS, "--domain", listed, "--private"]) == 0
    assert "  and 150 more\n" in capsys.readouterr().out
    assert len(told(capsys, *WORDS, "--domain", listed)["gender"][0]) == 250


def test_a_name_holds_no_command_of_a_terminal(capsys) -> None:
    Path("rows.csv").write_text("\x1b[2J,b\nx,1\n")
    assert main(["look", "rows.csv", "--by", "\x1b[2J", "--domain", "\x1b[31m,x", "--private"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "?[31m" in out


def test_what_strip_would_make_missing_is_no_match(capsys) -> None:
    Path("rows.csv").write_text("k,v\nA,1\n NA ,2\nNA,3\n")
    words = ["look", "rows.csv", "--by", "k", "--domain", "NA,A"]
    assert told(capsys, *words, "--null", "NA") == {"k": ({"NA": []}, "more")}
