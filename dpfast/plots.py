# SPDX-License-Identifier: Apache-2.0
"""The picture of a law beside its 95 % band, for `dpfast explain --plot`; of a Gaussian also delta against epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator, NullLocator

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpfast.publish import published

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

GaussianLaw: TypeAlias = Gaussian | DiscreteGaussian
Mechanism: TypeAlias = DiscreteLaplace | Laplace | GaussianLaw

INSIDE, OUTSIDE, INK, FAINT = "#1f6fb2", "#b9d3ea", "#22303c", "#6b7883"
BARS = 60  # half-width up to which every outcome gets its own bar
POINTS = 400  # outcomes on each side of a wider law, drawn as a curve
EPSILONS = 32  # points of the curve of delta
LEAST_DELTA = 1e-12  # where that curve ends


def draw(
    mechanism: Mechanism, path: Path, title: str, law: str, promise: tuple[Fraction, Fraction] | None = None
) -> None:
    """Draw the probabilities of the noise, those of the central 95 % darker, and write the picture, .png or .svg.

    promise: the epsilon and the delta to mark, if it is a Gaussian.
    """
    curve = promise is not None and isinstance(mechanism, (Gaussian, DiscreteGaussian))
    figure = Figure(
        figsize=(11.5 if curve else 8, 4.5), dpi=160, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15)
    )
    first, *others = figure.subplots(1, 1 + curve, squeeze=False, width_ratios=[8, 4][: 1 + curve])[0]
    _noise(first, mechanism)
    spread = f"{mechanism.stddev:,.6g}"
    _heading(first, title, law if law.endswith(f" {spread}") else f"{law}, standard deviation {spread}")
    if others and promise and isinstance(mechanism, (Gaussian, DiscreteGaussian)):
        _deltas(others[0], mechanism, *promise)
        _heading(others[0], "Privacy", f"(epsilon, delta), rho {_short(float(mechanism.rho()))}")
    with published(path, force=True) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def _noise(axes: Axes, mechanism: Mechanism) -> None:
    """The law in steps: whole numbers, or multiples of the granularity."""
    step = mechanism.granularity if isinstance(mechanism, (Laplace, Gaussian)) else 1
    half = mechanism.interval(Fraction(95, 100))
    band = round(half / step)
    reach = max(round(mechanism.interval(Fraction(995, 1000)) / step), band + 2, 4)
    bars = reach <= BARS
    height = 1 if bars or step == 1 else step  # a fine grid looks like its density
    (_bars if bars else _curve)(axes, mechanism, step, band, reach, height)
    shown = f"{half:,}" if step == 1 else f"{half:,.6g}"
    peak = mechanism.pmf(0) / height
    _bracket(axes, (band + bars / 2) * step, peak, f"95 % within \N{PLUS-MINUS SIGN}{shown}")
    _furnish(axes)
    axes.set_xlim(-(reach + 1) * step, (reach + 1) * step)
    axes.set_xlabel("noise added to a count" if step == 1 else "noise added to a value on the grid", color=INK)
    axes.set_ylabel("probability" if height == 1 else "density", color=INK)
    on_bars = bars and step != 1
    every = MultipleLocator(step * -(-reach // 3)) if on_bars else MaxNLocator(9, integer=step == 1, symmetric=True)
    axes.xaxis.set_major_locator(every)
    scientific = not 1e-2 <= reach * step < 1e6
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: _outcome(k, scientific=scientific)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda p, _: f"{p:g}" if p <= 1 or height != 1 else ""))


def _bars(axes: Axes, mechanism: Mechanism, step: float, band: int, reach: int, _height: float) -> None:
    outcomes = range(-reach, reach + 1)
    colors = [INSIDE if abs(k) <= band else OUTSIDE for k in outcomes]
    axes.bar([k * step for k in outcomes], [mechanism.pmf(k * step) for k in outcomes], width=0.86 * step, color=colors)


def _curve(axes: Axes, mechanism: Mechanism, step: float, band: int, reach: int, height: float) -> None:
    side = sorted({reach * i // POINTS for i in range(POINTS + 1)} | {band})
    heights = np.array([mechanism.pmf(k * step) for k in side]) / height
    outcomes = np.array([-k * step for k in reversed(side[1:])] + [k * step for k in side], float)
    heights = np.concatenate([heights[:0:-1], heights])
    inside = np.abs(outcomes) <= band * step
    axes.fill_between(outcomes, heights, color=OUTSIDE, linewidth=0)
    axes.fill_between(outcomes, heights, where=inside.tolist(), color=INSIDE, linewidth=0)


def _deltas(axes: Axes, mechanism: GaussianLaw, epsilon: Fraction, delta: Fraction) -> None:
    """The delta of each epsilon, and the pair that was asked for."""
    rho = max(float(mechanism.rho()), 1e-30)
    far = max(rho + 2 * math.sqrt(rho * -math.log(LEAST_DELTA)), 1.25 * float(epsilon))
    epsilons = np.linspace(far / EPSILONS, far, EPSILONS)
    deltas = np.array([mechanism.delta(float(e)) for e in epsilons])
    kept = deltas >= min(LEAST_DELTA, float(delta) / 1e4)
    axes.plot(epsilons[kept], deltas[kept], color=INSIDE, linewidth=2)
    if deltas.min() <= float(delta) <= deltas.max():
        _mark(axes, float(epsilon), float(delta), right=float(epsilon) > 0.6 * far)
    _furnish(axes)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0, 1.02 * float(epsilons[kept][-1]))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda e, _: _short(e)))
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel("delta", color=INK)


def _mark(axes: Axes, epsilon: float, delta: float, *, right: bool) -> None:
    """A dot and its figures, above the falling curve, or below it where that is near the right end."""
    axes.plot([epsilon], [delta], "o", color=INK, markersize=6)
    axes.annotate(
        f"epsilon {_short(epsilon)}\ndelta {_short(delta)}",
        (epsilon, delta),
        (-9, -9) if right else (9, 7),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top" if right else "bottom",
        fontsize=9,
        color=INK,
    )


def _heading(axes: Axes, title: str, facts: str) -> None:
    axes.set_title(title, loc="left", fontsize=13, color=INK, pad=26, fontweight="bold")
    axes.annotate(
        facts, (0, 1), (0, 10), xycoords="axes fraction", textcoords="offset points", fontsize=10, color=FAINT
    )


def _bracket(axes: Axes, half: float, peak: float, label: str) -> None:
    """A bracket over the band, above the highest bar, and what it means."""
    height, tick = 1.09 * peak, 0.025 * peak
    axes.plot([-half, -half, half, half], [height - tick, height, height, height - tick], color=INK, linewidth=1.2)
    axes.text(0, height + tick, label, ha="center", va="bottom", fontsize=11, color=INK)
    axes.set_ylim(0, 1.22 * peak)


def _furnish(axes: Axes) -> None:
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=9)
    axes.grid(axis="y", color="#e3e8ec", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _outcome(k: float, *, scientific: bool) -> str:
    if not k:
        return "0"
    return (_short(k, "+") if scientific else f"{k:+,.6g}").replace("-", "\N{MINUS SIGN}")


def _short(value: float, sign: str = "") -> str:
    """Three digits; 1e-6, not 1e-06."""
    mantissa, _, exponent = f"{value:{sign}.2e}".partition("e")
    plain = f"{value:{sign}.3g}"
    return f"{float(mantissa):{sign}.3g}e{int(exponent)}" if sign or "e" in plain else plain
