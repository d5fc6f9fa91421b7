# SPDX-License-Identifier: Apache-2.0
"""Columns of pyarrow, pandas, Polars and torch: a column in, a column out, NumPy's values."""

from __future__ import annotations

import re

import numpy as np
import pytest
from columns import (
    COUNTS,
    INTEGERS,
    LIBRARIES,
    REALS,
    REFUSED,
    VALUES,
    WIDE,
    Spy,
    absent,
    address,
    each,
    each_library,
    failing_kernels,
    fixed,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import SEALED_ROWS

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Key, Laplace, Snapping
from dpfast.errors import DpfastError, DTypeError, KeyReuseError, OtherInputError, ParameterError

# ------------------------------------------------------------------ the same kind


@each(dtypes=INTEGERS)
def test_integers(library, dtype) -> None:
    """int64 of the family, or dtype; attributes are kept, the input is unchanged."""
    counts = library.column(range(100), library.kinds[dtype], [30, 30])
    noisy = fixed(counts)
    assert library.kept(noisy, counts)
    assert library.kind(noisy) == library.kinds["int64"]
    assert library.cells(noisy) == fixed(np.arange(100)).tolist()
    assert library.kind(fixed(counts, dtype="u1")) == library.kinds["uint8"]
    assert library.cells(fixed(counts, dtype=">i4")) == library.cells(noisy)
    assert {3, 9} <= set(library.cells(fixed(counts, lower=3, upper=9))) <= set(range(3, 10))
    assert not any(a == b for a, b in zip(library.cells(WIDE.release(counts)), range(100), strict=True))
    assert library.cells(counts) == list(range(100))


@each(dtypes=REALS)
@pytest.mark.parametrize("mech", [VALUES, Gaussian(2), Snapping(1, 3, bound=64)], ids=lambda m: m.NAME)
def test_reals(library, dtype, mech) -> None:
    numbers = np.linspace(-5, 5, 100).astype(dtype)
    values = library.column(numbers.tolist(), library.kinds[dtype], [7])
    noisy = fixed(values, mech)
    assert library.kept(noisy, values)
    assert library.kind(noisy) == library.kinds[dtype]
    assert library.cells(noisy) == fixed(numbers, mech).tolist()
    assert library.kind(fixed(values, mech, dtype=np.float32)) == library.kinds["float32"]


@each(dtypes=["int64", "float32", "float64"])
def test_no_cells(library, dtype) -> None:
    for mech in (COUNTS, DiscreteGaussian(1)) if dtype == "int64" else (VALUES, Gaussian(1)):
        empty = library.column([], library.kinds[dtype], [])
        noisy = mech.release(empty)
        assert library.kept(noisy, empty)
        assert (library.cells(noisy), library.kind(noisy)) == ([], library.kinds[dtype])


# ------------------------------------------------------------------ nulls, slices, chunks


@each_library
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_nulls_slices_and_chunks(library, data) -> None:
    """A null is the public number, with noise like any cell; no null comes back, however cut."""
    dtype = data.draw(st.sampled_from([*library.kinds]))
    # Hypothesis draws bytes at once, and a list cell by cell.
    drawn = data.draw(st.binary(max_size=40))
    cells = [None if each > 150 and dtype in library.nullable else each % 101 for each in drawn]
    begin = data.draw(st.lists(st.integers(0, 40), max_size=4))
    cut = data.draw(st.slices(40).filter(lambda cut: library.backwards or (cut.step or 1) > 0))
    missing = data.draw(st.integers(0, 100))
    values = library.cut(library.column(cells, library.kinds[dtype], begin), cut)
    mech = DiscreteLaplace(1, 100) if dtype in INTEGERS else Laplace(1, 100)
    if None in cells[cut]:
        with pytest.raises(ParameterError, match="^(counts must not contain nulls|values must be finite); missing="):
            mech.release(values)
    noisy = fixed(values, mech, missing=missing, clamp=(0, 100))
    plain = np.array([(missing if dtype in INTEGERS else np.nan) if c is None else c for c in cells], dtype)[cut]
    assert library.kept(noisy, values)
    # Cells that run backwards meet the draws backwards, unless the library has copied them.
    ways = [fixed(cells_, mech, missing=missing, clamp=(0, 100)).tolist() for cells_ in (plain, plain.copy())]
    assert library.cells(noisy) in ways


@each(dtypes=REALS, nullable=True)
def test_nulls_and_nan(library, dtype) -> None:
    """A real law takes a public number for nulls, NaN and infinities, or refuses them."""
    values = library.column([1.0, None, float("nan"), float("inf")], library.kinds[dtype], [])
    public = {"missing": 2, "clamp": (0, 5)}
    plain = np.array([1, np.nan, np.nan, np.inf], dtype)
    assert library.cells(fixed(values, VALUES, **public)) == fixed(plain, VALUES, **public).tolist()
    for cut in (values, library.cut(values, slice(2))):
        with pytest.raises(ParameterError, match="^values must be finite; missing="):
            VALUES.release(cut)


@each(dtypes=INTEGERS, nullable=True)
def test_what_missing_may_be(library, dtype) -> None:
    """A public integer that the column holds, up to its type's ends, gets noise like any cell."""
    counts, ends = library.column([1, None], library.kinds[dtype], []), np.iinfo(dtype)
    noisy = COUNTS.release(counts, missing=ends.max, clamp=(ends.max - 2, ends.max), dtype=dtype)
    assert library.cells(noisy)[1] > ends.max // 2  # 60 is 20 scales away: a chance below 1e-8
    for wrong in (ends.min - 1, ends.max + 1):
        with pytest.raises(ParameterError, match=f"^missing must be of the type of counts, {dtype}, got {wrong}$"):
            COUNTS.release(counts, missing=wrong, clamp=(wrong, wrong))
    for wrong in (1.0, "0", True, None):
        with pytest.raises(DpfastError):
            COUNTS.release(counts, missing=wrong)
    with pytest.raises(DTypeError, match="^missing must be an int, "):
        VALUES.release(counts, missing=0.5, clamp=(0, 1))
    nulls = library.column([None] * 1000, library.kinds[dtype], [])
    many = DiscreteLaplace(1, 1000).release(nulls, missing=7, clamp=(0, 100))
    assert len(set(library.cells(many))) > 100


def test_missing_is_checked_for_numpy_too() -> None:
    with pytest.raises(DTypeError, match="^missing must be an int, "):
        COUNTS.release(np.arange(3), missing=0.5)
    with pytest.raises(ParameterError, match="^missing must come with clamp"):
        COUNTS.release(np.arange(3), missing=5)
    assert fixed(np.arange(3), missing=0).tolist() == fixed(np.arange(3)).tolist()


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(make, message, id=f"{library.name} {message}", marks=absent(library))
        for library in LIBRARIES
        for make, message in REFUSED.get(library.name, [])
    ],
)
@pytest.mark.parametrize("mech", [COUNTS, VALUES], ids=lambda m: m.NAME)
def test_refused(make, message, mech) -> None:
    """What is no column of numbers, by a message that names the type and never a count."""
    with pytest.raises(DTypeError, match=message) as caught:
        mech.release(make())
    assert not re.search("91", str(caught.value))


@each()
def test_the_law_and_the_column_must_agree(library, dtype) -> None:
    column = library.column([1], library.kinds[dtype], [])
    mech, rule = (VALUES, "values must be of float64 or float32,") if dtype in INTEGERS else (COUNTS, "counts must be of an integer dtype .*")  # fmt: skip
    with pytest.raises(DTypeError, match=f"^{rule} not {dtype}"):
        mech.release(column)


@each_library
def test_out_is_for_numpy(library) -> None:
    counts = library.column([1, 2, 3], library.kinds["int64"], [])
    kind = type(counts).__name__
    for out in (counts, np.zeros(3, np.int64)):
        with pytest.raises(ParameterError, match=f"^out is for NumPy arrays: a release of {kind} makes a new one$"):
            COUNTS.release(counts, out=out)
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        COUNTS.release(np.zeros(3, np.int64), out=counts)
    assert library.cells(counts) == [1, 2, 3]


# ------------------------------------------------------------------ parts, copies, failures


@each_library
def test_a_column_under_a_key(library) -> None:
    """As the array of its numbers, by one call or blocks, chunks or not; other data are refused."""
    whole, n = library.column(range(70_000), library.kinds["int64"], [60_000]), 70_000
    key = Key.generate().derive("visits")
    noisy = library.cells(COUNTS.release(whole, key=key))
    names = whole.index if hasattr(whole, "iloc") else None  # pandas's
    assert noisy == COUNTS.release(np.arange(n), key=key, names=names, resume=True).tolist()
    blocks = [library.cut(whole, slice(0, SEALED_ROWS)), library.cut(whole, slice(SEALED_ROWS, None))]
    digester = key.digester(COUNTS)
    seal = key.seal(COUNTS, [digester(j, block) for j, block in enumerate(blocks)], shape=(n,))
    sealed = seal.without_ledger(resume=True)
    assert [cell for j, block in enumerate(blocks) for cell in library.cells(sealed.release(j, block))] == noisy
    other = library.column(range(1, n + 1), library.kinds["int64"], [])
    with pytest.raises(OtherInputError, match="^'visits'"):
        COUNTS.release(other, key=key, resume=True)
    with pytest.raises(KeyReuseError, match="^'visits'"):
        COUNTS.release(whole, key=key)


@each()
def test_nothing_is_copied(library, dtype) -> None:
    """The engine reads the column's memory, slices and nulls too; the result is its output."""
    null = None if dtype in library.nullable else 0
    whole = library.column([null, *range(99)], library.kinds[dtype], [])
    for cut in (slice(1, None), slice(7, 50)):
        values, spy = library.cut(whole, cut), Spy()
        noisy = spy.release(values)
        assert address(spy.given) == library.memory(values)
        assert len(spy.given) == len(values)
        assert library.copies or address(spy.made) == library.memory(noisy)


@each_library
def test_a_failure_gives_nothing(library, monkeypatch) -> None:
    """A kernel that has written counts when it fails: no column, and what was written is zero."""
    written = failing_kernels(monkeypatch)
    for dtype, mech in (("int64", COUNTS), ("float64", VALUES)):
        counts = library.column([91] * 5000, library.kinds[dtype], [2500])
        with pytest.raises(RuntimeError, match="^planted$"):
            mech.release(counts)
        assert library.cells(counts) == [91] * 5000
    assert len(written) == 2
    assert not any(y.any() for y in written)
