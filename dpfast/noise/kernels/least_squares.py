# SPDX-License-Identifier: Apache-2.0
"""The least-squares estimate of all nodes of a tree, in two passes."""

from numba import types

from dpfast.noise.kernels.jit import jit, size
from dpfast.noise.kernels.node_sums import NODES

REALS = types.Array(types.float64, 1, "C")


@jit(types.void(REALS, size, NODES, NODES, REALS, REALS))
def least_squares(nodes, n, first, ends, precisions, variances):
    """Noisy nodes become their estimates; variances become those of inner nodes from below alone.

    n: leaves. first: as of node_sums. ends: one past the last inner node of each level above the
    leaves. precisions: 1 / variance of the noise of each level; 0 of a level without a value.
    """
    leaf, k = 1 / precisions[0], 0
    for level in range(ends.size):
        precision = precisions[level + 1]
        while k < ends[level]:
            total, variance = 0.0, leaf * (first[k + 1] - first[k]) if level == 0 else 0.0
            for c in range(first[k], first[k + 1]):
                total += nodes[c]
                if level > 0:
                    variance += variances[c - n]
            variances[k] = 1 / (precision + 1 / variance)
            nodes[n + k] = variances[k] * (precision * nodes[n + k] + total / variance)
            k += 1
    for k in range(variances.size - 1, -1, -1):
        begin, end = first[k], first[k + 1]
        total, variance = 0.0, leaf * (end - begin) if begin < n else 0.0
        for c in range(begin, end):
            total += nodes[c]
            if begin >= n:
                variance += variances[c - n]
        gap = (nodes[n + k] - total) / variance
        for c in range(begin, end):
            nodes[c] += gap * (leaf if begin < n else variances[c - n])
