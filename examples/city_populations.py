# SPDX-License-Identifier: Apache-2.0
"""Release the populations of 12,325 cities, so that the result hardly depends on any one resident.

A resident counts in one city, so one resident changes all counts together by 1: sensitivity 1
(data/README.md). The script prints noisy or public figures, and no true count.
"""

import json
from fractions import Fraction
from pathlib import Path

from pyarrow import csv

import dpfast

table = csv.read_csv(Path(__file__).with_name("data") / "city_populations.csv")
mechanism = dpfast.DiscreteLaplace(epsilon=Fraction(1, 10), sensitivity=1, adjacency="add-remove", unit="resident")
noisy = mechanism.release(table["population"].to_numpy(), lower=0)

one, every = mechanism.interval(0.95), mechanism.interval(0.95, cells=noisy.size)
print(f"{'city':20}{'country':8}{'noisy count':>12}   95 % half-width")
for name, country, count in zip(table["name"].to_pylist(), table["country"].to_pylist(), noisy.tolist(), strict=True):
    if country == "NZ":
        print(f"{name:20}{country:8}{count:12,}   ±{one}")
print(f"\nAll {noisy.size:,} cities at once are within ±{every} with probability 95 %.")
print(json.dumps(mechanism.metadata(), indent=2))
