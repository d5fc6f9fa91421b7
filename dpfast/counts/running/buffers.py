# SPDX-License-Identifier: Apache-2.0
"""The encoder in integers, and its inverse in doubles: a step of all cells, buffer by buffer.

A buffer u_i is an integer in units of 2^-(f + g), g guard bits below 2^-f, kept as high 2^48 + low,
0 <= low < 2^48. [y] is y rounded to the nearest integer, halves up: floor(y + 1/2). A step does
    v = 2^f x + [sum over i of [w_i u_i] / 2^g]
    u_i <- u_i - [u_i m_i / 2^s_i] + 2^(f + g) x.
So before step t, u_i is 2^(f + g) times the sum of theta_i^(t - 1 - s) x_s over s < t, but for
roundings: each is at most 1/2, and decays by theta_i a step as the buffer does. After n steps they
come to at most reach_i/2, reach_i = min(n, 1/(1 - theta_i)). So v is at most
    r = 1/2 + 2^-g (d + sum of w_i reach_i)/2
from 2^f (Cx)_t, in units of 1: `rounding_of`. And nothing overflows if
    2^(f + g) X reach_i + reach_i <= 2^96 for each i, and 2^f X total + r <= 2^62,
`total` the sum of c, and there are at most 64 buffers (`must_fit`): then |high| <= 2^48, a
numerator m_i or a_i is below 2^13, so high m_i < 2^61 and low m_i + 2^(s - 1) < 2^62; m_i/2^s and
a_i/2^b are at most 1, so what `_times` leaves below 2^48 is at most 2^49, and 64 of it stay within
int64; v lies 2^62 from its ends, which discrete Gaussian noise with sigma <= 10^9 does not reach:
no draw of the stream is beyond 2^36.

The decoder takes z_t = 2^-f times the noisy step, and one buffer h_i for each u_i:
    y = z - w_1 h_1 - ... - w_d h_d, from left to right
    h_i <- h_i theta_i + y;  total <- total + y
Each operation is one of NumPy's on doubles, rounded by itself. theta_i and w_i are doubles exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast.errors import ParameterError
from dpfast.privacy.running import Coefficients

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

LOW = 48  # bits of the lower part
MASK = (1 << LOW) - 1
DIGITS = 13  # that a numerator has
MANY = 64  # buffers
MOST = 2**62  # that an encoded step may be
RUN = 1 << 14  # cells at a time: their parts stay within a cache


class Code(NamedTuple):
    """What the encoder does to its inputs. bits: f; guard: g."""

    coefficients: Coefficients
    bits: int
    guard: int


def rounding_of(code: Code, steps: int) -> Fraction:
    """The most that an encoded step is off: r above."""
    off = len(code.coefficients.decays) - 1 + code.coefficients.total(steps)
    return Fraction(1, 2) + off * Fraction(1, 2 ** (code.guard + 1))


def largest_bound(code: Code, steps: int) -> int:
    """The largest X for which nothing overflows; below 1 if there is none."""
    reach = max(code.coefficients.reach(steps))
    held = (Fraction(2 ** (2 * LOW)) - reach) / (reach * 2 ** (code.bits + code.guard))
    return int(min(held, (MOST - rounding_of(code, steps)) / (2**code.bits * code.coefficients.total(steps))))


def must_fit(code: Code, steps: int, bound: int) -> None:
    """Raises: ParameterError (integers that are too long for the encoder)."""
    numbers = (*code.coefficients.decays, *code.coefficients.weights)
    if not all(0 < number < 2**DIGITS and 0 < shift <= LOW for number, shift in numbers):
        raise ParameterError(f"coefficients must be of at most {DIGITS} bits, over powers of two up to 2**{LOW}")
    if len(numbers) > 2 * MANY:
        raise ParameterError(f"coefficients must be of at most {MANY} buffers, got {len(code.coefficients.decays)}")
    if code.bits < 0 or code.guard < 1 or code.bits + code.guard > LOW:
        raise ParameterError(f"bits and guard must be at most {LOW} together, got {code.bits} and {code.guard}")
    if not 1 <= bound <= (largest := largest_bound(code, steps)):
        raise ParameterError(
            f"bound must be from 1 to {largest:,}, or a long run of such counts would not fit 64 bits, got {bound}"
        )


def begun(code: Code, cells: int) -> tuple[Integers, Reals]:
    """An encoder and a decoder that have seen nothing."""
    buffers = len(code.coefficients.decays)
    return np.zeros((2 * buffers, cells), np.int64), np.zeros((buffers + 1, cells))


def encoded(code: Code, encoder: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """The next step of counts within the bound: what gets the noise, and the encoder after it."""
    after, steps = np.empty_like(encoder), np.empty(counts.size, np.int64)
    room = np.empty((8, min(RUN, counts.size)), np.int64)
    for begin in range(0, counts.size, RUN):
        cells = slice(begin, begin + RUN)
        x = counts[cells]
        _encode(code, encoder[:, cells], x, after[:, cells], steps[cells], room[:, : x.size])
    return steps, after


def _encode(code: Code, before: Integers, x: Integers, after: Integers, step: Integers, room: Integers) -> None:
    high, low, product, highs, lows, x_high, x_low, carry = room
    bits, guard = code.bits, code.guard
    unit = bits + guard
    np.right_shift(x, LOW - unit, out=x_high)
    np.bitwise_and(x, (1 << LOW - unit) - 1, out=x_low)
    x_low <<= unit
    highs.fill(0)
    lows.fill(0)
    for i, (decay, weight) in enumerate(zip(*code.coefficients, strict=True)):
        held, rest, new_held, new_rest = before[2 * i], before[2 * i + 1], after[2 * i], after[2 * i + 1]
        _times(held, rest, weight, high, low, product)
        highs += high
        lows += low
        _times(held, rest, decay, high, low, product)
        np.subtract(held, high, out=new_held)
        np.subtract(rest, low, out=new_rest)
        new_held += x_high
        new_rest += x_low
        np.right_shift(new_rest, LOW, out=carry)
        new_held += carry
        new_rest &= MASK
    highs <<= LOW - guard
    lows += 1 << guard - 1
    lows >>= guard
    np.left_shift(x, bits, out=step)
    step += highs
    step += lows


def _times(
    held: Integers, rest: Integers, ratio: tuple[int, int], high: Integers, low: Integers, product: Integers
) -> None:
    """Write high 2^48 + low = [(held 2^48 + rest) number / 2^shift], 0 <= low <= 2^49.

    number held 2^48 is a whole number of 2^shift, so that the rounding is of number rest alone.
    """
    number, shift = ratio
    np.multiply(rest, number, out=product)
    product += 1 << shift - 1
    product >>= shift
    np.multiply(held, number, out=high)
    np.bitwise_and(high, (1 << shift) - 1, out=low)
    low <<= LOW - shift
    low += product
    high >>= shift


def decoded(code: Code, decoder: Reals, noisy: Integers) -> tuple[Reals, Reals]:
    """The totals after one more noisy step, and the decoder after it."""
    after = np.empty_like(decoder)
    y: Any = noisy.astype(np.float64)
    y *= 2.0**-code.bits
    for held, (a, b) in zip(decoder, code.coefficients.weights, strict=False):
        y -= held * (a * 2.0**-b)
    for held, new, (m, s) in zip(decoder, after, code.coefficients.decays, strict=False):
        np.multiply(held, 1 - m * 2.0**-s, out=new)
        np.add(new, y, out=new)
    np.add(decoder[-1], y, out=after[-1])
    return after[-1].copy(), after
