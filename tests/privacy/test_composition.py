# SPDX-License-Identifier: Apache-2.0
"""compose: every bound against the worst case it is about, enumerated; and never below it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast
from dpfast import Guarantee, Sensitivity, compose
from dpfast.engines import jobs
from dpfast.errors import ParameterError
from dpfast.privacy.gaussian import delta_of_zcdp

E3 = Fraction(1, 10**3)


def hockey_stick(p: dict, q: dict, epsilon: object) -> mpmath.mpf:
    """sup over events of P - e^epsilon Q."""
    price = mpmath.exp(epsilon)
    return mpmath.fsum(max(p[x] - price * q.get(x, mpmath.mpf(0)), mpmath.mpf(0)) for x in p)


def response(epsilon: Fraction, delta: Fraction) -> tuple[dict, dict]:
    """The pair that dominates all (epsilon, delta)-DP pairs [KOV15]: delta shows the truth."""
    with mpmath.workprec(300):
        e = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        d = mpmath.mpf(delta.numerator) / delta.denominator
        yes, no = (1 - d) * e / (1 + e), (1 - d) / (1 + e)
        return {"tell0": d, 0: yes, 1: no}, {"tell1": d, 0: no, 1: yes}


def product(pairs: list[tuple[dict, dict]]) -> tuple[dict, dict]:
    found = []
    for side in (0, 1):
        joint = {}
        for outcome in itertools.product(*(pair[side].items() for pair in pairs)):
            joint[tuple(x for x, _ in outcome)] = mpmath.fprod(weight for _, weight in outcome)
        found.append(joint)
    return found[0], found[1]


def worst_delta(parts: list[Guarantee], epsilon: Fraction) -> mpmath.mpf:
    with mpmath.workprec(300):
        p, q = product([response(part.epsilon, part.delta) for part in parts])
        found = hockey_stick(p, q, mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        return max(found - mpmath.mpf(10) ** -80, mpmath.mpf(0))  # what 300 bits round


FEW = st.lists(
    st.tuples(st.fractions(Fraction(1, 20), 2, max_denominator=40), st.sampled_from([Fraction(0), Fraction(1, 1000), Fraction(1, 50)])),
    min_size=1, max_size=5,
)  # fmt: skip
SLACK = st.sampled_from([Fraction(1, 10**6), E3, Fraction(1, 20), Fraction(1, 4)])


@settings(max_examples=60, deadline=None)
@given(parts=FEW, slack=SLACK)
def test_sums_and_advanced_hold_in_the_worst_case(parts, slack) -> None:
    """Randomised responses that tell with delta: every such epsilon and delta reduces to them."""
    promised = [Guarantee(epsilon, delta) for epsilon, delta in parts]
    basic = compose(*promised)
    assert (basic.epsilon, basic.delta) == (sum(e for e, _ in parts), sum(d for _, d in parts))
    assert worst_delta(promised, basic.epsilon) <= mpmath.mpf(basic.delta.numerator) / basic.delta.denominator
    total = 1 - math.prod(1 - d for _, d in parts) * (1 - slack)
    advanced = compose(*promised, by="advanced", delta=total)
    assert advanced.delta == total
    assert advanced.epsilon <= basic.epsilon
    assert worst_delta(promised, advanced.epsilon) <= total.numerator / mpmath.mpf(total.denominator)


@settings(max_examples=60, deadline=None)
@given(
    k=st.integers(1, 6),
    epsilon=st.fractions(Fraction(1, 20), 3, max_denominator=40),
    delta=st.sampled_from([Fraction(0), Fraction(1, 1000)]),
    slack=SLACK,
)
def test_optimal_is_the_worst_case(k, epsilon, delta, slack) -> None:
    """Holds, and an epsilon less by one part in 10^9 does not."""
    promised = [Guarantee(epsilon, delta)] * k
    total = 1 - (1 - delta) ** k * (1 - slack)
    found = compose(*promised, by="optimal", delta=total).epsilon
    with mpmath.workprec(300):
        exact = mpmath.mpf(total.numerator) / total.denominator
    assert worst_delta(promised, found) <= exact
    if found:
        assert worst_delta(promised, found * (1 - Fraction(1, 10**9))) > exact


def long_delta(k: int, epsilon: float, at: object) -> mpmath.mpf:
    """k randomised responses: loss (k - 2 l) epsilon with weight C(k, l) q^l (1 - q)^(k - l)."""
    with mpmath.workprec(400):
        e, x = mpmath.mpf(str(epsilon)), mpmath.mpf(at.numerator) / at.denominator
        q = 1 / (1 + mpmath.exp(e))
        weight, whole = (1 - q) ** k, mpmath.mpf(0)
        odds, price, step = q / (1 - q), mpmath.exp(x - k * e), mpmath.exp(2 * e)
        for l in range(k + 1):  # noqa: E741
            if price >= 1:
                break
            whole += weight * (1 - price)
            weight *= odds * (k - l) / (l + 1)
            price *= step
        return whole


@pytest.mark.parametrize("k", [1, 7, 100, 1001, 10_000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_optimal_at_length(k, epsilon) -> None:
    """Against the sum of all terms at full precision: tight from both sides."""
    found = compose(*[Guarantee(epsilon)] * k, by="optimal", delta=1e-6).epsilon
    assert long_delta(k, epsilon, found) <= 1e-6
    assert long_delta(k, epsilon, found * (1 - Fraction(1, 10**9))) > 1e-6
    assert found <= compose(*[Guarantee(epsilon)] * k, by="advanced", delta=1e-6).epsilon


def test_a_bound_that_leaves_something_out_is_caught() -> None:
    """Planted: the mean of the loss dropped; half as many parts; the parts' deltas forgotten."""
    whole = compose(*[Guarantee(0.5)] * 200, by="advanced", delta=1e-6).epsilon
    assert long_delta(200, 0.5, whole) <= 1e-6
    assert long_delta(200, 0.5, whole - Fraction(200 * 0.5 * math.tanh(0.25))) > 1e-3
    assert long_delta(200, 0.5, compose(*[Guarantee(0.5)] * 100, by="optimal", delta=1e-6).epsilon) > 1e-6
    forgotten = compose(*[Guarantee(1)] * 6, by="optimal", delta=0.01)
    assert worst_delta([Guarantee(1, Fraction(1, 100))] * 6, forgotten.epsilon) > 0.01


@pytest.mark.parametrize("many", [10**4, pytest.param(10**5, marks=pytest.mark.slow)])
def test_many_parts_with_deltas_of_their_own(many) -> None:
    """In a moment, though their product has up to millions of digits; the rest is kept."""
    part = Guarantee(0.01, 1e-12)
    found = compose(*[part] * many, by="optimal", delta=1e-6).epsilon
    rest = mpmath.mpf(1e-6) - many * mpmath.mpf(1e-12)  # nearly
    without = compose(*[Guarantee(0.01)] * many, by="optimal", delta=float(rest)).epsilon
    assert found == pytest.approx(without, rel=1e-6)
    assert found > compose(*[Guarantee(0.01)] * many, by="optimal", delta=1e-6).epsilon
    mixed = [part, Guarantee(0.02, 1e-13)] * 500
    assert compose(*mixed, by="advanced", delta=1e-6).epsilon < compose(*mixed).epsilon


@pytest.mark.parametrize("k", [2, 1000, pytest.param(10**5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [1e-12, 50, 1e300])
def test_optimal_at_the_ends(k, epsilon) -> None:
    """At delta 1e-6: k 1e-12 leaves nothing, 50 k all but the saving, 1e300 the sum."""
    found = compose(*[Guarantee(epsilon)] * k, by="optimal", delta=1e-6).epsilon
    if epsilon == 1e-12:
        assert found == 0
    else:
        assert 1 - 1e-5 < found / (k * Fraction(epsilon)) <= 1


def test_rhos_add_up_and_only_what_all_promise() -> None:
    """An epsilon that one part lacks is no part of the sum; a rho they all have."""
    gaussian = dpfast.Gaussian.calibrated(1, Sensitivity(1, 1), delta=1e-6)
    both = compose(gaussian, gaussian)
    assert (both.epsilon, both.delta, both.rho) == (2, 2 * Fraction("1e-6"), 2 * gaussian.rho())
    assert (both.gdp, both.rho_delta) == (True, 0)
    assert compose(gaussian, Guarantee(rho=1)) == Guarantee(rho=1 + gaussian.rho())
    laplace = dpfast.Laplace(1, 1).guarantee
    assert compose(gaussian, laplace) == Guarantee(2, 1e-6, rho=gaussian.rho() + laplace.rho)
    assert compose(Guarantee(1), Guarantee(rho=1)) == Guarantee(rho=1 + Guarantee(1).rho)
    assert compose(Guarantee(1, 0.25), Guarantee(rho=1, rho_delta=0.5)).rho_delta == 0.75
    loose = Guarantee(1, 0.5, rho=0.25)
    assert compose(loose, loose) == Guarantee(rho=0.5)  # the deltas are spent; the rhos are not


@pytest.mark.parametrize("by", ["basic", "advanced"])
def test_holding_under_add_remove_is_promised_if_every_part_does(by) -> None:
    known = Guarantee(1, adjacency="substitution", add_remove=Guarantee(0.25))
    options = {} if by == "basic" else {"delta": 0.1}
    assert compose(known, known, by=by, **options).add_remove == compose(Guarantee(0.25), Guarantee(0.25))
    assert compose(known, Guarantee(1, adjacency="substitution"), by=by, **options).add_remove is None


# ------------------------------------------------------------------ parallel


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
def test_parallel_in_every_small_world(adjacency) -> None:
    """Two people, two public parts, noisy counts of each: every neighbour pair's true loss."""
    rates = [Fraction(1, 2), Fraction(3, 4)]
    if adjacency == "add-remove":
        parts = [dpfast.DiscreteLaplace(e, 1) for e in rates]
    else:  # what a part's epsilon promises under substitution inside it: nothing changes a count, so state add or remove too
        parts = [Guarantee(e, adjacency="substitution", add_remove=Guarantee(e)) for e in rates]
    found = compose(*parts, by="parallel").epsilon
    places = [(0,), (1,), ()] if adjacency == "add-remove" else [(0,), (1,)]

    def counts(world: tuple) -> list[int]:
        return [sum(part in place for place in world) for part in (0, 1)]

    losses = []
    for first in itertools.product(places, repeat=2):
        for second in itertools.product(places, repeat=2):
            changed = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
            neighbours = len(changed) == 1 and (adjacency == "substitution" or () in changed[0])
            if neighbours:
                losses.append(sum(e * abs(x - y) for e, x, y in zip(rates, counts(first), counts(second), strict=True)))
    assert max(losses) == found == (Fraction(3, 4) if adjacency == "add-remove" else Fraction(5, 4))


def test_parallel_takes_the_largest_or_the_two_largest() -> None:
    """Under substitution a unit may leave one part and enter another."""
    parts = [Guarantee(1, 1e-6, rho=0.3), Guarantee(2, 1e-7, rho=0.1), Guarantee(0.5, 0, rho=0.2)]
    largest = Guarantee(2, 1e-6, rho=0.3)
    assert compose(*parts, by="parallel") == largest
    about = {"adjacency": "substitution"}
    replaced = [Guarantee(p.epsilon, p.delta, rho=p.rho, **about, add_remove=p) for p in parts]
    delta, rho = parts[0].delta + parts[1].delta, parts[0].rho + parts[2].rho
    assert compose(*replaced, by="parallel") == Guarantee(3, delta, rho=rho, **about, add_remove=largest)
    assert compose(replaced[0], by="parallel") == replaced[0]
    inside = [Guarantee(5, rho=1, **about, add_remove=Guarantee(1)), Guarantee(1, **about, add_remove=Guarantee(3))]
    found = compose(*inside, by="parallel")
    assert (found.epsilon, found.rho) == (5, Guarantee(1).rho + Guarantee(3).rho)  # figure by figure


def test_halves_of_a_histogram_cost_what_the_whole_costs() -> None:
    """A person in one cell, replaced: enumerated over four cells, in both halves and across."""
    half = dpfast.DiscreteLaplace(1, Sensitivity(1, 1, adjacency="substitution"))
    found = compose(half, half, by="parallel")
    rate = half.epsilon / half.sensitivity
    true = max(rate * sum(abs((i == c) - (i == d)) for i in range(4)) for c in range(4) for d in range(4))
    assert found.epsilon == true == 1
    assert found.rho == half.guarantee.rho
    assert found.add_remove == half.guarantee.add_remove
    twice = Guarantee(
        1, adjacency="substitution", add_remove=Guarantee(1)
    )  # what replacing costs, for what arriving does
    assert compose(twice, twice, by="parallel").epsilon == 2
    ages = Guarantee(1, adjacency="substitution", add_remove=Guarantee(11))  # sums of values from 10 to 11
    assert compose(ages, ages, by="parallel").epsilon == 22
    for signed, rho in ((False, Fraction(1, 2)), (True, Fraction(1, 4))):
        change = Sensitivity(1, 1, adjacency="substitution", signed=signed)
        normal = dpfast.Gaussian.from_zcdp(1, change).guarantee
        assert normal.add_remove == Guarantee(rho=rho, gdp=True)
        assert compose(normal, normal, by="parallel").rho == 1


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda change: dpfast.DiscreteGaussian.calibrated(1, change, delta=1e-5),
        lambda change: dpfast.Gaussian.calibrated(1, change, delta=1e-5),
        lambda change: dpfast.DiscreteGaussian.calibrated(1, change, delta=1e-5, releases=3),
        lambda change: jobs.GaussianWithholding(1, 1e-5, change),
    ],
)
def test_halves_with_gaussian_noise_cost_what_the_whole_costs(make, signed) -> None:
    """Equal noise on each cell: a unit that changes halves moves cells of one whole."""
    half = make(Sensitivity(2, 1, adjacency="substitution", signed=signed))
    assert compose(half, half, half, by="parallel") == half.guarantee
    unknown = Guarantee(1, 1e-5, adjacency="substitution", add_remove=half.guarantee.add_remove)
    assert compose(half, unknown, by="parallel").epsilon <= 2


def test_unequal_gaussian_parts_cost_what_their_rho_implies() -> None:
    """A unit leaves one part and enters another: two moves of real noise."""
    change = Sensitivity(1, 1, adjacency="substitution")
    one, less = (dpfast.Gaussian.calibrated(e, change, delta=1e-5) for e in (1, Fraction(3, 4)))
    both = compose(one, less, by="parallel")
    assert (both.epsilon, both.delta) == (1, Fraction("1e-5"))
    apart = dpfast.Gaussian.calibrated(1, change, delta=1e-6)  # its delta is less, and its move as far as any
    found = compose(one, apart, by="parallel")
    assert (found.epsilon, found.delta) == (1, Fraction("1e-5"))
    whole = dpfast.DiscreteGaussian.calibrated(1, change, delta=1e-5)
    mixed = compose(whole, one, by="parallel")
    assert mixed.delta == Fraction("1e-5")
    assert 1 <= mixed.epsilon < 1.2
    tree = dpfast.tree([1, 2], epsilon=1, delta=1e-6, sensitivity=change).guarantee
    halves = compose(tree, tree, by="parallel")
    assert (halves.epsilon, halves.delta) == (1, Fraction("1e-6"))


def test_equal_promises_are_no_equal_mechanism() -> None:
    """Two equal Guarantees may be those of different noise, so their presences add up."""
    known = Guarantee(1, 0.1, rho=9, adjacency="substitution", add_remove=Guarantee(1, 0.1, rho=9))
    found = compose(known, known, by="parallel")
    assert (found.epsilon, found.delta) == (2, Fraction("0.2"))


def test_parallel_of_add_remove_for_substitution_doubles() -> None:
    """A replacement is a removal and an addition."""
    parts = [dpfast.DiscreteLaplace(1, 1), dpfast.DiscreteLaplace(3, 1)]
    both = compose(*parts, by="parallel", adjacency="substitution")
    assert both == Guarantee(6, adjacency="substitution", add_remove=parts[1].guarantee)
    found = compose(Guarantee(1, 1e-6, rho=0.5), by="parallel", adjacency="substitution")
    assert found.rho == 2
    assert found.delta >= Fraction("1e-6") * (1 + Fraction(math.e))
    assert float(found.delta) == pytest.approx(1e-6 * (1 + math.e), rel=1e-12)


def test_parallel_refuses_sums_under_substitution() -> None:
    """U - L bounds what replacing a value changes, and not what its arrival does."""
    ages = dpfast.Laplace(1, Sensitivity.changes(1, 100 - 18, adjacency="substitution"))
    with pytest.raises(ParameterError, match="adding and removing"):
        compose(ages, ages, by="parallel")
    counts = dpfast.DiscreteLaplace(1, Sensitivity(1, 1, adjacency="substitution"))
    assert compose(counts, counts, by="parallel").epsilon == 1


# ------------------------------------------------------------- groups, and zCDP as (epsilon, delta)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 1000)])
def test_groups_in_a_chain_that_reaches_them(k, delta) -> None:
    """P_0, ..., P_k, neighbours in turn, of two outcomes, with P_j(1) as small as allowed."""
    epsilon = Fraction(1, 3)
    found = Guarantee(epsilon, delta).group(k)
    assert found.epsilon == k * epsilon
    assert found.unit == ("person" if k == 1 else f"{k} x person")
    with mpmath.workprec(300):
        e, d = mpmath.exp(mpmath.mpf(1) / 3), mpmath.mpf(delta.numerator) / delta.denominator
        p = [mpmath.mpf(1) / 1000]
        for _ in range(k):
            p.append(e * p[-1] + d)  # (epsilon, delta)-close, and no more
        gap = p[k] - mpmath.exp(k * mpmath.mpf(1) / 3) * p[0]
        assert gap <= mpmath.mpf(found.delta.numerator) / found.delta.denominator + mpmath.mpf(10) ** -60
        if delta:
            assert abs(float(gap / found.delta) - 1) < 1e-12
    assert Guarantee(rho=0.5).group(k).rho == Fraction(k * k, 2)
    assert Guarantee(3).group(k).rho == min(k * k * Guarantee(3).rho, Guarantee(3 * k).rho)
    real = Guarantee(rho=0.5, gdp=True, adjacency="substitution", add_remove=Guarantee(rho=0.25, gdp=True)).group(k)
    assert (real.gdp, real.add_remove.rho) == (True, Fraction(k * k, 4))


def test_groups_that_nothing_is_promised_to() -> None:
    for delta, k in ((0.01, 20), (1e-300, 10**6)):  # beyond every double
        with pytest.raises(ParameterError, match="delta would reach 1"):
            Guarantee(1, delta).group(k)
    with pytest.raises(ParameterError, match=r"no theorem .* \.approximate\(delta\) first"):
        Guarantee(rho=1, rho_delta=1e-6).group(2)
    assert Guarantee(rho=1, rho_delta=1e-6).approximate(1e-5).group(2).delta > 1e-5
    assert Guarantee(0, 0.25).group(3).delta == Fraction(3, 4)


@pytest.mark.parametrize("gdp", [False, True])
def test_a_delta_of_rho_is_no_longer_there_to_spend(gdp) -> None:
    """The conversion of approximate zCDP has what is left, in a sum with other noise, too."""
    own, other = Guarantee(rho=0.1, rho_delta=1e-6), Guarantee(rho=0.2, gdp=gdp)
    assert own.approximate("2e-6").epsilon == Guarantee(rho=0.1).approximate("1e-6").epsilon
    assert compose(own, other).approximate("3e-6").epsilon == Guarantee(rho=0.3).approximate("2e-6").epsilon
    with pytest.raises(ParameterError, match="above"):
        own.approximate("1e-6")


@pytest.mark.parametrize("rho", [1e-12, 0.01, 0.5, 3, 100])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-3, 0.4])
def test_zcdp_as_epsilon_and_delta(rho, delta) -> None:
    """Above what Gaussian noise of that rho spends, below [BS16] Proposition 1.3, and the least."""
    found = Guarantee(rho=rho).approximate(delta)
    assert (found.rho, found.delta) == (Fraction(str(rho)), Fraction(str(delta)))
    real = dpfast.Gaussian(sigma_squared=1 / (2 * found.rho), sensitivity=Sensitivity(1, 1))
    if found.epsilon:
        assert Fraction(real.delta(found.epsilon)) <= found.delta
    assert float(found.epsilon) <= rho + 2 * math.sqrt(rho * -math.log(delta)) + 1e-15
    assert Fraction(delta_of_zcdp(found.rho, found.epsilon)) <= found.delta
    if found.epsilon:
        assert Fraction(delta_of_zcdp(found.rho, found.epsilon * (1 - Fraction(1, 10**9)))) > found.delta


def test_the_least_bound_is_taken_and_named() -> None:
    """The sum, the curve of Gaussians, or rho; and what is left of delta."""
    assert (Guarantee(1).approximate(1e-6).epsilon, Guarantee(1).approximate(1e-6).by) == (1, "sum")
    assert Guarantee(rho=0).approximate(1e-6) == Guarantee(0, 1e-6, rho=0)
    tens = [dpfast.Gaussian.from_zcdp(0.05, Sensitivity(1, 1))] * 10
    found = compose(*tens).approximate(1e-6)
    assert found.by == "mu"
    assert "by='mu'" in repr(found)
    exact = dpfast.Gaussian.from_zcdp(sum(each.rho() for each in tens), Sensitivity(1, 1))
    assert exact.delta(found.epsilon) <= 1e-6 < exact.delta(found.epsilon * (1 - Fraction(1, 10**9)))
    assert compose(*tens, Guarantee(rho=0)).approximate(1e-6).by == "rho"
    loose = compose(*[Guarantee(0.01, 1e-8)] * 50)
    assert loose.approximate(1e-6).epsilon > compose(*[Guarantee(0.01)] * 50).approximate(1e-6).epsilon
    with pytest.raises(ParameterError, match="above what the parts' own deltas come to"):
        loose.approximate(1e-7)
    many = compose(*[Guarantee(0.1)] * 365).approximate(1e-6)
    assert (many.by, float(many.epsilon)) == ("rho", pytest.approx(11.0598, abs=1e-4))


# ------------------------------------------------------------------ through dp-accounting


def test_loss_distributions_are_sharper_and_agree_with_the_closed_form() -> None:
    """n Gaussians are one of sigma/sqrt(n)."""
    pytest.importorskip("dp_accounting")
    mechanism = dpfast.Gaussian(10, sensitivity=Sensitivity(1, 1))
    found = compose(*[mechanism] * 16, by="pld", delta=1e-6)
    together = dpfast.Gaussian(2.5, sensitivity=Sensitivity(1, 1))
    assert 0.5e-6 < together.delta(found.epsilon) <= 1e-6
    assert float(found.epsilon) == pytest.approx(float(_epsilon(together, 1e-6)), rel=1e-3)
    less = Fraction(1e-6) * (1 - Fraction(1, 2**70))  # no double: asked for at the one below
    at_less, at = (compose(mechanism, mechanism, by="pld", delta=delta).epsilon for delta in (less, 1e-6))
    assert at_less >= at
    mixed = [dpfast.DiscreteLaplace(0.1, 1)] * 50 + [dpfast.Laplace(0.1, 1)] * 50
    assert compose(*mixed, by="pld", delta=1e-6).epsilon < compose(*mixed, by="optimal", delta=1e-6).epsilon


def _epsilon(mechanism: dpfast.Gaussian, delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if mechanism.delta(middle) <= delta else (middle, high)
    return high


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parts", "options", "error", "message"),
    [
        ([], {}, ParameterError, "parts must be given"),
        ([np.array(1.0)], {}, dpfast.errors.DTypeError, "mechanism with a guarantee, or a Guarantee, not ndarray"),
        ([1], {}, dpfast.errors.DTypeError, "mechanism with a guarantee, or a Guarantee, not int"),
        ([dpfast.OneSidedGeometric(1, 1)], {}, dpfast.errors.NoGuaranteeError, "not a mechanism"),
        ([dpfast.Gaussian(1)], {}, ParameterError, "sigma alone"),
        ([Guarantee(1), Guarantee(1, unit="visit")], {}, ParameterError, "one adjacency and one unit"),
        ([Guarantee(1), Guarantee(1, adjacency="substitution")], {}, ParameterError, "one adjacency and one unit"),
        ([Guarantee(1)], {"by": "rdp"}, ParameterError, "by must be one of basic, parallel, .*got 'rdp'"),
        ([Guarantee(1)], {"delta": 0.1}, ParameterError, "delta goes with by=advanced"),
        ([Guarantee(1)], {"by": "optimal"}, ParameterError, "delta goes with by=advanced"),
        ([Guarantee(1)], {"by": "optimal", "delta": 1}, ParameterError, "delta must lie strictly between"),
        ([Guarantee(1, 0.1)], {"by": "advanced", "delta": 0.1}, ParameterError, "delta must be above"),
        ([Guarantee(1), Guarantee(2)], {"by": "optimal", "delta": 0.1}, ParameterError, "equal epsilon"),
        ([Guarantee(rho=1)], {"by": "advanced", "delta": 0.1}, ParameterError, "every part must promise"),
        ([Guarantee(1, 0.1), Guarantee(1, 0)], {"by": "advanced", "delta": 0.1}, ParameterError, "delta must be above"),
        ([Guarantee(1, 0.5), Guarantee(1, 0.5)], {}, ParameterError, "add up to 1"),
        ([Guarantee(1)], {"adjacency": "substitution"}, ParameterError, "unless by='parallel'"),
        ([Guarantee(1, adjacency="substitution", add_remove=Guarantee(1))], {"by": "parallel", "adjacency": "add-remove"}, ParameterError, "must be 'substitution'"),
        ([Guarantee(1)] * 100_001, {"by": "optimal", "delta": 0.1}, ParameterError, "at most 100,000 parts"),
    ],
)  # fmt: skip
def test_bad_input(parts, options, error, message) -> None:
    with pytest.raises(error, match=message):
        compose(*parts, **options)
