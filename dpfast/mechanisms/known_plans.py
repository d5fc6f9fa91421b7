# SPDX-License-Identifier: Apache-2.0
"""Whether this machine makes a plan that is known: C's known answers have plans of their own."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from dpfast import _native


@cache
def check_plan(law: str) -> None:
    """Make one plan of csrc/known.h, if it has one of this law.

    Raises: SelfCheckError (it differs in a bit).
    """
    from dpfast.mechanisms.discrete_gaussian import DiscreteGaussian  # which import this module
    from dpfast.mechanisms.discrete_laplace import DiscreteLaplace
    from dpfast.mechanisms.gaussian import Gaussian
    from dpfast.mechanisms.laplace import Laplace

    short, long = (Fraction(2) ** power - Fraction(1, 3) for power in (20, 21))  # scales in known.h
    known = (
        DiscreteLaplace(1, short), Laplace(1, long, granularity=1), Gaussian(long, granularity=1), DiscreteGaussian(short),
    )  # fmt: skip
    for mechanism in known:
        if law == mechanism.LAW:
            _native.Plan(law, **mechanism._constants()).check()  # noqa: SLF001
