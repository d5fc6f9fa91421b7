# SPDX-License-Identifier: Apache-2.0
"""What a build must know before it draws: right answers, every way to a draw, no difference."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miscompiled import SPOILT
from proofs import CSRC, generator
from tiers import ISAS

from dpfast import DiscreteLaplace, Laplace, _native
from dpfast._dpf import ffi, lib
from dpfast.errors import SelfCheckError
from dpfast.evidence.selftest import reference
from dpfast.noise.mechanisms.laws import own_laws
from dpfast.noise.random.random_bytes import random_bytes


@cache
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


@cache
def rows() -> list[Any]:
    """The generator's rows, with the digits that are compiled in."""
    found = make_known().rows()
    assert len(found) == len(ROWS)
    for row, answer in zip(found, ROWS, strict=True):
        row.n = answer.n
        row.planted = [] if answer.planted == ffi.NULL else [
            make_known().Planted(tuple(each.digits), each.offset, bool(each.negative), bool(each.sine))
            for each in answer.planted[0 : answer.n]
        ]  # fmt: skip
    return found


PLANTED = [at for at, answer in enumerate(ROWS) if answer.planted != ffi.NULL]
STATUS = {name: int(value) for name, value in re.findall(r"DPFAST_(\w+) = (\d+)", (CSRC / "dpfast.h").read_text())}


@pytest.mark.slow
def test_the_answers_are_what_their_generator_writes() -> None:
    """Plans, releases and digests of known.h, from its planted digits: by the exact tier."""
    kinds = make_known().KINDS_OF_BUILDS
    if len(kinds) == len(ROWS[0].digest):
        assert make_known().header(rows()) == (CSRC / "known.h").read_text()
    else:
        expected = [{kind: answer.digest[kind] for kind in kinds} for answer in ROWS]
        assert [make_known().digests(row) for row in rows()] == expected


@pytest.mark.parametrize("at", PLANTED, ids=[IDS[at] for at in PLANTED])
def test_planted_digits_lie_where_margin_and_error_meet(at: int) -> None:
    """Each kind of build decides some of them, and never one with a boundary inside."""
    row = rows()[at]
    truth = [make_known().truth(row, planted) for planted in row.planted]
    for isa in make_known().KINDS_OF_BUILDS.values():
        decided = make_known().by_tier(row, make_known().as_array(row.planted), isa)[1].tolist()
        assert {True, False} <= set(decided)
        assert all(draw is not None for draw, sure in zip(truth, decided, strict=True) if sure)
    if row.tier == make_known().ACCEPTANCE:
        law = reference.of(row.mechanism)
        for planted, sure, taken in zip(row.planted, decided, truth, strict=True):
            k, w = make_known().signed(planted.digits[0]), planted.digits[1]
            assert not sure or law.accepts(k, 2**64 - 1 - w, 64) is bool(taken)
    else:
        assert None in truth


def test_the_answers_cover_every_law_tier_and_kind_of_value() -> None:
    """Planted: each law, tier and level 0. Releases: every width, kind, limb, bound and store."""
    laws = {number: name for name, number in _native.LAW_NUMBERS.items()}
    planted = {(laws[answer.plan.law], answer.tier) for answer in ROWS if answer.tier}
    double, extended, double_double, integer = _native.DOUBLE, _native.EXTENDED, _native.DOUBLE_DOUBLE, _native.INTEGER
    expected = {(law, tier) for law in ("discrete_laplace", "laplace") for tier in (double, double_double, integer)}
    expected |= {("gaussian", tier) for tier in (double, extended, double_double)} | {("laplace", extended)}
    expected |= {("discrete_gaussian", tier) for tier in (double, make_known().ACCEPTANCE)}
    assert planted == expected | {(law, make_known().LEVEL0) for law in laws.values()}
    releases = [answer for answer in ROWS if not answer.tier]
    tiers = {
        (laws[each.plan.law], each.plan.constant_work if each.how.constant_work else each.plan.bulk)
        for each in releases
    }
    tabled = {("discrete_laplace", _native.TABLE), ("discrete_gaussian", _native.TABLE)}
    floats = {
        ("discrete_laplace", _native.FLOAT),
        ("discrete_gaussian", _native.FLOAT),
        ("discrete_gaussian", extended),
    }
    assert tiers >= tabled | floats | expected - {("discrete_gaussian", make_known().ACCEPTANCE)}
    widths = {(laws[each.plan.law], each.plan.width) for each in releases if not each.how.constant_work}
    assert widths >= {(law, 16) for law, _ in tabled} | {(law, width) for law in laws.values() for width in (32, 64)}
    ways = {(each.how.kind, each.how.limbs) for each in releases}
    kinds = _native.KINDS.values()
    assert ways >= {(_native.KINDS[np.dtype(k)], 2) for k in ("int64", "uint64", "float64")} | {
        (kind, 1) for kind in kinds
    }
    for name in ("non_temporal", "refuse", "single"):
        assert {getattr(each.how, name) for each in releases} == {0, 1}, name
    bounds = {
        (each.how.lower.lo, each.how.upper.lo) for each in releases if each.how.kind == _native.KINDS[np.dtype("int64")]
    }
    assert bounds >= {(2**64 + low if low < 0 else low, high) for low, high in ((-(2**63), 2**63 - 1), (-128, 127))}


def test_what_the_long_check_spoils_is_there() -> None:
    """`.ci/deep self_check` builds each; tests/house/test_deep.py a few."""
    assert [spoilt.name for spoilt in SPOILT if (CSRC / spoilt.file).read_text().count(spoilt.old) != 1] == []
    assert len({spoilt.name for spoilt in SPOILT}) == len(SPOILT)


@pytest.mark.parametrize("isa", ISAS)
def test_a_changed_answer_is_found(isa: int) -> None:
    """Another digest, digits or scale in any row, and the check names that row."""
    scratch = ffi.new("uint64_t[]", lib.DPF_CHECK)
    for at, answer in enumerate(ROWS):
        changed = ffi.new("dpf_known[2]")
        changed[0] = answer
        assert lib.dpf_self_check(isa, lib.DPF_LAWS, changed, scratch) == ffi.NULL
        for kind in range(len(ROWS[0].digest)):
            changed[0].digest[kind] ^= 1 << at % 64
        assert lib.dpf_self_check(isa, lib.DPF_LAWS, changed, scratch) == answer.what
        changed[0] = answer
        if answer.planted != ffi.NULL:
            moved = ffi.new("dpf_planted[]", answer.n)
            ffi.memmove(moved, answer.planted, ffi.sizeof(moved))
            for each in moved:
                each.digits[0] ^= 1 << min(62, answer.bits - 2 if answer.bits else answer.plan.width - 3)  # far away
            changed[0].planted = moved
        elif answer.tier:
            changed[0].n -= 1
        else:
            changed[0].start += 1
        assert lib.dpf_self_check(isa, lib.DPF_LAWS, changed, scratch) == answer.what


def test_a_law_is_asked_for_its_own_answers() -> None:
    """Another law's may be wrong, but none of its own, be it the first or the last of them."""
    scratch = ffi.new("uint64_t[]", lib.DPF_CHECK)
    laws = {answer.plan.law for answer in ROWS}
    assert sum(1 << law for law in laws) == lib.DPF_LAWS
    for law in laws:
        own = [at for at, answer in enumerate(ROWS) if answer.plan.law == law]
        changed = ffi.new("dpf_known[]", len(ROWS) + 1)
        for at, answer in enumerate(ROWS):
            changed[at] = answer
            for kind in range(len(ROWS[0].digest)):
                changed[at].digest[kind] ^= at not in own
        assert lib.dpf_self_check(_native.PORTABLE, 1 << law, changed, scratch) == ffi.NULL
        for at in (own[0], own[-1]):
            for kind in range(len(ROWS[0].digest)):
                changed[at].digest[kind] ^= 1
            assert lib.dpf_self_check(_native.PORTABLE, 1 << law, changed, scratch) == ROWS[at].what
            changed[at] = ROWS[at]


DOOR = """\
static int knows = -1;
int asked; /* the laws, a bit each, whose answers the library asked for last */
const char *dpf_self_check(int isa, int laws, const void *answers, void *scratch) {
    asked = laws;
    return laws & ~knows ? "an answer" : 0;
}
void forget(int laws) { knows = ~laws; }
int dpf_make_plan(void) { return NO_SCALE; } /* what a check that passes leads to */
int dpf_best_isa(void) { return 0; }
void dpf_reach(void) {}
const void *dpf_known_answers(void) { return 0; }
int dpf_add, dpf_add_fresh, dpf_make_table, dpf_wipe; /* never called */
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the library is built on Linux alone")
def test_the_library_asks_for_the_answers_of_a_law_once(tmp_path: Path) -> None:
    """A discrete Gaussian's proposals are a Gaussian, so that it has answers to know, too."""
    (tmp_path / "door.c").write_text(DOOR)
    built = tmp_path / "door.so"
    sources = str(tmp_path / "door.c"), str(CSRC / "dpfast.c")
    subprocess.run(
        ["gcc", "-O0", "-shared", "-fPIC", f"-I{CSRC}", f"-DNO_SCALE={lib.DPF_NO_SCALE}", "-o", str(built), *sources],
        check=True,
    )
    laws = {name: 1 << law for name, law in _native.LAW_NUMBERS.items()}
    asked_for = {name: bit | laws["gaussian"] * (name == "discrete_gaussian") for name, bit in laws.items()}
    for at, order in enumerate((("gaussian", "laplace", "discrete_laplace", "discrete_gaussian"),
                                ("discrete_gaussian", "gaussian", "laplace", "discrete_laplace"))):  # fmt: skip
        door = ctypes.CDLL(shutil.copy(built, tmp_path / f"door{at}.so"))  # which has checked nothing
        last, known = ctypes.c_int.in_dll(door, "asked"), 0
        for law in order:
            grid = [] if law.startswith("discrete") else [ctypes.c_int32(-20)]
            new = partial(getattr(door, f"dpfast_{law}"), b"1", *grid, ctypes.byref(ctypes.c_void_p()))
            fails = asked_for[law] & ~known
            if fails:
                door.forget(fails)
                assert new() == STATUS["BUILD"], law
                door.forget(0)
            for asked in (asked_for[law] if fails else 0, 0):
                last.value = 0
                assert new() == STATUS["SCALE"], law
                assert last.value == asked, law
            known |= asked_for[law]


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
    for kind in range(len(ROWS[0].digest)):
        changed[at].digest[kind] ^= 1
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


MADE = [at for at, answer in enumerate(ROWS) if answer.exponent]


def test_one_plan_of_each_law_is_made() -> None:
    """And both kinds of tables, and a search among thresholds."""
    laws = {_native.LAW_NUMBERS[law] for law in own_laws()}
    assert {ROWS[at].plan.law for at in MADE} == laws
    assert {ROWS[at].plan.law for at in MADE if ROWS[at].table} == {1, 4}
    assert any(ROWS[at].plan.search.steps for at in MADE)


SPOILT_PLANS = {
    "a scale": lambda answer: answer.plan.scale.__setitem__(0, answer.plan.scale[0] ^ 1),
    "what a float does not hold": lambda answer: setattr(
        answer.plan, "t_low", (answer.plan.t_low or 1.0) * (1 + 2.0**-52)
    ),
    "a constant": lambda answer: setattr(
        answer.plan, "double_double_margin", answer.plan.double_double_margin - 2.0**-54
    ),
    "a table": lambda answer: setattr(answer, "table", answer.table ^ 1),
    "a tier": lambda answer: setattr(answer.plan, "bulk", answer.plan.bulk ^ 1),
    "its scale": lambda answer: setattr(answer, "exponent", answer.exponent + 1),
}


@pytest.mark.parametrize("at", MADE, ids=[IDS[at] for at in MADE])
def test_a_plan_made_otherwise_is_noticed(at: int) -> None:
    """Each constant, by a bit; thresholds and the guide to them, too. As it is, all is known."""
    scratch = ffi.new("uint64_t[]", lib.DPF_CHECK)

    def found(spoil: Callable[[Any], object]) -> Any:
        changed = ffi.new("dpf_known[]", 2)
        changed[0] = ROWS[at]
        held.append(spoil(changed[0]))
        return lib.dpf_self_check(_native.PORTABLE, lib.DPF_LAWS, changed, scratch)

    held: list[object] = []
    assert found(lambda _: None) == ffi.NULL
    for name, spoil in SPOILT_PLANS.items():
        if name != "a table" or ROWS[at].table:
            assert found(spoil) == ROWS[at].what, name
    for name in ("thresholds", "guide") if ROWS[at].plan.search.steps else ():

        def moved(answer: Any, name: str = name) -> object:
            cells = ffi.new({"thresholds": "uint64_t[1280]", "guide": "uint16_t[1025]"}[name])
            size = lib.DPF_GUIDE if name == "guide" else 1 + list(getattr(ROWS[at].plan.search, name)[0:300]).index(0)
            cells[0:size] = list(getattr(ROWS[at].plan.search, name)[0:size])
            cells[size // 2] ^= 1
            setattr(answer.plan.search, name, cells)
            return cells

        assert found(moved) == ROWS[at].what, name


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
