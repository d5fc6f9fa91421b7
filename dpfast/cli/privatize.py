# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize`: noise on columns of a file."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.cli.file_options import IN, METADATA, is_file, refuse_inside, refuse_shared, style_of, text_options
from dpfast.cli.ledger import amounts, charge_stays
from dpfast.cli.options import (
    LAWS,
    SECURE,
    Mechanism,
    Number,
    chosen,
    figures,
    half_width,
    inner,
    law,
    law_options,
    make,
    near,
    number,
    sharing,
)
from dpfast.cli.report import balance, check_report, noisy_column, report_options, reported
from dpfast.errors import ParameterError
from dpfast.privacy.formatting import plain
from dpfast.privacy.parameters import exact_positive
from dpfast.release.engine import usable_threads
from dpfast.report.facts import LABELS, ROWS, Balance, Facts

if TYPE_CHECKING:
    from dpfast.tables.atomic_write import Found
    from dpfast.tables.drawn import Cells
    from dpfast.tables.first_rows import FirstRows
    from dpfast.tables.source import Piece, Source
    from dpfast.tables.text_format import TextFormat

JOINT = "one sigma for all columns, which spend this together"
DTYPES = *(f"{kind}{size}" for kind in ("int", "uint") for size in (8, 16, 32, 64)), "float32", "float64"
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
    click.argument("source", metavar="IN", type=IN),
    click.argument("target", metavar="OUT", type=click.Path(path_type=Path)),
    click.option("--column", "columns", multiple=True, metavar="NAME", help="A column to noise; repeat it for more."),
    law_options,
    text_options,
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
        help="A public number for empty, null and NaN cells, and infinite reals; noised too. But for a count of 0 it "
        "needs --clamp, and a sensitivity that covers its distance from A and from B.",
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
    sharing,
    click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="With --ledger and --label: a release that can be tried again, for one charge (dpfast key).",
    ),
    click.option("--label", metavar="TEXT", help="With --key-file: what names this release of this IN, and no other."),
    click.option(
        "--dtype",
        type=click.Choice(DTYPES),
        help="The type of the noisy cells; by default int64, or for real values that of IN. A noisy value beyond its ends becomes "
        "the nearest number that it has: that is public.",
    ),
    click.option("--quiet", is_flag=True, help="No summary and no progress bar."),
)


@click.command(epilog=EXAMPLES)
@release_options
@click.option(
    "--resume", is_flag=True, help="Try the release again that is reserved under --label; reserve it if none is."
)
@click.option("--force", is_flag=True, help="Replace OUT, and the report, if they exist.")
@METADATA
@report_options
def privatize(resume: bool, force: bool, **options: Any) -> None:
    """Add noise to columns of IN and write OUT.

    To counts by discrete-laplace or discrete-gaussian, to real values by laplace, snapping or
    gaussian.

    Both are .csv, .tsv, .jsonl (also .gz or .zst), .parquet, .arrow, .feather, .npy or .npz, as
    their names say, or - for a pipe; IN may be a folder of Parquet files. docs/files.md has the
    rules by which numbers are read. Other columns pass through without noise: from CSV to CSV byte
    for byte, from CSV to another format as strings. So does the order of rows, unless --sort-by
    says a public one. Which rows there are is published. Only the metadata that types need are
    kept.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a text or
    array in OUT.json. OUT appears only when it is complete. With --ledger a release that the budget
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
    if not is_file(options["target"]):
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
    shared_with: str | int | None,
    key_file: Path | None,
    label: str | None,
    resume: bool,
    found: Found,
    quiet: bool,
    form: str | None,
    dtype: str | None,
    metadata: Path | None = None,
    report_file: Path | None = None,
    report_title: str | None = None,
    **options: Any,
) -> None:
    """found: what becomes of an OUT that is there (tables/atomic_write.py)."""
    from dpfast.tables import files
    from dpfast.tables.drawn import Sealing, fresh
    from dpfast.tables.first_rows import FirstRows
    from dpfast.tables.streams import check_format, what_is

    style, given = style_of(options), chosen(options)
    _check(given, columns, epsilon_is, dtype)
    _check_key(source, ledger_file, key_file, label, resume=resume)
    mechanism, real = make(given, len(columns) if epsilon_is == "total" else 1), LAWS[given["mechanism"]].real
    read = {"IN": source, "--ledger": ledger_file, "--key-file": key_file}
    _check_files(target, read, metadata, report_file, report_title, found=found)
    check_format(form, source, target)
    missing = near("missing", given.get("missing"), np.dtype(float if real else int))
    ledger, key = _payer(ledger_file, shared_with, key_file, label, sort_by, style)
    table = files.open_source(
        source,
        columns,
        real=real,
        missing=missing is not None if real else cast("int | None", missing),
        sort_by=sort_by,
        keep_metadata=keep_metadata,
        style=style,
        form=form,
        dtype=np.dtype(dtype) if dtype else None,
        within=clamp is not None and min(clamp) >= -(2**53) and max(clamp) <= 2**53,
    )
    spent = {name: value for name, value in figures(dpfast.compose(*[mechanism] * len(table.chosen))).items() if value}
    about = _record(mechanism, spent, ledger, len(table.chosen))
    made = _columns(table, mechanism, (lower, upper, clamp, missing), dtype=dtype, constant_time=constant_time)
    cells, about["releases"] = map(list, zip(*made, strict=True))
    sink: dict[str, Any] = {"found": found, "form": form, "metadata": metadata}
    tried = files.trial(target, table, files.checked_target(target, table, **sink))
    done, begun, name = 0.0, time.monotonic(), what_is(source)
    size = None if table.size is None else table.size * (1 if key is None else 2)
    with closing(terminal.Bar(size, quiet=quiet)) as bar:
        bar.show(done, name)
        called = label or _label(source, table.chosen)
        paid: list[bool] = []
        if key is None or ledger is None:
            pay = partial(_spend, ledger, _charged(mechanism, len(cells)), called, paid) if ledger else None
            drawn: Iterable[tuple[Piece, list[Any]]] = fresh(table, cells, pay, threads or usable_threads(), tried)
        else:
            drawn = sealing = Sealing(
                table,
                cells,
                key,
                ledger,
                resume=resume,
                threads=threads or usable_threads(),
                paid=paid.append,
                tried=tried,
            )
            if found == "compare" and not sealing.again:
                raise ParameterError(f"--label must be that of a release, and {ledger_file} has none of {label!r:.60}")
            for done in sealing.digest():
                bar.show(done, f"{name}: sealing, {_rate(done, begun)}")
            about["manifest"] = sealing.manifest
        seen = FirstRows(table, ROWS if report_file else 0, LABELS)
        facts = partial(
            _facts,
            seen,
            cells,
            about,
            title=report_title,
            file=target.name,
            balanced=partial(balance, ledger, called, keyed=key is not None),
        )
        with (
            reported(report_file, facts, found=found) as page,
            charge_stays(ledger, lambda: bool(paid) and found != "compare", keyed=key is not None),
            files.destination(target, table, about, **sink) as write,
        ):
            for piece, noisy in drawn:
                write(piece, noisy)
                page.step(partial(seen.add, piece, noisy))
                bar.show(done := done + piece.weight, f"{name}: {seen.rows:,} rows, {_rate(done, begun)}")
            page.make()
    if not quiet:
        said = _released(mechanism, table, seen.rows, real=real)
        said += _spent(mechanism, spent, given, epsilon_is, ledger)
        said += [f"{target} is what the release gives: drawn again and compared"] if found == "compare" else []
        said += _without_noise(source, table, sort_by, keep_metadata=keep_metadata)
        said += [f"{report_file}: the page about it"] if report_file and page.failed is None else []
        terminal.tell("\n".join(map(terminal.printable, said)))


def _released(mechanism: Mechanism, table: Source, rows: int, *, real: bool) -> list[str]:
    """A line for each column."""
    what, within = (
        f"{'value' if real else 'count'}{'s' * (rows != 1)}",
        f"95 % within {half_width(mechanism, Fraction(95, 100))}",
    )
    rounds = [", before a float32 rounds it" if kind.name == "float32" else "" for kind in table.dtypes]
    return [
        f"{name}: {rows:,} {what}, {law(mechanism)}, {within}{more}"
        for name, more in zip(table.chosen, rounds, strict=True)
    ]


def _record(
    mechanism: Mechanism, spent: Mapping[str, Fraction], ledger: dpfast.Ledger | None, columns: int
) -> dict[str, Any]:
    """What travels with OUT, still without its releases."""
    about: dict[str, Any] = {f"{name}_total": str(value) for name, value in spent.items()}
    about |= _composition(mechanism) if columns > 1 else {}
    about |= {"ledger": ledger.metadata()} if ledger else {}
    return {**about, "secure_means": SECURE, "releases": []}


def _payer(
    ledger: Path | None,
    shared_with: str | int | None,
    key: Path | None,
    label: str | None,
    sort_by: Sequence[str],
    style: TextFormat,
) -> tuple[dpfast.Ledger | None, Any]:
    """The ledger, and the release key of the label.

    Its seal names the order of rows, and how a text is read.
    """
    if shared_with is not None and ledger is None:
        raise ParameterError("--shared-with must come with --ledger")
    opened = dpfast.Ledger(ledger, shared_with=shared_with) if ledger else None
    order = {"--sort-by": json.dumps(sort_by, ensure_ascii=False)} if sort_by else {}
    terms = order | style.named_options()
    return opened, dpfast.KeyFile(key).derive(label or "")._naming(terms) if key else None  # noqa: SLF001


def _columns(
    table: Source, mechanism: Mechanism, public_ends: Sequence[Any], *, dtype: str | None, constant_time: bool
) -> Iterator[tuple[Cells, dict[str, Any]]]:
    """Each column with its options, and what OUT says of it. No cell is read.

    public_ends: lower, upper, clamp, and the number in place of missing cells.
    """
    from dpfast.tables.drawn import Cells

    real = not mechanism.INTEGERS
    lower, upper, clamp, missing = public_ends
    work = {"threads": 1, "constant_time": constant_time}  # pieces, or blocks, are what threads share
    for name, kind in zip(table.chosen, table.dtypes, strict=True):
        public: dict[str, Any] = {"lower": near("lower", lower, kind), "upper": near("upper", upper, kind)}
        public["clamp"] = clamp and inner(clamp, np.dtype(float) if real else kind)
        public["missing"] = missing
        column = Cells(name, mechanism, {**public, **work}, kind)
        column.release(np.empty(0, kind if real else int))  # refuses what these options cannot be
        public |= {"dtype": dtype, "beyond_dtype": "the nearest number that the type has"} if dtype else {}
        yield column, {"column": name, **mechanism.metadata(), **public}


def _facts(
    seen: FirstRows,
    columns: Sequence[Cells],
    about: Mapping[str, Any],
    *,
    title: str | None,
    file: str,
    balanced: Callable[[list[Any]], Balance | None],
) -> Facts:
    """What a report shows of this release, once OUT is there."""
    noisy = [
        noisy_column(
            each.name,
            "counts" if each.mechanism.INTEGERS else "values",
            each.mechanism,
            parameters,
            cells,
            span,
            size=seen.rows,
            columns=len(columns),
        )
        for each, parameters, cells, span in zip(columns, about["releases"], seen.cells, seen.ranges, strict=True)
    ]
    return Facts(
        title=title or "",
        file=file,
        rows=seen.rows,
        index=seen.index,
        labels=seen.labels,
        unshown=seen.unshown,
        rows_are="Which rows there are, their order and the columns without noise are published as they are in the input. "
        "The guarantee says nothing about them.",
        noisy=noisy,
        guarantee=dpfast.compose(*[each.mechanism for each in columns]),
        record=about,
        balance=balanced(_charged(columns[0].mechanism, len(columns))),
    )


def _charged(mechanism: Mechanism, columns: int) -> list[Any]:
    """A charge for each column; one for all that were calibrated together."""
    together = getattr(mechanism, "releases", 1) > 1
    return [dpfast.compose(*[mechanism] * columns)] if together else [mechanism] * columns


def _spend(ledger: dpfast.Ledger, charges: Sequence[Any], label: str, paid: list[bool]) -> None:
    ledger.spend(*charges, label=label)
    paid.append(True)


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


def _check_files(
    target: Path,
    read: Mapping[str, Path | None],
    metadata: Path | None,
    report: Path | None,
    title: str | None,
    *,
    found: Found,
) -> None:
    """Refuse what would be written over, or among, files that are needed."""
    refuse_shared(target, read, metadata)
    refuse_inside(cast("Path", read["IN"]), "IN", {"OUT": target, "--metadata": metadata, "--report": report})
    check_report(report, title, target, *read.values(), metadata, found=found)


def _check_key(source: Path, ledger: Path | None, key: Path | None, label: str | None, *, resume: bool) -> None:
    if len({key is None, label is None}) > 1 or (key is not None and ledger is None):
        raise ParameterError(
            "--key-file, --label and --ledger must be given together: the ledger keeps the label's charge"
        )
    if resume and key is None:
        raise ParameterError("--resume must come with --key-file: noise without a key is new at every try")
    if key is not None and str(source) == "-":
        raise ParameterError("IN must be a file for --key-file, which reads it twice: write what the pipe gives to one")


def _check(given: Mapping[str, Any], columns: Sequence[str], epsilon_is: str | None, dtype: str | None) -> None:
    if len(set(columns)) < len(columns):
        raise ParameterError("--column must name each column once")
    if (len(columns) > 1) != (epsilon_is is not None):
        raise ParameterError("--epsilon-is must be given for several columns, and only then: total or per-column")
    if epsilon_is == "total" and "sigma" in given:
        raise ParameterError(
            "--epsilon-is must be per-column with a sigma: that is each column's, and nothing to split"
        )
    if dtype is not None and (np.dtype(dtype).kind == "f") != (real := LAWS[given["mechanism"]].real):
        rule = "float32 or float64" if real else "an integer type for counts"
        raise ParameterError(f"--dtype must be {rule}, got {dtype}")


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
    from dpfast.tables.streams import what_is

    said = [f"passed through without noise: {', '.join(table.passed)}"] if table.passed else []
    if table.needed:
        said.append(f"metadata of types and records, passed through without noise: {', '.join(table.needed)}")
    if table.notes:
        how = "passed through without noise" if keep_metadata else "left out (--keep-metadata would pass it through)"
        said.append(f"metadata {how}: {', '.join(table.notes)}")
    hint = "; --sort-by would put them in a public one" if table.passed else ""
    order = (
        f"are sorted by {', '.join(sort_by)}"
        if sort_by
        else f"keep the order of {what_is(source)}, which is published{hint}"
    )
    turned = ["cells are read, and sealed, in the file's order, which is Fortran's"]
    return [*said, f"rows {order}", *(turned if getattr(table, "fortran", False) else [])]


def _label(source: Path, columns: Sequence[str]) -> str:
    """What the history shows of columns."""
    return terminal.printable(f"{'standard input' if source.name == '-' else source.name}: {', '.join(columns)}")[:200]
