# SPDX-License-Identifier: Apache-2.0
"""The wheel for AArch64 under qemu: the whole self-test, and the fast tests of rooms.

packaging/wheels.sh does the work, and reads PARTS and LEFT here. It needs the Debian packages gcc,
gcc-aarch64-linux-gnu and qemu-user, and root, to lay out an AArch64 Python. A part is a case:
`.ci/deep aarch64 csrc noise` runs two, as a night allows, and keeps what is known of the others.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from places import ROOT, every_test_file

from deep import record
from deep.wheels import said

PARTS = ("selftest", "csrc", "noise", "privacy", "ledger", "counts", "app", "engines", "adapters", "evidence", "face")
PROGRAM = "starts a program that it compiled, which this kernel does not; tests/elsewhere.sh runs it by qemu"
HEADER = "needs Python.h, which the Python under qemu is without"
MEMORY = "limits its own memory, which qemu-user does not pass on to the system"
WIPED = "asks for MADV_WIPEONFORK, which qemu-user refuses: Python's own hook is left, and others test it"
FORKED = "forks beside threads, again and again, and qemu-user ends such a fork at times by an assertion of its own"
TRACED = "starts strace, which sees the calls of qemu-user and not those of the program"
TIMES = "reads its own times in /proc/self/stat, which qemu-user fills with zeros"
# Tests that are left out, and why. Whatever else fails is a failure.
LEFT = {
    "csrc/test_elsewhere.py::test_without_the_systems_wipe_a_handler_wipes": PROGRAM,
    "csrc/test_elsewhere.py::test_without_the_handler_a_child_repeats_its_parent": PROGRAM,
    "csrc/test_elsewhere.py::test_without_memory_for_the_handler_there_is_no_generator": PROGRAM,
    "csrc/test_headers.py::test_a_header_compiles_alone[capsule.h]": HEADER,
    "csrc/test_headers.py::test_a_header_compiles_alone[small.h]": HEADER,
    "noise/test_bit_generator.py::test_a_child_never_repeats_its_parent[False-True]": WIPED,
    "noise/test_bit_generator.py::test_a_child_never_repeats_its_parent[True-True]": WIPED,
    "noise/test_processes.py::test_forks_in_the_middle_of_a_first_release": FORKED,
    "noise/test_seal_tries.py::test_killed_before_and_after_each_flush": TRACED,
    "engines/test_jobs.py::test_a_driver_killed_anywhere_begins_again_and_pays_once": FORKED,
    "evidence/test_bench.py::test_all_processes_are_counted": TIMES,
    "adapters/test_arrow_capsules.py::test_memory_that_there_is_not_is_said": MEMORY,
}


def cases(root: Path) -> dict[str, list[str]]:
    """A part is due with a new version, which CITATION.cff names, and once packaging/ changes.

    Each .ci/run has the C under qemu (tests/elsewhere.sh), and `wheels` builds the wheel. What C
    does for Python alone (capsule.h, small.h), and other flags, wait for the release.
    """
    released = [path for path in record.tree(root) if path.startswith(("packaging/", "CITATION.cff"))]
    return dict.fromkeys(PARTS, released)


def check(*, cheap: bool, only: Sequence[str] = (), before: dict[str, Any] | None = None) -> dict[str, Any]:
    """What became of each part. only: the parts that are run; the others keep what they came to.

    Raises: AssertionError (something failed, or nothing ran).
    """
    if cheap:
        return _cheap()
    [built] = [one for one in said("build") if "aarch64" in one["name"]]
    when = {"commit": record.commit(), "date": datetime.now(UTC).date().isoformat()}
    ran = {one.pop("part"): one | when for one in said("emulate", str(ROOT / "dist" / built["name"]), *(only or PARTS))}
    assert set(ran) == set(only or PARTS), "every part that was asked for must run"
    assert all(one["passed"] for one in ran.values()), f"no test ran: {ran}"
    found = (before or {}) | ran
    return {part: found[part] for part in PARTS if part in found}


def told(part: str, *logs: str) -> str:
    """A line of JSON for wheels.sh: a part, by what was said first, and when what failed ran again.

    logs: two files.
    """
    first, again = (Path(log).read_text(encoding="utf-8", errors="replace") for log in logs)
    passed = [int(n) for log in (first, again) for n in re.findall(r"(\d+) (?:checks )?passed", log)[-1:]]
    skipped: Counter[str] = Counter()
    for times, why in re.findall(r"^SKIPPED \[(\d+)\] \S+?(?::\d+)?: (.+)$", first, re.MULTILINE):
        skipped[why] += int(times)
    return json.dumps({"part": part, "passed": sum(passed), "again": sum(passed[1:]), "skipped": dict(skipped)})


def options() -> list[str]:
    """What leaves LEFT out, for pytest in the folder of the tests."""
    return [f"--deselect=tests/{name}" for name in LEFT]


def _cheap() -> dict[str, Any]:
    """LEFT names what is there, and what pytest and the self-test say is read."""
    files = every_test_file()
    for name in LEFT:
        file, _, test = name.partition("[")[0].partition("::")
        path = files[file.rpartition("/")[2]]
        assert path == ROOT / "tests" / file, f"there is no {name}"
        assert f"\ndef {test}(" in path.read_text(encoding="utf-8"), f"there is no {name}"
    assert all((ROOT / "tests" / part).is_dir() for part in PARTS[1:])
    skips = "SKIPPED [2] tests/csrc/test_bounds.py:302: no tier\n1 failed, 12 passed, 2 skipped in 3.4s\n"
    heard = (skips, "1 passed in 0.1s\n"), ("All 20 checks passed. By chance\n", "")
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "log", Path(folder) / "log.again"
        found = []
        for texts in heard:
            for log, text in zip(logs, texts, strict=True):
                log.write_text(text)
            found.append(json.loads(told("csrc", *map(str, logs))))
    assert found == [
        {"part": "csrc", "passed": 13, "again": 1, "skipped": {"no tier": 2}},
        {"part": "csrc", "passed": 20, "again": 0, "skipped": {}},
    ]
    return {"parts": len(PARTS), "left out": len(LEFT)}
