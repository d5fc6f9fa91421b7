# SPDX-License-Identifier: Apache-2.0
"""`dpfast show`: what a released file says of itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from dpfast import terminal
from dpfast.app.cli.file_options import same, style_of, text_options
from dpfast.app.cli.measures import USUAL
from dpfast.app.cli.options import AS_JSON, print_json
from dpfast.app.cli.said import Column, Said, Stated
from dpfast.app.report.facts import LABELS, ROWS, Facts, Noisy
from dpfast.app.report.page import page
from dpfast.errors import FileError, ParameterError
from dpfast.paths import atomic_write, check
from dpfast.privacy.formatting import plus_minus

if TYPE_CHECKING:
    from dpfast.app.tables.first_rows import FirstRows
    from dpfast.app.tables.text_format import TextFormat

REPEATED = (
    "is repeated here and proves nothing; whoever has the key of a release and the rows can check it by "
    "`dpfast histogram --verify`, or of privatize by `dpfast verify`"
)
NOT_CHECKED = (
    "The page repeats what the file says of itself. Nothing here was checked, and anybody can write such a file."
)
CELLS = 1 << 26  # a table has no more
EXAMPLES = """\b
Examples:
  dpfast show noisy.csv
  dpfast show noisy.parquet --report noisy.html
"""


@click.command(epilog=EXAMPLES)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--report", "report_file", type=click.Path(path_type=Path), metavar="HTML", help="Also write the page about it."
)
@text_options
@AS_JSON
def show(out: Path, report_file: Path | None, as_json: bool, **options: Any) -> None:
    """Repeat what OUT says of itself: its cost, its noise, how wide that is, and whom it protects.

    OUT is a file of dpfast privatize or histogram, the folder of an engine's release, or a record
    by itself, such as OUT.json. The record is repeated, and proves nothing: anybody could have
    written it.
    """
    from dpfast.app.tables.record import record_of

    if report_file is not None:
        if report_file.suffix.lower() != ".html":
            raise ParameterError(f"--report must be a .html file, got {report_file}")
        if any(same(report_file, other) for other in (out, Path(f"{out}.json"))):
            raise ParameterError(f"--report must be a file of its own, got {report_file}")
        check(report_file, recorded=False, found="refuse")
    style, form = style_of(options), options.pop("form")
    said = Said.of(record_of(out), str(out))
    if report_file is not None:
        made = page(_page(said, out, style, form)).encode()
        with atomic_write(report_file, found="refuse") as file:
            file.write(made)
    if as_json:
        print_json(_facts(said, out))
    else:
        click.echo("\n\n".join(_text(said, out)))


def _text(said: Said, out: Path) -> Iterator[str]:
    yield terminal.paragraph(f"What {terminal.printable(out.name)} says of itself {REPEATED}.")
    yield terminal.table(said.about(), indent=2)
    head = ["column", "noise", "95 % within"]
    cells = _cells(said)
    head += [f"all {cells:,} cells within"] if cells > 1 else []
    rows = [[each.name, each.law(), *_widths(said, each, cells)] for each in said.columns]
    yield terminal.table([head, *rows], indent=2)
    yield terminal.paragraph(terminal.printable(f"Meaning: {said.meaning()}"))


def _widths(said: Said, column: Column, cells: int) -> list[str]:
    if column.tree and said.reach is not None:
        return [f"rank wrong by at most {said.reach:,} row{'s' * (said.reach != 1)}"]
    return [_width(column.within(USUAL, each)) for each in ([1, cells] if cells > 1 else [1])]


def _width(half: Fraction | None) -> str:
    return "not said" if half is None else plus_minus(half)


def _cells(said: Said) -> int:
    """How many cells it says that a column has; 1 if it does not."""
    cells = said.table.get("cells")
    known = isinstance(cells, int) and not isinstance(cells, bool) and 1 <= cells <= CELLS
    return cells if known and not said.selected else 1  # type: ignore[return-value]


def _facts(said: Said, out: Path) -> dict[str, Any]:
    def each(column: Column) -> dict[str, Any]:
        within = column.within(USUAL)
        known = {} if within is None else {"stddev": column.stddev, "half_width_95": str(within)}
        known |= {"rows_up_to_a_cell_95": said.reach} if column.tree and said.reach is not None else {}
        return {"column": column.name, "mechanism": column.entry["mechanism"], **known}

    of = said.guarantee
    costs = {name: said.record.get(f"{name}_total") for name in ("epsilon", "delta", "rho")}
    return {
        "file": out.name, "verified": False, "cost": {name: str(value) for name, value in costs.items() if value is not None},
        "unit": of.unit, "adjacency": of.adjacency, "each_row_a_unit": said.each_row, "selected_by_threshold": said.selected,
        "columns": [each(column) for column in said.columns], "meaning": said.meaning(), "record": said.record,
    }  # fmt: skip


# ------------------------------------------------------------------ the page


def _page(said: Said, out: Path, style: TextFormat, form: str | None) -> Facts:
    """Raises: FileError, ParameterError (the record does not say what a page shows)."""
    if out.is_dir() or out.suffix.lower() == ".json":
        raise ParameterError(f"--report must be left out: it shows the rows of a file, and {out} is none")
    whole, reals = _wanted(said)
    if not (whole or reals):
        none = "OUT has no intervals, which --intervals of dpfast histogram writes"
        why = none if said.reach else "the record does not say how wide this noise is"
        raise ParameterError(f"--report must be left out: {why}")
    if len({*whole, *reals}) < len([*whole, *reals]):
        raise FileError(f"the record in {out} is damaged: it names a column twice")
    seen: dict[str, Any] = {}
    first: FirstRows | None = None
    for names, real in ((whole, False), (reals, True)):
        if names:
            chosen, first = _first_rows(out, names, style, form, real=real)
            seen |= dict(zip(chosen, zip(first.cells, first.ranges, strict=True), strict=True))
    first = cast("FirstRows", first)  # there are columns of one kind at least
    noisy = [_noisy(said, each, seen[each.name], first.rows) for each in said.columns if each.noise is not None]
    noisy = [
        _computed(said, name, seen) for name in seen if name not in {"low", "high", *(each.name for each in noisy)}
    ] + noisy
    by = said.table.get("by") if said.table else None  # other columns of a histogram are computed
    named = {*map(str, by), *(["quantile"] if said.reach else [])} if isinstance(by, list) else None
    kept = [each for each in first.labels if each[0] not in seen and (named is None or each[0] in named)]
    computed = [name for name, _ in first.labels if named is not None and name not in {*named, *seen}]
    notes = [NOT_CHECKED]
    if computed:
        notes.append("The file also has columns that were computed from the noisy ones.")
    return Facts(
        out.name, first.rows, noisy, said.guarantee, said.record, labels=kept, index=first.index,
        unshown=first.unshown if named is None else (), rows_are=NOT_CHECKED, title=f"What {out.name} says of itself", each_row=said.each_row, notes=notes,
    )  # fmt: skip


def _first_rows(
    out: Path, columns: list[str], style: TextFormat, form: str | None, *, real: bool
) -> tuple[list[str], FirstRows]:
    """The noisy columns in OUT's order, and its first rows. real: whether they are no counts."""
    from dpfast.app.tables.files import ARRAYS, open_source
    from dpfast.app.tables.first_rows import FirstRows
    from dpfast.app.tables.streams import form as form_of

    arrays = form_of(out, form).format in ARRAYS
    table = open_source(out, [] if arrays else columns, real=real, style=style, form=form)
    found = FirstRows(table, ROWS, LABELS)
    for piece in table.pieces():
        found.add(piece, piece.counts)
    return table.chosen, found


def _wanted(said: Said) -> tuple[list[str], list[str]]:
    """The columns that a page shows: of whole numbers, and of others."""
    known = [each for each in said.columns if each.noise is not None]
    whole = [each.name for each in known if each.noise.INTEGERS and each.step == 1]
    reals = [each.name for each in known if each.name not in whole]
    if said.intervals is not None and said.reach is not None:
        (whole if said.whole_values else reals).extend(
            [*(each.name for each in said.columns if each.tree), "low", "high"]
        )
    elif said.intervals is not None and said.clamp is not None and "mean" in said.table:
        reals += ["mean", "low", "high"]
    return whole, reals


def _computed(said: Said, name: str, seen: Mapping[str, Any]) -> Noisy:
    """Means or quantiles, with the intervals that OUT has."""
    confidence, _, jointly = cast("Stated", said.intervals)
    value, low, high = ([cell.item() for cell in seen[each][0]] for each in (name, "low", "high"))
    least, most = seen[name][1] or (None, None)
    shown: dict[str, Any] = {"confidence": confidence, "jointly": jointly, "least": least, "most": most}
    if said.reach is not None:  # then one column is a tree
        [tree] = [each.entry for each in said.columns if each.tree]
        wide, holds = {"the rank of a value": f"±{said.reach:,} rows"}, "the quantile of the bounded values"
        return Noisy(name, "quantiles", value, low, high, None, tree, widths=wide, holds=holds, **shown)
    ends = dict(zip(("lower", "upper"), map(float, said.clamp or ()), strict=False))
    return Noisy(name, "means", value, low, high, math.nan, {"column": name, **ends}, holds="the bounded mean", **shown)


def _noisy(said: Said, column: Column, seen: tuple[list[Any], Any], rows: int) -> Noisy:
    """A column with the intervals that its record states, or else those of its noise."""
    confidence, half, jointly = USUAL, column.within(USUAL) or Fraction(0), False
    if said.intervals is not None and column.name in said.intervals.half_widths:
        confidence, half, jointly = (
            said.intervals.confidence,
            said.intervals.half_widths[column.name],
            said.intervals.jointly,
        )
    whole = column.noise.INTEGERS and column.step == 1
    way = int(half) if whole else float(half)
    values = [cell.item() for cell in seen[0]]
    least, most = seen[1] or (None, None)
    widths = {"one cell": _width(column.within(USUAL))}
    if rows > 1:
        widths[f"all {rows:,} cells at once"] = _width(column.within(USUAL, rows))
    return Noisy(
        column.name, "counts" if whole else "values", values, [cell - way for cell in values], [cell + way for cell in values],
        column.stddev, column.entry, confidence, jointly, widths, least, most,
    )  # fmt: skip
