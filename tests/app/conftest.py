# SPDX-License-Identifier: Apache-2.0
"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh import COMMANDS, Warm
from people import Here


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Processes that have loaded the command line; one parent for all files."""
    processes = Warm(COMMANDS)
    yield processes
    processes.close()
