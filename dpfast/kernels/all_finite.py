# SPDX-License-Identifier: Apache-2.0
"""Whether values are numbers, asked beforehand where the release would overwrite them."""

from numba import types

from dpfast.kernels.grid import not_finite
from dpfast.kernels.jit import jit


@jit([types.boolean(types.Array(kind, 1, "C", readonly=True)) for kind in (types.float64, types.float32)])
def all_finite(values):
    """No NaN and no infinity."""
    found = 0
    for x in values:
        found |= not_finite(x)
    return found == 0
