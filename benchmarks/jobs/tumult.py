# SPDX-License-Identifier: Apache-2.0
"""Tumult Analytics, in an environment of its own: the same records, bounds and keys as engines.py.

python benchmarks/jobs/tumult.py SCRATCH KEYS ROUNDS COLD WARM
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tree
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)


def main(scratch: Path, keys: int, rounds: int, cold: Path, warm: Path) -> dict[str, Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    threads = len(os.sched_getaffinity(0))
    builder = SparkSession.builder.master(f"local[{threads}]").appName("tumult")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(4 * threads),
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def job(folder: Path, name: str) -> dict[str, Any]:
        views = spark.read.parquet(str(folder))
        rows = views.count()

        def run() -> None:
            session = Session.from_dataframe(PureDPBudget(1), "views", views, protected_change=AddRowsWithID("user"))
            query = (
                QueryBuilder("views")
                .enforce(MaxGroupsPerID("key", 4))
                .enforce(MaxRowsPerGroupPerID("key", 2))
                .groupby(KeySet.from_dataframe(spark.range(keys).withColumnRenamed("id", "key")))
                .count()
            )
            session.evaluate(query, PureDPBudget(1)).write.parquet(str(scratch / name))

        return {**tree.spent(run), "rows": rows}

    found: dict[str, Any] = {
        "engine": "Tumult Analytics",
        "version": f"tmlt.analytics {version('tmlt.analytics')}",
        "keys": keys,
    }
    try:
        found["cold"] = {**job(cold, "cold"), "cpu": tree.cpu()}
        found["warm"] = [job(warm, f"warm {i}") for i in range(rounds)]
    finally:
        spark.stop()
    return found


if __name__ == "__main__":
    scratch_, keys_, rounds_, *folders = sys.argv[1:]
    print(json.dumps(main(Path(scratch_), int(keys_), int(rounds_), *map(Path, folders))))
