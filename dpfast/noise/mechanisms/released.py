# SPDX-License-Identifier: Apache-2.0
"""The types of values and of results, by name, for signatures in modules without NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Whole: TypeAlias = int | np.integer[Any]
RealNumber: TypeAlias = float | np.floating[Any]
Many: TypeAlias = npt.NDArray[Any] | Sequence[Any]
Scores: TypeAlias = npt.ArrayLike
Int64: TypeAlias = np.int64
OneWhole: TypeAlias = np.integer[Any]
OneReal: TypeAlias = np.floating[Any]
Wholes: TypeAlias = npt.NDArray[np.integer[Any]]
Reals: TypeAlias = npt.NDArray[np.floating[Any]]
Places: TypeAlias = npt.NDArray[np.int64]
