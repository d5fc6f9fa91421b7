# SPDX-License-Identifier: Apache-2.0
"""Polars: a column plus NumPy's noise added, as people write it, and its release."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from adapters import compared
from dpfast import DiscreteLaplace, Gaussian, Laplace
from dpfast.bench.measure import Row

VERSIONS = ("polars",)
SIZE = 4_000_000


def rows(size: int) -> Iterator[Row]:
    rng = np.random.default_rng()
    frame = pl.DataFrame({"n": rng.integers(0, 10**6, size)}).with_columns(x=pl.col("n") / 7)
    integer, laplace, gaussian, n, x = DiscreteLaplace(1, 1), Laplace(1, 1), Gaussian(1), pl.col("n"), pl.col("x")

    def rounded() -> pl.Series:
        return pl.Series(rng.laplace(0, 1, size).round().astype(int))

    yield compared(
        "Int64 Series, rounded Laplace against discrete Laplace",
        lambda: frame["n"] + rounded(),
        lambda: integer.release(frame["n"]),
        size,
    )
    for name, before, after in (  # not by the namespace dp: another library's may stand there
        ("Int64 expression, the same", lambda: n + rounded(), lambda: integer.release(n)),
        ("Float64 expression, Laplace", lambda: x + rng.laplace(0, 1, size), lambda: laplace.release(x)),
        ("Float64 expression, Gaussian", lambda: x + rng.normal(0, 1, size), lambda: gaussian.release(x)),
    ):
        yield compared(
            name,
            lambda column=before: frame.lazy().with_columns(column()).collect(),
            lambda column=after: frame.lazy().with_columns(column()).collect(),
            size,
        )
