# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension: docstrings read as Markdown, and links of the repository within the site.

`{api} dpfast.NAME` shows an object with its docstring. The docstrings of dpfast are Markdown with
sections such as "Raises:", and Sphinx's own autodoc reads reStructuredText.

Pages of docs/ link files beside docs/, as a reader of the repository needs it. The site has a page
for each of these that is text: `proofs/` for csrc/, `project/` for others.
"""

from __future__ import annotations

import importlib
import inspect
import os.path
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from pygments.lexers.shell import BashLexer
from pygments.token import Name
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ENTRY = re.compile(r"^( {0,4})((?:[a-z_0-9]+(?:, )?)+|[A-Z][a-z]+): (.*)$")
SECTION = re.compile(r"^(Args|Arguments|Attributes):\s*$")


def markdown(text: str) -> list[str]:
    """The lines of a docstring as Markdown: entries become a list, examples become code."""
    found: list[str] = []
    lines = text.expandtabs().splitlines()
    at, listed = 0, False
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith(">>> "):
            block = []
            while at < len(lines) and lines[at].strip():
                block.append(lines[at].strip() if lines[at].lstrip().startswith((">>>", "...")) else lines[at].lstrip())
                at += 1
            found += ["", "```pycon", *block, "```", ""]
            listed = False
            continue
        entry = ENTRY.match(line)
        if SECTION.match(line):
            found += ["", f"**{line.strip()}**", ""]
        elif entry:
            found += ([] if listed else [""]) + [f"- **{entry[2]}**: {entry[3]}"]
            listed = True
        elif listed and line.startswith("  "):
            found.append("  " + line.strip())
        else:
            listed = False
            found.append(line.strip() if line.startswith("    ") and found and found[-1] else line)
        at += 1
    return found


def signature(value: Any) -> str:
    """Parameters by name, with their defaults; types are in the text."""
    try:
        known = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in known.parameters.values()
        if each.name not in {"self", "cls"}
    ]
    return str(known.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def members(value: type) -> list[tuple[str, Any, str]]:
    """The public members of a class that say something, in the order of its code."""
    found = []
    for base in value.__mro__[:-1]:
        for name, raw in vars(base).items():
            if name.startswith("_") or any(name == other for other, _, _ in found):
                continue
            text = inspect.getdoc(getattr(value, name, None)) if callable(getattr(raw, "__get__", None)) else None
            doc = getattr(raw, "__doc__", None) or text
            if doc and doc.startswith("Alias for field number"):  # its class says what it holds
                continue
            if base.__module__.startswith("dpfast") and doc and (callable(raw) or hasattr(type(raw), "__get__")):
                found.append((name, raw, inspect.cleandoc(doc)))
    return found


class Api(SphinxDirective):
    """One public object: its signature, its docstring, its public members."""

    required_arguments = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        path = self.arguments[0]
        module, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        if inspect.isclass(value) and issubclass(value, BaseException):
            kind = "exception"
        lines = self.entry(kind, path, signature(value), inspect.getdoc(value) or "", 4)
        if kind == "class":
            for member, raw, doc in members(value):
                inner = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
                what = "method" if callable(inner) else "property"
                said = signature(inner) if callable(inner) else ""
                lines[-1:-1] = self.entry(what, member, said, doc, 3)
        return self.parse_text_to_nodes("\n".join(StringList(lines, source=path)), allow_section_headings=True)

    @staticmethod
    def entry(kind: str, name: str, said: str, doc: str, ticks: int) -> list[str]:
        fence = "`" * (ticks + 1)
        return [f"{fence}{{py:{kind}}} {name}{said}", "", *markdown(doc), "", fence]


def inside(text: str, folder: Path, docs: Path) -> str:
    """The text of a page in that folder, with links to where the site has these files."""

    def found(link: re.Match[str]) -> str:
        path, anchor = Path(os.path.normpath(folder / link[1])), link[2] or ""
        if path == docs.parent / "README.md":
            return "](/index.md)"
        if path.suffix == ".md" and not path.is_relative_to(docs):
            room = "proofs" if path.parent.name == "csrc" else "project"
            name = path.stem if path.parent in {docs.parent, docs.parent / "csrc"} else path.parent.name
            return f"](/{room}/{name}.md{anchor})"
        return f"](/{os.path.relpath(path, docs)}{anchor})"

    return re.sub(r"\]\((?!https?:|/|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)", found, text)


def page_read(app: Sphinx, name: str, content: list[str]) -> None:
    docs = Path(app.srcdir)
    content[0] = inside(content[0], (docs / name).parent, docs)


def include_read(app: Sphinx, path: Path, _: str, content: list[str]) -> None:
    docs = Path(app.srcdir)
    content[0] = inside(content[0], Path(os.path.normpath(docs / path)).parent, docs)


class Commands(BashLexer):
    """Shell, with options as tokens of their own, so that site.css can keep them whole."""

    tokens: ClassVar[dict[str, Any]] = {
        **BashLexer.tokens,
        "root": [(r"(?<=\s)--?[a-z][a-z0-9-]*", Name.Attribute), *BashLexer.tokens["root"]],
    }


def keys_reach_tables(_app: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """A wide table scrolls, and keys scroll it too."""
    if body := context.get("body"):
        context["body"] = body.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("api", Api)
    app.add_lexer("sh", Commands)
    app.connect("html-page-context", keys_reach_tables)
    app.connect("source-read", page_read)
    app.connect("include-read", include_read)
    return {"parallel_read_safe": True}
