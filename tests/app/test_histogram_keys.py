# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram` of rows as units, totals, bins, weeks, and cells that are missing."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
import zoneinfo
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from people import QUIET, csv_of, people
from table_files import store

import dpfast
from dpfast.app.tables.domain import Domain
from dpfast.app.tables.keys import Bins, Calendar, Key
from dpfast.errors import ParameterError, UnusableValuesError

ROWS = ["--unit-is-row", *QUIET]
FORMATS = [".csv", ".parquet", ".jsonl", ".arrow"]


def written(columns: dict[str, Any], path: Path) -> Path:
    """The same cells in any format; None is an empty cell of a CSV file."""
    if path.suffix == ".csv":
        texts = {name: ["" if cell is None else cell for cell in cells] for name, cells in columns.items()}
        return csv_of(texts, path)
    if path.suffix == ".jsonl":
        names = list(columns)
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join(lines) + "\n")
        return path
    store(pa.table(columns), path)
    return path


def counted(here, words: list[str], rows: Path, end: str = ".csv") -> dict[str, list[Any]]:
    out = here.folder / f"counted{end}"
    assert here.run(*words, "--force", rows=rows, out=out, usual=False) == 0
    return here.table(out)


# ------------------------------------------------------------------ units and totals


@pytest.mark.parametrize("end", FORMATS)
def test_each_row_another_unit(here, end) -> None:
    columns = people(400)
    rows = written(columns, here.folder / f"in{end}")
    found = counted(here, ["--by", "city", "--domain", "Lima,Oslo", *ROWS], rows)
    assert found == {"city": ["Lima", "Oslo"], "count": [columns["city"].count(city) for city in ("Lima", "Oslo")]}
    table = json.loads((here.folder / "counted.csv.json").read_text())["histogram"]
    assert table["unit"] == "row"
    assert "nothing checks it" in table["unit_is"]


@pytest.mark.parametrize("end", FORMATS)
def test_all_rows_without_a_column(here, end) -> None:
    rows = written(people(321), here.folder / f"in{end}")
    assert counted(here, ROWS, rows) == {"count": [321]}


CAPS = [
    ([], lambda rows: 1),
    (["--max-per-partition", "3"], lambda rows: min(3, rows)),
    (["--max-contributions", "4"], lambda rows: min(4, rows)),
    (["--max-per-partition", "5", "--max-contributions", "4"], lambda rows: min(4, rows)),
]


@pytest.mark.parametrize(("words", "kept"), CAPS)
def test_in_all(here, words, kept) -> None:
    """A row of OUT, and no key: each unit counts with what the caps leave."""
    of_each = Counter(people()["person"])
    found = counted(here, ["--unit", "person", *words, *QUIET], here.rows)
    assert found == {"count": [sum(map(kept, of_each.values()))]}


def test_a_sum_in_all(here) -> None:
    """Without a cap on rows each unit's own sum is clamped."""
    rows = csv_of({"unit": ["a", "a", "b", "c"], "x": [3, 4, 2, -9]}, here.folder / "in.csv")
    words = ["--unit", "unit", "--sum", "x", "--clamp", "0", "5", "--granularity", "1", *QUIET]
    assert counted(here, words, rows) == {"sum": [5 + 2 + 0]}
    words = ["--unit-is-row", "--sum", "x", "--clamp", "0", "5", "--granularity", "1", *QUIET]
    assert counted(here, words, rows) == {"sum": [3 + 4 + 2 + 0]}


def test_a_unit_changes_a_total_by_what_is_stated(here) -> None:
    """Every table of a unit of up to four rows beside another one, by each cap."""
    for words, _ in CAPS:
        totals = set()
        for many in range(5):
            rows = csv_of({"unit": ["other", *["one"] * many]}, here.folder / "in.csv")
            totals.add(counted(here, ["--unit", "unit", *words, *QUIET], rows)["count"][0])
        (release,) = json.loads((here.folder / "counted.csv.json").read_text())["releases"]
        assert max(totals) - min(totals) == int(release["sensitivity"])


def test_what_is_said(here, capsys) -> None:
    assert here.run("--unit-is-row", "--epsilon", "1", "--explain", usual=False) == 0
    said = capsys.readouterr().out
    assert said.startswith("count in all: each row is another unit, as you say\n")
    assert "per row" in said
    assert "person" not in said
    here.run("--unit-is-row", "--epsilon", "1", "--force", usual=False)
    assert capsys.readouterr().err.endswith("out.csv: 1 row\n")
    page = here.folder / "page.html"
    assert here.run(*ROWS, "--force", "--report", page, usual=False) == 0
    assert "Each row is taken for another unit. Whoever released it says so" in page.read_text()


@pytest.mark.parametrize("end", FORMATS)
def test_listed_texts_are_said_to_match_letter_by_letter(here, end, capsys) -> None:
    """Whether any row has them or not, for that is private."""
    said = {}
    for name, town, age in (("has", "Lima", 30), ("lacks", " Lima", 40)):
        rows = written({"city": [town] * 9, "age": [age] * 9}, here.folder / f"{name}{end}")
        for words in (
            ["--by", "city", "--domain", "Lima,"],
            ["--by", "age", "--domain", "30,"],
            ["--by", "age", "--bins", "age=0,35"],
            [],
        ):
            given = [*words, "--unit-is-row", "--epsilon", "1", "--force"]
            assert here.run(*given, rows=rows, usual=False) == 0
            said.setdefault(str(words), set()).add("letter by letter; `dpfast look`" in capsys.readouterr().err)
            assert here.run(*given, "--quiet", rows=rows, usual=False) == 0
            assert capsys.readouterr().err == ""
    assert list(said.values()) == [{True}, {end == ".csv"}, {False}, {False}]


# ------------------------------------------------------------------ bins


@pytest.mark.parametrize("end", FORMATS)
def test_bins(here, end) -> None:
    cells = [-3, 0, 17, 18, 64, 65, 66, None, 17]
    rows = written({"age": cells, "sex": ["f"] * 9}, here.folder / f"in{end}")
    words = ["--by", "age", "--bins", "age=0, 18,65.0", *ROWS]
    assert counted(here, words, rows) == {"age": ["[0, 18)", "[18, 65.0)"], "count": [3, 2]}
    more = counted(here, ["--by", "sex", "--domain", "sex=f,m", *words, "--unknown"], rows)
    assert more["age"] == ["[0, 18)", "[18, 65.0)", "unknown"] * 3
    assert more["sex"] == [sex for sex in ("f", "m", "unknown") for _ in range(3)]
    assert more["count"] == [3, 2, 1, *[0] * 6]


@pytest.mark.parametrize("end", [".parquet", ".arrow"])
def test_numbers_that_are_held_as_categories(here, end) -> None:
    rows, ages = here.folder / f"in{end}", pa.array([3, 20, 20, 70, None])
    store(pa.table({"age": ages.dictionary_encode(), "paid": pa.array([0.5] * 5).dictionary_encode()}), rows)
    words = ["--by", "age", "--bins", "age=0,18,65", *ROWS]
    assert counted(here, words, rows) == {"age": ["[0, 18)", "[18, 65)"], "count": [1, 2]}
    words += ["--sum", "paid", "--clamp", "0", "1", "--granularity", "1/4"]
    assert counted(here, words, rows) == {"age": ["[0, 18)", "[18, 65)"], "sum": [0.5, 1.0]}


NUMBERS = [pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_bins_hold_what_lies_between_their_edges(kind) -> None:
    """Edges and cells anywhere, the type's ends and its nearest numbers among them."""
    rng, dtype = random.Random(5), np.dtype(kind.to_pandas_dtype())
    real = dtype.kind == "f"
    ends = [-5.5, 3.1e38] if real else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    for _ in range(200):
        some = [*ends, *(rng.uniform(-9, 9) if real else rng.randrange(-5, 130) for _ in range(9))]
        cells = [None, *(cell for cell in map(dtype.type, map(int, some) if not real else some))] if real else [
            None, *(max(min(int(cell), ends[1]), ends[0]) for cell in some)]  # fmt: skip
        near = [Fraction(float(cell)) if real else Fraction(int(cell)) for cell in cells[1:]]
        edges = sorted({rng.choice(near) + rng.choice([0, 0, 1, Fraction(1, 2), -(10**30)]) for _ in range(4)})
        if len(edges) < 2:
            continue
        bins = Bins.of(list(map(str, edges)), edges)
        as_held = [Fraction(float(dtype.type(float(edge)))) for edge in edges] if real else edges
        if any(a >= b for a, b in itertools.pairwise(as_held)):
            continue
        wanted = [None]
        for cell in near:
            place = sum(cell >= edge for edge in as_held)
            wanted.append(bins.labels[place - 1] if 0 < place < len(edges) else None)
        assert bins.keys(pa.array(cells, kind)).to_pylist() == wanted


def test_edges_that_a_column_cannot_tell_apart() -> None:
    bins = Bins.of(["1", "1.25", "2"], [Fraction(1), Fraction(5, 4), Fraction(2)])
    with pytest.raises(ParameterError, match="--bins must have edges that differ as int16, which 'age' holds"):
        bins.check("--by", pa.field("age", pa.int16()))
    bins.check("--by", pa.field("age", pa.float32()))


@pytest.mark.parametrize("end", FORMATS)
def test_edges_that_doubles_cannot_tell_apart(here, capsys, end) -> None:
    rows = written({"x": [0.1, 0.05]}, here.folder / f"in{end}")
    words = ["--by", "x", "--bins", "x=0,0.1,0.10000000000000000001,1", "--unit-is-row", "--epsilon", "1"]
    match = "--bins must have edges that differ as double, which 'x' holds"
    here.refused(capsys, match, *words, usual=False, rows=rows, code=1 if end == ".jsonl" else 2)  # cells decide


# ------------------------------------------------------------------ weeks and months

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]
LABELS = {
    "week": lambda day: "{:04d}-W{:02d}".format(*day.isocalendar()[:2]),
    "month": lambda day: f"{day:%Y-%m}",
    "day": lambda day: day.isoformat(),
    "year": lambda day: f"{day:%Y}",
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("part", LABELS)
def test_moments_by_the_clocks_of_a_zone(part, zone) -> None:
    """Against Python's calendar and zones, also where clocks change, in columns and in texts."""
    rng, of = random.Random(9), Calendar(part, zone)
    clock = zoneinfo.ZoneInfo(zone)
    moments = [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=rng.randrange(0, 4 * 10**9)) for _ in range(300)
    ]
    moments += [
        dt.datetime(2025, month, day, hour, tzinfo=dt.UTC)
        for month in (3, 10, 11)
        for day in (2, 26, 30)
        for hour in range(24)
    ]
    wanted = [LABELS[part](moment.astimezone(clock).date()) for moment in moments]
    for unit, own in itertools.product(("s", "ms", "us", "ns"), ("Asia/Tokyo", zone)):
        column = pa.array([None, *moments], pa.timestamp(unit, own))
        assert of.keys(column, "column").to_pylist() == [None, *wanted]
    shifts = [dt.timezone(dt.timedelta(minutes=rng.randrange(-900, 900, 15))) for _ in moments]
    texts = [moment.astimezone(shift).isoformat() for moment, shift in zip(moments, shifts, strict=True)]
    texts[0] = moments[0].isoformat().replace("+00:00", "Z")
    texts[1] = moments[1].isoformat().replace("+00:00", ".987654321Z")
    assert of.keys(pa.array([None, *texts]), "column").to_pylist() == [None, *wanted]


def test_what_has_no_zone_is_taken_as_it_is_written() -> None:
    of = Calendar("day", "Pacific/Apia")
    texts = ["2026-11-30", "2026-11-30T23:59:59.999", "2026-11-30 00:00", "2024-02-29T12:00:00"]
    assert of.keys(pa.array(texts), "column").to_pylist() == [text[:10] for text in texts]
    noon = dt.datetime(1969, 12, 31, 23, 59)  # noqa: DTZ001
    for kind in (pa.timestamp("us"), pa.date32(), pa.date64()):
        assert of.keys(pa.array([noon if kind == pa.timestamp("us") else noon.date()], kind), "").to_pylist() == [
            "1969-12-31"
        ]


@pytest.mark.parametrize(
    "text",
    ["today", "2026-13-01", "2026-02-30", "30.11.2026", "2026-11-30T25:00", "2026-11-30T12:00+1", "2026-11-30x", ""],
)
def test_a_text_that_is_no_moment_is_never_shown(text) -> None:
    with pytest.raises(
        UnusableValuesError, match="^column 'd' must contain dates or times such as 2026-11-30"
    ) as refused:
        Calendar("week", "UTC").keys(pa.array(["2026-11-30", text]), "column 'd'")
    assert not text or text not in str(refused.value).replace("2026-11-30T12:00:00+01:00", "")


@pytest.mark.parametrize("part", LABELS)
def test_a_range_of_them(part) -> None:
    rng = random.Random(3)
    for _ in range(60):
        first = dt.date.fromordinal(rng.randrange(700_000, 760_000))
        last = first + dt.timedelta(days=rng.randrange(0, 900))
        low, high = LABELS[part](first), LABELS[part](last)
        every = [LABELS[part](first + dt.timedelta(days=i)) for i in range((last - first).days + 1)]
        assert Calendar(part, "UTC").domain(f"{low}..{high}", "--domain").texts == list(dict.fromkeys(every))


@pytest.mark.parametrize(
    ("part", "text", "match"),
    [
        ("week", "2013-W53,2013-W01", r"entry 1 of --domain must be a week such as 2026-W49, got '2013-W53'"),
        ("week", "2013-W1..2013-W02", "must be a week such as"),
        ("week", "2013-01..2013-02", "must be a week"),
        ("month", "2013-1,2013-02", "entry 1 of --domain must be a month such as 2026-11, got '2013-1'"),
        ("month", "2013-13,2013-02", "must be a month"),
        ("month", "2013-03..2013-02", "must be a range from the earlier to the later end"),
        ("day", "2013-02-29,2013-03-01", "must be a day such as 2026-11-30"),
        ("day", "2013-02,2013-03", "must be a day"),
        ("year", "13,14", "must be a year such as 2026"),
        ("year", "0000..0003", "must be a year"),
    ],
)
def test_a_key_that_no_moment_has(part, text, match) -> None:
    with pytest.raises(ParameterError, match=match):
        Calendar(part, "UTC").domain(text, "--domain")


def test_what_by_names() -> None:
    for text, column, made in (
        ("week(date)", "date", Calendar("week", "UTC")),
        ("month(a (b), Europe/Berlin)", "a (b)", Calendar("month", "Europe/Berlin")),
        ("weekday(date)", "weekday(date)", None),
        ("week()", "week()", None),
        ("date", "date", None),
    ):
        assert Key.of(text, {}) == Key(text, column, made)
    with pytest.raises(ParameterError, match="--by week.. must name a zone such as Europe/Berlin, got 'Berlin'"):
        Key.of("week(date, Berlin)", {})


@pytest.mark.parametrize("end", FORMATS)
def test_moments_of_no_day_are_unknown(here, end) -> None:
    """A zone leads some beyond the calendar, whose last day is of the year 9999."""
    texts = ["9999-12-31T23:30:00Z", "0000-06-01T00:00:00Z", "2020-05-05T00:00:00Z"]
    at = [253_402_299_000, -62_154_000_000, 1_588_636_800]
    cells = texts if end in {".csv", ".jsonl"} else pa.array(at).cast(pa.timestamp("s", "UTC"))
    rows = written({"d": cells, "n": [1, 2, 3]}, here.folder / f"in{end}")
    words = ["--by", "year(d, Asia/Tokyo)", "--domain", "2019..2020", "--unknown", *ROWS]
    assert counted(here, words, rows)["count"] == [0, 1, 2]


def test_a_column_that_is_called_as_a_part_of_another(here, capsys) -> None:
    rows = csv_of({"d": ["2020-01-01"], "year(d)": ["2021"]}, here.folder / "in.csv")
    words = ["--by", "year(d)", "--domain", "2020,2021", "--unit-is-row", "--epsilon", "1"]
    here.refused(capsys, "--by 'year.d.' is a column, and made of 'd', too: rename one", *words, usual=False, rows=rows)


@pytest.mark.parametrize("end", FORMATS)
def test_weeks_of_rows(here, end) -> None:
    days = ["2013-01-06T23:30:00Z", "2013-01-07T00:30:00Z", "2012-12-31T12:00:00Z", None, "2014-06-01T00:00:00Z"]
    cells: list[Any] = days if end in {".csv", ".jsonl"} else [day and dt.datetime.fromisoformat(day) for day in days]
    rows = written(
        {"date": cells, "n": range(5)} if end != ".jsonl" else {"date": days, "n": list(range(5))},
        here.folder / f"in{end}",
    )
    words = ["--by", "week(date)", "--domain", "2013-W01..2013-W03", *ROWS]
    assert counted(here, words, rows) == {"week(date)": ["2013-W01", "2013-W02", "2013-W03"], "count": [2, 1, 0]}
    words = ["--by", "week(date, Europe/Berlin)", "--domain", "2013-W01..2013-W03", "--unknown", *ROWS]
    found = counted(here, words, rows)
    assert found["week(date, Europe/Berlin)"][-1] == "unknown"
    assert found["count"] == [1, 2, 0, 1]


# ------------------------------------------------------------------ cells that are missing


@pytest.mark.parametrize("end", FORMATS)
def test_null_strip_and_unknown(here, end) -> None:
    columns = {
        "town": [" Oslo", "Oslo ", "?", " ? ", None, "Lima", "n/a"],
        "who": ["a", "b", "c", "d", "e", " ?", "g"],
        "x": [1, 2, 3, 4, 5, 6, 7],
    }
    rows = written(columns, here.folder / f"in{end}")
    by = ["--by", "town", "--domain", "Oslo,Lima", *QUIET]
    each = ["--unit", "who", "--max-partitions", "1"]
    assert counted(here, [*by, "--unit-is-row"], rows)["count"] == [0, 1]
    assert counted(here, [*by, "--unit-is-row", "--strip"], rows)["count"] == [2, 1]
    assert counted(here, [*by, *each, "--strip", "--null", "?"], rows)["count"] == [2, 0]
    found = counted(here, [*by, *each, "--strip", "--null", "?", "--null", "n/a", "--unknown"], rows)
    assert found == {"town": ["Oslo", "Lima", "unknown"], "count": [2, 0, 4]}


@pytest.mark.parametrize("end", FORMATS)
def test_a_number_that_stands_for_none(here, end) -> None:
    rows = written({"age": [30, 99, 41, None], "x": [1, 99, 5, 7]}, here.folder / f"in{end}")
    assert counted(here, ["--by", "age", "--domain", "30,41,99", "--null", "99", "--unknown", *ROWS], rows)[
        "count"
    ] == [1, 1, 0, 2]
    words = ["--sum", "x", "--clamp", "0", "100", "--granularity", "1", "--null", "99", *ROWS]
    assert counted(here, words, rows) == {"sum": [13]}
    for null in ("99.0", "+99", "990e-1"):
        assert counted(here, [*words[:8], null, *ROWS], rows) == {"sum": [13]}
    if end == ".csv":  # whose texts may be no numbers
        here.rows.write_text("x\n3\n?\n5\n")
        assert counted(
            here, ["--sum", "x", "--clamp", "0", "100", "--granularity", "1", "--null", "?", *ROWS], here.rows
        ) == {"sum": [8]}


@pytest.mark.parametrize("end", FORMATS)
def test_a_null_is_read_as_a_domain_is(here, end) -> None:
    """0 is no false, and 0x10 no sixteen."""
    flags = ["true", "false", "false"] if end == ".csv" else [True, False, False]
    rows = written({"b": flags, "x": [16, 0, 0]}, here.folder / f"in{end}")
    by = ["--by", "b", "--domain", "b=true,false", *ROWS]
    both = [*by, "--by", "x", "--domain", "x=0,16"]
    assert counted(here, [*both, "--null", "0"], rows)["count"] == [0, 1, 0, 0]
    assert counted(here, [*by, "--null", "false"], rows)["count"] == [1, 0]
    if end != ".csv":
        for null in ("0", "1", "False", "FALSE"):
            assert here.run(*by, "--null", null, "--force", rows=rows, usual=False) != 0
        of_x = ["--by", "x", "--domain", "0,16", *ROWS]
        assert here.run(*of_x, "--null", "0x10", "--force", rows=rows, usual=False) != 0


def test_a_null_that_no_column_can_hold_is_refused(here, capsys) -> None:
    rows = here.folder / "in.parquet"
    store(pa.table({"d": pa.array([0], pa.timestamp("s", "UTC")), "n": [1]}), rows)
    words = ["--by", "day(d)", "--domain", "1970-01-01..1970-01-03", *ROWS]
    match = "--null must be what a column that is read can hold, got '1970-01-01'"
    here.refused(capsys, match, *words, "--null", "1970-01-01", usual=False, rows=rows)
    assert counted(here, [*words, "--null", "1970-01-01T00:00:00Z"], rows)["count"] == [0, 0, 0]


@pytest.mark.parametrize("end", FORMATS)
@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_shows_no_row_twice(here, capsys, end, link) -> None:
    """Else each row of the file would change the total by two, and the noise is made for one."""
    folder = here.folder / "in"
    (folder / "part").mkdir(parents=True)
    made = written({"k": ["a", "b"]}, folder / f"part/a{end}")
    getattr(folder / f"part/b{end}", link)(made)
    match = "must contain each file once, and links show one twice"
    here.refused(capsys, match, "--unit-is-row", "--epsilon", "1", usual=False, rows=folder, code=1)


KINDS: list[tuple[pa.DataType, list[Any], list[str]]] = [
    (pa.int16(), [7, -1], ["7", "-1"]),
    (pa.bool_(), [True, False], ["true", "false"]),
    (pa.date32(), [dt.date(2026, 11, 30), dt.date(1969, 1, 1)], ["2026-11-30", "1969-01-01"]),
    (
        pa.timestamp("ms", "UTC"),
        [dt.datetime(2026, 11, 30, 7, tzinfo=dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC)],
        ["2026-11-30T07:00:00.000Z", "1969-01-01T00:00:00.000Z"],
    ),
    (pa.dictionary(pa.int8(), pa.string()), ["x", "y"], ["x", "y"]),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("kind", "keys", "texts"), KINDS, ids=lambda each: str(each)[:12])
def test_unknown_of_each_kind(here, kind, keys, texts, known) -> None:
    """The column of OUT is of texts then, for it has one more key; others stay."""
    rows = here.folder / "in.parquet"
    store(pa.table({"key": pa.array([keys[0]] * 40 + [keys[1]] * 50 + [None] * 60, kind)}), rows)
    domain = (
        ["--domain", ",".join(texts)] if known else ["--threshold", "--delta", "1e-3", "--epsilon", "1000", "--quiet"]
    )
    how = ["--by", "key", "--unit-is-row", "--unknown", *domain, *(QUIET if known else [])]
    found = counted(here, how, rows, ".parquet")
    assert dict(zip(found["key"], found["count"], strict=True)) == {texts[0]: 40, texts[1]: 50, "unknown": 60}


def test_a_key_that_is_called_unknown_is_listed_once() -> None:
    domain = Domain(["unknown", "a"], ["1", "2"])
    assert domain.with_text("unknown", "--unknown") is domain


# ------------------------------------------------------------------ a listed column beside others

NOISELESS = ["--threshold", "--delta", "1e-9", "--epsilon", str(2**40), "--quiet"]


def test_rows_outside_a_listed_column_take_no_cap(here) -> None:
    """They are left out before cells are chosen: else half of them would not be counted."""
    units = [unit for unit in range(40) for _ in range(2)]
    rows = csv_of({"town": ["a", "b"] * 40, "sex": ["f", "x"] * 40, "unit": units}, here.folder / "in.csv")
    words = ["--by", "town", "--by", "sex", "--unit", "unit", "--max-partitions", "1", *NOISELESS]
    assert counted(here, [*words, "--domain", "sex=f,m"], rows) == {"town": ["a"], "sex": ["f"], "count": [40]}
    both = counted(here, words, rows)["count"]
    assert len(both) == 2
    assert sum(both) == 40


def test_each_combination_passes_the_threshold_by_itself(here) -> None:
    """Ten of each sex in a town are not twenty."""
    rows = csv_of({"town": ["a"] * 20 + ["b"] * 60, "sex": ["f", "m"] * 40}, here.folder / "in.csv")
    words = [
        "--by",
        "town",
        "--by",
        "sex",
        "--unit-is-row",
        "--threshold",
        "--delta",
        "1e-60",
        "--epsilon",
        "8",
        "--quiet",
    ]
    for more in (["--domain", "sex=f,m"], []):
        assert set(counted(here, [*words, *more], rows)["town"]) == {"b"}  # a is shown once in e^60 runs


def test_a_listed_column_is_sealed(here, capsys) -> None:
    key, ledger = here.folder / "k.key", here.folder / "l.db"
    dpfast.KeyFile.create(key)
    dpfast.Ledger(ledger, 2**41, delta=1e-3, unit="row", create=True)
    words = [
        "--by",
        "city",
        "--by",
        "sex",
        "--unit-is-row",
        *NOISELESS,
        "--ledger",
        ledger,
        "--key-file",
        key,
        "--label",
        "x",
    ]
    assert here.run(*words, "--domain", "sex=f,x", usual=False) == 0
    made = here.out.read_bytes()
    for other in (["--domain", "sex=f,m"], [], ["--domain", "city=Oslo,Lima"]):
        assert here.run(*words, *other, "--resume", "--force", usual=False) != 0
        assert "--domain" in capsys.readouterr().err
        assert here.out.read_bytes() == made
    assert len(dpfast.Ledger(ledger).history()) == 1


# ------------------------------------------------------------------ what is refused

WRONG = [
    ([], "Missing option '--unit', or '--unit-is-row'"),
    (["--unit", "person", "--unit-is-row"], "'--unit-is-row' says that each row is a unit, and does not work with '--unit'"),
    (["--unit-is-row", "--max-contributions", "2"], "--max-contributions must be left out where each row is a unit, .*got 2"),
    (["--unit-is-row", "--domain", "a,b"], "'--domain', .* are about keys, and need '--by'"),
    (["--unit-is-row", "--max-partitions", "1"], "'--domain', .* are about keys, and need '--by'"),
    (["--unit-is-row", "--unknown"], "'--domain', .* are about keys, and need '--by'"),
    (["--unit-is-row", "--threshold", "--delta", "1e-6"], "'--domain', .* are about keys, and need '--by'"),
    (["--unit-is-row", "--bins", "hours=0,1"], "'--domain', .* are about keys|--bins must be NAME=A,B,C for a NAME of --by"),
    (["--unit-is-row", "--by", "hours", "--bins", "age=0,1"], "--bins must be NAME=A,B,C for a NAME of --by, got 'age=0,1'"),
    (["--unit-is-row", "--by", "hours", "--bins", "hours=0"], "--bins must be NAME=A,B,C, in ascending order, got '0'"),
    (["--unit-is-row", "--by", "hours", "--bins", "hours=1,0"], "--bins must be NAME=A,B,C, in ascending order"),
    (["--unit-is-row", "--by", "hours", "--bins", "hours=0,x"], "--bins"),
    (["--unit-is-row", "--by", "hours", "--bins", "hours=0,1e999"], "--bins must be NAME=A,B,C, in ascending order"),
    (["--unit-is-row", "--by", "hours", "--bins", "hours=0,1", "--bins", "hours=0,2"], "--bins must be given once for each column"),
    (["--unit-is-row", "--by", "hours", "--bins", "hours=0,1", "--domain", "0,1"], "--domain must be left out for 'hours': --bins lists its keys"),
    (["--unit-is-row", "--by", "week(date)", "--bins", "week(date)=0,1"], "--bins must be of a column of numbers"),
    (["--unit-is-row", "--by", "age", "--domain", "2013-W01..2013-W02"], "2013-W01..2013-W02 goes with --by .day.age.., or month"),
    (["--unit-is-row", "--by", "age", "--domain", '" 1",2', "--strip"], "--domain age must be without spaces at its ends, which --strip leaves out"),
    (["--unit-is-row", "--by", "age", "--domain", "1,2", "--strip", "--null", " ?"], "--null must be without spaces at its ends"),
    (["--unit-is-row", "--by", "week(date)", "--domain", "1..52"], "--domain week.date. must be a week such as 2026-W49, got '1..52'"),
    (["--unit-is-row", "--by", "week(date)", "--domain", "2013-W01..2013-W02"], "--by: no column is named 'date'"),
    (["--unit", "person", "--by", "week(person)", "--domain", "2013-W01..2013-W02", "--max-partitions", "1"], "--by must not name the column of --unit, 'person'"),
    (["--unit-is-row", "--by", "city", "--by", "city", "--domain", "a,b"], "--by must name each column once"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "match"), WRONG)
def test_what_is_wrong_is_refused_by_name(here, capsys, words, match) -> None:
    code = 1 if "cannot read" in match else 2
    here.refused(capsys, match, *words, "--epsilon", "1", "--quiet", usual=False, code=code)


@pytest.mark.parametrize(
    ("column", "words", "match"),
    [
        (
            ["a"],
            ["--by", "c", "--bins", "c=0,1"],
            "--by 'c' must be a column of numbers for --bins, but contains string",
        ),
        ([True], ["--by", "c", "--bins", "c=0,1"], "must be a column of numbers for --bins, but contains bool"),
        ([1, 2], ["--by", "c", "--bins", "c=0,0.5,1,1.5"], "--bins must have edges that differ as int64"),
        (
            [1, 2],
            ["--by", "year(c)", "--domain", "2013,2014"],
            r"must be a column of dates, timestamps or texts of these for year\(\)",
        ),
        (
            pa.array([0], pa.timestamp("s", "Mars/Base")),
            ["--by", "day(c)", "--domain", "1970-01-01,1970-01-02"],
            "must be a column of times in a zone that is known, but contains timestamp.ms, tz=Mars/Base",
        ),
        (
            [1.5],
            ["--by", "c", "--domain", "1,2"],
            "must be a column of .* but contains double: --bins makes keys of such numbers",
        ),
    ],
)
def test_a_column_that_will_not_do(here, capsys, column, words, match) -> None:
    rows = here.folder / "in.parquet"
    store(pa.table({"c": column}), rows)
    here.refused(capsys, match, *words, "--unit-is-row", "--epsilon", "1", "--quiet", usual=False, rows=rows)
