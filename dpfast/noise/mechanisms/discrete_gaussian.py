# SPDX-License-Identifier: Apache-2.0
"""The discrete Gaussian mechanism on arrays of integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.equals import remembered
from dpfast.noise.mechanisms.integer import IntegerMechanism
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.sigma import Sigma
from dpfast.privacy import exact, gaussian
from dpfast.privacy.exact.discrete_gaussian import DiscreteGaussian as ExactDiscreteGaussian
from dpfast.privacy.parameters import Real, given
from dpfast.privacy.sensitivity import Sensitivity

LEAST_SQUARED, MOST_SQUARED = Fraction(1, 10**6), Fraction(10**18)


class DiscreteGaussian(Sigma, IntegerMechanism):
    """Adds integer noise with P(X = k) proportional to exp(-k^2/(2 sigma^2)), exactly.

    sigma or sigma_squared: int, float, Fraction or Decimal, taken exactly; sigma from 1e-3 to 1e9.
    sensitivity: a Sensitivity, for the guarantee and records. `from_zcdp` and `calibrated` find
        sigma from it.

    Privacy: each release is rho-zCDP with rho = l2_squared/(2 sigma^2), and (epsilon,
        delta(epsilon))-DP: exactly, from (l0, linf). From an L2 norm alone it is so through zCDP.
        The law is not rotation invariant, and the theorem for one cell does not hold for norms.
    Raises: DTypeError, ParameterError.
    Source: [CKS20] Canonne, Kamath, Steinke 2020, Definition 1, Theorems 4 and 7;
        csrc/discrete_gaussian.md.

    >>> cells = dpfast.Sensitivity(l0=4, linf=1)  # a person is in at most 4 cells, with 1 each
    >>> mechanism = dpfast.DiscreteGaussian(sigma=10, sensitivity=cells)
    >>> mechanism.release([12, 0, 7, 31]).dtype, mechanism.rho()
    (dtype('int64'), Fraction(1, 50))
    """

    LAW: ClassVar[str] = "discrete_gaussian"
    NAME: ClassVar[str] = "discrete_gaussian"
    SCALES = "1e-3", "1e9"

    @remembered
    def __init__(
        self, sigma: Real | None = None, *, sigma_squared: Real | None = None, sensitivity: Sensitivity | None = None
    ) -> None:
        super().__init__(sigma, sigma_squared=sigma_squared, sensitivity=sensitivity)
        if not LEAST_SQUARED <= self.sigma_squared <= MOST_SQUARED:
            raise ParameterError(
                f"sigma must lie between 1e-3 and 1e9, {given(sigma=sigma, sigma_squared=sigma_squared)}"
            )

    @staticmethod
    def _delta(epsilon: Fraction, sensitivity: Sensitivity, sigma_squared: Fraction) -> float:
        return gaussian.discrete_delta_of(epsilon, sensitivity, sigma_squared)

    @lockfree_property
    def _law(self) -> ExactDiscreteGaussian:
        return ExactDiscreteGaussian(self.sigma_squared)

    @property
    def _narrow(self) -> bool:
        return True

    @property
    def _plan_scale(self) -> Fraction:
        return self.sigma_squared

    @lockfree_property
    def variance(self) -> float:
        """Nearly sigma^2, and below it: by less than 1e-6 of it for sigma >= 1.

        >>> dpfast.DiscreteGaussian(sigma=10).variance
        100.0
        """
        return self._law.variance()

    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        return np.exp(-(k**2) / (2 * float(self.sigma_squared))) / self._theta

    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        def upto(j: float) -> float:
            return self._law.upper(-int(j)) if j < 0 else 1 - self._law.upper(int(j) + 1)

        return np.vectorize(upto, otypes=[np.float64])(np.clip(k, -(2.0**60), 2.0**60))[()]

    @lockfree_property
    def _theta(self) -> float:
        return exact.nearest_double(256, lambda: self._law.theta(256))
