# SPDX-License-Identifier: Apache-2.0
"""The fused pass where the table serves: noise of 16 bits, so that a block of it stays in L1."""

import numpy as np
from numba import carray, types

from dpfast.kernels.jit import BLOCK_ARGUMENTS, address, external, fence, flag, int16_at, int64_at, jit, size, store
from dpfast.kernels.saturate import clamped_sum

PIECE = 512

fill = external("dpf_fill_short", size(flag, address, address, address, size, address, address, address))


@jit(types.UniTuple(size, 2)(*BLOCK_ARGUMENTS, size, size))
def add_short(counts, out, scratch, isa, plan, constant_work, key, start, non_temporal, block, most, lower, upper):
    """int64 counts and bounds: how many are done, how many undecided; stops after a block with any.

    scratch, four parts of `block` words: noise, undecided positions, their counts, sums.
    """
    counts_at, out_at, scratch_at = (
        np.uint64(counts.ctypes.data),
        np.uint64(out.ctypes.data),
        np.uint64(scratch.ctypes.data),
    )
    n = min(counts.size, most)
    noise_at, sums_at = scratch_at, scratch_at + np.uint64(24 * block)
    at = carray(int64_at(scratch_at + np.uint64(8 * block)), (block,))
    kept = carray(int64_at(scratch_at + np.uint64(16 * block)), (block,))
    sums = carray(int64_at(sums_at), (PIECE,))
    done = 0
    undecided = 0
    while done < n and undecided == 0:
        m = min(block, n - done)
        here = np.uint64(8 * done)
        undecided = fill(
            isa, plan, key, start + np.uint64(done), m, noise_at, scratch_at + np.uint64(8 * block), counts_at + here
        )
        if undecided:
            x = carray(int64_at(counts_at + here), (block,))
            for i in range(undecided):
                kept[i] = x[at[i]]
        for piece in range(0, m, PIECE):
            length = min(PIECE, m - piece)
            offset = np.uint64(8 * piece)
            x = carray(int64_at(counts_at + here + offset), (PIECE,))
            noise = carray(int16_at(noise_at + np.uint64(2 * piece)), (PIECE,))
            for i in range(length):
                sums[i] = clamped_sum(x[i], np.int64(noise[i]), lower, upper)
            for i in range(undecided):
                if piece <= at[i] < piece + length:
                    sums[at[i] - piece] = 0
            store(isa, out_at + here + offset, sums_at, length, non_temporal)
        for i in range(undecided):
            at[i] += done
        done += m
    fence()
    return done, undecided
