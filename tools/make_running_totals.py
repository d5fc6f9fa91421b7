# SPDX-License-Identifier: Apache-2.0
"""Write the coefficients of running totals: `python tools/make_running_totals.py`.

A row for each power of two of steps, found by a search whose result nothing depends on but the
error: what a row spends is proved again wherever it is used. The search makes a product least: the
squared sensitivity over 64 times the steps, times the squared error of the total after these steps
and, with a tenth of the weight, after four times as many.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpfast.counts.running.error import Inverse, columns

Point = npt.NDArray[np.float64]
TABLE = Path(__file__).parents[1] / "dpfast" / "counts" / "running" / "table.py"
FIRST, LAST, LONG, DIGITS, LATER = 2, 20, 17, 12, 0.1  # from 2^LONG steps on, five buffers and not four
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Coefficients for 2^2, 2^3, ... steps, written by tools/make_running_totals.py.

Each row: the decays (m, s), and the weights (a, b), of dpfast/privacy/running.py.
"""

ROWS = (
'''


def parameters(point: Point) -> tuple[list[float], list[float]]:
    """Leaks and weights from the logarithms that the search moves."""
    d = point.size // 2
    return (1 / (1 + np.exp(-point[:d]))).tolist(), np.exp(point[d:]).tolist()


def cost(point: Point, steps: int) -> float:
    leaks, shares = parameters(point)
    if sum(shares) > 1 or max(leaks) + sum(shares) > 0.99 or min(leaks) < 2.0**-30 or min(shares) < 2.0**-30:
        return math.inf
    inverse = Inverse(leaks, shares)
    at, later = inverse.squares(steps), inverse.squares(4 * steps)
    return math.log(columns(leaks, shares, 64 * steps)) + (1 - LATER) * math.log(at) + LATER * math.log(later)


def least(f: Callable[[Point], float], start: Point, size: float, tries: int = 6000) -> Point:
    """Nelder and Mead 1965, with coefficients that depend on the dimension."""
    n = start.size
    points = [start, *(start + size * row for row in np.eye(n))]
    values = [f(p) for p in points]
    for _ in range(tries):
        order = np.argsort(values, kind="stable")
        points, values = [points[i] for i in order], [values[i] for i in order]
        if values[-1] - values[0] < 1e-11:
            break
        middle = np.mean(points[:-1], axis=0)
        away = middle - points[-1]
        tried = middle + away
        value = f(tried)
        if value < values[0]:
            further = middle + (1 + 2 / n) * away
            at = f(further)
            points[-1], values[-1] = (further, at) if at < value else (tried, value)
            continue
        if value < values[-2]:
            points[-1], values[-1] = tried, value
            continue
        near = middle + (0.75 - 0.5 / n) * (away if value < values[-1] else -away)
        at = f(near)
        if at < min(value, values[-1]):
            points[-1], values[-1] = near, at
            continue
        points = [points[0], *(points[0] + (1 - 1 / n) * (p - points[0]) for p in points[1:])]
        values = [values[0], *(f(p) for p in points[1:])]
    return points[int(np.argmin(values))]


def start(steps: int, d: int) -> Point:
    leaks = np.exp(-math.log(8 * steps + 8) * np.linspace(0.15, 1, d)) * 0.8
    return np.concatenate([np.log(leaks / (1 - leaks)), np.log(0.4 * leaks**0.6)])


def short(x: float) -> tuple[int, int]:
    """The number as number/2^shift, number of so many digits."""
    shift = DIGITS - 1 - math.floor(math.log2(x))
    return round(x * 2.0**shift), shift


def row(steps: int, d: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    point = start(steps, d)
    for size in (0.5, 0.2, 0.2, 0.1):
        point = least(lambda p: cost(p, steps), point, size)
    pairs = sorted(zip(*parameters(point), strict=True), reverse=True)
    return tuple(tuple(map(short, each)) for each in zip(*pairs, strict=True))


if __name__ == "__main__":
    rows = [row(2**i, 5 if i >= LONG else 4) for i in range(FIRST, LAST + 1)]
    TABLE.write_text(HEAD + "".join(f"    {each},\n" for each in rows) + ")  # fmt: skip\n")
