# SPDX-License-Identifier: Apache-2.0
"""Post-processing: each projection against its definition, and the bias that it states."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import dpfast
from dpfast import postprocess
from dpfast.errors import DTypeError, ParameterError


def exact_mean(values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))


def exact_variance(values: list[int]) -> Fraction:
    return Fraction(sum(v * v for v in values), len(values)) - exact_mean(values) ** 2


ENDS = [(0, 10), (-8, 8), (-20, -5), (3, 4)]


@settings(max_examples=300, deadline=None)
@given(
    ends=st.sampled_from(ENDS),
    parts=st.lists(st.floats(0, 1), min_size=1, max_size=30),
    turns=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    step=st.sampled_from([Fraction(1), Fraction(1, 1024), Fraction(8)]),
)
def test_intervals_hold_whatever_the_noise_within_its_own(ends, parts, turns, step) -> None:
    """For all values between the bounds, and noise up to the ends of its own intervals."""
    low, high = ends
    values = [round(low + part * (high - low)) for part in parts]
    figures = [sum(values), sum(v * v for v in values), len(values)]
    laws = [dpfast.DiscreteLaplace(1, 8), dpfast.DiscreteLaplace(1, 64), dpfast.DiscreteLaplace(1, 2)]
    bounds = {"lower": low * step, "upper": high * step, "granularity": step}
    for names, figure, unit in (((0, 2), exact_mean(values), step), ((0, 1, 2), exact_variance(values), step**2)):
        halves = [laws[i].interval(1 - Fraction(1, 20 * len(names))) for i in names]
        noisy = [[figures[i] + round(turn * half)] for i, turn, half in zip(names, turns, halves, strict=False)]
        how = postprocess.mean if len(names) == 2 else postprocess.variance
        found = how(*noisy, noise=[laws[i] for i in names], **bounds)
        assert Fraction(float(found.lower[0])) <= figure * unit <= Fraction(float(found.upper[0]))
        assert found.lower[0] <= found.value[0] <= found.upper[0]


@pytest.mark.parametrize("law", [dpfast.DiscreteLaplace, partial(dpfast.DiscreteGaussian.calibrated, delta=1e-6)])
@pytest.mark.parametrize("rows", [1, 20, 3000])
def test_intervals_cover(law, rows) -> None:
    """10^4 runs each, at 0.9. A fair one is refused with 1e-6; one of half the noise is caught."""
    n, miss, confidence = 10_000, 0.1, Fraction(9, 10)
    values = np.random.default_rng(rows).integers(-2, 9, rows)
    figures = [int(values.sum()), int((values**2).sum()), rows]
    sizes = 8, 64, 1
    laws = [law(1, dpfast.Sensitivity(1, size)) for size in sizes]
    less = [law(1, dpfast.Sensitivity(1, max(size // 4, 1))) for size in sizes[:2]]
    noisy = [made.release(np.full(n, figure)) for made, figure in zip(laws, figures, strict=True)]
    how = {"lower": -2, "upper": 8, "confidence": confidence}
    variance = figures[1] / rows - (figures[0] / rows) ** 2
    for found, true in (
        (postprocess.mean(noisy[0], noisy[2], noise=laws[::2], **how), figures[0] / rows),
        (postprocess.variance(*noisy, noise=laws, **how), variance),
    ):
        missed = int(((found.lower > true) | (found.upper < true)).sum())
        assert stats.binom.sf(missed - 1, n, miss) > 1e-6
        assert (found.lower >= (-2 if true != variance else 0)).all()
    if rows == 3000:
        planted = postprocess.mean(noisy[0], noisy[2], noise=[less[0], laws[2]], **how)
        missed = int(((planted.lower > figures[0] / rows) | (planted.upper < figures[0] / rows)).sum())
        assert stats.binom.sf(missed - 1, n, miss) < 1e-12
        wide = postprocess.mean(noisy[0], noisy[2], noise=laws[::2], **how)
        assert (wide.upper - wide.lower).max() < 1  # and it tells something


def test_means_and_variances_of_rows() -> None:
    """From rows, with one chooser for all three: within the intervals; false alarm 1e-9."""
    rng, key = np.random.default_rng(4), dpfast.Key.generate().derive("hours").chooser()
    towns, people = rng.integers(0, 3, 9000), rng.integers(0, 1000, 9000)
    hours = np.rint(np.clip(rng.gamma(2, 4, 9000), 0, 24) * 4) / 4 - 12  # clamped, rounded, less the middle
    options = {"domain": range(3), "max_partitions": 3, "max_per_partition": 20, "key": key}
    made = [
        dpfast.bounded_histogram(towns, people, values=hours, lower=-12, upper=12, granularity=1 / 4, **options),
        dpfast.bounded_histogram(towns, people, values=hours**2, lower=0, upper=144, granularity=1 / 16, **options),
        dpfast.bounded_histogram(towns, people, **options),
    ]
    laws = [dpfast.DiscreteLaplace(20, each.sensitivity) for each in made]
    noisy = [each.release(law) for each, law in zip(made, laws, strict=True)]
    how = {"lower": -12, "upper": 12, "granularity": 1 / 4, "confidence": 1 - Fraction(1, 10**10)}
    means = postprocess.mean(noisy[0], noisy[2], noise=laws[::2], **how)
    variances = postprocess.variance(*noisy, noise=laws, **how)
    for town in range(3):
        kept = hours[towns == town]
        assert means.lower[town] <= kept.mean() <= means.upper[town]
        assert variances.lower[town] <= kept.var() <= variances.upper[town]
        assert means.upper[town] - means.lower[town] < 2
        assert variances.upper[town] - variances.lower[town] < 40


def test_intervals_of_few_rows() -> None:
    """Where no row may be there: all that the bounds allow; one sum beside many rows tells much."""
    laws = dpfast.DiscreteLaplace(1, 8), dpfast.DiscreteLaplace(1, 1)
    found = postprocess.mean([0, 0, 10**6], [-3, 0, 10**6], noise=laws, lower=-5, upper=5)
    assert found.lower[:2].tolist() == [-5, -5]
    assert found.upper[:2].tolist() == [5, 5]
    assert abs(found.value[2] - 1) < 1e-9 < found.upper[2] - found.lower[2] < 1e-4
    big = postprocess.mean([2**62], [2**61], noise=laws, lower=0, upper=5)
    assert big.lower[0] < 2 < big.upper[0]


LAWS = [dpfast.DiscreteLaplace(1, 1)] * 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"noise": LAWS[:1]}, DTypeError, "noise must contain 2 mechanisms, of sums, counts"),
        ({"noise": LAWS[0]}, DTypeError, "noise must contain 2 mechanisms"),
        ({"noise": [LAWS[0], 5]}, DTypeError, "on integers, not int"),
        ({"noise": [LAWS[0], dpfast.Laplace(1, 1)]}, DTypeError, "on integers, not Laplace"),
        ({"noise": [LAWS[0], dpfast.DiscreteLaplace]}, DTypeError, "on integers"),
        ({"sums": [1.5]}, DTypeError, "sums must be integers, as they were released"),
        ({"counts": [1, 2]}, ParameterError, r"counts must have the shape of sums, \(1,\), got \(2,\)"),
        ({"lower": 10}, ParameterError, "lower must be less than upper"),
        ({"upper": 0.3}, ParameterError, "multiples of granularity"),
        ({"upper": float("inf")}, ParameterError, "upper must be finite"),
        ({"granularity": 0.3}, ParameterError, "granularity must be a power of two"),
        ({"granularity": 2.0**-300}, ParameterError, "multiples of granularity, 2"),
        ({"confidence": 1}, ParameterError, "confidence must lie strictly between"),
    ],
    ids=str,
)
def test_bad_means(change, error, message) -> None:
    with pytest.raises(error, match=message):
        postprocess.mean(**{"sums": [100], "counts": [20], "noise": LAWS, "lower": 0, "upper": 10, **change})
    if "noise" not in change:
        with pytest.raises(error, match=message):
            given_ = {
                "sums": [100],
                "squares": [1000],
                "counts": [20],
                "noise": [*LAWS, LAWS[0]],
                "lower": 0,
                "upper": 10,
            }
            postprocess.variance(**{**given_, **change})


REALS = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=1, max_size=8)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.float64, np.float32])
def test_clip_keeps_the_dtype(dtype) -> None:
    found = postprocess.clip(np.array([0, 5, 100], dtype), lower=1, upper=50)
    assert found.dtype == dtype
    assert found.tolist() == [1, 5, 50]
    assert postprocess.clip(np.array([0, 5, 100], dtype), upper=10**9).tolist() == [0, 5, 100]


def test_clip_bounds_beyond_the_type() -> None:
    """Harmless on the far side, the type's own end on the near one: no infinity comes out."""
    values = np.array([-1.5, 2.0], np.float32)
    assert postprocess.clip(values, lower=-1e300, upper=Fraction(10) ** 400).tolist() == values.tolist()
    assert np.isfinite(postprocess.clip(values, lower=1e300)).all()
    assert postprocess.clip(np.array([5, 7], np.int8), lower=2**70).tolist() == [127, 127]


def test_the_bias_of_clipping_is_what_its_docstring_says() -> None:
    """E max(X, 0) = q/(1 - q^2): 0.43 at scale 1. Within 7 standard errors of 2e5 draws (3e-12)."""
    q = math.exp(-1)
    stated = q / (1 - q * q)
    assert round(stated, 2) == 0.43
    assert "0.43 too high at scale 1" in " ".join(postprocess.clip.__doc__.split())
    released = dpfast.DiscreteLaplace(1, 1).release(np.zeros(200_000, np.int64))
    clipped = postprocess.clip(released, lower=0)
    assert abs(clipped.mean() - stated) < 7 * clipped.std() / math.sqrt(clipped.size)
    assert abs(released.mean()) < 7 * released.std() / math.sqrt(released.size)


@given(values=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5), step=st.integers(1, 1000))
def test_rounding_integers_is_exact(values, step) -> None:
    """As Python's rounding of fractions, halves to even."""
    found = postprocess.rounded(np.array(values), step)
    assert found.dtype == np.int64
    assert found.tolist() == [round(Fraction(v, step)) * step for v in values]


def test_rounding() -> None:
    """Halves to the even multiple, below 0 too; reals as doubles; beyond int64 refused."""
    assert postprocess.rounded([1, 3, 5, -1, -3], 2).tolist() == [0, 4, 4, 0, -4]
    assert postprocess.rounded([1, 2, 4, 5], 3).tolist() == [0, 3, 3, 6]
    assert postprocess.rounded([0.5, 1.5, 2.5, -7.4]).tolist() == [0, 2, 2, -7]
    assert postprocess.rounded(np.array([7.4, 8.0], np.float32), 5).dtype == np.float64
    with pytest.raises(ParameterError, match="fit int64"):
        postprocess.rounded([2**63 - 1], 1000)


@settings(max_examples=60, deadline=None)
@given(values=REALS, total=st.floats(0, 300).map(lambda x: round(x, 3)))
def test_non_negative_with_a_total_is_the_nearest(values, total) -> None:
    """The optimum adds up; positive cells moved by one amount that no zero cell exceeds."""
    given_ = np.array(values)
    found = postprocess.non_negative(values, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, abs=1e-9 * (1 + abs(given_).sum() + total))
    moved = given_ - found
    positive = found > 1e-9
    if positive.any():
        shift = moved[positive].mean()
        np.testing.assert_allclose(moved[positive], shift, atol=1e-7)
        assert (given_[~positive] <= shift + 1e-7).all()


def test_non_negative_without_a_total_clips() -> None:
    assert postprocess.non_negative([[-1, 2], [3, -4]]).tolist() == [[0, 2], [3, 0]]
    assert postprocess.non_negative([[-1.0, 2], [3, -4]], 0).sum() == 0
    assert postprocess.non_negative([[1, 3], [0, 0]], 4).tolist() == [[1, 3], [0, 0]]


def test_a_total_keeps_the_sum_of_noisy_zeros() -> None:
    """Where clipping would invent a count for every empty cell."""
    released = dpfast.DiscreteLaplace(1, 1).release(np.zeros(10_000, np.int64))
    assert postprocess.clip(released, lower=0).sum() > 3000
    assert postprocess.non_negative(released, 100).sum() == pytest.approx(100, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rows=st.integers(1, 3), columns=st.integers(1, 4))
def test_consistent_is_least_squares(data, rows, columns) -> None:
    """Against the weighted least-squares solution of the whole system."""
    numbers = st.floats(-50, 50).map(lambda x: round(x, 3))
    size = rows * columns
    cells = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))).reshape(rows, columns)
    totals = np.array(data.draw(st.lists(numbers, min_size=rows, max_size=rows)))
    of_cell, of_total = data.draw(st.sampled_from([(1, 1), (2, 5), (Fraction(1, 3), 0.25)]))
    found, sums = postprocess.consistent(cells, totals, cell_variance=of_cell, total_variance=of_total)
    for row in range(rows):
        design = np.vstack([np.eye(columns) / math.sqrt(of_cell), np.ones(columns) / math.sqrt(of_total)])
        wanted = np.append(cells[row] / math.sqrt(of_cell), totals[row] / math.sqrt(of_total))
        np.testing.assert_allclose(found[row], np.linalg.lstsq(design, wanted, rcond=None)[0], atol=1e-8)
    np.testing.assert_allclose(found.sum(axis=1), sums)


def test_public_totals_are_met() -> None:
    found, sums = postprocess.consistent([[1, 2], [3, 4]], [10, 0], total_variance=0)
    np.testing.assert_allclose(sums, [10, 0])
    np.testing.assert_allclose(found, [[4.5, 5.5], [-0.5, 0.5]])


@settings(max_examples=60, deadline=None)
@given(values=REALS, falling=st.booleans())
def test_ordered_is_isotonic_regression(values, falling) -> None:
    """SciPy's, rising or falling."""
    expected = optimize.isotonic_regression(values, increasing=not falling).x
    np.testing.assert_allclose(postprocess.ordered(values, falling=falling), expected, atol=1e-9)


def test_ordered_along_the_last_axis() -> None:
    """Each row by itself; empty ones are fine."""
    found = postprocess.ordered([[3, 1], [1, 2]])
    assert found.tolist() == [[2, 2], [1, 2]]
    assert postprocess.ordered(np.empty((2, 0))).shape == (2, 0)
    assert postprocess.ordered([]).shape == (0,)


def test_nothing_is_changed_in_place() -> None:
    clip = partial(postprocess.clip, lower=0)
    for step in (clip, postprocess.rounded, postprocess.non_negative, postprocess.ordered):
        values = np.array([3.5, -1.5, 2.0])
        step(values)
        assert values.tolist() == [3.5, -1.5, 2.0]


def test_every_step_says_what_it_costs() -> None:
    for name in postprocess.__all__:
        assert "bias" in getattr(postprocess, name).__doc__.lower()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: postprocess.clip([1]), ParameterError, "lower or upper"),
        (lambda: postprocess.clip([1], lower=2, upper=1), ParameterError, "lower must be at most upper, got 2 and 1"),
        (lambda: postprocess.clip([1], lower=0.5), ParameterError, "lower must be a whole number"),
        (lambda: postprocess.clip(["a"], lower=0), DTypeError, "integers or floats"),
        (lambda: postprocess.clip([math.nan], lower=0), ParameterError, "finite"),
        (lambda: postprocess.rounded([1], 0), ParameterError, "step must be at least 1"),
        (lambda: postprocess.non_negative([1], Fraction(10) ** 400), ParameterError, "largest double"),
        (lambda: postprocess.non_negative([1], -1), ParameterError, "total must not be negative"),
        (lambda: postprocess.non_negative([], 1), ParameterError, "must have a cell"),
        (lambda: postprocess.consistent([1], [1]), ParameterError, r"got \(1,\) and \(1,\)"),
        (lambda: postprocess.consistent([[1]], [1], cell_variance=0), ParameterError, "cell_variance must be positive"),
        (lambda: postprocess.consistent([[1]], [1], total_variance=-1), ParameterError, "total_variance must not"),
        (lambda: postprocess.ordered(1), ParameterError, "axis"),
        (lambda: postprocess.ordered([1], falling=1), DTypeError, "falling must be True or False"),
    ],
)
def test_bad_input(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
