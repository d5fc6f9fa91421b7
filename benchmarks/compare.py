# SPDX-License-Identifier: Apache-2.0
"""Fails when dpfast has become slower: a chosen ratio more than 15 % worse than the baseline in each of three runs.

    python benchmarks/compare.py [--size N] [--rounds R] [--baseline FILE] [--update]

Exit codes: 0 none is, 1 some ratio is, 2 there is no baseline for this instruction set, or not for every ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpfast.bench.measure import Row, machine, measured
from dpfast.bench.rows import Arrays, key_stream, ours, small_calls

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
    """One thread each: threads need cores that nobody else wants."""
    a = Arrays(size)
    rows = [row for row in ours(a, 1) if row.name in LAWS]
    return [*rows, key_stream(a), small_calls(a, 1), small_calls(a, 1_000)]


def measure(size: int, rounds: int) -> dict[str, list[float]]:
    """Each ratio, to what NumPy takes for its unsafe noise, in each run; within a run all rows take turns."""
    rows = chosen(size)
    runs = [measured(rows, rounds, memory=False) for _ in range(RUNS)]
    return {row.name: [run[i].ratio for run in runs] for i, row in enumerate(rows)}


def verdict(ratios: Sequence[float], before: float | None) -> str:
    """A disturbance makes one run slower, a change of the code all of them."""
    if before is None:
        return "no baseline"
    if min(ratios) > WORSE * before:
        return "WORSE"
    return "better" if max(ratios) < before / WORSE else "same"


def show(found: dict[str, list[float]], before: dict[str, float]) -> list[str]:
    verdicts = []
    print(f"{'time over the time of NumPy':34}{'baseline':>10}{'three runs':>30}")
    for name, ratios in found.items():
        verdicts.append(verdict(ratios, before.get(name)))
        was = f"{before[name]:.4f}" if name in before else ""
        print(f"{name:34}{was:>10}" + "".join(f"{ratio:10.4f}" for ratio in ratios) + f"  {verdicts[-1]}")
    return verdicts


def described(facts: dict[str, str]) -> str:
    names = ("dpfast", "Python", "NumPy", "numba", "load", "date")
    return ", ".join([facts["processor"], facts["instruction set"], *(f"{name} {facts[name]}" for name in names)])


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--update", action="store_true", help="write what is measured as the baseline of this machine")
    options = parser.parse_args(arguments)
    facts, baselines = machine(), load(options.baseline)
    isa = facts["instruction set"]
    before = baselines.get(isa, {})
    if not before and not options.update:
        print(f"{options.baseline} has no ratios for {isa}: make them on a quiet machine with --update")
        return 2
    found = measure(options.size, options.rounds)
    print(f"now       {described(facts)}; {options.size:,} counts")
    if before:
        print(f"baseline  {described(before['machine'])}; {before['size']:,} counts")
    verdicts = show(found, before.get("ratios", {}))
    if options.update:
        ratios = {name: round(statistics.median(runs), 5) for name, runs in found.items()}
        baselines[isa] = {"machine": facts, "size": options.size, "rounds": options.rounds, "ratios": ratios}
        options.baseline.write_text(json.dumps(baselines, indent=1) + "\n")
        return 0
    return 1 if "WORSE" in verdicts else 2 if "no baseline" in verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
