# SPDX-License-Identifier: Apache-2.0
"""Sums of the families of a tree, from the leaves up."""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import jit, size

NODES = types.Array(types.int64, 1, "C")
LEAVES = types.Array(types.int64, 1, "C", readonly=True)
_LOW, _MOST = np.int64(2**32 - 1), np.int64(2**63 - 1)


@jit([size(LEAVES, size, size), size(NODES, size, size)])
def _sum(nodes, begin, end):
    """The sum of nodes[begin:end], within int64.

    The halves of 32 bits are added apart, so that no order of the nodes changes the result.
    """
    high, low = np.int64(0), np.int64(0)
    for i in range(begin, end):
        high += nodes[i] >> 32
        low += nodes[i] & _LOW
    high += low >> 32
    if high > _LOW >> 1:
        return _MOST
    if high < -(_LOW >> 1) - 1:
        return -_MOST - 1
    return high << 32 | (low & _LOW)


@jit(types.void(LEAVES, NODES, NODES))
def node_sums(leaves, first, inner):
    """Each inner node k becomes the sum of the nodes first[k] up to first[k + 1], within int64.

    Nodes are numbered from the leaves up, inner nodes after the leaves.
    """
    n = leaves.size
    for k in range(inner.size):
        begin, end = first[k], first[k + 1]
        inner[k] = _sum(leaves, begin, end) if begin < n else _sum(inner, begin - n, end - n)
