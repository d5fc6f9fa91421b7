# SPDX-License-Identifier: Apache-2.0
"""Sentences are short: 95 % of them have at most 25 words, and none begins with "Of".

A text is a paragraph, a heading, an item of a list or a cell of a table. It is cut into sentences
at each ".", "!" or "?" before a space, but not after an abbreviation (`ABBREVIATIONS`). A colon and
a semicolon end no sentence. A word is what stands between spaces and has a letter or a digit.
Inline code is one word; the target of a link is none. Blocks of code, examples, and what a program
wrote between its marks are no sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from places import ROOT

LONGEST = 25  # words
SHARE = 0.05  # so many sentences of a place may be longer, at most

ABBREVIATIONS = {"al", "cf", "e.g", "etc", "i.e", "no", "p", "pp", "vs", "Alg", "Eq", "Fig", "Prop", "Sec", "Thm"}
MARK = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")


def sentences(text: str) -> Iterator[str]:
    """The sentences of one text, which is a paragraph of words alone."""
    begin = 0
    for end in re.finditer(r"[.!?][\"')*_\]”]*(?=\s|$)", text):
        [word] = re.findall(r"[\w.]*$", text[: end.start()])[:1]
        if word not in ABBREVIATIONS:
            yield " ".join(text[begin : end.end()].split())
            begin = end.end()
    yield " ".join(text[begin:].split())


def length(sentence: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def page(text: str) -> Iterator[str]:
    """The sentences of a page in Markdown."""
    text = re.sub(r"<!-- ([\w: ]+):start -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```$|^\$\$.*?\$\$$|<!--.*?-->", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!?\[((?:[^][]|\[[^]]*\])*)\]\([^)]*\)", r"\1", text)
    yield from _texts(text)


def docstring(text: str) -> Iterator[str]:
    """The sentences of a docstring, without its examples."""
    first, _, rest = text.partition("\n")
    indents = [len(line) - len(line.lstrip()) for line in rest.split("\n") if line.strip()]
    rest = "\n".join(line[min(indents, default=0) :] for line in rest.split("\n"))
    text = re.sub(r"^>>>.*?(?:\n\s*\n|\Z)", "\n\n", f"{first}\n{rest}", flags=re.DOTALL | re.MULTILINE)
    yield from _texts(text)


def _texts(text: str) -> Iterator[str]:
    """Sentences of paragraphs, items and cells; a paragraph of lines all indented by 4 is code."""
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", text, flags=re.DOTALL)
    item = False
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.split("\n") if line.strip()]
        if lines and not item and all(line.startswith("    ") for line in lines):
            continue
        passages = [""]
        for line in lines:
            if line.lstrip().startswith("|"):
                passages += re.split(r"(?<!\\)\|", line)
            elif line.startswith("#"):
                passages += [line.lstrip("# "), ""]
            elif MARK.match(line):
                passages.append(MARK.sub("", line, count=1))
            else:
                passages[-1] += f" {line}"
            item = bool(MARK.match(line)) or (item and line.startswith(" "))
        yield from (sentence for passage in passages for sentence in sentences(passage) if length(sentence))


def docstrings(text: str) -> Iterator[str]:
    """The sentences of all docstrings of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from docstring(ast.get_docstring(node, clean=False) or "")


def helps(command, context) -> Iterator[str]:
    """The sentences of the --help of a command and its subcommands, without the examples below."""
    for text in (command.help, command.short_help, *(getattr(option, "help", "") for option in command.params)):
        for paragraph in re.split(r"\n\s*\n", text or ""):
            if "\b" not in paragraph:
                yield from sentences(" ".join(paragraph.split()))
    for name in getattr(command, "list_commands", lambda _: ())(context):
        yield from helps(command.get_command(context, name), context)


@cache
def place(name: str) -> list[str]:
    if name == "--help":
        click = pytest.importorskip("click")
        from dpfast.app.cli import commands

        found = [*helps(commands, click.Context(commands))]
    elif name == "docstrings":
        found = [s for path in sorted((ROOT / "dpfast").rglob("*.py")) for s in docstrings(path.read_text("utf-8"))]
    else:
        paths = sorted((ROOT / name).rglob("*.md")) if (ROOT / name).is_dir() else [ROOT / name]
        found = [s for path in paths for s in page(path.read_text("utf-8"))]
    return [sentence for sentence in found if length(sentence)]


PLACES = {"README.md": 30, "SECURITY.md": 5, "docs": 1000, "docstrings": 500, "--help": 50}  # at least so many


def long_ones(found: list[str]) -> list[str]:
    return [f"{length(s)} words: {s}" for s in found if length(s) > LONGEST]


def inverted(found: list[str]) -> list[str]:
    return [s for s in found if re.match(r"\W*Of\s", s)]


@pytest.mark.parametrize("name", PLACES)
def test_sentences_are_short(name) -> None:
    """95 of 100 have at most 25 words; the message shows all that are longer."""
    found = place(name)
    assert len(found) >= PLACES[name]
    assert len(long_ones(found)) <= SHARE * len(found), "\n".join(long_ones(found))


@pytest.mark.parametrize("name", PLACES)
def test_no_sentence_begins_with_of(name) -> None:
    """The subject comes first: "Of metadata only types are kept" is "Only types are kept"."""
    assert inverted(place(name)) == []


# ------------------------------------------------------------------ planted sentences

WORD = "word "
LONG, SHORT = 25 * WORD + "end.", 24 * WORD + "end."  # 26 and 25 words

TEXTS = {
    "a paragraph": (page, "{}\n"),
    "two lines": (page, "Before it.\n{}\nAfter it.\n"),
    "under a heading": (page, "## A heading\n{}\n"),
    "an item": (page, "Items:\n- One.\n- {}\n  It goes on.\n"),
    "a cell": (page, "| a | b |\n| --- | --- |\n| one | {} |\n"),
    "a link": (page, "[{}](target.md)\n"),
    "a docstring": (docstrings, '"""A module.\n\n{}\n"""\n'),
    "an argument": (docstrings, 'def f(x):\n    """F.\n\n    x: {}\n    """\n'),
    "beside an example": (docstrings, 'class A:\n    """A.\n\n    >>> f()\n    1\n\n    {}\n    """\n'),
}


@pytest.mark.parametrize(("read", "text"), TEXTS.values(), ids=TEXTS)
def test_a_planted_long_sentence_is_found(read, text) -> None:
    """26 words are found, and 25 are not; the name of an argument counts as one."""
    assert len(long_ones([*read(text.format(LONG))])) == 1
    assert long_ones([*read(text.format(SHORT.removeprefix(WORD) if "x: " in text else SHORT))]) == []


@pytest.mark.parametrize(
    "text", ["Of it we know.", "It is so. Of it we know.", "**Of it** we know.", "- Of it.", "> Of it"]
)
def test_a_planted_inversion_is_found(text) -> None:
    assert len(inverted([*page(text)])) == 1
    assert inverted([*page(text.replace("Of", "About"))]) == []
    assert len(inverted([*docstrings(f'"""A.\n\n{text}\n"""')])) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is so. It is not.", ["It is so.", "It is not."]),
        ("It is (or was). A 1.5 is a number.", ["It is (or was).", "A 1.5 is a number."]),
        ("See [BW18, Prop. 3], e.g. here, i.e. there.", ["See [BW18, Prop. 3], e.g. here, i.e. there."]),
        ("Who says so? Nobody! And *you?* No", ["Who says so?", "Nobody!", "And *you?*", "No"]),
    ],
)
def test_a_text_is_cut_into_sentences(text, found) -> None:
    assert [sentence for sentence in sentences(text) if sentence] == found


@pytest.mark.parametrize(
    "text",
    [
        "```\n{}\n```\n",
        "<!-- bench:x:start -->\n{}\n<!-- bench:x:end -->\n",
        "A line:\n\n    {}\n",
        "`{}`\n",
        "[link](<{}>)\n",
    ],
)
def test_code_and_what_a_program_wrote_are_no_sentences(text) -> None:
    assert long_ones([*page(text.format(LONG))]) == []


def test_a_planted_help_is_found() -> None:
    click = pytest.importorskip("click")
    options = [click.Option(["--it"], help=LONG), click.Option(["--other"], help="Of the other.")]
    group = click.Group("all", commands={"one": click.Command("one", params=options)}, help="All.")
    found = [*helps(group, click.Context(group))]
    assert (len(long_ones(found)), inverted(found)) == (1, ["Of the other."])
