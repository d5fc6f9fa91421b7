# SPDX-License-Identifier: Apache-2.0
"""What mechanisms on integers share: a release, its key, the noise alone, and the records of both."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpfast import _native, exact
from dpfast.arrays import INT64, CountArray, Job, clamps, plain_runs, prepare
from dpfast.engine import BUFFER, SMALL, Draws, run, run_small, small, usable_threads
from dpfast.errors import DpfastError, DTypeError, ParameterError
from dpfast.key import ReleaseKey
from dpfast.privacy import parameters

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.privacy.parameters import Real

SAMPLE_SCALE = 2**50  # beyond it, noise might not fit int64


class IntegerMechanism(ABC):
    """A law on the integers with its parameters, frozen. A subclass says which law, and what it is in C and in intervals."""

    LAW: ClassVar[str]
    epsilon: Fraction
    sensitivity: Fraction
    adjacency: str
    unit: str

    @property
    @abstractmethod
    def scale(self) -> float: ...

    @property
    @abstractmethod
    def stddev(self) -> float: ...

    @property
    @abstractmethod
    def _law(self) -> exact.DiscreteLaplace:
        """The law in intervals."""

    @property
    @abstractmethod
    def _careful_plan(self) -> _native.DiscreteLaplacePlan:
        """For calls that do the same work for every draw."""

    @property
    @abstractmethod
    def _bulk_plan(self) -> _native.DiscreteLaplacePlan:
        """With its table, built at the first bulk release."""

    @property
    @abstractmethod
    def _narrow(self) -> bool:
        """Whether every draw that C decides is below 2^62."""

    @abstractmethod
    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> int: ...

    def release(
        self,
        counts: npt.ArrayLike,
        /,
        *,
        out: CountArray | None = None,
        dtype: npt.DTypeLike | None = None,
        lower: int | None = None,
        upper: int | None = None,
        threads: int | None = None,
        constant_time: bool = False,
        key: ReleaseKey | None = None,
        start: int | None = None,
    ) -> CountArray:
        """Return `counts` plus fresh noise: the exact sum, clamped to the output type and to [lower, upper].

        Args:
            counts: integers of any dtype, shape, strides and byte order; one entry a cell.
            out: where to write; the shape of counts; counts itself for in place. After a failure it holds
                zeros, which in place loses the counts; where no key could be had it is untouched.
            dtype: of the result, int64 by default.
            lower, upper: public bounds; clamping is post-processing and costs nothing.
            threads: at most so many; all usable cores by default, and one below some 500,000 counts.
            constant_time: the same work for every draw, so that the time does not show the noise. Calls
                below 4,096 counts always do so.
            key, start: a release key and the first draw's number, for parts of one release (dpfast.Key).
        Raises: DTypeError, ParameterError; EntropyError (no key); KeyReuseError.
        Privacy: spends epsilon; under a key, once for all parts and retries of one release.

        """
        job = prepare(counts, out, dtype, lower, upper)
        if threads is not None:
            threads = parameters.whole("threads", threads, 1)
        if key is None and start is None and self._narrow and small(job):
            plan = self._careful_plan
            run_small(job, plan.address, partial(self._decide, plan.width))
            return job.out
        careful, plan = self._plan(job, constant_time)  # before the key: until there is one, out is untouched
        stream, first = self._stream_key(key, start, job.counts, threads)
        self._run(job, careful, plan, stream, first, threads)
        return job.out

    def sample(
        self, size: int | tuple[int, ...], *, threads: int | None = None, constant_time: bool = False
    ) -> npt.NDArray[np.int64]:
        """The noise alone, int64 of shape `size`. Not a release: add it to nothing that it should protect.

        Raises: ParameterError for scales above 2^50, where noise might not fit; it is never clipped.
        """
        if self.sensitivity / self.epsilon > SAMPLE_SCALE:
            raise ParameterError(
                f"sample needs a scale of at most 2**50, got {self.scale:.6g}; release has no such limit"
            )
        shape = tuple(parameters.whole("size", n, 0) for n in (size if isinstance(size, tuple) else (size,)))
        zeros = np.zeros(shape, np.int64)
        job = Job(zeros, zeros, *clamps(INT64, None, None))
        threads = None if threads is None else parameters.whole("threads", threads, 1)
        careful, plan = self._plan(job, constant_time)
        self._run(job, careful, plan, _native.StreamKey(), 0, threads, must_fit=True)
        return zeros

    def _plan(self, job: Job, constant_time: bool) -> tuple[bool, _native.DiscreteLaplacePlan]:
        careful = constant_time or job.counts.size < SMALL
        return careful, self._careful_plan if careful else self._bulk_plan

    def _run(
        self,
        job: Job,
        careful: bool,
        plan: _native.DiscreteLaplacePlan,
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

        try:
            short = plan.has_table and not careful
            run(job, Draws(plan.address, short, self._narrow, stream, first, careful, decide), threads)
        finally:
            stream.wipe()

    def _decide(self, width: int, stream: _native.StreamKey, i: int) -> int:
        return self._law.draw(lambda level: self._digits(stream, width, i, level))

    def _stream_key(
        self, key: ReleaseKey | None, start: int | None, counts: CountArray, threads: int | None
    ) -> tuple[_native.StreamKey, int]:
        if key is None:
            if start is not None:
                raise ParameterError(
                    f"start is for parts of one release under a key; there is no key, got start={start}"
                )
            return _native.StreamKey(), 0
        if not isinstance(key, ReleaseKey):
            raise DTypeError(
                f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}"
            )
        if start is None:
            raise ParameterError("start must be given beside a key: the number of this part's first draw")
        first = parameters.whole("start", start, 0)
        unsigned = counts.dtype.kind == "u" and counts.size > 0 and int(counts.max()) >= 2**63
        workers = min(threads or usable_threads(), usable_threads())  # the hash starts as many as it is told
        part = key.part(counts.shape, counts.size, first, unsigned=unsigned, threads=workers)
        for values in plain_runs(counts, BUFFER):
            part.update(values)
        return _native.StreamKey(key.stream_key(_native.STREAM_VERSION, self._record, part)), first

    @staticmethod
    def _digits(stream: _native.StreamKey, width: int, i: int, level: int) -> exact.Digits:
        """Draw i's digits of levels 0 to `level`, by the portable block function (csrc/stream.md)."""

        def word(bits: int, at: int) -> int:
            group, within = divmod(i, 16 * 512 // bits)
            slot, lane = divmod(within, 16)
            block = int.from_bytes(stream.block(16 * group + lane, _native.nonce(at)), "little")
            return int(block >> (slot * bits) & (2**bits - 1))

        first = word(width, 0)
        prefix, bits = first & (2 ** (width - 1) - 1), width - 1
        for at in range(1, level + 1):
            size = 64 if at < 3 else 512
            more = word(64, at) if at < 3 else int.from_bytes(stream.block(i, _native.nonce(at)), "little")
            prefix, bits = prefix << size | more, bits + size
        return exact.Digits(bool(first >> (width - 1)), prefix, bits)

    @property
    def _record(self) -> tuple[str | int, ...]:
        e, s = self.epsilon, self.sensitivity
        return self.LAW, e.numerator, e.denominator, s.numerator, s.denominator

    def metadata(self, key: ReleaseKey | None = None) -> dict[str, object]:
        """What a reader of a release needs to draw error bars: JSON-able, fractions as exact strings."""
        from dpfast import __version__

        return {
            "mechanism": self.LAW,
            "epsilon": str(self.epsilon),
            "sensitivity": str(self.sensitivity),
            "adjacency": self.adjacency,
            "unit": self.unit,
            "scale": self.scale,
            "stream_version": _native.STREAM_VERSION,
            "dpfast": __version__,
            "secure": key is None or key.secure,
        }

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.epsilon, self.sensitivity, self.adjacency, self.unit)

    def _facts(self) -> dict[str, str]:
        return {
            "epsilon": _short(self.epsilon),
            "sensitivity": _short(self.sensitivity),
            "adjacency": self.adjacency,
            "unit": self.unit,
            "scale": f"{self.scale:.6g}",
            "standard deviation": f"{self.stddev:.6g}",
            "95 % interval": f"±{self.interval()}",
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"<{type(self).__name__} {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


def _short(value: Fraction) -> str:
    """An exact value as it was probably given: a double by its shortest name, else the fraction."""
    if value.denominator == 1:
        return str(value)
    try:
        near = float(value)
    except OverflowError:
        return str(value)
    return repr(near) if Fraction(near) == value else str(value)
