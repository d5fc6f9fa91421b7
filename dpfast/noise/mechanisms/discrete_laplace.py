# SPDX-License-Identifier: Apache-2.0
"""The discrete Laplace (two-sided geometric) mechanism on arrays of integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.equals import remembered
from dpfast.noise.mechanisms.integer import IntegerMechanism, IntegerNoise
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.pure import MOST_SCALE, Pure
from dpfast.privacy.exact.discrete_laplace import DiscreteLaplace as ExactDiscreteLaplace
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.sensitivity import Sensitivity

NARROW_SCALE = 2**54
LEAST_SCALE = Fraction(1, 2**60)


class GeometricNoise(Pure, IntegerNoise):
    """What the two geometric laws share: a magnitude, and so all but its sign and weight."""

    SCALES = "2**-60", "2**60"

    @remembered
    def __init__(
        self, epsilon: Real, sensitivity: Real | Sensitivity, *, adjacency: str | None = None, unit: str | None = None
    ) -> None:
        super().__init__(epsilon, sensitivity, adjacency=adjacency, unit=unit)
        if not LEAST_SCALE <= self._scale <= MOST_SCALE:
            raise ParameterError(
                f"epsilon must be at least 2**-60 and at most 2**60 times the sensitivity, {shown(self.sensitivity)} in L1, "
                f"got {shown(epsilon)}"
            )

    @lockfree_property
    def _narrow(self) -> bool:
        return self._scale <= NARROW_SCALE

    @property
    def _plan_scale(self) -> Fraction:
        return self._scale


class DiscreteLaplace(GeometricNoise, IntegerMechanism):
    """Adds noise with P(X = k) = (1-q)/(1+q) q^|k|, q = exp(-epsilon/sensitivity), exactly.

    epsilon: int, Fraction, Decimal, float (its shortest decimal) or text; spent by every release.
    sensitivity: of the same kinds, a float exactly; L1, in counts: how much one unit of privacy can
        change all cells of the array together. Or a Sensitivity, which says adjacency and unit as
        well; from its l0 and linf many releases cost less.
    adjacency: "add-remove" or "substitution". unit: whose privacy, such as "person". Both are
        recorded and shown; the sensitivity must have been found for them.

    Privacy: each release is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError (also for a scale sensitivity/epsilon outside 2^-60 to 2^60).
    Source: [GRS09] Ghosh, Roughgarden, Sundararajan 2009, section 2; csrc/discrete_laplace.md.

    >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
    >>> noisy = mechanism.release(np.array([12, 0, 7]), lower=0)
    >>> noisy.dtype, noisy.shape, mechanism.interval(0.95)
    (dtype('int64'), (3,), 3)
    """

    LAW: ClassVar[str] = "discrete_laplace"
    NAME: ClassVar[str] = "discrete_laplace"

    @lockfree_property
    def _law(self) -> ExactDiscreteLaplace:
        return ExactDiscreteLaplace(1 / self._scale)

    @property
    def variance(self) -> float:
        """2q / (1-q)^2, which is 2a/(a-1)^2 for a = exp(epsilon/sensitivity).

        >>> round(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).variance, 3)
        1.841
        """
        rate = float(1 / self._scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        rate = float(1 / self._scale)
        return np.tanh(rate / 2) * np.exp(-rate * np.abs(k))

    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        rate = float(1 / self._scale)
        tail = np.exp(-rate * np.where(k < 0, -k, k + 1)) / (1 + math.exp(-rate))
        return np.where(k < 0, tail, 1 - tail)[()]
