# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that are not negative and add up, from the root of a tree down."""

import math

from numba import types

from dpfast.noise.kernels.jit import jit, size
from dpfast.noise.kernels.least_squares import REALS
from dpfast.noise.kernels.node_sums import NODES


@jit(types.float64(REALS, size, size, types.float64))
def _cut(nodes, begin, end, total):
    """The t with the sum of max(node - t, 0) = total > 0: what is below t leaves, until none is."""
    kept, t = end - begin + 1, -math.inf
    while True:
        many, left = 0, 0.0
        for c in range(begin, end):
            if nodes[c] > t:
                many += 1
                left += nodes[c]
        if many >= kept or many == 0:  # more can be only by rounding
            return t
        kept, t = many, (left - total) / many


@jit(types.void(REALS, NODES, size, size, types.float64, size))
def _round_up(nodes, whole, begin, end, t, many):
    """Add 1 to the `many` children with the largest remainders; of equal ones to the first."""
    low, high, taken = 0.0, 1.0, 0  # remainders above high: as many as `taken`, and at most `many`
    for _ in range(64):
        middle, above = (low + high) / 2, 0
        for c in range(begin, end):
            above += 1 if nodes[c] - t - whole[c] > middle else 0
        if above > many:
            low = middle
        else:
            high, taken = middle, above
        if above == many:
            break
    equal = many - taken
    for c in range(begin, end):
        remainder = nodes[c] - t - whole[c]
        if remainder > high:
            whole[c] += 1
        elif remainder > low and equal > 0:
            whole[c] += 1
            equal -= 1
    if equal != 0:  # doubles have rounded
        largest = begin
        for c in range(begin, end):
            largest = c if whole[c] > whole[largest] else largest
        whole[largest] += equal


@jit(types.void(REALS, NODES, size, NODES))
def top_down(nodes, whole, n, first):
    """Each family becomes the whole numbers >= 0 nearest to it that add up to its parent.

    That is its projection on the simplex of this sum, rounded down, and 1 more for the largest
    remainders. whole: of the root on entry. nodes: the estimates.
    """
    for k in range(first.size - 2, -1, -1):
        begin, end, total = first[k], first[k + 1], whole[n + k]
        for c in range(begin, end):
            whole[c] = 0
        if total == 0:
            continue
        t, left = _cut(nodes, begin, end, float(total)), total
        for c in range(begin, end):
            whole[c] = math.floor(max(nodes[c] - t, 0.0))
            left -= whole[c]
        _round_up(nodes, whole, begin, end, t, left)
