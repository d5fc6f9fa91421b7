# SPDX-License-Identifier: Apache-2.0
"""The k-th largest of many values, by a heap of the k largest so far, whose root is the least."""

from numba import types

from dpfast.noise.kernels.jit import jit

_DOUBLES, _INTEGERS = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")


@jit([types.void(_DOUBLES, types.float64), types.void(_INTEGERS, types.int64)])
def enter(heap, x):
    """Put x in the place of the root, and then where it belongs."""
    at, below = 0, 1
    while below < heap.size:
        if below + 1 < heap.size and heap[below + 1] < heap[below]:
            below += 1
        if not heap[below] < x:
            break
        heap[at] = heap[below]
        at, below = below, 2 * below + 1
    heap[at] = x


@jit(types.int64(_INTEGERS, _INTEGERS))
def last_leader(values, leaders):
    """The least of the largest values. leaders: room for them, full of the least int64."""
    for i in range(values.size):
        if values[i] > leaders[0]:
            enter(leaders, values[i])
    return leaders[0]
