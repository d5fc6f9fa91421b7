# SPDX-License-Identifier: Apache-2.0
"""Tumult Core: its measurement on a Series, value by value, and as one release."""

from __future__ import annotations

import numpy as np
import pandas as pd
from row import Row
from tmlt.core.domains.numpy_domains import NumpyFloatDomain
from tmlt.core.measurements import noise_mechanisms as noise
from tmlt.core.measurements.pandas_measurements import series

from dpfast.adapters import tumult

VERSIONS = ("tmlt.core", "pandas")
FEW, MANY = 2_000, 1_000_000


def rows() -> list[Row]:
    counts, values = pd.Series(np.arange(MANY)), pd.Series(np.arange(MANY) / 3)
    floats = NumpyFloatDomain()
    found = []
    for data, theirs in (
        (counts, noise.AddGeometricNoise(2)),
        (counts, noise.AddGeometricNoise(1000)),
        (counts, noise.AddDiscreteGaussianNoise(4)),
        (values, noise.AddLaplaceNoise(floats, 2)),
        (values, noise.AddGaussianNoise(floats, 4)),
    ):
        before, after, few = series.AddNoiseToSeries(theirs), tumult.AddNoiseToSeries(theirs), data[:FEW]
        scale = getattr(theirs, "alpha", None) or getattr(theirs, "scale", None) or theirs.sigma_squared
        found.append(
            Row(
                f"`AddNoiseToSeries({type(theirs).__name__}({scale}))`",
                lambda f=before, x=few: f(x), lambda f=after, x=data: f(x), FEW, MANY,
            )
        )  # fmt: skip
    return found
