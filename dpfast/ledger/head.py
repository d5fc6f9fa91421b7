# SPDX-License-Identifier: Apache-2.0
"""What releases under a key file last saw of a ledger, in a file beside it: KEY.head.

A ledger that was restored from a copy is whole, and lacks charges. Nothing in it tells. The head
does, unless it was restored, too. It has a MAC under the key, is written after the charge, and is
never replaced by an older one: processes take turns by a lock on the key file.
"""

from __future__ import annotations

import hmac
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from dpfast.errors import FileError, LedgerError, caller
from dpfast.noise.release.key import KeyFile
from dpfast.noise.release.secret import Labelled, encode
from dpfast.paths import make
from dpfast.system import lock, open_private

KEPT = 32  # heads a ledger: the last one that a restored copy has tells how much it lacks at most
LONGEST = 2**26  # bytes; heads of a ledger take 0.4 MB at most, for a sum has at most 4,096 letters (store.exact)

_silent: set[Path] = set()  # where it was said that no head can be written


class Head(NamedTuple):
    """A charge that was seen: its number, its digest, and all that was spent with it.

    And the tag that was seen last: how many there were, and its digest. Steps of running totals
    reserve tags, and charge nothing.
    """

    number: int
    digest: bytes
    spent: tuple[Fraction, ...]
    tags: int = 0
    tag: bytes = b""

    @property
    def place(self) -> tuple[int, int]:
        """Which of two heads of a ledger is the later one."""
        return self.number, self.tags


def name_of(place: Path) -> Path:
    """The head's file, beside the key file whatever link leads there."""
    return Path(f"{os.path.realpath(place)}.head")


def heads(key: KeyFile, ledger: bytes) -> tuple[Head, ...]:
    """What was seen of a ledger, the last one last.

    Raises: LedgerError (it was not written under this key).
    """
    found = known(key)
    seen = [
        Head(number, bytes.fromhex(digest), tuple(map(Fraction, spent)))
        for number, digest, spent in found.get(ledger.hex(), ())
    ]
    return (*seen[:-1], seen[-1]._replace(**_tags(found, ledger))) if seen else ()


def seen(key: Labelled, ledger: bytes) -> Head | None:
    """The last one, for a release key of a key file that is still there. Raises: LedgerError."""
    if key.place is None:
        return None
    try:
        found = heads(KeyFile(key.place), ledger)
    except FileError:
        return None
    return found[-1] if found else None


def note(place: Path, ledger: bytes, head: Head, *, anew: bool = False) -> None:
    """Write down what was seen of a ledger. anew: in place of all that was seen before.

    Where nothing can be written, it is said once, and nothing more is done: the charge stands.
    """
    try:
        key = KeyFile(place)
        with key.path.open("rb") as turn:
            lock(turn, wait=True)
            found = known(key)
            charges = [] if anew else [*found.get(ledger.hex(), ())]
            if not charges or (charges[-1][0], _tags(found, ledger)["tags"]) < head.place:
                if not charges or charges[-1][0] < head.number:
                    charges.append([head.number, head.digest.hex(), [*map(str, head.spent)]])
                tags = {f"{ledger.hex()} tags": [head.tags, head.tag.hex()]}
                _write(key, {**found, ledger.hex(): charges[-KEPT:], **tags})
    except (OSError, FileError) as error:
        if place not in _silent:
            _silent.add(place)
            why = error.strerror if isinstance(error, OSError) else error
            warnings.warn(
                f"{name_of(place)} cannot be written ({why}): a ledger that is restored from a copy is not noticed",
                stacklevel=caller(),
            )


def _tags(found: Mapping[str, Sequence[Any]], ledger: bytes) -> dict[str, Any]:
    """What was seen of a ledger's tags, in an entry of its own: earlier versions read the other."""
    tags, digest = found.get(f"{ledger.hex()} tags", (0, ""))
    return {"tags": tags, "tag": bytes.fromhex(digest)}


def known(key: KeyFile) -> dict[str, Sequence[Any]]:
    """What was seen of each ledger, as it is written down. Raises: LedgerError."""
    name = name_of(key.path)
    try:
        with open(open_private(name, follow=False), "rb") as file:  # noqa: PTH123
            written = file.read(LONGEST)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LedgerError(f"cannot read {name}: {error.strerror}; nothing was released") from None
    whose, _, signed = written.partition(b"\n")
    if len(whose) == len(key.id) and whose != key.id.encode():
        return {}  # a key that was in this file before
    mac, _, content = signed.partition(b"\n")
    if not hmac.compare_digest(mac, _mac(key, content)):
        raise LedgerError(
            f"{name} was not written under this key, or is damaged: move it away, if you know that the ledger was not "
            "restored from a copy; nothing was released"
        )
    found: dict[str, Sequence[Any]] = json.loads(content)
    return found


def _write(key: KeyFile, found: dict[str, Sequence[Any]]) -> None:
    name, content = name_of(key.path), json.dumps(found).encode()
    written = b"\n".join((key.id.encode(), _mac(key, content), content))
    if len(written) > LONGEST:  # nobody would read it whole
        raise FileError("it holds too many ledgers")
    made = name.with_name(f"{name.name}.new")
    made.unlink(missing_ok=True)  # what a killed process left: writers take turns
    try:
        make(made, written)
        made.replace(name)
    finally:
        made.unlink(missing_ok=True)


def _mac(key: KeyFile, content: bytes) -> bytes:
    return key._keyed("ledger heads", encode(content)).hex().encode()  # noqa: SLF001  of a key that is not derived
