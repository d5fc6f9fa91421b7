# SPDX-License-Identifier: Apache-2.0
"""Histograms whose keys are private, too: only those are shown whose noisy count reaches a threshold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpfast.arrays import integer_array, plain_array
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.privacy import parameters
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.sensitivity import Sensitivity
from dpfast.privacy.threshold import least_threshold

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.arrays import CountArray
    from dpfast.privacy.parameters import Real


KINDS = "one kind that sorts"


class Thresholded(NamedTuple):
    """What is shown: keys in sorted order, their noisy counts, the threshold that these reach, and what it cost."""

    keys: npt.NDArray[Any]
    counts: CountArray
    threshold: int
    guarantee: Guarantee


def thresholded(
    keys: npt.ArrayLike, counts: npt.ArrayLike, epsilon: Real, delta: Real, sensitivity: Sensitivity
) -> Thresholded:
    """Show the keys whose noisy count is at least a threshold, with that count: for keys that nobody knew beforehand.

    keys: one dimension, no two equal, of one kind that sorts: integers, strings, dates. They come back in the dtype given; but
        strings, and what was no array, in one that fits the keys shown, for its width would tell of a long hidden key.
    counts: integers, one for each key, not negative. Keys with a count of 0 do not enter: they are as good as absent.
    epsilon, delta: taken exactly; spent by every call.
    sensitivity: a Sensitivity: in how many keys (l0) and by how much in each (linf) one unit changes the counts.

    Each count gets discrete Laplace noise of scale l1/epsilon; the threshold is the least T above linf with
    1 - (1 - P(noise >= T - linf))^l0 <= delta, found in intervals. Of a key that only one unit has, nothing is shown
    but with probability delta. Keys that stay hidden are those with small counts: the histogram loses its tail.

    Privacy: each call is (epsilon, delta)-differentially private, for the adjacency and the unit of the sensitivity.
    Raises: DTypeError, ParameterError; EntropyError. No message shows a key or a count.
    Source: dpfast/privacy/threshold.py has the proof; Korolova, Kenthapadi, Mishra, Ntoulas 2009.
    """
    change = _cells(sensitivity)
    noise = DiscreteLaplace(epsilon, sensitivity)
    exact_delta = parameters.probability("delta", delta)
    threshold = least_threshold(noise.epsilon / noise.sensitivity, exact_delta, *change)
    typed = hasattr(keys, "dtype")
    # Copies, and what is checked: another thread may write the caller's arrays meanwhile.
    names = plain_array("keys", keys, KINDS, None if typed else object).copy()
    if not typed and names.ndim == 1:  # of rows of several lengths, those shown might make no array
        plain_array("keys", names.tolist(), KINDS)
    values = integer_array("counts", counts).copy()
    if names.ndim != 1 or values.shape != names.shape:
        raise ParameterError(
            f"keys and counts must have one dimension and equal lengths, got shapes {names.shape}, {values.shape}"
        )
    if values.size and values.min() < 0:
        raise ParameterError("counts must not be negative")
    present = values > 0
    names, values = names[present], values[present]
    order = _sorted(names)
    noisy = noise.release(values[order])
    shown = noisy >= threshold
    of_noise = noise.guarantee
    guarantee = Guarantee(
        of_noise.epsilon,
        exact_delta,
        adjacency=of_noise.adjacency,
        unit=of_noise.unit,
        presence=of_noise.presence,
    )
    found = names[order[shown]]
    if not typed or found.dtype.kind in "US":  # the width, or the kind, that hidden keys have asked for
        found = np.array(found.tolist(), found.dtype.kind if typed else None)
    return Thresholded(found, noisy[shown], threshold, guarantee)


def _cells(sensitivity: Sensitivity) -> tuple[int, int]:
    if not isinstance(sensitivity, Sensitivity):
        raise DTypeError(f"sensitivity must be a Sensitivity(l0, linf), not {type(sensitivity).__name__}")
    if sensitivity.l0 is None or sensitivity.linf is None:
        raise ParameterError("sensitivity must be known as l0 and linf here, and this one in L2 alone")
    if sensitivity.linf < 1:
        raise ParameterError(f"linf must be at least 1, for counts change by whole numbers, got {sensitivity.linf}")
    return sensitivity.l0, math.floor(sensitivity.linf)


def _sorted(names: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """The order that sorts the keys; no two may be equal, and none may be NaN."""
    try:
        order = np.argsort(names)
        ordered = names[order]
        equal = bool((ordered[1:] == ordered[:-1]).any())
        strange = bool((names != names).any())  # noqa: PLR0124  NaN, NaT
    except TypeError:
        raise DTypeError("keys must be of one kind that sorts, such as integers or strings") from None
    if equal or strange:
        raise ParameterError("keys must all be different, and none missing: each key has one count")
    return order
