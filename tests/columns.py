# SPDX-License-Identifier: Apache-2.0
"""A record a column library: how one is made, cut and read, and what a release must be."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tiers

from dpfast import DiscreteLaplace, Laplace, adapters

COUNTS, VALUES = DiscreteLaplace(1, 3), Laplace(1, 3)
WIDE = DiscreteLaplace(1, 2**40)  # a cell comes out as it went in with probability 2^-41
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
REALS = ["float32", "float64"]


def fixed(values: Any, mech: Any = COUNTS, **options: Any) -> Any:
    """A release whose noise is always the same."""
    with tiers.fixed_stream():
        return mech.release(values, **options)


class Spy:
    """A mechanism that remembers what reaches the engine, and what the engine makes."""

    def release(self, values: Any, **options: Any) -> Any:
        if type(values) is not np.ndarray:
            return adapters.releaser(values, None)(
                self.release, values, {"dtype": None, "missing": None, "columns": None, **options}
            )
        self.given, self.made = values, (COUNTS if values.dtype.kind in "iu" else VALUES).release(values, **options)
        return self.made


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def failing_kernels(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Plant C that writes the counts into the result and fails; where it wrote."""
    written = []

    def planted(_call: object, _release: object, _start: int, _n: int, x: Any, y: Any, _at: int) -> None:
        y[:] = x
        written.append(y)
        raise RuntimeError("planted")

    tiers.around_c(monkeypatch, planted)
    return written


# ------------------------------------------------------------------ the records


def optional(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError:
        return None


pa, pd, pl, torch = (optional(name) for name in ("pyarrow", "pandas", "polars", "torch"))


@dataclass(frozen=True)
class Library:
    """One library's columns, of one family."""

    name: str
    needs: tuple[Any, ...]  # the modules, None for one that is not installed
    kinds: dict[str, str]  # NumPy's dtypes, and what the family calls them
    column: Callable[
        [Sequence[Any], str, Sequence[int]], Any
    ]  # cells (None: a null) of a kind, in chunks that begin there
    kind: Callable[[Any], str]
    cells: Callable[[Any], list[Any]] = lambda column: column.tolist()
    cut: Callable[[Any, slice], Any] = lambda column, where: column[where]
    memory: Callable[[Any], int] = lambda column: address(column.to_numpy(allow_copy=False))
    kept: Callable[[Any, Any], bool] = lambda noisy, _: isinstance(noisy, pa.Array)
    nullable: list[str] = field(default_factory=lambda: [*INTEGERS, *REALS])  # dtypes whose cells may be missing
    backwards: bool = True  # a slice may run so
    copies: bool = False  # the result, whose memory is the library's own


def in_chunks(cells: Sequence[Any], kind: str, begin: Sequence[int]) -> Any:
    edges = [0, *sorted(begin), len(cells)]
    return pa.chunked_array([cells[a:b] for a, b in pairwise(edges)], pa.type_for_alias(kind))


def arrow_memory(column: Any) -> int:
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


def series(cells: Sequence[Any], kind: str, begin: Sequence[int] = ()) -> Any:
    """A pandas Series with an index, a name and an attribute."""
    index = pd.RangeIndex(5, 5 + 2 * len(cells), 2, name="at")
    if kind.endswith("[pyarrow]"):
        cells = pd.arrays.ArrowExtensionArray(in_chunks(cells, kind.removesuffix("[pyarrow]"), begin))
    made = pd.Series(cells, index=index, name="visits", dtype=kind)
    made.attrs["total"] = 4950
    return made


def pandas_memory(column: Any) -> int:
    if isinstance(column.dtype, pd.ArrowDtype):
        return arrow_memory(column.array.__arrow_array__())
    numpy_dtype = getattr(column.dtype, "numpy_dtype", column.dtype)
    return address(column.to_numpy(dtype=numpy_dtype, copy=False))


def pandas_kept(noisy: Any, column: Any) -> bool:
    """Index and name are the column's; its attributes, which have no noise, are gone."""
    return type(noisy) is pd.Series and noisy.index.is_(column.index) and noisy.name == column.name and not noisy.attrs


def polars_series(cells: Sequence[Any], kind: str, begin: Sequence[int] = ()) -> Any:
    edges = [0, *sorted(begin), len(cells)]
    return pl.concat(
        [pl.Series("visits", cells[a:b], dtype=getattr(pl, kind)) for a, b in pairwise(edges)], rechunk=False
    )


ARROW = {**{name: name for name in INTEGERS}, "float32": "float", "float64": "double"}
NULLABLE = {name: name.replace("int", "Int").replace("u", "U").replace("f", "F") for name in [*INTEGERS, *REALS]}
PANDAS = {"needs": (pa, pd), "column": series, "kind": lambda column: str(column.dtype), "memory": pandas_memory,
          "cut": lambda column, where: column.iloc[where], "kept": pandas_kept}  # fmt: skip
OF_ARROW = {"needs": (pa,), "kinds": ARROW, "kind": lambda column: str(column.type), "memory": arrow_memory,
            "cells": lambda column: column.to_pylist()}  # fmt: skip
LIBRARIES = [
    Library("arrow", column=lambda cells, kind, _=(): pa.array(cells, pa.type_for_alias(kind)), **OF_ARROW),
    Library("arrow-chunks", column=in_chunks, **OF_ARROW,
            kept=lambda noisy, _: isinstance(noisy, pa.ChunkedArray) and noisy.num_chunks == 1),
    Library("pandas", kinds={name: name for name in ARROW}, nullable=REALS, **PANDAS),
    Library("pandas-nullable", kinds=NULLABLE, **PANDAS),
    Library("pandas-arrow", kinds={name: f"{called}[pyarrow]" for name, called in ARROW.items()},
            backwards=False, **PANDAS),  # pandas 2.2 itself fails there
    Library("polars", needs=(pl,), kinds={name: called.replace("Uint", "UInt") for name, called in NULLABLE.items()},
            column=polars_series, kind=lambda column: str(column.dtype), cells=lambda column: column.to_list(), copies=True,
            kept=lambda noisy, column: type(noisy) is pl.Series and noisy.name == column.name),
    Library("torch", needs=(torch,), kinds={name: name for name in ARROW}, nullable=[], backwards=False,
            column=lambda cells, kind, _: torch.tensor([*cells], dtype=getattr(torch, kind)),
            kind=lambda tensor: str(tensor.dtype).removeprefix("torch."), memory=lambda tensor: tensor.data_ptr(),
            kept=lambda noisy, _: isinstance(noisy, torch.Tensor) and not noisy.requires_grad),
]  # fmt: skip


def each(*, dtypes: Sequence[str] = (*INTEGERS, *REALS), nullable: bool = False) -> Any:
    """A mark: a case for each library and dtype; those of absent libraries are skipped."""
    return pytest.mark.parametrize(
        ("library", "dtype"),
        [
            pytest.param(library, dtype, id=f"{library.name}-{dtype}", marks=absent(library))
            for library in LIBRARIES
            for dtype in dtypes
            if dtype in library.nullable or not nullable
        ],
    )


def absent(library: Library) -> Any:
    return pytest.mark.skipif(None in library.needs, reason=f"the library of {library.name} is not installed")


each_library = pytest.mark.parametrize("library", [pytest.param(x, id=x.name, marks=absent(x)) for x in LIBRARIES])


# ------------------------------------------------------------------ what is no column of numbers


def custom() -> Any:
    class Custom(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.int64(), "dpfast.test")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, data: Any) -> Custom:
            return cls()

    return pa.ExtensionArray.from_storage(Custom(), pa.array([91]))


REFUSED: dict[str, list[tuple[Callable[[], Any], str]]] = {
    "arrow": [
        (lambda: pa.table({"b": ["x"]}), "^column 0: a pyarrow column must contain integers or floats"),
        (lambda: pa.scalar(91), "not Int64Scalar$"),
        (lambda: pa.py_buffer(b"91"), "not Buffer$"),
        (lambda: pa.field("a", pa.int64()), "not Field$"),
        (lambda: pa.array([True]), "not bool: "),
        (lambda: pa.nulls(91), "not null$"),
        (lambda: pa.array(["91"]), "not string$"),
        (lambda: pa.array([Decimal("9.1")]), r"not decimal128"),
        (lambda: pa.array(np.ones(2, np.float16)), "not float16"),
        (lambda: pa.array([91]).dictionary_encode(), "not dictionary"),
        (lambda: pa.chunked_array([pa.array([91]).dictionary_encode()]), "not dictionary"),
        (lambda: pa.array([dt.date(1991, 1, 1)]), "not date32"),
        (lambda: pa.array([91], pa.time64("us")), "not time64"),
        (lambda: pa.array([91], pa.timestamp("s")), "not timestamp"),
        (lambda: pa.array([91], pa.duration("s")), "not duration"),
        (lambda: pa.array([[91]]), "not list"),
        (lambda: pa.array([[91]], pa.list_(pa.int64(), 1)), "not fixed_size_list"),
        (lambda: pa.array([{"a": 91}]), "not struct"),
        (custom, "not extension"),
        (lambda: pa.RunEndEncodedArray.from_arrays([1], [91]), "not run_end_encoded"),
    ],
    "pandas": [
        (lambda: pd.DataFrame({"b": ["x"]}), "^column 0: a Series must contain integers or floats"),
        (lambda: pd.Index([91]), "not Index: labels are kept as they are"),
        (lambda: pd.RangeIndex(91), "not RangeIndex: labels are kept as they are"),
        (lambda: pd.DataFrame({"a": [91]}).groupby("a"), "not DataFrameGroupBy"),
        (lambda: pd.array([91, 2]), "not IntegerArray"),
        (lambda: pd.NA, "not NAType"),
        (lambda: pd.Timestamp(91), "not Timestamp"),
        (lambda: pd.Series([91], dtype="category"), "dense, not category$"),
        (lambda: pd.Series([91], dtype="Sparse[int64]"), r"dense, not Sparse\[int64"),
        (lambda: pd.Series([True]), "not bool: "),
        (lambda: pd.Series([True], dtype="boolean"), "not boolean: "),
        (lambda: pd.Series([True], dtype="bool[pyarrow]"), r"not bool\[pyarrow\]: "),
        (lambda: pd.Series([91], dtype=object), "not object: pandas.to_numeric makes numbers of texts$"),
        (lambda: pd.Series([91, None], dtype=object), "not object: pandas.to_numeric makes numbers of texts$"),
        (lambda: pd.Series(["91"]), "not (str|object)(: pandas.to_numeric makes numbers of texts)?$"),
        (lambda: pd.Series([91 + 1j]), "not complex128"),
        (lambda: pd.Series([1], dtype="float16"), "not float16"),
        (lambda: pd.Series([91], dtype="datetime64[ns]"), "not datetime64"),
        (lambda: pd.Series([91], dtype="datetime64[ns, UTC]"), "not datetime64"),
        (lambda: pd.Series([91], dtype="timedelta64[ns]"), "not timedelta64"),
        (lambda: pd.Series(pd.period_range("2024", periods=2, freq="D")), r"not period\[D\]"),
        (lambda: pd.Series(pd.interval_range(0, 91)), "not interval"),
        (lambda: pd.Series([91], dtype=pd.ArrowDtype(pa.decimal128(5, 1))), "not decimal128"),
        (lambda: pd.Series([91], dtype=pd.ArrowDtype(pa.duration("s"))), "not duration"),
        (lambda: pd.Series([91], dtype=pd.ArrowDtype(pa.date32())), "not date32"),
        (lambda: pd.Series(pd.arrays.ArrowExtensionArray(pa.array([91]).dictionary_encode())), "not dictionary"),
    ],
    "polars": [
        (lambda: pl.DataFrame({"b": ["x"]}), "^column 0: a Polars column must contain integers or floats"),
        (lambda: pl.LazyFrame({"a": [91]}), "not LazyFrame: collect it"),
        (lambda: pl.DataFrame({"a": [91]}).group_by("a"), "not GroupBy$"),
        (lambda: pl.Series([True]), "not Boolean: "),
        (lambda: pl.Series([None, None]), "not Null$"),
        (lambda: pl.Series(["91"]), "not String$"),
        (lambda: pl.Series([b"91"]), "not Binary$"),
        (lambda: pl.Series([Decimal("9.1")]), "not Decimal"),
        (lambda: pl.Series(["91"], dtype=pl.Categorical), "not Categorical"),
        (lambda: pl.Series(["91"], dtype=pl.Enum(["91"])), "not Enum"),
        (lambda: pl.Series([dt.date(1991, 1, 1)]), "not Date$"),
        (lambda: pl.Series([dt.timedelta(1)]), "not Duration"),
        (lambda: pl.Series([[91]]), "not List"),
        (lambda: pl.Series([[91]], dtype=pl.Array(pl.Int64, 1)), "not Array"),
        (lambda: pl.Series([{"a": 91}]), "not Struct"),
        (lambda: pl.Series([object()], dtype=pl.Object), "not Object"),
    ],
}
