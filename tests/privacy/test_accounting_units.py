# SPDX-License-Identifier: Apache-2.0
"""Every rho and every sum of it against enumerated small worlds; wrong rules are found out."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import pytest

import dpfast
from dpfast import Guarantee, Sensitivity, calibrate, compose
from dpfast.engines import jobs

Pair = tuple[dict, dict]  # a mechanism's outcomes and their probabilities, on each of two neighbours
ORDERS = [mpmath.mpf(order) for order in ("1.000001", "1.01", "1.5", "2", "4", "16", "200")]
FAR = 40  # integers behind which the tails of noise are one outcome


def number(value: object) -> mpmath.mpf:
    exact = Fraction(value)
    return mpmath.mpf(exact.numerator) / exact.denominator


def divergence(pair: Pair, order: mpmath.mpf) -> mpmath.mpf:
    """Rényi's, by its order: what rho bounds; the larger of both directions."""
    both = (pair, pair[::-1])
    return (
        max(mpmath.log(mpmath.fsum(p[x] ** order * q[x] ** (1 - order) for x in p)) / (order - 1) for p, q in both)
        / order
    )


def delta_of(pair: Pair, epsilon: object) -> mpmath.mpf:
    """The hockey-stick divergence, the larger of both directions."""
    e = mpmath.exp(number(epsilon))
    return max(mpmath.fsum(max(p.get(x, 0) - e * q.get(x, 0), 0) for x in {*p, *q}) for p, q in (pair, pair[::-1]))


FIXED = 200  # binary digits of a probability in `together`


def merged(pair: Pair) -> list[tuple[object, int, int]]:
    """An outcome a loss, which is all that counts; a side that has none of it is a loss, too."""
    found: dict[object, list[int]] = {}
    for x in {**pair[0], **pair[1]}:
        a, b = (side.get(x, mpmath.mpf(0)) for side in pair)
        loss = int(mpmath.nint(mpmath.log(a / b) * 2**60)) if a and b else "first" if a else "second"
        sums = found.setdefault(loss, [0, 0])
        for i, mass in enumerate((a, b)):
            sums[i] += int(mpmath.ldexp(mass, FIXED))
    return [(loss, *sums) for loss, sums in found.items() if any(sums)]


def together(pairs: Sequence[Pair]) -> Pair:
    """Independent releases, outcomes merged by their loss."""
    found: dict[object, tuple[int, int]] = {0: (1 << FIXED, 1 << FIXED)}
    for pair in map(merged, pairs):
        made: dict[object, tuple[int, int]] = {}
        for (x, (p, q)), (y, a, b) in itertools.product(found.items(), pair):
            loss = x if isinstance(x, str) else y if isinstance(y, str) else x + y
            before = made.get(loss, (0, 0))
            made[loss] = before[0] + (p * a >> FIXED), before[1] + (q * b >> FIXED)
        found = made
    first, second = ({loss: mpmath.ldexp(masses[i], -FIXED) for loss, masses in found.items()} for i in range(2))
    return first, second


def laplace(rate: object, moved: int, far: int = 0) -> Pair:
    """A cell of discrete Laplace noise and the same moved; a tail has one loss: one outcome."""
    r, sides = number(rate), ({}, {})
    for side, centre in zip(sides, (0, moved), strict=True):
        for x in range(-far, far + moved + 1):
            side[x] = mpmath.tanh(r / 2) * mpmath.exp(-r * abs(x - centre))
        side[-far] /= 1 - mpmath.exp(-r)
        side[far + moved] /= 1 - mpmath.exp(-r)
    return sides


def exponential(rate: object, scores: Sequence[int]) -> dict:
    weights = [mpmath.exp(number(rate) * score) for score in scores]
    return {i: weight / mpmath.fsum(weights) for i, weight in enumerate(weights)}


def permute_and_flip(rate: object, scores: Sequence[int]) -> dict:
    """In random order, each taken with probability exp(rate (score - best))."""
    take = [mpmath.exp(number(rate) * (score - max(scores))) for score in scores]
    orders = list(itertools.permutations(range(len(scores))))
    found = dict.fromkeys(range(len(scores)), mpmath.mpf(0))
    for order in orders:
        left = mpmath.mpf(1)
        for i in order:
            found[i] += left * take[i] / len(orders)
            left *= 1 - take[i]
    return found


def noisy_max(rate: object, scores: Sequence[int]) -> dict:
    """One-sided geometric noise; ties go to the lower index."""
    q, found, reach = mpmath.exp(-number(rate)), {}, math.ceil(63 / rate)  # beyond lies less than e^-63
    power = [q**k for k in range(reach + max(scores) - min(scores) + 2)]
    loses = [1 - each for each in power]
    for i, score in enumerate(scores):
        total = mpmath.mpf(0)
        for x in range(reach):
            below = (score + x - other + (i < j) for j, other in enumerate(scores) if j != i)  # noise that loses to it
            total += power[x] * math.prod(loses[max(k, 0)] for k in below)
        found[i] = (1 - q) * total
    return found


SELECTIONS: dict[type, Callable[..., dict]] = {
    dpfast.Exponential: exponential, dpfast.PermuteAndFlip: permute_and_flip, dpfast.NoisyMax: noisy_max
}  # fmt: skip


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 3])
@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("kind", SELECTIONS, ids=lambda kind: kind.__name__)
def test_rho_of_a_selection(kind, monotonic, epsilon) -> None:
    mechanism = kind(epsilon, 1, monotonic=monotonic)
    rate = Fraction(epsilon) / (1 if monotonic else 2)
    with mpmath.workprec(200):
        starts = [(0, 0, 0), (2, 1, 0)]
        steps = list(itertools.product((0, 1) if monotonic else (-1, 0, 1), repeat=3))
        law = functools.cache(functools.partial(SELECTIONS[kind], rate))
        pairs = {(s, tuple(a + d for a, d in zip(s, step, strict=True))) for s in starts for step in steps}
        pairs = [(law(one), law(other)) for one, other in pairs]
        most = max(divergence(pair, order) for pair in pairs for order in ORDERS)
        assert most <= number(mechanism.guarantee.rho)
        if kind is dpfast.Exponential:
            assert most > number(mechanism.guarantee.rho) / 2
        elif epsilon == 1:  # planted: that of a bounded range, for one that has none
            assert most > number(dpfast.Exponential(epsilon, 1).guarantee.rho)


@pytest.mark.parametrize(
    ("kind", "monotonic", "most", "scores", "step"),
    [
        (dpfast.PermuteAndFlip, False, 0.328, (1, 0), (-1, 1)), (dpfast.PermuteAndFlip, True, 0.261, (0, 0), (1, 0)),
        (dpfast.NoisyMax, False, 0.353, (0, 0), (-1, 1)), (dpfast.NoisyMax, True, 0.462, (0, 0), (0, 1)),
    ],
)  # fmt: skip
def test_the_worst_rho_of_a_selection_that_a_search_found(kind, monotonic, most, scores, step) -> None:
    """The docstrings' figures at epsilon 1, and the worlds of two candidates that have them."""
    assert str(most) in kind.__doc__
    rate = Fraction(1, 1 if monotonic else 2)
    with mpmath.workprec(200):
        pair = tuple(SELECTIONS[kind](rate, s) for s in (scores, [a + b for a, b in zip(scores, step, strict=True)]))
        found = max(divergence(pair, mpmath.mpf(order) / 100) for order in range(101, 600))
        assert 0.99 * most < found <= most + (5e-4 if kind is dpfast.NoisyMax and monotonic else 0)


# ------------------------------------------------------------------ additive noise of several cells


def changes(l0: int, linf: int, adjacency: str, signed: bool) -> set[tuple[int, ...]]:
    """All differences of two units' contributions, or of one unit's and none, in three cells."""
    one = [
        v for v in itertools.product(range(-linf if signed else 0, linf + 1), repeat=3) if sum(x != 0 for x in v) <= l0
    ]
    if adjacency == "add-remove":
        return set(one)
    return {tuple(a - b for a, b in zip(v, w, strict=True)) for v in one for w in one}


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize(("l0", "linf"), [(1, 1), (1, 2), (2, 1), (3, 1)])
def test_rho_of_laplace_noise_in_every_world_of_three_cells(l0, linf, adjacency, signed) -> None:
    """The worst of all changes, in every order; and no larger a rho than a third above it."""
    mechanism = dpfast.DiscreteLaplace(1, Sensitivity(l0, linf, adjacency=adjacency, signed=signed))
    rate, rho = mechanism.epsilon / mechanism.sensitivity, number(mechanism.guarantee.rho)
    with mpmath.workprec(120):
        cell = {d: [divergence(laplace(rate, d), order) for order in ORDERS] for d in range(1, 2 * linf + 1)}
        worst = max(
            mpmath.fsum(cell[abs(d)][k] for d in change if d)
            for change in changes(l0, linf, adjacency, signed)
            for k in range(len(ORDERS))
        )
        assert worst <= rho
        if 2 * l0 <= 3 or adjacency == "add-remove":  # three cells hold the worst change
            assert worst >= rho * (1 - mpmath.mpf(10) ** -5)
        if l0 > 1:  # planted: one cell that moves by it all
            assert (
                number(dpfast.DiscreteLaplace(1, mechanism.sensitivity, adjacency=adjacency).guarantee.rho)
                > rho * 3 / 2
            )
            if adjacency == "add-remove":  # planted: one cell of several
                assert worst > number(dpfast.DiscreteLaplace(rate * linf, linf).guarantee.rho)


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize(("l0", "linf", "size"), [(1, 1, 2), (1, 1, 5), (1, 2, 2), (2, 1, 2), (3, 1, 2)])
def test_the_rho_of_a_group_is_that_of_the_law(l0, linf, size, adjacency) -> None:
    """The worst of all sums of so many units' changes, and reached; less than the theorem has."""
    mechanism = dpfast.DiscreteLaplace(1, Sensitivity(l0, linf, adjacency=adjacency))
    found, bound = mechanism.group(size), mechanism.guarantee.group(size)
    assert (found.epsilon, found.unit, mechanism.group(1)) == (size, bound.unit, mechanism.guarantee)
    assert found.rho < bound.rho
    rate, rho = mechanism.epsilon / mechanism.sensitivity, number(found.rho)
    together = {(0, 0, 0)}
    for _ in range(size):
        moved = changes(l0, linf, adjacency, signed=False)
        together = {tuple(a + b for a, b in zip(v, w, strict=True)) for v in together for w in moved}
    with mpmath.workprec(120):
        cell = {d: [divergence(laplace(rate, d), order) for order in ORDERS] for d in range(1, size * linf + 1)}
        worst = max(
            mpmath.fsum(cell[abs(d)][k] for d in change if d) for change in together for k in range(len(ORDERS))
        )
        assert worst <= rho
        if 2 * l0 <= 3 or adjacency == "add-remove":
            assert worst >= rho * (1 - mpmath.mpf(10) ** -5)
    if adjacency == "substitution":
        added = dpfast.DiscreteLaplace(rate * l0 * linf, Sensitivity(l0, linf))
        assert found.add_remove == added.group(size)


# ------------------------------------------------------------------ an l1 of its own


def of_losses(rate: Fraction, change: Sequence[int]) -> dict[int, float]:
    """The law of the loss of discrete Laplace noise, in steps of the rate, by all outcomes."""
    r, found = float(rate), {0: 1.0}
    for d in map(abs, change):
        one: dict[int, float] = {}
        for x in range(-FAR, FAR + d + 1):
            tail = 1 - math.exp(-r) if x in (-FAR, FAR + d) else 1
            loss = abs(x) - abs(x - d)
            one[loss] = one.get(loss, 0.0) + math.tanh(r / 2) * math.exp(-r * abs(x - d)) / tail
        found, before = {}, found
        for (a, p), (b, q) in itertools.product(before.items(), one.items()):
            found[a + b] = found.get(a + b, 0.0) + p * q
    return found


def deltas(rate: Fraction, change: Sequence[int], most: int) -> list[float]:
    """At all losses up to the most, and between them."""
    r, law = float(rate), of_losses(rate, change)
    at = [k / 2 for k in range(-2 * most, 2 * most + 1)]
    return [sum(p * max(0.0, -math.expm1(r * (e - loss))) for loss, p in law.items()) for e in at]


@pytest.mark.parametrize("rate", [Fraction(1, 8), Fraction(1)])
@pytest.mark.parametrize(("d", "e"), [(1, 1), (2, 1), (3, 3), (5, 2)])
def test_what_moves_more_and_less_is_told_more_easily(rate, d, e) -> None:
    """By c q^(s/2) exp(epsilon/2), at d - e + 1 losses and no other."""
    r, s = float(rate), d + e
    for loss in range(-s, s + 1, 2):
        index = 2 * (loss + s)
        rise = deltas(rate, (d + 1, e - 1), s)[index] - deltas(rate, (d, e), s)[index]
        true = math.tanh(r / 2) * math.exp(r * (loss - s) / 2) if abs(loss) <= d - e else 0.0
        assert rise == pytest.approx(true, rel=1e-6, abs=1e-13)


OWN_L1 = [
    (Sensitivity(4, 3, l1=6), 4),
    (Sensitivity(4, 3, l1=8), 4),
    (Sensitivity(4, 2, l1=5), 4),
    (Sensitivity(3, 4, l1=5), 4),
    (Sensitivity(3, Fraction(3, 2), l1=3), 3),  # three cells by one, and not two by the floor of 3/2
    (Sensitivity(3, Fraction(5, 2), l1=Fraction(11, 2)), 3),
    (Sensitivity(3, 1, l1=2, adjacency="substitution"), 4),
    (Sensitivity(3, 2, l1=3, adjacency="substitution"), 4),
    (Sensitivity(3, 2, l1=3, adjacency="substitution", signed=True), 4),
    (Sensitivity(2, 3, l1=5, adjacency="substitution", signed=True), 3),
]


def changes_of(s: Sensitivity, cells: int) -> set[tuple[int, ...]]:
    """How far a neighbour moves so many cells, sorted, in all ways."""
    l0, linf = s.contributes
    far = math.floor(linf)
    one = [
        v
        for v in itertools.product(range(-far if s.signed else 0, far + 1), repeat=cells)
        if sum(x != 0 for x in v) <= l0 and sum(map(abs, v)) <= s.contributed
    ]
    others = one if s.adjacency == "substitution" else [(0,) * cells]
    return {tuple(sorted(abs(a - b) for a, b in zip(v, w, strict=True))) for v in one for w in others}


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(1)])
@pytest.mark.parametrize(("change", "cells"), OWN_L1)
def test_no_change_is_worse_than_the_cells_that_l1_fills(change, cells, rate) -> None:
    """Every change in every small world, at every epsilon; the rho, too; and both are reached."""
    worst = [int(linf) for n, linf in change.worst_change(integers=True) for _ in range(n)]
    most = sum(worst)
    stated = deltas(rate, worst, most)
    worlds = changes_of(change, cells)
    assert tuple(sorted(worst)) in {tuple(d for d in world if d) for world in worlds}
    for world in worlds:
        assert all(a <= b + 1e-12 for a, b in zip(deltas(rate, world, most), stated, strict=True))
    mechanism = dpfast.DiscreteLaplace(rate * change.l1, change)
    mean = sum(loss * p for loss, p in of_losses(rate, worst).items())
    assert float(mechanism.guarantee.rho) == pytest.approx(float(rate) * mean, rel=1e-9)
    real = dpfast.Laplace(rate * change.l1, change)
    moves = [n * (math.expm1(-float(rate * linf)) + float(rate * linf)) for n, linf in change.worst_change()]
    assert float(real.guarantee.rho) == pytest.approx(sum(moves), rel=1e-9)


def test_ten_cells_cost_what_ten_cells_cost() -> None:
    """Ten rows of a person in fifty cells: rho .0500, where one cell that moves by ten has .369."""
    one, ten = (dpfast.DiscreteLaplace(1, s) for s in (Sensitivity(50, 1, l1=10), Sensitivity(10, 1)))
    assert one.guarantee.rho == ten.guarantee.rho < Fraction("0.05")
    assert one.group(3).rho == ten.group(3).rho


def test_ten_cells_and_one_unit_more_cost_more_by_their_losses() -> None:
    """And less than one unit more in eleven cells."""
    pytest.importorskip("dp_accounting")
    for kind in (dpfast.DiscreteLaplace, dpfast.Laplace):
        less, own, more = (
            compose(*[kind(Fraction(s.l1, 20), s)] * 20, by="pld", delta=1e-6).epsilon
            for s in (Sensitivity(10, 2), Sensitivity(50, 2, l1=21), Sensitivity(11, 2))
        )
        assert less < own < more
        assert isinstance(kind(1, Sensitivity(50, 2, l1=21)).dp_event().events, list)


# ------------------------------------------------------------------ sums of different mechanisms

CELLS = dpfast.DiscreteLaplace(Fraction(1, 2), Sensitivity(2, 1))
MIXED = {
    "a pure law and a selection": (
        [(CELLS, 2), (dpfast.Exponential(1, 1, monotonic=True), 2)],
        lambda: [laplace(Fraction(1, 4), 1)] * 4 + [(exponential(1, (1, 0, 0)), exponential(1, (1, 1, 0)))] * 2,
    ),
    "selections": (
        [(dpfast.PermuteAndFlip(1, 1), 2), (dpfast.NoisyMax(Fraction(1, 2), 1), 2)],
        lambda: (
            [(permute_and_flip(Fraction(1, 2), (0, 0)), permute_and_flip(Fraction(1, 2), (1, -1)))] * 2
            + [(noisy_max(Fraction(1, 4), (0, 0)), noisy_max(Fraction(1, 4), (-1, 1)))] * 2
        ),
    ),
    "any pure one, and one that tells": (
        [(Guarantee(Fraction(1, 2)), 3), (Guarantee(Fraction(1, 4), Fraction(1, 1000)), 1)],
        lambda: [laplace(Fraction(1, 2), 1)] * 3 + [tells(Fraction(1, 4), Fraction(1, 1000))],
    ),
}


def tells(epsilon: Fraction, delta: Fraction) -> Pair:
    """Randomized response, but for delta, when it tells the truth."""
    yes = number(1 - delta) / (1 + mpmath.exp(-number(epsilon)))
    no = number(1 - delta) - yes
    return {"told": number(delta), 0: yes, 1: no}, {"told too": number(delta), 0: no, 1: yes}


@pytest.mark.parametrize("delta", [Fraction(1, 500), Fraction(1, 20), Fraction(1, 5)])
@pytest.mark.parametrize("name", MIXED)
def test_sums_of_several_kinds(name, delta) -> None:
    """Each bound on epsilon holds in the world; the one that is taken is the least."""
    counted, world = MIXED[name]
    parts = [part for part, n in counted for _ in range(n)]
    with mpmath.workprec(120):
        worst = together(world())
        basic = compose(*parts)
        bounds = [basic.approximate(delta)]
        if all(isinstance(part, Guarantee) or hasattr(part, "guarantee") for part in parts):
            bounds.append(compose(*parts, by="advanced", delta=delta))
        for bound in bounds:
            assert delta_of(worst, bound.epsilon) <= number(bound.delta) + mpmath.mpf(10) ** -20
        assert bounds[0].epsilon <= bounds[-1].epsilon
        assert basic.approximate(delta).epsilon <= basic.epsilon
        if name == "any pure one, and one that tells":  # planted: the deltas of the parts forgotten
            forgotten = Guarantee(rho=basic.rho).approximate(Fraction(1, 2000))
            assert delta_of(worst, forgotten.epsilon) > Fraction(1, 2000).numerator / mpmath.mpf(2000)
            with pytest.raises(dpfast.errors.ParameterError, match="own deltas"):
                basic.approximate(Fraction(1, 2000))


@pytest.mark.parametrize("name", MIXED)
def test_the_delta_at_an_epsilon(name) -> None:
    """It holds in the world, and is the inverse of `approximate`."""
    counted, world = MIXED[name]
    promised = compose(*[part for part, n in counted for _ in range(n)])
    with mpmath.workprec(120):
        worst = together(world())
        for epsilon in (Fraction(1, 10), Fraction(2, 3), 1, 3):
            assert delta_of(worst, epsilon) <= number(promised.delta_at(epsilon)) + mpmath.mpf(10) ** -20
    found = promised.approximate(Fraction(1, 20))
    assert promised.delta_at(found.epsilon) <= Fraction(1, 20)
    assert found.by == "sum" or promised.delta_at(found.epsilon * Fraction(999, 1000)) > Fraction(1, 20)
    if promised.rho_delta:  # planted: the deltas of the parts forgotten
        assert Guarantee(rho=promised.rho).delta_at(1) < promised.delta_at(1)


def test_where_no_delta_is_proved() -> None:
    real = dpfast.Gaussian.calibrated(1, Sensitivity(3, 1), delta=1e-6)
    assert Guarantee(rho=real.rho(), gdp=True).delta_at(0.7) == Fraction(real.delta(0.7))
    assert Guarantee(1).delta_at(1) == 0 == Guarantee(rho=0).delta_at(1e-9)
    assert 0 < Guarantee(1).delta_at(0.99) < 1
    for epsilon, message in ((0, "epsilon must be positive"), (1e-9, "below 1 is proved")):
        with pytest.raises(dpfast.errors.ParameterError, match=message):
            Guarantee(rho=10, rho_delta=Fraction(9, 10)).delta_at(epsilon)


def test_by_pld_takes_everything_and_is_never_above_rho() -> None:
    """In the same worlds, and against the optimistic estimate of dp-accounting for its own laws."""
    pytest.importorskip("dp_accounting")
    for counted, world in MIXED.values():
        parts = [part for part, n in counted for _ in range(n)]
        with mpmath.workprec(120):
            found = compose(*parts, by="pld", delta=Fraction(1, 20))
            assert delta_of(together(world()), found.epsilon) <= number(found.delta) + mpmath.mpf(10) ** -9
            assert found.epsilon <= compose(*parts).approximate(Fraction(1, 20)).epsilon
            assert found.by in ("pld", "rho", "sum")
    many = [dpfast.Exponential(Fraction(1, 10), 1)] * 365  # its loss has a bounded range; its pair's has none
    assert compose(*many, by="pld", delta=1e-6).by == "rho"
    norm = dpfast.DiscreteGaussian.from_zcdp(1, Sensitivity.from_l2(2))  # without a distribution
    assert compose(norm, CELLS, by="pld", delta=1e-6) == compose(norm, CELLS).approximate(1e-6)
    withheld = dpfast.thresholded(["a"], [99], epsilon=1, delta=1e-3, sensitivity=Sensitivity(1, 1))
    assert compose(withheld, CELLS, by="pld", delta=1e-2).epsilon > compose(CELLS, by="pld", delta=1e-2).epsilon
    with pytest.raises(dpfast.errors.ParameterError, match="no epsilon is found"):
        compose(withheld, by="pld", delta=1e-4)


@pytest.mark.parametrize(
    ("n", "epsilon", "cells", "most"), [(20, 1, 50, 2.916), (100, Fraction(1, 10), 10, 1.365)]
)  # fmt: skip
@pytest.mark.parametrize("law", ["DiscreteLaplace", "Laplace"])
def test_many_cells_cost_what_they_cost(law, n, epsilon, cells, most) -> None:
    """Not 19.67 and 4.69, as in one cell; and not below the optimistic estimate."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as theirs

    found = float(compose(*[getattr(dpfast, law)(epsilon, Sensitivity(cells, 1))] * n, by="pld", delta=1e-6).epsilon)
    each, options = float(epsilon / cells), {"pessimistic_estimate": False, "value_discretization_interval": 1e-4}
    one = (
        theirs.from_laplace_mechanism(1 / each, **options)
        if law == "Laplace"
        else theirs.from_discrete_laplace_mechanism(each, 1, **options)
    )
    assert one.self_compose(n * cells).get_epsilon_for_delta(1e-6) <= found <= 1.01 * most


# ------------------------------------------------------------------ keys that are withheld


def withheld(cell: Pair, threshold: int, new: int) -> Pair:
    """Keys of count 1 that one unit has alone, and none of them. cell: noise around 0, and 1."""
    shown = mpmath.fsum(p for x, p in cell[1].items() if x >= threshold)
    return {"told": 1 - (1 - shown) ** new, "hidden": (1 - shown) ** new}, {"hidden": mpmath.mpf(1)}


def bell(sigma_squared: object, moved: int) -> Pair:
    """As `laplace`, of discrete Gaussian noise."""
    k = range(-FAR, FAR + moved + 1)
    sides = [{x: mpmath.exp(-((x - centre) ** 2) / (2 * number(sigma_squared))) for x in k} for centre in (0, moved)]
    first, second = ({x: weight / mpmath.fsum(side.values()) for x, weight in side.items()} for side in sides)
    return first, second


@pytest.mark.parametrize("l0", [1, 2])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_keys_that_are_withheld_have_a_rho_and_a_delta(noise, l0, delta) -> None:
    """Each number of new keys beside common ones that move; twice, and with another law."""
    found = dpfast.thresholded(["a"], [50], epsilon=1, delta=delta, sensitivity=Sensitivity(l0, 1), noise=noise)
    of = jobs.Withholding if noise == "laplace" else jobs.GaussianWithholding
    mechanism = of(1, delta, Sensitivity(l0, 1))
    rho = dpfast.DiscreteLaplace(1, Sensitivity(l0, 1)).guarantee.rho if noise == "laplace" else mechanism.rho()
    assert found.guarantee == Guarantee(1, delta, rho=rho, rho_delta=delta)
    parts = [found, found, dpfast.DiscreteLaplace(Fraction(1, 2), 1)]
    total = 3 * delta
    epsilon = compose(*parts).approximate(total).epsilon
    with mpmath.workprec(120):
        cell = laplace(Fraction(1, l0), 1, FAR) if noise == "laplace" else bell(mechanism.sigma_squared, 1)
        for new in range(l0 + 1):
            world = [*[withheld(cell, found.threshold, new)], *[cell] * (l0 - new)]
            everything = together([*world, *world, laplace(Fraction(1, 2), 1)])
            assert delta_of(everything, epsilon) <= number(total)
            if new:  # planted: the rho without its delta
                lost = Guarantee(rho=compose(*parts).rho).approximate(delta / 1000)
                assert delta_of(everything, lost.epsilon) > number(delta / 1000)


# ------------------------------------------------------------------ one sigma for several releases


@pytest.mark.parametrize("kind", [dpfast.DiscreteGaussian, dpfast.Gaussian])
def test_fifty_columns_share_one_sigma(kind) -> None:
    """29.88 where a fiftieth of epsilon and delta for each asks for 206; and no less will do."""
    mechanism = kind.calibrated(1, Sensitivity(1, 1), delta=1e-6, releases=50)
    assert mechanism.sigma <= 29.88
    whole = Sensitivity(50, 1)
    assert (
        kind(mechanism.sigma, sensitivity=whole).delta(1)
        <= 1e-6
        < kind(mechanism.sigma * 0.999, sensitivity=whole).delta(1)
    )
    found = compose(*[mechanism] * 50)
    assert (found.epsilon, found.delta, found.rho) == (1, mechanism.guarantee.delta, 50 * mechanism.rho())
    assert compose(*[mechanism] * 49).epsilon == 1
    assert compose(*[mechanism] * 51, dpfast.DiscreteLaplace(1, 1)).epsilon == 3
    assert mechanism.metadata()["releases"] == 50
    assert "releases" not in kind.calibrated(1, Sensitivity(1, 1), delta=1e-6).metadata()


def test_several_releases_of_a_norm_and_of_a_substitution() -> None:
    norm = dpfast.DiscreteGaussian.calibrated(1, Sensitivity.from_l2(2), delta=1e-6, releases=3)
    assert dpfast.DiscreteGaussian(norm.sigma, sensitivity=Sensitivity.from_l2(6)).delta(1) <= 1e-6
    change = Sensitivity(1, 1, adjacency="substitution")
    replaced = dpfast.Gaussian.calibrated(1, change, delta=1e-6, releases=3)
    known = compose(*[replaced] * 3).add_remove
    assert (known.epsilon, known.rho, known.gdp) == (1, 3 * replaced.guarantee.add_remove.rho, True)


@pytest.mark.parametrize("by", ["advanced", "optimal"])
def test_no_bound_is_above_what_one_sigma_was_found_for(by) -> None:
    """Fifty that are (1, 1e-6) together: also for a total below the sum of their deltas."""
    one = dpfast.DiscreteGaussian.calibrated(1, Sensitivity(1, 1), delta=1e-6, releases=50)
    for total in ("1e-6", "1e-5", "1e-4"):
        found = compose(*[one] * 50, by=by, delta=total)
        assert (found.epsilon, found.delta, found.by) == (1, Fraction(total), "sum")
    with pytest.raises(dpfast.errors.ParameterError, match="own deltas"):
        compose(*[one] * 50, by=by, delta="1e-7")


class Weekly:
    """Another's mechanism, with a meaning of its own for the word; it has no hash, either."""

    guarantee = Guarantee(1)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, releases: object) -> None:
        self.releases = releases


@pytest.mark.parametrize("releases", [52, 0, -1, True, "52"])
def test_only_gaussians_of_dpfast_are_counted_by_their_releases(releases) -> None:
    assert compose(*[Weekly(releases)] * 52) == compose(*[Guarantee(1)] * 52)
    assert calibrate(lambda _: Weekly(releases), releases=2, epsilon=2).guarantee.epsilon == 1
    with pytest.raises(dpfast.errors.ParameterError, match="no spend"):
        calibrate(lambda _: Weekly(releases), releases=2, epsilon=1)


def test_calibrate_is_the_inverse_of_compose() -> None:
    """The spend of each of n releases; one part in a million more is too much."""
    pure = calibrate(lambda e: dpfast.DiscreteLaplace(e, 1), releases=3, epsilon=1)
    assert pure.epsilon == Fraction(333_333_333, 10**9)
    for make, n in (
        (lambda e: dpfast.DiscreteLaplace(e, 1), 365),
        (lambda rho: dpfast.Gaussian.from_zcdp(rho, Sensitivity(1, 1)), 10),
    ):
        spends = []

        def noted(spend: Fraction, make=make, spends=spends) -> object:
            spends.append(spend)
            return make(spend)

        found = calibrate(noted, releases=n, epsilon=11.06, delta=1e-6)
        assert compose(*[found] * n).approximate(1e-6).epsilon <= 11.06
        least = max(spend for spend in spends if make(spend) == found) * (1 + Fraction(1, 10**6))
        assert compose(*[make(least)] * n).approximate(1e-6).epsilon > 11.06
    for n, own in ((10, 1e-8), (500, 1e-9)):  # by the sum, and by rho for what the deltas leave
        loose = calibrate(lambda e, own=own: Guarantee(e, own), releases=n, epsilon=1, delta=1e-6)
        assert compose(*[loose] * n).approximate(1e-6).epsilon <= 1


@pytest.mark.parametrize(
    ("make", "by"),
    [
        (lambda rho: dpfast.DiscreteGaussian.from_zcdp(rho, Sensitivity(1, 1)), "zcdp"),
        (lambda epsilon: dpfast.DiscreteLaplace(epsilon, 1), "zcdp"),
        (lambda rho: dpfast.Gaussian.from_zcdp(rho, Sensitivity(1, 1)), "gdp"),
    ],
    ids=["discrete Gaussian", "discrete Laplace", "Gaussian"],
)
def test_a_ledger_pays_for_all_that_was_calibrated(tmp_path, make, by) -> None:
    """Its budget has so many digits and no more: a plan that used what is beyond lacked one."""
    for epsilon, delta in ((1, "1e-6"), (2, "1e-6"), ("0.5", "1e-8"), (8, "1e-9")):
        ledger = dpfast.Ledger(tmp_path / f"{epsilon}.db", epsilon, delta=delta, by=by, create=True)
        for n in (52, 365, 1000):
            one = calibrate(make, releases=n, epsilon=epsilon, delta=delta)
            assert ledger.fits(one) == n
            (budget,) = (most for most in ledger.cost(ledger.budget).values() if most)
            assert max(ledger.cost(one).values()) * n > budget * (1 - Fraction(1, 10**6))


@pytest.mark.parametrize(("epsilon", "delta"), [(1, "1e-6"), ("0.1", "1e-5"), (8, "1e-9")])
def test_a_ledger_in_zcdp_pays_for_most_discrete_gaussians_of_a_plan(tmp_path, epsilon, delta) -> None:
    """As the docstring of `calibrated` says of how many."""
    ledger = dpfast.Ledger(tmp_path / "most.db", epsilon, delta=delta, by="zcdp", create=True)
    for n in (10, 52, 1000):
        one = dpfast.DiscreteGaussian.calibrated(epsilon, Sensitivity(1, 1), delta=delta, releases=n)
        assert 0.75 * n < ledger.fits(one) < 0.93 * n


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"make": 1}, dpfast.errors.DTypeError, "make must be a function"),
        ({"make": lambda _: 1}, dpfast.errors.DTypeError, "what make returns must be a mechanism"),
        ({"releases": 0}, dpfast.errors.ParameterError, "releases must be at least 1"),
        (
            {"make": lambda e: Guarantee(e, 1e-5)},
            dpfast.errors.ParameterError,
            "no spend of each release keeps to the total",
        ),
        (
            {"make": lambda rho: Guarantee(rho=rho), "delta": None},
            dpfast.errors.ParameterError,
            "no spend of each release",
        ),
    ],
)
def test_what_cannot_be_calibrated(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        calibrate(**{"make": Guarantee, "releases": 2, "epsilon": 1, "delta": 1e-6, **arguments})


# ------------------------------------------------------------------ randomized response as an event


@pytest.mark.parametrize(
    ("mechanism", "k"), [(dpfast.RandomizedResponse(1, 4), 4), (dpfast.RandomizedResponse.two_coin(0.5), 2)]
)
def test_randomized_response_is_an_event_for_replacement(mechanism, k) -> None:
    """Its probabilities, with no more noise than there is; and the loss that they find."""
    accounting = pytest.importorskip("dp_accounting")
    event = mechanism.dp_event()
    with mpmath.workprec(120):
        exact = k / (mpmath.exp(number(mechanism.epsilon)) + k - 1)
        assert exact * (1 - mpmath.mpf(2) ** -50) <= event.noise_parameter <= exact
    assert event.num_buckets == k
    from dp_accounting.pld import PLDAccountant

    replace = accounting.NeighboringRelation.REPLACE_ONE
    assert PLDAccountant(replace).compose(event).get_epsilon(0) == pytest.approx(float(mechanism.epsilon), abs=2e-4)
    assert not PLDAccountant().supports(event)
    assert math.isclose(compose(mechanism, by="pld", delta=1e-9).epsilon, mechanism.epsilon, rel_tol=1e-4)


def test_a_ledger_in_zcdp_takes_every_kind_of_release(tmp_path) -> None:
    """Trees, thresholds by both noises, and several picks: each by its own rho and delta."""
    own, cells = Fraction(1, 10**7), Sensitivity(4, 1)
    ledger = dpfast.Ledger(tmp_path / "all.db", 10, delta=1e-6, by="zcdp", own_delta=2 * own, create=True)
    promised = [
        dpfast.tree(range(9), branching=3, sensitivity=cells, ledger=ledger, label="tree", **budget).guarantee
        for budget in ({"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1})
    ]
    for noise in ("laplace", "gaussian"):
        budget = {"epsilon": 1, "delta": own, "sensitivity": cells, "noise": noise}
        promised.append(dpfast.thresholded(["a"], [999], ledger=ledger, label=noise, **budget).guarantee)
    for chooser in (dpfast.Exponential(1, 1), dpfast.PermuteAndFlip(Fraction(1, 2), 1)):
        assert len(ledger.release(chooser, [3, 1, 2], label="best", k=2)) == 2
        promised.append(chooser.picks(2))
    together = compose(*promised)
    assert (ledger.spent.rho, ledger.spent.rho_delta) == (together.rho, together.rho_delta) == (together.rho, 2 * own)
    with pytest.raises(dpfast.errors.BudgetExhausted):
        dpfast.thresholded(["a"], [999], ledger=ledger, label="more", **{**budget, "delta": Fraction(1, 10**9)})
