# SPDX-License-Identifier: Apache-2.0
"""A figure that hides too little gives one warning, and a larger one another."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import tiers
from fresh import python

import dpfast

CELL = dpfast.Sensitivity(1, 1)

MADE = {
    "DiscreteLaplace(epsilon, 1)": "epsilon",
    "Laplace(epsilon, 1)": "epsilon",
    "Snapping(epsilon, 1, bound=8)": "epsilon",
    "NoisyMax(epsilon, 1)": "epsilon",
    "Exponential(epsilon, 1)": "epsilon",
    "AboveThreshold(epsilon, 1, threshold=1).run([5])": "epsilon",
    "RandomizedResponse(epsilon)": "epsilon",
    "RandomizedResponse(epsilon, answers_per_unit=7)": "epsilon",
    "DiscreteGaussian.calibrated(epsilon, CELL, delta=1e-6)": "epsilon",
    "thresholded(['a'], [5], epsilon=epsilon, delta=1e-6, sensitivity=CELL)": "epsilon",
    "thresholded(['a'], [5], epsilon=epsilon, delta=1e-6, sensitivity=CELL, noise='gaussian')": "epsilon",
    "tree([1, 2, 3], branching=2, epsilon=epsilon, sensitivity=CELL)": "epsilon",
    "calibrate(lambda e: dpfast.DiscreteLaplace(e, 1), releases=1, epsilon=epsilon)": "epsilon",
    "Gaussian.from_zcdp(epsilon, CELL)": "rho",
    "DiscreteGaussian.from_zcdp(epsilon, CELL)": "rho",
}
FOR_DELTA: dict[str, Callable[[float], object]] = {
    "Gaussian": lambda delta: dpfast.Gaussian.calibrated(1, CELL, delta=delta),
    "DiscreteGaussian": lambda delta: dpfast.DiscreteGaussian.calibrated(1, CELL, delta=delta),
    "thresholded": lambda delta: dpfast.thresholded(["a"], [5], epsilon=1, delta=delta, sensitivity=CELL),
    "by Gaussian noise": lambda delta: dpfast.thresholded(
        ["a"], [5], epsilon=1, delta=delta, sensitivity=CELL, noise="gaussian"
    ),
    "tree": lambda delta: dpfast.tree([1, 2, 3], branching=2, epsilon=1, delta=delta, sensitivity=CELL),
    "calibrate": lambda delta: dpfast.calibrate(
        lambda e: dpfast.DiscreteLaplace(e, 1), releases=2, epsilon=1, delta=delta
    ),
}


CALLS = """
import warnings, dpfast
CELL = dpfast.Sensitivity(1, 1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for epsilon in (10, 11, 11, 12):
        for call in calls:
            eval("dpfast." + call)
said = [f"{each.category.__name__}|{each.filename}|{each.message}" for each in caught]
"""


def warned(*calls: str) -> list[str]:
    """What is said of these calls, whose epsilon is 10 at first, then 11, 11 and 12."""
    names: dict[str, object] = {"calls": calls}
    exec(CALLS, names)
    return list(names["said"])


@pytest.mark.parametrize(("call", "name"), MADE.items(), ids=MADE)
def test_each_is_warned_of_once(call, name, monkeypatch) -> None:
    """One line a figure, at the caller, whatever mechanism it is; none at 10."""
    tiers.warns_again(monkeypatch)
    assert warned(call) == [
        f"WeakGuaranteeWarning|<string>|{name} = 11: e^{name} = 6.0e+04: this hides nobody",
        f"WeakGuaranteeWarning|<string>|{name} = 12: e^{name} = 1.6e+05: this hides nobody",
    ]


@pytest.mark.parametrize("asked", FOR_DELTA.values(), ids=FOR_DELTA)
def test_a_delta_above_a_thousandth_is_warned_of(asked, monkeypatch) -> None:
    """Wherever it is asked for, once and again of a larger one: it is public, whatever the keys."""
    tiers.warns_again(monkeypatch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for delta in ("0.001", 0.0011, 0.0011, 0.25):
            asked(delta)
    assert [(each.category, str(each.message)) for each in caught] == [
        (
            dpfast.errors.WeakGuaranteeWarning,
            f"delta = {delta}: this allows {percent} % of the units to be published whole",
        )
        for delta, percent in (("0.0011", "0.11"), ("0.25", "25"))
    ]


def test_two_coins_are_warned_of(monkeypatch) -> None:
    """By what a unit spends: the coins of 3 answers at 3.7 each."""
    tiers.warns_again(monkeypatch)
    for answers in (2, 3):
        coin = dpfast.RandomizedResponse.two_coin(epsilon=3.7).coin
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dpfast.RandomizedResponse.two_coin(coin, answers_per_unit=answers)
        assert [str(each.message)[:12] for each in caught] == ["epsilon = 11"][: answers - 2]


def test_once_for_all_mechanisms(monkeypatch) -> None:
    """Two figures of epsilon, and two of rho, where nothing was said yet."""
    tiers.warns_again(monkeypatch)
    assert len(warned(*MADE)) == 4


@pytest.mark.parametrize(
    "call", ["OneSidedGeometric(1000, 1)", "noise_source('laplace', 1e-9)", "Gaussian(1e-3)", "DiscreteLaplace(10, 1)"]
)
def test_what_promises_nothing_gets_no_warning(call, monkeypatch) -> None:
    tiers.warns_again(monkeypatch)
    assert issubclass(dpfast.errors.WeakGuaranteeWarning, UserWarning)
    assert warned(call) == []


def test_the_command_line_says_one_line(tmp_path) -> None:
    (tmp_path / "in.csv").write_text("n\n5\n")
    said = python(
        """
        import contextlib, io, sys
        from dpfast.app.cli import main
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            main(["privatize", sys.argv[1] + "/in.csv", sys.argv[1] + "/out.csv", "--epsilon", "20", "--sensitivity", "1", "--column", "n"])
        print(*[line for line in errors.getvalue().splitlines() if "Warning" in line], sep="\\n")
        """,
        tmp_path,
    )
    assert said.strip() == "Warning: epsilon = 20: e^epsilon = 4.9e+08: this hides nobody"


def test_code_without_a_module_is_warned_too(monkeypatch) -> None:
    """exec with names of its own has no __name__; the warning's place was looked for there."""
    tiers.warns_again(monkeypatch)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exec("import dpfast; dpfast.DiscreteLaplace(11, 1)", {})
    assert len(said) == 1
