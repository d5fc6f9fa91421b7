# SPDX-License-Identifier: Apache-2.0
"""How long a function may be, and how much it may be handed; with planted violations."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from places import ROOT

import dpfast

LINES = 60  # a function, its docstring not counted
PARAMETERS = 8  # a function whose name begins with `_`, without its own object
DOORS = set(dpfast.__all__)  # classes that users make: their parameters are the users' words
PACKAGE = ROOT / "dpfast"
KERNELS = "kernels"  # a folder whose functions take no record: numba compiles them


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each with the class that it is a method of, or "", whatever it stands in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield owner, node
        if not isinstance(node, ast.expr):  # within which no function has statements
            yield from functions(node, node.name if isinstance(node, ast.ClassDef) else "")


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From `def` to the end, without the docstring."""
    first = function.body[0]
    told = ast.get_docstring(function) is not None
    return function.end_lineno - function.lineno + 1 - told * (first.end_lineno - first.lineno + 1)  # type: ignore[operator]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = named[:1] in (["self"], ["cls"])
    return len(named) - own + sum(each is not None for each in (given.vararg, given.kwarg))


def broken(path: str, text: str) -> Iterator[str]:
    """Functions that are too long, or that their own file hands too much."""
    for owner, function in functions(ast.parse(text)):
        at = f"{path}:{function.lineno} {function.name}"
        if (long := lines(function)) > LINES:
            yield f"{at}: {long} lines, at most {LINES}"
        door = function.name in ("__init__", "__new__") and owner in DOORS
        private = function.name.startswith("_") and not door and KERNELS not in path.split("/")
        if private and (many := parameters(function)) > PARAMETERS:
            yield f"{at}: {many} parameters, at most {PARAMETERS}"


def test_functions_are_short_and_are_handed_little() -> None:
    texts = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(texts) > 100
    assert [found for path, text in sorted(texts.items()) for found in broken(path, text)] == []


NINE = ", ".join(f"p{i}" for i in range(9))
BODY = "\n    pass" * 59


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("a.py", f"def f():{BODY}\n    pass", "61 lines"),
        ("a.py", f"class A:\n  async def f(self):{BODY}\n    pass", "61 lines"),
        ("a.py", f'def f():\n    """Told."""{BODY}\n    pass', "61 lines"),
        ("a.py", f"def f():\n  def g():{BODY}\n    pass", "61 lines"),
        ("a.py", f"def _f({NINE}): ...", "9 parameters"),
        ("a.py", f"def _f(*, {NINE}): ...", "9 parameters"),
        ("a.py", f"def _f({NINE.replace('p8', '**p8')}): ...", "9 parameters"),
        ("a.py", f"class A:\n  def _f(self, {NINE}): ...", "9 parameters"),
        ("a.py", f"class A:\n  def __init__(self, {NINE}): ...", "9 parameters"),
        ("a.py", f"class Ledger:\n  def _f(self, {NINE}): ...", "9 parameters"),
        ("a.py", f"if True:\n  def _f({NINE}): ...", "9 parameters"),
    ],
)
def test_a_violation_is_found(path: str, code: str, says: str) -> None:
    assert any(says in found for found in broken(path, code))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.py", f"def f():{BODY}"),
        ("a.py", f'def f():\n    """Told\n\n    at length."""{BODY}'),
        ("a.py", f"def f({NINE}): ..."),
        ("a.py", f"class A:\n  def _f(self, {NINE.removesuffix(', p8')}): ..."),
        ("a.py", f"class Ledger:\n  def __init__(self, {NINE}): ..."),
        ("noise/kernels/a.py", f"def _f({NINE}): ..."),
    ],
)
def test_what_keeps_the_rules_is_let_be(path: str, code: str) -> None:
    assert list(broken(path, code)) == []
