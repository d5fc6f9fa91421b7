# SPDX-License-Identifier: Apache-2.0
"""Today's tree beside an older commit: each must of the project is a ratio to it.

    python benchmarks against [COMMIT] [--isa avx2|portable] [--row NAME] [--rounds N] [--json FILE]
                              [--markdown PAGE]

Both trees are built, and the older one is loaded twice: what it takes beside itself is the control.
The three take turns in one process on one core, in an order drawn by lot, over the same arrays.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from against_rows import FIRST_TIMES, SLICE, Row, floors, rows

from dpfast.evidence.bench.measure import machine
from dpfast.evidence.bench.page import aligned, around_marks, markdown, write_between_marks
from dpfast.privacy.formatting import quantity

HERE = Path(__file__).resolve().parent
ROOT, KEPT = HERE.parent, HERE.parent / "build" / "against"
COMMIT, ROUNDS, TRIES = "8ab3011", 41, 3
SOURCES = "dpfast", "csrc", "setup.py", "pyproject.toml", "README.md", "LICENSE"
LOW, HIGH = 0.97, 1.03  # the control of a row that is decided
QUANTILE = 0.1


class Found(NamedTuple):
    """What a row took: the 10 % quantiles of today's tree, the older one, and that one again."""

    row: str
    must: float
    now: float  # ns a call
    before: float
    again: float

    @property
    def ratio(self) -> float:
        return self.now / self.before

    @property
    def control(self) -> float:
        return self.again / self.before

    @property
    def held(self) -> bool:
        return LOW <= self.control <= HIGH

    @property
    def verdict(self) -> str:
        return "not decided here" if not self.held else "kept" if self.ratio <= self.must else "missed"


def found(row: str, must: float, times: Mapping[str, Sequence[float]]) -> Found:
    low = {side: float(np.quantile(taken, QUANTILE)) for side, taken in times.items()}
    return Found(row, must, **low)


class Tree:
    """A built tree, whose package is `dpfast` while it is in use."""

    used: ClassVar[Tree | None] = None

    def __init__(self, folder: Path) -> None:
        self.folder, self.modules = folder, dict[str, Any]()
        before = packaged()
        put({})
        sys.path.insert(0, str(folder))
        try:
            self.package = importlib.import_module("dpfast")
            assert folder in Path(str(self.package.__file__)).parents
            self.native = importlib.import_module("dpfast._native")
            past_the_caches()
        finally:
            sys.path.remove(str(folder))
            self.modules = packaged()
            put(before)

    def use(self) -> None:
        """From now on `dpfast` is this one; the one before keeps what it imported late."""
        if Tree.used is not self:
            if Tree.used:
                Tree.used.modules = packaged()
            put(self.modules)
            Tree.used = self


def packaged() -> dict[str, Any]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "dpfast"}


def put(modules: Mapping[str, Any]) -> None:
    for name in packaged():
        del sys.modules[name]
    sys.modules.update(modules)


def past_the_caches() -> None:
    """Slices are stored as the large arrays are of which they stand for a part."""
    engine = next(module for name, module in sys.modules.items() if name.endswith(".release.engine"))
    assert engine.NON_TEMPORAL
    engine.NON_TEMPORAL = SLICE // 8


def source(commit: str | None, into: Path) -> None:
    """The files that a build needs: of a commit, or as they lie here."""
    into.mkdir(parents=True)
    if commit:
        packed = subprocess.run(["git", "archive", commit, *SOURCES], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "x"], cwd=into, input=packed.stdout, check=True)
        return
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, into / name, ignore=shutil.ignore_patterns("*.so", "__pycache__", "_*.c"))
        else:
            shutil.copy(ROOT / name, into)


def built(commit: str | None, into: Path) -> Path:
    """A tree with its extension. The one of a commit is kept for the next run."""
    if commit and any(into.glob("dpfast/_dpf*.so")):
        return into
    shutil.rmtree(into, ignore_errors=True)
    source(commit, into)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=into, check=True)
    return into


def trees(commit: str) -> dict[str, Tree]:
    name = ["git", "rev-parse", "--verify", "-q", f"{commit}^{{commit}}"]
    known = subprocess.run(name, check=False, cwd=ROOT, capture_output=True, text=True)
    if known.returncode:
        raise SystemExit(
            f"there is no commit {commit} here, and all musts are ratios to it: take a clone with its whole history "
            "(git fetch --unshallow), not an archive"
        )
    before = built(known.stdout.strip(), KEPT / known.stdout.strip())
    again = KEPT / "again"
    shutil.rmtree(again, ignore_errors=True)
    shutil.copytree(before, again)
    return {"now": Tree(built(None, KEPT / "now")), "before": Tree(before), "again": Tree(again)}


def measured(row: Row, must: float, of: Mapping[str, Tree], rounds: int) -> Found:
    """One row, all sides in turns, after an untimed round."""
    if row.most is not None:  # no tree's
        of["now"].use()
        run = row.make(of["now"])
        return found(
            row.name, must, {"now": [run() for _ in range(FIRST_TIMES)], "before": [row.most], "again": [row.most]}
        )
    sides = []
    for name in of:
        tree = of["now"] if row.beside else of[name]  # such a row is beside another of today's tree
        tree.use()
        sides.append((name, tree, (row.beside if row.beside and name != "now" else row.make)(tree)))
    times: dict[str, list[float]] = {name: [] for name in of}
    for at in range(-1, rounds):
        random.shuffle(sides)
        for name, tree, run in sides:
            tree.use()
            run(*row.data())  # warming
            taken = row.clock(run, row.data())
            if at >= 0:
                times[name].append(taken)
    return found(row.name, must, times)


def table(results: Sequence[tuple[Row, Found]], floor: Mapping[str, float]) -> list[list[str]]:
    lines = [["", "beside", "a value", "× floor", "ratio", "control", "must", "verdict"]]
    for row, it in results:
        ns, least = it.now / row.size, row.least(floor)
        lines.append([
            row.name, row.against, quantity(ns / 1e9, "s"),
            f"{ns / least:.2f}" if least else "", f"{it.ratio:.2f}", f"{it.control:.2f}", f"{it.must:g}", it.verdict,
        ])  # fmt: skip
    return lines


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks against", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", nargs="?", default=COMMIT)
    parser.add_argument("--isa", help="a narrower instruction set, for all sides")
    parser.add_argument("--row", default="", metavar="NAME", help="only the rows whose names have this in them")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} at least")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="write the table between its marks there")
    options = parser.parse_args(words)
    if options.rounds < ROUNDS:
        parser.error(f"fewer than {ROUNDS} rounds decide nothing")
    mark = f"against_{options.isa}" if options.isa else "against"
    if options.markdown:
        around_marks(options.markdown, mark)  # fails, before minutes are spent
    chosen = [row for row in rows() if options.row in row.name]
    if not chosen:
        parser.error(f"no row has {options.row!r} in its name")
    own, facts, of = packaged(), machine(), trees(options.commit)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    isa = choose(of.values(), options.isa)
    gc.disable()
    results, floor = [], floors(of["before"])
    for row in chosen:
        must = row.must(isa)
        for _ in range(TRIES):
            one = measured(row, must, of, options.rounds)
            if one.held:
                break
        results.append((row, one))
        print(f"{one.row}: {one.ratio:.3f}, control {one.control:.3f}: {one.verdict}", file=sys.stderr)
    floor = {name: min(value, floor[name]) for name, value in floors(of["before"]).items()}
    put(own)
    lines = table(results, floor)
    about = said(facts, isa, options, floor)
    print("\n".join([*aligned(lines), "", about]))
    if options.markdown:
        write_between_marks(options.markdown, mark, f"{markdown(lines)}\n\n{about}")
    if options.json:
        record = [one._asdict() | {"verdict": one.verdict} for _, one in results]
        options.json.write_text(json.dumps({**facts, "isa": isa, "floor": floor, "rows": record}, indent=1) + "\n")


def choose(of: Any, isa: str | None) -> str:
    """Force an instruction set in all trees; its name."""
    for tree in of:
        names = {name: number for number, name in tree.native.ISA_NAMES.items()}
        if isa:
            if isa not in names:
                raise SystemExit(f"--isa is one of {', '.join(names)}")
            number = tree.native.checked(names[isa])
            tree.native.best_isa = lambda number=number: number
    return isa or str(tree.native.isa_name())


def said(facts: Mapping[str, str], isa: str, options: argparse.Namespace, floor: Mapping[str, float]) -> str:
    parts = ", ".join(f"{name} {floor[name]:.2f} ns" for name in ("a byte of cipher", "a digest", "copy of int64"))
    return (
        f"10 % quantiles of {options.rounds} rounds, by thread time on one pinned core, beside {options.commit}. "
        f"Floors: {parts}.\n{facts['processor']}, {isa}; load {facts['load']}; Python {facts['Python']}, "
        f"NumPy {facts['NumPy']}; {facts['date']}."
    )
