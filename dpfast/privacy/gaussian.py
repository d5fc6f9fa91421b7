# SPDX-License-Identifier: Apache-2.0
"""What Gaussian noise guarantees: zCDP, discrete noise on integer cells, real noise, calibration.

Every figure is a double that is not below the true one: an interval (a ball of Arb) encloses the
true figure, and its upper end is rounded up. sigma_squared is the parameter of the noise; epsilon,
l2_squared and sigma_squared are exact rationals > 0.

[BS16] Bun, Steinke 2016 · [BW18] Balle, Wang 2018 · [CKS20] Canonne, Kamath, Steinke 2020.

Discrete noise on integer cells, and why (l0, linf) or l1 is enough. Neighbours move cell i by an
integer d_i, |d_i| <= linf, in at most l0 cells, and the noises X_i are independent.
1. One cell. p(x - d)/p(x) grows with x for every d > 0. So by Neyman, Pearson the best test of X
   against X + d at any level is a threshold. The threshold does not depend on d > 0, and it finds X
   + d more often if d is larger. So X and X + d are told apart at least as well as X and X + d' for
   0 <= d' <= d, and by symmetry for -d'.
2. All cells. By Blackwell's theorem, 1 says that a randomised map takes (X, X + d) to (X, X + d').
   Apply such maps cell by cell, and data processing: no change has a larger delta than linf in each
   of l0 cells.
3. Fewer cells, moved further. Let power(d, a) be the most that a test of level a for X has against
   X + d. The best test is one threshold for all d > 0 (1), so power(d + e, a) = power(e, power(d,
   a)). Compare (X, Y), (X + d, Y) and (X + d, Y + e). A test of level a for the first has at most
   power(d, a) against the second, and so at most power(e, power(d, a)) against the third. So one
   cell moved by d + e is worse than two moved by d and e; by symmetry for -d and -e, too. A signed
   substitution moves cells of both supports by 2 linf, others by linf; these pair up: the worst
   changes are those of one support. If l1 alone is bounded, the worst change is one cell moved by
   l1. A substitution of contributions >= 0 moves cells up by l1 in all and others down by l1 in
   all: two cells moved by l1. If there are fewer cells than 2 l0, all of them move by linf, or the
   only one does. These changes are Sensitivity.largest.
   Where l1 is between linf and l0 linf, join cells while both move by linf or less in all (so do
   those that move up and down: by symmetry a cell moves by |d|). In the end any two move by more
   than linf. With h = floor(linf/2) + 1 all cells move by h or more, but for one, which moves by e
   < h; then all others move by linf + 1 - e or more. So at most l1/h cells are left, or for even
   linf (l1 + 1)/h. This is exact for linf = 1, and for linf = 2 with even l1.
4. The likelihood ratio of n cells moved by d each depends on S = sum X_i alone. L(s) = (n d^2 + 2 d
   s)/(2 sigma^2) is the loss at S = s, and P(S = s) exp(-L(s)) = P(S = s + nd). So delta = E[(1 -
   exp(epsilon - L(S)))_+] = P(S > t) - exp(epsilon) P(S > t + nd), t = epsilon sigma^2/d - nd/2;
   for n = 1 this is Theorem 7 of [CKS20].

The distribution of S. For r = s mod n and sum x_i = s, |x|^2 = s^2/n + |y|^2, where y runs through
one coset of A_(n-1), the integer vectors of sum 0. The coset depends on r alone. So P(S = s) = c_r
exp(-s^2/(2 n sigma^2)): n numbers determine it, tails included.
- sigma < 3: c_r = P(S = r mod n) / sum over s = r mod n of exp(-s^2/(2 n sigma^2)), by a power
  modulo x^n - 1.
- sigma >= 3: by Poisson summation c_r is in C [1 - eta, 1 + eta], eta = sum of exp(-2 pi^2 sigma^2
|w|^2) over w != 0 of the dual lattice: z in Z^n modulo (1, ..., 1), with |w|^2 = sum over i < j of
(z_i - z_j)^2 / n. Take z of median 0: each z_i > 0 meets n/2 or more z_j <= 0, each z_j < 0 as many
z_i >= 0, and there (z_i - z_j)^2 >= z_i^2 + z_j^2. So |w|^2 >= |z|^2/2 and eta <= (sum over k in Z
of exp(-pi^2 sigma^2 k^2))^n - 1, near 2^-127 n: intervals enclose it as such. S is subgaussian, P(S
>= b) <= exp(-b^2/(2 n sigma^2)): E[exp(a X)] exp(-a^2 sigma^2/2) is the sum of the bell moved by a
sigma^2 over the sum of the bell. It is at most 1 because Poisson's terms are positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial

from dpfast.errors import ParameterError
from dpfast.privacy.exact import Ball, ball, rounded_up
from dpfast.privacy.exact.balls import erfc, pi, within
from dpfast.privacy.parameters import shown
from dpfast.privacy.sensitivity import Sensitivity, root_above

LEAST_DELTA = Fraction(1, 2**1022)  # the least normal double: a smaller target could not be told from what is found
MOST_CELLS = 512  # in an exact sum below SMOOTH, which takes 0.03 to 0.25 s
MANY_CELLS = 10**6  # below SMOOTH, but from NEARLY_SMOOTH on: eta < 2^-35
SMOOTH, NEARLY_SMOOTH = 9, 4  # sigma^2 from which the c_r are as good as equal: eta near 2^-127 n, 2^-56 n
LONG = 64**2  # variance from which tails are summed by Euler, Maclaurin
MU_DIGITS = 20  # a budget in mu^2 has so many that next to no sigma that keeps a delta is beyond it
_TINY = math.ulp(0.0)
_NOTHING = 746  # exp(-746) < 2^-1075


def _probability(value: Callable[[], Ball]) -> float:
    """A double between a positive value and 1, at a precision that makes it close."""
    return max(min(rounded_up(value), 1.0), _TINY)


# ------------------------------------------------------------------ zCDP


def rho(l2_squared: Fraction, sigma_squared: Fraction) -> Fraction:
    """The rho of zCDP for real and discrete Gaussian noise on vectors.

    Source: [BS16] Proposition 1.6, [CKS20] Theorem 4.
    """
    return l2_squared / (2 * sigma_squared)


def delta_of_zcdp(rho: Fraction, epsilon: Fraction) -> float:
    """The delta at which rho-zCDP is (epsilon, delta)-DP: [CKS20] Corollary 13, at one order alpha.

    Any alpha > 1 bounds: u = exp(epsilon - l) has (1 - u) u^(alpha - 1) <= (1 - 1/alpha)^(alpha -
    1)/alpha, so E[(1 - exp(epsilon - L))_+] <= exp((alpha - 1)(alpha rho - epsilon)) (1 -
    1/alpha)^(alpha - 1)/alpha.
    """
    over = _best_order(rho, epsilon)  # alpha - 1

    def value() -> Ball:
        log = ball(over * ((over + 1) * rho - epsilon)) - ball(over + 1).log()
        return (log + ball(over) * (ball(over) / ball(over + 1)).log()).exp()

    return _probability(value)


@lru_cache(16)  # every spend that is tried, and every tree, asks for one again
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, up to epsilon, in nine digits whose zCDP implies (epsilon, delta)-DP.

    Nine digits, so that the rounding of doubles gives no other rho elsewhere.
    Raises: ParameterError (no such double).
    """

    def enough(rho: Fraction) -> bool:
        return Fraction(delta_of_zcdp(rho, epsilon)) <= delta

    # delta of rho = epsilon is near 1/2, and more than most deltas
    if delta >= _TINY and (found := _largest(enough, epsilon, 9)):
        return found
    raise ParameterError(f"no rho implies such an epsilon and delta, got epsilon={shown(epsilon)}")


def _largest(enough: Callable[[Fraction], bool], high: Fraction, digits: int) -> Fraction:
    """The largest number below `high` in so many digits that is enough; 0 if none is found."""
    low = Fraction(0)
    for _ in range(4096):
        middle = in_digits(high / 2 if low == 0 else (low + high) / 2, digits)
        if middle <= low or middle == 0:
            break
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def nine_digits(value: Fraction) -> Fraction:
    """The value rounded down."""
    return in_digits(value, 9)


def in_digits(value: Fraction, digits: int, rounding: str = ROUND_FLOOR) -> Fraction:
    return Fraction(Context(prec=digits, rounding=rounding).divide(Decimal(value.numerator), value.denominator))


def _best_order(rho: Fraction, epsilon: Fraction) -> Fraction:
    """About the alpha - 1 where (2 alpha - 1) rho - epsilon + ln(1 - 1/alpha), the slope, is 0."""
    r, e = near(rho), near(epsilon)
    low, high = -690.0, 690.0  # bounds on ln(alpha - 1)
    for _ in range(80):
        middle = (low + high) / 2
        over = math.exp(middle)
        if (2 * over + 1) * r - e - math.log1p(1 / over) < 0:
            low = middle
        else:
            high = middle
    return Fraction(math.exp(low))


def near(value: Fraction) -> float:
    """A double near the value, within a range in which products stay finite."""
    return float(max(Fraction(1, 2**900), min(value, Fraction(2**900))))


def least_epsilon(delta_of: Callable[[Fraction], float | Fraction], rho: Fraction, delta: Fraction) -> Fraction | None:
    """The least epsilon found, a double, with delta_of(epsilon) <= delta; None if there is none.

    delta_of: a bound for noise that is rho-zCDP, no larger than that of zCDP. It falls with
        epsilon, and proves what is returned.
    """
    if rho == 0:
        return rho
    about, log = near(rho), math.log(delta.denominator) - math.log(delta.numerator)
    low, high = 0.0, (about + 2 * math.sqrt(about * log)) * (1 + 2.0**-40)  # [BS16] has it, but for rounding
    if not delta_of(Fraction(high)) <= delta:
        return None
    if delta_of(Fraction(low)) <= delta:
        high = low
    while high - low > high * 2.0**-40:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(Fraction(middle)) <= delta else (middle, high)
    return Fraction(high)


# ------------------------------------------------------------------ the real law


def gaussian_delta(epsilon: Fraction, l2_squared: Fraction, sigma_squared: Fraction) -> float:
    """The least delta of real Gaussian noise on vectors: [BW18] Theorem 8.

    It is Phi(m/2 - epsilon/m) - exp(epsilon) Phi(-m/2 - epsilon/m), m = l2/sigma.
    """
    m_squared = l2_squared / sigma_squared
    above = m_squared / 2 - epsilon  # m times the first argument
    if above**2 >= 2 * _NOTHING * m_squared:  # Phi(-x) < exp(-x^2/2)
        return _TINY if above < 0 else 1.0

    def value() -> Ball:
        m = ball(m_squared).sqrt()
        root = (2 * m**2).sqrt()
        first = erfc(-ball(above) / root) / 2
        return first - ball(epsilon).exp() * erfc(ball(m_squared / 2 + epsilon) / root) / 2

    return _probability(value)


@lru_cache(16)
def mu_squared_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu^2, in MU_DIGITS, for which mu-GDP implies (epsilon, delta)-DP.

    mu-GDP has the curve of real Gaussian noise with l2/sigma = mu. Source: Dong, Roth, Su 2022,
    Corollary 2.13. Raises: ParameterError (no such mu is found).
    """
    enough, high = partial(_mu_is_enough, epsilon, delta), epsilon
    while enough(high):
        high *= 2
    if delta >= _TINY and (found := _largest(enough, high, MU_DIGITS)):
        return found
    raise ParameterError(f"no mu implies such an epsilon and delta, got epsilon={shown(epsilon)}")


def within_mu_squared_of(epsilon: Fraction, delta: Fraction, l2_squared: Fraction, sigma: Fraction) -> Fraction:
    """A sigma that is (epsilon, delta)-DP, or the next whose mu^2 is at most mu_squared_of these.

    A number of MU_DIGITS that is not below the sigma's own mu^2, and is enough, is at most the
    largest one that is. If there is none, the next number below is.
    """
    mu_squared = l2_squared / sigma**2
    if _mu_is_enough(epsilon, delta, in_digits(mu_squared, MU_DIGITS, ROUND_CEILING)):
        return sigma
    return Fraction(root_above(l2_squared / in_digits(mu_squared, MU_DIGITS)))


def _mu_is_enough(epsilon: Fraction, delta: Fraction, mu_squared: Fraction) -> bool:
    return Fraction(gaussian_delta(epsilon, mu_squared, Fraction(1))) <= delta


# ------------------------------------------------------------------ the discrete law


def discrete_delta_of(epsilon: Fraction, sensitivity: Sensitivity, sigma_squared: Fraction) -> float:
    """The delta of discrete Gaussian noise: from (l0, linf) if known, else from the norm.

    With an l1 between them it is the lesser of what the norm gives, and cells that are no better.
    """
    if sensitivity.largest is not None:
        return discrete_delta(epsilon, *sensitivity.largest, sigma_squared)
    found = discrete_delta_l2(epsilon, sensitivity.l2_squared, sigma_squared)
    if sensitivity.l0 is None or sensitivity.linf is None or sensitivity.l1 is None or sensitivity.linf < 1:
        return found
    linf, l1 = math.floor(sensitivity.linf), math.floor(sensitivity.l1)
    cells = joined(sensitivity.l0, linf, l1)
    if cells * linf**2 >= 2 * sensitivity.l2_squared:  # far more cells than the norm has: no less
        return found
    return min(found, discrete_delta(epsilon, cells, linf, sigma_squared))


def joined(l0: int, linf: int, l1: int) -> int:
    """How many integer cells, moved by linf each, are no better than l0 cells, by l1 in all."""
    return min(l0, max(1, (l1 + (linf % 2 == 0)) // (linf // 2 + 1)))


def discrete_delta_l2(epsilon: Fraction, l2_squared: Fraction, sigma_squared: Fraction) -> float:
    """A bound on delta from a norm alone, by zCDP: Theorem 7 of [CKS20] does not hold for norms."""
    return delta_of_zcdp(rho(l2_squared, sigma_squared), epsilon)


def is_exact(l0: int, sigma_squared: Fraction) -> bool:
    """Whether discrete_delta gives the least delta, not a bound through zCDP.

    It does for l0 <= 512, for sigma >= 2 with l0 <= 10^6, and for sigma >= 3.
    """
    return l0 <= MOST_CELLS or sigma_squared >= SMOOTH or (sigma_squared >= NEARLY_SMOOTH and l0 <= MANY_CELLS)


def discrete_delta(epsilon: Fraction, l0: int, linf: int | Fraction, sigma_squared: Fraction) -> float:
    """The least delta if neighbours move at most l0 integer cells, each by at most linf.

    For one cell it is [CKS20] Theorem 7.

    linf: integers move by integers, so its floor counts. A floor of 0 is refused, because nothing
        could move.
    """
    change = math.floor(linf)
    if change < 1:
        raise ParameterError(f"linf must be at least 1 for integer cells, got {shown(linf)}")
    if not is_exact(l0, sigma_squared):
        return discrete_delta_l2(epsilon, Fraction(l0 * change**2), sigma_squared)
    threshold = epsilon * sigma_squared / change - Fraction(l0 * change, 2)
    variance = l0 * sigma_squared
    if threshold > 0 and threshold**2 >= 2 * _NOTHING * variance:  # S is subgaussian
        return _TINY
    first = math.floor(threshold) + 1

    def value() -> Ball:
        density = _density(l0, sigma_squared)
        if variance >= LONG and len(density) == 1:
            second = ball(epsilon).exp() * density[0] * _tail(first + l0 * change, variance)
            return density[0] * _tail(first, variance) - second
        return _sum(epsilon, l0, change, sigma_squared, first, density)

    return _probability(value)


def _sum(epsilon: Fraction, l0: int, change: int, sigma_squared: Fraction, first: int, density: list[Ball]) -> Ball:
    """The sum over s >= first of P(S = s) (1 - exp(epsilon - L(s))), from the _density of S."""
    from flint import arb, ctx

    variance = l0 * sigma_squared
    reach = math.isqrt(math.ceil(2 * variance * ctx.prec)) + 1
    s = max(first, -reach)
    total = arb(0) if s == first else _upto(ball(-(s**2) / (2 * variance)).exp())  # subgaussian again
    bell, fall = ball(-(s**2) / (2 * variance)).exp(), ball(-(2 * s + 1) / (2 * variance)).exp()
    curve = ball(-1 / variance).exp()
    excess = ball(epsilon - (l0 * change**2 + 2 * change * s) / (2 * sigma_squared)).exp()
    decay = ball(-change / sigma_squared).exp()
    period = len(density)
    stride = period * -(-32 // period)
    while True:
        start, mass = s, arb(0)
        for s in range(start, start + stride):
            weight = density[s % period] * bell
            mass += weight
            total += weight * (1 - excess)
            bell *= fall
            fall *= curve
            excess *= decay
        s += 1
        if start < 0:
            continue
        # P(s + stride) = P(s) exp(-stride (2 s + stride)/(2 variance))
        ratio = ball(Fraction(-stride * (2 * start + stride)) / (2 * variance)).exp()
        rest = mass * ratio / (1 - ratio)
        if not rest > total * arb(2) ** -ctx.prec:
            return total + _upto(rest)


def _upto(value: Ball) -> Ball:
    """An interval that encloses [0, value]."""
    from flint import arb

    half = value.upper() / 2
    return arb(half, half.upper())


def _theta(rate: Ball) -> Ball:
    """The sum over k in Z of exp(-rate k^2), rate >= 1."""
    from flint import arb, ctx

    total, k = arb(1), 0
    while True:
        k += 1
        term = (-rate * k**2).exp()
        if term < arb(2) ** (-ctx.prec - 8):
            return total + _upto(2 * term / (1 - (-rate).exp()))
        total += 2 * term


def _normaliser(variance: Fraction) -> Ball:
    """The sum over k in Z of exp(-k^2/(2 variance)); from 1/3 on by Poisson summation."""
    if variance < Fraction(1, 3):
        return _theta(ball(1 / (2 * variance)))
    around = 2 * ball(variance) * pi()
    return around.sqrt() * _theta(around * pi())


def _density(l0: int, sigma_squared: Fraction) -> list[Ball]:
    """The c with P(S = s) = c[s % len(c)] exp(-s^2/(2 l0 sigma^2)): one interval, or l0."""
    if l0 > 1 and sigma_squared < (SMOOTH if l0 <= MOST_CELLS else NEARLY_SMOOTH):
        return _cosets(l0, sigma_squared)
    flat = 1 / _normaliser(l0 * sigma_squared)
    if l0 > 1:
        eta = (l0 * _theta(ball(sigma_squared) * pi() ** 2).log()).expm1().upper()
        flat = flat * (1 + within(eta)) / (1 + within(eta))
    return [flat]


def _cosets(l0: int, sigma_squared: Fraction) -> list[Ball]:
    from flint import arb, arb_poly, ctx

    # P(S = r mod l0) is about exp(-l0/(4 sigma^2)) or more; the part that is cut off must be less.
    most = math.isqrt(math.ceil(Fraction(l0, 2) + 2 * sigma_squared * (ctx.prec + l0.bit_length()))) + 2
    one = [arb(0)] * l0
    bells = [ball(-(k**2) / (2 * sigma_squared)).exp() for k in range(most + 2)]
    norm = _normaliser(sigma_squared)
    for k in range(-most, most + 1):
        one[k % l0] += bells[abs(k)] / norm
    cut = _upto(2 * l0 * bells[most + 1] / norm / (1 - bells[1]))

    def times(a: list[Ball], b: list[Ball]) -> list[Ball]:
        product = (arb_poly(a) * arb_poly(b)).coeffs()
        product += [arb(0)] * (2 * l0 - len(product))
        return [product[r] + product[r + l0] for r in range(l0)]

    power = one
    for bit in f"{l0:b}"[1:]:
        power = times(power, power)
        if bit == "1":
            power = times(power, one)
    variance = l0 * sigma_squared
    turns = math.isqrt(math.ceil(2 * sigma_squared * ctx.prec / l0)) + 1
    # Beyond these turns |s| >= (turns + 1/2) l0, and each further turn has a factor
    # exp(-l0/sigma^2) or less.
    beyond = ball(-((turns + Fraction(1, 2)) ** 2) * l0 / (2 * sigma_squared)).exp()
    rest = _upto(2 * beyond / (1 - ball(-l0 / sigma_squared).exp()))
    found = []
    for r in range(l0 // 2 + 1):
        bell = rest
        for s in range(r - turns * l0, r + turns * l0 + 1, l0):
            bell += ball(-(s**2) / (2 * variance)).exp()
        found.append((power[r] + cut) / bell)
    return found + [found[l0 - r] for r in range(l0 // 2 + 1, l0)]


def _tail(first: int, variance: Fraction) -> Ball:
    """The sum over k >= first of exp(-k^2/(2 variance)), variance >= 64^2.

    Euler, Maclaurin with p terms: the remainder is at most |B_2p|/(2p)! times the integral of
    |f^(2p)|, where f^(m)(tau y) = (-1/tau)^m He_m(y) exp(-y^2/2). He_m has no zero from sqrt(4m +
    2) on (Szegő, Orthogonal Polynomials, 6.31), so there the integral is |f^(2p-1)|; elsewhere
    |He_m(y)| < 1.09 sqrt(m!) exp(y^2/4) (Cramér).
    """
    from flint import arb, ctx, fmpq

    if first < 0:
        return _normaliser(variance) - _tail(1 - first, variance)
    if first >= variance:
        return _steep(first, variance)
    tau = ball(variance).sqrt()
    z = first / tau
    bell = ball(Fraction(-(first**2)) / (2 * variance)).exp()
    total = tau * (arb.pi() / 2).sqrt() * erfc(z / arb(2).sqrt()) + bell / 2
    enough = total * arb(2) ** -ctx.prec
    odd, even = z, z**2 - 1  # He_(2p-1), He_2p
    scale = 1 / tau  # tau^(1-2p)
    broad = arb(109) / 100 * arb.pi().sqrt() * ball(Fraction(-(first**2)) / (4 * variance)).exp()
    p = 1
    while True:
        bernoulli = arb(fmpq.bernoulli(2 * p)) / arb.fac_ui(2 * p)
        total += bernoulli * scale * odd * bell
        simple = first**2 >= (8 * p + 2) * variance
        integral = odd * bell if simple else broad * arb.fac_ui(2 * p).sqrt()
        rest = (abs(bernoulli) * scale * integral).upper()
        if rest < enough or p > ctx.prec:
            return total + arb(0, rest)
        odd = z * even - 2 * p * odd
        even = z * odd - (2 * p + 1) * even
        scale /= ball(variance)
        p += 1


def _steep(first: int, variance: Fraction) -> Ball:
    """The sum of _tail for first >= variance: each term is below exp(-1) of the one before."""
    from flint import arb, ctx

    bell, fall = ball(Fraction(-(first**2)) / (2 * variance)).exp(), ball(-(2 * first + 1) / (2 * variance)).exp()
    curve = ball(-1 / variance).exp()
    total = arb(0)
    for _ in range(ctx.prec):
        total += bell
        bell *= fall
        fall *= curve
    return total + _upto(2 * bell)


# ------------------------------------------------------------------ calibration


MOST_ROOT = 2.0**256  # root of the largest step: neither a step nor a quotient of two sigmas overflows


def calibrate(
    delta_of: Callable[[Fraction], float], delta: Fraction, start: float = 1.0, least: float = 1e-3, most: float = 1e9
) -> Fraction:
    """A double sigma, at least `least`, with delta_of(sigma^2) <= delta.

    Unless sigma is `least`, delta_of > delta at a sigma smaller by 1e-11 (relative).
    delta_of: one of the functions above, called with sigma_squared. It proves what is returned. It
        falls with sigma, except for the steps of the discrete noise, near which a smaller sigma
        elsewhere might also suffice.
    Raises: ParameterError: `most` is not enough, or delta is below 2^-1022.
    """
    if not LEAST_DELTA <= delta < 1:
        raise ParameterError(f"delta must be at least 2**-1022 and below 1, got {shown(delta)}")
    goal = math.log(float(delta))

    def height(sigma: float) -> tuple[float, bool]:
        found = delta_of(Fraction(sigma) ** 2)
        return math.log(found) - goal, Fraction(found) <= delta

    high = min(max(start, least), most)
    above, enough = height(high)
    low, below, step = high, above, 2.0
    while enough and high > least:  # down until sigma is too small
        low = max(high / step, least)
        below, still = height(low)
        if not still:
            break
        high, above, step = low, below, min(step, MOST_ROOT) ** 2
    while not enough:
        if high >= most:
            raise ParameterError(f"no sigma up to {most:g} reaches delta, got {shown(delta)}")
        low, below = high, above
        high, step = min(high * step, most), min(step, MOST_ROOT) ** 2
        above, enough = height(high)
    if high <= least:
        return Fraction(high)
    return Fraction(_between(height, low, below, high, above))


def _between(
    height: Callable[[float], tuple[float, bool]], low: float, below: float, high: float, above: float
) -> float:
    """Anderson and Björck's secant in ln sigma, with bisection if it is slow. `high` suffices."""
    side = 0
    while high > low * (1 + 2.0**-37):
        width = math.log(high / low)
        part = below / (below - above) if below > above else 0.5
        part = min(max(part, 2.0**-38 / width), 1 - 2.0**-38 / width)
        middle = low * math.exp(part * width)
        if not low < middle < high:
            middle = (low + high) / 2
        found, enough = height(middle)
        if enough:
            if side > 0:
                below *= _shrink(found, above)
            high, above, side = middle, found, 1
        else:
            if side < 0:
                above *= _shrink(found, below)
            low, below, side = middle, found, -1
        if math.log(high / low) > width / 2 and high / low > 1 + 2.0**-36:
            middle = math.sqrt(low) * math.sqrt(high)  # low * high might underflow
            found, enough = height(middle)
            if enough:
                high, above, side = middle, found, 0
            else:
                low, below, side = middle, found, 0
    return high


def _shrink(found: float, before: float) -> float:
    part = 1 - found / before if before else 0.5
    return part if part > 0 else 0.5
