# SPDX-License-Identifier: Apache-2.0
"""What epsilon-differentially private laws share: epsilon, L1 sensitivity, adjacency and unit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

from dpfast.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy import laplace, parameters
from dpfast.privacy.guarantee import Guarantee, rho_of_epsilon
from dpfast.privacy.parameters import Real
from dpfast.privacy.record import Record, ratio, unwritten, written
from dpfast.privacy.sensitivity import Cells, Sensitivity, in_norm

MOST_SCALE = 2**60
UNKNOWN = "sensitivity must be known in L1 here, and this one in L2 alone: Sensitivity(l0, linf), or a number"


class Pure(Record):
    """The parameters of a law of scale sensitivity / epsilon."""

    epsilon: Fraction = written(stream=ratio)
    sensitivity: Fraction = written(stream=ratio)
    adjacency: str
    unit: str
    INTEGERS: ClassVar[bool]
    # the Sensitivity that was given, if one was
    _change: Sensitivity | None = written(metadata=unwritten, words=unwritten, init=False)

    def __init__(
        self, epsilon: Real, sensitivity: Real | Sensitivity, *, adjacency: str | None = None, unit: str | None = None
    ) -> None:
        exact_epsilon = parameters.exact_positive("epsilon", epsilon, decimal=True)
        l1, adjacency, unit = in_norm("l1", sensitivity, adjacency, unit, UNKNOWN)
        change = sensitivity if isinstance(sensitivity, Sensitivity) else None
        self._keep(epsilon=exact_epsilon, sensitivity=l1, adjacency=adjacency, unit=unit, _change=change)

    @property
    def _most_cells(self) -> int | None:
        return self._change.cells if self._change else None

    @lockfree_property
    def _scale(self) -> Fraction:
        return self.sensitivity / self.epsilon

    @property
    def worst(self) -> tuple[Cells, ...]:
        """The change that is told from none most easily: so many cells, each by so much."""
        return laplace.worst_change(self._change, self.sensitivity, integers=self.INTEGERS)

    @lockfree_property
    def guarantee(self) -> Guarantee:
        """What each release spends: epsilon, with delta = 0; and its rho."""
        return self._guarantee()

    def _guarantee(self, delta: Fraction | None = None) -> Guarantee:
        """delta: of what the release does beside adding the noise."""
        about: Any = {"delta": delta, "rho_delta": delta, "unit": self.unit}
        known = None
        if self.adjacency == "substitution" and self._change and (added := self._change.add_remove):
            known = Guarantee(added.l1 / self._scale, rho=self._rho(added, added.l1), **about)  # type: ignore[operator, arg-type]
        rho = self._rho(self._change, self.sensitivity)
        return Guarantee(self.epsilon, rho=rho, adjacency=self.adjacency, add_remove=known, **about)

    def group(self, size: int) -> Guarantee:
        """`guarantee.group(size)`, with the rho of the law itself if that is less.

        The worst of so many units all change the same cells: those of one unit, so many times as
        far (dpfast/privacy/laplace.py, 6).
        Raises: DTypeError, ParameterError.
        """
        found = self.guarantee.group(size)
        if size == 1 or found.rho_delta:
            return found
        added = found.add_remove
        if added and self._change and (one := self._change.add_remove):
            added = self._no_more(added, self._rho(one, one.l1, size))  # type: ignore[arg-type]
        return self._no_more(found, self._rho(self._change, self.sensitivity, size), add_remove=added)

    @staticmethod
    def _no_more(found: Guarantee, rho: Fraction, **about: Any) -> Guarantee:
        return found._of(**{**vars(found), "rho": min(found.rho, rho), **about})  # noqa: SLF001  a record of the same kind

    def _rho(self, change: Sensitivity | None, l1: Fraction, size: int = 1) -> Fraction:
        """The rho of this noise; for a change that no integer makes, what the epsilon implies."""
        worst = tuple(
            Cells(cells, size * (Fraction(math.floor(linf)) if self.INTEGERS else linf))
            for cells, linf in laplace.worst_change(change, l1, integers=self.INTEGERS)
        )
        return laplace.rho(1 / self._scale, worst, integers=self.INTEGERS) or rho_of_epsilon(size * self.epsilon)

    @property
    def scale(self) -> float:
        """The scale sensitivity / epsilon, in the units of the counts or values."""
        return float(self._scale)

    @property
    def _cell_squared(self) -> Fraction | None:
        linf = None if self._change is None else self._change.linf
        return (self.sensitivity if linf is None else linf) ** 2

    def _facts(self) -> dict[str, str]:
        return {**super()._facts(), "scale": f"{self.scale:.6g}"}
