# SPDX-License-Identifier: Apache-2.0
"""Before and after: the time of a library's own noise, and of ours through its adapter.

A module runs in its library's environment. It has VERSIONS, the packages to name; SIZE, the largest
array's; and rows(size).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast import DiscreteLaplace, Gaussian, Laplace
from dpfast.evidence.bench.measure import Reference, Row, Run
from dpfast.evidence.bench.report import Columns
from dpfast.privacy.formatting import quantity, three_digits

ROUNDS = 5
ABOUT = "values where a name gives no other number, before and after in turn"
COLUMNS: Columns = (
    ("", lambda r: r.row.name),
    ("before", lambda r: f"{quantity(np.median(r.besides), 's')} a {r.row.unit}"),
    ("after", lambda r: f"{quantity(r.figure, 's')} a {r.row.unit}"),
    ("faster", lambda r: f"{three_digits(1 / r.ratio)} ×"),
)


def compared(name: str, before: Run, after: Run, items: int, unit: str = "value", *, few: int | None = None) -> Row:
    """A library's own noise, on `few` items if it is slow, and ours through the adapter."""
    return Row(name, after, items, Reference("before", before, few or items), unit=unit, chart=True)


def inside(adapter: Any, run: Run) -> Run:
    """The library's own code, with our noise installed in it."""

    def after() -> object:
        with adapter.installed():
            return run()

    return after


INTEGER, REAL, GAUSSIAN = (DiscreteLaplace(1, 1), "laplace"), (Laplace(1, 1), "laplace"), (Gaussian(1), "normal")


def column(
    name: str, size: int, law: tuple[Any, str], add: Callable[[Any], object], release: Callable[[Any], object]
) -> Row:
    """A column plus NumPy's noise added, as people write it, and its release."""
    (mechanism, theirs), rng = law, np.random.default_rng()

    def before() -> object:
        noise = getattr(rng, theirs)(0, 1, size)
        return add(noise.round().astype(int) if law is INTEGER else noise)

    return compared(name, before, lambda: release(mechanism), size)
