# SPDX-License-Identifier: Apache-2.0
"""Numbers for a reader: exact where they are short, and never less loss than there is."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpfast.privacy import formatting
from dpfast.privacy.formatting import approximate, exact, output, percent, plain, rounded, times

POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=Fraction(10**30))


def number(text: str) -> Fraction:
    return Fraction(text.replace(",", "").removesuffix(" %"))


@given(POSITIVE, st.integers(1, 12))
def test_rounded_is_on_its_side_and_close(value: Fraction, digits: int) -> None:
    up, down = (number(rounded(value, up=side, digits=digits)) for side in (True, False))
    assert down <= value <= up
    assert up - down <= value * Fraction(10) ** (1 - digits)


@given(POSITIVE)
def test_plain_is_exact_or_rounded_up(value: Fraction) -> None:
    assert value <= number(plain(value)) <= value * (1 + Fraction(1, 10**5))


@given(POSITIVE | st.floats(min_value=1e-300, max_value=1e300).map(Fraction))
def test_exact_is_the_value_or_the_name_of_its_double(value: Fraction) -> None:
    text = exact(value)
    assert Fraction(text) == value or Fraction(float(text)) == value


@example(1 - Fraction(985, 10**29))
@given(st.fractions(min_value=0, max_value=1))
def test_percent_is_rounded_outwards(value: Fraction) -> None:
    low, high = number(percent(value, up=False)) / 100, number(percent(value, up=True)) / 100
    assert 0 <= low <= value <= high <= 1


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=20))
def test_times_is_not_below_the_ratio(epsilon: Fraction) -> None:
    ratio = float(number(times(epsilon).split()[0]))
    assert math.exp(epsilon) * (1 - 1e-15) <= ratio <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1, 3), "1/3"), (Fraction(1, 4), "0.25"), (Fraction(1000), "1,000"), (Fraction(1, 10**6), "1e-6"),
        (Fraction(10**20 + 1, 10**21), "0.100001"), (Fraction(0), "0"),
    ],
)  # fmt: skip
def test_plain(value: Fraction, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1.234567891, 6, "1.23457"), (1e-6, 3, "1e-6"), (1_500_000.0, 3, "1.5e6"), (1414213.56, 6, "1,414,214"),
        (0.0, 3, "0"), (-0.5, 3, "-0.5"), (math.inf, 3, "inf"), (1e300, 3, "1e300"), (999.96, 4, "1,000"),
    ],
)  # fmt: skip
def test_approximate(value: float, digits: int, text: str) -> None:
    assert approximate(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (-0.0, "-0.0"), (0.0, "0"), (2.0**-40, "2**-40"), (0.5, "0.5"), (1e6, "1,000,000")]
)
def test_output(value: float, text: str) -> None:
    assert output(value) == text


def test_html_is_escaped() -> None:
    page = formatting.html_table([["<a>", "<b>"]], ["<c>", "<d>"], caption="<e>")
    assert not any(f"<{letter}>" in page for letter in "abcde")
    assert all(f"&lt;{letter}&gt;" in page for letter in "abcde")
    assert formatting.html_table([["a", "b"]]) == "<table><tr><th>a</th><td>b</td></tr></table>"
