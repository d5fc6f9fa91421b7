# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables for a reader. A guarantee is exact, or rounded to the side of more loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

NAMED = 2**50  # 0.3 is the name of 0.1 + 0.2 in doubles, and of their exact sum
PREFIXES = {
    "s": (("s", 1), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)),
    "B": (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)),
    "": (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1)),
}
ROUNDED = 0.9995  # three digits show such a share of a unit as a whole one
LONG = 20  # letters from which an exact value is rounded up in a sentence


def exact(value: Fraction) -> str:
    """The value itself, for a repr: an integer, a double by its shortest name, or a fraction."""
    try:
        near = float(value)
    except OverflowError:
        return str(value)
    named = value.denominator > 1 and value in (Fraction(near), Fraction(repr(near)))
    return repr(near) if named else str(value)


def readable(value: Fraction) -> str:
    """The same; a name too long to read gives way to nine digits, rounded up."""
    return name if len(name := exact(value)) <= LONG else _written(_divided(value, 9, ROUND_CEILING))


def plain(value: Fraction) -> str:
    """The value as people write it: 0.1, but 1/3. One too long to read is rounded up."""
    near = _divided(value, 12)
    if Fraction(near) == value:
        return _written(near, ",")
    return name if len(name := exact(value)) < LONG else rounded(value, up=True)


def plus_minus(width: Fraction) -> str:
    """A half-width as people read it, rounded up."""
    return f"±{width.numerator:,}" if width.denominator == 1 else f"±{rounded(width, up=True)}"


def rounded(value: Fraction, *, up: bool, digits: int = 6, group: str = ",") -> str:
    """The value in so many digits, not below it or not above it."""
    return _written(_divided(value, digits, ROUND_CEILING if up else ROUND_FLOOR), group)


def amount(value: Fraction, *, up: bool) -> str:
    """What is spent (up) or left, in six digits: its name in doubles, or rounded to be safe."""
    near = _divided(value, 6)
    same = abs(Fraction(near) - value) <= value / NAMED if up else Fraction(float(near)) == value
    return _written(near) if same else _written(_divided(value, 6, ROUND_CEILING if up else ROUND_FLOOR))


def amounts(values: dict[str, Fraction], *, up: bool) -> str:
    """Names and amounts, such as "epsilon 0.5, delta 1e-6"."""
    return ", ".join(f"{name} {amount(value, up=up)}" for name, value in values.items())


def cost(values: dict[str, Fraction], write: Callable[[Fraction], str]) -> str:
    """One spend, such as "epsilon 1, delta 1e-6 (or, counted in rho: 0.1)": no sum."""
    counted = {name: value for name, value in values.items() if name == "rho" or "epsilon" not in values}
    told = {name: value for name, value in values.items() if name not in counted} or counted
    said = ", ".join(f"{name} {write(value)}" for name, value in told.items())
    return said if told is counted or not counted else f"{said} (or, counted in rho: {write(counted['rho'])})"


LEAST = Fraction(1, 10**6)  # per cent: what lacks less to 0 or 100 is not told apart


def percent(value: Fraction, *, up: bool) -> str:
    """A probability in three digits; above 99 %, three digits of what it lacks to 100 %."""
    high = 100 * value > 99
    small = 100 * (1 - value if high else value)
    if 0 < small < LEAST and (up == high or high):
        small = Fraction(0) if up == high else LEAST  # 100 less so little would be rounded, whichever way
    near = _divided(small, 3, ROUND_CEILING if up != high else ROUND_FLOOR)
    return f"{_written(100 - near if high else near)} %"


def times(epsilon: Fraction) -> str:
    """The ratio e^epsilon, rounded up: three digits of it, or of its excess over 1."""
    wide, short = Context(prec=40, rounding=ROUND_CEILING), Context(prec=3, rounding=ROUND_CEILING)
    if epsilon > 20:  # above this a figure would say nothing more
        return "e^epsilon times"
    most = wide.next_plus(wide.exp(wide.divide(*map(Decimal, epsilon.as_integer_ratio()))))
    digits = short.plus(most) if most > 2 else wide.add(1, short.plus(wide.subtract(most, 1)))
    return f"{digits:,f} times (e^epsilon)"


def approximate(value: float, digits: int = 6, sign: str = "") -> str:
    """About the value in so many digits, without a guarantee; large ones whole. 1e-6, not 1e-06."""
    if not value or not math.isfinite(value):
        return f"{value:{sign}g}"
    mantissa, _, exponent = f"{value:{sign}.{digits - 1}e}".partition("e")
    if -5 < (e := int(exponent)) < 2 * digits:
        text = f"{value:{sign},.{max(0, digits - 1 - e)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{e}"


def output(value: float) -> str:
    """A count or noisy value: whole numbers in full, large and small powers of two by name."""
    if float(value).is_integer() and abs(value) < 1e15:
        return "-0.0" if value == 0 and math.copysign(1, value) < 0 else f"{int(value):,}"
    if value > 0 and math.frexp(value)[0] == 0.5 and not 1e-3 < value < 1e3:
        return f"2**{math.frexp(value)[1] - 1}"
    return approximate(value)


def share(hits: int, n: int) -> str:
    return f"{100 * hits / n:.4g} %" if hits else "none"


def three_digits(value: float) -> str:
    """A measured figure, zeros included, so that figures in a column compare."""
    digits = next((digits for least, digits in ((99.95, 0), (9.995, 1), (0.9995, 2)) if value >= least), 3)
    return f"{value:,.{digits}f}"


def quantity(value: float, unit: str = "", show: Callable[[float], str] = three_digits) -> str:
    """A time, a size or a mere number with the prefix that suits it; nothing for NaN."""
    if math.isnan(value):
        return ""
    name, size = next((p for p in PREFIXES[unit] if value >= ROUNDED * p[1]), PREFIXES[unit][-1])
    return f"{show(value / size)} {name}".rstrip()


def compared(ratio: float, unit: str = "s") -> str:
    """How a time, or a size, compares; nothing for NaN."""
    less, same, more = ("faster", "as fast", "slower") if unit == "s" else ("less", "as much", "more")
    if math.isnan(ratio):
        return ""
    if 0.95 < ratio < 1.05:
        return same
    return f"{three_digits(1 / ratio)} × {less}" if ratio < 1 else f"{three_digits(ratio)} × {more}"


def short(value: float) -> str:
    """1, 10, 1e3, 1e6."""
    return f"{value:g}" if value < 1_000 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def html_table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), caption: str = "") -> str:
    """A table of text for a notebook; the first cell of a row is its name."""
    from html import escape

    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)] if head else []
    for name, *cells in rows:
        lines.append(f"<th>{escape(name)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells))
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _divided(value: Fraction, digits: int, rounding: str | None = None) -> Decimal:
    return Context(prec=digits, rounding=rounding).divide(*map(Decimal, value.as_integer_ratio()))


def _written(value: Decimal, group: str = "") -> str:
    value = value.normalize()
    return f"{value:{group}f}" if not value or -5 < value.adjusted() < 12 else f"{value:e}".replace("e+", "e")
