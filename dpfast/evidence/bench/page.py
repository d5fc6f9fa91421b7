# SPDX-License-Identifier: Apache-2.0
"""Tables in lines and for a page, and the marks in a page."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dpfast.errors import FileError
from dpfast.paths import atomic_write


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
    """What is before and after a table's place, and its marks. Raises: FileError (no place)."""
    start, end = f"<!-- bench:{name}:start -->", f"<!-- bench:{name}:end -->"
    before, found, rest = (path.read_text(encoding="utf-8") if path.is_file() else "").partition(start)
    _, ends, after = rest.partition(end)
    if not found or not ends:
        raise FileError(f"{path} has no lines {start} and {end} to write between")
    return before + start, end + after


def has_marks(path: Path, name: str) -> bool:
    with suppress(FileError):
        return bool(around_marks(path, name))
    return False


def write_between_marks(path: Path, name: str, text: str) -> None:
    before, after = around_marks(path, name)
    with atomic_write(path, found="replace") as file:
        file.write(f"{before}\n{text}\n{after}".encode())
