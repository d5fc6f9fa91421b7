# SPDX-License-Identifier: Apache-2.0
"""Keys for statistical tests: fixed, unless DPFAST_FRESH_KEYS asks for the operating system's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest
from hypothesis import settings

from dpfast import _native
from dpfast.testing import fixed_key

settings.register_profile("untimed", deadline=None)  # else an example that loads numba fails by the clock
settings.load_profile("untimed")

ISAS = _native.ISAS


def named(value: object) -> str:
    """What a test is called after one of its arguments: without addresses, so that two processes collect the same names."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


@pytest.fixture
def secret() -> Callable[[str], bytes]:
    """Thirty-two bytes for a label."""

    def make(label: str) -> bytes:
        if os.environ.get("DPFAST_FRESH_KEYS"):
            return os.urandom(32)
        return fixed_key(1).derive(label)._secret

    return make
