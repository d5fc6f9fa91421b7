# SPDX-License-Identifier: Apache-2.0
"""pyarrow: a column plus NumPy's noise added, as people write it, and its release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from row import Row

from dpfast import DiscreteLaplace, Gaussian, Laplace

VERSIONS = ("pyarrow",)
N = 4_000_000


def rows() -> list[Row]:
    rng = np.random.default_rng()
    counts = pa.array(rng.integers(0, 10**6, N))
    chunked = pa.chunked_array([counts[at : at + N // 16] for at in range(0, N, N // 16)])
    values = pa.array(rng.normal(0, 10**6, N))
    integer, laplace, gaussian = DiscreteLaplace(1, 1), Laplace(1, 1), Gaussian(1)

    def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        return pc.add(column, pa.array(rng.laplace(0, 1, N).round().astype(int)))

    return [
        Row(
            "int64 Array, rounded Laplace against discrete Laplace",
            lambda: whole(counts),
            lambda: integer.release(counts),
            N,
            N,
        ),
        Row(
            "int64 ChunkedArray of 16 chunks, the same", lambda: whole(chunked), lambda: integer.release(chunked), N, N
        ),
        Row(
            "float64 Array, Laplace",
            lambda: pc.add(values, pa.array(rng.laplace(0, 1, N))),
            lambda: laplace.release(values),
            N,
            N,
        ),
        Row(
            "float64 Array, Gaussian",
            lambda: pc.add(values, pa.array(rng.normal(0, 1, N))),
            lambda: gaussian.release(values),
            N,
            N,
        ),
    ]
