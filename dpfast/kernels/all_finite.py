# SPDX-License-Identifier: Apache-2.0
"""Whether values are numbers: before anything is written."""

import numpy as np
from numba import types

from dpfast.kernels.grid import LARGEST
from dpfast.kernels.jit import jit


@jit([types.boolean(types.Array(kind, 1, "C", readonly=True)) for kind in (types.float64, types.float32)])
def all_finite(values):
    """No NaN and no infinity."""
    found = 0
    for x in values:
        found |= 0 if abs(np.float64(x)) <= LARGEST else 1
    return found == 0
