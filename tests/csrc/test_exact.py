# SPDX-License-Identifier: Apache-2.0
"""The exact tier in C, against the same laws by python-flint's balls: csrc/exact.md."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import tiers
from proofs import CSRC

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric
from dpfast.privacy.exact import Digits

SIGNED = 15, 31, 63, 79, 95, 127, 143, 159, 191, 655, 671, 703  # digits of U behind its sign
PAIRED = 32, 64, 96, 128, 160, 192, 672, 704
OFFSETS = 0.0, 0.5, -0.5, 2.0**-900, -(2.0**-60), 0.3, 0.5 - 2.0**-54


@pytest.mark.parametrize(
    ("name", "value"), [("log_two", lambda: mpmath.log(2)), ("quarter_turn", lambda: mpmath.pi / 4)]
)
def test_constants_are_right_to_the_last_digit(name: str, value: Callable[[], Any]) -> None:
    listed = re.search(rf"fixed {name} = {{{{([^}}]*)}}}}", (CSRC / "exact.h").read_text())
    assert listed
    limbs = [int(limb, 16) for limb in listed[1].split(",")]
    with mpmath.workprec(1000):
        assert sum(limb << 64 * i for i, limb in enumerate(limbs)) == int(mpmath.floor(mpmath.ldexp(value(), 832)))


def beside(rng: random.Random, u: Any, bits: int) -> Iterator[int]:
    """Cells of so many digits at a boundary of U, beside it, and anywhere."""
    cell = int(mpmath.floor(mpmath.ldexp(u, bits)))
    near = (cell, cell - 1, cell + 1, cell ^ rng.getrandbits(3), rng.getrandbits(bits) >> rng.randrange(bits))
    return (each for each in near if 0 <= each < 2**bits)


def agree(found: int | None, right: int | None, seen: list[int]) -> None:
    """What C decides is right, and it decides what balls of any precision decide."""
    assert found == right
    seen[right is None] += 1


SCALES = [Fraction(1), Fraction(10), Fraction(10**6) / 7, Fraction(2**59 + 1), Fraction(1, 1000), Fraction(1, 2**60)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("law", [DiscreteLaplace, OneSidedGeometric])
def test_discrete_laplace_beside_thresholds(law: Any, scale: Fraction) -> None:
    """T_k = w q^k, at every number of digits that a level has."""
    mech, rng, seen = law(1, scale), random.Random(str(scale)), [0, 0]
    plan, exact = tiers.constant_work_plan(mech), tiers.law(mech)
    with mpmath.workprec(900):
        t = mpmath.mpf(scale.numerator) / scale.denominator
        weight = 2 / (1 + mpmath.exp(-1 / t)) if law is DiscreteLaplace else mpmath.mpf(1)
        for bits in SIGNED:
            k = 1 + int(t * rng.random() * 8)
            for prefix in beside(rng, weight * mpmath.exp(-k / t), bits):
                negative, right = rng.getrandbits(1), exact.magnitude(prefix, bits)
                right = -right if negative and right else right
                agree(tiers.exactly(plan, [Digits(negative << bits | prefix, bits + 1)]), right, seen)
    assert min(seen) > (0 if scale >= 1 else -1)


@pytest.mark.parametrize(
    "ratio", [Fraction(1, 4), Fraction(5), Fraction(2**20 * 5, 4), Fraction(2**59), Fraction(1, 2**50)], ids=str
)
def test_laplace_beside_boundaries(ratio: Fraction) -> None:
    """f + 1/2 + S t E is an integer there; U's last cell, too, and all offsets."""
    mech, rng, seen = Laplace(1, ratio, granularity=1), random.Random(str(ratio)), [0, 0]
    plan, exact = tiers.constant_work_plan(mech), tiers.law(mech)
    with mpmath.workprec(900):
        t = mpmath.mpf(ratio.numerator) / ratio.denominator
        for bits in SIGNED:
            offset, negative = rng.choice(OFFSETS), bool(rng.getrandbits(1))
            k = int(t * rng.random() * 8)
            size = k + 0.5 + (offset if negative else -offset)
            for prefix in (*beside(rng, mpmath.exp(-size / t), bits), 2**bits - 1, 2**bits - 2, 0):
                right = exact.rounded(negative, prefix, bits, Fraction(offset))
                agree(tiers.exactly(plan, [Digits(negative << bits | prefix, bits + 1)], offset), right, seen)
    assert seen[0] > 5


def test_a_tiny_offset_is_counted() -> None:
    """At 1/2 less 2^-703 of noise an offset of 2^-701 is the half of a step that is missing."""
    mech = Laplace(1, 1, granularity=1)
    with mpmath.workprec(900):
        size = mpmath.mpf(1) / 2 - mpmath.ldexp(1, -703)
        prefix = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-size), 740)))
    found = tiers.exactly(tiers.constant_work_plan(mech), [Digits(prefix, 741)], 2.0**-701)
    assert found in (None, tiers.law(mech).rounded(False, prefix, 740, Fraction(2) ** -701))


def test_acceptance_just_beyond_inversion() -> None:
    """sigma^2 next to 2^14 has the widest proposals for their steps: its acceptance is decided, too."""
    mech = DiscreteGaussian(sigma_squared=2**14 + Fraction(1, 10**300))
    plan, digits = tiers.constant_work_plan(mech), Digits(2**80 - 2**50, 80)
    assert [tiers.exactly_accepts(plan, k, digits) for k in (1, 100, 1000)] == [
        tiers.law(mech).accepts(k, digits.prefix, 80) for k in (1, 100, 1000)
    ]


@pytest.mark.parametrize("sigma", [Fraction(1, 4), Fraction(5), Fraction(2**20), Fraction(2**58)], ids=str)
def test_gaussian_beside_boundaries(sigma: Fraction) -> None:
    """At corners of cells: both signs, the swap, v = 0 and all ones, U beside 1."""
    mech, rng, seen = Gaussian(sigma, granularity=1), random.Random(str(sigma)), [0, 0]
    plan, exact = tiers.constant_work_plan(mech), tiers.law(mech)
    with mpmath.workprec(900):
        for bits in PAIRED:
            offset, sine, flags = rng.choice(OFFSETS), bool(rng.getrandbits(1)), rng.getrandbits(3)
            v = rng.choice([0, 2 ** (bits - 3) - 1, rng.getrandbits(bits - 3)])
            angle = Digits(flags << (bits - 3) | v, bits)
            turn = mpmath.pi / 4 * mpmath.ldexp(v, 3 - bits)
            side = mpmath.cos(turn) if sine == bool(flags & 1) else mpmath.sin(turn)
            k = rng.randrange(3 * max(1, int(sigma)))
            size = (
                (k + 0.5 - offset) / (side + mpmath.ldexp(1, -40)) / (mpmath.mpf(sigma.numerator) / sigma.denominator)
            )
            for prefix in (*beside(rng, mpmath.exp(-size * size / 2), bits), 2**bits - 1, 0):
                right = exact.rounded(Digits(prefix, bits), angle, sine, Fraction(offset))
                agree(tiers.exactly(plan, [Digits(prefix, bits), angle], offset, sine=sine), right, seen)
    assert min(seen) > 0


@pytest.mark.parametrize("sigma", [Fraction(1, 1000), Fraction(1, 3), Fraction(10), Fraction(128)], ids=str)
def test_discrete_gaussian_beside_thresholds(sigma: Fraction) -> None:
    mech, rng, seen = DiscreteGaussian(sigma), random.Random(str(sigma)), [0, 0]
    plan, exact = tiers.bulk_plan(mech), tiers.law(mech)
    thresholds = [*exact.thresholds(), 2**40]
    for bits in (15, 79, 143, 655):
        near = mpmath.mpf(thresholds[rng.randrange(len(thresholds))]) / 2**64
        for prefix in beside(rng, near, bits):
            right = exact.magnitude(prefix, bits)
            agree(tiers.exactly(plan, [Digits(prefix, bits + 1)]), right, seen)
    assert seen[0] > 3


@pytest.mark.parametrize("sigma", [129, 1000, 10**6, 10**9])
def test_acceptance_beside_its_bound(sigma: int) -> None:
    """V < A(0)/A(k), some digits around it, up to the largest proposals that there are."""
    mech, seen = DiscreteGaussian(sigma), [0, 0]
    plan, exact = tiers.constant_work_plan(mech), tiers.law(mech)
    for bits in (16, 80, 144, 656):
        for k in (0, 1, -sigma, 3 * sigma, -9 * sigma, 31 * sigma):
            rejected = mpmath.mpf(k) ** 2 / (24 * mpmath.mpf(sigma) ** 4)
            for prefix in (2**bits - 1 - int(mpmath.ldexp(rejected * f, bits)) for f in (0.9, 1 - 1e-6, 1.0, 1.1)):
                found, right = tiers.exactly_accepts(plan, k, Digits(prefix, bits)), exact.accepts(k, prefix, bits)
                agree(found, right, seen)
    assert min(seen) > 0 or sigma > 1000


@pytest.mark.parametrize("planted", [2**200, -(2**200)])
def test_a_scale_that_is_a_little_off_is_caught(planted: int) -> None:
    """By 2^-632 of itself: then some cells beside thresholds are decided wrongly."""
    exact, scale, rng, wrong = tiers.law(DiscreteLaplace(1, 10)), (10 << 832) + planted, random.Random(1), 0
    plan = tiers.Plan("discrete_laplace", **tiers.constants(DiscreteLaplace(1, 10)) | {"scale": scale})
    with mpmath.workprec(900):
        for k in range(1, 9):
            u = 2 / (1 + mpmath.exp(mpmath.mpf(-1) / 10)) * mpmath.exp(mpmath.mpf(-k) / 10)
            for prefix in beside(rng, u, 703):
                wrong += tiers.exactly(plan, [Digits(prefix, 704)]) != exact.magnitude(prefix, 703)
    assert wrong > 0


def test_draws_that_level_3_leaves_undecided_are_rare() -> None:
    """Section 6's shares, for the largest scale of each width of words: below 2^-200 together."""

    def share(boundaries: Fraction, digits: int) -> Fraction:
        return (2 * boundaries + 1) / 2**digits

    cells = [(489 * Fraction(t) + 2, digits) for t, digits in ((2**60, 703), (2**21, 671), (2**7, 655))]
    assert max(itertools.starmap(share, cells)) < Fraction(1, 2**630)
    pair = max(Fraction(2**60 + 1) * 2**363 / 2**704, Fraction(2**21 + 1) * 2**363 / 2**672) + Fraction(1, 2**239)
    assert 64 * (pair + share(Fraction(1), 656)) < Fraction(1, 2**200)
    assert Fraction(1, 24 * 2**14) ** 64 < Fraction(1, 2**1000)  # 64 rejections
