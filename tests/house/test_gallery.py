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
from xml.etree import ElementTree as ET

import pytest
from fresh import each
from gallery import ANSWER, CITIES, FOLDER, INK, PLANTED, Fault, cells, digest, drawn, listed, spoilt, text, written

RECORD = FOLDER.parent / "assurance" / "notebooks.json"
pages = listed()


FAULTS = PLANTED["visits"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """How the cheapest page ends as a script, whole and with each fault, by the fault's name."""
    for package in ("matplotlib", "pandas", "scipy", "statsmodels"):
        pytest.importorskip(package)
    pages = {"": text("visits")} | {fault.name: spoilt(text("visits"), fault) for fault in FAULTS}
    programs = {tmp_path_factory.mktemp("page"): "\n".join(cells(page)) for page in pages.values()}
    for folder in programs:
        shutil.copy(CITIES, folder)
    first = (
        "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot, scipy.stats, statsmodels.datasets, dpfast"
    )
    return dict(zip(pages, each(programs, first, strict=False), strict=True))


def test_each_page_is_in_the_index_and_each_of_the_index_is_there() -> None:
    assert sorted(pages) == sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
    assert sorted(PLANTED) == sorted(pages)
    assert len(pages) >= 8
    assert all(len(faults) >= 2 for faults in PLANTED.values())


@pytest.mark.parametrize("name", pages)
def test_a_page_is_whole(name) -> None:
    """A question that the index has, its answer and figure, narrow code, a check in the end."""
    page = text(name)
    title, _, rest = page.partition("\n")
    assert title.startswith("# ")
    assert title.endswith("?")
    thumbnail = f"[![]({name}.svg) {title.removeprefix('# ')}]({name}.md)\n"
    assert thumbnail in (FOLDER / "index.md").read_text("utf-8")
    assert re.match(r"\n<!-- answer:start -->\n\S", rest)
    assert rest.index(f"]({name}.svg)") < rest.index("```")  # the figure stands above the code
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


@pytest.mark.slow
def test_the_cheapest_page_holds_as_a_script(ended) -> None:
    assert (ended[""].returncode, ended[""].stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_its_check_finds_each_planted_fault(fault, ended) -> None:
    assert ended[fault.name].returncode != 0
    assert "AssertionError" in ended[fault.name].stderr.splitlines()[-1]


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
