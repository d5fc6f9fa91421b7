# SPDX-License-Identifier: Apache-2.0
"""Numbers as texts write them: public rules about the text of a cell alone (docs/files.md).

A message names the rule that a cell breaks and the option that helps, never a cell or its place.
That a cell breaks one is private, so it is an UnusableValuesError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.app.tables.text_format import SPACES, THOUSANDS, TextFormat
from dpfast.errors import UnusableValuesError
from dpfast.noise.release.arrays import CountArray, RealArray

WHOLE = "^-?[0-9]+$"
REAL = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
NONE = "nan|na|n/a|#n/a|<na>|null|none"  # what programs write for a cell without a value, in any case
ABSENT = f"^(?i:{NONE})?$"
NOT_FINITE = f"^(?i:{NONE}|-?inf(inity)?)?$"
EXACT = 2.0**53  # below it a double holds every whole number
FOR_REALS = "for real values there are laplace and gaussian (--mechanism)"
PUBLIC = "--missing would put a public number in its place"


def counts(text: pa.Array, where: str, style: TextFormat, missing: int | None = None) -> CountArray:
    """Texts as int64, or as uint64 if they need it. missing: stands for a cell without a number."""
    if not pc.all(pc.match_substring_regex(text, WHOLE)).as_py():
        text = _whole(text, where, style, missing)
    for kind in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            found: CountArray = text.cast(pa.string()).cast(kind).to_numpy(zero_copy_only=False)
            return found
    raise UnusableValuesError(f"{where} must contain numbers that fit in int64 or in uint64")


def reals(text: pa.Array, where: str, style: TextFormat) -> RealArray:
    """Texts as `float` reads them; NaN where there is no number, or an infinity."""
    absent = pc.match_substring_regex(text, NOT_FINITE)
    if style.point == "," or not pc.all(pc.or_(absent, pc.match_substring_regex(text, REAL))).as_py():
        text = _trimmed(text, where)
        absent = pc.match_substring_regex(text, NOT_FINITE)
        text = pc.if_else(absent, "nan", text)
        point, part = f"[{style.point}]", _groups(style)
        good = f"^[+-]?(([0-9]+|{part}){point}?[0-9]*|{point}[0-9]+)([eE][-+]?[0-9]+)?$"
        bad = text.filter(pc.invert(pc.or_(absent, pc.match_substring_regex(text, good))))
        if len(bad):
            raise UnusableValuesError(
                f"{where} must contain decimal numbers such as -1.5 or 2e3, but contains {_broken(bad, style)}"
            )
        text = _parted(text, style)
        text = pc.replace_substring(text, ",", ".") if style.point == "," else text
    values: RealArray = (
        pc.if_else(absent, pa.scalar("nan", text.type), text).cast(pa.string()).cast(pa.float64()).to_numpy()
    )
    return values


def whole(values: RealArray, where: str, missing: int | None = None) -> CountArray:
    """Doubles that are whole numbers, as int64; NaN is `missing`."""
    absent = np.isnan(values)
    if absent.any():
        if missing is None:
            raise UnusableValuesError(f"{where} contains NaN or a null where a count is needed: {PUBLIC}")
        values = np.where(absent, 0, values)
    if not (np.abs(values) < EXACT).all():
        raise UnusableValuesError(
            f"{where} contains doubles of 2**53 or more, which no longer hold every whole number: use integers"
        )
    if (values != np.trunc(values)).any():
        raise UnusableValuesError(f"{where} contains numbers with digits after the decimal point: {FOR_REALS}")
    found: CountArray = values.astype(np.int64)
    return found if missing is None else np.where(absent, missing, found)


def of_decimals(column: pa.Array, where: str) -> pa.Array:
    """Decimals with nothing behind the point, as int64 or uint64."""
    try:
        column = column.cast(pa.decimal256(76, 0))
    except pa.ArrowInvalid:
        raise UnusableValuesError(
            f"{where} contains numbers with digits after the decimal point: {FOR_REALS}"
        ) from None
    for kind in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    raise UnusableValuesError(f"{where} must contain numbers that fit in int64 or in uint64")


def filled(column: pa.Array, where: str, missing: int | None) -> pa.Array:
    """Integers with `missing` for nulls."""
    if missing is None:
        raise UnusableValuesError(f"{where} contains nulls, where every count is needed: {PUBLIC}")
    try:
        return column.fill_null(pa.scalar(missing, column.type))
    except (pa.ArrowInvalid, OverflowError):
        raise UnusableValuesError(f"--missing must be a number of the type of {where}, {column.type}") from None


def _whole(text: pa.Array, where: str, style: TextFormat, missing: int | None) -> pa.Array:
    """Plain digits of texts that are whole numbers by the rules."""
    text = _trimmed(text, where)
    absent, point = pc.match_substring_regex(text, ABSENT), f"[{style.point}]"
    if missing is not None:
        text = pc.if_else(absent, str(missing), text)
    good = pc.match_substring_regex(text, f"^[+-]?([0-9]+|{_groups(style)})({point}0*)?$")
    if style.decimal is None and style.thousands is None:  # 12.000 is twelve, or twelve thousand
        good = pc.and_(good, pc.invert(pc.match_substring_regex(text, r"^[+-]?[0-9]{1,3}\.000$")))
    bad = text.filter(pc.invert(good))
    if len(bad):
        raise UnusableValuesError(
            f"{where} must contain whole numbers, but contains {_broken(bad, style, counts=True)}"
        )
    text = _parted(text, style)
    return pc.replace_substring_regex(text, rf"{point}0*$", "")


def _trimmed(text: pa.Array, where: str) -> pa.Array:
    try:
        return pc.utf8_trim(text.cast(pa.string()), characters=f"\t{SPACES}")
    except pa.ArrowInvalid:
        raise UnusableValuesError(
            f"{where} must contain numbers, but contains bytes that are not utf-8: --encoding names another"
        ) from None


def _groups(style: TextFormat) -> str:
    """A number of groups of three digits."""
    mark = style.thousands
    return rf"[0-9]{{1,3}}([{SPACES if mark in SPACES else mark}][0-9]{{3}})+" if mark else "[0-9]+"


def _parted(text: pa.Array, style: TextFormat) -> pa.Array:
    """Without what stands between groups of digits, and without a plus."""
    for mark in (SPACES if style.thousands in SPACES else style.thousands) if style.thousands else "":
        text = pc.replace_substring(text, mark, "")
    return pc.replace_substring_regex(text, r"^\+", "")


def _broken(bad: pa.Array, style: TextFormat, *, counts: bool = False) -> str:
    """The first rule that some text breaks, and the option that helps."""
    for pattern, said in _rules(style, counts=counts):
        if pc.any(pc.match_substring_regex(bad, f"^{pattern}$")).as_py():
            return said
    return "a text that is not a number by any rule of docs/files.md"


def _rules(style: TextFormat, *, counts: bool) -> Iterator[tuple[str, str]]:
    """What texts break a rule, in order, and what to say of them."""
    yield f"(?i:{NONE})?", f"an empty cell, NaN, NA or null: {PUBLIC}"
    for mark in THOUSANDS:
        said = f"{mark!r} between groups of three digits: add --thousands {mark!r}"
        if mark in ".,":
            said = f"'{mark}' before three digits: if it separates thousands, add --thousands '{mark}'"
            said += f"; if it is the decimal sign, add --decimal '{mark}'" if counts or mark != style.point else ""
        if mark != style.thousands:
            yield rf"[+-]?[0-9]{{1,3}}([{mark}][0-9]{{3}})+([.,][0-9]*)?", said
    exponent, other = "([eE][-+]?[0-9]+)?", "," if style.point == "." else "."
    yield (
        rf"[+-]?([0-9]+[{other}][0-9]*|[{other}][0-9]+){exponent}",
        f"'{other}' as a decimal sign: add --decimal '{other}'",
    )
    if counts:
        yield "(?i:[+-]?inf(inity)?)", "an infinity, which is no count"
        exponent = exponent.removesuffix("?")
        said = "an exponent such as 1e6, which often stands for a rounded number: write all digits"
        yield rf"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+){exponent}", said
        yield r"[+-]?([0-9]+[.,][0-9]*|[.,][0-9]+)", f"one with digits after the decimal point: {FOR_REALS}"
