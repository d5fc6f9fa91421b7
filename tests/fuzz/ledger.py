# SPDX-License-Identifier: Apache-2.0
"""A ledger whose file was damaged or edited, and what is then read from it and charged to it.

Only LedgerError may come. What passes `verify` is what was written. A total that is told is the
true one. A release that returns is charged, and one that is refused has no charge.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import dpfast
from fuzz import Finding, must
from fuzz.choices import Choices

LOOKS = {0, 1, 2}  # actions that spend nothing
RESUMES = 6  # the action that should spend nothing; a damaged index can hide that it was paid for
MECHANISM = dpfast.DiscreteLaplace(1, 1)
TABLES = {
    "promise": ["dataset", "adjacency", "unit", "epsilon", "delta", "rho", "identity", "digest"],
    "releases": [
        "number", "time", "kind", "label", "mechanism", "epsilon", "delta", "rho", "epsilon_total", "delta_total", "rho_total",
        "release", "digest",
    ],
    "parts": ["number", "begin", "size", "name", "digest"],
    "checkpoint": ["charges", "parts", "epsilon_total", "delta_total", "rho_total", "head", "digest"],
}  # fmt: skip
VALUES = [None, 0, 1, -1, 2**62, 1e300, "", "0", "1", "1/0", "nan", "-1", "1/3", b"", b"\0" * 32, "9" * 4000, "charge"]
EDITS = [
    "DROP TABLE {table}", "DELETE FROM {table}", "INSERT INTO {table} SELECT * FROM {table}", "CREATE TABLE more (x)",
    "CREATE VIEW more AS SELECT * FROM {table}", "PRAGMA user_version = 4", "PRAGMA application_id = 1",
    "ALTER TABLE {table} ADD COLUMN more", "PRAGMA journal_mode = WAL", "PRAGMA journal_mode = PERSIST",
    "CREATE TRIGGER more AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
]  # fmt: skip


class Target:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "l.db"
        ledger = dpfast.Ledger(self._path, 10, delta=1e-3, create=True)
        self._key = dpfast.Key.generate()
        for value in range(3):
            ledger.release(MECHANISM, [value], label=f"release {value}")
        ledger.release(MECHANISM, [1, 2, 3], key=self._key.derive("sealed"))
        self._spent, self._entries = ledger.spent, len(ledger.history())
        self._whole = self._path.read_bytes()

    def seeds(self) -> Iterator[bytes]:
        for action in range(9):
            yield bytes([0, 1, 0, action, 0, 1, action])
            for table in range(4):
                yield bytes([1, 1, 0, table, action, action * 2, action])
                yield bytes([2, 1, table, action, action])

    def __call__(self, data: bytes) -> None:
        chosen = Choices(data)
        for extra in ("-journal", "-wal", "-shm"):
            Path(f"{self._path}{extra}").unlink(missing_ok=True)
        kind = chosen.below(4)
        self._path.write_bytes(self._whole)
        if kind in (0, 3):
            actions = [chosen.below(9) for _ in range(1 + chosen.below(3))]
            if kind == 3:
                Path(f"{self._path}-journal").write_bytes(chosen.take(chosen.below(300)))
            self._path.write_bytes(chosen.patched(self._whole))
        else:
            edits = 1 + chosen.below(2)
            with contextlib.closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
                for _ in range(edits):
                    with contextlib.suppress(sqlite3.Error):
                        self._edit(connection, chosen, values=kind == 1)
            actions = [chosen.below(9) for _ in range(1 + chosen.below(3))]
        try:
            ledger = dpfast.Ledger(self._path)
            spent = ledger.spent
        except dpfast.errors.LedgerError:
            return
        except Exception as error:
            raise Finding(f"open: {type(error).__name__}: {error}") from error
        if spent != self._spent:
            raise Finding("a total was told that is not the true one")
        charged = 0
        for action in actions:
            charged += self._act(ledger, action, charged)

    def _edit(self, connection: sqlite3.Connection, chosen: Choices, *, values: bool) -> None:
        table = chosen.pick(sorted(TABLES))
        if not values:
            connection.executescript(chosen.pick(EDITS).format(table=table))
            return
        column, value = chosen.pick(TABLES[table]), chosen.pick([*VALUES, chosen.text(), chosen.take(16)])
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in found:
            connection.execute(f"DROP TRIGGER {name}")
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, 1 + chosen.below(4)))
        finally:
            for _, sql in found:
                connection.execute(sql)

    def _act(self, ledger: dpfast.Ledger, action: int, charged: int) -> int:
        """One thing done with the ledger; how many charges that was."""
        before, did = self._told(ledger), (self._look if action in LOOKS else self._spend)
        try:
            paid = did(ledger, action, charged)
        except dpfast.errors.DpfastError:
            paid = 0
        except Finding:
            raise
        except Exception as error:
            raise Finding(f"action {action}: {type(error).__name__}: {error}") from error
        after = self._told(ledger)
        must(not paid or after is not None, f"action {action} released, and the total cannot be read")
        if before is not None and after is not None:
            spent = after.epsilon - before.epsilon
            hidden = action == RESUMES and spent == 1 and not self._verified(ledger)
            must(spent == paid or hidden, f"action {action}: {'released' if paid else 'refused'}, and charged {spent}")
        return paid

    @staticmethod
    def _verified(ledger: dpfast.Ledger) -> bool:
        with contextlib.suppress(dpfast.errors.LedgerError):
            return ledger.verify() > 0
        return False

    def _look(self, ledger: dpfast.Ledger, action: int, charged: int) -> int:
        if action == 0:
            must(ledger.verify() >= self._entries, "verify passed and lost charges")
        elif action == 1:
            must(len(ledger.history()) >= self._entries + charged, "the history lost charges")
        else:
            copied = self._path.with_name("copy.db")
            copied.unlink(missing_ok=True)
            ledger.copy(copied)
            must(dpfast.Ledger(copied).verify() >= self._entries, "a copy lost charges")
        return 0

    def _spend(self, ledger: dpfast.Ledger, action: int, _: int) -> int:
        """What it should cost."""
        if action == 3:
            ledger.release(MECHANISM, [7], label="more")
        elif action == 4:
            ledger.spend(dpfast.Guarantee(1))
        elif action == 5:
            ledger.release(MECHANISM, [1], key=self._key.derive("another"))
        elif action == RESUMES:
            again = ledger.release(MECHANISM, [1, 2, 3], key=self._key.derive("sealed"), resume=True)
            must(len(again) == 3, "a resumed release has another shape")
            return 0
        elif action == 7:
            ledger.spend(dpfast.Guarantee(100))
            must(False, "more was spent than there is")
        else:
            ledger.release(dpfast.Laplace(1, 1), [float("nan")], label="refused")
            must(False, "a NaN was released")
        return 1

    @staticmethod
    def _told(ledger: dpfast.Ledger) -> dpfast.Guarantee | None:
        try:
            return ledger.spent
        except dpfast.errors.LedgerError:
            return None
        except Exception as error:
            raise Finding(f"spent: {type(error).__name__}: {error}") from error
