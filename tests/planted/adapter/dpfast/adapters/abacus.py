# SPDX-License-Identifier: Apache-2.0
"""abacus, a library that test_extension.py makes up: a release of a Column is a Column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from abacus import Column


def release(released: Callable[..., Any], values: Column, options: dict[str, Any]) -> Column:
    return Column(released(np.array(values.beads), **options).tolist())
