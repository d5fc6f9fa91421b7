# SPDX-License-Identifier: Apache-2.0
"""Seals: what names one release of one input, and what draws it by blocks (docs/sealed.md)."""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from hashlib import sha256
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from blake3 import blake3

from dpfast import _native
from dpfast.errors import DTypeError, KeyReuseError, OtherInputError, ParameterError
from dpfast.noise.release.blocks import BLOCK, Blocks, noise
from dpfast.noise.release.names import Names, words_of
from dpfast.noise.release.secret import (
    How,
    Labelled,
    Part,
    Terms,
    encode,
    encode_public,
    keyed,
    lock,
    read_again,
    warn_insecure,
)
from dpfast.privacy.inputs import NOTHING, Inputs
from dpfast.privacy.parameters import shown, whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.noise.release.arrays import Job
    from dpfast.privacy.guarantee import Guarantee

VERSION = 1  # the manifest's: its fields, the size of a block, the fields of digests

LONGEST_TERM = 80  # characters: a longer one stands in the manifest by its digest
ARRAY, TABLE, BUCKETS, LEVELS = "array", "table", "buckets", "levels"
_SIZED = "a shape", "a public domain"


class Manifest(NamedTuple):
    """What is published of a sealed release: nothing here depends on private values."""

    label: str
    kind: str  # "array", "table", "buckets" or "levels"
    columns: tuple[tuple[str, tuple[str | int, ...]], ...]  # each column's name and its mechanism's record
    size: tuple[int, ...]  # the shape of an array, (rows,) of a table, (number,) of buckets, each column's of levels
    domain: str = ""  # SHA-256 of the public names of the rows in their order, in hexadecimal
    stream: int = _native.STREAM_VERSION
    version: int = VERSION
    terms: Terms = ()  # what else decides which noise meets which cell: (name, value), by name

    def metadata(self) -> dict[str, object]:
        """JSON-able. Terms stand in it only where there are any."""
        columns = [{"name": name, "mechanism": list(record)} for name, record in self.columns]
        found = {**self._asdict(), "columns": columns, "size": list(self.size), "terms": dict(self.terms)}
        return found if self.terms else {name: found[name] for name in found if name != "terms"}

    @classmethod
    def of(cls, metadata: Any) -> Manifest:
        """The manifest in metadata that were kept. Raises: TypeError, LookupError (edited ones)."""
        columns = tuple((each["name"], tuple(each["mechanism"])) for each in metadata["columns"])
        terms = metadata.get("terms", {})
        known = tuple((name, terms[name]) for name in sorted(terms))
        return cls(**{**metadata, "columns": columns, "size": tuple(metadata["size"]), "terms": known})

    def encoded(self) -> bytes:
        before, after = _encoded(*self[1:-1])
        terms = encode(b"", *[encode(*term) for term in self.terms]) if self.terms else b""  # no column is empty
        return before + encode(self.label) + after + terms

    def rows(self, block: int, column: str = "") -> int:
        """How many rows a block has; of a bucket nobody knows."""
        return min(BLOCK, self._rows(column) - block * BLOCK)

    def _rows(self, column: str) -> int:
        if self.kind == LEVELS:
            return self.size[[name for name, _ in self.columns].index(column)]
        return math.prod(self.size)

    def unlike(self, kept: Manifest, mechanisms: Mapping[str, Any] | None = None) -> str:
        """How a manifest that was kept differs, in words, or nothing. It may have been edited.

        mechanisms: those of the columns here, which name the parameters that differ.
        """
        if kept.kind != self.kind:
            return f"with another kind, {kept.kind!s:.20}, not {self.kind}"
        if kept.columns != self.columns:
            return self._unlike_columns(kept, mechanisms or {})
        if kept.terms != self.terms:
            return self._unlike_terms(kept)
        if (kept.size, kept.domain) != (self.size, self.domain):
            return self._unlike_size(kept)
        return "" if kept == self else "with another manifest"

    def _unlike_columns(self, kept: Manifest, mechanisms: Mapping[str, Any]) -> str:
        here, there = ([name for name, _ in of.columns] for of in (self, kept))
        if here != there:
            return f"with the columns {_listed(there)}, not {_listed(here)}"
        (name, mine), (_, other) = next(
            both for both in zip(self.columns, kept.columns, strict=True) if both[0] != both[1]
        )
        of = f" of column {name!r:.60}" if name else ""
        if mine[:1] != other[:1]:
            return f"with another mechanism{of}, {', '.join(map(str, other[:1])):.40}, not {mine[0]}"
        named = mechanisms[name]._differing(other[1:]) if name in mechanisms else []  # noqa: SLF001  its own door
        return f"with other parameters of {mine[0]}{of}" + (f" ({', '.join(named)})" if named else "")

    def _unlike_terms(self, kept: Manifest) -> str:
        here, there = dict(self.terms), dict(kept.terms)
        for name, mine in self.terms:
            if name not in there:
                return f"by a seal that does not name {name}, which is {mine!r:.80} here"
            if there[name] != mine:
                return f"with another {name}, {there[name]!r:.80}, not {mine!r:.80}"
        extra = [f"{name!s:.60}, {other!r:.80}" for name, other in kept.terms if name not in here]
        return f"with {', '.join(extra):.200}, which this one does not name"

    def _unlike_size(self, kept: Manifest) -> str:
        if bool(kept.domain) != bool(self.domain):
            return f"with {_SIZED[bool(kept.domain)]}, not with {_SIZED[bool(self.domain)]}"
        if kept.size != self.size:
            what = "number of buckets" if self.kind == BUCKETS else "shape"
            return f"with another {what}, {kept.size!s:.80}, not {self.size!s:.80}"
        return "with another public domain"

    def blocks(self, column: str = "") -> int:
        """How many blocks a column has; all have as many, if they are no levels."""
        return self.size[0] if self.kind == BUCKETS else -(-self._rows(column) // BLOCK)


def _listed(names: Iterable[str]) -> str:
    return f"{', '.join(map(repr, names)):.200}"


@lru_cache
def _encoded(
    kind: str,
    columns: tuple[tuple[str, tuple[str | int, ...]], ...],
    size: tuple[int, ...],
    domain: str,
    stream: int,
    version: int,
) -> tuple[bytes, bytes]:
    """What stands before the label in the encoding of a manifest, and what after it."""
    rest = encode(kind, domain, encode(*size), *[encode(name, *record) for name, record in columns])
    return encode(version, stream), rest


class Levels(dict[str, Any]):
    """The mechanisms of columns of different lengths, and what all spend together."""

    def __init__(self, columns: Mapping[str, Any], guarantee: Guarantee) -> None:
        super().__init__(columns)
        self.guarantee = guarantee


def by_column(mechanism: Any) -> dict[str, Any]:
    """The mechanisms of the columns; that of an array has no name. Raises: DTypeError."""
    if isinstance(mechanism, Levels):
        columns: dict[str, Any] = mechanism
    else:
        columns = dict(mechanism) if isinstance(mechanism, Mapping) else {"": mechanism}
    for name, each in columns.items():
        if not isinstance(name, str):
            raise DTypeError(f"mechanism must have names of columns that are texts, not {type(name).__name__}")
        releases(each)
    return columns


def releases(mechanism: Any) -> Any:
    """The mechanism itself, if it noises arrays. Raises: DTypeError."""
    if isinstance(mechanism, type) or not hasattr(mechanism, "_job"):  # whose module is above this one
        raise DTypeError(f"mechanism must be one of dpfast's that release arrays, not {type(mechanism).__name__}")
    return mechanism


def kind_of(mechanism: Any) -> str:
    return LEVELS if isinstance(mechanism, Levels) else TABLE if isinstance(mechanism, Mapping) else ARRAY


def cost_of(columns: Mapping[str, Any]) -> Guarantee:
    """What columns spend together. Raises: NoGuaranteeError."""
    from dpfast.privacy.composition import compose

    return columns.guarantee if isinstance(columns, Levels) else compose(*columns.values())


def manifest(
    label: str,
    columns: Mapping[str, Any],
    kind: str,
    shape: tuple[int, ...] | None = None,
    *,
    buckets: int | None = None,
    domain: Any = None,
    terms: Terms = (),
) -> Manifest:
    """Raises: DTypeError, ParameterError."""
    if not columns:
        raise ParameterError("mechanism must name at least one column")
    if (shape is not None) + (buckets is not None) + (domain is not None) != 1:
        raise ParameterError("shape, domain or buckets must be given, and one of them alone")
    named, size = "", _size(shape, kind)
    if domain is not None:
        names = Names.read("domain", domain)
        named, size = sha256(encode(*map(bytes_of, names.fields(0, len(names))))).hexdigest(), (len(names),)
    elif buckets is not None:
        kind, size = BUCKETS, (whole("buckets", buckets, 1),)
    return Manifest(label, kind, records(columns), size, named, terms=terms)


def named_terms(terms: Mapping[str, str]) -> Terms:
    """The terms of a manifest; a long value, or one that looks like it, is told by its SHA-256.

    Raises: DTypeError, ParameterError.
    """
    if type(terms) is dict and not terms:
        return ()
    if not isinstance(terms, Mapping) or not all(isinstance(each, str) for term in terms.items() for each in term):
        raise DTypeError(f"terms must be a mapping of texts to texts, not {type(terms).__name__}")
    try:
        "".join(terms).encode()
        return tuple((name, _short(terms[name])) for name in sorted(terms))
    except UnicodeEncodeError:
        raise ParameterError("terms must be texts that UTF-8 can hold") from None


def joined(*terms: Terms) -> Terms:
    """All terms. Raises: ParameterError (two values of one name)."""
    found: dict[str, str] = {}
    for name, value in chain(*terms):
        if found.setdefault(name, value) != value:
            raise ParameterError(f"terms must not name {name!r:.60}, which is {found[name]!r:.80} already")
    return tuple(sorted(found.items()))


def input_terms(mechanism: Any, column: str, clamp: object, missing: object) -> Terms:
    """The terms that say how the values of a column became those that are noised."""
    public = mechanism._inputs(clamp, missing).named()  # noqa: SLF001  the seal's own door
    return named_terms({f"{name} of {column!r}" if column else name: public[name] for name in public})


def inputs_of(digests: tuple[BlockDigest, ...]) -> Terms:
    """The terms of the inputs of all columns. Raises: DTypeError, ParameterError."""
    found: dict[str, Terms] = {}
    for each in digests:
        if not isinstance(each, BlockDigest):
            raise DTypeError(f"digests must be those of key.digester(…), not {type(each).__name__}")
        if found.setdefault(each.column, each.inputs) != each.inputs:
            raise ParameterError("digests must be made with one clamp and one missing for each column")
    return tuple(chain(*found.values()))


def _short(value: str) -> str:
    text = value.encode()
    return f"SHA-256 {sha256(text).hexdigest()}" if len(value) > LONGEST_TERM or value.startswith("SHA-256 ") else value


def records(columns: Mapping[str, Any]) -> tuple[tuple[str, tuple[str | int, ...]], ...]:
    return tuple([(name, each._record) for name, each in columns.items()])  # noqa: SLF001


def _size(shape: tuple[int, ...] | None, kind: str) -> tuple[int, ...]:
    """Raises: DTypeError, ParameterError."""
    if shape is None:
        return ()
    if not isinstance(shape, (tuple, list)):
        raise DTypeError(f"shape must be a tuple of ints, not {type(shape).__name__}")
    size = tuple(whole("shape", n, 0) for n in shape)
    if (sum(size) if kind == LEVELS else math.prod(size)) >= 2**63:
        raise ParameterError("shape must be of fewer than 2**63 values")
    if kind == TABLE and len(size) != 1:
        raise ParameterError(f"shape must be (rows,) of a table, got {len(size)} numbers")
    return size


def bytes_of(field: Any) -> bytes | str:
    return field if isinstance(field, str) else bytes(field)


class BlockDigest(NamedTuple):
    """What a worker hands back of a block: a pseudo-random function of its values and names."""

    key: str  # the id of the release key
    column: str
    block: int
    rows: int
    digest: bytes
    stream: int = _native.STREAM_VERSION
    version: int = VERSION
    inputs: Terms = ()  # the clamp, and what stands for a missing value

    def __repr__(self) -> str:
        """Without the digest, and without the rows: how many a bucket has is private."""
        return f"<BlockDigest of block {self.block} of {self.column or 'an array'}, key {self.key[:8]}>"


def block_digest(begun: blake3, column: str, block: int, fields: Iterable[Any]) -> bytes:
    """fields: texts and runs of bytes; each goes behind its length.

    begun: new, for this block; it holds the key, which as bytes would stand among the locals of a
        traceback.
    """
    before = encode_public(column, block)
    for field in fields:
        if isinstance(field, str):
            before += encode_public(field)
        else:
            begun.update(before + len(field).to_bytes(8, "little"))
            begun.update(field)
            before = b""
    begun.update(before)
    return begun.digest()  # 32 bytes


def _by(key: bytes) -> blake3:
    return blake3(key=key, max_threads=1)


class Task:
    """What is done with the blocks of the values of one call of a mechanism's release."""

    __slots__ = ()
    first_row = 0  # the place of the first value among all that are sealed
    seals = False  # whether it is the whole of a release, so that it can seal one block `straight`

    def take(self, blocks: Blocks) -> None:
        raise NotImplementedError


class Digester(Part):
    """Makes the digests of blocks of one column, and can do nothing else.

    `key.digester(mechanism)` makes it, for the workers.
    """

    __slots__ = ("_inputs", "column", "mechanism")

    def __init__(
        self, secret: bytes, key: str, mechanism: Any, column: str, inputs: dict[str, Any], how: How | None
    ) -> None:
        super().__init__(secret, key, how)
        self.mechanism, self.column, self._inputs = mechanism, column, inputs

    def __call__(self, block: int, values: npt.ArrayLike, *, names: Any = None) -> BlockDigest:
        """The digest of a block: rows 65,536 block up to 65,536 (block + 1) of the column.

        block: its number, from 0. values: at most 65,536 of them, of what the mechanism releases
            and in any layout; the last block of a column may be shorter. names: of the rows, as
            many, where no public domain gives them: a column of integers or of strings.
        Returns: a BlockDigest, for `key.seal`; as private as the values.
        Raises: DTypeError, ParameterError; UnusableValuesError (a NaN without `missing`).
        """
        task = _Digesting(self._secret, self.column, whole("block", block, 0))
        self.mechanism._release(values, key=task, names=names, **self._inputs)  # noqa: SLF001  the seal's own door
        return BlockDigest(self.id, self.column, task.block, task.rows, task.digest, inputs=self.terms)

    @property
    def terms(self) -> Terms:
        """What a seal of its digests names."""
        return input_terms(self.mechanism, self.column, **self._inputs)

    def __repr__(self) -> str:
        return f"<Digester of {self.column or 'an array'}, key {self.id[:8]}>"


class _Digesting(Task):
    """Takes a digest, and draws nothing."""

    rows, digest = 0, b""

    def __init__(self, secret: bytes, column: str, block: int) -> None:
        self._secret, self._column, self.block = secret, column, block
        self.first_row = block * BLOCK

    def take(self, blocks: Blocks) -> None:
        self.rows = blocks.size
        digest = partial(block_digest, _by(self._secret), self._column)
        self.digest = blocks.one(digest, self.block, keep=False)


def at_most_a_block(rows: int) -> None:
    if rows > BLOCK:
        raise ParameterError(f"values of a block must be at most {BLOCK:,}, got {rows:,}")


# ------------------------------------------------------------------ seals

Digests: TypeAlias = Mapping[tuple[str, int], tuple[int, bytes]]  # rows and digest of each block, by its place


class Streams:
    """One sealed input, and its stream keys for whoever holds what they are made from."""

    __slots__ = ()
    manifest: Manifest
    _secret: bytes

    def stream_key(self, column: str, block: int, digest: bytes) -> bytes:
        """The stream key of a block, from the digest of the copy that gets the noise.

        It depends on this digest: even where the comparison fails, other values get other noise.
        Raises: OtherInputError.
        """
        if not hmac.compare_digest(digest, self._digest(column, block)):
            raise OtherInputError(
                f"{self.manifest.label!r}: values must be those that were sealed, and a block is not; nothing of it was drawn"
            )
        return self._drawn(column, block, digest)

    def _drawn(self, column: str, block: int, digest: bytes) -> bytes:
        """The same, where the digest is the one that was sealed."""
        return keyed(self._secret, "stream key", encode_public(column, block) + encode(digest))

    def _digest(self, column: str, block: int) -> bytes:
        raise NotImplementedError


class Seal(Streams):
    """One input under one label: a manifest to publish, and private digests. Never pickled.

    `key.seal(mechanism, digests, shape=shape)` makes it.
    manifest: what may be published. cost: the guarantee of all columns together.
    `ledger.reserve(seal)` gives the key that draws, and `seal.without_ledger()` says aloud that
    nobody pays. Source: docs/behind/sealed.md.
    """

    __slots__ = ("_columns", "_digests", "_input", "_key", "_root", "_secret", "manifest")

    def __init__(
        self,
        key: Labelled,
        columns: Mapping[str, Any],
        about: Manifest,
        digests: Digests,
        source: bytes = b"",
    ) -> None:
        """columns: their mechanisms. digests: of each block, in order."""
        self.manifest, self._key, self._columns, self._digests = about, key, columns, digests
        fields: Iterable[int | bytes] = chain.from_iterable(digests.values())
        self._root = key._keyed("root", encode(source, *fields) if source else encode(*fields))  # noqa: SLF001
        self._input = encode(about.encoded(), self._root)

    @property
    def key_id(self) -> str:
        return self._key.id

    @property
    def cost(self) -> Guarantee:
        """What all columns spend together. Raises: NoGuaranteeError."""
        return cost_of(self._columns)

    def metadata(self) -> dict[str, object]:
        """What its columns spend, JSON-able, as of their mechanisms."""
        found = [each.metadata() for each in self._columns.values()]
        if self.manifest.kind == ARRAY:
            return dict(found[0])
        columns = dict(zip(self._columns, found, strict=True))
        return {"mechanism": ", ".join(dict.fromkeys(str(each["mechanism"]) for each in found)), "columns": columns}

    @property
    def tag(self) -> bytes:
        """What a ledger keeps: whoever has the key can tell by it whether an input is this one."""
        return self._key._keyed("tag", self._input)  # noqa: SLF001

    @property
    def secure(self) -> bool:
        return self._key.secure

    def without_ledger(self, *, resume: bool = False) -> Sealed:
        """The key that draws, where nobody pays: the caller keeps count of what is spent.

        resume: whether this is the release again that this process has begun under the label.
        Raises: KeyReuseError (the label is reserved here and resume is not said, or for another
            release); OtherInputError.
        Privacy: what is drawn spends `cost`, once for this label and input.
        """
        reserve_here(self, resume=resume)
        return self._reserved()

    def _reserved(self) -> Sealed:
        """The key that draws, for whoever has reserved."""
        if not self.secure:
            warn_insecure("a release")
        digests = {at: digest for at, (_, digest) in self._digests.items()}
        return _opened(self._key, self.manifest, self._columns, digests, self._root, self._input)

    def _digest(self, column: str, block: int) -> bytes:
        return self._digests[column, block][1]

    def _open(self) -> None:
        """From now on it gives stream keys itself, for whoever has reserved and draws it here."""
        key = self._key
        if not key.secure:
            warn_insecure("a release")
        self._secret = key._keyed("sealed", self._input)  # noqa: SLF001

    def __repr__(self) -> str:
        return f"<Seal of {self.manifest.label!r}, key {self.key_id[:8]}>"

    def __reduce__(self) -> str:
        raise TypeError("a Seal is not pickled, because it holds its key: send the sealed key that a reservation gives")


def checked(about: Manifest, key: str, digests: tuple[BlockDigest, ...]) -> dict[tuple[str, int], tuple[int, bytes]]:
    """Rows and digest of each block by its place, in order. key: its id. Raises: ParameterError."""
    columns = {name for name, _ in about.columns}
    for each in digests:
        if each.key != key:
            raise ParameterError(
                f"digests must be made under the key of {about.label!r}, and one is of another label or key"
            )
        check_versions(each.stream, each.version)
        if each.column not in columns:
            raise ParameterError(f"digests must be of the columns of the seal, and one is of {each.column!r:.60}")
        blocks, rows = about.blocks(each.column), about.rows(each.block, each.column)
        if not 0 <= each.block < blocks:
            raise ParameterError(f"digests must be of blocks 0 to {blocks - 1}, and one is of block {each.block}")
        if about.kind != BUCKETS and each.rows != rows:
            raise ParameterError(f"block {each.block} must have {rows:,} rows, got {each.rows:,}")
    found = {(each.column, each.block): (each.rows, each.digest) for each in digests}
    if len(found) < len(digests):
        raise ParameterError("digests must be one of each block, and a block came twice")
    wanted = sum(map(about.blocks, columns))
    if len(digests) < wanted:
        raise ParameterError(f"digests must be one of each block, and {wanted - len(digests)} of {wanted} are missing")
    return {at: found[at] for name, _ in about.columns for at in zip(repeat(name), range(about.blocks(name)))}


def check_versions(stream: int, version: int) -> None:
    """Raises: ParameterError (made by another version of dpfast)."""
    if (stream, version) != (_native.STREAM_VERSION, VERSION):
        raise ParameterError(
            f"a sealed release of stream version {stream} and manifest version {version} must be finished by the dpfast that "
            f"began it; this one has {_native.STREAM_VERSION} and {VERSION}"
        )


# ------------------------------------------------------------------ the record of this process

# By the id of a release key what its seal draws from, and by that of a step of totals its tag.
_reserved: dict[str, tuple[Manifest, bytes]] = {}
HERE = "in this process"


def reserve_here(seal: Seal, *, resume: bool) -> None:
    """Reserve the label in this process. Raises: as Seal.without_ledger. Fixed keys are exempt."""
    known = note_here(seal)
    if known is not None:
        must_continue(seal.manifest.label, HERE, resume=resume)
        _compare_with(seal, *known)


def note_here(seal: Seal) -> tuple[Manifest, bytes] | None:
    """What this process has sealed under the key; if nothing, the seal, and None."""
    key = seal._key  # noqa: SLF001
    return noted(key.id, seal.manifest, seal._input) if key.secure else None  # noqa: SLF001


def noted(key_id: str, about: Manifest, mark: bytes) -> tuple[Manifest, bytes] | None:
    own = about, mark
    with lock:  # which a signal's handler may have, too: one step
        known = _reserved.setdefault(key_id, own)
    return None if known is own else known


def compare_here(seal: Seal) -> None:
    """Refuse what this process has sealed with another input, whoever paid. Raises: as compare."""
    known = known_here(seal.key_id)
    if known is not None:
        _compare_with(seal, *known)


def _compare_with(seal: Seal, about: Manifest, mark: bytes) -> None:
    compare(seal, about, (seal._input, mark), where=HERE)  # noqa: SLF001


def known_here(key_id: str) -> tuple[Manifest, bytes] | None:
    with lock:
        return _reserved.get(key_id)


def another(label: str) -> str:
    return f"a new label, such as {label + ' 2'!r}"


def must_continue(label: str, where: str, *, resume: bool) -> None:
    """Raises: KeyReuseError. where, and when, the label was reserved."""
    if not resume:
        raise KeyReuseError(
            f"{label!r} is reserved {where}: resume=True continues it; new data are a new release under {another(label)}"
        )


def must_be_alike(label: str, where: str, unlike: str) -> None:
    """Raises: KeyReuseError, if anything is unlike."""
    if unlike:
        raise KeyReuseError(
            f"{label!r} is reserved {where} {unlike}: go on with what was reserved, or pay for {another(label)}"
        )


def compare(seal: Seal, about: Manifest, marks: tuple[bytes, bytes], *, where: str, unlike: str = "") -> None:
    """Refuse what is not the release that is reserved. Raises: KeyReuseError, OtherInputError.

    marks: the tags of both, or what both draw from. unlike: what else differs, and is public.
    """
    label = seal.manifest.label
    must_be_alike(label, where, seal.manifest.unlike(about, seal._columns) or unlike)  # noqa: SLF001
    if not hmac.compare_digest(*marks):
        raise OtherInputError(
            f"{label!r}: the input is not the one that was reserved {where}; new data are a new release under "
            f"{another(label)}. That it is another, or is not, is for its holder alone, and never published"
        )


# ------------------------------------------------------------------ what draws


class Sealed(Streams):
    """A key that draws the blocks of one sealed input, and nothing else. It pickles.

    A task needs its own blocks' digests alone: `sealed.only(j)`. One made from a KeyFile pickles
    as the file's path, the key's id and the root: a worker must find the same secret there.
    Whoever has it and a result can take the noise off blocks that they guess: keep it as the data.
    Source: docs/behind/sealed.md.

        >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
        >>> key = dpfast.Key.generate().derive("visits 2026-11")
        >>> seal = key.seal(mechanism, [key.digester(mechanism)(0, [120, 80, 3])], shape=(3,))
        >>> sealed = dpfast.Ledger("budget.db", epsilon=3, create=True).reserve(seal)
        >>> noisy = sealed.only(0).release(0, [120, 80, 3])  # on a worker
        >>> bool((noisy == mechanism.release([120, 80, 3], key=key, resume=True)).all())
        True
    """

    def __init__(
        self,
        about: Manifest,
        columns: Mapping[str, Any],
        digests: Mapping[tuple[str, int], bytes],
        root: bytes,
        secrets: tuple[bytes, bytes],
        key: tuple[str, bool, Path | None],
    ) -> None:
        """secrets: for stream keys, for digests. key: its id, whether it is secret, its file."""
        self.manifest, self._columns, self._digests, self._root = about, columns, digests, root
        self._secrets, self._secret = secrets, secrets[0]
        self.key_id, self.secure, self._place = key

    def only(self, *blocks: int) -> Sealed:
        """The same for some blocks of all columns: what a task that draws them needs.

        Raises: ParameterError (no such block).
        """
        digests = {(name, j): self._digest(name, j) for name in self._columns for j in blocks}
        key = self.key_id, self.secure, self._place
        return Sealed(self.manifest, self._columns, digests, self._root, self._secrets, key)

    def release(
        self,
        block: int,
        values: npt.ArrayLike,
        *,
        column: str | None = None,
        names: Any = None,
        **options: Any,
    ) -> Any:
        """Block `block` of a column with its noise: the bytes that one call for all would give it.

        block: its number, from 0. values: those that were sealed, in any layout and width. column:
            its name in a table. names: of the rows, as sealed. options: as of the mechanism's
            release: out, dtype, lower, upper, threads, constant_time; clamp, missing as sealed.
        Returns: as the mechanism's release.
        Raises: DTypeError, ParameterError; OtherInputError (other values than were sealed: nothing
            is drawn, and out holds zeros).
        Privacy: spends nothing more: the reservation paid for all blocks, however often drawn.
        """
        if options.keys() & {"key", "resume"}:
            raise ParameterError("key and resume must be left out: a sealed key is both")
        at, name = whole("block", block, 0), self._column(column)
        self._columns[name]._check_options(options)  # noqa: SLF001  the door of sealed releases
        self._check_inputs(name, options.get("clamp"), options.get("missing"))
        task = _Drawing(self, name, at)
        return self._columns[name]._release(values, key=task, names=names, **options)  # noqa: SLF001

    def _check_inputs(self, column: str, clamp: object, missing: object) -> None:
        """Raises: KeyReuseError (another clamp or missing than was sealed, whatever it changes)."""
        given, sealed = dict(input_terms(self._columns[column], column, clamp, missing)), dict(self.manifest.terms)
        for name in ("clamp", "missing"):
            at = f"{name} of {column!r}" if column else name
            if given.get(at) != sealed.get(at):
                raise KeyReuseError(
                    f"{self.manifest.label!r}: {name} must be as sealed, {sealed.get(at)}, got {given.get(at)}"
                )

    def _column(self, column: str | None) -> str:
        name = next(iter(self._columns)) if column is None and len(self._columns) == 1 else column
        if name is None or name not in self._columns:
            raise ParameterError(f"column must be one of {', '.join(map(repr, self._columns))}, got {shown(column)}")
        return name

    def _digest(self, column: str, block: int) -> bytes:
        found = self._digests.get((column, block))
        if found is None:
            raise ParameterError(f"block must be one that this sealed key draws, got {block}")
        return found

    def digest(self, column: str, block: int, fields: Iterable[Any]) -> bytes:
        return block_digest(_by(self._secrets[1]), column, block, fields)

    def __repr__(self) -> str:
        return f"<Sealed {self.manifest.label!r}, key {self.key_id[:8]}>"

    def __reduce__(self) -> tuple[object, ...]:
        known = self.manifest, dict(self._columns), dict(self._digests), self._root
        if self._place is None:
            return _sent, (*known, self._secrets, (self.key_id, self.secure, None))
        return _read_again, (*known, self._place, self.key_id)


def _opened(
    key: Labelled,
    about: Manifest,
    columns: Mapping[str, Any],
    digests: Mapping[tuple[str, int], bytes],
    root: bytes,
    input_: bytes,
) -> Sealed:
    """input_: the manifest and the root, encoded."""
    secrets = key._keyed("sealed", input_), key._keyed("block digest")  # noqa: SLF001
    return Sealed(about, columns, digests, root, secrets, (key.id, key.secure, key.place))


def _sent(about: Manifest, columns: Any, digests: Any, root: bytes, secrets: Any, key: Any) -> Sealed:
    check_versions(about.stream, about.version)
    return Sealed(about, columns, digests, root, secrets, key)


def _read_again(about: Manifest, columns: Any, digests: Any, root: bytes, place: Path, key_id: str) -> Sealed:
    """A sealed key on a worker. Raises: FileError (the file is not there, or holds another key)."""
    check_versions(about.stream, about.version)
    key = read_again(place, about.label, key_id)
    return _opened(key, about, columns, digests, root, encode(about.encoded(), root))


class _Drawing(Task):
    """Draws one block."""

    def __init__(self, sealed: Sealed, column: str, block: int) -> None:
        self._sealed, self._column, self._block = sealed, column, block
        self.first_row = block * BLOCK

    def take(self, blocks: Blocks) -> None:
        if self._sealed.manifest.kind != BUCKETS:
            at_most_a_block(blocks.size)
        digest = partial(self._sealed.digest, self._column)
        blocks.one(digest, self._block)
        blocks.draw(lambda _, found: self._sealed.stream_key(self._column, self._block, found), digest)


class Whole(Task):
    """Seals, reserves and draws an array in one call."""

    __slots__ = ("_key", "_mechanism", "_reserve", "_resume", "_terms")
    seals = True

    def __init__(
        self,
        key: Labelled,
        mechanism: Any,
        reserve: Callable[..., None] | None,
        inputs: Inputs,
        *,
        resume: bool,
    ) -> None:
        """reserve: what a ledger does; by default the record of this process."""
        self._key, self._mechanism, self._resume = key, mechanism, resume
        self._reserve, self._terms = reserve, key.terms or ()
        if inputs is not NOTHING:
            self._terms = joined(self._terms, named_terms(inputs.named()))

    def take(self, blocks: Blocks) -> None:
        begun = _by(self._key._keyed("block digest"))  # noqa: SLF001

        def digest(block: int, fields: Iterable[Any]) -> bytes:
            return block_digest(begun.copy(), "", block, fields)

        rows = range(blocks.size, 0, -BLOCK)
        found = {("", j): (min(BLOCK, rows[j]), each) for j, each in enumerate(blocks.digests(digest))}
        seal = self._sealed(blocks.values.shape, found)
        blocks.draw(partial(seal.stream_key, ""), digest)

    def straight(self, job: Job, how: bytes) -> None:
        """As take, of one block with a new result, which is zeros after any exception.

        how: as C noises it.
        """
        words = job.out.reshape(-1)
        try:
            job.out[...] = job.counts
            digest = block_digest(_by(self._key._keyed("block digest")), "", 0, words_of(words))  # noqa: SLF001
            seal = self._sealed(job.out.shape, {("", 0): (words.size, digest)})
            noise(how, words, words, seal._drawn("", 0, digest))  # noqa: SLF001
        except BaseException:
            words.fill(0)
            raise

    def _sealed(self, shape: tuple[int, ...], digests: Digests) -> Seal:
        """The seal that gives the stream keys, once it is reserved."""
        key, mechanism = self._key, self._mechanism
        about = Manifest(key.label, ARRAY, (("", mechanism._record),), shape, terms=self._terms)  # noqa: SLF001
        seal = Seal(key, {"": mechanism}, about, digests)
        if self._reserve is None:
            reserve_here(seal, resume=self._resume)
        else:
            self._reserve(seal)
        seal._open()  # noqa: SLF001
        return seal
