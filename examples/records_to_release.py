# SPDX-License-Identifier: Apache-2.0
"""From raw rows to private counts: of known clinics, and of words that nobody listed.

A person may have many rows.
"""

import numpy as np

from dpfast import DiscreteGaussian, DiscreteLaplace, bounded_histogram, thresholded

# Private: a year of visits. Most people come about twice, to one clinic; a few come every week, to
# all clinics.
rng = np.random.default_rng(2026)
clinics = ["North", "South", "Harbour", "Old Town", "Hill", "Airport", "Campus", "Riverside"]  # all there are: public
visits = np.minimum(rng.zipf(1.7, 30_000), 300)
person = np.repeat(np.arange(visits.size) + 5_000_000, visits)
usual = np.repeat(rng.integers(0, 8, visits.size), visits)
clinic = np.array(clinics)[np.where(rng.random(person.size) < 0.3, rng.integers(0, 8, person.size), usual)]
reason = np.array([f"code {n}" for n in np.minimum(rng.zipf(1.5, person.size), 10**6)])

# One person changes at most two clinics, each by at most three visits. These bounds are chosen
# beforehand, without a look at the rows.
bounded = bounded_histogram(clinic, person, domain=clinics, max_partitions=2, max_per_partition=3)
laplace = DiscreteLaplace(epsilon=1, sensitivity=bounded.sensitivity)
noisy = bounded.release(laplace, lower=0)
print(
    f"visits, at most three a person and clinic, so that a person changes the counts by {bounded.sensitivity.l1} at most:",
    *map("{} {:,}".format, bounded.keys, noisy),
    sep="\n  ",
)
print(f"epsilon = 1; with 95 % probability all are within ±{laplace.interval(cells=noisy.size)} of the bounded counts")

gaussian = DiscreteGaussian.from_zcdp(0.1, bounded.sensitivity)
noisy = bounded.release(gaussian, lower=0)
print(f"\nthe same under 0.1-zCDP, within ±{gaussian.interval(cells=noisy.size)} (95 %):", *noisy)

# Which reasons occur is private itself: only those are shown that enough people have.
reasons, counts, change = bounded_histogram(reason, person, max_partitions=3, max_per_partition=1)
shown = thresholded(reasons, counts, epsilon=1, delta=1e-6, sensitivity=change)
most = np.argsort(-shown.counts)[:5]
print(
    f"\npeople by reason: {shown.keys.size} reach {shown.threshold}, with epsilon = 1 and delta = 1e-6; the first five:"
)
print(*map("  {} {:,}".format, shown.keys[most], shown.counts[most]), sep="\n")
print(f"the noise of a count is within ±{DiscreteLaplace(1, change.l1).interval()} with 95 % probability")
