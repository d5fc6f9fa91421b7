# SPDX-License-Identifier: Apache-2.0
"""The law: tiers that agree, a certified table, exact-law statistics, golden outputs, small worlds."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import gof
import numpy as np
import pytest
import reference
from conftest import ISAS

from dpfast import DiscreteLaplace, _native
from dpfast.exact import Digits
from dpfast.kernels.saturate import clamped_sum
from dpfast.release.arrays import Job

SCALES = [
    Fraction(1, 2**60), Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(100), Fraction(128),
    Fraction(1000), Fraction(2**17), Fraction(10**6), Fraction(2**20), Fraction(10**9), Fraction(10**12), Fraction(2**44),
    Fraction(10**15), Fraction(2**60),
]  # fmt: skip
TIERS = {"table": _native.TABLE, "double": _native.DOUBLE, "twofold": _native.TWOFOLD, "integer": _native.INTEGER}


def mechanism(scale: Fraction) -> DiscreteLaplace:
    return DiscreteLaplace(epsilon=1, sensitivity=scale)


def planted(scale: Fraction, bits: int, law: reference.DiscreteLaplace) -> list[int]:
    """Cells of U at, and beside, thresholds of all sizes; small and large U; and random ones."""
    rng = random.Random(f"{scale} {bits}")
    thresholds = {1, 2, 3, 10, *(max(1, int(scale * x)) for x in (0.01, 0.5, 1, 2, 5, 10, 20, 35))}
    thresholds |= {rng.randrange(1, max(2, int(40 * scale))) for _ in range(20)}
    cells = {law.threshold(k, bits) + beside for k in thresholds for beside in (-2, -1, 0, 1, 2)}
    cells |= {rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(60)}
    cells |= {rng.getrandbits(bits) for _ in range(60)} | {2**bits - 1, 2**bits - 2, 2 ** (bits - 1), 1, 2}
    return sorted(cell for cell in cells if 0 <= cell < 2**bits)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_tiers_agree_on_random_and_planted_digits(scale: Fraction, isa: int) -> None:
    """Whatever a tier decides is what the exact law says; where a threshold lies in the cell none decides."""
    mech, law = mechanism(scale), reference.DiscreteLaplace(1 / scale)
    plan = mech._bulk_plan
    bits = plan.width + 63
    cells = planted(scale, bits, law)
    truth = [law.magnitude(cell, bits) for cell in cells]
    assert [mech._law.magnitude(cell, bits) for cell in cells] == truth
    decided = 0
    for name in ("twofold", "integer") if bits >= 95 else ("integer",):
        found = plan.tier(TIERS[name], bits, cells, isa=isa)
        assert all(k is None or k == right for k, right in zip(found, truth, strict=True))
        decided += sum(k is not None for k in found)
    assert decided > len(cells) / 3
    if scale <= 2**44:  # the double tier takes the first 64 digits
        short = sorted({cell >> (bits - 64) for cell in cells})
        exact = [law.magnitude(cell, 64) for cell in short]
        found = plan.tier(TIERS["double"], 64, short, isa=isa)
        assert all(k is None or k == right for k, right in zip(found, exact, strict=True))
        assert sum(k is not None for k in found) > len(short) / 4


@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale <= 128], ids=str)
def test_table_certificate(scale: Fraction) -> None:
    """Every entry is the law's on its whole cell, every threshold is bracketed by an undecided cell, and the sign mirrors."""
    mech, law = mechanism(scale), reference.DiscreteLaplace(1 / scale)
    table = mech._bulk_plan.tier(_native.TABLE, 16, range(2**16), isa=0)
    rest = random.Random(1).sample(range(2**15), 500)
    opened = {cell for cell in range(2**15) if table[cell] is None}
    assert all(table[cell] == law.magnitude(cell, 15) for cell in [*rest, *sorted(opened)[:500], 2**15 - 1])
    k = 1
    while (cell := law.threshold(k, 15)) > 0:
        assert cell in opened
        k += 1
    assert opened == {law.threshold(j, 15) for j in range(1, k + 1)}
    assert opened == {cell - 2**15 for cell in range(2**15, 2**16) if table[cell] is None}
    # Monotone between undecided cells, so the sample stands for all.
    magnitudes = [table[cell] for cell in range(2**15) if cell not in opened]
    assert magnitudes == sorted(magnitudes, reverse=True)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_stream_maps_to_the_exact_law(scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """Draws as C makes them are those of the exact tier from the same digits."""
    mech, key = mechanism(scale), _native.StreamKey(secret("stream"))
    start = 10**6 - 50
    exact = [mech._law.draw(mech._reader(key, mech._bulk_plan.width), i) for i in range(start, start + 100)]
    for isa in ISAS:
        for careful in (False, True):
            assert mech._bulk_plan.fill(key, start, 100, careful=careful, isa=isa) == exact


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(50), Fraction(10**15), Fraction(2**60)], ids=str)
def test_draws_left_open_at_every_level_are_decided_by_the_next(scale: Fraction) -> None:
    """The exact tier, given digits planted on a threshold for three levels, goes on until they leave it."""
    law, mech = reference.DiscreteLaplace(1 / scale), mechanism(scale)
    k = max(1, int(scale))
    bits = [64, 128, 192, 704, 1216]
    cell = law.threshold(k, bits[3])  # three levels in the cell of T_k, then above or below it
    for side, magnitude in [(0, k), (2**512 - 1, k - 1)]:
        prefixes = [*(cell >> (bits[3] - b) for b in bits[:4]), cell << 512 | side]
        digits = [Digits(1 << b | p, b + 1) for p, b in zip(prefixes, bits, strict=True)]
        assert [mech._law.magnitude(p, b) for p, b in zip(prefixes[:4], bits, strict=False)] == [None] * 4
        assert mech._law.draw(lambda i, r, digits=digits: digits[r], 0) == -magnitude


def noise(mech: DiscreteLaplace, n: int, key: bytes) -> np.ndarray:
    """n draws of the stream under one key, by the fused kernel, as a release of zeros sees them."""
    zeros = np.zeros(n, np.int64)
    stream = _native.StreamKey(key)
    job = Job(zeros, zeros, -(2**63), 2**63 - 1)
    mech._run(job, *mech._plan(n, constant_time=False), stream, 0, 1)
    return zeros


# Draws a scale: 1 % of scale moves the variance by 2 %, which is 9 standard errors of 2^20 draws and more.
LAW_SCALES = [Fraction(1, 4), Fraction(1), Fraction(10), Fraction(100), Fraction(1000), Fraction(10**6), Fraction(10**12), Fraction(2**50)]  # fmt: skip
N = 2**20


def judged(mech: DiscreteLaplace, draws: np.ndarray) -> list[str]:
    law = reference.DiscreteLaplace(mech.epsilon / mech.sensitivity)
    return gof.suspicions(draws, law.cdf, lambda p: mech.quantile(p), law.variance(), law.fourth_moment())


@pytest.mark.parametrize("scale", LAW_SCALES, ids=str)
def test_exact_law(scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """2^20 draws show nothing at a false-alarm rate of 1e-6."""
    mech = mechanism(scale)
    assert judged(mech, noise(mech, N, secret(f"law {scale}"))) == []


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1000), Fraction(2**30)], ids=str)
def test_exact_law_of_small_calls(scale: Fraction) -> None:
    """The same of 300 calls of 3,500 counts, each under the system's own key."""
    mech = mechanism(scale)
    assert judged(mech, np.concatenate([mech.release(np.zeros(3500, np.int64)) for _ in range(300)])) == []


DEFECTS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "doubled zero": lambda x, rng: np.where((np.abs(x) == 1) & (rng.random(x.size) < 0.2), 0, x),
    "biased sign": lambda x, rng: np.where((x < 0) & (rng.random(x.size) < 0.02), -x, x),
    "truncated tail": lambda x, rng: x[np.abs(x) <= np.quantile(np.abs(x), 0.9995)],
    "shifted by one": lambda x, rng: np.where(rng.random(x.size) < 0.1, x + 1, x),
    "one-sided": lambda x, rng: np.abs(x),
}


@pytest.mark.parametrize("name", DEFECTS)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10)], ids=str)
def test_planted_defects_are_rejected(name: str, scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """The same judge rejects draws that were tampered with."""
    mech = mechanism(scale)
    draws = DEFECTS[name](noise(mech, N, secret("defect")), np.random.default_rng(1))
    assert judged(mech, draws) != []


@pytest.mark.parametrize("scale", [scale for scale in LAW_SCALES if scale >= 1], ids=str)
@pytest.mark.parametrize("factor", [Fraction(101, 100), Fraction(99, 100)])
def test_a_scale_one_percent_off_is_rejected(scale: Fraction, factor: Fraction, secret: Callable[[str], bytes]) -> None:
    """The judge holds the draws of another scale to be of another law."""
    other = mechanism(scale * factor)
    assert judged(mechanism(scale), noise(other, N, secret("scale"))) != []


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(100)], ids=str)
def test_a_fresh_start_for_open_draws_is_rejected(scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """A sampler that draws a fresh U where the table is undecided, in place of more digits, has another law; 2^22 draws show it."""
    mech = mechanism(scale)
    n = 2**22
    rng = np.random.default_rng(7)
    table = np.array([0 if k is None else k for k in mech._bulk_plan.tier(_native.TABLE, 16, range(2**16), isa=0)])
    open_ = np.array([k is None for k in mech._bulk_plan.tier(_native.TABLE, 16, range(2**16), isa=0)])
    words = rng.integers(0, 2**16, n)
    signs = np.where(words >> 15, -1, 1)
    magnitudes = table[words & 0x7FFF]
    fresh = noise(mech, n, secret("fresh"))
    assert judged(mech, fresh) == []
    assert judged(mech, np.where(open_[words & 0x7FFF], fresh, signs * magnitudes)) != []


def test_small_world_of_the_digits() -> None:
    """All 2^15 prefixes of U enumerated: each magnitude's probability lies between its decided cells and these with its open ones."""
    for scale in (Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(100)):
        law = reference.DiscreteLaplace(1 / scale)
        table = mechanism(scale)._bulk_plan.tier(_native.TABLE, 16, range(2**15), isa=0)
        counts = np.bincount([k for k in table if k is not None])
        for k, count in enumerate(counts):
            probability = law.pmf(k) * (2 if k else 1) * 2**15
            assert count <= probability * (1 + 1e-12)
            assert probability <= count + 2 or k == counts.size - 1


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize(("lower", "upper"), [(-8, 7), (0, 7), (-3, 3), (2, 2)])
def test_small_world_of_the_clamped_sum(q: Fraction, lower: int, upper: int) -> None:
    """Over all neighbours of a narrow type, every output's ratio is at most e^epsilon = 1/q, in rationals, by the kernel's own sum."""
    far = 40  # noise beyond it clamps for every count; its mass is added in closed form

    def output(x: int) -> dict[int, Fraction]:
        law: dict[int, Fraction] = {}
        for k in range(-far, far + 1):
            mass = (1 - q) / (1 + q) * q ** abs(k) if abs(k) < far else q**far / (1 + q)
            y = int(clamped_sum.py_func(np.int64(x), np.int64(k), np.int64(lower), np.int64(upper)))
            law[y] = law.get(y, Fraction(0)) + mass
        return law

    laws = {x: output(x) for x in range(-8, 8)}
    for x in range(-8, 7):
        assert sum(laws[x].values()) == 1
        assert laws[x].keys() == laws[x + 1].keys()
        ratios = [laws[x][y] / laws[x + 1][y] for y in laws[x]]
        assert q <= min(ratios)
        assert max(ratios) <= 1 / q
        assert lower == upper or max(max(ratios), 1 / min(ratios)) == 1 / q


def test_small_world_catches_clipped_noise() -> None:
    """The same enumeration with the noise clipped before the sum finds outputs that a neighbour cannot give."""
    clip = 5
    reach = {x: {min(max(x + max(-clip, min(clip, k)), -8), 7) for k in range(-40, 41)} for x in range(-8, 8)}
    assert any(reach[x] != reach[x + 1] for x in range(-8, 7))


VECTORS = Path(__file__).parent / "vectors" / "discrete_laplace.json"


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text()), ids=lambda v: v["scale"])
def test_golden_outputs(vector: dict[str, str]) -> None:
    """Stream version 1, pinned: the first draws by the exact tier, and a digest of 20,000."""
    assert _native.STREAM_VERSION == 1
    mech, key = mechanism(Fraction(vector["scale"])), _native.StreamKey(bytes.fromhex(vector["key"]))
    for isa in ISAS:
        draws = mech._bulk_plan.fill(key, int(vector["start"]), 20_000, careful=False, isa=isa)
        assert draws[:32] == vector["draws"]
        assert hashlib.sha256(repr(draws).encode()).hexdigest() == vector["sha256"]
