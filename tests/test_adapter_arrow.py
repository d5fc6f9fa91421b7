# SPDX-License-Identifier: Apache-2.0
"""pyarrow: a column in, a column out, of what NumPy would have made of it; the rest refused."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa

from dpfast import (
    DiscreteGaussian,
    DiscreteLaplace,
    DpfastError,
    DTypeError,
    Gaussian,
    InsecureKeyWarning,
    Key,
    Laplace,
    ParameterError,
    adapters,
    kernels,
)
from dpfast.testing import fixed_key

COUNTS, VALUES = DiscreteLaplace(1, 3), Laplace(1, 3)
WIDE = DiscreteLaplace(1, 2**40)  # a cell comes out as it went in with probability 2^-41
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
REALS = [pa.float32(), pa.float64()]


def keyed(values, mech=COUNTS, start=0, **options):
    """A release whose noise is a function of what NumPy would have been given."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(values, key=fixed_key(7).derive("arrow"), start=start, **options)


class Spy:
    """A mechanism that remembers what reaches the engine, and what comes out."""

    def release(self, array, **options):
        self.given, self.made = array, (COUNTS if array.dtype.kind in "iu" else VALUES).release(array, **options)
        return self.made


def address(array):
    """Where the cells of an Arrow array begin."""
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


# ------------------------------------------------------------------ the same kind


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers(kind):
    """int64, whatever came in, or dtype; of an Array an Array, of a ChunkedArray one of one chunk."""
    counts = pa.array(range(100), kind)
    noisy = keyed(counts)
    assert isinstance(noisy, pa.Int64Array)
    assert noisy.to_pylist() == keyed(np.arange(100)).tolist()
    assert keyed(counts, dtype="u1").type == pa.uint8()
    assert max(keyed(counts, upper=9).to_pylist()) <= 9
    chunked = keyed(pa.chunked_array([counts[:30], counts[30:30], counts[30:]]))
    assert isinstance(chunked, pa.ChunkedArray) and chunked.num_chunks == 1
    assert chunked.type == pa.int64()
    assert chunked.to_pylist() == noisy.to_pylist()
    assert counts.to_pylist() == list(range(100))
    assert not any(a == b for a, b in zip(WIDE.release(counts).to_pylist(), range(100), strict=True))


@pytest.mark.parametrize("kind", REALS, ids=str)
@pytest.mark.parametrize("mech", [VALUES, Gaussian(2)], ids=lambda m: m.NAME)
def test_reals(kind, mech):
    """A real type stays."""
    numbers = np.linspace(-5, 5, 100).astype(kind.to_pandas_dtype())
    for values in (pa.array(numbers), pa.chunked_array([numbers[:7], numbers[7:]])):
        noisy = keyed(values, mech)
        assert noisy.type == kind
        assert noisy.to_pylist() == keyed(numbers, mech).tolist()
    assert keyed(pa.array(numbers), mech, dtype=np.float32).type == pa.float32()


def test_empty_columns():
    """No cells, no chunk at all."""
    for mech, kind in ((COUNTS, pa.int64()), (DiscreteGaussian(1), pa.int64()), (VALUES, pa.float64())):
        for empty in (pa.array([], kind), pa.chunked_array([], kind)):
            noisy = mech.release(empty)
            assert (type(noisy), len(noisy), noisy.type) == (type(empty), 0, kind)


@given(
    cells=st.lists(st.none() | st.integers(0, 100), max_size=40),
    kind=st.sampled_from([*INTEGERS, *REALS]),
    edges=st.lists(st.integers(0, 40), max_size=4),
    at=st.integers(0, 40),
    length=st.integers(0, 40),
    missing=st.integers(0, 100),
)
@settings(max_examples=200, deadline=None)
def test_nulls_slices_and_chunks(cells, kind, edges, at, length, missing):
    """A null is the public number, with noise like any cell; nothing comes back null, however the column is cut."""
    whole = pa.array(cells, kind)
    cuts = [0, *sorted(edges), 40]
    chunked = pa.chunked_array([whole[a:b] for a, b in zip(cuts, cuts[1:], strict=False)], kind)
    mech = Laplace(1, 100) if (real := pa.types.is_floating(kind)) else DiscreteLaplace(1, 100)
    plain = np.array([missing if c is None else c for c in cells], kind.to_pandas_dtype())[at : at + length]
    for values in (whole.slice(at, length), chunked.slice(at, length)):
        if values.null_count:
            with pytest.raises(ParameterError, match="^(counts must not hold nulls|values must be finite); missing="):
                mech.release(values)
        noisy = keyed(values, mech, missing=missing, clamp=(0, 100))
        assert isinstance(noisy, pa.ChunkedArray) == isinstance(values, pa.ChunkedArray)
        assert noisy.null_count == 0
        if not real:
            assert noisy.to_pylist() == keyed(plain, mech, clamp=(0, 100)).tolist()
        else:
            gaps = np.array([c is None for c in cells], bool)[at : at + length]
            gone = np.where(gaps, np.float32("nan"), plain)
            assert noisy.to_pylist() == keyed(gone, mech, missing=missing, clamp=(0, 100)).tolist()


def test_nulls_and_nan():
    """Both, and infinities, are the public number to a real law."""
    values = pa.array([1.0, None, float("nan"), float("inf")])
    plain = np.array([1, np.nan, np.nan, np.inf])
    public = {"missing": 2, "clamp": (0, 5)}
    assert keyed(values, VALUES, **public).to_pylist() == keyed(plain, VALUES, **public).tolist()
    with pytest.raises(ParameterError, match="^values must be finite"):
        VALUES.release(values[:2])
    noisy = DiscreteLaplace(1, 1000).release(pa.array([None] * 1000, pa.int16()), missing=7, clamp=(0, 100))
    assert len(set(noisy.to_pylist())) > 100


def test_what_missing_may_be():
    """A public integer that the column holds: all of uint64, and no more."""
    counts = pa.array([1, None], pa.uint64())
    assert (
        min(COUNTS.release(counts, missing=2**64 - 1, clamp=(2**64 - 3, 2**64 - 1), dtype=np.uint64).to_pylist()[1:])
        > 2**63
    )
    for wrong in (-1, 2**64):
        with pytest.raises(ParameterError, match=f"^missing must be of the type of counts, uint64, got {wrong}$"):
            COUNTS.release(counts, missing=wrong, clamp=(wrong, wrong))
    with pytest.raises(DTypeError, match="^missing must be an int, "):
        VALUES.release(counts, missing=0.5, clamp=(0, 1))


# ------------------------------------------------------------------ refused


class Custom(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.int64(), "dpfast.test")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, data):
        return cls()


REFUSED = [
    (lambda: pa.table({"a": [91]}), "a column, not Table$"),
    (lambda: pa.table({"a": [91]}).to_batches()[0], "a column, not RecordBatch$"),
    (lambda: pa.scalar(91), "a column, not Int64Scalar$"),
    (lambda: pa.py_buffer(b"91"), "a column, not Buffer$"),
    (lambda: pa.field("a", pa.int64()), "a column, not Field$"),
    (lambda: pa.array([True]), "not bool$"),
    (lambda: pa.nulls(91), "not null$"),
    (lambda: pa.array(["91"]), "not string$"),
    (lambda: pa.array([Decimal("91")]), r"not decimal128"),
    (lambda: pa.array([91]).dictionary_encode(), "not dictionary"),
    (lambda: pa.chunked_array([pa.array([91]).dictionary_encode()]), "not dictionary"),
    (lambda: pa.array([dt.date(1991, 1, 1)]), "not date32"),
    (lambda: pa.array([91], pa.time64("us")), "not time64"),
    (lambda: pa.array([91], pa.timestamp("s")), "not timestamp"),
    (lambda: pa.array([91], pa.duration("s")), "not duration"),
    (lambda: pa.array([[91]]), "not list"),
    (lambda: pa.array([[91]], pa.list_(pa.int64(), 1)), "not fixed_size_list"),
    (lambda: pa.array([{"a": 91}]), "not struct"),
    (lambda: pa.ExtensionArray.from_storage(Custom(), pa.array([91])), "not extension"),
    (lambda: pa.RunEndEncodedArray.from_arrays([1], [91]), "not run_end_encoded"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("mech", [COUNTS, VALUES], ids=lambda m: m.NAME)
def test_refused(make, message, mech):
    """What is no column of numbers, by a message that names the type and never a count."""
    with pytest.raises(DTypeError, match=message) as caught:
        mech.release(make())
    assert not re.search("91", str(caught.value))


def test_the_law_and_the_column_must_agree():
    """Counts to an integer law, floats to a real one, as for NumPy; half floats to none."""
    with pytest.raises(DTypeError, match="^counts must be of an integer dtype .* not float64"):
        COUNTS.release(pa.array([1.0]))
    with pytest.raises(DTypeError, match="^values must be of float64 or float32, not int64"):
        VALUES.release(pa.array([1]))
    with pytest.raises(DTypeError, match="not float16"):
        VALUES.release(pa.array(np.ones(2, np.float16)))
    with pytest.raises(ParameterError, match="^out is for NumPy arrays"):
        COUNTS.release(pa.array([1]), out=np.zeros(1, np.int64))


# ------------------------------------------------------------------ parts, copies, failures


def test_chunks_as_parts_are_not_the_column():
    """A column is one part, in however many chunks; start counts on over columns as over arrays."""
    column, key = pa.chunked_array([range(50), range(50, 100)]), Key.generate().derive("visits")
    noisy = COUNTS.release(column, key=key, start=0)
    assert noisy.to_pylist() == COUNTS.release(np.arange(100), key=key, start=0).tolist()
    with pytest.raises(DpfastError, match="^release key 'visits'"):
        COUNTS.release(column.chunk(1), key=key, start=50)


@pytest.mark.parametrize("kind", [*INTEGERS, *REALS], ids=str)
def test_nothing_is_copied(kind):
    """The engine reads Arrow's memory, of a slice and of a single chunk too, and the result is what it wrote."""
    whole = pa.array([None, *range(99)], kind)
    for values in (whole[1:], whole[7:50], pa.chunked_array([whole[7:50]])):
        spy = Spy()
        noisy = adapters.releaser(values, None)(spy.release, values, {"missing": None})
        source, made = (x.chunk(0) if isinstance(x, pa.ChunkedArray) else x for x in (values, noisy))
        assert spy.given.__array_interface__["data"][0] == address(source)
        assert spy.made.__array_interface__["data"][0] == address(made)


def test_memory_of_a_large_column():
    """Beside the result, nothing of the column's size; of two chunks one copy. By pyarrow's own count of bytes and NumPy's."""
    import tracemalloc

    column = pa.array(np.arange(2**20))
    COUNTS.release(column)
    for values, copies in ((column, 0), (pa.chunked_array([column[: 2**19], column[2**19 :]]), 1)):
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            noisy = COUNTS.release(values, threads=1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert noisy.nbytes == 2**23
        assert peak < (1 + copies) * 2**23 + 2**20
        assert pa.total_allocated_bytes() - before < 2**16


def test_a_failure_gives_nothing(monkeypatch):
    """A kernel that has written counts when it fails: no column, and what was written is zero."""
    written = []

    def planted(x, y, *rest):
        y[:] = x
        written.append(y)
        raise RuntimeError("planted")

    counts = np.full(5000, 91)
    monkeypatch.setattr(kernels, "kernel", lambda name: planted)
    for values, mech in (
        (pa.array(counts), COUNTS),
        (pa.chunked_array([counts, counts]), COUNTS),
        (pa.array(counts / 1), VALUES),
    ):
        with pytest.raises(RuntimeError, match="^planted$"):
            mech.release(values)
    assert len(written) == 3 and not any(y.any() for y in written)
    assert (counts == 91).all()
