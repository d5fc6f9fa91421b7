# SPDX-License-Identifier: Apache-2.0
"""The fused pass of the real laws for noise of any size, in two limbs."""

import numpy as np
from numba import carray, types

from dpfast.kernels.grid import between, beyond, in_single, in_steps, not_finite, on_grid, public, to_odd, two_sum
from dpfast.kernels.jit import REAL_ARGUMENTS, enter, fence, fill_real, float64_at, int64_at, jit, leave, size, store

LOW = np.int64((1 << 40) - 1)


@jit(types.UniTuple(size, 2)(*REAL_ARGUMENTS))
def add_grid_wide(
    values, out, scratch, isa, plan, constant_work, key, start, non_temporal, block, most,
    granularity, inverse, inverse_too, missing, least, greatest, lower, upper, single, refuse,
):  # fmt: skip
    """As add_grid, with upper limbs in a fifth part of scratch.

    Grid point plus both parts of the noise is rounded once [Boldo, Melquiond 2008, section 5].
    """
    values_at, out_at, scratch_at = (
        np.uint64(values.ctypes.data),
        np.uint64(out.ctypes.data),
        np.uint64(scratch.ctypes.data),
    )
    n = min(values.size, most)
    noise_at = scratch_at + np.uint64(8 * block)
    offset = carray(float64_at(scratch_at), (block,))
    low = carray(int64_at(noise_at), (block,))
    sums = carray(float64_at(noise_at), (block,))
    at = carray(int64_at(scratch_at + np.uint64(16 * block)), (block,))
    kept = carray(float64_at(scratch_at + np.uint64(24 * block)), (block,))
    high = carray(int64_at(scratch_at + np.uint64(32 * block)), (block,))
    done = 0
    undecided = 0
    mode = enter()
    while done < n and undecided == 0:
        m = min(block, n - done)
        here = np.uint64(8 * done)
        x = carray(float64_at(values_at + here), (block,))
        odd = 0
        for i in range(m):
            kept[i] = x[i]  # read once: another thread may write it meanwhile
            odd |= not_finite(kept[i])
            offset[i] = beyond(in_steps(public(kept[i], missing, least, greatest), inverse, inverse_too))
        if odd & refuse:
            done = -1
            break
        undecided = fill_real(
            isa, plan, constant_work, key, start + np.uint64(done), m, scratch_at, noise_at,
            scratch_at + np.uint64(32 * block), scratch_at + np.uint64(16 * block),
        )  # fmt: skip
        for i in range(m):
            given = public(kept[i], missing, least, greatest)
            nearest = on_grid(given, in_steps(given, inverse, inverse_too), granularity)
            # the noise is upper 2^40 + lower, both exact in doubles
            upper_part = np.float64((high[i] << 24) | ((low[i] >> 40) & np.int64(0xFFFFFF))) * 1099511627776.0
            part, part_rest = two_sum(upper_part * granularity, np.float64(low[i] & LOW) * granularity)
            total, rest = two_sum(nearest, part)
            rest, lost = two_sum(rest, part_rest)
            rest = to_odd(rest, lost)
            result = total + rest
            if single:
                result, rest = two_sum(total, rest)
                result = in_single(between(to_odd(result, rest), lower, upper))
            sums[i] = between(result, lower, upper) + 0.0
        for i in range(undecided):
            sums[at[i]] = 0.0
            offset[i] = kept[at[i]]
            at[i] += done
        for i in range(undecided):
            kept[i] = offset[i]
        store(isa, out_at + here, noise_at, m, non_temporal)
        done += m
    leave(mode)
    fence()
    return done, undecided
