# SPDX-License-Identifier: Apache-2.0
"""Run one release: cut it, run the kernels, decide the draws that they do not, and fail closed."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dpfast import _native, kernels
from dpfast.errors import EntropyError, ParameterError
from dpfast.release.arrays import BUFFER, FLOAT32, FLOAT64, INT64, UINT64, Job, RealJob, plain_runs

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast._native import StreamKey

    AnyArray: TypeAlias = npt.NDArray[Any]

# Below this many counts every draw does equal work, so that the time of a call does not show its
# noise. Above, undecided draws are few and refined later, and the rest are faster (docs/design.md).
SMALL = 4096
SLAB = 1 << 20  # counts between two looks at the stop flag and at signals: about 2 ms
SHARE = 1 << 18  # counts that make a thread worth starting
KEY_WORDS = 4  # each of 64 bits
NON_TEMPORAL = 1 << 21  # counts from which a second array is stored past the caches: too many to stay there


NOT_FINITE = "values must be finite; missing=<public number>, with clamp=(a, b), stands for NaN and infinities"
CHANGED = "values must not be written by another thread while they are released: give a copy"
REFUSED = {-1: NOT_FINITE, -2: CHANGED}  # by what a kernel says instead of how many are done

_PLAIN = ("contig", "aligned", "nbo")


class Draws(NamedTuple):
    """The noise of one release: a plan, a key, and a function that decides what C does not."""

    plan_address: int
    short: bool  # draws start at the table
    narrow: bool  # every draw that C decides is below 2^62, of a real law below 2^53
    key: StreamKey
    start: int
    constant_work: bool
    exact: Callable[..., Any]  # a draw by its number; of a real law the result, by its number and the value


def run_small(job: Job, plan_address: int, exact: Callable[[StreamKey, int], int]) -> bool:
    """As run, in fewer calls: by constant work, under a fresh key that the kernel draws and wipes.

    False, with nothing done, unless they are fewer than SMALL, plain int64 to plain int64.
    """
    counts, out, lower, upper = job
    given, made = counts.flags, out.flags
    if not (0 < counts.size < SMALL and counts.dtype == out.dtype == INT64 and given.c_contiguous and given.aligned):
        return False
    if not (made.c_contiguous and made.aligned):
        return False
    if counts.ndim != 1:
        counts, out = counts.reshape(-1), out.reshape(-1)
    n = counts.size
    try:
        add, isa, scratch = kernels.kernel("add_small"), _native.best_isa(), np.empty(KEY_WORDS + 3 * n, INT64)
    except BaseException:
        out.fill(0)
        raise
    try:
        while (open_ := add(counts, out, scratch, isa, plan_address, lower, upper)) == kernels.INTERRUPTED:
            pass  # the signal's handler has run, and has not raised
        if open_ > 0:
            key = _native.StreamKey()
            try:
                key.take(scratch[:KEY_WORDS].data)
                for at, count in scratch[KEY_WORDS + n :].reshape(2, n)[:, :open_].T.tolist():
                    out[at] = min(max(count + exact(key, at), lower), upper)
            finally:
                key.wipe()
            scratch.fill(0)
    except BaseException:
        out.fill(0)
        scratch.fill(0)  # the key, and counts that waited
        raise
    if open_ < 0:
        raise EntropyError("the operating system gave no random key; nothing was released")
    return True


def _run_small_real(job: RealJob, draws: Draws) -> bool:
    """As run, in fewer calls. False, with nothing done, if not plain float64 to plain float64."""
    values, out, lower, upper, grid, least, greatest, missing = job
    given, made = values.flags, out.flags
    if not (values.dtype == out.dtype == FLOAT64 and given.c_contiguous and given.aligned):
        return False
    if not (made.c_contiguous and made.aligned):
        return False
    if values.ndim != 1:
        values, out = values.reshape(-1), out.reshape(-1)
    n = values.size
    try:
        add, scratch = kernels.kernel("add_grid"), np.empty(_RealWork.scratch * n, INT64)
        try:
            done, open_ = add(
                values, out, scratch, _native.best_isa(), draws.plan_address, draws.constant_work, draws.key.address,
                draws.start, 0, n, n, *grid, 0.0 if missing is None else missing, least, greatest, lower, upper,
                0, missing is None,
            )  # fmt: skip
            if done < 0:
                raise ParameterError(REFUSED[done])
            if open_:
                kept = scratch[3 * n : 3 * n + open_].view(FLOAT64).tolist()
                for at, value in zip(scratch[2 * n : 2 * n + open_].tolist(), kept, strict=True):
                    out[at] = draws.exact(draws.start + at, value)
        finally:
            scratch.fill(0)
    except BaseException:
        job.out.fill(0)
        raise
    return True


def usable_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(job: Job | RealJob, draws: Draws, threads: int | None) -> None:
    """Fill job.out with counts plus noise, clamped. On any exception job.out is zeroed first."""
    size = job.counts.size
    if size == 0 or (size < SMALL and draws.narrow and isinstance(job, RealJob) and _run_small_real(job, draws)):
        return
    try:
        work = _IntegerWork(job, draws) if isinstance(job, Job) else _RealWork(job, draws)
        if size < 2 * SHARE or threads == 1:
            work.share(0, size)
        else:
            _share_out(work, size, min(threads or usable_threads(), size // SHARE))
    except BaseException:
        job.out.fill(0)  # one call into C, and no Python before it where a second Ctrl-C could come in between
        raise


class _Part:
    """A share of a release, done by its first taker: a helper, or the caller if none started."""

    __slots__ = ("begin", "done", "end", "ended", "failure", "taken")

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.taken, self.ended = _thread.allocate_lock(), _thread.allocate_lock()
        self.ended.acquire()
        self.done = False
        self.failure: BaseException = MemoryError()  # unless another is told: there may be no memory to tell it

    def help(self, work: _Work, gate: _Gate) -> None:
        """What a thread of its own does."""
        if not self.taken.acquire(blocking=False):
            return
        try:
            if gate.enter():
                try:
                    work.share(self.begin, self.end)
                    self.done = True
                except BaseException as failure:
                    self.failure = failure
                    work.stopped = True
                finally:
                    gate.leave()
        finally:
            self.ended.release()

    def wait(self) -> None:
        self.ended.acquire()
        if not self.done:
            raise self.failure


class _Gate:
    """Helpers are in to write. Who shuts `lock` waits until all are out; none enters any more."""

    __slots__ = ("_in", "_turn", "lock")

    def __init__(self) -> None:
        self._in, self._turn = 0, _thread.allocate_lock()
        self.lock = _native.new_lock()
        if not self.lock:
            raise MemoryError

    def enter(self) -> bool:
        with self._turn:
            if not self._in and not _native.shut(self.lock, 0):  # the first takes it for all
                return False
            self._in += 1
            return True

    def leave(self) -> None:
        with self._turn:
            self._in -= 1
            if not self._in:
                _native.unlock(self.lock)


def _share_out(work: _Work, size: int, workers: int) -> None:
    # Threads of this call alone: no pool to rebuild after a fork, to lock or to leak. Not
    # threading.Thread: start() waits for ever if the new thread has no memory to begin, and join(),
    # once interrupted, takes a running thread for an ended one (CPython issue 45274).
    # Here nobody waits for a helper that has not taken its part.
    gate = _Gate()
    edges = [size * part // workers // BUFFER * BUFFER for part in range(workers)] + [size]
    parts = [_Part(edges[i], edges[i + 1]) for i in range(workers)]
    shut, lock = _native.shut, gate.lock
    try:
        for part in parts[1:]:
            try:
                _thread.start_new_thread(part.help, (work, gate))
            except (RuntimeError, MemoryError):
                break  # no more threads: what they would have taken is left to the caller
        helped = []
        for part in parts:
            if part.taken.acquire(blocking=False):
                work.share(part.begin, part.end)
            else:
                helped.append(part)
        for part in helped:
            part.wait()
    except BaseException:
        # A signal handler may raise again and again, but not in here: CPython runs handlers when a
        # call has returned, and this call into C returns when no helper writes any more.
        work.stopped = True
        shut(lock, 1)
        raise  # the lock, some 32 bytes, stays for helpers that are late
    _native.free_lock(lock)  # all parts are taken: nobody comes


class _Work:
    """One release, cut into shares: positions begin to end, in C order."""

    add: Any  # the kernel
    last: tuple[Any, ...]  # its last arguments
    scratch: int  # parts of a block
    block: int

    def __init__(self, job: Job | RealJob, draws: Draws, *kinds: np.dtype[Any]) -> None:
        """kinds: of the plain arrays that the kernel sees."""
        self.job, self.draws, self.kinds, self.stopped = job, draws, kinds, False
        self.isa = _native.best_isa()
        counts, out = job.counts, job.out
        given, made = counts.flags, out.flags
        self.plain = (
            (counts.dtype, out.dtype) == self.kinds
            and given.c_contiguous and given.aligned and made.c_contiguous and made.aligned
        )  # fmt: skip
        self.non_temporal = int(self.plain and counts.size >= NON_TEMPORAL and not np.may_share_memory(counts, out))

    def share(self, begin: int, end: int) -> None:
        block = min(end - begin, self.block)
        scratch = np.empty(self.scratch * block, np.int64)
        try:
            if self.plain:
                x, y = self.job.counts, self.job.out
                if x.ndim != 1:
                    x, y = x.reshape(-1), y.reshape(-1)
                if end - begin < x.size:
                    x, y = x[begin:end], y[begin:end]
                self.run(x, y, begin, scratch, block)
            else:
                self.buffered(begin, end, scratch, block)
        finally:
            scratch.fill(0)

    def buffered(self, begin: int, end: int, scratch: AnyArray, block: int) -> None:
        """Any layout, byte order and width: NumPy brings it to plain 64-bit runs and back."""
        chunks = np.nditer(  # type: ignore[call-overload]  # its stubs misspell "contig"
            [np.atleast_1d(self.job.counts), np.atleast_1d(self.job.out)],
            # Without the delay, setting the range flushes the first, still blank buffer over out.
            flags=["external_loop", "buffered", "ranged", "delay_bufalloc"],
            op_flags=[["readonly", *_PLAIN], ["writeonly", *_PLAIN]],
            op_dtypes=list(self.kinds),
            order="C",
            casting="unsafe",  # widening of inputs; the kernel has made the outputs fit
            buffersize=BUFFER,
        )
        with chunks:
            chunks.iterrange = (begin, end)
            position = begin
            for x, y in chunks:
                self.run(x, y, position, scratch, block)
                position += x.size

    def run(self, x: AnyArray, y: AnyArray, position: int, scratch: AnyArray, block: int) -> None:
        """Plain 64-bit x plus noise into y; a kernel stops after an undecided block, or a slab."""
        draws, kinds, left = self.draws, self.kinds, x.size
        if UINT64 in kinds:
            x, y = x.view(INT64), y.view(INT64)
        first = draws.start + position
        while left and not self.stopped:
            done, open_ = self.add(
                x, y, scratch, self.isa, draws.plan_address, draws.constant_work, draws.key.address, first,
                self.non_temporal, block, SLAB, *self.last,
            )  # fmt: skip
            if done < 0:
                raise ParameterError(REFUSED[done])
            if open_:
                at, kept = self.undecided(scratch, block, open_)
                target = y.view(kinds[1])
                for i, count in zip(at.tolist(), kept.tolist(), strict=True):
                    target[i] = self.decided(first + i, count)
            left -= done
            first += done
            if left:
                x, y = x[done:], y[done:]

    def undecided(self, scratch: AnyArray, block: int, n: int) -> tuple[AnyArray, AnyArray]:
        """The positions of undecided draws, and the counts that were there."""
        raise NotImplementedError

    def decided(self, i: int, count: Any) -> Any:
        """What draw i makes of the count."""
        raise NotImplementedError


class _IntegerWork(_Work):
    job: Job
    scratch = 4
    block = kernels.BLOCK

    def __init__(self, job: Job, draws: Draws) -> None:
        counts, out, lower, upper = job
        signed = counts.dtype is INT64 and out.dtype is INT64
        super().__init__(job, draws, *((INT64, INT64) if signed else map(_plain_kind, (counts.dtype, out.dtype))))
        if draws.narrow and UINT64 not in self.kinds:
            self.add = kernels.kernel("add_short" if draws.short else "add_narrow")
            self.last = lower, upper
        else:
            self.add = kernels.kernel("add_wide")
            unsigned = int(self.kinds[0] is UINT64)
            self.last = lower >> 64, lower % 2**64, upper >> 64, upper % 2**64, unsigned

    def undecided(self, scratch: AnyArray, block: int, n: int) -> tuple[AnyArray, AnyArray]:
        return scratch[block : block + n], scratch[2 * block : 2 * block + n].view(self.kinds[0])

    def decided(self, i: int, count: Any) -> Any:
        return min(max(count + self.draws.exact(i), self.job.lower), self.job.upper)


class _RealWork(_Work):
    job: RealJob
    scratch = 5
    block = kernels.REAL_BLOCK

    def __init__(self, job: RealJob, draws: Draws) -> None:
        singles = job.counts.dtype == job.out.dtype == FLOAT32 and draws.narrow
        super().__init__(job, draws, *((FLOAT32, FLOAT32) if singles else (FLOAT64, FLOAT64)))
        self.add = kernels.kernel("add_grid" if draws.narrow else "add_grid_wide")
        single = int(job.out.dtype.itemsize == FLOAT32.itemsize)
        missing = 0.0 if job.missing is None else job.missing
        self.last = (
            *job.grid, missing, job.least, job.greatest, job.lower, job.upper, single, job.missing is None,
        )  # fmt: skip

    def undecided(self, scratch: AnyArray, block: int, n: int) -> tuple[AnyArray, AnyArray]:
        return scratch[2 * block : 2 * block + n], scratch[3 * block : 3 * block + n].view(FLOAT64)

    def decided(self, i: int, count: Any) -> Any:
        return self.draws.exact(i, count)


def check_finite(job: RealJob, *, final: bool) -> None:
    """Raise ParameterError unless all values are finite, where the kernels would find one too late.

    final: a failure from here on costs a key's part or a charge. In place it costs the values.
    """
    values = job.counts
    if job.missing is not None or not (final or np.may_share_memory(values, job.out)):
        return
    check = kernels.kernel("all_finite")
    if values.dtype in (FLOAT32, FLOAT64) and values.flags.c_contiguous and values.flags.aligned:
        finite = check(values.reshape(-1))
    else:
        finite = all(check(np.frombuffer(run, FLOAT64)) for run in plain_runs(values))
    if not finite:
        raise ParameterError(NOT_FINITE)


def _plain_kind(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The 64-bit type that a kernel sees in place of `dtype`."""
    return UINT64 if dtype.kind == "u" and dtype.itemsize == 8 else INT64
