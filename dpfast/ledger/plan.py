# SPDX-License-Identifier: Apache-2.0
"""A plan: the mechanism of the least noise of which n more releases fit what a ledger has left."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

from dpfast.errors import BudgetExhausted, DTypeError, ParameterError
from dpfast.ledger.store import FINEST, MOST_BITS, Amounts, Terms
from dpfast.noise.mechanisms.mechanism import Releasing
from dpfast.noise.mechanisms.pure import Pure
from dpfast.noise.mechanisms.sigma import Sigma
from dpfast.privacy.composition import MOST_RELEASES, greatest
from dpfast.privacy.formatting import amount
from dpfast.privacy.gaussian import nine_digits
from dpfast.privacy.guarantee import searching, warn_if_weak
from dpfast.privacy.parameters import Real, shown, whole
from dpfast.privacy.sensitivity import Sensitivity


def law_of(law: object) -> Any:
    """A law of noise whose scale follows from what it may spend. Raises: DTypeError."""
    if isinstance(law, type) and issubclass(law, Releasing) and issubclass(law, (Pure, Sigma)):
        return law
    kind = law.__name__ if isinstance(law, type) else type(law).__name__
    raise DTypeError(
        f"law must be DiscreteLaplace, DiscreteGaussian, Laplace, Gaussian or Snapping, the class, not {kind:.40}: "
        "of others `remaining` says what is left to divide"
    )


def releases_of(n: object) -> int:
    """Raises: DTypeError, ParameterError."""
    if whole("releases", n, 1) > MOST_RELEASES:
        raise ParameterError(f"releases must be at most {MOST_RELEASES:,}, got {shown(n)}")
    return whole("releases", n)


class Left(NamedTuple):
    """What a ledger has, for n more releases of one kind. cost: what it charges for a mechanism."""

    terms: Terms
    spent: Amounts
    n: int
    cost: Callable[[Any], Amounts]

    def calibrated(self, law: Any, sensitivity: Real | Sensitivity, options: dict[str, Any]) -> Any:
        """Raises: BudgetExhausted, DTypeError, ParameterError."""
        (kept,) = {*self.terms.accounting} - {"delta"}
        share = self._share(kept)
        if issubclass(law, Sigma):
            made = self._gaussian(law, kept, share, sensitivity, options)
        else:
            if not isinstance(sensitivity, Sensitivity):  # a number is for whom the ledger is
                options = {**options, "adjacency": self.terms.adjacency, "unit": self.terms.unit}
            made = law(share, sensitivity, **options) if kept == "epsilon" else self._pure(law, sensitivity, options)
        if not self._pays(self.cost(made)):
            raise ParameterError(f"releases must leave each one a share that can be charged, got {self.n:,}")
        return made

    def _gaussian(self, law: Any, kept: str, share: Fraction, sensitivity: Any, options: dict[str, Any]) -> Any:
        if kept != "epsilon":
            return law.from_zcdp(share / 2 if kept == "mu_squared" else share, sensitivity, **options)
        return law.calibrated(share, sensitivity, delta=self._share("delta"), **options)

    def _pure(self, law: Any, sensitivity: Any, options: dict[str, Any]) -> Any:
        """By the largest epsilon of nine digits whose rho, or mu^2, fits n times."""

        def fits(epsilon: Fraction) -> Any:
            made = law(epsilon, sensitivity, **options)
            return made if self._pays(self.cost(made)) else None

        with searching():
            found = greatest(fits, Fraction(1, self.n))
        if found is None:
            raise ParameterError(f"releases must leave each one possible noise, got {self.n:,}")
        warn_if_weak("epsilon", found.epsilon)
        return found

    def _share(self, name: str) -> Fraction:
        """The nth part of what is left, itself or in nine digits, as the ledger adds it exactly."""
        at = self.terms.accounting.index(name)
        most, spent = self.terms.budget[at], self.spent[at]
        if not most:
            raise ParameterError(
                "law must be one of a pure epsilon here, such as DiscreteLaplace, because this ledger has no delta: one with "
                "delta= pays for Gaussians, and one by='zcdp' for many"
            )
        if most == spent:
            raise BudgetExhausted(f"no {name} is left of {amount(most, up=True)} for another release")
        part = (most - spent) / self.n
        if _unrounded(spent, part):
            return part
        return nine_digits(part - Fraction(1, 2**FINEST))  # whatever is rounded up in the sum

    def _pays(self, amounts: Amounts) -> bool:
        """Whether n such charges fit, each rounded up if the ledger may round one of them."""
        each = zip(self.terms.budget, self.spent, amounts, strict=True)
        return all(spent + self.n * _charged(spent, part) <= most for most, spent, part in each)


def _unrounded(spent: Fraction, part: Fraction) -> bool:
    """Whether no sum of charges of this part grows so long that the ledger rounds."""
    return lcm(spent.denominator, part.denominator).bit_length() <= MOST_BITS


def _charged(spent: Fraction, part: Fraction) -> Fraction:
    return part if _unrounded(spent, part) else Fraction(-(-part.numerator * 2**FINEST // part.denominator), 2**FINEST)
