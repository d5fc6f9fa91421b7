# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize`: noise on columns of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.cli.ledger import amounts, figures
from dpfast.cli.options import LAWS, Mechanism, Number, chosen, half_width, inner, law, law_options, make, near, number
from dpfast.errors import ParameterError
from dpfast.privacy.formatting import plain
from dpfast.privacy.parameters import exact_positive
from dpfast.release.arrays import CountArray, RealArray

if TYPE_CHECKING:
    from dpfast.tables.files import Source

EXAMPLES = """\b
Examples:
  dpfast privatize in.csv out.csv --column count --epsilon 1 --sensitivity 1
  dpfast privatize in.csv out.csv --column hours --mechanism laplace --epsilon 1 --l0 1 --linf 24
  dpfast privatize in.npy out.npy --mechanism discrete-gaussian --epsilon 1 --delta 1e-6 --l0 50 --linf 1
  dpfast privatize in.csv out.csv --column count --epsilon 1 --sensitivity 1 --ledger budget.db
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--column", "columns", multiple=True, metavar="NAME", help="A column to noise; repeat it for more.")
@law_options
@click.option(
    "--epsilon-is",
    type=click.Choice(["total", "per-column"]),
    help="Required for several columns: whether epsilon (and delta), or rho, is that of all together or of each.",
)
@click.option("--lower", type=number, help="Public lower bound of the noisy values.")
@click.option("--upper", type=number, help="Public upper bound of the noisy values.")
@click.option(
    "--clamp", type=number, nargs=2, metavar="A B", help="Public ends of the cells, before the noise: A at most B."
)
@click.option(
    "--missing",
    type=number,
    help="Real laws, with --clamp: a public number for empty, NaN and infinite cells; noised too. The sensitivity must cover "
    "its distance from A and from B.",
)
@click.option(
    "--sort-by",
    multiple=True,
    metavar="NAME",
    help="Put the rows in the order of a column without noise; repeat it until no two rows are alike. IN is then held in "
    "memory, up to four times; more than 1 GiB is refused.",
)
@click.option(
    "--keep-metadata", is_flag=True, help="Pass all metadata of IN on, without noise, not only that of types."
)
@click.option("--threads", type=click.IntRange(1), metavar="N", help="At most so many; by default all usable cores.")
@click.option("--constant-time", is_flag=True, help="The same work for every draw, so that time tells nothing of it.")
@click.option(
    "--ledger",
    "ledger_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Charge this ledger, all columns or none, before any noise is drawn (dpfast ledger).",
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--quiet", is_flag=True, help="No summary and no progress bar.")
def privatize(
    source: Path,
    target: Path,
    columns: tuple[str, ...],
    epsilon_is: str | None,
    lower: Number | None,
    upper: Number | None,
    clamp: tuple[Number, Number] | None,
    sort_by: tuple[str, ...],
    keep_metadata: bool,
    threads: int | None,
    constant_time: bool,
    ledger_file: Path | None,
    force: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Add noise to columns of IN and write OUT.

    To counts by discrete-laplace or discrete-gaussian, to real values by laplace, snapping or
    gaussian.

    Both are .csv, .parquet, .arrow, .feather or .npy files, as their extensions say. Other columns
    pass through without noise (from CSV to CSV byte for byte, from CSV to another format as
    strings), and so does the order of rows, unless --sort-by says a public one. Which rows there
    are is published. Of metadata only what types need is kept.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a CSV or npy
    file in OUT.json. OUT appears only when it is complete. With --ledger a release that the budget
    does not cover is refused; what was charged stays charged, whatever becomes of OUT.
    """
    from dpfast.tables import files

    given = chosen(options)
    if len(set(columns)) < len(columns):
        raise ParameterError("--column must name each column once")
    if (len(columns) > 1) != (epsilon_is is not None):
        raise ParameterError("--epsilon-is must be given for several columns, and only then: total or per-column")
    if epsilon_is == "total" and "sigma" in given:
        raise ParameterError(
            "--epsilon-is must be per-column with a sigma: that is each column's, and nothing to split"
        )
    mechanism, real = make(given, len(columns) if epsilon_is == "total" else 1), LAWS[given["mechanism"]].real
    with suppress(OSError):  # there is no OUT, or nothing can be; then writing says so
        if target.samefile(source):
            raise ParameterError(f"OUT must not be IN, got {target}")
    ledger = dpfast.Ledger(ledger_file) if ledger_file else None
    table = files.open_source(
        source, columns, real=real, missing="missing" in given, sort_by=sort_by, keep_metadata=keep_metadata
    )
    whole = dpfast.compose(*[mechanism] * len(table.chosen))
    spent = {name: value for name, value in figures(whole).items() if value}
    about: dict[str, Any] = {f"{name}_total": str(value) for name, value in spent.items()}
    about |= {"composition": "basic: what the columns spend adds up"} if len(table.chosen) > 1 else {}
    about |= {"ledger": ledger.metadata()} if ledger else {}
    noise, about["releases"] = [], []
    for name, dtype in zip(table.chosen, table.dtypes, strict=True):
        public: dict[str, Any] = {"lower": near("lower", lower, dtype), "upper": near("upper", upper, dtype)}
        public["clamp"] = clamp and inner(clamp, np.dtype(float) if real else dtype)
        if real:
            public["missing"] = near("missing", given.get("missing"), np.dtype(float))
        options = {**public, "threads": threads, "constant_time": constant_time}
        noise.append(partial(_released, mechanism, options))
        noise[-1](np.empty(0, dtype))  # refuses what these options cannot be, before anything is read
        about["releases"].append({"column": name, **mechanism.metadata(), **public})
    rows = 0
    with (
        files.destination(target, table, about, force=force) as write,
        closing(terminal.Bar(source.stat().st_size, quiet=quiet)) as bar,
    ):
        bar.show(done := 0.0, source.name)
        for at, piece in enumerate(table.pieces()):
            if ledger and at == 0:  # columns that hold no numbers are found out by now
                ledger.spend(*[mechanism] * len(table.chosen), label=_label(source, table.chosen))
            noisy = [release(cells) for release, cells in zip(noise, piece.counts, strict=True)]
            write(piece, noisy)
            rows += len(noisy[0])
            bar.show(done := done + piece.weight, f"{source.name}: {rows:,} rows")
    if not quiet:
        what, within = "values" if real else "counts", f"95 % within {half_width(mechanism, Fraction(95, 100))}"
        said = [f"{name}: {rows:,} {what}, {law(mechanism)}, {within}" for name in table.chosen]
        total = ", ".join(f"{name} {plain(value)}" for name, value in spent.items())
        choice = f" ({_choice(given, epsilon_is)})" if epsilon_is else ""
        said.append(f"total {total} per {mechanism.unit}, {mechanism.adjacency}{choice}")
        said += [f"{ledger_file}: {amounts(figures(ledger.remaining), figures(ledger.budget))} left"] if ledger else []
        said += _without_noise(source, table, sort_by, keep_metadata=keep_metadata)
        click.echo("\n".join(map(terminal.printable, said)), err=True)


def _choice(given: Mapping[str, Any], epsilon_is: str) -> str:
    """What the options of several columns are about, and what adds up."""
    sums = {"epsilon": "epsilons", "delta": "deltas", "rho": "rhos", "sigma": "rhos"}
    said = {name: f"--{name} {plain(exact_positive(name, given[name]))}" for name in sums if name in given}
    choice = f"{' and '.join(said.values())} {'are' if len(said) > 1 else 'is'} {epsilon_is}"
    adds = f"; over columns {' and '.join(sums[name] for name in said)} add up"
    return choice + adds if said.keys() != {"epsilon"} else choice


def _without_noise(source: Path, table: Source, sort_by: Sequence[str], *, keep_metadata: bool) -> list[str]:
    """What of OUT is as it was in IN."""
    said = [f"passed through without noise: {', '.join(table.passed)}"] if table.passed else []
    if table.notes:
        how = "passed through without noise" if keep_metadata else "left out (--keep-metadata would pass it through)"
        said.append(f"metadata {how}: {', '.join(table.notes)}")
    hint = "; --sort-by would put them in a public one" if table.passed else ""
    order = (
        f"are sorted by {', '.join(sort_by)}" if sort_by else f"keep the order of {source}, which is published{hint}"
    )
    return [*said, f"rows {order}"]


def _released(mechanism: Mechanism, options: dict[str, Any], cells: CountArray | RealArray) -> CountArray | RealArray:
    """A release of a piece. Clamped integers are int64 in all pieces; a CSV has uint64 in some."""
    if options["clamp"] and cells.dtype.kind in "iu":
        most = options["clamp"][1]
        cells = (np.minimum(cells, max(most, 0)) if cells.dtype == np.uint64 else cells).astype(np.int64, copy=False)
    return mechanism.release(cells, **options)  # type: ignore[no-any-return]


def _label(source: Path, columns: Sequence[str]) -> str:
    """What the history shows of columns."""
    return terminal.printable(f"{source.name}: {', '.join(columns)}")[:200]
