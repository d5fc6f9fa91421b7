# SPDX-License-Identifier: Apache-2.0
"""`dpfast explain`: what parameters promise, and how much noise that takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.options import (
    AS_JSON,
    CHOICES,
    GAUSSIANS,
    Mechanism,
    chosen,
    half_width,
    law,
    law_options,
    make,
    make_choice,
    picture_file,
    print_json,
    title,
)
from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.one_answer import OneAnswer
from dpfast.privacy import meaning
from dpfast.privacy.belief import posterior
from dpfast.privacy.formatting import approximate, percent, plain, rounded

USUAL = Fraction(19, 20)
CONFIDENCES = Fraction(1, 2), USUAL, Fraction(99, 100)
POINTS = 24  # that the picture of costs has
WAYS = {"sum": "the sum of epsilons", "rho": "rho", "distribution": "the distribution of losses"}
MOST_RELEASES = 10_000  # whose distribution takes seconds
PRIORS = Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)


@click.command()
@partial(law_options, choices=CHOICES)
@click.option(
    "--cells", type=click.IntRange(1), metavar="D", help="Also show the intervals that contain D cells at once."
)
@click.option(
    "--releases",
    type=click.IntRange(2, MOST_RELEASES),
    metavar="N",
    help="Also show the epsilon of N such releases together: by their sum, by rho (real Gaussian noise: mu), by the distribution of losses.",
)
@click.option("--plot", type=picture_file, metavar="FILE", help="Draw the result in this file: .png, .svg or .pdf.")
@click.option(
    "--picture",
    type=click.Choice(["noise", "posterior", "loss", "costs"]),
    help="What --plot draws: the noise; belief before and after; the privacy loss; the costs of up to --releases.  [default: noise]",
)
@AS_JSON
def explain(
    cells: int | None, releases: int | None, plot: Path | None, picture: str | None, as_json: bool, **options: Any
) -> None:
    """Explain what parameters guarantee, what that means, and how much noise it takes.

    The options are those of privatize. A Gaussian's --sigma alone is enough, but then there is
    noise and no promise.
    """
    if picture and not plot:
        raise click.UsageError("'--picture' says what '--plot' draws, and works only with it")
    if picture == "costs" and not releases:
        raise click.UsageError("'--picture costs' draws what '--releases' cost together, and works only with it")
    given = chosen(options)
    if given["mechanism"] in CHOICES:
        if cells or (plot and picture != "costs"):
            raise click.UsageError(
                "'--cells' and '--plot' are for noise that is added to cells, and this is a choice: '--plot' with "
                "'--picture costs' draws what '--releases' cost together"
            )
        mechanism = make_choice(given)
        together = releases and Together(mechanism, mechanism.guarantee, meaning.EXAMPLE_DELTA, releases)
        _choice(mechanism, together or None, as_json)
        if plot and together:
            together.draw(plot, f"{title(mechanism)}; {mechanism.adjacency}, unit: {mechanism.unit}")
        return
    explained = Explained(make(given, promises=False), [1, cells] if cells else [1], releases)
    if picture in {"posterior", "loss", "costs"} and not (explained.sure and explained.loss):
        raise ParameterError(f"picture must be noise where nothing, or next to nothing, is promised, got {picture}")
    if as_json:
        print_json(explained.facts())
    else:
        click.echo(explained.text())
    if plot:
        explained.draw(plot, picture)


def _choice(mechanism: OneAnswer, together: Together | None, as_json: bool) -> None:
    promise = mechanism.guarantee
    said = meaning.promise_in_words(promise, (mechanism.epsilon, Fraction(0)), "exact")
    if as_json:
        of_all = together.facts() if together else {}
        print_json({**mechanism.metadata(), **of_all, "meaning": said})
        return
    one_way = (
        "yes: a unit that is added moves all answers one way, so their noise is half as wide as it would be otherwise"
    )
    either = "no: a unit may move answers both ways, or nothing (--l0 with --linf) says that it does not"
    facts = {
        "adjacency": f"{mechanism.adjacency}, unit: {mechanism.unit}",
        "monotonic": one_way if mechanism.monotonic else either,
    }
    head = f"{title(mechanism)}, epsilon {plain(mechanism.epsilon)}, sensitivity {plain(mechanism.sensitivity)}"
    parts = [head, terminal.table(facts.items(), indent=2), *(together.tables() if together else [])]
    click.echo("\n\n".join([*parts, terminal.paragraph(f"Meaning: {said}")]))


class Together(NamedTuple):
    """n releases of a mechanism: their epsilon at a total delta, by each way to compose them."""

    mechanism: Mechanism | OneAnswer
    promise: dpfast.Guarantee
    delta: Fraction
    n: int

    def costs(self) -> dict[str, Fraction]:
        found, promise = {}, self.promise
        with suppress(ParameterError):  # a delta that doubles find no epsilon for
            each = promise if promise.pure else promise.approximate(self.delta / self.n)
            found["sum"] = self.n * (each.epsilon or 0)
            rho = dpfast.Guarantee(rho=self.n * promise.rho, gdp=promise.gdp)
            found["rho"] = rho.approximate(self.delta).epsilon or 0
            with suppress(ImportError):
                parts = [self.mechanism] * self.n
                found["distribution"] = dpfast.compose(*parts, by="pld", delta=self.delta).epsilon or 0
        return {way: Fraction(epsilon) for way, epsilon in found.items()}

    def ways(self) -> dict[str, str]:
        return {**WAYS, "rho": "mu"} if self.promise.gdp else WAYS

    def facts(self) -> dict[str, Any]:
        costs = {way: str(epsilon) for way, epsilon in self.costs().items()}
        return {"together": {"releases": self.n, "delta": str(self.delta), "epsilon": costs}} if costs else {}

    def tables(self) -> list[str]:
        ways = [[f"by {self.ways()[way]}", rounded(epsilon, up=True)] for way, epsilon in self.costs().items()]
        head = [f"{self.n:,} releases, delta {plain(self.delta)}", "epsilon"]
        return [terminal.table([head, *ways], indent=2)] if ways else []

    def draw(self, path: Path, about: str) -> None:
        from dpfast.app.pictures import mechanisms as pictures

        numbers = sorted({round(self.n ** (i / POINTS)) for i in range(POINTS + 1)})
        pictures.costs({n: self._replace(n=n).costs() for n in numbers}, self.ways(), self.delta, path, about)


class Explained:
    """A mechanism, and what is known of it. sizes: for how many cells intervals are; 1 first."""

    def __init__(self, mechanism: Mechanism, sizes: list[int], releases: int | None) -> None:
        self.mechanism, self.sizes = mechanism, sizes
        delta_of: Any = getattr(mechanism, "delta", None)
        self.promise: dpfast.Guarantee | None = mechanism.guarantee if mechanism.adjacency else None
        self.holds = meaning.example(self.promise, delta_of) if self.promise else None
        self.sure = meaning.largest_loss(self.promise, self.holds) if self.promise else None
        self.loss = privacy_loss(mechanism) if self.sure else None
        self.real = isinstance(mechanism, (dpfast.Laplace, dpfast.Gaussian))
        self.scale = None if isinstance(mechanism, GAUSSIANS) else mechanism.sensitivity / mechanism.epsilon
        self.together: Together | None = None
        if releases and self.promise and self.sure:
            promised = self.holds and self.holds[1]
            self.together = Together(mechanism, self.promise, promised or meaning.EXAMPLE_DELTA, releases)

    @property
    def delta_is(self) -> str:
        mechanism = self.mechanism
        if not isinstance(mechanism, GAUSSIANS) or mechanism.sensitivity is None:
            return ""
        return meaning.delta_is(mechanism.sensitivity, mechanism.sigma_squared, real=self.real)

    def meaning(self) -> str:
        if self.promise is None:
            return "none yet: sigma promises nothing before it is said what one unit can change, by --l0 with --linf or --l2-squared."
        return meaning.promise_in_words(self.promise, self.holds, self.delta_is)

    def facts(self) -> dict[str, Any]:
        """All that the text says. Exact figures are strings; others are rounded to be safe."""
        mechanism = self.mechanism
        sizes = dict(zip(("one_cell", "all_cells"), self.sizes, strict=False))

        def each(what: Callable[[Fraction, int], float]) -> dict[str, dict[str, float]]:
            return {f"{float(p)}": {name: what(p, d) for name, d in sizes.items()} for p in CONFIDENCES}

        half_widths = each(lambda p, d: mechanism.interval(p, cells=d))
        facts: dict[str, Any] = {
            **mechanism.metadata(), "stddev": mechanism.stddev, "cells": sizes.get("all_cells"), "half_widths": half_widths
        }  # fmt: skip
        if (scale := self.scale) is not None:
            facts["textbook"] = {"half_widths": each(lambda p, d: meaning.textbook(scale, 1 - p, d))}
            if not self.real:
                facts["textbook"]["missed"] = each(lambda p, d: meaning.textbook_misses(scale, 1 - p, d))
        elif self.holds:
            facts["promise"] = {"epsilon": str(self.holds[0]), "delta": str(self.holds[1]), "delta_is": self.delta_is}
        if self.loss and self.holds:
            most, epsilon = self.loss.most, self.holds[0]
            above = {"above": {str(epsilon): self.loss.above(epsilon)}} if most is None else {"most": str(most)}
            facts["privacy_loss"] = {"mean": self.loss.mean, **above}
        if self.together:
            facts |= self.together.facts()
        if self.sure and self.promise:
            epsilon, but_for = self.sure
            bounds = {p: dict(zip(["at_least", "at_most"], posterior(p, epsilon), strict=True)) for p in PRIORS}
            facts["belief"] = {
                "of": meaning.statement(self.promise),
                "epsilon": float(epsilon) if but_for else str(epsilon),
                "but_for": str(but_for),
                "after": {f"{float(p)}": after for p, after in bounds.items()},
            }
        return {**facts, "meaning": self.meaning()}

    def text(self) -> str:
        mechanism = self.mechanism
        parts = [f"{title(mechanism)}, {law(mechanism)}", terminal.table(self._details().items(), indent=2)]
        heads = ["noise within", "one cell", *(f"all {d:,} cells" for d in self.sizes[1:])]
        rows = [[f"{100 * float(p):g} %", *(half_width(mechanism, p, d) for d in self.sizes)] for p in CONFIDENCES]
        notes = {"Meaning": self.meaning()}
        if self.sure and self.promise:
            notes["Belief"] = meaning.belief_in_words(self.promise, *self.sure)
        if (scale := self.scale) is not None:
            widths = [meaning.textbook(scale, 1 - USUAL, d) for d in self.sizes]
            rows.append(["95 %, textbook", *(f"±{rounded(Fraction(width), up=True)}" for width in widths)])
            notes["Textbook"] = meaning.textbook_in_words(scale, 1 - USUAL, self.sizes[-1], real=self.real)
        parts.append(terminal.table([heads, *rows], indent=2))
        if self.sure:
            ends = [(p, *map(Fraction, posterior(p, self.sure[0]))) for p in PRIORS]
            after = [[percent(p, up=True), percent(low, up=False), percent(high, up=True)] for p, low, high in ends]
            parts.append(terminal.table([["belief before", "after: at least", "at most"], *after], indent=2))
        if self.together:
            parts += self.together.tables()
        return "\n\n".join([*parts, *(terminal.paragraph(f"{name}: {note}") for name, note in notes.items())])

    def _details(self) -> dict[str, str]:
        """What stands before the tables."""
        mechanism = self.mechanism
        found = {"standard deviation": approximate(mechanism.stddev)}
        if self.promise:
            found["adjacency"] = f"{mechanism.adjacency}, unit: {mechanism.unit}"
        if isinstance(change := mechanism.sensitivity, dpfast.Sensitivity):
            cells = f"l0 {change.l0:,}, linf {plain(change.linf)}, " if change.l0 and change.linf else ""
            found["a neighbour changes"] = f"{cells}l2 {rounded(Fraction(change.l2), up=True)}"
        if isinstance(mechanism, (dpfast.Laplace, dpfast.Gaussian)):
            grid, exponent = mechanism.granularity, math.frexp(mechanism.granularity)[1] - 1
            found["granularity"] = (
                f"2**{exponent} ({grid:.2g}): results are its multiples, half-widths hold for any value"
            )
        if self.loss and self.holds:
            found["privacy loss"] = meaning.loss_in_words(self.loss, self.holds[0])
        return found

    def draw(self, path: Path, picture: str | None) -> None:
        from dpfast.app.pictures import mechanisms as pictures

        mechanism = self.mechanism
        about = f"{law(mechanism)}; {mechanism.adjacency}, unit: {mechanism.unit}"
        if picture == "posterior" and self.sure and self.promise:
            pictures.posterior(*self.sure, path, about, meaning.statement(self.promise))
        elif picture == "costs" and self.together:
            self.together.draw(path, about)
        elif picture == "loss" and self.loss and self.holds:
            pictures.loss(mechanism, self.loss, self.holds[0], path, about)
        else:
            pictures.noise(mechanism, path, title(mechanism), law(mechanism), self.holds)


def privacy_loss(mechanism: Mechanism) -> meaning.Loss:
    """That of the neighbours that are told apart best."""
    if not isinstance(mechanism, GAUSSIANS):
        rate = mechanism.epsilon / mechanism.sensitivity
        ((cells, change),) = mechanism.worst_change  # no option has an l1 of its own
        real = isinstance(mechanism, dpfast.Laplace)
        cell = meaning.LaplaceLoss(rate * change) if real else meaning.DiscreteLaplaceLoss(rate, math.floor(change))
        return cell if cells == 1 else meaning.CellsLoss(cell, cells)
    return (meaning.GaussianLoss if isinstance(mechanism, dpfast.Gaussian) else meaning.ZCDPLoss)(mechanism.rho())
