# SPDX-License-Identifier: Apache-2.0
"""The error of running totals, in doubles: a figure for readers, on which no privacy depends.

A total is a sum of earlier noise, weighed by b: the partial sums of the inverse of the series c.
With q_i = 1 - theta_i, the inverse has poles 1 - p_i, where p_i are the roots of 1 + sum of
w_j/(q_j - p). One lies between each q_i and the next, and one above the last, so bisection finds
them with all their digits. With h_i = 1/(p_i sum of w_j/(q_j - p_i)^2) and rest = 1/(1 + sum of
w_j/q_j),
    b_k = rest + sum of h_i (1 - p_i)^k,
and where all p_i are below 1 no term is negative. Sums of b_k^2 are sums of geometric series, and
so are those of (b_k - b_(k-w))^2: the error of a window, two totals and what noise they share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from dpfast.privacy.running import Coefficients


def _series(leak: float, n: int) -> float:
    """1 + x + ... + x^(n-1), x = 1 - leak."""
    return -math.expm1(n * math.log1p(-leak)) / leak if leak < 1 else (1 - (1 - leak) ** n) / leak


class Inverse:
    """Poles and weights of b."""

    def __init__(self, leaks: Sequence[float], shares: Sequence[float]) -> None:
        """leaks: q; shares: w."""
        joined: dict[float, float] = {}
        for q, w in zip(leaks, shares, strict=True):
            joined[q] = joined.get(q, 0.0) + w
        pairs = sorted(joined.items())
        self.leaks = [_root(pairs, i) for i in range(len(pairs))]
        self.parts = [1 / (p * sum(w / (q - p) ** 2 for q, w in pairs)) for p in self.leaks]
        self.rest = 1 / (1 + sum(w / q for q, w in pairs))

    @classmethod
    def of(cls, found: Coefficients) -> Inverse:
        return cls([float(q) for q in found.leaks], [float(w) for w in found.shares])

    def sum(self, n: int) -> float:
        """b_0 + ... + b_(n-1)."""
        return n * self.rest + sum(h * _series(p, n) for h, p in zip(self.parts, self.leaks, strict=True))

    def squares(self, n: int) -> float:
        """The sum of b_k^2 over k < n: the variance of total n, beside that of a step."""
        known = [(h, p) for h, p in zip(self.parts, self.leaks, strict=True)]
        found = n * self.rest**2 + 2 * self.rest * sum(h * _series(p, n) for h, p in known)
        return found + sum(h * k * _series(p + q - p * q, n) for (h, p), (k, q) in product(known, repeat=2))

    def window(self, n: int, last: int) -> float:
        """The sum of (b_k - b_(k-last))^2 over k < n, where b_k = 0 for k < 0."""
        if last >= n:
            return self.squares(n)
        lost = [h * p * _series(p, last) for h, p in zip(self.parts, self.leaks, strict=True)]
        known = list(zip(lost, self.leaks, strict=True))
        before = sum(h * k * _series(p + q - p * q, n - last) for (h, p), (k, q) in product(known, repeat=2))
        return self.squares(last) + before


def _root(pairs: Sequence[tuple[float, float]], i: int) -> float:
    """The root of 1 + sum of w_j/(q_j - p) between the i-th q and the next, or above the last."""
    low = pairs[i][0]
    high = pairs[i + 1][0] if i + 1 < len(pairs) else low + sum(w for _, w in pairs)
    for _ in range(200):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        if 1 + sum(w / (q - middle) for q, w in pairs) < 0:
            low = middle
        else:
            high = middle
    return high


def columns(leaks: Sequence[float], shares: Sequence[float], n: int) -> float:
    """The square of the length of the first column over n steps."""
    known = list(zip(leaks, shares, strict=True))
    return 1 + sum(v * w * _series(p + q - p * q, n - 1) for (p, v), (q, w) in product(known, repeat=2))
