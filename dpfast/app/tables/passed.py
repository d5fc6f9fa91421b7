# SPDX-License-Identifier: Apache-2.0
"""What passes through without noise: rebuilt columns, the metadata of types, a public order.

A reader of the output learns the cells of a passed column, and nothing that lay beside them in the
input: no bytes under nulls or behind the end of a buffer, no category that no row has, no note in
the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.errors import FileError, ParameterError

LARGEST_SORTED = 1 << 30  # bytes of a table: a sort holds the whole table, in up to four copies
TEXTS = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}
FLAT = {pa.bool_(), pa.null(), *TEXTS}
FIXED = pa.types.is_primitive, pa.types.is_decimal, pa.types.is_fixed_size_binary
VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}  # by name: older versions lack them
LISTS = ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list), (pa.types.is_fixed_size_list, pa.list_))
# The metadata from which a reader recognises a type or a column.
OF_FIELDS = {b"ARROW:extension:name", b"ARROW:extension:metadata", b"PARQUET:field_id"}
EXTENSION = {b"ARROW:extension:name", b"ARROW:extension:metadata"}  # any bytes
RECORD = {f"{name}_total" for name in ("epsilon", "delta", "rho")} | {
    "composition", "earlier", "histogram", "intervals", "ledger", "manifest", "releases", "secure_means"
}  # fmt: skip
OF_PANDAS = {"name", "field_name", "pandas_type", "numpy_type"}
OF_PANDAS_TYPES = {"timezone", "ordered", "encoding", "precision", "scale", "unit"}


# ------------------------------------------------------------------ columns


def plain(kind: pa.DataType, *, keep: bool = False) -> pa.DataType:
    """The type that `rebuilt` makes of a type: without dictionaries.

    keep: whether it keeps the metadata inside.
    Raises: NotImplementedError (a type whose values this module cannot copy one by one).
    """

    def field(of: pa.Field) -> pa.Field:
        made = of.with_type(plain(of.type, keep=keep))
        return made if keep else made.remove_metadata()

    if pa.types.is_dictionary(kind):
        return plain(kind.value_type, keep=keep)
    if pa.types.is_struct(kind):
        return pa.struct([field(child) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(field(kind.key_field), field(kind.item_field), kind.keys_sorted)
    for is_list, of in LISTS:
        if is_list(kind):
            return of(field(kind.value_field), *([kind.list_size] if is_list is pa.types.is_fixed_size_list else []))
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if not (_is_flat(kind) or (inner != kind and plain(inner).equals(inner, check_metadata=True))):
        raise NotImplementedError
    return kind


def _is_flat(kind: pa.DataType) -> bool:
    if pa.types.is_interval(kind):  # pyarrow 15 turns whole intervals into nulls
        return False
    return kind in FLAT or str(kind) in VIEWS or any(is_it(kind) for is_it in FIXED)


def rebuilt(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Equal cells in new memory. kind: what `plain` returns for the array's type.

    At every level, each value that is not null is copied on its own.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    size, valid = len(array), np.asarray(array.is_valid())
    bits = None if valid.all() else pa.array(valid).buffers()[1]
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, rebuilt(array.storage, kind.storage_type))
    if pa.types.is_struct(kind):
        children = [rebuilt(c, f.type) for c, f in zip(array.flatten(), kind, strict=True)]  # null where the struct is
        return pa.Array.from_buffers(kind, size, [bits], children=children)
    if pa.types.is_fixed_size_list(kind):
        each = kind.list_size
        elements = pa.array(array.offset * each + np.arange(size * each), mask=~np.repeat(valid, each))
        child = rebuilt(array.values.take(elements), kind.value_type)
        return pa.Array.from_buffers(kind, size, [bits], children=[child])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets, elements = _elements(array, valid)
        inner = pa.struct([kind.key_field, kind.item_field]) if pa.types.is_map(kind) else kind.value_type
        return pa.Array.from_buffers(
            kind, size, [bits, offsets], children=[rebuilt(array.values.take(elements), inner)]
        )
    if str(kind) in VIEWS:  # several columns may lie in one buffer
        return rebuilt(array.cast(VIEWS[str(kind)]), VIEWS[str(kind)]).cast(kind)
    return array.take(pa.array(np.arange(size), mask=~valid))


def _elements(lists: pa.Array, valid: npt.NDArray[np.bool_]) -> tuple[pa.Buffer, pa.Array]:
    """New offsets of lists or maps, and the places of the elements of lists that are not null."""
    width = np.int64 if pa.types.is_large_list(lists.type) else np.int32
    bounds = np.zeros(len(lists) + 1, width)
    if len(lists):
        bounds = np.frombuffer(lists.buffers()[1], width)[lists.offset : lists.offset + len(lists) + 1]
    lengths = np.where(valid, np.diff(bounds), 0)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return pa.py_buffer(ends.astype(width)), pa.array(np.repeat(bounds[:-1] - ends[:-1], lengths) + np.arange(ends[-1]))


def sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Bytes of each cell: those of its letters or of its type, and 8 more for a list."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if str(column.type) in VIEWS:
        column = column.cast(VIEWS[str(column.type)])
    kind, found = column.type, np.zeros(len(column), np.int64)
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if pa.types.is_struct(kind):
        for child in column.flatten():
            found += sizes(child)
    elif any(is_list(column.type) for is_list, _ in LISTS):
        elements = sizes(pc.list_flatten(column))
        found += 8 + np.bincount(pc.list_parent_indices(column), elements, len(column)).astype(np.int64)
    elif kind in TEXTS:
        found += np.asarray(pc.fill_null(pc.binary_length(column), 0))
    elif kind != pa.null():
        found += -(-kind.bit_width // 8)
    return found


def joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Parts of a column, each made by `rebuilt`, as one that does not show where they ended."""
    whole = pa.concat_arrays(parts)  # which copies: a slice would show the cells behind it
    views = "_view" in str(kind) and not pa.types.is_dictionary(kind)
    return rebuilt(whole, kind) if views else whole  # a buffer for each part is joined to one


class Categories:
    """The categories that rows of a column have, in their order: one numbering for all pieces."""

    def __init__(self, kind: pa.DictionaryType) -> None:
        self.kind = kind
        self.known, self.used = pa.nulls(0, kind.value_type), np.zeros(0, bool)

    def look(self, column: pa.DictionaryArray) -> None:
        """Note the categories of a piece. `look` sees all pieces before one is `coded`."""
        if not column.dictionary.equals(self.known):
            new = column.dictionary.filter(pa.array(_places(column.dictionary, self.known) < 0)).unique().drop_null()
            self.known = pa.concat_arrays([self.known, new])
            self.used = np.concatenate((self.used, np.zeros(len(new), bool)))
        at = _places(column.dictionary, self.known)[_codes(column)]
        self.used[at[at >= 0]] = True

    def coded(self, column: pa.DictionaryArray) -> pa.DictionaryArray:
        """A piece with these categories only. Raises: ValueError (it holds others)."""
        categories = rebuilt(self.known.filter(pa.array(self.used)), self.kind.value_type)
        codes = np.full(len(column), -1)
        codes[np.asarray(column.indices.is_valid())] = _places(column.dictionary, categories)[_codes(column)]
        if (codes < 0).sum() > column.null_count and not column.dictionary.null_count:
            raise ValueError
        indices = pa.array(np.maximum(codes, 0), mask=codes < 0).cast(self.kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, categories, ordered=self.kind.ordered)


def _codes(column: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """The dictionary's places of cells that are not null. Raises: ValueError (there is none)."""
    codes = np.asarray(column.indices.drop_null(), np.int64)
    if codes.size and not 0 <= codes.min() <= codes.max() < len(column.dictionary):
        raise ValueError
    return codes


def _places(values: pa.Array, among: pa.Array) -> npt.NDArray[np.int64]:
    """The places of values among others; -1 for nulls and for values that are not there."""
    found = pc.index_in(values, value_set=among, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1), np.int64)


# ------------------------------------------------------------------ metadata


def cleaned(schema: pa.Schema, noisy: Sequence[int], *, keep: bool) -> pa.Schema:
    """The schema of the output: the types of `rebuilt` columns, and the metadata that types need.

    keep: keep all metadata instead. noisy: the places of the columns that get noise. Their types
        stay.
    Raises: NotImplementedError (as `plain` does; its argument is the field).
    """
    fields = []
    for place, field in enumerate(schema):
        kind = field.type
        if place not in noisy and not pa.types.is_dictionary(kind):
            try:
                kind = plain(kind, keep=keep)
            except NotImplementedError:
                raise NotImplementedError(field) from None
        about = {name: value for name, value in (field.metadata or {}).items() if keep or name in OF_FIELDS}
        fields.append(pa.field(field.name, kind, field.nullable, about))
    held = schema.metadata or {}
    kept = {name: value for name, value in held.items() if keep or (name == b"dpfast" and is_record(value))}
    with suppress(
        KeyError, TypeError, ValueError, AttributeError, RecursionError
    ):  # there are none, or they are not pandas's
        kept |= {} if keep else {b"pandas": json.dumps(_types_of_pandas(json.loads(held[b"pandas"]))).encode()}
    return pa.schema(fields, kept)


def _types_of_pandas(about: dict[str, Any]) -> dict[str, Any]:
    def only(entry: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
        return {name: entry[name] for name in entry if name in names}  # in one order in every process

    def column(entry: dict[str, Any]) -> dict[str, Any]:
        return {**only(entry, OF_PANDAS), "metadata": only(entry.get("metadata") or {}, OF_PANDAS_TYPES) or None}

    labels = about["index_columns"]  # names of columns, or a range
    return {
        "index_columns": [
            x if isinstance(x, str) else only(x, {"kind", "name", "start", "stop", "step"}) for x in labels
        ],
        "column_indexes": [column(entry) for entry in about.get("column_indexes", ())],
        "columns": [column(entry) for entry in about["columns"]],
        "creator": only(about.get("creator") or {}, {"library", "version"}),
        "pandas_version": about.get("pandas_version"),
    }


def notes(schema: pa.Schema) -> list[str]:
    """The names of the metadata that no type needs."""
    held = schema.metadata or {}
    known = {b"pandas", b"ARROW:schema"} | ({b"dpfast"} if is_record(held.get(b"dpfast", b"")) else set())
    found = [_text(name) for name in held if name not in known]
    with suppress(KeyError, TypeError, ValueError, AttributeError, RecursionError):
        found += ["attributes of pandas"] if json.loads(schema.metadata[b"pandas"]).get("attributes") else []
    for field in schema:
        inside = dict.fromkeys(name for one in _fields(field) for name in one.metadata or {} if name not in OF_FIELDS)
        found += [f"{_text(name)} of {field.name!r}" for name in inside]
    return found


def needed(schema: pa.Schema) -> list[str]:
    """What passes of the metadata and may hold anything: of extension types, and a record."""
    found = [f"{_text(name)} of {field.name!r}" for field in schema for name in _extension(field)]
    if is_record((schema.metadata or {}).get(b"dpfast", b"")):
        found.append("the record of an earlier release")
    return found


def _extension(field: pa.Field) -> list[bytes]:
    """The names of the metadata that make extension types of a column and of what it holds."""
    found: dict[bytes, None] = {}
    for one in _fields(field):
        of_types = EXTENSION if isinstance(one.type, pa.BaseExtensionType) else set()
        found |= dict.fromkeys(sorted(EXTENSION & {*(one.metadata or {})} | of_types))
    return list(found)


def is_record(text: bytes) -> bool:
    """Whether metadata are the record of a release, by the names in it."""
    return isinstance(found := earlier(text), dict) and bool(found) and found.keys() <= RECORD


def earlier(text: bytes) -> Any:
    """What metadata under `dpfast` hold, as OUT shows it."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return _text(text)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _fields(field: pa.Field) -> Iterator[pa.Field]:
    yield field
    for i in range(field.type.num_fields):
        yield from _fields(field.type.field(i))


# ------------------------------------------------------------------ rows


def in_order(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    """The order of rows by the values of the columns, the first column first; nulls come last.

    Raises: ParameterError (two rows with equal values, which would keep their order of arrival; a
        type without an order).
    """
    try:
        values = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in columns]
        ranks = [np.asarray(pc.rank(c, "ascending", tiebreaker="dense"), np.int64) for c in values]
    except pa.ArrowException:
        raise ParameterError("--sort-by must name columns that have an order: of texts, numbers, dates") from None
    order = np.lexsort(ranks[::-1])
    if np.logical_and.reduce([np.diff(rank[order]) == 0 for rank in ranks]).any():
        raise ParameterError(
            "--sort-by must name columns that tell all rows apart, because rows alike in them would keep the order of the "
            "input: repeat it for more columns"
        )
    return order


def check_sortable(size: int) -> None:
    """Raises: FileError (a table too large to be held)."""
    if size > LARGEST_SORTED:
        most = f"{LARGEST_SORTED >> 20:,} MiB"
        raise FileError(f"--sort-by holds a table in memory, and takes none of more than {most}: sort it beforehand")
