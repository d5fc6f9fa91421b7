# SPDX-License-Identifier: Apache-2.0
"""The gallery's pages are whole, and were run as they stand; the cheapest one is run here.

`.ci/deep notebooks` runs all of them as notebooks, with every planted fault.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from gallery import ANSWER, CITIES, FOLDER, INK, PLANTED, Fault, cells, digest, drawn, listed, spoilt, text, written

RECORD = FOLDER.parent / "assurance" / "notebooks.json"
pages = listed()


def ended(page: str, folder) -> subprocess.CompletedProcess[str]:
    """How the page ends as a script."""
    for package in ("matplotlib", "pandas", "scipy", "statsmodels"):
        pytest.importorskip(package)
    shutil.copy(CITIES, folder)
    script = "import matplotlib; matplotlib.use('agg')\n" + "\n".join(cells(page))
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


def test_each_page_is_in_the_index_and_each_of_the_index_is_there() -> None:
    assert sorted(pages) == sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
    assert sorted(PLANTED) == sorted(pages)
    assert len(pages) >= 8
    assert all(len(faults) >= 2 for faults in PLANTED.values())


@pytest.mark.parametrize("name", pages)
def test_a_page_is_whole(name) -> None:
    """A question that the index has, its answer, narrow code, one figure, a check in the end."""
    page = text(name)
    title, _, rest = page.partition("\n")
    assert title.startswith("# ")
    assert title.endswith("?")
    assert f"- [{title.removeprefix('# ')}]({name}.md)\n" in (FOLDER / "index.md").read_text("utf-8")
    assert re.match(r"\n<!-- answer:start -->\n\S", rest)
    assert "](../glossary.md#" in page
    for cell in cells(page):
        compile(cell, name, "exec")
        assert max(map(len, cell.splitlines())) <= 80
    assert re.findall(r"^!\[([^]]{30,})\]\((\S+)\)$", page, re.MULTILINE)[0][1] == f"{name}.svg"
    *_, last = ast.parse(cells(page)[-1]).body
    assert isinstance(last, ast.Assert)
    assert f'savefig("{name}.svg")' in page
    for fault in PLANTED[name]:
        assert cells(spoilt(page, fault)) != cells(page)


@pytest.mark.parametrize("name", pages)
def test_what_a_page_shows_is_what_its_code_did(name) -> None:
    """The long check ran this very code, and a figure has the colors for a dark page."""
    assert json.loads(RECORD.read_text())["figures"][name]["code"] == digest(text(name))
    figure = (FOLDER / f"{name}.svg").read_text()
    ET.fromstring(figure)
    assert "prefers-color-scheme: dark" in figure
    used = set(re.findall(r"(?:fill|stroke): (#\w+)", re.sub(r"<style>.*?</style>", "", figure)))
    assert used <= INK.keys()


def test_the_cheapest_page_holds_as_a_script(tmp_path) -> None:
    result = ended(text("visits"), tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("fault", PLANTED["visits"], ids=lambda fault: fault.name)
def test_its_check_finds_each_planted_fault(fault, tmp_path) -> None:
    result = ended(spoilt(text("visits"), fault), tmp_path)
    assert result.returncode != 0
    assert "AssertionError" in result.stderr.splitlines()[-1]


def test_outputs_and_the_answer_are_written_into_a_page() -> None:
    page = "<!-- answer:start -->\nold\n<!-- answer:end -->\n\n```python\nprint(1)\n```\n\n```text\n0\n```\n\n```python\nx = 1\n```\n"
    new = written(page, ["1\n", ""], "new")
    assert cells(new) == cells(page)
    assert ANSWER.search(new)[0] == "new\n"
    assert new.count("```text\n1\n```") == new.count("```text") == 1
    assert written(new, ["1\n", ""], "new") == new
    with pytest.raises(AssertionError, match="one answer"):
        written(page, ["1\n", "", ""], "new")


def test_a_fault_that_no_longer_fits_its_page_is_an_error() -> None:
    with pytest.raises(AssertionError, match="must stand once"):
        spoilt(text("visits"), Fault("nothing", "no such code", ""))


def test_a_figure_has_no_date() -> None:
    assert "date" not in drawn("<svg>\n <metadata>\n  <date>now</date>\n </metadata>\n <defs>\n </defs>\n</svg>")
