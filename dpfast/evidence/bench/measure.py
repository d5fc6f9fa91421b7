# SPDX-License-Identifier: Apache-2.0
"""How to measure: rows take turns, each right after its reference; medians; growth of memory."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

import dpfast
from dpfast import _native
from dpfast.errors import DpfastError
from dpfast.noise.release.engine import usable_threads

Run: TypeAlias = Callable[[], object]
Clock: TypeAlias = Callable[[Run], tuple[float, object]]  # what it measures in a run, and what that returned
Figures: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Turn: TypeAlias = tuple[int, "Result", set[bytes]]  # a round, and a row with the results it gave
Bar: TypeAlias = Callable[[list[Turn]], Iterable[Turn]]  # shows how far it has come
HEAD = 1_000  # results that are compared between two timed calls
SURELY = 100  # no accident makes so many results equal, at any scale measured here
PROCESS = Path("/proc/self")
RECORDED = {"s": "seconds", "B": "bytes", "": "numbers"}


def timed(run: Run, clock: Callable[[], float] = time.perf_counter) -> tuple[float, object]:
    """Seconds, without Python's garbage collector, whose time depends on all living objects."""
    gc.disable()
    try:
        begin = clock()
        out = run()
        return clock() - begin, out
    finally:
        gc.enable()


def growth(run: Run) -> tuple[float, object]:
    """The bytes that a run adds to this process's peak memory; NaN if the system cannot say."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what the allocator kept would hide what the run needs
    try:
        (PROCESS / "clear_refs").write_text("5")  # Linux: the peak so far is forgotten
        before = _peak()
    except (OSError, KeyError):
        return math.nan, run()
    out = run()
    return max(_peak() - before, 0), out


def _peak() -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    fields = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return int(fields["VmHWM"].split()[0]) * 1024


@dataclass(frozen=True)
class Reference:
    """The operation that a row is measured right after, and divided by."""

    name: str
    run: Run
    counts: int


@dataclass(frozen=True)
class Row:
    """One thing that is measured."""

    name: str
    run: Run
    counts: int  # one run handles so many
    against: Reference | None = None
    kind: Literal["safe", "disputed", "unsafe", "floor", "sampler"] = "safe"  # a sampler is any of the first three
    who: str = "dpfast"
    called: str = ""  # the exact call, if the name does not say it
    unit: str = ""  # the unit of `counts`, if the table does not say it
    threads: int = 1
    chart: bool = False  # also a dot in the picture, or a line in a page
    prepare: Run = lambda: None  # right before each run, untimed
    clock: Clock = timed
    measures: Literal["s", "B", ""] = "s"  # what the clock tells: seconds, bytes, or a mere number
    dispute: str = ""  # the link to an open issue of its own project, which says that its noise is unsafe


@dataclass
class Result:
    """Time or memory of a row and its reference in each round, and what a run added to the peak."""

    row: Row
    runs: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    grown: float = math.nan  # bytes

    @property
    def figures(self) -> Figures:
        """Seconds, bytes or whatever is measured, a count, round by round."""
        return np.array(self.runs) / self.row.counts

    @property
    def besides(self) -> Figures:
        """The reference's figures; NaN without a reference."""
        return np.array(self.reference) / (self.row.against.counts if self.row.against else math.nan)

    @property
    def figure(self) -> float:
        return float(np.median(self.figures))

    @property
    def ns(self) -> float:
        return self.figure * 1e9

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The row's figure over the reference's, round by round: below 1 is faster."""
        low, middle, high = np.quantile(self.figures / self.besides, (0.25, 0.5, 0.75)).tolist()
        return low, middle, high

    @property
    def ratio(self) -> float:
        return self.quartiles[1]

    @property
    def least(self) -> float:
        """The ratio of both sides' least: about what an undisturbed machine would show."""
        return float(min(self.figures) / min(self.besides))

    def record(self) -> dict[str, object]:
        row, unit = self.row, RECORDED[self.row.measures]
        figures = {"ratio": self.ratio, "peak_growth_bytes": self.grown}
        if row.measures == "s":
            figures |= {"ns_per_count": self.ns, "counts_per_second": 1 / self.figure}
        return {
            **{
                name: getattr(row, name)
                for name in ("name", "kind", "dispute", "who", "threads", "counts", "called", "chart")
            },
            **{name: _known(value) for name, value in figures.items()},
            "ratio_to": row.against.name if row.against else None,
            "reference_counts": row.against.counts if row.against else None,
            unit: [_known(value) for value in self.runs],
            f"reference_{unit}": self.reference if row.against else [],
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def measured(rows: Sequence[Row], rounds: int, bar: Bar = iter, *, memory: bool = False) -> list[Result]:
    """An untimed round, one for memory if wanted, then `rounds` timed ones over all rows in turn.

    Raises: DpfastError if two runs of dpfast gave equal noise.
    """
    found = [(Result(row), set[bytes]()) for row in rows]
    for at, result, seen in bar([(at, *one) for at in range(-1 - memory, rounds) for one in found]):
        row = result.row
        if result is found[0][0]:
            gc.collect()  # now, and not during a row
        if memory and at == -1:
            result.grown, out = growth(row.run)
        else:
            reference = row.clock(row.against.run)[0] if row.against else math.nan
            row.prepare()
            figure, out = row.clock(row.run)
            if at >= 0:
                result.runs.append(figure)
                result.reference.append(reference)
        refuse_a_repeat(row, out, seen)
        del out
    return [result for result, _ in found]


def refuse_a_repeat(row: Row, out: object, seen: set[bytes]) -> None:
    """Raises: DpfastError if a run of dpfast returned what an earlier one did."""
    if isinstance(out, list) and out and isinstance(out[0], np.ndarray):
        out = np.concatenate(out)  # from small calls
    if row.who != "dpfast" or not isinstance(out, np.ndarray) or out.size < SURELY:
        return
    head = out[:HEAD].tobytes()
    if head in seen:
        raise DpfastError(f"{row.name}: two timed calls gave equal noise")
    seen.add(head)


def machine() -> dict[str, str]:
    """What a reader of the figures must know."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    field = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    cpu = field.get("model name") or platform.processor() or platform.machine()
    return {
        "processor": f"{cpu} (family {field['cpu family']}, model {field['model']})" if "cpu family" in field else cpu,
        "cores": str(usable_threads()),
        "instruction set": _native.isa_name(),
        "dpfast": dpfast.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "numba": installed("numba") or "",
        "system": " ".join((platform.system(), platform.release(), *platform.libc_ver())).strip(),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "",
        "date": datetime.now(UTC).date().isoformat(),
    }


def installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
