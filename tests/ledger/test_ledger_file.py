# SPDX-License-Identifier: Apache-2.0
"""The ledger's file: believed or refused; its lock, its one name, and copies of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Never

import numpy as np
import pytest
from ledgers import ALTERED, TENTH, UNTOLD, ZEROS, command, edited, release_key, rewritten

import dpfast
from dpfast import Guarantee, Ledger
from dpfast.errors import DTypeError, KeyReuseError, LedgerError, ParameterError
from dpfast.ledger import store

# ------------------------------------------------------------------ the file


def test_a_mistyped_path_makes_no_budget(path, capsys) -> None:
    """Any budget, and the command line: only create=True and `ledger create` make a file."""
    source = path.with_name("in.csv")
    source.write_text("count\n1\n")
    for budget in ({}, {"epsilon": 3}, {"rho": 1, "dataset": "visits"}):
        with pytest.raises(LedgerError, match=r"budget\.db does not exist; create=True, or `dpfast ledger create`"):
            Ledger(path, **budget)
    law = ["--column", "count", "--epsilon", "1", "--sensitivity", "1", "--ledger", path]
    assert command(capsys, "privatize", source, path.with_name("out.csv"), *law)[0] == 1
    for verb in ("show", "verify", "upgrade"):
        assert command(capsys, "ledger", verb, path)[0] == 1
    assert [p.name for p in path.parent.iterdir()] == ["in.csv"]


def test_create_makes_and_opening_opens(path) -> None:
    """One call does not do for the other; and create=True asks for a budget."""
    with pytest.raises(ParameterError, match="create=True needs the total"):
        Ledger(path, create=True)
    with pytest.raises(DTypeError, match="create must be True or False, not str"):
        Ledger(path, 1, create="yes")
    Ledger(path, 1, create=True).spend(TENTH)
    with pytest.raises(LedgerError, match=r"budget\.db exists$"):
        Ledger(path, 1, create=True)
    assert Ledger(path, 1).spent.epsilon == Fraction(1, 10)
    assert sorted(p.name for p in path.parent.iterdir()) == ["budget.db", "budget.db.lock"]
    path.unlink()
    path.with_name("budget.db-journal").write_text("of a ledger that was here")
    with pytest.raises(LedgerError, match=r"budget\.db-journal exists$"):
        Ledger(path, 1, create=True)


def test_opening_holds_what_is_given_to_what_is_stored(path) -> None:
    """What is given must be the file's own; defaults are filled in when it is made."""
    made = Ledger(path, 3, delta=1e-6, dataset="visits", unit="household", adjacency="substitution", create=True)
    assert repr(made) == f"<Ledger 'visits': epsilon 3, delta 1e-6 per household, substitution; {path}>"
    for name in (path, path.with_name("budget.db.lock")):
        assert stat.S_IMODE(name.stat().st_mode) == 0o600
    same = Ledger(str(path), 3, delta=1e-6, dataset="visits", unit="household", adjacency="substitution")
    assert same.budget == made.budget == Ledger(path).budget
    assert (same.dataset, Ledger(path.with_name("other.db"), rho=1, create=True).dataset) == ("visits", "other")
    for given, message in [
        ({"epsilon": 2, "delta": 1e-6}, "made for epsilon 3, not 2"),
        ({"epsilon": 3}, "made for delta .*, not 0"),
        ({"rho": 3}, "kept in epsilon and delta, not in rho"),
        ({"dataset": "visit"}, "made for dataset visits, not visit"),
        ({"unit": "person"}, "made for unit household, not person"),
        ({"adjacency": "add-remove"}, "made for adjacency substitution, not add-remove"),
    ]:
        with pytest.raises(LedgerError, match=message):
            Ledger(path, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"epsilon": 1, "rho": 1}, ParameterError, "not both"),
        ({"delta": 1e-6}, ParameterError, "epsilon or rho must be given"),
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"rho": -1}, ParameterError, "rho must not be negative"),
        ({"epsilon": float("nan")}, ParameterError, "epsilon must be finite"),
        ({"epsilon": 1, "delta": float("nan")}, ParameterError, "delta must be finite"),
        ({"epsilon": 1, "delta": 1}, ParameterError, "delta must be below 1"),
        ({"epsilon": b"1"}, DTypeError, "epsilon must be an int"),
        ({"epsilon": 2**65}, ParameterError, "at most 2\\*\\*64"),
        ({"epsilon": Fraction(1, 3**700)}, ParameterError, "1100 bits"),
        ({"epsilon": 1, "adjacency": "replace"}, ParameterError, "adjacency must be one of"),
        ({"epsilon": 1, "unit": " "}, ParameterError, "unit must name"),
        ({"epsilon": 1, "unit": "a\nb"}, ParameterError, "unit must be printable"),
        ({"epsilon": 1, "dataset": "a\0b"}, ParameterError, "dataset must be printable"),
        ({"epsilon": 1, "dataset": 7}, DTypeError, "dataset must be a string"),
    ],
    ids=str,
)
def test_bad_terms_make_no_file(path, given, error, message) -> None:
    with pytest.raises(error, match=message):
        Ledger(path, **given, create=True)
    assert list(path.parent.iterdir()) == []


def test_bad_paths(path) -> None:
    path.parent.joinpath("folder").mkdir()
    os.mkfifo(path.with_name("pipe"))
    path.with_name("nowhere").symlink_to("gone.db")
    for name, create, error, message in [
        ("folder", False, LedgerError, "is not a file"),
        ("pipe", False, LedgerError, "is not a file"),
        ("nowhere", False, LedgerError, "is not a file"),
        ("folder", True, LedgerError, "exists"),
        ("pipe", True, LedgerError, "exists"),
        ("nowhere", True, LedgerError, "exists"),
        ("gone/budget.db", False, LedgerError, "does not exist"),
        ("gone/budget.db", True, LedgerError, "cannot make a ledger at .*No such file"),
        ("nul\0l", True, ParameterError, "null"),
    ]:
        with pytest.raises(error, match=message):
            Ledger(path.parent / name, 1, create=create)
    with pytest.raises(DTypeError, match="path must name a file"):
        Ledger(7, 1)
    odd = path.with_name("a?b#c%d.db")
    Ledger(odd, 1, create=True).release(TENTH, ZEROS)
    assert Ledger(odd).spent.epsilon == Fraction(1, 10)


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (n INTEGER)")
    connection.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (foreign, "is not a ledger of dpfast"),
        (lambda path: path.write_text("n,count\n" * 900), "file is not a database"),
        (lambda path: path.write_bytes(b""), "is not a ledger of dpfast"),
        (lambda path: path.write_bytes(path.read_bytes()[:4096]), "malformed|damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-5000]), "malformed|damaged"),
        (rewritten("PRAGMA user_version = 4"), "a ledger of format 4; this version of dpfast has 3"),
        (rewritten("PRAGMA user_version = 2"), "a ledger of format 2: `dpfast ledger upgrade`"),
        (rewritten("PRAGMA user_version = 1"), "a ledger of format 1: `dpfast ledger upgrade`"),
        (rewritten("PRAGMA journal_mode = WAL"), "journal mode wal"),
        (rewritten("DELETE FROM promise"), "it states no budget"),
        (rewritten("INSERT INTO promise SELECT * FROM promise"), "it states no budget"),
        (rewritten("UPDATE promise SET epsilon = NULL"), "it states no budget"),
        (rewritten("UPDATE promise SET epsilon = '1e9'"), "an amount is no fraction"),
        (rewritten("UPDATE promise SET epsilon = '1/0'"), "an amount is no fraction"),
        (rewritten("UPDATE promise SET epsilon = '" + "9" * 5000 + "'"), "an amount is no fraction"),
        (rewritten("UPDATE promise SET epsilon = '1/10'"), "more is spent than its budget"),
        (rewritten("UPDATE releases SET epsilon = '1/20' WHERE number = 3"), "charge 3 does not add up"),
        (rewritten("UPDATE releases SET epsilon = '-1/10' WHERE number = 3"), "an amount is no fraction"),
        (rewritten("UPDATE releases SET epsilon_total = '1/10' WHERE number = 3"), "charge 3 does not add up"),
        (rewritten("UPDATE releases SET epsilon_total = '1/10' WHERE number = 2"), "charge 3 does not add up"),
        (rewritten("UPDATE releases SET epsilon = NULL WHERE number = 3"), "an amount is no fraction"),
        (rewritten("DELETE FROM releases WHERE number = 2"), ALTERED),
        (rewritten("UPDATE releases SET mechanism = '7' WHERE number = 3"), "charge 3 does not say what for"),
        (rewritten("UPDATE releases SET mechanism = '{' WHERE number = 3"), "charge 3 does not say what for"),
        (rewritten("UPDATE releases SET kind = 'other' WHERE number = 3"), "charge 3 is of a kind that this version"),
        (
            rewritten("UPDATE releases SET kind = 'refused' WHERE number = 3"),
            "row 3 is of a refused release, and costs",
        ),
        (rewritten("UPDATE releases SET label = CAST(X'FF' AS TEXT) WHERE number = 3"), "UTF-8"),
        (rewritten("ALTER TABLE releases ADD COLUMN note TEXT"), "its tables are not those of a ledger"),
        (rewritten("CREATE TABLE more (n)"), "its tables are not those of a ledger"),
        (edited("UPDATE promise SET adjacency = CAST('add-remove' AS BLOB)"), ALTERED),
        (edited("DELETE FROM checkpoint"), "it has no checkpoint"),
        (edited("INSERT INTO checkpoint SELECT * FROM checkpoint"), "it has no checkpoint"),
        (edited("UPDATE checkpoint SET charges = 2"), ALTERED),
        (edited("UPDATE promise SET epsilon = '2'"), ALTERED),
        (edited("DELETE FROM releases WHERE number = 3"), "its checkpoint and its last charge differ"),
        (edited("DELETE FROM releases"), "its checkpoint and its last charge differ"),
        (edited("UPDATE releases SET label = 'x' WHERE number = 3"), ALTERED),
        (edited("UPDATE releases SET release = X'00' WHERE number = 3"), ALTERED),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(ledger, damage, message) -> None:
    """When it is opened, whatever budget is given."""
    for _ in range(3):
        ledger.release(TENTH, ZEROS)
    damage(ledger.path)
    for attempt in (lambda: Ledger(ledger.path), lambda: Ledger(ledger.path, 1, delta=Decimal("1e-6"))):
        with pytest.raises(LedgerError, match=message):
            attempt()


def torn(path: Path) -> None:
    """A page of the index of releases is another's. No look at the last charge reads this page."""
    connection = sqlite3.connect(path)
    index = "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex_releases%'"
    (page,) = connection.execute(index).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[page * size - 64 : page * size] = bytes(64)
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (rewritten("UPDATE releases SET epsilon = '1/20' WHERE number = 2"), "charge 2 does not add up"),
        (rewritten("UPDATE releases SET mechanism = '7' WHERE number = 1"), "charge 1 does not say what for"),
        (rewritten("UPDATE releases SET kind = 'other' WHERE number = 1"), "charge 1 is of a kind that this version"),
        (rewritten("UPDATE releases SET label = CAST(X'FF' AS TEXT) WHERE number = 1"), "UTF-8"),
        (edited("UPDATE releases SET label = 'x' WHERE number = 2"), ALTERED),
        (edited("DELETE FROM releases WHERE number = 1"), ALTERED),
        (edited("UPDATE parts SET begin = 100 WHERE number = 2"), ALTERED),
        (edited("DELETE FROM parts WHERE number = 2"), "parts are lost or added"),
        (edited("UPDATE parts SET size = 40, digest = X'00' WHERE number = 2"), ALTERED),
        (torn, "SQLite says|malformed"),
    ],
)
def test_damage_that_only_a_whole_check_finds(ledger, capsys, damage, message) -> None:
    """What opening no longer reads: charges before the last, parts, indexes. Sums need it."""
    for label in ("first", "second"):
        ledger.release(TENTH, ZEROS, key=release_key(label), resume=True)
    for _ in range(4):
        ledger.release(TENTH, ZEROS)
    spent = ledger.spent
    assert ledger.verify() == 6
    assert command(capsys, "ledger", "verify", ledger.path)[:2] == (
        0,
        f"visits: 6 charges, all as they were written{UNTOLD}",
    )
    damage(ledger.path)
    ledger = Ledger(ledger.path)  # which has seen no other charges in their place
    assert ledger.spent == spent
    with pytest.raises(LedgerError, match=message) as told:
        ledger.verify()
    assert "released" not in str(told.value)
    with pytest.raises(LedgerError, match=message):
        ledger.copy(ledger.path.with_name("copy.db"))
    code, out, err = command(capsys, "ledger", "verify", ledger.path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert sorted(p.name for p in ledger.path.parent.iterdir()) == ["budget.db", "budget.db.lock"]


def test_a_damaged_index_can_cost_a_second_charge_and_no_other_noise(ledger) -> None:
    """It hides the label of a release: the ledger takes the retry for a new one."""
    first = ledger.release(TENTH, ZEROS, key=release_key("first"), resume=True)
    spent = ledger.spent
    torn(ledger.path)
    assert np.array_equal(ledger.release(TENTH, ZEROS, key=release_key("first"), resume=True), first)
    assert ledger.spent.epsilon == 2 * spent.epsilon
    with pytest.raises(LedgerError, match="SQLite says|malformed"):
        ledger.verify()


@pytest.mark.parametrize(
    "statement", ["UPDATE promise SET epsilon = '9'", "UPDATE releases SET epsilon_total = '0'", "DELETE FROM promise"]
)
def test_damage_since_it_was_opened(ledger, statement) -> None:
    for _ in range(3):
        ledger.release(TENTH, ZEROS)
    edited(statement)(ledger.path)
    with pytest.raises(LedgerError, match="nothing was released"):
        ledger.release(TENTH, ZEROS)


@pytest.mark.parametrize(
    "statement", ["UPDATE parts SET name = X'00' WHERE number = 1", "UPDATE releases SET time = 'x' WHERE number = 1"]
)
def test_a_release_under_a_key_checks_what_it_goes_by(ledger, statement) -> None:
    """The reservation and its tag, however long ago they were written."""
    for label in ("first", "second"):
        ledger.release(TENTH, ZEROS, key=release_key(label), resume=True)
    ledger.spend(TENTH, TENTH)
    edited(statement)(ledger.path)
    with pytest.raises(LedgerError, match="a row is not as it was written; nothing was released"):
        ledger.release(TENTH, ZEROS, key=release_key("first"), resume=True)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("UPDATE releases SET mechanism = replace(mechanism, '[50]', '[51]')", KeyReuseError, "another shape"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"manifest\"', '\"no\"')", LedgerError, "does not say what it reserved"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"size\"', '\"sizes\"')", LedgerError, "does not say what it reserved"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"stream\": 2', '\"stream\": 3')", ParameterError, "stream version 3"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"version\": 1', '\"version\": 2')", ParameterError, "manifest version 2"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"label\": \"edited\"', '\"label\": \"other\"')", KeyReuseError, "with another manifest"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"domain\": \"\"', '\"domain\": \"00\"')", KeyReuseError, "with a public domain, not with a shape"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"version\": 1', '\"version\": 1, \"terms\": {\"clamp\": \"0, 9\"}')", KeyReuseError, "with clamp, '0, 9', which this one does not name"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"cost\": [\"1/10\"', '\"cost\": [\"1/20\"')", KeyReuseError, "another cost"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"kind\": \"array\"', '\"kind\": [7]')", KeyReuseError, r"another kind, \[7\], not array"),
        ("UPDATE releases SET mechanism = replace(mechanism, '\"name\": \"\"', '\"name\": [7]')", KeyReuseError, r"with the columns \[7\], not ''"),
        ("UPDATE releases SET mechanism = replace(mechanism, '[\"discrete_laplace\", ', '[[], ')", KeyReuseError, r"another mechanism, \[\], not"),
        ("DELETE FROM parts", LedgerError, "a reservation has no tag"),
    ],
)  # fmt: skip
def test_a_manifest_that_was_edited_is_compared_and_never_obeyed(ledger, statement, error, message) -> None:
    """With all digests and sums put right: the caller's parameters are what is drawn with."""
    ledger.release(TENTH, ZEROS, key=release_key("edited"), resume=True)
    rewritten(statement)(ledger.path)
    ledger = Ledger(ledger.path)  # which has seen no other charges in their place
    for again in (
        lambda: ledger.release(TENTH, ZEROS, key=release_key("edited"), resume=True),
        lambda: ledger.reserve(seal_of(release_key("edited")), resume=True),
    ):
        with pytest.raises(error, match=message):
            again()


def seal_of(key: dpfast.ReleaseKey) -> object:
    return key.seal(TENTH, [key.digester(TENTH)(0, ZEROS)], shape=ZEROS.shape)


def test_bytes_flipped_at_random_never_pass_for_another_sum(ledger) -> None:
    """An altered file is refused at opening or at a whole check; or it still says the same."""
    for n in range(8):
        ledger.release(TENTH, ZEROS, key=release_key(f"release {n}"))
    history, spent = ledger.history(), ledger.spent
    sound, choose, refused = ledger.path.read_bytes(), random.Random(2), 0
    for _ in range(300):
        at = choose.randrange(len(sound))
        ledger.path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << choose.randrange(8)]) + sound[at + 1 :])
        try:
            found = Ledger(ledger.path)
            assert (found.budget, found.dataset, found.spent) == (ledger.budget, "visits", spent)
            found.verify()
        except LedgerError:
            refused += 1
            continue
        assert found.history() == history
    assert refused > 40  # much of the file is empty


def test_the_tables_are_only_added_to(ledger) -> None:
    """Against slips with an editor; who means to can take the triggers off."""
    ledger.release(TENTH, ZEROS, key=release_key())
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    for table in ("promise", "releases", "parts"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = 9"):
            with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                connection.execute(statement)
    with pytest.raises(sqlite3.IntegrityError, match="only added to"):
        connection.execute("DELETE FROM checkpoint")
    connection.close()


def test_another_ledger_in_the_same_place_is_noticed(ledger) -> None:
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="does not exist"):
        ledger.release(TENTH, ZEROS)
    # The same terms, and all that was spent forgotten.
    Ledger(ledger.path, 1, delta=Decimal("1e-6"), dataset="visits", create=True)
    with pytest.raises(LedgerError, match="is another ledger than when it was opened"):
        ledger.release(TENTH, ZEROS)


# ------------------------------------------------------------------ its lock, its one name, copies


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """As another process has it."""
    with Path(f"{path}.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_who_charges_or_reads_holds_the_lock(ledger, monkeypatch) -> None:
    link = ledger.path.with_name("link.db")
    link.symlink_to(ledger.path)
    linked = Ledger(link)
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    with locked(ledger.path):
        for book in (ledger, linked):
            with pytest.raises(LedgerError, match="is locked by another process or thread; nothing was released"):
                book.release(TENTH, ZEROS)
            with pytest.raises(LedgerError, match="is locked"):
                book.history()
        with pytest.raises(LedgerError, match="is locked"):
            Ledger(link)
    linked.release(TENTH, ZEROS)
    assert ledger.spent.epsilon == Fraction(1, 10)
    assert not link.with_name("link.db.lock").exists()


def test_nobody_shares_the_lock_of_a_charge(ledger, monkeypatch) -> None:
    insert, asked = store.insert, []

    def while_held(*row) -> bytes:
        with Path(f"{ledger.path}.lock").open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        asked.append(row)
        return insert(*row)

    monkeypatch.setattr(store, "insert", while_held)
    ledger.spend(TENTH)
    assert len(asked) == 1


def test_a_charge_waits_for_its_turn(ledger) -> None:
    with locked(ledger.path):
        charge = threading.Thread(target=ledger.spend, args=(TENTH,))
        charge.start()
        assert len(list(ledger.path.parent.glob("*-journal"))) == 0
        assert charge.is_alive()
    charge.join()
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_a_lock_file_that_is_gone_is_made_again(ledger, monkeypatch) -> None:
    """Deleted before a charge, or before its lock: what was locked is no longer the lock."""
    lock_file = Path(f"{ledger.path}.lock")
    lock_file.unlink()
    ledger.spend(TENTH)
    assert stat.S_IMODE(lock_file.stat().st_mode) == 0o600
    real, calls, held = fcntl.flock, [], []

    def flock(file, how) -> None:
        calls.append(how)
        if len(calls) == 1:
            lock_file.unlink()
        real(file, how)

    insert = store.insert
    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(store, "insert", lambda *row: held.append(is_locked(lock_file)) or insert(*row))
    ledger.spend(TENTH)
    assert held == [True]
    assert len(calls) == 3  # locked, locked again, unlocked


def is_locked(path: Path) -> bool:
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda name: name.symlink_to("elsewhere"), "Too many levels of symbolic links"),
        (lambda name: name.mkdir(), "Is a directory"),
        (lambda name: name.symlink_to(name), "Too many levels of symbolic links"),
    ],
)
def test_a_lock_file_that_is_none(ledger, spoil, message) -> None:
    name = Path(f"{ledger.path}.lock")
    name.unlink()
    spoil(name)
    for attempt in (lambda: ledger.spend(TENTH), lambda: Ledger(ledger.path)):
        with pytest.raises(LedgerError, match=rf"cannot lock .*budget\.db: .*budget\.db\.lock: {message}"):
            attempt()
    assert not name.with_name("elsewhere").exists()
    assert {entry.name for entry in name.parent.iterdir()} == {"budget.db", "budget.db.lock"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_root_who_looks_does_not_lock_the_owner_out(ledger) -> None:
    os.chown(ledger.path, 65534, 65534)
    lock_file = Path(f"{ledger.path}.lock")
    lock_file.unlink()
    assert Ledger(ledger.path).spent.epsilon == 0
    found = lock_file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 65534, 0o600)


def test_ctrl_c_leaves_no_lock(ledger, monkeypatch) -> None:
    """Wherever it lands: between locking and noticing it, or in the middle of a charge."""
    real, insert = fcntl.flock, store.insert

    def flock(file, how) -> None:
        real(file, how)
        if how != fcntl.LOCK_UN:
            raise KeyboardInterrupt

    def inserted(*row) -> Never:
        insert(*row)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "PATIENCE", 10.0)
    for module, name, interrupted in ((fcntl, "flock", flock), (store, "insert", inserted)):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, interrupted)
            ledger.spend(TENTH)
        assert ledger.spent.epsilon == 0
    ledger.spend(TENTH)


def test_a_hard_link_is_refused(ledger) -> None:
    """A journal follows the name: a charge under one could be undone under the other."""
    second = ledger.path.with_name("second.db")
    second.hardlink_to(ledger.path)
    message = r"has 2 names \(hard links\).*`dpfast ledger copy`.*nothing was released"
    opened = [lambda: Ledger(ledger.path), lambda: Ledger(second)]
    copied = partial(ledger.copy, ledger.path.with_name("third.db"))
    for attempt in (lambda: ledger.release(TENTH, ZEROS), lambda: ledger.spent, *opened, copied):
        with pytest.raises(LedgerError, match=message):
            attempt()
    second.unlink()
    ledger.release(TENTH, ZEROS)
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_a_ledger_in_the_making_has_no_second_name(path, monkeypatch) -> None:
    """It appears by a link, and its first name goes: who opens it meanwhile waits."""
    link = Path.hardlink_to

    def linked(self, target) -> None:
        link(self, target)
        with pytest.raises(LedgerError, match="is locked"):
            Ledger(path)

    monkeypatch.setattr(store, "PATIENCE", 0.1)
    monkeypatch.setattr(Path, "hardlink_to", linked)
    assert Ledger(path, 1, create=True).spent.epsilon == 0


def test_a_copy_is_a_ledger_of_its_own(ledger, capsys) -> None:
    """Equal, checked, its owner's alone, over nothing; from Python and the command line."""
    ledger.release(TENTH, ZEROS, key=release_key())
    ledger.spend(TENTH)
    copy = ledger.copy(ledger.path.with_name("copy.db"))
    assert (copy.history(), copy.budget, copy.verify()) == (ledger.history(), ledger.budget, 2)
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    assert copy.path.stat().st_nlink == 1
    copy.release(TENTH, ZEROS, key=release_key(), resume=True)  # what was released before is free there, too
    copy.spend(TENTH)
    assert (copy.spent.epsilon, ledger.spent.epsilon) == (Fraction(3, 10), Fraction(2, 10))
    other = ledger.path.with_name("other.db")
    code, out, _ = command(capsys, "ledger", "copy", ledger.path, other)
    assert (code, out) == (0, "visits: epsilon 1, delta 1e-6 in all per person, add-remove\n")
    assert Ledger(other).history() == ledger.history()
    text = ledger.path.with_name("text.db")
    text.write_text("mine")
    for target, message in [(other, "exists"), (text, "exists"), (ledger.path, "exists"), ("no/x.db", "cannot make")]:
        with pytest.raises(LedgerError, match=message):
            ledger.copy(ledger.path.parent / target)
        assert command(capsys, "ledger", "copy", ledger.path, ledger.path.parent / target)[0] == 1
    assert text.read_text() == "mine"
    assert [p.name for p in ledger.path.parent.iterdir() if p.name.startswith(".")] == []


def test_copies_made_while_others_charge(path) -> None:
    """Each is the ledger of one moment: whole, with every charge that had returned before."""
    ledger, stop = Ledger(path, 10**6, create=True), threading.Event()
    counts = []

    def charge() -> None:
        while not stop.is_set():
            ledger.spend(Guarantee(1))

    threads = [threading.Thread(target=charge) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(20):
        least = int(ledger.spent.epsilon)
        copy = ledger.copy(path.with_name(f"copy{n}.db"))
        counts.append(copy.verify())
        assert least <= counts[-1] <= ledger.spent.epsilon
    stop.set()
    for thread in threads:
        thread.join()
    assert counts == sorted(counts)
