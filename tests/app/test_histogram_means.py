# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram --mean`: sum, count and mean of the same rows, their record, page and seal."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from html_faults import Tree
from people import CITIES, QUIET, csv_of, people

import dpfast
from dpfast.app.cli import main

MEAN = ["--mean", "hours", "--clamp", "0", "20"]
ALL = ["--max-per-partition", "999", "--max-partitions", "9"]


def record(out: Path) -> dict[str, Any]:
    return json.loads(Path(f"{out}.json").read_text())


def clamped(city: str | None = None) -> np.ndarray:
    columns = people()
    known = set(CITIES) if city is None else {city}
    return np.array([min(h, 20) for h, c in zip(columns["hours"], columns["city"], strict=True) if c in known])


# ------------------------------------------------------------------ what is written


@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_a_mean_is_of_the_clamped_rows_of_a_cell(here, end) -> None:
    out = here.folder / f"means{end}"
    assert here.run(*MEAN, *ALL, "--granularity", "1", "--intervals", out=out) == 0
    found = here.table(out)
    assert list(found) == ["city", "sum", "count", "mean", "low", "high"]
    for i, city in enumerate(CITIES):
        values = clamped(city)
        assert found["city"][i] == city
        assert found["count"][i] == len(values)
        assert found["sum"][i] == (values - 10).sum()
        assert found["mean"][i] == pytest.approx(values.mean(), abs=1e-12)
        assert found["low"][i] <= values.mean() <= found["high"][i]
        assert found["high"][i] - found["low"][i] < 1e-9
    if end == ".parquet":
        assert [str(field.type) for field in pq.read_schema(out)][1:] == ["double", "int64", *["double"] * 3]


def test_a_mean_in_all_of_a_row_each(here) -> None:
    words = ["--unit-is-row", "--mean", "hours", "--clamp", "0.3", "20.7", *QUIET]
    assert here.run(*words, usual=False) == 0
    found, wanted = here.table(), np.clip(people()["hours"], 0.3, 20.7).mean()
    assert found["mean"] == [pytest.approx(wanted, abs=1e-4)]
    assert list(found) == ["sum", "count", "mean"]


def test_no_mean_is_beyond_the_clamp(here) -> None:
    """Ends that no step meets are rounded inwards; where nobody is, the interval is all."""
    for words in (["--granularity", "0.5"], []):
        cell = ["--domain", "city=Nowhere,Nohow"]
        given = [
            "--by",
            "city",
            "--unit-is-row",
            "--mean",
            "hours",
            "--clamp",
            "0.3",
            "19.9",
            "--epsilon",
            "1e-3",
            "--quiet",
        ]
        assert here.run(*given, *cell, *words, "--intervals", "0.999", usual=False) == 0
        found = here.table()
        assert 0.3 <= found["low"][0] <= found["mean"][0] <= found["high"][0] <= 19.9
        assert found["high"][0] - found["low"][0] > 18.5
        here.clear()


def test_intervals_are_those_of_the_noise(here) -> None:
    """Each for itself, or all cells at once; the record says how far sums and counts reach."""
    widths = {}
    for words in ([], ["--jointly"]):
        assert here.run(*MEAN, "--max-contributions", "3", "--epsilon", "50", "--intervals", "0.99", *words) == 0
        found, about = here.table(), record(here.out)
        half = {name: Fraction(width) for name, width in about["intervals"]["half_width"].items()}
        cells = len(CITIES) if words else 1
        releases = {each["column"]: each for each in about["releases"]}
        for name, each in releases.items():
            law = dpfast.DiscreteLaplace(Fraction(each["epsilon"]), Fraction(each["sensitivity"]))
            assert half[name] == law.interval("0.99", cells=cells) * Fraction(each.get("step", 1))
        widths[bool(words)] = np.subtract(found["high"], found["low"])
        assert about["intervals"]["of"] == ("all cells jointly" if words else "each cell")
        here.clear()
    assert (widths[True] > widths[False]).all()


def test_the_record_says_what_was_released(here, capsys) -> None:
    words = ["--max-contributions", "3", "--report", here.folder / "page.html", "--epsilon", "2"]
    assert main(["histogram", str(here.rows), str(here.out), *here.words, *MEAN, *map(str, words)]) == 0
    said, about = capsys.readouterr().err, record(here.out)
    assert "sum is of hours less 10, and mean is 10 + sum / count" in said
    table, (sums, counts) = about["histogram"], about["releases"]
    assert (table["mean"], table["clamp"], table["middle"]) == ("hours", ["0", "20"], "10")
    assert (sums["column"], counts["column"], sums["less"]) == ("sum", "count", "10")
    assert sums["epsilon"] == counts["epsilon"] == "1"
    assert about["epsilon_total"] == "2"
    assert Fraction(sums["sensitivity"]) * Fraction(sums["step"]) == 3 * 10
    assert counts["sensitivity"] == "3"
    page = (here.folder / "page.html").read_text()
    assert "The column sum is of hours less 10" in page
    pictures = Tree(page).said("figcaption")[:3]
    assert [said.partition(":")[0] for said in pictures] == [
        "Mean of hours, by city",
        "Sum of hours less 10, by city",
        "Count, by city",
    ]
    assert "The means, sums and counts on this page are the true ones plus random noise, or computed from such" in page
    assert "nan" not in re.sub("<[^>]*>", " ", page)
    for name in ("sum", "count", "mean"):
        assert f"Each interval holds the bounded {name} with" in page


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize(
    "caps",
    [{"max_contributions": 3}, {"max_partitions": 2, "max_per_partition": 2}, {"max_partitions": 2, "max_per_partition": 2, "max_contributions": 3}],
    ids=str,
)  # fmt: skip
def test_its_noise_is_that_of_python(here, caps, adjacency) -> None:
    words = [word for name, cap in caps.items() for word in (f"--{name.replace('_', '-')}", str(cap))]
    usual = ["--by", "city", "--unit", "person", "--domain", str(here.cities), "--adjacency", adjacency, "--quiet"]
    noise = ["--epsilon", "1", "--delta", "1e-6", "--mechanism", "discrete-gaussian", "--granularity", "1"]
    assert here.run(*usual, *MEAN, *words, *noise, usual=False) == 0
    counted = dpfast.bounded_histogram(
        ["Oslo"], ["p"], values=[1], lower=0, upper=20, granularity=1, domain=CITIES, adjacency=adjacency, **caps
    )
    wanted = counted.mean(epsilon=1, delta="1e-6")
    for each in record(here.out)["releases"]:
        about = wanted.noise[each["column"]].metadata()
        assert {name: each[name] for name in about} == about
    assert record(here.out)["epsilon_total"] == "1"


def test_explain_opens_no_rows(here, capsys) -> None:
    gaussian = ["--rho", "0.1", "--mechanism", "discrete-gaussian"]
    words = [*here.words, *MEAN, "--max-per-partition", "2", *gaussian, "--explain"]
    assert main(["histogram", "nowhere.csv", str(here.out), *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "cost: rho 0.1 per person" in said
    assert "with epsilon = 2.15 and delta = 1e-6" in said
    assert "noise of a count: sigma" in said
    assert "nothing was read, and nothing was charged" in said


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--mean", "hours", *ALL], "'--mean' and '--clamp' must be given together"),
        ([*MEAN, *ALL, "--sum", "hours"], "'--sum' and '--mean' are two releases"),
        (MEAN, "'--mean' is about rows: give '--max-per-partition' or '--max-contributions'"),
        ([*MEAN, *ALL, "--threshold", "--delta", "1e-6"], "'--mean' does not work with '--threshold'"),
        ([*MEAN, *ALL, "--lower", "0"], "'--lower' and '--upper' are for noisy counts and sums"),
        ([*MEAN, *ALL, "--upper", "0"], "'--lower' and '--upper' are for noisy counts and sums"),
        ([*MEAN, *ALL, "--sigma", "3", "--mechanism", "discrete-gaussian"], "'--mean' takes no '--sigma'"),
        ([*MEAN, *ALL, "--delta", "1e-6"], "discrete-laplace takes no '--delta'"),
        (["--mean", "hours", "--clamp", "5", "5", *ALL], "--clamp must be A and B, A below B, for a mean, got 5 and 5"),
        (["--mean", "hours", "--clamp", "5", "4", *ALL], "--clamp must be A and B, A at most B"),
        ([*MEAN, *ALL, "--granularity", "32"], "--granularity must leave two values within --clamp"),
        ([*MEAN, *ALL, "--granularity", "3"], "granularity must be a power of two"),
        ([*MEAN, *ALL, "--intervals", "1"], "--intervals must be above 0 and below 1"),
        ([*MEAN, *ALL, "--jointly"], "'--jointly'"),
        (["--mean", "nowhere", "--clamp", "0", "1", *ALL], "--mean: no column is named 'nowhere'"),
        (["--mean", "person", "--clamp", "0", "1", *ALL], "--mean must name another column than --by and --unit"),
    ],
)  # fmt: skip
def test_what_no_mean_is_of_is_refused_and_not_charged(here, capsys, words, match) -> None:
    ledger = dpfast.Ledger(here.folder / "budget.db", 2**50, delta="0.1", create=True)
    here.refused(capsys, match, *words, "--ledger", ledger.path)
    assert not ledger.history()


@pytest.mark.parametrize("name", ["sum", "count", "mean", "low"])
def test_a_column_of_keys_has_no_name_of_out(here, capsys, name) -> None:
    rows = csv_of({name: ["a"], "hours": [1]}, here.folder / "named.csv")
    words = ["--by", name, "--domain", "a,", "--unit-is-row", *MEAN, "--intervals", *QUIET]
    here.refused(capsys, f"--by must not be {name}", *words, rows=rows, usual=False)


# ------------------------------------------------------------------ one charge


def test_under_a_key_a_mean_is_charged_once_and_comes_again(here, capsys) -> None:
    key, ledger = here.folder / "hours.key", dpfast.Ledger(here.folder / "budget.db", 3, create=True)
    dpfast.KeyFile.create(key)
    paying = ["--ledger", str(ledger.path), "--key-file", str(key), "--label", "hours 2026-11"]
    command = [
        "histogram",
        str(here.rows),
        str(here.out),
        *here.words,
        *MEAN,
        "--max-per-partition",
        "2",
        "--epsilon",
        "1",
        *paying,
    ]
    assert main(command) == 0
    first, about = here.out.read_bytes(), record(here.out)
    assert ledger.spent.epsilon == 1
    (charge,) = ledger.history()
    assert charge.parameters["manifest"] == about["manifest"]
    assert [each["name"] for each in about["manifest"]["columns"]] == ["sum", "count"]
    assert about["manifest"]["terms"]["--mean"] == "hours"
    here.clear()
    assert main([*command, "--resume"]) == 0
    assert here.out.read_bytes() == first
    assert main([*command, "--verify"]) == 0
    here.out.write_bytes(first.replace(b"Oslo,", b"Oslo,1", 1))
    assert main([*command, "--verify"]) != 0
    assert main(command) != 0
    changed = [word if word != "20" else "19" for word in command]
    capsys.readouterr()
    assert main([*changed, "--resume"]) != 0
    assert "reserved" in capsys.readouterr().err
    assert ledger.spent.epsilon == 1


def test_without_a_key_the_ledger_names_the_mean(here) -> None:
    ledger = dpfast.Ledger(here.folder / "budget.db", 2**51, create=True)
    assert here.run(*MEAN, *ALL, "--ledger", ledger.path) == 0
    (charge,) = ledger.history()
    assert charge.label == "rows.csv: mean by city"
    assert charge.epsilon == 2**50
    assert charge.parameters["mechanism"] == "mean"


def test_a_budget_that_does_not_suffice_pays_for_no_half(here, capsys) -> None:
    ledger = dpfast.Ledger(here.folder / "budget.db", 2**49, create=True)
    here.refused(capsys, "budget|left", *MEAN, *ALL, "--ledger", ledger.path, code=3)
    assert ledger.spent.epsilon == 0


def test_ends_off_the_grid_are_within_the_interval(here) -> None:
    """They are rounded inwards, to 4 and 8; values at the end of --clamp are not."""
    rows = csv_of({"x": [10] * 5000}, here.folder / "ten.csv")
    words = ["--unit-is-row", "--mean", "x", "--clamp", "1", "10", "--granularity", "4", "--epsilon", "1"]
    assert here.run(*words, "--intervals", "0.999999999", "--quiet", rows=rows, usual=False) == 0
    found = here.table()
    assert found["mean"][0] < 8.5
    assert found["high"] == [10]
    table = json.loads((here.folder / f"{here.out.name}.json").read_text())["histogram"]
    assert table["clamp_on_the_grid"] == ["4", "8"]
