# SPDX-License-Identifier: Apache-2.0
"""`--report`: the page about a release, written once OUT is whole, and never without it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.app.cli.file_options import is_file, same
from dpfast.app.cli.options import Mechanism, half_width, together
from dpfast.app.report.facts import Cell, Facts, Noisy
from dpfast.app.report.page import page
from dpfast.errors import DpfastError, FileError, ParameterError
from dpfast.paths import atomic_write, check

if TYPE_CHECKING:
    from dpfast.paths import Found

USUAL = Fraction(95, 100)
report_options = together(
    click.option(
        "--report",
        "report_file",
        type=click.Path(path_type=Path),
        metavar="HTML",
        help="Also write a page to read and share: the noisy numbers, what they reveal about one unit, and what was spent.",
    ),
    click.option("--report-title", metavar="TEXT", help="The title of that page; by default it names OUT."),
)


def check_report(path: Path | None, title: str | None, target: Path, *others: Path | None, found: Found) -> None:
    """Refuse a report that cannot be one, before anything is read.

    target: OUT. others: the other files of the command. found: as of OUT.
    Raises: FileError, ParameterError.
    """
    if path is None:
        if title is not None:
            raise ParameterError("--report-title must come with --report: it is the title of that page")
        return
    if path.suffix.lower() != ".html":
        raise ParameterError(f"--report must be a .html file, got {path}")
    if any(same(path, other) for other in (target, *others) if other is not None):
        raise ParameterError(f"--report must be a file of its own, got {path}")
    check(path, recorded=False, found=found)
    without = target != Path("-") and not is_file(target)  # a page never comes before its OUT
    if found == "keep" and is_file(path) and without:
        raise FileError(f"{path} exists without OUT, so it is another's; --force would replace it")


class Page:
    """The page about a release. OUT is paid for: what fails here is kept, and OUT goes on."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write
        self.failed: BaseException | None = None

    def step(self, work: Callable[[], object], kinds: type[BaseException] = Exception) -> None:
        """Something on the way to the page, while OUT is written."""
        try:
            work()
        except kinds as error:
            self.failed = self.failed or error

    def make(self) -> None:
        """Called last, after the charge and all noise, when OUT is about to take its place."""
        self.step(self._write, BaseException)  # Ctrl-C, too: the page is lost, and not OUT

    def must_be_there(self) -> None:
        """Raises: what failed."""
        if self.failed is not None:
            raise self.failed


@contextmanager
def reported(path: Path | None, facts: Callable[[], Facts], *, found: Found) -> Iterator[Page]:
    """Write the page at `path` once the block within has written OUT; without a path do nothing.

    The page is made when OUT is about to take its place, and a page that is to be replaced goes
    then, so no page is ever beside another OUT than its own. Only its name comes after OUT. What
    cannot be written is refused before the block begins, and so before a charge. What fails later
    costs the page alone, and is a warning.
    facts: gives what the page shows. found: as of OUT.
    Raises: FileError (the page that is there is another; OUT is whole then).
    """
    if path is None:
        yield Page(lambda: None)
        return
    whole = False

    def write() -> None:
        if found == "replace":
            path.unlink(missing_ok=True)
        if made.failed is None:
            file.write(page(facts()).encode())
            file.flush()

    made = Page(write)
    try:
        with atomic_write(path, found=found) as file:
            yield made
            whole = True
            made.must_be_there()
    except BaseException as error:
        if not whole or found == "compare" or (found == "keep" and path.exists()):
            raise
        made.failed = error
        terminal.tell(terminal.printable(f"Warning: OUT is whole, and {path} was not written: {_why(error)}"))


def _why(error: BaseException) -> str:
    """What failed, in words that tell no value."""
    if isinstance(error, DpfastError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if not isinstance(error, Exception):
        return "interrupted"
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}; please report this"


def noisy_column(
    name: str,
    what: str,
    mechanism: Mechanism,
    parameters: Mapping[str, object],
    cells: Sequence[Any],
    span: tuple[Cell, Cell] | None,
    *,
    size: int,
    columns: int = 1,
) -> Noisy:
    """A column with an interval for each cell, which holds 95 % of the noise.

    parameters: the column's entry in the record of OUT. cells: those shown, of NumPy's types. span:
    the least and the largest of all. size: how many cells the column has; columns: how many columns
    there are, all of this mechanism.
    """
    bounds = parameters.get("lower"), parameters.get("upper")
    half = mechanism.interval(USUAL)
    around = [(cell.item(), half + _rounding(mechanism, cell)) for cell in cells]
    widths = {"one cell": half_width(mechanism, USUAL)}
    if size * columns > 1:
        of = f" of the {columns} columns" if columns > 1 else ""
        widths[f"all {size * columns:,} cells{of} at once"] = half_width(mechanism, USUAL, size * columns)
    least, most = span or (None, None)
    return Noisy(
        name,
        what,
        [cell for cell, _ in around],
        low=[_within(cell - half, *bounds) for cell, half in around],
        high=[_within(cell + half, *bounds) for cell, half in around],
        stddev=mechanism.stddev,
        parameters=parameters,
        widths=widths,
        least=least,
        most=most,
    )


def _rounding(mechanism: Mechanism, cell: Any) -> Cell:
    """What its float rounds of a result at most, where it does not hold the grid."""
    if not isinstance(mechanism, (dpfast.Laplace, dpfast.Gaussian)):
        return 0
    spacing = float(np.spacing(abs(cell)))
    return spacing / 2 if spacing > mechanism.granularity else 0


def _within(end: Cell, lower: Any, upper: Any) -> Cell:
    """The end of an interval, within public bounds."""
    low: Cell = end if lower is None else max(end, lower)
    return low if upper is None else min(low, upper)
