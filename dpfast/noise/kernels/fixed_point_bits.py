# SPDX-License-Identifier: Apache-2.0
"""The sum of any floats, each rounded to any grid by its bits: flushed subnormals never enter."""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import jit, size

ONE, LOW_LIMB = np.int64(1), np.int64(0xFFFFFFFF)
FAR = 62  # 2^62 steps are at least as far out as any bound
RIGHT = 54  # m < 2^53 shifted right by 54 is below one half


def _signature(kind):
    return types.UniTuple(size, 3)(types.Array(kind, 1, "C", readonly=True), size, size, size, size, size, size)


@jit([_signature(types.int64), _signature(types.int32)])
def fixed_point_bits(values, fraction, infinity, bias, lower, upper, missing):
    """Upper and lower limb of the sum (upper * 2^32 + lower), and how many values are NaN.

    values: bits of at most 2^30 doubles or single floats; the number of bits `fraction` and the
    bits of `infinity` tell which. A value is m * 2^q steps of the grid, q = exponent - bias.
    Bounds and `missing`, which stands for a NaN: in steps, within +-2^62.
    """
    hidden = ONE << fraction
    top = low = nans = np.int64(0)
    for at in range(values.size):
        bits = np.int64(values[at])
        magnitude = bits & (infinity | (hidden - ONE))
        exponent = magnitude >> fraction
        m = (magnitude & (hidden - ONE)) | (min(exponent, ONE) << fraction)
        q = max(exponent, ONE) - bias
        right, left = min(max(-q, 0), RIGHT), min(max(q, 0), FAR)
        # Half to even: of 2m, half a step is 2^right, less one where the step below is even.
        steps = ((m << 1) + (ONE << right) - ONE + ((m >> right) & ONE)) >> (right + 1) << left
        steps = ONE << FAR if (m >> (FAR - left)) > 0 or magnitude == infinity else steps
        sign = bits >> 63
        steps = (steps ^ sign) - sign
        absent = magnitude > infinity
        steps = min(max(missing if absent else steps, lower), upper)
        nans += np.int64(absent)
        top += steps >> 32
        low += steps & LOW_LIMB
    return top, low, nans
