# SPDX-License-Identifier: Apache-2.0
"""The fused pass of the real laws, for noise below 2^53 steps of the grid."""

import numpy as np
from numba import carray, types

from dpfast.kernels.grid import between, beyond, in_single, in_steps, on_grid, public, to_odd, two_sum
from dpfast.kernels.jit import (
    REAL_ARGUMENTS,
    SINGLE_ARGUMENTS,
    enter,
    fence,
    fill_real,
    float64_at,
    int64_at,
    jit,
    leave,
    size,
    store,
)


@jit([types.UniTuple(size, 2)(*arguments) for arguments in (REAL_ARGUMENTS, SINGLE_ARGUMENTS)])
def add_grid(
    values, out, scratch, isa, plan, careful, key, start, stream, block, most,
    granularity, inverse, inverse_too, missing, least, greatest, lower, upper, single,
):  # fmt: skip
    """float64 or float32 values: how many are done and how many of those undecided; stops after a block with any.

    scratch, five parts of `block` words: where on the grid the noise begins, noise and then sums, undecided positions,
    their values, the grid points nearest to the values. least, greatest: of the values, before the noise; lower, upper: of the result. single: round it to
    float32, once.
    """
    out_at, scratch_at = np.uint64(out.ctypes.data), np.uint64(scratch.ctypes.data)
    n = min(values.size, most)
    noise_at = scratch_at + np.uint64(8 * block)
    offset = carray(float64_at(scratch_at), (block,))
    noise = carray(float64_at(noise_at), (block,))
    at = carray(int64_at(scratch_at + np.uint64(16 * block)), (block,))
    kept = carray(float64_at(scratch_at + np.uint64(24 * block)), (block,))
    nearest = carray(float64_at(scratch_at + np.uint64(32 * block)), (block,))
    done = 0
    undecided = 0
    mode = enter()
    while done < n and undecided == 0:
        m = min(block, n - done)
        x = values[done : done + m]
        for i in range(m):
            given = public(x[i], missing, least, greatest)
            y = in_steps(given, inverse, inverse_too)
            offset[i] = beyond(y)
            nearest[i] = on_grid(given, y, granularity)
        undecided = fill_real(
            isa, plan, careful, key, start + np.uint64(done), m, scratch_at, noise_at, np.uint64(0),
            scratch_at + np.uint64(16 * block),
        )  # fmt: skip
        for i in range(undecided):
            kept[i] = x[at[i]]
        if single:
            for i in range(m):
                total, rest = two_sum(nearest[i], noise[i] * granularity)
                noise[i] = in_single(between(to_odd(total, rest), lower, upper)) + 0.0
        else:
            for i in range(m):
                noise[i] = between(nearest[i] + noise[i] * granularity, lower, upper) + 0.0
        for i in range(undecided):
            noise[at[i]] = 0.0
            at[i] += done
        if out.itemsize == 8:
            store(isa, out_at + np.uint64(8 * done), noise_at, m, stream)
        else:
            y = out[done : done + m]
            for i in range(m):
                y[i] = noise[i]  # exact: it is single
        done += m
    leave(mode)
    fence()
    return done, undecided
