# SPDX-License-Identifier: Apache-2.0
"""What a release reads and writes: arrays checked once, before any noise is drawn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy.parameters import shown, whole

CountArray: TypeAlias = npt.NDArray[np.integer[Any]]

INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
ENDS = {
    (kind, size): (int(np.iinfo(f"{kind}{size}").min), int(np.iinfo(f"{kind}{size}").max))
    for kind in "iu"
    for size in (1, 2, 4, 8)
}


class Job(NamedTuple):
    """One release: where counts lie, where the result goes, and the public bounds of the result."""

    counts: CountArray
    out: CountArray
    lower: int
    upper: int


def integer_array(name: str, value: npt.ArrayLike) -> CountArray:
    """An integer array of native or swapped byte order; anything else is refused, never converted."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)  # not np.ma, which would import it
    if masked is not None and isinstance(value, masked):
        raise DTypeError(f"{name} is a masked array: fill it with public numbers first")
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths; NumPy's own message is dropped, for it could quote values
        raise DTypeError(f"{name} must be of an integer dtype and make one array, with rows of equal length") from None
    if array.dtype.kind not in "iu" or array.dtype.itemsize > 8:
        hint = ": round or scale real values to integers first" if array.dtype.kind == "f" else ""
        raise DTypeError(
            f"{name} must be of an integer dtype (int8 to int64, uint8 to uint64), not {array.dtype}{hint}"
        )
    return array


def integer_dtype(value: npt.DTypeLike) -> np.dtype[Any]:
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise DTypeError(f"dtype must be an integer dtype, not {value!r:.40}") from None
    if dtype.kind not in "iu" or dtype.itemsize > 8:
        raise DTypeError(f"dtype must be an integer dtype, not {dtype}")
    return dtype


def prepare(
    counts: npt.ArrayLike,
    out: CountArray | None = None,
    dtype: npt.DTypeLike | None = None,
    lower: int | None = None,
    upper: int | None = None,
) -> Job:
    """Check everything that can be wrong with the arrays of a release."""
    array = integer_array("counts", counts)
    if out is None:
        wanted = INT64 if dtype is None else integer_dtype(dtype)
        low, high = clamps(wanted, lower, upper)
        return Job(array, np.empty(array.shape, wanted), low, high)
    if not isinstance(out, np.ndarray) or integer_array("out", out) is not out:
        raise DTypeError("out must be a plain NumPy array of an integer dtype")
    if dtype is not None and integer_dtype(dtype) != out.dtype:
        raise DTypeError(f"dtype is {np.dtype(dtype)} but out is of {out.dtype}; give one of them")
    if out.shape != array.shape:
        raise ParameterError(f"out must have the shape of counts, {array.shape}, not {out.shape}")
    if not out.flags.writeable:
        raise ParameterError("out must be writeable")
    if overlaps_itself(out):
        raise ParameterError("out must not have elements that share memory")
    if out is not array and not (disjoint(array, out) or same_place(array, out)):
        raise ParameterError("out must be counts itself or share no memory with it")
    low, high = clamps(out.dtype, lower, upper)
    return Job(array, out, low, high)


def clamps(dtype: np.dtype[Any], lower: int | None, upper: int | None) -> tuple[int, int]:
    """The ends of the output: those of its type, or the public bounds within them."""
    least, most = ENDS[dtype.kind, dtype.itemsize]
    if lower is None and upper is None:
        return least, most
    low = least if lower is None else whole("lower", lower)
    high = most if upper is None else whole("upper", upper)
    if lower is not None and upper is not None and low > high:
        raise ParameterError(f"lower must be at most upper, got {shown(low)} and {shown(high)}")
    if low > most or high < least:
        raise ParameterError(
            f"lower and upper must leave something of {dtype}, got lower={shown(lower)} and upper={shown(upper)}"
        )
    return max(low, least), min(high, most)


def overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Whether elements may share memory: false for any slice, transpose or reversal of a plain array."""
    if array.flags.c_contiguous:
        return False
    reach = array.itemsize
    axes = [(abs(step), length) for step, length in zip(array.strides, array.shape, strict=True) if length > 1]
    for step, length in sorted(axes):
        if step < reach:
            return array.size > 0
        reach += step * (length - 1)
    return False


def same_place(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    def layout(x: npt.NDArray[Any]) -> tuple[object, ...]:
        strides = tuple(s for s, length in zip(x.strides, x.shape, strict=True) if length > 1)
        return x.__array_interface__["data"][0], x.itemsize, strides

    return layout(a) == layout(b)


def disjoint(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    if not np.may_share_memory(a, b):
        return True
    try:
        return not np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # any work limit is allowed
    except np.exceptions.TooHardError:
        return False


def plain_runs(array: CountArray, size: int) -> Iterator[memoryview]:
    """The values in C order, eight little-endian bytes each (two's complement), whatever the layout."""
    wanted = np.dtype("<u8" if array.dtype.kind == "u" else "<i8")
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
