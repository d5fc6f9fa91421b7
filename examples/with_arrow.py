# SPDX-License-Identifier: Apache-2.0
"""Make a column of an Arrow table private, without a copy.

Hours without trains are nulls, which count as 0.
"""

import numpy as np
import pyarrow as pa

from dpfast import DiscreteGaussian, Sensitivity

rng = np.random.default_rng(0)
riders = rng.poisson(300, 24)
table = pa.table({"hour": range(24), "riders": pa.array(riders, pa.int32(), mask=np.arange(24) < 5)})

# a person rides in two of the hours at most, and counts once in each
mechanism = DiscreteGaussian.calibrated(epsilon=1, delta=1e-6, sensitivity=Sensitivity(l0=2, linf=1, unit="person"))
noisy = mechanism.release(table["riders"], missing=0, lower=0)
table = table.set_column(1, "riders", noisy)

print(table.slice(4, 4).to_pydict())
print(f"95 %: all {len(table)} hours within ±{mechanism.interval(cells=len(table))}")
