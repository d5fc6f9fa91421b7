# SPDX-License-Identifier: Apache-2.0
"""The audit of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpfast.errors import ParameterError
from dpfast.evidence.audit import findings
from dpfast.evidence.audit.audited import CALL, DRAWS, Audited, Function, Outputs, Progress
from dpfast.evidence.audit.certify import Promise, grown, tested
from dpfast.evidence.audit.events import Chosen, Pair, choose
from dpfast.evidence.audit.families import Mask
from dpfast.evidence.audit.findings import FRESH, Findings, Line
from dpfast.privacy.exact import double_above
from dpfast.privacy.exact.binomial import lower_bound, near_bound, normal_quantile, upper_bound
from dpfast.privacy.formatting import output
from dpfast.privacy.parameters import Real, exact_positive, exact_real

MOST_CHOOSING = 2**20  # draws that choose events: more would choose no better ones
EVENTS = 8  # tested for each pair of counts, in each direction
ENDS = (32, 50, 64, 100, 128, 256, 500, 1000, 1024, 10**4, 2**15, 2**16, 10**5, 10**6, 2**31)


def privacy(
    function: Function,
    epsilon: Real,
    *,
    delta: Real = 0,
    pairs: Sequence[tuple[float, float]] | None = None,
    n: int = DRAWS,
    sensitivity: Real = 1,
    progress: Progress | None = None,
    real: bool = False,
) -> Findings:
    """Look for what a function gives away beyond epsilon (and delta).

    function: of one array of equal counts, as `dpfast bench --sampler` takes it, or function(count,
        n), which returns n outputs. real: whether the array is of float64, and not of int64.
    pairs: counts to compare; each `sensitivity` between them allows one epsilon. By default three:
        0 and its neighbour; 0 and the count about 2/epsilon neighbours away, where a wrong scale
        shows with fewest draws; and the worst, after a short look, of some forty neighbouring pairs
        (0 to 20, powers of two and ten), for noise that is rounded, capped or changed by the count.
    n: draws for each count.
    Raises: ParameterError, DTypeError (a parameter, or a function that fails or does not return n
        numbers).
    """
    audited = Audited(function, n, progress, real=real)
    promise, change = _checked(epsilon, delta, sensitivity)
    spent, most = promise
    z = normal_quantile(findings.ALPHA / 100)
    fixed = [(0, change), (0, change * max(1, round(2 / spent)))] if pairs is None else [tuple(p) for p in pairs]
    chosen_pairs = [_pair(first, second, change) for first, second in dict.fromkeys(fixed)]
    if pairs is None:
        extra = _scout(audited, change, n, most, z)
        chosen_pairs += [extra] if extra and extra not in chosen_pairs else []
    counts = list(dict.fromkeys(count for pair in chosen_pairs for count in pair.counts))
    choosing = min(n // 2, MOST_CHOOSING)
    audited.announce(n * len(counts))
    halves: dict[float, tuple[Outputs, Outputs]] = {}
    for count in counts:
        audited.say(f"count {output(count)}: {choosing:,} draws to choose events")
        halves[count] = audited.draw(count, choosing // 2), audited.draw(count, choosing // 2)
        fresh = _fresh(*halves[count], findings.ALPHA * FRESH / len(counts))
        if fresh.verdict == "found":
            return promise.findings(audited, math.inf, [fresh], "the noise can be predicted from other noise")
    tests: list[Chosen] = []
    for pair in chosen_pairs:
        audited.say(f"choosing events for {pair.words()}")
        build, rank = zip(*(halves[count] for count in pair.counts), strict=True)
        events = choose(pair, build, rank, min(1.0, grown(most, pair.steps, spent)), z)
        tests += [e for turned in (False, True) for e in [e for e in events if e.turned == turned][:EVENTS]]
    return tested(audited, promise, tests, chosen_pairs, halves, fresh)


def _checked(epsilon: Real, delta: Real, sensitivity: Real) -> tuple[Promise, float]:
    """The promise, and the sensitivity as an int where it is one."""
    wanted, most = exact_positive("epsilon", epsilon, decimal=True), exact_real("delta", delta, decimal=True)
    if not 0 <= most < 1:
        raise ParameterError(f"delta must lie between 0 and 1, got {delta}")
    change = exact_positive("sensitivity", sensitivity)
    spent = Promise(double_above(wanted), double_above(most))
    return spent, int(change) if change.denominator == 1 else float(change)


def _pair(first: float, second: float, change: float) -> Pair:
    gap = abs(exact_real("pairs", first) - exact_real("pairs", second))
    if not gap:
        raise ParameterError(f"pairs must contain different counts, got {first!s:.40} twice")
    return Pair(first, second, math.ceil(gap / exact_positive("sensitivity", change)))


def _scout(audited: Audited, change: float, n: int, delta: float, z: float) -> Pair | None:
    """The pair of neighbours that looks worst in n/100 draws a count."""
    few = min(10_000, n // 100)
    if few < 100:
        return None
    pairs = [Pair(i, i + change, 1) for i in range(20)]
    pairs += [Pair(first, first + change, 1) for k in ENDS for first in (k - change, k) if first >= 0]
    seen: dict[float, tuple[Outputs, Outputs] | None] = {}
    audited.say(f"a short look at {len(pairs)} pairs of neighbours, {few:,} draws a count")
    best: tuple[float, Pair] | None = None
    for pair in dict.fromkeys(pairs):
        for count in set(pair.counts) - seen.keys():
            try:
                seen[count] = audited.draw(count, few // 2), audited.draw(count, few // 2)
            except ParameterError:  # it may refuse large counts, but not 0 and its neighbour
                seen[count] = None
        first, second = seen[pair.first], seen[pair.second]
        if first and second:
            events = choose(pair, (first[0], second[0]), (first[1], second[1]), delta, z / 2)
            if events and (best is None or events[0].score > best[0]):
                best = events[0].score, pair
    return best[1] if best else None


def _fresh(one: Outputs, two: Outputs, alpha: float) -> Line:
    """Whether two calls, or two draws of a call, agree more often than independent draws."""
    m = min(CALL, one.size) // 2 * 2
    one, two = one[:m], two[:m]
    even, odd = slice(0, m, 2), slice(1, m, 2)

    z = normal_quantile(alpha / 4) / 2

    def more(hits: Mask, others: Mask) -> bool:
        if near_bound(int(hits.sum()), hits.size, z) <= near_bound(int(others.sum()), others.size, -z):
            return False
        return lower_bound(int(hits.sum()), hits.size, alpha / 4) > upper_bound(
            int(others.sum()), others.size, alpha / 4
        )

    again, chance = one == two, one == np.roll(two, 1)
    rates = f"{100 * again.mean():.4g} % of places, draws elsewhere in {100 * chance.mean():.4g} %"
    if more(again, chance):
        return Line("fresh noise", "found", f"two calls with the same count agree in {rates}: the noise is used again")
    if more(one[even] == one[odd], one[even] == two[odd]):
        return Line("fresh noise", "found", "the outputs of one call agree with each other: one draw serves many")
    return Line("fresh noise", "passed", f"two calls with the same count agree in {rates}")
