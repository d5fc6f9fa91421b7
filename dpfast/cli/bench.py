# SPDX-License-Identifier: Apache-2.0
"""`dpfast bench`: what a release costs here, beside NumPy's unsafe noise and beside the peers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpfast.errors import FileError, ParameterError

if TYPE_CHECKING:
    from dpfast.bench.measure import Turn
    from dpfast.bench.report import Report

FILE = click.Path(dir_okay=False, path_type=Path)
MARK = "packages"  # its table in a page
LATENCY = 10  # times as many counts at the end of the latency curve
PLAIN = Path("-")


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
    """Time every law, on one thread and on all, beside NumPy's unsafe noise and memory's floors.

    Rows take turns, each right after its reference; medians. Peers: pip install 'dpfast[peers]'.
    """
    from dpfast.bench.page import write_between_marks
    from dpfast.tables.atomic_write import atomic_write

    pictures = {"plot": plot, "latency": latency, "scaling": scaling}
    refuse(pictures, json_file, markdown)
    if any(pictures.values()):
        import dpfast.pictures.bench as draw  # before minutes are spent: matplotlib may be missing

    report = measure(size, rounds, peers=peers, latency=bool(latency), scaling=bool(scaling), quiet=quiet)
    if plot:
        draw.bars(report, plot)
    if latency and report.latency:
        draw.latency(report, report.latency, latency)
    if scaling and report.scaling:
        draw.scaling(report, report.scaling, scaling)
    as_json = json.dumps(report.record(), indent=1) + "\n"
    if json_file and json_file != PLAIN:
        with atomic_write(json_file, force=True) as file:
            file.write(as_json.encode())
    if markdown:
        write_between_marks(markdown, MARK, report.markdown(report.chosen))
    click.echo(as_json if json_file == PLAIN else report.table(), nl=False)


def refuse(pictures: Mapping[str, Path | None], json_file: Path | None, markdown: Path | None) -> None:
    """Refuse what cannot be written before minutes are spent.

    Raises: ParameterError (a picture neither .png nor .svg), FileError (no such folder, no marks).
    """
    from dpfast.bench.page import around_marks

    for name, path in pictures.items():
        if path and path.suffix.lower() not in {".png", ".svg"}:
            raise ParameterError(f"{name} must be a .png or .svg file, got {path}")
    for path in filter(None, (*pictures.values(), json_file, markdown)):
        if not path.absolute().parent.is_dir():
            raise FileError(f"cannot write {path}: there is no such directory")
    if markdown:
        around_marks(markdown, MARK)


def measure(size: int, rounds: int, *, peers: bool, latency: bool, scaling: bool, quiet: bool) -> Report:
    from dpfast.bench import curves
    from dpfast.bench import peers as theirs
    from dpfast.bench.measure import machine, measured
    from dpfast.bench.report import Report
    from dpfast.bench.rows import Arrays, of_this_machine
    from dpfast.terminal import Bar

    facts, arrays = machine(), Arrays(size)
    found, versions, absent = theirs.rows(arrays) if peers else ([], {}, {})

    def bar(turns: list[Turn]) -> Iterator[Turn]:
        shown = Bar(len(turns), quiet=quiet)
        for done, turn in enumerate(turns):
            shown.show(done, turn[1].row.name)
            yield turn
        shown.close()

    results = measured([*of_this_machine(arrays), *found], rounds, bar, memory=True)
    return Report(
        facts, size, rounds, results, versions, absent,
        curves.latency(LATENCY * size, rounds, bar) if latency else None,
        curves.scaling(size, rounds, bar) if scaling else None,
    )  # fmt: skip
