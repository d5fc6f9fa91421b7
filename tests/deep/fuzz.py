# SPDX-License-Identifier: Apache-2.0
"""Fuzzing guided by coverage, whose figures add up over runs: tests/fuzz/ under atheris.

FUZZ_SECONDS: of CPU time for each target, 60 unless told; 0 only records what a folder holds.
FUZZ_KEEP: a folder of corpora, findings and counts, kept between runs; a file STOP in it ends a run
after its turns. Runs are added to those of docs/assurance/fuzz.json, and tests/fuzz/corpus/ gets
the smallest inputs that reach all that was reached. The branches that the inputs take are counted
by coverage.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fuzz import CORPUS, TARGETS, corpus, judged, target

from deep.coverage import SETTINGS, rooms
from deep.record import ASSURANCE, ROOT, commit

TURN = 600.0  # seconds of CPU time for a target, before the next one has its turn
PACKED = 70_000  # bytes of the inputs of a target in the repository, before they are compressed


def check(*, cheap: bool) -> dict[str, Any]:
    """All runs and their sum. Raises AssertionError where an input breaks a promise."""
    if cheap:
        return {name: _replayed(name, 10) for name in TARGETS}
    keep = Path(os.environ.get("FUZZ_KEEP") or tempfile.mkdtemp())
    run(keep, float(os.environ.get("FUZZ_SECONDS", "60")), workers=2)
    path = ASSURANCE / "fuzz.json"
    figures = added(json.loads(path.read_text())["figures"]["runs"] if path.exists() else [], keep)
    for name in TARGETS:
        minimise(keep, name)
    unmended = [str(found) for name in TARGETS if (found := failing(keep, name))]
    assert not unmended, "\n".join(unmended)
    return {**figures, "branches": branches(keep)}


def _replayed(name: str, most: int) -> int:
    """How many inputs of a target hold: those that are kept, and seeds."""
    with tempfile.TemporaryDirectory() as folder:
        one = target(name)(Path(folder))
        inputs = [*corpus(name).values(), *one.seeds()]
        chosen = inputs[:: max(len(inputs) // most, 1)]
        wrong = [f"{data!r}: {found}" for data in chosen if (found := judged(one, data))]
    assert not wrong, "\n".join(wrong)
    return len(chosen)


# ------------------------------------------------------------------ running


def run(keep: Path, seconds: float, workers: int = 1) -> None:
    """Turns of all targets, one after another, until each has had its CPU time."""
    left = dict.fromkeys(TARGETS, seconds)
    waiting, lock = deque(TARGETS), threading.Lock()

    def work() -> None:
        while not (keep / "STOP").exists():
            with lock:
                name = next((each for each in waiting if left[each] > 0), None)
                if name is None:
                    return
                waiting.remove(name)
            left[name] -= turn(keep, name, min(TURN, left[name]))
            with lock:
                waiting.append(name)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def turn(keep: Path, name: str, seconds: float) -> float:
    """One process of a target, and a line in the log of what it did; the CPU seconds it took."""
    place = keep / name
    place.mkdir(parents=True, exist_ok=True)
    before, crashes = executions(keep, name), _crashes(place)
    began = commit()
    used = _atheris(keep, name, str(seconds))
    line = {
        "commit": began,
        "date": datetime.now(UTC).date().isoformat(),
        "target": name,
        "cpu_seconds": round(used, 1),
        "executions": executions(keep, name) - before,
        "findings": len(_crashes(place) - crashes),
    }
    with (keep / "log.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")
    return max(used, 1.0)


def _crashes(place: Path) -> set[str]:
    folder = place / "findings"
    if not folder.exists():
        return set()
    # libFuzzer keeps what was slow by the wall clock: on a busy machine that is any input.
    return {path.name for path in folder.iterdir() if path.suffix != ".txt" and not path.name.startswith("slow-unit-")}


def _atheris(keep: Path, *words: str) -> float:
    """The CPU seconds of a child, by the counts of the system for that child alone."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    with tempfile.TemporaryDirectory() as scratch, (keep / f"{words[0]}.said").open("wb") as said:
        child = subprocess.Popen(
            [sys.executable, "-m", "fuzz", *words[:2], str(keep), *words[2:]],
            cwd=scratch, env={**os.environ, "PYTHONPATH": path, "TMPDIR": scratch}, stdout=said, stderr=said,
        )  # fmt: skip
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0
    return used.ru_utime + used.ru_stime


def executions(keep: Path, name: str) -> int:
    path = keep / name / "executions"
    return int.from_bytes(path.read_bytes()[:8], "little") if path.exists() else 0


# ------------------------------------------------------------------ recording


def added(runs: list[dict[str, Any]], keep: Path) -> dict[str, Any]:
    """The runs of earlier days and of this folder, by commit, date and target; and their sums."""
    log = keep / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found: dict[tuple[str, str, str], dict[str, Any]] = {_name(each): each for each in runs}
    fresh: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in lines:
        sums = fresh.setdefault(_name(line), {**line, "cpu_seconds": 0, "executions": 0, "findings": 0})
        for figure in ("cpu_seconds", "executions", "findings"):
            sums[figure] = round(sums[figure] + line[figure], 1)
    found |= fresh
    every = [*found.values()]
    return {
        "cpu_hours": round(sum(each["cpu_seconds"] for each in every) / 3600, 2),
        "executions": {name: sum(each["executions"] for each in every if each["target"] == name) for name in TARGETS},
        "findings": sum(each["findings"] for each in every),
        "corpus": {name: len(list((keep / name / "corpus").glob("*"))) for name in TARGETS},
        "runs": every,
    }


def _name(line: dict[str, Any]) -> tuple[str, str, str]:
    return line["commit"], line["date"], line["target"]


def failing(keep: Path, name: str) -> list[str]:
    """The findings of a folder that still fail."""
    with tempfile.TemporaryDirectory() as folder:
        one, place = target(name)(Path(folder)), keep / name
        told = {each: judged(one, (place / "findings" / each).read_bytes()) for each in sorted(_crashes(place))}
    return [f"{name} {each}: {wrong}" for each, wrong in told.items() if wrong]


def branches(keep: Path) -> dict[str, Any]:
    """The branches that the inputs of a folder take, in each room where they take any."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coverage.ini"
        settings.write_text(SETTINGS.format(source=ROOT, data=folder))
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])

        def measure(*words: str) -> None:
            command = [sys.executable, "-m", "coverage", words[0], f"--rcfile={settings}", *words[1:]]
            subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True)

        for name in TARGETS:
            measure("run", "-m", "deep.fuzz", "replay", str(keep.resolve()), name)
        measure("combine", "-q")
        measure("json", "-q", "-o", "found.json")
        files = json.loads((Path(folder) / "found.json").read_text())["files"]
    found = rooms({os.path.relpath(Path(folder, name), ROOT): one for name, one in files.items()})
    return {room: one for room, one in found.items() if one["taken"]}


def replay(keep: Path, name: str) -> None:
    """Try all inputs of a folder once."""
    with tempfile.TemporaryDirectory() as folder:
        one = target(name)(Path(folder))
        for path in sorted((keep / name / "corpus").iterdir()):
            judged(one, path.read_bytes())


def minimise(keep: Path, name: str) -> None:
    """Pack the smallest inputs that reach what the corpus reaches into tests/fuzz/corpus/."""
    with tempfile.TemporaryDirectory() as folder:
        _atheris(keep, name, "merge", folder, str(keep / name / "corpus"))
        inputs = sorted((path.read_bytes() for path in Path(folder).iterdir()), key=lambda each: (len(each), each))
    CORPUS.mkdir(exist_ok=True)
    size = 0
    with zipfile.ZipFile(CORPUS / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for data in inputs:
            if (size := size + len(data) + 100) > PACKED:
                break
            packed.writestr(zipfile.ZipInfo(hashlib.sha256(data).hexdigest()[:12]), data)


if __name__ == "__main__":  # the endless form: python -m deep.fuzz KEEP WORKERS; or: replay KEEP TARGET
    if sys.argv[1] == "replay":
        replay(Path(sys.argv[2]), sys.argv[3])
    else:
        run(Path(sys.argv[1]), float("inf"), int(sys.argv[2]))
