# SPDX-License-Identifier: Apache-2.0
"""The site is whole: it builds without a warning, knows every public name, and can be searched.

It is also light, short, and fit for a telephone, a tablet and a desk, by day and by night.
"""

from __future__ import annotations

import ast
import html
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from operator import attrgetter
from pathlib import Path
from urllib.parse import unquote

import browser
import pytest
from places import ROOT

import dpfast

pytest.importorskip("sphinx", reason="the extra docs")
pytest.importorskip("furo", reason="the extra docs")
pytest.importorskip("sphinx_click", reason="the extra docs")

BESIDE = (
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "csrc",
    "benchmarks",
    "examples",
    "dpfast",
)
MOST_WORDS = 30_000  # the sum over all pages, without code and what a program wrote
HEAVIEST = 500_000  # bytes of a page with all that it loads


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
        for name in re.findall(r"\{api\} dpfast\.([\w.]+)", page.read_text("utf-8"))
    }


def test_every_public_name_has_an_entry(site) -> None:
    public = {*dpfast.__all__, "numba", "testing", *(f"errors.{name}" for name in dpfast.errors.__all__)} - {"errors"}
    assert names() == public
    shown = "".join(page.read_text("utf-8") for page in (site / "reference").glob("*.html"))
    assert all(f'id="dpfast.{name}"' in shown for name in public)
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
    found = [entry for name in sorted(names()) for entry in without_example(attrgetter(name)(dpfast), name)]
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


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_every_page_fits_a_telephone_a_tablet_and_a_desk(site, width) -> None:
    """No sideways scroll, contrast, reach by keys: tests/app/test_looks.py plants faults.

    Tablets and desks are shown a few pages: all that a page has is narrowest on a telephone.
    """
    if browser.chromium() is None:
        pytest.skip("chromium is not installed")
    pages = [page for page in sorted(site.rglob("*.html")) if page.name not in {"genindex.html", "search.html"}]
    assert len(pages) > 40
    kinds = {"index", "meaning", "performance"}
    shown = pages if width == 360 else [page for page in pages if page.stem in kinds]
    assert list(browser.looks(shown, widths=(width,))) == []


SPOILT_ON_PAPER = (  # a rule of the site's style, what stands in its place, a page, what a printer then does
    (".sidebar-drawer, .toc-drawer,", ".toc-drawer,", "performance.html", "cut"),
    (".content td, .content th, .content td.text-right { overflow-wrap: anywhere; white-space: normal; }",
     ".content td { white-space: nowrap; }", "choosing.html", "scroll"),
    ("@media print {", "@media print { .content pre { background: #222 !important; }", "tutorial.html", "dark"),
)  # fmt: skip


def test_pages_print_whole(site, tmp_path) -> None:
    """On white paper, though the reader likes the dark, without a side bar, and nothing cut."""
    if browser.chromium() is None:
        pytest.skip("chromium is not installed")
    names = "index", "performance", "meaning", "tutorial", "choosing", "gallery/so_far", "reference/counts"
    assert browser.prints([site / f"{name}.html" for name in names]) == []
    [sheet] = site.rglob("site.css")
    style = sheet.read_text("utf-8")
    spoilt = []
    for at, (rule, instead, page, _) in enumerate(SPOILT_ON_PAPER):
        assert rule in style
        folder = tmp_path / str(at)
        shutil.copytree(sheet.parent, folder / sheet.parent.name)
        (folder / sheet.relative_to(site)).write_text(style.replace(rule, instead), "utf-8")
        shutil.copy(site / page, folder / page)
        spoilt.append(folder / page)
    found = {(each.page, each.kind) for each in browser.prints(spoilt)}
    assert {(page, kind) for _, _, page, kind in SPOILT_ON_PAPER} <= found


def published() -> Iterator[Path]:
    """The sources of the pages of the site."""
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text("utf-8"))
    left_out = [
        each
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AugAssign)
        and getattr(getattr(node, "target", None) or node.targets[0], "id", "") == "exclude_patterns"
        for each in ast.literal_eval(node.value)
    ]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").as_posix()
        if not any(fnmatch(name, each) for each in (*left_out, "_build/*")):
            yield page


def word_count(text: str) -> int:
    """Without code and what a program wrote; a word has a letter or a digit."""
    text = re.sub(r"<!-- ([\w: ]+):start -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *(```+).*?^ *\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def test_the_site_can_be_read_in_a_day() -> None:
    """Pages for those who change the code are none of it."""
    assert word_count("Two words.\n```sh\nnone here\n```\n| a | - |\n<!-- x:start -->\n9\n<!-- x:end -->\n") == 3
    pages = {page.relative_to(ROOT / "docs").as_posix(): word_count(page.read_text("utf-8")) for page in published()}
    assert {"index.md", "gallery/planes.md", "reference/counts.md"} <= pages.keys()
    assert not pages.keys() & {"design.md", "guarantees.md", "behind/ledger.md"}
    assert sum(pages.values()) <= MOST_WORDS, pages


def unlisted(listing: str) -> list[str]:
    """Pages of docs/ that the site leaves out and that its list of them does not name."""
    shown = set(published())
    pages = (page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in shown and "html" not in page.parts)
    names = [page.relative_to(ROOT / "docs").as_posix() for page in pages]
    return [name for name in names if f"]({name})" not in listing]


def test_what_the_site_leaves_out_is_listed_there() -> None:
    listing = (ROOT / "docs" / "source.md").read_text("utf-8")
    assert unlisted(listing) == []
    assert unlisted(listing.replace("(behind/trees.md)", "(trees.md)")) == ["behind/trees.md"]


def weight(page: Path) -> int:
    """Bytes of a page, and of the pictures, styles and scripts that it loads."""
    text = page.read_text("utf-8")
    loaded = re.findall(r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"([^\"#?]+)", text)
    files = {(page.parent / unquote(name)).resolve() for name in loaded if not name.endswith(".html")}
    return page.stat().st_size + sum(file.stat().st_size for file in files if file.is_file())


def test_no_page_is_heavy(site, tmp_path) -> None:
    found = {page.relative_to(site).as_posix(): weight(page) for page in site.rglob("*.html")}
    assert {name: size for name, size in found.items() if size > HEAVIEST} == {}
    assert found["index.html"] > (site / "index.html").stat().st_size + (ROOT / "docs" / "table.svg").stat().st_size
    (tmp_path / "heavy.svg").write_bytes(bytes(HEAVIEST))
    (tmp_path / "planted.html").write_text('<img alt="a" src="heavy.svg" />')
    assert weight(tmp_path / "planted.html") > HEAVIEST


def unsaid(text: str) -> list[str]:
    """Pictures without a text in their place, but for those beside the words of one link."""
    words_beside = re.sub(r"<a [^>]*>\s*<img [^>]*alt=\"\"[^>]*>[^<]*\w[^<]*</a>", "", text)
    return [tag for tag in re.findall(r"<img [^>]*>", words_beside) if not re.search(r'alt="[^"]{20,}"', tag)]


def test_every_picture_says_what_it_shows(site) -> None:
    found = {page.name: unsaid(page.read_text("utf-8")) for page in site.rglob("*.html")}
    assert {name: tags for name, tags in found.items() if tags} == {}
    assert unsaid('<img src="a.svg" alt="" />') == ['<img src="a.svg" alt="" />']
    assert unsaid('<a href="b"><img src="a.svg" alt="" /></a>') != []
    assert unsaid('<a href="b"><img src="a.svg" alt="" /> Words</a>') == []


def lost_in_the_dark(picture: str) -> set[str]:
    """Colours of a picture that stay what they are where a reader prefers a dark page."""
    styles = "".join(re.findall(r"<style>.*?</style>", picture, re.DOTALL))
    if "prefers-color-scheme: dark" not in styles:
        return {"all"}
    shown = re.sub(r"<style>.*?</style>", "", picture, flags=re.DOTALL)
    return {*re.findall(r"(?:fill|stroke): (#\w+)", shown)} - {*re.findall(r": (#\w+)\"]", styles)}


def test_pictures_have_colours_for_a_dark_page() -> None:
    named = {
        page.parent / name for page in published() for name in re.findall(r"\((\w+\.svg)", page.read_text("utf-8"))
    }
    assert len(named) >= 12
    found = {path.name: lost_in_the_dark(path.read_text("utf-8")) for path in named}
    assert {name: colours for name, colours in found.items() if colours} == {}
    belief = (ROOT / "docs" / "belief.svg").read_text("utf-8")
    assert lost_in_the_dark(re.sub("<style>@media.*?</style>", "", belief)) == {"all"}
    assert lost_in_the_dark(belief.replace('style="fill: #ffffff"', 'style="fill: #123456"')) == {"#123456"}


def test_formulas_are_set(site) -> None:
    """By the browser, from MathML."""
    page = (site / "meaning.html").read_text("utf-8")
    assert page.count("<math") > 20
    assert page.count("<mfrac>") >= 3
    assert "$$" not in page
    assert "\\frac" not in page


def test_members_stand_in_the_order_of_need_and_inherited_ones_once(site) -> None:
    page = (site / "reference" / "counts.html").read_text("utf-8")
    ids = re.findall(r'id="(dpfast\.\w+\.\w+)"', page)
    first = [name.rpartition(".")[2] for name in ids if name.startswith("dpfast.DiscreteLaplace.")]
    assert first[:3] == ["release", "interval", "guarantee"]
    assert first.index("worst_change") > first.index("scale")
    assert "dpfast.Laplace.release" not in ids
    assert 'href="#dpfast.DiscreteLaplace.release"' in page
    assert [name for name in ids if name.endswith(".release")] == [
        "dpfast.DiscreteLaplace.release", "dpfast.RandomizedResponse.release", "dpfast.OneSidedGeometric.release"
    ]  # fmt: skip
    contents = page.partition('<div class="toc-tree">')[2].partition("</aside>")[0]
    assert ">release()</span>" in contents
    assert "DiscreteLaplace.release" not in re.sub(r'href="[^"]*"', "", contents)


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
    ("tutorial.md", "(questions.md)", "(no_such_page.md)", "no_such_page"),
    ("how_to.md", "(sealed.md)", "(sealed.md#no-such-heading)", "no-such-heading"),
    ("explanation.md", "(../csrc/stream.md)", "(../csrc/no_such_proof.md)", "no_such_proof"),
    ("sealed.md", "(behind/sealed.md)", "(behind/no_such_reason.md)", "no_such_reason"),
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
