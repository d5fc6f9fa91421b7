# SPDX-License-Identifier: Apache-2.0
"""diffprivlib: its mechanisms one value at a time, its tools and models, and its histograms."""

from __future__ import annotations

import sys

import numpy as np
from diffprivlib import mechanisms, models, tools

from adapters import compared, inside
from dpfast.adapters import diffprivlib as ours
from dpfast.evidence.bench.measure import Run

VERSIONS = ("diffprivlib", "scikit-learn")
SIZE = 100_000  # bins
CALLS, TIMES, PEOPLE, SIDE = 2000, 20, 10_000, 300
MECHANISMS = {
    "Geometric": ({"epsilon": 0.5}, 3),
    "GeometricTruncated": ({"epsilon": 0.5, "lower": 0, "upper": sys.maxsize}, 3),
    "Laplace": ({"epsilon": 0.5, "sensitivity": 1}, 3.0),
    "LaplaceTruncated": ({"epsilon": 0.5, "sensitivity": 1, "lower": 0, "upper": 10}, 3.0),
    "Snapping": ({"epsilon": 0.5, "sensitivity": 1, "lower": 0, "upper": 1000}, 3.0),
    "Gaussian": ({"epsilon": 0.5, "delta": 1e-6, "sensitivity": 1}, 3.0),
    "GaussianDiscrete": ({"epsilon": 0.5, "delta": 1e-6}, 3),
}


def calls(module: object, name: str) -> Run:
    parameters, value = MECHANISMS[name]
    randomise = getattr(module, name)(**parameters).randomise
    return lambda: [randomise(value) for _ in range(CALLS)]


def rows(size):
    people = np.random.default_rng(1).uniform(0, 1, (PEOPLE, 8))
    x, y, flags = people[:, 0], people[:, 1], (people[:, 0] > 0.5).astype(int)
    unit, sides, of = ([0] * 8, [1] * 8), [(0, 1), (0, 1)], f"bins of {PEOPLE:,} values"
    for name, run, bins in (
        (f"`histogram`, {size:,} {of}", lambda: tools.histogram(x, bins=size, range=(0, 1)), size),
        (f"`histogram2d`, {SIDE} × {SIDE} {of}", lambda: tools.histogram2d(x, y, bins=SIDE, range=sides), SIDE**2),
    ):
        yield compared(name, run, inside(ours, run), bins, "bin")
    for name in MECHANISMS:
        yield compared(f"`{name}.randomise`", calls(mechanisms, name), calls(ours, name), CALLS, "call")
    regression, bayes = models.LinearRegression, models.GaussianNB
    for name, run, item in (
        (f"`mean` of 8 columns of {PEOPLE:,}", lambda: tools.mean(people, bounds=(0, 1), axis=0), "call"),
        (
            f"`LinearRegression.fit`, {PEOPLE:,} × 8",
            lambda: regression(bounds_X=unit, bounds_y=(0, 1)).fit(people, flags),
            "fit",
        ),
        (f"`GaussianNB.fit`, {PEOPLE:,} × 8 (partly theirs)", lambda: bayes(bounds=unit).fit(people, flags), "fit"),
    ):

        def repeated(run: Run = run) -> object:
            return [run() for _ in range(TIMES)]

        yield compared(name, repeated, inside(ours, repeated), TIMES, item)
