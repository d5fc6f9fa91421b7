# SPDX-License-Identifier: Apache-2.0
"""For dp-accounting: one release as a DpEvent, and as a privacy loss distribution.

Both are those of the worst neighbours.

Where their kind of number cannot hold a parameter, it is rounded to the side of more privacy loss.

One cell is the worst. X is symmetric, log-concave noise; power(d, a) is the most that a test of
level a for X can have against X + d.
1. For d > 0 the ratio p(x - d)/p(x) never falls with x, so at each level a threshold, randomised at
   one point, is best, the same one for every d. Moved by d it is a threshold still, of level
   power(d, a) for X + d, and so the best there too: power(d + e, a) = power(e, power(d, a)).
2. Of (X, Y), (X + d, Y), (X + d, Y + e), a test of level a for the first has at most power(d, a)
   against the second, and so at most power(e, power(d, a)) against the third: no more than with d +
   e in one cell [DRS22]. A cell that moves down is one that moves up, reflected; and as power(d, a)
   >= a, to move by more is worse.
3. By Blackwell's theorem the stronger pair can be turned into the weaker one, so delta at every
   epsilon and the Rényi divergences of all orders are largest where one cell moves by the whole L1
   change; an integer, by its floor.
4. Discrete Laplace noise moved by 1 is randomised response, and worse at a larger rate. So, by 1,
   noise that is moved by more is worse at a larger rate, too. Among the changes within (l0, linf)
   the worst is Sensitivity.largest: a cell moves by the most that it can (2), two cells of a signed
   substitution that move by linf are no worse than one that moves by 2 linf (2), and a product of
   dominating pairs dominates [ZDW22].

The rho of discrete Laplace noise is the mean of its loss L [HM26]. A short proof, with rate r =
epsilon/Delta, q = exp(-r), t = order - 1/2, z = exp(2 r t): E exp((order - 1) L) is exp(-r Delta
t), times a constant, times 1 + z + ... + z^Delta + (q/(1 - q)) (1 + z^Delta). That times (1 - q)(z
- 1) is z^Delta (z - q) - (1 - q z), and |z - q| is less than |1 - q z| inside the unit circle and
more outside: all zeros lie on it, none at 1. So in s = t^2, where it is entire and of order 1/2,
the expectation has negative zeros alone, is a product of factors 1 + s/s_k, and its log is concave
for s >= 0: at most the tangent at order 1, (s - 1/4) E[L] = order (order - 1) E[L]. Summed up, E[L]
= epsilon - (1 - exp(-epsilon)) r/sinh(r). Laplace noise is the limit r = 0 at the same epsilon.

[DRS22] Dong, Roth, Su 2022, Theorem 2.14 · [HM26] Harrison, Manurangsi 2026, arXiv 2510.25746 ·
[ZDW22] Zhu, Dong, Wang 2022, Theorem 10.
"""

from __future__ import annotations

import math
import sys
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from dpfast import DiscreteGaussian, DiscreteLaplace, DTypeError, Gaussian, Laplace, ParameterError, Sensitivity
from dpfast.adapters import library, rounded_down, rounded_up

_accounting = library("dp_accounting", "accounting", "0.6", package="dp-accounting")

MAX = Fraction(sys.float_info.max)
MOST_POINTS = 2**22  # points of a privacy loss distribution, and integers behind it: a few seconds
MOST_LOSS = 512  # beyond it nothing is private, and exp() overflows before long


def dp_event(mechanism: object, sensitivity: Sensitivity | None = None, *, zcdp: bool = False) -> Any:
    """One release as a DpEvent; Mechanism.dp_event says more."""
    if isinstance(mechanism, (Gaussian, DiscreteGaussian)):
        if isinstance(mechanism, DiscreteGaussian) or zcdp:
            return _accounting.ZCDpEvent(rounded_up(mechanism.rho(sensitivity)))
        return _accounting.GaussianDpEvent(_noise_multiplier(mechanism, sensitivity))
    own = _pure(mechanism, sensitivity)
    if isinstance(own, Laplace):
        if zcdp:
            return _accounting.ZCDpEvent(_rho(own.epsilon, None))
        return _accounting.LaplaceDpEvent(_below(1 / own.epsilon))
    rate, change = own.epsilon / own.sensitivity, _integer(own.sensitivity, "sensitivity")
    if zcdp:
        return _accounting.ZCDpEvent(_rho(rate * change, rate))
    return _accounting.dp_event.DiscreteLaplaceDpEvent(rounded_up(rate), change)


def privacy_loss_distribution(
    mechanism: object, sensitivity: Sensitivity | None = None, *, value_discretization_interval: float = 1e-4
) -> Any:
    """One release as a PrivacyLossDistribution; Mechanism.privacy_loss_distribution says more."""
    make: Any = _accounting.pld.privacy_loss_distribution
    options: dict[str, Any] = {
        "value_discretization_interval": value_discretization_interval,
        "use_connect_dots": True,
        "pessimistic_estimate": True,
    }
    if isinstance(mechanism, DiscreteGaussian):
        return _discrete_gaussian(mechanism, sensitivity, make, options)
    if isinstance(mechanism, Gaussian):
        multiplier = min(_noise_multiplier(mechanism, sensitivity), 2.0**60)  # its square must not overflow
        _check_size((10 + 0.5 / multiplier) / multiplier if multiplier else math.inf, 0, value_discretization_interval)
        return make.from_gaussian_mechanism(multiplier, **options)
    own = _pure(mechanism, sensitivity)
    if isinstance(own, Laplace):
        _check_size(own.epsilon, 0, value_discretization_interval)
        return make.from_laplace_mechanism(_below(1 / own.epsilon), **options)
    rate, change = own.epsilon / own.sensitivity, _integer(own.sensitivity, "sensitivity")
    _check_size(rate * change, change, value_discretization_interval)
    return make.from_discrete_laplace_mechanism(rounded_up(rate), change, **options)


def _discrete_gaussian(
    mechanism: DiscreteGaussian, sensitivity: Sensitivity | None, make: Any, options: dict[str, Any]
) -> Any:
    mechanism.rho(sensitivity)  # raises where none is known
    known: Any = mechanism.sensitivity if sensitivity is None else sensitivity
    if known.largest is None:
        raise ParameterError(
            "sensitivity must be known as (l0, linf), or as l1 alone, for the losses of discrete Gaussian noise, and this one "
            "is not: dp_event() has its zCDP"
        )
    cells, change = known.largest.l0, _integer(known.largest.linf, "linf")
    sigma = _root_below(mechanism.sigma_squared)
    cut = max(math.ceil(11.6 * sigma), change)  # theirs, with mass 1e-30 beyond; but not below the change
    loss = change * (cut - Fraction(change, 2)) / mechanism.sigma_squared
    _check_size(loss, 2 * cut, options["value_discretization_interval"])
    cell = make.from_discrete_gaussian_mechanism(sigma, change, truncation_bound=cut, **options)
    return cell if cells == 1 else cell.self_compose(cells)


def _pure(mechanism: object, sensitivity: object) -> Laplace | DiscreteLaplace:
    if not isinstance(mechanism, (Laplace, DiscreteLaplace)):
        raise DTypeError(
            f"{type(mechanism).__name__} is not a mechanism that releases values with noise, so it has no event"
        )
    if sensitivity is not None:
        raise ParameterError(f"sensitivity must be left out: a {type(mechanism).__name__} has its own")
    return mechanism


def _check_size(loss: Fraction | float, integers: int, interval: float) -> None:
    if not 0 < interval <= MOST_LOSS:
        raise ParameterError(
            f"value_discretization_interval must be positive and at most {MOST_LOSS}, got {interval!r:.40}"
        )
    most = min(MOST_LOSS, MOST_POINTS * interval)
    if loss > most:
        raise ParameterError(
            f"the largest privacy loss must be at most {most:.6g} for value_discretization_interval={interval!r:.40}, got "
            f"{float(min(loss, MAX)):.6g}: dp_event() has no such limit"
        )
    if integers > MOST_POINTS:
        raise ParameterError(
            f"the losses must be those of at most {MOST_POINTS} integers, got {integers}: dp_event() has no such limit"
        )


def _integer(change: Fraction, name: str) -> int:
    """Integers move by integers, so the floor counts."""
    if change < 1:
        raise ParameterError(f"{name} must be at least 1 for integer cells, got {float(change):.6g}")
    return math.floor(change)


def _noise_multiplier(mechanism: Gaussian, sensitivity: Sensitivity | None) -> float:
    return _root_below(1 / (2 * mechanism.rho(sensitivity)))  # rho = l2_squared/(2 sigma^2)


def _rho(epsilon: Fraction, rate: Fraction | None) -> float:
    """The rho above, rounded up; without a rate, its limit at 0."""
    least = epsilon if rate is None else min(epsilon, rate)
    digits = 60 + 4 * len(str(1 / least // 1))  # rho is near epsilon^2/2, so that many cancel
    with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        spent, ratio = Decimal(epsilon.numerator) / epsilon.denominator, Decimal(1)
        if rate is not None and rate < 1000:
            r = Decimal(rate.numerator) / rate.denominator
            ratio = 2 * r / (r.exp() - (-r).exp())
        elif rate is not None:
            ratio = Decimal(0)
        found = spent - (1 - (-spent).exp()) * ratio
    return rounded_up(Fraction(found) * (1 + Fraction(1, 2**90)))


def _below(value: Fraction) -> float:
    return rounded_down(min(value, MAX))


def _root_below(square: Fraction) -> float:
    """A double not above the root, and within two units of its last place."""
    digits = 64 + max(0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    return _below(Fraction(math.isqrt((square.numerator << 2 * digits) // square.denominator), 2**digits))
