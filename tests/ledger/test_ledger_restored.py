# SPDX-License-Identifier: Apache-2.0
"""A ledger that a copy replaced is noticed by who saw it later: a process, or a key's head."""

from __future__ import annotations

import fcntl
import pickle
import shutil
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

import dpfast
from dpfast import DiscreteLaplace, Guarantee, KeyFile, Ledger
from dpfast.app.cli import main
from dpfast.errors import DTypeError, LedgerError, ParameterError
from dpfast.ledger import head

ONE = DiscreteLaplace(1, 1)
LOST = "lacks charge {} of {}: it was restored from a copy"


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger(tmp_path / "budget.db", 10, create=True)


@pytest.fixture
def key(tmp_path) -> KeyFile:
    return KeyFile.create(tmp_path / "visits.key")


def kept(ledger: Ledger) -> Path:
    """A copy of this moment."""
    copied = ledger.path.with_name(f"copy-{len(ledger.history())}.db")
    ledger.copy(copied)
    return copied


def restore(copied: Path, ledger: Ledger) -> None:
    between = ledger.path.with_name("between.db")
    shutil.copyfile(copied, between)
    between.chmod(0o600)
    between.replace(ledger.path)


def release(ledger: Ledger, key: KeyFile, label: str) -> None:
    ledger.release(ONE, [1, 2, 3], key=key.derive(label))


# ------------------------------------------------------------------ one process


def test_an_open_ledger_remembers_what_it_has_seen(ledger, key) -> None:
    """By every door, and after it was pickled; one that is opened later was told nothing."""
    copied = kept(ledger)
    ledger.spend(ONE)
    restore(copied, ledger)
    again = pickle.loads(pickle.dumps(ledger))
    for one in (ledger, again):
        doors = (
            lambda one=one: one.release(ONE, [1, 2, 3]),
            lambda one=one: one.spend(ONE),
            lambda one=one: release(one, key, "a"),
            lambda one=one: one.expect(key.derive("a"), ONE),
            lambda one=one: one.spent,
            one.history,
            one.verify,
            lambda one=one: one.copy(one.path.with_name("another.db")),
        )
        for door in doors:
            with pytest.raises(LedgerError, match=LOST.format(1, "this process")):
                door()
    assert Ledger(ledger.path).spent.epsilon == 0
    assert not head.name_of(key.path).exists()


def test_a_copy_that_was_charged_is_no_less_a_copy(ledger) -> None:
    """It has as many charges as were seen, or more: they are others."""
    copied = kept(ledger)
    ledger.spend(ONE)
    restore(copied, ledger)
    other = Ledger(ledger.path)
    for _ in range(2):
        other.spend(ONE)
        with pytest.raises(LedgerError, match=LOST.format(1, "this process")):
            ledger.spend(ONE)


def test_what_others_charge_meanwhile_is_no_loss(ledger) -> None:
    other = Ledger(ledger.path)
    for one in (ledger, other, ledger, other):
        one.spend(ONE)
        assert one.spent == Guarantee(epsilon=len(one.history()))


# ------------------------------------------------------------------ across processes


def test_the_head_beside_a_key_file_remembers(ledger, key, capsys) -> None:
    """For who opens the ledger anew. What is lacking is charged on demand, and then it goes on."""
    release(ledger, key, "a")
    copied = kept(ledger)
    release(ledger, key, "b")
    release(ledger, key, "c")
    name = head.name_of(key.path)
    assert (name.name, name.stat().st_mode & 0o777) == ("visits.key.head", 0o600)
    restore(copied, ledger)
    lost = LOST.format(3, f"the head beside {key.path}")
    for attempt in (
        lambda one: release(one, key, "d"),
        lambda one: one.release(ONE, [1, 2, 3], key=key.derive("a"), resume=True),
        lambda one: one.expect(key.derive("d"), ONE),
        lambda one: one.verify(key),
    ):
        with pytest.raises(LedgerError, match=lost):
            attempt(Ledger(ledger.path))
    opened, file = Ledger(ledger.path), str(ledger.path)
    assert opened.verify() == 1  # who is told nothing
    assert main(["ledger", "verify", file]) == 0
    assert "without --key-file nobody can tell whether a copy was restored since" in capsys.readouterr().out
    assert main(["ledger", "verify", file, "--key-file", str(key.path)]) == 1
    assert "`dpfast ledger restored` goes on" in capsys.readouterr().err
    assert main(["ledger", "restored", file, "--key-file", str(key.path)]) == 0
    assert capsys.readouterr().out == "budget: epsilon 2 may be lacking: --charge charges it, and goes on\n"
    assert Ledger(ledger.path).spent.epsilon == 1
    assert main(["ledger", "restored", file, "--key-file", str(key.path), "--charge"]) == 0
    assert capsys.readouterr().out == "budget: epsilon 2 is charged, as far as the budget goes\n"
    assert main(["ledger", "restored", file, "--key-file", str(key.path), "--charge"]) == 0
    assert main(["ledger", "verify", file, "--key-file", str(key.path)]) == 0
    assert capsys.readouterr().out.count(f"no charge is lost that the head beside {key.path} saw\n") == 2
    opened = Ledger(ledger.path)
    assert opened.history()[-1][3:5] == ("lost by restoring a copy", 2)
    release(opened, key, "d")
    assert opened.spent.epsilon == 4


def test_a_head_that_is_older_than_the_ledger_is_fine(ledger, key) -> None:
    release(ledger, key, "a")
    for _ in range(3):
        ledger.spend(ONE)
    opened = Ledger(ledger.path)
    assert opened.verify(key) == 4
    release(opened, key, "b")
    assert [each.number for each in head.heads(key, ledger_id(ledger))] == [1, 5]


def ledger_id(ledger: Ledger) -> bytes:
    return bytes.fromhex(next(iter(head.known(KeyFile(ledger.path.with_name("visits.key"))))))


@pytest.mark.parametrize("charged", [0, 1, 4])
def test_what_is_lacking_is_never_understated(ledger, key, charged) -> None:
    """A restored copy that was charged since lacks what was seen after the last charge of both."""
    none = kept(ledger)
    release(ledger, key, "a")
    ledger.spend(ONE)
    one = kept(ledger)
    release(ledger, key, "b")
    release(ledger, key, "c")  # 4 in all
    for copied, lacking in ((one, 3), (none, 4)):
        restore(copied, ledger)
        opened = Ledger(ledger.path)
        for _ in range(charged):
            opened.spend(ONE)
        had = opened.spent.epsilon
        assert opened.restored(key).epsilon == lacking
        assert opened.spent.epsilon == had
    assert opened.restored(key, charge=True).epsilon == 4
    assert opened.spent.epsilon == charged + 4


def test_what_is_lacking_of_mu_squared(tmp_path, key) -> None:
    """A ledger by="gdp" says it as GDP, and charges it."""
    ledger = Ledger(tmp_path / "budget.db", 1, delta="1e-6", by="gdp", create=True)
    one = dpfast.Gaussian(100, sensitivity=dpfast.Sensitivity(1, 1))
    ledger.release(one, [1.0], key=key.derive("a"))
    copied = kept(ledger)
    ledger.release(one, [1.0], key=key.derive("b"))
    restore(copied, ledger)
    with pytest.raises(LedgerError, match=LOST.format(2, f"the head beside {key.path}")):
        Ledger(ledger.path).release(one, [1.0], key=key.derive("c"))
    assert Ledger(ledger.path).restored(key, charge=True) == one.guarantee
    assert Ledger(ledger.path).spent.mu_squared == Fraction(2, 10**4)


def test_no_more_is_charged_than_is_left(ledger, key) -> None:
    copied = kept(ledger)
    ledger.spend(Guarantee(epsilon=7))
    release(ledger, key, "a")
    restore(copied, ledger)
    opened = Ledger(ledger.path)
    opened.spend(Guarantee(epsilon=5))
    assert opened.restored(key, charge=True).epsilon == 8
    assert Ledger(ledger.path).remaining.epsilon == 0
    assert opened.verify(key) == 2


def test_both_restored_is_not_noticed(ledger, key) -> None:
    """As docs/ledger.md says: a snapshot of a machine holds both."""
    release(ledger, key, "a")
    copied, name = kept(ledger), head.name_of(key.path)
    before = name.read_bytes()
    release(ledger, key, "b")
    restore(copied, ledger)
    name.write_bytes(before)
    assert Ledger(ledger.path).verify(key) == 1


def test_a_head_is_believed_only_under_its_key(ledger, key) -> None:
    release(ledger, key, "a")
    name = head.name_of(key.path)
    written = name.read_bytes()
    for spoilt in (written.replace(b"[[1,", b"[[2,"), b"", written[:-1]):
        name.write_bytes(spoilt)
        with pytest.raises(LedgerError, match=r"\.key\.head was not written under this key, or is damaged"):
            release(Ledger(ledger.path), key, "b")
    name.write_bytes(written)
    key.path.unlink()
    other = KeyFile.create(key.path)
    assert head.known(other) == {}  # for it is of the key that was there before
    assert ledger.verify(other) == 1
    name.unlink()
    name.symlink_to(key.path)
    with pytest.raises(LedgerError, match=r"cannot read .*\.key\.head: Too many levels of symbolic links"):
        release(Ledger(ledger.path), other, "b")
    assert ledger.spent.epsilon == 1


def test_a_head_never_goes_back(ledger, key) -> None:
    """However processes race; and one key has a head for each of its ledgers."""
    second = Ledger(ledger.path.with_name("second.db"), 10, create=True)
    at_once = [
        threading.Thread(target=release, args=(Ledger(each.path), key, f"{each.dataset} {number}"))
        for each in (ledger, second)
        for number in range(4)
    ]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()
    ledgers = [one for one in head.known(key) if not one.endswith(" tags")]
    found = {one: head.heads(key, bytes.fromhex(one)) for one in ledgers}
    assert [heads[-1].number for heads in found.values()] == [4, 4]
    for one, heads in found.items():
        head.note(key.path, bytes.fromhex(one), heads[0])
        assert head.heads(key, bytes.fromhex(one)) == heads
    assert ledger.verify(key) == second.verify(key) == 4


def test_heads_wait_for_each_other(ledger, key) -> None:
    """A process that has read the head, and not yet written it, keeps others waiting."""
    release(ledger, key, "a")
    with key.path.open("rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        late = threading.Thread(target=release, args=(ledger, key, "b"))
        late.start()
        late.join(0.2)
        assert late.is_alive()
    late.join()
    assert ledger.verify(key) == 2


def test_workers_seals_ask_the_head_too(ledger, key) -> None:
    copied, made = kept(ledger), key.derive("b")
    release(ledger, key, "a")
    seal = made.seal(ONE, [made.digester(ONE)(0, [1, 2, 3])], shape=(3,))
    restore(copied, ledger)
    with pytest.raises(LedgerError, match=LOST.format(1, f"the head beside {key.path}")):
        Ledger(ledger.path).reserve(seal)


def test_only_the_last_of_many_are_kept(ledger, key, monkeypatch) -> None:
    monkeypatch.setattr(head, "KEPT", 3)
    for label in "abcde":
        release(ledger, key, label)
    assert [each.number for each in head.heads(key, ledger_id(ledger))] == [3, 4, 5]
    assert [each.spent for each in head.heads(key, ledger_id(ledger))] == [(Fraction(n), 0) for n in (3, 4, 5)]


def test_a_head_comes_after_its_charge(ledger, key, monkeypatch) -> None:
    """Killed in between, the head is older than the ledger: the release goes on."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(head, "note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        release(ledger, key, "a")
    opened = Ledger(ledger.path)
    assert opened.spent.epsilon == 1
    opened.release(ONE, [1, 2, 3], key=key.derive("a"), resume=True)
    assert opened.verify(key) == 1


def test_where_no_head_can_be_written_it_is_said_once(ledger, key, monkeypatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(head.os, "fsync", full)
    with pytest.warns(UserWarning, match=r"visits\.key\.head cannot be written \(No space left on device\)"):
        release(ledger, key, "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release(ledger, key, "b")
    assert ledger.spent.epsilon == 2


def test_a_key_without_a_file_has_no_head(ledger, key) -> None:
    ledger.release(ONE, [1, 2, 3], key=dpfast.Key.generate().derive("a"))
    assert sorted(each.name for each in ledger.path.parent.iterdir()) == ["budget.db", "budget.db.lock", "visits.key"]
    for verb in (ledger.verify, ledger.restored):
        with pytest.raises(ParameterError, match="nobody can tell whether the ledger was restored from a copy"):
            verb(dpfast.Key.generate())
        with pytest.raises(DTypeError, match="key must be a KeyFile, not str"):
            verb(str(key.path))
    late = key.derive("b")
    key.path.unlink()
    with pytest.warns(UserWarning, match="cannot be written"):
        ledger.release(ONE, [1, 2, 3], key=late)
    assert ledger.spent.epsilon == 2


def test_a_head_is_no_place_for_an_output(ledger, key, capsys) -> None:
    release(ledger, key, "a")
    source, name = ledger.path.with_name("in.csv"), head.name_of(key.path)
    source.write_text("ward,count\na,1\n")
    before = name.read_bytes()
    paid = ["--ledger", str(ledger.path), "--key-file", str(key.path), "--label", "b"]
    noise = ["--column", "count", "--epsilon", "1", "--sensitivity", "1", "--format", "csv", "--force"]
    for end in ("", ".new"):  # a head that is written removes the latter
        assert main(["privatize", str(source), f"{name}{end}", *noise, *paid]) == 2
        assert f"OUT must not be a file of --key-file (.head{end})" in capsys.readouterr().err
    assert name.read_bytes() == before


def test_a_head_that_nobody_would_read_whole_is_not_written(ledger, key, tmp_path, monkeypatch) -> None:
    """What is there stays: a head that was cut short would be refused for ever."""
    release(ledger, key, "a")
    name, another = head.name_of(key.path), Ledger(tmp_path / "another.db", 10, create=True)
    before = name.read_bytes()
    monkeypatch.setattr(head, "LONGEST", len(before) + 9)
    with pytest.warns(UserWarning, match=r"visits\.key\.head cannot be written \(it holds too many ledgers\)"):
        release(another, key, "b")
    assert name.read_bytes() == before
    assert ledger.verify(key=key) == another.spent.epsilon == 1


def test_what_a_killed_writer_of_a_head_left_is_gone_with_the_next(ledger, key, tmp_path) -> None:
    """It has a name of its own, so no key gathers such files; a link in its place leads nowhere."""
    victim, left = tmp_path / "victim", tmp_path / "visits.key.head.new"
    victim.write_text("kept")
    for plant in (lambda: left.write_text("half a head"), lambda: left.symlink_to(victim)):
        plant()
        release(ledger, key, f"visits {len(ledger.history())}")
        assert not left.is_symlink()
        assert not left.exists()
        assert ledger.verify(key=key) == len(ledger.history())
    assert victim.read_text() == "kept"


def test_a_head_of_an_earlier_version_is_gone_on_with(ledger, key, monkeypatch) -> None:
    """It knows no tags, and what this version adds stands beside what that one reads."""
    release(ledger, key, "a")
    (digest, seen), (tags, counted) = head.known(key).items()
    assert (tags, counted[0], len(seen[0])) == (f"{digest} tags", 1, 3)
    with monkeypatch.context() as patched:
        patched.setattr(head, "known", lambda _: {digest: seen})
        assert head.heads(key, bytes.fromhex(digest))[-1].tags == 0
        release(Ledger(ledger.path), key, "b")
    assert head.heads(key, bytes.fromhex(digest))[-1].place == (2, 2)
