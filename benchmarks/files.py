# SPDX-License-Identifier: Apache-2.0
"""`dpfast privatize` of a large .npy file, beside `cp` of it; both flush what they have written.

The input lies in the page cache, if the machine has memory for twice its size. The times are the
processor's, of the whole processes: user and system.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Reference, Row, Run

SIZE, ROUNDS = 1_000_000_000, 3
ABOUT = "int64 counts in the file; processor seconds of the processes"
PIECE = 1 << 20
LAW = ("--epsilon", "1", "--sensitivity", "1", "--quiet")


def children(run: Run) -> tuple[float, object]:
    """A clock of the processor time of the processes that a run starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def read(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb", buffering=0) as file:
        room = bytearray(PIECE)
        while file.readinto(room):
            pass


def rows(size: int) -> Iterator[Row]:
    folder = tempfile.mkdtemp(prefix="dpfast-bench-")
    atexit.register(shutil.rmtree, folder)
    place = Path(folder)
    source, out, copy = place / "in.npy", place / "out.npy", place / "copy.npy"
    made = np.lib.format.open_memmap(source, "w+", np.int64, (size,))
    for begin in range(0, size, PIECE):
        made[begin : begin + PIECE] = np.arange(begin, min(begin + PIECE, size))
    made.flush()
    dpfast.KeyFile.create(place / "a.key")
    dpfast.Ledger(place / "budget.db", 10**6, create=True)
    keyed = ("--ledger", place / "budget.db", "--key-file", place / "a.key", "--label")
    labels = iter(range(10**6))

    def command(*words: object) -> None:
        subprocess.run(list(map(str, words)), check=True)

    def privatize(*, key: bool) -> None:
        options = (*keyed, f"release {next(labels)}") if key else ()
        command(sys.executable, "-m", "dpfast", "privatize", source, out, *LAW, *options)

    def copied() -> None:
        command("cp", source, copy)
        command("sync", copy)

    def clear() -> None:
        for path in (out, copy, place / "out.npy.json"):
            path.unlink(missing_ok=True)
        os.sync()
        read(source)

    cp, more = Reference("cp, and sync", copied, size), {"prepare": clear, "clock": children, "chart": True}
    yield Row("privatize, under a key and a ledger", partial(privatize, key=True), size, cp, **more)
    yield Row("privatize, without", partial(privatize, key=False), size, cp, **more)
