# SPDX-License-Identifier: Apache-2.0
"""A small release in one call, because calls are its cost: key drawn, noise added, key wiped."""

import numpy as np
from numba import types

from dpfast import _native
from dpfast.kernels import INTERRUPTED
from dpfast.kernels.add_narrow import add_narrow
from dpfast.kernels.jit import BLOCK_ARGUMENTS, address, external, flag, jit, size

entropy = external("dpf_entropy", flag(address, size))
wipe = external("dpf_wipe", types.void(address, size))
KEY_WORDS = 4
_INTERRUPTED = _native.INTERRUPTED


@jit(size(*BLOCK_ARGUMENTS[:3], flag, address, size, size))
def add_small(counts, out, scratch, isa, plan, lower, upper):
    """Constant-work noise under a fresh key: how many draws are undecided; or INTERRUPTED, or -1.

    -1: no key. Both leave `out` untouched. scratch: the key, and three parts as in add_narrow; all
    are wiped unless the exact tier still needs them.
    """
    n = counts.size
    key = np.uint64(scratch.ctypes.data)
    status = entropy(key, 8 * KEY_WORDS)
    if status != 0:
        return INTERRUPTED if status == _INTERRUPTED else -1
    rest = scratch[KEY_WORDS:]
    constant_work, start, non_temporal = np.int32(1), np.uint64(0), np.int32(0)
    undecided = add_narrow(counts, out, rest, isa, plan, constant_work, key, start, non_temporal, n, n, lower, upper)[1]
    if undecided == 0:
        wipe(key, 8 * (KEY_WORDS + 3 * n))
    return undecided
