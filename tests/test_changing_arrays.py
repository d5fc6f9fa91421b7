# SPDX-License-Identifier: Apache-2.0
"""Arrays that another thread writes while a call reads them: what is used is what was checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from fresh import python
from laws import BLIND

import dpfast
from dpfast import ParameterError, kernels, postprocess
from dpfast.release.arrays import grid_of

HOME = str(Path(dpfast.__file__).parent)


def changed_at(step: int, call: Callable[[], Any], change: Callable[[], None]) -> tuple[Any, int]:
    """The result or ParameterError if `change` runs before that line of dpfast; the line count."""
    steps = 0

    def trace(frame: Any, event: str, _argument: object) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            if steps == step:
                change()
            steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = call()
    except ParameterError as error:
        found = error
    finally:
        sys.settrace(before)
    return found, steps


KEYS = np.zeros(40, np.int64)
CENTRE = 10**6  # noise of scale 1 is below 1000, but for a chance of e^-1000


def near(found: Any) -> bool:
    return bool((np.abs(np.asarray(found, np.float64) - CENTRE) < 1000).all())


def category(k: int) -> Callable[[Any], bool]:
    return lambda found: bool(((found >= 0) & (found < k)).all())


def histogram(unit_ids: np.ndarray, domain: Any) -> Any:
    """Each row is of a unit of its own, and all of key 0."""
    return dpfast.bounded_histogram(KEYS, unit_ids, domain=domain, max_partitions=1, max_per_partition=1).counts


FLOATS = np.full(40, float(CENTRE))
INTEGERS = np.full(40, CENTRE)
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
        lambda a: histogram(a, np.arange(2**16)), np.arange(40), np.arange(40) << 48, lambda found: found.sum() == 40,
    ),
    "units far apart": (
        lambda a: histogram(a, np.arange(2**16)), SPREAD, np.arange(40) + (2**63 - 40), lambda found: found.sum() == 40,
    ),
    "sum": (
        lambda a: dpfast.fixed_point_sum(a, lower=0, upper=1, granularity=0.25, adjacency="add-remove")[0], np.ones(40), np.nan, lambda n: n == 160,
    ),
    "counts": (lambda a: dpfast.DiscreteLaplace(1, 1).release(a, dtype=np.int64), INTEGERS, CENTRE + 50, near),
    "values": (lambda a: dpfast.Laplace(1, 1).release(a), FLOATS, np.nan, near),
    "clip": (lambda a: postprocess.clip(a, lower=0, upper=2 * CENTRE), FLOATS, np.nan, near),
    "rounded": (postprocess.rounded, FLOATS, np.nan, near),
    "non negative": (postprocess.non_negative, FLOATS, np.nan, near),
    "ordered": (postprocess.ordered, FLOATS, np.nan, near),
    "consistent": (
        lambda a: postprocess.consistent(a.reshape(4, 10), np.full(4, 10.0 * CENTRE))[0], FLOATS, np.nan, near,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_array_changes_at_each_moment_of_the_call(name) -> None:
    """A change before each line of Python: a right answer or a ParameterError (C: below)."""
    call, right, wrong, holds = CALLS[name]
    for first, then in ((right, wrong), (wrong, right)):
        array = right.copy()

        def write(content: Any, array: np.ndarray = array) -> None:
            array[:] = content

        write(right)
        call(array.copy())  # with this kernel loaded
        write(right)
        steps, outcomes = changed_at(-1, lambda: call(array), lambda: None)[1], set()
        assert steps > 5
        for step in range(steps):
            write(first)
            found, _ = changed_at(step, lambda: call(array), lambda: write(then))
            outcomes.add(type(found) is ParameterError)
            assert type(found) is ParameterError or holds(found), (step, found)
        assert False in outcomes  # the last moments are too late to matter, or the first ones early enough


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
            except dpfast.ParameterError:
                refused += 1
            else:
                assert found.min() >= 0 and found.max() <= 1
                released += 1
        over = True
        print(released + refused)
        """
    )
    assert output == "600\n"


@pytest.mark.parametrize("name", ["add_grid", "add_grid_wide"])
def test_a_real_value_counts_as_it_was_first_read(name) -> None:
    """Undecided values are read twice: the first ones are kept, or a change reported."""
    law, n = dpfast.Laplace(1, 1), 100
    plan, key = tiers.Plan(law.LAW, **tiers.constants(law) | BLIND), tiers.StreamKey(bytes(32))
    largest = np.finfo(float).max

    def run(scratch: np.ndarray, values: np.ndarray) -> tuple[int, int]:
        out = np.full(n, 777.0)
        found = kernels.kernel(name)(
            values, out, scratch, tiers.best_isa(), plan.address, True, key.address, 0, 0, n, n,
            *grid_of(tiers.exponent(law)), 0.0, -largest, largest, -largest, largest, 0, 1,
        )  # fmt: skip
        assert set(out.tolist()) <= {0.0, 777.0}  # each cell waits
        return found

    kept, values = slice(3 * n, 4 * n), np.arange(n) + 0.3
    scratch = np.zeros(5 * n, np.int64)
    assert run(scratch, values) == (n, n)
    assert (scratch[kept].view(np.float64) == values).all()

    scratch = np.zeros(5 * n, np.int64)
    changing = scratch[2 * n : 3 * n].view(np.float64)  # where the numbers of the undecided draws go
    changing[:] = values
    done = run(scratch, changing)[0]
    assert not np.array_equal(changing, values)
    assert done == -2 or np.array_equal(scratch[kept].view(np.float64), values)
