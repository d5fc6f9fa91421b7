# SPDX-License-Identifier: Apache-2.0
"""Randomized response: everybody's answer is noisy before anybody else sees it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast.errors import DpfastError, DTypeError, ParameterError, UnusableValuesError
from dpfast.noise import kernels
from dpfast.noise.mechanisms.described import Payable
from dpfast.noise.mechanisms.equals import fitted
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.release.arrays import plain_array
from dpfast.noise.release.counts import refuse_less
from dpfast.privacy import exact, formatting, parameters, response, two_coins
from dpfast.privacy.exact.binomial import lower_bound, upper_bound
from dpfast.privacy.guarantee import Guarantee, warn_if_weak
from dpfast.privacy.parameters import Real, shown, unseeded
from dpfast.privacy.port import port
from dpfast.privacy.record import written

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_EPSILON = 600  # exp of it is a double
LEAST = Fraction(1, 2**1000)  # the least epsilon, and the least coin, which estimates divide by
MOST_CATEGORIES = MOST_ANSWERS = 2**31
RESPONSE = 4  # purpose of the digits after the first 64 (csrc/stream.md)
FEW = 4096  # undecided answers that are made room for


class Estimate(NamedTuple):
    """Each category's share of the true answers, unbiased, and its interval's ends. float64."""

    share: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]


class RandomizedResponse(Payable):
    """k-ary randomized response: the truth with probability E/(E + k - 1), else any other answer.

    Every other answer is equally likely. E = exp(epsilon/answers_per_unit).
    epsilon: what a unit spends by all its answers: int, Fraction, Decimal, float (its shortest
        decimal) or text; for each answer from 2^-1000 to 600.
    categories: k, from 2 to 2^31. unit: whose answer it is, such as "person".
    answers_per_unit: how many answers of a release are one unit's, at most: 1 to 2^31. The answers
        to several questions are rows of one unit each; without it a second column is refused.

    The local model: each answer is one unit's, and is protected from whoever collects it.
    Neighbours differ in one unit's answers: substitution. `two_coin` makes the survey of the course
    notes.

    Privacy: a release is epsilon-DP (delta = 0), if no unit gives more answers than that. Its rho
    is the least there is, up to a part in 10^11: with many categories an answer leaks less.
    Raises: DTypeError, ParameterError.
    Source: Warner 1965; k-ary and optimal: Kairouz, Oh, Viswanath 2014, section 4; rho:
        dpfast/privacy/response.py.

    >>> survey = dpfast.RandomizedResponse(epsilon=1, categories=2)
    >>> answers = survey.release(np.array([True, False, True]))
    >>> answers.dtype, answers.shape
    (dtype('bool'), (3,))
    >>> two_questions = dpfast.RandomizedResponse(epsilon=1, categories=4, answers_per_unit=2)
    >>> two_questions.release(np.array([[0, 3], [2, 2], [1, 0]])).shape
    (3, 2)
    """

    NAME: ClassVar[str] = "randomized_response"
    epsilon: Fraction
    categories: int
    coin: Fraction | None = written(init=False, words=lambda p: {} if p is None else {"coin": formatting.exact(p)})
    answers_per_unit: int = written(
        metadata=lambda n: {} if n == 1 else {"answers_per_unit": n},
        words=lambda n: {} if n == 1 else {"answers_per_unit": str(n)},
    )
    unit: str

    @fitted
    def __init__(self, epsilon: Real, categories: int = 2, *, answers_per_unit: int = 1, unit: str = "person") -> None:
        answers = _answers(answers_per_unit)
        exact_epsilon = answers * _each(epsilon, answers)
        k = parameters.whole("categories", categories, 2)
        if k > MOST_CATEGORIES:
            raise ParameterError(f"categories must be at most 2**31, got {shown(categories)}")
        self._keep(epsilon=exact_epsilon, categories=k, coin=None, answers_per_unit=answers, unit=parameters.unit(unit))
        warn_if_weak("epsilon", exact_epsilon)

    @classmethod
    def two_coin(
        cls,
        probability: Real | None = None,
        *,
        epsilon: Real | None = None,
        answers_per_unit: int = 1,
        unit: str = "person",
    ) -> RandomizedResponse:
        """The survey: on heads answer truly, else flip the coin again and say yes on heads.

        Answers are 0 (no) and 1 (yes).
        probability: that of heads, p, between 0 and 1, taken exactly; 1/2 in the course notes. Or
            epsilon, above ln 2 for each answer: p is then the largest multiple of 2^-53 found that
            keeps it.
        answers_per_unit, unit: as above; a unit spends the loss of an answer so many times.

        Yes is said with probability p + p(1 - p) for a true yes and p(1 - p) for a true no. So the
        loss of an answer is max(ln((2 - p)/(1 - p)), ln((1 - p + p^2)/(1 - p)^2)), for a yes and
        for a no. Course notes often state the first alone, which is the larger only up to p = 1/2
        (epsilon = ln 3). It is a double, rounded up; `epsilon` is so many of it.
        Raises: DTypeError, ParameterError.

        >>> survey = dpfast.RandomizedResponse.two_coin(probability=0.5)
        >>> round(float(survey.guarantee.epsilon), 4)  # ln 3
        1.0986
        """
        if (probability is None) == (epsilon is None):
            raise ParameterError("probability or epsilon must be given, and not both")
        answers = _answers(answers_per_unit)
        if epsilon is not None:
            coin = two_coins.probability(_each(epsilon, answers))
        else:
            coin = parameters.probability("probability", 0 if probability is None else probability)
        if coin < LEAST:
            raise ParameterError(f"probability must be at least 2**-1000, got {shown(probability)}")
        spent = two_coins.epsilon(coin)
        if spent > MOST_EPSILON:
            raise ParameterError(
                f"probability must leave an epsilon of at most {MOST_EPSILON}, got {shown(probability)}"
            )
        warn_if_weak("epsilon", answers * spent)
        return cls._of(
            epsilon=answers * spent,
            categories=2,
            coin=coin,
            answers_per_unit=answers,
            unit=parameters.unit(unit),
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({"answers_per_unit": 1, **state})  # pickles of before have none

    @property
    def _each(self) -> Fraction:
        """The epsilon of one answer."""
        return self.epsilon / self.answers_per_unit

    @property
    def guarantee(self) -> Guarantee:
        """What a unit spends: epsilon, with delta = 0; and the rho of so many answers.

        >>> dpfast.RandomizedResponse(epsilon=1, categories=2).guarantee.epsilon
        Fraction(1, 1)
        """
        return Guarantee(self.epsilon, adjacency="substitution", unit=self.unit)._with_rho(self._rho)  # noqa: SLF001

    def _rho(self) -> Fraction:
        return self.answers_per_unit * response.rho(self._each, self.categories, self.coin)

    def privacy_loss_distribution(self, *, value_discretization_interval: float = 1e-4) -> Any:
        """What a unit spends as a PrivacyLossDistribution of dp-accounting, for `compose`.

        It is a pessimistic estimate on a grid, by doubles (connect the dots).
        value_discretization_interval: that grid's step.
        Raises: ImportError (dp-accounting is not there, or untested); ParameterError (more losses
            than memory has room for).

        >>> survey = dpfast.RandomizedResponse(epsilon=1, categories=100)
        >>> losses = survey.privacy_loss_distribution().self_compose(50)
        >>> round(losses.get_epsilon_for_delta(1e-6), 2)
        8.82
        """
        pairs = response.pairs(self._each, self.categories, self.coin)
        sides = [(response.losses(pair), partial(response.delta, pair)) for pair in pairs]
        step = parameters.step_of_losses(value_discretization_interval)
        return port.accounting().response_losses(sides, self.epsilon, self.answers_per_unit, step)

    def dp_event(self) -> Any:
        """What a unit spends as a DpEvent of dp-accounting, for REPLACE_ONE, its adjacency.

        Its accountants take events of Laplace noise for ADD_OR_REMOVE_ONE alone, so none takes
        both; `compose` does. The event of two coins is that of two categories at their epsilon,
        which is no better [KOV15]. Rounded to less noise.
        Raises: ImportError (dp-accounting is not there, or untested).

        >>> dpfast.RandomizedResponse(epsilon=1, categories=2).dp_event()
        RandomizedResponseDpEvent(noise_parameter=0.5378828427399901, num_buckets=2)
        """
        k = self.categories
        truths = exact.rounded_up(lambda: (exact.ball(self._each).exp() + (k - 1)) / k)
        return port.accounting().randomized_response_event(truths, k, self.answers_per_unit)

    # ------------------------------------------------------------------ answers

    @unseeded
    def release(self, answers: npt.ArrayLike, /) -> npt.NDArray[Any]:
        """Noisy answers, of the same shape and dtype.

        answers: integers from 0 to categories - 1 of any shape, of a dtype that holds them all; or
            bools for two categories. A row is one unit's, of at most answers_per_unit answers.
        Raises: DTypeError, ParameterError (an answer that is no category; more columns than
            answers_per_unit); EntropyError.
        Privacy: spends epsilon, for each unit, if no unit gives more than answers_per_unit answers.
            In an array of one dimension, whose they are is not seen.

        >>> dpfast.RandomizedResponse(epsilon=1, categories=3).release(np.array([0, 2, 1, 1])).shape
        (4,)
        """
        return self._release(answers)

    def _release(self, answers: npt.ArrayLike, charge: Callable[[], None] | None = None, /) -> npt.NDArray[Any]:
        """charge: what a ledger does once the answers are found right, or it raises."""
        array = plain_array("answers", answers, "integers or bools")
        refuse_less(array, self)
        if array.dtype.kind not in ("iub" if self.categories == 2 else "iu") or array.dtype.itemsize > 8:
            raise DTypeError(
                f"answers must be integers{' or bools' if self.categories == 2 else ''}, not {array.dtype}"
            )
        if array.dtype.kind != "b" and np.iinfo(array.dtype).max < self.categories - 1:
            raise DTypeError(
                f"answers must be of a dtype that holds all {self.categories} categories, not {array.dtype}"
            )
        if (columns := math.prod(array.shape[1:])) > self.answers_per_unit:
            raise ParameterError(
                f"answers must have a row a unit, of at most answers_per_unit={self.answers_per_unit}, got shape {array.shape}: "
                f"RandomizedResponse(…, answers_per_unit={columns}) has one epsilon for all of a unit's answers"
            )
        said = array.astype(np.int64)  # a copy, and what is checked: another thread may write the array meanwhile
        try:
            # 2^63 and more, of uint64, are negative.
            if said.size and not (said.min() >= 0 and said.max() < self.categories):
                raise UnusableValuesError(f"answers must lie between 0 and {self.categories - 1}")
            if charge is not None:
                charge()
            return self._answered(said.reshape(-1)).astype(array.dtype).reshape(said.shape)
        finally:
            said.fill(0)

    def _answered(self, said: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """In place."""
        stream = _native.StreamKey()
        words = np.empty(said.size, np.uint64)
        try:
            stream.draw()
            _native.key_stream(stream, words)
            self._respond(said, words, stream)
        finally:
            stream.wipe()
            words.fill(0)
        return said

    def _respond(self, said: npt.NDArray[np.int64], words: npt.NDArray[np.uint64], stream: _native.StreamKey) -> None:
        undecided = np.empty(min(said.size, FEW), np.int64)
        for begin in range(0, said.size, FEW):
            block, digits = said[begin : begin + FEW], words[begin : begin + FEW]
            with _native.own_mode():
                n = kernels.kernel("respond")(block, digits, *self._lines, self.categories, undecided)
            for at in undecided[:n].tolist():
                answer = int(block[at])
                block[at] = (answer + self._exactly(answer, int(digits[at]), stream, begin + at)) % self.categories

    def _exactly(self, answer: int, word: int, stream: _native.StreamKey, index: int) -> int:
        """How many places on the answer moves, by as many digits as that takes."""
        law = self._laws[answer if self.coin is not None else 0]
        prefix, bits = word, 64
        for level in range(exact.MAX_LEVELS):
            found = law.step(prefix, bits)
            if found is not None:
                return found
            more = stream.block(index, _native.nonce(level, RESPONSE))
            prefix, bits = prefix << 512 | int.from_bytes(more, "little"), bits + 512
        raise DpfastError("the stream has no more digits for an answer")

    @lockfree_property
    def _laws(self) -> tuple[exact.Response, ...]:
        """The law of each answer for the coins, else one for all."""
        if self.coin is None:
            return (exact.Categories(self._each, self.categories),)
        p = self.coin
        return exact.Coin(1 - p + p * p), exact.Coin(p * (2 - p))  # the truth is said: no, yes

    @lockfree_property
    def _lines(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The line V = U slope - offset: slope and offset, rounded."""
        if self.coin is None:
            e = exact.nearest_double(128 + MOST_EPSILON * 2, lambda: exact.ball(self._each).exp())
            return np.array([e + (self.categories - 1)]), np.array([e])
        keeps = [law.keep for law in self._laws if isinstance(law, exact.Coin)]
        slopes = [1 / (1 - keep) for keep in keeps]
        return np.array([float(s) for s in slopes]), np.array(
            [float(s * keep) for s, keep in zip(slopes, keeps, strict=True)]
        )

    # ------------------------------------------------------------------ what the answers say

    def estimate(self, reports: npt.ArrayLike, /, confidence: Real = Fraction(95, 100)) -> Estimate:
        """Shares of the true answers, from released ones. Post-processing: costs nothing.

        reports: released answers to one question, such as one column of them. The share of category
            j is (reported share - a)/b: j is said with probability a if it is not true, and a + b
            if it is. For the coins it is (reported share of yes - p(1 - p))/p. It is unbiased, so a
            rare category may come out below 0. The interval is Clopper and Pearson's for the
            reported share, carried over. Each category's own holds with probability `confidence`
            for units drawn at random, or very nearly so for any given units [Hoeffding 1956].
        Raises: DTypeError, ParameterError: no reports, or some that are no category.

        >>> survey = dpfast.RandomizedResponse(epsilon=1, categories=2)
        >>> found = survey.estimate(survey.release(np.arange(1000) < 300))
        >>> type(found)._fields
        ('share', 'lower', 'upper')
        """
        level = parameters.probability("confidence", confidence)
        array = plain_array("reports", reports, "integers or bools")
        if array.dtype.kind not in "iub":
            raise DTypeError(f"reports must be integers or bools, not {array.dtype}")
        said = array.reshape(-1).astype(np.int64)
        if said.size == 0 or said.min() < 0 or said.max() >= self.categories:
            raise ParameterError(f"reports must be one or more numbers between 0 and {self.categories - 1}")
        counts = np.bincount(said, minlength=self.categories)
        false, gain = self._said
        tail = float(1 - level) / 2
        ends = {n: (lower_bound(n, said.size, tail), upper_bound(n, said.size, tail)) for n in set(counts.tolist())}
        low, high = (np.array([ends[n][end] for n in counts.tolist()]) for end in (0, 1))
        return Estimate(*((share - false) / gain for share in (counts / said.size, low, high)))

    @property
    def _said(self) -> tuple[npt.NDArray[np.float64], float]:
        """P(j is said if it is not true), for each j, and how much likelier it is if it is true."""
        if self.coin is not None:
            p = float(self.coin)
            return np.array([(1 - p) ** 2, p * (1 - p)]), p
        e = float(self._each)
        whole = 1 + (self.categories - 1) * math.exp(-e)  # both divided by E
        return np.full(self.categories, math.exp(-e) / whole), -math.expm1(-e) / whole

    def _entries(self) -> dict[str, object]:
        return {**super()._entries(), "adjacency": "substitution"}


def _answers(answers_per_unit: int) -> int:
    found = parameters.whole("answers_per_unit", answers_per_unit, 1)
    if found > MOST_ANSWERS:
        raise ParameterError(f"answers_per_unit must be at most 2**31, got {shown(answers_per_unit)}")
    return found


def _each(epsilon: Real, answers: int) -> Fraction:
    """The epsilon of one answer."""
    found = parameters.exact_positive("epsilon", epsilon, decimal=True) / answers
    if not LEAST <= found <= MOST_EPSILON:
        raise ParameterError(
            f"epsilon must be at least 2**-1000 and at most {MOST_EPSILON} for each answer, got {shown(epsilon)}"
        )
    return found
