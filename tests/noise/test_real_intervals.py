# SPDX-License-Identifier: Apache-2.0
"""Intervals of real mechanisms: they hold for every value, on the grid and between its points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from laws import HALF, LAWS, laplace, numbers

from dpfast import Gaussian, Laplace, Snapping
from dpfast.errors import DTypeError

REAL = [law for law in LAWS if law.real]
STATED = [(Fraction(p), n) for p in ("1/1000", "1/2", "0.9", "0.95", "0.99") for n in (1, 1000)]
STATED.append((1 - Fraction(1, 10**12), 1))
NEXT = Fraction(1, 2**200)


def on_grid_of(law: Any, ratio: Fraction, exponent: int) -> Any:
    """This ratio of scale and granularity, with granularity 2^exponent."""
    grid = Fraction(2) ** exponent
    return laplace(ratio, exponent) if law.name == "laplace" else Gaussian(ratio * grid, granularity=grid)


def insides(of: Any, h: Fraction) -> Iterator[mpmath.mpf]:
    """P(|result - x| <= h), in steps of the grid, for many x = f, the worst ones first, exactly.

    A result K is within h of f from ceil(f - h) to floor(f + h), and K is at most k if the noise is
    below k + 1/2 - f. Worst are values where one more result is just out of reach.
    """

    def inside(f: Fraction) -> mpmath.mpf:
        return of.below(math.floor(f + h) + HALF - f) - of.below(math.ceil(f - h) - HALF - f)

    just_out = ((side * (h + NEXT) + HALF) % 1 - HALF for side in (-1, 1))
    return map(inside, (*just_out, *(Fraction(i, 32) for i in range(-16, 17))))


@pytest.mark.parametrize("law", REAL, ids=str)
@pytest.mark.parametrize("ratio", numbers("2^-60 1/3 1/2 1 20/7 1000 2^60"), ids=str)
def test_an_interval_holds_for_every_value(law: Any, ratio: Fraction) -> None:
    """In all cells at once; half a step less would not do, nor would the next double below."""
    mech, of = law.make(ratio), law.reference(ratio)
    with mpmath.workprec(400):  # beside 2^-260, by which the worst values differ at the largest scale
        for confidence, cells in STATED:
            found = mech.interval(confidence, cells=cells)
            h, less = Fraction(found), Fraction(math.nextafter(found, 0))
            one = (mpmath.mpf(confidence.numerator) / confidence.denominator) ** (mpmath.mpf(1) / cells)
            assert min(insides(of, h)) >= one
            assert any(one > each for each in insides(of, less - HALF))
            assert 2 * of.below(h - HALF) - 1 >= one > 2 * of.below(less - HALF) - 1


@pytest.mark.parametrize("law", REAL, ids=str)
def test_an_interval_is_rounded_up_among_subnormal_doubles(law: Any) -> None:
    """The doubles are the grid itself, 2^-1074 apart."""
    exponent, ratio = -1074, Fraction(7, 5)
    found = on_grid_of(law, ratio, exponent).interval(0.95)
    exact = Fraction(law.make(ratio).interval(0.95))
    assert Fraction(found) / Fraction(2) ** exponent == math.ceil(exact) > exact


@pytest.mark.parametrize(
    "mechanism", [Laplace(1, 1, granularity=2), Snapping(1, 1, bound=1000), Snapping("0.9", 1, bound=1024)], ids=repr
)
def test_what_a_repr_states_holds_for_every_value(mechanism: Any) -> None:
    """Six digits, rounded up."""
    half = Fraction(repr(mechanism).partition("95 % interval=±")[2].partition(",")[0])
    grid = Fraction(mechanism.granularity)
    with mpmath.workprec(400):
        assert min(insides(REAL[0].reference(mechanism.sensitivity / mechanism.epsilon / grid), half / grid)) >= 0.95
    assert 0 <= half - Fraction(mechanism.interval()) <= half / 10**5


@pytest.mark.parametrize("law", REAL, ids=str)
def test_on_the_grid_it_is_a_step_or_less(law: Any) -> None:
    """The least multiple of the grid that holds there: the other's floor."""
    for ratio in numbers("1/3 1 20/7 1000"):
        mech, of = on_grid_of(law, ratio, -3), law.reference(ratio)
        for confidence, cells in STATED:
            k = Fraction(mech.interval(confidence, cells=cells, on_grid=True)) * 8
            assert k == math.floor(Fraction(mech.interval(confidence, cells=cells)) * 8)
            with mpmath.workprec(400):
                one = mpmath.mpf(confidence.numerator) / confidence.denominator
                inside = [2 * of.below(h + HALF) - 1 if h >= 0 else -1 for h in (k, k - 1)]
                assert inside[0] ** cells >= one
                assert inside[1] < one ** (mpmath.mpf(1) / cells)


def test_on_grid_is_a_flag() -> None:
    with pytest.raises(DTypeError, match="on_grid must be True or False"):
        Laplace(1, 1).interval(on_grid=1)  # type: ignore[arg-type]
