# SPDX-License-Identifier: Apache-2.0
"""Sensitivity: what one unit contributes, told apart from what a neighbour changes."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from operator import le

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import delta_of_move

import dpfast
from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy.gaussian import discrete_delta, discrete_delta_l2, discrete_delta_of, joined
from dpfast.privacy.sensitivity import Cells, Sensitivity, refuse_less


def figures(s: Sensitivity) -> tuple:
    return s.l0, s.linf, s.l1, s.l2_squared


@pytest.mark.parametrize(
    ("adjacency", "signed", "changed", "largest"),
    [
        ("add-remove", False, (3, 2, 6, 12), (3, 2)),
        ("add-remove", True, (3, 2, 6, 12), (3, 2)),
        ("substitution", False, (6, 2, 12, 24), (6, 2)),
        ("substitution", True, (6, 4, 12, 48), (3, 4)),
    ],
)
def test_arguments_are_contributed_and_attributes_changed(adjacency, signed, changed, largest) -> None:
    """The table of the docstring, exact; the contributed figures stay readable."""
    s = Sensitivity(3, 2, adjacency=adjacency, signed=signed)
    assert figures(s) == changed
    assert s.largest == largest
    assert s.contributes == Cells(3, Fraction(2)) == (3, 2)
    assert isinstance(s.l0, int)
    assert all(isinstance(value, Fraction) for value in (s.linf, s.l1, s.l2_squared, s.largest.linf))
    assert (s.adjacency, s.unit, s.signed) == (adjacency, "person", signed)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("l0", [1, 2])
def test_every_figure_is_the_maximum_over_a_small_world(l0, adjacency, signed) -> None:
    """All contributions to four cells, at most 2 each; two supports of two: all changes fit."""
    values = range(-2 if signed else 0, 3)
    units = [v for v in itertools.product(values, repeat=4) if sum(x != 0 for x in v) <= l0]
    others = units if adjacency == "substitution" else [(0,) * 4]
    changes = {tuple(map(int.__sub__, v, w)) for v in units for w in others}
    s = Sensitivity(l0, 2, adjacency=adjacency, signed=signed)
    assert s.l0 == max(sum(x != 0 for x in c) for c in changes)
    assert s.linf == max(max(map(abs, c)) for c in changes)
    assert s.l1 == max(sum(map(abs, c)) for c in changes)
    assert s.l2_squared == max(sum(x * x for x in c) for c in changes)
    cells, most = s.largest
    assert (most,) * cells + (0,) * (4 - cells) in {tuple(sorted(map(abs, c), reverse=True)) for c in changes}


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize(
    ("l0", "linf", "l1"), [(None, None, 1), (None, None, 2), (2, 2, 3), (2, 3, 4), (2, 9, 3), (1, 2, 9), (2, 1, 9)]
)
def test_norms_together_are_the_maxima_over_a_small_world(l0, linf, l1, adjacency, signed) -> None:
    """All contributions of whole numbers within l0, linf and l1 at once, to two supports."""
    most, cells = min(linf or l1, l1), l0 or l1
    units = [
        v
        for v in itertools.product(range(-most if signed else 0, most + 1), repeat=2 * cells)
        if sum(map(abs, v)) <= l1 and sum(x != 0 for x in v) <= cells
    ]
    others = units if adjacency == "substitution" else [(0,) * 2 * cells]
    changes = {tuple(map(int.__sub__, v, w)) for v in units for w in others}
    s = Sensitivity(l0, linf, l1=l1, adjacency=adjacency, signed=signed)
    assert s.l0 == max(sum(x != 0 for x in c) for c in changes)
    assert s.linf == max(max(map(abs, c)) for c in changes)
    assert s.l1 == max(sum(map(abs, c)) for c in changes)
    assert s.l2_squared == max(sum(x * x for x in c) for c in changes)
    if s.largest:
        n, d = s.largest
        assert (d,) * n + (0,) * (2 * cells - n) in {tuple(sorted(map(abs, c), reverse=True)) for c in changes}
    else:
        assert most < l1 < cells * most


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("cells", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("l0", "linf", "l1"), [(None, None, 3), (2, 1, 9), (2, 2, 3), (3, 1, 9), (3, 2, 3), (2, 1, 2), (9, 2, 5)]
)
def test_few_cells_are_the_maxima_over_a_small_world(cells, l0, linf, l1, adjacency, signed) -> None:
    """All contributions of whole numbers to so few cells; no change moves its first cells further.

    `worst_change` is a change of that world, and so are the figures, each of them.
    """
    most, touched = min(linf or l1, l1), min(l0 or l1, cells)
    units = [
        v
        for v in itertools.product(range(-most if signed else 0, most + 1), repeat=cells)
        if sum(map(abs, v)) <= l1 and sum(x != 0 for x in v) <= touched
    ]
    others = units if adjacency == "substitution" else [(0,) * cells]
    changes = {
        tuple(sorted((abs(x - y) for x, y in zip(v, w, strict=True)), reverse=True)) for v in units for w in others
    }
    s = Sensitivity(l0, linf, l1=l1, cells=cells, adjacency=adjacency, signed=signed)
    assert s.contributes.l0 == touched
    assert s.l0 == max(sum(x != 0 for x in c) for c in changes)
    assert s.linf == max(c[0] for c in changes)
    assert s.l1 == max(map(sum, changes))
    assert s.l2_squared == max(sum(x * x for x in c) for c in changes)
    for whole in (False, True):
        worst = tuple(by for n, by in s.worst_change(integers=whole) for _ in range(n))
        assert worst + (0,) * (cells - len(worst)) in changes
        assert all(sum(c[:k]) <= sum(worst[:k]) for c in changes for k in range(1, cells + 1)), (
            "a change that worst does not dominate"
        )


@pytest.mark.parametrize("sigma", [None, 2])
def test_noise_over_few_cells_spends_what_a_small_world_says(sigma) -> None:
    """Three answers, yes or no, one person substituted: the loss of all three, and no more."""
    s = Sensitivity(3, 1, cells=3, adjacency="substitution")
    before = Sensitivity(3, 1, adjacency="substitution")
    votes = list(itertools.product((0, 1), repeat=3))
    moved = [sum(abs(x - y) for x, y in zip(v, w, strict=True)) for v in votes for w in votes]
    if sigma is None:
        noise = dpfast.DiscreteLaplace(1, s)
        assert noise.scale == max(moved) == dpfast.DiscreteLaplace(1, before).scale / 2
        assert noise.worst_change == ((3, 1),)
    else:
        assert dpfast.DiscreteGaussian(sigma, sensitivity=s).guarantee.rho == Fraction(max(moved), 2 * sigma**2)


def test_cells_that_lower_nothing_are_forgotten() -> None:
    """An equal promise is an equal record; those that lower something are shown and survive."""
    for adjacency, cells in (("add-remove", 3), ("add-remove", 99), ("substitution", 6), ("substitution", 2**70)):
        assert Sensitivity(3, 2, cells=cells, adjacency=adjacency) == Sensitivity(3, 2, adjacency=adjacency)
    for adjacency in ("add-remove", "substitution"):  # what was stated is what is lowered
        assert Sensitivity(10, 1, cells=3, adjacency=adjacency).cells == 3
        assert Sensitivity(l1=10, cells=3, adjacency=adjacency).cells == 3
    few = Sensitivity(3, 2, cells=5, adjacency="substitution")
    assert few.cells == 5
    assert "cells=5" in repr(few)
    assert copy.deepcopy(few) == pickle.loads(pickle.dumps(few)) == few != Sensitivity(3, 2, adjacency="substitution")
    assert few.add_remove == Sensitivity(3, 2)
    assert few.of_sums(1, 5) == Sensitivity(1, 6, cells=1, adjacency="substitution")
    assert few.of_sums(1, 5).l1 == 6  # a total moves by what one unit contributes, and not twice as far
    for bad, error in ((0, ParameterError), (-1, ParameterError), (2.5, DTypeError), ("3", DTypeError)):
        with pytest.raises(error, match="cells must be"):
            Sensitivity(3, 2, cells=bad)


@pytest.mark.parametrize(
    ("size", "l0", "adjacency"), [(6, 3, "substitution"), (5000, 3, "substitution"), (6, 9, "add-remove")]
)
@pytest.mark.parametrize(
    "made", [lambda s: dpfast.DiscreteLaplace(1, s), lambda s: dpfast.Gaussian(sigma=2, sensitivity=s)]
)
def test_an_array_of_more_cells_is_refused(made, size, l0, adjacency, tmp_path) -> None:
    """The noise would be too little for it: nothing is charged, nothing is written."""
    mechanism = made(Sensitivity(l0, 2, cells=5, adjacency=adjacency))
    values = np.zeros(size, np.int64 if mechanism.INTEGERS else float)
    free = made(Sensitivity(5, 2, adjacency=adjacency))
    assert free.release(values).shape == (size,)  # what it has prepared for its law serves the other's, too
    out, ledger = values + 7, dpfast.Ledger(tmp_path / "budget.db", rho=100, adjacency=adjacency, create=True)
    with pytest.raises(ParameterError, match="values must have at most the 5 cells of the sensitivity, got"):
        mechanism.release(values, out=out)
    for turned in (values.reshape(2, -1).T, values[::-1], values.reshape(-1, 2, order="F")):
        with pytest.raises(ParameterError, match="cells of the sensitivity"):
            mechanism.release(turned)
    with pytest.raises(ParameterError, match="cells of the sensitivity"):
        ledger.release(mechanism, values)
    assert (out == 7).all()
    assert ledger.spent.rho == 0
    assert mechanism.release(values[:5]).shape == (5,)


@pytest.mark.parametrize(
    ("adjacency", "figures_", "largest"),
    [("add-remove", (5, 5, 5, 25), (1, 5)), ("substitution", (10, 5, 10, 50), (2, 5))],
)
def test_l1_alone(adjacency, figures_, largest) -> None:
    """m, m, m, m^2; under substitution 2m, m, 2m, 2m^2."""
    s = Sensitivity(l1=5, adjacency=adjacency)
    assert (figures(s), s.largest) == (figures_, largest)
    assert s.contributes == (5, 5)
    assert s.contributed == 5


def test_l1_beside_cells() -> None:
    """It lowers linf and what follows; one that bounds nothing is forgotten."""
    assert Sensitivity(3, 2, l1=6) == Sensitivity(3, 2, l1=99) == Sensitivity(3, 2)
    assert Sensitivity(l1=1) == Sensitivity(1, 1)
    assert Sensitivity(1, l1=5) == Sensitivity(1, 5)
    assert figures(Sensitivity(4, 2, l1=5)) == (4, 2, 5, 9)
    assert figures(Sensitivity(3, l1=Fraction(1, 2))) == (3, Fraction(1, 2), Fraction(1, 2), Fraction(1, 4))
    assert Sensitivity(l1=2.5).l0 == 2
    assert repr(Sensitivity(4, 2, l1=5)).startswith("Sensitivity(l0=4, linf=2, l1=5, adjacency=")
    for arguments, message in {
        (): "l0 and linf must be given, or l1",
        (3,): "l0 and linf must be given, or l1",
    }.items():
        with pytest.raises(ParameterError, match=message):
            Sensitivity(*arguments)
    for l1, message in {
        0: "l1 must be positive",
        0.5: "l1 must be at least 1 without l0",
        2**63: "l0 must be below",
    }.items():
        with pytest.raises(ParameterError, match=message):
            Sensitivity(l1=l1)


CHANGES = [
    Sensitivity(l0=l0, linf=linf, l1=l1, adjacency="substitution", signed=signed)
    for signed in (False, True)
    for l0, linf, l1 in [
        (1, 1, None),
        (2, 1, None),
        (1, 2, None),
        (3, 2, None),
        (None, None, 2),
        (None, None, 3),
        (3, 2, 4),
        (6, 1, 4),
    ]
]


@pytest.mark.parametrize("stated", CHANGES, ids=repr)
def test_what_is_made_for_more_covers_the_worst_change(stated) -> None:
    """Its delta is that of `largest`: no change that is accepted has a larger one."""
    for change in CHANGES:
        try:
            refuse_less(change, stated, "substitution", "person")
        except ParameterError:
            assert change != stated
            continue
        for epsilon in (Fraction(1, 2), Fraction(3)):
            theirs, ours = (
                discrete_delta(epsilon, *(s.largest or (s.l0, s.linf)), Fraction(2)) for s in (change, stated)
            )
            assert theirs <= ours


@given(st.integers(1, 10**6), st.fractions(min_value=Fraction(1, 10**6), max_value=10**6), st.booleans(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_largest_reaches_l1_and_l2(l0, linf, substitution, signed) -> None:
    if not linf:
        return
    s = Sensitivity(l0, linf, adjacency="substitution" if substitution else "add-remove", signed=signed)
    cells, most = s.largest
    assert (cells * most, cells * most**2) == (s.l1, s.l2_squared)
    assert (cells, most) in {(s.l0, s.linf), (s.l0 // 2, s.linf)}


SQUARES = [Fraction(1), Fraction(2), Fraction(4), Fraction(1, 3), Fraction(10**40 + 1), Fraction(1, 10**700), Fraction(2**2046),
           Fraction(9) + Fraction(1, 2**2000), Fraction(9) - Fraction(1, 2**2000), Fraction(5e-324) ** 2, Fraction(2) ** -1074 * 3]  # fmt: skip


@pytest.mark.parametrize("square", SQUARES, ids=lambda v: f"{v!s:.20}")
def test_l2_is_the_least_double_not_below_the_root(square) -> None:
    root = Sensitivity.from_l2(square).l2
    assert Fraction(root) ** 2 >= square
    assert Fraction(math.nextafter(root, 0)) ** 2 < square


@given(st.fractions(min_value=0))
@settings(max_examples=200, deadline=None)
def test_l2_is_rounded_up(square) -> None:
    if square:
        root = Sensitivity.from_l2(square).l2
        assert Fraction(math.nextafter(root, 0)) ** 2 < square <= Fraction(root) ** 2


def test_l2_beyond_all_doubles_is_rounded_up_too() -> None:
    """Infinite above, the least subnormal below."""
    assert Sensitivity(1, 2**4000).l2 == math.inf
    assert Sensitivity.from_l2(Fraction(2**2048)).l2 == math.inf
    assert Sensitivity(1, Fraction(1, 2**4000)).l2 == 5e-324
    assert Sensitivity(4, 3).l2 == 6.0


def test_a_norm_alone() -> None:
    """Nothing is doubled, and what is not known is None."""
    for adjacency in ("add-remove", "substitution"):
        s = Sensitivity.from_l2(Decimal("2.5"), adjacency=adjacency, unit="household")
        assert figures(s) == (None, None, None, Fraction(5, 2))
        assert s.contributes is s.largest is None
        assert (s.adjacency, s.unit, s.signed) == (adjacency, "household", False)
    assert Sensitivity.from_l2(squared=2) != Sensitivity(2, 1)
    assert "the norm is known" in Sensitivity.from_l2.__doc__


def test_changes_are_taken_as_they_are() -> None:
    """What a neighbour changes, under either adjacency, doubles nothing."""
    for adjacency in ("add-remove", "substitution"):
        s = Sensitivity.changes(3, 2, adjacency=adjacency, unit="household")
        assert figures(s) == (3, 2, 6, 12)
        assert s.largest == (3, 2)
        assert s.contributes is None
        assert (s.adjacency, s.unit) == (adjacency, "household")
    for bad in ((0, 1), (1, 0), (2**63, 1)):
        with pytest.raises(ParameterError, match="^l"):
            Sensitivity.changes(*bad)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((0, 1), {}, ParameterError, "^l0 must be at least 1, got 0$"),
        ((2**63, 1), {}, ParameterError, r"^l0 must be below 2\*\*63, got 9223372036854775808$"),
        ((1.0, 1), {}, DTypeError, "^l0 must be an int, not float$"),
        ((True, 1), {}, DTypeError, "^l0 must be an int, not bool$"),
        ((1, 0), {}, ParameterError, "^linf must be positive, got 0$"),
        ((1, -2), {}, ParameterError, "^linf must be positive, got -2$"),
        ((1, math.nan), {}, ParameterError, "^linf must be finite"),
        ((1, math.inf), {}, ParameterError, "^linf must be finite"),
        ((1, 2**4096), {}, ParameterError, "^linf must be of at most 4096 bits"),
        ((1, b"2"), {}, DTypeError, "^linf must be an int, float, Fraction, Decimal or text such as 1/3, not bytes$"),
        ((1, 1), {"adjacency": "bounded"}, ParameterError, "^adjacency must be one of add-remove, substitution, got 'bounded'$"),
        ((1, 1), {"unit": " "}, ParameterError, "^unit must name"),
        ((1, 1), {"signed": 1}, DTypeError, "^signed must be True or False, not int$"),
    ],
)  # fmt: skip
def test_refusals_name_parameter_rule_and_value(arguments, options, error, message) -> None:
    with pytest.raises(error, match=message):
        Sensitivity(*arguments, **options)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (0, ParameterError, "^squared must be positive, got 0$"),
        (math.inf, ParameterError, "^squared must be finite"),
        (True, DTypeError, "^squared must be"),
    ],
)
def test_refusals_of_a_norm(bad, error, message) -> None:
    """squared is a positive number; adjacency and unit follow their rules."""
    with pytest.raises(error, match=message):
        Sensitivity.from_l2(bad)
    with pytest.raises(ParameterError, match="^adjacency must"):
        Sensitivity.from_l2(1, adjacency="none")
    with pytest.raises(ParameterError, match="^unit must"):
        Sensitivity.from_l2(1, unit="")


@pytest.mark.parametrize("sigma_squared", [0.7, 1.0, 2.5, 9.0])
def test_no_change_is_worse_than_the_largest(sigma_squared) -> None:
    """All changes of whole numbers within l1 = 4; up by 2 and down by 2 under substitution."""
    one_way = [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1), (3,), (2, 1), (1, 1, 1)]
    both_ways = [(2, -2), (1, 1, -2), (1, 1, -1, -1), (2, -1), (1, 1, -1)]
    for stated, changes in ((Sensitivity(l1=4), one_way), (Sensitivity(l1=2, adjacency="substitution"), both_ways)):
        for epsilon in (0.1, 1.0, 3.0):
            exact = discrete_delta(Fraction(epsilon), *stated.largest, Fraction(sigma_squared))
            worst = [delta_of_move(change, epsilon, sigma_squared) for change in changes]
            assert worst[0] == pytest.approx(exact, rel=1e-9)
            assert max(worst) <= exact * (1 + 1e-9)
    worse = delta_of_move((5,), 3.0, sigma_squared)  # planted: a change beyond l1
    assert worse > discrete_delta(Fraction(3), *Sensitivity(l1=4).largest, Fraction(sigma_squared)) * (1 + 1e-9)


@pytest.mark.parametrize("linf", range(1, 9))
def test_cells_that_cannot_be_joined(linf) -> None:
    """All ways in which whole numbers add up to l1 or less, where no two fit in one cell."""

    def ways(total: int, most: int) -> list[tuple[int, ...]]:
        return [()] + [(d, *rest) for d in range(1, min(total, most) + 1) for rest in ways(total - d, d)]

    for l1 in range(linf, 15):
        left = max(len(way) for way in ways(l1, linf) if len(way) < 2 or way[-1] + way[-2] > linf)
        assert joined(99, linf, l1) == left
        assert joined(2, linf, l1) == min(2, left)


@pytest.mark.parametrize("sigma_squared", [0.7, 2.5])
@pytest.mark.parametrize(
    ("stated", "exact"),
    [
        (Sensitivity(4, 1, l1=3), True),
        (Sensitivity(4, 2, l1=4), True),
        (Sensitivity(4, 2, l1=3), False),
        (Sensitivity(3, 3, l1=5), False),
        (Sensitivity(3, 1, l1=2, adjacency="substitution"), True),
        (Sensitivity(2, 2, l1=3, adjacency="substitution"), False),
        (Sensitivity(3, 1, l1=2, adjacency="substitution", signed=True), True),
    ],
)
def test_gaussian_noise_beside_an_l1_of_its_own(stated, exact, sigma_squared) -> None:
    """Every change of four cells; where joining leaves nothing over, the figure is reached."""
    l0, linf = stated.contributes
    units = [
        v
        for v in itertools.product(range(-int(linf) if stated.signed else 0, int(linf) + 1), repeat=4)
        if sum(map(abs, v)) <= stated.contributed and sum(x != 0 for x in v) <= l0
    ]
    others = units if stated.adjacency == "substitution" else [(0,) * 4]
    changes = {tuple(sorted(abs(a - b) for a, b in zip(v, w, strict=True) if a != b)) for v in units for w in others}
    assert stated.largest is None
    for epsilon in (0.1, 3.0):
        found = discrete_delta_of(Fraction(epsilon), stated, Fraction(sigma_squared))
        worst = max(delta_of_move(change, epsilon, sigma_squared) for change in changes)
        assert worst <= found * (1 + 1e-9)
        assert not exact or worst == pytest.approx(found, rel=1e-9)
        assert found <= discrete_delta_l2(Fraction(epsilon), stated.l2_squared, Fraction(sigma_squared))


def test_ten_rows_in_fifty_cells_take_the_sigma_of_ten_cells() -> None:
    """It is 13.36, where the norm alone asks for 14.33."""
    made = [
        dpfast.DiscreteGaussian.calibrated(1, s, delta=1e-6) for s in (Sensitivity(50, 1, l1=10), Sensitivity(10, 1))
    ]
    assert made[0].sigma == made[1].sigma < 13.4
    rest = dpfast.DiscreteGaussian.calibrated(1, Sensitivity(50, Fraction(1, 2), l1=10), delta=1e-6)
    assert rest.sigma > 0  # cells that no whole number moves: by the norm


def test_a_change_beside_an_l1_of_its_own() -> None:
    """All figures are smaller; but cells move by 2, 2 and 1.4, and the worst by 2, 2 and 1."""
    stated = Sensitivity(5, 2, l1=3, adjacency="substitution")
    change = Sensitivity(5, 1, l1="2.7", adjacency="substitution", signed=True)
    assert all(map(le, figures(change), figures(stated)))
    with pytest.raises(ParameterError, match="must be made for the worst change of the counts"):
        refuse_less(change, stated, "substitution", "person")
    for covered in (
        stated,
        Sensitivity(2, 2, l1="2.5", adjacency="substitution"),
        Sensitivity(1, 1, adjacency="substitution"),
    ):
        refuse_less(covered, stated, "substitution", "person")


def test_a_worst_change_that_is_not_covered_is_refused() -> None:
    """Three cells move by 2, all norms are smaller; but not as two cells that move by 3."""
    stated = Sensitivity(l1=3, adjacency="substitution")
    change = Sensitivity(3, 1, adjacency="substitution", signed=True)
    assert all(map(le, figures(change), figures(stated)))
    assert (change.largest, stated.largest) == ((3, 2), (2, 3))
    with pytest.raises(ParameterError, match="must be made for the worst change of the counts"):
        refuse_less(change, stated, "substitution", "person")
    for enough in (
        Sensitivity(l1=3, adjacency="substitution", signed=True),
        Sensitivity(l1=4, adjacency="substitution"),
    ):
        refuse_less(change, enough, "substitution", "person")


EACH = [
    Sensitivity(3, Fraction(1, 3), adjacency="substitution", unit="household", signed=True),
    Sensitivity.from_l2(2),
    Sensitivity.changes(1, 7),
    Sensitivity(4, 2, l1=5),
]


@pytest.mark.parametrize("s", EACH, ids=["contributes", "norm", "changes", "several"])
def test_a_frozen_value(s) -> None:
    for name in ("l0", "linf", "l1", "l2", "l2_squared", "adjacency", "signed", "contributes", "other"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            setattr(s, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del s.l0
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(s, protocol))
        assert again == s
        assert (hash(again), repr(again), again.l2) == (hash(s), repr(s), s.l2)
    assert copy.deepcopy(s) == copy.copy(s) == s
    with pytest.raises(TypeError):  # it would take what changes for what is contributed
        dataclasses.replace(s, unit="household")


def test_equal_figures_however_written() -> None:
    """0.5, 1/2 and Decimal are one value; another adjacency, unit or sign is another."""
    same = {Sensitivity(2, 0.5), Sensitivity(2, Fraction(1, 2)), Sensitivity(2, Decimal("0.5"))}
    assert len(same) == 1
    different = {
        *same,
        Sensitivity(1, 0.5),
        Sensitivity(2, 1),
        Sensitivity(2, 0.5, adjacency="substitution"),
        Sensitivity(2, 0.5, unit="household"),
        Sensitivity(2, 0.5, signed=True),
        Sensitivity.changes(2, 0.5),
        Sensitivity.from_l2(0.5),
    }
    assert len(different) == 8


def test_repr_shows_both() -> None:
    assert repr(Sensitivity(3, Fraction(1, 2), adjacency="substitution", signed=True)) == (
        "Sensitivity(l0=3, linf=1/2, adjacency='substitution', unit='person', signed=True; a neighbour changes "
        "l0=6, linf=1, l1=3, l2_squared=3, l2=1.73205)"
    )
    assert repr(Sensitivity.from_l2(2)) == (
        "Sensitivity.from_l2(squared=2, adjacency='add-remove', unit='person'; a neighbour changes l2=1.41421)"
    )
    assert repr(Sensitivity.changes(1, 7)) == "Sensitivity.changes(l0=1, linf=7, adjacency='add-remove', unit='person')"
    assert f"linf={2**4095 + 1}/{2**4095}," in repr(Sensitivity(2**62, Fraction(2**4095 + 1, 2**4095)))


def test_keys_are_public_or_private() -> None:
    """Private ones say so, differ from public ones, stay so in copies but `thresholded`."""
    private, public = Sensitivity(2, 1, keys="private"), Sensitivity(2, 1)
    assert private != public == private.with_public_keys()
    assert copy.copy(private) == pickle.loads(pickle.dumps(private)) == private
    assert "keys='private'" in repr(private)
    assert Sensitivity.changes(1, 1).keys == Sensitivity.from_l2(1).keys == public.keys == "public"
    for wrong in ("hidden", None, 1, ["private"]):
        with pytest.raises(ParameterError, match="^keys must be one of public, private$"):
            Sensitivity(1, 1, keys=wrong)


@pytest.mark.parametrize(("adjacency", "signed", "expected"), [
    ("add-remove", False, True), ("add-remove", True, False), ("substitution", False, False), ("substitution", True, False),
])  # fmt: skip
def test_one_way_is_what_a_small_world_says(adjacency, signed, expected) -> None:
    """All changes of two cells by contributions <= 1: whether each, or its reverse, is >= 0."""
    units = list(itertools.product(range(-1 if signed else 0, 2), repeat=2))
    others = units if adjacency == "substitution" else [(0, 0)]
    changes = [tuple(map(int.__sub__, v, w)) for v in units for w in others]
    assert all(min(c) >= 0 or max(c) <= 0 for c in changes) == expected
    assert Sensitivity(2, 1, adjacency=adjacency, signed=signed).one_way == expected
    assert not Sensitivity.changes(2, 1, adjacency=adjacency).one_way
    assert not Sensitivity.from_l2(1, adjacency=adjacency).one_way
