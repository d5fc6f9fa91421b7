# SPDX-License-Identifier: Apache-2.0
"""The rows of a file's pieces in blocks of one size, as a sealed release digests and draws them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpfast.errors import FileError
from dpfast.release.arrays import UINT64
from dpfast.release.blocks import BLOCK

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.tables.files import Piece

Column: TypeAlias = "npt.NDArray[Any]"


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
            raise FileError(
                "a column holds numbers below 0 and others of 2**63 or more, and one block cannot hold both"
            )
        parts = [part.astype(UINT64) for part in parts]
    return np.concatenate(parts)


def blocks(pieces: Iterable[Piece]) -> Iterator[tuple[int, list[Column]]]:
    """The blocks of all columns, with their numbers; the last may be shorter."""
    rows, at = _Rows(), 0
    for piece in pieces:
        rows.add(piece.counts)
        while rows.size >= BLOCK:
            yield at, rows.cut(BLOCK)
            at += 1
    if rows.size:
        yield at, rows.cut(rows.size)


def results(
    pieces: Iterable[Piece], draw: Callable[[int, list[Column]], list[Column]]
) -> Iterator[tuple[Piece, list[Column]]]:
    """Each piece with the results of its rows. draw: what makes those of a block, by its number."""
    waiting: deque[Piece] = deque()
    made = _Rows()

    def seen() -> Iterator[Piece]:
        for piece in pieces:
            waiting.append(piece)
            yield piece

    for at, columns in blocks(seen()):
        made.add(draw(at, columns))
        while waiting and len(waiting[0].counts[0]) <= made.size:
            piece = waiting.popleft()
            rows = len(piece.counts[0])
            yield piece, made.cut(rows) if rows else list(piece.counts)
    while waiting:  # pieces without rows
        yield waiting[0], list(waiting.popleft().counts)
