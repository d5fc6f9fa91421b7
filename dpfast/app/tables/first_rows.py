# SPDX-License-Identifier: Apache-2.0
"""The first rows of a release, and the range of its noisy numbers, kept while OUT is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from dpfast.app.tables.source import Column, Piece, Source


class FirstRows:
    """What a report shows of a release: at most `most` rows, whatever the size of the table.

    With no rows to keep it only counts them.

    rows: how many rows there were. cells: the first noisy cells of each chosen column. labels: the
    names and the first cells of the other columns, at most `width` of them. unshown: the names of
    further ones. index: the places of an array's first cells. ranges: the least and the largest
    noisy cell of each chosen column.
    """

    def __init__(self, source: Source, most: int, width: int) -> None:
        self._source, self._most = source, most
        names = source.schema.names
        others = [at for at in range(len(names)) if at not in set(source.places)]
        self._others = others[:width]
        self.rows = 0
        self.cells: list[list[Any]] = [[] for _ in source.places]
        self.labels: list[tuple[str, list[Any]]] = [(names[at], []) for at in self._others]  # two may have one name
        self.unshown = [names[at] for at in others[width:]]
        self.ranges: list[tuple[Any, Any] | None] = [None for _ in source.places]

    def add(self, piece: Piece, noisy: Sequence[Column]) -> None:
        """Look at a piece that OUT has got, with its noisy cells."""
        wanted = min(len(noisy[0]), self._most - self.rows)
        self.rows += len(noisy[0])
        if not self._most or not len(noisy[0]):
            return
        for at, cells in enumerate(noisy):
            ends = *(self.ranges[at] or ()), cells.min().item(), cells.max().item()
            self.ranges[at] = min(ends), max(ends)
        if wanted > 0:
            for kept, cells in zip(self.cells, noisy, strict=True):
                kept.extend(cells[:wanted])  # as NumPy's, which know their type
            for at, (_, kept) in zip(self._others, self.labels, strict=True):
                kept.extend(_texts(piece.rows, at, wanted))

    @property
    def index(self) -> list[str]:
        shape = getattr(self._source, "shape", None)
        if shape is None:
            return []
        n, fortran = len(self.cells[0]), getattr(self._source, "fortran", False)
        places = np.unravel_index(np.arange(n), shape, order="F" if fortran else "C") if shape and n else ()
        return [f"[{', '.join(map(str, place))}]" for place in zip(*places, strict=True)] or ["the value"] * n


def _texts(rows: Any, at: int, wanted: int) -> list[str]:
    """Cells that pass through, as text; none of a null."""
    if isinstance(rows, pa.RecordBatch):
        return [shown(cell) for cell in rows.column(at).slice(0, wanted)]
    cells = rows.column(at)[:wanted].to_pylist()
    return [cell.decode("utf-8", "backslashreplace").replace('""', '"') for cell in cells]


def shown(cell: pa.Scalar) -> str:
    """A cell as Python writes it, or "?": OUT is paid by now, and Python may lack its date."""
    try:
        value = cell.as_py()
    except Exception:  # pyarrow, datetime and time zones each have their own
        return "?"
    return "" if value is None else str(value)
