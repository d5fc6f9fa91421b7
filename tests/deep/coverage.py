# SPDX-License-Identifier: Apache-2.0
"""The branches of dpfast that the suite takes, room by room; a planted one that it lacks is listed.

Python that starts in a test is counted with the tests. The bodies of dpfast.noise.kernels are
compiled by numba, where no tracer sees them, so the room is left out; the C is counted by no figure
here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from deep.record import ROOT, git

RELEASED = ()
# What is planted at the end of a file, and a test file that imports this file.
FILE, TESTS = "dpfast/counts/postprocess.py", "test_postprocess.py"
PLANTED = "\n\ndef planted(value: int) -> int:\n    if value == 1:\n        return 2\n    return 3\n\n\nplanted(0)\n"
SETTINGS = """\
[run]
branch = true
parallel = true
source = {source}/dpfast
omit = */dpfast/noise/kernels/*
patch = subprocess
data_file = {data}/.coverage
disable_warnings = no-data-collected, module-not-measured, module-not-imported, trace-changed
"""


def _measured(home: Path, *arguments: str) -> tuple[dict[str, Any], int]:
    """Coverage's report by file, of a suite that passes, and how many tests only passed untraced.

    A tracer takes time, its data find no room on a full disk, and an interrupt within it can leave
    its lock held. So a test that fails is run again without it.
    """
    settings = home / "coverage.ini"
    settings.write_text(SETTINGS.format(source=home, data=home))
    environment = os.environ | {"PYTHONPATH": f"{home}", "PYTHONDONTWRITEBYTECODE": "1"}

    def said(*command: str, well: tuple[int, ...] = (0,)) -> int:
        run = subprocess.run(
            [sys.executable, "-m", *command], cwd=home, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode in well, run.stdout[-4000:] + run.stderr[-4000:]
        return run.returncode

    options, again = f"--rcfile={settings}", {}
    if said("coverage", "run", options, "-m", "pytest", "-q", *arguments, well=(0, 1)):
        again = json.loads((home / ".pytest_cache" / "v" / "cache" / "lastfailed").read_text())
        said("pytest", "-q", "--last-failed", *arguments)
    said("coverage", "combine", "-q", options)
    said("coverage", "json", "-q", options, "-o", str(home / "coverage.json"))
    found: dict[str, Any] = json.loads((home / "coverage.json").read_text())["files"]
    files = {
        str(Path(name).relative_to(home) if Path(name).is_absolute() else name): one for name, one in found.items()
    }
    return files, len(again)


def rooms(files: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Branches that exist and that were taken, by the folder or file below dpfast."""
    counted: dict[str, list[int]] = {}
    for name, one in files.items():
        room = counted.setdefault(Path(name).parts[1], [0, 0])
        room[0] += one["summary"]["num_branches"]
        room[1] += one["summary"]["covered_branches"]
    return {
        room: {"branches": exist, "taken": taken, "percent": round(100 * taken / exist, 1)}
        for room, (exist, taken) in sorted(counted.items())
        if exist
    }


def summed(found: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The figures. Raises: AssertionError (a suite that passed took hardly a branch)."""
    exist, taken = (sum(int(room[name]) for room in found.values()) for name in ("branches", "taken"))
    assert 2 * taken > exist, f"{taken} of {exist} branches: the environment does not measure the processes of a test"
    return {"branches": exist, "taken": taken, "rooms": found}


def check(*, cheap: bool) -> dict[str, Any]:
    """Run the suite, or the tests of one file, in a copy where one branch is planted."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        git("clone", "-q", "--no-local", str(ROOT), str(home))
        for built in (ROOT / "dpfast").glob("_dpf*.so"):
            shutil.copy(built, home / "dpfast")
        planted, text = home / FILE, (home / FILE).read_text()
        if not cheap:
            files, again = _measured(home, "-n", "auto", "tests")
        planted.write_text(text + PLANTED)
        one = _measured(home, f"tests/counts/{TESTS}")[0][FILE]
        at = len(text.splitlines()) + 1 + PLANTED.splitlines()[1:].index("    if value == 1:") + 1
    assert [at, at + 1] in one["missing_branches"], f"the branch planted at line {at} is not listed"
    assert [at, at + 2] in one["executed_branches"], f"the branch taken at line {at} is not counted"
    if cheap:
        return {"planted, listed": 1, "branches": one["summary"]["num_branches"]}
    return {"planted, listed": 1, "passed without the tracer alone": again, **summed(rooms(files))}
