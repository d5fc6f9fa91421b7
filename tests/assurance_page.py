# SPDX-License-Identifier: Apache-2.0
"""docs/assurance.md from docs/assurance/*.json: `.ci/deep NAME` writes both.

`python tests/assurance_page.py` writes the page alone.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from places import TESTS

HERE = TESTS
PAGE = HERE.parent / "docs" / "assurance.md"
FOLDER = PAGE.with_name("assurance")
HEAD = """\
# Assurance

Each row is a claim, what was counted when it was last tried, and the command that tries it again.
A command writes its figures, with the commit and the date, to `docs/assurance/`. This page is made
from these files. `.ci/deep` without a name lists the figures that are older than the files that the
run opened.

| claim | figures | command | commit | date |
| --- | --- | --- | --- | --- |
"""
Figures = dict[str, Any]


def _total(figures: Figures, name: str) -> int:
    """The sum of all figures of this name, however deep they lie."""
    return sum(
        _total(value, name) if isinstance(value, dict) else value if key == name and isinstance(value, int) else 0
        for key, value in figures.items()
    )


def _asan(figures: Figures) -> str:
    found = figures["tests under bounds checks"], figures["tests under sanitizers"]
    return f"{found[0]:,} tests under bounds checks, {found[1]:,} under sanitizers, a planted defect caught by both"


def _aarch64(figures: Figures) -> str:
    rooms = {part: found for part, found in figures.items() if part != "selftest"}
    passed, again = (sum(found[what] for found in rooms.values()) for what in ("passed", "again"))
    skipped = sum(sum(found["skipped"].values()) for found in rooms.values())
    checks = f"{figures['selftest']['passed']} checks of the self-test; " if "selftest" in figures else ""
    return f"{checks}{passed:,} tests of {', '.join(rooms)}, {again} of them at a second try; {skipped} skipped"


def _as_windows(figures: Figures) -> str:
    return f"{figures['passed']:,} tests pass; {figures['refused']:,} want a ledger or a key file, {figures['posix']:,} are POSIX"


def _audits(figures: Figures) -> str:
    return (
        f"{figures['audits of dpfast']} audits, {figures['draws']:,} draws: {figures['found there']} findings, and "
        f"{figures['found of these']} of {figures['planted']} planted ones found"
    )


def _builds(figures: Figures) -> str:
    refused = figures["refused"] + figures["found by the self-check"]
    return (
        f"{figures['builds']} builds on {figures['cpus']} CPUs: {figures['equal']} draw alike, {refused} refuse to run"
    )


def _coverage(figures: Figures) -> str:
    taken, exist = figures["taken"], figures["branches"]
    return f"{taken:,} of {exist:,} branches ({taken / exist:.1%}) in {len(figures['rooms'])} rooms"


def _cells(figures: Figures) -> str:
    laws = [found for found in figures.values() if isinstance(found, dict)]
    decided, failed = (
        sum(n for found in laws for what, n in found.items() if what.endswith(end)) for end in ("one answer", "in C")
    )
    return (
        f"{sum(sum(found.values()) for found in laws):,} cells in {len(laws)} parts: one answer in {decided:,}, two in "
        f"none; {failed:,} fail at the last level"
    )


def _engine(figures: Figures) -> str:
    cases = [case for case in figures.values() if "charges" in case]
    return (
        f"{len(cases)} failures; no output differs, charges at most {max(case['charges'] for case in cases)} for each"
    )


def _faults(figures: Figures) -> str:
    return f"{_total(figures, 'interrupted'):,} interrupted releases, {figures['storms']['times']} storms of exceptions"


def _fuzz(figures: Figures) -> str:
    tried = sum(figures["executions"].values())
    taken, exist = (sum(room[what] for room in figures.get("branches", {}).values()) for what in ("taken", "branches"))
    reached = f", which take {taken:,} of {exist:,} branches" if exist else ""
    return (
        f"{figures['cpu_hours']:g} CPU hours, {tried:,} executions, {sum(figures['corpus'].values()):,} inputs in the "
        f"corpora{reached}; {figures['findings']} findings"
    )


def _kills(figures: Figures) -> str:
    return f"{_total(figures, 'kills'):,} kills and {_total(figures, 'forks')} forks; no charge lost, none paid twice"


def _kills_of_files(figures: Figures) -> str:
    killed = sum(value for value in figures.values() if isinstance(value, int))
    keyed = sum(sum(value.values()) for value in figures.values() if isinstance(value, dict))
    return f"{killed + keyed:,} runs killed; an output is there whole or not at all"


def _lowest(figures: Figures) -> str:
    return f"{figures['tests']:,} tests at the lowest versions of {len(figures['floors'])} requirements"


def _mutation(figures: Figures) -> str:
    score = figures["killed"] / figures["mutants"]
    return f"{figures['killed']} of {figures['mutants']} spoilt lines noticed ({score:.1%})"


def _proofs(figures: Figures) -> str:
    refused = figures["false, refused by Gappa"] + figures["false, refused by Sollya"]
    return (
        f"{figures['scripts']} scripts: {figures['proved by Gappa']} proofs by Gappa, {figures['certified by Sollya']} by "
        f"Sollya; {refused} false bounds refused; {figures['tests of bounds by python-flint']} tests by python-flint"
    )


def _timing(figures: Figures) -> str:
    return f"{len(figures)} runs of all mechanisms; no figure tells the noise"


def _wheels(figures: Figures) -> str:
    archives = figures["archives, equal in two builds"]
    tried = [place["tests"] for place in figures["x86-64"] if place["tests"]]
    return f"{len(archives)} archives; {sum(tried):,} tests in {len(tried)} environments of x86-64"


# How the figures of a check are said; those of others are listed by their names.
def _self_check(figures: Figures) -> str:
    """By instruction set."""
    return ", ".join(f"{name}: {found['noticed']} of {found['spoilt']}" for name, found in figures.items())


SAID: dict[str, Callable[[Figures], str]] = {
    "aarch64": _aarch64, "as_windows": _as_windows, "asan": _asan, "audits": _audits, "builds": _builds, "cells": _cells, "coverage": _coverage, "dask": _engine, "faults": _faults, "fuzz": _fuzz, "kills": _kills,
    "kills_of_files": _kills_of_files, "lowest": _lowest, "mutation": _mutation, "proofs": _proofs, "self_check": _self_check, "spark": _engine, "timing": _timing, "wheels": _wheels,
}  # fmt: skip


def listed(figures: Figures) -> str:
    """The whole numbers and lists of a check, by name."""
    plain = [f"{name}: {value:,}" for name, value in figures.items() if type(value) in (int, float)]
    plain += [f"{name}: {len(value)}" for name, value in figures.items() if isinstance(value, list) and value]
    return ", ".join(plain) or f"{len(figures)}: {', '.join(figures)}"


def claim(name: str) -> str:
    """The first line of a check's module says what it shows."""
    return str(ast.get_docstring(ast.parse((HERE / "deep" / f"{name}.py").read_text()))).partition("\n")[0]


def row(record: dict[str, Any]) -> str:
    name, figures = record["check"], record["figures"]
    cells = [claim(name), SAID.get(name, listed)(figures), f"`.ci/deep {name}`", record["commit"][:10], record["date"]]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def page(folder: Path = FOLDER) -> str:
    """The page that the files of a folder make."""
    return HEAD + "".join(row(json.loads(path.read_text())) for path in sorted(folder.glob("*.json")))


if __name__ == "__main__":
    PAGE.write_text(page())
