# SPDX-License-Identifier: Apache-2.0
"""What mechanisms share that publish a choice among answers: how much one unit changes any single one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dpfast import _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy import formatting, parameters
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpfast.privacy.parameters import Real


@dataclass(frozen=True, repr=False, init=False)
class OneAnswer:
    """epsilon, and a sensitivity that is the largest change of one answer, however many answers change."""

    NAME: ClassVar[str]  # in metadata
    epsilon: Fraction
    sensitivity: Fraction
    monotonic: bool
    adjacency: str
    unit: str

    def _set_parameters(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        monotonic: bool | None,
        adjacency: str | None,
        unit: str | None,
    ) -> None:
        if monotonic is not None and not isinstance(monotonic, bool):
            raise DTypeError(f"monotonic must be a bool, or None to infer it, not {type(monotonic).__name__}")
        one_way = False
        if isinstance(sensitivity, Sensitivity):
            if adjacency is not None or unit is not None:
                raise ParameterError("adjacency and unit are those of the Sensitivity that was given: leave them out")
            if sensitivity.linf is None:
                raise ParameterError("sensitivity must be known in a single answer: Sensitivity(l0, linf), or a number")
            sensitivity.refuse_private_keys()
            if monotonic and sensitivity.signed:
                raise ParameterError(
                    "monotonic must be False for a signed sensitivity: contributions of both signs move answers both ways"
                )
            one_way = sensitivity.one_way
            adjacency, unit, sensitivity = sensitivity.adjacency, sensitivity.unit, sensitivity.linf
        if monotonic and adjacency == "substitution":
            raise ParameterError(
                "monotonic must be False under substitution: a unit that is replaced moves answers both ways"
            )
        values = {
            "epsilon": parameters.exact_positive("epsilon", epsilon),
            "sensitivity": parameters.exact_positive("sensitivity", sensitivity),
            "monotonic": one_way if monotonic is None else monotonic,
            "adjacency": parameters.adjacency("add-remove" if adjacency is None else adjacency),
            "unit": parameters.unit("person" if unit is None else unit),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(type(self), monotonic=self.monotonic, adjacency=self.adjacency, unit=self.unit)
        return made, (self.epsilon, self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """What each call spends: epsilon, with delta = 0."""
        return Guarantee(self.epsilon, adjacency=self.adjacency, unit=self.unit)

    def metadata(self) -> dict[str, object]:
        """What was asked and promised, to go with what came out: JSON-able, fractions as exact strings."""
        from dpfast import __version__

        return {
            "mechanism": self.NAME,
            "epsilon": str(self.epsilon),
            "sensitivity": str(self.sensitivity),
            "monotonic": self.monotonic,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "stream_version": _native.STREAM_VERSION,
            "dpfast": __version__,
        }

    def _facts(self) -> dict[str, str]:
        return {
            "epsilon": formatting.exact(self.epsilon),
            "sensitivity": formatting.exact(self.sensitivity),
            "monotonic": str(self.monotonic),
            "adjacency": self.adjacency,
            "unit": self.unit,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(f'{name}={value}' for name, value in self._facts().items())}>"
