# SPDX-License-Identifier: Apache-2.0
"""OpenDP's own vector measurements, and ours in their place, at a million cells."""

from __future__ import annotations

from functools import partial

import numpy as np
import opendp.prelude as dp

from adapters import compared
from dpfast.adapters import opendp as ours

VERSIONS = ("opendp",)
SIZE = 1_000_000
FEWER = 200  # theirs go cell by cell: so many times fewer take as long a cell as a million
SCALE = 10.0


def rows(size):
    dp.enable_features("contrib", "honest-but-curious")
    for name, number, metric, make, make_ours in (
        ("discrete Laplace", "i64", dp.l1_distance, dp.m.make_laplace, ours.make_discrete_laplace),
        ("discrete Gaussian", "i64", dp.l2_distance, dp.m.make_gaussian, ours.make_discrete_gaussian),
        ("Laplace", "f64", dp.l1_distance, dp.m.make_laplace, ours.make_laplace),
        ("Gaussian", "f64", dp.l2_distance, dp.m.make_gaussian, ours.make_gaussian),
    ):
        vectors = dp.vector_domain(dp.atom_domain(T=number, nan=None if number == "i64" else False))
        arrays = dp.numpy.array2_domain(T=number, nan=False, num_columns=1)
        before, after, numpy = (
            m(d, metric(T="f64"), SCALE) for m, d in ((make, vectors), (make_ours, vectors), (make_ours, arrays))
        )
        data = np.arange(size, dtype="i8" if number == "i64" else "f8") % 1000
        listed, few = data.tolist(), -(-size // FEWER)
        for kind, given, measurement, taken in (
            ("NumPy in, list out", data, after, data),
            ("NumPy in, NumPy out (ours in a NumPy domain)", data, numpy, data.reshape(-1, 1)),
            ("list in, list out", listed, after, listed),
        ):
            theirs = partial(before, given[:few])
            yield compared(f"{name}: {kind}", theirs, partial(measurement, taken), size, "cell", few=few)
