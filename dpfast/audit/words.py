# SPDX-License-Identifier: Apache-2.0
"""How numbers and lists read in a report."""

from __future__ import annotations

import math
from collections.abc import Sequence


def number(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return "-0.0" if value == 0 and math.copysign(1, value) < 0 else f"{int(value):,}"
    if value > 0 and math.frexp(value)[0] == 0.5 and not 1e-3 < value < 1e3:
        return f"2**{math.frexp(value)[1] - 1}"
    return f"{value:.6g}"


def few(parts: Sequence[str]) -> str:
    if not parts:
        return "nothing"
    shown = list(parts[:4])
    if len(parts) > 4:
        return f"{', '.join(shown)} or one of {len(parts) - 4:,} more"
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def percentage(hits: int, n: int) -> str:
    return "none" if not hits else f"{100 * hits / n:.4g} %"


def up(value: float) -> str:
    digits = 3 - math.ceil(math.log10(value))
    return f"{math.ceil(value * 10.0**digits) / 10.0**digits:.4g}"
