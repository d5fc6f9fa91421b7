# SPDX-License-Identifier: Apache-2.0
"""One plain block of counts under a key: sealed and noised straight, as by way of blocks."""

from __future__ import annotations

import sys
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from seals import MECH, SECRET, known

import dpfast.testing
from dpfast import DiscreteGaussian, DiscreteLaplace, Key, Ledger
from dpfast.errors import InsecureKeyWarning, KeyReuseError, OtherInputError
from dpfast.ledger.store import Store
from dpfast.noise.mechanisms import mechanism
from dpfast.noise.release import blocks
from dpfast.noise.release import seal as sealing

LAWS = (
    DiscreteLaplace(1, 10),
    DiscreteLaplace(Fraction(1, 3), 10**15),
    DiscreteGaussian.from_zcdp(1, dpfast.Sensitivity(1, 1)),
)
ENDS = np.array([2**63 - 1, -(2**63), -1, 0])
VALUES: dict[str, Any] = {
    "few": np.arange(100), "one": np.array([5]), "no axis": np.array(-7), "two axes": np.arange(6).reshape(2, 3), "ends": ENDS,
    "below small": np.arange(4095), "small": np.arange(4096), "a block": np.arange(blocks.BLOCK) % 9, "a list": [3, 1, 2],
    "another integer": np.arange(9, dtype=np.longlong),
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "none": np.zeros(0, np.int64), "more than a block": np.arange(blocks.BLOCK + 1) % 9, "turned": np.arange(6).reshape(2, 3).T,
    "reversed": np.arange(9)[::-1], "narrow": np.arange(9, dtype=np.int8), "unsigned": np.array([2**64 - 1, 3], np.uint64),
    "swapped": np.arange(9, dtype=">i8"), "not aligned": np.frombuffer(bytes(73), np.int64, offset=1),
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results of calls that were sealed and noised straight, from now on."""
    found, real = [], sealing.Whole.straight

    def watched(self: Any, job: Any, how: bytes) -> None:
        found.append(job.out)
        real(self, job, how)

    monkeypatch.setattr(sealing.Whole, "straight", watched)
    return found


@pytest.mark.parametrize("name", [*VALUES, *OTHERS])
def test_it_is_what_blocks_draw(name: str, calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """For each law, and whatever goes with it; what is no plain block is drawn by blocks."""
    values: Any = {**VALUES, **OTHERS}[name]
    master, names = Key.from_bytes(SECRET), np.arange(np.size(values))
    straight: list[dict[str, Any]] = [{}, {"lower": 0, "upper": 20}, {"threads": 2}, {"missing": 0}]
    by_blocks: list[dict[str, Any]] = [{"dtype": "u8"}, {"dtype": np.int16}, {"dtype": ">i8"}, {"names": names}]

    def released(options: list[dict[str, Any]]) -> list[Any]:
        calls.clear()
        made = [
            law.release(values, key=master.derive(f"{at} {more}"), **more)
            for at, law in enumerate(LAWS)
            for more in options
        ]
        return [(each.dtype, each.shape, each.tobytes()) for each in made]

    tiers.forget_labels()
    clamped = released([{"clamp": (0, 3)}])  # whose copy may be plain
    blocked = released(by_blocks)
    assert not calls
    found = released(straight)
    assert len(calls) == len(LAWS) * len(straight) * (name in VALUES)
    tiers.forget_labels()
    monkeypatch.setattr(mechanism, "is_one", lambda _: False)
    assert released([{"clamp": (0, 3)}]) == clamped
    assert released(by_blocks) == blocked
    assert released(straight) == found
    assert not calls


@pytest.mark.parametrize("paid", [False, True])
def test_the_seal_is_that_of_blocks(paid: bool, calls: list[Any], tmp_path: Path) -> None:
    """Whoever reserves: what is begun straight goes on by blocks, and another input does not."""
    ledger, counts, out = Ledger(tmp_path / "b.db", 9, create=True), np.arange(50), np.zeros(50, np.int64)
    release: Any = partial(ledger.release, MECH) if paid else MECH.release
    for label, into in (("a", {}), ("b", {"out": out})):
        first = release(counts, key=known(label), **into).copy()
        assert len(calls) == (not into)
        tiers.forget_labels()  # as another process
        for again in ({}, {"out": out}, {"threads": 3}):
            assert (release(counts, key=known(label), resume=True, **again) == first).all()
            for refused, error in (({"resume": True}, OtherInputError), ({}, KeyReuseError)):
                with pytest.raises(error):
                    release(counts + 1, key=known(label), **refused, **again)
        calls.clear()
    assert not paid or ledger.spent.epsilon == 2


def test_a_fixed_key_warns_and_is_never_reserved(calls: list[Any]) -> None:
    for _ in range(2):
        with pytest.warns(InsecureKeyWarning, match="a release under a fixed key"):
            MECH.release([1, 2], key=dpfast.testing.fixed_key(7).derive("test"))
    assert len(calls) == 2


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("step", range(len(tiers.STEPS_OF_A_BLOCK)))
def test_a_step_that_fails_leaves_zeros(
    step: int, done: bool, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next try is the release that it would have been."""
    (owner, name), counts, keys = tiers.STEPS_OF_A_BLOCK[step], np.arange(100) + 1, tiers.keys_taken(monkeypatch)
    real = getattr(owner, name)

    def failing(*given: Any, **more: Any) -> Any:
        if done:
            real(*given, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, name, failing)
        MECH.release(counts, key=known())
    [left] = calls
    assert not left.any()
    assert not any(any(tiers.bytes_of(key)) for key in keys)
    found = MECH.release(counts, key=known(), resume=True)
    tiers.forget_labels()
    assert (MECH.release(counts, key=known(), out=np.zeros_like(counts)) == found).all()


# ------------------------------------------------------------------ one label


class Text(str, Enum):  # noqa: UP042  a StrEnum prints its characters
    """Equal to a text, and printed as another."""

    VISITS = "visits"


def test_a_text_is_its_characters_whatever_its_class(tmp_path: Path) -> None:
    """As a label, a term, a column, and in a ledger: else one label has two noises."""
    assert str(Text.VISITS) != "visits"
    master, values = Key.generate(), np.arange(100)
    first = MECH.release(values, key=master.derive("visits"))
    assert (MECH.release(values, key=master.derive(Text.VISITS), resume=True) == first).all()

    key = master.derive("sealed")
    digest = [key.digester(MECH)(0, values)]

    def drawn(text: str, *, resume: bool) -> Any:
        return (
            key.seal(MECH, digest, shape=(100,), terms={"order": text}).without_ledger(resume=resume).release(0, values)
        )

    assert (drawn("visits", resume=False) == drawn(Text.VISITS, resume=True)).all()
    digests = [key.digester(MECH, column=column)(0, values) for column in ("visits", Text.VISITS)]
    assert digests[0].digest == digests[1].digest

    ledger = Ledger(tmp_path / "budget.db", 9, create=True)
    ledger.release(MECH, values, label=Text.VISITS)
    assert [entry.label for entry in Ledger(tmp_path / "budget.db").history()] == ["visits"]


def test_a_seal_whose_manifest_is_exchanged_is_refused() -> None:
    """What is compared is what stream keys are made from, not what a seal says of itself."""
    key, values = Key.generate().derive("visits"), np.arange(100)
    one, other = (
        key.seal(law, [key.digester(law)(0, values)], shape=(100,)) for law in (MECH, DiscreteLaplace(2, 10**6))
    )
    one.without_ledger()
    other.manifest = one.manifest
    with pytest.raises(OtherInputError):
        other.without_ledger(resume=True)


def test_what_is_released_while_a_ledger_charges_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, without the ledger: one of both inputs is released."""
    ledger, key = Ledger(tmp_path / "budget.db", 9, create=True), Key.generate().derive("visits")
    real = Store.reserve

    def meanwhile(*charge: Any) -> Any:
        found = real(*charge)
        MECH.release(np.arange(100) + 1, key=key)
        return found

    monkeypatch.setattr(Store, "reserve", meanwhile)
    with pytest.raises(OtherInputError, match="in this process"):
        ledger.release(MECH, np.arange(100), key=key)
    assert ledger.spent.epsilon == 1


@pytest.mark.parametrize("options", [{"dtype": np.uint64}, {"names": np.arange(1000)}])
def test_a_second_interrupt_before_copies_are_forgotten_finds_zeros(options: dict[str, Any]) -> None:
    """Signals are looked for as a function begins: there, the copies in the result are gone."""
    key, values, seen = Key.generate().derive("visits"), np.arange(1000) + 10**6, []
    MECH.release(values + 1, key=key, **options)

    def trace(frame: Any, *_: Any) -> None:
        if frame.f_code is blocks.Blocks.forget.__code__:
            seen.append(frame.f_locals["self"].out.copy())
            raise KeyboardInterrupt  # which ends the trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            MECH.release(values, key=key, resume=True, **options)
    finally:
        sys.settrace(before)
    assert [each.any() for each in seen] == [False]
