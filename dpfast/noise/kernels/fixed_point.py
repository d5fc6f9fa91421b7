# SPDX-License-Identifier: Apache-2.0
"""The sum of floats, each rounded to a grid, in doubles that are exact wherever they decide.

Half to even, whatever the host's rounding mode: floor has its own. Let y = value / granularity, r =
floor(y) and d = y - r. d is exact for y >= 0 and y <= -1/2: a multiple of y's last place, no longer
than y. For y in (-1/2, 0) it rounds to something in [1/2, 1], and r = -1 is odd, so d = 1/2 goes
up, as it must. Multiplying by the power of two errs only where y overflows, and is clamped, or is
below 2^-1022, and goes to zero either way.
"""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import jit, size

BLOCK = 2048  # terms, each at most 2^51: their sum fits 64 bits
MAGIC = np.float64(1.5 * 2.0**52)  # r + MAGIC is exact for |r| <= 2^51, and its bits are those of MAGIC plus r
MAGIC_BITS = np.int64(0x4338000000000000)
LOW_LIMB = np.int64(0xFFFFFFFF)


def _signature(kind):
    return types.UniTuple(size, 3)(types.Array(kind, 1, "C", readonly=True), types.float64, size, size, size)


@jit([_signature(types.float64), _signature(types.float32)])
def fixed_point(values, scale, lower, upper, missing):
    """Upper and lower limb of the sum (upper * 2^32 + lower), and how many values are NaN.

    values: at most 2^30. scale: one over the granularity; no subnormal value may be half a step.
        Bounds and `missing`, which stands for a NaN, are in steps, within +-2^51.
    """
    least, most, instead = np.float64(lower), np.float64(upper), np.float64(missing)
    top = low = nans = np.int64(0)
    for start in range(0, values.size, BLOCK):
        block = values[start : start + BLOCK]
        total = np.int64(0)
        for at in range(block.size):
            y = np.float64(block[at]) * scale
            absent = y != y  # noqa: PLR0124  NaN
            nans += np.int64(absent)
            y = instead if absent else y
            y = max(y, least)
            y = min(y, most)
            r = np.floor(y)
            d = y - r
            bits = np.float64(r + MAGIC).view(np.int64)
            up = (d > 0.5) | ((d == 0.5) & ((bits & 1) == 1))
            total += bits - MAGIC_BITS + np.int64(up)
        top += total >> 32
        low += total & LOW_LIMB
    return top, low, nans
