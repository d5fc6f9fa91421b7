# SPDX-License-Identifier: Apache-2.0
"""`dpfast bench`: what a release costs here, beside NumPy's unsafe noise and beside the peers."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--size", type=click.IntRange(1), default=10_000_000, show_default=True, help="Counts of a run.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Timed runs of each row.")
@click.option("--peers", is_flag=True, help="Also OpenDP, diffprivlib, PyDP and randomgen, where installed.")
@click.option("--plot", type=FILE, metavar="FILE", help="Draw the main rows as bars: .png or .svg.")
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Everything measured; - instead of the table.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write a short table between the marks in this file.")
@click.option(
    "--latency", type=FILE, metavar="FILE", help="Draw the time of a call against 1 to ten times --size counts."
)
@click.option("--scaling", type=FILE, metavar="FILE", help="Draw counts a second against threads.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def bench(
    size: int,
    rounds: int,
    peers: bool,
    plot: Path | None,
    json_file: Path | None,
    markdown: Path | None,
    latency: Path | None,
    scaling: Path | None,
    quiet: bool,
) -> None:
    """Time every law, on one thread and on all, beside NumPy's unsafe noise and the floors of memory.

    Rows take turns, each right after its reference; medians. Peers: pip install 'dpfast[peers]'.
    """
    from dpfast.bench import bench as measure

    found = measure(
        size, rounds, with_peers=peers, plot=plot, json_file=json_file, markdown=markdown, latency=latency,
        scaling=scaling, quiet=quiet,
    )  # fmt: skip
    click.echo(found, nl=False)
