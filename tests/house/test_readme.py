# SPDX-License-Identifier: Apache-2.0
"""The README's first screen: its table, picture and first command are of one run, and it is short.

tests/house/test_examples.py has the ten lines of Python, tests/evidence/test_bench.py the speed.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from places import ROOT

README = (ROOT / "README.md").read_text("utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
HOME = (ROOT / "docs" / "index.md").read_text("utf-8")
PICTURE = (ROOT / "docs" / "table.svg").read_text("utf-8")
HEAD = re.compile(r"<!-- bench:first:start -->\n```text\n(.*?)```\n<!-- bench:first:end -->", re.DOTALL)
LONGEST = 110  # lines


@pytest.fixture
def draw(monkeypatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import draw_table

    yield draw_table
    sys.modules.pop("draw_table", None)


def differences(draw: ModuleType, readme: str, tutorial: str, picture: str) -> Iterator[str]:
    """Where command, rows and picture are of several runs."""
    [about] = re.findall(r"<metadata>(.*?)</metadata>", picture, re.DOTALL)
    command, _, table = html.unescape(about).split("\n", 2)
    if command != f"dpfast {draw.command(readme)}":
        yield "the picture is of another command"
    if picture != draw.drawn(draw.rows(table), html.unescape(about)):
        yield "the picture shows other rows than it names"
    for name, page in (("README", readme), ("tutorial", tutorial)):
        if [head.splitlines() for head in HEAD.findall(page)] != [table.splitlines()[: draw.SHOWN]]:
            yield f"{name} shows other rows"


def test_the_table_its_picture_and_the_command_are_of_one_run(draw) -> None:
    assert [*differences(draw, README, TUTORIAL, PICTURE)] == []
    [row] = [line for line in HEAD.findall(README)[0].splitlines() if line.startswith("9E,EWR,")]
    planted = {
        "the picture is of another command": (README.replace("--epsilon 1 ", "--epsilon 2 "), TUTORIAL, PICTURE),
        "the picture shows other rows than it names": (README, TUTORIAL, PICTURE.replace(row, "9E,EWR,7,0,16")),
        "README shows other rows": (README.replace(row, "9E,EWR,7,0,16"), TUTORIAL, PICTURE),
        "tutorial shows other rows": (README, TUTORIAL.replace(row, "9E,EWR,7,0,16"), PICTURE),
    }
    for fault, texts in planted.items():
        assert fault in [*differences(draw, *texts)]


def test_the_run_is_of_the_machine_of_the_speeds() -> None:
    """One named machine for both pictures."""
    [machine] = re.findall(r"^(.*?); \d{4}-\d\d-\d\d$", PICTURE, re.MULTILINE)
    assert f"Measured on an {machine}, " in README


def test_the_home_of_the_site_has_the_same_command() -> None:
    """Its option for option; only the path of the file and what replaces OUT are left out."""
    [words] = re.findall(r"^```sh\ndpfast (histogram .*?)^```$", HOME, re.MULTILINE | re.DOTALL)
    assert len(words.splitlines()) == 6
    here = words.replace("\\\n", " ").split()
    [there] = re.findall(r"bin/dpfast (histogram .*?) && ", README)
    expected = re.sub(r"\S+/flights", "flights", there).replace(" --force", "").split()
    assert sorted(here) == sorted(expected)


def test_the_first_screen() -> None:
    """A picture of a table before one of speed, how to get it, two commands, in so many lines."""
    assert len(README.splitlines()) <= LONGEST
    first, *_ = README.split("\n## ")
    assert re.findall(r"^!\[[^]]{30,}\]\((\S+)\)$", README, re.MULTILINE) == ["docs/table.svg", "docs/bench.svg"]
    assert "](docs/table.svg)" in first
    assert README.index("`git clone`") < README.index("bin/dpfast histogram")
    commands = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert [command.count("\n") for command in commands] == [1, 1]
    assert commands[1].rstrip().endswith(".venv/bin/pytest -q -n auto")
