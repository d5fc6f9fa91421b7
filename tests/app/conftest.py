# SPDX-License-Identifier: Apache-2.0
"""Fixtures of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import Here


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)
