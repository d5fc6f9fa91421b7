# SPDX-License-Identifier: Apache-2.0
"""A digest of what passes through without noise: the values that are written, however they lie.

Equal cells have equal digests, whatever pieces they come in, by whatever codes a dictionary names
them and by whatever version of pyarrow they are read. So the same cells can be compared in two
readings of a file, and in two tries of a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from blake3 import blake3

from dpfast.app.tables.passed import TEXTS, VIEWS
from dpfast.app.tables.source import Piece

LARGE = {pa.large_string(), pa.large_binary()}


class PassingValues:
    """The cells that pass of the pieces of a table, in the order in which they come."""

    def __init__(self, schema: pa.Schema, places: Sequence[int]) -> None:
        """places: of the columns. Their names, types and metadata are in the digest, too."""
        self._places = places
        self._columns = [_Values(schema.field(place).type) for place in places]
        about = [_about(schema.field(place)) for place in places]
        self._about = _encoded(_sorted(schema.metadata), *about)

    def update(self, piece: Piece) -> None:
        rows = cast("pa.RecordBatch", piece.rows)
        for place, column in zip(self._places, self._columns, strict=True):
            column.update(rows.column(place))

    def digest(self) -> bytes:
        return blake3(_encoded(self._about, *[column.digest() for column in self._columns])).digest()


def _encoded(*parts: bytes | str | int) -> bytes:
    """Each part behind its length."""
    runs = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(len(run).to_bytes(8, "little") + run for run in runs)


def _about(field: pa.Field) -> bytes:
    return _encoded(field.name, str(_stored(field.type)), _sorted(field.metadata))


def _sorted(metadata: Mapping[bytes, bytes] | None) -> bytes:
    return _encoded(*[part for item in sorted((metadata or {}).items()) for part in item])


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves: what a category or an extension stands for."""
    if isinstance(kind, pa.BaseExtensionType):
        return _stored(kind.storage_type)
    return _stored(kind.value_type) if pa.types.is_dictionary(kind) else kind


class _Values:
    """The cells of a column: where nulls are, lengths of lists and texts, and all bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        stored = _stored(kind)
        self._size, self._order = 0, b""
        self._nulls, self._lengths, self._bytes = blake3(), blake3(), blake3()
        self._inner = [_Values(stored.field(i).type) for i in range(stored.num_fields)]

    def update(self, array: pa.Array) -> None:
        """array: as passed.rebuilt makes it, without offsets and bytes under nulls."""
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_dictionary(array.type):
            if array.type.ordered:  # the order of its categories is what such a column means
                self._order = _digest_of(array.dictionary)
            array = array.dictionary_decode()
        if str(array.type) in VIEWS:
            array = array.cast(VIEWS[str(array.type)])
        nulls = np.flatnonzero(~np.asarray(array.is_valid())) if array.null_count else np.zeros(0, np.int64)
        self._nulls.update((self._size + nulls).astype("<i8").tobytes())
        self._size += len(array)
        if self._inner:
            self._nested(array)
        elif not pa.types.is_null(array.type):
            self._flat(array.drop_null())

    def _nested(self, array: pa.Array) -> None:
        if pa.types.is_struct(array.type):
            children = array.flatten()
        elif pa.types.is_fixed_size_list(array.type):
            children = [array.values]
        else:
            ends = np.asarray(array.offsets)
            self._lengths.update(np.diff(ends).astype("<i8").tobytes())
            children = [array.values[: ends[-1]]]
        for inner, child in zip(self._inner, children, strict=True):
            inner.update(child)

    def _flat(self, array: pa.Array) -> None:
        """array: without nulls."""
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.uint8())  # not eight in a byte
        last, at, size = array.buffers()[-1], array.offset, len(array)
        data = memoryview(last).cast("B") if last is not None else memoryview(b"")
        if array.type in TEXTS:
            width = np.int64 if array.type in LARGE else np.int32
            ends = np.frombuffer(array.buffers()[1], width)[at : at + size + 1] if size else np.zeros(1, width)
            self._lengths.update(np.diff(ends).astype("<i8").tobytes())
            self._bytes.update(data[ends[0] : ends[-1]])
        else:
            width = array.type.bit_width // 8
            self._bytes.update(data[at * width : (at + size) * width])

    def digest(self) -> bytes:
        cells = self._nulls.digest(), self._lengths.digest(), self._bytes.digest()
        inner = [each.digest() for each in self._inner]
        return blake3(_encoded(self._size, self._order, *cells, *inner)).digest()


def _digest_of(array: pa.Array) -> bytes:
    found = _Values(array.type)
    found.update(array)
    return found.digest()
