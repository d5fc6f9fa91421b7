# SPDX-License-Identifier: Apache-2.0
"""Proved enclosures: constants, tables, quantiles, and the last tier, which decides every draw.

python-flint's balls contain the true value by construction [Johansson 2017]; here a result is
used only when the whole ball agrees, and precision grows until it does. The working precision
is global to the library, hence the lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dpfast.errors import DpfastError

if TYPE_CHECKING:
    from flint import arb

_lock = threading.RLock()
# A fork waits for a thread inside: the child would find the lock, or that of a first import of flint, held for ever.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
MAX_LEVELS = 2**24  # of the stream's address; 2^33 bits of one U


class Digits(NamedTuple):
    """The sign and the leading `bits` binary digits of U: U lies in [prefix, prefix + 1) / 2^bits."""

    negative: bool
    prefix: int
    bits: int


def ball(value: Fraction) -> arb:
    from flint import arb, fmpq

    return arb(fmpq(value.numerator, value.denominator))


def unique_floor(precision: int, value: Callable[[], arb]) -> int:
    """The floor of a real that is no integer, at whatever precision decides it."""
    with _lock:
        from flint import ctx

        while True:
            with ctx.workprec(precision):
                found = value().floor().unique_fmpz()
            if found is not None:
                return int(found)
            precision *= 2


def nearest_double(precision: int, value: Callable[[], arb]) -> float:
    """A double within one unit in the last place of the value."""
    with _lock:
        from flint import ctx

        with ctx.workprec(precision):
            return float(value())


class DiscreteLaplace:
    """The law P(X = k) = (1-q)/(1+q) q^|k|, q = exp(-rate), for an exact rational rate = epsilon/sensitivity.

    e^r is transcendental for every rational r other than 0 [Lindemann 1882], so no threshold and no
    value of the distribution function is rational: every loop below ends.
    """

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self.scale = 1 / rate
        # Bits that the magnitude of 1/rate or rate takes from a ball's 53 or more.
        self.lost = 64 + abs(rate.numerator.bit_length() - rate.denominator.bit_length())

    def _q(self) -> arb:
        return (-ball(self.rate)).exp()

    def offset(self) -> arb:
        """C = ln(2 / (1 + q))."""
        return (2 / (1 + self._q())).log()

    def _height(self, u: Fraction) -> arb:
        """T (C - ln u), whose floor is the magnitude at U = u."""
        return ball(self.scale) * (self.offset() - ball(u).log())

    def table(self, bits: int) -> list[int | None]:
        """The magnitude on each cell [a, a + 1) / 2^bits of U, None where a threshold falls inside it."""
        cells: list[int | None] = [0] * 2**bits
        above = 2**bits  # cells from here on are done
        k = 0
        while True:
            k += 1
            # |X| >= k iff U <= 2 q^k / (1 + q)
            power = -k * self.rate
            at = unique_floor(self.lost + bits + 64, lambda: 2**bits * 2 * ball(power).exp() / (1 + self._q()))  # noqa: B023  used at once
            cells[at + 1 : above] = [k - 1] * (above - at - 1)
            if at < above:
                cells[at] = None
            above = at
            if at == 0:
                return cells

    def magnitude(self, prefix: int, bits: int) -> int | None:
        """The magnitude on the whole cell [prefix, prefix + 1) / 2^bits, or None if a threshold lies in it."""
        if prefix == 0:
            return None
        low, high = Fraction(prefix, 2**bits), Fraction(prefix + 1, 2**bits)
        precision = self.lost + bits + 64
        least = unique_floor(precision, lambda: self._height(high))
        most = unique_floor(precision, lambda: self._height(low))
        return least if least == most else None

    def draw(self, digits: Callable[[int], Digits]) -> int:
        """The signed draw; digits(r) are those of levels 0 to r."""
        for level in range(1, MAX_LEVELS):
            known = digits(level)
            found = self.magnitude(known.prefix, known.bits)
            if found is not None:
                return -found if known.negative else found
        raise DpfastError("the stream has no more digits for a draw")

    def half_width(self, confidence: Fraction, cells: int) -> int:
        """The least h with P(|X| <= h)^cells >= confidence, for independent cells."""

        # P(|X| > h) = 2 q^(h+1) / (1+q) <= 1 - confidence^(1/cells)
        def height() -> arb:
            share = -(ball(confidence).log() / cells).expm1()
            return ball(self.scale) * (self.offset() - share.log())

        return unique_floor(self.lost + 192 + cells.bit_length(), height)

    def quantile(self, p: Fraction) -> int:
        """The least k with P(X <= k) >= p."""
        # k < 0: q^-k / (1+q) >= p.  k >= 0: q^(k+1) / (1+q) <= 1 - p, so k + 1 >= t (-ln((1-p)(1+q))).
        lower = p < Fraction(1, 2)
        side = p if lower else 1 - p
        found = unique_floor(
            self.lost + 192,
            lambda: -ball(self.scale) * (ball(side) * (1 + self._q())).log(),
        )
        return -found if lower else found
