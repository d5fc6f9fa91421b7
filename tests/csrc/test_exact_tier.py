# SPDX-License-Identifier: Apache-2.0
"""The last tier in C (csrc/exact.md): its sums, and cells beside boundaries, against flint."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import pytest
import tiers
from exact_cells import (
    LENGTHS,
    OFFSETS,
    PRECISION,
    RATIOS,
    REJECTING,
    TINY,
    Found,
    acceptance_cells,
    acceptances,
    acceptances_alone,
    boxes,
    exact_tier,
    gaussian_of,
    integer_cells,
    integers,
    inversion_cells,
    laplace_cells,
    laplace_of,
    moved,
    normals,
    plan_of,
    real,
    rounded,
)
from mpmath import mpf
from proofs import CSRC

from dpfast import DiscreteGaussian, DiscreteLaplace
from dpfast.noise.mechanisms.one_sided_geometric import OneSidedGeometric
from dpfast.noise.release.digits import ACCEPT, NOISE
from dpfast.privacy.exact import Digits

POINT = 832  # digits behind the point in C
TEXT, CODE = (CSRC / "exact.h").read_text(), (CSRC / "exact.c").read_text()


def constant(name: str, text: str = TEXT) -> int:
    return int(re.search(rf"\b{name} = (\d+)", text)[1])  # type: ignore[index]


def limbs(name: str) -> int:
    """A number in the text of exact.h."""
    text = re.search(rf"{name}\[DPF_EXACT_LIMBS\] = {{([^}}]*)}}", TEXT)[1]  # type: ignore[index]
    return sum(int(limb, 16) << 64 * i for i, limb in enumerate(text.split(",")))


def agree(found: Found, least: int = 2, spare: int = 0) -> None:
    """C decides what the reference decides, but for few that it leaves undecided; not all alike."""
    alone = sum(ours is None and right is not None for ours, right in found)
    assert alone <= spare
    assert all(ours == right for ours, right in found if ours is not None)
    assert len({right for _, right in found}) >= least


# ------------------------------------------------------------------ constants and series


def test_constants_are_rounded_down() -> None:
    """ln 2 and pi/4 in units of 2^-832, and 1/ln 2 in e^-x."""
    with mpmath.workprec(2000):
        assert limbs("log_two") == int(mpmath.floor(mpmath.ln(2) * 2**POINT))
        assert limbs("quarter_turn") == int(mpmath.floor(mpmath.pi / 4 * 2**POINT))
        factor = int(re.search(r"cut\.limb\[0\] \* (\d+) >> 62", TEXT)[1])  # type: ignore[index]
        assert factor == int(mpmath.floor(2**30 / mpmath.ln(2)))
        # what is left of x below 600, where x is cut to 2^-32 and the product to an integer
        rest = mpmath.ln(2) * (600 * (1 / mpmath.ln(2) - mpf(factor) / 2**30) + 1) + mpf(2) ** -32
        assert 0.6931 < rest < 0.6932
        assert constant("most = integer", TEXT.replace("integer(", "integer = ")) == 600
        assert mpmath.exp(-600) < mpf(2) ** -865


def test_what_follows_each_series_is_below_a_unit() -> None:
    """atanh, Taylor's series and that of A(k): the terms that are left out, in one unit."""
    unit = mpf(2) ** -POINT
    assert "ODD_TERMS = 64 * POINT * 79 / 250," in TEXT
    assert "TAYLOR_TERMS = 9 * POINT + 43 " in TEXT
    odd, taylor = POINT * 79 // 250, 9 * (POINT // 64) + 43
    side, width = constant("SIDE_TERMS", CODE), constant("WIDTH_TERMS", CODE)
    assert (odd, taylor, side, width) == (262, 160, 52, 42)
    with mpmath.workprec(2000):
        z = mpf(1) / 3 + unit
        assert z ** (2 * odd + 1) / (2 * odd + 1) / (1 - z**2) < unit / 400
        assert mpf("1.4") ** taylor / mpmath.factorial(taylor) < unit / 2**30
        h, narrow = mpf(1) / 8, mpf(2) ** -16
        left = h ** (2 * side) / mpmath.factorial(2 * side) * mpmath.exp(narrow) / (1 - h)
        left += mpmath.cosh(h) * narrow**width / mpmath.factorial(width) / (1 - narrow)
        assert left < unit / 2**9
        # the 6 limbs of plans
        plan_unit, odd, taylor = mpf(2) ** -256, 256 * 79 // 250, 9 * 4 + 43
        assert (odd, taylor) == (80, 79)
        assert z ** (2 * odd + 1) / (2 * odd + 1) / (1 - z**2) < plan_unit / 2**6
        assert mpf("1.4") ** taylor / mpmath.factorial(taylor) < plan_unit / 2**90
        # h of any proposal: R <= sqrt(2 * 704 ln 2)
        most = mpmath.sqrt(2 * 704 * mpmath.ln(2))
        assert most < 31.25
        assert (most * 128 + 0.5) / (2 * 128**2) < 0.1221


def power(x: mpf) -> int:
    """The least e with x <= 2^e."""
    return int(mpmath.ceil(mpmath.log(x, 2)))


def normal_open(t: mpf, n: int, least: int = 252) -> mpf:
    """Section 6's bound for a normal draw with n digits, without U's ends beyond 2^-least."""
    unit, radius = mpf(2) ** -POINT, mpmath.sqrt(2 * n * mpmath.ln(2))
    of_log = mpf(2) ** (least - n) + 2**12 * unit
    of_radius = of_log * mpmath.sqrt(mpf(2) ** (least + 1)) + 2 * unit
    of_side = mpf(2) ** (3 - n) + 2**11 * unit
    whole = t * (of_radius + radius * of_side + 2 * unit) + 36 * unit
    return (2 * radius * t + 3) * 2 * whole / (t * mpmath.sqrt(2 * mpmath.pi))


def test_the_sums_of_section_6() -> None:
    """What level 3 leaves undecided of each law: at most what exact.md says, and 2^-200."""
    with mpmath.workprec(PRECISION):
        ln2, unit, two = mpmath.ln(2), mpf(2) ** -POINT, mpf(2)
        # widths are small beside a cell
        for t, n in ((two**-60, 655), (two**7, 655), (two**20, 671), (two**60, 703)):
            assert (t * 2**21 + 2**10) * unit < two**-100 * t * two**-n
        for t, n in ((two**-60, 671), (two**21, 671), (two**60, 703)):
            assert (t * 2**12 + 2**10) * unit < two**-90 * t * two**-n
        laplace = [
            power((3 * t * (n + 1) * ln2 + 1) / two**n) for t, n in ((two**60, 703), (two**7, 655), (two**20, 671))
        ]
        assert laplace == [-632, -637, -640]
        assert [power((3 * (t * n * ln2 + 2) + 1) / two**n) for t, n in ((two**60, 703), (two**21, 671))] == [
            -632,
            -639,
        ]
        many = 128 * mpmath.sqrt(2 * 656 * ln2)
        assert many < 3861
        assert power((3 * many + 1) / two**655) == -641
        # the sum of terms, in units: what section 3 adds up
        for sigma, q in ((mpf(128), 11), (mpf(1), 21)):
            terms = int(sigma * mpmath.sqrt(2 * POINT * ln2)) + 2
            f = [two**q + k**2 * two ** (q + 1) + k * two ** (q + 2) for k in range(1, terms + 1)]
            assert power(2 * (sum(f) + 2**40)) <= 50
        normal = {(t, n): normal_open(two**t, n) for t, n in ((60, 704), (21, 672), (-60, 672), (40, 704))}
        assert [power(normal[60, 704]), power(normal[21, 672])] == [-259, -266]
        draw = max(normal.values()) + 2 * two**-252
        assert draw < two ** mpf("-250.9")
        rejected = (1 + two**-8) ** 2 / (24 * 2**14)
        assert power(rejected**64) == -1188
        assert power((draw + 3 * two**-656) / (1 - rejected) + rejected**64) == -250
        assert mpmath.exp(-256) < two**-369


# ------------------------------------------------------------------ discrete Laplace, both ways


@pytest.mark.parametrize("made", [DiscreteLaplace, OneSidedGeometric], ids=["two-sided", "one-sided"])
@pytest.mark.parametrize("scale", LENGTHS, ids=str)
def test_beside_thresholds(made: Callable[..., Any], scale: Fraction) -> None:
    """C decides each cell of U that holds no threshold, and as the law has it."""
    mechanism, rng = made(1, scale), random.Random(str(scale))
    for bits in LENGTHS[scale]:
        agree(list(integers(mechanism, plan_of(mechanism), bits, sorted(integer_cells(mechanism, bits, rng)))))


# ------------------------------------------------------------------ Laplace


@pytest.mark.parametrize("ratio", LENGTHS, ids=str)
def test_laplace_beside_boundaries(ratio: Fraction) -> None:
    """Each offset, +-1/2 too, each sign, the last cells of U, and those beside a boundary."""
    mechanism, rng, found = laplace_of(ratio), random.Random(str(ratio)), []
    with mpmath.workprec(PRECISION):
        for offset in OFFSETS:
            bits = rng.choice(LENGTHS[ratio])
            cells = {0, 2**bits - 1, rng.getrandbits(bits) >> rng.randrange(bits)}
            cells |= laplace_cells(real(ratio), bits, offset, rng, 1)
            found += rounded(mechanism, plan_of(mechanism), bits, sorted(cells), offset)
    agree(found, 3, spare=12)  # cells so narrow that |f| < 2^-700 matters


@pytest.mark.parametrize("offset", TINY, ids=float.hex)
def test_offsets_below_2_to_the_minus_700(offset: float) -> None:
    """No cell is decided wrongly, and those 64 cells away from a boundary are decided."""
    rng = random.Random(offset)
    with mpmath.workprec(PRECISION):
        for ratio in (Fraction(1, 2**60), Fraction(1), Fraction(10**6, 9973)):
            mechanism = laplace_of(ratio)
            plan, near = plan_of(mechanism), laplace_cells(real(ratio), 703, offset, rng, 1)
            for ours, right in rounded(mechanism, plan, 703, sorted(near), offset):
                assert ours in (None, right)
            far = {cell + d for cell in near for d in (-64, 64) if 0 < cell + d < 2**703} | {1, 2**703 - 1}
            agree(list(rounded(mechanism, plan, 703, sorted(far), offset)), 1)


def test_ends_of_u_at_a_tie() -> None:
    """U < 1: at f = 1/2 a negative draw of any small size falls below 1, and at -1/2 below 0."""
    for ratio, bits in product((Fraction(1, 2**60), Fraction(1), Fraction(1000)), (15, 655, 703)):
        mechanism = laplace_of(ratio)
        for offset, negative, right in ((0.5, 0, 1), (0.5, 1, 0), (-0.5, 0, 0), (-0.5, 1, -1)):
            word = Digits(negative << bits | 2**bits - 1, bits + 1)
            found = exact_tier(plan_of(mechanism), [word], offset=offset)
            assert found == (right if ratio < 2**bits else None)
            assert exact_tier(plan_of(mechanism), [Digits(negative << bits, bits + 1)], offset=offset) is None
            mechanism_too, angle = gaussian_of(ratio), Digits(negative << bits + 2, bits + 3)  # v = 0
            pair = [Digits(2**bits - 1, bits), angle]
            assert exact_tier(plan_of(mechanism_too), pair, offset=offset) == (right if ratio**2 < 2**bits else None)


# ------------------------------------------------------------------ Gaussian


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_gaussian_beside_boundaries(ratio: Fraction) -> None:
    """Both draws of a pair, flags, v = 0 and all ones, U's ends, all offsets: as flint has it."""
    mechanism, rng, found = gaussian_of(ratio), random.Random(str(ratio)), []
    with mpmath.workprec(PRECISION):
        t = mpmath.sqrt(real(tiers.law(mechanism).ratio_squared))
        for offset in (*OFFSETS, *TINY):
            bits = rng.choice(RATIOS[ratio])
            found += normals(mechanism, plan_of(mechanism), offset, boxes(t, bits, offset, rng))
    agree(found, 3, spare=12)  # cells so narrow that |f| < 2^-700 matters


def test_flags_of_a_pair() -> None:
    """Each image of the octant: signs by draw, the swap, and both ends of v."""
    mechanism, bits = gaussian_of(Fraction(5)), 96
    v_bits = bits - 3
    found = []
    for flags, v, sine in product(range(8), (0, 2**v_bits - 1, 2**v_bits // 3), (False, True)):
        box = Digits(2**bits // 7, bits), Digits(flags << v_bits | v, bits), sine
        found += normals(mechanism, plan_of(mechanism), 0.25, [box])
    agree(found, 7)


# ------------------------------------------------------------------ discrete Gaussian


@pytest.mark.parametrize("sigma", [Fraction(s) for s in ("1/1000", "1/36", "1/10", "1", "10", "128")], ids=str)
def test_inversion_beside_thresholds(sigma: Fraction) -> None:
    """Thresholds summed by mpmath; the first, the last, and some between."""
    mechanism, rng, found = DiscreteGaussian(sigma), random.Random(str(sigma)), []
    for bits in (15, 143, 655) if sigma < 128 else (79, 143):
        cells = inversion_cells(sigma, bits, rng, 3 if sigma < 128 else 1)
        found += integers(mechanism, plan_of(mechanism), bits, sorted(cells))
    agree(found)


@pytest.mark.parametrize("squared", REJECTING, ids=str)
def test_acceptance_beside_its_bound(squared: Fraction) -> None:
    """Proposals of all sizes: the cell that holds A(0)/A(k), those beside it, and V's ends."""
    mechanism, found, rng = DiscreteGaussian(sigma_squared=squared), [], random.Random(str(squared))
    sigma = float(squared) ** 0.5
    for k, bits in product((1, int(sigma), int(31.24 * sigma)), (16, 80, 656)):
        cells = acceptance_cells(squared, k, bits) | {0, 2**bits - 1, rng.getrandbits(bits)}
        found += acceptances(mechanism, plan_of(mechanism), k, bits, sorted(cells))
    agree(found, 3)
    assert exact_tier(plan_of(mechanism), [Digits(2**16 - 1, 16)], proposal=0) is True


def test_acceptance_of_what_is_not_proposed() -> None:
    """Beyond h = 1/8, where the series has not been bounded, nothing is decided."""
    plan = plan_of(DiscreteGaussian(200))
    assert exact_tier(plan, [Digits(1, 656)], proposal=9999) is True
    assert exact_tier(plan, [Digits(1, 656)], proposal=10001) is None


@pytest.mark.parametrize("beyond", [-900, -830, -810, -600, -60])
def test_acceptance_just_beyond_inversion(beyond: int) -> None:
    """The least sigma^2 that is drawn by rejection: what its scale is cut to may be 128."""
    mechanism = DiscreteGaussian(sigma_squared=2**14 + Fraction(2) ** beyond)
    assert not tiers.law(mechanism).inversion
    cells = acceptance_cells(Fraction(2**14), 300, 80)
    agree(list(acceptances(mechanism, plan_of(mechanism), 300, 80, sorted(cells))), 3)


# ------------------------------------------------------------------ what must be seen


def found_by(name: str, plan_for: Callable[[Any], tiers.Plan]) -> Found:
    """Cells of all digits beside boundaries, by a plan of ours."""
    rng = random.Random(name)
    with mpmath.workprec(PRECISION):
        if name in ("two-sided", "one-sided"):
            mechanism = (DiscreteLaplace if name == "two-sided" else OneSidedGeometric)(1, Fraction(37, 10))
            return list(integers(mechanism, plan_for(mechanism), 703, sorted(integer_cells(mechanism, 703, rng))))
        if name == "Laplace":
            ratio = Fraction(10**6, 9973)
            mechanism = laplace_of(ratio)
            cells = laplace_cells(real(ratio), 703, 0.3, rng, 4)
            return list(rounded(mechanism, plan_for(mechanism), 703, sorted(cells), 0.3))
        if name == "Gaussian":
            mechanism = gaussian_of(Fraction(1000))
            t = mpmath.sqrt(real(tiers.law(mechanism).ratio_squared))
            planted = [box for _ in range(6) for box in boxes(t, 704, 0.3, rng)]
            return list(normals(mechanism, plan_for(mechanism), 0.3, planted))
        if name == "inversion":
            mechanism = DiscreteGaussian(10)
            cells = inversion_cells(Fraction(10), 655, rng, 6)
            return list(integers(mechanism, plan_for(mechanism), 655, sorted(cells)))
        mechanism = DiscreteGaussian(129)
        cells = acceptance_cells(Fraction(129) ** 2, 200, 656)
        return list(acceptances_alone(mechanism, plan_for(mechanism), 200, 656, sorted(cells)))


@pytest.mark.parametrize("name", ["two-sided", "one-sided", "Laplace", "Gaussian", "inversion", "acceptance"])
def test_a_scale_off_by_2_to_the_minus_600_is_seen(name: str) -> None:
    """Planted in the plan it decides cells wrongly, and C's own scale none."""
    agree(found_by(name, plan_of))
    for by in (-600, -620):
        wrong = [
            (ours, right)
            for ours, right in found_by(name, lambda mechanism, by=by: moved(mechanism, by))
            if ours != right
        ]
        assert any(None not in pair for pair in wrong) or (name == "acceptance" and wrong)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_digits_lie_where_the_stream_says(width: int) -> None:
    """At each level, of noise and of acceptance, of any candidate and draw."""
    key, rng = tiers.StreamKey(bytes(range(32))), random.Random(width)
    read = tiers.reader_of(key, width)
    for draw in (0, 1, 63, 64, 511, 8192, 2**40 + 7, 2**62, 2**63 - 1, rng.getrandbits(60)):
        for level, candidate in product(range(4), (0, 1, 63)):
            assert tiers.exact_digits(key, width, draw, level, NOISE, candidate) == read(draw, level, NOISE, candidate)
            assert tiers.exact_digits(key, 16, draw, level, ACCEPT, candidate) == read(draw, level, ACCEPT, candidate)
