# SPDX-License-Identifier: Apache-2.0
"""Files that say much in few bytes: what is held at once, and what is said of a full memory."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import store

from dpfast.app.cli import main
from dpfast.app.tables import held, passed, readers
from dpfast.app.tables.arrow_reader import ArrowFile

ROWS, LONG = 400, 1000
PRIVATIZE = ["--column", "n", "--epsilon", "1", "--sensitivity", "1", "--quiet"]
HISTOGRAM = [
    "--by",
    "n",
    "--unit",
    "a",
    "--epsilon",
    "1",
    "--max-partitions",
    "1",
    "--max-per-partition",
    "1",
    "--quiet",
]
HISTOGRAM += ["--threshold", "--delta", "1e-4"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(held, "MOST", 20 * LONG)


def said_again(kind: str) -> pa.Array:
    """A long text in each row; a file holds it one time."""
    text, codes = pa.array(["x" * LONG]), pa.array(np.zeros(ROWS, np.int32))
    coded = pa.DictionaryArray.from_arrays(codes, text)
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), coded)
    if kind == "map":
        return pa.MapArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), pa.array(range(ROWS)), coded)
    if kind == "struct":
        return pa.StructArray.from_arrays([coded], ["x"])
    if kind == "view":
        return coded.cast(pa.string()).cast(pa.string_view())
    if kind == "fixed":
        return pa.array([b"x" * LONG] * ROWS, pa.binary(LONG))
    return coded


def parts(reader: Any) -> list[pa.RecordBatch]:
    return [batch for batch, _ in reader.batches(1 << 20)]


# ------------------------------------------------------------------ bytes of a batch


@pytest.mark.parametrize("kind", ["text", "list", "struct", "fixed"])
def test_rows_of_parquet_are_read_as_many_as_memory_takes(monkeypatch, kind: str) -> None:
    """A file of 6 KB took 2.4 GiB: a million rows were read at once, whatever a row is."""
    path, asked = Path("in.parquet"), []
    table = pa.table({"n": range(ROWS), "x": said_again(kind)})
    pq.write_table(table.cast(pa.schema([("n", pa.int64()), ("x", passed.plain(table.schema.field("x").type))])), path)
    assert path.stat().st_size < 20 * LONG
    original = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda self, rows, *more, **some: asked.append(rows) or original(self, rows, *more, **some),
    )
    found = parts(readers.Parquet(path))
    assert 10 <= asked[-1] <= 20
    assert sum(batch.num_rows for batch in found) == ROWS
    assert max(batch.nbytes for batch in found) <= 21 * LONG


def test_usual_rows_of_parquet_are_read_as_before(monkeypatch) -> None:
    monkeypatch.setattr(held, "MOST", 1 << 26)
    pq.write_table(pa.table({"n": range(ROWS), "x": [f"city {i % 9}" for i in range(ROWS)]}), "in.parquet")
    file = pq.ParquetFile("in.parquet")
    coded = pq.ParquetFile("in.parquet", read_dictionary=held.texts_of(file))
    assert held.rows_held(file, coded, 1 << 20, None) == 1 << 20


def test_texts_that_are_told_by_how_they_differ_are_guessed(monkeypatch) -> None:
    monkeypatch.setattr(held, "MOST", 1 << 20)
    encoding = {"column_encoding": {"x": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}
    pq.write_table(pa.table({"x": ["x" * LONG] * ROWS}), "in.parquet", **encoding)
    file = pq.ParquetFile("in.parquet")
    assert held.rows_held(file, file, 1 << 20, None) == (1 << 20) // held.SHORT


@pytest.mark.parametrize("kind", ["text", "list", "map", "struct", "view"])
def test_rows_of_arrow_come_as_many_as_memory_takes(kind: str) -> None:
    """Whose cells a dictionary, or a view, repeats."""
    path = Path("in.arrow")
    store(pa.table({"n": range(ROWS), "x": said_again(kind)}), path, rows=ROWS)
    found = parts(ArrowFile(path))
    assert sum(batch.num_rows for batch in found) == ROWS
    assert max(batch.num_rows for batch in found) <= 20


def test_a_row_that_takes_more_comes_alone() -> None:
    batch = pa.record_batch({"x": ["x" * 99 * LONG, "", "y" * 99 * LONG]})
    assert [part.num_rows for part in held.in_parts(batch, 9)] == [1, 1, 1]
    assert pa.Table.from_batches(held.in_parts(batch, 9))["x"].to_pylist() == batch["x"].to_pylist()


# ------------------------------------------------------------------ columns


@pytest.mark.parametrize("command", [["privatize", *PRIVATIZE], ["histogram", *HISTOGRAM]])
@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow", ".jsonl"])
def test_a_table_has_at_most_so_many_columns(monkeypatch, capsys, end: str, command: list[str]) -> None:
    monkeypatch.setattr(held, "MOST_COLUMNS", 3)
    path = Path(f"in{end}")
    if end == ".csv":
        path.write_text("n,a,b,c\n1,2,3,4\n")
    elif end == ".jsonl":
        path.write_text('{"n": 1, "a": 2, "b": 3, "c": 4}\n')
    else:
        store(pa.table({"n": [1], "a": [2], "b": [3], "c": [4]}), path)
    assert main([command[0], str(path), "out.csv", *command[1:]]) == 1
    assert f"in{end} must have at most 3 columns, and has 4" in capsys.readouterr().err
    assert not Path("out.csv").exists()


# ------------------------------------------------------------------ memory


def test_a_packed_text_is_sorted_if_it_is_small_unpacked(monkeypatch, capsys) -> None:
    """The size of the packed file was looked at."""
    monkeypatch.setattr(passed, "LARGEST_SORTED", 5000)
    Path("in.csv.gz").write_bytes(gzip.compress(b"n,a\n" + b"1,22222\n" * 1000))
    assert Path("in.csv.gz").stat().st_size < 1000
    assert main(["privatize", "in.csv.gz", "out.csv", *PRIVATIZE, "--sort-by", "a"]) == 1
    assert "--sort-by holds a table in memory" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError])
@pytest.mark.parametrize("command", [["privatize", *PRIVATIZE], ["histogram", *HISTOGRAM]])
def test_a_full_memory_is_no_damage(monkeypatch, capsys, command: list[str], error: type[Exception]) -> None:
    def full(*_: object) -> Iterator[Any]:
        raise error

    store(pa.table({"n": [1], "a": [2]}), Path("in.parquet"))
    monkeypatch.setattr(readers.Parquet, "batches", full)
    assert main([command[0], "in.parquet", "out.csv", *command[1:]]) == 1
    said = capsys.readouterr().err
    assert f"cannot read in.parquet: {held.NO_MEMORY}" in said
    assert "damaged" not in said
