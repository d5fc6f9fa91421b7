# SPDX-License-Identifier: Apache-2.0
"""Defects to plant in outputs under test: what shows that a check can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast.evidence.selftest.check import PlantedDefect
from dpfast.evidence.selftest.laws import POINTS, Steps
from dpfast.noise.mechanisms.laws import LAWS

Decisions = list[int | None]


def a_word(block: bytes) -> bytes:
    return block[:8] + bytes([block[8] ^ 1]) + block[9:]


def no_carry(blocks: list[bytes]) -> list[bytes]:
    return [*blocks[:16], *blocks[:16]]


def one_more(found: Decisions) -> Decisions:
    """The first decided outcome, off by one."""
    at = next((i for i, k in enumerate(found) if k is not None), None)
    return found if at is None else [*found[:at], (found[at] or 0) + 1, *found[at + 1 :]]


def last_one_up(found: list[Any]) -> list[Any]:
    return [*found[:-1], found[-1] + 1]


def last_repeats(found: list[bytes]) -> list[bytes]:
    return [*found[:-1], found[0]]


def touched(outputs: list[bytes]) -> list[bytes]:
    return [*outputs[:-1], outputs[-1][:-1] + b"\1"]


def one_cell(out: Any) -> Any:
    out = out.copy()
    out[-1] += 1
    return out


# ------------------------------------------------------------------ defects in draws of a law


def often(draws: Steps, share: float) -> Any:
    return np.random.default_rng().random(draws.size) < share


def scale(draws: Steps) -> Steps:
    """All draws 1 % further out; each is rounded to a neighbour at random."""
    wider = draws * 1.01
    low: Steps = np.floor(wider)
    return low + (np.random.default_rng().random(draws.size) < wider - low)


def zero(draws: Steps) -> Steps:
    return np.where((np.abs(draws) == 1) & often(draws, 0.2), 0, draws)


def sign(draws: Steps) -> Steps:
    """Two in a hundred draws turn negative."""
    return np.where(often(draws, 0.02), -np.abs(draws), draws)


def tail(draws: Steps) -> Steps:
    low, high = np.quantile(draws, [0.0005, 0.9995])
    return np.clip(draws, np.floor(low), np.ceil(high))


def halved(noise: Any) -> Any:
    return noise // 2 if noise.dtype.kind == "i" else noise / 2


SHAPES: dict[str, tuple[str, Callable[[Steps], Steps]]] = {
    "scale": ("a scale 1 % too large", scale),
    "zero": ("a fifth of the draws 1 and -1 are 0 instead", zero),
    "sign": ("one draw in fifty is made negative", sign),
    "tail": ("draws beyond the quantiles of 0.0005 and 0.9995 are clipped", tail),
}
ON_A_FINE_GRID = "laplace", "gaussian"  # where 0 is one of millions of values

PLANTED_DEFECTS = {
    each.name: each
    for each in (
        PlantedDefect("cipher-word", "cipher", "block", "one bit of a word of an RFC 8439 block", a_word),
        PlantedDefect("cipher-carry", "cipher", "blocks of one call", "the second half of a call repeats the first", no_carry),
        PlantedDefect("golden-draws", "golden", "digest of draws", "a digit of a digest", lambda d: d[::-1]),
        PlantedDefect("golden-release", "golden", "digest of a release", "a digit of a digest", lambda d: d[::-1]),
        PlantedDefect("table-entry", "tables", "table", "one entry of a table off by one", one_more),
        PlantedDefect("threshold", "thresholds", "thresholds", "the last threshold one 2^-64 up", last_one_up),
        PlantedDefect("decision", "decisions", "decisions", "one decision of a tier off by one", one_more),
        PlantedDefect("tier", "tiers", "draws", "one draw of one path off by one", one_more),
        PlantedDefect("release", "releases", "outputs", "one output off by one", last_one_up),
        PlantedDefect("cut", "cuts", "a piece", "one draw of a piece off by one", one_more),
        PlantedDefect("threads", "cuts", "in threads", "one output off by one by another number of threads", one_cell),
        PlantedDefect("retry", "keyed", "a retry", "one output of a retry off by one", one_cell),
        PlantedDefect("key-reuse", "keyed", "noise of a changed input", "a changed input gets the noise it had before", lambda both: both[:1] * 2),
        PlantedDefect("p-value", "p-values", "p-value", "p-values one in ten thousand too large", lambda p: p * 1.0001),
        *(
            PlantedDefect(f"{kind}-{law}", f"noise {law}", "draws", what, alter)
            for law in POINTS
            for kind, (what, alter) in SHAPES.items()
            if kind != "zero" or law not in ON_A_FINE_GRID
        ),
        *(
            PlantedDefect(f"draw-{law}", f"noise {law}", "draws", "one draw of one path off by one", one_more)
            for law in LAWS.keys() - POINTS.keys()
        ),
        PlantedDefect("noise-halved", "epsilon", "noise", "noise of half the scale", halved),
        PlantedDefect("fork-repeat", "fork", "noise of parent and child", "a child makes the noise of its parent", lambda both: both[:1] * 2),
        PlantedDefect("noise-twice", "fresh", "noises", "the last release has the noise of the first", last_repeats),
        PlantedDefect("key-twice", "entropy", "keys", "the system gives a key twice", last_repeats),
        PlantedDefect("no-key", "entropy", "outputs without a key", "a release without a key touched its output", touched),
    )
}  # fmt: skip
