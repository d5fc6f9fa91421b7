# SPDX-License-Identifier: Apache-2.0
# mypy: disallow-subclassing-any=False
"""diffprivlib's mechanisms on exact noise, under their own names, and histograms in one release.

    with dpfast.adapters.diffprivlib.installed():
        diffprivlib.tools.mean(ages, epsilon=1.0, bounds=(0, 100))

Each class here is a subclass of theirs that changes where the noise comes from. Constructor,
checks, `bias`, `variance`, truncation and folding are their code, the last two applied to the noisy
value. Epsilon, delta, sensitivity and adjacency keep their meaning. The rest stays theirs:
mechanisms that reject noise until it fits a range (LaplaceBoundedDomain, and so `var` and `std`,
and LaplaceBoundedNoise), mechanisms that are no sum of value and noise (Binary, Exponential and its
kind, Bingham, Vector), Staircase and Uniform.

- Real values are taken as doubles and get the ideal real noise. Afterwards they are rounded to a
  grid of 2^-20 of its scale.
- Integers must fit int64. The noisy integer is the exact sum, clamped to int64.
- If their scale is 0 (sensitivity 0, epsilon infinite, delta 1 in Laplace) a value comes back
  unchanged.
- A real that is not finite is refused, as everywhere in dpfast: it would come back without noise.
  (In Snapping an infinity meets the bound first.)
- random_state must be None, or what diffprivlib makes of None. No seed repeats a release, and
  np.random.seed does not either.

Raises: what theirs raise; DTypeError, ParameterError (a seed; a scale beyond dpfast's range; a
    value beyond int64, or not finite).
"""

from __future__ import annotations

import math
import secrets
import sys
import warnings
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import dpfast
from dpfast.adapters import Installer, library, rounded_down

_library: Any = library("diffprivlib", "diffprivlib", "0.6")
theirs: Any = _library.mechanisms

__all__ = [
    "Gaussian",
    "GaussianAnalytic",
    "GaussianDiscrete",
    "Geometric",
    "GeometricFolded",
    "GeometricTruncated",
    "Laplace",
    "LaplaceFolded",
    "LaplaceTruncated",
    "Snapping",
    "histogram",
    "histogramdd",
    "install",
    "installed",
    "uninstall",
]

DIGITS = 400  # so that 1 - delta keeps many of any delta. Decimal rounds ln correctly: the next one is a bound


def __dir__() -> list[str]:
    return __all__


@lru_cache(maxsize=1024)
def _law(made: Callable[[float, float, float], Any], epsilon: float, delta: float, sensitivity: float) -> Any:
    return None if sensitivity == 0 or math.isinf(epsilon) else made(epsilon, delta, sensitivity)


class _Exact:
    """Takes the place of their source of randomness."""

    _made: Callable[[float, float, float], Any]  # the mechanism for an epsilon, a delta and a sensitivity

    @property
    def law(self) -> Any:
        """The mechanism of dpfast, or None if there is no noise."""
        return _law(self._made, self.epsilon, self.delta, self.sensitivity)

    def _find_scale(self) -> float:  # where theirs would search for a sigma in floating point
        return 0.0 if self.law is None else self.law.sigma

    @property
    def random_state(self) -> object:
        return self.__dict__["random_state"]

    @random_state.setter
    def random_state(self, value: object) -> None:
        default = value is None or type(value) is secrets.SystemRandom
        if not default and value is not np.random.mtrand._rand:  # noqa: SLF001
            raise dpfast.errors.ParameterError(
                f"random_state must be None: noise comes fresh from the operating system, got {value!r:.40}"
            )
        self.__dict__["random_state"] = value

    # They make floats of epsilon, delta and a real sensitivity, to nearest: here not past the
    # number given.

    @classmethod
    def _check_epsilon_delta(cls, epsilon: Any, delta: Any) -> tuple[float, float]:
        e, d = super()._check_epsilon_delta(epsilon, delta)  # type: ignore[misc]
        if math.isnan(e):
            raise dpfast.errors.ParameterError("epsilon must be a number, got nan")
        return (math.nextafter(e, 0.0) if e > epsilon else e), (math.nextafter(d, 0.0) if d > delta else d)

    @classmethod
    def _check_sensitivity(cls, sensitivity: Any) -> Any:
        found = super()._check_sensitivity(sensitivity)  # type: ignore[misc]
        if not found < math.inf:
            raise dpfast.errors.ParameterError(f"sensitivity must be finite, got {found}")
        return math.nextafter(found, math.inf) if found < sensitivity else found

    if TYPE_CHECKING:
        epsilon: float
        delta: float
        sensitivity: float

        def _check_all(self, value: Any) -> None: ...


class _OnIntegers(_Exact):
    def randomise(self, value: Any) -> int:
        self._check_all(value)
        law = self.law
        if law is None:
            return int(value)
        if not -(2**63) <= value < 2**63:
            raise dpfast.errors.ParameterError("value must fit int64")
        return int(law.release(np.array([int(value)], np.int64))[0])


class _OnReals(_Exact):
    def randomise(self, value: Any) -> np.float64:
        self._check_all(value)
        law, near = self.law, np.float64(value)
        if law is None:
            return near
        if not np.isfinite(near):
            raise dpfast.errors.ParameterError(
                "value must be finite: NaN and infinities take no noise, and would show that they are there"
            )
        found: np.float64 = law.release(np.array([near]))[0]
        return found


class Geometric(_OnIntegers, theirs.Geometric):
    """Two-sided geometric noise: epsilon-DP."""

    @staticmethod
    def _made(epsilon: float, _: float, sensitivity: float) -> dpfast.DiscreteLaplace:
        return dpfast.DiscreteLaplace(Fraction(epsilon), int(sensitivity))


class GeometricTruncated(theirs.GeometricTruncated, Geometric):
    """The same, clamped to [lower, upper]."""


class GeometricFolded(theirs.GeometricFolded, Geometric):
    """The same, folded at lower and upper."""


class Laplace(_OnReals, theirs.Laplace):
    """Laplace noise: (epsilon, delta)-DP."""

    @staticmethod
    def _made(epsilon: float, delta: float, sensitivity: float) -> dpfast.Laplace | None:
        """Laplace noise of scale sensitivity/(epsilon - ln(1 - delta)), rounded up.

        With e = exp(epsilon), P <= e/(1 - delta) P' gives P <= e P' + delta P <= e P' + delta:
        [HLM15].
        """
        if delta == 1:
            return None
        if delta == 0:
            return dpfast.Laplace(Fraction(epsilon), sensitivity)
        with localcontext() as context:
            context.prec, context.rounding = DIGITS, ROUND_CEILING
            spent = Fraction(epsilon) - Fraction((1 - Decimal(delta)).ln().next_plus())
        return dpfast.Laplace(Fraction(rounded_down(spent)), sensitivity)


class LaplaceTruncated(theirs.LaplaceTruncated, Laplace):
    """The same, clamped to [lower, upper]."""


class LaplaceFolded(theirs.LaplaceFolded, Laplace):
    """The same, folded at lower and upper."""


class Snapping(LaplaceTruncated, theirs.Snapping):
    """Laplace noise of scale sensitivity/effective_epsilon() between two clamps.

    Values are rounded to multiples of the power of two above the scale.

    The clamps are exact and the grid is that of the multiples, so the value is neither scaled nor
    shifted: the first clamp brings no two values further apart, and all else comes after the noise.
    Source: [Mir12] section 5.
    """

    @property
    def law(self) -> Any:
        return _law(self._made, self.effective_epsilon(), 0.0, self.sensitivity)

    @staticmethod
    def _made(epsilon: float, _: float, sensitivity: float) -> dpfast.Laplace:
        law = dpfast.Laplace(Fraction(epsilon), sensitivity)
        below = Fraction(law.granularity) * 2**20  # the largest power of two that is at most the scale
        grid = below if below == law.sensitivity / law.epsilon else 2 * below
        return dpfast.Laplace(Fraction(epsilon), sensitivity, granularity=grid)

    def _clamped(self, value: Any) -> Any:
        return theirs.base.TruncationAndFoldingMixin._truncate(self, value)  # noqa: SLF001  Snapping's is of scaled values

    def randomise(self, value: Any) -> np.float64:
        self._check_all(value)
        return np.float64(self._clamped(_OnReals.randomise(self, self._clamped(value))))


class Gaussian(_OnReals, theirs.Gaussian):
    """Gaussian noise of the classical sigma: (epsilon, delta)-DP for epsilon <= 1."""

    @staticmethod
    def _made(epsilon: float, delta: float, sensitivity: float) -> dpfast.Gaussian:
        """The sigma sqrt(2 ln(1.25/delta)) sensitivity/epsilon, rounded up; delta is checked."""
        with localcontext() as context:
            context.prec, context.rounding = DIGITS, ROUND_CEILING
            log = Fraction((Decimal("1.25") / Decimal(delta)).ln().next_plus())
        norm = dpfast.Sensitivity.from_l2(Fraction(sensitivity) ** 2)
        factor = -2 * Fraction(rounded_down(-log)) / Fraction(epsilon) ** 2
        law = dpfast.Gaussian(sigma_squared=factor * norm.l2_squared, sensitivity=norm)
        if not law.delta(epsilon) <= delta:
            raise dpfast.errors.ParameterError(
                f"sigma does not serve {epsilon=}, {delta=}: GaussianAnalytic finds one that does"
            )
        return law


class GaussianAnalytic(Gaussian, theirs.GaussianAnalytic):
    """Gaussian noise of the least sigma that is (epsilon, delta)-DP, found in proved intervals."""

    @staticmethod
    def _made(epsilon: float, delta: float, sensitivity: float) -> dpfast.Gaussian:
        return dpfast.Gaussian.calibrated(
            Fraction(epsilon), dpfast.Sensitivity.from_l2(Fraction(sensitivity) ** 2), delta=Fraction(delta)
        )


class GaussianDiscrete(_OnIntegers, theirs.GaussianDiscrete):
    """Discrete Gaussian noise of the least proved sigma: (epsilon, delta)-DP for one integer."""

    @staticmethod
    def _made(epsilon: float, delta: float, sensitivity: float) -> dpfast.DiscreteGaussian:
        norm = dpfast.Sensitivity.changes(l0=1, linf=int(sensitivity))
        return dpfast.DiscreteGaussian.calibrated(Fraction(epsilon), norm, delta=Fraction(delta))


# ------------------------------------------------------------------ histograms


def histogram(
    sample: Any,
    epsilon: float = 1.0,
    bins: Any = 10,
    range: Any = None,  # noqa: A002  their name
    weights: Any = None,
    density: bool | None = None,
    random_state: None = None,
    accountant: Any = None,
    **unused: Any,
) -> tuple[Any, Any]:
    """Their `histogram`, with all bins in one release.

    Arguments, result, warnings and the spending of the accountant are as theirs.

    Each bin is its count as an int plus geometric noise for sensitivity 1, clamped to 0 and
    sys.maxsize, and to its dtype. Spends epsilon. Raises: beside what theirs raises, ParameterError
    (a seed; weights that are not finite).
    """
    law, accountant = _begin(epsilon, random_state, accountant, unused, leaks=range is None)
    counts, edges = np.histogram(sample, bins=bins, range=range, weights=weights)
    noisy = _released(law, counts)
    accountant.spend(epsilon, 0)
    if density:
        return noisy / np.diff(edges).astype(float) / (noisy.sum() or 1), edges
    return noisy, edges


def histogramdd(
    sample: Any,
    epsilon: float = 1.0,
    bins: Any = 10,
    range: Any = None,  # noqa: A002  their name
    weights: Any = None,
    density: bool | None = None,
    random_state: None = None,
    accountant: Any = None,
    **unused: Any,
) -> tuple[Any, Any]:
    """Their `histogramdd`, with all bins in one release, like `histogram`.

    Their `histogram2d` calls it, when it is installed.
    """
    leaks = not _are_edges(bins) and (range is None or any(ends is None for ends in range))
    law, accountant = _begin(epsilon, random_state, accountant, unused, leaks=leaks)
    counts, edges = np.histogramdd(sample, bins=bins, range=range, weights=weights)
    noisy = _released(law, counts).astype(float)
    accountant.spend(epsilon, 0)
    if density:
        volumes = np.ones(())
        for along in edges:
            volumes = np.multiply.outer(volumes, np.diff(along))
        noisy = noisy / volumes / (noisy.sum() or 1)
    return noisy, edges


def _are_edges(bins: Any) -> bool:
    """Whether bins are arrays of edges in every dimension: then no range comes from the data."""
    try:
        return all(np.ndim(along) > 0 for along in bins)
    except TypeError:
        return False


def _begin(
    epsilon: float, random_state: None, accountant: Any, unused: dict[str, Any], *, leaks: bool
) -> tuple[dpfast.DiscreteLaplace | None, Any]:
    """Their checks, before a look at the data: the mechanism for a bin, and the accountant."""
    utils = _library.utils
    utils.warn_unused_args(unused)
    accountant = _library.BudgetAccountant.load_default(accountant)
    accountant.check(epsilon, 0)
    law = Geometric(epsilon=epsilon, random_state=random_state).law
    if leaks:
        warnings.warn(
            "range is not specified (or not wholly) and is taken from the data, which leaks privacy: "
            "specify it from what is known without them.",
            utils.PrivacyLeakWarning,
            stacklevel=3,
        )
    return law, accountant


def _released(law: dpfast.DiscreteLaplace | None, counts: Any) -> Any:
    if counts.dtype.kind not in "iuf":
        raise dpfast.errors.DTypeError(f"weights must be integers or floats, not {counts.dtype}")
    whole = counts
    if counts.dtype.kind == "f":
        if not (np.abs(counts) < 2.0**63).all():
            raise dpfast.errors.ParameterError("weights must be finite, and their sums below 2**63")
        whole = counts.astype(np.int64)
    noisy = whole.clip(0) if law is None else law.release(whole, dtype=whole.dtype, lower=0, upper=sys.maxsize)
    return noisy.astype(counts.dtype, copy=False)


# ------------------------------------------------------------------ in place of theirs

_tools: Any = _library.tools.histograms
_OURS: dict[Any, Any] = {
    **{
        getattr(theirs, ours.__name__): ours
        for ours in (
            *(Geometric, GeometricTruncated, GeometricFolded, Laplace, LaplaceTruncated, LaplaceFolded),
            *(Snapping, Gaussian, GaussianAnalytic, GaussianDiscrete),
        )
    },
    _tools.histogram: histogram,
    _tools.histogramdd: histogramdd,
}


def _put(ours: bool) -> None:
    replacements = _OURS if ours else {new: old for old, new in _OURS.items()}
    by_identity = {id(old): new for old, new in replacements.items()}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] == "diffprivlib":
            for key, value in list(vars(module).items()):
                if id(value) in by_identity:
                    setattr(module, key, by_identity[id(value)])


_installer = Installer(_put)
uninstall, installed = _installer.uninstall, _installer.installed


def install() -> None:
    """Put the classes and histograms of this module in the place of theirs.

    diffprivlib finds them wherever it looks its own up.

    This holds in this process, for all its threads, until `uninstall` was called as often. Forked
    processes inherit it; other processes must install for themselves. Mechanisms that were made
    before stay theirs. So do names that modules other than diffprivlib's imported before. Their
    tools and models look a mechanism up when they run.
    """
    _installer.install()
