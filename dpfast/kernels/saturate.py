# SPDX-License-Identifier: Apache-2.0
"""The exact sum, clamped: what every kernel does to one count."""

import numpy as np
from numba import njit

LAST = np.int64(0x7FFFFFFFFFFFFFFF)


@njit(inline="always")
def clamped_sum(x, noise, lower, upper):
    """X + noise clamped to [lower, upper], itself within int64, as if the sum had all its bits."""
    total = x + noise
    # The sum left int64 iff it lacks the sign of both terms; then the end on x's side is nearest.
    if ((total ^ x) & (total ^ noise)) < 0:
        total = (x >> 63) ^ LAST
    return min(max(total, lower), upper)


@njit(inline="always")
def clamped_sum_wide(x, extends, low, high, lower_hi, lower_lo, upper_hi, upper_lo):
    """The low limb of clamped_sum in two limbs; extends: -1 if x is signed, 0 if it is not."""
    total = np.uint64(x) + np.uint64(low)
    carry = np.int64(total < np.uint64(x))
    top = ((x >> 63) & extends) + high + carry
    if top < lower_hi or (top == lower_hi and total < lower_lo):
        return np.int64(lower_lo)
    if top > upper_hi or (top == upper_hi and total > upper_lo):
        return np.int64(upper_lo)
    return np.int64(total)
