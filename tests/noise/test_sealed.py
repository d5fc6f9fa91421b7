# SPDX-License-Identifier: Apache-2.0
"""Sealed releases: one label, one input, any number of tries; each guard is seen to be needed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from blake3 import blake3
from fresh import python, workers
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import layouts
from tiers import SEALED_ROWS

import dpfast
from dpfast import (
    DataDependentError,
    DiscreteGaussian,
    DiscreteLaplace,
    DTypeError,
    FileError,
    Gaussian,
    Key,
    KeyFile,
    KeyReuseError,
    Laplace,
    Ledger,
    OtherInputError,
    ParameterError,
    Snapping,
    UnusableValuesError,
    _native,
)
from dpfast.jobs import GaussianWithholding
from dpfast.ledger import ledger as paying
from dpfast.ledger import store
from dpfast.release import blocks
from dpfast.release import seal as sealing
from dpfast.testing import fixed_key

MECH = DiscreteLaplace(1, 10**6)  # two independent draws are equal once in four million
SECRET = bytes(range(100, 132))


def fresh(label: str = "visits") -> dpfast.ReleaseKey:
    return Key.generate().derive(label)


def known(label: str = "visits") -> dpfast.ReleaseKey:
    """The same secret each time, in another object."""
    return Key.from_bytes(SECRET).derive(label)


def cut(values: Any) -> list[Any]:
    """The blocks of an array, in order."""
    flat = np.asarray(values).reshape(-1)
    return [flat[begin : begin + blocks.BLOCK] for begin in range(0, flat.size, blocks.BLOCK)]


def sealed_of(key: dpfast.ReleaseKey, values: Any, mech: Any = MECH, **options: Any) -> Any:
    """The sealed key of an array, by way of its blocks."""
    return seal_of(key, values, mech, **options).without_ledger(resume=True)


def seal_of(key: dpfast.ReleaseKey, values: Any, mech: Any = MECH, **options: Any) -> Any:
    digester, shape = key.digester(mech, **options), np.asarray(values).shape
    return key.seal(mech, [digester(j, block) for j, block in enumerate(cut(values))], shape=shape)


def by_blocks(key: dpfast.ReleaseKey, values: Any, mech: Any = MECH, **options: Any) -> np.ndarray:
    sealed, out = sealed_of(key, values, mech, **options), []
    for j, block in reversed([*enumerate(cut(values))]):
        worker = pickle.loads(pickle.dumps(sealed.only(j)))
        out.append(worker.release(j, block, **options))
    found = np.concatenate(out[::-1]) if out else mech.release(np.asarray(values), key=key, resume=True, **options)
    return found.reshape(np.asarray(values).shape)


def independent(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results share no noise: constant difference, reordering, equal cells."""
    one, other = np.ravel(one), np.ravel(other)
    n = min(one.size, other.size)
    equal = np.isin(one, other).mean()  # by chance n / (4 * 10**6) each
    return equal < 0.05 and len(np.unique(one[:n] - other[:n])) > 0.9 * n


# ------------------------------------------------------------------ one input, one noise

LAWS: dict[str, Any] = {
    "discrete_laplace": MECH,
    "narrow": DiscreteLaplace(1, 3),
    "two limbs": DiscreteLaplace(1, 2**58),
    "discrete_gaussian": DiscreteGaussian(20),
    "discrete_gaussian, large": DiscreteGaussian(10**6),
    "laplace": Laplace(1, 3),
    "laplace, wide": Laplace(1, 2.0**50, granularity=1),
    "gaussian": Gaussian(2),
    "snapping": Snapping(1, 3, bound=64),
}
EDGES = [0, 1, 3, SEALED_ROWS - 1, SEALED_ROWS, SEALED_ROWS + 1, 2 * SEALED_ROWS + 5]


def cells(mech: Any, n: int) -> np.ndarray:
    made = np.arange(n) % 23 - 5
    return made if isinstance(mech, (DiscreteLaplace, DiscreteGaussian)) else made / 4


@pytest.mark.parametrize("mech", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("n", EDGES)
def test_one_call_or_blocks_in_any_order(mech: Any, n: int) -> None:
    """And by workers, who get a pickled key of one block each."""
    values, key = cells(mech, n), fresh()
    whole = mech.release(values, key=key)
    assert whole.shape == (n,)
    assert (by_blocks(key, values, mech) == whole).all()
    assert (mech.release(values, key=key, resume=True, constant_time=True) == whole).all()


@pytest.mark.parametrize("isa", tiers.ISAS, ids=tiers.ISA_NAMES.get)
@pytest.mark.parametrize("mech", LAWS.values(), ids=LAWS)
def test_every_instruction_set_and_number_of_threads(mech: Any, isa: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = cells(mech, 9 * SEALED_ROWS + 7)  # cut among threads at blocks
    expected = mech.release(values, key=known(), resume=True)
    tiers.only_isa(monkeypatch, isa)
    for threads in (1, 2, 3):
        assert (mech.release(values, key=known(), resume=True, threads=threads) == expected).all()


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (3, 4, 5), (70_000,), (300, 400), (SEALED_ROWS, 2)], ids=str)
@pytest.mark.parametrize("mech", [MECH, LAWS["laplace"]], ids=["integers", "reals"])
def test_every_layout_and_dtype(mech: Any, shape: tuple[int, ...]) -> None:
    """Values are sealed in C order, wherever they lie, and whatever holds them."""
    values, key = cells(mech, int(np.prod(shape))).reshape(shape), fresh()
    whole = mech.release(values, key=key)
    kinds = ["i1", "i2", ">i4", "i8"] if values.dtype.kind == "i" else ["f4", ">f4", "f8", ">f8"]
    views = [values.astype(kind) for kind in kinds]
    if values.size > 1:
        views += layouts(values).values()
    for view in views:
        for out in (None, np.full(shape, 77, whole.dtype), np.full((*shape, 2), 77, whole.dtype)[..., 1]):
            noisy = mech.release(view, key=key, out=out, resume=True, dtype=whole.dtype)
            assert out is None or noisy is out
            assert np.array_equal(noisy, whole)
    assert np.array_equal(by_blocks(key, values, mech), whole)


def test_unsigned_and_signed_are_one_input_where_they_are_equal() -> None:
    key, values = fresh(), np.array([0, 7, 2**63 - 1])
    assert (MECH.release(values.astype("u8"), key=key) == MECH.release(values, key=key, resume=True)).all()


def test_bounds_and_types_of_the_output_are_not_sealed() -> None:
    """They are post-processing: the same noise, for nothing."""
    key, values = fresh(), np.arange(70_000)
    whole = MECH.release(values, key=key)
    for options in ({"lower": 0}, {"upper": 10**5, "lower": -3}, {"dtype": np.int16}, {"dtype": np.uint64}):
        noisy = MECH.release(values, key=key, resume=True, **options)
        ends = np.iinfo(noisy.dtype)
        low, high = max(options.get("lower", ends.min), ends.min), min(options.get("upper", ends.max), ends.max)
        assert (noisy == np.clip(whole.astype(object), low, high)).all()
    real, reals = LAWS["laplace"], values / 8
    key = fresh()
    single = real.release(reals, key=key, dtype="f4")
    assert (single == real.release(reals, key=key, resume=True).astype("f4")).all()
    clipped = real.release(reals, key=key, resume=True, lower=3)
    assert (clipped == np.maximum(real.release(reals, key=key, resume=True), 3)).all()


def test_what_is_missing_is_put_in_before_the_seal() -> None:
    values = np.tile([0.5, np.nan, np.inf, -7.0], SEALED_ROWS)
    filled = np.tile([0.5, 1.0, 1.0, 0.0], SEALED_ROWS)
    mech, key, public = LAWS["laplace"], fresh(), {"missing": 1, "clamp": (0, 3)}
    whole = mech.release(filled, key=key, **public)
    for view in (values, values[::-1][::-1], values.astype("f4"), np.where(filled == 0, -0.0, filled)):
        assert (mech.release(view, key=key, resume=True, dtype="f8", **public) == whole).all()
    assert (by_blocks(key, values, mech, **public) == whole).all()
    with pytest.raises(UnusableValuesError):
        key.digester(mech)(0, values[:5])


def test_the_clamp_and_what_stands_for_a_missing_value_are_sealed_whatever_they_change(tmp_path: Path) -> None:
    """Else each other clamp that is accepted says that no value lies between it and the first."""
    counts, mech = np.array([1, 2, 5]), DiscreteLaplace(1, 100)
    ledger = Ledger(tmp_path / "b.db", 1000, create=True)
    tries = [
        ({"clamp": (0, 9)}, {"clamp": (0, 8)}, "with another clamp, '0, 9', not '0, 8'"),
        ({"clamp": (0, 9)}, {}, "with clamp, '0, 9', which this one does not name"),
        ({}, {"clamp": (0, 9)}, "by a seal that does not name clamp, which is '0, 9' here"),
        ({"missing": 0}, {}, "with missing, '0'"),
        ({"missing": 7, "clamp": (0, 9)}, {"missing": 8, "clamp": (0, 9)}, "with another missing, '7', not '8'"),
    ]
    for i, (first, other, told) in enumerate(tries):
        for release in (mech.release, partial(ledger.release, mech)):
            key = Key.generate().derive(f"{i} {release}"[:90])
            release(counts, key=key, **first)
            with pytest.raises(KeyReuseError, match=re.escape(told)) as met:
                release(counts, key=key, resume=True, **other)
            assert not isinstance(met.value, OtherInputError)
    assert not any(entry.refused for entry in ledger.history())


def test_the_clamp_of_a_column_is_sealed_with_its_digests() -> None:
    """So it is for workers, too: blocks of a column have one, and what draws has it as well."""
    mech, key = DiscreteLaplace(1, 100), fresh()
    columns = {"a": mech, "b": mech}
    made = [key.digester(mech, column=name, clamp=(0, 9) if name == "a" else None)(0, [1, 2]) for name in columns]
    seal = key.seal(columns, made, shape=(2,))
    assert seal.manifest.terms == (("clamp of 'a'", "0, 9"),)
    wide = key.digester(dpfast.Laplace(1, 1), clamp=(0, 1e300))  # whose digits are too many to be shown
    assert (
        tiers.naming(key, {}, wide.terms).seal(wide.mechanism, [wide(0, [1.0])], shape=(1,)).manifest.terms
        == wide.terms
    )
    sealed = seal.without_ledger()
    assert sealed.release(0, [1, 2], column="a", clamp=(0, 9)).shape == (2,)
    for name, other in (("a", (0, 8)), ("a", None), ("b", (0, 9))):
        with pytest.raises(KeyReuseError, match="clamp must be as sealed"):
            sealed.release(0, [1, 2], column=name, clamp=other)
    two = [
        key.digester(mech, clamp=clamp)(j, counts)
        for j, (clamp, counts) in enumerate(zip([(0, 9), None], cut(np.zeros(SEALED_ROWS + 1, int)), strict=True))
    ]
    with pytest.raises(ParameterError, match="one clamp and one missing for each column"):
        key.seal(mech, two, shape=(SEALED_ROWS + 1,))


PROCESSES = """
import hashlib, multiprocessing, sys
import numpy as np
import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Snapping

laws = [DiscreteLaplace(1, 10), DiscreteLaplace(1, 2**58), DiscreteGaussian(30), DiscreteGaussian(10**6), Laplace(1, 3),
        Laplace(1, 2.0**50, granularity=1), Gaussian(2), Snapping(1, 3, bound=64)]
rows, n, integer = 65_536, 6 * 65_536 + 1, 4
layouts = [lambda x: x, lambda x: x.astype(x.dtype.newbyteorder()), lambda x: np.repeat(x, 2)[::2], lambda x: x[::-1].copy()[::-1],
           lambda x: x.astype("i2" if x.dtype.kind == "i" else "f4")]

def block(law, j):
    values = np.arange(j * rows, min((j + 1) * rows, n)) % 1000
    return values if law < integer else values / 8

def digest(task):
    digester, law, j, layout = task
    return digester(j, layouts[layout](block(law, j)))

def draw(task):
    sealed, law, j, layout = task
    return sealed.release(j, layouts[layout](block(law, j)), dtype="i8" if law < integer else "f8").tobytes()

if __name__ == "__main__":
    file = dpfast.KeyFile.create(sys.argv[1])
    memory = dpfast.Key.from_bytes(file.path.read_bytes())
    found = [set() for _ in laws]
    for turn, (method, processes, master) in enumerate(
        [("fork", 1, file), ("spawn", 2, file), ("fork", 7, file), ("fork", 7, memory), ("fork", 2, memory)]
    ):
        with multiprocessing.get_context(method).Pool(processes) as pool:
            for law, mech in enumerate(laws):
                key = master.derive(f"law {law}")
                tasks = [(key.digester(mech), law, j, (j + turn) % 5) for j in range(7)]
                sealed = key.seal(mech, pool.imap_unordered(digest, tasks), shape=(n,)).without_ledger(resume=True)
                noisy = pool.map(draw, [(sealed.only(j), law, j, (3 * j + turn) % 5) for j in range(7)], chunksize=1)
                found[law].add(hashlib.sha256(b"".join(noisy)).hexdigest())
    for law, mech in enumerate(laws):
        values = np.concatenate([block(law, j) for j in range(7)])
        whole = mech.release(values, key=file.derive(f"law {law}"), resume=True)
        found[law].add(hashlib.sha256(whole.tobytes()).hexdigest())
        print(len(found[law]))
"""


def test_one_two_and_seven_processes(tmp_path: Path) -> None:
    """Forked or new, a key in memory or in a file, any layout: the bytes of one call, every law."""
    assert workers(tmp_path, PROCESSES, str(tmp_path / "visits.key")) == ["1"] * 8


def test_a_table_has_one_seal() -> None:
    """Each column its own noise and mechanism; the order of columns is part of what is sealed."""
    key, counts, reals = fresh(), np.arange(70_000) % 9, np.arange(70_000) / 8
    columns = {"visits": MECH, "hours": LAWS["laplace"], "both/": MECH}
    data = {"visits": counts, "hours": reals, "both/": counts}
    made = [
        key.digester(mech, column=name)(j, block)
        for name, mech in columns.items()
        for j, block in enumerate(cut(data[name]))
    ]
    sealed = key.seal(columns, made[::-1], shape=(70_000,)).without_ledger()
    noisy = {
        name: np.concatenate([sealed.only(j).release(j, block, column=name) for j, block in enumerate(cut(data[name]))])
        for name in columns
    }
    assert independent(noisy["visits"] - counts, noisy["both/"] - counts)
    again = key.seal(columns, made, shape=(70_000,)).without_ledger(resume=True)
    assert (again.release(1, counts[SEALED_ROWS:], column="both/") == noisy["both/"][SEALED_ROWS:]).all()
    turned = key.seal(dict(reversed(columns.items())), made, shape=(70_000,))
    with pytest.raises(
        KeyReuseError, match="with the columns 'visits', 'hours', 'both/', not 'both/', 'hours', 'visits'"
    ):
        turned.without_ledger(resume=True)
    for column in (None, "", "none", 7):
        with pytest.raises(ParameterError, match="^column must be one of 'visits', 'hours', 'both/'"):
            sealed.release(0, counts[:SEALED_ROWS], column=column)
    with pytest.raises(OtherInputError):  # another column's values
        sealed.release(0, counts[:SEALED_ROWS] + 1, column="visits")


def test_a_public_domain_stands_for_names() -> None:
    """In the manifest, by its hash: another order of it is another release."""
    domain, counts = [f"city {i}" for i in range(100)], np.zeros(100, np.int64)
    key = fresh()
    made = [key.digester(MECH)(0, counts)]
    sealed = key.seal(MECH, made, domain=domain).without_ledger()
    expected = hashlib.sha256(E(b"texts", *texts(domain))).hexdigest()
    assert sealed.manifest.domain == expected
    assert key.seal(MECH, made, domain=np.array(domain)).manifest == sealed.manifest
    with pytest.raises(KeyReuseError, match="another public domain"):
        key.seal(MECH, made, domain=domain[::-1]).without_ledger(resume=True)
    with pytest.raises(ParameterError, match="must have 99 rows, got 100"):
        key.seal(MECH, made, domain=domain[:-1])


def test_terms_are_public_and_named_when_they_differ() -> None:
    """What they were and are, and which the seal that was kept lacks; the input is no matter."""
    counts, key = np.zeros(3, np.int64), fresh()
    made = [key.digester(MECH)(0, counts)]
    seal = lambda **terms: key.seal(MECH, made, shape=(3,), terms=terms)  # noqa: E731
    seal(order="by a").without_ledger()
    for told, terms in (
        ("with another order, 'by a', not 'by b'", {"order": "by b"}),
        ("with order, 'by a', which this one does not name", {}),
        ("by a seal that does not name levels, which is 'x' here", {"order": "by a", "levels": "x"}),
        ("with another order, 'by a', not 'SHA-256 [0-9a-f]{64}'", {"order": "by a" * 21}),
    ):
        with pytest.raises(KeyReuseError, match=told) as met:
            seal(**terms).without_ledger(resume=True)
        assert not isinstance(met.value, OtherInputError)
    seal(order="by a").without_ledger(resume=True)
    for wrong, error in (("order", DTypeError), ({"order": 3}, DTypeError), ({"order": "\ud800"}, ParameterError)):
        with pytest.raises(error, match="terms must be"):
            key.seal(MECH, made, shape=(3,), terms=wrong)


def test_a_manifest_without_terms_is_encoded_as_before() -> None:
    """What was sealed before there were terms goes on; with terms no two are encoded alike."""
    key = known("terms")
    made = [key.digester(MECH)(0, [1, 2, 3])]
    plain = key.seal(MECH, made, shape=(3,)).manifest
    told = key.seal(MECH, made, shape=(3,), terms={"b": "2", "a": "x" * 81}).manifest
    before = E(1, 2, "terms", "array", "", E(3), E("", "discrete_laplace", 1, 1, 10**6, 1))
    long = f"SHA-256 {hashlib.sha256(b'x' * 81).hexdigest()}"
    assert plain.encoded() == before
    assert told.encoded() == before + E(b"", E("a", long), E("b", "2"))
    assert "terms" not in plain.metadata()
    assert told.metadata()["terms"] == {"a": long, "b": "2"}
    assert [sealing.Manifest.of(json.loads(json.dumps(each.metadata()))) for each in (plain, told)] == [plain, told]
    assert key.seal(MECH, made, shape=(3,), terms={}).tag == key.seal(MECH, made, shape=(3,)).tag
    assert key.seal(MECH, made, shape=(3,), terms={"a": long}).manifest.terms != (("a", long),)


@pytest.mark.parametrize(
    "kept", [None, 7, "ab", [7], ["a"], [0], [0, "a"], {"a": 7}, {"a": [7]}, {"b": {}}, {"\ud800": "x"}]
)
def test_terms_that_were_edited_crash_nothing(kept: Any) -> None:
    """They are compared, or refused by one of two errors, which a ledger puts into words."""
    key = fresh()
    mine = key.seal(MECH, [key.digester(MECH)(0, [1])], shape=(1,), terms={"a": "x"}).manifest
    try:
        found = sealing.Manifest.of({**mine.metadata(), "terms": kept})
    except (TypeError, LookupError):
        return
    assert mine.unlike(found)
    assert mine._replace(terms=()).unlike(found)


def test_buckets_of_unknown_keys() -> None:
    """Any number of rows, none too, which no manifest shows."""
    key, names = fresh(), [["a", "c"], [], ["b"]]
    digester = key.digester(MECH)
    counts = [np.full(len(each), 5) for each in names]
    made = [digester(j, *each[:1], names=each[1]) for j, each in enumerate(zip(counts, names, strict=True))]
    seal = key.seal(MECH, made, buckets=3)
    assert seal.manifest.size == (3,)
    sealed = seal.without_ledger()
    noisy = [sealed.release(j, counts[j], names=names[j]) for j in range(3)]
    assert [len(each) for each in noisy] == [2, 0, 1]
    with pytest.raises(OtherInputError):
        sealed.release(0, counts[0], names=["c", "a"])
    with pytest.raises(ParameterError, match="1 of 3 are missing"):
        key.seal(MECH, made[:1] + made[2:], buckets=3)


# ------------------------------------------------------------------ small worlds


@st.composite
def worlds(draw: st.DrawFn) -> tuple[np.ndarray, list[Any]]:
    """A few values in blocks of two, and what is tried with them."""
    values = np.array(draw(st.lists(st.integers(-2, 2), max_size=7)), np.int64)
    blocks_ = st.integers(0, max(0, -(-values.size // 2) - 1))
    attempt = st.one_of(
        st.tuples(st.just("call"), st.integers(1, 2), st.sampled_from(["i1", "i4", ">i8"])),
        st.tuples(st.just("blocks"), st.lists(blocks_, max_size=5), st.booleans()),
        st.tuples(st.just("another"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("forgotten")),
    )
    return values, draw(st.lists(attempt, max_size=6))


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_all_tries_show_one_execution(world: tuple[np.ndarray, list[Any]]) -> None:
    """Calls, blocks in any order, again, refused tries between them: each cell has one noise."""
    values, attempts = world
    key = fresh()
    with tiers.small_blocks(2):
        seen: dict[int, int] = dict(enumerate(MECH.release(values, key=key).tolist()))
        for kind, *how in attempts:
            if kind == "call":
                noisy = MECH.release(values.astype(how[1]), key=key, threads=how[0], resume=True)
                assert dict(enumerate(noisy.tolist())) == seen
            elif kind == "blocks":
                sealed = sealed_of(key, values)
                for j in how[0] if values.size else []:
                    one = pickle.loads(pickle.dumps(sealed.only(j))) if how[1] else sealed
                    noisy = one.release(j, values[2 * j : 2 * j + 2])
                    assert noisy.tolist() == [seen[i] for i in range(2 * j, min(2 * j + 2, values.size))]
            elif kind == "another" and values.size:
                other, out = values.copy(), np.full(values.size, 77)
                other[how[0] % values.size] += 1
                with pytest.raises(OtherInputError):
                    MECH.release(other, key=key, out=out, resume=True)
                if how[1]:
                    j = how[0] % values.size // 2
                    with pytest.raises(OtherInputError):
                        sealed_of(key, values).release(j, other[2 * j : 2 * j + 2])
                assert (out == 77).all()
            elif kind == "forgotten":
                with pytest.raises(KeyReuseError):
                    MECH.release(values, key=key)


class Stopped(Exception):  # noqa: N818  it is what happened
    """What a planted step raises."""


STEPS: list[tuple[Any, str]] = [
    (blocks.Blocks, "copy"), (blocks.Blocks, "digests"), (blocks.Blocks, "_look"), (sealing.Seal, "__init__"), (sealing, "note_here"), (paying, "note_here"),
    (store.Store, "look"), (store.Store, "reserve"), (sealing, "_opened"), (blocks.Blocks, "draw"), (sealing.Sealed, "stream_key"),
    (_native.StreamKey, "take"), (blocks.Blocks, "_noise"),
]  # fmt: skip


def stop_at(patch: pytest.MonkeyPatch, step: int, nth: int, *, done: bool) -> None:
    """The n-th call of a step fails: before it does its work, or after."""
    owner, name = STEPS[step]
    real, calls = getattr(owner, name), itertools.count(1)

    def failing(*job: Any, **options: Any) -> Any:
        stop = next(calls) == nth
        if stop and not done:
            raise Stopped
        found = real(*job, **options)
        if stop:
            raise Stopped
        return found

    patch.setattr(owner, name, failing)


TRIES = st.lists(
    st.tuples(
        st.integers(0, len(STEPS) - 1),
        st.integers(1, 3),
        st.booleans(),
        st.integers(1, 2),
        st.sampled_from(["call", "blocks"]),
    ),
    max_size=8,
)


@given(st.lists(st.integers(-2, 2), max_size=7), TRIES, st.booleans())
@settings(max_examples=80, deadline=None)
def test_failures_at_any_step_show_one_execution(numbers: list[int], tries: list[Any], paid: bool) -> None:
    """Each try ends whole, or with zeros or nothing; what is seen is one noise, charged once."""
    values, key, seen = np.array(numbers, np.int64), fresh(), {}
    with tiers.small_blocks(2), tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "b.db"), 9, create=True) if paid else None

        def call(threads: int) -> None:
            out = np.full(values.size, 77)
            try:
                release = MECH.release if ledger is None else partial(ledger.release, MECH)
                release(values, key=key, out=out, threads=threads, resume=True)
            finally:  # zeros, nothing, or if all was done the whole
                if out.any() and not (out == 77).all():
                    see(0, out)

        def by_blocks_again(_: int) -> None:
            digester = key.digester(MECH)
            made = [digester(j, block) for j, block in enumerate(values[i : i + 2] for i in range(0, values.size, 2))]
            seal = key.seal(MECH, made[::-1], shape=values.shape)
            sealed = seal.without_ledger(resume=True) if ledger is None else ledger.reserve(seal, resume=True)
            for j in reversed(range(len(made))):
                see(2 * j, pickle.loads(pickle.dumps(sealed.only(j))).release(j, values[2 * j : 2 * j + 2]))

        def see(begin: int, noisy: np.ndarray) -> None:
            for i, each in enumerate(noisy.tolist()):
                assert seen.setdefault(begin + i, each) == each

        for step, nth, done, threads, how in tries:
            with pytest.MonkeyPatch.context() as patch, suppress(Stopped):
                stop_at(patch, step, nth, done=done)
                (call if how == "call" else by_blocks_again)(threads)
        assert ledger is None or ledger.spent.epsilon >= bool(seen)
        call(1)
        by_blocks_again(1)
        assert ledger is None or ledger.verify() == ledger.spent.epsilon == 1
    assert len(seen) == values.size


def test_stream_keys_of_small_worlds_never_meet() -> None:
    """Inputs of up to four cells of three values: shapes, labels, laws, names; blocks of two."""
    seen: dict[bytes, Any] = {}
    master, laws = Key.generate(), (MECH, DiscreteLaplace(2, 2 * 10**6))
    with tiers.small_blocks(2):
        for n in range(5):
            for x in itertools.product(range(3), repeat=n):
                options = [(label, law, None, (n,)) for label in ("a", "b") for law in laws]
                options += [("a", MECH, [0] * n, (n,)), ("a", MECH, ["0"] * n, (n,)), ("a", MECH, None, (n, 1))]
                for label, law, named, shape in options:
                    key = master.derive(label)
                    digester = key.digester(law)
                    tiers.forget_labels()
                    made = [
                        digester(j, x[2 * j : 2 * j + 2], names=named and named[2 * j : 2 * j + 2])
                        for j in range(-(-n // 2))
                    ]
                    sealed = key.seal(law, made, shape=shape).without_ledger()
                    for each in made:
                        point = x, label, repr(law), repr(named), shape, each.block
                        stream = sealed.stream_key("", each.block, each.digest)
                        assert seen.setdefault(stream, point) == point
    assert len(seen) == 7 * sum(3**n * -(-n // 2) for n in range(5))


@pytest.mark.parametrize("n", [40, 5000])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_one_changed_count_changes_all_the_noise(n: int, where: str) -> None:
    """Two releases of neighbouring inputs never differ by the counts alone: not in one cell."""
    counts = np.arange(n)
    changed = counts.copy()
    changed[{"first": 0, "middle": n // 2, "last": n - 1}[where]] += 1
    first = MECH.release(counts, key=known())
    tiers.forget_labels()  # another process, without a ledger
    assert independent(first - counts, MECH.release(changed, key=known()) - changed)


def test_anything_else_that_differs_gives_independent_noise() -> None:
    """Epsilon, sensitivity (at equal scale, too), label, master key, shape, names, sign."""
    counts = np.zeros(600, np.int64)

    def release(values: np.ndarray = counts, mech: Any = MECH, key: Any = None, **options: Any) -> np.ndarray:
        tiers.forget_labels()
        noisy = mech.release(values, key=key or known(), **options)
        return (noisy - values.astype(noisy.dtype)).astype(np.int64)

    negative, unsigned = np.full(600, -1), np.full(600, 2**64 - 1, np.uint64)
    others = {
        "epsilon and sensitivity": release(mech=DiscreteLaplace(2, 2 * 10**6)),
        "epsilon": release(mech=DiscreteLaplace(Fraction(10**9 + 1, 10**9), 10**6)),
        "sensitivity": release(mech=DiscreteLaplace(1, 10**6 + 1)),
        "label": release(key=known("y")),
        "master": release(key=fresh()),
        "shape": release(counts.reshape(20, 30)),
        "another shape": release(counts.reshape(30, 20)),
        "an axis more": release(counts.reshape(600, 1)),
        "one cell more": release(np.zeros(601, np.int64)),
        "half": release(counts[:300]),
        "names": release(names=range(600)),
        "names turned": release(names=range(600)[::-1]),
        "names as texts": release(names=[*map(str, range(600))]),
        "fixed": fixed_release(counts),
        "negative": release(negative),
        "unsigned": release(unsigned, dtype=np.uint64, lower=2**63),
        "without a key": MECH.release(counts),
    }
    saturated = others.pop("unsigned")
    others["unsigned"] = saturated[saturated < 0]
    for (name, one), (other_name, other) in itertools.combinations([("base", release()), *others.items()], 2):
        assert independent(one, other), (name, other_name)


def fixed_release(counts: np.ndarray) -> np.ndarray:
    with pytest.warns(dpfast.InsecureKeyWarning):
        return MECH.release(counts, key=fixed_key(7).derive("visits"))


# ------------------------------------------------------------------ planted, and caught


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
    real = sealing.encode

    def placeless(*fields: Any) -> bytes:
        place = len(fields) == 2 and isinstance(fields[1], int)
        stream = len(fields) == 3 and isinstance(fields[1], int) and isinstance(fields[2], bytes)
        return real(*(fields[2:] if place or stream else fields))

    monkeypatch.setattr(sealing, "encode", placeless)
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
    monkeypatch.setattr("dpfast.release.names.Names.fields", lambda *_: [])
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
    real = sealing.Seal._reserved

    def rewriting(seal: Any) -> Any:
        values[at] = 1
        return real(seal)

    def release() -> np.ndarray:
        values[at] = 0
        return MECH.release(values, key=key, out=out, threads=threads, resume=True)

    monkeypatch.setattr(sealing.Seal, "_reserved", rewriting)
    with pytest.raises(OtherInputError, match="^'visits': values must be those that were sealed, and a block is not"):
        release()
    assert not out.any()
    no_comparison(monkeypatch)
    moved = np.flatnonzero(release() != first)
    block = at // SEALED_ROWS
    assert moved.size > 0.99 * SEALED_ROWS
    assert {*(moved // SEALED_ROWS)} == {block}
    stream_key = sealing.Sealed.stream_key
    monkeypatch.setattr(
        sealing.Sealed, "stream_key", lambda sealed, c, j, _: stream_key(sealed, c, j, sealed._digest(c, j))
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
    real = sealing.Seal._reserved

    def rewriting(seal: Any) -> Any:
        values[:] = 10**9
        return real(seal)

    monkeypatch.setattr(sealing.Seal, "_reserved", rewriting)
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
    assert key.seal(MECH, iter(made[::-1]), shape=(n,)).manifest.size == (n,)
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


WORKER = """
import pickle, sys
from dpfast import _native
exec(sys.argv[2])
try:
    sealed = pickle.loads(bytes.fromhex(sys.argv[1]))
    print(sealed.release(0, [1, 2, 3]).tolist())
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("spoil", "before", "message"),
    [
        ("", "", r"\[-?\d+, -?\d+, -?\d+\]$"),
        ("replaced", "", "FileError the key file .* holds another key than the one that 'visits' was sealed with$"),
        ("truncated", "", "FileError the key file .* must hold 32 bytes"),
        ("readable", "", "FileError others may read or write"),
        ("absent", "", "FileError the key file .* does not exist"),
        ("", "_native.STREAM_VERSION = 3", "ParameterError .* of stream version 2 .* the dpfast that began it; this one has 3 and 1"),
        ("", "from dpfast.release import seal; seal.VERSION = 2", "ParameterError .* this one has 2 and 2"),
    ],
    ids=["right", "another key", "truncated", "readable", "absent", "another stream", "another manifest"],
)  # fmt: skip
def test_a_worker_with_another_key_or_version(tmp_path: Path, spoil: str, before: str, message: str) -> None:
    """By name, before anything is read. The task holds no secret, and nothing derived from it."""
    file = KeyFile.create(tmp_path / "visits.key")
    sealed = sealed_of(file.derive("visits"), [1, 2, 3])
    task, right = pickle.dumps(sealed), sealed.release(0, [1, 2, 3]).tolist()
    secret = file.path.read_bytes()
    for held in (secret, *sealed._secrets, tiers.secret_of(file.derive("visits"))):
        assert held not in task
    if spoil == "readable":
        file.path.chmod(0o644)
    elif spoil:
        file.path.unlink()
    if spoil == "replaced":
        KeyFile.create(file.path)
    elif spoil == "truncated":
        file.path.touch(0o600)
        file.path.write_bytes(secret[:31])
    said = python(WORKER, task.hex(), before)
    assert re.match(message, said)
    assert spoil or before or said == f"{right}\n"


def test_a_key_file_that_was_replaced_is_noticed_by_the_driver(tmp_path: Path) -> None:
    """A ledger says that it is another key; nothing is charged again."""
    file = KeyFile.create(tmp_path / "visits.key")
    ledger = Ledger(tmp_path / "b.db", 1000, create=True)
    ledger.release(MECH, [1], key=file.derive("visits"))
    file.path.unlink()
    again = KeyFile.create(file.path)
    with pytest.raises(KeyReuseError, match="under another key"):
        ledger.release(MECH, [1], key=again.derive("visits"), resume=True)
    assert ledger.spent.epsilon == 1


def test_what_travels_of_a_key_file_is_its_path(tmp_path) -> None:
    """A plan or a log that holds what travels holds no secret; of a key in memory it does."""
    file = KeyFile.create(tmp_path / "visits.key")
    for key, told in ((file.derive("visits"), False), (fresh(), True)):
        sealed = sealed_of(key, np.arange(3))
        parts = {
            key.chooser(): lambda part: part.functions(),
            key.bucketer(7): lambda part: part([b"a", b"b"]),
            key.digester(MECH, clamp=(0, 9)): lambda part: part(0, [5, 12]),
            sealed: lambda part: part.release(0, np.arange(3)).tolist(),
        }
        for part, use in parts.items():
            travels = pickle.dumps(part)
            secrets = tiers.drawing(part) if part is sealed else [tiers.choosing(part)]
            assert any(secret in travels for secret in secrets) is told
            assert use(pickle.loads(travels)) == use(pickle.loads(pickle.dumps(pickle.loads(travels)))) == use(part)
    travels = pickle.dumps(file.derive("visits").chooser())
    file.path.unlink()
    KeyFile.create(file.path)
    with pytest.raises(FileError, match="holds another key"):
        pickle.loads(travels)


def test_what_travels_can_do_one_thing() -> None:
    """A digester and a sealed key pickle. A task has its own digests, and draws its own blocks."""
    key, values = fresh(), np.arange(3 * SEALED_ROWS)
    digester = pickle.loads(pickle.dumps(key.digester(MECH, missing=None, clamp=(0, 9))))
    assert digester(1, [5, 12]) == key.digester(MECH, clamp=(0, 9))(1, [5, 9])
    sealed = sealed_of(key, values)
    one = pickle.loads(pickle.dumps(sealed.only(1)))
    assert pickle.loads(pickle.dumps(key.bucketer(7)))([b"a"]) == key.bucketer(7)([b"a"])
    assert len(pickle.dumps(sealed.only(1))) < len(pickle.dumps(sealed))
    assert (one.release(1, cut(values)[1]) == sealed.release(1, cut(values)[1])).all()
    for attempt in (lambda: one.release(0, cut(values)[0]), lambda: one.only(2), lambda: sealed.release(3, values[:0])):
        with pytest.raises(ParameterError, match="^block must be one that this sealed key draws"):
            attempt()
    for options in ({"key": key}, {"resume": True}):
        with pytest.raises(ParameterError, match="^key and resume must be left out"):
            sealed.release(0, cut(values)[0], **options)
    for bad in ({"mechanism": 7}, {"mechanism": MECH, "column": 7}, {"mechanism": dpfast.OneSidedGeometric(1, 1)}):
        with pytest.raises(DTypeError, match="^(mechanism|column) must be"):
            key.digester(**bad)
    assert not {"derive", "chooser", "digester", "seal"} & {*dir(one), *dir(digester)}
    assert not hasattr(seal_of(fresh(), values), "reserved")  # only a reservation, or who says it aloud, draws


def test_a_seal_without_a_ledger_is_met_once() -> None:
    key = fresh()
    seal = seal_of(key, [1, 2])
    seal.without_ledger()
    with pytest.raises(KeyReuseError, match="resume=True continues it"):
        seal.without_ledger()
    assert (
        seal.without_ledger(resume=True).release(0, [1, 2]).tolist()
        == MECH.release([1, 2], key=key, resume=True).tolist()
    )
    with pytest.raises(OtherInputError):
        seal_of(key, [1, 3]).without_ledger(resume=True)
    with pytest.raises(DTypeError, match="^resume must be True or False"):
        MECH.release([1, 2], key=key, resume=1)


def test_a_ledger_knows_what_this_process_has_sealed_without_it(tmp_path) -> None:
    key, ledger = fresh(), Ledger(tmp_path / "budget.db", 10, create=True)
    MECH.release([1, 2], key=key)
    with pytest.raises(OtherInputError, match="reserved in this process"):
        ledger.release(MECH, [1, 3], key=key, resume=True)
    assert ledger.spent.epsilon == 0
    ledger.release(MECH, [1, 2], key=key, resume=True)


@pytest.mark.parametrize("mech", [MECH, LAWS["laplace"]], ids=["integers", "reals"])
def test_in_place_is_refused_under_a_key(mech: Any) -> None:
    """No retry could read the values; so for overlaps and clamped copies. Side by side is fine."""
    wide = cells(mech, 20)
    for values, out, options in (
        (wide, wide, {}),
        (wide, wide, {"clamp": (0, 1)}),
        (wide, wide, {"clamp": (0, 1), "missing": 0} if mech is not MECH else {"missing": 0}),
    ):
        before = wide.copy()
        with pytest.raises(ParameterError, match="^out must"):
            mech.release(values, out=out, key=fresh(), **options)
        assert (wide == before).all()
    assert mech.release(wide[::2], out=wide[1::2], key=fresh()) is not None


def test_what_names_and_resume_are_for() -> None:
    for options, named in (({"names": ["a"]}, "names"), ({"resume": True}, "resume")):
        for values in ([1], np.zeros(1, np.int64)):  # C draws few plain values by a way of its own
            with pytest.raises(ParameterError, match=f"{named}.*there is no key"):
                MECH.release(values, **options)
    for bad in ([1, 2], [0.5], [None], "a", [["a"]], 7, [True], np.array([[1]]), ["a", "b"]):
        with pytest.raises(dpfast.DpfastError, match="^names must"):
            MECH.release([1], key=fresh(), names=bad)


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
        with pytest.raises(dpfast.DpfastError) as caught:
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
            with pytest.raises((dpfast.DpfastError, TypeError)) as caught:
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
    room = blocks.Blocks.room

    def new(self: Any, size: int) -> np.ndarray:
        blocks._spare.clear()  # a room that is used again would be wiped by its last use
        made.append(room(self, size))
        return made[-1]

    results: list[np.ndarray] = []
    draw, forget = blocks.Blocks.draw, blocks.Blocks.forget
    drawn: list[Any] = []

    def kept(self: Any) -> None:
        forget(self)
        if self.size > self.block and self not in drawn:
            results.append(self.out)  # the copies of all blocks lie in a result that nobody gets

    monkeypatch.setattr(blocks.Blocks, "room", new)
    monkeypatch.setattr(blocks.Blocks, "draw", lambda self, *how: (draw(self, *how), drawn.append(self)))
    monkeypatch.setattr(blocks.Blocks, "forget", kept)
    values, key = np.full(3 * SEALED_ROWS, 91), fresh()
    few, other = values[:50], fresh()
    MECH.release(values, key=key)
    MECH.release(few, key=other)
    for changed, under in ((values + 1, key), (few + 1, other)):
        with pytest.raises(OtherInputError):
            MECH.release(changed, key=under, resume=True)
        with pytest.raises(KeyReuseError):
            MECH.release(changed, key=under)
    assert len(results) == 2
    assert not any(each.any() for each in results)
    sealed = sealed_of(other, few)
    sealed.release(0, few)
    with pytest.raises(OtherInputError):
        sealed.release(0, few + 1)
    with pytest.raises(UnusableValuesError):
        key.digester(LAWS["laplace"])(0, [91.25, np.nan])
    assert sum(each.size > 0 for each in made) > 10
    assert not any(each.view("i8").any() for each in made)


# ------------------------------------------------------------------ drivers


DRIVERS = """
import sys, time
from pathlib import Path
import numpy as np
import dpfast
from dpfast.ledger import store

path, number, resume, last = sys.argv[1:]
look = store.Store.look

def together(*job):  # both have found nothing before one reserves
    look(*job)
    Path(f"{path}.{number}").touch()
    while not Path(f"{path}.{1 - int(number)}").exists():
        time.sleep(0.001)

store.Store.look = together
mech, counts = dpfast.DiscreteLaplace(1, 10**6), np.append(np.arange(70_000), int(last))
try:
    key = dpfast.KeyFile(f"{path}.key").derive("visits")
    print(hash(dpfast.Ledger(path).release(mech, counts, key=key, resume=resume == "resume").tobytes()))
except dpfast.KeyReuseError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("resume", "last", "words"),
    [
        ("resume", "00", []),
        ("resume", "01", ["OtherInputError"]),
        ("forgotten", "00", ["KeyReuseError"]),
        ("forgotten", "01", ["KeyReuseError"]),
    ],
)
def test_two_drivers_at_once(tmp_path: Path, resume: str, last: str, words: list[str]) -> None:
    """One charge, one noise: who comes second gets the same bytes, or is refused."""
    path = tmp_path / "budget.db"
    KeyFile.create(tmp_path / "budget.db.key")
    ledger = Ledger(path, 1000, create=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(dpfast.__file__).parent.parent), "PYTHONHASHSEED": "0"}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVERS, path, str(number), resume, last[number]],
            stdout=subprocess.PIPE, text=True, env=environment,
        )
        for number in range(2)
    ]  # fmt: skip
    said = [run.communicate(timeout=300)[0].strip() for run in runs]
    numbers = [each for each in said if not each.isalpha()]
    assert [each for each in said if each.isalpha()] == words
    assert len(numbers) + len(words) == 2
    assert len({*numbers}) == 1
    assert ledger.spent.epsilon == 1
    assert sum(not entry.refused for entry in ledger.history()) == 1


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


def test_an_empty_input_costs_the_same(tmp_path: Path) -> None:
    """Else the price tells that nobody is there."""
    ledger = Ledger(tmp_path / "b.db", 1000, create=True)
    for shape in ((0,), (0, 5)):
        assert ledger.release(MECH, np.zeros(shape, np.int64), key=known(str(shape))).shape == shape
    assert ledger.spent.epsilon == 2


# ------------------------------------------------------------------ killed


KILLED = """
    import os, signal, sys
    import numpy as np
    import dpfast
    from dpfast.ledger import ledger as paying, store
    from dpfast.release import blocks, seal

    path = sys.argv[1]
    mech, counts = dpfast.DiscreteLaplace(1, 10**6), np.arange(70_000)
    file, ledger = dpfast.KeyFile.create(f"{path}.key"), dpfast.Ledger(path, 1000, create=True)
    mech.release(counts, key=file.derive("warm"))

    def attempt(label, pay=ledger):
        key = dpfast.KeyFile(file.path).derive(label)
        return pay.release(mech, counts, key=key, resume=True) if pay else mech.release(counts, key=key, resume=True)

    def kill_at(owner, name, nth, when):
        real, calls = getattr(owner, name), [0]
        def watched(*job, **options):
            calls[0] += 1
            if calls[0] == nth and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            found = real(*job, **options)
            if calls[0] == nth and when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return found
        setattr(owner, name, watched)

    steps = [(store.Store, "look", 1), (blocks.Blocks, "_look", 1), (blocks.Blocks, "digests", 1), (seal.Seal, "__init__", 1),
             (paying, "compare_here", 1), (store.Store, "reserve", 1), (store, "insert", 1), (store, "insert", 2), (store, "move", 1),
             (paying, "note_here", 1), (seal, "_opened", 1), (blocks.Blocks, "draw", 1), (blocks.Blocks, "_noise", 1),
             (blocks.Blocks, "_noise", 2)]
    committed = []
    for at, when in [(at, when) for at in range(len(steps)) for when in ("before", "after")]:
        label = f"{at} {when}"
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            kill_at(*steps[at], when)
            attempt(label)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, label
        committed.append([entry.label for entry in ledger.history()].count(label))
        noisy = attempt(label)
        assert (noisy == attempt(label)).all() and (noisy == attempt(label, None)).all()
        assert [entry.label for entry in ledger.history()].count(label) == 1, label
    assert ledger.verify() == ledger.spent.epsilon == 2 * len(steps)
    print("".join(map(str, committed)))
"""


def test_killed_between_any_two_steps(tmp_path: Path) -> None:
    """And begun again: one charge, one noise. It was charged if it died behind the transaction."""
    reserved = python(KILLED, tmp_path / "budget.db").strip()
    assert reserved == "0" * 11 + "1" + "0" * 6 + "1" * 10  # what Store.reserve does is undone until it returns


@contextmanager
def traced(log: Path, *options: str) -> Iterator[list[str]]:
    yield ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,unlink,pwrite64", "-o", str(log), *options]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_killed_before_and_after_each_flush(tmp_path: Path) -> None:
    """At the entry of each flush and removal of a reservation, and of the first and last writes."""
    path, log = tmp_path / "budget.db", tmp_path / "log"
    KeyFile.create(tmp_path / "budget.db.key")
    ledger, counts = Ledger(path, 1000, create=True), np.arange(70_000)
    code = (
        "import sys, numpy as np, dpfast\n"
        "key = dpfast.KeyFile(sys.argv[1] + '.key').derive(sys.argv[2])\n"
        "dpfast.Ledger(sys.argv[1]).release(dpfast.DiscreteLaplace(1, 10**6), np.arange(70_000), key=key, resume=True)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(dpfast.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(label: str, *options: str) -> int:
        with traced(log, *options) as trace:
            return subprocess.run(
                [*trace, sys.executable, "-c", code, path, label], env=environment, check=False
            ).returncode

    assert run("whole") == 0
    calls = re.findall(r"(fsync|fdatasync|unlink|pwrite64)\(", log.read_text())
    assert {"unlink", "pwrite64"} < {*calls}
    points = [(name, at) for name in {*calls} for at in range(1, calls.count(name) + 1)]
    points = [(name, at) for name, at in points if name != "pwrite64" or at in (1, calls.count(name))]
    for name, at in points:
        label = f"{name} {at}"
        assert run(label, "-e", f"inject={name}:signal=SIGKILL:when={at}") in (-signal.SIGKILL, 128 + signal.SIGKILL)
        key = KeyFile(tmp_path / "budget.db.key").derive(label)
        noisy = ledger.release(MECH, counts, key=key, resume=True)
        assert (noisy == MECH.release(counts, key=key, resume=True)).all()
        assert run(label) == 0
        assert [entry.label for entry in ledger.history()].count(label) == 1
    assert ledger.verify() == ledger.spent.epsilon == len(points) + 1


# ------------------------------------------------------------------ csrc/stream.md, by itself


def E(*fields: bytes | str | int) -> bytes:  # noqa: N802  its name there
    found = [field if isinstance(field, bytes) else str(field).encode() for field in fields]
    return b"".join(len(field).to_bytes(8, "little") + field for field in found)


def H(key: bytes, purpose: bytes, data: bytes = b"") -> bytes:  # noqa: N802
    return hashlib.blake2b(data, key=key, digest_size=32, person=purpose).digest()


def integers(numbers: list[int]) -> list[bytes]:
    kind = b"unsigned" if any(n >= 2**63 for n in numbers) else b"integers"
    return [kind, b"".join((n % 2**64).to_bytes(8, "little") for n in numbers)]


def texts(of_rows: list[str]) -> list[bytes]:
    encoded = [text.encode() for text in of_rows]
    return [b"".join(len(text).to_bytes(8, "little") for text in encoded), b"".join(encoded)]


class Described:
    """A release by the description: columns of values, by name; each with its record and names."""

    def __init__(
        self,
        label: str,
        kind: str,
        columns: dict[str, tuple[list[Any], list[Any]]],
        size: list[int],
        rows_names: Any = None,
    ) -> None:
        self.key = H(SECRET, b"release key", label.encode())
        secret, fields = H(self.key, b"block digest"), []
        self.digests: dict[tuple[str, int], bytes] = {}
        for name, (_, values) in columns.items():
            for j, begin in enumerate(range(0, len(values), 65_536)):
                block = values[begin : begin + 65_536]
                data = E(name, j) + E(*self.values(block))
                if rows_names is not None:
                    named = rows_names[begin : begin + 65_536]
                    data += E(b"texts", *texts(named)) if isinstance(named[0], str) else E(*integers(named))
                self.digests[name, j] = blake3(data, key=secret).digest()
                fields += [len(block), self.digests[name, j]]
        root = H(self.key, b"root", E(*fields))
        self.columns, self.label = [E(name, *record) for name, (record, _) in columns.items()], label
        manifest = self.manifest(kind, size)
        self.tag = H(self.key, b"tag", E(manifest, root))
        self.sealed = H(self.key, b"sealed", E(manifest, root))

    def manifest(self, kind: str, size: list[int]) -> bytes:
        return E(1, 2, self.label, kind, "", E(*size), *self.columns)

    @staticmethod
    def values(block: list[Any]) -> list[bytes]:
        if isinstance(block[0], int):
            return integers(block)
        return [b"reals", np.array([x + 0.0 for x in block], "<f8").tobytes()]

    def stream_keys(self) -> list[bytes]:
        return [H(self.sealed, b"stream key", E(name, j, digest)) for (name, j), digest in self.digests.items()]


CASES: dict[str, tuple[str, Any, Any, dict[str, Any], list[Any]]] = {
    "plain": ("visits/count", DiscreteLaplace(1, 10), np.arange(6).reshape(2, 3), {}, ["discrete_laplace", 1, 1, 10, 1]),
    "fractions": ("é", DiscreteLaplace(Fraction(1, 10), Fraction(1, 3)), np.array([-1, 2**63 - 1, -(2**63)]), {},
                  ["discrete_laplace", 1, 10, 1, 3]),
    "unsigned": ("u", DiscreteLaplace(3, 2), np.array([2**64 - 1, 0], np.uint64), {}, ["discrete_laplace", 3, 1, 2, 1]),
    "small unsigned": ("u", DiscreteLaplace(3, 2), np.array([2**63 - 1, 0], np.uint64), {}, ["discrete_laplace", 3, 1, 2, 1]),
    "scalar": ("0-d", DiscreteLaplace(1, 1), np.array(-5, np.int8), {}, ["discrete_laplace", 1, 1, 1, 1]),
    "empty": ("none", DiscreteLaplace(1, 1), np.zeros((0, 4), np.int16), {}, ["discrete_laplace", 1, 1, 1, 1]),
    "texts": ("names", DiscreteGaussian(Fraction(37, 10)), np.array([5, 5, 5]), {"names": ["Ulm", "", "Zürich"]},
              ["discrete_gaussian", 1369, 100]),
    "repeated": ("names", DiscreteGaussian(2), np.array([5, 5, 5]), {"names": ["b", "a", "b"]}, ["discrete_gaussian", 4, 1]),
    "numbers": ("names", DiscreteGaussian(2), np.array([5, 5, 5]), {"names": [-1, 7, 2**40]}, ["discrete_gaussian", 4, 1]),
    "two blocks": ("long", DiscreteLaplace(1, 1), np.arange(65_537) % 3, {"names": range(65_537)}, ["discrete_laplace", 1, 1, 1, 1]),
    "laplace": ("reals", Laplace(1, 3), np.array([0.5, -0.0, -7.25]), {}, ["laplace", 1, 1, 3, 1, -19]),
    "gaussian": ("reals", Gaussian(2, granularity=Fraction(1, 8)), np.array([0.5, 0.1], "f4"), {}, ["gaussian", 4, 1, -3]),
    "snapping": ("reals", Snapping(1, 3, bound=64), np.array([0.5, 1e9]), {}, ["snapping", 1, 1, 3, 1, 2, 64, 1]),
}  # fmt: skip
GOLDEN = {
    "plain": "09180e51051928a68ae626bc6fec2efc",
    "fractions": "7c31607a0d4ec41757afef409722deaa",
    "unsigned": "3bfa095e8bace6c00c62f92a526f13ef",
    "small unsigned": "fca3708a57d9fbf2526637d0f3195c8f",
    "scalar": "920fe5b7db1b7a3abb2ec9f1c01cc7da",
    "empty": "c4df16fe8144d3ef3d4c0bb939eb54ba",
    "texts": "3ee9b6dea8dd7ab51811dcdd2f510bef",
    "repeated": "6cbfeb7edcbdd2a4fa98eeaebb8c2e97",
    "numbers": "0fef50482d2142dccfa0789296d4436c",
    "two blocks": "638c53d03f172365cfe354ffbce5313d",
    "laplace": "294f5d07f77164215c3776ebd55c0590",
    "gaussian": "5e83f5205abea6d4639dfd57d66a09a9",
    "snapping": "61a2deae3d29dfa7733a862487e96e0e",
    "table": "867370e8e53351efb771f489f5b29c25",
    "unknown keys, l0 and linf": "5ba9c9b71ab597407f81cf9cff482ebb",
    "unknown keys, l1": "17c32c5267432e917e17dcdbf01ca139",
    "unknown keys, gaussian": "cfeaf3fefbf83fcb8d54ded8456fdcd2",
}


@pytest.mark.parametrize("case", CASES)
def test_golden_stream_keys(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stream version 2, pinned: the keys that reach the cipher, by the description and as ever."""
    label, mech, values, options, record = CASES[case]
    cells, seen = values.reshape(-1).astype(values.dtype).tolist(), []
    if isinstance(mech, Snapping):
        cells = [min(x, 64.0) for x in cells]
    take = _native.StreamKey.take
    monkeypatch.setattr(_native.StreamKey, "take", lambda key, secret: seen.append(secret) or take(key, secret))
    mech.release(values, key=known(label), threads=1, **options)
    named = [*options["names"]] if options else None
    told = Described(label, "array", {"": (record, cells)}, list(values.shape), named)
    assert seen == told.stream_keys()
    made = [
        known(label).digester(mech)(j, block, names=named and named[j * SEALED_ROWS :][: block.size])
        for j, block in enumerate(cut(values))
    ]
    seal = known(label).seal(mech, made, shape=values.shape)
    assert seal.tag == told.tag
    assert known(label).id == H(told.key, b"key id")[:16].hex()
    assert hashlib.sha256(b"".join(seen) + told.tag).hexdigest()[:32] == GOLDEN[case]


def test_golden_stream_keys_of_a_table() -> None:
    """Column after column, each with its law; the kind of an input with buckets is another."""
    columns = {"é": DiscreteLaplace(1, 10), "b": Laplace(1, 3)}
    key, counts, reals = known("table"), [1, 2, 3], [0.5, 1.5, 2.5]
    made = [
        key.digester(law, column=name)(0, x) for (name, law), x in zip(columns.items(), (counts, reals), strict=True)
    ]
    records = ["discrete_laplace", 1, 1, 10, 1], ["laplace", 1, 1, 3, 1, -19]
    described = {"é": (records[0], counts), "b": (records[1], reals)}
    found = []
    for kind, size, options in (("table", [3], {"shape": (3,)}), ("buckets", [1], {"buckets": 1})):
        tiers.forget_labels()
        told = Described("table", kind, described, size)
        sealed = key.seal(columns, made, **options).without_ledger()
        keys = [sealed.stream_key(name, 0, each.digest) for name, each in zip(columns, made, strict=True)]
        assert keys == told.stream_keys()
        found += keys
    assert len({*found}) == 4
    root = H(told.key, b"root", E(b"file", 3, made[0].digest, 3, made[1].digest))
    assert key.seal(columns, made, shape=(3,), source=b"file").tag == H(
        told.key, b"tag", E(told.manifest("table", [3]), root)
    )
    assert hashlib.sha256(b"".join(found)).hexdigest()[:32] == GOLDEN["table"]


def canonical(name: Any) -> bytes:
    if isinstance(name, tuple):
        return E("tuple", *map(canonical, name))
    kind = type(name).__name__
    body = {"float": lambda: np.float64(name + 0.0).tobytes(), "bytes": lambda: name, "bool": lambda: str(int(name))}
    return E(kind, body.get(kind, lambda: str(name))())


UNKNOWN: list[tuple[list[Any], int]] = [  # keys in their order, and how many buckets
    ([-5, 3, 2**70], 1),
    (["", "Ulm", "Zürich"], 256),
    ([(1, "a"), (1, "b"), False, b"x", 0.0, 0.5, 3, "3"], 3),
    ([], 2),
]


@pytest.mark.parametrize("mech", ["l0 and linf", "l1", "gaussian"])
def test_golden_stream_keys_of_unknown_keys(mech: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """thresholded under a key, by the description: each key's bucket, its block's stream key."""
    change = dpfast.Sensitivity(l1=5) if mech == "l1" else dpfast.Sensitivity(2, 3)
    record = ["thresholded", 1, 2, *((5, 1, 1, 100, 5, 5, 5) if mech == "l1" else (6, 1, 1, 100, 2, 3, 6))]
    how: dict[str, Any] = {}
    if mech == "gaussian":
        how = {"noise": "gaussian", "pre_threshold": 4}
        made = GaussianWithholding(Fraction(1, 2), Fraction(1, 100), change)
        record = ["thresholded_gaussian", *made.sigma_squared.as_integer_ratio(), 1, 100, 2, 3, 6, 4, 1, 2]
    found: list[bytes] = []
    for names, many in UNKNOWN:
        tiers.forget_labels()
        key, seen = H(SECRET, b"release key", b"words"), []
        counts = [7 + i for i in range(len(names))]
        in_bucket: list[list[int]] = [[] for _ in range(many)]
        for i, name in enumerate(names):
            hashed = H(H(key, b"buckets"), b"bucket", canonical(name))
            in_bucket[int.from_bytes(hashed[:8], "little") % many].append(i)
        fields, digests = [], []
        for j, places in enumerate(in_bucket):
            runs = [canonical(names[i]) for i in places]
            lengths = b"".join(len(run).to_bytes(8, "little") for run in runs)
            named = E(b"texts", lengths, b"".join(runs)) if runs else b""
            data = E("", j) + E(*integers([counts[i] for i in places])) + named
            digests.append(blake3(data, key=H(key, b"block digest")).digest())
            fields += [len(places), digests[-1]]
        manifest = E(1, 2, "words", "buckets", "", E(many), E("", *record))
        sealed = H(key, b"sealed", E(manifest, H(key, b"root", E(*fields))))
        with monkeypatch.context() as patch:
            take = _native.StreamKey.take
            patch.setattr(
                _native.StreamKey,
                "take",
                lambda key, secret, take=take, seen=seen: seen.append(secret) or take(key, secret),
            )
            dpfast.thresholded(names[::-1], counts[::-1], epsilon=Fraction(1, 2), delta=Fraction(1, 100), sensitivity=change,
                               key=known("words"), buckets=many, **how)  # fmt: skip
        assert seen == [H(sealed, b"stream key", E("", j, digest)) for j, digest in enumerate(digests)]
        found += seen
    assert hashlib.sha256(b"".join(found)).hexdigest()[:32] == GOLDEN[f"unknown keys, {mech}"]


def test_no_raw_key_reaches_the_cipher() -> None:
    """The stream key is neither the master's nor the release key's secret, nor tells them."""
    assert _native.STREAM_VERSION == 2
    told = Described("x", "array", {"": (["discrete_laplace", 1, 1, 1, 1], [0])}, [1])
    assert len({*told.stream_keys(), told.sealed, told.tag, told.key, SECRET, tiers.secret_of(known("x"))}) == 5


def test_a_seal_has_no_more_cells_than_the_sensitivity() -> None:
    """Each block is small enough, and the array that they make up is not."""
    cells, block = 70_000, 65_536
    stated = dpfast.Sensitivity(40_000, 1, adjacency="substitution", cells=cells)
    mechanism, key = dpfast.DiscreteLaplace(1, stated), dpfast.Key.generate().derive("blocks")
    digester = key.digester(mechanism)
    values = np.zeros(cells + 1, np.int64)
    digests = [digester(j, values[j * block : (j + 1) * block]) for j in range(2)]
    with pytest.raises(dpfast.ParameterError, match="at most the 70000 cells"):
        key.seal(mechanism, digests, shape=(cells + 1,))
    digests[1] = digester(1, values[block:cells])
    assert key.seal(mechanism, digests, shape=(cells,)).cost.epsilon == 1
