# SPDX-License-Identifier: Apache-2.0
"""The long checks: one cheap case of each, and the guard that tells old figures from new ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from deep import coverage, record
from proofs import tool

names = [pytest.param(name, marks=pytest.mark.timing) if name == "timing" else name for name in record.names()]


@pytest.mark.parametrize("name", names)
def test_a_cheap_case_of_each(name: str) -> None:
    """Each long check holds in its smallest form, and counts something."""
    found = record.module(name)
    for program in getattr(found, "NEEDS", ()):
        tool(program)
    figures = found.check(cheap=True)
    assert figures
    json.dumps(figures)


class _Check:
    __name__ = "deep.example"
    COVERS = ("covered.txt",)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "covered.txt").write_text("one")
    (tmp_path / "other.txt").write_text("one")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    return tmp_path


def test_figures_are_old_once_a_covered_file_changes(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never run, run, another file changed, a covered file changed: old, new, new, old."""
    monkeypatch.setattr(record, "names", lambda: ["example"])
    monkeypatch.setattr(record, "module", lambda _name: _Check())
    assert "never run" in record.old(checkout)[0]
    folder = checkout / "docs" / "assurance"
    folder.mkdir(parents=True)
    (folder / "example.json").write_text(json.dumps({"covers": record.covered(_Check(), checkout)}))
    assert record.old(checkout) == []
    for name, lines in (("other.txt", 0), ("covered.txt", 1)):
        (checkout / name).write_text("two")
        assert bool(record.changed(_Check(), checkout)) is (lines == 1)
        record.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qam", "two", root=checkout)
        assert len(record.old(checkout)) == lines


def test_a_suite_whose_workers_are_not_measured_is_no_figure() -> None:
    assert coverage.summed({"cli": {"branches": 8, "taken": 5}})["taken"] == 5
    with pytest.raises(AssertionError, match="0 of 8 branches"):
        coverage.summed({"cli": {"branches": 8, "taken": 0}})
