# SPDX-License-Identifier: Apache-2.0
"""The rows of a file's pieces in runs of blocks, as a sealed release digests and draws them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from dpfast.errors import UnusableValuesError
from dpfast.noise.release.arrays import UINT64
from dpfast.noise.release.blocks import BLOCK

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.app.tables.source import Piece

Column: TypeAlias = "npt.NDArray[Any]"
Draw: TypeAlias = Callable[[tuple[int, list[Column]]], list[Column]]
Given = TypeVar("Given")
Made = TypeVar("Made")


class _Rows:
    """Columns that grow at one end and are cut at the other."""

    def __init__(self) -> None:
        self.size = 0
        self._runs: deque[list[Column]] = deque()

    def add(self, columns: Sequence[Column]) -> None:
        if len(columns[0]):
            self._runs.append(list(columns))
            self.size += len(columns[0])

    def cut(self, rows: int) -> list[Column]:
        """The first rows, of which there are as many."""
        self.size -= rows
        taken: list[list[Column]] = []
        while rows:
            run = self._runs.popleft()
            n = min(rows, len(run[0]))
            taken.append([column[:n] for column in run])
            if n < len(run[0]):
                self._runs.appendleft([column[n:] for column in run])
            rows -= n
        return taken[0] if len(taken) == 1 else [_joined(parts) for parts in zip(*taken, strict=True)]


def _joined(parts: Sequence[Column]) -> Column:
    """Parts of one column. Integers of a CSV are uint64 in some pieces and int64 in others."""
    kinds = {part.dtype for part in parts}
    if UINT64 in kinds and len(kinds) > 1:
        if any(part.size and part.dtype != UINT64 and part.min() < 0 for part in parts):
            raise UnusableValuesError(
                "a column contains numbers below 0 and others of 2**63 or more, and no block can hold both"
            )
        parts = [part.astype(UINT64) for part in parts]
    return np.concatenate(parts)


def runs(pieces: Iterable[Piece]) -> Iterator[tuple[int, list[Column]]]:
    """The rows of all pieces in runs of whole blocks, each with the number of its first block.

    The last block of the last run may be shorter.
    """
    rows, at = _Rows(), 0
    for piece in pieces:
        rows.add(piece.counts)
        if whole := rows.size // BLOCK:
            yield at, rows.cut(whole * BLOCK)
            at += whole
    if rows.size:
        yield at, rows.cut(rows.size)


def results(pieces: Iterable[Piece], draw: Draw, threads: int) -> Iterator[tuple[Piece, list[Column]]]:
    """Each piece with the results of its rows. draw: what makes those of a run, in threads."""
    waiting: deque[Piece] = deque()
    made = _Rows()

    def seen() -> Iterator[Piece]:
        for piece in pieces:
            waiting.append(piece)
            yield piece

    for columns in in_threads(draw, runs(seen()), threads):
        made.add(columns)
        while waiting and len(waiting[0].counts[0]) <= made.size:
            piece = waiting.popleft()
            rows = len(piece.counts[0])
            yield piece, made.cut(rows) if rows else list(piece.counts)
    while waiting:  # pieces without rows
        yield waiting[0], list(waiting.popleft().counts)


def in_threads(work: Callable[[Given], Made], items: Iterable[Given], threads: int) -> Iterator[Made]:
    """What `work` makes of the items, in their order. The caller reads and writes meanwhile."""
    if threads == 1:
        yield from map(work, items)
        return
    pool, ahead = ThreadPoolExecutor(threads), deque[Future[Made]]()
    try:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) >= threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
