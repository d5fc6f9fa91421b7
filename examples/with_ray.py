# SPDX-License-Identifier: Apache-2.0
"""Page views on Ray: the four methods of an engine, and a release with them."""

import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import dpfast
from dpfast.engines import jobs


class Cluster:
    """`jobs.Engine` on Ray. Rows are a ray.data.Dataset; units are counted in so many shards."""

    def __init__(self, shards: int = 8) -> None:
        self.shards = max(shards, 2)

    def schema(self, rows: Any) -> pa.Schema:
        return rows.schema().base_schema

    def everywhere(self, check: Any) -> list[Any]:
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        pinned = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        return got([run.options(scheduling_strategy=each).remote(check) for each in pinned])

    def freeze(self, rows: Any, bound: jobs.Bound, freeze: jobs.Freeze) -> list[tuple[int, str]]:
        blocks, shards = bound.plan.blocks, self.shards
        many = max(min(blocks, shards), 2)
        cuts = [scatter.options(num_returns=shards).remote(part, bound, shards) for part in rows.to_arrow_refs()]
        partial = [count.options(num_returns=many).remote(bound, many, *parts) for parts in zip(*cuts, strict=True)]
        of_blocks = enumerate(zip(*partial, strict=True))
        frozen = [write.remote(freeze, range(i, blocks, many), *parts) for i, parts in of_blocks]
        return [each for some in got(frozen) for each in some]

    def run(self, task: jobs.Task, blocks: Iterable[int]) -> list[Any]:
        return got([run.remote(task.only(block), block) for block in blocks])


def got(sent: list[Any]) -> list[Any]:
    """The results; an error of dpfast as itself, not as Ray's, which has a worker's traceback."""
    try:
        return ray.get(sent)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


@ray.remote
def scatter(rows: pa.Table, bound: jobs.Bound, shards: int) -> list[pa.Table]:
    return jobs.scatter(rows.select(bound.plan.columns), bound.plan.unit, shards, bound.chooser)


@ray.remote
def count(bound: jobs.Bound, many: int, *parts: pa.Table) -> list[pa.Table]:
    partial = bound(parts)
    return jobs.cut(partial, partial["block"].to_numpy() % many, range(many))


@ray.remote
def write(freeze: jobs.Freeze, blocks: range, *parts: pa.Table) -> list[tuple[int, str]]:
    return freeze.all(blocks, pa.concat_tables(parts))


@ray.remote
def run(task: Any, *block: int) -> Any:
    return task(*block)


if __name__ == "__main__":
    home = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    views = pa.table({"user": rng.integers(0, 5000, 60_000), "page": rng.zipf(1.4, 60_000) % 100_000})
    dpfast.KeyFile.create(home / "views.key")  # on the command line: dpfast key create views.key
    ledger = dpfast.Ledger(home / "budget.db", epsilon=3, delta=0, create=True)
    with ray.init(num_cpus=2, include_dashboard=False):
        rows = ray.data.from_arrow([views.slice(15_000 * i, 15_000) for i in range(4)])
        warnings.simplefilter("ignore", dpfast.errors.KeptStageWarning)  # the second try takes the stage of the first
        for _ in range(2):  # the second time as after a crash: the same bytes, and no charge
            key = dpfast.KeyFile(home / "views.key").derive("views 2026-11")
            counts = jobs.bounded_counts(rows, unit="user", by="page", domain=range(100_000), max_partitions=10,
                                         max_per_partition=1, key=key, stage=home / "stage", engine=Cluster())  # fmt: skip
            mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=counts.sensitivity)
            jobs.release(counts, mechanism, key=key, ledger=ledger, to=home / "out", resume=True, engine=Cluster())
        jobs.verify(home / "out", counts, mechanism, key=key, engine=Cluster())
    print(f"95 %: each within ±{mechanism.interval()}; spent {ledger.spent}")
