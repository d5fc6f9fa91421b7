# SPDX-License-Identifier: Apache-2.0
"""Files that a release keeps for a later one: stages, manifests, outputs, key files, records.

Some are damaged, then a release is begun again or verified. It gives the output that it gave
before, or is refused with one of dpfast's errors. It never pays twice.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs.about import about
from fuzz import Finding
from fuzz.choices import Choices
from fuzz.files import here

KINDS = ("known", "unknown", "table")
ROWS = pa.table(
    {
        "user": [f"u{i % 40}" for i in range(240)],
        "city": [("oslo", "lima", "pune", "são")[i * i % 4] for i in range(240)],
        "n": [i % 7 for i in range(240)],
    }
)
LISTED = pa.table({"city": ["lima", "oslo", "pune"], "n": [100, 200, 300]})
WORDS = [
    "in.csv", "out.csv", "--column", "n", "--epsilon", "1", "--sensitivity", "1", "--ledger", "csv.db", "--key-file",
    "visits.key", "--label", "csv", "--quiet",
]  # fmt: skip
VERBS = ("resume", "verify", "show")


class Target:
    def __init__(self, folder: Path) -> None:
        self._home, self._work = folder / "whole", folder / "work"
        self._home.mkdir()
        dpfast.KeyFile.create(self._home / "visits.key")
        (self._home / "in.csv").write_text("city,n\n" + "".join(f"c{i},{i * 17}\n" for i in range(30)))
        for kind in (*KINDS, "csv"):
            dpfast.Ledger(self._home / f"{kind}.db", 10, delta=1e-3, create=True)
        for kind in KINDS:
            self._released(self._home, kind, resume=False)
        with contextlib.chdir(self._home):
            code, said = here(["privatize", *WORDS])
        if code:
            raise Finding(f"a good release was refused: {said}")
        self._files = sorted(
            str(path.relative_to(self._home))
            for path in self._home.rglob("*")
            if path.is_file() and ".db" not in path.name
        )
        self._rows = {kind: _rows(self._home / f"{kind}.out") for kind in KINDS}
        self._csv = (self._home / "out.csv").read_bytes()

    def seeds(self) -> Iterator[bytes]:
        for file in range(len(self._files)):
            for verb in range(3):
                for kind in range(4):
                    yield bytes([kind, verb, 0, file, 1, 2, 4, file + verb, 0, 3, 200, 7, 9])
                    yield bytes([kind, verb, 0, file, 0])

    def __call__(self, data: bytes) -> None:
        chosen = Choices(data)
        kind, verb = chosen.pick([*KINDS, "csv"]), chosen.pick(VERBS)
        if self._work.exists():
            shutil.rmtree(self._work)
        shutil.copytree(self._home, self._work)
        mine = [name for name in self._files if name.startswith((kind, "visits", "in.csv", "out.csv"))]
        mine = [name for name in mine if kind == "csv" or not name.endswith(("in.csv", "out.csv", "out.csv.json"))]
        for _ in range(1 + chosen.below(2)):
            path = self._work / chosen.pick(mine)
            if chosen.below(8) == 0:
                path.unlink(missing_ok=True)
            elif path.exists():
                path.write_bytes(chosen.patched(path.read_bytes()))
        try:
            if kind == "csv":
                self._csv_again(verb)
            else:
                self._job_again(kind, verb)
        except dpfast.errors.DpfastError:
            pass
        except Finding:
            raise
        except Exception as error:
            raise Finding(f"{verb} of {kind}: {type(error).__name__}: {error}") from error
        ledger = dpfast.Ledger(self._work / f"{kind}.db")
        if ledger.verify() and sum(not each.refused for each in ledger.history()) != 1:
            raise Finding(f"{verb} of {kind} was charged again")

    def _job_again(self, kind: str, verb: str) -> None:
        out = self._work / f"{kind}.out"
        if verb == "show":
            about(str(self._work / f"{kind}.stage"))
            about(str(out))
            return
        if verb == "resume":
            self._released(self._work, kind, resume=True)
        else:
            counts, mechanism, key = self._frozen(self._work, kind)
            jobs.verify(out, counts, mechanism, key=key)
        if not _same(out, self._rows[kind]):
            raise Finding(f"{verb} of {kind} passed, and its rows are others")

    def _csv_again(self, verb: str) -> None:
        with contextlib.chdir(self._work):
            there = Path("out.csv").exists()
            code, said = here(["verify", *WORDS] if verb == "verify" else ["privatize", *WORDS, "--resume"])
            if code not in (0, 1, 2, 3, 4) or "please report" in said:
                raise Finding(f"{verb} of a CSV ended with {code}: {said[-300:]}")
            if code == 0 and Path("out.csv").read_bytes() != self._csv:
                raise Finding(f"{verb} of a CSV passed with another output")
            if code and not there and Path("out.csv").exists():
                raise Finding(f"{verb} of a CSV was refused, and left an output")

    def _frozen(self, home: Path, kind: str) -> tuple[jobs.Counts, Any, dpfast.ReleaseKey]:
        key, stage = dpfast.KeyFile(home / "visits.key").derive(kind), home / f"{kind}.stage"
        caps = {"max_partitions": 2, "max_per_partition": 3}
        if kind == "table":
            counts = jobs.counted(LISTED, by="city", column="n", key=key, stage=stage)
            return counts, dpfast.DiscreteLaplace(1, 1), key
        if kind == "known":
            counts = jobs.bounded_counts(
                ROWS, unit="user", by="city", domain=["oslo", "lima", "pune", "bern"], key=key, stage=stage, **caps
            )
            return counts, dpfast.DiscreteLaplace(1, counts.sensitivity), key
        counts = jobs.bounded_counts(ROWS, unit="user", by=["city", "n"], buckets=4, key=key, stage=stage, **caps)
        return counts, jobs.Withholding(3, 1e-4, counts.sensitivity), key

    def _released(self, home: Path, kind: str, *, resume: bool) -> None:
        counts, mechanism, key = self._frozen(home, kind)
        ledger = dpfast.Ledger(home / f"{kind}.db")
        jobs.release(counts, mechanism, key=key, ledger=ledger, to=home / f"{kind}.out", resume=resume)


def _rows(folder: Path) -> list[Any]:
    """The rows of an output, in the order of its files."""
    return [pq.read_table(path).to_pylist() for path in sorted(folder.glob("part-*.parquet"))]


def _same(folder: Path, rows: list[Any]) -> bool:
    try:
        return _rows(folder) == rows
    except (pa.ArrowException, OSError):
        return False
