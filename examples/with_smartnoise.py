# SPDX-License-Identifier: Apache-2.0
"""SmartNoise SQL with exact noise: private COUNT and AVG by town. Only `mechanisms=` is new."""

import numpy as np
import pandas as pd
import snsql

from dpfast.adapters.smartnoise import Mechanisms

rng = np.random.default_rng(2026)
people = pd.DataFrame(
    {"person": range(20_000), "town": rng.integers(1, 6, 20_000), "age": rng.integers(0, 100, 20_000)}
)
columns = {
    "row_privacy": False,
    "max_ids": 1,  # a person is in one town
    "person": {"type": "int", "private_id": True},
    "town": {"type": "int"},
    "age": {"type": "int", "lower": 0, "upper": 100},
}
privacy = snsql.Privacy(epsilon=0.5, delta=1e-6, mechanisms=Mechanisms())
reader = snsql.from_df(people, metadata={"": {"open": {"people": columns}}}, privacy=privacy)

query = "SELECT town, COUNT(*) AS n, AVG(age) AS age FROM open.people GROUP BY town ORDER BY town"
for town, n, age in reader.execute(query)[1:]:
    print(f"town {town}: {n:,} people, {age:.1f} years on average")
print(f"95 %: each count within ±{reader.get_simple_accuracy(query, 0.05)[1]:.1f}")
print("spent in all: epsilon {:.2f}, delta {:.2g}".format(*reader.odometer.spent))
