# SPDX-License-Identifier: Apache-2.0
"""Real values, beside test_arrays.py: both floats, what is not finite, bounds, failing closed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import fixed
from layouts import FLOATS, same, some_values

from dpfast import DiscreteLaplace, Gaussian, Key, Laplace, Sensitivity, Snapping
from dpfast.errors import DTypeError, EntropyError, KeyReuseError, ParameterError, UnusableValuesError

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


# ------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_both_floats_come_in_and_out(dtype: np.dtype, mech: Any) -> None:
    """The result has the values' type, native; equal values of any dtype get equal noise."""
    for n in CALLS:
        values = some_values((n,))
        wide, short = fixed(mech, values), fixed(mech, values, dtype="f4")
        noisy = fixed(mech, values.astype(dtype))
        assert noisy.dtype == np.dtype(f"f{dtype.itemsize}")
        assert noisy.dtype.isnative
        assert same(noisy, wide if dtype.itemsize == 8 else short)
        assert not np.array_equal(noisy, values)
        assert same(fixed(mech, values.astype(dtype), dtype=np.float64), wide)
        assert same(fixed(mech, values.astype(dtype), dtype=np.float32), short)
        for made in FLOATS:
            out = np.full(n, 77, made)
            assert fixed(mech, values.astype(dtype), out=out) is out
            assert same(out.astype(f"f{made.itemsize}"), wide if made.itemsize == 8 else short)
            assert fixed(mech, values.astype(dtype), out=out, dtype=made) is out


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8", ">i8"])
def test_integers_are_told_the_right_law(dtype: str) -> None:
    """A real law refuses counts, one for counts refuses reals; each names those that take them."""
    with pytest.raises(
        DTypeError, match="^values must be of .*: for counts there are DiscreteLaplace and DiscreteGaussian$"
    ):
        MECH.release(np.array([91, 2], dtype))
    for values in (np.array([SECRET]), np.array([SECRET], "f4"), [SECRET]):
        with pytest.raises(
            DTypeError, match="^counts must be of .*: for real values there are Laplace and Gaussian; astype"
        ) as caught:
            DiscreteLaplace(1, 1).release(values)
        assert "91" not in str(caught.value)


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    exponent=st.integers(-1074, 900),
    power=st.integers(-60, 59),
)
@settings(max_examples=100, deadline=None)
def test_any_double_comes_out_on_the_grid(values: list[float], exponent: int, power: int) -> None:
    """Any values, grid and scale: a multiple of the grid, or the largest double; never -0.0."""
    mech = Laplace(1, Fraction(5, 4) * Fraction(2) ** (exponent + power), granularity=Fraction(2) ** exponent)
    for y in mech.release(values).tolist():
        assert (Fraction(y) / Fraction(2) ** exponent).denominator == 1 or abs(y) == np.finfo(float).max
        assert math.copysign(1, y) == 1 or y < 0


# ------------------------------------------------------------------ bounds


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
@pytest.mark.parametrize(
    ("lower", "upper"), [(0, None), (None, 40.5), (-2.25, 60), (0.1, 0.1), (Decimal("-0.5"), Fraction(7, 8))]
)
def test_bounds_clamp_the_result(dtype: str, mech: Any, lower: Any, upper: Any) -> None:
    """lower and upper, on grid or off, clamp the unbounded release; strided, in place too."""
    if dtype == "f4" and 0.1 in (lower, upper):
        lower = upper = float(np.float32(0.1))
    for n in CALLS:
        values = some_values((n,), dtype)
        free = fixed(mech, values)
        low, high = -math.inf if lower is None else float(lower), math.inf if upper is None else float(upper)
        expected = np.clip(free, np.array(low, dtype), np.array(high, dtype)) + np.array(0, dtype)
        assert same(fixed(mech, values, lower=lower, upper=upper), expected)
        out = np.zeros(2 * n, dtype)[::2]
        fixed(mech, values, out=out, lower=lower, upper=upper)
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
        with pytest.raises(ParameterError, match=f"^{name} must be a number such as 0.1"):
            MECH.release(values, **{name: "one"})
    with pytest.raises(ParameterError, match="^lower must be at most upper"):
        MECH.release(values, lower=2, upper=1)
    assert MECH.release(np.ones(3), lower=-0.0, upper=0.0).tobytes() == np.zeros(3).tobytes()


# ------------------------------------------------------------------ what is not finite

ODD = [math.nan, -math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
def test_what_is_not_finite_is_refused(odd: float, dtype: np.dtype, mech: Any) -> None:
    """An error shows no value. In place nothing is touched, elsewhere nothing is released."""
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


@pytest.mark.parametrize("mech", LAWS, ids=NAMES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_missing_stands_for_what_is_not_finite(mech: Any, dtype: np.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the noise that a value there would get: no cell passes without."""
    for n in CALLS:
        values = some_values((n,), dtype)
        values[::7], values[1::7], values[2::7] = ODD[0], ODD[2], ODD[3]
        mech_noise = fixed(mech, values, missing=2.5, clamp=(0, 5))
        assert np.isfinite(mech_noise).all()
        assert len(np.unique(mech_noise[::7])) > 5

        # equal noise over equal values: only what stood there differs, a second `missing` shifts
        # nothing
        with tiers.one_key():
            filled = np.where(np.isfinite(values), values, 2.5).clip(0, 5).astype(dtype)
            assert same(mech.release(values, missing=2.5, clamp=(0, 5)), mech.release(filled))
            out = np.zeros(2 * n, dtype)[::2]
            mech.release(values, missing=2.5, clamp=(0, 5), out=out)
            assert np.array_equal(out, mech.release(filled))
            place = values.copy()
            assert np.array_equal(mech.release(place, missing=2.5, clamp=(0, 5), out=place), mech.release(filled))


def test_missing_is_a_public_number() -> None:
    """Any finite double, taken exactly; under a key it is sealed, whatever it stands for."""
    values = np.array([1.0, math.nan, 3.0] * 100)
    for x in (0, 1, Fraction(1, 2), -0.0):
        filled = np.nan_to_num(values, nan=float(x))
        assert same(fixed(MECH, values, missing=x, clamp=(0, 3)), fixed(MECH, filled))
    key = Key.generate().derive("missing")
    first = MECH.release(values, key=key, missing=0, clamp=(0, 3))
    assert same(MECH.release(values, key=key, missing=-0.0, clamp=(0, 3), resume=True), first)
    for other in ({"missing": 1, "clamp": (0, 3)}, {}):
        with pytest.raises(KeyReuseError, match="missing"):
            MECH.release(np.nan_to_num(values), key=key, **other, resume=True)
    for bad, error in (
        (math.nan, ParameterError),
        (math.inf, ParameterError),
        ("none", ParameterError),
        (True, DTypeError),
        (Fraction(1, 3), ParameterError),
    ):
        with pytest.raises(error, match="^missing must be"):
            MECH.release(values, missing=bad, clamp=(0, 3))
    assert np.isfinite(
        MECH.release(np.full(10, math.nan, "f4"), missing=0.1, clamp=(0, 3))
    ).all()  # float64 for float32 values


# ------------------------------------------------------------------ sensitivity


@pytest.mark.parametrize("kind", [Laplace, partial(Snapping, bound=64)], ids=["Laplace", "Snapping"])
def test_a_sensitivity_in_place_of_a_number(kind: Callable[..., Any]) -> None:
    """Its l1, adjacency and unit hold; second values of them are refused, as is a lone L2 norm."""
    given_ = Sensitivity(3, 0.5, adjacency="substitution", unit="household", signed=True)
    mech = kind(2, given_)
    assert (mech.sensitivity, mech.adjacency, mech.unit) == (3, "substitution", "household")
    number = kind(2, 3, adjacency="substitution", unit="household")
    assert (mech.scale, mech.granularity, mech.guarantee.epsilon) == (number.scale, number.granularity, 2)
    assert mech != number  # which is not told what it costs beyond epsilon
    for extra in ({"adjacency": "add-remove"}, {"adjacency": "substitution"}, {"unit": "household"}):
        with pytest.raises(ParameterError, match="^adjacency and unit are those of the Sensitivity"):
            kind(2, given_, **extra)
    with pytest.raises(ParameterError, match="^sensitivity must be known in L1"):
        kind(1, Sensitivity.from_l2(4))


@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize(
    ("bad", "error", "rule"),
    [
        (0, ParameterError, "must be positive"),
        (-1.5, ParameterError, "must be positive"),
        (math.nan, ParameterError, "must be finite"),
        (math.inf, ParameterError, "must be finite"),
        ("one", ParameterError, "must be a number such as 0.1 or 1/3"),
        (True, DTypeError, "must be an int, float, Fraction"),
        (None, DTypeError, "must be an int, float, Fraction"),
    ],
)
def test_parameters_that_are_refused(name: str, bad: object, error: type[Exception], rule: str) -> None:
    """Named, with the rule."""
    with pytest.raises(error, match=f"^{name} {rule}"):
        Laplace(**{"epsilon": 1, "sensitivity": 1, name: bad})


# ------------------------------------------------------------------ failures


def test_a_key_names_one_release_of_one_input() -> None:
    """Retries are equal; other values, another clamp, another law are refused."""
    values = some_values((6000,))
    key = Key.generate().derive("reuse")
    first = MECH.release(values, key=key)
    assert same(MECH.release(values, key=key, resume=True), first)
    assert same(MECH.release(values.astype(">f8")[::-1][::-1], key=key, constant_time=True, resume=True), first)
    for mech, changed, options in (
        (MECH, values + 1, {}),
        (MECH, values, {"missing": 0, "clamp": (-3, 3)}),
        (MECH, values[:5999], {}),
        (Laplace(1, 3, granularity=0.5), values, {}),
        (Snapping(1, 3, bound=4), values, {}),
    ):
        out = np.full(changed.size, 77.0)
        with pytest.raises(KeyReuseError) as caught:
            mech.release(changed, key=key, out=out, resume=True, **options)
        assert not re.search(r"\d\.\d", str(caught.value))
        assert (out == 77).all()
    zeros = fixed(MECH, np.array([0.0, -0.0] * 3000))
    assert not np.signbit(zeros[zeros == 0]).any()


def test_a_refused_value_does_not_use_up_the_key() -> None:
    """Nothing was sealed: the label may be released with right values or a stand-in."""
    for n in CALLS:
        values = np.full(n, SECRET)
        values[3] = math.nan
        for place in (None, np.full(n, 77.0)):
            key = Key.generate().derive("refused")
            with pytest.raises(UnusableValuesError, match="^values must be finite"):
                MECH.release(values, key=key, out=place)
            assert place is None or (place == 77).all()
            assert np.isfinite(MECH.release(values, key=key, missing=0, clamp=(-3, 3))).all()


def test_negative_zero_gets_the_noise_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sign shows in no bit of the result, whichever draw it meets."""
    job = np.zeros(30_000)
    coarse = Laplace(1, 1, granularity=4)  # most results are 0
    for dtype in ("f8", "f4"):
        with tiers.one_key():
            results = [
                coarse.release((sign * job).astype(dtype), constant_time=care)
                for sign in (1, -1)
                for care in (False, True)
            ]
        assert (results[0] == 0).mean() > 0.5
        assert all(same(result, results[0]) for result in results)
        assert not np.signbit(results[0][results[0] == 0]).any()
        key = Key.generate().derive(dtype)
        results = [
            coarse.release((sign * job).astype(dtype), key=key, resume=sign < 0, out=out)
            for sign, out in ((1, None), (-1, None), (-1, np.empty(job.size, dtype)))
        ]
        assert all(same(result, results[0]) for result in results)


def test_entropy_that_fails_leaves_everything_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call gives noise without a key."""
    tiers.no_key(monkeypatch)
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
            tiers.plant(patch, Laplace, "made_plan", refuse)
            with pytest.raises(failure):
                Laplace(1, 10).release(values, out=values)
    assert (values == SECRET).all()


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8"])
@pytest.mark.parametrize("ratio", [5, 2**50])
def test_a_failure_on_the_way_zeroes_out(dtype: str, ratio: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception after the first block: out keeps no value and no result, in any thread."""
    n = 2**20
    for failure in (KeyboardInterrupt, MemoryError, RuntimeError):
        mech = Laplace(1, ratio, granularity=1)
        for threads in (1, 2):
            values = np.full(n, SECRET, dtype)
            for out in (np.full(n, 77, dtype), values):
                left = [3]

                def broken(call: Callable[..., Any], release: Any, *arguments: Any, left: list[int] = left) -> Any:
                    left[0] -= 1
                    if left[0] < 0:
                        raise failure
                    return call(*arguments)

                with monkeypatch.context() as patch:
                    tiers.slabs_of(patch, 50_000)
                    tiers.around_c(patch, broken)
                    with pytest.raises(failure):
                        mech.release(values, out=out, threads=threads, missing=0, clamp=(-3, 3))
                assert not out.any()
