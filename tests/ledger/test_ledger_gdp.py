# SPDX-License-Identifier: Apache-2.0
"""Ledgers in Gaussian privacy, and what is paid that is no noise."""

from __future__ import annotations

import itertools
import json
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Never

import mpmath
import numpy as np
import pytest
import tiers
from ledgers import CELLS, TENTH, UNTOLD, ZEROS, command, release_key

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Guarantee, Ledger, Sensitivity
from dpfast.errors import BudgetExhausted, DTypeError, EntropyError, LedgerError, ParameterError
from dpfast.noise.mechanisms import mechanism as steps

# ------------------------------------------------------------------ in Gaussian privacy


PLANS = [(1, "1e-6"), ("0.1", "1e-5"), (8, "1e-9"), ("1e-3", "1e-12"), (20, "0.1")]


@pytest.mark.parametrize(("epsilon", "delta"), PLANS)
def test_a_plan_of_equal_releases_is_paid_to_the_last(path, epsilon, delta) -> None:
    """Exactly, and one more is refused; nor is more noise asked for than by the curve itself."""
    for n in (1, 10, 52, 365, 1000):
        ledger = Ledger(path.with_name(f"{n}.db"), epsilon, delta=delta, by="gdp", create=True)
        (most,) = ledger.cost(ledger.budget).values()
        for change in (
            Sensitivity(1, 1),
            Sensitivity(3, 2, adjacency="substitution"),
            Sensitivity.from_l2(Fraction(1, 3)),
        ):
            one = Gaussian.calibrated(epsilon, change, delta=delta, releases=n)
            spent = n * one.guarantee.mu_squared
            assert most * (1 - Fraction(1, 10**10)) < spent <= most < spent + spent / n
    last = Gaussian.calibrated(epsilon, CELLS, delta=delta, releases=n)
    assert ledger.fits(last) == n
    ledger.spend(*[last] * (n - 1))
    ledger.release(last, [0.0, 1.0])
    assert ledger.spent.approximate(delta).epsilon <= Fraction(epsilon)
    with pytest.raises(BudgetExhausted, match="^[^(]*mu_squared .* is asked for"):
        ledger.release(last, [0.0, 1.0])
    assert ledger.verify() == n


def test_a_ledger_in_gdp_charges_mu_squared_alone(path, capsys) -> None:
    """Whatever is mu-GDP pays, under a key once; file, copy and commands say the same."""
    ledger = Ledger(path, 1, delta="1e-6", by="gdp", dataset="visits", create=True)
    with mpmath.workdps(40):
        mu = mpmath.sqrt(number(ledger.budget.mu_squared))
        for factor, kept in (("1", True), ("1.00000000000000001", False)):
            assert (curve(mu * mpmath.mpf(factor), 1) <= mpmath.mpf("1e-6")) is kept
    noise = Gaussian(100, sensitivity=CELLS)
    assert ledger.cost(noise) == {"mu_squared": Fraction(2, 100**2)}
    ledger.release(noise, [0.0, 3.0], label="means")
    ledger.release(TENTH, ZEROS)
    key = release_key()
    once = ledger.release(Gaussian(100, sensitivity=CELLS, granularity=1), [1.0, 2.0], key=key)
    again = ledger.release(Gaussian(100, sensitivity=CELLS, granularity=1), [1.0, 2.0], key=key, resume=True)
    assert (once == again).all()
    assert (once % 1 == 0).all()
    ledger.spend(Guarantee(Fraction(1, 20), rho=Fraction(1, 10**4), gdp=True))  # the less of two that hold
    spent = [Fraction(1, 5000), TENTH.guarantee.mu_squared, Fraction(1, 5000), Fraction(1, 5000)]
    history = ledger.history()
    assert [entry.mu_squared for entry in history] == spent
    assert [entry.mu_squared_total for entry in history] == [sum(spent[: n + 1]) for n in range(4)]
    assert history[0].epsilon is history[0].rho is None
    assert ledger.spent == Guarantee(rho=sum(spent) / 2, gdp=True)
    assert ledger.remaining.mu_squared == ledger.budget.mu_squared - sum(spent)
    assert str(history).splitlines()[0].split()[-4:] == ["mu_squared", "mu_squared", "so", "far"]
    assert pickle.loads(pickle.dumps(ledger)).spent == ledger.spent
    assert Ledger(path, 1, delta="1e-6", by="gdp").spent == ledger.copy(path.with_name("copy.db")).spent
    assert ledger.metadata()["mu_squared"] == str(ledger.budget.mu_squared)
    assert "'visits': mu_squared 0.056029 per person, add-remove" in repr(ledger)
    with pytest.raises(LedgerError, match="was made for mu_squared"):
        Ledger(path, 2, delta="1e-6", by="gdp")
    with pytest.raises(LedgerError, match="kept in mu_squared, not in delta and rho"):
        Ledger(path, 1, delta="1e-6", by="zcdp")
    told = command(capsys, "ledger", "show", path)[1]
    assert "visits: mu_squared 0.056029 (about epsilon 1 at delta 1e-6) in all per person, add-remove" in told
    assert told.endswith("spent  mu_squared 0.0163024\nleft   mu_squared 0.0397266\n")
    facts = json.loads(command(capsys, "ledger", "show", path, "--json")[1])
    assert facts["releases"][3]["mu_squared"] == "1/5000"
    assert facts["spent"] == {"mu_squared": str(sum(spent))}
    other = path.with_name("other.db")
    made = command(
        capsys, "ledger", "create", other, "--epsilon", "1", "--delta", "1e-6", "--by", "gdp", "--dataset", "visits"
    )
    counted = "epsilon 1, delta 1e-6, counted as mu_squared 0.056029,"
    assert made == (0, f"visits: {counted} in all per person, add-remove\n", "")
    for options, said in [
        (["--rho", "0.0014"], "20 more of mu_squared 0.0028 fit, and then mu_squared 2.89638e-5 is left"),
        (["--epsilon", "0.1"], "3 more of mu_squared 0.0157024 fit, and then mu_squared 0.00892191 is left"),
        (["--releases", "10"], "each of 10 more may spend mu_squared 0.00560289, if nothing else is charged"),
    ]:
        assert command(capsys, "ledger", "plan", other, *options)[1].endswith(f"is left\n{said}\n")


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def curve(mu: mpmath.mpf, epsilon: object) -> mpmath.mpf:
    """The delta of N(0, 1) against N(mu, 1) for any epsilon, also one below 0."""
    e = mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize(
    "release",
    [
        Guarantee(Fraction(1, 10), 1e-9),
        Guarantee(rho=Fraction(1, 10**4)),
        Guarantee(rho=Fraction(1, 10**4), rho_delta=1e-9),
        DiscreteGaussian(100, sensitivity=CELLS),
        DiscreteGaussian.calibrated(1, CELLS, delta=1e-6, releases=99),
        dpfast.compose(Gaussian(100, sensitivity=CELLS), TENTH),
    ],
    ids=["epsilon and delta", "rho", "rho and its delta", "discrete", "plan", "mixed"],
)
def test_what_is_not_known_to_be_gdp_is_refused(path, release) -> None:
    ledger = Ledger(path, 1, delta="1e-6", by="gdp", create=True)
    before = path.read_bytes()
    for door in (ledger.spend, ledger.cost, ledger.fits):
        with pytest.raises(
            ParameterError, match="must be mu-GDP.*granularity=1.*each charged by itself.*by='zcdp', with own_delta"
        ):
            door(release)
    assert path.read_bytes() == before


def test_choices_and_answers_pay_in_gdp(path) -> None:
    """What their pure epsilon implies, for all picks and all answers."""
    for n, (mechanism, values, _) in enumerate(PAID):
        about = {"adjacency": mechanism.guarantee.adjacency}
        ledger = Ledger(path.with_name(f"{n}.db"), 9, delta="1e-6", by="gdp", create=True, **about)
        ledger.release(mechanism, values)
        assert ledger.spent.mu_squared == Guarantee(Fraction(1, 10)).mu_squared
    sizes = Ledger(path, 9, delta="1e-6", by="gdp", create=True)
    sizes.release(dpfast.Exponential(Fraction(1, 10), 1), [1, 2, 3], k=2)
    assert sizes.spent.mu_squared == Guarantee(Fraction(1, 5)).mu_squared


def test_choices_by_earlier_results_spend_no_more_than_the_budget() -> None:
    """The exact curve of what was chosen on the way is nowhere above that of the budget.

    A randomised response, then what its answer decides: all the rest as one Gaussian, or as up to
    six randomised responses of their own epsilons, and a Gaussian for what these leave.
    """
    with mpmath.workdps(30):
        for first, then in (("0.5", ["0.3"] * 6), ("1", ["1.5"]), ("0.01", ["0.2", "0.9"]), ("2", [])):
            spent = [number(Guarantee(e).mu_squared) for e in (first, *then)]
            budget = sum(spent) + mpmath.mpf("0.01")
            paths = [[], then]  # after a yes, after a no
            for swapped in (False, True):
                branches = paths[::-1] if swapped else paths
                for step in range(-8, 24, 2):
                    epsilon = mpmath.mpf(step) / 4
                    assert adaptive(epsilon, first, branches, budget) <= curve(mpmath.sqrt(budget), epsilon)


def adaptive(epsilon: mpmath.mpf, first: str, branches: list[list[str]], budget: mpmath.mpf) -> mpmath.mpf:
    """The delta at epsilon: of each path its probability, times the curve of the last Gaussian."""
    total = mpmath.mpf(0)
    for answer, then in enumerate(branches):
        left = budget - sum(number(Guarantee(e).mu_squared) for e in (first, *then))
        for others in itertools.product((0, 1), repeat=len(then)):
            probability, loss = mpmath.mpf(1), mpmath.mpf(0)
            for e, said in zip((first, *then), (answer, *others), strict=True):
                yes = mpmath.exp(mpmath.mpf(e)) / (1 + mpmath.exp(mpmath.mpf(e)))
                probability *= yes if said == 0 else 1 - yes
                loss += mpmath.mpf(e) if said == 0 else -mpmath.mpf(e)
            total += probability * curve(mpmath.sqrt(left), epsilon - loss)
    return total


def test_a_refusal_says_what_to_write(path) -> None:
    """A share whose decimal is above it; and which ledger pays for what was calibrated together."""
    week = DiscreteLaplace(2 / 52, 1)
    ledger = Ledger(path, 2, create=True)
    assert ledger.fits(week) == 51
    ledger.spend(*[week] * 51)
    with pytest.raises(
        BudgetExhausted, match=r"a little less is left of 2 \(write '1/26', which fits 52 times; a decimal"
    ):
        ledger.release(week, ZEROS)
    with pytest.raises(BudgetExhausted, match=r"a little less is left of 2 \(write '1/26'"):
        Ledger(path.with_name("at once.db"), 2, create=True).spend(*[week] * 52)
    assert Ledger(path.with_name("exact.db"), 2, create=True).fits(DiscreteLaplace("1/26", 1)) == 52
    with pytest.raises(
        BudgetExhausted, match=r"1\.1 is asked for and 1 is left of 1; nothing was released or charged$"
    ):
        Ledger(path.with_name("half.db"), 1, create=True).spend(Guarantee("0.5"), Guarantee("0.6"))
    for law, said in (
        (Gaussian, "a ledger by='gdp' pays for all 10 releases"),
        (
            DiscreteGaussian,
            r"by='zcdp', ledger.calibrated\(DiscreteGaussian, releases=10, sensitivity=s\) is paid 10 times",
        ),
    ):
        one = law.calibrated(1, CELLS, delta="1e-6", releases=10)
        for by in ({}, {"by": "zcdp"}):
            other = Ledger(path.with_name(f"{law.NAME} {len(by)}.db"), 1, delta="1e-6", create=True, **by)
            assert other.fits(one) == (8 if by else 1)
            with pytest.raises(BudgetExhausted, match=said):
                other.spend(*[one] * 10)


def test_a_failure_after_the_charge_gives_nothing_back(ledger, monkeypatch) -> None:
    """No key from the system, or Ctrl-C: spent is spent."""
    for failure in (EntropyError("none"), KeyboardInterrupt(), MemoryError()):

        def fail(*_, failure=failure) -> Never:
            raise failure

        with monkeypatch.context() as patch, pytest.raises(type(failure)):
            patch.setattr(tiers.StreamKey, "draw", fail)
            ledger.release(TENTH, np.zeros(5000, np.int64))
        with monkeypatch.context() as patch, pytest.raises(type(failure)):
            patch.setattr(steps, "run_small", fail)  # whose kernel draws the key
            ledger.release(TENTH, ZEROS)
    assert ledger.spent.epsilon == Fraction(6, 10)


PAID = [  # mechanisms that are no noise; values, and values that they refuse
    (dpfast.Exponential(Decimal("0.1"), 1), [1, 5], [1, np.nan]),
    (dpfast.PermuteAndFlip(Decimal("0.1"), 1), [1, 5], [1, np.nan]),
    (dpfast.NoisyMax(Decimal("0.1"), 1), [1, 5], [1, np.nan]),
    (dpfast.AboveThreshold(Decimal("0.1"), 1, threshold=3), [1, 10**6], None),
    (dpfast.RandomizedResponse(Decimal("0.1"), 2), [0, 1, 1], [0, 2]),
    (dpfast.RandomizedResponse(Decimal("0.1"), 2, answers_per_unit=3), [[0, 1, 1], [1, 1, 0]], [[0, 2, 1]]),
]


@pytest.mark.parametrize(("mechanism", "values", "unusable"), PAID, ids=lambda of: type(of).__name__)
def test_choices_and_answers_pay_too(path, mechanism, values, unusable, capsys) -> None:
    """Once a call; not for what is refused; and never beyond the budget."""
    ledger = Ledger(path, 1, adjacency=mechanism.guarantee.adjacency, create=True)
    ledger.release(mechanism, values, label="q")
    if unusable is not None:
        with pytest.raises(dpfast.errors.UnusableValuesError):
            ledger.release(mechanism, unusable, label="q")
    with pytest.raises(DTypeError, match="^'nope' is no option of a release by"):
        ledger.release(mechanism, values, nope=1)
    with pytest.raises(ParameterError, match="^key must be left out"):
        ledger.release(mechanism, values, key=release_key())
    kinds = [(entry.mechanism, entry.refused) for entry in ledger.history()]
    assert kinds == [(mechanism.NAME, False), (mechanism.NAME, True)][: len(kinds)]
    assert len(kinds) == 1 + (unusable is not None)
    assert ledger.spent.epsilon == Fraction(1, 10)
    said = command(capsys, "ledger", "verify", path)[1]
    charges = f"budget: 1 charge{' and 1 refused attempt' if unusable else ''}"
    assert said == f"{charges}, all as they were written{UNTOLD}"
    ledger.spend(ledger.remaining)
    with pytest.raises(BudgetExhausted):
        ledger.release(mechanism, values)


def test_private_keys_pay_too(ledger) -> None:
    """thresholded is charged (epsilon, delta); under a key once, for one input in any order."""
    how = {"epsilon": Decimal("0.1"), "delta": Decimal("1e-7"), "sensitivity": Sensitivity(1, 1), "ledger": ledger}
    dpfast.thresholded(["a", "b"], [500, 1], **how, label="words")
    first = dpfast.thresholded(["a", "b"], [500, 1], **how, key=release_key())
    again = dpfast.thresholded(["b", "a"], [1, 500], **how, key=release_key(), resume=True)
    assert (first.counts == again.counts).all()
    with pytest.raises(dpfast.errors.OtherInputError):
        dpfast.thresholded(["a", "b"], [500, 2], **how, key=release_key(), resume=True)
    assert ledger.spent == Guarantee(Decimal("0.2"), Decimal("2e-7"))
    assert [entry.label for entry in ledger.history()] == ["words", "visits/age", "visits/age"]
    assert "thresholded, refused: OtherInputError" in str(ledger.history())


def test_a_ledger_that_has_paid_nothing_says_so(tmp_path) -> None:
    """It once looked for the least double whose square is not below 0, and never ended."""
    spent = Ledger(tmp_path / "new.db", 1, delta="1e-6", by="gdp", dataset="visits", create=True).spent
    assert spent.mu == 0
    assert "mu=0" in repr(spent)
