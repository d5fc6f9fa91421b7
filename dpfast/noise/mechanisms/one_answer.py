# SPDX-License-Identifier: Apache-2.0
"""What mechanisms share that choose among answers: how much one unit changes a single answer."""

from __future__ import annotations

from fractions import Fraction

from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.described import Payable
from dpfast.privacy import parameters
from dpfast.privacy.guarantee import Guarantee, warn_if_weak
from dpfast.privacy.parameters import Real
from dpfast.privacy.sensitivity import Sensitivity, in_norm, refuse_less

UNKNOWN = "sensitivity must be known in a single answer: Sensitivity(l0, linf), or a number"


class OneAnswer(Payable):
    """epsilon, and the largest change of a single answer, however many answers change."""

    epsilon: Fraction
    sensitivity: Fraction
    monotonic: bool
    adjacency: str
    unit: str

    def _keep_answer(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        monotonic: bool | None,
        adjacency: str | None,
        unit: str | None,
    ) -> None:
        one_way = monotonic is not None and parameters.flag("monotonic", monotonic)
        exact_epsilon = parameters.exact_positive("epsilon", epsilon, decimal=True)
        linf, adjacency, unit = in_norm("linf", sensitivity, adjacency, unit, UNKNOWN)
        if isinstance(sensitivity, Sensitivity):
            if one_way and sensitivity.signed:
                raise ParameterError(
                    "monotonic must be False for a signed sensitivity: contributions of both signs move answers both ways"
                )
            if monotonic is None:
                one_way = sensitivity.one_way
        if one_way and adjacency == "substitution":
            raise ParameterError(
                "monotonic must be False under substitution: a unit that is replaced moves answers both ways"
            )
        warn_if_weak("epsilon", exact_epsilon)
        self._keep(epsilon=exact_epsilon, sensitivity=linf, monotonic=one_way, adjacency=adjacency, unit=unit)

    def _refuse_less(self, change: Sensitivity) -> None:
        refuse_less(change, self.sensitivity, self.adjacency, self.unit, norm="linf")
        if self.monotonic and not change.one_way:
            raise ParameterError("monotonic must be False for these counts: one unit may move them both ways")

    @property
    def guarantee(self) -> Guarantee:
        """What each call spends: epsilon, with delta = 0; and the rho that it implies.

        >>> dpfast.AboveThreshold(epsilon=1, sensitivity=1, threshold=1000).guarantee.epsilon
        Fraction(1, 1)
        """
        return Guarantee(self.epsilon, adjacency=self.adjacency, unit=self.unit)
