# SPDX-License-Identifier: Apache-2.0
"""The discrete Laplace (two-sided geometric) mechanism on arrays of integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.equals import remembered
from dpfast.noise.mechanisms.integer import IntegerMechanism, IntegerNoise
from dpfast.noise.mechanisms.known_plans import KNOWN, SHORT
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.pure import MOST_SCALE, Pure
from dpfast.privacy.exact.discrete_laplace import DiscreteLaplace as ExactDiscreteLaplace
from dpfast.privacy.exact.one_sided_geometric import OneSidedGeometric as ExactOneSidedGeometric
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.sensitivity import Sensitivity

# Scales at which a tier, or a word, hands over to the next; functions of the parameters alone. The
# widths belong to the stream: csrc/discrete_laplace.md, section 2, derives them.
TABLE_SCALE = 2**7
FLOAT_SCALE = 2**12
SHORT_SCALE = 2**20
DOUBLE_SCALE = 2**43
CONSTANT_WORK_DOUBLE_SCALE = 2**17
CONSTANT_WORK_DOUBLE_DOUBLE_SCALE = 2**40
NARROW_SCALE = 2**54
LEAST_SCALE = Fraction(1, 2**60)
SHORT_ERROR = 3 * 2.0**-37  # level 0 of 32-bit words is wrong by less, for each unit of t + 1


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
    def _tabled(self) -> bool:
        return self._scale <= TABLE_SCALE

    def _constants(self) -> dict[str, Any]:
        return constants(self._law)


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


KNOWN[DiscreteLaplace.LAW] = lambda: DiscreteLaplace(1, SHORT)


def constants(law: ExactOneSidedGeometric) -> dict[str, Any]:
    """The plan of a law that rounds t (C - ln U) down, derived in csrc/discrete_laplace.md."""
    scale = law.scale
    t = float(scale)

    def tier(*upto: tuple[int | Fraction, int]) -> int:
        return next((tier for limit, tier in upto if scale <= limit), _native.INTEGER)

    offset = law.offset_near()
    c45 = math.floor(offset * 2**45)
    relative_error = 5 * 2.0**-52
    return {
        "width": 16 if scale <= TABLE_SCALE else 32 if scale <= SHORT_SCALE else 64,
        "bulk": tier(
            (TABLE_SCALE, _native.TABLE),
            (FLOAT_SCALE, _native.FLOAT),
            (DOUBLE_SCALE, _native.DOUBLE),
            (MOST_SCALE, _native.DOUBLE_DOUBLE),
        ),
        "constant_work": tier(
            (CONSTANT_WORK_DOUBLE_SCALE, _native.DOUBLE), (CONSTANT_WORK_DOUBLE_DOUBLE_SCALE, _native.DOUBLE_DOUBLE)
        ),
        "t": t,
        "t_low": float(scale - Fraction(t)),
        "offset": float(scale * offset - Fraction(1, 2)),
        "margin": 0.5 - relative_error * (t + 2),
        "relative_error": relative_error,
        "float_margin": 0.5 - 2.0**-23 * (2.25 * t + 4),
        "float_error": 3.125 * 2.0**-23,
        "margin32": 0.5 - SHORT_ERROR * (t + 1),
        "half_cell": (t / 2 + 0.25) * (1 + 2.0**-20),
        "c": c45 / 2**45,
        "c_low": float(offset - Fraction(c45, 2**45)),
        "double_double_margin": 0.5 - t * 2.0**-72 - 2.0**-38,
        **wide_constants(scale),
        "wide_c": math.floor(offset * 2**120),
    }


def wide_constants(scale: Fraction) -> dict[str, float]:
    """What the integer and the exact tier want of a scale."""
    return {
        "scale": math.floor(scale * 2**_native.SCALE_DIGITS),
        "wide_t": math.floor(scale * 2**67),
        "wide_cell": math.floor(scale).bit_length() + 60,
    }
