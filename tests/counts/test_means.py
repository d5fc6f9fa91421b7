# SPDX-License-Identifier: Apache-2.0
"""Means by key: of the same rows, worth what is charged, in intervals that hold."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers
from bounding import Caps, Choice, release_key

import dpfast
from dpfast.errors import ParameterError

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpfast.errors.WeakGuaranteeWarning"),
    pytest.mark.filterwarnings("ignore::dpfast.errors.InsecureKeyWarning"),
]

NOISELESS = 2**45  # an epsilon whose noise is 0 but for a chance of e^(-2^35)
LOWER, UPPER = 1, 4  # an odd middle, away from 0
KEYS, UNITS, VALUES = ("a", "b"), (1, 2), (0, 9)
KEY = release_key(34)
Numbers = tuple[tuple[int, ...], tuple[int, ...]]  # sums in half steps, counts
CAPS = {  # max_partitions, max_per_partition, max_contributions; and the l1 of the counts that follows
    (1, 1, None): 1, (2, 1, None): 2, (1, 2, None): 2, (2, 2, None): 4, (None, None, 2): 2, (2, 2, 3): 3, (None, 1, 2): 2,
}  # fmt: skip
ADJACENCIES = "add-remove", "substitution"
each_world = pytest.mark.parametrize(("caps", "adjacency"), list(itertools.product(CAPS, ADJACENCIES)))

# ------------------------------------------------------------------ small worlds


def tables(caps: tuple[int | None, ...]) -> list[tuple[tuple[int, str, int], ...]]:
    """All rows of one unit, and one row of another."""
    rows = list(itertools.product(KEYS, VALUES))
    most = 4 if caps == (2, 2, None) else 3
    own = [some for n in range(most + 1) for some in itertools.combinations_with_replacement(rows, n)]
    return [((2, "a", 9), *((1, key, value) for key, value in some)) for some in own]


def histogram(table: Any, caps: tuple[int | None, ...], adjacency: str) -> dpfast.BoundedHistogram:
    units, keys, values = zip(*table, strict=True)
    names = "max_partitions", "max_per_partition", "max_contributions"
    return dpfast.bounded_histogram(
        list(keys), list(units), values=list(values), lower=LOWER, upper=UPPER, domain=KEYS, adjacency=adjacency, key=KEY,
        **dict(zip(names, caps, strict=True)),
    )  # fmt: skip


def numbers(found: Any) -> Numbers:
    return tuple(found.sums.tolist()), tuple(found.counts.tolist())


def by_definition(table: Any, caps: tuple[int | None, ...]) -> Numbers:
    """What each unit keeps, by the definition in plain Python."""
    choice = Choice(KEY)
    sums, counts = (choice.sums(list(table), Caps(*caps, lower, upper)) for lower, upper in ((LOWER, UPPER), (1, 1)))
    return tuple(2 * sums[k] - counts[k] * (LOWER + UPPER) for k in KEYS), tuple(counts[k] for k in KEYS)


@each_world
def test_sums_and_counts_are_of_the_same_rows(caps, adjacency) -> None:
    if adjacency == "add-remove":  # the rows that are kept do not depend on it
        for table in tables(caps):
            found = histogram(table, caps, adjacency).mean(epsilon=NOISELESS)
            assert numbers(found) == by_definition(table, caps)


def moves(
    caps: tuple[int | None, ...], adjacency: str, of: Callable[[Any], Numbers]
) -> Iterator[tuple[list[int], list[int]]]:
    """What neighbours differ by: in the sums and in the counts."""
    every = [of(table) for table in tables(caps)]
    for one, other in itertools.product(every[:1] if adjacency == "add-remove" else every, every):
        yield tuple([abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in zip(one, other, strict=True))


def worst(caps: tuple[int | None, ...], adjacency: str, of: Callable[[Any], Numbers], rates: tuple[Any, Any]) -> Any:
    """The largest privacy loss of Laplace noise of these rates: the sum over cells is reached."""
    return max(rates[0] * sum(s) + rates[1] * sum(n) for s, n in moves(caps, adjacency, of))


def rates(found: Any) -> tuple[Fraction, Fraction]:
    return tuple(each.epsilon / each.sensitivity for each in found.noise.values())


@each_world
def test_neighbours_lose_what_is_charged_and_no_more(caps, adjacency) -> None:
    """Both halves together, for every pair of neighbours; the worst pair loses all of it."""
    found = histogram(tables(caps)[0], caps, adjacency).mean(epsilon=3)
    sides, linf = (1 if adjacency == "add-remove" else 2), min(cap for cap in caps[1:] if cap)
    l1 = sides * CAPS[caps], min(sides * CAPS[caps], len(KEYS) * linf)  # sums have both signs, and counts have one
    assert rates(found) == (Fraction(3, 2) / (l1[0] * (UPPER - LOWER)), Fraction(3, 2) / l1[1])
    lost = worst(caps, adjacency, lambda table: by_definition(table, caps), rates(found))
    assert lost <= 3 == found.guarantee.epsilon
    if adjacency == "add-remove":
        assert lost == 3


@each_world
def test_gaussian_halves_cover_all_neighbours(caps, adjacency) -> None:
    found = histogram(tables(caps)[0], caps, adjacency).mean(rho=2)
    squared = [each.sigma_squared for each in found.noise.values()]
    rho = max(
        sum(Fraction(sum(d * d for d in of), 1) / (2 * s) for of, s in zip(both, squared, strict=True))
        for both in moves(caps, adjacency, lambda table: by_definition(table, caps))
    )
    assert rho <= 2 == found.guarantee.rho
    if adjacency == "add-remove":
        assert rho == 2


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_row_each_is_bounded_by_itself(adjacency) -> None:
    """A row comes, goes, or becomes any other."""
    rows = [(key, value) for key in KEYS for value in (*VALUES, 2)]
    found = dpfast.bounded_histogram(
        ["a"], dpfast.EACH_ROW, values=[9], lower=LOWER, upper=UPPER, domain=KEYS, adjacency=adjacency
    ).mean(epsilon=1)
    assert found.guarantee.unit == "row"

    def of(row: tuple[str, int] | None) -> np.ndarray:
        cells = np.zeros((2, 2), int)
        if row:
            cells[:, KEYS.index(row[0])] = 2 * min(max(row[1], LOWER), UPPER) - LOWER - UPPER, 1
        return cells

    pairs = [(None, row) for row in rows] if adjacency == "add-remove" else itertools.product(rows, rows)
    lost = max(rates(found) @ np.abs(of(x) - of(y)).sum(axis=1) for x, y in pairs)
    assert lost == 1


@pytest.mark.parametrize("caps", CAPS)
def test_planted_defects_lose_more(caps) -> None:
    """Halves that are not split, and raw sums with the noise of centred ones."""
    found = rates(histogram(tables(caps)[0], caps, "add-remove").mean(epsilon=3))
    whole = tuple(2 * rate for rate in found)
    assert worst(caps, "add-remove", lambda table: by_definition(table, caps), whole) == 6

    def raw(table: Any) -> Numbers:
        sums, counts = by_definition(table, caps)
        return tuple(s + n * (LOWER + UPPER) for s, n in zip(sums, counts, strict=True)), counts

    assert worst(caps, "add-remove", raw, found) > 3


# ------------------------------------------------------------------ what is charged

BUDGETS = [{"epsilon": "0.3"}, {"epsilon": "0.3", "delta": "1e-6"}, {"rho": "0.1"}]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_halves_compose_to_what_is_charged(tmp_path, budget, adjacency) -> None:
    by = {"rho": 1} if "rho" in budget else {"epsilon": 1, "delta": "1e-3"}
    ledger = dpfast.Ledger(tmp_path / "budget.db", **by, adjacency=adjacency, create=True)
    found = histogram(tables((2, 1, None))[0], (2, 1, None), adjacency).mean(**budget, ledger=ledger, label="mean")
    assert found.guarantee == dpfast.compose(*found.noise.values())
    for name, amount in budget.items():
        assert getattr(found.guarantee, name) == getattr(ledger.spent, name) == Fraction(amount)
        halves = [getattr(each.guarantee, name) for each in found.noise.values()]
        assert halves == [Fraction(amount) / 2] * 2
    (charge,) = ledger.history()
    assert charge.label == "mean"
    assert charge.parameters["mechanism"] == "mean"
    assert (found.guarantee.add_remove is None) == (adjacency == "add-remove")


def kept_apart(**options: Any) -> dpfast.BoundedHistogram:
    """Many keys, so that there are two blocks, under a key."""
    keys = np.arange(70_000)
    return dpfast.bounded_histogram(
        keys, keys, values=keys % 5, lower=0, upper=4, domain=keys, max_partitions=1, max_per_partition=1, **options
    )


def test_under_a_key_there_is_one_charge_and_one_noise(tmp_path) -> None:
    ledger = dpfast.Ledger(tmp_path / "budget.db", epsilon=1, create=True)
    key = dpfast.Key.generate().derive("ages 2026-11")
    counted = kept_apart(key=key)
    found = counted.mean(epsilon=1, ledger=ledger, key=key)
    again = pickle.loads(pickle.dumps(counted)).mean(epsilon=1, ledger=ledger, key=key, resume=True)
    assert numbers(found) == numbers(again)
    assert ledger.spent.epsilon == 1
    (charge,) = ledger.history()
    manifest = charge.parameters["manifest"]
    assert [each["name"] for each in manifest["columns"]] == ["sum", "count"]
    assert manifest["terms"]["upper"] == "4"
    noise = found.sums - (2 * (counted.keys % 5) - 4), found.counts - 1
    for each in noise:
        assert len(np.unique(each[:65_536] - each[65_536 : 2 * 65_536].mean())) > 5
    with pytest.raises(dpfast.errors.KeyReuseError):
        counted.mean(epsilon=1, ledger=ledger, key=key)
    with pytest.raises(dpfast.errors.KeyReuseError):
        counted.mean(epsilon="0.9", ledger=ledger, key=key, resume=True)
    other = dpfast.bounded_histogram(
        counted.keys, counted.keys, values=4 - counted.keys % 5, lower=0, upper=4, domain=counted.keys,
        max_partitions=1, max_per_partition=1, key=key,
    )  # fmt: skip
    with pytest.raises(dpfast.errors.OtherInputError):
        other.mean(epsilon=1, ledger=ledger, key=key, resume=True)


def of(**changed: Any) -> dpfast.BoundedHistogram:
    given = {
        "values": [1, 2],
        "lower": 0,
        "upper": 3,
        "domain": ["a"],
        "max_partitions": 1,
        "max_per_partition": 1,
        **changed,
    }
    return dpfast.bounded_histogram(["a", "a"], [1, 2], **given)


REALS = {"values": [0.5, 1.5]}
NONE = {"values": None, "lower": None, "upper": None}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (NONE, {}, "values must be given"),
    ({"max_per_partition": None}, {}, "max_per_partition or max_contributions must be given"),
    ({"domain": None}, {}, "domain must be given"),
    ({"lower": 3}, {}, "lower must be less than upper"),
    ({**REALS, "lower": 0.1, "upper": 0.2, "granularity": 0.5}, {}, "too coarse"),
    ({**REALS, "lower": 1.1, "upper": 1.2, "granularity": 0.5}, {}, "lower must be less than upper"),
    ({**REALS, "upper": 2**1030, "granularity": 2.0**1000}, {}, "within the range of float64"),
    ({}, {"epsilon": None}, "epsilon, epsilon and delta, or rho"),
    ({}, {"rho": 1}, "epsilon, epsilon and delta, or rho"),
    ({}, {"epsilon": None, "delta": 1e-6}, "epsilon, epsilon and delta, or rho"),
    ({}, {"epsilon": 0}, "epsilon must be"),
    ({}, {"delta": 2}, "delta must"),
    ({}, {"threads": 0}, "threads must be"),
    ({}, {"resume": True}, "resume is for a release under a key"),
    ({}, {"key": KEY, "ledger": None}, "key must be that of the choice of rows"),
    ({"adjacency": "substitution"}, {}, "adjacency"),
]


@pytest.mark.parametrize(("counted", "asked", "rule"), REFUSED, ids=[rule for *_, rule in REFUSED])
def test_what_is_refused_is_not_charged(tmp_path, counted, asked, rule) -> None:
    ledger = dpfast.Ledger(tmp_path / "budget.db", epsilon=9, delta="0.1", create=True)
    with pytest.raises(dpfast.errors.DpfastError, match=rule) as caught:
        of(**counted).mean(**{"epsilon": 1, "ledger": ledger, **asked})
    assert "[1, 2]" not in str(caught.value)
    assert not ledger.history()


def test_nothing_private_shows() -> None:
    found = of().mean(epsilon=1)
    assert isinstance(found, dpfast.NoisyMeans)
    assert repr(found).startswith("<NoisyMeans of 1 key; <Guarantee epsilon=1, ")


def test_a_histogram_that_lost_its_rows_has_no_mean() -> None:
    with pytest.raises(ParameterError, match="a result of bounded_histogram"):
        of()._replace(sensitivity=dpfast.Sensitivity(1, 1)).mean(epsilon=1)


# ------------------------------------------------------------------ parts, pickles, large sums


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_keep_their_means(again) -> None:
    assert numbers(again(of()).mean(epsilon=NOISELESS)) == numbers(of().mean(epsilon=NOISELESS)) == ((0,), (2,))


def test_parts_add_up_and_large_sums_are_exact() -> None:
    """Values near 2^62: a raw sum of two of them is beyond int64, and what is released is small."""
    rng, middle = np.random.default_rng(3), 2**62
    keys, units = rng.integers(0, 3, 600), rng.integers(0, 200, 600)
    values = middle + rng.integers(-20, 20, 600)
    caps = {"lower": middle - 9, "upper": middle + 10, "domain": range(3), "max_contributions": 2, "key": KEY}
    whole = dpfast.bounded_histogram(keys, units, values=values, **caps)
    cut = [units % 4 == i for i in range(4)]
    parts = [dpfast.bounded_histogram(keys[at], units[at], values=values[at], **caps) for at in cut]
    merged = dpfast.BoundedHistogram.merged(parts)
    table = list(zip(units.tolist(), keys.tolist(), (int(v) for v in values), strict=True))
    ends = ((middle - 9, middle + 10), (1, 1))
    sums, counts = (Choice(KEY).sums(table, Caps(None, None, 2, *bounds)) for bounds in ends)
    assert max(sums.values()) == 2**63 - 1  # by definition a raw sum is brought into int64
    small = Choice(KEY)
    exact = [0] * 3
    for unit in set(units.tolist()):
        own = [(i, row) for i, row in enumerate(table) if row[0] == unit]
        for k, n in small.of_unit(own, Caps(None, None, 2, middle - 9, middle + 10)).items():
            exact[k] += n
    wanted = tuple(2 * exact[k] - counts[k] * (2 * middle + 1) for k in range(3)), tuple(counts[k] for k in range(3))
    assert numbers(whole.mean(epsilon=NOISELESS)) == numbers(merged.mean(epsilon=NOISELESS)) == wanted


# ------------------------------------------------------------------ values and intervals


def test_means_of_real_values_are_middle_plus_ratio() -> None:
    values = [0.3, 2.5, 7.75, 90.0]
    counted = dpfast.bounded_histogram(
        ["a", "a", "a", "b"],
        dpfast.EACH_ROW,
        values=values,
        lower=-1,
        upper=10.5,
        granularity=0.25,
        domain=["a", "b", "c"],
    )
    found = counted.mean(epsilon=NOISELESS)
    assert found.value.tolist() == [(0.25 + 2.5 + 7.75) / 3, 10.5, 4.75]
    assert (found.middle, found.granularity) == (Fraction(19, 4), Fraction(1, 8))
    value, low, high = found.interval()
    assert low.tolist()[2:] == [-1]
    assert high.tolist()[2:] == [10.5]
    assert (low <= value).all()
    assert (value <= high).all()


def released(sums: Any, counts: Any, near: Any) -> Any:
    """Means as if these numbers had come out."""
    found = copy.copy(near)
    found.sums, found.counts = np.array(sums, np.int64), np.array(counts, np.int64)
    return found


def test_an_interval_is_the_range_of_all_means_that_the_noise_allows() -> None:
    """Every sum and count within reach of the noise that rows can have, and no other mean."""
    near = of(lower=-3, upper=3).mean(epsilon=3)
    far, off = (each.interval(Fraction(3, 4)) for each in near.noise.values())
    assert off >= 1
    cells = [(s, n) for s in range(-60, 61, 7) for n in range(-3, 9)]
    value, low, high = released(*zip(*cells, strict=True), near).interval(Fraction(1, 2))
    for i, (s, n) in enumerate(cells):
        least, most = -3.0, 3.0
        if n - off >= 1:
            ratios = [Fraction(a, 2 * b) for a in (s - far, s + far) for b in (n - off, n + off)]
            least, most = (float(min(max(end(ratios), -3), 3)) for end in (min, max))
        assert low[i] == pytest.approx(least, abs=1e-15)
        assert high[i] == pytest.approx(most, abs=1e-15)
        assert low[i] <= least
        assert high[i] >= most
        assert low[i] <= value[i] <= high[i]


def test_no_number_is_nan() -> None:
    ends = [-(2**63), 2**63 - 1, 0, 1, -1, 2**53 + 1]
    for near in (
        of().mean(epsilon=1),
        of(upper=2**56).mean(epsilon=1),
        of(**REALS, lower=1e300, upper=1.7e308, granularity=2.0**1010).mean(rho=1),
    ):
        found = released(*zip(*itertools.product(ends, ends), strict=True), near).interval("0.99")
        assert all(np.isfinite(each).all() for each in found)
        assert (found.lower <= found.value).all()
        assert (found.value <= found.upper).all()


def too_many(misses: int, of: int, chance: float) -> bool:
    """Whether so many misses come with a chance below 1e-9: by the bound of Chernoff."""
    p = misses / of
    if p <= chance:
        return False
    return of * (p * math.log(p / chance) + (1 - p) * math.log((1 - p) / (1 - chance))) > math.log(1e9)


MANY, ROWS = 20_000, 80


@pytest.fixture(scope="module", params=[{"epsilon": 1}, {"rho": "0.05"}], ids=str)
def runs(request) -> tuple[Any, float]:
    """A release a key, all of the same rows, near the upper end, where the count's noise counts."""
    keys = np.repeat(np.arange(MANY), ROWS)
    values = np.tile(9 + np.arange(ROWS) % 2, MANY)
    counted = dpfast.bounded_histogram(keys, dpfast.EACH_ROW, values=values, lower=0, upper=10, domain=np.arange(MANY))
    return counted.mean(**request.param), float(values[:ROWS].mean())


@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.99"])
def test_intervals_hold(runs, confidence) -> None:
    found, true = runs
    _, low, high = found.interval(confidence)
    assert np.isfinite(low).all()
    misses = int(((true < low) | (true > high)).sum())
    assert not too_many(misses, MANY, 1 - float(confidence))
    _, wide_low, wide_high = found.interval(confidence, cells=MANY)
    assert (wide_low <= low).all()
    assert (high <= wide_high).all()


def test_an_interval_that_ignores_the_noise_of_counts_is_found(runs) -> None:
    """Means near an end, of a thousand rows each, so that no end cuts the intervals."""
    near, _ = runs
    true, rows, many = Fraction(99, 10), 1000, 60_000
    sums, counts = (each.sample(many) for each in near.noise.values())
    found = released(sums + int(2 * (true - 5) * rows), counts + rows, near)

    def misses() -> int:
        _, low, high = found.interval("0.95")
        return int(((float(true) < low) | (float(true) > high)).sum())

    assert not too_many(misses(), many, 0.05)
    with tiers.counts_without_noise():
        assert too_many(misses(), many, 0.05)


def test_a_sum_that_int64_may_have_cut_tells_no_mean() -> None:
    """Nanoseconds of ten years: 10,000 of them, in half steps, are beyond int64."""
    low, high = 1_483_228_800 * 10**9, 1_798_761_600 * 10**9
    values = np.full(10_000, high - 1)
    dates = dpfast.bounded_histogram([0] * 10_000, dpfast.EACH_ROW, domain=[0], values=values, lower=low, upper=high)
    for _ in range(20):  # about half of the time noise leads back into int64
        _, (least,), (most,) = dates.mean(epsilon=1).interval(1 - 1e-9)
        assert least <= low
        assert most >= high


def test_an_interval_reaches_bounds_that_are_no_doubles() -> None:
    most = 2**53 + 1
    found = dpfast.bounded_histogram([0] * 100, dpfast.EACH_ROW, domain=[0], values=[most] * 100, lower=0, upper=most)
    assert int(found.mean(epsilon=5).interval(1 - 1e-9).upper[0]) >= most
