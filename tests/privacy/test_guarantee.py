# SPDX-License-Identifier: Apache-2.0
"""What a release promises, on record: figures exact, adjacency and unit beside them."""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import pytest
from fresh import python

import dpfast
from dpfast import Guarantee, Sensitivity
from dpfast.privacy.sensitivity import root_above

HOUSE = {"adjacency": "substitution", "unit": "household"}
CELLS, CELL = Sensitivity(2, 1, **HOUSE), Sensitivity(1, 1)


def laplace(rate, cells, *changes, real=False) -> Fraction:
    """The rho of Laplace noise of that rate, if so many cells move so far: a double, rounded up."""
    with mpmath.workdps(60):
        r = mpmath.mpf(Fraction(rate).numerator) / Fraction(rate).denominator
        slope = 1 if real else r / mpmath.sinh(r)
        exact = cells * mpmath.fsum(r * d - (1 - mpmath.exp(-r * d)) * slope for d in changes)
        near = float(exact)
        return Fraction(near if near >= exact else math.nextafter(near, math.inf))


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (dpfast.DiscreteLaplace(0.1, 1), Guarantee(0.1)),
        (dpfast.DiscreteLaplace(1, 3), Guarantee(1, rho=laplace(Fraction(1, 3), 1, 3))),
        (dpfast.DiscreteLaplace(1, Fraction(1, 2)), Guarantee(1)),
        (dpfast.DiscreteLaplace(1, Sensitivity(3, 1)), Guarantee(1, rho=laplace(Fraction(1, 3), 3, 1))),
        (dpfast.DiscreteLaplace(1, Sensitivity(l1=3)), Guarantee(1, rho=laplace(Fraction(1, 3), 1, 3))),
        (dpfast.DiscreteLaplace(1, Sensitivity(2, 2, l1=3)), Guarantee(1, rho=laplace(Fraction(1, 3), 1, 2, 1))),
        (dpfast.Laplace(2, 1, adjacency="substitution"), Guarantee(2, rho=laplace(2, 1, 1, real=True), adjacency="substitution")),
        (dpfast.Laplace(2, CELLS), Guarantee(2, rho=laplace(Fraction(1, 2), 4, 1, real=True), **HOUSE, add_remove=Guarantee(1, rho=laplace(Fraction(1, 2), 2, 1, real=True), unit="household"))),
        (dpfast.Laplace(2, Sensitivity(2, 1, adjacency="substitution", signed=True)), Guarantee(2, rho=laplace(Fraction(1, 2), 2, 2, real=True), adjacency="substitution", add_remove=Guarantee(1, rho=laplace(Fraction(1, 2), 2, 1, real=True)))),
        (dpfast.Snapping(1, 1, bound=8), Guarantee(1, rho=laplace(1, 1, 1, real=True))),
        (dpfast.Gaussian(2, sensitivity=Sensitivity(1, 1)), Guarantee(rho=Fraction(1, 8), gdp=True)),
        (dpfast.DiscreteGaussian.from_zcdp(0.5, CELLS), Guarantee(rho=0.5, **HOUSE, add_remove=Guarantee(rho=0.25, unit="household"))),
        (dpfast.Gaussian.from_zcdp(1, Sensitivity(1, 1, adjacency="substitution", signed=True)), Guarantee(rho=1, gdp=True, adjacency="substitution", add_remove=Guarantee(rho=0.25, gdp=True))),
        (dpfast.Gaussian.from_zcdp(1, Sensitivity.from_l2(2, adjacency="substitution")), Guarantee(rho=1, gdp=True, adjacency="substitution")),
        (dpfast.Exponential(1, 1), Guarantee(1, rho=Fraction(1, 8))),
        (dpfast.Exponential(1, CELL), Guarantee(1, rho=Fraction(1, 8))),
        (dpfast.Exponential(10, 1), Guarantee(10)),
        (dpfast.PermuteAndFlip(1, 1), Guarantee(1)),
        (dpfast.NoisyMax(1, 1), Guarantee(1)),
        (dpfast.AboveThreshold(1, 1, threshold=3), Guarantee(1)),
        (dpfast.RandomizedResponse(1), Guarantee(1, adjacency="substitution")),
    ],
    ids=str,
)  # fmt: skip
def test_mechanisms_say_what_they_promise(mechanism, expected) -> None:
    assert mechanism.guarantee == expected
    assert pickle.loads(pickle.dumps(mechanism)).guarantee == expected


def test_a_calibrated_gaussian_promises_both() -> None:
    mechanism = dpfast.DiscreteGaussian.calibrated(1, CELLS, delta=1e-6)
    found = mechanism.guarantee
    assert (found.epsilon, found.delta, found.rho) == (1, Fraction("1e-6"), mechanism.rho())
    assert mechanism.delta(found.epsilon) <= found.delta


def test_holding_under_add_remove_is_known_or_not_claimed() -> None:
    """A removed unit changes at most what it contributes; norms and bare numbers tell nothing."""
    for contributes, known in [(CELLS, True), (Sensitivity.changes(2, 1, adjacency="substitution"), False)]:
        assert (dpfast.Laplace(1, contributes).guarantee.add_remove is not None) is known
        assert (dpfast.Gaussian(1, sensitivity=contributes).guarantee.add_remove is not None) is known
    assert dpfast.Laplace(1, 5, adjacency="substitution").guarantee.add_remove is None
    assert dpfast.Laplace(1, 5).guarantee.add_remove is None  # it says so itself


@pytest.mark.parametrize(
    ("promising", "reason"),
    [
        (dpfast.OneSidedGeometric(1, 1), "not a mechanism"),
        (dpfast.Gaussian(1), "sigma alone"),
        (dpfast.DiscreteGaussian(1), "sigma alone"),
    ],
)
def test_what_promises_nothing_says_so(promising, reason) -> None:
    """Refused with its reason, by compose and a ledger too; hasattr, for debuggers, says no."""
    for ask in (lambda: promising.guarantee, lambda: dpfast.compose(promising)):
        with pytest.raises(dpfast.errors.NoGuaranteeError, match=reason):
            ask()
    assert not hasattr(promising, "guarantee")


def test_defaults() -> None:
    """Add-remove for a person; the rho that epsilon implies; and what repr shows."""
    one, loose = Guarantee(1), Guarantee(1, 1e-6)
    assert (one.delta, one.rho_delta, one.gdp, one.adjacency, one.unit) == (0, 0, False, "add-remove", "person")
    assert one.rho == loose.rho == laplace(1, 1, 1)  # epsilon tanh(epsilon/2), of randomized response
    assert loose.rho_delta == loose.delta
    assert Guarantee(1, 1e-6, rho=0.1).rho_delta == 0
    assert (Guarantee(rho=1).delta, Guarantee(rho=1).rho_delta) == (None, 0)
    assert (Guarantee(0).rho, Guarantee(1e300).rho) == (0, 10**300)
    assert repr(Guarantee(0.25, 2.0**-20)) == (
        f"<Guarantee epsilon=0.25, delta=9.5367431640625e-07, rho={float(laplace(0.25, 1, 1))}, rho_delta=9.5367431640625e-07, "
        "adjacency='add-remove', unit='person'>"
    )
    known = Guarantee(rho=1, gdp=True, adjacency="substitution", add_remove=Guarantee(rho=0.5))
    assert repr(known) == (
        "<Guarantee rho=1, mu=1.41421, adjacency='substitution', unit='person', "
        "add_remove=<Guarantee rho=0.5, adjacency='add-remove', unit='person'>>"
    )
    assert known.mu == pytest.approx(math.sqrt(2), rel=1e-15)
    assert (loose.mu, Guarantee(rho=1).mu_squared) == (None, None)
    assert (known.mu_squared, Guarantee(0).mu_squared) == (2, 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1, 10**6), Fraction(1, 10), 1, 3, 20, 99, 101, 600])
def test_the_mu_of_any_epsilon_is_the_least_there_is(epsilon) -> None:
    """Its curve lies below that of randomized response everywhere, and meets it in the middle."""
    squared = Guarantee(epsilon).mu_squared
    with mpmath.workdps(60 + epsilon // 2):
        e = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        mu = mpmath.sqrt(mpmath.mpf(squared.numerator) / squared.denominator)
        least = 1 / (1 + mpmath.exp(e))  # what the best test of this level misses
        missed = mpmath.ncdf(-mu / 2)  # at the level which is what it misses
        assert missed <= least
        if epsilon <= 100:
            assert mpmath.ncdf(-mu / 2 * (1 - mpmath.mpf(2) ** -51)) > least
        for part in range(1, 40, 3):  # other levels, by their quantile
            at = mu / 2 + mpmath.mpf(part) / 4
            level, misses = mpmath.ncdf(-at), mpmath.ncdf(at - mu)
            assert misses <= max(1 - mpmath.exp(e) * level, mpmath.exp(-e) * (1 - level))
    both = Guarantee(epsilon, rho=squared, gdp=True)
    assert both.mu_squared == squared
    assert both.mu == root_above(squared)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 10), 1, 3, 20, 99, 101, 600])
def test_the_rho_of_any_epsilon_is_the_worst_there_is(epsilon) -> None:
    """Rényi divergences of randomized response, the worst pair, at orders from 1 to 10^5."""
    rho = Guarantee(epsilon).rho
    with mpmath.workdps(400):
        e = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        yes, no = mpmath.exp(e) / (1 + mpmath.exp(e)), 1 / (1 + mpmath.exp(e))
        exact = mpmath.mpf(rho.numerator) / rho.denominator

        def per_order(order) -> mpmath.mpf:
            whole = yes**order * no ** (1 - order) + no**order * yes ** (1 - order)
            return mpmath.log(whole) / (order - 1) / order

        assert all(per_order(mpmath.mpf(order)) <= exact for order in ("1.000001", "1.1", "2", "5", "40", "1e5"))
        assert exact <= e * mpmath.tanh(e / 2) * (1 + mpmath.mpf(2) ** -51)
        assert per_order(1 + mpmath.mpf(10) ** -30) >= exact * (1 - mpmath.mpf(2) ** -50)  # epsilon^2/2 is more


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, dpfast.errors.ParameterError, "epsilon or rho must be given"),
        ({"rho": 1, "delta": 1e-6}, dpfast.errors.ParameterError, "delta goes with an epsilon, and rho_delta with a rho"),
        ({"epsilon": 1, "rho_delta": 1e-6}, dpfast.errors.ParameterError, "rho_delta and gdp go with a rho"),
        ({"epsilon": 1, "gdp": True}, dpfast.errors.ParameterError, "rho_delta and gdp go with a rho"),
        ({"rho": 1, "rho_delta": 1e-6, "gdp": True}, dpfast.errors.ParameterError, "rho_delta is 0"),
        ({"rho": 1, "rho_delta": 1}, dpfast.errors.ParameterError, "rho_delta must be below 1"),
        ({"rho": 1, "gdp": 1}, dpfast.errors.DTypeError, "gdp must be True or False"),
        ({"epsilon": -1}, dpfast.errors.ParameterError, "epsilon must not be negative, got -1"),
        ({"rho": -0.5}, dpfast.errors.ParameterError, "rho must not be negative, got -0.5"),
        ({"epsilon": 1, "delta": 1}, dpfast.errors.ParameterError, "delta must be below 1, got 1"),
        ({"epsilon": 1, "delta": -1e-9}, dpfast.errors.ParameterError, "delta must not be negative"),
        ({"epsilon": float("inf")}, dpfast.errors.ParameterError, "epsilon must be finite"),
        ({"epsilon": b"1"}, dpfast.errors.DTypeError, "epsilon must be an int"),
        ({"epsilon": "one"}, dpfast.errors.ParameterError, "epsilon must be a number such as 0.1 or 1/3, got 'one'"),
        ({"epsilon": 1, "adjacency": "replace"}, dpfast.errors.ParameterError, "adjacency must be one of"),
        ({"epsilon": 1, "unit": ""}, dpfast.errors.ParameterError, "unit must name"),
        ({"epsilon": 1, "add_remove": True}, dpfast.errors.DTypeError, "add_remove must be a Guarantee, not bool"),
        ({"epsilon": 1, "add_remove": Guarantee(1)}, dpfast.errors.ParameterError, "add_remove is for substitution"),
        ({"epsilon": 1, "adjacency": "substitution", "add_remove": Guarantee(1, unit="dog")}, dpfast.errors.ParameterError, "same unit"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_parameters(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        Guarantee(**arguments)


def test_beliefs_need_a_pure_epsilon() -> None:
    """A delta or a rho bounds no posterior."""
    assert Guarantee(1).posterior(0.5) == pytest.approx((1 / (1 + math.e), math.e / (1 + math.e)))
    for promise in (Guarantee(1, 1e-6), Guarantee(rho=1)):
        with pytest.raises(dpfast.errors.ParameterError, match="pure epsilon"):
            promise.posterior(0.5)


# ------------------------------------------------------------------ a rho that waits


@pytest.mark.parametrize(
    "made",
    [
        lambda: Guarantee(0.7),
        lambda: dpfast.DiscreteLaplace(Fraction(7, 10), 3).guarantee,
        lambda: dpfast.Laplace(2, CELLS).guarantee,
        lambda: dpfast.compose(dpfast.DiscreteLaplace(0.7, 1), dpfast.Laplace(1, 1)),
        lambda: Guarantee(0.7).approximate(1e-6),
        lambda: Guarantee(0.7, 1e-9),
    ],
)
def test_a_rho_is_computed_once_asked_for(made) -> None:
    """Copies, pickles, equality and hash are those of a guarantee whose rho was asked for."""
    asked, rho = made(), made().rho
    assert asked.rho is asked.rho
    for copied in (copy.copy(made()), copy.deepcopy(made()), pickle.loads(pickle.dumps(made())), made()):
        assert copied == asked
        assert hash(copied) == hash(asked)
        assert copied.rho == rho
    assert pickle.dumps(made()) == pickle.dumps(asked)
    assert repr(made()) == repr(asked)
    with ThreadPoolExecutor(4) as pool:
        guarantee = made()
        assert set(pool.map(lambda _: guarantee.rho, range(8))) == {rho}


def test_what_is_no_figure_is_none() -> None:
    for wrong in ("rhos", "later", "__deepcopy__"):
        assert not hasattr(Guarantee(1), wrong)


def test_a_ledger_in_epsilon_needs_no_rho(tmp_path) -> None:
    """Neither a charge, nor a sealed one, nor what is left of it loads python-flint."""
    said = python(
        """
        import sys, dpfast
        ledger = dpfast.Ledger(sys.argv[1], epsilon=3, create=True)
        law = dpfast.DiscreteLaplace(0.5, dpfast.Sensitivity(2, 1))
        ledger.release(law, [1, 2])
        ledger.release(law, [1, 2], key=dpfast.Key.generate().derive("visits"))
        print(ledger.fits(law), ledger.spent.epsilon, ledger.remaining.epsilon, "flint" in sys.modules)
        print(float(law.guarantee.rho) > 0, "flint" in sys.modules)
        """,
        tmp_path / "budget.db",
    )
    assert said.split() == ["4", "1", "2", "False", "True", "True"]
