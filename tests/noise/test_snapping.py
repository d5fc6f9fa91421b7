# SPDX-License-Identifier: Apache-2.0
"""Snapping: grid, two clamps, small-world neighbours, records (the law: test_laplace.py)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import reference
import tiers
from laws import expected, fixed
from layouts import same, wild
from worlds import REALS, leaks, real_world

from dpfast import Key, Laplace, Sensitivity, Snapping
from dpfast.errors import DTypeError, ParameterError


@pytest.mark.parametrize(
    ("scale", "granularity"),
    [
        (1, 1), (2, 2), (0.75, 1), (Fraction(1, 3), 0.5), (3, 4), (2.0**-30, 2.0**-30), (1.5 * 2.0**-1000, 2.0**-999),
        (2.0**900, 2.0**900),
    ],
)  # fmt: skip
def test_the_grid_is_the_least_power_of_two_that_is_at_least_the_scale(scale: float, granularity: float) -> None:
    for epsilon in (1, Fraction(1, 7), 2.5):
        mech = Snapping(epsilon, Fraction(scale) * Fraction(epsilon), bound=8 * Fraction(granularity))
        assert mech.granularity == granularity
        assert Fraction(1, 2) < tiers.ratio(mech) <= 1


def test_results_are_multiples_of_the_grid_within_the_bound() -> None:
    """However far the values lie; both ends are reached, and are no further than the bound."""
    for scale, bound in ((1, 3), (Fraction(3, 4), 1), (Fraction(1, 5), 2.25), (100, 128 * 7)):
        mech = Snapping(1, scale, bound=bound)
        values = np.array([-1e308, -5.0, -0.3, -0.0, 0.0, 5e-324, 0.49, 2.0, 7.1, 1e300] * 1000)
        for dtype in (np.float64, np.float32):
            results = mech.release(values, dtype=dtype).astype(np.float64)
            assert (np.abs(results) <= float(bound)).all()
            assert (results / mech.granularity == np.rint(results / mech.granularity)).all()
            assert not np.signbit(results[results == 0]).any()
            assert {results.min(), results.max()} == {-float(bound), float(bound)}


@pytest.mark.parametrize("bound", [1, 2, 1024, 2.0**60, 2.0**1000])
def test_it_is_laplace_between_two_clamps(bound: float, secret) -> None:
    for scale in (Fraction(1), Fraction(5, 8)):
        mech, plain, key = Snapping(1, scale, bound=bound), Laplace(1, scale, granularity=1), secret("snapping")
        values = np.concatenate([wild(0, 1), wild(-40, 2), wild(900, 3)])
        clamped = np.clip(values, -bound, bound)
        right = np.clip(tiers.noised(plain, clamped, key), -bound, bound) + 0.0
        assert same(tiers.noised(mech, values, key), right)
        exact = expected(mech, values, key, lower=-float(bound), upper=float(bound))
        assert same(tiers.noised(mech, values, key), exact)


def test_the_value_is_clamped_before_the_noise() -> None:
    """Clamped only afterwards, a far value would always give the bound; here it is as noisy."""
    mech = Snapping(1, 1, bound=8)
    law = reference.Laplace(Fraction(1))
    results = mech.release(np.full(2**16, 1e300))
    inside = float((results < 8).mean())
    assert inside == pytest.approx(law.cdf(-1), abs=6 * math.sqrt(law.cdf(-1) / 2**16))


@pytest.mark.parametrize(("q", "scale"), [(Fraction(15, 16), Fraction(1)), (Fraction(8, 10), Fraction(17, 32))])
@pytest.mark.parametrize("bound", [1, 7])
def test_small_world_of_snapping(q: Fraction, bound: int, scale: Fraction) -> None:
    """The same between two clamps: for values far outside the bound too, e^epsilon and no more."""
    laws = real_world(Snapping(1, scale, bound=bound), q, [*REALS, -1e300, 1e9])
    assert all(abs(y) <= bound for law in laws.values() for y in law)
    near = {x: law for x, law in laws.items() if abs(x) < 100}
    assert leaks(near, q, 1.0) == 0
    # a value beyond the bound is the bound
    assert laws[-1e300] == real_world(Snapping(1, scale, bound=bound), q, [-float(bound)])[-float(bound)]
    assert laws[1e9] == real_world(Snapping(1, scale, bound=bound), q, [float(bound)])[float(bound)]


def test_single_precision_stays_within_the_bound() -> None:
    """A bound that float32 lacks is not rounded: results are finite, within it."""
    for bound in (2**200, 2**24 + 3, 2.0**130):
        results = Snapping(1, 1, bound=bound).release(np.array([1e50, -1e50, 3.0] * 2000), dtype=np.float32)
        assert np.isfinite(results).all()
        assert (np.abs(results.astype(np.float64)) <= float(bound)).all()


@pytest.mark.parametrize(
    ("bound", "error", "message"),
    [
        (0, ParameterError, "^bound must be positive, got 0$"),
        (-3, ParameterError, "^bound must be positive, got -3$"),
        (2.5, ParameterError, "^bound must be a multiple of the granularity 2\\*\\*0, .* got 2.5$"),
        (Fraction(1, 3), ParameterError, "^bound must be a multiple of the granularity 2\\*\\*0"),
        (math.inf, ParameterError, "^bound must be finite"),
        (math.nan, ParameterError, "^bound must be finite"),
        (2**53 + 1, ParameterError, "^bound must be a float of at most 2\\*\\*1000"),
        (2**1001, ParameterError, "^bound must be a float of at most 2\\*\\*1000"),
        (b"8", DTypeError, "^bound must be an int, float, Fraction, Decimal or text such as 1/3, not bytes$"),
        (True, DTypeError, "^bound must be"),
        (np.array([8.0]), DTypeError, "^bound must be"),
    ],
)
def test_bounds_that_are_refused(bound: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Snapping(1, 1, bound=bound)


def test_bounds_of_every_kind() -> None:
    """Taken exactly, from any kind of number; large where the grid is."""
    same_ = {Snapping(1, 1, bound=bound) for bound in (8, 8.0, Fraction(8), Decimal(8))}
    assert len(same_) == 1
    assert Snapping(1, 1, bound=2**1000).bound == 2**1000
    assert Snapping(1, 2.0**-300, bound=2.0**-300).bound == Fraction(1, 2**300)
    with pytest.raises(ParameterError, match="multiple of the granularity"):
        Snapping(1, 3, bound=6)  # the grid is 4


def test_public_bounds_beside_the_mechanisms_own() -> None:
    """lower and upper narrow the bound further; outside it they leave nothing."""
    mech, values = Snapping(1, 1, bound=8), np.linspace(-20, 20, 500)
    free = fixed(mech, values)
    for lower, upper in ((-2, 3), (0, None), (None, 2.5), (-100, 100), (8, None)):
        low, high = -8 if lower is None else max(lower, -8), 8 if upper is None else min(upper, 8)
        assert same(fixed(mech, values, lower=lower, upper=upper), np.clip(free, low, high) + 0.0)
    for bad in ({"lower": 9}, {"upper": -9}, {"lower": 3, "upper": 2}):
        with pytest.raises(ParameterError, match="^lower must be at most upper"):
            mech.release(values, **bad)


def test_missing_values_are_clamped_too() -> None:
    """NaN's stand-in is a value like any other, under the release's clamp and the law's."""
    mech = Snapping(1, 1, bound=8)
    with_missing = fixed(mech, np.array([math.nan, 100.0, -math.inf]), missing=100, clamp=(99, 101))
    assert (np.abs(with_missing) <= 8).all()
    many = mech.release(np.full(20_000, math.nan), missing=-1e9, clamp=(-1e9, -1e9 + 1))
    assert 0.2 < (many > -8).mean() < 0.4


def test_the_stream_key_is_its_own() -> None:
    """One label, one input: Laplace on that grid, and another bound, get independent noise."""
    values = np.zeros(4000)
    laws = [Snapping(1, 1, bound=2**40), Snapping(1, 1, bound=2**41), Laplace(1, 1, granularity=1)]
    key, results = Key.generate().derive("x"), []
    for law in laws:
        tiers.forget_labels()
        results.append(law.release(values, key=key))
        assert same(results[-1], law.release(values, key=key, resume=True))
    assert len({tiers.record(law) for law in laws}) == 3
    for i in range(3):
        for j in range(i):
            assert 0.05 < (results[i] == results[j]).mean() < 0.5


def test_figures() -> None:
    """Before clamping: those of Laplace on that grid."""
    mech, plain = Snapping(1, Fraction(3, 4), bound=8), Laplace(1, Fraction(3, 4), granularity=1)
    assert mech.stddev == plain.stddev
    assert mech.interval(0.99, cells=10) == plain.interval(0.99, cells=10)
    assert mech.pmf([0, 1, -2]).tolist() == plain.pmf([0, 1, -2]).tolist()


def test_a_bound_makes_another_mechanism() -> None:
    """Neither another bound nor no bound is equal; and it is frozen."""
    mech = Snapping(0.5, Fraction(1, 3), bound=8)
    assert mech != Snapping(0.5, Fraction(1, 3), bound=9)
    assert mech != Laplace(0.5, Fraction(1, 3), granularity=1)
    assert Snapping(1, Sensitivity(4, 3), bound=64).granularity == 16
    with pytest.raises(AttributeError):
        mech.bound = Fraction(9)
