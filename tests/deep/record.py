# SPDX-License-Identifier: Apache-2.0
"""The figures of the long checks: which exist, what they cover, and which are older than that."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from places import ROOT

if TYPE_CHECKING:
    from types import ModuleType

ASSURANCE = ROOT / "docs" / "assurance"
_MACHINERY = {"__init__", "__main__", "record"}


def names() -> list[str]:
    """The checks, in the order of their names."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _MACHINERY)


def module(name: str) -> ModuleType:
    return import_module(f"deep.{name}")


def git(*arguments: str, root: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def _paths(found: Any) -> list[str]:
    return sorted({*found.COVERS, f"tests/deep/{found.__name__.rpartition('.')[2]}.py"})


def covered(found: Any, root: Path = ROOT) -> str:
    """A digest of the committed text of the covered files: names and contents."""
    lines = git("ls-tree", "-r", "HEAD", "--", *_paths(found), root=root)
    return hashlib.sha256(lines.encode()).hexdigest()


def changed(found: Any, root: Path = ROOT) -> str:
    """The covered files that differ from the commit, as git lists them."""
    return git("status", "--porcelain", "--", *_paths(found), root=root)


def commit(root: Path = ROOT) -> str:
    return git("rev-parse", "HEAD", root=root)


def old(root: Path = ROOT) -> list[str]:
    """A line for each check that was never run whole, or whose files have changed since."""
    lines = []
    for name in names():
        figures = root / "docs" / "assurance" / f"{name}.json"
        if not figures.is_file():
            lines.append(f"docs/assurance: {name} was never run; .ci/deep {name} runs it")
        elif json.loads(figures.read_text())["covers"] != covered(module(name), root):
            lines.append(f"docs/assurance: {name} is older than the files it covers; .ci/deep {name} runs it again")
    return lines


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
