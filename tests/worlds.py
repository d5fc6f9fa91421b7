# SPDX-License-Identifier: Apache-2.0
"""Small worlds: laws in rationals, all neighbours, the worst ratio, as exact sums."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tiers

HALF = Fraction(1, 2)
World = tuple[int, ...]
World2 = tuple[tuple[int, int], ...]
Law = Callable[[World], Sequence[Fraction]]

# Texts that a reader may take for one, for several or for none: numbers, spaces, accents, breaks.
PEOPLE = (
    "1", "1.0", " 1", "1 ", "01", "+1", "1e0", "\u00a01", "\u200b1", "\u0661", "0", "-0", "'1'", "\u00e9", "e\u0301", "A", "a",
    "null", "NaN", "nan", "None", "NA", "\\N", "true", "1\n", "1\r\n", "\n", 'x"y', '"', ",", ";", "\t", "#", "a\0", "\U0001f600",
    "z" * 300,
)  # fmt: skip


def worst_ratio(law: Law, moves: Sequence[int], numbers: Sequence[int] = range(-1, 2), length: int = 3) -> Fraction:
    """Over all tuples of these numbers and all neighbours, whose entries move by one of `moves`.

    By logarithms first; exactly where these come near the largest.
    """

    @cache
    def of(world: World) -> list[tuple[float, Fraction]]:
        return [(math.log(p.numerator) - math.log(p.denominator), p) for p in law(world)]

    pairs = [
        (abs(log - other), a, b)
        for world in itertools.product(numbers, repeat=length)
        for move in itertools.product(moves, repeat=length)
        for (log, a), (other, b) in zip(
            of(world), of(tuple(x + m for x, m in zip(world, move, strict=True))), strict=True
        )
    ]
    near = max(log for log, _, _ in pairs) - 1e-9
    return max(max(a / b, b / a) for a, b in {(a, b) for log, a, b in pairs if log >= near})


# ---------------------------------------------------- noise on counts: P(X = k) = (1-q)/(1+q) q^|k|


def below(q: Fraction, k: int) -> Fraction:
    """P(X <= k)."""
    return q**-k / (1 + q) if k < 0 else 1 - q ** (k + 1) / (1 + q)


def shown_with(c: int, q: Fraction, threshold: int) -> Fraction:
    """P(c + X >= threshold)."""
    return 1 - below(q, threshold - 1 - c)


# -------------------------------------------- selection, for one step of the score worth a factor 2


def exponential_law(scores: World) -> list[Fraction]:
    """Weights 2^score."""
    weights = [Fraction(2) ** int(s - max(scores)) for s in scores]
    return [w / sum(weights) for w in weights]


def flip_law(scores: World, base: Fraction = HALF) -> list[Fraction]:
    """By the definition of McKenna and Sheldon: a random order, and a coin for each."""
    coins = [base ** int(max(scores) - s) for s in scores]
    found = [Fraction(0)] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = Fraction(1, len(orders))
        for i in order:
            found[i] += reached * coins[i]
            reached *= 1 - coins[i]
    return found


@cache
def geometric_law(scores: World, q: Fraction = HALF, reach: int = 100) -> list[Fraction]:
    """The largest score with noise P(X = k) = (1 - q) q^k, ties to the lower index."""
    found = [Fraction(0)] * len(scores)

    @cache
    def under(k: int) -> Fraction:  # P(X < k)
        return 1 - q**k if k > 0 else Fraction(0)

    for i, score in enumerate(scores):
        for x in range(reach):
            weight = (1 - q) * q**x
            for j, other in enumerate(scores):
                if j != i:
                    weight *= under(score + x - other + (j > i))  # an equal one of a higher index is beaten
            found[i] += weight
    return found


# ------------------------- the k best in order, in doubles; q = e^-rate: a step of the score is 1/q


def orders(n: int, k: int) -> list[tuple[int, ...]]:
    """What a selection of k of n can give."""
    return list(itertools.permutations(range(n), k))


def exponential_top(scores: World, q: float, k: int) -> list[float]:
    """One pick after another, without those before: what Gumbel noise in one shot gives."""
    weights, found = [q ** (max(scores) - s) for s in scores], []
    for order in orders(len(scores), k):
        mass, left = 1.0, sum(weights)
        for i in order:
            mass, left = mass * weights[i] / left, left - weights[i]
        found.append(mass)
    return found


def flip_top(scores: World, q: float, k: int) -> list[float]:
    """Exponential noise, k = 2: i is above j, and j above all others, by the place u = q^t of j."""
    assert k == 2
    weights, found = [q**-s for s in scores], []
    for i, j in orders(len(scores), 2):
        below = np.polynomial.Polynomial([weights[j]])  # that j is at t, and the others are below
        for other in {*range(len(scores))} - {i, j}:
            below *= np.polynomial.Polynomial([1, -weights[other]])
        end = min(1 / weight for n, weight in enumerate(weights) if n != i)
        bend = min(1 / weights[i], end)  # where i is surely above t
        rising, flat = (below * [0, weights[i]]).integ(), below.integ()
        found.append(float(rising(bend) - rising(0) + flat(end) - flat(bend)))
    return found


@cache
def _geometric_noises(n: int, q: float) -> tuple[np.ndarray, np.ndarray]:
    """All noises of n scores, a column each, and their masses."""
    noises = np.stack(np.meshgrid(*[np.arange(50)] * n)).reshape(n, -1)
    return noises, (1 - q) ** n * q ** noises.sum(axis=0)


def geometric_top(scores: World, q: float, k: int) -> list[float]:
    """Every noise below 50; ties to the lower index."""
    n = len(scores)
    noises, weights = _geometric_noises(n, q)
    ranks = noises * n + np.array([s * n - i for i, s in enumerate(scores)])[:, None]
    codes = np.zeros(weights.size, np.int64)
    for place in range(k):
        best = ranks.argmax(axis=0)
        codes += best * n**place
        ranks[best, np.arange(weights.size)] = -(2**62)
    masses = np.bincount(codes, weights, n**k)
    return [float(masses[sum(i * n**place for place, i in enumerate(order))]) for order in orders(n, k)]


def loss_and_rho(p: Sequence[float], q: Sequence[float]) -> tuple[float, float]:
    """The largest ln(p/q), and the largest Rényi divergence over its order alpha > 1."""
    losses, over = np.log(p) - np.log(q), np.geomspace(1e-3, 1e3, 60)
    moments = np.log(p) + over[:, None] * losses
    most = moments.max(axis=1)
    divergences = (np.log(np.exp(moments - most[:, None]).sum(axis=1)) + most) / over / (1 + over)
    return float(losses.max()), max(float((np.array(p) * losses).sum()), float(divergences.max()))


# --------------------------------------------------------------- the first answer above a threshold

ABOVE_REACH = 40  # the threshold's noise; beyond it lies less than 4^-40


@cache
def _in_units(numbers: Callable[..., Fraction], q: Fraction, reach: int) -> tuple[list[int], int]:
    """The numbers of -reach ... reach, over one denominator."""
    found = [numbers(q, k) for k in range(-reach, reach + 1)]
    one = math.lcm(*(each.denominator for each in found))
    return [each.numerator * (one // each.denominator) for each in found], one


def _mass(q: Fraction, k: int) -> Fraction:
    return (1 - q) / (1 + q) * q ** abs(k)


def first_above(answers: World, q_threshold: Fraction, q_answer: Fraction) -> list[Fraction]:
    """P(the first above is i), and P(none) last, for threshold 0: within ABOVE_REACH."""
    reach = ABOVE_REACH + 1 + max(map(abs, answers))
    (masses, whole), (lowers, one) = _in_units(_mass, q_threshold, ABOVE_REACH), _in_units(below, q_answer, reach)
    found = [0] * (len(answers) + 1)
    for x, mass in zip(range(-ABOVE_REACH, ABOVE_REACH + 1), masses, strict=True):
        weight = mass
        for i, answer in enumerate(answers):
            lower = lowers[x - 1 - answer + reach]  # answer + noise < x
            found[i] += weight * (one - lower)
            weight *= lower
        found[-1] += weight
    steps = [*range(1, len(answers) + 1), len(answers)]  # how often a weight was multiplied
    return [Fraction(mass, whole * one**many) for mass, many in zip(found, steps, strict=True)]


# ---------------------------------------------------------- keys that are shown from a threshold on

SHOWN_REACH = 3  # from here on, above every count, the ratio of two laws is constant: one outcome is the tail, exactly


def shown(count: int, q: Fraction, threshold: int) -> dict[int | None, Fraction]:
    """What one key shows: None, or a noisy count, those beyond reach as one."""
    if count == 0:
        return {None: Fraction(1)}
    law: dict[int | None, Fraction] = {
        k: (1 - q) / (1 + q) * q ** abs(k - count) for k in range(threshold, threshold + SHOWN_REACH)
    }
    law[10**9] = shown_with(count, q, threshold + SHOWN_REACH)
    law[None] = 1 - shown_with(count, q, threshold)
    return law


def delta_of(x: World, y: World, q: Fraction, l1: int, threshold: int) -> Fraction:
    """sup over S of P_x(S) - e^epsilon P_y(S), e^epsilon = q^-l1, by the keys that differ."""
    return _delta_of(tuple(sorted(both for both in zip(x, y, strict=True) if both[0] != both[1])), q, l1, threshold)


@functools.cache
def _delta_of(pairs: World2, q: Fraction, l1: int, threshold: int) -> Fraction:
    laws = [(shown(a, q, threshold), shown(b, q, threshold)) for a, b in pairs]
    total = Fraction(0)
    for outcomes in itertools.product(*(a.keys() | b.keys() for a, b in laws)):
        p = r = Fraction(1)
        for outcome, (a, b) in zip(outcomes, laws, strict=True):
            p, r = p * a.get(outcome, 0), r * b.get(outcome, 0)
        total += max(p - r / q**l1, Fraction(0))
    return total


def alone(l0: int, linf: int, l1: int) -> Iterator[World]:
    """All counts that keys of one unit alone can have, the largest first; none, too."""
    yield ()
    for count in range(1, min(linf, l1) + 1 if l0 else 1):
        for rest in alone(l0 - 1, count, l1 - count):
            yield (count, *rest)


def most_shown(q: Any, threshold: int, l0: int, linf: int, l1: int) -> Any:
    """The most that P(one of these keys is shown) can be, for a threshold above linf."""
    hidden = [1 - q ** (threshold - count) / (1 + q) for count in range(linf + 1)]
    return 1 - min(math.prod(hidden[count] for count in counts) for counts in alone(l0, linf, l1))


def neighbours(l0: int, linf: int, l1: int, keys: int = 2) -> Iterator[tuple[World, World]]:
    """All pairs of counts below 3 that differ by no more than these norms say."""
    for x in itertools.product(range(3), repeat=keys):
        for y in itertools.product(range(3), repeat=keys):
            moves = [abs(a - b) for a, b in zip(x, y, strict=True)]
            if 0 < sum(moves) <= l1 and max(moves) <= linf and sum(m > 0 for m in moves) <= l0:
                yield x, y


def gaussian_law(sigma_squared: Fraction, reach: int = 80) -> npt.NDArray[np.float64]:
    """P(X = k) of discrete Gaussian noise, k = -reach ... reach, by its definition."""
    k = np.arange(-reach, reach + 1)
    bell = np.exp(-(k**2) / (2 * float(sigma_squared)))
    return np.asarray(bell / bell.sum())


def gaussian_shown(count: int, law: npt.NDArray[np.float64], threshold: int, least: int, top: int) -> Any:
    """What one key shows: nothing, or a noisy count from the threshold up to top."""
    if count < least:
        return np.eye(1, top - threshold + 2)[0]
    reach = len(law) // 2
    at = np.clip(np.arange(count - reach, count + reach + 1), threshold - 1, top) - threshold + 1
    return np.bincount(at, law, top - threshold + 2)


def gaussian_delta(
    x: World, y: World, law: npt.NDArray[np.float64], epsilon: float, threshold: int, least: int = 1
) -> float:
    """sup over S of P_x(S) - e^epsilon P_y(S), over all that the keys that differ can show."""
    p, q = np.ones(1), np.ones(1)
    top = max(*x, *y) + len(law) // 2
    for a, b in zip(x, y, strict=True):
        if a != b:
            one, other = (gaussian_shown(count, law, threshold, least, top) for count in (a, b))
            p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, other).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def delta_of_keys(pairs: World2, shows: Callable[[int], npt.NDArray[np.float64]], epsilon: float) -> float:
    """sup over S of P_x(S) - e^epsilon P_y(S), by the loss's law. pairs: both counts of keys."""
    losses, masses = np.zeros(1), np.ones(1)
    for a, b in pairs:
        p, q = shows(a), shows(b)
        both = (p > 0) & (q > 0)
        losses = np.add.outer(losses, np.log(p[both]) - np.log(q[both])).ravel()
        losses, at = np.unique(np.round(losses, 9), return_inverse=True)
        masses = np.bincount(at.ravel(), np.multiply.outer(masses, p[both]).ravel())
    return float(1 - masses.sum() + (masses * -np.minimum(np.expm1(epsilon - losses), 0)).sum())


@functools.cache
def delta_of_move(change: World, epsilon: float, sigma_squared: float, reach: int = 40) -> float:
    """The delta of discrete Gaussian noise for one change of cells, by the law of its loss."""
    x = np.arange(-reach, reach + 1)
    p = np.exp(-(x**2) / (2 * sigma_squared))
    p /= p.sum()
    law, least = np.ones(1), 0  # the law of the loss, times 2 sigma^2, and the least loss
    for d in map(abs, change):
        one = np.zeros(4 * reach * d + 1)
        one[:: 2 * d or 1] += p if d else 1.0  # losses 2 x d + d^2
        law, least = np.convolve(law, one), least - 2 * reach * d + d * d
    losses = (least + np.arange(law.size)) / (2 * sigma_squared)
    return float((law * -np.minimum(np.expm1(epsilon - losses), 0)).sum())


# ---------------------------------------- noise on reals: a Laplace law on the sixteenths of a step

# On the grid and off it, beside ties, and beyond the bounds of the tests.
REALS = [-3.0, -1.5, -1.25, -1.0, -15 / 16, -0.5, -1 / 16, -0.0, 1 / 16, 0.25, 0.5, 9 / 16, 1.0, 2.75, 3.0, 9.0]


class OneDraw:
    """A law that gives one draw, and keeps where on the grid its noise was to begin."""

    k, offset = 0, Fraction(0)

    def draw(self, read: object, i: int, offset: Fraction) -> int:
        self.offset = offset
        return self.k


FAR = 20 * 16  # sixteenths of a step, beyond which the rest is clamped like the last


@cache
def _masses(q: Fraction) -> tuple[list[int], int]:
    """P(s/16 <= N < (s + 1)/16), -FAR <= s < FAR, and their sum: P(N > s/16) = q^s / 2, s >= 0."""
    above = [q.numerator**s * q.denominator ** (FAR - s) for s in range(FAR)] + [0]
    one_side = [a - b for a, b in itertools.pairwise(above)]
    return one_side[::-1] + one_side, 2 * above[0]


def real_world(
    mechanism: Any,
    q: Fraction,
    values: list[float],
    tamper: Callable[[Fraction], Fraction] = lambda z: z,
    **bounds: float,
) -> dict[float, dict[float, Fraction]]:
    """Each value's whole law, by sixteenths of a step."""
    law, (masses, total) = OneDraw(), _masses(q)
    result = tiers.with_law(mechanism, law, **bounds)
    noises = [tamper(Fraction(2 * s + 1, 32)) for s in range(-FAR, FAR)]
    found: dict[float, dict[float, Fraction]] = {}
    for value in values:
        result(value)
        begin, draws, results = law.offset + HALF, dict[int, int](), dict[float, int]()
        for noise, mass in zip(noises, masses, strict=True):
            k = (begin.numerator * noise.denominator + noise.numerator * begin.denominator) // (
                begin.denominator * noise.denominator
            )
            draws[k] = draws.get(k, 0) + mass
        for law.k, mass in draws.items():
            y = result(value)
            results[y] = results.get(y, 0) + mass
        found[value] = {y: Fraction(mass, total) for y, mass in results.items()}
    return found


def leaks(laws: dict[float, dict[float, Fraction]], q: Fraction, granularity: float) -> int:
    """Pairs of values, and results, apart by more than e^(epsilon |x - x'| / sensitivity)."""
    count, one = 0, math.lcm(*(mass.denominator for law in laws.values() for mass in law.values()))
    shares = {
        x: {y: mass.numerator * (one // mass.denominator) for y, mass in of_x.items()} for x, of_x in laws.items()
    }
    for x, of_x in shares.items():
        assert sum(of_x.values()) == one
        for other, of_other in shares.items():
            far = int(16 * abs(Fraction(x) - Fraction(other)) / Fraction(granularity))
            less, more = q.numerator**far, q.denominator**far
            count += sum(mass * less > of_other.get(y, 0) * more for y, mass in of_x.items())
    return count
