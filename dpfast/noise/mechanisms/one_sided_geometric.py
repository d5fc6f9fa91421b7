# SPDX-License-Identifier: Apache-2.0
"""The one-sided geometric law: noise for selection, and no mechanism."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import DTypeError, NoGuaranteeError
from dpfast.noise.mechanisms.discrete_laplace import GeometricNoise
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy.exact.one_sided_geometric import OneSidedGeometric as ExactOneSidedGeometric
from dpfast.privacy.parameters import unseeded


class OneSidedGeometric(GeometricNoise):
    """The law P(X = k) = (1-q) q^k, k >= 0, q = exp(-epsilon/sensitivity), exactly.

    It is noise for select-and-report, not a mechanism, so there is no release. Noise that is never
    negative lets y = x come out for x and never for x + 1, which no epsilon allows. A selection
    that adds it to scores and publishes the winner alone can be private.

    epsilon, sensitivity, adjacency, unit: as for DiscreteLaplace.
    Raises: DTypeError, ParameterError (also for a scale sensitivity/epsilon outside 2^-60 to 2^60).
    Source: Devroye 1986, III.2; csrc/discrete_laplace.md, section 9.

    >>> noise = dpfast.OneSidedGeometric(epsilon=1, sensitivity=1).sample(1000)
    >>> bool((noise >= 0).all())
    True
    """

    LAW: ClassVar[str] = "discrete_laplace"  # in C: its magnitude, with C = 0
    NAME: ClassVar[str] = "one_sided_geometric"
    PROMISES = False

    @property
    def guarantee(self) -> NoReturn:
        """Refused.

        >>> dpfast.OneSidedGeometric(epsilon=1, sensitivity=1).guarantee
        Traceback (most recent call last):
            ...
        dpfast.errors.NoGuaranteeError: OneSidedGeometric is not a mechanism: it promises nothing
        """
        raise NoGuaranteeError("OneSidedGeometric is not a mechanism: it promises nothing")

    def release(self, *_: Any, **__: Any) -> NoReturn:
        """Refused.

        >>> dpfast.OneSidedGeometric(epsilon=1, sensitivity=1).release([5])
        Traceback (most recent call last):
            ...
        dpfast.errors.DTypeError: OneSidedGeometric is not a mechanism and has no release: ...
        """
        raise DTypeError(
            "OneSidedGeometric is not a mechanism and has no release: noise that is never negative tells x from x + 1. "
            "DiscreteLaplace is the mechanism"
        )

    @unseeded
    def sample(
        self, size: int | tuple[int, ...], *, threads: int | None = None, constant_time: bool = False
    ) -> npt.NDArray[np.int64]:
        """The noise, int64 of shape `size`.

        Raises: ParameterError for scales above 2^50: noise might not fit, and is never clipped.

        >>> dpfast.OneSidedGeometric(epsilon=1, sensitivity=1).sample(3).dtype
        dtype('int64')
        """
        draws: npt.NDArray[np.int64] = super().sample(size, threads=threads, constant_time=constant_time)
        np.abs(draws, out=draws)  # a fair sign, taken off again
        return draws

    @lockfree_property
    def _law(self) -> ExactOneSidedGeometric:
        return ExactOneSidedGeometric(1 / self._scale)

    def _made_plan(self) -> _native.Plan:
        return _native.Plan(self.LAW, self._plan_scale, one_sided=True)

    _BEGINS = -1.0

    def mean(self) -> float:
        """The mean, q / (1-q).

        >>> round(dpfast.OneSidedGeometric(epsilon=1, sensitivity=1).mean(), 3)
        0.582
        """
        rate = float(1 / self._scale)
        return math.exp(-rate) / -math.expm1(-rate)

    @property
    def variance(self) -> float:
        """The variance, q / (1-q)^2.

        >>> round(dpfast.OneSidedGeometric(epsilon=1, sensitivity=1).variance, 3)
        0.921
        """
        rate = float(1 / self._scale)
        return math.exp(-rate) / math.expm1(-rate) ** 2

    def _beyond(self, k: npt.NDArray[np.float64]) -> Any:
        return np.exp(-float(1 / self._scale) * np.maximum(k + 1, 0))[()]

    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        rate = float(1 / self._scale)
        return np.where(k < 0, 0.0, -math.expm1(-rate) * np.exp(-rate * np.abs(k)))[()]

    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        return np.where(k < 0, 0.0, -np.expm1(-float(1 / self._scale) * (np.abs(k) + 1)))[()]
