# SPDX-License-Identifier: Apache-2.0
"""The shape of a tree: public, and the same for every kind of tree."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.columns import Column, column, columns_of
from dpfast.privacy.parameters import whole

Places = npt.NDArray[np.int64]
BRANCHING = 8
ORDER = "name the groups from the lowest level up, and sort the rows by the highest level, then the next, and so on"


class Shape:
    """Nodes are numbered from the leaves up, level by level; the root comes last.

    sizes: the nodes of each level: the leaves, then each level above, then the root.
    first: the first child of each inner node, and one past the last child of the root. Children of
        one node follow each other, and so do the families.
    names: of the nodes of each level, where they have any.
    together: so many leaves follow each other in which one unit adds in all what it may add to one.
    """

    def __init__(
        self, leaves: int, starts: list[Places], names: list[npt.NDArray[Any] | None], together: int = 1
    ) -> None:
        """starts: of each level above the leaves, the first child of each node in its own level."""
        self.together = together
        self.sizes = (leaves, *(each.size for each in starts))
        self.offsets = (0, *np.cumsum(self.sizes).tolist())
        shifted = [each + at for each, at in zip(starts, self.offsets, strict=False)]
        self.first: Places = np.concatenate([*shifted, [self.offsets[-2]]]).astype(np.int64, copy=False)
        self.names = tuple(names)

    @property
    def leaves(self) -> int:
        return self.sizes[0]

    @property
    def ends(self) -> Places:
        """One past the last inner node of each level above the leaves."""
        return np.array(self.offsets[2:], np.int64) - self.leaves

    @property
    def digest(self) -> bytes:
        """Equal for equal shapes alone."""
        return sha256(self.first.astype("<i8", copy=False).data).digest()

    @property
    def terms(self) -> dict[str, str]:
        """What a seal names of it: the groups of each level, each with its first leaf."""
        named = [
            list(zip(names.tolist(), self.begins(level).tolist(), strict=True))
            for level, names in enumerate(self.names)
            if names is not None
        ]
        return {"levels": json.dumps(named, ensure_ascii=False)} if named else {}

    def level(self, nodes: npt.NDArray[Any], level: int) -> npt.NDArray[Any]:
        """The part of an array of all nodes that belongs to a level."""
        return nodes[self.offsets[level] : self.offsets[level + 1]]

    def begins(self, level: int) -> Places:
        """The first leaf under each node of a level."""
        nodes = np.arange(self.offsets[level], self.offsets[level + 1])
        for _ in range(level):
            nodes = self.first[nodes - self.leaves]
        return nodes

    def most_leaves(self, level: int) -> int:
        """The most leaves under a node of a level."""
        return int(np.diff(self.begins(level), append=self.leaves).max()) if level else 1

    def meeting(self, level: int) -> int:
        """How many parts of one unit, each bounded as in a leaf, meet in a node of a level."""
        return -(-self.most_leaves(level) // self.together)

    def taken(self, ranges: npt.NDArray[np.int64], highest: int) -> npt.NDArray[np.float64]:
        """How many nodes of each level up to `highest` make a range of leaves, on average."""
        low, high = ranges[:, 0], ranges[:, 1]
        found = np.zeros(len(self.sizes))
        for level, size in enumerate(self.sizes):
            if level == highest:
                found[level] = (high - low).mean()
                break
            above = slice(self.offsets[level + 1] - self.leaves, self.offsets[level + 2] - self.leaves)
            edges = np.append(self.first[above] - self.offsets[level], size)
            inner = np.searchsorted(edges, low), np.searchsorted(edges, high, side="right") - 1
            whole_ones = inner[0] < inner[1]
            rest = np.where(whole_ones, edges[inner[0]] - low + high - edges[inner[1]], high - low)
            found[level] = rest.mean()
            low, high = np.where(whole_ones, inner, 0)
        return found


def regular(leaves: int, branching: object) -> Shape:
    """Each node has `branching` children; the last of a level may have fewer.

    Raises: DTypeError, ParameterError.
    """
    starts = _starts(leaves, whole("branching", branching, 2))
    return Shape(leaves, starts, [None] * (len(starts) + 1))


def forest(trees: int, leaves: int) -> Shape:
    """Regular trees of equal size, one after the other, under a root if they are several.

    In all leaves of a tree together one unit adds what it may add to one of them.
    """
    own = _starts(leaves, BRANCHING)
    sizes = leaves, *(each.size for each in own)
    starts = [(np.arange(trees)[:, None] * size + each).ravel() for each, size in zip(own, sizes, strict=False)]
    if trees > 1:
        starts.append(np.zeros(1, np.int64))
    return Shape(trees * leaves, starts, [None] * (len(starts) + 1), together=leaves)


def _starts(leaves: int, branching: int) -> list[Places]:
    size, starts = leaves, list[Places]()
    while size > 1:
        starts.append(np.arange(0, size, min(branching, size), dtype=np.int64))
        size = starts[-1].size
    return starts


def named(leaves: int, levels: Iterable[Any]) -> Shape:
    """From columns that name each leaf's group at each level.

    Raises: DTypeError, ParameterError.
    """
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Iterable) or getattr(levels, "ndim", 1) == 0:
        raise DTypeError(f"levels must be a list of columns, one for each level, not {type(levels).__name__}")
    columns = [column(f"levels[{i}]", each) for i, each in enumerate(columns_of(levels) or levels)]
    if not columns:
        raise ParameterError("levels must contain at least one column; branching= makes a tree without names")
    begins: list[Places] = []
    for i, each in enumerate(columns):
        if each.codes.size != leaves:
            raise ParameterError(f"levels[{i}] must name a group for each leaf: {leaves:,}, got {each.codes.size:,}")
        begins.append(_groups(i, each, begins[-1] if begins else None))
    names = [None, *(_names(each, of) for each, of in zip(columns, begins, strict=True))]
    if begins[-1].size > 1:  # a root that has no name
        begins.append(np.zeros(1, np.int64))
        names.append(None)
    return Shape(leaves, [begins[0], *(np.searchsorted(below, above) for below, above in pairwise(begins))], names)


def _groups(level: int, names: Column, below: Places | None) -> Places:
    """The first leaf of each group. below: of each group of the level below; None of the leaves.

    Each level must have fewer groups than the one below. So no level comes back, and a cycle is
    refused.
    """
    begins = np.flatnonzero(np.append(True, names.codes[1:] != names.codes[:-1]))
    if np.unique(names.codes[begins]).size < begins.size:
        raise ParameterError(f"levels[{level}] must name neighbours alike, and a group is in two places: {ORDER}")
    if below is not None and not np.isin(begins, below, assume_unique=True).all():
        raise ParameterError(
            f"levels[{level}] must contain whole groups of levels[{level - 1}], and one of these has two parents: {ORDER}"
        )
    if begins.size == (names.codes if below is None else below).size:
        under = "the leaves" if level == 0 else f"levels[{level - 1}]"
        raise ParameterError(
            f"levels[{level}] must have fewer groups than {under}: leave out a level that joins nothing"
        )
    return begins


def _names(column: Column, begins: Places) -> npt.NDArray[Any]:
    codes = column.codes[begins]
    return codes if column.texts is None else np.array([column.texts[i] for i in codes.tolist()], object)
