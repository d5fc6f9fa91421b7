# SPDX-License-Identifier: Apache-2.0
"""The history of a ledger as a table; what was spent is rounded up."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from dpfast.privacy.formatting import amount, html_table

NUMERIC = 4  # the column from which figures stand


class Entry(NamedTuple):
    """One charge, or one refused attempt.

    Figures are exact; those that the ledger is not kept in are None.
    """

    number: int
    time: str  # by the clock of who released, UTC; the number gives the order
    label: str
    mechanism: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    epsilon_total: Fraction | None = None  # with this one
    delta_total: Fraction | None = None
    rho_total: Fraction | None = None
    parameters: dict[str, Any] = {}  # noqa: RUF012  the mechanism's metadata
    refused: bool = False  # for its values: it cost nothing, and nothing was drawn
    mu_squared: Fraction | None = None
    mu_squared_total: Fraction | None = None


class History(tuple[Entry, ...]):
    """All charges of a ledger in order. Prints as a table; `pandas.DataFrame(history)` is one."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "nothing was released yet"
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        sides = [str.rjust if at == 0 or at >= NUMERIC else str.ljust for at in range(len(widths))]
        lines = (
            "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)) for row in rows
        )
        return "\n".join(map(str.rstrip, lines))

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        return html_table(rows, head)

    def rows(self) -> list[list[str]]:
        """The head and a row for each charge, as text; what nobody spent has no column."""
        names = [
            name for name in ("epsilon", "delta", "rho", "mu_squared") if any(getattr(entry, name) for entry in self)
        ]
        rows = [["#", "time (UTC)", "label", "mechanism", *names, *(f"{name} so far" for name in names)]]
        for entry in self:
            figures = (amount(getattr(entry, name), up=True) for name in (*names, *(f"{name}_total" for name in names)))
            what = entry.mechanism
            if entry.refused:
                what += f", refused: {entry.parameters.get('refused', '')}"
            rows.append([str(entry.number), entry.time, entry.label, what, *figures])
        return rows
