# SPDX-License-Identifier: Apache-2.0
"""Who else may change where a path leads to.

Whoever may write to a folder may put another file in the place of any file in it, whatever the mode
of that file, and may rename a folder that lies in it. A sticky folder, such as /tmp, lets only the
owner of an entry rename it. It lets everybody add entries.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path

MOST_LINKS = 40  # on one path, as Linux has it
ACCESS_LIST = "system.posix_acl_access"  # the attribute that Linux keeps it in


def open_to_others(path: Path, trusted: Container[int], group: int | None = None) -> str | None:
    """Who else may add a file to a folder, or put another in its place, in words; None: nobody.

    path: a folder, or a file in it. trusted: ids of users. group: of a group that may, too.
    The folders above it, and links that lead to it, are looked at from the root of the file system
    on. So what was found of a step holds while nobody else may change the steps before it.
    Not looked at: the file itself, access lists other than POSIX's, privileges of processes.
    Raises: OSError (it is not there, or cannot be looked at).
    """
    real = os.path.realpath(path)
    folder = real if os.path.isdir(real) else os.path.dirname(real)  # noqa: PTH112, PTH120
    for name, about in _steps(path):
        kind = about.st_mode
        settled = stat.S_ISLNK(kind) or (kind & stat.S_ISVTX and name != folder)  # by its owner alone
        if stat.S_ISREG(kind) or (settled and about.st_uid in trusted):
            continue
        if found := written_by_others(name, about, trusted, group):
            return found
    return None


def written_by_others(
    name: str | Path, about: os.stat_result, trusted: Container[int], group: int | None = None
) -> str | None:
    """Who else may write to a file or a folder, in words, by its owner, mode and access list."""
    if about.st_uid not in trusted:
        return f"{name} belongs to another user ({about.st_uid})"
    if about.st_mode & stat.S_IWOTH:
        sticky = about.st_mode & stat.S_ISVTX
        return f"everybody may write to {name}" + (", though it is sticky" if sticky else f" (chmod o-w {name})")
    if about.st_mode & stat.S_IWGRP:
        if _has_access_list(name):  # its mask stands where the group's bits do
            return f"an access list lets others write to {name} (setfacl -b {name})"
        if about.st_gid != group and only_member(about.st_gid) not in trusted:
            return f"the group {about.st_gid} may write to {name} (chmod g-w {name})"
    return None


def only_member(group: int) -> int | None:
    """The user who is alone in a group of the same name, as many systems give each user one.

    Other groups are none of these: lists of members need not be complete.
    """
    import grp
    import pwd

    try:
        found = grp.getgrgid(group)
        owner = pwd.getpwnam(found.gr_name)
    except KeyError:
        return None
    alone = owner.pw_gid == group and {owner.pw_name} >= set(found.gr_mem)
    others = (each for each in pwd.getpwall() if each.pw_gid == group and each.pw_uid != owner.pw_uid)
    return owner.pw_uid if alone and next(others, None) is None else None


def _steps(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """All folders and links on the way to a path, from the root on, and what it leads to."""
    at, links = "/", 0
    yield at, os.lstat(at)
    todo = os.path.abspath(path).split("/")[::-1]  # noqa: PTH100  it resolves no links
    while todo:
        name = todo.pop()
        if name == "..":
            at = os.path.dirname(at)  # noqa: PTH120  which holds no link
        if name in ("", ".", ".."):
            continue
        step = os.path.join(at, name)  # noqa: PTH118
        about = os.lstat(step)
        yield step, about
        if not stat.S_ISLNK(about.st_mode):
            at = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = os.readlink(step)  # noqa: PTH115
        at = "/" if target.startswith("/") else at
        todo += target.split("/")[::-1]


def _has_access_list(name: str | Path) -> bool:
    try:
        return bool(os.getxattr(name, ACCESS_LIST))
    except (OSError, AttributeError):  # none, or a system without
        return False
