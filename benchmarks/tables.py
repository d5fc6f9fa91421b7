# SPDX-License-Identifier: Apache-2.0
"""The tables: TABLES, and one for each adapter library.

A table is a module with SIZE, ROUNDS, ABOUT and rows(size); those of adapters/ share theirs. A page
has marks for its main rows (`bench:NAME`).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from dpfast.evidence.bench.measure import Result, Row, Turn, machine, measured
from dpfast.evidence.bench.report import Columns, Report
from dpfast.privacy.formatting import compared, quantity, three_digits

TABLES = (
    "ratios",
    "fresh_arrays",
    "workloads",
    "bounded_histogram",
    "trees",
    "running",
    "selection",
    "kernels",
    "files",
    "parquet",
    "planes",
)
ADAPTERS = tuple(sorted(path.stem for path in (Path(__file__).parent / "adapters").glob("[!_]*.py")))


def time(result: Result) -> str:
    row = result.row
    return quantity(result.figure, row.measures) + (f" a {row.unit}" if row.unit else "")


def quartiles(result: Result) -> str:
    low, middle, high = result.quartiles
    if math.isnan(middle):
        return ""
    return (
        f"{three_digits(low)} to {three_digits(high)}"
        if middle > 1
        else f"{three_digits(1 / high)} to {three_digits(1 / low)}"
    )


SHORT: Columns = (
    ("", lambda r: r.row.name),
    ("against", lambda r: r.row.against.name if r.row.against else ""),
    ("time", time),
    ("ratio", lambda r: compared(r.ratio, r.row.measures)),
)
FULL: Columns = (
    *SHORT,
    ("quartiles", quartiles),
    ("least", lambda r: compared(r.least, r.row.measures)),
)


class Table(NamedTuple):
    rows: Callable[[int], Iterator[Row]]  # takes the size
    size: int  # values in the largest array
    rounds: int
    about: str  # the things that `size` counts
    versions: Sequence[str]  # names of packages
    short: Columns  # columns of the short table


def table(name: str) -> Table:
    """The table of this name. Raises: ImportError if its library is not installed."""
    given = import_module(f"adapters.{name}" if name in ADAPTERS else name)
    common = import_module("adapters") if name in ADAPTERS else given
    versions, short = getattr(given, "VERSIONS", ()), getattr(common, "COLUMNS", SHORT)
    return Table(given.rows, given.SIZE, common.ROUNDS, common.ABOUT, versions, short)


def progress(name: str, turns: list[Turn]) -> Iterator[Turn]:
    """A bar in words: a line a round."""
    for at, in_round in itertools.groupby(turns, key=lambda turn: turn[0]):
        print(f"{name}: round {at + 1} of {turns[-1][0] + 1}", file=sys.stderr)
        yield from in_round


def text(found: Report) -> str:
    """What a page holds of a table: its main rows."""
    return found.markdown([result for result in found.results if result.row.chart])


def report(name: str, size: int | None = None, rounds: int | None = None, row: str = "") -> Report:
    """Measure a table, by default in its own size and rounds. row: in the names of its rows."""
    facts, given = machine(), table(name)
    size, rounds = size or given.size, rounds or given.rounds
    rows = [each for each in given.rows(size) if row in each.name]
    if not rows:
        raise SystemExit(f"--row must be in the name of a row of {name}, and {row!r} is in none")
    results = measured(rows, rounds, partial(progress, name))
    versions = {package: version(package) for package in given.versions}
    filled = [column for column in FULL if any(map(column[1], results))]
    return Report(
        facts, size, rounds, results, versions, columns=filled, short=given.short, about=given.about, meaning=()
    )
