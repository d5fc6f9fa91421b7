# SPDX-License-Identifier: Apache-2.0
"""Run one release: cut it, let C add the noise, and fail closed."""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from dpfast import _native
from dpfast.noise.release.arrays import BUFFER, FLOAT32, FLOAT64, INT64, UINT64, Job, RealJob, plain_runs

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast._native import Plan, StreamKey

    AnyArray: TypeAlias = npt.NDArray[Any]

# Below this many counts every draw does equal work, so that the time of a call does not show its
# noise. Above, undecided draws are few and refined later, and the rest are faster (docs/design.md).
SMALL = _native.SMALL
SLAB = 1 << 20  # counts between two looks at the stop flag and at signals: about 2 ms
# Counts of another layout or width are brought to plain words, a piece at a time; its calls cost
# some 7 us. Where an array is transposed, a piece is smaller, with just enough rows to use what
# comes with each cache line, and a strip of it is copied while its lines stay in the first cache.
PIECE, ROWS, STRIP, LARGEST_PIECE = 1 << 17, 32, 512, 1 << 18
SHARE = 1 << 18  # counts that make a thread worth starting
NON_TEMPORAL = 1 << 21  # counts from which a second array is stored past the caches: too many to stay there


class Draws(NamedTuple):
    """The noise of one release: a plan and a key."""

    plan_address: int
    narrow: bool  # every draw that C decides early is below 2^62, of a real law below 2^53
    key: StreamKey
    start: int
    constant_work: bool


def run_small(job: Job | RealJob, plan: Plan) -> bool:
    """As run, in one call: by constant work, under a fresh key that C draws and wipes.

    False, with nothing done, unless there are few, in plain arrays of one type, and all finite.
    """
    kind = job.counts.dtype
    if kind is not job.out.dtype or kind not in _native.KINDS:
        return False
    return _native.small(_native.refuse, prepare_small(job, plan), job.counts, job.out) is not None


def prepare_small(job: Job | RealJob, plan: Plan) -> tuple[np.dtype[Any], bytes, Plan]:
    """What `_native.small` wants to know for arrays like those of this job, of one type.

    With the plan, for the bytes hold its address: whoever keeps them keeps it.
    """
    kind = job.counts.dtype
    return kind, as_c(job, (kind, kind), plan.address, True, True), plan


def usable_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(job: Job | RealJob, draws: Draws, threads: int | None) -> None:
    """Fill job.out with counts plus noise, clamped. On any exception job.out is zeroed first."""
    if job.counts.size:
        try:
            shared(_Work(job, draws), job.counts.size, threads)
        except BaseException:
            job.out.fill(0)  # one call into C, and no Python before it where a second Ctrl-C could come in between
            raise


class Work(Protocol):
    """What threads share: values, by their places. A share looks at `stopped` now and then."""

    unit: int  # shares are cut at multiples of it
    stopped: bool

    def share(self, begin: int, end: int) -> None: ...


def shared(work: Work, size: int, threads: int | None) -> None:
    """Do all of a work, in shares."""
    if size < 2 * SHARE or threads == 1:
        work.share(0, size)
    else:
        _in_threads(work, size, min(threads or usable_threads(), size // SHARE))


class _Part:
    """A share of a release, done by its first taker: a helper, or the caller if none started."""

    __slots__ = ("begin", "done", "end", "ended", "failure", "taken")

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.taken, self.ended = _thread.allocate_lock(), _thread.allocate_lock()
        self.ended.acquire()
        self.done = False
        self.failure: BaseException = MemoryError()  # unless another is told: there may be no memory to tell it

    def help(self, work: Work, gate: _Gate) -> None:
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


def _in_threads(work: Work, size: int, workers: int) -> None:
    # Threads of this call alone: no pool to rebuild after a fork, to lock or to leak. Not
    # threading.Thread: start() waits for ever if the new thread has no memory to begin, and join(),
    # once interrupted, takes a running thread for an ended one (CPython issue 45274).
    # Here nobody waits for a helper that has not taken its part.
    gate = _Gate()
    edges = [size * part // workers // work.unit * work.unit for part in range(workers)] + [size]
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

    def __init__(self, job: Job | RealJob, draws: Draws) -> None:
        counts, out = job.counts, job.out
        self.job, self.draws, self.unit, self.stopped = job, draws, BUFFER, False
        alike = counts.dtype == out.dtype and counts.dtype in _native.KINDS
        self.kinds = (counts.dtype, out.dtype) if draws.narrow and alike else kinds_of(job)
        self.straight = out.dtype == self.kinds[1] and is_plain(out)  # C may write there
        self.plain = self.straight and counts.dtype == self.kinds[0] and is_plain(counts)
        past = self.straight and counts.size >= NON_TEMPORAL and not np.may_share_memory(counts, out)
        how = as_c(job, self.kinds, draws.plan_address, draws.narrow, draws.constant_work, past)
        self.release = _native.Release(how, self.kinds[0], draws.key)

    def share(self, begin: int, end: int) -> None:
        if self.plain:
            self.run(self.job.counts, self.job.out, begin, end, 0)
        else:
            self.in_pieces(begin, end)

    def in_pieces(self, begin: int, end: int) -> None:
        """Any layout, byte order and width: NumPy brings pieces to plain words, and back."""
        counts, out = flat(self.job.counts), flat(self.job.out)
        row = max(_turned(counts), _turned(out))
        most = min(max(PIECE // 4, ROWS * row), LARGEST_PIECE) if row else PIECE
        # Pieces end where rows do, if these fit and are turned, else where batches do.
        unit, shift = (row, 0) if 0 < row <= most else (PIECE, self.draws.start)
        x = np.empty(min(most, end - begin), self.kinds[0])
        y = x.view(self.kinds[1])  # in place: a piece and its results fit a cache
        try:
            while begin < end and not self.stopped:
                stop = begin + most
                n = min(stop - (shift + stop) % unit, end) - begin
                for view, words in views(counts, begin, begin + n, x):
                    np.copyto(words, view, casting="unsafe")  # widened
                n = self.run(x, out[begin : begin + n] if self.straight else y, 0, n, begin)
                if not self.straight:  # the results lie in the piece
                    for view, words in views(out, begin, begin + n, y):
                        np.copyto(view, words, casting="unsafe")  # the bounds have made the results fit
                begin += n
        finally:
            x.fill(0)

    def run(self, x: AnyArray, y: AnyArray, begin: int, end: int, position: int) -> int:
        """Plain values begin .. end - 1, the first of the array at this position of the release.

        Returns where it stopped: beyond, y holds no results, and values if it is x.
        """
        first = self.draws.start + position
        while begin < end and not self.stopped:
            n = min(SLAB, end - begin)
            self.release.add(first + begin, n, x, y, begin)
            begin += n
        return begin


def flat(array: AnyArray) -> AnyArray:
    """A view with one axis if all elements lie one after the other."""
    plain = array.view(np.ndarray)
    return plain.reshape(-1) if plain.flags.c_contiguous else plain


def _turned(array: AnyArray) -> int:
    """How long a row is if its elements lie further apart than the rows do, else 0."""
    return array.shape[-1] if array.ndim > 1 and abs(array.strides[-1]) > abs(array.strides[-2]) else 0


def views(array: AnyArray, begin: int, end: int, words: AnyArray) -> Iterator[tuple[AnyArray, AnyArray]]:
    """The elements begin .. end - 1 in C order, and where they lie in `words`, in a row."""
    for view in _blocks(array, begin, end):
        block, words = words[: view.size].reshape(view.shape), words[view.size :]
        if row := _turned(view):
            for at in range(0, row, STRIP):
                yield view[..., at : at + STRIP], block[..., at : at + STRIP]
        else:
            yield view, block


def _blocks(array: AnyArray, begin: int, end: int) -> Iterator[AnyArray]:
    """The elements begin .. end - 1 in C order, in few views."""
    if array.ndim == 1:
        yield array[begin:end]
        return
    if (begin, end) == (0, array.size):
        yield array
        return
    row = array.size // len(array)
    first, last = -(-begin // row), end // row  # whole rows
    if first > last:
        yield from _blocks(array[last], begin - last * row, end - last * row)
        return
    if begin < first * row:
        yield from _blocks(array[first - 1], begin - (first - 1) * row, row)
    if first < last:
        yield array[first:last]
    if last * row < end:
        yield from _blocks(array[last], 0, end - last * row)


def is_plain(array: AnyArray) -> bool:
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned)


def kinds_of(job: Job | RealJob) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The types of 64 bits in whose place C sees values and results."""
    if isinstance(job, RealJob):
        return FLOAT64, FLOAT64
    if job.counts.dtype is INT64 and job.out.dtype is INT64:
        return INT64, INT64
    return _plain_kind(job.counts.dtype), _plain_kind(job.out.dtype)


def _plain_kind(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return UINT64 if dtype.kind == "u" and dtype.itemsize == 8 else INT64


def as_c(
    job: Job | RealJob,
    kinds: tuple[np.dtype[Any], np.dtype[Any]],
    plan: int,
    narrow: bool,
    constant_work: bool,
    non_temporal: bool = False,
) -> bytes:
    """What C does to plain values and results of these kinds. plan: its address."""
    work = plan, narrow, constant_work, non_temporal
    return _as_c(_native.best_isa(), isinstance(job, Job), kinds, job.out.dtype.itemsize, job[2:], work)


@lru_cache(maxsize=64)
def _as_c(
    _isa: int,
    integers: bool,
    kinds: tuple[np.dtype[Any], np.dtype[Any]],
    itemsize: int,
    public: Any,
    how: tuple[int, bool, bool, bool],
) -> bytes:
    """itemsize: of the result; public: what follows the arrays of a job; how: the rest of as_c."""
    plan, narrow, constant_work, non_temporal = how
    work: dict[str, Any] = {"constant_work": constant_work, "non_temporal": non_temporal}
    if integers:
        limbs = 1 if narrow and (kinds[0] == kinds[1] or UINT64 not in kinds) else 2
        return _native.release_bytes(plan, kinds[0], public, limbs=limbs, **work)
    lower, upper, (granularity, inverse, inverse_too), least, greatest, missing = public
    return _native.release_bytes(
        plan, kinds[0], limbs=1 if narrow else 2, **work, single=itemsize == FLOAT32.itemsize, refuse=missing is None,
        granularity=granularity, inverse=inverse, inverse_too=inverse_too, missing=missing or 0.0,
        least=least, greatest=greatest, real_lower=lower, real_upper=upper,
    )  # fmt: skip


def check_finite(job: RealJob, *, final: bool) -> None:
    """Raise UnusableValuesError unless all values are finite, where C would find one too late.

    final: a failure from here on costs a charge. In place it costs the values.
    """
    values = job.counts
    if job.missing is not None or not (final or np.may_share_memory(values, job.out)):
        return
    if values.dtype in (FLOAT32, FLOAT64) and is_plain(values):
        finite = _native.all_finite(values)
    else:
        finite = all(_native.all_finite(np.frombuffer(run, FLOAT64)) for run in plain_runs(values))
    if not finite:
        _native.refuse(_native.NOT_FINITE)
