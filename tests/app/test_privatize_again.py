# SPDX-License-Identifier: Apache-2.0
"""`privatize --key-file` and `verify`: killed or not, one input has one output and one charge."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from peak_memory import MEASURED, peak
from table_files import read, store

import dpfast
from dpfast.app.cli import main
from dpfast.app.tables import array_file, csv_text, drawn, files, groups, in_blocks, streams
from dpfast.noise.release import blocks, seal

ENDS = [".csv", ".parquet", ".arrow", ".npy"]
LAW = ["--epsilon", "1", "--sensitivity", "1", "--quiet"]
BLOCK = 1024  # rows of a block and of a group, for all but the tests of `whole`
ROWS = 2_343  # three blocks, the last one shorter
LABEL = "visits 2026-11"
UNCHANGED: dict[tuple[str, int], bytes] = {}  # inputs that were made once, by ending and rows


class Release:
    """A folder with an input, a key and a ledger, and the command that is tried again."""

    def __init__(self, folder: Path, end: str = ".csv", *, columns: tuple[str, ...] = ("n",), rows: int = ROWS) -> None:
        self.folder, self.end, self.rows = folder, end, rows
        self.source, self.out = folder / f"in{end}", folder / f"out{end}"
        self.key, self.ledger = folder / "visits.key", folder / "budget.db"
        self.chosen = [] if end == ".npy" else [word for name in columns for word in ("--column", name)]
        self.chosen += ["--epsilon-is", "per-column"] if len(columns) > 1 else []
        self.keyed = ["--ledger", str(self.ledger), "--key-file", str(self.key), "--label", LABEL]
        dpfast.KeyFile.create(self.key)
        dpfast.Ledger(self.ledger, 10, create=True)
        self.write()

    def write(self, change: Callable[[dict[str, np.ndarray]], object] = dict) -> None:
        """The input: a count that is noised, another, and a name."""
        if change is dict and (self.end, self.rows) in UNCHANGED:
            self.source.write_bytes(UNCHANGED[self.end, self.rows])
            return
        n = np.arange(self.rows) * 7919
        columns = {"n": n, "m": n.copy(), "name": np.array([f"{i:06}" for i in range(self.rows)], object)}
        change(columns)
        if self.end == ".npy":
            np.save(self.source, columns["n"])
        elif self.end == ".csv":
            rows = zip(columns["n"].tolist(), columns["m"].tolist(), columns["name"], strict=True)
            self.source.write_text("n,m,name\n" + "".join(f"{n},{m},{name}\n" for n, m, name in rows))
        else:
            store(pa.table(columns), self.source, rows=4 * self.rows // 15)
        if change is dict:
            UNCHANGED[self.end, self.rows] = self.source.read_bytes()

    def command(self, *options: object, verb: str = "privatize") -> list[str]:
        return [verb, str(self.source), str(self.out), *self.chosen, *LAW, *self.keyed, *map(str, options)]

    def run(self, *options: object, verb: str = "privatize") -> int:
        return main(self.command(*options, verb=verb))

    def bytes(self) -> bytes:
        beside = self.out.with_name(f"{self.out.name}.json")
        return self.out.read_bytes() + (beside.read_bytes() if beside.exists() else b"")

    def remove(self) -> None:
        for path in (self.out, self.out.with_name(f"{self.out.name}.json")):
            path.unlink(missing_ok=True)

    @property
    def charges(self) -> int:
        ledger = dpfast.Ledger(self.ledger)
        ledger.verify()
        return len([entry for entry in ledger.history() if ledger_charge(entry)])


def ledger_charge(entry: object) -> bool:
    """Whether a row of the history was paid for: refused attempts are rows, too."""
    return "refused" not in getattr(entry, "parameters", {})


@pytest.fixture(scope="module")
def whole() -> int:
    """Blocks and groups as they are, and so many rows: three blocks, the last one shorter."""
    return 150_000


@pytest.fixture(autouse=True)
def _small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else three blocks of a file are some megabytes."""
    if "whole" not in request.fixturenames:
        for module in (blocks, seal, in_blocks, drawn):
            monkeypatch.setattr(module, "BLOCK", BLOCK)
        monkeypatch.setattr(blocks._Each, "unit", BLOCK)
        monkeypatch.setattr(groups, "ROWS", BLOCK)


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return Release(tmp_path)


def failed(capsys: pytest.CaptureFixture[str], code: int, match: str, *, expected: int = 1) -> None:
    """One line, which says so, and no cell of the input."""
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line and not line.startswith(("Usage:", "Try ", "Warning:"))]
    assert (code, len(lines)) == (expected, 1), said
    assert re.search(match, lines[0]), said
    assert "7919" not in re.sub(r"\b[0-9a-f]{32}\b", "", said)  # but for the random id of a key


# ------------------------------------------------------------------ the same again


@pytest.mark.parametrize("end", ENDS)
def test_a_second_run_gives_the_same_bytes_for_one_charge(tmp_path, whole, end) -> None:
    """After OUT was lost; with one thread and with two."""
    release, made = Release(tmp_path, end, rows=whole), []
    for options in ([], ["--resume", "--threads", 1], ["--resume", "--threads", 2]):
        assert release.run(*options) == 0
        made.append(release.bytes())
        release.remove()
    assert made[0] == made[1] == made[2]
    assert release.charges == 1
    assert dpfast.Ledger(release.ledger).spent.epsilon == 1


def test_the_noise_and_the_manifest(tmp_path, whole) -> None:
    """It has the law's distribution, and the manifest says what was released."""
    release = Release(tmp_path, ".npy", rows=whole)
    assert release.run() == 0
    noise = np.load(release.out) - np.load(release.source)
    # At scale 1, P(0) = 0.4621 and P(|X| > 40) = 2e-18 a cell; 150,000 cells, within 0.01 (7e-15).
    assert abs(noise).max() <= 40
    assert abs((noise == 0).mean() - 0.4621) < 0.01
    manifest = json.loads(Path(f"{release.out}.json").read_text())["manifest"]
    assert manifest["columns"] == [{"name": "array", "mechanism": ["discrete_laplace", 1, 1, 1, 1]}]
    assert (manifest["label"], manifest["kind"], manifest["size"]) == (LABEL, "table", [whole])


@pytest.mark.parametrize("end", [".csv", ".npy"])
def test_pieces_do_not_matter(tmp_path, monkeypatch, end) -> None:
    """Other pieces, which cut blocks anywhere: the same bytes."""
    release, made = Release(tmp_path, end), []
    for rows in (1 << 20, 751, BLOCK):
        monkeypatch.setattr(array_file, "ELEMENTS", rows)
        monkeypatch.setattr(csv_text, "BLOCK", 16 * rows)
        assert release.run("--resume") == 0
        made.append(release.bytes())
        release.remove()
    assert made[0] == made[1] == made[2]


def test_an_output_that_is_complete_stays(release) -> None:
    assert release.run() == 0
    before = release.out.stat()
    assert release.run("--resume") == 0
    assert (release.out.stat().st_ino, release.out.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert release.charges == 1


@pytest.mark.parametrize("which", ["out.csv", "out.csv.json"])
def test_another_output_is_left_alone(release, capsys, which) -> None:
    assert release.run() == 0
    path = release.folder / which
    path.write_text("mine")
    failed(capsys, release.run("--resume"), f"{which} is not what this release gives", expected=4)
    assert path.read_text() == "mine"
    if which == "out.csv.json":  # beside no output
        release.out.unlink()
        failed(capsys, release.run("--resume"), f"{which} is not what this release gives", expected=4)
        assert (path.read_text(), release.out.exists()) == ("mine", False)


def test_a_record_without_its_output_is_completed(release) -> None:
    """A run that was killed between the two names leaves it."""
    assert release.run() == 0
    made = release.bytes()
    release.out.unlink()
    assert release.run("--resume") == 0
    assert release.bytes() == made


def test_bounds_are_free(release) -> None:
    """They are post-processing: the same noise, and no charge."""
    assert release.run() == 0
    wide = np.loadtxt(release.out, int, delimiter=",", skiprows=1, usecols=0)
    release.remove()
    assert release.run("--resume", "--lower", 0, "--upper", 10**8) == 0
    narrow = np.loadtxt(release.out, int, delimiter=",", skiprows=1, usecols=0)
    assert (narrow == np.clip(wide, 0, 10**8)).all()
    assert release.charges == 1


def test_columns_are_one_seal_in_the_order_of_the_file(tmp_path, capsys, whole) -> None:
    """Columns of equal counts have noise of their own; a column less is another release."""
    release = Release(tmp_path, columns=("n", "m"), rows=whole)
    assert release.run() == 0
    made = release.bytes()
    n, m = np.loadtxt(release.out, int, delimiter=",", skiprows=1, usecols=(0, 1)).T
    # Two independent cells are equal with a chance of 0.2804; 150,000 of them, within 0.01 (5e-17).
    assert abs((n == m).mean() - 0.2804) < 0.01
    release.remove()
    release.chosen = ["--column", "m", "--column", "n", "--epsilon-is", "per-column"]
    assert release.run("--resume") == 0
    assert (release.bytes(), release.charges) == (made, 1)
    assert dpfast.Ledger(release.ledger).spent.epsilon == 2
    release.remove()
    release.chosen = ["--column", "n"]
    failed(capsys, release.run("--resume"), f"'{LABEL}' is reserved .* with the columns 'n', 'm', not 'n'")
    assert (release.charges, release.out.exists()) == (1, False)


def test_an_array_in_fortran_order_is_sealed_as_the_file_has_it(tmp_path, capsys) -> None:
    """It says so; and its transpose in C order, with the same words, is another input."""
    release = Release(tmp_path, ".npy")
    np.save(release.source, np.asfortranarray(np.arange(ROWS).reshape(-1, 3) * 7919))
    assert main([word for word in release.command() if word != "--quiet"]) == 0
    assert "sealed, in the file's order, which is Fortran's" in capsys.readouterr().err
    assert np.load(release.out).flags.f_contiguous
    made = release.bytes()
    release.remove()
    assert release.run("--resume") == 0
    assert release.bytes() == made
    release.remove()
    np.save(release.source, np.arange(ROWS).reshape(-1, 3).T.copy() * 7919)
    failed(capsys, release.run("--resume"), "the input is not the one that was reserved")


@pytest.mark.parametrize("end", [".csv", ".npy", ".parquet"])
def test_reals_with_missing_cells(tmp_path, end) -> None:
    release, made = Release(tmp_path, end), []
    values = np.where(np.arange(ROWS) % 11 == 0, np.nan, np.arange(ROWS) / 7)
    if end == ".csv":
        release.source.write_text("n\n" + "".join(f"{value!r}\n" for value in values.tolist()))
    elif end == ".npy":
        np.save(release.source, values.astype(np.float32))
    else:
        store(pa.table({"n": pa.array(values.astype(np.float32))}), release.source)
    law = ["--mechanism", "laplace", "--missing", "5", "--clamp", "0", "10", "--granularity", "2**-10"]
    law += ["--epsilon", "1", "--l0", "1", "--linf", "10"]
    for options in ([], ["--resume"]):
        command = [word for word in release.command(*options) if word not in {*LAW[:4]}]
        assert main([*command[:3], *release.chosen, *law, "--quiet", *release.keyed, *options]) == 0
        made.append(release.bytes())
        release.remove()
    assert made[0] == made[1]


def test_an_empty_input_costs_the_same(tmp_path) -> None:
    release = Release(tmp_path, ".npy")
    np.save(release.source, np.zeros(0, np.int64))
    for options in ([], ["--resume"]):
        assert release.run(*options) == 0
    assert (np.load(release.out).size, release.charges) == (0, 1)


# ------------------------------------------------------------------ refused, and nothing is charged


@pytest.mark.parametrize("end", [".csv", ".jsonl", ".parquet", ".arrow", ""])
def test_another_order_of_rows_is_refused_whatever_the_counts_are(tmp_path, capsys, end) -> None:
    """Else equal counts would get two noises each, and the refusal would say which are equal."""
    release = Release(tmp_path, ".parquet")
    table = pa.table({"a": range(12), "b": [(5 * i + 3) % 12 for i in range(12)], "n": [7] * 12})
    release.source, release.out = tmp_path / f"rows{end}", tmp_path / f"noisy{end or '.parquet'}"
    if end == ".csv":
        release.source.write_text(
            "a,b,n\n" + "".join(f"{a},{b},7\n" for a, b, _ in zip(*table.to_pydict().values(), strict=True))
        )
    elif end == ".jsonl":
        release.source.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        release.source.mkdir() if not end else None
        store(table, release.source if end else release.source / "0.parquet")
    assert release.run("--sort-by", "a") == 0
    made = release.bytes()
    manifest = dpfast.Ledger(release.ledger).history()[0].parameters["manifest"]
    assert manifest["terms"]["--sort-by"] == '["a"]'
    for other, told in (
        (["--sort-by", "b"], """with another --sort-by, '["a"]', not '["b"]'"""),
        (["--sort-by", "a", "--sort-by", "b"], "with another --sort-by"),
        ([], """with --sort-by, '["a"]', which this one does not name"""),
    ):
        failed(capsys, release.run("--resume", *other), re.escape(told))
        failed(capsys, release.run(*other, verb="verify"), re.escape(told))
    assert release.bytes() == made
    release.remove()
    assert release.run("--resume", "--sort-by", "a") == 0
    assert (release.bytes(), len(dpfast.Ledger(release.ledger).history())) == (made, 1)


def test_the_order_of_rows_is_in_the_digest_of_a_file(tmp_path, monkeypatch, capsys) -> None:
    """Another version of a library may sort otherwise: that is another input."""
    release = Release(tmp_path, ".parquet")
    store(pa.table({"a": range(12), "n": [7] * 12}), release.source)
    assert release.run("--sort-by", "a") == 0
    monkeypatch.setattr("dpfast.app.tables.passed.in_order", lambda columns: np.arange(12)[::-1])
    failed(capsys, release.run("--resume", "--sort-by", "a"), "the input is not the one that was reserved")


@pytest.mark.parametrize(
    ("first", "other", "told"),
    [
        (["--clamp", "0", "9"], ["--clamp", "0", "8"], "with another clamp of 'n', '0, 9', not '0, 8'"),
        ([], ["--clamp", "0", "9"], "does not name clamp of 'n', which is '0, 9' here"),
        (["--clamp", f"-1{'0' * 17}", f"1{'0' * 17}"], [], "with clamp of 'n', '-1"),
        (["--missing", "0"], [], "with missing of 'n', '0', which this one does not name"),
    ],
)
def test_another_clamp_is_refused_whatever_the_cells_are(release, capsys, first, other, told) -> None:
    """Accepted or not would say whether a cell lies beyond it. No cell is looked at."""
    release.source.write_text("n,m,name\n1,2,a\n")
    assert release.run(*first) == 0
    release.source.write_text("n,m,name\nno number,2,a\n")
    failed(capsys, release.run("--resume", *other), re.escape(told))
    assert len(dpfast.Ledger(release.ledger).history()) == 1


def one_count(columns: dict[str, np.ndarray]) -> None:
    columns["n"][2 * ROWS // 3] += 1


def two_names(columns: dict[str, np.ndarray]) -> None:
    """Two rows trade names, and keep their counts."""
    columns["name"][[5, 6]] = columns["name"][[6, 5]]


def other_count(columns: dict[str, np.ndarray]) -> None:
    columns["m"][7] += 1


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("change", [one_count, two_names, other_count])
def test_another_input_is_refused(tmp_path, capsys, end, change) -> None:
    """A cell that is noised, or one that passes: equal noise would tell what has changed."""
    if end == ".npy" and change is not one_count:
        pytest.skip("an array has no other cells")
    release = Release(tmp_path, end)
    assert release.run() == 0
    release.remove()
    release.write(change)
    for options in ([], ["--lower", 0]):
        code = release.run("--resume", *options)
        failed(capsys, code, f"'{LABEL}': the input is not the one that was reserved")
    assert (release.charges, release.out.exists()) == (1, False)
    release.write()
    assert release.run("--resume") == 0


def test_resume_forgotten(release, capsys) -> None:
    """Refused before the input is read, whatever it holds."""
    assert release.run() == 0
    release.remove()
    release.source.write_text("n,m,name\nno number,1,a\n")
    failed(capsys, release.run(), rf"'{LABEL}' is reserved .*--resume continues it")
    assert (release.charges, release.out.exists()) == (1, False)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            ["--epsilon", "0.5", "--sensitivity", "1"],
            "is reserved .* with other parameters of discrete_laplace of column 'n'",
        ),
        (["--epsilon", "1", "--sensitivity", "2"], "is reserved .* with other parameters of discrete_laplace"),
        (
            ["--mechanism", "laplace", "--epsilon", "1", "--l0", "1", "--linf", "1"],
            "is reserved .* with another mechanism of column 'n', discrete_laplace, not laplace",
        ),
    ],
)
def test_another_release_under_the_label_is_refused(release, capsys, options, match) -> None:
    assert release.run() == 0
    release.remove()
    command = [word for word in release.command("--resume") if word not in LAW]
    assert main([*command, *options]) in {1, 2}
    said = capsys.readouterr().err
    assert re.search(match, said), said
    assert said.count("\n") == 1
    assert (release.charges, release.out.exists()) == (1, False)


def test_the_label_of_an_array_is_refused(release, capsys) -> None:
    """In Python the key has released an array; a file is a table."""
    mechanism, key = dpfast.DiscreteLaplace(1, 1), dpfast.KeyFile(release.key).derive(LABEL)
    dpfast.Ledger(release.ledger).release(mechanism, np.arange(ROWS) * 7919, key=key)
    failed(capsys, release.run("--resume"), f"'{LABEL}' is reserved .* with another kind, array, not table")
    assert (release.charges, release.out.exists()) == (1, False)


def absent(path: Path) -> None:
    path.unlink()


def open_to_others(path: Path) -> None:
    path.chmod(0o644)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:31])


def another(path: Path) -> None:
    path.unlink()
    dpfast.KeyFile.create(path)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (absent, "does not exist: `dpfast key create .*` makes one, for a new release"),
        (open_to_others, "others may read or write the key file"),
        (truncated, "must contain 32 bytes, but contains 31"),
        (another, "is reserved .* under another key"),
    ],
)
def test_a_key_file_that_is_not_the_one(release, capsys, spoil, match) -> None:
    assert release.run() == 0
    release.remove()
    spoil(release.key)
    failed(capsys, release.run("--resume"), match)
    assert (release.charges, release.out.exists()) == (1, False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_a_pipe_is_refused(release, capsys) -> None:
    release.source.unlink()
    os.mkfifo(release.source)
    failed(capsys, release.run(), "is not a regular file", expected=2)
    release.source = Path("/dev/stdin")
    failed(capsys, release.run(), "", expected=2)
    assert release.charges == 0


def test_a_bad_cell_costs_nothing(release, capsys) -> None:
    """The whole file is read before it is reserved."""
    with release.source.open("a") as file:
        file.write("many,1,a\n")
    failed(capsys, release.run(), "column 'n' of .* must contain whole numbers")
    assert release.charges == 0


def test_a_budget_that_does_not_suffice_is_refused_before_the_file_is_read(release, capsys, monkeypatch) -> None:
    monkeypatch.setattr(files.CsvSource, "pieces", lambda _: pytest.fail("it was read"))
    small = dpfast.Ledger(release.folder / "small.db", 1 / 2, create=True)
    command = [str(small.path) if word.endswith("budget.db") else word for word in release.command()]
    failed(capsys, main(command), "epsilon 1 is asked for and 0.5 is left of 0.5", expected=3)
    assert len(small.history()) == 0


@pytest.mark.parametrize("left_out", ["--ledger", "--key-file", "--label"])
def test_key_ledger_and_label_come_together(release, capsys, left_out) -> None:
    at = release.keyed.index(left_out)
    del release.keyed[at : at + 2]
    failed(capsys, release.run(), "must be given together", expected=2)
    assert release.charges == 0


def test_resume_wants_a_key(release, capsys) -> None:
    """Noise without a key would be new at every try."""
    release.keyed = []
    failed(capsys, release.run("--resume"), "--resume must come with --key-file", expected=2)
    assert not release.out.exists()


# ------------------------------------------------------------------ an input that changes meanwhile


def in_place(release: Release, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    """Rewrite the input without truncating it: nobody may truncate a file that is mapped."""
    path, before = release.source, release.source.stat().st_size
    release.source = path.with_name(f"new{release.end}")
    release.write(change)
    if release.source.stat().st_size == before:
        with path.open("r+b") as file:
            file.write(release.source.read_bytes())
        release.source.unlink()
    else:
        release.source.replace(path)
    release.source = path


def rewritten(release: Release, when: str, change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[], None]:
    """Makes the input another one, in place, at this moment of a run."""
    source = {".csv": files.CsvSource, ".npy": files.NpySource}.get(release.end, files.ArrowSource)
    pieces, passes = source.pieces, []

    def watched(self: object) -> object:
        passes.append(1)
        if len(passes) == 2 and when == "between":
            in_place(release, change)
        for at, piece in enumerate(pieces(self)):
            yield piece
            if len(passes) == 2 and when == "during" and at == 0:
                in_place(release, change)

    return lambda: setattr(source, "pieces", watched)


def longer(columns: dict[str, np.ndarray]) -> None:
    """By whole blocks, and nothing before them is another."""
    for name, column in columns.items():
        columns[name] = np.concatenate([column, column[: 3 * BLOCK - ROWS], column[:BLOCK]])


def shorter(columns: dict[str, np.ndarray]) -> None:
    for name, column in columns.items():
        columns[name] = column[:BLOCK]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("when", ["between", "during"])
@pytest.mark.parametrize("change", [one_count, two_names, longer, shorter])
def test_an_input_that_changes_while_it_is_read(tmp_path, capsys, monkeypatch, end, when, change) -> None:
    """It is charged by then. OUT does not appear, or is that of the input as it was sealed."""
    if end == ".npy" and change is two_names:
        pytest.skip("an array has no other cells")
    if end in {".npy", ".csv"}:
        monkeypatch.setattr(array_file, "ELEMENTS", BLOCK)
        monkeypatch.setattr(csv_text, "BLOCK", 1 << 14)
    if end == ".npy" and change is longer:
        pytest.skip("what follows the array belongs to nobody")
    release = Release(tmp_path, end)
    for source in (files.CsvSource, files.NpySource, files.ArrowSource):
        monkeypatch.setattr(source, "pieces", source.pieces)  # as it was, afterwards
    kept = {source: source.pieces for source in (files.CsvSource, files.NpySource, files.ArrowSource)}
    rewritten(release, when, change)()
    code = release.run()
    made = release.bytes() if code == 0 else b""
    if not made:
        failed(capsys, code, "has changed while it was read|is not a whole .* file|cannot read", expected=4)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]
    assert release.charges == 1
    assert not made or (when == "during" and end in {".csv", ".npy"})  # which were open, or read by then
    for source, pieces in kept.items():
        monkeypatch.setattr(source, "pieces", pieces)
    release.write()
    assert release.run("--resume") == 0
    assert made in {b"", release.bytes()}
    assert release.charges == 1


def test_other_cells_that_change_within_one_tick_of_the_clock(tmp_path, capsys, monkeypatch) -> None:
    """Between the passes, and the file's size and times stay: the digests tell."""
    release, pieces, passes = Release(tmp_path, ".csv"), files.CsvSource.pieces, []
    state = streams.states([release.source])
    monkeypatch.setattr("dpfast.app.tables.source.states", lambda _: state)

    def watched(self: object) -> object:
        passes.append(1)
        if len(passes) == 2:
            in_place(release, two_names)
        yield from pieces(self)

    monkeypatch.setattr(files.CsvSource, "pieces", watched)
    failed(capsys, release.run(), "has changed while it was read", expected=4)
    assert (release.charges, release.out.exists()) == (1, False)


# ------------------------------------------------------------------ a disk, and processes


@pytest.mark.parametrize("end", ENDS)
def test_a_full_disk_and_then_room(tmp_path, capsys, whole, end) -> None:
    release = Release(tmp_path, end, rows=whole)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (whole, hard))
    try:
        assert release.run() == 4
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert re.fullmatch(
        "Error: cannot write .*: File too large; the charge in .* stays: --resume writes OUT .*\n",
        capsys.readouterr().err,
    )
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {release.source.name, "visits.key", "visits.key.head", "budget.db", "budget.db.lock"}
    assert release.charges == 1
    assert release.run("--resume") == 0
    assert release.charges == 1


@pytest.mark.slow
def test_two_processes_at_once(tmp_path, whole) -> None:
    """Both end well, with the same bytes, for one charge."""
    release = Release(tmp_path, rows=whole)
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *release.command("--resume")]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
        assert [line for line in said.splitlines() if not line.startswith("Warning: ")] == []
    made = release.bytes()
    release.remove()
    assert release.run("--resume") == 0
    assert (release.bytes(), release.charges) == (made, 1)


# ------------------------------------------------------------------ verify


@pytest.mark.parametrize("end", ENDS)
def test_verify(tmp_path, capsys, end) -> None:
    """OUT as it was made; then with a byte changed, and with its record changed."""
    release = Release(tmp_path, end)
    assert release.run() == 0
    made, record = release.out.read_bytes(), Path(f"{release.out}.json")
    assert main([word for word in release.command(verb="verify") if word != "--quiet"]) == 0
    assert "drawn again and compared" in capsys.readouterr().err
    release.out.write_bytes(made[:-9] + bytes([made[-9] ^ 1]) + made[-8:])
    failed(capsys, release.run(verb="verify"), f"out{end} is not what this release gives")
    release.out.write_bytes(made[:-1])
    failed(capsys, release.run(verb="verify"), f"out{end} is not what this release gives")
    release.out.write_bytes(made)
    if record.exists():
        record.write_text(record.read_text().replace('"1"', '"2"', 1))
        failed(capsys, release.run(verb="verify"), rf"out{end}\.json is not what this release gives")
    assert release.charges == 1


def laid_out(path: Path, table: pa.Table, rows: int) -> None:
    """The same cells as a version of other groups and pages writes them."""
    store(table, path, rows=rows, compression="snappy")


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".feather"])
@pytest.mark.slow
def test_verify_of_an_output_that_another_version_laid_out(tmp_path, capsys, whole, end) -> None:
    """Equal schemas and cells are enough, down to the bits of a NaN; nothing less is."""
    release, rows = Release(tmp_path, end), 70_002
    reals = np.where(np.arange(rows) % 2, np.nan, -0.0)
    kinds = pa.array(["b", "a", None] * (rows // 3)).dictionary_encode()
    given = pa.table({"n": np.arange(rows), "x": reals, "kind": kinds, "l": [[i] * (i % 3) for i in range(rows)]})
    store(given, release.source, rows=40_000)
    assert release.run() == 0
    first, made = release.bytes(), read(release.out)
    for group in (37_000, 1_000):
        laid_out(release.out, made, group)
        assert release.bytes() != first
        assert release.run(verb="verify") == 0
        assert release.run("--resume") == 0  # it stays as it is
    assert release.charges == 1
    n, (x,) = made["n"].to_numpy().copy(), [made["x"].to_numpy().copy()]
    n[-1] += 1
    x.view(np.int64)[1] ^= 1  # another NaN
    last = pa.array([[i] * (i % 3) for i in range(rows - 1)] + [[None, None]])
    for wrong in (
        made.set_column(0, made.schema.field(0), pa.array(n)),
        made.set_column(1, made.schema.field(1), pa.array(x)),
        made.set_column(1, made.schema.field(1), pa.array(np.abs(made["x"].to_numpy()))),
        made.set_column(3, made.schema.field(3), last),
        made.set_column(2, "kind", made["kind"].cast(pa.string())),
        made.slice(0, rows - 1),
        pa.concat_tables([made, made.slice(0, 1)]),
        made.replace_schema_metadata({"dpfast": made.schema.metadata[b"dpfast"].replace(b'"1"', b'"2"', 1)}),
    ):
        laid_out(release.out, wrong, 40_000)
        failed(capsys, release.run(verb="verify"), f"out{end} is not what this release gives")


ALONE = """
    import ctypes, os, subprocess, sys
    MOUNTS, NOT_ROOT = 0x20000, 77
    if ctypes.CDLL(None).unshare(MOUNTS):
        sys.exit(NOT_ROOT)
    mounted = 'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    if subprocess.run(["sh", "-c", mounted, os.getcwd()]).returncode:
        sys.exit(NOT_ROOT)
    assert not os.access(os.path.abspath("."), os.W_OK)
    from dpfast.app.cli import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not Path("/usr/bin/unshare").exists(), reason="needs Linux's namespaces of mounts")
def test_verify_where_nothing_can_be_written(tmp_path, whole, warm) -> None:
    """It made its copy beside OUT; the ledger is read there, too."""
    release = Release(tmp_path, rows=whole)
    assert release.run() == 0
    result = warm.run(ALONE, *release.command(verb="verify"), folder=tmp_path)
    if result.returncode == 77:
        pytest.skip("needs root")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_record_that_is_gone_is_not_called_another(release, capsys) -> None:
    assert release.run() == 0
    Path(f"{release.out}.json").unlink()
    gone = r"out.csv.json does not exist, and the release has this file"
    for verb, again, code in (("verify", [], 1), ("privatize", ["--resume"], 4)):
        failed(capsys, release.run(*again, verb=verb), gone, expected=code)


def test_verify_refuses_what_cannot_be_drawn_again(release, capsys) -> None:
    failed(capsys, release.run(verb="verify"), "OUT must be the file of a release", expected=2)
    release.out.write_text("mine")
    failed(capsys, release.run(verb="verify"), f"has none of '{LABEL}'", expected=2)
    assert (release.charges, release.out.read_text()) == (0, "mine")
    release.out = release.out.with_name("a" * 300 + release.out.suffix)  # no file can have this name
    failed(capsys, release.run(verb="verify"), "OUT must be the file of a release", expected=2)
    release.keyed = []
    failed(capsys, release.run(verb="verify"), "--key-file must be given", expected=2)


# ------------------------------------------------------------------ edits that keep size and times

FEW = {"n": [12, 80, 30, 30], "m": [12, 80, 30, 30], "name": ["Lima", "Oslo", "Pune", "Rome"]}


def in_rows(*order: int, names: tuple[str, ...] = tuple(FEW)) -> dict[str, list[Any]]:
    """Rows in another order, in some of their columns."""
    return {name: [cells[i] for i in order] if name in names else cells for name, cells in FEW.items()}


EDITS = {
    "another count": {**FEW, "n": [13, 80, 30, 30]},
    "counts are traded": in_rows(1, 0, 2, 3, names=("n",)),
    "names are traded": in_rows(1, 0, 2, 3, names=("name",)),
    "names of equal counts are traded": in_rows(0, 1, 3, 2, names=("name",)),
    "rows are traded": in_rows(0, 1, 3, 2),
    "names of columns are traded": {"m": FEW["n"], "n": [30, 12, 80, 30], "name": FEW["name"]},
    "other columns are traded": {"n": FEW["n"], "name": FEW["name"], "m": FEW["m"]},
    "another count passes": {**FEW, "m": [12, 80, 80, 30]},
}


def written(path: Path, columns: dict[str, list[Any]]) -> None:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if path.suffix == ".npy":
        np.save(path, np.array(columns["n"]))
    elif path.suffix == ".csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in (columns, *(each.values() for each in rows))))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    else:
        store(pa.table(columns), path, compression="none")


@pytest.mark.parametrize("end", [*ENDS, ".jsonl"])
def test_an_edit_that_keeps_size_and_times_is_another_input(tmp_path, capsys, end) -> None:
    """It is neither released again nor verified; the input as it was still is."""
    release = Release(tmp_path, end)
    release.out = tmp_path / "out.csv" if end == ".jsonl" else release.out
    written(release.source, FEW)
    assert release.run() == 0
    made, was = release.bytes(), release.source.stat()
    for edit, columns in EDITS.items():
        if end == ".npy" and columns["n"] == FEW["n"]:
            continue
        written(release.source, columns)
        os.utime(release.source, ns=(was.st_atime_ns, was.st_mtime_ns))
        now = release.source.stat()
        assert (now.st_size, now.st_mtime_ns, now.st_ino) == (was.st_size, was.st_mtime_ns, was.st_ino), edit
        failed(capsys, release.run(verb="verify"), "the input is not the one that was reserved")
        failed(capsys, release.run("--resume"), "the input is not the one that was reserved")
        assert release.bytes() == made
    written(release.source, FEW)
    assert release.run(verb="verify") == 0
    assert release.charges == 1


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".jsonl"])
def test_a_noised_column_that_lies_elsewhere_keeps_its_noise(tmp_path, end) -> None:
    """It is told by its name: the place among the columns that pass is no part of a typed input."""
    release, found = Release(tmp_path, end), []
    for at, names in enumerate((("n", "m", "name"), ("m", "n", "name"), ("m", "name", "n"))):
        written(release.source, {name: FEW[name] for name in names})
        release.out = tmp_path / f"{at}.parquet"
        assert release.run("--resume") == 0
        found.append(read(release.out).to_pydict())
        assert tuple(found[-1]) == names
    assert found[0] == found[1] == found[2]
    assert release.charges == 1


@pytest.mark.parametrize("end", ENDS)
def test_verify_sees_the_ends_of_a_file_and_each_option(tmp_path, capsys, end) -> None:
    """A bit of the last bytes; where bytes are compared, of others, too."""
    release = Release(tmp_path, end)
    written(release.source, FEW)
    assert release.run() == 0
    made = release.out.read_bytes()
    for at in (-2, -1, *([0, 1, len(made) // 2] if end in {".csv", ".npy"} else [])):
        for bit in (0, 7):
            edited = bytearray(made)
            edited[at] ^= 1 << bit
            release.out.write_bytes(edited)
            failed(capsys, release.run(verb="verify"), f"out{re.escape(end)}")
    release.out.write_bytes(made)
    assert release.run(verb="verify") == 0
    for option, other, told in (
        ("--epsilon", "0.5", "with other parameters of discrete_laplace"),
        ("--sensitivity", "2", "with other parameters of discrete_laplace"),
        ("--adjacency", "substitution", "adjacency"),
        ("--label", f"{LABEL}\u0301", "has none of"),
    ):
        words = release.command(verb="verify")
        if option in words:
            words[words.index(option) + 1] = other
        else:
            words += [option, other]
        code = main(words)
        assert code != 0, option
        failed(capsys, code, told, expected=code)
    assert (release.out.read_bytes(), release.charges) == (made, 1)


# ------------------------------------------------------------------ memory

KEEPING = """
from dpfast.app.tables import in_blocks
runs, kept = in_blocks.runs, []
in_blocks.runs = lambda pieces: runs(kept.append(piece.counts[0].astype("i4")) or piece for piece in pieces)
"""


def peaks(folder: Path, end: str, before: str = "") -> list[int]:
    """MiB at the peak of two sealed runs: of a file, and of one of four times its rows."""
    release, found = Release(folder, end), []
    for rows in (6_000_000, 24_000_000):
        if end == ".csv":
            release.source.write_bytes(b"n\n" + b"123\n" * rows)
        elif end == ".npy":
            np.lib.format.open_memmap(release.source, "w+", np.int64, (rows,))  # zeros that nobody writes
        elif end == ".arrow":  # in one batch
            store(pa.table({"n": np.full(rows, 123)}), release.source, rows=rows)
        else:
            pq.write_table(pa.table({"n": np.full(rows, 123)}), release.source, row_group_size=500_000)
        release.keyed[-1] = f"{rows} rows"
        found.append(peak(release.command("--threads", "2"), before) >> 20)
        release.remove()
    return found


@MEASURED
@pytest.mark.slow
@pytest.mark.parametrize("end", [".npy", ".csv", ".parquet", ".arrow"])
def test_memory_does_not_grow_with_the_file(tmp_path, end) -> None:
    fewer, more = peaks(tmp_path, end)
    assert more - fewer < 50, (fewer, more)  # three bytes a row
    assert more < 250, more


@MEASURED
@pytest.mark.slow
def test_the_figures_of_memory_notice_what_is_kept(tmp_path) -> None:
    """A planted defect: four bytes of each row stay in memory to the end."""
    fewer, more = peaks(tmp_path, ".parquet", KEEPING)
    assert more - fewer > 50, (fewer, more)


def test_what_is_written_can_be_read(tmp_path) -> None:
    """Other columns, and types, are those of the input."""
    release = Release(tmp_path, ".parquet")
    assert release.run() == 0
    given, made = read(release.source), read(release.out)
    assert made.schema.names == given.schema.names
    assert made["name"].equals(given["name"])
    assert made["m"].equals(given["m"])
