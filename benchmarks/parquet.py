# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize` of a large Parquet file, beside a bare copy of its batches by pyarrow.

The file has two columns of int64, ids and counts, in row groups of 2**20. The times are the
processor's, of the whole processes: user and system. The memory is the peak of the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from files import LAW, PIECE, read

import dpfast
from dpfast.evidence.bench.measure import Reference, Row, Run

SIZE, ROUNDS = 100_000_000, 3
ABOUT = "rows in the file; processor seconds, or the peak memory, of the processes"
VERSIONS = ("pyarrow",)
COPY = f"""
import sys, pyarrow.parquet as pq
source = pq.ParquetFile(sys.argv[1])
with pq.ParquetWriter(sys.argv[2], source.schema_arrow) as made:
    for batch in source.iter_batches({PIECE}):
        made.write_batch(batch)
"""


def seconds(run: Run) -> tuple[float, object]:
    used: Any = run()
    return used.ru_utime + used.ru_stime, None


def peak(run: Run) -> tuple[float, object]:
    used: Any = run()
    return used.ru_maxrss * 1024, None


def command(*words: object) -> object:
    """What a process used."""
    child = subprocess.Popen(list(map(str, words)))
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, words)
    return used


def rows(size: int) -> Iterator[Row]:
    folder = tempfile.mkdtemp(prefix="dpfast-bench-")
    atexit.register(shutil.rmtree, folder)
    place, generator = Path(folder), np.random.default_rng(1)
    source, out = place / "in.parquet", place / "out.parquet"
    with pq.ParquetWriter(source, pa.schema({"id": pa.int64(), "count": pa.int64()})) as made:
        for begin in range(0, size, PIECE):
            ids = np.arange(begin, min(begin + PIECE, size))
            made.write_batch(
                pa.record_batch({"id": ids, "count": generator.poisson(1000, ids.size)}, schema=made.schema)
            )
    dpfast.KeyFile.create(place / "a.key")
    dpfast.Ledger(place / "budget.db", 10**6, create=True)
    keyed = ("--ledger", place / "budget.db", "--key-file", place / "a.key", "--label")
    labels = iter(range(10**6))

    def privatize(*, key: bool) -> object:
        options = (*keyed, f"release {next(labels)}") if key else ()
        return command(sys.executable, "-m", "dpfast", "privatize", source, out, "--column", "count", *LAW, *options)

    def clear() -> None:
        out.unlink(missing_ok=True)
        os.sync()
        read(source)

    copy = Reference("a bare copy by pyarrow", partial(command, sys.executable, "-c", COPY, source, out), size)
    for name, key in (("privatize, under a key and a ledger", True), ("privatize, without", False)):
        run = partial(privatize, key=key)
        yield Row(name, run, size, copy, prepare=clear, clock=seconds, chart=True)
        yield Row(f"{name}: peak memory", run, 1, prepare=clear, clock=peak, measures="B", chart=True)
