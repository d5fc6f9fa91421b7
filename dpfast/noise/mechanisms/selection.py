# SPDX-License-Identifier: Apache-2.0
"""Which candidates have nearly the best scores: three mechanisms that publish indices alone.

All select as the Gumbel-max trick does: each candidate gets its own noise, and the largest sum of
score and noise wins. Real noise is kept as the digits of a uniform U. Doubles nominate all
candidates that may win; the digits of these few are read until one is ahead, in proved intervals.
So the winner has exactly the stated distribution, for scores taken as exact numbers.

The k best in one shot: the k largest sums, in order, each candidate with one noise. They spend k
epsilon. Let scores s become s', and let D be `sensitivity`. Give each winner the noise X + s - s' +
D in place of X. Then every winner's sum rises by D and any other by at most D. So the winners and
their order stay, ties by index as well. Each noise rises by 0 to 2 D (if scores are monotonic, by 0
to D), which costs a density of rate r at most a factor e^(2 D r) = e^epsilon. So P' >= e^(-k
epsilon) P. A pick given those before may cost more than epsilon, except by Gumbel noise. So the rho
of k picks is not k times that of one.
Source: Gumbel noise: Durfee, Rogers 2019, Lemma 4.2. rho: Cesar, Rogers 2021; any pure epsilon is
    epsilon tanh(epsilon/2)-zCDP, for randomized response dominates it (Kairouz, Oh, Viswanath 2015)
    and ln cosh(epsilon sqrt(t)) is concave in t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import DTypeError, ParameterError, UnusableValuesError
from dpfast.noise import kernels
from dpfast.noise.mechanisms.equals import fitted
from dpfast.noise.mechanisms.integer import SAMPLE_SCALE
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.one_answer import OneAnswer
from dpfast.noise.mechanisms.one_sided_geometric import OneSidedGeometric
from dpfast.noise.release.arrays import INT64_ENDS, Job, plain_array
from dpfast.noise.release.counts import refuse_less
from dpfast.noise.release.digits import reader
from dpfast.privacy import exact
from dpfast.privacy.guarantee import Guarantee, rho_of_epsilon
from dpfast.privacy.parameters import Real, given, shown, unseeded, whole
from dpfast.privacy.sensitivity import Sensitivity

Scores: TypeAlias = npt.NDArray[Any]
LEAST_RATE, MOST_RATE = Fraction(1, 2**900), Fraction(2**900)
FEW = 1024  # nominees that are made room for
FAR = np.uint64(2**62)


class Selection(OneAnswer, ABC):
    """A selection at rate epsilon/(2 sensitivity), or epsilon/sensitivity if monotonic."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset({"k"})

    @fitted
    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        monotonic: bool | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        self._keep_answer(epsilon, sensitivity, monotonic, adjacency, unit)
        if not LEAST_RATE <= self._rate <= MOST_RATE:
            raise ParameterError(
                "epsilon/sensitivity must lie between 2**-899 and 2**900, "
                + given(epsilon=epsilon, sensitivity=sensitivity)
            )

    @property
    def _rate(self) -> Fraction:
        return self.epsilon / self.sensitivity / (1 if self.monotonic else 2)

    @lockfree_property
    def guarantee(self) -> Guarantee:
        """What each call spends: epsilon, with delta = 0; and its rho.

        >>> dpfast.NoisyMax(epsilon=1, sensitivity=1).guarantee.epsilon
        Fraction(1, 1)
        """
        return self.picks()

    def picks(self, k: int = 1) -> Guarantee:
        """What a selection of the k best spends: k epsilon, and its rho of zCDP, rounded up.

        Raises: DTypeError, ParameterError.

        >>> dpfast.NoisyMax(epsilon=1, sensitivity=1).picks(3).epsilon
        Fraction(3, 1)
        """
        epsilon = whole("k", k, 1) * self.epsilon
        return Guarantee(epsilon, rho=self._rho(k), adjacency=self.adjacency, unit=self.unit)

    def _rho(self, k: int) -> Fraction:
        """That of any pure epsilon."""
        return rho_of_epsilon(k * self.epsilon)

    @overload
    def select(self, scores: npt.ArrayLike, /) -> int: ...
    @overload
    def select(self, scores: npt.ArrayLike, /, *, k: int) -> npt.NDArray[np.int64]: ...

    @unseeded
    def select(self, scores: npt.ArrayLike, /, *, k: int | None = None) -> int | npt.NDArray[np.int64]:
        """The index of the candidate selected; or with k those of the k best, in their order.

        scores: one dimension, not empty: integers or finite float64 or float32, taken exactly. One
            unit of privacy changes each by at most `sensitivity`, *as doubles*. Counts of
            bounded_histogram refuse a smaller one.
        k: how many, at most as many as there are candidates. No index comes twice.
        Raises: DTypeError, ParameterError; EntropyError. Nothing of the scores is in a message.
        Privacy: spends epsilon at every call; with k what picks(k) says, k epsilon.

            >>> best = dpfast.Exponential(epsilon=1, sensitivity=1)
            >>> best.select([900, 100, 500], k=2).tolist(), int(best.picks(2).epsilon)
            ([0, 2], 2)
        """
        return self._release(scores, k=k)

    def _terms(self, options: Mapping[str, Any], /) -> tuple[Guarantee, dict[str, object]]:
        k = options.get("k")
        return super()._terms(options) if k is None else (self.picks(k), {**self.metadata(), "k": int(k)})

    def _release(
        self, scores: npt.ArrayLike, charge: Callable[[], None] | None = None, /, *, k: int | None = None
    ) -> int | npt.NDArray[np.int64]:
        """charge: what a ledger does once the scores are found right, or it raises."""
        many = 1 if k is None else whole("k", k, 1)
        array = plain_array("scores", scores, "integers, float64 or float32")
        refuse_less(array, self)
        if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8 or array.dtype == np.float16:
            raise DTypeError(f"scores must be integers, float64 or float32, not {array.dtype}")
        if array.ndim != 1 or array.size == 0:
            raise ParameterError(f"scores must have one dimension and at least one candidate, got shape {array.shape}")
        if many > array.size:
            raise ParameterError(f"k must be at most the number of candidates, {array.size}, got {shown(many)}")
        own = array.copy()  # what is checked is what runs: another thread may write the array meanwhile
        try:
            if own.dtype.kind == "f" and not np.isfinite(own).all():
                raise UnusableValuesError("scores must be finite")
            self._prepare(own)
            if charge is not None:
                charge()
            with _native.own_mode():
                found = self._winners(own, many)
        finally:
            own.fill(0)
        return found[0] if k is None else np.array(found, np.int64)

    def _prepare(self, scores: Scores) -> None:
        """Find what could be wrong with the noise of such scores before it is paid for."""

    @abstractmethod
    def _winners(self, scores: Scores, k: int) -> list[int]: ...


class Exponential(Selection):
    """Exactly selects i with probability proportional to exp(epsilon score_i / (2 sensitivity)).

    epsilon: int, Fraction, Decimal, float (its shortest decimal) or text; spent by every
        selection.
    sensitivity: of the same kinds, a float exactly: how much one unit of privacy changes a single
        score, at most, however many scores change. Or a Sensitivity, whose linf counts.
    monotonic: whether all scores move the same way when one unit is added, as counts do. Under
        add-remove the factor 2 then disappears. By default what a Sensitivity says: True for
        Sensitivity(l0, linf) of contributions >= 0 under add-remove (its `one_way`), else False.
        Refused for a signed one and under substitution.
    adjacency, unit: as for DiscreteLaplace.

    The exponential mechanism is the selection with Gumbel noise, -ln E for E exponential.
    Usefulness: with probability 1 - beta the winner is within 2 sensitivity/epsilon
    ln(candidates/beta) of the best score.
    Privacy: each selection is epsilon-differentially private (delta = 0).
    Raises: DTypeError, ParameterError.
    Source: McSherry, Talwar 2007, Theorem 6; usefulness: Dwork, Roth 2014, Corollary 3.12.

    >>> votes = np.array([120, 80, 43])  # one vote a person
    >>> dpfast.Exponential(epsilon=1, sensitivity=1, monotonic=True).select(votes) in range(3)
    True
    """

    NAME: ClassVar[str] = "exponential"

    def _rho(self, k: int) -> Fraction:
        """That of k picks, each of a bounded range: one after another they are the one shot.

        Source: Cesar, Rogers 2021; Dong, Durfee, Rogers 2020.
        """
        return min(k * self.epsilon**2 / 8, super()._rho(k))

    def _winners(self, scores: Scores, k: int) -> list[int]:
        return _leaders(scores, self._rate, k, gumbel=True)


class PermuteAndFlip(Selection):
    """Permute-and-flip: the selection with exact exponential noise of scale 2 sensitivity/epsilon.

    Its law is that of going through the candidates in random order, and taking each with
    probability exp(epsilon (score_i - best)/(2 sensitivity)). It is never less useful than
    Exponential at the same epsilon. At the same rho of zCDP Exponential may spend nearly twice
    the epsilon, because its loss has a bounded range: epsilon^2/8, not epsilon tanh(epsilon/2).
    That is the generic rho, for no less is proved. At epsilon = 1 it is 0.462; a search over small
    worlds found none above 0.328, or 0.261 if monotonic.

    Parameters, privacy and errors as for Exponential.
    Source: McKenna, Sheldon 2020; bounded range: Cesar, Rogers 2021; equality: Ding, Kifer, Sayed
        Nasir Ahmad, Steinke, Wang, Xiao, Zhang 2021.

    >>> selection = dpfast.PermuteAndFlip(epsilon=10, sensitivity=1)
    >>> selection.select([120, 80, 43])  # another has probability below 1e-80
    0
    """

    NAME: ClassVar[str] = "permute_and_flip"

    def _winners(self, scores: Scores, k: int) -> list[int]:
        return _leaders(scores, self._rate, k, gumbel=False)


class NoisyMax(Selection):
    """Report-noisy-max: the selection with exact one-sided noise of scale 2 sensitivity/epsilon.

    Ties go to the lower index. Integer scores and an integer sensitivity get one-sided geometric
    noise. Any others get exponential noise, as in PermuteAndFlip: integer noise on scores between
    integers would cost more than epsilon. The dtype decides, so it must be public: give an array,
    because a list gets the dtype that its values ask for.

    Its rho is the generic one, epsilon tanh(epsilon/2). Two monotonic integers reach it: 0.462 at
    epsilon = 1. A search over small worlds found none above 0.353 if integers move both ways. Real
    scores are as in PermuteAndFlip.

    Parameters, privacy, errors as for Exponential; integers also need a scale from 2^-60 to 2^50.
    Source: Dwork, Roth 2014, section 3.3; one-sided noise: McKenna, Sheldon 2020.

    >>> dpfast.NoisyMax(epsilon=1, sensitivity=1).select([120, 80, 43], k=2).shape  # the two best
    (2,)
    """

    NAME: ClassVar[str] = "noisy_max"

    def _on_integers(self, scores: Scores) -> bool:
        return scores.dtype.kind != "f" and self.sensitivity.denominator == 1

    def _prepare(self, scores: Scores) -> None:
        _ = self._on_integers(scores) and self._noise

    def _winners(self, scores: Scores, k: int) -> list[int]:
        if not self._on_integers(scores):
            return _leaders(scores, self._rate, k, gumbel=False)
        noise, behind = self._noise.sample(scores.size), _behind(scores)
        try:
            if k > 1 and behind.max() > FAR:  # noise below 2^60 may not bring it ahead, but it may be among the k
                sums = (noise.astype(object) - behind.astype(object)).tolist()
                return sorted(range(scores.size), key=lambda i: (-sums[i], i))[:k]
            # The best score is ahead of any that is 2^63 behind, whatever the noise: below 2^63.
            noise -= np.minimum(behind, np.uint64(2**63 - 1)).view(np.int64)
            return [int(np.argmax(noise))] if k == 1 else _largest(noise, k)  # the first of equals
        finally:
            noise.fill(0)
            behind.fill(0)

    @lockfree_property
    def _noise(self) -> OneSidedGeometric:
        if not 1 <= SAMPLE_SCALE * self._rate <= 2**110:
            raise ParameterError(
                f"the scale of noise on integers must lie between 2**-60 and 2**50, got {shown(1 / self._rate)}"
            )
        return OneSidedGeometric(self._rate, 1)


def _behind(scores: Scores) -> npt.NDArray[np.uint64]:
    """How far integers are behind the largest, exactly."""
    wide = scores.astype(np.uint64 if scores.dtype.kind == "u" else np.int64, copy=False)
    found: npt.NDArray[np.uint64] = wide.max().astype(np.uint64) - wide.view(np.uint64)
    return found


class _CandidateNoise(OneSidedGeometric):
    """Exponential noise in steps, and the digits that it comes from."""

    @contextmanager
    def drawn(self, n: int) -> Iterator[tuple[npt.NDArray[np.int64], exact.Read]]:
        """Yield n candidates' noise in whole steps, and a reader of their words; wipe both."""
        noise, stream = np.zeros(n, np.int64), _native.StreamKey()
        try:
            stream.draw()
            constant_work, plan = self._plan(n, False)
            self._run(Job(noise, noise, *INT64_ENDS), constant_work, plan, stream, 0, None)
            yield np.abs(noise, out=noise), reader(stream, plan.width)  # without the fair sign
        finally:
            stream.wipe()
            noise.fill(0)


@cache
def _candidate_noise() -> _CandidateNoise:
    """Noise in steps of 2^-20, by 32 digits: enough to nominate. `exact.winner` reads on."""
    return _CandidateNoise(1, 2**20)


def _largest(values: npt.NDArray[np.int64], k: int) -> list[int]:
    """The places of the k largest, in their order; of equals the first."""
    leaders = np.full(k, np.iinfo(np.int64).min)
    try:
        least = kernels.kernel("last_leader")(values, leaders)
    finally:
        leaders.fill(0)
    ahead = np.flatnonzero(values > least)
    found = np.concatenate([ahead, np.flatnonzero(values == least)[: k - ahead.size]])
    return [int(i) for i in found[np.argsort(-values[found], kind="stable")]]


def _leaders(scores: Scores, rate: Fraction, k: int, *, gumbel: bool) -> list[int]:
    """The places of the k largest noisy scores, in their order."""
    if scores.dtype.kind == "f":
        wide = scores.astype(np.float64, copy=False)
        gaps, per_gap = wide / -2, 2 * rate  # halves, for a difference may overflow
        gaps += wide.max() / 2
    else:
        gaps, per_gap = _behind(scores).astype(np.float64), rate
    found = np.empty(min(scores.size, max(FEW, 2 * k)), np.int64)
    leaders = np.full(k, -np.inf)
    nominate = kernels.kernel("nominate")
    with _candidate_noise().drawn(scores.size) as (noise, read):
        try:
            count = nominate(gaps, noise, float(per_gap), gumbel, leaders, found)
            if count > found.size:
                found = np.empty(count, np.int64)
                leaders.fill(-np.inf)
                nominate(gaps, noise, float(per_gap), gumbel, leaders, found)
        finally:
            gaps.fill(0)
            leaders.fill(0)
        if count == 1:
            return [int(found[0])]
        best = Fraction(scores.max().item())
        nominated = [(i, rate * (Fraction(scores[i].item()) - best)) for i in found[:count].tolist()]
        return exact.winners(read, nominated, k, gumbel=gumbel)
