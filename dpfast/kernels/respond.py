# SPDX-License-Identifier: Apache-2.0
"""Randomized response on many answers, in doubles wherever they decide.

V = U slope - offset (dpfast/exact/response.py), for U in [w, w + 1)/2^64, w a word. The middle of its first 53 digits is within
2^-54 of U; slope and offset <= slope are within 2^-51 of their values together, product, difference and the sum with the
room round by 2^-52 of themselves in any mode, and |V| <= slope: in all less than slope 6 2^-52. Where V +- slope 2^-49
has one floor, that is it. V < k - 1 in any case.
"""

import numpy as np
from numba import types

from dpfast.kernels.jit import jit, size

_ANSWERS, _DOUBLES = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")


@jit(size(_ANSWERS, types.Array(types.uint64, 1, "C"), _DOUBLES, _DOUBLES, size, _ANSWERS))
def respond(answers, words, slope, offset, categories, undecided):
    """Answer in place; the number of those left as they were, whose places are in `undecided` as far as it holds them.

    slope, offset: for each answer, or one for all.
    """
    n = 0
    most = np.float64(categories - 2)
    one = slope.size == 1
    for i in range(answers.size):
        answer = answers[i]
        at = np.int64(0) if one else answer
        u = (np.float64(np.int64(words[i] >> np.uint64(11))) + 0.5) * 2.0**-53
        v = u * slope[at] - offset[at]
        room = slope[at] * 2.0**-49
        low = min(max(np.floor(v - room), -1.0), most)
        high = min(max(np.floor(v + room), -1.0), most)
        if low == high:
            moved = answer + np.int64(low) + 1
            answers[i] = moved - categories if moved >= categories else moved
        else:
            if n < undecided.size:
                undecided[n] = i
            n += 1
    return n
