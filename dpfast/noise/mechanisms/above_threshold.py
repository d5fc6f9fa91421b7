# SPDX-License-Identifier: Apache-2.0
"""The sparse vector technique, once: the first of many answers that is above a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.mechanisms.equals import fitted
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.mechanisms.one_answer import OneAnswer
from dpfast.noise.release.counts import refuse_less
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, unseeded
from dpfast.privacy.sensitivity import Sensitivity

DRAWS = 64  # noise for so many answers at a time


class AboveThreshold(OneAnswer):
    """Tells which answer is the first whose noisy value reaches a noisy threshold, and no more.

    epsilon: int, Fraction, Decimal, float (its shortest decimal) or text. A run spends it
        once, however long.
    threshold: an int, public.
    sensitivity: the most that one unit changes a single answer: a number, or a Sensitivity's linf.
    monotonic: whether every answer moves the same way when one unit is added, as counts do. Under
        add-remove the answers' noise is then half as wide. By default as for Exponential.
    adjacency, unit: as for DiscreteLaplace.

    The threshold gets discrete Laplace noise of scale 2 sensitivity/epsilon, and each answer its
    own of scale 4 sensitivity/epsilon (2 if monotonic). Comparison is exact, in integers.

    Privacy: a run is epsilon-differentially private (delta = 0). It ends at the first answer above;
        a second run spends epsilon again. Less noise would cost up to 1.5 epsilon: that of
        monotonic answers if answers move both ways, or both noises halved if they are monotonic.
        Its rho is the generic one, epsilon tanh(epsilon/2), for no less is proved. At epsilon = 1
        it is 0.462; a search over up to 1,000 answers found none above 0.058, or 0.08 if
        monotonic.
    Raises: DTypeError, ParameterError (also for sensitivity/epsilon outside 2^-60 to 2^48).
    Source: Dwork, Roth 2014, 3.6, Algorithm 1, Theorem 3.23; monotonic answers: Lyu, Su, Li 2017.

    >>> busy = dpfast.AboveThreshold(epsilon=1, sensitivity=1, threshold=1000)
    >>> busy.run([3, 5, 100_000, 7])  # noise of such a reach has probability below 1e-10000
    2
    """

    NAME: ClassVar[str] = "above_threshold"
    threshold: int

    @fitted
    def __init__(
        self,
        epsilon: Real,
        sensitivity: Real | Sensitivity,
        *,
        threshold: int,
        monotonic: bool | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> None:
        self._keep_answer(epsilon, sensitivity, monotonic, adjacency, unit)
        if not 2**-60 <= self.sensitivity / self.epsilon <= 2**48:  # so that all noise fits int64
            raise ParameterError(
                "sensitivity/epsilon must lie between 2**-60 and 2**48, "
                + parameters.given(epsilon=epsilon, sensitivity=sensitivity)
            )
        self._keep(threshold=parameters.whole("threshold", threshold))

    @lockfree_property
    def _noise(self) -> tuple[DiscreteLaplace, DiscreteLaplace]:
        """The noise of the threshold, and that of an answer."""
        of_threshold = DiscreteLaplace(self.epsilon / 2, self.sensitivity)
        return of_threshold, of_threshold if self.monotonic else DiscreteLaplace(self.epsilon / 4, self.sensitivity)

    @unseeded
    def run(self, answers: Iterable[int]) -> int | None:
        """The index of the first answer above, counted from 0; None if there is none.

        answers: integers, or a generator of them; none is read after the first above.
        Raises: DTypeError (no integer), ParameterError (one of more than 4,096 bits); EntropyError.
        Privacy: spends epsilon once, whatever comes out, an error included.

        >>> quiet = dpfast.AboveThreshold(epsilon=1, sensitivity=1, threshold=100_000)
        >>> quiet.run([3, 5, 2]) is None
        True
        """
        return self._release(answers)

    def _release(self, answers: Iterable[int], charge: Callable[[], None] | None = None, /) -> int | None:
        """charge: what a ledger does before the first answer is read, or it raises."""
        of_threshold, of_answer = self._noise
        refuse_less(answers, self)
        try:
            given = iter(answers)
        except TypeError:
            raise DTypeError(
                f"answers must be integers that can be read one by one, not {type(answers).__name__}"
            ) from None
        if charge is not None:
            charge()
        least = self.threshold + _drawn(of_threshold, 1)[0]
        noise = _draws(of_answer)
        for index, answer in enumerate(given):
            if parameters.whole("each of answers", answer) + next(noise) >= least:
                return index
        return None


def _draws(noise: DiscreteLaplace) -> Iterator[int]:
    while True:
        yield from _drawn(noise, DRAWS)


def _drawn(noise: DiscreteLaplace, n: int) -> list[int]:
    draws = noise.sample(n)
    try:
        found: list[int] = draws.tolist()
        return found
    finally:
        draws.fill(0)
