# SPDX-License-Identifier: Apache-2.0
"""All steps at once, and what is computed from noisy totals, which spends nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpfast.counts.running.steps import refuse_over_time, without_ledger
from dpfast.counts.running.totals import RunningTotals
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.arrays import integer_array
from dpfast.noise.release.counts import refuse_less
from dpfast.privacy.parameters import Real, flag, unseeded, whole

if TYPE_CHECKING:
    from dpfast.counts.running.buffers import Reals
    from dpfast.noise.release.key import ReleaseKey
    from dpfast.privacy.guarantee import Guarantee


class NoisyTotals:
    """Running totals with noise; `running_totals` makes them. What they tell spends nothing.

    values: float64 of shape (steps, cells): the total of each cell after each step. They have no
        bias, may be negative, and may fall.
    totals: the RunningTotals that they were made by.

    >>> totals = dpfast.RunningTotals(7, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
    >>> noisy = dpfast.running_totals(totals, [[3, 0], [5, 1], [4, 2]])
    >>> noisy
    <NoisyTotals of 2 cells after 3 steps; <Guarantee rho=1, ...>>
    """

    def __init__(self, totals: RunningTotals, values: Reals, last: int | None = None) -> None:
        self.totals, self.values, self._last = totals, values, last

    @property
    def guarantee(self) -> Guarantee:
        """What all steps spent together.

        >>> totals = dpfast.RunningTotals(7, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> dpfast.running_totals(totals, [[3], [5]]).guarantee.rho
        Fraction(1, 1)
        """
        return self.totals.guarantee

    def interval(self, level: Real = Fraction(95, 100)) -> Reals:
        """How far from the truth each value of a step may lie, with this probability: (steps,).

        Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(7, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> dpfast.running_totals(totals, [[3], [5]]).interval(0.95).shape
        (2,)
        """
        return np.array([self.totals.interval(t + 1, level, self._last) for t in range(len(self.values))])

    def last(self, steps: int) -> NoisyTotals:
        """The sums of the last steps, with intervals of their own: windows over time.

        A window is a difference of two totals, which share most of their noise, so its interval is
        less than theirs together. Windows of fewer than about 8 steps have more noise than counts
        with noise of their own would have.
        Raises: DTypeError, ParameterError (also of windows themselves).

        >>> totals = dpfast.RunningTotals(30, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> weeks = dpfast.running_totals(totals, [[9]] * 30).last(7)
        >>> weeks.values.shape
        (30, 1)
        """
        if self._last is not None:
            raise ParameterError("last is of totals, and these are windows: ask the totals themselves")
        seen = whole("steps", steps, 1)
        values = self.values.copy()
        values[seen:] -= self.values[:-seen]
        return NoisyTotals(self.totals, values, seen)

    def rising(self) -> Reals:
        """Totals that never fall and are never negative: the largest so far, from 0 up.

        What was published of a step stays as it is. It is biased upwards: of totals that stand
        still by up to some standard deviations, and the intervals are not of these values.
        Raises: ParameterError (windows).

        >>> totals = dpfast.RunningTotals(30, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> bool((np.diff(dpfast.running_totals(totals, [[1]] * 30).rising(), axis=0) >= 0).all())
        True
        """
        if self._last is not None:
            raise ParameterError(
                "rising is of totals, and these are windows, which may fall: ask the totals themselves"
            )
        found: Reals = np.maximum.accumulate(np.maximum(self.values, 0), axis=0)
        return found

    def __repr__(self) -> str:
        steps, cells = self.values.shape
        windows = "" if self._last is None else f", windows of {self._last}"
        return f"<NoisyTotals of {cells} cells after {steps} steps{windows}; {self.guarantee!r}>"


@unseeded
def running_totals(
    totals: RunningTotals,
    counts: npt.ArrayLike,
    *,
    key: ReleaseKey | None = None,
    names: Any = None,
    resume: bool = False,
) -> NoisyTotals:
    """Release the running totals of all steps at once.

    totals: how many steps, what one unit contributes, and the budget.
    counts: integers of shape (steps, cells), what each step adds to each cell; at most the ceiling
        of steps. Counts are clamped to the bound of the totals.
    key: a release key: the same noise for the same totals, names and counts, wherever and however
        often. They are the bytes that `ledger.running` gives under it, step by step.
    names: under a key, of the cells, a column of integers or strings, each once, in any order.
    resume: whether this is the release again that was begun under the key's label. It may have more
        steps by now, or fewer.

    Returns: a NoisyTotals.
    Privacy: spends totals.guarantee, once for all steps, and each call spends it anew; under a key
        once for these counts, of whatever number of steps. Other counts under it, also of one early
        step, are another release, and spend it once more: a record of this process refuses them,
        and other processes do not know. A ledger pays for `ledger.running(totals, …)` alone.
    Raises: DTypeError, ParameterError; EntropyError; KeyReuseError (the label names a release
        already). OtherInputError alone depends on the counts' values.

        >>> totals = dpfast.RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
        >>> per_day = np.ones((365, 4), np.int64)  # sign-ups, by region
        >>> noisy = dpfast.running_totals(totals, per_day)
        >>> noisy.values.shape, bool(abs(noisy.values[-1] - 365).max() < 10 * totals.stddev(365))
        ((365, 4), True)
        >>> options = {"key": dpfast.Key.generate().derive("sign-ups"), "names": ["Lima", "Oslo"]}
        >>> first = dpfast.running_totals(totals, [[3, 0], [5, 1]], **options)
        >>> more = dpfast.running_totals(totals, [[3, 0], [5, 1], [4, 2]], **options, resume=True)
        >>> bool((more.values[:2] == first.values).all())
        True
    """
    if not isinstance(totals, RunningTotals):
        raise DTypeError(f"totals must be RunningTotals, not {type(totals).__name__}")
    array = integer_array("counts", counts)
    if array.ndim != 2 or 0 in array.shape:
        raise ParameterError(f"counts must have shape (steps, cells), with at least one of each, got {array.shape}")
    if len(array) > totals.ceiling:
        raise ParameterError(f"counts must be of at most {totals.ceiling:,} steps, the ceiling, got {len(array):,}")
    refuse_less(counts, totals)
    if len(array) > 1:
        refuse_over_time(counts, totals, len(array))
    totals._check_cells("counts", array.shape[1])  # noqa: SLF001  its own door
    if key is not None and names is None:
        raise ParameterError(
            "names must be given under a key: they are sealed with the counts, and matched in any order"
        )
    if key is not None:
        found = without_ledger(totals, array, key, names, resume=flag("resume", resume))
        return NoisyTotals(totals, found)
    if names is not None or resume is not False:
        what = "resume is" if names is None else "names are"
        raise ParameterError(f"{what} for a release under a key, and there is no key")
    encoder, decoder = totals.begin(array.shape[1])
    values = np.empty(array.shape)
    mechanism: Any = totals.mechanism
    for row, step in zip(values, array, strict=True):
        encoded, encoder = totals.encode(encoder, np.asarray(step))
        row[:], decoder = totals.decode(decoder, mechanism.release(encoded, out=encoded))
    return NoisyTotals(totals, values)
