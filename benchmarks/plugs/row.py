# SPDX-License-Identifier: Apache-2.0
"""A comparison of one plug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """before: the library's own noise; after: ours through the plug. Each call treats so many values; `unit` names one."""

    name: str
    before: Callable[[], object]
    after: Callable[[], object]
    before_items: int
    after_items: int
    unit: str = "value"
