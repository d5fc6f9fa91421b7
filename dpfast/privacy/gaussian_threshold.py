# SPDX-License-Identifier: Apache-2.0
"""Partition selection by discrete Gaussian noise: its sigma, its threshold, why they are enough.

Noise X is added to every positive count, and a key is shown if its noisy count is T or more. A key
of count c <= linf < T is shown with probability p(c) = P(X >= T - c).

Let x and y be neighbours. Let j keys be new in y (absent from x), and i keys new in x. They have
what the changed unit has, at least 1 each. Let a and b be the probabilities that none of the j, and
none of the i, is shown. Let f and g be the laws under y and x of what is shown of the keys of both;
the noise of new keys is independent of it. An outcome that shows a key new in y has no weight under
x, and all of them together have 1 - a under y. One that shows a key new in x has no weight under y.
Any other has weight a f under y and b g under x. So for any set S of outcomes

    P_y(S) - e^epsilon P_x(S) <= 1 - a + sup(a f - e^epsilon b g)
                              <= 1 - a + a sup(f - e^epsilon b g) = 1 - a (1 - d(epsilon + ln b)),

where d(e) is the delta of the noise alone on the keys of both. It is enough that this is at most
delta for every j and i. It is a maximum and no sum, so delta is not split. Here j = i = 0 is the
noise alone, and j = l0 is the threshold alone. Under add-remove with contributions >= 0 all new
keys are on one side. The bound for i = 0 covers j = 0, too: sup(f - t g) is convex in t and 1 at t
= 0, so d(epsilon + ln b) <= 1 - b + b d(epsilon).

The keys of both: a neighbour changes at most l0 keys, by l1 in all. Let j + i of these be new, by 1
or more each. So at most l0 - j - i are moved, by l1 - j - i in all. Two cells moved by c and d are
no easier to tell than one moved by c + d (dpfast/privacy/gaussian.py, 3). So join them while c + d
<= linf. That says there how many are left at most. Any bound above linf holds, too, and may leave
fewer cells: by 4 in all and 3 in each there are two cells by 3, or one by 4. The bound with the
least sum of squares is taken for all j and i, so a lower linf never has a larger one. What is taken
for a sigma decides T: under a key, another T comes with another sigma, which its stream names.

What new keys have: from c to c + 1 the probability p rises by P(X = T - c - 1), which grows with c
< T. So -ln(1 - p(c)) is convex, and worst_counts (dpfast/privacy/threshold.py) holds for this law.

sigma is the least for which the noise alone is (epsilon, delta)-DP, or up to a tenth more, if a
threshold is lower then: the bound is proved for each sigma and T by itself. With more noise T
mostly rises, though more of delta is left to it. For epsilon 1, delta 1e-6 and l0 = 4, 10, 50 it is
44, 71, 166 for the least sigma, and 45, 72, 168 for one that is 1 % larger. But where l1 is below
l0 linf, the cells that are left beside a new key may be as bad as without it. Then the least sigma
leaves next to nothing to the threshold: at l0 = linf = 3 and l1 = 5 two cells by 3 stood for both.
A tighter bound had no higher T for any delta up to 1/100 that was tried. At 1/20 one did, by 1, for
want of a little more than a tenth: l0 = 2 and linf = 4 under substitution have T = 27 for l1 = 5,
and 26 for l1 = 6.

A pre-threshold tau hides counts below tau, too. Then a key of both that is hidden in x may have tau
- 1 there, so a new key has up to tau - 1 more in y than the unit contributes. T is tau - 1 higher,
and all probabilities are what they were. With T kept, a key at the edge would show a unit.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import NamedTuple, NoReturn

from dpfast.errors import ParameterError
from dpfast.privacy.exact import Ball, ball, rounded_up
from dpfast.privacy.exact.discrete_gaussian import DiscreteGaussian
from dpfast.privacy.gaussian import calibrate, discrete_delta, joined
from dpfast.privacy.parameters import shown
from dpfast.privacy.threshold import worst_counts

MOST = 2**62  # a threshold that counts of 64 bits reach
MOST_SIGMA = Fraction(10**9)  # the mechanism's own
STEPS = [Fraction(n, 100) for n in (100, 101, 102, 103, 105, 110)]  # times the least sigma


class Norms(NamedTuple):
    """At most l0 keys, each by at most linf, and by l1 in all: whole numbers."""

    l0: int
    linf: int
    l1: int

    def without(self, new: int) -> tuple[int, int]:
        """How many cells, moved by how much each, are worse than all but `new` of these keys."""
        total = self.l1 - new
        if self.l0 <= new or total <= 0:
            return 0, 1
        linf = min(self.linf, total)
        return joined(self.l0 - new, linf, total), linf

    @property
    def closest(self) -> Norms:
        """The same by linf, or by the bound above it that leaves a lesser sum of squares."""
        l0, linf, total = self
        bounds = {linf, *(max(linf, _leaves(n, total)) for n in range(1, min(joined(*self), linf)))}
        return self._replace(linf=min(bounds, key=lambda most: joined(l0, most, total) * most**2))


def _leaves(cells: int, total: int) -> int:
    """The least bound at which no more cells than this are left that cannot be joined."""
    return min(2 * (total // (cells + 1)) + 1, 2 * ((total + 1) // (cells + 1)))


def _delta(epsilon: Fraction, cells: int, linf: int, sigma_squared: Fraction) -> float:
    """The delta of noise on so many cells, none included; epsilon may be below 0."""
    if cells:
        return discrete_delta(epsilon, cells, linf, sigma_squared)
    return 0.0 if epsilon >= 0 else rounded_up(lambda: -ball(epsilon).expm1())


def least_sigma(epsilon: Fraction, delta: Fraction, changed: Norms) -> Fraction:
    """The least sigma found, a double, whose noise is (epsilon, delta)-DP.

    Raises: ParameterError (none is enough).
    """
    cells, linf = changed.closest.without(0)
    return calibrate(
        lambda squared: _delta(epsilon, cells, linf, squared), delta, start=max(1e-3, linf * math.sqrt(cells))
    )


def least_noise(
    epsilon: Fraction, delta: Fraction, changed: Norms, alone: Norms, *, one_side: bool
) -> tuple[Fraction, int]:
    """The sigma, of the least and some a little larger, that has the least threshold; and that.

    If thresholds are equal, it is the least sigma. Arguments and errors: see least_threshold.
    """
    least, found = least_sigma(epsilon, delta, changed), None
    for step in STEPS:
        sigma = min(least * step, MOST_SIGMA)
        most = MOST if found is None else found[1] - 1
        threshold = _least_upto(most, epsilon, delta, sigma**2, changed, alone, one_side=one_side)
        if threshold is not None:
            found = sigma, threshold
    return found or _refuse(delta, changed)


def least_threshold(
    epsilon: Fraction, delta: Fraction, sigma_squared: Fraction, changed: Norms, alone: Norms, *, one_side: bool
) -> int:
    """The least T above linf whose bound is at most delta.

    changed: what a neighbour changes. alone: what keys have that are new on one side. one_side:
        whether only one of two neighbours has new keys.
    Raises: ParameterError (no T is enough).
    """
    found = _least_upto(MOST, epsilon, delta, sigma_squared, changed, alone, one_side=one_side)
    return _refuse(delta, changed) if found is None else found


def _refuse(delta: Fraction, changed: Norms) -> NoReturn:
    raise ParameterError(
        f"delta must be one that a threshold reaches beside noise on {changed.l0} keys, got {shown(delta)}: "
        "bound what a unit contributes to fewer keys"
    )


def _least_upto(
    most: int,
    epsilon: Fraction,
    delta: Fraction,
    sigma_squared: Fraction,
    changed: Norms,
    alone: Norms,
    *,
    one_side: bool,
) -> int | None:
    """The least T above linf, and not above `most`, whose bound is at most delta, if one is."""
    law, closest = DiscreteGaussian(sigma_squared), changed.closest
    either = range(1) if one_side else range(alone.l0 + 1)

    @cache
    def moved(new: int, epsilon: Fraction) -> float:
        return _delta(epsilon, *closest.without(new), sigma_squared)

    def enough(threshold: int) -> bool:
        reached = cache(lambda count: Fraction(math.nextafter(law.upper(threshold - count), 1.0)))  # or less
        hidden = cache(partial(_hidden, alone=alone, reached=reached))

        def within(i: range, j: range) -> bool:
            """Whether the bound holds for all: at the least i + j, and the last of each."""
            b = hidden(i[-1])
            less = epsilon - Fraction(rounded_up(lambda: -b())) if i[-1] else epsilon
            most = _either(hidden(j[-1]), moved(i[0] + j[0], less)) if j[-1] else moved(i[0], less)
            if Fraction(most) <= delta:
                return True
            if len(i) == len(j) == 1:
                return False
            first, second = _halves(i if len(i) >= len(j) else j)
            if len(i) >= len(j):
                return within(first, j) and within(second, j)
            return within(i, first) and within(i, second)

        return within(either, range(alone.l0 + 1))

    step, low = math.ceil(math.sqrt(sigma_squared)), alone.linf + 1
    high = min(low, most)
    while not enough(high):
        if high == most:
            return None
        low, high, step = high + 1, min(high + step, most), 2 * step
    return bisect_left(range(low, high), True, key=enough) + low


def _hidden(keys: int, *, alone: Norms, reached: Callable[[int], Fraction]) -> Callable[[], Ball]:
    """The logarithm of P(so many new keys stay hidden), or less, for the worst of their counts."""
    if keys == 0:
        return lambda: ball(Fraction(0))
    worlds = worst_counts(keys, alone.linf, alone.l1)

    def log(counts: dict[int, int]) -> Ball:
        logs = [many * ball(-reached(count)).log1p() for count, many in counts.items()]
        return sum(logs[1:], logs[0])

    def least() -> Ball:
        found = [log(counts) for counts in worlds]
        return min(found, key=lambda each: each.lower())

    return least


def _either(hidden: Callable[[], Ball], moved: float) -> float:
    """1 - a (1 - d), rounded up. hidden: ln a. moved: d."""
    if moved >= 1:
        return 1.0
    return rounded_up(lambda: -(hidden() + ball(-Fraction(moved)).log1p()).expm1())


def _halves(of: range) -> tuple[range, range]:
    middle = len(of) // 2
    return of[:middle], of[middle:]
