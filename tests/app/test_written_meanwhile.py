# SPDX-License-Identifier: Apache-2.0
"""An input that somebody writes while it is read, and no time of the file tells it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import read, store

import dpfast
from dpfast.app.cli import main
from dpfast.app.tables import arrow_file, arrow_reader, passed, streams
from dpfast.app.tables.arrow_reader import ArrowFile
from dpfast.app.tables.files import ArrowSource
from dpfast.errors import FileError

ROWS = 1000
WORDS = ["--column", "n", "--epsilon", "1", "--sensitivity", "1", "--quiet"]
KEYED = ["--ledger", "budget.db", "--key-file", "visits.key", "--label", "visits"]
TABLE = pa.table({"name": [f"{i:08}" for i in range(ROWS)], "n": pa.array(np.full(ROWS, 7919))})
COPIED = pytest.mark.parametrize("largest", [pytest.param(1 << 26, id="read"), pytest.param(0, id="copied")])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dpfast.Ledger("budget.db", 9, create=True)
    dpfast.KeyFile.create("visits.key")


def written(table: pa.Table, path: Path) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        store(table, path)


def unseen(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """From now on the states of the file are those of this moment."""
    state = streams.states([path])
    monkeypatch.setattr("dpfast.app.tables.source.states", lambda _: state)


def charges() -> int:
    return len(dpfast.Ledger("budget.db").history())


# ------------------------------------------------------------------ between the check and the use


@COPIED
def test_offsets_that_move_behind_their_check_lead_nowhere(monkeypatch, largest: int) -> None:
    """They led from names into the counts beside them, or into other memory of the process."""
    path, out = Path("in.arrow"), Path("out.arrow")
    monkeypatch.setattr(arrow_reader, "LARGEST", largest)
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    data = path.read_bytes()
    at = data.index((np.arange(ROWS + 1, dtype="<i4") * 8).tobytes()) + 4 * ROWS  # the end of the last name
    rebuilt = passed.rebuilt

    def moved(array: pa.Array, kind: pa.DataType) -> pa.Array:
        with path.open("r+b") as file:
            file.seek(at)
            file.write((8 * ROWS + 4000).to_bytes(4, "little"))
        return rebuilt(array, kind)

    monkeypatch.setattr(passed, "rebuilt", moved)
    unseen(monkeypatch, path)
    assert main(["privatize", str(path), str(out), *WORDS]) == 0
    assert read(out)["name"].equals(TABLE["name"])


@COPIED
def test_an_arrow_file_that_becomes_shorter_ends_no_process(monkeypatch, capsys, largest: int) -> None:
    monkeypatch.setattr(arrow_reader, "LARGEST", largest)
    store(TABLE, Path("in.arrow"))
    rebuilt = passed.rebuilt
    monkeypatch.setattr(passed, "rebuilt", lambda *given: os.truncate("in.arrow", 9) or rebuilt(*given))
    assert main(["privatize", "in.arrow", "out.arrow", *WORDS]) == 1
    assert "in.arrow has changed while it was read" in capsys.readouterr().err
    assert not Path("out.arrow").exists()


# ------------------------------------------------------------------ between two passes


def there_and_back(monkeypatch: pytest.MonkeyPatch, path: Path, table: pa.Table) -> None:
    """In the second pass alone, names of equal counts are traded."""
    whole, pieces, passes = path.read_bytes(), ArrowSource.pieces, []
    names = table["name"].to_pylist()
    written(table.set_column(0, "name", [[names[1], names[0], *names[2:]]]), path)
    traded = path.read_bytes()
    path.write_bytes(whole)

    def watched(self: ArrowSource) -> Iterator[Any]:
        passes.append(1)
        if len(passes) == 2:
            path.write_bytes(traded)
        yield from pieces(self)
        path.write_bytes(whole)

    monkeypatch.setattr(ArrowSource, "pieces", watched)
    unseen(monkeypatch, path)


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".jsonl"])
def test_names_that_are_traded_for_one_pass_are_not_published(monkeypatch, capsys, end: str) -> None:
    """The file was digested after each pass, when it was itself again."""
    path, out = Path(f"in{end}"), Path(f"out{end}")
    written(TABLE, path)
    with monkeypatch.context() as patched:
        there_and_back(patched, path, TABLE)
        assert main(["privatize", str(path), str(out), *WORDS, *KEYED]) == 4
        assert "has changed while it was read" in capsys.readouterr().err
    assert not out.exists()
    assert main(["privatize", str(path), str(out), *WORDS, *KEYED, "--resume"]) == 0
    assert charges() == 1


def test_a_copy_serves_both_passes(monkeypatch) -> None:
    path, out = Path("in.arrow"), Path("out.arrow")
    monkeypatch.setattr(arrow_reader, "LARGEST", 0)
    written(TABLE, path)
    there_and_back(monkeypatch, path, TABLE)
    assert main(["privatize", str(path), str(out), *WORDS, *KEYED]) == 0
    assert read(out)["name"].equals(TABLE["name"])


# ------------------------------------------------------------------ the copy


def test_a_copy_has_no_name_and_is_its_owner_s(monkeypatch) -> None:
    Path("temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(Path("temporary").resolve()))
    monkeypatch.setattr(arrow_reader, "LARGEST", 0)
    modes, made = [], tempfile.TemporaryFile

    def noted(*given: Any, **options: Any) -> Any:
        file = made(*given, **options)
        modes.append((os.fstat(file.fileno()).st_mode & 0o777, os.fstat(file.fileno()).st_nlink))
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    store(TABLE, Path("in.arrow"))
    reader = ArrowFile(Path("in.arrow"))
    assert sum(batch.num_rows for batch, _ in reader.batches(100)) == ROWS
    assert (modes, list(Path("temporary").iterdir())) == ([(0o600, 0)], [])
    assert reader.copy is not None
    assert reader.copy[:] == Path("in.arrow").read_bytes()


@pytest.mark.parametrize("keyed", [KEYED, KEYED[:2]])
def test_no_room_for_a_copy_costs_nothing(monkeypatch, capsys, keyed: list[str]) -> None:
    monkeypatch.setattr(arrow_reader, "LARGEST", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(Path.open, Path("/dev/full"), "w+b"))
    store(TABLE, Path("in.arrow"))
    assert main(["privatize", "in.arrow", "out.arrow", *WORDS, *keyed]) == 1
    assert "copied among the temporary files to be read: No space left on device" in capsys.readouterr().err
    assert (charges(), Path("out.arrow").exists()) == (0, False)


def test_small_batches_are_not_copied() -> None:
    store(TABLE, Path("in.arrow"))
    reader = ArrowFile(Path("in.arrow"))
    list(reader.batches(100))
    assert reader.copy is None


# ------------------------------------------------------------------ sizes of batches


def arrow(table: pa.Table, **options: Any) -> Path:
    path = Path("sized.arrow")
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=600)
    return path


CODED = pa.table({"n": TABLE["n"], "name": TABLE["name"].combine_chunks().dictionary_encode()})


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("table", [TABLE, CODED])
def test_sizes_of_batches(monkeypatch, table: pa.Table, legacy: bool) -> None:
    """A batch takes 600 counts, and as many texts or codes; the dictionary takes 1,000 texts."""
    path = arrow(table, use_legacy_format=legacy)
    largest = 9.6e3 + 2.4e3 if table is TABLE else 12e3
    for bound, is_larger in ((largest * 0.95, True), (largest * 1.05, False)):
        monkeypatch.setattr(arrow_reader, "LARGEST", int(bound))
        assert arrow_reader.has_large_batches(path) == is_larger


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("table", [TABLE, CODED])
def test_a_packed_batch_has_a_bound_before_it_is_unpacked(monkeypatch, table: pa.Table, codec: str) -> None:
    path = arrow(table, compression=codec)
    assert not arrow_reader.has_large_batches(path)
    monkeypatch.setattr(arrow_reader, "UNPACKED", 13_000)
    assert not arrow_reader.has_large_batches(path)
    monkeypatch.setattr(arrow_reader, "UNPACKED", 11_000)
    with pytest.raises(FileError, match=r"sized\.arrow contains a packed batch that takes more than 0 MiB of memory"):
        list(ArrowFile(path).batches(9))


def test_a_damaged_footer_gives_an_answer_or_is_refused() -> None:
    """Each byte of it, with another in its place."""
    path = arrow(TABLE.slice(0, 9), compression="zstd")
    whole = path.read_bytes()
    size, refused = int.from_bytes(whole[-10:-6], "little"), 0
    for at in range(len(whole) - size - 10, len(whole) - 6):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            arrow_reader.has_large_batches(path)
        except (ValueError, FileError):
            refused += 1
    assert refused > 3


# ------------------------------------------------------------------ what is sealed of other cells


def rewritten(path: Path) -> pa.Table:
    """The same rows by other groups, codes and packing."""
    table = read(path)
    if path.suffix == ".arrow":
        table = table.set_column(0, "name", table["name"].combine_chunks().dictionary_encode().dictionary_decode())
        store(table, path, rows=77)
    else:
        pq.write_table(table, path, row_group_size=77, compression="gzip", use_dictionary=False, data_page_size=99)
    return table


@pytest.mark.parametrize("end", [".parquet", ".arrow"])
def test_the_same_cells_in_another_file_are_the_same_input(end: str) -> None:
    path, out = Path(f"in{end}"), Path(f"out{end}")
    written(TABLE, path)
    command = ["privatize", str(path), str(out), *WORDS, *KEYED, "--resume"]
    assert main(command) == 0
    first = read(out)
    manifest = json.loads(first.schema.metadata[b"dpfast"])["manifest"]
    assert manifest["terms"] == {"passing": "values"}
    out.unlink()
    before = path.read_bytes()
    rewritten(path)
    assert path.read_bytes() != before
    assert main(command) == 0
    assert read(out).equals(first)
    assert charges() == 1


def test_a_csv_s_seal_names_no_term() -> None:
    Path("in.csv").write_text("name,n\na,7919\n")
    assert main(["privatize", "in.csv", "out.csv", *WORDS, *KEYED]) == 0
    assert "terms" not in json.loads(Path("out.csv.json").read_text())["manifest"]


KINDS: dict[str, Callable[[], pa.Array]] = {
    "int": lambda: pa.array([1, None, 0, 2, 1]),
    "bool": lambda: pa.array([True, None, False, True, True]),
    "text": lambda: pa.array(["a", None, "", "ab", "b"]),
    "large text": lambda: pa.array(["a", None, "", "ab", "b"], pa.large_string()),
    "view": lambda: pa.array(["a", None, "", "a text of more than twelve bytes", "b"], pa.string_view()),
    "bytes": lambda: pa.array([b"a", None, b"", b"ab", b"b"]),
    "fixed": lambda: pa.array([b"ab", None, b"cd", b"\0\0", b"ab"], pa.binary(2)),
    "decimal": lambda: pa.array([1, None, 0, 2, 1], pa.decimal128(38)),
    "moment": lambda: pa.array([1, None, 0, 2, 1], pa.timestamp("us", "UTC")),
    "real": lambda: pa.array([0.0, None, -0.0, float("nan"), 1.0]),
    "null": lambda: pa.nulls(5),
    "list": lambda: pa.array([[1], None, [], [1, None], [2, 1]]),
    "fixed list": lambda: pa.array([[1, 2], None, [None, 1], [1, None], [2, 1]], pa.list_(pa.int64(), 2)),
    "struct": lambda: pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "a"}, {"x": 1, "y": None}, {"x": 2, "y": ""}]),
    "map": lambda: pa.array([[("k", 1)], None, [], [("k", None)], [("k", 1), ("l", 2)]], pa.map_(pa.string(), pa.int64())),
    "nested": lambda: pa.array([[["a"], []], None, [[], ["a"]], [["a", None]], [None]]),
    "coded": lambda: pa.array(["a", None, "", "ab", "b"]).dictionary_encode(),
}  # fmt: skip


def digest(*columns: pa.Array, path: Path = Path("in.arrow")) -> bytes:
    """The digest of a column in so many batches, as a source makes it."""
    batches = [pa.record_batch({"name": each, "n": np.zeros(len(each), np.int64)}) for each in columns]
    with pa.ipc.new_file(path, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    source = ArrowSource(*_opened(path))
    found = source.passing()
    for piece in source.pieces():
        found.update(piece)
    return found.digest()


def _opened(path: Path) -> Any:
    from dpfast.app.tables.source import Wanted
    from dpfast.app.tables.streams import Form
    from dpfast.app.tables.text_format import TextFormat

    return path, Wanted(["n"]), False, Form("Arrow"), ArrowFile(path), TextFormat()


@pytest.mark.parametrize("name", KINDS)
def test_equal_cells_have_one_digest_and_traded_cells_have_another(monkeypatch, name: str) -> None:
    """However they are cut; and of five cells each two that differ are traded."""
    monkeypatch.setattr(arrow_file, "ROWS", 2)
    column = KINDS[name]()
    whole = digest(column)
    assert digest(pa.concat_arrays([column[:3], column[3:]]).slice(0)) == whole
    if name != "coded":
        assert digest(column[:1], column[1:]) == digest(column[:0], column[:4], column[4:]) == whole
    cells, found = column.to_pylist(), {whole}
    for i in range(5):
        for j in range(i):
            order = list(range(5))
            order[i], order[j] = j, i
            traded = digest(pa.array([cells[k] for k in order], column.type))
            assert (traded == whole) == (repr(cells[i]) == repr(cells[j])), (i, j)
            found.add(traded)
    shorter = digest(column[:4])
    assert shorter not in found


def test_codes_are_not_in_a_digest_and_an_order_of_categories_is() -> None:
    """Categories without an order are names."""
    cells, names = pa.array(["a", "b", "a", None]), pa.array(["b", "unused", "a"])
    codes = pa.array([2, 0, 2, None], pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, names)
    as_met = cells.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    assert digest(coded) == digest(as_met) == digest(cells)
    one, other = (
        pa.DictionaryArray.from_arrays(codes, names, ordered=True),
        pa.DictionaryArray.from_arrays(as_met.indices, as_met.dictionary, ordered=True),
    )
    assert len({digest(one), digest(other), digest(coded)}) == 3


@pytest.mark.parametrize("change", ["name", "type", "about"])
def test_names_types_and_metadata_are_in_a_digest(change: str) -> None:
    table = pa.table({"name": pa.array([1, 2]), "n": [1, 2]})
    names = {"name": ["other", "n"]}.get(change, ["name", "n"])
    other = table.rename_columns(names)
    if change == "type":
        other = other.set_column(0, "name", other["name"].cast(pa.timestamp("s")))
    if change == "about":
        other = other.replace_schema_metadata({b"pandas": b'{"index_columns": [], "columns": []}'})
    found = []
    for each in (table, other):
        store(each, Path("in.arrow"))
        found.append(ArrowSource(*_opened(Path("in.arrow"))).passing().digest())
    assert found[0] != found[1]
