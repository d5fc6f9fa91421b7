# SPDX-License-Identifier: Apache-2.0
"""A report: a series is one line, one large cell flattens nothing, and all rows are there."""

from __future__ import annotations

import json
import re

import pytest
from html_faults import Tree, faults

import dpfast
from dpfast.app.cli import main
from dpfast.app.report.facts import DRAWN, Facts, Noisy
from dpfast.app.report.markup import LONGEST
from dpfast.app.report.ordered import LEAST, places
from dpfast.app.report.page import SLACK, TALL, page
from dpfast.app.report.scale import Scale

MONTHS = [f"2025-{month:02}" for month in range(1, 13)]


def of(keys: list[str], cells: list[int], name: str = "age", rows: int | None = None, **about: object) -> str:
    column = Noisy(
        "n", "counts", cells, [c - 9 for c in cells], [c + 9 for c in cells], stddev=4.0,
        parameters={"mechanism": "discrete_laplace", "epsilon": "1", "dpfast": "0", **about},
    )  # fmt: skip
    made = page(Facts("out.csv", rows or len(keys), [column], dpfast.Guarantee(1), {}, labels=[(name, keys)]))
    assert list(faults(made)) == []
    return made


# ------------------------------------------------------------------ a series

SERIES = {
    "ages": ([str(age) for age in range(121)], [float(age) for age in range(121)]),
    "years from the last": ([str(2030 - k) for k in range(9)], [8.0 - k for k in range(9)]),
    "months over new year": (["2024-11", "2024-12", *MONTHS], [float(k) for k in range(14)]),
    "weeks over new year": (["2020-W52", "2020-W53", *[f"2021-W{w:02}" for w in range(1, 9)]], [float(k) for k in range(10)]),
    "days over a leap day": ([f"2024-02-{d}" for d in range(23, 30)] + ["2024-03-01", "2024-03-02"], [float(k) for k in range(9)]),
    "bins of unequal widths": ([f"[{a}, {b})" for a, b in zip([0, 1, 5, 10, 18, 40, 65, 80], [1, 5, 10, 18, 40, 65, 80, 120], strict=True)], [float(k) for k in range(8)]),
    "places of an array": ([f"[{at}]" for at in range(9)], [float(k) for k in range(9)]),
    "a gap": ([*map(str, range(5)), *map(str, range(8, 13))], [0.0, 1, 2, 3, 4, 8, 9, 10, 11, 12]),
    "steps of five": ([str(5 * k) for k in range(20)], [float(k) for k in range(20)]),
}  # fmt: skip
NONE = {
    "few": [str(k) for k in range(LEAST - 1)],
    "names": [f"shop {k}" for k in range(30)],
    "codes": ["01067", "10115", "20095", "30159", "40210", "50667", "60311", "70173", "80331", "90402"],
    "numbers far apart": [str(k * k) for k in range(20)],
    "one that is missing": [*map(str, range(20)), "unknown"],
    "twice": [*map(str, range(20)), "7"],
    "no day": [f"2025-02-{d}" for d in range(20, 31)],
    "kinds": [*MONTHS, "2026"],
}


@pytest.mark.parametrize("name", SERIES)
def test_keys_with_an_order_have_a_place(name) -> None:
    keys, wanted = SERIES[name]
    assert places(keys) == pytest.approx(wanted)


@pytest.mark.parametrize("name", NONE)
def test_keys_without_one_have_none(name) -> None:
    assert places(NONE[name]) is None
    assert "polyline class" not in of(NONE[name], [5] * len(NONE[name])).partition("belief")[0]


def lines(made: str, kind: str) -> list[list[tuple[float, float]]]:
    """The points of each line of the picture, or of each band."""
    drawn = made.partition('class="series"')[2].partition("</figure>")[0]
    found = re.findall(rf'class="{kind}" points="([^"]*)"', drawn)
    return [[tuple(map(float, point.split(","))) for point in points.split()] for points in found]  # type: ignore[misc]


def test_all_ages_are_one_line_in_their_order_within_a_band() -> None:
    """Whatever the order of the rows."""
    ages, counts = [str(age) for age in range(121)], [1000 - 7 * age for age in range(121)]
    made = of(ages, counts)
    [line], [band] = lines(made, "curve"), lines(made, "band")
    assert (len(line), len(band)) == (121, 242)
    assert len(line) > DRAWN
    assert line == sorted(line)
    assert all(above[1] < at[1] < below[1] for above, at, below in zip(band[:121], line, band[:120:-1], strict=True))
    turned = of(ages[::-1], counts[::-1])
    assert lines(turned, "curve") == [line]
    assert "are drawn" not in made


def test_a_missing_key_is_a_gap_and_a_lonely_one_a_dot() -> None:
    keys = [*map(str, range(6)), "8", *map(str, range(11, 20))]
    made = of(keys, [50] * len(keys))
    assert [len(line) for line in lines(made, "curve")] == [6, 9]
    assert len(lines(made, "reach")) == 1
    assert "the line has a gap" in made
    assert "the line has a gap" not in of([str(key) for key in range(16)], [50] * 16)


# ------------------------------------------------------------------ a large cell


def test_one_large_cell_does_not_flatten_the_others() -> None:
    """The scale has equal steps, for equal noise looks equal; a number says what lies beyond."""
    cells = [29_000, *range(0, 360, 10)]
    scale = Scale.of(cells, [c - 9 for c in cells], [c + 9 for c in cells])
    assert scale.beyond == {0}
    assert scale.share(350) - scale.share(0) > 0.9
    assert scale.share(20) - scale.share(10) == pytest.approx(scale.share(340) - scale.share(330))
    made = of([f"country {k}" for k in range(37)], cells)
    assert "29,000 →" in made
    assert "1 number lies beyond it" in made
    low = of([f"country {k}" for k in range(37)], [-cell for cell in cells])
    assert "← \N{MINUS SIGN}29,000" in low
    assert "29,000 ↑" in of([str(k) for k in range(37)], cells)


def test_large_cells_are_few_and_far_or_the_scale_holds_all() -> None:
    for cells in (
        [10, 11],
        [1, 2, 900],
        [*range(100)],
        [0] * 20,
        [*[1000] * 5, *[1] * 15],
        [100, 300, 50, 20, 10, 120, 150, 200],
    ):
        scale = Scale.of(cells, cells, cells)
        assert scale.beyond == frozenset()
        assert 0 <= min(map(scale.share, cells)) <= max(map(scale.share, cells)) <= 1
    two = [10**6, 10**5, *range(30)]
    assert Scale.of(two, two, two).beyond == {0, 1}


# ------------------------------------------------------------------ all rows


@pytest.mark.parametrize("rows", [1, TALL, TALL + SLACK, TALL + SLACK + 1, 137])
def test_all_rows_are_there_and_the_page_says_how_many_are_open(rows) -> None:
    made = of([f"shop {k}" for k in range(rows)], [*range(rows)])
    tree = Tree(made)
    bodies = [each for each in tree.all("tbody") if "shop" in "".join(each.text)]
    assert sum(len(each.children) for each in bodies) == rows
    assert len(bodies) == (1 if rows <= TALL + SLACK else 2)
    if len(bodies) == 2:
        assert f"the noise may reach: {TALL} of {rows} rows." in made
        assert tree.said("summary")[0] == f"Rows {TALL + 1} to {rows} of {rows}"


# ------------------------------------------------------------------ the name of a unit

HISTOGRAM = ["--by", "origin", "--domain", "EWR,JFK", "--max-partitions", "1", "--epsilon", "1"]


@pytest.fixture
def flights(tmp_path, monkeypatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("tailnum,origin\nN1,EWR\nN2,JFK\n")
    return ["histogram", "in.csv", "out.csv", "--unit", "tailnum", *HISTOGRAM]


def test_the_page_and_the_record_name_a_unit_as_asked(tmp_path, flights, capsys) -> None:
    """The ledger, the mechanism and the seal keep the column's name."""
    assert main(["ledger", "create", "b.db", "--epsilon", "3", "--unit", "tailnum"]) == 0
    more = ["--unit-name", "plane <b>", "--report", "out.html", "--ledger", "b.db"]
    assert main([*flights, *more]) == 0
    assert "per plane <b>" in capsys.readouterr().err
    made = (tmp_path / "out.html").read_text("utf-8")
    assert list(faults(made)) == []
    said = " ".join(Tree(made).said("main"))
    for words in ("about one plane <b>", "each plane <b>, in the data", "any one plane <b>", "budget per plane <b>"):
        assert words in said
    assert "one tailnum" not in said
    record = json.loads((tmp_path / "out.csv.json").read_text())
    assert (record["histogram"]["unit"], record["histogram"]["unit_name"]) == ("tailnum", "plane <b>")
    assert [each["unit"] for each in record["releases"]] == ["tailnum"]
    assert main(["show", "out.csv", "--report", "shown.html"]) == 0
    assert "any one plane <b>" in " ".join(capsys.readouterr().out.split())
    assert "What this tells about one plane <b>" in Tree((tmp_path / "shown.html").read_text("utf-8")).said("h2")
    record["histogram"]["unit_name"] = "x" * 5000
    (tmp_path / "out.csv.json").write_text(json.dumps(record))
    assert main(["show", "out.csv"]) == 0
    assert "x" * (LONGEST + 1) not in capsys.readouterr().out


@pytest.mark.parametrize("word", ["", " ", "a\nb", "\x1b[1m", "\u202eplane", "x" * (LONGEST + 1)])
def test_what_is_no_name_of_a_unit_is_refused(tmp_path, flights, capsys, word) -> None:
    assert main([*flights, "--unit-name", word]) == 2
    assert "--unit-name must be a word or a few" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_rows_that_are_units_have_a_name_too(flights, capsys) -> None:
    words = [word for word in flights if word not in {"--unit", "tailnum"}]
    assert main([*words, "--unit-is-row", "--unit-name", "plane", "--explain"]) == 0
    assert "any one plane" in " ".join(capsys.readouterr().out.split())
