# SPDX-License-Identifier: Apache-2.0
"""`dpfast explain`: what parameters promise, and how much noise that takes."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from dpfast.cli.options import ADDS_UP, GAUSSIANS, Mechanism, chosen, law_options, make
from dpfast.cli.words import delta_is, details, half_width, law, meaning, reach, title
from dpfast.errors import ParameterError

CONFIDENCES = Fraction(1, 2), Fraction(19, 20), Fraction(99, 100)
EXAMPLE_DELTA = Fraction(1, 10**6)
MOST_RHO = 1000  # beyond, an epsilon would say nothing


@click.command()
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
