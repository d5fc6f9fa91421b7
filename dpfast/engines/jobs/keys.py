# SPDX-License-Identifier: Apache-2.0
"""Keys in Arrow columns: their order, their canonical bytes, and what others take them as."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.counts.records.places import domain_keys
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.blocks import BLOCK
from dpfast.noise.release.names import Names
from dpfast.noise.release.secret import encode

TYPES = {pa.int64(): "int64", pa.uint64(): "uint64", pa.large_string(): "string"}  # what `form` gives


def form(kind: pa.DataType) -> pa.DataType:
    """The type in which rows are counted: one for integers, one for texts, whatever their width."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(value):
        return pa.uint64() if value == pa.uint64() else pa.int64()
    texts, large = (pa.string(), pa.large_string(), pa.string_view()), pa.large_string()
    return large if value in texts else kind


def alike(name: str, one: pa.DataType, other: pa.DataType) -> None:
    """Raises: DTypeError (1 is one person, "1" another, and casts make one of them or both)."""
    if form(other) not in (form(one), pa.null()):
        raise mixed(name, one, other)


def mixed(name: str, one: object, other: object) -> DTypeError:
    """The error of a column that has two types, which are public."""
    return DTypeError(f"{name:.60} must be of one type in all rows, and is {one} in some and {other} in others")


def uniform(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """The columns of the schema, in the form of their types. Raises: DTypeError (another type)."""
    for each in schema:
        alike(each.name, each.type, table[each.name].type)
    return pa.table([table[each.name].cast(form(each.type)) for each in schema], names=schema.names)


def type_of(name: str, kind: pa.DataType) -> str:
    """Raises: DTypeError."""
    if (found := TYPES.get(form(kind))) is None:
        cast = getattr(kind, "cast", "others as one of these first")  # an engine's own type knows more
        raise DTypeError(f"{name} must be a column of integers or texts, not {kind}: write {cast}")
    return found


def must_be_numbers(name: str, kind: pa.DataType) -> None:
    """Raises: DTypeError."""
    if not pa.types.is_integer(form(kind)) and kind not in (pa.float64(), pa.float32()):
        raise DTypeError(
            f"{name} must be a column of integers, float64 or float32, not {kind}: CAST it to an integer type, or to double "
            "precision, first"
        )


def sorted_domain(by: tuple[str, ...], types: tuple[str, ...], domain: Any) -> pa.Table:
    """The domain in the order of its keys' canonical bytes: numbers by value, texts by UTF-8."""
    known = domain_keys(domain, [] if len(by) == 1 else tuple([] for _ in by))
    columns = []
    for name, kind, names, places in zip(by, types, known.columns, known.places, strict=True):
        if (names.texts is None) != (kind != "string"):
            raise DTypeError(f"the domain of {name} must be of the type of its column, {kind}")
        try:
            distinct = pa.array(names.codes if names.texts is None else names.texts, kind)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            raise ParameterError(f"the domain of {name} must fit its column, {kind}") from None
        columns.append(distinct.take(pa.array(places)))
    return sort(pa.table(columns, names=list(by)))


def sort(table: pa.Table, columns: int | None = None) -> pa.Table:
    """Rows sorted by their first columns, texts by their bytes."""
    keys = [(name, "ascending") for name in table.column_names[:columns]]
    return table.sort_by(keys).combine_chunks() if table.num_rows else table


def ipc(table: pa.Table) -> bytes:
    """A table as an Arrow file, a batch for each block: equal tables have equal bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=BLOCK)
    return bytes(sink.getvalue())


def keys_of(table: pa.Table) -> Any:
    """The keys of a table of their columns, as bounded_histogram takes a domain."""
    if table.num_columns == 1:
        return table.column(0)
    distinct = tuple(column.unique() for column in table.columns)
    if math.prod(map(len, distinct)) == table.num_rows:  # all combinations: in order, as the table is sorted
        return distinct
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def names_of(table: pa.Table) -> Any:
    """The names of a domain's rows, as a seal takes them: those of several columns as JSON."""
    if table.num_columns == 1:
        return table.column(0)
    written = []
    for column in table.columns:
        coded = column.combine_chunks().dictionary_encode()
        texts = [json.dumps(name, ensure_ascii=False) for name in coded.dictionary.to_pylist()]
        written.append(pa.array(texts).take(coded.indices))
    return pc.binary_join_element_wise(*written, ",")


def columns_of(names: Any, types: tuple[str, ...]) -> list[pa.Array]:
    """The columns of keys that bounded_histogram gives."""
    if len(types) == 1:
        return [pa.array(names, types[0])]
    several = zip(*names.tolist(), strict=True) if len(names) else [()] * len(types)
    return [pa.array(each, kind) for each, kind in zip(several, types, strict=True)]


# ------------------------------------------------------------------ canonical bytes


def runs_of(columns: list[pa.Array]) -> pa.Array:
    """The canonical bytes of keys, those that `records.partitions.canonical` gives one by one."""
    each = []
    for column in columns:
        kind = "int" if pa.types.is_integer(column.type) else "str"
        each.append(_encoded(kind, [column.cast(pa.large_string()).cast(pa.large_binary())]))
    return each[0] if len(each) == 1 else _encoded("tuple", each)


def _encoded(first: str, fields: list[pa.Array]) -> pa.Array:
    """`encode(first, *fields)` of each row: every field behind its length."""
    pieces = [pa.scalar(encode(first), pa.large_binary())]
    for runs in fields:
        lengths = np.asarray(pc.binary_length(runs)).astype("<i8")
        pieces.append(
            pa.Array.from_buffers(pa.binary(8), len(runs), [None, pa.py_buffer(lengths)]).cast(pa.large_binary())
        )
        pieces.append(runs)
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))


def names_of_runs(runs: pa.Array) -> Names:
    """The names of rows, as digests take them in."""
    if not len(runs):
        return Names.of_bytes([])
    ends = np.frombuffer(runs.buffers()[1], np.int64)[runs.offset + 1 : runs.offset + len(runs) + 1]
    return Names(np.arange(len(runs)), np.frombuffer(runs.buffers()[2], np.uint8)[: ends[-1]], ends)
