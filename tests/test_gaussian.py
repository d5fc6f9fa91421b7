# SPDX-License-Identifier: Apache-2.0
"""The rounded real Gaussian: tiers that agree in any rounding mode, planted defects, exact-law statistics, pairs, golden outputs."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import pickle
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import gof
import numpy as np
import pytest
import reference
import test_bounds
from conftest import ISAS
from scipy import stats
from test_bounds import MODES, entered

from dpfast import DiscreteGaussian, Gaussian, Sensitivity, _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.exact import Digits
from dpfast.mechanisms.gaussian import normal_constants
from dpfast.release.arrays import prepare_real
from dpfast.release.engine import Draws, run

host = test_bounds.host
HALF = Fraction(1, 2)
RATIOS = [
    Fraction(1, 2**60), Fraction(1, 2**30), Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(1000),
    Fraction(2**16), Fraction(2**20), Fraction(2**21), Fraction(10**9, 7), Fraction(2**40), Fraction(2**48), Fraction(10**17, 7), Fraction(2**60),
]  # fmt: skip
TIERS = {"double": _native.DOUBLE, "twofold": _native.TWOFOLD}
MOST_DOUBLE = 2**40  # the ratio up to which a plan may start there


def mechanism(ratio: Fraction) -> Gaussian:
    return Gaussian(ratio, granularity=1)


# ------------------------------------------------------------------ tiers on planted digits


class Point:
    """Digits of both words, the sine or the cosine draw, and where the noise begins."""

    def __init__(self, u: int, flags: int, v: int, sine: bool, offset: float) -> None:
        self.u, self.flags, self.v, self.sine, self.offset = u, flags, v, sine, offset  # 128 and 125 digits

    def words(self, short: bool) -> tuple[int, int]:
        """Of 32 and 64 bits behind each other in 128, or the 128 as they are."""
        whole = self.u, self.flags << 125 | self.v
        return tuple((x >> 96) << 64 | (x >> 32) % 2**64 for x in whole) if short else whole

    def read(self, name: str, short: bool) -> tuple[int, int, int, int]:
        """The cells that a tier knows: of U, its digits, of v, its digits."""
        u, v = (64, 64) if name == "double" else (96, 93) if short else (128, 125)
        return self.u >> (128 - u), u, self.v >> (125 - v), v

    def truth(self, law: reference.Gaussian, name: str, short: bool) -> int | None:
        u, u_bits, v, v_bits = self.read(name, short)
        return law.rounded(u, u_bits, self.flags, v, v_bits, self.sine, Fraction(self.offset))


def planted(ratio: Fraction, name: str) -> list[Point]:
    """Points that a wrong bound would decide wrongly: beside boundaries by 1/8 to 8 times a tier's error, and at all edges."""
    rng, law, points = random.Random(f"{ratio} {name}"), reference.Gaussian(ratio**2), []
    t = float(ratio)

    def angle() -> int:
        """v: anywhere, at both ends, at edges of the tables' cells."""
        return rng.choice([
            rng.getrandbits(125), rng.getrandbits(125), rng.getrandbits(125) >> rng.randrange(60), 0, 2**125 - 1, 2**61,
            2**125 - 1 - rng.getrandbits(60), (rng.randrange(128) << 118) + rng.choice((0, -1, 1 << 61)) & 2**125 - 1,
        ])  # fmt: skip

    def add(u: int, flags: int, v: int, sine: bool, offset: float) -> None:
        if 0 <= u < 2**128 and abs(offset) <= 0.5:
            points.append(Point(u, flags, v, sine, offset))

    for offset in (0.0, 0.5, -0.5, rng.random() - 0.5, 2.0**-1074, -(2.0**-40), math.nextafter(0.5, 0), 0.375):
        for sine in (False, True):
            for _ in range(9):
                flags, v = rng.getrandbits(3), angle()
                cosine, negative = sine == bool(flags & 1), bool(flags >> (1 if sine else 2) & 1)
                side = float(law._side(2 * v + 1, 126, cosine))
                m = rng.choice(
                    [
                        0,
                        1,
                        2,
                        *(int(t * side * x) for x in (rng.random() * 4, rng.uniform(4, 6.5), 2 ** rng.uniform(-18, 0))),
                    ]
                )
                height = abs(m + HALF - Fraction(offset) * (-1 if negative else 1))
                at = law.cell(height, 128, v, 125, cosine) if height else 2**128 - 1
                if at < 4:
                    continue
                radius = math.sqrt(max(-2 * math.log(at / 2**128), 2.0**-120))
                error = (
                    2.0**-52 * (2 * float(height) + 1)
                    if name == "double"
                    else t * 2.0**-76 * rng.choice((1.0, 1 / min(radius, 1.0))) + 2.0**-40
                )
                moved = (
                    Fraction(radius)
                    * Fraction(error / (t * side))
                    * Fraction(2 ** rng.uniform(-3, 3))
                    * rng.choice((-1, 1))
                )
                for u in (at, at + int(at * moved), at + rng.randrange(-2, 3), rng.getrandbits(128)):
                    add(u, flags, v, sine, offset)
            for u in (
                1,
                2**64,
                3 << 64 | 1,
                2**96 - 1,
                2**96,
                2**96 + 5,
                2**127,
                2**128 - 1,
                2**128 - 2**64,
                0xB504F333F9DE6484 << 64,
            ):
                add(u, rng.getrandbits(3), angle(), sine, offset)
    # next to U = 1 the root magnifies half a cell: offsets such that the boundary lies inside it
    for digits in (32, 64, 96, 128):
        for j in (1, 2, 3, 4):
            for end in (0, 2 ** (128 - digits) - 1):
                for sine in (False, True):
                    flags = rng.getrandbits(2) << 1 | sine  # both have the cosine of v
                    v = rng.getrandbits(125) >> rng.randrange(40)
                    reach = (
                        t * math.sqrt(2 * j - 1) * 2.0 ** (-digits / 2) * float(law._side(2 * v + 1, 126, cosine=True))
                    )
                    if reach > 0.9:
                        continue
                    negative = flags >> (1 if sine else 2) & 1
                    for _ in range(2):
                        edge = (0.5 - rng.random() * reach) * (-1 if negative else 1)
                        add(2**128 - (j << (128 - digits)) + end, flags, v, sine, edge)
    return points


@cache
def inputs(ratio: Fraction, name: str, short: bool) -> list[tuple[Point, int | None]]:
    law = reference.Gaussian(ratio**2)
    return [(point, point.truth(law, name, short)) for point in planted(ratio, name)]


@cache
def calls(ratio: Fraction, name: str, short: bool) -> list[tuple[float, bool, list[int], list[int], list[int | None]]]:
    """The same by what one call of a tier shares."""
    found: dict[tuple[float, bool], tuple[list[int], list[int], list[int | None]]] = {}
    for point, truth in inputs(ratio, name, short):
        group = found.setdefault((point.offset, point.sine), ([], [], []))
        for row, value in zip(group, (*point.words(short), truth), strict=True):
            row.append(value)
    return [(*key, *group) for key, group in found.items()]


def wrong(plan: _native.Plan, ratio: Fraction, name: str, short: bool, isa: int) -> tuple[int, int]:
    """How many points are decided, and how many of these not as the law has it."""
    decided = errors = 0
    for offset, sine, prefixes, angles, truths in calls(ratio, name, short):
        found = plan.tier(TIERS[name], 128, prefixes, angles=angles, offset=offset, sine=sine, isa=isa)
        decided += sum(k is not None for k in found)
        errors += sum(k is not None and k != right for k, right in zip(found, truths, strict=True))
    return decided, errors


def made(ratio: Fraction, short: bool, **changed: float) -> _native.Plan:
    return _native.Plan("gaussian", **normal_constants(ratio**2, short=short) | changed)


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_what_is_decided_is_right(ratio: Fraction, name: str, host: ctypes.CDLL) -> None:
    """On random and planted digits, in every rounding mode, subnormals flushed or not, by every instruction set."""
    if name == "double" and ratio > MOST_DOUBLE:
        return
    for short in (False, True):
        if short and ratio > 2**21:
            continue
        plan = made(ratio, short)
        for isa in ISAS:
            for mode in MODES:
                for flush in (False, True):
                    with entered(host, mode, flush):
                        decided, errors = wrong(plan, ratio, name, short, isa)
                    assert errors == 0, f"{mode} {flush=} {short=} {isa=}"
                    assert decided > (10 if ratio < Fraction(1, 2**40) else len(inputs(ratio, name, short)) / 14)


def test_the_reference_agrees_with_the_exact_tier() -> None:
    """Two enclosures written apart give the same outcome on every planted cell."""
    for ratio in (Fraction(1, 2**60), Fraction(1), Fraction(10**17, 7)):
        law = mechanism(ratio)._law
        for point, truth in inputs(ratio, "twofold", short=False)[::3]:
            radius, angle = Digits(point.u, 128), Digits(point.flags << 125 | point.v, 128)
            if point.u:
                assert law.rounded(radius, angle, point.sine, Fraction(point.offset)) == truth


T = float(10**17 / 7)
DEFECTS: list[tuple[str, str, Fraction, bool, dict[str, float]]] = [
    ("no error of y", "double", Fraction(1000), False, {"margin": 0.5, "slope": 0.0}),
    ("a fifteenth of it", "double", Fraction(2**40), False, {"slope": 1.3 * 2.0**-52}),
    ("no width of the cell", "double", Fraction(37, 10), False, {"half_cell": 0.0}),
    ("the derivative alone at U = 1", "double", Fraction(2**20), False, {"half_cell": 2.0**19 * (1 + 2.0**-4)}),
    (
        "no error of the twofold tier",
        "twofold",
        Fraction(2**60),
        False,
        {"twofold_margin": 0.5 - 2.0**-38, "twofold_cell": 0.0},
    ),
    (
        "t 2^-78 for it",
        "twofold",
        Fraction(10**17, 7),
        False,
        {"twofold_margin": 0.5 - T * 2.0**-78, "twofold_cell": T * 2.0**-78},
    ),
    ("no cell of 128 digits", "twofold", Fraction(2**60), False, {"twofold_cell": 0.0}),
    ("no cell of 96 digits", "twofold", Fraction(2**21), True, {"twofold_cell": 0.0}),
    ("2^-40 beside it, too little upwards", "twofold", Fraction(1), False, {"twofold_margin": 0.5 - 2.0**-41}),
]


@pytest.mark.parametrize(("defect", "name", "ratio", "short", "change"), DEFECTS, ids=[d[0] for d in DEFECTS])
def test_a_planted_defect_is_caught(
    defect: str, name: str, ratio: Fraction, short: bool, change: dict[str, float], host: ctypes.CDLL
) -> None:
    """A plan that allows for less error decides some of the same points wrongly."""
    plan, errors = made(ratio, short, **change), 0
    for mode in MODES:
        with entered(host, mode, flush=False):
            errors += wrong(plan, ratio, name, short, ISAS[-1])[1]
    assert errors > 0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("granularity", [2.0**-20, 2.0**-30])
def test_a_tier_takes_words_as_a_draw_reads_them(granularity: float, isa: int, secret: Callable[[str], bytes]) -> None:
    """By words of 32 and of 64 bits: dpf_tier, fed as dpf_abi.h says, decides what a constant-work call draws."""
    mechanism = Gaussian(sigma=1, granularity=granularity)
    plan, stream, n = mechanism._careful_plan, _native.StreamKey(secret(f"words {granularity}")), 256
    assert plan.width == (32 if granularity == 2.0**-20 else 64)
    read, ffi = mechanism._reader(stream, plan.width), _native.ffi
    planted = ffi.new("dpf_planted[]", n)
    for i in range(n):
        words = [read(at, 1).prefix for at in (i & ~64, i | 64)]
        planted[i] = ([part for word in words for part in (word >> 64, word % 2**64)], 0.0, 0, i >> 6 & 1)
    found, decided = ffi.new("dpf_u128[]", n), ffi.new("uint8_t[]", n)
    drawn = plan.fill(stream, 0, n, careful=True, isa=isa, offset=[0.0] * n)
    for bits in (0, 128):  # which is not looked at
        _native.lib.dpf_tier(isa, plan._plan, _native.TWOFOLD, bits, n, planted, found, decided)
        signed = [(f.hi << 64) + f.lo - (2**128 if f.hi >> 63 else 0) for f in found]
        assert sum(decided) > 0.99 * n
        assert all(k == draw for k, draw, sure in zip(signed, drawn, decided, strict=True) if sure)


@pytest.mark.parametrize("exchange", [{0b000: 0b100, 0b100: 0b000}, {0b010: 0b100, 0b100: 0b010}, {0b000: 0b001, 0b001: 0b000}], ids=["sign", "signs swapped", "octant"])  # fmt: skip
def test_flags_read_otherwise_are_caught(exchange: dict[int, int]) -> None:
    """Points whose flags are exchanged have other outcomes: each flag is where csrc/stream.md says."""
    plan = made(Fraction(1000), short=False)
    seen = 0
    for point, truth in inputs(Fraction(1000), "double", short=False):
        if truth is None or point.flags not in exchange:
            continue
        other = Point(point.u, exchange[point.flags], point.v, point.sine, point.offset)
        prefix, angle = other.words(short=False)
        found = plan.tier(_native.DOUBLE, 128, [prefix], angles=[angle], offset=point.offset, sine=point.sine)[0]
        seen += found is not None and found != truth
    assert seen > 20


# ------------------------------------------------------------------ the stream


def exact_draws(mech: Gaussian, key: _native.StreamKey, start: int, offsets: list[float]) -> list[int]:
    read = mech._reader(key, mech._careful_plan.width)
    return [mech._law.draw(read, start + i, Fraction(f)) for i, f in enumerate(offsets)]


STARTS = [0, 63, 64, 500, 2**40 + 37, 2**63 - 300]


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_stream_maps_to_the_exact_law(ratio: Fraction, secret: Callable[[str], bytes]) -> None:
    """Draws as C makes them, by either path, are those of the exact tier from the same digits, wherever a call begins and ends."""
    mech, key, rng = mechanism(ratio), _native.StreamKey(secret("stream")), random.Random(str(ratio))
    for start in STARTS:
        n = rng.choice([1, 2, 64, 65, 130, 200, 300])
        offsets = [rng.choice([0.0, rng.random() - 0.5, 2.0 ** -rng.randrange(1, 1074)]) for _ in range(n)]
        truth = exact_draws(mech, key, start, offsets)
        for isa in ISAS:
            for careful in (False, True):
                found = mech._careful_plan.fill(key, start, n, careful=careful, isa=isa, offset=offsets)
                assert all(k is None or k == right for k, right in zip(found, truth, strict=True))
                assert sum(k is None for k in found) <= (n if ratio < Fraction(1, 2**15) else 1)


# Words of the key 00 01 .. 1f, purpose 1, level 0, 32 bits: by search, the first 8 10^9 of them.
KEY = bytes(range(32))
ALL_ONES = [4148672529, 6999947041, 7368349335]  # of a radius
ONE = 8397550013
ANGLES = {
    111530434: 0x5FFFFFFF, 538610371: 0xC0000000, 828457211: 0, 2345886964: 0, 2712855505: 0x40000000, 3335771081: 0x3FFFFFFF,
    4085037543: 0x9FFFFFFF, 4608012668: 0xE0000000, 4978554322: 0xFFFFFFFF, 7099205721: 0x7FFFFFFF, 7528062657: 0x5FFFFFFF,
}  # fmt: skip
EXTREME = [
    Fraction(1, 2**20),
    Fraction(3),
    Fraction(2**10),
    Fraction(2**14),
    Fraction(2**16) - HALF,
    Fraction(10**6),
    Fraction(2**21),
]


def boundaries(mech: Gaussian, read: Callable[..., Digits], i: int, rng: random.Random) -> list[float]:
    """Offsets that put a boundary into, and beside, the cells that level 0 knows of this draw."""
    law = reference.Gaussian(mech.sigma_squared)
    (u, u_bits), angle = read(i & ~64, 2), read(i | 64, 2)
    flags, v, v_bits = angle.prefix >> (angle.bits - 3), angle.prefix % 2 ** (angle.bits - 3), angle.bits - 3
    cosine, sign = bool(i & 64) == bool(flags & 1), -1 if flags >> (1 if i & 64 else 2) & 1 else 1
    y = float(law._ratio() * law._side(v, v_bits, cosine)) * math.sqrt(-2 * math.log1p(-((2**u_bits - u) / 2**u_bits)))
    y *= sign
    found = []
    for part in (1, 1 - 2**-20, 1 + 2**-20, 1.4, 0.6, 0.3, 0.1, rng.random(), rng.random(), rng.random()):
        f = (0.5 - y * part) % 1
        found += [f, f - 1]
    return [f for f in found if abs(f) <= 0.5]


def at_extremes(mech: Gaussian, plan: _native.Plan) -> tuple[int, int]:
    """Draws whose level-0 words are planted by search: how many C decides, and how many of these wrongly."""
    key, rng = _native.StreamKey(KEY), random.Random(3)
    read, decided, errors = mech._reader(key, 32), 0, 0
    for found in (*ALL_ONES, ONE, *ANGLES):
        for i in (found & ~64, found | 64):
            for f in boundaries(mech, read, i, rng):
                draw = plan.fill(key, i, 1, careful=False, offset=[f])[0]
                decided += draw is not None
                errors += draw is not None and draw != mech._law.draw(read, i, Fraction(f))
    return decided, errors


def test_level_0_at_the_ends_of_u_and_of_the_octant() -> None:
    """The words are what was searched for, and every draw from them is the exact law's, with boundaries inside their cells."""
    read = mechanism(Fraction(3))._reader(_native.StreamKey(KEY), 32)
    assert [read(i, 0).prefix for i in (*ALL_ONES, ONE)] == [2**32 - 1] * 3 + [1]
    assert {i: read(i, 0).prefix for i in ANGLES} == ANGLES
    for ratio in EXTREME:
        decided, errors = at_extremes(mechanism(ratio), mechanism(ratio)._careful_plan)
        assert errors == 0
        assert decided > 100


@pytest.mark.parametrize("change", [{"half_cell": 0.53}, {"half_angle": 0.0}], ids=["the derivative alone", "no angle"])
def test_level_0_with_a_smaller_cell_is_caught(change: dict[str, float]) -> None:
    """The same draws find a bound of the cell that is too small."""
    errors = 0
    for ratio in EXTREME:
        scaled = {name: value * float(ratio) for name, value in change.items()}
        errors += at_extremes(mechanism(ratio), made(ratio, short=True, **scaled))[1]
    assert errors > 0


@pytest.mark.parametrize("change", [{"half_cell": 0.0}, {"half_angle": 0.0}], ids=["radius", "angle"])
def test_level_0_without_a_cell_is_caught(change: dict[str, float]) -> None:
    """At sigma of 2^21 steps a hundredth of all draws straddle a boundary; a plan that thinks its cells are points gets some wrong."""
    plan, key, n = mechanism(Fraction(2**21))._careful_plan, _native.StreamKey(KEY), 100_000
    right = plan.fill(key, 0, n, careful=True)
    assert plan.fill(key, 0, n, careful=False) == right
    assert (
        sum(
            a != b
            for a, b in zip(
                made(Fraction(2**21), short=True, **change).fill(key, 0, n, careful=False), right, strict=True
            )
        )
        > 2
    )


def test_more_left_open_changes_no_draw() -> None:
    """Bounds a million times too wide send every draw to a later tier: the same outcomes."""
    for ratio, wide in ((Fraction(1000), {"half_cell": 2.0**40}), (Fraction(2**20), {"half_angle": 0.2}), (Fraction(3), {"flat": 0.1}), (Fraction(2**30), {"margin": 0.1}), (Fraction(2**40), {"slope": 2.0**-41})):  # fmt: skip
        key, n = _native.StreamKey(KEY), 3000
        expected = mechanism(ratio)._careful_plan.fill(key, 77, n, careful=False)
        for isa in ISAS:
            assert made(ratio, short=ratio <= 2**21, **wide).fill(key, 77, n, careful=False, isa=isa) == expected


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(2**20), Fraction(2**40), Fraction(2**50)], ids=str)
def test_the_host_mode_changes_no_draw(ratio: Fraction, host: ctypes.CDLL) -> None:
    """A rounding mode and a flush that the host left on are put aside: the same draws, none more left undecided."""
    plan, key = mechanism(ratio)._careful_plan, _native.StreamKey(KEY)
    for careful in (False, True):
        expected = plan.fill(key, 9, 700, careful=careful)
        for isa in ISAS:
            for mode in MODES:
                with entered(host, mode, flush=True):
                    found = plan.fill(key, 9, 700, careful=careful, isa=isa)
                assert found == expected


# ------------------------------------------------------------------ the proof

GAPPA = (test_bounds.CSRC / "proofs" / "gaussian.gappa").read_text()


@pytest.mark.parametrize("mode", MODES)
def test_gappa_proves_the_roundings_of_the_decision(mode: str) -> None:
    """gaussian.gappa: every goal is proved, in this rounding mode."""
    program = test_bounds.tool("gappa")
    assert GAPPA.count("float<ieee_64, ne>") == 1
    assert test_bounds.said(program, text=GAPPA.replace("ieee_64, ne", f"ieee_64, {mode}")) == (0, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[-0xc.4p-52, 0xc.4p-52]", "[-0xb.cp-52, 0xb.cp-52]"),  # the error of y
        ("slope = 0x14p-52", "slope = 0x13p-52"),
        ("margin = 0.5 - 0x4p-52", "margin = 0.5 - 0x2p-52"),
        ("[-0x8p-52, 0x8p-52]", "[-0x6p-52, 0x6p-52]"),  # the weight of a cell
        ("[-0xap-52, 0xap-52]", "[-0x7p-52, 0x7p-52]"),  # the reach of the angle
        ("line = 0x8cp-52", "line = 0x8ap-52"),  # the flat margin
    ],
)
def test_gappa_rejects_what_is_false(old: str, new: str) -> None:
    """A smaller bound or constant is not proved, so the hypotheses do not contradict each other."""
    program = test_bounds.tool("gappa")
    assert old in GAPPA
    changed = GAPPA.replace("ieee_64, ne", "ieee_64, zr").replace(old, new)
    status, output = test_bounds.said(program, "-Eno-auto-dichotomy", text=changed)
    assert status != 0
    assert "some properties were not satisfied" in output


def test_the_proof_speaks_of_the_plan() -> None:
    """Slope, margin and flat of the script are the plan's; the bounds that it takes from section 3 are proved there."""
    plan = normal_constants(Fraction(1), short=True)
    assert "slope = 0x14p-52;" in GAPPA
    assert plan["slope"] == 0x14 * 2.0**-52
    assert "margin = 0.5 - 0x4p-52;" in GAPPA
    assert plan["margin"] == 0.5 - 4 * 2.0**-52
    assert "line = 0x8cp-52;\nflat rnd= margin - line * t;" in GAPPA
    assert plan["flat"] == plan["margin"] - 0x8C * 2.0**-52
    normal = (test_bounds.CSRC / "proofs" / "normal.gappa").read_text()
    assert "r -/ R in [-0x4.ep-52, 0x4.ep-52]" in GAPPA
    assert "root -/ ROOT in [-0x4.ep-52, 0x4.ep-52]" in normal
    assert "side -/ SIDE in [-0x4.4p-52, 0x4.4p-52]" in GAPPA  # 2.2 and twice v's rounding
    assert "sine -/ SV in [-0x2.2p-52, 0x2.2p-52]" in normal
    assert "cosine -/ CV in [-0x1.dp-52, 0x1.dp-52]" in normal


# ------------------------------------------------------------------ the constants


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_plan_is_what_section_5_derives(ratio: Fraction) -> None:
    """Every constant of the plan covers what csrc/gaussian.md adds up, in rationals."""
    plan = normal_constants(ratio**2, short=ratio <= 2**21)
    u, width, t = Fraction(1, 2**52), plan["width"], ratio
    fraction = {name: Fraction(value) for name, value in plan.items()}
    assert abs(fraction["t"] - t) <= u * t
    assert abs(fraction["t"] + fraction["t_low"] - t) <= u**2 * t
    assert fraction["margin"] <= HALF - Fraction(13, 10) * u
    assert fraction["slope"] >= Fraction(132, 10) * u
    assert (
        fraction["flat"] <= HALF - Fraction(13, 10) * u - Fraction(132, 10) * u * t * Fraction(677, 100) or width == 64
    )
    assert fraction["half_cell"] >= t * (1 + 30 * u)
    assert fraction["half_angle"] >= Fraction(355, 113) * t / 2**width * (1 + 30 * u)
    r = Fraction(667, 100)  # R for U >= 2^-32
    assert fraction["twofold_margin"] <= HALF - t * r * (Fraction(1, 2**76) + Fraction(1, 2**97)) - Fraction(
        1, 2**39
    ) - Fraction(1, 2**50)
    known = Fraction(1, 2 ** (width + 64))
    cell = known * 2**32 if width == 32 else 0
    assert fraction["twofold_cell"] >= t * (Fraction(2**14, 24834) / 2**72 + cell) * (1 + Fraction(1, 2**20))  # 2^-72.6
    # a constant-work call leaves less than 2^-30 undecided
    if Fraction(1, 2**19) <= t <= 2**40:
        if plan["careful"] == _native.DOUBLE:
            left = 2 * (HALF - fraction["margin"]) + 2 * fraction["slope"] * t * Fraction(4, 5) + 3 * t / 2**60
        else:
            left = 2 * (HALF - fraction["twofold_margin"]) + 2 * fraction["twofold_cell"] * Fraction(1254, 1000) + Fraction(1, 2**32) + Fraction(1, 2**41)  # fmt: skip
        assert left < Fraction(1, 2**30)


# ------------------------------------------------------------------ the law


def noise(mech: Gaussian, n: int, key: bytes) -> np.ndarray:
    """n draws of the stream under one key, by the fused kernel, as a release of zeros sees them, in steps of the grid."""
    job, plan, stream = prepare_real(np.zeros(n), exponent=mech._exponent), mech._careful_plan, _native.StreamKey(key)

    def decide(i: int, value: float) -> float:
        return mech._result(mech._law_at(mech._reader(stream, plan.width), i, job, value), job)

    run(job, Draws(plan.address, False, mech._narrow, stream, 0, False, decide), 1)
    return (job.out / mech.granularity).astype(np.int64)


# 1 % of sigma moves the variance by 2 %, which is 14 standard errors of 2^20 draws.
LAW_RATIOS = [HALF, Fraction(10), Fraction(100), Fraction(10**6), Fraction(2**30), Fraction(2**45)]
N = 2**20


@cache
def law_of(ratio: Fraction) -> reference.Gaussian:
    return reference.Gaussian(ratio**2)


def judged(ratio: Fraction, draws: np.ndarray) -> list[str]:
    law = law_of(ratio)
    return gof.suspicions(draws, cache(law.cdf), law.quantile, law.variance(), law.fourth_moment())


def pairs(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    both = draws.reshape(-1, 2, 64)
    return both[:, 0].ravel().astype(float), both[:, 1].ravel().astype(float)


def dependence(ratio: Fraction, a: np.ndarray, b: np.ndarray) -> list[str]:
    """What is wrong with pairs that should be independent: a table of 8 by 8 parts, and correlations; each test at ALPHA / 4."""
    law, n, found = law_of(ratio), a.size, []
    edges = sorted({law.quantile(i / 8) for i in range(1, 8)})
    upto = np.array([0.0, *(law.cdf(k) for k in edges), 1.0])
    share = np.diff(upto)
    expected = n * np.outer(share, share)
    cells = np.zeros_like(expected)
    np.add.at(cells, (np.searchsorted(edges, a), np.searchsorted(edges, b)), 1)
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


@pytest.mark.parametrize("ratio", LAW_RATIOS, ids=str)
def test_exact_law(ratio: Fraction, secret: Callable[[str], bytes]) -> None:
    """2^20 draws show nothing at a false-alarm rate of 1e-6; their pairs show no dependence at another."""
    draws = noise(mechanism(ratio), N, secret(f"gaussian law {ratio}"))
    assert judged(ratio, draws) == []
    assert dependence(ratio, *pairs(draws)) == []


@pytest.mark.parametrize("ratio", [HALF, Fraction(2**20)], ids=str)
def test_exact_law_of_small_calls(ratio: Fraction) -> None:
    """The same of 300 calls of 3,500 values, each under the system's own key."""
    mech = mechanism(ratio)
    draws = np.concatenate([mech.release(np.zeros(3500)) for _ in range(300)])
    assert judged(ratio, draws.astype(np.int64)) == []


@pytest.mark.parametrize("offset", [Fraction(1, 4), HALF, Fraction(-3, 8)], ids=str)
def test_exact_law_off_the_grid(offset: Fraction, secret: Callable[[str], bytes]) -> None:
    """Values between grid points: chi-squared against the integral of the density about them."""
    ratio = Fraction(3, 4)
    mech, law, n = mechanism(ratio), law_of(ratio), N
    draws = mech.release(np.full(n, float(offset)))
    edges = range(-4, 5)
    upto = np.array([0.0, *(law.cdf(k, offset) for k in edges), 1.0])
    seen = np.bincount(np.searchsorted(list(edges), draws), minlength=10)
    expected = n * np.diff(upto)
    keep = expected >= 10
    assert gof.chi2_p(float(((seen - expected) ** 2 / expected)[keep].sum()), int(keep.sum()) - 1) >= gof.ALPHA


DEFECTIVE: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "biased sign": lambda x, rng: np.where((x < 0) & (rng.random(x.size) < 0.02), -x, x),
    "truncated tail": lambda x, rng: x[np.abs(x) <= np.quantile(np.abs(x), 0.9995)],
    "one-sided": lambda x, rng: np.abs(x),
    "shifted by a tenth of sigma": lambda x, rng: x + round(x.std() / 10),
    "a normal without its tail of the radius": lambda x, rng: np.rint(stats.norm.ppf(rng.uniform(2**-12, 1 - 2**-12, x.size)) * 10).astype(int),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTIVE)
def test_planted_defects_are_rejected(name: str, secret: Callable[[str], bytes]) -> None:
    """The same judge rejects draws that were tampered with."""
    ratio = Fraction(10)
    draws = DEFECTIVE[name](noise(mechanism(ratio), N, secret("defect")), np.random.default_rng(1))
    assert judged(ratio, draws) != []


@pytest.mark.parametrize("ratio", LAW_RATIOS, ids=str)
@pytest.mark.parametrize("factor", [Fraction(101, 100), Fraction(99, 100)])
def test_a_sigma_one_percent_off_is_rejected(ratio: Fraction, factor: Fraction, secret: Callable[[str], bytes]) -> None:
    """The judge holds the draws of another sigma to be of another law."""
    assert judged(ratio, noise(mechanism(ratio * factor), N, secret("scale"))) != []


def test_a_fresh_start_for_open_draws_is_rejected(secret: Callable[[str], bytes]) -> None:
    """A sampler that draws afresh where level 0 is undecided has another law: the undecided draws are the larger ones. The goodness-of-fit test finds it if a third are undecided."""
    ratio, n = Fraction(2**20), 2**18
    key, other = _native.StreamKey(secret("open")), _native.StreamKey(secret("fresh"))
    wide = {"half_angle": 0.15}  # as if a cell of the angle were that wide: level 0 leaves the larger draws open
    plan = made(ratio, short=True, **wide, slope=1.0, twofold_margin=-1.0)  # and nothing in C decides them
    found, fresh = plan.fill(key, 0, n, careful=False), made(ratio, short=True).fill(other, 0, n, careful=False)
    open_ = np.array([k is None for k in found])
    assert 0.2 < open_.mean() < 0.8
    defective = np.array([b if a is None else a for a, b in zip(found, fresh, strict=True)])
    right = np.array(made(ratio, short=True, **wide).fill(key, 0, n, careful=False))
    assert judged(ratio, right) == []
    assert judged(ratio, defective) != []


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
    draws = noise(mechanism(ratio), N, secret("pairs"))
    a, b = pairs(draws)
    assert dependence(ratio, a, b) == []
    assert dependence(ratio, *DEPENDENT[name](a, b)) != []
    assert dependence(ratio, a, np.roll(b, 1)) == []


# ------------------------------------------------------------------ the mechanism


def test_from_zcdp_and_calibrated() -> None:
    """rho is exact; a calibrated delta is reached and 0.1 % less sigma misses it."""
    norm = Sensitivity.from_l2(Fraction(9, 2))
    mech = Gaussian.from_zcdp(Fraction(1, 8), norm, granularity=2**-10)
    assert (mech.sigma_squared, mech.rho(), mech.granularity) == (18, Fraction(1, 8), 2**-10)
    assert mech.calibrated_for.rho == Fraction(1, 8)
    for epsilon, delta in ((1, 1e-6), (Fraction(1, 10), 1e-9), (8, 1e-3)):
        found = Gaussian.calibrated(epsilon, Sensitivity(3, 2), delta=delta)
        assert found.delta(epsilon) <= delta
        assert Gaussian(found.sigma * 0.999).delta(epsilon, Sensitivity(3, 2)) > delta
        assert (found.calibrated_for.epsilon, found.calibrated_for.delta) == (epsilon, Fraction(delta))
        assert found.sensitivity == Sensitivity(3, 2)
        assert found.rho() == 12 / (2 * found.sigma_squared)
        # Phi(m/2 - epsilon/m) - exp(epsilon) Phi(-m/2 - epsilon/m)
        m, cdf = found.sensitivity.l2 / found.sigma, stats.norm.cdf
        analytic = cdf(m / 2 - epsilon / m) - math.exp(epsilon) * cdf(-m / 2 - epsilon / m)
        assert found.delta(epsilon) == pytest.approx(analytic, rel=1e-5)


def test_sensitivity_rules() -> None:
    """A bare number is refused, and both ways are named; none at all where one is needed too."""
    for call in (
        lambda: Gaussian(1, sensitivity=2),
        lambda: Gaussian.from_zcdp(1, 2),
        lambda: Gaussian.calibrated(1, 2.0, delta=1e-6),
        lambda: Gaussian(1).delta(1, 3),
        lambda: Gaussian(1).rho(Fraction(3)),
    ):
        with pytest.raises(DTypeError, match=r"Sensitivity\(l0, linf\), or Sensitivity\.l2\(squared\)"):
            call()
    for call in (lambda: Gaussian(1).delta(1), lambda: Gaussian(1).rho()):
        with pytest.raises(ParameterError, match="sensitivity must be given"):
            call()
    mech = Gaussian(2, sensitivity=Sensitivity(2, 1, adjacency="substitution", unit="household"))
    assert (mech.adjacency, mech.unit, mech.rho()) == ("substitution", "household", Fraction(1, 2))
    assert mech.rho(Sensitivity.from_l2(1)) == Fraction(1, 8)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: Gaussian(), ParameterError, "sigma"),
        (lambda: Gaussian(1, sigma_squared=1), ParameterError, "sigma"),
        (lambda: Gaussian(0), ParameterError, "sigma must be positive"),
        (lambda: Gaussian(-1.5), ParameterError, "sigma must be positive"),
        (lambda: Gaussian(math.nan), ParameterError, "sigma must be finite"),
        (lambda: Gaussian(math.inf), ParameterError, "sigma must be finite"),
        (lambda: Gaussian(sigma_squared=0), ParameterError, "sigma_squared must be positive"),
        (lambda: Gaussian("1"), DTypeError, "sigma"),
        (lambda: Gaussian(True), DTypeError, "sigma"),
        (lambda: Gaussian(1, granularity=3), ParameterError, "granularity must be a power of two"),
        (lambda: Gaussian(1, granularity=0), ParameterError, "granularity"),
        (lambda: Gaussian(1, granularity=2**61), ParameterError, "2\\*\\*-60 to 2\\*\\*60"),
        (lambda: Gaussian(1, granularity=Fraction(1, 2**61)), ParameterError, "2\\*\\*-60 to 2\\*\\*60"),
        (
            lambda: Gaussian(1e300),
            ParameterError,
            "granularity, here from sensitivity/epsilon or sigma, must lie between",
        ),
        (lambda: Gaussian.from_zcdp(0, Sensitivity(1, 1)), ParameterError, "rho must be positive"),
        (lambda: Gaussian.calibrated(0, Sensitivity(1, 1), delta=0.1), ParameterError, "epsilon must be positive"),
        (lambda: Gaussian.calibrated(1, Sensitivity(1, 1), delta=0), ParameterError, "delta must be positive"),
        (lambda: Gaussian.calibrated(1, Sensitivity(1, 1), delta=1), ParameterError, "delta must lie strictly between"),
        (lambda: Gaussian(1).sample(3), DTypeError, "Gaussian has no sample"),
        (lambda: Gaussian(1).release([1]), DTypeError, "DiscreteGaussian"),
        (lambda: Gaussian(1).interval(1), ParameterError, "confidence"),
        (lambda: Gaussian(1, granularity=1).pmf(0.5), ParameterError, "multiple of the granularity"),
    ],
)
def test_refusals(call: Callable[[], object], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        call()


def test_constant_time_has_a_limit() -> None:
    """Beyond sigma / granularity = 2^40 too many draws take longer: refused. At it, the bulk's results."""
    values = np.zeros(5000)
    with pytest.raises(ParameterError, match=r"constant_time needs a granularity of at least sigma \* 2\*\*-40"):
        Gaussian(1, granularity=2.0**-41).release(values, constant_time=True)
    assert Gaussian(1, granularity=2.0**-41).release(values).any()
    mech = Gaussian(1, granularity=2.0**-40)
    key = _native.StreamKey(KEY)
    plan = mech._careful_plan
    assert mech.release(values, constant_time=True).any()
    assert plan.fill(key, 5, 700, careful=True) == plan.fill(key, 5, 700, careful=False)


def test_records() -> None:
    """A frozen value that pickles with its sensitivity and target; metadata that JSON holds; a repr that says what it is."""
    norm = Sensitivity(2, 3, adjacency="substitution", unit="household")
    for mech in (Gaussian.calibrated(Fraction(1, 2), norm, delta=1e-6, granularity=0.25), Gaussian.from_zcdp(1, norm), Gaussian(Fraction(1, 3)), Gaussian(2.0**900), Gaussian(2.0**-1040, granularity=2.0**-1060)):  # fmt: skip
        mech.release(np.zeros(10))
        again = pickle.loads(pickle.dumps(mech))
        assert again == mech
        assert hash(again) == hash(mech)
        assert (again.calibrated_for, again.sensitivity, again.granularity) == (
            mech.calibrated_for,
            mech.sensitivity,
            mech.granularity,
        )
        record = json.loads(json.dumps(mech.metadata()))
        assert record == json.loads(json.dumps(again.metadata()))
        assert Fraction(record["sigma_squared"]) == mech.sigma_squared
        assert record["granularity"] == mech.granularity
        assert (record["secure"], record["mechanism"]) == (True, "gaussian")
        assert repr(again) == repr(mech)
        assert mech.sigma > 0
        assert "<table>" in mech._repr_html_()
    assert json.loads(json.dumps(Gaussian.from_zcdp(Fraction(1, 3), norm).metadata()))["rho_spent"] == "1/3"
    assert "rho=1/3" in repr(Gaussian.from_zcdp(Fraction(1, 3), norm))
    assert Gaussian(2, granularity=1) != Gaussian(2, granularity=2)


def test_the_default_granularity() -> None:
    """The largest power of two that is at most sigma 2^-20."""
    for sigma in (1, 1.5, 2, Fraction(1, 3), 1e-30, 1e30, math.pi):
        mech = Gaussian(sigma)
        assert mech.granularity <= sigma * 2.0**-20 < 2 * mech.granularity


FIGURES = [
    Fraction(1, 8),
    HALF,
    Fraction(1),
    Fraction(19, 10),
    Fraction(3),
    Fraction(1000),
    Fraction(5000),
    Fraction(2**20),
]


@pytest.mark.parametrize("ratio", FIGURES, ids=str)
def test_figures(ratio: Fraction) -> None:
    """variance, pmf, cdf and interval against closed forms, on a grid of 1/4."""
    mech, law = Gaussian(ratio / 4, granularity=0.25), law_of(ratio)
    assert mech.variance == pytest.approx(law.variance() / 16, rel=1e-12)
    assert mech.stddev == pytest.approx(math.sqrt(law.variance()) / 4, rel=1e-12)
    ks = sorted({0, 1, -1, 2, *(int(float(ratio) * x) for x in (-8, -3, -1, 0.5, 2, 5, 8))})
    at = np.array(ks) / 4
    assert mech.pmf(at) == pytest.approx([law.pmf(k) for k in ks], rel=1e-10)
    assert mech.cdf(at) == pytest.approx([law.cdf(k) for k in ks], rel=1e-12)
    assert mech.cdf(at + 0.2) == pytest.approx([law.cdf(k) for k in ks], rel=1e-12)
    assert mech.pmf(0.0) == pytest.approx(law.pmf(0), rel=1e-10)
    for confidence, cells in ((0.95, 1), (0.5, 1), (0.99, 10**6)):
        h = round(mech.interval(confidence, cells=cells) * 4)
        assert (2 * law.cdf(h) - 1) ** cells >= confidence
        assert h == 0 or (2 * law.cdf(h - 1) - 1) ** cells < confidence


def test_a_grid_and_no_negative_zero() -> None:
    """Every result is a multiple of the grid and +0.0 the only zero; a sum at its ends saturates."""
    mech = Gaussian(0.3, granularity=0.25)
    found = mech.release(np.random.default_rng(1).normal(0, 1, 20_000))
    assert np.all(found * 4 == np.rint(found * 4))
    assert not np.any(np.signbit(found) & (found == 0))
    assert np.all(np.isfinite(Gaussian(1e250).release(np.array([1.7e308, -1.7e308] * 5000))))


def test_a_discrete_law_is_no_rounded_one(secret: Callable[[str], bytes]) -> None:
    """The rounded law has 1/12 more variance than the discrete one: the judge tells them apart up to sigma = 2."""
    for sigma in (1, 2):
        law = reference.DiscreteGaussian(Fraction(sigma) ** 2)
        draws = noise(mechanism(Fraction(sigma)), N, secret("rounded"))
        assert gof.suspicions(draws, cache(law.cdf), law.quantile, law.variance(), law.fourth_moment()) != []
        assert DiscreteGaussian(sigma).variance == pytest.approx(law.variance())


VECTORS = Path(__file__).parent / "vectors" / "gaussian.json"


@pytest.mark.parametrize(
    "vector", json.loads(VECTORS.read_text()) if VECTORS.exists() else [], ids=lambda v: v["ratio"]
)
def test_golden_outputs(vector: dict[str, str]) -> None:
    """Stream version 1, pinned: the first draws by the exact tier, and a digest of 20,000."""
    assert _native.STREAM_VERSION == 1
    mech, key = mechanism(Fraction(vector["ratio"])), _native.StreamKey(bytes.fromhex(vector["key"]))
    for isa in ISAS:
        draws = mech._bulk_plan.fill(key, int(vector["start"]), 20_000, careful=False, isa=isa)
        assert draws[:32] == vector["draws"]
        assert hashlib.sha256(repr(draws).encode()).hexdigest() == vector["sha256"]
