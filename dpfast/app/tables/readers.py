# SPDX-License-Identifier: Apache-2.0
"""Files of tables as batches: Parquet, folders of it, JSON lines (Arrow: arrow_reader.py)."""

from __future__ import annotations

import io
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson
import pyarrow.parquet as pq

from dpfast.app.tables.held import in_parts, rows_held, texts_of
from dpfast.app.tables.streams import PIPE, Form, opened, what_is
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import FileError, ParameterError, UnusableValuesError

Batches: TypeAlias = "Iterator[tuple[pa.RecordBatch, float]]"

DEEPEST = 64  # levels of a JSON value
LONGEST = 1 << 22  # bytes of a line; pyarrow takes fewer
NO_OBJECT = re.compile(rb"^[ \t\r]*[^{ \t\r\n]", re.MULTILINE)
QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
OPENING, CLOSING, NEWLINE = list(b"[{"), list(b"]}"), ord("\n")
LOOK = 1 << 20  # bytes of JSON lines that say which keys there are, and of which kind


class Reader(Protocol):
    """A table on disk.

    codec: what Parquet packs its columns with. paths: the files, in the order of their rows.
    """

    schema: pa.Schema
    codec: str
    paths: list[Path]

    @property
    def copy(self) -> mmap.mmap | None:
        """What is read instead of the file, if anything is."""

    def batches(self, rows: int, columns: list[str] | None = None) -> Batches:
        """Batches of at most so many rows, each with its share of all. columns: only these."""


class Parquet:
    """A Parquet file, open only while it is read: a folder may hold thousands."""

    copy = None

    def __init__(self, path: Path) -> None:
        self.paths, self.codec = [path], "snappy"
        with self._open() as file:
            self.schema, self.rows = file.schema_arrow, file.metadata.num_rows
            if self.rows != sum(file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)):
                raise ValueError("its metadata contradict themselves")  # the words are for source.reading
            if file.num_row_groups and file.metadata.num_columns:
                # A query for damaged metadata of a column ends the process. A read of the column
                # refuses them.
                first = file.metadata.schema.column(0).path
                next(file.iter_batches(1, row_groups=[0], columns=[first]), None)
                codec = file.metadata.row_group(0).column(0).compression.lower()
                self.codec = {"uncompressed": "none", "lz4_raw": "lz4", "lzo": "snappy"}.get(codec, codec)

    def batches(self, rows: int, columns: list[str] | None = None) -> Batches:
        left = self.rows
        with self._open() as file, self._open(texts_of(file)) as coded:
            if not file.schema_arrow.equals(self.schema):  # columns go by their places
                raise FileError(f"{what_is(self.paths[0])} has changed while it was read; OUT was not written")
            for batch in file.iter_batches(rows_held(file, coded, rows, columns), columns=columns):
                batch.validate(full=True)  # texts may be no UTF-8
                left -= batch.num_rows
                for part in in_parts(batch, rows):
                    yield part, part.num_rows / self.rows
        if left:  # pyarrow ends a column early, without a word
            raise ValueError("it holds fewer rows than it says")

    def _open(self, coded: Sequence[str] = ()) -> pq.ParquetFile:
        return pq.ParquetFile(self.paths[0], pre_buffer=False, buffer_size=1 << 20, read_dictionary=list(coded))


class ParquetFolder:
    """A folder of Parquet files, in the order of their paths; `key=value` folders are columns."""

    copy = None

    def __init__(self, path: Path) -> None:
        import pyarrow.dataset as ds

        if (path / "_delta_log").exists() or any(path.glob("metadata/*.metadata.json")):
            raise ParameterError(
                f"{path} is a Delta or Iceberg table, whose log says which files count: export its rows"
            )
        try:
            found = ds.dataset(path, format="parquet", partitioning="hive")
        except MemoryError:
            raise
        except pa.ArrowException:  # its message tells values
            raise FileError(
                f"{path} must have one column of each name and type, in its files and their folders"
            ) from None
        fragments = sorted(found.get_fragments(), key=lambda each: each.path)
        if not fragments:
            raise ParameterError(f"{path} contains no Parquet file")
        self.paths = [Path(each.path) for each in fragments]
        check_whole(path, self.paths)
        self._files = [Parquet(each) for each in self.paths]
        first = self._files[0]
        self.rows, self.codec, self._inner = sum(each.rows for each in self._files), first.codec, first.schema
        if any(not each.schema.equals(self._inner) for each in self._files):
            raise FileError(
                f"{path} must contain files of one schema: the same columns, of the same types, in the same order"
            )
        self._keys = [ds.get_partition_keys(each.partition_expression) for each in fragments]
        names = list(self._keys[0])
        if any(list(keys) != names for keys in self._keys):
            raise FileError(f"{path} must contain its files at one depth, in folders of the same keys")
        if twice := set(names) & set(self._inner.names):
            raise FileError(
                f"{path} must have one column of each name, in its files and their folders, and {min(twice)!r} is in both"
            )
        self.schema = self._inner
        for name in names:
            self.schema = self.schema.append(pa.field(name, found.schema.field(name).type))

    def batches(self, rows: int, columns: list[str] | None = None) -> Batches:
        inner = None if columns is None else [name for name in columns if name in self._inner.names]
        for file, keys in zip(self._files, self._keys, strict=True):
            for batch, _ in file.batches(rows, inner):
                made = list(batch.columns)
                schema = batch.schema
                for name, value in keys.items():
                    if columns is None or name in columns:
                        kind = self.schema.field(name).type
                        made.append(
                            pa.array([value], kind).take(pa.array([0]).take(pa.nulls(0, pa.int64())))
                            if not len(batch)
                            else pa.repeat(pa.scalar(value, kind), len(batch))
                        )
                        schema = schema.append(self.schema.field(name))
                yield pa.RecordBatch.from_arrays(made, schema=schema), batch.num_rows / self.rows


def check_whole(folder: Path, files: Sequence[Path]) -> None:
    """Each file is there once: a row that a link shows twice would get noise twice, for one price.

    Raises: FileError (so it is not, or a link leads nowhere, or something is no regular file).
    """
    places = [file.stat() for file in files]
    if len({(each.st_dev, each.st_ino) for each in places}) < len(files):
        raise FileError(f"{folder} must contain each file once, and links show one twice: take them out")
    for each in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in each.relative_to(folder).parts)
        if not hidden and not each.is_file() and not each.is_dir():
            raise FileError(f"{folder} must contain files alone, and {each.name!r:.80} is a link to nothing, or a pipe")


class JsonLines:
    """Objects, one a line. The first lines say which keys there are, and of which kind.

    Whatever is refused may be so for a private cell: nobody can tell where pyarrow failed.
    """

    codec, copy = "snappy", None

    def __init__(
        self, path: Path, form: Form, style: TextFormat, numbers: Mapping[str, pa.DataType] | None = None
    ) -> None:
        """numbers: the kinds as which columns of private numbers are read, whatever these are."""
        self.path, self.paths, self._form, self._style = path, [path], form, style
        texts = self._texts()
        first = next(texts)
        self._begun = _Joined(first, texts) if path == PIPE else None  # which is read once; a file is closed
        with _one_shape(path):
            schema = pajson.read_json(io.BytesIO(first)).schema if first.strip() else pa.schema([])
        if not schema.names:
            raise UnusableValuesError(
                f'{what_is(path)} is empty: a line must be an object such as {{"city": "Oslo", "n": 7}}'
            )
        kinds = numbers or {}
        self.schema = pa.schema([field.with_type(_read_as(field, kinds.get(field.name))) for field in schema])

    def batches(self, rows: int, columns: list[str] | None = None) -> Batches:
        texts = self._begun or _Joined(b"", self._texts())
        options = pajson.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="error")
        with _one_shape(self.path):
            stream = pa.PythonFile(texts, "r")
            for batch in pajson.open_json(stream, pajson.ReadOptions(block_size=LOOK), options):
                batch.validate(full=True)  # it may hold bytes that are no UTF-8
                found = batch if columns is None else batch.select(columns)
                for part in in_parts(found, rows):
                    yield part, 0.0

    def _texts(self) -> Iterator[bytes]:
        """The text in UTF-8, first some whole lines, then the rest."""
        with opened(self.path, self._form.codec) as file:
            _, _, read = self._style.decoded(file, self.path)
            rest = b""
            while more := read(LOOK):
                rest += more
                if end := rest.rfind(b"\n") + 1:
                    text, rest = rest[:end], rest[end:]
                    _refuse_odd(self.path, text)
                    yield text
                elif len(rest) > LONGEST:
                    raise UnusableValuesError(
                        f"{what_is(self.path)} must contain an object a line, of at most {LONGEST >> 20} MiB"
                    )
            _refuse_odd(self.path, rest)
            yield rest


def _refuse_odd(path: Path, lines: bytes) -> None:
    """Refuse what ends the process within pyarrow: null instead of an object, and deep nesting.

    Raises: UnusableValuesError.
    """
    if NO_OBJECT.search(lines):
        raise UnusableValuesError(f"{what_is(path)} must contain an object a line, and a line begins with no brace")
    if _flat(lines):
        return
    text = np.frombuffer(QUOTED.sub(b"", lines) + b"\n", np.uint8)
    depth = (np.isin(text, OPENING).astype(np.int32) - np.isin(text, CLOSING)).cumsum()
    if depth.min() < 0 or depth[text == NEWLINE].any():  # pyarrow goes on in the next line
        raise UnusableValuesError(
            f"{what_is(path)} must contain an object a line, and a line ends within one, or behind it"
        )
    if depth.max() > DEEPEST:
        raise UnusableValuesError(f"{what_is(path)} must contain objects and lists of at most {DEEPEST} levels")


def _flat(lines: bytes) -> bool:
    """Whether no line has a list, or two braces of one kind, be they text.

    Then no line closes more than it opens, so that nothing deep, whatever is text, is ever closed.
    """
    text = np.frombuffer(lines + b"\n", np.uint8)
    ends = np.flatnonzero(text == NEWLINE)
    braces = (np.searchsorted(np.flatnonzero(text == brace), ends) for brace in b"{}")
    return b"[" not in lines and all((np.diff(each, prepend=0) < 2).all() for each in braces)


class _Joined(io.RawIOBase):
    """Texts one after another, as a file."""

    def __init__(self, first: bytes, others: Iterator[bytes]) -> None:
        self._held, self._others = first, others

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._held:
            text = next(self._others, None)
            if text is None:
                return b""
            self._held = text
        found, self._held = self._held[:size], self._held[size:]
        return found


def _read_as(found: pa.Field, number: pa.DataType | None) -> pa.DataType:
    """The kind as which a column is read. number: that of its numbers, if it has a public one."""
    kind = _kept(found.type)
    if number is None or kind == pa.string() or (kind == pa.float64() and number == pa.int64()):
        return kind  # counts may be written as texts, or as 5.0
    return number


def _kept(kind: pa.DataType) -> pa.DataType:
    """Dates stay the texts that they are."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_kept(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_kept(field.type)) for field in kind])
    return kind


@contextmanager
def _one_shape(path: Path) -> Iterator[None]:
    """Turns pyarrow's message, which quotes keys and cells, into the rule."""
    try:
        yield
    except pa.ArrowInvalid:
        raise UnusableValuesError(
            f"{what_is(path)} must contain an object a line, all with the keys, once each, and the kinds of value of "
            "the first lines; its end may be missing, too"
        ) from None
