# SPDX-License-Identifier: Apache-2.0
"""The discrete Gaussian, beside test_laws.py: search among thresholds, accepted proposals."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import plans
import pytest
import tiers
from laws import BY_NAME, reference_of
from proofs import CSRC, MODES, entered

from dpfast import DiscreteGaussian, Gaussian, Sensitivity
from dpfast.errors import DTypeError, ParameterError
from dpfast.evidence.selftest import reference
from dpfast.noise.release.digits import ACCEPT
from dpfast.privacy.exact import Digits

KEY = bytes(range(32))
SIGMAS = BY_NAME["discrete_gaussian"].scales
INVERTED, REJECTED = [s for s in SIGMAS if s <= 128], [s for s in SIGMAS if s > 128]


# ------------------------------------------------------------------ inversion


@pytest.mark.parametrize("sigma", INVERTED, ids=str)
def test_thresholds_and_search(sigma: Fraction, host: ctypes.CDLL) -> None:
    """Thresholds equal another enclosure's; there the search is the law's, in any host's mode."""
    mech, law = DiscreteGaussian(sigma), reference_of("discrete_gaussian", sigma)
    thresholds = tiers.constant_work_plan(mech).thresholds()
    assert thresholds == [law.threshold(k, 64) for k in range(1, len(thresholds) + 1)]
    assert law.threshold(len(thresholds) + 1, 64) == 0
    rng = random.Random(str(sigma))
    chosen = sorted({*rng.sample(range(len(thresholds)), min(60, len(thresholds))), *range(min(8, len(thresholds)))})
    cells = {thresholds[k] + beside for k in [*chosen, *([-1] if thresholds else [])] for beside in (-2, -1, 0, 1, 2)}
    cells |= {0, 1, 2, 2**64 - 1, 2**63, *(rng.getrandbits(64) >> rng.randrange(64) for _ in range(40))}
    cells = sorted(cell for cell in cells if 0 <= cell < 2**64)
    truth = [law.magnitude(cell, 64) for cell in cells]
    assert [cell for cell, k in zip(cells, truth, strict=True) if k is None] == sorted({0, *thresholds} & {*cells})
    plans = tiers.bulk_plan(mech), tiers.constant_work_plan(mech)
    for isa in tiers.ISAS:
        for mode in MODES:
            with entered(host, mode, flush=mode != "ne"):
                found = [plan.tier(tiers.DOUBLE, 64, cells, isa=isa) for plan in plans]
            assert found == [truth, truth]
    assert [tiers.law(mech).magnitude(cell, 64) for cell in cells] == truth


@pytest.mark.parametrize(
    "defect", [lambda t: [t + 1], lambda t: [t - 1], lambda t: []], ids=["one up", "one down", "left out"]
)
def test_a_defective_threshold_is_caught(defect: Callable[[int], list[int]]) -> None:
    """Digits beside thresholds find a plan of which one is wrong by the least there is."""
    mech, law = DiscreteGaussian(10), reference_of("discrete_gaussian", Fraction(10))
    thresholds = tiers.law(mech).thresholds()
    wrong = [*thresholds]
    wrong[7:8] = defect(wrong[7])
    plan = tiers.Plan(
        "discrete_gaussian", width=16, bulk=tiers.DOUBLE, constant_work=tiers.DOUBLE, **plans.search(wrong)
    )
    cells = [t + beside for t in thresholds for beside in (-1, 0, 1)]
    assert plan.tier(tiers.DOUBLE, 64, cells) != [law.magnitude(cell, 64) for cell in cells]


# ------------------------------------------------------------------ proposals by floats

FLOATS = Fraction(129), Fraction(1000), Fraction(2**12)
U = 2.0**-23


def test_the_proof_of_floats_speaks_of_the_plan() -> None:
    """gaussian_float.gappa's constants are the plan's; the rest cover section 3's sums."""
    script = (CSRC / "proofs" / "gaussian_float.gappa").read_text()
    assert "float_error = 0x3.6p-23;\nfloat_margin = 0.5 - 0x4p-23;" in script
    for sigma in FLOATS:
        plan, t = tiers.constants(DiscreteGaussian(sigma)), float(sigma)
        assert plan["bulk"] == tiers.FLOAT
        assert (plan["float_error"], plan["float_margin"]) == (3.375 * U, 0.5 - 4 * U)
        assert plan["float_log_error"] >= 1.02 * 2.16 * U * t**2 * (1 + 2.0**-20)
        assert plan["half_cell"] >= 1.02 * t**2 * (1 + 2.0**-20)
    assert tiers.constants(DiscreteGaussian(2**12 + 1))["bulk"] == tiers.DOUBLE
    assert tiers.constants(Gaussian(1000, granularity=1))["bulk"] == tiers.DOUBLE  # it has an offset
    # Up to the last digits that floats decide D' + 1/a is a small part of E: 1.02 covers the root.
    for a in (1, 2, 3, 2**30, 0x7FFFE000 - 1):
        error, e = 2.16 * U, -math.log1p((a - 2**31) / 2**31)
        part = (error + 1 / a) / (e - error)
        assert 2 / (1 + math.sqrt(1 - part)) <= 1.02


@cache
def beside_boundaries(sigma: Fraction) -> tuple[np.ndarray, list[int | None]]:
    """Words of level 0 whose draw lies near a boundary, or at an end, and what they decide."""
    rng, t, words = random.Random(str(sigma)), float(sigma), []
    for _ in range(100):
        v = rng.choice([rng.random(), 2.0 ** -rng.uniform(0, 25), 1 - 2.0 ** -rng.uniform(1, 25)])
        angle = rng.randrange(8) << 29 | int(v * 2**29)
        sine = rng.random() < 0.5
        turn = (angle % 2**29 + 0.5) * 2.0**-29 * math.pi / 4
        side = math.sin(turn) if sine == (angle >> 29 & 1 == 0) else math.cos(turn)
        k = math.ceil(rng.choice([6, 1, 0.1, 0.01]) * rng.random() * t * side)
        r = max(k - 0.5, 0.5) / (t * side)
        if r > 6.5:
            continue
        error = U * (3.4 * t * r + 2.2 * t / r) * r / (t * side)  # in -ln U
        near = (math.exp(-r * r / 2 - rng.choice((-1, 1)) * error * 2 ** rng.uniform(-3, 3)) for _ in range(8))
        words += [(min(int(2**32 * u), 2**32 - 1), angle, sine) for u in near]
    ends = 0, 1, 2, 3, 2**32 - 1, *(2**32 - 2**e + move for e in (1, 4, 9, 13, 14, 16) for move in (-2, 0, 1))
    words += [(u, f << 29 | v, f % 3 == 0) for u in ends for f, v in enumerate((0, 1, 2**29 - 1, rng.getrandbits(29)))]
    planted = np.zeros(len(words), tiers.PLANTED)
    planted["digits"][:, 0], planted["digits"][:, 2] = ([word[i] for word in words] for i in (0, 1))
    planted["sine"] = [word[2] for word in words]
    proposal = tiers.law(DiscreteGaussian(sigma)).proposal
    truth = [proposal.rounded(Digits(u, 32), Digits(angle, 32), sine, Fraction(0)) for u, angle, sine in words]
    return planted, truth


def by_floats(plan: tiers.Plan, sigma: Fraction, isa: int) -> tuple[int, int]:
    """How many of these draws the float tier decides, and how many of them wrongly."""
    planted, truth = beside_boundaries(sigma)
    found, decided = tiers.tier(plan, tiers.FLOAT, 32, planted, isa)
    draws = found[:, 0].astype(np.int64)
    wrong = sum(draw != right for draw, right, sure in zip(draws.tolist(), truth, decided, strict=True) if sure)
    return int(decided.sum()), wrong


@pytest.mark.parametrize("sigma", FLOATS, ids=str)
def test_what_floats_decide_is_right(sigma: Fraction, host: ctypes.CDLL) -> None:
    """Beside boundaries and at the ends of both words, in any mode: decided draws are the law's."""
    for isa in tiers.ISAS:
        for mode in MODES:
            for flush in (False, True):
                with entered(host, mode, flush):
                    decided, wrong = by_floats(tiers.bulk_plan(DiscreteGaussian(sigma)), sigma, isa)
                assert wrong == 0
                assert decided > 100


@pytest.mark.parametrize(
    "change",
    [{"float_error": 0.0}, {"float_log_error": 0.0}, {"float_margin": 0.5, "float_error": 0.0}],
    ids=["no error of the radius", "no error of the logarithm", "no error of both"],
)
def test_floats_with_smaller_errors_are_caught(change: dict[str, float], host: ctypes.CDLL) -> None:
    """The same draws find a plan that allows for less, in some mode."""
    if tiers.ISAS == (0,):
        pytest.skip("this machine's build has no fma, and decides in doubles")
    wrong = 0
    for sigma in FLOATS:
        plan = tiers.Plan("discrete_gaussian", **tiers.constants(DiscreteGaussian(sigma)) | change)
        for mode in MODES:
            with entered(host, mode, flush=False):
                wrong += by_floats(plan, sigma, tiers.ISAS[-1])[1]
    assert wrong > 0


@pytest.mark.parametrize("sigma", FLOATS, ids=str)
def test_floats_leave_few_draws_undecided_and_change_none(sigma: Fraction) -> None:
    """Draws by floats, by doubles alone, and by the last tiers alone are the same."""
    mech, key, n = DiscreteGaussian(sigma), tiers.StreamKey(KEY), 20_000
    right = tiers.bulk_plan(mech).fill(key, 99, n, constant_work=True)
    usual = tiers.constants(mech)
    for change in ({}, {"bulk": tiers.DOUBLE}, {"float_error": 2.0**-12}):
        plan = tiers.Plan("discrete_gaussian", **usual | change)
        for isa in tiers.ISAS:
            assert plan.fill(key, 99, n, constant_work=False, isa=isa) == right


# ------------------------------------------------------------------ acceptance


@pytest.mark.parametrize("sigma", REJECTED, ids=str)
def test_the_bounds_of_a_rejection(sigma: Fraction) -> None:
    """p (1 - 2^-17 - p) <= P(reject k) <= p = k^2/(24 sigma^4); `accept_below` < 1 - P."""
    law, mech = reference_of("discrete_gaussian", sigma), DiscreteGaussian(sigma)
    for k in sorted({1, 2, 3, 100, *(int(sigma * x) for x in (0.1, 0.5, 1, 2, 3, 5, 8, 9.5))}):
        most = Fraction(k**2) / (24 * sigma**4)
        with mpmath.workprec(800):
            found, top = law.rejects(k), mpmath.mpf(most.numerator) / most.denominator
            assert top * (1 - mpmath.ldexp(1, -17) - top) <= found <= top
            assert tiers.law(mech).accepts(k, 0, 1) is True
    plan = tiers.bulk_plan(mech)
    furthest = Fraction(942, 100) * sigma + 1  # R < 9.4194 for U >= 2^-64
    assert tiers.accept_below(plan) < 2**16
    assert 1 - Fraction(tiers.accept_below(plan), 2**16) >= furthest**2 / (24 * sigma**4)
    assert tiers.rejects(plan) == pytest.approx(1 / (24 * float(sigma) ** 4), rel=1e-14)
    # candidates: what is left after them is below 2^-30
    assert (1 / (24 * sigma**2)) ** tiers.candidates(plan) < Fraction(1, 2**30)


def recorded(
    mech: DiscreteGaussian, plan: tiers.Plan, key: bytes, start: int, n: int, constant_work: bool
) -> np.ndarray:
    """What a release of n zeros draws by this plan."""
    zeros = np.zeros(n, np.int64)
    tiers.added(zeros, zeros, plan=plan, key=tiers.StreamKey(key), start=start, constant_work=constant_work)
    return zeros


def rejection_plan(sigma: Fraction, **changed: float) -> tiers.Plan:
    """As DiscreteGaussian makes it, for any sigma."""
    squared = float(sigma) ** 2
    usual = {
        "rejects": 1 / (24 * squared**2),
        "accept_below": max(0, math.floor(2**16 * (1 - 3.85 / squared))),
        "candidates": 2,
    }
    return tiers.Plan("discrete_gaussian", **plans.normal(sigma**2, short=sigma <= 2**20) | usual | changed)


@cache
def rejected_at_129() -> tuple[int, ...]:
    """Draws under KEY, some ten, whose first proposal is rejected."""
    mech = DiscreteGaussian(129)
    takes_all = tiers.Plan("discrete_gaussian", **tiers.constants(mech) | {"accept_below": 2**16})
    found: list[int] = []
    for start in range(0, 2**22, 2**20):
        draws = recorded(mech, tiers.bulk_plan(mech), KEY, start, 2**20, constant_work=False)
        first = recorded(mech, takes_all, KEY, start, 2**20, constant_work=False)
        found += (start + np.flatnonzero(draws != first)).tolist()
    return tuple(found)


def test_rejected_proposals() -> None:
    """At sigma = 129, 1 in 400,000 is rejected: C goes on to candidate 1, in every kind of call."""
    mech, found = DiscreteGaussian(129), rejected_at_129()
    read = tiers.reader(mech, tiers.StreamKey(KEY))
    assert 4 <= len(found) < 30  # 10.5 expected
    for i in found:
        proposed = tiers.law(mech).proposal.draw(read, i, Fraction(0))
        assert tiers.accepted(tiers.law(mech), read, i, proposed) is False
        right = tiers.law(mech).draw(read, i)
        for isa in tiers.ISAS:
            for constant_work in (False, True):
                plan = tiers.constant_work_plan(mech) if constant_work else tiers.bulk_plan(mech)
                assert plan.fill(tiers.StreamKey(KEY), i, 1, constant_work=constant_work, isa=isa) == [right]
        draws = recorded(mech, tiers.constant_work_plan(mech), KEY, i - i % 1024, 1024, constant_work=True)
        assert draws[i % 1024] == right


def test_rejected_proposals_of_the_exact_tier() -> None:
    """Where no other tier decides anything, the exact one goes on to candidate 1, too."""
    mech = DiscreteGaussian(129)
    read, constants = tiers.reader(mech, tiers.StreamKey(KEY)), tiers.constants(mech)
    never = {name: -1.0 for name in constants if "margin" in name}
    plan = tiers.Plan("discrete_gaussian", **constants | never)
    for i in (*rejected_at_129(), *range(12)):
        assert recorded(mech, plan, KEY, i, 1, constant_work=True).tolist() == [tiers.law(mech).draw(read, i)]


def test_words_that_do_not_accept_at_once() -> None:
    """At sigma = 129 a 16-bit word from `accept_below` on looks further: those draws are exact."""
    mech, key = DiscreteGaussian(129), tiers.StreamKey(KEY)
    read, accept_below = tiers.reader(mech, key), tiers.accept_below(tiers.bulk_plan(mech))
    found = [i for i in range(60_000) if read(i, 0, ACCEPT).prefix >= accept_below][:12]
    assert len(found) == 12
    for i in found:
        right = tiers.law(mech).draw(read, i)
        for isa in tiers.ISAS:
            for constant_work in (False, True):
                assert tiers.bulk_plan(mech).fill(key, i, 1, constant_work=constant_work, isa=isa) == [right]


@pytest.mark.parametrize("sigma", [Fraction(129), Fraction(10**6)], ids=str)
def test_no_draw_accepted_at_once_is_the_same_draw(sigma: Fraction) -> None:
    """`accept_below` = 0 uses each second word, and no draw changes."""
    mech, n = DiscreteGaussian(sigma), 3000
    expected = recorded(mech, tiers.bulk_plan(mech), KEY, 500, n, constant_work=False)
    plan = rejection_plan(sigma, accept_below=0)
    for isa in tiers.ISAS:
        assert plan.fill(tiers.StreamKey(KEY), 500, n, constant_work=False, isa=isa) == expected.tolist()


@cache
def at_four() -> tuple[list[int], list[int], list[bool | None]]:
    """At sigma = 4: 8,192 draws of the exact tier, their first proposals, which are accepted."""
    law = reference.DiscreteGaussian(Fraction(16))
    read = tiers.reader(Gaussian(4, granularity=1), tiers.StreamKey(KEY))
    law.inversion = False
    proposals = [law.proposal.draw(read, i, Fraction(0)) for i in range(2**13)]
    first = [tiers.accepted(law, read, i, k) for i, k in enumerate(proposals)]
    drawn = [k if yes else law.draw(read, i) for i, (k, yes) in enumerate(zip(proposals, first, strict=True))]
    return drawn, proposals, first


def test_acceptance_where_it_counts() -> None:
    """If one proposal in 400 is rejected, C draws as the exact tier, where it decides."""
    truth, proposals, first = at_four()
    assert 8 < first.count(False) < 50
    assert proposals != truth
    for isa in tiers.ISAS:
        for constant_work in (False, True):
            for candidates in (1, 2):
                plan = rejection_plan(Fraction(4), candidates=candidates, accept_below=0)
                found = plan.fill(tiers.StreamKey(KEY), 0, len(truth), constant_work=constant_work, isa=isa)
                assert all(k is None or k == right for k, right in zip(found, truth, strict=True))
                left = [i for i, k in enumerate(found) if k is None]
                assert len(left) < 20
                assert sum(not yes for i, yes in enumerate(first) if i not in left) > first.count(False) / 2


def test_many_proposals_are_rejected() -> None:
    """Where half of the proposals are rejected, C looks at many; both kinds of call agree."""
    plan = rejection_plan(Fraction(4), accept_below=0, rejects=1 / 24)  # k^2/24 of proposals k
    for isa in tiers.ISAS:
        bulk, small = (plan.fill(tiers.StreamKey(KEY), 0, 2**12, constant_work=work, isa=isa) for work in (False, True))
        known = [(a, b) for a, b in zip(bulk, small, strict=True) if a is not None and b is not None]
        assert len(known) > 2**11
        assert all(a == b and a**2 < 24 for a, b in known)


@pytest.mark.parametrize(
    ("constant_work", "change"),
    [
        (False, {"accept_below": 2**16}),  # every proposal accepted
        (False, {"rejects": 0.25 / (24 * 4.0**4), "accept_below": 0}),  # a quarter of the rejections
        (True, {"rejects": 4 / (24 * 4.0**4), "accept_below": 0}),  # four times as many, and candidate 1 in their place
    ],
    ids=["none rejected", "too few rejected", "too many rejected"],
)
def test_defective_acceptance_is_caught(constant_work: bool, change: dict[str, float]) -> None:
    truth = at_four()[0]
    found = rejection_plan(Fraction(4), **change).fill(tiers.StreamKey(KEY), 0, len(truth), constant_work=constant_work)
    assert any(k is not None and k != right for k, right in zip(found, truth, strict=True))


# ------------------------------------------------------------------ what it promises


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: DiscreteGaussian(Fraction(999, 10**6)), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian(10**9 + 1), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian(sigma_squared=10**19), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian.from_zcdp(1e-30, Sensitivity(1, 1)), ParameterError, "between 1e-3 and 1e9"),
        (lambda: DiscreteGaussian.calibrated(1e-12, Sensitivity(1, 1), delta=1e-20), ParameterError, "no sigma up to"),
        (lambda: DiscreteGaussian(1).delta(1, Sensitivity(1, 0.5)), ParameterError, "linf must be at least 1"),
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
