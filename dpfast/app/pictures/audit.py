# SPDX-License-Identifier: Apache-2.0
"""The picture of an audit of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpfast.app.pictures.style import BAD, DASHED, FAINT, INK, INSIDE, MINUS, empty, furnish, heading, save
from dpfast.errors import ParameterError
from dpfast.evidence.audit.families import LOWEST, lowest_bit
from dpfast.evidence.audit.findings import Compared, Findings
from dpfast.privacy.formatting import output

FIRST, SECOND = INSIDE, "#d9822b"
BARS = 60  # at most so many values, or intervals, side by side


def draw(found: Findings, path: Path) -> None:
    """Draw the outputs for the two counts that differ most, and their log-ratio against epsilon.

    Raises: ParameterError (no .png, .svg or .pdf; findings without two counts), FileError.
    """
    if path.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ParameterError(f"plot must be a .png, .svg or .pdf file, got {path}")
    compared, epsilon = found.compared, found.epsilon
    if compared is None or epsilon is None:
        raise ParameterError("plot needs an audit of privacy that came to compare two counts")
    figure = empty(8, 6.5)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    edges, hits = _histograms(compared)
    at, width = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
    for count, color, each in zip(compared.counts, (FIRST, SECOND), hits, strict=True):
        share = each / max(1, each.sum())
        top.stairs(share, edges, fill=True, color=color, alpha=0.22)
        top.stairs(share, edges, color=color, linewidth=1.8, label=f"count {output(count)}")
    top.set_ylabel("share of the draws", color=INK)
    top.set_ylim(0)
    top.legend(frameon=False, fontsize=10, labelcolor=INK)
    _ratios(bottom, at, width, hits, compared.steps * epsilon)
    what = "exponent of the lowest bit of the output (2 to the power of)" if compared.lowest_bits else "output"
    bottom.set_xlabel(what, color=INK)
    several = f"{compared.steps} × " if compared.steps > 1 else ""
    bottom.set_ylabel(f"log-ratio, {output(compared.counts[0])} to {output(compared.counts[1])}", color=INK)
    bottom.xaxis.set_major_locator(MaxNLocator(9, integer=bool((width >= 1).all())))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: output(x).replace("-", MINUS)))
    band = f" ±{several}epsilon = ±{compared.steps * epsilon:.4g} "
    where = (0.995, compared.steps * epsilon)
    bottom.text(*where, band, transform=bottom.get_yaxis_transform(), ha="right", va="bottom", color=FAINT, fontsize=9)
    for axes in (top, bottom):
        furnish(axes)
    title = f"Spends an epsilon of {found.bound:.4g} at least" if found.found else "No broken promise found"
    facts = f"promised: {found.promise}; certified: {found.bound:.4g}; {found.n:,} draws a count"
    heading(top, title, facts, BAD if found.found else INK)
    save(figure, path)


def _histograms(compared: Compared) -> tuple[npt.NDArray[Any], list[npt.NDArray[np.int64]]]:
    """Edges, and how many draws of both counts lie between: a value each, or intervals."""
    shown: list[npt.NDArray[Any]] = list(compared.outputs)
    if compared.lowest_bits:
        shown = [lowest_bit(y) - 1074 for y in shown]
        shown = [y[y < LOWEST - 1 - 1074] for y in shown]  # a zero has no lowest bit
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
        axes.axhline(edge, color=FAINT, linewidth=1, linestyle=DASHED, zorder=1)
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
