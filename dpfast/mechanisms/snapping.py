# SPDX-License-Identifier: Apache-2.0
"""The snapping mechanism, by its name."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dpfast.errors import ParameterError
from dpfast.mechanisms.laplace import Laplace
from dpfast.mechanisms.real import LEAST_EXPONENT, MOST_EXPONENT, grid_exponent
from dpfast.privacy import formatting, parameters

if TYPE_CHECKING:
    from dpfast.privacy.parameters import Real
    from dpfast.privacy.sensitivity import Sensitivity

MOST_BOUND = Fraction(2) ** 1000


@dataclass(frozen=True, repr=False)
class Snapping(Laplace):
    """Clamps to [-bound, bound], adds Laplace noise, rounds to the smallest power of two >= its scale, clamps again.

    epsilon, sensitivity, adjacency, unit: as for Laplace. The sensitivity is that of the values given; clamping does
        not raise it.
    bound: a positive multiple of the granularity.

    It is `Laplace` on a coarse grid between two clamps. The original was built from a floating-point logarithm
    and multiplication, whose rounding it had to pay for: epsilon' = epsilon (1 + 12 B eta) + 2 eta for B = bound/scale
    and eta = 2^-53, after the values were scaled to sensitivity 1. Here the noise is the ideal real Laplace variable,
    so both clamps and the rounding are applied to exact values, nothing is paid, and the bound serves only who wants
    bounded results.

    Privacy: each release is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError.
    Source: [Mir12] section 5; csrc/laplace.md.
    """

    NAME: ClassVar[str] = "snapping"
    bound: Fraction

    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        bound: Real,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        scale = self._set_parameters(epsilon, sensitivity, adjacency, unit)
        exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
        exponent += Fraction(2) ** exponent < scale
        if not LEAST_EXPONENT <= exponent <= MOST_EXPONENT:
            raise ParameterError(
                f"sensitivity/epsilon must lie between 2**{LEAST_EXPONENT} and 2**{MOST_EXPONENT}, got "
                f"epsilon={parameters.shown(epsilon)}, sensitivity={parameters.shown(sensitivity)}"
            )
        object.__setattr__(self, "_exponent", grid_exponent(scale**2, Fraction(2) ** exponent))
        object.__setattr__(self, "bound", parameters.exact_positive("bound", bound))
        if (self.bound / Fraction(2) ** exponent).denominator != 1:
            raise ParameterError(
                f"bound must be a multiple of the granularity 2**{exponent}, the smallest power of two that is at least "
                f"sensitivity/epsilon, got {parameters.shown(bound)}"
            )
        if self.bound > MOST_BOUND or Fraction(float(self.bound)) != self.bound:
            raise ParameterError(f"bound must be a float of at most 2**1000, got {parameters.shown(bound)}")

    @property
    def _bound(self) -> float:
        return float(self.bound)

    def __reduce__(self) -> tuple[object, ...]:
        sensitivity, adjacency, unit = self._whom
        made = partial(type(self), bound=self.bound, adjacency=adjacency, unit=unit)
        return made, (self.epsilon, sensitivity)

    @property
    def _record(self) -> tuple[str | int, ...]:
        return *super()._record, self.bound.numerator, self.bound.denominator

    @property
    def _parameters(self) -> dict[str, object]:
        return {**super()._parameters, "bound": str(self.bound)}

    def _facts(self) -> dict[str, str]:
        return {**super()._facts(), "bound": formatting.exact(self.bound)}
