# SPDX-License-Identifier: Apache-2.0
"""Exact sums by bin, in 128 bits."""

import numpy as np
from numba import types

from dpfast.noise.kernels.chosen_rows import VALUES
from dpfast.noise.kernels.jit import flag, jit, size
from dpfast.noise.kernels.siphash import WORDS, word

_ONE = np.uint64(1)
_SUM = types.Tuple((size, word))


@jit(_SUM(size, word, size), inline=True)
def _plus(top, low, value):
    """The sum top 2^64 + low, and a value."""
    total = low + np.uint64(value)
    return top + (value >> 63) + (np.int64(1) if total < low else np.int64(0)), total


@jit(types.void(WORDS, VALUES, size, size, size, flag, VALUES, WORDS))
def totals(rows, values, bits, lower, upper, each, tops, lows):
    """Add to each bin's sum, tops 2^64 + lows, what each unit has there.

    rows: each unit << bits | bin; equal ones follow each other. values: of each row, or none, as if
    all were 1. Each value is clamped to [lower, upper]; or, without `each`, the sum of equal rows.
    """
    mask, at = (_ONE << np.uint64(bits)) - _ONE, 0
    while at < rows.size:
        first, top, low = at, np.int64(0), np.uint64(0)
        while at < rows.size and rows[at] == rows[first] and (at == first or each == 0):
            top, low = _plus(top, low, values[at] if values.size > 0 else np.int64(1))
            at += 1
        value = np.int64(low)
        if top != value >> 63:  # beyond 64 bits
            value = lower if top < 0 else upper
        bin_ = np.int64(rows[first] & mask)
        tops[bin_], lows[bin_] = _plus(tops[bin_], lows[bin_], min(max(value, lower), upper))
