# SPDX-License-Identifier: Apache-2.0
"""Where the elements of arrays lie in memory, in what order, and whether any two share it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


def overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Whether elements may share memory: not in a slice, transpose or reversal of a plain array."""
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


class Turn(NamedTuple):
    """What makes a view of a block of memory plain: axes turned round, and in another order."""

    ends: tuple[slice, ...]  # turns round what runs backwards; empty if nothing does
    axes: list[int]  # the order in which they come then

    def of(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return (array[self.ends] if self.ends else array).transpose(self.axes)


@lru_cache(maxsize=64)
def _turn(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Turn | None:
    """For such a view; None if its elements do not fill a block, each once."""
    steps = [abs(step) for step in strides]
    axes = sorted(range(len(shape)), key=steps.__getitem__, reverse=True)
    filled = itemsize
    for axis in reversed(axes):
        if shape[axis] > 1:  # the stride of a lone element means nothing
            if steps[axis] != filled:
                return None
            filled *= shape[axis]
    ends = tuple(slice(None, None, -1 if step < 0 else 1) for step in strides)
    return Turn(ends if min(strides) < 0 else (), axes)


def memory_order(counts: npt.NDArray[Any], out: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Plain views that pair the same elements, if one order makes both plain; else both as is."""
    # For draws of a fresh stream alone. They are independent and alike, and each is used once, so
    # any order in which values meet them is as good, if values do not choose it. This one follows
    # from shapes and strides, which are public. Under a release key a retry must find the same
    # noise wherever the values lie: there the place in the stream, in C order, is promised.
    if out.flags.c_contiguous or counts.shape != out.shape:
        return counts, out
    turn = _turn(counts.shape, counts.strides, counts.itemsize)
    if turn is None or not (plain := turn.of(out)).flags.c_contiguous:
        return counts, out
    return turn.of(counts), plain


def new_result(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """New memory, laid out as values with an axis are if they fill a block, else in C order."""
    turn = _turn(values.shape, values.strides, values.itemsize)
    if turn is None:
        return np.empty(values.shape, dtype)
    made = np.empty_like(values, dtype)
    return made[turn.ends] if turn.ends else made
