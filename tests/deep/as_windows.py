# SPDX-License-Identifier: Apache-2.0
"""The fast tests pass on a Linux that behaves as Windows does, but for those that are POSIX.

A test is POSIX if it fails by asking for what Windows lacks, such as a fork, or if a ledger or a
key file was refused to it. POSIX names the others, with the reason. Processes that tests start are
as ever.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from places import ROOT, TESTS, every_test_file

ROOMS = ("adapters", "app", "counts", "noise", "privacy")
CHEAP = ("test_atomic_write.py", "test_groups.py")
POSIX = {
    "test_the_output_is_private_until_it_is_whole": "modes of files",
    "test_the_record_comes_first_and_both_after_they_are_on_disk": "a folder is flushed",
}
AT_ONCE = 2
CHILD = """
import contextlib, sys
with contextlib.suppress(ImportError):
    import platformdirs  # which a plugin of pytest imports, and which takes Linux for Linux
import as_windows
from deep.as_windows import run
run(sys.argv[1], sys.argv[2:])
"""


class Watched:
    """A plugin of pytest: what became of each test, and whether what failed is POSIX."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter(passed=0, posix=0, refused=0)
        self.failed: list[str] = []
        self.refusals = 0

    def pytest_collection_finish(self) -> None:
        """From now on each refusal of what Windows lacks is counted, whoever catches it."""
        from dpfast.errors import UnsupportedError

        def begun(error: UnsupportedError, *said: object) -> None:
            self.refusals += 1
            super(UnsupportedError, error).__init__(*said)

        UnsupportedError.__init__ = begun  # type: ignore[assignment, method-assign]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note(report, _asks_posix(str(report.longrepr)) and "posix")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self.refusals = 0
        return (yield)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            name = report.nodeid.rpartition("::")[2].partition("[")[0]
            posix = name in POSIX or _asks_posix(str(report.longrepr))
            refused = self.refusals or "UnsupportedError" in str(report.longrepr)  # by a fixture of several tests
            self._note(report, "refused" if refused else posix and "posix")
        elif report.passed and report.when == "call":
            self.count["passed"] += 1

    def _note(self, report: Any, why: str | bool) -> None:
        if why:
            self.count[str(why)] += 1
        else:
            self.failed.append(f"{report.nodeid}\n{str(report.longrepr)[-2000:]}")


def _asks_posix(said: str) -> bool:
    """Whether an error in a test, and not in dpfast, is that a name of Linux is gone."""
    import as_windows

    *_, last = [line for line in said.splitlines() if line.strip()] or [""]
    names = [*as_windows.MODULES, *" ".join(as_windows.GONE.values()).split()]
    asked = any(f"'{name}'" in said or f"import of {name} halted" in said for name in names)
    return asked and not last.startswith("dpfast")


def run(place: str, files: list[str]) -> None:
    """Run tests in this process, which is as on Windows; what became of them goes to a file."""
    from _pytest import tmpdir

    tmpdir.get_user_id = lambda: None  # as it is where there are no users
    watched = Watched()
    options = "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors"
    pytest.main([*options, "-o", "addopts=", "-m", "not slow and not timing", *files], plugins=[watched])
    Path(place).write_text(json.dumps({**watched.count, "failed": watched.failed}))


def check(*, cheap: bool) -> dict[str, Any]:
    files = every_test_file()
    parts = [[files[name] for name in CHEAP]] if cheap else [[TESTS / room] for room in ROOMS]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [*pool.map(_part, parts)]
    if failed := [said for figures in found for said in figures["failed"]]:
        raise AssertionError("\n".join(["these fail as on Windows, and are not POSIX:", *failed]))
    return {what: sum(figures[what] for figures in found) for what in ("passed", "refused", "posix")}


def _part(files: list[Path]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place, path = Path(folder, "figures"), {"PYTHONPATH": f"{ROOT}:{TESTS}"}
        command = [sys.executable, "-c", CHILD, str(place), *map(str, files)]
        ended = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **path}, capture_output=True, text=True, check=False
        )
        if not place.exists():
            raise AssertionError(f"no tests ran:\n{(ended.stdout + ended.stderr)[-4000:]}")
        found: dict[str, Any] = json.loads(place.read_text())
    return found
