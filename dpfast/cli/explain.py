# SPDX-License-Identifier: Apache-2.0
"""`dpfast explain`: what parameters promise, and how much noise that takes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click

import dpfast
from dpfast.cli.options import ADDS_UP, CHOICES, GAUSSIANS, Mechanism, chosen, law_options, make, make_choice
from dpfast.cli.words import (
    belief,
    by_textbook,
    delta_is,
    details,
    half_width,
    law,
    meaning,
    percent,
    plain,
    reach,
    rounded_up,
    statement,
    title,
)
from dpfast.errors import ParameterError
from dpfast.mechanisms.one_answer import OneAnswer
from dpfast.privacy.meaning import (
    DiscreteLaplaceLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    ZCDPLoss,
    likely,
    posterior,
    textbook,
    textbook_misses,
)

USUAL = Fraction(19, 20)
CONFIDENCES = Fraction(1, 2), USUAL, Fraction(99, 100)
PRIORS = Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)
EXAMPLE_DELTA = Fraction(1, 10**6)
MOST_RHO = MOST_EPSILON = 1000  # beyond, an epsilon would say nothing


@click.command()
@partial(law_options, choices=CHOICES)
@click.option("--cells", type=click.IntRange(1), metavar="D", help="Also the intervals that hold D cells all at once.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it: .png or .svg.")
@click.option(
    "--picture",
    type=click.Choice(["law", "posterior", "loss"]),
    help="What --plot draws: the noise; belief before and after; the privacy loss.  [default: law]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def explain(cells: int | None, plot: Path | None, picture: str | None, as_json: bool, **options: Any) -> None:
    """Say what parameters promise, what that means, and how much noise it takes.

    The options are those of privatize. A Gaussian's --sigma alone will do: then there is noise, but no promise.
    """
    if plot and plot.suffix.lower() not in {".png", ".svg"}:
        raise ParameterError(f"plot must be a .png or .svg file, got {plot}")
    if picture and not plot:
        raise click.UsageError("'--picture' says what '--plot' draws, and goes with it alone")
    given = chosen(options)
    if given["mechanism"] in CHOICES:
        if cells or plot:
            raise click.UsageError("'--cells' and '--plot' are for noise that is added to cells, and here is a choice")
        _choice(make_choice(given), as_json)
        return
    mechanism = make(given, promises=False)
    found = promise(mechanism)
    sure, loss = surely(mechanism, found), privacy_loss(mechanism, found)
    if picture in {"posterior", "loss"} and not (sure and loss):
        raise ParameterError(f"picture must be law where nothing, or next to nothing, is promised, got {picture}")
    sizes = [1, cells] if cells else [1]
    if as_json:
        click.echo(json.dumps(_facts(mechanism, found, sure, loss, cells), indent=2))
    else:
        _as_text(mechanism, found, sure, loss, sizes)
    if plot:
        from dpfast.pictures import plots

        whom = f"{law(mechanism)}; {mechanism.adjacency}, unit: {mechanism.unit}"
        if picture == "posterior" and sure:
            plots.posterior(*sure, plot, whom, statement(mechanism))
        elif picture == "loss" and loss and found:
            plots.loss(mechanism, loss, found[0], plot, whom)
        else:
            plots.draw(mechanism, plot, title(mechanism), law(mechanism), found)


def _choice(mechanism: OneAnswer, as_json: bool) -> None:
    said = meaning(mechanism, None)
    if as_json:
        click.echo(json.dumps({**mechanism.metadata(), "meaning": said}, indent=2))
        return
    one_way = (
        "yes: a unit that is added moves all answers one way, so their noise is half as wide as it would be otherwise"
    )
    either = "no: a unit may move answers both ways, or it was not said (--l0 with --linf) that it does not"
    click.echo(f"{title(mechanism)}, epsilon {plain(mechanism.epsilon)}, sensitivity {plain(mechanism.sensitivity)}\n")
    click.echo(f"  {'adjacency':20}{mechanism.adjacency}, unit: {mechanism.unit}")
    click.echo(f"  {'monotonic':20}{one_way if mechanism.monotonic else either}\n")
    click.echo(click.wrap_text(f"Meaning: {said}", 80))


def _facts(
    mechanism: Mechanism,
    found: tuple[Fraction, Fraction] | None,
    sure: tuple[Fraction, Fraction] | None,
    loss: Loss | None,
    cells: int | None,
) -> dict[str, Any]:
    """All that the text says. Exact figures are strings; the others are rounded to the safe side."""
    sizes = {"one_cell": 1, **({"all_cells": cells} if cells else {})}

    def each(what: Callable[[Fraction, int], float]) -> dict[str, dict[str, float]]:
        return {f"{float(p)}": {name: what(p, d) for name, d in sizes.items()} for p in CONFIDENCES}

    half_widths = each(lambda p, d: reach(mechanism, p, d))
    facts: dict[str, Any] = {
        **mechanism.metadata(),
        "stddev": mechanism.stddev,
        "cells": cells,
        "half_widths": half_widths,
    }
    if not isinstance(mechanism, GAUSSIANS):
        scale = mechanism.sensitivity / mechanism.epsilon
        facts["textbook"] = {"half_widths": each(lambda p, d: textbook(scale, 1 - p, d))}
        if isinstance(mechanism, dpfast.DiscreteLaplace):
            facts["textbook"]["missed"] = each(lambda p, d: textbook_misses(scale, 1 - p, d))
    elif found:
        facts["promise"] = {**dict(zip(ADDS_UP, map(str, found), strict=False)), "delta_is": delta_is(mechanism)}
    if loss and found:
        most = {"most": str(loss.most)} if loss.most is not None else {"above": {str(found[0]): loss.above(found[0])}}
        facts["privacy_loss"] = {"mean": loss.mean, **most}
    if sure:
        bounds = {p: dict(zip(["at_least", "at_most"], posterior(p, sure[0]), strict=True)) for p in PRIORS}
        facts["belief"] = {
            "of": statement(mechanism),
            "epsilon": float(sure[0]) if sure[1] else str(sure[0]),
            "but_for": str(sure[1]),
            "after": {f"{float(p)}": after for p, after in bounds.items()},
        }
    return {**facts, "meaning": meaning(mechanism, found)}


def _as_text(
    mechanism: Mechanism,
    found: tuple[Fraction, Fraction] | None,
    sure: tuple[Fraction, Fraction] | None,
    loss: Loss | None,
    sizes: list[int],
) -> None:
    click.echo(f"{title(mechanism)}, {law(mechanism)}\n")
    for name, value in details(mechanism, loss, found and found[0]).items():
        click.echo(f"  {name:20}{value}")
    heads = ["one cell", *(f"all {d:,} cells" for d in sizes[1:])]
    click.echo()
    _row("noise within", heads)
    rows = [(f"{float(p) * 100:g} %", [f"±{half_width(mechanism, p, d)}" for d in sizes]) for p in CONFIDENCES]
    notes = {"Meaning": meaning(mechanism, found)}
    if not isinstance(mechanism, GAUSSIANS):
        widths = [textbook(mechanism.sensitivity / mechanism.epsilon, 1 - USUAL, d) for d in sizes]
        rows.append(("95 %, textbook", [f"±{rounded_up(Fraction(width))}" for width in widths]))
        notes["Textbook"] = by_textbook(mechanism, 1 - USUAL, sizes[-1])
    for name, values in rows:
        _row(name, values)
    click.echo()
    if sure:
        notes["Belief"] = belief(mechanism, *sure)
        _row("belief before", ["after: at least", "at most"])
        for p in PRIORS:
            low, high = map(Fraction, posterior(p, sure[0]))
            _row(percent(p, up=True), [percent(low, up=False), percent(high, up=True)])
        click.echo()
    notes = {name: notes[name] for name in ("Meaning", "Belief", "Textbook") if name in notes}
    click.echo("\n\n".join(click.wrap_text(f"{name}: {note}", 80) for name, note in notes.items()))


def _row(name: str, values: list[str]) -> None:
    click.echo(f"  {name:20}" + "".join(f"{value:24}" for value in values).rstrip())


def privacy_loss(mechanism: Mechanism, found: tuple[Fraction, Fraction] | None) -> Loss | None:
    """That of the neighbours that are told apart best, where it says something."""
    if found is None or found[0] > MOST_EPSILON:
        return None
    if isinstance(mechanism, dpfast.DiscreteLaplace):
        return DiscreteLaplaceLoss(mechanism.epsilon / mechanism.sensitivity, math.floor(mechanism.sensitivity))
    if isinstance(mechanism, dpfast.Laplace):
        return LaplaceLoss(mechanism.epsilon)
    return (GaussianLoss if isinstance(mechanism, dpfast.Gaussian) else ZCDPLoss)(mechanism.rho())


def surely(mechanism: Mechanism, found: tuple[Fraction, Fraction] | None) -> tuple[Fraction, Fraction] | None:
    """An epsilon that the loss does not exceed, but for a share of releases: none for a Laplace law, delta for a Gaussian."""
    if found is None or found[0] > MOST_EPSILON:
        return None
    epsilon, delta = found
    return (Fraction(likely(mechanism.rho(), delta)), delta) if isinstance(mechanism, GAUSSIANS) else (epsilon, delta)


def promise(mechanism: Mechanism) -> tuple[Fraction, Fraction] | None:
    """An (epsilon, delta) that holds: the one asked for, or an epsilon for EXAMPLE_DELTA, rounded up to three digits."""
    if not isinstance(mechanism, GAUSSIANS):
        return mechanism.epsilon, Fraction(0)
    if mechanism.sensitivity is None or mechanism.rho() > MOST_RHO:
        return None
    asked = mechanism.calibrated_for
    if asked is not None and asked.epsilon is not None and asked.delta is not None:
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
