# SPDX-License-Identifier: Apache-2.0
"""The picture of an audit of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.audit.families import LOWEST, lowest_bit
from dpfast.audit.report import Picture, Report
from dpfast.audit.words import number
from dpfast.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

FIRST, SECOND, INK, FAINT, BAD = "#1f6fb2", "#d9822b", "#22303c", "#6b7883", "#b3261e"
BARS = 60  # at most so many values, or intervals, side by side


def draw(report: Report, path: Path) -> None:
    """Draw the outputs for the two counts that differ most, and the log-ratio against epsilon.

    path: .png or .svg.
    Raises: ParameterError (another ending, or a report that has no two counts to show), FileError.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from dpfast.pictures.plots import furnish
    from dpfast.tables.atomic_write import atomic_write

    if path.suffix.lower() not in {".png", ".svg"}:
        raise ParameterError(f"plot must be a .png or .svg file, got {path}")
    picture, epsilon = report.picture, report.epsilon
    if picture is None or epsilon is None:
        raise ParameterError("plot needs an audit of privacy that came to compare two counts")
    figure = Figure(figsize=(8, 6.5), dpi=160, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    edges, hits = _histograms(picture)
    at, width = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
    for count, color, each in zip(picture.counts, (FIRST, SECOND), hits, strict=True):
        share = each / max(1, each.sum())
        top.stairs(share, edges, fill=True, color=color, alpha=0.22)
        top.stairs(share, edges, color=color, linewidth=1.8, label=f"count {number(count)}")
    top.set_ylabel("share of the draws", color=INK)
    top.set_ylim(0)
    top.legend(frameon=False, fontsize=10, labelcolor=INK)
    _ratios(bottom, at, width, hits, picture.steps * epsilon)
    what = "exponent of the lowest bit of the output (2 to the power of)" if picture.lowest_bits else "output"
    bottom.set_xlabel(what, color=INK)
    several = f"{picture.steps} × " if picture.steps > 1 else ""
    bottom.set_ylabel(f"log-ratio, {number(picture.counts[0])} to {number(picture.counts[1])}", color=INK)
    bottom.xaxis.set_major_locator(MaxNLocator(9, integer=bool((width >= 1).all())))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: number(x).replace("-", "\N{MINUS SIGN}")))
    band = f" ±{several}epsilon = ±{picture.steps * epsilon:.4g} "
    where = (0.995, picture.steps * epsilon)
    bottom.text(*where, band, transform=bottom.get_yaxis_transform(), ha="right", va="bottom", color=FAINT, fontsize=9)
    for axes in (top, bottom):
        furnish(axes)
    title = f"Spends an epsilon of {report.bound:.4g} at least" if report.found else "No broken promise found"
    top.set_title(title, loc="left", fontsize=13, color=BAD if report.found else INK, pad=26, fontweight="bold")
    facts = f"promised: {report.promise}; certified: {report.bound:.4g}; {report.n:,} draws a count"
    top.annotate(facts, (0, 1), (0, 10), xycoords="axes fraction", textcoords="offset points", fontsize=10, color=FAINT)
    with atomic_write(path, force=True) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def _histograms(picture: Picture) -> tuple[npt.NDArray[Any], list[npt.NDArray[np.int64]]]:
    """Edges, and the draws for both counts between them.

    The edges are every whole number or lowest bit, or intervals.
    """
    shown: list[npt.NDArray[Any]] = list(picture.outputs)
    if picture.lowest_bits:
        shown = [lowest_bit(y) - 1074 for y in shown]
        shown = [y[y < LOWEST - 1 - 1074] for y in shown]  # zero has none
    pooled = np.concatenate(shown)
    pooled = pooled[np.isfinite(pooled)] if pooled.dtype.kind == "f" else pooled
    if not pooled.size:
        pooled = np.zeros(1)
    low, high = (float(end) for end in np.quantile(pooled, [0.0005, 0.9995]))
    whole = pooled.dtype.kind == "i" or bool((pooled == np.rint(pooled)).all())
    if whole and high - low < BARS:
        edges = np.arange(math.floor(low), math.ceil(high) + 2) - 0.5
    elif whole:
        step = math.ceil((high - low) / BARS)
        edges = np.arange(math.floor(low), high + step + 1, step) - 0.5
    else:
        edges = np.linspace(low, high if high > low else low + 1, BARS + 1)
    return edges, [np.histogram(y, edges)[0] for y in shown]


def _ratios(
    axes: Axes,
    at: npt.NDArray[np.float64],
    width: npt.NDArray[np.float64],
    hits: Sequence[npt.NDArray[np.int64]],
    band: float,
) -> None:
    """The log-ratio with two standard errors; an arrow if one count gave no such output."""
    a, b = (each.astype(float) for each in hits)
    total = math.log(max(1.0, a.sum()) / max(1.0, b.sum()))
    axes.axhspan(-band, band, color="#e8eef4", zorder=0)
    for edge in (-band, band):
        axes.axhline(edge, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    both = (a > 0) & (b > 0)
    ratio = np.log(np.where(both, a, 1) / np.where(both, b, 1)) - total
    error = 2 * np.sqrt(1 / np.maximum(a, 1) + 1 / np.maximum(b, 1))
    clear = both & (error < max(1.0, band))
    out = clear & (np.abs(ratio) - 2.5 * error > band)  # five standard errors: chance does not redden a point
    for which, color in ((clear & ~out, INK), (out, BAD)):
        axes.errorbar(at[which], ratio[which], error[which], fmt="o", color=color, markersize=3.5, linewidth=1.1)
    alone = bool(((a == 0) & (b >= 20)).any() or ((b == 0) & (a >= 20)).any())
    most = max([(1.8 if alone else 1.35) * band, *(1.15 * (np.abs(ratio) + error)[clear])])
    for mine, other, end, marker in ((a, b, most, "^"), (b, a, -most, "v")):
        never = (other == 0) & (mine >= 20)
        axes.plot(at[never], np.full(never.sum(), 0.93 * end), marker, color=BAD, markersize=6)
    if alone:
        axes.set_title(
            "\N{BLACK UP-POINTING TRIANGLE} never seen for the other count", loc="left", fontsize=9, color=BAD
        )
    axes.set_ylim(-most, most)
    axes.set_xlim(at[0] - width[0], at[-1] + width[-1])
