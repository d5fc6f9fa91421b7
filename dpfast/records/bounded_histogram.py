# SPDX-License-Identifier: Apache-2.0
"""From raw rows to counts that one person changes by no more than a stated amount.

A person may have many rows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast import kernels
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.mechanism import Releasing
from dpfast.privacy.parameters import shown, whole
from dpfast.privacy.sensitivity import MAX_CELLS, Sensitivity, refuse_less
from dpfast.release.arrays import UINT64
from dpfast.release.columns import CHUNK, Column, Integers, column
from dpfast.release.key import Key, ReleaseKey, warn_insecure

if TYPE_CHECKING:
    from dpfast.ledger import Ledger

Words: TypeAlias = npt.NDArray[np.uint64]
Find: TypeAlias = Callable[[Integers], npt.NDArray[np.int64]]

OUTSIDE = ("drop", "refuse")
BUCKET = 8  # integers of a bucket at least, on average: the index has a byte for each
CHANGED = "unit_ids must not be written while they are counted: give a copy of the column"


class BoundedHistogram(NamedTuple):
    """Counts that are not private yet.

    keys: the domain in its order; or without a domain the keys that occur, sorted, which are as
        private as the counts.
    counts: int64, one for each key, before any noise. sensitivity: the change that the noise must
        hide. `release` adds noise that hides it.
    """

    keys: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    sensitivity: Sensitivity

    def release(self, mechanism: Releasing, /, *, ledger: Ledger | None = None, **options: Any) -> Any:
        """`mechanism.release(counts, **options)`, if the mechanism was made for this sensitivity.

        ledger: charged before the noise is drawn: `ledger.release(mechanism, counts, **options)`.

            visits = bounded_histogram(towns, people, domain=known, max_partitions=2, max_per_partition=1)
            noisy = visits.release(DiscreteLaplace(1, visits.sensitivity))

        Returns: int64, one for each key, in the order of the domain.
        Raises: DTypeError; ParameterError (also a mechanism made for less, for no sensitivity, or
            for another adjacency or unit; keys without a domain, which only `thresholded` hides);
            what the release raises. Nothing is charged then, and nothing drawn.
        Privacy: spends what the mechanism's guarantee says.
        """
        if not isinstance(mechanism, Releasing):
            raise DTypeError(f"mechanism must be one of dpfast's that release arrays, not {type(mechanism).__name__}")
        made: Any = mechanism  # its sensitivity may be a number
        refuse_less(self.sensitivity, made.sensitivity, made.adjacency, made.unit)
        if ledger is None:
            return mechanism.release(self.counts, **options)
        from dpfast.ledger import Ledger  # late, because SQLite takes a while

        if not isinstance(ledger, Ledger):
            raise DTypeError(f"ledger must be a Ledger, not {type(ledger).__name__}")
        return ledger.release(mechanism, self.counts, **options)

    def __repr__(self) -> str:
        """Shows no key, no count and no number of keys, because none of them is private yet."""
        return f"<BoundedHistogram: keys and counts, not private yet, of sensitivity={self.sensitivity!r}>"


def bounded_histogram(
    keys: Any,
    unit_ids: Any,
    *,
    domain: Any = None,
    max_partitions: int,
    max_per_partition: int,
    outside: Literal["drop", "refuse"] = "drop",
    adjacency: str = "add-remove",
    unit: str = "person",
    key: ReleaseKey | None = None,
) -> BoundedHistogram:
    """Count rows by key, with bounded contributions.

    No unit of privacy touches more than max_partitions counts or adds more than max_per_partition
    to one.

    keys, unit_ids: what each row counts, and the id of its unit. Two columns of equal length, of
        integers or strings: lists, NumPy arrays, columns of pandas, Polars or Arrow, categorical or
        not. Equal values are equal whatever holds them: 5 is 5 in every integer type, and never
        "5".
    domain: the possible keys, public, each once; a key that nobody has gets a 0. Without a domain
        the function returns the keys that occur. Which keys occur is private, so only `thresholded`
        may take them: the Sensitivity says so (keys="private"), and whatever publishes a cell for
        each key refuses it.
    max_partitions, max_per_partition: chosen without a look at the data; they may exceed what there
        is.
    outside: rows with a key outside the domain are dropped ("drop"), or refused ("refuse"). A
        refusal reveals that there is such a row.
    adjacency, unit: those of the sensitivity returned.
    key: a release key, for an equal choice again; otherwise a fresh key.

    The keys of the domain are the partitions. Of a unit's partitions, max_partitions are kept,
    those whose tag is least; then at most max_per_partition of its rows in each. The tag is a
    pseudo-random function of (key, unit id, partition): SipHash-2-4 under a key that is derived for
    this alone. No noise stream is made from this key. So each choice of partitions is equally
    likely.

    The sensitivity is Sensitivity(l0=max_partitions, linf=max_per_partition); l0 is the size of the
    domain if that is less. It holds for *every* key, a public one too. Proof: equal ids make one
    unit, and ids are compared, not hashes. What a unit keeps depends on the key, its id and its own
    rows: on no other unit, no row number, no order of rows. So counts = the sum over units of
    v(key, id, rows), with at most l0 entries, each in 0 .. linf. Adding or removing a unit adds or
    removes one such v; substituting a unit adds w - v. (If two tags are equal, the order of the
    unit's own partitions decides.)

    Memory: 9 bytes a row of integers, 17 if ids are spread over all 64 bits or keys have no domain;
        25 of strings, besides the strings that differ. Time and memory access depend on the data.
    Raises: DTypeError, ParameterError; EntropyError. No message shows a key, an id or a count, but
        the fact that an input is refused can depend on them. Warns: InsecureKeyWarning (a fixed
        key).
    """
    most_partitions, cap = whole("max_partitions", max_partitions, 1), whole("max_per_partition", max_per_partition, 1)
    if not isinstance(outside, str) or outside not in OUTSIDE:
        raise ParameterError(f"outside must be 'drop' or 'refuse', got {shown(outside)}")
    if outside == "refuse" and domain is None:
        raise ParameterError("outside='refuse' needs a domain")
    partitions = None if domain is None else _domain(domain)
    most = most_partitions if partitions is None else min(most_partitions, partitions.codes.size)
    if most > MAX_CELLS:
        raise ParameterError(f"max_partitions must be below 2**63, got {shown(max_partitions)}")
    sensitivity = Sensitivity(
        most, cap, adjacency=adjacency, unit=unit, keys="private" if partitions is None else "public"
    )
    sip = _sip_keys(key)

    rows_keys, rows_ids = column("keys", keys), column("unit_ids", unit_ids)
    if rows_keys.codes.size != rows_ids.codes.size:
        raise ParameterError("keys and unit_ids must be of equal length: one of each in a row")
    if partitions is None:
        partitions = _occurring(rows_keys)
    elif rows_keys.codes.size and (rows_keys.texts is None) != (partitions.texts is None):
        raise DTypeError("keys and domain must be both of integers or both of strings")
    bits = max(partitions.codes.size - 1, 0).bit_length()
    code, base, units = _units(rows_ids, bits, sip[:2])
    rows = _sorted_rows(rows_keys, _finder(rows_keys, partitions), rows_ids, code, bits, refuse=outside == "refuse")

    counts = np.zeros(partitions.codes.size, np.int64)
    held, few = min(most_partitions, counts.size, rows.size), kernels.FEW
    how = tuple(map(np.uint64, (bits, base, *sip[2:], min(cap, max(rows.size, 1)))))
    kernels.kernel("bounded_histogram")(
        rows, units, _words(partitions, sip[:2]), how, np.empty(few, np.uint64), np.empty(held, np.uint64),
        np.empty(held + few + 1, np.int64), np.empty(held + few + 1, np.int64), counts,
    )  # fmt: skip
    names = partitions.codes if partitions.texts is None else np.array(partitions.texts, dtype=object)
    return BoundedHistogram(names, counts, sensitivity)


def _sip_keys(key: ReleaseKey | None) -> tuple[int, ...]:
    """Two SipHash keys, of two words each: for texts, and for pairs."""
    if key is None:
        key = Key.generate().derive("bounded_histogram")
    elif not isinstance(key, ReleaseKey):
        raise DTypeError(f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}")
    elif not key.secure:
        warn_insecure("partitions chosen")
    return struct.unpack("<4Q", key.for_choice())


def _words(names: Column, sip: tuple[int, ...]) -> Words:
    """The word of each name in the tag: an integer itself, modulo 2^64, or a keyed hash of a text.

    Two names with equal words share their tags, which changes no bound.
    """
    if names.texts is None:
        return names.codes.astype(np.uint64)
    out = np.empty(len(names.texts), np.uint64)
    kernels.kernel("siphash")(*map(np.uint64, sip), *names.utf8(), out)
    return out


# ------------------------------------------------------------------ the partitions


def _domain(domain: Any) -> Column:
    partitions = column("domain", domain)
    if not partitions.codes.size:
        raise ParameterError("domain must hold at least one key")
    if _distinct(partitions.codes).size < partitions.codes.size:
        raise ParameterError("domain must hold each key once")
    return partitions if partitions.texts is None else _in_order([partitions.texts[code] for code in partitions.codes])


def _occurring(keys: Column) -> Column:
    if keys.texts is None:
        return Column(_distinct(keys.codes), None)
    there = np.zeros(len(keys.texts), bool)
    there[keys.codes] = True
    return _in_order(sorted(keys.texts[i] for i in np.flatnonzero(there)))


def _in_order(texts: list[str]) -> Column:
    return Column(np.arange(len(texts)), texts)


def _distinct(values: Integers) -> Integers:
    """The distinct values, sorted. np.unique hashes, which takes five times as long."""
    ordered = np.sort(values)
    new = np.empty(ordered.size, bool)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def _finder(keys: Column, partitions: Column) -> Find:
    """A function that finds the partitions of rows of keys: their places, or -1."""
    if keys.texts is not None and partitions.texts is not None:
        place = {text: i for i, text in enumerate(partitions.texts)}
        table = np.array([place.get(text, -1) for text in keys.texts], np.int64)
        return lambda rows: table[rows]
    order = np.argsort(partitions.codes)
    known = partitions.codes[order]
    if not known.size or partitions.texts is not None:  # no rows
        return lambda rows: np.full(rows.size, -1)
    known = known.astype(np.uint64 if known.dtype == UINT64 else np.int64)
    find = _finder_of_integers(known, order)
    if (keys.codes.dtype == UINT64) == (known.dtype == UINT64):
        return find
    # One of the two reaches 2^63 and the other goes below 0. Values that both hold are between.
    return lambda rows: np.where(rows.astype(np.int64) >= 0, find(rows), -1)


def _finder_of_integers(known: Integers, order: npt.NDArray[np.int64]) -> Find:
    """A function that finds integers among the sorted `known`, modulo 2^64.

    If they lie close together it uses a table.
    """
    low, last = int(known[0]), int(known[-1]) - int(known[0])
    if last < 4 * known.size + CHUNK:
        base = np.uint64(low % 2**64)
        table = np.full(last + 2, -1)
        table[known.astype(np.uint64) - base] = order
        beyond = np.uint64(last + 1)
        return lambda rows: table[np.minimum(rows.astype(np.uint64) - base, beyond)]
    search = _search(known)

    def find(rows: Integers) -> npt.NDArray[np.int64]:
        at = search(rows)
        return np.where(at >= 0, order[at], -1)

    return find


def _search(known: Integers) -> Find:
    """A function that finds integers, modulo 2^64, among sorted ones of 64 bits: places, or -1."""
    words, span = known.view(np.uint64), int(known[-1]) - int(known[0])
    leading = max(known.size // BUCKET, 1).bit_length() - 1
    shift = min(max(span.bit_length() - leading, 0), 63)
    edges = words[0] + (np.arange((span >> shift) + 1, dtype=np.uint64) << np.uint64(shift))
    begins = np.append(np.searchsorted(known, edges.view(known.dtype)), known.size)

    def find(rows: Integers) -> npt.NDArray[np.int64]:
        places = np.empty(rows.size, np.int64)
        kernels.kernel("search")(rows.astype(np.uint64), words, np.uint64(shift), begins, places)
        return places

    return find


# ------------------------------------------------------------------ the rows


def _units(ids: Column, bits: int, sip: tuple[int, ...]) -> tuple[Callable[[Integers], Words], int, Words]:
    """A function that numbers units below 2^(64 - bits); a base; the words of the units.

    The word of unit u is words[u], or base + u if there are no words. An id that another thread has
    written since the ids were first read is refused: it would have no number.
    """
    if ids.texts is not None:
        return lambda rows: rows.astype(np.uint64), 0, _words(ids, sip)
    low, high = (int(ids.codes.min()), int(ids.codes.max())) if ids.codes.size else (0, 0)
    if (high - low).bit_length() + bits <= 64:
        base, last = low % 2**64, max(high - low, 0)

        def off_base(rows: Integers) -> Words:
            found: Words = rows.astype(np.uint64) - np.uint64(base)
            if found.size and found.max() > last:
                raise ParameterError(CHANGED)
            return found

        return off_base, base, np.empty(0, np.uint64)
    distinct = _distinct(ids.codes)
    distinct = distinct.astype(f"{distinct.dtype.kind}8", copy=False)
    search = _search(distinct)

    def placed(rows: Integers) -> Words:
        at = search(rows)
        if (at < 0).any():
            raise ParameterError(CHANGED)
        return at.view(np.uint64)

    return placed, 0, distinct.view(np.uint64)


def _sorted_rows(
    keys: Column, find: Find, ids: Column, code: Callable[[Integers], Words], bits: int, *, refuse: bool
) -> Words:
    """The rows inside the domain, each as unit << bits | partition, sorted."""
    rows, kept = np.empty(keys.codes.size, np.uint64), 0
    for begin in range(0, rows.size, CHUNK):
        part = slice(begin, begin + CHUNK)
        places = find(keys.codes[part].copy())  # another thread may write the columns meanwhile
        inside = places >= 0
        if refuse and not inside.all():
            raise ParameterError("keys must all be of the domain")
        packed = (code(ids.codes[part].copy()) << np.uint64(bits) | places.astype(np.uint64))[inside]
        rows[kept : kept + packed.size] = packed
        kept += packed.size
    rows = rows[:kept]
    rows.sort()
    return rows
