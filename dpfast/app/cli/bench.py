# SPDX-License-Identifier: Apache-2.0
"""`dpfast bench`: what a release costs here, beside NumPy's unsafe noise and beside the peers.

Or anybody's sampler beside ours. Exit codes: 0 done, 1 its noise is wrong, 2 misuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpfast import terminal
from dpfast.app.cli.options import Number, dashed, noise_of, noise_options, number
from dpfast.errors import FileError, ParameterError

if TYPE_CHECKING:
    from dpfast.evidence.bench.measure import Bar, Turn
    from dpfast.evidence.bench.report import Report
    from dpfast.evidence.bench.sampler import Comparison

FILE = click.Path(dir_okay=False, path_type=Path)
MARK = "packages"  # its table in a page
LATENCY = 10  # times as many counts at the end of the latency curve
PLAIN = Path("-")
OF_A_SAMPLER = {"distribution", "epsilon", "sensitivity", "sigma", "granularity"}
OF_ALL_LAWS = {"peers", "markdown", "latency", "scaling"}
EXAMPLES = """\b
Examples:
  dpfast bench --peers --plot bench.png
  dpfast bench --sampler my_noise:add --distribution discrete_laplace --epsilon 0.1 --plot find.png
  dpfast bench --sampler my_noise.py:add --distribution gaussian --sigma 10 --json sampler.json
"""


@click.command(epilog=EXAMPLES)
@click.option("--size", type=click.IntRange(1), default=10_000_000, show_default=True, help="Counts of a run.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="Timed runs of each row.")
@click.option("--peers", is_flag=True, help="Also measure OpenDP, diffprivlib, PyDP and randomgen, where installed.")
@click.option(
    "--plot", "--picture", "plot", type=FILE, metavar="FILE",
    help="Draw the main rows as dots, or the findings on a sampler: .png, .svg or .pdf.",
)  # fmt: skip
@click.option(
    "--json",
    "json_file",
    type=FILE,
    metavar="FILE",
    help="Write everything measured as JSON; - prints it instead of the table.",
)
@click.option("--markdown", type=FILE, metavar="FILE", help="Write a short table between the marks in this file.")
@click.option(
    "--latency", type=FILE, metavar="FILE", help="Draw the time of a call against 1 to ten times --size counts."
)
@click.option("--scaling", type=FILE, metavar="FILE", help="Draw counts a second against threads.")
@click.option(
    "--sampler", metavar="MODULE:FUNCTION", help="Measure and test this function instead; needs --distribution."
)
@noise_options
@click.option("--epsilon", type=number, help="Laplace mechanisms: the parameter.")
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
def bench(
    size: int,
    rounds: int,
    peers: bool,
    plot: Path | None,
    json_file: Path | None,
    markdown: Path | None,
    latency: Path | None,
    scaling: Path | None,
    sampler: str | None,
    quiet: bool,
    **noise: Any,
) -> None:
    """Time every mechanism on one thread and on all, beside unsafe noise and the floors of memory.

    Rows take turns, each right after its reference, and the table has medians. For the peers:
    pip install 'dpfast[peers]'.

    With --sampler: FUNCTION takes one array, of int64 for a discrete distribution and of float64
    for a real one. It returns a new array of that shape and dtype, the values plus noise, and
    leaves its argument as it was. MODULE is one that Python can import from here, or a file.py.
    The function takes turns with our sampler and NumPy's. The command measures its time against
    size, up to --size values, and tests its noise against --distribution. It also tests whether the
    time of a call reveals its noise, and whether forked children repeat noise. Each test accuses a
    sound sampler at a rate of at most one in a million.

    Exit codes of --sampler: 1 if its noise is not of that distribution, or a forked child repeats
    noise or fails; 2 for wrong usage, or if it is not such a function; otherwise 0, whatever its
    time reveals.
    """
    from dpfast.evidence.bench.page import write_between_marks
    from dpfast.paths import atomic_write

    refuse_options(sampler)
    pictures = {"plot": plot, "latency": latency, "scaling": scaling}
    refuse(pictures, json_file, markdown)
    if any(pictures.values()):
        import dpfast.app.pictures.bench as draw  # before minutes are spent: matplotlib may be missing

    report: Report
    if sampler:
        report = found = beside_ours(sampler, size, rounds, quiet=quiet, **noise)
        if plot:
            draw.sampler(found, plot)
    else:
        report = measure(size, rounds, peers=peers, latency=bool(latency), scaling=bool(scaling), quiet=quiet)
        if plot:
            draw.dots(report, plot)
    if latency and report.latency:
        draw.latency(report, report.latency, latency)
    if scaling and report.scaling:
        draw.scaling(report, report.scaling, scaling)
    if json_file and json_file != PLAIN:
        with atomic_write(json_file, found="replace") as file:
            file.write(json.dumps(report.record(), indent=1).encode() + b"\n")
    if markdown:
        write_between_marks(markdown, MARK, report.markdown(report.chosen))
    click.echo(json.dumps(report.record()) + "\n" if json_file == PLAIN else report.table(), nl=False)
    if sampler and found.wrong:
        click.get_current_context().exit(1)


def refuse_options(sampler: str | None) -> None:
    """Refuse the options of the other benchmark, whichever is asked for."""
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if other := sorted(given & (OF_ALL_LAWS if sampler else OF_A_SAMPLER)):
        raise click.UsageError(
            f"'--sampler' takes no {dashed(other[0])}" if sampler else f"{dashed(other[0])} works only with '--sampler'"
        )
    if sampler and "distribution" not in given:
        raise click.UsageError(
            "Missing option '--distribution': the exact distribution that the sampler's noise is to have"
        )


def refuse(pictures: Mapping[str, Path | None], json_file: Path | None, markdown: Path | None) -> None:
    """Refuse what cannot be written before minutes are spent.

    Raises: ParameterError (a picture no .png, .svg or .pdf), FileError (no such folder, no marks).
    """
    from dpfast.evidence.bench.page import around_marks

    for name, path in pictures.items():
        if path and path.suffix.lower() not in {".png", ".svg", ".pdf"}:
            raise ParameterError(f"{name} must be a .png, .svg or .pdf file, got {path}")
    for path in filter(None, (*pictures.values(), json_file, markdown)):
        if not path.absolute().parent.is_dir():
            raise FileError(f"cannot write {path}: there is no such directory")
    if markdown:
        around_marks(markdown, MARK)


def beside_ours(
    sampler: str,
    size: int,
    rounds: int,
    *,
    quiet: bool,
    distribution: str,
    granularity: Number | None,
    **parameters: Any,
) -> Comparison:
    from dpfast.evidence.audit import load
    from dpfast.evidence.audit.audited import needed
    from dpfast.evidence.bench.sampler import Sampler, compare

    exact = noise_of(distribution, granularity=granularity, **parameters)
    function: Any = load(sampler, "--sampler")
    if needed(function) > 1:
        raise ParameterError(
            f"--sampler must be a function of one array, which it returns with noise, and {sampler} needs {needed(function)} "
            "arguments; `dpfast audit` takes such a function, too"
        )
    with closing(terminal.Bar(quiet=quiet)) as shown:
        return compare(
            Sampler(sampler, function), exact, size, rounds, progress(quiet=quiet), lambda text: shown.show(text=text),
            on_grid=granularity is not None,
        )  # fmt: skip


def progress(*, quiet: bool) -> Bar:
    def bar(turns: list[Turn]) -> Iterator[Turn]:
        shown = terminal.Bar(len(turns), quiet=quiet)
        for done, turn in enumerate(turns):
            shown.show(done, turn[1].row.name)
            yield turn
        shown.close()

    return bar


def measure(size: int, rounds: int, *, peers: bool, latency: bool, scaling: bool, quiet: bool) -> Report:
    from dpfast.evidence.bench import curves
    from dpfast.evidence.bench import peers as theirs
    from dpfast.evidence.bench.measure import machine, measured
    from dpfast.evidence.bench.report import Report
    from dpfast.evidence.bench.rows import Arrays, of_this_machine

    facts, arrays, bar = machine(), Arrays(size), progress(quiet=quiet)
    found, versions, absent = theirs.rows(arrays) if peers else ([], {}, {})
    results = measured([*of_this_machine(arrays), *found], rounds, bar, memory=True)
    return Report(
        facts, size, rounds, results, versions, absent,
        curves.latency(LATENCY * size, rounds, bar) if latency else None,
        curves.scaling(size, rounds, bar) if scaling else None,
    )  # fmt: skip
