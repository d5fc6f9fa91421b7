# SPDX-License-Identifier: Apache-2.0
"""Curves: the time of a release by its size and by its scale, and how fast more threads make it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Bar, Row, Run, measured, timed
from dpfast.evidence.bench.rows import COUNTS, REALS, Array, Arrays, released
from dpfast.noise.release.engine import SHARE, SMALL, usable_threads

STRETCH = 100_000  # counts that small calls handle together between two readings of the clock
MOST_CALLS = 1_000
STEPS = (1, 3)  # sizes in each power of ten
AT_SCALE, AT_SIZE = 10, 1 << 20  # where the other one changes; so many values fit the caches
ALONE = partial(timed, clock=time.thread_time)  # the processor's time, while others use it too
MEMORY = Path("/proc/meminfo")
SCALES = tuple(2.0**exponent for exponent in range(-1, 61))
LARGEST_SIGMA = 2.0**29  # below 1e9, which is the largest that is accepted
REPEATED = 100_000_000  # values of a call that every round times; a longer one is timed once


class Curve(NamedTuple):
    """Values of each line, seconds or counts a second; NaN where there is none."""

    at: tuple[float, ...]
    lines: Mapping[str, tuple[float, ...]]

    def record(self, across: str, value: str) -> dict[str, object]:
        lines = {name: [None if math.isnan(y) else y for y in line] for name, line in self.lines.items()}
        return {across: list(self.at), value: lines}

    def a_value(self, values: Sequence[float]) -> Curve:
        """Seconds a value, from seconds a call of so many values at each place."""
        each = {name: tuple(y / n for y, n in zip(line, values, strict=True)) for name, line in self.lines.items()}
        return Curve(self.at, each)


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

    return _curve({n: lines(n) for n in sizes(most)}, rounds, bar, _stretch)


def that_fit(values: int) -> int:
    """So many values of 8 bytes, or the largest power of ten of them in half of the free memory."""
    lines = MEMORY.read_text().splitlines() if MEMORY.exists() else []
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    most = min([values, *(size // 2 // 8 for size in free)])
    return values if most == values else 10 ** (len(str(most)) - 1)


def by_size(most: int, rounds: int, bar: Bar = iter) -> Curve:
    """Seconds a value against values in a call, at one scale.

    All calls share one array of `most` values, 8 bytes each.
    """
    array = np.zeros(most)
    runs = {n: _releases(array[:n], AT_SCALE) for n in sizes(most)}
    long = {n: runs.pop(n) for n in sizes(most) if n > REPEATED}
    at, lines = _curve(runs, rounds, bar, _stretch, lambda n: array[:n].fill(0), clock=ALONE)
    if long:
        rest = _curve(long, 1, bar, _stretch, lambda n: array[:n].fill(0), clock=ALONE)
        at, lines = at + rest.at, {name: line + rest.lines[name] for name, line in lines.items()}
    return Curve(at, lines).a_value(at)


def by_scale(rounds: int, bar: Bar = iter) -> Curve:
    """Seconds a value against the scale of the noise, its sigma for Gaussian laws."""
    array = np.zeros(AT_SIZE)
    runs = {scale: _releases(array, scale) for scale in SCALES}
    curve = _curve(runs, rounds, bar, lambda _: 1, lambda _: array.fill(0), clock=ALONE)
    return curve.a_value([AT_SIZE] * len(SCALES))


def _releases(values: Array, scale: float) -> dict[str, Run]:
    """Releases in place, and a sum, which costs least. Bits that another call left may be a NaN.

    Small calls are made as people make them: without threads=, of which they use one.
    """
    sensitivity, counts = math.ceil(scale), values.view(np.int64)
    epsilon, options = sensitivity / Fraction(scale), {"threads": 1} if values.size >= SMALL else {}
    laws: list[Any] = [dpfast.DiscreteLaplace(epsilon, sensitivity)]
    laws += [dpfast.DiscreteGaussian(scale)] if scale <= LARGEST_SIGMA else []
    laws += [dpfast.Laplace(epsilon, sensitivity), dpfast.Gaussian(scale)]
    given = [counts if law.INTEGERS else values for law in laws]
    runs: dict[str, Run] = {
        type(law).__name__: partial(law.release, array, out=array, **options)
        for law, array in zip(laws, given, strict=True)
    }
    return {**runs, "np.add": partial(np.add, counts, 1, out=counts)}


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


Place = TypeVar("Place", int, float)


def _curve(
    runs: Mapping[Place, Mapping[str, Run]], rounds: int, bar: Bar, calls: Callable[[Place], int],
    first: Callable[[Place], object] = lambda _: None, **options: Any,
) -> Curve:  # fmt: skip
    """Median seconds a call, after an untimed call: arrays are cached if the caches hold them.

    first: what precedes the untimed call. options: of the rows.
    """
    places = [(at, name) for at, lines in runs.items() for name in lines]
    rows = [
        Row(
            name, partial(_repeated, runs[at][name], calls(at)), calls(at),
            prepare=partial(_before, first, at, runs[at][name]), **options,
        )
        for at, name in places
    ]  # fmt: skip
    figures = dict(zip(places, (result.figure for result in measured(rows, rounds, bar)), strict=True))
    names = max(runs.values(), key=len)
    return Curve(tuple(runs), {name: tuple(figures.get((at, name), math.nan) for at in runs) for name in names})


def _stretch(n: int) -> int:
    return min(MOST_CALLS, max(1, STRETCH // n))


def _before(first: Callable[[Place], object], at: Place, run: Run) -> None:
    first(at)
    run()


def _repeated(run: Run, calls: int) -> None:
    for _ in range(calls):
        run()
