# SPDX-License-Identifier: Apache-2.0
"""Where a ledger lies: who but the account may undo its charges, or put another ledger there.

SQLite rolls a file FILE-journal back into FILE, whoever made it, and takes pages from FILE-wal. It
looks for them at each transaction, so a look beforehand closes nothing. What does is a folder to
which nobody else may add a file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dpfast.errors import LedgerError
from dpfast.paths import open_to_others, written_by_others
from dpfast.system import must_have_owners

BESIDE = "-journal", "-wal", "-shm", ".lock"
ADVICE = (
    ". Whoever may add a file beside a ledger can undo its charges: keep it in a folder of its own (mkdir -m 700), or name "
    "the group that shares it (shared_with=, --shared-with)"
)


def check_system() -> None:
    """Raises: UnsupportedError (no ledger can be kept from others on this system)."""
    must_have_owners("Ledger", "dpfast.compose(…) adds up what releases guarantee")


def account() -> frozenset[int]:
    """Who charges, and root, who may do anything."""
    return frozenset({os.geteuid(), 0})


def whose(ledger: Path, group: int | None) -> frozenset[int]:
    """Whose files a ledger and what lies beside it may be. group: the one that shares it.

    Root charges for a ledger's owner, and a group's members for the member who made it. Both could
    be overruled by the owner in any case. Raises: OSError.
    """
    about = ledger.stat()
    also_owner = os.geteuid() == 0 or about.st_gid == group
    return account() | ({about.st_uid} if also_owner else set())


def check_folder(path: Path, group: int | None) -> None:
    """Raises: LedgerError (a ledger at this path could not be charged); OSError."""
    if found := open_to_others(path.parent, account(), group):
        raise LedgerError(f"cannot make a ledger at {path}: {found}{ADVICE}")


def others(path: Path, ledger: Path, group: int | None) -> str | None:
    """Who else may change a ledger or what lies beside it, in words; None: nobody.

    path: as it was given. ledger: without links. Raises: LedgerError.
    """
    try:
        trusted = whose(ledger, group)
        found = open_to_others(path, trusted, group)
        found = found or written_by_others(ledger, ledger.stat(), trusted, group)
    except OSError as error:
        raise LedgerError(f"{path}: {error.strerror}; nothing was released") from None
    return found and f"{found}{ADVICE}"


def closed(ledger: Path) -> str | None:
    """What the account may not write to, in words; None: nothing keeps it from a charge."""
    for each in (ledger, ledger.parent):
        if not os.access(each, os.W_OK, effective_ids=True):
            return f"this account may not write to {each} (chmod u+w {each}, if it is yours)"
    return None


def cannot_wait(ledger: Path) -> bool:
    """Whether who may not write cannot take turns: no lock to hold, or a journal to roll back."""
    lock_is_there = os.access(f"{ledger}.lock", os.R_OK, effective_ids=True)
    return not lock_is_there or os.path.lexists(f"{ledger}-journal")


def foreign(ledger: Path, group: int | None) -> str | None:
    """A file beside a ledger that is not its own, in words, with what to do; None: none."""
    trusted = whose(ledger, group)
    for end in BESIDE:
        name = f"{ledger}{end}"
        try:
            about = os.lstat(name)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            return f"{name} is a link, or no plain file: move it away"
        if about.st_uid not in trusted:
            line = f"dpfast ledger verify {ledger}" + ("" if group is None else f" --shared-with {group}")
            return (
                f"{name} belongs to another user ({about.st_uid}): if they charge this ledger, and were cut off, "
                f"`{line}`, run by them, undoes what they had not finished; if not, move the file away"
            )
    return None
