# SPDX-License-Identifier: Apache-2.0
"""NumPy draws a trial's assignment on bits that nobody can predict.

Then the outcome is released privately.
"""

import numpy as np

import dpfast

rng = np.random.Generator(dpfast.ChaCha20())  # no seed: nobody can work out later who was in which group
people = 20_000
treated = rng.integers(0, 2, people).astype(bool)  # a coin for each person, so that one person changes one count
called_first = rng.permutation(people)[:5]

chance = np.where(treated, 0.55, 0.40)
recovered = np.random.default_rng(1).random(people) < chance  # synthetic outcomes: the private data
counts = np.bincount(2 * treated + recovered, minlength=4)  # a person is in one cell: sensitivity 1
mechanism = dpfast.DiscreteLaplace(epsilon=0.5, sensitivity=1)  # not rng.laplace: the adapter changes bits, not laws
noisy = mechanism.release(counts, lower=0).reshape(2, 2)  # spends epsilon 0.5

for name, (ill, well) in zip(("control", "treated"), noisy, strict=True):
    print(f"{name}: {well:,} of {ill + well:,} recovered")
print(f"95 %: all four counts within ±{mechanism.interval(0.95, cells=4)}; called first: {called_first.size} people")
