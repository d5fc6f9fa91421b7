# SPDX-License-Identifier: Apache-2.0
"""Sealed releases: planted defects are caught, guards needed; refusals tell their kind alone."""

from __future__ import annotations

import itertools
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from seals import LAWS, MECH, cut, fresh, independent, known, sealed_of
from tiers import SEALED_ROWS

import dpfast
from dpfast import DiscreteLaplace, Ledger
from dpfast.errors import (
    DataDependentError,
    DTypeError,
    KeyReuseError,
    OtherInputError,
    ParameterError,
    UnusableValuesError,
)
from dpfast.ledger import ledger as paying
from dpfast.noise.release import blocks
from dpfast.noise.release import seal as sealing


def no_comparison(patch: pytest.MonkeyPatch) -> None:
    """What refuses another input lets it pass: of seals, and of blocks."""

    class Careless:
        compare_digest = staticmethod(lambda *_: True)

    patch.setattr(sealing, "hmac", Careless)


def test_equal_blocks_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of equal content on two workers, columns of equal counts: noise of their own.

    Planted: digests and stream keys that forget the place.
    """
    counts = np.zeros(2 * SEALED_ROWS, np.int64)

    def noises() -> list[np.ndarray]:
        key, columns = fresh(), {"a": MECH, "b": MECH}
        made = [key.digester(MECH, column=name)(j, block) for name in columns for j, block in enumerate(cut(counts))]
        sealed = key.seal(columns, made, shape=counts.shape).without_ledger()
        tasks = [(name, j, pickle.dumps(sealed.only(j))) for name in columns for j in range(2)]
        return [pickle.loads(worker).release(j, cut(counts)[j], column=name) for name, j, worker in tasks]

    for one, other in itertools.combinations(noises(), 2):
        assert (one == other).sum() <= 5  # by chance 2.5e-7 of a cell; six: 1e-14
    real = sealing.encode_public

    def placeless(*fields: Any) -> bytes:
        return b"" if isinstance(fields[0], str) and len(fields) == 2 else real(*fields)

    monkeypatch.setattr(sealing, "encode_public", placeless)
    assert all((one == other).all() for one, other in itertools.combinations(noises(), 2))


def test_a_loop_over_groups_stops_at_its_second_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the group holds. Planted: without the record, equal groups share their noise."""

    def loop() -> list[list[int]]:
        key = fresh()
        return [MECH.release(group, key=key).tolist() for group in ([0, 0], [0, 0], [5, 0])]

    with pytest.raises(KeyReuseError, match="^'visits' is reserved in this process: resume=True continues it"):
        loop()
    for group in ([1], [1, 2]):  # nor does resume=True make a loop of it
        key = fresh()
        MECH.release([0, 0], key=key)
        with pytest.raises(KeyReuseError):
            MECH.release(group, key=key, resume=True)
    monkeypatch.setattr(sealing, "note_here", lambda _: None)
    first, second, third = loop()
    assert first == second != third


def test_names_that_are_traded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal counts in another order, or of other names: another input. Planted: names unsealed."""
    counts, one, other = np.zeros(50, np.int64), [f"city {i}" for i in range(50)], [f"city {i ^ 1}" for i in range(50)]
    for named, traded in (
        (one, other),
        (range(50), range(50)[::-1]),
        (one, None),
        (["ab", "c"] * 25, ["a", "bc"] * 25),
    ):
        key = fresh()
        first = MECH.release(counts, key=key, names=named)
        assert (MECH.release(counts, key=key, names=np.array(named), resume=True) == first).all()
        with pytest.raises(OtherInputError):
            MECH.release(counts, key=key, names=traded, resume=True)
        with monkeypatch.context() as patch:
            no_comparison(patch)
            assert independent(MECH.release(counts, key=key, names=traded, resume=True), first)
    monkeypatch.setattr("dpfast.noise.release.names.Names.fields", lambda *_: [])
    key = fresh()
    assert (MECH.release(counts, key=key, names=one) == MECH.release(counts, key=key, names=other, resume=True)).all()


def test_minus_one_is_not_the_largest_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the same bytes. Planted: a digest that does not say how they are read."""
    signed, unsigned = np.full(50, -1), np.full(50, 2**64 - 1, np.uint64)

    def digests() -> set[bytes]:
        return {known().digester(MECH)(0, values).digest for values in (signed, unsigned)}

    assert len(digests()) == 2
    key = fresh()
    MECH.release(signed, key=key)
    with pytest.raises(OtherInputError):
        MECH.release(unsigned, key=key, resume=True)
    real = blocks.words_of
    monkeypatch.setattr(blocks, "words_of", lambda array: ("integers", real(array)[1]))
    assert len(digests()) == 1


@pytest.mark.parametrize("at", [0, SEALED_ROWS + 1, 2 * SEALED_ROWS])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_block_rewritten_between_seal_and_draw(at: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, and zeros. Without the comparison: other noise in that block, and the old elsewhere.

    Planted last: a stream key that forgets the digest of the copy gives the exact difference.
    """
    n = 9 * SEALED_ROWS
    key, values, out = fresh(), np.zeros(n, np.int64), np.full(n, 77)
    first = MECH.release(values, key=key)
    real = sealing.Seal._open

    def rewriting(seal: Any) -> Any:
        values[at] = 1
        return real(seal)

    def release() -> np.ndarray:
        values[at] = 0
        return MECH.release(values, key=key, out=out, threads=threads, resume=True)

    monkeypatch.setattr(sealing.Seal, "_open", rewriting)
    with pytest.raises(OtherInputError, match="^'visits': values must be those that were sealed, and a block is not"):
        release()
    assert not out.any()
    no_comparison(monkeypatch)
    moved = np.flatnonzero(release() != first)
    block = at // SEALED_ROWS
    assert moved.size > 0.99 * SEALED_ROWS
    assert {*(moved // SEALED_ROWS)} == {block}
    stream_key = sealing.Streams.stream_key
    monkeypatch.setattr(
        sealing.Streams, "stream_key", lambda sealed, c, j, _: stream_key(sealed, c, j, sealed._digest(c, j))
    )
    difference = release() - first
    assert np.flatnonzero(difference).tolist() == [at]
    assert difference[at] == 1


@pytest.mark.parametrize(("n", "threads"), [(5000, None), (9 * SEALED_ROWS, 1), (9 * SEALED_ROWS, 3)])
def test_a_result_of_its_own_is_noised_from_the_copy_that_was_sealed(
    n: int, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, values = fresh(), np.zeros(n, np.int64)
    first = MECH.release(values, key=key)
    real = sealing.Seal._open

    def rewriting(seal: Any) -> Any:
        values[:] = 10**9
        return real(seal)

    monkeypatch.setattr(sealing.Seal, "_open", rewriting)
    assert (MECH.release(values, key=key, threads=threads, resume=True) == first).all()
    assert (values == 10**9).all()


def test_a_worker_with_another_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewritten, of another place, cut elsewhere: refused; without the comparison, other noise."""
    values = np.arange(2 * SEALED_ROWS) % 2
    sealed = sealed_of(fresh(), values)
    one, other = cut(values)
    right = sealed.release(1, other)
    wrongs = [other + 1, np.append(one[1:], 0), other[:-1], other[::-1]]
    for wrong in wrongs:
        with pytest.raises(OtherInputError):
            sealed.release(1, wrong)
    with pytest.raises(ParameterError, match="at most 65,536, got 65,537"):
        sealed.release(1, np.append(other, 0))
    no_comparison(monkeypatch)
    for wrong in wrongs:
        assert independent(
            sealed.release(1, wrong)[:4000] - wrong[:4000], right[: wrong.size][:4000] - other[: wrong.size][:4000]
        )


def doubled(made: list[Any]) -> list[Any]:
    return [*made, made[1]]


def of_another_size(made: list[Any]) -> list[Any]:
    return [made[0], made[1]._replace(rows=5), made[2]]


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda made: made[:2], ParameterError, "one of each block, and 1 of 3 are missing"),
        (lambda made: [], ParameterError, "3 of 3 are missing"),
        (doubled, ParameterError, "a block came twice"),
        (lambda made: [*made[:2], made[0]], ParameterError, "a block came twice"),
        (of_another_size, ParameterError, "block 1 must have 65,536 rows, got 5"),
        (lambda made: [*made, made[2]._replace(block=3)], ParameterError, "of blocks 0 to 2, and one is of block 3"),
        (lambda made: [*made[1:], made[0]._replace(block=-1)], ParameterError, "one is of block -1"),
        (
            lambda made: [*made[:2], made[2]._replace(column="x")],
            ParameterError,
            "of the columns of the seal, and one is of 'x'",
        ),
        (lambda made: [*made[:2], made[2]._replace(key="0" * 32)], ParameterError, "one is of another label or key"),
        (
            lambda made: [*made[:2], made[2]._replace(stream=1)],
            ParameterError,
            "stream version 1 and manifest version 1",
        ),
        (
            lambda made: [*made[:2], made[2]._replace(version=2)],
            ParameterError,
            "stream version 2 and manifest version 2",
        ),
        (lambda made: [*made[:2], b"digest"], DTypeError, "must be those of key.digester"),
        (lambda made: 7, DTypeError, "must be those of key.digester"),
    ],
)
def test_digests_that_are_lost_doubled_or_of_others(spoil: Any, error: Any, message: str, monkeypatch: Any) -> None:
    """A lost partition must not shrink a release. Planted: unchecked, spoilt lists may pass."""
    key, n = fresh(), 2 * SEALED_ROWS + 9
    made = [key.digester(MECH)(j, block) for j, block in enumerate(cut(np.zeros(n, np.int64)))]
    with pytest.raises(error, match=message):
        key.seal(MECH, spoil(made), shape=(n,))
    assert key.seal(MECH, iter(made[::-1]), shape=(n,)).tag == key.seal(MECH, made, shape=(n,)).tag
    if spoil is doubled or spoil is of_another_size:
        unchecked = lambda about, key, found: {(each.column, each.block): (each.rows, each.digest) for each in found}  # noqa: E731
        monkeypatch.setattr(sealing, "checked", unchecked)
        key.seal(MECH, spoil(made), shape=(n,))


def test_another_labels_digest() -> None:
    """It is another pseudo-random function, though the values are equal."""
    key, other = known("a"), known("b")
    one, same = (each.digester(MECH)(0, [1, 2]) for each in (key, other))
    assert one.digest != same.digest
    with pytest.raises(ParameterError, match="made under the key of 'a', and one is of another label or key"):
        key.seal(MECH, [same], shape=(2,))


def test_which_refusals_depend_on_the_values() -> None:
    """A server that answers others passes no DataDependentError on; others tell public things."""
    key = fresh()
    MECH.release([1], key=key)
    found = []
    for attempt in (
        lambda: MECH.release([2], key=key, resume=True),
        lambda: LAWS["laplace"].release([np.nan], key=fresh()),
        lambda: sealed_of(fresh(), [1]).release(0, [2]),
        lambda: MECH.release([1], key=key),
        lambda: MECH.release([1, 2], key=key, resume=True),
        lambda: DiscreteLaplace(1, 5).release([1], key=key, resume=True),
    ):
        with pytest.raises(dpfast.errors.DpfastError) as caught:
            attempt()
        found.append(isinstance(caught.value, DataDependentError))
    assert found == [True] * 3 + [False] * 3


def refusals(folder: Path, count: int, name: str) -> Iterator[Callable[[], Any]]:
    """Calls with a private count and name: each is refused alike, whatever these are."""
    counts, names = np.array([count, 3]), [name, "b"]
    ledger, law = Ledger(folder / "b.db", 1000, delta=0.5, create=True), LAWS["laplace"]
    hidden = {"epsilon": 1, "delta": 1e-6, "sensitivity": dpfast.Sensitivity(1, 1)}
    key, reals, words, table = (known(label) for label in ("visits", "reals", "words", "table"))
    MECH.release(counts, key=key, names=names)
    ledger.release(MECH, counts, key=known("paid"), names=names)
    dpfast.thresholded(names, counts, key=words, ledger=ledger, **hidden)
    columns = {"a": MECH, "b": MECH}
    digester, digest = table.digester(MECH, column="a"), table.digester(MECH, column="b")(0, counts, names=names)
    made = [digester(0, counts, names=names), digest]
    sealed = table.seal(columns, made, shape=(2,)).without_ledger()
    yield lambda: MECH.release(counts + 1, key=key, names=names, resume=True)
    yield lambda: MECH.release(counts, key=key, names=names[::-1], resume=True)
    yield lambda: MECH.release(counts, key=key, resume=True)
    yield lambda: MECH.release(counts, key=key, names=names)
    yield lambda: DiscreteLaplace(1, 7).release(counts, key=key, names=names, resume=True)
    yield lambda: MECH.release(counts, key=known("other"), names=[name, None])
    yield lambda: MECH.release(counts, key=known("other"), names=[name])
    yield lambda: law.release([count, np.nan], key=reals)
    yield lambda: ledger.release(MECH, counts + 1, key=known("paid"), names=names, resume=True)
    yield lambda: ledger.release(MECH, counts, key=known("paid"), names=names)
    yield lambda: ledger.release(MECH, counts, key=fresh("paid"), names=names, resume=True)
    yield lambda: ledger.release(law, [count, np.inf], key=reals)
    yield lambda: ledger.reserve(
        known("paid").seal(MECH, [known("paid").digester(MECH)(0, counts)], shape=(2,)), resume=True
    )
    yield lambda: sealed.release(0, counts + 1, column="a", names=names)
    yield lambda: sealed.release(0, counts, column="a", names=names[::-1])
    yield lambda: sealed.release(1, counts, column="a", names=names)
    yield lambda: table.seal(columns, made[:1], shape=(2,))
    yield lambda: table.seal(columns, made, shape=(3,))
    yield lambda: table.seal(columns, [*made, digest], shape=(2,))
    yield lambda: known("x").seal(columns, made, shape=(2,))
    yield lambda: pickle.dumps(table.seal(columns, made, shape=(2,)))
    for changed in (
        {"counts": counts + 1},
        {"counts": -counts},
        {"keys": ["b", "b"]},
        {"resume": False},
        {"delta": 1e-7},
    ):
        given_ = {"keys": names, "counts": counts, "key": words, "resume": True, **hidden, **changed}
        for paying_ in ({}, {"ledger": ledger}):
            yield lambda arguments={**given_, **paying_}: dpfast.thresholded(**arguments)


def test_a_refusal_tells_its_kind_alone(tmp_path: Path) -> None:
    """Message, class, causes and traceback are the same for two inputs that are refused alike.

    Of a key's id and a date they may tell, which depend on no value.
    """
    said: list[list[str]] = []
    for world, (count, name) in enumerate(((91_234, "Jane Doe, rare"), (5, "a"))):
        tiers.forget_labels()
        (tmp_path / str(world)).mkdir()
        said.append([])
        for attempt in refusals(tmp_path / str(world), count, name):
            with pytest.raises((dpfast.errors.DpfastError, TypeError)) as caught:
                attempt()
            whole = "".join(traceback.format_exception(caught.value)) + repr(caught.value.args)
            told = re.sub(r"this one [0-9a-f]{32}|\d{4}-\d\d-\d\d", "", whole)
            assert "Jane" not in told
            assert "9123" not in told
            said[-1].append(told)
    assert len(said[0]) == len(said[1]) == 31
    for one, other in zip(*said, strict=True):
        assert one == other


def test_the_copies_are_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a block is drawn, only digested, or refused: no copy of a count stays behind."""
    made: list[np.ndarray] = []
    copy, straight = blocks.Blocks.copy, sealing.Whole.straight

    def copied(self: Any, i: int, room: np.ndarray) -> np.ndarray:
        made.append(room)
        return copy(self, i, room)

    def copied_straight(self: Any, job: Any, how: bytes) -> None:
        made.append(job.out)
        straight(self, job, how)

    monkeypatch.setattr(blocks, "SPARE", 0)  # a room that is used again would be wiped by its last use
    monkeypatch.setattr(blocks.Blocks, "copy", copied)
    monkeypatch.setattr(sealing.Whole, "straight", copied_straight)

    def wiped(*results: np.ndarray) -> int:
        """How many places of copies were no result's that somebody has got; they hold zeros."""
        left = [room for room in made if not any(np.shares_memory(room, result) for result in results)]
        assert not any(room.view("i8").any() for room in left)
        made.clear()
        return len(left)

    values, key = np.full(3 * SEALED_ROWS, 91), fresh()
    for counts in (values, values[:50], values[:50].astype("i4")):
        key, out = fresh(), np.zeros(counts.shape, np.int64)
        assert wiped(MECH.release(counts, key=key)) == 0, "copies lie in the result"
        MECH.release(counts, key=key, out=out, resume=True)
        assert wiped(out)
        for given_, again in itertools.product(({}, {"out": out}), (True, False)):
            with pytest.raises(OtherInputError if again else KeyReuseError):
                MECH.release(counts + 1, key=key, resume=again, **given_)
            in_place = bool(given_) and counts is values  # many blocks are digested where they lie
            assert bool(wiped()) is not in_place
    few = values[:50]
    sealed = sealed_of(key, few)
    for given_ in ({}, {"out": np.zeros_like(few)}):
        sealed.release(0, few, **given_)
        made.clear()
        with pytest.raises(OtherInputError):
            sealed.release(0, few + 1, **given_)
        assert wiped() == 1
    with pytest.raises(UnusableValuesError):
        key.digester(LAWS["laplace"])(0, [91.25, np.nan])
    assert wiped() == 1
    key.digester(LAWS["laplace"])(0, [91.25, 2.5])
    assert wiped() == 1
    key.digester(MECH)(0, few)
    assert not made, "what is not noised, and lies as it would be, is digested there"


def test_every_refusal_of_a_ledger_has_its_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the second release is drawn: for nothing, or of another input with other noise."""
    ledger, counts = Ledger(tmp_path / "b.db", 1000, create=True), np.zeros(600, np.int64)
    first = ledger.release(MECH, counts, key=known())

    def again(values: np.ndarray = counts, mech: Any = MECH, key: Any = None, *, resume: bool = True) -> np.ndarray:
        tiers.forget_labels()
        return ledger.release(mech, values, key=key or known(), resume=resume)

    cases: list[tuple[Callable[[], np.ndarray], Any, str, Any]] = [
        (lambda: again(resume=False), KeyReuseError, "must_continue", lambda *_, **__: None),
        (lambda: again(counts + 1), OtherInputError, "compare", lambda *_, **__: None),
        (lambda: again(counts[1:]), KeyReuseError, "compare", lambda *_, **__: None),
        (lambda: again(mech=DiscreteLaplace(1, 10**6 + 1)), KeyReuseError, "compare", lambda *_, **__: None),
        (lambda: again(key=fresh()), KeyReuseError, "_continued", lambda *_, **__: ""),
    ]
    for attempt, error, guard, gone in cases:
        with pytest.raises(error):
            attempt()
        with monkeypatch.context() as patch:
            patch.setattr(paying, guard, gone)
            patch.setattr(paying, "must_be_alike", lambda *_: None)  # which asks before values are read
            if guard == "_continued":
                patch.setattr(paying, "compare", gone)
            noisy = attempt()
        assert ledger.spent.epsilon == 1
        assert guard == "must_continue" or independent(noisy, first[: noisy.size])
    assert (again() == first).all()


def test_an_edited_manifest_is_never_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if nobody compares it: the caller's scale is drawn with, not that in a file."""
    ledger, counts = Ledger(tmp_path / "b.db", 1000, create=True), np.zeros(50, np.int64)
    first = ledger.release(MECH, counts, key=known())
    real = sealing.Manifest.of
    edited = lambda kept: real({**kept, "columns": [{"name": "", "mechanism": ["discrete_laplace", 1, 1, 1, 1000]}]})  # noqa: E731
    monkeypatch.setattr(sealing.Manifest, "of", staticmethod(edited))
    with pytest.raises(KeyReuseError, match="with other parameters of discrete_laplace"):
        ledger.release(MECH, counts, key=known(), resume=True)
    monkeypatch.setattr(paying, "compare", lambda *_, **__: None)
    monkeypatch.setattr(paying, "must_be_alike", lambda *_: None)
    assert (ledger.release(MECH, counts, key=known(), resume=True) == first).all()
