# SPDX-License-Identifier: Apache-2.0
"""random_bytes and fill_bytes: the whole key stream at every cut; buffers; failures leave zeros."""

from __future__ import annotations

import mmap
import os
import zlib

import numpy as np
import pytest
from chacha import chacha
from tiers import ISAS

from dpfast import _native, fill_bytes, random_bytes
from dpfast.errors import DTypeError, EntropyError, ParameterError
from dpfast.noise.random.random_bytes import FEW

KEY = bytes(range(32))
SIZES = [0, 1, 7, 8, 63, 64, 65, 1024, 1025, 2047, 2048, 2049, 4096, 6143, 6145]


def reference(n: int) -> bytes:
    """Words of 32 bits, packed as csrc/stream.md says, of purpose 3, level 0."""
    out = b""
    for group in range(-(-n // 1024)):
        blocks = [chacha(KEY, 16 * group + lane, 3 << 56) for lane in range(16)]
        out += b"".join(blocks[lane][slot].to_bytes(4, "little") for slot in range(16) for lane in range(16))
    return out[:n]


WHOLE = reference(max(SIZES))


@pytest.mark.parametrize("isa", ISAS)
def test_the_bytes_are_the_documented_stream(isa, monkeypatch) -> None:
    """Every instruction set, size, alignment, stored past caches or not, in slabs or at once."""
    for streamed, slab in ((2**21, 2**26), (0, 2**26), (2**21, 2048), (0, 4096)):
        monkeypatch.setattr(_native, "NON_TEMPORAL", streamed)
        monkeypatch.setattr(_native, "SLAB", slab)
        for n in SIZES:
            for shift in (0, 1, 3, 4, 8, 40):
                place = bytearray(b"\x5a" * (n + 80))
                _native.key_stream(_native.StreamKey(KEY), memoryview(place)[shift : shift + n], isa=isa)
                assert place[shift : shift + n] == WHOLE[:n]
                assert place[:shift] == b"\x5a" * shift
                assert place[shift + n :] == b"\x5a" * (80 - shift)


@pytest.mark.parametrize("n", [*SIZES, FEW, FEW + 1, 2**20 + 3, 3 * 2**21 + 5])
def test_random_bytes(n) -> None:
    """n bytes, never the same, each byte drawn (one left out is equal in both: by chance 2^-64)."""
    one, two = random_bytes(n), random_bytes(n)
    assert type(one) is bytes
    assert len(one) == len(two) == n
    if n >= 8:
        assert one != two
        assert one[:8] != two[:8]
        assert one[-8:] != two[-8:]
    if n > 2**20:
        assert len(zlib.compress(one, 1)) > n  # nothing left blank, nothing twice
        counts = np.bincount(np.frombuffer(one, np.uint8), minlength=256)
        assert ((counts - n / 256) ** 2 / (n / 256)).sum() < 430  # chi-squared, 255 degrees: 4e-11
    hash(one)


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [
        *((n, ParameterError, "at least 0") for n in (-1, -(2**70))),
        *((n, DTypeError, "n must be an int") for n in (True, 1.0, "8", None, b"12")),
        (2**63, ParameterError, "at most"),
        (2**62, (MemoryError, OverflowError), None),
    ],
)
def test_sizes_that_are_refused(n, error, message) -> None:
    """Negative, no int, beyond any memory; NumPy's integers are sizes."""
    with pytest.raises(error, match=message):
        random_bytes(n)
    assert len(random_bytes(np.int64(2000))) == 2000


@pytest.mark.parametrize("size", [5, 3000])
def test_kinds_of_buffers(size) -> None:
    """bytearray, memoryview, mmap, arrays of dtypes and shapes: filled whole, never alike."""
    base = np.zeros((size, 6))
    for made in (
        bytearray(8 * size), memoryview(bytearray(8 * size)), mmap.mmap(-1, 8 * size), np.zeros(size), np.zeros((size, 2, 2), ">i8"),
        np.zeros(size, np.complex64), np.zeros(size, [("a", "i4"), ("b", "f8", 3)]), np.zeros(size, "S9"), base[2:],
        np.zeros((), "V64"), np.zeros(size + 9, np.uint8)[1:],
    ):  # fmt: skip
        fill_bytes(made)
        first = bytes(made) if not isinstance(made, np.ndarray) else made.tobytes()
        fill_bytes(made)
        second = bytes(made) if not isinstance(made, np.ndarray) else made.tobytes()
        assert first[:8] != second[:8]
        assert first[-6:] != second[-6:] or len(first) < 6
        if len(first) > 4000:
            assert first.count(0) < len(first) / 64
    assert not base[:2].any()


@pytest.mark.parametrize("empty", [bytearray(), np.zeros(0), np.zeros((3, 0, 2))])
def test_empty_buffers(empty) -> None:
    assert fill_bytes(empty) is None


READ_ONLY = np.zeros(1000)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (b"1234", "writable"), (memoryview(bytes(3000)), "writable"), (READ_ONLY, "writable"), (np.zeros(10)[::2], "C-contiguous"),
        (np.zeros((3, 4)).T, "C-contiguous"), (memoryview(bytearray(99))[::-1], "C-contiguous"), ([1, 2], "buffer of plain values"),
        ("text", "buffer of plain values"), (None, "buffer of plain values"), (np.zeros(4, object), "any bits"),
        (np.zeros(4, bool), "any bits"), (np.zeros(4, [("a", "i4"), ("b", object)]), "any bits"),
        (np.zeros(4, "M8[s]"), "plain values"),
        *([(np.array(["a", "bc"], np.dtypes.StringDType()), None)] if hasattr(getattr(np, "dtypes", None), "StringDType") else []),
    ],
)  # fmt: skip
def test_buffers_that_are_refused(made, why) -> None:
    """Read-only, with gaps, or of types that not all bits fit; strings lie elsewhere."""
    with pytest.raises(DTypeError, match=why):
        fill_bytes(made)
    assert not READ_ONLY.any()


@pytest.mark.parametrize("size", [100, 10**6])
def test_no_entropy(size, monkeypatch) -> None:
    """EntropyError; what was there is untouched or zero, and no half-random buffer comes back."""

    def none(*_: object) -> int:
        return -1

    def urandom(n: int) -> bytes:
        raise OSError

    monkeypatch.setattr(_native, "_entropy", none)
    monkeypatch.setattr(os, "urandom", urandom)
    made = bytearray(b"\x5a" * size)
    for act in (lambda: random_bytes(size), lambda: fill_bytes(made)):
        with pytest.raises(EntropyError):
            act()
    assert set(made) <= {0, 0x5A}


def test_ctrl_c_half_way_leaves_zeros(monkeypatch) -> None:
    """And the key is wiped."""
    keys, calls = [], []
    stream, key = _native.lib.dpf_key_stream, _native.StreamKey

    class Library:
        def __getattr__(self, name) -> object:
            return getattr(_native_lib, name)

        def dpf_key_stream(self, *arguments) -> None:
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            stream(*arguments)

    _native_lib = _native.lib
    monkeypatch.setattr(_native, "lib", Library())
    monkeypatch.setattr(_native, "SLAB", 2048)
    monkeypatch.setattr(_native, "StreamKey", lambda: keys.append(key()) or keys[-1])
    made = bytearray(b"\x5a" * 10_000)
    with pytest.raises(KeyboardInterrupt):
        fill_bytes(made)
    assert made == bytes(10_000)
    assert bytes(_native.ffi.buffer(keys[0]._bytes)) == bytes(32)
