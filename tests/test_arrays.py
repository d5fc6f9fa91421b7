# SPDX-License-Identifier: Apache-2.0
"""Arrays: every integer dtype and layout in and out, one meaning; the rest refused without showing a count."""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from conftest import named
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast
from dpfast import DiscreteLaplace, DTypeError, InsecureKeyWarning, ParameterError
from dpfast.release.arrays import disjoint, overlaps_itself, plain_runs, same_place
from dpfast.testing import fixed_key

DTYPES = [np.dtype(kind + size) for kind in "iu" for size in "1248"]
SWAPPED = [dtype.newbyteorder() for dtype in DTYPES if dtype.itemsize > 1]
SECRET = 91  # a count that no message may quote, and that fits every dtype
MECH = DiscreteLaplace(1, 3)


def keyed(counts: object, label: str = "arrays", mech: DiscreteLaplace = MECH, **options: object) -> np.ndarray:
    """A release whose noise is a function of the label and of the counts."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(counts, key=fixed_key(7).derive(label), start=0, **options)


def some_counts(shape: tuple[int, ...]) -> np.ndarray:
    """Counts from 0 to 100, so that every dtype holds them."""
    return np.random.default_rng(math.prod(shape)).integers(0, 101, shape)


# ------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("dtype", [*DTYPES, *SWAPPED], ids=str)
def test_every_integer_dtype_comes_in(dtype):
    """The result is int64 of the same shape, and equal counts of any dtype get equal noise."""
    for n in (50, 5000):
        counts = some_counts((n,))
        noisy = keyed(counts.astype(dtype))
        assert noisy.dtype == np.int64
        assert noisy.dtype.isnative
        assert noisy.tolist() == keyed(counts).tolist()
        assert noisy.tolist() != counts.tolist()


@pytest.mark.parametrize("dtype", [*DTYPES, *SWAPPED], ids=str)
@pytest.mark.parametrize("given_", [np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.uint8)], ids=str)
def test_every_integer_dtype_comes_out(given_, dtype):
    """dtype= and out= give the same values, those of the int64 result clamped to the type."""
    for n in (50, 5000):
        counts = some_counts((n,))
        ends = np.iinfo(dtype)
        expected = [min(max(x, ends.min), ends.max) for x in keyed(counts).tolist()]
        made = keyed(counts.astype(given_), dtype=dtype)
        assert made.dtype == dtype
        assert made.tolist() == expected
        out = np.full(n, 77, dtype)
        assert keyed(counts.astype(given_), out=out) is out
        assert out.tolist() == expected
        assert keyed(counts.astype(given_), out=out, dtype=dtype) is out


def test_dtypes_by_any_name():
    """dtype= takes what np.dtype takes: a type, a string, Python's int, C's names."""
    for name in (np.int16, "int16", "<i2", np.short, np.dtype(np.int16)):
        assert MECH.release([1, 2], dtype=name).dtype == np.int16
    for name in (int, np.longlong, "q"):
        assert MECH.release([1, 2], dtype=name).dtype == np.int64
    for n in (1, 5000):  # C's long long: on Linux a second type of 64 bits
        counts = some_counts((n,))
        for given_, made in itertools.product((np.longlong, np.ulonglong), repeat=2):
            assert np.array_equal(keyed(counts.astype(given_), dtype=made), keyed(counts, dtype=np.dtype(made).str))


@pytest.mark.parametrize(
    "counts",
    [
        [3, 4, 5],
        (3, 4, 5),
        [np.int8(3), 4, 5],
        [[3, 4], [5, 6]],
        7,
        np.int16(7),
        range(5),
        [2**64 - 1, 2**63],
        memoryview(b"abc"),
    ],
    ids=named,
)
def test_sequences_of_integers_are_counts(counts):
    """Lists, ranges, single numbers and buffers of integers get what the array of them gets."""
    noisy = keyed(counts)
    assert isinstance(noisy, np.ndarray)
    assert noisy.shape == np.shape(counts)
    assert noisy.tolist() == keyed(np.asarray(counts)).tolist()


REFUSED = [
    np.array([True, False]),
    np.array([91.0, 91.5]),
    np.array([91], np.float16),
    np.array([91], np.longdouble),
    np.array([91 + 1j]),
    np.array([SECRET, None]),
    np.array([SECRET], object),
    np.array(["91"]),
    np.array([b"91"]),
    np.array(["2091-09-19"], "datetime64[D]"),
    np.array([SECRET], "timedelta64[s]"),
    np.array([(SECRET, 1)], [("a", "i8"), ("b", "i8")]),
    [91.0],
    [SECRET, None],
    [SECRET, 2**64],
    [True],
    ["91"],
    "91",
    b"91",
    None,
    91.5,
    {SECRET: 1},
    {SECRET},
    object(),
    [],  # of no dtype at all
]


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: f"{type(bad).__name__} {getattr(bad, 'dtype', '')}")
def test_other_kinds_of_data_are_refused(bad):
    """One DTypeError that names the argument and the dtype, and shows no value."""
    with pytest.raises(DTypeError, match="^counts must be of an integer dtype") as caught:
        MECH.release(bad)
    assert "91" not in str(caught.value)


def test_ragged_lists_are_refused():
    """Rows of different length are one clear error too."""
    with pytest.raises(DTypeError, match="^counts must be"):
        MECH.release([[SECRET, 1], [2]])


def test_masked_arrays_are_refused():
    """A mask says that some counts are not known; nobody invents them, as input or as output."""
    masked = np.ma.array([SECRET, SECRET], mask=[False, True])
    for bad in (masked, np.ma.array([SECRET, SECRET])):
        with pytest.raises(DTypeError, match="^counts is a masked array") as caught:
            MECH.release(bad)
        assert "91" not in str(caught.value)
    with pytest.raises(DTypeError, match="^out is a masked array"):
        MECH.release([1, 2], out=masked)


# ------------------------------------------------------------------ shapes and layouts

SHAPES = [(), (0,), (0, 3), (3, 0, 2), (1,), (1, 1, 1), (7,), (5001,), (3, 5, 7), (2, 60, 50), (1,) * 30]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", ">i8"])
def test_every_shape(shape, dtype):
    """The shape comes back, from 0-d and 0 elements to three dimensions; in place, too."""
    counts = some_counts(shape).astype(dtype)
    plain = keyed(counts.astype("i8").reshape(-1)) if shape == (5001,) else None
    noisy = keyed(counts)
    assert noisy.shape == shape
    assert isinstance(noisy, np.ndarray)
    if plain is not None:
        assert noisy.tolist() == plain.tolist()
    again = counts.copy()
    assert keyed(again, out=again) is again
    ends = np.iinfo(dtype)
    assert again.reshape(-1).tolist() == [min(max(x, ends.min), ends.max) for x in noisy.reshape(-1).tolist()]


def layouts(counts: np.ndarray) -> dict[str, np.ndarray]:
    """The same counts, laid out in memory in other ways."""
    wide = np.zeros((*counts.shape[:-1], 3 * counts.shape[-1]), counts.dtype)
    wide[..., 1::3] = counts
    raw = np.zeros(counts.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(counts.dtype).reshape(counts.shape)
    unaligned[...] = counts
    frozen = counts.copy()
    frozen.setflags(write=False)
    record = np.zeros(counts.shape, [("pad", "i1"), ("x", counts.dtype)])
    record["x"] = counts
    backwards = np.ascontiguousarray(counts[::-1])
    found = {
        "fortran": np.asfortranarray(counts),
        "transposed": np.ascontiguousarray(counts.T).T,
        "reversed": backwards[::-1],
        "all reversed": np.ascontiguousarray(np.flip(counts))[(slice(None, None, -1),) * counts.ndim],
        "strided": wide[..., 1::3],
        "unaligned": unaligned,
        "read-only": frozen,
        "a field": record["x"],
        "swapped": counts.astype(counts.dtype.newbyteorder()),
        "swapped and strided": wide.astype(counts.dtype.newbyteorder())[..., 1::3],
        "subclass": counts.view(np.recarray),
    }
    assert all((view == counts).all() for view in found.values())
    assert not unaligned.flags.aligned or counts.itemsize == 1
    return found


LAYOUTS = list(layouts(np.zeros((2, 3, 4), np.int64)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "u1"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (17, 300), (9000,)], ids=str)
def test_input_of_any_layout(shape, dtype, layout):
    """Whatever the strides, order, alignment and byte order: the same counts get the same noise, in C order."""
    counts = some_counts(shape).astype(dtype)
    view = layouts(counts)[layout]
    before = view.tobytes()
    assert np.array_equal(keyed(view), keyed(counts))
    assert view.tobytes() == before


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in {"read-only", "subclass"}])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "u1"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (17, 300), (9000,)], ids=str)
def test_output_of_any_layout(shape, dtype, layout):
    """The same result through any out=, elsewhere and in place; what lies between its elements is untouched."""
    counts = some_counts(shape).astype(dtype)
    expected = keyed(counts, dtype=dtype)
    out = layouts(np.zeros(shape, dtype))[layout]
    assert keyed(counts, out=out) is out
    assert np.array_equal(out, expected)
    place = layouts(counts)[layout]
    keyed(place, out=place)
    assert np.array_equal(place, expected)


def test_gaps_of_a_strided_output_are_untouched():
    """Bytes beside the elements of out keep their values."""
    for dtype, gap in itertools.product(("i8", "i2", "u8", ">i4"), (2, 3)):
        wide = np.full(gap * 5000, 55, dtype)
        MECH.release(some_counts((5000,)), out=wide[1::gap])
        kept = np.ones(wide.size, bool)
        kept[1::gap] = False
        assert (wide[kept] == 55).all()
        assert (wide[~kept] != 55).any()


@pytest.mark.parametrize("shape", [(40,), (3, 4, 5000)], ids=str)
def test_broadcast_input(shape):
    """Elements that share memory on the way in are one count each, with noise of their own."""
    counts = np.broadcast_to(np.int64(5), shape)
    assert counts.strides == (0,) * len(shape)
    noisy = keyed(counts)
    assert np.array_equal(noisy, keyed(np.full(shape, 5)))
    assert len(np.unique(noisy)) > 5
    rows = np.broadcast_to(np.arange(shape[-1]), shape)
    assert np.array_equal(keyed(rows), keyed(rows.copy()))


def test_memory_maps(tmp_path):
    """A mapped file is an input like any other, and as a plain view an output."""
    counts = some_counts((6000,))
    counts.tofile(tmp_path / "counts")
    read = np.memmap(tmp_path / "counts", np.int64, "r")
    assert np.array_equal(keyed(read), keyed(counts))
    written = np.memmap(tmp_path / "noisy", np.int32, "w+", shape=(6000,))
    keyed(read, out=np.asarray(written))
    written.flush()
    assert np.array_equal(np.fromfile(tmp_path / "noisy", np.int32), keyed(counts))
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        MECH.release(read, out=written)


def test_subclasses_come_out_plain():
    """A matrix or record array is read as the array that it is; a plain array comes back."""
    record = np.array([[1, 2], [3, 4]]).view(np.recarray)
    assert type(MECH.release(record)) is np.ndarray
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        MECH.release(record, out=record)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_view_is_the_array_that_it_shows(data):
    """Random dtypes, shapes, slices, steps and transposes, in and out, against the plain copy."""
    draw = data.draw
    dtype = draw(st.sampled_from([*DTYPES, *SWAPPED]))
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)))

    def view(fill: np.ndarray | None) -> np.ndarray:
        steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
        big = np.zeros([abs(s) * n + 3 for s, n in zip(steps, shape, strict=True)], dtype)
        order = draw(st.permutations(range(len(shape))))
        big = np.ascontiguousarray(big.transpose(order)).transpose(np.argsort(order))
        cut = big[tuple(slice(None, None, s) for s in steps)][tuple(slice(1, n + 1) for n in shape)]
        if fill is not None:
            cut[...] = fill
        return cut

    counts = some_counts(shape)
    expected = keyed(counts, dtype=dtype)
    out = view(None)
    assert out.shape == shape
    keyed(view(counts), out=out)
    assert np.array_equal(out, expected)
    place = view(counts)
    keyed(place, out=place)
    assert np.array_equal(place, expected)


# ------------------------------------------------------------------ one array in two roles


@pytest.mark.parametrize(("size", "kind"), [(s, k) for s in "1248" for k in ("iu", "ui")])
@pytest.mark.parametrize("swap", [False, True])
def test_in_place_under_another_dtype(size, kind, swap):
    """out may be counts' own memory as the other kind of integer, or in the other byte order."""
    n = 5000
    counts = some_counts((n,)).astype(kind[0] + size)
    target = np.dtype(kind[1] + size)
    expected = keyed(counts, dtype=target)
    out = counts.view(target)
    if swap:
        out = out.view(target.newbyteorder())
    keyed(counts, out=out)
    assert out.tolist() == expected.tolist()


def test_in_place_large_enough_for_threads():
    """A million counts in place, as another dtype and through several threads, are those into a fresh array."""
    counts = some_counts((2**20 + 13,))
    expected = keyed(counts)
    for threads in (1, 2, 3, 64):
        copy = counts.copy()
        keyed(copy, out=copy, threads=threads)
        assert np.array_equal(copy, expected)
    copy = counts.copy()
    keyed(copy, out=copy.view(np.uint64), threads=2)
    assert np.array_equal(copy, np.maximum(expected, 0))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i2", ">i4"])
@pytest.mark.parametrize("step", [2, -1])
def test_threads_do_not_meet_in_strided_arrays(dtype, step):
    """Several threads through NumPy's buffers, in place and elsewhere, write each its own cells and no other."""
    n = 2**19 + 2**18 + 77
    counts = some_counts((n,)).astype(dtype)
    expected = keyed(counts, dtype=dtype)
    for threads in (2, 3):
        out = np.zeros(n * abs(step), dtype)[::step]
        keyed(counts, out=out, threads=threads)
        assert np.array_equal(out, expected), threads
        out[:] = counts
        keyed(out, out=out, threads=threads)
        assert np.array_equal(out, expected), threads


def test_partial_overlap_is_refused():
    """out that shares some memory with counts, but is not counts cell for cell, is refused and untouched."""
    base = np.full(200, SECRET, np.int64)
    half = base.view(np.int32)
    square = base[:100].reshape(10, 10)
    pairs = [
        (base[:100], base[1:101]),
        (base[1:101], base[:100]),
        (base[:100], base[99:199]),
        (base[:100], base[:100][::-1]),
        (base[:100], base[::2]),
        (half[:200], base),
        (base[:100], half[:100]),
        (base[:100], half[1:101]),
        (half[::2][:50], half[2::2][:50]),
        (square, square.T),
        (square, square[::-1]),
        (np.broadcast_to(base[:1], (100,)), base[:100]),
        (base.view(np.int8)[:100], base[:100]),
        (base.view(np.uint8)[1:801].view(np.int64), base[:100]),
    ]
    for counts, out in pairs:
        assert counts.shape == out.shape
        with pytest.raises(ParameterError, match="^out must be counts itself or share no memory with it$"):
            MECH.release(counts, out=out)
    assert (base == SECRET).all()


def test_disjoint_views_of_one_buffer_are_accepted():
    """Interleaved, neighbouring and field views share no memory, though their spans cross."""
    base = np.zeros(20000, np.int64)
    table = np.zeros(10000, [("a", "i8"), ("b", "i8"), ("c", "i2")])
    halves = np.zeros(20000, np.int32)
    pairs = [
        (base[::2], base[1::2]),
        (base[1::2][::-1], base[::2]),
        (base[:10000], base[10000:]),
        (table["a"], table["b"]),
        (table["b"], table["c"]),
        (halves[::2], halves[1::2]),
        (base.reshape(100, 200)[:, :100], base.reshape(100, 200)[:, 100:]),
        (base.reshape(100, 200)[::2], base.reshape(100, 200)[1::2]),
    ]
    for counts, out in pairs:
        counts[...] = some_counts(counts.shape)
        expected = keyed(counts, dtype=out.dtype)
        keyed(counts, out=out)
        assert np.array_equal(out, expected)
        assert np.array_equal(counts, some_counts(counts.shape))


def test_out_whose_own_elements_overlap_is_refused():
    """Two counts must not be written to one place."""
    base = np.zeros(100, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(base, 10, writeable=True)
    repeated = np.lib.stride_tricks.as_strided(base, (50,), (0,), writeable=True)
    shifted = np.lib.stride_tricks.as_strided(base.view(np.int8), (50,), (1,), writeable=True).view()
    crossing = np.lib.stride_tricks.as_strided(base.view(np.uint8), (20, 20), (1, 1), writeable=True)
    four = np.lib.stride_tricks.as_strided(base, (50,), (4,), writeable=True)
    for out in (windows, repeated, crossing, four):
        with pytest.raises(ParameterError, match="^out must not have elements that share memory$"):
            MECH.release(np.zeros(out.shape, np.int64), out=out)
    MECH.release(np.zeros(50, np.int64), out=shifted)
    assert not base[8:].any()


@given(
    strides=st.lists(st.integers(-12, 12), min_size=1, max_size=3),
    lengths=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    dtype=st.sampled_from(["i1", "i2", "i4"]),
)
@settings(max_examples=300, deadline=None)
def test_overlap_within_an_array_is_always_seen(strides, lengths, dtype):
    """No array with two elements on one byte passes; a slice of a plain array, reversed or transposed, always does."""
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


def test_same_place_and_disjoint_exclude_each_other():
    """No pair of overlapping arrays passes for both, and axes of length one do not count."""
    base = np.zeros((4, 1, 5), np.int64)
    assert same_place(base, base.view(np.uint64))
    assert same_place(base, np.lib.stride_tricks.as_strided(base, base.shape, (40, 3, 8)))
    assert not disjoint(base, base)
    assert not same_place(base, base.copy())
    assert disjoint(base, base.copy())


# ------------------------------------------------------------------ an out= that does not fit


def refused_out() -> list[tuple[object, type[Exception], str]]:
    frozen = np.zeros(3, np.int64)
    frozen.setflags(write=False)
    return [
        (np.zeros(4, np.int64), ParameterError, r"^out must have the shape of counts, \(3,\), not \(4,\)$"),
        (np.zeros((3, 1), np.int64), ParameterError, r"^out must have the shape of counts, \(3,\), not \(3, 1\)$"),
        (np.zeros((), np.int64), ParameterError, r"^out must have the shape of counts, \(3,\), not \(\)$"),
        (np.zeros(3), DTypeError, "^out must be of an integer dtype .* not float64"),
        (np.zeros(3, bool), DTypeError, "^out must be of an integer dtype .* not bool"),
        (np.zeros(3, complex), DTypeError, "^out must be of an integer dtype .* not complex128"),
        (np.zeros(3, object), DTypeError, "^out must be of an integer dtype .* not object"),
        (np.zeros(3, "m8[s]"), DTypeError, "^out must be of an integer dtype .* not timedelta64"),
        (frozen, ParameterError, "^out must be writeable$"),
        ([0, 0, 0], DTypeError, "^out must be a plain NumPy array of an integer dtype$"),
        (bytearray(24), DTypeError, "^out must be a plain NumPy array of an integer dtype$"),
    ]


@pytest.mark.parametrize(("out", "error", "message"), refused_out())
def test_out_that_does_not_fit_is_refused(out, error, message):
    """The message names out, the rule, and shape or dtype; never a count."""
    with pytest.raises(error, match=message) as caught:
        MECH.release([SECRET, SECRET, SECRET], out=out)
    assert "91" not in str(caught.value)


def test_dtype_and_out_must_agree():
    """Both may be given if they say the same."""
    out = np.zeros(2, np.int32)
    with pytest.raises(DTypeError, match="^dtype is int64 but out is of int32"):
        MECH.release([1, 2], out=out, dtype=np.int64)
    with pytest.raises(DTypeError, match="^dtype must be an integer dtype"):
        MECH.release([1, 2], out=out, dtype="no such type")
    assert MECH.release([1, 2], out=out, dtype="i4") is out


def test_a_refusal_leaves_out_alone():
    """Everything that can be wrong is found before the first write."""
    out = np.full(5000, 77, np.int64)
    counts = np.zeros(5000, np.int64)
    refusals: list[Callable[[], object]] = [
        lambda: MECH.release(counts, out=out, lower=2, upper=1),
        lambda: MECH.release(counts, out=out, threads=0),
        lambda: MECH.release(counts, out=out, start=3),
        lambda: MECH.release(counts, out=out, key=dpfast.Key.generate()),
        lambda: MECH.release(counts, out=out, key=dpfast.Key.generate().derive("x")),
        lambda: MECH.release(counts, out=out, key=dpfast.Key.generate().derive("x"), start=-1),
        lambda: MECH.release(counts, out=out, dtype=np.int32),
        lambda: MECH.release(counts.astype(float), out=out),
    ]
    for refusal in refusals:
        with pytest.raises(dpfast.DpfastError):
            refusal()
    assert (out == 77).all()


# ------------------------------------------------------------------ bounds


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(">i4")], ids=str)
@pytest.mark.parametrize(("lower", "upper"), [(0, None), (None, 40), (20, 60), (-5, 200), (50, 50)])
def test_bounds_clamp_the_result(dtype, lower, upper):
    """lower and upper clamp what the unbounded release gives; small, large, strided, in place."""
    for n in (60, 6000):
        counts = some_counts((n,))
        free = keyed(counts, dtype=dtype)
        low, high = -math.inf if lower is None else lower, math.inf if upper is None else upper
        expected = [min(max(x, low), high) for x in free.tolist()]
        assert keyed(counts, dtype=dtype, lower=lower, upper=upper).tolist() == expected
        out = np.zeros(2 * n, dtype)[::2]
        keyed(counts, out=out, lower=lower, upper=upper)
        assert out.tolist() == expected


def test_bounds_need_not_be_of_the_type():
    """Each bound is a plain integer, compared exactly: 2^64 - 1 is above int64 and below nothing."""
    counts = np.full(200, 2**64 - 1, np.uint64)
    assert set(MECH.release(counts, lower=-(2**70), upper=2**70, dtype=np.uint8).tolist()) == {255}
    assert MECH.release(counts, dtype=np.uint64, lower=2**64 - 2).min() >= 2**64 - 2
    assert set(MECH.release(counts, upper=-7).tolist()) == {-7}


# ------------------------------------------------------------------ equal noise, whatever the way


@pytest.mark.parametrize("scale", [1, 100, 10**4, 2**20, 10**9, 2**45, 2**60])
def test_the_noise_depends_on_key_and_counts_alone(scale):
    """Threads, out=, layout, dtype, byte order and constant_time change nothing, at any scale."""
    mech = DiscreteLaplace(1, scale)
    counts = some_counts((2**19 + 2**18 + 5,)) if scale in {100, 2**60} else some_counts((20011,))
    expected = keyed(counts, mech=mech)
    for options in (
        {"threads": 1},
        {"threads": 2},
        {"threads": 7},
        {"constant_time": True},
        {"out": np.zeros_like(counts)},
    ):
        assert np.array_equal(keyed(counts, mech=mech, **options), expected), options
    assert np.array_equal(keyed(counts.astype(">i4"), mech=mech), expected)
    assert np.array_equal(keyed(np.repeat(counts, 2)[::2], mech=mech, threads=2), expected)
    assert np.array_equal(keyed(counts.astype("u8"), mech=mech, constant_time=True), expected)


@pytest.mark.parametrize("scale", [10, 1000, 2**30])
def test_a_small_call_draws_what_a_large_one_draws(scale):
    """The tiers of small and of constant-time calls give the same draws, counts and sizes around 4,096 included."""
    mech = DiscreteLaplace(1, scale)
    for n in (1, 4095, 4096, 4097, 8191, 8192, 8193, 16385):
        counts = some_counts((n,))
        assert np.array_equal(keyed(counts, mech=mech), keyed(counts, mech=mech, constant_time=True)), n


def test_values_reach_the_digest_in_one_form():
    """plain_runs gives eight little-endian bytes a count, in C order, however the array is laid out."""
    for shape in ((), (0,), (3, 0), (5, 6, 7), (300, 300)):
        counts = some_counts(shape)
        plain = counts.astype("<i8").tobytes()
        for dtype in [*DTYPES, *SWAPPED]:
            typed = counts.astype(dtype)
            views = [
                typed,
                np.asfortranarray(typed),
                *(layouts(typed).values() if len(shape) > 1 and typed.size else ()),
            ]
            for view in views:
                assert b"".join(bytes(run) for run in plain_runs(view, 1000)) == plain


def test_a_second_release_takes_no_memory_of_the_arrays_size():
    """Into an existing array, buffers stay small: in any layout, any dtype, with or without a key."""
    n = 2**23
    counts, out = some_counts((n,)), np.zeros(n, np.int64)
    key = dpfast.Key.generate().derive("memory")
    ways: list[Callable[[], object]] = [
        lambda: MECH.release(counts, out=out, threads=2),
        lambda: MECH.release(counts[::-1], out=out, threads=2),
        lambda: MECH.release(counts, out=out, threads=2, key=key, start=0),
        lambda: MECH.release(counts[::-1].view(np.uint64), out=out, threads=2, key=key, start=n),
    ]
    for way in ways:
        way()
        tracemalloc.start()
        try:
            way()
            assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
        finally:
            tracemalloc.stop()


def test_no_message_holds_a_count():
    """Of private data a message tells dtype, shape and rule; every refusal here was given counts of 91."""
    counts = np.full((3, 4), SECRET)
    calls: list[Callable[[], object]] = [
        lambda: MECH.release(counts, out=counts.T),
        lambda: MECH.release(counts, out=counts[:, ::-1]),
        lambda: MECH.release(counts.astype(float)),
        lambda: MECH.release(counts.tolist() + [None]),
        lambda: MECH.release(counts, dtype=float),
        lambda: MECH.release(counts, lower="x"),
        lambda: MECH.release(counts, key=3, start=0),
        lambda: MECH.release(counts, key=dpfast.Key.generate().derive("x"), start=2**63 - 1),
    ]
    for call in calls:
        with pytest.raises(dpfast.DpfastError) as caught:
            call()
        assert not re.search("91", str(caught.value)), caught.value
