# SPDX-License-Identifier: Apache-2.0
"""The source distribution, and what a checkout ignores."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from places import ROOT

ONLY_IN_GIT = {".gitignore"}

pytest.importorskip("setuptools", minversion="77")
if not (ROOT / ".git").exists():
    pytest.skip("needs a checkout", allow_module_level=True)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_the_source_distribution_holds_every_file_of_the_repository(tmp_path) -> None:
    """So whoever builds from it can run each test and each check."""
    files = [name for name in git("ls-files", "-z").split("\0") if name and (ROOT / name).is_file()]
    for name in files:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    command = [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)]
    made = subprocess.run(command, cwd=tmp_path / "copy", capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        held = {name.partition("/")[2] for name in tar.getnames()}
    assert set(files) - held == ONLY_IN_GIT


def test_the_first_command_of_the_readme_leaves_nothing_untracked() -> None:
    """Its table, the record beside it and the page are ignored."""
    command = re.search(r"histogram \S+ (\S+\.csv) .*--report (\S+\.html)", (ROOT / "README.md").read_text())
    assert command
    for name in (command[1], f"{command[1]}.json", command[2]):
        assert git("check-ignore", "--no-index", name).strip() == name
