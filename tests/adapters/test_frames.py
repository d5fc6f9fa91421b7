# SPDX-License-Identifier: Apache-2.0
"""Frames of pandas, pyarrow and Polars: a frame in, a frame out, all cells one vector."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from columns import COUNTS, VALUES, WIDE, fixed

import dpfast
from dpfast.errors import DTypeError, KeyReuseError, OtherInputError, ParameterError, UnusableValuesError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # OpenDP may have been here before
    importlib.import_module("dpfast.adapters.polars")

NUMBERS = {"a": [10, 20, 30], "b": [40, 50, 60]}
MADE = {
    "pandas": pd.DataFrame,
    "arrow table": pa.table,
    "arrow batch": pa.RecordBatch.from_pydict,
    "polars": pl.DataFrame,
}
ALL = {"columns": ["a", "b"]}
each = pytest.mark.parametrize("made", MADE.values(), ids=MADE)


def columns_of(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, pd.DataFrame):
        return frame.to_dict("list")
    return frame.to_pydict() if hasattr(frame, "to_pydict") else frame.to_dict(as_series=False)


@each
def test_all_cells_are_one_vector(made) -> None:
    """The noise is that of one array; the input keeps its cells."""
    frame = made(NUMBERS)
    noisy = fixed(frame, **ALL)
    assert type(noisy) is type(frame)
    expected = fixed(np.array(list(NUMBERS.values())))
    assert columns_of(noisy) == dict(zip("ab", expected.tolist(), strict=True))
    assert columns_of(frame) == NUMBERS
    assert columns_of(fixed(made({name: [0.5, 1.5] for name in "ab"}), VALUES, **ALL)).keys() == {"a", "b"}
    assert columns_of(fixed(made({"a": np.array([], np.int64)}))) == {"a": []}


@each
def test_one_charge(made, tmp_path) -> None:
    ledger = dpfast.Ledger(tmp_path / "budget.db", epsilon=3, create=True)
    ledger.release(dpfast.DiscreteLaplace(1, 1), made(NUMBERS), label="q", **ALL)
    assert ledger.spent.epsilon == 1
    with pytest.raises(DTypeError):
        ledger.release(dpfast.DiscreteLaplace(1, 1), made({"a": [1], "b": ["x"]}), **ALL)
    assert len(list(ledger.history())) == 1


@each
def test_columns_of_several_types(made) -> None:
    """They become the least type that holds them all; without one they are refused."""
    mixed = made({"a": np.array([1], np.int8), "b": np.array([2**40], np.int64), "c": np.array([3], np.uint32)})
    assert columns_of(WIDE.release(mixed, columns=["a", "b", "c"])).keys() == {"a", "b", "c"}
    most = 2**64 - 1
    unsigned = made({"a": np.array([most], np.uint64), "b": np.array([1], np.uint8)})
    assert columns_of(fixed(unsigned, dtype="u8", lower=most, **ALL))["a"] == [most]
    for bad in (
        {"a": np.array([91]), "b": np.array([0.5])},
        {"a": np.array([91], np.uint64), "b": np.array([91])},
        {"a": np.array([91]), "b": ["91"]},
    ):
        for mechanism in (COUNTS, VALUES):
            with pytest.raises(DTypeError, match="A frame is released as one vector") as caught:
                mechanism.release(made(bad), **ALL)
            assert "91" not in str(caught.value)
    with pytest.raises(DTypeError, match="there is no column"):
        COUNTS.release(made({}))


@each
def test_a_key_seals_rows_and_columns(made) -> None:
    """A retry is the same release; of other cells or of other labels it is refused."""
    key = dpfast.Key.generate().derive("visits")
    noisy = COUNTS.release(made(NUMBERS), key=key, **ALL)
    assert columns_of(COUNTS.release(made(NUMBERS), key=key, resume=True, **ALL)) == columns_of(noisy)
    with pytest.raises(KeyReuseError):
        COUNTS.release(made(NUMBERS), key=key, **ALL)
    for other in ({"a": [10, 20, 31], "b": [40, 50, 60]}, {"a": [10, 20, 30], "c": [40, 50, 60]}):
        with pytest.raises(OtherInputError):
            COUNTS.release(made(other), key=key, resume=True, columns=list(other))
    with pytest.raises(ParameterError, match="^names must be left out for a frame"):
        COUNTS.release(made(NUMBERS), key=dpfast.Key.generate().derive("v"), names=["a"] * 6, **ALL)


@each
def test_nulls_need_a_number(made) -> None:
    holes = {"a": pa.array([1, None]), "b": pa.array([3, 4])}
    if made is pd.DataFrame:
        holes = {name: pd.array(cells.to_pylist(), dtype="Int64") for name, cells in holes.items()}
    with pytest.raises(UnusableValuesError):
        COUNTS.release(made(holes), **ALL)
    assert columns_of(fixed(made(holes), missing=0, **ALL)) == columns_of(
        fixed(made({"a": [1, 0], "b": [3, 4]}), **ALL)
    )


@pytest.mark.parametrize("other", [[True, False], pd.to_datetime(["2026", "2027"]), pd.to_timedelta([1, 2])], ids=str)
@pytest.mark.parametrize("beside", [[91, 92], pd.to_datetime(["2026", "2027"])], ids=str)
def test_a_column_of_another_kind_is_refused_by_its_place(other, beside) -> None:
    """Booleans beside integers were released as counts, and dates were NumPy's error."""
    with pytest.raises(
        DTypeError, match=r"^column [01]: a Series must contain integers or floats, dense, not (bool|date|time)"
    ):
        COUNTS.release(pd.DataFrame({"a": beside, "b": other}), **ALL)


# ------------------------------------------------------------------ which columns get noise

SHOPS = {"shop": [1, 2, 7], "n": [120, 80, 3]}
DOORS: dict[str, Any] = {
    "release": lambda frame, _: COUNTS.release(frame),
    "real": lambda frame, _: VALUES.release(frame),
    "under a key": lambda frame, _: COUNTS.release(frame, key=new_key()),
    "ledger": lambda frame, ledger: ledger.release(COUNTS, frame),
    "ledger under a key": lambda frame, ledger: ledger.release(COUNTS, frame, key=new_key()),
    "digester": lambda frame, _: new_key().digester(COUNTS)(0, frame),
    "sealed": lambda frame, _: sealed_of_shops().release(0, frame),
}
KINDS = {**MADE, "capsules": lambda columns: OfStream(pa.table(columns))}


class OfStream:
    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def new_key() -> dpfast.ReleaseKey:
    return dpfast.Key.generate().derive("shops")


def sealed_of_shops() -> Any:
    key = new_key()
    return key.seal(COUNTS, [key.digester(COUNTS)(0, [*range(6)])], shape=(6,)).without_ledger()


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_a_column_of_keys_gets_no_noise_unasked(made, door, tmp_path) -> None:
    """Shop 2 came back as shop 3. The refusal has the line to write, and nothing is charged."""
    ledger = dpfast.Ledger(tmp_path / "l.db", epsilon=9, create=True)
    line = r"^columns must name .* column 'shop' would get noise too: noisy = release\(frame, columns=\['n'\]\)"
    with pytest.raises(ParameterError, match=line):
        door(made(SHOPS), ledger)
    assert ledger.spent.epsilon == 0
    assert list(ledger.history()) == []


def test_the_refusal_has_all_counts_and_how_the_keys_are_kept() -> None:
    """The last column alone was proposed, and whoever wrote it lost the others."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns, names = {"shop": ["a"], "visits": [1], "sales": [2]}, ["visits", "sales"]
    proposed = r"columns=\['visits', 'sales'\]\), without any key; frame\."
    pandas, polars = pd.DataFrame(columns), pl.DataFrame(columns)
    with pytest.raises(ParameterError, match=proposed + r"assign\(\*\*noisy\) keeps the others$"):
        COUNTS.release(pandas)
    with pytest.raises(ParameterError, match=proposed + r"with_columns\(noisy\) keeps the others$"):
        COUNTS.release(polars)
    for kept in (
        pandas.assign(**COUNTS.release(pandas, columns=names)),
        polars.with_columns(COUNTS.release(polars, columns=names)),
    ):
        assert (list(kept.columns), list(kept["shop"])) == (["shop", *names], ["a"])
    with pytest.raises(ParameterError, match=r"columns=\['c1', 'c2', 'c3', …\]\)"):
        COUNTS.release(pd.DataFrame({f"c{number}": [1] for number in range(99)}))


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_the_columns_that_were_asked_for(made) -> None:
    """In their order, and no other; a key seals them, whatever else the frame has."""
    frame = made({"city": ["x", "y", "z"], **SHOPS, "m": [5, 6, 7]})
    noisy = fixed(frame, columns=["m", "n"])
    found = {name: np.asarray(noisy[name]).tolist() for name in ("m", "n")}
    assert found == dict(zip("mn", fixed(np.array([[5, 6, 7], SHOPS["n"]])).tolist(), strict=True))
    assert list(getattr(noisy, "column_names", None) or getattr(noisy, "columns", noisy)) == ["m", "n"]
    key = new_key()
    first = COUNTS.release(frame, key=key, columns=["n"])
    fewer = made({"n": SHOPS["n"]})
    assert list(first["n"]) == list(COUNTS.release(fewer, key=key, resume=True)["n"])
    for columns, error, message in (
        ("n", DTypeError, "a list of names, not str"),
        (1, DTypeError, "a list of names, not int"),
        ([], ParameterError, "at least one column"),
        (["n", "n"], ParameterError, "each column once, .* got 'n'"),
        (["other"], ParameterError, "each column once, .* got 'other'"),
    ):
        with pytest.raises(error, match=f"^columns must (be|name) {message}"):
            COUNTS.release(frame, columns=columns)


@pytest.mark.parametrize(
    "values",
    [[1, 2], np.array([1]), pd.Series([1]), pl.Series([1]), pa.array([1]), OfStream(pa.chunked_array([[1]]))],
    ids=type,
)
def test_what_has_no_columns_takes_none(values) -> None:
    with pytest.raises(ParameterError, match="^columns must be left out here, because only a frame"):
        COUNTS.release(values, columns=["a"])


@pytest.mark.parametrize(
    "index",
    [None, [5, 3, 1], pd.RangeIndex(3, 6), pd.Index([4, 5, 6], dtype="uint8")],
    ids=["none", "sorted", "cut", "narrow"],
)
def test_rows_of_pandas_with_mere_numbers_are_no_crosstab(index) -> None:
    """A filter, a sort and a join leave unnamed integers. A name, or texts, are labels."""
    frame = pd.DataFrame(SHOPS, index=index)
    with pytest.raises(ParameterError, match="^columns must name"):
        WIDE.release(frame)
    assert WIDE.release(frame.rename_axis("row")).shape == (3, 2)
    assert WIDE.release(frame.set_axis(list("xyz"))).shape == (3, 2)
    pd.testing.assert_index_equal(WIDE.release(frame, columns=["n"]).index, frame.index)


def test_a_frame_that_no_adapter_reads_is_refused() -> None:
    """NumPy would make one array of it, keys and counts alike."""

    class Frame:
        columns = ("shop", "n")

        def __array__(self, *_: object, **__: object) -> Any:
            return np.array([[1, 120], [2, 80]])

    with pytest.raises(DTypeError, match="^Frame is a frame that no adapter reads: release a column"):
        COUNTS.release(Frame())


# ------------------------------------------------------------------ what each library keeps


def test_a_crosstab_keeps_its_labels() -> None:
    """Both indexes, of several levels, with their names; each column in its family."""
    rows = pd.DataFrame({"city": list("OOL"), "sex": list("fmf"), "year": [1, 2, 2], "kind": list("xyx")})
    table = pd.crosstab([rows["city"], rows["sex"]], [rows["year"], rows["kind"]])
    noisy = WIDE.release(table)
    pd.testing.assert_index_equal(noisy.index, table.index)
    pd.testing.assert_index_equal(noisy.columns, table.columns)
    assert (noisy.to_numpy() != table.to_numpy()).all()
    assert WIDE.release(rows.pivot_table(index="city", columns="kind", aggfunc="size", fill_value=0)).shape == (2, 2)


def test_families_stay() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": pd.array([1, None], dtype="Int64"), "c": [5, 6]}, index=["x", "y"])
    frame["d"] = pd.array([1, 2], dtype="int64[pyarrow]")
    frame.columns = ["a", "a", "c", "d"]  # two of one name
    frame.attrs["secret"] = 91
    noisy = WIDE.release(frame, missing=0)
    assert list(map(str, noisy.dtypes)) == ["int64", "Int64", "int64", "int64[pyarrow]"]
    assert list(noisy.columns) == ["a", "a", "c", "d"]
    assert list(noisy.index) == ["x", "y"]
    assert not noisy.attrs


def test_hidden_labels_go() -> None:
    """Categories without a row, of the index and of the columns."""
    table = pd.DataFrame([[1, 2]], index=pd.CategoricalIndex(["a"], categories=["a", "secret"]))
    table.columns = pd.CategoricalIndex(["x", "y"], categories=["x", "y", "secret"])
    noisy = COUNTS.release(table)
    assert list(noisy.index.categories) == ["a"]
    assert list(noisy.columns.categories) == ["x", "y"]


# ------------------------------------------------------------------ Polars' expressions


@pytest.mark.skipif(not hasattr(pl.len().meta, "is_scalar"), reason="this Polars does not tell what is one number")
def test_an_aggregate_is_a_number_a_group() -> None:
    frame = pl.DataFrame({"k": [0, 1, 2, 3] * 50, "v": range(200)})
    noisy = frame.group_by("k").agg(WIDE.release(pl.len()), WIDE.release(pl.col("v").sum()).alias("sum"))
    assert noisy.schema["len"] == pl.Int64
    assert noisy.schema["sum"] == pl.Int64
    assert noisy["len"].n_unique() == 4  # each group has noise of its own
    assert frame.group_by("k").agg(WIDE.release(pl.col("v"))).schema["v"] == pl.List(pl.Int64)


@pytest.mark.skipif(not hasattr(pl.len().meta, "is_scalar"), reason="this Polars does not tell what is one number")
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_number_gets_noise_once(engine) -> None:
    """Over all rows to which it is copied; several noises of one number would average out."""
    lazy = pl.LazyFrame({"k": ["a", "a", "b"] * 20_000, "v": range(60_000)})
    found = lazy.with_columns(t=WIDE.release(pl.col("v").sum())).filter(pl.col("k") == "a", pl.col("t") != 0)
    assert found.collect(engine=engine)["t"].n_unique() == 1
    over = lazy.with_columns(n=WIDE.release(pl.len()).over("k")).filter(pl.col("n") != 0).collect(engine=engine)
    assert over.group_by("k").agg(pl.col("n").n_unique())["n"].to_list() == [1, 1]


# ------------------------------------------------------------------ rows with several keys

ROWS = pd.DataFrame({"city": ["Oslo", "Lima", "Oslo"], "year": [1, 2, 1], "person": [1, 2, 3]})
CITIES, YEARS = ["Oslo", "Lima"], [1, 2]
PRODUCT = [(city, year) for city in CITIES for year in YEARS]
BY = ROWS[["city", "year"]]
KEYS = {
    "frame": BY, "polars": pl.DataFrame(BY.to_dict("list")), "arrow": pa.table(BY.to_dict("list")), "index": pd.MultiIndex.from_frame(BY),
    "list": [ROWS["city"], ROWS["year"]], "lists": [list(ROWS["city"]), list(ROWS["year"])], "tuple": (ROWS["city"], ROWS["year"]),
}  # fmt: skip
DOMAINS = {
    "lists": [CITIES, YEARS], "tuple": (CITIES, YEARS), "tuples": PRODUCT, "index": pd.MultiIndex.from_product([CITIES, YEARS]),
    "frame": pd.DataFrame(PRODUCT), "polars": pl.DataFrame(PRODUCT, schema=["city", "year"], orient="row"),
}  # fmt: skip
ONCE = {"max_partitions": 1, "max_per_partition": 1}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_several_keys(keys, domain) -> None:
    """Columns in any form, with a domain in any form: the keys of the result are the domain's."""
    found = dpfast.bounded_histogram(keys, ROWS["person"], domain=domain, **ONCE)
    assert found.keys.tolist() == PRODUCT
    assert found.counts.tolist() == [2, 0, 0, 1]


@pytest.mark.parametrize(
    ("keys", "domain", "message"),
    [
        (ROWS["city"], DOMAINS["index"], "both of one column, or both of several"),
        (BY, CITIES, "^domain must be columns"),
        (BY, [CITIES], "^domain must be columns"),
        (BY, DOMAINS["frame"][[0]], "^domain must be columns"),
        (ROWS[[]], [CITIES], "^keys must have a column"),
        (BY, pd.MultiIndex.from_tuples([("Oslo", None)]), "^domain must contain integers or strings"),
        (BY, pd.MultiIndex.from_tuples(PRODUCT * 2), "^domain must list each key once"),
    ],
)
def test_keys_and_domain_must_fit(keys, domain, message) -> None:
    with pytest.raises(dpfast.errors.DpfastError, match=message):
        dpfast.bounded_histogram(keys, ROWS["person"], domain=domain, **ONCE)


@pytest.mark.parametrize("ids", [BY, pd.MultiIndex.from_frame(BY), pa.table({"a": [1, 2, 3]})], ids=type)
def test_unit_ids_are_one_column(ids) -> None:
    with pytest.raises(dpfast.errors.DpfastError, match="^unit_ids must"):
        dpfast.bounded_histogram(ROWS["city"], ids, domain=CITIES, **ONCE)
