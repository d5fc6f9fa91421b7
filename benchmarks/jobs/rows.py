# SPDX-License-Identifier: Apache-2.0
"""Made-up records in Parquet files, a file at a time.

    python benchmarks/jobs/rows.py FOLDER ROWS KEYS

Users and keys are skewed, and one key has half of the first file. Equal arguments give equal rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

A_FILE = 1_000_000
A_USER = 10  # rows of a user, on average


def make(folder: Path, rows: int, keys: int) -> Path:
    """Files that are there stay: they are written whole."""
    folder.mkdir(parents=True, exist_ok=True)
    users = max(1, rows // A_USER)
    for i, begin in enumerate(range(0, rows, A_FILE)):
        if (path := folder / f"{i:05}.parquet").exists():
            continue
        rng, n = np.random.default_rng([7, rows, keys, i]), min(A_FILE, rows - begin)
        user = (users * rng.random(n) ** 2).astype(np.int64) * 2_654_435_761 % 2**40
        key = (keys * rng.random(n) ** 3).astype(np.int64)
        if i == 0:
            key[: n // 2] = min(3, keys - 1)
        half = path.with_suffix(".half")
        pq.write_table(pa.table({"user": user, "key": key}), half, compression="zstd")
        half.rename(path)
    return folder


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:4]))
