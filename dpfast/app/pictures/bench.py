# SPDX-License-Identifier: Apache-2.0
"""The pictures: dots at the nanoseconds of a count, and curves over sizes, scales and threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator

from dpfast.app.pictures.style import DASHED, FAINT, GRID, INK, INSIDE, MINUS, note, save
from dpfast.evidence.bench.curves import AT_SCALE, AT_SIZE, Curve
from dpfast.evidence.bench.measure import Result
from dpfast.evidence.bench.report import Report
from dpfast.evidence.bench.sampler import Comparison
from dpfast.privacy.formatting import quantity, short, three_digits

EDGE = "#b4541a"  # unsafe noise
LINES = (INSIDE, "#0b3a66", EDGE, "#8a949c", "#4f9d69")
BESIDE = LINES[-1], INSIDE, EDGE  # a sampler, dpfast, NumPy
MARKERS = "osv^D"
STYLE: Any = {
    "axes.axisbelow": True, "axes.edgecolor": FAINT, "axes.grid": True, "axes.labelcolor": INK, "axes.labelsize": 9,
    "axes.spines.right": False, "axes.spines.top": False, "grid.color": GRID,
    "legend.fontsize": 9, "legend.frameon": False, "legend.labelcolor": INK, "svg.hashsalt": "dpfast", "text.color": INK,
    "xtick.color": FAINT, "xtick.labelcolor": INK, "xtick.labelsize": 9,
    "ytick.color": FAINT, "ytick.labelcolor": INK, "ytick.labelsize": 9,
}  # fmt: skip
WIDTH, DPI = 9, 160  # inches: some 900 points across on a page
LEFT = 0.012  # a share of the width, before the title
HEADING = 0.8  # inches: the title, the machine, the versions
ROW = 0.235  # inches of height for a row
SAMPLER = "Time", "Noise against its law", "What the time of a call tells", "Noise after a fork"
CLEAR = 5  # standard errors that chance hardly makes: a shaded band
# Shapes differ as colours do, so that eyes and printers can tell.
KINDS: dict[str, tuple[Any, str]] = {
    "ours": ({"marker": "o", "color": INSIDE}, "dpfast"),
    "safe": (
        {"marker": "o", "color": INSIDE, "markerfacecolor": "white", "markeredgewidth": 1.4},
        "other packages, safe by their own account",
    ),
    "disputed": (
        {"marker": "D", "color": EDGE, "markerfacecolor": "white", "markeredgewidth": 1.4},
        "the same, disputed in their own tracker",
    ),
    "unsafe": ({"marker": "X", "color": EDGE, "markeredgewidth": 0}, "noise in floating point, unsafe"),
    "floor": ({"marker": "|", "color": FAINT, "markeredgewidth": 2}, "a copy, a sum, key stream: no noise"),
}


def dots(report: Report, path: Path) -> None:
    """A dot for each chosen row, fastest first, for a bar has no length on a logarithmic scale."""
    chosen = report.chosen
    times = [result.ns for result in chosen]
    with _picture("Time to add noise to a count", report, ROW * len(chosen) + HEADING + 0.6, path, peers=True) as (
        axes,
    ):
        axes.hlines(range(len(chosen)), 0, times, color=GRID, linewidth=0.8)  # from a row's name to its dot
        for kind, (style, text) in KINDS.items():
            rows = [row for row, result in enumerate(chosen) if _kind(result) == kind]
            if rows:
                axes.plot([times[row] for row in rows], rows, linestyle="", markersize=7, label=text, **style)
        axes.set_yticks(range(len(chosen)), [result.row.name for result in chosen])
        for row, (label, result) in enumerate(zip(axes.get_yticklabels(), chosen, strict=True)):
            weight = "bold" if result.row.who == "dpfast" else "normal"
            label.set_fontweight(weight)
            note(axes, three_digits(result.ns), (result.ns, row), (7, 0), va="center", fontsize=9, fontweight=weight)
        axes.set_xlim(min(times) / 1.6, max(times) * 6)
        axes.set_ylim(len(chosen) - 0.4, -0.6)
        _logarithmic(axes, "x")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ns, _: f"{ns:,.10g}"))
        axes.set_xlabel("nanoseconds a count, logarithmic: further left is faster")
        axes.legend(loc="upper right")


def _kind(result: Result) -> str:
    return "ours" if result.row.who == "dpfast" else result.row.kind


def latency(report: Report, curve: Curve, path: Path) -> None:
    """Seconds a call against counts a call."""
    with _picture("Time of a call, DiscreteLaplace at scale 10", report, 4.8, path) as (axes,):
        _lines(axes, curve)
        _against_size(axes)
        axes.set_xlabel("counts in a call")
        axes.legend(loc="upper left")


def costs(report: Report, by_size: Curve, by_scale: Curve, path: Path) -> None:
    """Seconds a value: against values in a call, and against the scale of the noise."""
    with _picture("Time of a value, in place and on one thread", report, 4.8, path, diagrams=(1, 2)) as (
        size,
        scale,
    ):
        _lines(size, by_size)
        _against_size(size)
        _lines(scale, by_scale)
        scale.set_ylim(0)
        scale.set_xscale("log", base=2)
        scale.set_xticks([2.0**exponent for exponent in range(0, 61, 10)])
        scale.minorticks_off()
        scale.yaxis.set_major_formatter(FuncFormatter(_seconds))
        size.set(xlabel=f"values in a call, at scale {AT_SCALE}", ylabel="processor time of a value")
        scale.set(xlabel=f"scale (Gaussian noise: sigma), at {AT_SIZE:,} values")
        size.legend(loc="upper right")


def _against_size(axes: Axes) -> None:
    """Time against values in a call, both logarithmic."""
    _logarithmic(axes, "xy")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: short(n)))
    axes.yaxis.set_major_formatter(FuncFormatter(_seconds))


def _seconds(seconds: float, _: object) -> str:
    return quantity(seconds, "s", "{:,g}".format)


def engines(report: Report, speed: Curve, share: Curve, most: float, path: Path) -> None:
    """Rows a second of jobs, and how much of their processor time is noise, against rows.

    most: the limit of the share, in %.
    """
    with _picture("Records to a sealed release, by engine", report, 4.8, path, diagrams=(1, 2)) as (fast, noise):
        _lines(fast, speed)
        _lines(noise, share)
        _logarithmic(fast, "xy")
        low, high = (math.log10(y) for y in fast.get_ylim())
        fast.set_ylim(10 ** math.floor(low), 10 ** math.ceil(high))
        fast.yaxis.set_major_formatter(FuncFormatter(lambda rows, _: quantity(rows, "", "{:,g}".format)))
        noise.axhline(most, color=FAINT, linewidth=0.9, linestyle=DASHED)
        noise.set_xscale("log")
        noise.set_ylim(0, max(1.1 * most, noise.get_ylim()[1]))
        for axes in (fast, noise):
            axes.minorticks_off()
            axes.set_xticks(list(speed.at), [short(rows) for rows in speed.at])
            axes.set_xlabel(f"rows, of {report.size:,} keys")
        fast.set_ylabel("rows a second")
        noise.set_ylabel("noise and seal, % of all processor time (dashed: must)")
        fast.legend(loc="best")


def scaling(report: Report, curve: Curve, path: Path) -> None:
    """Counts a second against threads, and what each law would do if threads cost nothing."""
    billions = Curve(curve.at, {name: tuple(value / 1e9 for value in line) for name, line in curve.lines.items()})
    with _picture("Counts a second with more threads", report, 4.4, path) as (axes,):
        for line, color in zip(billions.lines.values(), LINES, strict=False):
            axes.plot(curve.at, [line[0] * n for n in curve.at], color=color, linewidth=0.9, linestyle=(0, (2, 3)))
        _lines(axes, billions)
        axes.set_ylim(0)
        axes.set_xlim(min(curve.at) - 0.2, max(curve.at) + 0.2)
        axes.set_xticks(list(curve.at))
        axes.set_xlabel("threads (dotted: as many times one thread)")
        axes.set_ylabel("billion counts a second")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _lines(axes: Axes, curve: Curve, colors: Sequence[str] = LINES) -> None:
    for (name, line), color, marker in zip(curve.lines.items(), colors, MARKERS, strict=False):
        axes.plot(curve.at, line, color=color, marker=marker, markersize=4.5, linewidth=1.8, label=name)


def sampler(report: Comparison, path: Path) -> None:
    """Four diagrams: time against size, noise against its law, time against noise, and a fork."""
    tested = [*report.tested.values()]
    with _picture(f"A sampler: {next(iter(report.tested))}", report, 9, path, diagrams=(2, 2)) as (
        cost,
        law,
        time,
        fork,
    ):
        if report.latency:
            _lines(cost, report.latency.a_value(report.latency.at), BESIDE)
        _against_size(cost)
        cost.set(xlabel="values in a call", ylabel="time of a call, a value")
        for axes in (law, time):
            axes.axhspan(-CLEAR, CLEAR, color=GRID)
            axes.set_yscale("symlog", linthresh=2 * CLEAR)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda errors, _: f"{errors:,.0f}".replace("-", MINUS)))
        law.set(xlabel=f"noise, {tested[0].law.promise}", ylabel="draws less those due, standard errors")
        time.set(xlabel="calls of smaller noise, %", ylabel="mean rank of the time, standard errors")
        fork.axline((0, 0), slope=1, color=FAINT, linewidth=0.9, linestyle=DASHED)
        fork.set(xlabel="noise of a process after a fork", ylabel="noise of its child")
        for each, color, marker in zip(tested, BESIDE, MARKERS, strict=False):
            style: Any = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.4}
            law.plot(*each.errors(report.mechanism), **style)
            time.plot(*each.time.errors, **style)
            fork.plot(*((each.fork.noise or [])[:2] or ([], [])), **style | {"linestyle": "", "alpha": 0.6})
        for axes in (law, time):
            most = max(2 * CLEAR, *map(abs, axes.get_ylim()))
            axes.set_ylim(-most, most)
        costs = [f"{quantity(result.figure, 's')} a value" for result in report.results]
        said = [costs, *zip(*(each.verdicts for each in tested), strict=True)]
        for axes, title, words in zip((cost, law, time, fork), SAMPLER, said, strict=True):
            labels = [f"{name}: {word}" for name, word in zip(report.tested, words, strict=True)]
            axes.legend(
                axes.get_lines()[-len(labels) :], labels, title=title, loc="lower left", bbox_to_anchor=(-0.02, 1), alignment="left",
                title_fontproperties={"weight": "bold", "size": 10}, borderpad=0.2,
            )  # fmt: skip


def _logarithmic(axes: Axes, which: str) -> None:
    for side in which:
        getattr(axes, f"set_{side}scale")("log")
        getattr(axes, f"{side}axis").set_major_locator(LogLocator(numticks=12))
    axes.minorticks_off()


@contextmanager
def _picture(
    title: str, report: Report, height: float, path: Path, *, peers: bool = False, diagrams: tuple[int, int] = (1, 1)
) -> Iterator[list[Axes]]:
    """Yield room for diagrams, below a title and the machine; then write the picture."""
    with rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, rect=(0, 0, 1, 1 - HEADING / height))
        picture = Figure(figsize=(WIDTH, height), dpi=DPI, layout=layout)
        picture.text(LEFT, 1 - 0.14 / height, title, va="top", fontsize=13, fontweight="bold")
        facts = f"{report.machine}; {report.facts['date']}\n{report.software(peers=peers)}"
        picture.text(LEFT, 1 - 0.42 / height, facts, va="top", fontsize=8.5, color=FAINT, linespacing=1.35)
        yield [*picture.subplots(*diagrams, squeeze=False).flat]
        save(picture, path)
