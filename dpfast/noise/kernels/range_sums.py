# SPDX-License-Identifier: Apache-2.0
"""Sums over ranges of leaves, and what their variances are made of."""

from numba import types

from dpfast.noise.kernels.jit import jit, size
from dpfast.noise.kernels.least_squares import REALS
from dpfast.noise.kernels.node_sums import NODES

_FOUND = types.UniTuple(types.float64, 3)


@jit(size(NODES, size))
def _parent(first, node):
    """The inner node, by its number among them, that has this child."""
    low, high = 0, first.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if first[middle] <= node:
            low = middle
        else:
            high = middle
    return low


@jit(_FOUND(REALS, size, types.float64, REALS, NODES, size, size, types.float64, size, types.float64))
def _climb(nodes, n, leaf, variances, first, parent, left, of_left, right, of_right):
    """A sum over children: how it depends on their parent, its variance beside that, and a part.

    The sum counts of_left of the child `left`, of_right of `right`, and whole children between;
    these are the part.
    """
    begin, end = first[parent], first[parent + 1]
    weight, all_, between = 0.0, 0.0, 0.0
    for c in range(begin, end):
        variance = leaf if c < n else variances[c - n]
        all_ += variance
        if c == left:
            weight += of_left * variance
        elif c == right:
            weight += of_right * variance
        elif left < c < right:
            weight += variance
            between += nodes[c]
    share, rest = weight / all_, 0.0
    for c in range(begin, end):
        part = of_left if c == left else of_right if c == right else 1.0 if left < c < right else 0.0
        rest += (part - share) ** 2 * (leaf if c < n else variances[c - n])
    return share, rest, between


@jit(types.void(REALS, size, types.float64, REALS, NODES, NODES, NODES, REALS, REALS, REALS))
def range_sums(nodes, n, leaf, variances, first, begins, ends, sums, shares, rests):
    """For each range of leaves begin up to end: its estimate, its share of the root, and the rest.

    Its variance is share^2 (variance of the root) + rest, and its covariance with the root is
    share (variance of the root). Given its parent, a family is independent of all other nodes.
    nodes, variances: as least_squares leaves them. leaf: the variance of a leaf's noise.
    """
    root = n + variances.size - 1
    for i in range(begins.size):
        left, right = begins[i], ends[i] - 1
        sums[i], shares[i], rests[i] = 0.0, 0.0, 0.0
        if left > right:
            continue
        of_left, of_right = 1.0, 1.0
        sums[i] = nodes[left] + (nodes[right] if right > left else 0.0)
        while left < root:
            above_left, above_right = _parent(first, left), _parent(first, right)
            if above_left == above_right:
                share, rest, between = _climb(
                    nodes, n, leaf, variances, first, above_left, left, of_left, right, of_right
                )
                of_left = of_right = share
            else:
                of_left, rest, between = _climb(nodes, n, leaf, variances, first, above_left, left, of_left, root, 0.0)
                of_right, more, others = _climb(nodes, n, leaf, variances, first, above_right, -1, 0.0, right, of_right)
                rest += more
                between += others
            sums[i] += between
            rests[i] += rest
            left, right = n + above_left, n + above_right
        shares[i] = of_left
