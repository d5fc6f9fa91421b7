# SPDX-License-Identifier: Apache-2.0
"""Who may be first in a race of many: nominated in doubles, with room for every error; the exact tier decides.

Runner i is at y = a + h(E), a = -gap rate, h(E) = E or -ln E, where E lies in [G, G + 1)/2^20. Taken at G + 1/2, E is off by
2^-21 and -ln E by ln((G + 1)/(G + 1/2)) < 1/(2G) at most, and at G = 0 it has no upper end.
Everything else is rounding. A gap, of doubles half the distance to the best score and of integers all of it, is within
2^-52 of its value, or 2^-1074, and the rate that goes with it, below 2^902, within 2^-52: a is within 2^-50 |a| + 2^-170. Where it
overflows the upper end is NaN, which no comparison lets win, and rightly: the best score has no handicap. The logarithm
is of m in [2^-1/2, 2^1/2) by z = (m - 1)/(m + 1), |z| < 0.172: the odd powers up to z^15 leave 2 z^17/(17 (1 - z^2)) < 2^-46,
and its operations round by less than 2^-47 (1 + |ln|). So 2^-30 (1 + |a| + |h|) is room for all of it, in any mode.
"""

import numpy as np
from numba import types

from dpfast.kernels.jit import bits_of, double_of, flag, jit, size

_DOUBLES, _NOISE = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")
_ROOM = 2.0**-30
_LN2 = 0.6931471805599453
_ROOT2 = 1.4142135623730951


@jit(types.float64(types.float64))
def _log(x):
    """Of a normal positive double, within 2^-40 (1 + |ln x|)."""
    bits = bits_of(x)
    exponent = (bits >> np.int64(52)) - np.int64(1023)
    m = double_of((bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000))
    if m > _ROOT2:
        m *= 0.5
        exponent += np.int64(1)
    z = (m - 1) / (m + 1)
    w = z * z
    odd = 1 + w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9 + w * (1 / 11 + w * (1 / 13 + w * (1 / 15)))))))
    return exponent * _LN2 + 2 * z * odd


@jit(types.UniTuple(types.float64, 2)(types.float64, types.int64, types.float64, types.int64))
def _ends(gap, noise, rate, gumbel):
    """Where a runner surely is: at least, at most."""
    a = -(gap * rate)
    e = (np.float64(noise) + 0.5) * 2.0**-20
    if gumbel != 0:
        h = -_log(e)
        off = 0.5 / np.float64(noise) if noise > 0 else np.inf
        under = off if noise > 0 else 0.6931471805599454  # ln 2: E < 2 (1/2) 2^-20
    else:
        h = e
        off = under = 2.0**-21
    room = _ROOM * (1 + abs(a) + abs(h))
    return a + h - under - room, a + h + off + room


@jit(size(_DOUBLES, _NOISE, types.float64, flag, _NOISE))
def race(gaps, noise, rate, gumbel, found):
    """How many runners may be first, and into `found` who they are, as far as it holds them."""
    place = -np.inf  # that the first is not behind
    for i in range(gaps.size):
        low = _ends(gaps[i], noise[i], rate, np.int64(gumbel))[0]
        if low > place:  # noqa: PLR1730  false for NaN
            place = low
    n = 0
    for i in range(gaps.size):
        if _ends(gaps[i], noise[i], rate, np.int64(gumbel))[1] >= place:
            if n < found.size:
                found[n] = i
            n += 1
    return n
