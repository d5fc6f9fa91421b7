# SPDX-License-Identifier: Apache-2.0
"""`histogram` with a ledger and a key: killed or not, one label has one OUT and one charge."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fresh import Warm

import dpfast
from dpfast import system
from dpfast.app.cli import main

LABEL = "visits 2026-11"
ROWS = "city,sex,person\n" + "".join(f"{'Oslo' if i % 3 else 'Lima'},{'fm'[i % 2]},p{i % 40}\n" for i in range(300))
KINDS = {
    "counts": ["--domain", "city=Oslo,Lima,Pune", "--domain", "sex=f,m", "--intervals", "--epsilon", "1"],
    "gaussian": [
        "--domain", "city=Oslo,Lima,Pune", "--domain", "sex=f,m", "--mechanism", "discrete-gaussian", "--epsilon", "1",
        "--delta", "1e-6",
    ],
    "threshold": ["--threshold", "--epsilon", "1", "--delta", "1e-3"],
}  # fmt: skip


# A person has two partitions, so that the key chooses.
WORDS = ["--by", "city", "--by", "sex", "--unit", "person", "--max-partitions", "1", "--quiet"]


class Release:
    """A folder with rows, a key and a ledger, and the command that is tried again."""

    def __init__(self, folder: Path, kind: str = "counts") -> None:
        self.folder, self.rows, self.out = folder, folder / "rows.csv", folder / "out.csv"
        self.key, self.ledger = folder / "visits.key", folder / "budget.db"
        self.rows.write_text(ROWS)
        dpfast.KeyFile.create(self.key)
        dpfast.Ledger(self.ledger, 10, delta=Fraction(1, 10), create=True)
        self.words = [*WORDS, *KINDS[kind]]
        self.keyed = ["--ledger", str(self.ledger), "--key-file", str(self.key), "--label", LABEL]

    def command(self, *words: object) -> list[str]:
        return ["histogram", str(self.rows), str(self.out), *self.words, *self.keyed, *map(str, words)]

    def run(self, *words: object) -> int:
        return main(self.command(*words))

    def elsewhere(self, warm: Warm, code: str) -> subprocess.CompletedProcess[str]:
        """In a process of its own, after this code, which may plant something."""
        ends = "\nfrom dpfast.app.cli import main\nsys.exit(main(sys.argv[1:]))"
        return warm.run(f"import os, signal, sys\n{code}{ends}", *self.command())

    def bytes(self) -> bytes:
        return self.out.read_bytes() + Path(f"{self.out}.json").read_bytes()

    def clear(self) -> None:
        self.out.unlink(missing_ok=True)
        Path(f"{self.out}.json").unlink(missing_ok=True)

    @property
    def charges(self) -> int:
        ledger = dpfast.Ledger(self.ledger)
        ledger.verify()
        return sum(not entry.refused for entry in ledger.history())


@pytest.fixture(params=KINDS)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Release:
    return Release(tmp_path, request.param)


def failed(capsys: pytest.CaptureFixture[str], code: int, match: str, *, expected: int = 1) -> None:
    """One line, which says so, and no row."""
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line and not line.startswith(("Usage:", "Try ", "Warning:"))]
    assert (code, len(lines)) == (expected, 1), said
    assert re.search(match, lines[0]), said
    assert not re.search(r"\bp\d+\b", said), said


# ------------------------------------------------------------------ again


def test_a_second_run_gives_the_same_bytes_for_one_charge(release) -> None:
    """After OUT was lost, with other numbers of threads, and with the rows in another order."""
    head, *rows = ROWS.splitlines()
    made = []
    for words in ([], ["--resume", "--threads", 1], ["--resume", "--threads", 2]):
        assert release.run(*words) == 0
        made.append(release.bytes())
        release.clear()
        release.rows.write_text("\n".join([head, *reversed(rows)]) + "\n")
    assert made[0] == made[1] == made[2]
    assert release.charges == 1
    manifest = json.loads(made[0][made[0].index(b"{") :])["manifest"]
    assert manifest["label"] == LABEL
    assert manifest == dpfast.Ledger(release.ledger).history()[0].parameters["manifest"]


def test_what_is_complete_stays(release) -> None:
    assert release.run() == 0
    before = release.out.stat()
    assert release.run("--resume") == 0
    assert (release.out.stat().st_ino, release.out.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert release.charges == 1


def test_a_label_is_used_once(release, capsys) -> None:
    """Without --resume, with other rows, at another price, under another key: refused, free."""
    assert release.run() == 0
    release.clear()
    failed(capsys, release.run(), f"'{LABEL}' is reserved .*: --resume continues it")
    release.rows.write_text(ROWS + "".join(f"Oslo,f,x{i}\n" for i in range(30)))
    failed(capsys, release.run("--resume"), "the input is not the one that was reserved")
    release.rows.write_text(ROWS)
    failed(capsys, release.run("--resume", "--epsilon", 2), f"'{LABEL}' is reserved .* with other parameters of")
    failed(capsys, release.run("--resume", "--max-partitions", 3), f"'{LABEL}' is reserved .* with other parameters of")
    release.key.unlink()
    dpfast.KeyFile.create(release.key)
    failed(capsys, release.run("--resume"), "is reserved .* under another key")
    assert (release.charges, release.out.exists()) == (1, False)


@pytest.mark.parametrize("domain", ["city=Lima,Oslo,Pune", "city=Oslo,Lima,Rome"])
def test_another_domain_is_another_release(tmp_path, capsys, domain) -> None:
    """Also in another order: equal noise on other cells would tell them apart."""
    release = Release(tmp_path)
    assert release.run() == 0
    release.clear()
    release.words[release.words.index("city=Oslo,Lima,Pune")] = domain
    failed(capsys, release.run("--resume"), f"'{LABEL}' is reserved .* with another --domain")


# ------------------------------------------------------------------ killed, and a full disk

PLANTED = """
from dpfast.ledger import store
from dpfast.app.tables import rows
import pyarrow.csv

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def at_call(number, of, name):
    call, calls = getattr(of, name), []
    def watched(*given, **named):
        calls.append(1)
        return kill() if len(calls) == number else call(*given, **named)
    setattr(of, name, watched)
"""
POINTS = {  # where it is killed, and what is charged then
    "before a row": ("rows.Rows.batches = kill", 0),
    "counted": ("rows.Rows.must_be_the_same = kill", 0),
    "before the charge": ("store.Store.reserve = kill", 0),
    "in the charge": ("store.move = kill", 0),
    "charged": ("reserve = store.Store.reserve; store.Store.reserve = lambda *given: (reserve(*given), kill())", 1),
    "drawn": ("pyarrow.csv.write_csv = kill", 1),
    "written": ("at_call(1, os, 'fsync')", 1),
    "its record written": ("at_call(2, os, 'fsync')", 1),
    "before a name": ("at_call(1, os, 'link')", 1),
    "its record named": ("at_call(2, os, 'link')", 1),
    "done": ("at_call(3, os, 'fsync')", 1),
}


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_begun_again(release, tmp_path_factory, point, warm) -> None:
    """Wherever it was killed: no part of an OUT, and then the OUT that nobody killed."""
    planted, charges = POINTS[point]
    result = release.elsewhere(warm, PLANTED + planted)
    assert (result.returncode, result.stdout) == (-9, ""), result.stderr
    assert release.charges == charges
    assert not release.out.exists() or point == "done"
    assert release.run("--resume") == 0
    made = release.bytes()
    assert release.charges == 1
    release.clear()
    assert release.run("--resume") == 0
    assert (release.bytes(), release.charges) == (made, 1)


FULL = """
import pyarrow.csv
def fails(*_):
    raise OSError(28, "No space left on device")
pyarrow.csv.write_csv = fails
"""


def test_a_full_disk_and_then_room(release, warm) -> None:
    """The message says that the charge stays, and that --resume is free."""
    result = release.elsewhere(warm, FULL)
    assert (result.returncode, release.charges, release.out.exists()) == (4, 1, False)
    wanted = (
        r"Error: cannot write .*out.csv: No space left on device; the charge in .*budget.db stays: --resume writes OUT "
    )
    assert re.fullmatch(wanted + r"without a new charge\n", result.stderr), result.stderr
    assert release.run("--resume") == 0
    assert release.charges == 1


def test_a_disk_that_is_full(tmp_path, warm) -> None:
    """By the system's limit of a file's size. Without a key another try is another charge."""
    release = Release(tmp_path)
    release.words += ["--by", "n", "--domain", "n=1..20000"]
    release.rows.write_text(ROWS.replace("person\n", "person,n\n").replace("\np", "\np"))
    release.rows.write_text("city,sex,person,n\n" + "".join(f"Oslo,f,p{i},{i}\n" for i in range(9)))
    release.keyed = release.keyed[:2]
    result = release.elsewhere(warm, "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))")
    assert result.returncode == 4, result.stderr
    said = r"Error: cannot write .*: File too large; the charge in .* stays: without a key another try is another release\n"
    assert re.fullmatch(said, result.stderr), result.stderr
    assert (release.charges, release.out.exists()) == (1, False)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".dpfast", "out"))]


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


PERHAPS = "a charge in .*, if made, stays: --resume writes OUT for one charge in all"
INTERRUPTED = {
    "rows": ("dpfast.app.tables.gathered.Gathered.add", 0, ""),
    "charge": ("dpfast.ledger.store.Store.reserve", 0, PERHAPS),
    "draw": ("dpfast.app.tables.gathered.table_of", 1, PERHAPS),
    "write": ("pyarrow.csv.write_csv", 1, "the charge in .* stays: --resume writes OUT without a new charge"),
}


@pytest.mark.parametrize("step", INTERRUPTED)
def test_an_interrupt_names_the_charge(release, capsys, monkeypatch, step: str) -> None:
    where, charges, said = INTERRUPTED[step]
    with monkeypatch.context() as patched:
        patched.setattr(where, interrupt)
        assert release.run() == 130
    wanted = "\nError: interrupted; nothing was written" + (f"; {said}" if said else "") + "\n"
    assert re.fullmatch(wanted, capsys.readouterr().err)
    assert (release.charges, release.out.exists()) == (charges, False)
    assert release.run("--resume") == 0
    assert release.charges == 1


@pytest.mark.parametrize("step", ["placed", "flushed", "told"])
def test_an_interrupt_once_out_is_there_is_none(tmp_path, capsys, monkeypatch, step: str) -> None:
    """Nobody is told that nothing was written, and no scheduler releases again."""
    release = Release(tmp_path)
    link = system.link

    def linked(file: Any, path: Path) -> None:
        link(file, path)
        if path == release.out:
            raise KeyboardInterrupt

    release.words.remove("--quiet")
    where = {"placed": "dpfast.system.link", "flushed": "dpfast.system.flush_folder"}
    with monkeypatch.context() as patched:
        patched.setattr(where.get(step, "dpfast.app.cli.request.Payer.left"), linked if step == "placed" else interrupt)
        assert release.run() == 0
    said = capsys.readouterr().err
    assert re.search("^Warning: interrupted once OUT was there: .*out.csv is whole$", said, re.MULTILINE), said
    assert "Error" not in said
    made = release.bytes()
    assert (release.charges, release.run("--resume"), release.bytes() == made) == (1, 0, True)


def test_an_interrupt_while_out_is_replaced_says_what_is_gone(tmp_path, capsys, monkeypatch) -> None:
    release = Release(tmp_path)
    assert release.run() == 0
    link = system.link
    with monkeypatch.context() as patched:
        patched.setattr(
            "dpfast.system.link", lambda file, path: interrupt() if path == release.out else link(file, path)
        )
        assert release.run("--force", "--resume") == 130
    wanted = r"out\.csv, which was to be replaced, is gone; the charge in .* stays: --resume writes OUT without"
    failed(capsys, 130, f"Error: interrupted; .*{wanted}", expected=130)


@pytest.mark.parametrize("step", ["copied", "told"])
def test_an_interrupt_of_a_pipe_says_that_a_part_may_be_there(tmp_path, capfd, monkeypatch, step: str) -> None:
    release = Release(tmp_path)
    release.out = Path("-")
    release.words.remove("--quiet")
    more = ["--format", "csv", "--metadata", str(release.folder / "about.json")]
    steps = {"copied": "dpfast.paths.shutil.copyfileobj", "told": "dpfast.app.cli.request.Payer.left"}
    with monkeypatch.context() as patched:
        patched.setattr(steps[step], interrupt)
        ended = release.run(*more)
    out, err = capfd.readouterr()
    if step == "told":
        assert (ended, out.count("\n") > 1) == (0, True)
        assert "Warning: interrupted once OUT was there: standard output is whole" in err
    else:
        assert ended == 130
        assert "Error: interrupted; standard output has a part of OUT, or all of it; the charge in" in err


@pytest.mark.slow
def test_two_processes_at_once(release) -> None:
    """Both end well, with the same bytes, for one charge."""
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *release.command("--resume")]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate(timeout=600)[1], process.returncode) for process in both] == [("", 0)] * 2
    made = release.bytes()
    release.clear()
    assert release.run("--resume") == 0
    assert (release.bytes(), release.charges) == (made, 1)


@pytest.mark.slow
def test_two_processes_that_want_the_last_of_a_budget(tmp_path) -> None:
    """Under labels of their own: one is paid for, and the other is refused."""
    release = Release(tmp_path)
    release.ledger.unlink()
    dpfast.Ledger(release.ledger, 1, create=True)
    program = "import sys; from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    processes = []
    for name in ("a", "b"):
        release.out, release.keyed[-1] = tmp_path / f"{name}.csv", name
        command = [sys.executable, "-c", program, *release.command()]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=600)[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 3]
    assert "epsilon 1 is asked for and 0 is left" in "".join(said)
    assert release.charges == 1
    assert sum((tmp_path / f"{name}.csv").exists() for name in ("a", "b")) == 1


# ------------------------------------------------------------------ verify


def test_verify(release, capsys) -> None:
    """OUT as made; then with a byte changed, without its end, with its record changed."""
    assert release.run() == 0
    made, record = release.out.read_bytes(), Path(f"{release.out}.json")
    release.words.remove("--quiet")
    assert release.run("--verify") == 0
    assert "drawn again and compared" in capsys.readouterr().err
    release.words.append("--quiet")
    if len(made) > 20:
        release.out.write_bytes(made[:-2] + bytes([made[-2] ^ 1]) + made[-1:])
        failed(capsys, release.run("--verify"), "out.csv is not what this release gives")
    release.out.write_bytes(made[:-1])
    failed(capsys, release.run("--verify"), "out.csv is not what this release gives")
    release.out.write_bytes(made)
    record.write_text(record.read_text().replace('"1"', '"2"', 1))
    failed(capsys, release.run("--verify"), r"out.csv\.json is not what this release gives")
    assert release.charges == 1


def test_verify_of_a_report_that_is_not_there(release, capsys) -> None:
    """It said that it could not write one, which it never does."""
    assert release.run() == 0
    page = release.folder / "out.html"
    failed(capsys, release.run("--verify", "--report", page), "out.html does not exist, and the release has this file")
    assert not page.exists()


def test_verify_refuses_what_cannot_be_drawn_again(release, capsys) -> None:
    failed(
        capsys, release.run("--verify"), f"--label must be that of a release, and .* has none of '{LABEL}'", expected=2
    )
    assert release.run() == 0
    release.clear()
    failed(capsys, release.run("--verify"), "OUT must be the file of a release", expected=2)
    failed(capsys, release.run("--verify", "--force"), "'--verify' writes nothing", expected=2)
    release.keyed = release.keyed[:2]
    failed(capsys, release.run("--verify"), "--verify must come with --key-file", expected=2)
    assert release.charges == 1


# ------------------------------------------------------------------ refused, and nothing is charged


def test_a_ledger_of_persons_takes_no_rows_for_units(tmp_path, monkeypatch, capsys) -> None:
    """The message names the option that was given; and --explain says whether it fits."""
    monkeypatch.chdir(tmp_path)
    dpfast.Ledger("persons.db", epsilon=1, create=True)
    dpfast.Ledger("rows.db", epsilon=1, unit="row", create=True)
    words = ["histogram", "no.csv", "out.csv", "--by", "city", "--domain", "Lima,Oslo", "--unit-is-row", "--epsilon"]
    for more in ([], ["--explain"]):
        assert main([*words, "1", "--ledger", "persons.db", *more]) == 2
        said = capsys.readouterr().err
        assert "Error: --unit-is-row must come with a ledger of unit 'row', and that of " in said
        assert "persons.db is 'person': make one by dpfast ledger create --unit row, or give --unit" in said
    for epsilon, fits in (("1", "fits"), ("1.1", "would not fit")):
        assert main([*words, epsilon, "--ledger", "rows.db", "--explain"]) == 0
        assert f"rows.db: epsilon 1 left: a new release {fits}\n" in capsys.readouterr().out
    assert not dpfast.Ledger("rows.db").history()


@pytest.mark.parametrize(
    ("change", "match", "expected"),
    [
        (["--epsilon", "11"], "epsilon 11 is asked for and 10 is left of 10", 3),
        (["--epsilon", "0"], "--epsilon must be positive, got 0", 2),
        (["--unit", "nobody"], "--?unit must be that of the ledger, 'person', got 'nobody'", 2),
        (
            ["--adjacency", "substitution"],
            "--?adjacency must be that of the ledger, 'add-remove', got 'substitution'",
            2,
        ),
        (["--by", "town", "--domain", "town=a,b"], "no column is named 'town'", 2),
        (["--label", ""], "label must be a non-empty string", 2),
        (["--label", "a\nb"], "label must be printable, on one line", 2),
    ],
)
def test_a_wrong_parameter_costs_nothing(tmp_path, capsys, change, match, expected) -> None:
    release = Release(tmp_path)
    failed(capsys, release.run(*change), match, expected=expected)
    assert (release.charges, release.out.exists()) == (0, False)
    assert not dpfast.Ledger(release.ledger).history()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_budget_that_does_not_suffice_is_refused_before_a_row_is_read(tmp_path, capsys, monkeypatch, keyed) -> None:
    from dpfast.app.tables import rows

    release = Release(tmp_path)
    release.keyed = release.keyed if keyed else release.keyed[:2]
    monkeypatch.setattr(rows, "Rows", lambda *_: pytest.fail("it was opened"))
    failed(capsys, release.run("--epsilon", 11), "epsilon 11 is asked for and 10 is left of 10", expected=3)
    assert release.charges == 0


def test_a_ledger_or_a_key_that_is_not_there(tmp_path, capsys) -> None:
    release = Release(tmp_path)
    release.key.unlink()
    failed(capsys, release.run(), "the key file .* does not exist: `dpfast key create .*` makes one")
    release.ledger.unlink()
    failed(
        capsys,
        release.run(),
        "budget.db does not exist; `dpfast ledger create` makes a ledger",
    )
    assert not release.ledger.exists()


@pytest.mark.parametrize("left_out", ["--ledger", "--key-file", "--label"])
def test_key_ledger_and_label_come_together(tmp_path, capsys, left_out) -> None:
    release = Release(tmp_path)
    at = release.keyed.index(left_out)
    del release.keyed[at : at + 2]
    failed(capsys, release.run(), "must be given together", expected=2)
    assert release.charges == 0


def test_a_label_of_a_file_release_is_taken(tmp_path, capsys) -> None:
    """One label names one release, whichever command made it."""
    release, counts = Release(tmp_path), tmp_path / "counts.csv"
    counts.write_text("n\n3\n5\n")
    privatize = [
        "privatize",
        str(counts),
        str(tmp_path / "n.csv"),
        "--column",
        "n",
        "--epsilon",
        "1",
        "--sensitivity",
        "1",
    ]
    assert main([*privatize, "--quiet", *release.keyed]) == 0
    failed(capsys, release.run("--resume"), f"'{LABEL}' is reserved .* with another kind|with the columns")
    assert release.charges == 1


def test_without_a_key_each_run_is_a_release(tmp_path) -> None:
    release = Release(tmp_path)
    release.keyed = release.keyed[:2]
    release.words += ["--force"]
    assert release.run() == release.run() == 0
    history = dpfast.Ledger(release.ledger).history()
    assert [entry.label for entry in history] == ["rows.csv: count by city, sex"] * 2
    assert dpfast.Ledger(release.ledger).spent.epsilon == 2


EQUAL = "city,sex,person,h,g\n" + "".join(f"{city},{sex},{i},0,0\n" for i, (city, sex) in enumerate(["ab", "ba"]))


@pytest.mark.parametrize("kind", ["--domain", "--threshold"])
def test_every_option_that_decides_what_is_counted_is_sealed_whatever_the_rows_are(tmp_path, capsys, kind) -> None:
    """Else each other cap or clamp that is accepted says what no unit has. No row is read."""
    release = Release(tmp_path)
    release.rows.write_text(EQUAL)
    law = (
        ["--epsilon", "1", "--delta", "1e-2"]
        if kind == "--threshold"
        else ["--epsilon", "1", "--mechanism", "discrete-laplace"]
    )
    base = {
        "--by": ["city", "sex"], "--unit": ["person"], "--max-partitions": [4], "--max-per-partition": [1], "--sum": ["h"],
        "--granularity": [1], "--delimiter": [], "--decimal": [], "--max-contributions": [],
        "--domain": ["city=a,b", "sex=a,b"] if kind == "--domain" else [],
    }  # fmt: skip
    clamps = {"--clamp": ["0", "9"]}

    def words(**changed: list[Any]) -> list[str]:
        given = {**base, **{f"--{name.replace('_', '-')}": value for name, value in changed.items()}}
        said = [
            str(word)
            for name, values in given.items()
            if name != "--clamp"
            for value in values
            for word in (name, value)
        ]
        ends = given.get("--clamp", clamps["--clamp"])
        return [
            *said,
            *(["--clamp", *map(str, ends)] if ends else []),
            *(["--threshold"] if kind == "--threshold" else []),
            *law,
            "--quiet",
        ]

    changes: dict[str, list[Any]] = {
        "by": ["sex", "city"], "sum": ["g"], "clamp": [1, 9], "decimal": [","], "delimiter": ["tab"],
    }  # fmt: skip
    if kind == "--domain":
        changes["domain"] = ["city=b,a", "sex=a,b"]
    release.words = words()
    assert release.run() == 0
    made = release.bytes()
    release.clear()
    for name, value in changes.items():
        release.words = words(**{name: value})
        release.rows.write_text(EQUAL + "a,a,1,1,no number,no number\n")
        for again in ("--resume", "--verify"):
            release.out.write_text("x")
            failed(capsys, release.run(again), rf"is reserved .* (with|name) (another )?--{name}\b")
            release.clear()
    # caps and granularity that leave the mechanism as it is, for the seal compares it first
    for name in ("max_contributions", "max_per_partition", "granularity", "adjacency"):
        assert (
            f"--{name.replace('_', '-')}" in json.loads(made[made.index(b"{") :])["manifest"]["terms"]
            or name == "max_contributions"
        )
    release.rows.write_text(EQUAL)
    release.words = words()
    assert release.run("--resume") == 0
    assert release.bytes() == made
    assert len(dpfast.Ledger(release.ledger).history()) == 1


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (["--domain", "b,a"], "with another --domain"),
        (["--domain", "a,c"], "with another --domain"),
        (["--domain", "a,b", "--max-partitions", "2"], "with another --max-partitions, '1', not '2'"),
        (["--domain", "a,b", "--sum", "h", "--clamp", "0", "1", "--granularity", "1"], "does not name --clamp"),
    ],
)
def test_public_differences_of_a_histogram_are_told_as_such(tmp_path, capsys, other, told) -> None:
    """Never that the data are others. By a mechanism of a sigma, which caps leave as it is."""
    release = Release(tmp_path)
    release.rows.write_text(EQUAL)
    law = ["--by", "city", "--unit", "person", "--mechanism", "discrete-gaussian", "--sigma", "9", "--quiet"]
    caps = [] if "--max-partitions" in other else ["--max-partitions", "1"]
    dpfast.Ledger(tmp_path / "rho.db", rho=100, create=True)
    release.ledger = tmp_path / "rho.db"
    release.keyed[1] = str(release.ledger)
    release.words = [*law, "--max-partitions", "1", "--domain", "a,b"]
    assert release.run() == 0
    release.clear()
    release.words = [*law, *caps, *other]
    failed(capsys, release.run("--resume"), told)
    assert [entry.refused for entry in dpfast.Ledger(release.ledger).history()] == [False]
