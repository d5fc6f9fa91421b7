# SPDX-License-Identifier: Apache-2.0
"""pandas: columns of each kind of number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from adapters import GAUSSIAN, INTEGER, REAL, column

VERSIONS = ("pandas",)
SIZE = 4_000_000


def rows(size):
    counts = pd.Series(np.random.default_rng().integers(0, 10**6, size), name="people")
    for name, law, given in (
        ("int64 Series, rounded Laplace against discrete Laplace", INTEGER, counts),
        ("Int64 (nullable), the same", INTEGER, counts.astype("Int64")),
        ("int64[pyarrow], the same", INTEGER, counts.astype(pd.ArrowDtype(pa.int64()))),
        ("float64 Series, Laplace", REAL, counts / 7),
        ("float64 Series, Gaussian", GAUSSIAN, counts / 7),
    ):
        yield column(name, size, law, lambda noise, x=given: x + noise, lambda mechanism, x=given: mechanism.release(x))
