# SPDX-License-Identifier: Apache-2.0
"""`dpfast selftest`: what a sceptic runs on an installed package."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@click.option("--deep", is_flag=True, help="An hour's worth of draws.")
@click.option(
    "--break",
    "defect",
    metavar="NAME",
    help="Plant a defect in the outputs under test, to see it found; 'list' names them.",
)
def selftest(as_json: bool, deep: bool, defect: str | None) -> int:
    """Check this installation: known answers, certificates, exact laws, privacy, processes.

    Takes 30 to 60 seconds of processor time, so several minutes on a busy machine; each check says
    when it ends, and the longest takes a quarter. Fails a sound build by chance once in a million
    runs. Exits with 1 if a check fails.
    """
    from dpfast import selftest as checks

    return checks.command(as_json=as_json, deep=deep, defect=defect)
