# SPDX-License-Identifier: Apache-2.0
"""thresholded: the least threshold, its proof in every small world, and what it shows."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import tiers
from fresh import forked
from hypothesis import given, settings
from hypothesis import strategies as st
from identifiers import named
from scipy import stats
from worlds import (
    delta_of,
    delta_of_keys,
    gaussian_delta,
    gaussian_law,
    gaussian_shown,
    most_shown,
    neighbours,
    shown_with,
)

import dpfast
from dpfast import DiscreteGaussian, Key, Ledger, Sensitivity, thresholded
from dpfast.counts.records.partitions import NOISE, changed
from dpfast.engines.jobs import GaussianWithholding, Withholding
from dpfast.errors import DTypeError, KeyReuseError, OtherInputError, ParameterError, UnusableValuesError
from dpfast.privacy import gaussian_threshold as gaussian_threshold_module
from dpfast.privacy.gaussian import discrete_delta
from dpfast.privacy.gaussian_threshold import Norms, least_sigma
from dpfast.privacy.gaussian_threshold import least_threshold as gaussian_threshold
from dpfast.privacy.threshold import least_threshold
from dpfast.testing import fixed_key

USUAL = {"epsilon": 1, "delta": 1e-6, "sensitivity": Sensitivity(1, 1)}


RATES = st.fractions(Fraction(1, 50), 4, max_denominator=50)
DELTAS = st.sampled_from([Fraction(1, 10**9), Fraction(1, 10**6), *map(Fraction, ("1/1000", "1/10", "9/10"))])


@pytest.fixture(autouse=True, scope="module")
def _known_deltas() -> Iterator[None]:
    """The delta of the same noise and cells is computed once for all thresholds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian_threshold_module, "discrete_delta", functools.cache(discrete_delta))
        yield


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


# ------------------------------------------------------------------ discrete Gaussian noise


def gaussian(sensitivity: Sensitivity, epsilon: Any = 1, delta: Any = 1e-6, **options: Any) -> GaussianWithholding:
    return GaussianWithholding(epsilon, delta, sensitivity, **options)


def test_thresholds_of_gaussian_noise() -> None:
    """At (1, 1e-6): golden ones, and those of Laplace noise. One less is too low."""
    substitution = {"adjacency": "substitution"}
    assert [gaussian(Sensitivity(l0, 1)).threshold for l0 in (1, 4, 10, 50)] == [22, 44, 71, 166]
    assert [gaussian(Sensitivity(l0, 1, **substitution)).threshold for l0 in (1, 4, 10)] == [30, 62, 100]
    assert [Withholding(1, 1e-6, Sensitivity(l0, 1)).threshold for l0 in (4, 10, 50)] == [60, 156, 854]
    assert Withholding(1, 1e-6, Sensitivity(1, 1, **substitution)).threshold == 28  # by l0, not by 2 l0, which is 30
    for l0 in (4, 10):
        sigma = DiscreteGaussian.calibrated(1, Sensitivity(l0, 1), delta=1e-6).sigma_squared
        assert gaussian(Sensitivity(l0, 1)).sigma_squared == sigma
        assert stated(1, Norms(l0, 1, l0), sigma, 44 if l0 == 4 else 71) <= 1e-6
        assert stated(1, Norms(l0, 1, l0), sigma, 43 if l0 == 4 else 70) > 1.1e-6


def test_the_least_sigma_gives_the_least_threshold() -> None:
    """With more noise the threshold rises, though it may have more of delta then."""
    for l0 in (1, 4, 50):
        norms, delta = Norms(l0, 1, l0), Fraction(1, 10**6)
        least = least_sigma(Fraction(1), delta, norms)
        found = [
            gaussian_threshold(
                Fraction(1), delta, (least * Fraction(100 + more, 100)) ** 2, norms, norms, one_side=True
            )
            for more in (0, 1, 5, 20)
        ]
        assert found == sorted(found)
        assert found[0] < found[-1]


def stated(epsilon: float, norms: Norms, sigma_squared: Fraction, threshold: int, change: Norms | None = None) -> float:
    """The most of 1 - (1 - p)^j (1 - delta(epsilon + i ln(1 - p))) over j and i, in doubles."""
    law = gaussian_law(sigma_squared, 400)
    p = law[400 + threshold - norms.linf :].sum()
    sides = range(1) if change is None else range(norms.l0 + 1)

    def moved(cells: int, at: float) -> float:
        if cells <= 0:
            return 0.0
        return discrete_delta(Fraction(at), cells, norms.linf, sigma_squared)

    return max(
        -math.expm1(j * math.log1p(-p) + math.log1p(-moved((change or norms).l0 - i - j, epsilon + i * math.log1p(-p))))
        for i in sides
        for j in range(norms.l0 + 1)
    )


def worst_pairs(norms: Norms, many: int = 150) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """New keys of y and x, and keys of both that have many rows and are moved: by substitution."""
    for j, i in itertools.product(range(norms.l0 + 1), repeat=2):
        both = 2 * norms.l0 - j - i
        for ups in {both, both // 2}:
            moves = (norms.linf,) * ups + (-norms.linf,) * (both - ups)
            yield (
                (0,) * j + (norms.linf,) * i + (many,) * both,
                (norms.linf,) * j + (0,) * i + tuple(many + m for m in moves),
            )


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 5000)])
@pytest.mark.parametrize(("l0", "linf"), [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_gaussian_thresholds_are_the_least_under_add_remove(l0, linf, delta) -> None:
    """Both directions, all patterns of new and moved keys: the worst is what is stated."""
    made = gaussian(Sensitivity(l0, linf), 1, delta)
    law, norms = gaussian_law(made.sigma_squared), Norms(l0, linf, l0 * linf)
    for threshold in (made.threshold, made.threshold - 1):
        worst = max(
            gaussian_delta(*pair, law, 1, threshold)
            for j in range(l0 + 1)
            for x in [(0,) * j + (150,) * (l0 - j)]
            for pair in itertools.permutations((x, tuple(count + linf for count in x)))
        )
        assert worst == pytest.approx(stated(1, norms, made.sigma_squared, threshold), rel=1e-6)
        assert (worst <= delta) == (threshold == made.threshold)  # one less is caught


@pytest.mark.parametrize(("l0", "linf", "delta"), [(1, 1, Fraction(1, 100)), (1, 2, Fraction(1, 300))])
def test_gaussian_thresholds_are_the_least_under_substitution(l0, linf, delta) -> None:
    """Keys that are new on either side, and keys of both; l0 of the new ones count, not 2 l0."""
    made = gaussian(Sensitivity(l0, linf, adjacency="substitution"), 1, delta)
    law, norms = gaussian_law(made.sigma_squared), Norms(l0, linf, l0 * linf)
    for threshold in (made.threshold, made.threshold - 1):
        worst = max(
            gaussian_delta(*both, law, 1, threshold)
            for pair in worst_pairs(norms)
            for both in itertools.permutations(pair)
        )
        change = Norms(2 * l0, linf, 2 * l0 * linf)
        assert worst == pytest.approx(stated(1, norms, made.sigma_squared, threshold, change), rel=0.01)
        assert (worst <= delta) == (threshold == made.threshold)


@pytest.mark.parametrize("l1", [2, 3, 4])
def test_gaussian_thresholds_of_rows_in_all(l1) -> None:
    """All ways to share rows among new keys and keys of both keep delta."""
    delta = Fraction(1, 200)
    made = gaussian(Sensitivity(2, 3, l1=l1), 1, delta)
    law = gaussian_law(made.sigma_squared)
    for counts in itertools.product(range(min(3, l1) + 1), repeat=2):
        if sum(counts) <= l1:
            for x in itertools.product((0, 150), repeat=2):
                y = tuple(a + b for a, b in zip(x, counts, strict=True))
                assert gaussian_delta(x, y, law, 1, made.threshold) <= delta
                assert gaussian_delta(y, x, law, 1, made.threshold) <= delta


@functools.cache
def changes_of_keys(l0: int, linf: int, l1: int, adjacency: str, below: tuple[int, ...]) -> frozenset[Any]:
    """All that one unit can do to keys whose other units' counts are among `below`."""
    one = [v for v in itertools.product(range(linf + 1), repeat=2 * l0) if sum(v) <= l1 and sum(map(bool, v)) <= l0]
    others = one if adjacency == "substitution" else [(0,) * 2 * l0]
    found = set()
    for before in itertools.combinations_with_replacement(below, 2 * l0):
        for v, w in itertools.product(one, others):
            pairs = tuple(sorted((n + a, n + b) for n, a, b in zip(before, v, w, strict=True) if a != b))
            found |= {pairs, tuple(sorted((b, a) for a, b in pairs))}
    return frozenset(found - {()})


@pytest.mark.parametrize("pre_threshold", [1, 4])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize(("l0", "linf", "l1"), [(1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 3)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_no_world_of_keys_passes_delta(noise, l0, linf, l1, adjacency, pre_threshold) -> None:
    """Keys of nobody else, at the edge of the pre-threshold, below T, above it; both directions."""
    change = Sensitivity(l0, linf, l1=l1, adjacency=adjacency, keys="private")
    made = NOISE[noise](1, "0.01", change, pre_threshold=pre_threshold)
    reach = 60
    law = gaussian_law(made.sigma_squared, reach) if noise == "gaussian" else made.pmf(np.arange(-reach, reach + 1))
    top = made.threshold + 2 + linf + reach
    shows = functools.cache(lambda count: gaussian_shown(count, law, made.threshold, pre_threshold, top))
    below = (0, pre_threshold - 1, 6, made.threshold + 2) if l0 == 1 else (0, pre_threshold - 1, made.threshold + 2)
    worlds = changes_of_keys(l0, linf, l1, adjacency, tuple(sorted(set(below))))
    worst = max(delta_of_keys(pairs, shows, 1.0) for pairs in worlds)
    assert 0.003 < worst <= 0.01 * (1 + 1e-7)  # losses are rounded


CAPS = [(l0, linf, l1) for l0, linf in itertools.product((2, 3), (3, 4)) for l1 in range(linf, l0 * linf + 1)]


@pytest.mark.parametrize(
    ("epsilon", "delta", "adjacency", "caps"),
    [
        pytest.param(1, "0.01", "add-remove", CAPS, marks=pytest.mark.slow),
        (4, "1e-5", "add-remove", CAPS[::3]),
        pytest.param(2, "1e-3", "substitution", CAPS[::4], marks=pytest.mark.slow),
    ],
    ids=["one", "four", "substitution"],
)
def test_no_cap_raises_a_gaussian_threshold(epsilon, delta, adjacency, caps) -> None:
    """However much lower bounds are; sigma is at most a tenth above the least."""
    found = {}
    for l0, linf, l1 in caps:
        change = Sensitivity(l0, linf, l1=l1, adjacency=adjacency)
        made = gaussian(change, epsilon, delta)
        least = least_sigma(Fraction(epsilon), Fraction(delta), changed(change))
        assert least**2 <= made.sigma_squared <= (least * Fraction(11, 10)) ** 2
        found[l0, linf, l1] = made.threshold
    for low, high in itertools.permutations(caps, 2):
        if all(a <= b for a, b in zip(low, high, strict=True)):
            assert found[low] <= found[high], (low, high)


@pytest.mark.parametrize(
    ("caps", "adjacency", "threshold"),
    [((3, 3, 5), "add-remove", 95), ((3, 3, None), "add-remove", 113), ((4, 2, 6), "add-remove", 78),
     ((2, 2, 2), "substitution", 63), ((2, 3, 4), "add-remove", 86), ((2, 4, 4), "add-remove", 86)],
)  # fmt: skip
def test_gaussian_thresholds_with_caps(caps, adjacency, threshold) -> None:
    """At (1, 1e-6). With l1 = 5 beside three keys of three it was 152, and 113 without."""
    made = gaussian(Sensitivity(*caps[:2], l1=caps[2], adjacency=adjacency))
    assert made.threshold == threshold
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.threshold == threshold  # found from its sigma alone


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_pre_threshold_raises_the_threshold(noise) -> None:
    """By as much, less one. Planted: with T kept, a key at the edge tells of a unit."""
    low = NOISE[noise](1, 1e-6, Sensitivity(1, 1))
    made = NOISE[noise](1, 1e-6, Sensitivity(1, 1), pre_threshold=10)
    assert made.threshold == low.threshold + 9
    assert made.showing.of(np.array([9, 10]), np.array([10**6, 10**6])).tolist() == [False, True]
    if noise == "gaussian":
        law = gaussian_law(made.sigma_squared)

        def spent(threshold: int) -> float:
            pairs = [pair for edge in (9, 10) for pair in itertools.permutations(((edge,), (edge - 1,)))]
            return max(gaussian_delta(x, y, law, 1, threshold, least=10) for x, y in pairs)

        assert spent(made.threshold) <= 1e-6 < spent(made.threshold - 1)
        assert spent(low.threshold) > 1e-3
    else:
        assert shown_with(10, math.exp(-1), made.threshold) <= 1e-6
        assert shown_with(10, math.exp(-1), low.threshold) > 1e-3


def test_a_pre_threshold_hides_keys() -> None:
    """Counts below it, whatever their noise; and it is in the record if there is one."""
    n, options = 2000, {"epsilon": 0.01, "delta": 0.5, "sensitivity": Sensitivity(1, 1)}
    for noise in NOISE:
        found = thresholded(np.arange(2 * n), [20] * n + [19] * n, noise=noise, pre_threshold=20, **options)
        assert found.keys.max() < n
        assert found.keys.size > 100
    with_it, without = (gaussian(Sensitivity(2, 1), pre_threshold=least) for least in (20, 1))
    assert with_it.metadata()["pre_threshold"] == 20
    assert "pre_threshold" not in without.metadata()
    assert "pre_threshold" not in repr(without)
    assert with_it != without


@pytest.mark.parametrize("noise", NOISE)
def test_gaussian_noise_shows_the_same_keys_under_any_order(noise) -> None:
    """Under a key; and each noise has a stream of its own."""
    keys, counts = np.arange(300), np.arange(300) % 7 + 1
    options = {**LEAKY, "sensitivity": Sensitivity(3, 1), "noise": noise, "pre_threshold": 2}
    first = published(thresholded(keys, counts, key=key_of(), **options))
    assert published(thresholded(keys[::-1], counts[::-1], key=key_of(), **options)) == first
    other = published(thresholded(keys, counts, key=key_of(), **{**options, "pre_threshold": 1}))
    assert other[:3] != first[:3]


def test_what_gaussian_noise_promises(tmp_path) -> None:
    """(epsilon, delta), charged once; and no event of an accountant, which leaves out delta."""
    whose = {"adjacency": "substitution", "unit": "household"}
    ledger = Ledger(tmp_path / "b.db", 1, delta=1e-6, create=True, **whose)
    found = thresholded(
        ["a"], [500], **{**USUAL, "sensitivity": Sensitivity(9, 1, **whose)}, noise="gaussian", ledger=ledger
    )
    promised, added = found.guarantee, found.guarantee.add_remove
    assert (promised.epsilon, promised.delta, promised.rho_delta) == (1, Fraction("1e-6"), Fraction("1e-6"))
    assert (added.epsilon, added.delta, added.rho_delta) == (1, Fraction("1e-6"), Fraction("1e-6"))
    assert added.rho * 2 == promised.rho
    assert (promised.adjacency, promised.unit) == tuple(whose.values())
    assert (ledger.spent.epsilon, ledger.spent.delta) == (1, Fraction("1e-6"))
    for made in (gaussian(Sensitivity(2, 1)), Withholding(1, 1e-6, Sensitivity(2, 1))):
        for account in (made.dp_event, made.privacy_loss_distribution):
            with pytest.raises(ParameterError, match="delta beside its noise"):
                account()


# ------------------------------------------------------------------ the program


def test_what_is_shown_follows_the_law() -> None:
    """40,000 keys of one count: how many are shown, and their law; false alarm 1e-9, 2e-8."""
    n, count, change = 40_000, 12, Sensitivity(1, 1)
    found = thresholded(np.arange(n), np.full(n, count), epsilon=1, delta=1e-6, sensitivity=change)
    with mpmath.workprec(200):
        q = float(mpmath.exp(-1))
    p = shown_with(count, q, found.threshold)
    assert stats.binomtest(found.counts.size, n, p).pvalue > 1e-9
    assert stats.binomtest(found.counts.size, n, shown_with(count, q, found.threshold + 1)).pvalue < 1e-9  # > for >=
    assert (found.counts >= found.threshold).all()
    steps = np.bincount(np.minimum(found.counts - found.threshold, 4), minlength=5)
    law = np.array([q**k * (1 - q) for k in range(4)] + [q**4])
    assert stats.chisquare(steps, law * steps.sum()).pvalue > 1e-9


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
    options = {
        **LEAKY,
        "sensitivity": Sensitivity(1, 1),
        "buckets": 1,
    }  # a key that nobody has is as one that is not there
    without = thresholded(["a", "c"], [5, 7], key=key_of(), **options)
    assert published(thresholded(["a", "b", "c"], [5, 0, 7], key=key_of(), **options)) == published(without)


def test_what_it_promises() -> None:
    whose = {"adjacency": "substitution", "unit": "household"}
    found = thresholded(["a"], [5], epsilon=0.5, delta=1e-6, sensitivity=Sensitivity(2, 3, **whose))
    assert isinstance(found, dpfast.Thresholded)
    rho = dpfast.DiscreteLaplace(0.5, Sensitivity(2, 3, **whose)).guarantee.rho
    arrival = dpfast.DiscreteLaplace(0.25, Sensitivity(2, 3)).guarantee
    known = dpfast.Guarantee(0.25, 1e-6, rho=arrival.rho, rho_delta=1e-6, unit="household")
    assert found.guarantee == dpfast.Guarantee(0.5, 1e-6, rho=rho, rho_delta=1e-6, **whose, add_remove=known)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"epsilon": 0, "noise": "gaussian"}, ParameterError, "epsilon must be positive"),
        ({"noise": "cauchy"}, ParameterError, "noise must be one of laplace, gaussian, got 'cauchy'"),
        ({"noise": None}, ParameterError, "noise must be one of"),
        ({"noise": "gaussian", "delta": Fraction(1, 10**320)}, ParameterError, "delta must be at least 2"),
        (
            {
                "noise": "gaussian",
                "epsilon": Fraction(1, 10**9),
                "delta": Fraction(1, 10**6),
                "sensitivity": Sensitivity(1, 10**8),
            },
            ParameterError,
            "no sigma up to",
        ),
        ({"noise": "gaussian", "sensitivity": Sensitivity.from_l2(1)}, ParameterError, "in L2 alone"),
        ({"noise": "gaussian", "sensitivity": 1}, DTypeError, "must be a Sensitivity"),
        ({"pre_threshold": 0}, ParameterError, "pre_threshold must be at least 1"),
        ({"pre_threshold": 1.5}, DTypeError, "pre_threshold must be an int"),
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


# ------------------------------------------------------------------ under a release key

LEAKY = {"epsilon": 1, "delta": 0.9}  # a threshold as low as can be: many keys show, and many do not
CAPPED = {"max_partitions": 3, "max_per_partition": 2}
BYTES = bytes(range(32))


def key_of(label: str = "words") -> dpfast.ReleaseKey:
    """The same secret each time, as another process has it."""
    tiers.forget_labels()
    return Key.from_bytes(BYTES).derive(label)


def published(found: dpfast.Thresholded) -> tuple:
    """All that comes out, to the byte."""
    keys = found.keys.tobytes() if found.keys.dtype != object else repr(found.keys.tolist())
    return keys, found.keys.dtype, found.counts.tobytes(), found.threshold, found.guarantee


def shards_of(rows: list, units: list, many: int) -> list[list]:
    return [[row for row in rows if units.index(row[0]) % many == j] for j in range(many)]


def counted(rows: list, several: bool, chooser: Any, **caps: Any) -> dpfast.BoundedHistogram:
    keys: Any = [name for _, name in rows]
    if several:
        keys = ([a for a, _ in keys], [b for _, b in keys])
    return dpfast.bounded_histogram(keys, [unit for unit, _ in rows], key=chooser, **caps)


WORDS = st.text(max_size=3)
ONE_OF_THESE = st.sampled_from(
    [st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), WORDS, st.tuples(st.integers(0, 2), WORDS)]
)


@settings(max_examples=80, deadline=None)
@given(ONE_OF_THESE.flatmap(lambda names: st.lists(st.tuples(st.integers(0, 9), names), min_size=1, max_size=60)),
       st.integers(1, 4), st.sampled_from([1, 3, 32]), st.sampled_from([CAPPED, {"max_contributions": 4}]),
       st.randoms(use_true_random=False))  # fmt: skip
def test_the_same_under_any_sharding_and_order(rows, many, buckets, caps, random) -> None:
    """Rows cut by unit and turned about, counted apart, merged: the same keys, noise and bytes."""
    several = isinstance(rows[0][1], tuple)
    chooser = key_of().chooser()
    units = random.sample(range(10), 10)
    whole = counted(rows, several, chooser, **caps)
    options = {**LEAKY, "sensitivity": whole.sensitivity, "buckets": buckets}
    expected = published(thresholded(whole.keys, whole.counts, key=key_of(), **options))
    parts = [
        counted(random.sample(each, len(each)), several, chooser, **caps)
        for each in shards_of(rows, units, many)
        if each
    ]
    merged = dpfast.BoundedHistogram.merged(random.sample(parts, len(parts)))
    order = random.sample(range(merged.keys.size), merged.keys.size)
    for keys, counts in ((merged.keys, merged.counts), (merged.keys[order], merged.counts[order])):
        assert published(thresholded(keys, counts, key=key_of(), **options)) == expected


MIXED = st.one_of(st.integers(-(2**70), 2**70), st.booleans(), st.floats(allow_nan=False), WORDS, st.binary(max_size=3),
                  st.tuples(st.integers(0, 3), WORDS), st.dates(), st.datetimes(), st.timedeltas())  # fmt: skip


def kind_and_value(key: Any) -> tuple:
    """By which keys are told apart: 1, 1.0 and True are three."""
    return (tuple(map(kind_and_value, key)),) if isinstance(key, tuple) else (type(key), key)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(MIXED, st.integers(1, 4)), max_size=20, unique_by=lambda pair: kind_and_value(pair[0])),
       st.lists(st.sampled_from([None, float("nan"), np.datetime64("NaT"), "absent", -1]), max_size=4),
       st.randoms(use_true_random=False))  # fmt: skip
def test_the_same_of_keys_of_all_kinds(rows, odd, random) -> None:
    """In any order; and with keys that are missing, or that nobody has, between them."""
    options = {**LEAKY, "sensitivity": Sensitivity(2, 4), "buckets": 2}
    expected = published(thresholded([k for k, _ in rows], [n for _, n in rows], key=key_of(), **options))
    absent = [(key, 5 * (key is None or key != key)) for key in odd]  # noqa: PLR0124
    mixed = random.sample([*rows, *absent], len(rows) + len(absent))
    assert published(thresholded([k for k, _ in mixed], [n for _, n in mixed], key=key_of(), **options)) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(MIXED, max_size=12))
def test_canonical_bytes_are_one_to_one(keys) -> None:
    names = {kind_and_value(key): tiers.canonical(key) for key in keys}
    assert len({*names.values()}) == len(names)
    for key in keys:
        if type(key) in (int, str, bytes, float):
            assert tiers.canonical(np.array([key], object)[0]) == names[kind_and_value(key)]


def test_canonical_bytes_of_what_is_nearly_equal() -> None:
    """Floats that are doubles and those that are none; of numbers their value, not their class."""
    alike = [
        [5, np.int8(5), np.uint64(5)],
        [0.5, np.float32(0.5), np.longdouble(0.5)],
        [0.0, -0.0, np.float16(-0.0)],
        [True, np.True_],
    ]
    runs = [{tiers.canonical(key) for key in keys} for keys in alike]
    assert [len(run) for run in runs] == [1] * 4
    others = [5.0, "5", b"5", (5,), ("5",), (5, 5), ((5,), 5), np.longdouble("0.1"), 0.1, "\ud800", "", b"", (), date(2026, 1, 5),
              datetime.fromisoformat("2026-01-05"), datetime.fromisoformat("2026-01-05").replace(tzinfo=UTC), "2026-01-05"]  # fmt: skip
    assert len({*map(tiers.canonical, others)}.union(*runs)) == len(others) + 4


def test_columns_of_any_kind_are_one_input() -> None:
    """Lists, arrays of any width or order of bytes: the same noise for the same keys."""
    for values, kinds in ((range(40), ("i1", "u2", ">i4", "i8", "u8", "O")), ([f"w{i}" for i in range(40)], ("U3", "U9", "O")),
                          ([i / 4 for i in range(40)], ("f2", ">f4", "f8", "O"))):  # fmt: skip
        options = {**LEAKY, "sensitivity": Sensitivity(1, 1)}
        expected = thresholded(list(values), [1] * 40, key=key_of(), **options)
        for kind in kinds:
            found = thresholded(np.array(list(values), kind)[::-1], np.ones(40, ">i2"), key=key_of(), **options)
            assert found.keys.tolist() == expected.keys.tolist()
            assert (found.counts == expected.counts).all()


def test_each_key_has_a_noise_of_its_own() -> None:
    """Keys of equal counts, in one bucket and in many; and the law is the one without a key."""
    n, options = 4000, {"epsilon": Fraction(1, 10**6), "delta": 0.9, "sensitivity": Sensitivity(1, 1)}
    for buckets in (1, 256):
        counts = thresholded(np.arange(n), np.full(n, 5 * 10**6), key=key_of(), buckets=buckets, **options).counts
        assert np.unique(counts).size > 0.99 * counts.size > 0.9 * n
    found = thresholded(np.arange(20_000), np.full(20_000, 12), key=Key.generate().derive("law"), **USUAL)
    with mpmath.workprec(200):
        q = float(mpmath.exp(-1))
    assert stats.binomtest(found.counts.size, 20_000, shown_with(12, q, found.threshold)).pvalue > 1e-9


BEGUN = {
    "keys": ["a", "b", "c", "d"],
    "counts": [50, 50, 50, 9],
    "epsilon": 1,
    "delta": 1e-6,
    "sensitivity": Sensitivity(2, 1),
}


@pytest.mark.parametrize("paid", [True, False])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"resume": False}, KeyReuseError, "resume=True continues it"),
        ({"resume": False, "counts": [1] * 4}, KeyReuseError, "resume=True continues it"),
        ({"epsilon": 2}, KeyReuseError, "other parameters of thresholded"),
        ({"delta": 1e-7}, KeyReuseError, "other parameters of thresholded"),
        ({"sensitivity": Sensitivity(1, 2)}, KeyReuseError, "other parameters of thresholded"),
        ({"sensitivity": Sensitivity(2, 2, l1=2)}, KeyReuseError, "other parameters of thresholded"),
        ({"buckets": 6}, KeyReuseError, "another number of buckets"),
        ({"counts": [50, 50, 50, 10]}, OtherInputError, "the input is not the one"),
        ({"counts": [50, 50, 50, 0]}, OtherInputError, "the input is not the one"),
        ({"keys": ["a", "b", "c", "e"]}, OtherInputError, "the input is not the one"),
        ({"keys": ["a", "b", "c", b"d"]}, OtherInputError, "the input is not the one"),
        ({"keys": ["d", "b", "c", "a"]}, OtherInputError, "the input is not the one"),
        ({"keys": ["a", "b", "c"], "counts": [50, 50, 50]}, OtherInputError, "the input is not the one"),
        ({"key": Key.from_bytes(BYTES[::-1]).derive("words")}, KeyReuseError, "under another key"),
    ],
    ids=named,
)  # fmt: skip
def test_a_label_is_one_release(change, error, message, paid, tmp_path, monkeypatch) -> None:
    """Again only with resume, and with the same of everything: else nothing is drawn or charged."""
    ledger = Ledger(tmp_path / "b.db", 10, delta=1e-3, create=True) if paid else None
    begun = {**BEGUN, "key": key_of(), "ledger": ledger, "buckets": 7}
    first = published(thresholded(**begun))
    assert published(thresholded(**begun, resume=True)) == first
    taken = []
    take = tiers.StreamKey.take
    if "under another key" in message and not paid:
        return  # only a ledger knows of labels; another key is another function
    with monkeypatch.context() as patch:
        patch.setattr(tiers.StreamKey, "take", lambda stream, secret: taken.append(1) or take(stream, secret))
        with pytest.raises(error, match=message) as caught:
            thresholded(**{**begun, "resume": True, **change})
        assert not taken
    assert type(caught.value) is error
    assert published(thresholded(**begun, resume=True)) == first
    if ledger is not None:
        assert ledger.spent.epsilon == 1
        refused = [entry.refused for entry in ledger.history()]
        assert refused == [False] + [True] * (error is OtherInputError)


@pytest.mark.parametrize("other", [["a", "c"], ["b", "c"], ["a", b"b"], ["a", ("b",)], ["a", 5]], ids=str)
def test_keys_are_sealed_with_their_counts(other) -> None:
    """In one bucket, of equal counts and in the same order: other keys are another input."""
    counts, options = [50, 50], {**BEGUN, "buckets": 1, "counts": [50, 50]}
    thresholded(**{**options, "keys": ["a", "b"]}, key=key_of())
    order = sorted(other, key=lambda key: (type(key).__name__, key))
    with pytest.raises(OtherInputError):
        thresholded(
            **{**options, "keys": order, "counts": counts}, key=Key.from_bytes(BYTES).derive("words"), resume=True
        )


def test_another_process_goes_on(tmp_path) -> None:
    """With a ledger, a key file, and rows in another order; without resume it is refused."""
    ledger, file = Ledger(tmp_path / "b.db", 10, delta=1e-3, create=True), dpfast.KeyFile.create(tmp_path / "words.key")
    first = thresholded(**BEGUN, key=file.derive("words"), ledger=ledger)
    tiers.forget_labels()
    turned = {**BEGUN, "keys": ["d", "c", "b", "a"], "counts": [9, 50, 50, 50]}
    again = partial(thresholded, **turned, key=dpfast.KeyFile(file.path).derive("words"), ledger=Ledger(ledger.path))
    with pytest.raises(KeyReuseError, match="number 1, .*resume=True continues it"):
        again()
    assert published(again(resume=True)) == published(first)
    assert ledger.verify() == ledger.spent.epsilon == 1


KILLED = """
    import os, signal, sys
    import dpfast
    from dpfast.ledger import ledger as paying
    from dpfast.ledger.store import Store
    from dpfast.noise.release.seal import Seal, Sealed

    ledger, file = dpfast.Ledger(sys.argv[1], 100, delta=0.9, create=True), dpfast.KeyFile.create(sys.argv[2])
    change = dpfast.Sensitivity(2, 1)

    def attempt(label):
        key = dpfast.KeyFile(file.path).derive(label)
        found = dpfast.thresholded(list("abcd"), [50, 50, 50, 9], epsilon=1, delta=1e-6, sensitivity=change, ledger=ledger,
                                   key=key, resume=True, buckets=3)
        return found.keys.tolist(), found.counts.tolist()

    def kill_at(owner, name, nth):
        real, calls = getattr(owner, name), []
        def watched(*job, **options):
            calls.append(1)
            if len(calls) == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*job, **options)
        setattr(owner, name, watched)

    steps = [(Store, "look", 1), (Seal, "metadata", 1), (Store, "reserve", 1), (paying, "reserve_here", 1), (Sealed, "digest", 1),
             (Sealed, "stream_key", 1), (Sealed, "stream_key", 2), (Sealed, "stream_key", 3)]
    charged = ""
    for step in steps:
        label = f"{step[1]} {step[2]}"
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            kill_at(*step)
            attempt(label)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, label
        charged += str([entry.label for entry in ledger.history()].count(label))
        assert attempt(label) == attempt(label)
        assert [entry.label for entry in ledger.history()].count(label) == 1
    assert ledger.verify() == ledger.spent.epsilon == len(steps)
    print(charged)
"""


def test_killed_between_reserve_and_draw(tmp_path) -> None:
    """And begun again: one charge, the same keys and counts."""
    assert forked(KILLED, tmp_path / "b.db", tmp_path / "words.key").strip() == "00011111"


class Unread:
    """Columns that nobody may look at."""

    def __len__(self) -> int:
        raise AssertionError("a column was read")

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("a column was read")


def test_the_price_is_known_before_the_values_are_read(tmp_path) -> None:
    """Whether the budget suffices, or the label is there, depends on no key and no count."""
    ledger = Ledger(tmp_path / "b.db", 1, delta=1e-6, create=True)
    with pytest.raises(dpfast.errors.BudgetExhausted):
        thresholded(**{**BEGUN, "epsilon": 2, "keys": Unread(), "counts": Unread()}, key=key_of(), ledger=ledger)
    thresholded(**BEGUN, key=key_of(), ledger=ledger)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (1, Fraction("1e-6"))
    with pytest.raises(KeyReuseError, match="resume=True continues it"):
        thresholded(**{**BEGUN, "keys": Unread(), "counts": Unread()}, key=key_of(), ledger=ledger)


@pytest.mark.parametrize("keyed", [True, False])
def test_an_empty_input_costs_the_same(tmp_path, keyed) -> None:
    """Its row in the ledger is the same but for the time: nor does the number of keys show."""
    rows = []
    for n, (keys, counts) in enumerate(
        (([], np.array([], int)), ([], []), ([None, "a"], [5, 0]), (["a"], [10**6]), (range(3000), [9] * 3000))
    ):
        ledger = Ledger(tmp_path / f"{n}.db", 3, delta=0.1, create=True)
        own = {"key": key_of()} if keyed else {"label": "words"}
        thresholded(**{**BEGUN, "keys": list(keys), "counts": counts}, ledger=ledger, **own)
        (entry,) = ledger.history()
        rows.append(
            (entry.number, entry.label, entry.mechanism, entry.epsilon, entry.delta, entry.parameters, entry.refused)
        )
    assert all(row == rows[0] for row in rows)


def test_how_many_keys_a_bucket_has_shows_nowhere(tmp_path) -> None:
    """Not in what the steps show of themselves, in a manifest or in a refusal: of 2 rows or 937."""
    shown = []
    for rows in (2, 937):
        tiers.forget_labels()
        key, names, law = (
            Key.from_bytes(BYTES).derive("words"),
            [f"name {i}" for i in range(rows)],
            dpfast.DiscreteLaplace(1, 1),
        )
        digester, counts = key.digester(law), np.ones(rows, int)
        made = [digester(0, counts, names=names), digester(1, counts[:0])]
        seal = key.seal(law, made, buckets=2)
        sealed = seal.without_ledger()
        said = [digester, *made, made, seal, sealed, seal.manifest, seal.metadata(), seal.cost]
        for attempt in (
            lambda: digester(0, counts, names=names[1:]),
            lambda: sealed.release(0, counts[1:], names=names[1:]),
            lambda: sealed.release(0, counts, names=names[1:]),
            lambda: key.seal(law, made[:1], buckets=2),
            lambda: key.seal(law, [made[0], *made], buckets=2),
            lambda: thresholded(**{**BEGUN, "keys": names, "counts": counts[1:]}),
            lambda: thresholded(**{**BEGUN, "keys": [*names, names[0]], "counts": np.append(counts, 1)}),
            lambda: thresholded(**{**BEGUN, "keys": names, "counts": -counts}),
        ):
            with pytest.raises(dpfast.errors.DpfastError) as caught:
                attempt()
            said += [caught.value, caught.value.__cause__, caught.value.__context__]
        shown.append([f"{each!r} {each}" for each in said])
    assert shown[0] == shown[1]


@pytest.mark.parametrize("own", [{"label": "words"}, {"key": None}, {}], ids=["label", "key", "neither"])
def test_values_that_are_refused_are_recorded(tmp_path, own) -> None:
    """As a refused attempt, for the refusal tells of them; a shape that is wrong is none."""
    ledger = Ledger(tmp_path / "b.db", 3, delta=0.1, create=True)
    options = {**BEGUN, "ledger": ledger, **({"key": key_of()} if "key" in own else own)}
    for wrong in ({"counts": [1, 1, 1, -1]}, {"keys": list("abca")}):
        with pytest.raises(UnusableValuesError):
            thresholded(**{**options, **wrong})
    with pytest.raises(ParameterError):
        thresholded(**{**options, "counts": [1]})
    with pytest.raises(dpfast.errors.BudgetExhausted):  # what is public is said whatever the values are
        thresholded(**{**options, "counts": [1, 1, 1, -1], "epsilon": 4})
    assert [(entry.refused, entry.mechanism, entry.label) for entry in ledger.history()] == [
        (True, "thresholded", "" if not own else "words")
    ] * 2
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"resume": True}, ParameterError, "resume is for a release under a key"),
        ({"resume": 1}, DTypeError, "resume must be True or False"),
        ({"label": "x"}, ParameterError, "label is for a ledger"),
        (
            {"label": "x", "key": fixed_key(1).derive("x")},
            ParameterError,
            "label is for a ledger, of a release without a key",
        ),
        ({"ledger": 5}, DTypeError, "ledger must be a Ledger, not int"),
        ({"key": Key.from_bytes(BYTES)}, DTypeError, "key must be a release key"),
        ({"key": key_of().chooser()}, DTypeError, "key must be a release key"),
        ({"buckets": 0}, ParameterError, "buckets must be at least 1"),
        ({"buckets": 1.0}, DTypeError, "buckets must be an int"),
        ({"buckets": 2**63}, ParameterError, r"buckets must be at most 2\*\*32, got 9223372036854775808"),
    ],
    ids=named,
)
def test_bad_payment(change, error, message) -> None:
    with pytest.raises(error, match=message):
        thresholded(**{**BEGUN, **change})
