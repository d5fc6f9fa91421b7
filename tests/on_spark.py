# SPDX-License-Identifier: Apache-2.0
"""What is done to Spark's workers while a job runs."""

from __future__ import annotations

import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpfast import jobs
from dpfast.adapters import spark
from dpfast.jobs import tasks
from dpfast.jobs.keys import ipc


class Within:
    """A task in a worker to which something is done."""

    def __init__(self, task: Any, what: Any) -> None:
        self.task, self.what = task, what

    def only(self, *blocks: int) -> Within:
        return Within(self.task.only(*blocks), self.what)

    def __call__(self, *given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patched:
            self.what(patched)
            return self.task(*given)


class Planted(spark.Cluster):
    """An engine in whose workers something is done."""

    def __init__(self, session: Any, what: Any, shards: int | None = None) -> None:
        super().__init__(session, shards)
        self.what = what

    def everywhere(self, check: Any) -> list[Any]:
        return super().everywhere(Within(check, self.what))

    def freeze(self, rows: Any, bound: jobs.Bound, freeze: Any) -> Any:
        return super().freeze(rows, bound, Within(freeze, self.what))

    def run(self, task: Any, blocks: Any) -> list[Any]:
        return super().run(Within(task, self.what), blocks)


class Fault:
    """What happens to a worker at the first write of each block; what is written is kept.

    fault: "worker before", "worker after" it is killed; "executor": its executor is, afterwards;
        "straggler": it then takes a minute; "numpy": as "worker after", with fresh noise of NumPy.
    """

    def __init__(self, seen: Path, fault: str) -> None:
        self.seen, self.fault = seen, fault

    def __call__(self, patched: pytest.MonkeyPatch) -> None:
        put = tasks.put

        def puts(to: Any, block: int, table: pa.Table) -> Any:
            died = self.seen / f"died-{block}"
            first = not died.exists()
            if self.fault == "numpy":
                noise = np.random.default_rng().laplace(0, 8, table.num_rows).round().astype(np.int64)
                table = pa.table({"page": table["page"], "count": np.asarray(table["count"]) + noise})
            (self.seen / f"{block}-{secrets.token_hex(4)}").write_bytes(ipc(table))
            died.touch()  # only now: what kills one block may take others with it
            if first and self.fault == "worker before":
                os.kill(os.getpid(), signal.SIGKILL)
            found = (tasks.file_of(block), table.num_rows) if self.fault == "numpy" else put(to, block, table)
            if first and self.fault == "executor":
                os.kill(parent(os.getppid()), signal.SIGKILL)  # above the daemon that forks workers
                time.sleep(60)
            if first and self.fault == "straggler":
                time.sleep(60)
            if first:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        patched.setattr(tasks, "put", puts)


def parent(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid")).split()[1])
