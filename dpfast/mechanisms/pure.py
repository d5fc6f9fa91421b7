# SPDX-License-Identifier: Apache-2.0
"""What epsilon-differentially private laws share: epsilon, an L1 sensitivity, and whom they protect."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpfast.errors import ParameterError
from dpfast.privacy import formatting, parameters
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpfast.privacy.parameters import Real

MOST_SCALE = 2**60


class Pure:
    """The parameters of a law of scale sensitivity / epsilon."""

    epsilon: Fraction
    sensitivity: Fraction
    adjacency: str
    unit: str
    _scale: Fraction
    _change: Sensitivity | None  # as given

    def _set_parameters(
        self, epsilon: Real, sensitivity: Real | Sensitivity, adjacency: str | None, unit: str | None
    ) -> Fraction:
        """Check and keep them; the scale."""
        object.__setattr__(self, "_change", sensitivity if isinstance(sensitivity, Sensitivity) else None)
        if isinstance(sensitivity, Sensitivity):
            if adjacency is not None or unit is not None:
                raise ParameterError("adjacency and unit are those of the Sensitivity that was given: leave them out")
            if sensitivity.l1 is None:
                raise ParameterError(
                    "sensitivity must be known in L1 here, and this one in L2 alone: Sensitivity(l0, linf), or a number"
                )
            sensitivity.refuse_private_keys()
            adjacency, unit, sensitivity = sensitivity.adjacency, sensitivity.unit, sensitivity.l1
        values = {
            "epsilon": parameters.exact_positive("epsilon", epsilon),
            "sensitivity": parameters.exact_positive("sensitivity", sensitivity),
            "adjacency": parameters.adjacency("add-remove" if adjacency is None else adjacency),
            "unit": parameters.unit("person" if unit is None else unit),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_scale", self.sensitivity / self.epsilon)
        return self._scale

    @property
    def guarantee(self) -> Guarantee:
        """What each release spends: epsilon, with delta = 0."""
        # A unit that is added or removed changes the counts by its contributions, which are known to be within the change.
        contributions = self._change is not None and self._change.contributes is not None
        also_add_remove = contributions or self.adjacency == "add-remove"
        return Guarantee(self.epsilon, adjacency=self.adjacency, unit=self.unit, also_add_remove=also_add_remove)

    @property
    def _whom(self) -> tuple[object, object, object]:
        """sensitivity, adjacency and unit, as they can be given again."""
        return (self.sensitivity, self.adjacency, self.unit) if self._change is None else (self._change, None, None)

    @property
    def scale(self) -> float:
        """The scale sensitivity / epsilon, in the units of the counts or values."""
        return float(self._scale)

    @property
    def _cell_squared(self) -> Fraction | None:
        linf = None if self._change is None else self._change.linf
        return (self.sensitivity if linf is None else linf) ** 2

    @property
    def _exact_parameters(self) -> tuple[int, ...]:
        e, s = self.epsilon, self.sensitivity
        return e.numerator, e.denominator, s.numerator, s.denominator

    @property
    def _parameters(self) -> dict[str, object]:
        return {
            "epsilon": str(self.epsilon),
            "sensitivity": str(self.sensitivity),
            "adjacency": self.adjacency,
            "unit": self.unit,
        }

    def _facts(self) -> dict[str, str]:
        return {
            "epsilon": formatting.exact(self.epsilon),
            "sensitivity": formatting.exact(self.sensitivity),
            "adjacency": self.adjacency,
            "unit": self.unit,
            "scale": f"{self.scale:.6g}",
        }
