# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a histogram are about, such as "median of age, by sex", from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NAMED = 4  # columns of keys
LETTERS = 40  # a longer name is cut


def subject(record: Mapping[str, object], column: str) -> str:
    """What a column with noise is, or "" where the record does not say it.

    The text is of others, for a record may say anything.
    """
    table = record.get("histogram")
    what = _what(table, column) if isinstance(table, Mapping) else ""
    return f"{what}{_by(table.get('by'))}" if what and isinstance(table, Mapping) else ""


def _what(table: Mapping[str, object], column: str) -> str:
    mean, summed, of = (_name(table.get(name)) for name in ("mean", "sum", "of"))
    if column == "value" and of:
        return f"{'median' if table.get('quantiles') == ['1/2'] else 'quantiles'} of {of}"
    if column == "mean" and mean:
        return f"mean of {mean}"
    if column == "sum" and (mean or summed):
        less = _name(table.get("middle"))
        return f"sum of {mean} less {less}" if mean and less else f"sum of {mean or summed}"
    return "count" if column == "count" else ""


def _name(value: object) -> str:
    shown = value if isinstance(value, str) else ""
    return f"{shown[: LETTERS - 1]}…" if len(shown) > LETTERS else shown


def _by(names: object) -> str:
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        return ""
    said = [_name(name) for name in names[:NAMED]] + ["…"] * (len(names) > NAMED)
    return f", by {', '.join(said)}" if all(said) else ""
