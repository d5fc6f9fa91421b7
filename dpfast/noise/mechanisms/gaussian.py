# SPDX-License-Identifier: Apache-2.0
"""The Gaussian mechanism on arrays of real values, rounded to a grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.equals import remembered
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.real import GRID, RealMechanism, grid_exponent
from dpfast.noise.mechanisms.sigma import Sigma
from dpfast.privacy import gaussian
from dpfast.privacy.exact.gaussian import Gaussian as ExactGaussian
from dpfast.privacy.parameters import Real
from dpfast.privacy.sensitivity import Sensitivity

CONSTANT_WORK_RATIO = 2**40  # above it the double-double tier leaves 2^-30 or more open
NARROW_RATIO = 2**48


class Gaussian(Sigma, RealMechanism):
    """Adds real Gaussian noise of standard deviation sigma and rounds the sum to a grid, exactly.

    A release of x is granularity * floor((x + noise)/granularity + 1/2), for ideal real noise.
    Rounding comes after the noise: it is post-processing and costs no privacy at any granularity.

    sigma: int, float, Fraction or Decimal, taken exactly; or sigma_squared, of these kinds.
    granularity: a power of two; by default the largest that is at most sigma * 2^-20.
    sensitivity: a Sensitivity (in L2) of the values *as doubles*: see Laplace. `from_zcdp` and
        `calibrated` find sigma from it.

    Privacy: each release is rho-zCDP with rho = l2_squared/(2 sigma^2), and
        (epsilon, delta(epsilon))-DP by the analytic Gaussian mechanism.
    Raises: DTypeError, ParameterError (also for sigma/granularity outside 2^-60 to 2^60).
    Source: [BW18] Balle, Wang 2018, Theorem 8; [BS16] Bun, Steinke 2016, Proposition 1.6;
        csrc/gaussian.md.

    >>> cells = dpfast.Sensitivity.from_l2(25)  # the norm of what one person changes is at most 5
    >>> mechanism = dpfast.Gaussian.from_zcdp("0.1", cells)
    >>> mechanism.release(np.array([2.5, 0.0])).dtype, mechanism.rho()
    (dtype('float64'), Fraction(1, 10))
    """

    LAW: ClassVar[str] = "gaussian"
    GDP = True
    NAME: ClassVar[str] = "gaussian"
    _exponent: int = GRID()

    @remembered
    def __init__(
        self,
        sigma: Real | None = None,
        *,
        sigma_squared: Real | None = None,
        granularity: Real | None = None,
        sensitivity: Sensitivity | None = None,
    ) -> None:
        super().__init__(sigma, sigma_squared=sigma_squared, sensitivity=sensitivity)
        self._keep(_exponent=grid_exponent(self.sigma_squared, granularity))

    @staticmethod
    def _delta(epsilon: Fraction, sensitivity: Sensitivity, sigma_squared: Fraction) -> float:
        return gaussian.gaussian_delta(epsilon, sensitivity.l2_squared, sigma_squared)

    _RANGE: ClassVar[dict[str, float]] = {"least": 2.0**-900, "most": 2.0**900}

    @classmethod
    def _least_sigma(cls, epsilon: Fraction, delta: Fraction, change: Sensitivity) -> Fraction:
        """One that a ledger by="gdp" pays for to the last of several releases."""
        least = super()._least_sigma(epsilon, delta, change)
        return gaussian.within_mu_squared_of(epsilon, delta, change.l2_squared, least)

    @property
    def _ratio_squared(self) -> Fraction:
        return self.sigma_squared / Fraction(4) ** self._exponent

    @lockfree_property
    def _law(self) -> ExactGaussian:
        return ExactGaussian(self._ratio_squared)

    @lockfree_property
    def _narrow(self) -> bool:
        return self._ratio_squared <= NARROW_RATIO**2

    @property
    def _plan_scale(self) -> Fraction:
        return self._ratio_squared

    def _check_constant_time(self) -> None:
        super()._check_constant_time()
        if self._ratio_squared > CONSTANT_WORK_RATIO**2:
            raise ParameterError(
                f"constant_time needs a granularity of at least sigma * 2**-40, got 2**{self._exponent} for "
                f"sigma={self.sigma:.6g}: on a finer grid too many draws take longer"
            )

    @lockfree_property
    def _variance_in_steps(self) -> float:
        ratio = math.sqrt(self._ratio_squared)
        if ratio >= 2:  # but for a relative 4 exp(-2 pi^2 ratio^2) and less
            return float(self._ratio_squared) + 1 / 12
        # P(|K| >= k) = erfc((k - 1/2)/(sqrt(2) ratio)): the sum of (2k - 1) P(|K| >= k)
        terms = ((2 * k - 1) * math.erfc((k - 0.5) / (math.sqrt(2) * ratio)) for k in range(1, 90))
        return math.fsum(terms)

    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        # A difference of erfc cancels where a step is small beside sigma. There it is the density,
        # by the midpoint rule and its first correction, (h^2/24)(x^2 - 1); the next is below h^4.
        h = 1 / math.sqrt(self._ratio_squared)
        x = k * h
        if h < 2.0**-12:
            return h / math.sqrt(2 * math.pi) * np.exp(-x * x / 2) * (1 + h * h / 24 * (x * x - 1))
        return ((_erfc((x - h / 2) / math.sqrt(2)) - _erfc((x + h / 2) / math.sqrt(2))) / 2)[()]

    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        return _erfc(-(k + 0.5) / math.sqrt(2 * self._ratio_squared))[()] / 2


_erfc = np.vectorize(math.erfc, otypes=[np.float64])
