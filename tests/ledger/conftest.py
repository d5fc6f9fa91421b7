# SPDX-License-Identifier: Apache-2.0
"""Fixtures of these tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from ledgers import MEMORY

from dpfast import (
    Ledger,
)


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder, "budget.db")


@pytest.fixture
def ledger(path) -> Ledger:
    return Ledger(path, 1, delta=Decimal("1e-6"), dataset="visits", create=True)
