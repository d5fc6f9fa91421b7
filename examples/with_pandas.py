# SPDX-License-Identifier: Apache-2.0
"""A table of counts in pandas, one row a city, made private: a Series in, a Series out."""

import numpy as np
import pandas as pd

from dpfast import DiscreteLaplace

cities = ["Bonn", "Essen", "Jena", "Kiel", "Ulm", "Trier"]  # all there are, not only those that occur
rng = np.random.default_rng(0)
visits = pd.DataFrame({"person": rng.integers(0, 4000, 9000), "city": rng.choice(cities[:5], 9000)})

once = visits.drop_duplicates(["person", "city"])  # a person counts once in a city,
kept = once.groupby("person").head(2)  # and in two cities at most: two cells change by one
counts = kept.groupby("city").size().reindex(cities, fill_value=0).rename("people")

mechanism = DiscreteLaplace(epsilon=1, sensitivity=2, unit="person")
noisy = mechanism.release(counts, lower=0)

print(noisy.sort_values(ascending=False))
print(f"95 %: all {len(noisy)} within ±{mechanism.interval(cells=len(noisy))}; spends epsilon 1")
