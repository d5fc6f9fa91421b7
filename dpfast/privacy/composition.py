# SPDX-License-Identifier: Apache-2.0
"""What several releases guarantee together.

[DMNS06], [BS16] as in docs/design.md · [McS09] McSherry 2009, PINQ, Theorem 4 · [DRV10] Dwork,
Rothblum, Vadhan 2010 · [KOV15] Kairouz, Oh, Viswanath 2015 · [RRUV16] Rogers, Roth, Ullman, Vadhan
2016 (filters) · [FZ21] Feldman, Zrnic 2021 (filters of rho) · [DRS22] Dong, Roth, Su 2022 ·
[ST22] Smith, Thakurta 2022 (filters of mu).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy import parameters
from dpfast.privacy.exact import Ball, alone, ball, flint_at, rounded_up
from dpfast.privacy.gaussian import mu_squared_of, nine_digits, rho_of
from dpfast.privacy.guarantee import Guarantee, guarantee_of, searching, warn_if_weak, with_epsilon
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.port import port
from dpfast.privacy.record import Record

MOST_PARTS = 10**5  # that the optimal bound takes: it is a sum of half as many terms


class Promising(Protocol):
    @property
    def guarantee(self) -> Guarantee: ...


Part: TypeAlias = Guarantee | Promising


def compose(
    *parts: Part | Iterable[Part], by: str = "basic", delta: Real | None = None, adjacency: str | None = None
) -> Guarantee:
    """What releases of the same data guarantee together.

    parts: mechanisms, or Guarantees; or one iterable of them.

    by="basic": all figures add up: epsilons, deltas, rhos and their deltas. A part without an
        epsilon leaves the sum without one; a rho they all have, and `approximate(delta)` gives the
        least epsilon that follows. This is the only way if later parameters are chosen from earlier
        results, with a total that is fixed beforehand (dpfast.Ledger). Source: [DMNS06]; [BS16]
        Lemma 1.7; chosen adaptively [RRUV16], [FZ21]; real Gaussians [DRS22] Corollary 3.3, [ST22].
    by="parallel": the parts are public and disjoint in units of privacy. Under add-remove the
        result has the largest of each figure [McS09]. Under substitution a unit may be replaced
        inside a part, or leave one part and enter another: the result is the largest of each
        figure, or the two largest of the parts' `add_remove`, if more (or the epsilon that their
        rho implies, if that is less); a part that does not know it is refused. Equal Gaussians are
        one mechanism, on the cells of all parts; `cells` of their Sensitivity bounds one part
        alone. With adjacency="substitution" for parts that hold under add-remove, a unit that is
        replaced inside a part is removed and added: the result is `group(2)` of the largest.
    by="advanced": epsilon for a total `delta`, for parts that are fixed beforehand: sum of e
        tanh(e/2) + sqrt(2 ln(1/d) sum of e^2), where 1 - delta = (1 - d) product of (1 - delta_i);
        or the sum of the epsilons, if it is less. Source: [KOV15] Theorem 3.5, sharper than
        [DRV10].
    by="optimal": the least epsilon for a total `delta` that holds for any parts with equal epsilon
        and equal delta, fixed beforehand. Source: [KOV15] Theorem 3.3.
    by="pld": epsilon for a total `delta`, from the privacy-loss distributions of parts that are
        fixed beforehand, or by `approximate`, if that is less or a part has no distribution. One
        that promises epsilon alone has that of randomized response of two categories. It is
        dp-accounting's pessimistic estimate, in doubles: on its grid it rounds losses up. It needs
        dpfast[accounting].

    A figure that is no rational is a double, rounded up in intervals (by="pld": as dp-accounting
    returns it).
    The result's `by` names what gave its epsilon, where several bounds could.
    Raises: DTypeError, ParameterError: no parts, parts of different adjacency or unit, figures that
        a part lacks.

    >>> counts = dpfast.DiscreteLaplace(epsilon=0.5, sensitivity=1)
    >>> total = dpfast.DiscreteLaplace(epsilon="0.1", sensitivity=1)
    >>> dpfast.compose(counts, total).epsilon
    Fraction(3, 5)
    """
    parts = _listed(parts)
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
        return _parallel(parts, promised, adjacency)
    basic = _basic(_together(parts, promised))
    if delta is None:
        return basic
    total = parameters.probability("delta", delta, decimal=True)
    if by == "pld":
        return _pld(parts, promised, basic, total)
    return _fixed(promised, basic, by, total)


def _listed(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts, which may be given as one iterable."""
    one = parts[0] if len(parts) == 1 else None
    if isinstance(one, Iterable) and not hasattr(one, "guarantee") and getattr(one, "ndim", 1) > 0:
        return tuple(one)
    return parts


M = TypeVar("M", bound=Promising)


def calibrate(make: Callable[[Fraction], M], *, releases: int, epsilon: Real, delta: Real | None = None) -> M:
    """The mechanism of the least noise of which so many releases together are (epsilon, delta)-DP.

    It is the inverse of `compose`: by the sum of the epsilons, or with a delta by that of rho, if
    that needs less noise. A ledger of the same total pays for all of them, one by one: one that is
    kept in epsilon, or `Ledger(path, epsilon, delta=delta, by="zcdp")`. Real Gaussian noise adds up
    in mu^2, and by="gdp" pays for it.
    make: a function that returns the mechanism for a spend, of less noise for more. The spend may
        be an epsilon or a rho. It is a Fraction of at most nine digits.
    Raises: DTypeError, ParameterError (no spend is found); what make raises.
    Privacy: spends nothing.

        >>> daily = dpfast.calibrate(lambda e: dpfast.DiscreteLaplace(e, 1), releases=365, epsilon=11.06, delta=1e-6)
        >>> float(daily.epsilon)
        0.10000171
    """
    n, most = parameters.whole("releases", releases, 1), parameters.exact_positive("epsilon", epsilon, decimal=True)
    slack = None if delta is None else parameters.probability("delta", delta, decimal=True)
    if n > MOST_RELEASES:
        raise ParameterError(f"releases must be at most {MOST_RELEASES:,}, got {shown(releases)}")
    if not callable(make):
        raise DTypeError(f"make must be a function of a spend, not {type(make).__name__}")

    def fits(spend: Fraction) -> M | None:
        with searching():
            mechanism = make(spend)
        together = _several(guarantee_of("what make returns", mechanism), n, _releases(mechanism))
        added = together.epsilon is not None and together.epsilon <= most and (together.delta or 0) <= (slack or 0)
        return mechanism if added or _sums_fit(together, most, slack) else None

    found = greatest(fits, most / n)
    if found is None:
        raise ParameterError(
            f"no spend of each release keeps to the total, {parameters.given(epsilon=epsilon, delta=delta)}"
        )
    promised = guarantee_of("what make returns", found)
    warn_if_weak("rho", promised.rho) if promised.epsilon is None else warn_if_weak("epsilon", promised.epsilon)
    warn_if_weak("delta", slack or Fraction(0))
    return found


def greatest(fits: Callable[[Fraction], M | None], near: Fraction) -> M | None:
    """What `fits` gives for the largest spend of nine digits for which it gives anything.

    fits: None for a spend that is too much, and for any larger one. near: a positive guess.
    """
    low, high, found = Fraction(0), None, None
    spend = nine_digits(near)
    while spend > low and (high is None or spend < high):
        if (mechanism := fits(spend)) is not None:
            low, found = spend, mechanism
        else:
            high = spend
        if spend > near * LARGEST or spend * LARGEST < near:
            break
        spend = nine_digits(2 * low if high is None else (low + high) / 2)
    return found


def _sums_fit(together: Guarantee, epsilon: Fraction, delta: Fraction | None) -> bool:
    """Whether a ledger by="zcdp", or by="gdp" for real Gaussian noise, pays for all of them."""
    if delta is None or together.rho_delta >= delta:
        return False
    with suppress(ParameterError):  # a delta that doubles find nothing for
        if together.gdp:
            return 2 * together.rho <= mu_squared_of(epsilon, delta)
        return together.rho <= rho_of(epsilon, delta - together.rho_delta)
    return False


MOST_RELEASES = 10**9
LARGEST = 2**60  # how far a spend may be from the epsilon of one release

_FOR_DELTA = ("advanced", "optimal", "pld")
_WAYS = ("basic", "parallel", *_FOR_DELTA)


def _known(name: str, value: Fraction | None) -> Fraction:
    if value is None:
        raise ParameterError(f"every part must promise {name} for this")
    return value


FIGURES = ("epsilon", "delta", "rho", "rho_delta")


def _sums(promised: Iterable[Guarantee], most: int | None = None) -> list[Fraction | None]:
    """The sums of the `most` largest of each figure; None where a part lacks one."""
    figures = ([getattr(part, name) for part in promised] for name in FIGURES)
    return [None if None in each else sum(sorted(each, reverse=True)[:most], Fraction(0)) for each in figures]


def _of(sums: Sequence[Fraction | None], like: Sequence[Guarantee], **about: Any) -> Guarantee:
    epsilon, delta, rho, rho_delta = sums
    if rho_delta is not None and rho_delta >= 1:
        raise ParameterError("the deltas of the parts add up to 1 or more: nothing would be promised")
    if delta is not None and delta >= 1:
        epsilon = delta = None
    gdp = all(part.gdp for part in like)
    about = {"adjacency": like[0].adjacency, "unit": like[0].unit, **about}
    return Guarantee(epsilon, delta, rho=rho, rho_delta=rho_delta, gdp=gdp, **about)


def _basic(promised: Sequence[Guarantee]) -> Guarantee:
    known = [part.add_remove for part in promised if part.add_remove]
    added = _basic(known) if len(known) == len(promised) else None
    if not all(part.pure and not part.rho_delta and not part.gdp for part in promised):
        return _of(_sums(promised), promised, add_remove=added)
    epsilon = sum((part.epsilon or Fraction(0) for part in promised), Fraction(0))
    about: Any = {"adjacency": promised[0].adjacency, "unit": promised[0].unit, "add_remove": added}
    return Guarantee(epsilon, **about)._with_rho(partial(_sum_of_rhos, promised))  # noqa: SLF001


def _sum_of_rhos(promised: Sequence[Guarantee]) -> Fraction:
    return sum((part.rho for part in promised), Fraction(0))


def _together(parts: Sequence[Any], promised: Sequence[Guarantee]) -> list[Guarantee]:
    """The guarantees; of Gaussians that were calibrated for several releases, one for so many."""
    found = []
    counted = Counter(part for part in parts if _releases(part) > 1)
    for part, each in zip(parts, promised, strict=True):
        if _releases(part) == 1:
            found.append(each)
        elif n := counted.pop(part, 0):
            found.append(_several(each, n, _releases(part)))
    return found


def _releases(part: object) -> int:
    """For how many releases a Gaussian of dpfast was calibrated.

    Another's object may mean another number by it.
    """
    return getattr(part, "releases", 1) if isinstance(part, Record) else 1


def _several(one: Guarantee, n: int, releases: int) -> Guarantee:
    """What n equal releases promise, if any `releases` of them are (epsilon, delta)-DP together."""
    parts, times = _of([each and n * each for each in _sums([one])], [one], add_remove=None), -(-n // releases)
    if one.add_remove:
        parts = _of(_sums([parts]), [parts], add_remove=_several(one.add_remove, n, releases))
    if one.epsilon is None or one.delta is None or times * one.delta >= 1:
        return parts
    return with_epsilon(parts, times * one.epsilon, times * one.delta)


def _parallel(parts: Sequence[Any], promised: Sequence[Guarantee], adjacency: str | None) -> Guarantee:
    given = promised[0].adjacency
    wanted = given if adjacency is None else parameters.adjacency(adjacency)
    if (given, wanted) == ("substitution", "add-remove"):
        raise ParameterError("adjacency must be 'substitution' for parts that promise that")
    if given == "add-remove":
        largest = _of(_sums(promised, 1), promised)
        if wanted == given:
            return largest
        twice = largest.group(2)  # no less than the price of leaving one part and entering another
        about: Any = {"gdp": twice.gdp, "adjacency": wanted, "unit": largest.unit, "add_remove": largest}
        return Guarantee(twice.epsilon, twice.delta, rho=twice.rho, rho_delta=twice.rho_delta, **about)
    known = [part.add_remove for part in promised if part.add_remove]
    if len(known) < len(promised):
        raise ParameterError(
            "parts must hold for adding and removing a unit, too, because a unit may leave one part and enter another: give "
            "mechanisms made from Sensitivity(l0, linf, adjacency='substitution'), or Guarantees with add_remove=Guarantee(…)"
        )
    if len(parts) > 1 and all(part == parts[0] for part in parts[1:]) and (whole := _by_cells(parts[0])):
        return whole
    inside = _sums(promised, 1)
    sums = [
        None if one is None or two is None else max(one, two)
        for one, two in zip(inside, _across(known, *inside[:2]), strict=True)
    ]
    return _of(sums, [*promised, *known], add_remove=_of(_sums(known, 1), known))


def _by_cells(part: object) -> Guarantee | None:
    """What equal parts promise as one mechanism on the cells of all, if the part can say it.

    It can if it adds equal noise to every cell, each by itself.
    """
    across: Callable[[], Guarantee | None] | None = getattr(part, "_across_parts", None)
    return across() if isinstance(part, Record) and across else None


def _across(known: Sequence[Guarantee], epsilon: Fraction | None, delta: Fraction | None) -> list[Fraction | None]:
    """Leaving one part and entering another: the two largest of each figure.

    The epsilon is the one that their rho implies, if that is less.
    epsilon, delta: of a replacement inside a part. That delta is what rho is asked for.
    """
    most = _sums(known, 2)
    if not epsilon or not delta:
        return most
    _, _, rho, rho_delta = most
    by_rho = Guarantee(rho=rho, rho_delta=rho_delta, gdp=all(part.gdp for part in known))
    with suppress(ParameterError):  # a delta of rho that is too large
        found = by_rho.approximate(delta).epsilon
        if found is not None and (most[0] is None or found < most[0]):
            return [found, delta, rho, rho_delta]
    return most


# ------------------------------------------------------------------ for parameters fixed beforehand


def _fixed(promised: Sequence[Guarantee], basic: Guarantee, by: str, total: Fraction) -> Guarantee:
    epsilons = [_known("epsilon", part.epsilon) for part in promised]
    together, fits = sum(epsilons, Fraction(0)), False
    if basic.epsilon is not None and basic.delta is not None and basic.epsilon < together and basic.delta <= total:
        together, fits = basic.epsilon, True  # one sigma was found for several releases
    try:
        rest = _rest(promised, total)
    except ParameterError:
        if fits:
            return with_epsilon(basic, together, total, "sum")
        raise
    found = _advanced(epsilons, rest) if by == "advanced" else _optimal(promised, epsilons[0], rest)
    if found < together:
        return with_epsilon(basic, Fraction(found), total, by)
    return with_epsilon(basic, together, total, "sum")


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


def _pld(parts: Sequence[Any], promised: Sequence[Guarantee], together: Guarantee, total: Fraction) -> Guarantee:
    found = math.inf
    with suppress(ParameterError):
        together = together.approximate(total)
    with suppress(ParameterError):  # no distribution, or one that is too large
        found = port.accounting().epsilon_of(
            Counter(zip(map(_with_losses, parts, promised), promised, strict=True)), total
        )
    if together.delta == total and together.epsilon is not None and together.epsilon <= found:
        return together
    if math.isinf(found):
        raise ParameterError(f"no epsilon is found for this delta, got {shown(total)}")
    return with_epsilon(together, Fraction(found), total, "pld")


def _with_losses(part: Any, promised: Guarantee) -> Any:
    """The part, if its distribution of losses says all that it spends."""
    return part if hasattr(part, "privacy_loss_distribution") and not promised.rho_delta else None
