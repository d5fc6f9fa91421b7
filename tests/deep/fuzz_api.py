# SPDX-License-Identifier: Apache-2.0
"""Hostile arguments to everything public: only dpfast's errors, nothing private, nothing half done.

First every hostile value for every parameter, one at a time; then several at random. Processes of
their own turn a crash or a hang into a finding.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doors import Call, surface
from hostile import HOSTILE, hostile, outcome
from places import TESTS

AT_ONCE = 20_000  # calls with several hostile arguments, in the whole check
BATCH = 2_500  # calls of one process
HANGS = 600  # seconds of one call, the first of which compiles kernels


def check(*, cheap: bool) -> dict[str, int]:
    """Counts calls and refusals. Raises AssertionError with all that was found wrong."""
    _finds_what_is_planted()
    total = {"calls": 0, "refused": 0}
    wrong: list[str] = []
    several = [f"random:{seed}:{BATCH}" for seed in range(AT_ONCE // BATCH)]
    shares = ["random:1:200"] if cheap else [*_singles(), *several]
    for share in shares:
        found = _in_a_process(share)
        wrong += found.pop("wrong")
        for name, count in found.items():
            total[name] += count
    assert not wrong, "\n".join(wrong)
    return total


def _singles() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return [f"each:{call.name}" for call in surface(Path(folder))]


def _finds_what_is_planted() -> None:
    """A crash, a hang and a plain error, each in a process that reports or ends."""
    for planted, told in {"crash": "ended by signal", "hang": "hung", "plain": "IndexError"}.items():
        assert told in "".join(_in_a_process(f"planted:{planted}")["wrong"]), f"{planted} was not found"


def _in_a_process(share: str) -> dict[str, Any]:
    here = TESTS
    path = os.pathsep.join([str(here.parent), str(here), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "deep.fuzz_api", share],
            cwd=folder, env={**os.environ, "PYTHONPATH": path, "TMPDIR": folder}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode == 0:
            return dict(json.loads(run.stdout.splitlines()[-1]))  # a hostile function may print, too
        last = Path(folder, "last")
        where = last.read_text() if last.exists() else share
    how = f"ended by signal {-run.returncode}" if run.returncode < 0 else "failed"
    if "Timeout" in run.stderr:
        how = f"hung for {HANGS} s or longer"
    return {"wrong": [f"{where}: the process {how}\n{run.stderr[-1500:]}"]}


# ------------------------------------------------------------------ in a process


def _calls(share: str) -> Iterator[tuple[Call, dict[str, str]]]:
    """Each call and the hostile values, by their names, that it is to get."""
    kind, _, rest = share.partition(":")
    everything = surface(Path.cwd())
    if kind == "each":
        call = next(call for call in everything if call.name == rest)
        for parameter in call.fuzzed:
            for value in HOSTILE:
                yield call, {parameter: value}
    elif kind == "random":
        seed, _, n = rest.partition(":")
        at_random = random.Random(seed)
        fuzzed = [call for call in everything if call.fuzzed]
        for _ in range(int(n)):
            call = at_random.choice(fuzzed)
            several = at_random.sample(call.fuzzed, at_random.randint(1, min(3, len(call.fuzzed))))
            yield call, {parameter: at_random.choice([*HOSTILE]) for parameter in several}
    else:
        yield Call("planted", {"crash": _crash, "hang": _hang, "plain": _plain}[rest], {}), {}


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang() -> None:
    time.sleep(3600)


def _plain() -> None:
    raise IndexError("list index out of range")


def _run(share: str) -> dict[str, Any]:
    found: dict[str, Any] = {"calls": 0, "refused": 0, "wrong": []}
    with Path("last").open("w") as last:  # kept open: a crash leaves the name of the call
        for call, values in _calls(share):
            said = f"{call.name}({', '.join(f'{parameter}={value}' for parameter, value in values.items())})"
            last.seek(0)
            last.write(f"{said:<500}")
            last.flush()
            arguments = call.arguments(**{parameter: hostile(parameter, value) for parameter, value in values.items()})
            if call.data and found["calls"] % 2 and "out" not in values:
                arguments["out"] = arguments[call.data]  # in place
            faulthandler.dump_traceback_later(1 if share == "planted:hang" else HANGS, exit=True)
            wrong, refusal = outcome(call, arguments)
            faulthandler.cancel_dump_traceback_later()
            found["calls"] += 1
            found["refused"] += refusal is not None
            if wrong:
                found["wrong"].append(f"{said}: {wrong}")
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(sys.argv[1])))
