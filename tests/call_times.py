# SPDX-License-Identifier: Apache-2.0
"""What times of calls tell of their noise: figures of ranks, and the loop that takes the times.

Nothing is decided on a machine that does other work: `on_a_quiet_machine` measures this first.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns, thread_time
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

TAIL = 1e-3
NOISE = 0.05  # the largest share of its time that a thread may wait for others


class Undecided(pytest.skip.Exception):
    """A machine on which times tell nothing; a test that meets one is skipped."""


def noise(seconds: float = 0.2) -> float:
    """The share of its time for which a thread could work and did not, for others or a quota."""
    begin, before = perf_counter(), thread_time()
    while (passed := perf_counter() - begin) < seconds:
        pass
    return 1 - (thread_time() - before) / passed


@contextmanager
def on_a_quiet_machine() -> Iterator[None]:
    """What is found here is decided: noise is measured before, and again where a check fails."""
    _refuse_noise()
    try:
        yield
    except AssertionError:
        _refuse_noise()
        raise


def _refuse_noise() -> None:
    if (found := noise()) > NOISE:
        raise Undecided(f"not decided on this machine: noise {found:.1%}, at most {NOISE:.0%}")


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection, whose turn comes by counting objects."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Leak(NamedTuple):
    rho: float
    guessed: float
    n: int
    guess_error: float  # one standard error of `guessed`, if time knows nothing
    tail: float  # AUC of the calls with the largest noise
    events: int  # how many these are

    def told(self, limit: float = 6.5) -> list[str]:
        """The figures beyond so many standard errors, those of a tail that is few of the calls."""
        return (
            [f"rho = {self.rho:.4f}"] * (abs(self.rho) >= limit / math.sqrt(self.n))
            + [f"guessed {self.guessed:.2%}"] * (self.guessed > 0.5 + limit * self.guess_error)
            + [f"AUC {self.tail:.4f}"] * (abs(self.tail - 0.5) > limit / math.sqrt(12 * self.events))
        )

    def __str__(self) -> str:
        return f"rho {self.rho:+.4f}, guessed {self.guessed:.2%}, AUC {self.tail:.3f} of {self.events:,} among {self.n:,} calls"


def leak(time: np.ndarray, size: np.ndarray, share: float = TAIL) -> Leak:
    """What call times tell of the sizes of the noise; share: of the calls, in the tail."""
    rho = float(stats.spearmanr(time, size).statistic)
    # A rule learnt on even calls, tested on odd ones: in each of 32 time bands the likelier half.
    above = size > np.median(size)
    band = np.searchsorted(np.quantile(time[::2], np.arange(1, 32) / 32), time, side="right")
    likely = above[::2].mean()
    rule = np.bincount(band[::2], above[::2] - likely, minlength=32) > 0
    guess, truth = rule[band[1::2]], above[1::2]
    guessed = float(guess[truth].mean() + (~guess)[~truth].mean()) / 2
    error = 0.25 * math.sqrt(1 / truth.sum() + 1 / (~truth).sum())
    mixed = size + np.random.default_rng().random(size.size) * 1e-9 * (1 + size)  # ties in any order
    tail = mixed >= np.quantile(mixed, 1 - share)
    return Leak(rho, guessed, time.size, error, auc(time, tail)[0], int(tail.sum()))


def auc(time: np.ndarray, tail: np.ndarray) -> tuple[float, float]:
    """P(a tail call takes longer than another), ties shared, and its standard error if equal."""
    ranks, n, m = stats.rankdata(time), int(tail.sum()), int((~tail).sum())
    return float((ranks[tail].sum() - n * (n + 1) / 2) / (n * m)), math.sqrt((n + m + 1) / (12 * n * m))


def sizes(noise: np.ndarray) -> tuple[float, float]:
    """The largest and the mean |noise|."""
    if noise.size == 1:
        return (size := abs(noise[0])), size
    found = np.abs(noise)
    return found.max(), found.mean()


def timed(releases: Sequence[Callable[[], Any]], n: int) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """For each of these, which return noise: times of n calls, and how large the noise was.

    Every round calls all of them in an order of its own, so they share load and drift, and none
    finds the caches as it left them.
    """
    rng, each = np.random.default_rng(), len(releases)
    orders = [rng.permutation(each).tolist() for _ in range(997)]
    time, largest, mean = np.empty((each, n)), np.empty((each, n)), np.empty((each, n))
    with undisturbed():
        for i in range(-20, n):  # the first for warmth
            for which in orders[i % 997]:
                release = releases[which]
                begin = perf_counter_ns()
                noise = release()
                time[which, i] = perf_counter_ns() - begin
                largest[which, i], mean[which, i] = sizes(noise)
    return [
        (time[i], {"largest": largest[i]} | ({"mean": mean[i]} if (mean[i] != largest[i]).any() else {}))
        for i in range(each)
    ]
