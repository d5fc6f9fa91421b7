# SPDX-License-Identifier: Apache-2.0
"""Quantiles of rows: what a unit changes in leaves and levels, cells, answers, one charge."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from bounding import Caps as ReferenceCaps
from bounding import Choice, release_key, within

import dpfast
from dpfast import EACH_ROW, Ledger, quantiles
from dpfast.counts.records import leaves
from dpfast.counts.records.bounded_histogram import Bounds
from dpfast.counts.records.leaves import Edges, InCells
from dpfast.counts.records.places import domain_keys
from dpfast.counts.trees.noisy_tree import Estimate, NoisyTree
from dpfast.counts.trees.quantiles import Trees
from dpfast.counts.trees.shape import forest
from dpfast.errors import DpfastError, DTypeError, ParameterError, UnusableValuesError
from dpfast.privacy.exact.binomial import upper_bound

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.InsecureKeyWarning")

KEYS, CELLS, MOST_ROWS = ["a", "b"], 3, 4
Rows = tuple[tuple[str, int], ...]  # a key and a value each
CAPS: list[tuple[int | None, int | None, int | None]] = [
    (1, 1, None), (2, 1, None), (1, 2, None), (2, 2, None), (None, None, 1), (None, None, 3), (1, None, 2), (2, 2, 3), (None, 1, 2), (1, 3, 2),
]  # fmt: skip
ADJACENCIES = ["add-remove", "substitution"]
BUDGETS: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 1}]
each = pytest.mark.parametrize(("caps", "adjacency"), list(itertools.product(CAPS, ADJACENCIES)), ids=str)


# ------------------------------------------------------------------ what one unit changes


def trees_of(
    caps: Any, adjacency: str = "add-remove", *, keyed: bool = True, cells: int = CELLS, **budget: Any
) -> Trees:
    given = {"epsilon": None, "delta": None, "rho": None, **(budget or {"epsilon": 1})}
    bounds = Bounds(*caps, adjacency=adjacency)
    return Trees.of(Edges.of(0, cells - 1, 1), len(KEYS) if keyed else 1, bounds, **given)


def counted(trees: Trees, units: list[int], keys: list[str], values: list[int], *, keyed: bool = True) -> np.ndarray:
    by = np.array(keys, "U1")
    known = domain_keys(KEYS, by, "by") if keyed else None
    cells = InCells(np.array(values, np.int64), 0, int(trees.edges.upper), 1)
    return np.asarray(trees.counts(cells, np.array(units, np.int64), by, known, release_key(1)))


def own(trees: Trees, rows: Rows, *, keyed: bool = True) -> np.ndarray:
    """What one unit with these rows adds to the leaves."""
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    return counted(trees, [1] * len(rows), keys, values, keyed=keyed)


def all_rows() -> list[Rows]:
    kinds = list(itertools.product(KEYS, range(CELLS)))
    return [r for n in range(MOST_ROWS + 1) for r in itertools.combinations_with_replacement(kinds, n)]


@cache
def all_own(caps: Any, *, keyed: bool) -> np.ndarray:
    trees = trees_of(caps, keyed=keyed)
    return np.array([own(trees, rows, keyed=keyed) for rows in all_rows()])


def changes(trees: Trees, caps: Any, adjacency: str, *, keyed: bool = True) -> np.ndarray:
    """All that a neighbour changes in the leaves, each once: counts are sums over units.

    What a unit adds is the same under both adjacencies.
    """
    found = all_own(caps, keyed=keyed)
    assert all(
        (own(trees, rows, keyed=keyed) == each).all() for rows, each in zip(all_rows()[::9], found[::9], strict=True)
    )
    found = np.unique(found, axis=0)
    if adjacency == "substitution":
        found = (found[:, None] - found[None]).reshape(-1, found.shape[1])
    return np.unique(found[found.any(1)], axis=0)


def costs(trees: Trees, moved: np.ndarray, *, gaussian: bool) -> np.ndarray:
    """The epsilon, or rho, of each change, by the levels' noise itself."""
    shape, total = trees.noise.shape, np.zeros(len(moved))
    for i, law in enumerate(trees.noise.levels):
        if law is not None:
            by = np.abs(np.add.reduceat(moved, shape.begins(i), axis=1)).astype(float)
            total += (by**2).sum(1) / (2 * float(law.sigma_squared)) if gaussian else by.sum(1) / float(law.scale)
    return total


@pytest.mark.parametrize("keyed", [True, False], ids=["by", "total"])
@each
def test_no_neighbour_changes_more_than_stated_and_the_worst_costs_the_budget(caps, adjacency, keyed) -> None:
    if not keyed and caps[0] not in (None, 1):
        return
    caps = caps if keyed else (1, *caps[1:])
    if caps[1] is caps[2] is None:
        return
    trees = trees_of(caps, adjacency, keyed=keyed)
    moved = changes(trees, caps, adjacency, keyed=keyed)
    stated = trees.noise.sensitivity
    assert within(moved, stated)
    assert np.abs(moved).sum(1).max() == stated.l1
    assert (moved**2).sum(1).max() == stated.l2_squared
    for budget in BUDGETS:
        priced = trees_of(caps, adjacency, keyed=keyed, **budget)
        worst = costs(priced, moved, gaussian="rho" in budget).max()
        assert 1 - 1e-9 < worst < 1 + 1e-9


@each
def test_the_leaves_are_those_of_the_reference(caps, adjacency) -> None:
    """Rows of six units, whole: which are kept, and in which leaf each counts."""
    rng = np.random.default_rng(7)
    units, values = rng.integers(0, 6, 60), rng.integers(0, CELLS, 60)
    keys = np.array(["a", "b", "elsewhere"])[rng.integers(0, 3, 60)]
    found = counted(trees_of(caps, adjacency), units.tolist(), keys.tolist(), values.tolist())
    rows = [row for row in zip(units.tolist(), keys.tolist(), values.tolist(), strict=True) if row[1] in KEYS]
    wanted = Choice(release_key(1)).leaves(rows, ReferenceCaps(*caps))
    assert found.tolist() == [wanted[key, cell] for key in KEYS for cell in range(CELLS)]


def keys_alone(bounds: Bounds, caps: Any, keys: int, cells: int) -> dpfast.Sensitivity:
    """As if all rows that a unit has in a key lay in one cell, once."""
    stated = bounds.sensitivity(caps, None, keys)
    return dpfast.Sensitivity(stated.contributes.l0, 1, cells=keys * cells, adjacency=stated.adjacency)  # type: ignore[union-attr]


def without_meeting(change: dpfast.Sensitivity, sums: int, parts: int) -> dpfast.Sensitivity:
    return dpfast.Sensitivity(min(change.l0 or 1, sums), 1, adjacency=change.adjacency)


def test_planted_a_leaf_bound_that_forgets_that_a_unit_meets_several_cells(monkeypatch) -> None:
    monkeypatch.setattr("dpfast.counts.trees.quantiles.leaf_sensitivity", keys_alone)
    with pytest.raises(AssertionError):
        test_no_neighbour_changes_more_than_stated_and_the_worst_costs_the_budget((2, 2, None), "add-remove", True)


@pytest.mark.parametrize("wide", [9, 65, 130])
def test_larger_trees_cost_the_budget_and_no_more(wide) -> None:
    """Three levels and more: units at random, and those that meet in one leaf."""
    rng, caps = np.random.default_rng(wide), (2, 2, 3)
    for budget in BUDGETS:
        trees = trees_of(caps, cells=wide, **budget)
        rows = [(1, "a", 0), (1, "a", 0), (1, "b", 5)], [(1, "b", 8)] * 5
        drawn = [[(1, KEYS[i % 2], int(rng.integers(wide))) for i in range(n)] for n in range(1, 40)]
        moved = np.array([counted(trees, *map(list, zip(*each, strict=True))) for each in (*rows, *drawn)])
        found = costs(trees, moved, gaussian="rho" in budget)
        assert found.max() <= 1 + 1e-9
        assert found[0] > 1 - 1e-9


def test_planted_levels_within_a_key_as_if_nothing_met_there(monkeypatch) -> None:
    monkeypatch.setattr(dpfast.Sensitivity, "of_sums", without_meeting)
    with pytest.raises(AssertionError):
        test_larger_trees_cost_the_budget_and_no_more(9)


def test_planted_levels_within_a_key_as_if_keys_met_there(monkeypatch) -> None:
    """Then Gaussian noise would hide a sum that no node has."""
    monkeypatch.setattr("dpfast.counts.trees.shape.Shape.meeting", lambda self, level: self.most_leaves(level))
    with pytest.raises(AssertionError):
        test_larger_trees_cost_the_budget_and_no_more(9)


def test_the_trees_lie_side_by_side() -> None:
    """Each as a tree of its own; the root above them has no noise, nor has the total of a key."""
    for keys, cells in itertools.product((1, 2, 5), (2, 8, 9, 70)):
        shape, one = forest(keys, cells), forest(1, cells)
        for i, size in enumerate(one.sizes):
            begins = one.begins(i)
            assert shape.sizes[i] == keys * size
            assert shape.begins(i).tolist() == [k * cells + at for k in range(keys) for at in begins.tolist()]
        assert shape.sizes[len(one.sizes) :] == ((1,) if keys > 1 else ())
        laws = Trees.of(Edges.of(0, cells - 1, 1), keys, Bounds(1, 1), epsilon=1, delta=None, rho=None).noise.levels
        assert [law is None for law in laws] == [i >= len(one.sizes) - 1 for i in range(len(laws))]


# ------------------------------------------------------------------ cells


def places(values: Any, *ends: Any) -> list[int]:
    return InCells(values, *ends)(slice(None)).tolist()


def test_integers_are_clamped_into_cells() -> None:
    assert places([-9, 0, 4, 5, 9, 10, 11, 2**62], 0, 10, 5) == [0, 0, 0, 1, 1, 2, 2, 2]
    assert places(np.array([0, 2**64 - 1], np.uint64), -5, 5, None) == [5, 10]
    assert places(np.array([-(2**63), 0, 2**63 - 1]), -(2**63), 2**63 - 1, 2**64 - 1) == [0, 0, 1]
    assert places(np.array([3, 4], ">i2"), 0, 9, None) == [3, 4]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_real_values_lie_where_their_decimals_do(dtype) -> None:
    """Each multiple of 0.1 begins its own cell, though 0.1 is no double."""
    tenths = np.array([float(Fraction(i, 10)) for i in range(-20, 21)], dtype)
    wanted = list(range(41))
    assert places(tenths, -2, 2, 0.1) == places(tenths, "-2", "2", "0.1") == wanted
    assert places(np.nextafter(tenths, np.inf, dtype=dtype), -2, 2, 0.1) == wanted
    assert places(np.nextafter(tenths, -np.inf, dtype=dtype), -2, 2, 0.1) == [0, *wanted[:-1]]
    assert places(np.array([-np.inf, -99, 99, np.inf], dtype), -2, 2, 0.1) == [0, 0, 40, 40]


def test_edges_are_the_nearest_doubles() -> None:
    for ends in (
        (0, 1, "1/3"),
        ("-7/3", "1e3", "3007/300"),
        ("1e15", "1000000000000005", "0.5"),
        (0, "1e-300", "1e-302"),
    ):
        found = Edges.of(*ends)
        assert found.doubles(np.float64).tolist() == [float(found.edge(i)) for i in range(found.cells)]


def test_as_many_cells_as_there_may_be(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db", 1, create=True)
    given: dict[str, Any] = {"lower": 0, "step": 1, "epsilon": 1, "ledger": ledger, "max_contributions": 1}
    rule = r"step must make at most 2\*\*20 cells from lower to upper, got 1: the nearest that does is 2$"
    with pytest.raises(ParameterError, match=rule):
        quantiles([5, 7, 900_000], [1, 2, 3], [0.5], upper=2**20, **given)
    assert ledger.spent.epsilon == 0
    (found,) = quantiles([5, 7, 900_000], [1, 2, 3], [0.5], upper=2**20 - 1, **given)
    assert 0 <= found.lower <= found.upper <= 2**20 - 1


# ------------------------------------------------------------------ answers

SURE: dict[str, Any] = {"epsilon": 10**6}


def exact(values: np.ndarray, q: float, edges: Edges) -> float:
    """The lower edge of the cell of the least value up to which the share q lies."""
    value = np.quantile(values, q, method="inverted_cdf")
    return float(edges.edge(max(int(np.searchsorted(edges.doubles(np.float64), value, "right")) - 1, 0)))


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 100, 1), (-20, 220, 5), (10, 20, "1/4"), (0, 100, "0.1")])
def test_with_next_to_no_noise_they_are_those_of_the_rows(lower, upper, step) -> None:
    rng, q = np.random.default_rng(3), [0.01, 0.25, 0.5, 0.77, 0.999]
    values = rng.normal(50, 30, 4001)
    by = rng.integers(0, 5, 4001)
    edges = Edges.of(lower, upper, step)
    given = {"lower": lower, "upper": upper, "step": step, **SURE}
    total = quantiles(values, EACH_ROW, q, **given)
    keyed = quantiles(values, EACH_ROW, q, by=by, domain=[*range(4, -1, -1)], **given)
    assert list(keyed) == [4, 3, 2, 1, 0]
    for of, found in ((values, total), *((values[by == key], keyed[key]) for key in keyed)):
        assert [each.value for each in found] == [exact(of, each, edges) for each in q]
        for share, each in zip(q, found, strict=True):
            true = min(max(float(np.quantile(of, share, method="inverted_cdf")), lower), upper)
            assert each.lower <= each.value <= each.upper
            assert each.lower <= true <= each.upper < each.lower + (upper - lower) / 4


def test_integers_end_a_step_before_the_next_edge() -> None:
    found = quantiles(np.full(99, 37), EACH_ROW, [0.5], lower=0, upper=120, step=10, **SURE)
    assert found == [Estimate(30, 30, 39)]
    assert quantiles(np.full(99, 37), EACH_ROW, [0.5], lower=0, upper=120, **SURE) == [Estimate(37, 37, 37)]
    assert quantiles(np.full(99, 500), EACH_ROW, [0.5], lower=0, upper=120, step=10, **SURE) == [
        Estimate(120, 120, 120)
    ]
    assert all(type(end) is int for end in found[0])


@pytest.mark.parametrize("way", ["columns", "tuples"])
def test_keys_of_several_columns(way) -> None:
    by = (["f", "m", "f", "m"] * 50, [1, 1, 2, 2] * 50)
    domain: Any = (["m", "f"], [2, 1]) if way == "columns" else [("m", 2), ("m", 1), ("f", 2), ("f", 1)]
    found = quantiles([3, 5, 7, 9] * 50, EACH_ROW, [0.5], lower=0, upper=9, by=by, domain=domain, **SURE)
    assert {key: each.value for key, (each,) in found.items()} == {("m", 2): 9, ("m", 1): 5, ("f", 2): 7, ("f", 1): 3}
    assert list(found) == [("m", 2), ("m", 1), ("f", 2), ("f", 1)]


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1}, {"rho": 0.1}, {"epsilon": 1, "delta": 1e-6}, {"epsilon": 1e-4}], ids=str
)
@pytest.mark.filterwarnings("ignore::dpfast.errors.WeakGuaranteeWarning")
def test_nobody_and_one_have_answers(budget) -> None:
    given: dict[str, Any] = {"lower": 0, "upper": 9, "max_contributions": 1, **budget}
    for values in ([], [4]):
        for found in (
            quantiles(values, ["p"] * len(values), [0.5, 0.01], **given)
            + quantiles(values, ["p"] * len(values), [0.5], by=["a"] * len(values), domain=["z", "a"], **given)["z"]
        ):
            assert all(type(end) is int and 0 <= end <= 9 for end in found)
            assert found.lower <= found.upper


RUNS, FEWER = 10_000, 600
DATA = np.array([0, 0, 1, 3, 3, 3, 4, 6, 7, 9, 9, 12, 14, 15])


def hits(runs: int, **budget: Any) -> int:
    """In how many of so many keys of the same rows the interval of the first quartile holds it."""
    by = np.repeat(np.arange(runs), DATA.size)
    asked = {"lower": 0, "upper": 15, "by": by, "domain": range(runs), "confidence": 0.9}
    found = quantiles(np.tile(DATA, runs), EACH_ROW, [0.25], **asked, **budget)
    true = int(np.quantile(DATA, 0.25, method="inverted_cdf"))
    return sum(each.lower <= true <= each.upper for (each,) in found.values())


@pytest.mark.parametrize(("budget", "runs"), [({"epsilon": 2}, RUNS), ({"rho": 1}, FEWER)], ids=str)
def test_intervals_hold_in_ten_thousand_runs(budget, runs) -> None:
    assert upper_bound(hits(runs, **budget), runs, 1e-9) >= 0.9


def test_planted_narrow_intervals_are_found(monkeypatch) -> None:
    tiers.plant(monkeypatch, NoisyTree, "z", lambda *_: 0.1)
    assert upper_bound(hits(FEWER, epsilon=2), FEWER, 1e-9) < 0.9


# ------------------------------------------------------------------ one release, one charge


def test_all_keys_and_all_shares_are_one_charge(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "lower": 0,
        "upper": 9,
        "by": ["a", "b"] * 9,
        "domain": ["a", "b", "c"],
        "max_contributions": 2,
    }
    for i, budget in enumerate(({"epsilon": "0.3"}, {"epsilon": "0.3", "delta": 1e-6})):
        ledger = Ledger(tmp_path / f"{i}.db", 1, delta=1e-5, create=True)
        quantiles([*range(18)], [0, 1, 2] * 6, [0.1, 0.5, 0.9], ledger=ledger, label="medians", **given, **budget)
        (charge,) = ledger.history()
        assert charge.label == "medians"
        assert ledger.spent.epsilon == Fraction(3, 10)


def test_a_try_that_resumes_may_ask_for_more(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db", 1, create=True)
    key = dpfast.KeyFile.create(tmp_path / "visits.key").derive("ages")
    given: dict[str, Any] = {
        "lower": 0,
        "upper": 180,
        "max_contributions": 1,
        "epsilon": "0.1",
        "ledger": ledger,
        "key": key,
    }
    rows = np.arange(200) % 77, np.arange(200)
    first = quantiles(*rows, [0.5], **given)
    again = quantiles(*rows, [0.25, 0.5], resume=True, **given)
    assert again[1] == first[0]
    assert ledger.spent.epsilon == Fraction(1, 10)
    with pytest.raises(DpfastError, match="with another step, '1', not '2'"):
        quantiles(*rows, [0.5], step=2, resume=True, **given)
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_what_a_seal_names() -> None:
    known = domain_keys(KEYS, ["a"], "by")
    counts = trees_of((2, 2, None)).counts(InCells([1], 0, 2, 1), ["p"], ["a"], known, release_key(1))
    assert counts.origin is not None
    assert counts.origin.named(release_key(1)) == {
        "adjacency": "add-remove", "unit": "person", "domain": '["a", "b"]', "max_partitions": "2", "max_per_partition": "2",
        "lower": "0", "upper": "2", "step": "1",
    }  # fmt: skip
    counts = trees_of((1, 2, None), keyed=False).counts(InCells([1], 0, 2, 1), ["p"], None, None, release_key(1))
    assert counts.origin is not None
    assert "domain" not in counts.origin.named(release_key(1))


# ------------------------------------------------------------------ bad input

GOOD: dict[str, Any] = {
    "values": [5, 7], "unit_ids": [1, 2], "q": [0.5], "lower": 0, "upper": 9, "epsilon": 1, "max_contributions": 1,
}  # fmt: skip


def test_the_step_that_a_refusal_names_works() -> None:
    """And so does the upper end that it names beside a step."""
    r = random.Random(34)
    ends = [
        (0, 2**20, 1),
        (0, 3_000_017, 1),
        (0, 24, 7),
        (0, 18, "1e-9"),
        (0, 24, 1000),
        (-7, 10**9 + 7, 3),
        (0, "1/3", "1/7"),
        (0, 1, "0.3"),
    ]
    for _ in range(300):
        low, step = (
            Fraction(r.randrange(-50, 50), r.choice([1, 1, 3, 10])),
            Fraction(r.randrange(1, 99), r.choice([1, 1, 7, 100])),
        )
        ends.append((low, low + Fraction(r.randrange(1, 10 ** r.randrange(1, 9)), r.choice([1, 1, 10, 17])), step))
    refused = others = 0
    for lower, upper, step in ends:
        why = ""
        try:
            Edges.of(lower, upper, step)
        except ParameterError as error:
            why = str(error)
        if not why:
            continue
        said = re.search(r": the nearest that does is (\S+?)(?:, and (\S+) does with upper (\S+))?$", why)
        assert said, why
        near, wide, end = said.groups()
        assert Edges.of(lower, upper, near).cells >= 2
        if end:
            assert Edges.of(lower, end, wide).upper > Fraction(upper)
            others += 1
        refused += 1
    assert (refused > 150, others > 10) == (True, True)


def bad() -> Iterator[tuple[dict[str, Any], type[DpfastError], str]]:
    yield {"q": [0]}, ParameterError, "q must be positive"
    yield {"q": [1]}, ParameterError, "q must lie strictly between 0 and 1, got 1"
    yield {"q": []}, ParameterError, "q must contain at least one share"
    yield {"q": 0.5}, DTypeError, "q must be a list of shares, such as"
    yield {"q": "0.5"}, DTypeError, "q must be a list of shares"
    yield {"q": [None]}, DTypeError, "q must be"
    yield {"confidence": 1}, ParameterError, "confidence must lie strictly"
    yield {"confidence": 1 - Fraction(1, 10**400)}, ParameterError, "confidence must be at most"
    yield {"lower": 9}, ParameterError, "lower must be below upper, got 9 and 9"
    yield {"lower": math.nan}, ParameterError, "lower must be finite"
    yield {"upper": math.inf}, ParameterError, "upper must be finite"
    yield {"step": 0}, ParameterError, "step must be positive"
    yield {"step": 2}, ParameterError, "step must divide upper - lower, 9, got 2: the nearest that does is 3"
    yield {"step": 0.4, "values": [0.5, 1]}, ParameterError, "the nearest that does is 9/22"
    yield {"step": "1/2"}, ParameterError, "lower, upper and step must be whole numbers within int64 where"
    yield {"upper": 2**70, "step": 2**60}, ParameterError, "lower, upper and step must be whole numbers within int64"
    yield {"values": [0.5, 1.5]}, ParameterError, "step must be given where values are of float64: how wide a cell is"
    yield (
        {"lower": 1, "upper": "1.0000000000000001", "step": "1e-16", "values": [0.5, 1]},
        ParameterError,
        "edges that differ where",
    )
    yield (
        {"upper": "1e400", "step": "1e399", "values": [0.5, 1]},
        ParameterError,
        "step must make edges that differ where values are of float64",
    )
    yield (
        {"upper": "1e39", "step": "1e38", "values": np.array([0.5, 1], "f4")},
        ParameterError,
        "differ where values are of float32",
    )
    yield {"values": [0.5, math.nan], "step": 1}, UnusableValuesError, "values must contain no NaN"
    yield {"values": ["a", "b"]}, DTypeError, "values must be of integers, float64 or float32"
    yield {"values": [[5, 7]]}, ParameterError, "values must have one dimension"
    yield {"values": [5]}, ParameterError, "values and unit_ids must be of equal length"
    yield {"unit_ids": None}, DTypeError, "unit_ids must be a column"
    yield {"unit_ids": [1, None]}, DTypeError, "unit_ids must contain"
    yield {"by": ["a", "b"]}, ParameterError, "by and domain must be given together"
    yield {"domain": ["a", "b"]}, ParameterError, "by and domain must be given together"
    yield {"by": ["a"], "domain": ["a"]}, ParameterError, "by and unit_ids must be of equal length"
    yield {"by": ["a", "b"], "domain": [1]}, DTypeError, "by and domain must be both of integers or both of strings"
    yield {"by": ["a", "b"], "domain": ["a", "a"]}, ParameterError, "domain must list each key once"
    yield (
        {"by": [1, 2], "domain": range(2**21)},
        ParameterError,
        "cells of all keys together must be at most 2\\*\\*24, got 20,971,520",
    )
    yield {"max_partitions": 2}, ParameterError, "max_partitions must be left out without by, got 2"
    yield {"max_contributions": None}, ParameterError, "max_contributions must be given: rows"
    yield {"max_contributions": 0}, ParameterError, "max_contributions must be at least 1"
    yield {"unit_ids": EACH_ROW, "max_contributions": 2}, ParameterError, "must be left out where each row is a unit"
    yield {"epsilon": None}, ParameterError, "epsilon, epsilon and delta, or rho must be given"
    yield {"rho": 1}, ParameterError, "epsilon, epsilon and delta, or rho must be given"
    yield {"epsilon": 0}, ParameterError, "epsilon must be positive"
    yield {"threads": 0}, ParameterError, "threads must be at least 1"
    yield {"resume": True}, ParameterError, "resume is for a release under a key"
    yield {"adjacency": "both"}, ParameterError, "adjacency must be one of"
    yield {"epsilon": 11}, dpfast.errors.BudgetExhausted, "budget"


@pytest.mark.parametrize(("change", "error", "said"), list(bad()), ids=lambda each: str(each)[:40])
def test_what_is_refused_is_not_charged(tmp_path, change, error, said) -> None:
    ledger = Ledger(tmp_path / "budget.db", 10, create=True)
    given = {**GOOD, **change}
    with pytest.raises(error, match=said):
        quantiles(given.pop("values"), given.pop("unit_ids"), given.pop("q"), ledger=ledger, **given)
    assert ledger.spent.epsilon == 0


def test_the_good_ones_are_good() -> None:
    given = dict(GOOD)
    assert len(quantiles(given.pop("values"), given.pop("unit_ids"), given.pop("q"), **given)) == 1
    assert leaves.MOST_LEAVES == 2**24
