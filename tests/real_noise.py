# SPDX-License-Identifier: Apache-2.0
"""Real noise of other libraries' adapters: a goodness-of-fit test, in units of its scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

ALPHA = 1e-9  # false alarms


def rejected(noise: npt.NDArray[np.float64], law: Any) -> bool:
    """Whether noise is not `stats.laplace` or `stats.norm`: by shape, and by scale."""
    n = noise.size
    if law is stats.laplace:
        size = stats.gamma(n).cdf(np.abs(noise).sum())
    else:
        size = stats.chi2(n).cdf(np.square(noise).sum())
    return bool(stats.kstest(noise, law.cdf).pvalue < ALPHA / 2 or 2 * min(size, 1 - size) < ALPHA / 2)
