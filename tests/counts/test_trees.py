# SPDX-License-Identifier: Apache-2.0
"""Trees: what each level's noise must hide, least squares, intervals, whole numbers, one charge."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers

import dpfast
from dpfast import Key, Ledger, NoisyTree, Sensitivity, tree
from dpfast.counts.trees import noisy_tree
from dpfast.counts.trees.noise import TreeNoise, shares_of
from dpfast.counts.trees.shape import Shape, named, regular
from dpfast.errors import BudgetExhausted, DTypeError, KeyReuseError, OtherInputError, ParameterError
from dpfast.noise import kernels
from dpfast.privacy.exact.binomial import lower_bound, upper_bound
from dpfast.testing import fixed_key

ONE = Sensitivity(1, 1)
EVEN = {"epsilon": 1, "sensitivity": ONE}
ALPHA = 1e-9  # false alarms, for each statistical test


def members(shape: Shape) -> np.ndarray:
    """Which leaves are under which node: a row a node."""
    found = [np.eye(shape.leaves)]
    for level in range(1, len(shape.sizes)):
        begins = shape.begins(level)
        ends = np.append(begins[1:], shape.leaves)
        at = np.arange(shape.leaves)
        found.append(((begins[:, None] <= at) & (at < ends[:, None])).astype(float))
    return np.concatenate(found)


SHAPES = {
    "regular": regular(11, 3),
    "binary": regular(8, 2),
    "one family": regular(5, 9),
    "ragged": named(7, [list("abbbccc"), list("uuuuvvv")]),
    "a forest": named(6, [[1, 1, 2, 3, 3, 3], [1, 1, 1, 2, 2, 2]]),
    "one leaf": regular(1, 2),
}
EVERY = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@EVERY
def test_nodes_lie_in_order(shape) -> None:
    """Families follow each other, level by level; their leaves are those of the parent."""
    assert shape.first[0] == 0
    assert shape.sizes[-1] == 1
    assert (np.diff(shape.first) > 0).all()
    under = members(shape)
    for k in range(len(under) - shape.leaves):
        family = under[shape.first[k] : shape.first[k + 1]]
        assert (family.sum(0) == under[shape.leaves + k]).all()


# ------------------------------------------------------------------ sums, and what one unit changes


@EVERY
def test_sums_are_exact(shape) -> None:
    noise = TreeNoise(shape, ONE, 1, None, None, shares_of(shape, None, None, root=True))
    rng = np.random.default_rng(1)
    for counts in (rng.integers(-(2**55), 2**55, shape.leaves), np.arange(shape.leaves, dtype=">i2")):
        found = noise.true(counts)
        assert found.tolist() == [sum(int(c) for c in counts[row > 0]) for row in members(shape)]


def test_sums_saturate_in_any_order() -> None:
    """A sum beyond int64 tells no more than its end; what goes there and comes back is exact."""
    most = 2**63 - 1
    for counts, total in (
        ([most, 1, 1], most),
        ([most, most, -most], most),
        ([-most, most, most], most),
        ([-most, -most, -most], -most - 1),
        ([2**64 - 1, 1, 0], most),
    ):
        shape = regular(3, 3)
        noise = TreeNoise(shape, ONE, 1, None, None, shares_of(shape, None, None, root=True))
        array = np.array(counts, np.uint64 if max(counts) > most else np.int64)
        assert noise.true(array)[3:].tolist() == [total]
        found = tree(array, root=True, epsilon=100, sensitivity=ONE)
        assert abs(int(found.noisy[1][0]) - total) < 200


CONTRIBUTED = list(itertools.product((1, 2, 3), (1, 2), (None, 1, 2, 3)))


def contributions(l0: int, linf: int, l1: int | None, signed: bool, leaves: int) -> Iterator[np.ndarray]:
    values = [x for x in range(-linf if signed else 0, linf + 1) if x]
    for n in range(min(l0, leaves) + 1):
        for at, by in itertools.product(itertools.combinations(range(leaves), n), itertools.product(values, repeat=n)):
            if l1 is None or sum(map(abs, by)) <= l1:
                v = np.zeros(leaves)
                v[list(at)] = by
                yield v


SMALL = {"two and one": named(3, [[0, 0, 1]]), "three and one": named(4, [[0, 0, 0, 1]]), "two and two": regular(4, 2)}


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
def test_no_level_moves_more_than_stated(shape, adjacency, signed) -> None:
    """Every contribution of one unit, every replacement. Add-remove reaches each figure."""
    for l0, linf, l1 in CONTRIBUTED:
        moves_as_stated(shape, l0, linf, l1, adjacency, signed)


def moves_as_stated(shape: Shape, l0: int, linf: int, l1: int | None, adjacency: str, signed: bool) -> None:
    stated = Sensitivity(l0, linf, l1=l1, adjacency=adjacency, signed=signed)
    under, vs = members(shape), list(contributions(l0, linf, l1, signed, shape.leaves))
    for level, size in enumerate(shape.sizes):
        of = stated.of_sums(size, shape.most_leaves(level))
        sums = np.array([shape.level(under @ v, level) for v in vs])
        moves = sums if adjacency == "add-remove" else (sums[:, None] - sums[None]).reshape(-1, size)
        figures = {
            "linf": abs(moves).max(),
            "l0": (moves != 0).sum(1).max(),
            "l1": abs(moves).sum(1).max(),
            "l2_squared": (moves**2).sum(1).max(),
        }
        for name, found in figures.items():
            assert found <= getattr(of, name), (stated, name, level)
            if adjacency == "add-remove" and l0 <= shape.leaves and (l1 is None or l1 >= l0):
                assert found == getattr(of, name), (stated, name, level)


WORLDS = list(itertools.product(range(3), repeat=2))  # which key each of a person's rows has: two people, four rows


def counted(people: tuple[tuple[int, ...], ...]) -> np.ndarray:
    return np.bincount([key for rows in people for key in rows], minlength=3)


def figures_of_small_worlds(noise: TreeNoise, adjacency: str) -> tuple[float, float]:
    """The worst epsilon and rho of all neighbours, in both directions."""
    worst_epsilon, worst_rho = 0.0, 0.0
    one = [*WORLDS, ()] if adjacency == "add-remove" else WORLDS
    for other, before, after in itertools.product(WORLDS, one, one):
        if adjacency == "add-remove" and (before == ()) == (after == ()):
            continue
        pair = [noise.true(counted((other, person))) for person in (before, after)]
        epsilon = rho = 0.0
        for level, mechanism in enumerate(noise.levels):
            if mechanism is None:
                continue
            moved = noise.shape.level(pair[1] - pair[0], level)
            if isinstance(mechanism, dpfast.DiscreteLaplace):
                epsilon += float(mechanism.epsilon / mechanism.sensitivity) * float(abs(moved).sum())
            else:
                rho += float((moved**2).sum() / (2 * mechanism.sigma_squared))
        worst_epsilon, worst_rho = max(worst_epsilon, epsilon), max(worst_rho, rho)
    return worst_epsilon, worst_rho


SMALL_LEVELS = named(3, [[0, 0, 1]])


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("root", [False, True])
def test_small_worlds_never_pass_the_budget(adjacency, root) -> None:
    """Two people, of two rows each, among three keys: all databases, all neighbours."""
    rows = Sensitivity(l1=2, adjacency=adjacency)
    shares = shares_of(SMALL_LEVELS, None, None, root=root)
    laplace = TreeNoise(SMALL_LEVELS, rows, 1, None, None, shares)
    gaussian = TreeNoise(SMALL_LEVELS, rows, None, None, Fraction(1, 2), shares)
    epsilon, rho = figures_of_small_worlds(laplace, adjacency)[0], figures_of_small_worlds(gaussian, adjacency)[1]
    assert epsilon <= 1 + 1e-12
    assert rho <= 0.5 + 1e-12
    if adjacency == "add-remove":
        assert epsilon == pytest.approx(1)  # reached: both rows in one key
        assert rho == pytest.approx(0.5)


UNEQUAL = [Fraction(1), Fraction(1, 3), Fraction(5)]


def figures_of_moves(shape: Shape, l0: int, linf: int, l1: int | None, adjacency: str) -> list[np.ndarray]:
    """What every neighbour moves each level by, in all and squared. A row a neighbour."""
    sums = np.array([members(shape) @ v for v in contributions(l0, linf, l1, False, shape.leaves)], int)
    moves = (
        sums
        if adjacency == "add-remove"
        else np.unique((sums[:, None] - sums[None]).reshape(-1, sums.shape[1]), axis=0)
    )
    levels = [abs(moves[:, a:b]) for a, b in itertools.pairwise(shape.offsets)]
    return [np.unique(np.array([(each**power).sum(1) for each in levels]).T, axis=0) for power in (1, 2)]


def worst_of(noise: TreeNoise, figures: list[np.ndarray]) -> Fraction:
    """The most that the levels' noise costs together, exactly."""
    laplace = isinstance(noise.levels[0], dpfast.DiscreteLaplace)
    costs: list[Any] = [
        0 if law is None else law.epsilon / law.sensitivity if laplace else 1 / (2 * law.sigma_squared)
        for law in noise.levels
    ]
    return max(sum(n * cost for n, cost in zip(row, costs, strict=True)) for row in figures[not laplace].tolist())


FULL = {"2": regular(2, 2), "4": regular(4, 2), "8": regular(8, 2), "9 by 3": regular(9, 3), "16 by 4": regular(16, 4)}


@pytest.mark.parametrize("shape", FULL.values(), ids=FULL)
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
def test_all_levels_together_cost_the_budget_and_no_less(shape, adjacency) -> None:
    """Every pair of neighbours of a whole tree: the worst reaches the budget, none passes it."""
    for (l0, linf), root, by_epsilon in itertools.product(((1, 1), (1, 3), (2, 1)), (False, True), (True, False)):
        budget = (Fraction(1), None) if by_epsilon else (None, Fraction(1))
        change = Sensitivity(l0, linf, adjacency=adjacency)
        noise = TreeNoise(shape, change, budget[0], None, budget[1], shares_of(shape, None, None, root=root))
        assert worst_of(noise, figures_of_moves(shape, l0, linf, None, adjacency)) == 1
        assert (noise.guarantee.epsilon if by_epsilon else noise.guarantee.rho) == 1
        known = noise.guarantee if adjacency == "add-remove" else noise.guarantee.add_remove
        alone = worst_of(noise, figures_of_moves(shape, l0, linf, None, "add-remove"))
        assert (known.epsilon if by_epsilon else known.rho) == alone


UNEVEN = {**SMALL, "five by three": regular(5, 3), "a forest": SHAPES["a forest"], "two": FULL["2"]}


def mean_loss(rate: float, moved: np.ndarray) -> np.ndarray:
    """The mean loss of discrete Laplace noise on cells that move so far, from its law."""
    k = np.arange(-400, 401)
    law = math.tanh(rate / 2) * np.exp(-rate * abs(k))
    of = np.array([(law * rate * (abs(k - d) - abs(k))).sum() for d in range(int(abs(moved).max()) + 1)])
    return np.asarray(of[abs(moved)].sum(1))


@pytest.mark.parametrize("shape", UNEVEN.values(), ids=UNEVEN)
@pytest.mark.parametrize(("l0", "linf", "l1"), [(1, 2, None), (2, 1, None), (2, 2, 3), (3, 1, None), (4, 1, 3)])
def test_no_pair_costs_more_than_levels_of_any_shares_state(shape, l0, linf, l1) -> None:
    """Where no pair reaches every level's figure, and in few cells: epsilon, both kinds of rho."""
    change = Sensitivity(l0, linf, l1=l1, adjacency="substitution")
    figures, top = figures_of_moves(shape, l0, linf, l1, "substitution"), len(shape.sizes) - 1
    sums = np.array([members(shape) @ v for v in contributions(l0, linf, l1, False, shape.leaves)], int)
    moves = np.unique(abs((sums[:, None] - sums[None]).reshape(-1, sums.shape[1])), axis=0)
    for weights in ([1] * (top + 1), *([1] * top + [root] for root in UNEQUAL[1:]), [5] + [1] * top):
        shares = shares_of(shape, weights, None, root=False)
        laplace, gaussian = (TreeNoise(shape, change, *given, shares) for given in ((1, None, None), (None, None, 1)))
        assert worst_of(laplace, figures) <= 1
        assert worst_of(gaussian, figures) <= 1
        losses = [
            mean_loss(float(law.epsilon / law.sensitivity), moves[:, a:b])
            for law, (a, b) in zip(laplace.levels, itertools.pairwise(shape.offsets), strict=True)
            if law is not None
        ]
        worst = float(np.sum(losses, axis=0).max())
        assert worst <= float(laplace.guarantee.rho) * (1 + 1e-9)
        assert float(laplace.guarantee.rho) <= float(dpfast.compose(*laplace.levels).rho)
        if l0 == 1 and weights == [1] * (top + 1):
            assert worst == pytest.approx(float(laplace.guarantee.rho), rel=1e-9)


def test_levels_that_no_replacement_reaches_together_get_less_noise() -> None:
    """One that keeps the total leaves the root's share to the levels below."""
    change = Sensitivity(1, 1, adjacency="substitution")
    for given, figure in (((1, None, None), "epsilon"), ((None, None, 1), "rho")):
        for shape, times in ((FULL["2"], Fraction(4, 3)), (FULL["4"], Fraction(3, 2)), (FULL["8"], Fraction(4, 3))):
            noise = TreeNoise(shape, change, *given, shares_of(shape, None, None, root=True))
            levels = len(shape.sizes)
            figures = [getattr(law.guarantee, figure) for law in noise.levels]
            assert figures == [times / levels] * levels
    signed = Sensitivity(1, 1, adjacency="substitution", signed=True)  # a leaf and its root move by two
    noise = TreeNoise(FULL["4"], signed, 1, None, None, shares_of(FULL["4"], None, None, root=True))
    assert [law.epsilon for law in noise.levels] == [Fraction(1, 3)] * 3


def test_planted_the_leaves_sensitivity_at_all_levels(monkeypatch) -> None:
    """A person in two leaves under one node moves it by two: rho is then beyond the budget."""
    monkeypatch.setattr(Sensitivity, "of_sums", lambda self, *_: self)
    shares = shares_of(SMALL_LEVELS, None, None, root=True)
    moved = np.array([1, 1, 0])

    def spent() -> float:
        noise = TreeNoise(SMALL_LEVELS, Sensitivity(2, 1), None, None, Fraction(1, 2), shares)
        nodes = noise.true(moved)
        of = [(SMALL_LEVELS.level(nodes, i) ** 2).sum() / (2 * law.sigma_squared) for i, law in enumerate(noise.levels)]
        return float(sum(of))

    assert spent() > 0.5 * 1.5
    monkeypatch.undo()
    assert spent() <= 0.5 + 1e-12


# ------------------------------------------------------------------ streams


def shared_noise(found: NoisyTree) -> int:
    """Pairs of levels of which one's noise begins as the other's does."""
    levels = [each for each in found.noisy if each is not None and each.size >= 16]
    return sum(bool((a[:16] == b[:16]).all()) for a, b in itertools.combinations(levels, 2))


def test_each_level_has_its_own_stream(monkeypatch) -> None:
    """16 draws of scale 60 are equal by chance with probability below 1e-30."""
    zeros, wide = np.zeros(200, np.int64), {"epsilon": 0.1, "sensitivity": Sensitivity(1, 1)}
    for options in ({}, {"key": fixed_key(5).derive("streams")}):
        with pytest.warns(dpfast.errors.InsecureKeyWarning) if options else nullcontext():
            assert shared_noise(tree(zeros, branching=3, **wide, **options)) == 0
    from dpfast.noise.release import seal

    one = lambda self, column, block, digest: bytes(32)  # noqa: E731  for every level
    monkeypatch.setattr(seal.Sealed, "stream_key", one)
    with pytest.warns(dpfast.errors.InsecureKeyWarning):
        planted = tree(zeros, branching=3, **wide, key=fixed_key(6).derive("streams"))
    assert shared_noise(planted) > 0


def test_golden_nodes() -> None:
    """What csrc/stream.md says of trees stays so."""
    options: dict[str, Any] = {"branching": 4, "epsilon": 0.1, "sensitivity": Sensitivity(2, 1)}
    with pytest.warns(dpfast.errors.InsecureKeyWarning):
        found = tree(np.arange(40), **options, key=fixed_key(7).derive("golden"))
    assert [None if each is None else each[:4].tolist() for each in found.noisy] == [
        [79, 13, -11, 71], [169, 32, 26, 25], [136, 299, 270], None,
    ]  # fmt: skip


def test_the_noise_is_that_of_each_levels_mechanism() -> None:
    """The variance of 4,000 nodes of each level, within 6 of its standard deviations (1e-8)."""
    zeros = np.zeros(64_000, np.int64)
    for law in ({"epsilon": 1}, {"rho": 0.1}):
        found = tree(zeros, branching=4, sensitivity=Sensitivity(3, 2), weights=[1, 2, 3, 0, 0, 0, 0, 0, 0], **law)
        shape = regular(64_000, 4)
        shares = shares_of(shape, [1, 2, 3, 0, 0, 0, 0, 0, 0], None, root=False)
        noise = TreeNoise(shape, Sensitivity(3, 2), law.get("epsilon"), None, law.get("rho"), shares)
        for level, mechanism in enumerate(noise.levels):
            if mechanism is None:
                assert found.noisy[level] is None
                continue
            ratio = float((found.noisy[level].astype(float) ** 2).mean()) / mechanism.variance
            assert abs(ratio - 1) < 6 * math.sqrt(5 / shape.sizes[level])


# ------------------------------------------------------------------ least squares


def solve(shape: Shape, noisy: np.ndarray, variances: list[float | None]) -> tuple[np.ndarray, np.ndarray]:
    """Dense least squares: the estimates of all nodes, and their covariances."""
    of = np.concatenate(
        [np.full(size, np.nan if v is None else v) for size, v in zip(shape.sizes, variances, strict=True)]
    )
    there, under = ~np.isnan(of), members(shape)
    root = 1 / np.sqrt(of[there])
    leaves = np.linalg.lstsq(under[there] * root[:, None], noisy[there] * root, rcond=None)[0]
    information = (under[there] / of[there, None]).T @ under[there]
    return under @ leaves, under @ np.linalg.inv(information) @ under.T


def nodes_of(shape: Shape) -> np.ndarray:
    return np.random.default_rng(1).integers(-50, 200, shape.offsets[-1])


def a_tree(shape: Shape, variances: list[float | None], *, gaussian: bool = True) -> NoisyTree:
    return NoisyTree(shape, nodes_of(shape), variances, gaussian, dpfast.Guarantee(1))


VARIANCES = {
    "equal": [2.0] * 4,
    "unequal": [3.0, 0.5, 7.0, 40.0],
    "gaps": [3.0, None, 7.0, None],
    "leaves": [3.0, None, None, None],
}


@EVERY
@pytest.mark.parametrize("given", VARIANCES.values(), ids=VARIANCES)
def test_estimates_are_those_of_dense_least_squares(shape, given) -> None:
    given = (given * 2)[: len(shape.sizes)]
    found = a_tree(shape, given)
    nodes = np.concatenate(found.estimates)
    expected, covariances = solve(shape, np.array(nodes_of(shape), float), given)
    assert np.allclose(nodes, expected, rtol=1e-12, atol=1e-10)
    for k in range(nodes.size - shape.leaves):
        assert nodes[shape.leaves + k] == pytest.approx(nodes[shape.first[k] : shape.first[k + 1]].sum())
    begins, ends = np.array([(a, b) for a in range(shape.leaves + 1) for b in range(a, shape.leaves + 1)]).T
    at = np.arange(shape.leaves)
    chosen = ((begins[:, None] <= at) & (at < ends[:, None])).astype(float)
    of_leaves = covariances[: shape.leaves, : shape.leaves]
    ranges = tiers.ranges_of(found, begins, ends)
    assert np.allclose(ranges.sums, chosen @ expected[: shape.leaves], atol=1e-9)
    assert np.allclose(ranges.variances, np.einsum("ri,ij,rj->r", chosen, of_leaves, chosen), rtol=1e-9, atol=1e-9)
    assert np.allclose(ranges.with_total, chosen @ of_leaves.sum(1), rtol=1e-9, atol=1e-9)


def test_larger_trees_are_consistent() -> None:
    found = tree(np.arange(5000), branching=7, **EVEN)
    for below, above, level in zip(found.estimates, found.estimates[1:], range(1, 9), strict=False):
        begins = found.spans(level)[0]
        assert np.allclose(np.add.reduceat(found.estimates[0], begins), above, rtol=1e-9, atol=1e-6)
        assert below.size > above.size


# ------------------------------------------------------------------ intervals

RUNS, FEWER = 10_000, 2_500
LAWS = pytest.mark.parametrize("law", [{"epsilon": 1}, {"epsilon": 8}, {"rho": 0.5}, {"epsilon": 1, "delta": 1e-6}], ids=str)  # fmt: skip
COUNTS = np.array([5, 0, 0, 40, 12, 0, 33, 7, 1])
BEGINS, ENDS = np.array([0, 0, 2, 3, 5, 8]), np.array([1, 9, 7, 6, 6, 9])


def noise_of(shape: Shape, law: dict[str, Any], weights: list[int] | None = None) -> TreeNoise:
    shares = shares_of(shape, weights, None, root=False)
    return TreeNoise(shape, ONE, law.get("epsilon"), law.get("delta"), law.get("rho"), shares)


def noisy(nodes: np.ndarray, noise: TreeNoise, law: dict[str, Any]) -> NoisyTree:
    return NoisyTree(noise.shape, nodes, noise.variances, law != {"epsilon": law.get("epsilon")}, noise.guarantee)


def side_by_side(counts: np.ndarray, branching: int, law: dict[str, Any]) -> NoisyTree:
    """Ten thousand trees of these counts as one, in which each has noise of its own alone."""
    at, whole = np.arange(RUNS * counts.size), counts.size
    noise = noise_of(named(at.size, [at // branching, at // whole, at // whole // 100]), law, [1, 1, 0, 0, 0])
    return noisy(noise.release(np.tile(counts, RUNS)), noise, law)


def apart(found: NoisyTree, law: dict[str, Any]) -> Iterator[NoisyTree]:
    """Each of these trees of COUNTS as one of its own."""
    levels, noise = [level.reshape(RUNS, -1) for level in found.noisy[:2]], noise_of(regular(9, 3), law)
    for nodes in np.hstack([*levels, np.zeros((RUNS, 1), int)]):
        yield noisy(nodes, noise, law)


def range_hits(found: NoisyTree, counts: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """In how many of the trees each interval of 0.9 holds."""
    first = counts.size * np.arange(RUNS)[:, None]
    of = found.range_sum(first + begins, first + ends, 0.9)
    true = np.array([counts[a:b].sum() for a, b in zip(begins, ends, strict=True)])
    return np.asarray(((of.lower <= true) & (true <= of.upper)).sum(0))


def held(hits: int, wanted: float, runs: int = RUNS) -> None:
    """Fails with probability ALPHA if the interval holds with exactly the probability wanted."""
    assert upper_bound(hits, runs, ALPHA) >= wanted, f"{hits} of {runs}"


@LAWS
def test_intervals_hold_in_ten_thousand_runs(law) -> None:
    """Those of sums of ranges; the false-alarm rate is 1e-9 an interval."""
    found = side_by_side(COUNTS, 3, law)
    one = next(apart(found, law))  # made as `tree` makes one
    for alone, beside in zip(one.range_sum(BEGINS, ENDS, 0.9), found.range_sum(BEGINS, ENDS, 0.9), strict=True):
        assert np.allclose(alone, beside, rtol=1e-12, atol=1e-9)  # what is beside a tree changes none of its intervals
    sums = range_hits(found, COUNTS, BEGINS, ENDS)
    for hits in sums:
        held(int(hits), 0.9)
    if law == {"rho": 0.5}:  # and not by being wide
        assert lower_bound(int(sums.min()), RUNS, ALPHA) < 0.97


@pytest.mark.parametrize(
    "law",
    [
        {"epsilon": 1},
        *(pytest.param(law, marks=pytest.mark.slow) for law in ({"epsilon": 8}, {"rho": 0.5})),
        {"epsilon": 1, "delta": 1e-6},
    ],
    ids=str,
)
def test_intervals_of_shares_and_quantiles_hold(law) -> None:
    """The false-alarm rate is 1e-9 an interval; one that holds 0.81 is missed once in 10^10."""
    places, share = np.array([0, 3, 7]), 0.5
    upto = np.cumsum(COUNTS)
    leaf = int(np.searchsorted(upto, share * upto[-1]))
    shares, quantiles = np.zeros(3, int), 0
    for found in itertools.islice(apart(side_by_side(COUNTS, 3, law), law), FEWER):
        part = found.cdf(places, 0.9)
        shares += (part.lower <= upto[places] / upto[-1]) & (upto[places] / upto[-1] <= part.upper)
        where = found.quantile(share, 0.9)
        quantiles += where.lower <= leaf <= where.upper
    for hits in (*shares, quantiles):
        held(int(hits), 0.9, FEWER)


def test_planted_narrow_intervals_are_found(monkeypatch) -> None:
    """Those that hold 0.81, in as many runs as either test has."""
    tiers.plant(monkeypatch, NoisyTree, "z", lambda *_: 1.3)
    counts = np.zeros(16, np.int64)
    (hits,) = range_hits(side_by_side(counts, 4, {"rho": 0.01}), counts, np.array([0]), np.array([5]))
    for runs in (RUNS, FEWER):
        with pytest.raises(AssertionError):
            held(int(hits) * runs // RUNS, 0.9, runs)


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.907, 0.95, 0.99, 0.999])
def test_no_sum_of_laplace_variables_is_wider(confidence) -> None:
    """The interval of sums of 1 to 40 of them, by Fourier's integral.

    Weights are equal and unequal; their squares add up to 1/2, so that the variance is 1.
    """
    x = tiers.deviations(a_tree(regular(2, 2), [1e12, None], gaussian=False), confidence)
    u = np.linspace(1e-6, 400, 200_001)
    for weights in ([1], [1, 1], [1, 0.5], [1, 0.2], [1, 1, 1], [1, 0.7, 0.3], [1] * 5, [1] * 40, [1] + [0.1] * 30):
        w = np.array(weights) / math.sqrt(2 * sum(v * v for v in weights))
        phi = np.prod([1 / (1 + (v * u) ** 2) for v in w], axis=0)
        inside = 2 / math.pi * np.trapezoid(np.sin(u * x) / u * phi, u)
        assert inside >= confidence - 2e-4, weights


def missed(gaussian: bool, parameter: float, leaves: int, confidence: float) -> float:
    """How often the sum of so many leaves is outside its interval, exactly, over what may be."""
    law, most = np.array([1.0]), math.ceil(14 * math.sqrt(parameter) + 4 if gaussian else 60 / parameter)
    k = np.arange(-most, most + 1)
    one = np.exp(-k * k / (2 * parameter)) if gaussian else np.exp(-parameter * abs(k))
    for _ in range(leaves):
        law = np.convolve(law, one / one.sum())
    variance = parameter if gaussian else dpfast.DiscreteLaplace(parameter, 1).variance
    shape = regular(max(leaves, 2), 9)
    found = NoisyTree(shape, np.zeros(shape.offsets[-1], np.int64), [variance, None], gaussian, dpfast.Guarantee(1))
    away = np.arange(law.size) - law.size // 2
    return float(law[abs(away) > found.range_sum(0, leaves, confidence).upper].sum() / (1 - confidence))


@pytest.mark.parametrize("leaves", [1, 2, 5, 8])
@pytest.mark.parametrize("gaussian", [False, True])
def test_intervals_of_any_noise_hold(gaussian, leaves) -> None:
    """Also where the noise is mostly 0, and rarely a few steps of 1; exact sums."""
    scales = np.geomspace(0.03, 30, 60) if gaussian else np.geomspace(0.3, 12, 60)
    for confidence in (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999):
        assert max(missed(gaussian, float(scale), leaves, confidence) for scale in scales) <= 1


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(
    "weights", [(1, 0.5), (1, 0.5, 0.5, 0.25), (0.9, 0.7, 0.3), (0.4, 0.4, 0.4), (1, 0.1, 0.1, 0.1)], ids=str
)
def test_intervals_of_small_noises_of_unequal_weights_hold(gaussian, weights) -> None:
    """All outcomes of so many noises, but for a billionth."""
    for scale in np.geomspace(0.03, 1, 20) if gaussian else np.geomspace(1.2, 12, 20):
        most = math.ceil(7 * math.sqrt(scale)) if gaussian else math.ceil(24 / scale)
        k = np.arange(-most, most + 1)
        one = np.exp(-k * k / (2 * scale)) if gaussian else np.exp(-scale * abs(k))
        law, at = np.array([1.0]), np.array([0.0])
        for w in weights:
            law, at = np.outer(law, one / one.sum()).ravel(), np.add.outer(at, w * k).ravel()
        variance = scale if gaussian else dpfast.DiscreteLaplace(scale, 1).variance
        of = a_tree(regular(2, 2), [variance, None], gaussian=gaussian)
        for confidence in (0.5, 0.9, 0.99, 0.999):
            width = tiers.deviations(of, confidence) * math.sqrt(variance * sum(w * w for w in weights)) + 0.5
            assert law[abs(at) > width].sum() <= (1 - confidence) + 1e-8


def test_planted_widths_of_large_noise_fail_where_it_is_small(monkeypatch) -> None:
    """Those of real Laplace noise of the same variance, and a normal variable's."""
    for planted in (lambda *_: math.log(100) / math.sqrt(2), lambda *_: 2.576):
        tiers.plant(monkeypatch, NoisyTree, "z", planted)
        assert max(missed(False, rate, 1, 0.99) for rate in np.geomspace(0.3, 12, 60)) > 1.5


@pytest.mark.parametrize(
    "budget", [{"epsilon": 2000}, {"epsilon": 1430}, {"rho": 10**6}, {"epsilon": 900, "delta": 1e-6}]
)
def test_hardly_any_noise_is_answered(budget) -> None:
    """Variances below every double, and what it leaves; the answer is the truth."""
    found = tree([5, 0, 7, 2], sensitivity=ONE, branching=2, **budget)
    assert found.range_sum([0, 1], [4, 3]).value.tolist() == [14, 7]
    low, high = found.range_sum(0, 4)[1:]
    assert 13 < low <= high < 15
    assert found.cdf(1).value == pytest.approx(5 / 14)
    assert found.cdf(1).lower <= 5 / 14 <= found.cdf(1).upper
    assert found.quantile(0.5)[1:] == (2, 2)
    assert [each.tolist() for each in found.integers()] == [[5, 0, 7, 2], [5, 9], [14]]


def test_what_an_interval_is_made_of_is_read_alone() -> None:
    found = tree([5, 0, 7, 2], branching=2, **EVEN)
    for each in (*found.estimates, *(level for level in found.noisy if level is not None)):
        with pytest.raises(ValueError, match="read-only"):
            each[0] = 1


def test_a_confidence_beyond_doubles_is_refused() -> None:
    found = tree([5, 0, 7, 2], branching=2, **EVEN)
    for ask in (lambda c: found.range_sum(0, 1, c), lambda c: found.cdf(0, c), lambda c: found.quantile(0.5, c)):
        with pytest.raises(ParameterError, match="confidence must be at most 1 - 1e-300"):
            ask(1 - Fraction(1, 10**400))


# ------------------------------------------------------------------ cdf and quantile


def test_the_steps_of_a_quantile_share_its_doubt() -> None:
    """An end takes ten steps among 1,024 leaves: just outside it a tenth of the doubt is left.

    0.9: the variance is that of two sums apart, which is nearly so.
    """
    for _ in range(5):
        tree = dpfast.tree(np.ones(1024, int), epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
        for doubt in (0.05, 0.5):
            found = tree.quantile(0.5, 1 - doubt)
            for leaf, sign in ((found.lower, -1), (found.upper + 1, 1)):
                before, after = (tree.range_sum(*ends, 1 - doubt / 10) for ends in ((0, leaf), (leaf, 1024)))
                reach = math.hypot(before.upper - before.value, after.upper - after.value) / 2
                assert sign * (before.value - after.value) / 2 > 0.9 * reach


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_ends_of_a_quantile_are_where_the_noise_decides(share: float) -> None:
    """Before less the share of all, by its own variance: decided outside the ends alone."""
    leaves, doubt = 256, 0.2
    tree = dpfast.tree(np.full(leaves, 3), epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
    found, z = tree.quantile(share, 1 - doubt), tiers.deviations(tree, 1 - doubt / 8)
    at = np.arange(1, leaves)
    before = tiers.ranges_of(tree, np.zeros(at.size, int), at)
    after = tiers.ranges_of(tree, at, np.full(at.size, leaves))
    together = before.with_total - before.variances  # the covariance of both
    variances = (1 - share) ** 2 * before.variances + share**2 * after.variances - 2 * share * (1 - share) * together
    ahead = (1 - share) * before.sums - share * after.sums
    half = z * np.sqrt(variances) + 0.5
    decided = {
        leaf: 0 if abs(by) <= width else np.sign(by) for leaf, by, width in zip(at.tolist(), ahead, half, strict=True)
    }
    decided |= {0: -1, leaves: 1}
    assert decided[found.lower] < 0 <= decided[found.lower + 1]
    assert decided[found.upper] <= 0 < decided[found.upper + 1]


def test_a_quantile_is_one_however_its_sums_are_found(monkeypatch) -> None:
    """All at once, where there are few leaves; or those that a search asks for, one by one."""
    for leaves in (1, 2, 3, 7, 64, 120, 500):
        for law in ({"epsilon": 1}, {"rho": 0.01}):
            counts = np.random.default_rng(leaves).integers(0, 9, leaves)
            found = tree(counts, **law, sensitivity=ONE)
            for share in (0.01, 0.5, 0.75, 0.99):
                both = []
                for most in (leaves, 0):
                    monkeypatch.setattr(noisy_tree, "FEW_LEAVES", most)
                    both.append(found.quantile(share, 0.9))
                assert both[0] == both[1]


def test_cdf_and_quantile_of_much_data() -> None:
    counts = np.array([0, 10, 20, 30, 40]) * 10**6
    found = tree(counts, branching=2, **EVEN)
    assert np.allclose(found.cdf(np.arange(5)).value, [0, 0.1, 0.3, 0.6, 1], atol=1e-4)
    assert [found.quantile(p).value for p in (0.05, 0.2, 0.5, 0.9, 0.999999)] == [1, 2, 3, 4, 4]
    assert found.quantile(0.5)[1:] == (3, 3)
    assert found.cdf(2).value.shape == ()
    assert found.range_sum([[0], [1]], [2, 5]).value.shape == (2, 2)


def test_an_empty_tree_says_that_it_knows_nothing() -> None:
    shape = regular(4, 2)
    nodes = np.array([-1, 0, 0, 0, -1, 0, 0])
    found = NoisyTree(shape, nodes, [1.0, 1.0, None], True, dpfast.Guarantee(1))
    assert found.cdf([0, 1]).lower.tolist() == [0, 0]
    assert found.cdf([0, 1]).upper.tolist() == [1, 1]
    assert np.isnan(found.cdf([0, 1]).value).all()
    assert found.quantile(0.5)[1:] == (0, 3)
    assert [each.tolist() for each in found.integers()] == [[0] * 4, [0] * 2, [0]]


# ------------------------------------------------------------------ whole numbers


def nearest(values: np.ndarray, total: int) -> float:
    """The least squared distance of whole numbers >= 0 that add up to total."""
    parts = itertools.product(range(total + 1), repeat=values.size)
    return min(float(((np.array(p) - values) ** 2).sum()) for p in parts if sum(p) == total)


def test_a_family_becomes_the_nearest_whole_numbers() -> None:
    """By brute force, 600 families: largest remainders of the projection are the nearest."""
    rng, run = np.random.default_rng(3), kernels.kernel("top_down")
    for _ in range(600):
        size, total = int(rng.integers(1, 5)), int(rng.integers(0, 6))
        nodes = np.append(rng.normal(1, 3, size), 0)
        found = np.zeros(size + 1, np.int64)
        found[-1] = total
        run(nodes, found, size, np.array([0, size]))
        whole = found[:-1]
        assert whole.min() >= 0
        assert whole.sum() == total
        assert float(((whole - nodes[:-1]) ** 2).sum()) <= nearest(nodes[:-1], total) + 1e-9


@EVERY
@pytest.mark.parametrize("scale", [1, 10**4, 10**12])
def test_whole_numbers_add_up(shape, scale) -> None:
    nodes = np.random.default_rng(4).integers(-20, 50, shape.offsets[-1]) * scale
    found = NoisyTree(shape, nodes, [1.0] * len(shape.sizes), True, dpfast.Guarantee(1))
    whole = np.concatenate(found.integers())
    assert whole.min() >= 0
    assert whole[-1] == max(round(float(found.estimates[-1][0])), 0)
    for k in range(whole.size - shape.leaves):
        assert whole[shape.leaves + k] == whole[shape.first[k] : shape.first[k + 1]].sum()


def test_equal_remainders_go_to_the_first() -> None:
    shape = regular(4, 4)
    found = NoisyTree(shape, np.array([1, 1, 1, 1, 6]), [1.0, 1e-12], True, dpfast.Guarantee(1)).integers()
    assert found[0].tolist() == [2, 2, 1, 1]


def test_a_total_beyond_doubles_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"2\*\*48.*estimates"):
        tree(np.array([2**60, 1]), **EVEN).integers()


# ------------------------------------------------------------------ shares of the budget


def spent(found: TreeNoise) -> list[Fraction]:
    return [Fraction(0) if each is None else each.guarantee.epsilon or each.rho() for each in found.levels]


@pytest.mark.parametrize("budget", [{"epsilon": Fraction(1, 3)}, {"rho": Fraction(1, 7)}], ids=str)
@pytest.mark.parametrize(
    "ways",
    [
        {},
        {"root": True},
        {"weights": [1, 0, 0.3]},
        {"workload": [[0, 3], [2, 9]]},
        {"workload": [[3, 6]], "root": True},
    ],
    ids=str,
)
def test_shares_add_up_exactly(budget, ways) -> None:
    shape = regular(9, 3)
    shares = shares_of(shape, ways.get("weights"), ways.get("workload"), root=ways.get("root", False))
    noise = TreeNoise(shape, Sensitivity(2, 1), budget.get("epsilon"), None, budget.get("rho"), shares)
    assert sum(spent(noise)) == next(iter(budget.values()))
    ((figure, total),) = budget.items()
    assert getattr(noise.guarantee, figure) == total
    assert noise.guarantee.rho <= dpfast.Guarantee(**budget).rho
    assert noise.guarantee.delta in (0, None)
    assert (noise.levels[-1] is not None) == (ways == {"root": True} or "weights" in ways)


def test_how_many_nodes_a_range_takes() -> None:
    shape = regular(27, 3)
    for (begin, end), expected in {
        (0, 27): [0, 0, 3, 0], (0, 1): [1, 0, 0, 0], (1, 27): [2, 2, 2, 0], (4, 23): [2 + 2, 1 + 1, 1, 0], (5, 5): [0] * 4,
    }.items():  # fmt: skip
        assert shape.taken(np.array([[begin, end]]), 2).tolist() == expected
    assert shape.taken(np.array([[0, 27]]), 3).tolist() == [0, 0, 0, 1]


def test_a_workload_gets_less_noise() -> None:
    """Sums of single areas, of leaves: the mean variance is that of the exact covariances."""
    shape, narrow = regular(4096, 4), np.array([[i, i + 16] for i in range(0, 4096, 16)])
    found = {}
    for name, workload in (("uniform", None), ("workload", narrow)):
        for budget in ((1, None), (None, Fraction(1, 10))):
            shares = shares_of(shape, None, workload, root=False)
            noise = TreeNoise(shape, ONE, budget[0], None, budget[1], shares)
            estimated = NoisyTree(shape, np.zeros(shape.offsets[-1], np.int64), noise.variances, True, noise.guarantee)
            found[name, budget[0]] = tiers.ranges_of(estimated, *narrow.T.copy()).variances.mean()
    assert found["workload", 1] < 0.5 * found["uniform", 1]
    assert found["workload", None] < 0.7 * found["uniform", None]


@pytest.mark.parametrize("branching", [8, 16])
@pytest.mark.parametrize(("budget", "most"), [({"epsilon": 1}, 0.055), ({"rho": 0.5}, 0.022)], ids=str)
def test_random_ranges_have_little_error(budget, most, branching) -> None:
    """2^20 leaves: the mean error over that of noise on the leaves alone, by exact variances.

    An error is taken for normal; that of a sum of Laplace variables is less for its variance.
    """
    n = 2**20
    shape, one = regular(n, branching), regular(1, 2)
    begin, end = np.sort(np.random.default_rng(8).integers(0, n + 1, (2, 4000)), axis=0)
    noise, alone = (
        TreeNoise(of, ONE, budget.get("epsilon"), None, budget.get("rho"), shares_of(of, None, None, root=False))
        for of in (shape, one)
    )
    found = NoisyTree(shape, np.zeros(shape.offsets[-1], np.int64), noise.variances, True, noise.guarantee)
    error = np.sqrt(2 / math.pi * tiers.ranges_of(found, begin, end).variances).mean()
    assert error <= most * 8 / 15 * math.sqrt(2 * n * alone.levels[0].variance / math.pi)


# ------------------------------------------------------------------ one release, one charge


def test_a_ledger_is_charged_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "b.db", epsilon=2, create=True)
    tree([5, 6, 7, 8], branching=2, **EVEN, ledger=ledger, label="ages")
    assert ledger.spent.epsilon == 1
    assert [each.label for each in ledger.history()] == ["ages"]
    tree([5, 6, 7, 8], branching=2, **EVEN, ledger=ledger, key=Key.generate().derive("ages 2"))
    with pytest.raises(BudgetExhausted):
        tree([5, 6, 7, 8], branching=2, **EVEN, ledger=ledger)
    assert ledger.spent.epsilon == 2
    ledger.verify()


@pytest.mark.parametrize("accounting", ["epsilon", "rho"])
def test_gaussian_trees_are_paid_for_in_either_unit(tmp_path: Path, accounting) -> None:
    total = {"epsilon": 1, "delta": 1e-6} if accounting == "epsilon" else {"rho": 1}
    ledger = Ledger(tmp_path / "b.db", **total, create=True)
    options: dict[str, Any] = {
        "epsilon": 1,
        "delta": 1e-6,
        "sensitivity": Sensitivity(2, 1),
        "branching": 2,
        "ledger": ledger,
    }
    found = tree([5, 6, 7, 8], **options, key=Key.generate().derive("ages"))
    assert getattr(ledger.spent, accounting) == getattr(found.guarantee, accounting)
    assert found.guarantee.approximate(1e-6).epsilon <= 1 + 1e-9


def test_under_a_key_a_tree_is_one_release(tmp_path: Path) -> None:
    """The same noise for the same counts and shape; anything else is another input."""
    counts, ledger = np.arange(200_000) % 7, Ledger(tmp_path / "b.db", epsilon=1, create=True)
    key = Key.generate().derive("ages")
    once = tree(counts, **EVEN, ledger=ledger, key=key)
    again = tree(counts.astype(np.int8), **EVEN, ledger=ledger, key=key, resume=True)
    assert all((a == b).all() for a, b in zip(once.noisy[:-1], again.noisy[:-1], strict=True))
    assert ledger.spent.epsilon == 1
    with pytest.raises(KeyReuseError, match="resume=True"):
        tree(counts, **EVEN, ledger=ledger, key=key)
    changed = counts.copy()
    changed[-1] += 1
    with pytest.raises(OtherInputError):
        tree(changed, **EVEN, ledger=ledger, key=key, resume=True)
    for other in ({"branching": 9}, {"root": True}, {"weights": [1, 1, 0, 0, 1, 1, 0]}, {"epsilon": 2}):
        with pytest.raises(KeyReuseError):
            tree(counts, **{**EVEN, **other}, ledger=ledger, key=key, resume=True)


def test_a_shape_of_equal_sizes_is_another_input() -> None:
    key = Key.generate().derive("areas")
    tree([0, 0, 0], levels=[[1, 1, 2]], **EVEN, key=key)
    with pytest.raises(KeyReuseError, match="with another levels"):
        tree([0, 0, 0], levels=[[1, 2, 2]], **EVEN, key=key, resume=True)


A, B = ["Aa", "Aa", "Bb", "Bb", "Cc", "Cc"], ["n", "n", "n", "n", "s", "s"]


@pytest.mark.parametrize(
    "other",
    [
        [["Cc", "Cc", "Aa", "Aa", "Bb", "Bb"], B],
        [A, ["s", "s", "s", "s", "n", "n"]],
        [[1, 1, 2, 2, 3, 3], B],
        [A],
        [A, [str(i) * 90 for i in (1, 1, 1, 1, 2, 2)]],
        None,
    ],
)
def test_names_of_groups_are_sealed_whatever_the_counts_are(tmp_path, other) -> None:
    """Else groups of equal counts get two noises each, and acceptance says which are equal."""
    ledger, key = Ledger(tmp_path / "b.db", epsilon=9, create=True), Key.generate().derive("areas")
    counts, how = [4, 7] * 3, {"sensitivity": Sensitivity(1, 1), "epsilon": 1, "key": key}
    for paid in ({"ledger": ledger}, {}):
        tiers.forget_labels()
        first = tree(counts, levels=[A, B], **how, **paid)
        with pytest.raises(KeyReuseError) as met:
            tree(counts, **({"branching": 2} if other is None else {"levels": other}), **how, **paid, resume=True)
        assert not isinstance(met.value, OtherInputError)
        assert other is None or "levels" in str(met.value) or len(other) < 2
        again = tree(counts, levels=[np.array(A), B], **how, **paid, resume=True)
        assert all((a == b).all() for a, b in zip(first.noisy[:-1], again.noisy[:-1], strict=True))
    assert (ledger.spent.epsilon, len(ledger.history())) == (1, 1)


def test_a_large_tree_under_a_key() -> None:
    """The product of its levels' sizes is beyond 2^63, and no limit."""
    found = tree(np.zeros(2**18, np.int64), **EVEN, key=Key.generate().derive("large"))
    assert math.prod(each.size for each in found.estimates) >= 2**63
    assert found.noisy[0].any()


@pytest.mark.parametrize("keyed", [False, True])
def test_counts_that_change_meanwhile_are_not_seen(tmp_path, monkeypatch, keyed) -> None:
    """All levels are of one copy, which gets the noise: none sees what is written afterwards."""
    counts, ledger = np.zeros(100, np.int64), Ledger(tmp_path / "l.db", 5, create=True)
    key = {"key": Key.generate().derive("traded")} if keyed else {"label": "traded"}
    sums = kernels.kernel("node_sums")

    def traded(*arrays: Any) -> None:
        sums(*arrays)
        counts[:] = 10**6

    monkeypatch.setattr("dpfast.counts.trees.noise.kernels.kernel", lambda _: traded)
    found = tree(counts, **EVEN, ledger=ledger, **key)
    assert counts.all()
    assert max(abs(level).max() for level in found.noisy if level is not None) < 1000


@pytest.mark.parametrize("keyed", [False, True])
def test_a_level_without_noise_keeps_no_sum(keyed) -> None:
    """Neither a middle level nor the root; nothing of them is in what a pickle holds."""
    key = {"key": Key.generate().derive("silent")} if keyed else {}
    found = tree(np.full(100, 10**12), **EVEN, branching=10, weights=[1, 0, 0], **key)
    assert [level is None for level in found.noisy] == [False, True, True]
    assert not tiers.tree_nodes(found)[100:].any()
    assert tiers.tree_nodes(found)[:100].all()


@pytest.mark.parametrize("keyed", [False, True])
def test_an_error_leaves_no_true_count(tmp_path, monkeypatch, keyed) -> None:
    """A refused charge, and a level that fails when another has its noise."""
    ledger, kept = Ledger(tmp_path / "l.db", Fraction(1, 2), create=True), []
    key = {"key": Key.generate().derive("wiped")} if keyed else {"label": "wiped"}
    true = TreeNoise.true
    monkeypatch.setattr(TreeNoise, "true", lambda *given: kept.append(true(*given)) or kept[-1])
    with pytest.raises(BudgetExhausted):
        tree(np.full(100, 7), **EVEN, ledger=ledger, **key)
    blocks = dpfast.noise.release.seal.Sealed if keyed else dpfast.DiscreteLaplace
    draw, calls = blocks.release, itertools.count()
    monkeypatch.setattr(blocks, "release", lambda *given, **how: 1 / (next(calls) < 1) and draw(*given, **how))
    with pytest.raises(ZeroDivisionError):
        tree(np.full(100, 7), **EVEN, **({"key": key["key"]} if keyed else {}))
    assert len(kept) == 2 - keyed  # a reservation that must fail does so before
    assert not any(each.any() for each in kept)


def test_what_it_says_of_itself() -> None:
    shape = regular(9, 3)
    noise = TreeNoise(shape, ONE, 1, None, None, shares_of(shape, None, None, root=False))
    assert json.loads(json.dumps(noise.metadata()))["levels"][2] is None
    assert noise.metadata()["mechanism"] == "tree"
    assert noise.metadata()["epsilon"] == "1"
    found = tree(np.arange(9), branching=3, **EVEN)
    assert "9 leaves, 3 levels" in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert (again.estimates[0] == found.estimates[0]).all()
    assert found.names == (None, None, None)


# ------------------------------------------------------------------ geography


def test_names_and_spans() -> None:
    town, country = ["Lima", "Lima", "Cusco", "Oslo", "Oslo", "Bergen"], ["Peru"] * 3 + ["Norway"] * 3
    found = tree([10**6, 1, 2, 3, 4, 5], levels=[town, country], **EVEN)
    assert found.names[1].tolist() == ["Lima", "Cusco", "Oslo", "Bergen"]
    assert found.names[2].tolist() == ["Peru", "Norway"]
    begin, end = found.spans(2)
    assert (begin.tolist(), end.tolist()) == ([0, 3], [3, 6])
    assert np.allclose(found.range_sum(begin, end).value, found.estimates[2])
    assert [each.size for each in found.estimates] == [6, 4, 2, 1]
    assert found.noisy[3] is None


def test_integer_names_of_pandas() -> None:
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"block": [1, 2, 3, 4], "tract": [7, 7, 8, 8], "n": [5, 6, 7, 8]})
    found = tree(rows["n"].to_numpy(), levels=[rows["tract"]], **EVEN)
    assert found.names[1].tolist() == [7, 8]


# ------------------------------------------------------------------ bad input

BAD = {
    "an orphan": ({"levels": [["a", None, "b", "b"]]}, "missing"),
    "two parents": ({"levels": [["a", "a", "b", "b"], ["u", "v", "v", "v"]]}, "two parents.*sort"),
    "overlapping levels": ({"levels": [["a", "a", "b", "b"], ["u", "u", "u", "v"]]}, "two parents"),
    "a cycle": ({"levels": [["a", "a", "b", "b"], ["u"] * 4, ["a", "a", "b", "b"]]}, "two parents"),
    "the wrong order": ({"levels": [["u"] * 4, ["a", "a", "b", "b"]]}, "two parents.*lowest level up"),
    "a level that comes again": ({"levels": [["a", "a", "b", "b"], [1, 1, 2, 2]]}, "fewer groups than levels.0."),
    "a level that joins nothing": ({"levels": [["a", "b", "c", "d"]]}, "fewer groups than the leaves"),
    "a group in two places": ({"levels": [["a", "b", "a", "a"]]}, "two places.*sort"),
    "names of other leaves": ({"levels": [["a", "b"]]}, "for each leaf: 4, got 2"),
    "no levels": ({"levels": []}, "at least one"),
    "a text for levels": ({"levels": "abcd"}, "list of columns"),
    "a number for levels": ({"levels": np.array(3)}, "levels must be a list of columns.*not ndarray"),
    "names of columns": ({"levels": ["town", "state"]}, r"levels\[0\] must be a column of .*, not str"),
    "both": ({"levels": [["a", "a", "b", "b"]], "branching": 2}, "not both"),
    "a branching of one": ({"branching": 1}, "at least 2"),
    "no budget": ({"epsilon": None}, "epsilon, epsilon and delta, or rho"),
    "two budgets": ({"rho": 1}, "epsilon, epsilon and delta, or rho"),
    "delta alone": ({"epsilon": None, "delta": 1e-6}, "epsilon, epsilon and delta, or rho"),
    "delta beside rho": ({"epsilon": None, "rho": 1, "delta": 1e-6}, "epsilon, epsilon and delta, or rho"),
    "a number for a sensitivity": ({"sensitivity": 1}, r"Sensitivity\(l0, linf\)"),
    "an L2 norm alone": ({"sensitivity": Sensitivity.from_l2(2)}, r"contributes.*Sensitivity\(l0, linf\)"),
    "a change alone": ({"sensitivity": Sensitivity.changes(1, 1)}, r"contributes.*Sensitivity\(l0, linf\)"),
    "private keys": ({"sensitivity": Sensitivity(1, 1, keys="private")}, "private"),
    "too few weights": ({"weights": [1, 1]}, "one for each level, from the leaves to the root: 3, got 2"),
    "no weight for the leaves": ({"weights": [0, 1, 1]}, "leaves"),
    "a negative weight": ({"weights": [1, -1, 1]}, "negative"),
    "weights and a workload": ({"weights": [1, 1, 1], "workload": [[0, 1]]}, "not both"),
    "weights and a root": ({"weights": [1, 1, 1], "root": True}, "root"),
    "a workload beyond the leaves": ({"workload": [[0, 5]]}, "within 0 to 4"),
    "a workload of nothing": ({"workload": [[2, 2]]}, "not empty"),
    "counts that are reals": ({"counts": [1.0, math.nan]}, "integer dtype"),
    "no counts": ({"counts": np.zeros(0, np.int64)}, "at least one leaf"),
    "two dimensions": ({"counts": np.zeros((2, 2), np.int64)}, "one dimension"),
    "a label without a ledger": ({"label": "ages"}, "ledger"),
    "resume without a key": ({"resume": True}, "no key"),
    "a text for a ledger": ({"ledger": "b.db"}, "Ledger"),
    "no threads": ({"threads": 0}, "at least 1"),
}


def test_levels_of_a_frame() -> None:
    """The names of its columns were taken for the columns."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"town": ["a", "a", "b", "b"], "state": ["u"] * 4})
    assert [each.size for each in tree([1, 2, 3, 4], levels=frame, **EVEN).estimates] == [4, 2, 1]


@pytest.mark.parametrize(("change", "said"), BAD.values(), ids=BAD)
def test_bad_input(change, said) -> None:
    given = {"counts": [1, 2, 3, 4], **EVEN, **({} if "levels" in change else {"branching": 2}), **change}
    with pytest.raises((DTypeError, ParameterError), match=said) as refused:
        tree(given.pop("counts"), **given)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda t: t.quantile(0), "p must be positive"),
        (lambda t: t.quantile(1), "strictly between 0 and 1"),
        (lambda t: t.quantile(math.nan), "p must be"),
        (lambda t: t.quantile(0.5, 1), "confidence must lie"),
        (lambda t: t.range_sum(2, 1), "at most end"),
        (lambda t: t.range_sum(0, 5), "within 0 to 4"),
        (lambda t: t.range_sum(-1, 1), "within 0 to 4"),
        (lambda t: t.range_sum([0, 1], [2, 3, 4]), "one shape"),
        (lambda t: t.range_sum(0.5, 1), "integer dtype"),
        (lambda t: t.cdf(4), "within 0 to 3"),
        (lambda t: t.spans(3), "level must be below 3"),
    ],
)
def test_bad_questions(ask, said) -> None:
    with pytest.raises((DTypeError, ParameterError), match=said):
        ask(tree([1, 2, 3, 4], branching=2, **EVEN))


def test_a_million_cells_may_be_values_of_people() -> None:
    """The length alone says it, before a charge; counts by dpfast, or with levels, are counts."""
    ages, one = np.full(10**6, 40), {"epsilon": 1, "sensitivity": Sensitivity(1, 1)}
    with pytest.warns(
        dpfast.errors.WeakGuaranteeWarning, match="^counts has 1,000,000 cells.*dpfast.quantiles"
    ) as told:
        dpfast.tree(ages, branching=1000, **one)
    assert [each.filename for each in told] == [__file__]
    counted = dpfast.bounded_histogram([1, 2], [1, 2], domain=range(10**6), max_contributions=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpfast.tree(ages[:-1], branching=1000, **one)
        dpfast.tree(ages, levels=[np.arange(10**6) // 1000], **one)
        counted.tree(epsilon=1, branching=1000)
        dpfast.tree(counted.counts, epsilon=1, branching=1000, sensitivity=counted.sensitivity)
    with pytest.raises(
        dpfast.errors.DTypeError, match="of an integer dtype, not float64: dpfast.quantiles takes values"
    ):
        dpfast.tree(np.full(10, 40.5), **one)
