# SPDX-License-Identifier: Apache-2.0
"""CSV as text (strictly RFC 4180): fields are found as bytes, and only chosen ones are replaced.

All other fields, their quotes and the line ends come out byte for byte. A parser would forget which
fields were quoted. Messages never tell the content or the place of a cell.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.app.tables import numbers
from dpfast.app.tables.held import check_width
from dpfast.app.tables.passed import check_sortable, in_order
from dpfast.app.tables.streams import PIPE, opened
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import FileError, UnusableValuesError
from dpfast.noise.release.arrays import CountArray, RealArray

Places: TypeAlias = npt.NDArray[np.int64]

BLOCK = 1 << 20  # bytes held at once; of short lines Python holds some thirty times as many
LONGEST_RECORD = 1 << 24  # bytes; a longer record is treated as a quote that was never closed
QUOTE, NEWLINE, RETURN = b'"\n\r'
PLAIN = TextFormat(",")


class CsvText:
    """A CSV file with a header line, read in blocks of whole records.

    mark, codec: the byte order mark, and the codec of the text. header: the first line, in UTF-8.
    """

    def __init__(self, path: Path, style: TextFormat = PLAIN, packed: str | None = None) -> None:
        """packed: the codec that packs the file, if one does."""
        self.path, self.style, self._packed, self._sorted = path, style, packed, b""
        self.done = 0  # bytes of the file that are read
        blocks = self._file_blocks()
        block, ends = next(blocks, (b"", np.zeros(0, np.int64)))
        if not block:
            raise FileError(f"{self.what} is empty: a CSV file needs a header line")
        width = 1 + int(np.argmax(np.frombuffer(block + b"\n", np.uint8)[ends] == NEWLINE))
        check_width(self.what, width)
        self.header = block[: ends[width - 1] + 1]
        fields = Records(self, [""] * width, self.header, ends[:width])
        names = [fields.column(i)[0].as_py().decode("utf-8", "backslashreplace") for i in range(width)]
        self.names = [name.replace('""', '"') if fields.quoted[0, i] else name for i, name in enumerate(names)]
        self._begun = _chained((block, ends), blocks) if path == PIPE else None  # a pipe is read once

    @property
    def what(self) -> str:
        return "standard input" if self.path == PIPE else str(self.path)

    def records(self) -> Iterator[Records]:
        """Yield all records after the header, in blocks."""
        if self._sorted:
            found = self._blocks(io.BytesIO(self._sorted).read)
        else:
            found = self._behind_header(self._begun or self._file_blocks())
        for block, ends in found:
            yield Records(self, self.names, block, ends)

    def encoded(self, text: bytes) -> bytes:
        """Text of this file, or noisy records of it, as the file has it."""
        return text if self.codec == "utf-8" else text.decode().encode(self.codec)

    def sort(self, places: Sequence[int]) -> None:
        """Sort the records by their texts in these columns, byte by byte, in memory.

        Raises: ParameterError (two records with equal texts, which would keep their order of
            arrival).
        """
        end = b"\r\n" if self.header.endswith(b"\r\n") else b"\n"
        lines, texts, size = [], [], len(self.header)
        for records in self.records():
            size += len(records.block)  # as it is unpacked
            check_sortable(size)
            lines.append(records.lines(end))
            texts.append([records.column(place) for place in places])
        if lines:
            order = in_order([pa.chunked_array(list(column)) for column in zip(*texts, strict=True)])
            self._sorted = _joined(pa.concat_arrays(lines).take(pa.array(order)))

    def _file_blocks(self) -> Iterator[tuple[bytes, Places]]:
        with opened(self.path, self._packed) as file:
            self.mark, self.codec, read = self.style.decoded(file, self.path)
            for found in self._blocks(read):
                self.done = file.position()
                yield found

    def _behind_header(self, blocks: Iterator[tuple[bytes, Places]]) -> Iterator[tuple[bytes, Places]]:
        size, width = len(self.header), len(self.names)
        block, ends = next(blocks, (b"", np.zeros(0, np.int64)))
        if block[:size] != self.header:
            raise FileError(f"{self.what} has changed while it was read; OUT was not written")
        if block[size:]:
            yield block[size:], ends[width:] - size
        yield from blocks

    def _blocks(self, read: Callable[[int], bytes]) -> Iterator[tuple[bytes, Places]]:
        """Yield bytes that are whole records, and the ends of their fields."""
        rest = b""
        while chunk := read(BLOCK):
            rest += chunk
            ends = self._field_ends(rest, final=False)
            if ends.size:
                stop = int(ends[-1]) + 1
                yield rest[:stop], ends
                rest = rest[stop:]
            elif len(rest) > LONGEST_RECORD:
                most = f"{LONGEST_RECORD >> 20} MiB"
                raise UnusableValuesError(f"{self.what} contains a record of more than {most}: an unclosed quote?")
        if rest:
            yield rest, self._field_ends(rest, final=True)

    def _field_ends(self, data: bytes, *, final: bool) -> Places:
        text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
        quotes, comma = text == QUOTE, ord(self.style.delimiter or ",")
        quoted = np.logical_xor.accumulate(quotes)
        ends = np.flatnonzero(((text == comma) | (text == NEWLINE)) & ~quoted)[1:]
        if final and quoted[-1]:
            raise UnusableValuesError(f"{self.what} ends inside a quoted field: cut short?")
        if not final:
            ends = ends[ends <= len(data)]
            lines = np.flatnonzero(text[ends] == NEWLINE)
            ends = ends[: lines[-1] + 1 if lines.size else 0]
        # A stray quote would hide separators, and with them counts, which would then get no noise.
        stop = ends[-1] + 1 if ends.size else 0
        at = np.flatnonzero(quotes[:stop])
        beside = text[np.where(quoted[at], at - 1, at + 1)]
        returns = np.flatnonzero((text[:stop] == RETURN) & ~quoted[:stop])
        if not np.isin(beside, (comma, NEWLINE, RETURN, QUOTE)).all() or (text[returns + 1] != NEWLINE).any():
            raise UnusableValuesError(f"{self.what} contains a quote or a carriage return where RFC 4180 allows none")
        return ends - 1


class Records:
    """Whole records of a CSV, and the place of each field's text between its quotes."""

    def __init__(self, source: CsvText, names: Sequence[str], block: bytes, ends: Places) -> None:
        width, text = len(names), np.frombuffer(block + b"\n", np.uint8)
        last = (np.arange(ends.size) + 1) % width == 0
        if ends.size % width or ((text[ends] == NEWLINE) != last).any():
            raise UnusableValuesError(
                f"{source.what} must have as many fields in every row as in its header ({width}), and no blank line"
            )
        starts, stops = np.concatenate(([0], ends[:-1] + 1)), ends - (last & (text[ends - 1] == RETURN))
        quoted = text[starts] == QUOTE
        self.what, self.style, self.names, self.block = source.what, source.style, names, block
        self.quoted = quoted.reshape(-1, width)
        self.spans = np.stack((starts + quoted, stops - quoted), -1).reshape(-1, width, 2)

    def column(self, place: int) -> pa.Array:
        """Return the fields of one column, as bytes."""
        return self._cut(self.spans[:, place].ravel())[::2]

    def counts(self, place: int, missing: int | None = None) -> CountArray:
        """Return the fields of one column as int64, or as uint64 if they need it."""
        return numbers.counts(self.column(place), self._where(place), self.style, missing)

    def reals(self, place: int, text: pa.Array | None = None) -> RealArray:
        """Return the fields of one column as `float` reads them; empty ones as NaN.

        text: what is read in their place.
        """
        return numbers.reals(self.column(place) if text is None else text, self._where(place), self.style)

    def _where(self, place: int) -> str:
        return f"column {self.names[place]!r} of {self.what}"

    @property
    def columns(self) -> list[pa.Array]:
        """All columns as strings, without their quotes."""
        columns = []
        for place in range(len(self.names)):
            try:
                text = self.column(place).cast(pa.string())
            except pa.ArrowInvalid:
                # The message does not quote its name, because without a header it is a cell.
                raise FileError(
                    f"column {place + 1} of {self.what} must be UTF-8 to become another format: --encoding would name "
                    "another, such as latin-1"
                ) from None
            columns.append(pc.replace_substring(text, '""', '"'))  # quotes inside are doubled, or were refused
        return columns

    def spliced(self, places: Sequence[int], noisy: Sequence[CountArray | RealArray]) -> bytes:
        """Return the records with other numbers in the columns at `places`, which ascend.

        Reals are written as `repr` writes them. Their quotes go, because they would reveal a bit of
        the true cell.
        """
        cells = self.spans[:, places] + self.quoted[:, places, None] * np.array([-1, 1])
        kept = self._cut(np.concatenate(([0], cells.ravel(), [len(self.block)])))[::2]
        values = np.stack(noisy, -1).ravel()
        texts = pa.array(map(repr, values.tolist()), pa.string()) if values.dtype.kind == "f" else pa.array(values)
        texts = texts.cast(pa.string())
        if values.dtype.kind == "f":
            texts = pc.replace_substring(texts, ".", self.style.point)
            if self.style.delimiter == self.style.point:
                texts = pc.binary_join_element_wise('"', texts, '"', "")
        texts = texts.cast(pa.binary())
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


def _chained(first: tuple[bytes, Places], others: Iterator[tuple[bytes, Places]]) -> Iterator[tuple[bytes, Places]]:
    yield first
    yield from others
