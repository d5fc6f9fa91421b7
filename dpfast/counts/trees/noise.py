# SPDX-License-Identifier: Apache-2.0
"""The noise of a tree: a mechanism for each level, and what all spend together.

Under add-remove one unit can reach the worst change of every level at once, so the levels' costs
add up. A substitution cannot, if contributions are not negative: what stands in place of something
leaves the total. Let v be what the unit contributes before, w after; x and y their sums, x >= y; t
the most that a sum can be, that of the root. Level k has sums of v of at most L_k each. With noise
of its own a cell that moves by d costs g_k(d), convex, 0 at 0: d under Laplace noise, d^2 under
Gaussian noise, both times a constant. S_k(s) is the most that cells cost that move by at most L_k,
and by s in all: as many by L_k as s has room for, and one by the rest.
1. Below the root level k costs at most S_k(x) + S_k(y), for its sums of v and of w are >= 0. The
   root costs g(x - y). Both grow with x, so let x = t. No level costs more than `both`, what its
   own sensitivity says of a substitution. `one` is S_k(t), what it says under add-remove.
2. Let u = g(t - y)/g(t), for the g of the noise: of the root's cost a part u is left. Then S_k(y)
   <= (1 - u) S_k(t). Cells that move by y in all and others by t - y are among those of S_k(t), so
   S_k(y) + S_k(t - y) <= S_k(t). And S_k(s)/g(s) never grows with s, so S_k(t - y) >= u S_k(t). It
   is 1 for g(d) = d. For d^2 and s = (q + r) L_k, 0 <= r < 1, it is (q + r^2)/(q + r)^2 times a
   constant, and its slope in r is 2 q (r - 1)/(q + r)^3 times one, which is <= 0.
3. So all levels together cost at most the largest, over 0 <= u <= 1, of
       u root + sum over the others of min(both, one + (1 - u) one).
   It is a concave function whose slope changes where a level reaches `both`: the largest is at such
   a u, at 0 (the lowest common ancestor of what v and w touch is the root, which keeps its total)
   or at 1 (y = 0, a unit that is there or not). A lower ancestor keeps more sums, and costs less.
4. The rho of Laplace noise is its mean loss, which is convex, and neither d nor d^2 (privacy/
   laplace.py). With u = (t - y)/t the root costs at most the part u. Level k costs at most S_k(t) +
   y g_k(L_k)/L_k, so there the second `one` is t g_k(L_k)/L_k, for the floors of t and L_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast.counts.trees.shape import Shape
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise import kernels
from dpfast.noise.mechanisms.described import Payable
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.mechanisms.integer import IntegerMechanism
from dpfast.noise.release.arrays import ENDS, INT64, CountArray, integer_array
from dpfast.noise.release.seal import Levels
from dpfast.privacy import laplace, parameters
from dpfast.privacy.composition import compose
from dpfast.privacy.gaussian import rho_of
from dpfast.privacy.guarantee import Guarantee, warn_if_weak
from dpfast.privacy.parameters import Real
from dpfast.privacy.record import unwritten, written
from dpfast.privacy.sensitivity import Cells, Sensitivity

GRID = 2**20  # steps in which the shares of a workload are rounded
LEAST = 1 / 64  # a workload leaves this part of the largest share to the leaves


def variance_of(law: IntegerMechanism) -> float:
    """The variance of its noise; sigma^2 if it is Gaussian, which is a little more."""
    return float(getattr(law, "sigma_squared", law.variance))


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
        changes = [sensitivity.of_sums(size, shape.meeting(level)) for level, size in enumerate(shape.sizes)]
        parts = shares(changes, gaussian)
        cost = most([_of_share(part, change, gaussian=gaussian) for part, change in zip(parts, changes, strict=True)])
        made = [
            None
            if part == 0
            else DiscreteGaussian.from_zcdp(total * part / cost, change)
            if gaussian
            else DiscreteLaplace(total * part / cost, change)
            for part, change in zip(parts, changes, strict=True)
        ]
        spent = compose(*(each for each in made if each is not None))
        if _replaces(sensitivity):
            about: Any = {"adjacency": spent.adjacency, "unit": spent.unit, "add_remove": spent.add_remove}
            if gaussian:
                spent = Guarantee(rho=total, **about)
            else:
                spent = Guarantee(total, **about)._with_rho(partial(_rho, made, changes))  # noqa: SLF001
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
                sums, parts = self.shape.sizes[level], self.shape.meeting(level)
                mechanism._refuse_less(change.of_sums(sums, parts))  # noqa: SLF001

    @property
    def variances(self) -> list[float | None]:
        """Those of the levels."""
        return [None if each is None else variance_of(each) for each in self.levels]

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
    if getattr(counts, "dtype", None) in (np.float32, np.float64):
        raise DTypeError(
            f"counts must be counts of leaves, of an integer dtype, not {counts.dtype}: dpfast.quantiles takes values "
            "themselves, and astype('int64') makes counts of whole numbers"
        )
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


# ------------------------------------------------------------------ what levels cost together


class Cost(NamedTuple):
    """What a level costs at most: of one contribution, of another beside it, and of both."""

    one: Fraction
    other: Fraction
    both: Fraction


NO_COST = Cost(Fraction(0), Fraction(0), Fraction(0))


def most(costs: list[Cost]) -> Fraction:
    """The most that levels cost together, the root last: section 3 above."""
    *levels, root = costs
    bends = [(each.one + each.other - each.both) / each.other for each in levels if each.other]

    def cost(u: Fraction) -> Fraction:
        return sum((min(each.both, each.one + (1 - u) * each.other) for each in levels), u * root.one)

    return max(map(cost, [Fraction(0), Fraction(1), *(u for u in bends if 0 < u < 1)]))


def _replaces(sensitivity: Sensitivity) -> bool:
    """Whether what one unit contributes, >= 0, may stand in place of something."""
    return sensitivity.adjacency == "substitution" and not sensitivity.signed


def _of_share(part: Fraction, change: Sensitivity, *, gaussian: bool) -> Cost:
    """What a level costs whose noise is for so much of the budget."""
    if not _replaces(change):
        return Cost(part, Fraction(0), part)
    added: Any = change.add_remove
    ratio = added.l2_squared / change.l2_squared if gaussian else added.l1 / change.l1
    return Cost(part * ratio, part * ratio, part)


def _rho(made: list[Any], changes: list[Sensitivity]) -> Fraction:
    """That of all levels of Laplace noise: section 4 above."""
    total: Any = changes[-1].l1

    def cost(level: DiscreteLaplace, change: Any) -> Cost:
        furthest = Cells(1, change.linf)
        far = laplace.rho(level.epsilon / level.sensitivity, (furthest,), integers=True)
        added: Any = level.guarantee.add_remove
        return Cost(added.rho, math.floor(total) * far / max(1, math.floor(change.linf)), level.guarantee.rho)

    return most([cost(each, change) if each else NO_COST for each, change in zip(made, changes, strict=True)])


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
        raise ParameterError("workload must contain a range that is not empty")
    found[0] = max(found[0], found.max() * LEAST)
    return [Fraction(round(share / found.max() * GRID), GRID) for share in found.tolist()]
