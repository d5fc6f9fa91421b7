# SPDX-License-Identifier: Apache-2.0
"""Every proof by Sollya, Gappa and python-flint holds, and a spoilt bound of each is refused.

It needs the Debian packages sollya and gappa. The tests that run the scripts count as proofs, one
for each script and rounding mode; others must find that a false bound is not proved.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from proofs import PROOFS

from deep.record import ROOT

SCRIPTS, BOUNDS = (
    "csrc/test_proofs.py",
    ("csrc/test_bounds.py", "csrc/test_normal_bounds.py", "privacy/test_exact.py", "privacy/test_gaussian_privacy.py"),
)
NEEDS = ("gappa",)  # which refuses the cheap case's planted bound
KINDS = {
    "test_gappa_proves_the_roundings": "proved by Gappa",
    "test_sollya_certifies_the_polynomials": "certified by Sollya",
    "test_gappa_rejects_what_is_false": "false, refused by Gappa",
    "test_sollya_rejects_one_digit_changed": "false, refused by Sollya",
}
# Tool, file, its text and a false one, the tests that must then fail.
PLANTED = [
    ("Gappa", "csrc/proofs/laplace.gappa", "relative_error = 0x6p-52", "relative_error = 0x4.8p-52",
     ("csrc/test_proofs.py", "-k", "proves and laplace and ne")),
    ("Sollya", "csrc/proofs/decide.sollya", "0x1.9999999995287p-2", "0x1.9999999995307p-2",
     ("csrc/test_proofs.py", "-k", "certifies and decide")),
    ("python-flint", "csrc/wide_log.h", "0x35c594dece57a8", "0x35c594dece57a9", ("csrc/test_bounds.py", "-k", "wide_tables")),
]  # fmt: skip


def _tests(home: Path, *arguments: str) -> list[ET.Element]:
    """The tests that ran, as JUnit's cases: a proof whose tool is missing fails."""
    report = home / "proofs.xml"
    environment = os.environ | {"PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-m", "not timing", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    run = subprocess.run(command, cwd=home / "tests", env=environment, capture_output=True, text=True, check=False)
    cases = list(ET.parse(report).iter("testcase"))
    assert cases, run.stdout[-4000:] + run.stderr[-4000:]
    return cases


def _failed(cases: list[ET.Element]) -> list[str]:
    return [case.attrib["name"] for case in cases if len(case) and case[0].tag in {"failure", "error", "skipped"}]


def _caught(home: Path, file: str, old: str, new: str, tests: tuple[str, ...]) -> bool:
    place = home / file
    text = place.read_text()
    assert text.count(old) == 1, (file, old)
    assert _failed(_tests(home, *tests)) == []
    place.write_text(text.replace(old, new))
    cases = _tests(home, *tests)
    place.write_text(text)
    return _failed(cases) == [case.attrib["name"] for case in cases]


def check(*, cheap: bool) -> dict[str, Any]:
    """Prove all, or only what the planted false bounds are about; each of these is refused."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name in ("csrc", "dpfast", "tests", "tools"):
            shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", home)
        if not cheap:
            cases = _tests(home, SCRIPTS)
            assert _failed(cases) == [], _failed(cases)
            names = [case.attrib["name"] for case in cases]
            figures |= Counter(KINDS.get(name.partition("[")[0], "other tests of the scripts") for name in names)
            scripts = [path.stem for path in PROOFS.iterdir() if path.suffix in {".gappa", ".sollya"}]
            for script in scripts:
                assert any(f"[{script}" in name for name in names), f"no test ran {script}"
            figures["scripts"] = len(scripts)
            cases = _tests(home, *BOUNDS)
            assert _failed(cases) == [], _failed(cases)
            figures["tests of bounds by python-flint"] = len(cases)
        for tool, *planted, tests in PLANTED[: 1 if cheap else None]:
            assert _caught(home, *planted, tests), f"{tool} does not refuse the spoilt {planted[0]}"
        figures["planted, refused"] = 1 if cheap else len(PLANTED)
    return figures
