# SPDX-License-Identifier: Apache-2.0
"""Two inputs never meet one stream key, and one input, in whatever form, always meets its own."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tiers
from layouts import FLOATS, INTEGERS, SWAPPED, layouts

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Key, Laplace, Sensitivity, Snapping
from dpfast.noise.release import blocks, names, seal

ROWS = 3  # a block
LAPLACE = DiscreteLaplace(1, 1)
Laws = dict[str, list[Any]]  # each with its exact parameters, and the ways to write it that are one
INTEGER: Laws = {
    "1": [LAPLACE, DiscreteLaplace("1", 1), DiscreteLaplace(Fraction(1), Sensitivity(l1=1))],
    "2": [DiscreteLaplace(1, 2)],
    "1, told otherwise": [DiscreteLaplace(2, 2)],
    "almost 1": [DiscreteLaplace(Fraction(10**18 + 1, 10**18), 1)],
    "gaussian": [DiscreteGaussian(3), DiscreteGaussian("3")],
    "wider gaussian": [DiscreteGaussian(4)],
}
REAL: Laws = {
    "laplace": [Laplace(1, 1, granularity=2**-10), Laplace("1", 1.0, granularity=Fraction(1, 1024))],
    "finer laplace": [Laplace(1, 1, granularity=2**-11)],
    "laplace, told otherwise": [Laplace(2, 2, granularity=2**-10)],
    "gaussian on a grid": [Gaussian(1, sensitivity=Sensitivity(l0=1, linf=1), granularity=2**-10)],
    "snapping": [Snapping(1, 1, bound=64)],
    "snapping further": [Snapping(1, 1, bound=128)],
}


class Input(NamedTuple):
    """What the page about seals says is sealed, in numbers and texts of Python."""

    law: Any  # its name above, or those of columns
    shape: tuple[int, ...]
    cells: tuple[int | float, ...]
    names: tuple[Any, ...] | None = None
    terms: tuple[Any, ...] = ()  # the clamp, and what stands for a missing value
    label: str = "visits"


Release = Callable[[dpfast.ReleaseKey], object]
Form = tuple[Input, Release]


class Walk:
    """Releases of inputs in many forms, each as in a process of its own, under one key."""

    def __init__(self, forms: Iterator[Form]) -> None:
        self.owner: dict[bytes, tuple[Input, tuple[str, int]]] = {}  # whose a stream key is
        self.keys: dict[Input, dict[tuple[str, int], bytes]] = {}  # what an input has, by column and block
        self.forms, self.shared, self.unequal = 0, list[Any](), list[Any]()
        drawn, real, master = dict[tuple[str, int], bytes](), getattr(seal.Streams, tiers.DRAWN), Key.generate()

        def watched(sealed: Any, column: str, block: int, digest: bytes) -> bytes:
            drawn[column, block] = found = real(sealed, column, block, digest)
            return found

        with pytest.MonkeyPatch.context() as patch, tiers.small_blocks(ROWS):
            patch.setattr(seal.Streams, tiers.DRAWN, watched)
            for given, release in forms:
                tiers.forget_labels()
                drawn.clear()
                release(master.derive(given.label))
                assert len(drawn) >= -(-len(given.cells) // ROWS)
                self._look(given, dict(drawn))

    def _look(self, given: Input, drawn: dict[tuple[str, int], bytes]) -> None:
        self.forms += 1
        if self.keys.setdefault(given, drawn) != drawn:
            self.unequal.append(given)
        for place, key in drawn.items():
            if (other := self.owner.setdefault(key, (given, place))) != (given, place):
                self.shared.append((given, place, *other))


def by_blocks(mech: Any, values: np.ndarray, key: dpfast.ReleaseKey, named: Any = None, **inputs: Any) -> None:
    """As workers do: a digest of each block, one seal, and each block drawn by itself."""
    flat, digester = values.reshape(-1), key.digester(mech, **inputs)
    cuts = [slice(begin, begin + ROWS) for begin in range(0, flat.size, ROWS)]
    parts = [(j, flat[cut], None if named is None else named[cut]) for j, cut in enumerate(cuts)]
    sealed = key.seal(mech, [digester(j, part, names=of) for j, part, of in parts], shape=values.shape)
    for j, part, of in reversed(parts):
        sealed.without_ledger(resume=True).only(j).release(j, part, names=of, **inputs)


def released(mech: Any, values: Any, **options: Any) -> Release:
    return lambda key: mech.release(values, key=key, **options)


def arrays(values: Sequence[int]) -> Iterator[np.ndarray]:
    """In every type of integers that holds them."""
    for dtype in INTEGERS + SWAPPED:
        ends = np.iinfo(dtype)
        if ends.min <= min(values) and max(values) <= ends.max:
            yield np.array(values, dtype)


BASE = (3, 0, 7, 7, 100, 5, 1, 2)
COUNTS: list[tuple[int, ...]] = [
    BASE, BASE[::-1], BASE[:-1], (*BASE, 0), (*BASE[3:6], *BASE[:3], *BASE[6:]), (0,) * 8, (0,) * 7, (0,) * 3, (0,), (1, *(0,) * 7),
    (*(0,) * 7, 1), *((extreme, *BASE[1:]) for extreme in (-1, 255, 256, -256, 2**32 - 1, 2**32, 2**63 - 1, -(2**63))),
    *((extreme, *(0,) * 7) for extreme in (-1, 2**63, 2**64 - 1)), (-1,) * 8, (2**64 - 1,) * 8,
]  # fmt: skip


def counts(laws: Laws = INTEGER) -> Iterator[Form]:
    """Laws, values and types; what becomes of the noisy number, and how it is computed."""
    for (law, ways), values in itertools.product(laws.items(), COUNTS):
        given, every = Input(law, (len(values),), values), list(arrays(values))
        for mech, array in itertools.product(ways[:1], every):
            yield given, released(mech, array)
        for mech in ways:
            yield given, partial(by_blocks, mech, every[-1])
            if max(values) < 2**63:  # NumPy makes floats of larger ones in a list
                yield given, released(mech, list(values))
        for options in ({"dtype": np.int8}, {"dtype": np.uint64}, {"lower": 0, "upper": 9}, {"threads": 2}):
            yield given, released(ways[0], every[0], **options)
        yield given, released(ways[0], every[0], out=np.empty(len(values), np.int32))
    for law, (mech, *_) in laws.items():
        if not isinstance(mech, DiscreteGaussian):  # whose draws take longer by their values
            yield Input(law, (8,), BASE), released(mech, np.array(BASE), constant_time=True)


def shapes() -> Iterator[Form]:
    """Equal cells in other shapes, each in every layout; a number and an array of one."""
    every = (8,), (2, 4), (4, 2), (8, 1), (1, 8), (2, 2, 2), (2, 1, 4)
    for values, shape in itertools.product((BASE, (0,) * 8), every):
        given, array = Input("1", shape, values), np.array(values).reshape(shape)
        for laid in [array, array.astype("u1"), *layouts(array).values(), *layouts(array.astype(np.int16)).values()]:
            yield given, released(LAPLACE, laid)
            yield given, partial(by_blocks, LAPLACE, laid)
    for value in (5, np.int8(5), np.array(5, ">u4")):
        yield Input("1", (), (5,)), released(LAPLACE, value)
    yield Input("1", (1,), (5,)), released(LAPLACE, [5])


def clamped() -> Iterator[Form]:
    """What is noised is sealed, and what the public clamp was; not what it was made from."""
    high = (3, 0, 7, 7, 99, 5, 1, -4)
    for ends in ((0, 9), (0, 8), (-5, 100)):
        noised = tuple(min(max(value, ends[0]), ends[1]) for value in high)
        for values, clamp in itertools.product((high, noised), (ends, list(ends), tuple(map(np.int64, ends)))):
            for kind in (np.int8, np.int64):
                given = Input("1", (8,), noised, terms=("clamp", ends))
                yield given, released(LAPLACE, np.array(values, kind), clamp=clamp)
                yield given, partial(by_blocks, LAPLACE, np.array(values, kind), clamp=clamp)
        yield Input("1", (8,), noised), released(LAPLACE, np.array(noised))
    absent = pd.Series([3, None, 7], dtype="Int64")
    arrow = pa.array([3, None, 7])
    for series in (absent, absent.fillna(0), absent.astype("int64[pyarrow]"), pl.Series(arrow), arrow):
        yield Input("1", (3,), (3, 0, 7), terms=("missing", 0)), released(LAPLACE, series, missing=0)
    yield Input("1", (3,), (3, 0, 7)), released(LAPLACE, [3, 0, 7])


TINY = float(np.float32(1e-45))
REALS = [
    [0.5, -0.0, 1e300, 3.0], [0.5, 0.0, 1e300, 3.0], [0.5, 5e-324, 1e300, 3.0], [0.5, -5e-324, 1e300, 3.0], [3.0, 1e300, 0.0, 0.5],
    [0.5, 0.0, 1e300, np.nextafter(3, 4)], [0.1, TINY, 1.0, 3.0], [0.1, -TINY, 1.0, 3.0], [-0.0] * 4, [0.0] * 3, [1.0] * 4,
    [2.0**-1022, 2.0**-1074, -(2.0**-149), 1.0],
]  # fmt: skip


def reals(laws: Laws = REAL) -> Iterator[Form]:
    """Both floats; negative zeros, denormals, neighbours; clamps, and what is missing.

    A law's parameters change nothing of how values are read: one of each class reads every layout.
    """
    read = {type(mech): law for law, (mech, *_) in reversed(laws.items())}
    for (law, ways), values, dtype in itertools.product(laws.items(), REALS, FLOATS):
        with np.errstate(all="ignore"):
            array = np.array(values).astype(dtype)
        if not np.isfinite(array).all():
            continue
        given, mech = Input(law, array.shape, tuple(float(value) for value in array)), ways[0]
        for each in ways:
            yield given, released(each, array)
        yield given, partial(by_blocks, mech, array)
        if read[type(mech)] != law:
            continue
        for laid in layouts(array).values():
            yield given, released(mech, laid)
        for options in ({"dtype": np.float32}, {"lower": 0.5}, {"threads": 2}, {"out": np.empty(array.shape)}):
            yield given, released(mech, array, **options)
        for series in (pl.Series(array.astype(array.dtype.newbyteorder("="))), pd.Series(array)):
            yield given, released(mech, series)
        noised = tuple(min(max(cell, 0.0), 1.0) for cell in given.cells)
        for clamp in ((0, 1), (0.0, "1"), (Fraction(0), 1.0)):
            yield Input(law, array.shape, noised, terms=("clamp", 0, 1)), released(mech, array, clamp=clamp)
        filled = tuple(0.5 if cell == 0 else other for cell, other in zip(given.cells, noised, strict=True))
        for unknown in (np.nan, np.inf, -np.inf):
            holes, terms = np.where(array == 0, array.dtype.type(unknown), array), ("clamp", 0, 1, "missing", 0.5)
            yield Input(law, array.shape, filled, terms=terms), released(mech, holes, clamp=(0, 1), missing=0.5)


def repeated(texts: Sequence[str]) -> list[str]:
    return [texts[i % len(texts)] for i in range(8)]


NAMES: list[list[int] | list[str]] = [
    [*range(8)], [*range(8)][::-1], [*range(8, 16)], [-1, *range(7)], [2**64 - 1, *range(7)], [-(2**63), *range(7)], [2**63, *range(7)],
    [1] * 8, [256, *range(7)], ["0", *"1234567"], [*"abcdefgh"], [*"hgfedcba"], [*"defabcgh"], ["A", *"bcdefgh"], ["a"] * 8, [""] * 8,
    ["ab", "", *"cdefgh"], ["", "ab", *"cdefgh"], ["a", "b", "cd", "", *"efgh"], ["a", "b", "", "cd", *"efgh"], [*"abcdef", "g", "h\0"],
    [*"abcdef", "g\0", "h"], [*"abcdef", "g", "\0h"], ["\0"] * 8, ["\0\0"] * 8, [*"abcdefg", "h "], [*"abcdefg", "\u00e9"],
    [*"abcdefg", "e\u0301"], [*"abcdefg", "\ud83d\ude00"], [*"abcdefg", "\U0001f600"], [*"abcdefg", "x" * 300],
    repeated(["a", "b"]), repeated(["b", "a"]), repeated(["ab", "a", "b"]), repeated(["a", "ba", "b"]), ["a\1\0\0\0\0\0\0\0", *"bcdefgh"],
]  # fmt: skip


def columns(named: list[Any]) -> Iterator[Any]:
    """One column of names, as its libraries have it."""
    yield from (named, tuple(named), np.array(named, object), pd.Series(named, dtype=object))
    if isinstance(named[0], int):
        yield from arrays(named)
        wide = next(array for array in arrays(named) if array.itemsize == 8)
        yield from (pd.Index(wide), pd.Categorical(wide), pl.Series(wide))
        yield from (pa.array(wide), pa.array(wide).dictionary_encode())
        return
    if not any(text.endswith("\0") for text in named):  # NumPy takes these for the ends of its texts
        yield np.array(named)
    if not any("\ud800" <= letter <= "\udfff" for text in named for letter in text):
        yield from (pd.Categorical(named), pd.Series(named, dtype="string"))
        yield from (pl.Series(named), pl.Series(named, dtype=pl.Categorical))
        for kind in (pa.string(), pa.large_string()):
            yield from (pa.array(named, kind), pa.array(named, kind).dictionary_encode())
            yield pa.chunked_array([named[:3], named[3:]], kind)


def named(cells: Sequence[tuple[int, ...]] = (BASE, (0,) * 8)) -> Iterator[Form]:
    """Names of all kinds in all forms, of equal counts and of others; the index of a Series."""
    for values in cells:
        array = np.array(values)
        yield Input("1", (8,), values), released(LAPLACE, array)
        for dtype in ("i8", "Int64", "uint8[pyarrow]"):
            yield Input("1", (8,), values), released(LAPLACE, pd.Series(array, dtype=dtype))
        yield Input("1", (8,), values), released(LAPLACE, pl.Series(array))
        yield Input("1", (8,), values, tuple(range(8, 16))), released(LAPLACE, pd.Series(array, pd.RangeIndex(8, 16)))
        for of in NAMES:
            given = Input("1", (8,), values, tuple(of))
            for column in columns(of):
                yield given, released(LAPLACE, array, names=column)
            yield given, released(LAPLACE, array.astype("u1"), names=of)
            yield given, released(LAPLACE, pd.Series(array, dtype="int16", index=pd.Index(of, dtype=object)))
            yield given, partial(by_blocks, LAPLACE, array, named=of)
            yield Input("1", (2, 4), values, tuple(of)), released(LAPLACE, array.reshape(2, 4), names=of)


def frames() -> Iterator[Form]:
    """Cells are sealed with the names of their rows and columns, which may be traded."""
    headers, bodies = (["a", "b"], ["b", "a"], ["a", "a b"], ['a"', "b"]), ([[5, 5], [5, 5]], [[5, 6], [7, 8]])
    for across, cells in itertools.product(headers, bodies):
        data, flat = dict(zip(across, cells, strict=True)), tuple(cells[0] + cells[1])
        for index in ([0, 1], [1, 0], ["0", "1"], ["x", "y"], ["y", "x"], [("x", 1), ("y", 2)], [("x", 1), ("y", 1)]):
            of = tuple((column, row) for column in across for row in index)
            frame, given = pd.DataFrame(data), Input("frame", (2, 2), flat, of)
            frame.index = pd.Index(index)  # pairs make a MultiIndex
            every = [frame, frame.astype(np.int8), frame.astype("Int64"), frame[across[::-1]]]
            if index == [0, 1]:
                every += [pd.DataFrame(data), pl.DataFrame(data), pa.table(data), pl.DataFrame(data)[across[::-1]]]
            for each in every:
                yield given, released(LAPLACE, each, columns=across)
    for across in ([0, 1], ["0", "1"]):
        of = tuple((column, row) for column in across for row in (0, 1))
        frame = pd.DataFrame({column: [5, 5] for column in across})
        yield Input("frame", (2, 2), (5,) * 4, of), released(LAPLACE, frame, columns=across)


def tables() -> Iterator[Form]:
    """All columns of a table are one input, in their order; an array is none."""

    def table(of: dict[str, Any], cells: dict[str, Any], named: Any, key: dpfast.ReleaseKey) -> None:
        parts = [(name, j, slice(j * ROWS, j * ROWS + ROWS)) for name in of for j in range(2)]
        digesters = {name: key.digester(of[name], column=name) for name in of}
        made = [digesters[name](j, cells[name][cut], names=named and named[cut]) for name, j, cut in parts]
        sealed = key.seal(of, made[::-1], shape=(4,)).without_ledger()
        for name, j, cut in parts:
            sealed.release(j, cells[name][cut], column=name, names=named and named[cut])

    for across, laws, cells, of in itertools.product(
        (("a", "b"), ("b", "a"), ("a", "bb"), ("aa", "b"), ("", "a"), ("a",), ("b",), ("",)),
        (("1", "1"), ("1", "2"), ("2", "1")),
        (((0,) * 4, (0,) * 4), ((1, 2, 3, 4), (0,) * 4), ((0,) * 4, (1, 2, 3, 4))),
        (None, (1, 2, 3, 4), (2, 1, 3, 4), (1, 2, 4, 3)),
    ):
        n = len(across)
        given = Input((across, laws[:n]), (4,), tuple(itertools.chain(*cells[:n])), of)
        by_name = {name: INTEGER[law][0] for name, law in zip(across, laws, strict=False)}
        for kind in (np.int8, np.uint64):
            arrays_of = {name: np.array(part, kind) for name, part in zip(across, cells, strict=False)}
            yield given, partial(table, by_name, arrays_of, of)
    for law in ("1", "2"):
        yield Input(law, (4,), (0,) * 4), released(INTEGER[law][0], [0] * 4)


def labels() -> Iterator[Form]:
    for label in ("visits", "visits ", "Visits", "visits2", "visit", "\u00e9", "e\u0301", "v"):
        for values in ((0,) * 4, (1,) * 4):
            given = Input("1", (4,), values, label=label)
            yield given, released(LAPLACE, list(values))
            yield given, partial(by_blocks, LAPLACE, np.array(values))


WALKS = counts, shapes, clamped, reals, named, frames, tables, labels
ONE, ONE_REAL, NAMED = (
    partial(counts, {"1": [LAPLACE]}),
    partial(reals, {"laplace": REAL["laplace"]}),
    partial(named, [BASE]),
)
FEW = ONE, shapes, clamped, ONE_REAL, NAMED, frames, labels


@pytest.mark.parametrize(
    ("walks", "keys"),
    [pytest.param(FEW, 200, id="few walks"), pytest.param(WALKS, 2000, id="all walks", marks=pytest.mark.slow)],
)
def test_no_two_inputs_share_a_stream_key(walks: Any, keys: int) -> None:
    """Walks are one: their inputs differ, too."""
    walk = Walk(itertools.chain.from_iterable(forms() for forms in walks))
    assert (walk.shared[:3], walk.unequal[:3]) == ([], [])
    assert len(walk.owner) == sum(map(len, walk.keys.values())) > keys
    assert walk.forms > 3 * len(walk.keys)


def forgetting(field: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A manifest that leaves this field out of what a key is derived from."""
    real, fields = seal.Manifest.encoded, inspect.signature(seal.Manifest).parameters

    def encoded(about: seal.Manifest) -> bytes:
        return real(seal.Manifest(*[() if name == field else getattr(about, name) for name in fields]))

    return lambda patch: patch.setattr(seal.Manifest, "encoded", encoded)


def no_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(names.Names, "fields", lambda *_: [])


def no_lengths(patch: pytest.MonkeyPatch) -> None:
    real = names.Names.fields
    patch.setattr(names.Names, "fields", lambda *at: real(*at)[::2])


def bytes_alone(patch: pytest.MonkeyPatch) -> None:
    """As if -1 were 2^64 - 1."""
    real = names.words_of
    for module in (blocks, names, seal):
        patch.setattr(module, "words_of", lambda array: ("integers", real(array)[1]))


def types_told(patch: pytest.MonkeyPatch) -> None:
    """Unsigned is not signed, although the numbers are equal."""
    real = names.words_of
    for module in (blocks, names, seal):
        patch.setattr(module, "words_of", lambda array: (array.dtype.kind, real(array)[1]))


def rounded(patch: pytest.MonkeyPatch) -> None:
    """The nearest float32 stands for a double."""
    real = seal.block_digest

    def short(secret: bytes, column: str, block: int, fields: list[Any]) -> bytes:
        with np.errstate(over="ignore"):
            return real(secret, column, block, [fields[0], fields[1].view("f8").astype("f4").view("u1"), *fields[2:]])

    patch.setattr(seal, "block_digest", short)


@pytest.mark.parametrize(
    ("walk", "plant", "found"),
    [
        pytest.param(counts, forgetting("columns"), "shared", id="counts without the law"),
        pytest.param(ONE, bytes_alone, "shared", id="counts as bytes alone"),
        pytest.param(ONE, types_told, "unequal", id="counts with their types"),
        pytest.param(shapes, forgetting("size"), "shared", id="no shape"),
        pytest.param(clamped, forgetting("terms"), "shared", id="no clamp"),
        pytest.param(NAMED, no_names, "shared", id="no names"),
        pytest.param(NAMED, no_lengths, "shared", id="texts without lengths"),
        pytest.param(NAMED, bytes_alone, "shared", id="names as bytes alone"),
        pytest.param(NAMED, types_told, "unequal", id="names with their types"),
        pytest.param(frames, no_names, "shared", id="no names of a frame"),
        pytest.param(tables, forgetting("columns"), "shared", id="no names of columns"),
        pytest.param(ONE_REAL, rounded, "shared", id="reals as float32"),
    ],
)
def test_a_planted_defect_is_found(walk: Any, plant: Any, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    seen = Walk(walk())
    assert [kind for kind in ("shared", "unequal") if getattr(seen, kind)] == [found]
