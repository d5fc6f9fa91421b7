# SPDX-License-Identifier: Apache-2.0
"""The accounting's special cases: every bound on a contribution together with every other.

A world is a change of whole numbers that l0, linf, l1, the number of cells, the sign and the
adjacency allow together, in one part or across two. What is stated must cover each of them.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from places import ROOT, every_test_file
from worlds import delta_of_move, gaussian_delta, gaussian_law

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Sensitivity, compose
from dpfast.engines import jobs
from dpfast.privacy.gaussian import gaussian_delta as real_delta
from dpfast.privacy.sensitivity import across_parts

ROOM = ROOT / "dpfast" / "privacy"
RATE = 0.5  # one over the scale of Laplace noise
SIGMA_SQUARED = Fraction(2)
MOST_CONTRIBUTIONS = 729
World = tuple[int, ...]


class Bounds(NamedTuple):
    l0: int
    linf: int
    l1: int
    cells: int | None
    adjacency: str
    signed: bool

    @property
    def sensitivity(self) -> Sensitivity:
        about: dict[str, Any] = {"adjacency": self.adjacency, "signed": self.signed}
        return Sensitivity(self.l0, self.linf, l1=self.l1, cells=self.cells, **about)

    @cache  # noqa: B019  as long as EVERY
    def contributions(self) -> list[World]:
        most = range(-self.linf if self.signed else 0, self.linf + 1)
        every = itertools.product(most, repeat=2 * self.l0 if self.cells is None else self.cells)
        return [v for v in every if sum(x != 0 for x in v) <= self.l0 and sum(map(abs, v)) <= self.l1]

    @cache  # noqa: B019  as long as EVERY
    def inside(self) -> set[World]:
        """How far a neighbour moves the cells of one part."""
        one = self.contributions()
        others = one if self.adjacency == "substitution" else [(0,) * len(one[0])]
        return {_sorted(a - b for a, b in zip(v, w, strict=True)) for v in one for w in others}

    @cache  # noqa: B019  as long as EVERY
    def across(self) -> set[tuple[World, World]]:
        """What a unit takes out of one part, and puts into another."""
        one = {_sorted(v) for v in self.contributions()}
        return set(itertools.product(one, one)) if self.adjacency == "substitution" else {(v, ()) for v in one}


def _sorted(moves: Any) -> World:
    return tuple(sorted((abs(x) for x in moves if x), reverse=True))


def every() -> Iterator[Bounds]:
    for l0, linf, adjacency, signed in itertools.product(
        (1, 2, 3), (1, 2), ("add-remove", "substitution"), (False, True)
    ):
        for l1, cells in itertools.product(range(linf, l0 * linf + 1), (None, *range(1, 2 * l0))):
            if len(range(-linf if signed else 0, linf + 1)) ** (cells or 2 * l0) <= MOST_CONTRIBUTIONS:
                yield Bounds(l0, linf, l1, cells, adjacency, signed)


EVERY = list(every())
OF_PARTS = [each for each in EVERY if each.adjacency == "substitution"]
each_of = pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])


def squared(move: World) -> int:
    return sum(d * d for d in move)


def test_there_are_as_many_bounds_as_there_should_be() -> None:
    kinds = {(each.cells is None, each.l1 == each.l0 * each.linf, each.adjacency, each.signed) for each in EVERY}
    assert len(EVERY) == 268
    assert len(kinds) == 16


@pytest.mark.parametrize("adjacency", ["add-remove", pytest.param("substitution", marks=pytest.mark.slow)])
def test_laplace_noise_covers_every_change(adjacency) -> None:
    """Its epsilon is that of the largest change, its rho the largest mean loss; each is reached."""
    law = {k: math.tanh(RATE / 2) * math.exp(-RATE * abs(k)) for k in range(-200, 201)}
    loss = [RATE * sum(p * (abs(k - d) - abs(k)) for k, p in law.items()) for d in range(9)]
    for bounds in (each for each in EVERY if each.adjacency == adjacency):
        change = bounds.sensitivity
        made = DiscreteLaplace(Fraction(RATE) * change.l1, change)
        moves = bounds.inside()
        assert made.epsilon == Fraction(RATE) * max(map(sum, moves)), bounds
        mean = {v: sum(loss[d] for d in v) for v in moves.union(*bounds.across())}
        assert float(made.guarantee.rho) == pytest.approx(max(mean[v] for v in moves), rel=1e-9)
        if adjacency == "substitution":
            found = compose(made, made, by="parallel")
            most = max(*map(sum, moves), *(sum(v) + sum(w) for v, w in bounds.across()))
            assert found.epsilon == Fraction(RATE) * most, bounds
            least = max(mean[v] + mean[w] for v, w in bounds.across())
            assert float(found.rho) >= least * (1 - 1e-9), bounds


@each_of
@pytest.mark.parametrize("kind", [DiscreteGaussian, Gaussian])
def test_gaussian_noise_covers_every_change(kind, adjacency) -> None:
    """Its rho is that of the largest change; no change has a larger delta than is stated."""
    for bounds in (each for each in EVERY if each.adjacency == adjacency):
        made = kind(sigma_squared=SIGMA_SQUARED, sensitivity=bounds.sensitivity)
        moves = bounds.inside()
        assert made.rho() == Fraction(max(map(squared, moves))) / (2 * SIGMA_SQUARED), bounds
        assert made.group(2).rho >= 4 * max(map(squared, moves)) / (2 * SIGMA_SQUARED)
        if kind is DiscreteGaussian and bounds.l0 < 3:
            worst = max(delta_of_move(move, 1.0, float(SIGMA_SQUARED)) for move in moves)
            assert worst <= made.delta(1) * (1 + 1e-9), bounds


@pytest.mark.parametrize("kind", [DiscreteGaussian, Gaussian])
def test_equal_parts_cover_a_unit_that_changes_parts(kind) -> None:
    """Exactly: a part's number of cells bounds what changes in it, and not in two of them."""
    higher = 0
    for bounds in OF_PARTS:
        made = kind(sigma_squared=SIGMA_SQUARED, sensitivity=bounds.sensitivity)
        most = max(map(squared, bounds.inside() | {v + w for v, w in bounds.across()}))
        found = compose(made, made, made, by="parallel")
        assert found.rho == Fraction(most) / (2 * SIGMA_SQUARED), bounds
        assert found.gdp == (kind is Gaussian)
        assert compose(made, by="parallel") == made.guarantee
        higher += found.rho > made.rho()
    assert higher > 20  # planted: what one part states


def test_unequal_parts_cover_a_unit_that_changes_parts() -> None:
    for bounds in OF_PARTS:
        change = bounds.sensitivity
        parts = [kind(sigma_squared=s, sensitivity=change) for kind, s in ((DiscreteGaussian, 2), (Gaussian, 3))]
        inside = max(Fraction(squared(v), 4) for v in bounds.inside())
        across = max(Fraction(squared(v), 4) + Fraction(squared(w), 6) for v, w in bounds.across())
        assert compose(*parts, by="parallel").rho == max(inside, across), bounds


def test_parts_under_add_remove_cover_every_change() -> None:
    """A unit is in one part; one that changes parts is removed and added."""
    for bounds in (each for each in EVERY if each.adjacency == "add-remove"):
        made = DiscreteGaussian(sigma_squared=SIGMA_SQUARED, sensitivity=bounds.sensitivity)
        most = max(map(squared, bounds.inside()))
        assert compose(made, made, by="parallel").rho == Fraction(most) / (2 * SIGMA_SQUARED), bounds
        across = max(squared(v + w) for v, w in Bounds(*bounds[:4], "substitution", bounds.signed).across())
        found = compose(made, made, by="parallel", adjacency="substitution")
        assert found.rho >= Fraction(across) / (2 * SIGMA_SQUARED), bounds


@pytest.mark.parametrize(("l0", "cells"), [(1, 1), (2, 2), (2, 3), (3, 4), (3, 5), (10, 10)])
@pytest.mark.parametrize("kind", [DiscreteGaussian, Gaussian])
def test_the_epsilon_of_equal_parts_is_that_of_the_law(kind, l0, cells) -> None:
    """It is the least at the delta for which sigma was found; the one of a part is too low."""
    made = kind.calibrated(1, Sensitivity(l0, 1, adjacency="substitution", cells=cells), delta="1e-4")
    found, squares = compose(made, made, by="parallel"), float(made.sigma_squared)

    def true(epsilon: float) -> float:
        if kind is Gaussian:
            return real_delta(Fraction(epsilon), Fraction(2 * l0), made.sigma_squared)
        return delta_of_move((1,) * 2 * l0, epsilon, squares, reach=200)

    assert found.delta == Fraction("1e-4")
    assert true(float(found.epsilon)) == pytest.approx(1e-4, rel=1e-5)
    assert true(1.0) > 1.5e-4
    assert found.add_remove == made.guarantee.add_remove
    several = kind.calibrated(1, made.sensitivity, delta="1e-4", releases=3)
    both = compose(several, several, by="parallel")
    assert both.epsilon == 1  # one of three has less than it is promised, across parts, too
    assert several.delta(1, across_parts(made.sensitivity)) <= Fraction("1e-4")


def test_thresholds_of_parts_cover_a_unit_that_changes_parts() -> None:
    """Each pattern of keys that are new, and that move, in either part, by its exact delta."""
    for kind, (l0, cells) in itertools.product((jobs.Withholding, jobs.GaussianWithholding), ((1, 1), (1, None))):
        change = Sensitivity(l0, 1, adjacency="substitution", cells=cells)
        made = kind(2, "0.01", change)
        found = compose(made, made, by="parallel")
        assert found.rho >= (compose(*[made.guarantee.add_remove] * 2).rho if cells else made.guarantee.rho)
        if kind is jobs.GaussianWithholding:
            law = gaussian_law(made.sigma_squared)
            ends = [((0,), (1,)), ((60,), (61,))]
            pairs = [(a + d, b + c) for (a, b), (c, d) in itertools.product(ends, ends)]
            worst = max(
                gaussian_delta(*both, law, float(found.epsilon), made.threshold)
                for pair in pairs
                for both in itertools.permutations(pair)
            )
            assert worst <= found.delta
            if cells:  # planted: what one part states
                true = max(gaussian_delta(*pair, law, 2.0, made.threshold) for pair in pairs)
                assert true > made.guarantee.delta


def test_a_ledger_is_charged_what_parts_cost(tmp_path) -> None:
    made = DiscreteGaussian.from_zcdp("0.5", Sensitivity(1, 1, adjacency="substitution", cells=1))
    ledger = dpfast.Ledger(tmp_path / "l.db", rho=1, adjacency="substitution", create=True)
    ledger.spend(compose(made, made, by="parallel"))
    assert ledger.spent.rho == 1


def test_parts_from_rows_cost_what_their_whole_costs() -> None:
    """Two wards, a list of one illness: a patient who changes wards moves two counts."""
    caps = {"domain": ["sick"], "max_partitions": 1, "max_per_partition": 1, "adjacency": "substitution"}
    wards = [dpfast.bounded_histogram(["sick"] * n, range(n), **caps) for n in (5, 7)]
    made = DiscreteGaussian.calibrated(1, wards[0].sensitivity, delta="1e-6")
    for ward in wards:
        ward.release(made)
    whole = DiscreteGaussian(sigma_squared=made.sigma_squared, sensitivity=Sensitivity(1, 1, adjacency="substitution"))
    found = compose(made, made, by="parallel")
    assert found.rho == whole.guarantee.rho == 2 * made.rho()
    assert float(found.epsilon) == pytest.approx(1.44996, abs=1e-5)


# ------------------------------------------------------------------ the table of the docs

WORDS = {"formatting", "meaning", "parameters", "record"}  # no figure that is promised is computed there
ROW = re.compile(r"^\| `(\w+)\.py` \| (.*) \| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w.]+)` (\d+)")


def special_cases(path: Path) -> dict[str, int]:
    """By function: returns before its end, and values that depend on a condition."""
    found: dict[str, int] = {}

    def look(node: ast.AST, within: str) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, (ast.ClassDef, ast.FunctionDef)):
                name = f"{within}.{each.name}".lstrip(".")
                if isinstance(each, ast.FunctionDef):
                    mine = [x for x in _own(each) if x is not each.body[-1]]
                    count = sum(isinstance(x, (ast.Return, ast.IfExp)) for x in mine)
                    if count and each.name not in ("__repr__", "__getattr__"):
                        found[name] = count
                look(each, name)
            else:
                look(each, within)

    look(ast.parse(path.read_text()), "")
    return found


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, and not in one within it."""
    for each in ast.iter_child_nodes(function):
        if not isinstance(each, ast.FunctionDef):
            yield each
            yield from _own(each)


def test_every_special_case_has_a_row() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text()
    section = text.partition("## Special cases")[2].partition("\n## ")[0]
    listed: dict[str, dict[str, int]] = {}
    for module, functions, tests in ROW.findall(section):
        named = {name: int(many) for name, many in NAMED.findall(functions)}
        listed.setdefault(module, {}).update(named)
        assert named, module
        for file, test in re.findall(r"`(test_\w+\.py)::(\w+)`", tests):
            assert f"def {test}(" in every_test_file()[file].read_text(), f"{file}::{test}"
        assert "::" in tests, module
    for path in sorted(ROOM.glob("*.py")):
        if path.stem not in WORDS:
            assert listed.get(path.stem, {}) == special_cases(path), path.stem


def test_a_new_special_case_is_found(tmp_path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        "class A:\n    def f(self, x):\n        if x:\n            return 1\n        return 2 if x else 3\n"
    )
    assert special_cases(planted) == {"A.f": 2}
    planted.write_text("def f(x):\n    def g():\n        return 1\n    return x\n")
    assert special_cases(planted) == {}
