# SPDX-License-Identifier: Apache-2.0
"""What a release guarantees, for an adjacency and a unit: what adds up, and what a ledger keeps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from dpfast.errors import DTypeError, NoGuaranteeError, ParameterError, WeakGuaranteeWarning, caller
from dpfast.privacy import formatting, gaussian, parameters
from dpfast.privacy.belief import posterior
from dpfast.privacy.exact import ball, rounded_up
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.record import Record, written
from dpfast.privacy.sensitivity import root_above

WEAK = {"epsilon": Fraction(10), "rho": Fraction(10), "delta": Fraction(1, 1000)}  # above them, a warning
_loudest = dict(WEAK)  # that a warning has named
_searching = ContextVar("searching", default=False)

LARGE = 100  # above it tanh(epsilon/2) is 1 but for 2^-143


class Guarantee(Record):
    """(epsilon, delta)-differential privacy, and rho-zCDP beside it, for an adjacency and a unit.

    epsilon, delta, rho, rho_delta: int, Fraction, Decimal, float (its shortest decimal) or text
        such as "0.1" or "1/3". epsilon or rho must be given; both may be 0. An epsilon that is not
        guaranteed is None, and its delta, too. delta lies in [0, 1) and is 0 by default. rho is by
        default what epsilon implies: epsilon tanh(epsilon/2), rounded up.
    rho_delta: the delta of rho, for approximate zCDP: 0 if rho is given, else delta.
    gdp: whether sqrt(2 rho)-GDP holds as well, as for real Gaussian noise.
    adjacency: "add-remove" or "substitution". unit: the unit of privacy, such as "person".
    add_remove: under substitution, what is guaranteed for adding or removing one unit, if it is
        known: a Guarantee under add-remove. Parallel composition asks for it.

    All figures hold, each alone: a Gaussian calibrated to (epsilon, delta) is rho-zCDP as well.
    Guarantees add up by `compose`.
    Raises: DTypeError, ParameterError.
    Source: [DMNS06]; (epsilon, delta): Dwork, Kenthapadi, McSherry, Mironov, Naor 2006; zCDP, and
        approximate: [BS16] Definitions 1.1, 8.1; GDP: Dong, Roth, Su 2022.

    >>> promise = dpfast.Guarantee(epsilon=1, delta="1e-6", unit="patient")
    >>> promise.epsilon, promise.unit, promise.pure
    (Fraction(1, 1), 'patient', False)
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction  # where epsilon implies it, computed when it is first asked for
    rho_delta: Fraction
    gdp: bool
    adjacency: str
    unit: str
    add_remove: Guarantee | None
    by: str = written(init=False, compare=False)  # which bound gave epsilon, where several could

    def __init__(
        self,
        epsilon: Real | None = None,
        delta: Real | None = None,
        *,
        rho: Real | None = None,
        rho_delta: Real | None = None,
        gdp: bool = False,
        adjacency: str = "add-remove",
        unit: str = "person",
        add_remove: Guarantee | None = None,
    ) -> None:
        if epsilon is None and rho is None:
            raise ParameterError("epsilon or rho must be given, or both")
        if delta is not None and epsilon is None:
            raise ParameterError("delta goes with an epsilon, and rho_delta with a rho")
        if rho is None and (rho_delta is not None or gdp):
            raise ParameterError("rho_delta and gdp go with a rho")
        if add_remove is not None:
            _check_add_remove(add_remove, adjacency, unit)
        exact_epsilon = None if epsilon is None else _not_negative("epsilon", epsilon)
        exact_delta = None if epsilon is None else _below_one("delta", 0 if delta is None else delta)
        if rho is None:
            self._keep(_later=partial(rho_of_epsilon, exact_epsilon))  # type: ignore[arg-type]
        else:
            self._keep(rho=_not_negative("rho", rho))
        self._keep(
            epsilon=exact_epsilon,
            delta=exact_delta,
            rho_delta=exact_delta if rho is None else _below_one("rho_delta", 0 if rho_delta is None else rho_delta),
            gdp=parameters.flag("gdp", gdp),
            adjacency=parameters.adjacency(adjacency),
            unit=parameters.unit(unit),
            add_remove=add_remove,
            by="",
        )
        if self.gdp and self.rho_delta:
            raise ParameterError("gdp goes with a rho whose rho_delta is 0")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The rho. Two threads may both compute it; both find the same one."""
            if name != "rho" or "_later" not in vars(self):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return vars(self).setdefault("rho", vars(self)["_later"]())

    def _with_rho(self, later: Callable[[], Fraction]) -> Guarantee:
        """The guarantee with what `later` gives for its rho, called when the rho is asked for."""
        known = {name: value for name, value in vars(self).items() if name != "rho"}
        return Guarantee._of(**{**known, "_later": later})

    def _written(self, where: str) -> list[tuple[str, Any, Callable[[Any], Any] | None]]:
        self.rho  # noqa: B018  it is kept now
        return super()._written(where)

    def __getstate__(self) -> dict[str, Any]:
        self.rho  # noqa: B018
        return super().__getstate__()

    def _compared(self) -> tuple[Any, ...]:
        self.rho  # noqa: B018
        return super()._compared()

    @property
    def pure(self) -> bool:
        """Whether epsilon holds with delta = 0.

        >>> dpfast.Guarantee(epsilon=1).pure, dpfast.Guarantee(epsilon=1, delta="1e-6").pure
        (True, False)
        """
        return self.epsilon is not None and not self.delta

    @property
    def mu(self) -> float | None:
        """The mu of mu-GDP, rounded up, if gdp or a pure epsilon holds.

        >>> one = dpfast.Gaussian(sigma=2, sensitivity=dpfast.Sensitivity(l0=1, linf=1))
        >>> one.guarantee.mu
        0.5
        """
        return None if self.mu_squared is None else root_above(self.mu_squared)

    @property
    def mu_squared(self) -> Fraction | None:
        """The square of the mu, which adds up: what a ledger by="gdp" is charged.

        2 rho if gdp holds, exactly; what a pure epsilon implies, rounded up; the less of both.

        >>> one = dpfast.Gaussian(sigma=2, sensitivity=dpfast.Sensitivity(l0=1, linf=1))
        >>> one.guarantee.mu_squared, dpfast.Guarantee(epsilon=1, delta="1e-6").mu_squared
        (Fraction(1, 4), None)
        """
        found = [2 * self.rho] if self.gdp else []
        if self.epsilon is not None and self.pure:
            found.append(mu_squared_of_epsilon(self.epsilon))
        return min(found, default=None)

    def group(self, size: int) -> Guarantee:
        """The guarantee for `size` units together, such as a household of at most so many persons.

        It is (size epsilon, delta (e^(size epsilon) - 1)/(e^epsilon - 1)), the delta rounded up;
        and size^2 rho, or what the epsilon implies if that is less or rho has a delta.
        Raises: DTypeError, ParameterError (delta would reach 1; rho has a delta, and no epsilon).
        Source: Vadhan 2017, Lemma 2.2, its geometric sum kept; [BS16] Proposition 1.9.

        >>> household = dpfast.DiscreteLaplace(epsilon=0.5, sensitivity=1).guarantee.group(4)
        >>> household.epsilon
        Fraction(2, 1)
        """
        k = parameters.whole("size", size, 1)
        if k >= 2**63:
            raise ParameterError(f"size must be below 2**63, got {shown(k)}")
        if k == 1:
            return self
        if self.rho_delta and self.epsilon is None:
            raise ParameterError(
                "no theorem is known for groups under approximate zCDP: ask for .approximate(delta) first, whose epsilon has one"
            )
        epsilon = None if self.epsilon is None else k * self.epsilon
        rho = None if self.rho_delta else k**2 * self.rho
        if self.pure and rho is not None and not self.gdp:
            rho = min(rho, rho_of_epsilon(epsilon))  # type: ignore[arg-type]
        return Guarantee(
            epsilon,
            self.delta and self._group_delta(k),
            rho=rho,
            gdp=self.gdp,
            adjacency=self.adjacency,
            unit=f"{k} x {self.unit}",
            add_remove=self.add_remove and self.add_remove.group(k),
        )

    def _group_delta(self, k: int) -> Fraction:
        epsilon, delta = self.epsilon or Fraction(0), self.delta or Fraction(0)
        if epsilon == 0:
            found: Fraction | float = k * delta
        else:
            found = rounded_up(lambda: ball(delta) * (k * ball(epsilon)).expm1() / ball(epsilon).expm1())
        if found >= 1:
            raise ParameterError(f"delta would reach 1 for a group of {k}: nothing would be promised")
        return Fraction(found)

    def approximate(self, delta: Real) -> Guarantee:
        """The least epsilon that is proved for this delta; rho holds as well.

        It comes from one of these, which the attribute `by` names:
        "sum": the epsilon that is promised, if its delta is no larger.
        "mu": the curve of real Gaussian noise, if gdp holds. Source: [BW18] Theorem 8.
        "rho": zCDP, for what delta leaves beside rho_delta. Source: [CKS20] Corollary 13, which is
            sharper than [BS16] Proposition 1.3, and so than advanced composition [KOV15].
        An epsilon by mu or rho is a double: the least that is found, proved in intervals.
        Raises: DTypeError, ParameterError (a delta that the promised ones exceed).

        >>> round(float(dpfast.Guarantee(rho="0.1").approximate("1e-6").epsilon), 3)
        2.142
        """
        wanted = parameters.probability("delta", delta, decimal=True)
        found: dict[str, Fraction] = {}
        if self.epsilon is not None and self.delta is not None and self.delta <= wanted:
            found["sum"] = self.epsilon
        if wanted > self.rho_delta:
            least = gaussian.least_epsilon(self._delta_of_rho, self.rho, wanted - self.rho_delta)
            if least is None:
                raise ParameterError(f"delta must be one that doubles can find an epsilon for, got {shown(delta)}")
            found["mu" if self.gdp else "rho"] = least
        if not found:
            raise ParameterError(f"delta must be above what the parts' own deltas come to, got {shown(delta)}")
        by = min(found, key=found.__getitem__)
        return with_epsilon(self, found[by], wanted, by)

    def delta_at(self, epsilon: Real) -> Fraction:
        """The least delta that is proved for this epsilon: the inverse of `approximate`.

        It comes from the same bounds, rounded up.
        Raises: DTypeError, ParameterError (none below 1 is proved).

        >>> dpfast.Guarantee(rho="0.1").delta_at(3) < 1e-6
        True
        """
        wanted = parameters.exact_positive("epsilon", epsilon, decimal=True)
        found = self.rho_delta + (self._delta_of_rho(wanted) if self.rho else 0)
        if self.epsilon is not None and self.delta is not None and self.epsilon <= wanted:
            found = min(found, self.delta)
        if found >= 1:
            raise ParameterError(f"epsilon must be one for which a delta below 1 is proved, got {shown(epsilon)}")
        return found

    def _delta_of_rho(self, epsilon: Fraction) -> Fraction:
        """That of the noise, beside rho_delta."""
        if self.gdp:
            return Fraction(gaussian.gaussian_delta(epsilon, 2 * self.rho, Fraction(1)))
        return Fraction(gaussian.delta_of_zcdp(self.rho, epsilon))

    def posterior(self, prior: Real) -> tuple[float, float]:
        """The least and the largest belief in a statement about one unit after a release.

        prior: the belief before. docs/meaning.md says which statements, and whose belief.
        Raises: ParameterError (no epsilon, or a delta beside it).

        >>> before = 0.01  # what a reader believes who knows all others
        >>> [round(float(after), 4) for after in dpfast.Guarantee(epsilon=1).posterior(before)]
        [0.0037, 0.0267]
        """
        if self.epsilon is None or not self.pure:
            raise ParameterError(
                "a pure epsilon is needed: a delta says how often a loss is larger, and not by how much"
            )
        return posterior(prior, self.epsilon)

    def __repr__(self) -> str:
        figures = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self.rho}
        figures["rho_delta"] = self.rho_delta or None
        said = [f"{name}={formatting.readable(value)}" for name, value in figures.items() if value is not None]
        said += [f"mu={self.mu:.6g}"] if self.gdp else []
        said += [f"by={self.by!r}"] if self.by else []
        said += [f"adjacency={self.adjacency!r}", f"unit={self.unit!r}"]
        said += [f"add_remove={self.add_remove!r}"] if self.add_remove else []
        return f"<Guarantee {', '.join(said)}>"


def warn_if_weak(name: str, figure: Fraction) -> None:
    """Warn of a figure that hides too little: once in a process, and again of a larger one."""
    if figure <= _loudest[name] or _searching.get():
        return
    _loudest[name] = figure
    if name == "delta":
        why = f"this allows {float(100 * figure):.3g} % of the units to be published whole"
    else:
        power = f"{math.exp(figure):.1e}" if figure < 700 else f"10^{math.floor(figure * Fraction(math.log10(math.e)))}"
        why = f"e^{name} = {power}: this hides nobody"
    warnings.warn(f"{name} = {formatting.readable(figure)}: {why}", WeakGuaranteeWarning, stacklevel=caller())


@contextmanager
def searching() -> Iterator[None]:
    """Within, mechanisms are tried and not used: no warning of them."""
    before = _searching.set(True)
    try:
        yield
    finally:
        _searching.reset(before)


def with_epsilon(guarantee: Guarantee, epsilon: Fraction, delta: Fraction, by: str = "") -> Guarantee:
    """The same, with another epsilon for which there is a proof."""
    return Guarantee._of(**{**vars(guarantee), "epsilon": epsilon, "delta": delta, "by": by})  # noqa: SLF001  a record of its own kind


def rho_of_epsilon(epsilon: Fraction) -> Fraction:
    """The rho of any epsilon-DP: epsilon tanh(epsilon/2), a double rounded up; epsilon if large.

    Randomized response dominates all such mechanisms [KOV15]. With t = order - 1/2, its E
    exp((order - 1) L) is cosh(epsilon t)/cosh(epsilon/2), whose log is concave in t^2 and so at
    most its tangent at t = 1/2: order (order - 1) epsilon tanh(epsilon/2). For (epsilon, delta)-DP
    the same holds but for delta.
    """
    if epsilon == 0 or epsilon > LARGE:
        return epsilon
    return Fraction(rounded_up(lambda: ball(epsilon) * (ball(epsilon) / 2).tanh()))


def mu_squared_of_epsilon(epsilon: Fraction) -> Fraction:
    """The least mu^2 of mu-GDP for all epsilon-DP, a double rounded up; 8 epsilon if it is large.

    With a = 1/(1 + e^epsilon), epsilon-DP says that a test of level x misses with probability
    f(x) = max(0, 1 - e^epsilon x, e^-epsilon (1 - x)) or more: the line from (0, 1) to (a, a), and
    the one from there to (1, 0). mu-GDP says the same with G(x) = Phi(Phi^-1(1 - x) - mu), which is
    convex, G(0) = 1 and G(1) = 0. So f >= G if and only if a >= G(a), by the chords. There
    Phi^-1(1 - a) - mu <= Phi^-1(a) = -Phi^-1(1 - a): mu >= 2 Phi^-1(1 - a). And 1 - a = (1 +
    tanh(epsilon/2))/2, so the least mu is sqrt(8) erfinv(tanh(epsilon/2)). As Phi(-y) <=
    exp(-y^2/2)/2, a = Phi(-mu/2) gives mu^2 <= 8 ln((1 + e^epsilon)/2) <= 8 epsilon.
    Source: Dong, Roth, Su 2022, whose Proposition 2.5 has f.
    """
    if epsilon == 0 or epsilon > LARGE:
        return 8 * epsilon
    return Fraction(rounded_up(lambda: 8 * (ball(epsilon) / 2).tanh().erfinv() ** 2))


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


def called(guarantee: Guarantee, word: str) -> Guarantee:
    """The same promise for sentences, which call its unit by another word."""
    return Guarantee._of(**{**vars(guarantee), "unit": word})  # noqa: SLF001  a record of its own kind


def _check_add_remove(known: object, adjacency: str, unit: str) -> None:
    if not isinstance(known, Guarantee):
        raise DTypeError(f"add_remove must be a Guarantee, not {type(known).__name__}")
    if adjacency == "add-remove":
        raise ParameterError("add_remove is for substitution: under add-remove the guarantee itself says it")
    if known.adjacency != "add-remove" or known.unit != unit:
        raise ParameterError("add_remove must hold under add-remove, for the same unit of privacy")


def _below_one(name: str, value: Real) -> Fraction:
    exact = _not_negative(name, value)
    if exact >= 1:
        raise ParameterError(f"{name} must be below 1, got {shown(value)}")
    return exact


def _not_negative(name: str, value: Real) -> Fraction:
    exact = parameters.exact_real(name, value, "finite and not negative", decimal=True)
    if exact < 0:
        raise ParameterError(f"{name} must not be negative, got {shown(value)}")
    return exact
