# SPDX-License-Identifier: Apache-2.0
"""The most memory that a command holds at one moment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

# Arrow's allocator keeps freed memory for some milliseconds: at times 60 MiB that nobody used.
# With no delay the figure is what a process holds.
HELD = os.environ | {"MIMALLOC_PURGE_DELAY": "0"}
MEASURED = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux's figures of one process's memory"
)
PROGRAM = """
import sys
from dpfast.app.cli import main
{before}
assert main(sys.argv[1:]) == 0
print(open("/proc/self/status").read())
"""


def peak(words: Sequence[object], before: str = "") -> int:
    """Bytes at the peak of `dpfast` with these words. before: code that runs first."""
    command = [sys.executable, "-c", PROGRAM.format(before=before), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=HELD)
    assert ended.returncode == 0, ended.stderr
    found = re.search(r"VmHWM:\s+(\d+) kB", ended.stdout)
    assert found, ended.stdout
    return int(found[1]) * 1024
