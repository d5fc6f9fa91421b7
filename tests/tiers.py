# SPDX-License-Identifier: Apache-2.0
"""The one door to what dpfast keeps to itself: what is renamed there is renamed here alone."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpfast import _native
from dpfast.counts.records import fixed_point, partitions
from dpfast.counts.records.means import MeanNoise
from dpfast.counts.trees.noisy_tree import NoisyTree
from dpfast.errors import EntropyError
from dpfast.evidence.selftest import reference
from dpfast.noise import kernels
from dpfast.noise.mechanisms import equals, selection
from dpfast.noise.mechanisms.real import RealMechanism
from dpfast.noise.release import blocks as sealed_blocks
from dpfast.noise.release import digits, engine, seal
from dpfast.noise.release.arrays import Job, clamps, prepare_real
from dpfast.privacy import exact, guarantee
from dpfast.privacy.inputs import Inputs


def address_of(name: str) -> int:
    """Where a function of C lies."""
    return int(_native.ffi.cast("uintptr_t", _native.ffi.addressof(_native.lib, name)))


def must_hide(mechanism: Any, change: Any) -> None:
    """Raises: ParameterError (a mechanism that is not made for counts which change so)."""
    mechanism._refuse_less(change)


def replaced(fields: Any, **others: Any) -> Any:
    """A named tuple with other fields."""
    return fields._replace(**others)


NATIVE = _native.__name__  # for scripts
FLOAT, DOUBLE, EXTENDED = _native.FLOAT, _native.DOUBLE, _native.EXTENDED
DOUBLE_DOUBLE, INTEGER, TABLE = _native.DOUBLE_DOUBLE, _native.INTEGER, _native.TABLE
# Constants by which no tier in C decides a real draw.
BLIND = {
    "margin": -1.0,
    "extended_margin": -1.0,
    "double_double_margin": -1.0,
    "wide_cell": 400,
    "bulk": INTEGER,
    "constant_work": INTEGER,
}
STREAM_VERSION, TABLE_BITS, UNDECIDED = _native.STREAM_VERSION, _native.TABLE_BITS, _native.UNDECIDED
BLOCK, SMALL, SEALED_ROWS = _native.BLOCK, engine.SMALL, sealed_blocks.BLOCK
KINDS = _native.KINDS  # what values are, to C
FUNCTIONS = [getattr(function, "__name__", "") for function in _native.FUNCTIONS]
STRUCTS = [kind.cname for kind in _native.STRUCTS]
INT64, UINT64, FLOAT64, FLOAT32 = (KINDS[np.dtype(name)] for name in ("int64", "uint64", "float64", "float32"))
StreamKey = _native.StreamKey
entropy, nonce, blocks, best_isa = _native.entropy, _native.nonce, _native.blocks, _native.best_isa
ADD_FRESH = _native.ADD_FRESH
usable_threads, checked = engine.usable_threads, _native.checked
fixed_point_steps, fixed_point_kernel = fixed_point.on_grid, fixed_point._sum

ISAS = _native.ISAS
ISA_NAMES = _native.ISA_NAMES
LAWS = set(_native.LAW_NUMBERS)  # that C has
# Rows that are bounded.
FEW, Choice, hash_texts = _native.FEW, _native.Choice, _native.hash_texts
bounded_counts, chosen_rows = _native.bounded_counts, _native.chosen_rows
SPARE, sort = _native.SPARE, _native.sort

# ---------------------------------------------------------- what a mechanism keeps: functions of it

constant_work_plan, bulk_plan = attrgetter("_constant_work_plan"), attrgetter("_bulk_plan")
law = reference.of  # in intervals
kept_for_equals, remembered = (equals._first_of_equals, equals._checked), equals.remembered
prepared = attrgetter("_small")  # for small releases
record = attrgetter("_record")  # what the derivation of a stream key reads of it
narrow = attrgetter("_narrow")  # whether one limb holds each draw
exponent, bound, ratio = map(attrgetter, ("_exponent", "_bound", "_ratio"))  # a real law's grid and values
spilled_files, spilling = attrgetter("_files"), attrgetter("_writers")  # by shard
PLACED = "_place"  # a step of a file that appears whole
rate = attrgetter("_rate")  # a selection's noise
noises = attrgetter("_noise")  # AboveThreshold's: the threshold's and an answer's
curve, losses = (
    attrgetter("_curve"),
    attrgetter("_losses"),
)  # a module's: dpfast.evidence.bench.curves, dpfast.app.pictures
response_lines = attrgetter("_lines")  # what the kernel of randomized response decides by


def score_ends(gap: float, noise: int, rate: float, gumbel: int) -> tuple[float, float]:
    """Between which a kernel takes a candidate's score to lie."""
    from dpfast.noise.kernels import nominate  # here, as it compiles

    return nominate._ends(gap, noise, rate, gumbel)


# ------------------------------------------------------------------ plans

ARRAYS = {"table": "int16_t[]", "thresholds": "uint64_t[]", "guide": "uint16_t[]"}
# The block of a field of dpf_plan that is in one; no two fields have one name.
BLOCKS = {
    field: block
    for block, kind in _native.ffi.typeof("dpf_plan").fields
    if kind.type.kind == "struct"
    for field, _ in kind.type.fields
}


class Plan(_native.Plan):
    """A plan with these fields, named as in csrc/dpf_abi.h, in place of those that C makes."""

    def __init__(self, law: str, *, table: np.ndarray | None = None, **fields: Any) -> None:
        """Arrays (table int16, thresholds uint64, guide uint16) are kept: the plan points there."""
        kept: list[Any] = []
        self._plan = _native.ffi.new("dpf_plan *")
        self._plan.law = _native.LAW_NUMBERS[law]
        for name, value in {**fields, "table": table}.items():
            place, held = getattr(self._plan, BLOCKS[name]) if name in BLOCKS else self._plan, value
            if name in ARRAYS:
                held = _native.ffi.NULL if value is None else _native.ffi.from_buffer(ARRAYS[name], value)
                kept.append(held)
            elif name in ("wide_t", "wide_c"):
                held = int(value) % 2**64, int(value) >> 64
            elif name == "scale":
                held = [value >> 64 * limb & (2**64 - 1) for limb in range(15)]
            setattr(place, name, held)
        self._kept = tuple(kept)
        self._name()


def fields(plan: _native.Plan) -> dict[str, Any]:
    """What Plan takes, of a plan without a table."""
    found = {}
    for name in [name for name, kind in _native.ffi.typeof("dpf_plan").fields if kind.type.kind != "struct"] + [
        *BLOCKS
    ]:
        value = getattr(getattr(plan._plan, BLOCKS[name]) if name in BLOCKS else plan._plan, name)
        if name in ("wide_t", "wide_c"):
            value = value.lo + (value.hi << 64)
        elif name == "scale":
            value = sum(limb << 64 * place for place, limb in enumerate(value))
        if name not in ("law", *ARRAYS):
            found[name] = value
    if found["steps"]:
        thresholds, guide = np.array(list(plan._kept[0]), np.uint64), np.array(list(plan._kept[1]), np.uint16)
        n = np.count_nonzero(thresholds) + 2 ** found["steps"]
        found |= {"thresholds": thresholds[:n], "guide": guide}
    return found


def constants(mechanism: Any) -> dict[str, Any]:
    """A mechanism's plan, by the names of its fields."""
    return fields(mechanism._made_plan())


made_plan = _native.Plan  # by a law's name and a scale
NO_SCALE, THRESHOLDS = _native.lib.DPF_NO_SCALE, _native.lib.DPF_THRESHOLDS


def plan_status(law: int, above: Sequence[int], below: Sequence[int]) -> tuple[int, bool]:
    """What C says of a ratio of such limbs, and whether the plan has nothing but its law."""
    ffi = _native.ffi
    limbs = ffi.new("uint64_t[]", list(above)), ffi.new("uint64_t[]", list(below))
    ratio = ffi.new("dpf_ratio *", (law, 0, len(above), len(below), *limbs))
    plan = ffi.new("dpf_plan *")
    status = _native.lib.dpf_make_plan(ratio, plan, ffi.new("uint64_t[]", THRESHOLDS), ffi.new("uint16_t[]", 1025))
    return status, not any(bytes(ffi.buffer(plan))[4:])


def over_ones(law: int, scale: Fraction) -> tuple[int, list[int]]:
    """A plan's status and thresholds, where all of the memory for them was ones."""
    ffi, plan = _native.ffi, _native.ffi.new("dpf_plan *")
    above, below = map(_native._limbs_of, (scale.numerator, scale.denominator))
    thresholds = ffi.new("uint64_t[]", [2**64 - 1] * THRESHOLDS)
    ratio = ffi.new("dpf_ratio *", (law, 0, len(above), len(below), above, below))
    return _native.lib.dpf_make_plan(ratio, plan, thresholds, ffi.new("uint16_t[]", 1025)), list(thresholds)


def table(plan: _native.Plan) -> np.ndarray:
    """The table of a plan that has one."""
    return np.array(list(plan.tabled()._kept[-1]), np.int16)


def warns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has warned of no weak guarantee yet."""
    monkeypatch.setattr(guarantee, "_loudest", dict(guarantee.WEAK))


canonical = partitions.canonical  # a private key's bytes
KEYED = "_keyed"  # by which keys hash, for a purpose
DRAWN = "_drawn"  # by which seals and sealed keys make stream keys


def secret_of(key: Any) -> bytes:
    return bytes(key._held)


choosing, drawing = attrgetter("_secret"), attrgetter("_secrets")  # what a Chooser and a Sealed hold


def forget_domains() -> None:
    """What a worker keeps of the domain that it read last."""
    from dpfast.engines.jobs import tasks  # here: it loads what children of tests do not need

    tasks._domain.cache_clear()
    tasks._table.cache_clear()


def naming(key: Any, terms: Any, *known: Any) -> Any:
    """A release key whose seal names these terms."""
    return key._naming(terms, *known)


@contextmanager
def trees_made() -> Iterator[list[NoisyTree]]:
    """The trees of which quantiles are read meanwhile."""
    made: list[NoisyTree] = []
    with pytest.MonkeyPatch.context() as patch:
        of = NoisyTree.quantile

        def asked(tree: NoisyTree, *given: Any) -> Any:
            made.extend([tree] if tree not in made[-1:] else [])
            return of(tree, *given)

        patch.setattr(NoisyTree, "quantile", asked)
        yield made


@contextmanager
def totals_in_full() -> Iterator[None]:
    """Meanwhile `dpfast totals` rounds so little that noise is told from other noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpfast.app.cli.running.FINE", 10**9)
        yield


# What is done, one after the other, with one plain block of counts under a key.
STEPS_OF_A_BLOCK: list[tuple[Any, str]] = [
    (seal, "block_digest"), (seal.Seal, "__init__"), (seal, "noted"), (seal.Seal, "_open"), (seal.Seal, DRAWN),
    (StreamKey, "take"), (_native.Release, "add"), (seal, "noise"),
]  # fmt: skip


def forget_labels() -> None:
    """The record of this process: labels may be used again."""
    seal._reserved.clear()


@contextmanager
def fixed_stream(secret: bytes = bytes(range(32))) -> Iterator[None]:
    """Within, every release without a key draws from one stream, and none takes the small path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "small", lambda *_: None)
        patch.setattr(StreamKey, "draw", lambda self: self.take(secret))
        yield


def reader(mechanism: Any, key: StreamKey) -> exact.Read:
    """The digits of any word of the stream."""
    return reference.reader(mechanism, key)


def reader_of(key: StreamKey, width: int) -> exact.Read:
    """The same, where words of level 0 have so many digits."""
    return digits.reader(key, width)


def accepted(law: Any, read: exact.Read, i: int, proposed: int) -> bool:
    """Whether the discrete Gaussian law takes this first proposal of draw i."""
    return law._accepted(read, i, proposed, 0)


def tail(law: reference.DiscreteGaussian, k: int, precision: int) -> Any:
    """A ball around f(k) + f(k + 1) + ..."""
    return law._tail(k, precision)


def response_decided(mechanism: Any, answer: int, word: int, stream: Any, i: int) -> int:
    """An answer whose first word is this one, by as many digits as it takes."""
    return mechanism._exactly(answer, word, stream, i)


def respond(mechanism: Any, answers: np.ndarray, words: np.ndarray, stream: Any) -> None:
    """Answers of these first words, in place."""
    mechanism._respond(answers, words, stream)


@contextmanager
def small_blocks(rows: int) -> Iterator[None]:
    """Sealed blocks of so many values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed_blocks, "BLOCK", rows)
        patch.setattr(seal, "BLOCK", rows)
        patch.setattr(sealed_blocks._Each, "unit", rows)
        yield


@contextmanager
def small_pieces() -> Iterator[None]:
    """Few counts at a time where arrays are not plain, and few for a thread."""
    small = {"PIECE": 64, "ROWS": 3, "STRIP": 5, "LARGEST_PIECE": 256, "SHARE": 64, "BUFFER": 32}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in small.items():
            patch.setattr(engine, name, value)
        yield


@contextmanager
def scratch() -> Iterator[list[np.ndarray]]:
    """The arrays that releases make for their pieces."""
    made: list[np.ndarray] = []

    class Recording:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def empty(self, *arguments: Any) -> np.ndarray:
            made.append(np.empty(*arguments))
            return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "np", Recording())
        yield made


@contextmanager
def stopped_after(pieces: int, failure: BaseException | None = None) -> Iterator[None]:
    """After so many pieces another thread has failed, or this one does."""
    add, asked = engine._Work.run, 0

    def run(work: Any, *rest: Any) -> Any:
        nonlocal asked
        asked += 1
        work.stopped = asked > pieces
        if work.stopped and failure is not None:
            raise failure
        return add(work, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine._Work, "run", run)
        yield


# ------------------------------------------------------------------ tiers of C on planted digits

PLANTED = np.dtype([("digits", np.uint64, 4), ("offset", np.float64), ("negative", np.int32), ("sine", np.int32)])
assert PLANTED.itemsize == _native.ffi.sizeof("dpf_planted")


def tier(plan: Plan, name: int, bits: int, planted: np.ndarray, isa: int) -> tuple[np.ndarray, np.ndarray]:
    """A tier alone on rows of PLANTED: outcomes in two words, lower first; which decided."""
    n, ffi = len(planted), _native.ffi
    found, decided = np.zeros((n, 2), np.uint64), np.zeros(n, np.uint8)
    rows = ffi.from_buffer("dpf_planted[]", planted)
    words = ffi.from_buffer("dpf_u128[]", found)
    _native.lib.dpf_tier(isa, plan._plan, name, bits, n, rows, words, ffi.from_buffer("uint8_t[]", decided))
    return found, decided.astype(bool)


def _exact_digits(words: Sequence[exact.Digits]) -> Any:
    """Raw digits of words, as C takes them."""
    made = _native.ffi.new("dpf_digits[]", len(words))
    for to, word in zip(made, words, strict=True):
        to.prefix, to.bits = [word.prefix >> 64 * limb & (2**64 - 1) for limb in range(15)], word.bits
    return made


def exactly(plan: Plan, words: Sequence[exact.Digits], offset: float = 0.0, *, sine: bool = False) -> int | None:
    """The exact tier in C alone, by raw digits of a word, or a pair's two: an outcome, or None."""
    found = _native.ffi.new("dpf_u128 *")
    if not _native.lib.dpf_exact_planted(plan._plan, _exact_digits(words), offset, sine, found):
        return None
    value = (found.hi << 64) + found.lo
    return value - 2**128 if value >= 2**127 else value


def release_of_reals(mechanism: Any, key: StreamKey, *, constant_work: int) -> Any:
    """A release in C of doubles on a grid of 1, which refuses what is not finite."""
    wide = {"least": -1e300, "real_lower": -1e300, "greatest": 1e300, "real_upper": 1e300}
    fields = wide | dict.fromkeys(("granularity", "inverse", "inverse_too"), 1.0) | {"limbs": 1, "refuse": 1}
    plan, kind = mechanism._constant_work_plan, np.dtype(np.float64)
    return _native.Release(_native.release_bytes(plan.address, kind, constant_work=constant_work, **fields), kind, key)


def exact_digits(key: StreamKey, width: int, i: int, level: int, purpose: int, candidate: int) -> exact.Digits:
    """What C's exact tier reads of word i."""
    found = _native.ffi.new("dpf_digits *")
    _native.lib.dpf_exact_digits(key.memory, purpose, candidate, width, i, level, found)
    return exact.Digits(sum(limb << 64 * at for at, limb in enumerate(found.prefix)), found.bits)


def exactly_accepts(plan: Plan, k: int, word: exact.Digits) -> bool | None:
    """Whether it accepts a proposal by these digits of V, or None."""
    return {1: True, -1: False, 0: None}[_native.lib.dpf_exact_acceptance(plan._plan, k, _exact_digits([word]))]


class Cells:
    """Planted digits, and the outcome of each whole cell, or None.

    prefixes: `bits` digits of U each; angles: 128 of the Gaussian's. fields: of PLANTED.
    """

    def __init__(
        self,
        bits: int,
        prefixes: Sequence[int],
        truth: Sequence[int | None],
        angles: Sequence[int] | None = None,
        **fields: Any,
    ) -> None:
        self.bits, self.planted = bits, np.zeros(len(prefixes), PLANTED)
        words = [(u, 0) if bits <= 64 else divmod(u << (128 - bits), 2**64) for u in prefixes]
        turns = [divmod(angle, 2**64) for angle in angles or [0] * len(words)]
        self.planted["digits"] = np.hstack([np.array(each, np.uint64).reshape(-1, 2) for each in (words, turns)])
        for name, values in fields.items():
            self.planted[name] = values
        self.right = np.array([[(k or 0) % 2**64, (k or 0) >> 64 & 2**64 - 1] for k in truth], np.uint64)
        self.none = np.array([k is None for k in truth])

    def tried(self, plan: Plan, name: int, isa: int) -> tuple[int, int]:
        """How many a tier decides, and how many of these not as the law has it."""
        found, sure = tier(plan, name, self.bits, self.planted, isa)
        return int(sure.sum()), int((sure & (self.none | (found != self.right).any(1))).sum())


accept_below, rejects, candidates = (
    attrgetter(f"_plan.normal.{name}") for name in ("accept_below", "rejects", "candidates")
)  # a plan's


def narrow_margins(mechanism: Any, room: float) -> None:
    """C decides as little as these margins allow, and the exact tier the rest."""
    for plan in {mechanism._constant_work_plan._plan, mechanism._bulk_plan._plan}:  # which may be one
        plan.margin = plan.margin32 = plan.float_margin = plan.extended_margin = plan.double_double_margin = room
        # integers decide nothing either; beyond 2^44, where they come first, all but one in 50
        plan.logarithm.wide_cell += 200 if room < 0 or plan.t < 2**44 else 60


def draw_alone(plan: Plan, isa: int) -> tuple[Callable[[], Any], Callable[[], Any], Sequence[int]]:
    """The C that takes a fresh key, a constant-work draw added to a count of 0, and its place."""
    key, ffi, lib = StreamKey(entropy(32)), _native.ffi, _native.lib
    at = ffi.gc(ffi.cast("uint8_t *", key.memory), lambda _: key.wipe())
    how, count, out = ffi.new("dpf_release *"), ffi.new("int64_t[]", 1), ffi.new("int64_t[]", 1)
    how.plan, how.key, how.isa, how.constant_work = plan._plan, at, isa, 1
    how.kind, how.limbs, how.lower, how.upper = lib.DPF_INT64, 1, (2**63, 2**64 - 1), (2**63 - 1, 0)
    return partial(lib.dpf_entropy, at, 32), partial(lib.dpf_add, how, 0, 1, count, out), out


# ------------------------------------------------------------------ keys


def bytes_of(key: StreamKey) -> bytes:
    return bytes(_native.ffi.buffer(key._bytes))


def keys_in(keys: np.ndarray, key: StreamKey) -> Callable[[int], None]:
    """What copies the i-th of these keys of 32 bytes into a stream key, with the least work."""
    ffi = _native.ffi
    secrets, memory = ffi.cast("uint8_t *", ffi.from_buffer(keys)), key.memory
    return lambda i: ffi.memmove(memory, secrets + 32 * i, 32)


@contextmanager
def one_key() -> Iterator[None]:
    """Every release draws from the same key."""

    def draw(stream: StreamKey) -> None:
        stream.take(bytes(32))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamKey, "draw", draw)
        no_small_calls(patch)
        yield


def to_build(ffi: Any) -> Any:
    """What cffi's set_source was given: module, text, suffix and the options of the build."""
    return ffi._assigned_source


def small_calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each release that C was asked to do at once, whether it did."""
    seen, small = [], _native.small

    def watched(*arguments: Any) -> Any:
        found = small(*arguments)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(_native, "small", watched)
    return seen


def keys_taken(monkeypatch: pytest.MonkeyPatch) -> list[StreamKey]:
    """Stream keys that took their bytes from elsewhere, from now on."""
    found, take = [], StreamKey.take

    def watched(stream: StreamKey, secret: Any) -> None:
        take(stream, secret)
        found.append(stream)

    monkeypatch.setattr(StreamKey, "take", watched)
    return found


def secrets_taken(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes that stream keys took from elsewhere, from now on."""
    found, take = [], StreamKey.take

    def watched(stream: StreamKey, secret: Any) -> None:
        take(stream, secret)
        found.append(bytes_of(stream))

    monkeypatch.setattr(StreamKey, "take", watched)
    return found


def no_small_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small releases, too, draw their key in Python."""
    monkeypatch.setattr(_native, "small", lambda *_: None)


class Asked:
    """What the system was asked for, and the stream keys that were made, from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _native.best_isa()  # whose check has keys of its own
        self.bytes: list[bytes] = []
        self.streams: list[StreamKey] = []
        ffi, real, made = _native.ffi, _native._entropy, StreamKey.__init__

        def entropy(at: object, size: int) -> int:
            status = real(at, size)
            self.bytes.append(bytes(ffi.buffer(ffi.cast("uint8_t *", at), size)))
            return status

        def init(key: StreamKey, secret: bytes | None = None) -> None:
            made(key, secret)
            self.streams.append(key)

        monkeypatch.setattr(_native, "_entropy", entropy)
        monkeypatch.setattr(StreamKey, "__init__", init)


# --------------------------------------------------------------- releases whose key is given


def added(
    counts: np.ndarray, out: np.ndarray, *, plan: Plan, key: StreamKey, start: int = 0,
    lower: int | None = None, upper: int | None = None, narrow: bool = True, constant_work: bool = False,
    threads: int | None = 1,
) -> None:  # fmt: skip
    """This plan's draws added to counts, clamped to type and bounds."""
    job = Job(counts, out, *clamps(out.dtype, lower, upper))
    engine.run(job, engine.Draws(plan.address, narrow, key, start, constant_work), threads)


def added_small(
    plan: Plan, counts: np.ndarray, out: np.ndarray,
    lower: int = -(2**63), upper: int = 2**63 - 1,
) -> None:  # fmt: skip
    """A small call, for which C draws the key."""
    assert engine.run_small(Job(counts, out, lower, upper), plan)


def decided(mechanism: Any, key: StreamKey, i: int) -> int:
    """Draw i of an integer law by the exact tier."""
    return law(mechanism).draw(reader(mechanism, key), i)


def drawn(
    mechanism: Any, n: int, key: StreamKey, *, plan: Plan | None = None, constant_work: bool | None = None,
    start: int = 0, threads: int | None = 1,
) -> np.ndarray:  # fmt: skip
    """n draws of an integer law, as a release of zeros sees them."""
    zeros = np.zeros(n, np.int64)
    chosen, usual = mechanism._plan(n, constant_time=False)
    constant_work, plan = chosen if constant_work is None else constant_work, usual if plan is None else plan
    added(
        zeros, zeros, plan=plan, narrow=mechanism._narrow, key=key, start=start, constant_work=constant_work, threads=threads,
    )  # fmt: skip
    return zeros


def steps_at(law: Any, read: exact.Read, i: int, place: Fraction) -> int:
    """Where on the grid draw i takes a place, in steps."""
    return law.draw(read, i, place)


def exact_result(law: Any, mechanism: RealMechanism, read: exact.Read, i: int, job: Any, value: float) -> float:
    """What a law in intervals makes of one value: a grid point, rounded once to nearest even."""
    if not math.isfinite(value):
        value = 0.0 if job.missing is None else job.missing
    value, grid = min(max(value, job.least), job.greatest), Fraction(2) ** mechanism._exponent
    steps = steps_at(law, read, i, Fraction(value) / grid)
    total, (digits, least) = steps * grid, (24, -149) if job.out.dtype == np.float32 else (53, -1074)
    size = total.numerator.bit_length() - total.denominator.bit_length() if steps else 0
    unit = Fraction(2) ** max(size - digits, least)
    if abs(total) >= unit * 2**digits:
        unit *= 2
    try:
        near = float(round(total / unit) * unit)
    except OverflowError:
        near = math.inf if steps > 0 else -math.inf
    return min(max(near, job.lower), job.upper) + 0.0


def noised(
    mechanism: Any, values: np.ndarray, key: bytes, first: int = 0, *, constant_work: bool | None = None, threads: int = 1, **options: Any
) -> np.ndarray:  # fmt: skip
    """A release of reals under this stream key: no derivation. options: as prepare_real's."""
    public = Inputs(None, options.pop("missing", None))
    job = prepare_real(values, public=public, exponent=mechanism._exponent, bound=mechanism._bound, **options)
    chosen, plan = mechanism._plan(job.counts.size, constant_time=False)
    stream = StreamKey(key)
    constant_work = chosen if constant_work is None else constant_work
    engine.run(job, engine.Draws(plan.address, mechanism._narrow, stream, first, constant_work), threads)
    return job.out


def release_of_zeros(mechanism: Any, out: np.ndarray, key: StreamKey, *, constant_work: bool) -> Callable[[], None]:
    """What releases zeros into `out` from where the key has been drawn."""
    zeros, plan = out.copy(), constant_work_plan(mechanism) if constant_work else bulk_plan(mechanism)
    if isinstance(mechanism, RealMechanism):
        job: Any = prepare_real(zeros, out, exponent=mechanism._exponent)
    else:
        job = Job(zeros, out, *clamps(out.dtype, None, None))
    draws = engine.Draws(plan.address, mechanism._narrow, key, 0, constant_work)
    return lambda: engine.run(job, draws, 1)


def by_the_exact_tier(mechanism: Any, values: np.ndarray, key: bytes, dtype: Any = np.float64) -> np.ndarray:
    """The same of a plain array, by the exact tier alone."""
    job = prepare_real(values, dtype=dtype, exponent=mechanism._exponent, bound=mechanism._bound)
    read = reader(mechanism, StreamKey(key))
    found = np.array([exact_result(law(mechanism), mechanism, read, i, job, x) for i, x in enumerate(values.tolist())])
    assert np.array_equal(found.astype(dtype), found)  # it is rounded already
    return found.astype(dtype)


def with_law(mechanism: Any, planted: object, **bounds: Any) -> Callable[[float], float]:
    """The result of a value where the law in intervals is another."""
    job = prepare_real(np.zeros(1), exponent=mechanism._exponent, bound=mechanism._bound, **bounds)
    return lambda value: exact_result(planted, mechanism, None, 0, job, value)


# --------------------------------------------------------- what tests put in the place of something


# What tells that the C leaves a draw open: functions of digits, and a release of noise alone.
MAY_BE_OPEN = {"dpf_tier", "dpf_exact_planted", "dpf_exact_acceptance", "DPF_NOISE"}


def open_draws(mechanism: Any) -> list[Callable[[], Any]]:
    """The two ways to such draws."""
    plan = mechanism._constant_work_plan
    return [
        lambda: plan.fill(StreamKey(bytes(32)), 0, 1, constant_work=True),
        lambda: plan.tier(DOUBLE, 64, [2**63], isa=0),
    ]


def names_in_c(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the package takes from the C library by its name, from now on."""
    found, real = set(), _native.lib

    class Watched:
        def __getattr__(self, name: str) -> Any:
            found.add(name)
            return getattr(real, name)

    monkeypatch.setattr(_native, "lib", Watched())
    return found


def forget_equals() -> None:
    """Mechanisms from here on share no plan with those from before."""
    for kept in kept_for_equals:
        kept.cache_clear()


def own_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal mechanisms share no plan."""
    monkeypatch.setattr(equals, "first_of", lambda one: one)


def plant(monkeypatch: pytest.MonkeyPatch, owner: type, what: str, value: object) -> None:
    """Another `made_plan` or `plan` of a class, not shared among equals."""
    own_plans(monkeypatch)
    monkeypatch.setattr(owner, f"_{what}", value)


def plant_plan(monkeypatch: pytest.MonkeyPatch, owner: Any, constants: dict[str, Any]) -> None:
    """Another plan of a class's mechanisms, by the names of its fields."""
    plant(monkeypatch, owner, "made_plan", lambda _: Plan(owner.LAW, **constants))


def changed_plans(monkeypatch: pytest.MonkeyPatch, owner: Any, changed: dict[str, Any]) -> None:
    """Plans of a class's mechanisms, of which these fields are others."""
    made = owner._made_plan
    plant(monkeypatch, owner, "made_plan", lambda one: Plan(owner.LAW, **fields(made(one)) | changed))


def shifted_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is one cell too low, and the last one takes the first."""
    right = _native.Plan.tabled

    def shifted(plan: _native.Plan) -> _native.Plan:
        found = right(plan)
        if found is not plan:
            cells = found._kept[-1]
            cells[0 : len(cells)] = [*list(cells)[1:], cells[0]]
        return found

    own_plans(monkeypatch)
    monkeypatch.setattr(_native.Plan, "tabled", shifted)


@contextmanager
def record_that_threads_only_read(*, writes: bool) -> Iterator[list[object]]:
    """The record of a release lies on a page that nobody may write while threads share it.

    Who writes it is killed. writes: so each call does. Yields the calls.
    """
    page = mmap.mmap(-1, mmap.PAGESIZE)
    at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    protect, calls = ctypes.CDLL(None).mprotect, list[object]()
    in_threads, add = engine._in_threads, _native.Release.add

    def on_a_page_to_read(*work: Any) -> None:
        protect(at, mmap.PAGESIZE, mmap.PROT_READ)
        try:
            in_threads(*work)
        finally:
            protect(at, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)

    def counted(release: Any, *given: Any) -> None:
        calls.append(given)
        if writes:
            release._how.key = _native.ffi.cast("uint8_t *", release._how.key)
        add(release, *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_native, "_new_release", lambda kind: _native.ffi.cast(kind, at.value))
        patched.setattr(engine, "_in_threads", on_a_page_to_read)
        patched.setattr(_native.Release, "add", counted)
        yield calls


def loads_kernels_by(monkeypatch: pytest.MonkeyPatch, load: Callable[[], None]) -> None:
    """Put `load` in the place of the import of numba."""
    steps = iter([load, lambda: None])  # the second is a kernel's own module
    monkeypatch.setattr(kernels.importlib, "import_module", lambda _: next(steps)() or SimpleNamespace(node_sums=None))


def load_a_kernel() -> None:
    kernels._loaded("node_sums")


def around_c(monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., Any]) -> None:
    """Each call of C for a release is wrap(call, release, *arguments); call(*arguments) makes it.

    Small releases, too, then go the general way.
    """
    real = _native.Release.add

    def called(release: Any, *arguments: Any) -> Any:
        return wrap(partial(real, release), release, *arguments)

    monkeypatch.setattr(_native.Release, "add", called)
    no_small_calls(monkeypatch)


def told(release: Any) -> tuple[int, ...]:
    """What C is told of a release: the kind of its values, the limbs of its noise, and two ways."""
    how = release._how
    return how.kind, how.limbs, how.constant_work, how.non_temporal


def in_constant_work(release: Any) -> bool:
    """Whether C is told to do equal work for each draw."""
    return bool(release._how.constant_work)


def constant_work_of(noise: Any) -> list[int]:
    """Whether few and many values of a handle for kernels are drawn by constant work."""
    pair = _native.ffi.cast("dpf_release **", noise.address)
    return [pair[i].constant_work for i in range(2)]


def bounded_in_kernel(monkeypatch: pytest.MonkeyPatch, instead: Callable[..., Any]) -> None:
    """What bound_and_add calls, and numba compiled."""
    monkeypatch.setattr("dpfast.noise.kernels.added._bounded", instead)


def no_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system gives nothing from now on."""
    monkeypatch.setattr(_native, "_entropy", lambda *_: -1)
    no_small_calls(monkeypatch)


def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream key can be drawn from now on."""

    class NoEntropy(StreamKey):
        __slots__ = ()

        def draw(self) -> None:
            raise EntropyError("none")

    monkeypatch.setattr(_native, "StreamKey", NoEntropy)
    no_small_calls(monkeypatch)


def broken_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release fails on its way."""
    no_small_calls(monkeypatch)
    monkeypatch.setattr(engine._Work, "run", lambda *_: 1 / 0)


def plant_candidate_noise(monkeypatch: pytest.MonkeyPatch, noise: Callable[[], Any]) -> None:
    """Where the exponential noise of a selection comes from."""
    monkeypatch.setattr(selection, "_candidate_noise", noise)


def coarse_candidate_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one nominee only, and noise in steps so wide that it tells nobody apart."""
    monkeypatch.setattr(selection, "FEW", 1)
    plant_candidate_noise(monkeypatch, lambda: selection._CandidateNoise(1, Fraction(1, 8)))


def slabs_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """So many values between two looks at signals."""
    monkeypatch.setattr(engine, "SLAB", size)


def only_isa(monkeypatch: pytest.MonkeyPatch, isa: int) -> None:
    """Releases use this instruction set."""
    monkeypatch.setattr(_native, "best_isa", lambda: isa)


def past_the_caches(always: bool) -> None:
    """Whether every release, or only a large one, stores its results past the caches."""
    engine.NON_TEMPORAL = 1 if always else 2**21


def choice_of(key: Any) -> tuple[tuple[int, int], ...]:
    """The keys of the functions by which a release key chooses partitions and rows."""
    return key.chooser().functions()


@contextmanager
def counts_without_noise() -> Iterator[None]:
    """Within, intervals of means are as if the counts had no noise."""
    within = MeanNoise.within
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MeanNoise, "within", lambda *given, **how: (within(*given, **how)[0], 0))
        yield


# ------------------------------------------------------------------ trees


def ranges_of(tree: NoisyTree, begins: np.ndarray, ends: np.ndarray) -> Any:
    """Sums over ranges of leaves, their variances, and their covariances with the total."""
    return tree._ranges(begins, ends)


def deviations(tree: NoisyTree, confidence: float) -> float:
    """How many standard deviations wide half an interval is."""
    return tree._z(1 - confidence)


def tree_nodes(tree: NoisyTree) -> np.ndarray:
    """The released nodes; 0 where a level has no noise."""
    return tree._nodes
