# SPDX-License-Identifier: Apache-2.0
"""What a guarantee lets anybody believe after a release, from what they believed before."""

from __future__ import annotations

import math
from fractions import Fraction

from dpfast.errors import ParameterError
from dpfast.privacy import parameters
from dpfast.privacy.exact import Ball, ball, rounded_up
from dpfast.privacy.parameters import Real, shown


def posterior(prior: Real, epsilon: Real) -> tuple[float, float]:
    """The least and the largest belief in a statement about one unit after a release.

    They are p/(p + (1 - p) e^epsilon), rounded down, and p e^epsilon/(1 + p (e^epsilon - 1)),
    rounded up.
    prior: the belief p before, strictly between 0 and 1. epsilon: not negative. Both are taken
        exactly.
    Raises: DTypeError, ParameterError.
    Source: [KS14] Kasiviswanathan, Smith 2014; meaning.py, point 1, has the proof.
    """
    p = parameters.probability("prior", prior)
    e = parameters.exact_real("epsilon", epsilon, "finite and not negative", decimal=True)
    if e < 0:
        raise ParameterError(f"epsilon must not be negative, got {shown(epsilon)}")
    against = (1 - p) / p
    return _reciprocal(rounded_up(lambda: 1 + _times(against, e))), min(
        1.0, rounded_up(lambda: 1 / (1 + _times(against, -e)))
    )


def _times(odds: Fraction, loss: Fraction) -> Ball:
    return ball(odds) * ball(loss).exp()


def _reciprocal(value: float) -> float:
    """A double not above 1/value, value >= 1."""
    if math.isinf(value):
        return 0.0
    exact = 1 / Fraction(value)
    return near if (near := float(exact)) <= exact else math.nextafter(near, 0.0)
