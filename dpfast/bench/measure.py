# SPDX-License-Identifier: Apache-2.0
"""How it is measured: rows take turns, each right after its reference; medians; and how much memory a call adds."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

import dpfast
from dpfast import _native
from dpfast.errors import DpfastError
from dpfast.release.engine import usable_threads

Run: TypeAlias = Callable[[], object]
Tick: TypeAlias = Callable[[], object]
Kind = Literal["safe", "unsafe", "floor"]
HEAD = 1_000  # results that are compared between two timed calls
SURELY = 100  # from so many on, two equal results are no accident at any scale measured here
MEBIBYTE = 1024 * 1024
PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class Reference:
    """The operation that a row is timed right after, and divided by."""

    name: str
    run: Run
    counts: int


@dataclass(frozen=True)
class Row:
    """One thing that is measured."""

    name: str
    kind: Kind
    who: str
    counts: int  # that one run handles
    run: Run
    called: str  # what exactly was called
    against: Reference
    threads: int = 1
    chart: bool = False  # also a bar in the picture and a line in the README
    fresh: int = 0  # arrays that it makes at once, 8 bytes a count


@dataclass(frozen=True)
class Result:
    """What a row took, in each round, and its reference just before; and what it added to the peak of memory."""

    row: Row
    seconds: tuple[float, ...] = ()
    reference: tuple[float, ...] = ()
    grown: float | None = None  # bytes

    @property
    def ns(self) -> float:
        return statistics.median(self.seconds) / self.row.counts * 1e9

    @property
    def per_second(self) -> float:
        return 1e9 / self.ns

    @property
    def ratio(self) -> float:
        """Time a count over the reference's time a count, round by round: below 1 is faster."""
        per = self.row.against.counts / self.row.counts
        return statistics.median(per * ours / other for ours, other in zip(self.seconds, self.reference, strict=True))

    def record(self) -> dict[str, object]:
        row = self.row
        return {
            "name": row.name,
            "kind": row.kind,
            "who": row.who,
            "threads": row.threads,
            "counts": row.counts,
            "ns_per_count": self.ns,
            "counts_per_second": self.per_second,
            "ratio": self.ratio,
            "ratio_to": row.against.name,
            "peak_growth_bytes": self.grown,
            "called": row.called,
            "chart": row.chart,
            "seconds": list(self.seconds),
            "reference_seconds": list(self.reference),
            "reference_counts": row.against.counts,
        }


def timed(run: Run) -> tuple[float, object]:
    begin = time.perf_counter()
    out = run()
    return time.perf_counter() - begin, out


def measured(rows: Sequence[Row], rounds: int, tick: Tick = lambda: None, *, memory: bool = True) -> list[Result]:
    """An untimed round, one that looks at memory, then `rounds` timed ones over all rows in turn.

    Raises: DpfastError if two runs of dpfast gave equal noise.
    """
    found = [Result(row) for row in rows]
    heads: list[set[bytes]] = [set() for _ in rows]
    for at in range(-2 if memory else -1, rounds):
        gc.collect()  # now, and not in the middle of a row
        for i, row in enumerate(rows):
            if memory and at == -1:
                out, grown = growth(row.run)
                found[i] = replace(found[i], grown=grown)
            else:
                # A page that the machine has not used for a while can cost far more than one that another program just
                # gave back (a virtual machine's host may have taken it away): that is no property of the row.
                np.ones(row.fresh * row.counts)
                reference, _ = timed(row.against.run)
                seconds, out = timed(row.run)
                if at >= 0:
                    was = found[i]
                    found[i] = replace(was, seconds=(*was.seconds, seconds), reference=(*was.reference, reference))
            _refuse_a_repeat(row, out, heads[i])
            del out
            tick()
    return found


def _refuse_a_repeat(row: Row, out: object, seen: set[bytes]) -> None:
    if row.who != "dpfast" or not isinstance(out, np.ndarray) or out.size < SURELY:
        return
    head = out[:HEAD].tobytes()
    if head in seen:
        raise DpfastError(f"{row.name}: two timed calls gave equal noise")
    seen.add(head)


def growth(run: Run) -> tuple[object, float | None]:
    """What a run returned, and the bytes that it added to the peak of this process; None where the system cannot say."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what the allocator kept would hide what the run needs
    try:
        (PROCESS / "clear_refs").write_text("5")  # Linux: the peak so far is forgotten
        before = _peak()
    except (OSError, KeyError):
        return run(), None
    out = run()
    return out, max(_peak() - before, 0)


def _peak() -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    field = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return int(field["VmHWM"].split()[0]) * 1024


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
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "date": datetime.now(UTC).date().isoformat(),
    }


def installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
