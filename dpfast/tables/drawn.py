# SPDX-License-Identifier: Apache-2.0
"""The noisy pieces of a file: fresh ones, or those of a sealed release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from blake3 import blake3

from dpfast.errors import FileError
from dpfast.tables.in_blocks import blocks, results

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.tables.files import Piece, Source

Column: TypeAlias = "npt.NDArray[Any]"
Drawn: TypeAlias = "Iterator[tuple[Piece, list[Column]]]"

CHUNK = 1 << 22  # bytes of a file that are hashed at a time


class Cells(NamedTuple):
    """A column, its mechanism, and the options of its release."""

    name: str
    mechanism: Any
    options: Mapping[str, Any]

    def usable(self, cells: Column) -> Column:
        """Clamped integers are int64 in all pieces; a CSV has uint64 in some."""
        clamp = self.options["clamp"]
        if clamp and cells.dtype.kind in "iu":
            most = max(clamp[1], 0)
            cells = (np.minimum(cells, most) if cells.dtype == np.uint64 else cells).astype(np.int64, copy=False)
        return cells

    def release(self, cells: Column) -> Column:
        found: Column = self.mechanism.release(self.usable(cells), **self.options)
        return found


def fresh(table: Source, columns: list[Cells], pay: Callable[[], object] | None) -> Drawn:
    """pay: what a ledger does once a piece is read, and columns without numbers are found out."""
    for at, piece in enumerate(table.pieces()):
        if pay is not None and at == 0:
            pay()
        yield piece, [column.release(cells) for column, cells in zip(columns, piece.counts, strict=True)]


class Sealing:
    """A sealed release of a file, in two passes: digests, then noise. All columns are one seal."""

    def __init__(self, table: Source, columns: list[Cells], key: Any, ledger: Any, *, resume: bool) -> None:
        """key: a release key. ledger: it pays."""
        self._table, self._columns, self._ledger, self._resume = table, columns, ledger, resume
        self._mechanisms = {each.name: each.mechanism for each in columns}
        self.again = ledger.expect(key, self._mechanisms, resume=resume)  # before much is read
        self._key = key

    def digest(self) -> Iterator[float]:
        """The first pass; yields how many bytes of the file are done. Then there is a manifest."""
        self._file = file_digest(self._table.path)
        digesters = []
        for each in self._columns:
            inputs = {name: each.options.get(name) for name in ("clamp", "missing")}
            digesters.append(self._key.digester(each.mechanism, column=each.name, **inputs))
        rows, done, made = 0, 0.0, []

        def seen() -> Iterator[Piece]:
            nonlocal rows, done
            for piece in self._table.pieces():
                rows += len(piece.counts[0])
                done += piece.weight
                yield piece

        for at, cells in blocks(seen()):
            for digester, column, part in zip(digesters, self._columns, cells, strict=True):
                made.append(digester(at, column.usable(part)))
            yield done
        self._seal = self._key.seal(self._mechanisms, made, shape=(rows,), source=self._file)
        self.manifest = self._seal.manifest.metadata()

    def __iter__(self) -> Drawn:
        """The second pass, once it is reserved. Raises: FileError (the file has changed)."""
        sealed = self._ledger.reserve(self._seal, resume=self._resume)

        def draw(at: int, cells: list[Column]) -> list[Column]:
            return [
                sealed.release(at, column.usable(part), column=column.name, **column.options)
                for column, part in zip(self._columns, cells, strict=True)
            ]

        yield from results(self._table.pieces(), draw)
        if file_digest(self._table.path) != self._file:
            raise FileError(f"{self._table.path} has changed while it was read; OUT was not written")


def file_digest(path: Path) -> bytes:
    """A digest of all bytes of a file. It is private, as the bytes are."""
    found = blake3(max_threads=blake3.AUTO)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.digest()
