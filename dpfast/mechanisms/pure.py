# SPDX-License-Identifier: Apache-2.0
"""What epsilon-differentially private laws share: epsilon, L1 sensitivity, adjacency and unit."""

from __future__ import annotations

from fractions import Fraction

from dpfast.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy import parameters
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.parameters import Real
from dpfast.privacy.record import Record, ratio, unwritten, written
from dpfast.privacy.sensitivity import Sensitivity, in_norm

MOST_SCALE = 2**60
UNKNOWN = "sensitivity must be known in L1 here, and this one in L2 alone: Sensitivity(l0, linf), or a number"


class Pure(Record):
    """The parameters of a law of scale sensitivity / epsilon."""

    epsilon: Fraction = written(stream=ratio)
    sensitivity: Fraction = written(stream=ratio)
    adjacency: str
    unit: str
    # the Sensitivity that was given, if one was
    _change: Sensitivity | None = written(metadata=unwritten, words=unwritten, init=False, compare=False)

    def __init__(
        self, epsilon: Real, sensitivity: Real | Sensitivity, *, adjacency: str | None = None, unit: str | None = None
    ) -> None:
        exact_epsilon = parameters.exact_positive("epsilon", epsilon)
        l1, adjacency, unit = in_norm("l1", sensitivity, adjacency, unit, UNKNOWN)
        change = sensitivity if isinstance(sensitivity, Sensitivity) else None
        self._keep(epsilon=exact_epsilon, sensitivity=l1, adjacency=adjacency, unit=unit, _change=change)

    @lockfree_property
    def _scale(self) -> Fraction:
        return self.sensitivity / self.epsilon

    @lockfree_property
    def guarantee(self) -> Guarantee:
        """What each release spends: epsilon, with delta = 0."""
        # A unit added or removed changes the counts by its contributions, within the known change.
        contributions = self._change is not None and self._change.contributes is not None
        also_add_remove = contributions or self.adjacency == "add-remove"
        return Guarantee(self.epsilon, adjacency=self.adjacency, unit=self.unit, also_add_remove=also_add_remove)

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
