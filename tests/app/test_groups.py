# SPDX-License-Identifier: Apache-2.0
"""What OUT shows beside its cells: nothing of the text, the pieces or the files of the input."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beneath import beneath
from peak_memory import MEASURED, peak
from table_files import read, store

import dpfast
from dpfast.app.cli import main
from dpfast.app.tables import array_file, arrow_file, csv_text, drawn, groups, passed, readers, streams
from dpfast.engines.jobs import tasks
from dpfast.engines.jobs.folder import Folder

ROWS = 600
LAW = ["--epsilon", "1", "--sensitivity", "1", "--quiet", "--missing", "0"]
REAL = ["--mechanism", "laplace", "--epsilon", "1", "--l0", "1", "--linf", "1", "--quiet"]
REAL += ["--missing", "0", "--clamp", "-1", "1"]
AS_WELL = {".tsv.gz", ".jsonl.zst", ".feather", ".npz"}  # each beside one that is read the same way
INS = [".csv", ".tsv.gz", ".jsonl", ".jsonl.zst", "", ".parquet", ".arrow", ".feather", ".npy", ".npz"]
OUTS = [".csv", ".tsv.gz", ".csv.zst", ".jsonl", ".jsonl.gz", ".parquet", ".arrow", ".feather"]

# Neighbours: each cell of one is of another length, sign or kind in the other.
COUNTS = [9, 1, 0, 12, 5], [10, -1, None, 123_456_789_012, 55_555]
REALS = [0.5, 1.0, 2.0, 0.0, 0.25], [0.123456789, -1e-300, None, 1e22, 2.0]


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, groups of 250, and numbers that no cell of the input decides."""

    def numbers(table: Any, *_: object) -> Iterator[Any]:
        at = 0
        for piece in table.pieces():
            size = len(piece.counts[0])
            yield piece, [np.arange(at, at + size).astype(kind) for kind in table.dtypes]
            at += size

    monkeypatch.setattr(drawn, "fresh", numbers)
    monkeypatch.setattr(csv_text, "BLOCK", 1 << 10)
    monkeypatch.setattr(readers, "LOOK", 1 << 12)
    monkeypatch.setattr(arrow_file, "ROWS", 175)
    monkeypatch.setattr(array_file, "ELEMENTS", 175)
    monkeypatch.setattr(streams, "BLOCK", 1 << 8)
    monkeypatch.setattr(groups, "ROWS", 250)


def write(path: Path, numbers: list[Any], rows: int) -> Path:
    """A table of these numbers and of columns that pass. rows: of a group, a batch or a file."""
    label, note = [f"{i:06}" for i in range(ROWS)], ["ab" * (i % 7) or None for i in range(ROWS)]
    given = (numbers * ROWS)[:ROWS]
    kind, rows_of = path.name.partition(".")[2].split(".")[0], list(zip(label, given, note, strict=True))
    if kind in {"csv", "tsv", "jsonl"}:
        lines = [json.dumps(dict(zip(["label", "n", "note"], each, strict=True))) for each in rows_of]
        if kind != "jsonl":
            texts = [["" if x is None else str(x) for x in each] for each in rows_of]
            lines = [("\t" if kind == "tsv" else ",").join(each) for each in [["label", "n", "note"], *texts]]
        text = "".join(f"{line}\n" for line in lines).encode()
        packed = {".gz": gzip.compress, ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True)}
        path.write_bytes(packed.get(path.suffix, bytes)(text))
    elif kind.startswith("np"):
        array = np.array([0 if x is None else x for x in given])
        (np.save if kind == "npy" else np.savez)(path, array)
    else:
        category = pa.array(["b", None, "a"] * (ROWS // 3)).dictionary_encode()
        table = pa.table({"label": label, "n": given, "note": note, "kind": category})
        if kind:
            store(table, path, rows=rows)
        else:
            path.mkdir()
            for at in range(0, ROWS, rows):
                store(table.slice(at, rows), path / f"{at:06}.parquet", rows=rows)
    return path


@pytest.mark.usefixtures("stubbed")
@pytest.mark.parametrize("start", [pytest.param(start, marks=[pytest.mark.slow] * (start in AS_WELL)) for start in INS])
@pytest.mark.parametrize(
    ("law", "neighbours"),
    [pytest.param(LAW, COUNTS, id="counts"), pytest.param(REAL, REALS, id="reals")],
)
def test_out_is_a_function_of_its_own_cells(tmp_path, start, law, neighbours) -> None:
    """Inputs whose private cells, groups and files differ, and equal noisy numbers: equal bytes."""
    arrays = start.startswith(".np")
    column = [] if arrays else ["--column", "n"]
    ins = [write(tmp_path / f"{i}in{start}", each, 175 - 100 * i) for i, each in enumerate(neighbours)]
    for end in [start] if arrays else OUTS:
        for order in [[]] if arrays or law == REAL else [[], ["--sort-by", "label"]]:
            made = []
            for i, given in enumerate(ins):
                out = tmp_path / f"{i}" / f"out{end}"
                out.parent.mkdir(exist_ok=True)
                assert main(["privatize", str(given), str(out), *column, *order, *law, "--force"]) == 0
                made.append(out.read_bytes())
            assert made[0] == made[1], (end, order)
            assert ins[0].is_dir() or ins[0].read_bytes() != ins[1].read_bytes()


# ------------------------------------------------------------------ where groups end


def sizes(path: Path) -> list[int]:
    """Rows of each group or batch."""
    if path.suffix == ".parquet":
        about = pq.ParquetFile(path).metadata
        return [about.row_group(at).num_rows for at in range(about.num_row_groups)]
    file = pa.ipc.open_file(path)
    return [file.get_batch(at).num_rows for at in range(file.num_record_batches)]


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".feather"])
def test_a_group_has_a_fixed_number_of_rows(tmp_path, end) -> None:
    """65,536, or with many columns 2^20 cells, whatever the groups of the input are."""
    for name, columns, rows, expected in (
        ("few", 2, 150_000, [65_536, 65_536, 18_928]),
        ("many", 100, 25_000, [10_485, 10_485, 4_030]),
        ("none", 2, 0, []),
    ):
        table = pa.table({"n": np.zeros(rows, int), **{f"x{i}": np.zeros(rows, np.int8) for i in range(1, columns)}})
        store(table, tmp_path / f"{name}.parquet", rows=7_001)
        out = tmp_path / f"{name}-out{end}"
        assert main(["privatize", str(tmp_path / f"{name}.parquet"), str(out), "--column", "n", *LAW[:5]]) == 0
        assert (sizes(out), read(out).num_rows) == (expected, rows)


def grouped(parts: list[pa.RecordBatch], most: int = groups.BYTES, noisy: tuple[int, ...] = ()) -> list[pa.RecordBatch]:
    made = groups.Groups(parts[0].schema, noisy, most)
    return [*(group for part in parts for group in made.add(part)), *made.rest()]


def test_a_group_ends_before_its_passing_cells_are_too_many_bytes() -> None:
    """A row that is larger than a group is one of its own. What gets noise does not count."""
    texts = pa.array(["a" * size for size in (4, 6, 1, 25, 3, 3, 3, 3)])
    batch = pa.RecordBatch.from_arrays([pa.array(range(8)), texts], names=["n", "x"])
    assert [group["x"].to_pylist() for group in grouped([batch], 10, (0,))] == [
        ["aaaa", "aaaaaa"], ["a"], ["a" * 25], ["aaa", "aaa", "aaa"], ["aaa"]
    ]  # fmt: skip
    assert [len(group) for group in grouped([batch], 18, (0,))] == [3, 1, 4]
    assert [len(group) for group in grouped([batch], 18)] == [1] * 8
    wide = pa.RecordBatch.from_arrays([pa.array(range(80)), pa.array(["a" * (1 << 20)] * 80)], names=["n", "x"])
    assert [len(group) for group in grouped([wide], noisy=(0,))] == [64, 16]


@pytest.mark.parametrize("name", beneath())
def test_no_type_shows_in_which_pieces_it_came(name, monkeypatch) -> None:
    """300 rows with nulls, cut in 12 ways, in groups of 64 rows or 1,500 bytes: equal bytes."""
    monkeypatch.setattr(groups, "ROWS", 64)
    column = beneath()[name]
    column = pa.concat_arrays([column.slice(at, 1) for at in (0, 1, 0, 0, 1)] * 60)
    if not pa.types.is_dictionary(column.type):
        column = passed.rebuilt(column, passed.plain(column.type))
    batch = pa.RecordBatch.from_arrays([column], names=["x"])

    def written(cuts: list[int]) -> bytes:
        ends = [0, *sorted(cuts), len(batch)]
        parts = [batch.slice(a, b - a) for a, b in pairwise(ends)]
        made, sink = grouped(parts, 1500), io.BytesIO()
        assert pa.Table.from_batches(made).combine_chunks().equals(pa.Table.from_batches([batch]))
        with pa.ipc.new_file(sink, batch.schema) as writer:
            for group in made:
                writer.write_batch(group)
        return sink.getvalue()

    assert len({written(random.Random(i).sample(range(301), i)) for i in range(12)}) == 1


def test_bytes_of_cells() -> None:
    """The letters of a text, the width of a number, and 8 for a list beside its elements."""
    for column, expected in (
        (pa.array(["é", None, ""]), [2, 0, 0]),
        (pa.array([1, None, 3], pa.int16()), [2, 2, 2]),
        (pa.array([True, None]), [1, 1]),
        (pa.nulls(2), [0, 0]),
        (pa.array([["a", "bc"], None, []]), [11, 8, 8]),
        (pa.array([[["a"], []], None]), [25, 8]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())), [13, 8]),
        (pa.array([{"a": "xy", "b": 1.0}, None]), [10, 8]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [10, 8]),
        (pa.array(["a" * 20, None], pa.string_view()), [20, 0]),
        (pa.array(["a", None]).dictionary_encode(), [4, 4]),
        (pa.array([[1], [2], [3, 4]]).slice(1, 2), [16, 24]),
    ):
        assert passed.sizes(column).tolist() == expected, column.type


@MEASURED
@pytest.mark.slow
@pytest.mark.parametrize("end", [".arrow", ".parquet", ".feather"])
def test_wide_texts_take_the_memory_of_a_group(tmp_path, end) -> None:
    """100 MB of texts of 10,000 random letters each: no group holds 65,536 rows of them."""
    with (tmp_path / "in.csv").open("w") as file:
        file.write("n,x\n")
        for i in range(100):
            letters = np.random.default_rng(i).bytes(500_000).hex()
            file.writelines(f"{i},{letters[at : at + 10_000]}\n" for at in range(0, 1_000_000, 10_000))
    out = tmp_path / f"out{end}"
    most = peak(["privatize", tmp_path / "in.csv", out, "--column", "n", *LAW[:5], "--threads", "2"])
    assert most < 250 << 20, most >> 20
    assert sizes(out) == ([6_710, 3_290] if end != ".feather" else [3_355, 3_355, 3_290])


# ------------------------------------------------------------------ texts


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_packer_gets_blocks_of_one_size(tmp_path, monkeypatch, codec) -> None:
    """How it is called then depends on the bytes of OUT alone."""
    calls: list[list[int]] = []
    packer = pa.CompressedOutputStream

    class Noted:
        def __init__(self, sink: Any, codec: str) -> None:
            self._packer = packer(sink, codec)
            calls.append([])

        def write(self, data: bytes) -> None:
            calls[-1].append(len(data))
            self._packer.write(data)

        def close(self) -> None:
            self._packer.close()

    monkeypatch.setattr(streams, "BLOCK", 100)
    monkeypatch.setattr(pa, "CompressedOutputStream", Noted)
    text = random.Random(1).randbytes(1234)
    for step in (1, 70, 100, 999, 1234):
        with (tmp_path / f"{step}").open("wb") as raw, streams.packed(raw, codec) as file:
            for at in range(0, len(text), step):
                file.write(text[at : at + step])
        assert pa.CompressedInputStream(pa.OSFile(str(tmp_path / f"{step}")), codec).read() == text
    assert calls == [[100] * 12 + [34]] * 5


# ------------------------------------------------------------------ other outputs


@pytest.mark.parametrize("end", [".csv", ".tsv.gz", ".jsonl", ".parquet", ".arrow", ".feather"])
def test_a_histogram_shows_nothing_of_its_rows(tmp_path, monkeypatch, end) -> None:
    """Rows of other units, values, order and pieces, and equal noisy numbers: equal bytes."""
    monkeypatch.setattr(dpfast.BoundedHistogram, "release", lambda found, *_, **__: np.arange(found.counts.size))
    monkeypatch.setattr(csv_text, "BLOCK", 1 << 12)
    made = []
    for i, (unit, value) in enumerate([("u", "7"), ("a longer unit", "-123456.75")]):
        rows = tmp_path / f"{i}.csv"
        lines = [f"{unit}{j},k{j % 50},{value}\n" for j in range(900 + 100 * i)]
        rows.write_text("who,key,value\n" + "".join(lines[::-1] if i else lines))
        words = ["--by", "key", "--unit", "who", "--max-partitions", "1", "--sum", "value", "--clamp", "0", "9"]
        words += ["--domain", ",".join(f"k{j}" for j in range(60)), "--epsilon", "1", "--quiet"]
        out = tmp_path / f"{i}" / f"out{end}"
        out.parent.mkdir()
        assert main(["histogram", str(rows), str(out), *words]) == 0
        made.append(out.read_bytes())
    assert made[0] == made[1]


def test_a_file_of_a_job_does_not_show_how_its_table_was_cut(tmp_path) -> None:
    """A block's rows in other chunks: equal bytes, also of texts that fill many pages."""
    table = pa.table({"key": [f"{i:06}" * 9 for i in range(65_536)], "count": np.arange(65_536)})
    for step in (65_536, 1_000):
        cut = pa.concat_tables([table.slice(at, step) for at in range(0, 65_536, step)])
        (tmp_path / f"{step}").mkdir()
        tasks.put(Folder(tmp_path / f"{step}"), 0, cut)
    assert (tmp_path / "1000" / tasks.file_of(0)).read_bytes() == (tmp_path / "65536" / tasks.file_of(0)).read_bytes()
