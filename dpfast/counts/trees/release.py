# SPDX-License-Identifier: Apache-2.0
"""From counts of leaves to a noisy tree: one release, one charge."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpfast.counts.records.payment import Payment
from dpfast.counts.trees.noise import TreeNoise, checked, shares_of, wiped_on_errors
from dpfast.counts.trees.noisy_tree import NoisyTree
from dpfast.counts.trees.shape import BRANCHING, named, regular
from dpfast.errors import ParameterError, WeakGuaranteeWarning, caller
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.release.counts import origin_of, refuse_less
from dpfast.noise.release.key import release_key, sealing
from dpfast.privacy.parameters import Real, flag, unseeded, whole
from dpfast.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpfast.ledger import Ledger
    from dpfast.noise.release.arrays import CountArray
    from dpfast.noise.release.key import ReleaseKey

MANY = 10**6  # leaves: as many as a table of people has rows
SUSPECTED = (
    "counts has {:,} cells, one a leaf: values of people, such as their ages, are no counts, and the sensitivity is "
    "not theirs; dpfast.quantiles takes these. Of counts, levels= names what a node sums"
)


@unseeded
def tree(
    counts: npt.ArrayLike,
    *,
    branching: int | None = None,
    levels: Any = None,
    sensitivity: Sensitivity,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    weights: Any = None,
    workload: Any = None,
    root: bool = False,
    threads: int | None = None,
    ledger: Ledger | None = None,
    label: str | None = None,
    key: ReleaseKey | None = None,
    resume: bool = False,
) -> NoisyTree:
    """Release counts as a tree: noise on every level, so that sums over many leaves have little.

    For ranges, CDFs and quantiles of ordered leaves, and for areas within areas.

    counts: of the leaves, integers in one dimension, at least one. Leaves are public: list all. A
        million and more without levels= may be values rather than counts, and give a
        WeakGuaranteeWarning, except for counts of bounded_histogram.
    branching: how many children a node has, at least 2; by default 8, which serves both kinds of
        noise. Random ranges are best at 8 to 16 under Laplace noise, at 2 to 8 under Gaussian noise
        (docs/trees.md).
    levels: instead of branching, one column for each level above the leaves, from the lowest up,
        that names each leaf's group: integers or strings, in a list, NumPy, pandas, Polars or
        Arrow. A group lies within one group of the next level, and its leaves follow each other. So
        the rows are sorted by the highest level, then by the next. Both are public.
    sensitivity: of the *leaves*: Sensitivity(l0, linf), or (l1=). What a unit contributes to
        several leaves meets above them. A sum moves by up to l0 linf, and each level gets noise for
        its own sensitivity (`Sensitivity.of_sums`). Counts of bounded_histogram refuse a smaller
        one.
    epsilon: for discrete Laplace noise; epsilon and delta, or rho, for discrete Gaussian noise. The
        budget of *all* levels. epsilon and delta are met through rho of zCDP.
    weights: the levels' shares of the budget, from the leaves to the root; 0 for a level without
        noise, but not for the leaves. By default all are equal, and the root has none.
    workload: instead, public ranges (begin, end) of leaves, an array (m, 2): the shares that make
        their mean variance least, before least squares.
    root: whether the total gets noise of its own. Without it the total is estimated from below.
        Under substitution it costs less than its share: what replaces something keeps the total.
    threads: as of a mechanism's release; one under a key.
    ledger: charged once, before any noise is drawn. label: for its history, without a key.
    key, resume: as of a mechanism's release. Each level is a column of one seal, which names the
        groups, too.

    Sums are exact, and brought into int64 at the end, for an error would tell that they are large.
    Returns: a NoisyTree, which answers at no further cost.
    Privacy: the whole tree spends `guarantee`: epsilon (delta = 0), or rho, or both figures of
        epsilon and delta; for the adjacency and the unit of the sensitivity.
    Raises: DTypeError, ParameterError; EntropyError; under a key or from a ledger what these raise.
        None but OtherInputError depends on the counts' values.
    Source: Hay, Rastogi, Miklau, Suciu 2010; Honaker 2015; Qardaji, Yang, Li 2013 (branching).

        >>> ages = [120, 80, 3, 0, 41, 17, 9, 26]
        >>> noisy = dpfast.tree(ages, branching=2, epsilon=1, sensitivity=dpfast.Sensitivity(1, 1))
        >>> [each.size for each in noisy.estimates]
        [8, 4, 2, 1]
        >>> noisy.guarantee
        <Guarantee epsilon=1, rho=0.165140413, adjacency='add-remove', unit='person'>
    """
    payment = Payment.of(ledger, label, key, resume)
    if branching is not None and levels is not None:
        raise ParameterError("branching or levels must be given, not both")
    if threads is not None:
        whole("threads", threads, 1)
    leaves = checked(counts)
    if levels is None and leaves.size >= MANY and origin_of(counts) is None:
        warnings.warn(SUSPECTED.format(leaves.size), WeakGuaranteeWarning, stacklevel=caller())
    shape = (
        regular(leaves.size, BRANCHING if branching is None else branching)
        if levels is None
        else named(leaves.size, levels)
    )
    shares = shares_of(shape, weights, workload, root=flag("root", root))
    noise = TreeNoise(shape, sensitivity, epsilon, delta, rho, shares)
    noisy = noised(noise, leaves, payment, threads)
    gaussian = isinstance(noise.levels[0], DiscreteGaussian)
    return NoisyTree(shape, noisy, noise.variances, gaussian, noise.guarantee)


def noised(noise: TreeNoise, leaves: CountArray, payment: Payment, threads: int | None) -> npt.NDArray[np.int64]:
    """The noisy counts of all nodes, once they are paid.

    Raises: what a release raises; ParameterError (counts whose change the noise does not hide).
    """
    refuse_less(leaves, noise)
    if payment.key is None:
        found: npt.NDArray[np.int64] = payment.release(noise, leaves, threads=threads)
        return found
    key = release_key(sealing(payment.key, leaves))
    return _sealed(noise, leaves, key._naming(noise.shape.terms), payment)  # noqa: SLF001  the names of groups are public


def _sealed(noise: TreeNoise, counts: CountArray, key: ReleaseKey, payment: Payment) -> npt.NDArray[np.int64]:
    """The noisy counts of all nodes: a column for each level, one reservation for all."""
    columns, shape = noise.columns, noise.shape
    payment.expect(key, columns)
    nodes = noise.true(counts)
    with wiped_on_errors(nodes):
        levels = {f"level {i}": shape.level(nodes, i) for i in range(len(shape.sizes))}
        sizes = tuple(levels[name].size for name in columns)
        payment.noise(key, columns, levels, shape=sizes, source=shape.digest)
        for name in levels.keys() - columns.keys():
            levels[name].fill(0)
    return nodes
