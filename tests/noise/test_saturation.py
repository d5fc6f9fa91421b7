# SPDX-License-Identifier: Apache-2.0
"""The exact sum saturates, never the noise; so do sums with draws of the exact tier."""

from __future__ import annotations

import _thread
import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import plans
import pytest
import tiers
from sums import Summing, summing

from dpfast import DiscreteLaplace
from dpfast.errors import DpfastError
from dpfast.noise.release.arrays import clamps

DTYPES = [np.dtype(kind + size) for kind in "iu" for size in "1248"]
SECRET = bytes(range(32))
MAIN = threading.main_thread()

# The table; words of 32 and of 64 bits; the last narrow scale and the first wide one; the largest.
SCALES = [1, 100, 10**5, 2**30, 10**12, 2**54, 2**54 + 1, 2**60]


def clamp(value: int, lower: int, upper: int) -> int:
    return min(max(value, lower), upper)


def at_the_ends(dtype: np.dtype, n: int) -> np.ndarray:
    """Counts at and beside both ends of the type, around zero, and anywhere."""
    ends = np.iinfo(dtype)
    low, high = int(ends.min), int(ends.max)
    rng = random.Random(n)
    pool = [low, high, low + 1, high - 1, 0, high // 2, *(rng.randint(low, high) for _ in range(3))]
    return np.resize(np.array(pool, dtype), n)


def exact_sums(counts: np.ndarray, draws: list[int]) -> np.ndarray:
    """count + noise as Python's integers."""
    return counts.astype(object) + np.array(draws, object)


@cache
def mechanism(scale: int) -> DiscreteLaplace:
    return DiscreteLaplace(1, scale)


@cache
def noise(scale: int, n: int, start: int, *, constant_work: bool) -> list[int]:
    """The draws themselves: from the C fill alone, and from the exact tier if it is undecided."""
    mech = mechanism(scale)
    plan = tiers.constant_work_plan(mech) if constant_work else tiers.bulk_plan(mech)
    stream = tiers.StreamKey(SECRET)
    found = plan.fill(stream, start, n, constant_work=constant_work)
    return [tiers.decided(mech, stream, start + i) if x is None else x for i, x in enumerate(found)]


def add(
    scale: int, counts: np.ndarray, out: np.ndarray, start: int, *, constant_work: bool, threads: int | None = None, **bounds: int | None
) -> None:  # fmt: skip
    """What release does under a given stream key."""
    mech, stream = mechanism(scale), tiers.StreamKey(SECRET)
    plan = tiers.constant_work_plan(mech) if constant_work else tiers.bulk_plan(mech)
    tiers.added(
        counts, out, plan=plan, narrow=tiers.narrow(mech), key=stream, start=start, constant_work=constant_work,
        threads=threads, **bounds,
    )  # fmt: skip


@pytest.mark.parametrize("constant_work", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_the_exact_sum_saturates(scale, constant_work) -> None:
    """All 64 pairs of dtypes, counts at both ends: count + noise clamped in integers."""
    n = 300 if constant_work else 4500
    draws = noise(scale, n, 0, constant_work=constant_work)
    saturated = 0
    for given_ in DTYPES:
        counts = at_the_ends(given_, n)
        sums = exact_sums(counts, draws)
        for made in DTYPES:
            out = np.full(n, 77, made)
            low, high = clamps(made, None, None)
            add(scale, counts, out, 0, constant_work=constant_work)
            wanted = np.clip(sums, low, high)
            assert np.array_equal(out, wanted.astype(made)), (given_, made)
            saturated += np.count_nonzero(wanted != sums)
    assert saturated > 1000 * (n // 300)


@pytest.mark.parametrize("past", [False, True], ids=["", "past the caches"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_in_the_pipeline(dtype, past, monkeypatch) -> None:
    """Blocks that are summed while the next is drawn: in place, and from any place in a line."""
    n, ends, kinds = 2 * tiers.BLOCK + 1500, np.iinfo(dtype), []
    counts, draws = at_the_ends(dtype, n), noise(10, n, 5, constant_work=False)
    tiers.around_c(monkeypatch, lambda call, release, *given: kinds.append(tiers.told(release)[:2]) or call(*given))
    tiers.past_the_caches(past)
    try:
        for lower, upper in ((None, None), (int(ends.min) + 1, int(ends.max) // 2), (3, 100)):
            low, high = clamps(dtype, lower, upper)
            wanted = np.clip(exact_sums(counts, draws), low, high).astype(dtype)
            for place in (0, 1, 13, 64 // dtype.itemsize):
                room = np.full(n + 200, 7, dtype)
                out = room[place : place + n]
                add(10, counts, out, 5, constant_work=False, lower=lower, upper=upper)
                assert np.array_equal(out, wanted), (lower, upper, place)
                assert (room[:place] == 7).all()
                assert (room[place + n :] == 7).all()
                out[:] = counts
                add(10, out, out, 5, constant_work=False, lower=lower, upper=upper)
                assert np.array_equal(out, wanted), (lower, upper, place, "in place")
    finally:
        tiers.past_the_caches(False)
    assert set(kinds) == {(tiers.KINDS[dtype], 1)}


@pytest.mark.parametrize("constant_work", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_public_bounds_clamp_the_exact_sum(scale, constant_work) -> None:
    """lower and upper, in the type or beyond, apply to the exact sum before it is narrowed."""
    n = 300 if constant_work else 4500
    draws = noise(scale, n, 7, constant_work=constant_work)
    pairs = [("i8", "i8"), ("u8", "u8"), ("u8", "i8"), ("i8", "u8"), ("i4", "i2"), ("u1", "u8"), ("i8", "i1")]
    pairs += [(dtype.str, dtype.str) for dtype in DTYPES if dtype.itemsize < 8]
    for given_, made in pairs:
        counts = at_the_ends(np.dtype(given_), n)
        ends = np.iinfo(made)
        low, high = int(ends.min), int(ends.max)
        places = sorted({low, low + 1, 0, 1, high // 2, high - 1, high})
        saturated = np.clip(exact_sums(counts, draws), low, high).astype(made)  # then clamped again: the same
        for lower, upper in [
            *itertools.combinations_with_replacement(places, 2),
            (-(2**80), 2**80),
            (0, None),
            (None, 0),
        ]:
            out = counts.copy().view(made) if counts.itemsize == np.dtype(made).itemsize else np.zeros(n, made)
            # The counts are read through `out` itself where it has their size: in place.
            source = out.view(given_) if counts.itemsize == out.itemsize else counts
            add(scale, source, out, 7, constant_work=constant_work, lower=lower, upper=upper)
            least, most = (low if lower is None else max(lower, low)), (high if upper is None else min(upper, high))
            wanted = np.minimum(np.maximum(saturated, saturated.dtype.type(least)), saturated.dtype.type(most))
            assert np.array_equal(out, wanted), (given_, made, lower, upper)


@pytest.mark.parametrize(
    ("scale", "given_", "made"), [(10, "i8", "i8"), (10, "u8", "i8"), (2**60, "u8", "u8"), (2**40, "i4", "i4")]
)
def test_saturation_in_threads_and_strides(scale, given_, made) -> None:
    """Past one share, one slab and one buffer: plain and strided arrays, one thread and three."""
    n = 2**19 + 2**18 + 1
    draws = np.array(noise(scale, n, 5, constant_work=False), object)
    counts = at_the_ends(np.dtype(given_), n)
    low, high = clamps(np.dtype(made), None, None)
    expected = np.clip(counts.astype(object) + draws, low, high).astype(made)
    for threads, step in itertools.product((1, 3), (1, -2)):
        out = np.zeros(n * abs(step), made)[::step]
        add(scale, counts[:: np.sign(step)][:: np.sign(step)], out, 5, constant_work=False, threads=threads)
        assert np.array_equal(out, expected), (threads, step)


# ------------------------------------------------------------------ the sum itself, everywhere

SIGNED_EDGES = [-(2**63), -(2**63) + 1, -(2**62), -129, -128, -1, 0, 1, 127, 128, 2**62, 2**63 - 2, 2**63 - 1]


@pytest.fixture(scope="module")
def ways_to_sum(tmp_path_factory) -> dict[str, Summing]:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return summing(tmp_path_factory.mktemp("sums"))


@pytest.fixture(params=["sums", "each"])
def added(request, ways_to_sum) -> Summing:
    """The loops over a batch; the sum of a draw that waited."""
    return ways_to_sum[request.param]


def test_the_narrow_sum_at_every_edge(added) -> None:
    """x + noise clamped, for all edges of int64, noise below 2^62, and all pairs of bounds."""
    draws = [-(2**62), -(2**62) + 1, -(2**61), -129, -1, 0, 1, 127, 2**61, 2**62 - 1]
    values, noises = map(list, zip(*itertools.product(SIGNED_EDGES, draws), strict=True))
    for lower, upper in itertools.combinations_with_replacement(SIGNED_EDGES, 2):
        found = added(tiers.INT64, 1, values, noises, lower, upper)
        assert found == [clamp(x + k, lower, upper) % 2**64 for x, k in zip(values, noises, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_narrow_sum_of_every_type_at_every_edge(dtype, added) -> None:
    """uint64, whose values are turned, and the types below 64 bits."""
    ends, draws = np.iinfo(dtype), [-(2**62), -(2**61), -32767, -129, -1, 0, 1, 127, 2**15, 2**61, 2**62 - 1]
    edges = sorted({int(ends.min), int(ends.min) + 1, 0, 1, 100, int(ends.max) // 2, int(ends.max) - 1, int(ends.max)})
    values, noises = map(list, zip(*itertools.product(edges, draws), strict=True))
    for lower, upper in itertools.combinations_with_replacement(edges, 2):
        found = added(tiers.KINDS[dtype], 1, values, noises, lower, upper)
        assert found == [clamp(x + k, lower, upper) % 2**64 for x, k in zip(values, noises, strict=True)]


def test_the_wide_sum_at_every_edge(added) -> None:
    """The same in two limbs: signed and unsigned, noise up to 2^67, bounds of both 64-bit types."""
    sizes = [
        0,
        1,
        2**31,
        2**62,
        2**63 - 1,
        2**63,
        2**63 + 1,
        2**64 - 1,
        2**64,
        2**64 + 2**63 - 1,
        2**64 + 2**63,
        2**66 + 3,
        2**67 - 1,
    ]
    draws = sorted({sign * size for sign in (1, -1) for size in sizes})
    unsigned_edges = [0, 1, 127, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    both = [
        (-(2**63), 2**63 - 1),
        (0, 2**64 - 1),
        (0, 2**63 - 1),
        (-5, 2**64 - 1),
        (2**63, 2**64 - 1),
        (7, 7),
        (-(2**63), -(2**63)),
    ]

    for edges, kind in ((SIGNED_EDGES, tiers.INT64), (unsigned_edges, tiers.UINT64)):
        values, noises = map(list, zip(*itertools.product(edges, draws), strict=True))
        for lower, upper in both:
            found = added(kind, 2, values, noises, lower, upper)
            assert found == [clamp(x + k, lower, upper) % 2**64 for x, k in zip(values, noises, strict=True)]


def test_a_small_world_whole() -> None:
    """Every int8 and uint8 count with every 16-bit noise: by a table."""
    words = np.arange(2**16).astype(np.int16)
    words[words == tiers.UNDECIDED] = 0
    plan = tiers.Plan("discrete_laplace", table=words, width=16, bulk=tiers.TABLE, constant_work=tiers.INTEGER)
    stream = tiers.StreamKey(SECRET)
    n = 2**19
    draws = np.array(plan.fill(stream, 0, n, constant_work=False))
    assert len(np.unique(draws)) > 0.99 * 2**16  # 2^16 (1 - e^-8)
    for given_, made in itertools.product("bB", "bBhH"):
        counts = np.arange(n).astype(given_)
        for lower, upper in ((None, None), (0, None), (-3, 100), (50, 50)):
            low, high = clamps(np.dtype(made), lower, upper)
            out = np.zeros(n, made)
            tiers.added(counts, out, plan=plan, lower=lower, upper=upper, key=stream)
            assert np.array_equal(out, np.clip(counts + draws, low, high).astype(made)), (given_, made, lower, upper)


# ------------------------------------------------------------------ draws for the exact tier

LARGE = 2**60  # a scale: one draw in 3,000 leaves int64, and one in 50 what one limb may hold


def undecidable(table: np.ndarray | None = None, width: int = 16, tier: int = tiers.TABLE) -> tiers.Plan:
    """A plan whose draws only the exact tier decides: no margin, cells of integers too wide."""
    if table is None and tier == tiers.TABLE:
        table = np.full(2**16, tiers.UNDECIDED, np.int16)
    return tiers.Plan(
        "discrete_laplace", table=table, width=width, bulk=tier, constant_work=max(tier, tiers.DOUBLE), t=1.0, offset=0.0, margin=-1.0, relative_error=0.0,
        half_cell=np.inf, double_double_margin=-1.0, wide_cell=1000, wide_t=2**120, wide_c=2**123, scale=(LARGE if width > 16 else 100) << 832,
    )  # fmt: skip


def by(plan: tiers.Plan, **options: bool) -> dict[str, Any]:
    """What tiers.added is told: a plan under one key, and how."""
    return {"plan": plan, "key": tiers.StreamKey(SECRET), **options}


# Table, 32 and 64 bits of doubles, double-double, integers.
WAYS = {
    "table": lambda: by(undecidable()),
    "table, constant_work": lambda: by(undecidable(), constant_work=True),
    "double 32": lambda: by(undecidable(None, 32, tiers.DOUBLE)),
    "double 64": lambda: by(undecidable(None, 64, tiers.DOUBLE)),
    "double 64, constant_work": lambda: by(undecidable(None, 64, tiers.DOUBLE), constant_work=True),
    "double-double": lambda: by(undecidable(None, 64, tiers.DOUBLE_DOUBLE)),
    "double-double, wide": lambda: by(undecidable(None, 64, tiers.DOUBLE_DOUBLE), narrow=False),
    "integers, wide": lambda: by(undecidable(None, 64, tiers.INTEGER), narrow=False, constant_work=True),
}
by_way = pytest.mark.parametrize("way", WAYS)


@cache
def drawn(width: int, i: int) -> int:
    """Draw i under SECRET by the law in intervals, of a plan with words of this width."""
    mech = mechanism(LARGE if width > 16 else 100)
    return tiers.law(mech).draw(tiers.reader_of(tiers.StreamKey(SECRET), width), i)


@by_way
def test_a_plan_that_never_decides(way) -> None:
    """The planted plans of the tests below do leave every draw open, in each instruction set."""
    how = WAYS[way]()
    for isa in tiers.ISAS:
        assert (
            how["plan"].fill(how["key"], 3, 700, constant_work=how.get("constant_work", False), isa=isa) == [None] * 700
        )


@by_way
@pytest.mark.parametrize("in_place", [False, True])
def test_draws_of_the_exact_tier_are_added_exactly(way, in_place) -> None:
    """Every count gets count + draw i, clamped as any integer; in place counts are kept."""
    n, start = 6, 10**6 + 61  # beside the middle of a pair of registers
    how = WAYS[way]()
    draws = [drawn(how["plan"].width, start + i) for i in range(n)]
    kinds = ("i8", "i8"), ("i8", "u8"), ("u8", "i8"), ("u8", "u8"), ("i4", "u4"), (">u2", "u2")
    for given_, made in (*kinds, *((d, d) for d in "iIhHbB")):
        for lower, upper in ((None, None), (3, 100)):
            counts = at_the_ends(np.dtype(given_), n)
            values, out = counts.tolist(), counts.view(made) if in_place else np.full(n, 77, made)
            low, high = clamps(np.dtype(made), lower, upper)
            tiers.added(counts, out, lower=lower, upper=upper, start=start, **how)
            assert out.tolist() == [clamp(x + k, low, high) for x, k in zip(values, draws, strict=True)]


@pytest.mark.parametrize("kind", ["b", "B", "h", "H", "i", "I", "l", "L"])
def test_large_draws_saturate(kind) -> None:
    """At the largest scale one draw in 50 is beyond 2^62: each of 300 that is, at all ends.

    In a call with the draw before it.
    """
    plan = undecidable(None, 64, tiers.INTEGER)
    large = [i for i in range(1, 301) if not -(2**62) < drawn(64, i) < 2**62]
    assert len(large) > 1
    low, high = clamps(np.dtype(kind), None, None)
    for i, count in itertools.product(large, at_the_ends(np.dtype(kind), 9)):
        out = np.zeros(2, kind)
        tiers.added(np.array([count, count]), out, start=i - 1, constant_work=True, **by(plan))
        assert out.tolist() == [clamp(int(count) + drawn(64, at), low, high) for at in (i - 1, i)]


@cache
def some_open() -> tuple[tiers.Plan, np.ndarray]:
    """A table with one word in 4,096 undecided, and the sums of 2^20 + 9 counts at the ends."""
    table = np.arange(2**16).astype(np.int16)
    table[:: 2**12] = tiers.UNDECIDED
    table[2**15] = tiers.UNDECIDED
    plan, start = undecidable(table), 12345
    draws = plan.fill(tiers.StreamKey(SECRET), start, 2**20 + 9, constant_work=False)
    opened = [i for i, k in enumerate(draws) if k is None]
    assert 100 < len(opened) < 1000
    for i in opened:
        draws[i] = drawn(16, start + i)
    counts, ends, far = at_the_ends(np.dtype("i8"), len(draws)), np.iinfo(np.int64), 2**62
    lowest = np.where(counts < 0, ends.min - counts.clip(max=0), -far)  # noise for which there is room
    highest = np.where(counts > 0, ends.max - counts.clip(min=0), far)
    return plan, counts + np.array(draws).clip(lowest, highest)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("step", [1, 2])
def test_some_open_draws_among_many(threads, step) -> None:
    """Those get exact draws, each its own; any threads."""
    plan, expected = some_open()
    counts = np.zeros(expected.size * step, np.int64)[::step]
    counts[:] = at_the_ends(np.dtype("i8"), expected.size)
    key = tiers.StreamKey(SECRET)
    tiers.added(counts, counts, plan=plan, key=key, start=12345, threads=threads)
    assert np.array_equal(counts, expected)


# ---------------------------------------------------------- small calls, for which C draws the key


def test_a_small_call_by_the_exact_tier_alone() -> None:
    """Counts far apart get draws of their own, and saturate at bounds."""
    plan = undecidable(None, 16, tiers.DOUBLE)
    counts = np.arange(160).reshape(8, 20) * 10**6
    found = counts.copy()
    tiers.added_small(plan, counts, found)
    assert 50 < np.abs(found - counts).mean() < 200  # 100 expected; beyond either by chance in a run of 10^13
    counts, found = counts[::4], found[::4].copy()
    tiers.added_small(plan, counts - 6 * 10**7, found, 10, 11)
    assert set(found.reshape(-1).tolist()) == {10, 11}


# ------------------------------------------------------------------ failing closed


class Odd(BaseException):
    """An exception that nobody foresaw."""


FAILURES = [RuntimeError, KeyboardInterrupt, SystemExit, MemoryError, Odd]


def open_for_good() -> tiers.Plan:
    """A discrete Gaussian whose acceptance no digit decides: its scale is too small for that."""
    constants = plans.normal(Fraction(16), short=True)
    blind = {name: -1.0 for name in constants if "margin" in name}
    never = {"rejects": 1.0, "accept_below": 0, "candidates": 1}
    return tiers.Plan("discrete_gaussian", **constants | blind | never)


@pytest.mark.parametrize("n", [7, 5000, 2**19 + 2**18])
@pytest.mark.parametrize("constant_work", [False, True])
def test_a_draw_that_all_digits_leave_open_zeroes_out(n, constant_work) -> None:
    """In place and elsewhere, by one thread or two: no count and no sum is left."""
    counts = np.full(n, 999, np.int64)
    for out in (np.full(n, 777, np.int64), counts):
        with pytest.raises(DpfastError, match="all digits of a draw leave it undecided, so nothing is released"):
            tiers.added(
                counts, out, plan=open_for_good(), key=tiers.StreamKey(SECRET), constant_work=constant_work, threads=2
            )
        assert not out.any()
    few = np.full(9, 999)
    with pytest.raises(DpfastError, match="leave it undecided"):
        tiers.added_small(open_for_good(), few, few)
    assert not few.any()


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("where", ["main", "other", "any"])
def test_a_failure_in_one_thread_stops_all_and_zeroes_out(failure, step, where, monkeypatch) -> None:
    """In the calling thread or a helper: zeros, the failure comes through, no thread stays."""
    n = 2**20 + 2**19
    counts = np.full(n * step, 999, np.int64)[::step]
    before, helped = _thread._count(), threading.Event()

    def fails(call: Callable[..., None], _: Any, *arguments: Any) -> None:
        helping = threading.get_ident() != MAIN.ident
        if helping:
            helped.set()
        elif where == "other":
            assert helped.wait(60)  # else the caller might do it all
        call(*arguments)
        if where == "any" or helping == (where == "other"):
            raise failure

    tiers.around_c(monkeypatch, fails)
    with pytest.raises(failure):
        add(100, counts, counts, 0, constant_work=False, threads=4)
    assert not counts.any()
    alone(before)
    assert not counts.any()


def alone(before: int) -> None:
    """Wait until no thread is left but those that were there before."""
    for _ in range(60_000):
        if _thread._count() <= before:
            return
        time.sleep(0.001)
    pytest.fail("a thread stays behind")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, whatever the shell that started the tests ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("presses", [1, 3])
def test_ctrl_c_while_a_helper_still_works(presses, monkeypatch) -> None:
    """Interrupted after its own share, the caller waits for the helper, which would write later."""
    counts = np.full(2**20, 999, np.int64)
    before, helped = _thread._count(), threading.Event()

    def slowly(call: Callable[..., None], _: Any, *arguments: Any) -> None:
        if threading.get_ident() == MAIN.ident:
            assert helped.wait(60)
        elif not helped.is_set():
            helped.set()
            for _press in range(presses):
                time.sleep(0.1)  # the caller's share takes a millisecond
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        call(*arguments)

    tiers.around_c(monkeypatch, slowly)
    with pytest.raises(KeyboardInterrupt):
        add(100, counts, counts, 0, constant_work=False, threads=2)
    assert not counts.any()
    alone(before)
    assert not counts.any()


def test_the_noise_is_never_clipped() -> None:
    """At the largest scale a uint64 0 saturates at 0 for half of the draws, never wraps."""
    mech = DiscreteLaplace(1, 2**60)
    out = mech.release(np.zeros(20000, np.uint64), dtype=np.uint64)
    share = (out == 0).mean()
    assert 0.45 < share < 0.55  # a false alarm needs 14 standard deviations
    top = mech.release(np.full(20000, 2**64 - 1, np.uint64), dtype=np.uint64)
    assert 0.45 < (top == 2**64 - 1).mean() < 0.55
    assert mech.scale == float(Fraction(2**60))
    both: list[Callable[[], np.ndarray]] = [
        lambda: mech.release(np.zeros(20000, np.uint64)),
        lambda: mech.release(np.full(20000, 2**63 - 1), dtype=np.uint64),
    ]
    assert abs((both[0]() > 0).mean() - 0.5) < 0.05
    assert abs((both[1]() > 2**63).mean() - 0.5) < 0.05
