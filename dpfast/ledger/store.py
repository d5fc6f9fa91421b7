# SPDX-License-Identifier: Apache-2.0
"""The file of a ledger, of format 3: SQLite, with tables that are only added to, and a checkpoint.

A charge must outlive a power cut once its noise can leave: hence a rollback journal, and
synchronous = EXTRA. A commit returns when the file, and then the removal of its journal, are on the
disk. Under FULL the journal could come back and undo the charge. A write-ahead log would live in
two more files, which a copy of the ledger would forget. It also needs shared memory, which network
file systems lack. Each call opens the file and closes it: there is nothing to share or to fork.

The checkpoint holds the numbers of charges and parts, their sums, and the digest of the last
charge, chained over all. Each charge moves it, in its own transaction, from a state that it has
checked. So opening and charging read it and the last charge alone, however many there are.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from hashlib import blake2b
from hmac import compare_digest
from itertools import compress
from operator import add, gt, sub
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from dpfast.errors import BudgetExhausted, LedgerError
from dpfast.ledger import place
from dpfast.ledger.head import Head
from dpfast.ledger.lock import MARK, PAUSE, held, leaving_nothing_held, using
from dpfast.ledger.table import Entry
from dpfast.noise.release.secret import encode
from dpfast.noise.release.steps import STEPS
from dpfast.privacy import formatting
from dpfast.system import flush_file, flush_folder

if TYPE_CHECKING:
    from sqlite3 import Connection

Amounts: TypeAlias = tuple[Fraction, ...]
Found = TypeVar("Found")

APPLICATION, FORMAT = int.from_bytes(MARK, "big"), 3  # in the file's header
TOTALS = "epsilon_total", "delta_total", "rho_total", "mu_squared_total"
# The amounts in a row; null if the ledger is not kept in them.
NAMES = "epsilon", "delta", "rho", "mu_squared"
# The accounting units, and the amounts of a row that are theirs.
KEPT: dict[tuple[str, ...], slice] = {
    ("epsilon", "delta"): slice(0, 2),
    ("rho",): slice(2, 3),
    ("delta", "rho"): slice(1, 3),
    ("mu_squared",): slice(3, 4),
}
WRITTEN = "epsilon", "delta", "rho"  # by who makes a mechanism
CHARGE, REFUSED = "charge", "refused"  # the kinds of rows; what is refused for its values costs nothing
PATIENCE = 30.0  # seconds to wait while others write
HERE = "this process"  # which saw a charge
TRIES = 100  # to copy what others write
MOST_BITS = 1024  # in the denominator of a sum, before charges are rounded
FINEST = 1074  # bits after the point of a rounded charge, as doubles have
SLIGHT = Fraction(1, 10**9)  # what is short by less is short by the rounding of a float

_AMOUNTS = ", ".join(f"{name} TEXT" for name in NAMES)
_TOTALS = ", ".join(f"{name} TEXT" for name in TOTALS)
_TABLES = {
    "promise": f"dataset TEXT NOT NULL, adjacency TEXT NOT NULL, unit TEXT NOT NULL, {_AMOUNTS}, "
    "identity BLOB NOT NULL, digest BLOB NOT NULL",
    "releases": "number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, label TEXT NOT NULL, "
    f"mechanism TEXT NOT NULL, nonce BLOB NOT NULL, {_AMOUNTS}, {_TOTALS}, release BLOB UNIQUE, digest BLOB NOT NULL",
    "parts": "number INTEGER, begin INTEGER, size INTEGER NOT NULL, name BLOB NOT NULL, digest BLOB NOT NULL, "
    "PRIMARY KEY (number, begin)",
    "checkpoint": f"charges INTEGER NOT NULL, parts INTEGER NOT NULL, {_TOTALS}, head BLOB NOT NULL, "
    "digest BLOB NOT NULL",
}


def statements(tables: dict[str, str], *free: tuple[str, str]) -> list[str]:
    """The statements that make tables, which are only added to but for what is free."""
    return [f"CREATE TABLE {name} ({columns})" for name, columns in tables.items()] + [
        f"CREATE TRIGGER {name}_{verb} BEFORE {verb} ON {name} BEGIN SELECT RAISE(ABORT, 'only added to'); END"
        for name in tables
        for verb in ("UPDATE", "DELETE")
        if (name, verb) not in free
    ]


# The file repeats these statements to the letter, table names too; only the checkpoint changes.
SCHEMA = statements(_TABLES, ("checkpoint", "UPDATE"))
TABLES = {(statement,) for statement in SCHEMA}


class Terms(NamedTuple):
    """How much may be spent, in which accounting unit, for which data set, adjacency and unit."""

    accounting: tuple[str, ...]
    budget: Amounts
    dataset: str
    adjacency: str
    unit: str
    digest: bytes = b""  # the digest of its row, which no other ledger has


class Charge(NamedTuple):
    """What one release spends."""

    label: str
    record: dict[str, object]  # the mechanism's, JSON-able
    amounts: Amounts


class Reservation(NamedTuple):
    """What a ledger keeps of a sealed release; one for each label."""

    label: bytes  # a hash
    key: bytes  # the id of the release key
    tag: bytes  # a pseudo-random function of manifest and root


class Reserved(NamedTuple):
    """A reservation that the ledger has: its charge, and what it keeps beside it."""

    entry: Entry
    key: bytes
    tag: bytes


class Step(NamedTuple):
    """A step of running totals that is to be reserved, under the label of their charge."""

    t: int
    tag: bytes
    before: bytes  # the tag of the step before it; step 0 is the reservation


class State(NamedTuple):
    """A ledger's number of charges and parts, their sums, and the digest of the last charge."""

    charges: int
    parts: int
    spent: Amounts
    digest: bytes


@leaving_nothing_held
def create(path: Path, terms: Terms, group: int | None = None) -> None:
    """Make a ledger, over nothing that is there. group: whose members share it.

    Raises: LedgerError.
    """
    with _appearing(path, group) as made, _opened(made, path) as connection:
        place.check_folder(path, group)
        connection.execute("BEGIN IMMEDIATE")
        lay_out(connection, terms, secrets.token_bytes(16))
        connection.execute("COMMIT")


def lay_out(connection: Connection, terms: Terms, identity: bytes) -> Terms:
    """Write the header, the tables and the terms of a ledger to which nothing is charged."""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in SCHEMA:
        connection.execute(statement)
    row = terms.dataset, terms.adjacency, terms.unit, *texts(terms.accounting, terms.budget), identity
    first = insert(connection, "promise", b"", *row)
    zero = (Fraction(0),) * len(terms.budget)
    insert(connection, "checkpoint", first, 0, 0, *texts(terms.accounting, zero), first)
    return terms._replace(digest=first)


class Store:
    """A ledger's file. Reads raise LedgerError: no ledger, damaged, locked, another one by now.

    group: the id of the one whose members share it.
    """

    @leaving_nothing_held
    def __init__(self, path: Path, group: int | None = None) -> None:
        self.path, self._group = path, group
        self._seen: dict[str, Head] = {}  # by who saw it
        with _reading(path, group) as connection:
            self.terms = _terms(connection, path)
            state = _state(connection, path, self.terms)
            self._saw(state, _tag_at(connection, state.parts))

    def must_have(self, head: Head | None, where: str) -> None:
        """From now on the ledger must have a charge. where: who saw it. None: nobody did."""
        if head is not None:
            self._seen[where] = head

    @leaving_nothing_held
    def entries(self) -> list[Entry]:
        """All charges, checked one by one."""
        with _reading(self.path, self._group) as connection:
            self._same(connection)
            return _entries(connection, self.path, self.terms)

    @leaving_nothing_held
    def spent(self) -> Amounts:
        with _reading(self.path, self._group) as connection:
            return self._same(connection).spent

    @leaving_nothing_held
    def verify(self) -> int:
        """Check the whole file, which opening does not; the number of charges."""
        with _reading(self.path, self._group) as connection:
            self._same(connection)
            return whole(connection, self.path)

    @leaving_nothing_held
    def copy(self, target: Path) -> None:
        """Copy the ledger at one moment, wholly checked; an existing file is never replaced."""
        with _appearing(target) as made, _opened(made, target) as copied:
            with _reading(self.path, self._group) as connection:
                self._same(connection)
                connection.backup(copied)
            whole(copied, self.path)

    @leaving_nothing_held
    def refuse(self, charge: Charge, *, unpaid: bool) -> None:
        """Record, at no cost, that a release was refused for its values.

        unpaid: whether it would have been charged. Raises: LedgerError; BudgetExhausted, if it
            would, and nobody could pay: what is public is said whatever the values are.
        """
        nothing = charge._replace(amounts=(Fraction(0),) * len(charge.amounts))
        with writing(self.path, self._group) as connection:
            before = self._same(connection)
            if unpaid:
                self._afford(before, charge)
            after = self._charge(connection, before, [nothing], None, REFUSED)
            move(connection, self.terms, after)
            tag = _tag_at(connection, after.parts)
        self._saw(after, tag)

    @leaving_nothing_held
    def charge(self, charges: Sequence[Charge]) -> None:
        """Record all charges or none, on the disk.

        Raises: BudgetExhausted, LedgerError; all uncharged unless the disk failed.
        """
        with writing(self.path, self._group) as connection:
            before = self._same(connection)
            after = self._charge(connection, before, charges, None)
            move(connection, self.terms, after)
            tag = _tag_at(connection, after.parts)
        self._saw(after, tag)

    @leaving_nothing_held
    def reserve(self, charge: Charge, reservation: Reservation, known: Callable[[Reserved], object]) -> Head | None:
        """Record the charge of a sealed release, once for its label; what the ledger then has.

        known: is told of the reservation that is there, if there is one, and raises unless it is
            this. Raises: as charge.
        """
        if _kept_out(self.path, self._group)[1] and self.look(charge, reservation.label, known):
            return None  # it draws again what is reserved, and writes nothing
        with writing(self.path, self._group) as connection:
            before = self._same(connection)
            found = _reserved(connection, self.path, self.terms, reservation.label)
            if found is not None:
                known(found)
                return None
            after = self._charge(connection, before, [charge], reservation.label + reservation.key)
            after, tag = self._tagged(connection, after, after.charges, 0, reservation.tag)
        return self._saw(after, tag)

    def _tagged(self, connection: Connection, before: State, *part: Any) -> tuple[State, bytes]:
        """Add a tag, and move the checkpoint; what the ledger has then, and the tag's digest.

        part: the number of its charge, its place, and itself.
        """
        number, begin, tag = part
        digest = insert(connection, "parts", b"", number, begin, 0, tag)
        after = before._replace(parts=before.parts + 1)
        move(connection, self.terms, after)
        return after, digest

    @leaving_nothing_held
    def last_step(self, label: bytes, known: Callable[[Reserved], object]) -> tuple[int, bytes] | None:
        """The last step of running totals that is reserved, and its tag; None: the label is not.

        known: is told of the label's reservation, and raises unless it is this.
        """
        with _reading(self.path, self._group) as connection:
            self._same(connection)
            found = _reserved(connection, self.path, self.terms, label)
            if found is None:
                return None
            known(found)
            number = found.entry.number
            (last,) = connection.execute("SELECT MAX(begin) FROM parts WHERE number = ?", [number]).fetchone()
            return last, _tag(connection, self.path, number, last) or b""

    @leaving_nothing_held
    def step(
        self, label: bytes, step: Step, known: Callable[[Reserved], object], ahead: Callable[[], object]
    ) -> tuple[bool, Head | None]:
        """Reserve a step, once; whether the ledger has it already with another tag, and its head.

        known: as of last_step. ahead: is called before a step that is not there is reserved.
        Raises: LedgerError (no such label; the step before it is not there, or is another).
        """
        with writing(self.path, self._group) as connection:
            state = self._same(connection)
            found = _reserved(connection, self.path, self.terms, label)
            if found is None:
                raise LedgerError(f"{self.path} has no running totals of this label any more; nothing was released")
            known(found)
            number = found.entry.number
            if _tag(connection, self.path, number, step.t - 1) != step.before:
                raise LedgerError(
                    f"{self.path} does not have step {step.t - 1} of {found.entry.label!r} as the state does: the ledger "
                    "was restored from a copy, or the state is of another one; nothing was released"
                )
            there = _tag(connection, self.path, number, step.t)
            if there is not None:
                return not compare_digest(there, step.tag), None
            ahead()
            after, tag = self._tagged(connection, state, number, step.t, step.tag)
        return False, self._saw(after, tag)

    @leaving_nothing_held
    def look(self, charge: Charge, label: bytes, known: Callable[[Reserved], object]) -> bool:
        """As reserve, and writes nothing. Whether the label is there; else the budget suffices."""
        with _connected(self.path, self._group, charges=False) as (connection, others):
            connection.execute("BEGIN")
            before = self._same(connection)
            found = _reserved(connection, self.path, self.terms, label)
            if found is not None:
                known(found)
                return True
            _chargeable(self.path, others)
            self._afford(before, charge)
        return False

    @leaving_nothing_held
    def locked(self, call: Callable[[], Found]) -> Found:
        """What a call returns under the ledger's lock. Raises: LedgerError; what the call does."""
        with held(_real(self.path), PATIENCE):
            return call()

    def _afford(self, before: State, charge: Charge) -> None:
        """Raises: BudgetExhausted."""
        total = tuple(map(add, before.spent, map(payable, charge.amounts, before.spent)))
        if any(map(gt, total, self.terms.budget)):
            raise self._exhausted(before.spent, total, [charge]) from None

    def _charge(
        self,
        connection: Connection,
        before: State,
        charges: Sequence[Charge],
        release: bytes | None,
        kind: str = CHARGE,
    ) -> State:
        """Add the charges; what the ledger has then come to."""
        number, parts, total, digest = before
        for charge in charges:
            paid = tuple(map(payable, charge.amounts, total))
            total = tuple(map(add, total, paid))
            number += 1
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            about = number, when, kind, charge.label, json.dumps(charge.record), nonce()
            figures = *texts(self.terms.accounting, paid), *texts(self.terms.accounting, total)
            digest = insert(connection, "releases", digest, *about, *figures, release)
        if any(map(gt, total, self.terms.budget)):
            raise self._exhausted(before.spent, total, charges)
        return State(number, parts, total, digest)

    def _exhausted(self, spent: Amounts, total: Amounts, charges: Sequence[Charge]) -> BudgetExhausted:
        said = []
        for name, most, before, after in zip(*self.terms[:2], spent, total, strict=True):
            if after > most:
                left, share = formatting.amount(most - before, up=False), ""
                if after - most < SLIGHT * (after - before):
                    left, share = "a little less", _share(name, most, (after - before) / len(charges))
                said.append(
                    f"{name} {formatting.amount(after - before, up=True)} is asked for and {left} is left of {formatting.amount(most, up=True)}{share}"
                )
        return BudgetExhausted(
            f"{self.path}: {', '.join(said)}{_plan(self.terms, charges)}; nothing was released or charged"
        )

    def _same(self, connection: Connection) -> State:
        """What the ledger has come to, if it is the one that was opened, and lacks nothing."""
        state = self._now(connection)
        for where, head in self._seen.items():
            if lost := _lacks(connection, head):
                raise LedgerError(
                    f"{self.path} lacks {lost} of {where}: it was restored from a copy, or a copy was charged "
                    "instead of it. `dpfast ledger restored` goes on; nothing was released"
                )
        self._saw(state, _tag_at(connection, state.parts))
        return state

    def _now(self, connection: Connection) -> State:
        if _terms(connection, self.path) != self.terms:
            raise LedgerError(f"{self.path} is another ledger than when it was opened")
        return _state(connection, self.path, self.terms)

    def _saw(self, state: State, tag: bytes) -> Head:
        """Keep in mind what the ledger has on the disk by now. tag: the last one's digest."""
        head = Head(state.charges, state.digest, state.spent, state.parts, tag)
        before = self._seen.get(HERE, head)
        self._seen[HERE] = head if head.place >= before.place else before  # another thread may be ahead
        return head

    @leaving_nothing_held
    def restored(self, heads: Sequence[Head], *, charge: bool) -> tuple[Amounts, Head]:
        """What the ledger lacks of what was seen, at most; and what it then has.

        heads: in their order. charge: whether to charge it, as far as the budget goes.
        Raises: BudgetExhausted (steps of running totals are lost, and cannot be paid for again).
        """
        with _connected(self.path, self._group, charges=charge) as (connection, _):
            if charge:
                _durable(connection)
            connection.execute("BEGIN IMMEDIATE" if charge else "BEGIN")
            after = self._now(connection)
            lost = (Fraction(0),) * len(after.spent)
            if heads and _lacks(connection, heads[-1]):
                charges, steps = self._lost(connection, heads)
                lost = tuple(map(add, charges, steps))
                if charge:
                    left = map(sub, self.terms.budget, after.spent)
                    paid = Charge("", {"mechanism": "lost by restoring a copy"}, tuple(map(min, lost, left)))
                    if any(steps):  # whose totals go on, and cost nothing more
                        self._afford(after, paid._replace(amounts=lost))
                    after = self._charge(connection, after, [paid], None)
                    move(connection, self.terms, after)
                    connection.execute("COMMIT")
            tag = _tag_at(connection, after.parts)
        self._seen.clear()
        return lost, self._saw(after, tag)

    def _lost(self, connection: Connection, heads: Sequence[Head]) -> tuple[Amounts, Amounts]:
        """What was spent and is not there, at most: by charges, and by steps that cost nothing.

        heads: in their order, and the last lacks.

        If tags are lost, steps of running totals may be: with other counts they are released once
        more, whatever their number, so all that are left pay again.
        """
        had = [head.spent for head in heads if _has(connection, head)]
        steps = (Fraction(0),) * len(heads[-1].spent)
        charges = tuple(map(sub, heads[-1].spent, had[-1] if had else steps))
        if _tag_at(connection, heads[-1].tags) == heads[-1].tag:
            return charges, steps
        for entry in _entries(connection, self.path, self.terms):
            about = entry.parameters.get("manifest")
            if isinstance(about, dict) and about.get("kind") == STEPS:
                steps = tuple(map(add, steps, (getattr(entry, name) for name in self.terms.accounting)))
        return charges, steps


def _share(name: str, most: Fraction, each: Fraction) -> str:
    """What to write for a share of the budget whose decimal is above it; nothing for the others."""
    n = max(1, round(most / each))
    if most / n < each < most / n * (1 + SLIGHT) and name in WRITTEN:
        return f" (write '{formatting.exact(most / n)}', which fits {n:,} times; a decimal above it does not)"
    return ""


def _plan(terms: Terms, charges: Sequence[Charge]) -> str:
    """Which ledger pays for all releases that were calibrated together, if one is asked for."""
    releases = {each.record["mechanism"]: each.record["releases"] for each in charges if "releases" in each.record}
    if terms.accounting == ("mu_squared",) or not releases:
        return ""
    law, n = releases.popitem()
    if law == "gaussian":
        return f" (a ledger by='gdp' pays for all {n:,} releases that were calibrated together)"
    return f" (by='zcdp', ledger.calibrated(DiscreteGaussian, releases={n}, sensitivity=s) is paid {n:,} times)"


def payable(amount: Fraction, total: Fraction) -> Fraction:
    """The amount itself; if the sum would grow too long, rounded up, by less than 2^-FINEST."""
    if (total + amount).denominator.bit_length() <= MOST_BITS:
        return amount
    return Fraction(-(-amount.numerator * 2**FINEST // amount.denominator), 2**FINEST)


# ------------------------------------------------------------------ SQLite


@contextmanager
def _connected(path: Path, group: int | None, *, charges: bool) -> Iterator[tuple[Connection, str | None]]:
    """Yield a connection to a ledger, under its lock; what it does not commit is undone.

    And what keeps charges out, in words, if anything does.
    charges: whether the ledger itself is needed. Where others may change it or its folder, a look
    goes to a copy, which rolls nothing back. Raises: LedgerError (also where a charge cannot go).
    """
    real = _real(path)
    copies, found = _kept_out(path, group)
    with ExitStack() as stack:
        if not copies and not (found and place.cannot_wait(real)):
            stack.enter_context(held(real, PATIENCE))
            _found(path, real, locked=True)
            copies = place.foreign(real, group)
            found = found or copies
        else:
            copies = found
        if charges:
            _chargeable(path, found)
        file = stack.enter_context(_copied(path, real)) if copies else real
        yield stack.enter_context(_opened(file, path)), found


def _durable(connection: Connection) -> None:
    """A commit is on the disk when it returns, and the removal of its journal is, too."""
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")


def _real(path: Path) -> Path:
    """Whatever link leads to a ledger, its lock and its journal have one name."""
    return Path(os.path.realpath(path))


def _kept_out(path: Path, group: int | None) -> tuple[str | None, str | None]:
    """Why a ledger is read from a copy, and why it is not charged, in words, if it is so."""
    real = _real(path)
    _found(path, real, locked=False)
    others = place.others(path, real, group)
    return others, others or place.closed(real)


def _chargeable(path: Path, found: str | None) -> None:
    """Raises: LedgerError, if something was found of where the ledger lies."""
    if found:
        raise LedgerError(f"{path} may be read and not charged: {found}; nothing was released")


@contextmanager
def _copied(path: Path, real: Path) -> Iterator[Path]:
    """Yield a private copy of a ledger that others may change, as it stood between two charges."""
    journal = f"{real}-journal"
    with ExitStack() as stack:
        stack.enter_context(using)  # closing a file drops SQLite's locks of it
        try:
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpfast-")), "ledger")
            for _ in range(TRIES):
                before = _looks(real)
                shutil.copyfile(real, made)
                if before == _looks(real):
                    break
                time.sleep(PAUSE)
            else:
                raise LedgerError(f"{path} is being written again and again; nothing was released")
        except OSError as error:
            raise LedgerError(f"cannot copy {path}: {error.strerror}; nothing was released") from None
        try:
            yield made
        except LedgerError as error:
            if "is damaged" in str(error) and os.path.lexists(journal):
                raise LedgerError(f"{error}; {journal} is there: a charge was not finished") from None
            raise


def _looks(file: Path) -> tuple[object, ...]:
    """What a charge changes of a file, and of what is beside it."""
    about = file.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns, os.path.lexists(f"{file}-journal")


@contextmanager
def _reading(path: Path, group: int | None) -> Iterator[Connection]:
    """The same, for several looks at one state."""
    with _connected(path, group, charges=False) as (connection, _):
        connection.execute("BEGIN")
        yield connection


@contextmanager
def writing(path: Path, group: int | None) -> Iterator[Connection]:
    """The same, for a change that is on the disk when the block is left."""
    with _connected(path, group, charges=True) as (connection, _):
        _durable(connection)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def _found(path: Path, real: Path, *, locked: bool) -> None:
    """Raises: LedgerError: no file; or, if locked, several names, each with its own journal."""
    if not os.path.isfile(real):  # noqa: PTH113  it never raises
        if os.path.lexists(path):
            raise LedgerError(f"{path} is not a file")
        raise LedgerError(f"{path} does not exist; create=True, or `dpfast ledger create`, makes a ledger")
    if not locked:
        return
    try:
        names = real.stat().st_nlink
    except OSError as error:
        raise LedgerError(f"{path}: {error.strerror}; nothing was released") from None
    if names != 1:
        raise LedgerError(
            f"{path} has {names} names (hard links), and a crash under one could undo a charge made under another: keep "
            "only the name that it was made under; `dpfast ledger copy` makes copies; nothing was released"
        )


@contextmanager
def _opened(file: Path, called: Path) -> Iterator[Connection]:
    """Yield a connection to a file. called: its name in errors."""
    import sqlite3  # late: not every build of Python has it

    try:
        connection = sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        finally:
            connection.close()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise LedgerError(f"{called}: {error}; nothing was released") from None
    except UnicodeDecodeError:  # in a message that quotes the file
        raise damaged(called, "its text is not UTF-8") from None


@contextmanager
def _appearing(path: Path, group: int | None = None) -> Iterator[Path]:
    """Yield an empty file to fill; it then appears at path, whole, its owner's, over nothing.

    group: whose members may write to it, too.
    """
    path = Path(os.path.realpath(path.parent), path.name)
    for name in (f"{path}-journal", path):  # a journal would undo in the new ledger what was not complete in the old
        if os.path.lexists(name):
            raise LedgerError(f"{name} exists")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".dpfast-") as folder:
            made = Path(folder, "ledger")
            made.touch(mode=0o600)
            if group is not None:
                os.chown(made, -1, group)
                made.chmod(0o660)
            yield made
            flush_file(made)
            with held(path, PATIENCE, like=made):  # so that nobody sees it under two names
                path.hardlink_to(made)  # which, unlike a rename, never replaces what is there
                made.unlink()
            flush_folder(path.parent)
    except FileExistsError:
        raise LedgerError(f"{path} exists") from None
    except OSError as error:
        raise LedgerError(f"cannot make a ledger at {path}: {error.strerror or 'failed'}") from None


def insert(connection: Connection, table: str, before: bytes, *row: Any) -> bytes:
    """Add a row and return its digest. before: the digest before it, where rows are a chain."""
    digest = _digest(before, row)
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} VALUES ({places}, ?)", [*row, digest])  # noqa: S608  our own names
    return digest


def nonce() -> bytes:
    """What no other charge has: else equal charges in one second would have equal digests."""
    return secrets.token_bytes(8)


def move(connection: Connection, terms: Terms, state: State) -> None:
    """Move the checkpoint."""
    row = state.charges, state.parts, *texts(terms.accounting, state.spent), state.digest
    columns = f"charges, parts, {', '.join(TOTALS)}, head, digest"
    places = ", ".join("?" * len(row))
    connection.execute(f"UPDATE checkpoint SET ({columns}) = ({places}, ?)", [*row, _digest(terms.digest, row)])  # noqa: S608


def _digest(before: bytes, row: Iterable[Any]) -> bytes:
    """The digest of a row's fields and types: one wrong bit in the file makes bytes of a text."""
    typed: list[Any] = [before]
    for field in row:
        typed += type(field).__name__, field
    return blake2b(encode(*typed), digest_size=16, person=b"ledger row").digest()


def checked(path: Path, before: bytes, row: Sequence[Any]) -> bytes:
    """The digest of a row, if right: a guard against decay and slips, not against who can write."""
    *fields, digest = row
    found = _digest(before, fields)
    if digest != found:
        raise damaged(path, "a row is not as it was written")
    return found


def _terms(connection: Connection, path: Path) -> Terms:
    """The terms in the file, once it is known to be a ledger."""
    header: list[Any] = []
    for pragma in ("application_id", "user_version", "journal_mode"):
        header += connection.execute(f"PRAGMA {pragma}").fetchone()
    application, version, journal = header
    if application != APPLICATION:
        raise LedgerError(f"{path} is not a ledger of dpfast")
    if version in (1, 2):
        raise LedgerError(
            f"{path} is a ledger of format {version}: `dpfast ledger upgrade` makes it one of format {FORMAT}"
        )
    if version != FORMAT:
        raise LedgerError(f"{path} is a ledger of format {version}; this version of dpfast has {FORMAT}")
    if journal != "delete":
        raise LedgerError(f"{path} was put into journal mode {journal!s:.10}; a ledger's is delete")
    if set(connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")) != TABLES:
        raise damaged(path, "its tables are not those of a ledger")
    rows = connection.execute("SELECT * FROM promise").fetchall()
    if len(rows) != 1:
        raise damaged(path, "it states no budget")
    dataset, adjacency, unit, *budget, _, digest = rows[0]
    checked(path, b"", rows[0])
    accounting = tuple(compress(NAMES, budget))
    if "mu_squared" in accounting and accounting not in KEPT:
        raise LedgerError(f"{path} is kept in {' and '.join(accounting)}, which this version of dpfast does not know")
    if accounting not in KEPT:
        raise damaged(path, "it states no budget")
    return Terms(accounting, exact(path, budget[KEPT[accounting]]), dataset, adjacency, unit, digest)


def _state(connection: Connection, path: Path, terms: Terms) -> State:
    """What the checkpoint says, if the last charge agrees."""
    rows = connection.execute("SELECT * FROM checkpoint").fetchall()
    if len(rows) != 1:
        raise damaged(path, "it has no checkpoint")
    checked(path, terms.digest, rows[0])
    charges, parts, *totals, head, _ = rows[0]
    state = State(charges, parts, exact(path, totals[KEPT[terms.accounting]]), head)
    if any(map(gt, state.spent, terms.budget)):
        raise damaged(path, "more is spent than its budget")
    rows = connection.execute("SELECT * FROM releases ORDER BY number DESC LIMIT 1").fetchall()
    last = _charged(connection, path, terms, rows[0])[0] if rows else _nothing(terms)
    if last != state._replace(parts=0):
        raise damaged(path, "its checkpoint and its last charge differ")
    return state


def _has(connection: Connection, head: Head) -> bool:
    """Whether a charge that was seen is still there; of none nothing can be lost."""
    row = connection.execute("SELECT digest FROM releases WHERE number = ?", [head.number]).fetchone()
    return head.number == 0 or row == (head.digest,)


def _lacks(connection: Connection, head: Head) -> str:
    """What was seen and is not there, in words; nothing if all is."""
    if not _has(connection, head):
        return f"charge {head.number}"
    return "" if _tag_at(connection, head.tags) == head.tag else f"tag {head.tags}"


def _tag_at(connection: Connection, place: int) -> bytes:
    """The digest of a tag by its place among all: they are only added, so the rows are numbered."""
    row = connection.execute("SELECT digest FROM parts WHERE rowid = ?", [place]).fetchone()
    return row[0] if row and place else b""


def _tag(connection: Connection, path: Path, number: int, begin: int) -> bytes | None:
    """A tag of a reservation, checked, if it is there."""
    row = connection.execute("SELECT * FROM parts WHERE number = ? AND begin = ?", [number, begin]).fetchone()
    if row is None:
        return None
    checked(path, b"", row)
    tag: bytes = row[3]
    return tag


def _nothing(terms: Terms) -> State:
    return State(0, 0, (Fraction(0),) * len(terms.budget), terms.digest)


def _charged(connection: Connection, path: Path, terms: Terms, row: Sequence[Any]) -> tuple[State, Entry]:
    """A row of releases, checked against the one before it."""
    before = _nothing(terms)
    earlier = connection.execute("SELECT * FROM releases WHERE number = ?", [row[0] - 1]).fetchone()
    if earlier is not None:
        totals = exact(path, earlier[-2 - len(NAMES) : -2][KEPT[terms.accounting]])
        before = State(earlier[0], 0, totals, earlier[-1])
    return _next(path, terms, before, row)


def _next(path: Path, terms: Terms, before: State, row: Sequence[Any]) -> tuple[State, Entry]:
    """What a ledger has come to with one more charge, if it is as it was written and adds up."""
    digest = checked(path, before.digest, row)
    number, when, kind, label, record, _, *figures, _, _ = row
    if kind not in (CHARGE, REFUSED):
        raise LedgerError(f"{path}: charge {number} is of a kind that this version of dpfast does not know")
    kept = KEPT[terms.accounting]
    paid, totals = exact(path, figures[: len(NAMES)][kept]), exact(path, figures[len(NAMES) :][kept])
    if kind == REFUSED and any(paid):
        raise damaged(path, f"row {number} is of a refused release, and costs something")
    if number != before.charges + 1 or totals != tuple(map(add, before.spent, paid)):
        raise damaged(path, f"charge {before.charges + 1} does not add up")
    try:
        about = json.loads(record)
        name = str(about["mechanism"])
    except (ValueError, TypeError, LookupError):
        raise damaged(path, f"charge {number} does not say what for") from None
    shown = dict(zip((*NAMES[kept], *TOTALS[kept]), (*paid, *totals), strict=True))
    return State(number, 0, totals, digest), Entry(
        number, str(when), str(label), name, **shown, parameters=about, refused=kind == REFUSED
    )


def _entries(connection: Connection, path: Path, terms: Terms) -> list[Entry]:
    """All charges, if they add up to what the checkpoint says."""
    found: list[Entry] = []
    state = _nothing(terms)
    for row in connection.execute("SELECT * FROM releases ORDER BY number"):
        state, entry = _next(path, terms, state, row)
        found.append(entry)
    if state != _state(connection, path, terms)._replace(parts=0):
        raise damaged(path, "its checkpoint and its charges differ")
    return found


def whole(connection: Connection, path: Path) -> int:
    """Check all that the file holds; the number of charges."""
    terms = _terms(connection, path)
    sound(connection, path)
    charges = len(_entries(connection, path, terms))
    rows = connection.execute("SELECT * FROM parts").fetchall()
    for row in rows:
        checked(path, b"", row)
        if not 1 <= row[0] <= charges:
            raise damaged(path, "a part is of no charge")
    if len(rows) != _state(connection, path, terms).parts:
        raise damaged(path, "parts are lost or added")
    return charges


def sound(connection: Connection, path: Path) -> None:
    """SQLite's own check of all pages and indexes."""
    found = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != [("ok",)]:
        raise damaged(path, f"SQLite says: {str(found[0][0]).splitlines()[-1]:.80}")


def _reserved(connection: Connection, path: Path, terms: Terms, label: bytes) -> Reserved | None:
    """The reservation of a label, if there is one."""
    last = label + b"\xff" * len(label)
    row = connection.execute("SELECT * FROM releases WHERE release BETWEEN ? AND ?", [label, last]).fetchone()
    if row is None:
        return None
    state, entry = _charged(connection, path, terms, row)
    tag = _tag(connection, path, state.charges, 0)
    if tag is None:
        raise damaged(path, "a reservation has no tag")
    return Reserved(entry, row[-2][len(label) :], tag)


def texts(accounting: tuple[str, ...], figures: Amounts) -> list[str | None]:
    """Amounts as a row has them."""
    kept = dict(zip(accounting, map(str, figures), strict=True))
    return [*map(kept.get, NAMES)]


def exact(path: Path, written: Iterable[Any]) -> Amounts:
    """Exact numbers, as they were written: 3 or 1/10."""
    found = []
    for text in map(str, written):
        above, _, below = text.partition("/")
        if len(text) > 4 * MOST_BITS or not (above.isdecimal() and (below or "1").isdecimal() and int(below or 1)):
            raise damaged(path, "an amount is no fraction")
        found.append(Fraction(int(above), int(below or 1)))
    return tuple(found)


def damaged(path: Path, why: str) -> LedgerError:
    return LedgerError(f"{path} is damaged: {why}; nothing was released")
