# SPDX-License-Identifier: Apache-2.0
"""Scripts in interpreters of their own: for what a test must not do to the one that runs it."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from textwrap import dedent

import dpfast

HOME = Path(dpfast.__file__).parent.parent


def python(script: str, *arguments: object, timeout: float = 600, home: Path = HOME, **environment: str | None) -> str:
    """Run a script that finds the dpfast in `home`; its output. timeout: against a hang."""
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


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """Run Python with every warning an error; what the process said, and how it ended."""
    python = [sys.executable, "-X", "utf8", "-W", "error", *map(str, command)]
    return subprocess.run(python, capture_output=True, encoding="utf-8", timeout=600, check=False)


_EACH = """
import gc, json, os, sys, warnings
given = json.load(sys.stdin)
exec(given["first"])
gc.freeze()  # a fork that ends would look through all of it
ends = []
for folder, code in given["programs"].items():
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a library's threads wait for work, and hold no lock
        child = os.fork()
    if not child:
        os.chdir(folder)
        for number, name in ((0, os.devnull), (1, "said"), (2, "errors")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        break
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print(json.dumps(ends))
    sys.exit()
exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
"""


def each(programs: dict[Path, str], first: str, *, strict: bool) -> list[subprocess.CompletedProcess[str]]:
    """How programs end, each in its folder and in a process of its own, which is a fork.

    first: what their one parent imports, so that they need not. strict: every warning is an error.
    """
    given = json.dumps({"first": first, "programs": {str(at): code for at, code in programs.items()}})
    parent = [sys.executable, "-X", "utf8", *(["-W", "error"] if strict else []), "-c", _EACH]
    ran = subprocess.run(parent, input=given, capture_output=True, encoding="utf-8", timeout=600, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    said = [[(folder / name).read_text("utf-8") for name in ("said", "errors")] for folder in programs]
    codes = json.loads(ran.stdout)
    return [subprocess.CompletedProcess([], *one) for one in ((c, *s) for c, s in zip(codes, said, strict=True))]


_WARM = """
import atexit, gc, json, os, sys, warnings
known = None

def leave():  # to take down all that the parent loaded takes longer than most scripts
    if isinstance(known, int):
        if sys.stdout:
            sys.stdout.flush()
        os._exit(known)

atexit.register(leave)  # before what else is registered, so after it
exec(sys.argv[1])
gc.freeze()  # a fork that ends would look through all of it
for line in sys.stdin:
    code, folder, words, files = json.loads(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a library's threads wait for work, and hold no lock
        child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(folder)
for number, name in enumerate([os.devnull, *files]):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
sys.argv[1:] = words
try:
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
except SystemExit as ended:
    known = ended.code
    raise
"""


# What the command line loads before it ends, and the kernels that it has once it has counted rows.
COMMANDS = """
    import contextlib, gzip, pathlib, signal, subprocess, tarfile, tempfile, zoneinfo
    import pyarrow.json, pyarrow.parquet
    from dpfast.app.cli import STOPS, commands, main
    from dpfast.app.tables import cells, drawn, files, first_rows, gathered, groups, in_blocks, rows
    from dpfast.counts.running import state

    with contextlib.suppress(ImportError):
        import pandas  # pyarrow looks for it
    heard = {each: signal.getsignal(each) for each in STOPS}
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "rows.csv")
        source.write_text("city,person\\n" + "Oslo,p\\n" * 3)
        words = ["--by", "city", "--domain", "city=Oslo,", "--unit", "person", "--max-partitions", "1"]
        assert main(["histogram", str(source), f"{folder}/out.csv", *words, "--epsilon", "1", "--quiet"]) == 0
    for each, handler in heard.items():
        signal.signal(each, handler)
"""


class Warm:
    """Processes that have loaded what `first` loads: each is a fork of one, and may be killed."""

    def __init__(self, first: str) -> None:
        command = [sys.executable, "-c", _WARM, dedent(first)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HOME), os.environ.get("PYTHONPATH", "")])}
        self._parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, code: str, *words: object, folder: Path = HOME) -> subprocess.CompletedProcess[str]:
        """How a script ends that has these words as its arguments, and what it says."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with tempfile.TemporaryDirectory() as said:
            files = [str(Path(said, name)) for name in ("output", "errors")]
            self._parent.stdin.write(json.dumps([dedent(code), str(folder), [*map(str, words)], files]) + "\n")
            self._parent.stdin.flush()
            ended = int(self._parent.stdout.readline())
            output, errors = (Path(file).read_text("utf-8") for file in files)
        return subprocess.CompletedProcess([*map(str, words)], ended, output, errors)

    def close(self) -> None:
        self._parent.communicate()


@cache
def _loaded() -> Warm:
    warm = Warm("import numpy, dpfast")
    atexit.register(warm.close)
    return warm


def forked(script: str, *arguments: object) -> str:
    """As `python`, by a fork of a process that has loaded dpfast, and nothing else: much sooner.

    For scripts that fork and kill as they like, and are not about forks themselves.
    """
    run = _loaded().run(f"import signal; signal.alarm(600)\n{dedent(script)}", *arguments)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout


def without(stream: str) -> str:
    """The first line of a script whose process begins without this stream, as after sh's 2>&-."""
    number = ["stdin", "stdout", "stderr"].index(stream)
    return f"import os, sys; os.close({number}); sys.{stream} = sys.__{stream}__ = None\n"


# For scripts that fork: what a child makes and prints, which neither fails nor hangs.
FORKED = """
    import os, signal, sys, threading
    import numpy as np
    import dpfast

    sys.settrace(None)  # a tracer's lock that another thread holds would stay held in a child
    threading.settrace(None)

    def forked(make, fork=os.fork):
        read, write = os.pipe()
        child = fork()
        if child == 0:
            signal.alarm(300)  # should it hang
            try:
                os.close(read)
                with os.fdopen(write, "w") as out:
                    out.write(make())
                os._exit(0)
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read) as text:
            found = text.read()
        assert os.waitpid(child, 0)[1] == 0, "the child failed or hung"
        return found
"""


def workers(folder: Path, script: str, method: str) -> list[str]:
    """Run a script of processes by `method`, from a file, which they import; its words."""
    path = folder / "workers.py"
    path.write_text(script)
    run_it = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return python(run_it, path, method).split()
