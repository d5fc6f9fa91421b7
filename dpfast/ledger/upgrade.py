# SPDX-License-Identifier: Apache-2.0
"""Upgrades a ledger of format 1, which had no checkpoint: its terms, charges and parts stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from operator import add, gt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpfast.errors import LedgerError
from dpfast.ledger import store
from dpfast.ledger.store import CHARGE, KEPT, Amounts, State, Terms
from dpfast.release.key import encode

if TYPE_CHECKING:
    from sqlite3 import Connection


def upgrade(path: Path, group: int | None) -> None:
    """Write a ledger of format 1 anew in its place, in one transaction, after checking all of it.

    A new file over it would lose the charge of a process that waits for the old one.
    Raises: LedgerError; then the file is as it was.
    """
    with store.writing(path, group) as connection:
        header = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if header != [store.APPLICATION, 1]:
            raise LedgerError(f"{path} is not a ledger of format 1")
        found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        accounting = next((accounting for accounting in KEPT if found == set(_schema(accounting))), None)
        if accounting is None:
            raise store.damaged(path, "its tables are not those of a ledger")
        store.sound(connection, path)
        terms, identity = _terms(connection, path, accounting)
        charges = list(_charges(connection, path, terms))
        parts = connection.execute("SELECT * FROM parts").fetchall()
        for row in parts:
            _checked(path, b"", row)
        for table in ("promise", "releases", "parts"):
            connection.execute(f"DROP TABLE {table}")
        terms = store.lay_out(connection, terms, identity)
        state = State(0, 0, (), terms.digest)
        for (number, when, *about), paid, spent, release in charges:
            figures = *store.texts(accounting, paid), *store.texts(accounting, spent)
            digest = store.insert(connection, "releases", state.digest, number, when, CHARGE, *about, *figures, release)
            state = State(number, len(parts), spent, digest)
        for *part, _ in parts:
            store.insert(connection, "parts", b"", *part)
        if charges:
            store.move(connection, terms, state)
        store.whole(connection, path)


def _schema(accounting: tuple[str, ...]) -> list[str]:
    """The statements of format 1."""
    amounts = ", ".join(f"{name} TEXT NOT NULL" for name in accounting)
    totals = ", ".join(f"{name}_total TEXT NOT NULL" for name in accounting)
    tables = {
        "promise": f"dataset TEXT NOT NULL, adjacency TEXT NOT NULL, unit TEXT NOT NULL, {amounts}, "
        "identity BLOB NOT NULL, digest BLOB NOT NULL",
        "releases": "number INTEGER PRIMARY KEY, time TEXT NOT NULL, label TEXT NOT NULL, mechanism TEXT NOT NULL, "
        f"{amounts}, {totals}, release BLOB UNIQUE, digest BLOB NOT NULL",
        "parts": "number INTEGER, begin INTEGER, size INTEGER NOT NULL, name BLOB NOT NULL, digest BLOB NOT NULL, "
        "PRIMARY KEY (number, begin)",
    }
    made = [f"CREATE TABLE {name} ({columns})" for name, columns in tables.items()]
    for name in tables:
        made += [
            f"CREATE TRIGGER {name}_{verb} BEFORE {verb} ON {name} BEGIN SELECT RAISE(ABORT, 'only added to'); END"
            for verb in ("UPDATE", "DELETE")
        ]
    return made


def _checked(path: Path, before: bytes, row: Sequence[Any]) -> bytes:
    """The digest of a row of format 1, if it is right."""
    *fields, digest = row
    found = blake2b(encode(before, *fields), digest_size=16, person=b"ledger row").digest()
    if digest != found:
        raise store.damaged(path, "a row is not as it was written")
    return found


def _terms(connection: Connection, path: Path, accounting: tuple[str, ...]) -> tuple[Terms, bytes]:
    """The terms, with the digest of format 1, and the ledger's identity."""
    rows = connection.execute("SELECT * FROM promise").fetchall()
    if len(rows) != 1:
        raise store.damaged(path, "it states no budget")
    dataset, adjacency, unit, *budget, identity, _ = rows[0]
    digest = _checked(path, b"", rows[0])
    return Terms(accounting, store.exact(path, budget), dataset, adjacency, unit, digest), identity


def _charges(connection: Connection, path: Path, terms: Terms) -> Iterator[tuple[Any, Amounts, Amounts, Any]]:
    """Each charge, checked: number, time, label, mechanism; its amounts, the sums, its release."""
    n, before, digest = len(terms.accounting), 0, terms.digest
    spent: Amounts = (Fraction(0),) * n
    for row in connection.execute("SELECT * FROM releases ORDER BY number"):
        digest = _checked(path, digest, row)
        number, paid, total = row[0], store.exact(path, row[4 : 4 + n]), store.exact(path, row[4 + n : 4 + 2 * n])
        spent = tuple(map(add, spent, paid))
        if number != before + 1 or total != spent or any(map(gt, spent, terms.budget)):
            raise store.damaged(path, f"charge {before + 1} does not add up")
        before = number
        yield row[:4], paid, spent, row[-2]
