# SPDX-License-Identifier: Apache-2.0
"""Proved enclosures: working precision and its lock, numbers from balls, and a draw's digits.

python-flint's balls contain the true value by construction [Johansson 2017]. Precision grows until
a whole ball agrees on a result. The working precision is global to the library, hence the lock.
"""

from __future__ import annotations

import importlib
import math
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dpfast.errors import DpfastError
from dpfast.loading import apart  # whose fork hook must be the earlier, to wait after ours

if TYPE_CHECKING:
    from flint import arb

Ball: TypeAlias = "arb"  # flint itself is loaded when the first ball is made

# Flint is used `with alone, flint_at(bits):`. Both are written in C: Python runs no signal handler
# on the way into their __exit__. In a context manager in Python, Ctrl-C could leave the lock held.
alone = threading.RLock()
# A fork waits for a thread inside: the child would find this lock, or flint's import's, held.
os.register_at_fork(before=alone.acquire, after_in_parent=alone.release, after_in_child=alone.release)
MAX_LEVELS = 2**24  # levels of the stream's address; 2^33 bits of one word
MAX_BITS = 4096  # the most digits or precision where an end of the loop is not proved
ACCURACY = 44  # bits of a figure before it is rounded up
MOST_PRECISION = 2**13  # bits, for a figure
NOISE, ACCEPT = 1, 2  # purposes of the stream's address


class Digits(NamedTuple):
    """The first `bits` raw digits of a word, as an integer, most significant first."""

    prefix: int
    bits: int


def split(raw: Digits) -> tuple[bool, Digits]:
    """The first digit and the others."""
    bits = raw.bits - 1
    return bool(raw.prefix >> bits), Digits(raw.prefix & (1 << bits) - 1, bits)


# read(index, level, purpose=NOISE, candidate=0): raw digits of word `index`, levels 0 to `level`.
Read = Callable[..., Digits]


def flint_at(bits: int) -> AbstractContextManager[None]:
    """Flint at this precision: of the whole process, so within `alone`."""
    found: AbstractContextManager[None] = _flint().ctx.workprec(bits)
    return found


@cache
def _flint() -> Any:
    return apart(partial(importlib.import_module, "flint"))


def ball(value: Fraction | float) -> Ball:
    """The value itself; a double may be infinite, or nan."""
    from flint import arb, fmpq

    if isinstance(value, float):
        return arb(value)
    return arb(fmpq(value.numerator, value.denominator))


def dyadic(prefix: int, bits: int) -> Ball:
    """The number prefix / 2^bits, unrounded."""
    from flint import arb

    return arb((prefix, -bits))


def pi() -> Ball:
    from flint import arb

    return arb.pi()


def within(bound: Ball) -> Ball:
    """The ball of all reals up to a bound in magnitude."""
    from flint import arb

    return arb(0, bound)


def erfc(x: Ball) -> Ball:
    """1 - erf(x) from the ends of x, since it falls: arb itself has no digit left for x far out."""
    return x.lower().erfc().union(x.upper().erfc())


def lost(value: Fraction) -> int:
    """Bits that the magnitude of a number takes from a ball's 53 or more."""
    return 64 + abs(value.numerator.bit_length() - value.denominator.bit_length())


def unique_floor(precision: int, value: Callable[[], Ball], most: int | None = None) -> int:
    """The floor of a real that is no integer, at the precision that decides it.

    most: the last precision, where an end is not proved. Raises: DpfastError beyond it.
    """
    while True:
        with alone, flint_at(precision):
            found = value().floor().unique_fmpz()
        if found is not None:
            return int(found)
        if most is not None and precision >= most:
            raise DpfastError("a bound cannot be told from an integer")
        precision *= 2


def floor_ends(value: Ball) -> tuple[int, int]:
    """The floors of the ends of a ball."""
    low, high = value.lower().floor().unique_fmpz(), value.upper().floor().unique_fmpz()
    if low is None or high is None:
        raise DpfastError("a ball without ends")
    return int(low), int(high)


def nearest_double(precision: int, value: Callable[[], Ball]) -> float:
    """A double within one unit in the last place of the value."""
    with alone, flint_at(precision):
        return float(value())


def rounded_up(value: Callable[[], Ball], *, precision: int = 128, accuracy: int = ACCURACY) -> float:
    """A double not below a value >= 0, close to so many bits; infinite if no precision will do."""
    best, tiny = math.inf, math.ulp(0.0)
    while precision <= MOST_PRECISION:
        with alone, flint_at(precision):
            found = value()
            top = _top(found)
            close = found.is_finite() and (found.rel_accuracy_bits() >= accuracy or top <= tiny)
        stuck = best < math.inf and top > best * (1 - 2.0**-accuracy)  # a width that no precision narrows
        best = min(best, top)
        if close or stuck:
            break
        precision *= 2
    return best


def _top(value: Ball) -> float:
    """The least double not below a ball around a value >= 0."""
    from flint import arb

    top, tiny = value.upper(), math.ulp(0.0)
    if not top.is_finite() or top > arb(2) ** 1024:
        return math.inf
    if top <= arb(tiny):
        return tiny if top > 0 else 0.0
    mantissa, exponent = (int(part) for part in top.man_exp())
    return double_above(Fraction(mantissa) * Fraction(2) ** exponent)


def double_above(exact: Fraction) -> float:
    """The least double not below; infinite beyond the largest."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if near >= exact else math.nextafter(near, math.inf)


def miss(confidence: Fraction, cells: int) -> Ball:
    """1 - confidence^(1/cells): what one of so many independent cells may miss."""
    log = ball(confidence).log() if 2 * confidence < 1 else ball(confidence - 1).log1p()
    return -(log / cells).expm1()


def table_of(bits: int, thresholds: Iterable[tuple[int, int]]) -> list[int | None]:
    """On each cell [a, a + 1) / 2^bits of U the number of thresholds T_1 > T_2 > ... above it.

    None where one may be inside. thresholds: first and last cell of each; only cell 0 is left.
    """
    cells: list[int | None] = [0] * 2**bits
    above = 2**bits  # cells from here on are done
    known = 0
    for first, last in thresholds:
        if last + 1 < above:
            cells[last + 1 : above] = [known] * (above - last - 1)
        above = min(above, first)
        cells[above : last + 1] = [None] * (last + 1 - above)
        known += 1
    cells[1:above] = [known] * (max(above, 1) - 1)
    cells[0] = None  # infinitely many are inside
    return cells


def nearest_step(
    precision: int, offset: Fraction, negative: bool, low: Callable[[], Ball] | None, high: Callable[[], Ball]
) -> int | None:
    """floor(offset + X + 1/2) if it is the same for all M between low() and high(), else None.

    X is M, or -M if negative. offset + 1/2 + X is no integer at either end. If low is None, M > 0
    comes as near to 0 as you like.
    """
    whole = math.floor(offset)
    rest = offset - whole + Fraction(1, 2)

    def end(magnitude: Callable[[], Ball]) -> int:
        return unique_floor(precision, lambda: ball(rest) - magnitude() if negative else ball(rest) + magnitude())

    near = end(low) if low is not None else math.ceil(rest) - 1 if negative else math.floor(rest)
    return whole + near if near == end(high) else None
