# SPDX-License-Identifier: Apache-2.0
"""Upgrades a ledger of format 1 or 2: its terms, charges and parts stay.

Format 1 had tables of the accounting unit's own, no kinds of rows, and no checkpoint. Format 2
lacked the nonce of a charge and the amounts in mu_squared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import compress
from operator import add, gt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast.errors import LedgerError
from dpfast.ledger import store
from dpfast.ledger.lock import leaving_nothing_held
from dpfast.ledger.store import CHARGE, KEPT, Amounts, State, Terms
from dpfast.noise.release.secret import encode

if TYPE_CHECKING:
    from sqlite3 import Connection


@leaving_nothing_held
def upgrade(path: Path, group: int | None) -> None:
    """Write a ledger of an earlier format anew in its place, in one transaction, after a check.

    A new file over it would lose the charge of a process that waits for the old one.
    Raises: LedgerError; then the file is as it was.
    """
    with store.writing(path, group) as connection:
        application, version, journal = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        )
        if application != store.APPLICATION or version not in (1, 2):
            raise LedgerError(f"{path} is not a ledger of format 1 or 2")
        if journal != "delete":
            raise LedgerError(f"{path} was put into journal mode {journal!s:.10}; a ledger's is delete")
        found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        formats: list[Format1 | Format2] = [Format2()] if version == 2 else [Format1(each) for each in KEPT]
        old = next((each for each in formats if found == set(each.schema())), None)
        if old is None:
            raise store.damaged(path, "its tables are not those of a ledger")
        store.sound(connection, path)
        rows = connection.execute("SELECT * FROM promise").fetchall()
        if len(rows) != 1:
            raise store.damaged(path, "it states no budget")
        terms, identity = old.terms(path, rows[0])
        charges = list(_charges(connection, path, terms, old))
        parts = connection.execute("SELECT * FROM parts").fetchall()
        for row in parts:
            old.checked(path, b"", row)
        old.check(connection, path, terms, charges[-1] if charges else None, len(parts))
        for table in old.tables:
            connection.execute(f"DROP TABLE {table}")
        terms = store.lay_out(connection, terms, identity)
        state = State(0, 0, (), terms.digest)
        for each in charges:
            figures = *store.texts(terms.accounting, each.paid), *store.texts(terms.accounting, each.spent)
            row = *each.about, store.nonce(), *figures, each.release
            digest = store.insert(connection, "releases", state.digest, *row)
            state = State(each.about[0], len(parts), each.spent, digest)
        for *part, _ in parts:
            store.insert(connection, "parts", b"", *part)
        if charges:
            store.move(connection, terms, state)
        store.whole(connection, path)


class Charged(NamedTuple):
    """A charge as it was: number, time, kind, label, mechanism; amounts, sums, release."""

    about: tuple[Any, ...]
    paid: Amounts
    spent: Amounts
    release: bytes | None
    digest: bytes


class Format1:
    """Tables of the amounts alone that the ledger is kept in."""

    tables: tuple[str, ...] = ("promise", "releases", "parts")

    def __init__(self, accounting: tuple[str, ...]) -> None:
        self.accounting = accounting

    def schema(self) -> list[str]:
        return _schema(self.accounting)

    def checked(self, path: Path, before: bytes, row: Sequence[Any]) -> bytes:
        return _checked(path, before, row)

    def terms(self, path: Path, row: Sequence[Any]) -> tuple[Terms, bytes]:
        """The terms, with the digest of this format, and the ledger's identity."""
        dataset, adjacency, unit, *budget, identity, _ = row
        digest = self.checked(path, b"", row)
        return Terms(self.accounting, store.exact(path, budget), dataset, adjacency, unit, digest), identity

    def about(self, row: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], list[Any]]:
        """Number, time, kind, label, mechanism; the amounts; the sums."""
        n = len(self.accounting)
        return (*row[:2], CHARGE, *row[2:4]), list(row[4 : 4 + n]), list(row[4 + n : 4 + 2 * n])

    def check(self, connection: Connection, path: Path, terms: Terms, last: Charged | None, parts: int) -> None:
        """It has no checkpoint."""


class Format2:
    """Today's tables, without nonces and without amounts in mu_squared."""

    tables: tuple[str, ...] = ("promise", "releases", "parts", "checkpoint")
    checked = staticmethod(store.checked)

    def schema(self) -> list[str]:
        amounts, totals = "epsilon TEXT, delta TEXT, rho TEXT", "epsilon_total TEXT, delta_total TEXT, rho_total TEXT"
        tables = {
            "promise": f"dataset TEXT NOT NULL, adjacency TEXT NOT NULL, unit TEXT NOT NULL, {amounts}, "
            "identity BLOB NOT NULL, digest BLOB NOT NULL",
            "releases": "number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, label TEXT NOT NULL, "
            f"mechanism TEXT NOT NULL, {amounts}, {totals}, release BLOB UNIQUE, digest BLOB NOT NULL",
            "parts": "number INTEGER, begin INTEGER, size INTEGER NOT NULL, name BLOB NOT NULL, digest BLOB NOT NULL, "
            "PRIMARY KEY (number, begin)",
            "checkpoint": f"charges INTEGER NOT NULL, parts INTEGER NOT NULL, {totals}, head BLOB NOT NULL, "
            "digest BLOB NOT NULL",
        }
        return store.statements(tables, ("checkpoint", "UPDATE"))

    def terms(self, path: Path, row: Sequence[Any]) -> tuple[Terms, bytes]:
        dataset, adjacency, unit, *budget, identity, _ = row
        digest = self.checked(path, b"", row)
        accounting = tuple(compress(store.NAMES, budget))
        if accounting not in KEPT:
            raise store.damaged(path, "it states no budget")
        return Terms(
            accounting, store.exact(path, budget[KEPT[accounting]]), dataset, adjacency, unit, digest
        ), identity

    def about(self, row: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], list[Any]]:
        return tuple(row[:5]), list(filter(None, row[5:8])), list(filter(None, row[8:11]))

    def check(self, connection: Connection, path: Path, terms: Terms, last: Charged | None, parts: int) -> None:
        """Raises: LedgerError (its checkpoint says otherwise)."""
        rows = connection.execute("SELECT * FROM checkpoint").fetchall()
        if len(rows) != 1:
            raise store.damaged(path, "it has no checkpoint")
        self.checked(path, terms.digest, rows[0])
        number, spent, digest = (last.about[0], last.spent, last.digest) if last else (0, None, terms.digest)
        totals = store.exact(path, rows[0][2:5][KEPT[terms.accounting]])
        if (*rows[0][:2], rows[0][5]) != (number, parts, digest) or totals != (spent or (0,) * len(totals)):
            raise store.damaged(path, "its checkpoint and its charges differ")


def _charges(connection: Connection, path: Path, terms: Terms, old: Format1 | Format2) -> Iterator[Charged]:
    """Each charge, checked."""
    before, digest = 0, terms.digest
    spent: Amounts = (Fraction(0),) * len(terms.accounting)
    for row in connection.execute("SELECT * FROM releases ORDER BY number"):
        digest = old.checked(path, digest, row)
        about, amounts, totals = old.about(row)
        number, paid, total = about[0], store.exact(path, amounts), store.exact(path, totals)
        if len(paid) != len(spent):
            raise store.damaged(path, f"charge {before + 1} does not add up")
        spent = tuple(map(add, spent, paid))
        if number != before + 1 or total != spent or any(map(gt, spent, terms.budget)):
            raise store.damaged(path, f"charge {before + 1} does not add up")
        before = number
        yield Charged(about, paid, spent, row[-2], digest)


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
    return store.statements(tables)


def _checked(path: Path, before: bytes, row: Sequence[Any]) -> bytes:
    """The digest of a row of format 1, if it is right."""
    *fields, digest = row
    found = blake2b(encode(before, *fields), digest_size=16, person=b"ledger row").digest()
    if digest != found:
        raise store.damaged(path, "a row is not as it was written")
    return found
