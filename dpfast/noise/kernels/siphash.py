# SPDX-License-Identifier: Apache-2.0
"""SipHash-2-4: a pseudo-random function of short messages under 128 secret bits, 64 bits of output.

Aumasson, Bernstein 2012, "SipHash: a fast short-input PRF", section 2.
"""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import jit, size

word = types.uint64
STATE = types.UniTuple(word, 4)
WORDS, BYTES = types.Array(types.uint64, 1, "C"), types.Array(types.uint8, 1, "C", readonly=True)
_I0, _I1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_I2, _I3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_13, _16, _17, _21, _32, _64 = (np.uint64(n) for n in (13, 16, 17, 21, 32, 64))


@jit(STATE(word, word, word, word), inline=True)
def _round(a, b, c, d):
    a += b
    c += d
    b = (b << _13 | b >> (_64 - _13)) ^ a
    d = (d << _16 | d >> (_64 - _16)) ^ c
    a = a << _32 | a >> _32
    c += b
    a += d
    b = (b << _17 | b >> (_64 - _17)) ^ c
    d = (d << _21 | d >> (_64 - _21)) ^ a
    c = c << _32 | c >> _32
    return a, b, c, d


@jit(STATE(word, word, word, word, word), inline=True)
def _absorb(a, b, c, d, message):
    a, b, c, d = _round(a, b, c, d ^ message)
    a, b, c, d = _round(a, b, c, d)
    return a ^ message, b, c, d


@jit(word(word, word, word, word), inline=True)
def _finish(a, b, c, d):
    a, b, c, d = _round(a, b, c ^ np.uint64(0xFF), d)
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@jit(word(word, word, word, word), inline=True)
def of_pair(key0, key1, first, second):
    """The hash of sixteen bytes: two words, each little-endian."""
    a, b, c, d = key0 ^ _I0, key1 ^ _I1, key0 ^ _I2, key1 ^ _I3
    a, b, c, d = _absorb(a, b, c, d, first)
    a, b, c, d = _absorb(a, b, c, d, second)
    a, b, c, d = _absorb(a, b, c, d, np.uint64(16 << 56))
    return _finish(a, b, c, d)


@jit(word(word, word, STATE), inline=True)
def of_four(key0, key1, words):
    """The hash of 32 bytes: four words, each little-endian."""
    a, b, c, d = key0 ^ _I0, key1 ^ _I1, key0 ^ _I2, key1 ^ _I3
    a, b, c, d = _absorb(a, b, c, d, words[0])
    a, b, c, d = _absorb(a, b, c, d, words[1])
    a, b, c, d = _absorb(a, b, c, d, words[2])
    a, b, c, d = _absorb(a, b, c, d, words[3])
    a, b, c, d = _absorb(a, b, c, d, np.uint64(32 << 56))
    return _finish(a, b, c, d)


@jit(types.void(word, word, BYTES, types.Array(size, 1, "C", readonly=True), WORDS))
def siphash(key0, key1, data, ends, out):
    """Into out[i]: of data[ends[i - 1] : ends[i]], the first from 0."""
    begin = np.int64(0)
    for i in range(ends.size):
        a, b, c, d = key0 ^ _I0, key1 ^ _I1, key0 ^ _I2, key1 ^ _I3
        message, filled = np.uint64(0), np.uint64(0)
        for at in range(begin, ends[i]):
            message |= np.uint64(data[at]) << filled
            filled += np.uint64(8)
            if filled == _64:
                a, b, c, d = _absorb(a, b, c, d, message)
                message, filled = np.uint64(0), np.uint64(0)
        length = np.uint64(ends[i] - begin) << np.uint64(56)
        a, b, c, d = _absorb(a, b, c, d, message | length)
        out[i] = _finish(a, b, c, d)
        begin = ends[i]
