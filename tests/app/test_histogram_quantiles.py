# SPDX-License-Identifier: Apache-2.0
"""`histogram --quantile`: answers, keys of each kind, one charge, and what is refused."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tiers
from people import CITIES, QUIET, csv_of, people
from table_files import store

import dpfast
from dpfast.app.cli import main

ASKED = ["--quantile", "hours=0.5", "--quantile", "hours=0.9", "--clamp", "2", "20"]
ROW = ["--unit-is-row", *QUIET]
IN_ALL = ["--unit", "person", "--max-contributions", "9"]


def true(values: Any, q: float, low: int = 2, high: int = 20) -> int:
    return int(np.quantile(np.clip(values, low, high), q, method="inverted_cdf"))


@pytest.mark.parametrize("end", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_they_are_those_of_the_clamped_values(here, end) -> None:
    columns, rows = people(), here.folder / f"in{end}"
    if end == ".jsonl":
        lines = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif end != ".csv":
        store(pa.table(columns), rows)
    asked = {"rows": rows if end != ".csv" else None, "usual": False}
    assert here.run(*ASKED, *ROW, **asked) == 0
    assert here.table() == {"quantile": [0.5, 0.9], "value": [true(columns["hours"], q) for q in (0.5, 0.9)]}
    here.clear()
    assert here.run(*ASKED, *ROW, "--by", "city", "--domain", str(here.cities), "--intervals", **asked) == 0
    of_city = defaultdict(list)
    for city, hours in zip(columns["city"], columns["hours"], strict=True):
        of_city[city].append(hours)
    found, wanted = here.table(), [true(of_city[city], q) for city in CITIES for q in (0.5, 0.9)]
    assert found["city"] == [city for city in CITIES for _ in range(2)]
    assert found["quantile"] == [0.5, 0.9] * 3
    assert found["value"] == wanted
    ends = zip(found["low"], wanted, found["high"], strict=True)
    assert all(low <= value <= high <= low + 3 for low, value, high in ends)
    (release,) = json.loads(Path(f"{here.out}.json").read_text())["releases"]
    assert (release["mechanism"], release["epsilon"]) == ("tree", str(2**50))


def test_keys_that_are_made_or_missing(here) -> None:
    columns = {
        "day": ["2026-01-05", "2026-01-06", "2026-01-13", "?", " "], "age": [" 20", "70", "30", "?", "50"], "hours": [3, 5, 7, 9, 11],
    }  # fmt: skip
    csv_of({**columns, "person": list("abcde")}, here.rows)
    given = ["--quantile", "hours=0.5", "--clamp", "0", "20", *ROW, "--null", "?", "--strip", "--unknown"]
    assert here.run(*given, "--by", "week(day)", "--domain", "2026-W02..2026-W03", usual=False) == 0
    assert here.table()["value"][:2] == [3, 7]
    assert here.table()["week(day)"] == ["2026-W02", "2026-W03", "unknown"]
    assert here.table()["value"][2] == 9
    here.clear()
    assert here.run(*given, "--by", "age", "--bins", "age=0,40,60,99", usual=False) == 0
    assert here.table()["value"] == [3, 11, 5, 9]


def test_real_values_have_steps_of_decimals(here) -> None:
    rows = here.folder / "in.parquet"
    store(pa.table({"hours": [0.1, 0.3, 0.7, 0.9, np.nan, np.inf, None]}), rows)
    given = ["--quantile", "hours=0.5", "--clamp", "0", "1", "--step", "0.1", *ROW, "--intervals"]
    assert here.run(*given, rows=rows, usual=False) == 0
    found = here.table()
    assert found["value"] == [0.3]
    assert found["low"][0] <= 0.3 <= found["high"][0]


def test_a_real_column_needs_a_step_before_any_charge(here, capsys) -> None:
    rows = here.folder / "in.parquet"
    store(pa.table({"hours": [0.1, 0.3]}), rows)
    ledger = dpfast.Ledger(here.folder / "budget.db", 2**51, unit="row", create=True)
    given = [*ASKED, *ROW, "--ledger", ledger.path]
    here.refused(
        capsys, "--step must be given for 'hours', a column of real numbers", *given, rows=rows, usual=False, code=2
    )
    assert ledger.spent.epsilon == 0


def test_ends_beyond_whole_numbers_of_64_bits(here) -> None:
    given = ["--quantile", "hours=0.5", "--clamp", "0", "2**900", "--step", "2**890", *ROW, "--intervals"]
    assert here.run(*given, usual=False) == 0
    assert here.table() == {"quantile": [0.5], "value": [0.0], "low": [0.0], "high": [2.0**890]}


def test_nobody_at_all_has_answers(here) -> None:
    csv_of({"city": [], "person": [], "hours": []}, here.rows)
    given = [
        *ASKED,
        *IN_ALL,
        "--epsilon",
        "1",
        "--quiet",
        "--intervals",
        "--jointly",
        "--report",
        here.folder / "r.html",
    ]
    assert here.run(*given, "--by", "city", "--domain", str(here.cities), usual=False) == 0
    found = here.table()
    assert len(found["value"]) == 6
    assert all(2 <= each <= 20 for name in ("value", "low", "high") for each in found[name])


def test_intervals_that_hold_jointly_share_the_doubt(here) -> None:
    """Six rows: under one key each is that of a sixth of the doubt alone.

    In 120 runs the intervals of the last two differed in 6 to 9 of their twelve ends.
    """
    dpfast.Ledger(here.folder / "budget.db", 9, create=True)
    key = dpfast.KeyFile.create(here.folder / "visits.key").path
    keyed = [
        "--ledger",
        here.folder / "budget.db",
        "--key-file",
        key,
        "--label",
        "hours",
        "--resume",
        "--force",
        "--quiet",
    ]
    given = [*ASKED, *IN_ALL, "--by", "city", "--domain", str(here.cities), "--epsilon", "0.5", *keyed]
    found = []
    for words in (["--intervals", "0.04", "--jointly"], ["--intervals", "0.84"], ["--intervals", "0.04"]):
        assert here.run(*given, *words, usual=False) == 0
        found.append((here.table()["low"], here.table()["high"]))
    assert found[0] == found[1] != found[2]


# ------------------------------------------------------------------ small worlds


@pytest.mark.parametrize(
    ("caps", "most"), [(["--max-partitions", "1"], 1), (["--max-partitions", "2", "--max-per-partition", "2"], 4), (["--max-contributions", "2"], 2)]
)  # fmt: skip
def test_a_unit_changes_the_leaves_by_what_the_noise_is_for(here, caps, most) -> None:
    """All that one unit can have: up to two rows of two values in each of two keys."""
    rows_of = [n for many in range(3) for n in itertools.combinations_with_replacement((0, 1), many)]
    worst, levels = 0, set()
    for both in itertools.product(rows_of, repeat=2):
        cells = [(key, value) for key, values in zip("ab", both, strict=True) for value in values]
        csv_of({"key": [key for key, _ in cells], "who": ["u"] * len(cells), "n": [n for _, n in cells]}, here.rows)
        given = [
            "--by",
            "key",
            "--domain",
            "key=a,b",
            "--unit",
            "who",
            "--quantile",
            "n=0.5",
            "--clamp",
            "0",
            "1",
            "--step",
            "1",
            "--force",
        ]
        with tiers.trees_made() as made:
            assert here.run(*given, *caps, *QUIET, usual=False) == 0
        worst = max(worst, sum(int(tree.noisy[0].sum()) for tree in made))
        (release,) = json.loads(Path(f"{here.out}.json").read_text())["releases"]
        levels |= {int(Fraction(level["sensitivity"])) for level in release["levels"]}
    assert worst == most
    assert levels == {most}


# ------------------------------------------------------------------ one charge


def test_one_label_has_one_charge_for_all_shares(here, capsys) -> None:
    ledger = dpfast.Ledger(here.folder / "budget.db", 2, create=True)
    key = dpfast.KeyFile.create(here.folder / "visits.key").path
    given = [*ASKED, *IN_ALL, "--by", "city", "--domain", str(here.cities), "--epsilon", "1", "--quiet", "--intervals"]
    keyed = ["--ledger", ledger.path, "--key-file", key, "--label", "hours"]
    assert here.run(*given, *keyed, usual=False) == 0
    first = here.table()
    assert here.run(*given, *keyed, "--verify", usual=False) == 0
    assert here.run(*given, *keyed, "--resume", usual=False) == 0
    assert here.table() == first
    assert here.run(*given, *keyed, "--resume", "--quantile", "hours=0.1", "--force", usual=False) == 0
    more = here.table()
    assert [v for v, q in zip(more["value"], more["quantile"], strict=True) if q != 0.1] == first["value"]
    assert ledger.spent.epsilon == 1
    tiers.forget_labels()
    other = ["--step", "2", *given]
    here.refused(
        capsys, "is reserved .* with", *other, *keyed, "--resume", out=here.folder / "other.csv", usual=False, code=1
    )
    assert ledger.spent.epsilon == 1


# ------------------------------------------------------------------ explained and reported


@pytest.mark.parametrize(
    "law", [["--epsilon", "1"], ["--mechanism", "discrete-gaussian", "--epsilon", "1", "--delta", "1e-6"], ["--mechanism", "discrete-gaussian", "--rho", "0.1"]]
)  # fmt: skip
def test_it_is_explained_and_has_a_page(here, capsys, law) -> None:
    given = [*ASKED, *IN_ALL, "--by", "city", "--domain", str(here.cities), *law]
    assert here.run(*given, "--explain", rows=here.folder / "none.csv", usual=False) == 0
    said = capsys.readouterr().out
    assert "quantiles of hours by city: one person counts with max-contributions 9" in said
    assert "19 cells of width 1 from 2 to 20, for each of 3 keys" in said
    assert "rank of a value known within ±" in said
    assert "nothing was read, and nothing was charged" in said
    assert here.run(*given, "--report", here.folder / "r.html", usual=False) == 0
    page = (here.folder / "r.html").read_text()
    assert "The quantiles on this page are computed from counts with random noise" in page
    assert "standard deviation" not in page
    assert "holds the quantile of the bounded values with probability at least 95" in page


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--quantile", "hours=1", "--clamp", "0", "9"], "--quantile must be NAME=Q with Q above 0 and below 1, got 'hours=1'"),
        (["--quantile", "hours=0", "--clamp", "0", "9"], "--quantile must be NAME=Q with Q above 0"),
        (["--quantile", "my epsilon=50", "--clamp", "0", "9"], "below 1, got 'my epsilon=50'"),  # no option of its text
        (["--quantile", "hours=nan", "--clamp", "0", "9"], "--quantile must be a number such as 0.1 or 1/3, got 'nan'"),
        (["--quantile", "hours=half", "--clamp", "0", "9"], "--quantile must be a number"),
        (["--quantile", "hours", "--clamp", "0", "9"], "--quantile must be NAME=Q, such as age=0.5, got 'hours'"),
        (["--quantile", "=0.5", "--clamp", "0", "9"], "--quantile must be NAME=Q"),
        (["--quantile", "", "--clamp", "0", "9"], "--quantile must be NAME=Q"),
        (["--quantile", "hours=0.5", "--quantile", "hours=1/2", "--clamp", "0", "9"], "must name each Q once, and '1/2' came twice"),
        (["--quantile", "hours=0.5", "--quantile", "age=0.5", "--clamp", "0", "9"], "--quantile must name one column in a command"),
        (["--quantile", "hours=0.5"], "'--quantile' and '--clamp' must be given together"),
        (["--step", "1"], "'--step' is about quantiles"),
        ([*ASKED, "--sum", "hours"], "'--quantile' and '--sum' are two releases"),
        ([*ASKED, "--granularity", "1"], "'--quantile' takes no '--granularity'"),
        ([*ASKED, "--lower", "1"], "'--quantile' takes no '--lower'"),
        ([*ASKED, "--sigma", "1"], "'--quantile' takes no '--sigma'"),
        ([*ASKED, "--rho", "1"], "discrete-laplace takes no '--rho', as discrete-gaussian would"),
        ([*ASKED, "--jointly"], "'--jointly' says what '--intervals' contain"),
        ([*ASKED, "--intervals", "1"], "--intervals must be above 0 and below 1"),
        ([*ASKED, "--step", "7"], "--step must divide B - A, 18, got 7: the nearest that does is 6"),
        ([*ASKED, "--step", "0"], "--step must be positive"),
        ([*ASKED, "--step", "1e-9"], "--step must make at most 2\\*\\*20 cells from A to B, got 1E-9: the nearest that does is 2e-05$"),
        (["--quantile", "hours=0.5", "--clamp", "9", "9"], "--clamp must be A and B, A below B, got 9 and 9"),
        (["--quantile", "hours=0.5", "--clamp", "0", "1e400"], "--step must make at most"),
        (["--quantile", "city=0.5", "--clamp", "0", "9"], "--quantile must name another column than --by and --unit, got 'city'"),
        (["--quantile", "none=0.5", "--clamp", "0", "9"], "--quantile: no column is named 'none'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(here, capsys, words, match) -> None:
    here.refused(capsys, match, *here.words, *words, "--epsilon", "1", "--quiet", usual=False, code=2)


def test_a_threshold_and_too_many_leaves(here, capsys) -> None:
    usual = ["--by", "city", "--unit", "person", "--max-partitions", "1", "--epsilon", "1"]
    here.refused(capsys, "'--quantile' and '--threshold' are two", *usual, *ASKED, "--threshold", usual=False, code=2)
    wide = [*usual, "--domain", "1..17", "--quantile", "hours=0.5", "--clamp", "0", 2**20 - 1]
    here.refused(
        capsys,
        "--step must make at most 2\\*\\*24 cells of all keys together, got 17,825,792: 3 does$",
        *wide,
        usual=False,
        code=2,
    )


@pytest.mark.parametrize("name", ["quantile", "value", "low"])
def test_a_name_that_out_has_itself(here, capsys, name) -> None:
    csv_of({name: ["a"], "person": ["p"], "hours": [1]}, here.rows)
    given = ["--by", name, "--domain", f"{name}=a", *ASKED, *IN_ALL, "--epsilon", "1", "--intervals"]
    here.refused(capsys, f"--by must not be {name}, because OUT has another column", *given, usual=False, code=2)


def test_help_names_it(capsys) -> None:
    assert main(["histogram", "--help"]) == 0
    assert "--quantile NAME=Q" in capsys.readouterr().out


def test_a_text_file_of_shares_needs_a_step(here, capsys) -> None:
    rows = csv_of({"score": [0.1, 0.7, 0.8]}, here.folder / "scores.csv")
    words = ["--unit-is-row", "--quantile", "score=0.5", "--clamp", "0", "1", "--epsilon", "1", "--quiet"]
    here.refused(capsys, "--step must be given, for CSV says of no column", *words, rows=rows, usual=False)
    assert here.run(*words, "--step", "0.1", rows=rows, usual=False) == 0


def test_a_confidence_too_near_one_is_refused_before_the_charge(here, capsys) -> None:
    ledger = dpfast.Ledger(here.folder / "budget.db", 2, create=True)
    nearly = "0." + "9" * 301
    words = [*ASKED, *IN_ALL, "--epsilon", "1", "--quiet", "--intervals", nearly, "--ledger", ledger.path]
    here.refused(capsys, "confidence must be at most|--intervals must be", *words, usual=False)
    assert ledger.spent.epsilon == 0
