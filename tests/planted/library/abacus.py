# SPDX-License-Identifier: Apache-2.0
"""A library of columns that NumPy does not know."""

from __future__ import annotations


class Column:
    def __init__(self, beads: list[int]) -> None:
        self.beads = beads
