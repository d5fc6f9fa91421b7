# SPDX-License-Identifier: Apache-2.0
"""Moves the files of an older layout to the rooms of docs/design.md, and names them anew in texts.

Run it at the root of a branch that was cut before the move, commit, then merge or rebase. A second
run finds nothing to do.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

# The tests by the room that they are about. `csrc` and `house` (the tree itself) are no rooms of the
# package.
TESTS = {
    "csrc": "bounds build extension key_on_stack keys_are_wiped normal_bounds proofs self_check stream",
    "privacy": "accounting_units composition exact formatting gaussian_privacy guarantee meaning parameters record sensitivity"
    " special_cases weak_guarantee",
    "noise": "above_threshold arrays bit_generator bounded_counts changing_arrays constant_work discrete_gaussian discrete_laplace"
    " equals failure gaussian key laplace laws no_raw_store noise_source one_sided_geometric processes public_inputs random_bytes"
    " randomized_response real_arrays real_intervals saturation sealed selection shared_keys small snapping timing",
    "ledger": "ledger ledger_place ledger_races ledger_restored",
    "counts": "bounded_histogram bounded_rows fixed_point_sum postprocess small_worlds thresholded trees",
    "face": "attacks everyday_tasks hostile kept nothing_private_is_shown one_noise types",
    "adapters": "adapters frames adapter_arrow adapter_arrow_capsules adapter_columns adapter_diffprivlib adapter_dlpack"
    " adapter_dp_accounting adapter_opacus adapter_opendp adapter_pandas adapter_pipeline_dp adapter_polars adapter_smartnoise"
    " adapter_tumult",
    "engines": "jobs adapter_dask adapter_duckdb adapter_polars_lazy adapter_spark",
    "evidence": "audit bench sampler selftest statistics",
    "app": "atomic_write cli csv_text everyday_files files groups held histogram_again histogram_cli histogram_hostile"
    " histogram_worlds looks passed privatize_again privatize_hostile refused_cells report terminal unheard written_meanwhile",
    "house": "assurance deep examples fuzz gallery gof layers mutation package packaging sdist sentences site skips"
    " tests words",
}
# The package: what a folder or a file of it has become.
PACKAGE = {
    "exact": "privacy/exact",
    **{name: f"noise/{name}" for name in ("kernels", "mechanisms", "random", "release")},
    **{name: f"counts/{name}" for name in ("postprocess.py", "records", "trees")},
    "testing.py": "noise/release/fixed_key.py",
    "jobs": "engines/jobs",
    **{f"adapters/{name}.py": f"engines/{name}.py" for name in ("dask", "duckdb", "spark")},
    "adapters/polars_lazy.py": "engines/polars.py",
    **{name: f"evidence/{name}" for name in ("audit", "bench", "selftest", "statistics.py")},
    **{name: f"app/{name}" for name in ("cli", "pictures", "report", "tables")},
}
HANDED_ON = "postprocess.py", "testing.py"  # whose names stay: a file of the same name has them from the new place
ROOMS = {
    "noise": "The laws and their release: values in, noisy values out.",
    "counts": "From rows to counts, and what is computed from noisy counts.",
    "engines": "Sealed releases on engines, a file each; `jobs` is what all of them do (docs/engines.md).",
    "evidence": "What a sceptic runs: the self-test, audits, benchmarks, and the statistics behind them.",
    "app": "What a person at a terminal meets: commands, files, reports, pictures.",
}
TEXTS = {".py", ".pyi", ".md", ".c", ".h", ".sh", ".toml", ".gappa", ".sollya", ".json", ".yml", ""}
KEPT = (  # what tells of the past, and this
    "docs/assurance/", "tests/vectors/", "tests/face/test_kept.py", "dpfast/former.py", "CHANGELOG.md", "tools/rooms.py",
)  # fmt: skip
WIDTH = 100  # characters that a line of prose has at most

_WORD = r"\w+(?: as \w+)?"
_IMPORT = re.compile(
    rf"(?P<start>^[ ]*(?:>>> |\.\.\. )?)?from (?P<of>dpfast[\w.]*) import (?P<names>\((?:\s*{_WORD},?)+\s*\)|{_WORD}(?:, ?{_WORD})*)"
    r"(?P<end>[ ]*# noqa[^\n]*)?",
    re.MULTILINE,
)


LATE = re.compile(r"^(from \S+ import) \(\n((?:    \w+,  # noqa: E402\n)+)\)", re.MULTILINE)


def together(found: re.Match[str]) -> str:
    """Names on a line of their own each, for the sake of a remark: on one line with the remark."""
    names = ", ".join(re.findall(r"(\w+),  #", found[2]))
    return f"{found[1]} {names}  # noqa: E402"


def dotted(path: str) -> str:
    return "dpfast." + path.removesuffix(".py").replace("/", ".")


MODULES = {dotted(old): dotted(new) for old, new in PACKAGE.items() if old not in HANDED_ON}
MODULES["dpfast.tables.atomic_write"] = "dpfast.paths"


def either(names: object) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))  # type: ignore[call-overload]


def tests_moved() -> dict[str, str]:
    """Old path to new path, of all tests that are to move."""
    found = {}
    for room, names in TESTS.items():
        for name in names.split():
            found[f"tests/test_{name}.py"] = f"tests/{room}/test_{name.removeprefix('adapter_')}.py"
    return found


def place(path: str) -> str:
    """Where a file belongs: a test, or a part of the package, in whatever copy of the tree."""
    moved = tests_moved().get(path, path)
    for old, new in PACKAGE.items():
        moved = re.sub(rf"(?<!\w)dpfast/{re.escape(old)}(?=/|$)", f"dpfast/{new}", moved, count=1)
        if moved != path:
            break
    return moved


def imported(found: re.Match[str]) -> str:
    """An import from a room, in as many as its names are in now."""
    by_room: dict[str, list[str]] = {}
    for name in re.findall(_WORD, found["names"]):
        bare, _, given = name.partition(" as ")
        new = MODULES.get(f"{found['of']}.{bare}")
        room, _, now = new.rpartition(".") if new else (found["of"], "", bare)
        given = given or bare
        by_room.setdefault(room, []).append(now if now == given else f"{now} as {given}")
    if list(by_room) == [found["of"]]:
        return found[0]
    start, end = found["start"], found["end"] or ""
    lines = [f"from {room} import {', '.join(names)}" for room, names in sorted(by_room.items())]
    return "; ".join(lines) + end if start is None else "\n".join(f"{start}{line}{end}" for line in lines)


def renamed(text: str) -> str:
    """A text that names the new places."""
    for old, new in tests_moved().items():
        text = re.sub(rf"(?<![\w/]){re.escape(old)}", new, text)
        before, after = Path(old).stem, Path(new).stem
        if before != after:
            text = re.sub(rf"\b{before}\b", after, text)
    text = re.sub(r"(?<=# or )polars_lazy\b|(?<=, \.)polars_lazy\b", "polars", _IMPORT.sub(imported, text))
    text = re.sub(rf"(?<![\w.])({either(MODULES)})\b", lambda found: MODULES[found[1]], text)
    moved = {old: new for old, new in PACKAGE.items() if old not in HANDED_ON}
    text = re.sub(rf"(?<!\w)dpfast/({either(PACKAGE)})(?!\w)", lambda found: f"dpfast/{PACKAGE[found[1]]}", text)

    def parts(found: re.Match[str]) -> str:
        return '"dpfast" / ' + " / ".join(f'"{part}"' for part in moved[found[1]].split("/"))

    text = re.sub(rf'"dpfast" / "({either(moved)})"', parts, text)
    text = re.sub(rf"(?<=[`\"])({either(moved)})(?=/[`\"])", lambda found: moved[found[1]], text)

    def short(found: re.Match[str]) -> str:
        new = moved.get(found[0]) or f"{moved.get(found[1], '?')}/{found[2]}"
        return new if Path("dpfast", new).is_file() else found[0]

    return re.sub(r"(?<![\w/.-])(\w+)/(\w+\.py|<law>\.py)", short, text)


# ------------------------------------------------------------------ prose that has grown


def wrapped(before: str, after: str, path: Path) -> str:
    """The text after a renaming: lines of prose that are too long give words to the next one."""
    old, lines = set(before.split("\n")), after.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if len(line) > WIDTH and line not in old and at in prose("\n".join(lines), path):
            mark = re.match(r"\s*(?:#\s*|//\s*)?", line)
            head = mark[0] if mark else ""
            item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
            kept, _, more = line[: WIDTH + 1].rpartition(" ")
            more = f"{more}{line[WIDTH + 1 :]}"
            follows = lines[at + 1] if at + 1 < len(lines) else ""
            indent = " " * len(item[0]) if item else head
            goes_on = follows.startswith(indent) and follows.strip(" #/\"'") and at + 1 in prose("\n".join(lines), path)
            begins = r"[-*|#]|\d+\.|```|>>>" + ("" if path.suffix == ".md" else r"|\w+(?:, \w+)*: ")
            fresh = re.match(rf"\s*(?:{begins})", follows[len(indent) :] if "#" in head else follows)
            if goes_on and not fresh and follows[len(indent) : len(indent) + 1] != " ":
                lines[at : at + 2] = [kept, f"{indent}{more} {follows[len(indent) :]}"]
            else:
                lines[at : at + 1] = [kept, f"{indent}{more}"]
        at += 1
    return "\n".join(lines)


def prose(text: str, path: Path) -> set[int]:
    """The lines of a page, or of comments and docstrings, from 0."""
    lines = text.split("\n")
    if path.suffix == ".md":
        fenced, found = False, set()
        for at, line in enumerate(lines):
            fenced ^= line.startswith("```")
            if not fenced and not line.startswith(("|", "```", "#", "    ")):
                found.add(at)
        return found
    if path.suffix != ".py":
        return set()
    found = {at for at, line in enumerate(lines) if line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            said, example = node.body[0], False
            for at in range(said.lineno - 1, said.end_lineno or 0):
                deep = lines[at].startswith(" " * (said.col_offset + 4))
                example = deep and (example or not lines[at - 1].strip())  # an indented block after an empty line
                if not example:
                    found.add(at)
    return found


# ------------------------------------------------------------------ the tree


def listed() -> list[str]:
    found = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    return [path for path in found if path and not path.startswith(KEPT)]


def hand_on(front: Path, module: Path) -> None:
    """Write a file that hands on the public names of a module, and says what they are for."""
    text = module.read_text(encoding="utf-8")
    tree = ast.parse(text)
    said = ast.get_docstring(tree, clean=False) or ""
    [names] = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    public = sorted(ast.literal_eval(names))
    of, first = dotted(module.relative_to("dpfast").as_posix()), said.split("\n")[0]
    front.write_text(
        f'# SPDX-License-Identifier: Apache-2.0\n"""{said}"""\n\n'
        f"from {of} import {', '.join(public)}\n\n__all__ = {public!r}\n",
        encoding="utf-8",
    )
    module.write_text(text.replace(f'"""{said}"""', f'"""{first}"""', 1), encoding="utf-8")


def move() -> list[Path]:
    """Move all files, and return those that were made."""
    made = []
    for path in listed():
        name = path.removeprefix("dpfast/")
        if name in HANDED_ON and Path("dpfast", PACKAGE[name]).is_file():
            continue  # it hands on names already
        if (new := place(path)) != path and Path(path).is_file():
            Path(new).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", path, new], check=True)
    for room, text in ROOMS.items():
        if not (first := Path("dpfast", room, "__init__.py")).is_file():
            first.write_text(f'# SPDX-License-Identifier: Apache-2.0\n"""{text}"""\n', encoding="utf-8")
            made.append(first)
    for name in HANDED_ON:
        if not (front := Path("dpfast", name)).is_file():
            hand_on(front, Path("dpfast", PACKAGE[name]))
            made.append(front)
    for old in PACKAGE:
        folder = Path("dpfast", old)
        left = [each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
        if folder.is_dir() and not left:
            shutil.rmtree(folder)  # what was compiled there
    return made


def main() -> None:
    changed = [str(path) for path in move()]
    for path in map(Path, listed()):
        if path.is_file() and path.suffix in TEXTS:
            text = path.read_text(encoding="utf-8")
            if (new := renamed(text)) != text:
                path.write_text(wrapped(text, new, path), encoding="utf-8")
                changed.append(str(path))
    python = [path for path in changed if path.endswith(".py")]
    if python:
        ruff = [sys.executable, "-m", "ruff"]
        subprocess.run([*ruff, "check", "-q", "--select", "I", "--fix", *python], check=True)
        for path in map(Path, python):
            path.write_text(LATE.sub(together, path.read_text(encoding="utf-8")), encoding="utf-8")
        subprocess.run([*ruff, "format", "-q", *python], check=True)
    subprocess.run(["git", "add", "--all", "dpfast"], check=True)


if __name__ == "__main__":
    main()
