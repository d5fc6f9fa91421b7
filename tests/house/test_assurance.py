# SPDX-License-Identifier: Apache-2.0
"""docs/assurance.md says what docs/assurance/*.json hold, and old figures are told from new."""

from __future__ import annotations

import json
import shutil

import assurance_page
import pytest
from assurance_page import FOLDER, PAGE, SAID, claim, page
from deep import coverage, record

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def test_the_page_is_what_the_files_make() -> None:
    assert PAGE.read_text() == page(), "python tests/assurance_page.py writes it again"


@pytest.mark.parametrize("name", NAMES)
def test_a_row_says_the_claim_the_command_and_a_figure(name: str) -> None:
    (row,) = [line for line in page().splitlines() if f"`.ci/deep {name}`" in line]
    assert name in record.names()
    assert row.startswith(f"| {claim(name)} |")
    assert any(digit in row.split("|")[2] for digit in "123456789")


def test_every_way_to_say_figures_is_of_a_check() -> None:
    assert set(SAID) <= set(record.names())


def test_a_changed_figure_changes_the_page(tmp_path) -> None:
    """And a file that is gone takes its row with it."""
    copied = shutil.copytree(FOLDER, tmp_path / "assurance")
    path = copied / "mutation.json"
    changed = json.loads(path.read_text())
    changed["figures"]["killed"] -= 1
    path.write_text(json.dumps(changed))
    assert page(copied) != page()
    path.unlink()
    assert "`.ci/deep mutation`" not in page(copied)


def test_figures_of_other_checks_are_listed_by_name() -> None:
    assert assurance_page.listed({"proofs": 7, "names": ["a", "b"], "more": {}}) == "proofs: 7, names: 2"
    assert assurance_page.listed({"planes": {}, "visits": {}}) == "2: planes, visits"


def test_a_suite_whose_workers_are_not_measured_is_no_figure() -> None:
    assert coverage.summed({"cli": {"branches": 8, "taken": 5}})["taken"] == 5
    with pytest.raises(AssertionError, match="0 of 8 branches"):
        coverage.summed({"cli": {"branches": 8, "taken": 0}})
