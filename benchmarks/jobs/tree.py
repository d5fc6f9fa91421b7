# SPDX-License-Identifier: Apache-2.0
"""What a process and all below it take: processor time, and memory. It needs psutil alone."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil

EVERY = 0.5  # seconds between two looks at the memory


def tree(of: int | None = None) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        root = psutil.Process(of)
        yield from (root, *root.children(recursive=True))


def cpu() -> float:
    """Processor seconds of this process and of all below it, and of those that ended."""
    seconds = 0.0
    for each in tree():
        with suppress(psutil.Error):
            seconds += sum(each.cpu_times()[:4])  # user, system, and those of children that ended
    return seconds


def memory(of: int) -> int:
    """Bytes of a process and of all below it; a page that several share counts once."""
    found = 0
    for each in tree(of):
        with suppress(psutil.Error):
            found += each.memory_full_info().pss
    return found


def spent(run: Callable[[], object]) -> dict[str, float]:
    """What a run takes of the processors, of all processes, and of the clock."""
    before, begin = cpu(), time.perf_counter()
    run()
    return {"cpu": cpu() - before, "wall": time.perf_counter() - begin}


def child(command: list[str], env: dict[str, str], log: Path) -> dict[str, Any]:
    """What a program's last line says, as JSON, and the peak of the memory below it.

    Raises: RuntimeError with the end of its log.
    """
    most = 0
    with TemporaryFile("w+") as out, log.open("w") as errors:
        with subprocess.Popen(command, env=env, stdout=out, stderr=errors, text=True) as process:
            try:
                while process.poll() is None:
                    most = max(most, memory(process.pid))
                    time.sleep(EVERY)
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            raise RuntimeError(f"{command} ended with {process.returncode}: {log.read_text()[-2_000:]}")
        out.seek(0)
        found: dict[str, Any] = json.loads(out.read().splitlines()[-1])
    return {**found, "peak": most}
