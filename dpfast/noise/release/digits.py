# SPDX-License-Identifier: Apache-2.0
"""The digits of any word of a stream, by the portable block function (csrc/stream.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpfast import _native
from dpfast.privacy import exact

if TYPE_CHECKING:
    from dpfast._native import StreamKey

NOISE, ACCEPT = 1, 2  # purposes of the stream's address
ACCEPT_WIDTH = 16  # bits of a level-0 word that accepts or rejects


def reader(stream: StreamKey, width: int) -> exact.Read:
    """What reads the digits of a word, `width` of them at level 0 if they are noise."""

    def word(index: int, bits: int, nonce: int) -> int:
        group, within = divmod(index, 16 * 512 // bits)
        slot, lane = divmod(within, 16)
        block = int.from_bytes(stream.block(16 * group + lane, nonce), "little")
        return int(block >> (slot * bits) & (2**bits - 1))

    def read(index: int, level: int, purpose: int = NOISE, candidate: int = 0) -> exact.Digits:
        bits = width if purpose == NOISE else ACCEPT_WIDTH
        prefix = word(index, bits, _native.nonce(0, purpose, candidate))
        for at in range(1, level + 1):
            nonce, size = _native.nonce(at, purpose, candidate), 64 if at < 3 else 512
            more = word(index, 64, nonce) if at < 3 else int.from_bytes(stream.block(index, nonce), "little")
            prefix, bits = prefix << size | more, bits + size
        return exact.Digits(prefix, bits)

    return read
