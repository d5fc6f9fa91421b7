# SPDX-License-Identifier: Apache-2.0
"""Mutants that a program makes: `PYTHONPATH=tests python -m mutation.drawn SEED [HOW_MANY]`.

An operator, a bound or a constant is another one, or a call is not made, at places drawn at random
among the lines that tests reach. Each is tried by some of the tests that are not slow and reach its
line, as coverage saw them, what survives by all that are not slow, and then by the slow ones: of
what all notice, how much does the README's command notice?

What coverage saw takes half an hour, and is kept beside the build, by the tree of git's that it is
of, with the share of branches that were taken in each room.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData
from deep.coverage import rooms
from deep.record import git, show
from places import ROOT, every_test_file

from mutation.mutant import Mutant
from mutation.runner import CORES, FAST, SLOW, checkout, survivors

ROOMS = {  # the rooms that draw, charge, account and read
    "draw": ("dpfast/noise/mechanisms", "dpfast/noise/release", "dpfast/noise/random"),
    "charge": ("dpfast/ledger",),
    "account": ("dpfast/privacy", "dpfast/counts/trees", "dpfast/counts/records"),
    "read": ("dpfast/app/tables",),
}
SOME = 100  # tests of a mutant that are tried first, for thousands may reach one line
OTHERS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*",
    ast.Div: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
SETTINGS = """\
[run]
branch = true
dynamic_context = test_function
parallel = true
source = dpfast
omit = */kernels/*
patch = subprocess
disable_warnings = no-data-collected, module-not-measured, module-not-imported, trace-changed
"""


class Site(NamedTuple):
    """A place of a text, from one offset to another, and what stands there instead."""

    line: int
    start: int
    end: int
    new: str


class _Places(ast.NodeVisitor):
    """Where functions of a text may be spoilt; not where types and messages are written."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, list[Site]()
        self._lines = text.splitlines(keepends=True)
        self._before = [0]
        for line in self._lines:
            self._before.append(self._before[-1] + len(line))

    def _at(self, line: int | None, column: int | None) -> int:
        """An offset in the text; Python's trees count columns in bytes."""
        assert line is not None
        return self._before[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _whole(self, node: ast.expr | ast.stmt, new: str) -> None:
        start, end = self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)
        self.found.append(Site(node.lineno, start, end, new))

    def _between(self, left: ast.expr, right: ast.expr, operator: ast.AST) -> None:
        start, end = self._at(left.end_lineno, left.end_col_offset), self._at(right.lineno, right.col_offset)
        if type(operator) in OTHERS and not set(self.text[start:end]) & set("()#\n"):
            self.found.append(Site(right.lineno, start, end, f" {OTHERS[type(operator)]} "))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            self._between(node.left, node.comparators[0], node.ops[0])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._between(*node.values[:2], node.op) if len(node.values) == len("ab") else None
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._whole(node, str(node.value + 1))

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._whole(node, "None")
        self.generic_visit(node)

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Raise | ast.AnnAssign | ast.arguments | ast.JoinedStr):
            super().visit(node)


def sites(text: str) -> list[Site]:
    places = _Places(text)
    for node in ast.parse(text).body:
        for part in ast.walk(node) if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(part, ast.FunctionDef):
                places.visit(part)
    return sorted(set(places.found))


def reached(copy: Path) -> dict[str, dict[int, list[str]]]:
    """File of the package, line, and the tests that reach it, of those that are not slow."""
    kept = ROOT / "build" / f"reached-{git('rev-parse', 'HEAD^{tree}', root=copy)}"
    if not kept.exists():
        _trace(copy)
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(copy / ".coverage", kept)
    data, files = CoverageData(str(kept)), every_test_file(copy / "tests")
    data.read()
    found: dict[str, dict[int, list[str]]] = {}
    for name in data.measured_files():
        lines = {}
        for line, contexts in data.contexts_by_lineno(name).items():
            named = [context.split(".") for context in contexts if context]
            lines[line] = sorted({f"{parts[-2]}.py::{parts[-1]}" for parts in named if f"{parts[-2]}.py" in files})
        found[name[name.rindex("/dpfast/") + 1 :]] = lines
    return found


def _trace(copy: Path) -> None:
    """Run the tests that are not slow under coverage, and tell what branches they take."""
    (copy / "coverage.ini").write_text(SETTINGS)
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}

    def ran(*words: str, well: tuple[int, ...] = (0,)) -> str:
        command = [sys.executable, "-m", *words]
        run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        assert run.returncode in well, run.stdout[-4000:] + run.stderr[-4000:]
        return run.stdout.strip()

    traced = ("-m", "pytest", "-q", "-n", str(CORES), "-p", "no:cacheprovider")
    ended = ran("coverage", "run", "--rcfile=coverage.ini", *traced, well=(0, 1))
    show(ended.splitlines()[-1])  # a tracer takes time, so a test may fail by it
    ran("coverage", "combine", "-q", "--rcfile=coverage.ini")
    ran("coverage", "json", "-q", "--rcfile=coverage.ini", "-o", "coverage.json")
    taken = rooms(json.loads((copy / "coverage.json").read_text())["files"])
    show(", ".join(f"{room} {of['percent']} %" for room, of in taken.items()))


def drawn(seed: int, how_many: int, copy: Path) -> list[Mutant]:
    """As many of each kind of room, where tests reach."""
    chance, mutants, tests = random.Random(seed), [], reached(copy)
    for folders in ROOMS.values():
        places = [
            (path, text, site)
            for path in sorted(path for room in folders for path in (copy / room).glob("*.py"))
            for text in [path.read_text()]
            for site in sites(text)
            if tests.get(str(path.relative_to(copy)), {}).get(site.line)
        ]
        for path, text, site in chance.sample(places, how_many // len(ROOMS)):
            name = str(path.relative_to(copy))
            new = text[: site.start] + site.new + text[site.end :]
            ast.parse(new)
            said = f"{name}:{site.line}: {text[site.start : site.end].strip()[:60]!r} is {site.new.strip()!r}"
            reaching = tests[name][site.line]
            mutants.append(Mutant(said, name, text, new, " ".join(chance.sample(reaching, min(SOME, len(reaching))))))
    return mutants


def main(seed: int, how_many: int) -> int:
    with checkout(ROOT) as copy:
        mutants = drawn(seed, how_many, copy)

    def by_all(names: list[str]) -> list[Mutant]:
        return [each._replace(tests="") for each in mutants if each.name in names]

    left = survivors(mutants, marks=FAST, workers=CORES, told=show)
    cut = [each.name for each in mutants if each.name in left and len(each.tests.split()) == SOME]
    noticed_by_more = set(cut) - set(survivors(by_all(cut), marks=FAST, told=show))
    quiet = [name for name in left if name not in noticed_by_more]
    unnoticed = survivors(by_all(quiet), marks=SLOW, told=show)
    noticed = len(mutants) - len(unnoticed)
    show(f"{noticed} of {len(mutants)} are noticed, {len(mutants) - len(quiet)} of them by tests that are not slow")
    for name in quiet:
        show(f"{'not noticed' if name in unnoticed else 'by slow tests alone'}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60))
