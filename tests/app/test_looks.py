# SPDX-License-Identifier: Apache-2.0
"""Pages as Chromium shows them: they fit every width, and every text can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from browser import SCHEMES, WIDTHS, browser, chromium, looks, prints
from table_files import store

from dpfast.app.cli import main

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium")
LAW = ["--epsilon", "1", "--sensitivity", "1", "--quiet"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Reports of everyday tables, and of those that try to break a page."""
    folder = tmp_path_factory.mktemp("reports")
    ledger = folder / "budget.db"
    assert main(["ledger", "create", str(ledger), "--epsilon", "3", "--delta", "1e-5"]) == 0

    def made(name: str, table: pa.Table, *options: str) -> Path:
        store(table, folder / f"{name}.parquet")
        said = ["privatize", str(folder / f"{name}.parquet"), str(folder / f"{name}_out.parquet"), *options]
        assert main([*said, "--report", str(folder / f"{name}.html")]) == 0
        return folder / f"{name}.html"

    cities = ["Lima", "Oslo", "Pune", "Quito", "Rome", "Seoul", "Tunis", "Ufa"]
    everyday = pa.table({"city": cities, "visits": range(0, 400, 50)})
    weeks = [f"{year}-W{week:02}" for year in (2024, 2025) for week in range(1, 53)]
    weekly = pa.table({"week": weeks, "n": [40_000 if at == 50 else 3 * at for at in range(len(weeks))]})
    squeezed = pa.table({"city": [f"{at}, a city" for at in range(45)], "n": [29_000, *range(44)]})
    long = pa.table(
        {"place": [f"a place with a long name, number {at:,}" for at in range(3000)], "n": np.arange(3000) * 977}
    )
    hostile = {"x" * 3000: ["y" * 5000, "<b>" * 90], **{f"column {at}": [2**62, -(2**62)] for at in range(7)}}
    reals = pa.table({"name": cities, "other": cities, "v": np.linspace(-1e9, 3.5, 8), "w": np.linspace(0, 1e-6, 8)})
    gaussian = ["--mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--l0", "1", "--linf", "1", "--quiet"]
    many = [option for at in range(7) for option in ("--column", f"column {at}")]
    return [
        made("everyday", everyday, "--column", "visits", "--lower", "0", "--ledger", str(ledger), *LAW),
        made("long", long, "--column", "n", *LAW),
        made("weekly", weekly, "--column", "n", *LAW),
        made("squeezed", squeezed, "--column", "n", "--unit", "plane", *LAW),
        made("hostile", pa.table(hostile), *many, "--epsilon-is", "total", *LAW),
        made("reals", reals, "--column", "v", "--column", "w", "--epsilon-is", "total", *gaussian),
    ]


def test_reports_look_right_at_every_width_and_in_both_schemes(reports) -> None:
    assert looks(reports) == []


def test_what_a_report_folds_away_looks_right_too(reports) -> None:
    folded = [page for page in reports if page.stem in {"long", "hostile", "weekly"}]
    pages = [page.with_name(f"{page.stem} open.html") for page in folded]
    for page, whole in zip(pages, folded, strict=True):
        page.write_text(whole.read_text("utf-8").replace("<details", "<details open"), "utf-8")
    assert looks(pages, schemes=["light"]) == []


def test_reports_print_whole(reports) -> None:
    """On white paper, with all rows and nothing cut, though the reader likes the dark."""
    assert prints(reports) == []


def test_a_report_that_prints_badly_is_seen(reports) -> None:
    """Its own rules for paper, left out one by one."""
    whole = {page.stem: page.read_text("utf-8") for page in reports}
    spoilt = {
        "closed": ("long", "details::details-content", "details::nothing"),
        "dark": ("everyday", "@media screen and (prefers", "@media (prefers"),
        "scroll": ("hostile", "white-space: normal; max-width: none", "white-space: nowrap; max-width: none"),
        "cut": ("hostile", ".scroll { overflow: visible; }", ".scroll th { white-space: nowrap !important; }"),
    }
    pages = []
    for kind, (name, rule, instead) in spoilt.items():
        assert rule in whole[name]
        text = whole[name].replace(rule, instead)
        pages.append(reports[0].with_name(f"{kind}.html"))
        pages[-1].write_text(text.replace("default-src", "x-src").replace("style-src", "y-src"), "utf-8")
    found = {(each.page, each.kind) for each in prints(pages)}
    assert {(f"{kind}.html", kind) for kind in spoilt} <= found


def test_a_report_is_light_or_dark_as_the_reader_likes(reports) -> None:
    with browser() as tab:
        grounds = []
        for scheme in SCHEMES:
            tab.show(reports[0], WIDTHS[0], scheme)
            grounds.append(tab.run("() => getComputedStyle(document.body).backgroundColor"))
        tab.show(reports[0], WIDTHS[0], "dark", media="print")
        grounds.append(tab.run("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] == grounds[2] != grounds[1], "paper is white"


def test_a_report_keeps_its_policy(reports) -> None:
    """A script that is put into it does not run."""
    text = reports[0].read_text("utf-8")
    spoilt = reports[0].with_name("spoilt.html")
    spoilt.write_text(text.replace("</main>", "<script>document.title = 'ran'</script></main>"), "utf-8")
    with browser() as tab:
        tab.show(spoilt, WIDTHS[0], "light")
        assert tab.run("() => document.title") != "ran"
        spoilt.write_text(
            spoilt.read_text("utf-8").replace("default-src", "x-src").replace("style-src", "y-src"), "utf-8"
        )
        tab.show(spoilt, WIDTHS[0], "light")
        assert tab.run("() => document.title") == "ran"


# ------------------------------------------------------------------ planted faults

BODY = (
    "<!DOCTYPE html><html lang=en><title>x</title><meta name=color-scheme content='light dark'><body>{}</body></html>"
)
PLANTED = {
    "a wide element": ("<div style='width:700px'>x</div>", {("scroll", 360)}),
    "a long word": (f"<p>{'x' * 120}</p>", {("scroll", 360), ("scroll", 768)}),
    "a grey text": ("<p style='color:#888;background:#fff'>x</p>", {("contrast", width) for width in WIDTHS}),
    "a faded text": ("<p style='opacity:.5;color:#444;background:#fff'>x</p>", {("contrast", width) for width in WIDTHS}),
    "a text on a coloured ground": ("<div style='background:#1a66a8'><p style='color:#222'>x</p></div>", {("contrast", w) for w in WIDTHS}),
    "a text on a shape": (
        "<svg width=100 height=40><rect width=100 height=40 fill=#777 /><text x=5 y=25 fill=#999>x</text></svg>",
        {("contrast", w) for w in WIDTHS},
    ),
    "a part that no key reaches": ("<div style='overflow-x:auto'><div style='width:700px'>x</div></div>", {("keys", 360)}),
    "a column that breaks words": (
        "<table><tr><td style='display:block;width:30px;overflow-wrap:anywhere'>MISSED</td></tr></table>",
        {("broken", w) for w in WIDTHS},
    ),
    "nothing": (
        "<p>x</p><div style='overflow-x:auto' tabindex=0><div style='width:3000px'>x</div></div><p style='display:none;color:#fff'>x</p>",
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_fault_is_seen(tmp_path, name) -> None:
    body, wanted = PLANTED[name]
    page = tmp_path / "page.html"
    page.write_text(BODY.format(body))
    assert {(each.kind, each.width) for each in looks([page], schemes=["light"])} == wanted


def test_a_text_that_is_right_in_one_scheme_alone_is_seen(tmp_path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        BODY.format("<p style='color:#444'>x</p>").replace(
            "<body>", "<style>:root{color-scheme:light dark}</style><body>"
        )
    )
    assert {(each.kind, each.scheme) for each in looks([page])} == {("contrast", "dark")}
