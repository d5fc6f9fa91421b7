# SPDX-License-Identifier: Apache-2.0
"""OpenDP's own vector measurements, and ours in their place, at a million cells."""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
from row import Row

from dpfast.adapters import opendp as plug

VERSIONS = ("opendp",)
CELLS = 1_000_000
THEIRS = CELLS // 200  # theirs go cell by cell: so many take as long a cell as a million
SCALE = 10.0


def rows() -> list[Row]:
    dp.enable_features("contrib", "honest-but-curious")
    found = []
    for name, number, metric, theirs, ours in (
        ("discrete Laplace", "i64", dp.l1_distance, dp.m.make_laplace, plug.make_discrete_laplace),
        ("discrete Gaussian", "i64", dp.l2_distance, dp.m.make_gaussian, plug.make_discrete_gaussian),
        ("Laplace", "f64", dp.l1_distance, dp.m.make_laplace, plug.make_laplace),
        ("Gaussian", "f64", dp.l2_distance, dp.m.make_gaussian, plug.make_gaussian),
    ):
        vectors = dp.vector_domain(dp.atom_domain(T=number, nan=None if number == "i64" else False))
        arrays = dp.numpy.array2_domain(T=number, nan=False, num_columns=1)
        before, after, numpy = (
            m(d, metric(T="f64"), SCALE) for m, d in ((theirs, vectors), (ours, vectors), (ours, arrays))
        )
        data = np.arange(CELLS, dtype="i8" if number == "i64" else "f8") % 1000
        listed, column = data.tolist(), data.reshape(-1, 1)
        for kind, given, measurement, taken in (
            ("NumPy in, list out", data, after, data),
            ("NumPy in, NumPy out (ours in a NumPy domain)", data, numpy, column),
            ("list in, list out", listed, after, listed),
        ):
            found.append(
                Row(
                    f"{name}: {kind}",
                    lambda run=before, few=given[:THEIRS]: run(few),
                    lambda run=measurement, every=taken: run(every),
                    THEIRS,
                    CELLS,
                    "cell",
                )
            )
    return found
