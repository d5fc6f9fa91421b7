# SPDX-License-Identifier: Apache-2.0
"""The fused pass of the real laws, for noise below 2^53 steps of the grid."""

import numpy as np
from numba import carray, types

from dpfast.kernels.grid import LARGEST, between, beyond, in_single, in_steps, not_finite, on_grid, public, to_odd, two_sum
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
    granularity, inverse, inverse_too, missing, least, greatest, lower, upper, single, refuse,
):  # fmt: skip
    """float64 or float32 values: how many are done and how many of those undecided; stops after a block with any.

    scratch, five parts of `block` words: where on the grid the noise begins and then sums, noise, undecided positions,
    their values, the grid points nearest to the values. least, greatest: of the values, before the noise; lower, upper: of the result. single: round it to
    float32, once. refuse: stop at a block with a value that is not finite; -1 is then how many are done.
    """
    out_at, scratch_at = np.uint64(out.ctypes.data), np.uint64(scratch.ctypes.data)
    n = min(values.size, most)
    noise_at = scratch_at + np.uint64(8 * block)
    offset = carray(float64_at(scratch_at), (block,))
    noise = carray(float64_at(noise_at), (block,))
    at = carray(int64_at(scratch_at + np.uint64(16 * block)), (block,))
    kept = carray(float64_at(scratch_at + np.uint64(24 * block)), (block,))
    nearest = carray(float64_at(scratch_at + np.uint64(32 * block)), (block,))
    limit = granularity * 9007199254740992.0
    done = 0
    undecided = 0
    mode = enter()
    while done < n and undecided == 0:
        m = min(block, n - done)
        x = values[done : done + m]
        odd = 0
        if refuse and greatest == LARGEST:  # as below, where that leaves finite values as they are
            for i in range(m):
                given = np.float64(x[i])
                odd |= not_finite(given)
                y = in_steps(given, inverse, inverse_too)
                offset[i] = beyond(y)
                nearest[i] = on_grid(given, y, granularity)
        else:
            for i in range(m):
                odd |= not_finite(x[i])
                given = public(x[i], missing, least, greatest)
                y = in_steps(given, inverse, inverse_too)
                offset[i] = beyond(y)
                nearest[i] = on_grid(given, y, granularity)
        if odd & refuse:
            done = -1
            break
        undecided = fill_real(
            isa, plan, careful, key, start + np.uint64(done), m, scratch_at, noise_at, np.uint64(0),
            scratch_at + np.uint64(16 * block),
        )  # fmt: skip
        for i in range(undecided):
            kept[i] = x[at[i]]
        if single:
            large = 0  # sums of 2^53 steps and more, which a double may have to round
            for i in range(m):
                total = nearest[i] + noise[i] * granularity
                large |= 0 if abs(total) < limit else 1
                offset[i] = in_single(between(total, lower, upper)) + 0.0
            for i in range(m if large else 0):
                total, rest = two_sum(nearest[i], noise[i] * granularity)
                offset[i] = in_single(between(to_odd(total, rest), lower, upper)) + 0.0
        else:
            for i in range(m):
                offset[i] = between(nearest[i] + noise[i] * granularity, lower, upper) + 0.0
        for i in range(undecided):
            offset[at[i]] = 0.0
            at[i] += done
        if out.itemsize == 8:
            store(isa, out_at + np.uint64(8 * done), scratch_at, m, stream)
        else:
            y = out[done : done + m]
            for i in range(m):
                y[i] = offset[i]  # exact: it is single
        done += m
    leave(mode)
    fence()
    return done, undecided
