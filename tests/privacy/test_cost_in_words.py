# SPDX-License-Identifier: Apache-2.0
"""One cost, which is known by several figures, is not written as if they added up."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpfast.privacy.formatting import cost

ONE, TINY, RHO = Fraction(1), Fraction(1, 10**6), Fraction(1, 2)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"epsilon": ONE}, "epsilon 1"),
        ({"rho": RHO}, "rho 1/2"),
        ({"epsilon": ONE, "delta": TINY}, "epsilon 1, delta 1/1000000"),
        ({"rho": RHO, "delta": TINY}, "rho 1/2, delta 1/1000000"),
        ({"epsilon": ONE, "delta": TINY, "rho": RHO}, "epsilon 1, delta 1/1000000 (or, counted in rho: 1/2)"),
        ({"epsilon": ONE, "rho": RHO}, "epsilon 1 (or, counted in rho: 1/2)"),
    ],
)
def test_a_cost_in_words(figures, said) -> None:
    assert cost(figures, str) == said
