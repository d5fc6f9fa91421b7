# SPDX-License-Identifier: Apache-2.0
"""CSV files as sources: the text passes, and the chosen cells are read by the rules of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from blake3 import blake3

from dpfast.app.tables.csv_text import CsvText, Records
from dpfast.app.tables.source import (
    Column,
    Passing,
    PassingText,
    Piece,
    Wanted,
    divided,
    places,
    reading,
    reals,
    sorting,
)
from dpfast.app.tables.streams import PIPE, Form, size_of, states
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import ParameterError
from dpfast.noise.release.arrays import FLOAT64, INT64


class CsvSource:
    """A CSV file with a header line. In a table of another format its columns are strings."""

    notes: Sequence[str] = ()
    needed: Sequence[str] = ()
    earlier = None

    def __init__(self, path: Path, wanted: Wanted, style: TextFormat, form: Form) -> None:
        if path == PIPE and wanted.sort_by:
            raise ParameterError("IN must be a file for --sort-by, and not a pipe, which is read once")
        self.path, self.form, self.wanted, self.size = path, form, wanted, size_of(path)
        self._state = states([path])
        self.text = CsvText(path, style, form.codec)
        self.schema = pa.schema([(name, pa.string()) for name in self.text.names])
        # The message does not quote the line, because without a header it is a record.
        there = (
            f"a column's name is in the first line of {self.text.what}, the header, which has "
            f"{len(self.text.names)} field{'s' * (len(self.text.names) > 1)}{style.hint(self.text.header.decode('utf-8', 'replace'))}"
        )
        self.places = places(self.text.names, wanted.columns, there)
        self.chosen, self.passed = divided(self.text.names, self.places)
        self.sort_by = sorting(self.text.names, self.chosen, wanted.sort_by, there)
        self.dtypes = [wanted.dtype or (FLOAT64 if wanted.real else INT64) for _ in self.places]

    def pieces(self) -> Iterator[Piece]:
        done = 0
        with reading(self.path, self.form, [self.path], self._state):
            if self.sort_by:
                self.text.sort(self.sort_by)
            for records in self.text.records():
                cells = [self._cells(records, place) for place in self.places]
                yield Piece(self.text.done - done, cells, records, records.block)
                done = self.text.done

    def passing(self) -> Passing:
        return PassingText()

    def rest(self) -> bytes:
        """The header, and a style that is not a plain CSV's: it decides what is a field."""
        sealed = self.text.style.sealed()
        head = self.text.mark + self.text.header
        return blake3(sealed + self.text.codec.encode()).digest() + head if sealed else head

    def _cells(self, records: Records, place: int) -> Column:
        if not self.wanted.real:
            return records.counts(place, self.wanted.missing)
        return reals(f"column {self.text.names[place]!r} of {self.text.what}", records.reals(place), self.wanted)
