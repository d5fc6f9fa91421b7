# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/design.md: who imports whom, who touches what; with planted violations."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import tiers
from places import ROOT

from dpfast.noise.mechanisms.laws import own_laws

PUBLIC = {"dpfast", "dpfast.errors", "dpfast.ledger", "dpfast.noise.mechanisms", "dpfast.privacy", "dpfast.testing"}

# Room: what it may import beside the standard library, in functions too. "dpfast": a public name.
ROOMS: dict[str, set[str]] = {
    "errors.py": set(),
    "privacy": {"dpfast.errors", "dpfast.privacy.exact", "dpfast.privacy", "flint", "numpy"},
    "_native.py": {"dpfast._dpf", "dpfast.errors", "numpy"},
    "loading.py": {"dpfast._native"},
    "paths.py": {"dpfast.errors"},
    "exact": {"dpfast.errors", "dpfast.privacy.exact", "dpfast.loading", "flint"},
    "statistics.py": {"dpfast.privacy.exact", "flint", "numpy"},
    "kernels": {"dpfast.noise.kernels", "dpfast.loading", "dpfast.paths", "numba", "llvmlite", "numpy"},
    "release": {"dpfast.errors", "dpfast.privacy", "numpy"},
    "testing.py": {"dpfast.privacy", "dpfast.noise.release.key", "dpfast.noise.release.secret"},
    "adapters": {"dpfast", "dpfast.adapters", "dpfast.errors", "numpy"},  # and each its library
    "random": {"dpfast._native", "dpfast.errors", "dpfast.privacy", "numpy", "typing_extensions"},
    "ledger": {"dpfast.errors", "dpfast.ledger", "dpfast.noise.mechanisms", "dpfast.paths", "dpfast.privacy", "dpfast.noise.release.counts", "dpfast.noise.release.key", "dpfast.noise.release.seal", "dpfast.noise.release.secret"},
    "records": {"dpfast.errors", "dpfast.noise.kernels", "dpfast.privacy", "dpfast.counts.records", "dpfast.noise.release.arrays", "dpfast.noise.release.columns", "dpfast.noise.release.counts", "dpfast.noise.release.key", "dpfast.noise.release.names", "dpfast.noise.release.secret", "numpy"},
    "trees": {"dpfast.errors", "dpfast.noise.kernels", "dpfast.privacy", "dpfast.noise.release.arrays", "dpfast.counts.trees", "numpy"},
    "postprocess.py": {"dpfast.errors", "dpfast.privacy", "dpfast.noise.release.arrays", "numpy"},
    "mechanisms": {"dpfast", "dpfast._native", "dpfast.errors", "dpfast.privacy.exact", "dpfast.noise.kernels", "dpfast.noise.mechanisms", "dpfast.privacy",
                   "dpfast.noise.release", "numpy"},
    "__init__.py": {"dpfast", "dpfast.adapters", "dpfast.errors", "dpfast.ledger", "dpfast.noise.mechanisms", "dpfast.postprocess", "dpfast.privacy",
                    "dpfast.noise.random", "dpfast.counts.records", "dpfast.noise.release.key", "dpfast.testing", "dpfast.counts.trees"},
    "__main__.py": {"dpfast.app.cli"},
    "cli": PUBLIC | {"dpfast.evidence.audit", "dpfast.evidence.bench", "dpfast.app.cli", "dpfast.engines.jobs", "dpfast.paths", "dpfast.app.pictures", "dpfast.noise.release.arrays", "dpfast.app.report", "dpfast.evidence.selftest", "dpfast.app.tables",
                     "dpfast.terminal", "click", "numpy"},
    "jobs": PUBLIC | {"blake3", "dpfast._native", "dpfast.engines.jobs", "dpfast.counts.records", "dpfast.noise.release", "dpfast.paths", "numpy", "pyarrow"},
    "report": PUBLIC | {"dpfast.app.report", "dpfast.terminal"},
    "terminal.py": {"rich"},
    "tables": {"blake3", "dpfast.errors", "dpfast.paths", "dpfast.noise.release.arrays", "dpfast.noise.release.blocks", "dpfast.app.tables", "numpy", "pyarrow"},
    "pictures": PUBLIC | {"dpfast.evidence.audit", "dpfast.evidence.bench.curves", "dpfast.evidence.bench.measure", "dpfast.evidence.bench.report", "dpfast.evidence.bench.sampler", "dpfast.app.pictures",
                           "dpfast.paths", "matplotlib", "numpy"},
    "audit": PUBLIC | {"dpfast.evidence.audit", "dpfast.privacy.exact", "dpfast.evidence.statistics", "dpfast.terminal", "numpy"},
    "bench": PUBLIC | {"dpfast.evidence.bench", "dpfast.paths", "dpfast.terminal", "numpy"},
    "selftest": PUBLIC | {"dpfast._native", "dpfast.evidence.audit", "dpfast.privacy.exact", "dpfast.noise.kernels", "dpfast.evidence.selftest", "dpfast.evidence.statistics", "dpfast.terminal", "flint", "numpy"},
}  # fmt: skip
# What one file may import beyond its room.
BEYOND = {
    "adapters/arrow.py": {"pyarrow"},
    "adapters/arrow_capsules.py": {"dpfast._native"},  # a result may be released after Python has ended
    "engines/dask.py": {"distributed", "dpfast.engines.jobs", "pyarrow"},
    "engines/duckdb.py": {"dpfast.engines.jobs", "pyarrow"},
    "adapters/pandas.py": {"pandas", "pyarrow"},
    "engines/polars.py": {"dpfast.engines.jobs", "polars", "pyarrow"},
    "engines/spark.py": {"dpfast.engines.jobs", "pyarrow", "pyspark"},
    "adapters/pipeline_dp.py": {"pipeline_dp"},
    "adapters/smartnoise.py": {"snsql"},
    "adapters/tumult.py": {"tmlt", "pandas"},
    "privacy/exact/binomial.py": {"numpy"},  # near_bound takes arrays
    "evidence/bench/curves.py": {"dpfast.noise.release.engine"},  # what ran: threads, instruction set, cache
    "evidence/bench/measure.py": {"dpfast._native", "dpfast.noise.release.engine"},
    "evidence/bench/peers.py": {"diffprivlib", "opendp", "pydp", "randomgen"},
    "evidence/bench/rows.py": {"dpfast.noise.release.engine"},
    "evidence/bench/sampler.py": {
        "dpfast.evidence.audit",
        "dpfast.evidence.selftest.processes",
        "dpfast.evidence.statistics",
    },  # the tests that there are
    "app/cli/histogram.py": {
        "dpfast.counts.records.bounded_histogram",
        "dpfast.counts.records.partitions",
        "dpfast.noise.release.seal",
    },  # what bounds a unit, and a threshold, before a row is read; a manifest
    "app/cli/info.py": {"dpfast._native", "dpfast.noise.release.engine", "dpfast.noise.kernels"},
    "app/cli/privatize.py": {"dpfast.noise.release.engine"},  # how many threads it may use
    "counts/records/bounded_histogram.py": {
        "dpfast.noise.mechanisms",
        "dpfast.ledger",
        "dpfast.counts.trees",
    },  # its results are released
    "counts/records/payment.py": {"dpfast.ledger", "dpfast.noise.release.seal"},  # who pays, and what is drawn then
    "counts/records/partitions.py": {
        "dpfast.noise.mechanisms",
        "dpfast.ledger",
    },  # it draws noise: the rest of records/ never does
    "counts/trees/noise.py": {
        "dpfast.noise.mechanisms",
        "dpfast.noise.release.seal",
    },  # the one part that sees private counts, with the next
    "counts/trees/release.py": {
        "dpfast.ledger",
        "dpfast.noise.mechanisms",
        "dpfast.counts.records.payment",
        "dpfast.noise.release.blocks",
        "dpfast.noise.release.counts",
        "dpfast.noise.release.key",
    },
    "counts/trees/shape.py": {"dpfast.noise.release.columns"},
    "noise/release/arrays.py": {"dpfast.noise.release.counts", "dpfast.noise.release.layout"},
    "noise/release/counts.py": {"dpfast.noise.release.layout"},
    "noise/release/digits.py": {"dpfast._native", "dpfast.privacy.exact"},
    "noise/release/engine.py": {"dpfast._native", "dpfast.noise.release.arrays"},
    "noise/release/blocks.py": {
        "dpfast._native",
        "dpfast.noise.release.arrays",
        "dpfast.noise.release.engine",
        "dpfast.noise.release.names",
    },
    "noise/release/columns.py": {"dpfast.noise.release.arrays"},
    "noise/release/key.py": {"dpfast.noise.release.counts", "dpfast.noise.release.seal", "dpfast.noise.release.secret"},
    "noise/release/names.py": {"dpfast.noise.release.arrays", "dpfast.noise.release.columns"},
    "noise/release/seal.py": {
        "dpfast._native",
        "dpfast.noise.release.blocks",
        "dpfast.noise.release.names",
        "dpfast.noise.release.secret",
        "blake3",
    },
}
# Where a module's name is computed, and so is not read here: what a user or a table names.
COMPUTED = {
    "__init__.py",
    "adapters/__init__.py",
    "adapters/tumult.py",
    "evidence/audit/audited.py",
    "noise/kernels/__init__.py",
}
# Loops in mechanisms/ whose length is that of data, and why each may be.
LOOPS = {
    ("above_threshold.py", "_release"): "one answer after another is the mechanism",
    ("discrete_gaussian.py", "search"): "thresholds of a table",
    ("integer.py", "signed_table"): "cells of a table",
    ("mechanism.py", "ppf"): "public probabilities",
    ("randomized_response.py", "_respond"): "chunks of answers, and the answers that the kernel left open",
    ("randomized_response.py", "estimate"): "categories",
    ("selection.py", "_leaders"): "candidates that the kernel nominated",
}
C_FILES = {"arrow.c", "bit_generator.c", "chacha.c", "dispatch.c", "entropy.c", "self_check.c"}  # and isa_<name>.c
# What C files ask of the world, and the only files that may.
ASKS = {
    r"\bgetrandom\b|\bmmap\b|\bmadvise\b|<sys/|<unistd\.h>|<errno\.h>": {"arrow.c", "entropy.c"},
    r"cpu_supports|cpu_init|\bcpuid\b|\bgetauxval\b": {"machine.h"},
    r"<immintrin\.h>|<arm_\w+\.h>|\b_mm\d*_": {"isa_*.c", "machine.h"},
    r"<stdlib\.h>|<stdio\.h>|\bmalloc\b|\bcalloc\b|\brealloc\b|\bfree\(": {"arrow.c", "bit_generator.c"},
    r"<math\.h>|<fenv\.h>|<pthread\.h>|<time\.h>|<signal\.h>|\balloca\b": set(),
    r"\bPython\.h\b": {"capsule.h", "small.h"},
}  # fmt: skip


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def nodes(tree: ast.AST) -> dict[type, list[ast.AST]]:
    """Every node of a tree by its kind, walked once for all rules and copies."""
    found: dict[type, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree):
        found[type(node)].append(node)
    return found


def modules(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """The modules of the package: path below dpfast, tree."""
    for path in sorted((root / "dpfast").rglob("*.py")):
        yield str(path.relative_to(root / "dpfast")), parsed(path.read_text())


def imports(root: Path, tree: ast.AST) -> Iterator[str]:
    """Every module that a tree names, wherever in it; "?" where a name is computed."""
    yield from (alias.name for node in nodes(tree)[ast.Import] for alias in node.names)
    for node in nodes(tree)[ast.ImportFrom]:
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            place = root.joinpath(*name.split("."))
            found = name.startswith("dpfast.") and (place.with_suffix(".py").exists() or place.is_dir())
            yield name if found else "." * node.level + str(node.module)
    for node in nodes(tree)[ast.Call]:
        if called(node) in {"import_module", "__import__"}:
            literal = node.args[0] if node.args else None
            yield literal.value if isinstance(literal, ast.Constant) and isinstance(literal.value, str) else "?"
        elif called(node) in {"exec", "eval"} and isinstance(node.func, ast.Name):
            yield "?"


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def inside(name: str, allowed: set[str]) -> bool:
    return name in allowed or any(name.startswith(f"{one}.") for one in allowed - {"dpfast"})


# ---------------------------------------------------------------- rules: each yields what breaks it


def rooms_import_what_they_may(root: Path) -> Iterator[str]:
    for path, tree in modules(root):
        room = path.split("/")[0]
        if room not in ROOMS:
            yield f"{path}: no such room in docs/design.md"
            continue
        allowed = ROOMS[room] | BEYOND.get(path, set())
        if room == "adapters":
            allowed = allowed | {Path(path).stem}
        for name in imports(root, tree):
            if name == "?":
                if path not in COMPUTED:
                    yield f"{path}: imports a name that it computes"
            elif name.split(".")[0] not in sys.stdlib_module_names and not inside(name, allowed):
                yield f"{path}: may not import {name}"


def only_native_touches_the_c_module(root: Path) -> Iterator[str]:
    for path, tree in modules(root):
        named = (node for node in nodes(tree)[ast.ImportFrom] if node.module == "dpfast._native")
        taken = {alias.name for node in named for alias in node.names}
        attributes = (node for node in nodes(tree)[ast.Attribute] if isinstance(node.value, ast.Name))
        taken |= {node.attr for node in attributes if node.value.id == "_native"}
        if taken & {"ffi", "lib"}:
            yield f"{path}: takes ffi or lib from _native"


def mechanisms_leave_loops_over_data_to_kernels(root: Path) -> Iterator[str]:
    found = set()
    for path in sorted((root / "dpfast" / "noise" / "mechanisms").glob("*.py")):
        found |= {(path.name, name) for name in _loops(path.read_text())}
    yield from (f"mechanisms/{name}: {function} loops over data" for name, function in sorted(found - LOOPS.keys()))
    gone = sorted(LOOPS.keys() - found)
    yield from (f"tests/house/test_layers.py: {name}: {function} has no such loop" for name, function in gone)


@cache
def _loops(text: str) -> list[str]:
    """The functions of a module that loop over data."""
    functions = nodes(parsed(text))[ast.FunctionDef]
    return [function.name for function in functions if any(_over_data(node, function) for node in ast.walk(function))]


def _over_data(node: ast.AST, function: ast.FunctionDef) -> bool:
    """A loop over an array's size or items, or over what the function was given."""
    if isinstance(node, ast.While):
        course = node.test
    elif isinstance(node, ast.For | ast.comprehension):
        course = node.iter
        if isinstance(course, ast.Name) and course.id in {a.arg for a in function.args.args}:
            return True
    else:
        return False
    for part in ast.walk(course):
        if isinstance(part, ast.Attribute) and part.attr in {"size", "shape", "flat", "tolist"}:
            return True
        if isinstance(part, ast.Call) and called(part) in {"enumerate", "len", "ndindex", "nditer", "plain_runs"}:
            return True
    return False


def the_command_line_is_imported_by_nobody(root: Path) -> Iterator[str]:
    inner = {"__main__.py", "audit", "bench", "cli", "pictures", "report", "selftest", "tables", "terminal.py"}
    private = {f"dpfast.{Path(name).stem}" for name in inner - {"__main__.py"}}
    for path, tree in modules(root):
        if path.split("/")[0] not in inner | {"jobs"} and (
            found := [n for n in imports(root, tree) if inside(n, private)]
        ):
            yield f"{path}: imports {found[0]}"


def the_reference_is_independent(root: Path) -> Iterator[str]:
    for name in imports(root, parsed((root / "tests" / "reference.py").read_text())):
        if name.split(".")[0] not in {*sys.stdlib_module_names, "mpmath"}:
            yield f"tests/reference.py: imports {name}"


def c_files_have_a_room(root: Path) -> Iterator[str]:
    sources = [*sorted((root / "csrc").glob("*.[ch]")), root / "csrc/build_ffi.py"]
    text = "".join(path.read_text() for path in sources)
    for path in sorted((root / "csrc").iterdir()):
        if path.suffix == ".c" and not path.name.startswith(("_", "isa_")) and path.name not in C_FILES:
            yield f"csrc/{path.name}: no such file in docs/design.md"
        if path.suffix == ".h" and f'"{path.name}"' not in text:
            yield f"csrc/{path.name}: included by nobody"


def c_files_ask_what_they_may(root: Path) -> Iterator[str]:
    for path in sorted((root / "csrc").glob("*.[ch]")):
        if path.name.startswith("_"):
            continue
        for words, found in _asked(path.read_text()).items():
            if not any(path.match(pattern) for pattern in ASKS[words]):
                yield f"csrc/{path.name}: asks for {found}"


@cache
def _asked(text: str) -> dict[str, str]:
    return {words: found[0] for words in ASKS if (found := re.search(words, text))}


def laws_link_against_nothing(root: Path) -> Iterator[str]:
    """An instruction set's objects of laws and dispatch want our and the compiler's functions."""
    flags = ["-std=c11", "-O1", "-ffreestanding", "-fkeep-static-functions", "-fno-math-errno", "-w"]
    ours = r"dpf_\w+|mem(cpy|set|move|cmp)|__cpu_(model|indicator_init)|_GLOBAL_OFFSET_TABLE_"
    for name in ("isa_portable.c", "dispatch.c"):
        with tempfile.TemporaryDirectory() as folder:
            made = f"{folder}/{name}.o"
            command = ["gcc", *flags, "-c", f"csrc/{name}", "-o", made]
            built = subprocess.run(command, cwd=root, capture_output=True, check=False)
            wanted = subprocess.run(["nm", "-u", made], capture_output=True, text=True, check=False).stdout.split()
        if built.returncode:
            yield f"csrc/{name}: does not compile"
        for symbol in wanted:
            if symbol != "U" and not re.fullmatch(ours, symbol):
                places = [p.name for p in sorted((root / "csrc").glob("*.[ch]")) if f"{symbol}(" in p.read_text()]
                yield f"csrc/{name}: wants {symbol}, for {' or '.join(places)}"


def the_table_names_every_room(root: Path) -> Iterator[str]:
    """docs/design.md's table of imports and the one above speak of the same rooms."""
    rows = re.findall(r"^\| (`.+?) \| .* \| .* \|$", (root / "docs" / "design.md").read_text(), re.MULTILINE)
    named = {name.rstrip("/") for row in rows for name in re.findall(r"`([\w./<>]+)`", row)}
    for room in {*ROOMS, *BEYOND} - {"__init__.py", "__main__.py"}:
        if room not in named and not room.startswith("adapters"):
            yield f"docs/design.md: its table does not name {room}"


def files_say_their_room(root: Path) -> Iterator[str]:
    for folder, pattern in (("dpfast", "**/*.py"), ("csrc", "*"), ("tests", "**/*.py")):
        for path in (root / folder).glob(pattern):
            if path.stem in {"utils", "util", "helpers", "helper", "common", "misc"}:
                yield f"{path.relative_to(root)}: a name that says nothing"


def no_property_takes_a_lock(root: Path) -> Iterator[str]:
    """Before Python 3.12 functools.cached_property computes under one, which a fork leaves held."""
    for path, tree in modules(root):
        names = {node.attr for node in nodes(tree)[ast.Attribute]}
        names |= {alias.name for node in nodes(tree)[ast.ImportFrom] for alias in node.names}
        if "cached_property" in names and path != "noise/mechanisms/lockfree_property.py":
            yield f"{path}: takes functools.cached_property, for which there is lockfree_property"


RULES: tuple[Callable[[Path], Iterator[str]], ...] = (
    rooms_import_what_they_may,
    only_native_touches_the_c_module,
    mechanisms_leave_loops_over_data_to_kernels,
    the_command_line_is_imported_by_nobody,
    the_reference_is_independent,
    c_files_have_a_room,
    c_files_ask_what_they_may,
    laws_link_against_nothing,
    the_table_names_every_room,
    files_say_their_room,
    no_property_takes_a_lock,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(rule: Callable[[Path], Iterator[str]]) -> None:
    assert list(rule(ROOT)) == []


# ---------------------------------------------------------------------------- planted violations

END, START = "end", "start"
PLANTED = (
    (rooms_import_what_they_may, "dpfast/evidence/bench/report.py", END, "from dpfast import _native; from dpfast.noise import kernels"),
    (rooms_import_what_they_may, "dpfast/evidence/bench/report.py", END, "def _x(): from dpfast.app.pictures import bench"),
    (rooms_import_what_they_may, "dpfast/evidence/bench/curves.py", END, "import rich"),
    (rooms_import_what_they_may, "dpfast/evidence/bench/measure.py", END, "import dpfast.app.cli.bench"),
    (rooms_import_what_they_may, "dpfast/app/pictures/bench.py", END, "from dpfast.evidence.bench.rows import Arrays"),
    (rooms_import_what_they_may, "dpfast/noise/release/key.py", END, "def _x(): import dpfast.evidence.audit"),
    (rooms_import_what_they_may, "dpfast/privacy/meaning.py", END, "import numba"),
    (rooms_import_what_they_may, "dpfast/counts/trees/noisy_tree.py", END, "from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace"),
    (rooms_import_what_they_may, "dpfast/evidence/statistics.py", END, "from dpfast import DiscreteLaplace"),
    (no_property_takes_a_lock, "dpfast/counts/trees/noisy_tree.py", END, "from functools import cached_property"),
    (no_property_takes_a_lock, "dpfast/noise/release/arrays.py", END, "def _x(functools): return functools.cached_property"),
    (rooms_import_what_they_may, "dpfast/evidence/audit/law.py", END, "from dpfast.app.pictures import audit"),
    (rooms_import_what_they_may, "dpfast/noise/release/arrays.py", END, "from dpfast import DiscreteLaplace"),
    (rooms_import_what_they_may, "dpfast/noise/release/arrays.py", END, "from . import engine"),
    (rooms_import_what_they_may, "dpfast/privacy/exact/balls.py", END, "from importlib import import_module\nimport_module('numpy')"),
    (rooms_import_what_they_may, "dpfast/privacy/exact/balls.py", END, "import importlib\nimportlib.import_module('num' + 'py')"),
    (rooms_import_what_they_may, "dpfast/privacy/guarantee.py", END, "__import__('numba')"),
    (rooms_import_what_they_may, "dpfast/privacy/guarantee.py", END, "exec('import numba')"),
    (rooms_import_what_they_may, "dpfast/adapters/arrow.py", END, "import pandas"),
    (rooms_import_what_they_may, "dpfast/shortcuts.py", END, "x = 1"),
    (rooms_import_what_they_may, "dpfast/app/report/page.py", END, "def _x(): from dpfast.app.tables import files"),
    (only_native_touches_the_c_module, "dpfast/noise/mechanisms/laplace.py", END, "from dpfast._native import ffi, lib"),
    (only_native_touches_the_c_module, "dpfast/noise/release/engine.py", END, "x = _native.lib.dpf_entropy"),
    (rooms_import_what_they_may, "dpfast/noise/kernels/jit.py", END, "from dpfast._dpf import lib"),
    (rooms_import_what_they_may, "dpfast/noise/release/arrays.py", END, "import numba"),
    (mechanisms_leave_loops_over_data_to_kernels, "dpfast/noise/mechanisms/laplace.py", END,
     "def _slow(counts):\n    for i in range(counts.size):\n        counts.flat[i] += 1"),
    (mechanisms_leave_loops_over_data_to_kernels, "dpfast/noise/mechanisms/laplace.py", END, "def _slow(counts):\n    return [c + 1 for c in counts]"),
    (mechanisms_leave_loops_over_data_to_kernels, "dpfast/noise/mechanisms/laplace.py", END,
     "def _slow(counts):\n    i = 0\n    while i < len(counts):\n        i += 1"),
    (the_command_line_is_imported_by_nobody, "dpfast/noise/release/engine.py", END, "def _x(): from dpfast.app import pictures"),
    (the_command_line_is_imported_by_nobody, "dpfast/ledger/table.py", END, "def _x(): from dpfast import terminal"),
    (rooms_import_what_they_may, "dpfast/terminal.py", END, "import dpfast"),
    (the_reference_is_independent, "tests/reference.py", END, "import dpfast"),
    (the_reference_is_independent, "tests/reference.py", END, "import scipy"),
    (c_files_have_a_room, "csrc/helper_things.c", END, "int x;"),
    (c_files_have_a_room, "csrc/stray.h", END, "int x;"),
    (c_files_ask_what_they_may, "csrc/gaussian.h", START, "#include <math.h>"),
    (c_files_ask_what_they_may, "csrc/gaussian.h", START, "#include <immintrin.h>"),
    (c_files_ask_what_they_may, "csrc/dispatch.c", START, '// __builtin_cpu_supports("avx2")'),
    (c_files_ask_what_they_may, "csrc/gaussian.h", END, "static void *m(void) { return malloc(1); }"),
    (c_files_ask_what_they_may, "csrc/refine.h", START, '// __builtin_cpu_supports("avx2")'),
    (c_files_ask_what_they_may, "csrc/laplace.h", START, '// __builtin_cpu_supports("avx2")'),
    (c_files_ask_what_they_may, "csrc/wide.h", START, "#include <math.h>"),
    (c_files_ask_what_they_may, "csrc/exponential.h", START, "#include <errno.h>"),
    (c_files_ask_what_they_may, "csrc/normal.h", START, "#include <stdlib.h>"),
    (laws_link_against_nothing, "csrc/gaussian.h", END, "double sin(double); double dpf_x(double a) { return sin(a); }"),
    pytest.param(laws_link_against_nothing, "csrc/stream.h", END, "long time(long *); long dpf_x(void) { return time(0); }", marks=pytest.mark.slow),
    (the_table_names_every_room, "docs/design.md", "`counts/records/`", ""),
    (files_say_their_room, "dpfast/privacy/utils.py", END, ""),
    (files_say_their_room, "tests/noise/helpers.py", END, ""),
)  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("house")
    built = shutil.ignore_patterns("__pycache__", "*.so", "*.o", "*.svg")
    for folder in ("dpfast", "csrc", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=built)
    (root / "tests" / "noise").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "reference.py", root / "tests")
    return root


@pytest.mark.parametrize(("rule", "path", "where", "text"), PLANTED, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_violation_is_found(
    rule: Callable[[Path], Iterator[str]], path: str, where: str, text: str, copy: Path
) -> None:
    """In a copy of the tree, which the next test finds whole again."""
    place = copy / path
    before = place.read_text() if place.exists() else None
    old = before or ""
    if where == END:
        new = f"{old}\n{text}\n"
    elif where == START:
        head, _, rest = old.partition("\n")
        new = f"{head}\n{text}\n{rest}" if not head.startswith("/*") or "*/" in head else f"{text}\n{old}"
    else:
        assert where in old
        new = old.replace(where, text)
    try:
        place.write_text(new)
        assert [line for line in rule(copy) if Path(path).name in line or Path(path).stem in line]
    finally:
        if before is None:
            place.unlink()
        else:
            place.write_text(before)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule is not laws_link_against_nothing], ids=lambda rule: rule.__name__
)
def test_the_copy_without_a_violation_keeps_the_rules(rule: Callable[[Path], Iterator[str]], copy: Path) -> None:
    """The rule that compiles has asked the very same files above."""
    assert list(rule(copy)) == []


# ---------------------------------------------------------------------------- laws


@pytest.mark.parametrize("law", own_laws())
def test_a_law_is_one_name_in_five_places(law: str) -> None:
    """csrc/<law>.h, its proof csrc/<law>.md; its intervals, its mechanism and its test."""
    places = f"csrc/{law}.h", f"csrc/{law}.md", f"dpfast/privacy/exact/{law}.py", f"dpfast/noise/mechanisms/{law}.py"
    for place in (*places, f"tests/noise/test_{law}.py"):
        assert (ROOT / place).is_file(), f"{law} has no {place}"
    assert len((ROOT / f"csrc/{law}.md").read_text()) > 1000


def test_no_law_is_left_out() -> None:
    """The registry has each law of the C by its name, and each mechanism that says such a law."""
    files = (ROOT / "dpfast/noise/mechanisms").glob("*.py")
    own = {file.stem for file in files if f'LAW: ClassVar[str] = "{file.stem}"' in file.read_text()}
    assert own == set(own_laws()) == tiers.LAWS
