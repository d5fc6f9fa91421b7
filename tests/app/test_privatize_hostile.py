# SPDX-License-Identifier: Apache-2.0
"""`privatize` and hostile files: folders, links, archives, JSON lines, reports, full disks."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fresh import Warm, without
from table_files import store

import dpfast
from dpfast.app.cli import main
from dpfast.paths import check

LAW = ["--epsilon", "1", "--sensitivity", "1", "--quiet"]
USUAL = ["--column", "n", *LAW]
PAID = ["--ledger", "budget.db"]
KEYED = [*PAID, "--key-file", "visits.key", "--label", "visits"]
PRIVATE = 7919


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text(f"n,m\n{PRIVATE},1\n{PRIVATE},2\n")
    dpfast.Ledger("budget.db", 9, create=True)
    dpfast.KeyFile.create("visits.key")


def charges() -> int:
    return len(dpfast.Ledger("budget.db").history())


def contents() -> dict[str, bytes]:
    files = (path for path in Path().rglob("*") if path.is_file() and not path.name.startswith("budget.db"))
    return {str(path): path.read_bytes() for path in files}


def refused(capsys: pytest.CaptureFixture[str], match: str, *words: str) -> None:
    """One line that says so; nothing is written, and nothing is charged."""
    before = contents()
    assert main(["privatize", *words, *([] if "--ledger" in words else PAID)]) in {1, 2}
    said = capsys.readouterr().err
    assert re.fullmatch(f"Error: .*{match}.*\n", said), said
    assert str(PRIVATE) not in said
    assert "please report" not in said
    assert contents() == before
    assert charges() == 0


def done(*words: str) -> None:
    assert main(["privatize", *words, *PAID]) == 0
    assert charges() == 1


def rows(*names: str) -> None:
    Path("rows").mkdir()
    for name in names:
        store(pa.table({"n": [PRIVATE]}), Path("rows") / name)


# ------------------------------------------------------------------ folders


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("OUT", ["rows/0.parquet", "--force"]),
        ("OUT", ["rows/out.parquet"]),
        ("OUT", ["link/out.parquet"]),
        ("--metadata", ["-", "--format", "csv", "--metadata", "rows/m.json"]),
        ("--report", ["out.parquet", "--report", "rows/r.html"]),
    ],
)
def test_nothing_is_written_among_the_files_of_a_folder(capsys, what: str, words: list[str]) -> None:
    """--force replaced a file of IN; a new one would have been read as IN the next time."""
    rows("0.parquet", "1.parquet")
    Path("link").symlink_to("rows")
    refused(capsys, f"{what} must not lie among the files of IN", "rows", *words, *USUAL)


def around(folder: Path) -> None:
    (folder / "again").symlink_to(".")


def beside(folder: Path) -> None:
    (folder / "2.parquet").symlink_to("0.parquet")


def hard(folder: Path) -> None:
    (folder / "2.parquet").hardlink_to(folder / "0.parquet")


@pytest.mark.parametrize("link", [around, beside, hard])
def test_no_file_of_a_folder_is_read_twice(capsys, link: Callable[[Path], None]) -> None:
    """A link to the folder itself gave each row 41 times: 41 noises for one epsilon."""
    rows("0.parquet", "1.parquet")
    link(Path("rows"))
    refused(capsys, "rows must contain each file once", "rows", "out.parquet", *USUAL)


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("gone"), os.mkfifo])
def test_no_file_of_a_folder_is_left_out(capsys, make: Callable[[Path], None]) -> None:
    rows("0.parquet")
    make(Path("rows/1.parquet"))
    refused(capsys, "'1.parquet' is a link to nothing, or a pipe", "rows", "out.parquet", *USUAL)


# ------------------------------------------------------------------ files in two places


@pytest.mark.parametrize("report", ["folder/../out.html", "link/out.html"])
def test_a_report_by_another_path_is_not_out(capsys, report: str) -> None:
    """It was found out when OUT was there, and paid."""
    Path("folder").mkdir()
    Path("link").symlink_to(".")
    words = ["in.csv", "out.html", "--format", "csv", "--report", report]
    refused(capsys, "--report must be a file of its own", *words, *USUAL)


@pytest.mark.parametrize("end", [".lock", "-journal", "-wal", "-shm"])
def test_out_is_no_file_beside_a_ledger(capsys, end: str) -> None:
    """SQLite reads budget.db-wal as a part of the ledger, which then could not be opened."""
    words = ["in.csv", f"budget.db{end}", "--format", "csv", "--force"]
    refused(capsys, f"OUT must not be a file of --ledger \\({end}\\)", *words, *USUAL)


@pytest.mark.parametrize("found", ["refuse", "replace", "keep"])
def test_a_link_in_dev_is_no_output(monkeypatch, found: Any) -> None:
    """/dev/stdout led to a file, and --force put another in its place, for all programs."""
    monkeypatch.setattr(os.path, "isfile", lambda _: True)
    with pytest.raises(dpfast.errors.FileError, match="/dev/stdout exists and is not a file"):
        check(Path("/dev/stdout"), recorded=False, found=found)


def test_a_record_that_cannot_be_written_costs_nothing(capsys) -> None:
    """It was found out when the noise was drawn, and paid."""
    words = ["in.csv", "-", "--format", "csv", "--metadata", "nowhere/m.json"]
    refused(capsys, "cannot write nowhere/m.json: No such file or directory", *words, *USUAL)


@pytest.mark.slow
def test_a_report_beside_a_pipe_is_made_again() -> None:
    """--resume refused its own page, because - is no file."""
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["-", "--format", "csv", "--metadata", "m.json", "--report", "r.html", "--resume", *KEYED, *USUAL]
    command = [sys.executable, "-c", program, "privatize", "in.csv", *words]
    made = [subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)]
    assert made[0] == made[1]
    assert charges() == 1


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize("name", ["a\nb.csv", "a\x1b[31m.csv"])
def test_the_name_of_a_file_is_within_one_line(capsys, name: str) -> None:
    Path(name).write_text("n\nmany\n")
    refused(capsys, r"column 'n' of a\?.*\.csv must contain whole numbers", name, "out.csv", *USUAL)


def test_a_list_of_columns_has_an_end(capsys) -> None:
    pq.write_table(pa.table({f"c{i}": [1] for i in range(1000)}), "in.parquet")
    refused(capsys, "no column is named 'n'; there are 'c0', .{,500}", "in.parquet", "out.parquet", *USUAL)


PROGRAM = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
PAYING = ["privatize", "in.csv", "out.csv", "--column", "n", *LAW[:-1], *PAID]
UNHEARD = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 2)\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(("options", "code"), [([], 0), (["--lower", "5", "--upper", "4"], 2)])
def test_a_summary_that_nobody_hears_is_no_failure(warm: Warm, options: list[str], code: int) -> None:
    """OUT was there and paid, and the exit code said that it failed: a retry would pay again."""
    assert warm.run(UNHEARD + PROGRAM, *PAYING, *options, folder=Path.cwd()).returncode == code
    assert (charges(), Path("out.csv").exists()) == ((1, True) if code == 0 else (0, False))


def test_a_summary_for_which_there_is_no_stream_is_no_failure(warm: Warm) -> None:
    """Python begins without standard error."""
    assert warm.run(without("stderr") + PROGRAM, *PAYING, folder=Path.cwd()).returncode == 0
    assert (charges(), Path("out.csv").exists()) == (1, True)


def test_a_disk_that_is_full_after_the_charge_says_that_it_stays(warm: Warm) -> None:
    Path("in.csv").write_text("n,m\n" + "1,2\n" * 40_000)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_960, 40_960))\n"
    ended = warm.run(limit + PROGRAM, *PAYING, folder=Path.cwd())
    assert ended.returncode == 4
    assert re.fullmatch(
        "Error: cannot write out.csv: File too large; the charge in .*budget.db stays: without a key another try is "
        "another release\n",
        ended.stderr,
    )
    assert charges() == 1


@pytest.mark.parametrize(
    ("pays", "then"),
    [([], ""), (PAID, "without a key another try"), (KEYED, "--resume writes OUT without a new charge")],
)
def test_an_interrupt_after_the_charge_says_that_it_stays(capsys, monkeypatch, pays: list[str], then: str) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpfast.app.tables.first_rows.FirstRows.add", interrupted)
    assert main(["privatize", "in.csv", "out.csv", *pays, *USUAL]) == 130
    stays = f"; the charge in .*budget.db stays: {then}.*" if pays else ""
    assert re.fullmatch(f"\nError: interrupted; nothing was written{stays}\n", capsys.readouterr().err)
    assert (Path("out.csv").exists(), charges()) == (False, len(pays) > 0)


# ------------------------------------------------------------------ archives


def archive(method: int, name: str, data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as packed:
        packed.writestr(name, data)
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, PRIVATE + np.random.default_rng(1).integers(0, 9, 20_000))
    return made.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["in.npz", "in.csv.zip"])
def test_an_archive_that_is_damaged_anywhere_says_so(capsys, method: int, name: str) -> None:
    """zlib's and lzma's errors ended in `please report this`."""
    text = b"n\n" + b"".join(b"%d\n" % (i * 7919 % 1000) for i in range(9000))
    whole = archive(method, "a.npy", array()) if name == "in.npz" else archive(method, "a.csv", text)
    out, column = ("out.npz", []) if name == "in.npz" else ("out.csv", ["--column", "n"])
    ends = [whole[:at] for at in (0, 20, len(whole) // 2, len(whole) - 1)]
    for damaged in ends + [
        whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        for at in (45, 60, 200, len(whole) // 2, len(whole) - 22)
    ]:
        Path(name).write_bytes(damaged)
        refused(capsys, name, name, out, *column, *LAW)


# ------------------------------------------------------------------ JSON lines


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("null", "a line begins with no brace"),
        (f'{{"n": {PRIVATE}}}\nnull', "a line begins with no brace"),
        ('{"n": 1, "m": ' + "[" * 100_000 + "]" * 100_000 + "}", "at most 64 levels"),
        ("\n" * 9000 + '{"n": 1, "m": ' + '["\\"[",' * 300 + "1" + "]" * 300 + "}", "at most 64 levels"),
        ('{"n": 1, "m": ' + '{"a":' * 20_000 + "1" + "}" * 20_000 + "}", "at most 64 levels"),
        ('{"n": 1, "m": "' + "x" * 5_000_000 + '"}', "must contain an object a line"),
        ('{"n": [\n' * 60_000 + "{}" + "]}" * 60_000, "a line ends within one, or behind it"),
        ('{"}": \n' * 60_000 + '{"n": 1}' + ', "{": 1}' * 60_000, "a line ends within one, or behind it"),
        ('{"}": \n' * 200_000, "must contain an object a line"),
    ],
)
def test_a_line_of_json_ends_no_process(warm: Warm, line: str, match: str) -> None:
    """Within pyarrow, null for an object and deep nesting are a segmentation fault."""
    Path("in.jsonl").write_text(f"{line}\n")
    ended = warm.run(PROGRAM, "privatize", "in.jsonl", "out.jsonl", *USUAL, *PAID, folder=Path.cwd())
    assert ended.returncode == 1
    assert re.fullmatch(f"Error: .*{match}.*\n", ended.stderr), ended.stderr
    assert charges() == 0


def test_brackets_within_a_text_are_no_levels() -> None:
    Path("in.jsonl").write_text('{"n": 1, "m": "\\"' + "[{" * 1000 + '"}\n')
    done("in.jsonl", "out.jsonl", *USUAL)


def test_bytes_that_are_no_text_are_found_out_before_a_charge(capsys) -> None:
    Path("in.jsonl").write_bytes(b'{"n": 7919, "m": "\xff"}\n')
    refused(capsys, "in.jsonl must contain an object a line", "in.jsonl", "out.jsonl", *USUAL)


# ------------------------------------------------------------------ numbers, reports, metadata


def test_a_noisy_real_stays_one_field_where_a_point_is_the_delimiter() -> None:
    """1.5 were two fields."""
    Path("in.csv").write_text("n.m\n7.1\n")
    law = ["--mechanism", "laplace", "--epsilon", "1", "--sensitivity", "1", "--quiet", "--column", "n"]
    done("in.csv", "out.csv", "--delimiter", ".", *law)
    assert re.fullmatch(r'n\.m\n"-?\d+\.\d+(e-\d+)?"\.1\n', Path("out.csv").read_text())


@pytest.mark.parametrize(
    "cell",
    [
        pa.array([2**31 - 1], pa.date32()),
        pa.array([2**62], pa.duration("s")),
        pa.array([2**62], pa.timestamp("us")),
        pa.array([1], pa.timestamp("s", tz="Nowhere/None")),
    ],
)
def test_a_cell_that_python_cannot_hold_does_not_cost_a_release_its_out(cell: pa.Array) -> None:
    """It was paid by then, and OUT was lost for a row of its report."""
    store(pa.table({"n": [1], "other": cell}), Path("in.arrow"))
    done("in.arrow", "out.arrow", "--report", "out.html", *USUAL)
    assert pa.ipc.open_file("out.arrow").read_all()["other"].equals(pa.chunked_array([cell]))
    assert "?" in Path("out.html").read_text()


@pytest.mark.parametrize("end", ["csv", "tsv"])
def test_a_zone_that_nobody_knows_costs_nothing(capsys, end: str) -> None:
    """A text cannot be written of it, which was found out after the charge."""
    other = pa.array([1], pa.timestamp("s", tz="Nowhere/None"))
    store(pa.table({"n": [1], "other": other}), Path("in.arrow"))
    refused(capsys, "cannot hold one of the other columns", "in.arrow", f"out.{end}", *USUAL)


UNWRITABLE = {
    "csv": pa.array([b"\xff"]),
    "jsonl": pa.array([[float("inf")]]),
    "parquet": pa.array([2**60], pa.timestamp("s")),  # which it keeps in milliseconds
}


@pytest.mark.parametrize("pays", [PAID, KEYED], ids=["ledger", "key"])
@pytest.mark.parametrize("end", UNWRITABLE)
def test_a_cell_that_out_cannot_hold_is_found_out_before_the_charge(capsys, end: str, pays: list[str]) -> None:
    store(pa.table({"n": [PRIVATE], "other": UNWRITABLE[end]}), Path("in.arrow"))
    refused(capsys, "cannot hold one of the other columns", "in.arrow", f"out.{end}", *pays, *USUAL)


@pytest.mark.parametrize("name", [b"pandas", b"dpfast"])
def test_metadata_that_nest_deeply_are_left_out(name: bytes) -> None:
    store(pa.table({"n": [1]}).replace_schema_metadata({name: b"[" * 100_000}), Path("in.arrow"))
    done("in.arrow", "out.arrow", *USUAL)


def test_a_page_names_columns_and_files_as_text() -> None:
    names: Any = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202ereversed"]
    pq.write_table(pa.table({"n": [PRIVATE] * 3, **dict.fromkeys(names, names)}), "in.parquet")
    title = ["--report-title", "</title><script>alert(1)</script>"]
    done("in.parquet", "<b>.parquet", "--report", "out.html", *title, *USUAL)
    page = Path("out.html").read_text()
    assert not re.search("<script|<img src=x|<b>|\u202e", page)
    assert "in.parquet" not in page
