# SPDX-License-Identifier: Apache-2.0
"""The Laplace mechanism on arrays of real values, rounded to a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast import _native, exact
from dpfast.mechanisms.discrete_laplace import wide_constants
from dpfast.mechanisms.lockfree_property import lockfree_property
from dpfast.mechanisms.pure import Pure
from dpfast.mechanisms.real import SHORT_RATIO, RealMechanism, grid_exponent, steps
from dpfast.privacy import parameters

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.privacy.parameters import Real
    from dpfast.privacy.sensitivity import Sensitivity

# Ratios of scale and granularity at which a tier hands over to the next: csrc/laplace.md, section 2, derives them.
DOUBLE_RATIO = 2**44
CONSTANT_WORK_DOUBLE_RATIO = 2**17
CONSTANT_WORK_DOUBLE_DOUBLE_RATIO = 2**40
NARROW_RATIO = 2**44


@dataclass(frozen=True, repr=False)
class Laplace(Pure, RealMechanism):
    """Adds real Laplace noise of scale b = sensitivity/epsilon and rounds the sum to a grid, exactly.

    A release of x is granularity * floor((x + noise)/granularity + 1/2), for ideal real noise: rounding comes
    after the noise, so it is post-processing, and epsilon is spent exactly as stated whatever the granularity.

    epsilon: int, float, Fraction or Decimal, taken exactly; spent once by every release.
    sensitivity: the same kinds; L1, of the whole array jointly: how much one unit of privacy can change all
        values together. Of the values *as doubles*: a sum in floats changes by more than its real-number formula
        says [Cas22]; dpfast.fixed_point_sum is the way out. Or a Sensitivity.
    granularity: a power of two; by default the largest that is at most b * 2^-20.
    adjacency, unit: as for DiscreteLaplace.

    Privacy: each release is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError (also for b/granularity outside 2^-60 to 2^60).
    Source: [DMNS06]; [Mir12] for why doubles need a grid; csrc/laplace.md.
    """

    LAW: ClassVar[str] = "laplace"
    NAME: ClassVar[str] = "laplace"
    epsilon: Fraction
    sensitivity: Fraction
    _exponent: int
    adjacency: str
    unit: str

    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        granularity: Real | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        scale = self._set_parameters(epsilon, sensitivity, adjacency, unit)
        object.__setattr__(self, "_exponent", grid_exponent(scale**2, granularity))

    def __reduce__(self) -> tuple[object, ...]:
        sensitivity, adjacency, unit = self._whom
        made = partial(type(self), granularity=self.granularity, adjacency=adjacency, unit=unit)
        return made, (self.epsilon, sensitivity)

    @property
    def _record(self) -> tuple[str | int, ...]:
        return self.NAME, *self._exact_parameters, self._exponent

    @property
    def _parameters(self) -> dict[str, object]:
        return {**super()._parameters, "granularity": self.granularity}

    def _facts(self) -> dict[str, str]:
        return {
            **super()._facts(),
            "granularity": f"2**{self._exponent}",
            "standard deviation": f"{self.stddev:.6g}",
            "95 % interval": f"±{self.interval():.6g}",
        }

    # ------------------------------------------------------------------ in intervals and in C

    @property
    def _ratio(self) -> Fraction:
        return self._scale / Fraction(2) ** self._exponent

    @property
    def _ratio_squared(self) -> Fraction:
        return self._ratio**2

    @lockfree_property
    def _law(self) -> exact.Laplace:
        return exact.Laplace(self._ratio)

    @lockfree_property
    def _narrow(self) -> bool:
        return self._ratio <= NARROW_RATIO

    @lockfree_property
    def _constant_work_plan(self) -> _native.Plan:
        return _native.Plan(self.LAW, **self._constants())

    @property
    def _bulk_plan(self) -> _native.Plan:
        return self._constant_work_plan

    def _constants(self) -> dict[str, Any]:
        ratio = self._ratio
        t, relative_error = float(ratio), 6 * 2.0**-52
        constant_work = {
            CONSTANT_WORK_DOUBLE_RATIO: _native.DOUBLE,
            CONSTANT_WORK_DOUBLE_DOUBLE_RATIO: _native.DOUBLE_DOUBLE,
        }
        return {
            "width": 32 if ratio <= SHORT_RATIO else 64,
            "bulk": _native.DOUBLE if ratio <= DOUBLE_RATIO else _native.DOUBLE_DOUBLE,
            "constant_work": next((tier for limit, tier in constant_work.items() if ratio <= limit), _native.INTEGER),
            "t": t,
            "t_low": float(ratio - Fraction(t)),
            "margin": 0.5 - relative_error * (t + 2),
            "relative_error": relative_error,
            "margin32": 0.5 - relative_error * (23 * t + 2),  # y < t (32 ln 2)
            "half_cell": t / 2 * (1 + 2.0**-20),
            "double_double_margin": 0.5 - t * 2.0**-72 - 2.0**-38,
            **wide_constants(ratio),
            "wide_c": 2**20,
        }

    # ------------------------------------------------------------------ the law

    @property
    def variance(self) -> float:
        """Of result - x, for x on the grid. For any other x, E(result - x)^2 is at most (sqrt(2) b + granularity/2)^2."""
        return self._variance_in_steps * self.granularity * self.granularity

    @property
    def stddev(self) -> float:
        return math.sqrt(self._variance_in_steps) * self.granularity

    @property
    def _variance_in_steps(self) -> float:
        # P(|K| >= k) = exp(-(k - 1/2) r): the sum of (2k - 1) P(|K| >= k)
        r = float(1 / self._ratio)
        return math.exp(-r / 2) * (1 + math.exp(-r)) / math.expm1(-r) ** 2

    def pmf(self, noise: npt.ArrayLike) -> Any:
        """P(result - x = noise) for x on the grid and multiples of the granularity, in doubles: about 13 digits.

        For any other x, the noise is nearest(x) + k granularity - x, and its probability at each k lies within
        a factor exp(granularity/(2 b)) of that on the grid.
        """
        r, k = float(1 / self._ratio), np.abs(steps("noise", noise, self.granularity, exactly=True))
        with np.errstate(over="ignore"):
            beyond = np.exp(-r * (np.maximum(k, 1) - 0.5)) * -math.expm1(-r) / 2
        return np.where(k == 0, -math.expm1(-r / 2), beyond)[()]

    def cdf(self, noise: npt.ArrayLike) -> Any:
        """P(result - x <= noise) for x on the grid, in doubles: about 13 digits.

        For any other x it lies between the values at noise - granularity and at noise + granularity.
        """
        r, k = float(1 / self._ratio), np.floor(steps("noise", noise, self.granularity))
        with np.errstate(over="ignore"):
            tail = np.exp(-r * np.abs(k + 0.5)) / 2
        return np.where(k < 0, tail, 1 - tail)[()]

    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> float:
        """The least half-width h that holds all of `cells` independent cells with probability `confidence`, exactly.

        |result - x| <= h, a multiple of the granularity, for x on the grid; for any other x, h + granularity holds them.
        Before clamping. Source: usefulness bounds of the Laplace mechanism, [DMNS06].
        """
        exact_confidence = parameters.probability("confidence", confidence)
        return self._law.half_width(exact_confidence, parameters.whole("cells", cells, 1)) * self.granularity
