# SPDX-License-Identifier: Apache-2.0
"""The fused pass for noise below 2^62."""

import numpy as np
from numba import carray, types

from dpfast.kernels.jit import BLOCK_ARGUMENTS, address, external, fence, flag, int64_at, jit, size, store
from dpfast.kernels.saturate import clamped_sum

fill = external("dpf_fill", size(flag, address, flag, address, address, size, address, address, address))


@jit(types.UniTuple(size, 2)(*BLOCK_ARGUMENTS, size, size))
def add_narrow(counts, out, scratch, isa, plan, constant_work, key, start, non_temporal, block, most, lower, upper):
    """int64 counts and bounds: how many are done, how many undecided; stops after a block with any.

    scratch, three parts of `block` words: noise and then sums, undecided positions, their counts.
    """
    counts_at, out_at, scratch_at = (
        np.uint64(counts.ctypes.data),
        np.uint64(out.ctypes.data),
        np.uint64(scratch.ctypes.data),
    )
    n = min(counts.size, most)
    noise = carray(int64_at(scratch_at), (block,))
    at = carray(int64_at(scratch_at + np.uint64(8 * block)), (block,))
    kept = carray(int64_at(scratch_at + np.uint64(16 * block)), (block,))
    done = 0
    undecided = 0
    while done < n and undecided == 0:
        m = min(block, n - done)
        here = np.uint64(8 * done)
        undecided = fill(
            isa, plan, constant_work, key, start + np.uint64(done), m, scratch_at, np.uint64(0),
            scratch_at + np.uint64(8 * block),
        )  # fmt: skip
        x = carray(int64_at(counts_at + here), (block,))
        for i in range(undecided):
            kept[i] = x[at[i]]
        for i in range(m):
            noise[i] = clamped_sum(x[i], noise[i], lower, upper)
        for i in range(undecided):
            noise[at[i]] = 0
            at[i] += done
        store(isa, out_at + here, scratch_at, m, non_temporal)
        done += m
    fence()
    return done, undecided
