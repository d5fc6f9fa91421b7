# SPDX-License-Identifier: Apache-2.0
"""Arrays that another thread writes while a call reads them: what is used is what was checked."""

from __future__ import annotations

import copy
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import tiers
from fresh import python
from turned import REFUSALS, Turned, needs_single_steps, orders

import dpfast
from dpfast import postprocess

KEYS = np.zeros(40, np.int64)
CENTRE = 10**6  # noise of scale 1 is below 1000, but for a chance of e^-1000


def near(found: Any) -> bool:
    return bool((np.abs(np.asarray(found, np.float64) - CENTRE) < 1000).all())


def category(k: int) -> Callable[[Any], bool]:
    return lambda found: bool(((found >= 0) & (found < k)).all())


def histogram(unit_ids: np.ndarray, domain: Any) -> Any:
    """Each row is of a unit of its own, and all of key 0."""
    return dpfast.bounded_histogram(KEYS, unit_ids, domain=domain, max_partitions=1, max_per_partition=1).counts


def sealed(mechanism: Any, values: np.ndarray) -> Any:
    """A release under a key in blocks of 16 values, which are read twice."""
    with tiers.small_blocks(16):
        return mechanism.release(values, key=dpfast.Key.generate().derive("x"))


def summed(values: np.ndarray, upper: int) -> Any:
    grid = {"granularity": 0.25} if values.dtype == np.float64 else {}
    return dpfast.bounded_histogram(
        KEYS, np.arange(40), values=values, lower=0, upper=upper, domain=[0], max_contributions=1, **grid
    ).counts


FLOATS = np.full(40, float(CENTRE))
INTEGERS = np.full(40, CENTRE)
MANY = np.arange(2**10)  # keys: no word holds a number of one and an id that is shifted below
SPREAD = np.arange(40) * 2**57  # ids too far apart to be numbered by their distance
CALLS: dict[str, tuple[Callable[[np.ndarray], Any], np.ndarray, Any, Callable[[Any], bool]]] = {
    # the call; what is right; what is wrong, or another right content; what may come out
    "answers": (lambda a: dpfast.RandomizedResponse(1, 3).release(a), np.ones(40, np.int64), 10**9, category(3)),
    "answers of coins": (
        lambda a: dpfast.RandomizedResponse.two_coin(0.5).release(a), np.ones(40, np.uint64), 1000, category(2),
    ),
    "reports": (
        lambda a: dpfast.RandomizedResponse(1, 3).estimate(a).share, np.ones(40, np.int64), -1,
        lambda found: abs(found.sum() - 1) < 1e-9,
    ),
    "exponential": (lambda a: dpfast.Exponential(1, 1).select(a), FLOATS, np.nan, lambda found: 0 <= found < 40),
    "permute and flip": (lambda a: dpfast.PermuteAndFlip(1, 1).select(a), FLOATS, np.nan, lambda found: 0 <= found < 40),
    "noisy max": (lambda a: dpfast.NoisyMax(1, 1).select(a), FLOATS, np.nan, lambda found: 0 <= found < 40),
    "noisy max of integers": (
        lambda a: dpfast.NoisyMax(1, 1).select(a), INTEGERS, -(2**63), lambda found: 0 <= found < 40,
    ),
    "above threshold": (
        lambda a: dpfast.AboveThreshold(1, 1, threshold=CENTRE).run(a), INTEGERS, -(2**63), lambda found: found is None or 0 <= found < 40,
    ),
    "thresholded": (
        lambda a: dpfast.thresholded(np.arange(40), a, epsilon=1, delta=0.5, sensitivity=dpfast.Sensitivity(1, 1)).counts, INTEGERS, -5,
        lambda found: found.size == 40 and near(found),
    ),
    "keys of thresholded": (
        lambda a: dpfast.thresholded(a, INTEGERS, epsilon=1, delta=0.5, sensitivity=dpfast.Sensitivity(1, 1)).keys, np.arange(40), 7,
        lambda found: np.unique(found).size == 40,
    ),
    "units": (
        lambda a: histogram(a, MANY), np.arange(40), np.arange(40) << 56, lambda found: found.sum() == 40,
    ),
    "units far apart": (
        lambda a: histogram(a, MANY), SPREAD, np.arange(40) + (2**63 - 40), lambda found: found.sum() == 40,
    ),
    "values by key": (lambda a: summed(a, 4 * CENTRE), FLOATS, np.nan, lambda found: found.sum() == 160 * CENTRE),
    "integers by key": (lambda a: summed(a, 10**9), INTEGERS, -(2**63), lambda found: 0 <= found.sum() <= 40 * CENTRE),
    "sum": (
        lambda a: dpfast.fixed_point_sum(a, lower=0, upper=1, granularity=0.25, adjacency="add-remove")[0], np.ones(40), np.nan, lambda n: n == 160,
    ),
    "counts": (lambda a: dpfast.DiscreteLaplace(1, 1).release(a, dtype=np.int64), INTEGERS, CENTRE + 50, near),
    "values": (lambda a: dpfast.Laplace(1, 1).release(a), FLOATS, np.nan, near),
    "sealed counts": (lambda a: sealed(dpfast.DiscreteLaplace(1, 1), a), INTEGERS, CENTRE + 50, near),
    "sealed values": (lambda a: sealed(dpfast.Laplace(1, 1), a), FLOATS, np.nan, near),
    "sealed values of one block": (
        lambda a: dpfast.Laplace(1, 1).release(a, key=dpfast.Key.generate().derive("x")), FLOATS, np.nan, near,
    ),
    "clip": (lambda a: postprocess.clip(a, lower=0, upper=2 * CENTRE), FLOATS, np.nan, near),
    "rounded": (postprocess.rounded, FLOATS, np.nan, near),
    "non negative": (postprocess.non_negative, FLOATS, np.nan, near),
    "ordered": (postprocess.ordered, FLOATS, np.nan, near),
    "consistent": (
        lambda a: postprocess.consistent(a.reshape(4, 10), np.full(4, 10.0 * CENTRE))[0], FLOATS, np.nan, near,
    ),
}  # fmt: skip


@needs_single_steps
@pytest.mark.parametrize("name", CALLS)
def test_the_array_changes_between_any_two_reads(tmp_path, name) -> None:
    """A right answer or a refusal, whatever content each instruction sees that reads the array."""
    call, right, wrong, holds = CALLS[name]
    array = Turned(tmp_path, (right, np.full_like(right, wrong) if np.isscalar(wrong) else wrong.astype(right.dtype)))
    call(right.copy())  # with this kernel loaded
    reads = max(array.asked(call, bytes([first]))[1] for first in (0, 1))
    refused = set()
    for order in orders(reads, len(name)):
        found, _ = array.asked(call, order)
        refused.add(isinstance(found, REFUSALS))
        assert isinstance(found, REFUSALS) or holds(found), (order, found)
    assert reads > 0
    assert False in refused  # the last moments are too late to matter, or the first ones early enough


@pytest.mark.slow
def test_a_second_thread_writes_the_answers() -> None:
    """Coin answers index a table: a thread writes 2^50 there and back, no call reads beyond."""
    output = python(
        """
        import _thread, sys, time
        import numpy as np
        import dpfast

        sys.setswitchinterval(1e-5)
        answers, coins, over = np.zeros(300_000, np.int64), dpfast.RandomizedResponse.two_coin(0.5), False

        def write():
            while not over:
                answers[:] = 0
                time.sleep(0)
                answers[:] = 2**50
                time.sleep(0.0003)
                answers[:] = 0
                time.sleep(0.002)

        _thread.start_new_thread(write, ())
        released = refused = 0
        for _ in range(600):
            try:
                found = coins.release(answers)
            except dpfast.errors.ParameterError:
                refused += 1
            else:
                assert found.min() >= 0 and found.max() <= 1
                released += 1
        over = True
        print(released + refused)
        """
    )
    assert output == "600\n"


WRITTEN: dict[str, tuple[Any, Any, tuple[Any, Any]]] = {  # the mechanism, and two values that are written in turn
    "table": (dpfast.DiscreteLaplace(1, 10), np.int64, (5, 10**6)),
    "doubles": (dpfast.DiscreteLaplace(1, 10**6), np.int64, (5, 10**15)),
    "two limbs": (dpfast.DiscreteLaplace(1, 2**57), np.int64, (-(2**60), 2**60)),
    "rejecting": (dpfast.DiscreteGaussian(sigma=1000), np.int64, (5, 10**6)),
    "laplace": (dpfast.Laplace(1, 1, granularity=0.5), np.float64, (0.3, 1e6 + 0.2)),
    "gaussian": (dpfast.Gaussian(sigma=1, granularity=0.5), np.float64, (0.3, 1e6 + 0.2)),
    "float32": (dpfast.Laplace(1, 1, granularity=0.5), np.float32, (0.375, 1000.125)),
    "real, two limbs": (dpfast.Laplace(1, 1, granularity=2.0**-50), np.float64, (0.3, 100.7)),
}


DRAWS, FEW_DRAWS = 3000, 530  # each more than a batch, and a part of one


def noised(mechanism: Any, values: np.ndarray, *, constant_work: bool, **ends: Any) -> np.ndarray:
    """A release under one and the same key. ends: lower and upper of results."""
    if mechanism.INTEGERS:
        out, key = np.zeros_like(values), tiers.StreamKey(bytes(32))
        plan = tiers.constant_work_plan(mechanism) if constant_work else tiers.bulk_plan(mechanism)
        tiers.added(
            values, out, plan=plan, key=key, narrow=tiers.narrow(mechanism), constant_work=constant_work, **ends
        )
        return out
    return tiers.noised(mechanism, values, bytes(32), constant_work=constant_work, **ends)


@contextmanager
def written(values: np.ndarray, contents: tuple[Any, Any]) -> Iterator[None]:
    """Another thread writes the one and the other, cell after cell."""
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            for content in contents:
                for at in range(0, values.size, 64):
                    values[at : at + 64] = content

    before, writer = sys.getswitchinterval(), threading.Thread(target=write)
    sys.setswitchinterval(1e-5)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
        sys.setswitchinterval(before)


LAWS = {
    "table": dpfast.DiscreteLaplace(1, 10),
    "doubles": dpfast.DiscreteLaplace(1, 1000),
    "two limbs": dpfast.DiscreteLaplace(1, 2**57),
}
for dtype in tiers.KINDS:  # values on both sides of 0, or far from one another: a sum of two reads shows
    if dtype.kind in "iu":
        ends = (5, -5) if dtype.kind == "i" else (5, np.iinfo(dtype).max - 5)
        WRITTEN |= {
            f"{law}, {dtype}": (LAWS[law], dtype, ends) for law in LAWS if law != "two limbs" or dtype.itemsize == 8
        }


@needs_single_steps
@pytest.mark.parametrize("isa", tiers.ISAS)
@pytest.mark.parametrize("name", WRITTEN)
def test_values_that_change_between_any_two_reads(monkeypatch, tmp_path, name, isa) -> None:
    """Each result is that of a value that one instruction read, with the draw's own noise.

    Also where a draw is undecided, whose value is read a second time.
    """
    given, dtype, contents = WRITTEN[name]
    draws = FEW_DRAWS if (name, isa) == ("doubles", 0) else DRAWS  # most of them are left
    mechanism, both = copy.copy(given), [np.full(draws, content, dtype) for content in contents]
    tiers.only_isa(monkeypatch, isa)
    tiers.narrow_margins(mechanism, 0.499)  # some draws are left to the exact tier
    array = Turned(tmp_path, (both[0], both[1]))
    bounds = {"lower": min(contents), "upper": max(contents)}
    order = bytes(np.random.default_rng(0).integers(0, 2, 2 * draws, dtype=np.uint8))
    for constant_work, ends in itertools.product((False, True), ({}, bounds)):
        monkeypatch.setattr(tiers.engine, "NON_TEMPORAL", 1 if ends else 2**21)  # past the caches, or not
        call = partial(noised, mechanism, constant_work=constant_work, **ends)
        right = [call(content) for content in both]
        found, reads = array.asked(call, order)
        assert reads >= draws // 64
        assert ((found == right[0]) | (found == right[1])).all()
        assert ends or (found != right[0]).any()
        assert ends or (found != right[1]).any()


@needs_single_steps
@pytest.mark.parametrize("isa", tiers.ISAS)
@pytest.mark.parametrize("name", ["laplace", "gaussian", "float32", "real, two limbs"])
def test_a_value_that_is_not_finite_at_one_read(monkeypatch, tmp_path, name, isa) -> None:
    """The release fails and leaves zeros, or nothing that is not finite was used."""
    given, dtype, (content, _) = WRITTEN[name]
    mechanism, finite = copy.copy(given), np.full(FEW_DRAWS, content, dtype)
    tiers.only_isa(monkeypatch, isa)
    tiers.narrow_margins(mechanism, 0.45)  # one draw of ten is left to the exact tier, and read again
    array = Turned(tmp_path, (finite, np.full_like(finite, np.nan)))
    for constant_work in False, True:
        right, out = noised(mechanism, finite, constant_work=constant_work), np.empty_like(finite)
        outcomes = set()

        def call(values: np.ndarray, *, out: np.ndarray = out, constant_work: bool = constant_work) -> None:
            tiers.noised(mechanism, values, bytes(32), constant_work=constant_work, out=out)

        _, reads = array.asked(call, bytes(1))
        assert reads >= FEW_DRAWS // 64
        # one read alone; fewer where a register holds fewer values and the exact tier decides more
        for order in [bytes(k) + bytes([1, 0]) for k in range(0, reads, (41, 7, 3)[isa])]:
            out[:] = 777
            refused, _ = array.asked(call, order)
            outcomes.add(refused is not None)
            assert not out.any() if refused else np.array_equal(out, right)
        assert True in outcomes


@pytest.mark.parametrize("constant_work", [False, True])
@pytest.mark.parametrize("name", ["two limbs", "float32", "real, two limbs"])
def test_a_second_thread_writes_the_values(name, constant_work) -> None:
    """Each result is that of a value that stood there, with the draw's own noise.

    Also where a draw is undecided, whose value is read a second time.
    """
    given, dtype, contents = WRITTEN[name]
    mechanism, n, mixed = copy.copy(given), 3000, 0
    tiers.narrow_margins(mechanism, 0.499)  # some draws are left to the exact tier
    right = [noised(mechanism, np.full(n, content, dtype), constant_work=constant_work) for content in contents]
    values = np.full(n, contents[0], dtype)
    with written(values, contents):
        for _ in range(5000):  # most of them are over before the other thread writes
            found = noised(mechanism, values, constant_work=constant_work)
            assert ((found == right[0]) | (found == right[1])).all()
            mixed += (found != right[0]).any() and (found != right[1]).any()
            if mixed >= 3:
                break
    assert mixed, "no release saw a change"
