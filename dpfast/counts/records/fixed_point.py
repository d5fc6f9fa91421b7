# SPDX-License-Identifier: Apache-2.0
"""Sums of real values whose sensitivity is what the formula says: integers on a grid.

A float sum rounds after every addition, and each record then moves the rounding of all others. So
its sensitivity exceeds the real-number formula, without bound in the number of records.
(Casacuberta, Shoemate, Vadhan, Wagaman 2022, "Widespread Underestimation of Sensitivity in
Differentially Private Libraries and How to Fix It".) Here each record is rounded on its own to a
grid, and integers are added. So one record moves the sum by its own term and by nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.noise import kernels
from dpfast.noise.release.arrays import ENDS, plain_array
from dpfast.noise.release.counts import bounded_total
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, exact_real, power_of_two, shown, whole
from dpfast.privacy.sensitivity import Sensitivity

Bits: TypeAlias = npt.NDArray[np.signedinteger[Any]]


class FixedPointSum(NamedTuple):
    """A sum in steps that is not private yet, and the change that the noise must hide.

    total: an int that knows its sensitivity: a mechanism that was made for less refuses it.
    """

    total: int
    sensitivity: Sensitivity

    def __repr__(self) -> str:
        """Shows no sum."""
        return f"<FixedPointSum: a sum, not private yet, of sensitivity={self.sensitivity!r}>"


RECORDS_PER_UNIT = ("up to", "exactly")
SLAB = 1 << 22  # values between two looks at signals: some milliseconds
BUFFER = 1 << 14  # values that NumPy gathers or swaps at a time if the array is not plain
NEAR, FAR = 1 << 51, 1 << 62  # steps from zero: the reach of sums in doubles, and of sums by bits


class _Float(NamedTuple):
    """A floating-point type: the bits of its fraction, and the bias of its exponent."""

    fraction: int
    bias: int

    def in_doubles(self, exponent: int) -> bool:
        """Whether doubles are enough for a granularity of 2^exponent.

        No subnormal may come near half a step, and no scale may be a subnormal.
        """
        return 6 - self.bias <= exponent <= 1000


FLOATS = {4: _Float(23, 127), 8: _Float(52, 1023)}


class _Steps(NamedTuple):
    """The public numbers in steps of 2^exponent, rounded like the values; `missing` is clamped."""

    exponent: int
    lower: int
    upper: int
    missing: int


def fixed_point_sum(
    values: npt.ArrayLike,
    *,
    lower: Real,
    upper: Real,
    granularity: Real,
    adjacency: str,
    max_records: int = 1,
    records_per_unit: Literal["up to", "exactly"] = "up to",
    missing: Real | None = None,
    unit: str = "person",
) -> FixedPointSum:
    """The exact sum of clamped and rounded values, and its sensitivity.

    Values are clamped to [lower, upper] and rounded to multiples of `granularity`, a power of two.
    Both results are in
    steps: multiply a release of the sum by `granularity`. Values are float64 or float32. Infinities
    are clamped. NaN counts as `missing`, a public number that is clamped, too; without `missing`,
    NaN is refused. Each value is rounded on its own, half to even as `np.rint` does. The sum
    saturates at the ends of int64, once.

    One unit of privacy has at most `max_records` records, m. With L and U the rounded bounds,
    neighbours' sums differ by at most m·max(|L|, |U|) under "add-remove" and m·(max(U, 0) − min(L,
    0)) under "substitution"; or m·(U − L) there if every unit has exactly m of them, which
    `records_per_unit="exactly"` states. (With up to m records this is false: L = U = 1, m = 2 gives
    0, but a unit with one record may become a unit with two.) The difference is attained.

    Raises: DTypeError (values not floats), ParameterError (also for a granularity with which
        nothing can differ).

    >>> hours = np.array([2.5, 7.25, 90.0])  # one record a person
    >>> steps, sensitivity = dpfast.fixed_point_sum(
    ...     hours, lower=0, upper=10, granularity=0.25, adjacency="add-remove"
    ... )
    >>> noisy = dpfast.DiscreteLaplace(epsilon=1, sensitivity=sensitivity).release(steps) * 0.25
    >>> sensitivity.linf  # 10 hours in steps of a quarter
    Fraction(40, 1)
    """
    adjacency, unit = parameters.adjacency(adjacency), parameters.unit(unit)
    if not isinstance(records_per_unit, str) or records_per_unit not in RECORDS_PER_UNIT:
        raise ParameterError(f"records_per_unit must be 'up to' or 'exactly', got {shown(records_per_unit)}")
    records = whole("max_records", max_records, 1)
    steps = on_grid(lower, upper, granularity, missing)
    if adjacency == "add-remove":
        change = records * max(abs(steps.lower), abs(steps.upper))
    elif records_per_unit == "exactly":
        change = records * (steps.upper - steps.lower)
    else:
        change = records * (max(steps.upper, 0) - min(steps.lower, 0))
    if change == 0:
        raise ParameterError(
            "granularity is too coarse: lower and upper are rounded to "
            + ("zero" if steps.lower == 0 else "one step")
            + ", and no unit can change the sum"
        )
    sensitivity = Sensitivity.changes(l0=1, linf=change, adjacency=adjacency, unit=unit)
    array = _float_array(values)
    total, absent = _sum(array, steps)
    if absent and missing is None:
        raise ParameterError("values must contain no NaN, unless missing= gives a public number that stands for it")
    least, most = ENDS["i", 8]
    return FixedPointSum(bounded_total(min(max(total, least), most), sensitivity), sensitivity)


def on_grid(lower: Real, upper: Real, granularity: Real, missing: Real | None) -> _Steps:
    exponent = power_of_two("granularity", granularity)
    if not -1074 <= exponent <= 1023:
        raise ParameterError(f"granularity must be within 2**-1074 and 2**1023, got {shown(granularity)}")
    grid = Fraction(2) ** exponent
    least, most = exact_real("lower", lower), exact_real("upper", upper)
    if least > most:
        raise ParameterError(f"lower must be at most upper, got {shown(lower)} and {shown(upper)}")
    low, high = round(least / grid), round(most / grid)  # half to even
    if max(abs(low), abs(high)) > FAR:
        raise ParameterError(
            f"granularity is too fine: lower and upper must be within 2**62 steps of zero, got {shown(granularity)}"
        )
    instead = 0 if missing is None else round(exact_real("missing", missing) / grid)
    return _Steps(exponent, low, high, min(max(instead, low), high))


def _float_array(values: npt.ArrayLike) -> npt.NDArray[np.floating[Any]]:
    array = plain_array("values", values, "dtype float64 or float32")
    if array.dtype.kind in "biu":
        raise DTypeError(f"values must be of dtype float64 or float32, not {array.dtype}: clip integers, then sum them")
    if array.dtype.kind != "f" or array.dtype.itemsize not in FLOATS:
        raise DTypeError(f"values must be of dtype float64 or float32, not {array.dtype}")
    return array


def _sum(array: npt.NDArray[np.floating[Any]], steps: _Steps) -> tuple[int, int]:
    """The sum in steps, an integer of any length, and how many values are NaN."""
    kind = FLOATS[array.dtype.itemsize]
    bounds = steps.lower, steps.upper, steps.missing
    doubles = kind.in_doubles(steps.exponent) and max(abs(steps.lower), abs(steps.upper)) <= NEAR
    grid: tuple[float, ...]
    if doubles:
        kernel, grid = kernels.kernel("fixed_point"), (math.ldexp(1.0, -steps.exponent),)
    else:
        infinity = (2 * kind.bias + 1) << kind.fraction
        kernel = kernels.kernel("fixed_point_bits")
        grid = kind.fraction, infinity, kind.bias + kind.fraction + steps.exponent
    native = array.dtype.newbyteorder("=")
    total = absent = 0
    for run in _plain_runs(array):
        for start in range(0, run.size, SLAB):
            slab = run[start : start + SLAB]
            top, low, missing = kernel(slab.view(native) if doubles else slab, *grid, *bounds)
            total += (top << 32) + low
            absent += missing
    return total, absent


def _plain_runs(array: npt.NDArray[np.floating[Any]]) -> Iterator[Bits]:
    """The bits of the values in plain runs, in any order.

    NumPy moves them as integers, because a host's flush to zero would change subnormal floats.
    """
    bits = array.view(array.dtype.str.replace("f", "i"))
    plain = bits.dtype.isnative and bits.flags.aligned
    if plain and (bits.flags.c_contiguous or bits.flags.f_contiguous):
        yield bits.reshape(-1, order="A")
        return
    chunks = np.nditer(  # type: ignore[call-overload]  # its stubs misspell "contig"
        np.atleast_1d(bits),  # NumPy 2.2 iterates over the buffer of a 0-d array before it has filled it
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[["readonly", "contig", "aligned", "nbo"]],
        op_dtypes=[bits.dtype.newbyteorder("=")],
        order="K",
        casting="equiv",
        buffersize=BUFFER,
    )
    with chunks:
        yield from chunks
