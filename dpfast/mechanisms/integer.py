# SPDX-License-Identifier: Apache-2.0
"""What mechanisms on integers share: a release, and the noise alone."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast import _native
from dpfast.adapters import releaser
from dpfast.errors import DpfastError, ParameterError
from dpfast.mechanisms.mechanism import Mechanism, clamp_record
from dpfast.privacy import parameters
from dpfast.privacy.inputs import NOTHING, inputs
from dpfast.release.arrays import INT64, CountArray, Job, clamps, integer_dtype, prepare
from dpfast.release.engine import Draws, run, run_small, small

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    from dpfast.exact import Read
    from dpfast.release.key import ReleaseKey

    class IntegerLaw(Protocol):
        def draw(self, read: Read, i: int) -> int: ...


SAMPLE_SCALE = 2**50  # beyond it, noise might not fit int64


class IntegerNoise(Mechanism):
    """A law on the integers, and the noise alone."""

    @property
    @abstractmethod
    def _law(self) -> IntegerLaw:
        """The law in intervals."""

    def sample(
        self, size: int | tuple[int, ...], *, threads: int | None = None, constant_time: bool = False
    ) -> npt.NDArray[np.int64]:
        """The noise alone, int64 of shape `size`. Not a release: add it to nothing that it should protect.

        Raises: ParameterError for scales above 2^50, where noise might not fit; it is never clipped.
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
            raise ParameterError(
                f"size must be the shape of an array that can be, got {parameters.shown(size)}"
            ) from None
        job = Job(zeros, zeros, *clamps(INT64, None, None))
        constant_work, plan = self._plan(job.counts.size, parameters.flag("constant_time", constant_time))
        stream = _native.StreamKey()
        try:
            stream.draw()
            self._run(job, constant_work, plan, stream, 0, threads, must_fit=True)
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
        must_fit: bool = False,
    ) -> None:
        def decide(i: int) -> int:
            draw = self._decide(plan.width, stream, i)
            if must_fit and not -(2**63) <= draw < 2**63:
                raise DpfastError("a draw does not fit int64")
            return draw

        table = plan.has_table and not constant_work
        run(job, Draws(plan.address, table, self._narrow, stream, first, constant_work, decide), threads)

    def _decide(self, width: int, stream: _native.StreamKey, i: int) -> int:
        return self._law.draw(self._reader(stream, width), i)


class IntegerMechanism(IntegerNoise):
    """A law on the integers that hides what it is added to."""

    def release(
        self,
        counts: npt.ArrayLike,
        /,
        *,
        out: CountArray | None = None,
        dtype: npt.DTypeLike | None = None,
        lower: int | None = None,
        upper: int | None = None,
        clamp: tuple[int, int] | None = None,
        missing: int | None = None,
        threads: int | None = None,
        constant_time: bool = False,
        key: ReleaseKey | None = None,
        start: int | None = None,
    ) -> Any:
        """Return `counts` plus fresh noise: the exact sum, clamped to the output type and to [lower, upper].

        Args:
            counts: integers of any dtype, shape, strides and byte order; one entry a cell. A Series of pandas or Polars,
                a Polars expression, an Array of pyarrow or a tensor on the CPU gives one of its kind (docs/adapters.md).
            out: where to write; the shape of counts; counts itself for in place. After a failure it holds
                zeros, which in place loses the counts; where no key could be had it is untouched.
            dtype: of the result, int64 by default.
            lower, upper: public bounds; clamping is post-processing and costs nothing.
            clamp: (a, b), public integers of the type of counts: every count below a becomes a, above b it becomes b,
                before the noise. The sensitivity stays that of the counts; a copy of these is made.
            missing: a public integer that stands for every null, and gets noise like any count; without it nulls are
                refused. The sensitivity is that of the counts with missing put in. 0 is always allowed: an absent
                count is a 0. Another number needs clamp, and a stated change of one cell (linf; the L1 or L2 number
                where that alone is known) of at least max(b - missing, missing - a). NumPy's integers have no nulls.
            threads: at most so many; all usable cores by default, and one below some 500,000 counts.
            constant_time: the same work for every draw, so that the time does not show the noise. Calls
                below 4,096 counts always do so.
            key, start: a release key and the first draw's number, for parts of one release (dpfast.Key).
        Raises: DTypeError, ParameterError; EntropyError (no key); KeyReuseError.
        Privacy: spends what the mechanism says; under a key, once for all parts and retries of one release.

        """
        public = NOTHING
        if missing is not None or clamp is not None:
            public = inputs(clamp, missing, self._cell_squared, integers=True)
        if threads is not None:
            threads = parameters.whole("threads", threads, 1)
        if constant_time is not False:
            constant_time = parameters.flag("constant_time", constant_time)
        if type(counts) is not np.ndarray and (other := releaser(counts, out)) is not None:
            made = INT64 if dtype is None else integer_dtype(dtype).newbyteorder("=")
            options = {
                "dtype": made, "lower": lower, "upper": upper, "clamp": clamp, "missing": missing,
                "threads": threads, "constant_time": constant_time, "key": key, "start": start,
            }  # fmt: skip
            return other(self, counts, options)
        job = prepare(counts, out, dtype, lower, upper, public.clamp)
        if key is None and start is None and self._narrow and small(job):
            plan = self._constant_work_plan
            run_small(job, plan.address, partial(self._decide, plan.width))
            return job.out
        constant_work, plan = self._plan(job.counts.size, constant_time)  # before the key: until then, out is untouched
        stream = _native.StreamKey()
        try:
            first = self._key_into(stream, key, start, job.counts, threads, *clamp_record(public.clamp))
            self._run(job, constant_work, plan, stream, first, threads)
        finally:
            stream.wipe()
        return job.out
