# SPDX-License-Identifier: Apache-2.0
"""A mechanism that a ledger pays n times: to the last, and with no more noise than that takes."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
import tiers
from ledgers import ZEROS, command

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Guarantee, Laplace, Ledger, Sensitivity, Snapping
from dpfast.errors import BudgetExhausted, DTypeError, ParameterError

N = 52
LONG = Fraction(3**645, 2**1023)  # no share of it is added exactly
BUDGETS = {
    "epsilon": {"epsilon": 2},
    "epsilon and delta": {"epsilon": 2, "delta": "1e-6"},
    "rho": {"rho": "0.1"},
    "rho and delta": {"rho": "0.1", "delta": "1e-7"},
    "zcdp": {"epsilon": 2, "delta": "1e-6", "by": "zcdp", "own_delta": "1e-8"},
    "gdp": {"epsilon": 2, "delta": "1e-6", "by": "gdp"},
    "long": {"epsilon": LONG, "delta": Fraction(1, 3**500)},
    "long rho": {"rho": LONG, "delta": Fraction(1, 3**500)},
}
LAWS = DiscreteLaplace, Laplace, Snapping, DiscreteGaussian, Gaussian
REFUSED = {("epsilon", DiscreteGaussian), ("epsilon", Gaussian), ("gdp", DiscreteGaussian)}


def larger(one, law, change: Sensitivity, **options) -> dpfast.Laplace | Gaussian:
    """The same for the next larger figure: of nine digits, or of more if a share has more."""
    spent = getattr(one, "calibrated_for", one)
    name = "rho" if getattr(spent, "epsilon", None) is None else "epsilon"
    figure = getattr(spent, name)
    digits = Fraction(10) ** (math.floor(math.log10(figure)) - 8)
    more = (figure // digits + 1) * digits
    if name == "rho":
        return law.from_zcdp(more, change, **options)
    if hasattr(law, "calibrated"):
        return law.calibrated(more, change, delta=spent.delta, **options)
    return law(more, change, **options)


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_plan_is_paid_to_the_last_and_no_further(path, budget, adjacency) -> None:
    """Whatever was spent before; and the next larger figure would be refused before the last."""
    change = Sensitivity(3, 2, adjacency=adjacency, unit="patient")
    for law in LAWS:
        options = {"bound": Fraction(2) ** 70} if law is Snapping else {}
        ledger = Ledger(path.with_name(f"{law.NAME}.db"), **BUDGETS[budget], adjacency=adjacency, unit="patient", create=True)  # fmt: skip
        tenth = {
            "rho" if budget == "long rho" else "epsilon": Fraction(1, 10) * min(1, LONG if "long" in budget else 1)
        }
        before = Guarantee(**tenth, adjacency=adjacency, unit="patient")
        ledger.spend(before)
        if (budget, law) in REFUSED:
            with pytest.raises(ParameterError, match="^law must be"):
                ledger.calibrated(law, releases=N, sensitivity=change, **options)
            continue
        week = ledger.calibrated(law, releases=N, sensitivity=change, **options)
        assert type(week) is law
        assert ledger.fits(week) == N
        assert ledger.fits(larger(week, law, change, **options)) == N - 1
        ledger.spend(*[week] * (N - 1))
        ledger.release(week, [1, 2, 3] if week.INTEGERS else [1.0, 2.0, 3.0])
        with pytest.raises(BudgetExhausted):
            ledger.release(week, [1, 2, 3] if week.INTEGERS else [1.0, 2.0, 3.0])
        assert ledger.verify() == N + 1


def test_a_share_is_the_exact_one_unless_it_is_too_long(path) -> None:
    """1/26 of 2, and of what is left; nine digits, rounded down, of what a file would round."""
    ledger = Ledger(path, 2, create=True)
    assert ledger.calibrated(DiscreteLaplace, releases=N, sensitivity=1).epsilon == Fraction(1, 26)
    ledger.spend(Guarantee(Fraction(1, 7)))
    assert ledger.calibrated(DiscreteLaplace, releases=N, sensitivity=1).epsilon == Fraction(13, 7) / N
    long = Ledger(path.with_name("long.db"), LONG, create=True).calibrated(DiscreteLaplace, releases=N, sensitivity=1)
    assert long.epsilon < LONG / N < long.epsilon * (1 + Fraction(1, 10**8))
    assert Fraction(f"{float(long.epsilon):.9g}") == long.epsilon
    tight = Ledger(path.with_name("tight.db"), 2, create=True)
    tight.spend(Guarantee(LONG))  # in the sum there is a fraction of 1,000 bits
    one = tight.calibrated(DiscreteLaplace, releases=N, sensitivity=1)
    for _ in range(N):
        tight.release(one, [5])
    with pytest.raises(BudgetExhausted):
        tight.release(one, [5])


def test_a_year_of_weeks(path) -> None:
    """Weekly counts of one budget: the 52nd is paid, at less noise than a 52nd of epsilon each."""
    one = Sensitivity(1, 1)
    ledger = Ledger(path, epsilon=2, delta=1e-6, by="zcdp", create=True)
    week = ledger.calibrated(DiscreteGaussian, releases=52, sensitivity=one)
    for number in range(52):
        ledger.release(week, ZEROS, label=f"2027-W{number + 1:02}")
    assert ledger.spent.approximate(1e-6).epsilon <= 2
    assert week.interval(0.95) == 34 < DiscreteLaplace(Fraction(2, 52), one).interval(0.95) == 78


def test_a_number_has_the_adjacency_and_unit_of_the_ledger(path) -> None:
    ledger = Ledger(path, 1, adjacency="substitution", unit="patient", create=True)
    made = ledger.calibrated(Laplace, releases=3, sensitivity=2, granularity=2)
    assert (made.adjacency, made.unit, made.granularity) == ("substitution", "patient", 2)
    for wrong, said in (
        ({"sensitivity": Sensitivity(1, 1)}, "^adjacency must be that of the ledger"),
        ({"releases": 0}, "^releases must be at least 1, got 0"),
        ({"releases": 10**9 + 1}, "^releases must be at most 1,000,000,000"),
        ({"sensitivity": -1}, "^sensitivity must be positive"),
        ({"bound": 4}, "^Laplace: got an unexpected keyword argument 'bound'; it takes"),
    ):
        with pytest.raises((ParameterError, DTypeError), match=said):
            ledger.calibrated(Laplace, **{"releases": 3, "sensitivity": 2, **wrong})
    for law in (dpfast.OneSidedGeometric, dpfast.Exponential, DiscreteLaplace(1, 1), "laplace", None):
        with pytest.raises(DTypeError, match="^law must be DiscreteLaplace, .*, the class, not"):
            ledger.calibrated(law, releases=3, sensitivity=1)
    with pytest.raises(DTypeError, match="^sensitivity must be a Sensitivity here"):
        Ledger(path.with_name("rho.db"), rho=1, create=True).calibrated(Gaussian, releases=3, sensitivity=1)
    ledger.spend(ledger.budget)
    with pytest.raises(BudgetExhausted, match="^no epsilon is left of 1 for another release"):
        ledger.calibrated(Laplace, releases=1, sensitivity=1)


def test_a_weak_share_is_said_once_it_is_found(path, monkeypatch) -> None:
    """Not of what is tried on the way, which is more."""
    ledger = Ledger(path, rho=10**8, create=True)
    tiers.warns_again(monkeypatch)
    with pytest.warns(dpfast.errors.WeakGuaranteeWarning, match="^epsilon = ") as told:
        made = ledger.calibrated(DiscreteLaplace, releases=2, sensitivity=1)
    assert [str(each.message).partition(":")[0] for each in told] == [f"epsilon = {made.epsilon}"]


def test_the_command_says_what_to_write(path, capsys) -> None:
    """The options that it prints are paid n times by `privatize`, whose guarantee they make."""
    source = path.with_name("in.csv")
    source.write_text("n\n5\n")
    options = {"--bound": 1024, "--granularity": 1}
    for budget, laws in (
        ("epsilon", (Snapping,)), ("epsilon and delta", (DiscreteGaussian,)), ("zcdp", (DiscreteLaplace,)), ("gdp", (Gaussian,)),
    ):  # fmt: skip
        for law in laws:
            ledger = Ledger(path.with_name(f"{budget} {law.NAME}.db"), **BUDGETS[budget], adjacency="substitution", unit="a patient", create=True)  # fmt: skip
            name = law.NAME.replace("_", "-")
            own = [each for option in options if option in {"snapping": "--bound", "gaussian": "--granularity"}.get(name, "") for each in (option, options[option])]  # fmt: skip
            asked = ["ledger", "plan", ledger.path, "--releases", 3, "--mechanism", name, "--l0", 2, "--linf", 1, *own]
            code, out, err = command(capsys, *asked)
            assert (code, err) == (0, "")
            assert ", if nothing else is charged\n" in out
            facts = json.loads(command(capsys, *asked, "--json")[1])
            of_rows = "of dpfast histogram: its bounds, such as --max-partitions, in place of '--l0' and '--linf'\n"
            assert out.endswith(f": {facts['options']}\n{of_rows * law.INTEGERS}")
            written = facts["options"].replace("'a patient'", "a_patient").split()
            written = [each.replace("a_patient", "a patient") for each in written]
            target = path.with_name("out.csv")
            assert command(capsys, "privatize", source, target, "--column", "n", "--ledger", ledger.path, *written, "--force", "--quiet")[0] == 0  # fmt: skip
            (paid,) = ledger.history()
            share = ledger.calibrated(law, releases=2, sensitivity=Sensitivity(2, 1, adjacency="substitution", unit="a patient"),
                                      **{"bound": 1024} if law is Snapping else {"granularity": 1} if law is Gaussian else {})  # fmt: skip
            spent = ledger.cost(share)
            assert [ledger.cost(ledger.spent)[each] for each in spent] == pytest.approx([*spent.values()], rel=1e-8)
            assert paid.number == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--epsilon", 1, "--sensitivity", 1], "'--sensitivity' goes with '--releases'"),
        (["--releases", 2, "--mechanism", "gaussian"], "Missing option '--l0' with '--linf', or '--l2-squared'"),
        (["--releases", 2, "--mechanism", "snapping", "--sensitivity", 1], "Missing option '--bound'"),
        (["--releases", 2, "--sensitivity", 1, "--granularity", 1], "discrete-laplace takes no '--granularity'"),
        (["--releases", 2, "--mechanism", "gaussian", "--sensitivity", 1], "gaussian takes no '--sensitivity'"),
    ],
)
def test_wrong_plans(path, capsys, given, said) -> None:
    Ledger(path, 1, create=True)
    code, out, err = command(capsys, "ledger", "plan", path, *given)
    assert (code, out) == (2, "")
    assert said in err
