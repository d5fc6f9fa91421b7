# SPDX-License-Identifier: Apache-2.0
"""Bytes read as choices, so that an input that changes a little makes a call that does, too."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

T = TypeVar("T")
SMALL, LARGE = 300, 2**40  # whole numbers between them would only take memory and time
EDITS = 12  # at most so many in a patch


class Choices:
    """A cursor over bytes; zeros follow the last of them."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return max(len(self._data) - self._at, 0)

    def take(self, n: int) -> bytes:
        found = self._data[self._at : self._at + n]
        self._at += n
        return found.ljust(n, b"\0")

    def rest(self) -> bytes:
        return self.take(self.left)

    def below(self, n: int) -> int:
        size = 1 if n <= 256 else 2 if n <= 65536 else 4
        return int.from_bytes(self.take(size), "little") % n

    def pick(self, listed: Sequence[T]) -> T:
        return listed[self.below(len(listed))]

    def rarely(self) -> bool:
        return self.below(8) == 7

    def whole(self) -> int:
        """Small or large, of either sign."""
        size = self.pick([1, 1, 2, 8, 9, 40])
        found = int.from_bytes(self.take(size), "little", signed=True)
        return found if abs(found) >= LARGE else found % SMALL - SMALL // 10

    def real(self) -> float:
        return float(struct.unpack("<d", self.take(8))[0])

    def number(self) -> Any:
        kind = self.below(5)
        if kind == 0:
            return self.real()
        if kind == 1:
            return Fraction(self.whole(), abs(self.whole()) or 1)
        if kind == 2:
            return self.pick([1e-3, 0.5, 1, 1.0, 2, 1e6, 2.0**-10])
        if kind == 3:
            return str(self.whole())
        return self.whole()

    def text(self) -> str:
        return self.take(self.below(24)).decode("latin-1")

    def patched(self, data: bytes) -> bytes:
        """The bytes with a few edits at places of this choice."""
        found = bytearray(data)
        for _ in range(min(EDITS, 1 + self.below(EDITS))):
            if not self.left:
                break
            kind, at = self.below(7), self.below(len(found) + 1)
            new = self.take(1 + self.below(16))
            if kind == 0:
                found[at : at + len(new)] = new
            elif kind == 1:
                found[at:at] = new
            elif kind == 2:
                del found[at : at + len(new)]
            elif kind == 3:
                del found[at:]
            elif kind == 4 and at < len(found):
                found[at] ^= 1 << new[0] % 8
            elif kind == 5:
                found += found[at : at + 64]
            elif at < len(found):
                found[at] = new[0]
        return bytes(found)
