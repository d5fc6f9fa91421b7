# SPDX-License-Identifier: Apache-2.0
"""The command line: `dpfast privatize`, `dpfast explain` and `dpfast info`.

Exit codes: 0 done, 1 failed, 2 wrong usage or parameters, 130 interrupted.
"""

from __future__ import annotations

import json
import math
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

try:
    import click
except ModuleNotFoundError:
    sys.stderr.write("Error: the command line needs click: pip install 'dpfast[cli]'\n")
    raise SystemExit(2) from None

import numpy as np

import dpfast
from dpfast.errors import DpfastError, DTypeError, ParameterError
from dpfast.privacy import gaussian
from dpfast.privacy.parameters import exact_positive, exact_real, shown

Number: TypeAlias = Fraction | Decimal
GaussianLaw: TypeAlias = dpfast.Gaussian | dpfast.DiscreteGaussian
Mechanism: TypeAlias = dpfast.DiscreteLaplace | dpfast.Laplace | GaussianLaw
Command = TypeVar("Command", bound=Callable[..., object])
Ways: TypeAlias = Mapping[tuple[str, ...], Callable[..., Any]]  # options that are given together, and what they make
EXTRAS = {"pyarrow": "cli", "tqdm": "cli", "matplotlib": "plot"}
CONFIDENCES = Fraction(1, 2), Fraction(19, 20), Fraction(99, 100)
EXAMPLES = """\b
Examples:
  dpfast privatize in.csv out.csv --column count --epsilon 1 --sensitivity 1
  dpfast privatize in.csv out.csv --column hours --mechanism laplace --epsilon 1 --l0 1 --linf 24
  dpfast privatize in.npy out.npy --mechanism discrete-gaussian --epsilon 1 --delta 1e-6 --l0 50 --linf 1
"""
EXAMPLE_DELTA = Fraction(1, 10**6)
MOST_RHO = 1000  # beyond, an epsilon would say nothing


class Law(NamedTuple):
    """A mechanism on the command line: one of the ways to say what a neighbour changes, one to say what is spent."""

    change: Ways
    spent: Ways
    also: tuple[str, ...] = ()

    @property
    def takes(self) -> dict[str, None]:
        return dict.fromkeys([*(name for way in [*self.spent, *self.change] for name in way), "signed", *self.also])

    @property
    def real(self) -> bool:
        return "missing" in self.also


def of_l1(sensitivity: Number, **whom: str) -> dpfast.Sensitivity:
    return dpfast.Sensitivity.changes(1, exact_positive("sensitivity", sensitivity), **whom)


def of_l2(l2_squared: Number, **whom: str) -> dpfast.Sensitivity:
    return dpfast.Sensitivity.l2(exact_positive("l2-squared", l2_squared), **whom)


def gaussian_ways(kind: type[GaussianLaw]) -> Ways:
    return {("epsilon", "delta"): kind.calibrated, ("rho",): kind.from_zcdp, ("sigma",): kind}


CELLS: Ways = {("l0", "linf"): dpfast.Sensitivity}
L1: Ways = {("sensitivity",): of_l1, **CELLS}
L2: Ways = {**CELLS, ("l2_squared",): of_l2}
LAWS = {
    "discrete-laplace": Law(L1, {("epsilon",): dpfast.DiscreteLaplace}),
    "discrete-gaussian": Law(L2, gaussian_ways(dpfast.DiscreteGaussian)),
    "laplace": Law(L1, {("epsilon",): dpfast.Laplace}, ("granularity", "missing")),
    "snapping": Law(L1, {("epsilon", "bound"): dpfast.Snapping}, ("missing",)),
    "gaussian": Law(L2, gaussian_ways(dpfast.Gaussian), ("granularity", "missing")),
}
GAUSSIANS = dpfast.Gaussian, dpfast.DiscreteGaussian
ADDS_UP = ("epsilon", "delta", "rho")  # over columns


class LawName(click.Choice):  # type: ignore[type-arg]  # older versions of click take none
    """A name in LAWS; metadata's underscores will do."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        name = str(value).replace("_", "-").lower()
        if name == "one-sided-geometric":
            why = "noise that is never negative tells x from x + 1"
            self.fail(f"{name} is no mechanism: {why}. discrete-laplace is one", parameter, context)
        return super().convert(name, parameter, context)


def number(text: str) -> Number:
    """A number taken exactly as written, never through a float."""
    with suppress(ValueError, ArithmeticError):
        power = re.fullmatch(r"2(?:\*\*|\^)(-?\d{1,4})", text)
        return Fraction(2) ** int(power[1]) if power else Fraction(text) if "/" in text else Decimal(text)
    raise click.BadParameter(f"{text[:40]!r} is not a number such as 1, 0.25, 1/3 or 2**-10")


LAW_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("--mechanism", LawName(list(LAWS)), "The law."),
    ("--epsilon", number, "Privacy loss: 1, 0.25 or 1/3, taken exactly."),
    ("--delta", number, "Gaussians: with --epsilon, to find sigma."),
    ("--rho", number, "Gaussians: of zCDP, to find sigma."),
    ("--sigma", number, "Gaussians: the parameter itself."),
    ("--sensitivity", number, "Laplace laws: what one unit changes in L1, all cells of one column together."),
    ("--l0", int, "Cells of one column that one unit contributes to, at most."),
    ("--linf", number, "What one unit contributes to a cell, at most."),
    ("--signed", bool, "Contributions may be negative."),
    ("--l2-squared", number, "Gaussians: squared L2 distance of neighbours, at most."),
    ("--granularity", number, "laplace, gaussian: the grid of results, a power of two."),
    ("--bound", number, "snapping: values and results are clamped to [-bound, bound]."),
    ("--adjacency", click.Choice(["add-remove", "substitution"]), "Of neighbours; by default add-remove."),
    ("--unit", str, "Whom the promise protects; by default a person."),
)


def law_options(command: Command) -> Command:
    """Add the options that say which law, and whom it protects."""
    for name, kind, text in reversed(LAW_OPTIONS):
        default = "discrete-laplace" if name == "--mechanism" else None
        option = click.option(name, type=kind, is_flag=kind is bool, help=text, default=default, show_default=True)
        command = option(command)
    return command


def chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def dashed(*names: str, by: str = " with ") -> str:
    return by.join(f"'--{name.replace('_', '-')}'" for name in names)


def one_way(ways: Ways, given: Mapping[str, object]) -> tuple[str, ...]:
    """The one of several ways whose options were given, all of them."""
    begun = [way for way in ways if given.keys() & set(way)]
    if len(begun) > 1:
        raise click.UsageError(f"Too many options: give either {', or '.join(dashed(*way) for way in begun)}")
    left = [[name for name in way if name not in given] for way in begun or ways]
    if all(left):
        raise click.UsageError(f"Missing option {', or '.join(dashed(*names) for names in left)}")
    return begun[0]


def make(given: Mapping[str, Any], columns: int = 1, *, promises: bool = True) -> Mechanism:
    """The mechanism that the options name, for one of so many columns. promises: they must say whom it protects."""
    name, law = given["mechanism"], LAWS[given["mechanism"]]
    if "sensitivity" in given.keys() - law.takes.keys():
        raise click.UsageError(
            f"{name} takes no bare '--sensitivity', which may be a norm, its square or one cell's change: give "
            f"{' or '.join(dashed(*way) for way in law.change)}"
        )
    whom = {key: given[key] for key in ("adjacency", "unit", "signed") if key in given}
    for option in given.keys() - {"mechanism", *whom} - law.takes.keys():
        others = " and ".join(other for other in LAWS if option in LAWS[other].takes)
        known = dashed(*(key for key in law.takes if promises or key != "missing"), by=" ")
        raise click.UsageError(f"{name} takes no {dashed(option)}, as {others} would; it takes {known}")
    spent = one_way(law.spent, given)
    values = {key: given[key] for key in (*spent, *law.also) if key in given and key != "missing"}
    if columns > 1:
        values |= {key: exact_positive(key, given[key]) / columns for key in spent if key in ADDS_UP}
    needed = promises or "sigma" not in spent or whom or any(given.keys() & set(way) for way in law.change)
    if needed:
        way = one_way(law.change, given)
        if "signed" in whom and way not in CELLS:
            raise click.UsageError("'--signed' says what '--l0' and '--linf' are, and goes with these alone")
        values["sensitivity"] = law.change[way](**{key: given[key] for key in way}, **whom)
    else:
        values["sensitivity"] = None
    return law.spent[spent](**values)  # type: ignore[no-any-return]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(dpfast.__version__)
def commands() -> None:
    """Differentially private counts and real values, with noise of exactly the stated law."""


@commands.command(epilog=EXAMPLES)
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
    "--missing", type=number, help="Real laws: a public number for empty, NaN and infinite cells; noised too."
)
@click.option("--threads", type=click.IntRange(1), metavar="N", help="At most so many; by default all usable cores.")
@click.option("--constant-time", is_flag=True, help="The same work for every draw, so that time tells nothing of it.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--quiet", is_flag=True, help="No summary and no progress bar.")
def privatize(
    source: Path,
    target: Path,
    columns: tuple[str, ...],
    epsilon_is: str | None,
    lower: Number | None,
    upper: Number | None,
    threads: int | None,
    constant_time: bool,
    force: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Add noise to columns of IN and write OUT.

    To counts by discrete-laplace or discrete-gaussian, to real values by laplace, snapping or gaussian.

    Both are .csv, .parquet, .arrow, .feather or .npy files, as their extensions say. Other columns pass through
    untouched (from CSV to CSV byte for byte, from CSV to another format as strings), and so does the order of rows.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a CSV or npy file in OUT.json.
    OUT appears only when it is complete.
    """
    from tqdm import tqdm

    from dpfast import files

    given = chosen(options)
    if len(set(columns)) < len(columns):
        raise ParameterError("column must name each column once")
    if (len(columns) > 1) != (epsilon_is is not None):
        raise ParameterError("epsilon-is must be given for several columns, and only then: total or per-column")
    if epsilon_is == "total" and "sigma" in given:
        raise ParameterError("epsilon-is must be per-column with a sigma: that is each column's, and nothing to split")
    mechanism, real = make(given, len(columns) if epsilon_is == "total" else 1), LAWS[given["mechanism"]].real
    with suppress(OSError):  # there is no OUT, or nothing can be; then writing says so
        if target.samefile(source):
            raise ParameterError(f"OUT must not be IN, got {target}")
    table = files.open_source(source, columns, real=real, missing="missing" in given)
    about = totals(mechanism, len(table.chosen))
    master = dpfast.Key.generate()
    keys = [master.derive(f"privatize/{name}") for name in table.chosen]
    noise, about["releases"] = [], []
    for name, key, dtype in zip(table.chosen, keys, table.dtypes, strict=True):
        public: dict[str, Any] = {"lower": near("lower", lower, dtype), "upper": near("upper", upper, dtype)}
        if real:
            public["missing"] = near("missing", given.get("missing"), np.dtype(float))
        noise.append(partial(mechanism.release, **public, threads=threads, constant_time=constant_time))
        noise[-1](np.empty(0, dtype))  # refuses what these options cannot be, before anything is read
        about["releases"].append({"column": name, **mechanism.metadata(key), **public})
    rows = 0
    with (
        files.destination(target, table, about, force=force) as write,
        tqdm(total=source.stat().st_size, unit="B", unit_scale=True, leave=False, disable=quiet or None) as progress,
    ):
        for piece in table.pieces():
            pairs = zip(noise, piece.counts, keys, strict=True)
            noisy = [release(cells, key=key, start=rows) for release, cells, key in pairs]
            write(piece, noisy)
            rows += len(noisy[0])
            progress.update(piece.weight)
    if not quiet:
        what, within = "values" if real else "counts", f"95 % within ±{half_width(mechanism, Fraction(95, 100))}"
        for name in table.chosen:
            click.echo(f"{name}: {rows:,} {what}, {law(mechanism)}, {within}", err=True)
        choice = f" ({composition(given, epsilon_is)})" if epsilon_is else ""
        click.echo(f"{total(about)} per {mechanism.unit}, {mechanism.adjacency}{choice}", err=True)


def near(name: str, value: Number | None, dtype: np.dtype[Any]) -> int | float | None:
    """A public number as cells of that type can be it: a real one its nearest, a whole one itself."""
    if value is None:
        return None
    exact = exact_real(name, value)
    if dtype.kind == "f":
        with suppress(OverflowError), np.errstate(over="ignore"):
            if math.isfinite(found := float(dtype.type(float(exact)))):
                return found
        raise ParameterError(f"{name} must be within the range of {dtype}, got {shown(value)}")
    if exact.denominator != 1:
        raise ParameterError(f"{name} must be a whole number for counts, got {shown(value)}")
    return int(exact)


def totals(mechanism: Mechanism, columns: int) -> dict[str, Any]:
    """What so many columns spend together, exactly: by basic composition, whatever each spends adds up."""
    facts = mechanism.metadata()
    spent = {"epsilon": facts.get("epsilon"), "delta": facts.get("delta"), "rho": facts.get("rho_spent")}
    found = {f"{name}_total": str(Fraction(str(each)) * columns) for name, each in spent.items() if each is not None}
    return {**found, "composition": "basic: what the columns spend adds up"} if columns > 1 else {**found}


def total(about: Mapping[str, str]) -> str:
    known = {name: about[f"{name}_total"] for name in ADDS_UP if f"{name}_total" in about}
    return "total " + ", ".join(f"{name} {plain(Fraction(value))}" for name, value in known.items())


def composition(given: Mapping[str, Any], epsilon_is: str) -> str:
    """How several columns add up to the total."""
    said = {
        name: f"--{name} {plain(exact_positive(name, given[name]))}" for name in (*ADDS_UP, "sigma") if name in given
    }
    choice = f"{' and '.join(said.values())} {'are' if len(said) > 1 else 'is'} {epsilon_is}"
    sums = {"epsilon": "epsilons", "delta": "deltas", "rho": "rhos", "sigma": "rhos"}
    adds = f"; over columns {' and '.join(sums[name] for name in said)} add up"
    return choice + adds if said.keys() != {"epsilon"} else choice


@commands.command()
@law_options
@click.option("--cells", type=click.IntRange(1), metavar="D", help="Also the intervals that hold D cells all at once.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it: .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def explain(cells: int | None, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Say what parameters promise and how much noise that takes.

    The options are those of privatize. A Gaussian's --sigma alone will do: then there is noise, but no promise.
    """
    if plot and plot.suffix.lower() not in {".png", ".svg"}:
        raise ParameterError(f"plot must be a .png or .svg file, got {plot}")
    mechanism = make(chosen(options), promises=False)
    found = promise(mechanism)
    sizes = [1, cells] if cells else [1]
    if as_json:
        widths = {p: [reach(mechanism, p, d) for d in sizes] for p in CONFIDENCES}
        within = {f"{float(p)}": dict(zip(["one_cell", "all_cells"], row, strict=False)) for p, row in widths.items()}
        facts = {**mechanism.metadata(), "stddev": mechanism.stddev, "cells": cells, "half_widths": within}
        if found and isinstance(mechanism, GAUSSIANS):
            facts["promise"] = {**dict(zip(ADDS_UP, map(str, found), strict=False)), "delta_is": delta_is(mechanism)}
        click.echo(json.dumps({**facts, "meaning": meaning(mechanism, found)}, indent=2))
    else:
        click.echo(f"{title(mechanism)}, {law(mechanism)}\n")
        for name, value in details(mechanism).items():
            click.echo(f"  {name:20}{value}")
        heads = ["one cell", *(f"all {d:,} cells" for d in sizes[1:])]
        click.echo(f"\n  {'noise within':20}" + "".join(f"{head:24}" for head in heads).rstrip())
        for p in CONFIDENCES:
            row = (f"{'±' + half_width(mechanism, p, d):24}" for d in sizes)
            click.echo(f"  {float(p) * 100:g} %".ljust(22) + "".join(row).rstrip())
        click.echo("\n" + click.wrap_text(f"Meaning: {meaning(mechanism, found)}", 80))
    if plot:
        from dpfast import plots

        plots.draw(mechanism, plot, title(mechanism), law(mechanism), found)


def reach(mechanism: Mechanism, confidence: Fraction, cells: int = 1) -> float:
    """The half-width that holds the noise of any value: one off the grid of a real law may need a step more."""
    step: float = getattr(mechanism, "granularity", 0)
    return mechanism.interval(confidence, cells=cells) + step


def half_width(mechanism: Mechanism, confidence: Fraction, cells: int = 1) -> str:
    """The same as people read it, rounded up."""
    width = reach(mechanism, confidence, cells)
    return f"{width:,}" if isinstance(width, int) else rounded_up(Fraction(width))


def details(mechanism: Mechanism) -> dict[str, str]:
    found = {"standard deviation": f"{mechanism.stddev:,.6g}"}
    if mechanism.adjacency:
        found["adjacency"] = f"{mechanism.adjacency}, unit: {mechanism.unit}"
    change = mechanism.sensitivity
    if isinstance(change, dpfast.Sensitivity):
        cells = f"l0 {change.l0:,}, linf {plain(change.linf)}, " if change.l0 and change.linf else ""
        found["a neighbour changes"] = f"{cells}l2 {rounded_up(Fraction(change.l2))}"
    if isinstance(mechanism, (dpfast.Laplace, dpfast.Gaussian)):
        exponent = math.frexp(mechanism.granularity)[1] - 1
        found["granularity"] = (
            f"2**{exponent} ({mechanism.granularity:.2g}): results are its multiples, half-widths allow for one"
        )
    return found


def promise(mechanism: Mechanism) -> tuple[Fraction, Fraction] | None:
    """An (epsilon, delta) that holds: the one asked for, or an epsilon for EXAMPLE_DELTA, rounded up to three digits."""
    if not isinstance(mechanism, GAUSSIANS):
        return mechanism.epsilon, Fraction(0)
    if mechanism.sensitivity is None or mechanism.rho() > MOST_RHO:
        return None
    asked = mechanism.target
    if asked.epsilon is not None and asked.delta is not None:
        return asked.epsilon, asked.delta

    def three_digits(value: float) -> Fraction:
        return Fraction(Context(prec=3, rounding=ROUND_CEILING).create_decimal(value))

    rho = max(float(mechanism.rho()), 1e-30)
    high = rho + 2 * math.sqrt(rho * -math.log(EXAMPLE_DELTA))  # enough for any rho-zCDP: [BS16] Proposition 1.3
    low = high / 1000
    while high > low * 1.002:
        middle = math.sqrt(low * high)
        if mechanism.delta(three_digits(middle)) <= EXAMPLE_DELTA:
            high = middle
        else:
            low = middle
    return three_digits(high), EXAMPLE_DELTA


def delta_is(mechanism: GaussianLaw) -> str:
    """What the delta of a Gaussian is: for the discrete law it can be a bound."""
    cells = mechanism.sensitivity.largest if mechanism.sensitivity else None
    if isinstance(mechanism, dpfast.Gaussian) or (cells and gaussian.is_exact(cells.l0, mechanism.sigma_squared)):
        return "exact"
    if cells:
        return "a bound through zCDP: so many cells are too many for the exact figure"
    return "a bound through zCDP: an L2 norm alone gives no better, --l0 with --linf would"


def meaning(mechanism: Mechanism, found: tuple[Fraction, Fraction] | None) -> str:
    """The promise in words."""
    if mechanism.adjacency is None:
        return "none yet: sigma promises nothing before it is said what one unit can change, by --l0 with --linf or --l2-squared."
    other = {
        "add-remove": f"any one {mechanism.unit} had been left out, or one more put in",
        "substitution": f"the data of any one {mechanism.unit} had been quite other data",
    }[mechanism.adjacency]
    again = f"Several releases about the same {mechanism.unit} add their"
    if not isinstance(mechanism, GAUSSIANS):
        return (
            f"whatever anyone sees in one release, it is at most {times(mechanism.epsilon)} as likely as it would be "
            f"if {other}. {again} epsilons up."
        )
    zcdp = f"a release is rho-zCDP (zero-concentrated differential privacy), rho = {plain(mechanism.rho())}"
    if found is None:
        return f"{zcdp}: so large a rho promises next to nothing."
    epsilon, delta = found
    return (
        f"{zcdp}, and (epsilon, delta)-differentially private, for example with epsilon = {plain(epsilon)} and delta = "
        f"{plain(delta)}: the probability of anything that anyone may see in one release is at most {times(epsilon)} what it "
        f"would be if {other}, plus delta. This delta is {delta_is(mechanism)}. {again} rhos up (or, less sharply, their "
        "epsilons and their deltas)."
    )


def times(epsilon: Fraction) -> str:
    """The ratio e^epsilon in words; rounded up, as every figure that promises privacy."""
    wide, short = Context(prec=40, rounding=ROUND_CEILING), Context(prec=3, rounding=ROUND_CEILING)
    if epsilon > 20:  # beyond, a figure would say nothing more
        return "e^epsilon times"
    most = wide.next_plus(wide.exp(wide.divide(*map(Decimal, epsilon.as_integer_ratio()))))
    digits = short.plus(most) if most > 2 else wide.add(1, short.plus(wide.subtract(most, 1)))
    return f"{digits:,f} times (e^epsilon)"


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def info(as_json: bool) -> None:
    """Print versions, the instruction set in use, usable threads and the state of numba's cache."""
    from dpfast import _native, engine, kernels

    facts: dict[str, object] = {
        "version": dpfast.__version__,
        "stream version": _native.STREAM_VERSION,
        "instruction set": _native.isa_name(),
        "usable threads": engine.usable_threads(),
        **{f"numba cache {name}": value for name, value in kernels.cache_state().items()},
    }
    if as_json:
        click.echo(json.dumps({name.replace(" ", "_"): value for name, value in facts.items()}, indent=2))
    else:
        click.echo("\n".join(f"{name:24}{value}" for name, value in facts.items()))


def title(mechanism: Mechanism) -> str:
    """Such as "Discrete Laplace mechanism"."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", type(mechanism).__name__) + " mechanism"


def law(mechanism: Mechanism) -> str:
    """The parameters, in a line."""
    facts = mechanism.metadata()
    exact = {name: Fraction(str(facts[name])) for name in (*ADDS_UP, "sensitivity", "bound") if name in facts}
    scale = f"{'sigma' if isinstance(mechanism, GAUSSIANS) else 'scale'} {mechanism.scale:,.6g}"
    return ", ".join([*(f"{name} {plain(value)}" for name, value in exact.items()), scale])


def plain(value: Fraction) -> str:
    """An exact value as people write it: 0.25 rather than 1/4, but 1/3. One too long to read is rounded up."""
    near = Context(prec=12).divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()
    if Fraction(near) == value:
        return written(near)
    return str(value) if len(str(value)) < 20 else rounded_up(value)


def rounded_up(value: Fraction) -> str:
    """Six digits, not below the value."""
    return written(Context(prec=6, rounding=ROUND_CEILING).divide(*map(Decimal, value.as_integer_ratio())).normalize())


def written(value: Decimal) -> str:
    return f"{value:,f}" if -5 <= value.adjusted() < 20 else f"{value:e}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line and quote nothing private."""
    for name in {"SIGTERM", "SIGHUP"} & set(dir(signal)):
        if signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    try:
        return commands.main(arguments, prog_name="dpfast", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _failed("interrupted; nothing was written", 130)
    except DpfastError as error:
        return _failed(str(error), 2 if isinstance(error, (ParameterError, DTypeError)) else 1)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        return _failed(f"this needs {missing}: pip install 'dpfast[{EXTRAS[missing]}]'", 2)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return _failed(f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}; please report this", 1)


def _failed(message: str, code: int) -> int:
    click.echo(f"Error: {message}", err=True)
    return code
