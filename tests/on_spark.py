# SPDX-License-Identifier: Apache-2.0
"""What is done to Spark's workers while a job runs."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
import visits

from dpfast.engines import spark
from dpfast.engines.jobs import tasks
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.keys import ipc

T = TypeVar("T")


class Fault:
    """What happens to a worker once for each result of a block. All that it gave is kept.

    seen: a folder for these results. fault: "worker before", "worker after" it gave one, it is
        killed; "executor": its executor is, afterwards; "straggler": it then takes a minute;
        "numpy": as "worker after", with noise of NumPy; "ordered": nothing, but counts depend on
        the order of rows; "": nothing.
    """

    def __init__(self, seen: Path, fault: str = "") -> None:
        seen.mkdir(exist_ok=True)
        self.seen, self.fault = seen, fault

    def __call__(self, patched: pytest.MonkeyPatch) -> None:
        write, digest, draw = Folder.write, tasks.Digest.__call__, tasks.Draw.__call__

        def writes(folder: Folder, name: str, data: bytes) -> bool:
            lost = self.fault == "numpy" and name.endswith(".parquet")  # a file that is there refuses another
            return self.happens(name, data, lambda: lost or write(folder, name, data))

        def digests(task: tasks.Digest, block: int) -> Any:
            found = digest(task, block)
            self.keep(f"{block:08}.digest", found.digest)
            return found

        def draws(task: tasks.Draw, block: int) -> pa.Table:
            found = draw(task, block)
            if self.fault == "numpy":
                noise = np.random.default_rng().laplace(0, 8, found.num_rows).round().astype(np.int64)
                found = pa.table({"page": found["page"], "count": np.asarray(found["count"]) + noise})
            return self.happens(f"{block:08}.draw", ipc(found), lambda: found)

        patched.setattr(Folder, "write", writes)
        patched.setattr(tasks.Digest, "__call__", digests)
        patched.setattr(tasks.Draw, "__call__", draws)
        if self.fault == "ordered":
            patched.setattr(tasks, "merged", visits.ordered)

    def keep(self, name: str, data: bytes) -> None:
        """Whole, or not at all: another worker's end may end this one."""
        token = secrets.token_hex(4)
        begun = self.seen / f".{token}"
        begun.write_bytes(data)
        begun.rename(self.seen / f"{name}-{token}")

    def happens(self, name: str, data: bytes, give: Callable[[], T]) -> T:
        mark = self.seen / f".{name}"
        first = self.fault not in ("", "ordered") and not mark.exists()
        self.keep(name, data)
        mark.touch()  # only now, for the same reason
        if first and self.fault == "worker before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = give()
        if first and self.fault == "executor":
            os.kill(parent(os.getppid()), signal.SIGKILL)  # above the daemon that forks workers
        if first and self.fault in ("executor", "straggler"):
            time.sleep(60)
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def twice(seen: Path) -> dict[str, int]:
    """How many blocks gave each kind of result twice or more; how many results then differed."""
    found = [(path.name.rpartition("-")[0], path.read_bytes()) for path in seen.glob("[!.]*")]
    times, kinds = (Counter(name for name, _ in each) for each in (found, set(found)))
    often = Counter(Path(name).suffix for name, n in times.items() if n > 1)
    steps = {"frozen": ".arrow", "digested": ".digest", "drawn": ".draw", "written": ".parquet"}
    counted = {f"{step} twice": often[suffix] for step, suffix in steps.items()}
    return {**counted, "different": sum(n > 1 for n in kinds.values())}


def parent(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid")).split()[1])


def connected(home: Path) -> None:
    """An application of Spark Connect, in its own process; the plans that it sends are kept."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import SparkConnectClient

    sends: Any = SparkConnectClient.to_table

    def kept(client: Any, plan: Any, *given: Any) -> Any:
        with (home / "plans").open("ab") as file:
            file.write(plan.SerializeToString())
        return sends(client, plan, *given)

    SparkConnectClient.to_table = kept
    (home / "events").mkdir()
    config = {
        "spark.eventLog.dir": (home / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.enabled": "true",
        "spark.sql.shuffle.partitions": "5",
        "spark.ui.enabled": "false",
    }
    session = SparkSession.builder.remote("local[2]").config(map=config).getOrCreate()
    try:
        rows = session.read.parquet(str(home / "rows"))
        visits.job(spark, "unknown", rows, home, "connect", resume=True)
    finally:
        session.stop()


if __name__ == "__main__":
    connected(Path(sys.argv[1]))
