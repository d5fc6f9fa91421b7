# SPDX-License-Identifier: Apache-2.0
"""The real Laplace law on a grid: proved bounds, tiers that agree, statistics, doubles rounded once, small worlds."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import pickle
import random
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gof
import mpmath
import numpy as np
import pytest
import reference
from conftest import ISAS
from test_bounds import CSRC, MODES, entered, host, said, tool  # noqa: F401  host is a fixture

from dpfast import DTypeError, Gaussian, InsecureKeyWarning, Laplace, ParameterError, Snapping, _native
from dpfast.exact import Digits
from dpfast.privacy.inputs import Inputs
from dpfast.release import engine
from dpfast.release.arrays import prepare_real
from dpfast.release.engine import Draws, run
from dpfast.testing import fixed_key

GAPPA = (CSRC / "proofs" / "laplace.gappa").read_text()
HALF = Fraction(1, 2)
RATIOS = [
    Fraction(1, 2**60), Fraction(1, 2**20), Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(1000),
    Fraction(2**17), Fraction(2**20 * 13, 9), Fraction(2**21), Fraction(10**9, 7), Fraction(10**12), Fraction(2**40),
    Fraction(2**44), Fraction(10**15, 3), Fraction(2**60),
]  # fmt: skip
# A tier, the digits it takes, and about what its z is wrong by at height z and ratio t.
TIERS: dict[str, tuple[int, list[int], Callable[[float, float], float]]] = {
    "double": (_native.DOUBLE, [31, 63, 64], lambda z, t: 2.0**-52 * (z + t + 1)),
    "twofold": (_native.TWOFOLD, [95, 127], lambda z, t: 2.0**-75 * t + 2.0**-39),
    "integer": (_native.INTEGER, [31, 63, 64, 95, 127], lambda z, t: 2.0**-39),
}


def mechanism(ratio: Fraction, exponent: int = 0) -> Laplace:
    """Of this ratio of scale and granularity, the latter 2^exponent."""
    return Laplace(1, ratio * Fraction(2) ** exponent, granularity=Fraction(2) ** exponent)


# ------------------------------------------------------------------ proofs


@pytest.mark.parametrize("mode", MODES)
def test_gappa_proves_the_roundings(mode: str) -> None:
    """laplace.gappa: every goal is proved, in this rounding mode."""
    program = tool("gappa")
    assert GAPPA.count("float<ieee_64, ne>") == 1
    assert said(program, text=GAPPA.replace("ieee_64, ne", f"ieee_64, {mode}")) == (0, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0x4.cdp-52", "0x4.4p-52"),  # z's bound
        ("slope = 0x6p-52", "slope = 0x4.8p-52"),
        ("beta in [-0x3.9ap-52, 0x3.9ap-52]", "beta in [-0x4.9ap-52, 0x4.9ap-52]"),  # a worse logarithm
        ("F in [-0.5, 0.5]", "F in [-8, 8]"),  # where the noise begins
    ],
)
def test_gappa_rejects_what_is_false(old: str, new: str) -> None:
    """A smaller bound or a larger error is not proved, so the hypotheses do not contradict each other."""
    program = tool("gappa")
    assert old in GAPPA
    changed = GAPPA.replace("ieee_64, ne", "ieee_64, zr").replace(old, new)
    status, output = said(program, "-Eno-auto-dichotomy", text=changed)
    assert status != 0
    assert "some properties were not satisfied" in output


def test_the_proof_speaks_of_the_code() -> None:
    """Slope and margin of the plan are those of the script, and its hypothesis is what decide.gappa proves."""
    decide = (CSRC / "proofs" / "decide.gappa").read_text()
    assert "slope = 0x6p-52;" in GAPPA
    for hypothesis in ("alpha in [-0x9p-54, 0x9p-54]", "beta in [-0x3.9ap-52, 0x3.9ap-52]", "EX in [0, 46]"):
        assert hypothesis in GAPPA
        assert hypothesis in decide
    assert "e - E - 0x9p-54 * E <= 0x1.9p-52" in decide
    for ratio in RATIOS:
        constants = mechanism(ratio)._constants()
        t = float(ratio)
        assert constants["slope"] == 6 * 2.0**-52
        assert constants["margin"] == 0.5 - 6 * 2.0**-52 * (t + 2)
        assert constants["half_cell"] >= t / 2 * (1 + 2.0**-21)
        assert constants["flat"] == 0.5 - 6 * 2.0**-52 * (23 * t + 2)
        assert constants["wide_c"] == 2**20


def test_the_limits_leave_less_than_they_promise() -> None:
    """Section 2: the share that each tier leaves undecided where the next takes over."""
    u = 2.0**-52
    assert 2 * 6 * u * (2 * 2.0**44 + 2) < 0.1  # bulk double
    assert 2.0**44 * 65 * math.log(2) + 1 < 2.0**51  # as nearest needs it, and below 2^53 as the narrow kernel does
    assert 2 * 6 * u * (2 * 2.0**17 + 2) + 2.0**17 * 2.0**-64 * 45 < 2.0**-30
    assert 2 * (2.0**40 * 2.0**-72 + 2.0**-38) + 2.0**-32 < 2.0**-30
    assert 2 * (2.0**20 + 3) * 2.0**-59 + 2.0**-64 < 2.0**-37.9
    assert 2.0**21 * 2.0**-31 * (math.log(2.0**10) + 1) < 0.01  # 32-bit words, level 0
    plans = {ratio: mechanism(ratio)._constants() for ratio in RATIOS}
    for ratio, plan in plans.items():
        assert plan["width"] == (32 if ratio <= 2**21 else 64)
        assert plan["bulk"] == (_native.DOUBLE if ratio <= 2**44 else _native.TWOFOLD)
        careful = _native.DOUBLE if ratio <= 2**17 else _native.TWOFOLD if ratio <= 2**40 else _native.INTEGER
        assert plan["careful"] == careful
        assert mechanism(ratio)._narrow == (ratio <= 2**44)


# ------------------------------------------------------------------ tiers


PLANTED = np.dtype([("digits", np.uint64, 4), ("offset", np.float64), ("negative", np.int32), ("sine", np.int32)])


class Row(NamedTuple):
    """Digits of U, the sign, and where on the grid the noise begins."""

    prefix: int
    negative: bool
    offset: float


class Cells:
    """Planted digits, and the outcome of each whole cell, or None."""

    def __init__(self, bits: int, rows: list[Row], truth: list[int | None]) -> None:
        self.bits, self.rows, self.truth = bits, rows, truth
        self.planted = np.zeros(len(rows), PLANTED)
        assert PLANTED.itemsize == _native.ffi.sizeof("dpf_planted")
        for at, row in zip(self.planted, rows, strict=True):
            aligned = row.prefix << (128 - bits)
            at["digits"][:2] = (row.prefix, 0) if bits <= 64 else (aligned >> 64, aligned % 2**64)
            at["offset"], at["negative"] = row.offset, row.negative
        self.right = np.array([[(k or 0) % 2**64, (k or 0) >> 64 & 2**64 - 1] for k in truth], np.uint64)
        self.none = np.array([k is None for k in truth])

    def tried(self, plan: _native.Plan, name: str, isa: int) -> tuple[int, int]:
        """How many the tier decides, and how many of these not as the law has it."""
        n = len(self.rows)
        found, decided = np.zeros((n, 2), np.uint64), np.zeros(n, np.uint8)
        ffi = _native.ffi
        _native.lib.dpf_tier(
            isa, plan._plan, TIERS[name][0], self.bits, n, ffi.from_buffer("dpf_planted[]", self.planted),
            ffi.from_buffer("dpf_u128[]", found), ffi.from_buffer("uint8_t[]", decided),
        )  # fmt: skip
        sure = decided.astype(bool)
        return int(sure.sum()), int((sure & (self.none | (found != self.right).any(1))).sum())


def begins(rng: random.Random, ratio: Fraction) -> list[float]:
    """Where the noise begins: on the grid, midway, nearly so, and anywhere."""
    near = float(min(Fraction(1, 4), ratio * Fraction(rng.random())))
    return [0.0, 0.5, -0.5, 2.0**-1074, -(2.0**-60), near, 0.5 - 2.0**-54, rng.random() - 0.5, -rng.random() / 2]


def planted(ratio: Fraction, name: str, bits: int, each: int = 6) -> list[Row]:
    """Cells at and beside half integers of f + S t E, some off them by as much as the tier may err; random ones; the ends."""
    rng = random.Random(f"{ratio} {name} {bits}")
    law, error = reference.Laplace(ratio), TIERS[name][2]
    rows = []
    for offset in begins(rng, ratio):
        for negative in (False, True):
            cells = {1, 2, 2**bits - 1, 2**bits - 2, 2 ** (bits - 1), rng.getrandbits(bits)}
            cells |= {rng.getrandbits(bits) >> rng.randrange(bits), rng.getrandbits(bits)}
            first = (HALF - (-1 if negative else 1) * Fraction(offset)) % 1
            for _ in range(each):
                height = first + int(ratio * Fraction(rng.choice([rng.random(), rng.uniform(0, min(40, bits * 0.69))])))
                off = error(float(height), float(ratio)) * 2 ** rng.uniform(-3, 3) * rng.choice((-1, 1))
                cell = law.cell(height, bits)
                cells |= {cell + beside for beside in (-1, 0, 1)} | {
                    law.cell(max(height + Fraction(off), Fraction(0)), bits)
                }
            rows += [Row(cell, negative, offset) for cell in cells if 0 <= cell < 2**bits]
    return rows


@cache
def inputs(ratio: Fraction, name: str, bits: int) -> Cells:
    rows, exact = planted(ratio, name, bits), mechanism(ratio)._law
    return Cells(bits, rows, [exact.rounded(row.negative, row.prefix, bits, Fraction(row.offset)) for row in rows])


def digits(ratio: Fraction, name: str) -> list[int]:
    """How many digits the tier may be given at this ratio: words are wide enough for it (section 2)."""
    return [bits for bits in TIERS[name][1] if ratio <= 2**21 or bits not in {31, 95}]


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_tiers_agree_on_random_and_planted_digits(ratio: Fraction, name: str, host: ctypes.CDLL) -> None:  # noqa: F811
    """In every rounding mode, subnormals flushed or not, on every instruction set: what is decided is the law's."""
    plan = mechanism(ratio)._careful_plan
    for bits in digits(ratio, name):
        cells = inputs(ratio, name, bits)
        for isa in ISAS:
            decided = {}
            for mode in MODES:
                for flush in (False, True):
                    with entered(host, mode, flush):
                        decided[mode], errors = cells.tried(plan, name, isa)
                    assert errors == 0, f"{mode} {flush=} {bits=} {isa=}"
            if name == "integer":
                assert len(set(decided.values())) == 1
            if name == "integer" or (name == "twofold" and ratio >= 1) or (Fraction(1, 3) <= ratio <= 2**30):
                assert min(decided.values()) > 30


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_exact_tier_is_the_reference(ratio: Fraction) -> None:
    """On the planted cells python-flint's balls and mpmath's numbers have one outcome, or see both two in the cell."""
    law = reference.Laplace(ratio)
    for name in ("double", "twofold"):
        for bits in digits(ratio, name):
            cells = inputs(ratio, name, bits)
            for row, right in list(zip(cells.rows, cells.truth, strict=True))[::4]:
                assert law.rounded(row.negative, row.prefix, bits, Fraction(row.offset)) == right


DEFECTS: list[tuple[str, str, Fraction, int, dict[str, float]]] = [
    ("no error of z", "double", Fraction(1), 64, {"margin": 0.5, "slope": 0.0}),
    ("a tenth of it", "double", Fraction(10**9, 7), 64, {"margin": 0.5 - 0.6 * 2.0**-52 * 10**9 / 7, "slope": 0.6 * 2.0**-52}),
    ("no slope", "double", Fraction(10**9, 7), 64, {"margin": 0.5, "slope": 0.0}),
    ("no width of the cell", "double", Fraction(37, 10), 31, {"half_cell": 0.0}),
    ("nine tenths of it", "double", Fraction(1000), 31, {"half_cell": 450.0}),
    ("no error of the twofold tier", "twofold", Fraction(2**60), 127, {"twofold_margin": 0.5}),
    ("t 2^-77 for it", "twofold", Fraction(2**60), 127, {"twofold_margin": 0.5 - 2.0**-17}),
    ("2^-41 beside it, which is too little upwards", "twofold", Fraction(1), 95, {"twofold_margin": 0.5 - 2.0**-41}),
    ("the lower half of t", "twofold", Fraction(10**15, 3), 127, {"t_low": 0.0}),
    ("-ln U off by 2^-97", "integer", Fraction(2**60), 127, {"wide_c": 2**23}),
    ("a lift that wraps", "integer", Fraction(2**60), 127, {"wide_c": 2**128 - 2**20}),
    ("half of the cell", "integer", Fraction(37, 10), 31, {"wide_cell": 61}),
    ("t cut to 2^-40", "integer", Fraction(37, 10), 95, {"wide_t": math.floor(Fraction(37, 10) * 2**40) << 27}),
]  # fmt: skip


@pytest.mark.parametrize(("defect", "name", "ratio", "bits", "change"), DEFECTS, ids=[d[0] for d in DEFECTS])
def test_a_planted_defect_of_the_plan_is_caught(
    defect: str, name: str, ratio: Fraction, bits: int, change: dict[str, float], host: ctypes.CDLL  # noqa: F811
) -> None:  # fmt: skip
    """A plan that allows for less error decides some planted cells wrongly."""
    if name == "twofold" and len(ISAS) == 1:
        pytest.skip("this machine's builds have no twofold tier")
    rows, exact = planted(ratio, name, bits, each=30), mechanism(ratio)._law
    cells = Cells(bits, rows, [exact.rounded(row.negative, row.prefix, bits, Fraction(row.offset)) for row in rows])
    right = mechanism(ratio)._constants()
    assert change.keys() <= right.keys()
    good, bad = _native.Plan("laplace", **right), _native.Plan("laplace", **right | change)
    errors = 0
    for mode in MODES:
        with entered(host, mode, flush=False):
            assert cells.tried(good, name, ISAS[-1])[1] == 0
            errors += cells.tried(bad, name, ISAS[-1])[1]
    assert errors > 0


def some_offsets(n: int, seed: object) -> list[float]:
    rng = random.Random(str(seed))
    kinds: list[Callable[[], float]] = [
        lambda: 0.0, lambda: 0.5, lambda: -0.5, lambda: rng.random() - 0.5, lambda: 2.0 ** -rng.randrange(1, 1074),
    ]  # fmt: skip
    return [rng.choice(kinds)() for _ in range(n)]


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_the_stream_maps_to_the_exact_law(ratio: Fraction, secret: Callable[[str], bytes]) -> None:
    """Draws as C makes them, in bulk or with care, are those of the exact tier from the same digits, wherever a call begins and ends."""
    mech, key = mechanism(ratio), _native.StreamKey(secret("stream"))
    plan, start, n = mech._bulk_plan, 2**40 - 150, 220
    offset = some_offsets(n, ratio)
    read = mech._reader(key, plan.width)
    exact = [mech._law.draw(read, start + i, Fraction(offset[i])) for i in range(n)]
    rng = random.Random(str(ratio))
    for isa in ISAS:
        for careful in (False, True):
            cuts = sorted({0, n, *(rng.randrange(n) for _ in range(4))})
            found = [
                k
                for begin, end in pairwise(cuts)
                for k in plan.fill(key, start + begin, end - begin, careful=careful, isa=isa, offset=offset[begin:end])
            ]
            assert all(k in (None, right) for k, right in zip(found, exact, strict=True))
            # Midway between grid points a tiny ratio leaves the sign to decide, and C does not look at it alone.
            assert found.count(None) == 0 or ratio < Fraction(1, 2**18)


@pytest.mark.parametrize("ratio", [Fraction(1, 3), Fraction(2**21), Fraction(10**9), Fraction(2**46)], ids=str)
def test_bulk_and_careful_draws_are_equal(ratio: Fraction, secret: Callable[[str], bytes]) -> None:
    """Of 30,000 draws, so that draws open after level 0 come in whole batches."""
    mech, key, n = mechanism(ratio), _native.StreamKey(secret("equal")), 30_000
    offset = some_offsets(n, ratio)
    draws = mech._bulk_plan.fill(key, 12_345, n, careful=True, isa=0, offset=offset)
    for isa in ISAS:
        for careful in (False, True):
            assert mech._bulk_plan.fill(key, 12_345, n, careful=careful, isa=isa, offset=offset) == draws


@pytest.mark.parametrize("ratio", [Fraction(1, 3), Fraction(50), Fraction(10**15), Fraction(2**60)], ids=str)
@pytest.mark.parametrize("negative", [False, True])
def test_draws_left_open_at_every_level_are_decided_by_the_next(ratio: Fraction, negative: bool) -> None:
    """The exact tier, given digits planted on a threshold for three levels, goes on until they leave it."""
    law, mech, offset = reference.Laplace(ratio), mechanism(ratio), Fraction(1, 8)
    k = max(1, int(ratio))
    bits = [64, 128, 192, 704, 1216]
    cell = law.cell(k + HALF - (-1 if negative else 1) * offset, bits[3])  # there f + S t E is S (k + 1/2)
    for side, beyond in [(0, 1), (2**512 - 1, 0)]:
        prefixes = [*(cell >> (bits[3] - b) for b in bits[:4]), cell << 512 | side]
        raw = [Digits(int(negative) << b | p, b + 1) for p, b in zip(prefixes, bits, strict=True)]
        assert [mech._law.rounded(negative, p, b, offset) for p, b in zip(prefixes[:4], bits, strict=False)] == [
            None
        ] * 4
        found = mech._law.draw(lambda i, r, raw=raw: raw[r], 0, offset)
        assert found == (-(k + beyond) if negative else k + beyond)


# ------------------------------------------------------------------ the law, by statistics


def noised(mech: Laplace, values: np.ndarray, key: bytes, first: int = 0, **options: Any) -> np.ndarray:
    """A release whose stream key is given: the engine without the derivation."""
    careful, threads = options.pop("careful", None), options.pop("threads", 1)
    arguments = [options.pop(name, None) for name in ("out", "dtype", "lower", "upper")]
    public = Inputs(None, options.pop("missing", None))
    job = prepare_real(values, *arguments, public, exponent=mech._exponent, bound=mech._bound)
    chosen, plan = mech._plan(job.counts.size, constant_time=False)
    stream = _native.StreamKey(key)

    def decide(i: int, value: float) -> float:
        return mech._result(mech._law_at(mech._reader(stream, plan.width), i, job, value), job)

    run(
        job,
        Draws(plan.address, False, mech._narrow, stream, first, chosen if careful is None else careful, decide),
        threads,
    )
    assert not options
    return job.out


LAW_RATIOS = [
    Fraction(1, 4), Fraction(1), Fraction(10), Fraction(1000), Fraction(2**21), Fraction(10**9), Fraction(2**44), Fraction(2**47),
]  # fmt: skip
N = 2**20  # 1 % of scale moves the variance by 2 %, which is 9 standard errors


def steps_of(mech: Laplace, n: int, key: bytes, value: float = 0.0) -> np.ndarray:
    """n noises in steps of the grid, of one value."""
    return (noised(mech, np.full(n, value), key) / mech.granularity).astype(np.int64)


def judged(ratio: Fraction, draws: np.ndarray) -> list[str]:
    law = reference.Laplace(ratio)
    return gof.suspicions(draws, law.cdf, law.quantile, law.variance(), law.fourth_moment())


@pytest.mark.parametrize("ratio", LAW_RATIOS, ids=str)
def test_exact_law(ratio: Fraction, secret: Callable[[str], bytes]) -> None:
    """2^20 draws show nothing at a false-alarm rate of 1e-6."""
    assert judged(ratio, steps_of(mechanism(ratio, 3), N, secret(f"law {ratio}"))) == []


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(2**21), Fraction(2**42)], ids=str)
def test_exact_law_of_small_calls(ratio: Fraction) -> None:
    """The same of 300 calls of 3,500 values, each under the system's own key."""
    mech = mechanism(ratio)
    draws = np.concatenate([mech.release(np.zeros(3500)) for _ in range(300)])
    assert judged(ratio, draws.astype(np.int64)) == []


@pytest.mark.parametrize("ratio", [Fraction(1, 4), Fraction(3), Fraction(2**21)], ids=str)
@pytest.mark.parametrize("offset", [Fraction(3, 10), HALF, -HALF, Fraction(-1, 1000)], ids=str)
def test_exact_law_off_the_grid(ratio: Fraction, offset: Fraction, secret: Callable[[str], bytes]) -> None:
    """A value between grid points: the nearest one comes by the law about the value itself."""
    law, begin = reference.Laplace(ratio), Fraction(float(offset))
    draws = steps_of(mechanism(ratio), N, secret(f"off {ratio} {offset}"), float(offset))

    def p_value(about: Fraction) -> float:
        edges, mass = gof.bins(law.quantile, lambda k: law.cdf(k, about), N)
        seen = np.bincount(np.searchsorted(np.array(edges), draws, side="left"), minlength=len(mass))
        expected = np.array(mass) * N
        return gof.chi2_p(float(((seen - expected) ** 2 / expected).sum()), len(mass) - 1)

    assert p_value(begin) >= gof.ALPHA
    assert ratio > 3 or abs(offset) < Fraction(1, 10) or p_value(Fraction(0)) < gof.ALPHA  # rounded before the noise


TAMPERED: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "doubled zero": lambda x, rng: np.where((np.abs(x) == 1) & (rng.random(x.size) < 0.2), 0, x),
    "biased sign": lambda x, rng: np.where((x < 0) & (rng.random(x.size) < 0.02), -x, x),
    "truncated tail": lambda x, rng: x[np.abs(x) <= np.quantile(np.abs(x), 0.9995)],
    "shifted by one": lambda x, rng: np.where(rng.random(x.size) < 0.1, x + 1, x),
    "rounded down": lambda x, rng: np.where((x > 0) & (rng.random(x.size) < 0.1), x - 1, x),
    "one-sided": lambda x, rng: np.abs(x),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_planted_defects_are_rejected(name: str, secret: Callable[[str], bytes]) -> None:
    """The same judge rejects draws that were tampered with."""
    for ratio in (Fraction(1), Fraction(10)):
        draws = TAMPERED[name](steps_of(mechanism(ratio), N, secret("defect")), np.random.default_rng(1))
        assert judged(ratio, draws) != []


@pytest.mark.parametrize("ratio", [ratio for ratio in LAW_RATIOS if ratio >= 1], ids=str)
@pytest.mark.parametrize("factor", [Fraction(101, 100), Fraction(99, 100)])
def test_a_scale_one_percent_off_is_rejected(ratio: Fraction, factor: Fraction, secret: Callable[[str], bytes]) -> None:
    """The judge holds the draws of another scale to be of another law."""
    assert judged(ratio, steps_of(mechanism(ratio * factor), N, secret("scale"))) != []


def test_a_fresh_start_for_open_draws_is_rejected(secret: Callable[[str], bytes]) -> None:
    """A sampler that draws a fresh U where level 0 is undecided, in place of more digits, has another law."""
    ratio, n = Fraction(2**21), 2**19
    plan, rng = mechanism(ratio)._careful_plan, np.random.default_rng(7)
    given = np.zeros(n, PLANTED)
    given["digits"][:, 0], given["negative"] = rng.integers(0, 2**31, n), rng.integers(0, 2, n)
    found, decided = np.zeros((n, 2), np.int64), np.zeros(n, np.uint8)
    ffi = _native.ffi
    _native.lib.dpf_tier(
        0, plan._plan, _native.DOUBLE, 31, n, ffi.from_buffer("dpf_planted[]", given),
        ffi.from_buffer("dpf_u128[]", found), ffi.from_buffer("uint8_t[]", decided),
    )  # fmt: skip
    assert 0.001 < 1 - decided.mean() < 0.02
    fresh = steps_of(mechanism(ratio), n, secret("fresh"))
    assert judged(ratio, fresh) == []
    assert judged(ratio, np.where(decided == 1, found[:, 0], fresh)) != []


# ------------------------------------------------------------------ the released doubles

EXPONENTS = [-1074, -1030, -149, -60, 0, 70, 900]


def wild(exponent: int, seed: object) -> np.ndarray:
    """Doubles that a careless sum, quotient or rounding gets wrong on the grid of 2^exponent."""
    rng = np.random.default_rng(zlib.crc32(str(seed).encode()))
    grid = Fraction(2) ** exponent
    found = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -1.7976931348623157e308, 3.4028235e38, 0.1]
    halves = [
        1,
        3,
        5,
        2**52 - 1,
        2**53 - 1,
        2**53 + 1,
        2**54 - 2,
        -1,
        -3,
        -(2**53) + 1,
    ]  # ties, and beside the last of them
    counts = [Fraction(n, 2) for n in halves]
    counts += [Fraction(2**power + beside) for power in (51, 52, 53, 54, 60, 70) for beside in (-1, 0, 1, 3)]
    counts += [Fraction(float(x)) for x in rng.normal(size=10) * 10.0 ** rng.integers(-8, 16, 10)]
    counts += [-counts[i] for i in rng.integers(0, len(counts), 20)]
    for count in counts:
        try:
            found.append(float(count * grid))
        except OverflowError:
            continue
    bits = rng.integers(0, 2**63, 20).astype(np.int64).view(np.float64)
    found += [float(x) for x in np.concatenate([bits, -bits]) if math.isfinite(x)]
    return np.array(found)


def expected(
    mech: Laplace, values: np.ndarray, key: bytes, first: int = 0, single: bool = False,
    lower: float = -math.inf, upper: float = math.inf,
) -> np.ndarray:  # fmt: skip
    """The exact sum, rounded to the grid and then once to a float, by rationals alone."""
    stream, grid = _native.StreamKey(key), Fraction(2) ** mech._exponent
    read, bound, found = mech._reader(stream, mech._careful_plan.width), mech._bound, []
    for i, value in enumerate(values.reshape(-1).tolist()):
        x = Fraction(value) if bound is None else min(max(Fraction(value), -Fraction(bound)), Fraction(bound))
        near = reference.nearest_float(mech._law.draw(read, first + i, x / grid) * grid, single)
        found.append(min(max(near, lower), upper))
    return np.array(found).reshape(values.shape)


def same(found: np.ndarray, right: np.ndarray) -> bool:
    """Bit by bit, the sign of zero included."""
    kind = np.uint32 if found.dtype == np.float32 else np.uint64
    return np.array_equal(found.view(kind), right.astype(found.dtype).view(kind))


RELEASED = [
    Fraction(1, 2**60), Fraction(1, 3), Fraction(2**20 * 11, 8), Fraction(2**44), Fraction(2**45), Fraction(3**33), Fraction(2**60),
]  # fmt: skip


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("ratio", RELEASED, ids=str)
def test_results_are_rounded_once(ratio: Fraction, exponent: int, secret: Callable[[str], bytes]) -> None:
    """Of wild doubles: the nearest double, or float32, of the exact grid point, even on ties, saturated; zero is +0.0."""
    mech, values, key = mechanism(ratio, exponent), wild(exponent, ratio), secret(f"wild {ratio}")
    right = expected(mech, values, key)
    for careful in (False, True):
        found = noised(mech, values, key, careful=careful)
        assert same(found, right)
        place = values.copy()
        assert noised(mech, place, key, careful=careful, out=place) is place
        assert same(place, right)
    assert np.isfinite(right).all()
    assert not np.signbit(right[right == 0]).any()
    largest = np.finfo(np.float64).max
    grid = Fraction(2) ** exponent
    assert all((Fraction(y) / grid).denominator == 1 or abs(y) == largest for y in right.tolist())
    if exponent >= -149:
        once = expected(mech, values, key, single=True).astype(np.float32)
        for careful in (False, True):
            assert same(noised(mech, values, key, careful=careful, dtype=np.float32), once)
        assert np.isfinite(once).all()
        with np.errstate(all="ignore"):
            short = values.astype(np.float32)
        short = short[np.isfinite(short)]
        assert same(
            noised(mech, short, key), expected(mech, short.astype(np.float64), key, single=True).astype(np.float32)
        )


def test_constant_time_is_refused_where_it_is_not() -> None:
    """Far below a step, a value midway between two points is left to slower tiers whatever is drawn."""
    for coarse in (Laplace(1, 1, granularity=2**19), Gaussian(1, granularity=2**19)):
        with pytest.raises(
            ParameterError, match=r"^constant_time needs a granularity of at most 2\*\*18 times the scale"
        ):
            coarse.release(np.zeros(3), constant_time=True)
        assert coarse.release(np.full(3, 2.0**18)).shape == (3,)
    Laplace(1, 1, granularity=2**18).release(np.zeros(3), constant_time=True)


def test_the_exact_tier_rounds_as_the_kernels_do(secret: Callable[[str], bytes]) -> None:
    """What few draws reach: a result by _law_at and _result alone is that of the kernels."""
    for ratio, exponent in (
        (Fraction(1, 3), -1074),
        (Fraction(2**30), 0),
        (Fraction(2**58), -149),
        (Fraction(2**60), 900),
    ):
        for dtype in (np.float64, np.float32):
            mech, values, key = mechanism(ratio, exponent), wild(exponent, ratio), secret("exact")
            if exponent < -149 and dtype == np.float32:
                continue
            job = prepare_real(values, dtype=dtype, exponent=exponent)
            read = mech._reader(_native.StreamKey(key), mech._careful_plan.width)
            found = [mech._result(mech._law_at(read, i, job, x), job) for i, x in enumerate(values.tolist())]
            assert same(np.array(found).astype(dtype), noised(mech, values, key, dtype=dtype))


@pytest.mark.parametrize("ratio", [Fraction(2**30), Fraction(2**44), Fraction(2**46), Fraction(2**50)], ids=str)
@pytest.mark.parametrize("exponent", [-140, 0, 60])
def test_sums_beside_ties_of_single_precision(ratio: Fraction, exponent: int, secret: Callable[[str], bytes]) -> None:
    """Values planted so that a sum lies beside the middle of two float32, nearer than a double can tell: rounded once."""
    mech, key, rng, grid = mechanism(ratio, exponent), secret("ties"), random.Random(1), Fraction(2) ** exponent
    read = mech._reader(_native.StreamKey(key), mech._careful_plan.width)
    planted_, right, twice = [], [], 0
    for i in range(200):
        power, noise = rng.choice([58, 60, 62]), mech._law.draw(read, i, Fraction(0))
        tie = rng.choice((-1, 1)) * (2**power + (2 * rng.randrange(2**23) + 1) * 2 ** (power - 24))
        count = tie - round(Fraction(noise, 2 ** (power - 52))) * 2 ** (power - 52)
        planted_.append(float(count * grid))
        assert Fraction(planted_[-1]) == count * grid
        right.append(reference.nearest_float((count + noise) * grid, single=True))
        twice += np.float32(float((count + noise) * grid)) != np.float32(right[-1])
    assert twice > 50
    values, once = np.array(planted_), np.array(right).astype(np.float32)
    for careful in (False, True):
        assert same(noised(mech, values, key, careful=careful, dtype=np.float32), once)
    job = prepare_real(values, dtype=np.float32, exponent=exponent)
    found = [mech._result(mech._law_at(read, i, job, x), job) for i, x in enumerate(planted_)]
    assert found == right


def test_draws_that_c_leaves_open_are_decided(monkeypatch: pytest.MonkeyPatch, secret: Callable[[str], bytes]) -> None:
    """With no tier in C deciding anything, each value waits, is decided exactly, and comes out the same; missing ones too."""
    for ratio in (Fraction(5), Fraction(2**50)):
        mech, key = mechanism(ratio, -3), secret("open")
        values = np.array([0.0, 1.3, math.nan, -7.25, math.inf, 1e300, -0.0] * 50)
        right = {d: noised(mech, values, key, missing=2.5, dtype=d, lower=-40, upper=2.0**60) for d in ("f8", "f4")}
        blind = mechanism(ratio, -3)
        constants = blind._constants() | {
            "margin": -1.0, "twofold_margin": -1.0, "wide_cell": 400, "bulk": _native.INTEGER, "careful": _native.INTEGER,
        }  # fmt: skip
        monkeypatch.setattr(Laplace, "_constants", lambda self, constants=constants: constants)
        assert blind._careful_plan.fill(_native.StreamKey(key), 0, 50, careful=True, offset=[0.1] * 50) == [None] * 50
        for dtype, result in right.items():
            for careful in (False, True):
                found = noised(blind, values, key, missing=2.5, dtype=dtype, lower=-40, upper=2.0**60, careful=careful)
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
        values = (
            np.random.default_rng(5).normal(size=n) * 10.0 ** np.random.default_rng(6).integers(-9, 16, n)
        ).astype(kind)
    right = noised(mech, values, key)
    for threads in (2, 3):
        assert same(noised(mech, values, key, threads=threads), right)
    assert same(noised(mech, values[:20_011], key, careful=True), right[:20_011])
    for out in (np.zeros(2 * n, kind)[::2], np.zeros(n, np.dtype(kind).newbyteorder())):
        noised(mech, values, key, out=out, threads=2)
        assert same(np.ascontiguousarray(out).astype(kind), right)
    place = values.copy()
    noised(mech, place, key, out=place, threads=2)
    assert same(place, right)
    for begin, end in ((0, 1), (1, 12_345), (12_345, 12_346), (12_346, 60_001)):
        assert same(noised(mech, values[begin:end], key, first=begin), right[begin:end])
    some = values[:70_001]
    backwards = np.ascontiguousarray(some[::-1])[::-1]
    assert same(noised(mech, backwards, key), right[:70_001])
    monkeypatch.setattr(engine, "SLAB", 5000)
    assert same(noised(mech, some, key), right[:70_001])
    for isa in ISAS:
        monkeypatch.setattr(_native, "best_isa", lambda isa=isa: isa)
        for careful in (False, True):
            assert same(noised(mech, some, key, careful=careful), right[:70_001]), (isa, careful)


def keyed(mech: Laplace, values: object, label: str = "laplace", **options: Any) -> np.ndarray:
    """A release whose noise is a function of the label and of the values."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(values, key=fixed_key(7).derive(label), start=options.pop("start", 0), **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flush", [False, True])
def test_a_hosts_rounding_mode_changes_nothing(mode: str, flush: bool, host: ctypes.CDLL) -> None:  # noqa: F811
    """A mechanism made and used in any mode, subnormals flushed or not, releases what it releases to nearest."""
    cases = [(ratio, e) for ratio in (Fraction(1, 3), Fraction(2**20 * 11, 8), Fraction(2**50)) for e in EXPONENTS]

    def work(ratio: Fraction, exponent: int, values: np.ndarray, singles: list[np.ndarray]) -> list[np.ndarray]:
        mech = mechanism(ratio, exponent)
        found = [keyed(mech, values, constant_time=care) for care in (False, True)]
        for x in singles:
            swapped = np.zeros(x.size, ">f4")
            found += [
                keyed(mech, x),
                keyed(mech, x, dtype=np.float64),
                keyed(mech, x, out=swapped).byteswap().view("f4"),
            ]
        return found

    wrong = []
    for ratio, exponent in cases:
        values = np.tile(wild(exponent, ratio), 45)
        with np.errstate(over="ignore"):
            short = values.astype(np.float32)
        short = short[np.isfinite(short)]
        singles = [short, short.astype(">f4")] if exponent >= -149 else []
        right = work(ratio, exponent, values, singles)
        with entered(host, mode, flush):
            found = work(ratio, exponent, values, singles)
        if not all(map(same, found, right)):
            wrong.append((str(ratio), exponent, [same(*pair) for pair in zip(found, right, strict=True)]))
    assert wrong == []


# ------------------------------------------------------------------ golden outputs


VECTORS = Path(__file__).parent / "vectors" / "laplace.json"


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text()), ids=lambda v: f"{v['ratio']} {v['start']}")
def test_golden_outputs(vector: dict[str, Any]) -> None:
    """Stream version 1, pinned: the first draws by the exact tier, a digest of 20,000; and a release of the same draws."""
    assert _native.STREAM_VERSION == 1
    mech, secret = mechanism(Fraction(vector["ratio"])), bytes.fromhex(vector["key"])
    offset = [(i * 37 % 65 - 32) / 66 for i in range(20_000)]
    for isa in ISAS:
        draws = mech._bulk_plan.fill(
            _native.StreamKey(secret), int(vector["start"]), 20_000, careful=False, isa=isa, offset=offset
        )
        assert draws[:32] == vector["draws"]
        assert hashlib.sha256(repr(draws).encode()).hexdigest() == vector["sha256"]
    released = noised(mech, np.array(offset), secret, int(vector["start"]))
    assert released.tolist() == [float(draw) for draw in draws]


# ------------------------------------------------------------------ attacks


def distinguished(zero: np.ndarray, one: np.ndarray, grids: list[float]) -> list[float]:
    """The grids off which the two lie unequally often, at a false-alarm rate of ALPHA for all together."""
    found = []
    for grid in grids:
        off = [int((x / grid != np.rint(x / grid)).sum()) for x in (zero, one)]
        p = sum(off) / (zero.size + one.size)
        if 0 < p < 1:
            z = (off[0] - off[1]) / math.sqrt(p * (1 - p) * (zero.size + one.size))
            if gof.normal_p(z) < gof.ALPHA / len(grids):
                found.append(grid)
    return found


@pytest.mark.parametrize(("x", "y"), [(0.0, 1.0), (0.1 + 0.2, 0.3), (1e-300, 0.0), (1.5 * 2.0**30, 1.5 * 2.0**30 + 1)])
def test_precision_attack(x: float, y: float) -> None:
    """How fine a result is says nothing of the value; of naive noise it tells 0 from 1."""
    n = 2**18
    for mech in (
        Laplace(1, 1),
        Laplace(1, 1, granularity=2.0**-44),
        Laplace(1, 1, granularity=2.0**-50),
        Snapping(1, 1, bound=64),
    ):
        results = [mech.release(np.full(n, value)) for value in (x, y)]
        for result in results:
            assert (result / mech.granularity == np.rint(result / mech.granularity)).all()
        coarse = [mech.granularity * 2.0**j for j in range(60) if mech.granularity * 2.0**j <= 0.5]
        assert distinguished(*results, coarse or [mech.granularity]) == []


def test_precision_attack_finds_naive_noise() -> None:
    """NumPy's x + laplace: off the grid of 2^-53 for 0 most of the time, for 1 never."""
    n, rng = 2**19, np.random.default_rng(3)
    zero, one = 0.0 + rng.laplace(0, 1, n), 1.0 + rng.laplace(0, 1, n)
    grids = [2.0**-j for j in range(1, 70)]
    assert 2.0**-53 in distinguished(zero, one, grids)


# ------------------------------------------------------------------ small worlds


def tail(q: Fraction, s: int) -> Fraction:
    """P(N < s/16) where P(N > s/16) = q^s / 2 for s >= 0: a Laplace law with rational figures on the sixteenths."""
    return 1 - q**s / 2 if s >= 0 else q**-s / 2


class Planted:
    """A law that gives one noise."""

    noise = Fraction(0)

    def draw(self, read: object, i: int, offset: Fraction) -> int:
        return math.floor(offset + self.noise + HALF)


def world(
    mech: Laplace,
    q: Fraction,
    values: list[float],
    tamper: Callable[[Fraction], Fraction] = lambda z: z,
    **bounds: float,
) -> dict[float, dict[float, Fraction]]:
    """The whole law of the results of each value, all sixteenths of a step of noise enumerated, the rest clamped like the last."""
    job, law, far = prepare_real(np.zeros(1), exponent=mech._exponent, bound=mech._bound, **bounds), Planted(), 20 * 16
    mech.__dict__["_law"] = law
    cells = [(s, s + 1) for s in range(-far, far)]
    mass = {s: tail(q, s + 1) - tail(q, s) for s, _ in cells}
    mass[-far] += tail(q, -far)
    mass[far - 1] += 1 - tail(q, far)
    found: dict[float, dict[float, Fraction]] = {}
    for value in values:
        results: dict[float, Fraction] = {}
        for s in range(-far, far):
            law.noise = tamper(Fraction(2 * s + 1, 32))
            y = mech._result(mech._law_at(None, 0, job, value), job)
            results[y] = results.get(y, Fraction(0)) + mass[s]
        found[value] = results
    return found


def leaks(laws: dict[float, dict[float, Fraction]], q: Fraction, granularity: float) -> int:
    """Pairs of values, and results, whose probabilities differ by more than e^(epsilon |x - x'| / sensitivity)."""
    count = 0
    for x, of_x in laws.items():
        assert sum(of_x.values()) == 1
        for other, of_other in laws.items():
            most = q ** -int(16 * abs(Fraction(x) - Fraction(other)) / Fraction(granularity))
            count += sum(mass > most * of_other.get(y, Fraction(0)) for y, mass in of_x.items())
    return count


SMALL = [-3.0, -1.5, -1.25, -1.0, -15 / 16, -0.5, -1 / 16, -0.0, 1 / 16, 0.25, 0.5, 9 / 16, 1.0, 2.75, 3.0, 9.0]


@pytest.mark.parametrize("q", [Fraction(15, 16), Fraction(8, 10)])
@pytest.mark.parametrize(
    "bounds", [{"lower": -8, "upper": 8}, {"lower": 0, "upper": 6.5}, {"lower": -1.0, "upper": 1.0}]
)
def test_small_world(q: Fraction, bounds: dict[str, float]) -> None:
    """Values on and off the grid: no result tells two of them apart by more than e^(epsilon |x - x'| / sensitivity)."""
    laws = world(mechanism(Fraction(1)), q, SMALL, **bounds)
    assert leaks(laws, q, 1.0) == 0
    # and not by less: adjacent grid points reach the bound
    assert bounds["upper"] < 8 or laws[3.0][8.0] == q**-16 * world(mechanism(Fraction(1)), q, [2.0], **bounds)[2.0][8.0]


def test_small_world_catches_what_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise clipped before the sum, values rounded before the noise, and noise that was rounded alone all leak there."""
    q, bounds = Fraction(8, 10), {"lower": -8, "upper": 8}
    mech = mechanism(Fraction(1))
    assert leaks(world(mech, q, SMALL, lambda z: max(min(z, Fraction(4)), Fraction(-4)), **bounds), q, 1.0) > 0
    with monkeypatch.context() as patch:
        patch.setattr(Laplace, "_law_at", lambda self, read, i, job, x: self._law.draw(read, i, Fraction(round(x))))
        assert leaks(world(mech, q, SMALL, **bounds), q, 1.0) > 0
    with monkeypatch.context() as patch:
        patch.setattr(
            Laplace, "_law_at", lambda self, read, i, job, x: Fraction(x) + self._law.draw(read, i, Fraction(0))
        )
        assert leaks(world(mech, q, SMALL, **bounds), q, 1.0) > 0


@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(1), Fraction(17, 10)], ids=str)
def test_small_world_of_the_digits(ratio: Fraction) -> None:
    """All 2^10 prefixes of U and both signs: each outcome's probability lies between its decided cells and these with
    the open ones beside them, and decided cells of neighbours never contradict epsilon."""
    bits, law, plan = 10, reference.Laplace(ratio), mechanism(ratio)._careful_plan
    offsets = [0.0, -0.5, 0.5, 2.0**-40, -0.3]
    lowest, highest = {}, {}
    for offset in offsets:
        rows = [Row(cell, negative, offset) for negative in (False, True) for cell in range(2**bits)]
        exact = mechanism(ratio)._law
        truth = [exact.rounded(r.negative, r.prefix, bits, Fraction(offset)) for r in rows]
        for isa in ISAS:
            for name in ("double", "integer"):
                decided, errors = Cells(bits, rows, truth).tried(plan, name, isa)
                assert errors == 0
                assert decided > len(rows) - 100
        for k in range(-12, 13):
            low = Fraction(truth.count(k), 2 ** (bits + 1))
            # an undecided cell reaches from the outcome of its one end to that of the other
            ends = [(truth[at - 1] if at % 2**bits else 99, truth[at + 1] if (at + 1) % 2**bits else k) for at in range(len(rows)) if truth[at] is None]  # fmt: skip
            high = low + Fraction(
                sum(e is None or f is None or min(abs(e), abs(f)) <= abs(k) for e, f in ends), 2 ** (bits + 1)
            )
            lowest[offset, k], highest[offset, k] = low, high
            probability = law.pmf(k, Fraction(offset))
            assert float(low) <= probability * (1 + 1e-12)
            assert probability <= float(high) * (1 + 1e-12) + 2.0**-bits
    for x in offsets:
        for other in offsets:
            most = math.exp(abs(x - other) / float(ratio))
            assert all(lowest[x, k] <= most * float(highest[other, k] + 2 ** -Fraction(bits)) for k in range(-12, 13))


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    "ratio", [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(300)], ids=str
)
@pytest.mark.parametrize("exponent", [-30, 0, 5])
def test_pmf_cdf_and_variance(ratio: Fraction, exponent: int) -> None:
    """Against high precision; probabilities sum to 1, moments are theirs."""
    mech, law, grid = mechanism(ratio, exponent), reference.Laplace(ratio), 2.0**exponent
    ks = np.arange(-int(60 * ratio) - 2, int(60 * ratio) + 3)
    mass = mech.pmf(ks * grid)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    for k in [*range(-5, 6), int(3 * ratio), int(30 * ratio)]:
        assert mech.pmf(k * grid) == pytest.approx(law.pmf(k), rel=1e-12, abs=1e-300)
        for within in (0, 0.25, 0.999):
            assert mech.cdf((k + within) * grid) == pytest.approx(law.cdf(k), rel=1e-12)
    assert np.cumsum(mass) == pytest.approx(mech.cdf(ks * grid), abs=1e-12)
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


@pytest.mark.parametrize(
    "ratio", [Fraction(1, 2**60), Fraction(1, 3), Fraction(1), Fraction(2**20 * 7, 5), Fraction(2**60)], ids=str
)
@pytest.mark.parametrize("cells", [1, 1000])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(95, 100), 1 - Fraction(1, 10**12)], ids=float)
def test_interval(ratio: Fraction, cells: int, confidence: Fraction) -> None:
    """The least h on the grid, and with one step more it holds values off the grid."""
    found = mechanism(ratio, 4).interval(confidence, cells=cells) / 16
    with mpmath.workprec(700):
        wanted = mpmath.mpf(confidence.numerator) / confidence.denominator
        rate = mpmath.mpf(ratio.denominator) / ratio.numerator

        def within(h: Fraction) -> mpmath.mpf:
            """P(|N| <= h + 1/2) in all cells."""
            return (1 - mpmath.exp(-(mpmath.mpf(h.numerator) / h.denominator + 0.5) * rate)) ** cells

        h = Fraction(mechanism(ratio)._law.half_width(confidence, cells))
        assert float(h) == found
        assert within(h) >= wanted
        assert h == 0 or within(h - 1) < wanted
        # K off f by more than h + 1 has |N| above h + 1/2, at any f
        law = reference.Laplace(ratio)
        for offset in (HALF, -HALF, Fraction(1, 3), Fraction(-1, 1000)):
            top, bottom = math.floor(h + 1 + offset), math.ceil(offset - h - 1)
            inside = law._below(top + HALF - offset) - law._below(bottom - HALF - offset)
            assert inside**cells >= wanted * (1 - mpmath.mpf(2) ** -600)


@pytest.mark.parametrize("exponent", [-1074, -1000, 700, 900])
@pytest.mark.parametrize("ratio", [Fraction(1, 2**60), Fraction(1, 2000), Fraction(1), Fraction(2**60)], ids=str)
def test_figures_at_the_ends(ratio: Fraction, exponent: int) -> None:
    """No figure overflows into an exception, whatever the grid."""
    mech = mechanism(ratio, exponent)
    assert mech.granularity == math.ldexp(1, exponent)
    spread = mpmath.sqrt(reference.Laplace(ratio).variance()) if ratio >= Fraction(1, 1000) else mpmath.mpf(0)
    assert ratio < Fraction(1, 1000) or mech.stddev == pytest.approx(
        float(mpmath.ldexp(spread, exponent)), rel=1e-12, abs=5e-324
    )
    assert mech.variance >= 0
    assert mech.pmf([0.0, mech.granularity]).sum() <= 1 + 1e-12
    assert mech.cdf([-1.0, 0.0, 1.0, math.inf, -math.inf])[[3, 4]].tolist() == [1, 0]
    assert mech.cdf(-5e-324) <= 0.5
    assert f"2**{exponent}" in repr(mech)
    assert "granularity" in mech._repr_html_()
    if exponent == 900:
        with pytest.raises(ParameterError, match="^noise must be a multiple"):
            mech.pmf(5e-324)


# ------------------------------------------------------------------ parameters and records


def test_the_default_grid_is_some_millionth_of_the_scale() -> None:
    """The largest power of two that is at most the scale times 2^-20."""
    for scale in (1, 0.1, 3, 2.0**-50, 2.0**-50 * 1.0000001, 1e9, 7e-300, 2.0**900):
        mech = Laplace(1, scale)
        assert mech.granularity <= scale * 2.0**-20 < 2 * mech.granularity
        assert 2**20 <= mech._ratio < 2**21


@pytest.mark.parametrize(
    ("granularity", "message"),
    [
        (3, "^granularity must be a power of two, got 3"),
        (0, "^granularity must be positive"),
        (-2, "^granularity must be positive"),
        (math.inf, "^granularity must be finite"),
        (0.1, "^granularity must be a power of two"),
        (2.0**61, "^the scale must be 2\\*\\*-60 to 2\\*\\*60 times the granularity"),
        (2.0**-61, "^the scale must be 2\\*\\*-60 to 2\\*\\*60 times the granularity"),
        (Fraction(1, 2**1075), "^granularity must lie between 2\\*\\*-1074 and 2\\*\\*900"),
        (2.0**901, "^granularity must lie between"),
    ],
)
def test_granularities_that_are_refused(granularity: float, message: str) -> None:
    """Each with the parameter and the rule."""
    with pytest.raises(ParameterError, match=message):
        Laplace(1, 1, granularity=granularity)
    assert Laplace(1, 1, granularity=2.0**60).granularity == 2.0**60
    assert Laplace(1, 1, granularity=2.0**-60).granularity == 2.0**-60


def test_a_grid_finer_than_float32_is_refused_for_it() -> None:
    """Below the smallest subnormal of the output there are no grid points to give."""
    mech = mechanism(Fraction(4), -150)
    with pytest.raises(ParameterError, match="^granularity must be at least the smallest float32, got 2\\*\\*-150"):
        mech.release(np.zeros(3, np.float32))
    assert mech.release(np.zeros(3, np.float32), dtype=np.float64).dtype == np.float64
    assert mechanism(Fraction(4), -149).release(np.zeros(3, np.float32)).dtype == np.float32


def test_records() -> None:
    """Equal parameters make equal mechanisms; pickles keep them; metadata has what error bars need."""
    mech = Laplace(0.5, Fraction(1, 3), granularity=2.0**-10, adjacency="substitution", unit="household")
    assert mech == Laplace(
        Fraction(1, 2), Fraction(1, 3), granularity=Fraction(1, 1024), adjacency="substitution", unit="household"
    )
    again = pickle.loads(pickle.dumps(mech))
    assert again == mech
    assert again._record == mech._record
    assert again.granularity == 2.0**-10
    facts = mech.metadata()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["mechanism"] == "laplace"
    assert (facts["epsilon"], facts["sensitivity"], facts["granularity"]) == ("1/2", "1/3", 2.0**-10)
    assert (facts["adjacency"], facts["unit"], facts["secure"]) == ("substitution", "household", True)
    assert (
        len({Laplace(1, 1)._record, Laplace(1, 2)._record, Laplace(1, 1, granularity=1)._record, Laplace(2, 2)._record})
        == 4
    )
    assert "2**-10" in repr(mech)
    with pytest.raises(DTypeError, match="^Laplace has no sample"):
        mech.sample(5)


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    """No test leaves a rounding mode behind."""
    yield
    assert 1 + 2.0**-53 == 1
    assert -1 - 2.0**-53 == -1
    assert 2.0**-1073 / 2 > 0
