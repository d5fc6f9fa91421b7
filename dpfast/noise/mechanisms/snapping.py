# SPDX-License-Identifier: Apache-2.0
"""The snapping mechanism, by its name."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.equals import remembered
from dpfast.noise.mechanisms.laplace import Laplace
from dpfast.noise.mechanisms.pure import Pure
from dpfast.noise.mechanisms.real import LEAST_EXPONENT, MOST_EXPONENT, grid_exponent
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, given, shown
from dpfast.privacy.record import ratio, written
from dpfast.privacy.sensitivity import Sensitivity

MOST_BOUND = Fraction(2) ** 1000


class Snapping(Laplace):
    """Clamps to [-bound, bound], adds Laplace noise, rounds to a power of two, clamps again.

    The power of two is the smallest >= the scale.
    epsilon, sensitivity, adjacency, unit: as for Laplace; clamping does not raise a sensitivity.
    bound: a positive multiple of the granularity.

    It is `Laplace` on a coarse grid between two clamps. The original pays for the rounding of a
    floating-point logarithm and multiplication: epsilon' = epsilon (1 + 12 B eta) + 2 eta for B =
    bound/scale and eta = 2^-53, after the values were scaled to sensitivity 1. Here the noise is
    the ideal real Laplace variable, so both clamps and the rounding are applied to exact values.
    Nothing is paid, and the bound serves only those who want bounded results.

    Privacy: each release is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError.
    Source: [Mir12] section 5; csrc/laplace.md.

    >>> mechanism = dpfast.Snapping(epsilon=1, sensitivity=1, bound=100)
    >>> float(np.abs(mechanism.release([-500.0, 3.0, 500.0])).max()) <= 100
    True
    """

    NAME: ClassVar[str] = "snapping"
    bound: Fraction = written(stream=ratio)

    @remembered
    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        bound: Real,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        Pure.__init__(self, epsilon, sensitivity, adjacency=adjacency, unit=unit)  # the grid is not Laplace's
        scale = self._scale
        exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
        exponent += Fraction(2) ** exponent < scale
        if not LEAST_EXPONENT <= exponent <= MOST_EXPONENT:
            raise ParameterError(
                f"sensitivity/epsilon must lie between 2**{LEAST_EXPONENT} and 2**{MOST_EXPONENT}, "
                + given(epsilon=epsilon, sensitivity=sensitivity)
            )
        self._keep(
            _exponent=grid_exponent(scale**2, Fraction(2) ** exponent), bound=parameters.exact_positive("bound", bound)
        )
        if (self.bound / Fraction(2) ** exponent).denominator != 1:
            raise ParameterError(
                f"bound must be a multiple of the granularity 2**{exponent}, the smallest power of two that is at least "
                f"sensitivity/epsilon, got {shown(bound)}"
            )
        if self.bound > MOST_BOUND or Fraction(float(self.bound)) != self.bound:
            raise ParameterError(f"bound must be a float of at most 2**1000, got {shown(bound)}")

    @property
    def _bound(self) -> float:  # type: ignore[override]
        return float(self.bound)
