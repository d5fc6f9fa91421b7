# SPDX-License-Identifier: Apache-2.0
"""DuckDB: sealed releases of relations, out of core, with the verbs of dpfast.engines.jobs.

    from dpfast.engines import duckdb as dp
    counts = dp.bounded_counts(connection.table("visits"), unit="user", by="page", domain=pages,
                               max_partitions=10, max_per_partition=1, key=key, stage="private/visits")
    dp.release(counts, mechanism, key=key, ledger=ledger, to="public/visits", resume=True)

And of a relation of exact counts by public key, as a relation:

    noisy = dp.release(cities, mechanism, by="city", column="people", key=key, ledger=ledger,
                       stage="private/cities", to="public/cities")

Rows are a relation, whose query runs once; DuckDB sorts. What comes back is of the same connection,
which must be one that may read Arrow tables of this process. No SQL function adds noise to a value:
docs/engines.md says why.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from dpfast.adapters import library
from dpfast.engines import jobs
from dpfast.engines.jobs.keys import alike
from dpfast.engines.jobs.tasks import quiet
from dpfast.errors import DTypeError, ParameterError

duckdb = library("duckdb", "duckdb", ">=1.4")

__all__ = ["Relations", "bounded_counts", "counted", "release", "verify"]
ROWS = 1 << 18  # in a batch


def __dir__() -> list[str]:
    return __all__


class Relations(jobs.Tables):
    """The engine: this process, with rows that come from a relation in batches."""

    def schema(self, rows: Any) -> pa.Schema:
        """Raises: DTypeError; ParameterError (closed, or names that differ by case alone)."""
        if not isinstance(rows, duckdb.DuckDBPyRelation):
            raise DTypeError(f"rows must be a relation of DuckDB, not {type(rows).__name__}")
        try:
            names = rows.columns
        except duckdb.ConnectionException:
            raise ParameterError("rows must be of an open connection, and theirs was closed") from None
        if len({name.casefold() for name in names}) < len(names):
            raise ParameterError("rows must have columns whose names differ by more than case: DuckDB mixes them up")
        with quiet(_told):
            return rows.limit(0).to_arrow_table().schema.with_metadata(None)

    def batches(self, rows: Any, columns: list[str]) -> Iterable[pa.Table]:
        _files_alike(rows, columns)
        return _read(rows, columns)

    def ordered(self, rows: Any, columns: list[str], keys: int) -> Iterable[pa.Table]:
        """Texts by their bytes, whatever the collation, the default order or that of an ENUM."""
        kinds = self.schema(rows)
        of = {name: f"encode(CAST({_quoted(name)} AS VARCHAR))" for name in columns[:keys]}
        of |= {name: _quoted(name) for name in of if pa.types.is_integer(kinds.field(name).type)}
        order = ", ".join(f"{each} ASC NULLS FIRST" for each in of.values())
        _files_alike(rows, columns)
        return _read(rows, columns, order)

    def reader(self, rows: Any) -> Callable[[list[str]], Any]:
        """Raises: what schema does; ParameterError (of a connection that may not read Arrow)."""
        self.schema(rows)
        _must_read_arrow(rows)
        return lambda files: _beside(rows, ds.dataset(files, format="parquet", filesystem=fs.LocalFileSystem()))


bounded_counts, counted = Relations.bounded_counts, Relations.counted
release, verify = Relations.release, Relations.verify


def _beside(rows: Any, dpfast_released: Any) -> Any:  # noqa: ARG001  the query names it
    """A relation of an Arrow table or dataset, of the connection of the rows.

    DuckDB finds the argument under its name here. It would take the name of a file for a pattern,
    and parts of it for columns.
    """
    view = f"dpfast_{secrets.token_hex(8)}"  # DuckDB 1 leaves a view of this name behind
    found = rows.query(view, "SELECT * FROM dpfast_released")
    rows.query(view, f"DROP VIEW IF EXISTS {view}")
    return found


def _must_read_arrow(rows: Any) -> None:
    """Look, before anything is charged, whether the output can be read. Raises: ParameterError."""
    seen = secrets.token_hex(16)
    try:
        if _beside(rows, pa.table({"seen": [seen]})).fetchall() == [(seen,)]:
            return
        why = "it has a table dpfast_released of its own"
    except duckdb.Error as error:
        why = type(error).__name__
    raise ParameterError(
        f"rows must be of a connection that may read Arrow tables of Python, which yours may not ({why}; "
        "enable_external_access and python_enable_replacements decide it): else release their `counted`, and read the files"
    )


# ------------------------------------------------------------------ the types of files


def _files_alike(rows: Any, columns: list[str]) -> None:
    """DuckDB casts Parquet files to the types of the first one, which are the types of no row.

    Raises: DTypeError (a column of two types in the files that a query, or a view in it, reads).
    """
    with quiet(_told):
        wanted = {name.casefold() for name in columns}
        for files in _parquet_files(rows):
            there = dict.fromkeys(_columns_of(rows, files))
            renamed = not wanted <= {name for name, _ in there}  # or of another scan: then each column counts
            first: dict[str, pa.DataType] = {}
            for name, written in there:
                if renamed or name in wanted:
                    kind = _asked(rows, f"SELECT CAST(NULL AS {written})").to_arrow_table().schema.types[0]
                    alike(name, first.setdefault(name, kind), kind)


def _parquet_files(rows: Any) -> Iterator[list[str]]:
    """The files, or patterns of them, that each scan in a query has."""
    views = dict(_asked(rows, "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall())
    waiting = [rows.sql_query()]
    while waiting:
        for node in _nodes(waiting.pop()):
            table = str(node.get("table_name", ""))
            if node.get("function_name") in ("parquet_scan", "read_parquet"):
                first = (node.get("arguments") or node["children"])[0]
                yield [text for each in _nodes(first) if (text := _constant(each)) is not None]
            elif table.endswith(".parquet"):
                yield [table]
            elif table in views:
                waiting.append(views.pop(table).partition(" AS ")[2])


def _nodes(tree: Any) -> list[dict[str, Any]]:
    """All nodes of a query in SQL, or below a node; none of what DuckDB cannot take apart."""
    if isinstance(tree, str):
        with duckdb.connect() as own:  # the default connection is the caller's, and may be at work
            tree = own.execute("SELECT json_serialize_sql(?)", [tree]).fetchone()[0]
    found: list[dict[str, Any]] = []

    def seen(node: dict[str, Any]) -> dict[str, Any]:
        found.append(node)
        return node

    json.loads(tree if isinstance(tree, str) else json.dumps(tree), object_hook=seen)
    return found


def _constant(node: dict[str, Any]) -> str | None:
    """A constant text, as DuckDB 2 and 1 write it."""
    if node.get("type") != "VALUE_CONSTANT":
        return None
    found = node["literal"]["text"] if "literal" in node else node["value"]["value"]
    return found if isinstance(found, str) else None


def _columns_of(rows: Any, files: list[str]) -> Iterator[tuple[str, str]]:
    """The columns of Parquet files and DuckDB's types of them, of each file again."""
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    of = f"SELECT file_name, name, num_children, duckdb_type FROM parquet_schema([{listed}])"  # noqa: S608  paths, quoted
    begun, inside = None, 0
    for file, name, children, kind in _asked(rows, of).fetchall():  # depth first: a file begins with its root
        if file != begun:
            begun, inside = file, 0
        elif inside:
            inside += (children or 0) - 1
        else:
            inside = children or 0
            yield name.casefold(), kind


def _asked(rows: Any, query: str) -> Any:
    """What the connection of a relation says."""
    name = f"dpfast_{secrets.token_hex(8)}"
    found = rows.query(name, query)
    rows.query(name, f"DROP VIEW IF EXISTS {name}")
    return found


# ------------------------------------------------------------------ queries


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read(rows: Any, columns: list[str], order: str = "") -> Iterator[pa.Table]:
    """Raises: DTypeError, in words that show no value, as DuckDB's own may."""
    with quiet(_told):
        found = rows.project(", ".join(map(_quoted, columns)))
        with (found.order(order) if order else found).arrow(ROWS) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


def _told(error: Exception) -> DTypeError:
    """Arrow hands on DuckDB's errors as OSError."""
    kind = re.match(r"[A-Z][A-Za-z ]{1,40} Error(?=:)", str(error))
    return DTypeError(f"rows cannot be read: {kind[0] if kind else type(error).__name__} of DuckDB")
