# SPDX-License-Identifier: Apache-2.0
"""Spark standalone, two hosts: whatever is killed or runs twice, no byte differs, one charge."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import visits

import dpfast
from dpfast import jobs

COVERS = ("dpfast/adapters/spark.py", "dpfast/jobs", "dpfast/release/seal.py", "dpfast/release/key.py")

TESTS = Path(__file__).resolve().parents[1]
PORT = 17_077
FAULTS = ("worker before", "worker after", "executor", "straggler", "numpy")  # on_spark.Fault
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
    "spark.task.maxFailures": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def cluster(home: Path) -> Iterator[str]:
    """A master, and two workers with two addresses: Spark speculates on another host alone."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_WORKER_DIR": str(home / "work"), "SPARK_DAEMON_MEMORY": "256m"}
    address = f"spark://127.0.0.1:{PORT}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", PORT, "--webui-port", 0]
    workers = [
        ["worker.Worker", "--host", f"127.0.0.{i}", "--cores", 4, "--memory", "1g", "--webui-port", 0, address]
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


def after_death(opened: Any, home: Path, phase: str) -> dict[str, int]:
    """What a driver left that died within this phase is finished by another one."""
    from dpfast.adapters import spark

    rows = opened.read.parquet(str(home / "rows"))
    visits.job(jobs, "known", rows, home, phase, resume=True, engine=spark.Cluster(opened, 7))
    visits.same(home, "one", phase)
    return {"charges": visits.charges(home, phase)}


def under(opened: Any, home: Path, fault: str) -> dict[str, int]:
    """A release in which this happens to each block once."""
    import on_spark

    seen = home / f"{fault}.seen"
    seen.mkdir()
    rows, planted = opened.read.parquet(str(home / "rows")), on_spark.Planted(opened, on_spark.Fault(seen, fault))
    if fault != "numpy":
        visits.job(jobs, "known", rows, home, fault, resume=True, engine=planted)
        visits.same(home, "one", fault)
        return {"charges": visits.charges(home, fault), **copies(seen)}
    how: dict[str, Any] = {"key": dpfast.KeyFile(home / "visits.key").derive("known"), "engine": planted}
    counts = jobs.bounded_counts(rows, unit="user", stage=home / f"{fault}.stage", **visits.KINDS["known"], **how)
    jobs.release(counts, visits.mechanism("known", counts), ledger=None, to=home / f"{fault}.out", resume=True, **how)
    return copies(seen)


def copies(seen: Path) -> dict[str, int]:
    """How many blocks were written more than once, and how many of these not with equal rows."""
    written = [(path.name.partition("-")[0], path.read_bytes()) for path in seen.glob("[0-9]*-*")]
    times, kinds = (Counter(block for block, _ in each) for each in (written, set(written)))
    return {"blocks twice": sum(n > 1 for n in times.values()), "different": sum(n > 1 for n in kinds.values())}


def matrix(home: Path, faults: tuple[str, ...], phases: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """What was found under each fault, and after a driver's death in each phase."""
    visits.at_home(home, "one", *faults, *phases)
    rows = visits.visits()
    visits.parquet(home / "rows", rows)
    visits.job(jobs, "known", rows, home, "one")
    with cluster(home) as address:
        for phase in phases:
            died = subprocess.run([sys.executable, "-m", "deep.spark", address, home, phase], check=False)
            assert died.returncode == 9, phase
        opened = session(address)
        try:
            found = {f"driver in {phase}": after_death(opened, home, phase) for phase in phases}
            return {**found, **{fault: under(opened, home, fault) for fault in faults}}
        finally:
            opened.stop()


def check(*, cheap: bool) -> dict[str, dict[str, int]]:
    """The whole matrix; cheap: killed executors. It wants dpfast[spark], Java, two of 127.0.0.x."""
    if cheap:
        pytest.importorskip("pyspark")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", path)
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        found = matrix(Path(home), ("executor",) if cheap else FAULTS, () if cheap else visits.PHASES)
    for name, figures in found.items():
        assert figures.get("charges", 1) == 1, (name, found)
        assert figures.get("blocks twice", 3) == 3, (name, found)
        assert (figures.get("different", 0) > 0) is (name == "numpy"), (name, found)
    return found


if __name__ == "__main__":  # a driver of its own: the master's address, home, where it dies
    from dpfast.adapters import spark

    here, at = Path(sys.argv[2]), sys.argv[3]
    opened = session(sys.argv[1])
    visits.driver(opened.read.parquet(str(here / "rows")), spark.Cluster(opened), here, at, at)
