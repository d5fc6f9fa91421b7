# SPDX-License-Identifier: Apache-2.0
import numpy as np

import dpfast

ages = np.random.default_rng(2026).integers(0, 100, 1_000_000)  # private: one age a person
counts, edges = np.histogram(ages, bins=range(0, 101, 10))  # public edges; a person is in one bin: sensitivity 1
mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
noisy = mechanism.release(counts, lower=0)  # spends epsilon 1
print(*(f"{age:2}-{age + 9}: {count:,}" for age, count in zip(edges, noisy, strict=False)), sep="\n")
print(f"95 %: each within ±{mechanism.interval(0.95)}, all at once within ±{mechanism.interval(0.95, cells=10)}")
