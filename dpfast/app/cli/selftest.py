# SPDX-License-Identifier: Apache-2.0
"""`dpfast selftest`: what a sceptic runs on an installed package."""

from __future__ import annotations

import click

from dpfast.app.cli.options import AS_JSON


@click.command()
@AS_JSON
@click.option("--deep", is_flag=True, help="An hour's worth of draws.")
@click.option("--quick", is_flag=True, help="As many draws as fit into ten seconds of one quiet core.")
@click.option(
    "--break",
    "defect",
    metavar="NAME",
    help="Plant a defect in the outputs under test, to see it found; 'list' names them.",
)
def selftest(as_json: bool, deep: bool, quick: bool, defect: str | None) -> int:
    """Check this installation: known answers, certificates, distributions, privacy, processes.

    Checks of exact answers come first. Then it times a few draws on this machine, and says how much
    processor time the rest will take. A sound build fails by chance once in a million runs. The
    exit code is 1 if a check fails.
    """
    from dpfast.evidence import selftest as checks

    return checks.command(as_json=as_json, deep=deep, quick=quick, defect=defect)
