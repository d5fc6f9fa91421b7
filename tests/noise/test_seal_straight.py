# SPDX-License-Identifier: Apache-2.0
"""One plain block of counts under a key: sealed and noised straight, as by way of blocks."""

from __future__ import annotations

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
