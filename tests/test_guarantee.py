# SPDX-License-Identifier: Apache-2.0
"""What a release promises, on record: figures exact, adjacency and unit beside them."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest

import dpfast
from dpfast import Guarantee, Sensitivity

CELLS = Sensitivity(2, 1, adjacency="substitution", unit="household")


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (dpfast.DiscreteLaplace(0.1, 1), Guarantee(0.1)),
        (dpfast.Laplace(2, 1, adjacency="substitution"), Guarantee(2, adjacency="substitution")),
        (dpfast.Laplace(2, CELLS), Guarantee(2, adjacency="substitution", unit="household", also_add_remove=True)),
        (dpfast.Snapping(1, 1, bound=8), Guarantee(1)),
        (dpfast.Gaussian(2, sensitivity=Sensitivity(1, 1)), Guarantee(rho=Fraction(1, 8))),
        (dpfast.DiscreteGaussian.from_zcdp(0.5, CELLS), Guarantee(rho=0.5, adjacency="substitution", unit="household", also_add_remove=True)),
        (dpfast.Gaussian.from_zcdp(1, Sensitivity.from_l2(2, adjacency="substitution")), Guarantee(rho=1, adjacency="substitution")),
    ],
    ids=str,
)  # fmt: skip
def test_mechanisms_say_what_they_promise(mechanism, expected) -> None:
    assert mechanism.guarantee == expected
    assert pickle.loads(pickle.dumps(mechanism)).guarantee == expected


def test_a_calibrated_gaussian_promises_both() -> None:
    mechanism = dpfast.DiscreteGaussian.calibrated(1, CELLS, delta=1e-6)
    found = mechanism.guarantee
    assert (found.epsilon, found.delta, found.rho) == (1, Fraction(1e-6), mechanism.rho())
    assert mechanism.delta(found.epsilon) <= found.delta


def test_holding_under_add_remove_is_known_or_not_claimed() -> None:
    """A removed unit changes at most what it contributes; norms and bare numbers tell nothing."""
    for contributes, known in [(CELLS, True), (Sensitivity.changes(2, 1, adjacency="substitution"), False)]:
        assert dpfast.Laplace(1, contributes).guarantee.also_add_remove is known
        assert dpfast.Gaussian(1, sensitivity=contributes).guarantee.also_add_remove is known
    assert not dpfast.Laplace(1, 5, adjacency="substitution").guarantee.also_add_remove
    assert dpfast.Laplace(1, 5).guarantee.also_add_remove


@pytest.mark.parametrize(
    ("promising", "reason"),
    [
        (dpfast.OneSidedGeometric(1, 1), "not a mechanism"),
        (dpfast.Gaussian(1), "sigma alone"),
        (dpfast.DiscreteGaussian(1), "sigma alone"),
    ],
)
def test_what_promises_nothing_says_so(promising, reason) -> None:
    """Refused with its reason, by compose and a ledger too; hasattr, for debuggers, says no."""
    for ask in (lambda: promising.guarantee, lambda: dpfast.compose(promising)):
        with pytest.raises(dpfast.NoGuaranteeError, match=reason):
            ask()
    assert not hasattr(promising, "guarantee")


def test_defaults() -> None:
    """Add-remove for a person, presence with it; and what repr shows."""
    one = Guarantee(1)
    assert (one.delta, one.rho, one.adjacency, one.unit) == (0, None, "add-remove", "person")
    assert Guarantee(rho=1).delta is None
    assert Guarantee(0, 0, rho=0).also_add_remove
    known = Guarantee(1, adjacency="substitution", also_add_remove=True)
    assert repr(known).endswith("unit='person', also_add_remove=True>")
    assert repr(Guarantee(0.1, 1e-6)) == "<Guarantee epsilon=0.1, delta=1e-06, adjacency='add-remove', unit='person'>"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, dpfast.ParameterError, "epsilon or rho must be given"),
        ({"rho": 1, "delta": 1e-6}, dpfast.ParameterError, "delta goes with an epsilon"),
        ({"epsilon": -1}, dpfast.ParameterError, "epsilon must not be negative, got -1"),
        ({"rho": -0.5}, dpfast.ParameterError, "rho must not be negative, got -0.5"),
        ({"epsilon": 1, "delta": 1}, dpfast.ParameterError, "delta must be below 1, got 1"),
        ({"epsilon": 1, "delta": -1e-9}, dpfast.ParameterError, "delta must not be negative"),
        ({"epsilon": float("inf")}, dpfast.ParameterError, "epsilon must be finite"),
        ({"epsilon": "1"}, dpfast.DTypeError, "epsilon must be an int"),
        ({"epsilon": 1, "adjacency": "replace"}, dpfast.ParameterError, "adjacency must be one of"),
        ({"epsilon": 1, "unit": ""}, dpfast.ParameterError, "unit must name"),
        ({"epsilon": 1, "also_add_remove": 1}, dpfast.DTypeError, "also_add_remove must be True or False"),
        ({"epsilon": 1, "also_add_remove": False}, dpfast.ParameterError, "also_add_remove must be True under add-remove"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_parameters(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        Guarantee(**arguments)


def test_beliefs_need_a_pure_epsilon() -> None:
    """A delta or a rho bounds no posterior."""
    assert Guarantee(1).posterior(0.5) == pytest.approx((1 / (1 + math.e), math.e / (1 + math.e)))
    for promise in (Guarantee(1, 1e-6), Guarantee(rho=1)):
        with pytest.raises(dpfast.ParameterError, match="pure epsilon"):
            promise.posterior(0.5)
