# SPDX-License-Identifier: Apache-2.0
"""The fused pass of the real laws, for noise below 2^53 steps of the grid."""

import numpy as np
from numba import carray, types

from dpfast.kernels.grid import (
    LARGEST,
    beyond,
    in_steps,
    join,
    join_single,
    not_finite,
    on_grid,
    public,
    split,
    split_plain,
)
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
    values, out, scratch, isa, plan, constant_work, key, start, non_temporal, block, most,
    granularity, inverse, inverse_too, missing, least, greatest, lower, upper, single, refuse,
):  # fmt: skip
    """float64 or float32 values: how many done, how many undecided; stops after a block with any.

    scratch, five parts of `block` words: where on the grid the noise begins and then sums, noise,
    undecided positions, their values, the grid points nearest to the values. least, greatest:
    bounds of the values, before the noise; lower, upper: of the result. single: round it to
    float32, once. refuse: stop at a block with a value that is not finite, with -1 done; -2 if a
    value that is kept is no longer the one that was read first.
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
        if refuse and least == -LARGEST and greatest == LARGEST:
            odd = split_plain(x, offset, nearest, granularity, inverse, inverse_too)
        else:
            odd = split(x, offset, nearest, granularity, inverse, inverse_too, missing, least, greatest)
        if odd & refuse:
            done = -1
            break
        undecided = fill_real(
            isa, plan, constant_work, key, start + np.uint64(done), m, scratch_at, noise_at, np.uint64(0),
            scratch_at + np.uint64(16 * block),
        )  # fmt: skip
        changed = False
        for i in range(undecided):
            again = np.float64(x[at[i]])
            given = public(again, missing, least, greatest)
            y = in_steps(given, inverse, inverse_too)
            changed |= beyond(y) != offset[at[i]] or on_grid(given, y, granularity) != nearest[at[i]]
            changed |= refuse != 0 and not_finite(again) != 0
            kept[i] = again
        if changed:
            done = -2
            break
        if single:
            join_single(m, nearest, noise, offset, granularity, lower, upper)
        else:
            join(m, nearest, noise, offset, granularity, lower, upper)
        for i in range(undecided):
            offset[at[i]] = 0.0
            at[i] += done
        if out.itemsize == 8:
            store(isa, out_at + np.uint64(8 * done), scratch_at, m, non_temporal)
        else:
            y = out[done : done + m]
            for i in range(m):
                y[i] = offset[i]  # exact: it is single
        done += m
    leave(mode)
    fence()
    return done, undecided
