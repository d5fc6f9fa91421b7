# SPDX-License-Identifier: Apache-2.0
"""What several releases guarantee together.

[DMNS06], [BS16] as in docs/design.md · [McS09] McSherry 2009, PINQ, Theorem 4 · [DRV10] Dwork,
Rothblum, Vadhan 2010 · [KOV15] Kairouz, Oh, Viswanath 2015 · [RRUV16] Rogers, Roth, Ullman, Vadhan
2016 (filters) · [FZ21] Feldman, Zrnic 2021 (filters of rho).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Protocol, TypeAlias

from dpfast.errors import DTypeError, ParameterError
from dpfast.exact import Ball, alone, ball, flint_at, rounded_up
from dpfast.privacy import parameters
from dpfast.privacy.guarantee import Guarantee, guarantee_of
from dpfast.privacy.parameters import Real, shown

MOST_PARTS = 10**5  # that the optimal bound takes: it is a sum of half as many terms


class Promising(Protocol):
    @property
    def guarantee(self) -> Guarantee: ...


Part: TypeAlias = Guarantee | Promising


def compose(*parts: Part, by: str = "basic", delta: Real | None = None, adjacency: str | None = None) -> Guarantee:
    """What releases of the same data guarantee together. Parts: mechanisms, or Guarantees.

    by="basic": all figures add up: epsilons, deltas, rhos. If one part lacks a figure, the sum
        lacks it. This is the only way if later parameters are chosen from earlier results, with a
        total that is fixed beforehand (dpfast.Ledger). Source: [DMNS06]; [BS16] Lemma 1.7; chosen
        adaptively [RRUV16], [FZ21].
    by="parallel": the parts are public and disjoint in units of privacy. Under add-remove the
        result has the largest of each figure [McS09]. Under substitution a unit may leave one part
        and enter another: the two largest add up, if each part also holds for adding and removing a
        unit (`also_add_remove`); otherwise the call raises. With adjacency="substitution" for parts
        that hold under add-remove, a unit that is replaced inside a part is removed and added: the
        result is `group(2)` of the largest.
    by="advanced": epsilon for a total `delta`, for parts that are fixed beforehand: sum of e
        tanh(e/2) + sqrt(2 ln(1/d) sum of e^2), where 1 - delta = (1 - d) product of (1 - delta_i);
        or the sum of the epsilons, if it is less. Source: [KOV15] Theorem 3.5, sharper than
        [DRV10].
    by="optimal": the least epsilon for a total `delta` that holds for any parts with equal epsilon
        and equal delta, fixed beforehand. Source: [KOV15] Theorem 3.3.
    by="pld": epsilon for a total `delta`, from the privacy-loss distributions of mechanisms that
        are fixed beforehand. It is dp-accounting's pessimistic estimate, in doubles: on its grid it
        rounds losses up. It needs dpfast[accounting].

    A figure that is no rational is a double, rounded up in intervals (by="pld": as dp-accounting
    returns it).
    Raises: DTypeError, ParameterError: no parts, parts of different adjacency or unit, figures that
        a part lacks.
    """
    promised = [guarantee_of("each of parts", part) for part in parts]
    if not isinstance(by, str) or by not in _WAYS:
        raise ParameterError(f"by must be one of {', '.join(_WAYS)}, got {shown(by)}")
    if not promised:
        raise ParameterError("parts must be given: at least one mechanism or Guarantee")
    if len({(part.adjacency, part.unit) for part in promised}) > 1:
        raise ParameterError("parts must have one adjacency and one unit of privacy in common")
    if (delta is None) == (by in _FOR_DELTA):
        raise ParameterError(
            f"delta goes with by={', '.join(_FOR_DELTA)}, and they need it: got by={by!r}, delta={shown(delta)}"
        )
    if adjacency is not None and by != "parallel":
        raise ParameterError(f"adjacency is that of the parts unless by='parallel', got adjacency={shown(adjacency)}")
    if by == "parallel":
        return _parallel(promised, adjacency)
    if delta is None:
        return _basic(promised)
    total = parameters.probability("delta", delta)
    if by == "pld":
        return _pld(parts, promised, total)
    rest = _rest(promised, total)
    epsilons = [_known("epsilon", part.epsilon) for part in promised]
    found = _advanced(epsilons, rest) if by == "advanced" else _optimal(promised, epsilons[0], rest)
    basic = sum(epsilons, Fraction(0))
    return _like(promised, Fraction(found) if found < basic else basic, total)


_FOR_DELTA = ("advanced", "optimal", "pld")
_WAYS = ("basic", "parallel", *_FOR_DELTA)


def _known(name: str, value: Fraction | None) -> Fraction:
    if value is None:
        raise ParameterError(f"every part must promise {name} for this")
    return value


def _like(
    promised: Sequence[Guarantee],
    epsilon: Fraction | None,
    delta: Fraction | None,
    rho: Fraction | None = None,
    adjacency: str | None = None,
) -> Guarantee:
    if epsilon is None and rho is None:
        raise ParameterError("parts must all promise an epsilon, or all a rho")
    first = promised[0]
    return Guarantee(
        epsilon,
        delta,
        rho=rho,
        adjacency=adjacency or first.adjacency,
        unit=first.unit,
        also_add_remove=True if adjacency else all(part.also_add_remove for part in promised),
    )


def _sums(promised: Iterable[Guarantee], most: int | None = None) -> list[Fraction | None]:
    """The sums of epsilon, delta and rho over the `most` largest; None where a part lacks one."""
    figures = ([getattr(part, name) for part in promised] for name in ("epsilon", "delta", "rho"))
    return [None if None in each else sum(sorted(each, reverse=True)[:most], Fraction(0)) for each in figures]


def _basic(promised: Sequence[Guarantee]) -> Guarantee:
    epsilon, delta, rho = _sums(promised)
    if delta is not None and delta >= 1:
        raise ParameterError("the deltas of the parts add up to 1 or more: nothing would be promised")
    return _like(promised, epsilon, delta, rho)


def _parallel(promised: Sequence[Guarantee], adjacency: str | None) -> Guarantee:
    given = promised[0].adjacency
    wanted = given if adjacency is None else parameters.adjacency(adjacency)
    if (given, wanted) == ("substitution", "add-remove"):
        raise ParameterError("adjacency must be 'substitution' for parts that promise that")
    if wanted == "substitution" and not all(part.also_add_remove for part in promised):
        raise ParameterError(
            "parts must hold for adding and removing a unit, too, for a unit may leave one part and enter another: give "
            "mechanisms made from Sensitivity(l0, linf, adjacency='substitution'), or Guarantees with also_add_remove=True"
        )
    if wanted == given:
        epsilon, delta, rho = _sums(promised, 1 if wanted == "add-remove" else 2)
        return _like(promised, epsilon, delta, rho)
    epsilon, delta, rho = _sums(promised, 1)
    largest = Guarantee(epsilon, delta, rho=rho, unit=promised[0].unit)
    twice = largest.group(2)  # no less than the price of leaving one part and entering another
    return _like(promised, twice.epsilon, twice.delta, twice.rho, wanted)


# ------------------------------------------------------------------ for parameters fixed beforehand


def _rest(promised: Sequence[Guarantee], total: Fraction) -> Fraction:
    """The d with 1 - total = (1 - d) product of (1 - delta_i), rounded down to 2,000 bits."""
    counted = Counter(_known("delta", part.delta) for part in promised)
    with alone, flint_at(2048):
        log = ball(-total).log1p() - sum(n * ball(-delta).log1p() for delta, n in counted.items())
        least = (-log.expm1()).lower()
        mantissa, exponent = (int(part) for part in least.man_exp())
    if mantissa <= 0:
        raise ParameterError(f"delta must be above what the parts' own deltas come to, got {shown(total)}")
    return mantissa * Fraction(2) ** exponent


def _advanced(epsilons: Sequence[Fraction], rest: Fraction) -> float:
    # The loss of a part is at most that of randomised response: +-e, with mean e tanh(e/2).
    # Hoeffding's inequality bounds the sum.
    counted = Counter(epsilons).items()

    def value() -> Ball:
        mean = sum(n * ball(e) * (ball(e) / 2).tanh() for e, n in counted)
        return mean + (-2 * ball(rest).log() * sum(n * ball(e) ** 2 for e, n in counted)).sqrt()

    return rounded_up(value)


def _optimal(promised: Sequence[Guarantee], epsilon: Fraction, rest: Fraction) -> float:
    """The least x of the optimal bound, rounded up.

    sum over l of C(k, l) (exp((k - l) e) - exp(x + l e))_+ <= rest (1 + exp(e))^k.
    """
    k = len(promised)
    if len({(part.epsilon, part.delta) for part in promised}) > 1:
        raise ParameterError("parts must have equal epsilon and equal delta for by='optimal'; by='advanced' takes any")
    if k > MOST_PARTS:
        raise ParameterError(f"by='optimal' takes at most {MOST_PARTS:,} parts, got {k:,}")
    if epsilon == 0:
        return 0.0
    # With the terms l < m the left side is A_m - exp(x) B_m, and the whole sum is the largest of
    # these over m. So each m requires x >= ln((A_m - right)/B_m), and the largest of these bounds
    # is the answer. Rounding decides between no cases.
    return rounded_up(lambda: _largest_ratio(k, epsilon, rest).max(1).log())


def _largest_ratio(k: int, epsilon: Fraction, rest: Fraction) -> Ball:
    e = ball(epsilon)
    up, down = e.exp(), (-e).exp()
    right = ball(rest) * (1 + down) ** k  # all divided by exp(k e)
    term, weight, over, under = ball(1), (-k * e).exp(), ball(0), ball(0)
    best = ball(0)
    for l in range(k // 2 + 1):  # noqa: E741
        over += term  # C(k, l) exp(-l e)
        under += weight  # C(k, l) exp((l - k) e)
        best = best.max((over - right) / under)
        factor = ball(k - l) / (l + 1)
        term, weight = term * factor * down, weight * factor * up
    return best


def _pld(parts: Sequence[Any], promised: Sequence[Guarantee], total: Fraction) -> Guarantee:
    if not all(hasattr(part, "privacy_loss_distribution") for part in parts):
        raise DTypeError(
            "by='pld' takes mechanisms that know their privacy_loss_distribution, and nothing else does here"
        )
    counted = Counter(parts).items()
    losses = [part.privacy_loss_distribution().self_compose(n) for part, n in counted]
    found = reduce(lambda loss, other: loss.compose(other), losses)
    wanted = float(total)
    epsilon = found.get_epsilon_for_delta(wanted if Fraction(wanted) <= total else math.nextafter(wanted, 0))
    if not math.isfinite(epsilon):
        raise ParameterError(f"no epsilon is found for this delta, got {shown(total)}")
    return _like(promised, Fraction(epsilon), total)
