# SPDX-License-Identifier: Apache-2.0
"""What a mutant is."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """What is spoilt, in words; file; text and replacement; the tests that must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str  # files of tests/, and options of pytest
