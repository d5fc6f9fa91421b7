# SPDX-License-Identifier: Apache-2.0
"""The pictures: bars of nanoseconds a count, a curve of latency, a curve over threads."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from dpfast.bench.curves import Curve
from dpfast.bench.measure import Result
from dpfast.bench.report import Report, figure
from dpfast.pictures.style import FAINT, INK, INSIDE
from dpfast.tables.atomic_write import published

OURS, SAFE, UNSAFE, FLOOR = INSIDE, "#9cc3e4", "#f2b48a", "#d5dbe0"
EDGE = "#b4541a"  # of unsafe bars, and their hatch
LINES = (INSIDE, "#0b3a66", EDGE, "#8a949c", "#4f9d69")
MARKERS = "osv^D"
WIDTH, DPI = 9, 160  # inches: some 900 points across on a page
HEADING = 0.8  # inches: the title, the machine, the versions
ROW = 0.235  # inches of height for a bar
KINDS = {
    "ours": "dpfast",
    "safe": "other packages, safe",
    "unsafe": "noise in floating point, unsafe",
    "floor": "a copy, a sum, key stream: no noise",
}


def bars(report: Report, path: Path) -> None:
    """A bar for each chosen row, fastest first, on a logarithmic scale."""
    chosen = report.chosen
    with rc_context({"hatch.linewidth": 1.1, "svg.hashsalt": "dpfast"}):
        picture, axes = _empty("Time to add noise to a count", report, ROW * len(chosen) + HEADING + 0.6, peers=True)
        least = min(result.ns for result in chosen) / 1.6
        places = range(len(chosen))
        drawn = axes.barh(places, [result.ns - least for result in chosen], left=least, height=0.76, linewidth=0)
        for bar, result in zip(drawn, chosen, strict=True):
            _style(bar, _kind(result))
            axes.annotate(
                figure(result.ns), (result.ns, bar.get_y() + bar.get_height() / 2), (4, 0), textcoords="offset points",
                va="center", fontsize=9, color=INK, fontweight="bold" if result.row.who == "dpfast" else "normal",
            )  # fmt: skip
        axes.set_yticks(list(places), [result.row.name for result in chosen])
        for label, result in zip(axes.get_yticklabels(), chosen, strict=True):
            label.set_fontweight("bold" if result.row.who == "dpfast" else "normal")
        axes.set_xscale("log")
        axes.set_xlim(least, max(result.ns for result in chosen) * 6)
        axes.set_ylim(len(chosen) - 0.4, -0.6)
        _furnish(axes, "x")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ns, _: f"{ns:,.0f}" if ns >= 1 else f"{ns:g}"))
        axes.set_xlabel("nanoseconds a count, logarithmic: shorter is faster", color=INK, fontsize=9)
        seen = {_kind(result) for result in chosen}
        patches = [_style(Patch(label=text), kind) for kind, text in KINDS.items() if kind in seen]
        axes.legend(handles=patches, loc="upper right", frameon=False, fontsize=9, labelcolor=INK)
        _save(picture, path)


def _kind(result: Result) -> str:
    return "ours" if result.row.who == "dpfast" else result.row.kind


def _style(bar: Patch, kind: str) -> Patch:
    """Safe and unsafe differ in colour and in hatch, so that neither eyes nor printers matter."""
    bar.set_facecolor({"ours": OURS, "safe": SAFE, "unsafe": UNSAFE, "floor": FLOOR}[kind])
    if kind == "unsafe":
        bar.set_hatch("////")
        bar.set_edgecolor(EDGE)
        bar.set_linewidth(0)
    return bar


def latency(report: Report, curve: Curve, path: Path) -> None:
    """Seconds a call against counts a call."""
    picture, axes = _empty("Time of a call, DiscreteLaplace at scale 10", report, 4.8)
    _lines(axes, curve)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _furnish(axes, "both")
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda n, _: f"{n:,.0f}" if n < 1e4 else f"{n:.0e}".replace("e+0", "e"))
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: _duration(seconds)))
    axes.set_xlabel("counts in a call", color=INK, fontsize=9)
    axes.legend(loc="upper left", frameon=False, fontsize=9, labelcolor=INK)
    _save(picture, path)


def scaling(report: Report, curve: Curve, path: Path) -> None:
    """Counts a second against threads, and what each law would do if threads cost nothing."""
    picture, axes = _empty("Counts a second with more threads", report, 4.4)
    billions = Curve(curve.at, {name: tuple(value / 1e9 for value in line) for name, line in curve.lines.items()})
    for line, color in zip(billions.lines.values(), LINES, strict=False):
        axes.plot(curve.at, [line[0] * count for count in curve.at], color=color, linewidth=0.9, linestyle=(0, (2, 3)))
    _lines(axes, billions)
    _furnish(axes, "both")
    axes.set_ylim(0)
    axes.set_xlim(min(curve.at) - 0.2, max(curve.at) + 0.2)
    axes.set_xticks(list(curve.at))
    axes.set_xlabel("threads (dotted: as many times one thread)", color=INK, fontsize=9)
    axes.set_ylabel("billion counts a second", color=INK, fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, labelcolor=INK)
    _save(picture, path)


def _lines(axes: Axes, curve: Curve) -> None:
    for (name, line), color, marker in zip(curve.lines.items(), LINES, MARKERS, strict=False):
        axes.plot(curve.at[-len(line) :], line, color=color, marker=marker, markersize=4.5, linewidth=1.8, label=name)


def _duration(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.999 * unit:
            return f"{seconds / unit:,g} {name}"
    return f"{seconds * 1e9:,g} ns"


def _empty(title: str, report: Report, height: float, *, peers: bool = False) -> tuple[Figure, Axes]:
    """A picture with a title, the machine under it, and room for one diagram."""
    below = 1 - HEADING / height
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, rect=(0, 0, 1, below))
    picture = Figure(figsize=(WIDTH, height), dpi=DPI, layout=layout)
    left = 0.012
    picture.text(left, 1 - 0.14 / height, title, va="top", fontsize=13, fontweight="bold", color=INK)
    facts = f"{report.machine}; {report.facts['date']}\n{report.software(peers=peers)}"
    picture.text(left, 1 - 0.42 / height, facts, va="top", fontsize=8.5, color=FAINT, linespacing=1.35)
    return picture, picture.subplots()


def _furnish(axes: Axes, grid: str) -> None:
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=9)
    axes.grid(visible=True, axis="x" if grid == "x" else "both", color="#e3e8ec", linewidth=0.8)
    axes.set_axisbelow(True)
    for side, scale in (("xaxis", axes.get_xscale()), ("yaxis", axes.get_yscale())):
        if scale == "log":
            ruler = getattr(axes, side)
            ruler.set_major_locator(LogLocator(numticks=12))
            ruler.set_minor_locator(NullLocator())
            ruler.set_minor_formatter(NullFormatter())
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(FAINT)


def _save(picture: Figure, path: Path) -> None:
    with published(path, force=True) as file:
        picture.savefig(file, format=path.suffix[1:].lower())
