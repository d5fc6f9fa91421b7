# SPDX-License-Identifier: Apache-2.0
"""Post-processing: steps that spend no privacy, and the bias that each step brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.arrays import plain_array
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, shown

Numbers: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]
MOST = Fraction(np.finfo(np.float64).max)
EXACT = 2**53  # integers up to here are doubles
SLACK = 2.0**-48  # what doubles may lose on the way to a mean or a variance, in units of the largest bound
__all__ = ["clip", "consistent", "mean", "non_negative", "ordered", "rounded", "variance"]


class Estimate(NamedTuple):
    """A figure for each cell, and the ends of its interval."""

    value: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]


def clip(noisy: npt.ArrayLike, lower: Real | None = None, upper: Real | None = None) -> Numbers:
    """Clamp values to public bounds.

    Bias: towards the inside. A true 0 clipped at 0 comes out 0.43 too high at scale 1.
    The bias is large for counts near the scale of the noise, and it adds up: a sum of clipped zeros
    grows with their number. Clip last, or use non_negative with a total.
    """
    values = _numbers("noisy", noisy)
    if lower is None and upper is None:
        raise ParameterError("lower or upper must be given, or both")
    low, high = (None if end is None else _end(name, end, values) for name, end in (("lower", lower), ("upper", upper)))
    if low is not None and high is not None and low > high:
        raise ParameterError(f"lower must be at most upper, got {shown(lower)} and {shown(upper)}")
    found: Numbers = np.clip(values, low, high)
    return found


def rounded(noisy: npt.ArrayLike, step: int = 1) -> Numbers:
    """Round to the nearest multiple of `step`, halves to the even one.

    Bias: below step/2 for each value, near 0 if the noise is wider.
    Returns int64 for integers, and float64 that holds whole numbers for reals.
    """
    values, size = _numbers("noisy", noisy), parameters.whole("step", step, 1)
    _double("step", step)
    if values.dtype.kind == "f":
        found: npt.NDArray[np.float64] = np.rint(values.astype(np.float64) / size) * size
        return found
    down = values.astype(object) // size  # Python's integers: a multiple may lie outside the dtype
    rest = values.astype(object) - down * size
    up = (2 * rest > size) | ((2 * rest == size) & (down % 2 == 1))
    exact = (down + up) * size
    try:
        return np.asarray(exact, np.int64).reshape(values.shape)
    except OverflowError:
        raise ParameterError(f"noisy, rounded to multiples of step, must fit int64, got a step of {size}") from None


def non_negative(noisy: npt.ArrayLike, total: Real | None = None) -> npt.NDArray[np.float64]:
    """The nearest array (in Euclid's distance) without negative values.

    total: if given, the result adds up to it. It is public, or its own release. Bias: without a
        total, that of clip at 0. With a total, small cells come out too high, large cells too low
        by one common amount, and the sum is right.
    Source: projection onto the simplex, Held, Wolfe, Crowder 1974.
    """
    values = _reals("noisy", noisy)
    if total is None:
        return np.maximum(values, 0.0)
    whole = _double("total", total)
    if values.size == 0:
        raise ParameterError("noisy must have a cell that the total can be put in")
    falling = np.sort(values, axis=None)[::-1]
    excess = np.cumsum(falling) - whole
    kept = np.flatnonzero(falling * np.arange(1, falling.size + 1) > excess)
    last = int(kept[-1]) if kept.size else 0  # none where rounding hides it, or the total is 0
    found: npt.NDArray[np.float64] = np.maximum(values - excess[last] / (last + 1), 0.0)
    return found


def consistent(
    cells: npt.ArrayLike, totals: npt.ArrayLike, *, cell_variance: Real = 1, total_variance: Real = 1
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Make cells and the totals of their rows agree: the least-squares estimate of both.

    cells: (rows, columns), one release. totals: (rows,), another release, each the total of the
        cells in its row.
    cell_variance, total_variance: those of the noise of one cell and of one total; 0 for a total
        that is public and exact.

    The result adds up, except for rounding in doubles. It has no bias, because it is linear in the
    releases; its variance is below that of either.
    Source: Hay, Rastogi, Miklau, Suciu 2010, section 4, for a tree of two levels.
    """
    values, sums = _reals("cells", cells), _reals("totals", totals)
    if values.ndim != 2 or sums.shape != values.shape[:1] or values.shape[1] == 0:
        raise ParameterError(f"cells must be (rows, columns) and totals (rows,), got {values.shape} and {sums.shape}")
    of_cell, of_total = _double("cell_variance", cell_variance), _double("total_variance", total_variance)
    if of_cell == 0:
        raise ParameterError(f"cell_variance must be positive, got {shown(cell_variance)}")
    columns = values.shape[1]
    gap = sums - values.sum(axis=1)
    share = of_cell / (columns * of_cell + of_total)  # the part of the gap that each cell gets
    found = values + share * gap[:, None]
    return found, found.sum(axis=1)


def ordered(noisy: npt.ArrayLike, *, falling: bool = False) -> npt.NDArray[np.float64]:
    """The nearest array, in Euclid's distance, that never falls along the last axis.

    This is isotonic regression, for values that are known to be in order, such as a cumulative
    histogram. falling: the array never rises instead. The function never sorts: sorted noise
    belongs to no cell, and the largest of many noisy zeros looks like a count. Bias: towards the
    mean of neighbours, if true values are close compared with the noise.
    Source: Hay, Rastogi, Miklau, Suciu 2010, section 3; Barlow, Bartholomew, Bremner, Brunk 1972.
    """
    values, falls = _reals("noisy", noisy), parameters.flag("falling", falling)
    if values.ndim == 0:
        raise ParameterError("noisy must have an axis to be ordered along")
    rows = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, 1)
    found = [_isotonic(-row if falls else row) for row in rows]
    return (-1.0 if falls else 1.0) * np.reshape(found, values.shape)


def mean(
    sums: npt.ArrayLike,
    counts: npt.ArrayLike,
    *,
    noise: Sequence[Any],
    lower: Real,
    upper: Real,
    granularity: Real = 1,
    confidence: Real = Fraction(95, 100),
) -> Estimate:
    """Means by key, from noisy sums and noisy counts of the same rows, each with its interval.

    sums, counts: int64, of equal shapes: what was released, sums in steps of granularity, not
        clamped by a narrow type or by bounds.
    noise: the mechanisms of the sums and of the counts, on integers.
    lower, upper: the public bounds of one value, as it was clamped: multiples of granularity.
    confidence: of each interval on its own.

    The interval holds the true bounded sum over the true bounded count, put between lower and
    upper, of every key with a row. Where both are of the same rows this is the mean of the
    *clamped, rounded, chosen* values, and not of the raw ones (docs/records.md says when). It holds
    for keys that are public: those that a threshold shows have noise of another law.
    Bias: the value is a ratio, put between the bounds: towards their inside if few rows are there.
    Returns: value, lower and upper, float64, of the shape of sums.
    Raises: DTypeError, ParameterError.
    Source: a box around both, by Bonferroni's inequality; its ratios are extreme at corners.

        >>> laws = dpfast.DiscreteLaplace(1, 50), dpfast.DiscreteLaplace(1, 1)
        >>> found = dpfast.postprocess.mean([7500], [300], noise=laws, lower=0, upper=50)
        >>> float(found.value[0]), found.lower[0] < 25 < found.upper[0]
        (25.0, np.True_)
    """
    (total, rows), step, (low, high) = (
        _cells({"sums": sums, "counts": counts}, noise, confidence),
        *_bounds(lower, upper, granularity),
    )
    value = total.value * step / np.maximum(rows.value, 1)
    ends = _ratio(total, rows, step)
    margin = SLACK * max(abs(low), abs(high))
    return Estimate(*(np.clip(each, low, high) for each in (value, ends[0] - margin, ends[1] + margin)))


def variance(
    sums: npt.ArrayLike,
    squares: npt.ArrayLike,
    counts: npt.ArrayLike,
    *,
    noise: Sequence[Any],
    lower: Real,
    upper: Real,
    granularity: Real = 1,
    confidence: Real = Fraction(95, 100),
) -> Estimate:
    """Variances by key, from noisy sums of values, of their squares, and noisy counts.

    squares: sums of the squares of the *clamped, rounded* values, in steps of granularity^2.
    noise: the mechanisms of the three, in their order. All else as of `mean`.

    The interval holds squares/counts - (sums/counts)^2 of the true bounded figures, put between 0
    and (upper - lower)^2/4, of every key with a row, where all three are of as many rows. If these
    are the same rows, it is the variance (over n, not n - 1) of the clamped values. Values less the
    middle of their bounds have the same variance, less noise and a narrower interval.
    Bias: that of the mean of squares, less a square: too low where counts are small.
    Returns, raises: as `mean`. Source: as of `mean`, for three.
    """
    three = _cells({"sums": sums, "squares": squares, "counts": counts}, noise, confidence)
    (total, square, rows), step, (low, high) = three, *_bounds(lower, upper, granularity)
    most, far = (high - low) ** 2 / 4, max(abs(low), abs(high))
    number = np.maximum(rows.value, 1)
    means = np.clip(_ratio(total, rows, step), low, high)
    second = np.clip(_ratio(square, rows, step**2), 0, far**2)
    least = np.where(means[0] * means[1] <= 0, 0, np.minimum(*np.abs(means)))
    ends = second[0] - np.maximum(*np.abs(means)) ** 2, second[1] - least**2
    value = np.clip(square.value * step**2 / number, 0, far**2) - np.clip(total.value * step / number, low, high) ** 2
    margin = 4 * SLACK * far**2
    return Estimate(*(np.clip(each, 0, most) for each in (value, ends[0] - margin, ends[1] + margin)))


def _cells(released: Mapping[str, npt.ArrayLike], noise: Sequence[Any], confidence: Real) -> list[Estimate]:
    """The released integers, and intervals that hold all of a cell together."""
    if not isinstance(noise, (tuple, list)) or len(noise) != len(released):
        raise DTypeError(f"noise must contain {len(released)} mechanisms, of {', '.join(released)}")
    miss = 1 - parameters.probability("confidence", confidence)
    found: list[Estimate] = []
    for (name, value), law in zip(released.items(), noise, strict=True):
        if isinstance(law, type) or not getattr(law, "INTEGERS", False):
            raise DTypeError(f"noise must contain mechanisms on integers, not {type(law).__name__}")
        array = _numbers(name, value)
        if array.dtype.kind == "f":
            raise DTypeError(f"{name} must be integers, as they were released, not {array.dtype}")
        near, half = array.astype(np.float64), float(law.interval(1 - miss / len(released)))
        if found and near.shape != found[0].value.shape:
            raise ParameterError(f"{name} must have the shape of sums, {found[0].value.shape}, got {near.shape}")
        off = np.where(np.abs(near) + half > EXACT, (np.abs(near) + half) * 2.0**-51, 0)  # what a double may lose
        found.append(Estimate(near, near - half - off, near + half + off))
    return found


def _bounds(lower: Real, upper: Real, granularity: Real) -> tuple[float, tuple[float, float]]:
    step = parameters.exact_positive("granularity", granularity)
    parameters.power_of_two("granularity", step)
    ends = [parameters.exact_real(name, end) for name, end in (("lower", lower), ("upper", upper))]
    if ends[0] >= ends[1]:
        raise ParameterError(f"lower must be less than upper, got {shown(lower)} and {shown(upper)}")
    if any((end / step).denominator != 1 or abs(end / step) > EXACT for end in ends) or not 2**-200 <= step <= 2**200:
        raise ParameterError(
            f"lower and upper must be multiples of granularity, 2**53 at most, got {shown(lower)} and {shown(upper)}"
        )
    return float(step), (float(ends[0]), float(ends[1]))


def _ratio(total: Estimate, rows: Estimate, step: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The ends of total/rows where rows are 1 or more."""
    few, many = np.maximum(rows.lower, 1), np.maximum(rows.upper, 1)
    low = total.lower * step / np.where(total.lower >= 0, many, few)
    high = total.upper * step / np.where(total.upper >= 0, few, many)
    return low, high


def _isotonic(row: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    means: list[float] = []
    sizes: list[int] = []
    for value in row.tolist():
        mean, size = value, 1
        while means and means[-1] >= mean:  # pool adjacent violators
            before = sizes.pop()
            mean = (means.pop() * before + mean * size) / (before + size)
            size += before
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)


def _numbers(name: str, value: npt.ArrayLike) -> Numbers:
    array = plain_array(name, value, "integers or floats").copy()  # what is checked is what is used
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise DTypeError(
            f"{name} must be integers or floats of at most 64 bits, as every release is, not {array.dtype}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ParameterError(f"{name} must be finite, as every release is")
    return array


def _reals(name: str, value: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return _numbers(name, value).astype(np.float64)


def _double(name: str, value: Real) -> float:
    exact = parameters.exact_real(name, value)
    if not 0 <= exact <= MOST:
        raise ParameterError(f"{name} must not be negative, and at most the largest double, got {shown(value)}")
    return float(exact)


def _end(name: str, value: Real, values: Numbers) -> int | float:
    exact = parameters.exact_real(name, value)
    if values.dtype.kind == "f":
        most = Fraction(float(np.finfo(str(values.dtype)).max))
        return float(min(max(exact, -most), most))
    if exact.denominator != 1:
        raise ParameterError(f"{name} must be a whole number for integers, got {shown(value)}")
    ends: Any = np.iinfo(str(values.dtype))
    return min(max(int(exact), int(ends.min)), int(ends.max))
