# SPDX-License-Identifier: Apache-2.0
"""What all pictures share: colors, an empty picture, its headings and axes, and the file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dpfast.paths import atomic_write
from dpfast.privacy.formatting import approximate

INSIDE, OUTSIDE, INK, FAINT, SECOND, BAD = "#1f6fb2", "#b9d3ea", "#22303c", "#6b7883", "#c2691d", "#b3261e"
GRID = "#e3e8ec"
DARK = {  # what each colour becomes on a dark page
    "#ffffff": "#131416", INK: "#e4e8ec", FAINT: "#98a3ad", GRID: "#2f363d", INSIDE: "#5aa7e6", OUTSIDE: "#2b4a66",
    SECOND: "#f0a35e", BAD: "#ff7a70", "#0b3a66": "#9cc7f0", "#b4541a": "#f0925a", "#8a949c": "#aab4bc",
    "#4f9d69": "#7fca96",
}  # fmt: skip
DASHED = (0, (4, 3))
MINUS = "\N{MINUS SIGN}"


def empty(width: float, height: float) -> Figure:
    """An empty picture, its sides in inches of 160 points."""
    return Figure(figsize=(width, height), dpi=160, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))


def save(figure: Figure, path: Path) -> None:
    """Write the whole file or nothing: .png, .svg or .pdf. Raises: FileError."""
    kind, held = path.suffix[1:].lower(), io.BytesIO()
    with atomic_write(path, found="replace") as file:
        figure.savefig(held, format=kind)
        file.write(for_both(held.getvalue().decode()).encode() if kind == "svg" else held.getvalue())


def for_both(svg: str, colours: Mapping[str, str] = DARK) -> str:
    """The SVG with other colours where its reader prefers a dark page."""
    dark = "".join(
        f'[style*="{how}: {light}"]{{{how}:{new}!important}}'
        for light, new in colours.items()
        for how in ("fill", "stroke")
    )
    return svg.replace(" <defs>", f" <style>@media (prefers-color-scheme: dark){{{dark}}}</style>\n <defs>", 1)


def heading(axes: Axes, title: str, facts: str, color: str = INK) -> None:
    axes.set_title(title, loc="left", fontsize=13, color=color, pad=26, fontweight="bold")
    note(axes, facts, (0, 1), (0, 10), color=FAINT, xycoords="axes fraction")


def note(axes: Axes, text: str, at: tuple[float, float], by: tuple[float, float], **how: Any) -> None:
    """A text, so many points beside a place."""
    axes.annotate(text, at, by, **{"textcoords": "offset points", "fontsize": 10, "color": INK, **how})


def furnish(axes: Axes) -> None:
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def short(value: float) -> str:
    """Three digits."""
    return approximate(value, 3).replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    return approximate(value, digits, "+" if value else "").replace("-", MINUS)
