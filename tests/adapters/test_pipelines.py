# SPDX-License-Identifier: Apache-2.0
"""What pipelines hand over is taken, or the refusal names a cast, which is run here and helps."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpfast
from dpfast import DiscreteLaplace
from dpfast.errors import DTypeError, ParameterError, UnusableValuesError

duckdb = pytest.importorskip("duckdb")

SILENT = DiscreteLaplace(epsilon=2**40, sensitivity=1)  # no draw but 0 in the life of a test
DECIMALS = [pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(60, 2)]
WHOLE, DAYS = [decimal.Decimal(5), decimal.Decimal(-3)], [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.sql("create table t as select * from (values ('BOS', 2), ('ANC', 3), ('BOS', 3)) t(dest, n)")
    return made


def listed(noisy) -> list:
    """The cells of one column, of any library."""
    if isinstance(noisy, dict):
        return np.asarray(next(iter(noisy.values()))).tolist()
    if isinstance(noisy, (pa.Table, pl.DataFrame)):
        return noisy.to_pandas().iloc[:, 0].tolist() if isinstance(noisy, pa.Table) else noisy.to_series().to_list()
    return noisy.to_pylist() if hasattr(noisy, "to_pylist") else list(noisy)


# ------------------------------------------------------------------ counts


@pytest.mark.parametrize("way", ["relation", "arrow", "reader", "to_arrow_table", "pl"])
def test_sums_of_duckdb_are_counts(rows, way) -> None:
    """HUGEINT, which Arrow has as a decimal without places; a reader is read once, if at all."""
    query = "select dest, sum(n) s, count(*) c from t group by dest order by dest"
    found = rows.sql(query)
    found = {"relation": lambda: found, "reader": lambda: found.to_arrow_table().to_reader(), "pl": found.pl}.get(
        way, getattr(found, "arrow" if way == "arrow" else "to_arrow_table")
    )()
    with pytest.raises(ParameterError, match=r"column 'dest' would get noise too: .*, columns=\['s', 'c'\]"):
        SILENT.release(found)
    assert listed(SILENT.release(found, columns=["s"])) == [3, 5]


class Capsule:
    """A column that another library hands over, of which nothing else is known."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.column.__arrow_c_array__(requested_schema)


def test_whole_decimals_are_counts_and_one_beyond_64_bits_is_refused() -> None:
    for kind in (pa.decimal128(38, 0), pa.decimal128(5, 0), pa.decimal256(60, 0)):
        assert listed(SILENT.release(pa.array(WHOLE, kind))) == [5, -3]
    for kind, end in ((pa.decimal32(9, 0), 10**9 - 1), (pa.decimal32(1, 0), 9), (pa.decimal64(18, 0), 10**18 - 1)):
        for values in (column := pa.array([*WHOLE, end, -end], kind), pa.chunked_array([column]), Capsule(column)):
            assert listed(SILENT.release(values)) == [5, -3, end, -end]
        assert SILENT.release(pd.Series(pd.arrays.ArrowExtensionArray(column))).tolist() == [5, -3, end, -end]
        assert listed(SILENT.release(Capsule(pa.array([*WHOLE, None], kind)), missing=0)) == [5, -3, 0]
    whole = pl.Series(WHOLE, dtype=pl.Decimal(38, 0))
    assert SILENT.release(whole).to_list() == SILENT.release(pl.Series([5, -3], dtype=pl.Int128)).to_list() == [5, -3]
    assert SILENT.release(pd.Series(pd.array(WHOLE, dtype=pd.ArrowDtype(pa.decimal128(38, 0))))).tolist() == [5, -3]
    for beyond in (2**63, -(2**63) - 1, 10**37):
        for column in (
            pa.array([0, beyond], pa.decimal128(38, 0)),
            pl.Series(pa.array([0, beyond], pa.decimal128(38, 0))),
            pl.Series(pa.array([0, beyond], pa.decimal128(38, 0))).cast(pl.Int128),
            duckdb.sql(f"select * from (values (0::hugeint), ({beyond}::hugeint)) t(n)"),
        ):
            with pytest.raises(
                UnusableValuesError, match="^counts must fit int64, and one in a column of more bits"
            ) as told:
                SILENT.release(column)
            assert str(abs(beyond)) not in str(told.value)
    for end in (2**63 - 1, -(2**63)):
        assert listed(SILENT.release(duckdb.sql(f"select {end}::hugeint as n"))) == [end]


def test_whole_decimals_with_nulls() -> None:
    """A null is the missing number, whatever bytes lie in its place."""
    column = pa.array([*WHOLE, None], pa.decimal128(38, 0))
    for values in (column, pl.Series(column), duckdb.sql("select * from (values (5::hugeint), (-3), (null)) t(n)")):
        with pytest.raises(UnusableValuesError, match="must not contain nulls; missing="):
            SILENT.release(values)
        assert listed(SILENT.release(values, missing=0)) == [5, -3, 0]


def test_counts_with_gaps_come_as_doubles() -> None:
    """What pandas makes of an empty cell; nothing but whole numbers, with one double each."""
    rows = pd.DataFrame({"k": ["a", "b", "a"], "c": ["x", "y", "x"], "v": 1})
    pivot = rows.pivot_table(index="k", columns="c", values="v", aggfunc="count")
    noisy = SILENT.release(pivot, missing=0)
    assert noisy.to_numpy().tolist() == [[2, 0], [0, 1]]
    assert set(noisy.dtypes) == {np.dtype(np.int64)}
    mixed = pd.DataFrame({"x": [2, 3], "y": [np.nan, 1.0]}, index=["a", "b"])
    assert SILENT.release(mixed, missing=0).to_numpy().tolist() == [[2, 0], [3, 1]]
    for column in (
        np.array([2.0, np.nan]),
        [2.0, np.nan],
        pd.Series([2.0, None]),
        pl.Series([2.0, None]),
        pa.array([2.0, None]),
    ):
        assert listed(SILENT.release(column, missing=0)) == [2, 0]
        with pytest.raises(DTypeError, match="missing=0 takes float64 with gaps"):
            SILENT.release(column)
    big = np.array([2.0**53 - 1, 1 - 2.0**53], ">f8")
    assert SILENT.release(big, missing=0).tolist() == [2**53 - 1, 1 - 2**53]
    for wrong in (0.5, 2.0**53, 2.0**53 + 2, -np.inf, np.inf):
        with pytest.raises(UnusableValuesError, match="^counts in float64 must be whole numbers below"):
            SILENT.release(np.array([1, wrong]), missing=0)
    for kind in (np.float32, np.float16, np.complex128):  # a float32 has one double each up to 2^24 alone
        with pytest.raises(DTypeError, match="must be of an integer dtype"):
            SILENT.release(np.ones(2, kind), missing=0)
    with pytest.raises(DTypeError, match="make no array of one kind"):
        SILENT.release(mixed.astype({"y": np.float32}), missing=0)


def test_gaps_follow_the_rules_of_missing(tmp_path) -> None:
    """0 is free, others need the clamp; a refusal is on record, at no cost; seals are integers'."""
    gaps = np.array([7.0, np.nan])
    with pytest.raises(ParameterError, match="^missing must come with clamp"):
        SILENT.release(gaps, missing=3)
    law = DiscreteLaplace(2**40, dpfast.Sensitivity(1, 5))
    assert law.release(gaps, missing=9, clamp=(4, 6)).tolist() == [6, 6]
    ledger = dpfast.Ledger(tmp_path / "gaps.db", 2**41, create=True)
    with pytest.raises(UnusableValuesError):
        ledger.release(SILENT, np.array([0.5]), missing=0)
    assert ledger.spent.epsilon == 0
    key = dpfast.Key.from_bytes(bytes(range(32))).derive("gaps")
    one = DiscreteLaplace(Fraction(1, 1000), 1)
    first = ledger.release(one, gaps, missing=0, key=key)
    assert (ledger.release(one, np.array([7, 0]), missing=0, key=key, resume=True) == first).all()


@pytest.mark.parametrize(
    ("values", "cast"),
    [
        (pa.array([True, False]), "column.cast('int64')"),
        *((pa.array([decimal.Decimal(7)], kind), "column.cast(pyarrow.decimal128(38, 0))") for kind in DECIMALS),
        *(
            (
                pd.Series(pd.arrays.ArrowExtensionArray(pa.array([decimal.Decimal(7)], kind))),
                "column.astype(pandas.ArrowDtype(pyarrow.decimal128(38, 0)))",
            )
            for kind in DECIMALS
        ),
        (pd.Series(pd.arrays.ArrowExtensionArray(pa.array([True]))), "column.astype('int64')"),
        (pl.Series([True]), "column.cast(pl.Int64)"),
        (pl.Series([decimal.Decimal("1.00")], dtype=pl.Decimal(9, 2)), "column.cast(pl.Int64)"),
        (pd.Series([True]), "column.astype('int64')"),
        (pd.Series(["1"]), "pandas.to_numeric(column)"),
        (np.array([True]), "np.array(column, 'int64')"),
        ([True, False], "np.array(column, 'int64')"),
        (np.array([1.0]), "column.astype('int64')"),
        ([decimal.Decimal(1), Fraction(2)], "np.array(column, 'int64')"),
        (Counter("aab"), "list(column.values())"),
        ({"a": 1}, "list(column.values())"),
    ],
)
def test_a_refusal_of_counts_names_the_cast_that_helps(values, cast) -> None:
    with pytest.raises(DTypeError) as told:
        SILENT.release(values)
    said = cast.replace("column.values", "counts.values").replace("np.array(column", "np.array(values")
    assert said.removeprefix("column.").removesuffix("(column)") in str(told.value)
    made = eval(cast, {"column": values, "np": np, "pl": pl, "pandas": pd, "pyarrow": pa})
    assert listed(SILENT.release(made))


SEVENS = [decimal.Decimal(7), decimal.Decimal(2)]
VALUES = {
    "booleans": ([True, False], 1),
    "booleans of NumPy": (np.array([True, False]), 1),
    "booleans of pandas": (pd.Series([True, False], dtype="boolean"), 1),
    "booleans of Polars": (pl.Series([True, False]), 1),
    "booleans of Arrow": (pa.array([True, False]), 1),
    "decimals": (SEVENS, 9),
    **{f"{kind} of Arrow": (pa.array(SEVENS, kind), 9) for kind in DECIMALS},
    "decimals of pandas": (pd.Series(SEVENS), 9),
    "decimals of Polars": (pl.Series(SEVENS), 9),
    "wide integers": (pl.Series([7, 2], dtype=pl.Int128), 9),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_refusal_of_values_of_rows_names_the_cast_that_helps(kind) -> None:
    values, total = VALUES[kind]
    how = {"domain": [1], "lower": 0, "upper": 9, "granularity": 1}
    with pytest.raises(DTypeError, match="^values must be of integers, float64 or float32, not ") as told:
        dpfast.bounded_histogram([1, 1], dpfast.EACH_ROW, values=values, **how)
    cast = re.search(r": (.*?\)) (?:makes|takes) ", str(told.value))
    assert cast, str(told.value)
    made = eval(cast[1], {"values": values, "np": np, "polars": pl})
    assert dpfast.bounded_histogram([1, 1], dpfast.EACH_ROW, values=made, **how).counts.tolist() == [total]


def test_what_is_no_column_yet_says_how_it_becomes_one(rows) -> None:
    lazy = pl.LazyFrame({"n": [1, 2]})
    with pytest.raises(DTypeError, match="not LazyFrame: collect it"):
        SILENT.release(lazy)
    dataset = pytest.importorskip("pyarrow.dataset").dataset(pa.table({"n": [1]}))
    with pytest.raises(DTypeError, match=r"not InMemoryDataset: give it as \.to_table\(\)"):
        SILENT.release(dataset)
    with pytest.raises(DTypeError, match=r"cast it, such as sum\(x\)::bigint in DuckDB"):
        SILENT.release(rows.sql("select sum(n)::decimal(9, 2) s from t"))
    for keys, how in (
        (lazy, ".collect() it first"),
        (rows.sql("select dest from t"), "give .to_arrow_table(), or a column of it"),
        (rows.sql("select dest, n from t"), "give .to_arrow_table(), or a column of it"),
        (pa.table({"n": [1]}).to_reader(), "give .read_all(), or a column of it"),
        ((key for key in "aab"), "give list(…) of it"),
    ):
        for options in ({"domain": ["a"]}, {"domain": [("a", 2)]}, {}):
            with pytest.raises(DTypeError, match=f"^keys must be a column of .*: {re.escape(how)}$"):
                dpfast.bounded_histogram(keys, [1, 2, 3], max_contributions=1, **options)
    with pytest.raises(DTypeError, match="unit_ids must be a column of .*LazyFrame: .collect"):
        dpfast.bounded_histogram(["a"], lazy, max_contributions=1)


# ------------------------------------------------------------------ keys and units


def of_arrow(column: pa.Array) -> pd.Series:
    """A Series of Arrow's type."""
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


TIMES = [dt.time(5), dt.time(6)]
IDS = [uuid.UUID(int=i) for i in (7, 9)]
BYTES = [b"\x01\xff", b"\x00"]
STAMPS = [dt.datetime.fromisoformat(text) for text in ("2024-01-01T05:00", "2024-01-02T06:00")]
NAMES = {
    "days": (DAYS, ["2024-01-01", "2024-01-02"]),
    "days of NumPy": (np.array(DAYS, "M8[D]"), ["2024-01-01", "2024-01-02"]),
    "days of pandas": (pd.Series(pd.to_datetime(DAYS)), ["2024-01-01", "2024-01-02"]),
    "days of Polars": (pl.Series(DAYS), ["2024-01-01", "2024-01-02"]),
    "days of Arrow": (pa.array(DAYS), ["2024-01-01", "2024-01-02"]),
    "days of Arrow in pandas": (of_arrow(pa.array(DAYS)), ["2024-01-01", "2024-01-02"]),
    "categories": (pd.Series(DAYS).astype("category"), ["2024-01-01", "2024-01-02"]),
    "timestamps": (STAMPS, ["2024-01-01", "2024-01-02"]),
    "timestamps of NumPy": (np.array(STAMPS, "M8[ns]"), ["2024-01-01", "2024-01-02"]),
    "timestamps of pandas": (pd.Series(STAMPS).dt.tz_localize("Europe/Berlin"), ["2024-01-01", "2024-01-02"]),
    "timestamps of Polars": (pl.Series(STAMPS), ["2024-01-01", "2024-01-02"]),
    "timestamps of Arrow": (pa.chunked_array([STAMPS]), ["2024-01-01", "2024-01-02"]),
    "timestamps of Arrow in pandas": (of_arrow(pa.array(STAMPS)), ["2024-01-01", "2024-01-02"]),
    "times": (TIMES, ["05:00:00", "06:00:00"]),
    "times of Polars": (pl.Series(TIMES), ["05:00:00", "06:00:00"]),
    "times of Arrow": (pa.array(TIMES), ["05:00:00", "06:00:00"]),
    "times of Arrow in pandas": (of_arrow(pa.array(TIMES)), ["05:00:00", "06:00:00"]),
    "bins": (pd.cut([1, 2], [0, 1, 2]), ["(0, 1]", "(1, 2]"]),
    "weeks": (pd.Series(pd.to_datetime(DAYS)).dt.to_period("D"), ["2024-01-01", "2024-01-02"]),
    "booleans": ([True, False], [1, 0]),
    "booleans of NumPy": (np.array([True, False]), [1, 0]),
    "booleans of pandas": (pd.Series([True, False], dtype="boolean"), [1, 0]),
    "booleans of Polars": (pl.Series([True, False]), [1, 0]),
    "booleans of Arrow": (pa.array([True, False]), [1, 0]),
    "booleans of Arrow in pandas": (of_arrow(pa.array([True, False])), [1, 0]),
    "UUIDs of Polars": (pl.Series(IDS, dtype=pl.Object), [str(each) for each in IDS]),
    "UUIDs of NumPy": (np.array(IDS), [str(each) for each in IDS]),
    "UUIDs of Arrow": (pa.array([each.bytes for each in IDS], pa.uuid()), [str(each) for each in IDS]),
    "UUIDs of Arrow in pandas": (
        of_arrow(pa.array([each.bytes for each in IDS], pa.uuid())),
        [str(each) for each in IDS],
    ),
    "UUIDs": (IDS, [str(each) for each in IDS]),
    "UUIDs of pandas": (pd.Series(IDS), [str(each) for each in IDS]),
    "bytes": (BYTES, ["01ff", "00"]),
    "bytes of NumPy": (np.array([b"\x01\xff", b"\x02\x03"]), ["01ff", "0203"]),
    "bytes of Polars": (pl.Series(BYTES), ["01ff", "00"]),
    "bytes of pandas": (pd.Series(BYTES), ["01ff", "00"]),
    "bytes of Arrow": (pa.array(BYTES), ["01ff", "00"]),
    "bytes of Arrow in pandas": (of_arrow(pa.array(BYTES)), ["01ff", "00"]),
    "decimals": (WHOLE, [5, -3]),
    "decimals of Arrow": (pa.array(WHOLE, pa.decimal128(38, 0)), [5, -3]),
    "decimals of 32 bits": (pa.array(WHOLE, pa.decimal32(5, 0)), [5, -3]),
    "decimals of 64 bits": (pa.chunked_array([WHOLE], pa.decimal64(9, 0)), [5, -3]),
    "decimals of Polars": (pl.Series(WHOLE, dtype=pl.Decimal(38, 0)), [5, -3]),
    "wide integers": (pl.Series([5, -3], dtype=pl.Int128), [5, -3]),
    "floats": (pd.Series([5.0, -3.0]), [5, -3]),
    "floats of a list": ([5.0, -3.0], [5, -3]),
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_refusal_of_names_has_the_cast_that_helps(kind) -> None:
    """For keys, the domain and unit ids, in the caller's words; then all of them agree."""
    values, names = NAMES[kind]
    calls = SimpleNamespace(
        keys=lambda each: dpfast.bounded_histogram(each, [1, 2], domain=names, max_contributions=1),
        domain=lambda each: dpfast.bounded_histogram(names, [1, 2], domain=each, max_contributions=1),
        unit_ids=lambda each: dpfast.bounded_histogram(["a", "a"], each, domain=["a"], max_contributions=1),
    )
    for name, call in vars(calls).items():
        with pytest.raises(DTypeError, match=f"^{name} must") as told:
            call(values)
        cast = re.search(r": (\[.*\]) makes names of", str(told.value))
        assert cast, str(told.value)
        made = eval(cast[1], {name: values})
        assert made == names
        assert call(made).counts.tolist() == ([2] if name == "unit_ids" else [1, 1])


def test_missing_names_are_to_be_filled() -> None:
    for keys in (["a", None], pd.Series(["a", None], dtype=object), pd.Series(["a", None]), pa.array(["a", None]), pl.Series(["a", None]),
                 pa.array([1, None]), pl.Series([1, None]), pd.Series([1, None], dtype="Int64"), pl.Series([None, None])):  # fmt: skip
        with pytest.raises(DTypeError, match="none missing.*: fill those with a name of their own, such as 'unknown'"):
            dpfast.bounded_histogram(keys, [1, 2], domain=["a"], max_contributions=1)


@pytest.mark.parametrize(
    "keys",
    [
        pd.Series([[1], [2]]),
        pd.Series([{}, {}]),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array(["a", "b"], pa.string_view()).dictionary_encode(),
        of_arrow(pa.array([[1], [2]])),
    ],
    ids=lambda keys: f"{type(keys).__name__} {getattr(keys, 'type', getattr(keys, 'dtype', ''))}",
)
def test_what_has_no_cast_is_refused_in_our_words(keys) -> None:
    """Neither pandas nor Arrow finds their distinct ones, and each says so in its own way."""
    with pytest.raises(DTypeError, match="^keys must .* integers or strings, all of one kind and none missing"):
        dpfast.bounded_histogram(keys, [1, 2], domain=["a"], max_contributions=1)


def test_a_granularity_that_is_none_says_the_next() -> None:
    for wrong, below in ((0.01, -7), (3, 1), ("1/3", -2), (5, 2), (0.75, -1)):
        with pytest.raises(
            ParameterError, match=rf"must be a power of two, got .*: the next below it is 2\*\*{below}$"
        ):
            dpfast.Laplace(1, 1, granularity=wrong)


# ------------------------------------------------------------------ tables of counts


def test_a_count_by_key_keeps_its_key(rows) -> None:
    """columns= says that the keys are published; what has noise is the count alone."""
    table = rows.sql("select dest, count(*) as n from t group by dest order by dest").to_arrow_table()
    noisy = table.set_column(1, "n", SILENT.release(table["n"]))
    assert noisy.to_pydict() == {"dest": ["ANC", "BOS"], "n": [1, 2]}
    months = pd.DataFrame({"month": [1, 1, 2]}).groupby("month").size().reset_index(name="n")
    months["n"] = SILENT.release(months, columns=["n"])["n"]
    assert months.to_dict("list") == {"month": [1, 2], "n": [2, 1]}
