# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram`: from rows to a table of noisy counts or sums."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.file_options import is_file, text_options
from dpfast.app.cli.ledger import amounts
from dpfast.app.cli.measures import Count, Mean, Sum, interval_options, measure_options, noise_options
from dpfast.app.cli.options import chosen, dashed, figures, together
from dpfast.app.cli.request import FORCE, PLACES, QUIET, RESUME, THREADS, Payer, Request, paying_options
from dpfast.app.report.facts import ROWS, Facts
from dpfast.app.report.markup import LONGEST
from dpfast.counts.records.bounded_histogram import CAPS, EACH_ROW, ROW_IS, Bounds
from dpfast.errors import ParameterError
from dpfast.noise.release.seal import by_column, kind_of, manifest
from dpfast.privacy import meaning
from dpfast.privacy.formatting import amount, cost
from dpfast.privacy.guarantee import called
from dpfast.privacy.parameters import exact_real

if TYPE_CHECKING:
    from dpfast.app.tables.domain import Domain
    from dpfast.app.tables.gathered import Cells, Listed
    from dpfast.app.tables.keys import Key
    from dpfast.app.tables.rows import Rows
    from dpfast.app.tables.text_format import TextFormat

EXAMPLES = """\b
Examples:
  dpfast histogram visits.csv out.csv --by city --unit person --max-partitions 2 --domain cities.txt --epsilon 1
  dpfast histogram visits.parquet out.csv --by city --by sex --unit person --max-partitions 2 \\
      --domain city=cities.txt --domain sex=f,m,x --epsilon 1 --intervals
  dpfast histogram visits.csv out.csv --by word --unit person --max-partitions 5 --threshold \\
      --epsilon 1 --delta 1e-8
  dpfast histogram visits.csv out.csv --by city --unit person --max-partitions 2 --domain cities.txt \\
      --sum hours --clamp 0 24 --epsilon 1
  dpfast histogram people.csv out.csv --by town --domain towns.txt --unit-is-row --mean age --clamp 0 120 --epsilon 1
  dpfast histogram people.csv out.csv --by age --bins age=0,18,65,120 --unit-is-row --epsilon 1
  dpfast histogram visits.csv out.csv --by "week(date, Europe/Oslo)" --domain 2026-W01..2026-W53 --unit person \\
      --max-partitions 4 --epsilon 1
  dpfast histogram visits.csv out.csv --by city --unit person --max-partitions 2 --domain cities.txt \\
      --epsilon 1 --ledger budget.db --key-file visits.key --label "visits 2026-11" --resume
"""


BY = click.option(
    "--by",
    multiple=True,
    metavar="NAME",
    help='A column whose values are keys, or the "week(NAME)", month, day or year of its dates, "week(NAME, Europe/Oslo)" by other clocks than UTC\'s; repeat it for more. '
    "Without it there is one cell, the total.",
)
UNIT = click.option("--unit", metavar="NAME", help="The column that says whom the guarantee protects, such as person.")
row_options = together(  # what one unit counts, and what makes keys of rows
    click.option(
        "--max-partitions",
        type=click.IntRange(1),
        metavar="N",
        help="The most cells, over all columns of --by together, that one unit counts in.",
    ),
    click.option(
        "--max-per-partition",
        type=click.IntRange(1),
        metavar="N",
        help="The most rows of one unit in a cell; for counts 1 by default.",
    ),
    click.option(
        "--max-contributions", type=click.IntRange(1), metavar="N", help="The most rows of one unit in total."
    ),
    click.option(
        "--domain",
        "domains",
        multiple=True,
        metavar="[NAME=]KEYS",
        help="The public keys of a column: a file with one a line, or A,B,C, or 1..12. NAME if there are several columns. "
        "With --threshold, some columns may have a list: rows with other keys are left out.",
    ),
    click.option(
        "--bins",
        multiple=True,
        metavar="NAME=A,B,C",
        help="Keys of a column of numbers, in place of a --domain: [A, B) and [B, C). Other numbers are left out.",
    ),
    click.option("--strip", is_flag=True, help="Ignore spaces at the ends of texts."),
    click.option(
        "--null",
        multiple=True,
        metavar="TEXT",
        help="Treat cells with this text as missing, in every column; repeat it for more.",
    ),
    click.option("--unknown", is_flag=True, help="Also count rows whose key is missing, under the key unknown."),
)


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="ROWS", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@BY
@UNIT
@click.option(
    "--unit-is-row",
    is_flag=True,
    help="Instead of --unit: every row is a different unit. This is your claim, and nothing checks it.",
)
@click.option(
    "--unit-name",
    metavar="WORD",
    help="What the report and the record call one unit, such as plane where --unit is tailnum.",
)
@row_options
@click.option("--threshold", is_flag=True, help="Show keys that no --domain lists if their noisy count is high enough.")
@measure_options
@noise_options
@text_options
@interval_options
@paying_options("", "these ROWS")
@RESUME
@click.option("--verify", is_flag=True, help="Draw a release under a key again and compare it with OUT, at no charge.")
@click.option(
    "--explain", is_flag=True, help="Report the privacy cost and the size of the noise without opening the rows."
)
@FORCE
@QUIET
@THREADS
@PLACES
def histogram(**options: Any) -> None:
    """Count the rows of ROWS by public keys, or add up a column, and write the noisy table OUT.

    ROWS is a .csv, .tsv, .jsonl, .parquet, .arrow or .feather file, a folder of such files, or -
    for standard input. One unit, such as a person, may have any number of rows. It counts in at
    most --max-partitions cells, with at most --max-per-partition rows in each, chosen at random,
    so that the noise hides whatever one unit does.

    OUT is such a file, or - for standard output. It has one row for each combination of keys, with
    the columns of --by, followed by count or sum, or with --mean by sum, count and mean. With
    --quantile it has a row for each share, with the columns quantile and value. Rows with another
    key are left out, and so are rows without a key (except with --unknown), a unit or a value.
    Nothing says how many there were.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a CSV file in
    OUT.json. OUT appears only when it is complete. What was charged stays charged, whatever becomes
    of OUT. With --key-file, you can restart a run that was killed with --resume: it gives the same
    OUT for a single charge.
    """
    request = Request.of(options, verify=options["verify"])
    asked = Asked.of(options, request)
    if options["explain"]:
        click.echo(asked.explained(request))
        return
    _run(request, asked)


class Asked(NamedTuple):
    """What is asked for, checked as far as it can be before a row is read.

    listed: keys that are public. measure: what is asked of each cell.
    """

    given: Mapping[str, Any]
    by: tuple[Key, ...]
    listed: Listed
    measure: Count

    @classmethod
    def of(cls, options: Mapping[str, Any], request: Request) -> Asked:
        """Raises: click.UsageError, DTypeError, FileError, ParameterError."""
        given = {name: value for name, value in chosen(options).items() if value != ()}
        names: tuple[str, ...] = given.get("by", ())
        by = keys_of(given, names)
        _check(given, names, by)
        request.check_payer()
        listed = listed_of(given, by)
        _can_be(listed, given, by)
        caps = {name: given[name] for name in CAPS if name in given}
        if not by:
            caps["max_partitions"] = 1
        kind = measure_of(given)
        caps |= kind.usual(caps)
        about = {name: given[name] for name in ("adjacency", "unit") if name in given}
        bounds = Bounds(**caps, **about)
        if "unit" not in given:
            bounds = bounds._replace(unit=EACH_ROW.value).of_each_row()
        size = None if "threshold" in given else cast("Cells", listed).size
        return cls(given, by, listed, kind(given, bounds, size))

    @property
    def bounds(self) -> Bounds:
        return self.measure.bounds

    @property
    def mechanism(self) -> Any:
        return self.measure.mechanism

    @property
    def caps(self) -> dict[str, int]:
        """Those that are given, by their names."""
        return {name: cap for name, cap in zip(CAPS, self.bounds[:3], strict=True) if cap is not None}

    @property
    def cells(self) -> Cells | None:
        """What is listed, if it is all keys; None of --threshold."""
        return None if "threshold" in self.given else cast("Cells", self.listed)

    @property
    def unit(self) -> str:
        """What a reader calls whom the promise protects."""
        return str(self.given.get("unit_name", self.bounds.unit))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of keys in OUT."""
        return tuple(key.name for key in self.by)

    @property
    def title(self) -> str:
        what = self.measure.title
        return f"{what} by {', '.join(self.names)}" if self.by else f"{what} in all"

    @property
    def rules(self) -> dict[str, Any]:
        """How cells become keys and units, by the names of Columns."""
        return {name: self.given[name] for name in ("strip", "null", "unknown") if name in self.given}

    @property
    def bins(self) -> dict[str, list[str]]:
        """The labels of each column of bins."""
        from dpfast.app.tables.keys import Bins

        return {key.name: key.made.labels for key in self.by if isinstance(key.made, Bins)}

    def sealed_terms(self, style: TextFormat) -> dict[str, str]:
        """The terms of the seal, by their options: all that decides what is counted."""
        given = self.given
        terms: dict[str, Any] = {f"--{name.replace('_', '-')}": cap for name, cap in self.caps.items()}
        terms["--by"] = json.dumps(self.names, ensure_ascii=False)
        terms |= {"--unit": given["unit"]} if "unit" in given else {"--unit-is-row": ROW_IS}
        terms |= {f"--{name}": json.dumps(rule, ensure_ascii=False) for name, rule in self.rules.items()}
        if self.bins:
            terms["--bins"] = json.dumps(self.bins, ensure_ascii=False)
        terms["--adjacency"] = self.bounds.adjacency
        if self.listed.keys:
            terms["--domain"] = json.dumps(self.listed.keys, ensure_ascii=False)
        terms |= self.measure.terms()
        terms |= style.named_options()
        return {name: str(value) for name, value in terms.items()}

    def about(self) -> dict[str, Any]:
        """What travels with OUT."""
        given = self.given
        table: dict[str, Any] = {"by": list(self.names), "unit": self.bounds.unit, **self.caps}
        table |= {"unit_name": self.unit} if "unit_name" in given else {}
        table |= {} if "unit" in given else {"unit_is": ROW_IS}
        table |= self.rules | ({"bins": self.bins} if self.bins else {})
        table["cells"] = "those that a threshold shows" if self.cells is None else self.cells.size
        table |= self.measure.table()
        found: dict[str, Any] = {
            f"{name}_total": str(value) for name, value in figures(self.mechanism.guarantee).items() if value
        }
        return {**found, "histogram": table, **self.measure.about()}

    def lines(self, paid: str = "") -> list[str]:
        """What it costs, and how wide the noise is. paid: what to say in place of a cost."""
        mechanism, unit = self.mechanism, self.unit
        spent = {name: value for name, value in figures(mechanism.guarantee).items() if value}
        spends = cost(spent, partial(amount, up=True))
        caps = [f"{name.replace('_', '-')} {self.caps[name]:,}" for name in CAPS if name in self.caps]
        bounded = f"one {unit} counts with {', '.join(caps[not self.by :]) or 'one sum, which --clamp bounds'}"
        if "unit" not in self.given:
            bounded = "each row is another unit, as you say"
        said = [f"{self.title}: {bounded}"]
        said += [paid or f"cost: {spends}{self.measure.implied} per {unit}, {mechanism.guarantee.adjacency}"]
        return [*said, *self.measure.lines()]

    def must_be_of(self, ledger: dpfast.Ledger) -> None:
        """Raises: ParameterError (a ledger of another unit)."""
        unit, ours = ledger.budget.unit, self.bounds.unit
        if unit != ours and "unit" in self.given:
            raise ParameterError(
                f"--unit must be that of the ledger, {unit!r}, got {ours!r}; dpfast ledger create --unit makes one "
                "of another unit"
            )
        if unit != ours:
            raise ParameterError(
                f"--unit-is-row must come with a ledger of unit {ours!r}, and that of {ledger.path} is {unit!r}: make one by "
                f"dpfast ledger create --unit {ours}, or give --unit, the column of each row's {unit}"
            )

    def explained(self, request: Request) -> str:
        """In words, with whether it would fit in a ledger that is named.

        Raises: LedgerError, ParameterError (a ledger of another unit or adjacency).
        """
        guarantee = called(self.mechanism.guarantee, self.unit)
        said = meaning.promise_in_words(guarantee, self.measure.holds, "an upper bound")
        lines = [*self.lines(), *self._fit(request), "nothing was read, and nothing was charged"]
        lines = [*map(terminal.printable, lines)]
        return "\n".join(lines) + "\n\n" + terminal.paragraph(terminal.printable(f"Meaning: {said}"))

    def _fit(self, request: Request) -> list[str]:
        if request.ledger_file is None:
            return []
        if not request.ledger_file.exists():
            return [f"{request.ledger_file} is not there, so nothing says whether a release fits"]
        ledger = dpfast.Ledger(request.ledger_file, shared_with=request.shared_with)
        self.must_be_of(ledger)
        fits = ledger.fits(self.mechanism.guarantee) != 0
        left = amounts(ledger.cost(ledger.remaining), ledger.cost(ledger.budget))
        return [f"{ledger.path}: {left} left: a new release {'fits' if fits else 'would not fit'}"]


# ------------------------------------------------------------------ parameters


def measure_of(given: Mapping[str, Any]) -> type[Count]:
    """The one that the options ask for."""
    if "quantile" in given:
        from dpfast.app.cli.quantiles import Quantiles  # late, for trees

        return Quantiles
    if "steps" in given:
        from dpfast.app.cli.running import Totals  # late, for most commands have no use for it

        return Totals
    return Mean if "mean" in given else Sum if "summed" in given else Count


def keys_of(given: Mapping[str, Any], names: Sequence[str]) -> tuple[Key, ...]:
    """What --by and --bins name. Raises: ParameterError."""
    from dpfast.app.tables.keys import Bins, Calendar, Key

    bins: dict[str, Bins] = {}
    for text in given.get("bins", ()):
        name = max((name for name in names if text.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            raise ParameterError(f"--bins must be NAME=A,B,C for a NAME of --by, got {text!r:.80}")
        if name in bins:
            raise ParameterError(f"--bins must be given once for each column, and came twice for {name!r:.80}")
        edges = [part.strip() for part in text.removeprefix(f"{name}=").split(",")]
        bins[name] = Bins.of(edges, [exact_real("bins", edge) for edge in edges])
    found = tuple(Key.of(name, bins) for name in names)
    if twice := {key.name for key in found if isinstance(key.made, Calendar)} & bins.keys():
        raise ParameterError(f"--bins must be of a column of numbers, got {min(twice)!r:.80}")
    return found


def _check(given: Mapping[str, Any], by: Sequence[str], keys: Sequence[Key]) -> None:
    """keys: what --by names. Raises: click.UsageError, ParameterError."""
    for broken, said in _combined(given):
        if broken:
            raise click.UsageError(said)
    for broken, rule in _ruled(given, by, keys):
        if broken:
            raise ParameterError(rule)


def _combined(given: Mapping[str, Any]) -> Iterable[tuple[bool, str]]:
    """Which options go together."""
    by, each_row, threshold, kind = "by" in given, "unit_is_row" in given, "threshold" in given, measure_of(given)
    yield "unit" not in given and not each_row, f"Missing option {kind.WHO}"
    yield "unit" in given and each_row, "'--unit-is-row' says that each row is a unit, and does not work with '--unit'"
    caps = given.keys() & {"max_partitions", "max_contributions"}
    missing = "Missing option '--max-partitions' or '--max-contributions': the most that one unit counts"
    yield by and not each_row and not caps, missing
    listed = given.keys() & {"domains", "bins"}
    of_keys = listed or threshold or given.keys() & {"max_partitions", "unknown"}
    alone = f"{dashed(*kind.OF_KEYS, by=', ')} and '--max-partitions' are about keys, and need '--by'"
    yield not by and bool(of_keys), alone
    yield by and not listed and not threshold, kind.UNLISTED
    yield from kind.combined(given)


def _ruled(given: Mapping[str, Any], by: Sequence[str], keys: Sequence[Key]) -> Iterable[tuple[bool, str]]:
    """What holds of values."""
    from dpfast.app.tables.keys import Bins

    yield len(set(by)) < len(by), "--by must name each column once"
    unit = given.get("unit")
    of_units = f"--by must not name the column of --unit, {unit!r:.80}: its values are units, not public keys"
    yield unit in {*by, *(key.column for key in keys)}, of_units
    yield from _wordy(given.get("unit_name", "unit"))
    others = {unit, *(key.name for key in keys if not isinstance(key.made, Bins))} - {None}
    yield from measure_of(given).ruled(given, by, others)


def _wordy(word: str) -> Iterable[tuple[bool, str]]:
    """What the name of a unit may be."""
    rule = f"--unit-name must be a word or a few, such as plane, of at most {LONGEST} letters, got {word!r:.80}"
    yield not word.strip() or not word.isprintable() or len(word) > LONGEST, rule


def listed_of(given: Mapping[str, Any], keys: Sequence[Key]) -> Listed:
    """The public keys: Cells, if they are of all columns. Raises: FileError, ParameterError."""
    from dpfast.app.tables.domain import domain_of
    from dpfast.app.tables.gathered import Cells, Listed
    from dpfast.app.tables.keys import RANGE, UNKNOWN, Bins

    by, made = [key.name for key in keys], {key.name: key.made for key in keys}
    found: dict[str, Domain] = {
        key.name: key.made.listed(f"--bins {key.name}") for key in keys if isinstance(key.made, Bins)
    }
    for text in given.get("domains", ()):
        named = [name for name in by if text.startswith(f"{name}=")]
        if not named and (len(by) > 1 or "=" in text):
            raise ParameterError(f"--domain must be NAME=KEYS for one of {', '.join(map(repr, by))}, got {text!r:.80}")
        name = max(named, key=len, default=by[0])
        how = made[name]
        if isinstance(how, Bins):
            raise ParameterError(f"--domain must be left out for {name!r:.80}: --bins lists its keys")
        if name in found:
            raise ParameterError(f"--domain must be given once for each column, and came twice for {name!r:.80}")
        listed = text.removeprefix(f"{name}=") if named else text
        option = f"--domain {name}".strip()
        if how is None and "-" in listed and RANGE.fullmatch(listed) and not is_file(Path(listed)):
            parts = f'--by "day({name})", or month(), week() or year()'
            raise ParameterError(f"{option} must be keys of a column as it is, and {listed} goes with {parts}")
        found[name] = domain_of(listed, option) if how is None else how.domain(listed, option)
    if "unknown" in given:
        found = {name: domain.with_text(UNKNOWN, "--unknown") for name, domain in found.items()}
    lacking = [name for name in by if name not in found]
    if "threshold" in given:
        if by and not lacking:
            raise click.UsageError(Count.UNLISTED)
        return Listed(found)
    if lacking:
        raise ParameterError(f"--domain must be given for each column, and there is none for {lacking[0]!r:.80}")
    return Cells({name: found[name] for name in by})


def _can_be(listed: Listed, given: Mapping[str, Any], by: Sequence[Key]) -> None:
    """Raises: ParameterError (a text with spaces, which no cell can be, for they are left out)."""
    if "strip" not in given:
        return
    texts = [("--null", text) for text in given.get("null", ())]
    texts += [
        (f"--domain {key.name}", text) for key in by if key.made is None for text in listed.keys.get(key.name, ())
    ]
    for option, text in texts:
        if text.strip() != text:
            rule = "must be without spaces at its ends, which --strip leaves out of all cells"
            raise ParameterError(f"{option} {rule}, got {text!r:.80}")


# ------------------------------------------------------------------ the release


class Release(NamedTuple):
    """What is asked for, open rows, and who pays. typed: the keys of each column, in its type."""

    request: Request
    asked: Asked
    payer: Payer
    rows: Rows
    typed: Sequence[Any]

    def about(self) -> dict[str, Any]:
        """What travels with OUT."""
        asked, key = self.asked, self.payer.key
        found = asked.about() | self.payer.about()
        if key is not None:
            kind, columns = kind_of(asked.measure.charged), by_column(asked.measure.charged)
            found["manifest"] = manifest(key.label, columns, kind, terms=key.terms, **asked.measure.size).metadata()
        return found


def _run(request: Request, asked: Asked) -> None:
    """Check, ask the ledger, read and count all rows; then pay, draw and write the table."""
    from dpfast.app.tables import cells as table
    from dpfast.app.tables.streams import PIPE

    request.check_files("ROWS", asked.listed.files)
    payer = _paying(request, asked)
    with request.interruptible(payer):
        if request.found == "compare" and not is_file(request.target):
            raise ParameterError(f"OUT must be the file of a release, got {request.target}")
        table.checked(request.target, **request.sink)
        release = opened(request, asked, payer)
        about, taken = release.about(), counted(release)
        noisy: list[Any] = []
        out = table.written(request.target, about, **request.sink)
        with request.writing(payer, lambda: _facts(release, noisy[0], about), out) as (write, page):
            payer.pays(None)  # an interrupt may come while the ledger is charged or noise is drawn
            noisy.append(_drawn(release, taken))
            payer.pays()
            write(noisy[0])
        if not request.quiet:
            name = "standard output" if request.target == PIPE else request.target
            rows = noisy[0].num_rows
            said = [*asked.lines(), *_spelled(release), f"{name}: {rows:,} row{'s' * (rows != 1)}"]
            request.tell(payer, page, said)


def opened(request: Request, asked: Asked, payer: Payer) -> Release:
    """The release, with open rows. Raises: FileError, ParameterError."""
    from dpfast.app.tables.rows import Columns, Rows
    from dpfast.app.tables.source import cells_decide

    measure = asked.measure
    columns = Columns(asked.by, asked.given.get("unit"), measure.value, measure.OPTION, **asked.rules)
    rows = Rows(request.source, columns, request.style, request.form)
    measure.check(rows)
    with cells_decide(rows.format):
        typed = asked.listed.typed(rows)
    payer.call(rows.name, asked.title)
    return Release(request, asked, payer, rows, typed)


def _spelled(release: Release) -> Iterable[str]:
    """What a listed text needs to match, which nothing of the rows tells."""
    from dpfast.app.tables.domain import is_text

    asked, held = release.asked, release.rows.held
    listed = asked.listed.keys
    if any(key.made is None and key.name in listed and is_text(kind) for key, kind in zip(asked.by, held, strict=True)):
        yield "keys are matched letter by letter; `dpfast look` checks their spelling"


def _paying(request: Request, asked: Asked) -> Payer:
    """Raises: what a charge would, before a row is read."""
    payer = Payer(request, asked.sealed_terms(request.style))
    if payer.ledger is not None:
        asked.must_be_of(payer.ledger)
        again = payer.ledger.expect(payer.key, asked.measure.charged, resume=request.resume)
        if request.found == "compare" and not again:
            raise ParameterError(
                f"--label must be that of a release, and {payer.ledger.path} has none of {payer.label!r:.60}"
            )
    return payer


def counted(release: Release) -> Any:
    """Reads all rows. Raises: FileError (they are damaged, or have changed meanwhile)."""
    from dpfast.app.tables.gathered import Gathered

    asked, rows = release.asked, release.rows
    held = Gathered(rows, asked.cells, as_reals=asked.measure.as_reals)
    with closing(terminal.Bar(quiet=release.request.quiet)) as bar:
        bar.show(text=rows.name)
        for batch in rows.batches():
            held.add(batch, release.typed)
            bar.show(text=f"{rows.name}: {held.read:,} rows")
        rows.must_be_the_same()
        bar.show(text=f"{rows.name}: counting")
        keys, units, values = held.taken()
        return asked.measure.counted(keys, EACH_ROW if units is None else units, values, release.payer.key)


def _drawn(release: Release, counted: Any) -> Any:
    """The noisy table; a ledger is charged first."""
    from dpfast.app.tables.gathered import of_type, table_of

    asked, payer = release.asked, release.payer
    how: dict[str, Any] = {"ledger": payer.ledger}
    if payer.key is not None:
        how |= {"key": payer.key, "resume": payer.resume}
    elif payer.ledger is not None:
        how["label"] = payer.label
    if asked.cells is not None:
        noisy = asked.measure.drawn(counted, threads=release.request.threads, **how)
        keys = asked.cells.columns(release.typed, asked.measure.EACH)
    else:
        given = asked.given
        noise = "gaussian" if "gaussian" in given["mechanism"] else "laplace"
        cost = {"epsilon": given["epsilon"], "delta": given["delta"], "sensitivity": counted.sensitivity}
        found = dpfast.thresholded(counted.keys, counted.counts, noise=noise, **cost, **how)
        noisy, listed = found.counts, found.keys.tolist()
        tuples = listed if len(asked.by) > 1 else [(each,) for each in listed]
        keys = [of_type([each[i] for each in tuples], kind) for i, kind in enumerate(release.rows.kinds)]
    return table_of(dict(zip(asked.names, keys, strict=True)), asked.measure.columns(noisy))


def _facts(release: Release, noisy: Any, about: Mapping[str, Any]) -> Facts:
    """What a report shows of this release, once OUT is there."""
    from dpfast.app.tables import first_rows

    asked, mechanism, request = release.asked, release.asked.mechanism, release.request
    first = noisy.slice(0, ROWS)
    unit = asked.unit
    notes = [
        f"What one {unit} has beyond the bounds was left out at random, so numbers are too low where one {unit} has much."
    ]
    each_row = "unit" not in asked.given
    notes = [] if each_row else notes
    notes += asked.measure.notes()
    return Facts(
        request.target.name, noisy.num_rows, asked.measure.noisy(first, noisy, about),
        called(mechanism.guarantee, unit), about,
        labels=[(name, [first_rows.shown(cell) for cell in first[name]]) for name in (*asked.names, *asked.measure.PUBLIC)],
        rows_are=asked.measure.rows_are(keyed=bool(asked.by)),
        title=request.report_title or "", each_row=each_row, balance=release.payer.balance([mechanism]), notes=notes,
    )  # fmt: skip
