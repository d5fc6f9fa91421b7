# SPDX-License-Identifier: Apache-2.0
"""bounded_histogram: rows in all, sums by key, keys of several columns, parts that add up."""

from __future__ import annotations

import itertools
import os
import pickle
import tracemalloc
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers
from bounding import ENDS, Caps, Choice, as_counter, release_key, within
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpfast
from dpfast import BoundedHistogram, DiscreteLaplace, Sensitivity, bounded_histogram
from dpfast.errors import DTypeError, InsecureKeyWarning, ParameterError, UnusableValuesError
from dpfast.testing import fixed_key

ALARM = 1e-9


def ours(rows, caps: Caps, key, *, sums: bool = False, **options: Any) -> BoundedHistogram:
    """Rows are (unit, key, value). A key of several names goes in as several columns."""
    keys: Any = [b for _, b, _ in rows]
    if keys and isinstance(keys[0], tuple):
        keys = tuple(map(list, zip(*keys, strict=True)))
    values = (
        {"values": [v for _, _, v in rows] if rows else np.array([], int), "lower": caps.lower, "upper": caps.upper}
        if sums
        else {}
    )
    return bounded_histogram(
        keys, [u for u, _, _ in rows], max_partitions=caps.partitions, max_per_partition=caps.per_partition,
        max_contributions=caps.contributions, key=key, **values, **options,
    )  # fmt: skip


# ------------------------------------------------------------------ by the definition

UNITS = st.one_of(st.integers(-3, 3), st.integers(*ENDS)), st.text(max_size=3)
NAMES = (
    *UNITS,
    st.tuples(st.integers(0, 3), st.text(max_size=1)),
    st.tuples(st.text(max_size=1), st.integers(*ENDS), st.integers(0, 1)),
)
COUNTS = st.one_of(st.just(1), st.integers(1, 6), st.just(2**62))
MAYBE = st.one_of(st.none(), COUNTS)
VALUES = st.one_of(st.integers(-3, 3), st.sampled_from([*ENDS, 2**62, 5]))
ONES = st.just(1)
SECRETS = st.integers(0, 2**256 - 1)


@st.composite
def tables(draw: Any, values: Any = ONES) -> list:
    """Rows of few units and keys, so that many are of one."""
    units = draw(st.lists(draw(st.sampled_from(UNITS)), min_size=1, max_size=4))
    names = draw(st.lists(draw(st.sampled_from(NAMES)), min_size=1, max_size=8))
    of = draw(st.lists(values, min_size=1, max_size=4))
    return draw(st.lists(st.tuples(*map(st.sampled_from, (units, names, of))), min_size=1, max_size=60))


def compared(rows, caps, secret, **options) -> BoundedHistogram:
    key = release_key(secret)
    found = ours(rows, caps, key, domain=sorted({b for _, b, _ in rows}), **options)
    assert as_counter(found) == Choice(key).sums(rows, caps)
    assert found.keys.tolist() == sorted({b for _, b, _ in rows})
    assert found.counts.dtype == np.int64
    if caps.lower >= 0:
        bare = ours(rows, caps, key, **options)
        assert (bare.keys.tolist(), bare.counts.tolist()) == (found.keys.tolist(), found.counts.tolist())
    return found


@settings(max_examples=150, deadline=None)
@given(tables(), MAYBE, MAYBE, COUNTS, SECRETS)
def test_rows_in_all_are_as_defined(rows, partitions, per_partition, contributions, secret) -> None:
    """Alone and beside the other caps, under any key, with keys of one column or of several."""
    compared(rows, Caps(partitions, per_partition, contributions), secret)


@settings(max_examples=150, deadline=None)
@given(tables(VALUES), MAYBE, MAYBE, MAYBE, VALUES, VALUES, SECRETS)
def test_sums_are_as_defined(rows, partitions, per_partition, contributions, one, other, secret) -> None:
    """Each row's value is clamped where rows are chosen, and else the sum of a unit in a key."""
    each = per_partition is not None or contributions is not None
    if (partitions is None and contributions is None) or one == other == 0:
        return
    compared(
        rows, Caps(partitions, per_partition, contributions, min(one, other), max(one, other), each), secret, sums=True
    )


@settings(max_examples=60, deadline=None)
@given(tables(), COUNTS, COUNTS, SECRETS)
def test_partitions_of_several_columns_are_as_defined(rows, partitions, per_partition, secret) -> None:
    """By the kernel of plain counts, too."""
    compared(rows, Caps(partitions, per_partition), secret)


@settings(max_examples=60, deadline=None)
@given(tables(), MAYBE, MAYBE, COUNTS, SECRETS)
def test_counts_are_sums_of_ones(rows, partitions, per_partition, contributions, secret) -> None:
    caps, key = Caps(partitions, per_partition, contributions), release_key(secret)
    assert (ours(rows, caps, key).counts == ours(rows, caps, key, sums=True).counts).all()


@settings(max_examples=100, deadline=None)
@given(tables(VALUES), MAYBE, MAYBE, COUNTS, SECRETS, st.randoms(use_true_random=False))
def test_a_unit_is_on_its_own_and_order_is_nothing(
    rows, partitions, per_partition, contributions, secret, random
) -> None:
    """Sums are those that each unit has alone, within the Sensitivity; rows in any order."""
    caps, key = Caps(partitions, per_partition, contributions, -2, 3), release_key(secret)
    options = {"sums": True, "domain": sorted({b for _, b, _ in rows})}
    whole = ours(rows, caps, key, **options)
    alone = [ours([r for r in rows if r[0] == u], caps, key, **options) for u in {u for u, _, _ in rows}]
    assert (whole.counts == sum(each.counts for each in alone)).all()
    assert all(within(each.counts[None], whole.sensitivity) for each in alone)
    assert (ours(random.sample(rows, len(rows)), caps, key, **options).counts == whole.counts).all()


def test_every_order_of_few_rows() -> None:
    """All orders of five rows of two people, where three of one are kept."""
    rows = [(1, "a", 5), (1, "a", 5), (1, "b", 5), (1, "a", 4), (2, "a", 1)]  # 5, 4, 5 among the orders
    for caps, secret in itertools.product(
        (Caps(None, None, 2, 0, 9), Caps(1, 2, None, 0, 9), Caps(2, 1, 1, 0, 9)), range(5)
    ):
        key, options = release_key(secret), {"sums": True, "domain": ["a", "b"]}
        assert len({ours(order, caps, key, **options).counts.tobytes() for order in itertools.permutations(rows)}) == 1


@pytest.mark.parametrize("most", [1, tiers.FEW - 1, tiers.FEW, tiers.FEW + 1, 150])
def test_units_of_few_rows_and_of_many(most) -> None:
    """1 to 80 rows a unit, with many equal values, and heaps on both sides of a batch."""
    rng = np.random.default_rng(most)
    rows = [
        (u, int(b), int(v))
        for u in range(1, 81, 3)
        for b, v in zip(rng.integers(0, 3, u), rng.integers(0, 4, u), strict=True)
    ]
    for caps in (Caps(None, None, most, 0, 9), Caps(2, most, None, 0, 9), Caps(2, most, 2 * most, 0, 9)):
        compared(rows, caps, most, sums=True)


def test_one_unit_has_all_rows() -> None:
    """Thousands in a partition, which are sorted otherwise; in any order the same rows are kept."""
    rng, n, key = np.random.default_rng(4), 7000, release_key(4)
    keys, values = np.sort(rng.integers(0, 4, n)) // 3, rng.integers(0, 400, n)  # three quarters in one
    for caps in (Caps(None, None, n // 2, 0, 400), Caps(2, n // 4, None, 0, 400)):
        rows = list(zip([7] * n, keys.tolist(), values.tolist(), strict=True))
        expected = as_counter(compared(rows, caps, 4, sums=True))
        turned = rng.permutation(n)
        for order in (turned, turned[::-1], np.argsort(values), np.argsort(-values)):
            found = ours([rows[i] for i in order], caps, key, sums=True)
            assert as_counter(found) == expected


def test_equal_tags_keep_the_bound() -> None:
    """Bins of one name have one tag: the first are kept, and no more; the same goes for rows."""
    words, none = np.full(8, 9, np.uint64), np.empty(0, np.uint64)
    for whole, left in ((True, [0, 0, 0, 1, 1, 1]), (False, [0, 1])):
        rows, choice = np.repeat(np.arange(5, dtype=np.uint64), 3), tiers.Choice(3, 5, none, words, (1, 2))
        kept = tiers.chosen_rows(rows, np.empty(0, np.int64), choice, 2, shift=3, whole=whole)
        assert rows[:kept].tolist() == left


# ------------------------------------------------------------------ small worlds, all of them

PEOPLE, KEYS, AMOUNTS = (7, -2), ("Ulm", "Jena"), (-2, 1, 3)
SMALL = {
    "rows in all: 1": (Caps(None, None, 1), False),
    "rows in all: 2": (Caps(None, None, 2), False),
    "rows in all: 3, of one key": (Caps(1, None, 3), False),
    "rows in all: 2, one a key": (Caps(None, 1, 2), False),
    "sums clamped, one key": (Caps(1, None, None, -1, 4, each=False), True),
    "sums clamped": (Caps(2, None, None, -2, 2, each=False), True),
    "sums clamped above zero": (Caps(2, None, None, 1, 3, each=False), True),
    "sums of two rows a key": (Caps(1, 2, None, 0, 3), True),
    "sums of two rows": (Caps(None, None, 2, -2, 2), True),
    "sums of three rows, two a key": (Caps(2, 2, 3, 0, 3), True),
}


def worlds(*, sums: bool) -> list[tuple]:
    """All multisets of at most four rows (three, with values) of two people and two keys."""
    kinds = list(itertools.product(PEOPLE, KEYS, AMOUNTS if sums else (1,)))
    return [rows for n in range(4 if sums else 5) for rows in itertools.combinations_with_replacement(kinds, n)]


def farthest(counts: dict, adjacency: str) -> np.ndarray:
    """All that neighbours differ by: of worlds that have all but one person's rows in common."""
    moved = []
    for person in PEOPLE:
        groups: dict = {}
        for rows, found in counts.items():
            groups.setdefault(tuple(r for r in rows if r[0] != person), []).append(found)
        for rest, group in groups.items():
            all_of = np.array(group)
            others = all_of if adjacency == "substitution" else np.array([counts[rest]])
            moved.append((all_of[:, None] - others).reshape(-1, len(KEYS)))
    return np.concatenate(moved)


ADJACENCIES = ("add-remove", "substitution")


@pytest.mark.parametrize("case", SMALL)
def test_every_small_world_keeps_its_distance(case) -> None:
    """All neighbours of all worlds, each key: within the Sensitivity, whose l1 is reached.

    The keys are asked under either adjacency in turn, which changes no count.
    """
    caps, sums = SMALL[case]
    reached, stated = dict.fromkeys(ADJACENCIES, 0), {}
    for secret, asked in enumerate((*ADJACENCIES, "add-remove")):
        found = {
            rows: ours(rows, caps, release_key(secret), sums=sums, domain=KEYS, adjacency=asked)
            for rows in worlds(sums=sums)
        }
        (of_all,) = {f.sensitivity for f in found.values()}
        assert stated.setdefault(asked, of_all) == of_all
        for adjacency in ADJACENCIES:
            other = ours([], caps, release_key(secret), sums=sums, domain=KEYS, adjacency=adjacency).sensitivity
            moved = farthest({rows: f.counts for rows, f in found.items()}, adjacency)
            assert within(moved, stated.setdefault(adjacency, other))
            reached[adjacency] = max(reached[adjacency], int(np.abs(moved).sum(1).max()))
    one_key = caps.partitions == 1
    for adjacency in (
        ADJACENCIES if one_key else ADJACENCIES[:1]
    ):  # two people with few rows, and two keys, reach no more
        assert reached[adjacency] == stated[adjacency].l1


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_every_figure_of_rows_in_all_is_reached(most, step) -> None:
    """By one person's rows, of any number, in as many keys as two people can have: and no more.

    m, m, m, m^2, and under substitution 2m, m, 2m, 2m^2; of sums in steps of 2 likewise.
    """
    keys = range(2 * most)
    for adjacency, figures in (
        ("add-remove", (most, most * step, most * step, (most * step) ** 2)),
        ("substitution", (2 * most, most * step, 2 * most * step, 2 * (most * step) ** 2)),
    ):
        worlds_ = [rows for n in range(most + 2) for rows in itertools.combinations_with_replacement(keys, n)]
        caps, found = Caps(None, None, most, 0, step), []
        for rows in worlds_:
            table = [(7, 0, step)] + [(8, b, 5) for b in rows]
            one = ours(table, caps, release_key(1), sums=step > 1, domain=keys, adjacency=adjacency)
            found.append(one.counts)
        stated = one.sensitivity
        assert (stated.l0, stated.linf, stated.l1, stated.l2_squared) == figures
        counts = np.array(found)
        others = counts if adjacency == "substitution" else counts[:1]
        moved = (counts[:, None] - others).reshape(-1, len(keys))
        size = np.abs(moved)
        assert ((size > 0).sum(1).max(), size.max(), size.sum(1).max(), (size**2).sum(1).max()) == figures


def test_the_sensitivity_of_rows_in_all() -> None:
    """m, m, m, m^2, and 2m, m, 2m, 2m^2; with other caps the least that follows."""

    def stated(**caps: Any) -> Sensitivity:
        return bounded_histogram([1], [1], **caps).sensitivity

    def figures(s: Sensitivity) -> tuple:
        return s.l0, s.linf, s.l1, s.l2_squared

    domain = {"domain": range(100)}
    assert stated(max_contributions=7, **domain) == Sensitivity(l1=7)
    assert figures(stated(max_contributions=7, **domain)) == (7, 7, 7, 49)
    assert figures(stated(max_contributions=7, adjacency="substitution", **domain)) == (14, 7, 14, 98)
    assert figures(stated(max_contributions=7, max_partitions=3, **domain)) == (3, 7, 7, 49)
    assert figures(stated(max_contributions=7, max_per_partition=3, **domain)) == (7, 3, 7, 9 + 9 + 1)
    assert figures(stated(max_contributions=7, max_partitions=3, max_per_partition=3, **domain)) == (3, 3, 7, 19)
    assert stated(max_contributions=99, max_partitions=3, max_per_partition=3, **domain) == Sensitivity(3, 3)
    assert figures(stated(max_contributions=7, domain=[1, 2])) == (2, 7, 7, 49)
    assert stated(max_contributions=7) == Sensitivity(l1=7, keys="private")
    sums = {"values": [1], "lower": -2, "upper": 5, **domain}
    assert stated(max_contributions=3, **sums) == Sensitivity(3, 15, l1=15, signed=True)
    assert stated(max_contributions=4, max_per_partition=3, **sums) == Sensitivity(4, 15, l1=20, signed=True)
    assert stated(max_partitions=2, max_per_partition=3, **sums) == Sensitivity(2, 15, signed=True)
    assert stated(max_partitions=2, **sums) == Sensitivity(2, 5, signed=True)
    assert stated(max_partitions=2, **{**sums, "lower": 0}) == Sensitivity(2, 5)
    assert stated(max_partitions=2, **{**sums, "lower": -9, "upper": -1}) == Sensitivity(2, 9)
    reals = {**sums, "values": [1.0], "lower": 0, "upper": 2.5, "granularity": 0.25}
    assert stated(max_partitions=2, **reals) == Sensitivity(2, 10)


# What a wrong program would do. Each moves more than one unit may, or moves where nobody came.
ONE_ROW = Caps(None, None, 1, 0, 9)
DEFECTS = {
    "tags of row numbers": lambda key, number, row, before: (
        (number * 0x9E3779B97F4A7C15 + key[0]) % 2**64 * 0x2545F4914F6CDD1D % 2**64
    ),
    "the first row": lambda key, number, row, before: number,
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_planted_choices_break_the_bound(defect) -> None:
    """One row of each of 200 people is kept; one more person comes first, or rows change places."""
    rows = [(u, b, 1) for u in range(200) for b in ("Ulm", "Jena")]
    extra = [(-1, "Ulm", 1)]
    shuffled = [rows[i ^ 1] for i in range(len(rows))]

    worst = 0
    for secret in range(4):
        key = release_key(secret)
        right = lambda found, key=key: Choice(key).sums(found, ONE_ROW)  # noqa: E731
        wrong = lambda found, key=key: Choice(key, DEFECTS[defect]).sums(found, ONE_ROW)  # noqa: E731
        actual = lambda found, key=key: as_counter(ours(found, ONE_ROW, key))  # noqa: E731
        for count in (right, actual, wrong):
            before, more, turned = map(count, (rows, [*extra, *rows], shuffled))
            apart = [sum(abs(before[b] - after[b]) for b in KEYS) for after in (more, turned)]
            if count is wrong:
                worst = max(worst, *apart)
            else:
                assert apart[0] <= 1
                assert apart[1] == 0
    assert worst > 10


@pytest.mark.parametrize("planted", ["no clamp", "clamped before the sum", "a row too many"])
def test_planted_sums_leave_the_small_world(planted) -> None:
    """Its distances exceed the Sensitivity of what it should be."""
    wrong = {"no clamp": Caps(1, None, None, -9, 9, each=False), "clamped before the sum": Caps(1, None, None, -1, 2, each=True),
             "a row too many": Caps(1, 2, None, -1, 2)}[planted]  # fmt: skip
    counts = {}
    for rows in worlds(sums=True):
        sums = Choice(release_key(1)).sums(list(rows), wrong)
        counts[rows] = [sums[b] for b in KEYS]
    stated = Sensitivity(1, 2, signed=True)
    assert not within(farthest(counts, "add-remove"), stated)


# ------------------------------------------------------------------ the choice


def test_the_choice_of_rows_is_uniform() -> None:
    """Which two of five rows 20,000 units keep, two of them equal: chi-squared, 1e-9."""
    n = 20_000
    values = np.tile([1, 10, 100, 1000, 1000], n)
    for caps in ({"max_contributions": 2}, {"max_partitions": 1, "max_per_partition": 2}):
        found = bounded_histogram(
            np.repeat(np.arange(n), 5),
            np.repeat(np.arange(n), 5),
            values=values,
            lower=0,
            upper=1000,
            domain=np.arange(n),
            **caps,
        )
        seen = Counter(found.counts.tolist())
        expected = {1 + 10: 1, 1 + 100: 1, 1 + 1000: 2, 10 + 100: 1, 10 + 1000: 2, 100 + 1000: 2, 2000: 1}
        assert seen.keys() == expected.keys()
        assert stats.chisquare([seen[s] for s in expected], [n * e / 10 for e in expected.values()]).pvalue > ALARM
    assert stats.chisquare([seen[s] for s in expected], [n / 7] * 7).pvalue < ALARM  # planted: equal rows are one


def test_rows_in_all_are_spread_over_keys() -> None:
    """A unit has nine rows in one key and one in another: that one is kept a tenth of the time."""
    n = 20_000
    keys = np.where(np.arange(10 * n) % 10 == 0, 1, 0)
    found = bounded_histogram(keys, np.repeat(np.arange(n), 10), domain=[0, 1], max_contributions=1)
    assert stats.binomtest(int(found.counts[1]), n, 0.1).pvalue > ALARM
    assert stats.binomtest(n // 2, n, 0.1).pvalue < ALARM  # planted: a key each half of the time


# ------------------------------------------------------------------ values


BASE: dict[str, Any] = {"keys": [1, 1, 2], "unit_ids": [1, 2, 3], "domain": [1, 2], "max_contributions": 5}


def sums_of(values: Any, lower: Any, upper: Any, **options: Any) -> list[int]:
    return bounded_histogram(**{**BASE, "values": values, "lower": lower, "upper": upper, **options}).counts.tolist()


def test_integers_of_every_width_and_their_ends() -> None:
    """At int64's ends, and uint64 beyond them; sums saturate, and saturate once."""
    low, high = ENDS
    for dtype in ("int8", "uint8", "int16", ">i4", "uint32", "int64", "uint64"):
        assert sums_of(np.array([1, 2, 3], dtype), 0, 2) == [3, 2]
    assert sums_of(np.array([2**64 - 1, 5, 2**63], np.uint64), 0, high) == [high, high]
    assert sums_of(np.array([2**64 - 1, 5, 2**63], np.uint64), 0, 100) == [105, 100]
    assert sums_of([low, low, high], low, high) == [low, high]
    assert sums_of([low, high, low], low, high) == [-1, low]
    three = {"keys": [1, 1, 1], "unit_ids": [1, 2, 3]}
    for order in itertools.permutations([high, high, low]):
        assert sums_of(list(order), low, high, **three) == [high - 1, 0]
    one = {**three, "unit_ids": [1, 1, 1], "max_contributions": None, "max_partitions": 1}
    for order in itertools.permutations([high, high, low]):
        assert sums_of(list(order), low, high, **one) == [high - 1, 0]
        assert sums_of(list(order), -5, 7, **one) == [7, 0]
    assert sums_of([high, high, 5], low, high, **one) == [high, 0]
    assert sums_of([low, -5, low], low, high, **one) == [low, 0]
    assert bounded_histogram(**{**BASE, "values": [1, 1, 1], "lower": low, "upper": high}).sensitivity.linf == 5 * 2**63


def test_reals_are_whole_steps() -> None:
    """Half to even, each on its own; both floats, any layout; beyond the bounds, and infinite."""
    grid = {"granularity": 0.25}
    assert sums_of([0.125, 0.375, 0.624], -1, 1, **grid) == [2, 2]
    assert sums_of(np.array([0.125, 0.375, 0.624], np.float32), -1, 1, **grid) == [2, 2]
    assert sums_of(np.array([0.125, 0.375, 0.624], ">f8"), -1, 1, **grid) == [2, 2]
    assert sums_of(np.array([0.125, 9, 0.375, 9, 0.624, 9])[::2], -1, 1, **grid) == [2, 2]
    assert sums_of([np.inf, -np.inf, 1e300], -1, 2, **grid) == [8 - 4, 8]
    assert sums_of([-0.0, 5e-324, 1e-310], -1, 2, **grid) == [0, 0]
    assert sums_of([5e-324, 1e-323, 1e-310], 0, 1e-310, granularity=2.0**-1074) == [
        3,
        round(Fraction(1e-310) / Fraction(5e-324)),
    ]
    assert sums_of([2.0**1023, 1e300, -1.7e308], -(2.0**1023), 2.0**1023, granularity=2.0**1023) == [1, -1]
    found = bounded_histogram(**{**BASE, "values": [0.5, 0.5, 0.5], "lower": 0, "upper": 1, **grid})
    assert found.granularity == Fraction(1, 4)
    assert found.sensitivity == Sensitivity(2, 20, l1=20)
    assert bounded_histogram(**BASE).granularity == 1


def test_values_of_other_libraries() -> None:
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    plain = sums_of([3, 1, 2], 0, 2)
    for column in (pd.Series([3, 1, 2], index=[5, 6, 7]), pd.Series([3, 1, 2], dtype="Int32"), pl.Series([3, 1, 2]), pa.array([3, 1, 2]),
                   pa.chunked_array([[3], [1, 2]])):  # fmt: skip
        assert sums_of(column, 0, 2) == plain
    for column in (
        pl.Series([0.5, None, 1.0]),
        pa.array([0.5, None, 1.0]),
        pd.Series([0.5, None, 1.0]),
        [0.5, float("nan"), 1.0],
    ):
        with pytest.raises(UnusableValuesError, match="values must contain no NaN and no null"):
            sums_of(column, 0, 2, granularity=0.5)
    for column in (pl.Series([3, None, 2]), pa.array([3, None, 2]), pd.Series([3, None, 2], dtype="Int32")):
        with pytest.raises((UnusableValuesError, DTypeError), match="values must"):
            sums_of(column, 0, 2)
    with pytest.raises(DTypeError, match="values must be of integers, float64 or float32, not object"):
        sums_of([3, None, 2], 0, 2)


def test_a_list_of_no_values_is_one_of_integers() -> None:
    """NumPy makes floats of it, and the message asked for a granularity."""
    empty = bounded_histogram([], [], values=[], domain=["a"], lower=0, upper=2, max_partitions=1)
    assert empty.counts.tolist() == [0]


BAD_SUMS = [
    ({"lower": 3}, ParameterError, "lower must be at most upper, got 3 and 2"),
    ({"lower": None}, ParameterError, "lower and upper must be given with values"),
    ({"upper": None}, ParameterError, "lower and upper must be given with values"),
    ({"lower": 0, "upper": 0}, ParameterError, "must not both be 0"),
    ({"lower": 0.5}, DTypeError, "lower must be an int, not float"),
    ({"lower": True}, DTypeError, "lower must be an int, not bool"),
    ({"upper": 2**63}, ParameterError, "lower and upper must fit int64"),
    ({"granularity": 0.3, "values": [0.5] * 3}, ParameterError, "granularity must be a power of two"),
    ({"granularity": 0.5}, ParameterError, "granularity must be 1, or be left out, where values are of int64"),
    ({"values": [0.5, 7.7, 1.0]}, ParameterError, "granularity must be given where values are of float64"),
    (
        {"granularity": 8, "values": [0.5] * 3},
        ParameterError,
        "granularity is too coarse: lower and upper must not both be rounded to 0",
    ),
    ({"granularity": 0.5, "values": [0.5] * 3, "upper": 2**63}, ParameterError, "granularity is too fine"),
    ({"granularity": 0.5, "values": [0.5] * 3, "upper": float("nan")}, ParameterError, "upper must be finite"),
    ({"granularity": 0.5, "values": [0.5] * 3, "upper": float("inf")}, ParameterError, "upper must be finite"),
    ({"granularity": 0.5, "values": [0.5, float("nan"), 7.7]}, UnusableValuesError, "values must contain no NaN"),
    ({"values": [1, 2]}, ParameterError, "values and unit_ids must be of equal length"),
    ({"values": 5}, ParameterError, "values must have one dimension, got 0"),
    ({"values": [[1, 2, 3]]}, ParameterError, "values must have one dimension, got 2"),
    ({"values": ["7", "8", "9"]}, DTypeError, "values must be of integers, float64 or float32, not <U1"),
    ({"values": [True, False, True]}, DTypeError, "float32, not bool"),
    ({"values": [2**64, 1, 1]}, DTypeError, "float32, not object"),
    ({"values": np.array([1, 2, 3], np.float16)}, DTypeError, "float32, not float16"),
    ({"values": np.ma.array([7, 7, 7], mask=[0, 1, 0])}, DTypeError, "masked"),
    ({"unit_ids": [1, None, 3]}, DTypeError, "unit_ids must contain"),
    ({"unit_ids": [1, 3]}, ParameterError, "keys and unit_ids must be of equal length"),
    ({"domain": None, "lower": -1}, ParameterError, "lower must be at least 0 without a domain"),
    ({"max_contributions": None}, ParameterError, "max_contributions must be given, or max_partitions$"),
    (
        {"max_contributions": None, "max_per_partition": 3},
        ParameterError,
        "max_contributions must be given, or max_partitions$",
    ),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_SUMS, ids=str)
def test_bad_sums(change, error, message) -> None:
    with pytest.raises(error, match=message) as caught:
        bounded_histogram(**{**BASE, "values": [1, 2, 7], "lower": 0, "upper": 2, **change})
    assert "7" not in str(caught.value).replace(str(2**63), "")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_contributions": 0}, ParameterError, "max_contributions must be at least 1, got 0"),
        ({"max_contributions": 2.0}, DTypeError, "max_contributions must be an int"),
        ({"max_contributions": None}, ParameterError, "max_contributions must be given, or max_partitions with max_per_partition"),
        ({"max_contributions": None, "max_partitions": 1}, ParameterError, "max_contributions must be given, or max_part"),
        ({"max_contributions": 2**63, "domain": None}, ParameterError, r"max_contributions must be below 2\*\*63"),
        ({"lower": 0}, ParameterError, "are of values: give values, or leave them out"),
        ({"granularity": 1}, ParameterError, "are of values: give values, or leave them out"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_caps(change, error, message) -> None:
    with pytest.raises(error, match=message):
        bounded_histogram(**{**BASE, **change})


def test_no_rows() -> None:
    for caps in ({"max_contributions": 2}, {"max_partitions": 2}, {"max_partitions": 1, "max_per_partition": 1}):
        for values in (np.array([], int), np.array([])):
            grid = {"granularity": 1} if values.dtype == float else {}
            found = bounded_histogram([], [], values=values, lower=0, upper=5, domain=[1, 2], **caps, **grid)
            assert found.counts.tolist() == [0, 0]
            assert bounded_histogram([], [], values=values, lower=0, upper=5, **caps, **grid).counts.size == 0
    assert bounded_histogram(([], []), [], domain=([1], ["a", "b"]), max_contributions=2).counts.tolist() == [0, 0]
    assert bounded_histogram(([], []), [], max_contributions=2).counts.size == 0


def test_caps_beyond_what_there_is() -> None:
    """Nothing is lost, and no memory is asked for it."""
    huge = {"max_partitions": 2**62, "max_per_partition": 2**70, "max_contributions": 2**70}
    assert bounded_histogram([1, 1, 2], [1, 1, 1], domain=[1, 2], **huge).counts.tolist() == [2, 1]
    assert sums_of([5, 6, 7], 0, 9, **huge) == [11, 7]


def test_memory_with_values() -> None:
    rng, n = np.random.default_rng(1), 1 << 21
    keys, ids, values = rng.integers(0, 100, n), rng.integers(0, n // 10, n), rng.integers(0, 100, n)
    for options, most in (({"values": values, "lower": 0, "upper": 9}, 33), ({}, 9)):
        few = {name: each[:999] if name == "values" else each for name, each in options.items()}
        bounded_histogram(keys[:999], ids[:999], domain=range(100), max_contributions=3, **few)  # loads the kernels
        tracemalloc.start()
        bounded_histogram(keys, ids, domain=range(100), max_contributions=3, **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most * n + 5e6


# ------------------------------------------------------------------ several columns


def test_keys_of_several_columns() -> None:
    """Domains by column make a product; a list names tuples; without either those that occur."""
    towns, years, people = ["Ulm", "Jena", "Ulm", "Köln"], np.array([2024, 2025, 2025, 2025], np.int16), [1, 1, 2, 3]
    product = bounded_histogram((towns, years), people, domain=(["Ulm", "Jena"], [2025, 2024]), max_contributions=9)
    assert product.keys.tolist() == [("Ulm", 2025), ("Ulm", 2024), ("Jena", 2025), ("Jena", 2024)]
    assert product.counts.tolist() == [1, 1, 1, 0]
    assert product.sensitivity == Sensitivity(4, 9, l1=9)
    listed = bounded_histogram(
        (towns, years), people, domain=[("Köln", 2025), ("Ulm", 7), ("Ulm", 2024)], max_contributions=9
    )
    assert (listed.keys.tolist(), listed.counts.tolist()) == ([("Köln", 2025), ("Ulm", 7), ("Ulm", 2024)], [1, 0, 1])
    bare = bounded_histogram((towns, years), people, max_contributions=9)
    assert bare.keys.tolist() == [("Jena", 2025), ("Köln", 2025), ("Ulm", 2024), ("Ulm", 2025)]
    assert (bare.counts.tolist(), bare.sensitivity.keys) == ([1] * 4, "private")
    with pytest.raises(ParameterError, match="keys must all be of the domain"):
        bounded_histogram((towns, years), people, domain=(["Ulm"], [2024, 2025]), max_contributions=9, outside="refuse")
    one = bounded_histogram((towns,), people, domain=(["Ulm"],), max_contributions=9)
    assert (one.keys.tolist(), one.counts.tolist()) == ([("Ulm",)], [2])
    flat = bounded_histogram(tuple(towns), people, domain=("Ulm",), max_contributions=9)
    assert (flat.keys.tolist(), flat.counts.tolist()) == (["Ulm"], [2])


def test_many_columns_of_far_names() -> None:
    """Four columns, each over all of int64: pairs are numbered from column to column."""
    rng = np.random.default_rng(3)
    columns = tuple(rng.integers(*ENDS, 30)[rng.integers(0, 30, 400)] for _ in range(4))
    rows = list(zip(*(c.tolist() for c in columns), strict=True))
    found = bounded_histogram(columns, np.arange(400), max_contributions=1)
    assert as_counter(found) == Counter(rows)
    assert found.keys.tolist() == sorted(set(rows))
    some = rows[::3]
    part = bounded_histogram(columns, np.arange(400), domain=list(dict.fromkeys(some)), max_contributions=1)
    assert as_counter(part) == Counter(row for row in rows if row in set(some))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"keys": ([1, 2], [1])}, ParameterError, "keys must be columns of equal length"),
        ({"keys": ([1, 2], [1.5, 2.5])}, DTypeError, r"keys\[1\] must contain integers or strings"),
        ({"keys": ([1, 2], 5)}, DTypeError, r"keys\[1\] must be a column of"),
        ({"keys": ([1, 2], [None, 2])}, DTypeError, r"keys\[1\] must contain .* none missing; there are NoneType, int"),
        ({"keys": (1, [2, 3])}, DTypeError, "keys and domain must be both of one column, or both of several"),
        ({"keys": (1, [2, 3]), "domain": [1]}, DTypeError, "keys must contain"),
        ({"domain": [1, 2]}, DTypeError, "domain must be columns"),
        ({"domain": ([1, 2],)}, DTypeError, "domain must be columns"),
        ({"domain": [(1, 2, 3)]}, DTypeError, "domain must be columns"),
        ({"domain": [(1, "a"), (2, "a", 3)]}, DTypeError, "domain must be columns"),
        ({"domain": [(1, "a"), (1, "a")]}, ParameterError, "domain must list each key once"),
        ({"domain": [([], "a")]}, DTypeError, "domain must contain"),
        ({"domain": []}, ParameterError, "domain must contain at least one key"),
        ({"domain": ([1, 1], ["a"])}, ParameterError, r"domain\[0\] must list each key once"),
        ({"domain": ([1], [])}, ParameterError, r"domain\[1\] must contain at least one key"),
        ({"domain": (["a"], [1])}, DTypeError, "keys and domain must be both of integers or both of strings"),
        ({"domain": [(1, 1.5)]}, DTypeError, "domain must contain integers or strings"),
        ({"keys": [1, 2], "domain": [(1, "a")]}, DTypeError, "keys and domain must be both of one column"),
        ({"keys": [1, 2], "domain": ([1], ["a"])}, DTypeError, "keys and domain must be both of one column"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_columns(change, error, message) -> None:
    good = {"keys": ([1, 2], ["a", "b"]), "unit_ids": [1, 2], "domain": ([1, 2], ["a", "b"]), "max_contributions": 2}
    with pytest.raises(error, match=message):
        bounded_histogram(**{**good, **change})


# ------------------------------------------------------------------ parts of the whole

KINDS = {
    "integers": (lambda rng, n: rng.integers(0, 9, n), np.arange(9)),
    "texts": (
        lambda rng, n: np.array([f"town {i}" for i in range(9)])[rng.integers(0, 9, n)],
        [f"town {i}" for i in range(9)],
    ),
    "tuples": (
        lambda rng, n: (rng.integers(0, 3, n), np.array(["x", "ü", "z"])[rng.integers(0, 3, n)]),
        (range(3), ["x", "ü", "z"]),
    ),
}
WAYS: dict[str, dict[str, Any]] = {
    "counts": {"max_partitions": 2, "max_per_partition": 2},
    "rows in all": {"max_contributions": 3},
    "sums of rows": {"max_contributions": 4, "max_per_partition": 1, "lower": 0, "upper": 3},
    "sums": {"max_partitions": 2, "lower": 0, "upper": 30},
    "reals": {"max_partitions": 2, "lower": 0, "upper": 30, "granularity": 2.0**-9},
}


def cut(columns: Any, at: np.ndarray) -> Any:
    return tuple(each[at] for each in columns) if isinstance(columns, tuple) else columns[at]


@pytest.mark.parametrize("shards", [2, 3, 7])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_parts_by_unit_add_up_to_the_whole(kind, way, shards) -> None:
    """Byte for byte, in any order of rows and parts, by a chooser that was pickled."""
    rng, n = np.random.default_rng(shards), 3000
    make, domain = KINDS[kind]
    keys, ids = make(rng, n), np.array([f"person {i}" for i in range(150)])[rng.integers(0, 150, n)]
    options, values = WAYS[way], rng.integers(-5, 9, n) if way != "reals" else rng.normal(3, 9, n)
    release_key_ = release_key(5)
    chooser = pickle.loads(pickle.dumps(release_key_.chooser()))
    shard = rng.integers(0, shards, 150)[np.char.partition(ids, " ")[:, 2].astype(int)]
    for wanted in ({"domain": domain}, {}):

        def of(at: np.ndarray, key: Any, wanted: Any = wanted) -> BoundedHistogram:
            given = {"values": values[at]} if "lower" in options else {}
            return bounded_histogram(cut(keys, at), ids[at], key=key, **given, **options, **wanted)

        whole = of(np.arange(n), release_key_)
        orders = [rng.permutation(np.flatnonzero(shard == j)) for j in rng.permutation(shards)]
        parts = [pickle.loads(pickle.dumps(of(at, chooser))) for at in [*orders, np.arange(0)]]
        together = BoundedHistogram.merged(parts)
        assert together.counts.tobytes() == whole.counts.tobytes()
        assert together.keys.tolist() == whole.keys.tolist()
        assert together.keys.dtype == whole.keys.dtype
        assert (together.sensitivity, together.terms) == (whole.sensitivity, whole.terms)
        if wanted:
            assert sum(part.counts for part in parts).tobytes() == whole.counts.tobytes()
        again = BoundedHistogram.merged([BoundedHistogram.merged(parts[:1]), BoundedHistogram.merged(iter(parts[1:]))])
        assert again.counts.tobytes() == whole.counts.tobytes()


PART: dict[str, Any] = {"keys": [1, 2], "unit_ids": [1, 2], "max_contributions": 2, "key": release_key(1)}


def part(keys: Any = None, ids: Any = None, **options: Any) -> BoundedHistogram:
    rows = {} if keys is None else {"keys": keys, "unit_ids": range(len(keys)) if ids is None else ids}
    return bounded_histogram(**{**PART, **rows, **options})


def test_merged_keys_of_many_kinds() -> None:
    """Integers of unequal signs, and texts; keys that nobody has in one part."""
    joined = BoundedHistogram.merged([part([1, 2**63]), part([5, 1], [3, 4]), part([])])
    assert (joined.keys.tolist(), joined.counts.tolist(), joined.keys.dtype) == ([1, 5, 2**63], [2, 1, 1], np.uint64)
    assert BoundedHistogram.merged([part([])] * 2).counts.size == 0
    texts = BoundedHistogram.merged([part(["b", "ü"]), part(["a", "b"], [3, 4])])
    assert (texts.keys.tolist(), texts.counts.tolist()) == (["a", "b", "ü"], [1, 2, 1])


def test_merged_sums_saturate() -> None:
    """As one sum does, if no part is beyond int64."""
    high = ENDS[1]
    given = {"values": [high], "lower": 0, "upper": high, "domain": [1], "max_contributions": 1}
    parts = [part([1], [u], **given) for u in range(3)]
    assert BoundedHistogram.merged(parts).counts.tolist() == [high]
    assert BoundedHistogram.merged(parts[:1]).counts.tolist() == [high]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"key": release_key(2)}, "these differ: key"),
        ({"key": None}, "these differ: key"),
        ({"max_contributions": 3}, "these differ: caps"),
        ({"max_per_partition": 9}, "these differ: caps"),
        ({"adjacency": "substitution"}, "these differ: sensitivity"),
        ({"unit": "household"}, "these differ: sensitivity"),
        ({"domain": [1, 2]}, "these differ: sensitivity"),
        ({"values": [1, 1], "lower": 0, "upper": 1}, "these differ: bounds"),
        ({"keys": ["a", "b"]}, "these differ: keys, or the domain"),
        ({"keys": ([1, 2], [1, 2])}, "these differ: keys, or the domain"),
    ],
    ids=str,
)
def test_parts_that_differ_are_refused(other, message) -> None:
    for parts in ([part(), part(**other)], [part(), part(), part(**other)]):
        with pytest.raises(ParameterError, match=message):
            BoundedHistogram.merged(parts)


def test_a_unit_in_two_parts_breaks_the_bound() -> None:
    """Why parts are cut by unit: no part can see it."""
    given = {"domain": [1], "max_contributions": 1}
    cut_through = BoundedHistogram.merged([part([1], [7], **given), part([1], [7], **given)])
    whole = part([1, 1], [7, 7], **given)
    assert (cut_through.counts.tolist(), whole.counts.tolist(), whole.sensitivity.l1) == ([2], [1], 1)


def test_what_else_is_no_part() -> None:
    domains = [part(domain=[1, 2]), part(domain=[2, 1])], [part(domain=[1, 2]), part(domain=[1, 3])]
    for parts in domains:
        with pytest.raises(ParameterError, match="these differ: keys, or the domain"):
            BoundedHistogram.merged(parts)
    with pytest.raises(ParameterError, match="these differ: keys, or the domain"):
        BoundedHistogram.merged([part(["a", "b"]), part(([1, 2], ["a", "b"]))])
    for fresh in ([part(key=None)], [part(key=None), part()], [BoundedHistogram(*part())]):
        with pytest.raises(ParameterError, match="give key= to each"):
            BoundedHistogram.merged(fresh)
    with pytest.raises(ParameterError, match="parts must contain at least one"):
        BoundedHistogram.merged([])
    with pytest.raises(DTypeError, match="parts must be results of bounded_histogram, not tuple"):
        BoundedHistogram.merged([tuple(part())])
    with pytest.raises(DTypeError, match="parts must be results of bounded_histogram, not int"):
        BoundedHistogram.merged(5)


def test_a_chooser_chooses_and_nothing_else() -> None:
    """As its release key; it shows no secret, and a child of a fork may use it, unlike the key."""
    key = release_key(3)
    chooser = key.chooser()
    assert (chooser.id, chooser.secure) == (key.id, True)
    assert repr(chooser) == f"<Chooser, key {key.id[:8]}>"
    assert len({word for function in tiers.choice_of(key) for word in function}) == 8
    with pytest.raises(DTypeError, match="key must be a release key"):
        DiscreteLaplace(1, 1).release([1], key=chooser)
    with pytest.warns(InsecureKeyWarning, match="fixed key"):
        part(key=pickle.loads(pickle.dumps(fixed_key(7).derive("bins").chooser())))
    rows = {"keys": list(range(40)) * 2, "ids": [1] * 40 + [2] * 40}
    expected = part(**rows, key=key).counts.tobytes()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, part(**rows, key=chooser).counts.tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10**6) == expected
    os.close(read)
    os.close(write)


# ------------------------------------------------------------------ on to a release


def test_they_are_released_by_what_hides_them(tmp_path) -> None:
    """By what was made for as much; less is refused; a ledger pays."""
    found = bounded_histogram(
        [1, 1, 2], [1, 1, 2], values=[3, 4, 5], lower=0, upper=5, domain=[1, 2, 3], max_contributions=2
    )
    change = found.sensitivity
    assert change == Sensitivity(2, 10, l1=10)
    for law in (DiscreteLaplace(1, change), DiscreteLaplace(1, 10), dpfast.DiscreteGaussian.from_zcdp(0.5, change),
                dpfast.DiscreteGaussian.calibrated(1, Sensitivity(l1=10), delta=1e-6)):  # fmt: skip
        assert found.release(law).shape == (3,)
    for law in (DiscreteLaplace(1, 9), dpfast.DiscreteGaussian.from_zcdp(0.5, Sensitivity(l1=9)),
                dpfast.DiscreteGaussian.from_zcdp(0.5, Sensitivity(2, 7))):  # fmt: skip
        with pytest.raises(ParameterError, match="mechanism must be made for"):
            found.release(law)
    ledger = dpfast.Ledger(tmp_path / "budget.db", 1, create=True)
    assert found.release(DiscreteLaplace(1, change), ledger=ledger, label="spend").shape == (3,)
    assert ledger.spent.epsilon == 1


def test_rows_in_all_need_less_noise() -> None:
    """Ten rows a person: l1 is 10, where ten keys of ten rows would be 100."""
    one = bounded_histogram([1], [1], domain=range(99), max_contributions=10).sensitivity
    other = bounded_histogram([1], [1], domain=range(99), max_partitions=10, max_per_partition=10).sensitivity
    assert (one.l1, other.l1) == (10, 100)
    assert (
        dpfast.DiscreteGaussian.calibrated(1, one, delta=1e-6).sigma
        < dpfast.DiscreteGaussian.calibrated(1, other, delta=1e-6).sigma / 3
    )


def test_unlisted_sums_go_into_thresholded() -> None:
    rng = np.random.default_rng(2)
    keys, ids = rng.integers(0, 5, 4000), rng.integers(0, 2000, 4000)
    found = bounded_histogram(keys, ids, values=rng.integers(0, 9, 4000), lower=0, upper=8, max_contributions=2)
    shown = dpfast.thresholded(found.keys, found.counts, epsilon=1, delta=1e-6, sensitivity=found.sensitivity)
    assert shown.keys.tolist() == [0, 1, 2, 3, 4]
    assert np.abs(shown.counts - found.counts).max() < 500


def test_unlisted_keys_of_several_columns_go_into_thresholded() -> None:
    """Sorted, and still tuples, however many are shown; one with a missing name is dropped."""
    rng = np.random.default_rng(2)
    towns, years = np.array(["Ulm", "Jena"])[rng.integers(0, 2, 4000)], rng.integers(2024, 2026, 4000)
    found = bounded_histogram((towns, years), np.arange(4000), max_contributions=1)
    for most in (4, 2, 1, 0):
        counts = np.where(np.arange(4) < most, found.counts, 1)
        shown = dpfast.thresholded(found.keys, counts, epsilon=1, delta=1e-12, sensitivity=found.sensitivity)
        assert shown.keys.tolist() == [("Jena", 2024), ("Jena", 2025), ("Ulm", 2024), ("Ulm", 2025)][:most]
        assert shown.keys.shape == (most,)
    odd = np.fromiter([(1, float("nan")), (1, None), ((1,), 2), ("a", 1), (1, 1), (True, 1), (1,)], object, 7)
    shown = dpfast.thresholded(odd, [10**4] * 7, epsilon=1, delta=1e-6, sensitivity=found.sensitivity)
    assert shown.keys.tolist() == [(True, 1), (1,), (1, 1), ("a", 1)]
    with pytest.raises(ParameterError, match="keys must all be different"):
        dpfast.thresholded(
            np.fromiter([(1, "a"), (1, "a")], object, 2), [1, 1], epsilon=1, delta=1e-6, sensitivity=found.sensitivity
        )
