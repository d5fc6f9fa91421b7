# SPDX-License-Identifier: Apache-2.0
"""Attacks: each succeeds against an unsafe reference written out here, and fails on dpfast.

False alarms: ALPHA (1e-9) for each test that draws, unless it says none.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import plans
import pytest
import tiers
from fresh import python
from gof import ALPHA, normal_p
from scipy import stats

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Key, Laplace, Snapping
from dpfast.errors import KeyReuseError


def certified(events: int, others: int, n: int, level: float = ALPHA) -> float:
    """An epsilon spent, but for a chance of `level`: ln of Clopper-Pearson bounds' ratio."""
    low = stats.beta.ppf(level / 2, events, n - events + 1) if events else 0.0
    high = stats.beta.ppf(1 - level / 2, others + 1, n - others) if others < n else 1.0
    return math.log(low / high) if low else -math.inf


# ------------------------------------------------------------------ low bits [Mir12]


def textbook(x: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """X + the inverse of the distribution function at a double in (0, 1], in doubles."""
    u = (rng.integers(0, 2**52, n) + 1) * 2.0**-52
    return x + np.where(rng.random(n) < 0.5, 1.0, -1.0) * np.log(u)


def possible(y: np.ndarray, x: float) -> np.ndarray:
    """Whether the textbook's generator can make y of x: a rounded one of 2^52 logarithms must."""
    found = np.zeros(y.size, bool)
    near = np.rint(np.exp(-np.abs(y - x)) * 2.0**52)
    for step in range(-4, 5):
        u = np.clip(near + step, 1, 2.0**52) * 2.0**-52
        found |= (x + np.log(u) == y) | (x - np.log(u) == y)
    return found


def test_low_bits_tell_textbook_noise_apart() -> None:
    """A third of the results of 1 cannot come of 0: no epsilon holds, no false alarm."""
    rng, n = np.random.default_rng(1), 20_000
    zero, one = textbook(0.0, n, rng), textbook(1.0, n, rng)
    assert possible(zero, 0.0).all()
    assert possible(one, 1.0).all()
    excluded = int((~possible(one, 0.0)).sum())
    assert excluded > n / 10
    assert certified(excluded, 0, n) > 5


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(1, 1), Laplace(1, 1, granularity=2.0**-44), Laplace(1, 1, granularity=1), Snapping(1, 1, bound=64)],
    ids=str,
)
def test_low_bits_tell_nothing_here(mechanism: Laplace) -> None:
    """The same attack, and one on the grid point's last bits: at most epsilon = 1."""
    n = 200_000
    zero, one = mechanism.release(np.zeros(n)), mechanism.release(np.ones(n))

    def events(y: np.ndarray) -> list[np.ndarray]:
        steps = np.rint(y / mechanism.granularity).astype(np.int64)
        assert (steps * mechanism.granularity == y).all()
        return [~possible(y, 0.0), ~possible(y, 1.0)] + [steps % 2**j == 0 for j in range(1, 12)]

    seen = [[int(event.sum()) for event in events(y)] for y in (zero, one)]
    level = ALPHA / (4 * len(seen[0]))
    for a, b in zip(*seen, strict=True):
        for first, second in ((a, b), (b, a), (n - a, n - b), (n - b, n - a)):
            assert certified(first, second, n, level) <= 1


def telling(zero: np.ndarray, one: np.ndarray, grids: list[float]) -> list[float]:
    """Grids off which the two lie unequally often, at ALPHA for all together."""
    n, found = zero.size, []
    for grid in grids:
        a, b = (int((y / grid != np.rint(y / grid)).sum()) for y in (zero, one))
        p = (a + b) / (2 * n)
        if 0 < p < 1 and normal_p((a - b) / math.sqrt(2 * n * p * (1 - p))) < ALPHA / len(grids):
            found.append(grid)
    return found


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_precision_tells_numpys_noise_apart(law: str) -> None:
    """Floats beside 0 are finer than beside 1, as are sums: the grid of 2^-53 tells them."""
    n, rng = 2**19, np.random.default_rng(2)
    zero, one = (x + getattr(rng, law)(0, 1, n) for x in (0.0, 1.0))
    assert 2.0**-53 in telling(zero, one, [2.0**-j for j in range(40, 70)])


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(1, 1), Laplace(1, 1, granularity=2.0**-44), Laplace(1, 1, granularity=2.0**-50), Snapping(1, 1, bound=64),
        Gaussian(8), Gaussian(8, granularity=2.0**-40), Gaussian(8, granularity=1), DiscreteGaussian(8), DiscreteLaplace(1, 8),
    ],
    ids=str,
)  # fmt: skip
def test_precision_tells_nothing_here(mechanism: Any) -> None:
    """Off any grid up to a half, results of two neighbours lie equally often; on its own, all."""
    pairs, finest, kind = [(0.0, 1.0), (0.1 + 0.2, 0.3), (1e-300, 0.0), (1.5 * 2.0**30, 1.5 * 2.0**30 + 1)], 1.0, float
    if mechanism.LAW.startswith("discrete"):
        pairs, kind = [(0, 1)], int
    else:
        finest = mechanism.granularity
    grids = [finest * 2.0**j for j in range(60) if finest * 2.0**j <= 0.5] or [finest]
    for pair in pairs:
        zero, one = (mechanism.release(np.full(2**18, x, kind)) for x in pair)
        for y in (zero, one):
            assert (y / finest == np.rint(y / finest)).all()
        assert telling(zero, one, grids) == []


# ------------------------------------------------------------------ predictable generators

SCALE = 2**40  # at which noise shows all 31 digits of the word that it was made of


def mersenne(counts: np.ndarray, rng: random.Random) -> np.ndarray:
    """Discrete Laplace noise by inversion, from a generator that is not cryptographic."""
    words = [rng.getrandbits(32) for _ in counts]
    size = [math.floor(-SCALE * math.log(((w & 0x7FFFFFFF) + 0.5) / 2**31)) for w in words]
    return counts + np.array([-k if w >> 31 else k for w, k in zip(words, size, strict=True)])


def words_of(noise: np.ndarray) -> list[int]:
    """The 32 bits that each noise was made of, the sign on top."""
    return [
        (k < 0) << 31 | min(math.floor(math.exp(-(abs(k) + 0.5) / SCALE) * 2**31), 2**31 - 1) for k in noise.tolist()
    ]


def continued(words: list[int]) -> random.Random:
    """The Mersenne Twister of these 624 words: its output is a bijection of its state."""

    def untempered(y: int) -> int:
        y ^= y >> 18
        y ^= y << 15 & 0xEFC60000
        x = y
        for _ in range(5):
            x = y ^ (x << 7 & 0x9D2C5680)
        y = x
        for _ in range(3):
            x = y ^ x >> 11
        return x & 0xFFFFFFFF

    rng = random.Random()
    rng.setstate((3, (*map(untempered, words), 624), None))
    return rng


def predicted(noise: np.ndarray) -> int:
    """How many draws after the first 624 their 32 bits predict."""
    words = words_of(noise)
    rng = continued(words[:624])
    return sum(rng.getrandbits(32) == word for word in words[624:])


def test_the_state_of_a_twister_is_read_off_its_noise() -> None:
    """624 known counts give all others away. Here at most one by chance; two: 2e-13."""
    counts = np.random.default_rng(3).integers(0, 10**6, 2_624)  # the first 624 are the attacker's own
    released = mersenne(counts, random.Random(4))
    stream = continued(words_of(released[:624] - counts[:624]))
    assert (released[624:] - mersenne(np.zeros(2_000, np.int64), stream) == counts[624:]).all()
    assert predicted(released - counts) == 2_000
    ours = DiscreteLaplace(1, SCALE)
    assert predicted(ours.release(counts) - counts) <= 1
    small = np.array([int(ours.release(np.zeros(1, np.int64))[0]) for _ in range(2_624)])
    assert predicted(small) <= 1


def searched(released: np.ndarray, known: np.ndarray, seeds: range, scale: float) -> np.ndarray | None:
    """All counts, if one of the seeds explains the results of the first few, which are known."""
    for seed in seeds:
        noise = np.rint(np.random.default_rng(seed).laplace(0, scale, released.size)).astype(np.int64)
        if (released[: known.size] - noise[: known.size] == known).all():
            return released - noise
    return None


def test_a_seed_is_found_by_trying() -> None:
    """PCG64 seeded with the second: four known counts give all away. Here 2^256 keys remain."""
    counts, scale = np.random.default_rng(5).integers(0, 10**6, 200), 10**6
    noise = np.rint(np.random.default_rng(2_026).laplace(0, scale, 200)).astype(np.int64)
    found = searched(counts + noise, counts[:4], range(3_600), scale)
    assert found is not None
    assert (found == counts).all()
    assert searched(DiscreteLaplace(1, scale).release(counts), counts[:4], range(3_600), scale) is None  # but for 2e-21


def test_a_release_asks_the_system_once_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fresh 32-byte key a release, wiped afterwards; none continues another's stream."""
    n, results, watch = 5_000, [], tiers.Asked(monkeypatch)
    asked, streams = watch.bytes, watch.streams
    for mechanism in (DiscreteLaplace(1, 10**6), DiscreteGaussian(10**6), Laplace(1, 1), Gaussian(1)):
        integer = mechanism.LAW.startswith("discrete")
        for _ in range(3):
            found = mechanism.release(np.zeros(n, np.int64 if integer else np.float64))
            key = tiers.StreamKey(asked[-1])
            assert streams.pop() is key
            plan, offset = tiers.bulk_plan(mechanism), None if integer else [0.0] * (2 * n)
            drawn = plan.fill(key, 0, 2 * n, constant_work=False, offset=offset)
            grid = 1 if integer else mechanism.granularity
            equal = [float(f) == d * grid for f, d in zip(found, drawn, strict=False) if d is not None]
            assert all(equal)  # the key explains this release
            results.append((found, np.array([0 if d is None else d for d in drawn[n:]]) * grid))
        for later, (_, rest) in zip(results[1:], results, strict=False):
            assert (later[0] == rest).mean() < 0.01  # and its rest not the next
    assert [len(secret) for secret in asked] == [32] * 12
    assert len(set(asked)) == 12
    assert len(streams) == 12
    wiped = {stream.block(0, 0) for stream in streams}
    assert wiped == {tiers.StreamKey(bytes(32)).block(0, 0)}


# ------------------------------------------------------------------ fork replay

WORKERS = """
    import multiprocessing
    import numpy as np
    import dpfast

    rng = np.random.default_rng()  # before the fork, as a module does that makes one for all
    mechanism = dpfast.DiscreteLaplace(1, 10**6)
    mechanism.release(np.zeros(5000, np.int64))  # whatever dpfast keeps, it has now
    a = np.arange(5000) * 7 % 1000
    b = np.arange(5000) * 5 % 1000

    def forked(counts):
        return counts + np.rint(rng.laplace(0, 10**6, counts.size)).astype(np.int64), mechanism.release(counts)

    context = multiprocessing.get_context("fork")
    found = []
    for counts in (a, b):
        with context.Pool(1) as pool:
            found.append(pool.apply(forked, (counts,)))
    (unsafe, ours), (other_unsafe, other_ours) = found
    print(int((unsafe - other_unsafe == a - b).sum()), int((ours - other_ours == a - b).sum()))
"""


def test_forked_workers_replay_a_generator() -> None:
    """Children replay a generator: results differ as counts do; ours in 2 of 5,000 at most."""
    unsafe, ours = map(int, python(WORKERS).split())
    assert unsafe == 5_000
    assert ours <= 2


# ------------------------------------------------------------------ key reuse


def seeded_by_label(counts: np.ndarray, label: str) -> np.ndarray:
    """Repeatable noise as it is often made: a seed from the release's name."""
    rng = np.random.default_rng(list(label.encode()))
    return counts + np.rint(rng.laplace(0, 10**6, counts.size)).astype(np.int64)


def test_two_inputs_under_one_key() -> None:
    """Today's table less yesterday's shows who came, if noise hangs on the label alone."""
    yesterday = np.random.default_rng(6).integers(0, 1_000, 5_000)
    today = yesterday.copy()
    today[1_234] += 1
    difference = seeded_by_label(today, "visits") - seeded_by_label(yesterday, "visits")
    assert np.flatnonzero(difference).tolist() == [1_234]

    mechanism, master = DiscreteLaplace(1, 10**6), Key.generate()
    key = master.derive("visits")
    first = mechanism.release(yesterday, key=key)
    for resume in (False, True):
        with pytest.raises(KeyReuseError):
            mechanism.release(today, key=master.derive("visits"), resume=resume)
    tiers.forget_labels()  # another process without a ledger, where nobody refuses
    elsewhere = mechanism.release(today, key=master.derive("visits"))
    difference = elsewhere - first - (today - yesterday)
    assert (difference == 0).sum() <= 2  # by chance 1e-3 of a cell; three: 3e-10
    # Each has variance 2 t^2, so their difference 4 t^2 and a fourth moment of 72 t^4.
    t, n = 10.0**6, difference.size
    real = difference.astype(np.float64)
    assert normal_p(real.mean() / math.sqrt(4 * t**2 / n)) > ALPHA / 2
    assert normal_p((np.mean(real**2) - 4 * t**2) / math.sqrt(56 * t**4 / n)) > ALPHA / 2


def test_a_mean_of_many_parts_does_not_find_the_count() -> None:
    """One count under one label, again and again, in any shape: one release, or a refusal."""
    mechanism, key = DiscreteLaplace(1, 10**6), Key.generate().derive("visits")
    seen = {int(mechanism.release([7], key=key, resume=True)[0]) for _ in range(200)}
    for values in ([7, 7], [[7]]):
        with pytest.raises(KeyReuseError):
            mechanism.release(values, key=key, resume=True)
    assert len(seen) == 1


def test_equal_parts_and_columns_show_no_equal_noise() -> None:
    """Equal counts in two blocks, columns, or under two labels are not told by equal outputs."""
    mechanism, master, n = DiscreteLaplace(1, 10**6), Key.generate(), tiers.SEALED_ROWS
    counts = np.zeros(2 * n, np.int64)
    noisy = mechanism.release(counts, key=master.derive("blocks"))
    assert (noisy[:n] == noisy[n:]).sum() <= 5  # by chance 2.5e-7 of a cell; six: 1e-14
    key = master.derive("columns")
    columns = {"a": mechanism, "b": mechanism}
    made = [key.digester(mechanism, column=name)(0, counts[:n]) for name in columns]
    sealed = key.seal(columns, made, shape=(n,)).without_ledger()
    one, other = (sealed.release(0, counts[:n], column=name) for name in columns)
    assert (one == other).sum() <= 5
    labels = [mechanism.release(counts[:n], key=master.derive(label)) for label in ("a", "b")]
    assert (labels[0] == labels[1]).sum() <= 5


# ------------------------------------------------------------------ thresholds that are off by one


def table_moved(cells: list[int | None], k: int) -> list[int | None]:
    """The last cell of k given to k - 1: a threshold that is off by one cell."""
    last = max(i for i, cell in enumerate(cells) if cell == k)
    return [k - 1 if i == last else cell for i, cell in enumerate(cells)]


def mass(mechanism: DiscreteLaplace, cells: list[int | None], most: int) -> np.ndarray:
    """P(|X| = k), k <= most, of 15 digits by this table, with undecided cells decided exactly."""
    t, n = mechanism.scale, len(cells)
    at_least = [2 * math.exp(-j / t) / (1 + math.exp(-1 / t)) if j else 1.0 for j in range(most + 2)]
    share = np.bincount([cell for cell in cells if cell is not None], minlength=most + 1)[: most + 1].astype(float)
    for i in [i for i, cell in enumerate(cells) if cell is None]:
        share -= np.diff(np.clip(np.array(at_least) * n - i, 0.0, 1.0))
    return share / n


def planned(mechanism: DiscreteLaplace, cells: list[int | None]) -> tiers.Plan:
    """A bulk release's plan that has this table."""
    return tiers.Plan(mechanism.LAW, table=plans.signed_table(cells), **tiers.constants(mechanism))


def drawn(mechanism: DiscreteLaplace, plan: tiers.Plan, n: int) -> np.ndarray:
    return tiers.drawn(mechanism, n, tiers.StreamKey(tiers.entropy(32)), plan=plan, constant_work=False, threads=None)


def test_a_threshold_off_by_one_is_told_from_the_law() -> None:
    """One cell of 32,768 moved: epsilon is exceeded there; as it is, the ratio holds to 1e-9.

    Cells of 55 and of 65 are moved in one table. Of 2^26 draws that shifts counts by 12 and by 20
    standard deviations, and 6.4 are seen.
    """
    mechanism, ks, most = DiscreteLaplace(1, 10), (55, 65), 70
    cells = tiers.law(mechanism).table(tiers.TABLE_BITS)
    right, moved = mass(mechanism, cells, most), cells
    assert right[1:70] / right[2:71] == pytest.approx([math.exp(0.1)] * 69, rel=1e-9)
    for k in ks:
        moved = table_moved(moved, k)
    wrong = mass(mechanism, moved, most)
    assert all(wrong[k - 1] / wrong[k] > math.exp(0.1) * 1.05 for k in ks)

    pieces, n = 2**6, 2**20  # so that one lies in a cache
    for table, caught in ((cells, False), (moved, True)):
        seen, plan = np.zeros(most + 1), planned(mechanism, table)
        for _ in range(pieces):
            noise = drawn(mechanism, plan, n)
            seen += np.bincount(np.abs(noise, out=noise), minlength=most + 1)[: most + 1]
        z = np.abs(seen - pieces * n * right) / np.sqrt(pieces * n * right * (1 - right))
        for k in ks:
            assert (normal_p(float(z[k - 1 : k + 1].max())) < ALPHA / 4) == caught, (k, z)


def test_an_output_that_one_neighbour_cannot_have() -> None:
    """Noise that ends with its table: probability 0 for x, and not for x + 1. Ours goes on."""
    mechanism, n = DiscreteLaplace(1, 1), 2**22
    cells = tiers.law(mechanism).table(tiers.TABLE_BITS)
    most = max(cell for cell in cells if cell is not None)
    clipped = [most if cell is None and i < 40 else cell for i, cell in enumerate(cells)]
    for table, caught in ((cells, False), (clipped, True)):
        plan = planned(mechanism, table)
        zero, one = drawn(mechanism, plan, n), drawn(mechanism, plan, n) + 1
        beyond = [int((x > most).sum()) for x in (zero, one)]
        assert (certified(beyond[1], beyond[0], n) > 1) == caught
