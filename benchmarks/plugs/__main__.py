# SPDX-License-Identifier: Apache-2.0
"""Before and after: what a library takes for its own noise, and for ours through its plug.

    python benchmarks/plugs [LIBRARY ...] [--rounds R] [--markdown docs/adapters.md]

Each <library>_plug.py beside this file has VERSIONS, the packages to name, and `rows()`; those whose library is installed
run here, in one process, before and after in turn. --markdown puts each table between the marks of its library.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from row import Row

from dpfast.bench.measure import machine

HERE = Path(__file__).parent


def timed(run: Callable[[], object]) -> float:
    """Without Python's garbage collector, whose time is that of whatever else is alive; as timeit does."""
    gc.collect()
    gc.disable()
    try:
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin
    finally:
        gc.enable()


def measure(row: Row, rounds: int) -> tuple[float, float, float]:
    """Nanoseconds a value before and after, and the median ratio."""
    row.before(), row.after()
    pairs = [(timed(row.before) / row.before_items, timed(row.after) / row.after_items) for _ in range(rounds)]
    before, after = (statistics.median(times) * 1e9 for times in zip(*pairs, strict=True))
    return before, after, statistics.median(b / a for b, a in pairs)


def quantity(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:,.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def table(rows: list[Row], versions: tuple[str, ...], rounds: int) -> str:
    lines = ["| | before | after | faster |", "| --- | --: | --: | --: |"]
    for row in rows:
        before, after, ratio = measure(row, rounds)
        lines.append(
            f"| {row.name} | {quantity(before)} a {row.unit} | {quantity(after)} a {row.unit} | {ratio:,.3g} × |"
        )
    m = machine()
    found = [f"dpfast {m['dpfast']}", f"NumPy {m['NumPy']}", *(f"{name} {metadata.version(name)}" for name in versions)]
    facts = (
        f"Medians of {rounds} rounds, before and after in turn. {m['processor']}, {m['cores']} cores, {m['instruction set']}; "
        f"{', '.join(found)}; {dt.date.today()}."
    )
    return "\n".join([*lines, "", facts])


def put(path: Path, name: str, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    start, end = f"<!-- plug:{name}:start -->", f"<!-- plug:{name}:end -->"
    before, rest = page.split(start)
    path.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    files = sorted(path.stem.removesuffix("_plug") for path in HERE.glob("*_plug.py"))
    parser = argparse.ArgumentParser(description="Before and after, by library.")
    parser.add_argument(
        "libraries", nargs="*", metavar="LIBRARY", help=f"of {', '.join(files)}; those installed by default"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    for name in options.libraries or files:
        try:
            plug = importlib.import_module(f"{name}_plug")
            rows = plug.rows()
        except ImportError as missing:
            if options.libraries:
                raise
            print(f"{name}: left out, {missing}", file=sys.stderr)
            continue
        text = table(rows, plug.VERSIONS, options.rounds)
        print(f"\n{name}\n\n{text}")
        if options.markdown:
            put(options.markdown, name, text)


if __name__ == "__main__":
    main()
