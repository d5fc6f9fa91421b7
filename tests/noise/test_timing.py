# SPDX-License-Identifier: Apache-2.0
"""A call's time must not tell its noise [Jin22]; samplers that tell are caught by the same figures.

Noise owes nothing to the machine. If time owes nothing to noise, the two are independent under any
load, drift and outliers, which cost power and raise no alarm. Figures are of ranks; no call is
dropped.

| figure | limit | chance of a false alarm, each | |
| --- | --- | --- | --- |
| Spearman's rho of time and size | 6.5 standard errors | 1e-10 | |
| guesses above or below the median that are right, mean of both kinds | 50 % + 6.5 standard errors | 1e-10 | rule learnt on the other calls |
| AUC of time, the largest 0.1 % of these calls | 0.5 +- 6.5 standard errors | 1e-10 | lines that few draws read are cold here, as they are outside |
| Kruskal and Wallis's H of time by 16ths of a table that a draw looks at, an eighth of its lines cold | p = 1e-10 | 1e-10 | without the reading of all lines, seven processes of eight raised 2 to 6 alarms of 8, with half of the calls |
| AUC of time, planted keys, largest 0.1 % against the rest | 0.5 +- 4 standard errors, 2,000 of each | 4e-9 (6e-5 twice) | an alarm must repeat with new events |

`pytest -s -m timing` runs them, one after another, and prints the figures. The README's command
does not: what is caught by a clock is caught on a quiet machine. tests/deep/timing.py times more
calls, of all laws.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable
from functools import cache
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
import tiers
from call_times import TAIL, auc, leak, on_a_quiet_machine, timed, undisturbed
from scipy import stats

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian

CALLS = 30_000  # one count each
LARGE_CALLS = 1_200  # LARGE counts each
LARGE = 65_536
EVENTS = 2_000  # calls of either kind in the test of the tail
BETWEEN = 12  # ordinary calls before each that is timed: else every second call were a large one, and its caches warm
MECHANISMS = [DiscreteLaplace(1, scale) for scale in (1, 10**3, 10**6, 10**12)]
MECHANISMS += [Gaussian(1000), DiscreteGaussian(100), DiscreteGaussian(1000)]
ALONE = [DiscreteLaplace(1, 1), DiscreteLaplace(1, 3), DiscreteGaussian(10), DiscreteGaussian(100)]
IDS = [f"{type(m).__name__}-{m.scale:g}" for m in MECHANISMS]
pytestmark = [pytest.mark.timing, pytest.mark.slow]


# ------------------------------------------------------------------ keys whose first draw is large


def first_block(keys: np.ndarray) -> np.ndarray:
    """The words of level 0 of draw 0's block, for keys of eight words each (csrc/stream.md)."""
    nonce = tiers.nonce(0)
    constants = np.frombuffer(b"expand 32-byte k", np.uint32)
    last = np.array([0, 0, nonce % 2**32, nonce >> 32], np.uint32)
    n = len(keys)
    start = [np.full(n, c) for c in constants] + [keys[:, i].copy() for i in range(8)] + [np.full(n, c) for c in last]
    s = [word.copy() for word in start]
    spare = np.empty(n, np.uint32)

    def turn(i: int, by: int) -> None:
        np.right_shift(s[i], 32 - by, out=spare)
        np.left_shift(s[i], by, out=s[i])
        s[i] |= spare

    columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for a, b, c, d in 10 * (columns + diagonals):
        for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] += s[y]
            s[z] ^= s[x]
            turn(z, by)
    return np.array([word + first for word, first in zip(s, start, strict=True)])


def by_radius(block: np.ndarray) -> np.ndarray:
    """U of a law on its radius: 16-, 32- and 64-bit words; sign apart."""
    low, high = block[0].astype(np.float64), (block[1] & 0x7FFFFFFF).astype(np.float64)
    return np.array([(block[0] & 0x7FFF) / 2**15, (block[0] & 0x7FFFFFFF) / 2**31, (high + low / 2**32) / 2**31])


@cache
def pool(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random keys and their first draw's size: U of 16, 32 and 64 bits, falling; |N|, negated."""
    n, chunk = round(1.06 * EVENTS / TAIL), 1 << 14
    keys = np.random.default_rng([seed, *os.urandom(8)]).integers(0, 2**32, (n, 8), np.uint32)
    size = np.empty((4, n))
    for at in range(0, n, chunk):
        block = first_block(keys[at : at + chunk])
        size[:3, at : at + chunk] = by_radius(block)
        flags, angle = block[4] >> 29, (block[4] & 0x1FFFFFFF) / 2**29 * math.pi / 4
        radius = np.sqrt(-2 * np.log((block[0] + 0.5) / 2**32))
        size[3, at : at + chunk] = -radius * np.where(flags & 1, np.sin(angle), np.cos(angle))
    return keys, size


def events(mechanism: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys in random order, and whether the first draw is of the largest 0.1 %: EVENTS each."""
    keys, size = pool(seed)
    width = tiers.constant_work_plan(mechanism).width
    pair = type(mechanism) is Gaussian or (type(mechanism) is DiscreteGaussian and not tiers.law(mechanism).inversion)
    row = size[3 if pair else {16: 0, 32: 1, 64: 2}[width]]
    limit = np.quantile(row, TAIL)
    large = np.flatnonzero(row <= limit)[:EVENTS]
    rest = np.random.default_rng().choice(np.flatnonzero(row > limit), EVENTS, replace=False)
    assert len(large) == EVENTS
    order = np.random.default_rng().permutation(2 * EVENTS)  # nothing but chance orders the two kinds
    return np.concatenate([keys[large], keys[rest]])[order], (np.arange(2 * EVENTS) < EVENTS)[order]


def timed_under_keys(
    mechanism: Any, keys: np.ndarray, n: int, *, constant_work: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Time and first draw's size of a release of n zeros under each key, once the key is drawn."""
    real = isinstance(mechanism, Gaussian)
    out = np.zeros(n, np.float64 if real else np.int64)
    stream = tiers.StreamKey(tiers.entropy(32))
    again = tiers.release_of_zeros(mechanism, out, stream, constant_work=constant_work)
    time, size = np.empty(len(keys)), np.empty(len(keys))
    between, common = BETWEEN if n == 1 else 0, np.random.default_rng().integers(0, 256, (997, 32), np.uint8)
    take, take_ordinary, turn = tiers.keys_in(keys, stream), tiers.keys_in(common, stream), itertools.cycle(range(997))
    with undisturbed():
        for i in range(-200, len(keys)):  # the first for warmth
            for _ in range(between):
                take_ordinary(next(turn))
                again()
            take(max(i, 0))
            begin = perf_counter_ns()
            again()
            time[i] = perf_counter_ns() - begin
            size[i] = abs(out[0])
    return time, size


def tail_told(mechanism: Any, n: int, *, constant_work: bool = True) -> list[str]:
    """Whether time tells the largest 0.1 % from the rest, twice."""
    found = []
    for seed in (0, 1):
        keys, tail = events(mechanism, seed)
        time, size = timed_under_keys(mechanism, keys, n, constant_work=constant_work)
        assert size[tail].min() >= np.quantile(size[~tail], 0.99)
        value, error = auc(time, tail)
        found.append(f"AUC {value:.4f} ({(value - 0.5) / error:+.1f} standard errors)")
        print(f"{mechanism!r:.60}, {n:,} counts, constant-work {constant_work}: {found[-1]}, {EVENTS} tail events")  # noqa: T201  pytest -s shows it
        if abs(value - 0.5) <= 4 * error:
            return []
    return found


# ------------------------------------------------------------------ calls


def zeros(mechanism: Any, n: int) -> np.ndarray:
    return np.zeros(n, np.float64 if isinstance(mechanism, Gaussian) else np.int64)


def judged(name: str, release: Callable[[], Any], n: int) -> list[str]:
    [(time, sizes)] = timed([release], n)
    found = []
    for kind, size in sizes.items():
        figures = leak(time, size)
        print(f"{name}, {kind}: {figures}; median {np.median(time) / 1e3:.2f} us")  # noqa: T201  pytest -s shows it
        found += figures.told()
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
@on_a_quiet_machine()
def test_a_call_of_one_count(mechanism: Any) -> None:
    """As released by default: neither correlation nor a guesser, nor the tail."""
    x, out = zeros(mechanism, 1), zeros(mechanism, 1)
    assert judged(f"{mechanism!r:.60}, one count", lambda: mechanism.release(x, out=out), CALLS) == []
    assert tail_told(mechanism, 1) == []


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
@on_a_quiet_machine()
def test_a_large_call_in_constant_time(mechanism: Any) -> None:
    """Time of 65,536 counts: no mean or largest |noise|, nor a first draw in the tail."""
    x, out = zeros(mechanism, LARGE), zeros(mechanism, LARGE)
    release = lambda: mechanism.release(x, out=out, constant_time=True, threads=1)  # noqa: E731
    assert judged(f"{mechanism!r:.60}, {LARGE:,} counts", release, LARGE_CALLS) == []
    if mechanism in MECHANISMS[:3]:
        assert tail_told(mechanism, LARGE) == []


@pytest.mark.parametrize("isa", tiers.ISAS, ids=lambda isa: tiers.ISA_NAMES[isa])
@pytest.mark.parametrize("mechanism", ALONE, ids=lambda m: f"{type(m).__name__}-{m.scale:g}")
@on_a_quiet_machine()
def test_a_draw_alone(mechanism: Any, isa: int) -> None:
    """The C of one constant-work draw without its call: a branch on the noise is a few ns there."""
    n = 4 * CALLS
    fresh_key, draw, drawn = tiers.draw_alone(tiers.constant_work_plan(mechanism), isa)
    time, size = np.empty(n), np.empty(n)
    with undisturbed():
        for i in range(-200, n):
            fresh_key()
            begin = perf_counter_ns()
            draw()
            time[i] = perf_counter_ns() - begin
            size[i] = abs(drawn[0])
    figures = leak(time, size)
    print(f"{mechanism!r:.60}, {tiers.ISA_NAMES[isa]}, C alone: {figures}; median {np.median(time):.0f} ns")  # noqa: T201  pytest -s shows it
    # Loads among thresholds differ by a nanosecond with their place in memory: there the tail
    # alone.
    told = [found for found in figures.told() if mechanism.LAW == "discrete_laplace" or found.startswith("AUC")]
    assert told == []


@pytest.mark.parametrize("place", range(0, 64, 16))
@pytest.mark.parametrize("scale", [10**6, 10**13], ids=["double-double", "integers"])
@on_a_quiet_machine()
def test_no_draw_waits_for_a_cold_line_of_a_table(scale: int, place: int) -> None:
    """The digits that choose the line choose the noise, too: so every call reads all lines first.

    A stride of a page through more memory than the inner caches hold leaves 8 of 64 lines cold.
    """
    mechanism, zero = DiscreteLaplace(1, scale), np.zeros(1, np.int64)
    stride = np.ones((768, 64, 8))[:, place : place + 8, 0]
    time, noise = np.empty(100_000), np.empty(100_000)
    with undisturbed():
        for i in range(time.size):
            stride.sum()
            begin = perf_counter_ns()
            found = mechanism.release(zero)
            time[i] = perf_counter_ns() - begin
            noise[i] = found[0]
    cell = (np.frexp(np.exp(-np.abs(noise) / scale))[0] * 32 - 16).astype(int)  # U's digits after its first 1
    told = stats.kruskal(*(time[cell == i] for i in range(16)))
    print(f"{mechanism!r:.60}, lines {place} to {place + 7} cold: H {told.statistic:.1f}, p {told.pvalue:.1e}")  # noqa: T201  pytest -s shows it
    assert told.pvalue > 1e-10


# ------------------------------------------------------------------ what must be caught


def looping(t: float, out: np.ndarray) -> Callable[[], np.ndarray]:
    """The textbook's geometric law by Bernoulli trials: as many as the noise is large."""
    stop, chance = -math.expm1(-1 / t), random.Random(1).random

    def release() -> np.ndarray:
        for i in range(out.size):
            noise = 0
            while chance() > stop:
                noise += 1
            out[i] = noise if chance() < 0.5 else -noise
        return out

    return release


def looping_together(t: float, out: np.ndarray) -> Callable[[], np.ndarray]:
    """The same on arrays: a round for all that have not stopped."""
    stop, rng = -math.expm1(-1 / t), np.random.default_rng(1)

    def release() -> np.ndarray:
        out[:] = 0
        at = np.arange(out.size)
        while (at := at[rng.random(at.size) > stop]).size:
            out[at] += 1
        return out

    return release


@on_a_quiet_machine()
def test_a_looping_sampler_is_caught() -> None:
    """By correlation and guesser, for one count and for many, in a tenth of the calls."""
    one, many = np.zeros(1, np.int64), np.zeros(4096, np.int64)
    for t in (1, 30):
        assert len(judged(f"looping, scale {t}", looping(t, one), CALLS // 10)) >= 2
    assert judged("looping, scale 30, 4,096 counts", looping_together(30, many), LARGE_CALLS)


@pytest.mark.parametrize("scale", [10, 100, 10**6])
@on_a_quiet_machine()
def test_a_single_count_that_starts_at_the_table_or_at_level_0_is_caught(scale: int) -> None:
    """What either leaves undecided is large and takes longer: small calls are constant-work."""
    assert len(tail_told(DiscreteLaplace(1, scale), 1, constant_work=False)) == 2
