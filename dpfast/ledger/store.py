# SPDX-License-Identifier: Apache-2.0
"""The file of a ledger: SQLite, with tables that are only added to.

A charge must outlive a power cut once its noise can leave. So a rollback journal, and synchronous = EXTRA: a commit
returns when the file, and then the removal of its journal, are on the disk; under FULL the journal could come back and
undo the charge. No write-ahead log: it lives in two more files, which a copy of the ledger would forget, and in shared
memory, which network file systems have not. Each call opens the file and closes it: there is nothing to share or to fork.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from hashlib import blake2b
from operator import add, gt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dpfast.errors import BudgetExhausted, KeyReuseError, LedgerError
from dpfast.key import encode
from dpfast.ledger.table import Entry, figure

if TYPE_CHECKING:
    from sqlite3 import Connection

    from dpfast.key import PartName

Amounts: TypeAlias = tuple[Fraction, ...]

APPLICATION, VERSION = 0x64_70_6C_67, 1  # in the file's header; "dplg"
CURRENCIES = ("epsilon", "delta"), ("rho",)
PATIENCE = 30.0  # seconds to wait while others write
MOST_BITS = 1024  # of a sum's denominator, before charges are rounded
FINEST = 1074  # bits after the point of a rounded charge, as doubles have
SLIGHT = Fraction(1, 10**9)  # what is short by less is short by the rounding of a float

# SQLite's connections and locks survive no fork: one at a time in a process, and a fork waits for it.
_using = threading.RLock()
os.register_at_fork(before=_using.acquire, after_in_parent=_using.release, after_in_child=_using.release)


class Terms(NamedTuple):
    """What a ledger promises: how much of which currency may be spent, on which data set, for whom."""

    currency: tuple[str, ...]
    budget: Amounts
    dataset: str
    adjacency: str
    unit: str
    digest: bytes = b""  # of its row, which no other ledger has


class Charge(NamedTuple):
    """What one release spends."""

    label: str
    record: dict[str, object]  # of the mechanism, JSON-able
    amounts: Amounts


def create(path: Path, terms: Terms) -> None:
    """Make a ledger that appears whole, over nothing that is there, and is its owner's alone.

    Raises: FileExistsError; LedgerError.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".dpfast-") as folder:
            made = Path(folder, "ledger")
            made.touch(mode=0o600)
            with _connected(made, path) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                for statement in _schema(terms.currency):
                    connection.execute(statement)
                row = terms.dataset, terms.adjacency, terms.unit, *map(str, terms.budget), secrets.token_bytes(16)
                _insert(connection, "promise", b"", *row)
                connection.execute("COMMIT")
            path.hardlink_to(made)  # which, unlike a rename, never replaces what is there
        folder_handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder_handle)
        finally:
            os.close(folder_handle)
    except FileExistsError:
        raise
    except OSError as error:
        raise LedgerError(f"cannot make a ledger at {path}: {error.strerror or 'failed'}") from None


class Store:
    """A ledger's file. All that reads it raises LedgerError: no ledger, damaged, locked, or another one by now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path) as connection:
            self.terms = _terms(connection, path)
            found = connection.execute("PRAGMA integrity_check(1)").fetchall()
            if found != [("ok",)]:
                raise _damaged(path, f"SQLite says: {str(found[0][0]).splitlines()[-1]:.80}")
            _entries(connection, path, self.terms)
            for part in connection.execute("SELECT * FROM parts"):
                _checked(path, b"", part)

    def entries(self) -> list[Entry]:
        """All charges, their sums checked."""
        with _reading(self.path) as connection:
            self._same(connection)
            return _entries(connection, self.path, self.terms)

    def spent(self) -> Amounts:
        with _reading(self.path) as connection:
            self._same(connection)
            return _last(connection, self.path, self.terms)[1]

    def charge(self, charges: Sequence[Charge], part: PartName | None = None) -> None:
        """Record all charges or none; when this returns they are on the disk. part: of the one release that is charged.

        Raises: BudgetExhausted, KeyReuseError, LedgerError; then nothing is charged, unless the disk itself failed.
        """
        with _connected(self.path) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("BEGIN IMMEDIATE")
            self._same(connection)
            release = None if part is None else part.release
            known = connection.execute("SELECT number FROM releases WHERE release = ?", [release]).fetchone()
            number = self._charge(connection, charges, release) if known is None else known[0]
            if part is not None and not _there(connection, number, part):
                _insert(connection, "parts", b"", number, part.begin, part.end - part.begin, part.stream)
            connection.execute("COMMIT")

    def _charge(self, connection: Connection, charges: Sequence[Charge], release: bytes | None) -> int:
        """Add the charges; the number of the last."""
        number, before, digest = _last(connection, self.path, self.terms)
        total = before
        for charge in charges:
            amounts = tuple(map(payable, charge.amounts, total))
            total = tuple(map(add, total, amounts))
            number += 1
            row = number, _now(), charge.label, json.dumps(charge.record), *map(str, amounts), *map(str, total), release
            digest = _insert(connection, "releases", digest, *row)
        if any(map(gt, total, self.terms.budget)):
            raise self._exhausted(before, total)
        return number

    def _exhausted(self, spent: Amounts, total: Amounts) -> BudgetExhausted:
        said, hint = [], ""
        for name, most, before, after in zip(*self.terms[:2], spent, total, strict=True):
            if after > most:
                left = figure(most - before, up=False)
                if after - most < SLIGHT * (after - before):
                    left = "a little less"
                    hint = ". Numbers are taken exactly, and the float 0.1 is a little more than Decimal('0.1')"
                said.append(
                    f"{name} {figure(after - before, up=True)} is asked for and {left} is left of {figure(most, up=True)}"
                )
        return BudgetExhausted(f"{self.path}: {', '.join(said)}; nothing was released{hint}")

    def _same(self, connection: Connection) -> None:
        if _terms(connection, self.path) != self.terms:
            raise LedgerError(f"{self.path} is another ledger than when it was opened")


def payable(amount: Fraction, total: Fraction) -> Fraction:
    """The charge: the amount itself, unless the sum would grow too long; then rounded up, by less than 2^-FINEST."""
    if (total + amount).denominator.bit_length() <= MOST_BITS:
        return amount
    return Fraction(-(-amount.numerator * 2**FINEST // amount.denominator), 2**FINEST)


# ------------------------------------------------------------------ SQLite


@contextmanager
def _connected(path: Path, called: Path | None = None) -> Iterator[Connection]:
    """Yield a connection, whose transaction is undone unless it was committed."""
    import sqlite3  # late: not every build of Python has it

    if not os.path.isfile(path):  # noqa: PTH113  it never raises
        raise LedgerError(f"{path} {'is not a file' if os.path.lexists(path) else 'does not exist'}")
    with _using:
        try:
            connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None)
            try:
                connection.execute("PRAGMA trusted_schema = OFF")
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise LedgerError(f"{called or path}: {error}; nothing was released") from None
        except UnicodeDecodeError:  # of a message that quotes the file
            raise _damaged(path, "its text is not UTF-8") from None


@contextmanager
def _reading(path: Path) -> Iterator[Connection]:
    """The same, for several looks at one state."""
    with _connected(path) as connection:
        connection.execute("BEGIN")
        yield connection


def _schema(currency: tuple[str, ...]) -> list[str]:
    """The statements that make the tables, which the file repeats to the letter."""
    amounts = ", ".join(f"{name} TEXT NOT NULL" for name in currency)
    totals = ", ".join(f"{name}_total TEXT NOT NULL" for name in currency)
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


def _insert(connection: Connection, table: str, before: bytes, *row: Any) -> bytes:
    """Add a row and its digest, which it returns. before: the digest of the row before, where rows are a chain."""
    digest = _digest(before, row)
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} VALUES ({places}, ?)", [*row, digest])  # noqa: S608  our own names
    return digest


def _digest(before: bytes, row: Iterable[Any]) -> bytes:
    return blake2b(encode(before, *row), digest_size=16, person=b"ledger row").digest()


def _checked(path: Path, before: bytes, row: Sequence[Any]) -> bytes:
    """The digest of a row, if it is right: a guard against decay and slips, not against who can write here."""
    *fields, digest = row
    found = _digest(before, fields)
    if digest != found:
        raise _damaged(path, "a row is not as it was written")
    return found


def _terms(connection: Connection, path: Path) -> Terms:
    """What the file promises, once it is known to be a ledger."""

    def value(pragma: str) -> Any:
        return connection.execute(f"PRAGMA {pragma}").fetchone()[0]

    if value("application_id") != APPLICATION:
        raise LedgerError(f"{path} is not a ledger of dpfast")
    if value("user_version") != VERSION:
        raise LedgerError(f"{path} is a ledger of another version of dpfast: {value('user_version')}, not {VERSION}")
    if value("journal_mode") != "delete":
        raise LedgerError(f"{path} was put into journal mode {value('journal_mode')!s:.10}; a ledger's is delete")
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    currency = next((currency for currency in CURRENCIES if found == set(_schema(currency))), None)
    if currency is None:
        raise _damaged(path, "its tables are not those of a ledger")
    rows = connection.execute("SELECT * FROM promise").fetchall()
    if len(rows) != 1:
        raise _damaged(path, "it makes no promise")
    dataset, adjacency, unit, *budget, _, digest = rows[0]
    _checked(path, b"", rows[0])
    return Terms(currency, _amounts(path, budget), dataset, adjacency, unit, digest)


def _last(connection: Connection, path: Path, terms: Terms) -> tuple[int, Amounts, bytes]:
    """How many charges there are, their sum, and the digest of the last."""
    rows = connection.execute("SELECT * FROM releases ORDER BY number DESC LIMIT 2").fetchall()
    if not rows:
        return 0, (Fraction(0),) * len(terms.budget), terms.digest
    row = rows[0]
    digest = _checked(path, rows[1][-1] if len(rows) == 2 else terms.digest, row)
    return row[0], _amounts(path, row[-2 - len(terms.budget) : -2]), digest


def _entries(connection: Connection, path: Path, terms: Terms) -> list[Entry]:
    """All charges, if they add up."""
    found: list[Entry] = []
    before, digest, n = (Fraction(0),) * len(terms.budget), terms.digest, len(terms.currency)
    totals = [f"{name}_total" for name in terms.currency]
    for row in connection.execute("SELECT * FROM releases ORDER BY number"):
        digest = _checked(path, digest, row)
        number, when, label, record, *figures, _, _ = row
        spent, total = _amounts(path, figures[:n]), _amounts(path, figures[n:])
        if number != len(found) + 1 or total != tuple(map(add, before, spent)):
            raise _damaged(path, f"charge {len(found) + 1} does not add up")
        try:
            about = json.loads(record)
            name = str(about["mechanism"])
        except (ValueError, TypeError, LookupError):
            raise _damaged(path, f"charge {number} does not say what for") from None
        shown = dict(zip((*terms.currency, *totals), (*spent, *total), strict=True))
        found.append(Entry(number, str(when), str(label), name, **shown, parameters=about))
        before = total
    if any(map(gt, before, terms.budget)):
        raise _damaged(path, "more is spent than was promised")
    return found


def _there(connection: Connection, number: int, part: PartName) -> bool:
    """Whether a part needs no record: it is empty, or on record. Raises: KeyReuseError (it overlaps another)."""
    if part.begin == part.end:
        return True
    before = "SELECT begin, size, name FROM parts WHERE number = ? AND begin < ? ORDER BY begin DESC LIMIT 1"
    row = connection.execute(before, [number, min(part.end, 2**63 - 1)]).fetchone()
    if row is None or row[0] + row[1] <= part.begin:
        return False
    if row == (part.begin, part.end - part.begin, part.stream):
        return True
    raise KeyReuseError(
        f"draws {part.begin} to {part.end} overlap a part that the ledger has of this release (number {number}), and are "
        "not the same release of it; a key names one release of one input"
    )


def _amounts(path: Path, texts: Iterable[Any]) -> Amounts:
    """Exact numbers, as they were written: 3 or 1/10."""
    found = []
    for text in map(str, texts):
        above, _, below = text.partition("/")
        if len(text) > 4 * MOST_BITS or not (above.isdecimal() and (below or "1").isdecimal() and int(below or 1)):
            raise _damaged(path, "an amount is no fraction")
        found.append(Fraction(int(above), int(below or 1)))
    return tuple(found)


def _damaged(path: Path, why: str) -> LedgerError:
    return LedgerError(f"{path} is damaged: {why}; nothing was released")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
