# SPDX-License-Identifier: Apache-2.0
"""Anybody's sampler beside ours and NumPy's noise: its cost, its law, what its time tells, a fork.

A sampler is a function of one array: int64, or float64 for a real law. It returns a new array of
that shape and dtype, the values plus noise, and leaves its argument as it was.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpfast.errors import ParameterError
from dpfast.evidence import audit
from dpfast.evidence.audit.audited import Progress
from dpfast.evidence.audit.law import Exact
from dpfast.evidence.bench import curves
from dpfast.evidence.bench.measure import Bar, Figures, Reference, Result, Row, machine, measured, timed
from dpfast.evidence.bench.report import Columns, Report, rate
from dpfast.evidence.bench.rows import Array, Arrays, Unsafe
from dpfast.evidence.selftest.processes import in_child
from dpfast.evidence.statistics import normal_p, rank_correlation, ranked
from dpfast.privacy.formatting import compared, three_digits

OURS, NUMPY = "dpfast, one thread", "NumPy's unsafe noise"
LONGEST = 0.2  # seconds of a call: the curve ends there
SLICE = 5e-3  # seconds of calls that are timed together
PATIENCE = 20  # seconds that a test draws for, about: a slow sampler is tested on less
DRAWS = 20_000, 10_000_000  # for the test of the law; its normal tails need the first
CALLS = 1_000, 30_000  # one value each: for the test of time
LARGE = 0.99  # the quantile beyond which noise is large
TELLS = "size", "sign", "largest 1 %"  # what the time of a call may tell of its noise
REACH = 4  # scales of noise that the picture shows
CHILDREN = 2
PAIRS = math.comb(1 + CHILDREN, 2)


class Sampler(NamedTuple):
    """A function that is held to the contract."""

    name: str
    function: Callable[[Array], Array]

    def __call__(self, values: Array) -> Array:
        """The values plus noise. Raises: ParameterError if the contract is broken."""
        kept = values.copy()
        try:
            out: Any = self.function(values)
        except Exception as error:
            raise self._broken("work", f"raised {type(error).__name__}: {error!s:.200}") from error
        if not np.array_equal(values, kept):
            raise self._broken("leave its argument as it was", "changed it")
        returned = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        wanted = f"{values.dtype} {values.shape}"
        if returned != wanted:
            raise self._broken(f"return an array of its argument's dtype and shape, {wanted}", f"returned {returned}")
        return out  # type: ignore[no-any-return]

    def new(self, values: Array) -> Array:
        """The same, after another call whose result must stay."""
        first, second = self(values), self(values)
        if np.shares_memory(first, second):
            raise self._broken("return a new array", "returned one that it had returned before")
        return second

    def _broken(self, rule: str, did: str) -> ParameterError:
        return ParameterError(f"sampler must {rule}, and {self.name} {did}")


class Timed(NamedTuple):
    """Calls of one value: the noise of each, and its seconds."""

    noise: Figures
    seconds: Figures

    @property
    def correlations(self) -> dict[str, float]:
        """The rank correlations of time and noise."""
        size = np.abs(self.noise)
        about = size, np.sign(self.noise), size >= np.quantile(size, LARGE)
        return {name: rank_correlation(self.seconds, what) for name, what in zip(TELLS, about, strict=True)}

    @property
    def errors(self) -> tuple[Figures, Figures]:
        """For the picture: tenths of the calls by the size of their noise, and the largest 1 %.

        The percentage of calls with smaller noise, and the mean rank of the time less the middle
        one, in standard errors.
        """
        size, shares = np.abs(self.noise), np.append(np.arange(0, 1, 0.1), LARGE)
        group = np.searchsorted(np.quantile(size, shares), size, side="right") - 1
        calls = np.bincount(group)
        seen = np.flatnonzero(calls)
        ranks = ranked(self.seconds)
        sums = np.bincount(group, ranks)[seen] / max(float(ranks.std()), 1e-300)
        return 100 * shares[seen], sums / np.sqrt(calls[seen])

    @property
    def tells(self) -> list[str]:
        """What the time tells; noise that is independent of it is accused at a rate of ALPHA."""
        spread = math.sqrt(self.noise.size - 1)
        level = audit.ALPHA / len(TELLS)
        return [name for name, rho in self.correlations.items() if normal_p(rho * spread) < level]


class Forked(NamedTuple):
    """Noise that a process and its children draw after the fork.

    noise: empty if a child failed; None where the system has no forks, as Windows has not. values:
    that each draws. chance: that two of them draw equal noise by accident, at most.
    """

    noise: list[Array] | None
    values: int
    chance: float

    @property
    def verdict(self) -> str:
        if self.noise is None:
            return "no forks here"
        if not self.noise:
            return "FAILS"
        if len({noise.tobytes() for noise in self.noise}) == len(self.noise):
            return "fresh"
        return "REPEATS" if self.chance <= audit.ALPHA else "too little noise to tell"


@dataclass(frozen=True)
class Tested:
    """What tests found in a sampler's noise. draws: of the test of the law."""

    law: audit.Findings
    draws: Array
    time: Timed
    fork: Forked

    @property
    def wrong(self) -> bool:
        return self.law.found or self.fork.verdict in {"FAILS", "REPEATS"}

    def errors(self, mechanism: Exact) -> tuple[Array, Figures]:
        """For the picture: the ends of cells, and draws less those due, in standard errors."""
        ends: Array = mechanism.scale * np.linspace(-REACH, REACH, 8 * REACH + 1)
        if mechanism.INTEGERS:
            ends = np.unique([*np.floor(ends).astype(np.int64), -1])  # 0 has a cell of its own
        mass, n = np.diff(mechanism.cdf(ends), prepend=0), self.draws.size
        drawn = np.bincount(np.searchsorted(ends, self.draws), minlength=ends.size)[: ends.size]
        return ends, (drawn - n * mass) / np.sqrt(np.maximum(n * mass * (1 - mass), 1e-300))

    @property
    def verdicts(self) -> tuple[str, str, str]:
        found = ", ".join(line.name for line in self.law.lines if line.verdict == "found")
        return f"FOUND: {found}" if found else "as stated", ", ".join(self.time.tells) or "nothing", self.fork.verdict

    def record(self) -> dict[str, object]:
        time = {"calls": self.time.noise.size, "rank_correlations": self.time.correlations, "tells": self.time.tells}
        fork = {
            "processes": 1 + CHILDREN,
            "values": self.fork.values,
            "verdict": self.fork.verdict,
            "chance": self.fork.chance,
        }
        return {"law": self.law.as_dict(), "time": time, "fork": fork, "wrong": self.wrong}


HEADS = "distribution", "time tells", "after a fork"
COLUMNS: Columns = (
    ("", lambda r: r.row.name),
    ("ns a value", lambda r: three_digits(r.ns)),
    ("values a second", rate),
    ("than NumPy's noise", lambda r: compared(r.ratio)),
)


@dataclass(frozen=True)
class Comparison(Report):
    """A report on three samplers, the first of which is anybody's."""

    mechanism: Exact = field(kw_only=True)
    tested: Mapping[str, Tested] = field(kw_only=True)

    @property
    def wrong(self) -> bool:
        return next(iter(self.tested.values())).wrong

    def record(self) -> dict[str, object]:
        return {**super().record(), "tests": {name: tested.record() for name, tested in self.tested.items()}}


def compare(
    sampler: Sampler, mechanism: Exact, size: int, rounds: int, bar: Bar, say: Progress, *, on_grid: bool = False
) -> Comparison:
    """Measure and test a sampler of the mechanism's noise beside ours and NumPy's, in turns.

    size: the most values of a call. on_grid: as for `audit.law`. Raises: ParameterError.
    """
    given = Arrays(size)["counts" if mechanism.INTEGERS else "reals"]
    seconds = dict(_probed(sampler, given))
    most, calls = max(seconds), {n: min(curves.MOST_CALLS, 1 + int(SLICE / took)) for n, took in seconds.items()}
    unsafe, named = Unsafe(), "normal" if "gaussian" in mechanism.NAME else "laplace"
    functions: dict[str, Callable[[Array], Array]] = {
        sampler.name: sampler.function,
        OURS: lambda values: mechanism.release(values, threads=1),
        NUMPY: lambda values: unsafe.chunked(named, values, np.empty_like(values), mechanism.scale),
    }
    beside = Reference(NUMPY, partial(functions[NUMPY], given[:most]), most)
    rows = [
        Row(name, partial(function, given[:most]), most, None if name == NUMPY else beside, kind="sampler", who=name)
        for name, function in functions.items()
    ]
    results = measured(rows, rounds, bar)
    curve = curves.beside(functions, given, calls, rounds, bar)

    draws, alone = _within(DRAWS, most / seconds[most]), _within(CALLS, 1 / seconds[1])
    say(f"{alone:,} calls of one value")
    times = _timed(functions, given[:1], alone)
    tested = {}
    for name, function in functions.items():
        drawn: list[Array] = []
        noisy = partial(_noisy, Sampler(name, function), given.dtype, drawn)
        say(f"{name}: {draws:,} draws")
        law = audit.law(noisy, mechanism, on_grid=on_grid, n=draws)
        fork = _forked(function, mechanism, given.dtype)
        tested[name] = Tested(law, np.concatenate(drawn), times[name], fork)
    verdicts = [(head, partial(_verdict, tested, at)) for at, head in enumerate(HEADS)]
    return Comparison(
        machine(), most, rounds, results, latency=curve, columns=[*COLUMNS, *verdicts], about="values a call",
        meaning=_meaning(tested), mechanism=mechanism, tested=tested,
    )  # fmt: skip


def _probed(sampler: Sampler, given: Array) -> Iterator[tuple[int, float]]:
    """Sizes, and how long a call takes about; the contract is checked at each."""
    for n in curves.sizes(given.size):
        sampler.new(given[:n])
        seconds, _ = timed(partial(sampler.function, given[:n]))
        yield n, seconds
        if seconds > LONGEST:
            return


def _within(bounds: tuple[int, int], a_second: float) -> int:
    least, most = bounds
    return min(most, max(least, int(PATIENCE * a_second)))


def _timed(functions: Mapping[str, Callable[[Array], Array]], one: Array, calls: int) -> dict[str, Timed]:
    """All functions in turns."""
    found = {name: Timed(np.empty(calls), np.empty(calls)) for name in functions}
    for i in range(-min(100, calls), calls):  # the first for warmth: the last overwrite them
        for name, function in functions.items():
            seconds, out = timed(partial(function, one))
            found[name].noise[i], found[name].seconds[i] = (out - one)[0], seconds
    return found


def _noisy(sampler: Sampler, dtype: np.dtype[Any], drawn: list[Array], count: float, n: int) -> Array:
    """What an audit asks for; `drawn` keeps the noise of count 0."""
    out = sampler(np.full(n, count, dtype))
    if count == 0:
        drawn.append(out)
    return out


def _forked(function: Callable[[Array], Array], mechanism: Exact, dtype: np.dtype[Any]) -> Forked:
    """On so many values, a million at most, that equal noise is no accident."""
    zero = float(mechanism.pmf(0))  # the likeliest noise
    n = max(64, math.ceil(math.log(audit.ALPHA / PAIRS) / math.log(min(zero, 1 - 2.0**-16))))
    zeros, chance = np.zeros(n, dtype), PAIRS * zero**n
    if not hasattr(os, "fork"):
        return Forked(None, n, chance)
    try:
        made = [in_child(lambda: function(zeros).tobytes()) for _ in range(CHILDREN)]
    except RuntimeError:
        return Forked([], n, chance)
    return Forked([function(zeros), *(np.frombuffer(each, dtype) for each in made)], n, chance)


def _verdict(tested: Mapping[str, Tested], at: int, result: Result) -> str:
    return tested[result.row.name].verdicts[at]


def _meaning(tested: Mapping[str, Tested]) -> list[str]:
    """What was tested, and what was found, in lines below the table."""
    law, time, fork = next((each.law, each.time, each.fork) for each in tested.values())
    drew = f"a process and its {CHILDREN} children draw {fork.values:,} values each"
    if fork.noise is None:
        drew = "not tried, for this system has no forks"
    found = [
        f"  {name}: {line.name}: {line.detail}"
        for name, each in tested.items()
        for line in each.law.lines
        if line.verdict == "found"
    ]
    correlations = [
        f"  {name}: {', '.join(f'{what} {rho:+.4f}' for what, rho in each.time.correlations.items())}"
        for name, each in tested.items()
    ]
    return [
        f"{HEADS[0]}: {law.promise}; {law.n:,} draws. {law.could}",
        *found,
        f"{HEADS[1]}: rank correlations of time and noise, {time.noise.size:,} calls of one value each, in turns.",
        *correlations,
        f"{HEADS[2]}: {drew}.",
        "Each test accuses a sampler without its defect at a rate of one in a million at most.",
    ]
