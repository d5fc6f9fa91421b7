# SPDX-License-Identifier: Apache-2.0
"""The real Laplace law on a grid: proved bounds, tiers, doubles rounded once, small worlds."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
import reference
import tiers
from laws import BY_NAME, expected, fixed, judged, noise, numbers, reference_of
from laws import laplace as mechanism
from layouts import same, singles, wild
from proofs import MODES, PROOFS, entered
from worlds import REALS, leaks, real_world

from dpfast import Gaussian, Laplace
from dpfast.errors import DTypeError, ParameterError

HALF = Fraction(1, 2)
GAPPA = (PROOFS / "laplace.gappa").read_text()
LAW = BY_NAME["laplace"]
RATIOS = LAW.scales
# A tier, the digits it takes, and about what its z is wrong by at height z and ratio t.
TIERS: dict[str, tuple[int, list[int], Callable[[float, float], float]]] = {
    "double": (tiers.DOUBLE, [31, 63, 64], lambda z, t: 2.0**-52 * (z + t + 1)),
    "extended": (tiers.EXTENDED, [64], lambda z, t: 2.0**-57 * t + 2.0**-51),
    "double-double": (tiers.DOUBLE_DOUBLE, [95, 127], lambda z, t: 2.0**-75 * t + 2.0**-39),
    "integer": (tiers.INTEGER, [31, 63, 64, 95, 127], lambda z, t: 2.0**-39),
}


# ------------------------------------------------------------------ proofs


def test_the_proof_speaks_of_the_code() -> None:
    """The plan's slope and margin are the script's; its hypothesis is what decide.gappa proves."""
    decide = (PROOFS / "decide.gappa").read_text()
    assert "relative_error = 0x6p-52;" in GAPPA
    for hypothesis in ("alpha in [-0x9p-54, 0x9p-54]", "beta in [-0x3.9ap-52, 0x3.9ap-52]", "EX in [0, 46]"):
        assert hypothesis in GAPPA
        assert hypothesis in decide
    assert "e - E - 0x9p-54 * E <= 0x1.9p-52" in decide
    for ratio in RATIOS:
        constants = tiers.constants(mechanism(ratio))
        t = float(ratio)
        assert constants["relative_error"] == 6 * 2.0**-52
        assert constants["margin"] == 0.5 - 6 * 2.0**-52 * (t + 2)
        assert constants["half_cell"] >= t / 2 * (1 + 2.0**-21) + 0.25
        assert constants["margin32"] == 0.5 - 3 * 2.0**-37 * (t + 1)
        assert constants["wide_c"] == 2**20
        assert constants["extended_margin"] == 0.5 - 2.0**-35


def test_the_limits_leave_less_than_they_promise() -> None:
    """Section 2: the share that each tier leaves undecided where the next takes over."""
    u = 2.0**-52
    assert 2 * 6 * u * (2 * 2.0**44 + 2) < 0.1  # bulk double
    assert 2.0**44 * 65 * math.log(2) + 1 < 2.0**51  # as nearest needs it, and below 2^53 as the narrow kernel does
    assert 2 * 6 * u * (2 * 2.0**17 + 2) + 2.0**17 * 2.0**-64 * 45 < 2.0**-30
    assert 2 * 2.0**-35 + 2.0**21 * 2.0**-64 * 45 < 2.0**-33
    assert 2 * (2.0**40 * 2.0**-72 + 2.0**-38) + 2.0**-32 < 2.0**-30
    assert 2 * (2.0**20 + 3) * 2.0**-59 + 2.0**-64 < 2.0**-37.9
    assert 2.0**21 * 2.0**-31 * (math.log(2.0**10) + 1) < 0.01  # 32-bit words, level 0
    plans = {ratio: tiers.constants(mechanism(ratio)) for ratio in RATIOS}
    for ratio, plan in plans.items():
        assert plan["width"] == (32 if ratio <= 2**21 else 64)
        assert plan["bulk"] == (tiers.DOUBLE if ratio <= 2**44 else tiers.DOUBLE_DOUBLE)
        limits = {2**17: tiers.DOUBLE, 2**21: tiers.EXTENDED, 2**40: tiers.DOUBLE_DOUBLE, 2**60: tiers.INTEGER}
        assert plan["constant_work"] == next(tier for limit, tier in limits.items() if ratio <= limit)
        assert tiers.narrow(mechanism(ratio)) == (ratio <= 2**44)


# ------------------------------------------------------------------ tiers


class Row(NamedTuple):
    """Digits of U, the sign, and where on the grid the noise begins."""

    prefix: int
    negative: bool
    offset: float


class Cells:
    """Planted digits, and the outcome of each whole cell, or None."""

    def __init__(self, bits: int, rows: list[Row], truth: list[int | None]) -> None:
        self.rows, self.truth = rows, truth
        prefixes, negative, offset = zip(*rows, strict=True)
        self.cells = tiers.Cells(bits, prefixes, truth, negative=negative, offset=offset)

    def tried(self, plan: tiers.Plan, name: str, isa: int) -> tuple[int, int]:
        """How many the tier decides, and how many of these not as the law has it."""
        return self.cells.tried(plan, TIERS[name][0], isa)


def begins(rng: random.Random, ratio: Fraction) -> list[float]:
    """Where the noise begins: on the grid, midway, nearly so, and anywhere."""
    near = float(min(Fraction(1, 4), ratio * Fraction(rng.random())))
    return [0.0, 0.5, -0.5, 2.0**-1074, -(2.0**-60), near, 0.5 - 2.0**-54, rng.random() - 0.5, -rng.random() / 2]


def planted(ratio: Fraction, name: str, bits: int, each: int = 6) -> list[Row]:
    """Cells at and beside half integers of f + S t E, or off by a tier's error; random; ends."""
    rng = random.Random(f"{ratio} {name} {bits}")
    law, error = reference.Laplace(ratio), TIERS[name][2]
    rows = []
    for offset in begins(rng, ratio):
        for negative in (False, True):
            cells = {1, 2, 2**bits - 1, 2**bits - 2, 2 ** (bits - 1), rng.getrandbits(bits)}
            cells |= {rng.getrandbits(bits) >> rng.randrange(bits), rng.getrandbits(bits)}
            first = (HALF - (-1 if negative else 1) * Fraction(offset)) % 1
            for _ in range(each):
                noise = first + int(ratio * Fraction(rng.choice([rng.random(), rng.uniform(0, min(40, bits * 0.69))])))
                off = error(float(noise), float(ratio)) * 2 ** rng.uniform(-3, 3) * rng.choice((-1, 1))
                cell = law.cell(noise, bits)
                cells |= {cell - 1, cell, cell + 1, law.cell(max(noise + Fraction(off), Fraction(0)), bits)}
            rows += [Row(cell, negative, offset) for cell in cells if 0 <= cell < 2**bits]
    return rows


@cache
def inputs(ratio: Fraction, name: str, bits: int) -> Cells:
    rows, exact = planted(ratio, name, bits), tiers.law(mechanism(ratio))
    return Cells(bits, rows, [exact.rounded(row.negative, row.prefix, bits, Fraction(row.offset)) for row in rows])


def digits(ratio: Fraction, name: str) -> list[int]:
    """How many digits the tier may get at this ratio: words are wide enough for it (section 2)."""
    return [bits for bits in TIERS[name][1] if ratio <= 2**21 or (bits not in {31, 95} and name != "extended")]


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_tiers_agree_on_random_and_planted_digits(ratio: Fraction, name: str, host: ctypes.CDLL) -> None:
    """Any rounding mode or flush, any instruction set: decided draws are the law's."""
    plan = tiers.constant_work_plan(mechanism(ratio))
    for bits in digits(ratio, name):
        cells = inputs(ratio, name, bits)
        for isa in tiers.ISAS:
            decided = {}
            for mode in MODES:
                for flush in (False, True):
                    with entered(host, mode, flush):
                        decided[mode], errors = cells.tried(plan, name, isa)
                    assert errors == 0, f"{mode} {flush=} {bits=} {isa=}"
            if name == "integer":
                assert len(set(decided.values())) == 1
            if name == "integer" or (name == "double-double" and ratio >= 1) or (Fraction(1, 3) <= ratio <= 2**30):
                assert min(decided.values()) > 30


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_exact_tier_is_the_reference(ratio: Fraction) -> None:
    """On planted cells python-flint's balls and mpmath have one outcome, or both see two."""
    law = reference.Laplace(ratio)
    for name in ("double", "double-double"):
        for bits in digits(ratio, name):
            cells = inputs(ratio, name, bits)
            for row, right in list(zip(cells.rows, cells.truth, strict=True))[::4]:
                assert law.rounded(row.negative, row.prefix, bits, Fraction(row.offset)) == right


DEFECTS: list[tuple[str, str, Fraction, int, dict[str, float]]] = [
    ("no error of z", "double", Fraction(1), 64, {"margin": 0.5, "relative_error": 0.0}),
    ("a tenth of it", "double", Fraction(10**9, 7), 64, {"margin": 0.5 - 0.6 * 2.0**-52 * 10**9 / 7, "relative_error": 0.6 * 2.0**-52}),
    ("no slope", "double", Fraction(10**9, 7), 64, {"margin": 0.5, "relative_error": 0.0}),
    ("no error of the short logarithm", "double", Fraction(2**21), 31, {"margin32": 0.5}),
    ("no width of the cell", "double", Fraction(37, 10), 31, {"half_cell": 0.0}),
    ("nine tenths of it", "double", Fraction(1000), 31, {"half_cell": 450.0}),
    ("no error of the extended tier", "extended", Fraction(2**21), 64, {"extended_margin": 0.5}),
    ("no width of the cell there", "extended", Fraction(37, 10), 64, {"half_cell": 0.0}),
    ("no error of the double-double tier", "double-double", Fraction(2**60), 127, {"double_double_margin": 0.5}),
    ("t 2^-77 for it", "double-double", Fraction(2**60), 127, {"double_double_margin": 0.5 - 2.0**-17}),
    ("2^-41 beside it, which is too little upwards", "double-double", Fraction(1), 95, {"double_double_margin": 0.5 - 2.0**-41}),
    ("the lower half of t", "double-double", Fraction(10**15, 3), 127, {"t_low": 0.0}),
    ("-ln U off by 2^-97", "integer", Fraction(2**60), 127, {"wide_c": 2**23}),
    ("a lift that wraps", "integer", Fraction(2**60), 127, {"wide_c": 2**128 - 2**20}),
    ("half of the cell", "integer", Fraction(37, 10), 31, {"wide_cell": 61}),
    ("t cut to 2^-40", "integer", Fraction(37, 10), 95, {"wide_t": math.floor(Fraction(37, 10) * 2**40) << 27}),
]  # fmt: skip


@pytest.mark.parametrize(("defect", "name", "ratio", "bits", "change"), DEFECTS, ids=[d[0] for d in DEFECTS])
def test_a_planted_defect_of_the_plan_is_caught(
    defect: str, name: str, ratio: Fraction, bits: int, change: dict[str, float], host: ctypes.CDLL
) -> None:  # fmt: skip
    """A plan that allows for less error decides some planted cells wrongly."""
    if name == "double-double" and len(tiers.ISAS) == 1:
        pytest.skip("this machine's builds have no double-double tier")
    rows, exact = planted(ratio, name, bits, each=30), tiers.law(mechanism(ratio))
    cells = Cells(bits, rows, [exact.rounded(row.negative, row.prefix, bits, Fraction(row.offset)) for row in rows])
    right = tiers.constants(mechanism(ratio))
    assert change.keys() <= right.keys()
    good, bad = tiers.Plan("laplace", **right), tiers.Plan("laplace", **right | change)
    errors = 0
    for mode in MODES:
        with entered(host, mode, flush=False):
            assert cells.tried(good, name, tiers.ISAS[-1])[1] == 0
            errors += cells.tried(bad, name, tiers.ISAS[-1])[1]
    assert errors > 0


# ------------------------------------------------------------------ the law, by statistics

N = 2**20


def test_a_fresh_start_for_open_draws_is_rejected(secret: Callable[[str], bytes]) -> None:
    """A sampler that draws a fresh U if level 0 is undecided, not more digits, has another law."""
    ratio, n = Fraction(2**21), 2**19
    plan, rng = tiers.constant_work_plan(mechanism(ratio)), np.random.default_rng(7)
    given = np.zeros(n, tiers.PLANTED)
    given["digits"][:, 0], given["negative"] = rng.integers(0, 2**31, n), rng.integers(0, 2, n)
    found, decided = tiers.tier(plan, tiers.DOUBLE, 31, given, tiers.ISAS[-1])
    assert 0.001 < 1 - decided.mean() < 0.02
    fresh = noise(LAW, mechanism(ratio), n, secret("fresh"))
    assert judged(LAW, ratio, fresh) == []
    assert judged(LAW, ratio, np.where(decided, found[:, 0].view(np.int64), fresh)) != []


# ------------------------------------------------------------------ the released doubles

EXPONENTS = [-1074, -1030, -149, -60, 0, 70, 900]


RELEASED = [
    Fraction(1, 2**60), Fraction(1, 3), Fraction(2**20 * 11, 8), Fraction(2**44), Fraction(2**45), Fraction(3**33), Fraction(2**60),
]  # fmt: skip


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("ratio", RELEASED, ids=str)
def test_results_are_rounded_once(ratio: Fraction, exponent: int, secret: Callable[[str], bytes]) -> None:
    """Wild doubles: the grid point's nearest double or float32, saturated; zero is +0.0."""
    mech, values, key = mechanism(ratio, exponent), wild(exponent, ratio), secret(f"wild {ratio}")
    right = expected(mech, values, key)
    for constant_work in (False, True):
        found = tiers.noised(mech, values, key, constant_work=constant_work)
        assert same(found, right)
        place = values.copy()
        assert tiers.noised(mech, place, key, constant_work=constant_work, out=place) is place
        assert same(place, right)
    assert np.isfinite(right).all()
    assert not np.signbit(right[right == 0]).any()
    largest = np.finfo(np.float64).max
    grid = Fraction(2) ** exponent
    assert all((Fraction(y) / grid).denominator == 1 or abs(y) == largest for y in right.tolist())
    if exponent >= -149:
        once = expected(mech, values, key, single=True).astype(np.float32)
        for constant_work in (False, True):
            assert same(tiers.noised(mech, values, key, constant_work=constant_work, dtype=np.float32), once)
        assert np.isfinite(once).all()
        short = singles(values)
        once = expected(mech, short.astype(np.float64), key, single=True).astype(np.float32)
        assert same(tiers.noised(mech, short, key), once)


def test_constant_time_is_refused_where_it_is_not() -> None:
    """Far below a step, a value midway between two points is left to slower tiers."""
    for coarse in (Laplace(1, 1, granularity=2**19), Gaussian(1, granularity=2**19)):
        says = r"^constant_time needs a granularity of at most 2\*\*18 times the scale"
        with pytest.raises(ParameterError, match=says):
            coarse.release(np.zeros(3), constant_time=True)
        assert coarse.release(np.full(3, 2.0**18)).shape == (3,)
    Laplace(1, 1, granularity=2**18).release(np.zeros(3), constant_time=True)


def test_the_exact_tier_rounds_as_the_kernels_do(secret: Callable[[str], bytes]) -> None:
    """The law in intervals, placed and rounded once, makes what C makes."""
    for ratio, exponent in zip(numbers("1/3 2^30 2^58 2^60"), (-1074, 0, -149, 900), strict=True):
        for dtype in (np.float64, np.float32):
            mech, values, key = mechanism(ratio, exponent), wild(exponent, ratio), secret("exact")
            if exponent < -149 and dtype == np.float32:
                continue
            assert same(tiers.by_the_exact_tier(mech, values, key, dtype), tiers.noised(mech, values, key, dtype=dtype))


@pytest.mark.parametrize("ratio", [Fraction(2**30), Fraction(2**44), Fraction(2**46), Fraction(2**50)], ids=str)
@pytest.mark.parametrize("exponent", [-140, 0, 60])
def test_sums_beside_ties_of_single_precision(ratio: Fraction, exponent: int, secret: Callable[[str], bytes]) -> None:
    """Sums beside the middle of two float32, nearer than a double can tell: rounded once."""
    mech, key, rng, grid = mechanism(ratio, exponent), secret("ties"), random.Random(1), Fraction(2) ** exponent
    read = tiers.reader(mech, tiers.StreamKey(key))
    planted_, right, twice = [], [], 0
    for i in range(200):
        power, noise = rng.choice([58, 60, 62]), tiers.law(mech).draw(read, i, Fraction(0))
        tie = rng.choice((-1, 1)) * (2**power + (2 * rng.randrange(2**23) + 1) * 2 ** (power - 24))
        count = tie - round(Fraction(noise, 2 ** (power - 52))) * 2 ** (power - 52)
        planted_.append(float(count * grid))
        assert Fraction(planted_[-1]) == count * grid
        right.append(reference.nearest_float((count + noise) * grid, single=True))
        twice += np.float32(float((count + noise) * grid)) != np.float32(right[-1])
    assert twice > 50
    values, once = np.array(planted_), np.array(right).astype(np.float32)
    for constant_work in (False, True):
        assert same(tiers.noised(mech, values, key, constant_work=constant_work, dtype=np.float32), once)
    assert tiers.by_the_exact_tier(mech, values, key, np.float32).tolist() == right


def test_draws_that_c_leaves_open_are_decided(monkeypatch: pytest.MonkeyPatch, secret: Callable[[str], bytes]) -> None:
    """If no tier in C decides, each value waits for the exact tier and is the same; missing too."""
    for ratio in (Fraction(5), Fraction(2**50)):
        mech, key = mechanism(ratio, -3), secret("open")
        values = np.array([0.0, 1.3, math.nan, -7.25, math.inf, 1e300, -0.0] * 9)
        bounds = {"missing": 2.5, "lower": -40, "upper": 2.0**60}
        right = {dtype: tiers.noised(mech, values, key, dtype=dtype, **bounds) for dtype in ("f8", "f4")}
        blind = mechanism(ratio, -3)
        constants = tiers.constants(blind) | tiers.BLIND
        tiers.plant_plan(monkeypatch, Laplace, constants)
        plan, offset = tiers.constant_work_plan(blind), [0.1] * 50
        assert plan.fill(tiers.StreamKey(key), 0, 50, constant_work=True, offset=offset) == [None] * 50
        for dtype, result in right.items():
            for constant_work in (False, True):
                found = tiers.noised(blind, values, key, dtype=dtype, constant_work=constant_work, **bounds)
                assert same(found, result)
        monkeypatch.undo()


@pytest.mark.parametrize("ratio", [Fraction(1, 4), Fraction(2**20 * 5, 4), Fraction(2**50)], ids=str)
@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_the_way_changes_nothing(
    ratio: Fraction, kind: str, secret: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads, slabs, layout, where a call is cut, care and instruction set: the same bits."""
    mech, key, n = mechanism(ratio, -10), secret("way"), 2**19 + 2**18 + 77
    with np.errstate(over="ignore"):
        sizes = 10.0 ** np.random.default_rng(6).integers(-9, 16, n)
        values = (np.random.default_rng(5).normal(size=n) * sizes).astype(kind)
    right = tiers.noised(mech, values, key)
    for threads in (2, 3):
        assert same(tiers.noised(mech, values, key, threads=threads), right)
    assert same(tiers.noised(mech, values[:20_011], key, constant_work=True), right[:20_011])
    for out in (np.zeros(2 * n, kind)[::2], np.zeros(n, np.dtype(kind).newbyteorder())):
        tiers.noised(mech, values, key, out=out, threads=2)
        assert same(np.ascontiguousarray(out).astype(kind), right)
    place = values.copy()
    tiers.noised(mech, place, key, out=place, threads=2)
    assert same(place, right)
    for begin, end in ((0, 1), (1, 12_345), (12_345, 12_346), (12_346, 60_001)):
        assert same(tiers.noised(mech, values[begin:end], key, first=begin), right[begin:end])
    some = values[:70_001]
    backwards = np.ascontiguousarray(some[::-1])[::-1]
    assert same(tiers.noised(mech, backwards, key), right[:70_001])
    tiers.slabs_of(monkeypatch, 5000)
    assert same(tiers.noised(mech, some, key), right[:70_001])
    for isa in tiers.ISAS:
        tiers.only_isa(monkeypatch, isa)
        for constant_work in (False, True):
            found = tiers.noised(mech, some, key, constant_work=constant_work)
            assert same(found, right[:70_001]), (isa, constant_work)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flush", [False, True])
def test_a_hosts_rounding_mode_changes_nothing(mode: str, flush: bool, host: ctypes.CDLL) -> None:
    """A mechanism made and used in any mode, subnormals flushed or not, releases as to nearest."""
    cases = [(ratio, e) for ratio in (Fraction(1, 3), Fraction(2**20 * 11, 8), Fraction(2**50)) for e in EXPONENTS]

    def work(ratio: Fraction, exponent: int, values: np.ndarray, shorts: list[np.ndarray]) -> list[np.ndarray]:
        mech = mechanism(ratio, exponent)
        found = [fixed(mech, values, constant_time=care) for care in (False, True)]
        for x in shorts:
            swapped = np.zeros(x.size, ">f4")
            found += [fixed(mech, x), fixed(mech, x, dtype=np.float64)]
            found.append(fixed(mech, x, out=swapped).byteswap().view("f4"))
        return found

    wrong = []
    for ratio, exponent in cases:
        values = np.tile(wild(exponent, ratio), 45)
        short = [singles(values), singles(values).astype(">f4")] if exponent >= -149 else []
        right = work(ratio, exponent, values, short)
        with entered(host, mode, flush):
            found = work(ratio, exponent, values, short)
        if not all(map(same, found, right)):
            wrong.append((str(ratio), exponent, [same(*pair) for pair in zip(found, right, strict=True)]))
    assert wrong == []


# ------------------------------------------------------------------ small worlds


@pytest.mark.parametrize("q", [Fraction(15, 16), Fraction(8, 10)])
@pytest.mark.parametrize(
    "bounds", [{"lower": -8, "upper": 8}, {"lower": 0, "upper": 6.5}, {"lower": -1.0, "upper": 1.0}]
)
def test_small_world(q: Fraction, bounds: dict[str, float]) -> None:
    """On and off the grid: ratios of at most e^(epsilon |x - x'| / sensitivity)."""
    laws = real_world(mechanism(Fraction(1)), q, REALS, **bounds)
    assert leaks(laws, q, 1.0) == 0
    # and not by less: adjacent grid points reach the bound
    at_two = real_world(mechanism(Fraction(1)), q, [2.0], **bounds)[2.0]
    assert bounds["upper"] < 8 or laws[3.0][8.0] == q**-16 * at_two[8.0]


def test_small_world_catches_what_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise clipped before the sum, values rounded before it, noise rounded alone: all leak."""
    q, bounds = Fraction(8, 10), {"lower": -8, "upper": 8}
    mech = mechanism(Fraction(1))
    assert leaks(real_world(mech, q, REALS, lambda z: max(min(z, Fraction(4)), Fraction(-4)), **bounds), q, 1.0) > 0
    for defect in (
        lambda law, read, i, x: law.draw(read, i, Fraction(round(x))),
        lambda law, read, i, x: Fraction(x) + law.draw(read, i, Fraction(0)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tiers, "steps_at", defect)
            assert leaks(real_world(mech, q, REALS, **bounds), q, 1.0) > 0


@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(1), Fraction(17, 10)], ids=str)
def test_small_world_of_the_digits(ratio: Fraction) -> None:
    """All 2^10 prefixes, both signs: decided cells of neighbours keep epsilon."""
    bits, law, plan = 10, reference.Laplace(ratio), tiers.constant_work_plan(mechanism(ratio))
    offsets = [0.0, -0.5, 0.5, 2.0**-40, -0.3]
    lowest, highest = {}, {}
    for offset in offsets:
        rows = [Row(cell, negative, offset) for negative in (False, True) for cell in range(2**bits)]
        exact = tiers.law(mechanism(ratio))
        truth = [exact.rounded(r.negative, r.prefix, bits, Fraction(offset)) for r in rows]
        cells = Cells(bits, rows, truth)
        for isa in tiers.ISAS:
            for name in ("double", "integer"):
                decided, errors = cells.tried(plan, name, isa)
                assert errors == 0
                assert decided > len(rows) - 100
        for k in range(-12, 13):
            low = Fraction(truth.count(k), 2 ** (bits + 1))
            # an undecided cell reaches from the outcome of its one end to that of the other
            ends = [(truth[at - 1] if at % 2**bits else 99, truth[at + 1] if (at + 1) % 2**bits else k) for at in range(len(rows)) if truth[at] is None]  # fmt: skip
            reached = sum(e is None or f is None or min(abs(e), abs(f)) <= abs(k) for e, f in ends)
            high = low + Fraction(reached, 2 ** (bits + 1))
            lowest[offset, k], highest[offset, k] = low, high
            probability = law.pmf(k, Fraction(offset))
            assert float(low) <= probability * (1 + 1e-12)
            assert probability <= float(high) * (1 + 1e-12) + 2.0**-bits
    for x in offsets:
        for other in offsets:
            most = math.exp(abs(x - other) / float(ratio))
            assert all(lowest[x, k] <= most * float(highest[other, k] + 2 ** -Fraction(bits)) for k in range(-12, 13))


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize("ratio", numbers("1/100 1/3 1 37/10 300"), ids=str)
@pytest.mark.parametrize("exponent", [-30, 0, 5])
def test_probabilities_and_variance(ratio: Fraction, exponent: int) -> None:
    """Against high precision; probabilities sum to 1, moments are theirs."""
    mech, law, grid = mechanism(ratio, exponent), reference_of("laplace", ratio), 2.0**exponent
    ks = np.arange(-int(60 * ratio) - 2, int(60 * ratio) + 3)
    mass = mech.pmf(ks * grid)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    for k in [*range(-5, 6), int(3 * ratio), int(30 * ratio)]:
        assert mech.pmf(k * grid) == pytest.approx(law.pmf(k), rel=1e-12, abs=1e-300)
        for within in (0, 0.25, 0.999):
            assert mech.cdf((k + within) * grid) == pytest.approx(law.cdf(k), rel=1e-12)
            assert mech.sf((k + within) * grid) == pytest.approx(law.cdf(-k - 1), rel=1e-12)
    assert np.abs(np.cumsum(mass) - mech.cdf(ks * grid)).max() < 1e-12
    assert mech.variance == pytest.approx(law.variance() * grid**2, rel=1e-12)
    assert mech.stddev == pytest.approx(math.sqrt(law.variance()) * grid, rel=1e-12)
    assert isinstance(mech.pmf(0), float)
    with pytest.raises(ParameterError, match="^noise must be a multiple of the granularity"):
        mech.pmf(grid / 2)
    with pytest.raises(DTypeError, match="^noise must be a real number"):
        mech.pmf("1")


@pytest.mark.parametrize("offset", [Fraction(1, 2), Fraction(-1, 2), Fraction(3, 10), Fraction(-1, 100)], ids=str)
@pytest.mark.parametrize("ratio", [Fraction(1, 3), Fraction(1), Fraction(20)], ids=str)
def test_what_is_said_of_values_off_the_grid(ratio: Fraction, offset: Fraction) -> None:
    """pmf within exp(granularity / 2b), cdf between its neighbours, the second moment bounded."""
    mech, law = mechanism(ratio), reference.Laplace(ratio)
    factor = math.exp(1 / (2 * float(ratio))) * (1 + 1e-12)
    moment = 0.0
    for k in range(-int(12 * ratio) - 20, int(12 * ratio) + 21):
        off = law.pmf(k, offset)
        moment += off * (k - float(offset)) ** 2
        assert mech.pmf(k) / factor <= off <= mech.pmf(k) * factor
        noise = float(k - offset)
        assert mech.cdf(noise - 1) * (1 - 1e-12) <= law.cdf(k, offset) <= mech.cdf(noise + 1) * (1 + 1e-12)
    assert moment <= (math.sqrt(2) * float(ratio) + 0.5) ** 2


@pytest.mark.parametrize("ratio", [*numbers("2^-60 1/3 1 2^60"), Fraction(2**20 * 7, 5)], ids=str)
@pytest.mark.parametrize("cells", [1, 1000])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(95, 100), 1 - Fraction(1, 10**12)], ids=float)
def test_interval(ratio: Fraction, cells: int, confidence: Fraction) -> None:
    """The least h on the grid (off it: test_real_intervals.py)."""
    found = mechanism(ratio, 4).interval(confidence, cells=cells, on_grid=True) / 16
    with mpmath.workprec(700):
        wanted = mpmath.mpf(confidence.numerator) / confidence.denominator
        rate = mpmath.mpf(ratio.denominator) / ratio.numerator

        def within(h: Fraction) -> mpmath.mpf:
            """P(|N| <= h + 1/2) in all cells."""
            return (1 - mpmath.exp(-(mpmath.mpf(h.numerator) / h.denominator + 0.5) * rate)) ** cells

        h = Fraction(tiers.law(mechanism(ratio)).half_width(confidence, cells))
        assert h <= Fraction(found) <= h * (1 + Fraction(1, 2**52))
        assert within(h) >= wanted
        assert h == 0 or within(h - 1) < wanted


@pytest.mark.parametrize("exponent", [-1074, -1000, 700, 900])
@pytest.mark.parametrize("ratio", [Fraction(1, 2**60), Fraction(1, 2000), Fraction(1), Fraction(2**60)], ids=str)
def test_figures_at_the_ends(ratio: Fraction, exponent: int) -> None:
    """No figure overflows into an exception, whatever the grid."""
    mech = mechanism(ratio, exponent)
    assert mech.granularity == math.ldexp(1, exponent)
    if ratio >= Fraction(1, 1000):
        spread = float(mpmath.ldexp(mpmath.sqrt(reference.Laplace(ratio).variance()), exponent))
        assert mech.stddev == pytest.approx(spread, rel=1e-12, abs=5e-324)
    assert mech.variance >= 0
    assert mech.pmf([0.0, mech.granularity]).sum() <= 1 + 1e-12
    assert mech.cdf([-1.0, 0.0, 1.0, math.inf, -math.inf])[[3, 4]].tolist() == [1, 0]
    assert mech.sf([-1.0, 0.0, 1.0, math.inf, -math.inf])[[3, 4]].tolist() == [0, 1]
    assert mech.cdf(-5e-324) <= 0.5 <= mech.sf(-5e-324)
    assert f"2**{exponent}" in repr(mech)
    assert "granularity" in mech._repr_html_()
    if exponent == 900:
        with pytest.raises(ParameterError, match="^noise must be a multiple"):
            mech.pmf(5e-324)


# ------------------------------------------------------------------ parameters and records


def test_a_grid_finer_than_float32_is_refused_for_it() -> None:
    """Below the smallest subnormal of the output there are no grid points to give."""
    mech = mechanism(Fraction(4), -150)
    with pytest.raises(ParameterError, match="^granularity must be at least the smallest float32, got 2\\*\\*-150"):
        mech.release(np.zeros(3, np.float32))
    assert mech.release(np.zeros(3, np.float32), dtype=np.float64).dtype == np.float64
    assert mechanism(Fraction(4), -149).release(np.zeros(3, np.float32)).dtype == np.float32


def test_each_parameter_makes_another_record() -> None:
    """Equal numbers, however written, make equal mechanisms, and a stream key from each."""
    assert Laplace(0.5, 1, granularity=2.0**-10) == Laplace(Fraction(1, 2), 1, granularity=Fraction(1, 1024))
    laws = [Laplace(1, 1), Laplace(1, 2), Laplace(1, 1, granularity=1), Laplace(2, 2)]
    assert len({tiers.record(law) for law in laws}) == 4
