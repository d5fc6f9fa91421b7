# SPDX-License-Identifier: Apache-2.0
"""bounded_histogram again in plain Python, by its definition; and what a Sensitivity allows."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import tiers

import dpfast
from dpfast import Key, Sensitivity

ENDS = -(2**63), 2**63 - 1
Name = int | str | tuple[int | str, ...]
Row = tuple[int | str, Name, int]  # a unit, a key, a value


@cache
def release_key(number: int) -> dpfast.ReleaseKey:
    """Known to all, without the warning."""
    return Key.from_bytes(sha256(str(number).encode()).digest()).derive("bins")


@lru_cache(2**16)  # units and keys come again
def sip(key0: int, key1: int, data: bytes) -> int:
    """SipHash-2-4 by the book."""
    mask = 2**64 - 1
    a, b, c, d = (
        key0 ^ 0x736F6D6570736575,
        key1 ^ 0x646F72616E646F6D,
        key0 ^ 0x6C7967656E657261,
        key1 ^ 0x7465646279746573,
    )
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for word, rounds in (*((word, 2) for (word,) in struct.iter_unpack("<Q", padded)), (0, 4)):
        if rounds == 2:
            d ^= word
        else:
            c ^= 0xFF
        for _ in range(rounds):
            a, c = a + b & mask, c + d & mask
            b, d = (b << 13 | b >> 51) & mask ^ a, (d << 16 | d >> 48) & mask ^ c
            a = (a << 32 | a >> 32) & mask
            c, a = c + b & mask, a + d & mask
            b, d = (b << 17 | b >> 47) & mask ^ c, (d << 21 | d >> 43) & mask ^ a
            c = (c << 32 | c >> 32) & mask
        a ^= word
    return a ^ b ^ c ^ d


def word(name: Name, key: tuple[int, int]) -> int:
    """A name in a tag: an integer itself, the hash of a text, or of the words of several."""
    if isinstance(name, tuple):
        return sip(*key, struct.pack(f"<{len(name)}Q", *(word(each, key) for each in name)))
    return name % 2**64 if isinstance(name, int) else sip(*key, name.encode("utf-8", "surrogatepass"))


def as_counter(found) -> Counter:
    return Counter({k: int(c) for k, c in zip(found.keys.tolist(), found.counts, strict=True) if c})


def within(moved: np.ndarray, stated: Sensitivity) -> bool:
    size = np.abs(moved)
    l0, linf, l1, squared = (size > 0).sum(-1), size.max(-1), size.sum(-1), (size**2).sum(-1)
    most = stated.l0, stated.linf, stated.l1, stated.l2_squared
    return all(int(norm.max()) <= bound for norm, bound in zip((l0, linf, l1, squared), most, strict=True))


class Caps(NamedTuple):
    """The caller's caps and bounds. each: whether rows are clamped, or sums of a unit and key."""

    partitions: int | None = None
    per_partition: int | None = None
    contributions: int | None = None
    lower: int = 1
    upper: int = 1
    each: bool = True


Tag = Callable[[tuple[int, int], int, Row, int], Hashable]  # a key, a row's number, the row, how many equal ones before


class Choice:
    """What each unit keeps under a release key. tag: a planted one instead of the proper one."""

    def __init__(self, key: Any, tag: Tag | None = None) -> None:
        self.texts, self.bins, self.rows, self.all = tiers.choice_of(key)
        self.tag = tag or self.proper

    def proper(self, key: tuple[int, int], _: int, row: Row, before: int) -> int:
        unit, bin_, value = row
        return sip(*key, struct.pack("<4Q", word(unit, self.texts), word(bin_, self.texts), value % 2**64, before))

    def least(self, rows: list[tuple[int, Row]], most: int | None, key: tuple[int, int]) -> list[tuple[int, Row]]:
        if most is None or len(rows) <= most:
            return rows
        seen: Counter = Counter()
        tagged = []
        for place, (number, row) in enumerate(sorted(rows, key=lambda r: (r[1][1], r[1][2]))):
            tagged.append((self.tag(key, number, row, seen[row]), place, (number, row)))
            seen[row] += 1
        return [row for _, _, row in sorted(tagged)[:most]]

    def kept(self, rows: list[tuple[int, Row]], caps: Caps) -> list[Row]:
        """The numbered rows of one unit that the caps leave."""
        by_bin: dict[Name, list[tuple[int, Row]]] = {}
        for number, row in rows:
            by_bin.setdefault(row[1], []).append((number, row))
        unit = rows[0][1][0]
        pairs = {b: sip(*self.bins, struct.pack("<2Q", word(unit, self.texts), word(b, self.texts))) for b in by_bin}
        bins = sorted(by_bin, key=lambda b: (pairs[b], b))[: caps.partitions]
        kept = [row for b in bins for row in self.least(by_bin[b], caps.per_partition, self.rows)]
        return [row for _, row in self.least(kept, caps.contributions, self.all)]

    def of_unit(self, rows: list[tuple[int, Row]], caps: Caps) -> Counter:
        """The sums of the numbered rows of one unit."""
        sums: Counter = Counter()
        for _, b, value in self.kept(rows, caps):
            sums[b] += min(max(value, caps.lower), caps.upper) if caps.each else value
        return sums if caps.each else Counter({b: min(max(n, caps.lower), caps.upper) for b, n in sums.items()})

    def leaves(self, rows: list[Row], caps: Caps) -> Counter:
        """How many rows of each key have each value, of all units together."""
        found: Counter = Counter()
        for unit in {row[0] for row in rows}:
            found.update(row[1:] for row in self.kept(list(enumerate(r for r in rows if r[0] == unit)), caps))
        return found

    def sums(self, rows: list[Row], caps: Caps) -> Counter:
        """The sums of all units together, without the zeros."""
        by_unit: dict[int | str, list[tuple[int, Row]]] = {}
        for number, row in enumerate(rows):
            by_unit.setdefault(row[0], []).append((number, row))
        found: Counter = Counter()
        for own in by_unit.values():
            for b, n in self.of_unit(own, caps).items():
                found[b] += n
        return Counter({b: min(max(n, ENDS[0]), ENDS[1]) for b, n in found.items() if n})
