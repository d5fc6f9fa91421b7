# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: sealed releases of what a query gives, with the verbs of dpfast.engines.jobs.

    from dpfast.engines import postgres as dp
    rows = dp.Rows(psycopg.connect("service=visits"), "SELECT patient, ward FROM visits")
    counts = dp.bounded_counts(rows, unit="patient", by="ward", domain=wards, max_partitions=10,
                               max_per_partition=1, key=key, stage="private/visits")
    dp.release(counts, mechanism, key=key, ledger=ledger, to="public/visits", resume=True)
    dp.load("public/visits", connection, "noisy_visits")

And of a query of exact counts by public key, as a dataset of Arrow:

    noisy = dp.release(dp.Rows(connection, "TABLE towns"), mechanism, by="town", column="people",
                       key=key, ledger=ledger, stage="private/towns", to="public/towns")

A query runs once, in a read-only transaction with one snapshot, and its rows come by COPY. Nothing
is written to the database but by `load`, which writes what is public.
"""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import csv, fs

from dpfast.adapters import library
from dpfast.engines import jobs
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.keys import sort, uniform
from dpfast.engines.jobs.plan import Plan
from dpfast.engines.jobs.tasks import quiet
from dpfast.engines.jobs.verbs import MANIFEST
from dpfast.errors import DTypeError, FileError, ParameterError

psycopg = library("psycopg", "postgres", ">=3.2")

__all__ = ["Queries", "Rows", "bounded_counts", "counted", "load", "release", "verify"]
ROWS, BYTES = 1 << 18, 1 << 24  # in a batch
# Types by their numbers in every database. Their texts are exact under the settings below.
TYPES = {21: pa.int16(), 23: pa.int32(), 20: pa.int64(), 25: pa.large_string(), 1043: pa.large_string(), 700: pa.float32(), 701: pa.float64()}  # fmt: skip
CASTS = {"numeric": "CAST({} AS bigint)", "oid": "CAST({} AS bigint)", "bytea": "encode({}, 'hex')"}
KINDS = {pa.int64(): "bigint", pa.uint64(): "numeric(20,0)", pa.large_string(): "text"}  # what columns an output has
COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)
SETTINGS = "SET LOCAL client_encoding = 'UTF8'; SET LOCAL extra_float_digits = 3; SET TRANSACTION READ ONLY"
ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


def __dir__() -> list[str]:
    return __all__


class Rows:
    """The rows of a query.

    connection: of psycopg. Outside a transaction the query has one of its own, and leaves none; a
        transaction that is begun must be REPEATABLE READ or SERIALIZABLE, and stays as it is.
    query: SELECT, VALUES or TABLE, without a semicolon: a text, or what psycopg.sql composes.
    """

    def __init__(self, connection: Any, query: Any) -> None:
        """Raises: DTypeError."""
        if not isinstance(connection, psycopg.Connection):
            raise DTypeError(f"connection must be a Connection of psycopg, not {type(connection).__name__}")
        if not isinstance(query, (str, psycopg.sql.Composable)):
            raise DTypeError(f"query must be a text, or of psycopg.sql, not {type(query).__name__}")
        self.connection, self.query = connection, query

    def __repr__(self) -> str:
        return "<Rows of PostgreSQL>"


class Queries(jobs.Tables):
    """The engine: this process, with rows that PostgreSQL copies to it in batches.

    shards: as of OutOfCore. push_down: whether the server groups the rows, and sends no more of a
        unit and key than `max_per_partition`; it changes no result.
    """

    def __init__(self, shards: int = 64, push_down: bool = False) -> None:
        super().__init__(shards)
        if not isinstance(push_down, bool):
            raise DTypeError(f"push_down must be True or False, not {type(push_down).__name__}")
        self._push_down = push_down

    @classmethod
    def bounded_counts(cls, rows: Any, *, shards: int = 64, push_down: bool = False, **terms: Any) -> jobs.Counts:
        """`dpfast.engines.jobs.bounded_counts` of a query, which runs once.

        shards: in how many parts units are counted. A part must fit the memory, some 60 bytes a
            row; it changes no result. push_down: whether the server groups the rows first. It pays
            where a unit has many rows in a key; where it has few, the server sorts for nothing.
        Raises: as that; ParameterError (push_down of sums, or with max_contributions, which choose
            among all rows).
        """
        return jobs.bounded_counts(rows, engine=cls(shards, push_down), **terms)

    def schema(self, rows: Any) -> pa.Schema:
        if not isinstance(rows, Rows):
            raise DTypeError(f"rows must be a query, Rows(connection, query), not {type(rows).__name__}")
        with _reading(rows) as ask:
            return _schema(rows, ask)

    def batches(self, rows: Any, columns: list[str]) -> Iterable[pa.Table]:
        return _read(rows, columns)

    def ordered(self, rows: Any, columns: list[str], keys: int) -> Iterable[pa.Table]:
        """Texts by their bytes in UTF-8, whatever their collation, encoding or enum."""
        schema = self.schema(rows)
        of = {name: _quoted(name) for name in columns[:keys]}
        of |= {
            name: f"convert_to(CAST({_quoted(name)} AS text), 'UTF8')"
            for name in of
            if not pa.types.is_integer(schema.field(name).type)
        }
        return _read(rows, columns, "ORDER BY " + ", ".join(f"{each} ASC NULLS FIRST" for each in of.values()))

    def freeze(self, rows: Any, bound: jobs.Bound, freeze: jobs.Freeze) -> Iterable[tuple[int, str]]:
        return super().freeze(_grouped(rows, bound.plan) if self._push_down else rows, bound, freeze)

    def reader(self, rows: Any) -> Callable[[list[str]], Any]:  # noqa: ARG002  files, and no query
        return partial(ds.dataset, format="parquet", filesystem=fs.LocalFileSystem())


bounded_counts, counted = Queries.bounded_counts, Queries.counted
release, verify = Queries.release, Queries.verify


# ------------------------------------------------------------------ transactions


@contextmanager
def _reading(rows: Rows) -> Iterator[Callable[..., Any]]:
    """One snapshot, and what asks within it: settings and all else are undone at the end.

    Raises: ParameterError (a connection that cannot give one), DTypeError (as _told).
    """
    connection = rows.connection
    own = _idle(connection)
    with quiet(_told), connection.transaction(force_rollback=True):
        ask = _asking(connection)
        if own:
            ask(ONE_SNAPSHOT)
        elif _one(ask("SHOW transaction_isolation")) not in ("repeatable read", "serializable"):
            raise ParameterError(
                "rows must be read outside a transaction, or in one with one snapshot, and their connection is in one that is "
                "READ COMMITTED: commit it, or begin it with connection.isolation_level = IsolationLevel.REPEATABLE_READ"
            )
        ask(SETTINGS)
        yield ask


def _asking(connection: Any) -> Callable[..., Any]:
    """What executes statements, and prepares none, whatever the connection does by itself."""
    cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
    return partial(cursor.execute, prepare=False)


def _idle(connection: Any) -> bool:
    """Whether a connection is in no transaction. Raises: ParameterError (it cannot be asked)."""
    status = connection.info.transaction_status
    if connection.closed:
        raise ParameterError("connection must be open, and was closed or lost")
    if status == psycopg.pq.TransactionStatus.INERROR:
        raise ParameterError("connection must be in no transaction that has failed: roll it back first")
    if connection.info.pipeline_status or status == psycopg.pq.TransactionStatus.ACTIVE:
        raise ParameterError("connection must be free: it is in a pipeline, or another query runs")
    return bool(status == psycopg.pq.TransactionStatus.IDLE)


def _told(error: Exception) -> DTypeError:
    """By its kind: what PostgreSQL says of an error may hold values."""
    return DTypeError(f"rows cannot be read: {type(error).__name__} of PostgreSQL")


# ------------------------------------------------------------------ queries


class Other(pa.ExtensionType):  # type: ignore[misc]  # pyarrow ships no types
    """A type that no column of a job has. cast: what a query writes for a key or a unit instead."""

    def __init__(self, name: str, cast: str) -> None:
        self._name, self.cast = name, cast
        super().__init__(pa.null(), "dpfast.postgres")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps([self._name, self.cast]).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, _: pa.DataType, written: bytes) -> Other:
        return cls(*json.loads(written))

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return self._name


def _schema(rows: Rows, ask: Callable[..., Any]) -> pa.Schema:
    """The columns of a query, which is not run."""
    found = ask(_select(rows, "*", "LIMIT 0"), binary=True).description  # a protocol of one statement
    of = "SELECT oid, format_type(oid, NULL), typtype FROM pg_type WHERE oid = ANY(%s)"
    others = {each.type_code for each in found} - TYPES.keys()
    named = {number: (name, kind) for number, name, kind in ask(of, [[*others]]).fetchall()} if others else {}

    def type_of(column: str, number: int) -> pa.DataType:
        if number in TYPES:
            return TYPES[number]
        name, kind = named[number]
        cast = CASTS.get(name, "CAST({} AS text)").format(_quoted(column))
        return pa.large_string() if kind == "e" else Other(name, cast)

    return pa.schema([(each.name, type_of(each.name, each.type_code)) for each in found])


def _select(rows: Rows, what: str, end: str = "") -> str:
    query = rows.query if isinstance(rows.query, str) else rows.query.as_string(rows.connection)
    return f"SELECT {what} FROM (\n{query}\n) AS dpfast_rows {end}"  # noqa: S608  the caller's own query


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _one(cursor: Any) -> Any:
    return cursor.fetchone()[0]


def _grouped(rows: Rows, plan: Plan) -> Rows:
    """As many rows of each unit and key as can count: they are alike, so it matters not which.

    Raises: ParameterError.
    """
    if plan.values is not None or plan.how["max_contributions"] is not None:
        raise ParameterError("push_down must be left out with values or max_contributions, which choose among all rows")
    names, most = [*map(_quoted, plan.columns)], plan.how["max_per_partition"]
    each = _select(rows, f"{', '.join(names)}, least(count(*), {most})", f"GROUP BY {', '.join(names)}")
    places = [f"c{i}" for i in range(len(names))]  # names of our own, whatever the columns are called
    back = ", ".join(f"{place} AS {name}" for place, name in zip(places, names, strict=True))
    return Rows(
        rows.connection,
        f"SELECT {back} FROM ({each}) AS g ({', '.join(places)}, most), generate_series(1, most)",  # noqa: S608  quoted
    )


def _alike(rows: Rows, columns: list[str], schema: pa.Schema, ask: Callable[..., Any]) -> None:
    """Raises: ParameterError (a column whose collation takes texts of other bytes for equal)."""
    for name in columns:
        if pa.types.is_large_string(schema.field(name).type):
            of = f"pg_collation_for(({_select(rows, f'CAST({_quoted(name)} AS text)', 'LIMIT 0')}))"
            unlike = ask(f"SELECT 1 FROM pg_collation WHERE oid = {of}::regcollation AND NOT collisdeterministic")  # noqa: S608  quoted
            if unlike.fetchone():
                raise ParameterError(
                    f"{name:.60} must be a column in which texts are equal if their bytes are, and its collation takes others "
                    'for equal, too: write them alike, as by lower(), and COLLATE "C"'
                )


def _read(rows: Rows, columns: list[str], order: str = "") -> Iterator[pa.Table]:
    """Raises: DTypeError, in words that show no value."""
    with _reading(rows) as ask:
        schema = _schema(rows, ask)
        schema = pa.schema([schema.field(name) for name in columns])
        _alike(rows, columns, schema, ask)
        of = f"COPY ({_select(rows, ', '.join(map(_quoted, columns)), order)}) TO STDOUT (FORMAT csv)"
        yield from _copied(rows.connection, of, schema)


def _copied(connection: Any, statement: str, schema: pa.Schema) -> Generator[pa.Table, None, None]:
    """What a COPY sends. psycopg locks the connection meanwhile: close this before it is used.

    Raises: DTypeError (fewer or more rows than the server says), and what psycopg and Arrow raise.
    """
    wire, lines, many, found, sent = connection.pgconn, bytearray(), 0, 0, -1
    with psycopg.Cursor(connection).copy(statement) as copy:
        while sent < 0:
            length, line = wire.get_copy_data(1)  # what is there, a row: `read` takes a microsecond each
            if length < 0:
                sent = _ended(wire)
            elif length == 0 and not (line := copy.read()):  # which waits
                sent = copy.cursor.rowcount
            else:
                lines += line
                many += 1
            if many and (sent >= 0 or many == ROWS or len(lines) >= BYTES):
                table = _parsed(lines, schema)
                found += table.num_rows
                yield table
                lines, many = bytearray(), 0
    if found != sent:
        raise DTypeError("rows cannot be read: those that came are not as many as PostgreSQL has sent")


def _ended(wire: Any) -> int:
    """How many rows the server says that it sent. Raises: psycopg.Error (its own)."""
    result = wire.get_result()
    while wire.get_result() is not None:
        pass
    if result is None or result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        code = (result and result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)) or b""
        raise psycopg.errors.lookup(code.decode())() if code else psycopg.OperationalError()
    return int(result.command_tuples)


def _parsed(lines: bytearray, schema: pa.Schema) -> pa.Table:
    """Lines of CSV as PostgreSQL writes it: an empty text has quotes, and a null has none.

    Arrow leaves out a byte order mark at the begin, so one is put before what may be a cell's own.
    """
    lines = bytearray(BOM_UTF8) + lines
    return csv.read_csv(
        pa.BufferReader(pa.py_buffer(lines)),
        csv.ReadOptions(use_threads=False, column_names=schema.names, block_size=len(lines) + 1),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


# ------------------------------------------------------------------ an output as a table


def load(to: str | os.PathLike[str], connection: Any, table: str | Sequence[str]) -> None:
    """Make a table of an output that is finished: all of it or nothing, and no charge.

    to: the folder of a release. connection: of psycopg; the table is committed, or in a transaction
        of the caller's it is for the caller to commit. table: a name, or a pair of a schema and a
        name. If it is there it must have the output's columns, in their order and of their types,
        and hold this output, as when the call is made again.
    Raises: FileError (no output, or one without some of its files), DTypeError, ParameterError (a
        name that PostgreSQL would cut; a table that is there, and has or holds something else).
    """
    if not isinstance(connection, psycopg.Connection):
        raise DTypeError(f"connection must be a Connection of psycopg, not {type(connection).__name__}")
    names = _names(table)
    _idle(connection)
    noisy, named, lines = _output(to), ".".join(map(_quoted, names)), pa.BufferOutputStream()
    csv.write_csv(noisy, lines, csv.WriteOptions(include_header=False))
    columns = [f"{_quoted(each.name)} {KINDS[each.type]}" for each in noisy.schema]
    with quiet(_not_made), connection.transaction():
        ask = _asking(connection)
        ask("SET LOCAL client_encoding = 'UTF8'")
        for each in (*names, *noisy.column_names):
            if _one(ask("SELECT CAST(%s AS name)", [each])) != each:
                raise ParameterError(
                    f"table and columns must have names that PostgreSQL does not cut, unlike {each:.100}"
                )
        if _one(ask("SELECT to_regclass(%s)", [named])) is None:
            ask(f"CREATE TABLE {named} ({', '.join(f'{each} NOT NULL' for each in columns)})")
            with psycopg.Cursor(connection).copy(f"COPY {named} FROM STDIN (FORMAT csv)") as copy:
                copy.write(lines.getvalue())
            return
        there = [f"{_quoted(name)} {kind}" for name, kind in ask(COLUMNS, [named]).fetchall()]
        if there != columns:
            wanted = f"the columns {', '.join(columns):.200}"
            raise ParameterError(
                f"table must be a new one, or have {wanted}, and {named:.100} has {', '.join(there):.200}"
            )
        with closing(_copied(connection, f"COPY (TABLE {named}) TO STDOUT (FORMAT csv)", noisy.schema)) as held:
            kept = pa.concat_tables([noisy.slice(0, 0), *held])
        if not sort(kept).equals(sort(noisy)):
            raise ParameterError(f"table must be a new one, or hold this output, and {named:.100} holds something else")


def _names(table: Any) -> list[str]:
    """A table's name, with its schema's before it if that is given.

    Raises: DTypeError, ParameterError.
    """
    names = [table] if isinstance(table, str) else table
    rule = "table must be a name, or a pair of a schema and a name"
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
        raise DTypeError(f"{rule}, not {type(table).__name__}")
    if len(names) != (1 if names is not table else 2) or not all(names) or any("\0" in each for each in names):
        raise ParameterError(f"{rule}, got {table!r:.100}")
    return [*names]


def _output(to: str | os.PathLike[str]) -> pa.Table:
    """The rows of an output, all of its files. Raises: FileError."""
    folder = Folder(to)
    if (facts := folder.facts(MANIFEST)) is None:
        raise FileError(f"{folder.place} has no {MANIFEST}: no output, or its release was not finished")
    try:
        listed = {each["name"]: each["rows"] for each in facts["files"]}
        found = [uniform(each, each.schema) for each in (pq.read_table(folder.open(name)) for name in listed)]
        if [each.num_rows for each in found] != list(listed.values()):
            raise KeyError(MANIFEST)
        return pa.concat_tables(found)
    except (LookupError, TypeError, ValueError, pa.ArrowException, OSError):
        raise FileError(f"{folder.place} is damaged: its files are not those that {MANIFEST} lists") from None


def _not_made(error: Exception) -> FileError:
    """With what PostgreSQL says, for all that it was given is public."""
    said = getattr(getattr(error, "diag", None), "message_primary", None)
    return FileError(f"the table cannot be made, and is not: {said or type(error).__name__}")
