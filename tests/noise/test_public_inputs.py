# SPDX-License-Identifier: Apache-2.0
"""missing= and clamp=: what stands before the noise in place of cells, and when it is private."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Sensitivity, Snapping
from dpfast.errors import DTypeError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.InsecureKeyWarning")

CELL = Sensitivity(1, 10)
REALS = [
    Laplace(1, 10),
    Laplace(1, CELL),
    Gaussian(5, sensitivity=CELL),
    Gaussian(5, sensitivity=Sensitivity.from_l2(100)),
    Snapping(1, CELL, bound=2**20),
]
INTEGERS = [DiscreteLaplace(1, 10), DiscreteLaplace(1, CELL), DiscreteGaussian(5, sensitivity=CELL)]
NARROW = DiscreteLaplace(100, 1)  # whose noise is 0 but for 8e-44 of draws


def fixed(mechanism: Any, values: Any, **options: Any) -> Any:
    """A release whose noise is always the same."""
    with tiers.fixed_stream():
        return mechanism.release(values, **options)


# ------------------------------------------------------------------ the rule


def test_a_missing_cell_cannot_tell_of_a_value_far_away() -> None:
    """Neighbours [NaN] and [40.0], once told apart, are refused or told apart by e."""
    with pytest.raises(ParameterError, match="missing must come with clamp"):
        Laplace(epsilon=1, sensitivity=1).release(np.full(10, math.nan), missing=0.0)
    with pytest.raises(ParameterError, match="missing=0.0 may be 50 away from a value within clamp"):
        Laplace(epsilon=1, sensitivity=1).release(np.full(10, math.nan), missing=0.0, clamp=(0, 50))
    mechanism = Laplace(epsilon=1, sensitivity=50)
    gone, there = (mechanism.release(np.full(200_000, x), missing=0.0, clamp=(0, 50)) for x in (math.nan, 1e300))
    # P(y > at) differs by at most e. The bound is 5 standard errors of 200,000 draws away: 1e-6.
    for at in (10.0, 25.0, 45.0):
        p, q = (there > at).mean(), (gone > at).mean()
        assert p <= math.e * q + 6 * math.e * math.sqrt(q / 200_000)
    assert (there > 25).mean() > 1.5 * (gone > 25).mean()  # and the guard can see a difference


@pytest.mark.parametrize("mechanism", REALS, ids=repr)
def test_real_laws_take_missing_only_where_its_distance_is_covered(mechanism: Any) -> None:
    """One cell's stated change must be max(b - missing, missing - a) at least: 10 here."""
    values = np.array([1.0, math.nan, math.inf, -math.inf])
    for clamp, missing in [((0, 10), 0), ((0, 10), 10), ((-10, 10), 0), ((-5, 5), Fraction(5)), ((3, 3), 3)]:
        assert np.isfinite(mechanism.release(values, clamp=clamp, missing=missing)).all()
    above = math.nextafter(10.0, 11)
    for clamp, missing in [((0, above), 0), ((0, 10), -1), ((0, 10), 10.5), ((-6, 5), 5), ((20, 21), 0)]:
        with pytest.raises(ParameterError, match="^missing=.* may be .* away from a value within clamp"):
            mechanism.release(values, clamp=clamp, missing=missing)
    with pytest.raises(ParameterError, match="^missing must come with clamp"):
        mechanism.release(values, missing=0)


@pytest.mark.parametrize("mechanism", INTEGERS, ids=repr)
def test_integer_laws_take_zero_freely_and_others_as_real_laws_do(mechanism: Any) -> None:
    """An absent count is a 0. Any other stand-in can be far from what one unit makes of it."""
    counts = np.arange(5)
    mechanism.release(counts, missing=0)
    mechanism.release(counts, missing=0, clamp=(0, 1000))
    mechanism.release(counts, missing=3, clamp=(0, 13))
    with pytest.raises(ParameterError, match="^missing must come with clamp"):
        mechanism.release(counts, missing=3)
    with pytest.raises(ParameterError, match="^missing=3 may be 11 away"):
        mechanism.release(counts, missing=3, clamp=(0, 14))


def test_every_small_clamp_keeps_the_change_of_a_cell() -> None:
    """All ends, stand-ins and sensitivities up to 5: what is taken is covered.

    What is refused with `missing` inside the clamp would change by more than the sensitivity.
    """
    cells = np.array([-3.0, -2, -1, 0, 1, 2, 3, math.nan, math.inf, -math.inf])
    taken = refused = 0
    for low, high, missing, most in itertools.product(range(-2, 3), range(-2, 3), range(-3, 4), range(1, 6)):
        if low > high:
            continue
        still = Laplace(2**40 * most, most, granularity=1)  # its noise is rounded away, but for e^(-2^39) of draws
        values, ends = cells[:7].clip(low, high), (low, high)
        distance = np.abs(values - min(max(missing, low), high)).max()
        try:
            stands = still.release(cells, clamp=ends, missing=missing)
        except ParameterError:
            refused += 1
            assert distance > most or not low <= missing <= high
            continue
        taken += 1
        assert np.array_equal(stands[:7], values)
        assert (np.abs(stands[7:, None] - stands[:7]) <= most).all()
        assert distance <= most
    assert taken > 100
    assert refused > 100


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("signed", [False, True])
def test_the_change_of_a_cell_is_that_of_neighbours(adjacency: str, signed: bool) -> None:
    """A substituted signed contribution changes a cell by 2 linf: covered, and no more."""
    change = Sensitivity(2, 1, adjacency=adjacency, signed=signed)
    assert change.linf is not None
    for mechanism in (Laplace(1, change), Gaussian(1, sensitivity=change)):
        mechanism.release(np.zeros(3), missing=0, clamp=(0, change.linf))
        with pytest.raises(ParameterError, match="away from a value"):
            mechanism.release(np.zeros(3), missing=0, clamp=(0, change.linf * 2))


@pytest.mark.parametrize("law", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_without_a_stated_sensitivity_nothing_stands_for_a_missing_cell(law: str) -> None:
    """Gaussians of sigma and noise_source state no cell's change; an absent count is a 0."""
    source: Any = dpfast.noise_source(law, 5)
    cells = np.zeros(3, np.int64) if "discrete" in law else np.zeros(3)
    with pytest.raises(ParameterError, match="^missing must go to a mechanism with a sensitivity"):
        source.release(cells, missing=1, clamp=(0, 1))
    if "discrete" in law:
        source.release(cells, missing=0)


WRONG = [
    ((5, 4), ParameterError, "clamp must be a pair"),
    ((0,), DTypeError, "clamp must be a pair"),
    (5, DTypeError, "clamp must be a pair"),
    ("05", DTypeError, "clamp must be a pair"),
    ((0, b"5"), DTypeError, "clamp\\[1\\] must be an int"),
    ((None, 5), DTypeError, "clamp\\[0\\] must be an int"),
    ((0, True), DTypeError, "clamp\\[1\\] must be an int"),
]


@pytest.mark.parametrize(("clamp", "error", "message"), WRONG, ids=repr)
@pytest.mark.parametrize("mechanism", [INTEGERS[0], REALS[0]], ids=repr)
def test_what_is_no_clamp_is_refused(mechanism: Any, clamp: Any, error: type[Exception], message: str) -> None:
    """Two public numbers, the lesser first; an error names the parameter and changes nothing."""
    cells = np.arange(5) if mechanism in INTEGERS else np.arange(5.0)
    kept = cells.copy()
    with pytest.raises(error, match=message):
        mechanism.release(cells, out=cells, clamp=clamp)
    assert np.array_equal(cells, kept)


def test_ends_that_the_cells_cannot_be_are_refused() -> None:
    """NaN, infinities, halves for counts, a number of no double, and one beyond the cells' type."""
    for bad in (math.nan, math.inf):
        with pytest.raises(ParameterError, match="clamp\\[1\\] must be finite"):
            REALS[0].release(np.zeros(1), clamp=(0, bad))
        with pytest.raises(DTypeError, match="clamp\\[1\\] must be an int"):
            INTEGERS[0].release(np.zeros(1, int), clamp=(0, bad))
    with pytest.raises(ParameterError, match="clamp\\[0\\] must be a float64 exactly, got 1/3"):
        REALS[0].release(np.zeros(1), clamp=(Fraction(1, 3), 1))
    with pytest.raises(ParameterError, match="clamp must lie within the type of values, float32"):
        REALS[0].release(np.zeros(1, np.float32), clamp=(0, 1e39))
    for dtype, clamp in [("u1", (-1, 5)), ("u1", (0, 256)), ("i8", (0, 2**63)), ("u8", (-1, 2)), ("u8", (0, 2**64))]:
        with pytest.raises(ParameterError, match=f"clamp must lie within the type of counts, {np.dtype(dtype)}"):
            INTEGERS[0].release(np.zeros(1, dtype), clamp=clamp)


# ------------------------------------------------------------------ what it does


@given(dtype=st.sampled_from(["i1", ">i2", "i4", "i8", "u1", "u4", "u8", ">u8"]), data=st.data(), strided=st.booleans())
def test_counts_are_clamped_exactly_before_the_noise(dtype: str, data: Any, strided: bool) -> None:
    """Every integer type, layout: a clamped release has the noise of cells clamped before."""
    ends = np.iinfo(dtype)
    cell = st.integers(ends.min, ends.max)
    cells = np.array(data.draw(st.lists(cell, max_size=20)), dtype)[:: -2 if strided else 1]
    low, high = sorted(data.draw(st.tuples(cell, cell)))
    kept, exact = cells.copy(), [min(max(int(x), low), high) for x in cells.tolist()]
    made = np.uint64 if ends.max > 2**63 else np.int64
    noisy = NARROW.release(cells, clamp=(low, high), dtype=made)
    assert noisy.tolist() == exact
    assert np.array_equal(cells, kept)  # nothing of the caller's is written to


@given(
    dtype=st.sampled_from(["f4", "f8", ">f8"]),
    cells=st.lists(st.floats(width=32), max_size=20),
    ends=st.tuples(st.floats(-(2.0**40), 2.0**40), st.floats(-(2.0**40), 2.0**40)),
    narrow=st.booleans(),
)
def test_values_are_clamped_exactly_before_the_noise(
    dtype: str, cells: list[float], ends: tuple[float, float], narrow: bool
) -> None:
    """As values clamped beforehand, bit for bit in one stream; `missing` if not finite."""
    low, high = sorted(ends)
    middle = (low + high) / 2
    mechanism = Laplace(1, high - low + 1, granularity=2.0**10 if narrow else 2.0**-18)
    given = np.array(cells, dtype)
    filled = np.clip(np.where(np.isfinite(given), given.astype("f8"), middle), low, high)
    one = fixed(mechanism, given, clamp=(low, high), missing=middle, dtype=np.float64)
    assert np.array_equal(one, fixed(mechanism, filled))


@pytest.mark.parametrize("mechanism", [INTEGERS[0], REALS[0], REALS[2], REALS[4]], ids=repr)
@pytest.mark.parametrize("size", [0, 5, 10_000])
def test_in_place_and_into_out(mechanism: Any, size: int) -> None:
    """A clamped release in place is the one into a new array; a refusal leaves the cells."""
    cells = np.arange(size) if mechanism in INTEGERS else np.arange(float(size))
    expected = fixed(mechanism, cells, clamp=(2, 9))
    place = cells.copy()
    assert fixed(mechanism, place, clamp=(2, 9), out=place) is place
    assert np.array_equal(place, expected)
    place = cells.copy()
    with pytest.raises(ParameterError):
        mechanism.release(place, clamp=(9, 2), out=place)
    assert np.array_equal(place, cells)


def test_a_failure_in_place_leaves_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the noise has begun, a failure wipes the given cells: none comes out half-noised."""
    for mechanism, cells in ((INTEGERS[0], np.arange(1, 9000)), (REALS[0], np.arange(1, 9000.0))):
        with monkeypatch.context() as patch:
            tiers.broken_engine(patch)
            with pytest.raises(ZeroDivisionError):
                mechanism.release(cells, clamp=(2, 9), out=cells)
        assert not cells.any()


@pytest.mark.parametrize("mechanism", [INTEGERS[0], REALS[0], REALS[2], REALS[4]], ids=repr)
def test_what_is_sealed_is_clamped(mechanism: Any) -> None:
    """Any other clamp is refused, whatever it changes: else it would say where no cell lies."""
    cells = np.arange(500) if mechanism in INTEGERS else np.arange(500.0)
    key = dpfast.Key.generate().derive("once")
    released = mechanism.release(cells, key=key, clamp=(0, 500))
    assert np.array_equal(mechanism.release(cells, key=key, clamp=[0, 500], resume=True), released)
    for clamp in ((0, 501), (0, 498), (1, 500), None):
        with pytest.raises(dpfast.errors.KeyReuseError, match="clamp") as met:
            mechanism.release(cells, key=key, clamp=clamp, resume=True)
        assert not isinstance(met.value, dpfast.errors.OtherInputError)


def test_infinities_are_missing_and_not_ends() -> None:
    """One unit may make a ratio infinite: infinities, as NaN, are refused without `missing`."""
    for value in (math.inf, -math.inf, math.nan):
        with pytest.raises(ParameterError, match="^values must be finite"):
            REALS[0].release(np.array([value]), clamp=(0, 5))
    mechanism = Laplace(2**20, 2, granularity=2.0**-10)  # a scale of 2^-19
    noisy = mechanism.release(np.array([math.inf, -math.inf, math.nan, 7.0]), clamp=(0, 2), missing=1)
    assert np.abs(noisy - [1, 1, 1, 2]).max() < 0.01


def test_a_ledger_pays_for_a_clamped_release(tmp_path: Any) -> None:
    """Through Ledger.release, too; and what the rule refuses costs nothing."""
    ledger = dpfast.Ledger(tmp_path / "b.db", epsilon=2, create=True)
    with pytest.raises(ParameterError, match="^missing must come with clamp"):
        ledger.release(Laplace(1, 10), np.zeros(3), missing=0)
    assert ledger.spent.epsilon == 0
    assert np.isfinite(ledger.release(Laplace(1, 10), np.full(3, math.nan), missing=0, clamp=(0, 10))).all()
    assert ledger.spent.epsilon == 1
