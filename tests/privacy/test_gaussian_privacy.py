# SPDX-License-Identifier: Apache-2.0
"""What Gaussian noise promises: never below the truth, close to it, and right for vectors."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf
from worlds import gaussian_law

from dpfast import DiscreteGaussian, Gaussian
from dpfast.engines import jobs
from dpfast.errors import ParameterError
from dpfast.privacy import gaussian
from dpfast.privacy.exact import double_above, rounded_up
from dpfast.privacy.gaussian import (
    MU_DIGITS,
    calibrate,
    delta_of_zcdp,
    discrete_delta,
    discrete_delta_l2,
    discrete_delta_of,
    gaussian_delta,
    in_digits,
    is_exact,
    mu_squared_of,
    rho,
    rho_of,
    within_mu_squared_of,
)
from dpfast.privacy.sensitivity import Sensitivity

CLOSE = mpf(2) ** -40


def m(value: Fraction) -> mpf:
    return mpf(value.numerator) / value.denominator


def above(found: float, true: mpf, slack: mpf = CLOSE) -> bool:
    """Not below the truth, and close to it."""
    return true <= mpf(found) <= true * (1 + slack) + mpf(2) ** -1074


# ------------------------------------------------------------------ references


@cache
def one_cell(sigma_squared: Fraction, most: int) -> list[mpf]:
    """P(X = k) for |k| <= most, nearly all of it."""
    bells = [mpmath.exp(-(mpf(k) ** 2) / (2 * m(sigma_squared))) for k in range(-most, most + 1)]
    whole = mpmath.fsum(bells) + 2 * mpmath.exp(-(mpf(most + 1) ** 2) / (2 * m(sigma_squared)))
    return [bell / whole for bell in bells]


@cache
def convolved(l0: int, most: int, sigma_squared: Fraction) -> list[mpf]:
    """The law of the sum of l0 cells, at the caller's precision."""
    one = one_cell(sigma_squared, most)
    law = one
    for _ in range(l0 - 1):  # integers, as they multiply fast: 2^-200 of rounding
        a, b = ([int(mpmath.ldexp(p, 400)) for p in ps] for ps in (law, one))
        law = [mpmath.ldexp(mpf(c), -800) for c in np.convolve(np.array(a, object), np.array(b, object))]
    return law


def by_convolution(epsilon: Fraction, l0: int, linf: int, sigma_squared: Fraction) -> mpf:
    """E[(1 - exp(epsilon - L(S)))_+] over the convolution itself, in mpmath."""
    law = convolved(l0, math.isqrt(math.ceil(2 * sigma_squared * 110)) + l0 * linf + 2, sigma_squared)
    total = mpf(0)
    for s, p in enumerate(law, -(len(law) // 2)):
        loss = Fraction(l0 * linf**2 - 2 * linf * s) / (2 * sigma_squared)
        if loss > epsilon:
            total += p * -mpmath.expm1(m(epsilon - loss))
    return total


def by_abel_plana(epsilon: Fraction, d: int, variance: Fraction) -> mpf:
    """Theorem 7 for large variance, tails by Abel-Plana: off by at most exp(-2 pi^2 variance)."""
    v = m(variance)

    def tail(first: int) -> mpf:
        a = mpf(first)
        integral = mpmath.sqrt(mpmath.pi * v / 2) * mpmath.erfc(a / mpmath.sqrt(2 * v))
        # -2 Im f(a + iy) / f(a); quad stops at an absolute error
        wave = mpmath.quad(
            lambda y: 2 * mpmath.exp(y**2 / (2 * v)) * mpmath.sin(a * y / v) / mpmath.expm1(2 * mpmath.pi * y),
            [0, 1, 3, 8, 16],
            method="gauss-legendre",
        )
        return integral + mpmath.exp(-(a**2) / (2 * v)) * (mpf(1) / 2 + wave)

    first = math.floor(epsilon * variance / d - Fraction(d, 2)) + 1
    whole = mpmath.sqrt(2 * mpmath.pi * v) * (1 + 2 * mpmath.exp(-2 * mpmath.pi**2 * v))
    return (tail(first) - mpmath.exp(m(epsilon)) * tail(first + d)) / whole


def by_arrays(epsilon: float, shifts: tuple[int, ...], sigma: float) -> float:
    """delta of any change, cell by cell over a whole grid of outcomes, in doubles."""
    most = math.ceil(9 * sigma) + 4
    k = np.arange(-most, most + 1, dtype=float)
    law = np.exp(-(k**2) / (2 * sigma**2))
    law /= law.sum()
    chance, loss = np.ones(1), np.zeros(1)
    for d in shifts:
        chance = np.multiply.outer(chance, law).ravel()
        loss = np.add.outer(loss, (d**2 - 2 * d * k) / (2 * sigma**2)).ravel()
    return float((chance * -np.expm1(np.minimum(epsilon - loss, 0))).sum())


# ------------------------------------------------------------------ rounding


@given(st.integers(0, 2**200), st.integers(-1300, 1100))
@settings(max_examples=300, deadline=None)
def test_up_is_the_least_double_above(mantissa, exponent) -> None:
    """A fraction's, and an exact ball's, compared as fractions; infinite beyond all doubles."""
    from flint import arb

    exact = Fraction(mantissa) * Fraction(2) ** exponent
    found = double_above(exact)
    assert rounded_up(lambda: arb(mantissa) * arb(2) ** exponent, precision=300) == found
    if exact > Fraction(math.nextafter(math.inf, 0)):
        assert found == math.inf
        return
    assert Fraction(found) >= exact
    assert found == 0 or Fraction(math.nextafter(found, 0)) < exact


# ------------------------------------------------------------------ one cell, and vectors


def test_figures_of_the_design() -> None:
    """Where the formula for one cell, asked about the norm of a vector, would promise too much."""
    for sigma_squared, epsilon, true, wrong in (
        (Fraction(1), 8, 3.42e-4, 1.17e-4),
        (Fraction(1), 4, 0.0753, 0.0512),
        (Fraction(1, 4), 8, 0.262, 0.107),
    ):
        cells, mech = Sensitivity(4, 1), DiscreteGaussian(sigma_squared=sigma_squared)
        vector = discrete_delta_of(Fraction(epsilon), cells, sigma_squared)
        with_cells = DiscreteGaussian(sigma_squared=sigma_squared, sensitivity=cells)
        assert vector == mech.delta(epsilon, cells) == with_cells.delta(epsilon)
        assert math.isclose(vector, true, rel_tol=2e-3)
        scalar = discrete_delta(Fraction(epsilon), 1, 2, sigma_squared)
        assert math.isclose(scalar, wrong, rel_tol=4e-3)
        assert scalar == mech.delta(epsilon, Sensitivity(1, 2))
        norm = discrete_delta_of(Fraction(epsilon), Sensitivity.from_l2(4), sigma_squared)
        assert norm == mech.delta(epsilon, Sensitivity.from_l2(4)) > vector
        assert math.isclose(by_arrays(epsilon, (1, 1, 1, 1), math.sqrt(sigma_squared)), vector, rel_tol=1e-9)


SIGMAS = [Fraction(1, 1000), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(3), Fraction(10)]
EPSILONS = [Fraction(1, 10**6), Fraction(1, 10), Fraction(1), Fraction(8), Fraction(100)]


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@pytest.mark.parametrize(("l0", "linf"), [(1, 1), (1, 5), (2, 1), (3, 2), (4, 1)])
def test_discrete_delta_is_the_convolution_rounded_up(sigma, l0, linf) -> None:
    """Against the whole convolution in 400 bits, not below and within 2^-40."""
    with mpmath.workdps(150):
        for epsilon in EPSILONS:
            true = by_convolution(epsilon, l0, linf, sigma**2)
            if mpf(2) ** -100 < true:
                assert above(discrete_delta(epsilon, l0, linf, sigma**2), true), epsilon


@pytest.mark.parametrize("sigma", [Fraction(100), Fraction(10**4), Fraction(10**6), Fraction(10**9)], ids=str)
@pytest.mark.parametrize("linf", [1, 1000])
def test_theorem_7_for_large_sigma(sigma, linf) -> None:
    """Euler-Maclaurin with a proved remainder, and another formula: middle to 1e-300."""
    with mpmath.workdps(40):
        for standard in (Fraction(1, 10**6), Fraction(4), Fraction(37)):
            epsilon = standard * linf / sigma
            true = by_abel_plana(epsilon, linf, sigma**2)
            assert true > 0
            assert above(discrete_delta(epsilon, 1, linf, sigma**2), true), standard


@pytest.mark.parametrize(("l0", "sigma"), [(2, 3), (7, 3), (50, 3), (300, 4)])
def test_equal_weights_of_the_cosets_agree_with_their_exact_sum(l0, sigma, monkeypatch) -> None:
    """From sigma = 3 on one weight serves; the power modulo x^n - 1 gives the same."""
    change, square = 2, Fraction(sigma**2)
    epsilons = [Fraction(l0 * change**2, 1) / square * x for x in (Fraction(1, 100), Fraction(1, 2), Fraction(3))]
    smooth = [discrete_delta(e, l0, change, square) for e in epsilons]
    monkeypatch.setattr(gaussian, "SMOOTH", 10**9)
    assert smooth == pytest.approx([discrete_delta(e, l0, change, square) for e in epsilons], rel=1e-12, abs=0)


@pytest.mark.parametrize("sigma", [64, 200])
def test_long_and_direct_sums_agree(sigma, monkeypatch) -> None:
    """The tail by Euler and Maclaurin against the sum of its terms."""
    cases = [(Fraction(1, 10), 1, 1), (Fraction(1), 1, 20), (Fraction(1), 9, 30), (Fraction(3), 1, sigma**2 // 3)]
    long = [discrete_delta(*case, Fraction(sigma**2)) for case in cases]
    monkeypatch.setattr(gaussian, "LONG", 10**9)
    assert long == pytest.approx([discrete_delta(*case, Fraction(sigma**2)) for case in cases], rel=1e-12, abs=0)


@pytest.mark.parametrize("sigma", [0.5, 0.8, 1.0, 2.0])
def test_no_other_change_is_worse(sigma) -> None:
    """Every integer change of up to three cells by up to three: below the delta of (l0, linf)."""
    square = Fraction(sigma) ** 2
    for epsilon in (0.01, 0.5, 1.0, 2.5, 4.0, 8.0):
        for shifts in itertools.combinations_with_replacement(range(4), 3):
            l0, linf = sum(d > 0 for d in shifts), max(shifts)
            if l0:
                bound = discrete_delta(Fraction(epsilon), l0, linf, square)
                true = by_arrays(epsilon, tuple(d for d in shifts if d), sigma)
                assert true <= bound * (1 + 1e-9) + 1e-14, (epsilon, shifts)
                if set(shifts) <= {0, linf}:
                    assert math.isclose(true, bound, rel_tol=1e-9, abs_tol=1e-14)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_delta_grows_with_each_figure_and_one_support_is_worst(sigma) -> None:
    """More cells, or larger changes, hide less; one cell by 2 d hides less than two by d each."""
    square = Fraction(sigma) ** 2
    for epsilon in map(Fraction, (0.01, 0.5, 1.7, 4, 8)):
        table = {(n, d): discrete_delta(epsilon, n, d, square) for n in range(1, 7) for d in range(1, 7)}
        for (n, d), found in table.items():
            assert n == 1 or found >= table[n - 1, d] * (1 - 1e-12)
            assert d == 1 or found >= table[n, d - 1] * (1 - 1e-12)
            if n <= 3 and d <= 3:
                assert table[n, 2 * d] >= table[2 * n, d] * (1 - 1e-12)


def test_signed_substitution_takes_its_own_worst_change() -> None:
    """(l0, 2 linf), not (2 l0, 2 linf), which no neighbour reaches."""
    epsilon, square = Fraction(2), Fraction(9, 4)
    s = Sensitivity(1, 1, adjacency="substitution", signed=True)
    found = discrete_delta_of(epsilon, s, square)
    assert found == discrete_delta(epsilon, 1, 2, square)
    assert found < discrete_delta(epsilon, s.l0, s.linf, square)
    assert found > max(by_arrays(2.0, c, 1.5) for c in ((1, 1), (1,)))


def test_a_change_of_an_integer_cell_is_an_integer() -> None:
    """linf counts by its floor; nothing below 1 is a change."""
    one = Fraction(1)
    assert discrete_delta(one, 2, Fraction(5, 2), one) == discrete_delta(one, 2, 2, one)
    for bad in (Fraction(99, 100), 0):
        with pytest.raises(ParameterError, match=f"^linf must be at least 1 for integer cells, got {bad}$"):
            discrete_delta(one, 2, bad, one)


def test_where_the_convolution_is_too_large() -> None:
    """Many cells at small sigma use zCDP (is_exact); from 3 on any number of cells is exact."""
    small = Fraction(1)
    assert is_exact(512, small)
    assert is_exact(10**6, Fraction(4))
    assert not is_exact(10**6 + 1, Fraction(4))
    assert is_exact(2**63, Fraction(9))
    assert not is_exact(513, small)
    assert discrete_delta(Fraction(400), 513, 1, small) == discrete_delta_l2(Fraction(400), Fraction(513), small)
    exact = discrete_delta(Fraction(400), 512, 1, small)
    assert 0 < exact < discrete_delta(Fraction(400), 513, 1, small)
    for cells, sigma in ((10**3, 2), (10**6, 1000), (10**12, 10**6)):
        square = Fraction(sigma**2)
        epsilon = 5 * Fraction(math.isqrt(cells), sigma)
        found = discrete_delta(epsilon, cells, 1, square)
        assert math.isclose(found, gaussian_delta(epsilon, Fraction(cells), square), rel_tol=0.05)
        assert found < discrete_delta_l2(epsilon, Fraction(cells), square)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [("1", "1e-6"), ("1e-300", "1e-300"), ("1e6", "1e-6"), ("1", "0.9999999999"), ("1e9", "0.5"), ("1e-400", "0.5")],
)
def test_a_budget_of_mu_is_the_largest_in_its_digits(epsilon, delta) -> None:
    """And a sigma beyond it gives way to the next within."""
    e, d = Fraction(epsilon), Fraction(delta)
    most = mu_squared_of(e, d)
    assert gaussian_delta(e, most, Fraction(1)) <= d
    assert gaussian_delta(e, most * (1 + Fraction(1, 10**14)), Fraction(1)) > d
    assert in_digits(most, MU_DIGITS) == most
    for beyond in (0, Fraction(1, 10**25), Fraction(1, 10**18)):
        change = most * (1 + beyond)
        found = within_mu_squared_of(e, d, change, Fraction(1))
        assert change / found**2 <= most
        assert (1 if beyond == 0 else math.nextafter(1, 2)) == found


# ------------------------------------------------------------------ zCDP


@pytest.mark.parametrize(("budget_of", "bound"), [(rho_of, "delta_of_zcdp"), (mu_squared_of, "gaussian_delta")])
def test_a_delta_below_every_double_is_refused_at_its_first_trial(budget_of, bound, monkeypatch) -> None:
    """A bound that is rounded up is the least double or more, which has a budget."""
    tried, compute = [], getattr(gaussian, bound)
    monkeypatch.setattr(gaussian, bound, lambda *figures: tried.append(figures) or compute(*figures))
    least = Fraction(math.ulp(0.0))
    assert budget_of(Fraction(1), least) > 0
    tried.clear()
    with pytest.raises(ParameterError, match="implies such an epsilon and delta, got epsilon=1"):
        budget_of(Fraction(1), least * Fraction(999, 1000))
    assert len(tried) <= 1


def test_rho_is_exact() -> None:
    """l2^2 / (2 sigma^2)."""
    assert rho(Fraction(1, 3), Fraction(2, 7)) == Fraction(7, 12)


def zcdp_at(r: mpf, e: mpf, over: mpf) -> mpf:
    alpha = 1 + over
    return mpmath.exp(over * (alpha * r - e)) / over * (over / alpha) ** alpha


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("r", [1e-12, 1e-3, 0.5, 3.0, 80.0])
def test_zcdp_is_the_best_order_rounded_up(r, epsilon) -> None:
    """Never below the infimum over the orders, found by mpmath, and as good as it."""
    with mpmath.workdps(60):
        rm, em = mpf(r), mpf(epsilon)
        low, high = mpf(-600), mpf(600)
        for _ in range(300):
            middle = (low + high) / 2
            over = mpmath.exp(middle)
            if (2 * over + 1) * rm - em - mpmath.log1p(1 / over) < 0:
                low = middle
            else:
                high = middle
        best = zcdp_at(rm, em, mpmath.exp(low))
        found = delta_of_zcdp(Fraction(r), Fraction(epsilon))
        assert found == 1.0 if best > 1 else above(found, best)


def test_zcdp_bounds_what_it_converts() -> None:
    """Above the exact delta of each law, over a range of both."""
    for sigma in map(Fraction, (0.5, 1, 4, 30, 10**6)):
        for l0 in (1, 4, 30):
            for x in (Fraction(1, 10), Fraction(1), Fraction(4)):
                epsilon = x * Fraction(math.isqrt(100 * l0), 10) / sigma
                bound = discrete_delta_l2(epsilon, Fraction(l0), sigma**2)
                assert bound >= discrete_delta(epsilon, l0, 1, sigma**2)
                assert bound >= gaussian_delta(epsilon, Fraction(l0), sigma**2)


# ------------------------------------------------------------------ the real law


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 3), Fraction(4), Fraction(100)], ids=str)
def test_gaussian_delta_is_rounded_up(epsilon) -> None:
    """The analytic formula at 400 digits, over every size that a double can hold."""
    with mpmath.workdps(400):
        for square in (Fraction(10) ** k for k in range(-16, 17, 4)):
            size, e = mpmath.sqrt(m(square)), m(epsilon)
            true = mpmath.ncdf(size / 2 - e / size) - mpmath.exp(e) * mpmath.ncdf(-size / 2 - e / size)
            found = gaussian_delta(epsilon, square * 7, Fraction(7))
            assert above(found, true), square
            assert found <= 1


def test_gaussian_delta_of_a_vector_is_that_of_its_norm() -> None:
    """The real law is rotation invariant: only l2/sigma counts."""
    assert gaussian_delta(Fraction(1), Fraction(4), Fraction(9)) == gaussian_delta(
        Fraction(1), Fraction(1), Fraction(9, 4)
    )
    assert math.isclose(gaussian_delta(Fraction(1), Fraction(1), Fraction(1)), 0.12693673750664397, rel_tol=1e-12)


# ------------------------------------------------------------------ no size fails


HUGE = [Fraction(1, 2**4000), Fraction(1, 10**6), Fraction(1), Fraction(100), Fraction(2**4000)]


@pytest.mark.parametrize("epsilon", HUGE, ids=["2^-4000", "1e-6", "1", "100", "2^4000"])
def test_any_size_gives_a_probability(epsilon) -> None:
    """Positive, at most 1, and in no time."""
    for sigma in map(Fraction, (1e-3, 1.0, 1e9)):
        for l0, linf in ((1, 1), (1, 2**1900), (10**9, 1), (40, 10**6)):
            square = Fraction(l0 * linf**2)
            for found in (
                discrete_delta(epsilon, l0, linf, sigma**2),
                gaussian_delta(epsilon, square, sigma**2),
                discrete_delta_l2(epsilon, square, sigma**2),
            ):
                assert 0 < found <= 1


# ------------------------------------------------------------------ calibration

LAWS = {
    "gaussian": lambda e, v: gaussian_delta(e, Fraction(3), v),
    "zCDP": lambda e, v: discrete_delta_l2(e, Fraction(3), v),
    "one cell": lambda e, v: discrete_delta(e, 1, 2, v),
    "100 cells": lambda e, v: discrete_delta(e, 100, 1, v),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "delta", [Fraction(1, 10**300), Fraction(1, 10**6), Fraction(1, 2)], ids=lambda d: f"{float(d):g}"
)
def test_calibration_reaches_delta_and_little_more(law, delta) -> None:
    """What is returned satisfies the target; a billionth less does not."""
    for epsilon in map(Fraction, (1e-6, 0.3, 10)):
        sigma = calibrate(lambda v, e=epsilon: LAWS[law](e, v), delta)
        assert Fraction(float(sigma)) == sigma
        assert LAWS[law](epsilon, sigma**2) <= delta
        assert LAWS[law](epsilon, (sigma * (1 - Fraction(1, 10**9))) ** 2) > delta


def test_calibration_starts_anywhere() -> None:
    found = [
        calibrate(lambda v: gaussian_delta(Fraction(1), Fraction(1), v), Fraction(1, 10**6), start=start)
        for start in (1e-3, 4.0, 5.0, 1e9, 1e300)
    ]
    assert max(found) / min(found) < 1 + 1e-10
    assert math.isclose(float(found[0]), 4.224678889, rel_tol=1e-9)


def test_calibration_keeps_to_its_range() -> None:
    easy = Fraction(1000)
    assert calibrate(lambda v: gaussian_delta(easy, Fraction(1), v), Fraction(1, 2), least=0.5) == Fraction(1, 2)
    with pytest.raises(ParameterError, match=r"^no sigma up to 10 reaches delta, got 1/1000000$"):
        calibrate(lambda v: gaussian_delta(Fraction(1, 10), Fraction(1), v), Fraction(1, 10**6), most=10)


@pytest.mark.parametrize(
    "bad", [Fraction(0), Fraction(1), Fraction(2), Fraction(1, 2**1023)], ids=lambda v: f"{v!s:.9}"
)
def test_calibration_refuses_what_no_double_can_show(bad) -> None:
    with pytest.raises(ParameterError, match=r"^delta must be at least 2\*\*-1022 and below 1, got "):
        calibrate(lambda v: gaussian_delta(Fraction(1), Fraction(1), v), bad)


# ------------------------------------------------------------------ groups


@pytest.mark.parametrize("law", [DiscreteGaussian, Gaussian])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
def test_the_delta_of_a_group_is_that_of_the_law(law, size, adjacency) -> None:
    """The worst of all ways in which units can fall together is what is stated, and reached."""
    change = Sensitivity(2, 1, adjacency=adjacency)
    made = law.calibrated(1, change, delta=1e-6)
    found, bound = made.group(size), made.guarantee.group(size)
    assert found.delta < bound.delta
    assert (found.epsilon, found.rho, found.unit) == (size, bound.rho, f"{size} x person")
    cells = change.l0
    ways = [(cells * apart, Fraction(size, apart)) for apart in range(1, size + 1) if size % apart == 0]
    deltas = [made.delta(size, Sensitivity.changes(l0, linf, adjacency=adjacency)) for l0, linf in ways]
    assert max(deltas) == found.delta == deltas[0]
    assert made.group(1) == made.guarantee
    of_rho = law.from_zcdp(0.1, change)
    assert of_rho.group(size) == of_rho.guarantee.group(size)


def test_groups_that_the_review_looked_at() -> None:
    """Two units of a calibrated (1, 1e-6): by the law summed here; the bound has 3.72e-6."""
    made = DiscreteGaussian.calibrated(1, Sensitivity(1, 1), delta=1e-6)
    assert float(made.guarantee.group(2).delta) == pytest.approx(3.72e-6, abs=1e-8)
    law = gaussian_law(made.sigma_squared)
    assert float(made.group(2).delta) == pytest.approx(np.maximum(law[2:] - math.e**2 * law[:-2], 0).sum(), rel=1e-6)
    for size, delta in ((13, 0.0136), (20, 0.112)):  # the bound reaches 1 at 13 units, and the law does not
        one = Gaussian.calibrated(1, Sensitivity(2, 1), delta=1e-5)
        with pytest.raises(ParameterError, match="would reach 1"):
            one.guarantee.group(size)
        assert float(one.group(size).delta) == pytest.approx(delta, rel=0.01)
    with pytest.raises(ParameterError, match="would reach 1"):
        one.group(10**6)
    norm = DiscreteGaussian.calibrated(1, Sensitivity.from_l2(4), delta=1e-6)
    assert norm.group(2).delta == min(norm.delta(2, Sensitivity.from_l2(16)), norm.guarantee.group(2).delta)
    shown = jobs.GaussianWithholding(1, 1e-6, Sensitivity(1, 1))
    assert shown.group(2) == shown.guarantee.group(2)
