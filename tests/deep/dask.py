# SPDX-License-Identifier: Apache-2.0
"""Dask, a cluster of processes: whatever is killed or runs twice, no byte differs, one charge."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import faulted
import pytest
import visits

from dpfast.engines import jobs
from dpfast.errors import FileError

FAULTS = ("shuffle", "stage", "before", "after", "numpy")  # faulted.Fault, but for the straggler
DISKS = {"full stage": ("stage", 1500), "full output": ("out", 64)}  # what is on a disk of so many KiB
SETTINGS = {
    "distributed.scheduler.allowed-failures": 20,  # deaths at one task
    "distributed.deploy.lost-worker-timeout": "600s",  # else who has died twice in 15 s is given up
    "distributed.comm.timeouts.connect": "600s",
}


class Twice:
    """An engine that has both workers run each task at once: dask itself does not speculate."""

    def __init__(self, client: Any, engine: Any) -> None:
        self.client, self.engine = client, engine
        self.schema, self.everywhere, self.freeze = engine.schema, engine.everywhere, engine.freeze

    def run(self, task: Any, blocks: Any) -> list[Any]:
        self.client.wait_for_workers(2)
        return [self._both(task.only(block), block) for block in blocks]

    def _both(self, task: Any, block: int) -> Any:
        workers = list(self.client.scheduler_info(n_workers=-1)["workers"])
        sent = [self.client.submit(call, task, block, workers=[each], pure=False) for each in workers]
        found, other = self.client.gather(sent)
        assert type(found) is type(other)
        return found


def call(task: Any, block: int) -> Any:
    return task(block)


def full(engine: Any, rows: Any, home: Path, name: str) -> dict[str, int]:
    """A disk is full; when there is room, another driver goes on."""
    part, size = DISKS[name]
    planted = faulted.Planted(engine, faulted.Fault(home / f"{name}.seen", "none"))
    with faulted.disk(home / f"{name}.{part}", size) as grow:
        with pytest.raises(FileError, match="No space left on device"):
            visits.job(jobs, "known", rows, home, name, resume=True, engine=planted)
        grow(1 << 16)
        return faulted.finished(engine, rows, home, name)


def matrix(home: Path, faults: tuple[str, ...], phases: tuple[str, ...], disks: tuple[str, ...]) -> dict[str, Any]:
    """What was found under each fault, after a driver's death in each phase, on each full disk."""
    from dask import config
    from distributed import Client, LocalCluster

    from dpfast.engines import dask

    faulted.at_home(home, *faults, *phases, *disks, "straggler", "order")
    rows = str(home / "rows")
    with (
        config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        engine, other = dask.Cluster(client, 4), dask.Cluster(client, 7)
        found = {}
        for phase in phases:
            command = [sys.executable, "-m", "deep.dask", "driver", home, cluster.scheduler_address, phase]
            died = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
            assert died.returncode == 9, phase
            found[f"driver in {phase}"] = faulted.finished(other, rows, home, phase)
        found |= {fault: faulted.under(engine, rows, home, fault) for fault in faults}
        if disks:
            found |= {name: full(engine, rows, home, name) for name in disks}
            found["straggler"] = faulted.under(Twice(client, engine), rows, home, "straggler")
            found["order"] = faulted.refused((engine, other), rows, home, "order")
        return found


def check(*, cheap: bool) -> dict[str, dict[str, int]]:
    """The whole matrix; cheap: killed workers. It wants dpfast[dask], and may mount a tmpfs."""
    with tempfile.TemporaryDirectory() as home:
        return faulted.judged(faulted.alone("deep.dask", "cheap" if cheap else "whole", home))


if __name__ == "__main__":  # the matrix; or a driver of its own: home, the scheduler's address, where it dies
    what, here = sys.argv[1], Path(sys.argv[2])
    if what == "driver":
        from distributed import Client

        from dpfast.engines import dask

        with Client(sys.argv[3]) as opened:
            watched = faulted.Fault(here / f"{sys.argv[4]}.seen", "none")
            planted = faulted.Planted(dask.Cluster(opened, 4), watched)
            visits.driver(str(here / "rows"), planted, here, sys.argv[4], sys.argv[4])
    whole = what == "whole"
    found = matrix(here, FAULTS if whole else ("stage",), visits.PHASES if whole else (), tuple(DISKS) if whole else ())
    sys.stdout.write(f"{json.dumps(found)}\n")
