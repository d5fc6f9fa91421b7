# SPDX-License-Identifier: Apache-2.0
"""Post-processing: steps that spend no privacy, and the bias that each step brings.

Whatever is computed from released values and public facts alone spends no privacy [DMNS06; Dwork,
Roth 2014, Proposition 2.1]. None of these functions may see the private counts. Noise with mean 0
makes a release unbiased. Each step below except consistent() gives this up for values that look
right. The functions return new arrays of float64; clip and rounded return integers for integers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, shown
from dpfast.release.arrays import plain_array

Numbers: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]
MOST = Fraction(np.finfo(np.float64).max)
__all__ = ["clip", "consistent", "non_negative", "ordered", "rounded"]


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
