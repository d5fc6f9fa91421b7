# SPDX-License-Identifier: Apache-2.0
"""A made-up census: people by block, in tracts, counties and states; the error of each level.

The tree is compared with independent noise: each level released on its own with all of the budget,
as if nobody wanted the other levels, and the blocks' noise added up.
"""

import numpy as np

import dpfast

# Public: 8 states of some 6 counties, of some 12 tracts, of some 25 blocks, sorted by area.
rng = np.random.default_rng(2026)
counties = rng.integers(3, 10, 8).sum()
tracts = rng.integers(6, 18, counties).sum()
county_of = np.sort(rng.integers(0, counties, tracts))
blocks = 25 * tracts
tract = np.sort(rng.integers(0, tracts, blocks))
county = county_of[tract]
state = county * 8 // counties

# Private: people. Most blocks have few, and many have none. A person lives in one block.
people = rng.poisson(rng.gamma(0.4, 60, blocks))
person = dpfast.Sensitivity(1, 1)

found = dpfast.tree(people, levels=[tract, county, state], epsilon=1, sensitivity=person)
alone = dpfast.DiscreteLaplace(epsilon=1, sensitivity=person)
noisy_blocks = alone.release(people)
whole = found.integers()
print(f"{blocks:,} blocks, {people.sum():,} people; mean absolute error by level, epsilon = 1 for all of it:")
print(f"{'':>8} {'nodes':>7} {'tree':>7} {'as integers':>12} {'blocks added up':>16} {'that level alone':>17}")
for level, name in enumerate(["block", "tract", "county", "state", "country"]):
    begin, end = found.spans(level)
    true = np.add.reduceat(people, begin)
    answers = found.estimates[level], whole[level], np.add.reduceat(noisy_blocks, begin), alone.release(true)
    tree, integers, added, single = (np.abs(each - true).mean() for each in answers)
    print(f"{name:>8} {true.size:7,} {tree:7.1f} {integers:12.1f} {added:16.1f} {single:17.1f}")

begin, end = found.spans(3)
states = found.range_sum(begin, end)
inside = (states.lower <= np.add.reduceat(people, begin)) & (np.add.reduceat(people, begin) <= states.upper)
print(f"\nstates with their intervals (95 %), of which {inside.sum()} of {inside.size} hold the true count:")
print(*map("  {:,.0f} ±{:.0f}".format, states.value, states.upper - states.value), sep="\n")

empty, full = people == 0, people >= 50
print("\nthe bias of integers, which cannot be negative, beside that of the estimates:")
for name, which in (("empty blocks", empty), ("blocks of 50 and more", full)):
    print(f"  {name}: {(whole[0] - people)[which].mean():+.1f} and {(found.estimates[0] - people)[which].mean():+.1f}")
