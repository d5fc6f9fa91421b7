# SPDX-License-Identifier: Apache-2.0
"""The ledger: charged before the noise, exactly, once a release."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import tiers
from ledgers import CELLS, TENTH, ZEROS, release_key

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Guarantee, Key, Laplace, Ledger
from dpfast.errors import BudgetExhausted, DTypeError, KeyReuseError, LedgerError, NoGuaranteeError, ParameterError
from dpfast.ledger import store
from dpfast.noise.mechanisms import mechanism as steps

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
            patch.setattr(tiers.StreamKey, source, lambda *_: pytest.fail("a key was drawn"))
        patch.setattr(steps, "run_small", lambda *_: pytest.fail("a key was drawn"))
        message = r"epsilon 0\.5 is asked for and 0\.3 is left of 1; nothing was released or charged$"
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


@pytest.mark.parametrize("most", [Fraction(2**64), Fraction(2**1100 - 1, 2**1099)], ids=["2**64", "1,100 bits"])
def test_the_largest_budget_is_one(tmp_path, most) -> None:
    """At both limits a ledger is made; just beyond, it is refused, and there is no file."""
    assert dpfast.Ledger(tmp_path / "most.db", most, create=True).remaining.epsilon == most
    for beyond in (Fraction(2**64) + Fraction(1, 2**900), Fraction(2**1100 + 1, 2**1100 - 1)):
        with pytest.raises(
            dpfast.errors.ParameterError, match=r"epsilon must be at most 2\*\*64 and of at most 1100 bits"
        ):
            dpfast.Ledger(tmp_path / "beyond.db", beyond, create=True)
    assert not (tmp_path / "beyond.db").exists()


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

    for place, name in ((tiers.StreamKey, "draw"), (tiers.StreamKey, "take"), (steps, "run_small")):
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
        with pytest.raises(dpfast.errors.UnusableValuesError):
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
