# SPDX-License-Identifier: Apache-2.0
"""Rows of files, read once and in batches: the columns that a histogram needs, and nothing else.

CSV, Parquet and Arrow IPC files, and folders of files of one format. A row is left out if its key,
its unit or its value is empty or null. Messages name files, columns and types, never a cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dpfast.app.tables.arrow_reader import ArrowFile
from dpfast.app.tables.csv_text import CsvText, Records
from dpfast.app.tables.domain import as_texts, cells_of, is_moment, is_text, numbers
from dpfast.app.tables.held import NO_MEMORY, check_width
from dpfast.app.tables.keys import A_DAY, UNITS, UNKNOWN, Bins, Key, missing
from dpfast.app.tables.readers import JsonLines, Parquet, ParquetFolder, check_whole
from dpfast.app.tables.source import cells_decide
from dpfast.app.tables.streams import PIPE, Form, form, states
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import DpfastError, FileError, ParameterError, UnusableValuesError
from dpfast.noise.release.arrays import INT64_ENDS, RealArray

BATCH = 1 << 17  # rows at a time
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999, in days from 1970
TICKS = {unit: A_DAY * 1000**i for i, unit in enumerate(UNITS)}  # in a day
TEXTS = ("CSV", "TSV")
TABLES = ("JSON lines", "Parquet", "Arrow")


class Columns(NamedTuple):
    """Which columns are read. unit: or None, if each row is one.

    value: the column of values, or None. takes: the option that names it. strip: leave out spaces
    around texts. null: texts of cells that are missing. unknown: a row without a key has the key
    UNKNOWN.
    """

    by: tuple[Key, ...]
    unit: str | None
    value: str | None
    takes: str = "--sum"
    strip: bool = False
    null: tuple[str, ...] = ()
    unknown: bool = False

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Each with the option that names it."""
        found = [("--by", key.column) for key in self.by]
        found += [("--unit", self.unit)] if self.unit is not None else []
        return found + ([(self.takes, self.value)] if self.value is not None else [])

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for _, name in self.asked))

    @property
    def numbers(self) -> list[str]:
        """Those that are read as numbers."""
        found = [key.column for key in self.by if isinstance(key.made, Bins)]
        return found + ([self.value] if self.value is not None else [])


class Batch(NamedTuple):
    """Rows that have all that is asked for. rows: how many. keys: a column for each of --by."""

    rows: int
    keys: list[pa.Array]
    units: pa.Array | None
    values: pa.Array | None


class Rows:
    """Files of rows that are open, with checked columns.

    format: theirs. real: whether values are of a type of real numbers; texts have none. kinds: the
    types of the keys. held: those that the columns of keys hold.
    """

    def __init__(self, path: Path, columns: Columns, style: TextFormat | None = None, given: str | None = None) -> None:
        """style: how texts are read. given: the format of what has no name for it.

        Raises: FileError, ParameterError (a column that is not there, twice there or no key).
        """
        self.path, self.columns, self.real = path, columns, False
        self.name = "standard input" if path == PIPE else path.name
        with _reading(path):
            files = _files(path)
        forms = [form(file, given) for file in files]
        self.format = _one_format(path, forms)
        with _reading(self.path):
            if path.is_dir() and self.format != "Parquet":  # whose reader looks itself
                check_whole(path, files)
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
                for key in columns.by:
                    if isinstance(key.made, Bins):
                        key.kind("--by", pa.field(key.column, pa.float64()))
                self.kinds: list[pa.DataType] = [pa.string()] * len(columns.by)
                self.held = self.kinds
                return
            self._tables = _opened(path, files, forms, style or TextFormat(), columns.numbers)
            with cells_decide(self.format):
                for table in self._tables:
                    check_width(path, len(table.schema))
                    self._check_schema(table.schema)
                _refuse_other_kinds(path, [table.schema for table in self._tables], columns)

    def _check_schema(self, schema: pa.Schema) -> None:
        columns = self.columns
        _places(schema.names, columns, f"there are {', '.join(map(repr, schema.names)) or 'none'}")
        self.held = [key.kind("--by", schema.field(key.column)) for key in columns.by]
        self.kinds = [pa.string()] * len(self.held) if columns.unknown else self.held
        if columns.unit is not None:
            _check_unit(schema.field(columns.unit))
        if columns.value is not None:
            self.real |= _real_values(columns.takes, schema.field(columns.value))
        held = [cells_of(schema.field(name).type) for name in columns.names]
        for text in columns.null:
            if not any(len(missing([text], kind)) for kind in held):
                raise ParameterError(f"--null must be what a column that is read can hold, got {text!r:.80}")

    @property
    def typed(self) -> bool:
        """Whether the format says of a column that it holds whole numbers."""
        return not self._texts and self.format != "JSON lines"

    def batches(self) -> Iterator[Batch]:
        """All rows that have a key, a unit and a value, in batches.

        Raises: FileError (a change of the files is said before what else it may have led to),
            UnusableValuesError.
        """
        for rows, cells in self._read():
            yield self._whole_rows(rows, cells)

    def batches_of_keys(self) -> Iterator[list[pa.Array]]:
        """The keys of all rows in batches, a column for each of --by, null where a row has none.

        Raises: as batches.
        """
        for _, cells in self._read():
            yield self._keys_of(cells)

    def _read(self) -> Iterator[tuple[int, dict[tuple[str, bool], pa.Array]]]:
        try:
            with _reading(self.path):
                yield from self._of_texts() if self._texts else self._of_tables()
        except DpfastError:
            self.must_be_the_same()
            raise

    def _keys_of(self, cells: Mapping[tuple[str, bool], pa.Array]) -> list[pa.Array]:
        return [self._keys(key, kind, cells) for key, kind in zip(self.columns.by, self.kinds, strict=True)]

    def _whole_rows(self, rows: int, cells: Mapping[tuple[str, bool], pa.Array]) -> Batch:
        columns = self.columns
        found = self._keys_of(cells)
        found += [] if columns.unit is None else [cells[columns.unit, False]]
        found += [] if columns.value is None else [cells[columns.value, True]]
        kept = pa.repeat(True, rows)
        for each in found:
            kept = pc.and_(kept, pc.is_valid(each))
        if not pc.all(kept).as_py():
            found = [each.filter(kept) for each in found]
        values = found.pop() if columns.value is not None else None
        units = found.pop() if columns.unit is not None else None
        return Batch(pc.sum(kept).as_py() or 0, found, units, values)

    def _keys(self, key: Key, kind: pa.DataType, cells: Mapping[tuple[str, bool], pa.Array]) -> pa.Array:
        column = cells[key.column, isinstance(key.made, Bins)]
        found = key.keys(column, f"column {key.column!r:.80} of {self.name}")
        if not self.columns.unknown:
            return found
        lacks = pc.is_null(column if isinstance(key.made, Bins) else found)  # a number outside all bins is known
        return pc.if_else(lacks, UNKNOWN, as_texts(found) if found.type != kind else found)

    def must_be_the_same(self) -> None:
        """Raises: FileError (a file that was written, or replaced, since it was opened)."""
        with suppress(FileError, OSError):
            if states(_files(self.path)) == self._state:
                return
        raise FileError(f"{self.path} has changed while it was read: nothing was charged, and OUT was not written")

    def _of_texts(self) -> Iterator[tuple[int, dict[tuple[str, bool], pa.Array]]]:
        """How many rows, and columns, null where a cell is missing: by name, and if as numbers."""
        columns = self.columns
        texts = {key.column for key in columns.by if not isinstance(key.made, Bins)} | {columns.unit} - {None}
        for text in self._texts:
            for records in text.records():
                cells = {}
                for name in columns.names:
                    place = text.names.index(name)
                    if name in columns.numbers:
                        cells[name, True] = _number(self._filled(pa.array(self._reals(records, place, name))))
                    if name in texts:
                        cells[name, False] = self._filled(_decoded(records, place, name))
                yield len(records.spans), cells

    def _reals(self, records: Records, place: int, name: str) -> RealArray:
        text = self._filled(_decoded(records, place, name)).fill_null("") if self.columns.null else None
        try:
            return records.reals(place, text)
        except UnusableValuesError as error:
            raise UnusableValuesError(f"{error}: --null says which texts are missing") from None

    def _of_tables(self) -> Iterator[tuple[int, dict[tuple[str, bool], pa.Array]]]:
        names, wanted = self.columns.names, self.columns.numbers
        for table in self._tables:
            for batch, _ in table.batches(BATCH, names or table.schema.names[:1]):
                plain = {name: self._filled(_plain(batch[name])) for name in names}
                numbers = {(name, True): _number(plain[name]) for name in wanted}
                yield batch.num_rows, {**{(name, False): cells for name, cells in plain.items()}, **numbers}

    def _filled(self, cells: pa.Array) -> pa.Array:
        """With nulls in place of empty and missing cells, and of moments that no text can write."""
        columns = self.columns
        if columns.strip and is_text(cells.type):
            cells = pc.utf8_trim_whitespace(cells)
        if len(none := missing(columns.null, cells.type)):
            cells = pc.if_else(pc.is_in(cells, value_set=none), None, cells)
        return _filled(cells)


Table: TypeAlias = JsonLines | ArrowFile | Parquet | ParquetFolder


def _opened(
    path: Path, files: Sequence[Path], forms: Sequence[Form], style: TextFormat, numbers: Sequence[str]
) -> Sequence[Table]:
    """The tables of a path, of one format: each has a schema, and batches of its columns."""
    if forms[0].format == "JSON lines":  # whose values are doubles, as those of a CSV: no row decides for others
        read_as = dict.fromkeys(numbers, pa.float64())
        return [JsonLines(file, of, style, read_as) for file, of in zip(files, forms, strict=True)]
    if path == PIPE:
        raise ParameterError(
            f"ROWS must be a file: {forms[0].format} cannot be read once from beginning to end, as - is"
        )
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
            raise FileError(f"{path} contains no files")
        return found
    if not path.exists():
        raise FileError(f"cannot read {path}: there is no such file")
    if not path.is_file():
        raise ParameterError(
            f"{path} is not a regular file: pass what a pipe or a device gives through standard input, as -"
        )
    return [path]


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _one_format(path: Path, forms: Sequence[Form]) -> str:
    found = sorted({each.format for each in forms})
    if len(found) > 1:
        raise ParameterError(f"{path} must contain files of one format, but contains {' and '.join(found)}")
    if found[0] not in {*TEXTS, *TABLES}:
        raise ParameterError(f"{path} must be a table of rows, which {found[0]} is not")
    return found[0]


def _places(names: Sequence[str], columns: Columns, there: str) -> None:
    """Raises: ParameterError (no such column, or several)."""
    for key in columns.by:
        if key.name in names and key.name != key.column and key.column in names:
            raise ParameterError(f"--by {key.name!r:.80} is a column, and made of {key.column!r:.80}, too: rename one")
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
        if name not in columns.numbers and len({cells_of(schema.field(name).type) for schema in schemas}) > 1:
            raise ParameterError(f"{option} {name!r:.80} must contain one kind of value in all files of {path}")


def _check_unit(field: pa.Field) -> None:
    kind = cells_of(field.type)
    if not (is_text(kind) or kinds.is_integer(kind)):
        hint = ": write it as whole numbers first" if kinds.is_floating(kind) else ""
        raise ParameterError(
            f"--unit {field.name!r:.80} must be a column of texts or whole numbers, but contains {field.type}{hint}"
        )


def _real_values(option: str, field: pa.Field) -> bool:
    """Raises: ParameterError (no numbers)."""
    kind = cells_of(field.type)
    if not (kinds.is_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)):
        raise ParameterError(
            f"{option} {field.name!r:.80} must be a column of whole numbers, float32 or float64, but contains {field.type}"
        )
    return bool(kinds.is_floating(kind))


def _decoded(records: Records, place: int, name: str) -> pa.Array:
    text = records.column(place)
    if records.quoted[:, place].any():
        text = pc.replace_substring(text, '""', '"')  # quotes inside are doubled, or were refused
    try:
        return text.cast(pa.string())
    except pa.ArrowInvalid:
        raise UnusableValuesError(
            f"column {name!r:.80} of {records.what} must be UTF-8: --encoding names another"
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
    day = 1 if kinds.is_date32(cells.type) else TICKS["ms" if kinds.is_date(cells.type) else cells.type.unit]
    begin, end = max(FIRST_DAY * day, INT64_ENDS[0]), min((LAST_DAY + 1) * day - 1, INT64_ENDS[1])
    return pc.greater_equal(numbers(cells), begin), pc.less_equal(numbers(cells), end)


def _number(cells: pa.Array) -> pa.Array:
    """Values, with nulls in place of NaN and infinities, which a text does not tell apart."""
    return pc.if_else(pc.is_finite(cells), cells, None) if kinds.is_floating(cells.type) else cells
