# SPDX-License-Identifier: Apache-2.0
"""Arrow data of any library, by the PyCapsule interface, without pyarrow.

    noisy = mechanism.release(duckdb.sql("select visits, sales from counts"), columns=["visits", "sales"])

It reads objects with `__arrow_c_array__` or `__arrow_c_stream__`: of nanoarrow, DuckDB and others.
A column gives a NumPy array. Rows of several columns need `columns=`, those that get noise, and
give a dict of NumPy arrays by name; all their cells are released as one vector. Both results have
the interface themselves, so any Arrow library takes them.

What a producer states is checked before its memory is read: what is released already, pointers that
are null, lengths and offsets that are negative or do not fit each other. Only the sizes of its
buffers are unknown to the interface. All cells are copied, and each structure is released once.
Source: the Arrow C data, stream and PyCapsule interfaces.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast._native import arrow_capsule
from dpfast.adapters import chosen, filler, jointly, small_enough
from dpfast.errors import DTypeError, UnusableValuesError

FORMATS = {
    "c": np.int8, "C": np.uint8, "s": np.int16, "S": np.uint16, "i": np.int32, "I": np.uint32,
    "l": np.int64, "L": np.uint64, "f": np.float32, "g": np.float64,
}  # fmt: skip
DECIMAL = np.dtype([("low", np.uint64), ("high", np.int64)])  # 128 bits, on a machine of little end
WHOLE_DECIMAL = re.compile(r"d:\d+,0(,32|,64|,128|)")  # such as the sums of DuckDB, HUGEINT
DECIMALS = {",32": np.int32, ",64": np.int64, ",128": DECIMAL, "": DECIMAL}  # by their bits
LETTERS = {np.dtype(there): letter for letter, there in FORMATS.items()}
ROWS = "+s"  # a structure: a row of several columns
MOST = 2**48  # bytes of a buffer: more than a machine can hold
MOST_COLUMNS = 2**20
BROKEN = "the Arrow structures are broken"


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
]  # fmt: skip
Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))), ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
]  # fmt: skip
Stream._fields_ = [
    (name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
]
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FILL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Rows(NamedTuple):
    """Rows of several columns: which are read, and how many there are."""

    names: list[str]
    places: list[int]
    columns: int


class Column(NamedTuple):
    """Cells, and which of them are nulls; None if there are none."""

    cells: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_] | None


def release(released: Callable[..., Any], values: Any, options: dict[str, Any]) -> Any:
    """What `released(values, **options)`, a mechanism's release, gives for Arrow data.

    Raises: DTypeError (no numbers; structures that are broken; a producer that fails);
        ParameterError (columns); UnusableValuesError (rows that are null as a whole); what release
        raises.
    """
    streams = getattr(type(values), "__arrow_c_stream__", None) is not None
    rows, columns = (_stream if streams else _array)(values, options["columns"])
    if rows is None:
        return released(_filled(columns[0], options["missing"]), **options).view(ArrowColumn)
    size = columns[0].cells.size if columns else 0
    noisy = jointly(released, columns, _filled, options, lambda: (range(size), rows.names))
    return ArrowRows(zip(rows.names, noisy, strict=True))


def _filled(column: Column, missing: object) -> npt.NDArray[Any]:
    cells, nulls = column
    if nulls is not None:
        cells[nulls] = np.nan if cells.dtype.kind == "f" else filler(missing, cells.dtype)
    return cells


# ------------------------------------------------------------------ results


class _Exported:
    """Arrow's PyCapsule interface. Each capsule holds copies, in memory that needs no Python.

    requested_schema is not followed, as the interface allows: a consumer casts what it gets.
    Raises: DTypeError (what is no column of integers or floats any more).
    """

    def __arrow_c_schema__(self) -> object:
        return self._capsules(b"arrow_schema")[0]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, ...]:
        return self._capsules(b"arrow_schema", b"arrow_array")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsules(b"arrow_array_stream")[0]

    def _capsules(self, *kinds: bytes) -> tuple[object, ...]:
        """The columns are looked at once, so the capsules agree if another thread changes them."""
        raise NotImplementedError


class ArrowColumn(_Exported, np.ndarray[Any, Any]):
    """A released column: a NumPy array that Arrow libraries take, such as `polars.Series(column)`.

    >>> import dpfast, nanoarrow
    >>> counts = nanoarrow.c_array([12, 0, 7], nanoarrow.int64())
    >>> noisy = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release(counts)
    >>> noisy.dtype, nanoarrow.c_array(noisy).length
    (dtype('int64'), 3)
    """

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What is computed from it is NumPy's own."""
        return array[()]

    def _capsules(self, *kinds: bytes) -> tuple[object, ...]:
        column = _exported("", self)
        return tuple(arrow_capsule(kind, [column], rows=False, length=column[2].size) for kind in kinds)


class ArrowRows(_Exported, dict[str, Any]):
    """Released columns by name: a dict of NumPy arrays that Arrow libraries take as a table.

    >>> import duckdb, dpfast, pyarrow
    >>> visits = duckdb.sql("select * from (values (12, 3), (0, 7)) t(visits, calls)")
    >>> law = dpfast.DiscreteLaplace(epsilon=1, sensitivity=2)
    >>> noisy = law.release(visits, columns=["visits", "calls"])
    >>> pyarrow.table(noisy).column_names
    ['visits', 'calls']
    """

    def _capsules(self, *kinds: bytes) -> tuple[object, ...]:
        columns = [_exported(called, cells) for called, cells in self.items()]
        lengths = {cells.size for *_, cells in columns}
        if len(lengths) > 1:
            raise DTypeError("columns of one length make rows, and these have several")
        length = max(lengths, default=0)
        return tuple(arrow_capsule(kind, columns, rows=True, length=length) for kind in kinds)


def _exported(name: object, cells: Any) -> tuple[str, str, npt.NDArray[Any]]:
    """Arrow's format, the name and the cells of a column. Raises: DTypeError."""
    try:
        found = np.asarray(cells)
    except ValueError:  # lists of several lengths
        found = np.asarray(cells, object)
    if found.ndim != 1 or found.dtype not in LETTERS:
        raise DTypeError(
            f"an Arrow column has one dimension and integers or floats, not {found.ndim} dimensions of {found.dtype}"
        )
    if not isinstance(name, str) or re.search(r"[\0\ud800-\udfff]", name):
        raise DTypeError("the name of an Arrow column must be a text without NUL, of UTF-8")
    return LETTERS[found.dtype], name, np.ascontiguousarray(found)


# ------------------------------------------------------------------ whole objects


def _asked(values: Any, method: str) -> Any:
    """What a producer's method gives. Its own error is dropped, for it could quote values."""
    try:
        return getattr(values, method)()
    except MemoryError:
        raise
    except Exception as failure:
        kind = type(values).__name__
        raise DTypeError(f"{method} of {kind} failed with {type(failure).__name__}: call it to see why") from None


def _array(values: Any, asked: Any) -> tuple[Rows | None, list[Column]]:
    """What an object with `__arrow_c_array__` holds. Its capsules release their structures."""
    capsules = _asked(values, "__arrow_c_array__")
    if not isinstance(capsules, tuple) or len(capsules) != 2:
        raise DTypeError(f"{BROKEN}: __arrow_c_array__ must return two capsules")
    schema, array = _struct(capsules[0], Schema), _struct(capsules[1], Array)
    rows, formats = _types(schema, asked)
    return rows, _columns(array, formats, rows)


def _stream(values: Any, asked: Any) -> tuple[Rows | None, list[Column]]:
    """What an object with `__arrow_c_stream__` holds. Its stream is released, so is read once."""
    capsule = _asked(values, "__arrow_c_stream__")
    stream = _struct(capsule, Stream)
    parts: list[list[Column]] = []
    try:
        with _filled_by(stream, stream.get_schema, Schema) as schema:
            if schema is None:
                raise DTypeError(f"{BROKEN}: a stream must have a schema")
            rows, formats = _types(schema, asked)
        while True:
            with _filled_by(stream, stream.get_next, Array) as array:
                if array is None:
                    break
                parts.append(_columns(array, formats, rows))
    finally:
        if stream.release:
            RELEASE(stream.release)(ctypes.addressof(stream))
    return rows, [
        _joined(np.dtype(np.int64 if each is DECIMAL else each), [part[i] for part in parts])
        for i, each in enumerate(formats)
    ]


def _joined(dtype: np.dtype[Any], parts: list[Column]) -> Column:
    cells = np.concatenate([np.empty(0, dtype), *(part.cells for part in parts)])
    if all(part.nulls is None for part in parts):
        return Column(cells, None)
    return Column(cells, np.concatenate([np.zeros(p.cells.size, bool) if p.nulls is None else p.nulls for p in parts]))


# ------------------------------------------------------------------ structures


NAMES = {Schema: b"arrow_schema", Array: b"arrow_array", Stream: b"arrow_array_stream"}


def _struct(capsule: Any, kind: Any) -> Any:
    """The structure of a capsule, which must outlive it. Raises: DTypeError."""
    try:
        address = _pointer_of(capsule, NAMES[kind])
    except (ValueError, TypeError):
        raise DTypeError(f"{BROKEN}: a capsule must be an {NAMES[kind].decode()}") from None
    return _not_released(kind.from_address(address))


def _not_released(found: Any) -> Any:
    if not found.release:
        raise DTypeError(f"{BROKEN}: they are released already")
    return found


@contextmanager
def _filled_by(stream: Any, function: int | None, kind: Any) -> Iterator[Any]:
    """A structure that a stream fills, released in the end; None after the last one."""
    if not function:
        raise DTypeError(f"{BROKEN}: a stream must have its functions")
    found = kind()
    failure = FILL(function)(ctypes.addressof(stream), ctypes.addressof(found))
    try:
        if failure:  # its own message is dropped, for it could quote values
            raise DTypeError(f"the Arrow stream failed with error {failure}")
        yield found if found.release else None
    finally:
        if found.release:
            RELEASE(found.release)(ctypes.addressof(found))


def _types(schema: Any, asked: Any) -> tuple[Rows | None, list[Any]]:
    """The columns that are asked for, None of a single column, and their types as NumPy's."""
    if _format(schema) != ROWS or schema.dictionary:
        return None, [_type(schema)]
    children = [_not_released(child) for child in _children(schema)]
    try:
        names = [(child.name or b"").decode() for child in children]
    except UnicodeDecodeError:
        raise DTypeError(f"{BROKEN}: a name must be UTF-8") from None
    places = chosen(names, asked)
    rows = Rows([names[place] for place in places], places, len(names))
    return rows, [_type(children[place], f"column {place}: ") for place in places]


def _format(schema: Any) -> str:
    return str((schema.format or b"").decode("ascii", "replace"))


def _type(schema: Any, where: str = "") -> Any:
    found = _format(schema)
    if (whole := WHOLE_DECIMAL.fullmatch(found)) and not schema.dictionary:
        return DECIMALS[whole[1]]
    if found not in FORMATS or schema.dictionary:
        kind = "a dictionary" if schema.dictionary else f"the Arrow format {found!r:.20}"
        hint = {"d": ": cast it, such as sum(x)::bigint in DuckDB", "b": ": cast it to an integer"}.get(found[:1], "")
        raise DTypeError(
            f"{where}an Arrow column must contain integers or floats, not {kind}{'' if schema.dictionary else hint}"
        )
    return FORMATS[found]


def _children(parent: Any) -> list[Any]:
    if not 0 <= parent.n_children <= MOST_COLUMNS or (parent.n_children and not parent.children):
        raise DTypeError(f"{BROKEN}: the number of children")
    pointers = [parent.children[i] for i in range(parent.n_children)]
    if not all(pointers):
        raise DTypeError(f"{BROKEN}: a child is null")
    return [pointer.contents for pointer in pointers]


def _columns(array: Any, formats: list[Any], rows: Rows | None) -> list[Column]:
    """Copies of the columns of an array."""
    _check(array, 1 if rows else 2)
    if rows is None:
        return [_column(array, np.dtype(formats[0]), 0, array.length)]
    every = [_not_released(child) for child in _children(array)]
    if len(every) != rows.columns:
        raise DTypeError(f"{BROKEN}: an array must have as many columns as its schema")
    if _nulls(array, array.offset, array.length) is not None:
        raise UnusableValuesError("rows must not be null as a whole: leave them out, or fill them")
    children = [every[place] for place in rows.places]
    for child in children:
        _check(child, 2)
        if child.length < array.offset + array.length:
            raise DTypeError(f"{BROKEN}: a column is shorter than its rows")
    pairs = zip(children, formats, strict=True)
    return [_column(child, np.dtype(kind), array.offset, array.length) for child, kind in pairs]


def _check(array: Any, buffers: int) -> None:
    if not (0 <= array.length <= MOST and 0 <= array.offset <= MOST):
        raise DTypeError(f"{BROKEN}: a length or an offset")
    if array.n_buffers != buffers or not array.buffers:
        raise DTypeError(f"{BROKEN}: the number of buffers")
    if array.dictionary:
        raise DTypeError(f"{BROKEN}: a dictionary without its type")


def _column(array: Any, dtype: np.dtype[Any], begin: int, length: int) -> Column:
    begin += array.offset
    if begin + length > MOST // dtype.itemsize:
        raise DTypeError(f"{BROKEN}: a length or an offset")
    cells = _bytes(array.buffers[1], begin * dtype.itemsize, length * dtype.itemsize).view(dtype)
    nulls = _nulls(array, begin, length)
    if dtype == DECIMAL:
        low = np.ascontiguousarray(cells["low"]).view(np.int64)
        fits = (low >> 63) == cells["high"]
        small_enough(bool((fits if nulls is None else fits | nulls).all()))
        cells = low
    return Column(cells, nulls)


def _nulls(array: Any, begin: int, length: int) -> npt.NDArray[np.bool_] | None:
    """Which cells are null; None if none is."""
    if array.null_count == 0 or length == 0:
        return None
    if not array.buffers[0]:
        if array.null_count > 0:
            raise DTypeError(f"{BROKEN}: nulls without a bitmap")
        return None
    if not -1 <= array.null_count <= array.length:
        raise DTypeError(f"{BROKEN}: the number of nulls")
    first = begin // 8
    bits = np.unpackbits(_bytes(array.buffers[0], first, (begin + length + 7) // 8 - first), bitorder="little")
    nulls: npt.NDArray[np.bool_] = bits[begin - 8 * first :][:length] == 0
    return nulls if nulls.any() else None


def _bytes(address: int | None, begin: int, size: int) -> npt.NDArray[np.uint8]:
    """A copy of memory. Raises: DTypeError (a null pointer)."""
    if not size:
        return np.empty(0, np.uint8)
    if not address:
        raise DTypeError(f"{BROKEN}: a buffer is null")
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address + begin)).copy()
