# SPDX-License-Identifier: Apache-2.0
"""Text for people: tables, paragraphs and progress, by rich.

In a terminal they fit its width, with nothing cut off. In a pipe a table is as wide as it needs,
and there is no progress. Neither has escape codes.
"""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

PROSE = 80  # columns of a paragraph, at most
UNBOUNDED = 10_000  # columns of a table in a pipe


def columns(most: int) -> int:
    """So many, or the width of the terminal if it is less."""
    return min(most, shutil.get_terminal_size().columns) if sys.stdout.isatty() else most


def printable(text: str) -> str:
    """The text without control characters: a name may hold a terminal's commands."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def tell(text: str, *, to: str = "stderr") -> None:
    """Write a line to a standard stream, if somebody hears it: what was done is done without it."""
    with suppress(OSError):
        if (stream := _heard(to)) is not None:
            stream.write(f"{text}\n")
            stream.flush()
            return
    setattr(sys, to, None)


def lost() -> OSError | None:
    """Flush both standard streams; why standard output did not take all, if it did not.

    Else Python flushes them at its end, and a failure makes any exit code 120.
    """
    found = None
    for name in ("stderr", "stdout"):
        try:
            if (stream := _heard(name)) is not None:
                stream.flush()
        except OSError as error:
            setattr(sys, name, None)
            found = error if name == "stdout" else None
    return found


def _heard(name: str) -> TextIO | None:
    """A standard stream, unless it is closed, within Python or before."""
    stream: TextIO | None = getattr(sys, name)
    return None if stream is None or stream.closed else stream


def table(rows: Iterable[Sequence[str]], *, right: int | None = None, indent: int = 0, most: int = UNBOUNDED) -> str:
    """Rows as lines, two spaces between columns; those from column `right` are right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    made = Table.grid(padding=(0, 2, 0, 0))
    for at in range(max(map(len, cells), default=0)):
        if right is None or at < right:
            made.add_column(overflow="fold")
        else:  # figures, which are never cut in two
            figure = max(len(word) for row in cells for word in row[at].split())
            made.add_column(justify="right", min_width=figure, overflow="fold")
    for row in cells:
        made.add_row(*map(Text, row))
    text = io.StringIO()
    Console(file=text, width=columns(most) - indent, color_system=None, force_terminal=False).print(made, crop=False)
    return textwrap.indent("\n".join(line.rstrip() for line in text.getvalue().splitlines()), " " * indent)


def paragraph(text: str, most: int = PROSE) -> str:
    return textwrap.fill(text, columns(most))


class Bar:
    """Progress on a terminal's standard error, later erased; elsewhere, or if quiet, nothing.

    It needs no thread: a fork, a signal and a timing meet none. `close` it before other output.
    """

    def __init__(self, total: float | None = None, *, quiet: bool = False) -> None:
        self.total, self.shows = total, sys.stderr is not None and sys.stderr.isatty() and not quiet
        self._bar: Progress | None = None

    def show(self, done: float | None = None, text: str = "") -> None:
        """Show how much of the total is done, and what happens now."""
        if self.shows:
            try:
                self._show(done, text)
            except Exception:  # a terminal that has gone costs nobody a release
                self.shows = False

    def _show(self, done: float | None, text: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            known = (TaskProgressColumn(), BarColumn(), TimeRemainingColumn()) if self.total is not None else ()
            self._bar = Progress(
                *known, TextColumn("{task.description}", markup=False), console=Console(stderr=True), auto_refresh=False,
                transient=True, redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._bar.add_task("", total=self.total)
            self._bar.start()
            self._bar.console.show_cursor()  # start hides the cursor, and nobody would show it after a SIGKILL
        self._bar.update(self._bar.task_ids[0], completed=done, description=printable(text), refresh=True)

    def close(self) -> None:
        if self._bar is not None:
            with suppress(Exception):
                self._bar.stop()
            self._bar = None
