# SPDX-License-Identifier: Apache-2.0
"""How figures are written: numbers, tables for a terminal and a page, and the marks in a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from dpfast.errors import FileError
from dpfast.tables.atomic_write import atomic_write

PREFIXES = {
    "s": (("s", 1), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)),
    "B": (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)),
    "": (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1)),
}
ROUNDED = 0.9995  # three digits show such a share of a unit as a whole one


def figure(value: float) -> str:
    """Three digits."""
    digits = next((digits for least, digits in ((99.95, 0), (9.995, 1), (0.9995, 2)) if value >= least), 3)
    return f"{value:,.{digits}f}"


def quantity(value: float, unit: str = "", show: Callable[[float], str] = figure) -> str:
    """A time, a size or a mere number with the prefix that suits it; nothing for NaN."""
    if math.isnan(value):
        return ""
    name, size = next((p for p in PREFIXES[unit] if value >= ROUNDED * p[1]), PREFIXES[unit][-1])
    return f"{show(value / size)} {name}".rstrip()


def times(ratio: float, unit: str = "s") -> str:
    """How a time, or a size, compares; nothing for NaN."""
    less, same, more = ("faster", "as fast", "slower") if unit == "s" else ("less", "as much", "more")
    if math.isnan(ratio):
        return ""
    if 0.95 < ratio < 1.05:
        return same
    return f"{figure(1 / ratio)} × {less}" if ratio < 1 else f"{figure(ratio)} × {more}"


def short(value: float) -> str:
    """1, 10, 1e3, 1e6."""
    return f"{value:g}" if value < 1_000 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def _numbers(lines: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold numbers below their heads: those with a figure, except the first."""
    return [
        at > 0 and any(cell[:1].isdigit() for cell in below) for at, (_, *below) in enumerate(zip(*lines, strict=True))
    ]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    pads = [str.rjust if numbers else str.ljust for numbers in _numbers(lines)]
    return ["  ".join(p(c, w) for p, c, w in zip(pads, line, widths, strict=True)).rstrip() for line in lines]


def markdown(lines: Sequence[Sequence[str]]) -> str:
    rule = ["--:" if numbers else "---" for numbers in _numbers(lines)]
    cells = ([f" {cell} " if cell else " " for cell in line] for line in (lines[0], rule, *lines[1:]))
    return "\n".join(f"|{'|'.join(line)}|" for line in cells)


def around_marks(path: Path, name: str) -> tuple[str, str]:
    """What stands before and after the place of a table, the two marks included.

    Raises: FileError if the file has no such place.
    """
    start, end = f"<!-- bench:{name}:start -->", f"<!-- bench:{name}:end -->"
    before, found, rest = (path.read_text(encoding="utf-8") if path.is_file() else "").partition(start)
    _, ends, after = rest.partition(end)
    if not found or not ends:
        raise FileError(f"{path} has no lines {start} and {end} to write between")
    return before + start, end + after


def write_between_marks(path: Path, name: str, text: str) -> None:
    before, after = around_marks(path, name)
    with atomic_write(path, force=True) as file:
        file.write(f"{before}\n{text}\n{after}".encode())
