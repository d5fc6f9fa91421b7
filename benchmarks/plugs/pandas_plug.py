# SPDX-License-Identifier: Apache-2.0
"""pandas: a column plus NumPy's noise added, as people write it, and its release."""

from __future__ import annotations

import numpy as np
import pandas as pd
from row import Row

from dpfast import DiscreteLaplace, Gaussian, Laplace

VERSIONS = ("pandas",)
N = 4_000_000


def rows() -> list[Row]:
    rng = np.random.default_rng()
    counts = pd.Series(rng.integers(0, 10**6, N), name="people")
    nullable, arrow, values = counts.astype("Int64"), counts.astype("int64[pyarrow]"), counts / 7
    integer, laplace, gaussian = DiscreteLaplace(1, 1), Laplace(1, 1), Gaussian(1)

    def whole(column: pd.Series) -> pd.Series:
        return column + rng.laplace(0, 1, len(column)).round().astype(int)

    return [
        Row(
            "int64 Series, rounded Laplace against discrete Laplace",
            lambda: whole(counts),
            lambda: integer.release(counts),
            N,
            N,
        ),
        Row("Int64 (nullable), the same", lambda: whole(nullable), lambda: integer.release(nullable), N, N),
        Row("int64[pyarrow], the same", lambda: whole(arrow), lambda: integer.release(arrow), N, N),
        Row("float64 Series, Laplace", lambda: values + rng.laplace(0, 1, N), lambda: laplace.release(values), N, N),
        Row("float64 Series, Gaussian", lambda: values + rng.normal(0, 1, N), lambda: gaussian.release(values), N, N),
    ]
