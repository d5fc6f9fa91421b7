# SPDX-License-Identifier: Apache-2.0
"""Which files of the tree a program opens and which folders it lists, its children included.

Python says so itself, by audit events: each Python of an environment that `watch` has prepared
notes them, if DPFAST_OPENED names a folder. A path in a copy of the tree counts as the file that
was copied; to copy a tree, or to write outside of it, is not to open its files. What a compiler
includes, what the extension was built from, and each conftest.py that a test may have are added.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

BEGINS = "import os; 'DPFAST_OPENED' in os.environ and __import__('dpfast_opened')\n"
HOOK = """\
import os, sys
from os import O_ACCMODE, O_APPEND, O_CREAT, O_WRONLY  # as they are now: a test may change the system
from os import close, geteuid, getpid, open as open_file, write

def watching(folder):
    with open(folder + "/names") as file:
        root, *names = file.read().split("\\n")
    names, seen = set(names), set()

    def note(path, end="", within=""):
        path = os.fsdecode(path)
        if path.endswith(".pyc"):
            path = path.replace("/__pycache__/", "/").rsplit("/", 1)
            path = "/".join([*path[:-1], path[-1].split(".")[0] + ".py"])
        if path in seen or os.path.basename(path.rstrip("/")) not in names:
            return
        there = os.path.abspath(path) + end
        if not there.startswith(within):
            return
        seen.add(path)
        file = open_file(f"{folder}/noted.{getpid()}.{geteuid()}", O_WRONLY | O_APPEND | O_CREAT)
        write(file, os.fsencode(there + "\\n"))
        close(file)

    def called_by(*modules):
        frame = sys._getframe(1).f_back  # none where Python opens its program
        return frame is not None and any(name in frame.f_code.co_filename for name in modules)

    def copies_a_tree():
        frame = sys._getframe(1).f_back
        while frame is not None and frame.f_code.co_filename.endswith("/shutil.py"):
            if frame.f_code.co_name == "copytree":
                return True
            frame = frame.f_back
        return False

    def hook(event, arguments):
        end = within = ""
        if event == "open":
            within = root if arguments[2] & O_ACCMODE == O_WRONLY else ""
            paths = [] if copies_a_tree() else arguments[:1]
        elif event in ("os.listdir", "os.scandir"):  # who imports, collects or copies reads no list
            paths = [] if called_by("importlib", "_pytest") or copies_a_tree() else [arguments[0] or "."]
            end = "/"
        elif event == "import":
            paths = arguments[1:2]
        elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
            words = arguments[1]
            paths = [words] if isinstance(words, (str, bytes)) else words
        else:
            return
        for path in paths:
            if isinstance(path, (str, bytes, os.PathLike)) and path:
                note(path, end, within)

    return hook

sys.addaudithook(watching(os.environ["DPFAST_OPENED"]))
"""
INCLUDES = re.compile(r'^#\s*include "(.+)"', re.MULTILINE)


def watch(site_packages: Path) -> None:
    """Let each Python of an environment note what it opens, where it is asked to."""
    for name, text in (("dpfast_opened.py", HOOK), ("dpfast_opened.pth", BEGINS)):
        (new := site_packages / f"{name}.{os.getpid()}").write_text(text)
        new.replace(site_packages / name)  # whole at once, for a Python that starts meanwhile


def opened(command: Sequence[str], root: Path, tracked: set[str]) -> list[str]:
    """The tracked files that a command opens, and with a slash the folders that it lists.

    Raises: subprocess.CalledProcessError (the command fails).
    """
    folders = {f"{parent}/" for name in tracked for parent in Path(name).parents if parent != Path()}
    with tempfile.TemporaryDirectory() as home:
        built, names = {"_dpf.abi3.so"}, Path(home) / "names"
        names.write_text("\n".join([f"{root.resolve()}/", *({Path(name).name for name in tracked | folders} | built)]))
        names.chmod(0o644)
        Path(home).chmod(0o1777)  # a test becomes another user, who notes, too
        subprocess.run(command, cwd=root, env={**os.environ, "DPFAST_OPENED": home}, check=True)
        noted = {line for file in Path(home).glob("noted.*") for line in os.fsdecode(file.read_bytes()).splitlines()}
    found = {tail for path in noted for tail in _tails(path) if tail in tracked or tail in folders}
    if any(Path(path).name in built for path in noted):
        found |= {name for name in tracked if re.fullmatch(r"setup\.py|csrc/([a-z]\w*\.[ch]|build_ffi\.py)", name)}
    tests = [Path(name) for name in found if Path(name).name.startswith("test_")]
    found |= {f"{parent}/conftest.py" for test in tests for parent in test.parents if parent != Path()}
    return sorted(_with_included(found, root))


def _tails(path: str) -> Iterator[str]:
    """A path, and what is left of it without its first folders."""
    while path:
        yield path
        path = path.partition("/")[2]


def _with_included(found: set[str], root: Path) -> set[str]:
    """These files, and of C files those that they include, and so on."""
    left = [name for name in found if name.endswith((".c", ".h"))]
    while left:
        name = left.pop()
        for included in INCLUDES.findall((root / name).read_text()):
            for place in (os.path.normpath(Path(name).parent / included), f"csrc/{included}"):
                if place not in found and (root / place).is_file():
                    found.add(place)
                    left.append(place)
    return found


SITE = Path(sysconfig.get_paths()["purelib"])
