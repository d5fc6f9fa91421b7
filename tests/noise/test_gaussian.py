# SPDX-License-Identifier: Apache-2.0
"""The rounded real Gaussian: tiers in any rounding mode, planted defects, pairs, guarantees."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import gof
import numpy as np
import plans
import pytest
import reference
import tiers
from laws import BY_NAME, HALF, judged, noise, numbers, reference_of
from plans import SHORT_LOG_ERROR
from proofs import MODES, PROOFS, entered
from scipy import stats

from dpfast import DiscreteGaussian, Gaussian, Sensitivity
from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy.exact import Digits
from dpfast.privacy.gaussian import mu_squared_of

GAPPA, SHORT_GAPPA = ((PROOFS / f"{name}.gappa").read_text() for name in ("gaussian", "gaussian_short"))
EXTENDED_GAPPA = (PROOFS / "extended_normal.gappa").read_text()
LAW = BY_NAME["gaussian"]
RATIOS, mechanism = LAW.scales, LAW.make
N = 2**20
TIERS = {"double": tiers.DOUBLE, "extended": tiers.EXTENDED, "double-double": tiers.DOUBLE_DOUBLE}
MOST = {"double": 2**40, "extended": 2**22, "double-double": 2**60}  # the ratio up to which a tier's bound holds


# ------------------------------------------------------------------ tiers on planted digits


class Point:
    """Digits of both words, the sine or the cosine draw, and where the noise begins."""

    def __init__(self, u: int, flags: int, v: int, sine: bool, offset: float) -> None:
        self.u, self.flags, self.v, self.sine, self.offset = u, flags, v, sine, offset  # 128 and 125 digits

    def words(self, short: bool) -> tuple[int, int]:
        """Words of 32 and 64 bits concatenated in 128, or the 128 as they are."""
        whole = self.u, self.flags << 125 | self.v
        return tuple((x >> 96) << 64 | (x >> 32) % 2**64 for x in whole) if short else whole

    def read(self, name: str, short: bool) -> tuple[int, int, int, int]:
        """The cells that a tier knows: of U, its digits, of v, its digits."""
        u, v = (
            (128, 125) if name == "double-double" and not short else (96, 93) if name == "double-double" else (64, 64)
        )
        return self.u >> (128 - u), u, self.v >> (125 - v), v

    def truth(self, law: Any, name: str, short: bool) -> int | None:
        """By the exact tier."""
        u, u_bits, v, v_bits = self.read(name, short)
        radius, angle = Digits(u, u_bits), Digits(self.flags << v_bits | v, v_bits + 3)
        return law.rounded(radius, angle, self.sine, Fraction(self.offset)) if u else None

    def reference(self, law: reference.Gaussian, name: str, short: bool) -> int | None:
        u, u_bits, v, v_bits = self.read(name, short)
        return law.rounded(u, u_bits, self.flags, v, v_bits, self.sine, Fraction(self.offset))


EDGES_OF_U = [
    1, 2**64, 3 << 64 | 1, 2**96 - 1, 2**96, 2**96 + 5, 2**127, 2**128 - 1, 2**128 - 2**64, 0xB504F333F9DE6484 << 64,
]  # fmt: skip


def any_angle(rng: random.Random) -> int:
    """v: anywhere, at both ends, at edges of the tables' cells."""
    return rng.choice([
        rng.getrandbits(125), rng.getrandbits(125), rng.getrandbits(125) >> rng.randrange(60), 0, 2**125 - 1, 2**61,
        2**125 - 1 - rng.getrandbits(60), (rng.randrange(128) << 118) + rng.choice((0, -1, 1 << 61)) & 2**125 - 1,
    ])  # fmt: skip


def beside_boundaries(
    rng: random.Random, law: reference.Gaussian, name: str, sine: bool, offset: float
) -> Iterator[Point]:
    """Values of U at a draw's boundary, or off it by 1/8 to 8 times the tier's error."""
    t = float(law.ratio())
    for _ in range(9):
        flags, v = rng.getrandbits(3), any_angle(rng)
        cosine, negative = sine == bool(flags & 1), bool(flags >> (1 if sine else 2) & 1)
        side = float(law.side(2 * v + 1, 126, cosine))
        far = (rng.random() * 4, rng.uniform(4, 6.5), 2 ** rng.uniform(-18, 0))
        m = rng.choice([0, 1, 2, *(int(t * side * x) for x in far)])
        height = abs(m + HALF - Fraction(offset) * (-1 if negative else 1))
        at = law.cell(height, 128, v, 125, cosine) if height else 2**128 - 1
        if at < 4:
            continue
        radius = math.sqrt(max(-2 * math.log(at / 2**128), 2.0**-120))
        error = 2.0**-52 * (2 * float(height) + 1)
        if name == "extended":
            error = t * 2.0**-54 * radius + 2.0**-50
        if name == "double-double":
            error = t * 2.0**-76 * rng.choice((1.0, 1 / min(radius, 1.0))) + 2.0**-40
        off = Fraction(2 ** rng.uniform(-3, 3)) * rng.choice((-1, 1))
        moved = Fraction(radius) * Fraction(error / (t * side)) * off
        for u in (at, at + int(at * moved), at + rng.randrange(-2, 3), rng.getrandbits(128)):
            yield Point(u, flags, v, sine, offset)


def beside_one(rng: random.Random, law: reference.Gaussian) -> Iterator[Point]:
    """Next to U = 1, where the root magnifies half a cell: offsets with the boundary inside."""
    for digits, j in itertools.product((32, 64, 96, 128), (1, 2, 3, 4)):
        for end, sine in itertools.product((0, 2 ** (128 - digits) - 1), (False, True)):
            flags = rng.getrandbits(2) << 1 | sine  # both have the cosine of v
            v = rng.getrandbits(125) >> rng.randrange(40)
            side = float(law.side(2 * v + 1, 126, cosine=True))
            reach = float(law.ratio()) * math.sqrt(2 * j - 1) * 2.0 ** (-digits / 2) * side
            if reach > 0.9:
                continue
            sign = -1 if flags >> (1 if sine else 2) & 1 else 1
            for _ in range(2):
                yield Point(2**128 - (j << (128 - digits)) + end, flags, v, sine, (0.5 - rng.random() * reach) * sign)


def planted(ratio: Fraction, name: str) -> list[Point]:
    """Points that a wrong bound decides wrongly: beside boundaries, next to U = 1, at edges."""
    rng, law, points = random.Random(f"{ratio} {name}"), reference.Gaussian(ratio**2), []
    for offset in (0.0, 0.5, -0.5, rng.random() - 0.5, 2.0**-1074, -(2.0**-40), math.nextafter(0.5, 0), 0.375):
        for sine in (False, True):
            points += beside_boundaries(rng, law, name, sine, offset)
            points += [Point(u, rng.getrandbits(3), any_angle(rng), sine, offset) for u in EDGES_OF_U]
    points += beside_one(rng, law)
    return [point for point in points if 0 <= point.u < 2**128 and abs(point.offset) <= 0.5]


@cache
def inputs(ratio: Fraction, name: str, short: bool) -> list[tuple[Point, int | None]]:
    law = tiers.law(mechanism(ratio))
    return [(point, point.truth(law, name, short)) for point in planted(ratio, name)]


@cache
def cells(ratio: Fraction, name: str, short: bool) -> tiers.Cells:
    """The same as a tier takes them."""
    points, truths = zip(*inputs(ratio, name, short), strict=True)
    prefixes, angles = zip(*(point.words(short) for point in points), strict=True)
    offset, sine = [point.offset for point in points], [point.sine for point in points]
    return tiers.Cells(128, prefixes, truths, angles, offset=offset, sine=sine)


def wrong(plan: tiers.Plan, ratio: Fraction, name: str, short: bool, isa: int) -> tuple[int, int]:
    """How many points are decided, and how many of these not as the law has it."""
    return cells(ratio, name, short).tried(plan, TIERS[name], isa)


def made(ratio: Fraction, short: bool, **changed: float) -> tiers.Plan:
    return tiers.Plan("gaussian", **plans.normal(ratio**2, short=short) | changed)


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_what_is_decided_is_right(ratio: Fraction, name: str, host: ctypes.CDLL) -> None:
    """Random and planted digits, any rounding mode or flush, every instruction set."""
    if ratio > MOST[name]:
        return
    for short in (False, True):
        if short and ratio > 2**21:
            continue
        plan = made(ratio, short)
        for isa in tiers.ISAS:
            for mode in MODES:
                for flush in (False, True):
                    with entered(host, mode, flush):
                        decided, errors = wrong(plan, ratio, name, short, isa)
                    assert errors == 0, f"{mode} {flush=} {short=} {isa=}"
                    assert decided > (10 if ratio < Fraction(1, 2**40) else len(inputs(ratio, name, short)) / 14)


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_reference_agrees_with_the_exact_tier(ratio: Fraction) -> None:
    """Two enclosures written apart give the same outcome on planted cells of every kind."""
    law = reference.Gaussian(ratio**2)
    for at, (name, short) in enumerate(itertools.product(TIERS, (False, True))):
        if ratio <= (2**21 if short else MOST[name]):
            for point, truth in inputs(ratio, name, short)[at::6]:
                assert point.reference(law, name, short) == truth


T = float(10**17 / 7)
DEFECTS: list[tuple[str, str, Fraction, bool, dict[str, float]]] = [
    ("no error of y", "double", Fraction(1000), False, {"margin": 0.5, "relative_error": 0.0}),
    ("a fifteenth of it", "double", Fraction(2**40), False, {"relative_error": 1.3 * 2.0**-52}),
    ("no width of the cell", "double", Fraction(37, 10), False, {"half_cell": 0.0}),
    ("the derivative alone at U = 1", "double", Fraction(2**20), False, {"half_cell": 2.0**39 * (1 + 2.0**-4)}),
    ("no error of the extended tier", "extended", Fraction(2**22), False, {"extended_margin": 0.5, "extended_error": 0.0}),
    ("a twentieth of what grows with the radius", "extended", Fraction(2**22), False, {"extended_error": 2.0**-53 / 20}),
    ("no width of the cell there", "extended", Fraction(37, 10), False, {"half_cell": 0.0}),
    ("no error of the double-double tier", "double-double", Fraction(2**60), False,
     {"double_double_margin": 0.5 - 2.0**-38, "double_double_cell": 0.0}),
    ("t 2^-78 for it", "double-double", Fraction(10**17, 7), False,
     {"double_double_margin": 0.5 - T * 2.0**-78, "double_double_cell": T * 2.0**-78}),
    ("no cell of 128 digits", "double-double", Fraction(2**60), False, {"double_double_cell": 0.0}),
    ("no cell of 96 digits", "double-double", Fraction(2**21), True, {"double_double_cell": 0.0}),
    ("2^-40 beside it, too little upwards", "double-double", Fraction(1), False, {"double_double_margin": 0.5 - 2.0**-41}),
]  # fmt: skip


@pytest.mark.parametrize(("defect", "name", "ratio", "short", "change"), DEFECTS, ids=[d[0] for d in DEFECTS])
def test_a_planted_defect_is_caught(
    defect: str, name: str, ratio: Fraction, short: bool, change: dict[str, float], host: ctypes.CDLL
) -> None:
    """A plan that allows for less error decides some of the same points wrongly."""
    plan, errors = made(ratio, short, **change), 0
    for mode in MODES:
        with entered(host, mode, flush=False):
            errors += wrong(plan, ratio, name, short, tiers.ISAS[-1])[1]
    assert errors > 0


@pytest.mark.parametrize("isa", tiers.ISAS)
@pytest.mark.parametrize("granularity", [2.0**-20, 2.0**-30])
def test_a_tier_takes_words_as_a_draw_reads_them(granularity: float, isa: int, secret: Callable[[str], bytes]) -> None:
    """By words of 32 and 64 bits: dpf_tier, fed as dpf_abi.h says, decides a constant-work draw."""
    mechanism = Gaussian(sigma=1, granularity=granularity)
    plan, stream, n = tiers.constant_work_plan(mechanism), tiers.StreamKey(secret(f"words {granularity}")), 256
    assert plan.width == (32 if granularity == 2.0**-20 else 64)
    read, planted = tiers.reader(mechanism, stream), np.zeros(n, tiers.PLANTED)
    for i in range(n):
        words = [read(at, 1).prefix for at in (i & ~64, i | 64)]
        planted[i] = ([part for word in words for part in (word >> 64, word % 2**64)], 0.0, 0, i >> 6 & 1)
    drawn = plan.fill(stream, 0, n, constant_work=True, isa=isa, offset=[0.0] * n)
    for bits in (0, 128):  # which is not looked at
        found, decided = tiers.tier(plan, tiers.DOUBLE_DOUBLE, bits, planted, isa)
        signed = [(hi << 64) + lo - (2**128 if hi >> 63 else 0) for lo, hi in found.tolist()]
        assert sum(decided) > 0.99 * n
        assert all(k == draw for k, draw, sure in zip(signed, drawn, decided, strict=True) if sure)


@pytest.mark.parametrize("exchange", [{0b000: 0b100, 0b100: 0b000}, {0b010: 0b100, 0b100: 0b010}, {0b000: 0b001, 0b001: 0b000}], ids=["sign", "signs swapped", "octant"])  # fmt: skip
def test_flags_read_otherwise_are_caught(exchange: dict[int, int]) -> None:
    """Points with exchanged flags have other outcomes: each flag is where csrc/stream.md says."""
    plan = made(Fraction(1000), short=False)
    seen = 0
    for point, truth in inputs(Fraction(1000), "double", short=False):
        if truth is None or point.flags not in exchange:
            continue
        other = Point(point.u, exchange[point.flags], point.v, point.sine, point.offset)
        prefix, angle = other.words(short=False)
        found = plan.tier(tiers.DOUBLE, 128, [prefix], angles=[angle], offset=point.offset, sine=point.sine)[0]
        seen += found is not None and found != truth
    assert seen > 20


# ------------------------------------------------------------------ the stream


# Words of the key 00 01 .. 1f, purpose 1, level 0, 32 bits: by search, the first 8 10^9 of them.
KEY = bytes(range(32))
ALL_ONES = [4148672529, 6999947041, 7368349335]  # the radius of such words
ONE = 8397550013
ANGLES = {
    111530434: 0x5FFFFFFF, 538610371: 0xC0000000, 828457211: 0, 2345886964: 0, 2712855505: 0x40000000, 3335771081: 0x3FFFFFFF,
    4085037543: 0x9FFFFFFF, 4608012668: 0xE0000000, 4978554322: 0xFFFFFFFF, 7099205721: 0x7FFFFFFF, 7528062657: 0x5FFFFFFF,
}  # fmt: skip
EXTREME = [*numbers("2^-20 3 2^10 2^14 10^6 2^21"), Fraction(2**16) - HALF]


def boundaries(mech: Gaussian, read: Callable[..., Digits], i: int, rng: random.Random) -> list[float]:
    """Offsets that put a boundary into, and beside, the cells that level 0 knows of this draw."""
    law = reference.Gaussian(mech.sigma_squared)
    (u, u_bits), angle = read(i & ~64, 2), read(i | 64, 2)
    flags, v, v_bits = angle.prefix >> (angle.bits - 3), angle.prefix % 2 ** (angle.bits - 3), angle.bits - 3
    cosine, sign = bool(i & 64) == bool(flags & 1), -1 if flags >> (1 if i & 64 else 2) & 1 else 1
    y = float(law.ratio() * law.side(v, v_bits, cosine)) * math.sqrt(-2 * math.log1p(-((2**u_bits - u) / 2**u_bits)))
    y *= sign
    found = []
    for part in (1, 1 - 2**-20, 1 + 2**-20, 1.4, 0.6, 0.3, 0.1, rng.random(), rng.random(), rng.random()):
        f = (0.5 - y * part) % 1
        found += [f, f - 1]
    return [f for f in found if abs(f) <= 0.5]


def at_extremes(mech: Gaussian, plan: tiers.Plan) -> tuple[int, int]:
    """Draws with planted level-0 words: how many C decides, and how many of these wrongly."""
    key, rng = tiers.StreamKey(KEY), random.Random(3)
    read, decided, errors = tiers.reader(mech, key), 0, 0
    for found in (*ALL_ONES, ONE, *ANGLES):
        for i in (found & ~64, found | 64):
            for f in boundaries(mech, read, i, rng):
                draw = plan.fill(key, i, 1, constant_work=False, offset=[f])[0]
                decided += draw is not None
                errors += draw is not None and draw != tiers.law(mech).draw(read, i, Fraction(f))
    return decided, errors


def test_level_0_at_the_ends_of_u_and_of_the_octant() -> None:
    """The words are as searched, their draws the exact law's, boundaries inside the cells."""
    read = tiers.reader(mechanism(Fraction(3)), tiers.StreamKey(KEY))
    assert [read(i, 0).prefix for i in (*ALL_ONES, ONE)] == [2**32 - 1] * 3 + [1]
    assert {i: read(i, 0).prefix for i in ANGLES} == ANGLES
    for ratio in EXTREME:
        decided, errors = at_extremes(mechanism(ratio), tiers.constant_work_plan(mechanism(ratio)))
        assert errors == 0
        assert decided > 100


@pytest.mark.parametrize(
    "change", [{"half_cell": 0.53}, {"half_cell": 1.0, "half_angle": 0.0}], ids=["the derivative alone", "no angle"]
)
def test_level_0_with_a_smaller_cell_is_caught(change: dict[str, float]) -> None:
    """The same draws find a bound of the cell that is too small."""
    errors = 0
    for ratio in EXTREME:
        scaled = {name: value * float(ratio) ** 2 for name, value in change.items()}
        errors += at_extremes(mechanism(ratio), made(ratio, short=True, **scaled))[1]
    assert errors > 0


@pytest.mark.parametrize(
    "change", [{"half_cell": 0.0}, {"half_cell": 2.0**42, "half_angle": 0.0}], ids=["radius", "angle"]
)
def test_level_0_without_a_cell_is_caught(change: dict[str, float]) -> None:
    """At sigma 2^21 steps 1 % of draws straddle a boundary; a plan of points gets some wrong."""
    plan, key, n = tiers.constant_work_plan(mechanism(Fraction(2**21))), tiers.StreamKey(KEY), 100_000
    right = plan.fill(key, 0, n, constant_work=True)
    assert plan.fill(key, 0, n, constant_work=False) == right
    found = made(Fraction(2**21), short=True, **change).fill(key, 0, n, constant_work=False)
    assert sum(a != b for a, b in zip(found, right, strict=True)) > 2


def test_more_undecided_changes_no_draw() -> None:
    """Bounds a million times too wide send every draw to a later tier: the same outcomes."""
    wide_bounds = {"half_cell": 2.0**40}, {"half_angle": 2.0**-22}, {"margin32": 0.1}, {"margin": 0.1}, {"relative_error": 2.0**-41}  # fmt: skip
    for ratio, wide in zip(numbers("1000 2^20 3 2^30 2^40"), wide_bounds, strict=True):
        key, n = tiers.StreamKey(KEY), 3000
        expected = tiers.constant_work_plan(mechanism(ratio)).fill(key, 77, n, constant_work=False)
        for isa in tiers.ISAS:
            assert made(ratio, short=ratio <= 2**21, **wide).fill(key, 77, n, constant_work=False, isa=isa) == expected


# ------------------------------------------------------------------ the proof


def test_the_proof_speaks_of_the_plan() -> None:
    """The script's relative error and margins are the plan's; section 3 proves its bounds."""
    plan = plans.normal(Fraction(1), short=True)
    assert "relative_error = 0x14p-52;" in GAPPA
    assert plan["relative_error"] == 0x14 * 2.0**-52
    assert "margin = 0.5 - 0x4p-52;" in GAPPA
    assert plan["margin"] == 0.5 - 4 * 2.0**-52
    assert "half_angle = 0x1.bp-31;\nmargin = 0.5 - 0x4p-52;" in SHORT_GAPPA
    assert plan["half_angle"] == float.fromhex("0x1.bp-31")
    assert "e - E in [-0x1.7p-36, 0x1.7p-36]" in (PROOFS / "short_log.gappa").read_text()
    assert float.fromhex("0x1.7p-36") == SHORT_LOG_ERROR
    assert plan["margin32"] == plan["margin"]
    # section 6: half a cell of the angle, the error of y, and one rounding of it, in 2^-32
    errors = (Fraction(355, 113), Fraction(0x1A5, 2**11), Fraction(1, 2**19))
    assert sum(errors) < Fraction(0x1AF, 2**7)
    normal = (PROOFS / "normal.gappa").read_text()
    assert "r -/ R in [-0x4.ep-52, 0x4.ep-52]" in GAPPA
    assert "root -/ ROOT in [-0x4.ep-52, 0x4.ep-52]" in normal
    assert "side -/ SIDE in [-0x4.4p-52, 0x4.4p-52]" in GAPPA  # 2.2 and twice v's rounding
    assert "sine -/ SV in [-0x2.2p-52, 0x2.2p-52]" in normal
    assert "cosine -/ CV in [-0x1.dp-52, 0x1.dp-52]" in normal


# ------------------------------------------------------------------ the constants


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_plan_is_what_section_5_derives(ratio: Fraction) -> None:
    """Every constant of the plan covers what csrc/gaussian.md adds up, in rationals."""
    plan = plans.normal(ratio**2, short=ratio <= 2**21)
    u, width, t = Fraction(1, 2**52), plan["width"], ratio
    fraction = {name: Fraction(value) for name, value in plan.items()}
    assert abs(fraction["t"] - t) <= u * t
    assert abs(fraction["t"] + fraction["t_low"] - t) <= u**2 * t
    assert fraction["margin"] <= HALF - Fraction(13, 10) * u
    assert fraction["relative_error"] >= Fraction(132, 10) * u
    assert fraction["half_angle"] >= Fraction(355, 113) / 2**width * (1 + 30 * u)
    least = 1 + 2**33 * Fraction(SHORT_LOG_ERROR) if width == 32 else 1  # the cell of U beside U = 1
    assert fraction["half_cell"] >= t**2 * least * (1 + 30 * u)
    if width == 32:  # a = 0 never passes: the margin is below 1/2, x = 1/2, and R < 6.764
        assert fraction["half_cell"] > HALF * HALF * t * Fraction(6764, 1000) * (1 + 30 * u)
    assert "SINE in [-0x1.ap-54, 0x1.ap-54]" in EXTENDED_GAPPA  # section 8; R's 2^-55.5 counts with a side below 0.7072
    grows = Fraction(13, 8) / 2**54 + Fraction(7072, 10**4) * Fraction(14143, 20000) / 2**55 + Fraction(1, 2**65)
    assert fraction["extended_error"] >= grows * (1 + Fraction(1, 2**20))
    assert fraction["extended_margin"] <= HALF - Fraction(1, 2**48)
    r = Fraction(667, 100)  # R for U >= 2^-32
    lost = t * r * (Fraction(1, 2**76) + Fraction(1, 2**97)) + Fraction(1, 2**39) + Fraction(1, 2**50)
    assert fraction["double_double_margin"] <= HALF - lost
    known = Fraction(1, 2 ** (width + 64))
    cell = known * 2**32 if width == 32 else 0
    least = t * (Fraction(2**14, 24834) / 2**72 + cell)  # 2^-72.6
    assert fraction["double_double_cell"] >= least * (1 + Fraction(1, 2**20))
    # a constant-work call leaves less than 2^-30 undecided
    if Fraction(1, 2**19) <= t <= 2**40:
        if plan["constant_work"] == tiers.DOUBLE:
            left = 2 * (HALF - fraction["margin"]) + 2 * fraction["relative_error"] * t * Fraction(4, 5) + 3 * t / 2**60
        elif plan["constant_work"] == tiers.EXTENDED:
            assert t <= 2**21
            left = (
                2 * (HALF - fraction["extended_margin"])
                + 2 * fraction["extended_error"] * t * Fraction(1254, 1000)
                + 3 * t / 2**60
            )
        else:
            left = 2 * (HALF - fraction["double_double_margin"]) + 2 * fraction["double_double_cell"] * Fraction(1254, 1000) + Fraction(1, 2**32) + Fraction(1, 2**41)  # fmt: skip
        assert left < Fraction(1, 2**30)


# ------------------------------------------------------------------ the law


@pytest.mark.parametrize("ratio", LAW.judged, ids=str)
def test_pairs_are_independent(ratio: Fraction, secret: Callable[[str], bytes]) -> None:
    """The two draws of 2^19 pairs show no dependence, at a false-alarm rate of 1e-9."""
    assert dependence(ratio, *pairs(noise(LAW, mechanism(ratio), N, secret(f"pairs {ratio}")))) == []


def pairs(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    both = draws.reshape(-1, 2, 64)
    return both[:, 0].ravel().astype(float), both[:, 1].ravel().astype(float)


def dependence(ratio: Fraction, a: np.ndarray, b: np.ndarray) -> list[str]:
    """What is wrong with independent pairs: an 8 by 8 table, correlations; each at ALPHA / 4."""
    law, n, found = reference_of("gaussian", ratio), a.size, []
    edges = sorted({law.quantile(i / 8) for i in range(1, 8)})
    upto = np.array([0.0, *(law.cdf(k) for k in edges), 1.0])
    share = np.diff(upto)
    expected = n * np.outer(share, share)
    places = np.ravel_multi_index((np.searchsorted(edges, a), np.searchsorted(edges, b)), expected.shape)
    cells = np.bincount(places, minlength=expected.size).reshape(expected.shape)
    variance, fourth = law.variance(), law.fourth_moment()
    centred = (a**2 - variance) * (b**2 - variance) / (fourth - variance**2)
    for name, p in (
        ("table", gof.chi2_p(float(((cells - expected) ** 2 / expected).sum()), expected.size - 1)),
        ("product", gof.normal_p(float((a * b).mean()) / variance * math.sqrt(n))),
        ("squares", gof.normal_p(float(centred.mean()) * math.sqrt(n))),
        ("magnitudes", gof.normal_p((float(np.mean(np.abs(a) > np.abs(b))) - float(np.mean(np.abs(a) < np.abs(b)))) * math.sqrt(n))),
    ):  # fmt: skip
        if not p >= gof.ALPHA / 4:
            found.append(f"{name}: p = {p:.3g}")
    return found


def test_a_fresh_start_for_open_draws_is_rejected(secret: Callable[[str], bytes]) -> None:
    """Undecided draws are larger, fresh ones are not: found if a third are undecided."""
    ratio, n = Fraction(2**20), 2**18
    key, other = tiers.StreamKey(secret("open")), tiers.StreamKey(secret("fresh"))
    wide = {
        "half_angle": 0.15 * 2.0**-20
    }  # as if a cell of the angle were that wide: level 0 leaves the larger draws open
    plan = made(
        ratio, short=True, **wide, relative_error=1.0, double_double_margin=-1.0
    )  # and nothing in C decides them
    found, fresh = (
        plan.fill(key, 0, n, constant_work=False),
        made(ratio, short=True).fill(other, 0, n, constant_work=False),
    )
    open_ = np.array([k is None for k in found])
    assert 0.2 < open_.mean() < 0.8
    defective = np.array([b if a is None else a for a, b in zip(found, fresh, strict=True)])
    right = np.array(made(ratio, short=True, **wide).fill(key, 0, n, constant_work=False))
    assert judged(LAW, ratio, right) == []
    assert judged(LAW, ratio, defective) != []


@pytest.mark.parametrize("sigma", [1, 2])
def test_a_discrete_law_is_no_rounded_one(sigma: int, secret: Callable[[str], bytes]) -> None:
    """The rounded law has 1/12 more variance than the discrete one: told apart up to sigma = 2."""
    draws = noise(LAW, mechanism(Fraction(sigma)), N, secret("rounded"))
    assert judged(BY_NAME["discrete_gaussian"], Fraction(sigma), draws) != []
    variance = reference_of("discrete_gaussian", Fraction(sigma)).variance()
    assert DiscreteGaussian(sigma).variance == pytest.approx(variance)


DEPENDENT: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "no swap of the octant": lambda a, b: (np.where(np.abs(a) < np.abs(b), b, a), np.where(np.abs(a) < np.abs(b), a, b)),
    "one sign for both": lambda a, b: (a, np.abs(b) * np.where(a < 0, -1, 1)),
    "the same draw twice": lambda a, b: (a, a),
    "one sign in fifty shared": lambda a, b: (a, np.where(np.arange(a.size) % 50 == 0, np.abs(b) * np.where(a < 0, -1, 1), b)),
    "a shared radius, another angle": lambda a, b: (a, np.hypot(a, b) * np.cos(np.random.default_rng(2).uniform(0, 2 * math.pi, a.size))),
}  # fmt: skip


@pytest.mark.parametrize("name", DEPENDENT)
def test_pairs_that_depend_are_rejected(name: str, secret: Callable[[str], bytes]) -> None:
    """Each draw follows the law and the judge of pairs still says no."""
    ratio = Fraction(100)
    draws = noise(LAW, mechanism(ratio), N, secret("pairs"))
    a, b = pairs(draws)
    assert dependence(ratio, a, b) == []
    assert dependence(ratio, *DEPENDENT[name](a, b)) != []
    assert dependence(ratio, a, np.roll(b, 1)) == []


# ------------------------------------------------------------------ what both Gaussians promise

both = pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
CELL = Sensitivity(1, 1)


@both
def test_from_zcdp_and_calibrated(kind: Any) -> None:
    """rho is exact; a calibrated delta is reached and 0.1 % less sigma misses it."""
    mech = kind.from_zcdp(Fraction(1, 8), Sensitivity.from_l2(Fraction(9, 2)))
    assert (mech.sigma_squared, mech.rho(), mech.calibrated_for.rho) == (18, Fraction(1, 8), Fraction(1, 8))
    for epsilon, delta, sensitivity in (
        (1, 1e-6, Sensitivity(3, 2)), (Fraction(1, 10), 1e-9, Sensitivity.from_l2(7)), (Fraction(1, 10), 1e-9, Sensitivity(3, 2)),
        (8, 1e-3, Sensitivity(1, 1, adjacency="substitution")), (8, 1e-3, Sensitivity(3, 2)),
    ):  # fmt: skip
        found = kind.calibrated(epsilon, sensitivity, delta=delta)
        assert found.delta(epsilon) <= delta
        assert kind(found.sigma * 0.999).delta(epsilon, sensitivity) > delta
        asked = found.calibrated_for
        assert (asked.epsilon, asked.delta, found.sensitivity) == (epsilon, Fraction(str(delta)), sensitivity)
        assert found.rho() == sensitivity.l2_squared / (2 * found.sigma_squared)
        if kind is Gaussian:  # Phi(m/2 - epsilon/m) - exp(epsilon) Phi(-m/2 - epsilon/m)
            m, cdf = sensitivity.l2 / found.sigma, stats.norm.cdf
            analytic = cdf(m / 2 - epsilon / m) - math.exp(epsilon) * cdf(-m / 2 - epsilon / m)
            assert found.delta(epsilon) == pytest.approx(analytic, rel=1e-5)


def test_a_calibrated_sigma_is_paid_for_to_the_last_bit(monkeypatch) -> None:
    """A sigma that keeps delta, with a mu^2 above the budget of a ledger, gives way to the next."""
    most = mu_squared_of(Fraction(1), Fraction(1, 10**6))
    change = Sensitivity.from_l2(most * (1 + Fraction(1, 10**25)))
    monkeypatch.setattr("dpfast.privacy.gaussian.calibrate", lambda *_, **__: Fraction(1))
    assert DiscreteGaussian.calibrated(1, change, delta="1e-6").sigma == 1
    found = Gaussian.calibrated(1, change, delta="1e-6")
    assert (found.sigma, found.guarantee.mu_squared <= most) == (math.nextafter(1, 2), True)


@both
def test_sensitivity_rules(kind: Any) -> None:
    """A bare number is refused, and both ways are named; none at all where one is needed too."""
    for call in (
        lambda: kind(1, sensitivity=2), lambda: kind.from_zcdp(1, 2), lambda: kind.calibrated(1, 2.0, delta=1e-6),
        lambda: kind(1).delta(1, 3), lambda: kind(1).rho(Fraction(3)),
    ):  # fmt: skip
        with pytest.raises(DTypeError, match=r"Sensitivity\(l0, linf\), or Sensitivity\.from_l2\(squared\)"):
            call()
    for call in (lambda: kind(1).delta(1), lambda: kind(1).rho()):
        with pytest.raises(ParameterError, match="sensitivity must be given"):
            call()
    mech = kind(2, sensitivity=Sensitivity(2, 1, adjacency="substitution", unit="household"))
    assert (mech.adjacency, mech.unit, mech.rho()) == ("substitution", "household", Fraction(1, 2))
    assert mech.rho(Sensitivity.from_l2(1)) == Fraction(1, 8)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda kind: kind(), ParameterError, "sigma"),
        (lambda kind: kind(1, sigma_squared=1), ParameterError, "sigma"),
        (lambda kind: kind(0), ParameterError, "sigma must be positive"),
        (lambda kind: kind(-1), ParameterError, "sigma must be positive"),
        (lambda kind: kind(-1.5), ParameterError, "sigma must be positive"),
        (lambda kind: kind(math.nan), ParameterError, "sigma must be finite"),
        (lambda kind: kind(math.inf), ParameterError, "sigma must be finite"),
        (lambda kind: kind(sigma_squared=0), ParameterError, "sigma_squared must be positive"),
        (lambda kind: kind(b"1"), DTypeError, "sigma"),
        (lambda kind: kind(True), DTypeError, "sigma"),
        (lambda kind: kind.from_zcdp(0, CELL), ParameterError, "rho must be positive"),
        (lambda kind: kind.from_zcdp(-1, CELL), ParameterError, "rho must be positive"),
        (lambda kind: kind.calibrated(0, CELL, delta=0.1), ParameterError, "epsilon must be positive"),
        (lambda kind: kind.calibrated(1, CELL, delta=0), ParameterError, "delta must be positive"),
        (lambda kind: kind.calibrated(1, CELL, delta=1), ParameterError, "delta must lie strictly between"),
        (lambda kind: kind(1).interval(1), ParameterError, "confidence"),
    ],
)
@both
def test_refusals_of_both(kind: Any, call: Callable[[Any], object], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        call(kind)


@pytest.mark.parametrize(
    ("name", "ratio"),
    [*(("gaussian", x) for x in numbers("1/8 1/2 1 19/10 3 1000 5000 2^20")), *(("discrete_gaussian", x) for x in numbers("1/10 1 10 129 1000"))],
    ids=str,
)  # fmt: skip
def test_figures(name: str, ratio: Fraction) -> None:
    """variance, pmf, cdf, sf, quantile, interval: closed forms, sums; reals on a 1/4 grid."""
    right, grid = reference_of(name, ratio), 0.25 if name == "gaussian" else 1
    mech: Any = Gaussian(ratio / 4, granularity=0.25) if name == "gaussian" else DiscreteGaussian(ratio)
    assert mech.variance == pytest.approx(right.variance() * grid**2, rel=1e-12)
    assert mech.stddev == pytest.approx(math.sqrt(right.variance()) * grid, rel=1e-12)
    assert mech.scale == pytest.approx(float(ratio) * grid)
    ks = sorted({0, 1, -1, 2, 3, *(int(float(ratio) * x) for x in (-8, -3, -1, 0.5, 2, 5, 8))})
    at = np.array(ks) * grid
    assert mech.pmf(at) == pytest.approx([right.pmf(k) for k in ks], rel=1e-10 if name == "gaussian" else 1e-12)
    assert mech.pmf(at[0].item()) == mech.pmf(at)[0]
    assert mech.cdf(at) == pytest.approx([right.cdf(k) for k in ks], rel=1e-12)
    assert mech.sf(at) == pytest.approx([right.cdf(-k - 1) for k in ks], rel=1e-12)
    if name == "gaussian":
        assert mech.cdf(at + 0.2) == pytest.approx([right.cdf(k) for k in ks], rel=1e-12)
        assert mech.sf(at + 0.2).tolist() == mech.sf(at).tolist()
    else:
        for p in (0.001, 0.3, 0.5, 0.9):
            k = mech.quantile(p)
            assert right.cdf(k) >= p > right.cdf(k - 1)
    for confidence, cells in ((0.95, 1), (0.5, 1), (0.99, 10**6)):
        on_grid = {"on_grid": True} if name == "gaussian" else {}
        h = round(mech.interval(confidence, cells=cells, **on_grid) / grid)
        assert (2 * right.cdf(h) - 1) ** cells >= confidence
        assert h == 0 or (2 * right.cdf(h - 1) - 1) ** cells < confidence


# ------------------------------------------------------------------ the mechanism on reals


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: Gaussian(1e300), ParameterError, "granularity, here from sensitivity/epsilon or sigma, must lie between"),
        (lambda: Gaussian(1).release([1]), DTypeError, "DiscreteGaussian"),
        (lambda: Gaussian(1, granularity=1).pmf(0.5), ParameterError, "multiple of the granularity"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], object], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        call()


def test_two_grids_are_two_mechanisms() -> None:
    assert Gaussian(2, granularity=1) != Gaussian(2, granularity=2)
    assert Gaussian.from_zcdp(Fraction(1, 8), Sensitivity.from_l2(1), granularity=2**-10).granularity == 2**-10


def test_constant_time_has_a_limit() -> None:
    """Beyond sigma / granularity = 2^40 too many draws are slow: refused. At it, as bulk."""
    values = np.zeros(5000)
    with pytest.raises(ParameterError, match=r"constant_time needs a granularity of at least sigma \* 2\*\*-40"):
        Gaussian(1, granularity=2.0**-41).release(values, constant_time=True)
    assert Gaussian(1, granularity=2.0**-41).release(values).any()
    mech = Gaussian(1, granularity=2.0**-40)
    key = tiers.StreamKey(KEY)
    plan = tiers.constant_work_plan(mech)
    assert mech.release(values, constant_time=True).any()
    assert plan.fill(key, 5, 700, constant_work=True) == plan.fill(key, 5, 700, constant_work=False)


def test_a_grid_and_no_negative_zero() -> None:
    """Every result is a multiple of the grid, +0.0 the only zero; a sum at its ends saturates."""
    mech = Gaussian(0.3, granularity=0.25)
    found = mech.release(np.random.default_rng(1).normal(0, 1, 20_000))
    assert np.all(found * 4 == np.rint(found * 4))
    assert not np.any(np.signbit(found) & (found == 0))
    assert np.all(np.isfinite(Gaussian(1e250).release(np.array([1.7e308, -1.7e308] * 5000))))
