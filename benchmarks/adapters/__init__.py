# SPDX-License-Identifier: Apache-2.0
"""Before and after: what a library takes for its own noise, and for ours through its adapter.

Each module is of one library, whose environment must be the one that runs it, and has VERSIONS, the packages to name.
"""

from __future__ import annotations

from dpfast.bench.figures import figure, quantity
from dpfast.bench.measure import Reference, Row, Run
from dpfast.bench.report import Columns

ROUNDS = 5
ABOUT = "values where a name gives no other number, before and after in turn"


def compared(name: str, before: Run, after: Run, items: int, unit: str = "value", *, few: int | None = None) -> Row:
    """The library's own noise (for so few items, where it is slow), and ours through the adapter."""
    return Row(name, after, items, Reference("before", before, few or items), unit=unit, chart=True)


COLUMNS: Columns = (
    ("", lambda r: r.row.name),
    ("before", lambda r: f"{quantity(r.beside, 's')} a {r.row.unit}"),
    ("after", lambda r: f"{quantity(r.figure, 's')} a {r.row.unit}"),
    ("faster", lambda r: f"{figure(1 / r.ratio)} ×"),
)
