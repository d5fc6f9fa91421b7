# SPDX-License-Identifier: Apache-2.0
"""The report of a release: what it shows, what it never shows, and when it is there."""

from __future__ import annotations

import csv
import errno
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
from html_faults import Tree, faults
from hypothesis import given
from hypothesis import strategies as st
from table_files import read, store
from tiers import PLACED

import dpfast
from dpfast import paths, system
from dpfast.app.cli import main
from dpfast.app.cli import report as cli_report
from dpfast.app.cli.options import MECHANISMS
from dpfast.app.report import pictures, scale, style
from dpfast.app.report.facts import DRAWN, ROWS, Balance, Facts, Noisy
from dpfast.app.report.markup import MINUS, ends, number, text
from dpfast.app.report.page import TALL, page
from dpfast.app.report.subject import subject
from dpfast.app.tables import files
from dpfast.app.tables.first_rows import FirstRows
from dpfast.errors import FileError
from dpfast.paths import Found, atomic_write
from dpfast.privacy.belief import posterior

SECRET = 918273645  # a true count, which no page may hold
LAW = ["--epsilon", "1", "--sensitivity", "1"]
CITIES = ["Lima", "Oslo", "Pune", "Quito", "Rome", "Seoul"]
HOSTILE = [
    "<script>alert(1)</script>", "]]>", "</title><b>", "a\u202eb\u2066c", 'quo"te\'s', "x" * 10_000, "&lt;&amp;", "--><!--",
    "$x^2$", "שלום", "\x1b[31m", "<a href='http://example.org'>",
]  # fmt: skip


def table(folder: Path, end: str = ".csv", rows: int = 6, value: int = SECRET) -> Path:
    """A file IN whose every count is private, and how it is named."""
    path = folder / f"private{end}"
    cells = np.full(rows, value)
    names = [CITIES[at % len(CITIES)] for at in range(rows)]
    if end == ".npy":
        np.save(path, cells)
    elif end == ".csv":
        path.write_text("city,visits\n" + "".join(f"{name},{cell}\n" for name, cell in zip(names, cells, strict=True)))
    else:
        store(pa.table({"city": names, "visits": cells}), path)
    return path


def release(folder: Path, *options: str, end: str = ".csv", out: str = "", report: str = "out.html") -> int:
    column = [] if end == ".npy" else ["--column", "visits"]
    target = str(folder / (out or f"out{end}"))
    wanted = ["--report", str(folder / report)] if report else []
    source = str(folder / f"private{end}")
    return main(["privatize", source, target, *column, *LAW, *wanted, "--quiet", *options])


def noisy(cells: Sequence[float], name: str = "visits", low: Any = None, high: Any = None, **about: object) -> Noisy:
    return Noisy(
        name, "counts", cells, low or [c - 3 for c in cells], high or [c + 3 for c in cells], stddev=1.4,
        parameters={"mechanism": "discrete_laplace", "epsilon": "1", "dpfast": "0", **about},
    )  # fmt: skip


def facts(cells: list[float] | None = None, **other: object) -> Facts:
    shown = list(range(6)) if cells is None else cells
    made = {
        "file": "out.csv", "rows": len(shown), "noisy": [noisy(shown)], "guarantee": dpfast.Guarantee(1), "record": {},
        "labels": [("city", [CITIES[at % 6] for at in range(len(shown))])], **other,
    }  # fmt: skip
    return Facts(**made)


# ------------------------------------------------------------------ what it shows


@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow", ".feather", ".npy"])
def test_a_page_shows_the_noisy_table_and_nothing_private(tmp_path, end) -> None:
    secret = SECRET * 10**9
    table(tmp_path, end, value=secret)
    assert release(tmp_path, "--lower", "0", "--epsilon", "1e-12", end=end) == 0
    half = dpfast.DiscreteLaplace("1e-12", 1).interval()
    made = (tmp_path / "out.html").read_text("utf-8")
    assert list(faults(made)) == []
    if end == ".npy":
        cells = np.load(tmp_path / "out.npy").tolist()
    elif end == ".csv":
        with (tmp_path / "out.csv").open() as file:
            cells = [int(row["visits"]) for row in csv.DictReader(file)]
    else:
        cells = read(tmp_path / f"out{end}")["visits"].to_pylist()
    rows = Tree(made).all("tbody")[0].children
    shown = [["".join(cell.text) for cell in row.children] for row in rows]
    names = [f"[{at}]" for at in range(6)] if end == ".npy" else CITIES
    assert shown == [[n, f"{c:,}", f"{c - half:,} to {c + half:,}"] for n, c in zip(names, cells, strict=True)]
    assert "how far the noise may reach: 6 rows." in made  # the list scrolls
    for said in (f"{secret}", f"{secret:,}"):  # one of 18 numbers is it with probability 1e-11
        assert said not in made
    assert "private" not in re.sub("random|privacy", "", made.replace(style.CSS, ""))  # the name of IN
    assert str(tmp_path) not in made


def test_rows_that_a_threshold_shows_have_no_interval_that_holds() -> None:
    shown, whole = (page(facts(noisy=[noisy(list(range(6)), **more)])) for more in ({"threshold": 30}, {}))
    for promise in ("Each interval", "right on average", "Use intervals"):
        assert promise in whole
        assert promise not in shown
    assert "too high on average" in shown
    assert "too high on average" not in whole
    assert list(faults(shown)) == []


def test_who_is_protected_is_said_for_both_adjacencies() -> None:
    for adjacency, said in (
        ("add-remove", "each clinic, in the data or not"),
        ("substitution", "the data of each clinic"),
    ):
        tree = Tree(page(facts(guarantee=dpfast.Guarantee(1, adjacency=adjacency, unit="clinic"))))
        assert any(each.startswith(said) and adjacency in each for each in tree.said("dd"))
        assert "What this tells about one clinic" in tree.said("h2")


def test_parameters_of_parameters_are_written_out() -> None:
    made = page(facts(noisy=[noisy(list(range(6)), alone={"l0": 2, "linf": "1/3"}, clamp=[-1.5, 2], signed=False)]))
    said = {
        row.children[0].text[0].strip(): "".join(row.children[1].text) for row in Tree(made).all("tbody")[-1].children
    }
    assert (said["alone"], said["clamp"], said["signed"]) == ("l0 2, linf 1/3", f"{MINUS}1.5 to 2", "no")


def test_rows_are_named_by_the_first_columns_that_tell_them_apart() -> None:
    labels = [("city", ["Lima", "Lima", "Oslo"]), ("sex", ["f", "m", "f"]), ("more", ["a", "b", "c"])]
    tree = Tree(page(facts([1, 2, 3], labels=labels)))
    assert [said for said in tree.said("span") if said] == ["Lima, f", "Lima, m", "Oslo, f"]


def test_a_page_of_facts_is_whole() -> None:
    made = page(facts())
    assert list(faults(made)) == []
    said = " ".join(Tree(made).said("body"))
    for words in (
        "epsilon 1",
        "e^epsilon",
        "No ledger kept count",
        "Do not round or clamp again",
        "dpfast 0",
        "√k × 1.4",
    ):
        assert words in said


@pytest.mark.parametrize("name", [*MECHANISMS])
def test_every_mechanism_has_a_page(tmp_path, name) -> None:
    own = {
        "discrete-laplace": ["--epsilon", "0.5", "--sensitivity", "1"],
        "laplace": ["--epsilon", "0.5", "--l0", "1", "--linf", "1"],
        "snapping": ["--epsilon", "0.5", "--sensitivity", "1", "--bound", "1000"],
        "discrete-gaussian": ["--rho", "0.1", "--l0", "2", "--linf", "1"],
        "gaussian": ["--epsilon", "0.5", "--delta", "1e-6", "--l0", "2", "--linf", "1"],
    }[name]
    cells = np.arange(6) if MECHANISMS[name].real is False else np.linspace(-1.5, 800.25, 6)
    store(pa.table({"a": cells, "b": cells}), tmp_path / "in.parquet")
    report = tmp_path / "out.html"
    said = ["privatize", tmp_path / "in.parquet", tmp_path / "out.parquet", "--column", "a", "--column", "b"]
    said += ["--epsilon-is", "per-column", "--mechanism", name, *own, "--report", report, "--quiet"]
    assert main([str(each) for each in said]) == 0
    made = report.read_text("utf-8")
    assert list(faults(made)) == []
    tree = Tree(made)
    assert "all 12 cells of the 2 columns at once" in tree.said("body")[0]
    assert len(tree.all("figure")) == 3, "a picture of each column, and of belief"
    [parameters] = [t for t in tree.all("table") if "Exact parameters of a, b" in "".join(t.children[0].text)]
    for row in parameters.children[2].children:
        assert "".join(row.children[0].children[-1].text), f"{''.join(row.text)} is not explained"


def test_an_array_of_any_shape_is_named_by_its_places(tmp_path) -> None:
    for shape, order, second in (((2, 3), "C", "[0, 1]"), ((2, 3), "F", "[1, 0]"), ((), "C", None)):
        np.save(
            tmp_path / "private.npy", np.asfortranarray(np.zeros(shape, int)) if order == "F" else np.zeros(shape, int)
        )
        assert release(tmp_path, "--force", end=".npy") == 0
        rows = Tree((tmp_path / "out.html").read_text("utf-8")).all("tbody")[0].children
        names = ["".join(row.children[0].text) for row in rows]
        assert names == ["the value"] if second is None else names[1] == second


def test_what_passes_through_is_text_whatever_its_type(tmp_path) -> None:
    columns = {
        "coded": pa.array(["a", "b", None]).dictionary_encode(),
        "day": pa.array([0, 1, None], pa.date32()),
        "bytes": pa.array([b"\xff<", b"", None]),
        "more": pa.array([[1], [], None]),
        "fifth": pa.array(["only named"] * 3),
    }
    store(pa.table({**columns, "visits": [1, 2, 3]}), tmp_path / "private.parquet")
    assert release(tmp_path, end=".parquet") == 0
    made = (tmp_path / "out.html").read_text("utf-8")
    tree = Tree(made)
    assert list(faults(made)) == []
    rows = [["".join(cell.text) for cell in row.children[:4]] for row in tree.all("tbody")[0].children]
    assert rows == [["a", "1970-01-01", r"b'\xff<'", "[1]"], ["b", "1970-01-02", "b''", "[]"], ["", "", "", ""]]
    assert "only named" not in made
    assert "coded, day, bytes, more, fifth" in tree.said("dd")


def test_quotes_of_a_csv_are_no_part_of_its_cells(tmp_path) -> None:
    (tmp_path / "private.csv").write_text('"the city",visits\n"Li""ma, Peru",3\n')
    assert release(tmp_path) == 0
    tree = Tree((tmp_path / "out.html").read_text("utf-8"))
    assert 'Li"ma, Peru' in tree.said("th")
    assert "the city no noise" in tree.said("th")


def test_no_rows_are_no_failure(tmp_path) -> None:
    table(tmp_path, rows=0)
    assert release(tmp_path) == 0
    made = (tmp_path / "out.html").read_text("utf-8")
    assert list(faults(made)) == []
    assert "The table has no rows." in made


def test_a_long_table_is_cut_and_says_where_the_whole_is(tmp_path) -> None:
    table(tmp_path, ".parquet", rows=30_000)
    assert release(tmp_path, end=".parquet") == 0
    made = (tmp_path / "out.html").read_text("utf-8")
    tree, cells = Tree(made), read(tmp_path / "out.parquet")["visits"].to_numpy()
    assert [len(each.children) for each in tree.all("tbody")[:2]] == [TALL, ROWS - TALL]
    assert f"Rows {TALL + 1} to {ROWS} of 30,000" in tree.said("summary")
    assert len([each for each in tree.all("circle") if each.inside[-2] == "div"]) == DRAWN
    said = tree.said("body")[0]
    assert "The whole table is in out.parquet." in said
    assert f"{cells.min():,} to {cells.max():,}, noise included" in said
    assert len(made) < 200_000


def test_of_many_pieces_few_rows_are_kept(tmp_path) -> None:
    source = files.open_source(table(tmp_path, rows=1), ["visits"])
    [piece] = source.pieces()
    seen = FirstRows(source, most=3, width=1)
    for cell in (5, -7, 2, 9, 1):
        seen.add(piece, [np.array([cell])])
    assert (seen.rows, seen.cells, seen.labels) == (5, [[5, -7, 2]], [("city", ["Lima"] * 3)])
    assert seen.ranges == [(-7, 9)]


def test_intervals_are_those_of_the_mechanism_within_the_bounds() -> None:
    mechanism = dpfast.DiscreteLaplace(1, 1)
    made = cli_report.noisy_column(
        "visits", "counts", mechanism, {"lower": 0, "upper": 99}, np.array([0, 2, 50, 98]), (0, 98), size=4
    )
    half = mechanism.interval(Fraction(95, 100))
    assert half == 3
    assert (made.low, made.high) == ([0, 0, 47, 95], [3, 5, 53, 99])
    assert made.widths == {
        "one cell": "±3",
        "all 4 cells at once": f"±{mechanism.interval(Fraction(95, 100), cells=4)}",
    }
    several = cli_report.noisy_column("a", "counts", mechanism, {}, np.zeros(1, int), None, size=4, columns=100).widths
    assert several["all 400 cells of the 100 columns at once"] == f"±{mechanism.interval(Fraction(95, 100), cells=400)}"


@pytest.mark.parametrize(("kind", "spacing"), [(np.float32, 2**-4), (np.float64, 0)])
def test_intervals_allow_for_what_a_float_rounds(kind, spacing) -> None:
    """A million in float32 is a multiple of 1/16; in float64 it may be any point of the grid."""
    mechanism = dpfast.Laplace(1, 1)
    cells = np.array([10**6, -(10**6)], kind)
    made = cli_report.noisy_column("hours", "values", mechanism, {}, cells, (-(10**6), 10**6), size=2)
    half = mechanism.interval(Fraction(95, 100)) + spacing / 2
    assert (made.cells, made.low) == ([1e6, -1e6], [1e6 - half, -1e6 - half])
    assert made.high == [1e6 + half, -1e6 + half]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), 1, 5, 20])
def test_the_picture_of_belief_shows_the_bounds(epsilon) -> None:
    tree = Tree(pictures.belief(float(epsilon), "x"))
    drawn = [(float(c.attributes["cx"]), float(c.attributes["cy"])) for c in tree.all("circle")]
    left, top, side = pictures.LEFT, pictures.TOP, pictures.SIDE
    ends = [(float(prior), after) for prior in pictures.PRIORS[1:] for after in posterior(prior, epsilon)]
    wanted = [(left + side * before, top + side * (1 - after)) for before, after in ends]
    assert np.allclose(drawn, wanted, atol=0.06)
    upper, lower = (
        np.array([p.split(",") for p in e.attributes["points"].split()], float) for e in tree.all("polyline")
    )
    for (x, _), curve in zip(drawn, [lower, upper] * 3, strict=True):
        at = np.interp(x, curve[:, 0], curve[:, 1])
        assert min(abs(at - y) for a, y in drawn if a == x) < 1.5


def test_beliefs_are_rounded_outwards() -> None:
    shown = Tree(page(facts())).all("tbody")[1].children
    assert len(shown) > 2
    for row in shown:
        before, least, most = (
            Fraction(Decimal(re.sub(r"[^0-9.]", "", "".join(cell.text)))) / 100 for cell in row.children
        )
        low, high = posterior(before, Fraction(1))
        assert least < low < least + Fraction(1, 1000)
        assert most - Fraction(1, 1000) < high < most


def test_what_has_no_bound_on_belief_has_no_picture_of_it() -> None:
    for guarantee in (dpfast.Guarantee(1, rho=1, rho_delta="1e-6"), dpfast.Guarantee(rho=2000), dpfast.Guarantee(2000)):
        made = page(facts(guarantee=guarantee))
        assert "No bound on beliefs" in made
        assert list(faults(made)) == []
    given_one = page(facts(guarantee=dpfast.Guarantee(1, "1e-6"), belief=(Fraction(1), Fraction(1, 10**6))))
    assert "all but 1e-6 of releases" in given_one


# ------------------------------------------------------------------ what it is about

OF_MEAN = {"mean": "age", "middle": "60", "by": ["sex"]}
ABOUT = [
    ({"by": ["sex"]}, "count", "count, by sex"),
    ({"by": [], "sum": "age"}, "sum", "sum of age"),
    (OF_MEAN, "mean", "mean of age, by sex"),
    (OF_MEAN, "sum", "sum of age less 60, by sex"),
    ({"of": "age", "quantiles": ["1/2"], "by": ["sex", "town"]}, "value", "median of age, by sex, town"),
    ({"of": "age", "quantiles": ["1/2", "3/4"]}, "value", "quantiles of age"),
    ({"of": 3, "by": ["sex"]}, "value", ""),
    ({"mean": {"a": 1}, "by": "sex"}, "mean", ""),
    ({"by": [None, 2]}, "count", "count"),
    ({"by": list("abcdefgh")}, "count", "count, by a, b, c, d, …"),
    ({"mean": "a" * 10_000}, "mean", f"mean of {'a' * 39}…"),
    ("mean", "mean", ""),
]


@pytest.mark.parametrize(("histogram", "column", "said"), ABOUT, ids=range(len(ABOUT)))
def test_what_numbers_are_about_is_said_as_far_as_the_record_says_it(histogram, column, said) -> None:
    """In the title and above the picture; where it says nothing, the column's name stands there."""
    record = {"histogram": histogram}
    assert subject(record, column) == said
    tree = Tree(page(facts(noisy=[noisy(list(range(6)), column)], record=record)))
    assert tree.said("h1") == [f"Noisy {said or 'counts'}: out.csv"]
    assert tree.said("figcaption")[0].startswith(f"{said[:1].upper()}{said[1:]}: a dot" if said else f"{column}: a dot")
    assert subject({}, column) == ""


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (range(6), "a line its interval. Each"),
        (range(0, 6 * 10**6, 10**6), "a line its interval, which the wider dot hides. Each"),
        (range(20), "the band their intervals. Each"),
        (range(0, 20 * 10**6, 10**6), "the band their intervals, which the wider line hides. Each"),
    ],
)
def test_an_interval_that_its_dot_hides_is_said_to_be_hidden(cells, said) -> None:
    shown = [*cells]
    labels = [("city", CITIES)] if len(shown) == 6 else [("age", [str(age) for age in range(len(shown))])]
    assert said in Tree(page(facts(shown, labels=labels))).said("figcaption")[0]


def test_only_some_intervals_may_be_hidden() -> None:
    cells = [0, 10**6, 2 * 10**6]
    wide = noisy(cells, low=[-3, 10**6 - 3, 10**6], high=[3, 10**6 + 3, 3 * 10**6])
    made = page(facts(cells, noisy=[wide], labels=[("city", CITIES[:3])]))
    assert "a line its interval, which the wider dot hides where it is narrow." in Tree(made).said("figcaption")[0]


@pytest.mark.parametrize(("unit", "other"), [("row", "unit"), ("person", "person")])
def test_what_nothing_has_checked_stands_at_the_top(unit, other) -> None:
    said = f"Each row is taken for another {other}. Whoever released it says so; nothing has checked it."
    of = dpfast.Guarantee(1, unit=unit)
    made, without = page(facts(each_row=True, guarantee=of)), page(facts(guarantee=of))
    assert 0 < re.sub("</?bdi>", "", made).index(said) < made.index("What was released")
    assert "is taken for another" not in without
    assert list(faults(made)) == []


def test_an_interval_misses_at_most_as_often_as_is_said() -> None:
    said = "Each interval misses with probability at most 5"
    assert said in page(facts())
    assert said in page(facts([*range(100)], labels=[("n", [*range(100)])]))


# ------------------------------------------------------------------ text of others


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text(name) -> None:
    made = page(
        facts(
            file=f"{name}.csv", title=name, labels=[(name, [name] * 6)], noisy=[noisy(list(range(6)), name)], notes=[name],
            unshown=[name], record={"label": name}, guarantee=dpfast.Guarantee(1, unit=name[:100] if name.isprintable() else "person"),
        )
    )  # fmt: skip
    assert [each for each in faults(made) if "example.org" not in each] == []
    assert max(map(len, Tree(made).said("th"))) < 200
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069]", made)


def test_a_hostile_file_makes_a_harmless_page(tmp_path) -> None:
    names = [name for name in HOSTILE if "\x1b" not in name]
    with (tmp_path / "private.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["visits", *names], *[[3, *names]] * 2])
    assert release(tmp_path) == 0
    made = (tmp_path / "out.html").read_text("utf-8")
    assert [each for each in faults(made) if "example.org" not in each] == []
    assert "<script" not in made


@given(st.text(max_size=300))
def test_any_text_is_escaped_and_printable(value) -> None:
    found = text(value)
    [(shown, tags)] = [("".join(t.all("bdi")[0].text), [e.tag for e in t.elements]) for t in [Tree(found)]]
    assert tags == ["bdi"]
    assert shown.isprintable()
    assert len(shown) <= 80
    found.encode()


# ------------------------------------------------------------------ numbers


@given(st.floats(-1e12, 1e12), st.integers(0, 6))
def test_ends_are_rounded_outwards(value, digits) -> None:
    low, high = (float(end.replace(",", "").replace(MINUS, "-")) for end in ends(value, value, digits).split(" to "))
    assert low <= value <= high
    assert high - low <= 10.0**-digits * 1.001 + 1e-4


def test_numbers_have_a_true_minus_sign_and_no_negative_zero() -> None:
    assert [number(-1234), number(-0.001, 2), number(-1.5, 1), number(2.0, 0)] == [
        f"{MINUS}1,234",
        "0.00",
        f"{MINUS}1.5",
        "2",
    ]


@given(st.floats(-1e15, 1e15), st.floats(1e-6, 1e15))
def test_ticks_are_a_few_round_numbers_within(low, width) -> None:
    if low + width > low:
        marks = scale.ticks(low, low + width)
        assert all(low - 1e-6 * width <= mark <= low + 1.000001 * width for mark in marks)
        assert len(marks) <= 7
        assert len(marks) >= 2 or abs(low) > 1e9 * width


def test_pictures_of_any_range_are_within_their_frame() -> None:
    for cells in (
        [0],
        [5, 5],
        [-(2**63), 2**63 - 1],
        [1e-9, 2e-9],
        [1e300, -1e300],
        [0.5],
        [1e15, 1e15 + 0.5],
        [1e308, -1e308],
        [5e-324],
        [2**62, 2**62 + 1],
    ):
        of, names = noisy(cells, low=cells, high=cells), ["x"] * len(cells)
        fit = scale.Scale.of(of.cells, of.low, of.high)
        rows = pictures.intervals(names, of, fit, 0, "x")
        line = pictures.series(names, [*map(float, range(1, len(cells) + 1))], of, fit, 0, "x")
        for drawn in (rows, line):
            for at in re.findall(r'(?:cx|cy|x1|x2|y1|y2|x|y)="(-?[\d.]+)%?"', drawn):
                assert 0 <= float(at) <= 100


# ------------------------------------------------------------------ when it is there


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "budget.db"
    assert main(["ledger", "create", str(path), "--epsilon", "5", "--dataset", "hospital"]) == 0
    return path


@pytest.fixture
def keyed(tmp_path: Path, ledger: Path) -> list[str]:
    assert main(["key", "create", str(tmp_path / "a.key")]) == 0
    table(tmp_path)
    return ["--ledger", str(ledger), "--key-file", str(tmp_path / "a.key"), "--label", "visits 2026"]


def of_ledger(tree: Tree) -> list[str]:
    """The row of epsilon: what this release costs, what is spent in all, left, and the budget."""
    rows = [row.children for part in tree.all("tbody") for row in part.children if len(row.children) == 5]
    [row] = [["".join(cell.text) for cell in row] for row in rows if "".join(row[0].text) == "epsilon"]
    return row


def test_a_report_says_what_was_charged_and_what_is_left(tmp_path, ledger) -> None:
    table(tmp_path)
    dpfast.Ledger(ledger).spend(dpfast.Guarantee("0.25"))
    assert release(tmp_path, "--ledger", str(ledger)) == 0
    tree = Tree((tmp_path / "out.html").read_text("utf-8"))
    assert of_ledger(tree) == ["epsilon", "1", "1.25", "3.75", "5"]
    (_, charge) = dpfast.Ledger(ledger).history()
    assert f"{charge.time.replace('T', ' ').removesuffix('Z')} UTC, as the ledger has it" in tree.said("dd")
    assert "hospital" in tree.said("body")[0]
    assert "charge number 2" in tree.said("body")[0]
    assert "epsilon: 5 % of the budget was spent before, 20 % by this release" in tree.said("main")[0]
    assert "private" not in tree.said("body")[0].replace("differentially private", ""), "the label, which names IN"


def test_what_is_spent_is_rounded_up_and_what_is_left_down() -> None:
    third, two = {"epsilon": Fraction(1, 3)}, {"epsilon": Fraction(2, 3)}
    made = page(
        facts(balance=Balance("visits", 2, "2026-11-23T10:00:00Z", third, two, third, {"epsilon": Fraction(1)}))
    )
    assert of_ledger(Tree(made)) == ["epsilon", "0.333334", "0.666667", "0.333333", "1"]


def test_resume_gives_equal_bytes_whatever_was_charged_since(tmp_path, keyed, ledger) -> None:
    assert release(tmp_path, *keyed) == 0
    first = (tmp_path / "out.html").read_bytes()
    assert b"visits 2026" in first
    dpfast.Ledger(ledger).spend(dpfast.Guarantee("0.25"), label="visits 2026")
    assert release(tmp_path, *keyed, "--resume") == 0
    assert (tmp_path / "out.html").read_bytes() == first
    (tmp_path / "out.html").unlink()
    assert release(tmp_path, *keyed, "--resume") == 0
    assert (tmp_path / "out.html").read_bytes() == first


def test_another_report_in_its_place_is_not_kept_silently(tmp_path, keyed, capsys) -> None:
    assert release(tmp_path, *keyed) == 0
    (tmp_path / "out.html").write_text("another")
    assert release(tmp_path, *keyed, "--resume") == 1
    assert "out.html is not what this release gives" in capsys.readouterr().err
    assert (tmp_path / "out.html").read_text() == "another"


def test_a_report_without_out_is_refused_before_a_charge(tmp_path, keyed, ledger, capsys) -> None:
    (tmp_path / "out.html").write_text("mine")
    assert release(tmp_path, *keyed, "--resume") == 1
    assert "out.html exists without OUT" in capsys.readouterr().err
    assert dpfast.Ledger(ledger).spent.epsilon == 0


def test_an_existing_report_is_refused_before_a_cell_is_read(tmp_path, keyed, capsys) -> None:
    (tmp_path / "private.csv").write_text("city,visits\nLima,no number\n")
    (tmp_path / "out.html").write_text("mine")
    assert release(tmp_path, *keyed) == 1
    assert "out.html exists" in capsys.readouterr().err


def test_an_existing_report_is_refused_before_a_charge(tmp_path, ledger, capsys) -> None:
    table(tmp_path)
    (tmp_path / "out.html").write_text("mine")
    assert release(tmp_path, "--ledger", str(ledger)) == 1
    assert "out.html exists; --force would replace it" in capsys.readouterr().err
    assert dpfast.Ledger(ledger).spent.epsilon == 0
    assert not (tmp_path / "out.csv").exists()
    assert release(tmp_path, "--ledger", str(ledger), "--force") == 0
    assert (tmp_path / "out.html").read_text("utf-8").startswith("<!DOCTYPE")


@pytest.mark.parametrize(
    ("report", "options", "message"),
    [
        ("out.htm", [], "--report must be a .html file"),
        ("out.csv", [], "--report must be a .html file"),
        ("budget.html", [], "--report must be a file of its own"),
        ("there/is/none.html", [], "cannot write"),
        ("", ["--report-title", "x"], "--report-title must come with --report"),
    ],
)
def test_what_cannot_be_a_report_is_refused_before_a_charge(tmp_path, capsys, report, options, message) -> None:
    table(tmp_path)
    path = tmp_path / "budget.html"
    dpfast.Ledger(path, epsilon=5, create=True)
    assert release(tmp_path, "--ledger", str(path), *options, "--force", report=report) in {1, 2}
    assert message in capsys.readouterr().err
    assert dpfast.Ledger(path).spent.epsilon == 0
    assert not (tmp_path / "out.csv").exists()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies when OUT is there and the page is not."""
    whole = cli_report.atomic_write

    @contextmanager
    def dying(path: Path, *, found: Found) -> Iterator[IO[bytes]]:
        with whole(path, found=found) as file:
            yield file
            raise KeyboardInterrupt

    monkeypatch.setattr(cli_report, "atomic_write", dying)


def test_a_run_killed_before_the_page_leaves_out_alone_and_resumes(tmp_path, keyed, monkeypatch, killed) -> None:
    assert release(tmp_path, *keyed) == 0
    assert (tmp_path / "out.csv").exists()
    assert not (tmp_path / "out.html").exists()
    monkeypatch.undo()
    assert release(tmp_path, *keyed, "--resume") == 0
    assert list(faults((tmp_path / "out.html").read_text("utf-8"))) == []


def test_a_page_is_never_beside_another_out(tmp_path, monkeypatch, killed) -> None:
    """With --force the old page goes before the new OUT comes."""
    table(tmp_path)
    with monkeypatch.context() as whole:
        whole.setattr(cli_report, "atomic_write", atomic_write)
        assert release(tmp_path, "--epsilon", "1e-6") == 0  # six cells are equal once in 10^39
    old = (tmp_path / "out.csv").read_bytes()
    assert release(tmp_path, "--epsilon", "1e-6", "--force") == 0
    assert (tmp_path / "out.csv").read_bytes() != old
    assert not (tmp_path / "out.html").exists()


def test_what_is_refused_leaves_the_old_page_beside_the_old_out(tmp_path, ledger) -> None:
    table(tmp_path)
    assert release(tmp_path, "--ledger", str(ledger)) == 0
    before = [(tmp_path / name).read_bytes() for name in ("out.csv", "out.csv.json", "out.html")]
    assert release(tmp_path, "--ledger", str(ledger), "--force", "--epsilon", "4.5") == 3
    assert [(tmp_path / name).read_bytes() for name in ("out.csv", "out.csv.json", "out.html")] == before


@pytest.mark.parametrize("where", ["facts", "page", "first rows", "full disk", "its name"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileError("no page today"), "no page today"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ZeroDivisionError("a private number"), r"ZeroDivisionError in \w+.py:\d+; please report this"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_out_is_not_lost_with_its_page(tmp_path, ledger, monkeypatch, capsys, error, said, where) -> None:
    """It is there, the exit code is the release's, and a warning says that the page is lost."""

    def fail(*_: object, **__: object) -> str:
        raise error

    places = {
        "facts": (cli_report, "noisy_column"),
        "page": (cli_report, "page"),
        "first rows": (FirstRows, "add"),
        "full disk": (system, "finish"),
        "its name": (paths, PLACED),
    }
    owner, name = places[where]
    if where == "facts":
        owner = import_module("dpfast.app.cli.privatize")
    if where == "first rows" and isinstance(error, KeyboardInterrupt):
        error, said = MemoryError("a private number"), "MemoryError in .*"  # Ctrl-C stops a release that is not whole
    whole = getattr(owner, name)

    def of_the_page(file: Any, path: Path, *rest: Any, **how: Any) -> Any:
        pages = path == tmp_path / "out.html" if where == "its name" else (tmp_path / "out.csv").exists()
        return fail() if pages else whole(file, path, *rest, **how)

    table(tmp_path)
    monkeypatch.setattr(owner, name, of_the_page if where in {"full disk", "its name"} else fail)
    assert release(tmp_path, "--ledger", str(ledger)) == 0
    shown = capsys.readouterr().err
    assert re.search(f"^Warning: OUT is whole, and .*out.html was not written: .*{said}$", shown, re.MULTILINE), shown
    assert "private number" not in shown
    assert (tmp_path / "out.csv").exists()
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("start", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("end", [".csv", ".tsv", ".parquet", ".feather"])
def test_columns_of_one_name_have_a_page(tmp_path, ledger, start, end) -> None:
    """Joins and spreadsheets give them."""
    doubled = pa.Table.from_arrays(
        [pa.array(["x", "z"]), pa.array([3, 5]), pa.array(["y", "w"])], ["note", "n", "note"]
    )
    if start == ".csv":
        (tmp_path / "in.csv").write_text("note,n,note\nx,3,y\nz,5,w\n")
    else:
        store(doubled, tmp_path / f"in{start}")
    words = ["--column", "n", "--epsilon", "0.5", "--sensitivity", "1", "--ledger", str(ledger), "--quiet"]
    out, html = tmp_path / f"out{end}", tmp_path / "out.html"
    assert main(["privatize", str(tmp_path / f"in{start}"), str(out), *words, "--report", str(html)]) == 0
    assert out.exists()
    tree = Tree(html.read_text("utf-8"))
    assert {"x", "y", "z", "w"} <= {*tree.said("td"), *tree.said("th")}


def test_a_terminal_that_has_gone_costs_no_release(tmp_path, monkeypatch) -> None:
    """A bar that cannot be shown, at any of its steps."""

    class Gone:
        def __init__(self, *_: object, **__: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("rich.progress.Progress", Gone)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    source, out = table(tmp_path), tmp_path / "out.csv"
    assert main(["privatize", str(source), str(out), "--column", "visits", *LAW]) == 0
    assert out.exists()


# ------------------------------------------------------------------ colours


def luminance(colour: str) -> float:
    """WCAG 2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrasts(colours: dict[str, str]) -> dict[tuple[str, str], float]:
    pairs = [(letter, ground) for letter in ("ink", "faint", "mark") for ground in ("ground", "raised", "band")]
    light = {name: luminance(colour) + 0.05 for name, colour in colours.items()}
    return {(a, b): max(light[a], light[b]) / min(light[a], light[b]) for a, b in pairs}


@pytest.mark.parametrize("colours", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_text_has_contrast_in_both_schemes(colours) -> None:
    assert min(contrasts(colours).values()) >= 4.5
    assert min(contrasts({**colours, "faint": "#808080"}).values()) < 4.5


# ------------------------------------------------------------------ planted faults

PLANTED = [
    ("<main>", "<main><script>1</script>", "<script>"),
    ("<main>", '<main><p style="color:red">x</p>', "style"),
    ("<main>", '<main><p onclick="x()">x</p>', "onclick"),
    ("<main>", '<main><img src="https://example.org/x.png">', "img"),
    ("<main>", "<main>https://example.org", "an address"),
    ("<main>", "<main><div>", "closes div"),
    ("default-src 'none'", "default-src *", "no strict policy"),
    ("body {", "body  {", "the policy does not name the style"),
    (' lang="en"', "", "no language"),
    ("<h2>The noisy table</h2>", "<h4>The noisy table</h4>", "headings"),
    ('id="picture-0"', 'id="other"', "labelled by picture-0"),
    (' tabindex="0"', "", "reached by keys"),
    ('<th scope="col">', "<th>", "without a scope"),
    ('<caption id="beliefs">', '<caption id="beliefs"></caption><p>', "closes p"),
    ('id="beliefs"', 'id="noisy"', "two elements"),
    ('role="img" aria-labelledby="belief"', 'role="img"', "img without a name"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "found"), PLANTED)
def test_a_planted_fault_of_a_page_is_found(old, new, found) -> None:
    whole = page(facts())
    assert old in whole
    assert any(found in each for each in faults(whole.replace(old, new, 1)))


def test_equal_facts_give_equal_pages_and_others_do_not() -> None:
    assert page(facts()) == page(facts())
    assert page(facts()) != page(replace(facts(), rows=7))
