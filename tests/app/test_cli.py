# SPDX-License-Identifier: Apache-2.0
"""The command line: exact parameters, one line a failure, nothing private, no partial file."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from command import (
    DG,
    ENDS,
    LAPLACE,
    LAW,
    NAMED,
    ONE_CELL,
    SECRET,
    SNAPPING,
    G,
    load,
    make,
    names,
    one_error,
    privatize,
    run,
    run_each,
)
from fresh import Warm, python

import dpfast
from dpfast.app.cli import commands, main
from dpfast.app.cli.options import MECHANISMS
from dpfast.app.tables import array_file, arrow_file

# privatize


@pytest.mark.parametrize("end", ENDS)
def test_privatize_adds_noise_and_its_record(tmp_path, capsys, end) -> None:
    """The noise has about the stated spread, and the output says of itself what it is."""
    counts = np.arange(5000) * 1000
    make(tmp_path / f"in{end}", counts)
    before = (tmp_path / f"in{end}").read_bytes()
    options = ["--epsilon", "0.1", "--sensitivity", "2", "--adjacency", "substitution", "--unit", "household"]
    assert privatize(tmp_path, *options, "--lower", "-5", cells=counts, end=end) == 0
    noisy, about = load(tmp_path / f"out{end}")
    (release,) = about["releases"]
    mechanism = dpfast.DiscreteLaplace(2, 40, adjacency="substitution", unit="household")  # the same scale
    # Standard deviation of Laplace noise's sample variance: sqrt(5/n) of it; 7 of these: below
    # 1e-6.
    assert abs(np.var(noisy - counts) / mechanism.variance - 1) < 7 * np.sqrt(5 / len(counts))
    assert noisy.dtype == np.int64
    assert noisy.min() >= -5
    assert (tmp_path / f"in{end}").read_bytes() == before
    assert about["epsilon_total"] == "1/10"
    assert release == {
        "column": "array" if end == ".npy" else "count",
        "mechanism": "discrete_laplace",
        "epsilon": "1/10",
        "sensitivity": "2",
        "adjacency": "substitution",
        "unit": "household",
        "scale": 20.0,
        "stream_version": release["stream_version"],
        "dpfast": dpfast.__version__,
        "secure": True,
        "lower": -5,
        "upper": None,
        "clamp": None,
        "missing": None,
    }
    stderr = capsys.readouterr().err
    assert "total epsilon 0.1 per household, substitution" in stderr
    assert "5,000 counts" in stderr
    assert not {"%", "\x1b", "\r"} & set(stderr.replace("95 % within", "")), "a progress bar in a pipe"


def test_two_runs_differ(tmp_path) -> None:
    made = []
    for _ in range(2):
        assert privatize(tmp_path, *LAW, "--quiet", "--force", cells=np.zeros(1000, np.int64), end=".npy") == 0
        made.append(np.load(tmp_path / "out.npy"))
    assert not np.array_equal(*made)


def test_pieces_and_columns_have_noise_of_their_own(tmp_path, monkeypatch) -> None:
    """Equal counts in every piece and in both columns, and no two stretches of noise alike."""
    monkeypatch.setattr(arrow_file, "ROWS", 1024)
    monkeypatch.setattr(arrow_file, "CELLS", 0)
    counts = np.zeros(4096, np.int64)
    pq.write_table(pa.table({"a": counts, "b": counts}), tmp_path / "in.parquet")
    both = ["--column", "a", "--column", "b", "--epsilon-is", "total"]
    assert privatize(tmp_path, *both, *LAW, "--quiet", cells=None, end=".parquet") == 0
    parts = [load(tmp_path / "out.parquet", name)[0][i : i + 1024] for name in "ab" for i in range(0, 4096, 1024)]
    assert len({part.tobytes() for part in parts}) == 8


@pytest.mark.parametrize(("choice", "each", "total"), [("total", "1/6", "1/3"), ("per-column", "1/3", "2/3")])
def test_epsilon_over_columns_is_split_or_repeated_exactly(tmp_path, capsys, choice, each, total) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "in.parquet")
    options = ["--column", "c", "--column", "a", "--epsilon-is", choice, "--epsilon", "1/3", "--sensitivity", "1"]
    assert privatize(tmp_path, *options, cells=None, end=".parquet") == 0
    about = load(tmp_path / "out.parquet", "a")[1]
    assert [("a", each), ("c", each)] == [(r["column"], r["epsilon"]) for r in about["releases"]]
    assert about["epsilon_total"] == total
    assert f"total epsilon {total} per person, add-remove (--epsilon 1/3 is {choice})" in capsys.readouterr().err


def test_quiet_is_quiet(tmp_path, capsys) -> None:
    assert privatize(tmp_path, *LAW, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("end", ENDS)
def test_no_rows_are_no_failure(tmp_path, end) -> None:
    assert privatize(tmp_path, *LAW, cells=np.zeros(0, np.int64), end=end) == 0
    assert load(tmp_path / f"out{end}")[0].size == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_an_input_that_is_no_regular_file_is_refused(tmp_path, warm) -> None:
    """A pipe that nobody writes to would otherwise be waited for, in silence, for ever."""
    program = """
        import signal, sys
        from dpfast.app.cli import main
        signal.alarm(300)
        sys.exit(main(sys.argv[1:]))
    """
    for end in ENDS:
        os.mkfifo(tmp_path / f"in{end}")
        chosen = [] if end == ".npy" else ["--column", "count"]
        ended = warm.run(program, "privatize", f"in{end}", f"out{end}", *chosen, *LAW, folder=tmp_path)
        assert ended.returncode == 2
        one_error(ended.stderr, f"in{end} is not a regular file")
    assert names(tmp_path) == sorted(f"in{end}" for end in ENDS)


WRONG = [  # beside LAW; the message names a flag as the caller wrote it, never the Python parameter behind it
    (["--epsilon", "nan"], "--epsilon must be"),
    (["--epsilon", "inf"], "--epsilon must be"),
    (["--epsilon", "0"], "Error: --epsilon must be positive, got 0"),
    (["--epsilon", "-1"], "--epsilon must be positive, got -1"),
    (["--epsilon", "1e999999999"], "--epsilon must be"),
    (["--epsilon", "1/0"], "'1/0' is not a number"),
    (["--epsilon", "one"], "'one' is not a number"),
    (["--epsilon", "1e-30"], "--epsilon must be at least 2.* times the sensitivity"),
    (["--sensitivity", "0"], "--sensitivity must be positive, got 0"),
    (["--sensitivity", "1e30"], r"Error: --epsilon must be at least 2.* times the sensitivity, 10+ in L1, got 1"),
    (["--lower", "3", "--upper", "2"], "Error: --lower must be at most --upper, got 3 and 2"),
    (["--lower", str(2**64)], "Error: --lower and --upper must leave something of int64, got --lower 18446744073709551616"),
    (["--threads", "0"], "--threads"),
    (["--unit", " "], "Error: --unit must name"),
    (["--adjacency", "swap"], "--adjacency"),
    (["--column", "count"], "Error: --column must name each column once"),
    (["--column", "name"], "--epsilon-is must be given for several"),
    (["--epsilon-is", "total"], "Error: --epsilon-is must be given for several columns"),
    (["--column", "nom", "--epsilon-is", "total"], "no column is named 'nom'; .* the first line of .* has 2 fields"),
]  # fmt: skip


def test_a_ledger_of_another_unit_names_the_flag(tmp_path, capsys) -> None:
    dpfast.Ledger(tmp_path / "ledger.db", epsilon=1, unit="visit", create=True)
    assert privatize(tmp_path, *LAW, "--ledger", str(tmp_path / "ledger.db"), cells=[int(SECRET)]) == 2
    one_error(capsys.readouterr().err, "Error: .*--unit.*'visit'")


def test_a_table_without_a_column_names_the_flag(tmp_path, capsys) -> None:
    make(tmp_path / "in.csv", np.array([int(SECRET)]))
    assert privatize(tmp_path, *LAW, cells=None) == 2
    one_error(capsys.readouterr().err, "Error: --column must be given for a table")


def test_a_command_that_releases_nothing_says_nothing_of_releases(tmp_path, capsys) -> None:
    (tmp_path / "two.csv").write_text("city,count\n" * 100)
    assert main(["ledger", "show", str(tmp_path / "two.csv")]) == 1
    stderr = capsys.readouterr().err
    one_error(stderr, "two.csv")
    assert "released" not in stderr


@pytest.mark.parametrize("link", [None, os.link, os.symlink])
def test_the_input_is_never_the_output(tmp_path, capsys, link) -> None:
    source = tmp_path / "in.csv"
    chosen = make(source, np.arange(9))
    before, target = source.read_bytes(), source
    if link:
        target = tmp_path / "out.csv"
        link(source, target)
    assert main(["privatize", str(source), str(target), *chosen, *LAW, "--force"]) == 2
    one_error(capsys.readouterr().err, "OUT must not be IN")
    assert source.read_bytes() == before


def test_an_existing_output_needs_force(tmp_path, capsys) -> None:
    (tmp_path / "out.csv").write_text("old")
    assert privatize(tmp_path, *LAW) == 1
    one_error(capsys.readouterr().err, "exists; --force would replace it")
    assert (tmp_path / "out.csv").read_text() == "old"
    assert privatize(tmp_path, *LAW, "--force") == 0
    assert len(load(tmp_path / "out.csv")[0]) == 9
    (tmp_path / "out.csv").rename(tmp_path / "moved.csv")
    assert privatize(tmp_path, *LAW) == 1
    one_error(capsys.readouterr().err.splitlines()[-1], r"out.csv.json exists without out.csv: .*; --force")


@pytest.mark.parametrize(("name", "reason"), [("no/out.csv", "No such file"), ("x" * 300 + ".csv", "name too long")])
def test_an_output_that_can_nowhere_be_written_is_one_line(tmp_path, capsys, name, reason) -> None:
    chosen = make(tmp_path / "in.csv", np.arange(9))
    assert main(["privatize", str(tmp_path / "in.csv"), str(tmp_path / name), *chosen, *LAW]) == 1
    one_error(capsys.readouterr().err, f"cannot write .*{reason}")


@pytest.mark.parametrize(
    ("fails", "error", "message"),
    [
        (
            "dpfast.DiscreteLaplace.release",
            dpfast.errors.EntropyError("the system gave no random key"),
            "no random key",
        ),
        ("dpfast.DiscreteLaplace.release", RuntimeError(f"count {SECRET}"), r"RuntimeError in test_cli.py:\d+"),
    ],
)
def test_a_failure_is_one_line_that_does_not_tell_what_it_saw(
    tmp_path, capsys, monkeypatch, fails, error, message
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fails, fail)
    assert privatize(tmp_path, *LAW) == 1
    one_error(capsys.readouterr().err, message)
    assert names(tmp_path) == ["in.csv"]


@pytest.mark.skipif(os.name != "posix", reason="file size limits are POSIX")
@pytest.mark.slow
def test_a_full_disk_is_one_line(tmp_path) -> None:
    commands = []
    for end in ENDS:
        chosen = make(tmp_path / f"in{end}", np.arange(100_000) * 7919)
        commands.append(["privatize", str(tmp_path / f"in{end}"), str(tmp_path / f"out{end}"), *chosen, *LAW])
    full = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
    for code, said in run_each(commands, full):
        assert code == 1
        one_error(said, "cannot write .*: File too large")
    assert names(tmp_path) == sorted(f"in{end}" for end in ENDS)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_no_lock_of_imports_held(warm, name) -> None:
    """Python's own code for imports is not safe from handlers that raise: other threads hung."""
    program = """
        import _imp, os, signal, sys
        from dpfast.app import cli
        for number in (signal.SIGINT, signal.SIGHUP):  # which a shell may have had its children ignore
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        cli.main(["--version"])
        lines = "_imp.acquire_lock()", "os.kill(os.getpid(), number)", "[0 for _ in range(5_000_000)]", "_imp.release_lock()"
        number = getattr(signal, sys.argv[1])
        try:
            exec(compile("\\n".join(lines), "<frozen importlib>", "exec"))
            while True:
                pass
        except (KeyboardInterrupt, SystemExit) as ended:
            print(type(ended).__name__, ended, _imp.lock_held())
    """
    code = {"SIGTERM": 143, "SIGHUP": 129}.get(name)
    ended = warm.run(program, name)
    told = ended.stdout.splitlines()[-1]
    assert (ended.returncode, ended.stderr) == (0, "")
    assert told == (f"SystemExit {code} False" if code else "KeyboardInterrupt  False")


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_no_signal_changes_a_code_that_is_known() -> None:
    """Python puts the usual handlers back while it shuts down, and modules take long to go."""
    program = """
        import atexit, os, signal, sys
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        class Late:
            def __del__(self, kill=os.kill, me=os.getpid(), numbers=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
                for number in numbers:
                    kill(me, number)
        late = Late()
        atexit.register(late.__del__)
        from dpfast.app.cli import main
        sys.exit(main())
    """
    assert python(program, "--version").startswith("dpfast")


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
@pytest.mark.parametrize("nameless", [True, False])
def test_a_signal_in_the_middle_leaves_no_partial_file(tmp_path, warm, number, code, nameless) -> None:
    """If files need a name, SIGKILL may leave a private temporary one of noisy counts alone."""
    if nameless and not hasattr(os, "O_TMPFILE"):
        pytest.skip("files without a name are Linux's")
    counts = np.arange(100_000) + int(SECRET)
    make(tmp_path / "in.npy", counts)
    program = """
        import os, signal, sys, time
        from dpfast.app import cli
        for number in (signal.SIGINT, signal.SIGHUP):  # which a shell may have had its children ignore
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        from dpfast.app.tables import array_file, files
        nameless, number = sys.argv[1:3]
        del sys.argv[1:3]
        if nameless == "False":
            vars(os).pop("O_TMPFILE", None)
        array_file.ELEMENTS = 10_000
        pieces = files.NpySource.pieces
        def slow(self):
            for i, piece in enumerate(pieces(self)):
                if i == 5:
                    os.kill(os.getpid(), int(number))
                    time.sleep(600)
                yield piece
        files.NpySource.pieces = slow
        sys.exit(cli.main(sys.argv[1:]))
    """
    words = [
        "privatize",
        "in.npy",
        "out.npy",
        *LAW,
        "--threads",
        "1",
    ]  # more would hold pieces that are not yet written
    ended = warm.run(program, nameless, int(number), *words, folder=tmp_path)
    left = set(names(tmp_path)) - {"in.npy"}
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    if number == signal.SIGINT:
        one_error(ended.stderr, "interrupted")
    if number != signal.SIGKILL or nameless:
        assert left == set()
        return
    (name,) = left
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    noisy = np.frombuffer((tmp_path / name).read_bytes()[128:], np.int64)
    assert noisy.size >= 40_000
    # P(X = 0) = 0.4621 at scale 1: of 40,000 cells this share is unchanged, within 0.025 (2e-23).
    assert abs(np.mean(noisy == counts[: noisy.size]) - 0.4621) < 0.025


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's figures of one process's memory")
@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow", ".npy"])
@pytest.mark.slow
def test_memory_stays_flat_while_the_file_grows(tmp_path, end) -> None:
    """12 MB more in a row group or batch cost next to nothing, but a mapped file's pages."""
    look = """
        import importlib
        import re
        import pyarrow as pa
        from dpfast.app import cli
        from dpfast.app.tables import array_file, arrow_file, csv_text, files
        importlib.import_module("dpfast.app.cli.privatize").KEPT = 1 << 20  # freed memory goes back, but for 1 MiB
        arrow_file.ROWS = arrow_file.CELLS = array_file.ELEMENTS = 1 << 15
        csv_text.BLOCK = 1 << 18
        def memory():
            return int(re.search(r"RssAnon:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
        def watched(pieces):
            def watching(self):
                for piece in pieces(self):
                    seen.append(memory())
                    yield piece
                    seen.append(memory())
            return watching
        for source in (files.CsvSource, files.ArrowSource, files.NpySource):
            source.pieces = watched(source.pieces)
        for name in sys.argv.pop(1).split():
            seen = []
            assert cli.main([word.replace("NAME", name) for word in sys.argv[1:]]) == 0
            print(max(seen), pa.default_memory_pool().max_memory() >> 20)
        sys.exit()
    """
    # Freed memory goes back at once, but for 1 MiB: jemalloc and mimalloc wait, glibc has arenas.
    steady = os.environ | {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_TRIM_THRESHOLD_": "1048576",
    }
    for rows in (200_000, 1_700_000):
        source = tmp_path / f"{rows}{end}"
        values = np.random.default_rng(1).integers(0, 2**40, rows)
        if end == ".csv":
            source.write_bytes(b"count\n" + b"1234567\n" * rows)
        elif end == ".parquet":
            pq.write_table(pa.table({"count": values}), source, row_group_size=rows, use_dictionary=False)
        elif end == ".npy":
            np.save(source, values)
        else:
            with pa.ipc.new_file(source, pa.schema([("count", pa.int64())])) as writer:
                writer.write_table(pa.table({"count": values}), max_chunksize=1 << 15)  # one is held whole
    chosen = [] if end == ".npy" else ["--column", "count"]
    command = ["privatize", tmp_path / f"NAME{end}", tmp_path / f"outNAME{end}", *chosen, *LAW, "--quiet"]
    out = run("200000 1700000", *command, code=look, env=steady)
    assert out.returncode == 0, out.stderr
    high = [[int(figure) for figure in line.split()] for line in out.stdout.splitlines()]  # the process, Arrow alone
    assert all(big - small < 6 for small, big in zip(*high, strict=True)), high


# the other laws


@pytest.mark.parametrize("end", [".csv", ".parquet", ".npy"])
@pytest.mark.parametrize("name", NAMED)
def test_every_mechanism_noises_a_file(tmp_path, capsys, name, end) -> None:
    """The spread is the law's, real results are on the grid, the record is the mechanism's."""
    options, mechanism = NAMED[name][0], NAMED[name][1]()
    real = MECHANISMS[name].real
    cells = np.arange(5000) * (8.25 if real else 8)
    assert privatize(tmp_path, "--mechanism", name, *options, cells=cells, end=end) == 0
    noisy, about = load(tmp_path / f"out{end}", "value" if real else "count")
    assert end == ".csv" or noisy.dtype == (np.float64 if real else np.int64)
    # Sample variance: deviation at most sqrt(5/n) of it; 7 of these: below 1e-6. A value off the
    # grid is up to half a step from its nearest multiple.
    step = getattr(mechanism, "granularity", 0)
    most = 7 * np.sqrt(5 / len(cells)) + step**2 / 4 / mechanism.variance
    assert abs(np.var(noisy - cells) / mechanism.variance - 1) < most
    if real:
        assert np.array_equal(noisy / step, np.rint(noisy / step))
    (release,) = about["releases"]
    assert mechanism.metadata().items() <= release.items()
    options_of = {"column", "lower", "upper", "clamp", "missing"}
    assert release.keys() - mechanism.metadata().keys() == options_of
    stderr = capsys.readouterr().err
    assert f"5,000 {'values' if real else 'counts'}, " in stderr
    assert "total " in stderr


def test_single_precision_stays_single(tmp_path) -> None:
    """And a bound is the nearest single that lies within."""
    options = ["--mechanism", "laplace", *LAW, "--lower", "0.1", "--quiet"]
    assert privatize(tmp_path, *options, cells=np.arange(100, dtype=np.float32), end=".parquet") == 0
    noisy, about = load(tmp_path / "out.parquet", "value")
    assert noisy.dtype == np.float32
    assert noisy.min() >= np.float32(0.1)
    assert about["releases"][0]["lower"] == float(np.float32(0.1))


def test_a_public_number_stands_for_what_is_missing_and_is_noised(tmp_path, capsys) -> None:
    """A null, NaN and infinities; without the number, or without a clamp, they are refused."""
    (tmp_path / "in.csv").write_text("value\n" + '""\nnan\n-inf\n1e999\n' * 500)
    options = ["--column", "value", "--mechanism", "laplace", *LAW]
    assert privatize(tmp_path, *options, cells=None) == 1
    one_error(capsys.readouterr().err, "column 'value' of .* contains NaN, .*: --missing would put a public number")
    assert names(tmp_path) == ["in.csv"]
    assert privatize(tmp_path, *options, "--missing", "70.1", "--quiet", cells=None) == 2
    one_error(capsys.readouterr().err, "--missing must come with --clamp")
    assert privatize(tmp_path, *options, "--missing", "70.1", "--clamp", "69.6", "70.2", "--quiet", cells=None) == 0
    noisy = np.array([float(line) for line in (tmp_path / "out.csv").read_text().replace('"', "").split()[1:]])
    # The mean of 2,000 draws of variance 2 has a standard deviation of 0.032; 7 of these.
    assert abs(noisy.mean() - 70.1) < 7 * np.sqrt(2 / 2000)
    assert len(set(noisy)) > 1900
    assert json.loads((tmp_path / "out.csv.json").read_text())["releases"][0]["missing"] == 70.1


def test_a_clamp_is_public_and_before_the_noise(tmp_path, capsys) -> None:
    """Cells are brought between A and B, real ends rounded inwards; so are counts beyond int64."""
    options = ["--epsilon", "100", *ONE_CELL, "--quiet", "--force"]
    (tmp_path / "in.csv").write_text("n,v\n5,-1e9\n18446744073709551615,0.5\n7,1e300\n")
    assert privatize(tmp_path, *options, "--column", "n", "--clamp", "0", "6", cells=None) == 0
    assert load(tmp_path / "out.csv", "n")[0].tolist() == [5, 6, 6]
    assert privatize(tmp_path, *options, "--column", "n", "--clamp", "-8", "-6", cells=None) == 0
    assert load(tmp_path / "out.csv", "n")[0].tolist() == [-6, -6, -6]
    laplace = [*options, "--column", "v", "--mechanism", "laplace"]
    assert privatize(tmp_path, *laplace, "--clamp", "0.1", "0.7", cells=None) == 0
    noisy, about = load(tmp_path / "out.csv", "v")
    assert np.abs(noisy - [0.1, 0.5, 0.7]).max() < 0.5  # 50 scales: false alarms below 1e-20
    low, high = about["releases"][0]["clamp"]
    assert Fraction("0.1") <= Fraction(low) < Fraction("0.1") + Fraction(1, 2**50)
    assert Fraction("0.7") - Fraction(1, 2**50) < Fraction(high) <= Fraction("0.7")
    for clamp, message in (
        (["6", "5"], "clamp must be a pair \\(a, b\\) with a <= b, got \\(6, 5\\)"),
        (["0", "1/2"], "clamp must be a whole number for counts, got 1/2"),
        (["0", "18446744073709551615"], "clamp must lie within the type of counts, int64, got .*"),
    ):
        assert privatize(tmp_path, *options, "--column", "n", "--clamp", *clamp, cells=None) == 2
        one_error(capsys.readouterr().err, message)


def test_public_bounds_of_real_values_are_decimals(tmp_path) -> None:
    options = ["--mechanism", "gaussian", "--sigma", "1", *ONE_CELL, "--lower", "-0.1", "--upper", "1/4", "--quiet"]
    assert privatize(tmp_path, *options, cells=np.linspace(-5, 5, 500)) == 0
    texts = [line.split(",")[1] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert {"-0.1", "0.25"} <= set(texts)
    assert all(-0.1 <= float(text) <= 0.25 for text in texts)


COMPOSED = [
    (["--epsilon", "1/3", "--delta", "1e-6"], "total", {"epsilon": "1/3", "delta": "1/1000000"}, "1/3"),
    (["--epsilon", "1/3", "--delta", "1e-6"], "per-column", {"epsilon": "1", "delta": "3/1000000"}, "1/3"),
    (["--rho", "0.5"], "total", {"rho": "1/2"}, None),
    (["--rho", "0.5"], "per-column", {"rho": "3/2"}, None),
    (["--sigma", "2"], "per-column", {"rho": "3/8"}, None),
]


@pytest.mark.parametrize(("spent", "choice", "totals", "each"), COMPOSED)
def test_gaussian_columns_compose(tmp_path, capsys, spent, choice, totals, each) -> None:
    """Basic composition: epsilons, deltas and rhos add up, exactly; and the summary says so."""
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "in.parquet")
    columns = [*("--column", "a", "--column", "b", "--column", "c"), "--epsilon-is", choice]
    options = [*columns, "--mechanism", "discrete-gaussian", *spent, *ONE_CELL]
    assert privatize(tmp_path, *options, cells=None, end=".parquet") == 0
    about = load(tmp_path / "out.parquet", "a")[1]
    assert {name: about[f"{name}_total"] for name in totals} == totals
    assert Fraction(about["rho_total"]) == sum(Fraction(release["rho_spent"]) for release in about["releases"])
    joint = "delta" in totals and choice == "total"
    assert about["composition"].startswith("one sigma for all columns" if joint else "basic")
    assert [each] * 3 == [release.get("epsilon") for release in about["releases"]]
    stderr = capsys.readouterr().err
    assert (f"{choice}; over columns " in stderr, "add up)" in stderr) == (not joint, not joint)
    assert (f"{choice}; one sigma for all columns" in stderr) == joint


REFUSED = [
    (
        ["--mechanism", "one-sided-geometric", *LAW],
        "is not a mechanism: noise that is never negative .*discrete-laplace",
    ),
    (["--mechanism", "one_sided_geometric", *LAW], "is not a mechanism"),
    (["--mechanism", "laplac", *LAW], "'laplac' is not one of 'discrete-laplace'"),
    (
        [*G, "--rho", "1", "--sensitivity", "1"],
        "norm, its square or one cell's change: .*'--l0' .*'--linf' or '--l2-sq",
    ),
    ([*DG, *LAW, "--delta", "1e-6"], "no bare '--sensitivity'"),
    ([*G, "--rho", "1", "--epsilon", "1", *ONE_CELL], "Too many options: .*'--epsilon' with '--delta', or '--rho'"),
    ([*DG, "--epsilon", "1", *ONE_CELL], "Missing option '--delta'"),
    ([*DG, "--rho", "1"], "Missing option '--l0' with '--linf', or '--l2-squared'"),
    ([*DG, "--rho", "1", "--l0", "1"], "Missing option '--linf'"),
    ([*DG, "--rho", "1", *ONE_CELL, "--l2-squared", "1"], "Too many options"),
    ([*DG, "--rho", "1", "--l2-squared", "1", "--signed"], "'--signed' says what '--l0' and '--linf' are"),
    ([*DG, "--rho", "0", *ONE_CELL], "rho must be positive, got 0"),
    ([*DG, "--epsilon", "1", "--delta", "1.5", *ONE_CELL], "delta must lie strictly between 0 and 1, got 1.5"),
    ([*DG, "--sigma", "1e10", *ONE_CELL], "sigma must lie between 1e-3 and 1e9"),
    ([*DG, "--rho", "1", *ONE_CELL, "--granularity", "1"], "takes no '--granularity', as laplace and gaussian would"),
    ([*DG, "--rho", "1", *ONE_CELL, "--missing", "1"], "--missing must come with --clamp"),
    ([*LAW, "--delta", "1e-6"], "discrete-laplace takes no '--delta', as discrete-gaussian and gaussian would"),
    ([*LAW, "--l0", "1", "--linf", "1"], "Too many options: give either '--sensitivity', or '--l0' with '--linf'"),
    ([*LAW, "--signed"], "'--signed' says what"),
    (["--epsilon", "1", "--l0", "0", "--linf", "1"], "l0 must be at least 1, got 0"),
    ([*LAW, "--lower", "0.5"], "lower must be a whole number for counts, got 0.5"),
    ([*SNAPPING, *LAW], "Missing option '--bound'"),
    ([*SNAPPING, *LAW, "--bound", "0"], "bound must be positive, got 0"),
    ([*SNAPPING, *LAW, "--bound", "3.5"], "bound must be a multiple of the granularity 2\\*\\*0, .* got 3.5"),
    ([*SNAPPING, *LAW, "--bound", "4", "--granularity", "1"], "snapping takes no '--granularity'"),
    ([*LAPLACE, *LAW, "--granularity", "0.1"], "granularity must be a power of two, got 0.1"),
    ([*LAPLACE, *LAW, "--granularity", "2**-999"], "the scale must be 2\\*\\*-60 to"),
    ([*LAPLACE, *LAW, "--missing", "nan"], "missing must be finite"),
    ([*LAPLACE, *LAW, "--missing", "1e400"], "missing must be within the range of float64, got 1E\\+400"),
    ([*LAPLACE, *LAW, "--lower", "2", "--upper", "1"], "--lower must be at most --upper"),
]


@pytest.mark.parametrize(("options", "message"), [*(([*LAW, *options], said) for options, said in WRONG), *REFUSED])
def test_what_is_wrong_is_refused_by_name(tmp_path, capsys, options, message) -> None:
    """Never ignored; nothing is written, and no value is cut off without a sign of it."""
    assert privatize(tmp_path, *options, cells=[int(SECRET)]) == 2
    one_error(capsys.readouterr().err, message)
    assert names(tmp_path) == ["in.csv"]


REALS, COUNTS = [float(SECRET), 0.5], [int(SECRET)]


@pytest.mark.parametrize(
    ("end", "cells", "law", "code", "message"),
    [
        (".parquet", REALS, [], 1, "'value' of .* contains numbers with digits after the decimal point: for real values there are lap"),
        (".npy", REALS, [], 1, "contains numbers with digits after the decimal point: for real values there are laplace and gaus"),
        (".csv", REALS, [], 1, "must contain whole numbers, .*for real values there are laplace and gaussian"),
        (".parquet", COUNTS, LAPLACE, 2, "contains int64: for counts there are discrete-laplace and discrete-gaussian"),
        (".npy", COUNTS, LAPLACE, 2, "contains int64: for counts there are discrete-laplace and discrete-gaussian"),
    ],
)  # fmt: skip
def test_the_law_and_the_column_must_agree(tmp_path, capsys, end, cells, law, code, message) -> None:
    assert privatize(tmp_path, *law, *LAW, cells=cells, end=end) == code
    one_error(capsys.readouterr().err, message)
    assert names(tmp_path) == [f"in{end}"]


def test_sigma_has_nothing_to_split(tmp_path, capsys) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "in.parquet")
    options = ["--column", "a", "--column", "b", "--epsilon-is", "total", *DG, "--sigma", "2", *ONE_CELL]
    assert privatize(tmp_path, *options, cells=None, end=".parquet") == 2
    one_error(capsys.readouterr().err, "epsilon-is must be per-column with a sigma")


def test_bounds_are_checked_though_there_are_no_rows(tmp_path, capsys) -> None:
    assert privatize(tmp_path, *LAPLACE, *LAW, "--lower", "2", "--upper", "1", cells=np.zeros(0)) == 2
    one_error(capsys.readouterr().err, "--lower must be at most --upper")
    assert privatize(tmp_path, *LAPLACE, *LAW, "--quiet", cells=np.zeros(0)) == 0


@pytest.mark.parametrize("end", [".csv", ".parquet", ".npy"])
def test_pieces_of_real_columns_have_noise_of_their_own(tmp_path, monkeypatch, end) -> None:
    monkeypatch.setattr(arrow_file, "ROWS", 1024)
    monkeypatch.setattr(array_file, "ELEMENTS", 1024)
    monkeypatch.setattr(arrow_file, "CELLS", 0)
    monkeypatch.setattr("dpfast.app.tables.csv_text.BLOCK", 4096)
    assert privatize(tmp_path, *LAPLACE, *LAW, "--quiet", cells=np.zeros(4096), end=end) == 0
    noisy = load(tmp_path / f"out{end}", "value")[0]
    assert noisy.size == 4096
    assert len({part.tobytes() for part in np.split(noisy, 16)}) == 16


def test_info_names_version_and_instruction_set(capsys) -> None:
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["version"] == dpfast.__version__
    assert facts["instruction_set"] in tiers.ISA_NAMES.values()
    assert facts["usable_threads"] >= 1
    assert main(["info"]) == 0
    assert re.search(rf"^version +{re.escape(dpfast.__version__)}$", capsys.readouterr().out, re.MULTILINE)


# the program


@pytest.fixture(scope="module")
def bare() -> Iterator[Warm]:
    """Processes that have loaded dpfast, and nothing of its extras."""
    processes = Warm("import numba, dpfast")
    yield processes
    processes.close()


@pytest.mark.parametrize(
    ("package", "extra", "command"),
    [
        ("click", "cli", ["info"]),
        ("pyarrow", "cli", ["privatize", "in.csv", "out.csv", "--column", "count", *LAW]),
        ("rich", "cli", ["info"]),
        ("matplotlib", "plot", ["explain", *LAW, "--plot", "law.png"]),
    ],
)
def test_a_missing_extra_is_named(tmp_path, bare, package, extra, command) -> None:
    make(tmp_path / "in.csv", np.arange(3))
    program = f"""
        import sys
        assert {package!r} not in sys.modules
        sys.modules[{package!r}] = None
        from dpfast.app.cli import main
        sys.exit(main(sys.argv[1:]))
    """
    result = bare.run(program, *command, folder=tmp_path)
    assert result.returncode == 2
    one_error(result.stderr, re.escape(f"needs {package}: pip install 'dpfast[{extra}]'"))
    assert names(tmp_path) == ["in.csv"]


def test_python_m_dpfast_is_the_program() -> None:
    command = [sys.executable, "-m", "dpfast", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith(dpfast.__version__)


def test_an_input_that_is_not_there_is_named(tmp_path, capsys) -> None:
    assert main(["privatize", str(tmp_path / "none.csv"), "out.csv", "--column", "a", *LAW]) == 2
    one_error(capsys.readouterr().err, "none.csv' does not exist")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_gets_a_progress_bar(tmp_path, warm) -> None:
    import fcntl
    import pty
    import termios

    make(tmp_path / "in.npy", np.arange(1000))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    program = """
        import os, sys
        os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY | os.O_NOCTTY), 2)
        os.environ["TERM"] = "xterm"
        from dpfast.app.cli import main
        sys.exit(main(sys.argv[1:]))
    """
    assert (
        warm.run(program, os.ttyname(theirs), "privatize", "in.npy", "out.npy", *LAW, folder=tmp_path).returncode == 0
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the end of what was written
        while part := os.read(ours, 10_000):
            shown += part
    os.close(ours)
    shown = shown.decode()
    assert "0%" in shown
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in shown
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l"), "the cursor stays hidden"


def test_threads_share_pieces_and_no_piece_has_its_own(tmp_path, monkeypatch) -> None:
    """--threads is the most that there are: releases in threads must start none themselves."""
    source, asked, release = tmp_path / "in.npy", set(), dpfast.DiscreteLaplace.release
    np.save(source, np.zeros(300_000, np.int64))

    def watched(self, values, **options) -> object:
        asked.add(options["threads"])
        return release(self, values, **options)

    monkeypatch.setattr(dpfast.DiscreteLaplace, "release", watched)
    assert main(["privatize", str(source), str(tmp_path / "out.npy"), *LAW, "--quiet", "--threads", "2"]) == 0
    assert asked == {1}


def helps(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The help of a command and of those below it, at 80 columns."""
    context = click.Context(command, info_name="dpfast", terminal_width=80)
    yield path, command.get_help(context)
    for name, below in getattr(command, "commands", {}).items():
        yield from helps(below, (*path, name))


def test_help_is_whole_and_uses_the_words_of_the_field() -> None:
    """No line about a command is cut, and no distribution is called a law."""
    found = dict(helps(commands))
    assert len(found) > 15
    assert {path for path, text in found.items() if "..." in text.replace("[ARGS]...", "")} == set()
    assert {path for path, text in found.items() if re.search(r"\blaws?\b", text)} == set()
