# SPDX-License-Identifier: Apache-2.0
"""What dpfast costs beside what everyone knows: the table of ratios.

    python benchmarks/ratios.py [--size N] [--rounds R] [--json FILE] [--markdown FILE]

In every round every row is timed right after its reference, all in one process, so that a change of the
machine's mood falls on both. benchmarks/README.md says how to read the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rows import CALLS, HEAD, Array, Arrays, Bound, Row, Run, laws, rows

from dpfast.bench.measure import machine

SIZE, ROUNDS = 50_000_000, 7
LAW_SIZE = 20_000_000  # of the rows of the other laws, at most
CHILDREN = 7  # fresh processes for each fact about a process
START, END = "<!-- bench:start -->", "<!-- bench:end -->"


@dataclass(frozen=True)
class Result:
    """A line of the table: a figure in the bound's unit or ns a count, and the ratio's quartiles."""

    name: str
    figure: str
    ratio: tuple[float, float, float] | None
    reference: str
    bound: Bound
    verdict: str
    readme: bool
    least: float | None = None  # the ratio of the least times: what an undisturbed machine would show
    seconds: tuple[tuple[float, float], ...] = ()  # of the reference and ours, in each round


def quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return low, middle, high


def timed(run: Run, arrays: Arrays) -> tuple[float, Array]:
    begin = time.perf_counter()
    out = run(arrays)
    return time.perf_counter() - begin, out


def compare(table: list[Row], arrays: Arrays, rounds: int) -> list[Result]:
    """One untimed round, then `rounds` timed ones over all rows. No two calls of a row may give equal results."""
    times: list[list[tuple[float, float]]] = [[] for _ in table]
    heads: list[set[bytes]] = [set() for _ in table]
    for at in range(rounds + 1):
        for row, pairs, seen in zip(table, times, heads, strict=True):
            arrays.refresh()
            reference, _ = timed(row.against, arrays)
            arrays.refresh()
            ours, out = timed(row.run, arrays)
            seen.add(out[:HEAD].tobytes())
            pairs[:] = [*pairs, (reference, ours)] if at else []
        print(f"round {at} of {rounds}", file=sys.stderr)
    for row, seen in zip(table, heads, strict=True):
        if not row.repeats and len(seen) < (
            2 if row.call == 1 else rounds + 1
        ):  # one cell at scale 10 repeats by chance
            raise SystemExit(f"{row.name}: two timed calls gave equal noise")
    return [result(row, pairs, arrays.size) for row, pairs in zip(table, times, strict=True)]


def result(row: Row, pairs: list[tuple[float, float]], size: int) -> Result:
    once = statistics.median(ours for _, ours in pairs)
    figure = once / CALLS * 1e6 if row.call else once / size * 1e9
    shown = f"{figure:.2f} {'us a call' if row.call else 'ns'}"

    def times(reference: float, ours: float) -> float:
        return reference / ours if row.bound.kind == "x faster" else ours / reference

    ratio = quartiles([times(*pair) for pair in pairs])
    least = times(*(min(side) for side in zip(*pairs, strict=True)))
    verdict = row.bound.verdict(ratio[1] if row.bound.kind.startswith("x") else figure)
    return Result(row.name, shown, ratio, row.reference, row.bound, verdict, row.readme, least, tuple(pairs))


# Each prints one number. The clock starts with the interpreter running and, for a release, dpfast imported.
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
FIRST = """
import time, numpy as np, dpfast
counts = np.arange({})
t = time.perf_counter()
dpfast.DiscreteLaplace(epsilon=1, sensitivity=10).release(counts)
print(time.perf_counter() - t)
"""
GROWTH = """
import resource, numpy as np, dpfast
counts, other = np.arange({0}).astype("{2}"), np.ones({0}, "{2}")
mech = dpfast.{1}
mech.release(counts, out=other)
try:
    open("/proc/self/clear_refs", "w").write("5")  # Linux: the peak so far is forgotten, so that it hides nothing
except OSError:
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
mech.release(counts, out=other)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


GROWN = {
    "DiscreteLaplace(epsilon=1, sensitivity=10)": "int64",
    "DiscreteGaussian(128)": "int64",
    "DiscreteGaussian(1e6)": "int64",
    "Laplace(epsilon=1, sensitivity=10)": "float64",
    "Laplace(epsilon=1, sensitivity=1)": "float32",
    "Gaussian(10)": "float64",
}


def child(code: str) -> float:
    """What a fresh process prints. It may keep bytecode, as any installed package has it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def processes(size: int) -> list[Result]:
    """Facts about fresh processes. Before any array is made: a child's peak begins at its parent's."""
    child(FIRST.format(size))  # fills numba's cache, and the system's
    pairs = [(child(IMPORT.format("numpy")), child(IMPORT.format("dpfast"))) for _ in range(CHILDREN)]
    ratio, once = quartiles([ours / numpy for numpy, ours in pairs]), statistics.median(ours for _, ours in pairs)
    bound = Bound("x", 2, 1.3)
    found = [
        Result("import dpfast", f"{once:.3f} s", ratio, "import numpy", bound, bound.verdict(ratio[1]), readme=True)
    ]
    for counts in (1_000, 1_000_000):
        bound, once = Bound("s", 0.5, 0.2), statistics.median(child(FIRST.format(counts)) for _ in range(CHILDREN))
        name = f"first release of a process, {counts:,} counts"
        found.append(Result(name, f"{once:.3f} s", None, "", bound, bound.verdict(once), readme=counts > 1_000))
    for at, (mech, dtype) in enumerate(GROWN.items()):
        bound, once = Bound("MiB", 8, 2), statistics.median(child(GROWTH.format(size, mech, dtype)) for _ in range(3))
        name = "growth of peak memory in a second call" + (f", {mech} on {dtype}" if at else "")
        found.append(Result(name, f"{once:.2f} MiB", None, "", bound, bound.verdict(once), readme=not at))
    return found


# -------------------------------------------------------------------- showing


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def full_table(results: list[Result]) -> str:
    lines = [("row", "time", "ratio", "quartiles", "least", "against", "must", "aim", "verdict")]
    for r in results:
        ratio = ("", "") if r.ratio is None else (f"{r.ratio[1]:.2f}", f"{r.ratio[0]:.2f} to {r.ratio[2]:.2f}")
        least = "" if r.least is None else f"{r.least:.2f}"
        limits = r.bound.show(r.bound.must), r.bound.show(r.bound.aim)
        lines.append((r.name, r.figure, *ratio, least, r.reference, *limits, r.verdict))
    return aligned(lines)


def short_table(results: list[Result], facts: dict[str, str], size: int, rounds: int) -> str:
    lines = ["| | time | ratio | against |", "| --- | --- | --- | --- |"]
    for r in results:
        if r.readme:
            times = "" if r.ratio is None else f"{r.ratio[1]:.1f} ×{' faster' * (r.bound.kind == 'x faster')}"
            lines.append(f"| {r.name} | {r.figure.replace('us', 'µs')} | {times} | {r.reference} |")
    seen = [f"{facts['processor']}, {facts['cores']} cores, {facts['instruction set']}"]
    seen += [f"{name} {facts[name]}" for name in ("dpfast", "Python", "NumPy", "numba")]
    origin = f"{size:,} int64 counts (rows that name a law: {min(size, LAW_SIZE):,} values, scale 1), times a count, scale 10"
    origin += f" and one thread where nothing else is said; medians of {rounds} rounds."
    return "\n".join([*lines, "", origin, f"{'; '.join(seen)}; {facts['date']}."])


def write_between_marks(path: Path, text: str) -> None:
    before, start, rest = path.read_text().partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{path} has no lines {START} and {END} to write between")
    path.write_text(f"{before}{START}\n{text}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--markdown", type=Path, help="write a short table between the marks in this file")
    options = parser.parse_args()
    facts = machine()
    own = processes(options.size)
    results = [*compare(list(rows()), Arrays(options.size), options.rounds), *own]
    results += compare(list(laws()), Arrays(min(options.size, LAW_SIZE)), options.rounds)
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    print(f"{options.size:,} int64 counts, medians of {options.rounds} rounds\n\n{full_table(results)}")
    if options.json:
        record = {**facts, "size": options.size, "rounds": options.rounds, "rows": [asdict(r) for r in results]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.markdown:
        write_between_marks(options.markdown, short_table(results, facts, options.size, options.rounds))


if __name__ == "__main__":
    main()
