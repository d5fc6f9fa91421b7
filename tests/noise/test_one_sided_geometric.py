# SPDX-License-Identifier: Apache-2.0
"""The one-sided geometric law, beside test_laws.py: the lift at U = 1, and no mechanism."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import reference
import tiers
from laws import BY_NAME, numbers

from dpfast import OneSidedGeometric, Sensitivity
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.mechanism import Mechanism

law = BY_NAME["one_sided_geometric"].make


def test_integers_next_to_u_1_need_the_lift() -> None:
    """Where -ln U is below 2^-101 the lift keeps C - ln U above 0. Without it a draw is 256 t."""
    scale, bits = Fraction(10**17, 7), 127
    cells = [2**bits - j for j in range(1, 2**12)]
    known = reference.OneSidedGeometric(1 / scale)
    assert {known.magnitude(cell, bits) for cell in cells[::100]} == {0}
    for isa in tiers.ISAS:
        assert {*tiers.constant_work_plan(law(scale)).tier(tiers.INTEGER, bits, cells, isa=isa)} == {0}
    unlifted = tiers.Plan("discrete_laplace", **tiers.constants(law(scale)) | {"wide_c": 0})  # wide_c = 0
    assert math.floor(256 * scale) in unlifted.tier(tiers.INTEGER, bits, cells)


def test_release_is_refused_and_says_why() -> None:
    """Whatever it is called with; and the records have no promise."""
    mech = law(Fraction(1))
    for call in (mech.release, lambda: mech.release([1, 2]), lambda: mech.release([1], key=None, start=0), lambda: mech.release(out=1)):  # fmt: skip
        says = r"not a mechanism .* tells x from x \+ 1\. DiscreteLaplace is the mechanism"
        with pytest.raises(DTypeError, match=says):
            call()
    assert isinstance(mech, Mechanism)
    with pytest.raises(ParameterError, match=r"at most 2\*\*50"):
        law(Fraction(2**51)).sample(1)
    with pytest.raises(ParameterError, match="times the sensitivity"):
        OneSidedGeometric(1, 2**61)
    with pytest.raises(ParameterError, match="adjacency and unit are those"):
        OneSidedGeometric(1, Sensitivity(1, 1), unit="household")


def test_sample() -> None:
    """Never negative, int64, of any shape; at a scale where noise is nearly always 0 it is 0."""
    for scale in (Fraction(1, 2**60), Fraction(1, 3), Fraction(10**6), Fraction(2**50)):
        for size in (0, 7, (2, 3), 5000):
            for options in ({}, {"constant_time": True}, {"threads": 1}):
                found = law(scale).sample(size, **options)
                assert found.dtype == np.int64
                assert found.shape == (size if isinstance(size, tuple) else (size,))
                assert np.all(found >= 0)
    assert not law(Fraction(1, 2**60)).sample(5000).any()


@pytest.mark.parametrize("scale", numbers("2^-60 1/20 1 1000 2^60"), ids=str)
def test_figures(scale: Fraction) -> None:
    mech, known = law(scale), reference.OneSidedGeometric(1 / scale)
    assert mech.mean() == pytest.approx(known.mean(), rel=1e-12)
    assert mech.variance == pytest.approx(known.variance(), rel=1e-12)
    assert mech.stddev == pytest.approx(math.sqrt(known.variance()), rel=1e-12)
    ks = sorted({-5, -1, 0, 1, 2, *(min(int(scale * x), 2**62) for x in (1, 3, 30))})
    assert mech.pmf(np.array(ks)) == pytest.approx([known.pmf(k) for k in ks], rel=1e-11)
    assert mech.cdf(np.array(ks)) == pytest.approx([known.cdf(k) for k in ks], rel=1e-11)
    assert mech.sf(np.array(ks)) == pytest.approx([float(known.tail(max(k + 1, 0))) for k in ks], rel=1e-11)
    assert (mech.pmf(-1), mech.cdf(-1), mech.sf(-1), mech.sf(-(2**70))) == (0, 0, 1, 1)
    assert mech.median() == float(mech.quantile(Fraction(1, 2)))
    for p in (Fraction(1, 1000), Fraction(1, 2), Fraction(999, 1000)):
        k = mech.quantile(p)
        with mpmath.workprec(256):
            side = mpmath.mpf((1 - p).numerator) / (1 - p).denominator
            assert known.tail(k + 1) <= side
            assert k == 0 or known.tail(k) > side
        assert mech.interval(p) == k
        h = mech.interval(p, cells=1000)
        assert h >= k
        miss = -math.expm1(math.log(p) / 1000)
        assert float(known.tail(h + 1)) <= miss * (1 + 1e-12)
        assert h == 0 or float(known.tail(h)) >= miss * (1 - 1e-12)


def test_its_stream_is_its_own() -> None:
    """Under a key it shares no noise with the two-sided law: the derivation names the law."""
    assert tiers.record(law(Fraction(1))) == ("one_sided_geometric", 1, 1, 1, 1)
