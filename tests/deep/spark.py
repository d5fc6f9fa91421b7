# SPDX-License-Identifier: Apache-2.0
"""Spark standalone, two hosts: whatever is killed or runs twice, no byte differs, one charge."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiers
import visits
from faulted import Planted, disk
from places import TESTS

from dpfast.engines import jobs
from dpfast.engines.jobs import verbs
from dpfast.errors import FileError, KeyReuseError

PORT = 17_077
ROOM = (1024, 1536, 2400)  # KiB of a disk: of no domain, of no stage, of no output
# Each row: a fault of on_spark.Fault, and the kind of release.
FAULTS = {
    "worker killed before it gives": ("worker before", "known"),
    "worker killed after it gave": ("worker after", "known"),
    "worker killed after it gave, unknown keys": ("worker after", "unknown"),
    "executor killed": ("executor", "known"),
    "straggler speculated": ("straggler", "known"),
    "noise of NumPy": ("numpy", "known"),
}
CONFIG = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "600m",
    "spark.log.level": "OFF",
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.interval": "200ms",
    "spark.speculation.task.duration.threshold": "10s",
    "spark.sql.shuffle.partitions": "5",
    "spark.stage.maxConsecutiveAttempts": "20",  # each executor that dies takes its part of a shuffle along
    "spark.task.maxFailures": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


# ------------------------------------------------------------------ a cluster


@contextmanager
def cluster(home: Path) -> Iterator[str]:
    """A master, and two workers with two addresses: Spark speculates on another host alone."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_WORKER_DIR": str(home / "work"), "SPARK_DAEMON_MEMORY": "256m"}
    address = f"spark://127.0.0.1:{PORT}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", PORT, "--webui-port", 0]
    workers = [
        ["worker.Worker", "--host", f"127.0.0.{i}", "--cores", 2, "--memory", "1g", "--webui-port", 0, address]
        for i in (1, 2)
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, *arguments in (master, *workers):
            command = [program, f"org.apache.spark.deploy.{name}", *map(str, arguments)]
            with (home / f"daemon-{len(started)}.log").open("wb") as log:
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            time.sleep(5)
        yield address
    finally:
        for daemon in reversed(started):
            daemon.terminate()
            daemon.wait(60)


def session(address: str) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.master(address).appName("dpfast").config(map=CONFIG).getOrCreate()


def watched(opened: Any, home: Path, name: str, fault: str = "", shards: int | None = None) -> Planted:
    """An engine whose workers keep all that they give."""
    from on_spark import Fault

    from dpfast.engines import spark

    return Planted(spark.Cluster(opened, shards), Fault(home / f"{name}.seen", fault))


def views(opened: Any, home: Path) -> Any:
    return opened.read.parquet(str(home / "rows"))


def released(opened: Any, home: Path, name: str, *fault: str, kind: str = "known", shards: int = 5) -> dict[str, Any]:
    """A release, or the rest of one; what verify takes."""
    engine = watched(opened, home, name, *fault, shards=shards)
    return visits.released(jobs, kind, views(opened, home), home, name, resume=True, engine=engine)


# ------------------------------------------------------------------ rows of the matrix


def figures(home: Path, name: str, one: str | None = "known") -> dict[str, Any]:
    """What ledger and workers saw. one: the release in one process whose bytes these are."""
    from on_spark import twice

    if one:
        visits.same(home, one, name)
    return {"charges": visits.charges(home, name), **twice(home / f"{name}.seen")}


def after_death(opened: Any, home: Path, name: str) -> dict[str, Any]:
    """What a dead driver left is finished by another, with other shards; and run again."""
    for shards in (7, 3):
        made = released(opened, home, name, shards=shards)
    found = figures(home, name)
    jobs.verify(**made)
    return found


def under(opened: Any, home: Path, name: str) -> dict[str, Any]:
    """A release in which a fault happens to each block at each step."""
    fault, kind = FAULTS[name]
    made = released(opened, home, name, fault, kind=kind)
    if fault == "numpy":
        return figures(home, name, None)
    found = figures(home, name, kind)
    jobs.verify(**made)
    return found


def full_disk(opened: Any, home: Path, name: str) -> dict[str, Any]:
    """Stage and output are on a disk that is full three times, and grows each time."""
    charged = []
    with disk(home / "disk", 64) as grow, ExitStack() as mounted:
        for part in ("stage", "out"):
            there, here = home / "disk" / part, home / f"{name}.{part}"
            there.mkdir(mode=0o700)
            here.mkdir(mode=0o700)
            subprocess.run(["mount", "--bind", there, here], check=True)  # neither may be a link
            mounted.callback(subprocess.run, ["umount", "--lazy", here], check=True)
        for size in ROOM:
            grow(size)
            with pytest.raises(FileError, match="No space left on device"):
                released(opened, home, name)
            assert not (home / f"{name}.out" / verbs.MANIFEST).exists()
            charged.append(visits.charges(home, name))
        grow(1 << 14)
        made = released(opened, home, name)
        found = {"refused": len(charged), **figures(home, name)}
        jobs.verify(**made)
    assert charged == [0, 0, 1], charged
    return found


def order_dependent(opened: Any, home: Path, name: str, phase: str) -> dict[str, Any]:
    """Counts that depend on the order of rows. A driver stops; the stage is made again."""

    def stop() -> None:
        raise KeyboardInterrupt

    tiers.forget_labels()  # as in a process of its own, whose ledger is asked
    with visits.dying(phase, stop), suppress(KeyboardInterrupt):
        released(opened, home, name, "ordered", shards=4)
    if phase == "reserve":
        shutil.rmtree(home / f"{name}.stage")
    tiers.forget_labels()
    with pytest.raises(KeyReuseError) as refused:
        released(opened, home, name, "ordered", shards=7)
    published = len(list((home / f"{name}.out").glob("*")))
    return {"ends in": refused.typename, "files published": published, **figures(home, name, None)}


# ------------------------------------------------------------------ the whole


def matrix(home: Path, faults: list[str], *, cheap: bool) -> dict[str, dict[str, Any]]:
    """What was found in each row."""
    deaths = {} if cheap else {f"driver killed in {phase}": phase for phase in visits.PHASES}
    rows: dict[str, Callable[..., dict[str, Any]]] = dict.fromkeys(faults, under)
    if not cheap:
        rows["full disk"] = full_disk
        for name, phase in (("before the seal", "freeze"), ("after the charge", "reserve")):
            rows[f"order-dependent, made again {name}"] = partial(order_dependent, phase=phase)
    visits.at_home(home, "known", "unknown", *deaths, *rows)
    visits.parquet(home / "rows", visits.visits())
    for kind in ("known", "unknown"):
        visits.job(jobs, kind, visits.visits(), home, kind)
    with cluster(home) as address:
        for name, phase in deaths.items():
            died = subprocess.run([sys.executable, "-m", "deep.spark", address, home, name, phase], check=False)
            assert died.returncode == 9, name
        opened = session(address)
        try:
            every = {**dict.fromkeys(deaths, after_death), **rows}
            return {name: row(opened, home, name) for name, row in every.items()}
        finally:
            opened.stop()


def check(*, cheap: bool) -> dict[str, dict[str, Any]]:
    """The whole matrix; cheap: killed executors. It wants dpfast[spark], Java and root."""
    if cheap:
        pytest.importorskip("pyspark")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", path)
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        found = matrix(Path(home), ["executor killed"] if cheap else list(FAULTS), cheap=cheap)
    for name, row in found.items():  # a refusal ends the job before it has seen all blocks again
        assert row["charges"] == (name != "order-dependent, made again before the seal"), (name, found)
        assert (row["different"] > 0) is (name.startswith(("noise", "order"))), (name, found)
        assert row.get("files published", 0) == 0, (name, found)
        assert "ends in" in row or max(row[each] for each in row if each.endswith("twice")) >= 3, (name, found)
    return found


if __name__ == "__main__":  # a driver of its own: the master's address, home, its name, where it dies
    here, called, at = Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    opened = session(sys.argv[1])
    visits.driver(views(opened, here), watched(opened, here, called), here, called, at)
