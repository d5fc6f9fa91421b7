# SPDX-License-Identifier: Apache-2.0
"""The command line as tests call it: files of one column, `explain` twice, processes, one error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from ast import literal_eval
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from table_files import read, store

import dpfast
from dpfast.app.cli import main

SECRET = "918273645"  # a count that no message may quote
LAW = ["--epsilon", "1", "--sensitivity", "1"]
ENDS = [".csv", ".parquet", ".arrow", ".feather", ".npy"]


def make(path: Path, cells: np.ndarray) -> list[str]:
    """Write a column of counts or values beside names; the options that choose it."""
    column = "value" if cells.dtype.kind == "f" else "count"
    table = pa.table({"name": [f"{i:03}" for i in range(len(cells))], column: cells})
    if path.suffix == ".npy":
        np.save(path, cells)
        return []
    if path.suffix == ".csv":
        lines = [f"{name},{cell!r}\n" for name, cell in zip(table["name"], cells.tolist(), strict=True)]
        path.write_text(f"name,{column}\n" + "".join(lines))
    else:
        store(table, path)
    return ["--column", column]


def load(path: Path, column: str = "count") -> tuple[np.ndarray, dict[str, object]]:
    """Read a column, and the record that travels with it."""
    beside = path.with_name(path.name + ".json")
    if path.suffix == ".npy":
        return np.load(path), json.loads(beside.read_text())
    if path.suffix == ".csv":
        head, *rows = (line.split(",") for line in path.read_text().splitlines())
        return np.array([literal_eval(row[head.index(column)]) for row in rows]), json.loads(beside.read_text())
    table = read(path)
    return table[column].to_numpy(), json.loads(table.schema.metadata[b"dpfast"])


def privatize(folder: Path, *options: str, cells: object = range(9), end: str = ".csv") -> int:
    """Noise a file of these cells, or None for the file that is there; the exit code."""
    chosen = [] if cells is None else make(folder / f"in{end}", np.asarray(cells))
    return main(["privatize", str(folder / f"in{end}"), str(folder / f"out{end}"), *chosen, *options])


def explain(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, dict[str, object]]:
    """What a reader is told, in single spaces, and what a program is told."""
    assert main(["explain", *options]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert main(["explain", *options, "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)


def run(*arguments: object, code: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    """Run in a new process, after `code`. The timeout meets a hang, not a slow machine."""
    program = f"import sys\n{textwrap.dedent(code)}\nfrom dpfast.app.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)


def run_each(commands: list[list[str]], code: str = "") -> list[tuple[int, str]]:
    """Run several in one process, after `code`: how each ended, and what it said on stderr."""
    each = """
        import contextlib, io, json
        from dpfast.app.cli import main
        ended = []
        for command in json.loads(sys.argv[1]):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                ended.append((main(command), said.getvalue()))
        print(json.dumps(ended))
        sys.exit()
    """
    result = run(json.dumps(commands), code=textwrap.dedent(code) + textwrap.dedent(each))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def one_error(stderr: str, match: str) -> None:
    lines = [line for line in stderr.splitlines() if not line.startswith(("Usage:", "Try ", "Warning: ")) and line]
    assert len(lines) == 1, stderr
    assert re.search(match, lines[0]), stderr
    assert lines[0].startswith("Error: ")
    assert SECRET not in stderr


G, DG = ["--mechanism", "gaussian"], ["--mechanism", "discrete-gaussian"]
LAPLACE, SNAPPING = ["--mechanism", "laplace"], ["--mechanism", "snapping"]
ONE_CELL = ["--l0", "1", "--linf", "1"]
PEOPLE = {"adjacency": "add-remove", "unit": "person"}
NAMED = {  # a law's options, and the mechanism that they name
    "discrete-laplace": (LAW, lambda: dpfast.DiscreteLaplace(1, 1)),
    "discrete-gaussian": (
        ["--epsilon", "1", "--delta", "1e-6", *ONE_CELL],
        lambda: dpfast.DiscreteGaussian.calibrated(1, dpfast.Sensitivity(1, 1), delta=Fraction(1, 10**6)),
    ),
    "laplace": (
        ["--epsilon", "1", "--l0", "2", "--linf", "0.5", "--granularity", "2**-10"],
        lambda: dpfast.Laplace(1, dpfast.Sensitivity(2, 0.5), granularity=2**-10),
    ),
    "snapping": ([*LAW, "--bound", "100000"], lambda: dpfast.Snapping(1, 1, bound=100_000)),
    "gaussian": (
        ["--rho", "1/8", "--l2-squared", "4", "--adjacency", "substitution"],
        lambda: dpfast.Gaussian.from_zcdp(Fraction(1, 8), dpfast.Sensitivity.from_l2(4, adjacency="substitution")),
    ),
}
