# SPDX-License-Identifier: Apache-2.0
"""Noise of four points, which promises nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from dpfast.privacy.exact.four_points import FourPoints as ExactFourPoints

from dpfast.errors import NoGuaranteeError, ParameterError
from dpfast.noise.mechanisms.integer import IntegerMechanism
from dpfast.privacy import parameters
from dpfast.privacy.record import written

if TYPE_CHECKING:
    import numpy.typing as npt


class FourPoints(IntegerMechanism):
    """Adds t or 2t of either sign; t is the scale rounded up. No privacy: it has no guarantee."""

    LAW: ClassVar[str] = "four_points"
    NAME: ClassVar[str] = "four_points"
    SCALES = "2**-60", "2**40"
    t: int = written(stream=lambda t: (t,))

    adjacency = unit = sensitivity = _cell_squared = None
    _narrow = True

    def __init__(self, scale: parameters.Real) -> None:
        exact = parameters.exact_positive("scale", scale)
        if not Fraction(1, 2**60) <= exact <= 2**40:
            raise ParameterError(f"scale must lie between 2**-60 and 2**40, {parameters.given(scale=scale)}")
        self._keep(t=math.ceil(exact))

    @property
    def guarantee(self) -> NoReturn:
        raise NoGuaranteeError("FourPoints promises nothing")

    @property
    def scale(self) -> float:
        return float(self.t)

    @property
    def variance(self) -> float:
        return 2.5 * float(self.t) ** 2

    @property
    def _law(self) -> ExactFourPoints:
        return ExactFourPoints(self.t)

    @property
    def _plan_scale(self) -> Fraction:
        return Fraction(self.t)

    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        return np.where(np.isin(np.abs(k), (self.t, 2 * self.t)), 0.25, 0.0)[()]

    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        return sum((k >= point * self.t) * 0.25 for point in (-2, -1, 1, 2))
