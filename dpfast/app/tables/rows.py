# SPDX-License-Identifier: Apache-2.0
"""Rows of files, read once and in batches: the columns that a histogram needs, and nothing else.

CSV, Parquet and Arrow IPC files, and folders of files of one format. A row is left out if its key,
its unit or its value is empty or null. Messages name files, columns and types, never a cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dpfast.app.tables.arrow_reader import ArrowFile
from dpfast.app.tables.csv_text import CsvText, Records
from dpfast.app.tables.domain import HELD, is_moment, is_text, numbers
from dpfast.app.tables.held import NO_MEMORY, check_width
from dpfast.app.tables.readers import JsonLines, Parquet, ParquetFolder
from dpfast.app.tables.source import cells_decide
from dpfast.app.tables.streams import PIPE, Form, form, states
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import DpfastError, FileError, ParameterError, UnusableValuesError
from dpfast.noise.release.arrays import INT64_ENDS

BATCH = 1 << 17  # rows at a time
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999, in days from 1970
A_DAY = {unit: 86_400 * 1000**i for i, unit in enumerate(("s", "ms", "us", "ns"))}
TEXTS = ("CSV", "TSV")
TABLES = ("JSON lines", "Parquet", "Arrow")


class Columns(NamedTuple):
    """The names of the columns that are read. value: what is summed, or None."""

    by: tuple[str, ...]
    unit: str
    value: str | None

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Each with the option that names it."""
        found = [*(("--by", name) for name in self.by), ("--unit", self.unit)]
        return found + ([("--sum", self.value)] if self.value is not None else [])

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.asked]


class Rows:
    """Files of rows that are open, with checked columns.

    format: theirs. kinds: the types of the keys.
    """

    def __init__(self, path: Path, columns: Columns, style: TextFormat | None = None, given: str | None = None) -> None:
        """style: how texts are read. given: the format of what has no name for it.

        Raises: FileError, ParameterError (a column that is not there, twice there or no key).
        """
        self.path, self.columns = path, columns
        self.name = "standard input" if path == PIPE else path.name
        with _reading(path):
            files = _files(path)
        forms = [form(file, given) for file in files]
        self.format = _one_format(path, forms)
        with _reading(self.path):
            self._state = states(files)
            self._texts: list[CsvText] = []
            self._tables: Sequence[Table] = ()
            if self.format in TEXTS:
                how = (style or TextFormat()).named(self.format)
                self._texts = [CsvText(file, how, of.codec) for file, of in zip(files, forms, strict=True)]
                for text in self._texts:
                    hint = how.hint(text.header.decode("utf-8", "replace"))
                    fields = f"{len(text.names)} field{'s' * (len(text.names) > 1)}{hint}"
                    _places(text.names, columns, f"the header of {text.what} has {fields}")
                self.kinds: list[pa.DataType] = [pa.string()] * len(columns.by)
                return
            self._tables = _opened(path, files, forms, style or TextFormat(), columns.value)
            with cells_decide(self.format):
                for table in self._tables:
                    check_width(path, len(table.schema))
                    self._check_schema(table.schema)
                _refuse_other_kinds(path, [table.schema for table in self._tables], columns)

    def _check_schema(self, schema: pa.Schema) -> None:
        columns = self.columns
        _places(schema.names, columns, f"there are {', '.join(map(repr, schema.names)) or 'none'}")
        self.kinds = [_kind_of_key(schema.field(name)) for name in columns.by]
        _check_unit(schema.field(columns.unit))
        if columns.value is not None:
            _check_value(schema.field(columns.value))

    def batches(self) -> Iterator[dict[str, pa.Array]]:
        """The columns by name, in batches: keys and units with nulls where a cell is empty.

        Raises: FileError (a change of the files is said before what else it may have led to),
            UnusableValuesError.
        """
        try:
            with _reading(self.path):
                for cells in self._of_texts() if self._texts else self._of_tables():
                    there = [pc.is_valid(cells[name]) for name in self.columns.names]
                    kept = there[0]
                    for each in there[1:]:
                        kept = pc.and_(kept, each)
                    yield cells if pc.all(kept).as_py() else {name: cell.filter(kept) for name, cell in cells.items()}
        except DpfastError:
            self.must_be_the_same()
            raise

    def must_be_the_same(self) -> None:
        """Raises: FileError (a file that was written, or replaced, since it was opened)."""
        with suppress(FileError, OSError):
            if states(_files(self.path)) == self._state:
                return
        raise FileError(f"{self.path} has changed while it was read: nothing was charged, and OUT was not written")

    def _of_texts(self) -> Iterator[dict[str, pa.Array]]:
        for text in self._texts:
            for records in text.records():
                cells = {}
                for name in self.columns.names:
                    place = text.names.index(name)
                    if name == self.columns.value:
                        cells[name] = _number(pa.array(records.reals(place)))
                    else:
                        cells[name] = _filled(_decoded(records, place, name))
                yield cells

    def _of_tables(self) -> Iterator[dict[str, pa.Array]]:
        names = self.columns.names
        for table in self._tables:
            for batch, _ in table.batches(BATCH, names):
                yield {
                    name: _number(batch[name]) if name == self.columns.value else _filled(_plain(batch[name]))
                    for name in names
                }


Table: TypeAlias = JsonLines | ArrowFile | Parquet | ParquetFolder


def _opened(
    path: Path, files: Sequence[Path], forms: Sequence[Form], style: TextFormat, value: str | None
) -> Sequence[Table]:
    """The tables of a path, of one format: each has a schema, and batches of its columns."""
    if forms[0].format == "JSON lines":  # whose values are doubles, as those of a CSV: no row decides for others
        numbers = {} if value is None else {value: pa.float64()}
        return [JsonLines(file, of, style, numbers) for file, of in zip(files, forms, strict=True)]
    if path == PIPE:
        raise ParameterError(f"ROWS must be a file: {forms[0].format} is not read from its begin to its end, as - is")
    if forms[0].format == "Arrow":
        return [ArrowFile(file, kept=False) for file in files]
    return [ParquetFolder(path) if path.is_dir() else Parquet(path)]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns errors of reading into ours, which quote no cell."""
    try:
        yield
    except DpfastError:
        raise
    except MemoryError:  # pyarrow's is an ArrowException, too
        raise FileError(f"cannot read {path}: {NO_MEMORY}") from None
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"cannot read {path}: {os.strerror(error.errno)}") from None
        what = "does not hold whole files of one schema" if path.is_dir() else "is not a whole file of its format"
        raise FileError(f"{path} {what}: damaged, cut short or misnamed") from None


def _files(path: Path) -> list[Path]:
    """The files of a path. Raises: FileError."""
    if path == PIPE:
        return [path]
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
        if not found:
            raise FileError(f"{path} holds no files")
        return found
    if not path.exists():
        raise FileError(f"cannot read {path}: there is no such file")
    if not path.is_file():
        raise ParameterError(f"{path} is no regular file: give what a pipe or a device gives to standard input, as -")
    return [path]


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _one_format(path: Path, forms: Sequence[Form]) -> str:
    found = sorted({each.format for each in forms})
    if len(found) > 1:
        raise ParameterError(f"{path} must hold files of one format, and holds {' and '.join(found)}")
    if found[0] not in {*TEXTS, *TABLES}:
        raise ParameterError(f"{path} must be a table of rows, which {found[0]} is not")
    return found[0]


def _places(names: Sequence[str], columns: Columns, there: str) -> None:
    """Raises: ParameterError (no such column, or several)."""
    for option, name in columns.asked:
        if name not in names:
            raise ParameterError(f"{option}: no column is named {name!r:.80}; {there:.500}")
    _refuse_doubled(names, columns)


def _refuse_doubled(names: Sequence[str], columns: Columns) -> None:
    for option, name in columns.asked:
        if list(names).count(name) > 1:
            raise ParameterError(f"{option} must name one column, and {list(names).count(name)} are named {name!r:.80}")


def _refuse_other_kinds(path: Path, schemas: Sequence[pa.Schema], columns: Columns) -> None:
    """Raises: ParameterError (a column holds one kind in a file, and another in the next)."""
    for option, name in columns.asked:
        if option != "--sum" and len({_value_kind(schema.field(name).type) for schema in schemas}) > 1:
            raise ParameterError(f"{option} {name!r:.80} must hold one kind of value in all files of {path}")


def _value_kind(kind: pa.DataType) -> pa.DataType:
    """That of the categories, where a column has these."""
    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    return pa.string() if kinds.is_string_view(kind) else kind


def _kind_of_key(field: pa.Field) -> pa.DataType:
    kind = _value_kind(field.type)
    if not (is_text(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or is_moment(kind)):
        raise ParameterError(f"--by {field.name!r:.80} must be a column of {HELD}, and holds {field.type}")
    try:
        pa.nulls(1, kind).cast(pa.string())
    except pa.ArrowInvalid:
        raise ParameterError(
            f"--by {field.name!r:.80} must be a column of times in a zone that is known, and holds {field.type}"
        ) from None
    return kind


def _check_unit(field: pa.Field) -> None:
    kind = _value_kind(field.type)
    if not (is_text(kind) or kinds.is_integer(kind)):
        hint = ": write it as whole numbers first" if kinds.is_floating(kind) else ""
        raise ParameterError(
            f"--unit {field.name!r:.80} must be a column of texts or whole numbers, and holds {field.type}{hint}"
        )


def _check_value(field: pa.Field) -> None:
    if not (kinds.is_integer(field.type) or kinds.is_float32(field.type) or kinds.is_float64(field.type)):
        raise ParameterError(
            f"--sum {field.name!r:.80} must be a column of whole numbers, float32 or float64, and holds {field.type}"
        )


def _decoded(records: Records, place: int, name: str) -> pa.Array:
    text = records.column(place)
    if records.quoted[:, place].any():
        text = pc.replace_substring(text, '""', '"')  # quotes inside are doubled, or were refused
    try:
        return text.cast(pa.string())
    except pa.ArrowInvalid:
        raise UnusableValuesError(
            f"column {name!r:.80} of {records.what} must be UTF-8: --encoding would name another"
        ) from None


def _plain(cells: pa.Array) -> pa.Array:
    """Without categories and views."""
    cells = cells.dictionary_decode() if kinds.is_dictionary(cells.type) else cells
    return cells.cast(pa.string()) if kinds.is_string_view(cells.type) else cells


def _filled(cells: pa.Array) -> pa.Array:
    """With nulls in place of empty texts, and of moments that no text can write."""
    if is_moment(cells.type):
        return pc.if_else(pc.and_(*_within_years(cells)), cells, None)
    return pc.if_else(pc.equal(cells, ""), None, cells) if is_text(cells.type) else cells


def _within_years(cells: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Which moments are not before the year 1, and which are not after 9999."""
    day = 1 if kinds.is_date32(cells.type) else A_DAY["ms" if kinds.is_date(cells.type) else cells.type.unit]
    begin, end = max(FIRST_DAY * day, INT64_ENDS[0]), min((LAST_DAY + 1) * day - 1, INT64_ENDS[1])
    return pc.greater_equal(numbers(cells), begin), pc.less_equal(numbers(cells), end)


def _number(cells: pa.Array) -> pa.Array:
    """Values, with nulls in place of NaN and infinities, which a text does not tell apart."""
    return pc.if_else(pc.is_finite(cells), cells, None) if kinds.is_floating(cells.type) else cells
