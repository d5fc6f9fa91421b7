# SPDX-License-Identifier: Apache-2.0
"""Tumult Core on our noise: its privacy function, exact parameters, laws, Series, and Spark."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import gof
import numpy as np
import pytest
from fresh import run
from installs import are_undone_exactly
from places import ROOT
from real_noise import ALPHA, rejected
from scipy import stats

pytest.importorskip("tmlt.core")

import pandas as pd
import sympy as sp
from pyspark.sql import SparkSession
from tmlt.core.domains import spark_domains as sd
from tmlt.core.domains.numpy_domains import NumpyFloatDomain
from tmlt.core.measurements import aggregations, spark_measurements
from tmlt.core.measurements import noise_mechanisms as noise
from tmlt.core.measurements.pandas_measurements import series
from tmlt.core.measures import PureDP, RhoZCDP
from tmlt.core.metrics import SymmetricDifference
from tmlt.core.transformations.spark_transformations import groupby

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpfast.adapters import tumult
from dpfast.adapters.tumult import AddNoiseToSeries, installed
from dpfast.errors import DTypeError, ParameterError

pytestmark = [
    pytest.mark.own_environment,
    # what pyspark 3.5 and Tumult Core's calls of it warn of
    pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:In Python 3.6:UserWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
PI = sp.pi / 3  # no rational
MEASUREMENTS = {
    "geometric": lambda x: noise.AddGeometricNoise(x),  # noqa: PLW0108  the adapter replaces the name
    "laplace": lambda x: noise.AddLaplaceNoise(NumpyFloatDomain(), x),
    "discrete gaussian": lambda x: noise.AddDiscreteGaussianNoise(x),  # noqa: PLW0108
    "gaussian": lambda x: noise.AddGaussianNoise(NumpyFloatDomain(), x),
}
WHOLE = ("geometric", "discrete gaussian")


def parameter(mechanism) -> Fraction:
    """What the mechanism runs on, exactly."""
    if isinstance(mechanism, (DiscreteLaplace, Laplace)):
        return Fraction(str(mechanism.metadata()["exact_scale"]))
    assert isinstance(mechanism, (DiscreteGaussian, Gaussian))
    return mechanism.sigma_squared


@pytest.mark.parametrize("kind", MEASUREMENTS)
@pytest.mark.parametrize("value", ["7/3", "0.1", 10**20 + 1, sp.Rational(1, 10**15), PI, sp.sqrt(2) * 10**9])
def test_parameters_are_exact_or_rounded_up(kind, value) -> None:
    """Rationals exactly; other numbers to the side of more noise, by less than 1e-14."""
    theirs = MEASUREMENTS[kind](value)
    try:
        used = parameter(AddNoiseToSeries(theirs)._mechanism)
    except ParameterError:
        assert (kind, value) == ("gaussian", 10**20 + 1) or kind in WHOLE  # beyond what a law of ours takes
        return
    wanted = sp.Rational(value) if isinstance(value, (str, int)) else value
    exactly = sp.Rational(used.numerator, used.denominator)
    if wanted.is_Rational:
        assert exactly == wanted
    else:
        assert wanted <= exactly <= wanted * (1 + sp.Rational(1, 10**14))


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_privacy_is_theirs_and_is_what_the_mechanism_spends(kind) -> None:
    theirs = MEASUREMENTS[kind]("7/3")
    ours, original = AddNoiseToSeries(theirs), series.AddNoiseToSeries(theirs)
    assert isinstance(ours, series.AddNoiseToSeries)
    for name in ("input_domain", "input_metric", "output_measure", "output_type", "noise_measurement"):
        assert getattr(ours, name) == getattr(original, name)
    mechanism = ours._mechanism
    for d_in in (1, 3, "1/2"):
        promised = ours.privacy_function(d_in)
        assert promised == original.privacy_function(d_in)
        spent = Fraction(d_in) / parameter(mechanism)
        if "gaussian" in kind:
            spent = Fraction(d_in) ** 2 / (2 * parameter(mechanism))
        assert promised == sp.Rational(spent.numerator, spent.denominator)


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_series_are_as_theirs(kind) -> None:
    theirs = MEASUREMENTS[kind](2)
    ours, original = AddNoiseToSeries(theirs), series.AddNoiseToSeries(theirs)
    wanted = np.int64 if kind in WHOLE else np.float64
    narrow = np.int32 if kind in WHOLE else np.float32
    for values in (
        pd.Series([1, 2, 3], index=list("abc"), name="n", dtype=wanted),
        pd.Series([1, 2, 3, 4], dtype=wanted)[::-2],
        pd.Series([1, 2], dtype=narrow),
        pd.Series([], dtype=wanted, name="none"),
    ):
        before = values.copy()
        mine, plain = ours(values), original(values)
        pd.testing.assert_series_equal(values, before)
        assert type(mine) is type(plain)
        assert (mine.dtype, mine.name, list(mine.index)) == (plain.dtype, plain.name, list(plain.index))
        assert np.all(np.abs(mine - values) < 200)


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_other_numbers_are_refused(kind) -> None:
    measurement = AddNoiseToSeries(MEASUREMENTS[kind](2))
    other = [1.5, 2.0] if kind in WHOLE else [1, 2]
    for values in (other, [True, False], ["1"]):
        with pytest.raises(DTypeError):
            measurement(pd.Series(values))
    for values in ([1.0, np.nan], [np.inf, 1.0]):
        with pytest.raises((DTypeError, ParameterError)):
            measurement(pd.Series(values))


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_saturate(kind) -> None:
    ends = np.iinfo(np.int64)
    noisy = AddNoiseToSeries(MEASUREMENTS[kind](100))(pd.Series([ends.min, ends.max] * 500))
    assert noisy.dtype == np.int64
    assert np.all((noisy > 0) == ([False, True] * 500))  # none wrapped around
    assert set(noisy) & {ends.min, ends.max} == {ends.min, ends.max}


@pytest.mark.parametrize("kind", MEASUREMENTS)
@pytest.mark.parametrize("value", [0, float("inf")])
def test_no_noise_is_refused(kind, value) -> None:
    try:
        theirs = MEASUREMENTS[kind](value)
    except ValueError:
        return  # theirs refuses it too
    with pytest.raises(ParameterError, match="no release without noise"):
        AddNoiseToSeries(theirs)


def test_subclasses_are_refused() -> None:
    class Louder(noise.AddGeometricNoise):
        def __call__(self, value) -> object:
            return super().__call__(super().__call__(value))

    with pytest.raises(DTypeError, match="Louder"):
        AddNoiseToSeries(Louder(1))


LAWS = {"laplace": stats.laplace, "gaussian": stats.norm}


@pytest.mark.parametrize("kind", LAWS)
def test_real_laws(kind) -> None:
    """200,000 values off the grid; a scale 3 % off is missed less than once in 1e9."""
    values = np.random.default_rng(1).normal(size=200_000) * 100
    noisy = AddNoiseToSeries(MEASUREMENTS[kind]("9/4"))(pd.Series(values))
    found = (noisy.to_numpy() - values) / (2.25 if kind == "laplace" else 1.5)
    assert np.all(noisy % 2.0**-20 == 0)
    assert not rejected(found, LAWS[kind])
    assert rejected(found * 1.03, LAWS[kind])
    assert rejected(found / 1.03, LAWS[kind])


def whole_rejected(found, alpha) -> bool:
    """Against their own geometric law, by chi-squared over |k| <= 5 alpha and the rest."""
    reach = np.arange(-int(5 * alpha), int(5 * alpha) + 1)
    q = np.exp(-1 / alpha)
    mass = (1 - q) / (1 + q) * q ** np.abs(reach)
    counts = np.array([np.sum(found == k) for k in reach])
    expected, seen = np.append(mass, 1 - mass.sum()) * found.size, np.append(counts, found.size - counts.sum())
    return gof.chi2_p(float(((seen - expected) ** 2 / expected).sum()), reach.size) < ALPHA


def test_geometric_law() -> None:
    """A scale 1.5 % off and a fiftieth of the zeros moved are caught."""
    counts = np.arange(1_000_000)
    found = AddNoiseToSeries(noise.AddGeometricNoise(2))(pd.Series(counts)).to_numpy() - counts
    assert not whole_rejected(found, 2)
    assert whole_rejected(found, 2.03)
    assert whole_rejected(found + (found == 0) * (np.arange(found.size) % 50 == 0), 2)


def test_discrete_gaussian_law() -> None:
    """A million draws at sigma^2 = 4: variance within 5 standard errors (6e-7); 1 % off is 7."""
    counts = np.arange(1_000_000)
    found = AddNoiseToSeries(noise.AddDiscreteGaussianNoise(4))(pd.Series(counts)).to_numpy() - counts
    error = 5 * 4 * np.sqrt(2 / found.size)
    assert abs(np.mean(found**2) - 4) < error < 4 * 0.01
    exact = 1 / np.sum(np.exp(-(np.arange(-60, 61) ** 2) / 8))  # P(0)
    assert stats.binomtest(int(np.sum(found == 0)), found.size, exact).pvalue > ALPHA


def test_installed_is_undone_exactly() -> None:
    places = (aggregations, spark_measurements)
    during = are_undone_exactly(tumult, lambda: [module.AddNoiseToSeries for module in places])
    assert during == [AddNoiseToSeries] * 2
    assert [module.AddNoiseToSeries for module in places] == [series.AddNoiseToSeries] * 2


# ------------------------------------------------------------------ Spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator[SparkSession]:
    here = Path(tumult.__file__).parents[2]
    before = os.environ.copy()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(here), before.get("PYTHONPATH"))))  # for its workers
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


DOMAIN = sd.SparkDataFrameDomain({"town": sd.SparkStringColumnDescriptor(), "count": sd.SparkIntegerColumnDescriptor()})


def test_spark_column(spark) -> None:
    """AddNoiseToColumn hands over whole batches, in workers that unpickled the measurement."""
    measurement = spark_measurements.AddNoiseToColumn(DOMAIN, AddNoiseToSeries(noise.AddGeometricNoise(2)), "count")
    assert measurement.privacy_function(1) == sp.Rational(1, 2)
    frame = spark.createDataFrame([(f"t{i}", i) for i in range(20_000)], "town string, count bigint")
    noisy = measurement(frame).toPandas()
    assert list(noisy.dtypes) == [object, np.int64]
    found = noisy["count"] - noisy["town"].str[1:].astype(int)
    assert not whole_rejected(found.to_numpy(), 2)


TOWNS = sd.SparkDataFrameDomain({"town": sd.SparkStringColumnDescriptor()})


@pytest.mark.parametrize(
    ("measure", "mechanism"),
    [(PureDP(), aggregations.NoiseMechanism.GEOMETRIC), (RhoZCDP(), aggregations.NoiseMechanism.DISCRETE_GAUSSIAN)],
)
def test_their_count_on_ours(spark, measure, mechanism) -> None:
    """Made while installed, it stays on our noise; made later, it is theirs."""

    def count() -> object:
        return aggregations.create_count_measurement(
            TOWNS, SymmetricDifference(), measure, 2, mechanism,
            groupby_transformation=groupby.create_groupby_from_list_of_keys(
                TOWNS, SymmetricDifference(), measure == RhoZCDP(), ["town"], [("a",), ("b",), ("c",)]
            ),
        )  # fmt: skip

    with installed():
        measurement = count()
    assert type(measurement.measurement.measurement) is AddNoiseToSeries
    assert type(count().measurement.measurement) is series.AddNoiseToSeries
    assert measurement.privacy_function(1) == count().privacy_function(1) == 2
    frame = spark.createDataFrame([("a",)] * 300 + [("b",)] * 200, "town string")
    noisy = measurement(frame).toPandas().set_index("town")["count"]  # after installed() has ended
    assert abs(noisy["a"] - 300) < 40
    assert abs(noisy["b"] - 200) < 40
    assert abs(noisy["c"]) < 40


def test_their_partition_selection_on_ours(spark, monkeypatch) -> None:
    made = []
    original = AddNoiseToSeries.__init__
    monkeypatch.setattr(
        AddNoiseToSeries, "__init__", lambda self, theirs: (made.append(theirs), original(self, theirs))[1]
    )
    selection = spark_measurements.GeometricPartitionSelection(TOWNS, threshold=30, alpha=1)
    frame = spark.createDataFrame([("a",)] * 300 + [("b",)] * 2, "town string")
    with installed():
        found = selection(frame).toPandas()
    assert [measurement.alpha for measurement in made] == [1]
    assert list(found["town"]) == ["a"]  # with probability 1 - e^-27 and more
    assert abs(found["count"][0] - 300) < 40


def test_pickled_measurements_release() -> None:
    again = pickle.loads(pickle.dumps(AddNoiseToSeries(noise.AddLaplaceNoise(NumpyFloatDomain(), "1/3"))))
    assert parameter(again._mechanism) == Fraction(1, 3)
    assert np.any(again(pd.Series([0.0] * 100)) != 0)


def test_the_example_runs(spark) -> None:  # with its environment
    found = run(ROOT / "examples" / "with_tumult.py")
    assert found.returncode == 0, found.stderr  # where Spark keeps its log
    assert "95 %" in found.stdout
