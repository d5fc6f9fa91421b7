# SPDX-License-Identifier: Apache-2.0
"""pyarrow: a column plus NumPy's noise added, as people write it, and its release."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters import compared
from dpfast import DiscreteLaplace, Gaussian, Laplace
from dpfast.bench.measure import Row

VERSIONS = ("pyarrow",)
SIZE = 4_000_000
CHUNKS = 16


def rows(size: int) -> Iterator[Row]:
    rng = np.random.default_rng()
    counts, values = pa.array(rng.integers(0, 10**6, size)), pa.array(rng.normal(0, 10**6, size))
    chunked = pa.chunked_array([counts[at : at + -(-size // CHUNKS)] for at in range(0, size, -(-size // CHUNKS))])
    for name, column, law, noise in (
        ("int64 Array, rounded Laplace against discrete Laplace", counts, DiscreteLaplace(1, 1), rng.laplace),
        (f"int64 ChunkedArray of {CHUNKS} chunks, the same", chunked, DiscreteLaplace(1, 1), rng.laplace),
        ("float64 Array, Laplace", values, Laplace(1, 1), rng.laplace),
        ("float64 Array, Gaussian", values, Gaussian(1), rng.normal),
    ):

        def before(column: pa.Array | pa.ChunkedArray = column, noise=noise) -> pa.Array | pa.ChunkedArray:
            drawn = noise(0, 1, size)
            return pc.add(column, pa.array(drawn if column is values else drawn.round().astype(int)))

        yield compared(name, before, lambda column=column, law=law: law.release(column), size)
