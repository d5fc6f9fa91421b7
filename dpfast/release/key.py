# SPDX-License-Identifier: Apache-2.0
"""Keys of sealed releases: one label names one release of one input (docs/sealed.md).

A key makes digests of an input's blocks, a seal of the digests, and from a reserved seal the stream
key of each block, in which the digest of the very values that get the noise takes part.
"""

from __future__ import annotations

import hmac
import math
import os
import secrets
import stat
import string
import struct
import threading
import warnings
import weakref
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from dpfast.errors import DTypeError, EntropyError, FileError, InsecureKeyWarning, ParameterError, caller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpfast.release.seal import BlockDigest, Digester, Seal

LENGTH = 32
ID_LENGTH = 16
TEXT = frozenset(string.printable.encode())
Terms: TypeAlias = tuple[tuple[str, str], ...]  # what a manifest names beside its columns
How: TypeAlias = tuple[Path, str, str, str, tuple[Any, ...], dict[str, Any]]  # file, label, id, a method, its arguments
_length = struct.Struct("<Q").pack

# All secrets of this process, which a forked child finds blank; a fork waits for the lock.
_secrets: weakref.WeakValueDictionary[int, _Secret] = weakref.WeakValueDictionary()
lock = threading.RLock()


def _blank() -> None:
    try:
        for secret in list(_secrets.values()):
            secret._blank()  # noqa: SLF001
    finally:
        lock.release()


os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=_blank)


def encode(*fields: bytes | str | int) -> bytes:
    """A canonical encoding: each field behind its length, so that no two lists of fields meet."""
    pieces: list[bytes] = []
    for field in fields:
        part = field if type(field) is bytes else str(field).encode()
        pieces += _length(len(part)), part
    return b"".join(pieces)


def keyed(secret: bytes | bytearray, purpose: str, data: bytes = b"") -> bytes:
    """A pseudo-random function of (purpose, data): at most 16 letters, and whatever bytes."""
    return blake2b(data, key=secret, digest_size=LENGTH, person=purpose.encode()).digest()


def warn_insecure(what: str) -> None:
    warnings.warn(
        f"{what} under a fixed key: reproducible, for tests only, private to nobody",
        InsecureKeyWarning,
        stacklevel=caller(),
    )


def guessable(secret: bytes) -> str | None:
    """What 32 bytes are, in words, if nobody drew them: random bytes are so once in 10^13 keys."""
    if len(set(secret)) == 1:
        return f"{len(secret)} equal bytes, such as a crash or a restored backup leaves"
    return "all text, such as a password" if not set(secret) - TEXT else None


class _Secret:
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
            _secrets[id(self)] = self

    def _blank(self) -> None:
        """Wipe the secret, in place: where a thread hashes under it, it cannot be resized."""
        self._held[:] = bytes(len(self._held))
        self._held = bytearray()

    def _keyed(self, purpose: str, data: bytes = b"") -> bytes:
        if not self._held:
            raise ParameterError(
                "key is blank here, for no key survives a fork: give the child what it may do, such as key.digester(…), "
                "a sealed key or the path of a KeyFile"
            )
        return keyed(self._held, purpose, data)

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


class _Master(_Secret):
    """A secret from which release keys are derived. No raw key reaches the cipher."""

    __slots__ = ()

    def derive(self, label: str) -> ReleaseKey:
        """The key of the release named `label`: one input, however many columns it has.

        label: public, and never used again for other data, such as "visits 2026-11". A ledger takes
            at most 200 printable characters.
        Raises: ParameterError (no text, or an empty one; a key that a fork has blanked).

        >>> key = dpfast.Key.generate().derive("visits, 2026-11")
        >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
        >>> first = mechanism.release([12, 0, 7], key=key)
        >>> bool((mechanism.release([12, 0, 7], key=key, resume=True) == first).all())
        True
        """
        return ReleaseKey(self._derived(label), label, self._place())

    def _place(self) -> Path | None:
        """The file where a worker finds the secret."""
        return None

    def _derived(self, label: str) -> bytes:
        if not isinstance(label, str) or not label:
            raise ParameterError("label must be a non-empty string that names one release")
        try:
            encoded = label.encode()
        except UnicodeEncodeError:
            raise ParameterError(f"label must be text that UTF-8 can hold, got {label!r:.40}") from None
        return self._keyed("release key", encoded)


class Key(_Master):
    """A master secret in memory, from which release keys are derived.

    For what outlives the process, take a KeyFile, or keep `bytes(key)` as you keep the data. It is
    not pickled, and is blank in a forked child. To derive a key spends nothing: releases do.
    Source: docs/sealed.md.

        >>> key = dpfast.Key.generate().derive("visits 2026-11")
        >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
        >>> noisy = mechanism.release([120, 80, 3], key=key)
        >>> again = mechanism.release([120, 80, 3], key=key, resume=True)
        >>> bool((noisy == again).all())
        True
    """

    __slots__ = ()

    @classmethod
    def generate(cls) -> Key:
        """A fresh key from the operating system. Raises: EntropyError.

        >>> key = dpfast.Key.generate().derive("visits, 2026-11")
        >>> key.label
        'visits, 2026-11'
        """
        return cls(_fresh())

    @classmethod
    def from_bytes(cls, secret: bytes) -> Key:
        """A key kept elsewhere: 32 bytes that were drawn at random. Never a password or a hash.

        Raises: DTypeError (no bytes), ParameterError (another length; equal bytes, or text).

        >>> stored = dpfast.random_bytes(32)
        >>> key = dpfast.Key.from_bytes(stored)
        """
        return cls(secret)

    def __bytes__(self) -> bytes:
        self._keyed("key id")  # refuses a blank key
        return bytes(self._held)

    def __repr__(self) -> str:
        return f"<dpfast.Key {self.id[:8]}>"


class KeyFile(_Master):
    """A master secret in a file: 32 random bytes that its owner alone may read.

    `KeyFile.create`, or `dpfast key create`, makes the file; opening never does. A sealed key that
    is made from it is pickled as the path, the key's id and the root, so that the secret does not
    travel. One file for one release is simplest: it is destroyed with the frozen values.
    path: of the file; it is read once, here.
    Raises: DTypeError, ParameterError; FileError (no file, not a regular one, others may read or
        write it, another length, equal bytes, text).
    Source: docs/sealed.md.

        >>> made = dpfast.KeyFile.create("visits.key")
        >>> dpfast.KeyFile("visits.key").derive("visits 2026-11") == made.derive("visits 2026-11")
        True
    """

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _path(path)
        super().__init__(_read(self.path))

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> KeyFile:
        """Make the file, over nothing that is there; it is on the disk when this returns.

        Raises: DTypeError, ParameterError, EntropyError; FileError (path exists, or cannot be
            written).

        >>> key = dpfast.KeyFile.create("survey.key").derive("visits, 2026-11")
        """
        file, secret = _path(path), _fresh()
        made = file.parent / f".dpfast-{secrets.token_hex(8)}"  # "/" has no name
        try:
            handle = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, secret)
                os.fsync(handle)
                file.hardlink_to(made)  # whole at once, and unlike a rename it never replaces what is there
            finally:
                os.close(handle)
                made.unlink()
            _flush(file.parent)
        except FileExistsError:
            raise FileError(f"{file} exists; a key is never replaced, for what it has sealed would be lost") from None
        except OSError as error:
            raise FileError(f"cannot make the key file {file}: {error.strerror}") from None
        return cls(file)

    def _place(self) -> Path:
        return self.path

    def __repr__(self) -> str:
        return f"<dpfast.KeyFile {str(self.path)!r} {self.id[:8]}>"


class ReleaseKey(_Secret):
    """The key of one release: one label, one input, any number of tries.

    `master.derive(label)` makes it. `mechanism.release(values, key=key)` and `ledger.release` take
    it. For blocks on many machines: `digester`, `seal`, then `ledger.reserve`. It is not pickled,
    and is blank in a forked child. It spends nothing itself. Source: docs/sealed.md.

    >>> key = dpfast.Key.generate().derive("visits, 2026-11")
    >>> noisy = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release([12, 0, 7], key=key)
    """

    __slots__ = ("label", "place", "terms")
    secure: ClassVar[bool] = True

    def __init__(self, secret: bytes, label: str, place: Path | None = None, terms: Terms | None = None) -> None:
        """terms: of the seal, all that are known before the values are; None if none is."""
        super().__init__(secret)
        self.label, self.place, self.terms = label, place, terms

    def _naming(self, terms: Mapping[str, str], *known: Terms) -> ReleaseKey:
        """The same key, whose seal names these terms, too. known: in a manifest's form already."""
        from dpfast.release.seal import joined, named_terms

        self._keyed("key id")  # refuses a blank key
        return type(self)(
            bytes(self._held), self.label, self.place, joined(self.terms or (), named_terms(terms), *known)
        )

    def _file(self, what: str, *given: Any, **named: Any) -> How | None:
        """How a part of the key is made again from its file, if it has one."""
        return None if self.place is None else (self.place, self.label, self.id, what, given, named)

    def chooser(self) -> Chooser:
        """What a worker needs to choose bins and rows (`bounded_histogram(key=)`): it pickles.

        It draws no noise. Whoever has it can compute which rows survive: keep it as the rows.
        Raises: ParameterError (a key that a fork has blanked).

            >>> chooser = dpfast.Key.generate().derive("visits 2026-11").chooser()
            >>> counted = {"domain": ["Lima", "Oslo"], "max_contributions": 1, "key": chooser}
            >>> one = dpfast.bounded_histogram(["Oslo", "Lima"], [17, 17], **counted)
            >>> two = dpfast.bounded_histogram(["Oslo"], [4], **counted)  # all rows of each person in one part
            >>> int(dpfast.BoundedHistogram.merged([one, two]).counts.sum())
            2
        """
        return Chooser(self._keyed("choice of bins"), self.id, self._file("chooser"), secure=self.secure)

    def buckets(self, names: Iterable[bytes], many: int) -> list[int]:
        """The bucket of each name, from 0 to many - 1: a pseudo-random function of the name.

        >>> key = dpfast.Key.generate().derive("visits, 2026-11")
        >>> ann, bob, again = key.buckets([b"ann", b"bob", b"ann"], 1000)
        >>> ann == again
        True
        """
        return self.bucketer(many)(names)

    def bucketer(self, many: int) -> Bucketer:
        """What a worker needs to put names into `many` buckets, and nothing else: it pickles.

        >>> bucket_of = dpfast.Key.generate().derive("visits, 2026-11").bucketer(1000)
        >>> bucket_of([b"ann"])[0] in range(1000)
        True
        """
        return Bucketer(self._keyed("buckets"), many, self.id, self._file("bucketer", many))

    def digester(self, mechanism: Any, *, column: str = "", clamp: Any = None, missing: Any = None) -> Digester:
        """What a worker needs to make the digests of blocks, and nothing else: it pickles.

        mechanism: of the column. column: its name in a table of several. clamp, missing: as of the
            release, which must have the same.
        Returns: a Digester. `digester(j, block, names=None)` gives the digest of rows 65,536 j up
            to 65,536 (j + 1), which is as private as they are.
        Raises: DTypeError, ParameterError.
        Privacy: spends nothing, for nothing of it may be published.

            >>> key = dpfast.Key.generate().derive("visits 2026-11")
            >>> digester = key.digester(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1))
            >>> digester(0, [120, 80, 3], names=["Lima", "Oslo", "Pune"]).rows
            3
        """
        from dpfast.release.seal import Digester, releases

        if not isinstance(column, str):
            raise DTypeError(f"column must be a string, not {type(column).__name__}")
        inputs = {"clamp": clamp, "missing": missing}
        how = self._file("digester", mechanism, column=column, **inputs)
        return Digester(self._keyed("block digest"), self.id, releases(mechanism), column, inputs, how)

    def seal(
        self,
        mechanism: Any,
        digests: Iterable[BlockDigest],
        *,
        shape: tuple[int, ...] | None = None,
        buckets: int | None = None,
        domain: Any = None,
        terms: Mapping[str, str] | None = None,
        source: bytes = b"",
    ) -> Seal:
        """The seal of an input, from the digests of all its blocks in any order.

        mechanism: a mechanism; or for a table a dict of them by column name, in the order of the
            columns. shape: of the array, or (rows,) of each column. domain: instead of a shape, the
            public names of the rows in their order. buckets: instead of both, for unknown keys: how
            many there are. terms: public texts by name that also decide which noise meets which
            published cell, such as {"order": "by city"}. A later try with another one is refused
            and told which; the manifest shows them, a long one by its SHA-256. source: a digest of
            all else that is published with the noisy values, such as the file that they come from;
            it is as private as they are.
        Returns: a Seal. `ledger.reserve(seal)` gives the key that draws.
        Raises: DTypeError; ParameterError (a block is missing, doubled or of another size; a digest
            of another label, column or version).
        Privacy: spends nothing: a reservation does.

            >>> columns = {"visits": dpfast.DiscreteLaplace(1, 1), "hours": dpfast.DiscreteLaplace(1, 24)}
            >>> values = {"visits": [120, 80, 3], "hours": [700, 410, 9]}
            >>> key = dpfast.Key.generate().derive("visits 2026-11")
            >>> digests = [key.digester(columns[name], column=name)(0, values[name]) for name in columns]
            >>> seal = key.seal(columns, digests, shape=(3,))
            >>> seal.cost.epsilon
            Fraction(2, 1)
        """
        from dpfast.release import seal as sealing

        if not isinstance(source, bytes):
            raise DTypeError(f"source must be bytes, not {type(source).__name__}")
        try:
            given = tuple(digests)
        except TypeError:
            raise DTypeError(f"digests must be those of key.digester(…), not {type(digests).__name__}") from None
        columns, kind = sealing.by_column(mechanism), sealing.kind_of(mechanism)
        asked = sealing.named_terms({} if terms is None else terms)
        named = sealing.joined(self.terms or (), asked, sealing.inputs_of(given))
        about = sealing.manifest(self.label, columns, kind, shape, buckets=buckets, domain=domain, terms=named)
        if about.kind in (sealing.ARRAY, sealing.TABLE):  # blocks hide how many cells there are in all
            for each in columns.values():
                each._check_cells(math.prod(about.size))  # noqa: SLF001
        return sealing.Seal(self, columns, about, sealing.checked(about, self.id, given), source)

    def __repr__(self) -> str:
        return f"<dpfast.ReleaseKey {self.label!r} {self.id[:8]}>"


class Part:
    """What can do one thing of a release key. It pickles.

    One of a KeyFile pickles as the file's path and the key's id; another with its secret.
    how: what makes it again from the file.
    """

    __slots__ = ("_how", "_secret", "id")

    def __init__(self, secret: bytes, key: str, how: How | None) -> None:
        self._secret, self.id, self._how = secret, key, how

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self._how is None else (_made_again, self._how)


class Chooser(Part):
    """Chooses bins and rows in bounded_histogram as its release key does, and can do nothing else.

    It holds 32 bytes that make no noise.
    """

    __slots__ = ("secure",)

    def __init__(self, secret: bytes, key: str, how: How | None, *, secure: bool) -> None:
        super().__init__(secret, key, how)
        self.secure = secure

    def functions(self) -> tuple[tuple[int, int], ...]:
        """Keys of four pseudo-random functions (SipHash), of two words each.

        They are of texts; for the choice of partitions, of rows in each, and of rows in all.
        """
        both = self._secret + keyed(self._secret, "choice of rows")
        return tuple(struct.iter_unpack("<2Q", both))

    def __repr__(self) -> str:
        return f"<{'' if self.secure else 'INSECURE '}Chooser, key {self.id[:8]}>"


class Bucketer(Part):
    """Puts names into buckets by a keyed hash, and can do nothing else."""

    __slots__ = ("many",)

    def __init__(self, secret: bytes, many: int, key: str, how: How | None) -> None:
        super().__init__(secret, key, how)
        self.many = many

    def __call__(self, names: Iterable[bytes]) -> list[int]:
        hashes = (keyed(self._secret, "bucket", name)[:8] for name in names)
        return [int.from_bytes(each, "little") % self.many for each in hashes]

    def __repr__(self) -> str:
        return f"<Bucketer, key {self.id[:8]}>"


def read_again(place: Path, label: str, key_id: str) -> ReleaseKey:
    """A key of a KeyFile, on a worker. Raises: FileError (no file there, or another key in it)."""
    key = KeyFile(place).derive(label)
    if key.id != key_id:
        raise FileError(f"the key file {place} holds another key than the one that {label!r} was sealed with")
    return key


def _made_again(place: Path, label: str, key_id: str, what: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return getattr(read_again(place, label, key_id), what)(*given, **named)


def release_key(key: object) -> ReleaseKey:
    """Raises: DTypeError."""
    if not isinstance(key, ReleaseKey):
        raise DTypeError(f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}")
    return key


# ------------------------------------------------------------------ files


def _fresh() -> bytes:
    try:
        return secrets.token_bytes(LENGTH)
    except OSError:
        raise EntropyError("the operating system gave no random key") from None


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise DTypeError(f"path must name a file, not be {type(path).__name__}") from None
    if "\0" in name:
        raise ParameterError("path must be without null characters")
    return Path(os.path.abspath(name))  # noqa: PTH100  it resolves no links, and a chdir changes nothing


def _read(file: Path) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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
        raise FileError(f"the key file {file} must hold {LENGTH} bytes, and holds {about.st_size}")
    if known := guessable(secret):
        raise FileError(
            f"the key file {file} must hold bytes that were drawn at random, and holds {known}: `dpfast key create` makes one"
        )
    return secret


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
