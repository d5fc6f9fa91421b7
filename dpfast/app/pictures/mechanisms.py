# SPDX-License-Identifier: Apache-2.0
"""Pictures of a mechanism: its noise, a Gaussian's delta, belief after a release, privacy loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator, NullLocator

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpfast.app.pictures.style import (
    DASHED,
    FAINT,
    GRID,
    INK,
    INSIDE,
    OUTSIDE,
    SECOND,
    empty,
    furnish,
    heading,
    note,
    save,
    short,
    signed,
)
from dpfast.privacy.formatting import approximate, rounded
from dpfast.privacy.meaning import Loss

GaussianLaw: TypeAlias = Gaussian | DiscreteGaussian
Mechanism: TypeAlias = DiscreteLaplace | Laplace | GaussianLaw

BARS = 60  # half-width up to which every outcome gets its own bar
POINTS = 400  # outcomes on each side of a wider law, drawn as a curve
EPSILONS = 32  # points of the curve of delta
NAMED = 9  # bars of the privacy loss up to which each says how high it is
LEAST_DELTA = 1e-12  # the delta curve ends here
PROMISES = 0.1, 0.5, 1, 2, 5  # epsilons beside the explained one
APART = 0.05  # the distance of two labels on their curves


def noise(
    mechanism: Mechanism, path: Path, title: str, law: str, promise: tuple[Fraction, Fraction] | None = None
) -> None:
    """Draw the probabilities of the noise, the central 95 % darker, as .png, .svg or .pdf.

    promise: the epsilon and the delta to mark, if it is a Gaussian.
    """
    curve = promise is not None and isinstance(mechanism, (Gaussian, DiscreteGaussian))
    figure = empty(11.5 if curve else 8, 4.5)
    first, *others = figure.subplots(1, 1 + curve, squeeze=False, width_ratios=[8, 4][: 1 + curve])[0]
    _noise(first, mechanism)
    spread = approximate(mechanism.stddev)
    heading(first, title, law if law.endswith(f" {spread}") else f"{law}, standard deviation {spread}")
    if others and promise and isinstance(mechanism, (Gaussian, DiscreteGaussian)):
        _deltas(others[0], mechanism, *promise)
        heading(others[0], "Privacy", f"(epsilon, delta), rho {short(float(mechanism.rho()))}")
    save(figure, path)


def posterior(epsilon: Fraction, but_for: Fraction, path: Path, law: str, of: str) -> None:
    """Draw the least and largest belief after a release against the belief before it.

    Other epsilons have curves too. but_for: the share of releases whose loss may exceed epsilon.
    """
    figure = empty(7, 7.2)
    axes = figure.subplots()
    odds = np.logspace(-8, 8, 2 * POINTS)
    before = np.concatenate([[0], 100 * odds / (1 + odds), [100]])

    def after(loss: float) -> npt.NDArray[np.float64]:
        return np.concatenate([[0], 100 / (1 + np.exp(-loss) / odds), [100]])

    def bend(loss: float) -> float:  # where the curve is farthest from the diagonal, and parallel to it
        return 100 / (1 + math.exp(loss / 2))

    given, label = min(float(epsilon), 600), f"{'loss' if but_for else 'epsilon'} {short(float(epsilon))}"
    axes.fill_between(before, after(-given), after(given), color=OUTSIDE, alpha=0.45, linewidth=0)
    for other in PROMISES:
        if abs(bend(other) - bend(given)) > 100 * APART:
            for loss in (other, -other):
                axes.plot(before, after(loss), color=FAINT, linewidth=0.9)
            _along(axes, bend(other), 100 - bend(other), 45, f"{other}", FAINT, above=True)
    axes.plot([0, 100], [0, 100], color=INK, linewidth=1, linestyle=DASHED)
    for loss, share, word in ((given, 0.65, "at most"), (-given, 0.35, "at least")):
        axes.plot(before, after(loss), color=INSIDE, linewidth=2.4)
        at = int(np.searchsorted(before + after(loss), 200 * share))
        slope = math.degrees(math.atan2(np.diff(after(loss))[at], np.diff(before)[at]))
        _along(axes, before[at], after(loss)[at], slope, f"{label}: {word}", INSIDE, above=loss > 0)
    rest = f", but for {short(float(but_for))} of releases" if but_for else ""
    heading(axes, "Belief before and after one release", law)
    furnish(axes)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(10))
        axis.set_major_formatter(FuncFormatter(lambda p, _: f"{p:g} %"))
    axes.set_xlabel(f"belief {of}, before", color=INK)
    axes.set_ylabel(f"after{rest}", color=INK)
    save(figure, path)


def _along(axes: Axes, x: float, y: float, slope: float, text: str, color: str, *, above: bool) -> None:
    """A label along a curve, beside it: a box on it would cut it."""
    turned, side = math.radians(slope), 4 if above else -4  # points
    by, beside = (-side * math.sin(turned), side * math.cos(turned)), "bottom" if above else "top"
    note(
        axes, text, (x, y), by, rotation=slope, rotation_mode="anchor", ha="center", va=beside, fontsize=9, color=color
    )


def loss(mechanism: Mechanism, of: Loss, epsilon: Fraction, path: Path, law: str) -> None:
    """Draw the privacy loss between the neighbours easiest to tell apart: atoms, density, mean.

    epsilon: marked if the loss is not bounded.
    """
    figure = empty(8, 4.5)
    axes = figure.subplots()
    bounded = of.most is not None
    atoms, (where, density) = _losses(mechanism)
    top = max([*atoms.values(), *(density.tolist() if not atoms else [])])
    if where.size:
        scale = top / density.max() * (0.6 if atoms else 1)  # areas and bars are in no common unit
        axes.fill_between(where, scale * density, color=OUTSIDE if atoms else INSIDE, linewidth=0)
    width = max(atoms) - min(atoms) if len(atoms) > 1 else 2 * max(1.0, of.mean)
    axes.bar(list(atoms), list(atoms.values()), width=width * min(0.03, 0.86 / max(len(atoms), 1)), color=INSIDE)
    if len(atoms) == 1:
        axes.set_xlim(of.mean - width / 2, of.mean + width / 2)
    for x, p in atoms.items():
        if len(atoms) <= NAMED or (bounded and x in {min(atoms), max(atoms)}):
            _share(axes, x, p, f"{short(100 * p)} %")
    if atoms and where.size:
        inside = float((density[1:] + density[:-1]) @ np.diff(where)) / 2
        _share(axes, 0, 0.2 * top, f"{short(100 * inside)} % between", OUTSIDE)
    axes.plot([of.mean, of.mean], [0, 1.16 * top], color=SECOND, linewidth=1.6)
    mean = rounded(Fraction(of.mean), up=True, digits=3)
    note(axes, f"on average {mean}", (of.mean, 1.16 * top), (0, 3), ha="center", color=SECOND)
    if not bounded:
        axes.axvline(float(epsilon), color=INK, linewidth=1.2, linestyle=DASHED)
        most = "" if isinstance(mechanism, Gaussian) else "at most "
        share = rounded(Fraction(of.above(epsilon)), up=True, digits=3)
        said = f"above epsilon {short(float(epsilon))}:\n{most}{share}"
        note(axes, said, (float(epsilon), top), (-6, 0), ha="right", va="top")
    heading(axes, "Privacy loss of one release", law)
    furnish(axes)
    axes.grid(visible=False)
    axes.set_ylim(0, 1.3 * top)
    axes.yaxis.set_visible(False)
    if atoms and bounded:
        axes.set_xticks(np.linspace(min(atoms), max(atoms), 5 if len(atoms) > 1 else 1))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: signed(x)))
    axes.set_xlabel("privacy loss: the log of the likelihood ratio of a release for two neighbours", color=INK)
    save(figure, path)


def costs(
    costs: Mapping[int, Mapping[str, Fraction]], ways: Mapping[str, str], delta: Fraction, path: Path, law: str
) -> None:
    """Draw the epsilon of n releases together at one delta, by each way to compose them.

    costs: by how many releases, and by the way. ways: their names.
    """
    figure = empty(8, 4.5)
    axes = figure.subplots()
    for (way, name), color in zip(ways.items(), (FAINT, SECOND, INSIDE), strict=True):
        points = [(n, float(of[way])) for n, of in costs.items() if way in of]
        if points:
            label = f"{name}: {rounded(costs[points[-1][0]][way], up=True)}"
            axes.plot(*zip(*points, strict=True), color=color, linewidth=2, label=label)
    most = max(costs)
    heading(axes, f"{most:,} releases: epsilon at delta {short(float(delta))}", f"each of {law}")
    furnish(axes)
    axes.set(xlim=(0, most), ylim=(0, None))
    axes.legend(loc="upper left", frameon=False, fontsize=10, labelcolor="linecolor")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6))
        axis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))
    axes.set_xlabel("releases of the same data", color=INK)
    axes.set_ylabel("epsilon of all together", color=INK)
    save(figure, path)


def _share(axes: Axes, x: float, y: float, text: str, behind: str = "white") -> None:
    note(axes, text, (x, y), (0, 5), ha="center", zorder=3, bbox={"facecolor": behind, "edgecolor": "none", "pad": 1})


def _losses(mechanism: Mechanism) -> tuple[dict[float, float], tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """The atoms of the loss that can be told apart, and the density of all other losses."""
    none = np.empty(0)
    if isinstance(mechanism, (DiscreteLaplace, Laplace)):
        r = 0.0
        ((cells, change),) = mechanism.worst_change  # no option has an l1 of its own
        if cells > 1:
            return _of_cells(mechanism, cells, change)
        epsilon = float(mechanism.epsilon / mechanism.sensitivity * change)
        if isinstance(mechanism, DiscreteLaplace):
            n, r = math.floor(change), float(mechanism.epsilon / mechanism.sensitivity)
            epsilon = n * r
            if n <= BARS:
                ends = {epsilon: mechanism.cdf(0), -epsilon: mechanism.cdf(-n)} if n else {0.0: 1.0}
                return ends | {r * (n - 2 * k): float(mechanism.pmf(k)) for k in range(1, n)}, (none, none)
        first = 1 / (1 + math.exp(-r))
        where = np.linspace(r - epsilon, epsilon - r, POINTS)  # half a step around each of those between
        peak = math.tanh(r / 2) / (2 * r) if r else 0.25
        return {epsilon: first, -epsilon: first * math.exp(-epsilon)}, (where, peak * np.exp((where - epsilon) / 2))
    rho = float(mechanism.rho())
    if isinstance(mechanism, DiscreteGaussian) and mechanism.sensitivity and mechanism.sensitivity.largest:
        cells, change = mechanism.sensitivity.largest.l0, Fraction(math.floor(mechanism.sensitivity.largest.linf))
        reach = math.ceil(4 * math.sqrt(cells) * mechanism.stddev)
        if 2 * reach <= BARS:
            far = math.ceil(8 * mechanism.stddev) + 2
            sums = reduce(np.convolve, [mechanism.pmf(np.arange(-far, far + 1))] * cells)
            middle, step = len(sums) // 2, float(change / mechanism.sigma_squared)
            rho = step * cells * float(change) / 2
            seen = [s for s in range(-reach, reach + 1) if sums[middle + s] > 1e-4 * sums.max()]
            return {rho + step * s: float(sums[middle + s]) for s in seen}, (none, none)
    return {}, _normal(rho, math.sqrt(2 * rho))


def _of_cells(
    mechanism: DiscreteLaplace | Laplace, cells: int, change: Fraction
) -> tuple[dict[float, float], tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """The losses of several cells, each in steps that can be told apart; of many as a curve."""
    rate = float(mechanism.epsilon / mechanism.sensitivity)
    n = math.floor(change) if isinstance(mechanism, DiscreteLaplace) and change < BARS else BARS
    r = (
        rate * float(Fraction(math.floor(change)) if isinstance(mechanism, DiscreteLaplace) else change) / n
        if n
        else 0.0
    )
    k = np.arange(n + 1)
    cell = math.tanh(r / 2) * np.exp(-r * k)
    cell[0], cell[-1] = 1 / (1 + math.exp(-r)), math.exp(-r * n) / (1 + math.exp(-r))
    losses = r * (n - 2.0 * k)
    if cells * n <= POINTS:
        sums = reduce(np.convolve, [cell] * cells) if n else np.ones(1)
        atoms = dict(zip((r * (n * cells - 2.0 * np.arange(sums.size))).tolist(), sums.tolist(), strict=True))
        return {x: p for x, p in atoms.items() if p > 1e-4 * sums.max()}, (np.empty(0), np.empty(0))
    mean = float(losses @ cell)
    return {}, _normal(cells * mean, math.sqrt(cells * float(losses**2 @ cell - mean**2)))


def _normal(mean: float, spread: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    where = np.linspace(mean - 4 * spread, mean + 4 * spread, POINTS)
    return where, np.exp(-((where - mean) ** 2) / (2 * spread**2)) / (math.sqrt(2 * math.pi) * spread)


def _noise(axes: Axes, mechanism: Mechanism) -> None:
    """The law in steps: whole numbers, or multiples of the granularity."""
    step: float = 1
    within: Callable[[Fraction], float] = mechanism.interval
    if isinstance(mechanism, (Laplace, Gaussian)):
        step, within = mechanism.granularity, partial(mechanism.interval, on_grid=True)
    half = within(Fraction(95, 100))
    band = round(half / step)
    reach = max(round(within(Fraction(995, 1000)) / step), band + 2, 4)
    bars = reach <= BARS
    height = 1 if bars or step == 1 else step  # a fine grid looks like its density
    (_bars if bars else _curve)(axes, mechanism, step, band, reach, height)
    shown = f"{half:,}" if step == 1 else approximate(half)
    peak = mechanism.pmf(0) / height
    _bracket(axes, (band + bars / 2) * step, peak, f"95 % within \N{PLUS-MINUS SIGN}{shown}")
    furnish(axes)
    axes.set_xlim(-(reach + 1) * step, (reach + 1) * step)
    axes.set_xlabel("noise added to a count" if step == 1 else "noise added to a value on the grid", color=INK)
    axes.set_ylabel("probability" if height == 1 else "density", color=INK)
    on_bars = bars and step != 1
    every = MultipleLocator(step * -(-reach // 3)) if on_bars else MaxNLocator(9, integer=step == 1, symmetric=True)
    axes.xaxis.set_major_locator(every)
    scientific = not 1e-2 <= reach * step < 1e6
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: signed(k, 3 if scientific else 6)))
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
    kept = deltas >= min(LEAST_DELTA, float(delta) / 1e4, float(deltas.max()) / 1e4)
    axes.plot(epsilons[kept], deltas[kept], color=INSIDE, linewidth=2)
    if deltas.min() <= float(delta) <= deltas.max():
        _mark(axes, float(epsilon), float(delta), right=float(epsilon) > 0.6 * far)
    furnish(axes)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0, 1.02 * float(epsilons[kept][-1]))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda e, _: short(e)))
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel("delta", color=INK)


def _mark(axes: Axes, epsilon: float, delta: float, *, right: bool) -> None:
    """A dot and its figures, above the falling curve, or below it near the right end."""
    axes.plot([epsilon], [delta], "o", color=INK, markersize=6)
    side = {"ha": "right", "va": "top"} if right else {"ha": "left", "va": "bottom"}
    said = f"epsilon {short(epsilon)}\ndelta {short(delta)}"
    note(axes, said, (epsilon, delta), (-9, -9) if right else (9, 7), fontsize=9, **side)


def _bracket(axes: Axes, half: float, peak: float, label: str) -> None:
    """A bracket over the band, above the highest bar, and what it means."""
    height, tick = 1.09 * peak, 0.025 * peak
    axes.plot([-half, -half, half, half], [height - tick, height, height, height - tick], color=INK, linewidth=1.2)
    axes.text(0, height + tick, label, ha="center", va="bottom", fontsize=11, color=INK)
    axes.set_ylim(0, 1.22 * peak)
