# SPDX-License-Identifier: Apache-2.0
"""Jobs on every engine that is installed: `python benchmarks jobs`, see benchmarks/README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from dpfast.evidence.bench.measure import machine
from dpfast.evidence.bench.page import around_marks, write_between_marks
from dpfast.evidence.bench.report import Report

HERE = Path(__file__).resolve().parent
ROWS, KEYS, ROUNDS = (10**6, 10**7, 10**8), 10**6, 3
COLD, ONCE = 10**6, 10**8  # rows of a cold job at most, and of a job that runs once


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks jobs", description=__doc__)
    parser.add_argument(
        "--rows", type=int, nargs="*", default=ROWS, help=f"of each job; a cold one of at most {COLD:,} is before it"
    )
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of warm jobs; one of {ONCE:,} rows runs once")
    parser.add_argument("--engines", nargs="*", help="by default all")
    parser.add_argument("--tumult", metavar="PYTHON", help="of an environment with tmlt.analytics and psutil")
    parser.add_argument("--beside", type=int, default=10**6, help="rows of Tumult's job")
    parser.add_argument("--scratch", type=Path, help="a folder on a disk; rows that are made there are used again")
    parser.add_argument(
        "--json", type=Path, required=True, help="the record: what it holds and is not measured now, stays"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="PAGE", help="write the tables of the record between its marks there"
    )
    parser.add_argument("--picture", type=Path, help="draw rows a second, and the share of noise: .png or .svg")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> None:
    from jobs import engines, page, rows, tree

    options = arguments(words)
    if options.markdown:
        for mark in page.MARKS:
            around_marks(options.markdown, mark)  # fails, before hours are spent
    if options.picture:
        import dpfast.app.pictures.bench as draw
    names = engines.ENGINES if options.engines is None else options.engines
    record: dict[str, Any] = {"jobs": {}}
    if options.json.exists():
        record = json.loads(options.json.read_text())
    scratch = (options.scratch or Path(mkdtemp(prefix="dpfast-jobs-"))).resolve()
    scratch.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "TMPDIR": str(scratch)}

    def measured(name: str, size: int, rounds: int, command: list[str]) -> dict[str, Any]:
        least, work = min(COLD, size), scratch / "work"
        folders = [rows.make(scratch / f"rows {n} {options.keys}", n, options.keys) for n in (least, size)]
        record["bytes a row"] = sum(file.stat().st_size for file in folders[1].iterdir()) / size
        print(f"{name}: {size:,} rows, {options.keys:,} keys", file=sys.stderr)
        try:
            log = scratch / f"{name} {size}.log"
            return tree.child([*command, str(work), str(options.keys), str(rounds), *map(str, folders)], env, log)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def keep() -> None:
        record["machine"] = facts
        options.json.write_text(json.dumps(record, indent=1) + "\n")

    facts, failed = machine(), False
    try:
        for size in sorted(options.rows):
            for name in names:
                if missing := engines.ENGINES[name].missing():
                    print(f"{name}: LEFT OUT, {missing}", file=sys.stderr)
                    continue
                rounds, command = 1 if size >= ONCE else options.rounds, [sys.executable, "-m", "jobs.engines", name]
                try:
                    record["jobs"][f"{name} {size}"] = measured(name, size, rounds, command)
                except RuntimeError as error:
                    print(f"{name}: FAILED, {error}", file=sys.stderr)
                    failed = True
                else:
                    keep()
        if options.tumult:
            command = [options.tumult, str(HERE / "tumult.py")]
            record["tumult"] = measured("Tumult Analytics", options.beside, 1, command)
            keep()
    finally:
        if options.scratch is None:
            shutil.rmtree(scratch)
    for mark, text in page.texts(record).items():
        print(f"\n{mark}\n\n{text}")
        if options.markdown:
            write_between_marks(options.markdown, mark, text)
    if options.picture and record["jobs"]:
        report = Report(record["machine"], options.keys, options.rounds, [])
        draw.engines(report, *page.curves(record), 100 * page.SHARE, options.picture)
    if failed:
        sys.exit(1)
