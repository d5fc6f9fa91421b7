# SPDX-License-Identifier: Apache-2.0
"""Where a ledger lies: what others may put beside it, or in its place, undoes no charge."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpfast
from dpfast import DiscreteLaplace, Guarantee, Ledger, paths
from dpfast.app.cli import main
from dpfast.errors import DTypeError, LedgerError, ParameterError

ONE = DiscreteLaplace(1, 1)
NOBODY, MEMBER, GROUP = 65534, 1000, 4242  # ids that need no entry in the system's lists
ROUNDS = int(os.environ.get("PLANTED", "100"))
BESIDE = "-journal", "-wal", "-shm", ".lock"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder, "budget.db")


@pytest.fixture
def charged(path) -> tuple[Ledger, bytes]:
    """A ledger of which 2 of 2 are spent, and a journal that would undo both charges."""
    ledger = Ledger(path, 2, create=True)
    journal = journal_of(path.read_bytes())
    for label in ("a", "b"):
        ledger.spend(ONE, label=label)
    return ledger, journal


def journal_of(pages: bytes) -> bytes:
    """What SQLite rolls back to these pages (sqlite.org/fileformat.html#the_rollback_journal)."""
    size = int.from_bytes(pages[16:18])
    many, sector, nonce = len(pages) // size, 512, 0
    head = struct.pack(">8s5I", bytes.fromhex("d9d505f920a163d7"), many, nonce, many, sector, size)
    written = head.ljust(sector, b"\0")
    for number in range(many):
        page = pages[number * size : (number + 1) * size]
        written += struct.pack(f">I{size}sI", number + 1, page, nonce + sum(page[size - 200 : 0 : -200]))
    return written


def plant(name: Path, content: bytes) -> None:
    """The whole file at once, where none is."""
    made = name.with_name(f"{name.name}.{os.getpid()}")
    made.write_bytes(content)
    made.chmod(0o644)
    with contextlib.suppress(FileExistsError):
        name.hardlink_to(made)
    made.unlink()


def beside(ledger: Ledger, end: str) -> Path:
    return Path(f"{ledger.path}{end}")


def as_user(user: int, work: Callable[[], object], *groups: int) -> str:
    """What work returns or raises in a child of another user, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setgid(user)
            os.setuid(user)
            tempfile.tempdir = "/tmp"
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:  # noqa: PTH123  a descriptor
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def refused(ledger: Ledger, message: str) -> None:
    """Nothing is charged, by any door; what stands in the file can be read."""
    before = ledger.path.read_bytes()
    key = dpfast.Key.generate().derive("visits")
    doors = (
        lambda: ledger.spend(ONE),
        lambda: ledger.release(ONE, [1, 2]),
        lambda: ledger.release(ONE, [1, 2], key=key),
        lambda: ledger.expect(key, ONE),
        lambda: Ledger(ledger.path).spend(ONE),
    )
    for door in doors:
        with pytest.raises(LedgerError, match=f"may be read and not charged: .*{message}.*; nothing was released$"):
            door()
    opened = Ledger(ledger.path)
    assert opened.spent == ledger.spent
    assert opened.verify() == len(opened.history())
    assert ledger.path.read_bytes() == before


# ------------------------------------------------------------------ folders


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (0o700, ""),
        (0o755, ""),
        (0o770, r"the group \d+ may write to .*chmod g-w"),
        (0o2775, r"the group \d+ may write to .*chmod g-w"),
        (0o3770, r"the group \d+ may write to .*chmod g-w"),
        (0o777, "everybody may write to .*chmod o-w"),
        (0o703, "everybody may write to .*chmod o-w"),
        (0o1777, "everybody may write to .*though it is sticky.*mkdir -m 700"),
    ],
)
def test_who_else_may_add_files_to_the_folder(path, mode, message, monkeypatch) -> None:
    """Nobody, or a group that the caller names; whoever else may, the ledger is only read."""
    monkeypatch.setattr(paths, "only_member", lambda _: None)
    ledger = Ledger(path, 3, create=True)
    path.parent.chmod(mode)
    if not message:
        ledger.spend(ONE)
        assert Ledger(path).spent.epsilon == 1
        return
    refused(ledger, message)
    with pytest.raises(LedgerError, match=f"cannot make a ledger at .*{message}"):
        Ledger(path.with_name("second.db"), 1, create=True)
    assert sorted(each.name for each in path.parent.iterdir()) == ["budget.db", "budget.db.lock"]
    if "group" in message:
        named = Ledger(path, shared_with=path.parent.stat().st_gid)
        named.spend(ONE)
        assert named.spent.epsilon == 1
        refused(Ledger(path, shared_with=GROUP), message)


def test_a_group_of_the_account_alone_is_the_account(path, monkeypatch) -> None:
    """As umask 002 and a group for each user leave folders and files."""
    ledger = Ledger(path, 3, create=True)
    path.parent.chmod(0o775)
    path.chmod(0o664)
    monkeypatch.setattr(paths, "only_member", {path.stat().st_gid: os.geteuid()}.get)
    ledger.spend(ONE)
    monkeypatch.setattr(paths, "only_member", {path.stat().st_gid: NOBODY}.get)
    refused(ledger, "chmod g-w")


@pytest.mark.parametrize(
    ("name", "members", "others", "alone"),
    [
        ("ann", [], {"bob": 7}, True),
        ("ann", ["ann"], {"bob": 7}, True),
        ("ann", ["bob"], {"bob": 7}, False),
        ("ann", [], {"bob": GROUP}, False),
        ("staff", [], {"bob": 7}, False),  # a list of members need not be complete
    ],
)
def test_who_is_alone_in_a_group(name, members, others, alone, monkeypatch) -> None:
    users = [pwd.struct_passwd((user, "", number, of, "", "", "")) for number, (user, of) in enumerate(others.items())]
    users.append(pwd.struct_passwd(("ann", "", MEMBER, GROUP, "", "", "")))
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(pwd, "getpwnam", {user.pw_name: user for user in users}.__getitem__)
    monkeypatch.setattr(grp, "getgrgid", {GROUP: grp.struct_group((name, "", GROUP, members))}.__getitem__)
    assert paths.only_member(GROUP) == (MEMBER if alone else None)
    assert paths.only_member(GROUP + 1) is None


def test_whoever_may_rename_the_folder_replaces_the_ledger(path) -> None:
    """A sticky folder above it is no danger, for only its owner renames what lies there."""
    parent = path.parent / "parent"
    (parent / "own").mkdir(parents=True, mode=0o700)
    ledger = Ledger(parent / "own" / "budget.db", 3, create=True)
    parent.chmod(0o1777)
    ledger.spend(ONE)
    parent.chmod(0o777)
    refused(ledger, f"everybody may write to {parent} ")


@pytest.mark.parametrize("to_folder", [False, True])
def test_links_lead_no_other_way(path, to_folder) -> None:
    """Whoever may replace a link on the way, the second of two, too, leads charges to a copy."""
    ledger = Ledger(path, 3, create=True)
    shared = path.parent / "shared"
    shared.mkdir()
    second, first = shared / "second", path.parent / "first"
    second.symlink_to(path.parent if to_folder else path)
    first.symlink_to(Path("shared") / "second")
    linked = Ledger(first / "budget.db" if to_folder else first)
    linked.spend(ONE)
    shared.chmod(0o777)
    refused(linked, f"everybody may write to {shared} ")
    ledger.spend(ONE)  # which comes by no link
    second.unlink()
    second.symlink_to(second)
    with pytest.raises(LedgerError, match="is not a file|does not exist"):
        linked.spend(ONE)


def test_an_access_list_that_lets_others_write(path, monkeypatch) -> None:
    """Its mask stands where a mode has the group's bits, so a group of one's own hides nothing."""
    monkeypatch.setattr(paths, "only_member", lambda _: os.geteuid())
    ledger = Ledger(path, 3, create=True)
    entries = (1, 7, 2**32 - 1), (2, 7, MEMBER), (4, 5, 2**32 - 1), (16, 7, 2**32 - 1), (32, 5, 2**32 - 1)
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path.parent, paths.ACCESS_LIST, packed)
    except (OSError, AttributeError):
        pytest.skip("no access lists here")
    refused(ledger, f"an access list lets others write to {path.parent} .*setfacl -b")


def test_a_ledger_that_others_may_write(path, monkeypatch) -> None:
    monkeypatch.setattr(paths, "only_member", lambda _: None)
    ledger = Ledger(path, 3, create=True)
    path.chmod(0o666)
    refused(ledger, f"everybody may write to {path} .*chmod o-w")
    path.chmod(0o660)
    refused(ledger, f"the group .* may write to {path} .*chmod g-w")
    path.chmod(0o644)
    ledger.spend(ONE)


def test_what_names_a_group(path) -> None:
    with pytest.raises(ParameterError, match="shared_with must be a group of this system, got 'no such group'"):
        Ledger(path, 1, create=True, shared_with="no such group")
    for number in (-1, 2**32 - 1):
        with pytest.raises(ParameterError, match="shared_with must be a group's number, 0 to"):
            Ledger(path, 1, create=True, shared_with=number)
    for other in (True, 1.5, b"lab"):
        with pytest.raises(DTypeError, match="shared_with must be a group's name or number, not"):
            Ledger(path, 1, create=True, shared_with=other)
    own = os.getegid()
    ledger = Ledger(path, 1, create=True, shared_with=own)
    for each in (path, beside(ledger, ".lock")):
        assert (each.stat().st_gid, stat.S_IMODE(each.stat().st_mode)) == (own, 0o660)
    with contextlib.suppress(KeyError):  # a number alone
        assert Ledger(path, shared_with=grp.getgrgid(own).gr_name).budget == Guarantee(1)


# ------------------------------------------------------------------ files beside it


@pytest.mark.parametrize("end", BESIDE)
@pytest.mark.parametrize("kind", ["link", "folder", "two names", "another user"])
def test_a_file_beside_it_that_is_not_its_own(charged, kind, end) -> None:
    ledger, journal = charged
    name, elsewhere = beside(ledger, end), ledger.path.with_name("elsewhere")
    elsewhere.write_bytes(journal)
    if end == ".lock":
        name.unlink()
    if kind == "link":
        name.symlink_to(elsewhere)
    elif kind == "folder":
        name.mkdir()
    elif kind == "two names":
        name.hardlink_to(elsewhere)
    elif os.geteuid() == 0:
        elsewhere.rename(name)
        os.chown(name, NOBODY, NOBODY)
    else:
        pytest.skip("only root makes files for others")
    if end == ".lock" and kind in ("link", "folder"):
        with pytest.raises(LedgerError, match="cannot lock"):
            ledger.spend(ONE)
        return
    said = r"belongs to another user \(65534\).*`dpfast ledger verify .*`" if kind == "another user" else "is a link"
    refused(ledger, f"{name} {said}")
    assert ledger.spent.epsilon == 2


def test_ones_own_journal_is_rolled_back(charged) -> None:
    """As after a crash: the charge that was not finished is undone."""
    ledger, journal = charged
    plant(beside(ledger, "-journal"), journal)
    assert Ledger(ledger.path).spent.epsilon == 0
    assert not beside(ledger, "-journal").exists()


@root_alone
def test_what_is_planted_at_any_moment_undoes_no_charge(charged) -> None:
    """Another user puts a journal there again and again, while the ledger is read and charged."""
    ledger, journal = charged
    ledger.path.parent.chmod(0o1777)
    name, before = beside(ledger, "-journal"), ledger.path.read_bytes()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(NOBODY)
        while True:
            plant(name, journal)
            name.unlink(missing_ok=True)
    try:
        while not name.exists():
            pass
        for _ in range(ROUNDS):
            with contextlib.suppress(LedgerError):  # one that is written again and again
                assert ledger.spent.epsilon == 2
            with pytest.raises(LedgerError, match="not charged"):
                ledger.spend(ONE)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert ledger.path.read_bytes() == before
    name.unlink(missing_ok=True)  # it has two names if the child was killed while it planted
    plant(name, journal)
    os.chown(name, NOBODY, NOBODY)
    ledger.path.parent.chmod(0o700)  # too late for this one
    refused(ledger, f"{name} belongs to another user")
    name.unlink()
    assert ledger.spent.epsilon == 2


# ------------------------------------------------------------------ users


@root_alone
def test_root_charges_for_the_owner(charged) -> None:
    """As root does in a container whose folder belongs to a user of the host."""
    ledger, journal = charged
    ledger = ledger.copy(ledger.path.with_name("owners.db"))
    for each in (ledger.path.parent, ledger.path, beside(ledger, ".lock")):
        os.chown(each, MEMBER, MEMBER)
    beside(ledger, ".lock").unlink()
    with pytest.raises(dpfast.errors.BudgetExhausted):
        ledger.spend(ONE)
    assert beside(ledger, ".lock").stat().st_uid == MEMBER
    assert as_user(MEMBER, lambda: Ledger(ledger.path).spent.epsilon) == "2"
    plant(beside(ledger, "-journal"), journal)
    os.chown(beside(ledger, "-journal"), NOBODY, NOBODY)
    refused(ledger, "belongs to another user")
    with pytest.raises(LedgerError, match=rf"{ledger.path.parent} belongs to another user \(1000\)"):
        Ledger(ledger.path.with_name("roots.db"), 1, create=True)  # which the folder's owner could replace


@root_alone
def test_somebody_elses_ledger_is_read_and_nothing_is_rolled_back(charged) -> None:
    """By who may not write there, with an unfinished charge beside it, and with no lock."""
    ledger, journal = charged
    ledger.path.parent.chmod(0o755)
    ledger.path.chmod(0o644)
    plant(beside(ledger, "-journal"), journal)
    for lock_is_there in (True, False):
        if not lock_is_there:
            beside(ledger, ".lock").unlink()
        assert as_user(NOBODY, lambda: Ledger(ledger.path).verify()) == "2"
        said = as_user(NOBODY, lambda: Ledger(ledger.path).spend(ONE))
        assert f"not charged: this account may not write to {ledger.path} (chmod u+w" in said
        os.chown(ledger.path, MEMBER, MEMBER)
        said = as_user(NOBODY, lambda: Ledger(ledger.path).spend(ONE))
        assert said.startswith("LedgerError: ")
        assert f"{ledger.path} belongs to another user (1000)" in said
        os.chown(ledger.path, 0, 0)
    assert beside(ledger, "-journal").read_bytes() == journal
    assert not beside(ledger, ".lock").exists()
    ledger.path.chmod(0o600)
    assert "Permission denied; nothing was released" in as_user(NOBODY, lambda: Ledger(ledger.path))
    torn = bytearray(ledger.path.read_bytes())
    torn[-400:] = bytes(400)
    ledger.path.write_bytes(torn)
    ledger.path.chmod(0o644)
    said = as_user(NOBODY, lambda: Ledger(ledger.path).history())
    assert "damaged" in said
    assert f"{ledger.path}-journal is there: a charge was not finished" in said


@root_alone
@pytest.mark.parametrize("mode", [0o2770, 0o3770])
def test_a_group_shares_a_ledger(path, mode) -> None:
    """Each member charges it. The others are told how one undoes what a crash of theirs left."""
    os.chown(path.parent, 0, GROUP)
    path.parent.chmod(mode)

    def member(user: int, work: Callable[[], object]) -> str:
        return as_user(user, work, GROUP)

    def charged() -> object:
        ledger = Ledger(path, shared_with=GROUP)
        ledger.spend(ONE)
        return ledger.spent.epsilon

    assert "epsilon 3" in member(MEMBER, lambda: Ledger(path, 3, create=True, shared_with=GROUP))
    before = path.read_bytes()
    assert member(NOBODY, charged) == "1"
    beside_it = Path(f"{path}-journal")
    plant(beside_it, journal_of(before))
    os.chown(beside_it, NOBODY, GROUP)
    said = member(MEMBER, charged)
    assert said.startswith("LedgerError")
    line = f"dpfast ledger verify {path} --shared-with {GROUP}"
    assert f"`{line}`, run by them, undoes what they had not finished" in said
    assert member(MEMBER, lambda: Ledger(path, shared_with=GROUP).spent.epsilon) == "1"  # on a copy
    assert member(NOBODY, lambda: main(line.split()[1:])) == "0"
    assert not beside_it.exists()
    assert member(MEMBER, charged) == "1"
    assert member(NOBODY, charged) == "2"
    Path(f"{path}.lock").unlink()
    assert "has no lock: its owner makes one by `dpfast ledger verify" in member(NOBODY, charged)
    assert member(MEMBER, charged) == "3"
    assert "may be read and not charged" in member(MEMBER, lambda: Ledger(path).spend(ONE))
    assert Path(f"{path}.lock").stat().st_gid == GROUP


# ------------------------------------------------------------------ mounts


@root_alone
@pytest.mark.parametrize("read_only", [False, True])
def test_mounts(charged, read_only) -> None:
    ledger, _ = charged
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("no mounts of one's own here")
    place = ledger.path.parent
    (place / "own").mkdir()
    (place / "there").mkdir()
    made = ledger.copy(place / "own" / "budget.db").path
    code = (
        "import dpfast, sys; ledger = dpfast.Ledger(sys.argv[1]); print(ledger.spent.epsilon, ledger.verify());"
        "ledger.spend(dpfast.Guarantee(1))"
    )
    mounts = 'mount --bind "$1" "$2"' + (' && mount -o remount,ro,bind "$2"' if read_only else "")
    script = f'{mounts} && exec "$3" -c "$4" "$2/budget.db"'
    command = ["unshare", "-m", "sh", "-c", script, "", made.parent, place / "there", sys.executable, code]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount: " in found.stderr:
        pytest.skip("no mounts of one's own here")
    assert found.stdout == "2 2\n"
    said = "may not write to" if read_only else "1 is asked for and 0 is left"
    assert said in found.stderr


# ------------------------------------------------------------------ the command line


def test_the_group_on_the_command_line(path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(paths, "only_member", lambda _: None)
    group = path.parent.stat().st_gid
    path.parent.chmod(0o770)
    table, out = path.with_name("in.csv"), path.with_name("out.csv")
    table.write_text("ward,count\na,1\nb,2\n")
    noise = ["--column", "count", "--epsilon", "1", "--sensitivity", "1", "--quiet"]
    release = ["privatize", str(table), str(out), *noise, "--ledger", str(path)]
    assert main(["ledger", "create", str(path), "--epsilon", "3"]) == 1
    assert "--shared-with" in capsys.readouterr().err
    assert main(["ledger", "create", str(path), "--epsilon", "3", "--shared-with", str(group)]) == 0
    assert main(release) == 1
    assert "may be read and not charged" in capsys.readouterr().err
    assert not out.exists()
    assert main([*release, "--shared-with", str(group)]) == 0
    rows, domain = path.with_name("rows.csv"), path.with_name("domain.csv")
    rows.write_text("person,ward\nann,a\nbob,b\n")
    domain.write_text("ward\na\nb\n")
    counted = ["histogram", str(rows), str(path.with_name("counts.csv")), "--by", "ward", "--unit", "person", "--quiet"]
    counted += ["--domain", str(domain), "--max-contributions", "1", "--epsilon", "1"]
    shared = ["--shared-with", str(group)]
    for command in ([*release[:-2], "--force"], counted):
        assert main([*command, *shared]) == 2
        assert "--shared-with must come with --ledger" in capsys.readouterr().err
    assert main([*counted, "--ledger", str(path), *shared]) == 0
    assert Ledger(path).spent.epsilon == 2
