# SPDX-License-Identifier: Apache-2.0
"""`dpfast totals`: counts over time, a step of rows each day, for one charge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

import dpfast
from dpfast import terminal
from dpfast.app.cli.file_options import METADATA, refuse_written, style_options
from dpfast.app.cli.histogram import BY, UNIT, Asked, Release, counted, opened, row_options
from dpfast.app.cli.ledger import amounts, exactly
from dpfast.app.cli.measures import USUAL, interval_options
from dpfast.app.cli.options import (
    AS_JSON,
    LAW_OPTIONS,
    InOrder,
    dashed,
    figures,
    print_json,
    together,
)
from dpfast.app.cli.request import QUIET, RESUME, Payer, Request, paying_options
from dpfast.app.cli.running import Noise, further, implied, made_of, often
from dpfast.errors import LedgerError, ParameterError
from dpfast.privacy.formatting import approximate, plus_minus

FILE = click.Path(dir_okay=False, path_type=Path)
BESIDE_A_STATE = ".before", ".ahead", ".new"
EXAMPLES = """\b
Examples:
  dpfast totals new --by city --domain cities.txt --unit person --max-partitions 1 --steps 365 --rho 0.02 \\
      --ledger budget.db --key-file visits.key --label "sign-ups 2026" --state sign-ups.state
  dpfast totals step 1 monday.csv totals.csv --by city --domain cities.txt --unit person --max-partitions 1 \\
      --steps 365 --rho 0.02 --ledger budget.db --key-file visits.key --label "sign-ups 2026" \\
      --state sign-ups.state --intervals --resume
  dpfast totals show budget.db
"""
SPENT = ("--adjacency", "--rho", "--delta", "--epsilon")
_KINDS = {name: (kind, text) for name, kind, text in LAW_OPTIONS if name in SPENT}
totals_options = together(  # each step names them again, and the ledger compares
    BY,
    UNIT,
    row_options,
    click.option(
        "--steps",
        type=click.IntRange(1),
        metavar="T",
        required=True,
        help="How many steps are expected, such as 365 days.",
    ),
    click.option(
        "--per-unit-steps",
        type=click.IntRange(1),
        metavar="M",
        default=1,
        show_default=True,
        help="In how many steps one unit counts at most: the first ones in which it has rows.",
    ),
    click.option(
        "--apart",
        type=click.IntRange(1),
        metavar="K",
        default=1,
        show_default=True,
        help="How many steps lie at least from one step in which a unit counts to its next.",
    ),
    click.option("--rho", type=_KINDS["--rho"][0], help="What all steps together spend: the rho of zCDP."),
    click.option(
        "--epsilon", type=_KINDS["--epsilon"][0], help="In place of --rho, with --delta: what all steps spend."
    ),
    click.option("--delta", type=_KINDS["--delta"][0], help="With --epsilon."),
    click.option("--adjacency", type=_KINDS["--adjacency"][0], help=_KINDS["--adjacency"][1]),
    style_options,
    paying_options("", "totals"),
    click.option(
        "--state",
        type=FILE,
        metavar="FILE",
        help="What the next step needs, and who has counted. It holds exact counts: keep it, and what lies beside it, as the rows.",
    ),
)


@click.group(cls=InOrder, epilog=EXAMPLES)
def totals() -> None:
    """Publish every running total of counts over time, for one charge (docs/running.md)."""


# ------------------------------------------------------------------ they are made


@totals.command(short_help="Make totals: the one charge.")
@totals_options
@click.option("--resume", is_flag=True, help="Go on if they are there: a run that was killed is begun again.")
@click.option("--explain", is_flag=True, help="Report the privacy cost and the size of the noise, and make nothing.")
@QUIET
def new(**options: Any) -> None:
    """Make totals, and charge --ledger for all their steps at once.

    Every step is then free: dpfast totals step takes the same options, and the ledger refuses
    others. --steps is how many are expected, and decides the noise. You may go on to 64 times as
    many at no further charge, with somewhat more noise. One unit counts in at most --per-unit-steps
    of them, first come, first served. What it has in other steps is left out, and nothing says how
    much that was.
    """
    request = Request.of(options)
    asked = Asked.of(options, request)
    if options["explain"]:
        click.echo(asked.explained(request))
        return
    payer = _paying(request, asked)
    there = _is_charged(payer)
    with payer.stays():
        try:
            _running(asked, payer, resume=request.resume and there)
        except BaseException:
            if not there:
                payer.pays(None)
                with suppress(LedgerError):
                    payer.pays(_is_charged(payer))
            raise
    if not request.quiet:
        state = f"{asked.given['state']}: the state, with exact counts: keep it where the rows are kept"
        terminal.tell("\n".join(map(terminal.printable, [*asked.lines(), state, *payer.left()])))


def _paying(request: Request, asked: Asked) -> Any:
    """Raises: click.UsageError, LedgerError, FileError."""
    files = {"ledger": request.ledger_file, "key-file": request.key_file, "state": asked.given.get("state")}
    for option, given in files.items():
        if given is None:
            raise click.UsageError(f"Missing option '--{option}': totals need {dashed(*files, 'label', by=', ')}")
    read = {"--ledger": request.ledger_file, "--key-file": request.key_file, **asked.listed.files}
    refuse_written(_state_files(asked), read)
    payer = Payer(request, asked.sealed_terms(request.style), gives="goes on")
    asked.must_be_of(cast("dpfast.Ledger", payer.ledger))
    return payer


def _state_files(asked: Asked) -> dict[str, Path]:
    """Those of the state, by what names them."""
    state = asked.given["state"].resolve()  # what lies beside a link lies beside its file
    return {"--state": state} | {f"a file of --state ({end})": Path(f"{state}{end}") for end in BESIDE_A_STATE}


def _is_charged(payer: Any) -> bool:
    """Whether the totals are paid for. Raises: LedgerError."""
    return payer.ledger._taken(payer.label) is not None  # noqa: SLF001  the ledger's own door


def _running(asked: Asked, payer: Any, *, resume: bool) -> Any:
    """The totals of the ledger, charged and made, or opened. Raises: as Ledger.running."""
    measure: Any = asked.measure
    names, state = np.arange(measure.cells, dtype=np.int32), asked.given["state"]
    found = payer.ledger.running(measure.rows, key=payer.key, names=names, state=state, resume=resume)
    measure.mechanism = found.totals  # whose integers were found when they were made
    return found


# ------------------------------------------------------------------ a step


@totals.command(short_help="Count the rows of one step, and write all totals so far.")
@click.argument("t", metavar="T", type=click.IntRange(1))
@click.argument("source", metavar="ROWS", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@totals_options
@click.option(
    "--format", "form", metavar="NAME", help="The format of - and of files whose names do not say: csv, tsv, …"
)
@interval_options
@RESUME
@click.option("--force", is_flag=True, help="Replace OUT, if it exists.")
@QUIET
@METADATA
def step(**options: Any) -> None:
    """Count the rows of ROWS as step T, and write the noisy totals of all steps so far to OUT.

    Steps are taken one after the other, from 1 on. ROWS are those of the step alone, read as dpfast
    histogram reads them. OUT has a row for each combination of keys, with the columns of --by and
    total, rounded to a power of ten of at most a thousandth of its standard deviation; intervals
    allow for that. A row that comes late, or corrects an earlier one, goes into today's step.

    With --resume a step that was begun goes on: with the rows that were written ahead, whatever
    ROWS has become. So it gives the same OUT. Nothing is charged: the totals are paid for.
    """
    request = Request.of(options)
    asked = Asked.of(options, request)
    payer = _paying(request, asked)
    _run(request, asked, payer)


def _run(request: Request, asked: Asked, payer: Any) -> None:
    """Ask the ledger, read and count the rows, take the step, and write the table."""
    from dpfast.app.tables import cells as table
    from dpfast.app.tables.gathered import table_of

    refuse_written(_state_files(asked), {"ROWS": request.source})
    request.check_files("ROWS", {**asked.listed.files, **_state_files(asked)})
    with request.interruptible(payer):
        table.checked(request.target, **request.sink)
        if not _is_charged(payer):
            raise ParameterError(
                f"--label must be that of totals, and {payer.ledger.path} has none of {payer.label!r:.60}: dpfast totals new "
                "makes them"
            )
        running = _running(asked, payer, resume=True)
        ahead = running.begun(asked.given["t"]) and request.resume
        release = opened(request, asked, payer)
        rows = {} if ahead else dict(zip(("keys", "unit_ids"), counted(release), strict=True))
        out = table.written(request.target, _about(release, running), **request.sink)
        paid = "" if request.quiet else f"paid by charge {payer.balance([]).number:,}; this step costs nothing"
        with request.writing(payer, cast("Any", None), out) as (write, page):
            noisy = running.step(asked.given["t"], **rows, resume=ahead)
            keys = asked.cells.columns(release.typed) if asked.cells else []
            write(table_of(dict(zip(asked.names, keys, strict=True)), asked.measure.columns(noisy.values)))
        if not request.quiet:
            said = [*asked.lines(paid), *(["ROWS were not read: the step is of those that were written ahead"] * ahead)]
            request.tell(payer, page, [*said, f"{request.target}: all totals after step {noisy.t:,}"])


def _about(release: Release, running: Any) -> dict[str, Any]:
    """What travels with OUT."""
    return release.asked.about() | release.payer.about() | {"manifest": running.manifest.metadata()}


# ------------------------------------------------------------------ what there is


@totals.command(short_help="Say which totals a ledger has paid for.")
@click.argument("file", type=FILE)
@AS_JSON
def show(file: Path, as_json: bool) -> None:
    """Say which totals the ledger in FILE has paid for, how far they are, and how wide their noise.

    All of it is public, and of the ledger alone: no state and no count is read.
    """
    ledger = dpfast.Ledger(file)
    found = [_facts(ledger, entry) for entry in ledger.history() if _manifest(entry).get("kind") == "steps"]
    if as_json:
        told = [{name: each for name, each in facts.items() if name != "implied"} for facts in found]
        print_json({"dataset": ledger.dataset, "totals": told})
    elif not found:
        click.echo(terminal.printable(f"{ledger.dataset}: no running totals"))
    else:
        click.echo("\n\n".join(_text(each) for each in found))


def _manifest(entry: Any) -> Mapping[str, Any]:
    found = entry.parameters.get("manifest")
    return found if isinstance(found, Mapping) and not entry.refused else {}


def _facts(ledger: dpfast.Ledger, entry: Any) -> dict[str, Any]:
    """What is public of totals. Raises: LedgerError, ParameterError (a damaged ledger)."""
    manifest = _manifest(entry)
    terms = manifest["terms"]
    made, taken = made_of(terms), ledger._taken(entry.label) or 0  # noqa: SLF001  its own door
    noise = Noise(made, max(taken, 1))
    return {
        "label": entry.label,
        "steps": made.steps,
        "ceiling": made.ceiling,
        "taken": taken,
        "cells": math.prod(manifest["size"]),
        "stddev": noise.stddev,
        "half_width_95": str(noise.interval(USUAL)),
        "cost": exactly(figures(made.guarantee)),
        "implied": implied(made),
        "unit": made.unit,
        "adjacency": made.adjacency,
        "per_unit_steps": made.per_unit_steps,
        "apart": made.apart,
        "bounded": any(name.startswith("max_") for name in terms),
        "options": {name: each for name, each in terms.items() if name.startswith("--")},
        "charge": entry.number,
        "time": entry.time,
    }


def _text(facts: Mapping[str, Any]) -> str:
    taken, cost = facts["taken"], {name: Fraction(each) for name, each in facts["cost"].items()}
    who = f"one {facts['unit']} counts in {often(facts['per_unit_steps'], facts['apart'])}"
    wide = f"{approximate(facts['stddev'])}, 95 % within {plus_minus(Fraction(facts['half_width_95']))}"
    rows = [
        ("steps", f"{taken:,} taken of {facts['steps']:,} expected; {further(facts['ceiling'])}"),
        ("cost", f"{amounts(cost, up=True)}{facts['implied']} per {facts['unit']}, {facts['adjacency']}; charge {facts['charge']}, {facts['time']}"),
        ("over time", who if facts["bounded"] else f"{who}, as whoever counted says"),
        ("totals", f"{facts['cells']:,}; standard deviation after step {max(taken, 1):,} {wide}"),
    ]  # fmt: skip
    return "\n".join(map(terminal.printable, [facts["label"], *(f"  {name:9}  {said}" for name, said in rows)]))
