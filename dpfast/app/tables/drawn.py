# SPDX-License-Identifier: Apache-2.0
"""The noisy pieces of a file: fresh ones, or those of a sealed release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from blake3 import blake3

from dpfast.app.tables.in_blocks import in_threads, results, runs
from dpfast.errors import FileError, OtherInputError
from dpfast.noise.release.blocks import BLOCK

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.app.tables.source import Piece, Source

Column: TypeAlias = "npt.NDArray[Any]"
PASSING = {"passing": "values"}  # the term of a seal whose digest is of passing cells, not of the file

Drawn: TypeAlias = "Iterator[tuple[Piece, list[Column]]]"


class Cells(NamedTuple):
    """A column, its mechanism, and the options of its release."""

    name: str
    mechanism: Any
    options: Mapping[str, Any]
    dtype: np.dtype[Any] | None = None  # the noisy cells' type; None is the mechanism's

    def usable(self, cells: Column) -> Column:
        """Clamped integers are int64 in all pieces; a CSV has uint64 in some."""
        clamp = self.options["clamp"]
        if clamp and cells.dtype.kind in "iu":
            most = max(clamp[1], 0)
            cells = (np.minimum(cells, most) if cells.dtype == np.uint64 else cells).astype(np.int64, copy=False)
        return cells

    def release(self, cells: Column) -> Column:
        found: Column = self.mechanism.release(self.usable(cells), dtype=self.dtype, **self.options)
        return found


def fresh(
    table: Source,
    columns: list[Cells],
    pay: Callable[[], object] | None,
    threads: int,
    tried: Callable[[list[Piece]], object],
) -> Drawn:
    """pay: what a ledger does once two pieces are read, and columns without numbers are found out.

    So a file of one piece is read to its end, and what is wrong with it costs nothing. tried: tries
    to write these pieces before they are paid for.
    """

    def paid() -> Iterator[Piece]:
        pieces = table.pieces()
        first = list(islice(pieces, 2)) if pay is not None else []
        if pay is not None:
            tried(first)
            pay()
        yield from first
        yield from pieces

    def draw(piece: Piece) -> tuple[Piece, list[Column]]:
        return piece, [column.release(cells) for column, cells in zip(columns, piece.counts, strict=True)]

    return in_threads(draw, paid(), threads)


class Sealing:
    """A sealed release of a file, in two passes: digests, then noise. All columns are one seal."""

    def __init__(
        self,
        table: Source,
        columns: list[Cells],
        payer: Any,
        threads: int,
        tried: Callable[[list[Piece]], object],
    ) -> None:
        """payer: a ledger, a release key, and whether to resume; it is told when it has paid.

        threads: that digest and draw. tried: tries to write the first piece before it is paid for.
        """
        self._table, self._columns, self._payer, key = table, columns, payer, payer.key
        self._mechanisms = {each.name: each.mechanism for each in columns}
        self._digesters = [
            key.digester(
                each.mechanism, column=each.name, clamp=each.options.get("clamp"), missing=each.options.get("missing")
            )
            for each in columns
        ]
        key = key._naming({}, *[each.terms for each in self._digesters])  # noqa: SLF001  compared before much is read
        kept = payer.ledger._expected(key, self._mechanisms, resume=payer.resume, follows=PASSING)  # noqa: SLF001  the same
        self.again = kept is not None
        # A seal of an earlier version has a digest of the file, and is gone on with as it was.
        named = table.earlier is not None and (kept is None or PASSING.items() <= dict(kept.terms).items())
        self._terms = PASSING if named else {}
        self._key, self._threads, self._tried = key, threads, tried

    def digest(self) -> Iterator[float]:
        """The first pass; yields how many bytes of the file are done. Then there is a manifest."""

        def digests(run: tuple[int, list[Column]]) -> list[Any]:
            at, cells = run
            return [
                digester(at + j, block)
                for digester, column, part in zip(self._digesters, self._columns, cells, strict=True)
                for j, block in enumerate(_blocks(column.usable(part)))
            ]

        first = _Pass(self._table)

        def pieces() -> Iterator[Piece]:
            read = first.pieces()
            begin = list(islice(read, 1))
            self._tried(begin)
            yield from begin
            yield from read

        made: list[Any] = []
        for found in in_threads(digests, runs(pieces()), self._threads):
            made += found
            yield first.done
        self._passed = first.digest()
        earlier = None if self._terms else self._table.earlier
        source = self._passed if earlier is None else earlier()
        self._seal = self._key.seal(self._mechanisms, made, shape=(first.rows,), terms=self._terms, source=source)
        self.manifest = self._seal.manifest.metadata()

    def __iter__(self) -> Drawn:
        """The second pass, once it is reserved. Raises: FileError (the file has changed)."""
        sealed, second = self._payer.ledger.reserve(self._seal, resume=self._payer.resume), _Pass(self._table)
        self._payer.pays()
        changed = FileError(f"{self._table.path} has changed while it was read; OUT was not written")

        def draw(run: tuple[int, list[Column]]) -> list[Column]:
            (at, cells), drawn = run, []
            if at + len(cells[0]) // BLOCK > sealed.manifest.blocks():
                raise changed
            for column, part, kind in zip(self._columns, cells, self._table.dtypes, strict=True):
                noisy = np.empty(len(part), kind)
                for j, (block, out) in enumerate(zip(_blocks(column.usable(part)), _blocks(noisy), strict=True)):
                    sealed.release(at + j, block, column=column.name, out=out, **column.options)
                drawn.append(noisy)
            return drawn

        try:
            yield from results(second.pieces(), draw, self._threads)
        except OtherInputError:
            raise changed from None
        if second.digest() != self._passed:
            raise changed


class _Pass:
    """One reading of a file."""

    def __init__(self, table: Source) -> None:
        self._table, self._passing = table, table.passing()
        self.rows, self.done = 0, 0.0

    def pieces(self) -> Iterator[Piece]:
        for piece in self._table.pieces():
            self._passing.update(piece)
            self.rows += len(piece.counts[0])
            self.done += piece.weight
            yield piece

    def digest(self) -> bytes:
        """A private digest of all that OUT takes from the file, but for what the blocks hold."""
        return blake3(self._passing.digest() + self._table.rest()).digest()


def _blocks(column: Column) -> Iterator[Column]:
    """The blocks of a run."""
    return (column[begin : begin + BLOCK] for begin in range(0, len(column), BLOCK))
