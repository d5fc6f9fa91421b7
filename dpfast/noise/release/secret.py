# SPDX-License-Identifier: Apache-2.0
"""What is secret of a sealed release: bytes that no copy shows, and what is derived from them.

keyed is the one pseudo-random function. A secret with a label is what a seal needs of a release
key; key.py says who may derive one, and what else it can do.
"""

from __future__ import annotations

import hmac
import os
import stat
import string
import struct
import threading
import warnings
import weakref
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from dpfast.errors import DTypeError, FileError, InsecureKeyWarning, ParameterError, caller
from dpfast.system import at_fork, must_have_owners, open_private

LENGTH = 32
ID_LENGTH = 16
TEXT = string.printable.encode()
Terms: TypeAlias = tuple[tuple[str, str], ...]  # what a manifest names beside its columns
How: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]  # what makes a part again, as pickle calls it
_length = struct.Struct("<Q").pack


class _Reference(weakref.ref["Secret"]):
    """Equal to none but itself: two secrets that are equal are blanked both."""

    __slots__ = ()
    __eq__, __hash__ = object.__eq__, object.__hash__


# All secrets of this process, which a forked child finds blank; a fork waits for the lock.
_secrets: set[_Reference] = set()
lock = threading.RLock()


def _blank() -> None:
    try:
        for reference in list(_secrets):
            if (secret := reference()) is not None:
                secret._blank()  # noqa: SLF001
    finally:
        lock.release()


at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=_blank)


def encode(*fields: bytes | str | int) -> bytes:
    """A canonical encoding: each field behind its length, so that no two lists of fields meet.

    A text of any class is its characters, by which texts are equal: not what the class prints.
    """
    pieces: list[bytes] = []
    for field in fields:
        part = field if type(field) is bytes else str.encode(field if isinstance(field, str) else str(field))
        pieces.append(_length(len(part)) + part)
    return b"".join(pieces)


encode_public = lru_cache(maxsize=256)(encode)  # remembered: texts and integers, which come again and again


def keyed(secret: bytes | bytearray, purpose: str, data: bytes = b"") -> bytes:
    """A pseudo-random function of (purpose, data): at most 16 letters, and whatever bytes."""
    return blake2b(data, key=secret, digest_size=LENGTH, person=purpose.encode()).digest()


def guessable(secret: bytes) -> str | None:
    """What 32 bytes are, in words, if nobody drew them: random bytes are so once in 10^13 keys."""
    if not secret.strip(secret[:1]):
        return f"{len(secret)} equal bytes, such as a crash or a restored backup leaves"
    return "all text, such as a password" if not secret.strip(TEXT) else None


def warn_insecure(what: str) -> None:
    warnings.warn(
        f"{what} under a fixed key: reproducible, for tests only, private to nobody",
        InsecureKeyWarning,
        stacklevel=caller(),
    )


class Secret:
    """32 secret bytes, shown by their id; blank in a forked child, and never pickled.

    Python cannot wipe all copies of them: docs/threat_model.md.
    """

    __slots__ = ("__weakref__", "_held", "id")

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes):
            raise DTypeError(f"secret must be bytes, not {type(secret).__name__}")
        if len(secret) != LENGTH:
            raise ParameterError(f"secret must be {LENGTH} bytes, got {len(secret)}")
        if known := guessable(secret):
            raise ParameterError(f"secret must be drawn at random, and it is {known}: dpfast.random_bytes({LENGTH})")
        self.id = keyed(secret, "key id")[:ID_LENGTH].hex()  # tells keys apart, and nothing of the secret
        with lock:
            self._held = bytearray(secret)
            _secrets.add(_Reference(self, _secrets.discard))

    __init__.__qualname__ = "Key"  # as users call it, for errors of Python's own

    def _blank(self) -> None:
        """Wipe the secret, in place: where a thread hashes under it, it cannot be resized."""
        self._held[:] = bytes(len(self._held))
        self._held = bytearray()

    def _keyed(self, purpose: str, data: bytes = b"") -> bytes:
        if not self._held:
            raise ParameterError(
                "key is blank here, because no key survives a fork: give the child what it may do, such as key.digester(…), "
                "a sealed key or the path of a KeyFile"
            )
        return keyed(self._held, purpose, data)

    def _revealed(self) -> bytes:
        """The secret itself. Raises: ParameterError (a key that a fork has blanked)."""
        self._keyed("key id")
        return bytes(self._held)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and bool(self._held) and hmac.compare_digest(self._held, other._held)

    def __hash__(self) -> int:
        return hash((type(self), self.id))

    def __reduce__(self) -> str:
        raise TypeError(
            f"a {type(self).__name__} is not pickled: send key.digester(…) or a sealed key, which can do one thing each, or "
            "keep the secret in a KeyFile"
        )


class Labelled(Secret):
    """A secret for one label, and the file where a worker finds it again."""

    __slots__ = ("label", "place", "terms")
    secure: ClassVar[bool] = True

    def __init__(self, secret: bytes, label: str, place: Path | None = None, terms: Terms | None = None) -> None:
        """terms: of the seal, all that are known before the values are; None if none is."""
        super().__init__(secret)
        self.label, self.place, self.terms = str.__str__(label), place, terms


def derived(master: Secret, label: str) -> bytes:
    """The secret of a label. Raises: ParameterError (no text, or an empty one; a blank master)."""
    if not isinstance(label, str) or not label:
        raise ParameterError("label must be a non-empty string that names one release")
    try:
        encoded = label.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"label must be text that UTF-8 can hold, got {label!r:.40}") from None
    return master._keyed("release key", encoded)  # noqa: SLF001


class Part:
    """What can do one thing of a release key. It pickles.

    One of a KeyFile pickles as the file's path and the key's id; another with its secret.
    how: what makes it again from the file.
    """

    __slots__ = ("_how", "_secret", "id")

    def __init__(self, secret: bytes, key: str, how: How | None) -> None:
        self._secret, self.id, self._how = secret, key, how

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self._how is None else self._how


def check_system(asked: str) -> None:
    """Raises: UnsupportedError (no key file can be kept from others on this system)."""
    must_have_owners(asked, "dpfast.Key.from_bytes(secret) takes 32 bytes that you keep as you keep the data")


def read(file: Path) -> bytes:
    """The secret in a key file. Raises: UnsupportedError, FileError."""
    check_system("KeyFile")
    try:
        handle = open_private(file)
    except FileNotFoundError:
        raise FileError(
            f"the key file {file} does not exist: `dpfast key create {file}` makes one, for a new release"
        ) from None
    except OSError as error:
        raise FileError(f"cannot read the key file {file}: {error.strerror}") from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise FileError(f"the key file {file} is not a regular file")
        if about.st_uid not in (os.geteuid(), 0):
            raise FileError(f"the key file {file} belongs to another user, who may read it")
        if about.st_mode & 0o077:
            raise FileError(
                f"others may read or write the key file {file}: chmod 600 closes it, if nobody has read it yet"
            )
        secret = os.read(handle, LENGTH + 1)
    finally:
        os.close(handle)
    if len(secret) != LENGTH:
        raise FileError(f"the key file {file} must contain {LENGTH} bytes, but contains {about.st_size}")
    if known := guessable(secret):
        raise FileError(
            f"the key file {file} must contain bytes that were drawn at random, but contains {known}: `dpfast key create` makes one"
        )
    return secret


def read_again(place: Path, label: str, key_id: str) -> Labelled:
    """The secret of a label, on a worker. Raises: FileError (no file, or another key in it)."""
    found = Labelled(derived(Secret(read(place)), label), label, place)
    if found.id != key_id:
        raise FileError(f"the key file {place} holds another key than the one that {label!r} was sealed with")
    return found
