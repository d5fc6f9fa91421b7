# SPDX-License-Identifier: Apache-2.0
"""Keys with an order of their own, such as ages, months, weeks and bins: they make a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from itertools import pairwise

LEAST = 8  # keys of a line; fewer are rows
NUMBER = r"-?(?:0?\d|[1-9]\d{1,14})(?:\.\d{1,15})?"  # codes such as 00517 have no order that counts


def _day(text: str) -> float:
    return float(date.fromisoformat(text).toordinal())


def _week(text: str) -> float:
    return date.fromisocalendar(int(text[:4]), int(text[6:]), 1).toordinal() / 7


def _month(text: str) -> float:
    return float(12 * int(text[:4]) + int(text[5:]))


# How a kind of key looks, and where it stands. Bins, whose widths differ, stand in their order.
KINDS: tuple[tuple[re.Pattern[str], Callable[[str], float]], ...] = (
    (re.compile(NUMBER), float),
    (re.compile(r"\[\d{1,15}\]"), lambda text: float(text[1:-1])),  # a place of an array
    (re.compile(r"\d{4}-(?:0[1-9]|1[0-2])"), _month),
    (re.compile(r"\d{4}-\d\d-\d\d"), _day),
    (re.compile(r"\d{4}-W\d\d"), _week),
)
BIN = re.compile(rf"\[({NUMBER}), ({NUMBER})\)")


def places(keys: Sequence[object]) -> list[float] | None:
    """Where each key stands on its axis, neighbours at a distance of 1; None if they are no series.

    A series has LEAST keys, all different and of one kind, and more than half of them are followed
    by the next one that there may be. A key that is missing leaves a gap.
    """
    texts = [str(key) for key in keys]
    if len(texts) < LEAST:
        return None
    found = _bins(texts) or next(
        ([_placed(place, text) for text in texts] for kind, place in KINDS if all(map(kind.fullmatch, texts))), None
    )
    if found is None or None in found:
        return None
    at = [place for place in found if place is not None]
    steps = [b - a for a, b in pairwise(sorted(at))]
    step = min(steps)
    if step <= 0 or 2 * sum(each < 1.5 * step for each in steps) <= len(steps):
        return None
    least = min(at)
    return [(place - least) / step for place in at]


def _placed(place: Callable[[str], float], text: str) -> float | None:
    try:
        return place(text)
    except ValueError:  # there is no such day
        return None


def _bins(texts: Sequence[str]) -> list[float | None] | None:
    """The ranks of bins, two apart where numbers between them have none."""
    ends = [tuple(map(float, found.groups())) for found in map(BIN.fullmatch, texts) if found]
    if len(ends) < len(texts):
        return None
    rank, at = 0.0, dict[tuple[float, ...], float]()
    for before, bounds in pairwise([(0.0, min(ends)[0]), *sorted(ends)]):
        rank += 1 if before[1] == bounds[0] else 2
        at[bounds] = rank
    return [at[bounds] for bounds in ends]
