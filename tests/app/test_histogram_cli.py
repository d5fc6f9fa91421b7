# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram`: from rows to a noisy table: what is counted, bounded, summed and refused."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import CITIES, QUIET, SEXES, csv_of, in_at_most, people
from table_files import read, store

import dpfast

# ------------------------------------------------------------------ what is counted


@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow", ".feather"])
def test_counts_are_those_of_the_bounded_histogram(here, end) -> None:
    """With caps that nobody reaches and next to no noise, OUT is the table of distinct people."""
    columns, rows = people(), here.folder / f"in{end}"
    if end != ".csv":
        store(pa.table(columns), rows)
    out = here.folder / f"result{end}"
    words = ["--by", "sex", "--domain", f"city={here.cities}", "--domain", "sex=f,m", "--max-partitions", "9"]
    given = ["--by", "city", "--unit", "person", *words, *QUIET]
    assert here.run(*given, rows=rows if end != ".csv" else None, out=out, usual=False) == 0
    found = here.table(out)
    cells = in_at_most(columns, ["city", "sex"], {(city, sex) for city in CITIES for sex in SEXES})
    wanted = Counter(cell for of_person in cells.values() for cell in of_person)
    assert list(zip(found["city"], found["sex"], strict=True)) == [(city, sex) for city in CITIES for sex in SEXES]
    assert found["count"] == [wanted[cell] for cell in zip(found["city"], found["sex"], strict=True)]


def test_a_key_outside_one_domain_of_three_is_in_no_cell(here) -> None:
    cells = {"a": "xy?x", "b": "p?qq", "c": "mnn?"}
    rows = csv_of(
        {**{name: list(keys) for name, keys in cells.items()}, "person": list("1234")}, here.folder / "in.csv"
    )
    words = [word for name, keys in (("a", "x,y"), ("b", "p,q"), ("c", "m,n")) for word in (
        "--by", name, "--domain", f"{name}={keys}")]  # fmt: skip
    assert here.run(*words, "--unit", "person", "--max-partitions", "1", *QUIET, rows=rows, usual=False) == 0
    assert here.table()["count"] == [1, 0, 0, 0, 0, 0, 0, 0]


def test_the_caps_bound_each_person(here) -> None:
    """Every person once in one of their cities; rows outside the domain take nobody's place."""
    cells = in_at_most(people(), ["city"], {(city,) for city in CITIES})
    assert here.run("--max-partitions", "1") == 0
    assert sum(here.table()["count"]) == len(cells)


def test_contributions(here) -> None:
    rows = in_at_most(people(), ["city"], {(city,) for city in CITIES})
    words = ["--by", "city", "--unit", "person", "--domain", here.cities, "--max-contributions", "3", *QUIET]
    assert here.run(*words, usual=False) == 0
    assert sum(here.table()["count"]) == sum(min(3, of_person.total()) for of_person in rows.values())


def test_rows_of_a_person_in_a_cell(here) -> None:
    rows = in_at_most(people(), ["city"], {(city,) for city in CITIES})
    assert here.run("--max-partitions", "9", "--max-per-partition", "2") == 0
    wanted = Counter[Any]()
    for of_person in rows.values():
        wanted += Counter({cell: min(2, many) for cell, many in of_person.items()})
    assert here.table()["count"] == [wanted[city,] for city in CITIES]


def test_rows_without_a_key_or_a_unit_are_left_out(here) -> None:
    """Empty and null are alike, in each format; and a row of nobody changes nothing."""
    here.rows.write_text('city,person\nOslo,1\n"",2\n,3\nLima,\nLima,""\nPune,4\n')
    assert here.run() == 0
    assert here.table()["count"] == [1, 0, 1]
    rows = here.folder / "in.parquet"
    store(pa.table({"city": ["Oslo", "", None, "Lima", "Lima", "Pune"], "person": [1, 2, 3, None, None, 4]}), rows)
    assert here.run("--force", rows=rows) == 0
    assert here.table()["count"] == [1, 0, 1]


def test_an_empty_table_costs_and_gives_the_same(here) -> None:
    here.rows.write_text("city,person\n")
    assert here.run() == 0
    assert here.table() == {"city": CITIES, "count": [0, 0, 0]}


# ------------------------------------------------------------------ kinds of keys and units

DAY = dt.date(2026, 11, 30)


NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


KINDS = {  # a type, two of its keys, and how a domain writes them
    "text": (pa.string(), ["01", "1"], ["01", "1"]),
    "large": (pa.large_string(), ["a b", 'say "no"'], ['"a b"', '"say ""no"""']),
    "category": (pa.dictionary(pa.int8(), pa.string()), ["x", "y"], ["x", "y"]),
    "view": (pa.string_view(), ["x", "y"], ["x", "y"]),
    "integer": (pa.int16(), [1, -7], ["1", "-7"]),
    "unsigned": (pa.uint64(), [2**64 - 1, 0], [str(2**64 - 1), "0"]),
    "bool": (pa.bool_(), [True, False], ["true", "false"]),
    "date": (pa.date32(), [DAY, dt.date(1969, 1, 1)], ["2026-11-30", "1969-01-01"]),
    "time": (pa.timestamp("us"), [NOON.replace(tzinfo=None)] * 1 + [dt.datetime(2026, 1, 1)],  # noqa: DTZ001
             ["2026-11-30T12:00:00", "2026-01-01"]),
    "zoned": (pa.timestamp("ms", "Europe/Oslo"), [NOON, NOON.replace(year=2025)],
              ["2026-11-30T13:00:00+01:00", "2025-11-30T12:00:00Z"]),
}  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_each_kind(here, kind, known) -> None:
    """Lines are read as the column's type, which the keys of OUT have; a null is no key."""
    of, keys, lines = KINDS[kind]
    rows = here.folder / "in.parquet"
    found = pa.array([keys[0]] * 40 + [keys[1]] * 60 + [None] * 5, of)
    pq.write_table(pa.table({"key": found, "unit": range(105)}), rows)
    here.cities.write_text("\n".join(lines))
    how = (
        ["--domain", here.cities, *QUIET]
        if known
        else ["--threshold", "--delta", "1e-3", "--epsilon", "1000", "--quiet"]
    )
    words = ["--by", "key", "--unit", "unit", "--max-partitions", "1", *how]
    out = here.folder / "result.parquet"
    assert here.run(*words, rows=rows, out=out, usual=False) == 0
    shown, plain = read(out), found.dictionary_decode() if kind == "category" else found
    wanted = pa.string() if kind in {"category", "view"} else of
    assert shown["key"].type == wanted
    assert dict(zip(shown["key"].to_pylist(), shown["count"].to_pylist(), strict=True)) == dict(
        zip(plain.slice(39, 2).to_pylist(), [40, 60], strict=True)
    )
    out = here.folder / "result.csv"
    assert here.run(*words, rows=rows, out=out, usual=False) == 0
    assert sorted(here.table(out)["count"]) == [40, 60]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("integer", "01"), ("integer", "+1"), ("integer", "1.0"), ("integer", "40000"), ("unsigned", "-1"), ("bool", "True"),
        ("bool", "1"), ("date", "30.11.2026"), ("date", "2026-02-30"), ("time", "2026-11-30T12:00:00Z"),
        ("zoned", "2026-11-30T12:00:00"),
    ],
)  # fmt: skip
def test_a_line_that_the_type_cannot_hold(here, capsys, kind, line) -> None:
    rows = here.folder / "in.parquet"
    pq.write_table(pa.table({"key": pa.array(KINDS[kind][1], KINDS[kind][0]), "unit": [1, 2]}), rows)
    here.cities.write_text(f"{KINDS[kind][2][0]}\n{line}\n")
    words = ["--by", "key", "--unit", "unit", "--max-partitions", "1", "--domain", here.cities, *QUIET]
    here.refused(capsys, rf"line 2 of .*cities.txt must be .*, got '{re.escape(line)}'", *words, rows=rows, usual=False)


def test_two_texts_of_one_time(here, capsys) -> None:
    rows = here.folder / "in.parquet"
    pq.write_table(pa.table({"key": pa.array([NOON], pa.timestamp("s", "UTC")), "unit": [1]}), rows)
    here.cities.write_text("2026-11-30T12:00:00Z\n2026-11-30T13:00:00+01:00\n")
    words = ["--by", "key", "--unit", "unit", "--max-partitions", "1", "--domain", here.cities, *QUIET]
    here.refused(capsys, "line 2 of .* is the key of line 1 of .* again", *words, rows=rows, usual=False)


@pytest.mark.parametrize(
    "of", [pa.int8(), pa.uint64(), pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_units_of_each_kind(here, of) -> None:
    """One row counts for each unit; a null is nobody."""
    ids = pa.array([str(i % 50) for i in range(200)] + [None], pa.string())
    held = ids.cast(of) if not pa.types.is_dictionary(of) else ids.dictionary_encode()
    rows = here.folder / "in.parquet"
    pq.write_table(pa.table({"key": ["a"] * 201, "unit": held}), rows, row_group_size=30)
    here.cities.write_text("a\nb\n")
    words = ["--by", "key", "--unit", "unit", "--max-partitions", "1", "--domain", here.cities, *QUIET]
    assert here.run(*words, rows=rows, usual=False) == 0
    assert here.table()["count"] == [50, 0]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"key": [0.5], "unit": [1]}, "--by 'key' must be a column of texts, whole numbers.*, but contains double"),
        ({"key": [b"a"], "unit": [1]}, "--by 'key' must be a column of .*, but contains binary"),
        ({"key": ["a"], "unit": [1.0]}, "--unit 'unit' must be a column of .*double: write it as whole numbers first"),
        ({"key": ["a"], "unit": [True]}, "--unit 'unit' must be a column of .*, but contains bool"),
        ({"key": ["a"]}, "--unit: no column is named 'unit'; there are 'key'"),
        ({"KEY": ["a"], "unit": [1]}, "--by: no column is named 'key'; there are 'KEY', 'unit'"),
    ],
)
def test_columns_that_will_not_do(here, capsys, columns, match) -> None:
    rows = here.folder / "in.parquet"
    pq.write_table(pa.table(columns), rows)
    words = ["--by", "key", "--unit", "unit", "--max-partitions", "1", "--domain", "a,b", *QUIET]
    here.refused(capsys, match, *words, rows=rows, usual=False)


def test_two_columns_of_one_name(here, capsys) -> None:
    here.rows.write_text("city,person,city\nOslo,1,Lima\n")
    here.refused(capsys, "--by must name one column, and 2 are named 'city'")
    rows = here.folder / "in.parquet"
    pq.write_table(pa.table([["Oslo"], [1], ["Lima"]], names=["city", "person", "city"]), rows)
    here.refused(capsys, "--by must name one column, and 2 are named 'city'", rows=rows)


@pytest.mark.parametrize("name", ['say "no"', "two\nlines", "a,b", " city", "=", "a=b"])
def test_names_of_columns_with_any_letters(here, capsys, name) -> None:
    """They are compared letter by letter, and a message is one line."""
    quoted = '"' + name.replace('"', '""') + '"'
    here.rows.write_text(f"{quoted},person\nOslo,1\n")
    words = ["--by", name, "--unit", "person", "--max-partitions", "1", "--domain", f"{name}=Oslo,Lima", *QUIET]
    assert here.run(*words, usual=False) == 0
    assert read(here.out).to_pydict() == {name: ["Oslo", "Lima"], "count": [1, 0]}
    here.clear()
    words[1], words[7] = f"{name} ", f"{name} =Oslo,Lima"
    here.refused(capsys, "--by: no column is named", *words, usual=False)


# ------------------------------------------------------------------ domains


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (b"Oslo\nLima\nOslo\n", "line 3 of .*cities.txt is the key of line 1 of .*cities.txt again, 'Oslo'"),
        (b"Oslo\n\nLima\n", "line 2 of .*cities.txt is blank"),
        (b"Oslo\n\r\nLima\n", "line 2 of .*cities.txt is blank"),
        (b"Oslo\n  \n", "line 2 of .*cities.txt begins or ends with a space"),
        (b"Oslo \n", "line 1 of .*cities.txt begins or ends with a space"),
        (b"\tOslo\n", "line 1 of .*cities.txt begins or ends with a space"),
        (b'"Oslo\n', "line 1 of .*cities.txt must end with its quote"),
        (b'"Os"lo"\n', "line 1 of .*cities.txt must end with its quote"),
        (b'""\n', "line 1 of .*cities.txt is blank"),
        (b'Oslo\n"Oslo"\n', "line 2 of .*cities.txt is the key of line 1"),
        (b"Oslo\n\xff\n", "line 2 of .*cities.txt must be UTF-8"),
        (b"", "cities.txt must contain at least one key"),
        (b"\xef\xbb\xbf", "cities.txt must contain at least one key"),
    ],
)
def test_a_domain_that_breaks_a_rule(here, capsys, lines, match) -> None:
    here.cities.write_bytes(lines)
    here.refused(capsys, match)


@pytest.mark.parametrize("lines", [b"\xef\xbb\xbfOslo\r\nLima\r\nPune", b'Oslo\n"Lima"\nPune\n', b"Oslo\nLima\nPune\n"])
def test_marks_and_line_ends_of_a_domain(here, lines) -> None:
    here.cities.write_bytes(lines)
    assert here.run() == 0
    assert here.table()["city"] == CITIES


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            ["--domain", "no.txt"],
            r"cannot read 'no.txt' of --domain city: No such file or directory; a list of keys holds a comma",
        ),
        (["--domain", "."], "cannot read '.' of --domain city: Is a directory"),
        (["--domain", "town=a,b"], "--domain must be NAME=KEYS for one of 'city', got 'town=a,b'"),
        (
            ["--domain", "a,b", "--domain", "a,c"],
            "--domain must be given once for each column, and came twice for 'city'",
        ),
        (["--domain", "a,,b"], "entry 2 of --domain city is blank"),
        (["--domain", "a,a"], "entry 2 of --domain city is the key of entry 1 of --domain city again"),
        (["--domain", "a, b"], "entry 2 of --domain city begins or ends with a space"),
        (
            ["--domain", "5..1"],
            "--domain city must be a range from the lower to the upper end, of at most 67,108,864 keys, got 5..1",
        ),
        (["--domain", "1..99999999999"], "--domain city must be a range"),
        (
            ["--by", "sex", "--domain", "city=a,b"],
            "--domain must be given for each column, and there is none for 'sex'",
        ),
        (["--by", "sex", "--domain", "a,b"], "--domain must be NAME=KEYS for one of 'city', 'sex', got 'a,b'"),
        (
            ["--by", "sex", "--domain", "city=1..9999", "--domain", "sex=1..9999"],
            "--domain must be of at most 67,108,864 cells",
        ),
    ],
)
def test_domain_options_that_will_not_do(here, capsys, options, match) -> None:
    words = ["--by", "city", "--unit", "person", "--max-partitions", "2", *options, *QUIET]
    code = 1 if "cannot read" in match else 2
    here.refused(capsys, match, *words, usual=False, code=code)


def test_a_list_of_one_key(here, capsys) -> None:
    words = ["--by", "city", "--unit", "person", "--max-partitions", "2", *QUIET]
    here.refused(capsys, "entry 3 of --domain city is blank", *words, "--domain", "Oslo,Lima,", usual=False)
    here.refused(capsys, "entry 1 of --domain city is blank", *words, "--domain", ",", usual=False)
    assert here.run(*words, "--domain", "Oslo,", usual=False) == 0
    assert here.table()["city"] == ["Oslo"]


def test_a_range_and_a_list(here) -> None:
    words = ["--by", "hours", "--by", "sex", "--unit", "person", "--max-partitions", "99"]
    assert here.run(*words, "--domain", "hours=0..23", "--domain", "sex=f,m", *QUIET, usual=False) == 0
    found = here.table()
    assert list(zip(found["hours"], found["sex"], strict=True)) == [(hour, sex) for hour in range(24) for sex in SEXES]
    columns = people()
    assert sum(found["count"]) == len(set(zip(columns["hours"], columns["sex"], columns["person"], strict=True)))


# ------------------------------------------------------------------ sums


def sums(low: float, high: float, step: float, *, rows: bool) -> list[float]:
    """What OUT holds for each city if nobody reaches a cap: sums of clamped rows or people."""
    columns = people()
    of_people: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for city, person, hours in zip(columns["city"], columns["person"], columns["hours"], strict=True):
        of_people[city, person].append(hours * 0.75)
    found = dict.fromkeys(CITIES, 0.0)
    for (city, _), values in of_people.items():
        if city in found:
            rounded = [round(value / step) * step for value in values]
            found[city] += sum(min(max(each, low), high) for each in (rounded if rows else [sum(rounded)]))
    return list(found.values())


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3, 7), (2, 5)])
@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_sums(here, rows, low, high, end) -> None:
    columns = people()
    columns["hours"] = [hours * 0.75 for hours in columns["hours"]]
    source = here.folder / f"in{end}"
    csv_of(columns, source) if end == ".csv" else store(pa.table(columns), source)
    caps = ["--max-partitions", "9", *(["--max-per-partition", "999"] if rows else [])]
    words = ["--sum", "hours", "--clamp", low, high, "--granularity", "1/8", *caps]
    assert here.run(*words, rows=source) == 0
    assert here.table()["sum"] == sums(low, high, 0.125, rows=rows)
    here.clear()
    assert here.run(*(word for word in words if word not in {"--granularity", "1/8"}), rows=source) == 0
    assert here.table()["sum"] == pytest.approx(sums(low, high, 2**-20, rows=rows), abs=1e-9)


def test_values_that_are_missing_or_infinite(here) -> None:
    """An empty cell, a null, a NaN and an infinity leave the row out; what is finite is clamped."""
    here.rows.write_text("city,person,hours\nOslo,1,\nOslo,2,nan\nOslo,3,3\nLima,1,inf\nLima,2,-7\nPune,1,1e300\n")
    words = ["--sum", "hours", "--clamp", "-2", "8"]
    assert here.run(*words) == 0
    assert here.table()["sum"] == [3, -2, 8]
    rows = here.folder / "in.parquet"
    values = pa.array([None, float("nan"), 3, float("inf"), -7, 1e300])
    store(
        pa.table({"city": ["Oslo"] * 3 + ["Lima"] * 2 + ["Pune"], "person": [1, 2, 3, 1, 2, 1], "hours": values}), rows
    )
    assert here.run(*words, "--force", rows=rows) == 0
    assert here.table()["sum"] == [3, -2, 8]


def test_whole_numbers_stay_whole(here) -> None:
    """With a granularity of 1 sums are integers, exact beyond 2^53."""
    rows = here.folder / "in.parquet"
    store(pa.table({"city": ["Oslo"] * 3, "person": [1, 2, 3], "hours": pa.array([2**53 + 1, 1, 2**63 - 1])}), rows)
    words = ["--sum", "hours", "--clamp", "0", 2**54, "--granularity", "1", "--mechanism", "discrete-gaussian"]
    given = ["--by", "city", "--unit", "person", "--max-partitions", "1", "--domain", here.cities, "--sigma", "1/1000"]
    assert here.run(*given, *words, rows=rows, usual=False) == 0
    found = here.table()
    assert found["sum"] == [2**53 + 2 + 2**54, 0, 0]
    assert read(here.out).schema.field("sum").type == pa.int64()


def test_a_value_that_is_no_number(here, capsys) -> None:
    here.rows.write_text("city,person,hours\nOslo,1,many\n")
    said = here.refused(capsys, "column 'hours' of .* must contain", "--sum", "hours", "--clamp", 0, 8, code=1)
    assert "many" not in said
    rows = here.folder / "in.parquet"
    store(pa.table({"city": ["Oslo"], "person": [1], "hours": ["3"]}), rows)
    here.refused(
        capsys,
        "--sum 'hours' must be a column of .*, but contains string",
        "--sum",
        "hours",
        "--clamp",
        0,
        8,
        rows=rows,
    )


# ---------------------------------------------------------- intervals, bounds, and what is said


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("jointly", [False, True])
@pytest.mark.parametrize("confidence", [None, "0.5", "99/100"])
def test_intervals(here, summed, jointly, confidence) -> None:
    """Their half-width is the mechanism's, and no end is where no value can be."""
    words = ["--intervals", *([confidence] if confidence else []), *(["--jointly"] if jointly else [])]
    words += ["--sum", "hours", "--clamp", "-1", "4", "--granularity", "1/4"] if summed else []
    words += ["--by", "city", "--unit", "person", "--max-partitions", "2", "--domain", here.cities, "--epsilon", "1/50"]
    assert here.run(*words, "--quiet", usual=False) == 0
    found, about = here.table(), json.loads(Path(f"{here.out}.json").read_text())
    law = dpfast.DiscreteLaplace("1/50", dpfast.Sensitivity(2, 16 if summed else 1, signed=summed))
    step = 0.25 if summed else 1
    half = law.interval(float(Fraction(confidence or "0.95")), cells=3 if jointly else 1) * step
    assert about["intervals"]["half_width"] == str(Fraction(half))
    assert about["intervals"]["of"] == ("all cells jointly" if jointly else "each cell")
    values = found["sum" if summed else "count"]
    assert found["low"] == [value - half if summed else max(value - half, 0) for value in values]
    assert found["high"] == [value + half if summed else max(value + half, 0) for value in values]


def test_intervals_hold(here) -> None:
    """As often as they say: 1,000 empty cells; 50 %, within five standard deviations (6e-7)."""
    here.rows.write_text("hours,person\n")
    words = [
        "--by",
        "hours",
        "--unit",
        "person",
        "--max-partitions",
        "3",
        "--domain",
        "hours=1..1000",
        "--epsilon",
        "1",
    ]
    assert here.run(*words, "--intervals", "1/2", "--quiet", usual=False) == 0
    found, about = here.table(), json.loads(Path(f"{here.out}.json").read_text())
    half, q = int(about["intervals"]["half_width"]), np.exp(-1 / 3)
    held = sum(abs(value) <= half for value in found["count"])
    chance = 1 - 2 * q ** (half + 1) / (1 + q)
    assert chance >= 0.5
    assert abs(held - 1000 * chance) <= 5 * np.sqrt(1000 * chance * (1 - chance))
    assert sum(low == 0 for low in found["low"]) == sum(value <= half for value in found["count"])


def test_bounds(here) -> None:
    words = ["--by", "city", "--unit", "person", "--max-partitions", "1", "--domain", here.cities, "--quiet"]
    assert here.run(*words, "--epsilon", "1/1000", "--lower", "100", "--upper", "102", usual=False) == 0
    assert set(here.table()["count"]) <= {100, 101, 102}
    here.clear()
    assert here.run(*words, "--epsilon", "1", "--lower", -(2**70), "--upper", 2**70, usual=False) == 0


def test_explain_opens_no_rows(here, capsys, monkeypatch) -> None:
    """Its figures are those of the release; rows, OUT and the ledger need not be there."""
    from dpfast.app.tables import rows

    words = [*here.words, "--epsilon", "1", "--by", "sex", "--domain", "sex=f,m"]
    words[words.index("--domain") + 1] = f"city={here.cities}"
    assert here.run(*words, usual=False) == 0
    said = capsys.readouterr().err.splitlines()[:3]
    monkeypatch.setattr(rows, "Rows", lambda *_: pytest.fail("it was opened"))
    here.rows.unlink()
    made = here.out.read_bytes()
    assert here.run(*words, "--explain", "--ledger", "no.db", usual=False) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[:3] == said
    assert "no.db is not there, so nothing says whether a release fits" in told
    assert said[1] == "cost: epsilon 1 per person, add-remove"
    assert "95 % within ±6; all 6 cells jointly within ±" in said[2]
    assert "nothing was read, and nothing was charged" in told
    assert here.out.read_bytes() == made
    assert not Path("no.db").exists()


def test_what_travels_with_out(here) -> None:
    """Under "dpfast" in the schema, or beside a CSV file."""
    given = ["--max-partitions", "2", "--max-contributions", "5"]
    for end in (".parquet", ".arrow", ".csv"):
        out = here.folder / f"made{end}"
        assert here.run(*given, out=out) == 0
        text = Path(f"{out}.json").read_text() if end == ".csv" else read(out).schema.metadata[b"dpfast"]
        about = json.loads(text)
        assert about["epsilon_total"] == str(2**50)
        wanted = {"by": ["city"], "unit": "person", "max_partitions": 2, "max_contributions": 5, "cells": 3}
        assert about["histogram"] == wanted
        assert about["secure_means"].startswith("true: ")
        (release,) = about["releases"]
        assert (release["mechanism"], release["unit"], release["adjacency"]) == (
            "discrete_laplace",
            "person",
            "add-remove",
        )


WRONG = [
    (["--epsilon", "1e-400"], "--epsilon must be at least 2.* times the sensitivity, 2 in L1, got 1E-400"),
    (["--epsilon", "1e400"], "--epsilon must be at least 2.* times the sensitivity, 2 in L1, got 1E.400"),
    (["--epsilon", "0"], "--epsilon must be positive, got 0"),
    (["--epsilon", "-1"], "--epsilon must be positive, got -1"),
    (["--epsilon", "nan"], "--epsilon must be finite and positive"),
    (["--epsilon", "one"], "'one' is not a number"),
    ([], "Missing option '--epsilon'"),
    (["--epsilon", "1", "--delta", "1e-6"], "discrete-laplace takes no '--delta', as discrete-gaussian would"),
    (["--rho", "1"], "discrete-laplace takes no '--rho', as discrete-gaussian would"),
    (["--mechanism", "discrete-gaussian", "--epsilon", "1"], "Missing option '--delta'"),
    (["--mechanism", "discrete-gaussian", "--rho", "1e-400"], "--rho must ask for possible noise, got 1E-400"),
    (
        ["--mechanism", "discrete-gaussian", "--sigma", "1e-400"],
        "--sigma must lie between 1e-3 and 1e9, got (--)?sigma.1E-400$",
    ),
    (["--mechanism", "laplace", "--epsilon", "1"], "'laplace' is not one of 'discrete-laplace', 'discrete-gaussian'"),
    (["--epsilon", "1", "--lower", "3", "--upper", "2"], "--lower must be at most --upper, got 3 and 2"),
    (["--epsilon", "1", "--lower", "0.5"], "--lower must be a whole number for counts, got 0.5"),
    (["--epsilon", "1", "--lower", "1e30"], "--lower and --upper must leave something of int64"),
    (["--epsilon", "1", "--sum", "hours"], "'--sum' and '--clamp' must be given together"),
    (["--epsilon", "1", "--clamp", "0", "1"], "'--sum' and '--clamp' must be given together"),
    (["--epsilon", "1", "--granularity", "1"], "'--granularity' is about values"),
    (["--epsilon", "1", "--sum", "hours", "--clamp", "2", "1"], "--clamp must be A and B, A at most B, got 2 and 1"),
    (["--epsilon", "1", "--sum", "hours", "--clamp", "0", "0"], "--clamp must reach to"),
    (
        ["--epsilon", "1", "--sum", "hours", "--clamp", "0", "1e400"],
        "--clamp must reach to .* at most, got 0 and 1E.400",
    ),
    (["--epsilon", "1", "--sum", "hours", "--clamp", "nan", "1"], "--clamp must be finite"),
    (
        ["--epsilon", "1", "--sum", "hours", "--clamp", "0", "5", "--granularity", "3"],
        "--granularity must be a power of two",
    ),
    (
        ["--epsilon", "1", "--sum", "hours", "--clamp", "0", "5", "--granularity", "16"],
        "--granularity must be below twice",
    ),
    (
        ["--epsilon", "1", "--sum", "hours", "--clamp", "0", "5", "--granularity", "2**-70"],
        "--granularity must be below",
    ),
    (["--epsilon", "1", "--sum", "city", "--clamp", "0", "1"], "--sum must name another column than --by and --unit"),
    (["--epsilon", "1", "--sum", "none", "--clamp", "0", "1"], "--sum: no column is named 'none'"),
    (["--epsilon", "1", "--intervals", "1"], "--intervals must be above 0 and below 1, got 1"),
    (["--epsilon", "1", "--intervals", "0"], "--intervals must be above 0 and below 1, got 0"),
    (["--epsilon", "1", "--jointly"], "'--jointly' says what '--intervals' contain"),
    (["--epsilon", "1", "--threshold"], "give either '--domain', the public keys, or '--threshold'"),
    (["--epsilon", "1", "--by", "city"], "--by must name each column once"),
    (["--epsilon", "1", "--unit", "city"], "--by must not name the column of --unit, 'city'"),
    (["--epsilon", "1", "--unit", ""], "--unit must name"),
    (["--epsilon", "1", "--max-partitions", "0"], "--max-partitions"),
    (["--epsilon", "1", "--max-contributions", "9" * 30], "--epsilon must be at least|--max-contributions must be"),
    (["--epsilon", "1", "--resume"], "--resume must come with --key-file"),
    (["--epsilon", "1", "--delimiter", "ab"], "--delimiter must be one ASCII character"),
    (["--epsilon", "1", "--encoding", "klingon"], "--encoding must be"),
    (["--epsilon", "1", "--ledger", "none.db"], "none.db does not exist; `dpfast ledger create` makes a ledger"),
]


@pytest.mark.parametrize(("words", "match"), WRONG)
def test_what_is_wrong_is_refused_by_name(here, capsys, words, match) -> None:
    code = 1 if "does not exist" in match else 2
    here.refused(capsys, match, *here.words, *words, "--quiet", usual=False, code=code)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--epsilon", "1"], "Missing option '--delta'"),
        (["--rho", "1"], "'--threshold' takes '--epsilon' with '--delta', and no '--rho'"),
        (["--epsilon", "1", "--delta", "0"], "--delta must be positive, got 0"),
        (["--epsilon", "1", "--delta", "1"], "--delta must lie strictly between 0 and 1"),
        (["--epsilon", "1e-400", "--delta", "1e-6"], "--epsilon must be at least"),
        (["--epsilon", "1", "--delta", "1e-6", "--intervals"], "'--intervals' must be left out with '--threshold'"),
        (
            ["--epsilon", "1", "--delta", "1e-6", "--sum", "hours", "--clamp", "-1", "2"],
            "--clamp must not reach below 0",
        ),
        (
            ["--epsilon", "1", "--delta", "1e-6", "--domain", "a,b"],
            "give either '--domain', the public keys, or '--threshold'",
        ),
    ],
)
def test_what_is_wrong_of_a_threshold(here, capsys, words, match) -> None:
    given = ["--by", "city", "--unit", "person", "--max-partitions", "2", "--threshold"]
    here.refused(capsys, match, *given, *words, usual=False)


@pytest.mark.parametrize("name", ["count", "low", "high"])
def test_a_name_that_out_has_itself(here, capsys, name) -> None:
    words = [
        "--by",
        name,
        "--unit",
        "person",
        "--max-partitions",
        "1",
        "--domain",
        "a,b",
        "--epsilon",
        "1",
        "--intervals",
    ]
    here.refused(capsys, f"--by must not be {name}, because OUT has another column of this name", *words, usual=False)
