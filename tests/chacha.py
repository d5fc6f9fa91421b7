# SPDX-License-Identifier: Apache-2.0
"""ChaCha20's block function in Python. It judges csrc/chacha.h, and test_bit_generator.py it."""

from __future__ import annotations


def chacha(key: bytes, counter: int, nonce: int) -> list[int]:
    """RFC 8439's block, in Python, with a 64-bit counter and nonce: 16 words."""

    def split(data: bytes) -> list[int]:
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]

    start = split(b"expand 32-byte k" + key + counter.to_bytes(8, "little") + nonce.to_bytes(8, "little"))
    x = list(start)

    def rotate(value: int, k: int) -> int:
        return (value << k | value >> 32 - k) % 2**32

    for _ in range(10):
        for i in range(8):
            a, b, c, d = i % 4, 4 + (i + i // 4) % 4, 8 + (i + 2 * (i // 4)) % 4, 12 + (i + 3 * (i // 4)) % 4
            for p, q, r, k in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = (x[p] + x[q]) % 2**32
                x[r] = rotate(x[r] ^ x[p], k)
    return [(u + v) % 2**32 for u, v in zip(x, start, strict=True)]
