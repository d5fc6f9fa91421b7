# SPDX-License-Identifier: Apache-2.0
"""What a histogram takes of rows, and the columns that a table of its cells has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpfast.app.tables.domain import MOST, Domain, as_texts, is_moment, numbers
from dpfast.app.tables.keys import UNKNOWN
from dpfast.app.tables.rows import Batch, Rows
from dpfast.errors import ParameterError


class Listed:
    """The public keys of columns that have a domain; all, or some beside a threshold."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = dict(domains)

    @property
    def keys(self) -> dict[str, list[str]]:
        """Those of each column, in their order."""
        return {by: domain.texts for by, domain in self._domains.items()}

    @property
    def files(self) -> dict[str, Path | None]:
        """Those that list keys, by the option that names them."""
        return {f"the file of --domain {by}": domain.file for by, domain in self._domains.items()}

    def typed(self, rows: Rows) -> list[pa.Array | None]:
        """The keys of each column as these rows have them, or None. Raises: ParameterError."""
        found: list[pa.Array | None] = []
        for key, held, kind in zip(rows.columns.by, rows.held, rows.kinds, strict=True):
            if (domain := self._domains.get(key.name)) is None:
                found.append(None)
            elif held == kind:
                found.append(domain.typed(key.name, held))
            else:  # texts, for one of them is UNKNOWN
                known = iter(as_texts(domain.without(UNKNOWN).typed(key.name, held)).to_pylist())
                found.append(pa.array([text if text == UNKNOWN else next(known) for text in domain.texts], kind))
        return found


class Cells(Listed):
    """The cells of a table: all combinations of the keys, the last column running fastest."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        """Raises: ParameterError (too many)."""
        super().__init__(domains)
        self.shape = tuple(len(domain.texts) for domain in domains.values())
        self.size = math.prod(self.shape)
        if self.size > MOST:
            raise ParameterError(f"--domain must be of at most {MOST:,} cells in all, got {self.size:,}")

    def _places(self, at: int) -> Any:
        inner = math.prod(self.shape[at + 1 :])
        return np.arange(self.size) // inner % self.shape[at]

    def columns(self, typed: Sequence[pa.Array], each: int = 1) -> list[pa.Array]:
        """The keys of the cells, each so many times."""
        return [keys.take(pa.array(np.repeat(self._places(at), each))) for at, keys in enumerate(typed)]


class Gathered:
    """The rows whose keys are in their domains, as bounded_histogram takes them."""

    def __init__(self, rows: Rows, cells: Cells | None, *, as_reals: bool) -> None:
        """as_reals: whether values that are whole numbers become float64."""
        self._rows, self._cells, self._as_reals = rows, cells, as_reals
        self._keys: list[list[Any]] = [[] for _ in rows.columns.by]
        self._places: list[Any] = []
        self._units: list[pa.Array] = []
        self._values: list[Any] = []
        self.read = 0

    def add(self, batch: Batch, domains: Sequence[pa.Array | None]) -> None:
        self.read += batch.rows
        keys, units, values = batch.keys, batch.units, batch.values
        at, inside = np.zeros(batch.rows, np.int64), np.ones(batch.rows, bool)
        for column, domain in zip(keys, domains, strict=True):
            if domain is not None:
                found = pc.index_in(column, value_set=domain).fill_null(-1).to_numpy()
                inside &= found >= 0
                at = at * len(domain) + found
        kept = pa.array(inside)
        if self._cells is not None:
            self._places.append(at[inside].astype(np.int32))
        else:
            for parts, column in zip(self._keys, keys, strict=True):
                _add(parts, _compact(column.filter(kept)))
        if units is not None:
            _add(self._units, _compact(units.filter(kept)))
        if values is not None:
            held = values.filter(kept)
            self._values.append((held.cast(pa.float64(), safe=False) if self._as_reals else held).to_numpy())

    def taken(self) -> tuple[Any, Any, Any]:
        """The keys, and the units and the values or None, of all rows. No row is held then."""
        columns = self._rows.columns
        if self._cells is not None:
            keys: Any = _joined(self._places)
        else:
            found = tuple(map(_joined, self._keys))
            keys = found if len(found) > 1 else found[0]
        values = None if columns.value is None else _joined(self._values, np.float64)
        return keys, None if columns.unit is None else _joined(self._units), values


def _compact(cells: pa.Array) -> pa.Array:
    """Integers, or texts by their places among the distinct ones."""
    if is_moment(cells.type):
        return numbers(cells)
    if pa.types.is_boolean(cells.type):
        return cells.cast(pa.int8())
    return cells if pa.types.is_integer(cells.type) else cells.dictionary_encode()


def _add(parts: list[pa.Array], more: pa.Array) -> None:
    """Add rows. Each part has its own texts: they are joined each time the parts have doubled."""
    parts.append(more)
    if pa.types.is_dictionary(more.type) and sum(part.nbytes for part in parts[1:]) > parts[0].nbytes:
        parts[:] = [pa.concat_arrays(parts)]


def _joined(parts: list[Any], empty: Any = np.int64) -> Any:
    """One column of all parts, which go."""
    if parts and isinstance(parts[0], pa.Array) and pa.types.is_dictionary(parts[0].type):
        column: Any = pa.chunked_array(parts)
    else:
        column = np.concatenate([np.asarray(part) for part in parts]) if parts else np.zeros(0, empty)
    parts.clear()
    return column


def table_of(keys: Mapping[str, pa.Array], values: Mapping[str, Any]) -> pa.Table:
    return pa.table({**keys, **values})


def of_type(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Keys that are shown, in a column of their own type again."""
    if is_moment(kind):
        return pa.array(keys, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    return pa.array([bool(key) for key in keys] if pa.types.is_boolean(kind) else keys, kind)
