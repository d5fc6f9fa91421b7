# SPDX-License-Identifier: Apache-2.0
"""noise_source: a law and a scale, for libraries that keep the privacy arithmetic."""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from laws import fixed

import dpfast
from dpfast.noise.mechanisms.laws import own_laws

LAWS = list(own_laws())
SCALES = [1, 0.1, 2.5, Fraction(10, 3), Decimal("0.7"), 1e6]


def same(law: str, scale: object) -> object:
    exact = Fraction(scale)
    return {
        "discrete_laplace": lambda: dpfast.DiscreteLaplace(1 / exact, 1),
        "laplace": lambda: dpfast.Laplace(1 / exact, 1),
        "discrete_gaussian": lambda: dpfast.DiscreteGaussian(exact),
        "gaussian": lambda: dpfast.Gaussian(exact),
    }[law]()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_it_is_the_mechanism_of_exactly_that_scale(law, scale) -> None:
    """Its noise and its figures are that mechanism's, bit for bit under a key."""
    source, mechanism = dpfast.noise_source(law, scale), same(law, scale)
    assert isinstance(source, type(mechanism))
    assert (source.scale, source.stddev) == (mechanism.scale, mechanism.stddev)
    assert source.interval(0.95) == mechanism.interval(0.95)
    values = np.arange(100) if "discrete" in law else np.arange(100) / 7
    np.testing.assert_array_equal(fixed(source, values), fixed(mechanism, values))


@pytest.mark.parametrize("law", LAWS)
def test_the_protocol_is_what_every_mechanism_has(law) -> None:
    """Its five lines, used as a library would."""
    source: dpfast.NoiseSource = dpfast.noise_source(law, 3)
    values = [1, 2, 3] if "discrete" in law else [1.0, 2.0, 3.0]
    assert np.shape(source.release(values)) == (3,)
    assert 2.9 < source.scale < 3.1
    assert 2.9 < source.stddev < 4.4
    assert source.interval(0.95, cells=3) > source.interval(0.5) > 0
    assert source.metadata()["secure"] is True
    assert set(dir(dpfast.NoiseSource)) & {"release", "scale", "stddev", "interval", "metadata"} == {
        "release", "scale", "stddev", "interval", "metadata"
    }  # fmt: skip


def test_asking_again_makes_nothing_new() -> None:
    assert dpfast.noise_source("laplace", 2) is dpfast.noise_source("laplace", Fraction(2))
    assert dpfast.noise_source("laplace", 0.1) is not dpfast.noise_source("laplace", Fraction(1, 10))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_range_of_real_laws_is_what_the_message_says(law) -> None:
    for scale in (Fraction(2) ** -1054, Fraction(2) ** 920):
        assert dpfast.noise_source(law, scale).scale == float(scale)
    for scale in (Fraction(2) ** -1055, Fraction(2) ** 921):
        with pytest.raises(dpfast.errors.ParameterError, match="scale must lie between"):
            dpfast.noise_source(law, scale)


@pytest.mark.parametrize("law", LAWS)
def test_it_pickles(law) -> None:
    source, other = dpfast.noise_source(law, 5), dpfast.noise_source(law, 6)
    again = pickle.loads(pickle.dumps(source))
    assert again == source != other
    assert hash(again) == hash(source)
    assert again.metadata() == source.metadata()


@pytest.mark.parametrize("law", LAWS)
def test_it_promises_nothing(law, tmp_path) -> None:
    """The library's sensitivity is unknown here: no epsilon is written, composed or charged."""
    source = dpfast.noise_source(law, Fraction(5, 2))
    said = source.metadata()
    assert not {"epsilon", "sensitivity", "adjacency", "unit", "rho_spent"} & said.keys()
    assert said["mechanism"] == law
    assert said["scale"] == 2.5
    assert said.get("exact_scale", said.get("sigma_squared")) in ("5/2", "25/4")
    assert "epsilon" not in repr(source)
    assert "epsilon" not in source._repr_html_()
    with pytest.raises(dpfast.errors.ParameterError, match="sensitivity must be given.*alone"):
        _ = source.guarantee
    with pytest.raises(dpfast.errors.NoGuaranteeError):
        dpfast.compose(source)
    cells = np.zeros(3, np.int64) if "discrete" in law else np.zeros(3)
    ledger = dpfast.Ledger(tmp_path / "b.db", epsilon=10**6, delta=0.5, create=True)
    for charge in (lambda: ledger.release(source, cells), lambda: ledger.spend(source), lambda: ledger.fits(source)):
        with pytest.raises(dpfast.errors.NoGuaranteeError):
            charge()
    assert ledger.spent.epsilon == 0
    assert len(ledger.history()) == 0


@pytest.mark.parametrize("law", ["laplace", "discrete_laplace"])
def test_what_it_was_not_told_it_does_not_have(law) -> None:
    """As a Gaussian made from sigma alone has no sensitivity."""
    source = dpfast.noise_source(law, 3)
    assert not hasattr(source, "guarantee")
    assert (source.adjacency, source.unit) == (None, None)
    for name in ("epsilon", "sensitivity"):
        with pytest.raises(dpfast.errors.ParameterError, match="sensitivity must be given"):
            getattr(source, name)


def test_two_releases_differ() -> None:
    source = dpfast.noise_source("discrete_laplace", 1e6)
    zeros = np.zeros(100, np.int64)
    assert (source.release(zeros) != source.release(zeros)).any()


@pytest.mark.parametrize(
    ("law", "scale", "error", "message"),
    [
        ("cauchy", 1, dpfast.errors.ParameterError, "law must be one of discrete_laplace, .*got 'cauchy'"),
        (1, 1, dpfast.errors.DTypeError, "law must be a string, not int"),
        ("laplace", 0, dpfast.errors.ParameterError, "scale"),
        ("laplace", -1, dpfast.errors.ParameterError, "scale"),
        ("laplace", float("nan"), dpfast.errors.ParameterError, "scale"),
        ("laplace", b"1", dpfast.errors.DTypeError, "scale"),
        ("discrete_laplace", 2**61, dpfast.errors.ParameterError, "2\\*\\*60"),
        ("discrete_gaussian", 1e10, dpfast.errors.ParameterError, "scale must lie between 1e-3 and 1e9"),
        ("gaussian", 2.0**921, dpfast.errors.ParameterError, r"scale must lie between 2\*\*-1054 and 2\*\*921"),
    ],
)
def test_bad_parameters(law, scale, error, message) -> None:
    with pytest.raises(error, match=message):
        dpfast.noise_source(law, scale)
