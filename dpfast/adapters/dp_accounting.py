# SPDX-License-Identifier: Apache-2.0
"""For dp-accounting: one release as a DpEvent, and as a privacy loss distribution.

Both are those of the worst neighbours.

Where their kind of number cannot hold a parameter, it is rounded to the side of more privacy loss.

dpfast/privacy/laplace.py proves which change of the Laplace laws is the worst, and its rho.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Guarantee, Laplace, Sensitivity
from dpfast.adapters import library, rounded_down, rounded_up
from dpfast.errors import DTypeError, ParameterError

_accounting = library("dp_accounting", "accounting", "0.6", package="dp-accounting")

MAX = Fraction(sys.float_info.max)
MOST_POINTS = 2**22  # points of a privacy loss distribution, and integers behind it: a few seconds
MOST_CELLS = 2**12  # composed one by one
MOST_LOSS = 512  # beyond it nothing is private, and exp() overflows before long


def dp_event(mechanism: object, sensitivity: Sensitivity | None = None, *, zcdp: bool = False) -> Any:
    """One release as a DpEvent; Mechanism.dp_event says more."""
    if isinstance(mechanism, (Gaussian, DiscreteGaussian)):
        if isinstance(mechanism, DiscreteGaussian) or zcdp:
            return _accounting.ZCDpEvent(rounded_up(mechanism.rho(sensitivity)))
        return _accounting.GaussianDpEvent(_noise_multiplier(mechanism, sensitivity))
    own = _pure(mechanism, sensitivity)
    events = [_event_of_cells(own, *cells) for cells in own.worst_change]
    if zcdp:
        return _accounting.ZCDpEvent(float(own.guarantee.rho))
    return events[0] if len(events) == 1 else _accounting.ComposedDpEvent(events)


def _event_of_cells(own: Laplace | DiscreteLaplace, cells: int, change: Fraction) -> Any:
    rate = own.epsilon / own.sensitivity
    if isinstance(own, Laplace):
        cell = _accounting.LaplaceDpEvent(_below(1 / (rate * change)))
    else:
        whole = _integer(change, "sensitivity")
        cell = _accounting.dp_event.DiscreteLaplaceDpEvent(rounded_up(rate), whole)
    return cell if cells == 1 else _accounting.SelfComposedDpEvent(cell, cells)


def randomized_response_event(truths: float, categories: int, answers: int) -> Any:
    """So many answers as a RandomizedResponseDpEvent, for REPLACE_ONE alone.

    truths: answers for each one that is drawn at random from all categories, or more.
    """
    noise = rounded_down(1 / Fraction(truths))
    event = _accounting.dp_event.RandomizedResponseDpEvent(noise, categories)
    return event if answers == 1 else _accounting.SelfComposedDpEvent(event, answers)


Side: TypeAlias = tuple[Sequence[float], Callable[[Fraction], float]]  # losses, and deltas by epsilon


def response_losses(sides: Sequence[Side], epsilon: Fraction, answers: int, interval: float) -> Any:
    """So many answers as a PrivacyLossDistribution.

    sides: one, or one a truth: an answer may change from either to the other, and other answers of
        the unit the other way. So each costs the larger delta of both, whatever the others do.
        Two curves of coins cross at 0 alone.
    epsilon: what all answers spend.
    """
    _check_size(epsilon, 0, interval)
    if answers > MOST_POINTS:
        raise ParameterError(
            f"answers_per_unit must be at most {MOST_POINTS} for a distribution of losses, got {answers}"
        )
    losses = [0.0, *itertools.chain.from_iterable(losses for losses, _ in sides)]
    pmf = _connected(losses, lambda at: max(delta(at) for _, delta in sides), interval)
    return _many(_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution(pmf), answers)


def _connected(losses: Sequence[float], delta: Callable[[Fraction], float], interval: float) -> Any:
    """On the multiples of the interval around each loss, from the deltas there."""
    points = sorted({math.floor(loss / interval) + step for loss in losses for step in (-1, 0, 1, 2)})
    deltas = [delta(point * Fraction(interval)) for point in points]
    return _accounting.pld.pld_pmf.create_pmf_pessimistic_connect_dots(interval, points, deltas)


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
    worst, rate = [_fewer(*cells) for cells in own.worst_change], own.epsilon / own.sensitivity
    _check_size(rate * sum(cells * change for cells, change in worst), 0, value_discretization_interval)

    def losses(cells: int, change: Fraction) -> Any:
        if isinstance(own, Laplace):
            return _many(make.from_laplace_mechanism(_below(1 / (rate * change)), **options), cells)
        whole = _integer(change, "sensitivity")
        _check_size(rate * whole, whole, value_discretization_interval)
        return _many(make.from_discrete_laplace_mechanism(rounded_up(rate), whole, **options), cells)

    return reduce(lambda one, other: one.compose(other), itertools.starmap(losses, worst))


def _fewer(cells: int, change: Fraction) -> tuple[int, Fraction]:
    """No better a change of at most MOST_CELLS cells: what moves in several moves in one."""
    together = -(-cells // MOST_CELLS)
    return -(-cells // together), together * change


def _many(cell: Any, cells: int) -> Any:
    return cell if cells == 1 else cell.self_compose(cells)


def epsilon_of(parts: Counter[tuple[Any, Guarantee]], delta: Fraction) -> float:
    """The epsilon of mechanisms together, each so often; inf if there is none.

    parts: mechanisms with a distribution of losses, or None, and what they promise.

    (epsilon, delta) alone is randomized response that tells the truth with probability delta, the
    worst that it allows [KOV15].
    Raises: ParameterError (a part without a distribution, or with one that is too large).
    """
    make: Any = _accounting.pld.privacy_loss_distribution
    losses = []
    for (part, promised), n in parts.items():
        if part is not None:
            losses.append(part.privacy_loss_distribution().self_compose(n))
            continue
        if promised.epsilon is None:
            raise ParameterError("a part promises a rho alone, which has no distribution of losses")
        if promised.epsilon:
            _check_size(promised.epsilon, 0, 1e-4)
            losses.append(
                _many(make.from_discrete_laplace_mechanism(rounded_up(promised.epsilon), 1, use_connect_dots=True), n)
            )
        if promised.delta:
            told = _accounting.pld.common.DifferentialPrivacyParameters(0.0, rounded_up(promised.delta))
            losses.append(_many(make.from_privacy_parameters(told), n))
    found = reduce(lambda loss, other: loss.compose(other), losses) if losses else make.identity()
    return float(found.get_epsilon_for_delta(rounded_down(delta)))


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
    return _many(cell, cells)


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


def _below(value: Fraction) -> float:
    return rounded_down(min(value, MAX))


def _root_below(square: Fraction) -> float:
    """A double not above the root, and within two units of its last place."""
    digits = 64 + max(0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    return _below(Fraction(math.isqrt((square.numerator << 2 * digits) // square.denominator), 2**digits))
