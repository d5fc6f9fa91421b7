# SPDX-License-Identifier: Apache-2.0
"""Cells beside boundaries, at each level: the exact tier and the reference have one answer.

The digits are those that the tier reads at each of its levels. It leaves nothing open that the
reference decides, but at the last level, where a release fails. A scale off by 2^-600 must be seen.
CELLS: how many of each law.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from typing import Any

import exact_cells as cells
import mpmath
import tiers

from dpfast import DiscreteGaussian, DiscreteLaplace, OneSidedGeometric

CELLS = int(os.environ.get("CELLS", "100000"))
AT_ONCE = 500  # by a process
SIGMAS = [Fraction(s) for s in ("1/36", "1/10", "1", "10", "40")]
PlanFor = Callable[[Any], tiers.Plan]


def _bits(mechanism: Any, level: int) -> int:
    """How many digits of a word have come at a level."""
    return tiers.constant_work_plan(mechanism).width + (64, 128, 640)[level - 1]


def _magnitudes(kind: Any, rng: random.Random, level: int, plan_for: PlanFor) -> cells.Found:
    mechanism = kind(1, rng.choice([*cells.LENGTHS]))
    bits = _bits(mechanism, level) - 1
    planted = cells.integer_cells(mechanism, bits, rng)
    return list(cells.integers(mechanism, plan_for(mechanism), bits, sorted(planted)))


def _laplace(rng: random.Random, level: int, plan_for: PlanFor) -> cells.Found:
    ratio, offset = rng.choice([*cells.LENGTHS]), rng.choice(cells.OFFSETS + cells.TINY)
    mechanism = cells.laplace_of(ratio)
    bits = _bits(mechanism, level) - 1
    planted = cells.laplace_cells(cells.real(ratio), bits, offset, rng, 2)
    return list(cells.rounded(mechanism, plan_for(mechanism), bits, sorted(planted), offset))


def _gaussian(rng: random.Random, level: int, plan_for: PlanFor) -> cells.Found:
    mechanism, offset = cells.gaussian_of(rng.choice([*cells.RATIOS])), rng.choice(cells.OFFSETS + cells.TINY)
    t = mpmath.sqrt(cells.real(tiers.law(mechanism).ratio_squared))
    planted = cells.boxes(t, _bits(mechanism, level), offset, rng)
    return list(cells.normals(mechanism, plan_for(mechanism), offset, planted))


def _inversion(rng: random.Random, level: int, plan_for: PlanFor) -> cells.Found:
    mechanism = DiscreteGaussian(sigma := rng.choice(SIGMAS))
    bits = _bits(mechanism, level) - 1
    planted = cells.inversion_cells(sigma, bits, rng, 5)
    return list(cells.integers(mechanism, plan_for(mechanism), bits, sorted(planted)))


def _acceptance(rng: random.Random, level: int, plan_for: PlanFor) -> cells.Found:
    squared = rng.choice(cells.REJECTING)
    mechanism, bits = DiscreteGaussian(sigma_squared=squared), 16 + (64, 128, 640)[level - 1]
    k = max(1, int(float(squared) ** 0.5 * 31 * rng.random() ** 2))
    planted = cells.acceptance_cells(squared, k, bits) | cells.ends_of(bits, rng)
    return list(cells.acceptances_alone(mechanism, plan_for(mechanism), k, bits, sorted(planted)))


LAWS: dict[str, Callable[[random.Random, int, PlanFor], cells.Found]] = {
    "discrete Laplace": partial(_magnitudes, DiscreteLaplace),
    "one-sided geometric": partial(_magnitudes, OneSidedGeometric),
    "Laplace": _laplace,
    "Gaussian": _gaussian,
    "discrete Gaussian, by thresholds": _inversion,
    "discrete Gaussian, acceptance": _acceptance,
}


def tried(law: str, seed: int, n: int, *, spoilt: bool = False) -> Counter[str]:
    """n cells or more of a law, by what came of them."""
    rng, found = random.Random(f"{law} {seed}"), Counter[str]()
    plan_for = partial(cells.moved, by=-600) if spoilt else cells.plan_of
    with mpmath.workprec(cells.PRECISION):
        while found.total() < n:
            level = 3 if spoilt else rng.choice([1, 2, 3])
            for ours, right in LAWS[law](rng, level, plan_for):
                differ = ours != right and (ours is not None or right is None)
                found[f"level {level}: {_said(ours, right, differ)}"] += 1
    return found


def _said(ours: Any, right: Any, differ: bool) -> str:
    return "two answers" if differ else "one answer" if ours is not None else "open" if right is None else "open in C"


def check(*, cheap: bool) -> dict[str, Any]:
    """Counts cells by law, level and answer; the work is split among processes.

    Raises: AssertionError (two answers; C leaves a cell open before the last level, which the
    reference decides; a spoilt scale is not seen).
    """
    many = 60 if cheap else CELLS
    tasks = [(law, seed, min(AT_ONCE, many)) for seed in range(-(-many // AT_ONCE)) for law in LAWS]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        figures = {law: Counter[str]() for law in LAWS}
        for (law, *_), found in zip(tasks, pool.map(tried, *zip(*tasks, strict=True)), strict=True):
            figures[law] += found
            wrong = [what for what in found if "two answers" in what or ("open in C" in what and "level 3" not in what)]
            assert not wrong, f"{law}: {found}"
        for law in LAWS:
            seen = pool.submit(tried, law, -1, 60, spoilt=True).result()
            assert seen["level 3: two answers"], f"{law}: a spoilt scale is not seen"
    return {law: dict(sorted(found.items())) for law, found in figures.items()} | {"spoilt scales, seen": len(LAWS)}
