# SPDX-License-Identifier: Apache-2.0
"""A step of running totals, beside what no step can do without; processor time of one thread.

Nobody pays, and nothing waits for a disk: a ledger's transaction and all flushes are left out. What
no step can do without is noise for as many cells, the digests of its counts, of its encoded totals
and of its state, and the files of its counts and its state.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from blake3 import blake3

import dpfast
from dpfast import system
from dpfast.counts.running.state import StateFile
from dpfast.counts.running.steps import Cells, Running
from dpfast.evidence.bench.measure import Reference, Row, timed
from dpfast.noise.release.steps import Here, Stepping

SIZE, ROUNDS = 100_000, 41
TOTALS = dpfast.RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
ABOUT = "cells of a year of daily totals, one thread, processor time, without a ledger's transaction and flushes"


def begun(size: int, state: Path | None) -> Running:
    """Totals that nobody pays for, with a state on the disk or in memory."""
    cells = Cells(range(size))
    seal = Stepping.of(dpfast.Key.generate().derive("benchmark"), TOTALS, cells.sorted)
    running = Running(TOTALS, seal, cells)
    file = None if state is None else StateFile(state, seal, running._first)
    return running._begin(Here(seal, TOTALS.mechanism, resume=False), file, ())


def least(folder: Path | None, counts: Any, states: list[Any]) -> Any:
    """What no step can do without. states: the arrays of one, if it is kept on the disk."""
    noisy = TOTALS.mechanism.release(counts, threads=1)
    for each in (counts, noisy, *states):
        blake3(each.data.cast("B"), max_threads=1).digest()
    if folder is not None:
        for name, arrays in (("counts", [counts]), ("state", states)):
            handle = os.open(folder / "new", os.O_CREAT | os.O_WRONLY, 0o600)
            for each in arrays:
                os.write(handle, each.data.cast("B"))
            os.close(handle)
            (folder / "new").replace(folder / name)
    return noisy


def unflushed(run: Callable[[], Any]) -> tuple[float, object]:
    """A clock of this thread, for which nothing waits for a disk."""
    with patch.object(system, "to_disk"):
        return timed(run, clock=time.thread_time)


def rows(size: int) -> Iterator[Row]:
    counts, place = np.random.default_rng(1).poisson(3, size), tempfile.TemporaryDirectory()  # for as long as the rows
    for kept, folder in (("on the disk", Path(place.name)), ("in memory", None)):
        running, days = begun(size, folder and folder / "totals"), itertools.count(1)
        states = list(TOTALS.begin(size)) if folder else []

        def step(running: Running = running, days: Iterator[int] = days, _: Any = place) -> Any:
            return running.step(next(days), counts).values

        alone = Reference("noise, digests and files alone", partial(least, folder, counts, states), size)
        yield Row(f"a step, its state {kept}", step, size, alone, unit="cell", clock=unflushed, chart=True)
