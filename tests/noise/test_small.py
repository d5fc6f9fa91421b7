# SPDX-License-Identifier: Apache-2.0
"""A release of few plain values: one call into C, with the promises of every other release."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest
import tiers
from fresh import python
from layouts import FILLED
from layouts import layouts as laid

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Snapping
from dpfast.errors import DTypeError, ParameterError

COUNTS = DiscreteLaplace(1, 10), DiscreteGaussian(10), DiscreteGaussian(1000), DiscreteLaplace(1, 2**30)
REALS = Laplace(1, 1), Gaussian(3), Snapping(1, 1, bound=2**40)
PLAIN = [(mech, dtype) for mechs, dtypes in ((COUNTS, "l"), (REALS, "df")) for mech in mechs for dtype in dtypes]
FAR = 2**30  # from any noise


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    return tiers.small_calls(monkeypatch)


def layouts(dtype: str) -> dict[str, np.ndarray]:
    plain = (np.arange(24) * FAR).astype(dtype).reshape(4, 6)
    fixed = plain.copy()
    fixed.setflags(write=False)
    return {
        "one": plain[:1, :1].copy(), "0-d": np.array(FAR, dtype), "plain": plain, "read-only": fixed, "reversed": plain[::-1, ::-1],
        "transposed": plain.T, "strided": plain[:, ::2], "spread": np.broadcast_to(plain[0], (3, 6)),
        "misaligned": np.frombuffer(b"\0" + plain.tobytes(), dtype, offset=1),
    }  # fmt: skip


@pytest.mark.parametrize(("mech", "dtype"), PLAIN, ids=lambda value: getattr(value, "NAME", value))
def test_every_layout(mech: Any, dtype: str, calls: list[bool]) -> None:
    """A new array of the values' type and shape; the values stay as they are."""
    for name, values in layouts(dtype).items():
        before = values.copy()
        made = np.asarray(mech.release(values))  # one number of a 0-d array
        turned = name in {"reversed", "transposed"}
        assert calls.pop() == bool(values.flags.carray or name == "read-only" or turned), name
        assert (type(made), made.dtype, made.shape) == (np.ndarray, values.dtype, values.shape), name
        assert made.strides == values.strides if turned else made.flags.carray, name
        assert np.array_equal(values, before), name
        assert not np.shares_memory(made, values), name
        distance = np.abs(made.astype(float) - before.astype(float))
        assert (distance < 2.0**45).all() if mech.scale > 2**20 else (distance < FAR // 2).all(), name


@pytest.mark.parametrize("options", [{}, {"lower": -(2**40)}], ids=["plain", "bounds"])
def test_long_long_is_int64(options: dict[str, Any], calls: list[bool]) -> None:
    """It has as many bits and is another type to NumPy: such an array took ten times as long."""
    values = np.array([0, FAR], np.longlong)
    made = COUNTS[0].release(values, **options)
    assert calls == [True]  # at once
    assert made.dtype is np.dtype(np.int64)
    assert abs(int(made[1]) - FAR) < FAR // 2
    with pytest.raises(DTypeError, match="float64 or float32, not int64"):
        REALS[0].release(values, **options)


@pytest.mark.parametrize("n", [3, 500, 100_000])
def test_long_longs_are_written(n: int) -> None:
    """In place, and into another array of either type."""
    values = np.zeros(n, np.longlong)
    for given, out in ((values, np.zeros(n, np.longlong)), (np.zeros(n, np.int64), values), (values, values)):
        assert COUNTS[0].release(given, out=out) is out
        assert out.dtype is np.dtype(np.longlong)
        assert out.any() or n == 3  # a cell is zero with chance tanh(1/20), 0.05: 500 are with 0.05^500


@pytest.mark.parametrize(("mech", "dtype"), PLAIN, ids=lambda value: getattr(value, "NAME", value))
def test_out_is_given(mech: Any, dtype: str, calls: list[bool]) -> None:
    values, out = np.zeros(500, dtype), np.full(500, FAR, dtype)
    assert mech.release(values, out=out) is out
    assert not values.any()
    assert len(np.unique(out)) > 5
    assert mech.release(values, out=values) is values
    assert len(np.unique(values)) > 5
    assert calls == [True, True]


def test_an_out_that_does_not_fit_is_refused_as_ever(calls: list[bool]) -> None:
    mech, values = COUNTS[0], np.full(10, FAR)
    fixed = np.empty(10, np.int64)
    fixed.setflags(write=False)
    both = np.arange(20)
    for given, out in (
        (values, np.empty(9, np.int64)),
        (values, np.empty((10, 1), np.int64)),
        (values, fixed),
        (both[:10], both[5:15]),
    ):
        before = out.copy()
        with pytest.raises(ParameterError):
            mech.release(given, out=out)
        assert np.array_equal(out, before)
    assert not any(calls)
    assert mech.release(both[:10], out=both[10:]) is not None  # neighbours are no overlap


def test_what_is_not_plain_goes_the_general_way(calls: list[bool]) -> None:
    """Other types, subclasses, scalars, many values: as ever; an __array__ is asked for."""

    class Sub(np.ndarray):
        pass

    class Door:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            return np.full(3, FAR)

    mech = COUNTS[0]
    for values in (
        np.zeros(3, np.int32),
        np.zeros(3, ">i8"),
        np.zeros(3, np.uint64),
        np.zeros(0, np.int64),
        np.zeros(4096, np.int64),
    ):
        assert mech.release(values).shape == values.shape
    assert not any(calls)
    assert type(mech.release(np.zeros(3, np.int64).view(Sub))) is np.ndarray
    assert mech.release(Door()).shape == (3,)
    assert mech.release(7).shape == ()
    with pytest.raises(Exception, match="masked"):
        mech.release(np.ma.masked_array([1, 2], [0, 1]))
    for values in (np.zeros(3), np.zeros(3, "M8[ns]"), np.zeros(3, object), np.zeros(3, "l,l")):
        with pytest.raises(Exception, match="integer"):
            mech.release(values)


@pytest.mark.parametrize(
    "options", [{"lower": 0}, {"upper": FAR}, {"clamp": (0, 5)}, {"constant_time": True}, {"threads": 1}]
)
def test_options_are_kept(options: dict[str, Any], calls: list[bool]) -> None:
    """They reach C as bounds, or as nothing that changes a small call."""
    for mech, dtype in PLAIN:
        found = mech.release(np.zeros(200, dtype), **options)
        assert calls.pop()
        assert found.min() >= options.get("lower", -np.inf)
        assert found.max() <= options.get("upper", np.inf)


def blind(monkeypatch: pytest.MonkeyPatch, mech: Any) -> Any:
    """An equal mechanism of which only the exact tier decides a draw."""
    constants = tiers.constants(mech)
    margins = dict.fromkeys([name for name in constants if "margin" in name], -1.0)
    tiers.plant_plan(monkeypatch, type(mech), constants | margins | {"wide_cell": 400})
    return pickle.loads(pickle.dumps(mech))


@pytest.mark.parametrize("given", [False, True], ids=["new", "in place"])
@pytest.mark.parametrize(("mech", "dtype"), PLAIN[:1] + PLAIN[-4:], ids=lambda value: getattr(value, "NAME", value))
def test_an_undecided_draw_is_finished_exactly(
    mech: Any, dtype: str, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the exact tier, draw by draw: the noise of 40 values differs, and each gets its own."""
    values = np.arange(40).astype(dtype) * 2
    found = blind(monkeypatch, mech).release(values.copy(), out=values if given else None)
    noise = found - np.arange(40).astype(dtype) * 2
    assert (found is values) == given
    assert len(np.unique(noise)) > 3
    assert np.abs(noise).max() < 60 * mech.stddev  # e^-60 and less


@pytest.mark.parametrize("given", ["new", "out", "in place"])
@pytest.mark.parametrize("layout", sorted(FILLED))
@pytest.mark.parametrize("mech", [COUNTS[0], REALS[0]], ids=lambda value: value.NAME)
def test_few_turned_values_get_the_exact_tiers_draws_at_their_places(
    mech: Any, layout: str, given: str, calls: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one call into C: each value far from the others, and its result near it."""
    only_exact, apart = blind(monkeypatch, mech), int(60 * mech.stddev) + 1
    for shape in ((5, 8), (2, 1, 9), (17,)):
        plain = (np.arange(np.prod(shape)) * 2 * apart).reshape(shape).astype("l" if mech in COUNTS else "d")
        values = laid(plain)[layout]
        out = {"new": None, "out": laid(np.zeros(shape, values.dtype))[layout], "in place": values}[given]
        right = values.copy()
        found = only_exact.release(values, out=out)
        assert calls.pop()
        assert out is None or found is out
        assert np.abs(found - right).max() < apart
        assert len(np.unique(found - right)) > 3


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("order_out", ["C", "F", None])
def test_values_by_columns_go_to_c_as_those_by_rows_do(
    order: str, order_out: str | None, calls: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are, where results lie in the same order; else each result still meets its value."""
    only_exact, apart = blind(monkeypatch, COUNTS[0]), int(60 * COUNTS[0].stddev) + 1
    values = np.array(np.arange(40).reshape(5, 8) * 2 * apart, np.int64, order=order)
    out = None if order_out is None else np.zeros((5, 8), np.int64, order=order_out)
    found = only_exact.release(values, out=out)
    assert calls[0] == (order_out in (order, None))
    assert found.flags[f"{order_out or order}_CONTIGUOUS"]
    assert np.abs(found - values).max() < apart


def test_values_that_are_not_finite_are_refused_and_stay() -> None:
    for mech in REALS:
        for odd in (np.nan, np.inf, -np.inf):
            values = np.array([1.0, odd])
            for out in (None, values):
                with pytest.raises(ParameterError, match="finite"):
                    mech.release(values, out=out)
                assert values[0] == 1.0


def test_threads_and_garbage() -> None:
    """Many threads share a mechanism; nothing that a release made is left behind."""
    mech, values, found = DiscreteLaplace(1, 10), np.zeros(3000, np.int64), []

    def work() -> None:
        found.extend(int(mech.release(values)[:4].sum()) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) > 50
    prepared, references, counted = tiers.prepared(mech), sys.getrefcount(values), []
    for turns in (10, 90):  # once each way has kept what it keeps
        for _ in range(turns):
            mech.release(values)
            mech.release(values, out=values)
            mech.release(values[::-1])
        gc.collect()
        counted.append(sys.getrefcount(prepared[1]))  # before pytest holds it, too
    before, after = counted
    assert sys.getrefcount(values) == references
    assert after == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_draws_noise_of_its_own() -> None:
    mech, values = DiscreteLaplace(1, 2**30), np.zeros(4, np.int64)
    mech.release(values)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, mech.release(values).tobytes())
        os._exit(0)
    mine = mech.release(values).tobytes()
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 100) != mine
    os.close(reader), os.close(writer)


def test_a_signal_handler_runs_between_calls() -> None:
    """Ctrl-C ends a loop of small releases."""
    output = python(
        """
        import os, signal, threading, numpy as np, dpfast
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it without one
        mech, values = dpfast.DiscreteLaplace(1, 10), np.zeros(5, np.int64)
        mech.release(values)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                mech.release(values)
        except KeyboardInterrupt:
            print("ended")
        """
    )
    assert output.split() == ["ended"]


def test_a_plain_release_loads_no_compiler() -> None:
    output = python(
        """
        import sys, numpy as np, dpfast
        for mech, values in ((dpfast.DiscreteLaplace(1, 10), np.zeros(5, np.int64)), (dpfast.Laplace(1, 1), np.zeros(5))):
            mech.release(values), mech.release(np.resize(values, 10_000))
        print([name for name in ("numba", "llvmlite") if name in sys.modules])
        """
    )
    assert output.strip() == "[]"


def test_a_shared_plan_lives_as_long_as_a_mechanism_that_uses_it() -> None:
    """The first of two equals goes, others take its place, and the second's noise stays its own.

    A false alarm needs noise of a thousand scales in one of 3,000 draws: 1e-431.
    """
    first, second = DiscreteLaplace(1, 10), DiscreteLaplace(1, 10)
    values = np.zeros(3000, np.int64)
    first.release(values)
    second.release(values)
    del first
    others = [DiscreteLaplace(1, 10**6 + i) for i in range(200)]
    for other in others:
        other.release(values)
    gc.collect()
    assert np.abs(second.release(values)).max() < 10_000


def test_equal_mechanisms_share_a_plan() -> None:
    """Those of one type, and of equal numbers on which draws depend; the rest have their own."""
    one = DiscreteLaplace(1, 12)
    for equal in (DiscreteLaplace(1.0, 12), DiscreteLaplace(1, 12, unit="visit")):
        assert tiers.constant_work_plan(one) is tiers.constant_work_plan(equal)
        assert tiers.bulk_plan(one) is tiers.bulk_plan(equal)
    others = DiscreteLaplace(1, 13), DiscreteLaplace(2, 24), Laplace(1, 12)
    plans = {id(tiers.constant_work_plan(each)) for each in (one, *others)}
    assert len(plans) == 4
