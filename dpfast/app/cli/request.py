# SPDX-License-Identifier: Apache-2.0
"""What every command that releases is asked, and who pays: checked first, and written last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.codes import AfterCharge
from dpfast.app.cli.file_options import METADATA, refuse_inside, refuse_shared, style_of
from dpfast.app.cli.ledger import amounts
from dpfast.app.cli.options import Decorator, sharing, together
from dpfast.app.cli.report import Page, check_report, report_options, reported
from dpfast.app.report.facts import Balance, Facts
from dpfast.errors import DataDependentError, DTypeError, KeyReuseError, LedgerError, ParameterError
from dpfast.paths import PART
from dpfast.system import must_have_owners

if TYPE_CHECKING:
    from dpfast.app.tables.text_format import TextFormat
    from dpfast.paths import Found

Write = TypeVar("Write")
FILE = click.Path(dir_okay=False, path_type=Path)
RESUME = click.option(
    "--resume", is_flag=True, help="Retry the release that is reserved under --label, or reserve it if there is none."
)
FORCE = click.option("--force", is_flag=True, help="Replace OUT, and the report, if they exist.")
QUIET = click.option("--quiet", is_flag=True, help="Print no summary and no progress bar.")
THREADS = click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="The most threads to use; by default all usable cores."
)
PLACES = together(METADATA, report_options)


def paying_options(charged: str, rows: str) -> Decorator:
    """The options that say who pays. charged: what is, in words; rows: what a label is of."""
    return together(
        click.option(
            "--ledger",
            "ledger_file",
            type=FILE,
            metavar="FILE",
            help=f"Charge this ledger{charged} before any noise is drawn (dpfast ledger).",
        ),
        sharing,
        click.option(
            "--key-file",
            type=FILE,
            metavar="FILE",
            help="With --ledger and --label: the release can be retried for a single charge (dpfast key).",
        ),
        click.option(
            "--label", metavar="TEXT", help=f"With --key-file: the name of this release of {rows}, and of no other."
        ),
    )


class Request(NamedTuple):
    """The files of a release, who pays, and what is said of it.

    style, form: how texts are read, and the form of files whose names say none. found: what becomes
    of an OUT that is there (paths.py); it is compared if the release is verified.
    """

    source: Path
    target: Path
    metadata: Path | None
    form: str | None
    ledger_file: Path | None
    shared_with: str | int | None
    key_file: Path | None
    label: str | None
    report_file: Path | None
    report_title: str | None
    threads: int | None
    quiet: bool
    style: TextFormat
    resume: bool
    found: Found

    @classmethod
    def of(cls, options: dict[str, Any], *, verify: bool = False) -> Request:
        """Take its options out of a command's. Raises: click.UsageError, ParameterError."""
        style, force, resume = style_of(options), options.pop("force", False), options.pop("resume", False)
        if verify and (force or resume):
            raise click.UsageError("'--verify' writes nothing, and does not work with '--resume' or '--force'")
        found: Found = "compare" if verify else "replace" if force else "keep" if resume else "refuse"
        own = {name: options.pop(name, None) for name in cls._fields[: cls._fields.index("style")]}
        return cls(**own, style=style, resume=resume or verify, found=found)

    @property
    def sink(self) -> dict[str, Any]:
        """How OUT is written."""
        return {"found": self.found, "form": self.form, "metadata": self.metadata}

    def check_payer(self) -> None:
        """Raises: ParameterError (an option without those that it goes with), UnsupportedError."""
        for option, file in (("--ledger", self.ledger_file), ("--key-file", self.key_file)):
            if file is not None:
                must_have_owners(option, "the record beside OUT says what a release guarantees")
        labelled = self.key_file, self.label
        if labelled != (None, None) and None in (*labelled, self.ledger_file):
            raise ParameterError(
                "--key-file, --label and --ledger must be given together: the ledger keeps the label's charge"
            )
        if self.shared_with is not None and self.ledger_file is None:
            raise ParameterError("--shared-with must come with --ledger")
        if self.resume and self.key_file is None:
            option = "--verify" if self.found == "compare" else "--resume"
            raise ParameterError(f"{option} must come with --key-file: noise without a key is new at every try")

    def check_files(self, rows: str, others: Mapping[str, Path | None]) -> None:
        """Refuse what would be written over, or among, files that are needed.

        rows: the name of the source in messages. others: more files that are read, by their names.
        Raises: FileError, ParameterError.
        """
        from dpfast.app.tables.streams import check_format

        read = {rows: self.source, "--ledger": self.ledger_file, "--key-file": self.key_file, **others}
        refuse_shared(self.target, read, self.metadata)
        written = {"OUT": self.target, "--metadata": self.metadata, "--report": self.report_file}
        refuse_inside(self.source, rows, written)
        check_report(self.report_file, self.report_title, self.target, *read.values(), self.metadata, found=self.found)
        check_format(self.form, self.source, self.target)

    @contextmanager
    def writing(
        self, payer: Payer, facts: Callable[[], Facts], out: AbstractContextManager[Write]
    ) -> Iterator[tuple[Write, Page]]:
        """Yield what writes OUT, and the page about it, which is made last."""
        with reported(self.report_file, facts, found=self.found) as page, payer.stays(), out as write:
            yield write, page
            page.make()
        payer.whole = True

    @contextmanager
    def interruptible(self, payer: Payer) -> Iterator[None]:
        """An interrupt says what it leaves. Where OUT is whole by then the release is done."""
        before = _state(self.target)
        try:
            yield
        except KeyboardInterrupt as stopped:
            now = _state(self.target)
            if payer.whole or now not in (None, before):
                name = "standard output" if self.target == Path("-") else self.target
                terminal.tell(terminal.printable(f"Warning: interrupted once OUT was there: {name} is whole"))
                return
            left = f"{self.target}, which was to be replaced, is gone" if before and not now else "nothing was written"
            said = [] if PART in stopped.args else [left]
            raise KeyboardInterrupt(*said, *stopped.args) from None

    def tell(self, payer: Payer, page: Page, said: Iterable[str], more: Iterable[str] = ()) -> None:
        """Say what was released, and what is left."""
        lines = [*said, *payer.left()]
        lines += [f"{self.target} is what the release gives: drawn again and compared"] * (self.found == "compare")
        lines += [
            *more,
            *([f"{self.report_file}: the page about it"] if self.report_file and page.failed is None else []),
        ]
        terminal.tell("\n".join(map(terminal.printable, lines)))


class Payer:
    """Who pays for a release: a ledger, or nobody; under a key once for all tries of a label.

    paid: whether it is charged by this run, or None while it may be. whole: whether OUT is there.
    label: what the ledger's history shows; of a release without a key it is called by what is in
    it.
    """

    def __init__(self, request: Request, terms: Mapping[str, str], gives: str = "writes OUT") -> None:
        """terms: what a seal names. gives: what another try does.

        Raises: LedgerError, FileError, ParameterError.
        """
        file, key, self.label = request.ledger_file, request.key_file, request.label or ""
        self.ledger = dpfast.Ledger(file, shared_with=request.shared_with) if file else None
        self.key: Any = dpfast.KeyFile(key).derive(self.label)._naming(terms) if key else None  # noqa: SLF001
        self.paid: bool | None = False
        self.whole = False
        self.resume, self._gives = request.resume, gives
        self._compares = request.found == "compare"

    def call(self, name: str, what: str) -> None:
        """Name a release without a key, by its file and its columns."""
        if self.key is None:
            self.label = terminal.printable(f"{name}: {what}")[:200]

    def pays(self, charged: bool | None = True) -> None:
        """Called when the charge is made, or may be: None. What is compared was charged before."""
        self.paid = False if self._compares else charged

    @contextmanager
    def stays(self) -> Iterator[None]:
        """What ends early after the charge says that it stays, and what another try costs.

        Raises: AfterCharge.
        """
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if self.ledger is None or self.paid is False or (self.paid is None and _before_a_charge(error)):
                raise
            path, charged = self.ledger.path, self.paid
            stays = f"the charge in {path} stays" if charged else f"a charge in {path}, if made, stays"
            free = f"--resume {self._gives} {'without a new charge' if charged else 'for one charge in all'}"
            said = f"{stays}: {'without a key another try is another release' if self.key is None else free}"
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(*error.args, said) from None
            raise AfterCharge(said) from error

    def about(self) -> dict[str, Any]:
        """What travels with OUT."""
        return {"ledger": self.ledger.metadata()} if self.ledger else {}

    def left(self) -> list[str]:
        """What the ledger has left, in a line; none if it cannot be read: the release is made."""
        if (ledger := self.ledger) is not None:
            with suppress(LedgerError):
                return [f"{ledger.path}: {amounts(ledger.cost(ledger.remaining), ledger.cost(ledger.budget))} left"]
        return []

    def balance(self, parts: Iterable[Any]) -> Balance | None:
        """The ledger, if there is one, just after the charge: later ones change nothing.

        parts: what was charged, mechanisms or guarantees. A key's label has one charge; otherwise
        the last charge under it is meant.
        """
        if self.ledger is None:
            return None
        ledger, keyed = self.ledger, self.key is not None
        charges = [each for each in ledger.history() if each.label == self.label and not each.refused]
        last = [each for each in charges if not keyed or "manifest" in each.parameters][-1]
        budget, charged = ledger.cost(ledger.budget), dict.fromkeys(ledger.cost(ledger.budget), Fraction(0))
        for part in parts:
            for name, amount in ledger.cost(part).items():
                charged[name] += amount
        spent = {name: getattr(last, f"{name}_total") for name in budget}
        left = {name: most - spent[name] for name, most in budget.items()}
        shown = self.label if keyed else ""  # without a key a label names IN, which is nobody's business
        return Balance(ledger.dataset, last.number, last.time, charged, spent, left, budget, shown)


def _state(path: Path) -> tuple[int, ...] | None:
    """What differs between a file and the one that takes its place; None of no file."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_ctime_ns
    return None


def _before_a_charge(error: BaseException) -> bool:
    """Whether a charge that was on its way is what this error refused."""
    return isinstance(error, (LedgerError, KeyReuseError)) or (
        isinstance(error, (ParameterError, DTypeError)) and not isinstance(error, DataDependentError)
    )
