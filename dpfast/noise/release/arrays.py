# SPDX-License-Identifier: Apache-2.0
"""What a release reads and writes: arrays checked once, before any noise is drawn."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError, UnusableValuesError
from dpfast.noise.release.counts import origin_of
from dpfast.noise.release.layout import disjoint, overlaps_itself, same_place
from dpfast.privacy.inputs import NOTHING, Ends, Inputs
from dpfast.privacy.parameters import Real, exact_real, given, shown, two_to, whole

CountArray: TypeAlias = npt.NDArray[np.integer[Any]]
RealArray: TypeAlias = npt.NDArray[np.floating[Any]]

HINTS = {  # by the kind of an array that holds no numbers
    "O": ": np.array(values, 'int64') makes counts of whole numbers; of a dict, list(counts.values())",
    "b": ": np.array(values, 'int64') makes 0 and 1 of it",
}
WHOLE = 2.0**53  # up to here every whole number is a double of its own
INTEGERS, REALS = "an integer dtype", "float64 or float32"
BUFFER = 1 << 16  # counts that NumPy casts or gathers at a time, where the arrays are not plain
INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
LONG_LONG = np.dtype(np.longlong)  # equal to int64, and where that is NumPy's long, another object
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
ENDS = {
    (kind, size): (int(np.iinfo(f"{kind}{size}").min), int(np.iinfo(f"{kind}{size}").max))
    for kind in "iu"
    for size in (1, 2, 4, 8)
}
INT64_ENDS = ENDS["i", 8]

# By whether the type is float32: the exponent of its smallest number, and its largest.
REAL_ENDS = {False: (-1074, float(np.finfo(FLOAT64).max)), True: (-149, float(np.finfo(FLOAT32).max))}


class Job(NamedTuple):
    """One release: where counts lie, where the result goes, and the public bounds of the result."""

    counts: CountArray
    out: CountArray
    lower: int
    upper: int


class RealJob(NamedTuple):
    """One release of real values onto a grid."""

    counts: RealArray
    out: RealArray
    lower: float  # bounds of the result
    upper: float
    grid: tuple[float, float, float]  # the granularity, and two factors that divide by it
    least: float  # bounds of the values, before the noise
    greatest: float
    missing: float | None  # stands for what is not finite


def plain_array(name: str, value: npt.ArrayLike, rule: str, dtype: type | None = None) -> npt.NDArray[Any]:
    """An array without a mask, of whatever dtype, or of the one given."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)  # not np.ma, which would import it
    if masked is not None and isinstance(value, masked):
        raise DTypeError(f"{name} is a masked array: fill it with public numbers first")
    try:
        array = np.asarray(value, dtype)
    except ValueError:  # rows of different lengths; NumPy's own message is dropped, for it could quote values
        raise DTypeError(f"{name} must be of {rule} and make one array, with rows of equal length") from None
    except NotImplementedError:  # Arrow gives NumPy no array of some of its types
        raise DTypeError(f"{name} must be of {rule}, not {getattr(value, 'type', type(value).__name__)}") from None
    return array


def integer_array(name: str, value: npt.ArrayLike) -> CountArray:
    """An integer array of native or swapped byte order; any other is refused, never converted."""
    array = value if type(value) is np.ndarray else plain_array(name, value, INTEGERS)
    if not array.size and isinstance(value, (list, tuple)):
        array = array.astype(INT64)  # NumPy makes floats of it
    if array.dtype is not INT64 and (array.dtype.kind not in "iu" or array.dtype.itemsize > 8):
        hint = (
            ": for real values there are Laplace and Gaussian; astype('int64') makes counts of whole numbers, and missing=0 "
            "takes float64 with gaps"
            if array.dtype.kind == "f"
            else HINTS.get(array.dtype.kind, "")
        )
        raise DTypeError(
            f"{name} must be of an integer dtype (int8 to int64, uint8 to uint64), not {array.dtype}{hint}"
        )
    return array


def _with_gaps(counts: npt.ArrayLike, missing: int) -> npt.ArrayLike:
    """float64 counts with NaN for gaps, as pandas makes them, as integers; others as they are.

    Beyond 2^53 a double may be the rounding of another count, and neighbours may lie further apart
    than their counts do: these are refused.
    Raises: UnusableValuesError (no whole numbers); ParameterError (missing is beyond int64).
    """
    array = counts if isinstance(counts, np.ndarray) else plain_array("counts", counts, INTEGERS)
    if array.dtype.newbyteorder("=") != FLOAT64 or (not array.size and not isinstance(counts, np.ndarray)):
        return counts
    if not INT64_ENDS[0] <= missing <= INT64_ENDS[1]:
        raise ParameterError(f"missing must be of the type of counts, int64, got {shown(missing)}")
    gaps = np.isnan(array)
    if not (gaps | ((np.abs(array) < WHOLE) & (np.trunc(array) == array))).all():
        raise UnusableValuesError("counts in float64 must be whole numbers below 2**53, or NaN for missing")
    filled = np.where(gaps, 0, array).astype(INT64)
    filled[gaps] = missing
    return filled


def real_array(name: str, value: npt.ArrayLike) -> RealArray:
    """A float64 or float32 array, native or swapped; any other is refused, never converted."""
    array = value if type(value) is np.ndarray else plain_array(name, value, REALS)
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        hint = ": for counts there are DiscreteLaplace and DiscreteGaussian" if array.dtype.kind in "iu" else ""
        raise DTypeError(f"{name} must be of float64 or float32, not {array.dtype}{hint}")
    return array


def integer_dtype(value: npt.DTypeLike) -> np.dtype[Any]:
    dtype = _dtype(value, INTEGERS)
    if dtype.kind not in "iu" or dtype.itemsize > 8:
        raise DTypeError(f"dtype must be {INTEGERS}, not {dtype}")
    return dtype


def real_dtype(value: npt.DTypeLike) -> np.dtype[Any]:
    dtype = _dtype(value, REALS)
    if dtype.newbyteorder("=") not in (FLOAT32, FLOAT64):
        raise DTypeError(f"dtype must be {REALS}, not {dtype}")
    return dtype


def _dtype(value: npt.DTypeLike, rule: str) -> np.dtype[Any]:
    try:
        return np.dtype(value)
    except Exception:  # NumPy raises several kinds for a text or a tuple that describes none
        raise DTypeError(f"dtype must be {rule}, not {shown(value)}") from None


def prepare(
    counts: npt.ArrayLike,
    out: CountArray | None = None,
    dtype: npt.DTypeLike | None = None,
    lower: int | None = None,
    upper: int | None = None,
    public: Inputs = NOTHING,
) -> Job:
    """Check all that can be wrong with a release's arrays. A clamp makes a clamped copy."""
    if public.missing is not None:
        counts = _with_gaps(counts, int(public.missing))
    array = integer_array("counts", counts)
    if public.clamp is not None:
        _check_ends("counts", array.dtype, public.clamp, ENDS[array.dtype.kind, array.dtype.itemsize])
    if out is None:
        out = np.empty(array.shape, INT64 if dtype is None else integer_dtype(dtype))
    else:
        check_out("counts", array, out, dtype)
    low, high = INT64_ENDS if out.dtype is INT64 else ENDS[out.dtype.kind, out.dtype.itemsize]
    if lower is not None or upper is not None:
        low, high = clamps(out.dtype, lower, upper)
    if public.clamp is not None:
        array = np.asarray(array.clip(int(public.clamp[0]), int(public.clamp[1])))
    return Job(array.view(INT64) if array.dtype is LONG_LONG else array, out, low, high)


def prepare_real(
    values: npt.ArrayLike,
    out: RealArray | None = None,
    dtype: npt.DTypeLike | None = None,
    lower: Real | None = None,
    upper: Real | None = None,
    public: Inputs = NOTHING,
    *,
    exponent: int,
    bound: float | None = None,
) -> RealJob:
    """As prepare, for reals; float32 gives float32 unless `out` or `dtype` says otherwise."""
    array = real_array("values", values)
    if out is None:
        same = FLOAT32 if array.dtype.itemsize == FLOAT32.itemsize else FLOAT64
        out = np.empty(array.shape, same if dtype is None else real_dtype(dtype))
    else:
        check_out("values", array, out, dtype)
    single = out.dtype.itemsize == FLOAT32.itemsize
    least, most = REAL_ENDS[single]
    if exponent < least:
        raise ParameterError(
            f"granularity must be at least the smallest float{32 if single else 64}, got 2**{exponent}"
        )
    if bound is not None and bound < most:
        kind = np.float32 if single else np.float64
        nearest = kind(bound)
        most = float(nearest if float(nearest) <= bound else np.nextafter(nearest, kind(0)))
    low = -most if lower is None else max(_real("lower", lower, single), -most)
    high = most if upper is None else min(_real("upper", upper, single), most)
    if low > high:
        raise ParameterError(f"lower must be at most upper, and leave something, {given(lower=lower, upper=upper)}")
    filler = None if public.missing is None else _real("missing", public.missing, False)
    end = REAL_ENDS[False][1] if bound is None else bound
    before = -end, end
    if public.clamp is not None:
        largest = REAL_ENDS[array.dtype.itemsize == FLOAT32.itemsize][1]
        _check_ends("values", array.dtype, public.clamp, (-largest, largest))
        floor, ceiling = (_real(f"clamp[{i}]", end_, False) for i, end_ in enumerate(public.clamp))
        before = min(max(floor, -end), end), min(max(ceiling, -end), end)  # both clamps, one after the other
    return RealJob(array, out, low, high, grid_of(exponent), *before, filler)


def _check_ends(name: str, dtype: np.dtype[Any], clamp: Ends, ends: tuple[float, float]) -> None:
    if clamp[0] < ends[0] or clamp[1] > ends[1]:
        raise ParameterError(f"clamp must lie within the type of {name}, {dtype}, got ({', '.join(map(shown, clamp))})")


@lru_cache(maxsize=64)
def grid_of(exponent: int) -> tuple[float, float, float]:
    """2^exponent, and two factors that divide by it."""
    return two_to(exponent), two_to(-exponent // 2), two_to(-exponent - -exponent // 2)


def _real(name: str, value: Real, single: bool) -> float:
    """A finite public number that the type holds exactly."""
    exact = exact_real(name, value)
    kind = np.float32 if single else np.float64
    found = float(kind(float(exact))) if abs(exact) <= REAL_ENDS[single][1] else math.inf
    if not math.isfinite(found) or Fraction(found) != exact:
        raise ParameterError(f"{name} must be a float{32 if single else 64} exactly, got {shown(value)}")
    return found


def check_out(name: str, array: npt.NDArray[Any], out: npt.NDArray[Any], dtype: npt.DTypeLike | None) -> None:
    """Refuse an output that cannot take the result of `array`, called `name`, or is no `dtype`."""
    rule, as_array, as_dtype = (
        (REALS, real_array, real_dtype) if array.dtype.kind == "f" else (INTEGERS, integer_array, integer_dtype)
    )
    if origin_of(out) is not None:
        raise ParameterError("out must be an array of its own, not of counts that are not private yet")
    if not isinstance(out, np.ndarray) or as_array("out", out) is not out:
        raise DTypeError(f"out must be a plain NumPy array of {rule}")
    if dtype is not None and as_dtype(dtype) != out.dtype:
        raise DTypeError(f"dtype is {np.dtype(dtype)} but out is of {out.dtype}; give one of them")
    if out.shape != array.shape:
        raise ParameterError(f"out must have the shape of {name}, {array.shape}, not {out.shape}")
    if not out.flags.writeable:
        raise ParameterError("out must be writeable")
    if overlaps_itself(out):
        raise ParameterError("out must not have elements that share memory")
    if out is not array and not (disjoint(array, out) or same_place(array, out)):
        raise ParameterError(f"out must be {name} itself or share no memory with it")


def clamps(dtype: np.dtype[Any], lower: int | None, upper: int | None) -> tuple[int, int]:
    """The ends of the output: those of its type, or the public bounds within them."""
    least, most = ENDS[dtype.kind, dtype.itemsize]
    low = least if lower is None else whole("lower", lower)
    high = most if upper is None else whole("upper", upper)
    if lower is not None and upper is not None and low > high:
        raise ParameterError(f"lower must be at most upper, got {shown(low)} and {shown(high)}")
    if low > most or high < least:
        raise ParameterError(f"lower and upper must leave something of {dtype}, {given(lower=lower, upper=upper)}")
    return max(low, least), min(high, most)


def plain_runs(array: npt.NDArray[Any], size: int = BUFFER) -> Iterator[memoryview]:
    """The values in C order, eight little-endian bytes each: two's complement, or doubles."""
    wanted = np.dtype(f"<{array.dtype.kind}8")
    if array.dtype == wanted and array.flags.c_contiguous:
        yield array.reshape(-1).data.cast("B")
    else:
        chunks = np.nditer(  # type: ignore[call-overload]  # its stubs misspell "contig"
            np.atleast_1d(array),  # NumPy 2.2 iterates over the buffer of a 0-d array before it has filled it
            flags=["external_loop", "buffered", "zerosize_ok"],
            op_flags=[["readonly", "contig"]],
            op_dtypes=[wanted],
            order="C",
            casting="safe",
            buffersize=size,
        )
        with chunks:
            for chunk in chunks:
                yield chunk.data.cast("B")
