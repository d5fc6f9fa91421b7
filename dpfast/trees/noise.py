# SPDX-License-Identifier: Apache-2.0
"""The noise of a tree: a mechanism for each level, and what all spend together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast import kernels
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.described import Payable
from dpfast.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.mechanisms.integer import IntegerMechanism
from dpfast.privacy import parameters
from dpfast.privacy.composition import compose
from dpfast.privacy.gaussian import rho_of
from dpfast.privacy.guarantee import Guarantee, warn_if_weak
from dpfast.privacy.parameters import Real
from dpfast.privacy.record import unwritten, written
from dpfast.privacy.sensitivity import Sensitivity
from dpfast.release.arrays import ENDS, INT64, CountArray, integer_array
from dpfast.release.seal import Levels
from dpfast.trees.shape import Shape

GRID = 2**20  # steps in which the shares of a workload are rounded
LEAST = 1 / 64  # a workload leaves this part of the largest share to the leaves


class TreeNoise(Payable):
    """Noise on every level of a tree: of each node's own sum, by its level's own sensitivity."""

    NAME: ClassVar[str] = "tree"
    OPTIONS = frozenset({"threads"})
    spent: Guarantee = written(metadata=lambda spent: spent._entries(), words=lambda spent: spent._facts())  # noqa: SLF001
    sensitivity: Sensitivity = written(metadata=unwritten, words=lambda s: {"sensitivity": repr(s)})
    levels: tuple[IntegerMechanism | None, ...] = written(
        metadata=lambda levels: {"levels": [each and each.metadata() for each in levels]},
        words=lambda levels: {"levels": str(len(levels))},
    )  # leaves first; None: without noise, and so not released
    shape: Shape = written(metadata=unwritten, words=unwritten, compare=False)

    def __init__(
        self,
        shape: Shape,
        sensitivity: Sensitivity,
        epsilon: Real | None,
        delta: Real | None,
        rho: Real | None,
        shares: Callable[[list[Sensitivity], bool], list[Fraction]],
    ) -> None:
        """shares: the levels' shares, from their sensitivities and whether noise is Gaussian."""
        if not isinstance(sensitivity, Sensitivity):
            raise DTypeError(
                f"sensitivity must be a Sensitivity(l0, linf) or Sensitivity(l1=…), not {type(sensitivity).__name__}"
            )
        if (epsilon is None) == (rho is None) or (delta is not None and epsilon is None):
            raise ParameterError("epsilon, epsilon and delta, or rho must be given: the budget of the whole tree")
        gaussian = rho is not None or delta is not None
        name, asked = ("rho", rho) if epsilon is None else ("epsilon", epsilon)
        total = parameters.exact_positive(name, asked, decimal=True)
        warn_if_weak(name, total)
        if delta is not None:
            exact_delta = parameters.probability("delta", delta, decimal=True)
            warn_if_weak("delta", exact_delta)
            total = rho_of(total, exact_delta)
        changes = [sensitivity.of_sums(size, shape.most_leaves(level)) for level, size in enumerate(shape.sizes)]
        parts = shares(changes, gaussian)
        made = [
            None
            if part == 0
            else DiscreteGaussian.from_zcdp(total * part / sum(parts), change)
            if gaussian
            else DiscreteLaplace(total * part / sum(parts), change)
            for part, change in zip(parts, changes, strict=True)
        ]
        spent = compose(*(each for each in made if each is not None))
        if delta is not None:
            spent = _known_for(spent, epsilon, delta)
        self._keep(spent=spent, sensitivity=sensitivity, levels=tuple(made), shape=shape)

    @property
    def guarantee(self) -> Guarantee:
        """What all levels spend together."""
        return self.spent

    def _refuse_less(self, change: Sensitivity) -> None:
        for level, mechanism in enumerate(self.levels):
            if mechanism is not None:
                sums, leaves = self.shape.sizes[level], self.shape.most_leaves(level)
                mechanism._refuse_less(change.of_sums(sums, leaves))  # noqa: SLF001

    @property
    def variances(self) -> list[float | None]:
        """Those of the levels; of Gaussian noise sigma^2, which is a little more."""
        return [None if each is None else float(getattr(each, "sigma_squared", each.variance)) for each in self.levels]

    @property
    def columns(self) -> Levels:
        """The levels that get noise, for a seal."""
        named = {f"level {i}": each for i, each in enumerate(self.levels) if each is not None}
        return Levels(named, self.guarantee)

    def true(self, counts: CountArray) -> npt.NDArray[np.int64]:
        """The true counts of all nodes, within int64: a copy, in which they get their noise."""
        nodes = np.empty(self.shape.offsets[-1], np.int64)
        leaves = self.shape.level(nodes, 0)
        if counts.dtype.kind == "u" and counts.dtype.itemsize == INT64.itemsize:
            np.minimum(counts, np.uint64(ENDS["i", 8][1]), out=leaves.view(np.uint64))
        else:
            leaves[:] = counts
        kernels.kernel("node_sums")(leaves, self.shape.first, nodes[leaves.size :])
        return nodes

    def release(self, counts: Any, *, threads: int | None = None) -> npt.NDArray[np.int64]:
        """The noisy counts of all nodes, from the counts of the leaves: int64; 0 without noise.

        Privacy: spends the guarantee.
        """
        return self._release(counts, threads=threads)

    def _release(
        self, values: Any, charge: Callable[..., None] | None = None, /, *, threads: int | None = None
    ) -> npt.NDArray[np.int64]:
        """The noisy counts of all nodes, each level from its own stream; 0 where no noise is."""
        if threads is not None:
            parameters.whole("threads", threads, 1)
        nodes = self.true(checked(values, self.shape))
        with wiped_on_errors(nodes):
            if charge is not None:
                charge()
            for i, mechanism in enumerate(self.levels):
                level = self.shape.level(nodes, i)
                if mechanism is None:
                    level.fill(0)
                else:
                    mechanism.release(level, out=level, threads=threads)
        return nodes


def _known_for(spent: Guarantee, epsilon: Real | None, delta: Real) -> Guarantee:
    """The same rho, and an epsilon and delta that it implies; so does a smaller one."""
    added = spent.add_remove and _known_for(spent.add_remove, epsilon, delta)
    return Guarantee(epsilon, delta, rho=spent.rho, adjacency=spent.adjacency, unit=spent.unit, add_remove=added)


def checked(counts: Any, shape: Shape | None = None) -> CountArray:
    """The counts of the leaves. Raises: DTypeError, ParameterError."""
    array = integer_array("counts", counts)
    if array.ndim != 1 or array.size == 0:
        raise ParameterError(f"counts must have one dimension and at least one leaf, got shape {array.shape}")
    if shape is not None and array.size != shape.leaves:
        raise ParameterError(f"counts must be one for each leaf: {shape.leaves:,}, got {array.size:,}")
    return array


@contextmanager
def wiped_on_errors(nodes: npt.NDArray[np.int64]) -> Iterator[None]:
    """Nodes that have not all got their noise are zeroed."""
    try:
        yield
    except BaseException:
        nodes.fill(0)
        raise


# ------------------------------------------------------------------ shares of the budget


def shares_of(
    shape: Shape, weights: Any, workload: Any, *, root: bool
) -> Callable[[list[Sensitivity], bool], list[Fraction]]:
    """Raises: DTypeError, ParameterError."""
    if weights is not None and workload is not None:
        raise ParameterError("weights or workload must be given, not both: each shares out the budget")
    top = len(shape.sizes) - 1
    if weights is not None:
        if root:
            raise ParameterError("root must be left out beside weights: their last is the root's")
        given = _weights(weights, top + 1)
        return lambda *_: given
    highest = top if root or top == 0 else top - 1
    if workload is not None:
        taken = shape.taken(_ranges(workload, shape.leaves), highest)
        return lambda changes, gaussian: _for_workload(taken, changes, gaussian=gaussian)
    return lambda *_: [Fraction(level <= highest) for level in range(top + 1)]


def _weights(weights: Any, levels: int) -> list[Fraction]:
    try:
        given = list(weights)
    except TypeError:
        raise DTypeError(f"weights must be a list, one for each level, not {type(weights).__name__}") from None
    found = [parameters.exact_real("weights", each, "finite and not negative") for each in given]
    if len(found) != levels:
        raise ParameterError(
            f"weights must be one for each level, from the leaves to the root: {levels}, got {len(found)}"
        )
    if min(found) < 0 or found[0] == 0:
        raise ParameterError("weights must not be negative, and that of the leaves, the first, must be positive")
    return found


def _ranges(workload: Any, leaves: int) -> npt.NDArray[np.int64]:
    array = integer_array("workload", workload)
    if array.ndim != 2 or array.shape[1] != 2 or array.size == 0:
        raise ParameterError("workload must have rows (begin, end), at least one: ranges of leaves")
    if (array < 0).any() or (array > leaves).any() or (array[:, 0] > array[:, 1]).any():
        raise ParameterError(f"workload must be ranges within 0 to {leaves:,}, begin at most end")
    return array.astype(np.int64)


def _for_workload(taken: npt.NDArray[np.float64], changes: list[Sensitivity], *, gaussian: bool) -> list[Fraction]:
    """The shares that make the mean variance of the workload least, before least squares.

    A level's noise has variance s/x^2 (Laplace, s = l1^2) or s/x (Gaussian, s = l2^2) for its share
    x, and comes in `taken` times: by Lagrange, x is as (taken s)^(1/3), or as (taken s)^(1/2).
    """
    of = [float(c.l2_squared if gaussian else c.l1**2) for c in changes]  # type: ignore[operator]
    found = (taken * of) ** (1 / 2 if gaussian else 1 / 3)
    if not found.any():
        raise ParameterError("workload must hold a range that is not empty")
    found[0] = max(found[0], found.max() * LEAST)
    return [Fraction(round(share / found.max() * GRID), GRID) for share in found.tolist()]
