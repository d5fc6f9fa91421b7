# SPDX-License-Identifier: Apache-2.0
"""`missing` and `clamp`: public numbers that replace cells before the noise, and their rules.

The sensitivity of a release is that of the values with `missing` put in. If one unit turns a cell
from a value into nothing, or back, this cell changes by the distance between the value and
`missing`. For values in the clamp [a, b] the distance is at most max(b - missing, missing - a). So
the stated change of one cell must cover this distance. `missing` is put in first, and then clamped
like any value: clamping brings no two values further apart.

An integer mechanism takes 0 freely. If a table of counts has no entry, nobody was counted: the
absent count is a 0, and the sensitivity of the counts covers it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, TypeAlias

from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy import parameters
from dpfast.privacy.parameters import shown

Ends: TypeAlias = tuple[Fraction, Fraction]


class Inputs(NamedTuple):
    """Public numbers, exact: the ends of the clamp, and the value of a missing cell."""

    clamp: Ends | None
    missing: Fraction | None

    def named(self) -> dict[str, str]:
        """Those that are given, as texts: terms of a seal, for they decide what the values are."""
        ends = {} if self.clamp is None else {"clamp": ", ".join(map(str, self.clamp))}
        return ends if self.missing is None else {**ends, "missing": str(self.missing)}


NOTHING = Inputs(None, None)


def inputs(clamp: object, missing: object, cell_squared: Fraction | None, *, integers: bool) -> Inputs:
    """The exact `clamp` and `missing`, if a mechanism may take them.

    cell_squared: the square of the change of one cell that the mechanism's sensitivity states:
        linf; or the L1 or L2 number if that alone is known. None if no sensitivity is stated.
    Raises: DTypeError, ParameterError.
    """
    ends = None if clamp is None else _ends(clamp, integers=integers)
    if missing is None:
        return Inputs(ends, None)
    instead = _number("missing", missing, integers=integers)
    if integers and instead == 0:
        return Inputs(ends, instead)
    if cell_squared is None:
        raise ParameterError(
            "missing must go to a mechanism with a sensitivity, which says how far one unit may move a cell"
            + (": without one, missing=0 alone is for counts" if integers else "")
        )
    if ends is None:
        raise ParameterError(
            "missing must come with clamp, public ends (a, b) of the values: one unit may turn a cell from a value into "
            f"nothing, and without ends no sensitivity covers how far the value is from {shown(missing)}"
        )
    far = max(ends[1] - instead, instead - ends[0])
    if far**2 > cell_squared:
        raise ParameterError(
            f"missing={shown(missing)} may be {shown(far)} away from a value within clamp=({shown(ends[0])}, "
            f"{shown(ends[1])}), and the sensitivity must cover that: it states a smaller change of one cell. Give nearer "
            "ends, or a mechanism for the larger change"
        )
    return Inputs(ends, instead)


def _number(name: str, value: object, *, integers: bool) -> Fraction:
    return Fraction(parameters.whole(name, value)) if integers else parameters.exact_real(name, value)


def _ends(clamp: object, *, integers: bool) -> Ends:
    if not isinstance(clamp, (tuple, list)) or len(clamp) != 2:
        raise DTypeError(f"clamp must be a pair (a, b) of public numbers, not {type(clamp).__name__}")
    low, high = (_number(f"clamp[{i}]", end, integers=integers) for i, end in enumerate(clamp))
    if low > high:
        raise ParameterError(f"clamp must be a pair (a, b) with a <= b, got ({shown(clamp[0])}, {shown(clamp[1])})")
    return low, high
