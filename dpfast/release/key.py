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
import threading
import warnings
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from blake3 import blake3

from dpfast.errors import DTypeError, EntropyError, InsecureKeyWarning, KeyReuseError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

# One for all records, held for microseconds; a fork waits for it, or the child might find it held for ever.
_recording = threading.RLock()
os.register_at_fork(before=_recording.acquire, after_in_parent=_recording.release, after_in_child=_recording.release)

LENGTH = 32
LAST_DRAW = 2**63


def encode(*fields: bytes | str | int) -> bytes:
    """A canonical encoding: each field behind its length, so that no two lists of fields meet."""
    parts = [field if isinstance(field, bytes) else str(field).encode() for field in fields]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def keyed(secret: bytes, purpose: str, data: bytes = b"") -> bytes:
    return blake2b(data, key=secret, digest_size=LENGTH, person=purpose.encode()).digest()


class _Secret:
    """32 secret bytes that show a fingerprint only. Python cannot wipe them; see docs/threat_model.md."""

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
    """What may be known of a part: where it lies, and hashes that say what is the same and nothing of key or counts."""

    release: bytes  # of the key, the law and its parameters
    stream: bytes  # of all that the stream key depends on
    begin: int  # its first draw
    end: int


class ReleaseKey(_Secret):
    """The key of one release of one input, in parts if need be. Pickles, without its record of parts."""

    __slots__ = ("_parts", "label")
    secure: ClassVar[bool] = True

    def __init__(self, secret: bytes, label: str) -> None:
        super().__init__(secret)
        self.label = label
        self._parts: list[tuple[int, int, bytes]] = []  # disjoint, in order: first draw, end, stream key

    def name(self, version: int, law: Iterable[str | int], part: PartDigest) -> PartName:
        """The name of a part, which does not yet go on record. Raises: KeyReuseError, as stream_key would."""
        release, begin, end = encode(version, self.label, *law), part.start, part.start + part.size
        stream = release + encode(part.digest())
        with _recording:
            self._place(begin, end, keyed(self._secret, "stream key", stream))
        names = keyed(self._secret, "release name", release), keyed(self._secret, "part name", stream)
        return PartName(*names, begin, end)

    def stream_key(self, version: int, law: Iterable[str | int], part: PartDigest) -> bytes | None:
        """The 32 bytes that the cipher gets for one part, once the part is on record. None would stand for fresh ones.

        Raises: KeyReuseError if the part overlaps an earlier one without being the same release of it.
        """
        stream_key = keyed(self._secret, "stream key", encode(version, self.label, *law, part.digest()))
        with _recording:
            self._record(part.start, part.start + part.size, stream_key)
        if not self.secure:
            warnings.warn(
                "a release under a fixed key: reproducible, for tests only, private to nobody",
                InsecureKeyWarning,
                stacklevel=4,
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

    def part(self, shape: tuple[int, ...], size: int, start: int, *, unsigned: bool, threads: int) -> PartDigest:
        return PartDigest(self._secret, shape, size, start, unsigned=unsigned, threads=threads)

    def __repr__(self) -> str:
        return f"<dpfast.ReleaseKey {self.label!r} {self.fingerprint}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._secret, self.label)


class PartDigest:
    """A keyed digest of one part: shape, start, and the values in C order, eight bytes each, little-endian.

    unsigned: some value is 2^63 or more, so that the bytes do not mean a negative number.
    """

    def __init__(
        self, secret: bytes, shape: tuple[int, ...], size: int, start: int, *, unsigned: bool, threads: int
    ) -> None:
        if not 0 <= start <= LAST_DRAW - size:
            raise ParameterError(f"start must lie between 0 and 2**63 less the size of counts, got {start}")
        self.size, self.start = size, start
        self._hash = blake3(key=keyed(secret, "part digest"), max_threads=threads)
        self._hash.update(encode(int(unsigned), start, *shape))

    def update(self, values: memoryview) -> None:
        self._hash.update(values)

    def digest(self) -> bytes:
        return self._hash.digest(length=LENGTH)
