# SPDX-License-Identifier: Apache-2.0
"""CSV as text (strictly RFC 4180): fields are found as bytes, and only chosen ones are replaced.

All other fields, their quotes and the line ends come out byte for byte. A parser would forget which
fields were quoted. Messages never tell the content or the place of a cell.
"""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.errors import FileError
from dpfast.release.arrays import CountArray, RealArray
from dpfast.tables.passed import in_order

Places: TypeAlias = npt.NDArray[np.int64]

BLOCK = 1 << 20  # bytes held at once; of short lines Python holds some thirty times as many
LONGEST_RECORD = 1 << 24  # bytes; a longer record is treated as a quote that was never closed
COMMA, QUOTE, NEWLINE, RETURN = b',"\n\r'
WHOLE = "^-?[0-9]+$"
REAL = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
ABSENT = "^(?i:nan|-?inf(inity)?)?$"  # or an empty field


class CsvText:
    """A CSV file with a header line, read in blocks of whole records."""

    def __init__(self, path: Path) -> None:
        self.path, self._sorted = path, b""
        with path.open("rb") as file:
            mark = BOM_UTF8 if file.read(len(BOM_UTF8)) == BOM_UTF8 else b""
            file.seek(len(mark))
            block, ends = next(self._blocks(file), (b"", np.zeros(0, np.int64)))
        if not block:
            raise FileError(f"{path} is empty: a CSV file needs a header line")
        width = 1 + int(np.argmax(np.frombuffer(block + b"\n", np.uint8)[ends] == NEWLINE))
        line = block[: ends[width - 1] + 1]
        fields = Records(path, [""] * width, line, ends[:width])
        self.header = mark + line
        self.names = [fields.column(i)[0].as_py().decode("utf-8", "backslashreplace") for i in range(width)]

    def records(self) -> Iterator[Records]:
        """Yield all records after the header, in blocks."""
        with io.BytesIO(self._sorted) if self._sorted else self.path.open("rb") as file:
            file.seek(0 if self._sorted else len(self.header))
            for block, ends in self._blocks(file):
                yield Records(self.path, self.names, block, ends)

    def sort(self, places: Sequence[int]) -> None:
        """Sort the records by their texts in these columns, byte by byte, in memory.

        Raises: ParameterError (two records with equal texts, which would keep their order of
            arrival).
        """
        end = b"\r\n" if self.header.endswith(b"\r\n") else b"\n"
        lines, texts = [], []
        for records in self.records():
            lines.append(records.lines(end))
            texts.append([records.column(place) for place in places])
        if lines:
            order = in_order([pa.chunked_array(list(column)) for column in zip(*texts, strict=True)])
            self._sorted = _joined(pa.concat_arrays(lines).take(pa.array(order)))

    def _blocks(self, file: IO[bytes]) -> Iterator[tuple[bytes, Places]]:
        """Yield bytes that are whole records, and the ends of their fields."""
        rest = b""
        while chunk := file.read(BLOCK):
            rest += chunk
            ends = self._field_ends(rest, final=False)
            if ends.size:
                stop = int(ends[-1]) + 1
                yield rest[:stop], ends
                rest = rest[stop:]
            elif len(rest) > LONGEST_RECORD:
                most = f"{LONGEST_RECORD >> 20} MiB"
                raise FileError(f"{self.path} holds a record of more than {most}: an unclosed quote?")
        if rest:
            yield rest, self._field_ends(rest, final=True)

    def _field_ends(self, data: bytes, *, final: bool) -> Places:
        text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
        quotes = text == QUOTE
        quoted = np.logical_xor.accumulate(quotes)
        ends = np.flatnonzero(((text == COMMA) | (text == NEWLINE)) & ~quoted)[1:]
        if final and quoted[-1]:
            raise FileError(f"{self.path} ends inside a quoted field: cut short?")
        if not final:
            ends = ends[ends <= len(data)]
            lines = np.flatnonzero(text[ends] == NEWLINE)
            ends = ends[: lines[-1] + 1 if lines.size else 0]
        # A stray quote would hide separators, and with them counts, which would then get no noise.
        stop = ends[-1] + 1 if ends.size else 0
        at = np.flatnonzero(quotes[:stop])
        beside = text[np.where(quoted[at], at - 1, at + 1)]
        returns = np.flatnonzero((text[:stop] == RETURN) & ~quoted[:stop])
        if not np.isin(beside, (COMMA, NEWLINE, RETURN, QUOTE)).all() or (text[returns + 1] != NEWLINE).any():
            raise FileError(f"{self.path} holds a quote or a carriage return where RFC 4180 allows none")
        return ends - 1


class Records:
    """Whole records of a CSV, and the place of each field's text between its quotes."""

    def __init__(self, path: Path, names: Sequence[str], block: bytes, ends: Places) -> None:
        width, text = len(names), np.frombuffer(block + b"\n", np.uint8)
        last = (np.arange(ends.size) + 1) % width == 0
        if ends.size % width or ((text[ends] == NEWLINE) != last).any():
            raise FileError(f"{path} must have as many fields in every row as in its header ({width})")
        starts, stops = np.concatenate(([0], ends[:-1] + 1)), ends - (last & (text[ends - 1] == RETURN))
        quoted = text[starts] == QUOTE
        self.path, self.names, self.block = path, names, block
        self.quoted = quoted.reshape(-1, width)
        self.spans = np.stack((starts + quoted, stops - quoted), -1).reshape(-1, width, 2)

    def column(self, place: int) -> pa.Array:
        """Return the fields of one column, as bytes."""
        return self._cut(self.spans[:, place].ravel())[::2]

    def counts(self, place: int) -> CountArray:
        """Return the fields of one column as int64, or as uint64 if they need it."""
        text, where = self.column(place), f"column {self.names[place]!r} of {self.path}"
        if not pc.all(pc.match_substring_regex(text, WHOLE)).as_py():
            raise FileError(
                f"{where} must hold whole numbers in plain digits: no empty cell, space, '+', '.' or 'e' (for real values "
                "there are laplace and gaussian)"
            )
        for kind in (pa.int64(), pa.uint64()):
            with suppress(pa.ArrowInvalid):
                counts: CountArray = text.cast(pa.string()).cast(kind).to_numpy()
                return counts
        raise FileError(f"{where} must hold numbers that fit in int64 or in uint64")

    def reals(self, place: int) -> RealArray:
        """Return the fields of one column as `float` reads them; empty ones as NaN."""
        text, where = self.column(place), f"column {self.names[place]!r} of {self.path}"
        absent = pc.match_substring_regex(text, ABSENT)
        if not pc.all(pc.or_(absent, pc.match_substring_regex(text, REAL))).as_py():
            raise FileError(f"{where} must hold decimal numbers such as -1.5 or 2e3: no space, '+' or comma")
        values: RealArray = pc.if_else(absent, b"nan", text).cast(pa.string()).cast(pa.float64()).to_numpy()
        return values

    @property
    def columns(self) -> list[pa.Array]:
        """All columns as strings, without their quotes."""
        columns = []
        for place in range(len(self.names)):
            try:
                text = self.column(place).cast(pa.string())
            except pa.ArrowInvalid:
                # The message does not quote its name, because without a header it is a cell.
                raise FileError(f"column {place + 1} of {self.path} must be UTF-8 to become another format") from None
            columns.append(pc.replace_substring(text, '""', '"'))  # quotes inside are doubled, or were refused
        return columns

    def spliced(self, places: Sequence[int], noisy: Sequence[CountArray | RealArray]) -> bytes:
        """Return the records with other numbers in the columns at `places`, which ascend.

        Reals are written as `repr` writes them. Their quotes go, because they would reveal a bit of
        the true cell.
        """
        cells = self.spans[:, places] + self.quoted[:, places, None] * np.array([-1, 1])
        kept = self._cut(np.concatenate(([0], cells.ravel(), [len(self.block)])))[::2]
        numbers = np.stack(noisy, -1).ravel()
        texts = pa.array(map(repr, numbers.tolist()), pa.string()) if numbers.dtype.kind == "f" else pa.array(numbers)
        texts = texts.cast(pa.string()).cast(pa.binary())
        records: bytes = _joined(pc.binary_join_element_wise(kept[:-1], texts, b"")) + kept[-1].as_py()
        return records

    def lines(self, end: bytes) -> pa.Array:
        """Return the records unchanged; if the last one has no line end, it gets `end`."""
        stops = np.append(self.spans[1:, 0, 0] - self.quoted[1:, 0], len(self.block))
        lines = self._cut(np.append(0, stops))
        if self.block.endswith(b"\n"):
            return lines
        return pa.concat_arrays([lines[:-1], pa.array([lines[-1].as_py() + end])])

    def _cut(self, points: Places) -> pa.Array:
        offsets, block = pa.py_buffer(points.astype(np.int32)), pa.py_buffer(self.block)
        return pa.Array.from_buffers(pa.binary(), points.size - 1, [None, offsets, block])


def _joined(texts: pa.Array) -> bytes:
    _, ends, data = texts.buffers()
    end = int(np.frombuffer(ends, np.int32)[len(texts)]) if len(texts) else 0
    return bytes(data[:end]) if end else b""
