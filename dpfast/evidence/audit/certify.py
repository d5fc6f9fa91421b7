# SPDX-License-Identifier: Apache-2.0
"""Count the chosen events among fresh draws, and certify an epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np

from dpfast.evidence.audit import findings
from dpfast.evidence.audit.audited import Audited, Outputs
from dpfast.evidence.audit.events import Chosen, Event, Pair
from dpfast.evidence.audit.families import BY_BITS, Cells
from dpfast.evidence.audit.findings import FRESH, POWER, Compared, Findings, Line
from dpfast.privacy.exact.binomial import lower_bound, near_bound, normal_quantile, upper_bound
from dpfast.privacy.formatting import output, rounded, share


class Promise(NamedTuple):
    """What an audited function promises, in doubles rounded up."""

    epsilon: float
    delta: float

    def findings(
        self,
        audited: Audited,
        bound: float,
        lines: list[Line],
        event: str,
        could: str = "",
        compared: Compared | None = None,
    ) -> Findings:
        said = f"epsilon {self.epsilon:.6g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        return Findings(
            "privacy", bound, lines, audited.n, said, event, could, *self, seconds=audited.seconds, compared=compared
        )  # fmt: skip


class _Result(NamedTuple):
    """What an event certifies."""

    bound: float
    pair: Pair
    event: Event
    rates: str

    def words(self) -> str:
        return f"{self.event.words()} {self.rates}"

    def pieces(self) -> int:
        return int(np.count_nonzero(np.diff(self.event.mask)))


def tested(
    audited: Audited,
    promise: Promise,
    tests: Sequence[Chosen],
    pairs: Sequence[Pair],
    halves: dict[float, tuple[Outputs, Outputs]],
    fresh: Line,
) -> Findings:
    """Count the chosen events among fresh draws, and certify."""
    (epsilon, delta), lines = promise, [fresh]
    hits: dict[tuple[int, float], int] = {}
    left = audited.n - sum(half.size for half in next(iter(halves.values())))
    for count in halves:
        concerned = [i for i, test in enumerate(tests) if count in test.pair.counts]
        done = 0
        for outputs in audited.calls(count, left):
            histograms: dict[int, Cells] = {}
            for i in concerned:
                event = tests[i].event
                if id(event.family) not in histograms:
                    histograms[id(event.family)] = event.family.histogram(outputs)
                hit = int(histograms[id(event.family)][event.mask].sum())
                hits[i, count] = hits.get((i, count), 0) + hit
            done += outputs.size
            audited.say(f"count {output(count)}: {done:,} of {left:,} draws tested")
    alpha = findings.ALPHA * (1 - FRESH) / max(1, len(tests)) / 2
    audited.say(f"certifying {len(tests)} events")
    z = normal_quantile(alpha)
    likely = [
        least_epsilon(near_bound(hits[i, x], left, z), near_bound(hits[i, y], left, -z), test.pair.steps, delta)
        for i, test in enumerate(tests)
        for x, y in [test.pair.counts[:: -1 if test.turned else 1]]
    ]
    best_of = {
        pair: max((b for b, test in zip(likely, tests, strict=True) if test.pair == pair))
        for pair in {t.pair for t in tests}
    }
    results: list[_Result] = []
    for i, test in enumerate(tests):
        more, less = test.pair.counts[:: -1 if test.turned else 1]
        if likely[i] < 0.93 * best_of[test.pair]:
            continue
        a, b = hits[i, more], hits[i, less]
        bound = least_epsilon(lower_bound(a, left, alpha), upper_bound(b, left, alpha), test.pair.steps, delta)
        rates = f"in {share(a, left)} of the draws for {output(more)}, {share(b, left)} for {output(less)}"
        results.append(_Result(bound, test.pair, test.event, rates))
    shown = [_shown([r for r in results if r.pair == pair], epsilon) for pair in pairs]
    for pair, best in zip(pairs, shown, strict=True):
        if best is None:
            lines.append(Line(pair.words(), "passed", "no event tells them apart"))
            continue
        over = f" (over {pair.steps} steps)" if pair.steps > 1 else ""
        detail = f"epsilon is at least {best.bound:.4g}{over}: {best.words()}"
        lines.append(Line(pair.words(), "found" if best.bound > epsilon else "passed", detail))
    worst = max((r for r in shown if r), key=lambda r: r.bound, default=None)
    pair, bound, words = (worst.pair, worst.bound, worst.words()) if worst else (pairs[0], 0.0, "")
    by_bits = worst is not None and worst.event.family.name in BY_BITS
    first, second = (cast("Outputs", np.concatenate(halves[count])) for count in pair.counts)
    compared = Compared(pair.counts, (first, second), pair.steps, by_bits)
    could = _could(left, alpha, epsilon, delta, max(pairs, key=lambda p: p.steps).steps)
    return promise.findings(audited, bound, lines, words, could, compared)


def _shown(results: Sequence[_Result], epsilon: float) -> _Result | None:
    """The event with the largest bound, or the simplest that certifies nearly as much."""
    most = max((r.bound for r in results), default=0.0)
    least = max(0.95 * most, math.nextafter(epsilon, math.inf)) if most > epsilon else 0.95 * most
    return min((r for r in results if r.bound >= least > 0), key=lambda r: (r.pieces(), -r.bound), default=None)


def _could(n: int, alpha: float, epsilon: float, delta: float, steps: int) -> str:
    """The least that an audit of so many tested draws finds with probability POWER."""
    z, luck = normal_quantile(alpha), normal_quantile(1 - POWER)

    def hits(p: float, sign: int) -> float:
        return n * p + sign * luck * math.sqrt(n * p * (1 - p))

    def certified(spent: float, over: int) -> float:
        q = math.exp(-spent)
        p, other = 1 / (1 + q), q**over / (1 + q)
        return least_epsilon(near_bound(hits(p, -1), n, z), near_bound(hits(other, 1), n, -z), over, delta)

    most = math.log(lower_bound(n, n, alpha) / upper_bound(0, n, alpha))
    if epsilon >= most:
        return f"No event could have shown an epsilon above {most:.3g} in so few draws: this audit says nothing."
    found = []
    low, high = epsilon, 64 * epsilon
    if any(certified(high, over) > epsilon for over in {1, steps}):
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if any(certified(middle, o) > epsilon for o in {1, steps}) else (middle, high)
        found.append(f"Laplace noise that spends {rounded(Fraction(high), up=True, digits=4)} or more")
    floor = math.exp(epsilon) * upper_bound(0, n, alpha) + delta
    rare = (math.sqrt(floor) + (z + luck) / (2 * math.sqrt(n))) ** 2
    if rare < 0.5:
        found.append(f"an output of probability {rare:.1e} or more that a neighbour cannot give")
    if not found:
        return "This audit finds no defect of the usual kinds in so few draws."
    return f"With probability {100 * POWER:g} % it finds {', and '.join(found)}."


def grown(delta: float, steps: int, epsilon: float) -> float:
    """The delta over so many neighbours: delta (1 + e^epsilon + ...)."""
    if not delta:
        return 0.0
    return delta * (math.expm1(min(700.0, steps * epsilon)) / math.expm1(min(700.0, epsilon)) if epsilon else steps)


def least_epsilon(p: float, other: float, steps: int, delta: float) -> float:
    """The least epsilon with p <= e^(steps epsilon) other + grown delta; rounded down."""

    def allowed(epsilon: float) -> float:
        return math.exp(steps * epsilon) * other + grown(delta, steps, epsilon)

    low, high = 0.0, 700 / steps
    if p <= allowed(low):
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p > allowed(middle) else (low, middle)
    return low
