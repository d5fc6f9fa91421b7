# SPDX-License-Identifier: Apache-2.0
"""Polars: a column plus NumPy's noise added, as people write it, and its release."""

from __future__ import annotations

import numpy as np
import polars as pl
from row import Row

import dpfast.adapters.polars  # noqa: F401  the namespace dp
from dpfast import DiscreteLaplace

VERSIONS = ("polars",)
N = 4_000_000


def rows() -> list[Row]:
    rng = np.random.default_rng()
    frame = pl.DataFrame({"n": rng.integers(0, 10**6, N)}).with_columns(x=pl.col("n") / 7)
    integer, n, x = DiscreteLaplace(1, 1), pl.col("n"), pl.col("x")

    def whole() -> pl.Series:
        return pl.Series(rng.laplace(0, 1, N).round().astype(int))

    return [
        Row(
            "Int64 Series, rounded Laplace against discrete Laplace",
            lambda: frame["n"] + whole(),
            lambda: integer.release(frame["n"]),
            N,
            N,
        ),
        Row(
            "Int64 expression, the same",
            lambda: frame.lazy().with_columns(n + whole()).collect(),
            lambda: frame.lazy().with_columns(n.dp.discrete_laplace(epsilon=1, sensitivity=1)).collect(),
            N,
            N,
        ),
        Row(
            "Float64 expression, Laplace",
            lambda: frame.lazy().with_columns(x + rng.laplace(0, 1, N)).collect(),
            lambda: frame.lazy().with_columns(x.dp.laplace(epsilon=1, sensitivity=1)).collect(),
            N,
            N,
        ),
        Row(
            "Float64 expression, Gaussian",
            lambda: frame.lazy().with_columns(x + rng.normal(0, 1, N)).collect(),
            lambda: frame.lazy().with_columns(x.dp.gaussian(sigma=1)).collect(),
            N,
            N,
        ),
    ]
