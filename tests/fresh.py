# SPDX-License-Identifier: Apache-2.0
"""Scripts in interpreters of their own: for what a test must not do to the one that runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import dpfast

HOME = Path(dpfast.__file__).parent.parent


def python(script: str, *arguments: object, timeout: float = 600, home: Path = HOME, **environment: str | None) -> str:
    """Run a script that finds the dpfast in `home`; what it prints. Its children end with it, if it hangs.

    timeout: tells a script that hangs from one on a busy machine, on which a cold start of numba alone can take a minute.
    """
    changed = {"PYTHONPATH": os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]), **environment}
    kept = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    run = subprocess.Popen(
        [sys.executable, "-c", dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=kept, cwd=home, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = run.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        output, errors = run.communicate()
        raise AssertionError(f"the script hung\n{output}\n{errors}") from None
    assert run.returncode == 0, f"exit {run.returncode}\n{output}\n{errors}"
    return output
