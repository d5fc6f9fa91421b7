# SPDX-License-Identifier: Apache-2.0
"""A call's time must not tell its noise [Jin22]: all mechanisms, as the public API calls them.

A call of one count or value, and calls of 4,096 and 16,384 in constant time, with all laws in one
loop, in random order. Limits are 6.5 standard errors of figures of ranks, with 5,000 calls in the
tail: 1e-10 is the chance of a false alarm of each (5e-10 of the AUC of 16,384 counts, where the
tail is a twelfth of the calls), under any load. The figures of rank and guess are of some 60,000
calls, spread over the whole run. A limit of rho = 0.027 is a shift of the larger half of the noise
by a fifteenth of the spread of the times: a few thousandths of a call of one count at rest.

The same figures must find a planted leak: 1 % of a call's time longer if the noise is above its
median (rho), and likewise in the tail (AUC). A machine that does other work decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
from call_times import leak, on_a_quiet_machine, sizes, timed

from deep.record import show
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric

MECHANISMS = [DiscreteLaplace(1, scale) for scale in (10, 10**6, 10**12)]
MECHANISMS += [DiscreteGaussian(10), DiscreteGaussian(1000), Laplace(1, 1), Gaussian(1), OneSidedGeometric(1, 10)]
RANKED = 60_000  # calls, at least, in the figures of rank and guess
PLANTED = 0.01  # what a planted leak takes, in calls


class Shape(NamedTuple):
    counts: int
    calls: int
    share: float  # the part of the calls that is the tail


SHAPES = [Shape(1, 2_500_000, 1 / 500), Shape(4096, 250_000, 1 / 50), Shape(16_384, 60_000, 1 / 12)]


def release(mechanism: Any, counts: int) -> Callable[[], Any]:
    """A call that returns noise alone: small by default, or in constant time."""
    options: dict[str, Any] = {} if counts == 1 else {"constant_time": True, "threads": 1}
    if isinstance(mechanism, OneSidedGeometric):  # which has no release
        return partial(mechanism.sample, counts, **options)
    zeros = np.zeros(counts, np.float64 if isinstance(mechanism, Laplace | Gaussian) else np.int64)
    if counts > 1:
        options["out"] = zeros.copy()
    return partial(mechanism.release, zeros, **options)


def judged(time: np.ndarray, size: np.ndarray, share: float) -> tuple[dict[str, Any], list[str]]:
    """The figures of one kind of call, and those beyond their limits."""
    every = max(1, time.size // RANKED)
    whole, ranked = leak(time, size, share), leak(time[::every], size[::every], share)
    figures = ranked._replace(tail=whole.tail, events=whole.events)
    row = {
        "rho": figures.rho, "guessed": figures.guessed, "AUC": figures.tail, "rho of all calls": whole.rho,
    }  # fmt: skip
    return {name: round(value, 4) for name, value in row.items()}, figures.told()


def item() -> float:
    """Nanoseconds that any() takes for an item: the best of some."""
    items, times = (False,) * 1000, []
    for _ in range(200):
        begin = perf_counter_ns()
        any(items)
        times.append(perf_counter_ns() - begin)
    return min(times) / len(items)


def leaking(call: Callable[[], Any], which: int, limit: float, longer: int) -> Callable[[], Any]:
    """The call, with so many items to look at if the largest (0) or mean (1) |noise| is large."""
    waits = ((), (False,) * longer)

    def leaks() -> Any:
        noise = call()
        any(waits[bool(sizes(noise)[which] > limit)])
        return noise

    return leaks


def planted(
    shape: Shape, time: np.ndarray, kinds: dict[str, np.ndarray], part: float
) -> tuple[dict[str, Any], list[str]]:
    """The first mechanism with either leak: its figures, and which of them do not find theirs."""
    call, one = release(MECHANISMS[0], shape.counts), item() / float(np.median(time))
    longer = max(1, int(part / one))
    row, blind = {"longer by": round(longer * one, 4)}, []
    large = {"rho": (1, kinds.get("mean", kinds["largest"]), 1 / 2), "AUC": (0, kinds["largest"], shape.share)}
    leaks = [leaking(call, which, float(np.quantile(size, 1 - share)), longer) for which, size, share in large.values()]
    for figure, (times, found) in zip(large, timed(leaks, len(time)), strict=True):
        size = found.get("mean", found["largest"]) if figure == "rho" else found["largest"]
        figures, told = judged(times, size, shape.share)
        row[figure] = figures[figure]
        blind += [figure] * (not any(each.startswith(figure) for each in told))
    return row, blind


@on_a_quiet_machine()
def check(*, cheap: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    told: list[str] = []
    for shape in SHAPES:
        calls = shape.calls // 50 if cheap else shape.calls
        found = timed([release(mechanism, shape.counts) for mechanism in MECHANISMS], calls)
        rows = figures[f"{shape.counts:,}"] = {"calls of each": calls, "in the tail": round(calls * shape.share)}
        for mechanism, (time, kinds) in zip(MECHANISMS, found, strict=True):
            for kind, size in kinds.items():
                name = f"{mechanism.NAME} {mechanism.scale:g}, {kind}"
                rows[name], beyond = judged(time, size, shape.share)
                told += [f"{shape.counts:,} counts, {name}: {each}" for each in beyond]
        # Few calls show a leak of ten calls.
        rows["planted"], blind = planted(shape, *found[0], 10 if cheap else PLANTED)
        told += [f"{shape.counts:,} counts: a planted leak is not found by {each}" for each in blind]
        show(f"{shape.counts:,}: {rows}")
    assert told == [], told
    return figures
