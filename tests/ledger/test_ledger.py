# SPDX-License-Identifier: Apache-2.0
"""The ledger: charged before the noise, exactly, once a release; a file believed or refused."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pickle
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Never

import mpmath
import numpy as np
import pytest
import tiers
from fresh import python
from places import VECTORS

import dpfast
from dpfast import (
    BudgetExhausted,
    DiscreteGaussian,
    DiscreteLaplace,
    DTypeError,
    EntropyError,
    Gaussian,
    Guarantee,
    Key,
    KeyReuseError,
    Laplace,
    Ledger,
    LedgerError,
    NoGuaranteeError,
    ParameterError,
    Sensitivity,
    _native,
)
from dpfast.cli import main
from dpfast.ledger import lock, store, upgrade
from dpfast.mechanisms import mechanism as steps
from dpfast.privacy.formatting import amount
from dpfast.release.secret import keyed

TENTH = DiscreteLaplace(Decimal("0.1"), 1000)  # two draws are equal once in 40,000
ZEROS = np.zeros(50, np.int64)
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where a flush costs nothing
CELLS = Sensitivity(2, 1)
UNTOLD = "\nwhether a copy was restored since cannot be told without --key-file\n"


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder, "budget.db")


@pytest.fixture
def ledger(path) -> Ledger:
    return Ledger(path, 1, delta=Decimal("1e-6"), dataset="visits", create=True)


def release_key(label: str = "visits/age") -> dpfast.ReleaseKey:
    return Key.from_bytes(bytes(range(32))).derive(label)


# ------------------------------------------------------------------ charges


def test_a_release_is_charged(ledger) -> None:
    """The mechanism's noise; the history says what was charged, when and why; exact sums."""
    noisy = ledger.release(TENTH, ZEROS, label="by age", lower=-(10**6))
    assert noisy.shape == (50,)
    assert len(set(noisy.tolist())) > 40
    ledger.release(Laplace(Fraction(1, 3), 1), np.zeros((2, 3)), label="hours")
    ledger.release(DiscreteGaussian.calibrated(Decimal("0.25"), CELLS, delta=Decimal("1e-7")), ZEROS)
    spent = Fraction(1, 10) + Fraction(1, 3) + Fraction(1, 4)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (spent, Fraction(1, 10**7))
    assert (ledger.remaining.epsilon, ledger.remaining.delta) == (1 - spent, Fraction(9, 10**7))
    assert ledger.budget == Guarantee(1, Decimal("1e-6"))
    first, second, third = ledger.history()
    assert (first.number, *first[2:5], first.rho) == (1, "by age", "discrete_laplace", Fraction(1, 10), None)
    assert (second.label, second.epsilon_total) == ("hours", Fraction(13, 30))
    assert (third.number, third.delta_total) == (3, Fraction(1, 10**7))
    assert first.parameters == json.loads(json.dumps(TENTH.metadata()))
    assert first.time.startswith("20")
    assert first.time.endswith("Z")


def test_beyond_the_budget_there_is_no_noise(ledger, monkeypatch) -> None:
    ledger.release(DiscreteLaplace(Decimal("0.7"), 1), ZEROS)
    before, target = ledger.path.read_bytes(), np.arange(50)
    with monkeypatch.context() as patch:
        for source in ("draw", "take"):
            patch.setattr(_native.StreamKey, source, lambda *_: pytest.fail("a key was drawn"))
        patch.setattr(steps, "run_small", lambda *_: pytest.fail("a key was drawn"))
        message = r"epsilon 0\.5 is asked for and 0\.3 is left of 1; nothing was released$"
        with pytest.raises(BudgetExhausted, match=message):
            ledger.release(DiscreteLaplace(Decimal("0.5"), 1), ZEROS, out=target)
        with pytest.raises(BudgetExhausted, match="delta 1e-5 is asked for and 1e-6 is left of 1e-6;"):
            ledger.release(DiscreteGaussian.calibrated(Decimal("0.1"), CELLS, delta=Decimal("1e-5")), ZEROS)
    assert ledger.path.read_bytes() == before
    assert (target == np.arange(50)).all()
    ledger.release(DiscreteLaplace(Decimal("0.3"), 1), ZEROS)
    assert ledger.remaining.epsilon == 0
    assert issubclass(BudgetExhausted, LedgerError)


def test_sums_are_exact_and_floats_are_their_shortest_decimals(path) -> None:
    """Ten times 1/10 is 1, and so is ten times the float 0.1; its double is a little more."""
    exact = Ledger(path, 1, create=True)
    floats = Ledger(path.with_name("floats.db"), 1, create=True)
    for n in range(10):
        assert exact.fits(TENTH) == 10 - n
        exact.spend(TENTH)
    assert exact.remaining.epsilon == 0
    for _ in range(9):
        floats.spend(DiscreteLaplace(0.1, 1))
    with pytest.raises(
        BudgetExhausted, match=r"epsilon 0\.1 is asked for and a little less is left of 1 \(write '0\.1'"
    ):
        floats.spend(Guarantee(Fraction(0.1)))
    assert "epsilon=0.1," in repr(floats.remaining)
    floats.spend(DiscreteLaplace(0.1, 1))
    assert floats.remaining.epsilon == 0


def test_long_fractions_round_up_by_next_to_nothing(path) -> None:
    """Coprime denominators: beyond 1,024 bits a charge is rounded up, so sums stay short."""
    ledger, total = Ledger(path, rho=1, create=True), Fraction(0)
    primes = [p for p in range(10**6, 10**6 + 3000) if all(p % q for q in range(2, 1001))][:90]
    for p in primes:
        ledger.spend(Guarantee(rho=Fraction(1, p)))
        total += Fraction(1, p)
    spent = ledger.spent.rho
    assert total < spent < total + Fraction(90, 2**1074)
    assert spent.denominator.bit_length() < 2200
    assert Ledger(path).history()[-1].rho_total == spent


def test_a_sum_of_several_is_charged_whole_or_not_at_all(ledger) -> None:
    ledger.spend(TENTH, Guarantee(Fraction(1, 2), Decimal("1e-7")), label="two")
    assert [entry.label for entry in ledger.history()] == ["two", "two"]
    assert [entry.mechanism for entry in ledger.history()] == ["discrete_laplace", "Guarantee"]
    with pytest.raises(BudgetExhausted, match=r"epsilon 0\.5 is asked for"):
        ledger.spend(TENTH, Guarantee(Decimal("0.4")))
    assert ledger.remaining.epsilon == Fraction(4, 10)

    class Other:
        guarantee = Guarantee(Decimal("0.1"))

    ledger.spend(Other(), label="of another library")
    assert ledger.history()[-1][2:5] == ("of another library", "Other", Fraction(1, 10))
    assert ledger.fits(Guarantee(0)) is None
    assert ledger.fits(Guarantee(Decimal("0.1"), Decimal("4e-7"))) == 2
    assert ledger.fits(Guarantee(Decimal("0.1"))) == 3


def test_the_charge_is_on_disk_before_the_key_is_drawn(path, monkeypatch) -> None:
    """Another process sees it at that moment; the commit survives a power cut."""
    ledger, insert, seen = Ledger(path, 1, create=True), store.insert, []

    def watched(draw) -> Callable:
        return lambda *job: seen.append(len(Ledger(path).history())) or draw(*job)

    def inserted(connection, *row) -> None:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        other = sqlite3.connect(path, timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
        return insert(connection, *row)

    for place, name in ((_native.StreamKey, "draw"), (_native.StreamKey, "take"), (steps, "run_small")):
        monkeypatch.setattr(place, name, watched(getattr(place, name)))
    monkeypatch.setattr(store, "insert", inserted)
    ledger.release(TENTH, ZEROS)
    ledger.release(TENTH, np.zeros(5000, np.int32))
    ledger.release(TENTH, ZEROS, key=release_key("flushed"))
    ledger.release(Laplace(Decimal("0.1"), 1), [0.5])
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("mechanism", "values", "options", "error"),
    [
        (TENTH, [0.5], {}, DTypeError),
        (TENTH, ZEROS, {"out": np.zeros(3, np.int64)}, ParameterError),
        (TENTH, ZEROS, {"threads": 0}, ParameterError),
        (TENTH, ZEROS, {"lower": 2, "upper": 1}, ParameterError),
        (TENTH, ZEROS, {"no_such_option": 2}, TypeError),
        (TENTH, ZEROS, {"resume": True}, ParameterError),
        (TENTH, ZEROS, {"resume": 1}, DTypeError),
        (TENTH, ZEROS, {"names": range(50)}, ParameterError),
        (TENTH, ZEROS, {"key": release_key(), "names": range(49)}, ParameterError),
        (TENTH, ZEROS, {"key": release_key(), "names": [0.5] * 50}, DTypeError),
        (TENTH, ZEROS, {"key": release_key(), "out": ZEROS}, ParameterError),
        (TENTH, ZEROS, {"key": release_key(), "out": ZEROS, "clamp": (0, 1)}, ParameterError),
        (TENTH, ZEROS, {"key": Key.generate()}, DTypeError),
        (TENTH, ZEROS, {"key": dpfast.testing.fixed_key(1).derive("x")}, ParameterError),
        (TENTH, ZEROS, {"key": release_key("x" * 201)}, ParameterError),
        (dpfast.RandomizedResponse(Decimal("0.1"), 2), [0, 1], {"key": release_key()}, ParameterError),
        (Laplace(Decimal("0.1"), 1, granularity=2**28), [0.5], {"constant_time": True}, ParameterError),
        (DiscreteLaplace(Decimal("0.1"), 1, adjacency="substitution"), ZEROS, {}, ParameterError),
        (DiscreteLaplace(Decimal("0.1"), 1, unit="household"), ZEROS, {}, ParameterError),
        (DiscreteGaussian.from_zcdp(Decimal("0.1"), CELLS), ZEROS, {}, ParameterError),
        (Gaussian(3), [0.5], {}, ParameterError),
        (dpfast.OneSidedGeometric(1, 1), ZEROS, {}, DTypeError),
        (Guarantee(Decimal("0.1")), ZEROS, {}, DTypeError),
        (TENTH, ZEROS, {"label": "two\nlines"}, ParameterError),
        (TENTH, ZEROS, {"label": "null\0"}, ParameterError),
        (TENTH, ZEROS, {"label": "\ud800"}, ParameterError),
        (TENTH, ZEROS, {"label": "\x1b[31mred"}, ParameterError),
        (TENTH, ZEROS, {"label": "x" * 201}, ParameterError),
        (TENTH, ZEROS, {"label": b"x"}, DTypeError),
    ],
)  # fmt: skip
def test_what_is_refused_is_not_charged(ledger, mechanism, values, options, error) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(error) as caught:
        ledger.release(mechanism, values, **options)
    assert ledger.path.read_bytes() == before
    assert not isinstance(caught.value, LedgerError)


@pytest.mark.parametrize("options", [{}, {"key": release_key("refused")}], ids=["", "keyed"])
def test_what_is_refused_for_its_values_is_on_record(ledger, options, capsys) -> None:
    """It costs nothing, and tells that somebody asked."""
    for values in ([0.5, np.nan], [0.5, np.inf]):
        with pytest.raises(dpfast.UnusableValuesError):
            ledger.release(Laplace(Decimal("0.1"), 1), values, **options)
    history = Ledger(ledger.path).history()
    assert [(entry.refused, entry.epsilon, entry.parameters["refused"]) for entry in history] == [
        (True, 0, "UnusableValuesError")
    ] * 2
    assert ledger.spent == Guarantee(0, 0)
    assert "laplace, refused" in str(history)
    assert ledger.verify() == 2


def test_no_budget_is_said_whatever_the_values_are(ledger) -> None:
    """Else whoever sees this refusal, and no other, learns that the values are usable."""
    for options in ({}, {"key": release_key("dear")}):
        for values in ([0.5], [np.nan]):
            with pytest.raises(BudgetExhausted) as caught:
                ledger.release(Laplace(2, 1), values, **options)
            assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert len(ledger.history()) == 0


def test_another_mechanism_is_said_whatever_the_values_are(ledger) -> None:
    """Under a label that is reserved; so is another cost, to whoever looks before reading."""
    key, tenth = release_key("hours"), Laplace(Decimal("0.1"), 1)
    ledger.release(tenth, np.zeros(2), key=key)
    for values in ([0.5, 0.5], [np.nan, 0.5]):
        with pytest.raises(KeyReuseError, match=r"with other parameters of laplace \(epsilon\): go on"):
            ledger.release(Laplace(Decimal("0.2"), 1), values, key=key, resume=True)
    with pytest.raises(KeyReuseError, match="with another kind, array, not table"):
        ledger.expect(key, {"hours": tenth}, resume=True)
    assert ledger.expect(key, tenth, resume=True)
    assert len(ledger.history()) == 1


def test_a_refused_mechanism_is_told_why(ledger) -> None:
    for mechanism, message in [
        (DiscreteLaplace(1, 1, adjacency="substitution"), "adjacency must be that of the ledger, 'add-remove', got 'substitution'"),
        (DiscreteLaplace(1, 1, unit="household"), "unit must be that of the ledger, 'person', got 'household'"),
        (DiscreteGaussian.from_zcdp(1, CELLS), "mechanism must promise epsilon and delta, in which this ledger is kept"),
    ]:  # fmt: skip
        with pytest.raises(ParameterError) as caught:
            ledger.release(mechanism, ZEROS)
        assert str(caught.value).startswith(message)
    with pytest.raises(DTypeError, match="releases must be a mechanism with a guarantee"):
        ledger.spend(object())


@pytest.mark.parametrize("kinds", [(ParameterError,), (DTypeError,), (NoGuaranteeError,)])
def test_a_law_without_a_guarantee_says_so_itself(ledger, kinds) -> None:
    """Its own words reach the user, of whatever kind its error is; nothing is charged."""

    class Law:
        @property
        def guarantee(self) -> Guarantee:
            raise type("Refusal", kinds, {})("this law promises nothing")

    before = ledger.path.read_bytes()
    for attempt in (ledger.spend, ledger.fits):
        with pytest.raises(kinds[0], match="^this law promises nothing$"):
            attempt(Law())
    assert ledger.path.read_bytes() == before


def test_a_ledger_in_rho_charges_rho_alone(path) -> None:
    ledger = Ledger(path, rho=1, create=True)
    ledger.release(DiscreteGaussian.from_zcdp(Fraction(1, 3), CELLS), ZEROS)
    both = DiscreteGaussian.calibrated(1, CELLS, delta=1e-6)
    ledger.release(both, ZEROS)
    assert ledger.spent == Guarantee(rho=Fraction(1, 3) + both.rho())
    assert ledger.history()[0].epsilon is None
    ledger.release(TENTH, ZEROS)  # every mechanism has one
    assert ledger.history()[-1].rho == TENTH.guarantee.rho
    with pytest.raises(ParameterError, match="without a delta, .* by='zcdp' with own_delta, takes it"):
        ledger.spend(Guarantee(0.1, 1e-9))


def test_many_releases_fit_in_zcdp(path) -> None:
    """365 of epsilon 0.1 in 11.06 at delta 1e-6, not in 36.5; opened by equal terms alone."""
    tenth = DiscreteLaplace(Fraction(1, 10), 1)
    ledger = Ledger(path, Fraction("11.06"), delta=Fraction("1e-6"), by="zcdp", create=True)
    assert ledger.fits(tenth) == 365
    assert ledger.cost(tenth) == {"delta": 0, "rho": tenth.guarantee.rho}
    assert ledger.budget.approximate(Fraction("1e-6")).epsilon <= Fraction("11.06")
    assert Fraction("11.059") < ledger.budget.approximate(Fraction("1e-6")).epsilon
    ledger.spend(*[tenth] * 365)
    with pytest.raises(BudgetExhausted):
        ledger.release(tenth, ZEROS)
    assert Ledger(path, Fraction("11.06"), delta=Fraction("1e-6"), by="zcdp").spent.rho == 365 * tenth.guarantee.rho
    with pytest.raises(LedgerError, match="was made for rho"):
        Ledger(path, 11, delta=Fraction("1e-6"), by="zcdp")
    with pytest.raises(LedgerError, match="kept in delta and rho"):
        Ledger(path, 11)


def test_rho_and_delta_are_two_totals_and_none_is_traded(path) -> None:
    """A release with a delta is refused for the delta, whatever rho is left; all kinds pay."""
    ledger = Ledger(path, 3, delta=1e-6, by="zcdp", own_delta=5e-7, create=True)
    known = dpfast.Sensitivity(1, 1)
    dpfast.thresholded(["a"], [99], epsilon=0.5, delta=4e-7, sensitivity=known, ledger=ledger)
    with pytest.raises(BudgetExhausted, match="delta 4e-7 is asked for and 1e-7 is left"):
        dpfast.thresholded(["a"], [99], epsilon=0.001, delta=4e-7, sensitivity=known, ledger=ledger)
    ledger.release(dpfast.Exponential(Fraction(1, 2), 1), [1, 2])
    ledger.release(dpfast.AboveThreshold(Fraction(1, 10), 1, threshold=5), [1, 9])
    ledger.release(DiscreteGaussian.calibrated(Fraction(1, 10), known, delta=1e-9), ZEROS)
    spent = [entry.rho for entry in ledger.history()]
    assert spent[1:3] == [Fraction(1, 32), Guarantee(Fraction(1, 10)).rho]
    assert ledger.spent == Guarantee(rho=sum(spent), rho_delta=ledger.history()[0].delta)
    assert ledger.budget.approximate(1e-6).epsilon <= 3
    assert Ledger(path.with_name("2.db"), rho=1, delta=1e-7, create=True).budget == Guarantee(rho=1, rho_delta=1e-7)


@pytest.mark.parametrize("own", ["0", "1e-7", "9e-7"])
def test_totals_of_zcdp_imply_the_ledgers_own(path, own) -> None:
    """The releases' own deltas are a part of its delta, and come to no more with that of rho."""
    budget = Ledger(path, 1, delta="1e-6", by="zcdp", own_delta=own, create=True).budget
    assert Fraction(99, 10**8) < budget.delta_at(1) <= Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"epsilon": 1, "by": "zcdp"}, "with the total epsilon and delta"),
        ({"rho": 1, "by": "zcdp"}, "with the total epsilon and delta"),
        ({"epsilon": 1, "delta": 1e-6, "by": "pld"}, "by must be 'zcdp' or 'gdp'.* got 'pld'"),
        ({"epsilon": 1, "by": "gdp"}, "with the total epsilon and delta"),
        ({"epsilon": 1, "delta": 0, "by": "gdp"}, "delta must be positive"),
        ({"epsilon": 1, "delta": 1e-6, "by": "gdp", "own_delta": 1e-7}, "no release has a delta in a ledger by='gdp'"),
        ({"epsilon": "1e-400", "delta": "1e-200", "by": "gdp"}, "mu_squared must be at most 2\\*\\*64 and of at most"),
        ({"epsilon": 1, "delta": 1e-6, "own_delta": 1e-7}, "own_delta goes with by='zcdp'"),
        ({"epsilon": 1, "delta": 1e-6, "by": "zcdp", "own_delta": 1e-6}, "own_delta must be below delta"),
    ],
)
def test_bad_terms_of_zcdp(path, terms, message) -> None:
    with pytest.raises(ParameterError, match=message):
        Ledger(path, create=True, **terms)
    assert not path.exists()


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
    assert "visits: mu_squared 0.056029 in all per person, add-remove" in told
    assert told.endswith("spent  mu_squared 0.0163024\nleft   mu_squared 0.0397266\n")
    facts = json.loads(command(capsys, "ledger", "show", path, "--json")[1])
    assert facts["releases"][3]["mu_squared"] == "1/5000"
    assert facts["spent"] == {"mu_squared": str(sum(spent))}
    other = path.with_name("other.db")
    made = command(
        capsys, "ledger", "create", other, "--epsilon", "1", "--delta", "1e-6", "--by", "gdp", "--dataset", "visits"
    )
    assert made == (0, "visits: mu_squared 0.056029 in all per person, add-remove\n", "")
    for options, said in [
        (["--rho", "0.0014"], "20 more of mu_squared 0.0028 fit, and then mu_squared 2.89638e-5 is left"),
        (["--epsilon", "0.1"], "3 more of mu_squared 0.0157024 fit, and then mu_squared 0.00892191 is left"),
        (["--releases", "10"], "each of 10 more may spend mu_squared 0.00560289"),
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
    with pytest.raises(BudgetExhausted, match=r"1\.1 is asked for and 1 is left of 1; nothing was released$"):
        Ledger(path.with_name("half.db"), 1, create=True).spend(Guarantee("0.5"), Guarantee("0.6"))
    for law, said in (
        (Gaussian, "a ledger by='gdp' pays for all 10 releases"),
        (
            DiscreteGaussian,
            r"calibrate\(lambda rho: DiscreteGaussian.from_zcdp\(rho, s\), releases=10, …\) is paid 10 times",
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
            patch.setattr(_native.StreamKey, "draw", fail)
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
        with pytest.raises(dpfast.UnusableValuesError):
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
    with pytest.raises(dpfast.OtherInputError):
        dpfast.thresholded(["a", "b"], [500, 2], **how, key=release_key(), resume=True)
    assert ledger.spent == Guarantee(Decimal("0.2"), Decimal("2e-7"))
    assert [entry.label for entry in ledger.history()] == ["words", "visits/age", "visits/age"]
    assert "thresholded, refused: OtherInputError" in str(ledger.history())


# ------------------------------------------------------------------ releases under keys


def test_the_ledger_says_since_when_a_label_is_reserved(ledger) -> None:
    """Also where this process knows it, which knows no date; and all columns are named."""
    ledger.reserve(sealed_table(release_key(), ZEROS))
    at = r"^'visits/age' is reserved \(number 1, \d{4}-\d\d-\d\d\) "
    for more, message in [
        ({"people": TENTH}, "with the columns 'visits', 'hours', not 'visits', 'hours', 'people': go on with"),
        ({"hours": TENTH}, "with other parameters of discrete_laplace of column 'hours'"),
        (
            {"hours": GAUSSIAN_COUNTS},
            "with another mechanism of column 'hours', discrete_laplace, not discrete_gaussian",
        ),
    ]:
        with pytest.raises(KeyReuseError, match=at + message):
            ledger.reserve(sealed_table(release_key(), ZEROS, **more), resume=True)
    with pytest.raises(KeyReuseError, match=at + "with another kind, table, not array"):
        ledger.release(DiscreteLaplace(Decimal("0.3"), 1), ZEROS, key=release_key(), resume=True)
    with pytest.raises(dpfast.OtherInputError, match=r"reserved \(number 1, .* such as 'visits/age 2'"):
        ledger.reserve(sealed_table(release_key(), ZEROS + 1), resume=True)
    with pytest.raises(KeyReuseError, match=at.rstrip(" ") + ": resume=True continues it") as caught:
        ledger.reserve(sealed_table(release_key(), ZEROS + 1))
    assert not isinstance(caught.value, dpfast.DataDependentError)


def test_a_label_is_charged_once(ledger) -> None:
    """In this process or another, any layout: resume=True gives equal noise, for nothing."""
    first = ledger.release(TENTH, ZEROS, key=release_key())
    again = Ledger(ledger.path).release(TENTH, ZEROS.astype(np.int8), key=release_key(), resume=True, lower=0)
    assert (np.maximum(first, 0) == again).all()
    assert (first == TENTH.release(ZEROS, key=release_key(), resume=True)).all()
    ledger.spend(Guarantee(ledger.remaining.epsilon))
    assert (ledger.release(TENTH, ZEROS, key=release_key(), resume=True) == first).all()
    assert ledger.history()[0][2:5:2] == ("visits/age", Fraction(1, 10))
    assert (ledger.spent.epsilon, len(ledger.history())) == (1, 2)


def test_resume_reserves_where_nothing_is_reserved(ledger) -> None:
    """So that an orchestrator may always say it."""
    first = ledger.release(TENTH, ZEROS, key=release_key("new"), resume=True)
    assert (first == ledger.release(TENTH, ZEROS, key=release_key("new"), resume=True)).all()
    assert len(ledger.history()) == 1


GAUSSIAN = Gaussian(3, sensitivity=Sensitivity(1, 1))
GAUSSIAN_COUNTS = DiscreteGaussian.calibrated(Decimal("0.2"), CELLS, delta=Decimal("1e-7"))


@pytest.mark.parametrize(
    ("mechanism", "values", "key", "resume", "message"),
    [
        (
            TENTH,
            ZEROS,
            release_key(),
            False,
            r"^'visits/age' is reserved \(number 1, .*resume=True continues it; new data",
        ),
        (TENTH, ZEROS + 1, release_key(), False, "resume=True continues it"),  # whatever the data
        (
            TENTH,
            ZEROS,
            Key.generate().derive("visits/age"),
            True,
            r"under another key \(id [0-9a-f]{32}, this one [0-9a-f]{32}\)",
        ),
        (
            DiscreteLaplace(Decimal("0.2"), 1000),
            ZEROS,
            release_key(),
            True,
            "with other parameters of discrete_laplace",
        ),
        (
            DiscreteGaussian.calibrated(Decimal("0.1"), CELLS, delta=Decimal("1e-7")),
            ZEROS,
            release_key(),
            True,
            "with another mechanism, discrete_laplace, not discrete_gaussian",
        ),
        (TENTH, ZEROS[:49], release_key(), True, r"with another shape, \(50,\), not \(49,\)"),
        (TENTH, ZEROS.reshape(5, 10), release_key(), True, r"with another shape, \(50,\), not \(5, 10\)"),
    ],
)
def test_another_release_under_a_label_is_refused(ledger, mechanism, values, key, resume, message) -> None:
    """It says which of label, key, parameters differs; nothing is drawn, charged or written."""
    ledger.release(TENTH, ZEROS, key=release_key())
    before, out = ledger.path.read_bytes(), np.full(values.shape, 77)
    with pytest.raises(KeyReuseError, match=message) as caught:
        ledger.release(mechanism, values, key=key, resume=resume, out=out)
    assert not isinstance(caught.value, dpfast.DataDependentError)
    assert ledger.path.read_bytes() == before
    assert (out == 77).all()


def test_another_input_under_a_label_is_refused(ledger) -> None:
    """Apart from the others, for it depends on the data; the attempt is on record, at no cost."""
    ledger.release(TENTH, ZEROS, key=release_key())
    for values, names in ((ZEROS + 1, None), (ZEROS, range(50))):
        with pytest.raises(dpfast.OtherInputError, match="^'visits/age': the input is not the one that was reserved"):
            Ledger(ledger.path).release(TENTH, values, key=release_key(), names=names, resume=True)
    assert ledger.spent.epsilon == Fraction(1, 10)
    assert [(entry.refused, entry.epsilon) for entry in ledger.history()] == [
        (False, Fraction(1, 10)),
        (True, 0),
        (True, 0),
    ]


def test_another_label_is_charged(ledger) -> None:
    for label in ("a", "b", "a "):
        ledger.release(TENTH, ZEROS, key=release_key(label))
    with pytest.raises(ParameterError, match="^label must not be given beside a key"):
        ledger.release(TENTH, ZEROS, key=release_key("c"), label="d")
    assert [entry.label for entry in ledger.history()] == ["a", "b", "a "]


def test_a_lower_price_is_another_release(path) -> None:
    """A sigma does not know its guarantee: what was sold cheap is no dear release."""
    ledger = Ledger(path, rho=1, create=True)
    ledger.release(GAUSSIAN, np.zeros(3), key=release_key())
    dear = Gaussian(3, sensitivity=Sensitivity(4, 1))
    assert tiers.record(dear) == tiers.record(GAUSSIAN)
    with pytest.raises(
        KeyReuseError, match=r"at another cost, rho 0\.0555556, not rho 0\.222223: .*pay for a new label"
    ):
        ledger.release(dear, np.zeros(3), key=release_key(), resume=True)
    assert [entry.rho for entry in ledger.history()] == [Fraction(1, 18)]


def test_a_refused_release_leaves_its_label_free(path) -> None:
    """Neither a price beyond the budget nor a NaN reserves anything, here or in the process."""
    ledger, key, real = Ledger(path, Decimal("0.1"), create=True), release_key("free"), Laplace(Decimal("0.1"), 1)
    for mechanism, values, error in (
        (DiscreteLaplace(1, 1), ZEROS, BudgetExhausted),
        (real, [np.nan], dpfast.UnusableValuesError),
    ):
        with pytest.raises(error):
            ledger.release(mechanism, values, key=key)
    ledger.release(real, np.zeros(50), key=key)
    assert [entry.refused for entry in ledger.history()] == [True, False]


def test_a_budget_is_looked_at_before_the_values(path, monkeypatch) -> None:
    """Nobody reads eight gigabytes to be told that nothing is left."""
    ledger = Ledger(path, Decimal("0.05"), create=True)
    monkeypatch.setattr("dpfast.release.blocks.Blocks.digests", lambda *_: pytest.fail("values were read"))
    with pytest.raises(BudgetExhausted):
        ledger.release(TENTH, ZEROS, key=release_key())


def sealed_table(key: dpfast.ReleaseKey, counts: np.ndarray, **more: object) -> object:
    """The seal of two columns."""
    columns = {"visits": TENTH, "hours": DiscreteLaplace(Decimal("0.2"), 5), **more}
    made = [key.digester(law, column=name)(0, counts) for name, law in columns.items()]
    return key.seal(columns, made, shape=(counts.size,))


def test_a_table_is_reserved_whole(ledger) -> None:
    """All its columns in one row, or none; equal counts in two columns get their own noise."""
    sealed = ledger.reserve(sealed_table(release_key(), ZEROS))
    assert ledger.spent.epsilon == Fraction(3, 10)
    (entry,) = ledger.history()
    assert (entry.label, entry.mechanism, set(entry.parameters["columns"])) == (
        "visits/age",
        "discrete_laplace",
        {"visits", "hours"},
    )
    noisy = [sealed.release(0, ZEROS, column=name) for name in ("visits", "hours")]
    assert (noisy[0] != noisy[1]).any()
    again = ledger.reserve(sealed_table(release_key(), ZEROS), resume=True)
    assert (again.release(0, ZEROS, column="hours") == noisy[1]).all()
    with pytest.raises(KeyReuseError, match="resume=True continues it"):
        ledger.reserve(sealed_table(release_key(), ZEROS))
    with pytest.raises(dpfast.OtherInputError):
        ledger.reserve(sealed_table(release_key(), ZEROS + 1), resume=True)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(sealed_table(release_key("dear"), ZEROS, more=DiscreteLaplace(1, 1)))
    with pytest.raises(ParameterError, match="^key must be secret"):
        ledger.reserve(sealed_table(dpfast.testing.fixed_key(1).derive("x"), ZEROS))
    with pytest.raises(DTypeError, match="^seal must be a Seal"):
        ledger.reserve(TENTH)
    assert ledger.spent.epsilon == Fraction(3, 10)


def test_the_file_tells_nothing_of_keys_or_counts(ledger) -> None:
    """No secret of any kind, no root, no digest, no count."""
    key, counts, streams = release_key("told"), np.arange(918273645_546372819, 918273645_546372869), []
    real = _native.StreamKey.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native.StreamKey, "take", lambda key, secret: streams.append(secret) or real(key, secret))
        noisy = ledger.release(TENTH, counts, key=key)
        ledger.release(TENTH, counts)
    assert len(streams) == 1  # that without a key is drawn in C, where it is wiped
    found = ledger.path.read_bytes()
    held = tiers.secret_of(key)
    digest = key.digester(TENTH)(0, counts)
    seal = key.seal(TENTH, [digest], shape=counts.shape)
    secrets = [streams[0], held, bytes(range(32)), digest.digest, seal._root]
    secrets += [keyed(held, purpose) for purpose in ("block digest", "choice of bins")]
    hidden = [secret[at : at + 8] for secret in secrets for at in range(0, 32, 8)]
    hidden += [secret[:8].hex().encode() for secret in secrets]
    hidden += [
        form
        for value in (*counts, *noisy)
        for form in (value.tobytes(), value.byteswap().tobytes(), str(value).encode())
    ]
    assert not any(secret in found for secret in hidden)


# If a test before this one imported OpenDP, which has such a namespace, too.
@pytest.mark.filterwarnings("ignore:the Polars namespace dp")
def test_lazy_and_other_kinds_of_values(ledger) -> None:
    """A Series is one charge; a Polars expression one at every evaluation, and none before."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    noisy = ledger.release(TENTH, pandas.Series([1, 2], index=["a", "b"]))
    assert list(noisy.index) == ["a", "b"]
    frame = polars.DataFrame({"n": [1, 2, 3]}).lazy().select(ledger.release(TENTH, polars.col("n"), label="lazy"))
    assert len(ledger.history()) == 1
    frame.collect()
    frame.collect()
    assert [entry.label for entry in ledger.history()] == ["", "lazy", "lazy"]


# ------------------------------------------------------------------ the file


def test_a_mistyped_path_makes_no_budget(path, capsys) -> None:
    """Any budget, and the command line: only create=True and `ledger create` make a file."""
    source = path.with_name("in.csv")
    source.write_text("count\n1\n")
    for budget in ({}, {"epsilon": 3}, {"rho": 1, "dataset": "visits"}):
        with pytest.raises(LedgerError, match=r"budget\.db does not exist; create=True, or `dpfast ledger create`"):
            Ledger(path, **budget)
    law = ["--column", "count", "--epsilon", "1", "--sensitivity", "1", "--ledger", path]
    assert command(capsys, "privatize", source, path.with_name("out.csv"), *law)[0] == 1
    for verb in ("show", "verify", "upgrade"):
        assert command(capsys, "ledger", verb, path)[0] == 1
    assert [p.name for p in path.parent.iterdir()] == ["in.csv"]


def test_create_makes_and_opening_opens(path) -> None:
    """One call does not do for the other; and create=True asks for a budget."""
    with pytest.raises(ParameterError, match="create=True needs the total"):
        Ledger(path, create=True)
    with pytest.raises(DTypeError, match="create must be True or False, not str"):
        Ledger(path, 1, create="yes")
    Ledger(path, 1, create=True).spend(TENTH)
    with pytest.raises(LedgerError, match=r"budget\.db exists$"):
        Ledger(path, 1, create=True)
    assert Ledger(path, 1).spent.epsilon == Fraction(1, 10)
    assert sorted(p.name for p in path.parent.iterdir()) == ["budget.db", "budget.db.lock"]
    path.unlink()
    path.with_name("budget.db-journal").write_text("of a ledger that was here")
    with pytest.raises(LedgerError, match=r"budget\.db-journal exists$"):
        Ledger(path, 1, create=True)


def test_opening_holds_what_is_given_to_what_is_stored(path) -> None:
    """What is given must be the file's own; defaults are filled in when it is made."""
    made = Ledger(path, 3, delta=1e-6, dataset="visits", unit="household", adjacency="substitution", create=True)
    assert repr(made) == f"<Ledger 'visits': epsilon 3, delta 1e-6 per household, substitution; {path}>"
    for name in (path, path.with_name("budget.db.lock")):
        assert stat.S_IMODE(name.stat().st_mode) == 0o600
    same = Ledger(str(path), 3, delta=1e-6, dataset="visits", unit="household", adjacency="substitution")
    assert same.budget == made.budget == Ledger(path).budget
    assert (same.dataset, Ledger(path.with_name("other.db"), rho=1, create=True).dataset) == ("visits", "other")
    for given, message in [
        ({"epsilon": 2, "delta": 1e-6}, "made for epsilon 3, not 2"),
        ({"epsilon": 3}, "made for delta .*, not 0"),
        ({"rho": 3}, "kept in epsilon and delta, not in rho"),
        ({"dataset": "visit"}, "made for dataset visits, not visit"),
        ({"unit": "person"}, "made for unit household, not person"),
        ({"adjacency": "add-remove"}, "made for adjacency substitution, not add-remove"),
    ]:
        with pytest.raises(LedgerError, match=message):
            Ledger(path, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"epsilon": 1, "rho": 1}, ParameterError, "not both"),
        ({"delta": 1e-6}, ParameterError, "epsilon or rho must be given"),
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"rho": -1}, ParameterError, "rho must not be negative"),
        ({"epsilon": float("nan")}, ParameterError, "epsilon must be finite"),
        ({"epsilon": 1, "delta": float("nan")}, ParameterError, "delta must be finite"),
        ({"epsilon": 1, "delta": 1}, ParameterError, "delta must be below 1"),
        ({"epsilon": b"1"}, DTypeError, "epsilon must be an int"),
        ({"epsilon": 2**65}, ParameterError, "at most 2\\*\\*64"),
        ({"epsilon": Fraction(1, 3**700)}, ParameterError, "1100 bits"),
        ({"epsilon": 1, "adjacency": "replace"}, ParameterError, "adjacency must be one of"),
        ({"epsilon": 1, "unit": " "}, ParameterError, "unit must name"),
        ({"epsilon": 1, "unit": "a\nb"}, ParameterError, "unit must be printable"),
        ({"epsilon": 1, "dataset": "a\0b"}, ParameterError, "dataset must be printable"),
        ({"epsilon": 1, "dataset": 7}, DTypeError, "dataset must be a string"),
    ],
    ids=str,
)
def test_bad_terms_make_no_file(path, given, error, message) -> None:
    with pytest.raises(error, match=message):
        Ledger(path, **given, create=True)
    assert list(path.parent.iterdir()) == []


def test_bad_paths(path) -> None:
    path.parent.joinpath("folder").mkdir()
    os.mkfifo(path.with_name("pipe"))
    path.with_name("nowhere").symlink_to("gone.db")
    for name, create, error, message in [
        ("folder", False, LedgerError, "is not a file"),
        ("pipe", False, LedgerError, "is not a file"),
        ("nowhere", False, LedgerError, "is not a file"),
        ("folder", True, LedgerError, "exists"),
        ("pipe", True, LedgerError, "exists"),
        ("nowhere", True, LedgerError, "exists"),
        ("gone/budget.db", False, LedgerError, "does not exist"),
        ("gone/budget.db", True, LedgerError, "cannot make a ledger at .*No such file"),
        ("nul\0l", True, ParameterError, "null"),
    ]:
        with pytest.raises(error, match=message):
            Ledger(path.parent / name, 1, create=create)
    with pytest.raises(DTypeError, match="path must name a file"):
        Ledger(7, 1)
    odd = path.with_name("a?b#c%d.db")
    Ledger(odd, 1, create=True).release(TENTH, ZEROS)
    assert Ledger(odd).spent.epsilon == Fraction(1, 10)


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (n INTEGER)")
    connection.close()


def rewritten(*statements: str, digests: bool = True) -> Callable:
    """An editor of SQLite files who puts the triggers back, and digests and sums right."""

    def change(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        connection.text_factory = lambda text: text.decode(errors="replace")
        head = budget = b""
        for table in ("promise", "releases") if digests else ():
            for at, *row, _ in connection.execute(f"SELECT rowid, * FROM {table}").fetchall():
                head = store._digest(head if table == "releases" else b"", row)
                connection.execute(f"UPDATE {table} SET digest = ? WHERE rowid = ?", [head, at])
                budget = head if table == "promise" else budget
        if digests:
            totals = "epsilon_total, delta_total, rho_total"
            last = connection.execute(f"SELECT {totals} FROM releases ORDER BY number DESC").fetchone()
            (charges,) = connection.execute("SELECT COUNT(*) FROM releases").fetchone()
            connection.execute(
                f"UPDATE checkpoint SET (charges, {totals}, head) = (?, ?, ?, ?, ?)", [charges, *last, head]
            )
            *row, _ = connection.execute("SELECT * FROM checkpoint").fetchone()
            connection.execute("UPDATE checkpoint SET digest = ?", [store._digest(budget, row)])
        for _, sql in triggers:
            connection.execute(sql)
        connection.close()

    return change


edited = partial(rewritten, digests=False)
ALTERED = "a row is not as it was written"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (foreign, "is not a ledger of dpfast"),
        (lambda path: path.write_text("n,count\n" * 900), "file is not a database"),
        (lambda path: path.write_bytes(b""), "is not a ledger of dpfast"),
        (lambda path: path.write_bytes(path.read_bytes()[:4096]), "malformed|damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-5000]), "malformed|damaged"),
        (rewritten("PRAGMA user_version = 4"), "a ledger of format 4; this version of dpfast has 3"),
        (rewritten("PRAGMA user_version = 2"), "a ledger of format 2: `dpfast ledger upgrade`"),
        (rewritten("PRAGMA user_version = 1"), "a ledger of format 1: `dpfast ledger upgrade`"),
        (rewritten("PRAGMA journal_mode = WAL"), "journal mode wal"),
        (rewritten("DELETE FROM promise"), "it states no budget"),
        (rewritten("INSERT INTO promise SELECT * FROM promise"), "it states no budget"),
        (rewritten("UPDATE promise SET epsilon = NULL"), "it states no budget"),
        (rewritten("UPDATE promise SET epsilon = '1e9'"), "an amount is no fraction"),
        (rewritten("UPDATE promise SET epsilon = '1/0'"), "an amount is no fraction"),
        (rewritten("UPDATE promise SET epsilon = '" + "9" * 5000 + "'"), "an amount is no fraction"),
        (rewritten("UPDATE promise SET epsilon = '1/10'"), "more is spent than its budget"),
        (rewritten("UPDATE releases SET epsilon = '1/20' WHERE number = 3"), "charge 3 does not add up"),
        (rewritten("UPDATE releases SET epsilon = '-1/10' WHERE number = 3"), "an amount is no fraction"),
        (rewritten("UPDATE releases SET epsilon_total = '1/10' WHERE number = 3"), "charge 3 does not add up"),
        (rewritten("UPDATE releases SET epsilon_total = '1/10' WHERE number = 2"), "charge 3 does not add up"),
        (rewritten("UPDATE releases SET epsilon = NULL WHERE number = 3"), "an amount is no fraction"),
        (rewritten("DELETE FROM releases WHERE number = 2"), ALTERED),
        (rewritten("UPDATE releases SET mechanism = '7' WHERE number = 3"), "charge 3 does not say what for"),
        (rewritten("UPDATE releases SET mechanism = '{' WHERE number = 3"), "charge 3 does not say what for"),
        (rewritten("UPDATE releases SET kind = 'other' WHERE number = 3"), "charge 3 is of a kind that this version"),
        (
            rewritten("UPDATE releases SET kind = 'refused' WHERE number = 3"),
            "row 3 is of a refused release, and costs",
        ),
        (rewritten("UPDATE releases SET label = CAST(X'FF' AS TEXT) WHERE number = 3"), "UTF-8"),
        (rewritten("ALTER TABLE releases ADD COLUMN note TEXT"), "its tables are not those of a ledger"),
        (rewritten("CREATE TABLE more (n)"), "its tables are not those of a ledger"),
        (edited("UPDATE promise SET adjacency = CAST('add-remove' AS BLOB)"), ALTERED),
        (edited("DELETE FROM checkpoint"), "it has no checkpoint"),
        (edited("INSERT INTO checkpoint SELECT * FROM checkpoint"), "it has no checkpoint"),
        (edited("UPDATE checkpoint SET charges = 2"), ALTERED),
        (edited("UPDATE promise SET epsilon = '2'"), ALTERED),
        (edited("DELETE FROM releases WHERE number = 3"), "its checkpoint and its last charge differ"),
        (edited("DELETE FROM releases"), "its checkpoint and its last charge differ"),
        (edited("UPDATE releases SET label = 'x' WHERE number = 3"), ALTERED),
        (edited("UPDATE releases SET release = X'00' WHERE number = 3"), ALTERED),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(ledger, damage, message) -> None:
    """When it is opened, whatever budget is given."""
    for _ in range(3):
        ledger.release(TENTH, ZEROS)
    damage(ledger.path)
    for attempt in (lambda: Ledger(ledger.path), lambda: Ledger(ledger.path, 1, delta=Decimal("1e-6"))):
        with pytest.raises(LedgerError, match=message):
            attempt()


def torn(path: Path) -> None:
    """A page of the index of releases is another's. No look at the last charge reads this page."""
    connection = sqlite3.connect(path)
    index = "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex_releases%'"
    (page,) = connection.execute(index).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[page * size - 64 : page * size] = bytes(64)
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (rewritten("UPDATE releases SET epsilon = '1/20' WHERE number = 2"), "charge 2 does not add up"),
        (rewritten("UPDATE releases SET mechanism = '7' WHERE number = 1"), "charge 1 does not say what for"),
        (rewritten("UPDATE releases SET kind = 'other' WHERE number = 1"), "charge 1 is of a kind that this version"),
        (rewritten("UPDATE releases SET label = CAST(X'FF' AS TEXT) WHERE number = 1"), "UTF-8"),
        (edited("UPDATE releases SET label = 'x' WHERE number = 2"), ALTERED),
        (edited("DELETE FROM releases WHERE number = 1"), ALTERED),
        (edited("UPDATE parts SET begin = 100 WHERE number = 2"), ALTERED),
        (edited("DELETE FROM parts WHERE number = 2"), "parts are lost or added"),
        (edited("UPDATE parts SET size = 40, digest = X'00' WHERE number = 2"), ALTERED),
        (torn, "SQLite says|malformed"),
    ],
)
def test_damage_that_only_a_whole_check_finds(ledger, capsys, damage, message) -> None:
    """What opening no longer reads: charges before the last, parts, indexes. Sums need it."""
    for label in ("first", "second"):
        ledger.release(TENTH, ZEROS, key=release_key(label), resume=True)
    for _ in range(4):
        ledger.release(TENTH, ZEROS)
    spent = ledger.spent
    assert ledger.verify() == 6
    assert command(capsys, "ledger", "verify", ledger.path)[:2] == (
        0,
        f"visits: 6 charges, all as they were written{UNTOLD}",
    )
    damage(ledger.path)
    ledger = Ledger(ledger.path)  # which has seen no other charges in their place
    assert ledger.spent == spent
    with pytest.raises(LedgerError, match=message):
        ledger.verify()
    with pytest.raises(LedgerError, match=message):
        ledger.copy(ledger.path.with_name("copy.db"))
    code, out, err = command(capsys, "ledger", "verify", ledger.path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert sorted(p.name for p in ledger.path.parent.iterdir()) == ["budget.db", "budget.db.lock"]


def test_a_damaged_index_can_cost_a_second_charge_and_no_other_noise(ledger) -> None:
    """It hides the label of a release: the ledger takes the retry for a new one."""
    first = ledger.release(TENTH, ZEROS, key=release_key("first"), resume=True)
    spent = ledger.spent
    torn(ledger.path)
    assert np.array_equal(ledger.release(TENTH, ZEROS, key=release_key("first"), resume=True), first)
    assert ledger.spent.epsilon == 2 * spent.epsilon
    with pytest.raises(LedgerError, match="SQLite says|malformed"):
        ledger.verify()


@pytest.mark.parametrize(
    "statement", ["UPDATE promise SET epsilon = '9'", "UPDATE releases SET epsilon_total = '0'", "DELETE FROM promise"]
)
def test_damage_since_it_was_opened(ledger, statement) -> None:
    for _ in range(3):
        ledger.release(TENTH, ZEROS)
    edited(statement)(ledger.path)
    with pytest.raises(LedgerError, match="nothing was released"):
        ledger.release(TENTH, ZEROS)


@pytest.mark.parametrize(
    "statement", ["UPDATE parts SET name = X'00' WHERE number = 1", "UPDATE releases SET time = 'x' WHERE number = 1"]
)
def test_a_release_under_a_key_checks_what_it_goes_by(ledger, statement) -> None:
    """The reservation and its tag, however long ago they were written."""
    for label in ("first", "second"):
        ledger.release(TENTH, ZEROS, key=release_key(label), resume=True)
    ledger.spend(TENTH, TENTH)
    edited(statement)(ledger.path)
    with pytest.raises(LedgerError, match="a row is not as it was written; nothing was released"):
        ledger.release(TENTH, ZEROS, key=release_key("first"), resume=True)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("UPDATE releases SET mechanism = replace(mechanism, '[50]', '[51]')", KeyReuseError, "another shape"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"manifest\"', '\"no\"')", LedgerError, "does not say what it reserved"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"size\"', '\"sizes\"')", LedgerError, "does not say what it reserved"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"stream\": 2', '\"stream\": 3')", ParameterError, "stream version 3"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"version\": 1', '\"version\": 2')", ParameterError, "manifest version 2"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"label\": \"edited\"', '\"label\": \"other\"')", KeyReuseError, "with another manifest"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"domain\": \"\"', '\"domain\": \"00\"')", KeyReuseError, "with a public domain, not with a shape"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"version\": 1', '\"version\": 1, \"terms\": {\"clamp\": \"0, 9\"}')", KeyReuseError, "with clamp, '0, 9', which this one does not name"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"cost\": [\"1/10\"', '\"cost\": [\"1/20\"')", KeyReuseError, "another cost"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"kind\": \"array\"', '\"kind\": [7]')", KeyReuseError, r"another kind, \[7\], not array"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"name\": \"\"', '\"name\": [7]')", KeyReuseError, r"with the columns \[7\], not ''"),
        ("UPDATE releases SET mechanism = replace(mechanism, '[\"discrete_laplace\", ', '[[], ')", KeyReuseError, r"another mechanism, \[\], not"),
        ("DELETE FROM parts", LedgerError, "a reservation has no tag"),
    ],
)  # fmt: skip
def test_a_manifest_that_was_edited_is_compared_and_never_obeyed(ledger, statement, error, message) -> None:
    """With all digests and sums put right: the caller's parameters are what is drawn with."""
    ledger.release(TENTH, ZEROS, key=release_key("edited"), resume=True)
    rewritten(statement)(ledger.path)
    ledger = Ledger(ledger.path)  # which has seen no other charges in their place
    for again in (
        lambda: ledger.release(TENTH, ZEROS, key=release_key("edited"), resume=True),
        lambda: ledger.reserve(seal_of(release_key("edited")), resume=True),
    ):
        with pytest.raises(error, match=message):
            again()


def seal_of(key: dpfast.ReleaseKey) -> object:
    return key.seal(TENTH, [key.digester(TENTH)(0, ZEROS)], shape=ZEROS.shape)


def test_bytes_flipped_at_random_never_pass_for_another_sum(ledger) -> None:
    """An altered file is refused at opening or at a whole check; or it still says the same."""
    for n in range(8):
        ledger.release(TENTH, ZEROS, key=release_key(f"release {n}"))
    history, spent = ledger.history(), ledger.spent
    sound, choose, refused = ledger.path.read_bytes(), random.Random(2), 0
    for _ in range(300):
        at = choose.randrange(len(sound))
        ledger.path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << choose.randrange(8)]) + sound[at + 1 :])
        try:
            found = Ledger(ledger.path)
            assert (found.budget, found.dataset, found.spent) == (ledger.budget, "visits", spent)
            found.verify()
        except LedgerError:
            refused += 1
            continue
        assert found.history() == history
    assert refused > 40  # much of the file is empty


def test_the_tables_are_only_added_to(ledger) -> None:
    """Against slips with an editor; who means to can take the triggers off."""
    ledger.release(TENTH, ZEROS, key=release_key())
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    for table in ("promise", "releases", "parts"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = 9"):
            with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                connection.execute(statement)
    with pytest.raises(sqlite3.IntegrityError, match="only added to"):
        connection.execute("DELETE FROM checkpoint")
    connection.close()


def test_another_ledger_in_the_same_place_is_noticed(ledger) -> None:
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="does not exist"):
        ledger.release(TENTH, ZEROS)
    # The same terms, and all that was spent forgotten.
    Ledger(ledger.path, 1, delta=Decimal("1e-6"), dataset="visits", create=True)
    with pytest.raises(LedgerError, match="is another ledger than when it was opened"):
        ledger.release(TENTH, ZEROS)


# ------------------------------------------------------------------ its lock, its one name, copies


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """As another process has it."""
    with Path(f"{path}.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_who_charges_or_reads_holds_the_lock(ledger, monkeypatch) -> None:
    link = ledger.path.with_name("link.db")
    link.symlink_to(ledger.path)
    linked = Ledger(link)
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    with locked(ledger.path):
        for book in (ledger, linked):
            with pytest.raises(LedgerError, match="is locked by another process or thread; nothing was released"):
                book.release(TENTH, ZEROS)
            with pytest.raises(LedgerError, match="is locked"):
                book.history()
        with pytest.raises(LedgerError, match="is locked"):
            Ledger(link)
    linked.release(TENTH, ZEROS)
    assert ledger.spent.epsilon == Fraction(1, 10)
    assert not link.with_name("link.db.lock").exists()


def test_nobody_shares_the_lock_of_a_charge(ledger, monkeypatch) -> None:
    insert, asked = store.insert, []

    def while_held(*row) -> bytes:
        with Path(f"{ledger.path}.lock").open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        asked.append(row)
        return insert(*row)

    monkeypatch.setattr(store, "insert", while_held)
    ledger.spend(TENTH)
    assert len(asked) == 1


def test_a_charge_waits_for_its_turn(ledger) -> None:
    with locked(ledger.path):
        charge = threading.Thread(target=ledger.spend, args=(TENTH,))
        charge.start()
        assert len(list(ledger.path.parent.glob("*-journal"))) == 0
        assert charge.is_alive()
    charge.join()
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_a_lock_file_that_is_gone_is_made_again(ledger, monkeypatch) -> None:
    """Deleted before a charge, or before its lock: what was locked is no longer the lock."""
    lock_file = Path(f"{ledger.path}.lock")
    lock_file.unlink()
    ledger.spend(TENTH)
    assert stat.S_IMODE(lock_file.stat().st_mode) == 0o600
    real, calls, held = fcntl.flock, [], []

    def flock(file, how) -> None:
        calls.append(how)
        if len(calls) == 1:
            lock_file.unlink()
        real(file, how)

    insert = store.insert
    monkeypatch.setattr(lock.fcntl, "flock", flock)
    monkeypatch.setattr(store, "insert", lambda *row: held.append(is_locked(lock_file)) or insert(*row))
    ledger.spend(TENTH)
    assert held == [True]
    assert len(calls) == 3  # locked, locked again, unlocked


def is_locked(path: Path) -> bool:
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda name: name.symlink_to("elsewhere"), "Too many levels of symbolic links"),
        (lambda name: name.mkdir(), "Is a directory"),
        (lambda name: name.symlink_to(name), "Too many levels of symbolic links"),
    ],
)
def test_a_lock_file_that_is_none(ledger, spoil, message) -> None:
    name = Path(f"{ledger.path}.lock")
    name.unlink()
    spoil(name)
    for attempt in (lambda: ledger.spend(TENTH), lambda: Ledger(ledger.path)):
        with pytest.raises(LedgerError, match=rf"cannot lock .*budget\.db: .*budget\.db\.lock: {message}"):
            attempt()
    assert not name.with_name("elsewhere").exists()
    assert {entry.name for entry in name.parent.iterdir()} == {"budget.db", "budget.db.lock"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_root_who_looks_does_not_lock_the_owner_out(ledger) -> None:
    os.chown(ledger.path, 65534, 65534)
    lock_file = Path(f"{ledger.path}.lock")
    lock_file.unlink()
    assert Ledger(ledger.path).spent.epsilon == 0
    found = lock_file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 65534, 0o600)


def test_ctrl_c_leaves_no_lock(ledger, monkeypatch) -> None:
    """Wherever it lands: between locking and noticing it, or in the middle of a charge."""
    real, insert = fcntl.flock, store.insert

    def flock(file, how) -> None:
        real(file, how)
        if how != fcntl.LOCK_UN:
            raise KeyboardInterrupt

    def inserted(*row) -> Never:
        insert(*row)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "PATIENCE", 10.0)
    for module, name, interrupted in ((lock.fcntl, "flock", flock), (store, "insert", inserted)):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, interrupted)
            ledger.spend(TENTH)
        assert ledger.spent.epsilon == 0
    ledger.spend(TENTH)


def test_a_hard_link_is_refused(ledger) -> None:
    """A journal follows the name: a charge under one could be undone under the other."""
    second = ledger.path.with_name("second.db")
    second.hardlink_to(ledger.path)
    message = r"has 2 names \(hard links\).*`dpfast ledger copy`.*nothing was released"
    opened = [lambda: Ledger(ledger.path), lambda: Ledger(second)]
    copied = partial(ledger.copy, ledger.path.with_name("third.db"))
    for attempt in (lambda: ledger.release(TENTH, ZEROS), lambda: ledger.spent, *opened, copied):
        with pytest.raises(LedgerError, match=message):
            attempt()
    second.unlink()
    ledger.release(TENTH, ZEROS)
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_a_ledger_in_the_making_has_no_second_name(path, monkeypatch) -> None:
    """It appears by a link, and its first name goes: who opens it meanwhile waits."""
    link = Path.hardlink_to

    def linked(self, target) -> None:
        link(self, target)
        with pytest.raises(LedgerError, match="is locked"):
            Ledger(path)

    monkeypatch.setattr(store, "PATIENCE", 0.1)
    monkeypatch.setattr(Path, "hardlink_to", linked)
    assert Ledger(path, 1, create=True).spent.epsilon == 0


def test_a_copy_is_a_ledger_of_its_own(ledger, capsys) -> None:
    """Equal, checked, its owner's alone, over nothing; from Python and the command line."""
    ledger.release(TENTH, ZEROS, key=release_key())
    ledger.spend(TENTH)
    copy = ledger.copy(ledger.path.with_name("copy.db"))
    assert (copy.history(), copy.budget, copy.verify()) == (ledger.history(), ledger.budget, 2)
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    assert copy.path.stat().st_nlink == 1
    copy.release(TENTH, ZEROS, key=release_key(), resume=True)  # what was released before is free there, too
    copy.spend(TENTH)
    assert (copy.spent.epsilon, ledger.spent.epsilon) == (Fraction(3, 10), Fraction(2, 10))
    other = ledger.path.with_name("other.db")
    code, out, _ = command(capsys, "ledger", "copy", ledger.path, other)
    assert (code, out) == (0, "visits: epsilon 1, delta 1e-6 in all per person, add-remove\n")
    assert Ledger(other).history() == ledger.history()
    text = ledger.path.with_name("text.db")
    text.write_text("mine")
    for target, message in [(other, "exists"), (text, "exists"), (ledger.path, "exists"), ("no/x.db", "cannot make")]:
        with pytest.raises(LedgerError, match=message):
            ledger.copy(ledger.path.parent / target)
        assert command(capsys, "ledger", "copy", ledger.path, ledger.path.parent / target)[0] == 1
    assert text.read_text() == "mine"
    assert [p.name for p in ledger.path.parent.iterdir() if p.name.startswith(".")] == []


def test_copies_made_while_others_charge(path) -> None:
    """Each is the ledger of one moment: whole, with every charge that had returned before."""
    ledger, stop = Ledger(path, 10**6, create=True), threading.Event()
    counts = []

    def charge() -> None:
        while not stop.is_set():
            ledger.spend(Guarantee(1))

    threads = [threading.Thread(target=charge) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(20):
        least = int(ledger.spent.epsilon)
        copy = ledger.copy(path.with_name(f"copy{n}.db"))
        counts.append(copy.verify())
        assert least <= counts[-1] <= ledger.spent.epsilon
    stop.set()
    for thread in threads:
        thread.join()
    assert counts == sorted(counts)


# ------------------------------------------------------------------ what a long history costs


def looked_at(work: Callable[[], object]) -> int:
    """How many bytes of files this process reads meanwhile."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read()
    work()
    return read() - before


@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="only Linux counts what is read")
def test_opening_and_charging_read_no_more_of_a_long_history(path) -> None:
    """A deeper tree takes a few more pages of 4,096 bytes; the planted whole check reads it all."""
    seen: dict[int, list[int]] = {}
    for charges in (10, 20_000):
        ledger = Ledger(path.with_name(f"{charges}.db"), 10**6, create=True)
        ledger.spend(*[TENTH] * charges)
        works = (lambda: Ledger(ledger.path), lambda: ledger.spend(TENTH), lambda: ledger.spent, ledger.verify)
        seen[charges] = [looked_at(work) for work in works]
    more = [after - before for before, after in zip(*seen.values(), strict=True)]
    assert all(each <= 16 * 4096 for each in more[:3]), more
    assert more[3] > 1000 * 4096


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_charge_flushes_as_often_after_a_long_history(tmp_path) -> None:
    """The checkpoint is moved within the charge's own transaction."""
    flushes = []
    for charges in (10, 20_000):
        path, log = tmp_path / f"{charges}.db", tmp_path / "log"
        Ledger(path, 10**6, create=True).spend(*[TENTH] * charges)
        code = "import sys, dpfast; dpfast.Ledger(sys.argv[1]).spend(dpfast.Guarantee(1))"
        trace = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", log, sys.executable, "-c", code, path]
        subprocess.run(trace, check=True, cwd=Path(dpfast.__file__).parent.parent)
        flushes.append(sum("sync(" in line for line in log.read_text().splitlines()))
    assert flushes[0] == flushes[1] > 0


# ------------------------------------------------------------------ format 1


def of_format_1(path: Path, name: str = "ledger_format_1.db") -> Path:
    shutil.copy(VECTORS / name, path)
    path.chmod(0o600)
    return path


def test_a_ledger_of_format_1_is_upgraded(path, capsys) -> None:
    """Budget, charges and keyed parts stay. Until then the ledger is refused, with advice."""
    of_format_1(path)
    with pytest.raises(LedgerError, match="is a ledger of format 1: `dpfast ledger upgrade` makes it one of format 3"):
        Ledger(path, 1, delta=Decimal("1e-6"))
    ledger = Ledger.upgrade(path)
    assert repr(ledger) == f"<Ledger 'visits': epsilon 1, delta 1e-6 per household, add-remove; {path}>"
    assert [entry[2:6] for entry in ledger.history()] == [
        ("by age", "discrete_laplace", Fraction(1, 10), 0),
        ("visits/age", "discrete_laplace", Fraction(1, 10), 0),
        ("two", "Guarantee", Fraction(1, 4), Fraction(1, 10**7)),
        ("two", "discrete_laplace", Fraction(1, 10), 0),
    ]
    assert ledger.history()[0].time == "2026-11-22T00:09:07Z"
    assert ledger.verify() == 4
    mechanism = DiscreteLaplace(Decimal("0.1"), 1000, unit="household")
    assert ledger.spent.epsilon == Fraction(55, 100)
    ledger.release(
        mechanism, ZEROS, key=release_key("of format 3")
    )  # what format 1 has drawn is finished by its version
    ledger.spend(Guarantee(Decimal("0.35"), Decimal("9e-7"), unit="household"))
    with pytest.raises(LedgerError, match="is not a ledger of format 1 or 2"):
        Ledger.upgrade(path)
    assert ledger.verify() == 6

    other = of_format_1(path.with_name("rho.db"), "ledger_format_1_rho.db")
    code, out, _ = command(capsys, "ledger", "upgrade", other)
    assert (code, out) == (0, "sums: rho 0.5 in all per person, substitution\n")
    assert Ledger(other).remaining.rho == Fraction(3, 8)
    assert Ledger(other).history()[0].epsilon is None


def test_a_ledger_of_format_2_is_upgraded(path, capsys) -> None:
    """Budget, charges and refused attempts stay, and what it has reserved is gone on with."""
    of_format_1(path, "ledger_format_2.db")
    with pytest.raises(LedgerError, match="is a ledger of format 2: `dpfast ledger upgrade` makes it one of format 3"):
        Ledger(path)
    code, out, _ = command(capsys, "ledger", "upgrade", path)
    assert (code, out) == (0, "visits: epsilon 1, delta 1e-6 in all per household, add-remove\n")
    ledger = Ledger(path)
    assert [(*entry[2:6], entry.refused) for entry in ledger.history()] == [
        ("by age", "discrete_laplace", Fraction(1, 10), 0, False),
        ("visits/age", "discrete_laplace", Fraction(1, 10), 0, False),
        ("hours", "laplace", 0, 0, True),
        ("two", "Guarantee", Fraction(1, 4), Fraction(1, 10**7), False),
        ("two", "discrete_laplace", Fraction(1, 10), 0, False),
    ]
    assert ledger.history()[0].time == "2026-11-24T18:23:14Z"
    mechanism = DiscreteLaplace(Decimal("0.1"), 1000, unit="household")
    names = {"key": release_key(), "names": list("abcde"), "resume": True}
    assert ledger.release(mechanism, np.arange(5), **names).tolist() == [25424, -25444, -2630, 288, 14217]
    with pytest.raises(dpfast.OtherInputError):
        ledger.release(mechanism, np.arange(5) + 1, **names)
    assert (ledger.spent.epsilon, ledger.verify()) == (Fraction(55, 100), 6)  # with the attempt of now

    other = of_format_1(path.with_name("rho.db"), "ledger_format_2_rho.db")
    assert Ledger.upgrade(other).remaining.rho == Fraction(3, 8)
    assert Ledger(other).remaining.rho_delta == Fraction(9, 10**8)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE releases SET label = 'x' WHERE number = 2", ALTERED),
        ("DELETE FROM releases WHERE number = 5", "its checkpoint and its charges differ"),
        ("DELETE FROM parts", "its checkpoint and its charges differ"),
        ("UPDATE checkpoint SET epsilon_total = '0'", ALTERED),
        ("DELETE FROM checkpoint", "it has no checkpoint"),
        ("UPDATE promise SET epsilon = '9'", ALTERED),
        ("CREATE TABLE more (n)", "its tables are not those of a ledger"),
    ],
)
def test_a_damaged_ledger_of_format_2_stays_as_it_is(path, statement, message) -> None:
    edited(statement)(of_format_1(path, "ledger_format_2.db"))
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=message):
        Ledger.upgrade(path)
    assert path.read_bytes() == before


def test_what_a_later_version_keeps_is_refused_in_words(ledger) -> None:
    """A budget in rho and mu_squared, and a kind of row: neither is called damage."""
    ledger.spend(TENTH)
    rewritten("UPDATE releases SET kind = 'step'")(ledger.path)
    with pytest.raises(LedgerError, match="charge 1 is of a kind that this version of dpfast does not know"):
        Ledger(ledger.path)
    ledger.path.unlink()
    Ledger(ledger.path, rho=1, create=True).spend(Guarantee(rho=1))
    rewritten("UPDATE promise SET mu_squared = '1'")(ledger.path)
    with pytest.raises(LedgerError, match="is kept in rho and mu_squared, which this version of dpfast does not know"):
        Ledger(ledger.path)


def test_equal_charges_of_one_second_differ(ledger, monkeypatch) -> None:
    """Else what was seen of one would be found in a copy that was charged instead."""
    monkeypatch.setattr(store.time, "strftime", lambda *_: "2026-11-24T00:00:00Z")
    other = ledger.copy(ledger.path.with_name("other.db"))
    for one in (ledger, other):
        one.spend(TENTH)
    with (
        contextlib.closing(sqlite3.connect(ledger.path)) as file,
        contextlib.closing(sqlite3.connect(other.path)) as copied,
    ):
        digests = [each.execute("SELECT digest FROM releases").fetchone() for each in (file, copied)]
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE releases SET label = 'x' WHERE number = 2", ALTERED),
        ("DELETE FROM releases WHERE number = 2", ALTERED),
        ("UPDATE parts SET size = 40", ALTERED),
        ("UPDATE promise SET epsilon = '9'", ALTERED),
        ("DELETE FROM promise", "it states no budget"),
        ("CREATE TABLE more (n)", "its tables are not those of a ledger"),
        ("PRAGMA journal_mode = WAL", "was put into journal mode wal"),
    ],
)
def test_a_damaged_ledger_of_format_1_stays_as_it_is(path, statement, message) -> None:
    edited(statement)(of_format_1(path))
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=message):
        Ledger.upgrade(path)
    assert path.read_bytes() == before


def test_sums_of_format_1_are_added_up_again(path, monkeypatch) -> None:
    edited("UPDATE releases SET epsilon = '1/20' WHERE number = 2")(of_format_1(path))
    monkeypatch.setattr(upgrade, "_checked", lambda _path, _before, row: row[-1])
    with pytest.raises(LedgerError, match="charge 2 does not add up"):
        Ledger.upgrade(path)


def test_an_upgrade_that_is_killed_is_undone(path) -> None:
    """At any statement the file is of format 1 still, or again, and is upgraded in the end."""
    of_format_1(path)
    before = [Ledger.upgrade(of_format_1(path.with_name("other.db"))).history()]
    output = python(
        """
        import os, signal, sys
        import dpfast
        from dpfast.ledger import store

        insert = store.insert
        for last in range(20):
            child = os.fork()
            if child == 0:
                count = 0

                def inserted(*row) -> None:
                    global count
                    count += 1
                    if count > last:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return insert(*row)

                store.insert = inserted
                dpfast.Ledger.upgrade(sys.argv[1])
                os._exit(0)
            if os.waitpid(child, 0)[1] == 0:
                break
            try:
                dpfast.Ledger(sys.argv[1])
            except dpfast.LedgerError as error:
                assert "format 1" in str(error), error
        print(last)
        """,
        path,
    )
    assert int(output) == 1 + 1 + 4 + 2  # the budget, the checkpoint, four charges, two parts
    assert [Ledger(path).history()] == before


# ------------------------------------------------------------------ patience, full disks, clocks


def test_a_locked_ledger_is_waited_for_and_then_refused(ledger, monkeypatch) -> None:
    """By SQLite's own lock, too, which an editor of SQLite files takes."""
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert ledger.spent.epsilon == 0  # readers need not wait
    with pytest.raises(LedgerError, match="database is locked; nothing was released"):
        ledger.release(TENTH, ZEROS)
    other.close()
    ledger.release(TENTH, ZEROS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to any file")
def test_a_ledger_that_is_read_only(ledger) -> None:
    ledger.path.chmod(0o400)
    assert Ledger(ledger.path).history() == ()
    with pytest.raises(LedgerError, match="may not write to"):
        ledger.release(TENTH, ZEROS)


def test_a_full_disk(path) -> None:
    """Wherever the disk ends, there is an error and no noise, and the ledger stays sound."""
    output = python(
        """
        import resource, signal, sys
        import numpy as np
        import dpfast

        path = sys.argv[1]
        mechanism, zeros = dpfast.DiscreteLaplace(1, 1), np.zeros(9, np.int64)
        ledger = dpfast.Ledger(path, 10**6, create=True)
        ledger.release(mechanism, zeros)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        failed = released = 0
        for limit in [0, 100, 512, 600, 4096, 5000, *range(8000, 60000, 1500)]:
            target = zeros - 7
            before = len(ledger.history())
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                ledger.release(mechanism, zeros, out=target, label="x" * 200)
                released += 1
            except dpfast.LedgerError as error:
                assert "nothing was released" in str(error), error
                assert (target == -7).all()
                failed += 1
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert len(dpfast.Ledger(path).history()) == released + 1
        print(failed > 3, released > 3)
        """,
        path,
    )
    assert output.split() == ["True", "True"]


def test_a_clock_that_goes_backwards(ledger, monkeypatch) -> None:
    """Order is told by the number; nothing depends on the time."""
    for second in (10**9, 10**8, 2 * 10**9):
        now = store.time.struct_time((2000 + second // 10**8, 1, 2, 3, 4, 5, 0, 0, 0))
        monkeypatch.setattr(store.time, "gmtime", lambda now=now: now)
        ledger.release(TENTH, ZEROS, key=release_key("clock"), resume=True)
        ledger.release(TENTH, ZEROS)
    assert [entry.number for entry in ledger.history()] == [1, 2, 3, 4]
    assert [entry.time[:4] for entry in ledger.history()] == ["2010", "2010", "2001", "2020"]
    assert Ledger(ledger.path).spent.epsilon == Fraction(4, 10)


def test_labels_are_text_and_nothing_else(ledger) -> None:
    labels = ["'); DROP TABLE releases; --", '"', "?1", "ε ≤ 1 · 統計", "x" * 200, "<script>alert(1)</script>"]
    for label in labels:
        ledger.release(TENTH, ZEROS, label=label)
    history = Ledger(ledger.path).history()
    assert [entry.label for entry in history] == labels
    assert labels[0] in str(history)
    assert "<script>" not in history._repr_html_()
    assert "&lt;script&gt;" in history._repr_html_()


# ------------------------------------------------------------------ processes and threads


def test_a_ledger_pickles_forks_and_serves_threads(path) -> None:
    """No connection lives between calls; a fork amid other threads' charges works and counts."""
    output = python(
        """
        import os, pickle, signal, sys, threading
        import numpy as np
        import dpfast

        path = sys.argv[1]
        ledger, mechanism = dpfast.Ledger(path, 1000, create=True), dpfast.DiscreteLaplace(1, 1)
        ledger = pickle.loads(pickle.dumps(ledger))

        def release(n):
            for _ in range(n):
                ledger.release(mechanism, np.zeros(9, np.int64))

        threads = [threading.Thread(target=release, args=(25,)) for _ in range(4)]
        release(1)
        for thread in threads:
            thread.start()
        children = []
        for _ in range(12):
            child = os.fork()
            if child == 0:
                signal.alarm(300)  # should it hang
                status = 1
                try:
                    release(3)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        for thread in threads:
            thread.join()
        print([os.waitpid(child, 0)[1] for child in children] == [0] * 12, len(ledger.history()))
        """,
        path,
    )
    assert output.split() == ["True", str(1 + 4 * 25 + 12 * 3)]


def test_many_make_one_ledger(path) -> None:
    barrier = threading.Barrier(8)

    def make(epsilon) -> object:
        barrier.wait()
        try:
            return Ledger(path, epsilon, create=True).budget.epsilon
        except LedgerError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(make, [1, 2] * 4))
    epsilon = Ledger(path).budget.epsilon
    assert found.count(epsilon) == 1
    assert found.count(f"{path} exists") == 7
    assert pickle.loads(pickle.dumps(Ledger(path))).budget.epsilon == epsilon


# ------------------------------------------------------ the table, the picture and the command line


def test_the_history_as_a_table(ledger) -> None:
    assert str(ledger.history()) == "nothing was released yet"
    ledger.release(TENTH, ZEROS, label="by age")
    ledger.release(DiscreteGaussian.calibrated(0.25, CELLS, delta=1e-7), ZEROS)
    head, first, second = (line.split() for line in str(ledger.history()).splitlines())
    assert " ".join(head) == "# time (UTC) label mechanism epsilon delta epsilon so far delta so far"
    assert (first[0], first[2:]) == ("1", ["by", "age", "discrete_laplace", "0.1", "0", "0.1", "0"])
    assert (second[0], second[2:]) == ("2", ["discrete_gaussian", "0.25", "1e-7", "0.35", "1e-7"])
    assert len({len(line) for line in str(ledger.history()).splitlines()}) == 1
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ledger.history())
    assert list(frame["label"]) == ["by age", ""]
    assert frame["epsilon_total"].iloc[-1] == Fraction(1, 10) + Fraction(1, 4)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (Fraction(1, 10), "0.1", "0.1"),
        (Fraction(0.1), "0.1", "0.1"),
        (Fraction(0.1) * 3, "0.3", "0.3"),
        (1 - Fraction(0.1) * 9, "0.1", "0.0999999"),
        (Fraction(1, 3), "0.333334", "0.333333"),
        (Fraction(2, 3) * 10**8, "66666700", "66666600"),
        (Fraction(1e-6), "1e-6", "1e-6"),
        (Fraction(0), "0", "0"),
        (Fraction(2**64), "1.84468e19", "1.84467e19"),
    ],
    ids=str,
)
def test_figures_are_rounded_to_the_safe_side(value, up, down) -> None:
    """Spent is rounded up, left down; 0.3 names three times the float 0.1, in what is spent."""
    assert (amount(value, up=True), amount(value, up=False)) == (up, down)


def command(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(list(map(str, arguments)))
    return code, *capsys.readouterr()


def test_the_command_line_from_first_to_last(path, capsys) -> None:
    source, budget = path.with_name("in.csv"), ["--ledger", path]
    source.write_text("name,count,hours\n" + "".join(f"{n},{n},{2 * n}\n" for n in range(100)))
    law = ["--epsilon", "1/3", "--sensitivity", "1", "--quiet", *budget]
    code, out, _ = command(capsys, "ledger", "create", path, "--epsilon", "1", "--delta", "1e-6", "--dataset", "visits")
    assert (code, out) == (0, "visits: epsilon 1, delta 1e-6 in all per person, add-remove\n")
    code, _, err = command(capsys, "ledger", "create", path, "--epsilon", "1")
    assert (code, err) == (1, f"Error: {path} exists\n")
    both = ["--column", "count", "--column", "hours", "--epsilon-is", "per-column"]
    assert command(capsys, "privatize", source, path.with_name("out.csv"), *both, *law)[0] == 0
    about = json.loads(path.with_name("out.csv.json").read_text())
    terms = {"epsilon": "1", "delta": "1/1000000", "dataset": "visits", "adjacency": "add-remove", "unit": "person"}
    assert about["ledger"] == terms
    assert about["epsilon_total"] == "2/3"
    code, _, err = command(capsys, "privatize", source, path.with_name("two.csv"), *both, *law)
    assert code == 1
    assert err == f"Error: {path}: epsilon 0.666667 is asked for and 0.333333 is left of 1; nothing was released\n"
    assert not path.with_name("two.csv").exists()
    assert not path.with_name("two.csv.json").exists()
    code, out, _ = command(capsys, "ledger", "show", path)
    assert code == 0
    assert out.count("in.csv: count, hours  discrete_laplace") == 2
    assert out.endswith("\nspent  epsilon 0.666667, delta 0\nleft   epsilon 0.333333, delta 1e-6\n")
    assert command(capsys, "privatize", source, path.with_name("three.csv"), "--column", "count", *law)[0] == 0
    facts = json.loads(command(capsys, "ledger", "show", path, "--json")[1])
    assert (facts["spent"], facts["left"]) == ({"epsilon": "1", "delta": "0"}, {"epsilon": "0", "delta": "1/1000000"})
    assert [release["epsilon_total"] for release in facts["releases"]] == ["1/3", "2/3", "1"]


def test_plan(path, capsys) -> None:
    Ledger(path, 1, delta=Decimal("1e-6"), create=True).spend(Guarantee(Decimal("0.35")))
    for options, said in [
        (["--epsilon", "0.1"], "6 more of epsilon 0.1 fit, and then epsilon 0.05, delta 1e-6 is left"),
        (
            ["--epsilon", "0.1", "--delta", "3e-7"],
            "3 more of epsilon 0.1, delta 3e-7 fit, and then epsilon 0.35, delta 1e-7 is left",
        ),
        (["--epsilon", "0.7"], "0 more of epsilon 0.7 fit"),
        (["--epsilon", "0"], "any number of more of epsilon 0 fit"),
        (["--releases", "3"], "each of 3 more may spend epsilon 0.216666, delta 3.33333e-7"),
    ]:
        expected = f"epsilon 0.65, delta 1e-6 is left\n{said}\n"
        assert command(capsys, "ledger", "plan", path, *options) == (0, expected, "")
    code, out, _ = command(capsys, "ledger", "plan", path, "--releases", "3", "--json")
    assert json.loads(out)["each"] == {"epsilon": "13/60", "delta": "1/3000000"}
    for options in ([], ["--epsilon", 1, "--releases", 1], ["--rho", 1]):
        code, _, err = command(capsys, "ledger", "plan", path, *options)
        assert code == 2
        assert ("must promise epsilon" if "--rho" in options else "give either") in err


def test_privatize_charges_nothing_for_what_it_refuses(ledger, capsys) -> None:
    """Wrong parameters, text columns, an existing OUT: no charge. A bad cell: charged."""
    source, target = ledger.path.with_name("in.csv"), ledger.path.with_name("out.csv")
    source.write_text("name,count\na,1\n")
    target.write_text("mine")
    law = ["--column", "count", "--epsilon", "0.1", "--sensitivity", "1", "--ledger", ledger.path]
    new = target.with_name("new.csv")
    for arguments, code in [
        ([source, target, *law], 1),
        ([source, new, "--column", "name", *law[2:]], 1),
        ([source, new, *law, "--lower", "2", "--upper", "1"], 2),
        ([source, new, *law, "--adjacency", "substitution"], 2),
        ([source, new, *law, "--unit", "household"], 2),
        ([source, new, *law[:-1], "nowhere.db"], 1),
        ([source, new, *law[:2], "--mechanism", "discrete-gaussian", "--rho", 1, "--l0", 1, "--linf", 1, *law[-2:]], 2),
    ]:
        found, _, err = command(capsys, "privatize", *arguments)
        assert found == code, err
        assert err.count("\n") == 1
    assert len(ledger.history()) == 0
    assert target.read_text() == "mine"
    assert not new.exists()
    source.write_text("count\n" + "1\n" * 5_000_000 + "?\n")  # beyond the first piece
    assert command(capsys, "privatize", source, new, *law, "--quiet")[0] == 1
    assert len(ledger.history()) == 1
    assert not new.exists()


def test_a_label_on_the_command_line(path, tmp_path, capsys) -> None:
    """It is met again with --resume, which the refusal names; what was refused is shown."""
    ledger, counts, out = Ledger(path, 1, create=True), tmp_path / "in.csv", tmp_path / "out.csv"
    counts.write_text("city,count\nOslo,120\nLima,80\n")
    made = dpfast.KeyFile.create(tmp_path / "visits.key").path
    options = ["--column", "count", "--epsilon", "0.1", "--sensitivity", "1", "--label", "visits"]
    options += ["--ledger", ledger.path, "--key-file", made]
    assert command(capsys, "privatize", counts, out, *options)[0] == 0
    code, _, said = command(capsys, "privatize", counts, tmp_path / "b.csv", *options)
    assert (code, "--resume continues it; new data are a new release" in said) == (1, True)
    counts.write_text("city,count\nOslo,121\nLima,80\n")
    code, _, said = command(capsys, "privatize", counts, tmp_path / "b.csv", *options, "--resume")
    assert (code, "the input is not the one that was reserved (number 1, " in said) == (1, True)
    assert "discrete_laplace, refused: OtherInputError" in command(capsys, "ledger", "show", path)[1]
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_the_picture(ledger, capsys) -> None:
    from matplotlib.image import imread

    picture = ledger.path.with_name("spend.png")
    for _n in range(3):
        assert command(capsys, "ledger", "show", ledger.path, "--plot", picture)[0] == 0
        assert imread(picture).std() > 0.05
        ledger.spend(TENTH, Guarantee(Decimal("0.1"), Decimal("1e-7")))
    code, _, err = command(capsys, "ledger", "show", ledger.path, "--plot", "spend.jpg")
    assert (code, "must be a .png, .svg or .pdf" in err) == (2, True)


@pytest.mark.parametrize("content", [b"", b"city,n\nOslo,5\n", b"SQLite format 3\0" + bytes(4080)])
def test_no_lock_is_left_beside_what_is_no_ledger(content, path) -> None:
    """A file named by mistake, even of SQLite, is refused, and nothing is made beside it."""
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="is not a ledger of dpfast$"):
        Ledger(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == content
