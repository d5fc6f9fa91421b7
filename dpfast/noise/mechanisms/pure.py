# SPDX-License-Identifier: Apache-2.0
"""What epsilon-differentially private laws share: epsilon, L1 sensitivity, adjacency and unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy import laplace, parameters
from dpfast.privacy.guarantee import Guarantee, rho_of_epsilon, warn_if_weak
from dpfast.privacy.parameters import Real
from dpfast.privacy.record import Record, ratio, unwritten, written
from dpfast.privacy.sensitivity import Cells, Sensitivity, in_norm, must_cover, refuse_less

MOST_SCALE = 2**60
UNKNOWN = "sensitivity must be known in L1 here, and this one in L2 alone: Sensitivity(l0, linf), or a number"


class Pure(Record):
    """The parameters of a law of scale sensitivity / epsilon."""

    epsilon: Fraction = written(stream=ratio)
    sensitivity: Fraction = written(stream=ratio)
    adjacency: str
    unit: str
    INTEGERS: ClassVar[bool]
    PROMISES: ClassVar[bool] = True  # whether epsilon is what a release spends
    # the Sensitivity that was given, if one was
    _change: Sensitivity | None = written(metadata=unwritten, words=unwritten, init=False)

    def __init__(
        self, epsilon: Real, sensitivity: Real | Sensitivity, *, adjacency: str | None = None, unit: str | None = None
    ) -> None:
        exact_epsilon = parameters.exact_positive("epsilon", epsilon, decimal=True)
        l1, adjacency, unit = in_norm("l1", sensitivity, adjacency, unit, UNKNOWN)
        change = sensitivity if isinstance(sensitivity, Sensitivity) else None
        self._keep(epsilon=exact_epsilon, sensitivity=l1, adjacency=adjacency, unit=unit, _change=change)
        if self.PROMISES:
            warn_if_weak("epsilon", exact_epsilon)

    @property
    def _most_cells(self) -> int | None:
        return self._change.cells if self._change else None

    def _refuse_less(self, change: Sensitivity) -> None:
        """As Payable's. Epsilon is that of l1 alone, rho and losses those of the change stated."""
        refuse_less(change, self.sensitivity, self.adjacency, self.unit)
        if self._change is not None:
            must_cover(self._change, change)

    @lockfree_property
    def _scale(self) -> Fraction:
        return self.sensitivity / self.epsilon

    @property
    def worst_change(self) -> tuple[Cells, ...]:
        """The change that is told from none most easily: so many cells, each by so much.

        >>> dpfast.Laplace(epsilon=1, sensitivity=2).worst_change
        (Cells(l0=1, linf=Fraction(2, 1)),)
        """
        return laplace.worst_change(self._change, self.sensitivity, integers=self.INTEGERS)

    @lockfree_property
    def guarantee(self) -> Guarantee:
        """What each release spends: epsilon, with delta = 0; and its rho.

        >>> promise = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).guarantee
        >>> promise.epsilon, promise.delta, float(promise.rho) < 0.5
        (Fraction(1, 1), Fraction(0, 1), True)
        """
        return self._guarantee()

    def _guarantee(self, delta: Fraction | None = None) -> Guarantee:
        """delta: of what the release does beside adding the noise."""
        about: Any = {"delta": delta, "unit": self.unit}
        known = None
        if self.adjacency == "substitution" and self._change and (added := self._change.add_remove):
            known = Guarantee(added.l1 / self._scale, **about)._with_rho(self._rho_later(added, added.l1))  # type: ignore[operator, arg-type]  # noqa: SLF001
        found = Guarantee(self.epsilon, adjacency=self.adjacency, add_remove=known, **about)
        return found._with_rho(self._rho_later(self._change, self.sensitivity))  # noqa: SLF001

    def group(self, size: int) -> Guarantee:
        """`guarantee.group(size)`, with the rho of the law itself if that is less.

        The worst of so many units all change the same cells: those of one unit, so many times as
        far (dpfast/privacy/laplace.py, 6).
        Raises: DTypeError, ParameterError.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).group(4).epsilon
        Fraction(4, 1)
        """
        found = self.guarantee.group(size)
        if size == 1 or found.rho_delta:
            return found
        added = found.add_remove
        if added and self._change and (one := self._change.add_remove):
            added = self._no_more(added, self._rho_later(one, one.l1, size)())  # type: ignore[arg-type]
        return self._no_more(found, self._rho_later(self._change, self.sensitivity, size)(), add_remove=added)

    @staticmethod
    def _no_more(found: Guarantee, rho: Fraction, **about: Any) -> Guarantee:
        return found._of(**{**vars(found), "rho": min(found.rho, rho), **about})  # noqa: SLF001  a record of the same kind

    def _rho_later(self, change: Sensitivity | None, l1: Fraction, size: int = 1) -> Callable[[], Fraction]:
        """The rho of this noise, once it is called."""
        return partial(_rho, 1 / self._scale, size * self.epsilon, change, l1, size, integers=self.INTEGERS)

    @property
    def scale(self) -> float:
        """The scale sensitivity / epsilon, in the units of the counts or values.

        >>> dpfast.Laplace(epsilon="0.5", sensitivity=3).scale
        6.0
        """
        return float(self._scale)

    @property
    def _cell_squared(self) -> Fraction | None:
        linf = None if self._change is None else self._change.linf
        return (self.sensitivity if linf is None else linf) ** 2

    def _facts(self) -> dict[str, str]:
        return {**super()._facts(), "scale": f"{self.scale:.6g}"}


def _rho(
    rate: Fraction, epsilon: Fraction, change: Sensitivity | None, l1: Fraction, size: int, *, integers: bool
) -> Fraction:
    """The rho of this noise; for a change that no integer makes, what the epsilon implies."""
    worst = tuple(
        Cells(cells, size * (Fraction(math.floor(linf)) if integers else linf))
        for cells, linf in laplace.worst_change(change, l1, integers=integers)
    )
    return laplace.rho(rate, worst, integers=integers) or rho_of_epsilon(epsilon)
