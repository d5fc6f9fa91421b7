# SPDX-License-Identifier: Apache-2.0
"""thresholded: the least threshold, its proof in every small world, and what it shows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from conftest import named
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from worlds import delta_of, most_shown, neighbours, shown_with

import dpfast
from dpfast import DTypeError, ParameterError, Sensitivity, thresholded
from dpfast.privacy.threshold import least_threshold

USUAL = {"epsilon": 1, "delta": 1e-6, "sensitivity": Sensitivity(1, 1)}


RATES = st.fractions(Fraction(1, 50), 4, max_denominator=50)
DELTAS = st.sampled_from([Fraction(1, 10**9), Fraction(1, 10**6), *map(Fraction, ("1/1000", "1/10", "9/10"))])


def real(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


@settings(max_examples=100, deadline=None)
@given(RATES, DELTAS, st.integers(1, 1000), st.integers(1, 50))
def test_the_threshold_is_the_least(rate, delta, l0, linf) -> None:
    """It spends at most delta, and one less would spend more, or be within linf."""
    found = least_threshold(rate, delta, l0, linf, l0 * linf)
    with mpmath.workprec(500):
        q = mpmath.exp(-real(rate))

        def spent(threshold: int) -> mpmath.mpf:
            return 1 - (1 - q ** (threshold - linf) / (1 + q)) ** l0

        assert found > linf
        assert spent(found) <= real(delta)
        assert found == linf + 1 or spent(found - 1) > real(delta)


@settings(max_examples=150, deadline=None)
@given(RATES, DELTAS, st.integers(1, 7), st.integers(1, 7), st.integers(0, 12))
def test_the_threshold_is_the_least_for_rows_in_all(rate, delta, l0, linf, more) -> None:
    """Against all counts that one unit alone can have, one by one: no more, and no less."""
    l1 = min(linf + more, l0 * linf)
    found = least_threshold(rate, delta, l0, linf, l1)
    with mpmath.workprec(500):
        q = mpmath.exp(-real(rate))
        assert found > linf
        assert most_shown(q, found, l0, linf, l1) <= real(delta)
        assert found == linf + 1 or most_shown(q, found - 1, l0, linf, l1) > real(delta)


def test_rows_in_all_cost_less_than_both_caps() -> None:
    """m rows are in m keys, or m in a key, and never m in each of m. Golden thresholds."""

    def threshold(change: Sensitivity) -> int:
        return thresholded([], np.array([], int), epsilon=1, delta=1e-6, sensitivity=change).threshold

    assert [threshold(Sensitivity(l1=m)) for m in (1, 5, 20)] == [15, 76, 324]
    assert threshold(Sensitivity(5, 5)) == 374
    for m in (5, 20):  # with m keys of one row each, and nothing else
        assert threshold(Sensitivity(l1=m)) == threshold(Sensitivity(m, 1))


def test_what_one_unit_has_alone_is_not_doubled() -> None:
    """Under substitution x has one contribution alone, and y the other; signed ones may cancel."""
    change = {"adjacency": "substitution"}
    delta = Fraction(1, 10**6)
    for stated, alone in (
        (Sensitivity(2, 3, **change), (2, 3, 6)),
        (Sensitivity(l1=5, **change), (5, 5, 5)),
        (Sensitivity(2, 3, signed=True, **change), (4, 6, 12)),
        (Sensitivity.changes(2, 3, **change), (2, 3, 6)),
    ):
        found = thresholded([], np.array([], int), epsilon=1, delta=delta, sensitivity=stated)
        assert found.threshold == least_threshold(1 / stated.l1, delta, *alone)


def test_the_figures_of_the_course_notes() -> None:
    """epsilon 1, delta 1e-6: 30 for two cells of one count each, 15 for one."""
    found = thresholded([], np.array([], int), epsilon=1, delta=1e-6, sensitivity=Sensitivity(2, 1))
    assert (found.threshold, found.keys.size, found.counts.size) == (30, 0, 0)
    assert thresholded(["a"], [100], **USUAL).threshold == 15


# ------------------------------------------------------------------ small worlds, exactly


@pytest.mark.parametrize(
    ("l0", "linf", "l1", "keys"),
    [(1, 1, 1, 2), (2, 1, 2, 2), (1, 2, 2, 2), (2, 2, 4, 2), (2, 1, 2, 3), (2, 2, 2, 2), (2, 2, 3, 2), (3, 2, 3, 3)],
)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("above", [1, 2, 5])
def test_every_small_world_keeps_delta(l0, linf, l1, keys, q, above) -> None:
    """At each T the worst of all neighbours spends what keys of one unit do: no more, no less."""
    threshold = linf + above
    stated = most_shown(q, threshold, l0, linf, l1)
    assert l1 < l0 * linf or stated == 1 - (1 - shown_with(linf, q, threshold)) ** l0
    worst = max(delta_of(x, y, q, l1, threshold) for x, y in neighbours(l0, linf, l1, keys))
    assert worst <= stated
    assert worst >= stated * Fraction(99, 100)


def test_a_threshold_that_forgets_a_cell_is_caught() -> None:
    """Planted: T for one cell where a unit has two; and T counted from 0 in place of linf."""
    q = Fraction(1, 2)
    worst = max(delta_of(x, y, q, 2, 4) for x, y in neighbours(2, 1, 2))
    assert worst > shown_with(1, q, 4)
    assert worst > 1 - (1 - shown_with(0, q, 4)) ** 2


# ------------------------------------------------------------------ the program


def test_what_is_shown_follows_the_law() -> None:
    """40,000 keys of one count: how many are shown, and their law; false alarm 1e-6 each."""
    n, count, change = 40_000, 12, Sensitivity(1, 1)
    found = thresholded(np.arange(n), np.full(n, count), epsilon=1, delta=1e-6, sensitivity=change)
    with mpmath.workprec(200):
        q = float(mpmath.exp(-1))
    p = shown_with(count, q, found.threshold)
    assert stats.binomtest(found.counts.size, n, p).pvalue > 1e-6
    assert stats.binomtest(found.counts.size, n, shown_with(count, q, found.threshold + 1)).pvalue < 1e-6  # > for >=
    assert (found.counts >= found.threshold).all()
    steps = np.bincount(np.minimum(found.counts - found.threshold, 5), minlength=6)
    law = np.array([q**k * (1 - q) for k in range(5)] + [q**5])
    assert stats.chisquare(steps, law * steps.sum()).pvalue > 1e-6


@pytest.mark.parametrize(
    "keys",
    [np.array(["b", "a", "c"]), [3, 1, 2], np.array(["2026-03", "2026-01", "2026-02"], "datetime64[M]"), [1.5, -2.5, 0.0],
     np.array(["b", "a", "c"], object)],
    ids=str,
)  # fmt: skip
def test_keys_come_back_sorted(keys) -> None:
    """Sorted, so that their order tells nothing, and of the kind that they had."""
    found = thresholded(keys, [10**6, 10**6, 10**6], **USUAL)
    assert found.keys.tolist() == sorted(np.asarray(keys).tolist())
    assert found.keys.dtype.kind == ("U" if np.asarray(keys).dtype == object else np.asarray(keys).dtype.kind)


NO_ZONE = datetime.fromisoformat("2026-01-01T05")  # as a column of dates may be


def days(texts: list[str]) -> np.ndarray:
    """As NumPy reads dates: of the unit that the finest one needs."""
    return np.array(texts, "datetime64")


def narrowest(numbers: list[int]) -> np.ndarray:
    """As a library packs integers: in the narrowest type that holds them all."""
    return np.array(numbers, np.result_type(np.min_scalar_type(min(numbers)), np.min_scalar_type(max(numbers))))


def halves(numbers: list[float]) -> np.ndarray:
    """In half precision, where that holds them."""
    return np.array(numbers, np.float16 if (np.float16(numbers) == numbers).all() else np.float64)


@pytest.mark.parametrize(
    ("made", "shown", "hidden"),
    [
        (list, ["flu", "gout"], "a rare disease with a long name"), (list, [1, 2], 2**63), (list, [1, 2], 2.5),
        (np.array, ["flu", "gout"], "a rare disease with a long name"), (np.array, [b"a", b"b"], b"abcdef"),
        (list, ["flu", "gout"], None), (list, ["flu", "gout"], 5), (list, [1, 2], "x"), (list, [1, 2], True),
        (list, [1, 2], float("nan")), (list, [1.5, 2.5], {1, 2}), (list, [1, 2], object()),
        (np.array, [1, 2], None), (np.array, ["flu", "gout"], None), (np.array, [1.0, 2.0], float("nan")),
        (list, [date(2026, 1, 1), date(2026, 1, 2)], NO_ZONE),
        (list, [NO_ZONE], NO_ZONE.replace(tzinfo=UTC)),
        (days, ["2026-01-01", "2026-01-02"], "2026-01-01T05:06:07"), (days, ["2026-01-01"], "2026-01-01T05:06:07.123456"),
        (days, ["2026-01-01T00:00:01"], "NaT"), (narrowest, [1, 2], 2**40), (narrowest, [1, 2], -5),
        (narrowest, [1, 2], 2**63), (halves, [0.5, 1.5], 0.1),
    ],
    ids=named,
)  # fmt: skip
def test_a_hidden_key_leaves_no_trace_in_the_dtype(made, shown, hidden) -> None:
    """By length, unit, kind or error: with it and without it, the same comes out."""
    many = [10**6] * len(shown)
    found = thresholded(made([*shown, hidden]), [*many, 1], **USUAL | {"delta": 1e-9})
    without = thresholded(made(shown), many, **USUAL | {"delta": 1e-9})
    assert found.keys.tolist() == without.keys.tolist() == np.asarray(made(shown)).tolist()
    assert found.keys.dtype == without.keys.dtype
    assert found.keys.base is None


def test_keys_of_several_kinds_are_sorted_within_each() -> None:
    """The missing, or of an unordered kind, is dropped before the noise, as if never there."""
    keys = ["b", 2, None, "a", 1, float("nan"), {1, 2}, b"x", 0.5, True, "end\0", "end"]
    found = thresholded(keys, [10**6] * len(keys), **USUAL | {"delta": 1e-9})
    assert found.keys.tolist() == [True, b"x", 0.5, 1, 2, "a", "b", "end", "end\0"]
    assert found.keys.dtype == object
    texts = thresholded(["end\0", "end"], [10**6] * 2, **USUAL | {"delta": 1e-9})
    assert texts.keys.tolist() == ["end", "end\0"]
    mixed = thresholded([2**63, -1], [10**6] * 2, **USUAL | {"delta": 1e-9})
    assert mixed.keys.tolist() == [-1, 2**63]
    assert mixed.keys.dtype == object


def test_counts_stay_with_their_keys() -> None:
    """Sorting keys takes their counts along, and a count of 0 takes its key away."""
    counts = np.array([10**6, 3 * 10**6, 2 * 10**6, 0, 4 * 10**6])
    found = thresholded(list("dbaxc"), counts, **USUAL)
    assert found.keys.tolist() == list("abcd")
    assert np.abs(found.counts - [2 * 10**6, 3 * 10**6, 4 * 10**6, 10**6]).max() < 100


def test_keys_without_a_count_never_show() -> None:
    """Nor do they cost: at scale 100 a zero that entered would often reach the threshold."""
    noisy = partial(thresholded, np.arange(10_000), epsilon=0.01, delta=0.5, sensitivity=Sensitivity(1, 1))
    assert all(noisy(np.zeros(10_000, int)).keys.size == 0 for _ in range(5))
    assert noisy(np.ones(10_000, int)).keys.size > 1000


def test_what_it_promises() -> None:
    whose = {"adjacency": "substitution", "unit": "household"}
    found = thresholded(["a"], [5], epsilon=0.5, delta=1e-6, sensitivity=Sensitivity(2, 3, **whose))
    assert isinstance(found, dpfast.Thresholded)
    assert found.guarantee == dpfast.Guarantee(0.5, 1e-6, **whose, also_add_remove=True)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"delta": 0}, ParameterError, "delta must be positive"),
        ({"delta": 1}, ParameterError, "delta must lie strictly between 0 and 1"),
        ({"sensitivity": 1}, DTypeError, "must be a Sensitivity"),
        ({"sensitivity": Sensitivity.from_l2(1)}, ParameterError, "in L2 alone"),
        ({"sensitivity": Sensitivity(1, 0.5)}, ParameterError, "linf must be at least 1"),
        ({"columns": (["a", "b"], [1])}, ParameterError, "one dimension and equal lengths$"),
        ({"columns": ([["a"]], [[1]])}, ParameterError, "one dimension"),
        ({"columns": (["a"], [1.0])}, DTypeError, "integer dtype"),
        ({"columns": (["a"], [-7])}, ParameterError, "counts must not be negative"),
        ({"columns": (["a", "b", "a"], [1, 2, 3])}, ParameterError, "keys must all be different"),
        ({"columns": (np.ma.array([1, 2], mask=[0, 1]), [1, 2])}, DTypeError, "keys is a masked array"),
        ({"columns": (np.array([(1, 2)], "i4,i4"), [1])}, DTypeError, "keys must be integers, strings, "),
    ],
    ids=str,
)
def test_bad_input(arguments, error, message) -> None:
    columns, changed = arguments.get("columns", (["a"], [1])), {k: v for k, v in arguments.items() if k != "columns"}
    with pytest.raises(error, match=message) as caught:
        thresholded(*columns, **USUAL | changed)
    assert "7" not in str(caught.value)
