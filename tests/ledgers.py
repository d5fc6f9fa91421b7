# SPDX-License-Identifier: Apache-2.0
"""Ledgers of tests: their mechanisms, keys and files, and how a file is edited."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np

import dpfast
from dpfast import (
    DiscreteLaplace,
    Key,
    Sensitivity,
)
from dpfast.app.cli import main
from dpfast.ledger import store

TENTH = DiscreteLaplace(Decimal("0.1"), 1000)  # two draws are equal once in 40,000


ZEROS = np.zeros(50, np.int64)


MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where a flush costs nothing


CELLS = Sensitivity(2, 1)


UNTOLD = "\nwithout --key-file nobody can tell whether a copy was restored since\n"


def release_key(label: str = "visits/age") -> dpfast.ReleaseKey:
    return Key.from_bytes(bytes(range(32))).derive(label)


def rewritten(*statements: str, digests: bool = True) -> Callable:
    """An editor of SQLite files who puts the triggers back, and digests and sums right."""

    def change(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        connection.text_factory = lambda text: text.decode(errors="replace")
        head = budget = b""
        for table in ("promise", "releases") if digests else ():
            for at, *row, _ in connection.execute(f"SELECT rowid, * FROM {table}").fetchall():
                head = store._digest(head if table == "releases" else b"", row)
                connection.execute(f"UPDATE {table} SET digest = ? WHERE rowid = ?", [head, at])
                budget = head if table == "promise" else budget
        if digests:
            totals = "epsilon_total, delta_total, rho_total"
            last = connection.execute(f"SELECT {totals} FROM releases ORDER BY number DESC").fetchone()
            (charges,) = connection.execute("SELECT COUNT(*) FROM releases").fetchone()
            connection.execute(
                f"UPDATE checkpoint SET (charges, {totals}, head) = (?, ?, ?, ?, ?)", [charges, *last, head]
            )
            *row, _ = connection.execute("SELECT * FROM checkpoint").fetchone()
            connection.execute("UPDATE checkpoint SET digest = ?", [store._digest(budget, row)])
        for _, sql in triggers:
            connection.execute(sql)
        connection.close()

    return change


edited = partial(rewritten, digests=False)


ALTERED = "a row is not as it was written"


def command(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(list(map(str, arguments)))
    return code, *capsys.readouterr()
