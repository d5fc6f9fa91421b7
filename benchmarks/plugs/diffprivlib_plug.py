# SPDX-License-Identifier: Apache-2.0
"""diffprivlib: its mechanisms one value at a time, its tools and models, and its histograms."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from diffprivlib import mechanisms, models, tools
from row import Row

from dpfast.adapters import diffprivlib as ours

VERSIONS = ("diffprivlib", "scikit-learn")
CALLS, TIMES, BINS, PEOPLE = 2000, 20, 100_000, 10_000
MECHANISMS = {
    "Geometric": ({"epsilon": 0.5}, 3),
    "GeometricTruncated": ({"epsilon": 0.5, "lower": 0, "upper": sys.maxsize}, 3),
    "Laplace": ({"epsilon": 0.5, "sensitivity": 1}, 3.0),
    "LaplaceTruncated": ({"epsilon": 0.5, "sensitivity": 1, "lower": 0, "upper": 10}, 3.0),
    "Snapping": ({"epsilon": 0.5, "sensitivity": 1, "lower": 0, "upper": 1000}, 3.0),
    "Gaussian": ({"epsilon": 0.5, "delta": 1e-6, "sensitivity": 1}, 3.0),
    "GaussianDiscrete": ({"epsilon": 0.5, "delta": 1e-6}, 3),
}


def mechanism(name: str) -> Row:
    parameters, value = MECHANISMS[name]

    def calls(cls: type) -> Callable[[], object]:
        randomise = cls(**parameters).randomise
        return lambda: [randomise(value) for _ in range(CALLS)]

    return Row(
        f"`{name}.randomise`", calls(getattr(mechanisms, name)), calls(getattr(ours, name)), CALLS, CALLS, "call"
    )


def installed(run: Callable[[], object]) -> Callable[[], None]:
    def inside() -> None:
        with ours.installed():
            run()

    return inside


def repeated(name: str, run: Callable[[], object], unit: str) -> Row:
    def runs() -> None:
        for _ in range(TIMES):
            run()

    return Row(name, runs, installed(runs), TIMES, TIMES, unit)


def rows() -> list[Row]:
    rng = np.random.default_rng(1)
    people = rng.uniform(0, 1, (PEOPLE, 8))
    flags = (people[:, 0] > 0.5).astype(int)

    def histogram() -> None:
        tools.histogram(people[:, 0], bins=BINS, range=(0, 1))

    def square() -> None:
        tools.histogram2d(people[:, 0], people[:, 1], bins=300, range=[(0, 1), (0, 1)])

    def means() -> None:
        tools.mean(people, bounds=(0, 1), axis=0)

    def regression() -> None:
        models.LinearRegression(bounds_X=([0] * 8, [1] * 8), bounds_y=(0, 1)).fit(people, flags)

    def bayes() -> None:
        models.GaussianNB(bounds=([0] * 8, [1] * 8)).fit(people, flags)

    return [
        Row(f"`histogram`, {BINS:,} bins of {PEOPLE:,} values", histogram, installed(histogram), BINS, BINS, "bin"),
        Row(f"`histogram2d`, 300 × 300 bins of {PEOPLE:,} values", square, installed(square), 300**2, 300**2, "bin"),
        *map(mechanism, MECHANISMS),
        repeated(f"`mean` of 8 columns of {PEOPLE:,}", means, "call"),
        repeated(f"`LinearRegression.fit`, {PEOPLE:,} × 8", regression, "fit"),
        repeated(f"`GaussianNB.fit`, {PEOPLE:,} × 8 (partly theirs)", bayes, "fit"),
    ]
