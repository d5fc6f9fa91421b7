# SPDX-License-Identifier: Apache-2.0
"""Noise within a function of your own that numba compiles, on a block of values or on one.

No ledger is charged here, nothing is sealed, and nobody checks what your code bounded: see
docs/numba.md. A release of a whole array by `release` is as fast.

>>> import numba
>>> noise = dpfast.numba.Noise(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1))
>>> @numba.njit
... def above(noise, counts, line):
...     noisy = np.empty_like(counts)
...     dpfast.numba.add(noise, counts, noisy)
...     return noisy[noisy > line]
>>> above(noise, np.array([0, 5000, 9000]), 1000).size
2
"""

from dpfast.noise.kernels.added import (
    ARRAYS,
    DONE,
    NO_KEY,
    NOT_FINITE,
    OPEN,
    UNDONE,
    Noise,
    add,
    bound_and_add,
    check,
    draw,
    try_add,
    try_draw,
)

__all__ = [
    "ARRAYS",
    "DONE",
    "NOT_FINITE",
    "NO_KEY",
    "OPEN",
    "UNDONE",
    "Noise",
    "add",
    "bound_and_add",
    "check",
    "draw",
    "try_add",
    "try_draw",
]


def __dir__() -> list[str]:
    return __all__
