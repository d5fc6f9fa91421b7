# SPDX-License-Identifier: Apache-2.0
"""Running totals of rows: a unit counts in so few steps, so far apart, whatever stops a step."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from blake3 import blake3
from bounding import Caps, Choice, release_key, sip, within
from reference import E, H, integers
from running import PlainTotals

import dpfast
from dpfast import Key, KeyFile, Ledger, Sensitivity
from dpfast.counts.records.bounded_histogram import Bounds
from dpfast.counts.running import rows as of_rows
from dpfast.counts.running import state, steps, units
from dpfast.counts.running.rows import BoundedTotals, RowCells
from dpfast.counts.running.totals import RunningTotals
from dpfast.errors import DTypeError, FileError, KeyReuseError, LedgerError, OtherInputError, ParameterError
from dpfast.noise.release import steps as stepping

NAMES = ["b", "a"]
Day = list[tuple[Any, Any]]  # (key, unit) of each row


class Quiet(PlainTotals):
    """Totals whose noise is 0, but for a chance of 2 e^-500: a step shows what it counts."""

    mechanism = dpfast.DiscreteGaussian(sigma_squared="1/1000")

    def _refuse_less(self, change: Any) -> None:
        """Whatever the caps are: these tests are about what is counted."""


def quiet(per_unit_steps: int = 2, apart: int = 1, **caps: int) -> BoundedTotals:
    totals = Quiet(per_unit_steps=per_unit_steps, apart=apart)
    return totals.bounded(**caps or {"max_partitions": 1, "max_per_partition": 1})


def columns(day: Day) -> tuple[list[Any], list[Any]]:
    return [key for key, _ in day], [unit for _, unit in day]


def defined(days: list[Day], key: Any, per_unit_steps: int, apart: int, caps: Caps) -> np.ndarray:
    """What each step counts, by the definition: a unit after the other, a step after the other."""
    choice, steps = Choice(key), dict[Any, list[int]]()
    found = np.zeros((len(days), len(NAMES)), np.int64)
    for t, day in enumerate(days):
        inside = [(unit, name, 1) for name, unit in day if name in NAMES]
        for unit in {row[0] for row in inside}:
            taken = steps.setdefault(unit, [])
            if len(taken) < per_unit_steps and not any(t - each < apart for each in taken):
                taken.append(t)
                for name, n in choice.of_unit(list(enumerate(row for row in inside if row[0] == unit)), caps).items():
                    found[t, NAMES.index(name)] += n
    return found


Before = dict[str, tuple[Any, list[Any]]]  # by days: what is kept after them, and what each counts


def counted(days: list[Day], totals: BoundedTotals, key: Any, before: Before | None = None) -> np.ndarray:
    """What each step counts, without a ledger: in the order of NAMES.

    before: of other days, which may begin alike.
    """
    cells, before = RowCells(NAMES, totals, key), {} if before is None else before
    kept, found = state.Kept(0, b"", b"", np.zeros(0, int), np.zeros(0), cells.nobody()), []
    for t, day in enumerate(days, 1):
        if (known := repr(days[:t])) not in before:
            frozen = cells.frozen(totals.totals, columns(day), kept)
            kept = kept._replace(t=t, table=cells.after(kept.table, frozen.units, t))
            before[known] = kept, [*found, cells.as_given(frozen.counts.astype(float))]
        kept, found = before[known]
    return np.array(found, np.int64)


# ------------------------------------------------------------------ every small world

CAPS = [
    {"max_partitions": 1, "max_per_partition": 1},
    {"max_contributions": 2},
    {"max_partitions": 2, "max_per_partition": 1},
]
OWN: list[list[str]] = [[], ["a"], ["a", "b"], ["b", "b", "z"], ["z"]]  # a person's rows of one step; z is no name
LIVES = [
    *itertools.product(([], ["a", "b"]), repeat=4),
    *((*life, [], ["b"]) for life in itertools.product(OWN, repeat=2)),
]
OVER_TIME = list(itertools.product((1, 2, 3), (1, 2, 3)))  # per_unit_steps, apart


def life_of(unit: int, life: tuple[list[str], ...]) -> list[Day]:
    return [[(name, unit) for name in day] for day in life]


@cache
def alone(of: int, over_time: tuple[int, int], unit: int = 1) -> np.ndarray:
    """What one person's rows alone come to, in each life: (lives, steps, names)."""
    totals, before = quiet(*over_time, **CAPS[of]), Before()
    return np.array([counted(life_of(unit, life), totals, release_key(36), before) for life in LIVES])


@pytest.mark.parametrize("over_time", OVER_TIME, ids=str)
def test_one_unit_moves_what_the_totals_assume(over_time: tuple[int, int]) -> None:
    """Added, removed, or replaced by any other: so few steps, so far apart, each within the caps.

    Every way to come in four steps, every rows of two; and of each pair of them.
    """
    most, apart = over_time
    for of, caps in enumerate(CAPS):
        found = alone(of, over_time)
        there = found.any(axis=2)
        assert there.sum(axis=1).max() == min(most, -(-4 // apart))
        for at in map(np.flatnonzero, there):
            assert (np.diff(at) >= apart).all()
        bounds = Bounds(**caps)
        for adjacency in ("add-remove", "substitution"):
            stated = bounds._replace(adjacency=adjacency).sensitivity(bounds.checked(summed=False)[0], None, len(NAMES))
            moved = found if adjacency == "add-remove" else found[:, None] - alone(of, over_time, 2)
            assert within(moved.reshape(-1, len(NAMES)), stated)


@pytest.mark.parametrize("over_time", [(1, 1), (2, 2)], ids=str)
def test_what_a_unit_counts_depends_on_its_own_rows_alone(over_time: tuple[int, int]) -> None:
    """Two people together come to what each comes to alone: each pair of lives."""
    totals, one, other = quiet(*over_time, **CAPS[0]), alone(0, over_time), alone(0, over_time, 2)
    before = Before()
    for (i, mine), (j, its) in itertools.product(enumerate(LIVES), enumerate(LIVES[::4])):
        days = [a + b for a, b in zip(life_of(1, mine), life_of(2, its), strict=True)]
        assert (counted(days, totals, release_key(36), before) == one[i] + other[4 * j]).all()


KINDS: dict[str, Callable[[int], Any]] = {
    "integers": lambda n: n * 10**17 - 5 * 10**18,
    "close integers": lambda n: 2**63 - 20 + n,  # across the end of int64
    "texts": lambda n: f"person {n}\0",
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_counts_what_the_definition_says(kind: str) -> None:
    """Many units with many rows, in whatever order, in seven steps."""
    random = np.random.default_rng(36)
    for of, caps in enumerate((Caps(1, 1), Caps(contributions=2), Caps(2, 1))):
        days = [
            [(["a", "b", "c"][name], KINDS[kind](n)) for name, n in random.integers(0, [3, 25], (30, 2)).tolist()]
            for _ in range(7)
        ]
        for over_time in ((1, 1), (2, 1), (3, 2)):
            key, totals = release_key(of), quiet(*over_time, **CAPS[of])
            right = defined(days, key, *over_time, caps)
            assert (counted(days, totals, key) == right).all()
            assert (counted([day[::-1] for day in days], totals, key) == right).all()


# ------------------------------------------------------------------ who is who


def test_ids_are_compared_by_value_and_type() -> None:
    """5 is 5 in every integer type and process; -1 is not 2^64 - 1; no two texts are one."""
    key, totals = release_key(1), quiet(1)
    for one, another in (
        (np.array([5], np.int8), np.array([5], np.uint64)),
        ([5], np.array([5, 2**63], np.uint64)[:1]),
        (["é"], np.array(["é"], "U9")),
        ([-(2**63)], np.array([-(2**63)])),
        ([2**64 - 1], np.array([2**64 - 1], np.uint64)),
    ):
        assert counted_in_turn(totals, key, one, another) == [1, 0]
    for one, another in (
        ([-1], [2**64 - 1]),
        ([2**64 - 1], [-1]),
        ([-(2**63)], [2**63]),
        (["5"], ["5 "]),
        (["a"], ["a\0"]),
        ([""], ["\0"]),
        (["é"], ["e\u0301"]),
    ):
        assert counted_in_turn(totals, key, one, another) == [1, 1]


@pytest.mark.parametrize("equal", [0, 1])
def test_texts_are_told_by_two_words(equal: int, monkeypatch) -> None:
    """Either one may be equal, as that of two in 2^64 is."""
    hashes_of = units.hashes_of
    monkeypatch.setattr(
        units, "hashes_of", lambda ids, *sips: [words * (i != equal) for i, words in enumerate(hashes_of(ids, *sips))]
    )
    found = counted_in_turn(quiet(1), release_key(1), ["x"], ["y", "x"], ["z", "y"], ["x", "y", "z"])
    assert found == [1, 1, 1, 0]


def counted_in_turn(totals: BoundedTotals, key: Any, *ids: Any) -> list[int]:
    """How many rows count in each step, whose units are these."""
    cells = RowCells(NAMES, totals, key)
    kept, found = state.Kept(0, b"", b"", np.zeros(0, int), np.zeros(0), cells.nobody()), []
    for t, each in enumerate(ids, 1):
        frozen = cells.frozen(totals.totals, (["a"] * len(each), each), kept)
        kept = kept._replace(t=t, table=cells.after(kept.table, frozen.units, t))
        found.append(int(frozen.counts.sum()))
    return found


@pytest.mark.parametrize(("first", "second"), [([1], ["1"]), (["1"], [1])])
def test_ids_of_another_type_are_refused(first: list[Any], second: list[Any]) -> None:
    key, totals = release_key(1), quiet(2)
    with pytest.raises(
        DTypeError, match="unit_ids must contain .*, as in the steps before, not .*: an id of another type"
    ):
        counted_in_turn(totals, key, first, [], second)
    assert counted_in_turn(totals, key, [], second, [], np.zeros(0, "U1"), second, second) == [0, 1, 0, 0, 1, 0]


def test_two_ids_of_equal_first_words() -> None:
    """Where the first words are equal the second decides, whoever is there already."""
    words = np.array([[5, 5, 5, 9], [0, 1, 2**63, 0]], np.uint64)
    for taken in itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in range(5)):
        table = units.after(units.nobody(), words[:, list(taken)], 1)
        may = units.may_count(table, words, 2, 1, 1)
        assert [*np.flatnonzero(~may)] == [*taken]
        whole = units.after(table, words[:, may], 2)
        assert (whole[:2] == words).all()
        assert [int(each) for each in whole[2]] == [2**32 + 1 + int(each) for each in may]
    twice = units.after(units.after(units.nobody(), words, 1), words[:, :2], 2**26)
    assert [(int(each) >> 32, int(each) % 2**32) for each in twice[2]] == [(2, 2**26), (2, 2**26), (1, 1), (1, 1)]


# ------------------------------------------------------------------ through a ledger, step by step

DAYS: list[Day] = [
    [("a", "ann"), ("b", "bob"), ("a", "bob"), ("c", "eve")],
    [("a", "ann"), ("b", "cat"), ("b", "eve"), ("a", "dan")],
    [("b", "ann"), ("a", "bob"), ("b", "fay")],
    [("a", "ann"), ("b", "cat"), ("b", "eve"), ("b", "bob"), ("a", "gil")],
    [("b", "ann"), ("b", "bob"), ("a", "eve"), ("b", "cat")],
]
CASES = {"a unit twice, two steps apart": (2, 2), "a unit once": (1, 1), "in a row": (2, 1)}


class Place:
    """A folder with a ledger, a key file and a state."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.path, self.state = folder, folder / "budget.db", folder / "state"
        self.master = KeyFile.create(folder / "key")
        self.key = self.master.derive("visits")
        Ledger(self.path, rho=2, create=True)

    def running(self, totals: Any = None, **options: Any) -> Any:
        options = {"key": self.key, "names": NAMES, "state": self.state, **options}
        return Ledger(self.path).running(quiet(2, 2) if totals is None else totals, **options)

    def again(self, totals: Any = None, **options: Any) -> Any:
        return self.running(totals, **options, resume=True)

    def right(self, over_time: tuple[int, int] = (2, 2), days: list[Day] = DAYS) -> list[list[int]]:
        return defined(days, self.key, *over_time, Caps(1, 1)).cumsum(axis=0).tolist()

    def restore(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path / "place")


def taken(running: Any, days: list[Day] = DAYS, begin: int = 1) -> list[list[float]]:
    return [running.step(t, *columns(day)).values.tolist() for t, day in enumerate(days[begin - 1 :], begin)]


@pytest.mark.parametrize("case", CASES)
def test_each_way_to_take_a_step_bounds_alike(case: str, place) -> None:
    """Each day a process; tried again, resumed, replayed, in any order of rows and names."""
    totals = quiet(*CASES[case])
    right = place.right(CASES[case])
    place.running(totals)
    for t, day in enumerate(DAYS, 1):
        running = place.again(totals)
        for rows in (day, day, day[::-1]):
            assert running.step(t, *columns(rows)).values.tolist() == right[t - 1]
        assert running.step(t, resume=True).values.tolist() == right[t - 1]
        assert place.again(totals).step(t, resume=True).values.tolist() == right[t - 1]
        turned = place.again(totals, names=NAMES[::-1])
        assert turned.step(t, *columns(day)).values[::-1].tolist() == right[t - 1]
        bare = place.again(totals, state=None, replay=map(columns, DAYS[: t - 1]))
        assert bare.step(t, *columns(day)).values.tolist() == right[t - 1]
    assert len(Ledger(place.path).history()) == 1
    assert not [*place.folder.glob("*.new")]


def test_a_step_that_was_stopped_is_counted_once(place, monkeypatch) -> None:
    """Stopped before its state was written: resumed, or given again, it bounds alike."""
    right, running = place.right(), place.running()
    for t, day in enumerate(DAYS, 1):
        with monkeypatch.context() as patched:
            patched.setattr(state.StateFile, "replace", interrupted)
            with pytest.raises(KeyboardInterrupt):
                running.step(t, *columns(day))
        if t % 2:
            assert place.again().step(t, resume=True).values.tolist() == right[t - 1]
        running = place.again()
        assert running.step(t, *columns(day)).values.tolist() == right[t - 1]
        assert place.again().step(t, resume=True).values.tolist() == right[t - 1]


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_other_rows_are_refused_even_of_equal_counts(place) -> None:
    """Who is counted is sealed, too; rows that do not count may differ."""
    running = place.running()
    taken(running, DAYS[:3])
    for rows in (
        [("b", "ann"), ("a", "bob"), ("b", "guy")],  # another unit
        [("b", "ann"), ("a", "bob"), ("a", "fay")],  # another cell
        [("b", "ann"), ("a", "bob")],
        [*DAYS[2], ("b", "guy")],
    ):
        with pytest.raises(OtherInputError, match="step 3 was reserved"):
            place.again().step(3, *columns(rows))
    with pytest.raises(OtherInputError, match="step 1"):
        place.again(state=None, replay=[columns([*DAYS[0], ("a", "guy")]), columns(DAYS[1])])
    taken(running, DAYS, 4)
    left_out = [("a", "ann"), ("a", "bob"), ("a", "bob"), ("b", "gil")]  # who have counted twice, or a step ago
    assert place.again().step(5, *columns([*left_out, *DAYS[4][2:]])).values.tolist() == place.right()[4]
    assert place.again().step(5, resume=True).values.tolist() == place.right()[4]


def test_what_is_refused_costs_nothing(place) -> None:
    """Caps that let a unit move more than the totals hide, and what is of another form."""
    once = {"sensitivity": Sensitivity(1, 1), "rho": "0.5"}
    totals = RunningTotals(12, **once)
    for caps, says in (
        ({"max_partitions": 2, "max_per_partition": 1}, "made for l0 of at least 2, got one for 1"),
        ({"max_partitions": 1, "max_per_partition": 2}, "made for linf of at least 2, got one for 1"),
        ({"max_contributions": 2}, "made for l0 of at least 2, got one for 1"),
    ):
        with pytest.raises(ParameterError, match=says):
            place.running(totals.bounded(**caps))
    for about in ({"adjacency": "substitution"}, {"unit": "household"}):  # the totals' own
        ledger = Ledger(place.folder / "".join(about), rho=1, create=True, **about)
        tiers.forget_labels()  # another process
        change = RunningTotals(12, sensitivity=Sensitivity(1, 1, **about), rho="0.5").bounded(max_contributions=1)
        assert ledger.running(change, key=place.key, names=NAMES).step(1, ["a"], ["x"]).values.shape == (2,)
    wide = RunningTotals(12, sensitivity=Sensitivity(2, 1), rho="0.5").bounded(max_partitions=9, max_per_partition=1)
    for options, error, says in (
        ({"names": ["a", "b", "c"]}, ParameterError, "l0 of at least 3, got one for 2"),
        ({"names": []}, ParameterError, "names must name at least one cell"),
        ({"key": 5}, DTypeError, "key must be a release key"),
        ({"replay": 5}, DTypeError, "replay must give the rows of each step, not be int"),
        ({"replay": [columns(DAYS[0])]}, ParameterError, "replay must be left out where totals are created"),
    ):
        with pytest.raises(error, match=says):
            place.running(wide, **options)
    assert not Ledger(place.path).history()
    assert not [*place.folder.glob("state*")]
    tiers.forget_labels()
    place.running(wide)  # nine among two names are two
    for caps, error, says in (
        ({}, ParameterError, "max_contributions must be given, or max_partitions with max_per_partition"),
        ({"max_partitions": 0, "max_per_partition": 1}, ParameterError, "max_partitions"),
        ({"max_contributions": 1.5}, DTypeError, "max_contributions"),
    ):
        with pytest.raises(error, match=says):
            totals.bounded(**caps)


def test_which_rows_are_refused(place) -> None:
    running = place.running()
    for given, error, says in (
        ((), ParameterError, "keys and unit_ids or resume=True must be given, and one of them alone"),
        ((["a"],), ParameterError, "keys and unit_ids must be given together: one of each in a row"),
        ((["a"], ["x", "y"]), ParameterError, "keys and unit_ids must be of equal length"),
        (([1], ["x"]), DTypeError, "keys and names must be both of integers or both of strings"),
        (((["a"], ["b"]), ["x"]), DTypeError, "keys and names must be both of one column, or both of several"),
        ((["a"], [1.5]), DTypeError, "unit_ids must contain integers or strings"),
        ((["a"], [None]), DTypeError, "unit_ids must contain integers or strings"),
        ((["a"], dpfast.EACH_ROW), ParameterError, "unit_ids must name units, whose steps are counted"),
    ):
        with pytest.raises(error, match=says):
            running.step(1, *given)
    with pytest.raises(ParameterError, match="one of them alone"):
        running.step(1, ["a"], ["x"], resume=True)
    with pytest.raises(ParameterError, match="keys and unit_ids must be given for step 1, for none were written ahead"):
        running.step(1, resume=True)
    assert [*place.folder.glob("state*")] == [place.state]
    assert running.step(1, [], []).values.tolist() == [0, 0]
    assert running.step(2, ["c"], ["eve"]).values.tolist() == [0, 0]
    with pytest.raises(ParameterError, match="replay must be the rows of the 2 steps that are reserved, got more"):
        place.again(state=None, replay=[([], []), (["c"], ["eve"]), ([], [])])
    with pytest.raises(DTypeError, match="a step of rows must be keys and unit_ids, not int"):
        place.again(state=None, replay=[5])


def test_counts_and_rows_are_totals_of_their_own(place) -> None:
    """Caps stand in the manifest: what bounds rows goes on bounding them, and as it did."""
    taken(place.running(), DAYS[:1])
    for totals, says in (
        (Quiet(per_unit_steps=2, apart=2), "reserved with another max_partitions, 1, not None"),
        (
            quiet(2, 2, max_contributions=1),
            "reserved with another max_partitions, 1, not None|another max_contributions",
        ),
        (quiet(2, 2, max_partitions=1, max_per_partition=2), "another max_per_partition, 1, not 2"),
        (quiet(3, 2), "another per_unit_steps, 2, not 3"),
        (quiet(2, 1), "another apart, 2, not 1"),
    ):
        with pytest.raises(KeyReuseError, match=says):
            place.again(totals)
    step = place.again().step(1, resume=True)
    assert step.metadata()["max_partitions"] == 1
    assert place.again().manifest.metadata()["terms"]["max_per_partition"] == 1
    counts = Key.generate().derive("counts")
    place.running(Quiet(per_unit_steps=2, apart=2), key=counts, state=None)
    with pytest.raises(KeyReuseError, match="another max_partitions, None, not 1"):
        place.again(key=counts, state=None)


@pytest.mark.parametrize("ids", [["ann", "bob", "é"], [7, -1, 300]])
def test_who_is_counted_is_sealed_as_described(ids: list[Any], place) -> None:
    """docs/behind/running.md once more: the words of units, and a chain that has them."""
    running = place.running(quiet(1))
    running.step(1, ["a", "b", "a"], ids)
    kept = running._running._kept[0]
    key = H(bytes(place.master._held), b"release key", b"visits")
    sips = H(key, b"units of steps")
    words = [
        (
            sip(*struct.unpack("<2Q", sips[:16]), name.encode()),
            sip(*struct.unpack("<2Q", sips[16:]), name.encode()) | 2**63,
        )
        if isinstance(name, str)
        else (name % 2**64, int(name < 0))
        for name in ids
    ]
    assert kept.table.T.tolist() == [[*each, 2**32 + 1] for each in sorted(words)]
    secret, column = (
        H(key, b"block digest"),
        b"".join(struct.pack("<3Q", *each) for each in zip(*sorted(words), strict=True)),
    )
    counts = blake3(E("counts", 0) + E(*integers([2, 1])), key=secret).digest()
    counted = blake3(E("units", 0) + E(column), key=secret).digest()
    first = H(key, b"chain", E(running._running._seal.manifest.encoded()))
    assert kept.chain == H(key, b"chain", E(first, 1, counts, counted))


# ------------------------------------------------------------------ restored, lost, damaged


def test_a_state_that_is_lost_older_or_ahead(place) -> None:
    """Rows give it again; an older one goes on with equal rows; beside an older ledger it ends."""
    right, running = place.right(), place.running()
    taken(running, DAYS[:2])
    early = {path.name: path.read_bytes() for path in (place.path, place.state)}
    assert taken(running, DAYS, 3) == right[2:]
    newest = place.state.read_bytes()
    (place.folder / "state.before").unlink()
    place.restore("state", early["state"])
    with pytest.raises(
        ParameterError, match="state is at step 2 and the ledger at 5, so give each again with the same rows"
    ):
        place.again().step(6, [], [])
    with pytest.raises(OtherInputError):
        place.again().step(3, *columns(DAYS[3]))
    assert taken(place.again(), DAYS, 3) == right[2:]
    for path in place.folder.glob("state*"):
        path.unlink()
    with pytest.raises(OtherInputError, match="step 2"):
        place.again(replay=[columns(day) for day in (DAYS[0], DAYS[2])])
    for path in place.folder.glob("state*"):
        path.unlink()
    assert place.again(replay=map(columns, DAYS[:4])).step(5, *columns(DAYS[4])).values.tolist() == right[4]
    assert place.state.read_bytes() == newest
    place.restore("budget.db", early["budget.db"])
    (place.folder / "key.head").unlink()
    with pytest.raises(LedgerError, match="the state is at step 5 of 'visits', and the ledger at step 2"):
        place.again()


def test_a_table_that_is_damaged_is_refused(place) -> None:
    """A unit less, a unit more, another count: none is believed."""
    taken(place.running(), DAYS[:2])
    right = place.state.read_bytes()
    entries = 5 * 3 * 8  # ann, bob, cat, dan and eve
    for wrong in (
        right[:-56] + right[-32:],
        right[:-32] + bytes(24) + right[-32:],
        right[:-32] + b"\0" + right[-32:],
        right[:-40] + bytes([right[-40] ^ 1]) + right[-39:],
        right[: -32 - entries] + right[-32:],
        right[: -33 - entries] + right[-32:],
    ):
        place.restore("state", wrong)
        with pytest.raises(
            FileError, match="is damaged, or of other totals: replay= gives a state again, of all earlier rows"
        ):
            place.again()
    place.restore("state", right)
    assert taken(place.again(), DAYS, 3) == place.right()[2:]


def test_what_was_written_ahead_of_another_history_is_refused(place) -> None:
    """A ledger that was restored, and paid again, and a step that is left of the time before."""
    secret = place.folder / "key"
    running = place.running(quiet(1))
    taken(running, DAYS[:2])
    ahead = (place.folder / "state.ahead").read_bytes()
    other = Place.__new__(Place)
    other.folder = place.folder.parent / "other"
    other.folder.mkdir()
    other.path, other.state = other.folder / "budget.db", other.folder / "state"
    other.key = KeyFile(shutil.copy(secret, other.folder / "key")).derive("visits")
    Ledger(other.path, rho=2, create=True)
    tiers.forget_labels()  # another process
    other.running(quiet(1)).step(1, ["a"], ["dan"])
    other.restore("state.ahead", ahead)
    with pytest.raises(
        FileError, match="written ahead is of other totals than those that were kept: give the rows again"
    ):
        other.again(quiet(1)).step(2, resume=True)
    assert other.again(quiet(1)).step(2, ["a"], ["dan"]).values.sum() == 1


# ------------------------------------------------------------------ planted defects


def must_count_who_is_resumed(place: Place) -> None:
    """Stopped before it was reserved, and resumed: who is counted there has counted."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dpfast.ledger.store.insert", interrupted)
        running = place.again()
        with pytest.raises(KeyboardInterrupt):
            running.step(1, *columns(DAYS[0]))
    place.again().step(1, resume=True)
    assert taken(place.again(), DAYS, 2) == place.right()[1:]


def must_bound_a_retry_alike(place: Place) -> None:
    running, right = place.again(), place.right()
    for t, day in enumerate(DAYS, 1):
        for _ in range(2):
            assert running.step(t, *columns(day)).values.tolist() == right[t - 1]


def must_keep_types_apart(place: Place) -> None:
    place.again().step(1, ["a"], [1])
    with pytest.raises(DTypeError):
        place.again().step(2, ["a"], ["1"])


def must_keep_steps_apart(place: Place) -> None:
    assert taken(place.again()) == place.right()


def must_choose_alike(place: Place) -> None:
    """50 people have a row in each of 50 cells: another choice is equal once in 10^25."""
    cells, people = np.divmod(np.arange(2500), 50)
    key = Key.generate().derive("choices")
    options = {"names": range(50), "key": key, "state": None}
    first = place.running(**options).step(1, cells, people).values
    assert (place.again(**options).step(1, cells, people).values == first).all()
    whole = dpfast.bounded_histogram(cells, people, domain=range(50), max_partitions=1, max_per_partition=1, key=key)
    assert (whole.counts == first).all()


def must_seal_who_is_counted(place: Place) -> None:
    place.again().step(1, ["a"], ["ann"])
    with pytest.raises(OtherInputError):
        place.again().step(1, ["a"], ["bob"])


def by_text(held: Any, numbers: Any, ids: Any, sips: Any) -> np.ndarray:
    names = [str(each) for each in (held.units.base + numbers.astype(int) if ids.texts is None else ids.texts)]
    return np.array([[int.from_bytes(name.encode(), "little") for name in names], [0] * len(names)], np.uint64)


may_count, chooser = units.may_count, dpfast.ReleaseKey.chooser
before, chain = steps.Running._before, stepping.Stepping.chain
PLANTED: dict[str, tuple[Callable[[Place], None], Callable[[pytest.MonkeyPatch], object]]] = {
    "a table that a resumed step leaves": (
        must_count_who_is_resumed,
        lambda patched: patched.setattr(RowCells, "resumed", lambda _, frozen, __: frozen._replace(units=frozen.units[:, :0])),
    ),
    "a cap that is counted twice": (
        must_bound_a_retry_alike,
        lambda patched: patched.setattr(steps.Running, "_before", lambda self, t: before(self, t)._replace(table=self._kept[0].table)),
    ),
    "a table of texts": (
        must_keep_types_apart,
        lambda patched: [patched.setattr(of_rows, "units_of", by_text), patched.setattr(of_rows, "must_be_alike", lambda *_: None)],
    ),
    "a cap that ignores apart": (
        must_keep_steps_apart,
        lambda patched: patched.setattr(of_rows, "may_count", lambda table, units, t, most, _: may_count(table, units, t, most, 1)),
    ),
    "a choice of each try": (
        must_choose_alike,
        lambda patched: patched.setattr(dpfast.ReleaseKey, "chooser", lambda _: chooser(Key.generate().derive("another"))),
    ),
    "a seal of counts alone": (
        must_seal_who_is_counted,
        lambda patched: patched.setattr(stepping.Stepping, "chain", lambda self, before, t, counts, _: chain(self, before, t, counts)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("defect", PLANTED)
def test_what_a_weaker_bound_lets_through_is_noticed(defect: str, tmp_path, monkeypatch) -> None:
    must, plant = PLANTED[defect]
    for name in ("right", "planted"):
        place = Place(tmp_path / name)
        place.running()
        if name == "right":
            must(place)
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, OtherInputError)):
        must(place)
