# SPDX-License-Identifier: Apache-2.0
"""No test is skipped unasked, and none that is skipped runs nowhere (skips.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import skips
from places import TESTS, every_test_file

TOOLS = {"gappa is not installed": ("test_proofs.py::test_all", "test_whole.py")}
ELSEWHERE = {"no GPU": ("test_gpu.py::test_array",)}
ASKED = {
    ("tests/csrc/test_proofs.py::test_all[one]", "gappa is not installed"),
    ("tests/csrc/test_proofs.py::test_all[two]", "gappa is not installed"),
    ("tests/test_whole.py", "gappa is not installed"),
}
FILE = """
import pytest

@pytest.mark.parametrize("name", ["one", "two"])
def test_all(name):
    pytest.importorskip("gappa")

def test_other():
    pytest.skip("because")
"""


RAN = {"tests/csrc/test_proofs.py::test_all[none]", "tests/test_whole.py", "tests/test_whole.py::test_other"}


def test_what_is_listed_may_be_skipped() -> None:
    """And a run that leaves a test out says nothing of it."""
    assert list(skips.faults(ASKED, RAN, TOOLS, ELSEWHERE)) == []
    assert list(skips.faults(ASKED | {("tests/test_gpu.py::test_array", "no GPU")}, RAN, TOOLS, ELSEWHERE)) == []
    assert list(skips.faults(set(), set(), TOOLS, ELSEWHERE)) == []


@pytest.mark.parametrize(
    ("more", "fewer"),
    [
        ({("tests/csrc/test_proofs.py::test_new", "gappa is not installed")}, set()),  # needs gappa unasked
        ({("tests/csrc/test_proofs.py::test_all[three]", "sollya is not installed")}, set()),  # another reason
        ({("tests/test_gpu.py", "no GPU")}, set()),  # a file whose one test is listed
        (set(), {("tests/test_whole.py", "gappa is not installed")}),  # asks for gappa, and needs it not
    ],
)
def test_a_planted_skip_is_found(more: skips.Skipped, fewer: skips.Skipped) -> None:
    assert len(list(skips.faults((ASKED | more) - fewer, RAN, TOOLS, ELSEWHERE))) == 1


def test_what_is_listed_is_there() -> None:
    """Files and functions that exist, so that a list does not outlive its tests."""
    for places in (*skips.TOOLS.values(), *skips.ELSEWHERE.values()):
        for place in places:
            name, _, function = place.partition("::")
            assert not function or f"def {function}(" in every_test_file()[name].read_text(), place


@pytest.mark.slow
def test_a_run_and_a_run_of_what_it_skipped(tmp_path: Path) -> None:
    """Unasked; listed, then skipped again or gone: what a run with a worker says, and its code."""
    (tmp_path / "test_proofs.py").write_text(FILE)
    (tmp_path / "listed.py").write_text("import skips\nskips.TOOLS = {'.*gappa.*': ['test_proofs.py::test_all']}\n")
    environment = os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{tmp_path}", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*options: str) -> tuple[int, int, str]:
        command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", "listed", "-p", "no:cacheprovider", *options]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.count("was skipped"), ended.stdout

    code, faults, said = run("-n1", "--skips-as-listed", "names")
    assert (code, faults) == (1, 1), said  # test_other
    names = ["test_proofs.py::test_all[one]", "test_proofs.py::test_all[two]"]
    assert (tmp_path / "names").read_text().split() == names
    (tmp_path / "names").write_text("\n".join([*names, "test_gone.py::test_gone"]))
    code, faults, said = run("-n1", "--only", "names")
    assert (code, faults, said.count("test_gone.py::test_gone did not run")) == (1, 2, 1), said
    assert " 1 skipped" not in said
    assert "2 skipped" in said


TOO_MUCH = {
    "251 tests are marked slow": "import pytest\n@pytest.mark.slow\ndef test(): pass\n",
    "fails in 0.000101 of runs": "import pytest\n@pytest.mark.chance(1.5e-6)\ndef test(): pass\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("said", TOO_MUCH)
def test_more_that_are_slow_or_fail_by_chance_are_an_error(said: str, tmp_path: Path) -> None:
    """And the files that are slow as a whole do not count; the sum of chances stands at the end."""
    text = "import pytest\npytestmark = [pytest.mark.slow, pytest.mark.chance({})]\n@pytest.mark.parametrize('i', range({}))\ndef test(i): pass\n"
    for name, number in (("test_deep.py", skips.MOST_SLOW), ("test_other.py", skips.MOST_SLOW)):
        (tmp_path / name).write_text(text.format(1.99e-7, number))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    chance\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "1",
        *["-p", "skips", "-p", "no:cacheprovider", "--skips-as-listed", "names"],
    ]
    environment = os.environ | {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"}

    def run() -> tuple[int, str]:
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    code, output = run()
    assert (code, "in at most 1.0e-04 of runs" in output) == (pytest.ExitCode.OK, True), output
    (tmp_path / "test_one_more.py").write_text(TOO_MUCH[said])
    code, output = run()
    assert code != pytest.ExitCode.OK
    assert said in output, output
