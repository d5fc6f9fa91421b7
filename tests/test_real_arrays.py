# SPDX-License-Identifier: Apache-2.0
"""Arrays of real values: both float dtypes and every layout in and out, one meaning; what fails fails closed, and quotes no value."""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_arrays import LAYOUTS, SHAPES, layouts
from test_laplace import same

import dpfast
from dpfast import (
    DiscreteLaplace,
    DTypeError,
    EntropyError,
    Gaussian,
    InsecureKeyWarning,
    Key,
    KeyReuseError,
    Laplace,
    ParameterError,
    Sensitivity,
    Snapping,
    _native,
    exact,
    kernels,
)
from dpfast.release import engine
from dpfast.testing import fixed_key

FLOATS = [np.dtype("f8"), np.dtype("f4"), np.dtype(">f8"), np.dtype(">f4")]
SECRET = 91.25  # a value that no message may quote
MECH = Laplace(1, 3, granularity=0.25)
LAWS = [
    MECH,
    Laplace(1, 3.0),
    Laplace(1, 3, granularity=2.0**-48),
    Snapping(1, 3, bound=1024),
    Gaussian(3, sensitivity=Sensitivity(1, 3)),
]
NAMES = ["coarse", "default", "wide", "snapping", "gaussian"]
CALLS = [4000, 5000]  # a small call, and one in bulk


def keyed(values: object, label: str = "real arrays", mech: Any = MECH, **options: object) -> np.ndarray:
    """A release whose noise is a function of the label and of the values."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(values, key=fixed_key(7).derive(label), start=0, **options)


def some_values(shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    """Values of several sizes, which float32 holds."""
    rng = np.random.default_rng(math.prod(shape))
    sizes = 10.0 ** rng.integers(-6, 9, shape)
    return np.asarray(rng.normal(size=shape) * sizes).astype(np.float32).astype(dtype)


# ------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_both_floats_come_in_and_out(dtype: np.dtype, mech: Any) -> None:
    """The result has the type of the values, in native order; equal values of any dtype get equal noise."""
    for n in CALLS:
        values = some_values((n,))
        wide, short = keyed(values, mech=mech), keyed(values, mech=mech, dtype="f4")
        noisy = keyed(values.astype(dtype), mech=mech)
        assert noisy.dtype == np.dtype(f"f{dtype.itemsize}")
        assert noisy.dtype.isnative
        assert same(noisy, wide if dtype.itemsize == 8 else short)
        assert not np.array_equal(noisy, values)
        assert same(keyed(values.astype(dtype), mech=mech, dtype=np.float64), wide)
        assert same(keyed(values.astype(dtype), mech=mech, dtype=np.float32), short)
        for made in FLOATS:
            out = np.full(n, 77, made)
            assert keyed(values.astype(dtype), mech=mech, out=out) is out
            assert same(out.astype(f"f{made.itemsize}"), wide if made.itemsize == 8 else short)
            assert keyed(values.astype(dtype), mech=mech, out=out, dtype=made) is out


def test_dtypes_by_any_name() -> None:
    """dtype= takes what np.dtype takes."""
    for name in (np.float32, "float32", "f4", np.single, np.dtype("f4")):
        assert MECH.release([1.0, 2.0], dtype=name).dtype == np.float32
    for name in (float, np.double, "d"):
        assert MECH.release(np.ones(3, "f4"), dtype=name).dtype == np.float64


@pytest.mark.parametrize(
    "values", [[3.5, 4.0], (3.5, 4), [[3.5], [4.5]], 7.25, np.float32(7.25), np.float64(3)], ids=repr
)
def test_sequences_of_reals_are_values(values: object) -> None:
    """Lists and single numbers get what the array of them gets."""
    noisy = keyed(values)
    assert isinstance(noisy, np.ndarray)
    assert noisy.shape == np.shape(values)
    assert noisy.tolist() == keyed(np.asarray(values)).tolist()


REFUSED = [
    np.array([True]), np.array([91.25], np.float16), np.array([91.25], np.longdouble), np.array([91.25 + 1j]),
    np.array([SECRET, None]), np.array([SECRET], object), np.array(["91.25"]), np.array([b"91.25"]),
    np.array(["2091-09-19"], "datetime64[D]"), np.array([91], "timedelta64[s]"), np.array([(SECRET, 1)], [("a", "f8"), ("b", "i8")]),
    [SECRET, None], [True], ["91.25"], "91.25", None, {SECRET: 1}, {SECRET}, object(),
]  # fmt: skip


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: f"{type(bad).__name__} {getattr(bad, 'dtype', '')}")
def test_other_kinds_of_data_are_refused(bad: object) -> None:
    """One DTypeError that names the argument and the dtype, and shows no value."""
    for mech in (MECH, Snapping(1, 1, bound=8)):
        with pytest.raises(DTypeError, match="^values must be of float64 or float32, not") as caught:
            mech.release(bad)
        assert "91" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8", ">i8"])
def test_integers_are_told_the_right_law(dtype: str) -> None:
    """Counts are refused by a real law, and reals by a law for counts, each with the names of those that take them."""
    with pytest.raises(
        DTypeError, match="^values must be of .*: for counts there are DiscreteLaplace and DiscreteGaussian$"
    ):
        MECH.release(np.array([91, 2], dtype))
    for values in (np.array([SECRET]), np.array([SECRET], "f4"), [SECRET]):
        with pytest.raises(
            DTypeError, match="^counts must be of .*: for real values there are Laplace and Gaussian$"
        ) as caught:
            DiscreteLaplace(1, 1).release(values)
        assert "91" not in str(caught.value)


def test_ragged_lists_and_masked_arrays_are_refused() -> None:
    """A mask says that some values are not known; nobody invents them, as input or as output."""
    with pytest.raises(DTypeError, match="^values must be of float64 or float32 and make one array"):
        MECH.release([[SECRET, 1.0], [2.0]])
    masked = np.ma.array([SECRET, SECRET], mask=[False, True])
    for bad in (masked, np.ma.array([SECRET, SECRET])):
        with pytest.raises(DTypeError, match="^values is a masked array") as caught:
            MECH.release(bad)
        assert "91" not in str(caught.value)
    with pytest.raises(DTypeError, match="^out is a masked array"):
        MECH.release([1.0, 2.0], out=masked)


# ------------------------------------------------------------------ shapes and layouts


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
def test_every_shape(shape: tuple[int, ...], dtype: str) -> None:
    """The shape comes back, from 0-d and 0 elements to three dimensions; in place, too."""
    values = some_values(shape, dtype)
    noisy = keyed(values)
    assert noisy.shape == shape
    assert isinstance(noisy, np.ndarray)
    assert keyed(values, constant_time=True).tobytes() == noisy.tobytes()
    again = values.copy()
    assert keyed(again, out=again) is again
    assert np.array_equal(again, noisy)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (9000,)], ids=str)
def test_any_layout(shape: tuple[int, ...], dtype: str, layout: str) -> None:
    """Whatever the strides, order, alignment and byte order, in, out and in place: the same values get the same noise, in C order."""
    values = some_values(shape, dtype)
    view = layouts(values)[layout]
    before, expected = view.tobytes(), keyed(values)
    assert same(keyed(view), expected)
    assert view.tobytes() == before
    if layout in {"read-only", "subclass"}:
        return
    out = layouts(np.zeros(shape, dtype))[layout]
    assert keyed(values, out=out) is out
    assert np.array_equal(out, expected)
    place = layouts(values)[layout]
    keyed(place, out=place)
    assert np.array_equal(place, expected)


def test_gaps_of_a_strided_output_are_untouched() -> None:
    """Bytes beside the elements of out keep their values."""
    for dtype, gap in itertools.product(("f8", "f4", ">f4"), (2, 3)):
        wide = np.full(gap * 5000, 55, dtype)
        MECH.release(some_values((5000,)), out=wide[1::gap])
        kept = np.ones(wide.size, bool)
        kept[1::gap] = False
        assert (wide[kept] == 55).all()
        assert (wide[~kept] != 55).any()


def test_broadcast_input() -> None:
    """Elements that share memory on the way in are one value each, with noise of their own."""
    values = np.broadcast_to(np.float64(5.5), (3, 4000))
    noisy = keyed(values)
    assert same(noisy, keyed(np.full((3, 4000), 5.5)))
    assert len(np.unique(noisy)) > 5


def test_subclasses_come_out_plain() -> None:
    """A record array is read as the array that it is; a plain array comes back."""
    record = np.array([[1.0, 2.0], [3.0, 4.0]]).view(np.recarray)
    assert type(MECH.release(record)) is np.ndarray
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        MECH.release(record, out=record)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_view_is_the_array_that_it_shows(data: st.DataObject) -> None:
    """Random dtypes, shapes, steps and transposes, in and out, against the plain copy."""
    draw = data.draw
    dtype = draw(st.sampled_from(FLOATS))
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

    values = some_values(shape)
    expected = keyed(values, dtype=f"f{dtype.itemsize}")
    out, place = view(None), view(values)
    keyed(view(values), out=out)
    keyed(place, out=place)
    assert np.array_equal(out, expected)
    assert np.array_equal(place, expected)


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    exponent=st.integers(-1074, 900),
    power=st.integers(-60, 59),
)
@settings(max_examples=100, deadline=None)
def test_any_double_comes_out_on_the_grid(values: list[float], exponent: int, power: int) -> None:
    """Whatever the values, the grid and the scale: a multiple of the grid, or the largest double; never -0.0."""
    mech = Laplace(1, Fraction(5, 4) * Fraction(2) ** (exponent + power), granularity=Fraction(2) ** exponent)
    for y in mech.release(values).tolist():
        assert (Fraction(y) / Fraction(2) ** exponent).denominator == 1 or abs(y) == np.finfo(float).max
        assert math.copysign(1, y) == 1 or y < 0


# ------------------------------------------------------------------ one array in two roles, and out= that does not fit


def test_in_place_in_the_other_byte_order() -> None:
    """out may be the values' own memory in the other byte order, element for element."""
    for kind in ("f8", "f4"):
        values = some_values((5000,), kind)
        expected = keyed(values)
        out = values.view(values.dtype.newbyteorder())
        keyed(values, out=out)
        assert same(out.astype(kind), expected)


def test_threads_do_not_meet() -> None:
    """Several threads, in place and elsewhere, plain or strided, write each its own cells and no other."""
    n = 2**19 + 2**18 + 77
    for dtype, step in (("f8", 1), ("f4", 1), ("f8", -1), (">f4", 2)):
        values = some_values((n,), dtype)
        expected = keyed(values)
        for threads in (2, 3):
            out = np.zeros(n * abs(step), dtype)[::step]
            keyed(values, out=out, threads=threads)
            assert np.array_equal(out, expected)
            out[:] = values
            keyed(out, out=out, threads=threads)
            assert np.array_equal(out, expected)


def test_overlap_is_refused() -> None:
    """out that shares some memory with values, but is not values cell for cell; or with itself."""
    base = np.full(200, SECRET)
    half = base.view(np.float32)
    square = base[:100].reshape(10, 10)
    pairs = [
        (base[:100], base[1:101]), (base[:100], base[:100][::-1]), (base[:100], base[::2]), (half[:200], base), (base[:100], half[:100]),
        (square, square.T), (np.broadcast_to(base[:1], (100,)), base[:100]),
    ]  # fmt: skip
    for values, out in pairs:
        with pytest.raises(ParameterError, match="^out must be values itself or share no memory with it$"):
            MECH.release(values, out=out)
    windows = np.lib.stride_tricks.sliding_window_view(base, 10, writeable=True)
    with pytest.raises(ParameterError, match="^out must not have elements that share memory$"):
        MECH.release(np.zeros(windows.shape), out=windows)
    assert (base == SECRET).all()


def refused_out() -> list[tuple[object, type[Exception], str]]:
    frozen = np.zeros(3)
    frozen.setflags(write=False)
    return [
        (np.zeros(4), ParameterError, r"^out must have the shape of values, \(3,\), not \(4,\)$"),
        (np.zeros((3, 1)), ParameterError, r"^out must have the shape of values, \(3,\), not \(3, 1\)$"),
        (np.zeros(3, np.int64), DTypeError, "^out must be of float64 or float32, not int64"),
        (np.zeros(3, np.float16), DTypeError, "^out must be of float64 or float32, not float16"),
        (frozen, ParameterError, "^out must be writeable$"),
        ([0.0, 0.0, 0.0], DTypeError, "^out must be a plain NumPy array of float64 or float32$"),
        (bytearray(24), DTypeError, "^out must be"),
    ]


@pytest.mark.parametrize(("out", "error", "message"), refused_out())
def test_out_that_does_not_fit_is_refused(out: object, error: type[Exception], message: str) -> None:
    """The message names out, the rule, and shape or dtype; never a value."""
    with pytest.raises(error, match=message) as caught:
        MECH.release([SECRET, SECRET, SECRET], out=out)
    assert "91" not in str(caught.value)


def test_dtype_and_out_must_agree() -> None:
    """Both may be given if they say the same."""
    out = np.zeros(2, np.float32)
    with pytest.raises(DTypeError, match="^dtype is float64 but out is of float32"):
        MECH.release([1.0, 2.0], out=out, dtype=np.float64)
    assert MECH.release([1.0, 2.0], out=out, dtype="f4") is out
    for bad in ("no such type", "i8", np.float16, np.longdouble, object):
        with pytest.raises(DTypeError, match="^dtype must be float64 or float32"):
            MECH.release([1.0, 2.0], dtype=bad)
    with pytest.raises(DTypeError, match="^dtype "):
        MECH.release([1.0, 2.0], out=out, dtype="no such type")


# ------------------------------------------------------------------ bounds


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
@pytest.mark.parametrize(
    ("lower", "upper"), [(0, None), (None, 40.5), (-2.25, 60), (0.1, 0.1), (Decimal("-0.5"), Fraction(7, 8))]
)
def test_bounds_clamp_the_result(dtype: str, mech: Any, lower: Any, upper: Any) -> None:
    """lower and upper, on the grid or off it, clamp what the unbounded release gives; strided and in place too."""
    if dtype == "f4" and 0.1 in (lower, upper):
        lower = upper = float(np.float32(0.1))
    for n in CALLS:
        values = some_values((n,), dtype)
        free = keyed(values, mech=mech)
        low, high = -math.inf if lower is None else float(lower), math.inf if upper is None else float(upper)
        expected = np.clip(free, np.array(low, dtype), np.array(high, dtype)) + np.array(0, dtype)
        assert same(keyed(values, mech=mech, lower=lower, upper=upper), expected)
        out = np.zeros(2 * n, dtype)[::2]
        keyed(values, mech=mech, out=out, lower=lower, upper=upper)
        assert np.array_equal(out, expected)


def test_bounds_that_are_refused() -> None:
    """They must be numbers that the result's type holds exactly, and leave something."""
    values, short = np.zeros(3), np.zeros(3, "f4")
    for name in ("lower", "upper"):
        for bad in (0.1, Fraction(1, 3), 2**24 + 1, 1e39, Decimal("1e-60")):
            with pytest.raises(ParameterError, match=f"^{name} must be a float32 exactly"):
                MECH.release(short, **{name: bad})
            with pytest.raises(ParameterError, match=f"^{name} must be a float32 exactly"):
                MECH.release(values, **{name: bad}, dtype="f4")
        for bad in (Fraction(1, 3), 2**53 + 1, 2**1024, Decimal("0.1")):
            with pytest.raises(ParameterError, match=f"^{name} must be a float64 exactly"):
                MECH.release(values, **{name: bad})
        with pytest.raises(ParameterError, match=f"^{name} must be finite"):
            MECH.release(values, **{name: math.nan})
        with pytest.raises(DTypeError, match=f"^{name} must be an int, float"):
            MECH.release(values, **{name: "1"})
    with pytest.raises(ParameterError, match="^lower must be at most upper"):
        MECH.release(values, lower=2, upper=1)
    assert MECH.release(np.ones(3), lower=-0.0, upper=0.0).tobytes() == np.zeros(3).tobytes()


# ------------------------------------------------------------------ what is not finite

ODD = [math.nan, -math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
def test_what_is_not_finite_is_refused(odd: float, dtype: np.dtype, mech: Any) -> None:
    """Anywhere in the array: an error without value or index. In place nothing is touched; elsewhere nothing is released."""
    for n, at in ((3, 1), (5000, 4999), (20_000, 2048)):
        values = np.full(n, SECRET, dtype)
        values[at] = odd
        before = values.copy()
        out = np.full(n, 77, dtype)
        strided = np.zeros(2 * n, dtype)[::2]
        strided[...] = values
        calls: list[Callable[[], object]] = [
            lambda v=values: mech.release(v),
            lambda v=values: mech.release(v, out=v),
            lambda v=values, o=out: mech.release(v, out=o),
            lambda s=strided: mech.release(s, out=s, constant_time=True),
        ]
        for call in calls:
            with pytest.raises(ParameterError, match="^values must be finite; missing=<public number>") as caught:
                call()
            assert not re.search("91|nan,|inf,|4999|2048", str(caught.value))
            assert not {str(at)} & set(re.findall("[0-9]+", str(caught.value)))
        assert values.tobytes() == before.tobytes()
        assert strided.tobytes() == before.tobytes()
        assert set(out.tolist()) in ({0.0}, {77.0})  # found beforehand, or on the way


def test_what_is_not_finite_is_refused_in_every_thread() -> None:
    """One NaN in a million values, in another thread's share: nothing of the release is left."""
    values, out = np.full(2**20, SECRET), np.full(2**20, 77.0)
    values[-5] = math.nan
    for threads in (1, 2):
        out[:] = 77.0
        with pytest.raises(ParameterError, match="^values must be finite"):
            MECH.release(values, out=out, threads=threads)
        assert set(np.unique(out)) <= {0.0, 77.0}
        assert len(np.unique(out)) == 1


class OneKey(_native.StreamKey):
    """The same key for every call."""

    __slots__ = ()

    def draw(self) -> None:
        self.take(bytes(32))


@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_missing_stands_for_what_is_not_finite(mech: Any, dtype: np.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the noise that a value there would get: no cell passes without."""
    for n in CALLS:
        values = some_values((n,), dtype)
        values[::7], values[1::7], values[2::7] = ODD[0], ODD[2], ODD[3]
        mech_noise = keyed(values, mech=mech, missing=2.5, clamp=(0, 5))
        assert np.isfinite(mech_noise).all()
        assert len(np.unique(mech_noise[::7])) > 5

        # the same noise over the same values: only what stood there differs, so a second `missing` shifts nothing else
        with monkeypatch.context() as patch:
            patch.setattr(_native, "StreamKey", OneKey)
            filled = np.where(np.isfinite(values), values, 2.5).clip(0, 5).astype(dtype)
            assert same(mech.release(values, missing=2.5, clamp=(0, 5)), mech.release(filled))
            out = np.zeros(2 * n, dtype)[::2]
            mech.release(values, missing=2.5, clamp=(0, 5), out=out)
            assert np.array_equal(out, mech.release(filled))
            place = values.copy()
            assert np.array_equal(mech.release(place, missing=2.5, clamp=(0, 5), out=place), mech.release(filled))


def test_missing_is_a_public_number() -> None:
    """Any finite double, taken exactly; another one, and the noise of all cells is another."""
    values = np.array([1.0, math.nan, 3.0] * 100)
    results = [keyed(values, missing=x, clamp=(0, 3)) for x in (0, 1, Fraction(1, 2))]
    results += [keyed(np.nan_to_num(values)), keyed(np.nan_to_num(values), missing=0, clamp=(0, 3))]
    finite = ~np.isnan(values)
    for a, b in itertools.combinations(results, 2):
        assert not np.array_equal(a[finite], b[finite])
    assert same(keyed(values, missing=0, clamp=(0, 3)), keyed(values, missing=-0.0, clamp=(0, 3)))
    for bad, error in (
        (math.nan, ParameterError),
        (math.inf, ParameterError),
        ("0", DTypeError),
        (True, DTypeError),
        (Fraction(1, 3), ParameterError),
    ):
        with pytest.raises(error, match="^missing must be"):
            MECH.release(values, missing=bad, clamp=(0, 3))
    assert np.isfinite(
        MECH.release(np.full(10, math.nan, "f4"), missing=0.1, clamp=(0, 3))
    ).all()  # float64 for float32 values


# ------------------------------------------------------------------ sensitivity


def test_a_sensitivity_in_place_of_a_number() -> None:
    """Its l1, adjacency and unit hold; a second value of them is refused, and an L2 norm alone is not enough."""
    given_ = Sensitivity(3, 0.5, adjacency="substitution", unit="household", signed=True)
    mech = Laplace(2, given_)
    assert (mech.sensitivity, mech.adjacency, mech.unit) == (3, "substitution", "household")
    assert mech == Laplace(2, 3, granularity=None, adjacency="substitution", unit="household")
    for extra in ({"adjacency": "add-remove"}, {"adjacency": "substitution"}, {"unit": "household"}):
        with pytest.raises(ParameterError, match="^adjacency and unit are those of the Sensitivity"):
            Laplace(2, given_, **extra)
    with pytest.raises(ParameterError, match="^sensitivity must be known in L1"):
        Laplace(1, Sensitivity.from_l2(4))


@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize(
    ("bad", "error", "rule"),
    [
        (0, ParameterError, "must be positive"),
        (-1.5, ParameterError, "must be positive"),
        (math.nan, ParameterError, "must be finite"),
        (math.inf, ParameterError, "must be finite"),
        ("1", DTypeError, "must be an int, float, Fraction or Decimal"),
        (True, DTypeError, "must be an int, float, Fraction or Decimal"),
        (None, DTypeError, "must be an int, float, Fraction or Decimal"),
    ],
)
def test_parameters_that_are_refused(name: str, bad: object, error: type[Exception], rule: str) -> None:
    """Named, with the rule."""
    with pytest.raises(error, match=f"^{name} {rule}"):
        Laplace(**{"epsilon": 1, "sensitivity": 1, name: bad})


# ------------------------------------------------------------------ failures


def test_a_refusal_leaves_out_alone() -> None:
    """Everything that can be wrong with the arguments is found before the first write."""
    out = np.full(5000, 77.0)
    values = np.zeros(5000)
    bad = values.copy()
    bad[7] = math.nan
    refusals: list[Callable[[], object]] = [
        lambda: MECH.release(values, out=out, lower=2, upper=1),
        lambda: MECH.release(values, out=out, threads=0),
        lambda: MECH.release(values, out=out, start=3),
        lambda: MECH.release(values, out=out, key=Key.generate()),
        lambda: MECH.release(values, out=out, key=Key.generate().derive("x")),
        lambda: MECH.release(values, out=out, key=Key.generate().derive("x"), start=-1),
        lambda: MECH.release(values, out=out, dtype=np.float32),
        lambda: MECH.release(values.astype(int), out=out),
        lambda: MECH.release(values, out=out, missing=math.nan),
        lambda: MECH.release(bad, out=bad),
    ]
    before = bad.tobytes()
    for refusal in refusals:
        with pytest.raises(dpfast.DpfastError):
            refusal()
    assert (out == 77).all()
    assert bad.tobytes() == before


def test_a_key_names_one_release_of_one_input() -> None:
    """A retry is the same; other values, another `missing` or overlapping parts are refused; parts follow each other."""
    values = some_values((6000,))
    key = Key.generate().derive("reuse")
    first = MECH.release(values, key=key, start=0)
    assert same(MECH.release(values, key=key, start=0), first)
    assert same(MECH.release(values.astype(">f8")[::-1][::-1], key=key, start=0, constant_time=True), first)
    for again in (
        lambda: MECH.release(values + 1, key=key, start=0),
        lambda: MECH.release(values, key=key, start=0, missing=0, clamp=(-3, 3)),
        lambda: MECH.release(values, key=key, start=5999),
        lambda: Laplace(1, 3, granularity=0.5).release(values, key=key, start=0),
        lambda: Snapping(1, 3, bound=4).release(values, key=key, start=0),
    ):
        out = np.full(6000, 77.0)
        with pytest.raises(KeyReuseError) as caught:
            again()
        assert not re.search(r"\d\.\d", str(caught.value))
        assert (out == 77).all()
    assert not same(MECH.release(values, key=key, start=6000), first)
    # parts that a file is cut into are as good as any; -0.0 is not 0.0 to the digest, and its result is never -0.0
    zeros = keyed(np.array([0.0, -0.0] * 3000))
    assert not np.signbit(zeros[zeros == 0]).any()


def test_a_refused_value_does_not_use_up_the_key() -> None:
    """Nothing was released, so the same part may be released once the values are right, or have something to stand for NaN."""
    for n in CALLS:
        values = np.full(n, SECRET)
        values[3] = math.nan
        for place in (None, values):
            key = Key.generate().derive("refused")
            with pytest.raises(ParameterError, match="^values must be finite"):
                MECH.release(values, key=key, start=0, out=place)
            assert np.isfinite(MECH.release(values, key=key, start=0, missing=0, clamp=(-3, 3))).all()


def test_negative_zero_gets_the_noise_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sign shows in no bit of the result, whichever draw it meets."""
    job = np.zeros(30_000)
    coarse = Laplace(1, 1, granularity=4)  # most results are 0
    monkeypatch.setattr(_native, "StreamKey", OneKey)
    for dtype in ("f8", "f4"):
        results = [
            coarse.release((sign * job).astype(dtype), constant_time=care) for sign in (1, -1) for care in (False, True)
        ]
        assert (results[0] == 0).mean() > 0.5
        assert all(same(result, results[0]) for result in results)
        assert not np.signbit(results[0][results[0] == 0]).any()


def test_entropy_that_fails_leaves_everything_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call gives noise without a key."""

    class NoEntropy(_native.StreamKey):
        __slots__ = ()

        def draw(self) -> None:
            raise EntropyError("none")

    monkeypatch.setattr(_native, "StreamKey", NoEntropy)
    for n in (1, 4000, 2**20):
        values = np.full(n, SECRET)
        other = np.full(n, 77, np.float32)
        calls: list[Callable[[], object]] = [
            lambda v=values: MECH.release(v, out=v),
            lambda v=values, o=other: MECH.release(v, out=o, threads=2),
            lambda v=values: MECH.release(v.astype(">f4"), missing=0, clamp=(-3, 3)),
            lambda v=values: Snapping(1, 1, bound=4).release(v, out=v, constant_time=True),
        ]
        for call in calls:
            with pytest.raises(EntropyError):
                call()
        assert (values == SECRET).all()
        assert (other == 77).all()


def test_a_failure_before_there_is_a_key_leaves_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that cannot be made is no failed release: nothing was written."""
    values = np.full(5000, SECRET)
    for failure in (KeyboardInterrupt, MemoryError):

        def refuse(self: object, failure: type[BaseException] = failure) -> None:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(Laplace, "_constants", refuse)
            with pytest.raises(failure):
                Laplace(1, 10).release(values, out=values)
    assert (values == SECRET).all()


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
@pytest.mark.parametrize("ratio", [5, 2**50])
def test_a_failure_on_the_way_zeroes_out(dtype: str, ratio: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception after the first block: no cell of out keeps a value or a result, in place and elsewhere, in any thread."""
    n = 2**20
    for failure in (KeyboardInterrupt, MemoryError, RuntimeError):
        mech = Laplace(1, ratio, granularity=1)
        add, name = (kernels.kernel("add_grid" if ratio < 2**44 else "add_grid_wide"), "kernel")

        def broken(_: str, add: Any = add, failure: type[BaseException] = failure) -> Any:
            left = [3]

            def kernel(*arguments: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise failure
                return add(*arguments)

            return kernel

        for threads in (1, 2):
            values = np.full(n, SECRET, dtype)
            for out in (np.full(n, 77, dtype), values):
                with monkeypatch.context() as patch:
                    patch.setattr(engine, "SLAB", 50_000)
                    patch.setattr(kernels, name, broken)
                    with pytest.raises(failure):
                        mech.release(values, out=out, threads=threads, missing=0, clamp=(-3, 3))
                assert not out.any()


def test_a_draw_that_no_tier_decides_zeroes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact tier's own failure, too."""
    constants = MECH._constants() | {"careful": _native.INTEGER, "bulk": _native.INTEGER, "wide_cell": 400}
    blind = Laplace(1, 3, granularity=0.25)
    monkeypatch.setattr(Laplace, "_constants", lambda self: constants)
    drawn = []

    def fails(self: object, *arguments: object) -> int:
        drawn.append(1)
        if len(drawn) > 20:
            raise dpfast.DpfastError("the stream has no more digits for a draw")
        return 0

    monkeypatch.setattr(exact.Laplace, "draw", fails)
    values = np.full(6000, SECRET)
    with pytest.raises(dpfast.DpfastError, match="no more digits"):
        blind.release(values, out=values)
    assert not values.any()


def test_a_second_release_takes_no_memory_of_the_arrays_size() -> None:
    """Into an existing array, buffers stay small: in any layout, either dtype, with or without a key, missing or not."""
    n = 2**22
    values, out = some_values((n,)), np.zeros(n)
    short, short_out = values.astype("f4"), np.zeros(n, "f4")
    key = Key.generate().derive("memory")
    wide = Laplace(1, 2.0**50, granularity=1)
    ways: list[Callable[[], object]] = [
        lambda: MECH.release(values, out=out, threads=2),
        lambda: MECH.release(values, out=values, threads=2),
        lambda: MECH.release(values[::-1], out=out, threads=2, missing=0, clamp=(-3, 3)),
        lambda: MECH.release(short, out=short_out, threads=2),
        lambda: MECH.release(short, out=out, threads=2),
        lambda: MECH.release(short[::-1], out=short_out, threads=2),
        lambda: wide.release(short, out=short_out, threads=2),
        lambda: MECH.release(short, out=short_out, threads=2, key=key, start=0),
    ]
    for way in ways:
        way()
        tracemalloc.start()
        try:
            way()
            assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
        finally:
            tracemalloc.stop()


def test_no_message_holds_a_value() -> None:
    """Of private data a message tells dtype, shape and rule; every refusal here was given values of 91.25."""
    values = np.full((3, 4), SECRET)
    odd = values.copy()
    odd[2, 3] = math.inf
    calls: list[Callable[[], object]] = [
        lambda: MECH.release(values, out=values.T),
        lambda: MECH.release(values, out=values[:, ::-1]),
        lambda: MECH.release(values.astype(int)),
        lambda: MECH.release([*values.tolist(), None]),
        lambda: MECH.release(values, dtype=int),
        lambda: MECH.release(values, lower="x"),
        lambda: MECH.release(values, key=3, start=0),
        lambda: MECH.release(odd),
        lambda: MECH.release(odd, out=odd),
        lambda: MECH.sample(values),
    ]
    for call in calls:
        with pytest.raises(dpfast.DpfastError) as caught:
            call()
        assert not re.search("91", str(caught.value)), caught.value
