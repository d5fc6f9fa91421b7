# SPDX-License-Identifier: Apache-2.0
"""What a long history costs, files of format 1, patience, full disks and clocks."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from fresh import python
from ledgers import ALTERED, TENTH, ZEROS, command, edited, release_key, rewritten
from places import VECTORS

import dpfast
from dpfast import DiscreteLaplace, Guarantee, Ledger
from dpfast.errors import LedgerError
from dpfast.ledger import store, upgrade

# ------------------------------------------------------------------ what a long history costs


def looked_at(work: Callable[[], object]) -> int:
    """How many bytes of files this process reads meanwhile."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read()
    work()
    return read() - before


@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="only Linux counts what is read")
@pytest.mark.slow
def test_opening_and_charging_read_no_more_of_a_long_history(path) -> None:
    """A deeper tree takes a few more pages of 4,096 bytes; the planted whole check reads it all."""
    seen: dict[int, list[int]] = {}
    for charges in (10, 20_000):
        ledger = Ledger(path.with_name(f"{charges}.db"), 10**6, create=True)
        ledger.spend(*[TENTH] * charges)
        works = (lambda: Ledger(ledger.path), lambda: ledger.spend(TENTH), lambda: ledger.spent, ledger.verify)
        seen[charges] = [looked_at(work) for work in works]
    more = [after - before for before, after in zip(*seen.values(), strict=True)]
    assert all(each <= 16 * 4096 for each in more[:3]), more
    assert more[3] > 1000 * 4096


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.slow
def test_a_charge_flushes_as_often_after_a_long_history(tmp_path) -> None:
    """The checkpoint is moved within the charge's own transaction."""
    paths, log = [tmp_path / folder / "budget.db" for folder in ("short", "long")], tmp_path / "log"
    for path, charges in zip(paths, (10, 20_000), strict=True):
        path.parent.mkdir()
        Ledger(path, 10**6, create=True).spend(*[TENTH] * charges)
    code = "import sys, dpfast; [dpfast.Ledger(path).spend(dpfast.Guarantee(1)) for path in sys.argv[1:]]"
    trace = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", log, sys.executable, "-c", code, *paths]
    subprocess.run(trace, check=True, cwd=Path(dpfast.__file__).parent.parent)
    flushed = [line for line in log.read_text().splitlines() if "sync(" in line]
    flushes = [sum(str(path.parent) in line for line in flushed) for path in paths]
    assert flushes[0] == flushes[1] > 0
    assert sum(flushes) == len(flushed)


# ------------------------------------------------------------------ format 1


def of_format_1(path: Path, name: str = "ledger_format_1.db") -> Path:
    shutil.copy(VECTORS / name, path)
    path.chmod(0o600)
    return path


def test_a_ledger_of_format_1_is_upgraded(path, capsys) -> None:
    """Budget, charges and keyed parts stay. Until then the ledger is refused, with advice."""
    of_format_1(path)
    with pytest.raises(LedgerError, match="is a ledger of format 1: `dpfast ledger upgrade` makes it one of format 3"):
        Ledger(path, 1, delta=Decimal("1e-6"))
    ledger = Ledger.upgrade(path)
    assert repr(ledger) == f"<Ledger 'visits': epsilon 1, delta 1e-6 per household, add-remove; {path}>"
    assert [entry[2:6] for entry in ledger.history()] == [
        ("by age", "discrete_laplace", Fraction(1, 10), 0),
        ("visits/age", "discrete_laplace", Fraction(1, 10), 0),
        ("two", "Guarantee", Fraction(1, 4), Fraction(1, 10**7)),
        ("two", "discrete_laplace", Fraction(1, 10), 0),
    ]
    assert ledger.history()[0].time == "2026-11-22T00:09:07Z"
    assert ledger.verify() == 4
    mechanism = DiscreteLaplace(Decimal("0.1"), 1000, unit="household")
    assert ledger.spent.epsilon == Fraction(55, 100)
    ledger.release(
        mechanism, ZEROS, key=release_key("of format 3")
    )  # what format 1 has drawn is finished by its version
    ledger.spend(Guarantee(Decimal("0.35"), Decimal("9e-7"), unit="household"))
    with pytest.raises(LedgerError, match="is not a ledger of format 1 or 2"):
        Ledger.upgrade(path)
    assert ledger.verify() == 6

    other = of_format_1(path.with_name("rho.db"), "ledger_format_1_rho.db")
    code, out, _ = command(capsys, "ledger", "upgrade", other)
    assert (code, out) == (0, "sums: rho 0.5 (about epsilon 5.23 at delta 1e-6) in all per person, substitution\n")
    assert Ledger(other).remaining.rho == Fraction(3, 8)
    assert Ledger(other).history()[0].epsilon is None


def test_a_ledger_of_format_2_is_upgraded(path, capsys) -> None:
    """Budget, charges and refused attempts stay, and what it has reserved is gone on with."""
    of_format_1(path, "ledger_format_2.db")
    with pytest.raises(LedgerError, match="is a ledger of format 2: `dpfast ledger upgrade` makes it one of format 3"):
        Ledger(path)
    code, out, _ = command(capsys, "ledger", "upgrade", path)
    assert (code, out) == (0, "visits: epsilon 1, delta 1e-6 in all per household, add-remove\n")
    ledger = Ledger(path)
    assert [(*entry[2:6], entry.refused) for entry in ledger.history()] == [
        ("by age", "discrete_laplace", Fraction(1, 10), 0, False),
        ("visits/age", "discrete_laplace", Fraction(1, 10), 0, False),
        ("hours", "laplace", 0, 0, True),
        ("two", "Guarantee", Fraction(1, 4), Fraction(1, 10**7), False),
        ("two", "discrete_laplace", Fraction(1, 10), 0, False),
    ]
    assert ledger.history()[0].time == "2026-11-24T18:23:14Z"
    mechanism = DiscreteLaplace(Decimal("0.1"), 1000, unit="household")
    names = {"key": release_key(), "names": list("abcde"), "resume": True}
    assert ledger.release(mechanism, np.arange(5), **names).tolist() == [25424, -25444, -2630, 288, 14217]
    with pytest.raises(dpfast.errors.OtherInputError):
        ledger.release(mechanism, np.arange(5) + 1, **names)
    assert (ledger.spent.epsilon, ledger.verify()) == (Fraction(55, 100), 6)  # with the attempt of now

    other = of_format_1(path.with_name("rho.db"), "ledger_format_2_rho.db")
    assert Ledger.upgrade(other).remaining.rho == Fraction(3, 8)
    assert Ledger(other).remaining.rho_delta == Fraction(9, 10**8)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE releases SET label = 'x' WHERE number = 2", ALTERED),
        ("DELETE FROM releases WHERE number = 5", "its checkpoint and its charges differ"),
        ("DELETE FROM parts", "its checkpoint and its charges differ"),
        ("UPDATE checkpoint SET epsilon_total = '0'", ALTERED),
        ("DELETE FROM checkpoint", "it has no checkpoint"),
        ("UPDATE promise SET epsilon = '9'", ALTERED),
        ("CREATE TABLE more (n)", "its tables are not those of a ledger"),
    ],
)
def test_a_damaged_ledger_of_format_2_stays_as_it_is(path, statement, message) -> None:
    edited(statement)(of_format_1(path, "ledger_format_2.db"))
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=message):
        Ledger.upgrade(path)
    assert path.read_bytes() == before


def test_what_a_later_version_keeps_is_refused_in_words(ledger) -> None:
    """A budget in rho and mu_squared, and a kind of row: neither is called damage."""
    ledger.spend(TENTH)
    rewritten("UPDATE releases SET kind = 'step'")(ledger.path)
    with pytest.raises(LedgerError, match="charge 1 is of a kind that this version of dpfast does not know"):
        Ledger(ledger.path)
    ledger.path.unlink()
    Ledger(ledger.path, rho=1, create=True).spend(Guarantee(rho=1))
    rewritten("UPDATE promise SET mu_squared = '1'")(ledger.path)
    with pytest.raises(LedgerError, match="is kept in rho and mu_squared, which this version of dpfast does not know"):
        Ledger(ledger.path)


def test_equal_charges_of_one_second_differ(ledger, monkeypatch) -> None:
    """Else what was seen of one would be found in a copy that was charged instead."""
    monkeypatch.setattr(store.time, "strftime", lambda *_: "2026-11-24T00:00:00Z")
    other = ledger.copy(ledger.path.with_name("other.db"))
    for one in (ledger, other):
        one.spend(TENTH)
    with (
        contextlib.closing(sqlite3.connect(ledger.path)) as file,
        contextlib.closing(sqlite3.connect(other.path)) as copied,
    ):
        digests = [each.execute("SELECT digest FROM releases").fetchone() for each in (file, copied)]
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE releases SET label = 'x' WHERE number = 2", ALTERED),
        ("DELETE FROM releases WHERE number = 2", ALTERED),
        ("UPDATE parts SET size = 40", ALTERED),
        ("UPDATE promise SET epsilon = '9'", ALTERED),
        ("DELETE FROM promise", "it states no budget"),
        ("CREATE TABLE more (n)", "its tables are not those of a ledger"),
        ("PRAGMA journal_mode = WAL", "was put into journal mode wal"),
    ],
)
def test_a_damaged_ledger_of_format_1_stays_as_it_is(path, statement, message) -> None:
    edited(statement)(of_format_1(path))
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=message):
        Ledger.upgrade(path)
    assert path.read_bytes() == before


def test_sums_of_format_1_are_added_up_again(path, monkeypatch) -> None:
    edited("UPDATE releases SET epsilon = '1/20' WHERE number = 2")(of_format_1(path))
    monkeypatch.setattr(upgrade, "_checked", lambda _path, _before, row: row[-1])
    with pytest.raises(LedgerError, match="charge 2 does not add up"):
        Ledger.upgrade(path)


def test_an_upgrade_that_is_killed_is_undone(path) -> None:
    """At any statement the file is of format 1 still, or again, and is upgraded in the end."""
    of_format_1(path)
    before = [Ledger.upgrade(of_format_1(path.with_name("other.db"))).history()]
    output = python(
        """
        import os, signal, sys
        import dpfast
        from dpfast.ledger import store

        insert = store.insert
        for last in range(20):
            child = os.fork()
            if child == 0:
                count = 0

                def inserted(*row) -> None:
                    global count
                    count += 1
                    if count > last:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return insert(*row)

                store.insert = inserted
                dpfast.Ledger.upgrade(sys.argv[1])
                os._exit(0)
            if os.waitpid(child, 0)[1] == 0:
                break
            try:
                dpfast.Ledger(sys.argv[1])
            except dpfast.errors.LedgerError as error:
                assert "format 1" in str(error), error
        print(last)
        """,
        path,
    )
    assert int(output) == 1 + 1 + 4 + 2  # the budget, the checkpoint, four charges, two parts
    assert [Ledger(path).history()] == before


# ------------------------------------------------------------------ patience, full disks, clocks


def test_a_locked_ledger_is_waited_for_and_then_refused(ledger, monkeypatch) -> None:
    """By SQLite's own lock, too, which an editor of SQLite files takes."""
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert ledger.spent.epsilon == 0  # readers need not wait
    with pytest.raises(LedgerError, match="database is locked; nothing was released"):
        ledger.release(TENTH, ZEROS)
    other.close()
    ledger.release(TENTH, ZEROS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to any file")
def test_a_ledger_that_is_read_only(ledger) -> None:
    ledger.path.chmod(0o400)
    assert Ledger(ledger.path).history() == ()
    with pytest.raises(LedgerError, match="may not write to"):
        ledger.release(TENTH, ZEROS)


def test_a_full_disk(path) -> None:
    """Wherever the disk ends, there is an error and no noise, and the ledger stays sound."""
    output = python(
        """
        import resource, signal, sys
        import numpy as np
        import dpfast

        path = sys.argv[1]
        mechanism, zeros = dpfast.DiscreteLaplace(1, 1), np.zeros(9, np.int64)
        ledger = dpfast.Ledger(path, 10**6, create=True)
        ledger.release(mechanism, zeros)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        failed = released = 0
        for limit in [0, 100, 512, 600, 4096, 5000, *range(8000, 60000, 1500)]:
            target = zeros - 7
            before = len(ledger.history())
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                ledger.release(mechanism, zeros, out=target, label="x" * 200)
                released += 1
            except dpfast.errors.LedgerError as error:
                assert "nothing was released" in str(error), error
                assert (target == -7).all()
                failed += 1
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert len(dpfast.Ledger(path).history()) == released + 1
        print(failed > 3, released > 3)
        """,
        path,
    )
    assert output.split() == ["True", "True"]


def test_a_clock_that_goes_backwards(ledger, monkeypatch) -> None:
    """Order is told by the number; nothing depends on the time."""
    for second in (10**9, 10**8, 2 * 10**9):
        now = store.time.struct_time((2000 + second // 10**8, 1, 2, 3, 4, 5, 0, 0, 0))
        monkeypatch.setattr(store.time, "gmtime", lambda now=now: now)
        ledger.release(TENTH, ZEROS, key=release_key("clock"), resume=True)
        ledger.release(TENTH, ZEROS)
    assert [entry.number for entry in ledger.history()] == [1, 2, 3, 4]
    assert [entry.time[:4] for entry in ledger.history()] == ["2010", "2010", "2001", "2020"]
    assert Ledger(ledger.path).spent.epsilon == Fraction(4, 10)


def test_labels_are_text_and_nothing_else(ledger) -> None:
    labels = ["'); DROP TABLE releases; --", '"', "?1", "ε ≤ 1 · 統計", "x" * 200, "<script>alert(1)</script>"]
    for label in labels:
        ledger.release(TENTH, ZEROS, label=label)
    history = Ledger(ledger.path).history()
    assert [entry.label for entry in history] == labels
    assert labels[0] in str(history)
    assert "<script>" not in history._repr_html_()
    assert "&lt;script&gt;" in history._repr_html_()
