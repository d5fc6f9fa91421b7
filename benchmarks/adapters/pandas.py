# SPDX-License-Identifier: Apache-2.0
"""pandas: a column plus NumPy's noise added, as people write it, and its release."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from adapters import compared
from dpfast import DiscreteLaplace, Gaussian, Laplace
from dpfast.bench.measure import Row

VERSIONS = ("pandas",)
SIZE = 4_000_000


def rows(size: int) -> Iterator[Row]:
    rng = np.random.default_rng()
    counts = pd.Series(rng.integers(0, 10**6, size), name="people")
    values = counts / 7
    integer, laplace, gaussian = DiscreteLaplace(1, 1), Laplace(1, 1), Gaussian(1)
    for name, column in (
        ("int64 Series, rounded Laplace against discrete Laplace", counts),
        ("Int64 (nullable), the same", counts.astype("Int64")),
        ("int64[pyarrow], the same", counts.astype("int64[pyarrow]")),
    ):

        def rounded(column: pd.Series = column) -> pd.Series:
            return column + rng.laplace(0, 1, size).round().astype(int)

        yield compared(name, rounded, lambda column=column: integer.release(column), size)
    yield compared(
        "float64 Series, Laplace", lambda: values + rng.laplace(0, 1, size), lambda: laplace.release(values), size
    )
    yield compared(
        "float64 Series, Gaussian", lambda: values + rng.normal(0, 1, size), lambda: gaussian.release(values), size
    )
