# SPDX-License-Identifier: Apache-2.0
"""One input has one noise, in whatever form it comes, and another input has other noise."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from fresh import workers
from layouts import FILLED, layouts
from reference import E, texts
from seals import LAWS, MECH, by_blocks, cells, cut, fresh, independent, known, seal_of
from tiers import SEALED_ROWS

import dpfast
from dpfast import DiscreteLaplace, Key, Ledger
from dpfast.errors import DTypeError, KeyReuseError, OtherInputError, ParameterError, UnusableValuesError
from dpfast.noise.release import seal as sealing
from dpfast.testing import fixed_key

EDGES = [0, 1, 3, SEALED_ROWS - 1, SEALED_ROWS, SEALED_ROWS + 1, 2 * SEALED_ROWS + 5]


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
    views = [(values.astype(kind), None) for kind in kinds]
    if values.size > 1:
        outs = layouts(np.full(shape, 77, whole.dtype))
        views += [(view, outs[name] if name in FILLED else None) for name, view in layouts(values).items()]
    for view, alike in views:
        for out in (None, np.full(shape, 77, whole.dtype), np.full((*shape, 2), 77, whole.dtype)[..., 1], alike):
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
        for law, mech in enumerate(laws if turn == 0 else []):  # later workers find what they need to draw
            values = np.concatenate([block(law, j) for j in range(7)])
            whole = mech.release(values, key=file.derive(f"law {law}"), resume=True)
            found[law].add(hashlib.sha256(whole.tobytes()).hexdigest())
    print(*map(len, found))
"""


@pytest.mark.slow
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
    assert tiers.replaced(mine, terms=()).unlike(found)


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
    with pytest.warns(dpfast.errors.InsecureKeyWarning):
        return MECH.release(counts, key=fixed_key(7).derive("visits"))


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
        with pytest.raises(dpfast.errors.DpfastError, match="^names must"):
            MECH.release([1], key=fresh(), names=bad)


def test_a_seal_has_no_more_cells_than_the_sensitivity() -> None:
    """Each block is small enough, and the array that they make up is not."""
    cells, block = 70_000, 65_536
    stated = dpfast.Sensitivity(40_000, 1, adjacency="substitution", cells=cells)
    mechanism, key = dpfast.DiscreteLaplace(1, stated), dpfast.Key.generate().derive("blocks")
    digester = key.digester(mechanism)
    values = np.zeros(cells + 1, np.int64)
    digests = [digester(j, values[j * block : (j + 1) * block]) for j in range(2)]
    with pytest.raises(dpfast.errors.ParameterError, match="at most the 70000 cells"):
        key.seal(mechanism, digests, shape=(cells + 1,))
    digests[1] = digester(1, values[block:cells])
    assert key.seal(mechanism, digests, shape=(cells,)).cost.epsilon == 1
