# SPDX-License-Identifier: Apache-2.0
"""What mechanisms share, and the release of those that release values: prepare, charge, draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast import _native
from dpfast.adapters import releaser
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.described import Described
from dpfast.mechanisms.equals import shared_property
from dpfast.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy.inputs import NOTHING, inputs
from dpfast.privacy.parameters import exact_positive, flag, given, probability, whole
from dpfast.release.arrays import INT64, Job, RealJob, integer_dtype, real_dtype
from dpfast.release.digits import reader
from dpfast.release.engine import (
    SMALL,
    Draws,
    check_finite,
    finish_small,
    prepare_small,
    run,
    run_small,
    usable_threads,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpfast.privacy.guarantee import Guarantee
    from dpfast.privacy.inputs import Inputs
    from dpfast.privacy.parameters import Real
    from dpfast.privacy.sensitivity import Sensitivity
    from dpfast.release.key import Part, ReleaseKey


class Mechanism(Described, ABC):
    """A law with its parameters, frozen. A subclass says which law, in C and in intervals."""

    LAW: ClassVar[str]  # its name in C and in its proof
    SCALES: ClassVar[tuple[str, str]]  # the least and the largest scale, as messages say them

    @property
    @abstractmethod
    def scale(self) -> float: ...

    @property
    @abstractmethod
    def stddev(self) -> float: ...

    @property
    @abstractmethod
    def _law(self) -> Any:
        """The law in intervals."""

    @abstractmethod
    def _constants(self) -> dict[str, Any]:
        """The fields of its plan."""

    @shared_property
    def _constant_work_plan(self) -> _native.Plan:
        """For calls that do the same work for every draw."""
        return _native.Plan(self.LAW, **self._constants())

    @property
    def _bulk_plan(self) -> _native.Plan:
        """With its table, if it has one, built at the first bulk release."""
        return self._constant_work_plan

    @property
    @abstractmethod
    def _narrow(self) -> bool:
        """Whether every draw that C decides fits the narrow kernel."""

    @property
    @abstractmethod
    def _cell_squared(self) -> Fraction | None:
        """The square of the stated change of one cell, or None (privacy/inputs.py)."""

    @abstractmethod
    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> float: ...

    @property
    def _record(self) -> tuple[str | int, ...]:
        """The law and its exact parameters, for the derivation of stream keys."""
        return self.NAME, *(n for _, value, numbers in self._written("stream") if numbers for n in numbers(value))

    def _plan(self, size: int, constant_time: bool) -> tuple[bool, _native.Plan]:
        if constant_time:
            self._check_constant_time()
        constant_work = constant_time or size < SMALL
        return constant_work, self._constant_work_plan if constant_work else self._bulk_plan

    def _check_constant_time(self) -> None:
        """Raises: ParameterError (some draws would take longer)."""

    def _half_width(self, confidence: Real, cells: int) -> Any:
        """The least half-width for `cells` independent cells, in the law's units."""
        return self._law.half_width(probability("confidence", confidence), whole("cells", cells, 1))

    _reader = staticmethod(reader)

    @lockfree_property
    def _on_record(self) -> dict[str, object]:
        return {**super().metadata(), "scale": self.scale}

    def metadata(self, key: ReleaseKey | None = None) -> dict[str, object]:
        """What error bars of a release need: JSON-able, fractions as exact strings.

        key: the release key, if any: `secure` tells if it was secret. Raises: DTypeError (no key).
        """
        return {**self._on_record, "secure": key is None or release_key(key).secure}

    # ------------------------------------------------------------------ for accountants

    def dp_event(self, sensitivity: Sensitivity | None = None, *, zcdp: bool = False) -> Any:
        """One release as a DpEvent of dp-accounting, for the mechanism's own adjacency.

        sensitivity: for a Gaussian made from sigma alone, or to replace the mechanism's.
        zcdp: the release as rho-zCDP, which the RDP accountant takes of all laws. A
            DiscreteGaussian always gives this event.

        Rounded to the side of more privacy loss: epsilon and rho up, noise down.
        Raises: ImportError (dp-accounting is not there, or untested), DTypeError, ParameterError.
        """
        from dpfast.adapters import dp_accounting

        return dp_accounting.dp_event(self, sensitivity, zcdp=flag("zcdp", zcdp))

    def privacy_loss_distribution(
        self, sensitivity: Sensitivity | None = None, *, value_discretization_interval: float = 1e-4
    ) -> Any:
        """One release as a pessimistic PrivacyLossDistribution of dp-accounting, which composes.

        sensitivity: as for dp_event; for a DiscreteGaussian it must be known as (l0, linf).
        value_discretization_interval: the step between losses, equal in all that are composed.

        dp-accounting computes in doubles: it cannot tell some 1e-15 of delta for each composition.
        Raises: ImportError, DTypeError, ParameterError (also for losses above 512, or more than
            2^22 points or integers).
        """
        from dpfast.adapters import dp_accounting

        # Above 512 is refused there: any double above will do for a number that no double holds.
        interval = exact_positive("value_discretization_interval", value_discretization_interval)
        return dp_accounting.privacy_loss_distribution(
            self, sensitivity, value_discretization_interval=float(min(interval, Fraction(2**1000)))
        )


class Releasing(Mechanism):
    """A mechanism that releases arrays. A subclass says of what numbers, and checks them."""

    INTEGERS: ClassVar[bool]
    _job: ClassVar[Callable[..., Job | RealJob]]  # the arrays of a release, once all is found right with them

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    @abstractmethod
    def _decide(self, width: int, stream: _native.StreamKey, *draw: Any) -> Any:
        """A draw that C does not decide, by intervals."""

    def release(
        self,
        values: npt.ArrayLike,
        /,
        *,
        out: npt.NDArray[Any] | None = None,
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
        """Return `values` plus fresh noise: the exact sum; for reals rounded to the grid once.

        Args:
            values: one entry a cell, of any shape, strides and byte order: integers of any dtype,
                or, for a mechanism on reals, float64 or float32, finite unless `missing` is given.
                A Series of pandas or Polars, a Polars expression, an Array of pyarrow or a tensor
                on the CPU gives one of its kind (docs/adapters.md).
            out: where to write, of the shape of values, or values itself. After a failure it holds
                zeros, so values in place are lost. It is untouched if no key could be had, or if a
                real value is refused in place or under a key.
            dtype: of the result: by default int64, or the values' own if real. A grid point that it
                does not hold becomes the nearest that it does, or its largest or smallest finite
                number; zero is always +0.0.
            lower, upper: public bounds of the result; clamping is post-processing, costs nothing.
            clamp: (a, b), public numbers of the values' type (doubles within it if real), to which
                values are clamped before the noise. The sensitivity stays that of the values.
            missing: a public number put in for every null, NaN and infinity, then clamped and
                noised like any value; without it they are refused. The sensitivity is that of the
                values with missing put in. Counts may always take 0: an absent count is a 0. Any
                other number needs clamp, and a stated change of one cell (linf; the L1 or L2 number
                if that alone is known) of at least max(b - missing, missing - a), also if missing
                is outside the clamp. NumPy's integers have no nulls.
            threads: at most so many; by default all usable cores, one below some 500,000 values.
            constant_time: equal work for every draw, so that the time does not show the noise.
                Calls below 4,096 values always do so.
            key, start: for parts of a release: its key (dpfast.Key), and the first draw's number.
        Raises: DTypeError, ParameterError; EntropyError (no key); KeyReuseError.
        Privacy: spends what the mechanism says; under a key once for all parts and retries.

        """
        no_bounds = lower is None and upper is None and clamp is None and missing is None
        if no_bounds and dtype is None and threads is None and key is None and start is None and constant_time is False:
            found = _native.small(self._finish, self._small, values, out)
            if found is not None:
                return found
        return self._release(
            values, None, out, dtype, lower, upper, clamp, missing, threads, constant_time, key, start
        )  # fmt: skip

    @property
    @abstractmethod
    def _small_kinds(self) -> tuple[npt.DTypeLike, ...]:
        """The types of values, and of their results, that `_native.small` releases."""

    @shared_property
    def _small(self) -> tuple[object, ...]:
        """What C needs for a release of few plain values; nothing if it must go the general way."""
        if not self._narrow:
            return ()
        jobs = [self._job(np.empty(0, kind)) for kind in self._small_kinds]
        return tuple(each for job in jobs for each in prepare_small(job, self._constant_work_plan))

    @_native.own_mode()
    def _finish(self, values: Any, out: Any, *left: int) -> None:
        """Do what C leaves of a release of few plain values."""
        plan = self._constant_work_plan
        finish_small(self._job(values, out), plan, partial(self._decide, plan.width), *left)

    def _release(
        self,
        values: npt.ArrayLike,
        charge: Callable[[Part | None], None] | None = None,
        out: npt.NDArray[Any] | None = None,
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
        """A release in three steps. charge: what a ledger does as the second, or it raises."""
        # Prepare: what can be wrong is found here.
        public = NOTHING
        if missing is not None or clamp is not None:
            public = inputs(clamp, missing, self._cell_squared, integers=self.INTEGERS)
        if threads is not None:
            threads = whole("threads", threads, 1)
        if constant_time is not False:
            constant_time = flag("constant_time", constant_time)
        if type(values) is not np.ndarray and (other := releaser(values, out)) is not None:
            made: np.dtype[Any] | None = INT64 if self.INTEGERS else None
            if dtype is not None:
                made = (integer_dtype if self.INTEGERS else real_dtype)(dtype).newbyteorder("=")
            options = {
                "dtype": made, "lower": lower, "upper": upper, "clamp": clamp, "missing": missing,
                "threads": threads, "constant_time": constant_time, "key": key, "start": start,
            }  # fmt: skip
            return other(partial(self._release, charge=charge), values, options)
        job = self._job(values, out, dtype, lower, upper, public)
        constant_work, plan = self._plan(job.counts.size, constant_time)
        final = key is not None or charge is not None
        if (final or out is not None) and isinstance(job, RealJob):
            check_finite(job, final=final)
        part = None
        if key is not None or start is not None:
            part = self._part(key, start, job, threads, public)
        # Charge: nothing is drawn yet, and nothing is checked any more.
        if charge is not None:
            charge(part)
        self._draw(job, constant_work, plan, key, part, threads)
        return job.out

    def _draw(
        self,
        job: Job | RealJob,
        constant_work: bool,
        plan: _native.Plan,
        key: ReleaseKey | None,
        part: Part | None,
        threads: int | None,
    ) -> None:
        """Fill job.out with values plus noise: of the part's own stream, or of a fresh one."""
        quick = part is None and constant_work and self._narrow
        if quick and run_small(job, plan, partial(self._decide, plan.width)):
            return
        stream = _native.StreamKey()
        try:
            if key is None or part is None:
                stream.draw()
            else:
                stream.take(key.stream_key(part))
            exact = partial(self._decide, plan.width, stream, *(() if isinstance(job, Job) else (job,)))
            first = 0 if part is None else part.begin
            run(job, Draws(plan.address, self._narrow, stream, first, constant_work, exact), threads)
        finally:
            stream.wipe()

    def _part(
        self, key: ReleaseKey | None, start: int | None, job: Job | RealJob, threads: int | None, public: Inputs
    ) -> Part:
        """The name of a release under a key: law, parameters, values, changes before the noise."""
        if key is None:
            raise ParameterError(
                f"start is for parts of one release under a key; there is no key, {given(start=start)}"
            )
        release_key(key)
        if start is None:
            raise ParameterError("start must be given beside a key: the number of this part's first draw")
        also: tuple[str, ...] = ()
        if isinstance(job, RealJob):
            also = "missing", "refused" if job.missing is None else job.missing.hex()
        if public.clamp is not None:
            also = *also, "clamp", *map(str, public.clamp)
        workers = min(threads or usable_threads(), usable_threads())  # the hash starts as many as it is told
        law = *self._record, *also
        return key.part(_native.STREAM_VERSION, law, job.counts, whole("start", start), threads=workers)

    def _facts(self) -> dict[str, str]:
        half = self.interval()
        return {
            **super()._facts(),
            "standard deviation": f"{self.stddev:.6g}",
            "95 % interval": f"±{half}" if isinstance(half, int) else f"±{half:.6g}",
        }


def release_key(key: object) -> ReleaseKey:
    from dpfast.release.key import ReleaseKey  # late: most releases have none

    if not isinstance(key, ReleaseKey):
        raise DTypeError(f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}")
    return key
