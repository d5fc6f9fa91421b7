# SPDX-License-Identifier: Apache-2.0
"""The geometric laws, two- and one-sided: planted digits in any rounding mode; small worlds.

That draws of all laws have their distributions: test_laws.py, `test_exact_law`.
"""

from __future__ import annotations

import ctypes
import random
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import reference
import tiers
from laws import BY_NAME, Law, over
from proofs import MODES, entered
from sums import Summing, summing

REFERENCES = {"discrete_laplace": reference.DiscreteLaplace, "one_sided_geometric": reference.OneSidedGeometric}
SHARE = {"integer": 1 / 3, "double": 1 / 6, "double-double": 1 / 12}  # the least that a tier decides


@cache
def planted(name: str, scale: Fraction, bits: int) -> dict[int, int | None]:
    """Cells of U at and beside all thresholds; next to 1, -ln U tiny; small U; random."""
    right, rng = REFERENCES[name](1 / scale), random.Random(f"{scale} {bits}")
    thresholds = {1, 2, 3, 10, *(max(1, int(scale * x)) for x in (2.0**-30, 2.0**-10, 0.01, 0.5, 1, 2, 5, 10, 20, 35))}
    thresholds |= {rng.randrange(1, max(2, int(40 * scale))) for _ in range(20)}
    cells = {right.threshold(k, bits) + beside for k in thresholds for beside in (-2, -1, 0, 1, 2)}
    cells |= {rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(60)}
    cells |= {rng.getrandbits(bits) for _ in range(60)}
    cells |= {2**bits - 1 - (rng.getrandbits(bits) >> rng.randrange(bits)) for _ in range(60)}
    cells |= {2**bits - j for j in range(1, 6)} | {2 ** (bits - 1), 1, 2}
    return {cell: right.magnitude(cell, bits) for cell in sorted(cells) if 0 <= cell < 2**bits}


@over("scales", laws=[BY_NAME[name] for name in REFERENCES])
def test_tiers_agree_on_random_and_planted_digits(law: Law, scale: Fraction, host: ctypes.CDLL) -> None:
    """Decided draws are the law's, in any rounding mode, near U = 1 too; never on a threshold."""
    mech: Any = law.make(scale)
    plan = tiers.constant_work_plan(mech)
    whole = plan.width + 63
    for cell, right in planted(law.name, scale, whole).items():
        assert tiers.law(mech).magnitude(cell, whole) == right, cell
    cases = [("integer", tiers.INTEGER, whole)]
    cases += [("double-double", tiers.DOUBLE_DOUBLE, whole)] if whole >= 95 else []
    cases += [("double", tiers.DOUBLE, 64)] if scale <= 2**44 else []
    for name, tier, bits in cases:
        cells = planted(law.name, scale, bits)
        given = tiers.Cells(bits, list(cells), list(cells.values()))
        for isa in tiers.ISAS:
            for mode in MODES:
                with entered(host, mode, flush=mode == "dn"):
                    decided, wrong = given.tried(plan, tier, isa)
                assert wrong == 0, (name, mode)
                assert decided > len(cells) * SHARE[name]


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Summing:
    return summing(tmp_path_factory.mktemp("sums"))["sums"]


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize(("lower", "upper"), [(-8, 7), (0, 7), (-3, 3), (2, 2)])
def test_small_world_of_the_clamped_sum(q: Fraction, lower: int, upper: int, added: Summing) -> None:
    """All neighbours of a narrow type by the sum of csrc/sum.h: ratios <= e^epsilon = 1/q."""
    far = 40  # noise beyond it clamps for every count; its mass is added in closed form

    def output(x: int) -> dict[int, Fraction]:
        law: dict[int, Fraction] = {}
        draws = list(range(-far, far + 1))
        for k, y in zip(draws, added(tiers.INT64, 1, [x] * len(draws), draws, lower, upper), strict=True):
            mass = (1 - q) / (1 + q) * q ** abs(k) if abs(k) < far else q**far / (1 + q)
            law[y] = law.get(y, Fraction(0)) + mass
        return law

    laws = {x: output(x) for x in range(-8, 8)}
    for x in range(-8, 7):
        assert sum(laws[x].values()) == 1
        assert laws[x].keys() == laws[x + 1].keys()
        ratios = [laws[x][y] / laws[x + 1][y] for y in laws[x]]
        assert q <= min(ratios)
        assert max(ratios) <= 1 / q
        assert lower == upper or max(*ratios, 1 / min(ratios)) == 1 / q


def test_small_world_catches_clipped_noise() -> None:
    """Noise clipped before the sum gives outputs impossible for a neighbour."""
    clip = 5
    reach = {x: {min(max(x + max(-clip, min(clip, k)), -8), 7) for k in range(-40, 41)} for x in range(-8, 8)}
    assert any(reach[x] != reach[x + 1] for x in range(-8, 7))
