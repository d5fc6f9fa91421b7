# SPDX-License-Identifier: Apache-2.0
"""Values of rows as whole steps of a grid, so that their sums are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast.counts.records.fixed_point import FAR, on_grid
from dpfast.errors import DTypeError, ParameterError, UnusableValuesError
from dpfast.noise.release.arrays import INT64, INT64_ENDS, UINT64, grid_of, plain_array
from dpfast.noise.release.columns import WIDE
from dpfast.privacy.parameters import Real, shown, whole

RULE = "integers, float64 or float32"
HINTS = {  # by the kind of an array that holds no numbers
    "O": ": np.array(values, 'float64') makes numbers of decimals, and 'int64' in its place whole ones",
    "b": ": np.array(values, 'int64') makes 0 and 1 of it",
}
MISSING = "values must contain no NaN and no null: leave such rows out, or give them a number"


class Grid(NamedTuple):
    """The public bounds of what is summed, in steps of 2^exponent; integers have no exponent."""

    lower: int
    upper: int
    exponent: int | None

    @property
    def granularity(self) -> Fraction:
        return Fraction(2) ** (self.exponent or 0)

    @property
    def exact(self) -> tuple[Fraction, Fraction]:
        """The bounds themselves."""
        return self.lower * self.granularity, self.upper * self.granularity

    @property
    def most(self) -> int:
        """The most that a value, or a sum, changes: its largest magnitude."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def signed(self) -> bool:
        return self.lower < 0 < self.upper


def grid(lower: Real | None, upper: Real | None, granularity: Real | None) -> Grid:
    """From the caller's bounds. Raises: DTypeError, ParameterError."""
    if lower is None or upper is None:
        raise ParameterError("lower and upper must be given with values")
    if granularity is None:
        low, high = whole("lower", lower), whole("upper", upper)
        if low > high:
            raise ParameterError(f"lower must be at most upper, got {shown(low)} and {shown(high)}")
        if low < INT64_ENDS[0] or high > INT64_ENDS[1]:
            raise ParameterError(f"lower and upper must fit int64, got {shown(low)} and {shown(high)}")
        found = Grid(low, high, None)
    else:
        rounded = on_grid(lower, upper, granularity, None)
        found = Grid(rounded.lower, rounded.upper, rounded.exponent)
    if not found.most:
        coarse = "" if granularity is None else "granularity is too coarse: "
        raise ParameterError(
            f"{coarse}lower and upper must not both be {'rounded to ' * bool(coarse)}0: no unit could change a sum"
        )
    return found


class Amounts:
    """A column of values, read in parts as steps: int64, each rounded on its own, half to even.

    Infinities, and whatever is beyond 2^62 steps, count as that many; integers beyond int64 as its
    largest.
    """

    def __init__(self, values: Any, on: Grid) -> None:
        self._array, self._grid = numbers(values, whole=on.exponent is None), on
        dtype = self._array.dtype
        if dtype.kind == "f" and on.exponent is None:
            raise ParameterError(f"granularity must be given where values are of {dtype}: a power of two")
        if dtype.kind != "f" and on.exponent:
            raise ParameterError(f"granularity must be 1, or be left out, where values are of {dtype}")

    def __len__(self) -> int:
        return self._array.size

    def __call__(self, part: slice) -> npt.NDArray[np.int64]:
        """A copy of a part, in steps. Raises: UnusableValuesError (NaN)."""
        if self._array.dtype.kind in "iu":
            return integers(self._array[part])
        reals = reals_of(self._array[part], np.float64)
        _, first, second = grid_of(self._grid.exponent or 0)
        with np.errstate(all="ignore"):
            reals *= first
            reals *= second
        found: npt.NDArray[np.int64] = np.clip(np.rint(reals), -FAR, FAR).astype(np.int64)
        return found


def numbers(values: Any, *, whole: bool) -> npt.NDArray[Any]:
    """A column of integers, float64 or float32. whole: what a list of none is of.

    Raises: DTypeError, ParameterError; UnusableValuesError (nulls have made floats of integers).
    """
    if (held := str(getattr(values, "dtype", ""))) in WIDE:
        raise DTypeError(f"values must be of {RULE}, not {held}: values.cast(polars.Int64) takes what fits")
    array, listed = plain_array("values", values, RULE), isinstance(values, (list, tuple))
    if not array.size and listed and whole:
        array = array.astype(INT64)  # NumPy makes floats of it
    if array.ndim != 1:
        raise ParameterError(f"values must have one dimension, got {array.ndim}")
    if array.dtype.kind not in "iu" and (array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8)):
        raise DTypeError(f"values must be of {RULE}, not {array.dtype}{HINTS.get(array.dtype.kind, '')}")
    if array.dtype.kind == "f" and not listed and np.asarray(values[:0]).dtype.kind in "iu":
        raise UnusableValuesError(MISSING)
    return array


def integers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A copy; those beyond int64 as its largest."""
    found: npt.NDArray[Any] = values.astype(values.dtype.newbyteorder("="))
    if found.dtype == UINT64:
        np.minimum(found, np.uint64(INT64_ENDS[1]), out=found)
    return found.astype(np.int64)


def reals_of(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A copy. Raises: UnusableValuesError (NaN)."""
    found = values.astype(dtype)
    if np.isnan(found).any():
        raise UnusableValuesError(MISSING)
    return found
