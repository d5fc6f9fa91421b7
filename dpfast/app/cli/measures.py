# SPDX-License-Identifier: Apache-2.0
"""What `dpfast histogram` is asked of each cell: how many rows, or the sum or mean of a column.

A measure knows its options and what they rule out, the noise, the columns that it writes, and what
is said of them: in the seal, in the record beside OUT, on the terminal and in the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import click
import numpy as np

import dpfast
from dpfast.app.cli.options import LAW_OPTIONS, MECHANISMS, SECURE, dashed, law, near, number, one_way, together
from dpfast.app.report.facts import Noisy
from dpfast.counts.records.bounded_histogram import CAPS, Bounds, Caps
from dpfast.counts.records.means import MeanNoise
from dpfast.counts.records.partitions import BUCKETS, withholding
from dpfast.errors import ParameterError
from dpfast.noise.release.arrays import INT64_ENDS
from dpfast.privacy import meaning
from dpfast.privacy.formatting import approximate, plain, plus_minus, rounded
from dpfast.privacy.parameters import exact_real, power_of_two, shown

if TYPE_CHECKING:
    from dpfast.app.tables.rows import Rows

SPENT = ("epsilon", "delta", "rho", "sigma")
INTEGERS = {name: each for name, each in MECHANISMS.items() if not each.real}
FARTHEST = Fraction(2) ** 900  # that a clamp may reach: sums of int64 steps are doubles then
STEPS = 20  # the larger end of --clamp is about 2^STEPS steps of the grid
FINER = 30  # a clamp that is narrow and far from 0 has steps finer by 2^FINER at most
USUAL = Fraction(19, 20)

measure_options = together(
    click.option("--sum", "summed", metavar="NAME", help="Add up this column instead of counting rows."),
    click.option(
        "--mean", metavar="NAME", help="Release the mean of this column: writes sum, count and mean of the same rows."
    ),
    click.option(
        "--clamp",
        type=number,
        nargs=2,
        metavar="A B",
        help="With --sum or --mean: the public ends of each value, or without --max-per-partition of what a unit adds to a cell. "
        "With --quantile: of each value.",
    ),
    click.option(
        "--quantile",
        multiple=True,
        metavar="NAME=Q",
        help="A quantile of this column, such as age=0.5 for the median; more of the same column cost nothing.",
    ),
    click.option(
        "--step", type=number, help="With --quantile: the width of a cell of values; 1 by default for whole numbers."
    ),
    click.option(
        "--granularity",
        type=number,
        help="With --sum or --mean: the power of two to whose multiples values are rounded; by default a fine one.",
    ),
)

interval_options = together(
    click.option("--lower", type=number, help="Public lower bound of the noisy values."),
    click.option("--upper", type=number, help="Public upper bound of the noisy values."),
    click.option(
        "--intervals",
        type=number,
        is_flag=False,
        flag_value="0.95",
        metavar="[P]",
        help="Also write low and high, which contain a cell's bounded value with probability P, by default 0.95.",
    ),
    click.option("--jointly", is_flag=True, help="With --intervals: make them contain all cells at once."),
)


def noise_options(command: Any) -> Any:
    """The options that say which noise, and what it spends."""
    kinds = {name.removeprefix("--"): (kind, text) for name, kind, text in LAW_OPTIONS}
    for name in ("adjacency", "sigma", "rho", "delta", "epsilon"):
        kind, text = kinds[name]
        text = "With --epsilon, for a Gaussian or for --threshold." if name == "delta" else text
        command = click.option(f"--{name}", type=kind, help=text)(command)
    names = click.Choice([*INTEGERS])
    return click.option(
        "--mechanism", type=names, default="discrete-laplace", show_default=True, help="The distribution of the noise."
    )(command)


class Count:
    """How many rows a cell has, and the noise that hides one unit in it.

    bounds: what bounds a unit. cells: how many there are, or None of those that a threshold shows.
    step: what a step of the noisy integers is worth.
    """

    COLUMN: ClassVar[str] = "count"
    VALUE: ClassVar[str | None] = None  # the parameter that names a column of values
    OPTION: ClassVar[str] = "--sum"  # and its option
    EACH: int = 1  # rows of OUT for each combination of keys
    PUBLIC: ClassVar[tuple[str, ...]] = ()  # its columns without noise
    WHO: ClassVar[str] = "'--unit', or '--unit-is-row' if each row is another unit"
    OF_KEYS: ClassVar[tuple[str, ...]] = ("domain", "bins", "threshold", "unknown")  # options
    UNLISTED: ClassVar[str] = (
        "give either '--domain', the public keys, or '--threshold', if those of a column are not listed"
    )
    given: Mapping[str, Any]
    bounds: Bounds
    cells: int | None
    step: Fraction
    mechanism: Any

    def __init__(self, given: Mapping[str, Any], bounds: Bounds, cells: int | None) -> None:
        """Raises: click.UsageError, DTypeError, ParameterError."""
        self.given, self.cells = given, cells
        ends, self.step = self._ends(given)
        self.bounds = bounds._replace(**ends)
        self.mechanism = self._noise(*self.bounds.checked(summed=bool(ends)))
        self._public_ends()

    def _noise(self, caps: Caps, grid: Any) -> Any:
        """Raises: click.UsageError, DTypeError, ParameterError."""
        return noise_of(self.given, self.bounds.sensitivity(caps, grid, self.cells))

    # ------------------------------------------------------------------ its options

    @classmethod
    def usual(cls, caps: Mapping[str, int]) -> dict[str, int]:
        """Caps that nobody needs to give."""
        return {} if caps.keys() & set(CAPS[1:]) else {"max_per_partition": 1}

    @classmethod
    def combined(cls, given: Mapping[str, Any]) -> Iterable[tuple[bool, str]]:
        """Which options go together."""
        valued = given.keys() & {"summed", "mean"}
        yield len(valued) > 1, "'--sum' and '--mean' are two releases: give one of them; '--mean' writes a sum, too"
        ends = f"'{cls.OPTION}' and '--clamp' must be given together: the public ends of what is added up"
        yield bool(valued) != ("clamp" in given), ends
        alone = "'--granularity' is about values, and works only with '--sum' or '--mean'"
        yield "granularity" in given and not valued, alone
        yield "step" in given, "'--step' is about quantiles, and works only with '--quantile'"
        jointly = "jointly" in given and "intervals" not in given
        yield jointly, "'--jointly' says what '--intervals' contain, and works only with it"
        shown = (
            "'--intervals' must be left out with '--threshold': keys are shown where noise is high, so none would hold"
        )
        yield "intervals" in given and "threshold" in given, shown

    @classmethod
    def ruled(cls, given: Mapping[str, Any], by: Sequence[str], others: set[Any]) -> Iterable[tuple[bool, str]]:
        """What holds of values. others: columns that hold no values."""
        for name in cls.written(given):
            yield name in by, f"--by must not be {name}, because OUT has another column of this name: rename it in ROWS"
        value = None if cls.VALUE is None else given[cls.VALUE]
        yield value in others, f"{cls.OPTION} must name another column than --by and --unit, got {value!r:.80}"
        part = given.get("intervals", USUAL)
        yield not 0 < part < 1, f"--intervals must be above 0 and below 1, got {shown(part)}"

    @classmethod
    def written(cls, given: Mapping[str, Any]) -> list[str]:
        """The columns of OUT behind those of the keys."""
        return [cls.COLUMN, *(("low", "high") if "intervals" in given else ())]

    @classmethod
    def _ends(cls, _: Mapping[str, Any]) -> tuple[dict[str, Any], Fraction]:
        """The bounds of values, and what a step is worth. Raises: ParameterError."""
        return {}, Fraction(1)

    @property
    def value(self) -> str | None:
        """The column of ROWS whose values are taken."""
        return None if self.VALUE is None else self.given[self.VALUE]

    @property
    def charged(self) -> Any:
        """What a ledger is charged and a seal names: the mechanism, or one for each column."""
        return self.mechanism

    @property
    def implied(self) -> str:
        """What its cost implies, in words after it."""
        return ""

    @property
    def title(self) -> str:
        return self.COLUMN

    @property
    def size(self) -> dict[str, Any]:
        """That of what a seal names."""
        return {"buckets": BUCKETS} if self.cells is None else {"shape": (self.cells,)}

    def check(self, _: Rows) -> None:
        """Look at open rows. Raises: ParameterError (it cannot take them)."""

    @property
    def as_reals(self) -> bool:
        """Whether values that are whole numbers are read as float64."""
        return self.step != 1

    @property
    def holds(self) -> tuple[Fraction, Fraction] | None:
        """An (epsilon, delta) that is promised, or would hold."""
        return meaning.example(self.mechanism.guarantee, getattr(self.mechanism, "delta", cast("Any", None)))

    # ------------------------------------------------------------------ how wide

    @property
    def confidence(self) -> Fraction:
        """That of the intervals: the usual one if none are asked for."""
        return exact_real("intervals", self.given.get("intervals", USUAL))

    @property
    def half_width(self) -> Fraction | None:
        """That of the intervals that are asked for."""
        if "intervals" not in self.given:
            return None
        together = self.cells if self.cells and "jointly" in self.given else 1
        return self.within(self.confidence, together)

    def near(self, value: float, way: Fraction) -> int | float:
        """The end of an interval."""
        return value + int(way) if self.step == 1 else float(value + way)

    def within(self, confidence: Fraction, cells: int = 1) -> Fraction:
        return Fraction(self.mechanism.interval(confidence, cells=cells)) * self.step

    def _public_ends(self) -> tuple[int | float | None, int | float | None]:
        """Those of the noisy values. Raises: ParameterError."""
        dtype = np.dtype(np.int64 if self.step == 1 else float)
        low, high = (near(name, self.given.get(name), dtype) for name in ("lower", "upper"))
        if low is not None and high is not None and low > high:
            raise ParameterError(f"--lower must be at most --upper, got {low} and {high}")
        ends = INT64_ENDS if self.step == 1 else (-math.inf, math.inf)
        if (low is not None and low > ends[1]) or (high is not None and high < ends[0]):
            raise ParameterError("--lower and --upper must leave something of int64")
        return low, high

    # ------------------------------------------------------------------ what is said

    def terms(self) -> dict[str, Any]:
        """Those of the seal, by their options: all that decides what is measured."""
        return {}

    def table(self) -> dict[str, Any]:
        """What the record beside OUT says of the rows that are measured."""
        return {}

    def about(self) -> dict[str, Any]:
        """What it says of the noisy columns."""
        found: dict[str, Any] = {}
        if (width := self.half_width) is not None:
            found["intervals"] = {
                "confidence": str(self.confidence),
                "of": "all cells jointly" if "jointly" in self.given else "each cell",
                "half_width": str(width),
                "hold": "the bounded values, before the noise: what the bounds left out is not in them",
            }
        found["secure_means"] = SECURE
        low, high = self._public_ends()
        release = {"column": self.COLUMN, **self.mechanism.metadata(), "lower": low, "upper": high} | self._of_steps()
        if self.cells is None:
            release["threshold"] = (
                self.mechanism.threshold if self.step == 1 else self.near(0.0, self.mechanism.threshold * self.step)
            )
        found["releases"] = [release]
        return found

    def _of_steps(self) -> dict[str, str]:
        return {}

    def lines(self) -> list[str]:
        """How wide the noise is."""
        mechanism = self.mechanism
        width, noise = f"95 % within {plus_minus(self.within(USUAL))}", law(mechanism)
        if self.step != 1:  # the mechanism's own figures are in steps
            wide = approximate(float(mechanism.scale * self.step))
            noise = f"{'sigma' if 'gaussian' in self.given['mechanism'] else 'scale'} {wide}"
        if self.cells is None:
            level = rounded(mechanism.threshold * self.step, up=True)
            return [f"noise: {noise}, {width}", f"keys are shown from a noisy {self.COLUMN} of {level}"]
        jointly = f"; all {self.cells:,} cells jointly within {plus_minus(self.within(USUAL, self.cells))}"
        return [f"noise of a cell: {noise}, {width}{jointly if self.cells > 1 else ''}"]

    def notes(self) -> list[str]:
        """How to use the numbers, in sentences of a report."""
        return []

    def noisy(self, first: Any, out: Any, about: Mapping[str, Any]) -> list[Noisy]:
        """The columns of a report: their first rows, and the ends of all."""
        half, name = self.half_width or self.within(USUAL), self.COLUMN
        cells = first[name].to_pylist()
        low, high = (
            first[end].to_pylist() if self.half_width else [self.near(cell, way * half) for cell in cells]
            for end, way in (("low", -1), ("high", 1))
        )
        widths = {"one cell": plus_minus(self.within(USUAL))}
        if self.cells is not None and self.cells > 1:
            widths[f"all {self.cells:,} cells at once"] = plus_minus(self.within(USUAL, self.cells))
        return [Noisy(
            name, f"{name}s", cells, low, high, float(self.mechanism.stddev * self.step), about["releases"][0],
            self.confidence, "jointly" in self.given, widths, holds=f"the bounded {name}", **_range(out[name]),
        )]  # fmt: skip

    def rows_are(self, *, keyed: bool) -> str:
        """Why the rows that OUT has may be known."""
        if self.cells is None:
            return "The rows are the keys whose noisy number reached the threshold."
        return "The rows are all combinations of the public keys." if keyed else "The row is the total."

    # ------------------------------------------------------------------ the values

    def counted(self, keys: Any, units: Any, values: Any, key: Any) -> Any:
        """What the bounds leave of the rows. keys: places among the cells, if these are listed."""
        domain = None if self.cells is None else np.arange(self.cells, dtype=np.int32)
        return dpfast.bounded_histogram(keys, units, values=values, domain=domain, key=key, **self.bounds._asdict())

    def drawn(self, counted: dpfast.BoundedHistogram, **how: Any) -> Any:
        """The noisy cells of listed keys, before `columns`. how: as of the histogram's release."""
        return counted.release(self.mechanism, **how)

    def columns(self, noisy: Any) -> dict[str, Any]:
        """What OUT has of them: values within their bounds, and the ends of their intervals."""
        found = {self.COLUMN: noisy}
        if (width := self.half_width) is not None:
            steps, least = math.ceil(width / self.step), self._least()
            ends = [[min(max(int(n) + way * steps, least), INT64_ENDS[1]) for n in noisy.tolist()] for way in (-1, 1)]
            found |= {name: np.array(end, np.int64) for name, end in zip(("low", "high"), ends, strict=True)}
        if self.step != 1:
            found = {name: values * float(self.step) for name, values in found.items()}
        low, high = self._public_ends()
        if low is not None or high is not None:
            floor, top = INT64_ENDS if self.step == 1 else (-math.inf, math.inf)
            within = max(floor if low is None else low, floor), min(top if high is None else high, top)
            found[self.COLUMN] = np.clip(found[self.COLUMN], *within)
        return found

    def _least(self) -> int:
        """What no true number is below, in steps."""
        return 0


class Sum(Count):
    """The sum of a column's values, in steps."""

    COLUMN = "sum"
    VALUE = "summed"

    @classmethod
    def usual(cls, _: Mapping[str, int]) -> dict[str, int]:
        return {}

    @classmethod
    def _ends(cls, given: Mapping[str, Any]) -> tuple[dict[str, Any], Fraction]:
        clamp = Clamp.of(given)
        if clamp.ends[0] < 0 and "threshold" in given:
            raise ParameterError(f"--clamp must not reach below 0 with --threshold, got {shown(clamp.given[0])}")
        return clamp.bounds, clamp.step

    def terms(self) -> dict[str, Any]:
        ends = ", ".join(str(exact_real("clamp", end)) for end in self.given["clamp"])
        return {"--sum": self.value, "--clamp": ends, "--granularity": self.step}

    def table(self) -> dict[str, Any]:
        return {"sum": self.value, "clamp": [str(end) for end in self.given["clamp"]]}

    def _of_steps(self) -> dict[str, str]:
        return {"step": str(self.step)}

    def _least(self) -> int:
        return 0 if self.given["clamp"][0] >= 0 else INT64_ENDS[0]


class Mean(Count):
    """The mean of a column's values: their sum less the middle of --clamp, and the rows."""

    COLUMN = "mean"
    VALUE = "mean"
    OPTION = "--mean"
    mechanism: MeanNoise
    _found: dpfast.NoisyMeans

    @classmethod
    def usual(cls, _: Mapping[str, int]) -> dict[str, int]:
        return {}

    @classmethod
    def combined(cls, given: Mapping[str, Any]) -> Iterable[tuple[bool, str]]:
        yield from super().combined(given)
        keys = "'--mean' does not work with '--threshold': list the keys by '--domain'"
        yield "threshold" in given, keys
        rows = "'--mean' is about rows: give '--max-per-partition' or '--max-contributions', the most rows of one unit"
        yield "unit" in given and not given.keys() & set(CAPS[1:]), rows
        ends = "'--lower' and '--upper' are for noisy counts and sums: a mean lies within '--clamp'"
        yield bool(given.keys() & {"lower", "upper"}), ends
        sigma = "'--mean' takes no '--sigma', because sums and counts have one each: give '--epsilon' and '--delta', or '--rho'"
        yield "sigma" in given, sigma

    @classmethod
    def written(cls, given: Mapping[str, Any]) -> list[str]:
        return ["sum", "count", *super().written(given)]

    @classmethod
    def _ends(cls, given: Mapping[str, Any]) -> tuple[dict[str, Any], Fraction]:
        """The ends are rounded inwards, so that no mean lies beyond --clamp.

        By less than a step, by which intervals are wider.
        """
        clamp = Clamp.of(given, of_width=True)
        low, high = math.ceil(clamp.ends[0] / clamp.step), math.floor(clamp.ends[1] / clamp.step)
        if low >= high:
            raise ParameterError(
                f"--granularity must leave two values within --clamp, {' and '.join(map(shown, clamp.given))}, got {shown(clamp.step)}"
            )
        return {"lower": low * clamp.step, "upper": high * clamp.step, "granularity": clamp.step}, clamp.step

    def _noise(self, caps: Caps, grid: Any) -> MeanNoise:
        self._budget = self._way()
        epsilon, delta, rho = map(self._budget.get, ("epsilon", "delta", "rho"))
        return MeanNoise(self.bounds.of_mean(caps, grid, self.cells), grid, (epsilon, delta, rho))

    def _way(self) -> dict[str, Any]:
        """What is spent, by the names of `BoundedHistogram.mean`."""
        spends, takes = self.given.keys() & set(SPENT), INTEGERS[self.given["mechanism"]]
        refuse_others(self.given["mechanism"], spends)
        ways = {way: made for way, made in takes.spent.items() if "sigma" not in way}
        return {name: self.given[name] for name in one_way(ways, self.given)}

    @property
    def charged(self) -> Any:
        return self.mechanism.columns

    @property
    def half_step(self) -> Fraction:
        """What a step of the sums is worth."""
        return self.step / 2

    @property
    def middle(self) -> Fraction:
        """What is subtracted from each value."""
        return Fraction(self.bounds.lower + self.bounds.upper) / 2  # type: ignore[operator]  # both are Fractions

    # ------------------------------------------------------------------ what is said

    def terms(self) -> dict[str, Any]:
        ends = ", ".join(str(exact_real("clamp", end)) for end in self.given["clamp"])
        return {"--mean": self.value, "--clamp": ends, "--granularity": self.step}

    def table(self) -> dict[str, Any]:
        about = {"mean": self.value, "clamp": [str(end) for end in self.given["clamp"]], "middle": str(self.middle)}
        about["clamp_on_the_grid"] = [str(self.bounds.lower), str(self.bounds.upper)]
        return {**about, "mean_is": "middle + sum / count, within clamp; sum is of values less middle"}

    def widths(self, confidence: Fraction, cells: int = 1) -> dict[str, Fraction]:
        """How far the noise of a sum and of a count reaches, each by itself."""
        noise = {"sum": (self.mechanism.sums, self.half_step), "count": (self.mechanism.counts, Fraction(1))}
        return {name: each.interval(confidence, cells=cells) * step for name, (each, step) in noise.items()}

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "intervals" in self.given:
            found["intervals"] = {
                "confidence": str(self.confidence),
                "of": "all cells jointly" if "jointly" in self.given else "each cell",
                "half_width": {
                    name: str(width) for name, width in self.widths(self.confidence, self._together).items()
                },
                "hold": "the means of the bounded values, before the noise: what the bounds left out is not in them",
            }
        found["secure_means"] = SECURE
        sums, counts = (
            {"column": name, **each.metadata(), "lower": None, "upper": None} for name, each in self.charged.items()
        )
        found["releases"] = [sums | {"step": str(self.half_step), "less": str(self.middle)}, counts]
        return found

    def lines(self) -> list[str]:
        noise, wide = self.mechanism, self.widths(USUAL)
        scale = "sigma" if "gaussian" in self.given["mechanism"] else "scale"
        return [
            f"sum is of {self.value} less {plain(self.middle)}, and mean is {plain(self.middle)} + sum / count",
            f"noise of a sum: {scale} {approximate(float(noise.sums.scale * self.half_step))}, 95 % within {plus_minus(wide['sum'])}",
            f"noise of a count: {scale} {approximate(noise.counts.scale)}, 95 % within {plus_minus(wide['count'])}",
        ]

    def notes(self) -> list[str]:
        middle = plain(self.middle)
        return [
            f"The column sum is of {self.value} less {middle}, so that it takes little noise. The mean is {middle} + sum / count."
        ]

    def noisy(self, first: Any, out: Any, about: Mapping[str, Any]) -> list[Noisy]:
        some = slice(first.num_rows)
        found = dpfast.NoisyMeans(
            self._found.keys[some], self._found.sums[some], self._found.counts[some], self.mechanism
        )
        value, low, high = self._interval(found)
        jointly, ends = "jointly" in self.given, self.given["clamp"]
        mean = Noisy(
            "mean", "means", value.tolist(), low.tolist(), high.tolist(), math.nan,
            {"column": "mean", "lower": float(ends[0]), "upper": float(ends[1])}, self.confidence, jointly,
            holds="the bounded mean", **_range(out["mean"]),
        )  # fmt: skip
        parts = zip(self.charged.items(), (self.half_step, Fraction(1)), about["releases"], strict=True)
        return [mean, *(self._part(name, each, step, first, of, out) for (name, each), step, of in parts)]

    def _part(self, name: str, mechanism: Any, step: Fraction, first: Any, about: Mapping[str, Any], out: Any) -> Noisy:
        """The sums or the counts in a report, with intervals of their own."""
        half, cells = self.widths(self.confidence, self._together)[name], first[name].to_pylist()
        low, high = ([type(cell)(cell + way * half) for cell in cells] for way in (-1, 1))
        widths = {"one cell": plus_minus(self.widths(USUAL)[name])}
        if self.cells is not None and self.cells > 1:
            widths[f"all {self.cells:,} cells at once"] = plus_minus(self.widths(USUAL, self.cells)[name])
        return Noisy(
            name, f"{name}s", cells, low, high, float(mechanism.stddev * step), about, self.confidence,
            "jointly" in self.given, widths, holds=f"the bounded {name}", **_range(out[name]),
        )  # fmt: skip

    # ------------------------------------------------------------------ the values

    @property
    def _together(self) -> int:
        return self.cells if self.cells and "jointly" in self.given else 1

    def drawn(self, counted: dpfast.BoundedHistogram, **how: Any) -> dpfast.NoisyMeans:
        return counted.mean(**self._budget, **how)

    def _interval(self, noisy: dpfast.NoisyMeans) -> tuple[Any, Any, Any]:
        """Intervals for means of values within --clamp, whose ends may lie off the grid."""
        value, low, high = noisy.interval(self.confidence, cells=self._together)
        ends = [exact_real("clamp", end) for end in self.given["clamp"]]
        least, most = map(float, ends)
        inside = self.bounds.lower - ends[0], ends[1] - self.bounds.upper  # type: ignore[operator]  # all are Fractions
        return (
            value,
            np.minimum(np.maximum(low - float(inside[0]), least), value),
            np.maximum(np.minimum(high + float(inside[1]), most), value),
        )

    def columns(self, noisy: dpfast.NoisyMeans) -> dict[str, Any]:
        self._found = noisy
        found = {"sum": noisy.sums * float(self.half_step), "count": noisy.counts, "mean": noisy.value}
        if "intervals" in self.given:
            _, found["low"], found["high"] = self._interval(noisy)
        return found


class Clamp(NamedTuple):
    """The ends of values as they were given, their exact worth, and that of a step."""

    given: tuple[Any, Any]
    ends: tuple[Fraction, Fraction]
    step: Fraction

    @classmethod
    def of(cls, given: Mapping[str, Any], *, of_width: bool = False) -> Clamp:
        """From --clamp and --granularity. of_width: a step is by the width, not by the larger end.

        Raises: ParameterError.
        """
        low, high = given["clamp"]
        ends = exact_real("clamp", low), exact_real("clamp", high)
        if ends[0] > ends[1]:
            raise ParameterError(f"--clamp must be A and B, A at most B, got {shown(low)} and {shown(high)}")
        if of_width and ends[0] == ends[1]:
            raise ParameterError(f"--clamp must be A and B, A below B, for a mean, got {shown(low)} and {shown(high)}")
        most = max(map(abs, ends))
        if not 1 / FARTHEST <= most <= FARTHEST:
            raise ParameterError(
                f"--clamp must reach to 2**-900 at least and to 2**900 at most, got {shown(low)} and {shown(high)}"
            )
        if "granularity" in given:
            step = Fraction(2) ** power_of_two("granularity", given["granularity"])
            if not most / 2**62 <= step < 2 * most:
                raise ParameterError(
                    f"--granularity must be below twice the larger end of --clamp, and at least 2**-62 of it, got {shown(step)}"
                )
        else:
            by = max(ends[1] - ends[0], most / 2**FINER) if of_width else most
            step = Fraction(2) ** (by.numerator.bit_length() - by.denominator.bit_length() - STEPS)
        return cls((low, high), ends, step)

    @property
    def bounds(self) -> dict[str, Any]:
        """By the names of bounded_histogram."""
        return {"lower": self.given[0], "upper": self.given[1], "granularity": self.step}


def _range(column: Any) -> dict[str, Any]:
    """The least and the most of a noisy column."""
    every = column.to_numpy()
    return {"least": every.min().item(), "most": every.max().item()} if len(every) else {}


def noise_of(given: Mapping[str, Any], sensitivity: dpfast.Sensitivity) -> Any:
    """The mechanism of one column. Raises: click.UsageError, DTypeError, ParameterError."""
    name, spends = given["mechanism"], given.keys() & set(SPENT)
    if "threshold" in given:
        if spends - {"epsilon", "delta"}:
            raise click.UsageError(
                f"'--threshold' takes {dashed('epsilon', 'delta')}, and no {dashed(*spends - {'epsilon', 'delta'})}"
            )
        one_way({("epsilon", "delta"): dict}, given)
        noise = "gaussian" if "gaussian" in name else "laplace"
        return withholding(noise)(given["epsilon"], given["delta"], sensitivity)
    refuse_others(name, spends)
    ways = INTEGERS[name].spent
    way = one_way(ways, given)
    return ways[way](**{option: given[option] for option in way}, sensitivity=sensitivity)


def refuse_others(name: str, spends: Iterable[str]) -> None:
    """Refuse options of another mechanism. Raises: click.UsageError."""
    for option in set(spends) - INTEGERS[name].takes.keys():
        others = " and ".join(other for other in INTEGERS if option in INTEGERS[other].takes)
        raise click.UsageError(f"{name} takes no {dashed(option)}, as {others} would")
