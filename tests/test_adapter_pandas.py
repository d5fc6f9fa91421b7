# SPDX-License-Identifier: Apache-2.0
"""pandas: a Series in, a Series out, of what NumPy would have made of it; the rest refused."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")  # for pandas's Arrow columns

import pandas as pd
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
    Snapping,
    adapters,
    kernels,
)
from dpfast.testing import fixed_key

COUNTS, VALUES = DiscreteLaplace(1, 3), Laplace(1, 3)
WIDE = DiscreteLaplace(1, 2**40)  # a cell comes out as it went in with probability 2^-41
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NULLABLE = [name.replace("int", "Int").replace("u", "U") for name in INTEGERS]
ARROW = [f"{name}[pyarrow]" for name in INTEGERS]


def keyed(values, mech=COUNTS, start=0, **options):
    """A release whose noise is a function of what NumPy would have been given."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(values, key=fixed_key(7).derive("pandas"), start=start, **options)


class Spy:
    """A mechanism that remembers what reaches the engine, and what comes out."""

    def release(self, array, **options):
        if type(array) is not np.ndarray:
            return adapters.releaser(array, None)(self.release, array, options)
        self.given, self.made = array, (COUNTS if array.dtype.kind in "iu" else VALUES).release(array, **options)
        return self.made


def memory(values, dtype):
    """Where the cells of a Series lie."""
    if isinstance(values.dtype, pd.ArrowDtype):
        (chunk,) = values.array.__arrow_array__().chunks
        return chunk.to_numpy()
    return values.to_numpy(dtype=dtype, copy=False)


# ------------------------------------------------------------------ the same kind


@pytest.mark.parametrize(("dtype", "made"), [*((d, "int64") for d in INTEGERS), *((d, "Int64") for d in NULLABLE),
                                             *((d, "int64[pyarrow]") for d in ARROW)])  # fmt: skip
def test_a_series_of_any_integers(dtype, made):
    """Index and name are kept, the family of the dtype too, and the values are those of the NumPy release."""
    counts = pd.Series(range(100), index=pd.RangeIndex(5, 205, 2, name="at"), name="visits", dtype=dtype)
    counts.attrs["total"] = 4950
    noisy = keyed(counts)
    assert type(noisy) is pd.Series
    assert noisy.dtype == made
    assert noisy.index.is_(counts.index) and noisy.index.name == "at" and noisy.name == "visits"
    assert noisy.attrs == {}
    assert noisy.tolist() == keyed(np.arange(100)).tolist()
    assert counts.tolist() == list(range(100))
    assert keyed(counts, dtype=np.uint8).dtype == made.replace("int64", "uint8").replace("Int64", "UInt8")
    assert keyed(counts, lower=3, upper=9).between(3, 9).all()
    assert (WIDE.release(counts) != counts).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "Float32", "double[pyarrow]", "float[pyarrow]"])
@pytest.mark.parametrize("mech", [VALUES, Gaussian(2), Snapping(1, 3, bound=64)], ids=lambda m: m.NAME)
def test_a_series_of_any_floats(dtype, mech):
    """A real dtype stays."""
    numbers = np.linspace(-5, 5, 100).astype("f4" if "32" in dtype or dtype.startswith("float[") else "f8")
    values = pd.Series(numbers, index=list(map(str, range(100))), name=3).astype(dtype)
    noisy = keyed(values, mech)
    assert noisy.dtype == dtype
    assert noisy.index.is_(values.index) and noisy.name == 3
    assert noisy.tolist() == keyed(numbers, mech).tolist()
    assert keyed(values, mech, dtype=np.float32).dtype.kind == "f"


def test_every_mechanism_and_every_index():
    """A histogram as people make it: labelled by city and day, an empty one too."""
    index = pd.MultiIndex.from_product([["Ulm", "Bonn"], pd.date_range("2024-01-01", periods=3)], names=["city", "day"])
    for mech in (COUNTS, DiscreteGaussian(2)):
        noisy = mech.release(pd.Series(range(6), index))
        assert noisy.index.is_(index) or noisy.index.identical(index)
        assert noisy.loc[("Bonn", "2024-01-02")].dtype == np.int64
    empty = COUNTS.release(pd.Series([], dtype="Int64", name="n"))
    assert (len(empty), empty.dtype, empty.name) == (0, "Int64", "n")
    ones = pd.Series(1, index=["a", "a", "b"])  # a label may stand twice
    assert COUNTS.release(ones).index.tolist() == ["a", "a", "b"]


def everything(index):
    """What an index holds, shown or not."""
    levels = index.levels if isinstance(index, pd.MultiIndex) else [index]
    return [*(label for level in levels for label in getattr(level, "categories", level))]


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_tuples([("a", 1), ("SECRET", 2), ("b", 3)], names=["who", "n"]),
        pd.CategoricalIndex(["a", "SECRET", "b"], name="who"),
        pd.CategoricalIndex(["a", "SECRET", "b"], ["SECRET", "b", "a"], ordered=True),
        pd.MultiIndex.from_arrays([pd.Categorical(["a", "SECRET", "b"]), [1, 2, 3]]),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]"])
def test_labels_that_no_row_has_do_not_come_along(index, dtype):
    """A filtered Series still holds what was filtered out; its release holds the labels of its rows alone."""
    values = pd.Series([50, 3, 20], index, dtype=dtype)[np.array([True, False, True])]
    assert "SECRET" in everything(values.index)
    noisy = COUNTS.release(values)
    assert "SECRET" not in everything(noisy.index)
    assert b"SECRET" not in pickle.dumps(noisy)
    assert noisy.index.tolist() == values.index.tolist()
    assert noisy.index.names == values.index.names
    assert "SECRET" in everything(values.index), "the caller's index is the caller's"
    if isinstance(index, pd.CategoricalIndex):
        kept = [label for label in index.categories if label != "SECRET"]
        assert (noisy.index.ordered, noisy.index.categories.tolist()) == (index.ordered, kept)


def test_a_subclass_is_a_series():
    """Of whatever module, and what comes back is pandas's own."""

    class Visits(pd.Series):
        @property
        def _constructor(self):
            return Visits

    noisy = keyed(Visits([1, 2, 3], index=list("abc")))
    assert type(noisy) is pd.Series
    assert noisy.tolist() == keyed([1, 2, 3]).tolist()
    assert noisy.index.tolist() == ["a", "b", "c"]


@given(
    cells=st.lists(st.none() | st.integers(0, 100), max_size=40),
    kind=st.sampled_from([*NULLABLE, *ARROW]),
    cut=st.slices(40).filter(lambda cut: (cut.step or 1) > 0),  # backwards, pandas 2.2 itself fails on Arrow
    missing=st.integers(0, 100),
)
@settings(max_examples=150, deadline=None)
def test_nulls_and_slices(cells, kind, cut, missing):
    """A null is the public number, with noise like any cell; nothing comes back null."""
    counts = pd.Series(cells, dtype=kind)[cut]
    if counts.hasnans:
        with pytest.raises(ParameterError, match="^counts must not hold nulls; missing="):
            COUNTS.release(counts)
    mech = DiscreteLaplace(1, 100)
    noisy = keyed(counts, mech, missing=missing, clamp=(0, 100))
    assert not noisy.isna().any()
    plain = np.array([missing if c is None else c for c in cells], np.int64)[cut]
    assert noisy.tolist() == keyed(plain, mech, clamp=(0, 100)).tolist()
    assert noisy.index.identical(counts.index)


def test_nulls_among_floats():
    """NaN, NA and null are all NaN to the mechanism, which has its own rule."""
    cells = [1.5, None, float("nan"), 4.0]
    expected = keyed(np.array([1.5, np.nan, np.nan, 4.0]), VALUES, missing=2.5, clamp=(0, 5)).tolist()
    for dtype in ("float64", "Float64", "double[pyarrow]"):
        values = pd.Series(cells, dtype=dtype)
        assert keyed(values, VALUES, missing=2.5, clamp=(0, 5)).tolist() == expected
        with pytest.raises(ParameterError, match="^values must be finite; missing="):
            VALUES.release(values)


def test_what_missing_may_be():
    """A public integer that the column holds; checked for NumPy too, where it changes nothing."""
    counts = pd.Series([1, None], dtype="UInt8")
    for wrong in (-1, 256):
        with pytest.raises(ParameterError, match=f"^missing must be of the type of counts, uint8, got {wrong}$"):
            COUNTS.release(counts, missing=wrong, clamp=(wrong, wrong))
    for wrong in (1.0, "0", True, None):
        with pytest.raises(DpfastError):
            COUNTS.release(counts, missing=wrong)
    with pytest.raises(DTypeError, match="^missing must be an int, "):
        VALUES.release(counts, missing=0.5, clamp=(0, 1))
    with pytest.raises(DTypeError, match="^missing must be an int, "):
        COUNTS.release(np.arange(3), missing=0.5)
    with pytest.raises(ParameterError, match="^missing must come with clamp"):
        COUNTS.release(np.arange(3), missing=5)
    assert keyed(np.arange(3), missing=0).tolist() == keyed(np.arange(3)).tolist()


def test_a_null_gets_noise():
    """Its cell is not the public number: of 1,000 equal nulls, 100 different values at least."""
    noisy = DiscreteLaplace(1, 1000).release(pd.Series([None] * 1000, dtype="Int64"), missing=7, clamp=(0, 100))
    assert noisy.nunique() > 100


# ------------------------------------------------------------------ refused


REFUSED = [
    (lambda: pd.DataFrame({"a": [91], "b": [91]}), r"a Series, not DataFrame: .* frame\.stack\(\)$"),
    (lambda: pd.Index([91]), "not Index: labels are kept as they are"),
    (lambda: pd.RangeIndex(91), "not RangeIndex: labels are kept as they are"),
    (lambda: pd.DataFrame({"a": [91]}).groupby("a"), "not DataFrameGroupBy"),
    (lambda: pd.array([91, 2]), "not IntegerArray"),
    (lambda: pd.NA, "not NAType"),
    (lambda: pd.Timestamp(91), "not Timestamp"),
    (lambda: pd.Series([91], dtype="category"), "dense, not category$"),
    (lambda: pd.Series([91], dtype="Sparse[int64]"), r"dense, not Sparse\[int64"),
    (lambda: pd.Series([True]), "not bool$"),
    (lambda: pd.Series([True], dtype="boolean"), "not boolean$"),
    (lambda: pd.Series([True], dtype="bool[pyarrow]"), "not bool$"),
    (lambda: pd.Series([91], dtype=object), "not object$"),
    (lambda: pd.Series([91, None], dtype=object), "not object$"),
    (lambda: pd.Series(["91"]), "not (str|object)$"),
    (lambda: pd.Series([91 + 1j]), "not complex128"),
    (lambda: pd.Series([91], dtype="datetime64[ns]"), "not datetime64"),
    (lambda: pd.Series([91], dtype="datetime64[ns, UTC]"), "not datetime64"),
    (lambda: pd.Series([91], dtype="timedelta64[ns]"), "not timedelta64"),
    (lambda: pd.Series(pd.period_range("2024", periods=2, freq="D")), r"not period\[D\]"),
    (lambda: pd.Series(pd.interval_range(0, 91)), "not interval"),
    (lambda: pd.Series([91], dtype=pd.ArrowDtype(pa.decimal128(5))), "not decimal128"),
    (lambda: pd.Series([91], dtype=pd.ArrowDtype(pa.duration("s"))), "not duration"),
    (lambda: pd.Series([91], dtype=pd.ArrowDtype(pa.date32())), "not date32"),
    (lambda: pd.Series(pd.arrays.ArrowExtensionArray(pa.array([91]).dictionary_encode())), "not dictionary"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("mech", [COUNTS, VALUES], ids=lambda m: m.NAME)
def test_refused(make, message, mech):
    """What is no Series of numbers, by a message that names type or dtype and never a count."""
    with pytest.raises(DTypeError, match=message) as caught:
        mech.release(make())
    assert not re.search("91", str(caught.value))


def test_the_law_and_the_column_must_agree():
    """Counts to an integer law, floats to a real one, as for NumPy; half floats to none."""
    with pytest.raises(DTypeError, match="^counts must be of an integer dtype .* not float64"):
        COUNTS.release(pd.Series([1.0]))
    with pytest.raises(DTypeError, match="^values must be of float64 or float32, not int64"):
        VALUES.release(pd.Series([1], dtype="Int64"))
    with pytest.raises(DTypeError, match="not float16"):
        VALUES.release(pd.Series([1], dtype="float16"))


def test_out_is_for_numpy():
    """No writing into a Series, and none from a Series into an array."""
    counts = pd.Series([1, 2, 3])
    for out in (counts, np.zeros(3, np.int64)):
        with pytest.raises(ParameterError, match="^out is for NumPy arrays: a release of Series makes a new one$"):
            COUNTS.release(counts, out=out)
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        COUNTS.release(np.zeros(3, np.int64), out=counts)
    assert counts.tolist() == [1, 2, 3]


def test_a_version_out_of_range(monkeypatch):
    """Said clearly, at the import of the adapter."""
    with pytest.raises(ImportError, match=r"dpfast's adapter takes pandas >=99\.0, .* and found"):
        adapters.library("pandas", "pandas", ">=99.0")


# ------------------------------------------------------------------ parts, copies, failures


def test_parts_under_a_key():
    """start counts on as for arrays, and a part is on record: other data under its key is refused."""
    counts, key = pd.Series(range(100)), Key.generate().derive("visits")
    for part in (counts[:60], counts[60:]):
        noisy = COUNTS.release(part, key=key, start=int(part.index[0]))
        assert noisy.tolist() == COUNTS.release(part.to_numpy(), key=key, start=int(part.index[0])).tolist()
    with pytest.raises(DpfastError, match="^release key 'visits'"):
        COUNTS.release(counts + 1, key=key, start=0)


@pytest.mark.parametrize(
    "dtype", ["int64", "int8", "float64", "Int64", "UInt16", "Float32", "int64[pyarrow]", "double[pyarrow]"]
)
def test_nothing_is_copied(dtype):
    """What the engine reads is the column's memory, also of a slice; what it made is the result's."""
    whole = pd.Series(range(100)).astype(dtype)
    for values in (whole, whole[10:50]):
        spy = Spy()
        noisy = adapters.releaser(values, None)(spy.release, values, {"missing": None})
        for kept, seen in ((values, spy.given), (noisy, spy.made)):
            plain = kept.to_numpy(dtype=seen.dtype, copy=False)
            assert seen.__array_interface__["data"][0] == plain.__array_interface__["data"][0]
    assert len(spy.given) == 40


def test_a_reversed_column_is_a_view():
    """Strides go to the engine as they are."""
    values, spy = pd.Series(range(100))[::-2], Spy()
    adapters.releaser(values, None)(spy.release, values, {"missing": None})
    assert spy.given.strides == (-16,)
    assert keyed(values).tolist() == keyed(np.arange(100)[::-2]).tolist()


def test_a_failure_gives_nothing(monkeypatch):
    """A kernel that has written counts when it fails: no Series, and what was written is zero."""
    written = []

    def planted(x, y, *rest):
        y[:] = x
        written.append(y)
        raise RuntimeError("planted")

    counts = pd.Series(np.full(5000, 91))
    monkeypatch.setattr(kernels, "kernel", lambda name: planted)
    for values, mech in ((counts, COUNTS), (counts.astype("Int64"), COUNTS), (counts.astype("float64"), VALUES)):
        with pytest.raises(RuntimeError, match="^planted$"):
            mech.release(values)
    assert len(written) == 3 and not any(y.any() for y in written)
    assert (counts == 91).all()
