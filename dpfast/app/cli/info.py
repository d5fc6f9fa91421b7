# SPDX-License-Identifier: Apache-2.0
"""`dpfast info`: what this machine runs."""

from __future__ import annotations

import click

import dpfast
from dpfast import terminal
from dpfast.app.cli.options import AS_JSON, print_json


@click.command()
@AS_JSON
def info(as_json: bool) -> None:
    """Print versions, the instruction set in use, usable threads and the state of numba's cache."""
    from dpfast import _native
    from dpfast.noise import kernels
    from dpfast.noise.release import engine

    facts: dict[str, object] = {
        "version": dpfast.__version__,
        "stream version": _native.STREAM_VERSION,
        "instruction set": _native.isa_name(),
        "usable threads": engine.usable_threads(),
        **{f"numba cache {name}": value for name, value in kernels.cache_state().items()},
    }
    path = str(facts["numba cache path"])
    kept = facts["numba cache path"] is not None
    facts["compiled kernels"] = (
        f"kept in {path}"
        if kept
        else "kept nowhere, for there is no folder that this user alone may write to: each process compiles those it needs"
    ) + "; the environment variable NUMBA_CACHE_DIR names another folder, which is used if nobody else may write to it"
    if as_json:
        print_json({name.replace(" ", "_"): value for name, value in facts.items()})
    else:
        click.echo(terminal.table((name, str(value)) for name, value in facts.items()))
