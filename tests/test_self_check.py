# SPDX-License-Identifier: Apache-2.0
"""What a build must know before it draws: right answers, every way to a draw, no difference."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from proofs import generator
from tiers import ISAS

import dpfast
from dpfast import DiscreteLaplace, Laplace, SelfCheckError, _native
from dpfast._dpf import ffi, lib
from dpfast.random.random_bytes import random_bytes


def make_known() -> Any:
    return generator("make_known")


def answers() -> Iterator[Any]:
    """What is compiled in."""
    known, at = _native.known_answers(), 0
    while known[at].what != ffi.NULL:
        yield known[at]
        at += 1


ROWS = list(answers())
IDS = [f"{at}, {ffi.string(answer.what).decode()}" for at, answer in enumerate(ROWS)]


def read(at: int) -> Any:
    """The generator's row of that number, with the digits that are compiled in."""
    answer, row = ROWS[at], make_known().rows()[at]
    if row.tier:
        row.planted = [
            make_known().Planted(tuple(each.digits), each.offset, bool(each.negative), bool(each.sine))
            for each in answer.planted[0 : answer.n]
        ]
    return row


@pytest.mark.parametrize("at", range(len(ROWS)), ids=IDS)
def test_the_answers_are_those_of_the_exact_tier(at: int) -> None:
    """Each row has its mechanism's plan, and the digest of draws by proved intervals."""
    answer, row = ROWS[at], read(at)
    assert ffi.string(answer.what).decode() == row.what
    right = row.tier, row.bits, int(row.constant_work > 0), row.form
    assert (answer.tier, answer.bits, answer.constant_work, answer.form) == right
    plan, compiled = _native.fields(row.plan._plan), _native.fields(answer.plan)
    assert plan.keys() == compiled.keys()
    for name, ours in compiled.items():
        theirs = plan[name]
        if name == "constant_work" and row.constant_work:
            assert ours == row.constant_work
        elif name in ("wide_t", "wide_c"):
            assert (ours.lo, ours.hi) == (theirs.lo, theirs.hi), name
        elif name not in ("table", "thresholds", "guide"):
            assert ours == theirs, name
    for kept in row.plan._kept:
        if kept != ffi.NULL:
            name = {"uint64_t": "thresholds", "uint16_t": "guide"}[ffi.typeof(kept).item.cname]
            assert list(compiled[name][0 : len(kept)]) == list(kept)
    if not row.tier:
        assert (answer.n, answer.start) == (row.n, row.start)
    assert answer.digest == make_known().digest(row)


@pytest.mark.parametrize("at", [at for at, answer in enumerate(ROWS) if answer.tier])
def test_planted_digits_lie_on_both_sides_of_boundaries(at: int) -> None:
    """A boundary inside a cell: undecided, beside two whose draws are neighbours."""
    row = read(at)
    draws = [make_known().truth(row, planted) for planted in row.planted]
    if isinstance(row.mechanism, dpfast.DiscreteGaussian) and row.bits == 64:
        limits, cells = set(row.mechanism._law.thresholds()), [planted.digits[0] for planted in row.planted]
        assert {cell for cell, draw in zip(cells, draws, strict=True) if draw is None} == limits
        assert set(cells) == {limit + move for limit in limits for move in (-1, 0, 1)} - {0}
    else:
        assert len(draws) >= 9
        for inside, below, above in zip(*[iter(draws)] * 3, strict=True):
            assert inside is None
            assert abs(below - above) == 1


def test_the_answers_cover_every_law_and_tier() -> None:
    """Planted: each law with each of its tiers. Fills: also every width, and both real forms."""
    laws = {number: name for name, number in _native.LAWS.items()}
    planted = {(laws[answer.plan.law], answer.tier) for answer in ROWS if answer.tier}
    double, extended, double_double, integer = _native.DOUBLE, _native.EXTENDED, _native.DOUBLE_DOUBLE, _native.INTEGER
    expected = {(law, tier) for law in ("discrete_laplace", "laplace") for tier in (double, double_double, integer)}
    expected |= {(law, _native.FLOAT) for law in ("discrete_laplace", "discrete_gaussian")} | {("laplace", extended)}
    expected |= {(law, tier) for law in ("gaussian", "discrete_gaussian") for tier in (double, extended, double_double)}
    assert planted == expected
    fills = [answer for answer in ROWS if not answer.tier]
    tiers = {(laws[each.plan.law], each.plan.constant_work if each.constant_work else each.plan.bulk) for each in fills}
    assert tiers >= {("discrete_laplace", _native.TABLE), ("discrete_gaussian", _native.TABLE)} | expected - {
        ("discrete_gaussian", double_double)  # as its proposals, from no scale that it has
    }
    widths = {(laws[each.plan.law], each.plan.width) for each in fills if not each.constant_work}
    assert widths >= {("discrete_laplace", 16), ("discrete_gaussian", 16)} | {
        (law, width) for law in laws.values() for width in (32, 64)
    }
    assert {(law, each.form) for each in fills if (law := laws[each.plan.law]) in ("laplace", "gaussian")} == {
        (law, form) for law in ("laplace", "gaussian") for form in (0, 2)
    }


@pytest.mark.parametrize("isa", ISAS)
def test_a_changed_answer_is_found(isa: int) -> None:
    """Another digest, digits or scale in any row, and the check names that row."""
    scratch = ffi.new("uint64_t[]", lib.DPF_CHECK)
    for at, answer in enumerate(ROWS):
        changed = ffi.new("dpf_known[2]")
        changed[0] = answer
        assert lib.dpf_self_check(isa, changed, scratch) == ffi.NULL
        changed[0].digest ^= 1 << at
        assert lib.dpf_self_check(isa, changed, scratch) == answer.what
        changed[0] = answer
        if answer.tier:
            moved = ffi.new("dpf_planted[]", answer.n)
            ffi.memmove(moved, answer.planted, ffi.sizeof(moved))
            moved[answer.n - 1].digits[0] ^= 1 << min(62, answer.bits - 2)  # far from where it lay
            changed[0].planted = moved
        else:
            changed[0].start += 1
        assert lib.dpf_self_check(isa, changed, scratch) == answer.what


@pytest.fixture
def _unchecked() -> Iterator[None]:
    """Forget, before and after, that this build was found good."""

    def forget() -> None:
        _native.checked.cache_clear()
        _native.best_isa.cache_clear()

    forget()
    yield
    forget()


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("at", [0, len(ROWS) - 1])
def test_a_build_that_does_not_know_draws_nothing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The first use checks all answers: if one differs, releases and streams are refused."""
    changed = ffi.new("dpf_known[]", len(ROWS) + 1)
    for i, answer in enumerate(ROWS):
        changed[i] = answer
    changed[at].digest ^= 1
    monkeypatch.setattr(_native, "known_answers", lambda: changed)
    says = r"does not reproduce its known answers \(.* of scale .*\), so it draws nothing; build it again"
    for n in (1, 5000):
        counts = np.full(n, 999)
        for _ in range(2):
            with pytest.raises(SelfCheckError, match=says):
                DiscreteLaplace(1, 10).release(counts, out=counts)
        assert set(counts.tolist()) in ({0}, {999})  # after there was a key, or before
        with pytest.raises(SelfCheckError):
            DiscreteLaplace(1, 10).sample(n)
        with pytest.raises(SelfCheckError):
            random_bytes(2**20)
        with pytest.raises(SelfCheckError):
            Laplace(1, 1).release(np.zeros(n))


@pytest.mark.usefixtures("_unchecked")
def test_every_instruction_set_knows_its_answers() -> None:
    """Each that this machine has passes the check that the chosen one must pass."""
    for isa in ISAS:
        assert _native.checked(isa) == isa
    assert _native.isa_name() == _native.ISA_NAMES[_native.best_isa()]


def test_the_check_needs_no_library() -> None:
    """It is C alone: `import dpfast` does not run it, and it loads no python-flint."""
    code = (
        "import sys, dpfast; from dpfast import _native; assert _native.checked.cache_info().currsize == 0; "
        "_native.best_isa(); assert _native.checked.cache_info().currsize == 1; assert 'flint' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
