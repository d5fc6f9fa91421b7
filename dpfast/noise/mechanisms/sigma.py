# SPDX-License-Identifier: Apache-2.0
"""What Gaussian mechanisms share: sigma, what it spends, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

from dpfast.errors import DTypeError, NoGuaranteeError, ParameterError
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy import formatting, gaussian, parameters
from dpfast.privacy.guarantee import Guarantee, searching, warn_if_weak, with_epsilon
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.record import Record, ratio, written
from dpfast.privacy.sensitivity import MAX_CELLS, Sensitivity, across_parts, root_above

NO_SENSITIVITY = "sensitivity must be given: this mechanism was made from sigma alone"


def _figures(write: Callable[[Fraction], str]) -> Callable[[Guarantee | None], dict[str, Any]]:
    def entries(found: Guarantee | None) -> dict[str, Any]:
        names = () if found is None else ("rho",) if found.epsilon is None else ("epsilon", "delta")
        return {name: write(getattr(found, name)) for name in names}

    return entries


def _several(write: Callable[[int], Any]) -> Callable[[int], dict[str, Any]]:
    return lambda releases: {"releases": write(releases)} if releases > 1 else {}


def _change(s: Sensitivity | None) -> dict[str, object]:
    if s is None:
        return {}
    cells = {} if s.largest is None else {"l0": s.largest.l0, "linf": str(s.largest.linf)}
    return {"l2_squared": str(s.l2_squared), "adjacency": s.adjacency, "unit": s.unit, **cells}


def _change_in_words(s: Sensitivity | None) -> dict[str, str]:
    return {} if s is None else {"l2": f"{s.l2:.6g}", "adjacency": s.adjacency, "unit": s.unit}


class Sigma(Record):
    """The parameters of a Gaussian law. A subclass says what noise of a given sigma spends."""

    sigma_squared: Fraction = written(stream=ratio, words=lambda squared: {"sigma": f"{root_above(squared):.6g}"})
    # what sigma was found for: rho, or epsilon and delta
    calibrated_for: Guarantee | None = written(metadata=_figures(str), words=_figures(formatting.exact), init=False)
    sensitivity: Sensitivity | None = written(metadata=_change, words=_change_in_words)
    # how many equal releases together have that epsilon and delta
    releases: int = written(metadata=_several(int), words=_several(str), init=False)

    GDP: ClassVar[bool] = False  # whether rho is that of real Gaussian noise
    _RANGE: ClassVar[dict[str, float]] = {}  # least and most sigma, where calibrate's own do not serve

    @staticmethod
    def _delta(epsilon: Fraction, sensitivity: Sensitivity, sigma_squared: Fraction) -> float:
        """The delta of this law, rounded up."""
        raise NotImplementedError

    def __init__(
        self, sigma: Real | None = None, *, sigma_squared: Real | None = None, sensitivity: Sensitivity | None = None
    ) -> None:
        if (sigma is None) == (sigma_squared is None):
            raise ParameterError("sigma or sigma_squared must be given, and not both")
        if sigma is not None:
            squared = parameters.exact_positive("sigma", sigma) ** 2
        else:
            squared = parameters.exact_positive("sigma_squared", sigma_squared)
        known = None if sensitivity is None else a_sensitivity(sensitivity)
        self._keep(sigma_squared=squared, sensitivity=known, calibrated_for=None, releases=1)
        if known is not None:
            warn_if_weak("rho", self.rho())

    @property
    def _most_cells(self) -> int | None:
        return self.sensitivity.cells if self.sensitivity else None

    # ------------------------------------------------------------------ what it spends

    @classmethod
    def from_zcdp(cls, rho: Real, sensitivity: Sensitivity, **options: Any) -> Self:
        """The mechanism that is exactly rho-zCDP: sigma^2 = l2_squared/(2 rho).

        Source: [BS16] Proposition 1.6, [CKS20] Theorem 4.

        >>> dpfast.DiscreteGaussian.from_zcdp("0.02", dpfast.Sensitivity(l0=4, linf=1)).sigma
        10.0
        """
        exact_rho, norm = parameters.exact_positive("rho", rho, decimal=True), a_sensitivity(sensitivity)
        squared = norm.l2_squared / (2 * exact_rho)
        try:
            made = cls(sigma_squared=squared, sensitivity=norm, **options)
        except ParameterError as failure:
            raise ParameterError(f"rho must ask for possible noise, got {shown(rho)}: {failure}") from None
        vars(made).update(calibrated_for=Guarantee(rho=exact_rho, adjacency=norm.adjacency, unit=norm.unit))
        return made

    @classmethod
    def calibrated(
        cls, epsilon: Real, sensitivity: Sensitivity, *, delta: Real, releases: int = 1, **options: Any
    ) -> Self:
        """The mechanism of the least sigma found, a double, that is (epsilon, delta)-DP: proved.

        releases: of how many releases together, each of that sensitivity: `compose` and the charge
            of several columns know it. One alone is promised no less. `Ledger(path, epsilon,
            delta=delta, by="gdp")` pays for all of them, one by one, if they are Gaussian. No
            ledger does if they are DiscreteGaussian: by="zcdp" pays for some 80 to 93 of 100.
            `ledger.calibrated(law, releases=, sensitivity=)` is what a ledger pays for to the last.

        >>> cells = dpfast.Sensitivity(l0=4, linf=1)
        >>> mechanism = dpfast.DiscreteGaussian.calibrated(1, cells, delta="1e-6")
        >>> round(mechanism.sigma, 3), mechanism.guarantee.epsilon
        (8.45, Fraction(1, 1))
        """
        together = _of_several(a_sensitivity(sensitivity), parameters.whole("releases", releases, 1))
        exact_epsilon = parameters.exact_positive("epsilon", epsilon, decimal=True)
        exact_delta = parameters.probability("delta", delta, decimal=True)
        known = a_sensitivity(sensitivity)
        warn_if_weak("epsilon", exact_epsilon)
        warn_if_weak("delta", exact_delta)
        sigma = cls._least_sigma(exact_epsilon, exact_delta, together)
        with searching():  # what it was made for has been looked at
            made = cls(sigma, sensitivity=known, **options)
        wanted = Guarantee(exact_epsilon, exact_delta, adjacency=known.adjacency, unit=known.unit)
        vars(made).update(calibrated_for=wanted, releases=int(releases))
        return made

    @classmethod
    def _least_sigma(cls, epsilon: Fraction, delta: Fraction, change: Sensitivity) -> Fraction:
        delta_of = partial(cls._delta, epsilon, change)
        return gaussian.calibrate(delta_of, delta, start=max(change.l2, 1e-3), **cls._RANGE)

    def delta(self, epsilon: Real, sensitivity: Sensitivity | None = None) -> float:
        """The delta, rounded up, of (epsilon, delta)-DP; by default for its own sensitivity.

        >>> mechanism = dpfast.Gaussian(sigma=10, sensitivity=dpfast.Sensitivity(l0=4, linf=1))
        >>> mechanism.delta(1) < 1e-6 < mechanism.delta("0.5")
        True
        """
        return self._delta(
            parameters.exact_positive("epsilon", epsilon, decimal=True), self._known(sensitivity), self.sigma_squared
        )

    def rho(self, sensitivity: Sensitivity | None = None) -> Fraction:
        """The rho of zCDP that a release spends, exactly: l2_squared/(2 sigma^2).

        >>> dpfast.Gaussian(sigma=10).rho(dpfast.Sensitivity(l0=4, linf=1))
        Fraction(1, 50)
        """
        return gaussian.rho(self._known(sensitivity).l2_squared, self.sigma_squared)

    @lockfree_property
    def guarantee(self) -> Guarantee:
        """What a release spends: rho, and any epsilon and delta that sigma was found for.

        >>> dpfast.Gaussian(sigma=10, sensitivity=dpfast.Sensitivity(l0=4, linf=1)).guarantee.rho
        Fraction(1, 50)
        """
        if self.sensitivity is None:
            raise NoGuaranteeError(NO_SENSITIVITY)
        return self._guarantee(self.sensitivity)

    def _guarantee(self, change: Sensitivity) -> Guarantee:
        added = change.add_remove if change.adjacency == "substitution" else None
        known = None if added is None else self._guarantee(added)
        return Guarantee(
            getattr(self.calibrated_for, "epsilon", None),
            getattr(self.calibrated_for, "delta", None),
            rho=self.rho(change),
            gdp=self.GDP,
            adjacency=change.adjacency,
            unit=change.unit,
            add_remove=known,
        )

    def _across_parts(self) -> Guarantee | None:
        """What equal releases of disjoint parts promise: the noise is the same on all cells.

        Where `cells` bounds a part and not the whole, epsilon is the least for the delta by the law
        itself, and not below the one that sigma was found for. None if nothing is known.
        """
        change = across_parts(self._known(None))
        found = self._guarantee(change)
        if change == self.sensitivity or found.epsilon is None or found.delta is None:
            return found
        delta_of = partial(self._delta, sensitivity=change, sigma_squared=self.sigma_squared)
        epsilon = gaussian.least_epsilon(delta_of, found.rho, found.delta)
        return None if epsilon is None else with_epsilon(found, max(epsilon, found.epsilon), found.delta)

    def group(self, size: int) -> Guarantee:
        """`guarantee.group(size)`, with the delta of the law itself if that is less.

        The worst of so many units all change the same cells: those of one unit, so many times as
        far (dpfast/privacy/gaussian.py, 3). A sigma that was found for rho has no delta.
        Raises: DTypeError, ParameterError.

        >>> mechanism = dpfast.Gaussian(sigma=10, sensitivity=dpfast.Sensitivity(l0=4, linf=1))
        >>> mechanism.group(2).rho  # four times that of one
        Fraction(2, 25)
        """
        return self._group(self.guarantee, self._known(None), parameters.whole("size", size, 1))

    def _group(self, one: Guarantee, change: Sensitivity, size: int) -> Guarantee:
        found = Guarantee._of(**{**vars(one), "epsilon": None, "delta": None, "add_remove": None}).group(size)  # noqa: SLF001  a record of its own kind
        if size == 1:
            return one
        known = None
        if one.add_remove and change.add_remove:
            known = self._group(one.add_remove, change.add_remove, size)
        epsilon, delta = None, None
        if one.epsilon is not None:
            epsilon = size * one.epsilon
            delta = Fraction(self._delta(epsilon, _of_group(change, size), self.sigma_squared))
            with suppress(ParameterError) if delta < 1 else nullcontext():  # the general bound may reach 1 first
                delta = min(delta, one.group(size).delta or delta)
        return Guarantee._of(**{**vars(found), "epsilon": epsilon, "delta": delta, "add_remove": known})  # noqa: SLF001

    def _known(self, sensitivity: Sensitivity | None) -> Sensitivity:
        found = self.sensitivity if sensitivity is None else a_sensitivity(sensitivity)
        if found is None:
            raise ParameterError(NO_SENSITIVITY)
        return found

    # ------------------------------------------------------------------ records

    @property
    def sigma(self) -> float:
        """The parameter sigma, in the units of the counts or values, rounded up.

        >>> dpfast.Gaussian(sigma_squared=2).sigma
        1.4142135623730951
        """
        return root_above(self.sigma_squared)

    @property
    def scale(self) -> float:
        return self.sigma

    @property
    def adjacency(self) -> str | None:
        return None if self.sensitivity is None else self.sensitivity.adjacency

    @property
    def unit(self) -> str | None:
        return None if self.sensitivity is None else self.sensitivity.unit

    @property
    def _cell_squared(self) -> Fraction | None:
        s = self.sensitivity
        return None if s is None else s.l2_squared if s.linf is None else s.linf**2

    def _entries(self) -> dict[str, object]:
        return super()._entries() | ({} if self.sensitivity is None else {"rho_spent": str(self.rho())})


def _of_several(one: Sensitivity, releases: int) -> Sensitivity:
    """What a neighbour changes in so many releases together."""
    about = {"adjacency": one.adjacency, "unit": one.unit}
    if releases * (one.l0 or 1) > MAX_CELLS:
        raise ParameterError(f"releases must change fewer than 2**63 cells in all, got {shown(releases)}")
    if releases == 1:
        return one
    if one.largest is None:
        return Sensitivity.from_l2(releases * one.l2_squared, **about)
    return Sensitivity.changes(releases * one.largest.l0, one.largest.linf, **about)


def _of_group(one: Sensitivity, size: int) -> Sensitivity:
    """The worst change of so many units."""
    if one.largest is None:
        return Sensitivity.from_l2(size**2 * one.l2_squared, adjacency=one.adjacency)
    return Sensitivity.changes(one.largest.l0, size * one.largest.linf, adjacency=one.adjacency)


def a_sensitivity(value: object) -> Sensitivity:
    """A Sensitivity, or an error that says why a number is none."""
    if not isinstance(value, Sensitivity):
        raise DTypeError(
            "sensitivity must be a Sensitivity here, because a bare number may be a norm, its square or one cell's change: "
            f"Sensitivity(l0, linf), or Sensitivity.from_l2(squared), not {type(value).__name__}"
        )
    value.refuse_private_keys()
    return value
