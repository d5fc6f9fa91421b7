# SPDX-License-Identifier: Apache-2.0
"""What passes through a noised file: the shown values, and nothing beside or beneath them."""

from __future__ import annotations

import json
import operator
import re
import zipfile
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beneath import NUMBER, SECRET, beneath
from table_files import read
from table_files import store as write_table

from dpfast.app.cli import main
from dpfast.app.tables import arrow_file, csv_text, passed

LAW = ["--epsilon", "1", "--sensitivity", "1"]
store = partial(write_table, rows=4, compression="none")  # so that a search of the file sees each cell


def noised(folder: Path, *options: str, start: str = ".arrow", end: str = ".arrow") -> int:
    """The exit code of a release of in{start} as out{end}, of column n if there are columns."""
    chosen = [] if start == ".npy" else ["--column", "n"]
    return main(["privatize", str(folder / f"in{start}"), str(folder / f"out{end}"), *chosen, *LAW, *options])


def privatized(folder: Path, table: pa.Table, *options: str, start: str = ".arrow", end: str = ".arrow") -> pa.Table:
    """The table that comes out when column n is noised."""
    store(table, folder / f"in{start}")
    assert noised(folder, "--force", *options, start=start, end=end) == 0
    return read(folder / f"out{end}")


def held(table: pa.Table, path: Path) -> bytes:
    """All bytes of a file, and those of its columns once they are decompressed."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    chunks += [chunk.dictionary for chunk in chunks if pa.types.is_dictionary(chunk.type)]
    buffers = [buffer.to_pybytes() for chunk in chunks for buffer in chunk.buffers() if buffer is not None]
    return b"|".join([path.read_bytes(), *buffers])


@pytest.mark.parametrize("name", beneath())
@pytest.mark.parametrize("end", [".arrow", ".feather", ".parquet"])
def test_no_byte_lies_under_a_null(tmp_path, name, end) -> None:
    """A passed column has the same cells, and its file lacks the bytes that its nulls hid."""
    column = beneath()[name]
    column.validate(full=True)
    if end == ".parquet":
        pq.write_table(pa.table({"x": column}), tmp_path / "own.parquet")
        try:
            read(tmp_path / "own.parquet")
        except pa.ArrowInvalid:
            pytest.skip("this pyarrow does not read what it writes of this type")
    result = privatized(tmp_path, pa.table({"n": [1, 2], "x": column}), end=end)
    assert SECRET not in held(result, tmp_path / f"out{end}"), "a null hides a value"
    if name != "timestamp":
        assert [cell.as_py() for cell in result["x"]] == [cell.as_py() for cell in column]
    assert result["x"].null_count == 1


@pytest.mark.slow
def test_cells_of_every_type_pass_in_pieces(tmp_path, monkeypatch) -> None:
    """2,000 rows of each type, with nulls, in pieces of 1,024: output equals input."""
    monkeypatch.setattr(arrow_file, "ROWS", 1024)
    columns = {"n": pa.array(range(2000))}
    for name, column in beneath().items():
        first, second = column.slice(0, 1), column.slice(1, 1)
        columns[name] = pa.concat_arrays([first, second, first, second, second] * 400)
    table = pa.table(columns)
    result = privatized(tmp_path, table)
    for name in set(columns) - {"n", "coded", "coded list"}:
        assert result[name].combine_chunks().equals(table[name].combine_chunks()), name
    for name in ("coded", "coded list"):
        assert result[name].to_pylist() == table[name].to_pylist()


def test_rows_cut_off_before_do_not_come_along(tmp_path) -> None:
    """A slice in an Arrow file still has its neighbours in the padding of its buffers."""
    buffer = pa.py_buffer(np.array([1, 2, 3], "<i8").tobytes() + 5 * SECRET)
    column = pa.Array.from_buffers(pa.int64(), 3, [None, buffer])
    table = pa.table({"n": [1, 2, 3], "x": column})
    assert SECRET in store(table, tmp_path / "in.arrow"), "the test has lost its point"
    result = privatized(tmp_path, table)
    assert result["x"].to_pylist() == [1, 2, 3]
    assert SECRET not in (tmp_path / "out.arrow").read_bytes()


UNION = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, NUMBER]), pa.array(["a", "b"])])
INTERVAL = pa.array([pa.MonthDayNano([1, 2, 3]), None])  # which some versions of pyarrow take null for


@pytest.mark.parametrize("column", [UNION, INTERVAL], ids=["union", "interval"])
def test_a_type_that_cannot_be_made_anew_is_refused(tmp_path, capsys, column) -> None:
    """Passing its bytes as they lie could pass what they hide."""
    store(pa.table({"n": [1, 2], "x": column}), tmp_path / "in.arrow")
    assert noised(tmp_path) == 1
    assert "column 'x'" in capsys.readouterr().err
    assert not (tmp_path / "out.arrow").exists()


# Categories


@pytest.mark.parametrize("start", [".arrow", ".parquet"])
@pytest.mark.parametrize("end", [".arrow", ".feather", ".parquet"])
@pytest.mark.parametrize("ordered", [False, True])
def test_categories_that_no_row_has_stay_behind(tmp_path, start, end, ordered) -> None:
    """The others keep their order, over all pieces; a category may first occur in the last."""
    names = pa.array(["low", SECRET.decode(), "middle", "high"])
    codes = pa.array([3, 3, None, 0, 0, 3, 0, 3, 2], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, names, ordered=ordered)
    table = pa.table({"n": range(9), "x": column})
    assert SECRET in store(table, tmp_path / f"in{start}"), "the test has lost its point"
    result = privatized(tmp_path, table, start=start, end=end)["x"]
    assert result.to_pylist() == column.to_pylist()
    assert SECRET not in held(pa.table([result], ["x"]), tmp_path / f"out{end}")
    assert pa.types.is_dictionary(result.type)
    assert result.type.ordered is ordered
    assert result.unify_dictionaries().chunk(0).dictionary.to_pylist() == ["low", "middle", "high"]


def test_row_groups_with_categories_of_their_own(tmp_path) -> None:
    """Parquet numbers them anew in each group; in an Arrow file there is one numbering."""
    parts = [["b", "a", "b", None], ["c", "a", "c", "c"], ["d", "b", "d", "d"]]
    column = pa.chunked_array([pa.array(part).dictionary_encode() for part in parts])
    with pq.ParquetWriter(tmp_path / "in.parquet", pa.schema([("n", pa.int64()), ("x", column.type)])) as writer:
        for chunk in column.chunks:
            writer.write_table(pa.table({"n": [1, 2, 3, 4], "x": chunk}))
    for end in (".arrow", ".parquet"):
        assert noised(tmp_path, start=".parquet", end=end) == 0
        assert read(tmp_path / f"out{end}")["x"].to_pylist() == reduce(operator.iadd, parts, [])


# Metadata


def annotated() -> pa.Table:
    """True figures in every place where a schema can hold them."""
    secret = {b"max": SECRET}
    pandas = {
        "index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 3, "step": 1}],
        "column_indexes": [],
        "columns": [
            {"name": "n", "field_name": "n", "pandas_type": "int8", "numpy_type": "Int8", "metadata": {"max": SECRET.decode()}},
            {"name": "x", "field_name": "x", "pandas_type": "categorical", "numpy_type": "int8",
             "metadata": {"num_categories": 3, "ordered": False, "note": SECRET.decode()}},
        ],
        "attributes": {"total": SECRET.decode()},
        "creator": {"library": "pyarrow", "version": "15", "note": 1},
        "pandas_version": "2.2.0",
    }  # fmt: skip
    inner = pa.struct([pa.field("y", pa.list_(pa.field("item", pa.int8(), metadata=secret)), metadata=secret)])
    fields = [
        pa.field("n", pa.int8(), metadata=secret),
        pa.field("x", pa.dictionary(pa.int8(), pa.string()), metadata=secret),
        pa.field("place", inner, metadata=secret),
        pa.field("kind", pa.string(), metadata={b"ARROW:extension:name": b"example.of.nobody", b"ARROW:extension:metadata": b"7"}),
    ]  # fmt: skip
    about = {b"pandas": json.dumps(pandas).encode(), b"geo": b'{"bbox": "' + SECRET + b'"}', b"n_sum": SECRET}
    row = {"n": 1, "x": "a", "place": {"y": [1]}, "kind": "k"}
    return pa.Table.from_pylist([row] * 3, pa.schema(fields, about))


@pytest.mark.parametrize("start", [".arrow", ".parquet"])
@pytest.mark.parametrize("end", [".arrow", ".feather", ".parquet"])
def test_only_the_metadata_that_types_need_is_kept(tmp_path, capsys, start, end) -> None:
    """pandas's types, extensions' names; the summary names the rest."""
    result = privatized(tmp_path, annotated(), start=start, end=end)
    assert SECRET not in (tmp_path / f"out{end}").read_bytes()
    assert set(result.schema.metadata) - {b"ARROW:schema"} == {b"pandas", b"dpfast"}
    kept = json.loads(result.schema.metadata[b"pandas"])
    assert [column["numpy_type"] for column in kept["columns"]] == ["int64", "int8"]
    assert kept["columns"][1]["metadata"] == {"ordered": False}
    assert {b"ARROW:extension:name", b"ARROW:extension:metadata"} <= set(result.schema.field("kind").metadata)
    assert not (result.schema.field("n").metadata or {}).keys() - {b"PARQUET:field_id"}
    said = re.search(r"metadata left out.*", capsys.readouterr().err)
    assert said
    for name in ("geo", "n_sum", "attributes of pandas", "max of 'n'", "max of 'x'", "max of 'place'"):
        assert name in said[0], name
    frame = pytest.importorskip("pandas") and result.to_pandas()
    assert frame["n"].dtype == np.int64
    assert frame["x"].dtype == "category"


@pytest.mark.parametrize("end", [".arrow", ".parquet"])
def test_metadata_is_kept_where_one_asks_for_it(tmp_path, capsys, end) -> None:
    result = privatized(tmp_path, annotated(), "--keep-metadata", end=end)
    assert result.schema.metadata[b"n_sum"] == SECRET
    assert result.schema.field("x").metadata[b"max"] == SECRET
    assert result.schema.field("place").type.field("y").metadata[b"max"] == SECRET
    kept = json.loads(result.schema.metadata[b"pandas"])
    assert [column["numpy_type"] for column in kept["columns"]] == ["int64", "int8"]
    assert kept["attributes"] == {"total": SECRET.decode()}
    said = re.search(r"metadata passed through without noise: .*", capsys.readouterr().err)
    assert said
    assert "geo" in said[0]


def test_metadata_of_pandas_that_is_none_is_left_out(tmp_path) -> None:
    for text in (SECRET, b"[1]", b'{"columns": 7}', b'{"columns": [7]}', b'{"columns": [{"name": "x"}]}', b"\xff"):
        table = pa.table({"n": [1], "x": ["a"]}).replace_schema_metadata({b"pandas": text})
        assert set(privatized(tmp_path, table).schema.metadata) == {b"dpfast"}


@pytest.mark.parametrize("end", [".arrow", ".parquet"])
def test_only_the_record_of_a_release_becomes_an_earlier_one(tmp_path: Path, capsys, end: str) -> None:
    """Under our name a program may have put anything: it is left out, and the summary says so."""
    record = {"epsilon_total": "2", "releases": [], "secure_means": ""}
    for held, kept in (
        (record, True),
        ({"raw": [1, 2]}, False),
        ({**record, "raw": 1}, False),
        ({}, False),
        (7, False),
    ):
        table = pa.table({"n": [1]}).replace_schema_metadata({b"dpfast": json.dumps(held).encode()})
        about = json.loads(privatized(tmp_path, table, end=end).schema.metadata[b"dpfast"])
        said = capsys.readouterr().err
        assert about.get("earlier") == (held if kept else None)
        assert ("passed through without noise: the record of an earlier release" in said) == kept
        assert ("metadata left out (--keep-metadata would pass it through): dpfast" in said) != kept
        asked = json.loads(privatized(tmp_path, table, "--keep-metadata", end=end).schema.metadata[b"dpfast"])
        assert asked["earlier"] == held
        capsys.readouterr()
    table = pa.table({"n": [1]}).replace_schema_metadata({b"dpfast": b"\xff"})
    assert "earlier" not in json.loads(privatized(tmp_path, table, end=end).schema.metadata[b"dpfast"])
    about = json.loads(privatized(tmp_path, table, "--keep-metadata", end=end).schema.metadata[b"dpfast"])
    assert about["earlier"] == "\ufffd"


@pytest.mark.parametrize("end", [".arrow", ".parquet"])
def test_the_summary_names_the_metadata_of_types_that_pass(tmp_path: Path, capsys, end: str) -> None:
    """An extension type needs them, and they hold what a program put there."""
    privatized(tmp_path, annotated(), end=end)
    said = re.search(r"metadata of types and records, passed through without noise: (.*)", capsys.readouterr().err)
    assert said
    assert set(said[1].split(", ")) == {"ARROW:extension:metadata of 'kind'", "ARROW:extension:name of 'kind'"}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../evil", "evil"),
        ("/etc/evil", "evil"),
        ("..\\evil", "evil"),
        ("c:evil", "evil"),
        ("a/b..", "a/b.."),
        ("a b", "a b"),
    ],
)
def test_the_name_of_an_array_leads_nowhere(tmp_path: Path, name: str, kept: str) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive, archive.open(f"{name}.npy", "w") as member:
        np.lib.format.write_array(member, np.arange(3))
    words = ["privatize", str(tmp_path / "in.npz"), str(tmp_path / "out.npz"), "--column", name]
    assert main([*words, "--epsilon", "1", "--sensitivity", "1", "--quiet"]) == 0
    assert zipfile.ZipFile(tmp_path / "out.npz").namelist() == [f"{kept}.npy"]


# The summary


def summary(capsys: pytest.CaptureFixture[str], folder: Path, end: str, *options: str) -> str:
    if end == ".npy":
        np.save(folder / "in.npy", np.arange(3))
    elif end == ".csv":
        (folder / "in.csv").write_text("city,n,mean age\nb,1,2\nc,2,2\na,3,2\n")
    else:
        store(pa.table({"city": ["b", "c", "a"], "n": [1, 2, 3], "mean age": [1.5, 2, 3]}), folder / f"in{end}")
    assert noised(folder, *options, start=end, end=end) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow", ".npy"])
def test_the_summary_says_what_has_no_noise(tmp_path, capsys, end) -> None:
    said = summary(capsys, tmp_path, end)
    assert ("passed through without noise: city, mean age\n" in said) is (end != ".npy")
    assert re.search(r"keep the order of .*in\.\w+, which is published", said)
    assert "metadata" not in said
    assert summary(capsys, tmp_path, end, "--force", "--quiet") == ""


# The order of rows


@pytest.mark.parametrize("start", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow"])
def test_sorted_rows_tell_nothing_of_the_input_s_order(tmp_path, capsys, monkeypatch, start, end) -> None:
    """Any order of input gives equal rows in equal order, each with noise on its own count."""
    monkeypatch.setattr(csv_text, "BLOCK", 16)
    names = [f"{city},{sex}" for city in ("Ulm", "Bonn", "Ö") for sex in "mf"]
    seen = set()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(names))
        rows = [(*names[i].split(","), 10**9 * int(i)) for i in order]
        city, sex, n = map(list, zip(*rows, strict=True))
        table = pa.table({"city": pa.array(city).dictionary_encode(), "n": n, "sex": sex})
        if start == ".csv":
            lines = [f'"{c}",{k},{s}' for c, s, k in rows]
            (tmp_path / "in.csv").write_bytes("\r\n".join(["city,n,sex", *lines]).encode() + b"\r\n" * (seed % 2))
        else:
            store(table, tmp_path / f"in{start}")
        sort = ["--sort-by", "city", "--sort-by", "sex"]
        assert noised(tmp_path, "--force", *sort, start=start, end=end) == 0
        assert "rows are sorted by city, sex" in capsys.readouterr().err
        found = rows_of(tmp_path / f"out{end}")
        assert [(c, s) for c, s, _ in found] == sorted(tuple(name.split(",")) for name in names)
        # 40 is 2e-17 of the noise at scale 1.
        assert all(abs(k - 10**9 * names.index(f"{c},{s}")) < 40 for c, s, k in found)
        if end == start == ".csv":
            seen.add(re.sub(rb",-?\d+,", b",n,", (tmp_path / "out.csv").read_bytes()))
    assert len(seen) <= 1, "bytes beside the counts depend on the order"


def rows_of(path: Path) -> list[tuple[str, str, int]]:
    if path.suffix == ".csv":
        import csv

        return [(c, s, int(n)) for c, n, s in list(csv.reader(path.read_text().splitlines()))[1:]]
    return [(row["city"], row["sex"], row["n"]) for row in read(path).to_pylist()]


@pytest.mark.parametrize("end", [".csv", ".arrow"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["city"], "--sort-by must name columns that tell all rows apart"),
        (["n"], "--sort-by must name columns that pass through"),
        (["town"], "no column is named 'town'"),
        (["city", "city"], "--sort-by must name each column once"),
    ],
)
def test_what_would_leave_something_of_the_order_is_refused(tmp_path, capsys, end, columns, message) -> None:
    """Equal rows would keep the input's order; a noised column's order is private."""
    if end == ".csv":
        (tmp_path / "in.csv").write_text("city,n\nb,1\na,2\nb,3\n")
    else:
        store(pa.table({"city": ["b", "a", "b"], "n": [1, 2, 3]}), tmp_path / "in.arrow")
    sort = [word for column in columns for word in ("--sort-by", column)]
    assert noised(tmp_path, *sort, start=end, end=end) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / f"out{end}").exists()


def test_what_cannot_be_sorted_is_refused(tmp_path, capsys, monkeypatch) -> None:
    """An array, a column of lists, a table too large: a ledger is not charged for them."""
    np.save(tmp_path / "in.npy", np.arange(3))
    assert noised(tmp_path, "--sort-by", "x", start=".npy", end=".npy") == 2
    assert "--sort-by" in capsys.readouterr().err
    assert main(["ledger", "create", str(tmp_path / "ledger.db"), "--epsilon", "5"]) == 0
    store(pa.table({"n": [1, 2], "x": [[1], [2]], "y": ["a", "b"]}), tmp_path / "in.arrow")
    (tmp_path / "in.csv").write_text("n,y\n1,a\n2,b\n")
    ledger = ["--ledger", str(tmp_path / "ledger.db")]
    assert noised(tmp_path, *ledger, "--sort-by", "x") == 2
    assert "--sort-by must name columns that have an order" in capsys.readouterr().err
    monkeypatch.setattr(passed, "LARGEST_SORTED", 10)
    for end in (".arrow", ".csv"):
        assert noised(tmp_path, *ledger, "--sort-by", "y", start=end, end=end) == 1
        assert "--sort-by" in capsys.readouterr().err
    assert main(["ledger", "show", str(tmp_path / "ledger.db"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["releases"] == []


def test_a_noised_cell_of_a_csv_has_no_quotes(tmp_path) -> None:
    """Whether a count was quoted is a bit of it that no noise hides."""
    (tmp_path / "in.csv").write_text('city,n\na,"1"\n"b",2\nc,"3"\n')
    assert noised(tmp_path, start=".csv", end=".csv") == 0
    assert re.fullmatch(r'city,n\na,-?\d+\n"b",-?\d+\nc,-?\d+\n', (tmp_path / "out.csv").read_text())


def test_metadata_of_pandas_keep_their_order_in_every_process() -> None:
    """Else a try in another process, whose hashes of texts are others, would write other bytes."""
    pd = pytest.importorskip("pandas")
    table = pa.Table.from_pandas(pd.DataFrame({"n": [1, 2], "name": ["a", "b"]}, index=[3, 4]))
    about = json.loads(table.schema.metadata[b"pandas"])
    kept = json.loads(passed.cleaned(table.schema, [0], keep=False).metadata[b"pandas"])
    for name, entries in (("columns", about["columns"]), ("column_indexes", about["column_indexes"])):
        for entry, found in zip(entries, kept[name], strict=True):
            assert list(found) == [key for key in entry if key in found]
    assert list(kept["creator"]) == [key for key in about["creator"] if key in kept["creator"]]
