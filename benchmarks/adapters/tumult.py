# SPDX-License-Identifier: Apache-2.0
"""Tumult Core: its measurement on a Series, value by value, and as one release."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from tmlt.core.domains.numpy_domains import NumpyFloatDomain
from tmlt.core.measurements import noise_mechanisms as noise
from tmlt.core.measurements.pandas_measurements import series

from adapters import compared
from dpfast.adapters import tumult

VERSIONS = ("tmlt.core", "pandas")
SIZE = 1_000_000
FEWER = 500  # times fewer values for theirs


def rows(size):
    counts, values, few = pd.Series(np.arange(size)), pd.Series(np.arange(size) / 3), -(-size // FEWER)
    for data, theirs in (
        (counts, noise.AddGeometricNoise(2)),
        (counts, noise.AddGeometricNoise(1000)),
        (counts, noise.AddDiscreteGaussianNoise(4)),
        (values, noise.AddLaplaceNoise(NumpyFloatDomain(), 2)),
        (values, noise.AddGaussianNoise(NumpyFloatDomain(), 4)),
    ):
        scale = getattr(theirs, "alpha", None) or getattr(theirs, "scale", None) or theirs.sigma_squared
        before, after = (
            partial(series.AddNoiseToSeries(theirs), data[:few]),
            partial(tumult.AddNoiseToSeries(theirs), data),
        )
        yield compared(f"`AddNoiseToSeries({type(theirs).__name__}({scale}))`", before, after, size, few=few)
