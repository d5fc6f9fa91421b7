# SPDX-License-Identifier: Apache-2.0
"""Counts by city in a lazy Polars query, with noise as an expression.

Cities that nobody named are nulls, which count as 0.
"""

import numpy as np
import polars as pl

import dpfast.adapters.polars  # noqa: F401  the namespace dp
from dpfast import DiscreteLaplace

cities = pl.LazyFrame({"city": ["Bonn", "Essen", "Jena", "Kiel", "Ulm", "Trier"]})  # all there are
rng = np.random.default_rng(0)
answers = pl.LazyFrame({"person": np.arange(9000), "city": rng.choice(["Bonn", "Essen", "Jena", "Kiel", "Ulm"], 9000)})

people = answers.group_by("city").len("people")  # a person is in one row, so one cell changes by one
query = cities.join(people, on="city", how="left").with_columns(
    pl.col("people").dp.discrete_laplace(epsilon=1, sensitivity=1, missing=0, lower=0)
)
noisy = query.collect()  # once: another collect would be another release

print(noisy)
print(f"95 %: all {noisy.height} within ±{DiscreteLaplace(1, 1).interval(cells=noisy.height)}; spends epsilon 1")
