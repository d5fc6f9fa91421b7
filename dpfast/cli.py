# SPDX-License-Identifier: Apache-2.0
"""The command line: `dpfast privatize`, `dpfast explain` and `dpfast info`.

Exit codes: 0 done, 1 failed, 2 wrong usage or parameters, 130 interrupted.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

try:
    import click
except ModuleNotFoundError:
    sys.stderr.write("Error: the command line needs click: pip install 'dpfast[cli]'\n")
    raise SystemExit(2) from None

import dpfast
from dpfast.arrays import INT64, clamps
from dpfast.errors import DpfastError, ParameterError
from dpfast.privacy.parameters import exact_positive

Number: TypeAlias = Fraction | Decimal
Command = TypeVar("Command", bound=Callable[..., object])
EXTRAS = {"pyarrow": "cli", "tqdm": "cli", "matplotlib": "plot"}
CONFIDENCES = Fraction(1, 2), Fraction(19, 20), Fraction(99, 100)


def number(text: str) -> Number:
    """A number taken exactly as written, never through a float."""
    try:
        return Fraction(text) if "/" in text else Decimal(text)
    except (ValueError, ArithmeticError):
        raise click.BadParameter(f"{text[:40]!r} is not a number such as 1, 0.25 or 1/3") from None


def law_options(command: Command) -> Command:
    """The options that say which law, and whom it protects."""
    choices = click.Choice(["add-remove", "substitution"])
    for option in (
        click.option("--unit", default="person", show_default=True, help="Whom one epsilon protects."),
        click.option("--adjacency", type=choices, default="add-remove", show_default=True, help="Of neighbours."),
        click.option("--sensitivity", type=number, required=True, help="L1, of all counts of one column jointly."),
        click.option("--epsilon", type=number, required=True, help="Privacy loss: 1, 0.25 or 1/3, taken exactly."),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(dpfast.__version__)
def commands() -> None:
    """Differentially private counts, with noise of exactly the stated law."""


@commands.command()
@click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--column", "columns", multiple=True, metavar="NAME", help="A column of counts; repeat it for more.")
@law_options
@click.option("--epsilon-is", type=click.Choice(["total", "per-column"]), help="Required for several columns.")
@click.option("--lower", type=int, metavar="INT", help="Public lower bound of the noisy counts.")
@click.option("--upper", type=int, metavar="INT", help="Public upper bound of the noisy counts.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="At most so many; by default all usable cores.")
@click.option("--constant-time", is_flag=True, help="The same work for every draw, so that time tells nothing of it.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--quiet", is_flag=True, help="No summary and no progress bar.")
def privatize(
    source: Path,
    target: Path,
    columns: tuple[str, ...],
    epsilon: Number,
    sensitivity: Number,
    adjacency: str,
    unit: str,
    epsilon_is: str | None,
    lower: int | None,
    upper: int | None,
    threads: int | None,
    constant_time: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Add discrete Laplace noise to columns of counts in IN and write OUT.

    Both are .csv, .parquet, .arrow, .feather or .npy files, as their extensions say. Other columns pass through
    untouched (from CSV to CSV byte for byte, from CSV to another format as strings), and so does the order of rows.

    The parameters travel with OUT: under "dpfast" in the schema metadata, or beside a CSV or npy file in OUT.json.
    OUT appears only when it is complete.
    """
    from tqdm import tqdm

    from dpfast import files

    if len(set(columns)) < len(columns):
        raise ParameterError("column must name each column once")
    if (len(columns) > 1) != (epsilon_is is not None):
        raise ParameterError("epsilon-is must be given for several columns, and only then: total or per-column")
    clamps(INT64, lower, upper)
    with suppress(OSError):  # there is no OUT, or nothing can be; then writing says so
        if target.samefile(source):
            raise ParameterError(f"OUT must not be IN, got {target}")
    share = exact_positive("epsilon", epsilon) / (len(columns) if epsilon_is == "total" else 1)
    mechanism = dpfast.DiscreteLaplace(share, sensitivity, adjacency, unit)
    table = files.open_source(source, columns)
    master = dpfast.Key.generate()
    keys = {name: master.derive(f"privatize/{name}") for name in table.chosen}
    total = share * len(keys)
    noise = partial(mechanism.release, lower=lower, upper=upper, threads=threads, constant_time=constant_time)
    bounds = {"lower": lower, "upper": upper}
    releases = [{"column": name, **mechanism.metadata(key), **bounds} for name, key in keys.items()]
    about: dict[str, object] = {"epsilon_total": str(total), "releases": releases}
    rows = 0
    with (
        files.destination(target, table, about, force=force) as write,
        tqdm(total=source.stat().st_size, unit="B", unit_scale=True, leave=False, disable=quiet or None) as progress,
    ):
        for piece in table.pieces():
            pairs = zip(piece.counts, keys.values(), strict=True)
            noisy = [noise(counts, key=key, start=rows) for counts, key in pairs]
            write(piece, noisy)
            rows += len(noisy[0])
            progress.update(piece.weight)
    if not quiet:
        within = f"95 % within ±{mechanism.interval(Fraction(95, 100)):,}"
        for name in keys:
            click.echo(f"{name}: {rows:,} counts, {law(mechanism)}, {within}", err=True)
        choice = f" (--epsilon {plain(exact_positive('epsilon', epsilon))} is {epsilon_is})" if epsilon_is else ""
        click.echo(f"total epsilon {plain(total)} per {unit}, {adjacency}{choice}", err=True)


@commands.command()
@law_options
@click.option("--cells", type=click.IntRange(1), metavar="D", help="Also the intervals that hold D cells all at once.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it: .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def explain(
    epsilon: Number, sensitivity: Number, adjacency: str, unit: str, cells: int | None, plot: Path | None, as_json: bool
) -> None:
    """Say what an epsilon promises and how much noise that takes."""
    if plot and plot.suffix.lower() not in {".png", ".svg"}:
        raise ParameterError(f"plot must be a .png or .svg file, got {plot}")
    mechanism = dpfast.DiscreteLaplace(epsilon, sensitivity, adjacency, unit)
    sizes = [1, cells] if cells else [1]
    widths = {p: [mechanism.interval(p, cells=d) for d in sizes] for p in CONFIDENCES}
    if as_json:
        within = {f"{float(p)}": dict(zip(["one_cell", "all_cells"], row, strict=False)) for p, row in widths.items()}
        facts = {**mechanism.metadata(), "stddev": mechanism.stddev, "cells": cells, "half_widths": within}
        click.echo(json.dumps({**facts, "meaning": meaning(mechanism)}, indent=2))
    else:
        click.echo(f"Discrete Laplace noise, {law(mechanism)}\n")
        click.echo(f"  {'standard deviation':20}{mechanism.stddev:,.6g}")
        click.echo(f"  {'adjacency':20}{adjacency}, unit: {unit}\n")
        heads = ["one cell", *(f"all {d:,} cells" for d in sizes[1:])]
        click.echo(f"  {'noise within':20}" + "".join(f"{head:24}" for head in heads).rstrip())
        for p, row in widths.items():
            click.echo(f"  {float(p) * 100:g} %".ljust(22) + "".join(f"{f'±{width:,}':24}" for width in row).rstrip())
        click.echo("\n" + click.wrap_text(f"Meaning: {meaning(mechanism)}", 80))
    if plot:
        from dpfast import plots

        plots.draw(mechanism, plot, law(mechanism))


def meaning(mechanism: dpfast.DiscreteLaplace) -> str:
    """Epsilon in words; its ratio is rounded up, as every figure that promises privacy."""
    wide, short = Context(prec=40, rounding=ROUND_CEILING), Context(prec=3, rounding=ROUND_CEILING)
    ratio = "e^epsilon times"
    if mechanism.epsilon <= 20:  # beyond, a figure would say nothing more
        most = wide.next_plus(wide.exp(wide.divide(*map(Decimal, mechanism.epsilon.as_integer_ratio()))))
        digits = short.plus(most) if most > 2 else wide.add(1, short.plus(wide.subtract(most, 1)))
        ratio = f"{digits:,f} times (e^epsilon)"
    other = {
        "add-remove": f"any one {mechanism.unit} had been left out, or one more put in",
        "substitution": f"the data of any one {mechanism.unit} had been quite other data",
    }[mechanism.adjacency]
    return (
        f"whatever anyone sees in one release, it is at most {ratio} as likely as it would be "
        f"if {other}. Several releases about the same {mechanism.unit} add their epsilons up."
    )


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


def law(mechanism: dpfast.DiscreteLaplace) -> str:
    epsilon, sensitivity = plain(mechanism.epsilon), plain(mechanism.sensitivity)
    return f"epsilon {epsilon}, sensitivity {sensitivity}, scale {mechanism.scale:,.6g}"


def plain(value: Fraction) -> str:
    """An exact value as people write it: 0.25 rather than 1/4, but 1/3."""
    exact = Context(prec=12).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{exact.normalize():f}" if Fraction(exact) == value and abs(exact.adjusted()) < 20 else str(value)


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
        return _failed(str(error), 2 if isinstance(error, ParameterError) else 1)
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
