# SPDX-License-Identifier: Apache-2.0
"""`dpfast ledger`: a privacy budget in a file, and what is left of it."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import Any

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.options import (
    AS_JSON,
    LAW_OPTIONS,
    MECHANISMS,
    InOrder,
    LawName,
    Number,
    changed,
    chosen,
    dashed,
    half_width,
    number,
    picture_file,
    print_json,
    sharing,
    together,
)
from dpfast.app.cli.options import law as law_in_words
from dpfast.errors import ParameterError
from dpfast.ledger.table import NUMERIC
from dpfast.noise.mechanisms import laws
from dpfast.privacy import formatting, meaning
from dpfast.privacy.parameters import exact_real

FILE = click.Path(dir_okay=False, path_type=Path)
UNKNOWN = "without --key-file nobody can tell whether a copy was restored since"
EXAMPLES = """\b
Examples:
  dpfast ledger create budget.db --epsilon 3 --delta 1e-6 --dataset visits
  dpfast privatize in.csv out.csv --column count --epsilon 0.5 --sensitivity 1 --ledger budget.db
  dpfast ledger show budget.db --plot spend.png
  dpfast ledger plan budget.db --epsilon 0.1
  dpfast ledger plan budget.db --releases 52 --mechanism discrete-laplace --sensitivity 1
  dpfast ledger copy budget.db /backups/budget-2026-11.db
  dpfast ledger verify budget.db
"""


CHANGE = "--sensitivity", "--l0", "--linf", "--signed", "--l2-squared", "--granularity", "--bound"
change_options = together(
    click.option(
        "--mechanism",
        type=LawName([*MECHANISMS]),
        help="With --releases: the distribution of the noise; by default discrete-laplace.",
    ),
    *(
        click.option(name, type=kind, is_flag=kind is bool, help=text)
        for name, kind, text in LAW_OPTIONS
        if name in CHANGE
    ),
)


@click.group(cls=InOrder, epilog=EXAMPLES)
def ledger() -> None:
    """Keep a privacy budget in a file: releases are charged to it, and refused beyond it."""


@ledger.command(short_help="Make a ledger in FILE.")
@click.argument("file", type=FILE)
@click.option("--epsilon", type=number, help="The total that may ever be spent.")
@click.option("--delta", type=number, help="With --epsilon; by default 0, and then no Gaussian fits.")
@click.option(
    "--rho", type=number, help="Instead of epsilon: the total in zCDP. --delta is then for the releases' own deltas."
)
@click.option(
    "--by",
    type=click.Choice(["zcdp", "gdp"]),
    help="Keep epsilon and delta in zCDP, in which many releases cost less, or in GDP, in which real Gaussian noise costs least.",
)
@click.option(
    "--own-delta", type=number, help="With --by zcdp: the part of --delta for releases' own deltas; by default 0."
)
@click.option("--dataset", metavar="NAME", help="What the released data are called; by default the name of FILE.")
@click.option("--adjacency", type=click.Choice(["add-remove", "substitution"]), help="By default add-remove.")
@click.option("--unit", metavar="NAME", help="Whom the guarantee protects; by default a person.")
@sharing
def create(file: Path, **terms: Any) -> None:
    """Make a ledger in FILE, for one data set, adjacency and unit of privacy."""
    if terms["epsilon"] is None and terms["rho"] is None:
        raise click.UsageError("Missing option '--epsilon' (with '--delta'), or '--rho'")
    made = dpfast.Ledger(file, **terms, create=True)
    given = {name: exact_real(name, terms[name]) for name in ("epsilon", "delta") if terms["by"]}
    terminal.tell(budget(made, given), to="stdout")


@ledger.command(short_help="Print what was charged, and what is left.")
@click.argument("file", type=FILE)
@click.option("--plot", type=picture_file, metavar="PICTURE", help="Draw the spend over time: .png, .svg or .pdf.")
@AS_JSON
def show(file: Path, plot: Path | None, as_json: bool) -> None:
    """Print what was charged, and what is left, after the sums were checked.

    Attempts that were refused for their values are listed, too. They cost nothing and drew nothing.
    """
    found = dpfast.Ledger(file)
    history, spent, left, total = found.history(), *map(found.cost, (found.spent, found.remaining, found.budget))
    if as_json:
        facts = {"budget": found.metadata(), "spent": exactly(spent), "left": exactly(left)}
        known = [{name: value for name, value in entry._asdict().items() if value is not None} for entry in history]
        releases = [{n: str(v) if isinstance(v, Fraction) else v for n, v in entry.items()} for entry in known]
        print_json({**facts, "releases": releases})
    else:
        sums = f"spent  {amounts(spent, total, up=True)}\nleft   {amounts(left, total)}"
        charges = terminal.table(history.rows(), right=NUMERIC) if history else str(history)
        click.echo(f"{budget(found)}\n\n{charges}\n\n{sums}")
    if plot:
        from dpfast.app.pictures.ledger import spend

        spend(found, plot)


@ledger.command(short_help="Say how many more releases fit.")
@click.argument("file", type=FILE)
@click.option("--epsilon", type=number, help="The epsilon of each release.")
@click.option("--delta", type=number, help="The delta of each release, with --epsilon; by default 0.")
@click.option(
    "--rho",
    type=number,
    help="The rho of each release, for a ledger kept in rho (by default what epsilon implies), or of real Gaussian noise.",
)
@click.option(
    "--releases", type=click.IntRange(1), metavar="N", help="Instead, say what each of N more releases may spend."
)
@AS_JSON
@change_options
def plan(
    file: Path,
    epsilon: Number | None,
    delta: Number | None,
    rho: Number | None,
    releases: int | None,
    as_json: bool,
    **of_law: Any,
) -> None:
    """Say how many more releases fit, or what each of N may spend. Nothing is charged.

    With --releases and what one unit changes (--sensitivity, or --l0 and --linf), it prints the
    mechanism of the least noise that the ledger can pay for N times, if nothing else is charged. It
    also prints the options for it in `dpfast privatize`. `dpfast histogram` has its own options for
    what one unit changes.
    """
    if (epsilon is None and delta is None and rho is None) == (releases is None):
        raise click.UsageError("give either '--epsilon' (with '--delta') or '--rho', or else '--releases'")
    given = chosen(of_law)
    if given and releases is None:
        raise click.UsageError(f"{dashed(next(iter(given)))} goes with '--releases'")
    found = dpfast.Ledger(file)
    left, total = found.cost(found.remaining), found.cost(found.budget)
    made: dict[str, Any] = {}
    if releases:
        each = {name: value / releases for name, value in left.items()}
        room: int | None = releases
        said = f"each of {releases:,} more may spend {amounts(each, total)}, if nothing else is charged"
        if given:
            made, written = planned(found, releases, given)
            said += f"\n{written}"
    else:
        of = found.budget
        real = of.gdp and rho is not None
        release = dpfast.Guarantee(epsilon, delta, rho=rho, gdp=real, adjacency=of.adjacency, unit=of.unit)
        each, room = found.cost(release), found.fits(release)
        said = f"{'any number of' if room is None else f'{room:,}'} more of {amounts(each, up=True)} fit"
        if room:
            after = {name: value - room * each[name] for name, value in left.items()}
            said += f", and then {amounts(after, total)} is left"
    if as_json:
        print_json({"left": exactly(left), "releases": room, "each": exactly(each), **made})
    else:
        click.echo(f"{amounts(left, total)} is left\n{said}")


def planned(of: dpfast.Ledger, releases: int, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The mechanism that is paid so often: for a program, and in a line with what to write."""
    name = given.pop("mechanism", "discrete-laplace")
    law, about = MECHANISMS[name], of.budget
    if unknown := [option for option in given if option not in law.takes]:
        raise click.UsageError(f"{name} takes no {dashed(unknown[0])}")
    if "bound" in law.takes and "bound" not in given:
        raise click.UsageError(f"Missing option '--bound': {name} needs it")
    change = changed({**given, "adjacency": about.adjacency, "unit": about.unit}, law.change)
    own = {option: value for option, value in given.items() if option in law.also or option == "bound"}
    made = of.calibrated(laws.LAWS[name.replace("-", "_")], releases=releases, sensitivity=change, **own)
    spent = getattr(made, "calibrated_for", made)
    names = next(way for way in law.spent if all(getattr(spent, figure, None) is not None for figure in way))
    written = [f"--{figure} {formatting.exact(getattr(spent, figure))}" for figure in names if figure != "bound"]
    written += [f"--{option.replace('_', '-')} {value}".removesuffix(" True") for option, value in given.items()]
    written += [f"--adjacency {about.adjacency}"] * (about.adjacency != "add-remove")
    written += [f"--unit {quote(about.unit)}"] * (about.unit != "person")
    facts = {"mechanism": made.metadata(), "options": " ".join([f"--mechanism {name}", *written])}
    said = f"{law_in_words(made)}, 95 % within {half_width(made, Fraction(95, 100))}: {facts['options']}"
    if not law.real:
        said += f"\nof dpfast histogram: its bounds, such as --max-partitions, in place of {dashed(*given, by=' and ')}"
    return facts, said


@ledger.command(short_help="Check every charge, all sums, every page.")
@click.argument("file", type=FILE)
@sharing
@click.option(
    "--key-file", type=FILE, metavar="KEY", help="A key file under which it was charged: its head shows what was lost."
)
@AS_JSON
def verify(file: Path, shared_with: str | int | None, key_file: Path | None, as_json: bool) -> None:
    """Check the whole of FILE: every charge, all sums, every page.

    Opening and charging look only at a checkpoint and the last charge. A charge that was cut off is
    undone, in a ledger of your own or one that a group shares (--shared-with). The head beside KEY
    shows whether a copy was restored since, unless the head was restored with it.
    """
    found = dpfast.Ledger(file, shared_with=shared_with)
    charges = found.verify(dpfast.KeyFile(key_file) if key_file else None)
    refused = sum(entry.refused for entry in found.history())
    if as_json:
        seen = str(key_file) if key_file else None
        print_json({"dataset": found.dataset, "charges": charges - refused, "refused": refused, "seen_by": seen})
        return
    said = f"{charges - refused:,} {'charge' if charges - refused == 1 else 'charges'}"
    said += f" and {refused:,} refused {'attempt' if refused == 1 else 'attempts'}" if refused else ""
    click.echo(f"{found.dataset}: {said}, all as they were written")
    told = f"no charge is lost that the head beside {key_file} saw" if key_file else UNKNOWN
    click.echo(told)


@ledger.command(short_help="Go on with a ledger that was restored from a copy.")
@click.argument("file", type=FILE)
@click.option(
    "--key-file",
    type=FILE,
    metavar="KEY",
    required=True,
    help="A key file under which it was charged: its head shows what was lost.",
)
@click.option("--charge", is_flag=True, help="Charge what is missing, up to what is left, and go on with the ledger.")
@sharing
@AS_JSON
def restored(file: Path, key_file: Path, charge: bool, shared_with: str | int | None, as_json: bool) -> None:
    """Say what FILE lacks since a copy took its place, or charge it.

    The head beside KEY has what was spent when KEY was last used. It cannot know what was charged
    without KEY since then, and lost.
    """
    found = dpfast.Ledger(file, shared_with=shared_with)
    lost = found.cost(found.restored(dpfast.KeyFile(key_file), charge=charge))
    if as_json:
        print_json({"dataset": found.dataset, "lost": exactly(lost), "charged": charge and any(lost.values())})
    elif not any(lost.values()):
        click.echo(f"{found.dataset}: no charge is lost that the head beside {key_file} saw")
    else:
        then = "is charged, as far as the budget goes" if charge else "may be lacking: --charge charges it, and goes on"
        click.echo(f"{found.dataset}: {amounts(lost, up=True)} {then}")


@ledger.command(short_help="Make a checked copy in a new file.")
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
def copy(source: Path, target: Path) -> None:
    """Make a checked copy of a ledger in a new file.

    It is the ledger as it was at one moment, even while processes charge it. A copy is for keeping
    and reading: neither file knows what is charged to the other.
    """
    terminal.tell(budget(dpfast.Ledger(source).copy(target)), to="stdout")


@ledger.command(short_help="Bring a ledger of an earlier version to today's format.")
@click.argument("file", type=FILE)
@sharing
def upgrade(file: Path, shared_with: str | int | None) -> None:
    """Bring a ledger of format 1 or 2, by an earlier version, to today's format.

    Its budget and its charges stay. Earlier versions then refuse it.
    """
    terminal.tell(budget(dpfast.Ledger.upgrade(file, shared_with=shared_with)), to="stdout")


def budget(ledger: dpfast.Ledger, given: dict[str, Fraction] | None = None) -> str:
    """Such as "visits: epsilon 3, delta 1e-6 in all per person, add-remove".

    given: an (epsilon, delta) that is counted otherwise. Without it one that holds is shown.
    """
    about = ledger.budget
    cost = ledger.cost(about)
    said = amounts(cost, up=True)
    if given:
        said = f"{amounts(given, up=True)}, counted as {said},"
    elif "epsilon" not in cost:
        with suppress(ParameterError):  # a delta of its own that is larger than this
            epsilon = about.approximate(meaning.EXAMPLE_DELTA).epsilon or Fraction(0)
            near = formatting.rounded(Fraction(f"{float(epsilon):.6g}"), up=True, digits=3)
            said += f" (about epsilon {near} at delta {formatting.plain(meaning.EXAMPLE_DELTA)})"
    return f"{ledger.dataset}: {said} in all per {about.unit}, {about.adjacency}"


def amounts(kept: dict[str, Fraction], of: dict[str, Fraction] | None = None, *, up: bool = False) -> str:
    """Such as "epsilon 0.5, delta 1e-6", rounded down; up, if spent. No delta if none was given."""
    named = {name: value for name, value in kept.items() if name != "delta" or value or (of and of.get("delta"))}
    return formatting.amounts(named, up=up)


def exactly(kept: dict[str, Fraction]) -> dict[str, str]:
    return {name: str(value) for name, value in kept.items()}
