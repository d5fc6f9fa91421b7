# SPDX-License-Identifier: Apache-2.0
"""Exit codes do not depend on who hears: a retry of what looks like a failure would pay again.

Python flushes its two streams at its end. If that fails, it exits with 120, whatever was done.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import dpfast
from dpfast.app import cli
from dpfast.app.cli import main

PAYS = ["--epsilon", "1", "--ledger", "budget.db", "--key-file", "visits.key", "--label", "visits"]
RELEASE = ["in.csv", "out.csv", "--column", "n", "--sensitivity", "1", *PAYS]
DEEDS = {
    "privatize": (["privatize", *RELEASE], "out.csv"),
    "verify": (["verify", *RELEASE], "out.csv"),
    "histogram": (
        ["histogram", "in.csv", "out.csv", "--by", "n", "--domain", "n=1,2", "--unit", "person", "--max-partitions", "1", *PAYS],
        "out.csv.json",
    ),
    "ledger create": (["ledger", "create", "new.db", "--epsilon", "1"], "new.db"),
    "ledger copy": (["ledger", "copy", "budget.db", "new.db"], "new.db"),
    "key create": (["key", "create", "new.key"], "new.key"),
}  # fmt: skip
PRINTS = [
    ["info"], ["--version"], ["ledger", "show", "budget.db"], ["explain", "--epsilon", "1", "--sensitivity", "1"], ["show", "noisy.csv.json"],
    ["look", "in.csv", "--by", "n", "--domain", "1,2", "--private"],
]  # fmt: skip
RECORD = {
    "epsilon_total": "1",
    "releases": [{"column": "n", "mechanism": "discrete_laplace", "epsilon": "1", "sensitivity": "1", "adjacency": "add-remove", "unit": "person"}],
}  # fmt: skip
Hearing = Callable[[str], None]


class Disk(io.RawIOBase):
    """A disk that is full until the test is over, when what still waits for it may go."""

    full = True

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(data)


@pytest.fixture(params=["buffered", "unbuffered"])
def unheard(request, monkeypatch) -> Iterator[Hearing]:
    """Makes a standard stream one that nobody hears, with or without Python's buffer."""
    made, buffered = [], request.param == "buffered"

    def make(name: str) -> None:
        disk = Disk()
        stream = io.TextIOWrapper(io.BufferedWriter(disk) if buffered else disk, write_through=not buffered)  # type: ignore[type-var]
        made.append((disk, stream))
        monkeypatch.setattr(sys, name, stream)

    yield make
    for disk, _ in made:
        disk.full = False


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("n,person\n1,1\n2,2\n")
    dpfast.Ledger("budget.db", 9, create=True)
    dpfast.KeyFile.create("visits.key")
    Path("noisy.csv.json").write_text(json.dumps(RECORD))


def code(*arguments: str) -> int:
    """The exit code of a process that runs this and ends as Python does."""
    found = main(arguments)
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:
        return 120
    return found


@pytest.mark.parametrize("streams", [["stdout"], ["stderr"], ["stdout", "stderr"]], ids="+".join)
@pytest.mark.parametrize("name", DEEDS)
def test_what_is_done_is_done_whoever_hears(unheard: Hearing, name: str, streams: list[str]) -> None:
    arguments, file = DEEDS[name]
    if name == "verify":
        assert main(["privatize", *RELEASE]) == 0
    for stream in streams:
        unheard(stream)
    assert code(*arguments) == 0
    assert Path(file).exists()


@pytest.mark.parametrize("arguments", PRINTS, ids=" ".join)
def test_what_only_prints_fails_if_it_cannot(unheard: Hearing, capsys, arguments: list[str]) -> None:
    unheard("stdout")
    assert code(*arguments) == 1
    assert capsys.readouterr().err == "Error: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "fails"),
    [
        (["privatize", "--nothing"], 2),  # click says it
        (["privatize", *RELEASE, "--lower", "5", "--upper", "4"], 2),  # dpfast says it
        (["verify", *RELEASE], 1),  # OUT was changed
    ],
)
def test_a_failure_that_nobody_hears_keeps_its_code(unheard: Hearing, arguments: list[str], fails: int) -> None:
    assert main(["privatize", *RELEASE]) == 0
    with Path("out.csv").open("a") as out:
        out.write("7,7\n")
    unheard("stderr")
    assert code(*arguments) == fails


def test_a_signal_that_nobody_hears_keeps_its_code(unheard: Hearing, monkeypatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        with suppress(OSError):
            sys.stderr.write("half a line")
        raise SystemExit(143)

    unheard("stderr")
    monkeypatch.setattr(cli.commands, "main", stopped)
    with pytest.raises(SystemExit, match="143"):
        main(["info"])
    assert sys.stderr is None or sys.stderr.flush() is None  # what Python does at its end


def test_a_warning_without_a_standard_error_stops_nothing(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["privatize", "in.csv", "out.csv", "--column", "n", "--epsilon", "50", "--sensitivity", "1"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("where", [">/dev/full 2>&1", ">&- 2>&-", "2> >(:)"])
@pytest.mark.slow
def test_a_process_ends_with_the_code_of_its_release(where: str, unbuffered: str) -> None:
    """The same in processes of their own, whose streams and end are Python's."""
    command = f"'{sys.executable}' -m dpfast privatize {' '.join(RELEASE)} {where}"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    assert subprocess.run(["bash", "-c", command], env=environment, check=False).returncode == 0
    assert re.match("n,person\n.*,1\n.*,2\n", Path("out.csv").read_text())
    assert len(dpfast.Ledger("budget.db").history()) == 1
