# SPDX-License-Identifier: Apache-2.0
"""Arrays of counts and reals: every dtype and layout, one meaning; refusals that show no cell."""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from identifiers import named
from laws import fixed
from layouts import (
    FILLED,
    FLOATS,
    INTEGERS,
    LAYOUTS,
    NO_OUTPUT,
    SHAPES,
    SWAPPED,
    in_places,
    layouts,
    met,
    some_counts,
    some_values,
    views,
)

import dpfast
from dpfast import DiscreteLaplace, Laplace, Snapping
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.arrays import plain_runs
from dpfast.noise.release.layout import disjoint, memory_order, overlaps_itself, same_place

SECRET = 91  # a cell that no message may quote, and that fits every dtype
COUNTS, VALUES = DiscreteLaplace(1, 3), Laplace(1, 3, granularity=0.25)


class Kind(NamedTuple):
    """What is released: integers by one law, reals by another."""

    name: str  # the argument's
    rule: str  # what its dtype must be
    mech: Any
    some: Callable[..., np.ndarray]
    dtypes: list[np.dtype]
    wide: str  # a dtype of eight bytes, and one of four
    half: str

    def __str__(self) -> str:
        return self.name

    def fixed(self, values: object, **options: Any) -> np.ndarray:
        return fixed(self.mech, values, **options)

    def expected(self, values: np.ndarray, out: np.ndarray | None = None, **options: Any) -> np.ndarray:
        """The same by plain arrays alone: values in the order in which draws meet them."""
        order = met(values, out)
        if out is not None:
            options["dtype"] = out.dtype.newbyteorder("=")
        return in_places(self.fixed(values.reshape(-1)[order], **options), order, values.shape)


INTEGER = Kind("counts", "an integer dtype", COUNTS, some_counts, [*INTEGERS, *SWAPPED], "i8", "i4")
REAL = Kind("values", "float64 or float32", VALUES, some_values, FLOATS, "f8", "f4")
each = pytest.mark.parametrize("kind", [INTEGER, REAL], ids=str)


def of(integers: str, reals: str) -> pytest.MarkDecorator:
    """The dtypes of each kind."""
    cases = [(kind, dtype) for kind, names in ((INTEGER, integers), (REAL, reals)) for dtype in names.split()]
    return pytest.mark.parametrize(("kind", "dtype"), cases, ids=str)


def equal(found: np.ndarray, right: np.ndarray) -> bool:
    """Bit by bit, whatever the layout and byte order; of one shape and type."""
    kind = found.dtype.newbyteorder("=")
    return found.shape == right.shape and found.astype(kind).tobytes() == right.astype(kind).tobytes()


# ------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("dtype", INTEGER.dtypes, ids=str)
def test_every_integer_dtype_comes_in(dtype: np.dtype) -> None:
    """The result is int64 of the same shape, and equal counts of any dtype get equal noise."""
    for n in (50, 5000):
        counts = some_counts((n,))
        noisy = INTEGER.fixed(counts.astype(dtype))
        assert noisy.dtype == np.int64
        assert noisy.dtype.isnative
        assert noisy.tolist() == INTEGER.fixed(counts).tolist()
        assert noisy.tolist() != counts.tolist()


@pytest.mark.parametrize("dtype", INTEGER.dtypes, ids=str)
@pytest.mark.parametrize("given_", ["int64", "uint64", "uint8"])
def test_every_integer_dtype_comes_out(given_: str, dtype: np.dtype) -> None:
    """dtype= and out= give the same values, those of the int64 result clamped to the type."""
    for n in (50, 5000):
        counts = some_counts((n,))
        ends = np.iinfo(dtype)
        expected = [min(max(x, ends.min), ends.max) for x in INTEGER.fixed(counts).tolist()]
        made = INTEGER.fixed(counts.astype(given_), dtype=dtype)
        assert made.dtype == dtype
        assert made.tolist() == expected
        out = np.full(n, 77, dtype)
        assert INTEGER.fixed(counts.astype(given_), out=out) is out
        assert out.tolist() == expected
        assert INTEGER.fixed(counts.astype(given_), out=out, dtype=dtype) is out


@pytest.mark.parametrize(
    ("kind", "names", "dtype"),
    [
        (INTEGER, (np.int16, "int16", "<i2", np.short, np.dtype(np.int16)), np.int16),
        (INTEGER, (int, np.longlong, "q"), np.int64),
        (REAL, (np.float32, "float32", "f4", np.single, np.dtype("f4")), np.float32),
        (REAL, (float, np.double, "d"), np.float64),
    ],
    ids=str,
)
def test_dtypes_by_any_name(kind: Kind, names: tuple[Any, ...], dtype: Any) -> None:
    """dtype= takes what np.dtype takes: a type, a string, Python's own, C's names."""
    for name in names:
        assert kind.mech.release(np.ones(3, kind.half), dtype=name).dtype == dtype


@pytest.mark.parametrize("n", [1, 5000])
def test_a_second_type_of_64_bits(n: int) -> None:
    """C's long long, which on Linux is another type than int64."""
    counts = some_counts((n,))
    for given_, made in itertools.product((np.longlong, np.ulonglong), repeat=2):
        expected = INTEGER.fixed(counts, dtype=np.dtype(made).str)
        assert np.array_equal(INTEGER.fixed(counts.astype(given_), dtype=made), expected)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        *((INTEGER, x) for x in ([3, 4, 5], (3, 4, 5), [np.int8(3), 4, 5], [[3, 4], [5, 6]], 7, np.int16(7), range(5), [2**64 - 1, 2**63], memoryview(b"abc"))),
        *((REAL, x) for x in ([3.5, 4.0], (3.5, 4), [[3.5], [4.5]], 7.25, np.float32(7.25), np.float64(3))),
    ],
    ids=named,
)  # fmt: skip
def test_sequences_are_arrays(kind: Kind, cells: Any) -> None:
    """Lists, ranges and buffers get what the array of them gets, and a single number a number."""
    noisy = kind.fixed(cells)
    assert isinstance(noisy, np.ndarray if np.ndim(cells) else np.generic)
    assert noisy.shape == np.shape(cells)
    assert noisy.tolist() == kind.fixed(np.asarray(cells)).tolist()


NO_NUMBERS = [
    np.array([True, False]), np.array([91], np.float16), np.array([91], np.longdouble), np.array([91 + 1j]), np.array([SECRET, None]),
    np.array([SECRET], object), np.array(["91"]), np.array([b"91"]), np.array(["2091-09-19"], "datetime64[D]"),
    np.array([SECRET], "timedelta64[s]"), np.array([(SECRET, 1)], [("a", "i8"), ("b", "i8")]), [SECRET, None], [True], ["91"], "91", b"91", None,
    {SECRET: 1}, {SECRET}, object(),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        *((kind, bad) for kind in (INTEGER, REAL) for bad in NO_NUMBERS),
        *((INTEGER, bad) for bad in (np.array([91.0, 91.5]), [91.0], [SECRET, 2**64], 91.5)),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)  # fmt: skip
def test_other_kinds_of_data_are_refused(kind: Kind, bad: Any) -> None:
    """One DTypeError that names the argument and the dtype, and shows no cell."""
    for mech in (kind.mech, Snapping(1, 1, bound=8)) if kind is REAL else (kind.mech,):
        with pytest.raises(DTypeError, match=f"^{kind} must be of {kind.rule}") as caught:
            mech.release(bad)
        assert "91" not in str(caught.value)


@each
def test_ragged_lists_are_refused(kind: Kind) -> None:
    """Rows of different length are one clear error too."""
    with pytest.raises(DTypeError, match=f"^{kind} must be of {kind.rule} and make one array") as caught:
        kind.mech.release([[SECRET, 1], [2]])
    assert "91" not in str(caught.value)


@each
def test_masked_arrays_are_refused(kind: Kind) -> None:
    """A mask says that some cells are not known; nobody invents them, as input or as output."""
    cells = np.array([SECRET, SECRET], kind.wide)
    masked = np.ma.array(cells, mask=[False, True])
    for bad in (masked, np.ma.array(cells)):
        with pytest.raises(DTypeError, match=f"^{kind} is a masked array") as caught:
            kind.mech.release(bad)
        assert "91" not in str(caught.value)
    with pytest.raises(DTypeError, match="^out is a masked array"):
        kind.mech.release(cells, out=masked)


# ------------------------------------------------------------------ shapes and layouts


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@of("i8 u8 i4 >i8", "f8 f4 >f8")
def test_every_shape(shape: tuple[int, ...], kind: Kind, dtype: str) -> None:
    """The shape comes back, from a number and 0 elements to three dimensions; in place, too."""
    cells = kind.some(shape, dtype)
    noisy = kind.fixed(cells)
    assert noisy.shape == shape
    assert isinstance(noisy, np.ndarray if shape else np.generic)
    assert equal(kind.fixed(cells, constant_time=True), noisy)
    assert equal(kind.fixed(cells.reshape(-1)).reshape(shape), noisy) or len(shape) != 1
    again = cells.copy()
    assert kind.fixed(again, out=again) is again
    if kind is INTEGER:
        ends = np.iinfo(dtype)
        noisy = np.array([min(max(x, ends.min), ends.max) for x in noisy.reshape(-1).tolist()], dtype).reshape(shape)
    assert equal(again, noisy)


@of("i8 u8 i4 u1", "f8 f4")
@pytest.mark.parametrize("shape", [(5, 6, 7), (17, 300), (9000,)], ids=str)
def test_any_layout(shape: tuple[int, ...], kind: Kind, dtype: str) -> None:
    """Any strides, order, alignment, byte order, in, out, in place: noise as of plain arrays."""
    for layout in LAYOUTS:
        same_noise(shape, kind, dtype, layout)


def same_noise(shape: tuple[int, ...], kind: Kind, dtype: str, layout: str) -> None:
    cells = kind.some(shape, dtype)
    view = layouts(cells)[layout]
    before = view.tobytes()
    assert equal(kind.fixed(view), kind.expected(view))
    assert equal(kind.fixed(view, constant_time=True), kind.expected(view))
    assert view.tobytes() == before
    if layout in NO_OUTPUT:
        return
    out, apart = (layouts(np.zeros(shape, dtype))[layout] for _ in range(2))
    assert kind.fixed(cells, out=out) is out
    assert equal(out, kind.fixed(cells, dtype=dtype))
    assert kind.fixed(view, out=apart, threads=2) is apart
    assert equal(apart, kind.expected(view, apart))
    expected = kind.expected(view, view)
    kind.fixed(view, out=view)
    assert equal(view, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@each
def test_a_new_result_lies_as_its_values_do(kind: Kind, layout: str) -> None:
    """If they fill a block of memory: such a result is written without a copy. Else in C order."""
    for shape in ((3, 4, 5), (30, 20, 10), (5001,), (6, 1, 7)):
        view = layouts(kind.some(shape, kind.wide))[layout]
        for options in ({}, {"lower": 0}, {"dtype": kind.half}):
            made = kind.mech.release(view, **options)
            if layout in FILLED:
                steps = [
                    (step // view.itemsize, step_ // made.itemsize)
                    for step, step_, length in zip(view.strides, made.strides, shape, strict=True)
                    if length > 1
                ]
                assert all(step == step_ for step, step_ in steps)
            else:
                assert made.flags.c_contiguous
            assert not np.shares_memory(made, view)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_order_makes_plain_pairs_or_nothing(layout: str) -> None:
    """Both views are turned alike, whatever the shape, and each element is seen once."""
    for into, shape in itertools.product(LAYOUTS, ((3, 4, 5), (6, 1, 7), (1, 9), (11,))):
        plain_pairs_or_nothing(layout, into, shape)


def plain_pairs_or_nothing(layout: str, into: str, shape: tuple[int, ...]) -> None:
    size = math.prod(shape)
    names = np.arange(size).reshape(shape)
    values, out = layouts(names)[layout], layouts(names)[into]
    found = memory_order(values, out)
    assert all(np.shares_memory(*pair) for pair in zip(found, (values, out), strict=True))
    assert found[0].tolist() == found[1].tolist()
    assert found[0].reshape(-1).tolist() == met(values, out).tolist()
    assert (found[0] is values) == (found[1] is out)
    assert found[0] is values or all(view.flags.c_contiguous for view in found)
    if layout == into and layout in FILLED:
        assert all(view.flags.c_contiguous for view in found)


@pytest.mark.parametrize("bulk", [False, True], ids=["few", "many"])
@each
def test_what_memory_order_leaves_alone(kind: Kind, bulk: bool) -> None:
    """Broadcast values, lone elements with strides of any kind, numbers, fields of records."""
    n = 5001 if bulk else 30
    lone = np.lib.stride_tricks.as_strided(kind.some((n, 2), kind.wide), (1, n, 1, 2), (-8, 16, 24, 8))
    records = np.zeros((n, 2), [("a", kind.wide), ("b", kind.half)], order="F")
    for name in records.dtype.names:
        records[name] = kind.some((n, 2))
    spread = np.broadcast_to(kind.some((2,), kind.wide), (n, 2))
    turned = np.broadcast_to(kind.some((n, 1), kind.wide), (n, 2)).T
    for values in (lone, records["a"], records["b"], spread, turned, np.array(7, kind.wide)):
        for out in (None, np.zeros(values.shape, kind.wide), np.zeros(values.shape, kind.wide, order="F")):
            plain = np.array(values, order="C", copy=True)
            found = np.asarray(kind.fixed(values, out=out))
            assert equal(found, np.asarray(kind.fixed(plain, dtype=found.dtype)))
    flat = lone.transpose(3, 2, 1, 0)
    assert equal(kind.fixed(flat), kind.expected(flat))
    assert not np.array_equal(met(flat), np.arange(flat.size))


@each
def test_draws_of_a_turned_array_are_used_once(kind: Kind) -> None:
    """Zeros in and one stream: the draws of a plain release, no more and no fewer of each."""
    mechanism = DiscreteLaplace(1, 2**40) if kind is INTEGER else Laplace(1, 2**40, granularity=1)
    for shape in ((30, 40), (300, 40)):
        plain = fixed(mechanism, np.zeros(math.prod(shape), kind.wide))
        assert len(set(plain.tolist())) == plain.size
        for layout in sorted(FILLED):
            zeros = layouts(np.zeros(shape, kind.wide))[layout]
            with tiers.small_pieces():  # and small shares
                alone = fixed(mechanism, zeros, threads=2)
            assert sorted(alone.reshape(-1).tolist()) == sorted(plain.tolist())
            assert sorted(fixed(mechanism, zeros, out=zeros).reshape(-1).tolist()) == sorted(plain.tolist())


@pytest.mark.parametrize("layout", sorted(FILLED))
@each
def test_undecided_draws_of_a_turned_array(kind: Kind, layout: str) -> None:
    """The exact tier finds their places, and adds to the values that lie there."""
    for shape in ((30, 40), (90, 60)):
        tiers.forget_equals()
        mechanism = DiscreteLaplace(1, 10**6) if kind is INTEGER else Laplace(1, 10**6, granularity=1)
        view = layouts(kind.some(shape, kind.wide))[layout]
        out = layouts(np.zeros(shape, kind.wide))[layout]
        expected = kind._replace(mech=mechanism).expected(view, out)
        tiers.narrow_margins(mechanism, 0.497)
        draws = tiers.bulk_plan(mechanism).fill(tiers.StreamKey(bytes(32)), 0, 5000, constant_work=True)
        assert draws.count(None) > 10  # 30 expected
        assert equal(fixed(mechanism, view), expected)
        fixed(mechanism, view, out=out)
        assert equal(out, expected)


@pytest.mark.parametrize("layout", sorted(FILLED))
@each
def test_a_failure_zeroes_a_turned_output(kind: Kind, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place and elsewhere: no value and no result is left, whatever the order."""
    shape = (64, 100)
    for in_place in (False, True):
        values = layouts(np.full(shape, SECRET, kind.wide))[layout]
        out = values if in_place else layouts(np.full(shape, 77, kind.wide))[layout]
        with monkeypatch.context() as patch:
            tiers.slabs_of(patch, 1000)
            left = iter(range(3))

            def broken(call: Callable[..., Any], _release: Any, *arguments: Any, left: Any = left) -> Any:
                if next(left, None) is None:
                    raise KeyboardInterrupt
                return call(*arguments)

            tiers.around_c(patch, broken)
            with pytest.raises(KeyboardInterrupt):
                kind.mech.release(values, out=out)
        assert not out.any()
        assert in_place or (values == SECRET).all()


@pytest.mark.parametrize(
    ("kind", "given_"), [(kind, dtype) for kind in (INTEGER, REAL) for dtype in kind.dtypes], ids=str
)
def test_every_pair_of_types_in_pieces(kind: Kind, given_: np.dtype) -> None:
    """Strides odd and negative, threads, starts inside a batch: what plain words give, cast."""
    cells = kind.some((5001,))
    for i, made in enumerate(kind.dtypes):
        threads, steps = 1 + i // 3 % 3, ((3, -2), (-1, 1), (-5, 7), (1, -3))[i % 4]
        expected = kind.fixed(cells.astype(kind.wide), dtype=made.newbyteorder("="))
        values, out = (
            np.zeros(abs(step) * cells.size, dtype)[::step] for step, dtype in zip(steps, (given_, made), strict=True)
        )
        values[...] = cells
        with tiers.small_pieces():
            kind.fixed(values, out=out, threads=threads)
        assert equal(out, expected)


@given(st.data())
@settings(max_examples=60)
def test_any_view_in_pieces(data: st.DataObject) -> None:
    """Several axes, each with a step of its own, turned or not; broadcast; in place."""
    kind = data.draw(st.sampled_from([INTEGER, REAL]))
    values, out = data.draw(views(kind.dtypes, 2))
    values[...] = kind.some(values.shape)
    threads = data.draw(st.integers(1, 3))
    expected, alone = kind.expected(values, out), kind.expected(values, values)
    with tiers.small_pieces():
        kind.fixed(values, out=out, threads=threads)
        assert equal(out, expected)
        row = values[:1]
        repeated = np.broadcast_to(row, values.shape)
        assert equal(kind.fixed(repeated), kind.expected(repeated))
        kind.fixed(values, out=values, threads=threads)
    assert equal(values, alone)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (1, 300)], ids=str)
@of("i4 u1 >i8", "f4 >f8")
def test_few_elements_in_pieces(shape: tuple[int, ...], kind: Kind, dtype: str) -> None:
    """No axis, no element, axes of one element."""
    cells = kind.some(shape, dtype)
    with tiers.small_pieces():
        found = kind.fixed(cells, out=np.empty(shape, dtype))
    assert equal(found, kind.fixed(kind.some(shape), dtype=found.dtype.newbyteorder("=")))


def test_undecided_draws_in_pieces() -> None:
    """The exact tier finds a place in a piece, and adds to the value that C read there."""
    mechanism = DiscreteLaplace(1, 10**6)
    expected = fixed(mechanism, counts := some_counts((5001,)))
    tiers.narrow_margins(mechanism, 0.497)
    out = np.zeros(3 * 5001, np.int64)[::-3]
    with tiers.small_pieces():
        fixed(mechanism, counts, out=out)
    assert equal(out, expected)


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt()], ids=["done", "interrupted"])
def test_the_pieces_leave_nothing_behind(failure: BaseException | None) -> None:
    """The words of a piece are zeros when a release is over, and when it has failed."""
    counts, out = np.full(5001, 77, np.int32), np.ones(5001, np.int64)
    with tiers.small_pieces(), tiers.scratch() as made:
        if failure is None:
            COUNTS.release(counts, out=out, threads=1)
        else:
            with tiers.stopped_after(3, failure), pytest.raises(KeyboardInterrupt):
                COUNTS.release(counts, out=out, threads=1)
    assert [words.size for words in made] == [64]
    assert not made[0].any()
    assert out.any() == (failure is None)


def test_a_stopped_piece_is_not_stored() -> None:
    """Counts that got no noise, because another thread failed, stay where they were."""
    counts, out = np.full(5001, 77, np.int32), np.zeros(5001, np.int64)
    with tiers.small_pieces(), tiers.stopped_after(3):
        DiscreteLaplace(1, 10**6).release(counts, out=out, threads=1)
    assert out[:100].any()
    assert not out[3 * 64 :].any()


@of("i8 i2 u8 >i4", "f8 f4 >f4")
@pytest.mark.parametrize("gap", [2, 3])
def test_gaps_of_a_strided_output_are_untouched(kind: Kind, dtype: str, gap: int) -> None:
    """Bytes beside the elements of out keep their values."""
    wide = np.full(gap * 5000, 55, dtype)
    kind.mech.release(kind.some((5000,)), out=wide[1::gap])
    kept = np.ones(wide.size, bool)
    kept[1::gap] = False
    assert (wide[kept] == 55).all()
    assert (wide[~kept] != 55).any()


@each
@pytest.mark.parametrize("shape", [(40,), (3, 4, 5000)], ids=str)
def test_broadcast_input(kind: Kind, shape: tuple[int, ...]) -> None:
    """Elements that share memory on the way in are one cell each, with noise of their own."""
    cells = np.broadcast_to(np.dtype(kind.wide).type(5), shape)
    assert cells.strides == (0,) * len(shape)
    noisy = kind.fixed(cells)
    assert equal(noisy, kind.fixed(np.full(shape, 5, kind.wide)))
    assert len(np.unique(noisy)) > 5
    rows = np.broadcast_to(np.arange(shape[-1]).astype(kind.wide), shape)
    assert equal(kind.fixed(rows), kind.fixed(rows.copy()))


@each
def test_memory_maps(kind: Kind, tmp_path: Path) -> None:
    """A mapped file is an input like any other, and as a plain view an output."""
    cells = kind.some((6000,))
    cells.tofile(tmp_path / "cells")
    read = np.memmap(tmp_path / "cells", kind.wide, "r")
    assert equal(kind.fixed(read), kind.fixed(cells))
    written = np.memmap(tmp_path / "noisy", kind.half, "w+", shape=(6000,))
    kind.fixed(read, out=np.asarray(written))
    written.flush()
    assert equal(np.fromfile(tmp_path / "noisy", kind.half), kind.fixed(cells, dtype=kind.half))
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        kind.mech.release(read, out=written)


@each
def test_subclasses_come_out_plain(kind: Kind) -> None:
    """A matrix or record array is read as the array that it is; a plain array comes back."""
    record = np.array([[1, 2], [3, 4]], kind.wide).view(np.recarray)
    assert type(kind.mech.release(record)) is np.ndarray
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        kind.mech.release(record, out=record)


@each
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_view_is_the_array_that_it_shows(kind: Kind, data: st.DataObject) -> None:
    """Random dtypes, shapes, slices, steps and transposes, in and out, against the plain copy."""
    given_, out, place = data.draw(views(kind.dtypes, 3))
    cells = kind.some(out.shape)
    given_[...] = place[...] = cells
    expected, alone = kind.expected(given_, out), kind.expected(place, place)
    kind.fixed(given_, out=out)
    kind.fixed(place, out=place)
    assert equal(out, expected)
    assert equal(place, alone)


# ------------------------------------------------------------------ one array in two roles


@pytest.mark.parametrize(
    ("kind", "dtype", "made"),
    [
        *((INTEGER, kinds[0] + size, kinds[1] + size) for size in "1248" for kinds in ("iu", "ui")),
        (REAL, "f8", "f8"), (REAL, "f4", "f4"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("swap", [False, True])
def test_in_place_under_another_dtype(kind: Kind, dtype: str, made: str, swap: bool) -> None:
    """out may be the cells' own memory as the other kind of integer, or in the other byte order."""
    cells = kind.some((5000,), dtype)
    expected = kind.fixed(cells, dtype=made)
    out = cells.view(made)
    if swap:
        out = out.view(out.dtype.newbyteorder())
    kind.fixed(cells, out=out)
    assert equal(out, expected)


@each
def test_in_place_large_enough_for_threads(kind: Kind) -> None:
    """A million cells in place, threaded, and as another dtype, are those into a fresh array."""
    cells = kind.some((2**20 + 13,))
    expected = kind.fixed(cells)
    for threads in (1, 2, 3, 64):
        copy = cells.copy()
        kind.fixed(copy, out=copy, threads=threads)
        assert equal(copy, expected)
    if kind is INTEGER:
        copy = cells.copy()
        kind.fixed(copy, out=copy.view(np.uint64), threads=2)
        assert np.array_equal(copy, np.maximum(expected, 0))


@of("i8 u8 i2 >i4", "f8 f4 >f4")
@pytest.mark.parametrize("step", [1, 2, -1])
def test_threads_do_not_meet(kind: Kind, dtype: str, step: int) -> None:
    """Threads, plain or through NumPy's buffers, each write their own cells and no other."""
    n = 2**19 + 2**18 + 77
    cells = kind.some((n,), dtype)
    expected = kind.fixed(cells, dtype=dtype)
    for threads in (2, 3):
        out = np.zeros(n * abs(step), dtype)[::step]
        kind.fixed(cells, out=out, threads=threads)
        assert equal(out, expected), threads
        out[:] = cells
        alone = kind.expected(out, out)
        kind.fixed(out, out=out, threads=threads)
        assert equal(out, alone), threads


@each
def test_partial_overlap_is_refused(kind: Kind) -> None:
    """out that shares memory with the cells, but not cell for cell, is refused and untouched."""
    base = np.full(200, SECRET, kind.wide)
    half, square = base.view(kind.half), base[:100].reshape(10, 10)
    pairs = [
        (base[:100], base[1:101]), (base[1:101], base[:100]), (base[:100], base[99:199]), (base[:100], base[:100][::-1]),
        (base[:100], base[::2]), (half[:200], base), (base[:100], half[:100]), (base[:100], half[1:101]),
        (half[::2][:50], half[2::2][:50]), (square, square.T), (square, square[::-1]),
        (np.broadcast_to(base[:1], (100,)), base[:100]), (base.view(np.uint8)[1:801].view(kind.wide), base[:100]),
    ]  # fmt: skip
    if kind is INTEGER:
        pairs.append((base.view(np.int8)[:100], base[:100]))
    for cells, out in pairs:
        assert cells.shape == out.shape
        with pytest.raises(ParameterError, match=f"^out must be {kind} itself or share no memory with it$"):
            kind.mech.release(cells, out=out)
    assert (base == SECRET).all()


@each
def test_disjoint_views_of_one_buffer_are_accepted(kind: Kind) -> None:
    """Interleaved, neighbouring and field views share no memory, though their spans cross."""
    base, halves = np.zeros(20000, kind.wide), np.zeros(20000, kind.half)
    table = np.zeros(10000, [("a", kind.wide), ("b", kind.wide), ("c", kind.half), ("d", "i2")])
    pairs = [
        (base[::2], base[1::2]), (base[1::2][::-1], base[::2]), (base[:10000], base[10000:]), (table["a"], table["b"]),
        (table["b"], table["c"]), (halves[::2], halves[1::2]), (base.reshape(100, 200)[:, :100], base.reshape(100, 200)[:, 100:]),
        (base.reshape(100, 200)[::2], base.reshape(100, 200)[1::2]),
    ]  # fmt: skip
    if kind is INTEGER:
        pairs.append((table["b"], table["d"]))
    for cells, out in pairs:
        cells[...] = kind.some(cells.shape)
        expected = kind.fixed(cells, dtype=out.dtype)
        kind.fixed(cells, out=out)
        assert equal(out, expected)
        assert np.array_equal(cells, kind.some(cells.shape))


@each
def test_out_whose_own_elements_overlap_is_refused(kind: Kind) -> None:
    """Two cells must not be written to one place."""
    strided = np.lib.stride_tricks.as_strided
    base = np.zeros(100, kind.wide)
    outs = [
        np.lib.stride_tricks.sliding_window_view(base, 10, writeable=True), strided(base, (50,), (0,), writeable=True),
        strided(base, (50,), (4,), writeable=True),
    ]  # fmt: skip
    if kind is INTEGER:
        outs.append(strided(base.view(np.uint8), (20, 20), (1, 1), writeable=True))
    for out in outs:
        with pytest.raises(ParameterError, match="^out must not have elements that share memory$"):
            kind.mech.release(np.zeros(out.shape, kind.wide), out=out)
    assert not base.any()
    small = base.view(np.int8 if kind is INTEGER else kind.half)
    kind.mech.release(np.zeros(8, kind.wide), out=strided(small, (8,), (small.itemsize,), writeable=True).view())
    assert not small[8:].any()


@given(
    strides=st.lists(st.integers(-12, 12), min_size=1, max_size=3),
    lengths=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    dtype=st.sampled_from(["i1", "i2", "i4"]),
)
@settings(max_examples=300, deadline=None)
def test_overlap_within_an_array_is_always_seen(strides: list[int], lengths: list[int], dtype: str) -> None:
    """Two elements on a byte fail; a reversed or transposed slice of a plain array passes."""
    shape = tuple(lengths[: len(strides)])
    buffer = np.zeros(2 * 12 * 4 * 3 + 8, np.uint8)
    middle = buffer[12 * 4 * 3 :].view(np.uint8)
    array = np.lib.stride_tricks.as_strided(middle[: middle.size // 4 * 4].view(dtype), shape, strides, writeable=True)
    places = [sum(s * i for s, i in zip(strides, at, strict=True)) for at in itertools.product(*map(range, shape))]
    touched = [place + byte for place in places for byte in range(array.itemsize)]
    if len(set(touched)) < len(touched):
        assert overlaps_itself(array)
    regular = np.zeros((5, 6, 7), dtype)[1:, ::-2, ::3].transpose(2, 0, 1)
    assert not overlaps_itself(regular)


def test_same_place_and_disjoint_exclude_each_other() -> None:
    """No pair of overlapping arrays passes for both, and axes of length one do not count."""
    base = np.zeros((4, 1, 5), np.int64)
    assert same_place(base, base.view(np.uint64))
    assert same_place(base, np.lib.stride_tricks.as_strided(base, base.shape, (40, 3, 8)))
    assert not disjoint(base, base)
    assert not same_place(base, base.copy())
    assert disjoint(base, base.copy())


# ------------------------------------------------------------------ an out= that does not fit


def refused_out() -> list[tuple[Kind, object, type[Exception], str]]:
    """By kind: out=, the error, and what it says."""
    found: list[tuple[Kind, object, type[Exception], str]] = []
    for kind, others in (
        (INTEGER, "float64 bool complex128 object timedelta64[s]"),
        (REAL, "int64 float16 bool complex128 object"),
    ):
        frozen = np.zeros(3, kind.wide)
        frozen.setflags(write=False)
        found += [
            (kind, np.zeros(shape, kind.wide), ParameterError, re.escape(f"out must have the shape of {kind}, (3,), not {shape}") + "$")
            for shape in ((4,), (3, 1), ())
        ]  # fmt: skip
        found += [
            (kind, np.zeros(3, dtype), DTypeError, f"^out must be of {kind.rule}.* not {np.dtype(dtype).name.split('[')[0]}")
            for dtype in others.split()
        ]  # fmt: skip
        found.append((kind, frozen, ParameterError, "^out must be writeable$"))
        for out in ([0, 0, 0], [0.0, 0.0, 0.0], bytearray(24)):
            found.append((kind, out, DTypeError, f"^out must be a plain NumPy array of {kind.rule}$"))
    return found


@pytest.mark.parametrize(("kind", "out", "error", "message"), refused_out(), ids=named)
def test_out_that_does_not_fit_is_refused(kind: Kind, out: Any, error: type[Exception], message: str) -> None:
    """The message names out, the rule, and shape or dtype; never a cell."""
    with pytest.raises(error, match=message) as caught:
        kind.mech.release(np.full(3, SECRET, kind.wide), out=out)
    assert "91" not in str(caught.value)


@each
def test_dtype_and_out_must_agree(kind: Kind) -> None:
    """Both may be given if they say the same."""
    wide, half = np.dtype(kind.wide), np.dtype(kind.half)
    cells, out = np.ones(2, wide), np.zeros(2, half)
    with pytest.raises(DTypeError, match=f"^dtype is {wide} but out is of {half}"):
        kind.mech.release(cells, out=out, dtype=wide)
    assert kind.mech.release(cells, out=out, dtype=kind.half) is out
    others = {"counts": ("f8", np.float16, bool), "values": ("i8", np.float16, np.longdouble)}[kind.name]
    for bad in ("no such type", object, *others):
        with pytest.raises(DTypeError, match=f"^dtype must be {'an integer dtype' if kind is INTEGER else kind.rule}"):
            kind.mech.release(cells, dtype=bad)
        with pytest.raises(DTypeError, match="^dtype "):
            kind.mech.release(cells, out=out, dtype=bad)


def release_key() -> dpfast.ReleaseKey:
    return dpfast.Key.generate().derive("x")


@each
def test_a_refusal_leaves_out_alone(kind: Kind) -> None:
    """Everything that can be wrong with the arguments is found before the first write."""
    out, cells = np.full(5000, 77, kind.wide), np.zeros(5000, kind.wide)
    bad = np.zeros(5000)
    bad[7] = math.nan
    refusals: list[dict[str, Any]] = [
        {"lower": 2, "upper": 1}, {"threads": 0}, {"resume": True}, {"names": range(5000)}, {"key": dpfast.Key.generate()},
        {"key": release_key(), "resume": 1}, {"key": release_key(), "names": [1]}, {"dtype": kind.half}, {"missing": math.nan},
    ]  # fmt: skip
    for refusal in refusals:
        with pytest.raises(dpfast.errors.DpfastError):
            kind.mech.release(cells, out=out, **refusal)
    with pytest.raises(DTypeError):
        kind.mech.release(cells.astype(float if kind is INTEGER else int), out=out)
    assert (out == 77).all()
    before = bad.tobytes()
    with pytest.raises(dpfast.errors.DpfastError):
        kind.mech.release(bad, out=bad)
    assert bad.tobytes() == before


# ------------------------------------------------------------------ bounds


@pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(">i4")], ids=str)
@pytest.mark.parametrize(("lower", "upper"), [(0, None), (None, 40), (20, 60), (-5, 200), (50, 50)])
def test_bounds_clamp_the_result(dtype: np.dtype, lower: int | None, upper: int | None) -> None:
    """lower and upper clamp what the unbounded release gives; small, large, strided, in place."""
    for n in (60, 6000):
        counts = some_counts((n,))
        free = INTEGER.fixed(counts, dtype=dtype)
        low, high = -math.inf if lower is None else lower, math.inf if upper is None else upper
        expected = [min(max(x, low), high) for x in free.tolist()]
        assert INTEGER.fixed(counts, dtype=dtype, lower=lower, upper=upper).tolist() == expected
        out = np.zeros(2 * n, dtype)[::2]
        INTEGER.fixed(counts, out=out, lower=lower, upper=upper)
        assert out.tolist() == expected


def test_bounds_need_not_be_of_the_type() -> None:
    """Bounds are plain integers, compared exactly: 2^64 - 1 is above int64, below nothing."""
    counts = np.full(200, 2**64 - 1, np.uint64)
    assert set(COUNTS.release(counts, lower=-(2**70), upper=2**70, dtype=np.uint8).tolist()) == {255}
    assert COUNTS.release(counts, dtype=np.uint64, lower=2**64 - 2).min() >= 2**64 - 2
    assert set(COUNTS.release(counts, upper=-7).tolist()) == {-7}


# ------------------------------------------------------------------ equal noise, whatever the way


@pytest.mark.parametrize("scale", [1, 100, 10**4, 2**20, 10**9, 2**45, 2**60])
def test_the_noise_depends_on_key_and_counts_alone(scale: int) -> None:
    """Threads, out=, layout, dtype, byte order and constant_time change nothing, at any scale."""
    mech = DiscreteLaplace(1, scale)
    counts = some_counts((2**19 + 2**18 + 5,)) if scale in {100, 2**60} else some_counts((20011,))
    expected = fixed(mech, counts)
    for options in (
        {"threads": 1}, {"threads": 2}, {"threads": 7}, {"constant_time": True}, {"out": np.zeros_like(counts)},
    ):  # fmt: skip
        assert np.array_equal(fixed(mech, counts, **options), expected), options
    assert np.array_equal(fixed(mech, counts.astype(">i4")), expected)
    assert np.array_equal(fixed(mech, np.repeat(counts, 2)[::2], threads=2), expected)
    assert np.array_equal(fixed(mech, counts.astype("u8"), constant_time=True), expected)


@pytest.mark.parametrize("scale", [10, 1000, 2**30])
def test_a_small_call_draws_what_a_large_one_draws(scale: int) -> None:
    """Small and constant-time calls give equal draws; counts and sizes around 4,096 included."""
    mech = DiscreteLaplace(1, scale)
    for n in (1, 4095, 4096, 4097, 8191, 8192, 8193, 16385):
        counts = some_counts((n,))
        assert np.array_equal(fixed(mech, counts), fixed(mech, counts, constant_time=True)), n


def test_values_reach_the_digest_in_one_form() -> None:
    """plain_runs gives eight little-endian bytes a count, in C order, for any layout."""
    for shape in ((), (0,), (3, 0), (5, 6, 7), (300, 300)):
        counts = some_counts(shape)
        plain = counts.astype("<i8").tobytes()
        for dtype in INTEGER.dtypes:
            typed = counts.astype(dtype)
            laid = layouts(typed).values() if len(shape) > 1 and typed.size else ()
            for view in (typed, np.asfortranarray(typed), *laid):
                assert b"".join(bytes(run) for run in plain_runs(view, 1000)) == plain


@each
def test_a_second_release_takes_no_memory_of_the_arrays_size(kind: Kind) -> None:
    """Into an existing array buffers stay small: any layout and dtype, keyed, missing or not."""
    n = 2**22
    cells, out, key = kind.some((n,)), np.zeros(n, kind.wide), dpfast.Key.generate().derive("memory")
    ways: list[tuple[Any, np.ndarray, dict[str, Any]]] = [
        (kind.mech, cells, {"out": out}), (kind.mech, cells[::-1], {"out": out}), (kind.mech, cells, {"out": out, "key": key, "resume": True}),
    ]  # fmt: skip
    if kind is INTEGER:
        ways.append(
            (
                kind.mech,
                cells[::-1].view(np.uint64),
                {"out": out, "key": dpfast.Key.generate().derive("turned"), "resume": True},
            )
        )
    else:
        short, short_out, wide = cells.astype("f4"), np.zeros(n, "f4"), Laplace(1, 2.0**50, granularity=1)
        ways += [
            (kind.mech, cells[::-1], {"out": out, "missing": 0, "clamp": (-3, 3)}), (kind.mech, short, {"out": short_out}),
            (kind.mech, short, {"out": out}), (kind.mech, short[::-1], {"out": short_out}), (wide, short, {"out": short_out}),
            (kind.mech, short, {"out": short_out, "key": dpfast.Key.generate().derive("short"), "resume": True}),
        ]  # fmt: skip
    ways.append((kind.mech, cells, {"out": cells}))
    for mech, given_, options in ways:
        mech.release(given_, threads=2, **options)
        tracemalloc.start()
        try:
            mech.release(given_, threads=2, **options)
            assert tracemalloc.get_traced_memory()[1] < (4 if kind is INTEGER else 8) * 2**20
        finally:
            tracemalloc.stop()


@each
def test_no_message_holds_a_cell(kind: Kind) -> None:
    """A message tells dtype, shape and rule of private data; each refusal here held 91 or 91.25."""
    cells = np.full((3, 4), SECRET if kind is INTEGER else SECRET + 0.25, kind.wide)
    odd = cells.astype(float)
    odd[2, 3] = math.inf
    calls: list[Callable[[], object]] = [
        lambda: kind.mech.release(cells, out=cells.T),
        lambda: kind.mech.release(cells, out=cells[:, ::-1]),
        lambda: kind.mech.release(cells.astype(float if kind is INTEGER else int)),
        lambda: kind.mech.release([*cells.tolist(), None]),
        lambda: kind.mech.release(cells, dtype=float if kind is INTEGER else int),
        lambda: kind.mech.release(cells, lower="x"),
        lambda: kind.mech.release(cells, key=3),
        lambda: kind.mech.release(cells, key=release_key(), names=[91.25] * 12),
        lambda: kind.mech.release(cells, key=release_key(), out=cells),
        lambda: kind.mech.release(odd),
        lambda: kind.mech.release(odd, out=odd),
        lambda: kind.mech.sample(cells),
    ]
    for call in calls:
        with pytest.raises(dpfast.errors.DpfastError) as caught:
            call()
        assert not re.search("91", str(caught.value)), caught.value
