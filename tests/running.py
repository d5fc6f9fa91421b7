# SPDX-License-Identifier: Apache-2.0
"""Running totals of tests: the simplest there are, whose every figure is seen at a glance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import tiers

import dpfast
from dpfast.errors import ParameterError

SCALE = 1 << 20  # two independent draws are equal once in millions


class PlainTotals:
    """Each step releases the sum of all counts so far, with noise of its own.

    It charges what it is told: its tests are about steps, and not about what they cost.
    """

    FOUND: ClassVar[frozenset[str]] = frozenset({"found"})
    mechanism = dpfast.DiscreteGaussian(sigma_squared=SCALE**2)

    def __init__(self, rho: Any = "1/2", ceiling: int = 1000, bound: int = 2**40, found: int = 7) -> None:
        self.guarantee = dpfast.Guarantee(rho=rho)
        self.ceiling, self.bound, self.found = ceiling, bound, found

    def terms(self) -> dict[str, Any]:
        return {"rho": str(self.guarantee.rho), "ceiling": self.ceiling, "bound": self.bound, "found": self.found}

    @classmethod
    def of_terms(cls, terms: dict[str, Any]) -> PlainTotals:
        if not isinstance(terms["ceiling"], int):
            raise ParameterError("ceiling must be an integer")
        return cls(**terms)

    def metadata(self) -> dict[str, object]:
        return {"mechanism": "running_totals", **self.terms()}

    def begin(self, cells: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((1, cells), np.int64), np.zeros((1, cells))

    def encode(self, encoder: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return encoder[0] + counts, encoder + counts

    def decode(self, decoder: np.ndarray, noisy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = noisy.astype(np.float64)
        return values, values.reshape(decoder.shape)

    def interval(self, t: int, level: float = 0.95) -> float:
        return float(self.mechanism.interval(level))

    def _running(self, ledger: Any, **options: Any) -> Any:
        return tiers.running(self, ledger, **options)

    def _refuse_less(self, change: Any) -> None:
        pass
