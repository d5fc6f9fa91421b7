# SPDX-License-Identifier: Apache-2.0
"""Two curves: the time of a release against its size, and how fast more threads make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

import dpfast
from dpfast.bench.measure import Bar, Row, Run, measured
from dpfast.bench.rows import COUNTS, REALS, Array, Arrays, released
from dpfast.release.engine import SHARE, usable_threads

STRETCH = 100_000  # counts that small calls handle together between two readings of the clock
MOST_CALLS = 1_000
STEPS = (1, 3)  # sizes in each power of ten


class Curve(NamedTuple):
    """Values of each line, seconds a call or counts a second; a shorter line begins later."""

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


def latency(most: int, rounds: int, bar: Bar = iter) -> Curve:
    """Seconds a call against counts a call; more threads begin at calls that are worth sharing."""
    a, law, shared = Arrays(most), dpfast.DiscreteLaplace(1, 10), f"dpfast, {usable_threads()} threads"
    given, out = a["counts"], a["other"]

    def lines(n: int) -> dict[str, Run]:
        many = usable_threads() > 1 and n >= 2 * SHARE
        return {
            "dpfast, one thread": partial(law.release, given[:n], out=out[:n], threads=1),
            **({shared: partial(law.release, given[:n], out=out[:n])} if many else {}),
            "NumPy's unsafe noise, chunked": partial(a.unsafe.chunked, "laplace", given[:n], out[:n]),
            "np.copyto": partial(np.copyto, out[:n], given[:n]),
        }

    return _curve({n: lines(n) for n in sizes(most)}, rounds, bar, lambda n: min(MOST_CALLS, max(1, STRETCH // n)))


def scaling(size: int, rounds: int, bar: Bar = iter) -> Curve:
    """Counts a second against threads."""
    a = Arrays(size)
    laws = (
        ("DiscreteLaplace, scale 10", dpfast.DiscreteLaplace(1, 10), COUNTS),
        ("DiscreteLaplace, scale 1e6", dpfast.DiscreteLaplace(1, 10**6), COUNTS),
        ("DiscreteGaussian, sigma 10", dpfast.DiscreteGaussian(10), COUNTS),
        ("Laplace, scale 10", dpfast.Laplace(1, 10), REALS),
        ("Gaussian, sigma 10", dpfast.Gaussian(10), REALS),
    )
    runs = {n: {name: released(a, law, *arrays, threads=n) for name, law, arrays in laws} for n in threads()}
    at, lines = _curve(runs, rounds, bar, lambda _: 1)
    return Curve(at, {name: tuple(size / seconds for seconds in line) for name, line in lines.items()})


def beside(
    functions: Mapping[str, Callable[[Array], object]], given: Array, calls: Mapping[int, int], rounds: int, bar: Bar
) -> Curve:
    """Seconds a call of each function against its number of values. calls: timed together."""
    runs = {n: {name: partial(function, given[:n]) for name, function in functions.items()} for n in calls}
    return _curve(runs, rounds, bar, calls.__getitem__)


def _curve(runs: Mapping[int, Mapping[str, Run]], rounds: int, bar: Bar, calls: Callable[[int], int]) -> Curve:
    """Median seconds a call, after an untimed call: arrays are cached if the caches hold them."""
    rows = [
        Row(name, partial(_repeated, run, calls(n)), calls(n), prepare=run)
        for n, lines in runs.items()
        for name, run in lines.items()
    ]
    found: dict[str, list[float]] = {name: [] for name in [*runs.values()][-1]}
    for result in measured(rows, rounds, bar):
        found[result.row.name].append(result.figure)
    return Curve(tuple(runs), {name: tuple(line) for name, line in found.items()})


def _repeated(run: Run, calls: int) -> None:
    for _ in range(calls):
        run()
