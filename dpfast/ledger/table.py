# SPDX-License-Identifier: Apache-2.0
"""The history of a ledger as a table, and its figures in words: what is spent rounded up, what is left down."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

NUMERIC = 4  # the column from which figures stand
NAMED = 2**50  # 0.3 is the name of 0.1 + 0.2 in doubles, and of their exact sum


class Entry(NamedTuple):
    """One charge. Figures are exact; those that the ledger is not kept in are None."""

    number: int
    time: str  # by the clock of who released, UTC; order is told by the number
    label: str
    mechanism: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    epsilon_total: Fraction | None = None  # with this one
    delta_total: Fraction | None = None
    rho_total: Fraction | None = None
    parameters: dict[str, Any] = {}  # noqa: RUF012  the mechanism's metadata


class History(tuple[Entry, ...]):
    """All charges of a ledger, in order. Prints as a table; `pandas.DataFrame(history)` makes one."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "nothing was released yet"
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligned = (
            "  ".join(
                cell.rjust(width) if at == 0 or at >= NUMERIC else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )
        return "\n".join(line.rstrip() for line in aligned)

    def _repr_html_(self) -> str:
        import html

        head, *rows = self._rows()
        lines = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
        lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
        return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"

    def _rows(self) -> list[list[str]]:
        names = [name for name in ("epsilon", "delta", "rho") if any(getattr(entry, name) for entry in self)]
        rows = [["#", "time (UTC)", "label", "mechanism", *names, *(f"{name} so far" for name in names)]]
        for entry in self:
            amounts = (figure(getattr(entry, name), up=True) for name in (*names, *(f"{name}_total" for name in names)))
            rows.append([str(entry.number), entry.time, entry.label, entry.mechanism, *amounts])
        return rows


def figure(value: Fraction, *, up: bool) -> str:
    """Six digits: up, the value's name if it has one, to within doubles' precision; else not below it, or not above."""
    exact = Decimal(value.numerator), Decimal(value.denominator)
    near = Context(prec=6).divide(*exact)
    if abs(Fraction(near) - value) > value / NAMED if up else Fraction(float(near)) != value:
        near = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR).divide(*exact)
    near = near.normalize()
    return f"{near:f}" if not near or -4 <= near.adjusted() < 12 else f"{near:e}"


def figures(names: Iterable[str], amounts: Iterable[Fraction], *, up: bool) -> str:
    """Such as "epsilon 0.5, delta 1e-6"."""
    return ", ".join(f"{name} {figure(amount, up=up)}" for name, amount in zip(names, amounts, strict=True))
