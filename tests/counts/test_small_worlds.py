# SPDX-License-Identifier: Apache-2.0
"""From rows to the result in every small world: databases of up to 4 rows, 3 keys, 2 people.

Rows become counts by bounded_histogram under a fixed key; a mechanism's result has a law in
rationals, for noise of q = exp(-rate) = 1/2 a step. The worst neighbours under both adjacencies are
compared with what the mechanism, made from the counts' Sensitivity, says that it spends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import tiers
from worlds import (
    HALF,
    delta_of,
    exponential_law,
    exponential_top,
    first_above,
    flip_law,
    flip_top,
    gaussian_delta,
    gaussian_law,
    geometric_law,
    geometric_top,
    loss_and_rho,
    most_shown,
    shown_with,
)

import dpfast
from dpfast import Sensitivity
from dpfast.engines import jobs
from dpfast.errors import ParameterError
from dpfast.testing import fixed_key

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.InsecureKeyWarning")

KEYS, PEOPLE, MOST_ROWS = ("a", "b", "c"), (1, 2), 4
LN_2 = Fraction(math.log(2))  # a step of the noise at rate 1 is worth a factor of 2, to 17 digits
Bounds = tuple[int | None, int | None, int | None]  # max_partitions, max_per_partition, max_contributions
STATED: dict[Bounds, tuple[int, int, int]] = {  # and l0, linf, l1 of what one person contributes then
    (1, 1, None): (1, 1, 1), (2, 1, None): (2, 1, 2), (1, 2, None): (1, 2, 2),
    (None, None, 2): (2, 2, 2), (None, None, 3): (3, 3, 3), (2, 2, 3): (2, 2, 3), (None, 1, 2): (2, 1, 2),
}  # fmt: skip
BOUNDS = list(STATED)
ADJACENCIES = ["add-remove", "substitution"]
NEARLY = 1 + Fraction(1, 10**12)  # for that, and for tails that are summed to a reach

Rows = tuple[tuple[int, str], ...]
Counts = tuple[int, ...]


def databases() -> list[Rows]:
    """Up to order, on which counts do not depend (test_bounded_histogram.py)."""
    rows = list(itertools.product(PEOPLE, KEYS))
    return [db for n in range(MOST_ROWS + 1) for db in itertools.combinations_with_replacement(rows, n)]


def of(person: int, database: Rows) -> Rows:
    return tuple(row for row in database if row[0] == person)


@cache
def histogram(database: Rows, bounds: Bounds, adjacency: str = "add-remove") -> dpfast.BoundedHistogram:
    people, keys = [p for p, _ in database], [k for _, k in database]
    return dpfast.bounded_histogram(
        np.array(keys, "U1"), np.array(people, np.int64), domain=KEYS, max_partitions=bounds[0], max_per_partition=bounds[1],
        max_contributions=bounds[2], adjacency=adjacency, key=fixed_key(1).derive("small worlds"),
    )  # fmt: skip


@cache
def counts(database: Rows, bounds: Bounds) -> Counts:
    return tuple(histogram(database, bounds).counts.tolist())


@cache
def pairs(adjacency: str) -> list[tuple[Rows, Rows]]:
    """All neighbours."""
    found = []
    all_of = databases()
    for person in PEOPLE:
        rest: dict[Rows, list[Rows]] = {}
        for database in all_of:
            others = tuple(row for row in database if row[0] != person)
            rest.setdefault(others, []).append(database)
        for same in rest.values():
            for x, y in itertools.permutations(same, 2):
                absent = not of(person, x) or not of(person, y)
                if absent == (adjacency == "add-remove"):
                    found.append((x, y))
    return found


@cache
def neighbours(bounds: Bounds, adjacency: str) -> list[tuple[Counts, Counts]]:
    """The pairs of counts that neighbours give, each once: not what a Sensitivity would allow."""
    found = {(counts(x, bounds), counts(y, bounds)) for x, y in pairs(adjacency)}
    return sorted((x, y) for x, y in found if x != y)


def sensitivity(bounds: Bounds, adjacency: str) -> Sensitivity:
    l0, linf, l1 = STATED[bounds]
    return Sensitivity(l0, linf, l1=l1, cells=len(KEYS), adjacency=adjacency)


def ratio(p: list[Fraction], q: list[Fraction]) -> Fraction:
    return max(a / b for a, b in zip(p, q, strict=True) if a)


first = cache(first_above)
each = pytest.mark.parametrize(("bounds", "adjacency"), list(itertools.product(BOUNDS, ADJACENCIES)))


def test_there_are_as_many_worlds_as_there_should_be() -> None:
    """Multisets of up to 4 of 6 rows; and enough pairs of neighbours under each bound."""
    assert len(databases()) == math.comb(6 + 4, 4) == 210
    assert all(len(neighbours(bounds, adjacency)) > 20 for bounds in BOUNDS for adjacency in ADJACENCIES)


@each
def test_noisy_counts(bounds, adjacency) -> None:
    """sup P_x(y)/P_x'(y) = q^-|x - x'|_1 over integer vectors y: reached, never above e^epsilon."""
    mechanism = dpfast.DiscreteLaplace(LN_2 * sensitivity(bounds, adjacency).l1, sensitivity(bounds, adjacency))
    assert mechanism.scale == float(1 / LN_2)
    promised = 2 ** (mechanism.guarantee.epsilon / LN_2)
    worst = max(2 ** sum(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in neighbours(bounds, adjacency))
    assert worst == promised


@each
def test_counts_take_the_mechanisms_that_hide_their_neighbours(bounds, adjacency) -> None:
    """With q = 1/2: what is taken covers the worst pair, and what is refused may not."""
    worst = max(sum(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in neighbours(bounds, adjacency))
    l1 = int(sensitivity(bounds, adjacency).l1)
    found = histogram(databases()[-1], bounds, adjacency)
    for made_for in range(1, l1 + 3):
        mechanism = dpfast.DiscreteLaplace(LN_2 * made_for, made_for, adjacency=adjacency)
        if made_for < l1:
            with pytest.raises(ParameterError, match=f"mechanism must be made for l1 of at least {l1}, got one for"):
                found.release(mechanism)
        else:
            assert found.release(mechanism).shape == (3,)
            assert worst <= made_for == mechanism.guarantee.epsilon / LN_2
    assert worst == l1  # so the next smaller one is no cover


@each
def test_the_release_of_every_world(bounds, adjacency) -> None:
    """The counts plus the mechanism's own noise: of an equal stream what its release gives."""
    mechanism = dpfast.DiscreteLaplace(1, sensitivity(bounds, adjacency))
    for database in databases():
        found = histogram(database, bounds, adjacency)
        with tiers.fixed_stream():
            assert (found.release(mechanism) == mechanism.release(found.counts)).all()


@cache
def narrow(x: Counts) -> list[Fraction]:
    """The law of three noisy counts that are clamped to [0, 2]."""
    cells = []
    for count in x:
        low, high = 1 - shown_with(count, HALF, 1), shown_with(count, HALF, 2)
        cells.append((low, 1 - low - high, high))
    return [math.prod(masses) for masses in itertools.product(*cells)]


@each
def test_noisy_counts_of_a_narrow_type(bounds, adjacency) -> None:
    """Clamped to [0, 2] after the noise: each cell's law in rationals, the product over cells."""
    promised = Fraction(2) ** int(sensitivity(bounds, adjacency).l1)

    assert 1 < max(ratio(narrow(x), narrow(y)) for x, y in neighbours(bounds, adjacency)) <= promised


@each
def test_keys_that_are_withheld(bounds, adjacency) -> None:
    """The exact delta of every pair at epsilon, for the least threshold of a delta.

    What is stated is what one unit can have alone, also under substitution, and it is reached.
    """
    change, delta, has = sensitivity(bounds, adjacency), Fraction(1, 100), STATED[bounds]
    found = dpfast.thresholded([], np.array([], int), epsilon=LN_2 * change.l1, delta=delta, sensitivity=change)
    stated = most_shown(HALF, found.threshold, *has)
    assert stated <= delta * NEARLY
    assert found.threshold == has[1] + 1 or most_shown(HALF, found.threshold - 1, *has) > delta
    # the others take long, and are no worse
    kept = [(x, y) for x, y in neighbours(bounds, adjacency) if sum(map(max, x, y)) <= 3]
    worst = max(delta_of(x, y, HALF, int(change.l1), found.threshold) for x, y in kept)
    assert 0 < worst <= delta * NEARLY
    if adjacency == "add-remove" or has[2] < 3:  # two units with no key in common, and three rows together
        assert worst >= stated * Fraction(99, 100)


@each
def test_keys_that_are_withheld_by_gaussian_noise(bounds, adjacency) -> None:
    """The exact delta of every pair, both ways; planted: a threshold for nobody's count."""
    made = jobs.GaussianWithholding(1, Fraction(1, 100), sensitivity(bounds, adjacency))
    law = gaussian_law(made.sigma_squared, math.ceil(8 * made.sigma))
    pairs = {tuple(sorted(both for both in zip(x, y, strict=True) if both[0] != both[1]))
             for x, y in neighbours(bounds, adjacency)}  # fmt: skip

    def worst(threshold: int) -> float:
        return max(gaussian_delta(*zip(*cells, strict=True), law, 1, threshold) for cells in pairs)

    assert 0 < worst(made.threshold) <= Fraction(1, 100)
    assert worst(STATED[bounds][1]) > Fraction(1, 100)


@each
@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (dpfast.Exponential, cache(exponential_law)),
        (dpfast.PermuteAndFlip, cache(flip_law)),
        (dpfast.NoisyMax, cache(geometric_law)),
    ],
    ids=["exponential", "permute-and-flip", "noisy max"],
)
def test_the_key_with_most_rows(mechanism, law, bounds, adjacency) -> None:
    """With ties. Monotonic counts (add-remove) need no factor 2; under substitution they do."""
    change, monotonic = sensitivity(bounds, adjacency), adjacency == "add-remove"
    made = mechanism(LN_2 * change.linf * (1 if monotonic else 2), change)  # which knows whether they are monotonic
    assert made.monotonic == monotonic
    assert tiers.rate(made) == LN_2  # a step of a count is worth a factor of 2, as in the laws
    promised = 2 ** (made.guarantee.epsilon / LN_2)
    worst = max(ratio(law(x), law(y)) for x, y in neighbours(bounds, adjacency))
    assert 1 < worst <= promised * NEARLY
    if bounds == (1, 1, None) and not monotonic:
        assert worst > 2  # so the factor 2 is needed


@cache
def told(law: Callable[[Counts, float, int], list[float]], x: Counts, y: Counts) -> tuple[float, float]:
    return loss_and_rho(law(x, 0.5, 2), law(y, 0.5, 2))


@each
@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (dpfast.Exponential, cache(exponential_top)),
        (dpfast.PermuteAndFlip, cache(flip_top)),
        (dpfast.NoisyMax, cache(geometric_top)),
    ],
    ids=["exponential", "permute-and-flip", "noisy max"],
)
def test_the_two_keys_with_most_rows(mechanism, law, bounds, adjacency) -> None:
    """In one shot, in order: loss and rho of every pair are within those of two picks."""
    change, monotonic = sensitivity(bounds, adjacency), adjacency == "add-remove"
    made = mechanism(LN_2 * change.linf * (1 if monotonic else 2), change)
    assert tiers.rate(made) == LN_2
    promised = made.picks(2)

    def moved(x: Counts) -> Counts:  # what all have in common changes no law
        return tuple(count - min(x) for count in x)

    pairs = {(moved(x), moved(y)) for x, y in neighbours(bounds, adjacency)}
    found = [told(law, x, y) for x, y in pairs]
    assert 0 < max(loss for loss, _ in found) <= promised.epsilon + 1e-9
    assert 0 < max(rho for _, rho in found) <= promised.rho


@each
def test_the_first_key_above_a_threshold(bounds, adjacency) -> None:
    """Noise q = e^(-epsilon/(2 linf)); a count's is its root if counts move both ways."""
    change, monotonic = sensitivity(bounds, adjacency), adjacency == "add-remove"
    q_answer, q_threshold = HALF, HALF if monotonic else HALF**2
    made = dpfast.AboveThreshold(LN_2 * change.linf * (2 if monotonic else 4), change, threshold=1)
    assert made.monotonic == monotonic
    rates = [noise.epsilon / noise.sensitivity / LN_2 for noise in tiers.noises(made)]
    assert [2**-r for r in map(int, rates)] == [q_threshold, q_answer]
    promised = 2 ** (made.guarantee.epsilon / LN_2)

    def law(x: Counts) -> list[Fraction]:
        return first(tuple(c - 1 for c in x), q_threshold, q_answer)  # the threshold is 1

    worst = max(ratio(law(x), law(y)) for x, y in neighbours(bounds, adjacency))
    assert 1 < worst <= promised * NEARLY


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_counts_that_nobody_bounded_are_caught(adjacency) -> None:
    """Planted: the rows themselves, counted, with the sensitivity of one row a person."""
    promised = Fraction(2) ** int(sensitivity((1, 1, None), adjacency).l1)

    def plain(database: Rows) -> Counts:
        return tuple(sum(key == k for _, key in database) for k in KEYS)

    apart = [
        sum(abs(a - b) for a, b in zip(plain(x), plain(tuple(r for r in x if r[0] != person)), strict=True))
        for x in databases()
        for person in PEOPLE
    ]
    assert Fraction(2) ** max(apart) > promised


# ------------------------------------------------------------------ sums by key

VALUES = (-1, 1, 3)
SUMS: dict[str, tuple[dict[str, int], Sensitivity]] = {  # the bounds, and what one person contributes then
    "a sum": ({"max_partitions": 1, "lower": -2, "upper": 4}, Sensitivity(1, 4, signed=True)),
    "sums": ({"max_partitions": 2, "lower": 0, "upper": 3}, Sensitivity(2, 3)),
    "two rows": ({"max_contributions": 2, "lower": -1, "upper": 2}, Sensitivity(2, 4, l1=4, signed=True)),
    "two rows, one a key": (
        {"max_contributions": 2, "max_per_partition": 1, "lower": 0, "upper": 3},
        Sensitivity(2, 3),
    ),
    "two rows of a key": ({"max_partitions": 1, "max_per_partition": 2, "lower": 0, "upper": 2}, Sensitivity(1, 4)),
}
Valued = tuple[tuple[int, str, int], ...]


@cache
def tables() -> list[Valued]:
    """All multisets of up to three rows of two people, two keys, three values."""
    rows = list(itertools.product(PEOPLE, KEYS[:2], VALUES))
    return [table for n in range(4) for table in itertools.combinations_with_replacement(rows, n)]


@cache
def alike() -> list[tuple[Valued, list[Valued]]]:
    """The tables that have all but one person's rows in common, and what these are."""
    found = []
    for person in PEOPLE:
        rest: dict[Valued, list[Valued]] = {}
        for table in tables():
            rest.setdefault(tuple(row for row in table if row[0] != person), []).append(table)
        found += rest.items()
    return found


def moves(sums: Callable[[Valued], Counts], adjacency: str) -> set[tuple[int, ...]]:
    """What neighbours differ by."""
    found, apart = {table: np.array(sums(table)) for table in tables()}, set()
    for others, same in alike():
        x = np.array([found[table] for table in same])
        y = x if adjacency == "substitution" else found[others][None]
        apart |= {*map(tuple, (x[:, None] - y).reshape(-1, x.shape[1]).tolist())}
    return apart


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("case", SUMS)
def test_noisy_sums(case, adjacency) -> None:
    """The worst neighbours are worth what a mechanism made for the sums says, and no more."""
    bounds, contributed = SUMS[case]
    key, seen = fixed_key(1).derive("small worlds"), set()

    def sums(table: Valued) -> Counts:
        found = dpfast.bounded_histogram(
            np.array([k for _, k, _ in table], "U1"), np.array([p for p, _, _ in table], int), domain=KEYS[:2],
            values=np.array([v for _, _, v in table], int), adjacency=adjacency, key=key, **bounds,
        )  # fmt: skip
        seen.add(found.sensitivity)
        return tuple(found.counts.tolist())

    apart = moves(sums, adjacency)
    l0, linf = contributed.contributes or (0, 0)
    total, signed = contributed.contributed, contributed.signed
    assert seen == {Sensitivity(l0, linf, l1=total, cells=2, adjacency=adjacency, signed=signed)}
    mechanism = dpfast.DiscreteLaplace(LN_2 * seen.copy().pop().l1, seen.pop())
    assert mechanism.scale == float(1 / LN_2)  # a step of a sum is worth a factor of 2
    worst = max(sum(map(abs, change)) for change in apart)
    assert Fraction(2) ** worst <= 2 ** (mechanism.guarantee.epsilon / LN_2)
    if adjacency == "add-remove":
        assert worst == contributed.l1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    "planted", ["rows that nobody clamped", "sums that nobody clamped", "a row of each key too many"]
)
def test_sums_that_nobody_bounded_are_caught(planted, adjacency) -> None:
    """Each is beyond what the sums of two rows, clamped to [-1, 2], may be moved by."""

    def sums(table: Valued) -> Counts:
        kept = [
            row for p in PEOPLE for row in [row for row in table if row[0] == p][: 3 if "too many" in planted else 2]
        ]
        clamped = kept if "nobody clamped" in planted else [(p, k, min(max(v, -1), 2)) for p, k, v in kept]
        return tuple(sum(v for _, key, v in clamped if key == k) for k in KEYS[:2])

    worst = max(sum(map(abs, change)) for change in moves(sums, adjacency))
    assert worst > Sensitivity(2, 4, l1=4, signed=True, adjacency=adjacency).l1
