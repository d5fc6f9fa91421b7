# SPDX-License-Identifier: Apache-2.0
"""Randomized response on many answers, in doubles wherever they decide.

V = U slope - offset (dpfast/privacy/exact/response.py), for U in [w, w + 1)/2^64, w a word. The
middle of w's first 53 digits is within 2^-54 of U. slope and offset <= slope are within 2^-51 of
their values together. Product, difference and the sum with the margin round by 2^-52 of themselves
in any mode, and |V| <= slope: in all less than slope 6 2^-52. If V +- slope 2^-49 has one floor, V
has it. V < k - 1 in any case.
"""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import jit, size

_ANSWERS, _DOUBLES = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")


@jit(size(_ANSWERS, types.Array(types.uint64, 1, "C"), _DOUBLES, _DOUBLES, size, _ANSWERS))
def respond(answers, words, slope, offset, categories, undecided):
    """Answer in place; returns how many are undecided and stay as they were.

    undecided: takes as many of their places as fit. slope, offset: for each answer, or for all.
    """
    n = 0
    most = np.float64(categories - 2)
    one = slope.size == 1
    for i in range(answers.size):
        answer = answers[i]
        at = np.int64(0) if one else answer
        u = (np.float64(np.int64(words[i] >> np.uint64(11))) + 0.5) * 2.0**-53
        v = u * slope[at] - offset[at]
        margin = slope[at] * 2.0**-49
        low = min(max(np.floor(v - margin), -1.0), most)
        high = min(max(np.floor(v + margin), -1.0), most)
        if low == high:
            moved = answer + np.int64(low) + 1
            answers[i] = moved - categories if moved >= categories else moved
        else:
            if n < undecided.size:
                undecided[n] = i
            n += 1
    return n
