# SPDX-License-Identifier: Apache-2.0
"""The picture of a law beside its 95 % band, for `dpfast explain --plot`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpfast.publish import published

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from dpfast import DiscreteLaplace

INSIDE, OUTSIDE, INK, FAINT = "#1f6fb2", "#b9d3ea", "#22303c", "#6b7883"
BARS = 60  # half-width up to which every outcome gets its own bar
POINTS = 400  # outcomes on each side of a wider law, drawn as a curve


def draw(mechanism: DiscreteLaplace, path: Path, law: str) -> None:
    """Draw the probabilities of the noise, those of the central 95 % darker, and write the picture, .png or .svg."""
    band = mechanism.interval(Fraction(95, 100))
    reach = max(mechanism.interval(Fraction(995, 1000)), band + 2, 4)
    bars = reach <= BARS
    figure = Figure(figsize=(8, 4.5), dpi=160, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))
    axes = figure.add_subplot()
    (_bars if bars else _curve)(axes, mechanism, band, reach)
    _bracket(axes, band + bars / 2, mechanism.pmf(0), f"95 % within \N{PLUS-MINUS SIGN}{band:,}")
    axes.set_title("Discrete Laplace noise", loc="left", fontsize=13, color=INK, pad=26, fontweight="bold")
    facts = f"{law}, standard deviation {mechanism.stddev:,.6g}"
    axes.annotate(
        facts, (0, 1), (0, 10), xycoords="axes fraction", textcoords="offset points", fontsize=10, color=FAINT
    )
    _furnish(axes, reach)
    with published(path, force=True) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def _bars(axes: Axes, mechanism: DiscreteLaplace, band: int, reach: int) -> None:
    outcomes = range(-reach, reach + 1)
    colors = [INSIDE if abs(k) <= band else OUTSIDE for k in outcomes]
    axes.bar(outcomes, mechanism.pmf(outcomes), width=0.86, color=colors)


def _curve(axes: Axes, mechanism: DiscreteLaplace, band: int, reach: int) -> None:
    side = sorted({reach * i // POINTS for i in range(POINTS + 1)} | {band})
    outcomes = np.array([-k for k in reversed(side[1:])] + side, float)
    heights = np.array([mechanism.pmf(int(k)) for k in outcomes])
    inside = np.abs(outcomes) <= band
    axes.fill_between(outcomes, heights, color=OUTSIDE, linewidth=0)
    axes.fill_between(outcomes, heights, where=inside.tolist(), color=INSIDE, linewidth=0)


def _bracket(axes: Axes, half: float, peak: float, label: str) -> None:
    """A bracket over the band, above the highest bar, and what it means."""
    height, tick = 1.09 * peak, 0.025 * peak
    axes.plot([-half, -half, half, half], [height - tick, height, height, height - tick], color=INK, linewidth=1.2)
    axes.text(0, height + tick, label, ha="center", va="bottom", fontsize=11, color=INK)
    axes.set_ylim(0, 1.22 * peak)


def _furnish(axes: Axes, reach: int) -> None:
    axes.set_xlim(-reach - 1, reach + 1)
    axes.set_xlabel("noise added to a count", color=INK)
    axes.set_ylabel("probability", color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(9, integer=True, symmetric=True))
    axes.xaxis.set_major_formatter(FuncFormatter(_outcome))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda p, _: f"{p:g}" if p <= 1 else ""))
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=9)
    axes.grid(axis="y", color="#e3e8ec", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _outcome(k: float, _position: int | None = None) -> str:
    return (f"{k:+,.0f}" if abs(k) < 1e6 else f"{k:+g}").replace("-", "\N{MINUS SIGN}") if k else "0"
