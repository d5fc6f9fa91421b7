# SPDX-License-Identifier: Apache-2.0
"""Means of values by key: sums less the middle of the bounds, and counts of the same rows.

Let L and U be the bounds in steps, and a value v within them. It enters a sum as 2 v - (L + U), in
half steps: at most U - L in magnitude, where 2 v may be as large as 2 max(|L|, |U|). Sums and
counts are two releases, each with half of the budget and each with noise for its own sensitivity,
which follows from the caps on rows alone. So what both promise adds up to the whole, whatever one
unit does to both at once.

Let d = s/n be the true mean of such values in a key, n its rows. With noise of at most p in the sum
and q in the count, the noisy S and N have |S - d N| <= p + |d| q. These d lie within (S - p)/(N +
q) and (S + p)/(N - q), or with the other denominator where a numerator is below (above) 0, as long
as N - q >= 1; otherwise n may be 0, and d is anything. p and q hold each with half of the doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.counts.records.amounts import Grid
from dpfast.counts.records.payment import Payment
from dpfast.errors import ParameterError
from dpfast.noise.mechanisms.described import Payable
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.release.arrays import INT64_ENDS
from dpfast.noise.release.counts import BoundedCounts
from dpfast.noise.release.key import release_key, sealing
from dpfast.privacy import parameters
from dpfast.privacy.composition import compose
from dpfast.privacy.guarantee import Guarantee, searching, warn_if_weak
from dpfast.privacy.parameters import Real, given
from dpfast.privacy.record import unwritten, written
from dpfast.privacy.sensitivity import Sensitivity

Reals = npt.NDArray[np.float64]
CountNoise: TypeAlias = DiscreteLaplace | DiscreteGaussian
Budget: TypeAlias = tuple[Real | None, Real | None, Real | None]  # epsilon, delta, rho


class Ends(NamedTuple):
    """The means, and the ends of their intervals: float64, one for each key."""

    value: Reals
    lower: Reals
    upper: Reals


class NoisyMeans:
    """Noisy means by key. `BoundedHistogram.mean` makes it; what it tells spends nothing more.

    keys: the domain in its order. sums, counts: int64, as they were released: of the values less
    `middle`, in steps of `granularity`, and of the rows. middle: that of the bounds of a value.
    guarantee: what the release spent.

    >>> caps = {"domain": ["f", "m"], "lower": 0, "upper": 120, "values": [31, 40, 25]}
    >>> ages = dpfast.bounded_histogram(["f", "m", "f"], dpfast.EACH_ROW, **caps)
    >>> found = ages.mean(epsilon=1)
    >>> found
    <NoisyMeans of 2 keys; <Guarantee epsilon=1, ...>>
    """

    def __init__(
        self, keys: npt.NDArray[Any], sums: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], noise: MeanNoise
    ) -> None:
        self.keys, self.sums, self.counts, self._noise = keys, sums, counts, noise
        self.guarantee = noise.guarantee

    @property
    def noise(self) -> dict[str, CountNoise]:
        """The mechanisms that `sum` and `count` were released by, on integers.

        >>> caps = {"domain": ["f"], "lower": 0, "upper": 120, "values": [30, 40]}
        >>> ages = dpfast.bounded_histogram(["f", "f"], dpfast.EACH_ROW, **caps)
        >>> sorted(ages.mean(epsilon=1).noise)
        ['count', 'sum']
        """
        return self._noise.columns

    @property
    def granularity(self) -> Fraction:
        """What a step of `sums` is worth: half of a step of the values.

        >>> caps = {"domain": ["f"], "lower": 0, "upper": 120, "values": [30, 40]}
        >>> ages = dpfast.bounded_histogram(["f", "f"], dpfast.EACH_ROW, **caps)
        >>> ages.mean(epsilon=1).granularity
        Fraction(1, 2)
        """
        return self._noise.ends.granularity / 2

    @property
    def middle(self) -> Fraction:
        """The middle of the rounded bounds of a value: what is subtracted from each.

        >>> caps = {"domain": ["f"], "lower": 0, "upper": 120, "values": [30, 40]}
        >>> ages = dpfast.bounded_histogram(["f", "f"], dpfast.EACH_ROW, **caps)
        >>> ages.mean(epsilon=1).middle
        Fraction(60, 1)
        """
        low, high = self._noise.ends.exact
        return (low + high) / 2

    @property
    def value(self) -> Reals:
        """The means: middle + sums/max(counts, 1), put between the bounds of a value.

        Bias: a ratio, put between bounds: towards their middle if few rows are there.

        >>> caps = {"domain": ["f"], "lower": 0, "upper": 120, "values": [30] * 900}
        >>> ages = dpfast.bounded_histogram(["f"] * 900, dpfast.EACH_ROW, **caps)
        >>> 28 < ages.mean(epsilon=1).value[0] < 32
        np.True_
        """
        return self._put(self.sums, np.maximum(self.counts, 1))

    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> Ends:
        """The means, and intervals that hold the true bounded ones with this probability.

        cells: for how many keys together: by default each interval holds for itself, and
            `cells=len(counts)` gives those that hold all at once.

        An interval holds the mean of the rows that the caps kept, clamped and rounded, before the
        noise. Where a key may have no rows, it is the whole range of a value, and so it is where a
        sum may lie beyond int64: with a range of 2^b half steps from 2^(63 - b) rows on.
        Returns: value, lower, upper. Raises: DTypeError, ParameterError.
        Source: [Fieller 1954], with proved bounds of both noises in place of a normal law.

        >>> caps = {"domain": ["f"], "lower": 0, "upper": 120, "values": [30] * 900}
        >>> ages = dpfast.bounded_histogram(["f"] * 900, dpfast.EACH_ROW, **caps)
        >>> found = ages.mean(epsilon=1).interval(0.99)
        >>> bool(found.lower[0] <= found.value[0] <= found.upper[0])
        True
        """
        far, off = self._noise.within(confidence, cells=cells)
        sums, counts = self.sums.astype(object), self.counts.astype(object)
        few, many = np.maximum(counts - off, 1), np.maximum(counts + off, 1)
        low, high = sums - far, sums + far
        ends = [
            np.nextafter(self._put(end, np.where(there, few, many)), way)
            for end, there, way in ((low, low < 0, -np.inf), (high, high >= 0, np.inf))
        ]
        least, most = self._outside
        ended = _may_be_cut(sums, far) | _may_be_cut(counts, off)
        nobody = ended | (counts - off < 1).astype(bool)  # or maybe no rows
        return Ends(
            self.value,
            np.where(nobody, least, np.clip(ends[0], least, most)),
            np.where(nobody, most, np.clip(ends[1], least, most)),
        )

    @property
    def _bounds(self) -> tuple[float, float]:
        low, high = map(float, self._noise.ends.exact)
        return low, high

    @property
    def _outside(self) -> tuple[float, float]:
        """The nearest doubles that have the bounds of a value between them."""
        (low, high), (least, most) = self._noise.ends.exact, self._bounds
        return (
            least if least <= low else math.nextafter(least, -math.inf),
            most if most >= high else math.nextafter(most, math.inf),
        )

    def _put(self, sums: npt.NDArray[Any], rows: npt.NDArray[Any]) -> Reals:
        """Their middle + sums/rows between the bounds: of integers of any length, rounded once."""
        ends = self._noise.ends
        rows = rows.astype(object)
        steps = ((ends.lower + ends.upper) * rows + sums.astype(object)) / (2 * rows)
        with np.errstate(over="ignore", under="ignore"):
            found: Reals = np.clip(steps.astype(np.float64) * float(ends.granularity), *self._bounds)
        return found

    def __repr__(self) -> str:
        return f"<NoisyMeans of {self.counts.size:,} key{'s' * (self.counts.size != 1)}; {self.guarantee}>"


def _may_be_cut(noisy: npt.NDArray[Any], reach: int) -> npt.NDArray[np.bool_]:
    """Where the number without noise, or with it, may have been brought into int64."""
    least, most = INT64_ENDS
    return ((noisy - reach <= least) | (noisy + reach >= most)).astype(bool)


class MeanNoise(Payable):
    """The noise of sums and that of counts, each for its half of the budget."""

    NAME: ClassVar[str] = "mean"
    OPTIONS = frozenset({"threads"})
    sums: CountNoise = written(metadata=lambda each: {"sum": each.metadata()}, words=lambda e: {"sums": repr(e)})
    counts: CountNoise = written(metadata=lambda each: {"count": each.metadata()}, words=unwritten)
    changes: tuple[Sensitivity, Sensitivity] = written(metadata=unwritten, words=unwritten)
    ends: Grid = written(metadata=unwritten, words=unwritten)

    def __init__(self, changes: tuple[Sensitivity, Sensitivity], ends: Grid, budget: Budget) -> None:
        """changes: of the sums and of the counts. Raises: DTypeError, ParameterError."""
        make = halves(*budget)
        with searching():  # the whole has been looked at
            sums, counts = map(make, changes)
        self._keep(sums=sums, counts=counts, changes=changes, ends=ends)

    @property
    def columns(self) -> dict[str, CountNoise]:
        """For a seal, and for a charge."""
        return {"sum": self.sums, "count": self.counts}

    @property
    def guarantee(self) -> Guarantee:
        """What both spend together."""
        return compose(self.sums, self.counts)

    def within(self, confidence: Real, *, cells: int = 1) -> tuple[int, int]:
        """What both noises are within together, in half steps and in rows."""
        half = (1 + parameters.probability("confidence", confidence)) / 2
        return self.sums.interval(half, cells=cells), self.counts.interval(half, cells=cells)

    def _release(
        self,
        values: tuple[BoundedCounts, BoundedCounts],
        charge: Callable[..., None] | None = None,
        /,
        *,
        threads: int | None = None,
    ) -> tuple[Any, Any]:
        """The noisy sums and counts."""
        if charge is not None:
            charge()
        sums, counts = values
        return self.sums.release(sums, threads=threads), self.counts.release(counts, threads=threads)

    release = _release


def halves(epsilon: Real | None, delta: Real | None, rho: Real | None) -> Callable[[Sensitivity], CountNoise]:
    """What makes a mechanism that spends half of each. Raises: DTypeError, ParameterError."""
    if (epsilon is None) == (rho is None) or (delta is not None and epsilon is None):
        asked = given(epsilon=epsilon, delta=delta, rho=rho)
        raise ParameterError(f"epsilon, epsilon and delta, or rho must be given: the budget of the whole mean, {asked}")
    name, asked_for = ("rho", rho) if epsilon is None else ("epsilon", epsilon)
    part = parameters.exact_positive(name, asked_for, decimal=True) / 2
    warn_if_weak(name, 2 * part)
    if rho is not None:
        return lambda change: DiscreteGaussian.from_zcdp(part, change)
    if delta is None:
        return lambda change: DiscreteLaplace(part, change)
    rest = parameters.probability("delta", delta, decimal=True) / 2
    warn_if_weak("delta", 2 * rest)
    return lambda change: DiscreteGaussian.calibrated(part, change, delta=rest)


def means_of(
    keys: npt.NDArray[Any],
    values: tuple[BoundedCounts, BoundedCounts],
    noise: MeanNoise,
    payment: Payment,
    threads: int | None,
) -> NoisyMeans:
    """The means by these keys, once they are paid. values: centred sums in half steps; counts."""
    if threads is not None:
        parameters.whole("threads", threads, 1)
    if payment.key is None:
        sums, counts = payment.release(noise, values, threads=threads)
    else:
        key = release_key(sealing(payment.key, values[0]))
        payment.expect(key, noise.columns)
        copies = dict(zip(noise.columns, map(np.array, values), strict=True))
        payment.noise(key, noise.columns, copies, shape=values[0].shape)
        sums, counts = copies.values()
    return NoisyMeans(keys, sums, counts, noise)
