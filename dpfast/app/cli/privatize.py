# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize`: noise on columns of a file."""

from __future__ import annotations

import ctypes
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.app.cli.file_options import IN, is_file, text_options
from dpfast.app.cli.options import (
    MECHANISMS,
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
    together,
)
from dpfast.app.cli.report import noisy_column
from dpfast.app.cli.request import FORCE, PLACES, QUIET, RESUME, THREADS, Payer, Request, paying_options
from dpfast.app.report.facts import LABELS, ROWS, Facts
from dpfast.errors import ParameterError
from dpfast.noise.release.engine import usable_threads
from dpfast.privacy.formatting import cost, plain
from dpfast.privacy.parameters import exact_positive

if TYPE_CHECKING:
    from dpfast.app.tables.drawn import Cells, Drawn
    from dpfast.app.tables.first_rows import FirstRows
    from dpfast.app.tables.source import Piece, Source
    from dpfast.app.tables.text_format import TextFormat

JOINT = "one sigma for all columns, which spend this together"
DTYPES = *(f"{kind}{size}" for kind in ("int", "uint") for size in (8, 16, 32, 64)), "float32", "float64"
MANY = 10_000  # rows: tables of counts mostly have fewer
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


release_options = together(  # what is released, and how
    click.argument("source", metavar="IN", type=IN),
    click.argument("target", metavar="OUT", type=click.Path(path_type=Path)),
    click.option(
        "--column", "columns", multiple=True, metavar="NAME", help="A column that gets noise; repeat it for more."
    ),
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
        "--clamp",
        type=number,
        nargs=2,
        metavar="A B",
        help="Public ends to which cells are clamped before the noise: A at most B.",
    ),
    click.option(
        "--missing",
        type=number,
        help="A public number that replaces empty, null and NaN cells, and infinite reals, before the noise. Except for a count of 0 it "
        "needs --clamp, and a sensitivity that covers its distance from A and from B.",
    ),
    click.option(
        "--sort-by",
        multiple=True,
        metavar="NAME",
        help="Sort the rows by a column without noise; repeat it until no two rows are alike. IN is then held in "
        "memory, up to four times; more than 1 GiB is refused.",
    ),
    click.option(
        "--keep-metadata", is_flag=True, help="Pass on all metadata of IN, without noise, and not only that of types."
    ),
    THREADS,
    click.option(
        "--constant-time", is_flag=True, help="Do the same work for every draw, so that timing reveals nothing."
    ),
    paying_options(", all columns or none,", "this IN"),
    click.option(
        "--dtype",
        type=click.Choice(DTYPES),
        help="The type of the noisy cells; by default int64, or for real values that of IN. A noisy value beyond its ends becomes "
        "the nearest number that the type has.",
    ),
    QUIET,
)


@click.command(epilog=EXAMPLES)
@release_options
@RESUME
@FORCE
@PLACES
def privatize(**options: Any) -> None:
    """Add noise to columns of IN and write OUT.

    Counts get noise by discrete-laplace or discrete-gaussian, and real values by laplace, snapping
    or gaussian.

    Both files are .csv, .tsv, .jsonl (also .gz or .zst), .parquet, .arrow, .feather, .npy or .npz,
    as their names say, or - for a pipe; IN may be a folder of Parquet files. docs/files.md has the
    rules by which numbers are read. Other columns pass through without noise: from CSV to CSV byte
    for byte, and from CSV to another format as strings. So does the order of rows, unless --sort-by
    gives a public one. Which rows there are is published. Only the metadata that types need are
    kept.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a text or
    array in OUT.json. OUT appears only when it is complete. With --ledger a release that the budget
    does not cover is refused; what was charged stays charged, whatever becomes of OUT. With
    --key-file as well, you can restart a run that was killed with --resume: it gives the same OUT
    for a single charge.
    """
    _run(options)


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
    _run(options, verify=True)


class Asked(NamedTuple):
    """What is asked for, checked as far as it can be before a file is opened.

    given: the options of the law. missing: the number in place of missing cells.
    """

    columns: tuple[str, ...]
    epsilon_is: str | None
    lower: Number | None
    upper: Number | None
    clamp: tuple[Number, Number] | None
    sort_by: tuple[str, ...]
    keep_metadata: bool
    constant_time: bool
    dtype: str | None
    given: Mapping[str, Any]
    mechanism: Mechanism
    missing: int | float | None

    @classmethod
    def of(cls, options: dict[str, Any], request: Request) -> Asked:
        """Raises: click.UsageError, DTypeError, ParameterError."""
        own = {name: options.pop(name) for name in cls._fields[: cls._fields.index("given")]}
        given, columns, total = chosen(options), own["columns"], own["epsilon_is"] == "total"
        _check(given, columns, own["epsilon_is"], own["dtype"])
        request.check_payer()
        if request.key_file is not None and str(request.source) == "-":
            raise ParameterError(
                "IN must be a file for --key-file, which reads it twice: write the pipe's output to one"
            )
        mechanism = make(given, len(columns) if total else 1)
        missing = near("missing", given.get("missing"), np.dtype(int if mechanism.INTEGERS else float))
        return cls(**own, given=given, mechanism=mechanism, missing=missing)

    @property
    def real(self) -> bool:
        return not self.mechanism.INTEGERS

    def opened(self, request: Request) -> Source:
        """IN, with checked columns. Raises: FileError, ParameterError."""
        from dpfast.app.tables import files

        return files.open_source(
            request.source,
            self.columns,
            real=self.real,
            missing=self.missing is not None if self.real else cast("int | None", self.missing),
            sort_by=self.sort_by,
            keep_metadata=self.keep_metadata,
            style=request.style,
            form=request.form,
            dtype=np.dtype(self.dtype) if self.dtype else None,
            within=self.clamp is not None and min(self.clamp) >= -(2**53) and max(self.clamp) <= 2**53,
        )

    def terms(self, style: TextFormat) -> dict[str, str]:
        """What a seal names: the order of rows, and how a text is read."""
        order = {"--sort-by": json.dumps(self.sort_by, ensure_ascii=False)} if self.sort_by else {}
        return order | style.named_options()

    def cells(self, table: Source) -> Iterator[tuple[Cells, dict[str, Any]]]:
        """Each column with its options, and what OUT says of it. No cell is read."""
        from dpfast.app.tables.drawn import Cells

        work = {"threads": 1, "constant_time": self.constant_time}  # pieces, or blocks, are what threads share
        for name, kind in zip(table.chosen, table.dtypes, strict=True):
            public: dict[str, Any] = {
                "lower": near("lower", self.lower, kind),
                "upper": near("upper", self.upper, kind),
            }
            public["clamp"] = self.clamp and inner(self.clamp, np.dtype(float) if self.real else kind)
            public["missing"] = self.missing
            column = Cells(name, self.mechanism, {**public, **work}, kind)
            column.release(np.empty(0, kind if self.real else int))  # refuses what these options cannot be
            public |= (
                {"dtype": self.dtype, "beyond_dtype": "the nearest number that the type has"} if self.dtype else {}
            )
            yield column, {"column": name, **self.mechanism.metadata(), **public}


class Release(NamedTuple):
    """What is asked for, an open table, and who pays. about: what travels with OUT."""

    request: Request
    asked: Asked
    payer: Payer
    table: Source
    cells: list[Cells]
    about: dict[str, Any]

    @classmethod
    def of(cls, request: Request, asked: Asked, payer: Payer, table: Source) -> Release:
        """Raises: DTypeError, ParameterError."""
        cells, releases = map(list, zip(*asked.cells(table), strict=True))
        made = cls(request, asked, payer, table, cells, {})
        name = "standard input" if request.source.name == "-" else request.source.name
        payer.call(name, ", ".join(table.chosen))
        made.about.update({f"{name}_total": str(value) for name, value in made.spent.items()})
        if len(cells) > 1:
            made.about["composition"] = JOINT if made.joint else "basic: what the columns spend adds up"
        made.about.update(payer.about(), secure_means=SECURE, releases=releases)
        return made

    @property
    def joint(self) -> bool:
        """Whether all columns were calibrated together."""
        return getattr(self.asked.mechanism, "releases", 1) > 1

    @property
    def guarantee(self) -> dpfast.Guarantee:
        return dpfast.compose(*[self.asked.mechanism] * len(self.cells))

    @property
    def spent(self) -> dict[str, Fraction]:
        return {name: value for name, value in figures(self.guarantee).items() if value}

    @property
    def charges(self) -> list[Any]:
        """A charge for each column; one for all that are joint."""
        return [self.guarantee] if self.joint else [self.asked.mechanism] * len(self.cells)

    def drawn(self, tried: Callable[[list[Piece]], object], bar: _Progress) -> Drawn:
        """The noisy pieces, paid for before the first; under a key they are sealed before."""
        from dpfast.app.tables.drawn import Sealing, fresh

        payer, threads = self.payer, self.request.threads or usable_threads()
        if payer.ledger is not None and payer.key is None:
            self._must_fit(payer.ledger)
        if payer.ledger is None or payer.key is None:
            return fresh(self.table, self.cells, self._spend if payer.ledger else None, threads, tried)
        sealing = Sealing(self.table, self.cells, payer, threads, tried)
        if self.request.found == "compare" and not sealing.again:
            raise ParameterError(
                f"--label must be that of a release, and {self.request.ledger_file} has none of {payer.label!r:.60}"
            )
        for done in sealing.digest():
            bar.at(done, "sealing")
        self.about["manifest"] = sealing.manifest
        return iter(sealing)

    def _must_fit(self, ledger: dpfast.Ledger) -> None:
        """Before a cell is read, for whether the budget suffices is public.

        Raises: BudgetExhausted, LedgerError, ParameterError.
        """
        asked, left = [ledger.cost(part) for part in self.charges], ledger.cost(ledger.remaining)
        if any(sum(each[name] for each in asked) > left[name] for name in left):
            self._spend()  # which refuses it

    def _spend(self) -> None:
        cast("dpfast.Ledger", self.payer.ledger).spend(*self.charges, label=self.payer.label)
        self.payer.pays()

    def facts(self, seen: FirstRows) -> Facts:
        """What a report shows of this release, once OUT is there."""
        columns = zip(self.cells, self.about["releases"], seen.cells, seen.ranges, strict=True)
        of: dict[str, Any] = {"size": seen.rows, "columns": len(self.cells)}
        what = "values" if self.asked.real else "counts"
        return Facts(
            title=self.request.report_title or "",
            file=self.request.target.name,
            rows=seen.rows,
            index=seen.index,
            labels=seen.labels,
            unshown=seen.unshown,
            rows_are="Which rows there are, their order and the columns without noise are published as they are in the input. "
            "The guarantee says nothing about them.",
            noisy=[noisy_column(each.name, what, each.mechanism, *shown, **of) for each, *shown in columns],
            guarantee=self.guarantee,
            record=self.about,
            balance=self.payer.balance(self.charges),
        )

    def lines(self, rows: int) -> list[str]:
        """A line for each column, and what all of them spend."""
        mechanism, epsilon_is = self.asked.mechanism, self.asked.epsilon_is
        what = f"{'value' if self.asked.real else 'count'}{'s' * (rows != 1)}"
        within = f"95 % within {half_width(mechanism, Fraction(95, 100))}"
        rounds = [", before a float32 rounds it" if kind.name == "float32" else "" for kind in self.table.dtypes]
        said = [
            f"{name}: {rows:,} {what}, {law(mechanism)}, {within}{more}"
            for name, more in zip(self.table.chosen, rounds, strict=True)
        ]
        total = cost(self.spent, plain)
        choice = f" ({_choice(self.asked.given, epsilon_is)})" if epsilon_is else ""
        return [*said, f"total {total} per {mechanism.unit}, {mechanism.adjacency}{choice}"]


class _Progress(terminal.Bar):
    """How much of a file is done, in one pass or two, and how fast."""

    def __init__(self, name: str, size: float | None, *, quiet: bool) -> None:
        super().__init__(size, quiet=quiet)
        self._name, self._begun, self.done = name, time.monotonic(), 0.0
        self.show(0.0, name)

    def at(self, done: float, what: str) -> None:
        self.done, speed = done, done / max(time.monotonic() - self._begun, 1e-3) / 1e6
        self.show(done, f"{self._name}: {what}, {speed:.0f} MB/s")


def _run(options: dict[str, Any], *, verify: bool = False) -> None:
    """Check what is asked, open IN, pay, and write noisy pieces as they are drawn."""
    from dpfast.app.tables import files
    from dpfast.app.tables.first_rows import FirstRows
    from dpfast.app.tables.streams import what_is

    _keep_memory()
    request = Request.of(options, verify=verify)
    asked = Asked.of(options, request)
    request.check_files("IN", {})
    payer = Payer(request, asked.terms(request.style))
    with request.interruptible(payer):
        table = asked.opened(request)
        release = Release.of(request, asked, payer, table)
        tried = files.trial(request.target, table, files.checked_target(request.target, table, **request.sink))
        size = None if table.size is None else table.size * (1 if payer.key is None else 2)
        with closing(_Progress(what_is(request.source), size, quiet=request.quiet)) as bar:
            drawn = release.drawn(tried, bar)
            seen = FirstRows(table, ROWS if request.report_file else 0, LABELS)
            out = files.destination(request.target, table, release.about, **request.sink)
            with request.writing(payer, partial(release.facts, seen), out) as (write, page):
                for piece, noisy in drawn:
                    write(piece, noisy)
                    page.step(partial(seen.add, piece, noisy))
                    bar.at(bar.done + piece.weight, f"{seen.rows:,} rows")
                if table.passed and seen.rows > MANY and not verify:
                    warnings.warn(_suspected(seen.rows, table.passed), dpfast.errors.WeakGuaranteeWarning, stacklevel=1)
        if not request.quiet:
            request.tell(payer, page, release.lines(seen.rows), _without_noise(request.source, table, asked))


def _suspected(rows: int, passed: Sequence[str]) -> str:
    """What is public of OUT alone, its rows and its columns, looks like a table of people."""
    few = ", ".join(f"{name:.40}" for name in passed[:3]) + ", …" * (len(passed) > 3)
    return (
        f"{rows:,} rows with columns without noise ({few}): if a row is a person or a visit, and not a count of them, this "
        "hides nobody; `dpfast histogram` counts rows in a way that does"
    )


def _keep_memory() -> None:
    """Freed memory stays with the process: else the system clears it anew for each piece."""
    with suppress(AttributeError, OSError, TypeError):  # another C library than glibc
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(option, KEPT)


def _check(given: Mapping[str, Any], columns: Sequence[str], epsilon_is: str | None, dtype: str | None) -> None:
    if len(set(columns)) < len(columns):
        raise ParameterError("--column must name each column once")
    if (len(columns) > 1) != (epsilon_is is not None):
        raise ParameterError("--epsilon-is must be given for several columns, and only then: total or per-column")
    if epsilon_is == "total" and "sigma" in given:
        raise ParameterError(
            "--epsilon-is must be per-column with a sigma: that is each column's, and nothing to split"
        )
    if dtype is not None and (np.dtype(dtype).kind == "f") != (real := MECHANISMS[given["mechanism"]].real):
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


def _without_noise(source: Path, table: Source, asked: Asked) -> list[str]:
    """What of OUT is as it was in IN."""
    from dpfast.app.tables.streams import what_is

    said = [f"passed through without noise: {', '.join(table.passed)}"] if table.passed else []
    if table.needed:
        said.append(f"metadata of types and records, passed through without noise: {', '.join(table.needed)}")
    if table.notes:
        how = (
            "passed through without noise"
            if asked.keep_metadata
            else "left out (--keep-metadata would pass it through)"
        )
        said.append(f"metadata {how}: {', '.join(table.notes)}")
    hint = "; --sort-by would put them in a public one" if table.passed else ""
    order = (
        f"are sorted by {', '.join(asked.sort_by)}"
        if asked.sort_by
        else f"keep the order of {what_is(source)}, which is published{hint}"
    )
    turned = ["cells are read, and sealed, in the file's order, which is Fortran's"]
    return [*said, f"rows {order}", *(turned if getattr(table, "fortran", False) else [])]
