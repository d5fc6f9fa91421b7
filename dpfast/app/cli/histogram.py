# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram`: from rows to a table of noisy counts or sums."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.app.cli.file_options import is_file, text_options
from dpfast.app.cli.ledger import amounts
from dpfast.app.cli.options import LAW_OPTIONS, MECHANISMS, SECURE, chosen, dashed, figures, law, near, number, one_way
from dpfast.app.cli.request import FORCE, PLACES, QUIET, RESUME, THREADS, Payer, Request, paying_options
from dpfast.app.report.facts import ROWS, Facts, Noisy
from dpfast.counts.records.bounded_histogram import CAPS, EACH_ROW, ROW_IS, Bounds
from dpfast.counts.records.partitions import BUCKETS, withholding
from dpfast.errors import ParameterError
from dpfast.noise.release.arrays import INT64_ENDS
from dpfast.noise.release.seal import by_column, kind_of, manifest
from dpfast.privacy import meaning
from dpfast.privacy.formatting import approximate, rounded
from dpfast.privacy.parameters import exact_real, power_of_two, shown

if TYPE_CHECKING:
    from dpfast.app.tables.domain import Domain
    from dpfast.app.tables.gathered import Cells, Listed
    from dpfast.app.tables.keys import Key
    from dpfast.app.tables.rows import Rows
    from dpfast.app.tables.text_format import TextFormat

SPENT = ("epsilon", "delta", "rho", "sigma")
INTEGERS = {name: each for name, each in MECHANISMS.items() if not each.real}
FARTHEST = Fraction(2) ** 900  # that a clamp may reach: sums of int64 steps are doubles then
STEPS = 20  # the larger end of --clamp is about 2^STEPS steps of the grid
USUAL = Fraction(19, 20)
EITHER = "give either '--domain', the public keys, or '--threshold', if those of a column are not listed"

EXAMPLES = """\b
Examples:
  dpfast histogram visits.csv out.csv --by city --unit person --max-partitions 2 --domain cities.txt --epsilon 1
  dpfast histogram visits.parquet out.csv --by city --by sex --unit person --max-partitions 2 \\
      --domain city=cities.txt --domain sex=f,m,x --epsilon 1 --intervals
  dpfast histogram visits.csv out.csv --by word --unit person --max-partitions 5 --threshold \\
      --epsilon 1 --delta 1e-8
  dpfast histogram visits.csv out.csv --by city --unit person --max-partitions 2 --domain cities.txt \\
      --sum hours --clamp 0 24 --epsilon 1
  dpfast histogram people.csv out.csv --by age --bins age=0,18,65,120 --unit-is-row --epsilon 1
  dpfast histogram visits.csv out.csv --by "week(date, Europe/Oslo)" --domain 2026-W01..2026-W53 --unit person \\
      --max-partitions 4 --epsilon 1
  dpfast histogram visits.csv out.csv --by city --unit person --max-partitions 2 --domain cities.txt \\
      --epsilon 1 --ledger budget.db --key-file visits.key --label "visits 2026-11" --resume
"""


def _law_options(command: Any) -> Any:
    """The options that say which noise, and what it spends."""
    kinds = {name.removeprefix("--"): (kind, text) for name, kind, text in LAW_OPTIONS}
    for name in ("adjacency", "sigma", "rho", "delta", "epsilon"):
        kind, text = kinds[name]
        text = "With --epsilon: of a Gaussian, or of --threshold." if name == "delta" else text
        command = click.option(f"--{name}", type=kind, help=text)(command)
    names = click.Choice([*INTEGERS])
    return click.option(
        "--mechanism", type=names, default="discrete-laplace", show_default=True, help="How the noise is drawn."
    )(command)


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="ROWS", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--by",
    multiple=True,
    metavar="NAME",
    help='A column whose values are keys, or the "week(NAME)", month, day or year of its dates, "week(NAME, Europe/Oslo)" by other clocks than UTC\'s; repeat it. '
    "Without it there is one cell, the total.",
)
@click.option("--unit", metavar="NAME", help="The column of whom the promise protects, such as person.")
@click.option(
    "--unit-is-row", is_flag=True, help="Instead of --unit: each row is another one. You say so, and nothing checks it."
)
@click.option(
    "--max-partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Cells, of all columns of --by together, that one unit counts in, at most.",
)
@click.option(
    "--max-per-partition",
    type=click.IntRange(1),
    metavar="N",
    help="Rows of one unit in a cell, at most; of counts 1 by default.",
)
@click.option("--max-contributions", type=click.IntRange(1), metavar="N", help="Rows of one unit in all, at most.")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="[NAME=]KEYS",
    help="The public keys of a column: a file with one a line, or A,B,C, or 1..12. NAME if there are several columns. "
    "Beside --threshold, of some of them: other rows are left out.",
)
@click.option(
    "--bins",
    multiple=True,
    metavar="NAME=A,B,C",
    help="Keys of a column of numbers, in place of a --domain: [A, B) and [B, C). Other numbers are left out.",
)
@click.option("--strip", is_flag=True, help="Leave out spaces at the ends of texts.")
@click.option("--null", multiple=True, metavar="TEXT", help="Such a cell is missing, in each column; repeat it.")
@click.option("--unknown", is_flag=True, help="Rows whose key is missing are counted, too, under the key unknown.")
@click.option(
    "--threshold", is_flag=True, help="Show the keys that no --domain lists, where their noisy count is high."
)
@click.option("--sum", "summed", metavar="NAME", help="Add up this column instead of counting rows.")
@click.option(
    "--clamp",
    type=number,
    nargs=2,
    metavar="A B",
    help="With --sum: public ends of each value, or without --max-per-partition of what a unit adds to a cell.",
)
@click.option(
    "--granularity", type=number, help="With --sum: values are rounded to it, a power of two; by default a fine one."
)
@_law_options
@text_options
@click.option("--lower", type=number, help="Public lower bound of the noisy values.")
@click.option("--upper", type=number, help="Public upper bound of the noisy values.")
@click.option(
    "--intervals",
    type=number,
    is_flag=False,
    flag_value="0.95",
    metavar="[P]",
    help="Also write low and high: they hold a cell's bounded value with probability P, 0.95 if it is left out.",
)
@click.option("--jointly", is_flag=True, help="With --intervals: they hold all cells at once.")
@paying_options("", "these ROWS")
@RESUME
@click.option(
    "--verify", is_flag=True, help="Draw a release under a key again and compare it with OUT. Nothing is charged."
)
@click.option("--explain", is_flag=True, help="Say what it costs and how wide the noise is, and open no rows.")
@FORCE
@QUIET
@THREADS
@PLACES
def histogram(**options: Any) -> None:
    """Count the rows of ROWS by public keys, or add up a column, and write the noisy table OUT.

    ROWS is a .csv, .tsv, .jsonl, .parquet, .arrow or .feather file, a folder of such files, or -
    for standard input. One unit, such as a person, has any number of rows. It counts in at most
    --max-partitions cells, each time with at most --max-per-partition rows, chosen at random. So
    the noise hides whatever one unit does.

    OUT is such a file, or - for standard output. It has one row for each combination of keys, with
    the columns of --by, then count or sum. Rows with another key, and rows without a key (but for
    --unknown), a unit or a value, are left out. Nothing says how many they were.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a CSV file in
    OUT.json. OUT appears only when it is complete. What was charged stays charged, whatever becomes
    of OUT. With --key-file, a run that was killed is begun again with --resume: it gives the same
    OUT, and is charged once.
    """
    request = Request.of(options, verify=options["verify"])
    asked = Asked.of(options, request)
    if options["explain"]:
        click.echo(asked.explained())
        return
    _run(request, asked)


class Asked(NamedTuple):
    """What is asked for, checked as far as it can be before a row is read.

    bounds: what bounds a unit. step: what a step of a sum is worth. listed: keys that are public.
    """

    given: Mapping[str, Any]
    by: tuple[Key, ...]
    listed: Listed
    bounds: Bounds
    step: Fraction
    sensitivity: dpfast.Sensitivity
    mechanism: Any

    @classmethod
    def of(cls, options: Mapping[str, Any], request: Request) -> Asked:
        """Raises: click.UsageError, DTypeError, FileError, ParameterError."""
        given = {name: value for name, value in chosen(options).items() if value != ()}
        names: tuple[str, ...] = given.get("by", ())
        by = _keys(given, names)
        _check(given, names, by)
        request.check_payer()
        listed = _listed(given, by)
        caps = {name: given[name] for name in CAPS if name in given}
        if not by:
            caps["max_partitions"] = 1
        if "summed" not in given and not caps.keys() & set(CAPS[1:]):
            caps["max_per_partition"] = 1
        ends, step = _ends(given)
        about = {name: given[name] for name in ("adjacency", "unit") if name in given}
        bounds = Bounds(**caps, **ends, **about)
        if "unit" not in given:
            bounds = bounds._replace(unit=EACH_ROW.value).of_each_row()
        checked = bounds.checked(summed="summed" in given)
        sensitivity = bounds.sensitivity(*checked, None if "threshold" in given else cast("Cells", listed).size)
        made = cls(given, by, listed, bounds, step, sensitivity, _mechanism(given, sensitivity))
        made.public_ends()
        return made

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
        """Whom the promise protects."""
        return self.bounds.unit

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of keys in OUT."""
        return tuple(key.name for key in self.by)

    @property
    def title(self) -> str:
        return f"{self.column} by {', '.join(self.names)}" if self.by else f"{self.column} in all"

    @property
    def rules(self) -> dict[str, Any]:
        """How cells become keys and units, by the names of Columns."""
        return {name: self.given[name] for name in ("strip", "null", "unknown") if name in self.given}

    @property
    def bins(self) -> dict[str, list[str]]:
        """The labels of each column of bins."""
        from dpfast.app.tables.keys import Bins

        return {key.name: key.made.labels for key in self.by if isinstance(key.made, Bins)}

    @property
    def column(self) -> str:
        return "sum" if "summed" in self.given else "count"

    @property
    def confidence(self) -> Fraction:
        """That of the intervals: the usual one if none are asked for."""
        return exact_real("intervals", self.given.get("intervals", USUAL))

    @property
    def half_width(self) -> Fraction | None:
        """That of the intervals that are asked for."""
        if "intervals" not in self.given:
            return None
        together = self.cells.size if self.cells and "jointly" in self.given else 1
        return self.within(self.confidence, together)

    def near(self, value: float, way: Fraction) -> int | float:
        """The end of an interval."""
        return value + int(way) if self.step == 1 else float(value + way)

    def within(self, confidence: Fraction, cells: int = 1) -> Fraction:
        return Fraction(self.mechanism.interval(confidence, cells=cells)) * self.step

    def public_ends(self) -> tuple[int | float | None, int | float | None]:
        """Those of the noisy values. Raises: ParameterError."""
        dtype = np.dtype(np.int64 if self.step == 1 else float)
        low, high = (near(name, self.given.get(name), dtype) for name in ("lower", "upper"))
        if low is not None and high is not None and low > high:
            raise ParameterError(f"--lower must be at most --upper, got {low} and {high}")
        ends = INT64_ENDS if self.step == 1 else (-math.inf, math.inf)
        if (low is not None and low > ends[1]) or (high is not None and high < ends[0]):
            raise ParameterError("--lower and --upper must leave something of int64")
        return low, high

    def public(self, style: TextFormat) -> dict[str, str]:
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
        if self.column == "sum":
            ends = ", ".join(str(exact_real("clamp", end)) for end in given["clamp"])
            terms |= {"--sum": given["summed"], "--clamp": ends, "--granularity": self.step}
        terms |= style.named_options()
        return {name: str(value) for name, value in terms.items()}

    def about(self) -> dict[str, Any]:
        """What travels with OUT."""
        given = self.given
        table: dict[str, Any] = {"by": list(self.names), "unit": self.unit, **self.caps}
        table |= {} if "unit" in given else {"unit_is": ROW_IS}
        table |= self.rules | ({"bins": self.bins} if self.bins else {})
        table["cells"] = "those that a threshold shows" if self.cells is None else self.cells.size
        if self.column == "sum":
            table |= {"sum": given["summed"], "clamp": [str(end) for end in given["clamp"]]}
        found: dict[str, Any] = {
            f"{name}_total": str(value) for name, value in figures(self.mechanism.guarantee).items() if value
        }
        found["histogram"] = table
        if (width := self.half_width) is not None:
            found["intervals"] = {
                "confidence": str(self.confidence),
                "of": "all cells jointly" if "jointly" in given else "each cell",
                "half_width": str(width),
                "hold": "the bounded values, before the noise: what the bounds left out is not in them",
            }
        low, high = self.public_ends()
        found["secure_means"] = SECURE
        found["releases"] = [{"column": self.column, **self.mechanism.metadata(), "lower": low, "upper": high}]
        if self.column == "sum":
            found["releases"][0]["step"] = str(self.step)
        if self.cells is None:
            found["releases"][0]["threshold"] = (
                self.mechanism.threshold if self.step == 1 else self.near(0.0, self.mechanism.threshold * self.step)
            )
        return found

    def lines(self) -> list[str]:
        """What it costs, and how wide the noise is."""
        mechanism, unit = self.mechanism, self.unit
        spent = {name: value for name, value in figures(mechanism.guarantee).items() if value}
        cost = amounts(spent, up=True)
        caps = [f"{name.replace('_', '-')} {self.caps[name]:,}" for name in CAPS if name in self.caps]
        bounded = f"one {unit} counts with {', '.join(caps[not self.by :]) or 'one sum, which --clamp bounds'}"
        if "unit" not in self.given:
            bounded = "each row is another unit, as you say"
        said = [f"{self.title}: {bounded}"]
        said += [f"cost: {cost} per {unit}, {mechanism.adjacency}"]
        width, noise = f"95 % within {_within(self.within(USUAL))}", law(mechanism)
        if self.step != 1:  # the mechanism's own figures are in steps
            wide = approximate(float(mechanism.scale * self.step))
            noise = f"{'sigma' if 'gaussian' in self.given['mechanism'] else 'scale'} {wide}"
        if self.cells is None:
            level = rounded(mechanism.threshold * self.step, up=True)
            return [*said, f"noise: {noise}, {width}", f"keys are shown from a noisy {self.column} of {level}"]
        jointly = f"; all {self.cells.size:,} cells jointly within {_within(self.within(USUAL, self.cells.size))}"
        return [*said, f"noise of a cell: {noise}, {width}{jointly if self.cells.size > 1 else ''}"]

    def explained(self) -> str:
        promise = self.mechanism.guarantee
        delta_of: Any = getattr(self.mechanism, "delta", None)
        said = meaning.promise_in_words(promise, meaning.example(promise, delta_of), "an upper bound")
        lines = [*map(terminal.printable, self.lines()), "nothing was read, and nothing was charged"]
        return "\n".join(lines) + "\n\n" + terminal.paragraph(terminal.printable(f"Meaning: {said}"))


def _within(width: Fraction) -> str:
    return f"±{width.numerator:,}" if width.denominator == 1 else f"±{rounded(width, up=True)}"


# ------------------------------------------------------------------ parameters


def _keys(given: Mapping[str, Any], names: Sequence[str]) -> tuple[Key, ...]:
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
    by, each_row, threshold = "by" in given, "unit_is_row" in given, "threshold" in given
    nobody = "Missing option '--unit', or '--unit-is-row' if each row is another unit"
    yield "unit" not in given and not each_row, nobody
    yield "unit" in given and each_row, "'--unit-is-row' says that each row is a unit, and goes without '--unit'"
    caps = given.keys() & {"max_partitions", "max_contributions"}
    missing = "Missing option '--max-partitions' or '--max-contributions': what one unit counts, at most"
    yield by and not each_row and not caps, missing
    listed = given.keys() & {"domains", "bins"}
    of_keys = listed or threshold or given.keys() & {"max_partitions", "unknown"}
    alone = "'--domain', '--bins', '--threshold', '--unknown' and '--max-partitions' are of keys, and go with '--by'"
    yield not by and bool(of_keys), alone
    yield by and not listed and not threshold, EITHER
    ends = "'--sum' and '--clamp' must be given together: the public ends of what is added up"
    yield ("summed" in given) != ("clamp" in given), ends
    yield "granularity" in given and "summed" not in given, "'--granularity' is of sums, and goes with '--sum' alone"
    jointly = "jointly" in given and "intervals" not in given
    yield jointly, "'--jointly' says what '--intervals' hold, and goes with it alone"
    shown = "'--intervals' must be left out with '--threshold': keys are shown where noise is high, so none would hold"
    yield "intervals" in given and "threshold" in given, shown


def _ruled(given: Mapping[str, Any], by: Sequence[str], keys: Sequence[Key]) -> Iterable[tuple[bool, str]]:
    """What holds of values."""
    from dpfast.app.tables.keys import Bins

    yield len(set(by)) < len(by), "--by must name each column once"
    unit = given.get("unit")
    of_units = f"--by must not name the column of --unit, {unit!r:.80}: its values are units, not public keys"
    yield unit in {*by, *(key.column for key in keys)}, of_units
    written = ["sum" if "summed" in given else "count", *(("low", "high") if "intervals" in given else ())]
    for name in written:
        yield name in by, f"--by must not be {name}, for OUT has another column of this name: rename it in ROWS"
    summed = given.get("summed")
    others = {unit, *(key.name for key in keys if not isinstance(key.made, Bins))} - {None}
    yield summed in others, f"--sum must name another column than --by and --unit, got {summed!r:.80}"
    part = given.get("intervals", USUAL)
    yield not 0 < part < 1, f"--intervals must be above 0 and below 1, got {shown(part)}"


def _listed(given: Mapping[str, Any], keys: Sequence[Key]) -> Listed:
    """The public keys: Cells, if they are of all columns. Raises: FileError, ParameterError."""
    from dpfast.app.tables.domain import domain_of
    from dpfast.app.tables.gathered import Cells, Listed
    from dpfast.app.tables.keys import UNKNOWN, Bins

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
        found[name] = domain_of(listed, option) if how is None else how.domain(listed, option)
    if "unknown" in given:
        found = {name: domain.with_text(UNKNOWN, "--unknown") for name, domain in found.items()}
    lacking = [name for name in by if name not in found]
    if "threshold" in given:
        if by and not lacking:
            raise click.UsageError(EITHER)
        return Listed(found)
    if lacking:
        raise ParameterError(f"--domain must be given for each column, and there is none for {lacking[0]!r:.80}")
    return Cells({name: found[name] for name in by})


def _ends(given: Mapping[str, Any]) -> tuple[dict[str, Any], Fraction]:
    """The options of sums, and what a step is worth. Raises: ParameterError."""
    if "summed" not in given:
        return {}, Fraction(1)
    low, high = given["clamp"]
    ends = [exact_real("clamp", low), exact_real("clamp", high)]
    if ends[0] > ends[1]:
        raise ParameterError(f"--clamp must be A and B, A at most B, got {shown(low)} and {shown(high)}")
    most = max(map(abs, ends))
    if not 1 / FARTHEST <= most <= FARTHEST:
        raise ParameterError(
            f"--clamp must reach to 2**-900 at least and to 2**900 at most, got {shown(low)} and {shown(high)}"
        )
    if ends[0] < 0 and "threshold" in given:
        raise ParameterError(f"--clamp must not reach below 0 with --threshold, got {shown(low)}")
    if "granularity" in given:
        step = Fraction(2) ** power_of_two("granularity", given["granularity"])
        if not most / 2**62 <= step < 2 * most:
            raise ParameterError(
                f"--granularity must be below twice the larger end of --clamp, and at least 2**-62 of it, got {shown(step)}"
            )
    else:
        step = Fraction(2) ** (most.numerator.bit_length() - most.denominator.bit_length() - STEPS)
    return {"lower": low, "upper": high, "granularity": step}, step


def _mechanism(given: Mapping[str, Any], sensitivity: dpfast.Sensitivity) -> Any:
    """Raises: click.UsageError, DTypeError, ParameterError."""
    name, spends = given["mechanism"], given.keys() & set(SPENT)
    if "threshold" in given:
        if spends - {"epsilon", "delta"}:
            raise click.UsageError(
                f"'--threshold' takes {dashed('epsilon', 'delta')}, and no {dashed(*spends - {'epsilon', 'delta'})}"
            )
        one_way({("epsilon", "delta"): dict}, given)
        noise = "gaussian" if "gaussian" in name else "laplace"
        return withholding(noise)(given["epsilon"], given["delta"], sensitivity)
    takes = INTEGERS[name]
    for option in spends - takes.takes.keys():
        others = " and ".join(other for other in INTEGERS if option in INTEGERS[other].takes)
        raise click.UsageError(f"{name} takes no {dashed(option)}, as {others} would")
    way = one_way(takes.spent, given)
    return takes.spent[way](**{option: given[option] for option in way}, sensitivity=sensitivity)


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
            size: Any = {"buckets": BUCKETS} if asked.cells is None else {"shape": (asked.cells.size,)}
            size["terms"] = key.terms
            columns = by_column(asked.mechanism)
            found["manifest"] = manifest(key.label, columns, kind_of(asked.mechanism), **size).metadata()
        return found


def _run(request: Request, asked: Asked) -> None:
    """Check, ask the ledger, read and count all rows; then pay, draw and write the table."""
    from dpfast.app.tables import cells as table
    from dpfast.app.tables.streams import PIPE

    request.check_files("ROWS", asked.listed.files)
    payer = _paying(request, asked)
    if request.found == "compare" and not is_file(request.target):
        raise ParameterError(f"OUT must be the file of a release, got {request.target}")
    table.checked(request.target, **request.sink)
    release = _opened(request, asked, payer)
    about, counted = release.about(), _counted(release)
    noisy: list[Any] = []
    out = table.written(request.target, about, **request.sink)
    with request.writing(payer, lambda: _facts(release, noisy[0], about), out) as (write, page):
        payer.pays(None)  # an interrupt may come while the ledger is charged or noise is drawn
        noisy.append(_drawn(release, counted))
        payer.pays()
        write(noisy[0])
    if not request.quiet:
        name = "standard output" if request.target == PIPE else request.target
        rows = noisy[0].num_rows
        request.tell(payer, page, [*asked.lines(), f"{name}: {rows:,} row{'s' * (rows != 1)}"])


def _opened(request: Request, asked: Asked, payer: Payer) -> Release:
    """The release, with open rows. Raises: FileError, ParameterError."""
    from dpfast.app.tables.rows import Columns, Rows
    from dpfast.app.tables.source import cells_decide

    columns = Columns(asked.by, asked.given.get("unit"), asked.given.get("summed"), **asked.rules)
    rows = Rows(request.source, columns, request.style, request.form)
    with cells_decide(rows.format):
        typed = asked.listed.typed(rows)
    payer.call(rows.name, asked.title)
    return Release(request, asked, payer, rows, typed)


def _paying(request: Request, asked: Asked) -> Payer:
    """Raises: what a charge would, before a row is read."""
    payer = Payer(request, asked.public(request.style))
    if payer.ledger is not None:
        again = payer.ledger.expect(payer.key, asked.mechanism, resume=request.resume)
        if request.found == "compare" and not again:
            raise ParameterError(
                f"--label must be that of a release, and {payer.ledger.path} has none of {payer.label!r:.60}"
            )
    return payer


def _counted(release: Release) -> dpfast.BoundedHistogram:
    """Reads all rows. Raises: FileError (they are damaged, or have changed meanwhile)."""
    from dpfast.app.tables.gathered import Gathered

    asked, rows = release.asked, release.rows
    held = Gathered(rows, asked.cells, as_reals=asked.step != 1)
    with closing(terminal.Bar(quiet=release.request.quiet)) as bar:
        bar.show(text=rows.name)
        for batch in rows.batches():
            held.add(batch, release.typed)
            bar.show(text=f"{rows.name}: {held.read:,} rows")
        rows.must_be_the_same()
        bar.show(text=f"{rows.name}: counting")
        keys, units, values = held.taken()
        domain = None if asked.cells is None else np.arange(asked.cells.size, dtype=np.int32)
        how = {"domain": domain, "key": release.payer.key, **asked.bounds._asdict()}
        return dpfast.bounded_histogram(keys, EACH_ROW if units is None else units, values=values, **how)


def _drawn(release: Release, counted: dpfast.BoundedHistogram) -> Any:
    """The noisy table; a ledger is charged first."""
    from dpfast.app.tables.gathered import of_type, table_of

    asked, payer = release.asked, release.payer
    how: dict[str, Any] = {"ledger": payer.ledger}
    if payer.key is not None:
        how |= {"key": payer.key, "resume": payer.resume}
    elif payer.ledger is not None:
        how["label"] = payer.label
    if asked.cells is not None:
        noisy = counted.release(asked.mechanism, threads=release.request.threads, **how)
        keys = asked.cells.columns(release.typed)
    else:
        given = asked.given
        noise = "gaussian" if "gaussian" in given["mechanism"] else "laplace"
        cost = {"epsilon": given["epsilon"], "delta": given["delta"], "sensitivity": counted.sensitivity}
        found = dpfast.thresholded(counted.keys, counted.counts, noise=noise, **cost, **how)
        noisy, listed = found.counts, found.keys.tolist()
        tuples = listed if len(asked.by) > 1 else [(each,) for each in listed]
        keys = [of_type([each[i] for each in tuples], kind) for i, kind in enumerate(release.rows.kinds)]
    return table_of(dict(zip(asked.names, keys, strict=True)), _values(asked, noisy))


def _facts(release: Release, noisy: Any, about: Mapping[str, Any]) -> Facts:
    """What a report shows of this release, once OUT is there."""
    from dpfast.app.tables import first_rows

    asked, mechanism, request = release.asked, release.asked.mechanism, release.request
    first = noisy.slice(0, ROWS)
    every_combination = "The rows are all combinations of the public keys." if asked.by else "The row is the total."
    unit = asked.unit
    notes = [
        f"What one {unit} has beyond the bounds was left out at random, so numbers are too low where one {unit} has much."
    ]
    if "unit" not in asked.given:
        notes = ["Each row is taken for another unit. Whoever released it says so; nothing has checked it."]
    return Facts(
        request.target.name, noisy.num_rows, [_column(asked, first, noisy[asked.column].to_numpy(), about)],
        mechanism.guarantee, about,
        labels=[(name, [first_rows.shown(cell) for cell in first[name]]) for name in asked.names],
        rows_are=every_combination if asked.cells else "The rows are the keys whose noisy number reached the threshold.",
        title=request.report_title or "", balance=release.payer.balance([mechanism]), notes=notes,
    )  # fmt: skip


def _column(asked: Asked, first: Any, every: Any, about: Mapping[str, Any]) -> Noisy:
    """The noisy column of a report: its first rows, and the ends of all."""
    half, name = asked.half_width or asked.within(USUAL), asked.column
    cells = first[name].to_pylist()
    low, high = (
        first[end].to_pylist() if asked.half_width else [asked.near(cell, way * half) for cell in cells]
        for end, way in (("low", -1), ("high", 1))
    )
    widths = {"one cell": _within(asked.within(USUAL))}
    if asked.cells is not None and asked.cells.size > 1:
        widths[f"all {asked.cells.size:,} cells at once"] = _within(asked.within(USUAL, asked.cells.size))
    return Noisy(
        name, f"{name}s", cells, low, high, float(asked.mechanism.stddev * asked.step), about["releases"][0],
        asked.confidence, "jointly" in asked.given, widths, holds=f"the bounded {name}",
        least=every.min().item() if len(every) else None, most=every.max().item() if len(every) else None,
    )  # fmt: skip


def _values(asked: Asked, noisy: Any) -> dict[str, Any]:
    """The noisy values within their bounds, and the ends of their intervals."""
    given, found = asked.given, {asked.column: noisy}
    if (width := asked.half_width) is not None:
        steps = math.ceil(width / asked.step)
        least = 0 if asked.column == "count" or given["clamp"][0] >= 0 else INT64_ENDS[0]
        ends = [[min(max(int(n) + way * steps, least), INT64_ENDS[1]) for n in noisy.tolist()] for way in (-1, 1)]
        found |= {name: np.array(end, np.int64) for name, end in zip(("low", "high"), ends, strict=True)}
    if asked.step != 1:
        found = {name: values * float(asked.step) for name, values in found.items()}
    low, high = asked.public_ends()
    if low is not None or high is not None:
        floor, top = INT64_ENDS if asked.step == 1 else (-math.inf, math.inf)
        within = max(floor if low is None else low, floor), min(top if high is None else high, top)
        found[asked.column] = np.clip(found[asked.column], *within)
    return found
