# SPDX-License-Identifier: Apache-2.0
"""The threshold of partition selection, and why it is enough.

Noisy counts of unknown keys below the threshold T are withheld (a stability-based histogram).
Discrete Laplace noise with q = exp(-epsilon/l1) is added to every positive count. A key is shown
with its noisy count if this is T or more. So a key of count c < T is shown with probability p(c) =
q^(T - c)/(1 + q), which grows with c.

Let x and y be neighbours. A key of x alone is there by what one unit has, and by nothing else. Let
C be the counts that such keys can have together. They are at most l0 counts, each from 1 to linf,
with a sum of at most l1. Let loss(T) be the most that 1 - (product of 1 - p(c)) can be for such
counts. All keys together differ by at most L1. Let a be the probability under x that no key of x
alone is shown. Let b be the probability under y that no key of y alone is shown. Both are at least
1 - loss(T). An outcome that shows a key of x alone has no weight under y. Any other outcome has
weight a f under x. If it shows no key of y alone, it has weight b g under y. Here f and g are the
weights of what it shows of the keys of both. The counts of these keys change by d together, so f <=
g exp(epsilon d/L1). Because d leaves out what the other keys change, f <= g exp(epsilon). So for
any set S of outcomes

    P_x(S) - exp(epsilon) P_y(S) <= (1 - a) + sum of (a f - exp(epsilon) b g)_+
                                 <= (1 - a) + (a - b)_+ <= loss(T),

and a release with noise for L1 is (epsilon, delta)-DP for every T with loss(T) <= delta.

What a unit has: if contributions are not negative, a key of x alone has the count that the unit
contributes, in x. So l0, linf and l1 are those of one contribution, also under substitution, where
L1 is twice l1. Signed contributions can cancel, so there they are those of the change.

The worst counts: p grows as exp(rate c), so g(c) = -ln(1 - p(c)) is convex. Let k keys share l1
among them, and let m = l1 - k be what they have beyond one each. The sum of g is largest at a
corner: m // (linf - 1) keys have linf, one has the rest, and the others have 1. As a function of m
this sum is convex between multiples of linf - 1, and at the multiples it lies on a line. So it is
largest at the least or the greatest m that there is, or at the least or the greatest multiple.
(Are l0 keys of linf within l1, then they are the worst.)
Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009; Wilson, Zhang, Lam, Desfontaines,
    Simmons-Marengo, Gipson 2020, section 3.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

from dpfast.privacy.exact import Ball, ball, unique_floor
from dpfast.privacy.exact.balls import miss


def least_threshold(rate: Fraction, delta: Fraction, l0: int, linf: int, l1: int) -> int:
    """The least T > linf with loss(T) <= delta, for q = exp(-rate)."""
    return max(linf + 1, *(_least(rate, delta, counts) for counts in worst_counts(l0, linf, l1)))


def worst_counts(l0: int, linf: int, l1: int) -> list[dict[int, int]]:
    """The counts among which the worst are: of each count, how many keys have it."""
    if l0 * linf <= l1:
        return [{linf: l0}]
    if linf == 1:
        return [{1: l1}]
    step, least, greatest = linf - 1, l1 - min(l0, l1), l1 + -l1 // linf
    ends = {least, greatest, -(-least // step) * step, greatest // step * step}
    found = []
    for spare in sorted(each for each in ends if least <= each <= greatest):
        full, rest = divmod(spare, step)
        counts = {linf: full, 1 + rest: 1, 1: l1 - spare - full - 1} if rest else {linf: full, 1: l1 - spare - full}
        found.append({count: keys for count, keys in counts.items() if keys})
    return found


def _least(rate: Fraction, delta: Fraction, counts: dict[int, int]) -> int:
    """The least T above all these counts that hides their keys."""
    least = max(_of_equal(rate, delta, count, keys) for count, keys in counts.items())
    if len(counts) == 1:
        return least
    # Each kind of keys may be shown as often as (1 - delta)^(1/kinds) says: no less is needed.
    enough = max(_of_equal(rate, delta, count, keys * len(counts)) for count, keys in counts.items())

    def hidden(threshold: int) -> bool:
        """Whether the sum of ln(1 - p(c)) is above ln(1 - delta). They are equal for no T."""

        def share() -> Ball:
            q = (-ball(rate)).exp()
            logs = [
                keys * (-((-ball(rate) * (threshold - count)).exp() / (1 + q))).log1p()
                for count, keys in counts.items()
            ]
            return sum(logs) / ball(-delta).log1p()

        return unique_floor(_precision(rate, delta, sum(counts.values())), share) == 0

    return bisect_left(range(least, enough), True, key=hidden) + least


def _of_equal(rate: Fraction, delta: Fraction, count: int, keys: int) -> int:
    """The least T that hides so many keys of one count."""

    def exact_threshold() -> Ball:
        """The k with q^k/(1 + q) = 1 - (1 - delta)^(1/keys).

        It is no integer, because an integer k would make q algebraic [Lindemann 1882].
        """
        return -((1 + (-ball(rate)).exp()) * miss(1 - delta, keys)).log() / ball(rate)

    return count + max(1, 1 + unique_floor(_precision(rate, delta, keys), exact_threshold))


def _precision(rate: Fraction, delta: Fraction, keys: int) -> int:
    lost = abs(rate.numerator.bit_length() - rate.denominator.bit_length())
    return 256 + lost + delta.denominator.bit_length() + keys.bit_length()
