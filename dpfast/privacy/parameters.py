# SPDX-License-Identifier: Apache-2.0
"""Parameters taken exactly, or refused."""

from __future__ import annotations

import math
import numbers
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from types import FunctionType
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np

from dpfast.errors import DTypeError, ParameterError

P = ParamSpec("P")
R = TypeVar("R")
Real: TypeAlias = int | float | Fraction | Decimal | str

# Enough for every double (2^1074 below the point) and any sane fraction; a longer one is a slip or
# an attack.
MAX_BITS = 4096
NUMBER = re.compile(
    r"[+-]?(?:\d{1,1000}/\d{1,1000}|(?:\d{1,1000}\.?\d{0,1000}|\.\d{1,1000})(?:[eE][+-]?\d{1,4})?)", re.ASCII
)
_NO_NUMBERS = (bool, np.timedelta64)  # though they pass for integers
ADJACENCIES = ("add-remove", "substitution")


SEEDS = frozenset(("seed", "rng", "random_state", "generator"))
NO_SEED = (
    "noise has no seed, because whoever knows it knows the noise: keys come from the system; in tests "
    "key=dpfast.testing.fixed_key(7).derive(label) repeats a release"
)


def unknown_option(call: str, name: str, takes: str = "") -> str:
    """A message about an option that a call does not take. takes: what it does, as a clause."""
    return f"{call} got an unexpected keyword argument {name!r:.40}{f'; {NO_SEED}' if name in SEEDS else takes}"


def unseeded(function: Callable[P, R]) -> Callable[P, R]:
    """The same; if somebody gives it a seed, it says what there is instead."""

    @wraps(function)
    def called(*values: P.args, **options: P.kwargs) -> R:
        for name in options.keys() & SEEDS:
            raise DTypeError(unknown_option(f"{function.__name__}()", name))
        return function(*values, **options)

    return called


def bare_names(kind: type) -> None:
    """Python's own errors about calls of its methods name no class, which only dpfast may know."""
    for name, made in vars(kind).items():
        function = getattr(made, "__func__", made)  # a classmethod holds one, too
        while isinstance(function, FunctionType) and not name.startswith("_"):
            function.__qualname__ = name
            function = getattr(function, "__wrapped__", None)


def shown(value: object) -> str:
    """A parameter's value as a message quotes it: at most 40 letters, then "..."."""
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except Exception:  # more digits than Python prints, or a class whose own text fails
        return f"a value of type {type(value).__name__} that does not print"
    return text if len(text) <= 40 else f"{text[:37]}..."


def given(**values: object) -> str:
    """Parameters but None as the end of a message quotes them: "got epsilon=2, sensitivity=1"."""
    return "got " + ", ".join(f"{name}={shown(value)}" for name, value in values.items() if value is not None)


def exact_real(name: str, value: Real | object, rule: str = "finite", *, decimal: bool = False) -> Fraction:
    """The exact rational value of a parameter. A text such as "0.1" or "1/3" is taken as written.

    decimal: take a float by its shortest decimal, as what is spent is: ten releases of 0.1 fit a
        budget of 1. What meets data is the double itself: a clamp at 0.1 moves by more than 1/10.
    Raises: DTypeError (no real number), ParameterError (NaN, infinite, or longer than 4,096 bits;
        a text that is no number).
    """
    if isinstance(value, str):
        value = _read(name, value)
    elif decimal and isinstance(value, (float, np.floating)) and math.isfinite(value):
        value = Decimal(float.__repr__(value) if isinstance(value, float) else np.format_float_scientific(value))
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, (numbers.Real, Decimal)):
        raise DTypeError(
            f"{name} must be an int, float, Fraction, Decimal or text such as 1/3, not {type(value).__name__}"
        )
    if isinstance(value, Decimal):
        # This is checked before the expansion, because Decimal("1e999999999") would fill the
        # memory.
        if (
            not value.is_finite()
            or not (value == 0 or -1200 < value.adjusted() < 1200)
            or len(value.as_tuple().digits) > 1200
        ):
            raise ParameterError(f"{name} must be {rule}, and of at most {MAX_BITS} bits, got {shown(value)}")
        exact = Fraction(0) if value == 0 else Fraction(value)
    elif isinstance(value, numbers.Rational):
        exact = _ratio(name, value, value.numerator, value.denominator)
    elif not hasattr(value, "as_integer_ratio"):  # a kind of real that float() might round
        raise DTypeError(
            f"{name} must be an int, float, Fraction, Decimal or text such as 1/3, not {type(value).__name__}"
        )
    elif math.isfinite(value):
        exact = _ratio(name, value, *value.as_integer_ratio())
    else:
        raise ParameterError(f"{name} must be {rule}, got {shown(value)}")
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > MAX_BITS:
        raise ParameterError(f"{name} must be of at most {MAX_BITS} bits, got {shown(value)}")
    return exact


def _read(name: str, text: str) -> Fraction | Decimal:
    """A number as written: a decimal, or a ratio of integers."""
    if len(text) <= MAX_BITS and NUMBER.fullmatch(text):
        above, _, below = text.partition("/")
        if not below:
            return Decimal(text)
        if int(below[:1000]):
            return Fraction(int(above), int(below))
    raise ParameterError(f"{name} must be a number such as 0.1 or 1/3, got {shown(text)}")


def _ratio(name: str, value: object, numerator: object, denominator: object) -> Fraction:
    """The number with the numerator and denominator that it gives itself."""
    if not isinstance(numerator, numbers.Integral) or not isinstance(denominator, numbers.Integral) or denominator == 0:
        raise DTypeError(
            f"{name} must be a number with an exact ratio of integers, which this {type(value).__name__} lacks"
        )
    return Fraction(int(numerator), int(denominator))


def exact_positive(name: str, value: Real | object, *, decimal: bool = False) -> Fraction:
    """The exact rational value of a positive parameter. decimal: as in exact_real.

    Raises: what exact_real raises; ParameterError (zero, negative).
    """
    exact = exact_real(name, value, "finite and positive", decimal=decimal)
    if exact <= 0:
        raise ParameterError(f"{name} must be positive, got {shown(value)}")
    return exact


def power_of_two(name: str, value: Real | object) -> int:
    """The exponent of a parameter that is a power of two."""
    exact = exact_positive(name, value)
    if exact.numerator & (exact.numerator - 1) or exact.denominator & (exact.denominator - 1):
        below = exact.numerator.bit_length() - exact.denominator.bit_length()
        below -= Fraction(2) ** below > exact
        raise ParameterError(f"{name} must be a power of two, got {shown(value)}: the next below it is 2**{below}")
    return exact.numerator.bit_length() - exact.denominator.bit_length()


def two_to(exponent: int) -> float:
    """2^exponent as a double, made from its bits.

    So no rounding mode of the host, and no flushing of subnormals, changes it.
    """
    bits = exponent + 1023 << 52 if exponent > -1023 else 1 << exponent + 1074
    return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])


def probability(name: str, value: Real, *, decimal: bool = False) -> Fraction:
    """The exact rational value of a probability strictly between 0 and 1. decimal: as above."""
    exact = exact_positive(name, value, decimal=decimal)
    if exact >= 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1, got {shown(value)}")
    return exact


def step_of_losses(value: Real) -> float:
    """A value_discretization_interval: one above 512 is refused later, so any double is one."""
    return float(min(exact_positive("value_discretization_interval", value), Fraction(2**1000)))


def whole(name: str, value: object, least: int | None = None) -> int:
    """An integer parameter: at least `least`, and at most 4,096 bits long."""
    if type(value) is not int and (isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Integral)):
        raise DTypeError(f"{name} must be an int, not {type(value).__name__}")
    found = int(value)
    if found.bit_length() > MAX_BITS:  # the value may be private, so it is not shown
        raise ParameterError(f"{name} must be of at most {MAX_BITS} bits")
    if least is not None and found < least:
        raise ParameterError(f"{name} must be at least {least}, got {shown(found)}")
    return found


def flag(name: str, value: object) -> bool:
    """A parameter that is True or False, Python's or NumPy's: 1 and "yes" are refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise DTypeError(f"{name} must be True or False, not {type(value).__name__}")
    return bool(value)


def adjacency(value: str) -> str:
    if not isinstance(value, str) or value not in ADJACENCIES:
        raise ParameterError(f"adjacency must be one of {', '.join(ADJACENCIES)}, got {shown(value)}")
    return value


def unit(value: str) -> str:
    if not isinstance(value, str) or not str.strip(value):
        raise ParameterError(f"unit must name the unit of privacy, such as 'person', got {shown(value)}")
    return value
