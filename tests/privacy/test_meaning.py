# SPDX-License-Identifier: Apache-2.0
"""Beliefs after a release, privacy loss, the noise's reach: small worlds, closed forms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from places import ROOT
from reference import DiscreteLaplace as Law

import dpfast
from dpfast.privacy import meaning
from dpfast.privacy.belief import posterior
from dpfast.privacy.formatting import percent
from dpfast.privacy.meaning import DiscreteLaplaceLoss, GaussianLoss, LaplaceLoss, ZCDPLoss, likely

Q = Fraction(1, 2)  # in small worlds a step of the noise is worth a factor of 2
HALF = Fraction(1, 2)
PRIORS = [Fraction(1, 100), Fraction(1, 3), HALF, Fraction(9, 10)]
LN_2 = Fraction(math.log(2))  # to 17 digits
Bounds = Callable[[Fraction, Fraction], tuple[float, float]]


# beliefs


def noise(k: int) -> Fraction:
    """P(X = k) of the discrete Laplace law."""
    return (1 - Q) / (1 + Q) * Q ** abs(k)


def cells(answer: tuple[int, ...], y: tuple[int, ...]) -> Fraction:
    """P(release = y) of an answer of several cells."""
    return math.prod(noise(b - a) for a, b in zip(answer, y, strict=True))


Case = dict[tuple[int, ...], Fraction]  # answers, and how likely they are


def after(prior: Fraction, true: Case, false: Case) -> list[Fraction]:
    """Belief after each release: beyond 3 steps of all answers the likelihoods have one ratio."""
    size = len(next(iter(true)))
    found = []
    for y in itertools.product(range(-3, 7), repeat=size):
        yes, no = (sum(weight * cells(answer, y) for answer, weight in case.items()) for case in (true, false))
        found.append(prior * yes / (prior * yes + (1 - prior) * no))
    return found


def worlds() -> list[tuple[int, Case, Case]]:
    """Two units' counts, 0 to 2 in one or two cells: (steps to a neighbour, true, false)."""
    third = Fraction(1, 3)
    rest = [{0: Fraction(1)}, {2: Fraction(1)}, {0: third, 1: third, 2: third}]
    found = []
    for others in rest:
        for own in ({2: Fraction(1)}, {1: HALF, 2: HALF}, {0: third, 2: 2 * third}):
            present: Case = {}
            for (a, u), (b, w) in itertools.product(others.items(), own.items()):
                present[(a + b,)] = present.get((a + b,), Fraction(0)) + u * w
            found.append((2, present, {(a,): w for a, w in others.items()}))
    # two cells: the unit in one of them, in the other, or away
    found.append((1, {(1, 0): HALF, (0, 1): HALF}, {(0, 0): Fraction(1)}))
    found.append((1, {(1, 0): Fraction(1)}, {(0, 0): Fraction(1)}))
    return found


def holds(bounds: Bounds, statements: list[tuple[int, Case, Case]]) -> bool:
    """Whether no belief leaves the bounds, in any of these worlds."""
    for steps, true, false in statements:
        for prior in PRIORS:
            low, high = bounds(prior, steps * LN_2)
            found = after(prior, true, false)
            if not (low <= min(found) * (1 + Fraction(1, 10**15)) and max(found) <= high * (1 + 1e-15)):
                return False
    return True


def test_beliefs_in_small_worlds_stay_within_the_bounds_and_reach_them() -> None:
    """Exact rationals: tight for two known answers, and right for mixtures."""
    assert holds(posterior, worlds())
    for prior in PRIORS:
        found = after(prior, {(2,): Fraction(1)}, {(0,): Fraction(1)})
        low, high = posterior(prior, 2 * LN_2)
        assert float(min(found)) == pytest.approx(low, rel=1e-14)
        assert float(max(found)) == pytest.approx(high, rel=1e-14)


def test_wrong_bounds_are_found_out() -> None:
    def without_a_factor(p: Fraction, e: Fraction) -> tuple[float, float]:  # odds without the 1 + p (...)
        return float(p), float(p) * math.exp(float(e) / 2)

    def of_half_the_epsilon(p: Fraction, e: Fraction) -> tuple[float, float]:
        return posterior(p, e / 2)

    def a_ratio_of_probabilities(
        p: Fraction, e: Fraction
    ) -> tuple[float, float]:  # the upper one is valid, and no more
        return float(p), min(1.0, float(p) * math.exp(float(e)))

    for wrong in (without_a_factor, of_half_the_epsilon, a_ratio_of_probabilities):
        assert not holds(wrong, worlds())


def test_of_a_unit_that_is_there_twice_the_epsilon_holds_under_add_remove() -> None:
    """In one cell or in the other: two steps of add-remove, one of substitution."""
    moved: tuple[Case, Case] = ({(1, 0): Fraction(1)}, {(0, 1): Fraction(1)})
    assert not holds(posterior, [(1, *moved)])
    assert holds(posterior, [(2, *moved)])


def test_others_that_tell_of_the_unit_are_another_matter() -> None:
    """If its kin come with it, their data are the evidence: one unit's epsilon is no bound."""
    assert not holds(posterior, [(1, {(3,): Fraction(1)}, {(0,): Fraction(1)})])


@pytest.mark.parametrize("prior", [Fraction(1, 10**300), 1e-9, 0.01, Fraction(1, 3), 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("epsilon", [0, 1e-300, 2.0**-60, 0.1, Fraction(1, 3), 1, 20, 700, 10**5, 1e300])
def test_bounds_are_rounded_outwards(prior, epsilon) -> None:
    low, high = posterior(prior, epsilon)
    with mpmath.workprec(4000):
        p, e = (mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator for x in (prior, epsilon))
        least = p / (p + (1 - p) * mpmath.exp(e)) if e < 2000 else mpmath.mpf(0)
        most = p / (p + (1 - p) * mpmath.exp(-e))
        assert 0 <= low <= max(least, 0)
        assert most * (1 - mpmath.mpf(10) ** -300) <= high <= 1
        assert low >= least * (1 - 2.0**-40) or least < 1e-307
        assert high <= most * (1 + 2.0**-40)


@pytest.mark.parametrize(("prior", "epsilon"), [(0, 1), (1, 1), (-0.5, 1), (0.5, -1), (0.5, math.inf), (math.nan, 1)])
def test_what_is_no_prior_or_no_epsilon_is_refused(prior, epsilon) -> None:
    with pytest.raises(dpfast.errors.ParameterError, match="prior|epsilon"):
        posterior(prior, epsilon)


# the share of releases for which a Gaussian says it


SHARES = [Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 100)]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("rho", [Fraction(1, 10**6), Fraction(28, 1000), HALF, Fraction(100)])
def test_the_loss_of_zcdp_exceeds_likely_in_no_larger_share(rho, share) -> None:
    """Both tails of a Gaussian's normal loss; and seven tenths of the way would be too little."""

    def beyond(epsilon: float) -> float:
        with mpmath.workprec(200):
            mean = mpmath.mpf(rho.numerator) / rho.denominator
            spread = mpmath.sqrt(2 * mean)
            return float(mpmath.ncdf((mean - epsilon) / spread) + mpmath.ncdf((-epsilon - mean) / spread))

    found = likely(rho, share)
    assert beyond(found) <= share
    assert beyond(float(rho) + 0.7 * (found - float(rho))) > share


def mixture(share: Fraction, squared: Fraction, weights: dict[int, Fraction]) -> tuple[float, float]:
    """P(|L| > likely) for discrete Gaussian noise about 0 or other integers, under either."""
    k = np.arange(-400, 401)
    bell = lambda at: np.exp(-((k - at) ** 2) / (2 * float(squared)))  # noqa: E731
    false = bell(0) / bell(0).sum()
    true = sum(float(weight) * bell(at) for at, weight in weights.items()) / bell(0).sum()
    rho = Fraction(max(abs(at) for at in weights) ** 2) / (2 * squared)
    inside = (true > 0) & (false > 0)
    loss = np.log(true[inside] / false[inside])
    beyond = np.abs(loss) > likely(rho, share)
    return float(true[inside][beyond].sum()), float(false[inside][beyond].sum())


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(
    "weights", [{1: Fraction(1)}, {3: Fraction(1)}, {-3: HALF, 3: HALF}, {-1: Fraction(1, 10), 2: Fraction(9, 10)}]
)
def test_that_holds_for_discrete_noise_and_for_mixtures(share, weights) -> None:
    for squared in (Fraction(1, 4), Fraction(2), Fraction(100)):
        assert max(mixture(share, squared, weights)) <= share


# the privacy loss


def enumerated(rate: Fraction, change: int) -> dict[mpmath.mpf, mpmath.mpf]:
    """Losses and their probabilities, summed over outputs."""
    with mpmath.workprec(300):
        r = mpmath.mpf(rate.numerator) / rate.denominator
        q = mpmath.exp(-r)
        far = change + int(60 / rate) + 60
        found: dict[mpmath.mpf, mpmath.mpf] = {}
        for k in range(-far, far + 1):
            loss = r * (abs(k - change) - abs(k))
            found[loss] = found.get(loss, 0) + (1 - q) / (1 + q) * q ** abs(k)
        return found


@pytest.mark.parametrize(
    ("rate", "change"), [(1, 1), (Fraction(1, 3), 6), (Fraction(1, 10), 3), (20, 2), (Fraction(1, 7), 0)]
)
def test_the_loss_of_discrete_laplace_noise(rate, change) -> None:
    rate = Fraction(rate)
    loss, found = DiscreteLaplaceLoss(rate, change), enumerated(rate, change)
    assert loss.most == rate * change
    with mpmath.workprec(300):
        mean = sum(at * p for at, p in found.items())
        assert mean - mpmath.mpf(10) ** -24 <= loss.mean <= mean + 1e-12 * abs(mean)
    for twice in range(-2 * change - 2, 2 * change + 3):
        at = rate * twice / 2 + Fraction(1, 10**9)
        true = sum(p for x, p in found.items() if x > float(at))
        assert loss.above(at) == pytest.approx(float(true), rel=1e-12, abs=1e-24)
    assert loss.above(loss.most) == 0
    assert loss.above(-loss.most - 1) == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 2**60), Fraction(1, 10), Fraction(1), Fraction(30)])
def test_the_loss_of_laplace_noise(epsilon) -> None:
    """Mean e - 1 + exp(-e), by quadrature; atoms 1/2 and exp(-e)/2; the discrete limit."""
    loss = LaplaceLoss(epsilon)
    with mpmath.workprec(300):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        inner = mpmath.quad(lambda y: mpmath.exp(-y) * (e - 2 * y), mpmath.linspace(0, e, 9)) / 2
        mean = e / 2 - e * mpmath.exp(-e) / 2 + inner
        assert mean * (1 - mpmath.mpf(10) ** -20) <= loss.mean <= mean * (1 + 1e-12)
    assert loss.above(epsilon) == 0
    assert loss.above(epsilon * (1 - Fraction(1, 10**15))) == pytest.approx(0.5, abs=1e-12)
    assert 1 - loss.above(-epsilon) == pytest.approx(math.exp(-epsilon) / 2, abs=1e-14)
    fine = DiscreteLaplaceLoss(epsilon / 10**4, 10**4)
    assert fine.mean == pytest.approx(loss.mean, rel=1e-4)
    assert fine.above(epsilon / 3) == pytest.approx(loss.above(epsilon / 3), rel=1e-3)


def test_a_mean_of_another_formula_is_told_apart() -> None:
    """tanh alone, e^2/2, and the real law's mean for the discrete one."""
    mean = DiscreteLaplaceLoss(Fraction(1, 3), 3).mean
    for other in (math.tanh(0.5), 0.5, LaplaceLoss(Fraction(1)).mean, 1 - (1 - math.exp(-1))):
        assert abs(other / mean - 1) > 0.01
    assert DiscreteLaplaceLoss(Fraction(1), 1).mean == pytest.approx(math.tanh(0.5), rel=1e-12)  # randomised response


def test_one_cell_is_worst() -> None:
    """For two cells that change by 3 in sum, no delta or mean loss exceeds one cell's."""

    def losses(changes: tuple[int, ...]) -> dict[int, Fraction]:
        found = {0: Fraction(1)}
        for d in changes:
            one: dict[int, Fraction] = {}
            for k in range(1, d):
                one[d - 2 * k] = noise(k)
            one[d], one[-d] = 1 / (1 + Q), Q**d / (1 + Q)
            found_next: dict[int, Fraction] = {}
            for (a, p), (b, r) in itertools.product(found.items(), one.items()):
                found_next[a + b] = found_next.get(a + b, Fraction(0)) + p * r
            found = found_next
        assert sum(found.values()) == 1
        return found

    def delta(changes: tuple[int, ...], steps: Fraction) -> Fraction:
        return sum((p * (1 - Q**loss / Q**steps) for loss, p in losses(changes).items() if loss > steps), Fraction(0))

    for changes in [(1, 2), (2, 1), (1, 1, 1)]:
        assert all(delta(changes, steps) <= delta((3,), steps) for steps in range(-3, 4))
        assert sum(x * p for x, p in losses(changes).items()) < sum(x * p for x, p in losses((3,)).items())
        assert delta(changes, 0) < delta((3,), 0)


@pytest.mark.parametrize("rho", [Fraction(28, 1000), Fraction(2)])
def test_the_loss_of_gaussian_noise(rho) -> None:
    """Normal, of mean rho and variance 2 rho; and what zCDP says is above it."""
    exact, bound = GaussianLoss(rho), ZCDPLoss(rho)
    assert exact.mean == bound.mean == pytest.approx(float(rho), rel=1e-12)
    for z in (-2, 0, 1, 3, 6):
        at = rho + z * Fraction(math.sqrt(2 * rho))
        assert exact.above(at) == pytest.approx(math.erfc(z / math.sqrt(2)) / 2, rel=1e-9)
        assert exact.above(at) <= bound.above(at) <= 1


def test_the_loss_of_discrete_gaussian_noise() -> None:
    """Its mean is rho, for any change; its tail stays below what zCDP says."""
    squared, k = Fraction(3, 2), np.arange(-60, 61)
    mechanism = dpfast.DiscreteGaussian(sigma_squared=squared)
    for change in (1, 2, 5):
        rho = Fraction(change**2) / (2 * squared)
        losses = (change**2 + 2 * change * k) / (2 * float(squared))
        weights = mechanism.pmf(k)
        assert float((losses * weights).sum()) == pytest.approx(float(rho), rel=1e-12)
        for at in np.linspace(-2, 12, 29):
            assert weights[losses > at].sum() <= ZCDPLoss(rho).above(Fraction(at)) * (1 + 1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        dpfast.DiscreteLaplace(1, 1),
        dpfast.DiscreteLaplace(2, 5),
        dpfast.Laplace(0.7, 3),
        dpfast.Gaussian.from_zcdp(0.3, dpfast.Sensitivity(3, 1)),
    ],
    ids=["discrete, atoms of 1", "discrete, of 5", "real", "gaussian"],
)
def test_dp_accounting_finds_the_same_losses(mechanism) -> None:
    """delta(e), the integral of P(L > e + t) exp(-t), from their distribution and from ours."""
    pytest.importorskip("dp_accounting")
    if isinstance(mechanism, dpfast.DiscreteLaplace):
        loss = DiscreteLaplaceLoss(mechanism.epsilon / mechanism.sensitivity, int(mechanism.sensitivity))
    else:
        loss = (
            LaplaceLoss(mechanism.epsilon) if isinstance(mechanism, dpfast.Laplace) else GaussianLoss(mechanism.rho())
        )
    theirs, far = mechanism.privacy_loss_distribution(), float(loss.most or 6)
    for epsilon in (-0.5, 0.25):
        t = np.linspace(0, far - epsilon, 2001)
        middles = (t[1:] + t[:-1]) / 2
        above = np.array([loss.above(Fraction(epsilon + x)) for x in middles])
        ours = float((above * -np.diff(np.exp(-t))).sum())
        assert ours == pytest.approx(theirs.get_delta_for_epsilon(epsilon), abs=4e-4)


# how far noise reaches


def test_the_textbook_fails_for_whole_noise() -> None:
    """scale 1, 95 %: ln 20 = 2.9957, and 3 or more comes with probability 0.0728."""
    assert meaning.textbook(Fraction(1), Fraction(1, 20), 1) == pytest.approx(math.log(20), rel=1e-14)
    missed = meaning.textbook_misses(Fraction(1), Fraction(1, 20), 1)
    assert missed == pytest.approx(2 * math.exp(-3) / (1 + math.exp(-1)), rel=1e-14)
    assert f"{missed:.3f}" == "0.073"


@pytest.mark.parametrize("cells", [1, 20, 10**6])
@pytest.mark.parametrize("beta", [HALF, Fraction(1, 20), Fraction(1, 100)])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(7, 2), Fraction(1000)])
def test_the_textbook_holds_for_real_noise_and_the_interval_for_whole_noise(scale, beta, cells) -> None:
    width = meaning.textbook(scale, beta, cells)
    assert -math.expm1(cells * math.log1p(-math.exp(-width / float(scale)))) <= beta * (1 + 1e-12)
    law, mechanism = Law(1 / scale), dpfast.DiscreteLaplace(1, scale)

    def beyond(half: float) -> float:
        with mpmath.workprec(300):
            one = 2 * mpmath.mpf(law.cdf(-math.floor(half) - 1))
            return float(1 - (1 - one) ** cells)

    assert meaning.textbook_misses(scale, beta, cells) == pytest.approx(beyond(width), rel=1e-9)
    half = mechanism.interval(1 - beta, cells=cells)
    assert beyond(half) <= beta
    assert half == 0 or beta < beyond(half - 1)


# docs/meaning.md

PAGE = (ROOT / "docs" / "meaning.md").read_text("utf-8")


def test_the_table_of_beliefs_in_the_docs_is_what_they_are() -> None:
    head, _, *rows = [
        line
        for line in PAGE.splitlines()
        if (line.startswith("| ") and " % |" in line) or line == "| --- | --- | --- | --- | --- |"
    ]
    priors = [Fraction(word.strip(" %")) / 100 for word in head.split("|")[2:-1]]
    assert len(rows) == 3
    for row in rows:
        epsilon, *cells = (cell.strip() for cell in row.split("|")[1:-1])
        for prior, cell in zip(priors, cells, strict=True):
            low, high = map(Fraction, posterior(prior, Fraction(epsilon)))
            assert cell == f"{percent(low, up=False)} to {percent(high, up=True)}"


def test_what_is_said_of_ann_in_the_docs_is_what_a_belief_can_be() -> None:
    """A guess at her presence meets epsilon, and one at her data twice that, under add-remove."""
    said = " ".join(PAGE.split())
    for epsilon, digits, sentence in (
        (1, 2, "they can now be at most {high} sure that she is, and at least {low}."),
        (2, 3, "take 2ε: 50 % that she is ill can become {low} to {high}."),
    ):
        ends = [f"{100 * float(end):.{digits}g} %" for end in posterior(Fraction(1, 2), Fraction(epsilon))]
        assert sentence.format(low=ends[0], high=ends[1]) in said


def test_a_rho_with_a_delta_is_said_to_be_approximate() -> None:
    """As thresholded releases have it: rho-zCDP alone would claim more."""
    with_delta = dpfast.Guarantee(1, "1e-6", rho="0.25", rho_delta="1e-6")
    without = dpfast.Guarantee(1, "1e-6", rho="0.25")
    said = [
        meaning.promise_in_words(each, (Fraction(1), Fraction(1, 10**6)), "exact") for each in (with_delta, without)
    ]
    assert "rho = 0.25, but for an event of probability 1e-6 (approximate zCDP)" in said[0]
    assert "but for" not in said[1]
