# SPDX-License-Identifier: Apache-2.0
"""Where the elements of arrays lie in memory, and whether any two share it."""

from __future__ import annotations

from typing import Any

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
