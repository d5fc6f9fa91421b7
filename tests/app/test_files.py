# SPDX-License-Identifier: Apache-2.0
"""Files: what is not noised passes through, and what is damaged is refused."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from fresh import python
from table_files import csv_file, read, store

import dpfast
from dpfast.app.cli import main
from dpfast.app.tables import array_file, arrow_file, files, readers
from dpfast.errors import FileError, ParameterError, UnusableValuesError

SECRET = "918273645"  # a count that no message may quote


def copied(
    source: Path,
    target: Path,
    columns: Sequence[str],
    change: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    *,
    real: bool = False,
    **options: bool,
) -> list[int]:
    """Send every cell through `change`, which keeps reals' type, and return the pieces' sizes."""
    table = files.open_source(source, columns, real=real, **options)
    dtypes = table.dtypes if real else [np.int64] * max(1, len(columns))
    sizes = []
    with files.destination(target, table, {"epsilon_total": "1"}, found="refuse") as write:
        for piece in table.pieces():
            write(piece, [change(cells).astype(t) for cells, t in zip(piece.counts, dtypes, strict=True)])
            sizes.append(len(piece.counts[0]))
    return sizes


copied_reals = partial(copied, real=True)


# CSV


def test_csv_stays_csv_byte_for_byte(tmp_path) -> None:
    """Quotes, line ends and all but the count, whose quotes go; test_csv_text.py has the rest."""
    source = csv_file(tmp_path, 'id,"count",note\r\n007,"5","say ""hi"""\r\n,6,')
    copied(source, tmp_path / "out.csv", ["count"], lambda counts: -counts)
    assert (tmp_path / "out.csv").read_bytes() == b'id,"count",note\r\n007,-5,"say ""hi"""\r\n,-6,'
    assert json.loads((tmp_path / "out.csv.json").read_text()) == {"epsilon_total": "1"}


def test_an_interval_says_what_a_float32_does_to_it(tmp_path, capsys) -> None:
    """Near 4e7 its values are 4 apart, and 95 % of the noise is within 3."""
    for kind, said in ((np.float32, True), (np.float64, False)):
        file, out = tmp_path / "in.parquet", tmp_path / f"{np.dtype(kind)}.parquet"
        pq.write_table(pa.table({"x": np.full(3, 4e7, kind)}), file)
        options = "--mechanism", "laplace", "--column", "x", "--epsilon", "1", "--sensitivity", "1"
        assert main(["privatize", str(file), str(out), *options]) == 0
        told = " ".join(capsys.readouterr().err.split())
        assert "95 % within ±2.99574" in told
        assert ("before a float32 rounds it" in told) is said


def test_csv_becomes_parquet_with_strings(tmp_path) -> None:
    source = csv_file(tmp_path, 'id,count,note\n007,5,"say ""hi"""\n,6,\n')
    copied(source, tmp_path / "out.parquet", ["count"])
    expected = [{"id": "007", "count": 5, "note": 'say "hi"'}, {"id": "", "count": 6, "note": ""}]
    assert expected == pq.read_table(tmp_path / "out.parquet").to_pylist()


def test_csv_cut_short_leaves_no_output(tmp_path) -> None:
    source = csv_file(tmp_path, f'count,x\n{SECRET},1\n5,"2')
    with pytest.raises(UnusableValuesError, match="inside a quoted field"):
        copied(source, tmp_path / "out.csv", ["count"])
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


# Columns


def test_no_message_quotes_the_first_line_of_a_csv(tmp_path) -> None:
    """Without a header it is a record: neither names nor numbers of it are shown."""
    with pytest.raises(ParameterError, match=r"'cuont'.* first line .* 3 fields") as caught:
        files.open_source(csv_file(tmp_path, f"Alice Smith,HIV+,{SECRET}\n"), ["cuont"])
    with pytest.raises(ParameterError, match="--column must be given") as also:
        files.open_source(csv_file(tmp_path, f"Alice Smith,HIV+,{SECRET}\n"), [])
    source = csv_file(tmp_path, "Alice Smith,HIV+,3\n")
    source.write_bytes(source.read_bytes() + b"\xff,a,3\n")
    with pytest.raises(FileError, match="column 1 of .* UTF-8") as third:
        copied(source, tmp_path / "out.parquet", ["3"])
    for error in (caught, also, third):
        assert not re.search(f"Alice|HIV|{SECRET}", str(error.value))


def test_a_missing_column_of_parquet_lists_those_there_are(tmp_path) -> None:
    pq.write_table(pa.table({"north": [1], "count": [2]}), tmp_path / "in.parquet")
    with pytest.raises(ParameterError, match="no column is named 'cuont'; there are 'north', 'count'"):
        files.open_source(tmp_path / "in.parquet", ["cuont"])


def test_a_table_needs_a_column_and_an_npy_file_has_none(tmp_path) -> None:
    with pytest.raises(ParameterError, match="column must be given"):
        files.open_source(csv_file(tmp_path, "a,b\n"), [])
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(ParameterError, match="has no columns"):
        files.open_source(tmp_path / "a.npy", ["a"])


def test_duplicate_names_pass_unless_chosen(tmp_path) -> None:
    table = pa.table([[1, 2], [3, 4], [5, 6]], names=["x", "x", "count"])
    pq.write_table(table, tmp_path / "in.parquet")
    copied(tmp_path / "in.parquet", tmp_path / "out.parquet", ["count"], lambda x: -x)
    columns = pq.ParquetFile(tmp_path / "out.parquet").read().columns
    assert [column.to_pylist() for column in columns] == [[1, 2], [3, 4], [-5, -6]]
    with pytest.raises(ParameterError, match="2 are named 'x'"):
        files.open_source(tmp_path / "in.parquet", ["x"])


@pytest.mark.parametrize(
    "values",
    [[True], [b"1"], pa.array([1]).cast(pa.timestamp("s")), pa.array([True]).dictionary_encode(), [[1]], [{"a": 1}]],
)
def test_columns_that_are_not_integers_are_refused(tmp_path, values) -> None:
    pq.write_table(pa.table({"count": values}), tmp_path / "in.parquet")
    with pytest.raises(ParameterError, match="column 'count' must contain integers, but contains"):
        files.open_source(tmp_path / "in.parquet", ["count"])


# Parquet and Arrow


def rich_table(rows: int = 1000) -> pa.Table:
    fields = [
        pa.field("label", pa.dictionary(pa.int8(), pa.string())),
        pa.field("when", pa.timestamp("ns", "Europe/Berlin"), metadata={b"origin": b"sensor"}),
        pa.field("count", pa.uint16(), nullable=False, metadata={b"unit": b"persons"}),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([("x", pa.float32()), ("y", pa.int8())])),
        pa.field("blob", pa.large_binary()),
    ]
    row = {"price": None, "tags": ["u", None], "place": {"x": 0.1, "y": None}, "blob": b"\0"}
    rows_ = [{**row, "label": "abc"[i % 3], "when": i, "count": i} for i in range(rows)]
    return pa.Table.from_pylist(rows_, pa.schema(fields, {b"owner": b"somebody", b"dpfast": b'{"epsilon_total": "2"}'}))


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("start", [".parquet", ".arrow"])
def test_other_columns_schema_and_order_are_kept(tmp_path, monkeypatch, start, end) -> None:
    """All but the chosen column survives, with its metadata where that is asked for."""
    monkeypatch.setattr(arrow_file, "ROWS", 128)
    monkeypatch.setattr(arrow_file, "CELLS", 0)
    table, source, target = rich_table(2000), tmp_path / f"in{start}", tmp_path / f"out{end}"
    store(table, source)
    assert max(copied(source, target, ["count"], lambda x: -x.astype(np.int64), keep_metadata=True)) <= 1024
    result = read(target)
    assert [-i for i in range(2000)] == result["count"].to_pylist()
    for name in set(table.schema.names) - {"count"}:
        plain = pa.string() if name == "label" else table[name].type
        assert table[name].cast(plain).equals(result[name].cast(plain))
    kept = table.schema.set(2, table.schema.field(2).with_type(pa.int64()))
    about = json.loads(result.schema.metadata[b"dpfast"])
    assert about == {"epsilon_total": "1", "earlier": {"epsilon_total": "2"}}
    assert result.schema.metadata[b"owner"] == b"somebody"
    for wanted, got in zip(kept, result.schema, strict=True):
        kind = wanted.type
        if pa.types.is_dictionary(kind):  # codes have the width that pyarrow reads from Parquet
            kind = pa.dictionary(got.type.index_type, kind.value_type)
        assert wanted.with_type(kind).remove_metadata().equals(got.remove_metadata())
        assert dict(wanted.metadata or {}).items() <= dict(got.metadata or {}).items()


def test_parquet_keeps_its_compression(tmp_path) -> None:
    store(rich_table(10), tmp_path / "in.parquet")
    copied(tmp_path / "in.parquet", tmp_path / "out.parquet", ["count"])
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_feather_reads_back(tmp_path) -> None:
    pyarrow.feather.write_feather(pa.table({"count": [1, 2], "s": ["a", None]}), tmp_path / "in.feather")
    copied(tmp_path / "in.feather", tmp_path / "out.feather", ["count"], lambda x: x + 1)
    assert pyarrow.feather.read_table(tmp_path / "out.feather").to_pydict() == {"count": [2, 3], "s": ["a", None]}


def test_parquet_becomes_csv_if_it_can(tmp_path) -> None:
    pq.write_table(pa.table({"count": [1, 2], "s": ["a", 'b"']}), tmp_path / "in.parquet")
    copied(tmp_path / "in.parquet", tmp_path / "out.csv", ["count"])
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert rows == [["count", "s"], ["1", "a"], ["2", 'b"']]
    store(rich_table(3), tmp_path / "nested.parquet")
    with pytest.raises(FileError, match="cannot hold one of the other columns"):
        copied(tmp_path / "nested.parquet", tmp_path / "no.csv", ["count"])
    assert not (tmp_path / "no.csv").exists()


def test_pandas_reads_the_column_as_it_is_now(tmp_path) -> None:
    """A nullable pandas Int8 would otherwise be read back into eight bits."""
    columns = [{"name": "count", "field_name": "count", "pandas_type": "int8", "numpy_type": "Int8", "metadata": None}]
    about = json.dumps({"columns": columns, "index_columns": []}).encode()
    table = pa.table({"count": pa.array([1], pa.int8())}).replace_schema_metadata({b"pandas": about})
    pq.write_table(table, tmp_path / "in.parquet")
    copied(tmp_path / "in.parquet", tmp_path / "out.parquet", ["count"])
    (column,) = json.loads(read(tmp_path / "out.parquet").schema.metadata[b"pandas"])["columns"]
    assert (column["pandas_type"], column["numpy_type"]) == ("int64", "int64")


@pytest.mark.parametrize("end", [".parquet", ".arrow"])
def test_nulls_are_refused(tmp_path, end) -> None:
    store(pa.table({"count": pa.array([int(SECRET), None])}), tmp_path / f"in{end}")
    with pytest.raises(UnusableValuesError, match=r"column 'count' of .* contains nulls") as caught:
        copied(tmp_path / f"in{end}", tmp_path / f"out{end}", ["count"])
    assert SECRET not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [f"in{end}"]


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".feather", ".npy"])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(tmp_path, end, part) -> None:
    whole, source = tmp_path / f"whole{end}", tmp_path / f"in{end}"
    if end == ".npy":
        np.save(whole, np.arange(1000))
    else:
        store(rich_table(1000), whole)
    source.write_bytes(whole.read_bytes()[: int(part * whole.stat().st_size)])
    with pytest.raises(FileError, match=r"is not a whole (Parquet|Arrow|npy) file"):
        copied(source, tmp_path / f"out{end}", [] if end == ".npy" else ["count"])
    assert not (tmp_path / f"out{end}").exists()


def test_a_damaged_page_is_refused(tmp_path) -> None:
    """By its content, for its metadata is whole."""
    store(pa.table({"count": range(100_000)}), tmp_path / "in.parquet")
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    data[1000:9000] = bytes(8000)
    (tmp_path / "in.parquet").write_bytes(data)
    with pytest.raises(FileError, match="not a whole Parquet file"):
        copied(tmp_path / "in.parquet", tmp_path / "out.parquet", ["count"])


def spoilt_counts(whole: bytes) -> Iterator[bytes]:
    """A Parquet file of two groups of 16 rows, with another number in place of a 16 or 32."""
    end = len(whole) - 8
    for at in range(end - int.from_bytes(whole[end : end + 4], "little"), end):
        if whole[at] in (2 * 16, 2 * 32):  # twice what it says, to have room for a sign
            for other in (0, 1, 5, 33):
                yield whole[:at] + bytes([2 * other]) + whole[at + 1 :]


def test_a_parquet_file_gives_as_many_rows_as_it_says_or_is_refused(tmp_path) -> None:
    """Pyarrow reads what is left, in silence."""
    path, out, refused = tmp_path / "in.parquet", tmp_path / "out.parquet", 0
    pq.write_table(pa.table({"count": range(32)}), path, row_group_size=16, use_dictionary=False)
    for spoilt in spoilt_counts(path.read_bytes()):
        path.write_bytes(spoilt)
        try:
            assert sum(copied(path, out, ["count"])) == 32
            out.unlink()
        except FileError:
            refused += 1
    assert refused > 12  # the number of rows of the file and of both groups, by each other number


@pytest.mark.parametrize("words", [["--column", "count"], ["--column", "count", "--sort-by", "s"]])
@pytest.mark.parametrize("out", ["out.parquet", "out.csv"])
def test_texts_of_parquet_that_are_no_utf_8(tmp_path, monkeypatch, capsys, words, out) -> None:
    monkeypatch.chdir(tmp_path)
    texts = pa.array([b"a", b"\xa0"], pa.binary()).cast(pa.string(), safe=False)
    store(pa.table({"count": [1, 2], "s": texts}), Path("in.parquet"))
    ledger = dpfast.Ledger("l.db", 9, create=True)
    assert main(["privatize", "in.parquet", out, *words, "--epsilon=1", "--sensitivity=1", "--ledger=l.db"]) == 1
    assert "in.parquet is not a whole Parquet file" in capsys.readouterr().err
    assert not ledger.history()
    assert not Path(out).exists()


def test_a_parquet_file_with_its_columns_in_other_places_is_not_read_on(tmp_path) -> None:
    """The counts would pass through without noise."""
    store(pa.table({"count": [1], "age": [int(SECRET)]}), tmp_path / "in.parquet")
    reader = readers.Parquet(tmp_path / "in.parquet")
    store(pa.table({"age": [int(SECRET)], "count": [1]}), tmp_path / "in.parquet")
    with pytest.raises(FileError, match=r"in\.parquet has changed while it was read"):
        list(reader.batches(9))


@pytest.mark.parametrize("name", ["in.csv", "in.parquet"])
def test_a_file_that_is_another_by_the_time_it_is_read(tmp_path, name: str) -> None:
    """A change is seen although the writer has set the time back."""
    path, table = tmp_path / name, pa.table({"count": [1], "age": [2]})
    pa.csv.write_csv(table, path) if name == "in.csv" else store(table, path)
    source, before = files.open_source(path, ["count"]), path.stat()
    time.sleep(0.05)  # a file system counts in hundredths of seconds
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    with pytest.raises(FileError, match=rf"{name} has changed while it was read"):
        list(source.pieces())


def test_offsets_that_lead_astray_are_refused(tmp_path) -> None:
    """An Arrow file is mapped as it lies: text "a terabyte away" must not be looked for."""
    store(pa.table({"count": [1, 2, 3], "s": ["x" * 9, "y" * 9, "z" * 9]}), tmp_path / "in.arrow")
    data = (tmp_path / "in.arrow").read_bytes()
    places = np.array([0, 9, 18, 27], "<i4").tobytes()
    assert data.count(places) == 1
    (tmp_path / "in.arrow").write_bytes(data.replace(places, np.array([0, 2**30, 2**30 + 9, 27], "<i4").tobytes()))
    with pytest.raises(FileError, match="not a whole Arrow file"):
        copied(tmp_path / "in.arrow", tmp_path / "out.arrow", ["count"])


# npy


@pytest.mark.parametrize("dtype", ["i1", "<u2", ">i4", "<u8", ">i8", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0), (40, 50), (3, 4, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_numbers_and_shape(tmp_path, monkeypatch, dtype, shape, order) -> None:
    """int64 or the same real type, in the same shape and order, in pieces of at most 64."""
    monkeypatch.setattr(array_file, "ELEMENTS", 64)
    real, numbers = "f" in dtype, np.arange(np.prod(shape)).reshape(shape) % 100
    kind = np.dtype(dtype).newbyteorder("<") if real else np.dtype("i8")
    array = np.asarray(numbers / 8 if real else numbers, dtype=dtype, order=order)
    np.save(tmp_path / "in.npy", array)
    sizes = copied(tmp_path / "in.npy", tmp_path / "out.npy", [], lambda x: x.astype(kind) + 1, real=real)
    assert max(sizes, default=0) <= 64
    result = np.load(tmp_path / "out.npy")
    assert np.array_equal(array.astype(kind) + 1, result)
    assert (result.dtype, result.flags.f_contiguous) == (kind, array.flags.f_contiguous)
    assert json.loads((tmp_path / "out.npy.json").read_text()) == {"epsilon_total": "1"}


@pytest.mark.parametrize(
    "array", [np.zeros(3, "f2"), np.zeros(3, bool), np.zeros(3, "M8[s]"), np.zeros(2, [("a", "i8")])]
)
def test_npy_of_other_kinds_is_refused(tmp_path, array) -> None:
    np.save(tmp_path / "in.npy", array)
    with pytest.raises(ParameterError, match="must contain integers, but contains"):
        files.open_source(tmp_path / "in.npy", [])


def test_npy_with_something_behind_it_is_refused(tmp_path) -> None:
    """A second array would be passed over in silence."""
    with (tmp_path / "in.npy").open("wb") as file:
        np.save(file, np.arange(3))
        np.save(file, np.arange(3))
    with pytest.raises(FileError, match="not what its header says"):
        files.open_source(tmp_path / "in.npy", [])


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), ",  # never closed
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), '''}",  # a text that never ends
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n  1\n 2",  # an indentation
        "(" * 3000,
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-1, -3), }",
        "{'descr': [], 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<i8', 'fortran_order': 0, 'shape': (3,), }",
        "{[]: 1}",
        "\0",
    ],
)
def test_a_damaged_npy_header_is_refused(tmp_path, header) -> None:
    """By one error of ours, whatever NumPy's parser of it raises."""
    text = header.encode()
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    (tmp_path / "in.npy").write_bytes(head + np.arange(3).tobytes())
    with pytest.raises((FileError, ParameterError), match="not a whole npy file|must contain integers"):
        files.open_source(tmp_path / "in.npy", [])


def test_tables_and_arrays_do_not_mix(tmp_path) -> None:
    np.save(tmp_path / "in.npy", np.arange(3))
    with pytest.raises(ParameterError, match="only become an npy or npz file"):
        copied(tmp_path / "in.npy", tmp_path / "out.csv", [])
    with pytest.raises(ParameterError, match="only become an npy or npz file"):
        copied(csv_file(tmp_path, "a\n1\n"), tmp_path / "out.npy", ["a"])
    with pytest.raises(ParameterError, match="extension must be one of"):
        copied(tmp_path / "in.npy", tmp_path / "out.txt", [])
    with pytest.raises(ParameterError, match=r"a spreadsheet program saves its tables as \.csv$"):
        copied(tmp_path / "in.npy", tmp_path / "out.xlsx", [])


# Real values


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".feather"])
def test_real_columns_keep_their_type(tmp_path, end) -> None:
    table = pa.table({"s": pa.array([1.5, -2.0], pa.float32()), "d": [0.1, 3.0], "n": [1, 2]})
    store(table, tmp_path / f"in{end}")
    copied_reals(tmp_path / f"in{end}", tmp_path / f"out{end}", ["d", "s"], lambda x: -x)
    result = read(tmp_path / f"out{end}")
    assert result.schema.types == table.schema.types
    assert result.to_pydict() == {"s": [-1.5, 2.0], "d": [-0.1, -3.0], "n": [1, 2]}


def test_csv_reals_stay_text_and_become_doubles(tmp_path) -> None:
    source = csv_file(tmp_path, 'id,x\r\n007,"5"\r\n8,-1.25e1\r\n')
    copied_reals(source, tmp_path / "out.csv", ["x"], lambda x: x / 10)
    assert (tmp_path / "out.csv").read_bytes() == b"id,x\r\n007,0.5\r\n8,-1.25\r\n"
    copied_reals(source, tmp_path / "out.parquet", ["x"], lambda x: x / 10)
    table = read(tmp_path / "out.parquet")
    assert [pa.string(), pa.float64()] == table.schema.types
    assert table["x"].to_pylist() == [0.5, -1.25]


@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow", ".npy"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, None])
def test_absent_values_need_a_stand_in(tmp_path, end, odd) -> None:
    """Read as not finite, for the release to replace; without a stand-in the file is refused."""
    source, columns = tmp_path / f"in{end}", [] if end == ".npy" else ["x"]
    if end == ".npy":
        np.save(source, np.array([float(SECRET), np.nan if odd is None else odd]))
    elif end == ".csv":
        csv_file(tmp_path, f"x,y\n{SECRET},1\n{'' if odd is None else odd},2\n")
    else:
        store(pa.table({"x": pa.array([float(SECRET), odd], from_pandas=False)}), source)
    with pytest.raises(
        UnusableValuesError, match="contains NaN, an infinity, a null or an empty cell: --missing"
    ) as caught:
        copied_reals(source, tmp_path / f"out{end}", columns)
    assert SECRET not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [f"in{end}"]
    (piece,) = files.open_source(source, columns, real=True, missing=True).pieces()
    assert np.isfinite(piece.counts[0]).tolist() == [True, False]
    copied_reals(source, tmp_path / f"out{end}", columns, np.nan_to_num, missing=True)


def test_what_no_law_of_reals_takes_is_refused_without_a_hint(tmp_path) -> None:
    """Text, and half floats; test_cli.py has the columns that other laws take."""
    pq.write_table(pa.table({"x": [b"1.5"]}), tmp_path / "in.parquet")
    with pytest.raises(ParameterError, match="column 'x' must contain float32 or float64, but contains [a-z0-9]+$"):
        files.open_source(tmp_path / "in.parquet", ["x"], real=True)
    np.save(tmp_path / "halves.npy", np.arange(3.0).astype("f2"))
    with pytest.raises(ParameterError, match="must contain float32 or float64, but contains float16$"):
        files.open_source(tmp_path / "halves.npy", [], real=True)


@pytest.mark.slow
def test_a_parquet_file_with_any_flipped_bit_ends_no_process(tmp_path) -> None:
    """Any wrong byte of metadata: a source, or a refusal; pyarrow would abort on a column."""
    output = python(
        """
        import random, sys
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq
        from pathlib import Path
        from dpfast.errors import DpfastError
        from dpfast.app.tables import files

        path, r = Path(sys.argv[1]), random.Random(1)
        pq.write_table(pa.table({"city": ["a", "b", "c", "d"] * 50, "n": [7, 5, 0, 12] * 50, "x": [0.5, 1.5] * 100}), path)
        whole, refused = path.read_bytes(), 0
        for at in range(len(whole)):
            spoilt = bytearray(whole)
            spoilt[at] ^= 1 << r.randrange(8)
            path.write_bytes(spoilt)
            try:
                files.open_source(path, ["n"], real=False, missing=False)
            except DpfastError:
                refused += 1
        print(refused > 100)
        """,
        tmp_path / "in.parquet",
    )
    assert output == "True\n"
