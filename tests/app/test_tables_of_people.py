# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize` says of a table that it looks like people, from rows and columns alone."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpfast.app.cli import main

ROWS = 10_000
LAW = ["--column", "n", "--epsilon", "1", "--sensitivity", "1"]


@pytest.fixture
def table(tmp_path) -> Callable[..., Path]:
    def made(rows: int, head: str = "id,race,sex,age,n", row: str = "7,x,f,30,5") -> Path:
        path = tmp_path / f"{rows} {head.count(',')}.csv"
        path.write_text("\n".join([head, *[row] * rows]) + "\n")
        return path

    return made


def told(capsys, source: Path, *options: str) -> str:
    assert main(["privatize", str(source), str(source.with_name("out.csv")), *LAW, "--force", *options]) == 0
    return capsys.readouterr().err


def test_many_rows_beside_columns_without_noise_name_histogram(table, capsys) -> None:
    """Once, on stderr, also with --quiet; and not of few rows, nor of noisy columns alone."""
    err = told(capsys, table(ROWS + 1))
    (line,) = (line for line in err.splitlines() if line.startswith("Warning"))
    assert line.startswith("Warning: 10,001 rows with columns without noise (id, race, sex, …): if a row is a person")
    assert "`dpfast histogram`" in line
    assert told(capsys, table(ROWS + 1), "--quiet") == f"{line}\n"
    assert "Warning" not in told(capsys, table(ROWS))
    assert "Warning" not in told(capsys, table(ROWS + 1, "n", "5"))
    np.save(source := table(1).with_name("in.npy"), np.zeros(ROWS + 1, np.int64))
    main(["privatize", str(source), str(source.with_name("out.npy")), "--epsilon", "1", "--sensitivity", "1"])
    assert "Warning" not in capsys.readouterr().err


def test_who_knows_better_silences_it(table, capsys, monkeypatch) -> None:
    """By PYTHONWARNINGS, which makes no release an error."""
    for options, told in ((["ignore"], False), (["i::UserWarning"], False), (["error"], True), ([], True)):
        source = table(ROWS + 1)
        target = source.with_name("new.csv")
        monkeypatch.setattr(sys, "warnoptions", options)
        with warnings.catch_warnings():
            warnings.simplefilter("error" if options == ["error"] else "default")
            assert main(["privatize", str(source), str(target), *LAW, "--quiet"]) == 0
        assert target.exists()
        assert ("rows with columns" in capsys.readouterr().err) is told
        for each in source.parent.glob("new.csv*"):
            each.unlink()
