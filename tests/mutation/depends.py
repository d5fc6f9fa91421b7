# SPDX-License-Identifier: Apache-2.0
"""What a mutant's verdict depends on: its file, its tests, and what these import.

A mutant of Python does not depend on the C, whose draws golden files pin.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from places import every_test_file

from mutation.mutant import Mutant


def paths(mutant: Mutant, root: Path) -> list[str]:
    """All of them, below the root."""
    files = _tests(root)
    left = [files[name] for name in re.findall(r"test_\w+\.py", mutant.tests)]
    left += [
        place
        for place in (Path("tests/conftest.py"), *(test.with_name("conftest.py") for test in left))
        if (root / place).is_file()
    ]
    found = {Path(mutant.file), *left}
    while left:
        new = set(_imports(root, left.pop())) - found
        found |= new
        left += new
    return sorted(map(str, found))


@cache
def _tests(root: Path) -> dict[str, Path]:
    return {name: file.relative_to(root) for name, file in every_test_file(root / "tests").items()}


@cache
def _imports(root: Path, file: Path) -> list[Path]:
    """The files of the tree that a module imports, early or late."""
    tests = [root, root / "tests", (root / file).parent]
    return [place.relative_to(root) for name in _named(root / file) for home in tests if (place := _of(name, home))]


def _named(place: Path) -> Iterator[str]:
    """Modules, and what is taken from a package, which may be one."""
    for node in ast.walk(ast.parse(place.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _of(name: str, home: Path) -> Path | None:
    place = home.joinpath(*name.split("."))
    files = place.with_suffix(".py"), place / "__init__.py"
    return next((file for file in files if file.is_file()), None)
