# SPDX-License-Identifier: Apache-2.0
"""Fail if a chosen ratio is more than 15 % worse than the baseline in each of three runs.

    python benchmarks/compare.py [--size N] [--rounds R] [--baseline FILE] [--update]

Exit codes: 0 no ratio is worse, 1 one is, 2 no baseline for this instruction set, or for a ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dpfast.evidence.bench.measure import Row, machine, measured
from dpfast.evidence.bench.page import aligned
from dpfast.evidence.bench.rows import Arrays, key_stream, ours, small_calls

BASELINE = Path(__file__).with_name("baseline.json")
SIZE, ROUNDS, RUNS = 10_000_000, 7, 3
WORSE = 1.15
LAWS = (
    "DiscreteLaplace, scale 1",
    "DiscreteLaplace, scale 10",
    "DiscreteLaplace, scale 1e6",
    "DiscreteGaussian, sigma 10",
    "DiscreteGaussian, sigma 1e6",
    "Laplace, scale 10",
    "Gaussian, sigma 10",
)


def chosen(size: int) -> list[Row]:
    """One thread each: more threads need cores that nobody else uses."""
    a = Arrays(size)
    rows = [row for row in ours(a, 1) if row.name in LAWS]
    noise = "NumPy's unsafe Laplace, as many calls", lambda counts: partial(a.unsafe.as_written, "laplace", counts)
    return [*rows, key_stream(a), small_calls(a, 1, *noise), small_calls(a, 1_000, *noise)]


def verdict(ratios: Sequence[float], before: float | None) -> str:
    """A disturbance makes one run slower, a change of the code all of them."""
    if before is None:
        return "no baseline"
    if min(ratios) > WORSE * before:
        return "WORSE"
    return "better" if max(ratios) < before / WORSE else "same"


def show(found: dict[str, list[float]], was: dict[str, float]) -> list[str]:
    """Print a line for each ratio; return their verdicts."""
    verdicts = [verdict(ratios, was.get(name)) for name, ratios in found.items()]
    lines = [["time over the time of NumPy", "baseline", *["run"] * RUNS, "verdict"]]
    for (name, ratios), said in zip(found.items(), verdicts, strict=True):
        lines.append([name, *(f"{ratio:.4f}" if ratio else "" for ratio in (was.get(name), *ratios)), said])
    print("\n".join(aligned(lines)))
    return verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--update", action="store_true", help="write what is measured as the baseline of this machine")
    options = parser.parse_args(arguments)
    now = {"machine": machine(), "size": options.size, "rounds": options.rounds}
    isa = now["machine"]["instruction set"]
    baselines = json.loads(options.baseline.read_text()) if options.baseline.exists() else {}
    before = baselines.get(isa, {})
    if not before and not options.update:
        print(f"{options.baseline} has no ratios for {isa}: make them on a quiet machine with --update")
        return 2
    rows = chosen(options.size)
    runs = [measured(rows, options.rounds) for _ in range(RUNS)]  # within a run all rows take turns
    found = {row.name: [run[i].ratio for run in runs] for i, row in enumerate(rows)}
    for when, of in (("now", now), ("baseline", before)):
        if of:
            print(
                f"{when:10}{', '.join(f'{name} {fact}' for name, fact in of['machine'].items())}; {of['size']:,} counts"
            )
    verdicts = show(found, before.get("ratios", {}))
    if options.update:
        baselines[isa] = {
            **now,
            "ratios": {name: round(statistics.median(ratios), 5) for name, ratios in found.items()},
        }
        options.baseline.write_text(json.dumps(baselines, indent=1) + "\n")
        return 0
    return 1 if "WORSE" in verdicts else 2 if "no baseline" in verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
