# SPDX-License-Identifier: Apache-2.0
"""The discrete Gaussian law in intervals: its sums, and its figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

from dpfast.errors import DpfastError
from dpfast.privacy.exact.balls import (
    MAX_BITS,
    Ball,
    alone,
    ball,
    dyadic,
    flint_at,
    miss,
    nearest_double,
    pi,
    within,
)

INVERSION = 2**14  # the largest sigma^2 that is summed term by term, and drawn by inversion


class DiscreteGaussian:
    """The law P(X = k) = exp(-k^2 / (2 sigma^2)) / theta, for an exact rational sigma^2.

    f(x) = exp(-x^2 / (2 sigma^2)); T_k = P(|X| >= k) = 2 (f(k) + f(k+1) + ...)/theta for k >= 1. No
    T_k is proved irrational, hence the bounded effort.
    Source: CKS20.
    """

    def __init__(self, sigma_squared: Fraction) -> None:
        self.sigma_squared = sigma_squared
        self.inversion = sigma_squared <= INVERSION
        self._sums: tuple[int, list[Ball]] = (0, [])  # the last precision's

    # ------------------------------------------------------------------ sums

    def _f(self, k: int) -> Ball:
        return ball(-(k**2) / (2 * self.sigma_squared)).exp()

    def theta(self, precision: int) -> Ball:
        """The sum of f over all integers."""
        with alone, flint_at(precision):
            if self.inversion:
                return 1 + 2 * self._tails(precision)[1]
            # Poisson summation: sigma sqrt(2 pi) (1 + 2 sum q^(n^2)), the last factor below 1 + 3 q
            return (2 * pi() * ball(self.sigma_squared)).sqrt() * (1 + within(3 * self._nome()))

    def _nome(self) -> Ball:
        return (-2 * pi() ** 2 * ball(self.sigma_squared)).exp()

    def _last(self, precision: int) -> int:
        """A k with f(k) < 2^-precision."""
        return math.isqrt(math.floor(2 * self.sigma_squared * precision * Fraction(7, 10))) + 1  # ln 2 < 7/10

    def _rest(self, last: int, order: int) -> Ball:
        """A geometric bound of the sum of k^order f(k), k >= last: ratios of terms fall with k."""
        growth = Fraction((last + 1) ** order, last**order)
        ratio = ball(-(2 * last + 1) / (2 * self.sigma_squared)).exp() * ball(growth)
        return ball(Fraction(last**order)) * self._f(last) / (1 - ratio)

    def _tails(self, precision: int) -> list[Ball]:
        """f(k) + f(k+1) + ... for k = 0, 1, ... term by term; the last ball holds all others."""
        known, sums = self._sums
        if known != precision:
            last = self._last(precision)
            with alone, flint_at(precision + 32):
                rate = ball(-1 / (2 * self.sigma_squared))
                terms = [within(self._rest(last, 0)), *((rate * k**2).exp() for k in reversed(range(last)))]
                sums = list(itertools.accumulate(terms))[::-1]
            self._sums = precision, sums
        return sums

    def _tail(self, k: int, precision: int) -> Ball:
        """f(k) + f(k+1) + ..., k >= 1; at the working precision, which is this one."""
        if self.inversion:
            sums = self._tails(precision)
            return sums[min(k, len(sums) - 1)]
        # Euler and Maclaurin: the integral, f(k)/2, the terms -B_2m/(2m)! f^(2m-1)(k), and a
        # remainder of at most 2 zeta(2p) / (2 pi)^2p times the integral of |f^(2p)| [DLMF 2.10.1,
        # 24.8.1]. f^(n)(x) = (-1)^n sigma^-n He_n(x/sigma) f(x), and |He_n(t)| <= 1.0865 sqrt(n!)
        # exp(t^2/4) [Cramer; Abramowitz, Stegun 22.14.17]. So that integral is at most sigma^(1-2p)
        # 1.0865 sqrt((2p)!) sqrt(pi) erfc(k / (2 sigma)).
        from flint import arb

        variance = ball(self.sigma_squared)
        sigma, f = variance.sqrt(), self._f(k)
        envelope = 4 * sigma * pi().sqrt() * (k / (2 * sigma)).erfc()  # 2 zeta(2p) 1.0865 < 4
        shrink = 1 / (4 * pi() ** 2 * variance)
        before, derivative = arb(1), k / variance  # sigma^-n He_n(k/sigma) for n = 2m-2 and 2m-1
        series, order = arb(1) / 2, 1
        while True:
            series += arb.bernoulli(2 * order) / arb(2 * order).fac() * derivative
            remainder = envelope * shrink**order * arb(2 * order).fac().sqrt()
            if remainder < dyadic(1, precision) * f or 4 * order > precision:
                break
            for n in (2 * order - 1, 2 * order):
                before, derivative = derivative, (k * derivative - n * before) / variance
            order += 1
        return (pi() * variance / 2).sqrt() * (k / (2 * variance).sqrt()).erfc() + f * series + within(remainder)

    def _above(self, k: int, level: Callable[[], Ball]) -> bool:
        """Whether T_k > level, k >= 1, for a level in (0, 1]."""
        with alone, flint_at(64):
            man, exp = level().mid().man_exp()
        deep = max(0, -int(man).bit_length() - int(exp))
        for precision in (256, 512, 1024, 2048, MAX_BITS):
            with alone, flint_at(deep + precision):
                gap = 2 * self._tail(k, deep + precision) / self.theta(deep + precision) - level()
            if gap > 0 or gap < 0:
                return bool(gap > 0)
        raise DpfastError("a probability cannot be told from a bound")

    def _reach(self, level: Callable[[], Ball]) -> int:
        """The number of k >= 1 with T_k > level, for a level in (0, 1]."""
        with alone, flint_at(64):
            near = ((2 * ball(self.sigma_squared)).sqrt() * level().erfcinv()).mid().floor().unique_fmpz()
        guess = max(0, int(near or 0))
        low, high, step = guess, guess + 1, 1  # seek T_low > level >= T_high, where T_0 counts as above
        while low > 0 and not self._above(low, level):
            low, high, step = max(0, low - step), low, 2 * step
        while self._above(high, level):
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._above(middle, level) else (low, middle)
        return low

    # ------------------------------------------------------------------ figures

    def half_width(self, confidence: Fraction, cells: int) -> int:
        """The least h with P(|X| <= h)^cells >= confidence, for independent cells."""
        return self._reach(lambda: miss(confidence, cells))

    def quantile(self, p: Fraction) -> int:
        """The least k with P(X <= k) >= p."""
        # k >= 0: T_(k+1) / 2 <= 1 - p.  k < 0: T_-k / 2 >= p. An undecidable equality raises.
        lower = p < Fraction(1, 2)
        found = self._reach(lambda: ball(2 * (p if lower else 1 - p)))
        return -found if lower else found

    def upper(self, k: int) -> float:
        """P(X >= k), k >= 1, within one unit in the last place."""
        precision = 256 + 64 * min(22, math.ceil(k * k / (64 * self.sigma_squared)))  # sums are known for one
        return nearest_double(precision, lambda: self._tail(k, precision) / self.theta(precision))

    def variance(self) -> float:
        """E X^2, within one unit in the last place."""
        precision = 256 if self.sigma_squared >= 1 else 1400  # below, it may be the least double

        def moment() -> Ball:
            if self.inversion:
                last = self._last(precision)
                total = sum((k**2 * self._f(k) for k in range(1, last)), within(self._rest(last, 2)))
                return 2 * total / self.theta(precision)
            # With a = 1/(2 sigma^2): theta = sqrt(pi/a) w(a), w = 1 + 2 sum exp(-pi^2 n^2 / a), and
            # E X^2 = -theta'/theta = 1/(2a) - w'/w. The sum in w' is below 3/2 of its first term.
            variance = ball(self.sigma_squared)
            return variance + within(3 * pi() ** 2 * (2 * variance) ** 2 * self._nome())

        return nearest_double(precision, moment)
