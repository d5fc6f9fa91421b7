# SPDX-License-Identifier: Apache-2.0
"""Who may import whom (docs/design.md), who may touch what, and that every law has its proof."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dpfast"
STANDARD = {"__future__", "bisect", "collections", "contextlib", "csv", "dataclasses", "decimal", "fractions", "functools",
            "hashlib", "hmac", "html", "importlib", "io", "json", "math", "numbers", "os", "re", "secrets", "signal", "stat",
            "sys", "tempfile", "threading", "traceback", "types", "typing", "warnings", "pathlib", "platform", "textwrap",
            "shutil", "time", "struct", "errno", "itertools", "enum", "string", "operator", "abc", "logging", "gc",
            "pickle", "statistics", "ctypes", "weakref", "sqlite3", "datetime", "mmap", "fcntl"}  # fmt: skip

# Room: what it may import beside the standard library, inside functions included.
ROOMS: dict[str, set[str]] = {
    "errors.py": set(),
    "privacy": {"dpfast.errors", "dpfast.exact", "dpfast.privacy", "flint"},
    "_native.py": {"dpfast._dpf", "dpfast.errors", "numpy"},
    "exact": {"dpfast.errors", "dpfast.exact", "flint"},
    "key.py": {"dpfast.errors", "blake3"},
    "kernels": {"dpfast._native", "dpfast.kernels", "numba", "llvmlite", "numpy"},
    "arrays.py": {"dpfast.errors", "dpfast.privacy", "numpy"},
    "fixed_point.py": {"dpfast.arrays", "dpfast.errors", "dpfast.kernels", "dpfast.privacy", "numpy"},
    "engine.py": {"dpfast._native", "dpfast.arrays", "dpfast.errors", "dpfast.kernels", "numpy"},
    "testing.py": {"dpfast.key", "dpfast.privacy"},
    "adapters": {"dpfast", "dpfast.adapters", "dpfast.errors", "numpy"},  # and each its library
    "bit_generator.py": {"dpfast._native", "dpfast.errors", "dpfast.privacy", "numpy"},
    "random_bytes.py": {"dpfast._native", "dpfast.errors", "dpfast.privacy", "numpy", "typing_extensions"},
    "ledger": {"dpfast.errors", "dpfast.key", "dpfast.ledger", "dpfast.mechanisms", "dpfast.privacy"},
    "columns.py": {"dpfast.arrays", "dpfast.errors", "numpy"},
    "bounded_histogram.py": {"dpfast.arrays", "dpfast.columns", "dpfast.errors", "dpfast.kernels", "dpfast.key", "dpfast.privacy",
                             "numpy"},
    "postprocess.py": {"dpfast.errors", "dpfast.privacy", "numpy"},
    "thresholded.py": {"dpfast.arrays", "dpfast.errors", "dpfast.mechanisms", "dpfast.privacy", "numpy"},
    "mechanisms": {"dpfast", "dpfast._native", "dpfast.adapters", "dpfast.arrays", "dpfast.engine", "dpfast.errors", "dpfast.exact", "dpfast.kernels",
                   "dpfast.key", "dpfast.mechanisms", "dpfast.privacy", "numpy"},
    "selftest": {"dpfast", "dpfast._native", "dpfast.audit", "dpfast.errors", "dpfast.exact", "dpfast.kernels", "dpfast.selftest",
                 "dpfast.testing", "flint", "numpy"},  # the one that may reach private tiers
}  # fmt: skip
LIBRARIES = {
    "arrow": {"pyarrow"},
    "pandas": {"pandas", "pyarrow"},
    "pipeline_dp": {"pipeline_dp"},
    "smartnoise": {"snsql"},
    "tumult": {"tmlt", "pandas"},
}  # of an adapter, where it is not its own name
TOP = {"cli", "files.py", "csv_text.py", "publish.py", "plots.py", "__main__.py", "__init__.py", "bench", "audit"}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                place = ROOT.joinpath(*name.split("."))
                found.add(name if place.with_suffix(".py").exists() or place.is_dir() else str(node.module))
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_import_what_they_may(path: Path) -> None:
    """Each module imports only what its room is allowed; only the command line sees the files, the plots and click."""
    if room(path) in TOP:
        return
    allowed = ROOMS[room(path)]
    if room(path) == "adapters":
        allowed = allowed | LIBRARIES.get(path.stem, {path.stem})
    for name in imports(path):
        top = name.split(".")[0]
        ok = top in STANDARD or any(name == a or name.startswith(f"{a}.") for a in allowed - {"dpfast"})
        assert ok or (name in {"dpfast", "dpfast.__version__"} and "dpfast" in allowed), (
            f"{path.name} may not import {name}"
        )


def test_the_command_line_is_imported_by_nobody() -> None:
    """cli, files, csv_text, publish and plots stay out of the library."""
    private = {"dpfast.cli", "dpfast.files", "dpfast.csv_text", "dpfast.publish", "dpfast.plots", "dpfast.selftest"}
    for path in PACKAGE.rglob("*.py"):
        if room(path) not in TOP:
            assert not imports(path) & private


def test_numba_and_the_c_module_have_one_door_each() -> None:
    """Only dpfast/kernels imports numba; only _native imports the C module."""
    for path in PACKAGE.rglob("*.py"):
        names = imports(path)
        assert room(path) == "kernels" or not any(n.split(".")[0] in {"numba", "llvmlite"} for n in names), path
        assert path.name == "_native.py" or "dpfast._dpf" not in names, path


def test_laws_ask_nothing_of_the_system() -> None:
    """csrc/<law>.c and decide.h: no operating system, no CPU detection, no allocation, no libm, no Python."""
    for name in ("discrete_laplace.c", "decide.h", "stream.c"):
        text = (ROOT / "csrc" / name).read_text()
        for word in ("getrandom", "cpu_supports", "malloc", "<math.h>", "Python.h", "<stdio.h>"):
            assert word not in text, f"{name} mentions {word}"
    asks = [p.name for p in (ROOT / "csrc").glob("*.c") if "getrandom(" in p.read_text()]
    assert asks == ["entropy.c"]


LAWS = [
    path
    for path in sorted((PACKAGE / "mechanisms").glob("*.py"))
    if f'LAW: ClassVar[str] = "{path.stem}"' in path.read_text()
]


@pytest.mark.parametrize("path", LAWS, ids=lambda p: p.stem)
def test_a_law_is_one_name_in_four_places(path: Path) -> None:
    """csrc/<law>.c, its proof csrc/<law>.md, dpfast/mechanisms/<law>.py and tests/test_<law>.py."""
    law = path.stem
    assert "discrete_laplace" in {path.stem for path in LAWS}
    for place in (f"csrc/{law}.c", f"csrc/{law}.md", f"tests/test_{law}.py"):
        assert (ROOT / place).is_file(), f"{law} has no {place}"
    assert len((ROOT / f"csrc/{law}.md").read_text()) > 1000


def test_names_of_files_say_their_room() -> None:
    """No utils, helpers, common or misc."""
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "csrc").iterdir(), *(ROOT / "tests").glob("*.py")]:
        assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
