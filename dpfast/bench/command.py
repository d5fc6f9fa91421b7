# SPDX-License-Identifier: Apache-2.0
"""The whole of `dpfast bench`: refuse what cannot be, measure, write."""

from __future__ import annotations

import json
from pathlib import Path

from dpfast.bench import curves, peers
from dpfast.bench.measure import machine, measured
from dpfast.bench.report import END, START, Report, write_between_marks
from dpfast.bench.rows import Arrays, of_this_machine
from dpfast.errors import FileError, ParameterError
from dpfast.tables.atomic_write import atomic_write

SIZE, ROUNDS = 10_000_000, 7
LATENCY = 10  # times as many counts at the end of the latency curve
PLAIN = Path("-")


def bench(
    size: int = SIZE,
    rounds: int = ROUNDS,
    *,
    with_peers: bool = False,
    plot: Path | None = None,
    json_file: Path | None = None,
    markdown: Path | None = None,
    latency: Path | None = None,
    scaling: Path | None = None,
    quiet: bool = False,
) -> str:
    """Measure, write the files that are asked for, and return the table, or the JSON if it was asked for as "-".

    Raises: ParameterError (a picture that is neither .png nor .svg), FileError (a file that cannot be written).
    """
    pictures = {"plot": plot, "latency": latency, "scaling": scaling}
    for name, path in pictures.items():
        if path and path.suffix.lower() not in {".png", ".svg"}:
            raise ParameterError(f"{name} must be a .png or .svg file, got {path}")
    for path in filter(None, (*pictures.values(), json_file, markdown)):
        if not path.absolute().parent.is_dir():
            raise FileError(f"cannot write {path}: there is no such directory")
    if markdown and not (markdown.is_file() and START in (text := markdown.read_text()) and END in text):
        raise FileError(f"{markdown} has no lines {START} and {END} to write between")
    if any(pictures.values()):
        import dpfast.pictures.bench  # noqa: F401  # before minutes are spent: matplotlib may be missing

    report = _measure(size, rounds, with_peers=with_peers, latency=bool(latency), scaling=bool(scaling), quiet=quiet)
    if any(pictures.values()):
        _draw(report, plot, latency, scaling)
    as_json = json.dumps(report.record(), indent=1) + "\n"
    if json_file and json_file != PLAIN:
        with atomic_write(json_file, force=True) as file:
            file.write(as_json.encode())
    if markdown:
        write_between_marks(markdown, report.markdown())
    return as_json if json_file == PLAIN else report.table()


def _measure(size: int, rounds: int, *, with_peers: bool, latency: bool, scaling: bool, quiet: bool) -> Report:
    from tqdm import tqdm

    facts = machine()
    arrays = Arrays(size)
    theirs, versions, absent = peers.rows(arrays) if with_peers else ([], {}, {})
    rows = [*of_this_machine(arrays), *theirs]
    steps = (rounds + 2) * len(rows)
    steps += latency * rounds * len(curves.sizes(LATENCY * size))
    steps += scaling * rounds * len(curves.threads())
    with tqdm(total=steps, unit="run", leave=False, disable=quiet or None) as progress:

        def tick() -> None:
            progress.update(1)

        results = measured(rows, rounds, tick)
        return Report(
            facts, size, rounds, results, versions, absent,
            curves.latency(LATENCY * size, rounds, tick) if latency else None,
            curves.scaling(size, rounds, tick) if scaling else None,
        )  # fmt: skip


def _draw(report: Report, plot: Path | None, latency: Path | None, scaling: Path | None) -> None:
    from dpfast.pictures import bench as pictures

    if plot:
        pictures.bars(report, plot)
    if latency and report.latency:
        pictures.latency(report, report.latency, latency)
    if scaling and report.scaling:
        pictures.scaling(report, report.scaling, scaling)
