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

COVERS = ("dpfast/adapters/spark.py", "dpfast/jobs", "dpfast/release/seal.py", "dpfast/release/key.py")

TESTS = Path(__file__).resolve().parents[1]
PORT = 17_077
FAULTS = ("worker before", "worker after", "executor", "straggler", "numpy")
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
        for daemon in started:
            daemon.wait(60)


def session(address: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(address).appName("dpfast")
    for name, value in CONFIG.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def driver(address: str, home: Path, phase: str) -> None:
    """A driver that dies within a phase."""
    import visits

    from dpfast.adapters import spark

    opened = session(address)
    works = spark.Cluster.run

    def run(self: Any, task: Any, blocks: Any) -> Any:
        if phase == "draw" and type(task).__name__ == "Publish":  # one block is written, and the others are not
            works(self, task, [1])
            os._exit(9)
        return works(self, task, blocks)

    spark.Cluster.run = run  # type: ignore[method-assign]
    with visits.dying(phase, lambda: os._exit(9)):
        rows = opened.read.parquet(str(home / "rows"))
        visits.job(_jobs(), "known", rows, home, phase, resume=True, engine=spark.Cluster(opened))


def _jobs() -> Any:
    from dpfast import jobs

    return jobs


def copies(seen: Path) -> dict[str, int]:
    """How many blocks were written more than once, and how many of these not with equal rows."""
    written = [path for path in seen.iterdir() if not path.name.startswith("died-")]
    times = Counter(path.name.partition("-")[0] for path in written)
    different = Counter(block for block, _ in {(path.name.partition("-")[0], path.read_bytes()) for path in written})
    return {
        "blocks twice": sum(n > 1 for n in times.values()),
        "different": sum(n > 1 for n in different.values()),
    }


def one_fault(opened: Any, home: Path, fault: str) -> dict[str, int]:
    """A release in which this happens to each block once."""
    import on_spark
    import visits

    name = fault.replace(" ", "-")
    seen = home / f"{name}.seen"
    seen.mkdir()
    rows = opened.read.parquet(str(home / "rows"))
    planted = on_spark.Planted(opened, on_spark.Fault(seen, fault))
    if fault != "numpy":
        visits.job(_jobs(), "known", rows, home, name, resume=True, engine=planted)
        visits.same(home, "one", name)
        assert visits.charges(home, name) == 1
        return copies(seen)
    key = _key(home)
    counts = _jobs().bounded_counts(rows, unit="user", key=key, stage=home / f"{name}.stage", engine=planted,
                                    **visits.KINDS["known"])  # fmt: skip
    _jobs().release(counts, visits.mechanism("known", counts), key=key, ledger=None, to=home / f"{name}.out",
                    resume=True, engine=planted)  # fmt: skip
    return copies(seen)


def _key(home: Path) -> Any:
    import dpfast

    return dpfast.KeyFile(home / "visits.key").derive("known")


def check(*, cheap: bool) -> dict[str, Any]:
    """The whole matrix; cheap: a killed executor, in one application."""
    import pytest

    pytest.importorskip("pyspark")
    import visits

    faults, phases = (("executor",), ()) if cheap else (FAULTS, visits.PHASES)
    kept = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYSPARK_PYTHON")}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found: dict[str, Any] = {}
    try:
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as address:
            home = visits.at_home(Path(folder), "one", *(fault.replace(" ", "-") for fault in faults), *phases)
            rows = visits.visits()
            visits.parquet(home / "rows", rows)
            visits.job(_jobs(), "known", rows, home, "one")
            for phase in phases:
                died = subprocess.run([sys.executable, "-m", "deep.spark", address, home, phase], check=False)
                assert died.returncode == 9, phase
            opened = session(address)
            for phase in phases:
                from dpfast.adapters import spark

                again = opened.read.parquet(str(home / "rows"))
                visits.job(_jobs(), "known", again, home, phase, resume=True, engine=spark.Cluster(opened, 7))
                visits.same(home, "one", phase)
                found[f"driver in {phase}"] = {"charges": visits.charges(home, phase)}
                assert visits.charges(home, phase) == 1
            for fault in faults:
                found[fault] = one_fault(opened, home, fault)
                assert found[fault]["blocks twice"] == 3, (fault, found)
                assert (found[fault]["different"] > 0) is (fault == "numpy"), (fault, found)
            opened.stop()
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return found


if __name__ == "__main__":
    driver(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
