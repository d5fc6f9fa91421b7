# SPDX-License-Identifier: Apache-2.0
"""Whether values are numbers: before anything is written."""

import numpy as np
from numba import types

from dpfast.kernels.grid import bits_of
from dpfast.kernels.jit import jit

MAGNITUDE, INFINITE = np.int64(0x7FFFFFFFFFFFFFFF), np.int64(0x7FF0000000000000)


@jit(types.boolean(types.Array(types.float64, 1, "C", readonly=True)))
def all_finite(values):
    """No NaN and no infinity; integer arithmetic throughout, so it runs at the speed of memory."""
    most = np.int64(0)
    for x in values:
        most = max(most, bits_of(x) & MAGNITUDE)
    return most < INFINITE
