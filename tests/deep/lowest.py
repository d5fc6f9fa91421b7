# SPDX-License-Identifier: Apache-2.0
"""The floors of pyproject.toml hold: each requirement at its least version, on the least Python.

A requirement without a floor fails, as does a floor that cannot be installed beside the others. In
a new environment the build's floors build the wheel, which passes `pip check`, its selftest and the
tests of FILES. Extras whose libraries pin versions are left out (diffprivlib, OpenDP, PipelineDP,
dp-accounting, tests/own_environments.sh). Indirect requirements are the newest that fit.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from places import ROOT, every_test_file

from deep.opened import watch

EXTRAS = ("cli", "plot", "pandas", "polars", "arrow")
FILES = (
    "arrow", "columns", "dlpack", "pandas", "polars", "arrays", "atomic_write", "cli",
    "composition", "csv_text", "discrete_laplace", "everyday_files", "exact", "files", "guarantee", "jobs", "key", "laws", "ledger",
    "parameters", "postprocess", "sensitivity", "terminal", "thresholded",
)  # fmt: skip


def floors(pyproject: dict[str, Any]) -> dict[str, str]:
    """The least version of every requirement by name: to build, to run, in EXTRAS, to test."""
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    tools = [wanted for wanted in extras["test"] if not wanted.startswith("dpfast[")]
    adapters = [wanted for extra in EXTRAS for wanted in extras[extra]]
    found: dict[str, str] = {}
    for wanted in (*pyproject["build-system"]["requires"], *project["dependencies"], *adapters, *tools):
        parsed = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", wanted)
        if not parsed:
            raise AssertionError(
                f"pyproject.toml must name a floor and nothing else, as in 'numpy>=1.26', got {wanted!r}"
            )
        name, least = parsed.groups()
        if found.setdefault(name, least) != least:
            raise AssertionError(f"pyproject.toml must name one floor of {name}, got {found[name]} and {least}")
    return found


def check(*, cheap: bool) -> dict[str, Any]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    least, files = floors(pyproject), every_test_file()
    if gone := [name for name in FILES if f"test_{name}.py" not in files]:
        raise AssertionError(f"FILES names tests that are not there: {gone}")
    if cheap:
        below = {name: floor for name, floor in least.items() if _key(version(name)) < _key(floor)}
        if below:
            raise AssertionError(f"these floors are above what is installed and tested here: {below}")
        return {"floors": len(least)}
    python = "python" + pyproject["project"]["requires-python"].removeprefix(">=")
    if not shutil.which(python):
        raise AssertionError(f"{python} must be on the path: it is the least Python")
    with tempfile.TemporaryDirectory() as folder:
        return _built_and_tested(Path(folder), python, least)


def _built_and_tested(folder: Path, python: str, least: dict[str, str]) -> dict[str, Any]:
    _run(folder, python, "-m", "venv", "lowest")
    tools = folder / "lowest" / "bin"
    watch(next((folder / "lowest" / "lib").glob("*/site-packages")))
    pip = str(tools / "pip"), "--quiet", "--disable-pip-version-check"
    _run(folder, *pip, "install", "--only-binary", ":all:", *(f"{name}=={floor}" for name, floor in least.items()))
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder / "source", filter="data")
    _run(folder, *pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", "wheel", "./source")
    [wheel] = (folder / "wheel").glob("*.whl")
    _run(folder, *pip, "install", "--no-deps", str(wheel))
    _run(folder, *pip, "check")
    checks = _run(folder, str(tools / "dpfast"), "selftest")
    files = [str(every_test_file(folder / "source" / "tests")[f"test_{name}.py"]) for name in FILES]
    # Old libraries warn of what newer ones deprecated: here a warning is no error.
    tests = _run(folder, str(tools / "pytest"), "-q", "-n", "auto", "-W", "ignore", *files)
    return {
        "python": _run(folder, str(tools / "python"), "--version").split()[1],
        "floors": least,
        "checks": int(re.findall(r"All (\d+) checks passed", checks)[0]),
        "tests": int(re.findall(r"(\d+) passed", tests)[0]),
    }


def _run(folder: Path, *command: str) -> str:
    """Run in a new environment and folder, without other packages; a failure shows the output."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise AssertionError(
            f"{' '.join(command)[:200]} ended with {ended.returncode}:\n{(ended.stdout + ended.stderr)[-4000:]}"
        )
    return ended.stdout


def _key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
