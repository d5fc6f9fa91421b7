# SPDX-License-Identifier: Apache-2.0
"""The names of rows, as they enter digests: integers, or texts with their lengths."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpfast.errors import ParameterError
from dpfast.noise.release.arrays import INT64, UINT64
from dpfast.noise.release.columns import column

BYTES, LITTLE = np.dtype(np.uint8), sys.byteorder == "little"


def words_of(array: Any) -> tuple[str, Any]:
    """One axis of integers, eight little-endian bytes each, and their kind: -1 is not 2^64 - 1."""
    if array.dtype is INT64 and array.flags.c_contiguous and LITTLE:
        return "integers", array.view(BYTES)
    words = np.ascontiguousarray(array, f"<{array.dtype.kind}8")
    unsigned = words.dtype == UINT64 and words.size > 0 and int(words.max()) >= 2**63
    return "unsigned" if unsigned else "integers", words.view(BYTES)


class Names:
    """Names of rows: integers, or runs of bytes, by their places among the distinct ones."""

    def __init__(self, codes: Any, joined: Any = None, ends: Any = None) -> None:
        """codes: the integers; or, if there are runs of bytes, joined, with ends: their places."""
        self._codes, self._joined = codes, joined
        if joined is not None:
            self._begins = np.concatenate([[0], ends])
            self._in_order = bool((codes == np.arange(codes.size)).all())

    @classmethod
    def read(cls, name: str, values: Any, size: int | None = None) -> Names:
        """A column, read once. name: of the parameter. size: how many there must be.

        Raises: DTypeError, ParameterError.
        """
        found = column(name, values)
        if size is not None and found.codes.size != size:
            raise ParameterError(f"{name} must be as many as the values")  # how many, of a bucket, is private
        return cls(found.codes) if found.texts is None else cls(found.codes, *found.utf8())

    @classmethod
    def of_bytes(cls, runs: list[bytes]) -> Names:
        """Runs of bytes, one a row."""
        ends = np.cumsum([len(run) for run in runs], dtype=np.int64)
        return cls(np.arange(len(runs)), np.frombuffer(b"".join(runs), np.uint8), ends)

    def __len__(self) -> int:
        return int(self._codes.size)

    def fields(self, begin: int, end: int) -> list[Any]:
        """The names begin .. end - 1: what they are, and their bytes."""
        codes = self._codes[begin:end]
        if self._joined is None:
            return list(words_of(codes))
        lengths = (self._begins[1:] - self._begins[:-1])[codes]
        if self._in_order:  # each name once, as in most columns of names
            text = self._joined[self._begins[begin] : self._begins[begin + codes.size]]
        else:
            starts = np.repeat(self._begins[codes] - np.concatenate([[0], np.cumsum(lengths[:-1])]), lengths)
            text = self._joined[starts + np.arange(starts.size)]
        return ["texts", lengths.astype("<i8").view("u1"), text]
