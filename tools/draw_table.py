# SPDX-License-Identifier: Apache-2.0
"""Runs the README's first command and draws its table: `python tools/draw_table.py FLIGHTS`.

FLIGHTS is the flights.csv.zip that the command installs. docs/table.svg gets the picture, with the
command, the machine and all rows in its metadata, and pages get the first rows between their marks.
So picture, rows and command are of one run, which tests/house/test_readme.py checks.
"""

from __future__ import annotations

import csv
import html
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from dpfast.evidence.bench.measure import machine
from dpfast.evidence.bench.page import write_between_marks

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "table.svg"
PAGES = ROOT / "README.md", ROOT / "docs" / "tutorial.md"
COMMAND = re.compile(r"bin/dpfast (histogram) \S+/(flights\.csv\.zip) (\S+ .*?) && ")
SHOWN = 5  # lines of the table in a page

WIDTH, LEFT, RIGHT, TOP, LINE, GAP = 520, 42, 138, 62, 17, 8
TICK = 100
COLOURS = ("one", "two", "three")
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24313d }
.faint { fill: #5a6772 } .key { font-weight: 600 } .title { font-size: 16px; font-weight: 600 }
.grid { stroke: #5a6772; stroke-opacity: 0.25 } .whisker { stroke-width: 2; stroke-linecap: round }
.one { fill: #1f6fb2; stroke: #1f6fb2 } .two { fill: #b3541e; stroke: #b3541e } .three { fill: #4d7a3a; stroke: #4d7a3a }
text.one, text.two, text.three { stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e4e8ec } .faint { fill: #98a3ad } .grid { stroke: #98a3ad }
.one { fill: #5aa7e6; stroke: #5aa7e6 } .two { fill: #f0925a; stroke: #f0925a } .three { fill: #8cc174; stroke: #8cc174 }
}
""".strip()


class Row(NamedTuple):
    """One cell of the released table."""

    carrier: str
    origin: str
    count: int
    low: int
    high: int


def command(readme: str) -> str:
    """What the README's first command asks of dpfast, without the folder of the flights."""
    [words] = COMMAND.findall(readme)
    return " ".join(words)


def released(words: str, flights: Path) -> str:
    """The table that the command writes."""
    verb, _, out, *options = words.split()
    with tempfile.TemporaryDirectory() as folder:
        said = [sys.executable, "-m", "dpfast", verb, str(flights.resolve()), out, *options]
        subprocess.run(said, cwd=folder, check=True, capture_output=True)
        return Path(folder, out).read_text("utf-8")


def rows(table: str) -> list[Row]:
    """The rows of a table with a head."""
    _, *found = csv.reader(table.splitlines())
    return [Row(carrier, origin, *map(int, numbers)) for carrier, origin, *numbers in found]


def marks(found: list[Row], x: float) -> Iterator[str]:
    """An interval with its dot for each row, grouped by carrier; x: pixels a count."""
    origins = sorted({row.origin for row in found})
    y: float = TOP + 14
    for carrier, group in groupby(found, lambda row: row.carrier):
        cells = list(group)
        middle = y + (len(cells) - 1) * LINE / 2
        yield f'<text class="key" x="{LEFT - 12}" y="{middle + 4:g}" text-anchor="end">{carrier}</text>'
        for row in cells:
            colour = COLOURS[origins.index(row.origin)]
            low, at, high = (round(LEFT + each * x, 1) for each in (row.low, row.count, row.high))
            yield f'<path class="{colour} whisker" d="M{low:g} {y:g}H{high:g}"/>'
            yield f'<circle class="{colour}" stroke="none" cx="{at:g}" cy="{y:g}" r="3"/>'
            yield (
                f'<text x="{high + 8:g}" y="{y + 4.5:g}">{row.count:,}'
                f'<tspan class="faint" dx="6">{row.low:,} to {row.high:,}</tspan></text>'
            )
            y += LINE
        y += GAP


def height(found: list[Row]) -> int:
    return TOP + 34 + LINE * len(found) + GAP * len({row.carrier for row in found})


def drawn(found: list[Row], about: str) -> str:
    """The picture: text that can be read and found, colours for a light and for a dark page."""
    x = (WIDTH - LEFT - RIGHT) / max(row.high for row in found)
    bottom, head = height(found) - 26, []
    for tick in range(0, max(row.high for row in found) + 1, TICK):
        at = LEFT + tick * x
        head.append(f'<path class="grid" d="M{at:.1f} {TOP - 4}V{bottom}"/>')
        head.append(f'<text class="faint" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick}</text>')
    for n, origin in enumerate(sorted({row.origin for row in found})):
        at = LEFT + 104 * n
        head.append(f'<circle class="{COLOURS[n]}" stroke="none" cx="{at + 5}" cy="42" r="3"/>')
        head.append(f'<text class="{COLOURS[n]}" x="{at + 16}" y="46.5">from {origin}</text>')
    title = f'<text class="title" x="{LEFT}" y="22">Planes of each airline, with noise and 95 % intervals</text>'
    size = f'viewBox="0 0 {WIDTH} {height(found)}" width="{WIDTH}" height="{height(found)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<metadata>{html.escape(about, quote=False)}</metadata>",
    ]
    return "\n".join([*lines, f"<style>{STYLE}</style>", title, *head, *marks(found, x), "</svg>", ""])


def main(flights: Path) -> None:
    words = command(PAGES[0].read_text("utf-8"))
    table = released(words, flights)
    facts = machine()
    about = f"dpfast {words}\n{facts['processor']}; {facts['date']}\n{table}"
    PICTURE.write_text(drawn(rows(table), about), "utf-8")
    for page in PAGES:
        first = "\n".join(table.splitlines()[:SHOWN])
        write_between_marks(page, "first", f"```text\n{first}\n```")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
