# SPDX-License-Identifier: Apache-2.0
"""`dpfast jobs`: stages and outputs of releases on engines."""

from __future__ import annotations

import click

from dpfast import terminal
from dpfast.app.cli.options import AS_JSON, print_json

EXAMPLES = """\b
Examples:
  dpfast jobs show private/visits-2026-11
  dpfast jobs show s3://public/visits-2026-11 --json
"""


@click.group(epilog=EXAMPLES)
def jobs() -> None:
    """Look at releases of records that an engine counts (docs/engines.md)."""


@jobs.command()
@click.argument("path")
@AS_JSON
def show(path: str, as_json: bool) -> None:
    """Show what the stage or the output at PATH is, from its own manifest. Counts are not read."""
    from dpfast.engines.jobs.about import about  # late, for it needs pyarrow

    facts = about(path)
    if as_json:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        if value is not None:
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            click.echo(terminal.printable(f"{name:{width}}  {shown}"))
