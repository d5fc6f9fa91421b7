# SPDX-License-Identifier: Apache-2.0
"""What a guarantee means: beliefs before and after a release, the privacy loss, the reach of noise.

Beliefs. Let a statement about one unit be true or not, and let the two cases be neighbours,
whatever else is known. Under add-remove the statement is "this unit is in the data", under
substitution anything about its data. An output y multiplies the odds of the statement by exp(L), L
= ln P(y | true)/P(y | false). So a prior p becomes p/(p + (1 - p) exp(-L)), which grows with L.
1. epsilon-DP is |L| <= epsilon, for every y. It also holds for mixtures of neighbours. The data of
   other units, or of the unit itself, may be uncertain, as long as the others' data are independent
   of the statement.
2. rho-zCDP [BS16] is E[exp((a - 1) L)] <= exp((a - 1) a rho), for all a > 1 and in both directions.
   It includes mixtures and post-processing, because Renyi divergences are quasi-convex and obey
   data processing. Markov's inequality at a = (e + rho)/(2 rho) gives P(L > e) <= exp(-(e -
   rho)^2/(4 rho)) for e > rho; and P(L < -e | true) <= exp(-e) P(-L > e | false) is no larger. So
   |L| <= e, except for a share 2 exp(-(e - rho)^2/(4 rho)) of the releases: `likely`.
A delta alone gives no such bound: (epsilon, delta) does not say how large the loss is when it is
above epsilon.

Losses. They are those of the two neighbours that are easiest to tell apart. For Laplace noise these
neighbours differ as dpfast/privacy/laplace.py says: in so many cells, by so much in each. If the L1
sensitivity alone is known, they differ by all of it in one cell. Real Gaussian noise is rotation
invariant, so only the L2 norm counts. For discrete Gaussian noise E L = |d|^2/(2 sigma^2), because
E X = 0.

[DMNS06], [BS16] as in docs/design.md · [KS14] Kasiviswanathan, Smith 2014, On the semantics of
differential privacy · [MM18] Meiser, Mohammadi 2018, and [SMM19] Sommer, Meiser, Mohammadi 2019,
for privacy-loss distributions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from dpfast.privacy import gaussian, laplace
from dpfast.privacy.exact import Ball, ball, rounded_up, unique_floor
from dpfast.privacy.exact.balls import erfc
from dpfast.privacy.formatting import percent, plain, rounded, times
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.sensitivity import Cells, Sensitivity

EXAMPLE_DELTA = Fraction(1, 10**6)
MOST_RHO = MOST_EPSILON = 1000  # beyond, an epsilon would say nothing

# ------------------------------------------------------------------ beliefs


def likely(rho: Fraction, share: Fraction) -> float:
    """An epsilon that the loss of rho-zCDP exceeds in at most this share of releases, rounded up.

    It bounds the loss in both directions: rho + 2 sqrt(rho ln(2/share)): point 2 above.
    """
    return rounded_up(lambda: ball(rho) + 2 * (ball(rho) * ball(2 / share).log()).sqrt())


# ------------------------------------------------------------------ the privacy loss


class Loss(ABC):
    """The loss ln P(y | x)/P(y | x') of a release y, x' the neighbour easiest to tell apart."""

    most: Fraction | None  # the largest magnitude, if there is one

    @property
    @abstractmethod
    def mean(self) -> float:
        """Its mean, the Kullback-Leibler divergence, in nats, rounded up."""

    @abstractmethod
    def above(self, loss: Fraction) -> float:
        """P(L > loss), rounded up."""


@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """The loss of real Laplace noise, before rounding to a grid.

    It is epsilon with probability 1/2, -epsilon with e^-epsilon/2, and between them the density
    e^((loss - epsilon)/2)/4.
    """

    epsilon: Fraction

    @property
    def most(self) -> Fraction:  # type: ignore[override]
        return self.epsilon

    @property
    def mean(self) -> float:
        return float(laplace.rho(self.epsilon, (Cells(1, Fraction(1)),), integers=False))

    def above(self, loss: Fraction) -> float:
        if not -self.epsilon <= loss < self.epsilon:
            return float(loss < 0)
        return rounded_up(lambda: 1 - ball((loss - self.epsilon) / 2).exp() / 2)


@dataclass(frozen=True)
class DiscreteLaplaceLoss(Loss):
    """The loss of discrete Laplace noise, q = e^-rate, on a count that changes by an integer.

    It is rate (change - 2k) with probability (1-q)/(1+q) q^k for 0 < k < change, 1/(1+q) for k = 0
    and q^change/(1+q) for k = change.
    """

    rate: Fraction
    change: int

    @property
    def most(self) -> Fraction:  # type: ignore[override]
        return self.rate * self.change

    @property
    def mean(self) -> float:
        return float(laplace.rho(self.rate, (Cells(1, Fraction(self.change)),), integers=True))

    def above(self, loss: Fraction) -> float:
        if not -self.most <= loss < self.most:
            return float(loss < 0)
        k = math.ceil((self.change - loss / self.rate) / 2)  # the least with no larger a loss
        return rounded_up(lambda: 1 - ball(-k * self.rate).exp() / (1 + ball(-self.rate).exp()))


@dataclass(frozen=True)
class ZCDPLoss(Loss):
    """The loss of discrete Gaussian noise: its mean is rho, and zCDP bounds its tail."""

    rho: Fraction
    most = None

    @property
    def mean(self) -> float:
        return rounded_up(lambda: ball(self.rho))

    def above(self, loss: Fraction) -> float:
        if loss <= self.rho:
            return 1.0
        return rounded_up(lambda: ball(-((loss - self.rho) ** 2) / (4 * self.rho)).exp())


@dataclass(frozen=True)
class CellsLoss(Loss):
    """The sum of independent losses of several cells. Its mean is rho, which bounds its tail."""

    cell: LaplaceLoss | DiscreteLaplaceLoss
    cells: int

    @property
    def most(self) -> Fraction:  # type: ignore[override]
        return self.cells * self.cell.most

    @property
    def mean(self) -> float:
        return rounded_up(lambda: self.cells * ball(self.cell.mean))

    def above(self, loss: Fraction) -> float:
        if not -self.most <= loss < self.most:
            return float(loss < 0)
        return ZCDPLoss(Fraction(self.mean)).above(loss)


@dataclass(frozen=True)
class GaussianLoss(ZCDPLoss):
    """The loss of real Gaussian noise, before rounding: normal, mean rho, variance 2 rho."""

    def above(self, loss: Fraction) -> float:
        return min(1.0, rounded_up(lambda: erfc(ball(loss - self.rho) / (2 * ball(self.rho).sqrt())) / 2))


# ------------------------------------------------------------------ usefulness


def textbook(scale: Fraction, beta: Fraction, cells: int) -> float:
    """The bound scale ln(cells/beta), rounded up.

    Real Laplace noise is within it, in all cells, with probability 1 - beta or more, by the union
    bound [DMNS06]. This does not hold for discrete noise, which may reach the next integer:
    `textbook_misses`.
    """
    return rounded_up(lambda: ball(scale) * ball(cells / beta).log())


def textbook_misses(scale: Fraction, beta: Fraction, cells: int) -> float:
    """P(discrete Laplace noise is beyond `textbook` in some independent cell), rounded up."""
    # P(|X| >= k) = 2 q^k/(1+q), k the least integer above. There is a floor, because the logarithm
    # of a rational is irrational [Lindemann 1882].
    k = 1 + unique_floor(128, lambda: ball(scale) * ball(cells / beta).log())

    def value() -> Ball:
        q = ball(-1 / scale).exp()
        return -(cells * (-2 * ball(-k / scale).exp() / (1 + q)).log1p()).expm1()

    return min(1.0, rounded_up(value))


# ------------------------------------------------------------------ in words


def example(guarantee: Guarantee, delta_of: Callable[[Fraction], float] | None) -> tuple[Fraction, Fraction] | None:
    """An (epsilon, delta) that holds: the promised one, or for a rho alone one at EXAMPLE_DELTA.

    delta_of: gives the delta for an epsilon, if more than rho is known. None if rho promises next
    to nothing.
    """
    if not guarantee.pure and guarantee.rho > MOST_RHO:
        return None
    if guarantee.epsilon is not None and guarantee.delta is not None:
        return guarantee.epsilon, guarantee.delta

    def three_digits(value: float) -> Fraction:
        return Fraction(Context(prec=3, rounding=ROUND_CEILING).create_decimal(value))

    if delta_of is None:
        return three_digits(float(guarantee.approximate(EXAMPLE_DELTA).epsilon or 0)), EXAMPLE_DELTA
    rho = max(float(guarantee.rho), 1e-30)
    high = rho + 2 * math.sqrt(rho * -math.log(EXAMPLE_DELTA))  # enough for any rho-zCDP: [BS16] Proposition 1.3
    low = high / 1000
    while high > low * 1.002:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta_of(three_digits(middle)) <= EXAMPLE_DELTA else (middle, high)
    return three_digits(high), EXAMPLE_DELTA


def largest_loss(guarantee: Guarantee, holds: tuple[Fraction, Fraction] | None) -> tuple[Fraction, Fraction] | None:
    """An epsilon, and the share of releases in which the loss may exceed it: delta, or 0.

    holds: an (epsilon, delta) that holds. None if it says nothing.
    """
    if holds is None or holds[0] > MOST_EPSILON:
        return None
    return holds if guarantee.pure else (Fraction(likely(guarantee.rho, holds[1])), holds[1])


def delta_is(sensitivity: Sensitivity, sigma_squared: Fraction, *, real: bool) -> str:
    """What the delta of Gaussian noise is: for the discrete distribution it can be a bound."""
    if real or (sensitivity.largest and gaussian.is_exact(sensitivity.largest.l0, sigma_squared)):
        return "exact"
    if sensitivity.largest:
        return "a bound through zCDP: so many cells are too many for the exact figure"
    return "a bound through zCDP: an L2 norm alone gives no better, --l0 with --linf would"


def promise_in_words(guarantee: Guarantee, holds: tuple[Fraction, Fraction] | None, delta_is: str) -> str:
    """What a release promises. holds: an (epsilon, delta) that holds, and what its delta is."""
    change = {
        "add-remove": f"adding or removing any one {guarantee.unit}",
        "substitution": f"replacing the data of any one {guarantee.unit} by any other data",
    }[guarantee.adjacency]
    again = f"Several releases about the same {guarantee.unit} add up their"
    if guarantee.pure and holds:
        return (
            f"{change} makes any result of one release at most {times(holds[0])} as likely as it was. {again} epsilons."
        )
    zcdp = f"a release is rho-zCDP (zero-concentrated differential privacy), rho = {plain(guarantee.rho)}"
    if guarantee.rho_delta:
        zcdp = f"{zcdp}, but for an event of probability {plain(guarantee.rho_delta)} (approximate zCDP)"
    if holds is None:
        return f"{zcdp}: so large a rho promises next to nothing."
    epsilon, delta = holds
    return (
        f"{zcdp}, and (epsilon, delta)-differentially private, for example with epsilon = {plain(epsilon)} and delta = "
        f"{plain(delta)}: {change} makes the probability of any results of one release at most {times(epsilon)} what it was, "
        f"plus delta. This delta is {delta_is}. {again} rhos (or, less sharply, their epsilons and their deltas)."
    )


def statement(guarantee: Guarantee) -> str:
    """What beliefs are about."""
    return {
        "add-remove": f"that a certain {guarantee.unit} is in the data",
        "substitution": f"of anything about the data of a certain {guarantee.unit}",
    }[guarantee.adjacency]


def belief_in_words(guarantee: Guarantee, epsilon: Fraction, but_for: Fraction) -> str:
    """What bounds on beliefs say; but_for: the share of releases whose loss may exceed epsilon."""
    said = [f"how sure a reader can be {statement(guarantee)}, even one who knows all the rest."]
    if but_for:
        loss = rounded(epsilon, up=True)
        said.append(
            f"It holds in all but {plain(but_for)} of releases: in those the privacy loss may be beyond {loss}."
        )
    if guarantee.adjacency == "add-remove":
        more = "four times the rho" if but_for else "twice the epsilon"
        said.append(f"For anything about the data of a {guarantee.unit} that is known to be there, take {more}.")
    return " ".join(said)


def loss_in_words(loss: Loss, epsilon: Fraction) -> str:
    """The loss's mean, and its maximum or the share of releases in which it is above epsilon."""
    mean = rounded(Fraction(loss.mean), up=True)
    if loss.most is not None:
        return f"on average {mean}, never above {plain(loss.most)}"
    most = "" if isinstance(loss, GaussianLoss) else "at most "
    return f"on average {mean}, above {plain(epsilon)} in {most}{percent(Fraction(loss.above(epsilon)), up=True)} of releases"


def textbook_in_words(scale: Fraction, beta: Fraction, cells: int, *, real: bool) -> str:
    """What the textbook's half-width is, and whether it holds."""
    said = f"sensitivity/epsilon ln({cells:,}/{plain(beta)}), which is for real Laplace noise."
    if real:
        return f"{said} It holds before any rounding, for all cells by the union bound."
    found = Fraction(textbook_misses(scale, beta, cells))
    verdict = f"not {plain(100 * beta)} %: go by the exact rows" if found > beta else "so here it holds"
    return f"{said} Whole noise is beyond it with probability {percent(found, up=True)}, {verdict}."
