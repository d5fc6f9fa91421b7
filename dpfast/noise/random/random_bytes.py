# SPDX-License-Identifier: Apache-2.0
"""Random bytes: few from the operating system, many from ChaCha20 under a key from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dpfast import _native
from dpfast.errors import DTypeError, EntropyError, ParameterError
from dpfast.privacy.parameters import shown, whole

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer

FEW = 1 << 10  # up to this size the system is as fast
MOST = 2**62  # a bytes object of 2^63 - 1 bytes has no space for its header


def random_bytes(n: int) -> bytes:
    """Return n bytes that nobody can predict.

    Up to 1 KiB they come from os.urandom. Beyond that they are the key stream of ChaCha20: each
    call takes a fresh 256-bit key from the operating system and wipes it.
    Raises: DTypeError, ParameterError (also for more than 2^62), EntropyError, MemoryError.

    >>> len(dpfast.random_bytes(32))
    32
    """
    n = whole("n", n, least=0)
    if n > MOST:
        raise ParameterError(f"n must be at most 2**62, got {shown(n)}")
    if n <= FEW:
        try:
            return os.urandom(n)
        except (OSError, NotImplementedError):
            raise EntropyError("the operating system gave no random bytes") from None
    made: bytes = _native.new_bytes(None, n)
    _fill(made)
    return made


def fill_bytes(buffer: Buffer | np.ndarray[Any, Any]) -> None:
    """Fill a buffer with random bytes, as random_bytes makes them.

    buffer: writable and C-contiguous, such as a bytearray, an mmap or a NumPy array. An array may
        have any shape, and any dtype in which every bit pattern is a value: not objects, strings of
        any length, or bool.
    Raises: DTypeError; EntropyError, and whatever stops it half-way. Then the buffer is all zeros
    or, if no byte was written yet, untouched.

    >>> room = bytearray(16)
    >>> dpfast.fill_bytes(room)
    >>> room == bytes(16)  # by chance once in 2^128
    False
    """
    view = _writable(buffer)
    if view.nbytes <= FEW:
        _native.entropy_into(buffer)
    else:
        _fill(buffer)


def _fill(buffer: Any) -> None:
    key = _native.StreamKey()
    try:
        key.draw()
        _native.key_stream(key, buffer)
    except BaseException:
        _native.wipe(buffer)
        raise
    finally:
        key.wipe()


def _writable(buffer: Any) -> memoryview:
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError):
        raise DTypeError(f"buffer must be a writable buffer of plain values, not {type(buffer).__name__}") from None
    if view.readonly:
        raise DTypeError("buffer must be writable")
    if not view.c_contiguous:
        raise DTypeError("buffer must be C-contiguous")
    if set(view.format) & set("O?"):
        raise DTypeError(f"buffer must contain values that any bits make, got format {view.format!r}")
    return view
