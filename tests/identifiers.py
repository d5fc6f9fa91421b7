# SPDX-License-Identifier: Apache-2.0
"""Names of cases that two processes collect alike."""

from __future__ import annotations

import re


def named(value: object) -> str:
    """The name of a test, without addresses: two processes collect the same names."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))
