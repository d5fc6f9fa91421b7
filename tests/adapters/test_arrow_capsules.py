# SPDX-License-Identifier: Apache-2.0
"""Arrow's PyCapsule interface: any producer, each structure released once, hostile ones refused."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
from columns import COUNTS, VALUES, fixed
from fresh import python

from dpfast import Ledger
from dpfast.adapters import arrow_capsules as at
from dpfast.errors import DTypeError, ParameterError, UnusableValuesError


class OfArray:
    """Another library's object, which only has the interface."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.held.__arrow_c_array__(requested_schema)


class OfStream(OfArray):
    __arrow_c_array__ = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.held.__arrow_c_stream__(requested_schema)


# ------------------------------------------------------------------ libraries


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("cut", [(0, 12), (1, 9), (9, 3), (12, 0)])
def test_columns_of_pyarrow(kind, cut) -> None:
    """A slice, with its nulls, gets what NumPy's array gets."""
    pa = pytest.importorskip("pyarrow")
    whole = [None if n % 5 == 1 else n for n in range(12)]
    column, cells = pa.array(whole, kind).slice(*cut), [n or 0 for n in whole][cut[0] :][: cut[1]]
    expected = fixed(np.array(cells, kind)).tolist()
    assert fixed(OfArray(column), missing=0).tolist() == expected
    assert fixed(OfStream(pa.chunked_array([column.slice(0, 2), column.slice(2)])), missing=0).tolist() == expected
    if column.null_count:
        with pytest.raises(UnusableValuesError):
            COUNTS.release(OfArray(column))
    noisy = COUNTS.release(OfStream(pa.chunked_array([], kind)))
    assert (noisy.dtype, noisy.size) == (np.int64, 0)


def test_frames_of_pyarrow() -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"a": pa.array([1, 2, 3], "int8"), "b": pa.array([4, 5, 6])})
    expected = dict(zip("ab", fixed(np.array([[2, 3], [5, 6]])).tolist(), strict=True))
    for made in (OfArray(batch.slice(1)), OfStream(pa.table(batch.slice(1)))):
        assert {name: cells.tolist() for name, cells in fixed(made, columns=["a", "b"]).items()} == expected
    texts = pa.record_batch({"city": ["x", "y"], "n": [2, 3]})
    assert fixed(OfArray(texts), columns=["n"])["n"].tolist() == fixed(np.array([[2, 3]]))[0].tolist()
    with pytest.raises(ParameterError, match="^columns must name each column once, and one of that name alone"):
        COUNTS.release(OfArray(pa.record_batch([pa.array([1]), pa.array([2])], ["a", "a"])), columns=["a"])
    with pytest.raises(DTypeError, match="there is no column"):
        COUNTS.release(OfArray(pa.record_batch({})))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_reals(kind) -> None:
    pa = pytest.importorskip("pyarrow")
    column = pa.array([1.5, None, 2.5], kind)
    assert fixed(OfArray(column.slice(2)), VALUES).dtype == kind
    noisy = fixed(OfArray(column), VALUES, missing=0, clamp=(0, 3))
    assert noisy.tolist() == fixed(np.array([1.5, 0, 2.5], kind), VALUES).tolist()
    with pytest.raises(UnusableValuesError):
        VALUES.release(OfArray(column))


def test_polars_duckdb_and_nanoarrow() -> None:
    pl, duckdb, na = map(pytest.importorskip, ("polars", "duckdb", "nanoarrow"))
    expected = {"a": [1, 3], "b": [2, 4]}
    for frame in (
        OfStream(pl.DataFrame(expected)),
        duckdb.sql("select * from (values (1::bigint, 2::integer), (3, 4)) t(a, b)"),
    ):
        noisy = fixed(frame, columns=["a", "b"])
        assert [each.tolist() for each in noisy.values()] == fixed(np.array(list(expected.values()))).tolist()
        assert list(noisy) == ["a", "b"]
    assert fixed(na.Array([1, 2, 3], na.int32())).tolist() == fixed([1, 2, 3]).tolist()
    assert fixed(na.c_array([1, 2, 3], na.int64())).tolist() == fixed([1, 2, 3]).tolist()


@pytest.mark.parametrize("cells", [["91"], [True], [None], [b"91"], [[91]], [{"a": [91]}]])
def test_other_types_are_refused(cells) -> None:
    pa = pytest.importorskip("pyarrow")
    for made in (OfArray(pa.array(cells)), OfStream(pa.chunked_array([cells])), OfArray(pa.array(cells).dictionary_encode()) if cells == ["91"] else None):  # fmt: skip
        if made is not None:
            with pytest.raises(DTypeError, match="an Arrow column must contain integers or floats") as caught:
                COUNTS.release(made)
            assert "91" not in str(caught.value)


def test_pyarrow_is_not_imported() -> None:
    pytest.importorskip("nanoarrow")
    script = """
        import sys, dpfast, nanoarrow as na
        dpfast.DiscreteLaplace(1, 1).release(na.c_array([1, 2], na.int64()))
        print("pyarrow" in sys.modules)
    """
    assert python(script).strip() == "False"


def test_no_memory_is_kept() -> None:
    """Arrow's own count of its bytes after releases, good and refused ones."""
    pa = pytest.importorskip("pyarrow")
    gc.collect()
    before = pa.total_allocated_bytes()
    for values in ([1] * 1000, ["x"] * 1000):
        for made in (lambda: OfArray(pa.array(values)), lambda: OfStream(pa.chunked_array([values, values]))):
            try:
                COUNTS.release(made())
            except DTypeError:
                assert values[0] == "x"
    gc.collect()
    assert pa.total_allocated_bytes() == before


# ------------------------------------------------------------------ results


def released(**columns: list[int]) -> Any:
    """What a release of rows gives."""
    na = pytest.importorskip("nanoarrow")
    rows = na.c_array_from_buffers(
        na.struct({name: na.int64() for name in columns}), len(next(iter(columns.values()))), [None],
        children=[na.c_array(cells, na.int64()) for cells in columns.values()],
    )  # fmt: skip
    return fixed(rows, columns=list(columns))


@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_a_released_column_is_taken_by_other_libraries(kind) -> None:
    pa, pl, na = map(pytest.importorskip, ("pyarrow", "polars", "nanoarrow"))
    for size in (0, 1, 5, 100_000):
        cells = np.arange(size).astype(kind)
        column = cells.view(at.ArrowColumn)
        assert pa.array(column).equals(pa.array(cells))
        assert pa.chunked_array(column).combine_chunks().equals(pa.array(cells))
        assert pl.Series(column).equals(pl.Series(cells))
        assert na.Array(column).to_pylist() == cells.tolist()
        assert pa.field(column).type == pa.from_numpy_dtype(kind)
        assert pa.array(column[::-2]).to_pylist() == cells[::-2].tolist()


def test_a_released_column_is_an_array_of_numpy() -> None:
    """What is computed from it is NumPy's own."""
    na = pytest.importorskip("nanoarrow")
    column = fixed(na.c_array([1, 2, 3], na.int64()))
    assert isinstance(column, np.ndarray)
    assert type(column.sum()) is np.int64
    assert type(column + 1) is np.ndarray
    assert type(column[1:]) is at.ArrowColumn


class OnlyStream:
    def __init__(self, held: Any) -> None:
        self.__arrow_c_stream__ = held.__arrow_c_stream__


def test_released_rows_are_taken_by_other_libraries() -> None:
    pa, pl, pd, duckdb = map(pytest.importorskip, ("pyarrow", "polars", "pandas", "duckdb"))
    noisy = released(a=[1, 2, 3], b=[4, 5, 6])
    expected = {name: cells.tolist() for name, cells in noisy.items()}
    assert pa.table(noisy).to_pydict() == expected
    assert pa.record_batch(OfArray(noisy)).to_pydict() == pa.table(OnlyStream(noisy)).to_pydict() == expected
    assert (
        pl.DataFrame(noisy).to_dict(as_series=False)
        == pl.DataFrame(OnlyStream(noisy)).to_dict(as_series=False)
        == expected
    )
    assert pd.DataFrame(noisy).to_dict("list") == expected
    assert duckdb.sql("select sum(b) from noisy").fetchall() == [(sum(expected["b"]),)]
    reader = pa.RecordBatchReader.from_stream(OnlyStream(noisy))
    assert reader.schema.names == ["a", "b"]
    assert reader.read_all().to_pydict() == expected
    assert pa.table(released(été=[1])).column_names == ["été"]


def test_an_export_outlives_its_exporter_and_each_is_another() -> None:
    pa = pytest.importorskip("pyarrow")
    noisy = released(a=[1, 2, 3])
    before = noisy["a"].tolist()
    first, second = pa.record_batch(OfArray(noisy)), pa.record_batch(OfArray(noisy))
    noisy["a"][:] = 0
    del noisy
    gc.collect()
    assert first["a"].to_pylist() == second["a"].to_pylist() == before


class Changing:
    """A column of a dict that another thread writes: bytes, then words."""

    looks = 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.looks += 1
        return np.arange(4, dtype=np.int8 if self.looks % 2 else np.int64)


def test_the_capsules_of_an_export_agree() -> None:
    """The schema said words and the array held bytes: a consumer read beyond the end of them."""
    pa = pytest.importorskip("pyarrow")
    made = pa.record_batch(OfArray(at.ArrowRows(a=Changing())))
    assert made.to_pydict() == {"a": [0, 1, 2, 3]}
    assert made.schema.types == [pa.int8()]


def test_an_export_that_nobody_takes_is_freed() -> None:
    """1.3 GB are exported in turn, and less than a quarter stays."""
    column = np.zeros(1 << 22).view(at.ArrowColumn)
    with open("/proc/self/statm") as file:  # noqa: PTH123  once before, once after
        before = int(file.read().split()[1])
    for _ in range(20):
        column.__arrow_c_array__()
        column.__arrow_c_stream__()
    with open("/proc/self/statm") as file:  # noqa: PTH123
        assert (int(file.read().split()[1]) - before) * 4096 < 1 << 28


def test_a_consumer_may_release_after_python_has_ended() -> None:
    pytest.importorskip("pyarrow")
    script = """
        import atexit, numpy as np, pyarrow as pa
        from dpfast.adapters.arrow_capsules import ArrowColumn, ArrowRows
        kept = pa.array(np.arange(1000).view(ArrowColumn))
        table = pa.table(ArrowRows(a=np.arange(1000)))
        unused = ArrowRows(a=np.arange(1000)).__arrow_c_stream__()
        pa.never = kept, table, unused, [unused]
        pa.never[3].append(pa.never)
        print(kept[999], table.num_rows)
    """
    assert python(script).split() == ["999", "1000"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda column: column.reshape(1, 3), "one dimension"),
        (lambda column: column.astype(complex), "integers or floats"),
        (lambda column: column > 1, None),
        (lambda column: at.ArrowRows(a=column, b=column[:1]), "of one length"),
        (lambda column: at.ArrowRows({"a\0b": column}), "without NUL"),
        (lambda column: at.ArrowRows({1: column}), "a text"),
        (lambda column: at.ArrowRows({"\ud800": column}), "of UTF-8"),
        (lambda column: at.ArrowRows(a=[[91], [91, 92]]), "integers or floats"),
        (lambda column: at.ArrowRows(a=["91"]), "integers or floats"),
    ],
)
def test_what_is_no_column_any_more_is_refused(broken, said) -> None:
    made = broken(np.array([91, 92, 93]).view(at.ArrowColumn))
    if said is None:
        assert not hasattr(made, "__arrow_c_array__")
        return
    for export in (made.__arrow_c_schema__, made.__arrow_c_array__, made.__arrow_c_stream__):
        with pytest.raises(DTypeError, match=said) as caught:
            export()
        assert "91" not in str(caught.value)


def test_memory_that_there_is_not_is_said() -> None:
    script = """
        import resource, numpy as np
        from dpfast.adapters.arrow_capsules import ArrowColumn
        column = np.zeros(1 << 27).view(ArrowColumn)  # 1 GB
        held = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 29),) * 2)
        for export in (column.__arrow_c_array__, column.__arrow_c_stream__):
            try:
                export()
            except MemoryError:
                print("refused")
    """
    assert python(script).split() == ["refused"] * 2


# ------------------------------------------------------------------ producers that fail


def fail(self: Any, requested_schema: object = None) -> Any:
    raise KeyError("could not convert '91' to INT64")


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_stream__"])
@pytest.mark.parametrize("found", [fail, property(fail), lambda self, a, b: None])
def test_what_a_producer_raises_tells_no_value(tmp_path, method, found) -> None:
    """DuckDB's errors quote cells, and came out as they were."""
    ledger = Ledger(tmp_path / "budget.db", 1, create=True)
    with pytest.raises(DTypeError, match=f"^{method} of Failing failed with .*Error: call it to see why$") as caught:
        ledger.release(COUNTS, type("Failing", (), {method: found})(), label="failing")
    assert "91" not in str(caught.value)
    assert not ledger.history()


def test_a_producer_can_do_without_a_stream() -> None:
    """None says that a class has no such method."""
    pa = pytest.importorskip("pyarrow")

    class NoStream(OfArray):
        __arrow_c_stream__ = None

    assert fixed(NoStream(pa.array([1, 2]))).tolist() == fixed([1, 2]).tolist()


def test_null_rows_are_refused_by_the_class_of_what_values_tell() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(UnusableValuesError, match="rows must not be null as a whole"):
        COUNTS.release(OfArray(pa.array([{"a": 91}, None])))


# ------------------------------------------------------------------ producers of our own

_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Producer:
    """A stream or an array of ours, in which any field can be wrong; it counts what is released."""

    def __init__(self, wrong: dict[str, Any], *, rows: bool, streamed: bool) -> None:
        self.wrong, self.rows, self.released, self.kept = wrong, rows, [], []
        self.left = 2
        if streamed:
            self.stream = at.Stream()
            self.fill(
                "stream", self.stream, get_schema=self.call(self.schema_into), get_next=self.call(self.array_into)
            )
            self.__class__ = StreamProducer
        else:
            self.schema, self.array = self.made_schema(), self.made_array()
            self.__class__ = ArrayProducer

    def call(self, function: Any) -> int:
        made = at.FILL(function)
        self.kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value

    def fill(self, called: str, struct: Any, /, **fields: Any) -> Any:
        def released(address: int) -> None:
            self.released.append(called)
            type(struct).from_address(address).release = None

        made = at.RELEASE(released)
        self.kept += [made, fields]
        fields = {"release": ctypes.cast(made, ctypes.c_void_p).value, **fields}
        wrong = {name.partition(".")[2]: value for name, value in self.wrong.items() if name.startswith(f"{called}.")}
        for field, value in {**fields, **wrong}.items():
            setattr(struct, field, value)
        return struct

    def family(self, kind: Any, child: Any) -> Any:
        pointers = (ctypes.POINTER(kind) * 1)(ctypes.pointer(child))
        if "null child" in self.wrong:
            pointers[0] = None
        self.kept += [pointers, child]
        return ctypes.cast(pointers, ctypes.POINTER(ctypes.POINTER(kind)))

    def made_schema(self) -> Any:
        column = self.fill("child schema" if self.rows else "schema", at.Schema(), format=b"l", name=b"a")
        if not self.rows:
            return column
        return self.fill("schema", at.Schema(), format=b"+s", n_children=1, children=self.family(at.Schema, column))

    def made_array(self) -> Any:
        self.cells = np.arange(8)
        pointers = (ctypes.c_void_p * 2)(None, None if "null buffer" in self.wrong else self.cells.ctypes.data)
        self.kept += [pointers, self.cells]
        buffers = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
        column = self.fill("child" if self.rows else "array", at.Array(), length=8, n_buffers=2, buffers=buffers)
        if not self.rows:
            return column
        return self.fill("array", at.Array(), length=8, n_buffers=1, buffers=buffers, n_children=1, children=self.family(at.Array, column))  # fmt: skip

    def schema_into(self, _: int, into: int) -> int:
        ctypes.memmove(into, ctypes.addressof(self.made_schema()), ctypes.sizeof(at.Schema))
        return self.wrong.get("schema fails", 0)

    def array_into(self, _: int, into: int) -> int:
        self.left -= 1
        if self.left < 0:
            return 0
        ctypes.memmove(into, ctypes.addressof(self.made_array()), ctypes.sizeof(at.Array))
        return self.wrong.get("array fails", 0)

    def capsule(self, struct: Any, name: bytes) -> Any:
        self.kept.append(name)
        return _capsule(ctypes.addressof(struct), self.wrong.get("capsule", name), None)


class ArrayProducer(Producer):
    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        found = self.capsule(self.schema, b"arrow_schema"), self.capsule(self.array, b"arrow_array")
        return self.wrong.get("capsules", found)


class StreamProducer(Producer):
    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.wrong.get("capsules", self.capsule(self.stream, b"arrow_array_stream"))


each_way = pytest.mark.parametrize(("rows", "streamed"), [(a, b) for a in (False, True) for b in (False, True)])


@each_way
def test_each_structure_is_released_once(rows, streamed) -> None:
    """A stream and what it gave, by us; the structures in other capsules, by the capsules."""
    made = Producer({}, rows=rows, streamed=streamed)
    noisy = fixed(made)
    cells = noisy["a"] if rows else noisy
    expected = fixed(np.tile(np.arange(8), 2 if streamed else 1).reshape(1, -1))[0]
    assert cells.tolist() == expected.tolist()
    assert made.released == (["schema", "array", "array", "stream"] if streamed else [])


def test_a_stream_that_was_read_is_no_table_without_rows() -> None:
    """It was at its end, and an empty release was paid for."""
    made = Producer({}, rows=False, streamed=True)
    assert fixed(made).size == 16
    with pytest.raises(DTypeError, match="released already"):
        COUNTS.release(made)


HOSTILE: list[dict[str, Any]] = [
    {"array.length": -1}, {"array.offset": -1}, {"array.length": 2**62}, {"array.offset": 2**62}, {"array.length": 2**47},
    {"array.n_buffers": 0}, {"array.n_buffers": 9}, {"array.n_buffers": -1}, {"array.buffers": None}, {"null buffer": 1},
    {"array.null_count": 3}, {"array.release": None}, {"schema.release": None}, {"schema.format": None}, {"schema.format": b"\xff"},
    {"schema.format": b"u"}, {"schema.dictionary": 64}, {"array.dictionary": 64}, {"capsule": b"another"}, {"capsules": None}, {"capsules": (1, 2)},
]  # fmt: skip
OF_ROWS: list[dict[str, Any]] = [
    {"child.length": 7}, {"array.offset": 1}, {"child.offset": -1}, {"child.release": None}, {"child schema.release": None}, {"null child": 1},
    {"array.n_children": 0}, {"array.n_children": -1}, {"array.n_children": 2**40}, {"array.children": None}, {"schema.n_children": -1},
    {"schema.children": None}, {"child schema.name": b"\xff"}, {"child.n_buffers": 1}, {"child.buffers": None}, {"child schema.format": b"+s"},
]  # fmt: skip
OF_STREAMS: list[dict[str, Any]] = [
    {"stream.get_schema": None}, {"stream.get_next": None}, {"stream.release": None}, {"schema fails": 5}, {"array fails": 5},
]  # fmt: skip


@each_way
def test_hostile_producers_are_refused(rows, streamed) -> None:
    """Before a cell is read; nothing is released twice, and nothing is left."""
    for wrong in HOSTILE + (OF_ROWS if rows else []) + (OF_STREAMS if streamed else []):
        made = Producer(wrong, rows=rows, streamed=streamed)
        if streamed and "array.release" in wrong:
            assert COUNTS.release(made) is not None  # the end of a stream
            continue
        with pytest.raises(DTypeError):
            COUNTS.release(made)
        begun = streamed and wrong.keys().isdisjoint({"capsule", "capsules", "stream.release"})
        given = [name for name in made.released if name != "stream"]
        assert made.released == given + ["stream"] * begun, (wrong, made.released)
        owed = 0 if not begun or not given else 1 + (made.left == 1 and "array.release" not in wrong)
        assert given == ["schema", "array"][:owed], (wrong, made.released)
