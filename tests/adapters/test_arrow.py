# SPDX-License-Identifier: Apache-2.0
"""pyarrow: what test_columns.py leaves."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from columns import COUNTS  # noqa: E402


def test_memory_of_a_large_column() -> None:
    """No copy of the column but the result, of two chunks one: pyarrow's and NumPy's counts."""
    column = pa.array(np.arange(2**20))
    COUNTS.release(column)
    for values, copies in ((column, 0), (pa.chunked_array([column[: 2**19], column[2**19 :]]), 1)):
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            noisy = COUNTS.release(values, threads=1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert noisy.nbytes == 2**23
        assert peak < (1 + copies) * 2**23 + 2**20
        assert pa.total_allocated_bytes() - before < 2**16
