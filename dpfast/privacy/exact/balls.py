# SPDX-License-Identifier: Apache-2.0
"""Proved enclosures: working precision and its lock, numbers from balls, and a word's digits.

python-flint's balls contain the true value by construction [Johansson 2017]. Precision grows until
a whole ball agrees on a result. The working precision is global to the library, hence the lock.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dpfast.errors import DpfastError
from dpfast.loading import apart  # whose fork hook must be the earlier, to wait after ours
from dpfast.system import at_fork

if TYPE_CHECKING:
    from flint import arb

Ball: TypeAlias = "arb"  # flint itself is loaded when the first ball is made

# Flint is used `with alone, flint_at(bits):`. Both are written in C: Python runs no signal handler
# on the way into their __exit__. In a context manager in Python, Ctrl-C could leave the lock held.
alone = threading.RLock()
# A fork waits for a thread inside: the child would find this lock, or flint's import's, held.
at_fork(before=alone.acquire, after_in_parent=alone.release, after_in_child=alone.release)
MAX_LEVELS = 2**24  # levels of the stream's address; 2^33 bits of one word
MAX_BITS = 4096  # the most digits or precision where an end of the loop is not proved
ACCURACY = 44  # bits of a figure before it is rounded up
MOST_PRECISION = 2**13  # bits, for a figure


class Digits(NamedTuple):
    """The first `bits` raw digits of a word, as an integer, most significant first."""

    prefix: int
    bits: int


def split(raw: Digits) -> tuple[bool, Digits]:
    """The first digit and the others."""
    bits = raw.bits - 1
    return bool(raw.prefix >> bits), Digits(raw.prefix & (1 << bits) - 1, bits)


# read(index, level): raw digits of word `index`, levels 0 to `level`.
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
    flint = _flint()
    exact = value if isinstance(value, float) else flint.fmpq(value.numerator, value.denominator)
    found: Ball = flint.arb(exact)
    return found


def dyadic(prefix: int, bits: int) -> Ball:
    """The number prefix / 2^bits, unrounded."""
    found: Ball = _flint().arb((prefix, -bits))
    return found


def pi() -> Ball:
    found: Ball = _flint().arb.pi()
    return found


def within(bound: Ball) -> Ball:
    """The ball of all reals up to a bound in magnitude."""
    found: Ball = _flint().arb(0, bound)
    return found


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
    top = value.upper()
    if not top.is_finite():
        return math.inf
    near = max(0.0, float(top))  # the nearest, for the upper end has no radius
    return near if _flint().arb(near) >= top else math.nextafter(near, math.inf)


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
