# SPDX-License-Identifier: Apache-2.0
"""`dpfast key`: key files for sealed releases."""

from __future__ import annotations

from pathlib import Path

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.options import AS_JSON, print_json

FILE = click.Path(dir_okay=False, path_type=Path)
EXAMPLES = """\b
Examples:
  dpfast key create visits.key
  dpfast key show visits.key
"""


@click.group(epilog=EXAMPLES)
def key() -> None:
    """Make a key file, with which releases can be retried for a single charge (docs/sealed.md)."""


@key.command()
@click.argument("file", type=FILE)
def create(file: Path) -> None:
    """Make a key in a new FILE. Protect FILE like the data: it can remove the noise."""
    made = dpfast.KeyFile.create(file)
    said = f"{file}: a new key, id {made.id}. It is as private as the data: keep it with them"
    terminal.tell(terminal.printable(said), to="stdout")


@key.command()
@click.argument("file", type=FILE)
@AS_JSON
def show(file: Path, as_json: bool) -> None:
    """Show the id of the key in FILE, which ledgers keep beside a label."""
    found = dpfast.KeyFile(file).id
    if as_json:
        print_json({"id": found})
    else:
        click.echo(found)
