# SPDX-License-Identifier: Apache-2.0
"""`dpfast look`: for who holds the rows, whether a list of keys is written as the rows are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.file_options import style_of
from dpfast.app.cli.histogram import histogram, keys_of, listed_of
from dpfast.app.cli.options import AS_JSON, chosen, print_json, sharing
from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.described import Described
from dpfast.privacy.record import unwritten, written

if TYPE_CHECKING:
    from dpfast.app.tables.gathered import Listed
    from dpfast.app.tables.looked import Found, Unmatched

SHOWN = 100  # keys of a column in a terminal and in a ledger, and letters of a key there
READS = {"by", "domains", "bins", "strip", "null", "unknown"}  # the options by which histogram reads keys
TEXTS = {"delimiter", "encoding", "decimal", "thousands", "form"}
PRIVATE = "private: this tells of the rows themselves, and no epsilon covers it"
AFTER = (
    "What is changed after a look was chosen from the rows, and epsilon does not cover the choice: mend how a list is "
    "written, and leave which keys it has."
)
EXAMPLES = """\b
Examples:
  dpfast look people.csv --by sex --domain female,male
  dpfast look people.csv --by sex --domain Female,Male --strip --ledger budget.db
"""


class Look(Described):
    """What a ledger's history has of a look: what was asked, and no charge."""

    NAME = "look"
    guarantee: dpfast.Guarantee = written(metadata=unwritten)
    asked: dict[str, Any] = written(metadata=lambda asked: asked)

    def __init__(self, of: dpfast.Guarantee, names: Sequence[str], listed: Listed, rules: Mapping[str, Any]) -> None:
        """of: what the ledger is about. rules: how cells become keys."""
        keys = {name: _noted(keys) for name, keys in listed.keys.items()}
        nothing = dpfast.Guarantee(epsilon=0, adjacency=of.adjacency, unit=of.unit)
        self._keep(guarantee=nothing, asked={"by": [*names], "keys": keys, **rules})

    @property
    def words(self) -> str:
        """Such as "city: Oslo,Lima"."""
        columns: dict[str, dict[str, Any]] = self.asked["keys"]
        return "; ".join(f"{name}: {','.join(keys['first'])}" for name, keys in columns.items())


def _noted(keys: Sequence[str]) -> dict[str, Any]:
    """The first keys of a list, and what tells it from others that begin like it."""
    digest = blake2b(json.dumps([*keys]).encode(), digest_size=16).hexdigest()
    return {"number": len(keys), "first": [key[:SHOWN] for key in keys[:SHOWN]], "blake2b": digest}


@click.command(params=[each for each in histogram.params if each.name in READS | TEXTS], epilog=EXAMPLES)
@click.argument("source", metavar="ROWS", type=click.Path(path_type=Path))
@click.option(
    "--ledger",
    "ledger_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Note the look in the history of this ledger, at no charge.",
)
@sharing
@click.option("--private", is_flag=True, help="Print even where there is no terminal, to readers who may see the rows.")
@AS_JSON
@click.option("--quiet", is_flag=True, help="No progress bar.")
def look(
    source: Path,
    ledger_file: Path | None,
    shared_with: str | int | None,
    private: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Say which of the listed keys match no row of ROWS, and whether --strip or another case would.

    It is for who holds the rows and writes a --domain for dpfast histogram, whose options these
    are. It says roughly how many rows have another key: none, below 1 %, more. It names no key that
    is not listed, counts nothing and says nothing of any unit.

    What it prints is private, so it goes to a terminal alone. The exit code is 0 whatever it
    finds, but for cells that cannot be read.
    """
    if not (private or _in_a_terminal()):
        raise click.UsageError(
            "Missing option '--private': what a look tells is private, and standard output is no terminal"
        )
    style, form, given = style_of(options), options.pop("form"), chosen(options)
    if shared_with is not None and ledger_file is None:
        raise ParameterError("--shared-with must come with --ledger")
    ledger = dpfast.Ledger(ledger_file, shared_with=shared_with) if ledger_file else None
    found = _looked(source, {name: value for name, value in given.items() if value != ()}, style, form, ledger, quiet)
    if as_json:
        print_json({"private": True, "columns": [_facts(each) for each in found]})
    else:
        click.echo(
            "\n".join([PRIVATE, *(line for each in found for line in _lines(each)), "", terminal.paragraph(AFTER)])
        )


def _in_a_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _looked(
    source: Path, given: dict[str, Any], style: Any, form: str | None, ledger: dpfast.Ledger | None, quiet: bool
) -> Sequence[Found]:
    """All that is public is checked before a cell is read, and so is the ledger."""
    from dpfast.app.tables.looked import look as looked
    from dpfast.app.tables.rows import Columns, Rows
    from dpfast.app.tables.source import cells_decide

    names: tuple[str, ...] = given.get("by", ())
    if not names:
        raise click.UsageError("Missing option '--by': the column whose keys '--domain' or '--bins' lists")
    if len(set(names)) < len(names):
        raise ParameterError("--by must name each column once")
    by = keys_of(given, names)
    listed = listed_of(given, by)
    rules: dict[str, Any] = {name: given[name] for name in ("strip", "null", "unknown") if name in given}
    with closing(terminal.Bar(quiet=quiet)) as bar:
        rows = Rows(source, Columns(by, None, None, **rules), style, form)
        with cells_decide(rows.format):
            typed = listed.typed(rows)
        if ledger is not None:
            asked = Look(ledger.budget, names, listed, rules)
            ledger.spend(asked, label=terminal.printable(f"{rows.name}: keys of {asked.words}")[:200])
        bar.show(text=rows.name)
        return looked(rows, typed)


def _facts(found: Found) -> dict[str, Any]:
    unmatched = [{"key": each.key, "would_match_with": each.after} for each in found.unmatched]
    return {"by": found.name, "match_nothing": unmatched, "rows_outside": found.outside}


def _lines(found: Found) -> Iterator[str]:
    name = terminal.printable(found.name)
    yield f"\n{name}: {'these listed keys match nothing' if found.unmatched else 'each listed key matches a row'}"
    shown = found.unmatched[:SHOWN]
    if shown:
        yield terminal.table([(each.key, _after(each)) for each in shown], indent=2)
    if len(found.unmatched) > SHOWN:
        yield f"  and {len(found.unmatched) - SHOWN:,} more"
    yield f"{name}: rows with another key or without one: {'1 % or more' if found.outside == 'more' else found.outside}"


def _after(each: Unmatched) -> str:
    said = {"--strip": "with --strip", "another case": "in another case"}
    return f"would match {' and '.join(said[way] for way in each.after)}" if each.after else ""
