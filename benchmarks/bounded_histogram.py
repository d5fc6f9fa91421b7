# SPDX-License-Identifier: Apache-2.0
"""Raw rows to bounded counts: dpfast beside pandas doing what people write today; and the memory for it.

    python benchmarks/bounded_histogram.py [--rows N] [--rounds R]

pandas shuffles the rows, so that those kept are a random sample, caps each pair by cumcount, and takes the first bins of each
person. One thread each, in turn, in one process; times are of the processor, for others may use it too.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dpfast
from dpfast.bench.measure import machine

BINS, PARTITIONS, CAP = 1000, 5, 2


def ours(keys: Any, people: Any, domain: Any) -> Any:
    return dpfast.bounded_histogram(
        keys, people, domain=domain, max_partitions=PARTITIONS, max_per_partition=CAP
    ).counts


def pandas(keys: Any, people: Any, domain: Any) -> Any:
    rows = pd.DataFrame({"person": people, "key": keys})
    rows = rows[rows["key"].isin(domain)].sample(frac=1)
    pairs = rows.drop_duplicates(["person", "key"])
    pairs = pairs[pairs.groupby("person").cumcount() < PARTITIONS]
    rows = rows.merge(pairs, on=["person", "key"])
    rows = rows[rows.groupby(["person", "key"]).cumcount() < CAP]
    return rows.groupby("key").size().reindex(domain, fill_value=0).to_numpy()


def timed(run: Callable[..., Any], *given: Any) -> float:
    begin = time.process_time()
    run(*given)
    return time.process_time() - begin


def peak(run: Callable[..., Any], *given: Any) -> int:
    tracemalloc.start()
    run(*given)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    n, rng = given.rows, np.random.default_rng(1)
    keys, people = rng.integers(0, BINS, n), rng.integers(0, n // 20, n)
    spread = rng.integers(-(2**63), 2**63 - 1, n // 20)
    towns, names = np.array([f"town {i}" for i in range(BINS)]), np.array([f"person-{i:07}" for i in range(n // 20)])
    texts = pd.Series(towns[keys]), pd.Series(names[people]), towns
    cases = {
        "integers": (keys, people, np.arange(BINS)),
        "integers, ids over all 64 bits": (keys, spread[people], np.arange(BINS)),
        "strings of pandas": texts,
        "categoricals of pandas": (texts[0].astype("category"), texts[1].astype("category"), towns),
        "lists of strings": (texts[0].tolist(), texts[1].tolist(), towns.tolist()),
    }
    print(f"{n:,} rows of {n // 20:,} people, {BINS} keys; at most {PARTITIONS} each, {CAP} rows in one")
    print("| columns | dpfast, million rows a minute | pandas | faster | dpfast, bytes a row | pandas |")
    print("| --- | --: | --: | --: | --: | --: |")
    for name, case in cases.items():
        assert abs(int(ours(*case).sum()) - int(pandas(*case).sum())) < n / 100
        times = [(timed(ours, *case), timed(pandas, *case)) for _ in range(given.rounds)]
        us, them = (n * 60e-6 / statistics.median(t) for t in zip(*times, strict=True))
        faster = statistics.median(b / a for a, b in times)
        memory = [f"{peak(run, *case) / n:.1f}" for run in (ours, pandas)]
        print(f"| {name} | {us:,.0f} | {them:,.0f} | {faster:.1f} × | {memory[0]} | {memory[1]} |")
    m = machine()
    print(
        f"Processor seconds, medians of {given.rounds} rounds. {m['processor']}, {m['instruction set']}; NumPy {np.__version__}, pandas {pd.__version__}"
    )


if __name__ == "__main__":
    main()
