# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram`: from rows to a noisy table, by files of each format."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from table_files import read, store

from dpfast.cli import main

CITIES, SEXES = ["Oslo", "Lima", "Pune"], ["f", "m"]
QUIET = ["--epsilon", str(2**50), "--quiet"]  # noise of 0 but for a chance of e^(-2^49)


def people(rows: int = 3000, seed: int = 7) -> dict[str, list[Any]]:
    """Rows of some people, in cities that the domain has and in one that it lacks."""
    rng = np.random.default_rng(seed)
    return {
        "city": rng.choice([*CITIES, "Rome"], rows).tolist(),
        "sex": rng.choice(SEXES, rows).tolist(),
        "person": [f"p{i}" for i in rng.integers(0, 400, rows)],
        "hours": rng.integers(0, 24, rows).tolist(),
    }


def csv_of(columns: dict[str, list[Any]], path: Path, *, end: str = "\n") -> Path:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text(end.join(lines) + end, newline="")
    return path


class Here:
    """A folder with rows and domains, and the command's usual words."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.out = folder, csv_of(people(), folder / "rows.csv"), folder / "out.csv"
        self.cities = folder / "cities.txt"
        self.cities.write_text("\n".join(CITIES) + "\n")
        self.words = ["--by", "city", "--unit", "person", "--max-partitions", "2", "--domain", str(self.cities)]

    def run(self, *words: object, rows: Path | None = None, out: Path | None = None, usual: bool = True) -> int:
        usually = [*self.words, *QUIET] if usual else []
        return main(["histogram", str(rows or self.rows), str(out or self.out), *usually, *map(str, words)])

    def table(self, out: Path | None = None) -> dict[str, list[Any]]:
        path = out or self.out
        found: dict[str, list[Any]] = (pacsv.read_csv(path) if path.suffix == ".csv" else read(path)).to_pydict()
        return found

    def refused(
        self, capsys: pytest.CaptureFixture[str], match: str, *words: object, code: int = 2, **given: Any
    ) -> str:
        """One line that says so; no OUT, and nothing of a row in the message."""
        assert self.run(*words, **given) == code
        said = capsys.readouterr().err
        lines = [line for line in said.splitlines() if line and not line.startswith(("Usage:", "Try "))]
        assert len(lines) == 1, said
        assert re.search(match, lines[0]), said
        assert not (given.get("out") or self.out).exists()
        return lines[0]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def in_at_most(columns: dict[str, list[Any]], by: list[str], domain: set[Any]) -> dict[Any, Counter[Any]]:
    """The cells of each person within the domain, and how many rows they have there."""
    cells: defaultdict[Any, Counter[Any]] = defaultdict(Counter)
    for row in zip(columns["person"], *(columns[name] for name in by), strict=True):
        if row[1:] in domain:
            cells[row[0]][row[1:]] += 1
    return cells


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
