# SPDX-License-Identifier: Apache-2.0
"""The picture of a ledger: what was spent of its budget, over time or over charges."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import MaxNLocator

from dpfast import Ledger
from dpfast.app.pictures.style import DASHED, INK, INSIDE, SECOND, empty, furnish, heading, note, save
from dpfast.privacy.formatting import amount

SHORT = np.timedelta64(60, "s")  # charges within less are drawn by number, not by time
ROOM = 11  # per cent of a budget, for two lines of text


def spend(ledger: Ledger, path: Path) -> None:
    """Draw what was spent, as a share of the budget, against time: .png, .svg or .pdf."""
    figure = empty(8, 4.5)
    axes, budget, history = figure.subplots(), ledger.budget, ledger.history()
    times: np.ndarray[Any, Any] = np.array(
        [entry.time.removesuffix("Z") for entry in history] or ["now"], "datetime64[s]"
    )
    times = np.maximum.accumulate(times)  # a clock that went back moves nothing: the order is the ledger's
    quick = times[-1] - times[0] < SHORT  # such times are no dates that an axis could show
    if quick:
        times = np.arange(1, len(history) + 1) if history else np.zeros(1)
    margin: Any = 0.5 if quick else max((times[-1] - times[0]) // 25, np.timedelta64(2, "s"))
    times = np.concatenate([times[:1] - margin, times[: len(history)], times[-1:] + margin])
    kept = {name: most for name, most in ledger.cost(budget).items() if most}
    end: float | None = None
    for (name, most), color in zip(kept.items(), (INSIDE, SECOND), strict=False):
        totals = [Fraction(0), *(getattr(entry, f"{name}_total") for entry in history)]
        shares = [100 * float(total / most) for total in totals]
        axes.step(times, [*shares, shares[-1]], where="post", color=color, linewidth=2)
        said = f"{name} {amount(totals[-1], up=True)}\nof {amount(most, up=True)}"
        if end is None or abs(shares[-1] - end) >= ROOM:
            end = shares[-1]
        else:
            end += ROOM if end < ROOM else -ROOM
        note(axes, said, (1, end), (7, 0), xycoords=("axes fraction", "data"), va="center", color=color)
    axes.axhline(100, color=INK, linewidth=1.2, linestyle=DASHED)
    heading(axes, f"Spend of {ledger.dataset}", f"charges: {len(history):,}, per {budget.unit}, {budget.adjacency}")
    furnish(axes)
    axes.set_ylim(0, 108)
    axes.margins(x=0)
    if quick:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    else:
        axes.xaxis.set_major_locator(days := AutoDateLocator(maxticks=8))  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(ConciseDateFormatter(days))  # type: ignore[no-untyped-call]
    axes.set_ylabel("% of the budget", color=INK)
    axes.set_xlabel("charge" if quick else "time (UTC)", color=INK)
    save(figure, path)
