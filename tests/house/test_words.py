# SPDX-License-Identifier: Apache-2.0
"""The words of the house: the field's standard terms, and prose of at most 100 characters a line.

A house word is one that only this project gives its meaning. `TERMS` names the standard term for
each. The test finds house words in pages, docstrings, comments and identifiers, and long lines of
prose.
"""

from __future__ import annotations

import ast
import keyword
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from places import ROOT

WIDTH = 100

PAGES = ("README.md", "SECURITY.md", "docs")  # what users read; csrc and CONTRIBUTING call an implementing unit a law
DRAWS = (
    "csrc",
    "dpfast/privacy/exact",
    "dpfast/noise/kernels",
    "dpfast/noise/mechanisms",
    "dpfast/noise/release",
    "docs",
    "tests",
)
SELECTION = (
    "dpfast/privacy/exact",
    "dpfast/noise/kernels",
    "dpfast/noise/mechanisms",
    "docs/choosing.md",
    "tests/noise/test_selection.py",
)
SCEPTICS = (
    "dpfast/evidence/audit",
    "dpfast/evidence/selftest",
    "tests/evidence/test_audit.py",
    "tests/evidence/test_selftest.py",
)
LEDGER = ("dpfast/app/cli/ledger.py", "dpfast/ledger", "docs/ledger.md", "tests/ledger")


class Term(NamedTuple):
    """A house word, its standard term, and where the word may not stand.

    forms: a regular expression of its forms; by default the word and its plural. places: "prose",
    "names" or both. rooms: files and folders where it is a house word; by default all.
    """

    house: str
    standard: str
    forms: str = ""
    places: tuple[str, ...] = ("prose", "names")
    rooms: tuple[str, ...] = ("",)

    def pattern(self, place: str) -> re.Pattern[str]:
        """Finds a form as a whole word, over line ends; in names between _ and capitals too."""
        forms = (self.forms or f"{self.house}s?").replace(" ", r"\s+")
        if place == "names":
            return re.compile(rf"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:{forms})(?![a-z])")
        return re.compile(rf"(?<![\w-])(?:{forms})(?!\w)", re.IGNORECASE)


PROSE, NAMES = ("prose",), ("names",)
TERMS = (
    Term("twofold", "double-double"),
    Term("careful", "constant-work path", r"careful(?:ly)?"),
    Term("left open", "undecided", r"(?:left|leaves?|leaving|still|are|is|be|stays?) open|open (?:draws?|cells?)", PROSE, DRAWS),
    Term("left_open", "undecided", "left_open", NAMES),
    Term("settle", "decide", r"settle[sd]?", NAMES, DRAWS),
    Term("lot", "batch", "", NAMES, DRAWS),
    Term("soon", "prefetch", "soon", NAMES, DRAWS),
    Term("surely", "accept_below", "surely", NAMES, DRAWS),
    Term("race", "Gumbel-max selection", r"races?|raced|racing", rooms=SELECTION),
    Term("runner", "candidate", rooms=SELECTION),
    Term("handicap", "score", rooms=SELECTION),
    Term("law", "distribution", "", PROSE, PAGES),
    Term("promise", "budget", r"promises?", rooms=LEDGER),
    Term("currency", "accounting unit", r"currenc(?:y|ies)"),
    Term("bin", "partition", "", rooms=("dpfast/counts/records", "docs/records.md")),
    Term("plug", "adapter", r"plugs?|plugged|plugging"),
    Term("aimed", "calibrated_for", "aimed", NAMES),
    Term("Target", "calibrated_for", "targets?", NAMES, ("dpfast/noise/mechanisms",)),
    Term("presence", "add_remove", "presence", NAMES),
    Term("whom", "adjacency and unit", "whom", NAMES),
    Term("once", "lockfree_property", "once", NAMES, ("dpfast",)),
    Term("published", "atomic_write", "published", NAMES, ("dpfast",)),
    Term("judge", "goodness-of-fit test", r"judges?|judged", rooms=SCEPTICS),
    Term("suspicion", "rejection", rooms=SCEPTICS),
    Term("told", "verdict", "told", NAMES, SCEPTICS),
    Term("trial", "run", rooms=SCEPTICS),
    Term("breaks", "planted defects", "breaks", NAMES, SCEPTICS),
    # Idiom that a reader from another country must decode.
    Term("the way out", "fixed_point_sum avoids this", "the way out", PROSE),
    Term("as far as it holds them", "name the condition with if", "as far as (?:it|they|he|she) holds?", PROSE),
    Term("of which the", "begin a new sentence", "of which (?:the|a|an|it|no|nobody)", PROSE),
    Term("and rightly", "say why", "and rightly", PROSE),
    Term("lest", "so that ... not", "lest", PROSE),
    Term("should the", "if the", r"(?:(?<=[.:;,])\s|^\s*)should (?:the|a|an|it|they|somebody|one)", PROSE),
    Term("nobody has noised", "it has no noise", r"(?:has|have) noised", PROSE),
)  # fmt: skip

# Where a house word stays, and why.
EXCEPTIONS = {
    ("dpfast/noise/kernels/added.py", "once"): "a function of numba is called alloca_once_value",
    ("docs/design.md", "law"): "the page of developers calls an implementing unit so, as csrc does",
}
UNWRAPPED = {"csrc/known.h", "csrc/wide_half.h", "csrc/wide_log.h", "csrc/wide_sine.h"}  # generated


# ------------------------------------------------------------------ what is prose, what is a name


class Text(NamedTuple):
    """A file of the same shape twice, prose alone and names alone; and the lines that must wrap."""

    prose: str
    names: str
    lines: list[tuple[int, str]]


def _blank(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))


def _masked(text: str, kept: list[tuple[int, int]]) -> str:
    """The text with spaces outside the spans."""
    out, at, blank = [], 0, _blank(text)
    for start, end in sorted(kept):
        out += [blank[at:start], text[start:end]]
        at = max(at, end)
    return "".join([*out, blank[at:]])


def _page(text: str) -> Text:
    """Markdown without code, targets of links, and what a program wrote between its marks."""

    def dropped(found: re.Match[str]) -> str:
        return _blank(found.group())

    prose = re.sub(r"<!-- ([\w: ]+):start -->.*?<!-- \1:end -->", dropped, text, flags=re.DOTALL)
    prose = re.sub(r"^```.*?^```$|<!--.*?-->", dropped, prose, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(
        r"^(?<!\S)    (?! ).*$",
        lambda m: m.group() if _in_list(text, m.start()) else dropped(m),
        prose,
        flags=re.MULTILINE,
    )
    lines = [(n, line) for n, line in enumerate(prose.split("\n"), 1) if not line.startswith("|")]
    prose = re.sub(r"`[^`]*`", dropped, prose)
    prose = re.sub(r"(?<=\])\([^)]*\)", dropped, prose)
    return Text(prose, _blank(text), [(n, re.sub(r"(?<=\])\(\S*\)", "", line)) for n, line in lines])


def _in_list(text: str, at: int) -> bool:
    """Whether the paragraph of an indented line began with a mark of a list."""
    return bool(re.match(r"\s*(?:[-*+]|\d+\.) ", text[:at].rpartition("\n\n")[2]))


# A comment, a string or a name of Python, whichever begins first.
TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    | (?<!\w)(?i:[rbfu]{0,2})(?: \"{3}(?:[^\\]|\\.)*?\"{3} | \'{3}(?:[^\\]|\\.)*?\'{3}
        | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?<!\w)(?P<name>[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """A module and its statements, within others too."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, block, ())
    yield from nodes


def _python(text: str) -> Text:
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body[0] for node in _statements(ast.parse(text)) if isinstance(node, documented) and node.body]
    constants = [b.value for b in bodies if isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant)]
    docs = [constant for constant in constants if isinstance(constant.value, str)]
    lines, split = {}, text.split("\n")
    prose, names = [], []
    for doc in docs:
        end = starts[doc.end_lineno - 1] + len(split[doc.end_lineno - 1])
        prose.append((starts[doc.lineno - 1] + doc.col_offset, end))
        lines.update(_documented(split, doc))
    for token in TOKEN.finditer(text):
        if token.lastgroup == "comment":
            prose.append(token.span())
            n = bisect_right(starts, token.start())
            if not text[starts[n - 1] : token.start()].strip():
                lines[n] = split[n - 1]
        elif token.lastgroup == "name" and not keyword.iskeyword(token.group()):
            names.append(token.span())
    wrapped = [(n, line) for n, line in sorted(lines.items()) if not line.strip().startswith("|")]
    return Text(_masked(text, prose).replace("#", " "), _masked(text, names), wrapped)


def _documented(split: list[str], doc: ast.Constant) -> Iterator[tuple[int, str]]:
    """The lines of a docstring but examples: indented blocks after an empty line."""
    example = False
    for n in range(doc.lineno, doc.end_lineno + 1):
        line, before = split[n - 1], split[n - 2] if n > doc.lineno else '"""'
        indented = line.startswith(" " * (doc.col_offset + 4))
        example = bool(line.strip()) and indented and (example or not before.strip())
        if not example:
            yield n, line


def _c(text: str) -> Text:
    comment = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
    prose = _masked(text, [m.span() for m in comment.finditer(text)])
    names = comment.sub(lambda m: _blank(m.group()), text)
    names = re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda m: _blank(m.group()), names)
    lines = enumerate(zip(prose.split("\n"), text.split("\n"), strict=True), 1)
    whole = [(n, t) for n, (p, t) in lines if t.strip() and p.strip() == t.strip()]
    return Text(re.sub(r"//|[/*]\*|\*/", "  ", prose), names, whole)


def _script(text: str) -> Text:
    """A shell script, or TOML: whole lines of comment."""
    comments = [m.span() for m in re.finditer(r"^[ \t]*#[^\n]*", text, re.MULTILINE)]
    prose = _masked(text, comments)
    return Text(prose.replace("#", " "), _blank(text), [(n, line) for n, line in enumerate(prose.split("\n"), 1)])


@lru_cache(maxsize=1)
def _read(path: str, text: str) -> Text:
    if path.endswith(".md"):
        return _page(text)
    if path.endswith((".py", ".pyi")):
        return _python(text)
    return _c(text) if path.endswith((".c", ".h")) else _script(text)


# ------------------------------------------------------------------ what is found


def _within(path: str, rooms: tuple[str, ...]) -> bool:
    return any(not room or path == room or path.startswith(f"{room}/") for room in rooms)


@cache
def _any_of(terms: tuple[Term, ...], place: str) -> re.Pattern[str]:
    """Finds a form of any of these terms that may not stand in this place."""
    patterns = [term.pattern(place) for term in terms if place in term.places]
    return re.compile("|".join(f"(?{'i' * bool(each.flags & re.IGNORECASE)}:{each.pattern})" for each in patterns))


def words(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The house words of a file: which, and what a message says of it."""
    read, terms = _read(path, text), tuple(term for term in TERMS if _within(path, term.rooms))
    # Most terms are nowhere in a file, so all are first looked for at once, without what is masked.
    squeezed = {"prose": " ".join(read.prose.split()), "names": " ".join(sorted(set(read.names.split())))}
    there = {place for place, of in squeezed.items() if _any_of(terms, place).search(of)}
    for term in terms:
        for place in there.intersection(term.places):
            of, pattern = getattr(read, place), term.pattern(place)
            for found in pattern.finditer(of) if pattern.search(squeezed[place]) else ():
                line = of.count("\n", 0, found.end()) + 1
                yield term.house, f"{path}:{line}: {' '.join(found.group().split())!r} is a house word: {term.standard}"


def fragments(path: str, text: str) -> Iterator[str]:
    """Docstrings and comments that begin with "of": they have no subject."""
    lines = text.split("\n") if path.endswith((".py", ".pyi", ".c", ".h")) else []
    for n, line in enumerate(lines, 1):
        if ("of" in line or "Of" in line) and re.search(r'(?:^\s*r?"""Of|(?:#|//|/\*)\s+[Oo]f)\s', line):
            if n > 1 and all(re.match(r"\s*(?:#|//)", each) for each in lines[n - 2 : n]):
                continue  # the comment goes on
            yield f"{path}:{n}: a phrase with 'of' has no subject: name the thing"


def long_lines(path: str, text: str) -> Iterator[str]:
    if path not in UNWRAPPED:
        for n, line in _read(path, text).lines:
            if len(line.rstrip()) > WIDTH:
                yield f"{path}:{n}: prose of {len(line.rstrip())} characters, at most {WIDTH}"


def marks_left(path: str, text: str) -> Iterator[str]:
    """The marks that a writer puts in prose where it is to be finished."""
    for found in re.finditer(r"XX|(?<!\w)(?:TODO|FIXME|TBD|TKTK)(?!\w)", read := _read(path, text).prose):
        yield f"{path}:{read.count(chr(10), 0, found.start()) + 1}: {found.group()} was left"


def findings(path: str, text: str) -> list[str]:
    excused = {word for place, word in EXCEPTIONS if _within(path, (place,))}
    found = [said for house, said in words(path, text) if house not in excused]
    return [*found, *fragments(path, text), *long_lines(path, text), *marks_left(path, text)]


@cache
def files() -> dict[str, list[str]]:
    """The files that are read, by their folder."""
    found: dict[str, list[str]] = {}
    for folder in ("", "docs", "csrc", "dpfast", "benchmarks", "examples", "tests", ".ci"):
        for path in sorted((ROOT / folder).glob("**/*" if folder else "*")):
            name = path.relative_to(ROOT).as_posix()
            read = path.suffix in {".md", ".py", ".pyi", ".c", ".h", ".toml", ".sh"} or folder == ".ci"
            if read and path.is_file() and path.name != "_dpf.c" and "__pycache__" not in name:
                found.setdefault(name.rpartition("/")[0] or ".", []).append(name)
    return found


@pytest.mark.parametrize("folder", sorted(files()))
def test_the_words_are_standard_and_prose_wraps(folder) -> None:
    assert [said for path in files()[folder] for said in findings(path, (ROOT / path).read_text("utf-8"))] == []


@pytest.mark.parametrize(("place", "house"), list(EXCEPTIONS))
def test_an_exception_is_needed(place, house) -> None:
    within = [path for paths in files().values() for path in paths if _within(path, (place,))]
    assert any(word == house for path in within for word, _ in words(path, (ROOT / path).read_text("utf-8")))


# ------------------------------------------------------------------ planted violations

PLANTED = {
    "page.md": "# A page\n\nA sentence with {} in it.\n",
    "module.py": '"""A module.\n\nA sentence with {} in it.\n"""\n',
    "comment.py": "x = 1  # a comment with {} in it\n",
    "header.h": "int x;\n/* A comment with\n   {} in it. */\n",
    "script.sh": "# A comment with {} in it.\ntrue\n",
    "name.py": "def with_{}_in_it(): ...\n",
    "name.c": "int with_{}_in_it;\n",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_house_word_is_found(name) -> None:
    """Each term in each kind of text where it may not stand."""
    where = "names" if name.startswith("name") else "prose"
    for term in (term for term in TERMS if where in term.places):
        is_found(term, name)


def is_found(term: Term, name: str) -> None:
    room = next((room for room in term.rooms if not Path(room).suffix), term.rooms[0])
    path = f"{room or 'planted'}/{name}"
    phrases = {"should the": "it. Should the power fail, then", "and rightly": "it, and rightly so,"}
    said = phrases.get(term.house, term.house)
    assert term.house in {house for house, _ in words(path, PLANTED[name].format(said))}
    assert term.house not in {house for house, _ in words(path, PLANTED[name].format("nothing"))}


def test_a_house_word_is_found_over_the_end_of_a_line_and_between_capitals() -> None:
    ((_, said),) = words("docs/x.md", "A draw is left\nopen.\n")
    assert said == "docs/x.md:2: 'left open' is a house word: undecided"
    assert {house for house, _ in words("dpfast/x.py", "class ThePlugIn: ...\n")} == {"plug"}
    assert not list(words("dpfast/x.py", "unpluggable = 1\n"))


FOUND = {
    words: [
        ("docs/x.md", "`plug` and [an adapter](plug.md)\n", 0),
        ("docs/x.md", "```\nplug\n```\n", 0),
        ("docs/x.md", "<!-- plug:numpy:start -->\nplug\n<!-- plug:numpy:end -->\n", 0),
        ("dpfast/x.py", 'x = "plug"\n', 0),
        ("csrc/x.c", 'const char *x = "plug";\n', 0),
        ("docs/x.md", "A company promises.\n", 0),  # house words of other rooms
        ("dpfast/x.py", "race = 1\n", 0),
    ],
    long_lines: [
        ("docs/x.md", "a " * 51 + "\n", 1),
        ("docs/x.md", "| " + "a " * 51 + "|\n", 0),
        ("docs/x.md", "```\n" + "a " * 51 + "\n```\n", 0),
        ("docs/x.md", "\n    " + "a " * 51 + "\n", 0),
        ("docs/x.md", "- a\n    " + "a " * 51 + "\n", 1),
        ("docs/x.md", "[a](" + "a" * 100 + ")\n", 0),
        ("x.py", '"""' + "a " * 51 + '"""\n', 1),
        ("x.py", 'def f():\n    """A.\n\n    ' + "a " * 51 + '\n    """\n', 1),
        ("x.py", 'def f():\n    """A.\n\n        ' + "a " * 51 + '\n    """\n', 0),  # an example
        ("x.py", 'def f():\n    """A.\n\n    a: b\n        ' + "a " * 51 + '\n    """\n', 1),
        ("x.py", "# " + "a " * 51 + "\n", 1),
        ("x.py", "x = 1  # " + "a " * 51 + "\n", 0),  # a line of code, of at most 120
        ("x.c", "// " + "a " * 51 + "\n", 1),
        ("x.c", "/* a\n   " + "a " * 51 + "*/\n", 1),
        ("x.c", "int x; // " + "a " * 51 + "\n", 0),
        ("x.sh", "# " + "a " * 51 + "\n", 1),
        ("csrc/known.h", "// " + "a " * 51 + "\n", 0),
    ],
    marks_left: [
        ("csrc/x.md", "The numbers to come XX" + "and none before.\n", 1),
        ("docs/x.md", "A TO" + "DO, and `a_TODO` in code.\n", 1),
        ("x.py", '"""A TB' + 'D."""\n', 1),
        ("x.c", "int XX = 1; // X\n", 0),
    ],
    fragments: [
        ("x.py", '"""Of the noise, before clamping."""\n', 1),
        ("x.py", "x = 1  #" + " of the noise\n", 1),
        ("x.c", "int x; //" + " of the noise\n", 1),
        ("x.py", '"""The noise of a release."""\n', 0),
        ("x.py", "x = 1  # a part of it\n", 0),
    ],
}


@pytest.mark.parametrize(("rule", "path", "text", "n"), [(rule, *row) for rule, rows in FOUND.items() for row in rows])
def test_so_many_faults_of_a_text_are_found(rule, path, text, n) -> None:
    assert len(list(rule(path, text))) == n
