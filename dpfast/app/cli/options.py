# SPDX-License-Identifier: Apache-2.0
"""From a command line's options to a mechanism, and back to a line: the laws, and their options."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import click
import numpy as np

import dpfast
from dpfast.errors import ParameterError
from dpfast.noise.mechanisms import laws
from dpfast.noise.mechanisms.one_answer import OneAnswer
from dpfast.privacy.formatting import approximate, plain, plus_minus
from dpfast.privacy.parameters import exact_positive, exact_real, shown

Number: TypeAlias = Fraction | Decimal
GaussianLaw: TypeAlias = dpfast.Gaussian | dpfast.DiscreteGaussian
Mechanism: TypeAlias = dpfast.DiscreteLaplace | dpfast.Laplace | GaussianLaw
Command = TypeVar("Command", bound=Callable[..., object])
Decorator: TypeAlias = Callable[[Any], Any]
Ways: TypeAlias = Mapping[tuple[str, ...], Callable[..., Any]]  # options that are given together, and what they make
GAUSSIANS = dpfast.Gaussian, dpfast.DiscreteGaussian
ADDS_UP = ("epsilon", "delta", "rho")  # over columns
ABOUT = ("adjacency", "unit", "signed")


def together(*options: Decorator) -> Decorator:
    """One decorator for several options, which help shows in this order."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


class InOrder(click.Group):
    """Commands in the order of use, in which they are added."""

    def list_commands(self, _: click.Context) -> list[str]:
        return [*self.commands]


class Law(NamedTuple):
    """A mechanism on the command line: the ways to say what neighbours change and what is spent."""

    change: Ways
    spent: Ways
    also: tuple[str, ...]
    real: bool

    @property
    def takes(self) -> dict[str, None]:
        return dict.fromkeys([*(name for way in [*self.spent, *self.change] for name in way), "signed", *self.also])


def of_l1(sensitivity: Number, **about: str) -> dpfast.Sensitivity:
    return dpfast.Sensitivity.changes(1, exact_positive("sensitivity", sensitivity), **about)


def of_l2(l2_squared: Number, **about: str) -> dpfast.Sensitivity:
    return dpfast.Sensitivity.from_l2(exact_positive("l2-squared", l2_squared), **about)


CELLS: Ways = {("l0", "linf"): dpfast.Sensitivity}
L1: Ways = {("sensitivity",): of_l1, **CELLS}
L2: Ways = {**CELLS, ("l2_squared",): of_l2}


def law_of(kind: type[Any]) -> Law:
    """The options that a mechanism takes, as its constructors say it."""
    takes = signature(kind).parameters
    also, real = (*(name for name in ("granularity",) if name in takes), "missing"), not kind.INTEGERS
    if "sigma" in takes:
        return Law(L2, {("epsilon", "delta"): kind.calibrated, ("rho",): kind.from_zcdp, ("sigma",): kind}, also, real)
    wanted = tuple(name for name, each in takes.items() if each.default is each.empty and name != "sensitivity")
    return Law(L1, {wanted: kind}, also, real)


SECURE = "true: the noise is drawn from a secret key; false: from a fixed key for tests, and it protects nobody"
MECHANISMS = {name.replace("_", "-"): law_of(kind) for name, kind in laws.LAWS.items() if hasattr(kind, "INTEGERS")}

CHOICES: dict[str, Callable[..., OneAnswer]] = {  # which explain knows, and which no column of a file is given to
    kind.NAME.replace("_", "-"): kind for kind in (dpfast.Exponential, dpfast.PermuteAndFlip, dpfast.NoisyMax)
}
CHOICES["above-threshold"] = partial(dpfast.AboveThreshold, threshold=0)


class LawName(click.Choice):  # type: ignore[type-arg]  # older versions of click take none
    """A name in MECHANISMS; metadata's underscores will do."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        name = str(value).replace("_", "-").lower()
        if name == "one-sided-geometric":
            why = "noise that is never negative tells x from x + 1"
            self.fail(f"{name} is not a mechanism: {why}. discrete-laplace is one", parameter, context)
        return super().convert(name, parameter, context)


def picture_file(text: str) -> Path:
    """A file that a picture is written to."""
    if Path(text).suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise click.BadParameter(f"plot must be a .png, .svg or .pdf file, got {text}")
    return Path(text)


def group(text: str) -> str | int:
    """A group's name, or its number."""
    return int(text) if text.isdecimal() else text


AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead.")


def print_json(facts: Mapping[str, Any]) -> None:
    """One line on standard output: docs/schedulers.md names its members."""
    click.echo(json.dumps(facts))


sharing = click.option(
    "--shared-with",
    type=group,
    metavar="GROUP",
    help="A group whose members may charge the ledger, too; by default nobody else may add files to its folder.",
)


def number(text: str) -> Number:
    """A number taken exactly as written, never through a float."""
    with suppress(ValueError, ArithmeticError):
        power = re.fullmatch(r"2(?:\*\*|\^)(-?\d{1,4})", text)
        return Fraction(2) ** int(power[1]) if power else Fraction(text) if "/" in text else Decimal(text)
    raise click.BadParameter(f"{text[:40]!r} is not a number such as 1, 0.25, 1/3 or 2**-10")


LAW_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    (
        "--epsilon",
        number,
        "Privacy loss, such as 1, 0.25 or 1/3, taken exactly. Often 0.1 to 1; smaller values protect more.",
    ),
    ("--delta", number, "Gaussians: with --epsilon, to find sigma."),
    ("--rho", number, "Gaussians: the rho of zCDP, to find sigma."),
    ("--sigma", number, "Gaussians: the parameter itself."),
    (
        "--sensitivity",
        number,
        "Laplace mechanisms: what one unit, such as a person, changes in all cells of one column together (L1).",
    ),
    ("--l0", int, "The most cells of one column that one unit contributes to."),
    ("--linf", number, "The most that one unit contributes to a cell."),
    ("--signed", bool, "Contributions may be negative."),
    ("--l2-squared", number, "Gaussians: the largest squared L2 distance of neighbours."),
    ("--granularity", number, "laplace, gaussian: the grid of results, a power of two."),
    ("--bound", number, "snapping: values and results are clamped to [-bound, bound]."),
    (
        "--adjacency",
        click.Choice(["add-remove", "substitution"]),
        "How neighbouring inputs differ; by default add-remove.",
    ),
    ("--unit", str, "Whom the guarantee protects; by default a person."),
)


def law_options(command: Command, choices: Iterable[str] = ()) -> Command:
    """Add the options that say which law, and whom it protects. choices: what else may be named."""
    names = LawName([*MECHANISMS, *choices])
    for name, kind, text in [*reversed(LAW_OPTIONS), ("--mechanism", names, "The distribution of the noise.")]:
        default = "discrete-laplace" if name == "--mechanism" else None
        option = click.option(name, type=kind, is_flag=kind is bool, help=text, default=default, show_default=True)
        command = option(command)
    return command


noise_options = together(  # which name an exact distribution, with which noise is compared
    click.option(
        "--sensitivity", type=number, default="1", show_default=True, help="How far apart neighbouring counts are."
    ),
    click.option(
        "--distribution", type=click.Choice([*laws.own_laws()]), help="Compare the noise with this exact distribution."
    ),
    click.option("--sigma", type=number, help="Gaussian mechanisms: the parameter."),
    click.option("--granularity", type=number, help="Real mechanisms: the grid of outputs, a power of two."),
)


def noise_of(
    distribution: str, epsilon: Number | None, sensitivity: Number, sigma: Number | None, granularity: Number | None
) -> Any:
    """The mechanism whose noise has the distribution of these options."""
    own = {"sigma": sigma} if "gaussian" in distribution else {"epsilon": epsilon, "sensitivity": sensitivity}
    if None in own.values():
        raise click.UsageError(f"Missing option '--{next(iter(own))}': {distribution} needs it")
    return make(
        chosen({"mechanism": distribution.replace("_", "-"), "granularity": granularity, **own}), promises=False
    )


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


def changed(given: Mapping[str, Any], ways: Ways) -> dpfast.Sensitivity:
    """What a neighbour changes, by the one way that was given, and who is a neighbour."""
    way = one_way(ways, given)
    if "signed" in given and way not in CELLS:
        raise click.UsageError("'--signed' says what '--l0' and '--linf' are, and works only with them")
    return ways[way](**{key: given[key] for key in (*way, *ABOUT) if key in given})  # type: ignore[no-any-return]


def make(given: Mapping[str, Any], columns: int = 1, *, promises: bool = True) -> Mechanism:
    """The mechanism of the options, for one of so many columns. promises: they must say to whom."""
    name, law = given["mechanism"], MECHANISMS[given["mechanism"]]
    if "sensitivity" in given.keys() - law.takes.keys():
        raise click.UsageError(
            f"{name} takes no bare '--sensitivity', which may be a norm, its square or one cell's change: give "
            f"{' or '.join(dashed(*way) for way in law.change)}"
        )
    about = given.keys() & ABOUT
    for option in given.keys() - {"mechanism", *about} - law.takes.keys():
        others = " and ".join(other for other in MECHANISMS if option in MECHANISMS[other].takes)
        known = dashed(*(key for key in law.takes if promises or key != "missing"), by=" ")
        raise click.UsageError(f"{name} takes no {dashed(option)}, as {others} would; it takes {known}")
    spent = one_way(law.spent, given)
    values = {key: given[key] for key in (*spent, *law.also) if key in given and key != "missing"}
    if columns > 1 and spent == ("epsilon", "delta"):
        values["releases"] = columns  # one sigma for all: less noise than of parts of epsilon and delta
    elif columns > 1:
        values |= {key: exact_positive(key, given[key]) / columns for key in spent if key in ADDS_UP}
    needed = promises or "sigma" not in spent or about or any(given.keys() & set(way) for way in law.change)
    values["sensitivity"] = changed(given, law.change) if needed else None
    return law.spent[spent](**values)  # type: ignore[no-any-return]


def inner(clamp: tuple[Number, Number], dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The ends as cells of that type can be them; reals are rounded inwards: no wider clamp."""
    low, high = (near("clamp", end, dtype) for end in clamp)
    if isinstance(low, float) and low < clamp[0]:
        low = math.nextafter(low, math.inf)
    if isinstance(high, float) and high > clamp[1]:
        high = math.nextafter(high, -math.inf)
    return low, high


def make_choice(given: Mapping[str, Any]) -> OneAnswer:
    """The choice among answers that the options name."""
    for option in given.keys() - {"mechanism", "epsilon", *ABOUT, *(name for way in L1 for name in way)}:
        raise click.UsageError(f"{given['mechanism']} takes no {dashed(option)}")
    one_way({("epsilon",): dict}, given)
    return CHOICES[given["mechanism"]](given["epsilon"], changed(given, L1))


def near(name: str, value: Number | None, dtype: np.dtype[Any]) -> int | float | None:
    """A public number as cells of that type can be it: the nearest real, or the integer itself."""
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


def figures(guarantee: dpfast.Guarantee) -> dict[str, Fraction]:
    """What is spent; of a pure epsilon not the rho that it implies."""
    names = ADDS_UP[: 2 if guarantee.pure else 3]
    return {name: value for name in names if (value := getattr(guarantee, name)) is not None}


def title(mechanism: Mechanism | OneAnswer) -> str:
    """Such as "Discrete Laplace mechanism"."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", type(mechanism).__name__) + " mechanism"


def law(mechanism: Mechanism) -> str:
    """The parameters, in a line."""
    facts = mechanism.metadata()
    exact = {name: Fraction(str(facts[name])) for name in (*ADDS_UP, "sensitivity", "bound") if name in facts}
    scale = f"{'sigma' if isinstance(mechanism, GAUSSIANS) else 'scale'} {approximate(mechanism.scale)}"
    return ", ".join([*(f"{name} {plain(value)}" for name, value in exact.items()), scale])


def half_width(mechanism: Mechanism, confidence: Fraction, cells: int = 1) -> str:
    """That of an interval as people read it, rounded up."""
    width = mechanism.interval(confidence, cells=cells)
    return plus_minus(Fraction(width))
