# SPDX-License-Identifier: Apache-2.0
"""The Laplace mechanism on arrays of real values, rounded to a grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast.noise.mechanisms.equals import remembered
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.pure import Pure
from dpfast.noise.mechanisms.real import GRID, RealMechanism, grid_exponent
from dpfast.privacy.exact.laplace import Laplace as ExactLaplace
from dpfast.privacy.parameters import Real
from dpfast.privacy.sensitivity import Sensitivity

NARROW_RATIO = 2**44


class Laplace(Pure, RealMechanism):
    """Adds real Laplace noise of scale b = sensitivity/epsilon, rounds the sum to a grid, exactly.

    A release of x is granularity * floor((x + noise)/granularity + 1/2), for ideal real noise.
    Rounding is post-processing: epsilon is spent exactly as stated, whatever the granularity.

    epsilon: int, Fraction, Decimal, float (its shortest decimal) or text; spent by every release.
    sensitivity: of the same kinds, a float exactly, or a Sensitivity; L1: how much one unit of
        privacy can change all values of the array together, *as doubles*. A sum in floats changes
        by more than its real-number formula says [Cas22]; dpfast.fixed_point_sum changes by what
        its formula says.
    granularity: a power of two; by default the largest that is at most b * 2^-20.
    adjacency, unit: as for DiscreteLaplace.

    Privacy: each release is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError (also for b/granularity outside 2^-60 to 2^60).
    Source: [DMNS06]; [Mir12] for why doubles need a grid; csrc/laplace.md.

    >>> mechanism = dpfast.Laplace(epsilon=1, sensitivity=5)
    >>> noisy = mechanism.release(np.array([2.5, 0.0, 70.25]))
    >>> noisy.dtype, mechanism.granularity, round(mechanism.interval(0.95), 2)
    (dtype('float64'), 3.814697265625e-06, 14.98)
    """

    LAW: ClassVar[str] = "laplace"
    NAME: ClassVar[str] = "laplace"
    _exponent: int = GRID()

    @remembered
    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        granularity: Real | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        super().__init__(epsilon, sensitivity, adjacency=adjacency, unit=unit)
        self._keep(_exponent=grid_exponent(self._scale**2, granularity))

    @property
    def _ratio(self) -> Fraction:
        return self._scale / Fraction(2) ** self._exponent

    @property
    def _ratio_squared(self) -> Fraction:
        return self._ratio**2

    @lockfree_property
    def _law(self) -> ExactLaplace:
        return ExactLaplace(self._ratio)

    @lockfree_property
    def _narrow(self) -> bool:
        return self._ratio <= NARROW_RATIO

    @property
    def _plan_scale(self) -> Fraction:
        return self._ratio

    @property
    def _variance_in_steps(self) -> float:
        # P(|K| >= k) = exp(-(k - 1/2) r): the sum of (2k - 1) P(|K| >= k)
        r = float(1 / self._ratio)
        return math.exp(-r / 2) * (1 + math.exp(-r)) / math.expm1(-r) ** 2

    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        r = float(1 / self._ratio)
        with np.errstate(over="ignore"):
            beyond = np.exp(-r * (np.maximum(k, 1) - 0.5)) * -math.expm1(-r) / 2
        return np.where(k == 0, -math.expm1(-r / 2), beyond)[()]

    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        with np.errstate(over="ignore"):
            tail = np.exp(-float(1 / self._ratio) * np.abs(k + 0.5)) / 2
        return np.where(k < 0, tail, 1 - tail)[()]
