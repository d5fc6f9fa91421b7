# SPDX-License-Identifier: Apache-2.0
"""A release in blocks, each noised from the very copy of its values that was digested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dpfast import _native
from dpfast.noise.release.arrays import FLOAT64, INT64, Job, RealJob
from dpfast.noise.release.engine import (
    NON_TEMPORAL,
    SMALL,
    as_c,
    flat,
    is_plain,
    kinds_of,
    shared,
    views,
)
from dpfast.noise.release.names import Names, words_of

BLOCK = 1 << 16  # values of a block: a constant of the manifest's version (docs/behind/sealed.md)

NOTHING = np.empty(0, INT64)
SPARE = 8
_spare: list[Any] = []  # up to SPARE rooms for a block, wiped: new memory costs more than the noise

Words: TypeAlias = "np.ndarray[Any, Any]"
Digest: TypeAlias = Callable[[int, list[Any]], bytes]  # a block's, from its number and its fields


def noise(how: bytes, words: Words, target: Words, stream_key: bytes) -> None:
    """Noise plain values into a plain target, which may be the same. how: as C does it."""
    stream = _native.StreamKey()
    try:
        stream.take(stream_key)
        _native.Release(how, words.dtype, stream).add(0, words.size, words, target, 0)
    finally:
        stream.wipe()


def is_one(job: Job | RealJob) -> bool:
    """Whether counts are one block that lies as it is noised, and the result may lie likewise."""
    counts = job.counts
    return counts.dtype is INT64 is job.out.dtype and 0 < counts.size <= BLOCK and is_plain(counts)


class Blocks:
    """The values of one release, in blocks of BLOCK values in C order; the last is shorter.

    A block is copied: eight bytes a value, what is missing put in, clamped, and no negative zero.
    The copy is digested, and the copy gets the noise. Copies of all blocks are kept from the one to
    the other if there is a place for them: in a result that nobody else can see, and of one block.
    """

    def __init__(
        self,
        job: Job | RealJob,
        plan: int,
        *,
        narrow: bool,
        constant_work: bool,
        names: Names | None,
        threads: int | None,
        unseen: bool,
    ) -> None:
        """unseen: whether the result is new memory, which nobody else has."""
        self.job, self.values, self.out, self.names, self.threads = job, job.counts, job.out, names, threads
        self.size = self.values.size
        self.kinds = kinds_of(job)
        as_noised = isinstance(job, Job) and self.values.dtype == self.kinds[0] and is_plain(self.values)
        self._as_noised = self.values.reshape(-1) if as_noised else None  # where the values lie as they are noised
        self._straight = self.out.dtype == self.kinds[1] and is_plain(self.out)
        self._plain = self.out.reshape(-1) if self._straight else self.out
        self.block = BLOCK
        # The result, in the type in which values are read, if nobody else can see copies there.
        self._unseen = self._plain.view(self.kinds[0]) if unseen and self._straight else None
        self._kept, self._digests = NOTHING, list[bytes]()  # copies of all blocks, for `draw`
        past = self._straight and not unseen and self.size >= NON_TEMPORAL
        self._how = as_c(job, self.kinds, plan, narrow, constant_work, past)

    def one(self, digest: Digest, at: int = 0, *, keep: bool = True) -> bytes:
        """The digest of values that are one block, of any size.

        at: its number among all that are sealed. keep: the copy, for `draw`.
        """
        self.block = max(BLOCK, self.size)
        if not keep and self._as_noised is not None:
            return digest(at, self._fields(0, self._as_noised))
        self._kept = self.room(self.size) if self._unseen is None else self._unseen
        self._digests = [digest(at, self._fields(0, self.copy(0, self._kept)))]
        return self._digests[0]

    def digests(self, digest: Digest) -> list[bytes]:
        """The digests of all blocks, in order."""
        if self.size == 0:
            return []
        if self.size <= BLOCK:
            return [self.one(digest)]
        found = [b""] * -(-self.size // BLOCK)
        if self._unseen is not None:
            self._kept, self._digests = self._unseen, found

        def each(i: int, words: Words) -> None:
            found[i] = digest(i, self._fields(i, words))

        shared(_Each(self, self._look, each), self.size, self.threads)
        return found

    def draw(self, key_of: Callable[[int, bytes], bytes], digest: Digest) -> None:
        """Noise all blocks, each under a key of its own. After any exception the result is zeros.

        key_of: the stream key of a block, by its number and the digest of its copy; or it refuses.
        """

        def each(i: int, words: Words) -> None:
            found = self._digests[i] if self._digests else digest(i, self._fields(i, words))
            self._noise(i, words, key_of(i, found))

        take = self._again if self._digests else self.copy
        try:
            if self.size > self.block:
                shared(_Each(self, take, each), self.size, self.threads)
            elif self._digests:
                each(0, self._kept)
        except BaseException:
            self.out.fill(0)
            raise
        if self._unseen is not None:
            self._kept = NOTHING  # they are the result now

    def forget(self) -> None:
        """Wipe the copies that were kept, and may not have been drawn."""
        if self._kept is self._unseen:
            self._kept.fill(0)
        else:
            self.leave(self._kept)
        self._kept = NOTHING

    def room(self, size: int) -> Words:
        """Memory for the copy of a block; `leave` it. size: of all blocks that it is for."""
        size = min(self.block, size)
        if not SMALL < size <= BLOCK:
            return np.empty(size, self.kinds[0])
        try:
            room = _spare.pop()
        except IndexError:
            room = np.empty(BLOCK, INT64)
        found: Words = room[:size].view(self.kinds[0])
        return found

    def leave(self, room: Words) -> None:
        room.fill(0)
        if room.base is not None and len(_spare) < SPARE:
            _spare.append(room.base)

    def copy(self, i: int, room: Words) -> Words:
        """A copy of block i, as it is noised. Raises: UnusableValuesError (not finite)."""
        begin, end = i * self.block, min((i + 1) * self.block, self.size)
        copied = room[: end - begin]
        if self._as_noised is not None:
            copied[:] = self._as_noised[begin:end]
            return copied
        for view, words in views(flat(self.values), begin, end, copied):
            np.copyto(words, view, casting="unsafe")  # widened
        job = self.job
        if isinstance(job, RealJob):
            if job.missing is not None:
                np.copyto(copied, job.missing, where=~np.isfinite(copied))
            elif not _native.all_finite(copied):
                _native.refuse(_native.NOT_FINITE)
            np.clip(copied, job.least, job.greatest, out=copied)
            copied += 0.0
        return copied

    def _look(self, i: int, room: Words) -> Words:
        """Block i, to be digested: a copy that is kept, or where it lies if it lies as noised."""
        if self._digests:
            return self.copy(i, self._again(i, room))
        here = self._as_noised
        return self.copy(i, room) if here is None else here[i * self.block : (i + 1) * self.block]

    def _again(self, i: int, _room: Words) -> Words:
        """The place of the copy of block i that is kept."""
        return self._kept[i * self.block : (i + 1) * self.block]

    def _fields(self, i: int, words: Words) -> list[Any]:
        """What the digest of block i is made from."""
        if words.dtype == FLOAT64:
            fields = ["reals", words.astype("<f8", copy=False).view("u1")]
        else:
            fields = list(words_of(words))
        return fields + (self.names.fields(i * self.block, i * self.block + words.size) if self.names else [])

    def _noise(self, i: int, words: Words, stream_key: bytes) -> None:
        """Noise a copy of block i into its place of the result."""
        begin, n = i * self.block, words.size
        target = self._plain[begin : begin + n] if self._straight else words.view(self.kinds[1])
        noise(self._how, words, target, stream_key)
        if not self._straight:
            for view, part in views(flat(self.out), begin, begin + n, target):
                np.copyto(view, part, casting="unsafe")  # the bounds have made the results fit


class _Each:
    """All blocks, one after the other, for one use each; memory for copies is wiped at the end."""

    unit = BLOCK

    def __init__(self, blocks: Blocks, take: Callable[[int, Words], Words], use: Callable[[int, Words], None]) -> None:
        self.blocks, self.take, self.use, self.stopped = blocks, take, use, False

    def share(self, begin: int, end: int) -> None:
        room = self.blocks.room(end - begin)
        try:
            for i in range(begin // BLOCK, -(-end // BLOCK)):
                if self.stopped:
                    return
                self.use(i, self.take(i, room))
        finally:
            self.blocks.leave(room)
