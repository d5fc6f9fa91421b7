# SPDX-License-Identifier: Apache-2.0
"""The events that best tell two counts apart, chosen before they are tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from dpfast.evidence.audit.audited import Outputs
from dpfast.evidence.audit.families import Cells, Family, Mask, as_kind, families
from dpfast.privacy.exact.binomial import near_bound
from dpfast.privacy.formatting import output


@dataclass(frozen=True, eq=False)
class Event:
    family: Family
    mask: Mask

    def words(self) -> str:
        return self.family.words(self.mask)


class Pair(NamedTuple):
    """Two counts, and how many neighbours lead from one to the other."""

    first: float
    second: float
    steps: int

    @property
    def counts(self) -> tuple[float, float]:
        return self.first, self.second

    def words(self) -> str:
        return f"counts {output(self.first)} and {output(self.second)}"


class Chosen(NamedTuple):
    """An event to test, and the order of the counts."""

    score: float
    pair: Pair
    turned: bool
    event: Event


def choose(pair: Pair, build: Sequence[Outputs], rank: Sequence[Outputs], delta: float, z: float) -> list[Chosen]:
    """A pair's best events, best first: made from `build`, ordered by `rank`."""
    found = []
    if build[0].dtype.kind != build[1].dtype.kind:
        build = [as_kind(outputs, "f") for outputs in build]
    for family in families(cast("Outputs", np.concatenate(build))):
        built, ranked = [family.histogram(y) for y in build], [family.histogram(y) for y in rank]
        for turned in (False, True):
            a, b = built[:: -1 if turned else 1]
            for event in _candidates(family, a, b, z):
                hits = [int(h[event.mask].sum()) for h in ranked[:: -1 if turned else 1]]
                p, q = hits[0] / rank[0].size, (hits[1] + 1) / rank[0].size
                if p <= delta or p <= q:
                    continue
                score = float(_score(hits[0], rank[0].size, hits[1], rank[1].size, z)) / pair.steps
                found.append(Chosen(score, pair, turned, event))
    return sorted(found, key=lambda chosen: -chosen.score)


def _candidates(family: Family, a: Cells, b: Cells, z: float) -> list[Event]:
    """A family's events that best tell two counts apart: a tail each way, a cell, a set."""
    n, m = int(a.sum()), int(b.sum())
    masks = []
    if family.ordered:
        for ahead in (True, False):
            ends = [np.cumsum(hits[::-1] if ahead else hits) for hits in (a, b)]
            best = int(np.argmax(_score(ends[0][:-1], n, ends[1][:-1], m, z)))
            mask = np.zeros(family.size, bool)
            mask[family.size - 1 - best :] = ahead
            mask[: best + 1] |= not ahead
            masks.append(mask)
    seen = np.flatnonzero(a)
    if family.size > 2:
        single = np.zeros(family.size, bool)
        single[seen[np.argmax(_score(a[seen], n, b[seen], m, z))]] = True
        masks.append(single)
    order = seen[np.argsort(-(a[seen] + 0.5) / (b[seen] + 0.5), kind="stable")]
    best = int(np.argmax(_score(np.cumsum(a[order]), n, np.cumsum(b[order]), m, z)))
    mask = np.zeros(family.size, bool)
    mask[order[: best + 1]] = True
    return [Event(family, mask) for mask in [*masks, mask]]


def _score(a: Any, n: int, b: Any, m: int, z: float) -> npt.NDArray[np.float64]:
    """About the log-ratio that a and b hits would certify: it only chooses events."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(near_bound(a, n, z)) - np.log(near_bound(b, m, -z)))
