# SPDX-License-Identifier: Apache-2.0
"""The one-sided geometric law: tiers that agree with C = 0, in any rounding mode; statistics; and that it is no mechanism."""

from __future__ import annotations

import ctypes
import json
import math
import pickle
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import gof
import mpmath
import numpy as np
import pytest
import reference
import test_bounds
from conftest import ISAS
from test_bounds import MODES, entered

from dpfast import OneSidedGeometric, Sensitivity, _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.discrete_laplace import constants
from dpfast.mechanisms.mechanism import Mechanism
from dpfast.release.arrays import INT64, Job, clamps

host = test_bounds.host
SCALES = [
    Fraction(1, 2**60), Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(128), Fraction(1000), Fraction(2**17),
    Fraction(2**20), Fraction(10**9), Fraction(2**44), Fraction(10**15), Fraction(2**60),
]  # fmt: skip
TIERS = {"table": _native.TABLE, "double": _native.DOUBLE, "twofold": _native.TWOFOLD, "integer": _native.INTEGER}


def law(scale: Fraction) -> OneSidedGeometric:
    return OneSidedGeometric(epsilon=1, sensitivity=scale)


@cache
def planted(scale: Fraction, bits: int) -> dict[int, int | None]:
    """Cells of U at, and beside, thresholds of all sizes; next to 1, where -ln U is as small as an error; small U; random ones."""
    known, rng = reference.OneSidedGeometric(1 / scale), random.Random(f"{scale} {bits}")
    thresholds = {1, 2, 3, 10, *(max(1, int(scale * x)) for x in (2.0**-30, 2.0**-10, 0.01, 0.5, 1, 2, 5, 10, 20, 35))}
    thresholds |= {rng.randrange(1, max(2, int(40 * scale))) for _ in range(20)}
    cells = {known.threshold(k, bits) + beside for k in thresholds for beside in (-2, -1, 0, 1, 2)}
    cells |= {rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(40)}
    cells |= {2**bits - 1 - (rng.getrandbits(bits) >> rng.randrange(bits)) for _ in range(60)}
    cells |= {2**bits - j for j in range(1, 6)} | {2 ** (bits - 1), 1, 2}
    return {cell: known.magnitude(cell, bits) for cell in sorted(cells) if 0 <= cell < 2**bits}


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_tiers_agree_on_random_and_planted_digits(scale: Fraction, host: ctypes.CDLL) -> None:
    """Whatever a tier decides is what the law says, in every rounding mode, next to U = 1 too; where a threshold lies in the cell none decides."""
    mech = law(scale)
    plan = mech._careful_plan
    whole = plan.width + 63
    assert [mech._law.magnitude(cell, whole) for cell in planted(scale, whole)] == [*planted(scale, whole).values()]
    cases = [
        ("integer", whole),
        *([("twofold", whole)] if whole >= 95 else []),
        *([("double", 64)] if scale <= 2**44 else []),
    ]
    for name, bits in cases:
        cells = planted(scale, bits)
        for isa in ISAS:
            for mode in MODES:
                with entered(host, mode, flush=mode == "dn"):
                    found = plan.tier(TIERS[name], bits, list(cells), isa=isa)
                assert all(k is None or k == right for k, right in zip(found, cells.values(), strict=True)), (
                    name,
                    mode,
                )
                decided = sum(k is not None for k in found)
                assert decided > (5 if name == "twofold" else len(cells) / 12) or (name == "twofold" and scale < 2**20)


def test_integers_next_to_u_1_need_the_lift() -> None:
    """Where -ln U is below the error of 2^-101 nothing wraps: the lift keeps C - ln U above 0. Without it a draw is 256 t."""
    scale, bits = Fraction(10**17, 7), 127
    cells = [2**bits - j for j in range(1, 2**12)]
    known = reference.OneSidedGeometric(1 / scale)
    assert {known.magnitude(cell, bits) for cell in cells[::100]} == {0}
    for isa in ISAS:
        assert {*law(scale)._careful_plan.tier(_native.INTEGER, bits, cells, isa=isa)} == {0}
    unlifted = _native.Plan("discrete_laplace", **constants(law(scale)._law))  # wide_c = 0
    assert math.floor(256 * scale) in unlifted.tier(_native.INTEGER, bits, cells)


@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale <= 128], ids=str)
def test_table_certificate(scale: Fraction) -> None:
    """Every entry is the law's on its whole cell, and every threshold is bracketed by an undecided cell."""
    mech, known = law(scale), reference.OneSidedGeometric(1 / scale)
    table = mech._bulk_plan.tier(_native.TABLE, 16, range(2**16), isa=0)
    opened = {cell for cell in range(2**15) if table[cell] is None}
    k = 1
    while known.threshold(k, 15) > 0:
        k += 1
    assert opened == {known.threshold(j, 15) for j in range(1, k + 1)}
    rest = random.Random(1).sample(range(2**15), 300)
    assert all(table[cell] == known.magnitude(cell, 15) for cell in [*rest, *sorted(opened)[:300], 2**15 - 1])
    magnitudes = [table[cell] for cell in range(2**15) if cell not in opened]
    assert magnitudes == sorted(magnitudes, reverse=True)


def drawn(mech: OneSidedGeometric, start: int, n: int, *, careful: bool, isa: int, key: bytes) -> list[int | None]:
    plan = mech._careful_plan if careful else mech._bulk_plan
    return [
        None if k is None else abs(k) for k in plan.fill(_native.StreamKey(key), start, n, careful=careful, isa=isa)
    ]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_stream_maps_to_the_exact_law(scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """Draws as C makes them, the sign dropped, are those of the exact tier from the same digits."""
    mech, key = law(scale), secret("stream")
    read = mech._reader(_native.StreamKey(key), mech._careful_plan.width)
    for start in (0, 10**6 - 50, 2**63 - 100):
        truth = [mech._law.draw(read, i) for i in range(start, start + 100)]
        for isa in ISAS:
            for careful in (False, True):
                found = drawn(mech, start, 100, careful=careful, isa=isa, key=key)
                assert all(k is None or k == right for k, right in zip(found, truth, strict=True))
                assert found.count(None) <= 1


# ------------------------------------------------------------------ the law

LAW_SCALES = [
    Fraction(1, 4),
    Fraction(1),
    Fraction(10),
    Fraction(100),
    Fraction(1000),
    Fraction(10**6),
    Fraction(2**50),
]
N = 2**20


def noise(mech: OneSidedGeometric, n: int, key: bytes) -> np.ndarray:
    """n draws of the stream under one key, by the fused kernel, with the sign that sample takes off."""
    zeros = np.zeros(n, np.int64)
    careful, plan = mech._plan(n, constant_time=False)
    mech._run(Job(zeros, zeros, *clamps(INT64, None, None)), careful, plan, _native.StreamKey(key), 0, 1)
    return zeros


def judged(scale: Fraction, magnitudes: np.ndarray) -> list[str]:
    """The judge wants a symmetric law: a fair sign is put on again."""
    known, signs = (
        reference.OneSidedGeometric(1 / scale),
        np.random.default_rng(5).integers(0, 2, magnitudes.size) * 2 - 1,
    )

    def cdf(k: int) -> float:
        return 1 - float(known.tail(k + 1)) / 2 if k >= 0 else float(known.tail(-k)) / 2

    def quantile(p: float) -> int:
        side = 2 * min(p, 1 - p)
        away = max(0, math.floor(-float(scale) * math.log(side)))
        return away if p >= 0.5 else -away

    return gof.suspicions(magnitudes * signs, cache(cdf), quantile, known.second_moment(), known.fourth_moment())


@pytest.mark.parametrize("scale", LAW_SCALES, ids=str)
def test_exact_law(scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """2^20 draws show nothing at a false-alarm rate of 1e-6, nor do the signs that are dropped."""
    draws = noise(law(scale), N, secret(f"one-sided {scale}"))
    assert judged(scale, np.abs(draws)) == []
    assert gof.binomial_p(int((draws > 0).sum()), int((draws != 0).sum()), 0.5) >= gof.ALPHA


def test_exact_law_of_sample() -> None:
    """The same of a sample under the system's own key, and of small ones."""
    scale = Fraction(10)
    assert judged(scale, law(scale).sample((1024, 1024)).ravel()) == []
    assert judged(scale, np.concatenate([law(scale).sample(3500) for _ in range(300)])) == []


@pytest.mark.parametrize("scale", LAW_SCALES, ids=str)
@pytest.mark.parametrize("factor", [Fraction(101, 100), Fraction(99, 100)])
def test_a_scale_one_percent_off_is_rejected(scale: Fraction, factor: Fraction, secret: Callable[[str], bytes]) -> None:
    """The judge holds the draws of another scale to be of another law."""
    if scale < 1:  # a few of a million draws are more than 3
        factor = Fraction(103, 100) if factor > 1 else Fraction(97, 100)
    assert judged(scale, np.abs(noise(law(scale * factor), N, secret("scale")))) != []


DEFECTS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "doubled zero": lambda x, rng: np.where((x == 1) & (rng.random(x.size) < 0.2), 0, x),
    "truncated tail": lambda x, rng: x[x <= np.quantile(x, 0.9995)],
    "shifted by one": lambda x, rng: np.where(rng.random(x.size) < 0.1, x + 1, x),
    "the two-sided magnitude": lambda x, rng: np.where((x > 0) & (rng.random(x.size) < 0.05), x - 1, x),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_rejected(name: str, secret: Callable[[str], bytes]) -> None:
    """The same judge rejects draws that were tampered with."""
    draws = np.abs(noise(law(Fraction(10)), N, secret("defect")))
    assert judged(Fraction(10), DEFECTS[name](draws, np.random.default_rng(1))) != []


# ------------------------------------------------------------------ no mechanism


def test_release_is_refused_and_says_why() -> None:
    """Whatever it is called with; and the records have no promise."""
    mech = law(Fraction(1))
    for call in (lambda: mech.release(), lambda: mech.release([1, 2]), lambda: mech.release([1], key=None, start=0), lambda: mech.release(out=1)):  # fmt: skip
        with pytest.raises(
            DTypeError, match=r"not a mechanism .* tells x from x \+ 1\. DiscreteLaplace is the mechanism"
        ):
            call()
    assert isinstance(mech, Mechanism)
    with pytest.raises(ParameterError, match=r"at most 2\*\*50"):
        law(Fraction(2**51)).sample(1)
    with pytest.raises(ParameterError, match="between 2"):
        OneSidedGeometric(1, 2**61)
    with pytest.raises(ParameterError, match="adjacency and unit are those"):
        OneSidedGeometric(1, Sensitivity(1, 1), unit="household")


def test_sample() -> None:
    """Never negative, int64, of any shape; at a scale where noise is nearly always 0 it is 0."""
    for scale in (Fraction(1, 2**60), Fraction(1, 3), Fraction(10**6), Fraction(2**50)):
        for size in (0, 7, (2, 3), 5000):
            for options in ({}, {"constant_time": True}, {"threads": 1}):
                found = law(scale).sample(size, **options)
                assert found.dtype == np.int64
                assert found.shape == (size if isinstance(size, tuple) else (size,))
                assert np.all(found >= 0)
    assert not law(Fraction(1, 2**60)).sample(5000).any()


def test_records() -> None:
    """A frozen value that pickles; metadata that JSON holds; a repr that says what it is."""
    for mech in (law(Fraction(1, 2**60)), law(Fraction(2**60)), OneSidedGeometric(Fraction(1, 3), Sensitivity(2, 3, adjacency="substitution", unit="household"))):  # fmt: skip
        again = pickle.loads(pickle.dumps(mech))
        assert again == mech
        assert hash(again) == hash(mech)
        record = json.loads(json.dumps(mech.metadata()))
        assert record["mechanism"] == "one_sided_geometric"
        assert Fraction(record["epsilon"]) == mech.epsilon
        assert repr(again) == repr(mech)
        assert "epsilon" in mech._repr_html_()
    assert mech.sensitivity == 12
    assert (mech.adjacency, mech.unit) == ("substitution", "household")


@pytest.mark.parametrize(
    "scale", [Fraction(1, 2**60), Fraction(1, 20), Fraction(1), Fraction(1000), Fraction(2**60)], ids=str
)
def test_figures(scale: Fraction) -> None:
    """mean, variance, pmf, cdf, quantile and interval against closed forms."""
    mech, known = law(scale), reference.OneSidedGeometric(1 / scale)
    assert mech.mean == pytest.approx(known.mean(), rel=1e-12)
    assert mech.variance == pytest.approx(known.variance(), rel=1e-12)
    assert mech.stddev == pytest.approx(math.sqrt(known.variance()), rel=1e-12)
    ks = sorted({-5, -1, 0, 1, 2, *(min(int(scale * x), 2**62) for x in (1, 3, 30))})
    assert mech.pmf(np.array(ks)) == pytest.approx([known.pmf(k) for k in ks], rel=1e-11)
    assert mech.cdf(np.array(ks)) == pytest.approx([known.cdf(k) for k in ks], rel=1e-11)
    assert (mech.pmf(-1), mech.cdf(-1)) == (0, 0)
    for p in (Fraction(1, 1000), Fraction(1, 2), Fraction(999, 1000)):
        k = mech.quantile(p)
        with mpmath.workprec(256):
            side = mpmath.mpf((1 - p).numerator) / (1 - p).denominator
            assert known.tail(k + 1) <= side
            assert k == 0 or known.tail(k) > side
        assert mech.interval(p) == k
        h = mech.interval(p, cells=1000)
        assert h >= k
        miss = -math.expm1(math.log(p) / 1000)
        assert float(known.tail(h + 1)) <= miss * (1 + 1e-12)
        assert h == 0 or float(known.tail(h)) >= miss * (1 - 1e-12)


def test_its_stream_is_its_own() -> None:
    """Under a key it shares no noise with the two-sided law: the derivation names the law."""
    assert law(Fraction(1))._record == ("one_sided_geometric", 1, 1, 1, 1)
