# SPDX-License-Identifier: Apache-2.0
"""pyarrow: arrays, whole and in chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters import GAUSSIAN, INTEGER, REAL, column

VERSIONS = ("pyarrow",)
SIZE = 4_000_000
CHUNKS = 16


def rows(size):
    rng, chunk = np.random.default_rng(), -(-size // CHUNKS)
    counts, values = pa.array(rng.integers(0, 10**6, size)), pa.array(rng.normal(0, 10**6, size))
    chunked = pa.chunked_array([counts[at : at + chunk] for at in range(0, size, chunk)])
    for name, law, given in (
        ("int64 Array, rounded Laplace against discrete Laplace", INTEGER, counts),
        (f"int64 ChunkedArray of {CHUNKS} chunks, the same", INTEGER, chunked),
        ("float64 Array, Laplace", REAL, values),
        ("float64 Array, Gaussian", GAUSSIAN, values),
    ):
        add = lambda noise, x=given: pc.add(x, pa.array(noise))  # noqa: E731
        yield column(name, size, law, add, lambda mechanism, x=given: mechanism.release(x))
