# SPDX-License-Identifier: Apache-2.0
"""The rules that the tests keep themselves; each finds a planted violation."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import tiers
from laws import LAWS
from places import TESTS, every_test_file

import dpfast

Texts = dict[str, str]  # by file name

# Underscored names that are no business of dpfast: the test's own, Python's and NumPy's.
OTHERS = re.compile(
    r"\bself\._|\bos\._exit|\b_thread\._count|\b_thread\._start_new_thread|\._fields\b|\._replace\b|[.\"]_repr_html_|\"_ns\""
)
PRIVATE = re.compile(
    r"[\w)\]]\.(_[a-z]\w*)|[\"'](?:dpfast\.\w[\w.]*\.)?(_[a-z]\w*)[\"']|\bimport .*\b(_native)\b|(\brelease\.engine\b)"
)
# Files whose very subject is inside: no seam could serve two of them.
INSIDE = {
    # the names that an adapter puts into its library, and takes out of it
    "test_diffprivlib", "test_opacus", "test_pipeline_dp", "test_smartnoise",
    "test_tumult", "test_adapters",
    # a key's bytes, where they lie and when they are wiped
    "test_bit_generator", "test_key_on_stack", "test_keys_are_wiped", "test_random_bytes",
    # what fails at one line of the code, and a defect planted there
    "ledgers", "test_atomic_write", "test_failure", "test_ledger_history", "test_ledger_keys", "test_ledger_races", "test_processes", "test_seal_guards",
    "running", "test_running_rows", "test_running_steps", "test_seal_tries", "test_self_check", "test_selftest",
    # how the code itself is built: its records, its rooms, its extension
    "test_layers", "test_record",
    # what Python keeps of the system, and copies of dpfast/system.py that are spoilt
    "as_windows", "test_systems",
    # the record of a release lies on a page of its own, in a script
    # a build of the C that is spoilt, in a process that may not load what tiers.py loads
    "test_truncated_digits",
}  # fmt: skip


def no_test_module_is_a_library(texts: Texts) -> Iterator[str]:
    """Test files share by modules named for what they are; fixtures lie in conftest.py."""
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r"\s*(from|import) test_", line):
                yield f"{name}.py:{number}: imports from a test module"
            if re.search("noqa: F" + "401", line):
                yield f"{name}.py:{number}: imports what it does not name"


@cache
def private(text: str) -> list[tuple[int, str]]:
    """Lines that read private things, by number, and what they read."""
    lines = ((number, OTHERS.sub("", line)) for number, line in enumerate(text.splitlines(), 1))
    return [(number, next(filter(None, found.groups()))) for number, line in lines for found in PRIVATE.finditer(line)]


def private_things_come_through_the_seam(texts: Texts) -> Iterator[str]:
    for name, text in texts.items():
        if name not in {"tiers", "test_tests"} and name not in INSIDE:
            yield from (f"{name}.py:{number}: reads {what}, which tiers.py is for" for number, what in private(text))


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def said_by(node: ast.AST) -> frozenset[str]:
    """Every name, attribute and word of a string in a piece of code, for scripts are strings."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            found.add(part.id if isinstance(part, ast.Name) else part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found |= set(re.findall(r"\w+", part.value))
    return frozenset(found)


def is_slow(node: ast.AST) -> bool:
    """Whether a test is marked slow; one of whose cases a few are is not."""
    return "pytest.mark.slow" in map(ast.unparse, getattr(node, "decorator_list", ()))


def touched(texts: Texts) -> set[str]:
    """What tests name that are not slow, or definitions that they name in their file and tests/."""
    shared = {
        name: node for module in ("laws", "layouts", "worlds", "tiers") for name, node in defined(texts[module]).items()
    }
    found: set[str] = set()
    for file, text in texts.items():
        if not file.startswith("test_") or re.search(r"^pytestmark = .*\bpytest\.mark\.slow\b", text, re.MULTILINE):
            continue
        own = defined(text)
        left = {name for name, node in own.items() if name.startswith("test_") and not is_slow(node)}
        seen: set[str] = set()
        while left:
            name = left.pop()
            seen.add(name)
            if node := own.get(name) or shared.get(name):
                left |= said_by(node) - seen
        found |= seen
    return found


@cache
def defined(text: str) -> dict[str, ast.AST]:
    """What a module defines at its top, by name."""
    found: dict[str, ast.AST] = {}
    for node in parsed(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {part.id: node for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return found


PROMISED = sorted({*dpfast.__all__, "numba", "testing", *tiers.LAWS, *(law.name for law in LAWS)})


def what_is_not_slow_touches_everything(texts: Texts) -> Iterator[str]:
    """Each public name, law of C and mechanism is named by a test of the README's command."""
    found = touched(texts)
    yield from (f"{name} is in slow tests alone" for name in PROMISED if name not in found)


def no_file_is_excused_that_needs_it_no_longer(texts: Texts) -> Iterator[str]:
    for name in sorted(INSIDE):
        if not private(texts.get(name, "")):
            yield f"test_tests.py: {name} reads nothing private"


RULES: tuple[Callable[[Texts], Iterator[str]], ...] = (
    no_test_module_is_a_library,
    private_things_come_through_the_seam,
    no_file_is_excused_that_needs_it_no_longer,
    what_is_not_slow_touches_everything,
)
PLANTED: tuple[tuple[Callable[[Texts], Iterator[str]], str, str], ...] = (
    (no_test_module_is_a_library, "test_laplace", "from test_bounds import host"),
    (no_test_module_is_a_library, "test_laplace", "def f():\n    import test_bounds"),
    (no_test_module_is_a_library, "worlds", "from conftest import named  # noqa: F" + "401"),
    (private_things_come_through_the_seam, "test_laplace", "x = mech._constant_work_plan"),
    (private_things_come_through_the_seam, "test_laplace", "from dpfast import Laplace, _native"),
    (private_things_come_through_the_seam, "test_laplace", "from dpfast.noise.release.engine import run"),
    (private_things_come_through_the_seam, "test_laplace", "monkeypatch.setattr(Laplace, '_constants', 1)"),
    (
        private_things_come_through_the_seam,
        "test_laplace",
        "monkeypatch.setattr('dpfast.noise.mechanisms.laplace._x', 1)",
    ),
    (no_file_is_excused_that_needs_it_no_longer, "test_seal_guards", "x = 1"),
)


@cache
def texts() -> Texts:
    return {path.stem: path.read_text() for path in [*TESTS.glob("*.py"), *every_test_file().values()]}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tests_keep_their_rules(rule: Callable[[Texts], Iterator[str]]) -> None:
    assert list(rule(texts())) == []


@pytest.mark.parametrize(("rule", "name", "text"), PLANTED)
def test_a_planted_violation_is_found(rule: Callable[[Texts], Iterator[str]], name: str, text: str) -> None:
    assert list(rule(texts() | {name: text}))


@pytest.mark.parametrize("mark", ["pytestmark = pytest.mark.slow\n", "@pytest.mark.slow\n"])
def test_a_name_in_slow_tests_alone_is_found(mark: str) -> None:
    """Every name, when each test of a tenth of the files is slow, and one names a mechanism."""
    few = {name for name in sorted(texts())[::10] if name.startswith("test_")} | {"laws", "layouts", "worlds", "tiers"}
    slow = {
        name: mark + text
        if mark.startswith("pytestmark")
        else re.sub(r"^(?=def test_)", mark, text, flags=re.MULTILINE)
        for name, text in texts().items()
        if name in few
    }
    one = "def test_one() -> None:\n    assert DiscreteLaplace"
    found = [line.split()[0] for line in what_is_not_slow_touches_everything(slow | {"test_laws": one})]
    assert found == [name for name in PROMISED if name != "DiscreteLaplace"]
