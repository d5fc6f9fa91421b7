# SPDX-License-Identifier: Apache-2.0
"""The discrete Laplace (two-sided geometric) mechanism on arrays of integers."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast import _native, exact
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.integer import IntegerMechanism, IntegerNoise
from dpfast.mechanisms.lockfree_property import lockfree_property
from dpfast.mechanisms.pure import MOST_SCALE, Pure
from dpfast.privacy import parameters
from dpfast.release.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.privacy.parameters import Real
    from dpfast.privacy.sensitivity import Sensitivity

# Scales at which a tier, or a word, hands over to the next. Functions of the parameters alone, and the
# widths a part of the stream: csrc/discrete_laplace.md, section 2, derives them.
TABLE_SCALE = 2**7
SHORT_SCALE = 2**20
DOUBLE_SCALE = 2**44
CONSTANT_WORK_DOUBLE_SCALE = 2**17
CONSTANT_WORK_DOUBLE_DOUBLE_SCALE = 2**40
NARROW_SCALE = 2**54
LEAST_SCALE = Fraction(1, 2**60)


class GeometricNoise(Pure, IntegerNoise):
    """What the two-sided and the one-sided geometric law share: a magnitude, and so all but its sign and weight."""

    @property
    @abstractmethod
    def variance(self) -> float: ...

    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        if not LEAST_SCALE <= self._set_parameters(epsilon, sensitivity, adjacency, unit) <= MOST_SCALE:
            raise ParameterError(
                f"the scale sensitivity/epsilon must lie between 2**-60 and 2**60, got epsilon={parameters.shown(epsilon)}, sensitivity={parameters.shown(sensitivity)}"
            )

    @property
    def _record(self) -> tuple[str | int, ...]:
        return self.NAME, *self._exact_parameters

    def __reduce__(self) -> tuple[object, ...]:
        sensitivity, adjacency, unit = self._whom
        return partial(type(self), adjacency=adjacency, unit=unit), (self.epsilon, sensitivity)

    @property
    @abstractmethod
    def _law(self) -> exact.OneSidedGeometric:
        """The law in intervals."""

    @lockfree_property
    def _narrow(self) -> bool:
        return self._scale <= NARROW_SCALE

    @lockfree_property
    @_native.own_mode()
    def _constant_work_plan(self) -> _native.Plan:
        return _native.Plan(self.LAW, **self._constants())

    @lockfree_property
    @_native.own_mode()
    def _bulk_plan(self) -> _native.Plan:
        if self._scale > TABLE_SCALE:
            return self._constant_work_plan
        return _native.Plan(self.LAW, table=signed_table(self._law.table(_native.TABLE_BITS)), **self._constants())

    def _constants(self) -> dict[str, Any]:
        return constants(self._law)

    @property
    def stddev(self) -> float:
        return math.sqrt(self.variance)

    def quantile(self, p: Real) -> int:
        """The least k with P(X <= k) >= p, exactly, for 0 < p < 1."""
        return self._law.quantile(parameters.probability("p", p))

    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> int:
        """The least h with |X| <= h in all of `cells` independent cells with probability `confidence`, exactly.

        Of the noise, before clamping. Source: usefulness bounds of the geometric mechanism, [GRS09].
        """
        exact_confidence = parameters.probability("confidence", confidence)
        return self._law.half_width(exact_confidence, parameters.whole("cells", cells, 1))


@dataclass(frozen=True, repr=False, init=False)
class DiscreteLaplace(GeometricNoise, IntegerMechanism):
    """Adds noise with P(X = k) = (1-q)/(1+q) q^|k|, q = exp(-epsilon/sensitivity), exactly.

    epsilon: int, float, Fraction or Decimal, taken exactly; spent once by every release.
    sensitivity: the same kinds; L1, in counts, of the whole array jointly: how much one unit of
        privacy can change all cells together, for the stated adjacency. Or a Sensitivity, which says
        adjacency and unit as well.
    adjacency: "add-remove" or "substitution". unit: whose privacy, such as "person". Both are
        recorded and shown; the sensitivity must have been found for them.

    Privacy: each release is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError (also for a scale sensitivity/epsilon outside 2^-60 to 2^60).
    Source: [GRS09] Ghosh, Roughgarden, Sundararajan 2009, section 2; csrc/discrete_laplace.md.
    """

    LAW: ClassVar[str] = "discrete_laplace"
    NAME: ClassVar[str] = "discrete_laplace"
    epsilon: Fraction
    sensitivity: Fraction
    adjacency: str
    unit: str

    def _facts(self) -> dict[str, str]:
        return {
            **super()._facts(),
            "standard deviation": f"{self.stddev:.6g}",
            "95 % interval": f"±{self.interval()}",
        }

    # ------------------------------------------------------------------ in intervals and in C

    @lockfree_property
    def _law(self) -> exact.DiscreteLaplace:
        return exact.DiscreteLaplace(1 / self._scale)

    # ------------------------------------------------------------------ the law

    @property
    def variance(self) -> float:
        """2q / (1-q)^2; in the words of the course notes 2a/(a-1)^2, a = exp(epsilon/sensitivity)."""
        rate = float(1 / self._scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def pmf(self, k: npt.ArrayLike) -> Any:
        """P(X = k), for an integer or an array of them, in doubles: about 13 digits."""
        rate = float(1 / self._scale)
        return np.tanh(rate / 2) * np.exp(-rate * np.abs(whole_floats(k)))

    def cdf(self, k: npt.ArrayLike) -> Any:
        """P(X <= k), for an integer or an array of them, in doubles: about 13 digits."""
        rate, at = float(1 / self._scale), whole_floats(k)
        tail = np.exp(-rate * np.where(at < 0, -at, at + 1)) / (1 + math.exp(-rate))
        return np.where(at < 0, tail, 1 - tail)[()]


def constants(law: exact.OneSidedGeometric) -> dict[str, Any]:
    """The plan of the law that rounds t (C - ln U) down: csrc/discrete_laplace.md has the derivations."""
    scale = law.scale
    t = float(scale)

    def tier(*upto: tuple[int | Fraction, int]) -> int:
        return next((tier for limit, tier in upto if scale <= limit), _native.INTEGER)

    c45 = exact.unique_floor(law.lost + 128, lambda: law.offset() * 2**45)
    relative_error = 5 * 2.0**-52
    return {
        "width": 16 if scale <= TABLE_SCALE else 32 if scale <= SHORT_SCALE else 64,
        "bulk": tier((TABLE_SCALE, _native.TABLE), (DOUBLE_SCALE, _native.DOUBLE), (MOST_SCALE, _native.DOUBLE_DOUBLE)),
        "constant_work": tier(
            (CONSTANT_WORK_DOUBLE_SCALE, _native.DOUBLE), (CONSTANT_WORK_DOUBLE_DOUBLE_SCALE, _native.DOUBLE_DOUBLE)
        ),
        "t": t,
        "t_low": float(scale - Fraction(t)),
        "offset": exact.nearest_double(law.lost + 256, lambda: exact.ball(scale) * law.offset() - 0.5),
        "margin": 0.5 - relative_error * (t + 2),
        "relative_error": relative_error,
        "margin32": 0.5 - relative_error * (23 * t + 2),  # z < t (32 ln 2)
        "half_cell": t / 2 * (1 + 2.0**-20),
        "c": c45 / 2**45,
        "c_low": exact.nearest_double(law.lost + 256, lambda: law.offset() - exact.ball(Fraction(c45, 2**45))),
        "double_double_margin": 0.5 - t * 2.0**-72 - 2.0**-38,
        **wide_constants(scale),
        "wide_c": exact.unique_floor(law.lost + 256, lambda: law.offset() * 2**120),
    }


def wide_constants(scale: Fraction) -> dict[str, float]:
    """What the integer tier wants of a scale."""
    return {"wide_t": math.floor(scale * 2**67), "wide_cell": math.floor(scale).bit_length() + 60}


def signed_table(cells: list[int | None]) -> npt.NDArray[np.int16]:
    """Magnitudes by cell of U, and behind them the same with the sign, the top bit of a word."""
    found = np.array([_native.UNDECIDED if cell is None else cell for cell in cells], np.int16)
    return np.concatenate([found, np.where(found == _native.UNDECIDED, found, -found)])


def whole_floats(k: npt.ArrayLike | int) -> npt.NDArray[np.float64]:
    if isinstance(k, int) and not isinstance(k, bool):
        return np.array(float(max(min(k, 2**100), -(2**100))))  # no dtype's limit; at 2^100 no law has weight left
    array = plain_array("k", k, "integers")
    if array.dtype.kind not in "iu":
        raise DTypeError(f"k must be an integer or an array of integers, not {array.dtype}")
    return array.astype(np.float64)
