# SPDX-License-Identifier: Apache-2.0
"""The site is whole: it builds without a warning, knows every public name, and can be searched."""

from __future__ import annotations

import html
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import browser
import pytest
from places import ROOT

import dpfast

pytest.importorskip("sphinx", reason="the extra docs")
pytest.importorskip("furo", reason="the extra docs")
pytest.importorskip("sphinx_click", reason="the extra docs")

BESIDE = ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "csrc", "benchmarks", "examples", "dpfast")


def build(docs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """A build whose warnings are errors: among them links and anchors that lead nowhere."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(docs), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    result = build(ROOT / "docs", out)
    assert (result.returncode, result.stderr) == (0, "")
    return out


def names() -> set[str]:
    """The names that the pages of the reference ask for."""
    return {
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"\{api\} dpfast\.(\w+)", page.read_text("utf-8"))
    }


def test_every_public_name_has_an_entry(site) -> None:
    assert names() == set(dpfast.__all__)
    shown = "".join(page.read_text("utf-8") for page in (site / "reference").glob("*.html"))
    assert all(f'id="dpfast.{name}"' in shown for name in dpfast.__all__)
    assert 'id="dpfast.Ledger.release"' in shown


def without_example(value: object, name: str) -> list[str]:
    """Whether an entry of the reference lacks an example, and which entries of its members do."""
    from site_pages import members

    entries = [(name, inspect.getdoc(value) or "")]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        entries += [(f"{name}.{member}", doc) for member, _, doc in members(value)]
    return [entry for entry, doc in entries if ">>> " not in doc]


def test_every_entry_has_an_example(monkeypatch) -> None:
    """tests/house/test_examples.py runs them."""
    monkeypatch.syspath_prepend(ROOT / "docs")

    class Planted:
        """Without one."""

    assert without_example(Planted, "Planted") == ["Planted"]
    found = [entry for name in sorted(names()) for entry in without_example(getattr(dpfast, name), name)]
    assert found == []


def test_nothing_is_loaded_from_elsewhere(site) -> None:
    """The pages work from files: no script, style, font or picture of another host."""
    loaded = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"((?:https?:)?//[^\"]*)")
    found = {page.name: loaded.findall(page.read_text("utf-8")) for page in site.rglob("*.html")}
    assert len(found) > 30
    assert {name: urls for name, urls in found.items() if urls} == {}
    assert loaded.findall('<script defer src="https://example.org/a.js">') == ["https://example.org/a.js"]
    styles = "".join(page.read_text("utf-8", "replace") for page in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(?:https?:)?//", styles)


def test_the_search_finds_words(site) -> None:
    """The index of the search is a script, so that a page that is opened as a file can read it."""
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    assert all(word in index for word in ("glossari", "tutori", "substitut", "snap"))


def test_code_of_docstrings_is_shown_as_code(site) -> None:
    page = (site / "reference" / "counts.html").read_text("utf-8")
    assert "&gt;&gt;&gt; " in page
    assert "Raises" in page


def test_the_page_of_the_commands_is_set_and_its_lines_can_be_copied(site) -> None:
    """No directive is shown as text, and no -- became a dash."""
    page = html.unescape((site / "reference" / "commands.html").read_text("utf-8"))
    assert ".. option::" not in page
    assert "dpfast histogram [OPTIONS] ROWS OUT" in re.sub("<[^>]*>", "", page)
    assert "dpfast audit my_noise:add --epsilon 1" in page
    assert "pip install 'dpfast[peers]'" in page


def test_every_page_fits_a_telephone_and_can_be_read(site) -> None:
    """No sideways scroll, contrast, reach by keys: tests/app/test_looks.py plants faults."""
    if browser.chromium() is None:
        pytest.skip("chromium is not installed")
    pages = [page for page in sorted(site.rglob("*.html")) if page.name not in {"genindex.html", "search.html"}]
    assert list(browser.looks(pages, widths=(360,))) == []


def test_a_figure_follows_the_theme_that_a_reader_sets(site) -> None:
    """Its colors are those of the page's scheme, not of the system's."""
    if browser.chromium() is None:
        pytest.skip("chromium is not installed")
    found = """theme => {
        document.body.dataset.theme = theme;
        return getComputedStyle(document.querySelector("article img")).colorScheme;
    }"""
    with browser.browser() as tab:
        for scheme in browser.SCHEMES:
            tab.show(site / "gallery" / "planes.html", 1280, scheme)
            assert [tab.run(found, theme) for theme in browser.SCHEMES] == list(browser.SCHEMES)


SPOILT = (  # a page, what it holds, what is put in its place, what a build then says
    ("tutorial.md", "(how_to.md)", "(no_such_page.md)", "no_such_page"),
    ("how_to.md", "(sealed.md)", "(sealed.md#no-such-heading)", "no-such-heading"),
    ("explanation.md", "(../csrc/stream.md)", "(../csrc/no_such_proof.md)", "no_such_proof"),
    ("index.md", "\nrecords\n", "\n", "records.md: WARNING: document isn't included in any toctree"),
)


def test_pages_that_are_spoilt_are_found(tmp_path) -> None:
    for name in BESIDE:
        path = ROOT / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / name)
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*build", "assurance"))
    for page, old, new, _ in SPOILT:
        text = (docs / page).read_text("utf-8")
        assert old in text
        (docs / page).write_text(text.replace(old, new), "utf-8")
    result = build(docs, tmp_path / "out")
    assert result.returncode != 0
    assert [said for _, _, _, said in SPOILT if said not in result.stderr] == []
    assert result.stderr.count("WARNING") == len(SPOILT)
