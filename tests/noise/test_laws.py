# SPDX-License-Identifier: Apache-2.0
"""Every law: golden outputs, the exact tier's draws, tables, statistics, planted defects."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import math
import pickle
import platform
import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from typing import Any

import gof
import numpy as np
import pytest
import reference
import tiers
from laws import BY_NAME, HALF, LAWS, Defect, Law, exact_draws, filled, judged, noise, numbers, over, reference_of
from places import ROOT, VECTORS
from proofs import MODES, entered

from dpfast import (  # fmt: skip
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Key,
    Laplace,
    OneSidedGeometric,
    Sensitivity,
    Snapping,
)
from dpfast.errors import DTypeError, ParameterError  # fmt: skip
from dpfast.privacy.exact import Digits
from dpfast.privacy.exact.balls import split
from dpfast.testing import fixed_key

N = 2**20  # 1 % of scale moves the variance by 2 %, which is 9 standard errors and more
INTEGERS = [law for law in LAWS if not law.real]

# ------------------------------------------------------------------ golden outputs


def golden() -> list[Any]:
    """The rows of all golden files, by their laws."""
    return [
        pytest.param(law, row, id=f"{law} {row[law.parameter]} {row['start']}")
        for law in LAWS
        if law.vectors
        for row in json.loads((VECTORS / f"{law}.json").read_text())
    ]


@pytest.mark.parametrize(("law", "row"), golden())
def test_golden_outputs(law: Law, row: dict[str, Any]) -> None:
    """Stream version 2, pinned: the exact tier's first draws, a digest of 20,000, and a release."""
    assert tiers.STREAM_VERSION == 2
    mech, secret, start = law.make(Fraction(row[law.parameter])), bytes.fromhex(row["key"]), int(row["start"])
    offsets = law.offset(20_000)
    for isa in tiers.ISAS:
        key, plan = tiers.StreamKey(secret), tiers.bulk_plan(mech)
        draws = filled(law, plan, key, start, offsets, constant_work=False, isa=isa)
        assert draws[:32] == row["draws"]
        assert hashlib.sha256(repr(draws).encode()).hexdigest() == row["sha256"]
    if law.real:
        released = tiers.noised(mech, np.array(offsets), secret, start).tolist()
        assert all(k is None or y == float(k) for y, k in zip(released, draws, strict=True))
    else:  # beyond 64 bits the sum saturates
        ends = [min(max(draw, -(2**63)), 2**63 - 1) for draw in draws]
        assert tiers.drawn(mech, 20_000, tiers.StreamKey(secret), start=start).tolist() == ends


def test_golden_files_are_those_of_the_records() -> None:
    """Each law's file has the rows that its record names, and no law of C is without one."""
    named = {law.name for law in LAWS if law.vectors}
    assert named == tiers.LAWS == {path.stem for path in VECTORS.glob("*.json")}
    for name in named:
        rows = json.loads((VECTORS / f"{name}.json").read_text())
        kept = [(Fraction(row[BY_NAME[name].parameter]), int(row["start"])) for row in rows]
        assert kept == BY_NAME[name].vectors


# ------------------------------------------------------------------ the stream

STARTS = [0, 63, 64, 500, 10**6 - 50, 2**40 - 150, 2**63 - 700]


def places(n: int, seed: int) -> list[float]:
    """Where on the grid the noise of n draws begins: on it, midway, nearly so, anywhere."""
    rng = np.random.default_rng(seed)
    kinds = 0.0, 0.5, -0.5, rng.random(n) - 0.5, np.ldexp(1.0, -rng.integers(1, 1074, n))
    return np.choose(rng.integers(0, len(kinds), n), kinds).tolist()


@cache
def read_once(secret: bytes, width: int) -> Any:
    """The digits of a stream's words, which all laws and scales read."""
    return cache(tiers.reader_of(tiers.StreamKey(secret), width))


@over("scales")
def test_the_stream_maps_to_the_exact_law(law: Law, scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """C's draws, by either path, are the exact tier's from equal digits, wherever a call begins."""
    mech, bytes_of_key, rng = law.make(scale), secret("stream"), random.Random(f"{law} {scale}")
    key, bulk, constant_work_plan = tiers.StreamKey(bytes_of_key), tiers.bulk_plan(mech), tiers.constant_work_plan(mech)
    read = read_once(bytes_of_key, constant_work_plan.width)
    for start in STARTS:
        n = rng.choice([1, 2, 65, 130, 220, 300, 700])
        offsets = places(n, rng.getrandbits(32))
        exact = exact_draws(law, mech, read, start, offsets)
        for isa in tiers.ISAS:
            for plan, constant_work in ((bulk, False), (bulk, True), (constant_work_plan, True)):
                cuts = sorted({0, n, *(rng.randrange(n) for _ in range(4))})
                found = []
                for begin, end in pairwise(cuts):
                    place = start + begin, offsets[begin:end]
                    found += filled(law, plan, key, *place, constant_work=constant_work, isa=isa)
                assert all(k in (None, right) for k, right in zip(found, exact, strict=True))
                # midway between grid points a tiny ratio leaves the sign to decide, which C never
                # does alone
                assert found.count(None) <= (n if law.real and scale < Fraction(1, 2**15) else law.left)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("scale", numbers("1/3 50 10^15 2^60"), ids=str)
@pytest.mark.parametrize("name", ["discrete_laplace", "laplace"])
def test_draws_undecided_at_every_level_are_decided_by_the_next(name: str, scale: Fraction, negative: bool) -> None:
    """The exact tier, given digits on a threshold for three levels, goes on until they leave it."""
    law, exact, sign = BY_NAME[name].reference(scale), tiers.law(BY_NAME[name].make(scale)), -1 if negative else 1
    real, k, bits, offset = BY_NAME[name].real, max(1, int(scale)), [64, 128, 192, 704, 1216], Fraction(1, 8)
    # f + S t E is S (k + 1/2) there; of an integer law the magnitude changes from k to k - 1
    cell = law.cell(k + HALF - sign * offset, bits[3]) if real else law.threshold(k, bits[3])
    for side, magnitude in [(0, k + real), (2**512 - 1, k - 1 + real)]:  # above or below it
        prefixes = [*(cell >> (bits[3] - b) for b in bits[:4]), cell << 512 | side]
        digits = [Digits(int(negative) << b | p, b + 1) for p, b in zip(prefixes, bits, strict=True)]
        for p, b in zip(prefixes[:4], bits, strict=False):
            assert (exact.rounded(negative, p, b, offset) if real else exact.magnitude(p, b)) is None
        found = exact.draw(lambda i, r, digits=digits: digits[r], 0, *([offset] if real else []))
        assert found == sign * magnitude


SOME = {
    "discrete_laplace": numbers("1 1000 2^46"),
    "discrete_gaussian": numbers("10 129 10^9"),
    "laplace": numbers("1/3 2^21 10^9 2^46"),
    "gaussian": numbers("1 2^20 2^40 2^50"),
    "one_sided_geometric": numbers("10 2^46"),
}
some = pytest.mark.parametrize(("law", "scale"), [(law, scale) for law in LAWS for scale in SOME[law.name]], ids=str)


@some
def test_bulk_and_constant_work_draws_are_equal(law: Law, scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """30,000 draws, undecided in whole batches: bulk, constant work, all instruction sets."""
    mech, key, offsets = law.make(scale), tiers.StreamKey(secret("equal")), places(30_000, seed=5)
    bulk, constant_work_plan, left = tiers.bulk_plan(mech), tiers.constant_work_plan(mech), 0
    draws = np.array(filled(law, constant_work_plan, key, 12_345, offsets, constant_work=True), float)
    for isa in tiers.ISAS:
        for plan, constant_work in ((bulk, False), (bulk, True), (constant_work_plan, True)):
            found = np.array(filled(law, plan, key, 12_345, offsets, constant_work=constant_work, isa=isa), float)
            both = ~np.isnan(found) & ~np.isnan(draws)
            assert np.array_equal(found[both], draws[both])
            left = max(left, int((~both).sum()))
    assert left <= 3 * law.left


EDGES = [edge + near for edge in (0, 64, 128, 256, 512, 1024, 2**40) for near in (-9, -1, 0, 3) if edge + near >= 0]


@some
def test_few_draws_are_those_of_a_long_call(law: Law, scale: Fraction) -> None:
    """From any place on, one and two groups of blocks or a draw's own blocks: the same digits."""
    mech, key = law.make(scale), tiers.StreamKey(bytes(range(32)))
    plan, offsets = tiers.constant_work_plan(mech), places(300 + 1024, seed=7)
    for isa in tiers.ISAS:
        for first in (0, 2**40 - 512):
            long = filled(law, plan, key, first, offsets, constant_work=True, isa=isa)
            for start in [edge for edge in EDGES if first <= edge <= first + 1024]:
                for n in (1, 2, 7, 8, 9, 16, 17, 64, 65, 128, 129, 257):
                    at = slice(start - first, start - first + n)
                    found = filled(law, plan, key, start, offsets[at], constant_work=True, isa=isa)
                    assert found == long[at], (isa, start, n)


@some
def test_a_hosts_mode_changes_no_draw(law: Law, scale: Fraction, host: ctypes.CDLL) -> None:
    """A host's rounding mode and flush are put aside: equal draws, no more of them undecided."""
    mech, key, offsets = law.make(scale), tiers.StreamKey(bytes(range(32))), places(700, seed=3)
    for plan, constant_work in ((tiers.bulk_plan(mech), False), (tiers.constant_work_plan(mech), True)):
        for isa in tiers.ISAS:
            expected = filled(law, plan, key, 9, offsets, constant_work=constant_work, isa=isa)
            for mode in MODES:
                with entered(host, mode, flush=True):
                    assert filled(law, plan, key, 9, offsets, constant_work=constant_work, isa=isa) == expected


PARTS = range(6, 16) if platform.machine() in ("x86_64", "AMD64") else range(22, 25)


@pytest.mark.parametrize("raised", [False, True])
@pytest.mark.parametrize("differs", [0, *(1 << bit for bit in PARTS)])
def test_each_part_of_a_hosts_mode_is_put_aside_and_comes_back(host: ctypes.CDLL, differs: int, raised: bool) -> None:
    """Flushes, the rounding mode and, on x86, the mask of each exception and what was raised."""
    enter, leave = (ctypes.c_void_p(tiers.address_of(name)) for name in ("dpf_enter", "dpf_leave"))
    assert host.is_put_aside(ctypes.c_ulong(differs), raised, enter, leave)


# ------------------------------------------------------------------ tables


def of_digits(law: Law, scale: Fraction) -> Any:
    """The reference that knows the thresholds of digits."""
    return reference.OneSidedGeometric(1 / scale) if law.name == "one_sided_geometric" else law.reference(scale)


tables = pytest.mark.parametrize(
    ("law", "scale"), [(law, scale) for law in INTEGERS for scale in law.scales if scale <= 128], ids=str
)


@cache
def table_of(name: str, scale: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """What C's table says of each cell of 16 digits, and which are undecided."""
    entries = tiers.bulk_plan(BY_NAME[name].make(scale)).tier(tiers.TABLE, 16, range(2**16), isa=0)
    return np.array([k or 0 for k in entries]), np.array([k is None for k in entries])


@tables
def test_table_certificate(law: Law, scale: Fraction) -> None:
    """Every entry is the law's on its cell, undecided at each threshold; the sign mirrors."""
    right, (table, opened) = of_digits(law, scale), table_of(law.name, scale)
    thresholds = list(itertools.takewhile(lambda cell: cell > 0, (right.threshold(k, 15) for k in itertools.count(1))))
    undecided = np.array(sorted({0, *thresholds}))
    assert np.array_equal(np.flatnonzero(opened), [*undecided, *(2**15 + undecided)])
    # as many thresholds lie above a cell as its magnitude says
    above = len(thresholds) - np.searchsorted(thresholds[::-1], np.arange(2**15), side="right")
    above[undecided] = 0
    assert np.array_equal(table, [*above, *-above])
    for cell in random.Random(1).sample(range(2**15), 50):
        assert right.magnitude(cell, 15) == (None if opened[cell] else table[cell])


@tables
def test_small_world_of_the_digits(law: Law, scale: Fraction) -> None:
    """All 2^15 prefixes of U: a probability is decided cells, plus undecided ones at most."""
    right, (table, opened) = of_digits(law, scale), table_of(law.name, scale)
    counts = np.bincount(table[: 2**15][~opened[: 2**15]])
    twice = law.name != "one_sided_geometric"
    for k, count in enumerate(counts):
        probability = right.pmf(k) * (2 if k and twice else 1) * 2**15
        assert count <= probability * (1 + 1e-12)
        assert probability <= count + 2 or k == counts.size - 1


FRESH = [(law, scale) for law in INTEGERS for scale in numbers("1 10 100")]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "scale"), FRESH, ids=str)
def test_a_fresh_start_for_open_draws_is_rejected(law: Law, scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """Fresh draws or entries for undecided cells have another law; 2^23 draws show it."""
    mech, n, rng, (table, open_) = law.make(scale), 2**23, np.random.default_rng(7), table_of(law.name, scale)
    words = rng.integers(0, 2**16, n, np.uint16)
    found, left = table[words], np.flatnonzero(open_[words])
    fresh = noise(law, mech, n, secret("fresh"))
    assert judged(law, scale, fresh) == []
    for replaced in (fresh[left], rng.choice(table[~open_], left.size)):
        found[left] = replaced
        assert judged(law, scale, found) != []


# ------------------------------------------------------------------ statistics


def on_grid(law: Law, scale: Fraction) -> Any:
    """The mechanism at this scale; a Laplace law on a grid of 8, so that steps are not results."""
    return law.make(scale, 3) if law.name == "laplace" else law.make(scale)


@over("judged")
def test_exact_law(law: Law, scale: Fraction, secret: Callable[[str], bytes]) -> None:
    """2^20 draws show nothing at a false-alarm rate of 1e-9."""
    assert judged(law, scale, noise(law, on_grid(law, scale), N, secret(f"{law} {scale}"))) == []


OFF_THE_GRID = [
    *itertools.product(["laplace"], numbers("1/4 3 2^21"), numbers("3/10 1/2 -1/2 -1/1000")),
    *itertools.product(["gaussian"], numbers("3/4"), numbers("1/4 1/2 -3/8")),
]


@pytest.mark.parametrize(("name", "ratio", "offset"), OFF_THE_GRID, ids=str)
def test_exact_law_off_the_grid(name: str, ratio: Fraction, offset: Fraction, secret: Callable[[str], bytes]) -> None:
    """A value between grid points: the nearest one comes by the law about the value itself."""
    law, mech, values = reference_of(name, ratio), BY_NAME[name].make(ratio), np.full(N, float(offset))
    draws = tiers.noised(mech, values, secret(f"off {ratio} {offset}")).astype(np.int64)

    def p_value(about: Fraction) -> float:
        edges, mass = gof.bins(law.quantile, lambda k: law.cdf(k, about), N)
        expected = np.array(mass) * N
        return gof.chi2_p(float(((gof.tally(draws, edges) - expected) ** 2 / expected).sum()), len(mass) - 1)

    assert p_value(Fraction(float(offset))) >= gof.ALPHA
    assert ratio > 3 or abs(offset) < Fraction(1, 10) or p_value(Fraction(0)) < gof.ALPHA  # rounded before the noise


@over("small")
def test_exact_law_of_small_calls(law: Law, scale: Fraction) -> None:
    """The same for 300 calls of 3,500 cells, each under a system key; samples of all sizes."""
    mech, signs = law.make(scale), np.random.default_rng(5).integers(0, 2, (300, 3500)) * 2 - 1
    one_sided = law.name == "one_sided_geometric"
    calls = []
    if not one_sided:
        zeros = np.zeros(3500, np.float64 if law.real else np.int64)
        calls.append(np.array([mech.release(zeros) for _ in range(300)]).astype(np.int64))
    if not law.real:
        calls += [np.array([mech.sample(3500) for _ in range(300)]), mech.sample((300, 3500))]
    for draws in calls:
        assert judged(law, scale, (draws * signs if one_sided else draws).ravel()) == []


DEFECTS: dict[str, Defect] = {
    "doubled zero": lambda x, rng: np.where((np.abs(x) == 1) & (rng.random(x.size) < 0.2), 0, x),
    "biased sign": lambda x, rng: np.where((x < 0) & (rng.random(x.size) < 0.02), -x, x),
    "shifted by one": lambda x, rng: np.where(rng.random(x.size) < 0.1, x + 1, x),
    "rounded down": lambda x, rng: np.where((x > 0) & (rng.random(x.size) < 0.1), x - 1, x),
    "one-sided": lambda x, rng: np.abs(x),
}
CASES = [
    pytest.param(law, scale, defect, id=f"{law} {scale} {name}")
    for law in LAWS
    for scale, defects in ((Fraction(1), DEFECTS), (Fraction(10), DEFECTS | law.defects))
    for name, defect in defects.items()
]
CASES += [
    pytest.param(
        law, scale, lambda x, rng, law=law: x[np.abs(x) <= np.quantile(np.abs(x), law.truncated)], id=f"{law} {scale} truncated tail"
    )
    for law in LAWS
    for scale in (Fraction(1), Fraction(10))
]  # fmt: skip


UNTOUCHED: dict[tuple[str, Fraction], np.ndarray] = {}  # draws of a law at a scale, for all defects


@pytest.mark.parametrize(("law", "scale", "defect"), CASES)
def test_planted_defects_are_rejected(
    law: Law, scale: Fraction, defect: Defect, secret: Callable[[str], bytes]
) -> None:
    """The same judge rejects draws that were tampered with."""
    draws = UNTOUCHED.get((law.name, scale))
    if draws is None:
        draws = UNTOUCHED[law.name, scale] = noise(law, law.make(scale), N, secret("defect"))
        draws.flags.writeable = False
    assert judged(law, scale, defect(draws, np.random.default_rng(1))) != []


@over("judged")
@pytest.mark.parametrize("sign", [1, -1])
def test_a_scale_one_percent_off_is_rejected(
    law: Law, scale: Fraction, sign: int, secret: Callable[[str], bytes]
) -> None:
    """Another scale is rejected as another law; below 1/2, where most are 0, at 3 % off."""
    off = 1 + sign * Fraction(1 if scale >= Fraction(1, 2) else 3, 100)
    assert judged(law, scale, noise(law, law.make(scale * off), N, secret("scale"))) != []


# ------------------------------------------------------------------ records

PEOPLE: dict[str, Any] = {"adjacency": "substitution", "unit": "household"}
CHANGE = Sensitivity(2, 3, **PEOPLE)
L2: dict[str, Any] = {"l0": 4, "linf": "3", "unit": "household"}
# A mechanism, what its metadata say beside the rest, and what its repr shows.
RECORDS: list[tuple[Any, dict[str, Any], str]] = [
    (Laplace(0.5, Fraction(1, 3), granularity=2.0**-10, **PEOPLE),
     {"mechanism": "laplace", "epsilon": "1/2", "sensitivity": "1/3", "granularity": 2.0**-10, **PEOPLE}, "2**-10"),
    (Snapping(0.5, Fraction(1, 3), bound=8, **PEOPLE), {"mechanism": "snapping", "bound": "8", "granularity": 1.0, **PEOPLE}, "bound=8"),
    (DiscreteLaplace(0.5, CHANGE), {"mechanism": "discrete_laplace", "epsilon": "1/2", "sensitivity": "12", **PEOPLE}, "epsilon=0.5"),
    (OneSidedGeometric(1, Fraction(1, 2**60)), {"mechanism": "one_sided_geometric", "epsilon": "1"}, "epsilon"),
    (OneSidedGeometric(1, 2**60), {"mechanism": "one_sided_geometric"}, "epsilon"),
    (OneSidedGeometric(Fraction(1, 3), CHANGE), {"epsilon": "1/3", "sensitivity": "12", **PEOPLE}, "epsilon"),
    (Gaussian.calibrated(Fraction(1, 2), CHANGE, delta=1e-6, granularity=0.25), {"mechanism": "gaussian", "granularity": 0.25, **L2}, "sigma"),
    (Gaussian.from_zcdp(1, CHANGE), L2, "rho=1"), (Gaussian.from_zcdp(Fraction(1, 3), CHANGE), {"rho_spent": "1/3"}, "rho=1/3"),
    (Gaussian(Fraction(1, 3)), {"sigma_squared": "1/9"}, "sigma"), (Gaussian(2.0**900), {}, "sigma"),
    (Gaussian(2.0**-1040, granularity=2.0**-1060), {"granularity": 2.0**-1060}, "sigma"),
    (DiscreteGaussian.calibrated(Fraction(1, 2), CHANGE, delta=1e-6), {"mechanism": "discrete_gaussian", **L2}, "sigma"),
    (DiscreteGaussian.from_zcdp(1, CHANGE), L2, "rho=1"),
    (DiscreteGaussian.from_zcdp(Fraction(1, 3), CHANGE), {"rho_spent": "1/3"}, "rho=1/3"),
    (DiscreteGaussian(Fraction(1, 3)), {"sigma_squared": "1/9"}, "sigma"),
]  # fmt: skip


real = pytest.mark.parametrize("make", [partial(Laplace, 1), Gaussian], ids=["laplace", "gaussian"])


@pytest.mark.parametrize(("mech", "facts", "shown"), RECORDS, ids=str)
def test_records(mech: Any, facts: dict[str, Any], shown: str) -> None:
    """A frozen value that pickles whole; metadata that JSON holds; a repr that says what it is."""
    real = isinstance(mech, Laplace | Snapping | Gaussian)
    if not isinstance(mech, OneSidedGeometric):
        mech.release(np.zeros(5000, np.float64 if real else np.int64))  # which keeps plans beside the parameters
    again = pickle.loads(pickle.dumps(mech))
    assert again == mech
    assert type(again) is type(mech)
    assert hash(again) == hash(mech)
    assert tiers.record(again) == tiers.record(mech)
    for name in ("epsilon", "sigma_squared", "sensitivity", "adjacency", "unit", "target", "granularity", "bound"):
        assert getattr(again, name, None) == getattr(mech, name, None)
    record = json.loads(json.dumps(mech.metadata()))
    assert record == mech.metadata() == again.metadata()
    assert (record["secure"], record["stream_version"]) == (True, tiers.STREAM_VERSION)
    assert mech.metadata(Key.from_bytes(bytes(range(32))).derive("x"))["secure"] is True
    assert mech.metadata(fixed_key(1).derive("x"))["secure"] is False
    assert facts.items() <= record.items()
    if "rho_spent" in record:
        assert Fraction(record["rho_spent"]) == mech.rho()
        assert Fraction(record["sigma_squared"]) == mech.sigma_squared
    assert repr(again) == repr(mech)
    assert shown in repr(mech)
    assert "<table>" in mech._repr_html_()


@real
def test_the_default_grid_is_some_millionth_of_the_scale(make: Callable[..., Any]) -> None:
    """The largest power of two that is at most the scale times 2^-20."""
    for scale in (1, 1.5, 2, 3, 0.1, Fraction(1, 3), math.pi, 2.0**-50, 2.0**-50 * 1.0000001, 1e-30, 1e9, 1e30, 7e-300, 2.0**900):  # fmt: skip
        granularity = make(scale).granularity
        assert granularity <= scale * 2.0**-20 < 2 * granularity
        assert 2**20 <= Fraction(scale) / Fraction(granularity) < 2**21


@real
@pytest.mark.parametrize(
    ("granularity", "message"),
    [
        (3, "^granularity must be a power of two, got 3"),
        (0, "^granularity must be positive"),
        (-2, "^granularity must be positive"),
        (math.inf, "^granularity must be finite"),
        (0.1, "^granularity must be a power of two"),
        (2.0**61, "^the scale must be 2\\*\\*-60 to 2\\*\\*60 times the granularity"),
        (Fraction(1, 2**61), "^the scale must be 2\\*\\*-60 to 2\\*\\*60 times the granularity"),
        (Fraction(1, 2**1075), "^granularity must lie between 2\\*\\*-1074 and 2\\*\\*900"),
        (2.0**901, "^granularity must lie between"),
    ],
)
def test_granularities_that_are_refused(make: Callable[..., Any], granularity: float, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make(1, granularity=granularity)
    assert make(1, granularity=2.0**60).granularity == 2.0**60
    assert make(1, granularity=2.0**-60).granularity == 2.0**-60


@pytest.mark.parametrize("mech", [Laplace(1, 1), Snapping(1, 1, bound=8), Gaussian(1)], ids=str)
def test_real_laws_have_no_sample(mech: Any) -> None:
    """Added to a value off the grid, noise on it would publish the value's low bits."""
    with pytest.raises(DTypeError, match=f"^{type(mech).__name__} has no sample"):
        mech.sample(5)


def test_the_first_page_of_the_design_is_the_meaning_of_a_draw() -> None:
    """The page begins with a function of eight lines, which makes the draws of C."""
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    code = re.search(r"```python\n(def draw.*?)```", page, re.DOTALL)[1]
    mech, stream = DiscreteLaplace(1, 1000), tiers.StreamKey(bytes(32))
    read, meaning = tiers.reader(mech, stream), {}
    exec(code, meaning)
    outcomes = tiers.law(mech).magnitude
    draws = [meaning["draw"](lambda i, level: split(read(i, level))[1], i, outcomes) for i in range(300)]
    assert draws == [abs(k) for k in tiers.constant_work_plan(mech).fill(stream, 0, 300, constant_work=True)]
    exec(code.replace("range(1, 64)", "range(1, 1)"), meaning)
    assert meaning["draw"](read, 0, outcomes) is None
