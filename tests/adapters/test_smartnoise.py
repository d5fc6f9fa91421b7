# SPDX-License-Identifier: Apache-2.0
"""SmartNoise SQL on our noise: parameters, queries, law, and its threshold on a grid."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from fresh import run
from places import ROOT
from real_noise import rejected
from scipy import stats

snsql = pytest.importorskip("snsql")

import pandas as pd  # noqa: E402
from snsql import Privacy  # noqa: E402
from snsql.sql import privacy as theirs  # noqa: E402

from dpfast.adapters import smartnoise  # noqa: E402

pytestmark = pytest.mark.own_environment
MECHANISMS = [(smartnoise.Laplace, theirs.Laplace), (smartnoise.Gaussian, theirs.Gaussian)]
LAWS = {smartnoise.Laplace: stats.laplace, smartnoise.Gaussian: stats.norm}


def made(cls, epsilon=0.5, delta=1e-6, **options) -> object:
    return cls(epsilon, delta=delta, **{"sensitivity": 1, "max_contrib": 1, **options})


@pytest.mark.parametrize(("ours", "original"), MECHANISMS)
@pytest.mark.parametrize("options", [{}, {"max_contrib": 3}, {"sensitivity": None, "lower": -7, "upper": 40}])
def test_parameters_stay_theirs(ours, original, options) -> None:
    mine, plain = made(ours, **options), made(original, **options)
    assert isinstance(mine, original)
    names = ("epsilon", "delta", "sensitivity", "max_contrib", "lower", "upper", "mechanism", "scale")
    assert [getattr(mine, name) for name in names] == [getattr(plain, name) for name in names]
    assert mine.accuracy(0.05) == plain.accuracy(0.05)
    assert Fraction(mine._noise.scale) == Fraction(plain.scale)


@pytest.mark.parametrize(("ours", "original"), MECHANISMS)
def test_types_and_odd_values_are_as_theirs(ours, original) -> None:
    """Lists of floats; NaN is 0, an infinity the largest double; what is no number is refused."""
    mine, plain = made(ours), made(original)
    largest = math.nextafter(math.inf, 0)
    odd = [3, 2.5, True, "4", np.int64(5), 2**60, math.nan, math.inf, -math.inf]
    for mechanism in (mine, plain):
        found = mechanism.release(odd)
        assert type(found) is list
        assert {type(value) for value in found} == {float}
        assert max(abs(f - v) for f, v in zip(found[:5], [3, 2.5, 1, 4, 5], strict=True)) < 60 * mechanism.scale
        assert 0 < abs(found[6]) < 60 * mechanism.scale  # NaN is 0 with noise
        assert found[7:] == [largest, -largest]
        assert mechanism.release([]) == []
        for refused in ([None], [[1.0]], [10**400]):
            with pytest.raises((TypeError, OverflowError)):
                mechanism.release(refused)


@pytest.mark.parametrize(("ours", "original"), MECHANISMS)
def test_what_they_refuse_is_refused(ours, original) -> None:
    for options in ({"epsilon": 1e-9}, {"sensitivity": None}, {"sensitivity": 1, "lower": 0, "upper": 1}):
        for cls in (ours, original):
            with pytest.raises(ValueError, match="."):
                made(cls, **options)


@pytest.mark.parametrize("ours", LAWS)
def test_law_and_grid(ours) -> None:
    """200,000 values off the grid: a scale 3 % off is missed less than once in 1e9."""
    mechanism = made(ours)
    values = np.random.default_rng(1).normal(size=200_000) * 100
    noisy = np.array(mechanism.release(values.tolist()))
    assert np.all(noisy / mechanism._noise.granularity % 1 == 0)
    noise = (noisy - values) / mechanism.scale
    assert not rejected(noise, LAWS[ours])
    assert rejected(noise * 1.03, LAWS[ours])
    assert rejected(noise / 1.03, LAWS[ours])
    assert rejected(noise + 0.03, LAWS[ours])
    assert np.mean(noisy == mechanism.release(values.tolist())) < 0.001  # fresh each time


@pytest.mark.parametrize("ours", LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.7])
def test_threshold_covers_the_grid(ours, epsilon) -> None:
    """Over our threshold only if the ideal value, before rounding, is over theirs: in rationals."""
    original = dict(MECHANISMS)[ours]
    for contributions in (1, 4):
        mine, plain = (made(cls, epsilon, max_contrib=contributions) for cls in (ours, original))
        mine.delta = plain.delta = 1e-6  # as their reader sets it for a key count
        step = Fraction(mine._noise.granularity)
        first = step * (math.floor(Fraction(mine.threshold) / step) + 1)  # the least grid point that passes
        assert first - step / 2 >= Fraction(plain.threshold)
        assert mine.threshold < plain.threshold * (1 + 1e-4)


def test_threshold_without_delta_is_refused_as_theirs() -> None:
    for cls in (smartnoise.Laplace, theirs.Laplace):
        with pytest.raises(ValueError, match="delta"):
            made(cls).threshold  # noqa: B018


def test_every_mechanism_of_the_table_is_ours() -> None:
    table = smartnoise.Mechanisms()
    assert set(table.classes) == set(theirs.Mechanisms().classes)
    assert set(table.classes.values()) == {smartnoise.Laplace, smartnoise.Gaussian}
    assert table.get_mechanism(np.inf, "count", "int") is theirs.Unbounded  # a refusal of theirs
    again = pickle.loads(pickle.dumps(made(smartnoise.Laplace)))  # Spark sends mechanisms to its workers
    assert again.release([0.0])[0] != 0
    assert set(theirs.Mechanisms().classes.values()) == {theirs.Laplace, theirs.Gaussian}  # nothing was rebound


# ------------------------------------------------------------------ real queries

META = {
    "": {
        "t": {
            "people": {
                "row_privacy": False, "max_ids": 1, "rows": 4000,
                "person": {"type": "int", "private_id": True},
                "town": {"type": "int"},
                "age": {"type": "int", "lower": 0, "upper": 100},
                "income": {"type": "float", "lower": 0.0, "upper": 50.0},
            }
        }
    }
}  # fmt: skip
PEOPLE = pd.DataFrame({"person": range(4000), "town": [i % 4 for i in range(4000)], "age": 40, "income": 25.0})
QUERY = (
    "SELECT town, COUNT(*) AS n, SUM(age) AS years, SUM(income) AS money, AVG(age) AS mean FROM t.people GROUP BY town"
)


def reader(mechanisms, epsilon=1.0) -> object:
    return snsql.from_df(PEOPLE, metadata=META, privacy=Privacy(epsilon=epsilon, delta=1e-5, mechanisms=mechanisms))


def test_queries_run_on_our_noise(monkeypatch) -> None:
    """A release a noisy cell, none of theirs; types, accuracy, cost and refusals as theirs."""
    released = []
    original = smartnoise._Released.release

    def counted(self, vals) -> object:
        released.append(self.scale)
        return original(self, vals)

    monkeypatch.setattr(smartnoise._Released, "release", counted)
    for cls in (theirs.Laplace, theirs.Gaussian):
        monkeypatch.setattr(cls, "release", None)  # a call of theirs would raise
    private = reader(smartnoise.Mechanisms())
    header, *rows = private.execute(QUERY)
    assert header == ["town", "n", "years", "money", "mean"]
    assert len(rows) == 4
    assert len(released) >= 4 * 3
    for _, n, years, money, mean in rows:
        assert [type(x) for x in (n, years, money)] == [int, int, float]
        assert abs(n - 1000) < 60
        assert abs(years - 40_000) < 6_000
        assert abs(money - 25_000) < 3_000
        assert 30 < mean < 50
    monkeypatch.undo()
    plain = reader(None)
    assert private.get_simple_accuracy(QUERY, 0.05) == plain.get_simple_accuracy(QUERY, 0.05)
    assert private.get_privacy_cost(QUERY) == plain.get_privacy_cost(QUERY)
    assert private.odometer.spent[0] > 0


def test_their_map_chooses_among_ours() -> None:
    table = smartnoise.Mechanisms()
    table.map[theirs.Stat.count] = table.map[theirs.Stat.threshold] = snsql.Mechanism.gaussian
    private = reader(table)
    subquery, _ = private._rewrite(QUERY)
    kinds = [type(mechanism) for mechanism in private._get_mechanisms(subquery) if mechanism]
    assert smartnoise.Gaussian in kinds
    assert set(kinds) <= {smartnoise.Laplace, smartnoise.Gaussian}


def test_small_groups_are_censored() -> None:
    """Groups of one person pass with probability 1e-5: at most 4 of 3,000 (else 2e-8)."""
    lonely = pd.DataFrame(
        {"person": range(4000), "town": [max(0, i - 999) for i in range(4000)], "age": 1, "income": 1.0}
    )
    privacy = Privacy(epsilon=1.0, delta=1e-5, mechanisms=smartnoise.Mechanisms())
    private = snsql.from_df(lonely, metadata=META, privacy=privacy)
    rows = private.execute("SELECT town, COUNT(DISTINCT person) AS n FROM t.people GROUP BY town")[1:]
    assert 0 in [row[0] for row in rows]
    assert len(rows) <= 5


def test_the_example_runs() -> None:
    found = run(ROOT / "examples" / "with_smartnoise.py")
    assert (found.returncode, found.stderr) == (0, "")
    assert "95 %" in found.stdout
