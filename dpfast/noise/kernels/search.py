# SPDX-License-Identifier: Apache-2.0
"""Places among sorted words: a bucket by the leading bits, and a binary search within it."""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import jit
from dpfast.noise.kernels.siphash import WORDS, word

_PLACES = types.Array(types.int64, 1, "C")


@jit(types.void(WORDS, WORDS, word, _PLACES, _PLACES))
def search(wanted, words, shift, begins, places):
    """Into places: where each wanted word is among the words, which rise from the first; or -1.

    begins: for each bucket of 2^shift how many words come before it, and at the end how many
    there are.
    """
    last = np.uint64(begins.size - 2)
    for i in range(wanted.size):
        off = wanted[i] - words[0]
        bucket = np.int64(min(off >> shift, last))
        at, many = begins[bucket], begins[bucket + 1] - begins[bucket]
        while many > 1:
            half = many >> 1
            at += half if words[at + half] - words[0] <= off else 0
            many -= half
        places[i] = at if many == 1 and words[at] == wanted[i] else -1
