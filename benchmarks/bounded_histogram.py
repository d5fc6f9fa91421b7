# SPDX-License-Identifier: Apache-2.0
"""Raw rows to bounded counts, and on to a release, beside pandas counting them; and the memory.

pandas does what people write today: it shuffles the rows, so that it keeps a random sample, caps
each pair by cumcount, and takes the first bins of each person. Each has one thread; times are the
process's own processor time.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dpfast
from dpfast.evidence.bench.measure import Reference, Row, Run, timed

VERSIONS = ("pandas",)
SIZE, ROUNDS = 2_000_000, 5
BINS, PARTITIONS, CAP = 1000, 5, 2
ALL = 10
ABOUT = (
    f"rows, twenty a person, {BINS} keys; at most {PARTITIONS} of a person and {CAP} rows in each; processor seconds"
)


def ours(keys: Any, people: Any, domain: Any) -> Any:
    return dpfast.bounded_histogram(
        keys, people, domain=domain, max_partitions=PARTITIONS, max_per_partition=CAP
    ).counts


def released(keys: Any, people: Any, domain: Any) -> Any:
    """From rows to what is published."""
    counts = dpfast.bounded_histogram(keys, people, domain=domain, max_partitions=PARTITIONS, max_per_partition=CAP)
    return counts.release(dpfast.DiscreteLaplace(1, counts.sensitivity), threads=1)


def other_ways(values: Any) -> dict[str, dict[str, Any]]:
    """How else rows are bounded, and summed."""
    rows, partitions, cap = {"max_contributions": ALL}, {"max_partitions": PARTITIONS}, {"max_per_partition": CAP}
    clamped = {"values": values, "lower": 0, "upper": 500}
    reals = {**clamped, "values": values * 0.37, "granularity": 2.0**-10}
    return {
        "rows in all": rows,
        "rows in all, all three caps": {**rows, **partitions, **cap},
        "sums of rows": {**clamped, **partitions, **cap},
        "sums of rows in all": {**clamped, **rows},
        "sums of rows in all, reals": {**reals, **rows},
        "sums of a person": {**clamped, **partitions},
    }


def pandas(keys: Any, people: Any, domain: Any) -> Any:
    import pandas as pd

    rows = pd.DataFrame({"person": people, "key": keys})
    rows = rows[rows["key"].isin(domain)].sample(frac=1)
    pairs = rows.drop_duplicates(["person", "key"])
    pairs = pairs[pairs.groupby("person").cumcount() < PARTITIONS]
    rows = rows.merge(pairs, on=["person", "key"])
    rows = rows[rows.groupby(["person", "key"]).cumcount() < CAP]
    return rows.groupby("key").size().reindex(domain, fill_value=0).to_numpy()


def peak(run: Run) -> tuple[float, object]:
    """A clock of the memory that Python and NumPy ask for at once."""
    tracemalloc.start()
    out = run()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, out


def to_a_release(name: str, keys: Any, people: Any, domain: Any) -> Row:
    """The row from records to noise, by the processor's time."""
    run = partial(released, keys, people, domain)
    return Row(name, run, len(keys), unit="row", clock=partial(timed, clock=time.process_time))


def integers(size: int) -> tuple[Any, Any, Any]:
    """Keys, people and the domain."""
    rng = np.random.default_rng(1)
    return rng.integers(0, BINS, size), rng.integers(0, max(1, size // 20), size), np.arange(BINS)


def rows(size: int) -> Iterator[Row]:
    import pandas as pd

    keys, people, domain = integers(size)
    persons = max(1, size // 20)
    spread = np.random.default_rng(2).integers(-(2**63), 2**63 - 1, persons)
    towns, names = np.array([f"town {i}" for i in range(BINS)]), np.array([f"person-{i:07}" for i in range(persons)])
    clock = partial(timed, clock=time.process_time)
    texts = pd.Series(towns[keys]), pd.Series(names[people]), towns
    for name, case in {
        "integers": (keys, people, domain),
        "integers, ids over all 64 bits": (keys, spread[people], domain),
        "strings of pandas": texts,
        "categoricals of pandas": (texts[0].astype("category"), texts[1].astype("category"), towns),
        "lists of strings": (texts[0].tolist(), texts[1].tolist(), towns.tolist()),
    }.items():
        run, reference = partial(ours, *case), Reference("pandas", partial(pandas, *case), size)
        assert abs(int(run().sum()) - int(reference.run().sum())) < size / 100
        row = partial(Row, counts=size, against=reference, who="dpfast's counts", unit="row", chart=True)
        yield row(name, run, clock=clock)
        yield row(f"{name}: memory", run, clock=peak, measures="B")
        if "integers" in name:
            yield to_a_release(f"{name}: to a release", *case)
    for name, options in other_ways(np.random.default_rng(3).integers(-100, 1000, size)).items():
        run = partial(dpfast.bounded_histogram, keys, people, domain=domain, **options)
        yield Row(name, run, size, who="dpfast's counts", unit="row", clock=clock)
    two, domains = (keys // 50, keys % 50), (range(BINS // 50), range(50))
    run = partial(
        dpfast.bounded_histogram, two, people, domain=domains, max_partitions=PARTITIONS, max_per_partition=CAP
    )
    yield Row("two columns of integers", run, size, who="dpfast's counts", unit="row", clock=clock)
