# SPDX-License-Identifier: Apache-2.0
"""What a release guarantees, for an adjacency and a unit: what adds up, and what a ledger keeps."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dpfast.errors import DTypeError, NoGuaranteeError, ParameterError
from dpfast.exact import ball, rounded_up
from dpfast.privacy import formatting, gaussian, parameters
from dpfast.privacy.belief import posterior
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.record import Record


class Guarantee(Record):
    """(epsilon, delta)-differential privacy, or rho-zCDP, or both, for an adjacency and a unit.

    epsilon, delta, rho: int, float, Fraction or Decimal, taken exactly. A figure that is not
        guaranteed is None. epsilon and rho may be 0. delta lies in [0, 1) and is 0 by default
        beside an epsilon.
    adjacency: "add-remove" or "substitution". unit: the unit of privacy, such as "person".
    also_add_remove: whether the guarantee also holds for adding or removing one unit. Under
        add-remove it always does. Under substitution it must be known, and parallel composition
        asks for it.

    Both figures hold, each alone: a Gaussian calibrated to (epsilon, delta) is rho-zCDP as well.
    Raises: DTypeError, ParameterError.
    Source: [DMNS06]; (epsilon, delta): Dwork, Kenthapadi, McSherry, Mironov, Naor 2006; zCDP:
        [BS16] Definition 1.1.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    adjacency: str
    unit: str
    also_add_remove: bool

    def __init__(
        self,
        epsilon: Real | None = None,
        delta: Real | None = None,
        *,
        rho: Real | None = None,
        adjacency: str = "add-remove",
        unit: str = "person",
        also_add_remove: bool | None = None,
    ) -> None:
        if epsilon is None and rho is None:
            raise ParameterError("epsilon or rho must be given, or both")
        if delta is not None and epsilon is None:
            raise ParameterError("delta goes with an epsilon")
        holds = None if also_add_remove is None else parameters.flag("also_add_remove", also_add_remove)
        add_remove = parameters.adjacency(adjacency) == "add-remove"
        if add_remove and holds is False:
            raise ParameterError("also_add_remove must be True under add-remove: the guarantee itself says so")
        exact_delta = None if epsilon is None else _not_negative("delta", 0 if delta is None else delta)
        if exact_delta is not None and exact_delta >= 1:
            raise ParameterError(f"delta must be below 1, got {shown(delta)}")
        self._keep(
            epsilon=None if epsilon is None else _not_negative("epsilon", epsilon),
            delta=exact_delta,
            rho=None if rho is None else _not_negative("rho", rho),
            adjacency=adjacency,
            unit=parameters.unit(unit),
            also_add_remove=add_remove if holds is None else holds,
        )

    def group(self, size: int) -> Guarantee:
        """The guarantee for `size` units together, such as a household of at most so many persons.

        It is (size epsilon, delta (e^(size epsilon) - 1)/(e^epsilon - 1)), the delta rounded up,
        and size^2 rho.
        Source: Vadhan 2017, Lemma 2.2, its geometric sum kept; [BS16] Proposition 1.9.
        """
        k = parameters.whole("size", size, 1)
        if k >= 2**63:
            raise ParameterError(f"size must be below 2**63, got {shown(k)}")
        return Guarantee(
            None if self.epsilon is None else k * self.epsilon,
            self.delta and self._group_delta(k),
            rho=None if self.rho is None else k**2 * self.rho,
            adjacency=self.adjacency,
            unit=self.unit if k == 1 else f"{k} x {self.unit}",
            also_add_remove=self.also_add_remove,
        )

    def _group_delta(self, k: int) -> Fraction:
        epsilon, delta = self.epsilon or Fraction(0), self.delta or Fraction(0)
        if k == 1 or epsilon == 0:
            found: Fraction | float = k * delta
        else:
            found = rounded_up(lambda: ball(delta) * (k * ball(epsilon)).expm1() / ball(epsilon).expm1())
        if found >= 1:
            raise ParameterError(f"delta would reach 1 for a group of {k}: nothing would be promised")
        return Fraction(found)

    def approximate(self, delta: Real) -> Guarantee:
        """The (epsilon, delta)-DP that follows from rho-zCDP; rho holds as well.

        epsilon is a double: the least that is found, proved in intervals.

        Source: [CKS20] Corollary 13, which is sharper than [BS16] Proposition 1.3.
        """
        wanted = parameters.probability("delta", delta)
        rho = self.rho
        if rho is None:
            raise ParameterError("rho is not promised here, so there is nothing to convert")
        about: Any = {"adjacency": self.adjacency, "unit": self.unit, "also_add_remove": self.also_add_remove}
        if rho == 0:
            return Guarantee(0, wanted, rho=0, **about)

        def enough(epsilon: float) -> bool:
            return Fraction(gaussian.delta_of_zcdp(rho, Fraction(epsilon))) <= wanted

        near, log = gaussian.near(rho), math.log(wanted.denominator) - math.log(wanted.numerator)
        low, high = 0.0, (near + 2 * math.sqrt(near * log)) * (1 + 2.0**-40)  # [BS16] has it, but for rounding
        if not enough(high):
            raise ParameterError(f"delta must be one that doubles can find an epsilon for, got {shown(delta)}")
        if enough(low):
            high = low
        while high - low > high * 2.0**-40:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return Guarantee(high, wanted, rho=rho, **about)

    def posterior(self, prior: Real) -> tuple[float, float]:
        """The least and the largest belief in a statement about one unit after a release.

        prior: the belief before. docs/meaning.md says which statements, and whose belief.
        Raises: ParameterError (no epsilon, or a delta beside it).
        """
        if self.epsilon is None or self.delta:
            raise ParameterError(
                "a pure epsilon is needed: a delta says how often a loss is larger, and not by how much"
            )
        return posterior(prior, self.epsilon)

    def __repr__(self) -> str:
        figures = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self.rho}
        said = ", ".join(f"{name}={formatting.exact(value)}" for name, value in figures.items() if value is not None)
        also_add_remove = ", also_add_remove=True" if self.also_add_remove and self.adjacency == "substitution" else ""
        return f"<Guarantee {said}, adjacency={self.adjacency!r}, unit={self.unit!r}{also_add_remove}>"


def guarantee_of(name: str, promising: object) -> Guarantee:
    """The guarantee of a mechanism, or itself. Raises: DTypeError, NoGuaranteeError."""
    try:
        found = promising if isinstance(promising, Guarantee) else promising.guarantee  # type: ignore[attr-defined]
    except NoGuaranteeError:
        raise
    except AttributeError:
        found = None
    if not isinstance(found, Guarantee):
        raise DTypeError(f"{name} must be a mechanism with a guarantee, or a Guarantee, not {type(promising).__name__}")
    return found


def _not_negative(name: str, value: Real) -> Fraction:
    exact = parameters.exact_real(name, value, "finite and not negative")
    if exact < 0:
        raise ParameterError(f"{name} must not be negative, got {shown(value)}")
    return exact
