# SPDX-License-Identifier: Apache-2.0
"""bounded_histogram: the bound in small worlds for every key tried, the choice, the columns."""

from __future__ import annotations

import ast
import itertools
import pickle
import secrets
import struct
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Never

import numpy as np
import pytest
import tiers
from bounding import as_counter, release_key, sip, within, word
from fresh import python
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Key, Sensitivity, bounded_histogram, thresholded
from dpfast.errors import DTypeError, EntropyError, InsecureKeyWarning, ParameterError, UnusableValuesError
from dpfast.noise.release import columns
from dpfast.testing import fixed_key

one_each = partial(bounded_histogram, max_partitions=1, max_per_partition=1)


# ------------------------------------------------------------------ SipHash


def siphash(key0: int, key1: int, texts: list[bytes]) -> list[int]:
    data, ends = np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(t) for t in texts], dtype=np.int64)
    return tiers.hash_texts((key0, key1), data, ends).tolist()


KEY = 0x0706050403020100, 0x0F0E0D0C0B0A0908
# Bytes 0, ..., n - 1 for n = 0, ..., 16, and 63: the authors' vectors; n = 15 is in the paper.
VECTORS = {
    **dict(enumerate([
        0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0x0D6C8009D9A94F5A, 0x85676696D7FB7E2D, 0xCF2794E0277187B7, 0x18765564CD99A68D,
        0xCBC9466E58FEE3CE, 0xAB0200F58B01D137, 0x93F5F5799A932462, 0x9E0082DF0BA9E4B0, 0x7A5DBBC594DDB9F3, 0xF4B32F46226BADA7,
        0x751E8FBC860EE5FB, 0x14EA5627C0843D90, 0xF723CA908E7AF2EE, 0xA129CA6149BE45E5, 0x3F2ACC7F57C29BDB,
    ])),
    63: 0x958A324CEB064572,
}  # fmt: skip


def test_siphash_known_answers() -> None:
    """The function of texts and the reference give the authors' vectors."""
    texts = [bytes(range(n)) for n in VECTORS]
    assert siphash(*KEY, texts) == list(VECTORS.values()) == [sip(*KEY, text) for text in texts]


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=16, max_size=16), st.lists(st.binary(max_size=40), max_size=6))
def test_siphash_by_the_book(secret, texts) -> None:
    """For any key and texts the C gives what the definition gives."""
    key = struct.unpack("<2Q", secret)
    assert siphash(*key, texts) == [sip(*key, text) for text in texts]


def test_rows_are_bounded_without_numba() -> None:
    """A new installation compiles kernels for seconds: counts and sums of integers need none."""
    python("""
        import sys
        import numpy as np
        import dpfast

        keys, texts = np.array([3, 1, 3, 2**40]), ["Ulm", "Jena", "Ulm", "Bonn"]
        for of in (keys, texts, (keys, texts)):
            for ids in (keys, texts, np.array([-(2**63), 2**63 - 1, 5, 5])):
                dpfast.bounded_histogram(of, ids, max_partitions=1, max_per_partition=1)
                for values in (None, keys):
                    ends = {} if values is None else {"lower": 0, "upper": 9}
                    dpfast.bounded_histogram(of, ids, values=values, max_contributions=1, **ends)
        loaded = {name.partition(".")[0] for name in sys.modules}
        assert not loaded & {"numba", "llvmlite"}
    """)


# ------------------------------------------------------------------ a reference, right and wrong


def reference(rows, partitions, cap, key, tag=None, group=lambda name: name) -> Counter:
    """The same in Python. tag: of (row, name's rank, name, bin). group: what makes a unit."""
    texts, pairs = tiers.choice_of(key)[:2]

    def proper(row, rank, name, bin_) -> int:
        return sip(*pairs, struct.pack("<2Q", word(name, texts), word(bin_, texts)))

    of_unit: dict = {}
    ranks = {name: i for i, name in enumerate(sorted({name for name, _ in rows}))}
    for number, (name, bin_) in enumerate(rows):
        bins = of_unit.setdefault(group(name), {})
        first, n = bins.get(bin_, ((number, ranks[name], name), 0))
        bins[bin_] = first, n + 1
    counts: Counter = Counter()
    for bins in of_unit.values():
        kept = sorted(bins, key=lambda b: ((tag or proper)(*bins[b][0], b), b))[:partitions]
        counts.update({b: min(bins[b][1], cap) for b in kept})
    return counts


def ours(rows, partitions, cap, key, **options) -> dpfast.BoundedHistogram:
    return bounded_histogram(
        [b for _, b in rows], [name for name, _ in rows], max_partitions=partitions, max_per_partition=cap, key=key, **options
    )  # fmt: skip


NAMES = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), st.text(max_size=4)
FEW_OF_EACH = st.sampled_from(list(itertools.product(NAMES, NAMES))).flatmap(
    lambda kinds: st.tuples(st.lists(kinds[0], min_size=1, max_size=5), st.lists(kinds[1], min_size=1, max_size=30))
)
TABLES = FEW_OF_EACH.flatmap(lambda names: st.lists(st.tuples(*map(st.sampled_from, names)), max_size=80))
BOUNDS = st.one_of(st.integers(1, 6), st.just(2**62)), st.one_of(st.integers(1, 3), st.just(2**70))


@settings(max_examples=150, deadline=None)
@given(TABLES, *BOUNDS, st.integers(0, 2**256 - 1))
def test_equal_to_the_reference(rows, partitions, cap, secret) -> None:
    """Any rows under any key are bounded as the reference in Python bounds them."""
    key = release_key(secret)
    found = ours(rows, partitions, cap, key)
    assert as_counter(found) == reference(rows, partitions, cap, key)
    assert found.keys.tolist() == sorted({b for _, b in rows})
    assert found.counts.dtype == np.int64


@pytest.mark.parametrize("partitions", [1, 2, tiers.FEW // 2, tiers.FEW - 1, tiers.FEW, tiers.FEW + 1, 2 * tiers.FEW])
def test_units_of_few_bins_and_of_many(partitions) -> None:
    """1, ..., 80 bins a unit, on both sides of each way to find the least tags."""
    rows = [(u, b) for u in range(1, 81) for b in range(0, 7 * u, 7) for _ in range(b % 3 + 1)]
    assert as_counter(ours(rows, partitions, 2, release_key(4))) == reference(rows, partitions, 2, release_key(4))


@pytest.mark.parametrize("isa", tiers.ISAS, ids=tiers.ISA_NAMES.get)
@pytest.mark.parametrize("bins", [3, tiers.FEW, tiers.FEW + 1, 3 * tiers.FEW])
def test_equal_tags_keep_the_bound(bins, isa) -> None:
    """Bins of one name have one tag: no more than `most` are kept, and the first of them."""
    rows, most, none = np.repeat(np.arange(bins, dtype=np.uint64), 3), 2, np.empty(0, np.uint64)
    choice = tiers.Choice(7, 5, none, np.full(bins, 9, np.uint64), KEY, isa)
    assert tiers.bounded_counts(rows, choice, most, 2).tolist() == [2] * most + [0] * (bins - most)


@pytest.mark.parametrize("isa", tiers.ISAS, ids=tiers.ISA_NAMES.get)
@pytest.mark.parametrize("most", [1, tiers.FEW // 2, tiers.FEW + 1])
def test_every_instruction_set_keeps_the_same(most, isa) -> None:
    """Units with 1 to 79 bins, against the definition. The tests above run one instruction set."""
    rng, low = np.random.default_rng(most), 2**7 - 1
    rows = np.sort(np.concatenate([rng.integers(0, bins, 3 * bins) + (bins << 7) for bins in range(1, 80)]))
    words, units = rng.integers(0, 2**64, 2**7, np.uint64), rng.integers(0, 2**64, 80, np.uint64)
    expected = np.zeros(words.size, np.int64)
    for unit in range(1, 80):
        bins, many = np.unique(rows[rows >> 7 == unit] & low, return_counts=True)
        tags = [sip(*KEY, struct.pack("<2Q", units[unit], words[bin_])) for bin_ in bins]
        kept = np.argsort(tags)[:most]
        expected[bins[kept]] += np.minimum(many[kept], 4)
    choice = tiers.Choice(7, 0, units, words, KEY, isa)
    assert tiers.bounded_counts(rows.astype(np.uint64), choice, most, 4).tolist() == expected.tolist()


@pytest.mark.parametrize("size", [0, 1, 32, 33, 1000, tiers.SPARE, tiers.SPARE + 1, 5 * tiers.SPARE])
def test_words_are_sorted(size) -> None:
    """Words are of every length, all alike, or of one bit, rising or falling or as drawn."""
    rng = np.random.default_rng(size)
    for bits in (1, 8, 9, 29, 64):
        words = rng.integers(0, 2**bits, size, np.uint64)
        shorter = words >> rng.integers(0, bits, size, np.uint64)
        for each in (words, shorter, words[:1].repeat(size), words // 2 ** (bits - 1)):
            wanted = np.sort(each)
            for ordered in (each, wanted, wanted[::-1]):
                tiers.sort(found := ordered.copy(), bits)
                assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("low", "step"), [(-(2**63), 1), (2**63 - 5, 1), (2**64 - 5, 1), (-2, 1), (-(2**63), 2**62), (7, 2**11)]
)
def test_many_rows_are_sorted_by_unit_and_key(low, step) -> None:
    """At both ends of the types: a pair is counted once, however far apart its rows are."""
    rng, size, domain = np.random.default_rng(1), 3 * tiers.SPARE, np.arange(-2, 5)
    units = np.array(
        [low + i * step for i in range(4 if step == 2**62 else 5)], np.uint64 if low >= 2**63 - 5 else np.int64
    )
    keys, at = rng.integers(-3, 5, size), rng.integers(0, units.size, size)
    at[keys == 2] = 3  # who alone has it
    counts = bounded_histogram(keys, units[at], domain=domain, max_partitions=7, max_per_partition=1).counts
    assert counts.tolist() == [1 if key == 2 else units.size for key in domain.tolist()]


@settings(max_examples=100, deadline=None)
@given(TABLES, *BOUNDS, st.integers(0, 2**256 - 1), st.randoms(use_true_random=False))
def test_a_unit_is_on_its_own(rows, partitions, cap, secret, random) -> None:
    """For any key, counts are the sum of what each unit has alone, in any order, and bounded."""
    key = release_key(secret)
    whole = ours(rows, partitions, cap, key)
    alone = [as_counter(ours([r for r in rows if r[0] == u], partitions, cap, key)) for u in {u for u, _ in rows}]
    assert as_counter(whole) == sum(alone, Counter())
    for unit in alone:
        assert len(unit) <= partitions
        assert max(unit.values(), default=0) <= cap
    shuffled = random.sample(rows, len(rows))
    assert as_counter(ours(shuffled, partitions, cap, key)) == as_counter(whole)
    domain = random.sample(whole.keys.tolist(), len(whole.keys))
    if domain:
        there = ours(rows, partitions, cap, key, domain=domain)
        assert there.keys.tolist() == domain
        assert as_counter(there) == as_counter(whole)
        # Keys outside are dropped before the choice, and only then.
        part = domain[: len(domain) // 2 + 1]
        inside = [r for r in rows if r[1] in part]
        assert as_counter(ours(rows, partitions, cap, key, domain=part)) == reference(inside, partitions, cap, key)


# ------------------------------------------------------------------ small worlds, all of them

PEOPLE = {"numbers": (7, -2, 10**18), "texts": ("ann", "bob", "cy")}
KEYS = {"numbers": (3, 0, -5), "texts": ("Ulm", "Jena", "Ü")}


def worlds(names) -> Iterator[tuple[tuple[object, object], ...]]:
    """All multisets of at most four rows of at most two of three people, over three keys."""
    kinds = list(itertools.product(range(3), range(3)))
    for n in range(5):
        for rows in itertools.combinations_with_replacement(kinds, n):
            if len({person for person, _ in rows}) <= 2:
                yield tuple((PEOPLE[names][p], KEYS[names][k]) for p, k in rows)


@pytest.mark.parametrize(("names", "secrets"), [("numbers", (0, 1)), ("texts", (2, 3))], ids=PEOPLE)
@pytest.mark.parametrize(("partitions", "cap"), [(1, 1), (1, 2), (2, 1), (2, 2), (9, 1)])
def test_every_small_world_keeps_its_distance(names, secrets, partitions, cap) -> None:
    """All neighbours of all worlds, each key: within the sensitivity, and nothing less."""
    most = min(partitions, 3)
    removed, substituted = Sensitivity(most, cap), Sensitivity(most, cap, adjacency="substitution")
    farthest = [0, 0]
    for secret in secrets:
        found = {rows: ours(rows, partitions, cap, release_key(secret), domain=KEYS[names]) for rows in worlds(names)}
        assert {f.sensitivity for f in found.values()} == {removed}
        groups: dict = {}  # worlds that have one unit's rows in common, and beside them those of one more
        for (rows, bounded), person in itertools.product(found.items(), PEOPLE[names]):
            rest = tuple(row for row in rows if row[0] != person)
            if len({p for p, _ in rest}) <= 1:
                groups.setdefault(rest, []).append(bounded.counts)
        for rest, group in groups.items():
            counts = np.array(group)
            apart, moved = counts - found[rest].counts, counts[:, None] - counts
            assert within(apart, removed)
            assert within(moved.reshape(-1, 3), substituted)
            farthest = [max(f, int(np.abs(m).sum(-1).max())) for f, m in zip(farthest, (apart, moved), strict=True)]
    assert farthest[0] == removed.l1
    assert farthest[1] == substituted.l1 or partitions > 1  # three keys are too few for two units' two each


def test_the_order_of_rows_is_nothing() -> None:
    """All 1,555 sequences of up to four rows over three keys and two people."""
    key = release_key(1)
    known: dict = {}
    kinds = [(p, k) for p in PEOPLE["texts"][:2] for k in KEYS["texts"]]
    for n in range(5):
        for rows in itertools.product(kinds, repeat=n):
            found = ours(rows, 1, 2, key, domain=KEYS["texts"]).counts.tobytes()
            assert known.setdefault(tuple(sorted(rows)), found) == found
    assert len(known) == 210


# What a wrong program would do, and the distance at which it is caught.
DEFECTS = {
    "tags of row numbers": (50, {"tag": lambda row, rank, name, b: sip(*KEY, f"{row}/{b}".encode())}),
    "tags of ranks": (50, {"tag": lambda row, rank, name, b: sip(*KEY, f"{rank}/{b}".encode())}),
    "units that are hashes": (1, {"group": lambda name: sip(*KEY, str(name).encode()) % 64}),
    "a cap of 2": (1, {"cap": 2}),
}


def distance(count, extra) -> int:
    """Between 200 people of two bins each and the same with one more, who comes first: l1."""
    rows = [(i, b) for i in range(200) for b in (i, i + 1)]
    one, other = count(rows), count([*extra, *rows])
    return sum(abs(one[b] - other[b]) for b in one.keys() | other.keys())


EXTRA = [(-1, 0), (-1, 0), (-1, 1)]
BY_SECRET = [{"partitions": 1, "cap": 1, "key": release_key(secret)} for secret in range(8)]


def test_one_person_more_moves_one() -> None:
    """With one bin and one row a person, neighbours differ by at most 1."""
    for right in BY_SECRET:
        assert distance(lambda rows, right=right: as_counter(ours(rows, **right)), EXTRA) <= 1
        assert distance(lambda rows, right=right: reference(rows, **right), EXTRA) <= 1


@pytest.mark.parametrize("defect", DEFECTS)
def test_planted_defects_break_the_bound(defect) -> None:
    caught_at, wrong = DEFECTS[defect]
    assert max(distance(lambda rows: reference(rows, **{**right, **wrong}), EXTRA) for right in BY_SECRET) > caught_at


# ------------------------------------------------------------------ the choice

ALARM = 1e-9


def subsets(chosen: np.ndarray) -> np.ndarray:
    """How often each pair of five is the one."""
    assert (chosen.sum(axis=1) == 2).all()
    return np.unique(chosen @ (1 << np.arange(5)), return_counts=True)[1]


def test_the_choice_is_uniform() -> None:
    """Which two of five bins 40,000 units keep, fresh key: ten pairs, chi-squared, 1e-9."""
    n = 40_000
    found = bounded_histogram(
        np.arange(5 * n), np.repeat(np.arange(n), 5), domain=np.arange(5 * n), max_partitions=2, max_per_partition=1
    )
    seen = subsets(found.counts.reshape(n, 5))
    assert seen.size == 10
    assert stats.chisquare(seen).pvalue > ALARM
    # Planted: tags of three bits, where the first wins a tie.
    tags = np.frombuffer(secrets.token_bytes(5 * n), np.uint8).reshape(n, 5) % 8
    biased = np.zeros((n, 5), int)
    np.put_along_axis(biased, tags.argsort(axis=1, kind="stable")[:, :2], 1, axis=1)
    assert stats.chisquare(subsets(biased)).pvalue < ALARM


def test_fresh_keys_choose_freely_and_apart() -> None:
    """Which of four bins two units keep, 4,000 fresh keys: sixteen pairs, chi-squared, 1e-9.

    Two that go together one time in seven are missed once in 10^18.
    """
    keys, ids = np.tile(np.arange(4), 2).repeat([1, 1, 1, 1, 2, 2, 2, 2]), np.repeat([1, 2], [4, 8])
    table = np.zeros((4, 4))
    for _ in range(4000):
        counts = bounded_histogram(keys, ids, domain=range(4), max_partitions=1, max_per_partition=2).counts
        table[int((counts & 1).argmax()), int((counts & 2).argmax())] += 1
    assert stats.chisquare(table.ravel()).pvalue > ALARM
    together = table + 4000 / 24 * np.eye(4)  # planted
    assert stats.chisquare(together.ravel()).pvalue < ALARM


ROWS = [(u, b) for u in range(64) for b in range(4)]


def test_keys_of_the_choice() -> None:
    """Fresh by default; a release key repeats it; other label, other choice."""
    key = Key.generate().derive("visits")
    one, same = ours(ROWS, 1, 1, key), ours(ROWS, 1, 1, key)
    assert isinstance(one, dpfast.BoundedHistogram)
    assert (one.counts == same.counts).all()
    others = [ours(ROWS, 1, 1, k).counts.tolist() for k in (None, None, Key.generate().derive("visits"))]
    assert len({tuple(c) for c in others} | {tuple(one.counts.tolist())}) > 1
    with pytest.warns(InsecureKeyWarning, match="fixed key") as caught:
        keys, ids = [b for _, b in ROWS], [u for u, _ in ROWS]
        found = one_each(keys, ids, key=fixed_key(7).derive("bins")).counts
    assert caught[0].filename == __file__
    assert found.tolist() == [13, 15, 17, 19]  # golden: another choice is another version


def test_the_key_is_no_other_key() -> None:
    """No other place in the package derives a key for this purpose."""
    purposes = []
    texts = [path.read_text() for path in Path(dpfast.__file__).parent.rglob("*.py")]
    for text in (text for text in texts if "keyed" in text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):  # keyed(secret, purpose, …), or a method of a key
                called = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
                said = {"keyed": node.args[1:2], tiers.KEYED: node.args[:1]}.get(called, [])
                purposes += [n.value for each in said for n in ast.walk(each) if isinstance(n, ast.Constant)]
    assert Counter(purposes)["choice of bins"] == Counter(purposes)["choice of rows"] == 1
    assert {"stream key", "release key", "key id"} <= set(purposes)


def test_no_entropy_no_choice(monkeypatch) -> None:
    """Where the system gives no key, nothing is counted."""

    def fail(n) -> Never:
        raise OSError

    monkeypatch.setattr(secrets, "token_bytes", fail)
    with pytest.raises(EntropyError):
        one_each([1], [1], domain=[1])


# ------------------------------------------------------------------ what it returns


def test_unseen_keys_and_those_outside() -> None:
    """A domain key without rows counts 0; one outside is dropped or refused, and not told."""
    found = bounded_histogram([4, 9, 4, 2], [1, 1, 2, 2], domain=[2, 3, 4], max_partitions=3, max_per_partition=1)
    assert (found.keys.tolist(), found.counts.tolist()) == ([2, 3, 4], [1, 0, 2])
    with pytest.raises(UnusableValuesError, match="keys must all be of the domain") as caught:
        one_each([4, 9], [1, 1], domain=[2, 4], outside="refuse")
    assert "9" not in str(caught.value)
    kept = bounded_histogram([4, 2], [1, 1], domain=[2, 4], max_partitions=2, max_per_partition=1, outside="refuse")
    assert kept.counts.tolist() == [1, 1]


def test_a_sensitivity_is_its_result_s_own() -> None:
    """Whatever an earlier one of equal bounds was called with, and has become since."""

    class Unit(StrEnum):
        PERSON = "person"

    def counted(**options: Any) -> Any:
        return bounded_histogram([1, 2], [1, 1], domain=[1, 2], max_partitions=2, max_per_partition=3, **options)

    odd = counted(unit=Unit.PERSON).sensitivity
    assert type(odd.unit) is Unit
    vars(odd)["l1"] = Fraction(0)
    found = counted(unit="person").sensitivity
    assert (found.unit, type(found.unit), found.l1) == ("person", str, 6)


def test_the_sensitivity() -> None:
    """That of the bounds; of a public domain no unit has more bins than there are."""
    given = {"max_partitions": 5, "max_per_partition": 2, "unit": "household"}
    assert bounded_histogram([1], [1], **given).sensitivity == Sensitivity(5, 2, unit="household", keys="private")
    small = bounded_histogram([1], [1], domain=[1, 2, 3], adjacency="substitution", **given).sensitivity
    assert small == Sensitivity(3, 2, cells=3, adjacency="substitution", unit="household")
    assert (small.l0, small.l1, small.l2_squared) == (3, 6, 12)


def test_no_rows() -> None:
    for keys, ids in (([], []), (np.array([], int), np.array([], "U3")), (np.array([], "U1"), [])):
        found = one_each(keys, ids, domain=[1, 2])
        assert found.counts.tolist() == [0, 0]
        assert one_each(keys, ids).counts.size == 0


def test_it_feeds_the_mechanisms() -> None:
    """Counts and sensitivity go into a release and into thresholded as they come out."""
    rng = np.random.default_rng(5)
    keys, ids = rng.integers(0, 50, 20_000), rng.integers(0, 4000, 20_000)
    bounded = bounded_histogram(keys, ids, domain=range(50), max_partitions=3, max_per_partition=1)
    truth = bounded.counts
    for law in (DiscreteLaplace(1, bounded.sensitivity), DiscreteGaussian.from_zcdp(0.5, bounded.sensitivity)):
        assert np.abs(law.release(truth) - truth).max() < 80
    names, counts, change = bounded_histogram(
        np.array([f"town {k}" for k in keys]), ids, max_partitions=3, max_per_partition=1
    )
    shown = thresholded(names, counts, epsilon=1, delta=1e-6, sensitivity=change)
    assert shown.keys.size == 50
    alone = thresholded([], np.array([], int), epsilon=1, delta=1e-6, sensitivity=Sensitivity(3, 1))
    assert (shown.threshold, shown.guarantee.epsilon) == (alone.threshold, 1)


def test_memory_is_a_word_a_row() -> None:
    """And two, where ids must be numbered; beside these the chunks, some 4 MB."""
    rng, n = np.random.default_rng(1), 1 << 21
    keys = rng.integers(0, 100, n)
    for ids, most in ((rng.integers(0, n, n), 8), (rng.integers(-(2**63), 2**63 - 1, n), 17)):
        tracemalloc.start()
        one_each(keys, ids, domain=range(100))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most * n + 5e6


# ------------------------------------------------------------------ its release

BOUNDED = bounded_histogram(
    [1, 1, 2, 3], [5, 5, 5, 6], domain=[1, 2, 3], max_partitions=2, max_per_partition=3, unit="household"
)
FOR_IT = BOUNDED.sensitivity


def changed(*figures: int, **options: str) -> Sensitivity:
    return Sensitivity(*figures, **{"unit": "household", **options})


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplace(1, FOR_IT),
        DiscreteLaplace(1, 6, unit="household"),
        DiscreteLaplace(1, changed(3, 3)),
        DiscreteGaussian(3, sensitivity=FOR_IT),
        DiscreteGaussian.from_zcdp(1, changed(2, 4)),
        DiscreteGaussian.from_zcdp(1, Sensitivity.from_l2(18, unit="household")),
        DiscreteGaussian.calibrated(1, Sensitivity.changes(2, 3, unit="household"), delta=1e-6),
    ],
    ids=repr,
)
def test_it_is_released_by_what_was_made_for_it(mechanism) -> None:
    """By what was made for as much or more; options go to the release of the mechanism."""
    assert BOUNDED.release(mechanism).dtype == np.int64
    out = np.empty(3, np.int32)
    assert BOUNDED.release(mechanism, out=out, lower=0, upper=2) is out
    assert ((out >= 0) & (out <= 2)).all()


def test_a_key_releases_what_was_chosen_under_one() -> None:
    """Chosen anew at each try, rows that a cap leaves out would make another input, which tells."""
    rows, key = (["a", "b", "a"], [1, 1, 2]), Key.generate().derive("visits")
    caps = {"domain": ["a", "b"], "max_partitions": 1, "max_per_partition": 1}
    mechanism = DiscreteLaplace(1, 1)
    with pytest.raises(ParameterError, match=r"bounded_histogram\(…, key=key\)"):
        bounded_histogram(*rows, **caps).release(mechanism, key=key)
    first = bounded_histogram(*rows, **caps, key=key).release(mechanism, key=key)
    again = bounded_histogram(*rows, **caps, key=key).release(mechanism, key=key, resume=True)
    assert (first == again).all()


LESS = "must be made for {} of at least {}, got one for {}: its noise must hide what one unit can change"


@pytest.mark.parametrize(
    ("mechanism", "error", "message"),
    [
        (DiscreteLaplace(1, 5, unit="household"), ParameterError, LESS.format("l1", 6, 5)),
        (DiscreteLaplace(1, changed(1, 5)), ParameterError, LESS.format("l1", 6, 5)),
        (DiscreteGaussian.from_zcdp(1, changed(1, 9)), ParameterError, LESS.format("l0", 2, 1)),
        (DiscreteGaussian.from_zcdp(1, changed(9, 2)), ParameterError, LESS.format("linf", 3, 2)),
        (
            DiscreteGaussian.from_zcdp(1, Sensitivity.from_l2(17, unit="household")),
            ParameterError,
            LESS.format("l2_squared", 18, 17),
        ),
        (DiscreteGaussian(3), ParameterError, "must be made for a sensitivity, got one without"),
        (DiscreteLaplace(1, 6), ParameterError, "unit must be that of the counts, 'household', got 'person'"),
        (
            DiscreteLaplace(1, changed(9, 9, adjacency="substitution")),
            ParameterError,
            "adjacency must be that of the counts, 'add-remove', got 'substitution'",
        ),
        (dpfast.Laplace(1, FOR_IT), DTypeError, "for counts there are DiscreteLaplace and DiscreteGaussian"),
        (dpfast.RandomizedResponse(1, 2), DTypeError, "mechanism must be one of dpfast's .*, not RandomizedResponse"),
        (BOUNDED, DTypeError, "mechanism must be one of dpfast's .*, not BoundedHistogram"),
        (1, DTypeError, "mechanism must be one of dpfast's .*, not int"),
    ],
    ids=repr,
)
def test_it_refuses_what_was_made_for_less(mechanism, error, message, tmp_path) -> None:
    """Also beside a ledger, which is not charged; out keeps what it held."""
    ledger = dpfast.Ledger(tmp_path / "budget.db", 9, unit="household", create=True)
    for options in ({}, {"ledger": ledger}):
        out = np.full(3, 7)
        with pytest.raises(error, match=message):
            BOUNDED.release(mechanism, out=out, **options)
        assert out.tolist() == [7, 7, 7]
    assert ledger.spent.epsilon == 0


def test_a_ledger_pays_for_its_release(tmp_path) -> None:
    """Once for each release, before the noise; an empty budget releases nothing."""
    ledger = dpfast.Ledger(tmp_path / "budget.db", 1, unit="household", create=True)
    mechanism, out = DiscreteLaplace(1, FOR_IT), np.full(3, 7)
    assert BOUNDED.release(mechanism, ledger=ledger, label="visits").shape == (3,)
    assert (ledger.spent.epsilon, [entry.label for entry in ledger.history()]) == (1, ["visits"])
    with pytest.raises(dpfast.errors.BudgetExhausted):
        BOUNDED.release(mechanism, ledger=ledger, out=out)
    assert out.tolist() == [7, 7, 7]
    with pytest.raises(DTypeError, match="ledger must be a Ledger, not PosixPath"):
        BOUNDED.release(mechanism, ledger=tmp_path)


def test_private_keys_have_no_release() -> None:
    """Not even by a mechanism whose noise would hide the counts."""
    found = bounded_histogram([1, 1, 2], [5, 5, 6], max_partitions=2, max_per_partition=3)
    with pytest.raises(ParameterError, match="private keys.*thresholded.*domain="):
        found.release(DiscreteLaplace(1, 100))


# ------------------------------------------------------------------ columns


def columns_of(values: list, kind: str) -> Any:
    if kind.startswith("numpy"):
        return np.array(values, kind.removeprefix("numpy ") if " " in kind else None)
    name, _, dtype = kind.partition(" ")
    library = pytest.importorskip({"arrow": "pyarrow"}.get(name, name))
    if name == "pandas":
        return library.Series(values, dtype=dtype, index=np.arange(len(values))[::-1] + 0.5)
    if name == "polars":
        return library.Series(values, dtype=getattr(library, dtype))
    if dtype == "chunks":
        return library.chunked_array([values[:2], values[2:2], values[2:]])
    array = library.array(values)
    return array.dictionary_encode() if dtype == "dictionary" else array


CASES = {
    "integers": ([5, 3, 5, 120, 5, 3], [1, 1, 1, 1, 2, 2]),
    "texts": (["x", "ü", "x", "b\0", "x", "ü"], ["1", "1", "1", "1", "2", "é"]),
}
INTEGERS = ["numpy int8", "numpy uint16", "numpy >i4", "numpy uint64", "numpy O", "pandas int32", "pandas Int64", "pandas category",
            "pandas uint8[pyarrow]", "polars Int16", "polars UInt64", "arrow plain", "arrow chunks", "arrow dictionary"]  # fmt: skip
TEXTS = ["numpy O", "pandas O", "pandas str", "pandas category", "pandas string[pyarrow]", "pandas string[python]", "polars String", "polars Categorical", "arrow plain",
         "arrow chunks", "arrow dictionary"]  # fmt: skip


@pytest.mark.parametrize(("case", "kind"), [*(("integers", k) for k in INTEGERS), *(("texts", k) for k in TEXTS)])
def test_every_column_gives_the_same(case, kind) -> None:
    keys, ids = CASES[case]
    domain = sorted(set(keys))[::-1]
    for secret in range(6):
        options = {"max_partitions": 1, "max_per_partition": 2, "key": release_key(secret)}
        plain = bounded_histogram(keys, ids, domain=domain, **options)
        columns_ = columns_of(keys, kind), columns_of(ids, kind)
        made = bounded_histogram(*columns_, domain=columns_of(domain, kind), **options)
        assert made.counts.tolist() == plain.counts.tolist()
        assert made.keys.tolist() == plain.keys.tolist() == domain
        bare = bounded_histogram(*columns_, **options)
        assert bare.counts.tolist() == plain.counts.tolist()[::-1]


def test_dictionaries_that_are_not_in_order() -> None:
    """Arrow allows unused or repeated values in a dictionary: they are values all the same."""
    arrow = pytest.importorskip("pyarrow")
    column = arrow.DictionaryArray.from_arrays(
        arrow.array([2, 0, 3, 1], arrow.uint8()), arrow.array(["b", "c", "a", "b", "z"])
    )
    options = {"max_partitions": 5, "max_per_partition": 5}
    found = bounded_histogram(column, column, **options)
    assert (found.keys.tolist(), found.counts.tolist()) == (["a", "b", "c"], [1, 2, 1])
    alone = one_each(["x"] * 4, column)
    assert alone.counts.tolist() == [3]
    found = bounded_histogram(["c", "a"], [1, 1], domain=column.take(arrow.array([0, 3, 1])), **options)
    assert (found.keys.tolist(), found.counts.tolist()) == (["a", "c", "b"], [1, 1, 0])
    with pytest.raises(ParameterError, match="each key once"):
        bounded_histogram(["c", "a"], [1, 1], domain=column, **options)


def test_strings_of_numpy() -> None:
    for kind in ("U", *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else [])):
        keys = np.array(["a", "b", "a"], kind)
        found = bounded_histogram(keys, keys, domain=keys[:2], max_partitions=1, max_per_partition=5)
        assert found.counts.tolist() == [2, 1]


def test_integers_and_their_digits_are_different_names() -> None:
    """The choice of unit 1 is not that of unit "1", and chunks of a column do not change it."""
    rows = [(u, b) for u in range(40) for b in range(4)]
    key = release_key(3)
    assert as_counter(ours(rows, 1, 1, key)) != as_counter(ours([(str(u), b) for u, b in rows], 1, 1, key))


@pytest.mark.parametrize("far", [10, 2**40, 2**63])
def test_columns_longer_than_a_chunk(far, monkeypatch) -> None:
    """Ids and keys near and far, against the reference; and the same cut otherwise."""
    rng = np.random.default_rng(far)
    ids, keys = (rng.integers(-far, far, n, dtype=np.int64, endpoint=far < 2**63) for n in (7, 9))
    rows = list(zip(rng.choice(ids, 700).tolist(), rng.choice(keys, 700).tolist(), strict=True))
    key = release_key(9)
    whole = ours(rows, 2, 3, key)
    assert as_counter(whole) == reference(rows, 2, 3, key)
    monkeypatch.setattr(columns, "CHUNK", 50)
    monkeypatch.setattr(import_module("dpfast.counts.records.bounded_histogram"), "CHUNK", 50)
    for domain in (None, whole.keys[::-1]):
        assert as_counter(ours(rows, 2, 3, key, domain=domain)) == as_counter(whole)


def test_the_ends_of_the_integers_are_not_confused() -> None:
    """2^64 - 1 is not -1, as a key or as an id, whichever column is unsigned."""
    top, signed = np.array([2**64 - 1, 2**63, 5], np.uint64), np.array([-1, -(2**63), 5])
    options = {"max_partitions": 3, "max_per_partition": 1}
    for spread in (0, 10**7):  # a table of the domain, and a search
        domain = np.append(signed, spread + 10)
        assert bounded_histogram(top, [1, 1, 1], domain=domain, **options).counts.tolist() == [0, 0, 1, 0]
    for domain in ([2**64 - 1, 2**64 - 5], [2**64 - 1, 7]):
        assert bounded_histogram(signed, [1, 1, 1], domain=domain, **options).counts.tolist() == [0, 0]
        assert bounded_histogram(top, [1, 1, 1], domain=domain, **options).counts.tolist() == [1, 0]
    narrow = bounded_histogram([-1, 300, -300], [1, 1, 1], domain=np.array([-1, 44], np.int8), **options)
    assert narrow.counts.tolist() == [1, 0]
    ends = np.array([0, 2**64 - 1, 2**63, 2**63 - 1], np.uint64)
    assert bounded_histogram([1] * 4, ends, domain=[1], **options).counts.tolist() == [4]
    assert bounded_histogram([1] * 4, ends.view(np.int64), domain=[1, 2], **options).counts.tolist() == [4, 0]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("size", [1, 7, 8, 300])
def test_integers_far_apart_are_found(size, dtype) -> None:
    """In clusters, alone, at the ends of the type; and not those that nearly match."""
    rng, ends = np.random.default_rng(size), np.iinfo(dtype)
    near = np.concatenate([rng.integers(0, 50, 200), 2**40 + rng.integers(0, 9, 40), 2**62 >> np.arange(60)]).astype(
        dtype
    )
    domain = np.unique(
        np.append(rng.permutation(near)[: size - 1], [ends.min] if size == 7 else [ends.max]).astype(dtype)
    )
    keys = np.concatenate([near, domain, domain + dtype(1), np.array([ends.min, ends.max], dtype)])
    seen = Counter(keys.tolist())
    for domain_ in (domain, rng.permutation(domain)):
        found = one_each(keys, np.arange(keys.size), domain=domain_)
        assert found.counts.tolist() == [seen[key] for key in domain_.tolist()]
    units = bounded_histogram(np.zeros(keys.size, int), keys, domain=[0], max_partitions=1, max_per_partition=1)
    assert units.counts.tolist() == [len(seen)]


class Odd(str):
    """Equal to its text, and of another hash: two units for one person, were it taken."""

    __slots__ = ()
    __hash__ = object.__hash__


GOOD = {"keys": ["secret-7"] * 2, "unit_ids": [7, 7], "domain": ["a"], "max_partitions": 1, "max_per_partition": 1}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_partitions": 0}, ParameterError, "max_partitions must be at least 1, got 0"),
        ({"max_per_partition": -1}, ParameterError, "max_per_partition must be at least 1, got -1"),
        ({"max_partitions": 1.0}, DTypeError, "max_partitions must be an int"),
        ({"max_per_partition": True}, DTypeError, "max_per_partition must be an int"),
        ({"max_partitions": 2**63, "domain": None}, ParameterError, "below 2\\*\\*63"),
        ({"outside": "ignore"}, ParameterError, "outside must be 'drop' or 'refuse', got 'ignore'"),
        ({"outside": "refuse", "domain": None}, ParameterError, "needs a domain"),
        ({"adjacency": "bounded"}, ParameterError, "adjacency must be one of"),
        ({"unit": ""}, ParameterError, "unit must name"),
        ({"key": Key.from_bytes(bytes(range(32)))}, DTypeError, "key must be a release key"),
        ({"key": 5}, DTypeError, "key must be a release key"),
        ({"unit_ids": [7]}, ParameterError, "of equal length"),
        ({"domain": []}, ParameterError, "domain must contain at least one key"),
        ({"domain": ["a", "b", "a"]}, ParameterError, "domain must list each key once"),
        ({"domain": [1, 1]}, ParameterError, "domain must list each key once"),
        (
            {"domain": ["a", None]},
            DTypeError,
            "domain must contain integers or strings, all of one kind and none missing",
        ),
        ({"domain": [1, 2]}, DTypeError, "keys and domain must be both of integers or both of strings"),
        ({"domain": "abc"}, DTypeError, "domain must be a column of .*, not str"),
        ({"keys": [1.0, float("nan")]}, DTypeError, "keys must contain .* there are float"),
        ({"keys": np.array([1.0, 2.0])}, DTypeError, "keys must contain .*, not float64"),
        ({"keys": ["secret-7", float("nan")]}, DTypeError, "keys must contain .* there are float, str"),
        ({"keys": np.array(["secret-7", None], object)}, DTypeError, "there are NoneType, str"),
        ({"keys": [1, "1"]}, DTypeError, "there are int, str"),
        ({"keys": [True, False]}, DTypeError, "there are bool"),
        ({"keys": np.array([True, False])}, DTypeError, "not bool"),
        ({"keys": np.array(["2026-01-07"] * 2, "datetime64[D]")}, DTypeError, "not datetime64"),
        ({"keys": [b"secret-7"] * 2}, DTypeError, "there are bytes"),
        ({"keys": [Odd("secret-7"), "secret-7"]}, DTypeError, "there are Odd, str"),
        ({"keys": [-7, 2**64 - 7]}, DTypeError, "keys must fit int64, or uint64"),
        ({"keys": [0, 2**77]}, DTypeError, "keys must fit int64, or uint64"),
        ({"keys": [["secret-7"]] * 2}, DTypeError, "domain must be columns"),
        ({"keys": np.array([["secret-7"]] * 2)}, ParameterError, "keys must have one dimension, got 2"),
        ({"keys": {"secret-7"}}, DTypeError, "keys must be a column of .*, not set"),
        ({"keys": 7}, DTypeError, "keys must be a column of .*, not int"),
        ({"keys": "city"}, DTypeError, "keys must be a column of .*, not str"),
        ({"keys": np.ma.array([7, 7], mask=[0, 1])}, DTypeError, "masked"),
        ({"unit_ids": [7, None]}, DTypeError, "unit_ids must contain .* there are NoneType, int"),
        ({"unit_ids": [7.0, 7.5]}, DTypeError, "unit_ids must contain"),
    ],
    ids=str,
)
def test_bad_input(change, error, message) -> None:
    with pytest.raises(error, match=message) as caught:
        bounded_histogram(**{**GOOD, **change})
    assert "7" not in str(caught.value).removesuffix(str(2**63))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ("keys", "domain must be columns, one for each of keys"),
        ("unit_ids", "unit_ids must be a column of"),
        ("domain", "keys and domain"),
    ],
)
def test_labels_of_several_levels_are_no_column(place, rule) -> None:
    """Where there is one column; the error is ours, and shows no label."""
    pd = pytest.importorskip("pandas")
    labels = pd.MultiIndex.from_tuples([("secret-7", 7), ("secret-8", 7)])
    with pytest.raises(DTypeError, match=rule) as caught:
        bounded_histogram(**{**GOOD, place: labels})
    assert "7" not in str(caught.value)


NULLS = {
    "integers": ["pandas Int64", "pandas category", "pandas int64[pyarrow]", "polars Int64", "arrow plain", "arrow dictionary"],
    "texts": ["pandas str", "pandas O", "pandas category", "polars String", "polars Categorical", "arrow plain", "arrow chunks",
              "arrow dictionary"],
}  # fmt: skip


@pytest.mark.parametrize(("case", "kind"), [(case, kind) for case, kinds in NULLS.items() for kind in kinds])
def test_nulls_are_refused(case, kind) -> None:
    """In either column, by its name, and no value is told."""
    values = {"integers": [7, None, 7], "texts": ["secret-7", None, "secret-7"]}[case]
    for place in ("keys", "unit_ids"):
        with pytest.raises(DTypeError, match=f"{place} must contain") as caught:
            bounded_histogram(**{**GOOD, "keys": ["a"] * 3, "unit_ids": [1] * 3, place: columns_of(values, kind)})
        assert "7" not in str(caught.value)


# ------------------------------------------------------------------ keys that are private


ADDITIVE = [
    lambda change: dpfast.DiscreteLaplace(1, change),
    lambda change: dpfast.Laplace(1, change),
    lambda change: dpfast.Snapping(1, change, bound=8),
    lambda change: dpfast.DiscreteGaussian(3, sensitivity=change),
    lambda change: dpfast.DiscreteGaussian.calibrated(1, change, delta=1e-6),
    lambda change: dpfast.Gaussian.from_zcdp(1, change),
    lambda change: dpfast.Gaussian(3).rho(change),
    lambda change: dpfast.Gaussian(3).delta(1, change),
    lambda change: dpfast.NoisyMax(1, change),
    lambda change: dpfast.PermuteAndFlip(1, change),
    lambda change: dpfast.Exponential(1, change),
    lambda change: dpfast.AboveThreshold(1, change, threshold=3),
]


@pytest.mark.parametrize("made", ADDITIVE)
def test_counts_without_a_domain_go_into_thresholded_alone(made) -> None:
    """A key's presence is secret: the Sensitivity says so, publishing all keys is refused."""
    rows, people = ["flu"] * 60 + ["rare, Jane Doe"], range(61)
    bounds = {"max_partitions": 1, "max_per_partition": 1}
    found = dpfast.bounded_histogram(rows, people, **bounds)
    with pytest.raises(ParameterError, match="private keys.*thresholded.*domain="):
        made(found.sensitivity)
    shown = dpfast.thresholded(found.keys, found.counts, epsilon=1, delta=1e-12, sensitivity=found.sensitivity)
    assert shown.keys.tolist() == ["flu"]
    known = dpfast.bounded_histogram(rows, people, domain=["flu", "gout"], **bounds)
    made(known.sensitivity)
    assert known.sensitivity == dpfast.Sensitivity(1, 1) != found.sensitivity
    assert "private" in repr(found.sensitivity)
    assert "private" not in repr(known.sensitivity)
    assert pickle.loads(pickle.dumps(found.sensitivity)) == found.sensitivity


def test_its_repr_shows_no_key_and_no_count() -> None:
    """It is not private yet; not even how many keys there are."""
    for domain in (None, ["flu", "rare, Jane Doe"]):
        found = one_each(["rare, Jane Doe"] * 91_234, range(91_234), domain=domain)
        for text in (repr(found), str(found), f"{found}"):
            assert "Jane" not in text
            assert "91234" not in text


@pytest.mark.parametrize("ledger", [False, True])
def test_what_counts_were_counted_with_is_sealed_whatever_they_are(tmp_path, ledger) -> None:
    """Else each other cap that is accepted says what no unit has, and equal cells trade names."""
    rows, wide = (["a", "b"], [1, 2]), dpfast.Sensitivity(9, 99)
    base = {"domain": ["a", "b"], "max_partitions": 2, "max_per_partition": 1, "lower": 0, "upper": 9, "granularity": 1}
    mechanism, master = dpfast.DiscreteLaplace(1, wide), dpfast.Key.generate()
    key, other = master.derive("counted"), master.derive("another")
    paid = {"ledger": dpfast.Ledger(tmp_path / "b.db", epsilon=9, create=True)} if ledger else {}

    def counted(**how: Any) -> Any:
        return dpfast.bounded_histogram(*rows, values=[1.0, 1.0], **{"key": key, **base, **how})

    first = counted().release(mechanism, key=key, **paid)
    for name, value in {
        "domain": ["b", "a"], "max_partitions": 3, "max_per_partition": 2, "max_contributions": 5, "lower": 1, "upper": 8,
        "granularity": 0.5, "key": other,
    }.items():  # fmt: skip
        with pytest.raises(dpfast.errors.KeyReuseError, match="chooser" if name == "key" else name) as met:
            counted(**{name: value}).release(mechanism, key=key, resume=True, **paid)
        assert not isinstance(met.value, dpfast.errors.OtherInputError)
    assert (counted().release(mechanism, key=key, resume=True, **paid) == first).all()
