# SPDX-License-Identifier: Apache-2.0
"""The long checks: one cheap case of each."""

from __future__ import annotations

import json

import pytest
from deep import record
from proofs import tool

pytestmark = pytest.mark.slow
names = [pytest.param(name, marks=pytest.mark.timing) if name == "timing" else name for name in record.names()]


@pytest.mark.parametrize("name", names)
def test_a_cheap_case_of_each(name: str) -> None:
    """Each long check holds in its smallest form, and counts something."""
    found = record.module(name)
    for program in getattr(found, "NEEDS", ()):
        tool(program)
    figures = found.check(cheap=True)
    assert figures
    json.dumps(figures)
