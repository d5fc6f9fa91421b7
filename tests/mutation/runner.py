# SPDX-License-Identifier: Apache-2.0
"""Spoils a line in a copy of the code, and runs the tests that must fail.

A mutant is killed if a test fails or hangs. Its old text must be there exactly once, so that the
lists stay true to the code. Its tests must first pass on the code as it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue

from deep.record import ROOT, git
from places import every_test_file

from mutation.mutant import Mutant

LONGEST = 300  # seconds of one build or run of tests; on a machine at rest none takes a tenth of it
LONGEST_OF_ALL = 1800  # and of a run of the README's tests
CORES = len(os.sched_getaffinity(0))
NONE_CHOSEN, STOPPED = 5, 2  # how pytest ends when its marks leave nothing; and with workers at the first failure
ALL, FAST, SLOW = "not timing", "not slow and not timing", "slow and not timing"  # which tests may notice
_MACHINERY = {"__init__", "__main__", "depends", "drawn", "mutant", "runner"}


def listed() -> list[Mutant]:
    """All mutants, subject by subject."""
    subjects = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _MACHINERY)
    return [mutant for subject in subjects for mutant in import_module(f"mutation.{subject}").MUTANTS]


def stale(mutants: Iterable[Mutant], root: Path = ROOT) -> list[str]:
    """The names of those whose old text is not in their file exactly once."""
    return [mutant.name for mutant in mutants if (root / mutant.file).read_text().count(mutant.old) != 1]


def survivors(
    mutants: Sequence[Mutant],
    root: Path = ROOT,
    *,
    marks: str = ALL,
    workers: int = 1,
    told: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """The names of those that no test notices. told: is given a line for each mutant.

    marks: which of a mutant's tests run; without tests of its own, all that have these marks.

    Raises: AssertionError (a stale mutant; tests that fail on the code as it is, or are not there).
    """
    assert not (old := stale(mutants, root)), f"their old text is not there once: {', '.join(old)}"
    with ExitStack() as stack:
        copies: SimpleQueue[Path] = SimpleQueue()
        for _ in range(workers):
            copies.put(stack.enter_context(checkout(root)))
        pool = stack.enter_context(ThreadPoolExecutor(workers))

        def in_a_copy(work: Callable[[Path], bool]) -> bool:
            copy = copies.get()
            try:
                return work(copy)
            finally:
                copies.put(copy)

        def is_sound(tests: str) -> bool:
            return in_a_copy(lambda copy: _passes(copy, tests, marks, known=False))

        def is_killed(mutant: Mutant) -> bool:
            killed = in_a_copy(lambda copy: not _survives(copy, mutant, marks))
            told(f"{'killed  ' if killed else 'SURVIVES'}  {mutant.name}")
            return killed

        every = baseline(mutants)
        for tests, sound in zip(every, pool.map(is_sound, every), strict=True):
            assert sound, f"on clean code these fail: {tests}"
        return [mutant.name for mutant, dead in zip(mutants, pool.map(is_killed, mutants), strict=True) if not dead]


def baseline(mutants: Iterable[Mutant]) -> list[str]:
    """The tests of all mutants: those of one file and of the same marks in one run."""
    chosen: dict[str, list[str]] = {}
    for mutant in mutants:
        files, _, words = mutant.tests.partition(" -k ")
        if " -m " in words:  # by marks of its own
            files, words = mutant.tests, ""
        chosen.setdefault(files, []).append(*shlex.split(words) or [""])
    return [
        files if "" in words else f"{files} -k {shlex.quote(' or '.join(f'({each})' for each in dict.fromkeys(words)))}"
        for files, words in chosen.items()
    ]


@contextmanager
def checkout(root: Path) -> Iterator[Path]:
    """A checkout of git's files and history, with the extension and numba's cached kernels."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        built = [*root.glob("dpfast/*.so"), *root.glob("dpfast/noise/kernels/__pycache__/*.nb*")]
        named = git("ls-files", "--cached", "--others", "--exclude-standard", root=root).splitlines()
        for path in [*(root / name for name in named), *built]:
            if path.is_file():
                to = copy / path.relative_to(root)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)
        git("init", "-q", root=copy)
        objects = (root / git("rev-parse", "--git-path", "objects", root=root)).resolve()
        (copy / ".git/objects/info/alternates").write_text(f"{objects}\n")
        git("add", "-A", root=copy)
        git(
            "-c", "user.name=mutants", "-c", "user.email=", "commit", "-q", "--allow-empty", "-m", "as it is", root=copy
        )
        yield copy


def _survives(copy: Path, mutant: Mutant, marks: str) -> bool:
    path = copy / mutant.file
    clean, when = path.read_text(), path.stat()
    extensions = {so: so.read_bytes() for so in copy.glob("dpfast/*.so")}
    path.write_text(clean.replace(mutant.old, mutant.new))
    try:
        if mutant.file.startswith("csrc/"):
            _run(copy, "setup.py", "build_ext", "--inplace", "--force")
        return _passes(copy, mutant.tests, marks)
    finally:
        path.write_text(clean)
        os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))  # numba compiles a newer file anew
        for so, content in extensions.items():
            so.write_bytes(content)


def _passes(copy: Path, tests: str, marks: str, *, known: bool = True) -> bool:
    """Whether the tests pass. A hang, a crash and a package that cannot be imported are failures.

    known: whether they are there and pass on clean code. Else any other end is a list's error.
    """
    there = every_test_file(copy / "tests")
    words = [_placed(word, there, copy) if ".py" in word else word for word in shlex.split(tests)]
    chosen = ["-m", marks, *(words or ["-n", str(CORES)])]
    try:
        ended = _run(
            copy,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *chosen,
            longest=None if words else LONGEST_OF_ALL,
        )
    except subprocess.TimeoutExpired:
        return False
    none = marks != ALL and ended.returncode == NONE_CHOSEN
    stopped = not words and ended.returncode == STOPPED
    assert known or ended.returncode <= 1 or none or stopped, f"{tests}: {ended.stdout[-1500:]}{ended.stderr[-500:]}"
    return none or ended.returncode == 0


def _placed(word: str, there: dict[str, Path], copy: Path) -> str:
    """A file of tests, or a test in it, as pytest wants to be told."""
    name, separator, test = word.partition("::")
    return f"{there[name].relative_to(copy)}{separator}{test}"


def _run(copy: Path, *command: str, longest: float | None = None) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True, check=False,
        timeout=longest or LONGEST,
    )  # fmt: skip
    assert command[0] != "setup.py" or ended.returncode == 0, f"the C does not build: {ended.stderr[-1500:]}"
    return ended
