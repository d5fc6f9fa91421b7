# SPDX-License-Identifier: Apache-2.0
"""Keys of sealed releases: one label names one release of one input (docs/sealed.md).

A key makes digests of an input's blocks, a seal of the digests, and from a reserved seal the stream
key of each block, in which the digest of the very values that get the noise takes part.
"""

from __future__ import annotations

import math
import os
import secrets
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpfast import paths
from dpfast.errors import DTypeError, EntropyError, FileError
from dpfast.noise.release import seal as seals
from dpfast.noise.release.counts import origin_of
from dpfast.noise.release.secret import (
    LENGTH,
    How,
    Labelled,
    Part,
    Secret,
    Terms,
    check_system,
    derived,
    keyed,
    read,
    read_again,
)
from dpfast.privacy.parameters import bare_names
from dpfast.system import flush_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dpfast.privacy.inputs import Inputs


class _Master(Secret):
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
        return ReleaseKey(derived(self, label), label, self._place())

    def _place(self) -> Path | None:
        """The file where a worker finds the secret."""
        return None


bare_names(_Master)


class Key(_Master):
    """A master secret in memory, from which release keys are derived.

    For what outlives the process, take a KeyFile, or keep `bytes(key)` as you keep the data. It is
    not pickled, and is blank in a forked child. To derive a key spends nothing: releases do.
    Source: docs/behind/sealed.md.

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
        return self._revealed()

    def __repr__(self) -> str:
        return f"<dpfast.Key {self.id[:8]}>"


class KeyFile(_Master):
    """A master secret in a file: 32 random bytes that only its owner may read.

    `KeyFile.create`, or `dpfast key create`, makes the file; opening never does. A sealed key that
    is made from it is pickled as the path, the key's id and the root, so that the secret does not
    travel. One file for one release is simplest: it is destroyed with the frozen values.
    path: of the file; it is read once, here.
    Raises: DTypeError, ParameterError; FileError (no file, not a regular one, others may read or
        write it, another length, equal bytes, text); UnsupportedError (on Windows).
    Source: docs/behind/sealed.md.

        >>> made = dpfast.KeyFile.create("visits.key")
        >>> dpfast.KeyFile("visits.key").derive("visits 2026-11") == made.derive("visits 2026-11")
        True
    """

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = paths.absolute(path)
        super().__init__(read(self.path))

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> KeyFile:
        """Make the file, over nothing that is there; it is on the disk when this returns.

        Raises: DTypeError, ParameterError, EntropyError; FileError (path exists, or cannot be
            written); UnsupportedError (on Windows).

        >>> key = dpfast.KeyFile.create("survey.key").derive("visits, 2026-11")
        """
        check_system("KeyFile")
        file, secret = paths.absolute(path), _fresh()
        made = file.parent / f".dpfast-{secrets.token_hex(8)}"  # "/" has no name
        try:
            try:
                paths.make(made, secret)
                file.hardlink_to(made)  # whole at once, and unlike a rename it never replaces what is there
            finally:
                made.unlink(missing_ok=True)
            flush_folder(file.parent)
        except FileExistsError:
            raise FileError(
                f"{file} exists; a key is never replaced, because what it has sealed would be lost"
            ) from None
        except OSError as error:
            raise FileError(f"cannot make the key file {file}: {error.strerror}") from None
        return cls(file)

    def _place(self) -> Path:
        return self.path

    def __repr__(self) -> str:
        return f"<dpfast.KeyFile {str(self.path)!r} {self.id[:8]}>"


class ReleaseKey(Labelled):
    """The key of one release: one label, one input, any number of tries.

    `master.derive(label)` makes it. `mechanism.release(values, key=key)` and `ledger.release` take
    it. For blocks on many machines: `digester`, `seal`, then `ledger.reserve`. It is not pickled,
    and is blank in a forked child. It spends nothing itself. Source: docs/sealed.md.

    >>> key = dpfast.Key.generate().derive("visits, 2026-11")
    >>> noisy = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release([12, 0, 7], key=key)
    """

    __slots__ = ()

    def _naming(self, terms: Mapping[str, str], *known: Terms) -> ReleaseKey:
        """The same key, whose seal names these terms, too. known: in a manifest's form already."""
        return type(self)(
            self._revealed(),
            self.label,
            self.place,
            seals.joined(self.terms or (), seals.named_terms(terms), *known),
        )

    def _file(self, what: str, *given: Any, **named: Any) -> How | None:
        """How a part of the key is made again from its file, if it has one."""
        return None if self.place is None else (_made_again, (self.place, self.label, self.id, what, given, named))

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

    def digester(self, mechanism: Any, *, column: str = "", clamp: Any = None, missing: Any = None) -> seals.Digester:
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
        if not isinstance(column, str):
            raise DTypeError(f"column must be a string, not {type(column).__name__}")
        inputs = {"clamp": clamp, "missing": missing}
        how = self._file("digester", mechanism, column=column, **inputs)
        return seals.Digester(self._keyed("block digest"), self.id, seals.releases(mechanism), column, inputs, how)

    def seal(
        self,
        mechanism: Any,
        digests: Iterable[seals.BlockDigest],
        *,
        shape: tuple[int, ...] | None = None,
        buckets: int | None = None,
        domain: Any = None,
        terms: Mapping[str, str] | None = None,
        source: bytes = b"",
    ) -> seals.Seal:
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
        if not isinstance(source, bytes):
            raise DTypeError(f"source must be bytes, not {type(source).__name__}")
        try:
            given = tuple(digests)
        except TypeError:
            raise DTypeError(f"digests must be those of key.digester(…), not {type(digests).__name__}") from None
        columns, kind = seals.by_column(mechanism), seals.kind_of(mechanism)
        asked = seals.named_terms({} if terms is None else terms)
        named = seals.joined(self.terms or (), asked, seals.inputs_of(given))
        about = seals.manifest(self.label, columns, kind, shape, buckets=buckets, domain=domain, terms=named)
        if about.kind in (seals.ARRAY, seals.TABLE):  # blocks hide how many cells there are in all
            for each in columns.values():
                each._check_cells(math.prod(about.size))  # noqa: SLF001
        return seals.Seal(self, columns, about, seals.checked(about, self.id, given), source)

    def __repr__(self) -> str:
        return f"<dpfast.ReleaseKey {self.label!r} {self.id[:8]}>"


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


def _made_again(place: Path, label: str, key_id: str, what: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    held = read_again(place, label, key_id)
    return getattr(ReleaseKey(held._revealed(), label, place), what)(*given, **named)  # noqa: SLF001


def release_key(key: object) -> ReleaseKey:
    """Raises: DTypeError."""
    if not isinstance(key, ReleaseKey):
        raise DTypeError(f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}")
    return key


def sealing(key: Any, values: Any) -> Any:
    """The key whose seal names how these counts were counted, unless who counted has named it."""
    found = origin_of(values)
    if found is None:
        return key
    if not isinstance(key, ReleaseKey) or key.terms is not None:
        return key
    return key._naming(found.named(key))  # noqa: SLF001


def task_of(
    key: object,
    mechanism: Any,
    reserve: Callable[[seals.Seal], None] | None,
    inputs: Inputs,
    *,
    resume: bool,
) -> seals.Task:
    """What a release does under a key; or the key is a task already. Raises: DTypeError."""
    return (
        key if isinstance(key, seals.Task) else seals.Whole(release_key(key), mechanism, reserve, inputs, resume=resume)
    )


def _fresh() -> bytes:
    try:
        return secrets.token_bytes(LENGTH)
    except OSError:
        raise EntropyError("the operating system gave no random key") from None
