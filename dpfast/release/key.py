# SPDX-License-Identifier: Apache-2.0
"""Release keys: for work that many workers share and that may be retried.

A key names one release of one input. The stream key of a part is a keyed hash of all that
the release depends on, so an equal part gets equal noise (the retried task), and anything
else, a changed count included, gets independent noise and never an exact difference.
"""

from __future__ import annotations

import bisect
import hmac
import os
import secrets
import sys
import threading
import warnings
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from blake3 import blake3

from dpfast.errors import DTypeError, EntropyError, InsecureKeyWarning, KeyReuseError, ParameterError
from dpfast.release.arrays import plain_runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

# One lock for all records, held for microseconds; a fork waits, or the child could find it held.
_recording = threading.RLock()
os.register_at_fork(before=_recording.acquire, after_in_parent=_recording.release, after_in_child=_recording.release)

LENGTH = 32
LAST_DRAW = 2**63


def encode(*fields: bytes | str | int) -> bytes:
    """A canonical encoding: each field behind its length, so that no two lists of fields meet."""
    found = b""
    for field in fields:
        part = field if isinstance(field, bytes) else str(field).encode()
        found += len(part).to_bytes(8, "little") + part
    return found


def keyed(secret: bytes, purpose: str, data: bytes = b"") -> bytes:
    return blake2b(data, key=secret, digest_size=LENGTH, person=purpose.encode()).digest()


def _caller() -> int:
    """The level, for a warning of who asks, of the nearest function outside dpfast."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001  public in all but its name
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("dpfast."):
        level, frame = level + 1, frame.f_back
    return level


class _Secret:
    """32 secret bytes, shown as a fingerprint. Python cannot wipe them: docs/threat_model.md."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes):
            raise DTypeError(f"secret must be bytes, not {type(secret).__name__}")
        if len(secret) != LENGTH:
            raise ParameterError(f"secret must be {LENGTH} bytes, got {len(secret)}")
        self._secret = secret

    @property
    def fingerprint(self) -> str:
        return keyed(self._secret, "fingerprint")[:4].hex()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash((type(self), self.fingerprint))


class Key(_Secret):
    """A master secret, from which release keys are derived. No raw key reaches the cipher."""

    __slots__ = ()

    @classmethod
    def generate(cls) -> Key:
        """A fresh key from the operating system. Raises: EntropyError."""
        try:
            return cls(secrets.token_bytes(LENGTH))
        except OSError:
            raise EntropyError("the operating system gave no random key") from None

    @classmethod
    def from_bytes(cls, secret: bytes) -> Key:
        """A key kept elsewhere: 32 bytes that were drawn at random."""
        return cls(secret)

    def __bytes__(self) -> bytes:
        return self._secret

    def derive(self, label: str) -> ReleaseKey:
        """The key of the release named `label`; give each column of each release its own."""
        return ReleaseKey(self._derived(label), label)

    def _derived(self, label: str) -> bytes:
        if not isinstance(label, str) or not label:
            raise ParameterError("label must be a non-empty string that names one release")
        try:
            encoded = label.encode()
        except UnicodeEncodeError:
            raise ParameterError(f"label must be text that UTF-8 can hold, got {label!r:.40}") from None
        return keyed(self._secret, "release key", encoded)

    def __repr__(self) -> str:
        return f"<dpfast.Key {self.fingerprint}>"

    def __reduce__(self) -> str:
        raise TypeError(
            "a master Key is not pickled: derive a release key and send that, or keep bytes(key) in a vault"
        )


class PartName(NamedTuple):
    """What may be known of a part: its place, and hashes that tell equality, not key or counts."""

    release: bytes  # a hash of the key, the law and its parameters
    stream: bytes  # a hash of all that the stream key depends on
    begin: int  # its first draw
    end: int


class Part(NamedTuple):
    """A checked part of a release: what its names and stream key are hashed from, and its place."""

    release: bytes
    stream: bytes
    begin: int
    end: int


class ReleaseKey(_Secret):
    """The key of one release of one input, or of its parts. Pickles without its record of parts."""

    __slots__ = ("_parts", "label")
    secure: ClassVar[bool] = True

    def __init__(self, secret: bytes, label: str) -> None:
        super().__init__(secret)
        self.label = label
        self._parts: list[tuple[int, int, bytes]] = []  # disjoint, in order: first draw, end, stream key

    def part(
        self, version: int, law: Iterable[str | int], values: npt.NDArray[np.number[Any]], start: int, *, threads: int
    ) -> Part:
        """A part of this release, from one pass over its values; not yet on record.

        version: of the stream. law: what else the noise depends on. start: the first draw's number.
        Raises: ParameterError; KeyReuseError (it overlaps an earlier part and does not repeat it).
        """
        if not 0 <= start <= LAST_DRAW - values.size:
            raise ParameterError(f"start must lie between 0 and 2**63 less the size of counts, got {start}")
        unsigned = values.dtype.kind == "u" and values.size > 0 and int(values.max()) >= 2**63
        digest = blake3(key=keyed(self._secret, "part digest"), max_threads=threads)
        digest.update(encode(int(unsigned), start, *values.shape))
        for run in plain_runs(values):
            digest.update(run)
        release = encode(version, self.label, *law)
        part = Part(release, release + encode(digest.digest(length=LENGTH)), start, start + values.size)
        with _recording:
            self._place(part.begin, part.end, keyed(self._secret, "stream key", part.stream))
        return part

    def name(self, part: Part) -> PartName:
        hashes = keyed(self._secret, "release name", part.release), keyed(self._secret, "part name", part.stream)
        return PartName(*hashes, part.begin, part.end)

    def stream_key(self, part: Part) -> bytes:
        """The cipher's 32 bytes for a part, which goes on record. Raises: as `part`."""
        stream_key = keyed(self._secret, "stream key", part.stream)
        with _recording:
            self._record(part.begin, part.end, stream_key)
        if not self.secure:
            warnings.warn(
                "a release under a fixed key: reproducible, for tests only, private to nobody",
                InsecureKeyWarning,
                stacklevel=_caller(),
            )
        return stream_key

    def _record(self, begin: int, end: int, stream_key: bytes) -> None:
        at = self._place(begin, end, stream_key)
        if at is not None:
            self._parts.insert(at, (begin, end, stream_key))

    def _place(self, begin: int, end: int, stream_key: bytes) -> int | None:
        """Where in the record the part belongs; None if it is empty, or there."""
        at = bisect.bisect_left(self._parts, end, key=lambda part: part[0])  # the parts that begin before our end
        if begin == end or (at and self._parts[at - 1] == (begin, end, stream_key)):
            return None
        if at and self._parts[at - 1][1] > begin:
            raise KeyReuseError(
                f"release key {self.label!r}: draws {begin} to {end} overlap an earlier part and are not the same release "
                "of it; a key names one release of one input"
            )
        return at

    def __repr__(self) -> str:
        return f"<dpfast.ReleaseKey {self.label!r} {self.fingerprint}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._secret, self.label)
