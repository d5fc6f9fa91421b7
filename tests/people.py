# SPDX-License-Identifier: Apache-2.0
"""Made-up people in rows, and the command that counts them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import read

from dpfast.app.cli import main

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


@cache
def lines_of_people() -> str:
    return csv_text(people())


def csv_text(columns: dict[str, list[Any]], end: str = "\n") -> str:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return end.join(lines) + end


def csv_of(columns: dict[str, list[Any]], path: Path, *, end: str = "\n") -> Path:
    path.write_text(csv_text(columns, end), newline="")
    return path


class Here:
    """A folder with rows and domains, and the command's usual words."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.out = folder, folder / "rows.csv", folder / "out.csv"
        self.rows.write_text(lines_of_people(), newline="")
        self.cities = folder / "cities.txt"
        self.cities.write_text("\n".join(CITIES) + "\n")
        self.words = ["--by", "city", "--unit", "person", "--max-partitions", "2", "--domain", str(self.cities)]

    def run(self, *words: object, rows: Path | None = None, out: Path | None = None, usual: bool = True) -> int:
        usually = [*self.words, *QUIET] if usual else []
        return main(["histogram", str(rows or self.rows), str(out or self.out), *usually, *map(str, words)])

    def clear(self) -> None:
        self.out.unlink()
        Path(f"{self.out}.json").unlink(missing_ok=True)

    def table(self, out: Path | None = None) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = read(out or self.out).to_pydict()
        return found

    def refused(
        self, capsys: pytest.CaptureFixture[str], match: str, *words: object, code: int = 2, **given: Any
    ) -> str:
        """One line that says so; no OUT, and nothing of a row in the message."""
        assert self.run(*words, **given) == code
        said = capsys.readouterr().err
        beside = "Usage:", "Try ", "Warning: epsilon = ", "Warning: rho = "  # the last two: too little noise
        lines = [line for line in said.splitlines() if line and not line.startswith(beside)]
        assert len(lines) == 1, said
        assert re.search(match, lines[0]), said
        assert not (given.get("out") or self.out).exists()
        return lines[0]


def in_at_most(columns: dict[str, list[Any]], by: list[str], domain: set[Any]) -> dict[Any, Counter[Any]]:
    """The cells of each person within the domain, and how many rows they have there."""
    cells: defaultdict[Any, Counter[Any]] = defaultdict(Counter)
    for row in zip(columns["person"], *(columns[name] for name in by), strict=True):
        if row[1:] in domain:
            cells[row[0]][row[1:]] += 1
    return cells
