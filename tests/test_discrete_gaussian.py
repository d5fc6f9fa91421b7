# SPDX-License-Identifier: Apache-2.0
"""The discrete Gaussian: a certified table, a search among thresholds, acceptance of rounded proposals, statistics, promises."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import gof
import mpmath
import numpy as np
import pytest
import reference
import test_bounds
from conftest import ISAS
from test_bounds import MODES, entered

from dpfast import DiscreteGaussian, Gaussian, Sensitivity, _native, exact
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.discrete_gaussian import search
from dpfast.mechanisms.gaussian import normal_constants
from dpfast.release.arrays import INT64, Job, clamps
from dpfast.release.engine import Draws, run

host = test_bounds.host
KEY = bytes(range(32))
INVERTED = [
    Fraction(1, 1000),
    Fraction(1, 3),
    Fraction(1),
    Fraction(37, 10),
    Fraction(10),
    Fraction(100),
    Fraction(128),
]
REJECTED = [
    Fraction(129),
    Fraction(200),
    Fraction(1000),
    Fraction(10**4),
    Fraction(10**6),
    Fraction(2**20 + 1),
    Fraction(10**9),
]


@cache
def law_of(sigma: Fraction) -> reference.DiscreteGaussian:
    return reference.DiscreteGaussian(sigma**2)


# ------------------------------------------------------------------ inversion


@pytest.mark.parametrize("sigma", INVERTED, ids=str)
def test_table_certificate(sigma: Fraction) -> None:
    """Every entry is the law's on its whole cell, every threshold is bracketed by an undecided cell, and the sign mirrors."""
    mech, law = DiscreteGaussian(sigma), law_of(sigma)
    table = mech._bulk_plan.tier(_native.TABLE, 16, range(2**16), isa=0)
    opened = {cell for cell in range(2**15) if table[cell] is None}
    k = 1
    while law.threshold(k, 15) > 0:
        k += 1
    assert opened == {0} | {law.threshold(j, 15) for j in range(1, k)}
    assert opened == {cell - 2**15 for cell in range(2**15, 2**16) if table[cell] is None}
    rest = random.Random(1).sample(range(2**15), 300)
    assert all(table[cell] == law.magnitude(cell, 15) for cell in [*rest, *sorted(opened)[:300], 2**15 - 1])
    assert all(table[2**15 + cell] == -table[cell] for cell in range(2**15) if cell not in opened)
    magnitudes = [table[cell] for cell in range(2**15) if cell not in opened]
    assert magnitudes == sorted(
        magnitudes, reverse=True
    )  # monotone between undecided cells, so the sample stands for all


@pytest.mark.parametrize("sigma", INVERTED, ids=str)
def test_thresholds_and_search(sigma: Fraction) -> None:
    """Thresholds are those of another enclosure; on digits at and beside each, the search gives the law's magnitude or leaves it open."""
    mech, law = DiscreteGaussian(sigma), law_of(sigma)
    thresholds = mech._law.thresholds()
    assert thresholds == [law.threshold(k, 64) for k in range(1, len(thresholds) + 1)]
    assert law.threshold(len(thresholds) + 1, 64) == 0
    rng = random.Random(str(sigma))
    chosen = sorted({*rng.sample(range(len(thresholds)), min(60, len(thresholds))), *range(min(8, len(thresholds)))})
    cells = {thresholds[k] + beside for k in [*chosen, *([-1] if thresholds else [])] for beside in (-2, -1, 0, 1, 2)}
    cells |= {0, 1, 2, 2**64 - 1, 2**63, *(rng.getrandbits(64) >> rng.randrange(64) for _ in range(40))}
    cells = sorted(cell for cell in cells if 0 <= cell < 2**64)
    truth = [law.magnitude(cell, 64) for cell in cells]
    assert [cell for cell, k in zip(cells, truth, strict=True) if k is None] == sorted({0, *thresholds} & {*cells})
    for isa in ISAS:
        assert mech._careful_plan.tier(_native.DOUBLE, 64, cells, isa=isa) == truth
    assert [mech._law.magnitude(cell, 64) for cell in cells] == truth


@pytest.mark.parametrize("defect", ["a threshold one up", "a threshold one down", "a threshold left out"])
def test_a_defective_threshold_is_caught(defect: str) -> None:
    """Digits beside thresholds find a plan of which one is wrong by the least there is."""
    mech, law = DiscreteGaussian(10), law_of(Fraction(10))
    thresholds = mech._law.thresholds()
    wrong = [*thresholds]
    wrong[7:8] = {
        "a threshold one up": [wrong[7] + 1],
        "a threshold one down": [wrong[7] - 1],
        "a threshold left out": [],
    }[defect]
    plan = _native.Plan("discrete_gaussian", width=16, bulk=_native.DOUBLE, careful=_native.DOUBLE, **search(wrong))
    cells = [t + beside for t in thresholds for beside in (-1, 0, 1)]
    assert plan.tier(_native.DOUBLE, 64, cells) != [law.magnitude(cell, 64) for cell in cells]


# ------------------------------------------------------------------ the stream


STARTS = [0, 64, 1000, 2**40 + 37, 2**63 - 700]


@pytest.mark.parametrize("sigma", [*INVERTED, *REJECTED], ids=str)
def test_the_stream_maps_to_the_exact_law(sigma: Fraction, secret: Callable[[str], bytes]) -> None:
    """Draws as C makes them, by either path, are those of the exact tier from the same digits, wherever a call begins and ends."""
    mech, key, rng = DiscreteGaussian(sigma), _native.StreamKey(secret("stream")), random.Random(str(sigma))
    read = mech._reader(key, mech._careful_plan.width)
    for start in STARTS:
        n = rng.choice([1, 65, 200, 700])
        truth = [mech._law.draw(read, i) for i in range(start, start + n)]
        for isa in ISAS:
            for careful, plan in ((False, mech._bulk_plan), (True, mech._careful_plan)):
                found = plan.fill(key, start, n, careful=careful, isa=isa)
                assert all(k is None or k == right for k, right in zip(found, truth, strict=True))
                assert found.count(None) <= 1


# ------------------------------------------------------------------ acceptance


@pytest.mark.parametrize("sigma", REJECTED, ids=str)
def test_the_bounds_of_a_rejection(sigma: Fraction) -> None:
    """k^2/(24 sigma^4) (1 - 2^-17 - itself) <= P(reject k) <= k^2/(24 sigma^4), and `surely` is below 1 - P for every proposal."""
    law, mech = law_of(sigma), DiscreteGaussian(sigma)
    for k in sorted({1, 2, 3, 100, *(int(sigma * x) for x in (0.1, 0.5, 1, 2, 3, 5, 8, 9.5))}):
        most = Fraction(k**2) / (24 * sigma**4)
        with mpmath.workprec(800):
            found, top = law.rejects(k), mpmath.mpf(most.numerator) / most.denominator
            assert top * (1 - mpmath.ldexp(1, -17) - top) <= found <= top
            assert mech._law.accepts(k, 0, 1) is True
    plan = mech._bulk_plan._plan
    furthest = Fraction(942, 100) * sigma + 1  # R < 9.4194 for U >= 2^-64
    assert plan.surely < 2**16
    assert 1 - Fraction(plan.surely, 2**16) >= furthest**2 / (24 * sigma**4)
    assert plan.rejects == pytest.approx(1 / (24 * float(sigma) ** 4), rel=1e-14)
    # candidates: what is left after them is below 2^-30
    assert (1 / (24 * sigma**2)) ** plan.candidates < Fraction(1, 2**30)


def recorded(
    mech: DiscreteGaussian, plan: _native.Plan, key: bytes, start: int, n: int, careful: bool
) -> tuple[np.ndarray, list[int]]:
    """The draws that C decides, zeros elsewhere, and the numbers of the others."""
    zeros, left = np.zeros(n, np.int64), []

    def decide(i: int) -> int:
        left.append(i)
        return 0

    job = Job(zeros, zeros, *clamps(INT64, None, None))
    run(job, Draws(plan.address, False, True, _native.StreamKey(key), start, careful, decide), 1)
    return zeros, left


def rejection_plan(sigma: Fraction, **changed: float) -> _native.Plan:
    """As DiscreteGaussian makes it, for any sigma."""
    squared = float(sigma) ** 2
    usual = {
        "rejects": 1 / (24 * squared**2),
        "surely": max(0, math.floor(2**16 * (1 - 3.85 / squared))),
        "candidates": 2,
    }
    return _native.Plan("discrete_gaussian", **normal_constants(sigma**2, short=sigma <= 2**20) | usual | changed)


def test_rejected_proposals() -> None:
    """At sigma = 129 one proposal in 400,000 is rejected: bulk leaves it to the exact tier, a constant-work call goes on to candidate 1, and both are right."""
    mech, seen = DiscreteGaussian(129), 0
    read = mech._reader(_native.StreamKey(KEY), 32)
    for start in range(0, 2**22, 2**20):
        draws, left = recorded(mech, mech._bulk_plan, KEY, start, 2**20, careful=False)
        assert len(left) < 20
        for i in left:
            candidate = mech._law.proposal.draw(read, i, Fraction(0))
            right = mech._law.draw(read, i)
            rejected = mech._law._accepted(read, i, candidate, 0) is False
            seen += rejected
            for isa in ISAS:
                found = mech._careful_plan.fill(_native.StreamKey(KEY), i, 1, careful=True, isa=isa)
                assert found == [right]
            if rejected:
                draws, _ = recorded(mech, mech._careful_plan, KEY, i - i % 1024, 1024, careful=True)
                assert draws[i % 1024] == right
    assert seen >= 4  # 10.5 expected


def test_words_that_do_not_accept_at_once() -> None:
    """At sigma = 129 a 16-bit word from `surely` on looks further: found by search, their draws are the exact law's."""
    mech, key = DiscreteGaussian(129), _native.StreamKey(KEY)
    read, surely = mech._reader(key, 32), mech._bulk_plan._plan.surely
    found = [i for i in range(60_000) if read(i, 0, exact.ACCEPT).prefix >= surely][:12]
    assert len(found) == 12
    for i in found:
        right = mech._law.draw(read, i)
        for isa in ISAS:
            for careful in (False, True):
                assert mech._bulk_plan.fill(key, i, 1, careful=careful, isa=isa) == [right]


@pytest.mark.parametrize("sigma", [Fraction(129), Fraction(10**6)], ids=str)
def test_no_draw_accepted_at_once_is_the_same_draw(sigma: Fraction) -> None:
    """`surely` = 0 sends every acceptance through its second word; rejects enlarged leaves many to Python. No draw changes."""
    mech, n = DiscreteGaussian(sigma), 3000
    expected, left = recorded(mech, mech._bulk_plan, KEY, 500, n, careful=False)
    assert left == []
    plan = rejection_plan(sigma, surely=0)
    for isa in ISAS:
        assert plan.fill(_native.StreamKey(KEY), 500, n, careful=False, isa=isa) == expected.tolist()
    usual = 1 / (24 * float(sigma) ** 4)
    for careful in (False, True):
        wide = rejection_plan(sigma, surely=0, rejects=usual * 2.0**10 * float(sigma) ** 2 / 129, candidates=1)
        draws, left = recorded(mech, wide, KEY, 500, n, careful=careful)
        assert len(left) > 20
        kept = np.setdiff1d(np.arange(n), np.array(left) - 500)
        assert np.array_equal(draws[kept], expected[kept])


@cache
def at_four() -> tuple[list[int], list[int], list[bool | None]]:
    """By rejection at sigma = 4: 8,192 draws of the exact tier, their first proposals, and whether these are accepted."""
    law, read = exact.DiscreteGaussian(Fraction(16)), Gaussian(4, granularity=1)._reader(_native.StreamKey(KEY), 32)
    law.inversion = False
    proposals = [law.proposal.draw(read, i, Fraction(0)) for i in range(2**13)]
    first = [law._accepted(read, i, k, 0) for i, k in enumerate(proposals)]
    return (
        [k if yes else law.draw(read, i) for i, (k, yes) in enumerate(zip(proposals, first, strict=True))],
        proposals,
        first,
    )


@pytest.mark.parametrize("sigma", [Fraction(10), Fraction(129), Fraction(10**9)], ids=str)
def test_the_host_mode_changes_no_draw(sigma: Fraction, host: ctypes.CDLL) -> None:
    """A rounding mode and a flush that the host left on are put aside, and thresholds know none."""
    mech, key = DiscreteGaussian(sigma), _native.StreamKey(KEY)
    thresholds = (
        [t + beside for t in mech._law.thresholds()[:50] for beside in (-1, 0, 1)] if mech._law.inversion else []
    )
    for careful, plan in ((False, mech._bulk_plan), (True, mech._careful_plan)):
        expected, found = plan.fill(key, 9, 700, careful=careful), plan.tier(_native.DOUBLE, 64, thresholds)
        for mode in MODES:
            with entered(host, mode, flush=True):
                assert plan.fill(key, 9, 700, careful=careful) == expected
                assert plan.tier(_native.DOUBLE, 64, thresholds) == found


def test_acceptance_where_it_counts() -> None:
    """Where one proposal in 400 is rejected: what C accepts is what the exact tier accepts, and nearly all that it does."""
    truth, proposals, first = at_four()
    assert 8 < first.count(False) < 50
    assert proposals != truth
    for isa in ISAS:
        for careful in (False, True):
            plan = rejection_plan(Fraction(4), candidates=1, surely=0)
            found = plan.fill(_native.StreamKey(KEY), 0, len(truth), careful=careful, isa=isa)
            assert all(k is None or k == right for k, right in zip(found, truth, strict=True))
            left = [i for i, k in enumerate(found) if k is None]
            assert {i for i, yes in enumerate(first) if not yes} <= set(left)
            assert len(left) < first.count(False) + 20


@pytest.mark.parametrize(
    ("careful", "change"),
    [
        (False, {"surely": 2**16}),  # every proposal accepted
        (False, {"rejects": 0.25 / (24 * 4.0**4), "surely": 0}),  # a quarter of the rejections
        (True, {"rejects": 4 / (24 * 4.0**4), "surely": 0}),  # four times as many, and candidate 1 in their place
    ],
    ids=["none rejected", "too few rejected", "too many rejected"],
)
def test_defective_acceptance_is_caught(careful: bool, change: dict[str, float]) -> None:
    """The same draws find a plan that accepts too much, or rejects too much."""
    truth = at_four()[0]
    found = rejection_plan(Fraction(4), **change).fill(_native.StreamKey(KEY), 0, len(truth), careful=careful)
    assert any(k is not None and k != right for k, right in zip(found, truth, strict=True))


# ------------------------------------------------------------------ the law


def noise(mech: DiscreteGaussian, n: int, key: bytes) -> np.ndarray:
    """n draws of the stream under one key, by the fused kernel, as a release of zeros sees them."""
    zeros = np.zeros(n, np.int64)
    careful, plan = mech._plan(n, constant_time=False)
    mech._run(Job(zeros, zeros, *clamps(INT64, None, None)), careful, plan, _native.StreamKey(key), 0, 1)
    return zeros


# 1 % of sigma moves the variance by 2 %, which is 14 standard errors of 2^20 draws.
LAW_SIGMAS = [Fraction(1, 2), Fraction(10), Fraction(100), Fraction(129), Fraction(1000), Fraction(10**6)]
N = 2**20


def judged(sigma: Fraction, draws: np.ndarray) -> list[str]:
    law = law_of(sigma)
    return gof.suspicions(draws, cache(law.cdf), law.quantile, law.variance(), law.fourth_moment())


@pytest.mark.parametrize("sigma", LAW_SIGMAS, ids=str)
def test_exact_law(sigma: Fraction, secret: Callable[[str], bytes]) -> None:
    """2^20 draws show nothing at a false-alarm rate of 1e-6."""
    assert judged(sigma, noise(DiscreteGaussian(sigma), N, secret(f"discrete gaussian {sigma}"))) == []


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(129)], ids=str)
def test_exact_law_of_small_calls(sigma: Fraction) -> None:
    """The same of 300 calls of 3,500 counts, each under the system's own key, and of sample."""
    mech = DiscreteGaussian(sigma)
    assert judged(sigma, np.concatenate([mech.release(np.zeros(3500, np.int64)) for _ in range(300)])) == []
    assert judged(sigma, mech.sample((1000, 1000)).ravel()) == []


DEFECTS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "doubled zero": lambda x, rng: np.where((np.abs(x) == 1) & (rng.random(x.size) < 0.2), 0, x),
    "biased sign": lambda x, rng: np.where((x < 0) & (rng.random(x.size) < 0.02), -x, x),
    "truncated tail": lambda x, rng: x[np.abs(x) <= np.quantile(np.abs(x), 0.9993)],
    "shifted by one": lambda x, rng: np.where(rng.random(x.size) < 0.1, x + 1, x),
    "one-sided": lambda x, rng: np.abs(x),
}


@pytest.mark.parametrize("name", DEFECTS)
@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(10)], ids=str)
def test_planted_defects_are_rejected(name: str, sigma: Fraction, secret: Callable[[str], bytes]) -> None:
    """The same judge rejects draws that were tampered with."""
    draws = DEFECTS[name](noise(DiscreteGaussian(sigma), N, secret("defect")), np.random.default_rng(1))
    assert judged(sigma, draws) != []


@pytest.mark.parametrize("sigma", LAW_SIGMAS, ids=str)
@pytest.mark.parametrize("factor", [Fraction(101, 100), Fraction(99, 100)])
def test_a_sigma_one_percent_off_is_rejected(sigma: Fraction, factor: Fraction, secret: Callable[[str], bytes]) -> None:
    """The judge holds the draws of another sigma to be of another law."""
    assert judged(sigma, noise(DiscreteGaussian(sigma * factor), N, secret("scale"))) != []


@pytest.mark.parametrize("sigma", [Fraction(10), Fraction(100)], ids=str)
def test_a_fresh_start_for_open_draws_is_rejected(sigma: Fraction, secret: Callable[[str], bytes]) -> None:
    """A sampler that leaves 0, or a fresh table entry, where the table is undecided has another law; 2^22 draws show it."""
    mech, n, rng = DiscreteGaussian(sigma), 2**22, np.random.default_rng(7)
    entries = mech._bulk_plan.tier(_native.TABLE, 16, range(2**16), isa=0)
    open_ = np.array([k is None for k in entries])
    table = np.array([0 if k is None else k for k in entries])
    decided = table[~open_]
    found = table[words := rng.integers(0, 2**16, n)]
    found[open_[words]] = decided[rng.integers(0, decided.size, int(open_[words].sum()))]
    assert judged(sigma, noise(mech, n, secret("fresh"))) == []
    assert judged(sigma, found) != []


# ------------------------------------------------------------------ what it promises


@pytest.mark.parametrize(
    ("sigma", "epsilon", "true", "scalar"),
    [(1, 8, 3.42e-4, 1.17e-4), (1, 4, 0.0753, 0.0512), (Fraction(1, 2), 8, 0.262, 0.107)],
)
def test_vectors_are_no_scalars(sigma: Fraction, epsilon: int, true: float, scalar: float) -> None:
    """The figures of docs/design.md: four cells by one cost more than one cell by two, of the same norm; a norm alone goes through zCDP."""
    mech = DiscreteGaussian(sigma)
    assert mech.delta(epsilon, Sensitivity(4, 1)) == pytest.approx(true, rel=5e-3)
    assert mech.delta(epsilon, Sensitivity(1, 2)) == pytest.approx(scalar, rel=5e-3)
    assert mech.delta(epsilon, Sensitivity.from_l2(4)) >= mech.delta(epsilon, Sensitivity(4, 1))
    assert DiscreteGaussian(sigma, sensitivity=Sensitivity(4, 1)).delta(epsilon) == mech.delta(
        epsilon, Sensitivity(4, 1)
    )


def test_from_zcdp_and_calibrated() -> None:
    """rho is exact; a calibrated delta is reached and 0.1 % less sigma misses it."""
    mech = DiscreteGaussian.from_zcdp(Fraction(1, 8), Sensitivity.from_l2(Fraction(9, 2)))
    assert (mech.sigma_squared, mech.rho(), mech.calibrated_for.rho) == (18, Fraction(1, 8), Fraction(1, 8))
    for epsilon, delta, sensitivity in (
        (1, 1e-6, Sensitivity(3, 2)),
        (Fraction(1, 10), 1e-9, Sensitivity.from_l2(7)),
        (8, 1e-3, Sensitivity(1, 1, adjacency="substitution")),
    ):
        found = DiscreteGaussian.calibrated(epsilon, sensitivity, delta=delta)
        assert found.delta(epsilon) <= delta
        assert DiscreteGaussian(found.sigma * 0.999).delta(epsilon, sensitivity) > delta
        assert (found.calibrated_for.epsilon, found.calibrated_for.delta, found.sensitivity) == (
            epsilon,
            Fraction(delta),
            sensitivity,
        )
        assert found.rho() == sensitivity.l2_squared / (2 * found.sigma_squared)


def test_sensitivity_rules() -> None:
    """A bare number is refused, and both ways are named; none at all where one is needed too."""
    for call in (
        lambda: DiscreteGaussian(1, sensitivity=2),
        lambda: DiscreteGaussian.from_zcdp(1, 2),
        lambda: DiscreteGaussian.calibrated(1, 2.0, delta=1e-6),
        lambda: DiscreteGaussian(1).delta(1, 3),
        lambda: DiscreteGaussian(1).rho(Fraction(3)),
    ):
        with pytest.raises(DTypeError, match=r"Sensitivity\(l0, linf\), or Sensitivity\.l2\(squared\)"):
            call()
    for call in (lambda: DiscreteGaussian(1).delta(1), lambda: DiscreteGaussian(1).rho()):
        with pytest.raises(ParameterError, match="sensitivity must be given"):
            call()
    mech = DiscreteGaussian(2, sensitivity=Sensitivity(2, 1, adjacency="substitution", unit="household"))
    assert (mech.adjacency, mech.unit, mech.rho()) == ("substitution", "household", Fraction(1, 2))
    assert mech.rho(Sensitivity.from_l2(1)) == Fraction(1, 8)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: DiscreteGaussian(), ParameterError, "sigma"),
        (lambda: DiscreteGaussian(1, sigma_squared=1), ParameterError, "sigma"),
        (lambda: DiscreteGaussian(0), ParameterError, "sigma must be positive"),
        (lambda: DiscreteGaussian(-1), ParameterError, "sigma must be positive"),
        (lambda: DiscreteGaussian(math.nan), ParameterError, "sigma must be finite"),
        (lambda: DiscreteGaussian(Fraction(999, 10**6)), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian(10**9 + 1), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian(sigma_squared=10**19), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian("1"), DTypeError, "sigma"),
        (lambda: DiscreteGaussian(True), DTypeError, "sigma"),
        (lambda: DiscreteGaussian.from_zcdp(0, Sensitivity(1, 1)), ParameterError, "rho must be positive"),
        (lambda: DiscreteGaussian.from_zcdp(-1, Sensitivity(1, 1)), ParameterError, "rho must be positive"),
        (lambda: DiscreteGaussian.from_zcdp(1e-30, Sensitivity(1, 1)), ParameterError, "between 1e-3 and 1e9"),
        (
            lambda: DiscreteGaussian.calibrated(0, Sensitivity(1, 1), delta=0.1),
            ParameterError,
            "epsilon must be positive",
        ),
        (lambda: DiscreteGaussian.calibrated(1, Sensitivity(1, 1), delta=0), ParameterError, "delta must be positive"),
        (
            lambda: DiscreteGaussian.calibrated(1, Sensitivity(1, 1), delta=1),
            ParameterError,
            "delta must lie strictly between",
        ),
        (lambda: DiscreteGaussian.calibrated(1e-12, Sensitivity(1, 1), delta=1e-20), ParameterError, "no sigma up to"),
        (
            lambda: DiscreteGaussian(1).delta(1, Sensitivity(1, Fraction(1, 2))),
            ParameterError,
            "linf must be at least 1",
        ),
        (lambda: DiscreteGaussian(1).release([1.5]), DTypeError, "Laplace and Gaussian"),
        (lambda: DiscreteGaussian(1).pmf(0.5), DTypeError, "k must be an integer"),
        (lambda: DiscreteGaussian(1).quantile(0), ParameterError, "p must"),
        (lambda: DiscreteGaussian(1).sample(-1), ParameterError, "size"),
    ],
)
def test_refusals(call: Callable[[], object], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        call()


def test_parameters_are_taken_exactly() -> None:
    """A Decimal, a double and a fraction are what they are; sigma_squared need not be a square."""
    assert DiscreteGaussian(Decimal("0.1")).sigma_squared == Fraction(1, 100)
    assert DiscreteGaussian(0.1).sigma_squared == Fraction(0.1) ** 2
    assert DiscreteGaussian(sigma_squared=2).sigma_squared == 2
    assert DiscreteGaussian(sigma_squared=2).sigma == pytest.approx(math.sqrt(2))
    assert DiscreteGaussian(Fraction(1, 1000)).release(np.arange(5000)).tolist() == list(range(5000))
    assert DiscreteGaussian(10**9).release(np.zeros(5000, np.int64)).any()


def test_records() -> None:
    """A frozen value that pickles with its sensitivity and target; metadata that JSON holds; a repr that says what it is."""
    norm = Sensitivity(2, 3, adjacency="substitution", unit="household")
    for mech in (DiscreteGaussian.calibrated(Fraction(1, 2), norm, delta=1e-6), DiscreteGaussian.from_zcdp(1, norm), DiscreteGaussian(Fraction(1, 3))):  # fmt: skip
        mech.release(np.zeros(5000, np.int64))
        again = pickle.loads(pickle.dumps(mech))
        assert again == mech
        assert hash(again) == hash(mech)
        assert (again.calibrated_for, again.sensitivity) == (mech.calibrated_for, mech.sensitivity)
        record = json.loads(json.dumps(mech.metadata()))
        assert record == json.loads(json.dumps(again.metadata()))
        assert Fraction(record["sigma_squared"]) == mech.sigma_squared
        assert (record["secure"], record["mechanism"]) == (True, "discrete_gaussian")
        assert repr(again) == repr(mech)
        assert "<table>" in mech._repr_html_()
        if mech.sensitivity:
            assert (record["l0"], record["linf"], record["unit"]) == (4, "3", "household")
            assert Fraction(record["rho_spent"]) == mech.rho()
    assert "rho=1/3" in repr(DiscreteGaussian.from_zcdp(Fraction(1, 3), norm))


def test_constant_time_and_bulk_agree() -> None:
    """The same digits, the same draws, at a size that starts at the table and at one that does not."""
    for sigma in (1, 129, 10**6):
        mech = DiscreteGaussian(sigma)
        key = _native.StreamKey(KEY)
        assert mech._bulk_plan.fill(key, 3, 9000, careful=False)[:5000] == mech._careful_plan.fill(
            key, 3, 5000, careful=True
        )
        assert mech.release(np.zeros(5000, np.int64), constant_time=True).shape == (5000,)


@pytest.mark.parametrize("sigma", [Fraction(1, 10), Fraction(1), Fraction(10), Fraction(129), Fraction(1000)], ids=str)
def test_figures(sigma: Fraction) -> None:
    """variance, pmf, cdf, quantile and interval against sums."""
    mech, law = DiscreteGaussian(sigma), law_of(sigma)
    assert mech.variance == pytest.approx(law.variance(), rel=1e-12)
    assert mech.stddev == pytest.approx(math.sqrt(law.variance()), rel=1e-12)
    assert mech.scale == pytest.approx(float(sigma))
    ks = sorted({0, 1, -1, 2, *(int(float(sigma) * x) for x in (-8, -3, -1, 0.5, 2, 5, 8))})
    assert mech.pmf(np.array(ks)) == pytest.approx([law.pmf(k) for k in ks], rel=1e-12)
    assert mech.cdf(np.array(ks)) == pytest.approx([law.cdf(k) for k in ks], rel=1e-12)
    assert mech.pmf(3) == pytest.approx(law.pmf(3), rel=1e-12)
    for p in (0.001, 0.3, 0.5, 0.9):
        k = mech.quantile(p)
        assert law.cdf(k) >= p > law.cdf(k - 1)
    for confidence, cells in ((0.95, 1), (0.5, 1), (0.99, 10**6)):
        h = mech.interval(confidence, cells=cells)
        assert (2 * law.cdf(h) - 1) ** cells >= confidence
        assert h == 0 or (2 * law.cdf(h - 1) - 1) ** cells < confidence


def test_small_world_of_the_digits() -> None:
    """All 2^15 prefixes of U enumerated: each magnitude's probability lies between its decided cells and these with its open ones."""
    for sigma in (Fraction(1, 3), Fraction(1), Fraction(100)):
        law = law_of(sigma)
        table = DiscreteGaussian(sigma)._bulk_plan.tier(_native.TABLE, 16, range(2**15), isa=0)
        counts = np.bincount([k for k in table if k is not None])
        for k, count in enumerate(counts):
            probability = law.pmf(k) * (2 if k else 1) * 2**15
            assert count <= probability * (1 + 1e-12)
            assert probability <= count + 2 or k == counts.size - 1


VECTORS = Path(__file__).parent / "vectors" / "discrete_gaussian.json"


@pytest.mark.parametrize(
    "vector", json.loads(VECTORS.read_text()) if VECTORS.exists() else [], ids=lambda v: v["sigma"]
)
def test_golden_outputs(vector: dict[str, str]) -> None:
    """Stream version 1, pinned: the first draws by the exact tier, and a digest of 20,000."""
    assert _native.STREAM_VERSION == 1
    mech, key = DiscreteGaussian(Fraction(vector["sigma"])), _native.StreamKey(bytes.fromhex(vector["key"]))
    for isa in ISAS:
        draws = mech._bulk_plan.fill(key, int(vector["start"]), 20_000, careful=False, isa=isa)
        assert draws[:32] == vector["draws"]
        assert hashlib.sha256(repr(draws).encode()).hexdigest() == vector["sha256"]
