# SPDX-License-Identifier: Apache-2.0
"""Events and loss distributions bound what is spent, closely, against exact closed forms."""

from __future__ import annotations

import itertools
import math
import pickle
import sys
from collections.abc import Iterator
from fractions import Fraction as F  # noqa: N817  most lines hold some

import pytest

pytest.importorskip("dp_accounting")

import dp_accounting
import mpmath
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from flint import arb, arb_poly, ctx

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, Sensitivity, Snapping
from dpfast.adapters import dp_accounting as adapter

RELEASES = (1, 10, 1000)
DEAR = (1, 10, pytest.param(1000, marks=pytest.mark.slow))
INTERVAL = 1e-4
DOUBLES = 1e-14  # their arithmetic is in doubles: of delta, for each release composed


# ------------------------------------------------------------ one cell is the worst, by enumeration


def hockey_stick(pairs, over, under) -> int:
    """The delta at exp(epsilon) = over/under, in whole parts: exactly."""
    return sum(max(0, under * p - over * q) for p, q in pairs)


def moved(pmf, moves) -> list:
    """All (P, Q) of independent cells with noise pmf, on -N..N, against the same cells moved."""
    reach = len(pmf) // 2
    at = dict(zip(range(-reach, reach + 1), pmf, strict=True))
    cells = []
    for d in moves:
        ends = range(-reach + min(d, 0), reach + max(d, 0) + 1)
        cells.append([(at.get(x, F(0)), at.get(x - d, F(0))) for x in ends])
    return [
        (math.prod((p for p, _ in cell), start=F(1)), math.prod((q for _, q in cell), start=F(1)))
        for cell in itertools.product(*cells)
    ]


def dominates(worse, better) -> bool:
    """Whether delta is larger at every price: linear between likelihood ratios."""
    parts = math.lcm(*(x.denominator for pair in (*worse, *better) for x in pair))
    one, other = ([(int(p * parts), int(q * parts)) for p, q in pairs] for pairs in (worse, better))
    prices = {F(p, q) for p, q in [*one, *other] if q} | {F(0)}
    ratios = [price.as_integer_ratio() for price in prices]
    return all(hockey_stick(one, *ratio) >= hockey_stick(other, *ratio) for ratio in ratios)


def normal(weights) -> list:
    half = [F(w) for w in weights]
    whole = [*half[:0:-1], *half]
    return [w / sum(whole) for w in whole]


LOG_CONCAVE = {
    "gaussian": normal([F(1, 2) ** (k * k) for k in range(4)]),
    "laplace": normal([F(2, 3) ** k for k in range(5)]),
    "binomial": normal([20, 15, 6, 1]),
    "uniform": normal([1, 1, 1]),
}
SPLITS = [((1, 1), 2), ((1, -1), 2), ((2, 1), 3), ((-2, -1), 3), ((1, 1, -1), 3), ((2, 2), 4)]


@pytest.mark.parametrize("noise", LOG_CONCAVE)
@pytest.mark.parametrize(("moves", "together"), SPLITS)
def test_a_change_in_one_cell_is_worse_than_the_same_in_several(noise, moves, together) -> None:
    """Exact at every epsilon, both directions, log-concave noise; more is worse than less."""
    one, several = moved(LOG_CONCAVE[noise], (together,)), moved(LOG_CONCAVE[noise], moves)
    assert dominates(one, several)
    assert dominates([(q, p) for p, q in one], [(q, p) for p, q in several])
    assert dominates(one, moved(LOG_CONCAVE[noise], (together - 1,)))


def test_the_enumeration_tells_noise_that_is_not_log_concave() -> None:
    """Heavy tails: there two cells moved by 1 are not dominated by one moved by 2."""
    heavy = normal([F(1, (1 + k * k) ** 2) for k in range(5)])
    assert not dominates(moved(heavy, (2,)), moved(heavy, (1, 1)))


def lattice_losses(q, change) -> dict:
    """Discrete Laplace noise's loss in units of its rate: {loss: probability}, with tails."""
    losses = {change - 2 * x: (1 - q) / (1 + q) * q**x for x in range(1, change)}
    return losses | {change: 1 / (1 + q), -change: q**change / (1 + q)}


@pytest.mark.parametrize("q", [F(1, 10), F(1, 2), F(99, 100)])
@pytest.mark.parametrize("split", [(1, 1), (2, 1), (1, 1, 1), (3, 2), (2, 2, 1)])
def test_a_change_in_one_cell_is_worse_for_discrete_laplace_with_all_its_tails(q, split) -> None:
    """Its losses have a closed form, so that nothing is cut off."""
    several = {0: F(1)}
    for change in split:
        several = _convolved(several, lattice_losses(q, change))
    one = lattice_losses(q, sum(split))
    assert sum(one.values()) == sum(several.values()) == 1

    def pairs(losses) -> list:
        return [(p, p * q**loss) for loss, p in losses.items()]

    assert dominates(pairs(one), pairs(several))
    assert not dominates(pairs(several), pairs(one))
    assert dominates([(p, p * (q / 2) ** loss) for loss, p in lattice_losses(q / 2, sum(split)).items()], pairs(one))


def _convolved(a, b) -> list:
    found = {}
    for (x, p), (y, r) in itertools.product(a.items(), b.items()):
        found[x + y] = found.get(x + y, 0) + p * r
    return found


# ----------------------------------------------------------------- rounded to the side of more loss

AWKWARD = [F(1), F(1, 3), F(2, 3), F(1, 10), F(7, 10), F(0.1), F(10, 7), F(355, 113), F(1, 2**40) + F(1, 2**99)]


def least_above(value, found) -> bool:
    return F(found) >= value > F(math.nextafter(found, 0))


def test_every_number_of_an_event_is_rounded_to_more_loss() -> None:
    """To the next double on that side; the nearest double would be wrong 50 times here."""
    wrong = 0  # what the nearest double would have got wrong
    for epsilon, change in itertools.product(AWKWARD, (F(1), F(3), F(7, 2))):
        event = DiscreteLaplace(epsilon, change).dp_event()
        assert isinstance(event.sensitivity, int)
        assert event.sensitivity == change // 1
        assert least_above(epsilon / change, event.noise_parameter)
        wrong += F(float(epsilon / change)) < epsilon / change

        for mechanism in (Laplace(epsilon, change), Snapping(epsilon, change, bound=2**60)):
            multiplier = mechanism.dp_event().noise_multiplier
            assert F(multiplier) <= 1 / epsilon < F(math.nextafter(multiplier, math.inf))
        wrong += F(float(1 / epsilon)) > 1 / epsilon

        sensitivity = Sensitivity(3, change)
        for made in (Gaussian, DiscreteGaussian):
            mechanism = made(sigma_squared=epsilon + 1, sensitivity=sensitivity)
            rho = mechanism.rho()
            assert least_above(rho, mechanism.dp_event(zcdp=True).rho)
            assert mechanism.dp_event(zcdp=True).xi == 0
            wrong += F(float(rho)) < rho
        square = (epsilon + 1) / sensitivity.l2_squared
        multiplier = Gaussian(sigma_squared=epsilon + 1, sensitivity=sensitivity).dp_event().noise_multiplier
        assert F(multiplier) ** 2 <= square < F(multiplier * (1 + 2.0**-51)) ** 2
        wrong += F(math.sqrt(square)) ** 2 > square
    assert wrong > 50


@pytest.mark.parametrize("sigma", [F(2) ** -900, F(1, 3), F(2) ** 900])
def test_extreme_multipliers_stay_below(sigma) -> None:
    multiplier = Gaussian(sigma, sensitivity=Sensitivity(1, 1)).dp_event().noise_multiplier
    assert 0 < F(multiplier) <= sigma
    assert math.isclose(multiplier, float(sigma), rel_tol=1e-15)


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(F(2) ** -900, 1), DiscreteLaplace(F(2) ** -60, 1), Gaussian(2**900, sensitivity=Sensitivity(1, 1))],
    ids=repr,
)
def test_next_to_no_loss_is_still_a_distribution(mechanism) -> None:
    losses = mechanism.privacy_loss_distribution().self_compose(1000)
    assert 0 <= losses.get_delta_for_epsilon(0.0) < 1e-10
    assert losses.get_epsilon_for_delta(1e-6) < 1e-9


# ---------------------------------------------------------------------- rho of the Laplace laws


def mean_loss(epsilon, change) -> F:
    """In 200 digits, by the sum itself, over (E L, the Renyi divergence of any order)."""
    rate = mpmath.mpf(epsilon.numerator) / epsilon.denominator / change
    losses = lattice_losses(mpmath.exp(-rate), change)
    mean = sum(p * loss * rate for loss, p in losses.items())

    def divergence(order) -> mpmath.mpf:
        return mpmath.log(sum(p * mpmath.exp((order - 1) * loss * rate) for loss, p in losses.items())) / (order - 1)

    return mean, divergence


@pytest.mark.parametrize("change", [1, 2, 3, 17])
@pytest.mark.parametrize("epsilon", [F(1, 1000), F(1, 3), F(2), F(2500)])
def test_rho_of_discrete_laplace_is_the_least(epsilon, change) -> None:
    """Renyi divergences of orders 1.0001 to 1,000 are below order * rho, the limit at 1."""
    with mpmath.workdps(200):
        mean, divergence = mean_loss(epsilon, change)
        found = DiscreteLaplace(epsilon, change).dp_event(zcdp=True)
        rho = mpmath.mpf(found.rho)
        assert mean <= rho <= mean * (1 + mpmath.mpf(2) ** -51)
        for order in ("1.0001", "1.01", "1.5", "2", "3", "8", "32", "1000"):
            assert divergence(mpmath.mpf(order)) <= mpmath.mpf(order) * mean
        assert divergence(1 + mpmath.mpf(10) ** -20) >= mean * (1 - mpmath.mpf(10) ** -150)


@pytest.mark.parametrize("epsilon", [F(1, 10**12), F(1, 3), F(2), F(300)])
def test_rho_of_laplace_is_its_limit(epsilon) -> None:
    with mpmath.workdps(200):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        exact = e - 1 + mpmath.exp(-e)
        rho = Laplace(epsilon, 5).dp_event(zcdp=True).rho
        assert exact <= rho <= exact * (1 + mpmath.mpf(2) ** -51)
        fine = DiscreteLaplace(epsilon, 10**4).dp_event(zcdp=True).rho  # and r/sinh(r) >= 1 - r^2/6
        assert rho <= fine <= rho * (1 + max(float(epsilon), 1e-7) * 1e-8)


@pytest.mark.parametrize("scale_exponent", [-60, -20, 20, 60])
def test_rho_holds_at_the_ends_of_the_scale(scale_exponent) -> None:
    epsilon = F(2) ** -scale_exponent
    rho = F(DiscreteLaplace(epsilon, 1).dp_event(zcdp=True).rho)
    most = min(epsilon, epsilon**2 / 2)  # [BS16] Proposition 1.4
    assert most * F(999, 1000) < rho <= most * (1 + F(1, 2**51))


# ---------------------------------------------------------------------- 1, 10 and 1,000 releases


def delta_of_lattice(losses, unit, releases, epsilon) -> arb:
    """The delta of independent losses on {loss: probability} * unit, in intervals with tails."""
    least = min(losses)
    power = arb_poly([losses.get(k, arb(0)) for k in range(least, max(losses) + 1)]) ** releases
    first = max(math.floor(float(epsilon) / float(unit)) - 1, least * releases)
    total, step = arb(0), (-unit).exp()
    price = (arb(epsilon.numerator) / epsilon.denominator - first * unit).exp()
    for mass in power.coeffs()[first - least * releases :]:
        total += mass * (1 - price).max(0)
        price *= step
    return total


@pytest.fixture
def bits() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 256
    yield
    ctx.prec = before


def total_epsilons(rho, releases) -> list:
    """Where delta is near 1/10, and near 1e-6."""
    rho = releases * rho
    return [F(rho + 0.5 * math.sqrt(rho)), F(rho + 6 * math.sqrt(rho))]


def zcdp_epsilon(rho, delta) -> float:
    """The epsilon of [BS16] Proposition 1.3."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def accountant(kind, event, releases) -> dp_accounting.PrivacyAccountant:
    return kind().compose(dp_accounting.SelfComposedDpEvent(event, releases))


def many(distribution, releases) -> object:
    return distribution if releases == 1 else distribution.self_compose(releases)


def lower(ball) -> float:
    return float(ball.lower()) * (1 - 1e-15)


def upper(ball) -> float:
    return float(ball.upper()) * (1 + 1e-15)


@pytest.mark.parametrize("releases", DEAR)
@pytest.mark.parametrize(("epsilon", "change"), [(F(1, 10), 1), (F(1, 4), 3)])
def test_discrete_laplace(epsilon, change, releases, bits) -> None:
    """Its loss distribution to 1e-5, its event to their accountant's rounding, its rho above."""
    mechanism = DiscreteLaplace(epsilon, change)
    rate = arb(epsilon.numerator) / epsilon.denominator / change
    losses = lattice_losses((-rate).exp(), change)
    event, rho = mechanism.dp_event(), mechanism.dp_event(zcdp=True)
    composed = many(mechanism.privacy_loss_distribution(), releases)
    theirs = accountant(PLDAccountant, event, releases)
    for total in total_epsilons(rho.rho, releases):
        exact = delta_of_lattice(losses, rate, releases, total)
        slack = releases * DOUBLES
        assert lower(exact) - slack <= composed.get_delta_for_epsilon(float(total))
        assert composed.get_delta_for_epsilon(float(total)) <= upper(exact) * (1 + 1e-5) + slack
        assert lower(exact) - slack <= theirs.get_delta(float(total))
        # their accountant rounds each loss up to the next multiple of the interval
        assert theirs.get_delta(float(total) + releases * INTERVAL * 1.001) <= upper(exact) + slack
    for delta in (1e-3, 1e-6):
        spent = accountant(RdpAccountant, rho, releases).get_epsilon(delta)
        assert lower(delta_of_lattice(losses, rate, releases, F(spent))) <= delta
        assert spent <= zcdp_epsilon(releases * rho.rho, delta)
        assert composed.get_epsilon_for_delta(delta) <= min(
            spent, releases * float(epsilon) + 1e-9
        )  # or basic composition


@pytest.mark.parametrize("releases", [1, 10, 40])
@pytest.mark.parametrize(
    ("sensitivity", "worst"),
    [
        (Sensitivity(3, 2, l1=4), (2, 2)),
        (Sensitivity(2, 3, l1=4), (3, 1)),
        (Sensitivity(2, 1, adjacency="substitution"), (1, 1, 1, 1)),
        (Sensitivity(2, 1, adjacency="substitution", cells=3), (1, 1, 1)),
        (Sensitivity(2, 2, l1=3, adjacency="substitution", signed=True), (4, 2)),
    ],
)
def test_discrete_laplace_in_several_cells(sensitivity, worst, releases, bits) -> None:
    """Bounds of rows in all, few cells and signed changes: the losses of the worst, to 1e-3."""
    mechanism, epsilon = DiscreteLaplace(1, sensitivity), F(1)
    rate = arb(1) / sum(worst)
    losses = {0: arb(1)}
    for change in worst:
        losses = _convolved(losses, lattice_losses((-rate).exp(), change))
    composed = many(mechanism.privacy_loss_distribution(), releases)
    for total in (epsilon * releases / 3, epsilon * releases * 2 / 3):
        exact, slack = delta_of_lattice(losses, rate, releases, total), releases * DOUBLES
        found = composed.get_delta_for_epsilon(float(total))
        assert lower(exact) - slack <= found <= upper(exact) * (1 + 1e-3) + slack


def laplace_brackets(epsilon, pieces) -> tuple:
    """Losses of Laplace noise moved by epsilon scales: two bounds, on a lattice of epsilon/pieces.

    Less: rounded down to multiples of a piece, which is post-processing. A cell j pieces above 0
    and below the move has loss (pieces - 1 - 2j) units. More: discrete Laplace noise on the
    lattice, which is Laplace noise after an independent addition (the difference of two
    exponentials cut off at one piece).
    """
    unit = arb(epsilon.numerator) / epsilon.denominator / pieces
    less = {pieces: arb(1) / 2, -pieces: (-unit * pieces).exp() / 2}
    for j in range(pieces):
        less[pieces - 1 - 2 * j] = ((-unit * j).exp() - (-unit * (j + 1)).exp()) / 2
    return unit, less, lattice_losses((-unit).exp(), pieces)


@pytest.mark.parametrize("releases", DEAR)
def test_laplace(releases, bits) -> None:
    """Its distribution and its event lie between the brackets, at most 1.5 % apart; and its rho."""
    epsilon = F(1, 10)
    mechanism = Laplace(epsilon, 3)
    unit, less, more = laplace_brackets(epsilon, 8)
    event = mechanism.dp_event()
    composed = many(mechanism.privacy_loss_distribution(), releases)
    theirs = accountant(PLDAccountant, event, releases)
    for total in total_epsilons(mechanism.dp_event(zcdp=True).rho, releases):
        if total >= releases * epsilon:
            continue
        least, most = (delta_of_lattice(losses, unit, releases, total) for losses in (less, more))
        slack = releases * DOUBLES
        assert upper(most) <= lower(least) * 1.015
        for found in (composed.get_delta_for_epsilon(float(total)), theirs.get_delta(float(total))):
            assert lower(least) - slack <= found <= upper(most) * (1 + 1e-4) + slack
    if releases == 1:  # 1 - exp((total - epsilon)/2), exactly
        for total in (0.01, 0.05, 0.09):
            exact = -math.expm1((total - float(epsilon)) / 2)
            assert exact * (1 - 1e-12) <= composed.get_delta_for_epsilon(total) <= exact * (1 + 1e-6)
    for delta in (1e-3, 1e-6):
        by_orders = accountant(RdpAccountant, event, releases).get_epsilon(delta)
        by_rho = accountant(RdpAccountant, mechanism.dp_event(zcdp=True), releases).get_epsilon(delta)
        assert lower(delta_of_lattice(less, unit, releases, F(by_orders))) <= delta
        assert by_orders <= by_rho + 1e-12
        assert composed.get_epsilon_for_delta(delta) <= min(by_orders, releases * float(epsilon) + 1e-9)


def test_discrete_laplace_moved_by_one_is_the_worst_release_of_its_epsilon() -> None:
    """So the optimal composition of [KOV15] is its own, exactly."""
    for releases in RELEASES:
        composed = many(DiscreteLaplace(F(1, 10), 1).privacy_loss_distribution(), releases)
        parts = [dpfast.Guarantee(F(1, 10))] * releases
        exact = float(dpfast.compose(*parts, by="optimal", delta=1e-6).epsilon)
        assert exact * (1 - 1e-9) <= composed.get_epsilon_for_delta(1e-6) <= exact * (1 + 1e-6)


def test_snapping_is_accounted_as_laplace() -> None:
    laplace, snapping = Laplace(F(1, 3), 2), Snapping(F(1, 3), 2, bound=64)
    assert snapping.dp_event() == laplace.dp_event()
    assert snapping.dp_event(zcdp=True) == laplace.dp_event(zcdp=True)
    deltas = [each.privacy_loss_distribution().get_delta_for_epsilon(0.1) for each in (laplace, snapping)]
    assert deltas[0] == deltas[1]


@pytest.mark.parametrize("releases", RELEASES)
def test_gaussian(releases) -> None:
    """n releases are one of n times the squared norm, in intervals: [BW18] Theorem 8."""
    mechanism = Gaussian(60, sensitivity=Sensitivity(2, 3))
    together = Sensitivity.from_l2(mechanism.sensitivity.l2_squared * releases)
    event = mechanism.dp_event()
    composed = many(mechanism.privacy_loss_distribution(), releases)
    theirs = accountant(PLDAccountant, event, releases)
    rho = float(mechanism.rho())
    for total in total_epsilons(rho, releases):
        exact = mechanism.delta(total, together)
        for found in (composed.get_delta_for_epsilon(float(total)), theirs.get_delta(float(total))):
            assert exact * (1 - 1e-12) - releases * DOUBLES <= found <= exact * (1 + 1e-3) + releases * DOUBLES
    for delta in (1e-3, 1e-6):
        for each in (event, mechanism.dp_event(zcdp=True)):
            spent = accountant(RdpAccountant, each, releases).get_epsilon(delta)
            assert mechanism.delta(spent, together) <= delta
            assert spent <= zcdp_epsilon(releases * rho, delta)


DISCRETE = {
    "one cell": Sensitivity(1, 1),
    "cells": Sensitivity(3, 2),
    "moved by a fraction": Sensitivity.changes(2, 2.9),
    "a signed substitution": Sensitivity(2, 1, adjacency="substitution", signed=True),
}


@pytest.mark.parametrize("releases", RELEASES)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_gaussian(name, releases) -> None:
    """n releases of l0 cells are one of n l0 cells, in intervals; RDP goes through zCDP."""
    mechanism = DiscreteGaussian(30, sensitivity=DISCRETE[name])
    cells, change = mechanism.sensitivity.largest
    together = Sensitivity.changes(releases * cells, change)
    composed = many(mechanism.privacy_loss_distribution(), releases)
    event = mechanism.dp_event()
    assert isinstance(event, dp_accounting.ZCDpEvent)
    for total in total_epsilons(float(mechanism.rho()), releases):
        exact = mechanism.delta(total, together)
        slack = releases * cells * DOUBLES
        assert exact * (1 - 1e-12) - slack <= composed.get_delta_for_epsilon(float(total)) <= exact * (1 + 1e-3) + slack
    for delta in (1e-3, 1e-6):
        spent = accountant(RdpAccountant, event, releases).get_epsilon(delta)
        assert mechanism.delta(spent, together) <= delta
        assert spent <= zcdp_epsilon(releases * event.rho, delta)
        assert composed.get_epsilon_for_delta(delta) <= spent


def test_a_discrete_gaussian_narrower_than_the_change_is_still_accounted() -> None:
    """sigma = 3/20, a change of 3: the noise is 0 but for e^-22, where the loss is 200."""
    mechanism = DiscreteGaussian(F(3, 20), sensitivity=Sensitivity(1, 3))
    found = mechanism.privacy_loss_distribution()
    for total in (199, 201):
        assert math.isclose(found.get_delta_for_epsilon(float(total)), mechanism.delta(total), rel_tol=1e-4)


def test_laws_compose_with_each_other() -> None:
    """Distributions share an interval and spend at most each one's sum at its delta share."""
    mechanisms = [
        DiscreteLaplace(F(1, 2), 1),
        Laplace(F(1, 3), 1),
        Gaussian(10, sensitivity=Sensitivity(1, 1)),
        DiscreteGaussian(10, sensitivity=Sensitivity(2, 1)),
    ]
    together, *rest = (mechanism.privacy_loss_distribution() for mechanism in mechanisms)
    alone = [each.get_epsilon_for_delta(1e-6 / 4) for each in (together, *rest)]
    for each in rest:
        together = together.compose(each)
    assert max(alone) < together.get_epsilon_for_delta(1e-6) < sum(alone)
    events = dp_accounting.ComposedDpEvent([mechanism.dp_event(zcdp=True) for mechanism in mechanisms])
    assert together.get_epsilon_for_delta(1e-6) < RdpAccountant().compose(events).get_epsilon(1e-6)


def test_a_coarser_interval_is_above_a_finer_one() -> None:
    mechanism = Gaussian(3, sensitivity=Sensitivity(1, 1))
    fine = mechanism.privacy_loss_distribution()
    coarse = mechanism.privacy_loss_distribution(value_discretization_interval=0.05)
    least, found = (each.get_delta_for_epsilon(0.51) for each in (fine, coarse))
    assert least < found < 1.1 * least


# ----------------------------------------------------------- whose sensitivity, and what is refused


def test_a_gaussian_made_from_sigma_alone_needs_the_sensitivity() -> None:
    for bare in (Gaussian(7), DiscreteGaussian(7)):
        for ask in (bare.dp_event, bare.privacy_loss_distribution):
            with pytest.raises(dpfast.errors.ParameterError, match="sensitivity must be given"):
                ask()
            with pytest.raises(dpfast.errors.DTypeError, match="sensitivity must be a Sensitivity"):
                ask(3)
        known = type(bare)(7, sensitivity=Sensitivity(3, 2))
        assert bare.dp_event(Sensitivity(3, 2)) == known.dp_event() != known.dp_event(Sensitivity(1, 1))
        losses = bare.privacy_loss_distribution(Sensitivity(3, 2)), known.privacy_loss_distribution()
        assert losses[0].get_delta_for_epsilon(0.5) == losses[1].get_delta_for_epsilon(0.5)


def test_a_laplace_law_has_its_own_sensitivity() -> None:
    for mechanism in (Laplace(1, 1), DiscreteLaplace(1, 1), Snapping(1, 1, bound=8)):
        for ask in (mechanism.dp_event, mechanism.privacy_loss_distribution):
            with pytest.raises(dpfast.errors.ParameterError, match="has its own"):
                ask(Sensitivity(1, 1))


def test_noise_that_is_no_mechanism_has_no_event() -> None:
    for ask in (OneSidedGeometric(1, 1).dp_event, OneSidedGeometric(1, 1).privacy_loss_distribution):
        with pytest.raises(dpfast.errors.DTypeError, match="OneSidedGeometric is not a mechanism"):
            ask()
    with pytest.raises(dpfast.errors.DTypeError, match="int is not a mechanism"):
        adapter.dp_event(3)


def test_a_norm_alone_has_no_distribution_of_losses() -> None:
    mechanism = DiscreteGaussian(3, sensitivity=Sensitivity.from_l2(2))
    assert mechanism.dp_event() == dp_accounting.ZCDpEvent(math.nextafter(1 / 9, 1) if F(1 / 9) < F(1, 9) else 1 / 9)
    with pytest.raises(dpfast.errors.ParameterError, match="known as .l0, linf."):
        mechanism.privacy_loss_distribution()


def test_changes_below_one_are_refused_on_integers() -> None:
    for ask in (DiscreteLaplace(1, F(1, 2)).dp_event, DiscreteLaplace(1, F(1, 2)).privacy_loss_distribution):
        with pytest.raises(
            dpfast.errors.ParameterError, match="sensitivity must be at least 1 for integer cells, got 0.5"
        ):
            ask()
    with pytest.raises(dpfast.errors.ParameterError, match="linf must be at least 1"):
        DiscreteGaussian(1, sensitivity=Sensitivity(1, F(1, 2))).privacy_loss_distribution()


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(513, 1),
        DiscreteLaplace(600, 1),
        DiscreteLaplace(1, 2**23),
        Gaussian(F(1, 100), sensitivity=Sensitivity(1, 1)),
        DiscreteGaussian(10**6, sensitivity=Sensitivity(1, 1)),
        DiscreteGaussian(F(1, 1000), sensitivity=Sensitivity(1, 1)),
    ],
    ids=repr,
)
def test_what_would_fill_the_memory_is_refused_and_has_its_event(mechanism) -> None:
    with pytest.raises(dpfast.errors.ParameterError, match=r"dp_event\(\) has no such limit"):
        mechanism.privacy_loss_distribution()
    assert mechanism.dp_event() is not None


@pytest.mark.parametrize("interval", [0, -1e-4, math.nan, math.inf, 1e-9])
def test_an_interval_without_sense_is_refused(interval) -> None:
    with pytest.raises(dpfast.errors.ParameterError, match="value_discretization_interval"):
        Laplace(1, 1).privacy_loss_distribution(value_discretization_interval=interval)


def test_another_neighbouring_relation_is_the_accountants_own_affair() -> None:
    """docs/adapters.md: an event holds the sensitivity; one for REPLACE_ONE does not fit."""
    replace = dp_accounting.NeighboringRelation.REPLACE_ONE
    for mechanism in (Laplace(1, 1), DiscreteLaplace(1, 1)):
        assert not PLDAccountant(replace).supports(mechanism.dp_event())
    event = Gaussian(5, sensitivity=Sensitivity(1, 1)).dp_event()
    ours, theirs = (each.compose(event).get_epsilon(1e-6) for each in (PLDAccountant(), PLDAccountant(replace)))
    assert theirs > 2 * ours


def test_events_survive_pickling_and_mechanisms_that_were_pickled_give_the_same() -> None:
    for mechanism in (DiscreteLaplace(F(1, 3), 2), Gaussian(3, sensitivity=Sensitivity(1, 1))):
        again = pickle.loads(pickle.dumps(mechanism))
        assert pickle.loads(pickle.dumps(again.dp_event())) == mechanism.dp_event()


def test_without_the_library_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.delitem(sys.modules, "dpfast.adapters.dp_accounting")
    monkeypatch.delattr(dpfast.adapters, "dp_accounting", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'dpfast\[accounting\]'"):
        DiscreteLaplace(1, 1).dp_event()
