# SPDX-License-Identifier: Apache-2.0
"""OpenDP: two questions to one data set under adaptive composition.

dpfast answers both with exact noise.
"""

import numpy as np
import opendp.prelude as dp

import dpfast
from dpfast.adapters.opendp import then_discrete_laplace

dp.enable_features("contrib", "honest-but-curious")

REGIONS = ["north", "east", "south", "west"]  # public
rng = np.random.default_rng(2026)
visits = rng.choice(REGIONS, 10_000, p=[0.4, 0.3, 0.2, 0.1]).tolist()  # private: a person's one visit

space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
by_region = space >> dp.t.then_count_by_categories(REGIONS, null_category=False, MO="L1Distance<i64>", TOA="i64")
ask = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=[0.5, 0.125])(visits)  # one person

fine = by_region >> then_discrete_laplace(scale=2.0)  # epsilon 1/2, by its privacy map
noisy = ask(fine)
half_width = dpfast.noise_source("discrete_laplace", 2.0).interval(0.95, cells=len(REGIONS))
print(*(f"{region:6}{count:7,}" for region, count in zip(REGIONS, noisy, strict=True)), sep="\n")
print(f"95 %: all four within ±{half_width}; spends epsilon {fine.map(1)}")

total = space >> dp.t.then_count() >> then_discrete_laplace(scale=8.0)
print(f"\nall   {ask(total):7,}")
half_width = dpfast.noise_source("discrete_laplace", 8.0).interval(0.95)
print(f"95 %: within ±{half_width}; spends epsilon {total.map(1)}")
