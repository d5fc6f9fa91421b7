# SPDX-License-Identifier: Apache-2.0
"""Which candidates may have the k largest noisy scores: doubles with a margin for every error.

At least k candidates are at the k-th largest of all lower ends, or above it. So whoever has an
upper end below it has k others ahead. The exact tier decides among the rest, the nominated.

Candidate i is at y = a + h(E), a = -gap rate, h(E) = E or -ln E, where E lies in [G, G + 1)/2^20.
The kernel takes G + 1/2. So E is off by 2^-21 at most, and -ln E by ln((G + 1)/(G + 1/2)) < 1/(2G).
At G = 0 it has no upper end.

Everything else is rounding. A gap is half the distance to the best score for doubles and the whole
distance for integers. It is within 2^-52 of its value, or 2^-1074, and its rate, below 2^902,
within 2^-52. So a is within 2^-50 |a| + 2^-170. If a overflows, the lower end is -inf and the upper
end NaN. A comparison with NaN is false, so the candidate loses, if k lower ends are finite. This is
right: |a| is above 2^1024 (1 - 2^-50), and a finite lower end is that of an |a| below 2^1024/(1 +
2^-30). If fewer are finite, all candidates are nominated. The
logarithm is that of m in [2^-1/2, 2^1/2), by z = (m - 1)/(m + 1), |z| < 0.172. The odd powers up to
z^15 leave 2 z^17/(17 (1 - z^2)) < 2^-46, and its operations round by less than 2^-47 (1 + |ln|). So
the margin 2^-30 (1 + |a| + |h|) covers all of it, in any rounding mode.
"""

import numpy as np
from numba import types

from dpfast.noise.kernels.jit import bits_of, double_of, flag, jit, size
from dpfast.noise.kernels.last_leader import enter

_DOUBLES, _NOISE = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")
_MARGIN = 2.0**-30
_LN2 = 0.6931471805599453
_ROOT2 = 1.4142135623730951


@jit(types.float64(types.float64))
def _log(x):
    """The logarithm of a normal positive double, within 2^-40 (1 + |ln x|)."""
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
    """The ends of an interval that encloses the noisy score of a candidate."""
    a = -(gap * rate)
    e = (np.float64(noise) + 0.5) * 2.0**-20
    if gumbel != 0:
        h = -_log(e)
        off = 0.5 / np.float64(noise) if noise > 0 else np.inf
        under = off if noise > 0 else 0.6931471805599454  # ln 2: E < 2 (1/2) 2^-20
    else:
        h = e
        off = under = 2.0**-21
    margin = _MARGIN * (1 + abs(a) + abs(h))
    return a + h - under - margin, a + h + off + margin


@jit(size(_DOUBLES, _NOISE, types.float64, flag, _DOUBLES, _NOISE))
def nominate(gaps, noise, rate, gumbel, leaders, found):
    """How many candidates may win. Their numbers go into `found`, as many as fit.

    leaders: a place for each that wins, where the largest lower ends are gathered; -inf at first.
    """
    for i in range(gaps.size):
        low = _ends(gaps[i], noise[i], rate, np.int64(gumbel))[0]
        if low > leaders[0]:  # false for NaN
            enter(leaders, low)
    place = leaders[0]  # all winners are at this place or above it
    n = 0
    for i in range(gaps.size):
        if _ends(gaps[i], noise[i], rate, np.int64(gumbel))[1] >= place or place == -np.inf:
            if n < found.size:
                found[n] = i
            n += 1
    return n
