# SPDX-License-Identifier: Apache-2.0
"""`histogram` and hostile files: unequal files in a folder, files in two places, names, memory."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from peak_memory import MEASURED, peak
from table_files import read, store

import dpfast
from dpfast.app.cli import main

USUAL = ["--by", "city", "--unit", "person", "--max-partitions", "1", "--epsilon", "1", "--quiet"]
KNOWN = ["--domain", "city=Oslo,Lima"]
CITIES = {"city": ["Oslo", "Lima"], "person": [1, 2]}
Columns: TypeAlias = dict[str, Any]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("city,person\nOslo,1\nLima,2\n")
    dpfast.Ledger("budget.db", 9, create=True)


def charges() -> int:
    return len(dpfast.Ledger("budget.db").history())


def refused(capsys: pytest.CaptureFixture[str], match: str, *words: str, rows: str = "rows.csv") -> None:
    """One line that says so; nothing is written, and nothing is charged."""
    before = contents()
    paid = [] if "--ledger" in words else ["--ledger", "budget.db"]
    out = [] if words and not words[0].startswith("-") else ["out.csv"]
    assert main(["histogram", rows, *out, *words, *USUAL, *([] if "--domain" in words else KNOWN), *paid]) in {1, 2}
    said = capsys.readouterr().err
    assert re.fullmatch(f"Error: .*{match}.*\n", said), said
    assert contents() == before
    assert charges() == 0


def contents() -> dict[str, bytes]:
    files = (path for path in Path().rglob("*") if path.is_file() and not path.name.startswith("budget.db"))
    return {str(path): path.read_bytes() for path in files}


# ------------------------------------------------------------------ folders


def folder(end: str, *tables: Columns) -> None:
    Path("rows").mkdir()
    for i, columns in enumerate(tables):
        store(pa.table(columns), Path(f"rows/{i}{end}"))


@pytest.mark.parametrize("end", [".parquet", ".arrow"])
@pytest.mark.parametrize(
    "other",
    [
        {"city": ["Lima"], "passenger": [3]},
        {"town": ["Lima"], "person": [3]},
        {"city": ["Lima"], "person": ["07"]},
        {"city": [3], "person": [3]},
        {"city": ["Lima"], "person": [3.0]},
    ],
)
def test_a_folder_of_unequal_files(capsys, end: str, other: Columns) -> None:
    """A file without the column gave no rows, and ids of another type were turned into ours."""
    folder(end, CITIES, other)
    refused(capsys, "", rows="rows")


@pytest.mark.parametrize("name", CITIES)
def test_texts_of_parquet_that_are_no_utf_8(capsys, name: str) -> None:
    """The message of an id was "please report this"."""
    texts = pa.array([b"Oslo", b"\xa0"], pa.binary()).cast(pa.string(), safe=False)
    store(pa.table({**CITIES, name: texts}), Path("rows.parquet"))
    refused(capsys, "rows.parquet is not a whole file of its format", rows="rows.parquet")


def test_a_column_that_a_file_of_a_folder_has_twice(capsys) -> None:
    folder(".parquet", CITIES)
    columns = [pa.array(["Oslo"]), pa.array([3]), pa.array([4])]
    pq.write_table(pa.Table.from_arrays(columns, ["city", "person", "person"]), "rows/2.parquet")
    refused(capsys, "files of one schema", rows="rows")


def test_a_delta_table_holds_rows_that_were_deleted(capsys) -> None:
    folder(".parquet", CITIES)
    Path("rows/_delta_log").mkdir()
    refused(capsys, "rows is a Delta or Iceberg table", rows="rows")


@pytest.mark.parametrize(("at", "match"), [("city=Oslo/b", "'city' is in both"), ("b", "at one depth")])
def test_folders_that_are_a_column_of_some_files(capsys, at: str, match: str) -> None:
    """A file beside the folders had no key, so its rows were left out."""
    for place, columns in (("city=Lima/a", {"person": [1]}), (at, {"person": [2]})):
        path = Path(f"rows/{place}.parquet")
        path.parent.mkdir(parents=True) if not path.parent.exists() else None
        pq.write_table(pa.table(columns if "both" not in match else {"city": ["Pune"], **columns}), path)
    refused(capsys, match, rows="rows")


def test_a_change_is_said_before_what_it_led_to(capsys, monkeypatch) -> None:
    """A file that becomes shorter while it is read has changed; it was called damaged."""
    from dpfast.app.tables import arrow_reader as reader

    store(pa.table({"city": ["Oslo"] * 300_000, "person": range(300_000)}), Path("rows.arrow"), rows=1000)
    batches = reader.ArrowFile.batches

    def shrinking(*given: Any) -> Any:
        for i, each in enumerate(batches(*given)):
            if not i:
                os.truncate("rows.arrow", 4000)
            yield each

    monkeypatch.setattr(reader.ArrowFile, "batches", shrinking)
    assert main(["histogram", "rows.arrow", "out.csv", *USUAL, *KNOWN]) == 1
    assert "rows.arrow has changed while it was read" in capsys.readouterr().err


# ------------------------------------------------------------------ files in two places


def ledger_at(path: str) -> list[str]:
    dpfast.Ledger(path, 9, create=True)
    return ["--ledger", path]


def key_at(path: str) -> list[str]:
    dpfast.KeyFile.create(path)
    return ["--ledger", "budget.db", "--key-file", path, "--label", "visits"]


def cities_at(path: str) -> list[str]:
    Path(path).write_text("Oslo\nLima\n")
    return ["--domain", path]


@pytest.mark.parametrize("what", ["OUT", "the record of OUT"])
@pytest.mark.parametrize(
    ("make", "named"), [(ledger_at, "--ledger"), (key_at, "--key-file"), (cities_at, "the file of --domain city")]
)
def test_out_is_no_file_that_the_command_needs(capsys, make: Callable[[str], list[str]], named: str, what: str) -> None:
    """--force replaced a ledger, with all that was spent."""
    path = "out.csv" if what == "OUT" else "out.csv.json"
    refused(capsys, f"{what} must not be {named}, got {path}", *make(path), "--force")


def test_the_record_of_out_is_not_the_rows(capsys) -> None:
    Path("out.csv.json").write_text('{"city": "Oslo", "person": 1}\n')
    refused(capsys, "the record of OUT must not be ROWS", "--format", "jsonl", "--force", rows="out.csv.json")


def test_a_report_is_no_file_that_the_command_needs(capsys) -> None:
    refused(capsys, "--report must be a file of its own", *cities_at("c.html"), "--report", "c.html", "--force")
    folder(".parquet", CITIES)
    refused(capsys, "--report must not lie among the files of ROWS", "--report", "rows/a.html", rows="rows")


@pytest.mark.parametrize(
    ("target", "words"),
    [("out.csv", ["--ledger", "out.csv.json"]), ("-", ["--format", "csv", "--metadata", "budget.db"])],
)
def test_the_record_of_privatize_is_no_file_that_it_needs(capsys, target: str, words: list[str]) -> None:
    Path("in.csv").write_text("n\n1\n")
    Path("out.csv.json").write_bytes(Path("budget.db").read_bytes())
    paid = words if "--ledger" in words else ["--ledger", "budget.db", *words]
    law = ["--column", "n", "--epsilon", "1", "--sensitivity", "1"]
    assert main(["privatize", "in.csv", target, *law, *paid, "--force"]) == 2
    assert "must not be --ledger" in capsys.readouterr().err
    assert not dpfast.Ledger("out.csv.json").history()
    assert charges() == 0


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "words", [["NAME.csv"], ["NAME.csv", "--report", "out.html"], ["out.csv", "--report", "NAMENAME.html"]]
)
def test_a_name_that_no_file_can_have_costs_nothing(capsys, words: list[str]) -> None:
    """A name of 251 letters can be OUT, and its record cannot be."""
    for name in ("a" * 300, "a" * 247):
        refused(capsys, "File name too long", *(word.replace("NAME", name) for word in words))


@pytest.mark.parametrize("words", [[], ["out.csv", "--format", "csv"], ["out.csv", "--report", "out.html"]])
def test_rows_of_a_name_that_no_file_can_have(capsys, words: list[str]) -> None:
    refused(capsys, "cannot read aaa.*: File name too long", *words, rows=f"{'a' * 300}.csv")


@pytest.mark.parametrize(
    ("name", "lines", "match"),
    [
        ("a,b.txt", b"Oslo\n", "--domain city is a list, because it has a comma, but 'a,b.txt' is also a file"),
        ("c.txt", b"Oslo\rLima\r", "line 1 of c.txt contains a carriage return or a zero byte"),
        ("c.txt", "Oslo\n".encode("utf-16-le"), "line 1 of c.txt contains a carriage return or a zero byte"),
    ],
)
def test_a_file_that_would_be_another_domain(capsys, name: str, lines: bytes, match: str) -> None:
    """Keys that nobody has were counted, and paid."""
    Path(name).write_bytes(lines)
    refused(capsys, match, "--domain", name)


def test_standard_input_that_cannot_be_read(capsys, monkeypatch) -> None:
    refused(capsys, "ROWS must be a file: Parquet cannot be read", "--format", "parquet", rows="-")
    monkeypatch.setattr(sys, "stdin", None)
    refused(capsys, "cannot read standard input: it is closed", "--format", "csv", rows="-")


@pytest.mark.slow
def test_a_packed_file_on_a_full_disk_is_one_message() -> None:
    """pyarrow said more, when it closed what it could not write."""
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000,) * 2)"
    program = f"{code}\nfrom dpfast.app.cli import main\nsys.exit(main(sys.argv[1:]))"
    words = ["histogram", "rows.csv", "out.jsonl.gz", *USUAL, "--domain", "city=1..30000"]
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "Error: cannot write out.jsonl.gz: File too large\n")
    assert contents().keys() == {"rows.csv"}


# ------------------------------------------------------------------ memory

ROWS = 4_000_000


@MEASURED
@pytest.mark.slow
@pytest.mark.parametrize("unit", ["person", "name"])
def test_memory_of_a_row(unit: str) -> None:
    """At most 28 bytes a row beside what few rows take, and 400 MB: once it was 437 and 416 MB."""
    people = 2000
    names = pa.array([f"person {i}" for i in range(people)])
    taken = []
    for rows in (10_000, ROWS):
        person = np.arange(rows, dtype=np.int64) * 7919 % people
        cities = pa.array(["Oslo", "Lima"]).take(pa.array(person % 2))
        pq.write_table(pa.table({"city": cities, "person": person, "name": names.take(pa.array(person))}), "r.parquet")
        words = [
            "--by",
            "city",
            "--unit",
            unit,
            "--max-partitions",
            "1",
            *KNOWN,
            "--epsilon",
            "1",
            "--force",
            "--quiet",
        ]
        taken.append(peak(["histogram", "r.parquet", "out.csv", *words]))
    assert taken[1] - taken[0] < 28 * ROWS, taken
    assert taken[1] < 400e6, taken


# ------------------------------------------------------------------ moments, and a page's rows

MANY = 400  # rows of one key, which a threshold shows
HIDDEN = ["--threshold", "--delta", "1e-4", "--report", "out.html"]


def moments(cells: list[int], kind: pa.DataType) -> None:
    whole = pa.array(cells, pa.int32() if kind == pa.date32() else pa.int64())
    store(pa.table({"city": whole.cast(kind), "person": range(len(cells))}), Path("rows.arrow"))


@pytest.mark.parametrize("zone", ["Nowhere/City", "+25:00"])
def test_a_zone_that_nobody_knows_costs_nothing(capsys, zone: str) -> None:
    """No text and no page can be written of such a key: that was found out after the charge."""
    moments([0, 1], pa.timestamp("s", zone))
    Path("times.txt").write_text("1970-01-01T00:00:00Z\n")
    refused(
        capsys, "--by 'city' must be a column of .*a zone that is known", "--domain", "times.txt", rows="rows.arrow"
    )


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("kind", "day"),
    [(pa.date32(), 1), (pa.date64(), 86_400_000), (pa.timestamp("s"), 86_400), (pa.timestamp("us", "UTC"), 86_400_000_000)],
)  # fmt: skip
def test_moments_that_no_text_can_write_are_no_keys(kind: pa.DataType, day: int, end: str) -> None:
    """OUT had other characters in place of a date, or was lost with its charge."""
    most = 2**31 - 1 if day == 1 else 2**62 // day * day
    ends = [-719_162 * day, 2_932_896 * day]  # the first day of year 1, the last of year 9999
    moments([-most, ends[0] - day, *ends, ends[1] + day, most] * MANY, kind)
    assert main(["histogram", "rows.arrow", f"out.{end}", *HIDDEN, *USUAL]) == 0
    table = read(Path(f"out.{end}"))
    assert [str(each)[:10] for each in table["city"].to_pylist()] == ["0001-01-01", "9999-12-31"]
    assert "9999-12-31" in Path("out.html").read_text()


@pytest.mark.parametrize("name", ["low", "high"])
def test_a_page_of_a_key_that_is_called_as_an_end_of_intervals(name: str) -> None:
    """Its texts were taken for the ends, and the page was lost."""
    Path("rows.csv").write_text(f"{name},person\na,1\nb,2\n")
    words = ["--by", name, "--unit", "person", "--max-partitions", "1", "--domain", "a,b", "--epsilon", "1", "--quiet"]
    assert main(["histogram", "rows.csv", "out.csv", "--report", "out.html", *words]) == 0
    assert f"{name}</bdi> <small>no noise" in Path("out.html").read_text()


def test_a_moment_that_python_cannot_hold_does_not_cost_a_release_its_page() -> None:
    """Noon of the last day there is, in a zone where it is the year 10000."""
    moments([253_402_300_799] * MANY, pa.timestamp("s", "Asia/Tokyo"))
    assert main(["histogram", "rows.arrow", "out.parquet", *HIDDEN, *USUAL]) == 0
    assert "?" in Path("out.html").read_text()


def test_a_format_that_names_say_is_refused_in_the_words_of_histogram(capsys) -> None:
    refused(capsys, "--format must be left out: the names of the files say", "--format", "csv")


# ------------------------------------------------------------------ a folder of many files


@pytest.fixture(name="few_files")
def _few_files() -> Iterator[None]:
    """This process may open some 80 more files; by default it may have 1,024 open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(int(each.name) for each in Path("/dev/fd").iterdir()) + 80, before[1])
    )
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("end", ["parquet", "arrow", "jsonl", "csv"])
@pytest.mark.usefixtures("few_files")
def test_a_folder_may_hold_more_files_than_a_process_may_open(end: str) -> None:
    Path("rows").mkdir()
    for i in range(120):
        texts = {"jsonl": f'{{"city": "Oslo", "person": {i}}}\n', "csv": f"city,person\nOslo,{i}\n"}
        if end in texts:
            Path(f"rows/{i}.{end}").write_text(texts[end])
        else:
            store(pa.table({"city": ["Oslo"], "person": [i]}), Path(f"rows/{i}.{end}"))
    assert main(["histogram", "rows", "out.csv", *USUAL, *KNOWN]) == 0
    if end == "parquet":
        law = ["--epsilon", "1", "--sensitivity", "1", "--quiet"]
        assert main(["privatize", "rows", "out.parquet", "--column", "person", *law]) == 0
