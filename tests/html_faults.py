# SPDX-License-Identifier: Apache-2.0
"""Faults of a page that its text shows: for tests of reports and of the built site."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from typing import NamedTuple

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
LOADS = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "background", "formaction", "ping"}
RUNS = {"script", "iframe", "object", "embed", "form", "base", "link", "img"}


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str]
    inside: tuple[str, ...]  # the tags around it, from the outermost
    text: list[str]  # its own, and that of what it holds
    children: list[Element]


class Tree(HTMLParser):
    """The elements of a page, in order, and what does not balance."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.unbalanced: list[str] = []
        self._open: list[Element] = []
        self.doctype = ""
        self.feed(page)
        self.close()
        self.unbalanced += [f"<{each.tag}> is not closed" for each in self._open]

    def handle_decl(self, decl: str) -> None:
        self.doctype = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs}, tuple(e.tag for e in self._open), [], [])
        if len(made.attributes) < len(attrs):
            self.unbalanced.append(f"<{tag}> has an attribute twice")
        self.elements.append(made)
        if self._open:
            self._open[-1].children.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.unbalanced.append(f"</{tag}> closes {self._open[-1].tag if self._open else 'nothing'}")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for each in self._open:
            each.text.append(data)

    def all(self, *tags: str) -> list[Element]:
        return [each for each in self.elements if each.tag in tags]

    def said(self, tag: str) -> list[str]:
        """The texts of all elements of a tag."""
        return [" ".join("".join(each.text).split()) for each in self.all(tag)]


def faults(page: str) -> Iterator[str]:
    """What is wrong with a page that must stand alone, be safe to open, and be readable by all."""
    tree = Tree(page)
    yield from tree.unbalanced
    if tree.doctype.lower() != "doctype html":
        yield "no doctype"
    yield from _alone(tree, page)
    yield from _named(tree)
    yield from _tables(tree)


def _alone(tree: Tree, page: str) -> Iterator[str]:
    """No script, no style but the one that the policy names, nothing from elsewhere."""
    for each in tree.elements:
        if each.tag in RUNS:
            yield f"<{each.tag}> stands in the page"
        for name, value in each.attributes.items():
            if name.startswith("on") or name == "style" or (name in LOADS and not value.startswith("#")):
                yield f"<{each.tag} {name}> stands in the page"
    for address in re.findall(r"(?:\w+:)?//[\w.-]+|url\(|@import|javascript:", page):
        yield f"an address: {address}"
    policies = [e for e in tree.all("meta") if e.attributes.get("http-equiv", "").lower() == "content-security-policy"]
    [policy] = [each.attributes["content"] for each in policies] or [""]
    digests = [b64encode(sha256("".join(each.text).encode()).digest()).decode() for each in tree.all("style")]
    if "default-src 'none'" not in policy or "unsafe" in policy:
        yield "no strict policy"
    if len(digests) != 1 or policy.count("'sha256-") != 1 or f"style-src 'sha256-{digests[0]}'" not in policy:
        yield "the policy does not name the style"


def _named(tree: Tree) -> Iterator[str]:
    """The language, headings in order, and a name for each picture and region."""
    ids = [each.attributes["id"] for each in tree.elements if "id" in each.attributes]
    yield from (f"two elements have the id {name}" for name in {name for name in ids if ids.count(name) > 1})
    [root] = tree.all("html") or [Element("html", {}, (), [], [])]
    if not root.attributes.get("lang"):
        yield "no language"
    if not any(tree.said("title")):
        yield "no title"
    if [e.attributes.get("name") for e in tree.all("meta")].count("viewport") != 1:
        yield "no viewport"
    levels = [int(each.tag[1]) for each in tree.elements if re.fullmatch("h[1-6]", each.tag)]
    if levels[:1] != [1] or levels.count(1) > 1 or any(b > a + 1 for a, b in pairwise(levels)):
        yield "headings out of order"
    for each in tree.elements:
        of = each.attributes
        label = of.get("aria-labelledby")
        if label is not None and label not in ids:
            yield f"<{each.tag}> is labelled by {label}, which is not there"
        titled = any(child.tag == "title" and "".join(child.text).strip() for child in each.children)
        named = bool(label or of.get("aria-label") or titled)
        if of.get("role") in {"img", "region"} and not named:
            yield f"a {of['role']} without a name"
        if each.tag == "svg" and not named and "div" not in each.inside[-1:]:
            yield "a picture without a name"
        if "scroll" in of.get("class", "").split() and not (of.get("tabindex") == "0" and of.get("role") == "region"):
            yield "a part that scrolls cannot be reached by keys"


def _tables(tree: Tree) -> Iterator[str]:
    for each in tree.all("table"):
        if not (each.children and each.children[0].tag == "caption" and "".join(each.children[0].text).strip()):
            yield "a table without a caption"
        rows = [row for part in each.children if part.tag in {"thead", "tbody"} for row in part.children]
        if len({len(row.children) for row in rows}) > 1:
            yield "a table with rows of unequal lengths"
        for row in rows:
            first = row.children[0] if row.children else None
            if first is None or first.tag != "th":
                yield "a row without a head"
            if any(cell.tag == "th" and cell.attributes.get("scope") not in {"row", "col"} for cell in row.children):
                yield "a head without a scope"
