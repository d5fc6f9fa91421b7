# SPDX-License-Identifier: Apache-2.0
"""Polars: a Series, and expressions of a lazy frame."""

from __future__ import annotations

import numpy as np
import polars as pl

from adapters import GAUSSIAN, INTEGER, REAL, column

VERSIONS = ("polars",)
SIZE = 4_000_000


def rows(size):
    frame = pl.DataFrame({"n": np.random.default_rng().integers(0, 10**6, size)}).with_columns(x=pl.col("n") / 7)
    n, x, counts = pl.col("n"), pl.col("x"), frame["n"]
    name = "Int64 Series, rounded Laplace against discrete Laplace"
    yield column(
        name, size, INTEGER, lambda noise: counts + pl.Series(noise), lambda mechanism: mechanism.release(counts)
    )
    for name, law, given in (
        ("Int64 expression, the same", INTEGER, n),
        ("Float64 expression, Laplace", REAL, x),
        ("Float64 expression, Gaussian", GAUSSIAN, x),
    ):  # not by the namespace dp: another library's may stand there
        yield column(
            name, size, law,
            lambda noise, x=given: frame.lazy().with_columns(x + pl.Series(noise)).collect(),
            lambda mechanism, x=given: frame.lazy().with_columns(mechanism.release(x)).collect(),
        )  # fmt: skip
