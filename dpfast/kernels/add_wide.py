# SPDX-License-Identifier: Apache-2.0
"""The fused pass in two limbs: noise of any size, and 64-bit counts of either kind."""

import numpy as np
from numba import carray, types

from dpfast.kernels.add_narrow import fill
from dpfast.kernels.jit import BLOCK_ARGUMENTS, address, fence, flag, int64_at, jit, size, store
from dpfast.kernels.saturate import clamped_sum_wide


@jit(types.UniTuple(size, 2)(*BLOCK_ARGUMENTS, size, address, size, address, flag))
def add_wide(
    counts, out, scratch, isa, plan, constant_work, key, start, non_temporal, block, most,
    lower_hi, lower_lo, upper_hi, upper_lo, unsigned,
):  # fmt: skip
    """int64 or uint64 counts, bounds from -2^63 to 2^64 - 1; otherwise as add_narrow.

    scratch, four parts of `block` words: lower limbs and then sums, undecided positions, their
    counts, upper limbs.
    """
    counts_at, out_at, scratch_at = (
        np.uint64(counts.ctypes.data),
        np.uint64(out.ctypes.data),
        np.uint64(scratch.ctypes.data),
    )
    n = min(counts.size, most)
    low = carray(int64_at(scratch_at), (block,))
    at = carray(int64_at(scratch_at + np.uint64(8 * block)), (block,))
    kept = carray(int64_at(scratch_at + np.uint64(16 * block)), (block,))
    high = carray(int64_at(scratch_at + np.uint64(24 * block)), (block,))
    extends = np.int64(0) if unsigned else np.int64(-1)
    done = 0
    undecided = 0
    while done < n and undecided == 0:
        m = min(block, n - done)
        here = np.uint64(8 * done)
        undecided = fill(
            isa, plan, constant_work, key, start + np.uint64(done), m, scratch_at, scratch_at + np.uint64(24 * block),
            scratch_at + np.uint64(8 * block),
        )  # fmt: skip
        x = carray(int64_at(counts_at + here), (block,))
        for i in range(undecided):
            kept[i] = x[at[i]]
        for i in range(m):
            low[i] = clamped_sum_wide(x[i], extends, low[i], high[i], lower_hi, lower_lo, upper_hi, upper_lo)
        for i in range(undecided):
            low[at[i]] = 0
            at[i] += done
        store(isa, out_at + here, scratch_at, m, non_temporal)
        done += m
    fence()
    return done, undecided
