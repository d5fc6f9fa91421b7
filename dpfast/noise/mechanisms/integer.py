# SPDX-License-Identifier: Apache-2.0
"""What mechanisms on integers share: the noise alone, and counts that it is added to."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.mechanism import Mechanism, Releasing
from dpfast.noise.release.arrays import INT64_ENDS, Job, plain_array, prepare
from dpfast.noise.release.engine import Draws, run
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, given, unseeded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from dpfast.noise.mechanisms.mechanism import Options, OptionsWithoutDtype

Frame = TypeVar("Frame")  # a column, a frame, an expression or a tensor, which gives one of its kind

SAMPLE_SCALE = 2**50  # beyond it, noise might not fit int64


class IntegerNoise(Mechanism):
    """A law on the integers, and the noise alone."""

    @abstractmethod
    def _mass(self, k: npt.NDArray[np.float64]) -> Any:
        """P(X = k)."""

    @property
    def stddev(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, k: npt.ArrayLike) -> Any:
        """P(X = k), for an integer or an array of them, in doubles: about 13 digits.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).pmf([-1, 0, 1]).round(3)
        array([0.17 , 0.462, 0.17 ])
        """
        return self._mass(whole_floats(k))

    def cdf(self, k: npt.ArrayLike) -> Any:
        """P(X <= k), for an integer or an array of them, in doubles: about 13 digits.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).cdf([-1, 0, 1]).round(3)
        array([0.269, 0.731, 0.901])
        """
        return self._upto(whole_floats(k))

    def sf(self, k: npt.ArrayLike) -> Any:
        """P(X > k), for an integer or an array of them, in doubles: about 13 digits.

        >>> law = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
        >>> law.sf([-1, 0, 1]).round(3)
        array([0.731, 0.269, 0.099])
        >>> f"{law.sf(100):.3}", float(1 - law.cdf(100))
        ('1e-44', 0.0)
        """
        return self._beyond(whole_floats(k))

    def _noise_at(self, p: Fraction) -> float:
        return self.quantile(p)

    def quantile(self, p: Real) -> int:
        """The least k with P(X <= k) >= p, exactly, for 0 < p < 1.

        >>> dpfast.DiscreteLaplace(epsilon="0.1", sensitivity=1).quantile(0.975)
        30
        """
        found: int = self._law.quantile(parameters.probability("p", p))
        return found

    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> int:
        """The least h that holds |X| in `cells` independent cells with probability `confidence`.

        Exact. X is the noise, before clamping. Source: bounds of the geometric mechanism, [GRS09].

        >>> mechanism = dpfast.DiscreteLaplace(epsilon="0.1", sensitivity=1)
        >>> mechanism.interval(0.95), mechanism.interval(0.95, cells=1000)  # one cell; 1000 at once
        (30, 99)
        """
        found: int = self._half_width(confidence, cells)
        return found

    @unseeded
    def sample(
        self, size: int | tuple[int, ...], *, threads: int | None = None, constant_time: bool = False
    ) -> npt.NDArray[np.int64]:
        """The noise alone, int64 of shape `size`. It is no release, and protects nothing.

        Raises: ParameterError for scales above 2^50: noise might not fit, and is never clipped.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).sample((2, 3)).shape
        (2, 3)
        """
        if self.scale > SAMPLE_SCALE:
            raise ParameterError(
                f"sample needs a scale of at most 2**50, got {self.scale:.6g}; release has no such limit"
            )
        shape = tuple(parameters.whole("size", n, 0) for n in (size if isinstance(size, tuple) else (size,)))
        threads = None if threads is None else parameters.whole("threads", threads, 1)
        try:
            zeros = np.zeros(shape, np.int64)
        except ValueError:
            raise ParameterError(f"size must be the shape of a possible array, {given(size=size)}") from None
        constant_work, plan = self._plan(zeros.size, parameters.flag("constant_time", constant_time))
        stream = _native.StreamKey()
        try:
            stream.draw()
            self._run(Job(zeros, zeros, *INT64_ENDS), constant_work, plan, stream, 0, threads)
        finally:
            stream.wipe()
        return zeros

    def _run(
        self,
        job: Job,
        constant_work: bool,
        plan: _native.Plan,
        stream: _native.StreamKey,
        first: int,
        threads: int | None,
    ) -> None:
        """Add noise to int64."""
        run(job, Draws(plan.address, self._narrow, stream, first, constant_work), threads)


class IntegerMechanism(IntegerNoise, Releasing):
    """A law on the integers that hides what it is added to."""

    INTEGERS = True
    _small_kinds = (np.int64,)
    _job = staticmethod(prepare)

    if TYPE_CHECKING:  # what a release returns, for editors and type checkers

        @overload  # type: ignore[override]  # which names the options that it refuses
        def release(self, values: int | np.integer[Any], /, **options: Unpack[OptionsWithoutDtype]) -> np.int64: ...
        @overload
        def release(self, values: int | np.integer[Any], /, **options: Unpack[Options]) -> np.integer[Any]: ...
        @overload
        def release(
            self, values: npt.NDArray[Any] | Sequence[Any], /, **options: Unpack[Options]
        ) -> npt.NDArray[np.integer[Any]]: ...
        @overload
        def release(self, values: Frame, /, **options: Unpack[Options]) -> Frame: ...
        def release(self, values: Any, /, **options: Any) -> Any: ...


def whole_floats(k: npt.ArrayLike | int) -> npt.NDArray[np.float64]:
    if isinstance(k, int) and not isinstance(k, bool):
        return np.array(float(max(min(k, 2**100), -(2**100))))  # no dtype's limit; at 2^100 no law has weight left
    array = plain_array("k", k, "integers")
    if array.dtype.kind not in "iu":
        raise DTypeError(f"k must be an integer or an array of integers, not {array.dtype}")
    return array.astype(np.float64)
