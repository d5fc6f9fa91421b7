# SPDX-License-Identifier: Apache-2.0
"""What mechanisms on real values share: the grid, and a release onto it."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast import _native
from dpfast.adapters import releaser
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.mechanism import Mechanism, clamp_record
from dpfast.privacy import parameters
from dpfast.privacy.inputs import NOTHING, inputs
from dpfast.release.arrays import FLOAT32, RealArray, RealJob, plain_array, prepare_real, real_dtype
from dpfast.release.engine import Draws, check_finite, run, run_small_real, small

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    from dpfast.exact import Read
    from dpfast.privacy.parameters import Real
    from dpfast.release.key import ReleaseKey

    class RealLaw(Protocol):
        def draw(self, read: Read, i: int, offset: Fraction) -> int: ...


LEAST_RATIO, MOST_RATIO = Fraction(1, 2**60), Fraction(2**60)  # scale / granularity
LEAST_EXPONENT, MOST_EXPONENT = -1074, 900  # of the granularity: noise itself stays below 2^967
CONSTANT_WORK_LEAST = Fraction(1, 2**18)  # below, the double tier leaves noise on a tie open more often than 2^-30
DEFAULT_BITS = 20  # the scale is some 2^20 steps of the grid
SHORT_RATIO = 2**21  # up to it 32-bit words (csrc/laplace.md and gaussian.md, section 2)


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


class RealMechanism(Mechanism):
    """An ideal law on the reals, rounded to a grid after it was added."""

    _exponent: int

    @property
    @abstractmethod
    def _law(self) -> RealLaw:
        """The law in intervals."""

    @property
    def _bound(self) -> float | None:
        """Of values, and of results, where the mechanism has one."""
        return None

    @property
    @abstractmethod
    def _ratio_squared(self) -> Fraction:
        """Of the scale and the granularity."""

    def _plan(self, size: int, constant_time: bool) -> tuple[bool, _native.Plan]:
        if constant_time and self._ratio_squared < CONSTANT_WORK_LEAST**2:
            raise ParameterError(
                f"constant_time needs a granularity of at most 2**18 times the scale, got 2**{self._exponent} for "
                f"{self.scale:.6g}: on a coarser grid values midway between two points take longer"
            )
        return super()._plan(size, constant_time)

    @property
    def granularity(self) -> float:
        """The grid: results are its multiples."""
        return parameters.two_to(self._exponent)

    def release(
        self,
        values: npt.ArrayLike,
        /,
        *,
        out: RealArray | None = None,
        dtype: npt.DTypeLike | None = None,
        lower: Real | None = None,
        upper: Real | None = None,
        clamp: tuple[Real, Real] | None = None,
        missing: Real | None = None,
        threads: int | None = None,
        constant_time: bool = False,
        key: ReleaseKey | None = None,
        start: int | None = None,
    ) -> Any:
        """Return `values` plus fresh noise, rounded to the grid once: no rounding before, none after.

        Args:
            values: float64 or float32 of any shape, strides and byte order; one entry a cell. Finite, or see `missing`.
                Or of another library, as for counts.
            out: where to write; the shape of values; values itself for in place. After a failure it holds
                zeros, which in place loses the values; where no key could be had, or in place or under a key a
                value is refused, it is untouched.
            dtype: of the result, by default that of values. A grid point that the type does not hold becomes the
                nearest that it does, or its largest or smallest finite number; zero is always +0.0.
            lower, upper: public bounds; clamping is post-processing and costs nothing.
            clamp: (a, b), public numbers that are doubles and within the type of values: every value below a becomes a,
                above b it becomes b, before the noise. The sensitivity stays that of the values.
            missing: a public number that stands for every NaN, infinity and null, and gets noise like any value. It needs
                clamp. The sensitivity is that of the values with missing put in: the stated change of one cell (linf;
                the L1 or L2 number where that alone is known) must be at least max(b - missing, missing - a), which
                also holds where missing is outside the clamp. missing is put in first, then clamped like any value.
            threads, constant_time, key, start: as for counts (DiscreteLaplace.release).
        Raises: DTypeError, ParameterError; EntropyError (no key); KeyReuseError.
        Privacy: spends what the mechanism says; under a key, once for all parts and retries of one release.

        """
        public = NOTHING
        if missing is not None or clamp is not None:
            public = inputs(clamp, missing, self._cell_squared, integers=False)
        if threads is not None:
            threads = parameters.whole("threads", threads, 1)
        if constant_time is not False:
            constant_time = parameters.flag("constant_time", constant_time)
        if type(values) is not np.ndarray and (other := releaser(values, out)) is not None:
            made = None if dtype is None else real_dtype(dtype).newbyteorder("=")
            options = {
                "dtype": made, "lower": lower, "upper": upper, "clamp": clamp, "missing": missing,
                "threads": threads, "constant_time": constant_time, "key": key, "start": start,
            }  # fmt: skip
            return other(self, values, options)
        with _native.own_mode():
            job = prepare_real(
                values, out, dtype, lower, upper, missing,
                exponent=self._exponent, bound=self._bound, clamp=public.clamp,
            )  # fmt: skip
            return self._released(job, threads, constant_time, key, start, clamp_record(public.clamp))

    def _released(
        self,
        job: RealJob,
        threads: int | None,
        constant_time: bool,
        key: ReleaseKey | None,
        start: int | None,
        clamp: tuple[str, ...],
    ) -> RealArray:
        constant_work, plan = self._plan(job.counts.size, constant_time)
        if job.missing is None and (key is not None or np.may_share_memory(job.counts, job.out)):
            check_finite(job.counts)  # before a value is lost, or the key used up

        filler = "refused" if job.missing is None else job.missing.hex()
        stream = _native.StreamKey()

        def decide(i: int, value: float) -> float:
            return self._result(self._law_at(self._reader(stream, plan.width), i, job, value), job)

        try:
            first = self._key_into(stream, key, start, job.counts, threads, "missing", filler, *clamp)
            draws = Draws(plan.address, False, self._narrow, stream, first, constant_work, decide)
            if self._narrow and small(job):
                run_small_real(job, draws)
            else:
                run(job, draws, threads)
        finally:
            stream.wipe()
        return job.out

    def sample(self, *_: Any, **__: Any) -> None:
        """Refused: added to a value off the grid, noise on it would publish the value's low bits."""
        raise DTypeError(f"{type(self).__name__} has no sample: noise on a grid is safe inside release alone")

    def _law_at(self, read: Read, i: int, job: RealJob, value: float) -> int:
        """Where on the grid draw i takes the value."""
        if not math.isfinite(value):
            value = 0.0 if job.missing is None else job.missing
        value = min(max(value, job.least), job.greatest)
        return self._law.draw(read, i, Fraction(value) / Fraction(2) ** self._exponent)

    def _result(self, steps: int, job: RealJob) -> float:
        """A grid point as the output holds it: rounded once, to nearest even, then clamped."""
        exact = steps * Fraction(2) ** self._exponent
        digits, least = (24, -149) if job.out.dtype.itemsize == FLOAT32.itemsize else (53, -1074)
        size = exact.numerator.bit_length() - exact.denominator.bit_length() if steps else 0
        unit = Fraction(2) ** max(size - digits, least)
        if abs(exact) >= unit * 2**digits:
            unit *= 2
        try:
            near = float(round(exact / unit) * unit)
        except OverflowError:
            near = math.inf if steps > 0 else -math.inf
        return min(max(near, job.lower), job.upper) + 0.0


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
