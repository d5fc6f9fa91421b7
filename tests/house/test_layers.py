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
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import tiers
from places import ROOT
from proofs import generator

from dpfast.noise.mechanisms.laws import own_laws

rooms = generator("draw_rooms")

# What a room imports of other packages: of all places that fit, the narrowest counts. An adapter or
# an engine may also import the library of its name.
LIBRARIES: dict[str, set[str]] = {
    "_native.py": {"numpy"},
    "terminal.py": {"rich"},
    "privacy": {"flint", "numpy"},
    "privacy/exact": {"flint"},
    "privacy/exact/binomial.py": {"numpy"},  # near_bound takes arrays
    "noise": {"numpy"},
    "noise/kernels": {"llvmlite", "numba", "numpy"},
    "noise/random": {"numpy", "typing_extensions"},
    "noise/release/seal.py": {"blake3", "numpy"},
    "noise/release/steps.py": {"blake3", "numpy"},
    "counts": {"numpy"},
    "adapters": {"numpy"},
    "adapters/arrow.py": {"numpy", "pyarrow"},
    "adapters/pandas.py": {"numpy", "pyarrow"},
    "adapters/smartnoise.py": {"numpy", "snsql"},
    "adapters/tumult.py": {"numpy", "pandas", "tmlt"},
    "engines": {"numpy", "pyarrow"},
    "engines/dask.py": {"distributed", "numpy", "pyarrow"},
    "engines/jobs": {"blake3", "numpy", "pyarrow"},
    "engines/postgres.py": {"numpy", "psycopg", "pyarrow"},
    "engines/spark.py": {"numpy", "pyarrow", "pyspark"},
    "evidence": {"numpy"},
    "evidence/bench/peers.py": {"diffprivlib", "numpy", "opendp", "pydp", "randomgen"},
    "evidence/selftest": {"flint", "numpy"},
    "app/cli": {"click", "numpy"},
    "app/pictures": {"matplotlib", "numpy"},
    "app/tables": {"blake3", "numpy", "pyarrow"},
}
PUBLIC = {"__init__.py", "errors.py", "ledger", "noise/mechanisms", "privacy", "testing.py"}
# Who sees less of the package than what lies below: all that it may import beside itself.
SEES: dict[str, set[str]] = {
    "_native.py": {"_dpf", "errors.py"},
    "errors.py": set(),
    "loading.py": {"_native.py", "system.py"},
    "paths.py": {"errors.py", "system.py"},
    "system.py": {"errors.py"},
    "terminal.py": set(),
    "former.py": set(),
    "numba.py": {"noise/kernels/added.py"},
    "postprocess.py": {"counts/postprocess.py"},
    "testing.py": {"noise/release/fixed_key.py"},
    "privacy": {"errors.py"},
    "privacy/exact": {"errors.py", "loading.py", "system.py"},
    "noise/kernels": {"loading.py", "paths.py", "system.py"},
    "noise/kernels/added.py": {"_native.py", "errors.py", "noise/kernels", "privacy/parameters.py"},
    "noise/random": {"_native.py", "errors.py", "privacy", "system.py"},
    # Whatever of counts/ only computes from noisy counts or from names sees nothing that draws.
    "counts/postprocess.py": {"errors.py", "privacy", "noise/release/arrays.py"},
    "counts/running/buffers.py": {"errors.py", "privacy"},
    "counts/running/error.py": {"privacy"},
    "counts/running/table.py": set(),
    "counts/trees/noisy_tree.py": {"counts/trees", "errors.py", "noise/kernels", "noise/release/arrays.py", "privacy"},
    "counts/trees/shape.py": {"counts/trees", "errors.py", "noise/kernels", "noise/release/arrays.py", "noise/release/columns.py", "privacy"},
    "adapters": {"__init__.py", "errors.py"},  # the public API alone
    "adapters/arrow_capsules.py": {"__init__.py", "_native.py", "adapters", "errors.py"},  # a result may outlive Python
    "engines": {"__init__.py", "adapters/__init__.py", "errors.py"},
    "engines/jobs": {"__init__.py", "_native.py", "counts", "errors.py", "ledger", "noise", "paths.py", "privacy", "system.py"},
    "ledger": {"errors.py", "noise/mechanisms", "noise/release/counts.py", "noise/release/key.py", "noise/release/seal.py", "noise/release/secret.py", "noise/release/steps.py",
               "paths.py", "privacy", "system.py"},
    "evidence/audit": PUBLIC | {"evidence/statistics.py", "terminal.py"},
    "evidence/bench": PUBLIC | {"paths.py", "terminal.py"},
    "evidence/bench/curves.py": PUBLIC | {"evidence/bench", "noise/release/engine.py", "paths.py", "terminal.py"},  # what ran
    "evidence/bench/measure.py": PUBLIC | {"_native.py", "evidence/bench", "noise/release/engine.py", "paths.py", "terminal.py"},
    "evidence/bench/rows.py": PUBLIC | {"evidence/bench", "noise/release/engine.py", "paths.py", "terminal.py"},
    "evidence/bench/sampler.py": PUBLIC | {"evidence", "paths.py", "terminal.py"},  # the tests that there are
    "evidence/statistics.py": {"privacy/exact"},
    "app/cli": PUBLIC | {"_native.py", "app", "counts/records/bounded_histogram.py", "counts/records/leaves.py", "counts/records/means.py", "counts/records/partitions.py", "counts/records/places.py", "counts/trees", "engines/jobs", "evidence", "noise/kernels", "noise/release/arrays.py",
                         "noise/release/engine.py", "noise/release/seal.py", "paths.py", "system.py", "terminal.py"},
    "app/pictures": PUBLIC | {"evidence/audit", "evidence/bench", "paths.py"},
    "app/report": {"errors.py", "privacy", "terminal.py"},
    "app/tables": {"errors.py", "noise/release/arrays.py", "noise/release/blocks.py", "paths.py"},
}  # fmt: skip
_TELLS = {
    "app/cli/info.py",
    "evidence/bench/curves.py",
    "evidence/bench/measure.py",
    "evidence/bench/rows.py",
}  # what ran
_DRAWS = {
    "counts/running/noisy_totals.py",
    "counts/running/totals.py",
    "counts/records/bounded_histogram.py",
    "counts/records/means.py",
    "counts/records/partitions.py",
    "counts/records/payment.py",
    "counts/records/leaves.py",
    "counts/running",
    "counts/trees/noise.py",
    "counts/trees/quantiles.py",
    "counts/trees/release.py",
}
# What few may import: these, and what stands in it.
SEEN_BY: dict[str, set[str]] = {
    "_native.py": {"loading.py", "noise/kernels/added.py", "noise/mechanisms", "noise/random", "noise/release/blocks.py", "noise/release/digits.py", "noise/release/engine.py",
                   "noise/release/seal.py", "counts/records/bounded_histogram.py", "counts/records/places.py", "adapters/arrow_capsules.py", "engines/jobs", "evidence/bench/measure.py", "evidence/selftest",
                   "app/cli/info.py"},
    "paths.py": {"noise/kernels", "noise/release/key.py", "ledger", "counts/running/state.py", "engines/jobs", "evidence/bench", "app"},
    "loading.py": {"privacy/exact", "noise/kernels"},
    "system.py": {"loading.py", "paths.py", "privacy/exact", "noise/kernels", "noise/random", "noise/release/key.py", "noise/release/secret.py", "ledger", "counts/running/state.py",
                  "engines/jobs", "app/cli/request.py"},
    "terminal.py": {"evidence", "app/cli", "app/report"},
    "privacy/exact": {"privacy", "noise/mechanisms", "noise/release/digits.py", "evidence/audit", "evidence/selftest", "evidence/statistics.py"},
    "noise/kernels": {"noise/mechanisms", "counts", "evidence/selftest", "app/cli/info.py"},
    "noise/kernels/added.py": {"numba.py"},
    "noise/mechanisms": {"__init__.py", "ledger", "engines/jobs", "evidence", "app/cli", "app/pictures", *_DRAWS},
    "noise/random": {"__init__.py"},
    "noise/release": {"__init__.py", "noise/mechanisms", "ledger", "counts", "engines/jobs", "app/cli", "app/tables"},
    "noise/release/blocks.py": {"noise/mechanisms", "noise/release/seal.py", "noise/release/steps.py", "counts/records/payment.py", "engines/jobs", "app/tables"},
    "noise/release/digits.py": {"noise/mechanisms/selection.py", "evidence/selftest/reference"},
    "noise/release/engine.py": {"noise/mechanisms", "noise/release/blocks.py", "engines/jobs", "app/cli/privatize.py", *_TELLS},
    "noise/release/fixed_key.py": {"testing.py"},
    "noise/release/key.py": {"__init__.py", "noise/mechanisms", "noise/release/fixed_key.py", "ledger", "counts/records", "engines/jobs", *_DRAWS},
    "noise/release/seal.py": {"noise/mechanisms", "noise/release/key.py", "noise/release/steps.py", "ledger", "engines/jobs", "app/cli/histogram.py", *_DRAWS},
    "noise/release/secret.py": {"noise/mechanisms", "noise/release/fixed_key.py", "noise/release/key.py", "noise/release/seal.py", "noise/release/steps.py", "ledger",
                                "counts/records", "engines/jobs", *_DRAWS},
    "ledger": {"__init__.py", "engines/jobs", "app/cli", *_DRAWS - {"counts/trees/noise.py"}},
    "counts/postprocess.py": {"postprocess.py"},
    "counts/running": {"__init__.py"},
    "counts/running/state.py": {"counts/running"},
    "noise/release/steps.py": {"ledger", "counts/running"},
    "counts/trees": {"__init__.py", "counts/records/bounded_histogram.py", "app/cli/quantiles.py"},
    "counts/records": {"__init__.py", "counts/running", "counts/trees/quantiles.py", "engines/jobs", "app/cli/histogram.py", "app/cli/measures.py", "app/cli/quantiles.py", "app/cli/said.py"},
    "counts/records/payment.py": {"counts/records", "counts/trees/quantiles.py", "counts/trees/release.py", "engines/jobs"},
    "evidence/bench/rows.py": {"evidence/bench", "app/cli"},
    "evidence/selftest": {"evidence/bench/sampler.py", "app/cli"},
    "evidence/selftest/reference": {"evidence/selftest"},
    "app/pictures": {"app/cli"},
    "app/tables": {"app/cli"},
}  # fmt: skip
# Where a module's name is computed, and so is not read here: what a user or a table names.
COMPUTED = {
    "__init__.py",
    "former.py",
    "adapters/__init__.py",
    "adapters/tumult.py",
    "evidence/audit/audited.py",
    "noise/kernels/__init__.py",
}
# What dpfast/system.py alone takes, of the standard library and of os.
LOCKS = {"fcntl", "msvcrt"}
SYSTEM = {"O_BINARY", "O_TMPFILE", "fdatasync", "fsync", "link", "open", "register_at_fork"}
# Loops in mechanisms/ whose length is that of data, and why each may be.
LOOPS = {
    ("above_threshold.py", "_release"): "one answer after another is the mechanism",
    ("mechanism.py", "ppf"): "public probabilities",
    ("randomized_response.py", "_respond"): "chunks of answers, and the answers that the kernel left open",
    ("randomized_response.py", "estimate"): "categories",
    ("selection.py", "_leaders"): "candidates that the kernel nominated",
}
C_FILES = {
    "arrow.c",
    "bit_generator.c",
    "chacha.c",
    "cpu.c",
    "dispatch.c",
    "dpfast.c",
    "entropy.c",
    "exact.c",
    "plan.c",
    "rows.c",
    "self_check.c",
}  # and isa_<name>.c
# What C files ask of the world, and the only files that may.
ASKS = {
    r"\bgetrandom\b|\bmmap\b|\bmadvise\b|<sys/|<unistd\.h>|<errno\.h>": {"arrow.c", "entropy.c"},
    r"cpu_supports|cpu_init|\bcpuid\b|\bgetauxval\b": {"cpu.c"},
    r"<immintrin\.h>|<arm_\w+\.h>|\b_mm\d*_": {"isa_*.c", "machine.h"},
    r"<stdlib\.h>|<stdio\.h>|\bmalloc\b|\bcalloc\b|\brealloc\b|\bfree\(": {"arrow.c", "bit_generator.c", "dpfast.c"},
    r"<pthread\.h>|<windows\.h>": {"entropy.c"},
    r"<math\.h>|<fenv\.h>|<time\.h>|<signal\.h>|\balloca\b": set(),
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


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def within(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def narrowest(path: str, places: Iterable[str]) -> str | None:
    """The narrowest of the places that a path is in."""
    return max((place for place in places if within(path, place)), key=len, default=None)


# ---------------------------------------------------------------- rules: each yields what breaks it


def rooms_import_what_they_may(root: Path) -> Iterator[str]:
    every = rooms.modules(root)
    paths = frozenset(every)
    for path, imports in every.items():
        yield from may_not_import(path, imports, paths)


@cache
def may_not_import(path: str, imports: tuple[rooms.Import, ...], every: frozenset[str]) -> list[str]:
    """What one module breaks, among these: asked once for all copies that have it."""
    if rooms.room(path) not in rooms.ROOMS:
        return [f"{path}: no such room in docs/design.md"]
    own = {Path(path).stem} if rooms.room(path) in {"adapters", "engines"} else set()
    others, found = {*sys.stdlib_module_names, *own, *libraries_of(path)}, []
    for name in {each.name for each in imports}:
        to = rooms.target(name, every)
        if name == "?":
            if path not in COMPUTED:
                found.append(f"{path}: imports a name that it computes")
        elif to is None:
            if name.split(".")[0] not in others:
                found.append(f"{path}: may not import {name}")
        elif to != path and not (sees(path, to) and is_seen_by(path, to)):
            found.append(f"{path}: may not import {name}")
    return found


@cache
def libraries_of(path: str) -> set[str]:
    return LIBRARIES.get(narrowest(path, LIBRARIES) or "", set())


@cache
def sees(path: str, to: str) -> bool:
    if (place := narrowest(path, SEES)) is None:
        return True
    return within(to, place) or any(within(to, each) for each in SEES[place])


@cache
def is_seen_by(path: str, to: str) -> bool:
    if (place := narrowest(to, SEEN_BY)) is None:
        return True
    return within(path, place) or any(within(path, each) for each in SEEN_BY[place])


def no_room_looks_up(root: Path) -> Iterator[str]:
    """But the face, which hands lower rooms what finds an adapter."""
    for path, targets in rooms.graph(root).items():
        for to in targets:
            upward = rooms.ROOMS.index(rooms.room(path)) > rooms.ROOMS.index(rooms.room(to))
            if upward and (path, to) != ("__init__.py", "adapters/__init__.py"):
                yield f"{path}: {rooms.room(path)} stands below {rooms.room(to)}, and imports {to}"


def no_modules_import_each_other(root: Path) -> Iterator[str]:
    """Not even late, nor for type checkers alone."""
    yield from (f"{', '.join(circle)}: a circle of imports" for circle in rooms.circles(root))


def the_picture_is_of_this_tree(root: Path) -> Iterator[str]:
    page = (root / "docs" / "design.md").read_text("utf-8")
    before, after = page.split("\n"), rooms.redrawn(page, root).split("\n")
    yield from (f"docs/design.md: python tools/draw_rooms.py draws: {line}" for line in after if line not in before)


def only_native_touches_the_c_module(root: Path) -> Iterator[str]:
    for path, tree in modules(root):
        named = (node for node in nodes(tree)[ast.ImportFrom] if node.module == "dpfast._native")
        taken = {alias.name for node in named for alias in node.names}
        attributes = (node for node in nodes(tree)[ast.Attribute] if isinstance(node.value, ast.Name))
        taken |= {node.attr for node in attributes if node.value.id == "_native"}
        if taken & {"ffi", "lib"}:
            yield f"{path}: takes ffi or lib from _native"


def only_system_asks_the_system(root: Path) -> Iterator[str]:
    for path, tree in modules(root):
        found = {alias.name for node in nodes(tree)[ast.Import] for alias in node.names} & LOCKS
        found |= {node.module for node in nodes(tree)[ast.ImportFrom]} & LOCKS
        taken = (node for node in nodes(tree)[ast.ImportFrom] if node.module == "os")
        names = {alias.name for node in taken for alias in node.names}
        attributes = (node for node in nodes(tree)[ast.Attribute] if isinstance(node.value, ast.Name))
        found |= (names | {node.attr for node in attributes if node.value.id == "os"}) & SYSTEM
        if path != "system.py":
            yield from (f"{path}: asks for {name}, as dpfast/system.py alone may" for name in sorted(found))


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


def the_reference_is_independent(root: Path) -> Iterator[str]:
    for name, _ in rooms.read((root / "tests" / "reference.py").read_text()):
        if name.split(".")[0] not in {*sys.stdlib_module_names, "mpmath", "blake3", "chacha"}:
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
    """An instruction set's objects of laws and dispatch want our and the compiler's functions.

    Nothing is optimised, so no call is left out, and it compiles in half the time.
    """
    flags = ["-std=c11", "-O0", "-ffreestanding", "-fkeep-static-functions", "-fno-math-errno", "-w"]
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
    """docs/design.md's tables of imports and those above speak of the same places."""
    rows = re.findall(r"^\| (`.+?) \| .* \|$", (root / "docs" / "design.md").read_text(), re.MULTILINE)
    named = {name.rstrip("/") for row in rows for name in re.findall(r"`([\w./<>]+)`", row)}
    for place in {*LIBRARIES, *SEES, *SEEN_BY}:
        if place not in named and not re.match(r"(adapters|engines)/(?!jobs)", place):
            yield f"docs/design.md: its tables do not name {place}"


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
    no_room_looks_up,
    no_modules_import_each_other,
    the_picture_is_of_this_tree,
    only_native_touches_the_c_module,
    only_system_asks_the_system,
    mechanisms_leave_loops_over_data_to_kernels,
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
    (rooms_import_what_they_may, "dpfast/evidence/bench/report.py", END, "from dpfast import _native"),
    (no_room_looks_up, "dpfast/evidence/bench/report.py", END, "def _x(): from dpfast.app.pictures import bench"),
    (rooms_import_what_they_may, "dpfast/evidence/bench/report.py", END, "from dpfast.noise import kernels"),
    (rooms_import_what_they_may, "dpfast/evidence/bench/curves.py", END, "import rich"),
    (no_room_looks_up, "dpfast/evidence/bench/measure.py", END, "import dpfast.app.cli.bench"),
    (rooms_import_what_they_may, "dpfast/evidence/bench/sampler.py", END, "from dpfast.evidence.selftest import reference"),
    (rooms_import_what_they_may, "dpfast/app/cli/info.py", END, "def _x(): from dpfast.evidence.selftest.reference.laplace import Laplace"),
    (rooms_import_what_they_may, "dpfast/noise/mechanisms/laplace.py", END, "from dpfast.noise.release.digits import reader"),
    (no_room_looks_up, "dpfast/noise/mechanisms/laplace.py", END, "def _x(): from dpfast.evidence.selftest import reference"),
    (rooms_import_what_they_may, "dpfast/app/pictures/bench.py", END, "from dpfast.evidence.bench.rows import Arrays"),
    (no_room_looks_up, "dpfast/noise/release/key.py", END, "def _x(): import dpfast.evidence.audit"),
    (rooms_import_what_they_may, "dpfast/privacy/meaning.py", END, "import numba"),
    (rooms_import_what_they_may, "dpfast/counts/trees/noisy_tree.py", END, "from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace"),
    (rooms_import_what_they_may, "dpfast/evidence/statistics.py", END, "from dpfast import DiscreteLaplace"),
    (rooms_import_what_they_may, "dpfast/privacy/meaning.py", END, "def _x(): from dpfast import _native"),
    (rooms_import_what_they_may, "dpfast/privacy/exact/balls.py", END, "from dpfast.privacy import parameters"),
    (rooms_import_what_they_may, "dpfast/noise/kernels/respond.py", END, "from dpfast import errors"),
    (rooms_import_what_they_may, "dpfast/adapters/opacus.py", END, "from dpfast.noise.mechanisms.laws import LAWS"),
    (rooms_import_what_they_may, "dpfast/adapters/opacus.py", END, "from dpfast.privacy import parameters"),
    (rooms_import_what_they_may, "dpfast/engines/jobs/plan.py", END, "from dpfast.engines import dask"),
    (rooms_import_what_they_may, "dpfast/counts/records/places.py", END, "from dpfast.noise.mechanisms.laws import LAWS"),
    (rooms_import_what_they_may, "dpfast/app/tables/rows.py", END, "from dpfast.noise.release import key"),
    (no_room_looks_up, "dpfast/errors.py", END, "def _x(): from dpfast.privacy import parameters"),
    (no_room_looks_up, "dpfast/privacy/port.py", END, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dpfast.adapters import opendp"),
    (no_room_looks_up, "dpfast/counts/trees/shape.py", END, "import dpfast"),
    (no_modules_import_each_other, "dpfast/privacy/exact/balls.py", END, "def _x(): from dpfast.privacy.exact import gaussian"),
    (no_modules_import_each_other, "dpfast/noise/mechanisms/real.py", END,
     "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dpfast.noise.mechanisms import laws"),
    (the_picture_is_of_this_tree, "dpfast/ledger/ledger.py", END, "def _x(): from dpfast.counts import postprocess"),
    (the_picture_is_of_this_tree, "dpfast/ledger/vault.py", END, ""),
    (no_property_takes_a_lock, "dpfast/counts/trees/noisy_tree.py", END, "from functools import cached_property"),
    (no_property_takes_a_lock, "dpfast/noise/release/arrays.py", END, "def _x(functools): return functools.cached_property"),
    (no_room_looks_up, "dpfast/evidence/audit/law.py", END, "from dpfast.app.pictures import audit"),
    (no_room_looks_up, "dpfast/noise/release/arrays.py", END, "from dpfast import DiscreteLaplace"),
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
    (no_room_looks_up, "dpfast/noise/release/engine.py", END, "def _x(): from dpfast.app import pictures"),
    (rooms_import_what_they_may, "dpfast/ledger/table.py", END, "def _x(): from dpfast import terminal"),
    (rooms_import_what_they_may, "dpfast/terminal.py", END, "import dpfast"),
    (only_system_asks_the_system, "dpfast/ledger/head.py", END, "def _x(): import fcntl"),
    (only_system_asks_the_system, "dpfast/ledger/store.py", END, "def _x(): import msvcrt"),
    (only_system_asks_the_system, "dpfast/noise/release/key.py", END, "def _x(name): return os.open(name, os.O_RDONLY)"),
    (only_system_asks_the_system, "dpfast/paths.py", END, "def _x(handle): os.fsync(handle)"),
    (only_system_asks_the_system, "dpfast/paths.py", END, "from os import fdatasync"),
    (only_system_asks_the_system, "dpfast/loading.py", END, "os.register_at_fork(before=_hold)"),
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
    (the_table_names_every_room, "docs/design.md", "`noise/kernels`", ""),
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
def test_a_law_is_one_name_in_six_places(law: str) -> None:
    """csrc/<law>.h, its proof csrc/<law>.md; its figures, its draws, its mechanism, its test."""
    places = f"csrc/{law}.h", f"csrc/{law}.md", f"dpfast/privacy/exact/{law}.py", f"dpfast/noise/mechanisms/{law}.py"
    for place in (*places, f"dpfast/evidence/selftest/reference/{law}.py", f"tests/noise/test_{law}.py"):
        assert (ROOT / place).is_file(), f"{law} has no {place}"
    assert len((ROOT / f"csrc/{law}.md").read_text()) > 1000


def test_no_law_is_left_out() -> None:
    """The registry has each law of the C by its name, and each mechanism that says such a law."""
    files = (ROOT / "dpfast/noise/mechanisms").glob("*.py")
    own = {file.stem for file in files if f'LAW: ClassVar[str] = "{file.stem}"' in file.read_text()}
    assert own == set(own_laws()) == tiers.LAWS
