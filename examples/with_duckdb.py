# SPDX-License-Identifier: Apache-2.0
"""Page views in DuckDB, out of core: rows of people, and a table that is counted already."""

import tempfile
import warnings
from pathlib import Path

import duckdb

import dpfast
from dpfast.engines import duckdb as dp

home = Path(tempfile.mkdtemp())
dpfast.KeyFile.create(home / "views.key")  # on the command line: dpfast key create views.key
ledger = dpfast.Ledger(home / "budget.db", epsilon=3, delta=0, create=True)
key = dpfast.KeyFile(home / "views.key")

connection = duckdb.connect(home / "views.duckdb")
connection.execute("SET memory_limit = '500MB'")  # beyond it DuckDB uses its temp_directory
connection.execute("""
    CREATE TABLE views AS
    SELECT range % 5000 AS person, (hash(range) % 90_000)::BIGINT AS page FROM range(200_000)
""")

# Rows: each person counts at most once for each of at most 10 pages. Each page gets a number.
first = key.derive("views 2026-11")
counts = dp.bounded_counts(connection.table("views"), unit="person", by="page", domain=range(90_000), max_partitions=10,
                           max_per_partition=1, key=first, stage=home / "stage")  # fmt: skip
mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=counts.sensitivity)
warnings.simplefilter("ignore", dpfast.errors.KeptStageWarning)  # the second try takes the stage of the first
for _ in range(2):  # the second time as after a crash: the same bytes, and no charge
    dp.release(counts, mechanism, key=first, ledger=ledger, to=home / "views", resume=True)
dp.verify(home / "views", counts, mechanism, key=first)

# Counts that are there already, of all groups that can be: a person changes one of them by one.
groups = connection.sql("""
    SELECT range AS cohort, count(person) AS people
    FROM range(24) LEFT JOIN (SELECT DISTINCT person FROM views) ON person % 24 = range GROUP BY range
""")
noisy = dp.release(groups, dpfast.DiscreteLaplace(1, 1), by="cohort", column="people", key=key.derive("cohorts 2026-11"),
                   ledger=ledger, stage=home / "cohorts stage", to=home / "cohorts")  # fmt: skip
print(noisy.filter("cohort < 6"))
print(f"95 %: each page within ±{mechanism.interval()}; spent {ledger.spent}")
