# SPDX-License-Identifier: Apache-2.0
"""Mechanisms, figures and promises in words. A figure that promises privacy is rounded to the safe side."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import dpfast
from dpfast.cli.options import ADDS_UP, GAUSSIANS, GaussianLaw, Mechanism
from dpfast.mechanisms.one_answer import OneAnswer
from dpfast.privacy import gaussian
from dpfast.privacy.meaning import GaussianLoss, Loss, textbook_misses
from dpfast.privacy.parameters import exact_positive


def title(mechanism: Mechanism | OneAnswer) -> str:
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


def percent(value: Fraction, *, up: bool) -> str:
    """A probability in three digits, or above 99 % in three of what it lacks to 100 %; rounded up or down."""
    high = 100 * value > 99
    small = 100 * (1 - value if high else value)
    rounding = ROUND_CEILING if up != high else ROUND_FLOOR
    if rounding == ROUND_FLOOR and small < Fraction(1, 10**6):
        small = Fraction(0)
    near = Context(prec=3, rounding=rounding).divide(*map(Decimal, small.as_integer_ratio()))
    return f"{written((100 - near if high else near).normalize())} %"


def written(value: Decimal) -> str:
    return f"{value:,f}" if -5 <= value.adjusted() < 20 else f"{value:e}"


def reach(mechanism: Mechanism, confidence: Fraction, cells: int = 1) -> float:
    """The half-width that holds the noise of any value: one off the grid of a real law may need a step more."""
    step: float = getattr(mechanism, "granularity", 0)
    return mechanism.interval(confidence, cells=cells) + step


def half_width(mechanism: Mechanism, confidence: Fraction, cells: int = 1) -> str:
    """The same as people read it, rounded up."""
    width = reach(mechanism, confidence, cells)
    return f"{width:,}" if isinstance(width, int) else rounded_up(Fraction(width))


def details(mechanism: Mechanism, loss: Loss | None = None, epsilon: Fraction | None = None) -> dict[str, str]:
    """What stands before the tables. epsilon: of which the share of releases with a larger loss is said."""
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
    if loss:
        found["privacy loss"] = f"on average {rounded_up(Fraction(loss.mean))}, {extreme(loss, epsilon)}"
    return found


def extreme(loss: Loss, epsilon: Fraction | None) -> str:
    if loss.most is not None or epsilon is None:
        return f"never above {plain(loss.most or Fraction(0))}"
    most = "" if isinstance(loss, GaussianLoss) else "at most "
    return f"above {plain(epsilon)} in {most}{percent(Fraction(loss.above(epsilon)), up=True)} of releases"


def delta_is(mechanism: GaussianLaw) -> str:
    """What the delta of a Gaussian is: for the discrete law it can be a bound."""
    cells = mechanism.sensitivity.largest if mechanism.sensitivity else None
    if isinstance(mechanism, dpfast.Gaussian) or (cells and gaussian.is_exact(cells.l0, mechanism.sigma_squared)):
        return "exact"
    if cells:
        return "a bound through zCDP: so many cells are too many for the exact figure"
    return "a bound through zCDP: an L2 norm alone gives no better, --l0 with --linf would"


def meaning(mechanism: Mechanism | OneAnswer, found: tuple[Fraction, Fraction] | None) -> str:
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


def statement(mechanism: Mechanism) -> str:
    """What the table of beliefs is about."""
    return {
        "add-remove": f"that a certain {mechanism.unit} is in the data",
        "substitution": f"of anything about the data of a certain {mechanism.unit}",
    }[str(mechanism.adjacency)]


def belief(mechanism: Mechanism, epsilon: Fraction, but_for: Fraction) -> str:
    """What the table of beliefs says. epsilon: that the loss does not exceed. but_for: the share of releases where it may."""
    said = [f"how sure a reader can be {statement(mechanism)}, even one who knows all the rest."]
    if but_for:
        said.append(
            f"It holds in all but {plain(but_for)} of releases: in those the privacy loss may be beyond {rounded_up(epsilon)}."
        )
    if mechanism.adjacency == "add-remove":
        more = "four times the rho" if but_for else "twice the epsilon"
        said.append(f"For anything about the data of a {mechanism.unit} that is known to be there, take {more}.")
    return " ".join(said)


def by_textbook(mechanism: dpfast.DiscreteLaplace | dpfast.Laplace, beta: Fraction, cells: int) -> str:
    """What the textbook's half-width is, and whether it holds."""
    said = f"sensitivity/epsilon ln({cells:,}/{plain(beta)}), which is for real Laplace noise."
    if not isinstance(mechanism, dpfast.DiscreteLaplace):
        return f"{said} It holds before any rounding, for all cells by the union bound."
    found = Fraction(textbook_misses(mechanism.sensitivity / mechanism.epsilon, beta, cells))
    verdict = f"not {plain(100 * beta)} %: go by the exact rows" if found > beta else "so here it holds"
    return f"{said} Whole noise is beyond it with probability {percent(found, up=True)}, {verdict}."


def times(epsilon: Fraction) -> str:
    """The ratio e^epsilon in words; rounded up, as every figure that promises privacy."""
    wide, short = Context(prec=40, rounding=ROUND_CEILING), Context(prec=3, rounding=ROUND_CEILING)
    if epsilon > 20:  # beyond, a figure would say nothing more
        return "e^epsilon times"
    most = wide.next_plus(wide.exp(wide.divide(*map(Decimal, epsilon.as_integer_ratio()))))
    digits = short.plus(most) if most > 2 else wide.add(1, short.plus(wide.subtract(most, 1)))
    return f"{digits:,f} times (e^epsilon)"


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
