# SPDX-License-Identifier: Apache-2.0
"""Draws the rooms of the package from its imports, at the head of docs/design.md.

Run it at the root: `python tools/draw_rooms.py`. It also prints how many arrows there are between
rooms, how many lead up, and how many circles there are among modules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOMS = ("app", "evidence", "engines", "adapters", "face", "counts", "ledger", "noise", "privacy", "ground")
FILES = {  # the files of the package's root by their room; all else is in the room of its folder
    "__main__.py": "app",
    **dict.fromkeys(("__init__.py", "former.py", "numba.py", "postprocess.py", "testing.py"), "face"),
    **dict.fromkeys(
        ("_dpf", "_native.py", "errors.py", "loading.py", "paths.py", "system.py", "terminal.py"), "ground"
    ),
}
AT_ONCE, LATE = "●", "○"
STATEMENTS = ast.stmt, ast.ExceptHandler, ast.match_case  # and what holds them
HEAD = "<!-- rooms:start -->\n```\n"
END = "```\n<!-- rooms:end -->"


class Import(NamedTuple):
    """A name that a module imports. at_once: not in a function, nor for type checkers alone.

    The name is "?" where it is computed.
    """

    name: str
    at_once: bool


def room(path: str) -> str:
    """The room of a path below dpfast/."""
    return FILES.get(path) or path.partition("/")[0]


@cache
def read(text: str) -> tuple[Import, ...]:
    """Every import of a module, wherever in it; in expressions, where a word of theirs is there."""
    kinds = (ast.AST,) if re.search(r"\b(import_module|__import__|exec|eval)\b", text) else STATEMENTS
    return tuple(_imports(ast.parse(text), kinds, at_once=True))


def _imports(node: ast.AST, kinds: tuple[type[ast.AST], ...], *, at_once: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, kinds):
            continue
        late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
        )
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_once and not late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            of = "." * child.level + (child.module or "")
            yield from (Import(f"{of}.{alias.name}", at_once and not late) for alias in child.names)
        elif isinstance(child, ast.Call) and (name := _computed(child)):
            yield Import(name, at_once=False)
        yield from _imports(child, kinds, at_once=at_once and not late)


def _computed(call: ast.Call) -> str:
    """The name of a module that a call imports; "" if it imports none."""
    called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if called in {"import_module", "__import__"}:
        literal = call.args[0] if call.args else None
        return literal.value if isinstance(literal, ast.Constant) and isinstance(literal.value, str) else "?"
    return "?" if called in {"exec", "eval"} and isinstance(call.func, ast.Name) else ""


def modules(root: Path) -> dict[str, tuple[Import, ...]]:
    """What each module of the package imports, by its path below dpfast/."""
    home = root / "dpfast"
    return {path.relative_to(home).as_posix(): read(path.read_text("utf-8")) for path in sorted(home.rglob("*.py"))}


def target(name: str, paths: frozenset[str] | dict[str, tuple[Import, ...]]) -> str | None:
    """The file of the package that an import of a name reads; None if it is of another package."""
    package, *parts = name.split(".")
    if package != "dpfast":
        return None
    if parts[:1] == ["_dpf"]:
        return "_dpf"
    for upto in range(len(parts), 0, -1):
        for path in ("/".join(parts[:upto]) + ".py", "/".join([*parts[:upto], "__init__.py"])):
            if path in paths:
                return path
    return "__init__.py"


def graph(root: Path) -> dict[str, dict[str, bool]]:
    """Which modules each module imports, and whether at once."""
    found = modules(root)
    every: dict[str, dict[str, bool]] = {path: {} for path in (*found, "_dpf")}
    for path, names in found.items():
        for name, at_once in names:
            if (to := target(name, found)) is not None and to != path:
                every[path][to] = at_once or every[path].get(to, False)
    return every


def arrows(root: Path) -> dict[tuple[str, str], bool]:
    """Which rooms import from which others, and whether at once."""
    found: dict[tuple[str, str], bool] = {}
    for path, targets in graph(root).items():
        for to, at_once in targets.items():
            if (pair := (room(path), room(to)))[0] != pair[1]:
                found[pair] = at_once or found.get(pair, False)
    return found


def circles(root: Path) -> list[list[str]]:
    """Modules that import each other in a circle, late imports and those for types included."""
    imported = graph(root)
    reached: dict[str, set[str]] = {}
    for start in imported:
        seen: set[str] = set()
        left = list(imported[start])
        while left:
            if (path := left.pop()) not in seen:
                seen.add(path)
                left += imported[path]
        reached[start] = seen
    within = [path for path in imported if path in reached[path]]
    return sorted(
        {tuple(sorted(each for each in within if each in reached[path] and path in reached[each])) for path in within}
    )  # type: ignore[arg-type, return-value]


def upward(root: Path) -> list[tuple[str, str]]:
    """Which rooms import from one that stands above."""
    return [(one, other) for one, other in arrows(root) if ROOMS.index(one) > ROOMS.index(other)]


def holds(root: Path, name: str) -> list[str]:
    """The folders and files of a room."""
    home = root / "dpfast"
    if name in FILES.values():
        listed = [path for path, of in FILES.items() if of == name and path not in {"__main__.py", "_dpf"}]
        if name != "app":
            return sorted(path.removesuffix(".py") for path in listed)
    paths = [path for path in (home / name).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return sorted(path.stem + "/" * path.is_dir() for path in paths if path.stem != "__init__")


def drawn(root: Path) -> str:
    """A line for each room: what it imports, and what it holds."""
    found = arrows(root)
    if unknown := {name for pair in found for name in pair} - set(ROOMS):
        raise ValueError(f"no room of ROOMS: {unknown}")
    lines = [" " * 11 + "  ".join(ROOMS)]
    for one in ROOMS:
        marks = (
            ("╲" if one == other else {True: AT_ONCE, False: LATE, None: " "}[found.get((one, other))])
            for other in ROOMS
        )
        cells = "  ".join(f"{mark:^{len(other)}}" for mark, other in zip(marks, ROOMS, strict=True))
        lines.append(f"{one:<11}{cells}".rstrip())
    lines.append("")
    for one in ROOMS:
        inside = holds(root, one)
        if len(inside) > 10:
            inside = [*inside[:9], "…"]
        lines.append(f"{one:<11}{' '.join(inside)}")
    return "\n".join(lines) + "\n"


def redrawn(page: str, root: Path) -> str:
    """The page with the picture of this tree."""
    return re.sub(rf"(?<={re.escape(HEAD)}).*?(?={re.escape(END)})", lambda _: drawn(root), page, flags=re.DOTALL)


def main() -> None:
    root = Path()
    page = root / "docs" / "design.md"
    page.write_text(redrawn(page.read_text("utf-8"), root), "utf-8")
    found, up = arrows(root), upward(root)
    late = [pair for pair, at_once in found.items() if not at_once]
    print(f"{len(found)} arrows between {len(ROOMS)} rooms, {len(late)} of them late or for types: {late}")  # noqa: T201
    print(f"upward: {up}; circles among modules: {circles(root)}")  # noqa: T201


if __name__ == "__main__":
    main()
