# SPDX-License-Identifier: Apache-2.0
"""The figures of the long checks: which exist, what their runs opened, and which are due again.

docs/assurance/NAME.json has the figures, `opened`, the paths of the tree that the run opened, and
`digest`, of what they held. A check is due once they hold something else. Those of a release, whose
module has RELEASED, are due with a new version, and once what RELEASED names changes. A check with
`cases` has a digest for each, and is due by the case.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from places import ROOT

if TYPE_CHECKING:
    from types import ModuleType

ASSURANCE = ROOT / "docs" / "assurance"
_MACHINERY = {"__init__", "__main__", "opened", "record"}
NEVER = "never run"
Tree = dict[str, str]  # path and what it holds, as git names it


class Due(NamedTuple):
    """A check that is due: the minutes that it took, and of these of what is due."""

    name: str
    minutes: float
    why: str
    cases: tuple[str, ...] = ()


def names() -> list[str]:
    """The checks, in the order of their names."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _MACHINERY)


def module(name: str) -> ModuleType:
    return import_module(f"deep.{name}")


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git says of this tree, even where a hook or a rebase of another one names its folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path = ROOT) -> str:
    return git("rev-parse", "HEAD", root=root)


def tree(root: Path = ROOT) -> Tree:
    """The committed files."""
    lines = git("ls-tree", "-r", "HEAD", root=root).splitlines()
    return {path: what.split()[2] for what, _, path in (line.partition("\t") for line in lines)}


def digest(paths: Iterable[str], files: Tree) -> str:
    """What the paths hold, or which files lie in those that end with a slash, as one text."""
    held = {
        path: sorted(n for n in files if n.startswith(path)) if path.endswith("/") else files.get(path)
        for path in paths
    }
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()[:16]


def of_a_release(found: ModuleType, files: Tree, root: Path) -> str:
    """A digest of the version, and of what is tried again before there is another one."""
    return digest([path for path in files if path.startswith(found.RELEASED)], files) + f" of {version(root)}"


def version(root: Path) -> str:
    """The version that pyproject.toml names."""
    return re.findall(r'^version = "(.+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)[0]


def due(root: Path = ROOT) -> list[Due]:
    """The checks that were never run whole, and those that are older than what they opened."""
    files, found = tree(root), []
    for name in names():
        check, kept = module(name), record(name, root)
        minutes = kept.get("minutes", 0.0)
        if hasattr(check, "cases"):
            now, then = cases(check, files, root), kept.get("cases", {})
            if changed := tuple(case for case in now if then.get(case) != now[case]):
                part = len(changed) / len(now)
                found.append(Due(name, minutes * part, f"{len(changed)} of {len(now)} cases", changed))
        elif hasattr(check, "RELEASED"):
            if kept.get("digest") != of_a_release(check, files, root):
                found.append(Due(name, minutes, "not run for this version"))
        elif "opened" not in kept:
            found.append(Due(name, minutes, NEVER))
        elif kept["digest"] != digest(kept["opened"], files):
            found.append(Due(name, minutes, "older than what it opened"))
    return found


def cases(check: ModuleType, files: Tree, root: Path) -> dict[str, str]:
    """A digest for each case of what it depends on."""
    return {case: digest(paths, files) for case, paths in check.cases(root).items()}


def record(name: str, root: Path = ROOT) -> dict[str, Any]:
    """What the last run left; nothing before the first."""
    place = root / "docs" / "assurance" / f"{name}.json"
    found: dict[str, Any] = json.loads(place.read_text()) if place.is_file() else {}
    return found


def rooms(root: Path = ROOT) -> dict[str, float]:
    """The minutes of what is due where one file of a room changes: of the dearest file."""
    files, most = tree(root), dict[str, float]()
    dear = dict.fromkeys(files, 0.0)
    for name in names():
        check, kept = module(name), record(name, root)
        if hasattr(check, "cases"):
            every = check.cases(root)
            shares = [(path, 1 / len(every)) for paths in every.values() for path in paths]
        else:
            touched = (
                [f for f in files if f.startswith(check.RELEASED)]
                if hasattr(check, "RELEASED")
                else kept.get("opened", [])
            )
            shares = [(path, 1.0) for path in touched]
        for path, share in shares:
            if path in dear:
                dear[path] += share * kept.get("minutes", 0.0)
    for path, minutes in dear.items():
        room = "/".join(Path(path).parts[:-1][:2]) or path
        most[room] = max(most.get(room, 0.0), minutes)
    return {room: minutes for room, minutes in most.items() if minutes}


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
