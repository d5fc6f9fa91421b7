# SPDX-License-Identifier: Apache-2.0
"""What the package says of itself: public names, Pythons, and what its tests may not do."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from deep import lowest
from places import ROOT, every_test_file

import dpfast
from dpfast import errors

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


MODULES = ["adapters", "engines.jobs", "errors", "ledger", "numba", "postprocess", "testing"]
LIBRARIES = [f"adapters.{name}" for name in ("diffprivlib", "opacus", "opendp", "pipeline_dp", "smartnoise", "tumult")]
LIBRARIES += [f"engines.{name}" for name in ("dask", "duckdb", "polars", "postgres", "spark")]


@pytest.mark.parametrize("name", MODULES)
def test_an_editor_completes_the_public_names_of_a_module(name: str) -> None:
    module = import_module(f"dpfast.{name}")
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, each) is not None for each in module.__all__)


@pytest.mark.parametrize("name", LIBRARIES)
def test_so_do_modules_whose_libraries_may_be_missing(name: str) -> None:
    """By their text."""
    text = (ROOT / "dpfast" / f"{name.replace('.', '/')}.py").read_text("utf-8")
    assert "\ndef __dir__() -> list[str]:\n    return __all__\n" in text
    [public] = [
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert all(len(re.findall(rf"\b{each}\b", text)) > 1 for each in public)


def test_an_editor_completes_no_constant_that_rooms_share() -> None:
    """An object shows none, and has its fields, those that are computed later among them."""
    for thing in (dpfast.DiscreteLaplace(1, 1), dpfast.Sensitivity(l0=1, linf=1), dpfast.Guarantee(1)):
        found = [name for name in dir(thing) if not name.startswith("_")]
        assert not [name for name in found if name.isupper()]
        assert len(found) == len(set(found)) > 5
    assert {"NUMBERS", "LAW"} <= {*vars(dpfast.Guarantee), *vars(dpfast.DiscreteLaplace)}
    assert {"rho", "epsilon", "group"} <= set(dir(dpfast.Guarantee(1)))


def errors_by_their_former_names(text: str) -> list[str]:
    """What names an error as if it were at the top of the package."""
    kinds = "|".join(errors.__all__)
    dotted = re.findall(rf"(?<![\w.])dpfast\.(?:{kinds})\b", text)
    imports = re.findall(r"from dpfast import (?:\([^)]*\)|[^\n]*)", text)
    return dotted + [each for each in imports if re.search(rf"\b(?:{kinds})\b", each)]


def test_nothing_here_names_an_error_by_its_former_name() -> None:
    planted = "import dpfast\nexcept dpfast.FileError:\nfrom dpfast import (\n    Key,\n    FileError,\n)\n"
    assert len(errors_by_their_former_names(planted)) == 2
    assert not errors_by_their_former_names("dpfast.errors.FileError, from dpfast.errors import FileError")
    rooms = [ROOT / name for name in ("benchmarks", "docs", "dpfast", "examples", "tests", "tools")]
    files = [path for room in rooms for kind in ("py", "md") for path in room.rglob(f"*.{kind}")]
    files = [path for path in [*files, *ROOT.glob("*.md"), *ROOT.glob("*.toml")] if path.name != Path(__file__).name]
    assert len(files) > 500
    assert {path: found for path in files if (found := errors_by_their_former_names(path.read_text("utf-8")))} == {}


def test_an_editor_completes_the_public_names_and_no_others() -> None:
    """dir() finds late imports, such as Ledger, and hides the modules that they come from."""
    assert {name for name in dir(dpfast) if not name.startswith("__")} == {*dpfast.__all__, "numba", "testing"}
    assert "__version__" in dir(dpfast)
    assert all(getattr(dpfast, name) is not None for name in dir(dpfast))


def test_a_star_hides_no_library() -> None:
    """It needed numba, and then `numba` was dpfast.numba, whose `njit` is nowhere."""
    names: dict[str, object] = {"numba": "numba's", "testing": "NumPy's"}
    exec("from dpfast import *", names)
    assert (names["numba"], names["testing"]) == ("numba's", "NumPy's")
    assert {"Ledger", "DiscreteLaplace", "errors"} <= names.keys()
    assert dpfast.numba.__name__ == "dpfast.numba"


def test_one_least_python_everywhere() -> None:
    """pip, the wheel's tag, checkers, classifiers and pages name one least Python: 3.11."""
    [least] = re.findall(r'^requires-python = ">=3\.(\d+)"$', PYPROJECT, re.MULTILINE)
    named = {
        "wheel": re.findall(r'"py_limited_api": "cp3(\d+)"', (ROOT / "setup.py").read_text(encoding="utf-8")),
        "ruff": re.findall(r'^target-version = "py3(\d+)"$', PYPROJECT, re.MULTILINE),
        "mypy": re.findall(r'^python_version = "3\.(\d+)"$', PYPROJECT, re.MULTILINE),
        "classifiers": re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', PYPROJECT)[:1],
        "README": re.findall(r"any\s+Python\s+from\s+3\.(\d+)", (ROOT / "README.md").read_text(encoding="utf-8")),
        "known issues": re.findall(
            r"Python\s+3\.(\d+)\s+and\s+later", (ROOT / "docs" / "known_issues.md").read_text(encoding="utf-8")
        ),
        "limited API": re.findall(
            r"Py_LIMITED_API\", \"0x03([0-9A-F]{2})0000\"", (ROOT / "csrc" / "build_ffi.py").read_text(encoding="utf-8")
        ),
    }
    named["limited API"] = [str(int(digits, 16)) for digits in named["limited API"]]
    assert named == {key: [least] for key in named}
    assert least == "11"


# ------------------------------------------------------------------ no speed is asserted in a test

CLOCKS = {
    f"{clock}{unit}" for clock in ("monotonic", "perf_counter", "process_time", "thread_time") for unit in ("", "_ns")
}
ON_PURPOSE = {
    "test_timing.py": "time must not tell the noise: no part of the README's command, for a quiet machine decides it"
}


def timed_assertions(text: str) -> list[int]:
    """Lines that assert something about a clock reading, by assignment and function too."""
    if not any(clock in text for clock in CLOCKS):  # every timer reads one
        return []
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    timers = set(CLOCKS)
    while True:
        found = {f.name for f in functions if any(_timed(node.value, f, timers) for node in _of(f, ast.Return))}
        if found <= timers:
            break
        timers |= found
    lines = (node.lineno for f in functions for node in _of(f, ast.Assert) if _timed(node.test, f, timers))
    return sorted(set(lines))


@cache
def _walked(node: ast.AST) -> list[ast.AST]:
    return list(ast.walk(node))


def _of(function: ast.FunctionDef, kind: type[ast.stmt]) -> list[Any]:
    return [node for node in _walked(function) if isinstance(node, kind)]


def _timed(expression: ast.expr | None, function: ast.FunctionDef, timers: set[str]) -> bool:
    """Whether a clock, a timer or a name that was assigned from one is read in it."""
    times: set[str] = set()
    assigned = _of(function, ast.Assign)
    while True:
        more = {
            name.id
            for node in assigned
            if _reads(node.value, timers, times)
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and not (isinstance(target, ast.Subscript) and name is target.slice)
        }
        if more <= times:
            return expression is not None and _reads(expression, timers, times)
        times |= more


def _reads(expression: ast.expr, timers: set[str], times: set[str]) -> bool:
    return any(
        (isinstance(node, ast.Call) and _called(node) in timers) or (isinstance(node, ast.Name) and node.id in times)
        for node in _walked(expression)
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_no_test_asserts_a_speed() -> None:
    """A slow machine fails no test: benchmarks/ measures speed, timeouts meet hangs."""
    lines = {name: timed_assertions(path.read_text("utf-8")) for name, path in every_test_file().items()}
    found = {name: numbers for name, numbers in lines.items() if numbers}
    assert found.keys() == ON_PURPOSE & lines.keys(), f"files assert a time in lines {found}"


@pytest.mark.parametrize(
    ("code", "timed"),
    [
        ("begin = time.monotonic()\n run()\n assert time.monotonic() - begin < 1", True),
        ("begin = perf_counter()\n run()\n took = perf_counter() - begin\n assert 50 * took < other()", True),
        ("took = np.zeros(3)\n took[0] = perf_counter_ns()\n worst = max(took)\n assert worst < 9", True),
        ("def seconds():\n  begin = perf_counter()\n  return perf_counter() - begin\n assert 50 * seconds() < 1", True),
        ("until = time.monotonic() + 1\n while time.monotonic() < until: run()\n assert done", False),
        ("before = time.time()\n assert before <= row().time <= time.time()", False),
        ("found = run(timeout=60)\n assert found.time == 3", False),
    ],
)
def test_a_timed_assertion_is_found(code: str, timed: bool) -> None:
    """Planted ones, direct, by name, array and function; not loops, dates or timeouts."""
    assert bool(timed_assertions(f"def test():\n {code}\n")) is timed


# ------------------------------------------------------------------ the floors of pyproject.toml


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("numpy", "must name a floor"),
        ("numpy>=1.26,<3", "must name a floor"),
        ("cffi>=1.0", "one floor of cffi, got 1.16 and 1.0"),
    ],
)
def test_a_requirement_without_one_floor_is_found(wanted: str, says: str) -> None:
    """Planted: no floor, a ceiling, a second floor (deep/lowest.py installs real ones)."""
    planted = tomllib.loads(PYPROJECT)
    assert lowest.floors(planted)["python-flint"] == "0.7"
    planted["project"]["dependencies"].append(wanted)
    with pytest.raises(AssertionError, match=says):
        lowest.floors(planted)
