# SPDX-License-Identifier: Apache-2.0
"""Two curves: the time of a release against its size, and how fast more threads make it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

import dpfast
from dpfast.bench.measure import Run, Tick, timed
from dpfast.bench.rows import Array, Unsafe
from dpfast.release.engine import SHARE, usable_threads

STRETCH = 100_000  # counts that small calls handle together between two looks at the clock
MOST_CALLS = 1_000
STEPS = (1, 3)  # sizes in each power of ten


class Curve(NamedTuple):
    """Values of each line, seconds a call or counts a second: a line of fewer values begins at a later place."""

    at: tuple[int, ...]
    lines: Mapping[str, tuple[float, ...]]

    def record(self, across: str, value: str) -> dict[str, object]:
        none_before = {name: [None] * (len(self.at) - len(values)) for name, values in self.lines.items()}
        return {
            across: list(self.at),
            value: {name: none_before[name] + list(values) for name, values in self.lines.items()},
        }


def sizes(most: int) -> tuple[int, ...]:
    """1, 3, 10, 30 ... and `most` itself."""
    steps = (step * 10**exponent for exponent in range(len(str(most))) for step in STEPS)
    return tuple(sorted({size for size in steps if size <= most} | {most}))


def threads() -> tuple[int, ...]:
    """1, 2, 3, 4, 6, 8, 12, 16 ... and all that may be used."""
    most = usable_threads()
    steps = (step << exponent for exponent in range(most.bit_length()) for step in (2, 3))
    return tuple(sorted({1, most} | {count for count in steps if count <= most}))


def latency(most: int, rounds: int, tick: Tick = lambda: None) -> Curve:
    """Seconds a call against counts a call. The line of more threads begins where a call is long enough to share."""
    at = sizes(most)
    counts: Array = np.arange(most, dtype=np.int64) % 1_000
    other: Array = np.ones(most, np.int64)
    law, unsafe = dpfast.DiscreteLaplace(1, 10), Unsafe()

    def lines(n: int) -> dict[str, Run]:
        given, out = counts[:n], other[:n]
        found: dict[str, Run] = {"dpfast, one thread": partial(law.release, given, out=out, threads=1)}
        if usable_threads() > 1 and n >= 2 * SHARE:
            found[f"dpfast, {usable_threads()} threads"] = partial(law.release, given, out=out)
        found["NumPy's unsafe noise, chunked"] = partial(unsafe.chunked, "laplace", given, out)
        found["np.copyto"] = partial(np.copyto, out, given)
        return found

    return _taking_turns(at, {n: lines(n) for n in at}, rounds, tick)


def scaling(size: int, rounds: int, tick: Tick = lambda: None) -> Curve:
    """Counts a second against threads."""
    at = threads()
    counts: Array = np.arange(size, dtype=np.int64) % 1_000
    other: Array = np.ones(size, np.int64)
    reals: Array = counts + 0.5
    noisy: Array = np.ones(size)
    laws: dict[str, Callable[..., object]] = {
        "DiscreteLaplace, scale 10": partial(dpfast.DiscreteLaplace(1, 10).release, counts, out=other),
        "DiscreteLaplace, scale 1e6": partial(dpfast.DiscreteLaplace(1, 10**6).release, counts, out=other),
        "DiscreteGaussian, sigma 10": partial(dpfast.DiscreteGaussian(10).release, counts, out=other),
        "Laplace, scale 10": partial(dpfast.Laplace(1, 10).release, reals, out=noisy),
        "Gaussian, sigma 10": partial(dpfast.Gaussian(10).release, reals, out=noisy),
    }
    runs = {count: {name: _on(run, count) for name, run in laws.items()} for count in at}
    curve = _taking_turns(at, runs, rounds, tick, calls=1)
    return Curve(at, {name: tuple(size / seconds for seconds in line) for name, line in curve.lines.items()})


def _on(release: Callable[..., object], count: int) -> Run:
    return partial(release, threads=count)


def _taking_turns(
    at: Sequence[int], runs: Mapping[int, Mapping[str, Run]], rounds: int, tick: Tick, calls: int | None = None
) -> Curve:
    """Median seconds a call, after one that is not timed: its arrays are in the caches, as far as they hold them."""
    seconds: dict[str, dict[int, list[float]]] = {name: {} for name in runs[at[-1]]}
    for _ in range(rounds):
        for n in at:
            repeat = calls or min(MOST_CALLS, max(1, STRETCH // n))
            for name, run in runs[n].items():
                run()
                stretch, _ = timed(partial(_repeated, run, repeat))
                seconds[name].setdefault(n, []).append(stretch / repeat)
            tick()
    return Curve(tuple(at), {name: tuple(map(statistics.median, line.values())) for name, line in seconds.items()})


def _repeated(run: Run, calls: int) -> None:
    for _ in range(calls):
        run()
