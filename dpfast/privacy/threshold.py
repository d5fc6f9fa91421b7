# SPDX-License-Identifier: Apache-2.0
"""The threshold of partition selection, and why it is enough.

Noisy counts of unknown keys below the threshold T are withheld (a stability-based histogram).
Discrete Laplace noise with q = exp(-epsilon/l1) is added to every positive count. A key is shown
with its noisy count if this is T or more. So a key of count c < T is shown with probability p(c) =
q^(T - c)/(1 + q), which grows with c.

Neighbours x, y differ in at most l0 keys, each by at most linf, together by at most l1. Let a be
the probability under x that no key of x alone is shown, and b the probability under y that no key
of y alone is shown. The counts of these keys are at most linf, so a and b are at least (1 -
p(linf))^l0. An outcome that shows a key of x alone has no weight under y. Any other outcome has
weight a f under x. If it shows no key of y alone, it has weight b g under y. Here f and g are the
weights of what it shows of the keys of both. The counts of these keys change by d together, so f <=
g exp(epsilon d/l1), and d leaves out what the other keys change: f <= g exp(epsilon). So for any
set S of outcomes

    P_x(S) - exp(epsilon) P_y(S) <= (1 - a) + sum of (a f - exp(epsilon) b g)_+
                                 <= (1 - a) + (a - b)_+ <= 1 - (1 - p(linf))^l0,

and a release is (epsilon, delta)-DP for every T with 1 - (1 - p(linf))^l0 <= delta.
Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009; Wilson, Zhang, Lam, Desfontaines,
    Simmons-Marengo, Gipson 2020, section 3.
"""

from __future__ import annotations

from fractions import Fraction

from dpfast.exact import Ball, ball, unique_floor
from dpfast.exact.balls import miss


def least_threshold(rate: Fraction, delta: Fraction, l0: int, linf: int) -> int:
    """The least T > linf with 1 - (1 - p(linf))^l0 <= delta, for q = exp(-rate)."""

    def exact_threshold() -> Ball:
        """The k with q^k/(1 + q) = 1 - (1 - delta)^(1/l0).

        It is no integer, because an integer k would make q algebraic [Lindemann 1882].
        """
        return -((1 + (-ball(rate)).exp()) * miss(1 - delta, l0)).log() / ball(rate)

    lost = 256 + abs(rate.numerator.bit_length() - rate.denominator.bit_length()) + delta.denominator.bit_length()
    return linf + max(1, 1 + unique_floor(lost + l0.bit_length(), exact_threshold))
