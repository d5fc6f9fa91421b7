# SPDX-License-Identifier: Apache-2.0
"""One value on its grid: what every kernel of the real laws does before and after the noise.

The grid is granularity * k for integers k. Sums here have few exact terms, and are rounded once.
"""

import numpy as np
from numba import njit

from dpfast.kernels.jit import bits_of, double_of

LARGEST = np.float64(1.7976931348623157e308)


@njit(inline="always")
def between(x, least, most):
    """X, a number, brought between bounds: two instructions, where min and max ask for NaN."""
    x = max(least, x)
    return min(most, x)


@njit(inline="always")
def not_finite(x):
    """1 where x is no number or infinite."""
    return 0 if abs(np.float64(x)) <= LARGEST else 1


@njit(inline="always")
def public(x, missing, least, most):
    """X, or what stands for it where it is not finite, between public bounds."""
    x = np.float64(x)
    return between(x if abs(x) <= LARGEST else missing, least, most)


@njit(inline="always")
def in_steps(x, inverse, inverse_too):
    """In steps of the grid, x / granularity: two products for the ends of the exponent range.

    A large one is infinite or an integer; an underflow errs by less than 2^-1022, deciding nothing.
    """
    return (x * inverse) * inverse_too


@njit(inline="always")
def beyond(y):
    """How far y lies beyond the grid point nearest to it, in [-1/2, 1/2]."""
    return y - np.rint(y) if abs(y) < 4503599627370496.0 else 0.0


@njit(inline="always")
def on_grid(x, y, granularity):
    """The grid point nearest to x, exactly: x itself where y is 2^52 or more."""
    return np.rint(y) * granularity if abs(y) < 4503599627370496.0 else x


@njit(inline="always")
def two_sum(a, b):
    """The sum a + b and what rounding took [Knuth, TAOCP 4.2.2]."""
    s = a + b
    from_b = s - a
    return s, (a - (s - from_b)) + (b - from_b)


@njit(inline="always")
def to_odd(s, rest):
    """The sum, |rest| at most half a unit of s, rounded to odd: it rounds again as if once."""
    bits = bits_of(s)
    towards = np.int64(1) if (rest > 0.0) == (s > 0.0) else np.int64(-1)
    inexact = (rest > 0.0) | (rest < 0.0)  # not where s is infinite
    return double_of(bits + towards) if inexact & ((bits & 1) == 0) else s


@njit(inline="always")
def in_single(x):
    """X rounded to float32."""
    return np.float64(np.float32(x))


@njit(inline="always")
def split_plain(x, offset, nearest, granularity, inverse, inverse_too):
    """Each value as grid point and distance beyond; 1 if one is not finite: then nothing holds."""
    odd = 0
    for i in range(x.size):
        given = np.float64(x[i])
        odd |= not_finite(given)
        y = in_steps(given, inverse, inverse_too)
        offset[i] = beyond(y)
        nearest[i] = on_grid(given, y, granularity)
    return odd


@njit(inline="always")
def split(x, offset, nearest, granularity, inverse, inverse_too, missing, least, most):
    """The same, of what is public in the values' place."""
    odd = 0
    for i in range(x.size):
        odd |= not_finite(x[i])
        given = public(x[i], missing, least, most)
        y = in_steps(given, inverse, inverse_too)
        offset[i] = beyond(y)
        nearest[i] = on_grid(given, y, granularity)
    return odd


@njit(inline="always")
def join(n, nearest, noise, sums, granularity, lower, upper):
    """Grid point plus noise, rounded once, clamped."""
    for i in range(n):
        sums[i] = between(nearest[i] + noise[i] * granularity, lower, upper) + 0.0


@njit(inline="always")
def join_single(n, nearest, noise, sums, granularity, lower, upper):
    """The same, rounded once to float32."""
    limit = granularity * 9007199254740992.0
    large = 0  # sums of 2^53 steps and more, which a double may have to round
    for i in range(n):
        total = nearest[i] + noise[i] * granularity
        large |= 0 if abs(total) < limit else 1
        sums[i] = in_single(between(total, lower, upper)) + 0.0
    for i in range(n if large else 0):
        total, rest = two_sum(nearest[i], noise[i] * granularity)
        sums[i] = in_single(between(to_odd(total, rest), lower, upper)) + 0.0
