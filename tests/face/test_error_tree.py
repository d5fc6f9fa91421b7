# SPDX-License-Identifier: Apache-2.0
"""The page of errors: its tree, which decides the order of `except`, and its program."""

from __future__ import annotations

import re
from itertools import permutations
from typing import Any

from places import ROOT

import dpfast
from dpfast import errors

PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
PUBLIC = [getattr(errors, name) for name in errors.__all__]


def tree(kind: type, under: type | None = None, depth: int = 0) -> str:
    """An error a line, indented below its base; its other bases in brackets."""
    others = ", ".join(base.__name__ for base in kind.__bases__ if under is not None and base is not under)
    line = "    " * depth + kind.__name__ + f" ({others})" * bool(others) + "\n"
    below = sorted((each for each in PUBLIC if kind in each.__bases__), key=lambda each: each.__name__)
    return line + "".join(tree(each, kind, depth + 1) for each in below)


def test_the_page_has_the_tree_of_the_code() -> None:
    assert re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) == [tree(errors.DpfastError)]
    assert {line.split()[0] for line in tree(errors.DpfastError).splitlines()} == {
        kind.__name__ for kind in PUBLIC if not issubclass(kind, Warning)
    }


def program(text: str) -> Any:
    """The page's function."""
    names: dict[str, Any] = {}
    exec(compile(text, "errors.md", "exec"), names)
    return names["answer"]


def answers(answer: Any, ledger: dpfast.Ledger) -> list[Any]:
    """What it says: values are not finite, the budget is too small, values are words."""
    cheap, dear = dpfast.Laplace(1, 1), dpfast.Laplace(5, 1)
    asked = [(cheap, [float("nan")]), (dear, [1.0]), (cheap, ["words"])]
    return [answer(ledger, mechanism, values) for mechanism, values in asked]


def test_the_program_of_the_page_tells_errors_apart_and_needs_its_order(tmp_path) -> None:
    ledger = dpfast.Ledger(tmp_path / "year.db", 2, create=True)
    [text] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    private, spent, other = answers(program(text), ledger)
    assert (private, spent) == ("not ready", "no more this year")
    assert other.startswith("refused: values must be")
    assert program(text)(ledger, dpfast.Laplace(1, 1), [1.0]).shape == (1,)
    head, *clauses = re.split(r"^(?=    except )", text, flags=re.MULTILINE)
    assert len(clauses) == 3
    for order in permutations(clauses):
        same = answers(program(head + "".join(order)), ledger) == [private, spent, other]
        assert same == (order[-1] == clauses[-1])
