# SPDX-License-Identifier: Apache-2.0
"""Quantiles of values of rows, in total or by key: trees over cells of values, and one charge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpfast.counts.records.bounded_histogram import EACH_ROW, Bounds, Caps
from dpfast.counts.records.leaves import Edges, InCells, leaf_counts, leaf_sensitivity
from dpfast.counts.records.payment import Payment
from dpfast.counts.records.places import Known, domain_keys
from dpfast.counts.trees.noise import TreeNoise, variance_of
from dpfast.counts.trees.noisy_tree import Estimate, NoisyTree, doubt_of
from dpfast.counts.trees.release import noised
from dpfast.counts.trees.shape import forest
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.release.columns import refuse_unread
from dpfast.privacy.parameters import Real, probability, shown, unseeded, whole

if TYPE_CHECKING:
    from dpfast.ledger import Ledger
    from dpfast.noise.release.counts import BoundedCounts
    from dpfast.noise.release.key import ReleaseKey
    from dpfast.privacy.guarantee import Guarantee


PLACES = 1_000  # in a tree at which `reach` looks, at most


def reach(cells: int, levels: Sequence[Any], guarantee: Guarantee, confidence: Real) -> int:
    """By how much estimated rows up to a cell are off at most, in one tree over so many cells.

    levels: the mechanisms of its noise, leaves first. Raises: ParameterError (not so many levels).
    """
    shape, gaussian = forest(1, cells), isinstance(levels[0], DiscreteGaussian)
    if len(levels) != len(shape.sizes) - 1:
        raise ParameterError(f"levels must be {len(shape.sizes) - 1} over {cells:,} cells, got {len(levels):,}")
    variances = [*map(variance_of, levels), None]  # the total has no noise of its own
    tree = NoisyTree(shape, np.zeros(shape.offsets[-1], np.int64), variances, gaussian, guarantee)
    ends = np.linspace(1, shape.leaves, min(PLACES, shape.leaves)).astype(np.int64)
    return int(np.ceil(tree.range_sum(0, ends, confidence).upper.max()))


class Trees(NamedTuple):
    """A tree for each key, over the cells of the values: known before a row is read."""

    edges: Edges
    keys: int
    caps: Caps
    noise: TreeNoise

    @classmethod
    def of(
        cls, edges: Edges, keys: int, bounds: Bounds, *, epsilon: Real | None, delta: Real | None, rho: Real | None
    ) -> Trees:
        """The budget is that of all trees together. Raises: DTypeError, ParameterError."""
        caps, _ = bounds.checked(summed=False)
        change = leaf_sensitivity(bounds, caps, keys, edges.cells)
        shape, one = forest(keys, edges.cells), forest(1, edges.cells)
        highest = len(one.sizes) - 2  # as of one tree by default: the total of a key has no noise of its own
        shares = [Fraction(level <= highest) for level in range(len(shape.sizes))]
        return cls(edges, keys, caps, TreeNoise(shape, change, epsilon, delta, rho, lambda *_: shares))

    def counts(
        self, values: InCells, unit_ids: Any, by: Any, known: Known | None, key: ReleaseKey | None
    ) -> BoundedCounts:
        """The counts of the leaves. Raises: DTypeError, ParameterError, UnusableValuesError."""
        return leaf_counts(values, unit_ids, by, known, key, self.caps, self.noise.sensitivity)

    def released(self, counts: BoundedCounts, threads: int | None = None, **payment: Any) -> list[NoisyTree]:
        """The trees of the keys, in their order, once they are paid. payment: a Payment's fields.

        Raises: what a release raises.
        """
        noise, one = self.noise, forest(1, self.edges.cells)
        nodes = noised(noise, counts, Payment.of(**payment), threads)
        levels = [noise.shape.level(nodes, i).reshape(self.keys, -1) for i in range(len(one.sizes))]
        variances, gaussian = noise.variances[: len(levels)], isinstance(noise.levels[0], DiscreteGaussian)
        return [
            NoisyTree(one, np.concatenate([level[k] for level in levels]), variances, gaussian, noise.guarantee)
            for k in range(self.keys)
        ]

    def estimate(self, tree: NoisyTree, q: Real, confidence: Real, *, whole: bool) -> Estimate:
        """whole: whether values are integers: a cell ends by 1 before the next edge."""
        found, edges = tree.quantile(q, confidence), self.edges
        end = min(edges.edge(found.upper + 1) - (1 if whole else 0), edges.upper)
        return Estimate(*map(self._plain, (edges.edge(found.value), edges.edge(found.lower), end)))

    def _plain(self, edge: Fraction) -> int | float:
        return int(edge) if self.edges.whole else float(edge)


@unseeded
def quantiles(
    values: Any,
    unit_ids: Any,
    q: Sequence[Real],
    *,
    lower: Real,
    upper: Real,
    step: Real | None = None,
    by: Any = None,
    domain: Any = None,
    max_partitions: int | None = None,
    max_per_partition: int | None = None,
    max_contributions: int | None = None,
    adjacency: str = "add-remove",
    unit: str | None = None,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    confidence: Real = 0.95,
    threads: int | None = None,
    ledger: Ledger | None = None,
    label: str | None = None,
    key: ReleaseKey | None = None,
    resume: bool = False,
) -> Any:
    """Medians, quartiles and other quantiles of a column, in total or by key.

    values: of rows: integers, float64 or float32, in one dimension.
    unit_ids: the id of each row's unit, as of bounded_histogram; or EACH_ROW.
    q: shares strictly between 0 and 1, such as [0.25, 0.5]. All of them are read from one tree, and
        more of them cost nothing.
    lower, upper: public ends, to which values are clamped. A float is taken by its shortest
        decimal, as step is.
    step: how wide the cells are: 1 by default for integers, and required for real values. It
        divides upper - lower, into at most 2^20 cells, whose lower edges are lower, lower + step
        and so on up to upper. The last one holds what is clamped from above.
    by, domain: keys of the rows, a column or several, and the public keys that there can be, both
        as of bounded_histogram. All keys together have at most 2^24 cells.
    max_partitions, max_per_partition, max_contributions: keys in which a unit's rows count, its
        rows in one, and its rows in all, at most: as of bounded_histogram. Without `by` there is
        one key, and max_partitions is left out.
    adjacency, unit: those of what is spent; unit is "person" by default, or "row".
    epsilon: for discrete Laplace noise; epsilon and delta, or rho, for discrete Gaussian noise: the
        budget of *all* keys and all q together.
    confidence: of each interval on its own.
    threads, ledger, label, key, resume: as of `tree`. A try that resumes may ask for other q.

    Returns: a list of an Estimate for each q, in their order; with `by` a dict from each key of the
        domain to such a list. The value is the lower edge of the first cell whose estimated share
        reaches q. The interval holds the quantile of the clamped values that the caps leave: from
        the edge below its cell to the end of its cell. Numbers are ints if lower and step are
        whole. The interval of a key without rows is nearly always from lower to upper.
    Privacy: spends the budget once, for the adjacency and the unit. One unit may reach as many
        cells as it has rows left (dpfast/counts/records/leaves.py), and the noise is for that.
    Raises: DTypeError, ParameterError; UnusableValuesError (NaN among values); EntropyError; under
        a key or from a ledger what these raise. What can be refused is refused before a charge.

    >>> ages = np.array([31, 45, 27, 62, 38] * 200)
    >>> found = dpfast.quantiles(ages, dpfast.EACH_ROW, [0.5, 0.9], lower=0, upper=120, epsilon=1)
    >>> [round(each.value) for each in found]
    [38, 62]
    """
    payment = Payment.of(ledger, label, key, resume)
    asked = shares_of_rows(q)
    doubt_of(confidence)
    if threads is not None:
        whole("threads", threads, 1)
    if (by is None) != (domain is None):
        raise ParameterError(
            "by and domain must be given together: keys of rows, and the public keys that there can be"
        )
    refuse_unread("unit_ids", unit_ids)
    usual = EACH_ROW.value if unit_ids is EACH_ROW else "person"
    bounds = Bounds(
        max_partitions, max_per_partition, max_contributions, adjacency=adjacency, unit=usual if unit is None else unit
    )
    if unit_ids is EACH_ROW:
        bounds = bounds.of_each_row()
    if by is None:
        bounds = _of_one_key(bounds)
    cells = InCells(values, lower, upper, step)
    known = None if by is None else domain_keys(domain, by, "by")
    trees = Trees.of(cells.edges, known.size if known else 1, bounds, epsilon=epsilon, delta=delta, rho=rho)
    counts = trees.counts(cells, unit_ids, by, known, key)
    found = [
        [trees.estimate(tree, share, confidence, whole=cells.whole) for share in asked]
        for tree in trees.released(counts, threads, **payment._asdict())
    ]
    return dict(zip(known.names().tolist(), found, strict=True)) if known else found[0]


def shares_of_rows(q: Any) -> list[Fraction]:
    """Raises: DTypeError, ParameterError."""
    if isinstance(q, (str, bytes, AbstractSet)) or not isinstance(q, Iterable) or getattr(q, "ndim", 1) != 1:
        raise DTypeError(f"q must be a list of shares, such as [0.25, 0.5], not {type(q).__name__}")
    found = [probability("q", each, decimal=True) for each in q]
    if not found:
        raise ParameterError("q must contain at least one share, such as 0.5")
    return found


def _of_one_key(bounds: Bounds) -> Bounds:
    """Those of rows without keys. Raises: ParameterError."""
    cap = bounds.max_partitions
    if cap is not None and whole("max_partitions", cap, 1) != 1:
        raise ParameterError(f"max_partitions must be left out without by, got {shown(cap)}")
    if bounds.max_per_partition is None is bounds.max_contributions:
        raise ParameterError("max_contributions must be given: rows that count of one unit, at most")
    return bounds._replace(max_partitions=1)
