# SPDX-License-Identifier: Apache-2.0
"""SmartNoise SQL on exact noise: its mechanisms, with our release.

    privacy = snsql.Privacy(epsilon=1.0, delta=1e-6, mechanisms=Mechanisms())

SmartNoise's own code computes a scale from epsilon, delta, sensitivity and contributions. This
scale, a double, is taken exactly. `mechanisms.map` still says which mechanism releases which
statistic.

A release of a list is one call, whatever its length. As in SmartNoise it gives floats, an infinite
value counts as the largest finite one of its sign, and NaN as 0, with noise like any value. Noisy
values lie on a grid of the largest power of two that is at most scale * 2^-20.
Source: the mechanisms, [DMNS06] and [BW18]; rounding to a grid after the noise is post-processing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

import dpfast
from dpfast.adapters import library

snsql: Any = library("snsql", "smartnoise", "1.0", package="smartnoise-sql")

__all__ = ["Gaussian", "Laplace", "Mechanisms"]

LARGEST = sys.float_info.max


def __dir__() -> list[str]:
    return __all__


class _Released:
    """A class before a mechanism of SmartNoise: its parameters, our noise."""

    LAW: str
    scale: float

    @property
    def _noise(self) -> Any:
        return dpfast.noise_source(self.LAW, self.scale)

    def release(self, vals: Iterable[float]) -> list[float]:
        """The values plus fresh noise; each value spends epsilon.

        vals: int, float, or what float() takes.

        Raises: as float() does for None and the like.
        """
        values = np.fromiter(map(float, vals), np.float64).clip(-LARGEST, LARGEST)
        values[np.isnan(values)] = 0
        noisy: list[float] = self._noise.release(values).tolist()
        return noisy

    @property
    def threshold(self) -> float:
        """SmartNoise's tau plus half a step: rounding to the grid lifts no group of one over it."""
        tau: float = super().threshold  # type: ignore[misc]  # the class behind this one
        return math.nextafter(tau + self._noise.granularity / 2, math.inf)


class Laplace(_Released, snsql.sql.privacy.Laplace):  # type: ignore[misc]
    LAW = "laplace"


class Gaussian(_Released, snsql.sql.privacy.Gaussian):  # type: ignore[misc]
    LAW = "gaussian"


class Mechanisms(snsql.sql.privacy.Mechanisms):  # type: ignore[misc]
    """SmartNoise's table of mechanisms, with ours in their place: `Privacy(mechanisms=...)`."""

    def __init__(self) -> None:
        super().__init__()
        ours = {snsql.sql.privacy.Laplace: Laplace, snsql.sql.privacy.Gaussian: Gaussian}
        self.classes: dict[Any, Any] = {name: ours[theirs] for name, theirs in self.classes.items()}
