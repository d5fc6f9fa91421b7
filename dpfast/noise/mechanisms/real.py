# SPDX-License-Identifier: Apache-2.0
"""What mechanisms on real values share: the grid, and a release onto it."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.mechanism import Releasing
from dpfast.noise.release.arrays import REAL_ENDS, RealJob, plain_array, prepare_real
from dpfast.privacy import parameters
from dpfast.privacy.exact import ball, double_above, rounded_up
from dpfast.privacy.parameters import Real
from dpfast.privacy.record import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from dpfast.noise.mechanisms.integer import Frame
    from dpfast.noise.mechanisms.mechanism import Options

LEAST_RATIO, MOST_RATIO = Fraction(1, 2**60), Fraction(2**60)  # scale / granularity
LEAST_EXPONENT, MOST_EXPONENT = -1074, 900  # the granularity's: noise itself stays below 2^967
# Below, noise on a tie is within the double tier's error more often than 2^-30.
CONSTANT_WORK_LEAST = Fraction(1, 2**18)
DEFAULT_BITS = 20  # the scale is some 2^20 steps of the grid


def grid_exponent(scale_squared: Fraction, granularity: Real | None) -> int:
    """The exponent of the granularity given, or of the largest that is at most scale * 2^-20."""
    if granularity is None:
        bits = scale_squared.numerator.bit_length() - scale_squared.denominator.bit_length()
        exponent = bits // 2 + 1
        while Fraction(4) ** exponent > scale_squared:
            exponent -= 1
        exponent -= DEFAULT_BITS
    else:
        exponent = parameters.power_of_two("granularity", granularity)
    if not LEAST_EXPONENT <= exponent <= MOST_EXPONENT:
        default = ", here from sensitivity/epsilon or sigma," if granularity is None else ""
        raise ParameterError(
            f"granularity{default} must lie between 2**{LEAST_EXPONENT} and 2**{MOST_EXPONENT}, got 2**{exponent}"
        )
    if not LEAST_RATIO**2 <= scale_squared / Fraction(4) ** exponent <= MOST_RATIO**2:
        raise ParameterError(
            f"the scale must be 2**-60 to 2**60 times the granularity, got a granularity of 2**{exponent}"
        )
    return exponent


GRID = partial(
    written,
    stream=lambda exponent: (exponent,),
    metadata=lambda exponent: {"granularity": parameters.two_to(exponent)},
    words=lambda exponent: {"granularity": f"2**{exponent}"},
    init=False,
)


class RealMechanism(Releasing):
    """An ideal law on the reals, rounded to a grid after it was added."""

    INTEGERS = False
    SCALES = "2**-1054", "2**921"  # the grid, 20 bits below, has an exponent from -1074 to 900

    _bound: ClassVar[float | None] = None  # the bound on values and results, if the mechanism has one

    if TYPE_CHECKING:
        _exponent: int

    if TYPE_CHECKING:  # what a release returns, for editors and type checkers

        @overload  # type: ignore[override]  # which names the options that it refuses
        def release(self, values: float | np.floating[Any], /, **options: Unpack[Options]) -> np.floating[Any]: ...
        @overload
        def release(
            self, values: npt.NDArray[Any] | Sequence[Any], /, **options: Unpack[Options]
        ) -> npt.NDArray[np.floating[Any]]: ...
        @overload
        def release(self, values: Frame, /, **options: Unpack[Options]) -> Frame: ...
        def release(self, values: Any, /, **options: Any) -> Any: ...

    @property
    @abstractmethod
    def _ratio_squared(self) -> Fraction:
        """The square of scale/granularity."""

    @property
    def _small_kinds(self) -> tuple[npt.DTypeLike, ...]:
        return (np.float64, np.float32) if self._exponent >= REAL_ENDS[True][0] else (np.float64,)

    def _check_constant_time(self) -> None:
        if self._ratio_squared < CONSTANT_WORK_LEAST**2:
            raise ParameterError(
                f"constant_time needs a granularity of at most 2**18 times the scale, got 2**{self._exponent} for "
                f"{self.scale:.6g}: on a coarser grid values midway between two points take longer"
            )

    @property
    def granularity(self) -> float:
        """The grid: results are its multiples.

        >>> dpfast.Laplace(epsilon=1, sensitivity=5).granularity
        3.814697265625e-06
        """
        return parameters.two_to(self._exponent)

    # -------------------------------------------------- the law of results less values on the grid

    @property
    @abstractmethod
    def _variance_in_steps(self) -> float: ...

    @abstractmethod
    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        """P(K = k), in steps of the grid, for k >= 0."""

    @property
    def variance(self) -> float:
        """The variance of result - x, for x on the grid.

        For any other x, E(result - x)^2 is at most (s + granularity/2)^2, s the standard deviation
        of the law itself, sigma or sqrt(2) sensitivity/epsilon.

        >>> round(dpfast.Laplace(epsilon=1, sensitivity=5).variance, 6)
        50.0
        """
        return self._variance_in_steps * self.granularity * self.granularity

    @property
    def stddev(self) -> float:
        """The standard deviation of result - x, for x on the grid.

        >>> round(dpfast.Gaussian(sigma=3).stddev, 6)
        3.0
        """
        return math.sqrt(self._variance_in_steps) * self.granularity

    def pmf(self, noise: npt.ArrayLike) -> Any:
        """P(result - x = noise) for x on the grid and noise a multiple of the granularity.

        In doubles, to 10 digits or more. For any other x = nearest(x) + f, it is the integral of
        the density over one granularity, from noise - f - granularity/2; for a Laplace law within a
        factor exp(granularity/(2 scale)) of that on the grid. No result has a density, so there is
        no pdf: results lie on the grid, and pmf(noise)/granularity is near the density of the noise
        before it was rounded.

        >>> mechanism = dpfast.Laplace(epsilon=1, sensitivity=1, granularity=1)
        >>> mechanism.pmf([-1, 0, 1]).round(3)
        array([0.192, 0.393, 0.192])
        """
        return self._mass(np.abs(steps("noise", noise, self.granularity, exactly=True)))

    def cdf(self, noise: npt.ArrayLike) -> Any:
        """P(result - x <= noise) for x on the grid: within 1e-15; about 13 digits below 1/2.

        For any other x it lies between the values at noise - granularity and noise + granularity.

        >>> round(float(dpfast.Gaussian(sigma=3).cdf(0)), 4)
        0.5
        """
        return self._upto(np.floor(steps("noise", noise, self.granularity)))

    def sf(self, noise: npt.ArrayLike) -> Any:
        """P(result - x > noise) for x on the grid: within 1e-15; about 13 digits below 1/2.

        For any other x it lies between the values at noise - granularity and noise + granularity.

        >>> round(float(dpfast.Gaussian(sigma=3).sf(3)), 4)
        0.1587
        """
        return self._beyond(np.floor(steps("noise", noise, self.granularity)))

    def _noise_at(self, p: Fraction) -> float:
        """By the law of the magnitude, whose half lies on either side.

        P(K <= k) is (1 + P(|K| <= k))/2 for k >= 0, and (1 - P(|K| <= -k - 1))/2 below.
        """
        share = 2 * p - 1
        return math.copysign(self._half_width(abs(share), 1) * self.granularity, share) + 0.0 if share else 0.0

    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1, on_grid: bool = False) -> float:
        """A half-width h that holds `cells` independent cells with that confidence, any values x.

        P(|result - x| <= h in all cells) >= confidence. h is the quantile of the real noise and
        half the granularity, which rounding adds at most: less than half a granularity above the
        least. Proved, rounded up. Before clamping, and before a float rounds a result that it does
        not hold, of over 2^53 granularities (float32: 2^24); that adds np.spacing(abs(result))/2.
        on_grid: whether every x is a multiple of the granularity. h is then one, too: the least
            that holds.
        Source: bounds of the Laplace mechanism, [DMNS06].

        >>> mechanism = dpfast.Gaussian(sigma=3)
        >>> round(mechanism.interval(0.95), 2), round(mechanism.interval(0.95, cells=1000), 2)
        (5.88, 12.15)
        >>> coarse = dpfast.Laplace(epsilon=1, sensitivity=1, granularity=2)
        >>> round(coarse.interval(0.95), 2), coarse.interval(0.95, on_grid=True)
        (4.0, 2.0)
        """
        if parameters.flag("on_grid", on_grid):
            return double_above(self._half_width(confidence, cells) * Fraction(2) ** self._exponent)
        share, n = parameters.probability("confidence", confidence), parameters.whole("cells", cells, 1)
        return rounded_up(lambda: self._law.reach(share, n) * ball(self.granularity), accuracy=64)

    # ------------------------------------------------------------------ a release

    def _steps(self, values: Any, charge: Callable[..., None] | None, given: tuple[Any, ...]) -> Any:
        with _native.own_mode():
            return super()._steps(values, charge, given)

    def _job(self, *arguments: Any) -> RealJob:
        return prepare_real(*arguments, exponent=self._exponent, bound=self._bound)

    def sample(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: added to a value off the grid, noise on it would publish its low bits.

        >>> dpfast.Gaussian(sigma=3).sample(5)
        Traceback (most recent call last):
            ...
        dpfast.errors.DTypeError: Gaussian has no sample: noise on a grid is safe inside ...
        """
        raise DTypeError(f"{type(self).__name__} has no sample: noise on a grid is safe inside release alone")


def steps(name: str, value: npt.ArrayLike, granularity: float, *, exactly: bool = False) -> npt.NDArray[np.float64]:
    """A real, or an array of them, in steps of the grid."""
    array = plain_array(name, value, "real numbers")
    if array.dtype.kind not in "iuf":
        raise DTypeError(f"{name} must be a real number or an array of them, not {array.dtype}")
    with np.errstate(over="ignore"):
        found = array.astype(np.float64) / granularity
    found = np.where((found == 0) & (array != 0), np.copysign(0.5, array), found)  # it underflowed
    if exactly and not np.all(found == np.rint(found)):
        raise ParameterError(f"{name} must be a multiple of the granularity, {granularity!r}")
    return found
