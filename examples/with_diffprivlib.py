# SPDX-License-Identifier: Apache-2.0
"""A survey with diffprivlib, on dpfast's noise, under one budget.

It asks for a histogram, a mean, a count and a regression.
"""

import numpy as np
from diffprivlib import BudgetAccountant, models, tools

import dpfast.adapters.diffprivlib as exact

rng = np.random.default_rng(2026)
hours = rng.gamma(4, 2, 20_000).clip(0, 24)  # private: one row a person
mood = (10 - hours / 4 + rng.normal(0, 1, hours.size)).clip(0, 10)

with exact.installed(), BudgetAccountant(epsilon=2) as budget:
    counts, edges = tools.histogram(hours, epsilon=0.5, bins=8, range=(0, 24))
    mean = tools.mean(hours, epsilon=0.25, bounds=(0, 24))
    late = tools.count_nonzero(hours > 12, epsilon=0.25)
    line = models.LinearRegression(epsilon=1, bounds_X=(0, 24), bounds_y=(0, 10)).fit(hours[:, None], mood)

each = exact.Geometric(epsilon=0.5).law.interval(0.95, cells=8)
of_mean = exact.Laplace(epsilon=0.25, sensitivity=24 / hours.size).law.interval(0.95)
of_late = exact.Geometric(epsilon=0.25).law.interval(0.95)

for left, right, count in zip(edges, edges[1:], counts, strict=False):
    print(f"{left:4.0f} to {right:2.0f} hours: {count:6,}")
print(f"95 %: all eight are within ±{each} at once.")
print(f"mean {mean:.3f} hours, 95 %: ±{of_mean:.2g}; above 12 hours {late:,}, 95 %: ±{of_late}")
print(f"mood falls by {-line.coef_[0]:.2f} an hour; spent in all: {budget.total()}")
