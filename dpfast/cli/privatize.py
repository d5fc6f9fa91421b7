# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize`: noise on columns of a file."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.cli.ledger import amounts
from dpfast.cli.options import (
    ADDS_UP,
    LAWS,
    Mechanism,
    Number,
    chosen,
    half_width,
    inner,
    law,
    law_options,
    make,
    near,
    number,
)
from dpfast.errors import ParameterError
from dpfast.privacy.formatting import plain
from dpfast.privacy.parameters import exact_positive
from dpfast.release.engine import usable_threads

if TYPE_CHECKING:
    from dpfast.tables import files
    from dpfast.tables.atomic_write import Found
    from dpfast.tables.files import Source

JOINT = "one sigma for all columns, which spend this together"
KEPT = 1 << 25  # bytes of freed memory that stay with the process: the most that glibc's second option takes

EXAMPLES = """\b
Examples:
  dpfast privatize in.csv out.csv --column count --epsilon 1 --sensitivity 1
  dpfast privatize in.csv out.csv --column hours --mechanism laplace --epsilon 1 --l0 1 --linf 24
  dpfast privatize in.npy out.npy --mechanism discrete-gaussian --epsilon 1 --delta 1e-6 --l0 50 --linf 1
  dpfast privatize in.csv out.csv --column count --epsilon 1 --sensitivity 1 --ledger budget.db
  dpfast privatize in.csv out.csv --column count --epsilon 1 --sensitivity 1 --ledger budget.db \\
      --key-file visits.key --label "visits 2026-11" --resume
"""
VERIFY = """\b
Example:
  dpfast verify in.csv out.csv --column count --epsilon 1 --sensitivity 1 --ledger budget.db \\
      --key-file visits.key --label "visits 2026-11"
"""


def release_options(command: Any) -> Any:
    """The arguments and options that say what is released, and how."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    click.argument("target", metavar="OUT", type=click.Path(path_type=Path)),
    click.option("--column", "columns", multiple=True, metavar="NAME", help="A column to noise; repeat it for more."),
    law_options,
    click.option(
        "--epsilon-is",
        type=click.Choice(["total", "per-column"]),
        help="Required for several columns: whether epsilon (and delta), or rho, is that of all together or of each.",
    ),
    click.option("--lower", type=number, help="Public lower bound of the noisy values."),
    click.option("--upper", type=number, help="Public upper bound of the noisy values."),
    click.option(
        "--clamp", type=number, nargs=2, metavar="A B", help="Public ends of the cells, before the noise: A at most B."
    ),
    click.option(
        "--missing",
        type=number,
        help="Real laws, with --clamp: a public number for empty, NaN and infinite cells; noised too. The sensitivity must "
        "cover its distance from A and from B.",
    ),
    click.option(
        "--sort-by",
        multiple=True,
        metavar="NAME",
        help="Put the rows in the order of a column without noise; repeat it until no two rows are alike. IN is then held in "
        "memory, up to four times; more than 1 GiB is refused.",
    ),
    click.option(
        "--keep-metadata", is_flag=True, help="Pass all metadata of IN on, without noise, not only that of types."
    ),
    click.option(
        "--threads", type=click.IntRange(1), metavar="N", help="At most so many; by default all usable cores."
    ),
    click.option(
        "--constant-time", is_flag=True, help="The same work for every draw, so that time tells nothing of it."
    ),
    click.option(
        "--ledger",
        "ledger_file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Charge this ledger, all columns or none, before any noise is drawn (dpfast ledger).",
    ),
    click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="With --ledger and --label: a release that can be tried again, for one charge (dpfast key).",
    ),
    click.option("--label", metavar="TEXT", help="With --key-file: what names this release of this IN, and no other."),
    click.option("--quiet", is_flag=True, help="No summary and no progress bar."),
)


@click.command(epilog=EXAMPLES)
@release_options
@click.option(
    "--resume", is_flag=True, help="Try the release again that is reserved under --label; reserve it if none is."
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
def privatize(resume: bool, force: bool, **options: Any) -> None:
    """Add noise to columns of IN and write OUT.

    To counts by discrete-laplace or discrete-gaussian, to real values by laplace, snapping or
    gaussian.

    Both are .csv, .parquet, .arrow, .feather or .npy files, as their extensions say. Other columns
    pass through without noise (from CSV to CSV byte for byte, from CSV to another format as
    strings), and so does the order of rows, unless --sort-by says a public one. Which rows there
    are is published. Only the metadata that types need are kept.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a CSV or npy
    file in OUT.json. OUT appears only when it is complete. With --ledger a release that the budget
    does not cover is refused; what was charged stays charged, whatever becomes of OUT. With
    --key-file, too, a run that was killed is begun again with --resume: it gives the same OUT, and
    is charged once.
    """
    _keep_memory()
    _run(resume=resume, found="replace" if force else "keep" if resume else "refuse", **options)


@click.command(epilog=VERIFY)
@release_options
def verify(**options: Any) -> None:
    """Draw a release of IN under a key again, and compare it with OUT, which stays as it is.

    The options are those of the release, without --resume and --force. Nothing is charged: the
    label must be reserved in the ledger. The exit code is 0 if OUT, with its record, is equal.
    """
    if options["key_file"] is None:
        raise ParameterError("--key-file must be given: a release without a key cannot be drawn again")
    if not options["target"].is_file():
        raise ParameterError(f"OUT must be the file of a release, got {options['target']}")
    _keep_memory()
    _run(resume=True, found="compare", **options)


def _run(
    *,
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
    key_file: Path | None,
    label: str | None,
    resume: bool,
    found: Found,
    quiet: bool,
    **options: Any,
) -> None:
    """found: what becomes of an OUT that is there (tables/atomic_write.py)."""
    from dpfast.tables import files
    from dpfast.tables.drawn import Cells, Sealing, fresh

    given = chosen(options)
    _check(given, columns, epsilon_is)
    if len({key_file is None, label is None}) > 1 or (key_file is not None and ledger_file is None):
        raise ParameterError(
            "--key-file, --label and --ledger must be given together: the ledger keeps the label's charge"
        )
    if resume and key_file is None:
        raise ParameterError("--resume must come with --key-file: noise without a key is new at every try")
    mechanism, real = make(given, len(columns) if epsilon_is == "total" else 1), LAWS[given["mechanism"]].real
    _check_paths(source, target)
    ledger = dpfast.Ledger(ledger_file) if ledger_file else None
    key = dpfast.KeyFile(key_file).derive(label or "") if key_file else None
    table = files.open_source(
        source, columns, real=real, missing="missing" in given, sort_by=sort_by, keep_metadata=keep_metadata
    )
    spent = {name: value for name, value in _figures(dpfast.compose(*[mechanism] * len(table.chosen))).items() if value}
    about: dict[str, Any] = {f"{name}_total": str(value) for name, value in spent.items()}
    about |= _composition(mechanism) if len(table.chosen) > 1 else {}
    about |= {"ledger": ledger.metadata()} if ledger else {}
    about["releases"], made = [], []
    work = {"threads": 1, "constant_time": constant_time}  # pieces, or blocks, are what threads share
    for name, dtype in zip(table.chosen, table.dtypes, strict=True):
        public: dict[str, Any] = {"lower": near("lower", lower, dtype), "upper": near("upper", upper, dtype)}
        public["clamp"] = clamp and inner(clamp, np.dtype(float) if real else dtype)
        public |= {"missing": near("missing", given.get("missing"), np.dtype(float))} if real else {}
        made.append(Cells(name, mechanism, {**public, **work}))
        made[-1].release(np.empty(0, dtype))  # refuses what these options cannot be, before anything is read
        about["releases"].append({"column": name, **mechanism.metadata(), **public})
    files.checked_target(target, table, found=found)
    size, rows, done, begun = source.stat().st_size, 0, 0.0, time.monotonic()
    with closing(terminal.Bar(size if key is None else 2 * size, quiet=quiet)) as bar:
        bar.show(done, source.name)
        if key is None or ledger is None:
            pay = (
                partial(ledger.spend, *_charged(mechanism, len(made)), label=_label(source, table.chosen))
                if ledger
                else None
            )
            drawn: Iterable[tuple[files.Piece, list[Any]]] = fresh(table, made, pay, threads or usable_threads())
        else:
            drawn = sealing = Sealing(table, made, key, ledger, resume=resume, threads=threads or usable_threads())
            if found == "compare" and not sealing.again:
                raise ParameterError(f"--label must be that of a release, and {ledger_file} has none of {label!r:.60}")
            for done in sealing.digest():
                bar.show(done, f"{source.name}: sealing, {_rate(done, begun)}")
            about["manifest"] = sealing.manifest
        with files.destination(target, table, about, found=found) as write:
            for piece, noisy in drawn:
                write(piece, noisy)
                rows += len(noisy[0])
                bar.show(done := done + piece.weight, f"{source.name}: {rows:,} rows, {_rate(done, begun)}")
    if quiet:
        return
    what, within = "values" if real else "counts", f"95 % within {half_width(mechanism, Fraction(95, 100))}"
    said = [f"{name}: {rows:,} {what}, {law(mechanism)}, {within}" for name in table.chosen]
    said += _spent(mechanism, spent, given, epsilon_is, ledger)
    said += [f"{target} is what the release gives: drawn again and compared"] if found == "compare" else []
    said += _without_noise(source, table, sort_by, keep_metadata=keep_metadata)
    click.echo("\n".join(map(terminal.printable, said)), err=True)


def _figures(guarantee: dpfast.Guarantee) -> dict[str, Fraction]:
    """What the columns spend; of a pure epsilon not the rho that it implies."""
    names = ADDS_UP[: 2 if guarantee.pure else 3]
    return {name: value for name in names if (value := getattr(guarantee, name)) is not None}


def _charged(mechanism: Mechanism, columns: int) -> list[Any]:
    """A charge for each column; one for all that were calibrated together."""
    together = getattr(mechanism, "releases", 1) > 1
    return [dpfast.compose(*[mechanism] * columns)] if together else [mechanism] * columns


def _composition(mechanism: Mechanism) -> dict[str, str]:
    """How the total of several columns was found."""
    joint = getattr(mechanism, "releases", 1) > 1
    return {"composition": JOINT if joint else "basic: what the columns spend adds up"}


def _keep_memory() -> None:
    """Freed memory stays with the process: else the system clears it anew for each piece."""
    with suppress(AttributeError, OSError, TypeError):  # another C library than glibc
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(option, KEPT)


def _rate(done: float, begun: float) -> str:
    """How fast the file is read, in one pass or two."""
    return f"{done / max(time.monotonic() - begun, 1e-3) / 1e6:.0f} MB/s"


def _spent(
    mechanism: Mechanism,
    spent: Mapping[str, Fraction],
    given: Mapping[str, Any],
    epsilon_is: str | None,
    ledger: dpfast.Ledger | None,
) -> list[str]:
    """What all columns spend, and what a ledger has left."""
    total = ", ".join(f"{name} {plain(value)}" for name, value in spent.items())
    choice = f" ({_choice(given, epsilon_is)})" if epsilon_is else ""
    said = [f"total {total} per {mechanism.unit}, {mechanism.adjacency}{choice}"]
    return said + (
        [f"{ledger.path}: {amounts(ledger.cost(ledger.remaining), ledger.cost(ledger.budget))} left"] if ledger else []
    )


def _check_paths(source: Path, target: Path) -> None:
    with suppress(OSError):  # there is no OUT, or nothing can be; then writing says so
        if target.samefile(source):
            raise ParameterError(f"OUT must not be IN, got {target}")


def _check(given: Mapping[str, Any], columns: Sequence[str], epsilon_is: str | None) -> None:
    if len(set(columns)) < len(columns):
        raise ParameterError("--column must name each column once")
    if (len(columns) > 1) != (epsilon_is is not None):
        raise ParameterError("--epsilon-is must be given for several columns, and only then: total or per-column")
    if epsilon_is == "total" and "sigma" in given:
        raise ParameterError(
            "--epsilon-is must be per-column with a sigma: that is each column's, and nothing to split"
        )


def _choice(given: Mapping[str, Any], epsilon_is: str) -> str:
    """What the options of several columns are about, and what adds up."""
    sums = {"epsilon": "epsilons", "delta": "deltas", "rho": "rhos", "sigma": "rhos"}
    said = {name: f"--{name} {plain(exact_positive(name, given[name]))}" for name in sums if name in given}
    choice = f"{' and '.join(said.values())} {'are' if len(said) > 1 else 'is'} {epsilon_is}"
    if said.keys() == {"epsilon", "delta"} and epsilon_is == "total":
        return f"{choice}; {JOINT}"
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
    turned = ["cells are read, and sealed, in the file's order, which is Fortran's"]
    return [*said, f"rows {order}", *(turned if getattr(table, "fortran", False) else [])]


def _label(source: Path, columns: Sequence[str]) -> str:
    """What the history shows of columns."""
    return terminal.printable(f"{source.name}: {', '.join(columns)}")[:200]
