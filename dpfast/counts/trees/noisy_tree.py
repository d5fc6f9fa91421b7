# SPDX-License-Identifier: Apache-2.0
"""What is computed from noisy levels: post-processing, which spends nothing."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast.counts.trees.shape import Places, Shape
from dpfast.errors import ParameterError
from dpfast.noise import kernels
from dpfast.noise.release.arrays import integer_array
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.parameters import Real, probability, shown, whole

Reals = npt.NDArray[np.float64]
MOST_WHOLE = 2**48  # up to which doubles round a family's sum by far less than 1
LEAST = 2.0**-200  # for a smaller variance, which has no inverse in doubles
FEW_LEAVES = 512  # up to here one call for all sums is sooner than a call for each step of a search
RAREST = 1e-300  # doubt below this is next to no double


class Estimate(NamedTuple):
    """Estimates, and the ends of their intervals: scalars or arrays, as the question was."""

    value: Any
    lower: Any
    upper: Any


class _Ranges(NamedTuple):
    """Sums over ranges of leaves: estimates, variances, and covariances with the total."""

    sums: Reals
    variances: Reals
    with_total: Reals


class NoisyTree:
    """A released tree. `tree` makes it; all that it tells is post-processing and spends nothing.

    noisy: the released levels, leaves first: int64; None for a level without noise of its own.
    names: of the nodes of each level, from `levels=`, or None.
    guarantee: what the release spent.

    >>> one = dpfast.Sensitivity(l0=1, linf=1)
    >>> tree = dpfast.tree(range(16), branching=4, epsilon=1, sensitivity=one)
    >>> tree
    <NoisyTree of 16 leaves, 3 levels; <Guarantee epsilon=1, ...>>
    """

    _known: tuple[Reals, Reals] | None = None

    def __init__(
        self,
        shape: Shape,
        nodes: npt.NDArray[np.int64],
        variances: list[float | None],
        gaussian: bool,
        guarantee: Guarantee,
    ) -> None:
        """variances: of each level's noise, sigma^2 of Gaussian noise; None without noise."""
        self._shape, self._nodes, self._gaussian = shape, nodes, gaussian
        self._of_noise = [None if each is None else max(each, LEAST) for each in variances]
        self.guarantee = guarantee

    @property
    def noisy(self) -> tuple[npt.NDArray[np.int64] | None, ...]:
        return tuple(None if v is None else self._level(self._nodes, i) for i, v in enumerate(self._of_noise))

    @property
    def names(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return self._shape.names

    @property
    def _solved(self) -> tuple[Reals, Reals]:
        """Computed once, and without a lock, which a fork would leave held for ever."""
        if self._known is None:
            self._known = self._solve()
        return self._known

    def _solve(self) -> tuple[Reals, Reals]:
        """The estimates of all nodes; and the variances of inner nodes, each from below alone."""
        shape, nodes = self._shape, self._nodes.astype(np.float64)
        precisions = np.array([0.0 if v is None else 1 / v for v in self._of_noise])
        variances = np.empty(nodes.size - shape.leaves)
        kernels.kernel("least_squares")(nodes, shape.leaves, shape.first, shape.ends, precisions, variances)
        return nodes, variances

    @property
    def estimates(self) -> tuple[Reals, ...]:
        """The least-squares estimates of each level, leaves first, the root last: float64.

        Children add up to their parents, but for rounding in doubles. They have no bias, and no
        linear estimate without one has less variance. They can be negative.
        Source: Hay, Rastogi, Miklau, Suciu 2010, section 4; Honaker 2015, whose weights are by
        variances.

        >>> one = dpfast.Sensitivity(l0=1, linf=1)
        >>> tree = dpfast.tree(range(16), branching=4, epsilon=1, sensitivity=one)
        >>> [level.size for level in tree.estimates]
        [16, 4, 1]
        """
        return tuple(self._level(self._solved[0], i) for i in range(len(self._shape.sizes)))

    def _level(self, nodes: npt.NDArray[Any], level: int) -> npt.NDArray[Any]:
        """To read alone, for intervals are made of it."""
        found = self._shape.level(nodes, level)
        found.flags.writeable = False
        return found

    def spans(self, level: int) -> tuple[Places, Places]:
        """The ranges of leaves under the nodes of a level: `tree.range_sum(*tree.spans(1))`.

        level: 0 for the leaves. Returns: begins and ends, int64, one of each node.
        Raises: DTypeError, ParameterError.

        >>> one = dpfast.Sensitivity(l0=1, linf=1)
        >>> tree = dpfast.tree(range(16), branching=4, epsilon=1, sensitivity=one)
        >>> begins, ends = tree.spans(1)
        >>> begins.tolist(), ends.tolist()
        ([0, 4, 8, 12], [4, 8, 12, 16])
        """
        at = whole("level", level, 0)
        if at >= len(self._shape.sizes):
            raise ParameterError(
                f"level must be below {len(self._shape.sizes)}, the levels of this tree, got {shown(level)}"
            )
        begins = self._shape.begins(at)
        return begins, np.append(begins[1:], self._shape.leaves)

    def range_sum(self, begin: npt.ArrayLike, end: npt.ArrayLike, confidence: Real = 0.95) -> Estimate:
        """The counts in leaves begin up to end - 1, in all: estimates with intervals.

        begin, end: integers or arrays of them, 0 <= begin <= end <= leaves. confidence: of each
            interval on its own.
        Returns: an Estimate of float64, in counts. Each interval holds its true sum with this
            probability, by the noise's own variance; it is wide for noise of a few steps of 1.
            (A sum of the tree's noises is taken to be no wider than one of them, or than a normal
            variable of its variance.)
        Raises: DTypeError, ParameterError.

            >>> noisy = dpfast.tree([3, 0, 7, 2], branching=2, epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
            >>> found = noisy.range_sum(1, 3)
            >>> bool(found.lower < found.value < found.upper)
            True
        """
        begins, ends = self._places("begin", begin), self._places("end", end)
        try:
            begins, ends = np.broadcast_arrays(begins, ends)
        except ValueError:
            raise ParameterError(
                f"begin and end must be of one shape, or one of them a number, got {begins.shape} and {ends.shape}"
            ) from None
        if (begins > ends).any():
            raise ParameterError("begin must be at most end, in every range")
        found = self._ranges(begins.reshape(-1), ends.reshape(-1))
        half = self._half(found.variances, self._z(doubt_of(confidence)))
        return _estimate(begins.shape, found.sums, found.sums - half, found.sums + half)

    def cdf(self, places: npt.ArrayLike, confidence: Real = 0.95) -> Estimate:
        """The share of the total in the leaves 0 to `places`, both included, with intervals.

        places: leaves, integers or an array of them. confidence: of each interval on its own.
        Returns: an Estimate within [0, 1]. Intervals are Fieller's, for a ratio: they are [0, 1]
            where the total may as well be 0. An estimated total that is not above 0 gives NaN.
        Raises: DTypeError, ParameterError.

        >>> tree = dpfast.tree([100_000] * 16, epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
        >>> tree.cdf([7, 15]).value.round(3).tolist()
        [0.5, 1.0]
        """
        at = self._places("places", places, self._shape.leaves - 1)
        below = self._ranges(np.zeros(at.size, np.int64), at.reshape(-1) + 1)
        total, variance, z2 = *self._total, self._z(doubt_of(confidence)) ** 2
        value = np.clip(below.sums / total, 0, 1) if total > 0 else np.full(at.size, np.nan)
        # All f with |sum - f total| <= z sd(sum - f total) + 1/2. The ends are roots of
        # a f^2 - 2 b f + c.
        a = total**2 - z2 * variance
        ends = []
        for sign in (-1, 1):
            moved = below.sums + sign * 0.5
            b, c = moved * total - z2 * below.with_total, moved**2 - z2 * below.variances
            root = np.sqrt(np.maximum(b * b - a * c, 0))
            known = (a > 0) & (total > 0)
            ends.append(np.where(known, (b + sign * root) / (a if known else 1), (1 + sign) / 2))
        lower, upper = (np.clip(end, 0, 1) for end in ends)
        return _estimate(at.shape, value, lower, upper)

    def quantile(self, p: Real, confidence: Real = 0.95) -> Estimate:
        """The leaf in which the share p of the total is reached, with an interval of leaves.

        p: strictly between 0 and 1. Counts must not be negative: then there is one such leaf.
        Returns: an Estimate of ints. The interval (both ends included) holds the true leaf with at
            least this probability. Its ends are searched in log2(leaves) steps that share it, so it
            is wider than one for a known leaf.
        Raises: DTypeError, ParameterError.

        >>> tree = dpfast.tree([1000] * 16, epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
        >>> median = tree.quantile(0.5)
        >>> median.lower <= 8 and median.upper >= 7
        True
        """
        share, leaves = float(probability("p", p)), self._shape.leaves
        steps = max(1, math.ceil(math.log2(leaves)))
        z = self._z(doubt_of(confidence) / steps)
        total, variance = self._total

        def surely(upto: Places) -> npt.NDArray[np.float64]:
            """The sign of the sum of the leaves before, less share * total; 0 if not sure."""
            below = self._ranges(np.zeros_like(upto), upto)
            square = below.variances - 2 * share * below.with_total + share**2 * variance
            off = below.sums - share * total
            return np.where(np.abs(off) > self._half(np.maximum(square, LEAST), z), np.sign(off), 0)

        every = surely(np.arange(1, leaves)) if leaves <= FEW_LEAVES else None

        def least(sign: int) -> int:
            """Where a binary search for the first leaf of this sign, or of a higher one, ends."""
            low, high = 0, leaves - 1
            while low < high:
                middle = (low + high) // 2
                there = surely(np.array([middle + 1]))[0] if every is None else every[middle]
                low, high = (low, middle) if there >= sign else (middle + 1, high)
            return low

        return Estimate(self._descend(share), least(0), least(1))

    def _descend(self, share: float) -> int:
        """The leaf at a share of the total, children below 0 taken for 0."""
        shape, nodes = self._shape, self._solved[0]
        node: int = shape.offsets[-1] - 1
        while node >= shape.leaves:
            begin, end = shape.first[node - shape.leaves : node - shape.leaves + 2].tolist()
            upto = np.cumsum(np.maximum(nodes[begin:end], 0))
            found = min(int(np.searchsorted(upto, share * upto[-1])), end - begin - 1)
            before = upto[found - 1] if found else 0.0
            own = upto[found] - before
            share = min(max((share * upto[-1] - before) / own, 0.0), 1.0) if own > 0 else share
            node = begin + found
        return node

    def integers(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Whole numbers of all levels, none negative, that add up: int64, leaves first.

        From the root down each family becomes the nearest whole numbers >= 0 to its estimates that
        add up to its parent. They are projected onto the simplex and rounded down, and the largest
        remainders get 1 more. Bias: children near 0 come out too high, and their large siblings too
        low by as much in all. The reason is that a negative estimate has nowhere else to go. Totals
        far above the noise keep theirs. The intervals of this class are those of the estimates, and
        not of these numbers.
        Raises: ParameterError (an estimated total beyond 2^48).
        Source: Abowd et al. 2022, the TopDown algorithm.

        >>> tree = dpfast.tree([3, 0, 7, 2], epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
        >>> leaves, *_, root = tree.integers()
        >>> bool(leaves.sum() == root[0] and (leaves >= 0).all())
        True
        """
        shape, nodes = self._shape, self._solved[0]
        total = float(nodes[-1])
        if total > MOST_WHOLE:
            raise ParameterError(
                f"integers needs an estimated total of at most 2**48, got {total:.6g}; estimates has no limit"
            )
        found = np.empty(nodes.size, np.int64)
        found[-1] = max(round(total), 0)
        kernels.kernel("top_down")(nodes, found, shape.leaves, shape.first)
        return tuple(shape.level(found, i) for i in range(len(shape.sizes)))

    # ------------------------------------------------------------------ what intervals are made of

    @property
    def _total(self) -> tuple[float, float]:
        """The estimate of the root, and its variance."""
        nodes, variances = self._solved
        return float(nodes[-1]), float(variances[-1] if variances.size else self._of_noise[0] or 0)

    def _ranges(self, begins: Places, ends: Places) -> _Ranges:
        nodes, variances = self._solved
        sums, shares, rests = (np.empty(begins.size) for _ in range(3))
        kernels.kernel("range_sums")(
            nodes, self._shape.leaves, self._of_noise[0], variances, self._shape.first,
            np.ascontiguousarray(begins), np.ascontiguousarray(ends), sums, shares, rests,
        )  # fmt: skip
        of_root = self._total[1]
        return _Ranges(sums, shares**2 * of_root + rests, shares * of_root)

    def _half(self, variances: Reals, z: float) -> Reals:
        return z * np.sqrt(variances) + 0.5 * (variances > 0)  # noise has steps of 1

    def _z(self, doubt: float) -> float:
        """How many standard deviations hold a sum of the tree's noise but for so much probability.

        Those of a normal variable; for Laplace noise, if that is more, those of one such variable:
        of rate r its standard deviation is 1/(sqrt(2) sinh(r/2)), and the smallest noise, whose
        shape is farthest from a normal one, has the most.
        """
        normal = -NormalDist().inv_cdf(doubt / 2)
        if self._gaussian:
            return normal
        least = math.sqrt(min(each for each in self._of_noise if each is not None))
        return max(normal, -math.log(doubt) / (2 * least * math.asinh(1 / (math.sqrt(2) * least))))

    def _places(self, name: str, value: npt.ArrayLike, most: int | None = None) -> Places:
        array = integer_array(name, value)
        last = self._shape.leaves if most is None else most
        if (array < 0).any() or (array > last).any():
            raise ParameterError(f"{name} must lie within 0 to {last:,}")
        return array.astype(np.int64)

    def __repr__(self) -> str:
        return f"<NoisyTree of {self._shape.leaves:,} leaves, {len(self._shape.sizes)} levels; {self.guarantee!r}>"


def doubt_of(confidence: Real) -> float:
    """Raises: DTypeError, ParameterError."""
    found = float(1 - probability("confidence", confidence))
    if found < RAREST:
        raise ParameterError(f"confidence must be at most 1 - {RAREST:g}, got {shown(confidence)}")
    return found


def _estimate(shape: tuple[int, ...], *found: Reals) -> Estimate:
    return Estimate(*(each.reshape(shape)[()] for each in found))
