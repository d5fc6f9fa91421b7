# SPDX-License-Identifier: Apache-2.0
"""Pictures as SVG in the page, in the page's own colours: dots with intervals, belief, a meter.

A picture by matplotlib has fixed colours, reads "$" in a name as mathematics and does not narrow
with the page. These take their colours from the style sheet and their width from the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpfast.app.report.facts import Cell
from dpfast.app.report.markup import MINUS, attribute, ends, number, text

INSET = 4.0  # per cent of the width, on both sides of a scale
TICKS = 5  # about so many
HUGE = 4e307  # the end of a scale, whose length is a double, too
SIDE, LEFT, TOP = 300.0, 44.0, 8.0  # the square of beliefs, and what stands left and above of it
POINTS = 60  # on each side of a curve's bend
PRIORS = Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within an interval, some TICKS of them."""
    raw = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = {step * k for k in range(first, last + 1)}  # fewer, where doubles do not tell them apart
    return sorted(mark for mark in found if low - step / 1e6 <= mark <= high + step / 1e6)


def intervals(
    names: Sequence[str], cells: Sequence[Cell], low: Sequence[Cell], high: Sequence[Cell], digits: int, label: str
) -> str:
    """A row for each cell: its name, and a dot on a line from `low` to `high`, on one scale.

    label: the id of what describes the picture.
    """
    least, most = max(float(min(low)), -HUGE), min(float(max(high)), HUGE)
    if 0 < least < most - least:
        least = 0.0
    if least == most:
        least, most = least - 1, most + 1
    span = most - least

    def at(value: float) -> str:
        share = min(1.0, max(0.0, (float(value) - least) / span))
        return f"{INSET + (100 - 2 * INSET) * share:.2f}%"

    marks = ticks(least, most)
    grid = "".join(
        f'<line class="{"grid" if mark else "zero"}" x1="{at(mark)}" x2="{at(mark)}" y1="0" y2="100%"/>'
        for mark in marks
    )
    rows = []
    for name, cell, a, b in zip(names, cells, low, high, strict=True):
        said = f"<title>{attribute(name)}: {number(cell, digits)}, {ends(a, b, digits)}</title>"
        line = f'<line class="reach" x1="{at(a)}" x2="{at(b)}" y1="50%" y2="50%"/>'
        dot = f'<circle class="dot" cx="{at(cell)}" cy="50%" r="3.75"/>'
        rows.append(f'<div class="row"><span>{text(name)}</span><svg>{said}{grid}{line}{dot}</svg></div>')
    places = max(0, -math.floor(math.log10(marks[1] - marks[0]) + 1e-9)) if len(marks) > 1 else digits
    axis = "".join(f'<text x="{at(mark)}" y="1em" text-anchor="middle">{_tick(mark, places)}</text>' for mark in marks)
    rows.append(f'<div class="row"><span></span><svg>{axis}</svg></div>')
    return f'<div role="img" aria-labelledby="{label}">\n' + "\n".join(rows) + "\n</div>"


def _tick(mark: float, places: int) -> str:
    if mark and not 1e-4 <= abs(mark) < 1e7:
        return f"{mark:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", MINUS)
    return number(float(mark), places)


def belief(epsilon: float, label: str) -> str:
    """The largest and the least belief after a release against the belief before it."""
    size = f'viewBox="0 0 {LEFT + SIDE + 12:g} {TOP + SIDE + 44:g}"'
    frame = []
    for percent in range(0, 101, 25):
        x, y = _x(percent), _y(percent)
        frame.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_y(0)}" y2="{_y(100)}"/>')
        frame.append(f'<line class="grid" x1="{_x(0)}" x2="{_x(100)}" y1="{y}" y2="{y}"/>')
        frame.append(f'<text x="{x}" y="{TOP + SIDE + 17:g}" text-anchor="middle">{percent} %</text>')
        frame.append(f'<text x="{LEFT - 7:g}" y="{y}" dy=".35em" text-anchor="end">{percent} %</text>')
    frame.append(f'<text x="{_x(50)}" y="{TOP + SIDE + 37:g}" text-anchor="middle">belief before</text>')
    loss = min(epsilon, 50.0)
    odds = [math.exp(k * (12 + loss) / POINTS - loss / 2) for k in range(-POINTS, POINTS + 1)]
    ups = [(0.0, 0.0), *((100 * o / (1 + o), 100 / (1 + math.exp(-loss) / o)) for o in odds), (100.0, 100.0)]
    upper = " ".join(f"{_x(a)},{_y(b)}" for a, b in ups)
    lower = " ".join(f"{_x(100 - a)},{_y(100 - b)}" for a, b in reversed(ups))
    back = " ".join(reversed(lower.split()))
    bend = 100 / (1 + math.exp(loss / 2))
    drawn = [
        f'<polygon class="band" points="{upper} {back}"/>',
        *frame,
        f'<line class="same" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(100)}" y2="{_y(100)}"/>',
        f'<polyline class="curve" points="{upper}"/><polyline class="curve" points="{lower}"/>',
    ]
    for prior in PRIORS[1:]:
        p = float(prior)
        a, b = (100 / (1 + math.exp(side) * (1 - p) / p) for side in (loss, -loss))
        x = _x(100 * p)
        drawn.append(f'<line class="reach" x1="{x}" x2="{x}" y1="{_y(a)}" y2="{_y(b)}"/>')
        drawn += [f'<circle class="dot" cx="{x}" cy="{_y(end)}" r="4"/>' for end in (a, b)]
    outside = bend > 30
    for word, before, after, side in (("at most", bend, 100 - bend, -1), ("at least", 100 - bend, bend, 1)):
        by, anchor = (side, side) if outside else (-side, -side)
        where = "end" if anchor < 0 else "start"
        dx, dy = 8 * anchor, 12 * by + 4
        drawn.append(
            f'<text class="strong" x="{float(_x(before)) + dx:.1f}" y="{float(_y(after)) + dy:.1f}" text-anchor="{where}">{word}</text>'
        )
    return f'<svg role="img" aria-labelledby="{label}" {size}>' + "\n".join(drawn) + "</svg>"


def _x(percent: float) -> str:
    return f"{LEFT + SIDE * percent / 100:.1f}"


def _y(percent: float) -> str:
    return f"{TOP + SIDE * (1 - percent / 100):.1f}"


def meter(before: float, now: float, said: str) -> str:
    """Two shares of a whole, side by side; the rest is empty. said: what they are."""
    a, b = 100 * min(1.0, before), 100 * min(1.0, now)
    return (
        f'<svg class="meter" role="img"><title>{attribute(said, 200)}</title>'
        f'<rect class="whole" width="100%" height="100%"/><rect class="before" width="{a:.2f}%" height="100%"/>'
        f'<rect class="now" x="{a:.2f}%" width="{b:.2f}%" height="100%"/></svg>'
    )
