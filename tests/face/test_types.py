# SPDX-License-Identifier: Apache-2.0
"""What type checkers, and so editors, know of a release."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpfast

SCRIPT = """
import numpy as np
import dpfast

class Column: ...

counts, values = dpfast.DiscreteLaplace(1, 1), dpfast.Gaussian(2)
reveal_type(counts.release(5))
reveal_type(counts.release(np.int64(5)))
reveal_type(counts.release(5, dtype=np.uint64))
reveal_type(counts.release([5, 6], lower=0))
reveal_type(counts.release(range(3)))
reveal_type(counts.release(np.zeros(3, np.int64), key=dpfast.Key.generate().derive("q")))
reveal_type(counts.release(Column(), missing=0))
reveal_type(values.release(0.5))
reveal_type(values.release(np.zeros(3)))
reveal_type(values.release(Column()))
reveal_type(values.release((0.5, 1.5), dtype=np.float32))
reveal_type(counts.ppf(0.5))
reveal_type(counts.mean())
reveal_type(dpfast.compose([counts, counts]))
reveal_type(dpfast.compose(counts, values).epsilon)
ledger = dpfast.Ledger("budget.db")
reveal_type(ledger.release(counts, 5, label="q"))
reveal_type(ledger.release(counts, [5, 6], lower=0, resume=False))
reveal_type(ledger.release(counts, Column(), missing=0, label="q"))
reveal_type(ledger.release(values, np.zeros(3)))
reveal_type(ledger.release(dpfast.NoisyMax(1, 1), [5, 6], label="q"))
reveal_type(ledger.release(dpfast.NoisyMax(1, 1), [5, 6], k=2))
reveal_type(ledger.release(dpfast.RandomizedResponse(1), [0, 1]))
reveal_type(ledger.calibrated(dpfast.DiscreteLaplace, releases=52, sensitivity=1))
counts.release(5, lowest=3)
ledger.release(counts, 5, lowest=3)
reveal_type(values.sample(3))
"""
WRONG = "counts.release(5, lowest=3)", "ledger.release(counts, 5, lowest=3)"
REVEALED = [
    r"numpy\.signedinteger\[.*64.*\]|numpy\.int64",
    r"numpy\.signedinteger\[.*64.*\]|numpy\.int64",
    r"numpy\.integer\[Any\]",
    r"numpy\.ndarray\[.*numpy\.integer\[Any\]\]\]",
    r"numpy\.ndarray\[.*numpy\.integer\[Any\]\]\]",
    r"numpy\.ndarray\[.*numpy\.integer\[Any\]\]\]",
    r"\w+\.Column",
    r"numpy\.floating\[Any\]",
    r"numpy\.ndarray\[.*numpy\.floating\[Any\]\]\]",
    r"\w+\.Column",
    r"numpy\.ndarray\[.*numpy\.floating\[Any\]\]\]",
    r"Any",
    r"(builtins\.)?float",
    r"dpfast\.privacy\.guarantee\.Guarantee",
    r"(fractions\.)?Fraction \| None",
    r"numpy\.signedinteger\[.*64.*\]|numpy\.int64",
    r"numpy\.ndarray\[.*numpy\.integer\[Any\]\]\]",
    r"\w+\.Column",
    r"numpy\.ndarray\[.*numpy\.floating\[Any\]\]\]",
    r"(builtins\.)?int",
    r"numpy\.ndarray\[.*64.*\]",
    r"Any",
    r"dpfast\.noise\.mechanisms\.discrete_laplace\.DiscreteLaplace",
    r"Never",  # it raises
]


@pytest.mark.slow
def test_a_release_has_a_type(tmp_path: Path) -> None:
    """That of its values; an option that no release takes is an error."""
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT)
    home = Path(dpfast.__file__).parent.parent
    command = [sys.executable, "-m", "mypy", "--config-file", home / "pyproject.toml", "--cache-dir", tmp_path / "cache", tmp_path / "script.py"]  # fmt: skip
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home).stdout
    revealed = re.findall(r'Revealed type is "(.*)"', told)
    assert len(revealed) == len(REVEALED), told
    for found, expected in zip(revealed, REVEALED, strict=True):
        assert re.fullmatch(expected, found), (found, expected)
    errors = [line for line in told.splitlines() if " error: " in line]
    assert errors, told
    assert {line.split(":")[1] for line in errors} == {str(SCRIPT.split("\n").index(line) + 1) for line in WRONG}, told
