# SPDX-License-Identifier: Apache-2.0
"""What Laplace noise guarantees beyond its epsilon: the worst change, and the rho of it.

Neighbours move cell i by d_i, |d_i| <= linf, in at most l0 cells, or by an L1 change in all. The
noises are independent. X is symmetric, log-concave noise; power(d, a) is the most that a test of
level a for X can have against X + d.
1. For d > 0 the ratio p(x - d)/p(x) never falls with x, so at each level a threshold, randomised at
   one point, is best, the same one for every d. Moved by d it is a threshold still, of level
   power(d, a) for X + d, and so the best there too: power(d + e, a) = power(e, power(d, a)).
2. Compare (X, Y), (X + d, Y) and (X + d, Y + e). A test of level a for the first has at most
   power(d, a) against the second, and so at most power(e, power(d, a)) against the third. This is
   no more than with d + e in one cell [DRS22]. A cell that moves down is one that moves up,
   reflected; and as power(d, a) >= a, to move by more is worse.
3. By Blackwell's theorem the stronger pair can be turned into the weaker one, so delta at every
   epsilon, the mean loss and the Rényi divergences of all orders are largest where one cell moves
   by the whole L1 change; an integer, by its floor.
4. Discrete Laplace noise moved by 1 is randomised response, and worse at a larger rate. So, by 1,
   noise that is moved by more is worse at a larger rate, too. Among the changes within (l0, linf)
   the worst is Sensitivity.largest: a cell moves by the most that it can (2), two cells of a signed
   substitution that move by linf are no worse than one that moves by 2 linf (2), and a product of
   dominating pairs dominates [ZDW22]. So costs of a cell add up over these cells.
5. Two cells moved by d >= e, by d + e = s in all, are told from none more easily if d is larger.
   For discrete noise, q = exp(-r): at the losses r (s - 2j), weighted by exp(-loss/2), one cell has
   q^(d/2) (cosh(d t) + c coth(t) sinh(d t)), c = tanh(r/2), as its sum of exp(t loss/r). In a
   product of two, (1 - c^2 coth(t)^2) cosh((d - e) t) q^(s/2)/2 is all that depends on d - e. The
   numerator of the factor, sinh(t)^2 - c^2 cosh(t)^2, is (1 - c^2)(sinh(t)^2 - sinh(r/2)^2): it is
   that of the second difference which takes exp(-epsilon/2) delta(epsilon) to the weights. So
   delta(epsilon) rises by c q^(s/2) exp(epsilon/2) from (d, e) to (d + 1, e - 1) at epsilon = r (d
   - e - 2k), 0 <= k <= d - e, and at no other loss; between losses delta is linear in
   exp(epsilon). Other cells average such rises over their own losses. Laplace noise is the limit
   r = 0: the slope in d - e is exp((epsilon - s)/2)/4 for |epsilon| < d - e, with rate 1. So by
   moving from cells that move less to cells that move more, and by 2, any change within (l0, linf,
   l1) comes to as many cells by linf as l1 has room for, and one by the rest; whole numbers, to
   those of the floors. A substitution of contributions >= 0 has such a change up and another down,
   and in fewer than 2 l0 cells each has half of the cells: a further cell of a side is filled with
   no more than the one before, so unequal halves have fewer cells by linf, and no further cell by
   the rest. The cells of a signed one are by 4 those of one support, each up to 2 linf and all up
   to 2 l1. This is Sensitivity.worst.
6. Together, n units move the cells that move most at most n times as far as so many of 5 do, for
   any number of them. Then 5 has it that none are worse than the cells of 5, n times as far.

The rho of a cell is the mean of its loss L [HM26]. A short proof for discrete noise moved by
Delta, with rate r, epsilon = r Delta, q = exp(-r), t = order - 1/2, z = exp(2 r t): E exp((order -
1) L) is exp(-r Delta t), times a constant, times 1 + z + ... + z^Delta + (q/(1 - q)) (1 +
z^Delta). That times (1 - q)(z - 1) is z^Delta (z - q) - (1 - q z), and |z - q| is less than |1 - q
z| inside the unit circle and more outside: all zeros lie on it, none at 1. So in s = t^2, where it
is entire and of order 1/2, the expectation has negative zeros alone, is a product of factors 1 +
s/s_k, and its log is concave for s >= 0: at most the tangent at order 1, (s - 1/4) E[L] = order
(order - 1) E[L]. Summed up, E[L] = epsilon - (1 - exp(-epsilon)) r/sinh(r). Laplace noise is the
limit r = 0 at the same epsilon.

[DRS22] Dong, Roth, Su 2022, Theorem 2.14 · [HM26] Harrison, Manurangsi 2026, arXiv 2510.25746 ·
[ZDW22] Zhu, Dong, Wang 2022, Theorem 10.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpfast.privacy.exact import Ball, ball, rounded_up
from dpfast.privacy.sensitivity import Cells, Sensitivity

STEEP = 1000  # a rate from which r/sinh(r) is below 2^-1400, and is taken as 0: more loss, by nothing that shows


def worst_change(change: Sensitivity | None, l1: Fraction, *, integers: bool) -> tuple[Cells, ...]:
    """The change that is told from none most easily: of one cell, if L1 alone is known."""
    return (change and change.worst_change(integers=integers)) or (Cells(1, l1),)


@lru_cache(maxsize=64)
def rho(rate: Fraction, worst: tuple[Cells, ...], *, integers: bool) -> Fraction:
    """The least rho of zCDP, and the mean loss: a double, rounded up.

    rate: of the noise, one over its scale. worst: how many cells move how far; integers by a floor.
    """
    losses = [(cells, rate * (math.floor(cells.linf) if integers else cells.linf)) for cells in worst]
    slope = rate if integers else None
    moved = [(cells, most) for cells, most in losses if most]
    if not moved:
        return Fraction(0)

    def value() -> Ball:
        means = [cells.l0 * _mean_loss(most, slope) for cells, most in moved]
        return sum(means[1:], means[0])

    return Fraction(rounded_up(value))


def _mean_loss(epsilon: Fraction, rate: Fraction | None) -> Ball:
    """That of one cell. rate: of discrete noise."""
    if rate is not None and rate > STEEP:
        return ball(epsilon)
    slope = 1 if rate is None else ball(rate) / ball(rate).sinh()
    return ball(epsilon) + ball(-epsilon).expm1() * slope
