# SPDX-License-Identifier: Apache-2.0
"""Which files of the tree a program opens and which folders it lists, its children included.

Python says so itself, by audit events: each Python of an environment that `watch` has prepared
notes them, if DPFAST_OPENED names a folder. A path in a copy of the tree counts as the file that
was copied; to copy it, or to write it, is not to read it. What a compiler includes, and what the
extension was built from, is added.
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
from os import open as open_file, write  # as they are now: a test may change the system

def watching(folder):
    with open(folder + "/names") as file:
        names = set(file.read().split("\\n"))
    seen = set()

    def note(path, end=""):
        path = os.fsdecode(path)
        if path.endswith(".pyc"):
            path = path.replace("/__pycache__/", "/").rsplit("/", 1)
            path = "/".join([*path[:-1], path[-1].split(".")[0] + ".py"])
        if path in seen or os.path.basename(path.rstrip("/")) not in names:
            return
        seen.add(path)
        file = open_file(f"{folder}/noted.{os.getpid()}.{os.geteuid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        write(file, os.fsencode(os.path.abspath(path) + end + "\\n"))
        os.close(file)

    def by(*who):
        frame = sys._getframe(1).f_back  # none where Python opens its program
        return frame is not None and any(each in frame.f_code.co_filename for each in who)

    def reads(_, mode, flags):
        return flags & os.O_ACCMODE != os.O_WRONLY if mode is None else bool({*mode} & {*"r+"})

    def hook(event, arguments):
        if event == "open":
            paths, end = arguments[:1] if reads(*arguments) and not by("shutil.py") else [], ""
        elif event in ("os.listdir", "os.scandir"):  # who imports, collects or copies does not read the list
            paths, end = [] if by("importlib", "_pytest", "shutil.py") else [arguments[0] or "."], "/"
        elif event == "import":
            paths, end = arguments[1:2], ""
        elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
            words = arguments[1]
            paths, end = [words] if isinstance(words, (str, bytes)) else words, ""
        else:
            return
        for path in paths:
            if isinstance(path, (str, bytes, os.PathLike)) and path:
                note(path, end)

    return hook

sys.addaudithook(watching(os.environ["DPFAST_OPENED"]))
"""
INCLUDES = re.compile(r'^#\s*include "(.+)"', re.MULTILINE)


def watch(site_packages: Path) -> None:
    """Let each Python of an environment note what it opens, where it is asked to."""
    (site_packages / "dpfast_opened.py").write_text(HOOK)
    (site_packages / "dpfast_opened.pth").write_text(BEGINS)


def opened(command: Sequence[str], root: Path, tracked: set[str]) -> list[str]:
    """The tracked files that a command opens, and with a slash the folders that it lists.

    Raises: subprocess.CalledProcessError (the command fails).
    """
    folders = {f"{parent}/" for name in tracked for parent in Path(name).parents if parent != Path()}
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)  # a test becomes another user, who notes, too
        built = {"_dpf.abi3.so"}
        (Path(home) / "names").write_text("\n".join({Path(name).name for name in tracked | folders} | built))
        subprocess.run(command, cwd=root, env={**os.environ, "DPFAST_OPENED": home}, check=True)
        noted = {line for file in Path(home).glob("noted.*") for line in os.fsdecode(file.read_bytes()).splitlines()}
    found = {tail for path in noted for tail in _tails(path) if tail in tracked or tail in folders}
    if any(Path(path).name in built for path in noted):
        found |= {name for name in tracked if re.fullmatch(r"setup\.py|csrc/([a-z]\w*\.[ch]|build_ffi\.py)", name)}
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
