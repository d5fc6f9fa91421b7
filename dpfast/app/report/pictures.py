# SPDX-License-Identifier: Apache-2.0
"""Pictures as SVG in the page, in its own colours: dots with intervals, lines, belief, a meter.

A picture by matplotlib has fixed colours, reads "$" in a name as mathematics and does not narrow
with the page. These take their colours from the style sheet and their width from the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpfast.app.report.facts import DRAWN, Noisy
from dpfast.app.report.markup import MINUS, attribute, ends, number, text
from dpfast.app.report.scale import Scale

INSET = 4.0  # per cent of the width, on both sides of a scale
KEYS = 5  # that an axis names
SIDE, LEFT, TOP = 300.0, 44.0, 8.0  # the square of beliefs, and what stands left and above of it
POINTS = 60  # on each side of a curve's bend
PRIORS = Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)


def intervals(names: Sequence[str], noisy: Noisy, scale: Scale, digits: int, label: str) -> str:
    """A row for each cell: its name, and a dot on a line from its low end to its high one.

    A cell beyond the scale is a number with an arrow. label: the id of what describes the picture.
    """
    n = len(names)

    def at(value: float) -> str:
        return f"{INSET + (100 - 2 * INSET) * scale.share(value):.2f}%"

    grid = "".join(
        f'<line class="{"grid" if mark else "zero"}" x1="{at(mark)}" x2="{at(mark)}" y1="0" y2="100%"/>'
        for mark in scale.marks
    )
    rows = []
    for place, (name, cell, a, b) in enumerate(zip(names, noisy.cells[:n], noisy.low[:n], noisy.high[:n], strict=True)):
        said = f"<title>{attribute(name)}: {number(cell, digits)}, {ends(a, b, digits)}</title>"
        if place in scale.beyond:
            up = cell > scale.least
            arrow = f"{number(cell, digits)} →" if up else f"← {number(cell, digits)}"
            side = 'x="100%" text-anchor="end"' if up else 'x="0"'
            drawn = f'<text class="far" {side} y="50%" dy=".35em">{arrow}</text>'
        else:
            line = f'<line class="reach" x1="{at(a)}" x2="{at(b)}" y1="50%" y2="50%"/>'
            drawn = f'{line}<circle class="dot" cx="{at(cell)}" cy="50%" r="3.75"/>'
        rows.append(f'<div class="row"><span>{text(name)}</span><svg>{said}{grid}{drawn}</svg></div>')
    places = _places(scale, digits)
    axis = "".join(
        f'<text x="{at(mark)}" y="1em" text-anchor="middle">{_tick(mark, places)}</text>' for mark in scale.marks
    )
    rows.append(f'<div class="row"><span></span><svg>{axis}</svg></div>')
    return f'<div role="img" aria-labelledby="{label}">\n' + "\n".join(rows) + "\n</div>"


def series(names: Sequence[str], at: Sequence[float], noisy: Noisy, scale: Scale, digits: int, label: str) -> str:
    """A line through the noisy numbers in the order of their keys, within the band of intervals.

    at: where each key stands, neighbours at a distance of 1; between others the line has a gap.
    """
    order = sorted(range(len(names)), key=lambda place: at[place])
    end = max(at)
    runs: list[list[int]] = []
    for before, place in zip([None, *order], order, strict=False):
        if before is None or at[place] - at[before] >= 1.5:
            runs.append([])
        runs[-1].append(place)

    def across(place: int) -> float:
        return INSET + (100 - 2 * INSET) * at[place] / end

    def up(value: float) -> float:
        return INSET + (100 - 2 * INSET) * (1 - scale.share(value))

    lines = [
        f'<line class="{"grid" if mark else "zero"}" x1="0" x2="100" y1="{up(mark):.2f}" y2="{up(mark):.2f}"/>'
        for mark in scale.marks
    ]
    for run in runs:
        below, line, above = (
            [f"{across(place):.2f},{up(values[place]):.2f}" for place in run]
            for values in (noisy.low, noisy.cells, noisy.high)
        )
        if len(run) > 1:
            lines.insert(0, f'<polygon class="band" points="{" ".join([*above, *reversed(below)])}"/>')
            lines.append(f'<polyline class="curve" points="{" ".join(line)}"/>')
        else:
            lines.append(f'<polyline class="reach" points="{below[0]} {above[0]}"/>')
    alone = {run[0] for run in runs if len(run) == 1}
    over = []
    for place in order:
        cell, x = noisy.cells[place], across(place)
        if place in scale.beyond:
            high = cell > scale.least
            arrow = f"{number(cell, digits)} {'↑' if high else '↓'}"
            over.append(
                f'<text class="far" x="{x:.2f}%" y="{"0" if high else "100%"}" dy="{"0" if high else ".8em"}" {_anchor(x)}>{arrow}</text>'
            )
        elif len(order) <= DRAWN or place in alone:
            said = f"<title>{attribute(names[place])}: {number(cell, digits)}, {ends(noisy.low[place], noisy.high[place], digits)}</title>"
            over.append(f'<circle class="dot" cx="{x:.2f}%" cy="{up(cell):.2f}%" r="3">{said}</circle>')
    places = _places(scale, digits)
    side = "".join(
        f'<text x="100%" y="{up(mark):.2f}%" dy=".35em" text-anchor="end">{_tick(mark, places)}</text>'
        for mark in scale.marks
    )
    chosen = sorted({round(k * (len(order) - 1) / (KEYS - 1)) for k in range(KEYS)})
    below_them = "".join(
        f'<text class="{("key", "more")[k % 2]}" x="{across(order[rank]):.2f}%" y="1em" {_anchor(across(order[rank]))}>'
        f"{attribute(names[order[rank]], 14)}</text>"
        for k, rank in enumerate(chosen)
    )
    return (
        f'<div class="series" role="img" aria-labelledby="{label}">\n<svg>{side}</svg>\n<div><svg viewBox="0 0 100 100" '
        f'preserveAspectRatio="none">{"".join(lines)}</svg><svg>{"".join(over)}</svg></div>\n'
        f'<svg class="keys">{below_them}</svg>\n</div>'
    )


def _anchor(across: float) -> str:
    where = "start" if across < 20 else "end" if across > 80 else "middle"
    return f'text-anchor="{where}"'


def _places(scale: Scale, digits: int) -> int:
    """Digits after the point of the marks."""
    marks = scale.marks
    return max(0, -math.floor(math.log10(marks[1] - marks[0]) + 1e-9)) if len(marks) > 1 else digits


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
