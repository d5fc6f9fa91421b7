# SPDX-License-Identifier: Apache-2.0
"""HTML from text: what is not made here is escaped, once, and cut where it is too long to read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from html import escape

from dpfast.terminal import printable

LONGEST = 80  # letters of a name or a cell
MINUS = "\N{MINUS SIGN}"


def text(value: object, longest: int = LONGEST) -> str:
    """Any text of others: printable as on the command line, cut, escaped, its direction its own."""
    shown = printable(str(value).replace("\n", " "))
    shown = f"{shown[: longest - 1]}…" if len(shown) > longest else shown
    return f"<bdi>{escape(shown)}</bdi>"


def plain(value: str) -> str:
    """A line of ours, escaped; names in it are printable, too."""
    return escape(printable(value))


def attribute(value: object, longest: int = LONGEST) -> str:
    """A text of others within an attribute or a title, where no element may stand."""
    return text(value, longest).removeprefix("<bdi>").removesuffix("</bdi>")


def number(value: float, digits: int = 0, side: str = ROUND_HALF_EVEN) -> str:
    """A number with so many digits after the point, and a true minus sign."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("-", MINUS)
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    shown = f"{value:.3e}" if abs(value) >= 1e15 else f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), side):,}"
    return shown.removeprefix("-" if not float(shown.replace(",", "")) else "").replace("-", MINUS)


def ends(low: float, high: float, digits: int) -> str:
    """An interval, rounded outwards."""
    return f"{number(low, digits, ROUND_FLOOR)} to {number(high, digits, ROUND_CEILING)}"


def table(
    name: str, caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, figures: int, wide: bool = False
) -> str:
    """A table of cells that are HTML. The first of a row names it; from `figures` on are numbers.

    name: its id. wide: it scrolls by itself where the page is narrower, and a key can scroll it.
    """
    sides = ["" if at < figures else ' class="figure"' for at in range(len(head))]
    top = "".join(f'<th scope="col"{side}>{cell}</th>' for cell, side in zip(head, sides, strict=True))
    body = []
    for row in rows:
        cells = [f"<td{side}>{cell}</td>" for cell, side in zip(row[1:], sides[1:], strict=True)]
        body.append(f'<tr><th scope="row"{sides[0]}>{row[0]}</th>{"".join(cells)}</tr>')
    made = f'<table><caption id="{name}">{caption}</caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n' + "\n".join(
        body
    )
    made += "\n</tbody></table>"
    return f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">\n{made}\n</div>' if wide else made


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names and what they are, both HTML."""
    return "<dl>\n" + "\n".join(f"<div><dt>{name}</dt><dd>{what}</dd></div>" for name, what in rows) + "\n</dl>"


def bullets(items: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"
