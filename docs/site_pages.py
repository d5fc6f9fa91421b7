# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension: docstrings read as Markdown, and links of the repository within the site.

`{api} dpfast.NAME` shows an object with its docstring. The docstrings of dpfast are Markdown with
sections such as "Raises:", and Sphinx's own autodoc reads reStructuredText.

Pages of docs/ link files of the repository that are no pages of the site: on the site such a link
leads to `source`, the page that lists them. Formulas become MathML, which browsers set themselves.
"""

from __future__ import annotations

import importlib
import inspect
import os.path
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math.latex2mathml import tex2mathml
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


# What most people look for in a class, and what few do. All else stands between, as in the code.
FIRST = ("calibrated", "from_zcdp", "create", "generate", "release", "run", "select", "interval", "guarantee", "scale")
FIRST += ("sigma", "rho", "delta", "granularity", "estimate", "quantile", "stddev", "variance")
LAST = ("cdf", "sf", "pmf", "ppf", "median", "mean", "var", "std", "sample", "group", "worst_change", "changes")
LAST += ("largest", "add_remove", "one_way", "metadata", "dp_event", "privacy_loss_distribution")


def need(name: str) -> int:
    """Where a member stands among those of a mechanism: lower is sooner."""
    if name in FIRST:
        return FIRST.index(name) - len(FIRST)
    return 1 + LAST.index(name) if name in LAST else 0


def members(value: type) -> list[tuple[str, Any, str]]:
    """The public members of a class that say something, in the order in which people need them."""
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
    return sorted(found, key=lambda member: need(member[0]))


class Api(SphinxDirective):
    """One public object: its signature, its docstring, its public members.

    What classes of one page inherit from one place is shown at the first of them.
    """

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
            shown: dict[int, str] = self.env.temp_data.setdefault("members shown", {})
            elsewhere = []
            for member, raw, doc in members(value):
                if member not in vars(value) and shown.setdefault(id(raw), path) != path:
                    elsewhere.append(f"{{py:obj}}`{member} <{shown[id(raw)]}.{member}>`")
                    continue
                shown[id(raw)] = path
                inner = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
                what = "method" if callable(inner) else "property"
                said = signature(inner) if callable(inner) else ""
                lines[-1:-1] = self.entry(what, member, said, doc, 3)
            if elsewhere:
                lines[-1:-1] = ["", f"As above: {', '.join(elsewhere)}.", ""]
        return self.parse_text_to_nodes("\n".join(StringList(lines, source=path)), allow_section_headings=True)

    @staticmethod
    def entry(kind: str, name: str, said: str, doc: str, ticks: int) -> list[str]:
        fence = "`" * (ticks + 1)
        return [f"{fence}{{py:{kind}}} {name}{said}", "", *markdown(doc), "", fence]


LINK = re.compile(r"(?<!!)\[([^]\[]*(?:\[[^]]*\])?[^]\[]*)\]\((?!https?:|/|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def inside(text: str, page: str, docs: Path, left_out: list[str]) -> str:
    """The text of a page, whose links to files that the site leaves out lead to the list of them.

    The list itself names the files, and links none. A file that is nowhere stays a broken link.
    """

    def found(link: re.Match[str]) -> str:
        path = Path(os.path.normpath((docs / page).parent / link[2]))
        here = os.path.relpath(path, docs)
        if path == docs.parent / "README.md":
            return f"[{link[1]}](/index.md)"
        if not path.exists() or not (here.startswith("..") or any(fnmatch(here, each) for each in left_out)):
            return link[0]
        return f"`{os.path.relpath(path, docs.parent)}`" if page == "source" else f"[{link[1]}](/source.md)"

    return LINK.sub(found, text)


def page_read(app: Sphinx, name: str, content: list[str]) -> None:
    content[0] = inside(content[0], name, Path(app.srcdir), app.config.exclude_patterns)


def inline_formula(translator: Any, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def formula(translator: Any, node: nodes.math_block) -> None:
    """On a line of its own; a wide one scrolls, and keys scroll it."""
    translator.body.append(f'<div class="formula" tabindex="0">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


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
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))
    app.connect("html-page-context", keys_reach_tables)
    app.connect("source-read", page_read)
    return {"parallel_read_safe": True}
