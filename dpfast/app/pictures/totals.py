# SPDX-License-Identifier: Apache-2.0
"""The picture of running totals: a line for each cell, within the band of its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator

from dpfast import NoisyTotals
from dpfast.app.pictures.style import INK, INSIDE, SECOND, empty, furnish, heading, note, save
from dpfast.privacy.formatting import amount, percent
from dpfast.privacy.parameters import Real, exact_real

# Dashes differ as colours do, so that eyes and printers can tell.
LINES = (
    (INSIDE, "-"), (SECOND, "--"), ("#4f9d69", "-."), ("#0b3a66", ":"), ("#8a949c", (0, (6, 2))),
)  # fmt: skip
LONGEST = 24  # letters of a name
APART = 0.05  # between two names, a share of the height


def bands(noisy: NoisyTotals, names: Sequence[str], path: Path, level: Real = "0.95") -> None:
    """Draw totals or windows over their steps: .png, .svg or .pdf. Spends nothing.

    names: one a cell. Where there are many, those with the largest last values are drawn.
    level: with what probability each value is within its band.
    Raises: FileError, and what `interval` raises.
    """
    values, half = noisy.values, noisy.interval(level)
    steps = np.arange(1, len(values) + 1)
    chosen = np.argsort(-values[-1], kind="stable")[: len(LINES)]
    figure = empty(8, 4.5)
    axes = figure.subplots()
    for cell, (color, dashes) in zip(chosen, LINES, strict=False):
        line = values[:, cell]
        axes.fill_between(steps, line - half, line + half, color=color, alpha=0.25, linewidth=0)
        axes.plot(steps, line, color=color, linestyle=dashes, linewidth=1.8)
    ends = values[-1, chosen]
    least, most = min(0.0, float((ends - half[-1]).min())), max(1.0, float((values[:, chosen] + half[:, None]).max()))
    at = 2 * most
    for cell in chosen:
        at = min(float(values[-1, cell]), at - APART * (most - least))
        name = str(names[cell])[:LONGEST].replace("$", r"\$")
        note(axes, name, (1, at), (7, 0), xycoords=("axes fraction", "data"), va="center")
    some = "" if len(chosen) == values.shape[1] else f"the {len(chosen)} largest of {values.shape[1]:,}; "
    sure = percent(exact_real("level", level), up=False)
    of = noisy.guarantee
    heading(axes, "Running totals", f"{some}bands of {sure}; rho {amount(of.rho, up=True)} per {of.unit}"[:90])
    furnish(axes)
    axes.set_ylim(least, most * 1.04)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set_xlabel("step", color=INK)
    save(figure, path)
