# SPDX-License-Identifier: Apache-2.0
"""What randomized response guarantees beyond its epsilon: its rho, and its privacy loss.

A pair is the law of one answer under two truths. Any two of k categories give the same pair. With E
= exp(epsilon) its losses are epsilon, -epsilon and 0, with probabilities E, 1 and k - 2 over E + k
- 1. So for k > 2 it leaks less than an answer of two categories at the same epsilon, the worst of
all. Two coins give two pairs, one for either truth.

The rho of zCDP is the supremum of D/order over orders a > 1, D the Rényi divergence, and over both
pairs [BS16]. With f(a) = ln E exp((a - 1) L), it is that of f(a)/(a (a - 1)) =: R(a), whose limit
at a = 1 is the mean loss. R rises up to some order and falls from there (one of them may be
missing):
- Categories. With x = epsilon (a - 1/2), y = x^2, c = (k - 2) exp(-epsilon/2)/2, f is h(y) = ln(c +
  cosh x) but for a constant. epsilon^2 a (a - 1) is y - y_1, y_1 = epsilon^2/4. So R is the slope
  of a chord of h from y_1 on. h'(y) = sinh x/(2 x (c + cosh x)). Its log has the derivative coth x
  - 1/x - sinh x/(c + cosh x) in x, whose sign is that of c - (sinh 2x - 2x)/(2 (x cosh x - sinh
  x)). The power series of this numerator has the coefficients 4^n/(2n) times those of the
  denominator, at x^(2n + 1). They rise, and so does the quotient [BK55], from 2 to infinity. So h
  is convex, then concave, and chords from y_1 grow steeper up to one that is a tangent. For k <= 6
  and for a large epsilon h is concave from y_1 on, and rho is the mean loss.
- Coins. f'' is the variance of a loss of two values: a constant over cosh(z)^2, z linear in a. It
  takes no value more than twice. So f(a) - m a (a - 1) has at most four zeros, of which 0 and 1 are
  two, and R takes no value more than twice. It is continuous, positive, and 0 far out, so on the
  real line it rises and then falls. Orders below 0 are 1 minus those of the other pair.
D never falls in the order. So from a to b, if R rises at a and falls at b, R <= D(b)/a.

[BS16] Bun, Steinke 2016 · [BK55] Biernacki, Krzyż 1955, on quotients of power series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from dpfast.privacy.exact import Ball, alone, ball, flint_at, rounded_up
from dpfast.privacy.exact.balls import lost
from dpfast.privacy.guarantee import rho_of_epsilon

NARROW = Fraction(1, 2**40)  # a part of an order's distance from 1: so close is rho to the supremum


class Said(NamedTuple):
    """An answer that may be given: its probability under either truth, and the loss."""

    here: Ball
    there: Ball
    loss: Ball


Pair: TypeAlias = Callable[[], Sequence[Said]]  # at flint's precision


def pairs(epsilon: Fraction, categories: int, coin: Fraction | None) -> tuple[Pair, ...]:
    """The pairs of all truths. coin: that of the survey with two coins, else None."""
    if coin is None:
        return (partial(_categories, epsilon, categories),)
    yes, no = coin * (2 - coin), coin * (1 - coin)
    return partial(_yes_or_no, yes, no), partial(_yes_or_no, no, yes)


def _categories(epsilon: Fraction, k: int) -> Sequence[Said]:
    e = ball(epsilon).exp()
    truth, other = e / (e + (k - 1)), 1 / (e + (k - 1))
    rest = (k - 2) * other
    return Said(truth, other, ball(epsilon)), Said(other, truth, -ball(epsilon)), Said(rest, rest, ball(0))


def _yes_or_no(here: Fraction, there: Fraction) -> Sequence[Said]:
    return tuple(Said(ball(p), ball(q), ball(p / q).log()) for p, q in ((here, there), (1 - here, 1 - there)))


@lru_cache(maxsize=64)
def rho(epsilon: Fraction, categories: int, coin: Fraction | None) -> Fraction:
    """The least rho of zCDP, but for 2^-39 of it: a double, rounded up."""
    precision = 256 + sum(map(lost, (epsilon,) * 6 if coin is None else (coin, 1 - coin)))
    most = max(_largest(pair, precision, 1 / epsilon) for pair in pairs(epsilon, categories, coin))
    return min(Fraction(most), rho_of_epsilon(epsilon))


def _largest(pair: Pair, precision: int, far: Fraction) -> float:
    """The supremum of R, rounded up. far: about the order where it is, if it is not near 1.

    precision: so many bits that it is told whether R rises or falls at 1, but for a planted tie.
    """
    with alone, flint_at(precision):
        low, high = _around(pair, far)

    def value() -> Ball:
        if high == 0:
            return _mean(pair())
        whole, _ = _moments(pair(), high)
        return whole.log() / ball(high * (low + 1))

    return rounded_up(value, precision=precision)


def _around(pair: Pair, far: Fraction) -> tuple[Fraction, Fraction]:
    """Orders less 1 between which R is largest: it rises at the first, and falls at the second."""
    said, low, high = pair(), Fraction(0), far
    mean = _mean(said)
    if sum((each.here * each.loss**2 for each in said), ball(0)) - mean**2 < 2 * mean:
        return low, low
    while not _slope(said, high) < 0:
        low, high = high if _slope(said, high) > 0 else low, 2 * high
    while high - low > NARROW * high:
        middle = (low + high) / 2
        slope = _slope(said, middle)
        if slope > 0:
            low = middle
        elif slope < 0:
            high = middle
        else:  # as near as this precision tells
            break
    return low, high


def _mean(said: Sequence[Said]) -> Ball:
    return sum((each.here * each.loss for each in said), ball(0))


def _moments(said: Sequence[Said], over: Fraction) -> tuple[Ball, Ball]:
    """E exp(over L), and its derivative."""
    weights = [each.here * (ball(over) * each.loss).exp() for each in said]
    return sum(weights, ball(0)), sum((w * each.loss for w, each in zip(weights, said, strict=True)), ball(0))


def _slope(said: Sequence[Said], over: Fraction) -> Ball:
    """What has the sign of R' at the order over + 1."""
    whole, derivative = _moments(said, over)
    return derivative / whole * ball(over * (over + 1)) - whole.log() * ball(2 * over + 1)


def losses(pair: Pair) -> list[float]:
    """What one answer may lose, nearly."""
    with alone, flint_at(128):
        return [float(each.loss) for each in pair()]


def delta(pair: Pair, epsilon: Fraction) -> float:
    """The least delta of one pair at an epsilon of either sign, rounded up."""

    def value() -> Ball:
        e = ball(epsilon).exp()
        return sum(((each.here - e * each.there).max(0) for each in pair()), ball(0))

    return min(rounded_up(value), 1.0)
